-- guard.sql - tables and functions with which PostgreSQL refuses the writes of a lock's former holders.
--
-- Any program calls them inside its own transaction, with the token that its lock gave it:
--
--     BEGIN;
--     SELECT pawl.admit('orders', 34);           -- an error (SQLSTATE PW001) if a greater one has been here
--     UPDATE orders SET ... ;                    -- stands or falls with the admission
--     COMMIT;
--
-- admit locks the mark of its resource until the transaction ends. Whoever comes meanwhile waits, and then compares with
-- what was committed. A transaction that is rolled back takes its mark back together with its writes.
--
-- Call admit first, in a statement of its own: what the same statement reads may be older than the barrier.
--
-- For resources that have a version instead of a lock (a resource is used one way or the other, not both):
--
--     SELECT version, data FROM pawl.look('prices');     -- say 7
--     SELECT pawl.swap('prices', 7, 'new data');         -- 8; an error (PW001) if it is no longer 7
--
-- and pawl.swap('prices', 7) without data raises the version in the transaction that writes tables of your own.
--
-- The script may be run again; it is one transaction, and takes nothing away but rights of PUBLIC. It is run by the owner
-- of the schema. Nobody else may use what it makes until that is granted (docs/guards/postgres.md):
--
--     GRANT USAGE ON SCHEMA pawl TO app;
--     GRANT EXECUTE ON FUNCTION pawl.admit(text, bigint), pawl.put(text, bigint, bytea), pawl.get(text, bigint) TO app;
--
-- SQLSTATEs of our own: PW001, the token or the version is stale; PW002, this transaction has not admitted a token.

BEGIN;
SET LOCAL client_min_messages = warning;
SET LOCAL search_path = pg_catalog; -- whatever the caller's was

-- Two first users, one after the other. And nothing of ours among what other roles own, or may make: our functions run with our
-- rights, another role's tables could have triggers, and its operators would be found by our functions.
DO $$
DECLARE
    owner name;
    newer integer;
    wrong text;
BEGIN
    PERFORM pg_advisory_xact_lock(x'7061776c'::integer, hashtext(trim('"' from 'pawl'))); -- the same as the engine's
    IF to_regnamespace('pawl') IS NULL THEN
        CREATE SCHEMA pawl;
    END IF;
    SELECT pg_get_userbyid(n.nspowner) INTO owner FROM pg_namespace n WHERE n.oid = to_regnamespace('pawl');
    IF owner <> current_user THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('the schema pawl belongs to %I, and we are %I', owner, current_user),
            HINT = format('Run this as %I.', owner);
    END IF;
    SELECT coalesce(
        (SELECT format('%s may create objects in the schema pawl: REVOKE CREATE ON SCHEMA pawl FROM %1$s',
                       CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END)
         FROM pg_namespace n, aclexplode(n.nspacl) a
         WHERE n.oid = to_regnamespace('pawl') AND a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner
               AND a.grantee NOT IN (SELECT r.oid FROM pg_roles r WHERE r.rolsuper) LIMIT 1),
        (SELECT format('%s in the schema pawl belongs to the role %I: drop it', pg_describe_object(d.classid, d.objid, 0), r.rolname)
         FROM pg_namespace n JOIN pg_depend d ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid
              JOIN pg_shdepend s ON s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
                                    AND s.classid = d.classid AND s.objid = d.objid AND s.objsubid = 0 AND s.deptype = 'o'
              JOIN pg_roles r ON r.oid = s.refobjid
         WHERE n.oid = to_regnamespace('pawl') AND d.classid <> 'pg_default_acl'::regclass AND NOT r.rolsuper
               AND r.oid <> n.nspowner LIMIT 1))
    INTO wrong;
    IF wrong IS NOT NULL THEN
        RAISE insufficient_privilege USING MESSAGE = wrong, HINT = 'Only the owner of the schema may create in it.';
    END IF;
    -- Read, not run: whose is it?
    SELECT substring(p.prosrc from '^SELECT ([0-9]{1,9})$')::integer INTO newer FROM pg_proc p
        WHERE p.oid = to_regprocedure('pawl.guard_version()');
    IF newer > 1 THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('the guard here is of version %s, which is newer than this script, 1', newer);
    END IF;
END
$$;

