-- pq_trust.sql - may this session run what lies in the schema $1? Whoever owns a function, a type, an operator or a trigger there
-- has its code run with the rights of the caller, and any role that may CREATE in the database can own a schema before we come. So the
-- owner has to be us, a superuser, the role that the URL names ($2, or empty), or without that the owner of the database, unless we
-- are a superuser ourselves. decisions/0178 has the reasons.
--
-- Catalogues are read and nothing of the schema is run. An expression: NULL if all is well or there is no such schema, else what is
-- wrong and, on a second line, what resolves it. To be run with the search_path pg_catalog. What has no owner in pg_shdepend belongs
-- to the first superuser.
(WITH home AS (SELECT n.oid, n.nspowner, n.nspacl, n.nspname FROM pg_namespace AS n WHERE n.nspname = $1),
      base AS (SELECT d.oid, d.datdba FROM pg_database AS d WHERE d.datname = current_database()),
      trusted AS (SELECT r.oid FROM pg_roles AS r, base
                  WHERE r.rolsuper OR r.rolname = current_user OR r.rolname = $2
                        OR $2 = '' AND current_setting('is_superuser') = 'off'
                           AND (r.oid = base.datdba OR r.rolname = 'pg_database_owner')),
      objects AS (SELECT d.classid, d.objid, coalesce(s.refobjid, 10::oid) AS owner
                  FROM home, base, pg_depend AS d LEFT JOIN pg_shdepend AS s
                       ON s.dbid = (SELECT b.oid FROM base AS b) AND s.classid = d.classid AND s.objid = d.objid AND s.objsubid = 0
                          AND s.refclassid = 'pg_authid'::regclass AND s.deptype = 'o'
                  WHERE d.refclassid = 'pg_namespace'::regclass AND d.refobjid = home.oid
                        AND d.classid <> 'pg_default_acl'::regclass)
 SELECT coalesce(
     (SELECT format(E'the schema %I belongs to the role %I, whose functions would run with the rights of %I\nsay owner=%s in the URL'
                    ' if that role keeps the locks and marks here; if not, DROP SCHEMA %1$I CASCADE', home.nspname,
                    pg_get_userbyid(home.nspowner), current_user, pg_get_userbyid(home.nspowner))
      FROM home WHERE home.nspowner NOT IN (SELECT t.oid FROM trusted AS t)),
     (SELECT format(E'%s may create functions in the schema %I, and they would run with the rights of %I\n'
                    'REVOKE CREATE ON SCHEMA %2$I FROM %1$s',
                    CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END, home.nspname, current_user)
      FROM home, aclexplode(home.nspacl) AS a
      WHERE a.privilege_type = 'CREATE' AND a.grantee NOT IN (SELECT t.oid FROM trusted AS t) LIMIT 1),
     (SELECT format(E'%s belongs to the role %I, and may run its code with the rights of %I\nDROP %1$s',
                    pg_describe_object(o.classid, o.objid, 0), pg_get_userbyid(o.owner), current_user)
      FROM objects AS o WHERE o.owner NOT IN (SELECT t.oid FROM trusted AS t) LIMIT 1),
     (SELECT format(E'the trigger %I on %s runs a function of the role %I with the rights of %I\nDROP TRIGGER %1$I ON %2$s',
                    t.tgname, t.tgrelid::regclass, pg_get_userbyid(p.proowner), current_user)
      FROM objects AS o JOIN pg_trigger AS t ON t.tgrelid = o.objid JOIN pg_proc AS p ON p.oid = t.tgfoid
      WHERE o.classid = 'pg_class'::regclass AND NOT t.tgisinternal AND p.proowner NOT IN (SELECT t.oid FROM trusted AS t) LIMIT 1)))
