-- statements.sql - what the engine says to the server, each under its name. embed.py makes C of them. Names without a
-- schema: the session's search_path has it.

-- The settings of a session. $1: the schema; $2: owner= of the URL, or empty; $3 and $4: lock_timeout and statement_timeout in ms,
-- as text (0: none). Returns the server's process, whether it is a standby, whether it only reads, whether we may use the schema
-- (NULL: it is not there), and why what is in it must not be run (pq_trust.sql). The search_path is pg_catalog until then.
-- What the administrator set for the role or the database must not lose a grant, end the session or change what a statement sees.
-- Plans are made once and stay good while tables grow: by the index, whatever their size was. A backend whose client is gone ends
-- within a second also while it waits for a row (PostgreSQL 14).
-- name: settings
SELECT pg_backend_pid(), pg_is_in_recovery(), current_setting('transaction_read_only')::boolean,
       (SELECT has_schema_privilege(oid, 'USAGE') FROM pg_namespace WHERE nspname = $1), {trust},
       set_config('search_path', 'pg_catalog, ' || quote_ident($1) || ', pg_temp', false), set_config('pawl.schema', $1, false),
       set_config('default_transaction_isolation', 'read committed', false),
       set_config('synchronous_commit', CASE WHEN current_setting('synchronous_commit') IN ('off', 'local') THEN 'on'
                                             ELSE current_setting('synchronous_commit') END, false),
       set_config('lock_timeout', $3, false), set_config('statement_timeout', $4, false), set_config('jit', 'off', false),
       set_config('plan_cache_mode', 'force_generic_plan', false), set_config('enable_seqscan', 'off', false),
       set_config('enable_bitmapscan', 'off', false),
       CASE WHEN current_setting('idle_session_timeout', true) IS NOT NULL
            THEN set_config('idle_session_timeout', '0', false) END,
       CASE WHEN current_setting('client_connection_check_interval', true) IS NOT NULL AND version() ~ 'linux'
            THEN set_config('client_connection_check_interval', '1s', false) END

-- How long a statement waits for a row that somebody else has locked. $1: in ms.
-- name: bound
SELECT set_config('lock_timeout', $1, false)

-- How many of these connections of ours are still there, though we gave them up, and how many of those have committed and wait for a
-- standby. $1: their ids, $2: their processes.
-- name: earlier
SELECT count(*), count(*) FILTER (WHERE EXISTS (SELECT FROM pg_stat_get_activity(e.pid) AS a WHERE a.wait_event = 'SyncRep'))
FROM unnest($1::bigint[], $2::int[]) AS e(client, pid) WHERE lives(e.client)

-- name: enter
SELECT version, pid, fast, lock_version() FROM enter($1)

-- The short ways, for who may write the rows: one exclusive holder, nobody waits, one statement. No row comes back if it is
-- not as simple as that; the functions know what to do then.
-- name: take
UPDATE lock SET token = next_token(token), uid = $2, client = $3, owner = $4, note = $5, ttl = $6::bigint, delay = $7, age = $8,
                detached = $9, since = clock_timestamp(), expires_at = clock_timestamp() + $6::bigint * interval '1 ms'
WHERE name = $1 AND uid IS NULL AND NOT crowded RETURNING token

-- name: give
UPDATE lock SET past = ROW(uid, token, owner, note, since, clock_timestamp(), 1, 0, 0)::tenure || past[1:7], uid = NULL,
                since = clock_timestamp()
WHERE name = $1 AND uid = $2 AND NOT crowded AND expires_at > clock_timestamp() RETURNING token

-- The same where there is a queue: to its first, if that one waits for all of it and his client is there. What the statement sees of
-- the queue may be older than the row that it locks: then the row has moved (place), no row comes back, and release() looks again.
-- name: hand
WITH l AS MATERIALIZED (SELECT served, ctid AS place FROM lock
                        WHERE name = $1 AND uid = $2 AND crowded AND expires_at > clock_timestamp() FOR UPDATE),
     w AS (DELETE FROM wait WHERE name = $1 AND mode = 0 AND (client = $3 OR lives(client))
           AND (SELECT place FROM l) = (SELECT s.ctid FROM lock AS s WHERE s.name = $1) AND ticket = (
               SELECT f.ticket FROM wait AS f WHERE f.name = $1 AND f.ticket > (SELECT served FROM l) ORDER BY f.ticket LIMIT 1)
           RETURNING *, CASE WHEN clock_timestamp() - asked_at > ttl * interval '1 ms' / 6
                             THEN least(ttl, greatest(500, ttl / 10)) ELSE ttl END AS lease)