-- ---- tables --------------------------------------------------------------------------------------------------------

-- The greatest token of each resource, and which transaction admitted it last. Room for updates in place (HOT).
CREATE TABLE IF NOT EXISTS pawl.guard_mark (
    resource text COLLATE "C" NOT NULL,
    token bigint NOT NULL,
    xact xid8 NOT NULL,
    swap bigint, -- the id of the last swap_once
    CONSTRAINT guard_mark_pkey PRIMARY KEY (resource),
    CONSTRAINT guard_mark_token CHECK (token > 0)
) WITH (fillfactor = 70);
-- An older script made it without that column. Only then: ALTER TABLE waits for everybody who has admitted.
DO $$
BEGIN
    IF NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = 'pawl.guard_mark'::regclass AND a.attname = 'swap') THEN
        ALTER TABLE pawl.guard_mark ADD COLUMN swap bigint;
    END IF;
END
$$;

-- Below it every token is refused for resources without a mark. One row.
CREATE TABLE IF NOT EXISTS pawl.guard_floor (
    one boolean NOT NULL DEFAULT true,
    floor bigint NOT NULL,
    CONSTRAINT guard_floor_pkey PRIMARY KEY (one),
    CONSTRAINT guard_floor_one CHECK (one),
    CONSTRAINT guard_floor_floor CHECK (floor >= 0)
);
INSERT INTO pawl.guard_floor (floor) VALUES (0) ON CONFLICT DO NOTHING;

-- What pawl.put keeps. It outlives its mark: pawl.forget and pawl.prune leave it.
CREATE TABLE IF NOT EXISTS pawl.guard_data (
    resource text COLLATE "C" NOT NULL,
    data bytea NOT NULL,
    CONSTRAINT guard_data_pkey PRIMARY KEY (resource)
);

-- ---- refusals ------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION pawl.guard_version() RETURNS integer
LANGUAGE sql IMMUTABLE AS 'SELECT 1';

-- A resource is named like a lock: 1 to 255 bytes without control characters.
CREATE OR REPLACE FUNCTION pawl.guard_check(resource text, token bigint) RETURNS void
LANGUAGE plpgsql IMMUTABLE SET search_path = pawl, pg_temp AS $$
BEGIN
    IF resource IS NULL OR octet_length(resource) NOT BETWEEN 1 AND 255 OR resource ~ E'[\\x01-\\x1f\\x7f-\\x9f]' THEN
        RAISE invalid_parameter_value USING
            MESSAGE = 'the name of a resource has 1 to 255 bytes and no control characters';
    END IF;
    IF token IS NULL OR token <= 0 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('%s is not a token: it must be > 0', coalesce(token::text, 'NULL'));
    END IF;
END
$$;