UPDATE lock SET past = ROW(lock.uid, lock.token, lock.owner, lock.note, lock.since, clock_timestamp(), 1, 0, 0)::tenure || past[1:7],
                token = next_token(lock.token), uid = w.uid, client = w.client, owner = w.owner, note = w.note, ttl = w.ttl,
                delay = w.delay, age = w.age, detached = w.detached, since = clock_timestamp(),
                expires_at = clock_timestamp() + w.lease * interval '1 ms', served = w.ticket
FROM w WHERE lock.name = $1 AND lock.uid = $2
RETURNING w.uid, lock.token, w.lease,
          CASE WHEN w.client <> $3
               THEN tell_later(w.client, 'granted ' || replace(w.uid::text, '-', '') || ' ' || lock.token || ' ' || w.lease) END

-- name: acquire
SELECT token, ticket, look, seen FROM acquire($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)

-- name: line_up
SELECT token, ticket, look, seen FROM line_up($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)

-- name: release
SELECT uid, token, lease FROM hand_on($1, $2, $3, $4)

-- Behind hand and release, in the same flight and in a transaction of its own: whoever was granted the lock is notified. What was
-- committed before is told, whatever becomes of us: the server has both statements by then.
-- name: tell
SELECT pg_notify('pawl_' || split_part(news, ' ', 1), substr(news, strpos(news, ' ') + 1)), set_config('pawl.news', '', false)
FROM unnest(string_to_array(current_setting('pawl.news', true), ',')) AS news

-- name: cancel
SELECT uid, token, lease FROM cancel($1, $2, $3)

-- name: renew
SELECT uid, result FROM renew($1, $2, $3, $4)

-- name: adopt
SELECT token, remaining, ttl, mode FROM adopt($1, $2, $3, $4, $5)

-- name: store
SELECT store_value($1, $2, $3, $4, $5, $6)

-- Its answer comes as bytes.
-- name: fetch
SELECT data, token, stored, moment FROM fetch_value($1, $2)

-- name: break
SELECT uid, token, lease FROM break_holders($1, $2, $3, $4, $5)

-- name: ask
SELECT ask_holders($1)

-- name: list
SELECT role, name, owner, note, token, remaining, since, until, how, mode, max_holders, waiters, detached, age,
       '' AS broken_by, '' AS reason
FROM list_holders($1, $2)

-- name: show
SELECT role, name, owner, note, token, remaining, since, until, how, mode, max_holders, waiters, detached, age,
       broken_by, reason
FROM show_lock($1)

-- name: reap
SELECT reap(interval '1 hour')

-- ?mode=advisory: locks of the session, which shows by another that it lives, as enter() does.
-- name: advisory_enter
SELECT version, pid, false, lock_version(), pg_try_advisory_lock(life_of($1)) FROM advisory_enter()

-- The token, or 0: it is held by another, or somebody waits for it. $1: the number of the name.
-- name: advisory_take
SELECT CASE WHEN pg_try_advisory_lock($1) THEN nextval('advisory_token') ELSE 0 END

-- name: advisory_take_shared
SELECT CASE WHEN pg_try_advisory_lock_shared($1) THEN nextval('advisory_token') ELSE 0 END

-- The same for a name whose number is not known, on a session whose timeout is not the right one. $2: shared; $3: in ms.
-- name: advisory_begin
SELECT CASE WHEN CASE WHEN $2 THEN pg_try_advisory_lock_shared(key) ELSE pg_try_advisory_lock(key) END
            THEN nextval('advisory_token') ELSE 0 END,
       key, set_config('idle_session_timeout', $3, false)
FROM advisory_key_of($1) AS key

-- The same, when it is free, however long that takes: the server has a queue. The token is drawn when the lock is there, and not before.
-- name: advisory_wait
SELECT CASE WHEN set_config('lock_timeout', '0', true) = '0' AND CASE WHEN $2 THEN pg_advisory_lock_shared($1)
                                                                      ELSE pg_advisory_lock($1) END IS NOT NULL
            THEN nextval('advisory_token') END,
       set_config('idle_session_timeout', $3, false)

-- Ends a wait on another session of ours: $1 is its process. Not if that does not wait (any more, or yet).
-- name: advisory_call_off
SELECT pg_cancel_backend(pid) FROM pg_stat_get_activity($1) WHERE wait_event_type = 'Lock' AND wait_event = 'advisory'

-- name: advisory_give
SELECT pg_advisory_unlock($1)

-- name: advisory_give_shared
SELECT pg_advisory_unlock_shared($1)

-- What may have been got by a request that failed. By name: its number may not be known.
-- name: advisory_undo
SELECT CASE WHEN $2 THEN pg_advisory_unlock_shared(key) ELSE pg_advisory_unlock(key) END FROM advisory_key_of($1) AS key

-- name: advisory_store
SELECT advisory_store_value($1, $2, $3, $4)

-- Any statement makes the server wait for the next one as long as before.
-- name: advisory_touch
SELECT 1

-- name: advisory_set
SELECT set_config('idle_session_timeout', $1, false)

-- pawl doctor: what this server, this database and this role are like, as names and values; NULL is not known. $1: the
-- schema; $2: owner=. Nothing of the schema is run, for nobody knows yet whose it is. The settings are those that somebody set, for all
-- or for this role: nothing of ours was said before, but the search_path, pg_catalog, and that it may take its time.
-- name: examine
WITH home AS (SELECT to_regnamespace(quote_ident($1)) AS oid),
functions AS (SELECT p.oid FROM pg_proc AS p, home WHERE p.pronamespace = home.oid AND p.prosecdef),
standbys AS (SELECT count(*) AS all, count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')) AS synchronous,
                    count(*) FILTER (WHERE sync_state IS NULL) AS unknown FROM pg_stat_replication)
SELECT f.name, f.value FROM home, standbys, LATERAL (VALUES
    ('version', current_setting('server_version')),
    ('pid', pg_backend_pid()::text),
    ('standby', pg_is_in_recovery()::text),
    ('read only', current_setting('transaction_read_only')),
    ('clock', (date_part('epoch', clock_timestamp()) * 1000000)::bigint::text),
    ('fsync', current_setting('fsync')),
    ('full_page_writes', current_setting('full_page_writes')),
    ('synchronous_commit', current_setting('synchronous_commit')),
    ('standbys', standbys.all::text),
    ('synchronous standbys', standbys.synchronous::text),
    ('unknown standbys', standbys.unknown::text),
    ('synchronous_standby_names', current_setting('synchronous_standby_names')),
    ('idle_session_timeout', current_setting('idle_session_timeout', true)),
    ('statement_timeout', (SELECT CASE reset_val WHEN '0' THEN '0' ELSE reset_val || 'ms' END FROM pg_settings
                           WHERE name = 'statement_timeout')),
    ('lock_timeout', current_setting('lock_timeout')),
    ('default_transaction_isolation', current_setting('default_transaction_isolation')),
    ('tcp_keepalives_idle', current_setting('tcp_keepalives_idle')),
    ('max_connections', current_setting('max_connections')),
    ('reserved', current_setting('superuser_reserved_connections')),
    ('connections', (SELECT sum(numbackends)::text FROM pg_stat_database)),
    ('autovacuum', CASE WHEN current_setting('autovacuum')::boolean AND current_setting('track_counts')::boolean
                        THEN 'on' ELSE 'off' END),
    ('superuser', current_setting('is_superuser')),
    ('role', current_user::text),
    ('database', current_database()::text),
    ('tls', (SELECT CASE WHEN ssl THEN version END FROM pg_stat_ssl WHERE pid = pg_backend_pid())),
    ('schema', (home.oid IS NOT NULL)::text),
    ('may create', has_database_privilege(current_database(), 'CREATE')::text),
    ('may use', has_schema_privilege(home.oid, 'USAGE')::text),
    ('functions', (SELECT count(*)::text FROM functions)),
    ('refused functions', (SELECT count(*)::text FROM functions WHERE NOT has_function_privilege(oid, 'EXECUTE'))),
    ('may write', (SELECT bool_and(CASE c.relname
                       WHEN 'lock' THEN has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'UPDATE')
                       WHEN 'wait' THEN has_table_privilege(c.oid, 'SELECT') AND has_table_privilege(c.oid, 'INSERT')
                                        AND has_table_privilege(c.oid, 'DELETE') END)::text
                   FROM pg_class AS c WHERE c.relnamespace = home.oid AND c.relname IN ('lock', 'wait'))),
    ('may count', (SELECT has_sequence_privilege(c.oid, 'USAGE')::text
                   FROM pg_class AS c WHERE c.relnamespace = home.oid AND c.relname = 'advisory_token')),
    ('may change', (SELECT bool_and(pg_get_userbyid(n.nspowner) = current_user)::text FROM pg_namespace AS n WHERE n.oid = home.oid)),
    ('owner', (SELECT pg_get_userbyid(n.nspowner)::text FROM pg_namespace AS n WHERE n.oid = home.oid)),
    ('distrust', {trust}),
    ('schema version', (SELECT substring(p.prosrc from '^SELECT ([0-9]{1,9})$') FROM pg_proc AS p
                        WHERE p.pronamespace = home.oid AND p.proname = 'lock_version' AND p.pronargs = 0)),
    ('schema serves', (SELECT substring(p.prosrc from '^SELECT ([0-9]{1,9})$') FROM pg_proc AS p
                       WHERE p.pronamespace = home.oid AND p.proname = 'serves_since' AND p.pronargs = 0))) AS f(name, value)