-- Tokens of one store of locks are never so far apart, as the library says too: a counter that began anew, or another engine.
CREATE OR REPLACE FUNCTION pawl.guard_stale(resource text, token bigint, above bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pawl, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'PW001',
        MESSAGE = format('token %s is too old for "%s": %s has been admitted', token, resource, above),
        DETAIL = format('The greatest is %s.', above),
        HINT = CASE WHEN above / 1024 > token
                    THEN 'The two tokens come from different stores of locks. If the lock has moved, see pawl forget.'
                    ELSE 'Another one has had the lock since. Roll back, and acquire the lock again.' END;
END
$$;

-- ---- admission -----------------------------------------------------------------------------------------------------

-- Admits the token: from now on all smaller ones are refused. Returns the greatest before; 0: none was known.
--
-- The mark is written even if the token is the same. So a transaction at REPEATABLE READ or SERIALIZABLE, whose snapshot
-- is older than somebody's admission, fails with 40001 instead of reading what was before.
CREATE OR REPLACE FUNCTION pawl.admit(resource text, token bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pawl, pg_temp AS $$
DECLARE
    before bigint;
    lowest bigint;
BEGIN
    PERFORM guard_check(resource, token);
    -- A mark that a crash forgets is none: the commit waits for the disk. Holds until this transaction ends.
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true);
    END IF;
    LOOP
        SELECT m.token INTO before FROM guard_mark m WHERE m.resource = admit.resource FOR NO KEY UPDATE;
        IF FOUND THEN
            IF before > token THEN
                PERFORM guard_stale(resource, token, before);
            END IF;
            UPDATE guard_mark m SET token = admit.token, xact = pg_current_xact_id()
                WHERE m.resource = admit.resource;
            RETURN before;
        END IF;
        INSERT INTO guard_mark (resource, token, xact) VALUES (admit.resource, admit.token, pg_current_xact_id())
            ON CONFLICT ON CONSTRAINT guard_mark_pkey DO NOTHING;
        EXIT WHEN FOUND; -- else another one has been faster
    END LOOP;
    -- The mark may have been pruned a moment ago. The lock makes an old snapshot a serialization failure, and lets no
    -- floor rise between this look and our commit.
    SELECT f.floor INTO lowest FROM guard_floor f FOR SHARE;
    IF lowest IS NULL THEN
        RAISE data_corrupted USING MESSAGE = 'the floor of the guard is missing: its only row was deleted';
    END IF;
    IF token < lowest THEN
        PERFORM guard_stale(resource, token, lowest);
    END IF;
    RETURN 0;
END
$$;

-- Admits, and replaces the data. Returns the greatest token before.
CREATE OR REPLACE FUNCTION pawl.put(resource text, token bigint, data bytea) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pawl, pg_temp AS $$
DECLARE
    before bigint := admit(resource, token);
BEGIN
    IF data IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'there are no data: they are NULL';
    END IF;
    INSERT INTO guard_data AS d (resource, data) VALUES (put.resource, put.data)
        ON CONFLICT ON CONSTRAINT guard_data_pkey DO UPDATE SET data = excluded.data;
    RETURN before;
END
$$;

-- Admits, and reads. data is NULL if there are none yet; before is the greatest token before.
CREATE OR REPLACE FUNCTION pawl.get(resource text, token bigint, OUT before bigint, OUT data bytea)
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pawl, pg_temp AS $$
BEGIN
    before := admit(resource, token);
    SELECT d.data INTO data FROM guard_data d WHERE d.resource = get.resource;
END
$$;

-- The greatest token admitted; 0: none is known. Admits nothing, and promises nothing about the next moment.
CREATE OR REPLACE FUNCTION pawl.greatest(resource text) RETURNS bigint
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pawl, pg_temp AS $$
    SELECT coalesce((SELECT m.token FROM guard_mark m WHERE m.resource = $1), 0)
$$;

-- ---- versions ------------------------------------------------------------------------------------------------------

-- Later than version 1 of the guard, and beside it: nothing above changes, and an older pawl does not miss or mind them.

CREATE OR REPLACE FUNCTION pawl.guard_moved(resource text, expected bigint, version bigint) RETURNS void
LANGUAGE plpgsql SET search_path = pawl, pg_temp AS $$
BEGIN
    RAISE EXCEPTION USING
        ERRCODE = 'PW001',
        MESSAGE = format('"%s" is not at version %s but at %s', resource, expected, version),
        DETAIL = format('The greatest is %s.', version),
        HINT = 'Another one has changed it since. Roll back, and read it again.';
END
$$;

-- What swap and swap_once share. A swap with an id that finds the version it makes, made by that id, has been done before.
CREATE OR REPLACE FUNCTION pawl.guard_swap(resource text, expected bigint, id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SET search_path = pawl, pg_temp AS $$
DECLARE
    version bigint;
    made bigint;
BEGIN
    IF expected IS NULL OR expected < 0 OR expected = 9223372036854775807 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('%s is not a version: it must be >= 0 and < 2^63 - 1', coalesce(expected::text, 'NULL'));
    END IF;
    PERFORM guard_check(resource, expected + 1);
    IF current_setting('synchronous_commit') = 'off' THEN
        PERFORM set_config('synchronous_commit', 'on', true); -- as in admit
    END IF;
    LOOP
        SELECT m.token, m.swap INTO version, made FROM guard_mark m WHERE m.resource = guard_swap.resource
            FOR NO KEY UPDATE;
        IF FOUND THEN
            IF version = expected + 1 AND made = id THEN
                RETURN version;
            END IF;
            IF version <> expected THEN
                PERFORM guard_moved(resource, expected, version);
            END IF;
            UPDATE guard_mark m SET token = expected + 1, xact = pg_current_xact_id(), swap = guard_swap.id
                WHERE m.resource = guard_swap.resource;
            RETURN expected + 1;
        END IF;
        INSERT INTO guard_mark (resource, token, xact, swap)
            VALUES (guard_swap.resource, expected + 1, pg_current_xact_id(), guard_swap.id)
            ON CONFLICT ON CONSTRAINT guard_mark_pkey DO NOTHING;
        EXIT WHEN FOUND; -- else another one has been faster
    END LOOP;
    SELECT f.floor INTO version FROM guard_floor f FOR SHARE;
    IF version IS NULL THEN
        RAISE data_corrupted USING MESSAGE = 'the floor of the guard is missing: its only row was deleted';
    END IF;
    IF version <> expected THEN
        PERFORM guard_moved(resource, expected, version);
    END IF;
    RETURN expected + 1;
END
$$;

-- Raises the version by one if it is the one expected; else an error. Returns the new one. The version is the mark, and
-- where there is none the floor: what was pruned does not begin anew. Like admit it locks the mark until the end of the
-- transaction, and makes an older snapshot a serialization failure.
CREATE OR REPLACE FUNCTION pawl.swap(resource text, expected bigint) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pawl, pg_temp AS $$
    SELECT guard_swap($1, $2, NULL)
$$;

-- The same, and replaces the data.
CREATE OR REPLACE FUNCTION pawl.swap(resource text, expected bigint, data bytea) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pawl, pg_temp AS $$
DECLARE
    version bigint := swap(resource, expected);
BEGIN
    IF data IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'there are no data: they are NULL';
    END IF;
    INSERT INTO guard_data AS d (resource, data) VALUES (swap.resource, swap.data)
        ON CONFLICT ON CONSTRAINT guard_data_pkey DO UPDATE SET data = excluded.data;
    RETURN version;
END
$$;

-- The same under an id, random and of this swap alone, which is kept beside the version: sent again after its answer was
-- lost it returns the version that it has made, and changes nothing.
CREATE OR REPLACE FUNCTION pawl.swap_once(resource text, expected bigint, data bytea, id bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pawl, pg_temp AS $$
DECLARE
    version bigint;
BEGIN
    IF id IS NULL OR data IS NULL THEN
        RAISE null_value_not_allowed USING MESSAGE = 'there are no data or no id: they are NULL';
    END IF;
    version := guard_swap(resource, expected, id);
    INSERT INTO guard_data AS d (resource, data) VALUES (swap_once.resource, swap_once.data)
        ON CONFLICT ON CONSTRAINT guard_data_pkey DO UPDATE SET data = excluded.data;
    RETURN version;
END
$$;

-- Reads the data and their version, of one moment, and admits nothing. data is NULL if there are none yet.
CREATE OR REPLACE FUNCTION pawl.look(resource text, OUT version bigint, OUT data bytea)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pawl, pg_temp AS $$
    SELECT coalesce((SELECT m.token FROM guard_mark m WHERE m.resource = $1), (SELECT f.floor FROM guard_floor f)),
        (SELECT d.data FROM guard_data d WHERE d.resource = $1)
$$;

-- ---- forgetting ----------------------------------------------------------------------------------------------------

-- Admits, then forgets the mark, not the data: every token that is not below the floor passes again. Only when no older
-- holder can be left. False if there was no mark.
CREATE OR REPLACE FUNCTION pawl.forget(resource text, token bigint) RETURNS boolean
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pawl, pg_temp AS $$
DECLARE
    before bigint;
    lowest bigint;
BEGIN
    PERFORM guard_check(resource, token);
    SELECT m.token INTO before FROM guard_mark m WHERE m.resource = forget.resource FOR UPDATE;
    IF NOT FOUND THEN
        SELECT f.floor INTO lowest FROM guard_floor f;
        IF token < lowest THEN
            PERFORM guard_stale(resource, token, lowest);
        END IF;
        RETURN false;
    END IF;
    IF before > token THEN
        PERFORM guard_stale(resource, token, before);
    END IF;
    DELETE FROM guard_mark m WHERE m.resource = forget.resource;
    RETURN true;
END
$$;

-- Forgets every mark that is not above floor, and from now on refuses tokens below it where no mark is known: so nothing
-- that was refused before ever passes. Marks that a transaction holds at this moment stay for the next time, so that nobody
-- waits for them with the floor locked. How many were forgotten.
CREATE OR REPLACE FUNCTION pawl.prune(floor bigint) RETURNS bigint
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pawl, pg_temp AS $$
DECLARE
    pruned bigint;
BEGIN
    IF floor IS NULL OR floor <= 0 THEN
        RAISE invalid_parameter_value USING
            MESSAGE = format('%s is not a token: it must be > 0', coalesce(floor::text, 'NULL'));
    END IF;
    UPDATE guard_floor f SET floor = prune.floor WHERE f.floor < prune.floor;
    IF NOT FOUND THEN
        PERFORM FROM guard_floor f FOR UPDATE; -- no admission of an unknown resource is under way
    END IF;
    WITH old AS (SELECT m.resource FROM guard_mark m WHERE m.token <= prune.floor FOR UPDATE SKIP LOCKED)
    DELETE FROM guard_mark m USING old WHERE m.resource = old.resource;
    GET DIAGNOSTICS pruned = ROW_COUNT;
    RETURN pruned;
END
$$;

-- At most so many marks whose resource begins with prefix and comes behind after.
CREATE OR REPLACE FUNCTION pawl.guard_list(prefix text, after text, most integer)
RETURNS TABLE (resource text, token bigint)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pawl, pg_temp AS $$
    SELECT m.resource, m.token FROM guard_mark m WHERE m.resource ^@ $1 AND m.resource > $2
    ORDER BY m.resource LIMIT $3
$$;

-- ---- tables that fence themselves ----------------------------------------------------------------------------------

-- The token that this transaction has admitted for the resource; NULL: none.
CREATE OR REPLACE FUNCTION pawl.admitted(resource text) RETURNS bigint
LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pawl, pg_temp AS $$
    SELECT m.token FROM guard_mark m WHERE m.resource = $1 AND m.xact = pg_current_xact_id_if_assigned()
$$;

CREATE OR REPLACE FUNCTION pawl.guard_demand(resource text, token bigint, what text) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pawl, pg_temp AS $$
DECLARE
    mine bigint := admitted(resource);
BEGIN
    IF mine IS NULL THEN
        RAISE EXCEPTION USING
            ERRCODE = 'PW002',
            MESSAGE = format('%s: this transaction has not admitted a token for "%s"', what, resource),
            HINT = format('First: SELECT pawl.admit(%L, TOKEN).', resource);
    END IF;
    IF mine < token THEN
        PERFORM guard_stale(resource, mine, token);
    END IF;
END
$$;

-- What fence_table asks of one write, for who has no other right. old_resource NULL: a new row; new_resource and new_token
-- NULL: one that goes.
CREATE OR REPLACE FUNCTION pawl.guard_fence(what text, old_resource text, old_token bigint, new_resource text,
                                            new_token bigint) RETURNS void
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pawl, pg_temp AS $$
BEGIN
    IF new_resource IS NULL AND new_token IS NULL THEN
        PERFORM guard_demand(old_resource, coalesce(old_token, 0), what);
        RETURN;
    END IF;
    PERFORM guard_check(new_resource, new_token);
    IF new_token < old_token THEN
        PERFORM guard_stale(new_resource, new_token, old_token);
    ELSIF new_token = old_token OR new_resource <> old_resource THEN
        PERFORM guard_demand(old_resource, old_token, what);
    END IF;
    PERFORM admit(new_resource, new_token);
END
$$;

-- A trigger by which a table refuses writes without a token, and with a stale one:
--
--     CREATE TRIGGER fence BEFORE INSERT OR UPDATE OR DELETE ON orders
--         FOR EACH ROW EXECUTE FUNCTION pawl.fence_table('token', 'orders');
--     CREATE TRIGGER fence_truncate BEFORE TRUNCATE ON orders
--         FOR EACH STATEMENT EXECUTE FUNCTION pawl.fence_table('token', 'orders');
--
-- The first argument is the column (bigint) that holds the token of each row's last writer. The second is the resource;
-- without it, schema.table. With a third, a column, each row has a mark of its own: the second with that column's text
-- behind it, as in fence_table('token', 'orders/', 'id').
--
-- A new row, and one whose token is raised, has its token admitted. A row that keeps its token, which a writer that does
-- not care for tokens would do too, and one that is deleted, needs that this transaction has admitted one: by admit, or by
-- an earlier row. In every case the row's token does not fall. TRUNCATE needs the same, and is refused if each row has a
-- mark of its own.
--
-- A statement trigger is not inherited: each partition needs a fence_truncate of its own, and each table that INHERITS from
-- this one, without being a partition, needs both triggers.
--
-- It runs with the rights of who writes the table, for it calls the casts of the table's own types; only guard_fence, on
-- which the writer needs EXECUTE, has ours.
CREATE OR REPLACE FUNCTION pawl.fence_table() RETURNS trigger
LANGUAGE plpgsql VOLATILE SET search_path = pawl, pg_temp AS $$
DECLARE
    what text := TG_OP || ' on ' || TG_TABLE_NAME;
    resource text := coalesce(TG_ARGV[1], TG_TABLE_SCHEMA || '.' || TG_TABLE_NAME);
    reading text := format('SELECT ($1).%I::bigint, %L::text || %s', TG_ARGV[0], resource,
                           CASE WHEN TG_NARGS > 2 THEN format('($1).%I::text', TG_ARGV[2]) ELSE '''''' END);
    old_token bigint;
    old_resource text;
    new_token bigint;
    new_resource text;
BEGIN
    IF TG_NARGS NOT BETWEEN 1 AND 3 OR TG_WHEN <> 'BEFORE' OR (TG_LEVEL = 'ROW') = (TG_OP = 'TRUNCATE') THEN
        RAISE trigger_protocol_violated USING
            MESSAGE = 'fence_table is a trigger BEFORE writes, for each row, with one to three arguments',
            HINT = 'fence_table(token column [, resource [, column of the resource]]); TRUNCATE for each statement.';
    END IF;
    IF TG_OP = 'TRUNCATE' THEN
        IF TG_NARGS > 2 THEN
            RAISE EXCEPTION USING
                ERRCODE = 'PW002',
                MESSAGE = format('%s: each of its rows has a resource of its own', what),
                HINT = 'DELETE the rows whose resources were admitted.';
        END IF;
        PERFORM guard_fence(what, resource, 0, NULL, NULL);
        RETURN NULL;
    END IF;
    IF TG_OP <> 'INSERT' THEN
        EXECUTE reading INTO old_token, old_resource USING OLD;
    END IF;
    IF TG_OP = 'DELETE' THEN
        PERFORM guard_fence(what, old_resource, old_token, NULL, NULL);
        RETURN OLD;
    END IF;
    EXECUTE reading INTO new_token, new_resource USING NEW;
    PERFORM guard_fence(what, old_resource, old_token, new_resource, new_token);
    RETURN NEW;
END
$$;

-- ---- rights --------------------------------------------------------------------------------------------------------

REVOKE ALL ON pawl.guard_mark, pawl.guard_floor, pawl.guard_data FROM PUBLIC;
REVOKE ALL ON FUNCTION
    pawl.guard_check(text, bigint), pawl.guard_stale(text, bigint, bigint), pawl.guard_demand(text, bigint, text),
    pawl.guard_fence(text, text, bigint, text, bigint), pawl.guard_list(text, text, integer), pawl.guard_version(),
    pawl.admit(text, bigint), pawl.admitted(text), pawl.fence_table(), pawl.forget(text, bigint),
    pawl.get(text, bigint), pawl.greatest(text), pawl.prune(bigint), pawl.put(text, bigint, bytea),
    pawl.guard_moved(text, bigint, bigint), pawl.look(text), pawl.swap(text, bigint), pawl.swap(text, bigint, bytea),
    pawl.guard_swap(text, bigint, bigint), pawl.swap_once(text, bigint, bytea, bigint)
    FROM PUBLIC;

-- Who was granted swap by an older script may call what the guard uses in its place.
DO $$
DECLARE
    role oid;
BEGIN
    FOR role IN SELECT a.grantee FROM pg_proc p, aclexplode(p.proacl) a
            WHERE p.oid = 'pawl.swap(text, bigint, bytea)'::regprocedure AND a.grantee <> 0 LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION pawl.swap_once(text, bigint, bytea, bigint) TO %I',
                       pg_get_userbyid(role));
    END LOOP;
END
$$;

COMMIT;
