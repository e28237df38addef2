-- schema.sql - the tables and functions of the PostgreSQL engine. Run by the library when a database is first used, or by an
-- administrator:
--
--     psql -1 -f schema.sql                                  into the schema pawl
--     psql -1 -c "SET pawl.schema = 'locks'" -f schema.sql   into another one
--
-- One transaction; may be run again, also over what an older one of these made, which is then as new; clients of that go on, and
-- who had rights keeps them. Who made it owns it. Others need
--
--     GRANT USAGE ON SCHEMA pawl TO worker;
--     GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl TO worker;
--
-- and nothing else: the functions do what they do as their owner. Faster, for those who are trusted with the rows:
--
--     GRANT SELECT, UPDATE ON pawl.lock TO worker;
--     GRANT SELECT, INSERT, DELETE ON pawl.wait TO worker;
--
-- and for ?mode=advisory
--
--     GRANT USAGE ON SEQUENCE pawl.advisory_token TO worker;
--
-- Rules that all functions keep:
--   * Times are clock_timestamp() of this server: now() stands still in a transaction. Lengths of time are in milliseconds.
--   * The row of the lock is locked first (FOR UPDATE), and what depends on it is read by a later statement, which sees
--     all that was committed before: that is why only READ COMMITTED will do. Who has one such row asks for no other,
--     unless in the order of names.
--   * wait is written by who has the lock's row; only a waiter's own client and asked_at are renewed without it.
--   * A refused attempt writes nothing.

-- The first users may come at once: one makes it, the others find it made. Nothing is made among what other roles own, or may
-- make: these functions run with their owner's rights, and a function or an operator of another role would be found by them.
DO $$
DECLARE
    home text;
    newer int;
    wrong text;
    patience text;
BEGIN
    -- Whatever the caller's search_path was, only what is PostgreSQL's own is found from here on.
    PERFORM pg_catalog.set_config('search_path', 'pg_catalog', true);
    home := coalesce(nullif(current_setting('pawl.schema', true), ''), 'pawl');
    IF home = 'public' THEN
        RAISE invalid_schema_name USING MESSAGE = 'locks need a schema of their own: public is for everybody';
    END IF;
    patience := current_setting('lock_timeout'); -- it is meant for what others wait behind: ALTER TABLE below
    PERFORM set_config('lock_timeout', '0', true);
    PERFORM pg_advisory_xact_lock(x'7061776c'::int, hashtext(home)); -- "pawl"
    PERFORM set_config('lock_timeout', patience, true);
    IF NOT EXISTS (SELECT FROM pg_namespace WHERE nspname = home) THEN
        EXECUTE format('CREATE SCHEMA %I', home);
    END IF;
    SELECT coalesce(
        (SELECT format('the schema %I belongs to the role %I, and this is %I', home, pg_get_userbyid(n.nspowner), current_user)
         FROM pg_namespace AS n WHERE n.nspname = home AND pg_get_userbyid(n.nspowner) <> current_user),
        (SELECT format('%s may create objects in the schema %I: REVOKE CREATE ON SCHEMA %2$I FROM %1$s',
                       CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(a.grantee)) END, home)
         FROM pg_namespace AS n, aclexplode(n.nspacl) AS a
         WHERE n.nspname = home AND a.privilege_type = 'CREATE' AND a.grantee <> n.nspowner
               AND a.grantee NOT IN (SELECT r.oid FROM pg_roles AS r WHERE r.rolsuper) LIMIT 1),
        (SELECT format('%s in the schema %I belongs to the role %I: drop it', pg_describe_object(d.classid, d.objid, 0), home, r.rolname)
         FROM pg_namespace AS n JOIN pg_depend AS d ON d.refclassid = 'pg_namespace'::regclass AND d.refobjid = n.oid
              JOIN pg_shdepend AS s ON s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database())
                                       AND s.classid = d.classid AND s.objid = d.objid AND s.objsubid = 0 AND s.deptype = 'o'
              JOIN pg_roles AS r ON r.oid = s.refobjid
         WHERE n.nspname = home AND d.classid <> 'pg_default_acl'::regclass AND NOT r.rolsuper AND r.oid <> n.nspowner LIMIT 1))
    INTO wrong;
    IF wrong IS NOT NULL THEN
        RAISE insufficient_privilege USING MESSAGE = wrong, HINT = 'The owner of the schema runs this, and nobody else may create in it.';
    END IF;
    PERFORM set_config('search_path', quote_ident(home) || ', pg_temp', true);
    -- Read, not run.
    SELECT substring(p.prosrc from '^SELECT ([0-9]{1,9})$')::int INTO newer FROM pg_proc AS p
        WHERE p.proname = 'lock_version' AND p.pronargs = 0 AND p.pronamespace = to_regnamespace(quote_ident(home));
    IF newer > 3 THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = format('the schema %I is of version %s, which is newer than this script, 3', home, newer);
    END IF;
    -- What version 1 had otherwise is made anew. A function that is dropped loses its grants: they are given again at the end. What
    -- it did not have is for those who had what it belongs to.
    PERFORM set_config('pawl.grants', '', true);
    IF newer < 3 THEN
        PERFORM set_config('pawl.grants', coalesce(string_agg(
            format('GRANT EXECUTE ON FUNCTION %I TO %s', f.made, a.grantee::regrole), ';'), ''), true)
        FROM (VALUES ('adopt', 'adopt'), ('list_holders', 'list_holders'), ('show_lock', 'show_lock'),
                     ('lock_version', 'serves_since'), ('acquire', 'keep_value'), ('acquire', 'store_value'),
                     ('acquire', 'fetch_value'), ('advisory_enter', 'advisory_store_value'), ('advisory_enter', 'life_of'),
                     ('renew', 'renew_one'), ('renew', 'still_holds'), ('line_up', 'next_ticket'), ('line_up', 'count_before'),
                     ('list_holders', 'list_between'), ('list_holders', 'prefix_end'), ('tell', 'tell_later'), ('release', 'hand_on'),
                     ('release', 'tell_again')) AS f(had, made),
             pg_proc AS p, aclexplode(p.proacl) AS a
        WHERE p.proname = f.had AND p.pronamespace = to_regnamespace(quote_ident(home)) AND a.grantee NOT IN (0, p.proowner)
              AND (newer = 1 OR f.had IN ('renew', 'line_up', 'list_holders', 'tell', 'release') OR f.made = 'life_of');
    END IF;
    IF newer = 1 THEN
        DROP FUNCTION IF EXISTS adopt(text, uuid), list_holders(text, int), show_lock(text);
        ALTER TABLE lock ADD taken bigint, ADD taker text, ADD taker_note text;
        ALTER TABLE share ADD taker text, ADD taker_note text;
    END IF;
    IF newer < 3 THEN
        ALTER TABLE lock ADD seen_at timestamptz NOT NULL DEFAULT '-infinity';
        ALTER TABLE lock ALTER seen_at SET DEFAULT clock_timestamp();
        DROP SEQUENCE ticket;
    END IF;
    IF to_regtype('tenure') IS NULL THEN
        -- One who held a lock before. how: 1 released, 2 expired, 4 broken. mode: 0 exclusive, 1 shared.
        CREATE TYPE tenure AS (uid uuid, token bigint, owner text, note text, since timestamptz, until timestamptz, how int,
                               mode int, max_holders int);
    END IF;
END
$$;

-- ---- tables -----------------------------------------------------------------------------------------------------------

-- A row for each name in use. It stays when the lock is released, so that its token goes on; reap() takes old ones away.
CREATE TABLE IF NOT EXISTS lock (
    name       text COLLATE "C" PRIMARY KEY,
    token      bigint NOT NULL DEFAULT 0,      -- of the last grant
    uid        uuid,                           -- of the exclusive holder; NULL: there is none. What follows is his
    client     bigint,                         -- who is told on channel pawl_<client in hex>
    owner      text,
    note       text,
    ttl        bigint,
    delay      bigint,
    age        bigint,
    detached   boolean,
    since      timestamptz,                    -- held, or free, since
    expires_at timestamptz,
    free_at    timestamptz,                    -- a lock-delay: nobody gets it before
    holders    int NOT NULL DEFAULT 0,         -- how many share it
    crowded    boolean NOT NULL DEFAULT false, -- there may be waiters, shared holders or a lock-delay: only the functions know
    served     bigint NOT NULL DEFAULT 0,      -- no waiter has a ticket at or below it: dead entries of the index are skipped
    past       tenure[] NOT NULL DEFAULT '{}', -- the last 8, the latest first
    taken      bigint,                         -- the grant with this token was taken up by another, whom others see since then
    taker      text,
    taker_note text,
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp() -- not unused before that; see reap(), which alone changes it
) WITH (fillfactor = 70, toast_tuple_target = 8160);
CREATE INDEX IF NOT EXISTS lock_seen_at ON lock (seen_at);

-- Shared holders. While there are any the lock has no exclusive one.
CREATE TABLE IF NOT EXISTS share (
    name        text COLLATE "C",
    uid         uuid,
    token       bigint NOT NULL,
    client      bigint NOT NULL,
    owner       text,
    note        text,
    max_holders int NOT NULL, -- 0: any number; the least of all counts
    ttl         bigint NOT NULL, -- ms, as delay
    delay       bigint NOT NULL,
    age         bigint,
    detached    boolean,
    since       timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL,
    taker       text, -- as of lock
    taker_note  text,
    PRIMARY KEY (name, uid)
) WITH (fillfactor = 70);

-- The queue. A crash empties it, and does no harm: waiters come back by themselves, with their tickets.
CREATE UNLOGGED TABLE IF NOT EXISTS wait (
    name        text COLLATE "C",
    ticket      bigint,
    uid         uuid NOT NULL UNIQUE,
    client      bigint NOT NULL,
    owner       text,
    note        text,
    mode        int NOT NULL,
    max_holders int NOT NULL,
    ttl         bigint NOT NULL, -- ms, as delay
    delay       bigint NOT NULL,
    age         bigint,
    detached    boolean,
    since       timestamptz NOT NULL,
    asked_at    timestamptz NOT NULL,
    PRIMARY KEY (name, ticket)
) WITH (fillfactor = 70);

-- No token of a name that was reaped is greater.
CREATE TABLE IF NOT EXISTS floor (only_one boolean PRIMARY KEY DEFAULT true CHECK (only_one), token bigint NOT NULL);
INSERT INTO floor (token) VALUES (0) ON CONFLICT DO NOTHING;

-- A few bytes beside a lock: those of a lease, and those of ?mode=advisory, which is another lock. They stay when it is free.
CREATE TABLE IF NOT EXISTS value (
    name       text COLLATE "C",
    advisory   boolean,
    data       bytea NOT NULL,
    token      bigint NOT NULL,      -- of the grant under which it was stored
    stored_at  timestamptz NOT NULL,
    keep_until timestamptz,          -- NULL: until it is replaced
    PRIMARY KEY (name, advisory)
);
CREATE INDEX IF NOT EXISTS value_keep_until ON value (keep_until) WHERE keep_until IS NOT NULL;

-- Which number stands for a name in ?mode=advisory.
CREATE TABLE IF NOT EXISTS advisory_key (name text COLLATE "C" PRIMARY KEY, key bigint NOT NULL UNIQUE);
CREATE SEQUENCE IF NOT EXISTS advisory_token;

-- ---- parts ------------------------------------------------------------------------------------------------------------
-- They run with the rights of who calls them: of use only inside the functions below.

-- Greater than every one before: also if the database is an old copy, as long as the clock was not set back as well.
CREATE OR REPLACE FUNCTION next_token(last bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT greatest(last + 1, (date_part('epoch', clock_timestamp()) * 1000000)::bigint)
$$;

-- The key of the advisory lock that a client's connection holds. Everybody sees it in pg_locks, whatever his rights; it must not
-- lead back to the client's number, which is the name of its channel: who has that hears what is told there, and may tell.
CREATE OR REPLACE FUNCTION life_of(client bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended(encode(sha256(int8send(client)), 'hex'), 0)
$$;

-- Is the connection of this client there? It holds an advisory lock for its life.
CREATE OR REPLACE FUNCTION lives(client bigint) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN pg_try_advisory_lock_shared(life_of(client)) THEN NOT pg_advisory_unlock_shared(life_of(client)) ELSE true END
$$;

-- Remembers a message for the statement `tell`, which the client sends in the same flight. From NOTIFY to the end of its commit, disk and
-- standbys included, PostgreSQL lets no other transaction of any database with a NOTIFY commit; one that has nothing but the NOTIFY is
-- over at once. The session remembers it, and forgets it if this transaction is rolled back. Always true, as the next.
CREATE OR REPLACE FUNCTION tell_later(client bigint, message text) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT set_config('pawl.news', coalesce(nullif(current_setting('pawl.news', true), '') || ',', '') || to_hex(client) || ' ' || message,
                      false) IS NOT NULL
$$;

-- Always true: an assignment costs less than a statement.
CREATE OR REPLACE FUNCTION tell(client bigint, message text) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT CASE WHEN current_setting('pawl.later', true) = 'on' THEN tell_later(client, message)
                ELSE pg_notify('pawl_' || to_hex(client), message) IS NOT NULL END
$$;

-- Who waited for a row must then see what was committed meanwhile.
CREATE OR REPLACE FUNCTION refuse_isolation() RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE 'locks need READ COMMITTED, and this transaction is %', upper(current_setting('transaction_isolation'))
        USING ERRCODE = 'invalid_transaction_state', HINT = 'SET default_transaction_isolation = ''read committed''';
END
$$;

-- Holders whose lease is over leave; the lock-delay of one who asked for it begins when his lease ended. l is the locked
-- row; who calls this writes it, by serve().
CREATE OR REPLACE FUNCTION settle(l lock) RETURNS lock LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    s share;
BEGIN
    IF l.uid IS NOT NULL THEN
        IF l.expires_at <= moment THEN
            l.past := ROW(l.uid, l.token, l.owner, l.note, l.since, l.expires_at, 2, 0, 0)::tenure || l.past[1:7];
            l.free_at := l.expires_at + l.delay * interval '1 ms';
            l.since := l.expires_at;
            l.uid := NULL;
        END IF;
    ELSIF l.holders > 0 THEN
        FOR s IN WITH gone AS (DELETE FROM share WHERE name = l.name AND expires_at <= moment RETURNING *)
                 SELECT * FROM gone ORDER BY expires_at LOOP
            l.past := ROW(s.uid, s.token, s.owner, s.note, s.since, s.expires_at, 2, 1, s.max_holders)::tenure || l.past[1:7];
            l.free_at := greatest(l.free_at, s.expires_at + s.delay * interval '1 ms');
            l.since := s.expires_at;
            l.holders := l.holders - 1;
        END LOOP;
    END IF;
    IF l.free_at <= moment THEN
        l.free_at := NULL;
    END IF;
    RETURN l;
END
$$;

-- Hands a lock that is free, or may be shared, to those who wait for it, in their order, and writes its row. A waiter whose
-- client is gone is dropped: it stands in line again as soon as it asks. One that has asked a moment ago gets its whole
-- lease and may use it at once; one that has not may be stopped, and gets just enough to confirm. The grant to the claim
-- asker is returned, or if there is none those to the client mine; others are told. l is the locked and settled row.
CREATE OR REPLACE FUNCTION serve(l lock, mine bigint, asker uuid DEFAULT NULL)
RETURNS TABLE (uid uuid, token bigint, lease bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    places int; -- NULL: any number
    told boolean;
    w wait;
BEGIN
    IF l.uid IS NULL AND l.free_at IS NULL AND l.crowded THEN
        IF l.holders > 0 THEN
            places := (SELECT min(nullif(max_holders, 0)) FROM share WHERE name = l.name);
        END IF;
        LOOP
            DELETE FROM wait WHERE name = l.name AND ticket = (
                SELECT ticket FROM (SELECT ticket, mode, max_holders FROM wait WHERE name = l.name AND ticket > l.served
                                    ORDER BY ticket LIMIT 1) AS first
                WHERE l.holders = 0
                      OR (mode = 1 AND coalesce(l.holders < least(places, nullif(max_holders, 0)), true)))
            RETURNING * INTO w;
            EXIT WHEN NOT FOUND;
            l.served := w.ticket;
            CONTINUE WHEN w.client <> mine AND NOT lives(w.client);
            l.token := next_token(l.token);
            uid := w.uid;
            token := l.token;
            lease := w.ttl;
            IF w.uid IS DISTINCT FROM asker AND moment - w.asked_at > w.ttl * interval '1 ms' / 6 THEN
                lease := least(w.ttl, greatest(500, w.ttl / 10));
            END IF;
            IF w.mode = 0 THEN
                l.uid := w.uid;
                l.client := w.client;
                l.owner := w.owner;
                l.note := w.note;
                l.ttl := w.ttl;
                l.delay := w.delay;
                l.age := w.age;
                l.detached := w.detached;
                l.since := moment;
                l.expires_at := moment + lease * interval '1 ms';
            ELSE
                INSERT INTO share VALUES (l.name, w.uid, l.token, w.client, w.owner, w.note, w.max_holders, w.ttl, w.delay, w.age,
                                          w.detached, moment, moment + lease * interval '1 ms');
                l.holders := l.holders + 1;
                places := least(places, nullif(w.max_holders, 0));
            END IF;
            IF w.uid = asker OR asker IS NULL AND w.client = mine THEN
                RETURN NEXT;
            ELSE
                told := tell(w.client, 'granted ' || replace(uid::text, '-', '') || ' ' || token || ' ' || lease);
            END IF;
            EXIT WHEN w.mode = 0;
        END LOOP;
    END IF;
    UPDATE lock SET token = l.token, uid = l.uid, client = l.client, owner = l.owner, note = l.note, ttl = l.ttl, delay = l.delay,
                    age = l.age, detached = l.detached, since = l.since, expires_at = l.expires_at, free_at = l.free_at,
                    holders = l.holders, served = l.served, past = l.past,
                    crowded = l.crowded AND l.uid IS NOT NULL OR l.free_at IS NOT NULL OR l.holders > 0
    WHERE name = l.name;
END
$$;

-- Is it certain, without locking the row, that this claim cannot have the lock now? For one that waits (again) only what
-- ends by itself counts; one that would not wait is refused as well if the shared holders have no place for it, or somebody
-- was first.
CREATE OR REPLACE FUNCTION blocked(l lock, my_uid uuid, my_client bigint, my_mode int, my_max_holders int, my_wait boolean)
RETURNS boolean LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
    holders int;
    places int;
BEGIN
    IF l.uid <> my_uid AND l.expires_at + l.delay * interval '1 ms' > moment THEN
        RETURN true;
    END IF;
    IF l.uid IS NOT NULL OR NOT l.crowded OR my_wait
       OR EXISTS (SELECT FROM share WHERE name = l.name AND uid = my_uid) THEN
        RETURN false;
    END IF;
    IF l.free_at > moment THEN
        RETURN true;
    END IF;
    SELECT count(*), min(nullif(max_holders, 0)) INTO holders, places FROM share WHERE name = l.name AND expires_at > moment;
    RETURN holders > 0 AND (my_mode = 0 OR coalesce(holders >= least(places, nullif(my_max_holders, 0)), false)
                            OR EXISTS (SELECT FROM wait WHERE name = l.name AND (client = my_client OR lives(client))));
END
$$;

-- Writes a value, or takes it away (NULL). Who calls this has made sure that the lock is held until this is committed.
CREATE OR REPLACE FUNCTION keep_value(my_name text, my_advisory boolean, my_token bigint, my_data bytea, my_keep bigint)
RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz := clock_timestamp();
BEGIN
    IF my_data IS NULL THEN
        DELETE FROM value WHERE name = my_name AND advisory = my_advisory;
        RETURN;
    END IF;
    INSERT INTO value VALUES (my_name, my_advisory, my_data, my_token, moment, moment + nullif(my_keep, 0) * interval '1 ms')
    ON CONFLICT (name, advisory) DO UPDATE SET data = excluded.data, token = excluded.token, stored_at = excluded.stored_at,
                                               keep_until = excluded.keep_until;
END
$$;

-- What renew() says of a lock whose row it could not renew. 1: it stands, by what was committed.
CREATE OR REPLACE FUNCTION still_holds(my_name text, my_uid uuid) RETURNS int LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    IF EXISTS (SELECT FROM lock WHERE name = my_name AND uid = my_uid AND expires_at > clock_timestamp())
       OR EXISTS (SELECT FROM share WHERE name = my_name AND uid = my_uid AND expires_at > clock_timestamp()) THEN
        RETURN 1;
    END IF;
    RETURN CASE WHEN EXISTS (SELECT FROM lock AS l, unnest(l.past) AS p
                             WHERE l.name = my_name AND p.uid = my_uid AND p.how = 4) THEN 2 ELSE 0 END;
END
$$;

-- Renews a lock whose row somebody else has locked a moment ago. NULL: it still is.
CREATE OR REPLACE FUNCTION renew_one(my_client bigint, my_name text, my_uid uuid, my_ttl bigint) RETURNS int LANGUAGE plpgsql AS $$
#variable_conflict use_column
BEGIN
    UPDATE lock SET client = my_client, expires_at = clock_timestamp() + my_ttl * interval '1 ms'
    WHERE name = my_name AND uid = my_uid AND expires_at > clock_timestamp();
    IF NOT FOUND THEN
        UPDATE share SET client = my_client, expires_at = clock_timestamp() + my_ttl * interval '1 ms'
        WHERE name = my_name AND uid = my_uid AND expires_at > clock_timestamp();
    END IF;
    RETURN CASE WHEN FOUND THEN 1 ELSE nullif(still_holds(my_name, my_uid), 1) END;
EXCEPTION WHEN lock_not_available THEN
    RETURN NULL;
END
$$;

-- A place in the queue of a name, behind all others. By the clock, as tokens are: a sequence goes back with a failover to a standby that
-- lagged, and those who come with their tickets from before would stand behind all newcomers. Whoever calls this has the lock's row
-- locked. last: its served. In PL/pgSQL, as the next: its plans are kept, those of SQL with a query in it are made each time.
CREATE OR REPLACE FUNCTION next_ticket(my_name text, last bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN greatest(next_token(last), 1 + (SELECT w.ticket FROM wait AS w WHERE w.name = my_name AND w.ticket > last
                                           ORDER BY w.ticket DESC LIMIT 1));
END
$$;

-- How many are in the queue before this ticket, as far as that matters (look_in).
CREATE OR REPLACE FUNCTION count_before(my_name text, last bigint, my_ticket bigint) RETURNS bigint LANGUAGE plpgsql AS $$
BEGIN
    RETURN (SELECT count(*) FROM (SELECT FROM wait AS w WHERE w.name = my_name AND w.ticket > last AND w.ticket < my_ticket
                                  LIMIT 500) AS ahead);
END
$$;

-- In how many ms to look whether what stands in the way is over by itself: the first in line at once when it may be, those
-- behind it a little later each.
CREATE OR REPLACE FUNCTION look_in(over_at timestamptz, ahead bigint) RETURNS bigint LANGUAGE sql VOLATILE AS $$
    SELECT greatest(1, ceil(date_part('epoch', over_at - clock_timestamp()) * 1000))::bigint + 2 * greatest(0, least(ahead, 500))
$$;

-- ---- locks ------------------------------------------------------------------------------------------------------------

-- Takes the lock, or stands in line for it. token > 0: held, and its lease began now. ticket > 0: it waits; look: in so
-- many ms what stands in the way may be over by itself; seen: a grant that is told later has a greater token. Both 0: busy.
-- May be sent again: a holder gets its token once more and its lease begins again; a waiter keeps its ticket; one that was
-- dropped stands in line with the ticket it brings. Grants to others, also those of the same client, are told.
CREATE OR REPLACE FUNCTION acquire(my_name text, my_uid uuid, my_client bigint, my_owner text, my_note text, my_mode int,
                                   my_max_holders int, my_ttl bigint, my_delay bigint, my_age bigint, my_detached boolean,
                                   my_wait boolean, my_ticket bigint,
                                   OUT token bigint, OUT ticket bigint, OUT look bigint, OUT seen bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    over_at timestamptz;
    l lock;
BEGIN
    token := 0;
    ticket := 0;
    look := -1;
    seen := 0;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM refuse_isolation();
    END IF;
    -- Who may call this may take every lock, but not leave a row that never ends, or that nobody can serve, show or break. 366 days.
    IF (my_uid IS NOT NULL AND my_client IS NOT NULL AND my_mode IN (0, 1) AND my_max_holders >= 0
        AND my_ttl BETWEEN 1 AND 31622400000 AND my_delay BETWEEN 0 AND 31622400000) IS NOT TRUE THEN
        RAISE 'no claim of a client is like that' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    LOOP
        IF my_mode = 0 THEN
            -- Free, and nobody else around.
            UPDATE lock SET token = next_token(token), uid = my_uid, client = my_client, owner = my_owner, note = my_note,
                            ttl = my_ttl, delay = my_delay, age = my_age, detached = my_detached, since = clock_timestamp(),
                            expires_at = clock_timestamp() + my_ttl * interval '1 ms'
            WHERE name = my_name AND uid IS NULL AND NOT crowded RETURNING token INTO seen;
            IF FOUND THEN
                token := seen;
                RETURN;
            END IF;
        END IF;
        -- Without the row, if that is enough: one that would not wait is refused, one that waits says that it is still there.
        IF NOT my_wait OR my_ticket > 0 THEN
            SELECT * INTO l FROM lock WHERE name = my_name;
            IF blocked(l, my_uid, my_client, my_mode, my_max_holders, my_wait) THEN
                seen := l.token;
                IF NOT my_wait THEN
                    RETURN;
                END IF;
                UPDATE wait AS w SET client = my_client, asked_at = clock_timestamp() WHERE w.name = my_name AND w.uid = my_uid
                RETURNING w.ticket INTO ticket;
                IF FOUND THEN
                    look := look_in(l.expires_at + l.delay * interval '1 ms', count_before(my_name, l.served, ticket));
                    RETURN;
                END IF;
                ticket := 0;
            END IF;
        END IF;
        SELECT * INTO l FROM lock WHERE name = my_name FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO lock (name) VALUES (my_name) ON CONFLICT DO NOTHING;
        -- A row of this name may just have been reaped: its token is seen by a statement that begins now.
        UPDATE lock SET token = floor.token FROM floor WHERE name = my_name AND lock.token = 0;
    END LOOP;
    IF l.uid IS NULL OR l.expires_at <= clock_timestamp() THEN
        l := settle(l);
    END IF;

    -- Held already, and the answer was lost.
    IF l.uid = my_uid THEN
        UPDATE lock SET client = my_client, expires_at = clock_timestamp() + my_ttl * interval '1 ms' WHERE name = my_name;
        token := l.token;
        seen := token;
        RETURN;
    END IF;
    IF l.holders > 0 THEN
        UPDATE share SET client = my_client, expires_at = clock_timestamp() + my_ttl * interval '1 ms'
        WHERE name = my_name AND uid = my_uid RETURNING token INTO seen;
        IF FOUND THEN
            PERFORM serve(l, my_client, my_uid);
            token := seen;
            RETURN;
        END IF;
    END IF;

    -- Somebody may have got the ticket of one who comes back, if the clock was set back meanwhile: he stands behind that one then.
    WHILE my_ticket > 0 AND EXISTS (SELECT FROM wait AS w WHERE w.name = my_name AND w.ticket = my_ticket AND w.uid <> my_uid) LOOP
        my_ticket := my_ticket + 1;
    END LOOP;
    -- Everybody stands in line; who comes first does not stand long.
    INSERT INTO wait AS w VALUES (my_name, coalesce(nullif(my_ticket, 0), next_ticket(my_name, l.served)), my_uid, my_client, my_owner,
                                  my_note, my_mode, my_max_holders, my_ttl, my_delay, my_age, my_detached,
                                  clock_timestamp(), clock_timestamp())
    ON CONFLICT (uid) DO UPDATE SET client = excluded.client, asked_at = excluded.asked_at WHERE w.name = excluded.name
    RETURNING w.ticket INTO ticket;
    IF ticket IS NULL THEN
        RAISE 'the claim % waits for another lock', my_uid USING ERRCODE = 'invalid_parameter_value';
    END IF;
    IF l.uid IS NULL THEN
        l.crowded := true;
        l.served := least(l.served, ticket - 1);
        SELECT g.token INTO token FROM serve(l, my_client, my_uid) AS g;
        IF FOUND THEN
            ticket := 0;
            seen := token;
            RETURN;
        END IF;
        token := 0;
        SELECT * INTO l FROM lock WHERE name = my_name;
    ELSIF my_wait AND (NOT l.crowded OR my_ticket > 0) THEN -- who comes back makes the row a new one: see hand in statements.sql
        UPDATE lock SET crowded = true, served = least(served, ticket - 1) WHERE name = my_name;
    END IF;
    seen := l.token;
    IF NOT my_wait THEN
        DELETE FROM wait WHERE name = my_name AND uid = my_uid;
        ticket := 0;
        RETURN;
    END IF;
    over_at := l.expires_at + l.delay * interval '1 ms';
    IF l.uid IS NULL THEN
        over_at := least(l.free_at, (SELECT min(expires_at) FROM share WHERE name = my_name));
    END IF;
    look := look_in(over_at, count_before(my_name, l.served, ticket));
END
$$;

-- The short way of acquire() for one who will probably wait, and may write the tables: with the caller's rights, and without what only
-- special cases need. If the lock is not held by another whose lease stands, acquire() knows.
CREATE OR REPLACE FUNCTION line_up(my_name text, my_uid uuid, my_client bigint, my_owner text, my_note text, my_mode int,
                                   my_max_holders int, my_ttl bigint, my_delay bigint, my_age bigint, my_detached boolean,
                                   OUT token bigint, OUT ticket bigint, OUT look bigint, OUT seen bigint)
LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    over_at timestamptz;
    last bigint;
    others boolean;
BEGIN
    SELECT token, expires_at + delay * interval '1 ms', served, crowded INTO seen, over_at, last, others
    FROM lock WHERE name = my_name AND uid <> my_uid AND expires_at > clock_timestamp() FOR UPDATE;
    IF NOT FOUND THEN
        SELECT a.token, a.ticket, a.look, a.seen INTO token, ticket, look, seen
        FROM acquire(my_name, my_uid, my_client, my_owner, my_note, my_mode, my_max_holders, my_ttl, my_delay, my_age,
                     my_detached, true, 0) AS a;
        RETURN;
    END IF;
    token := 0;
    ticket := next_ticket(my_name, last);
    INSERT INTO wait VALUES (my_name, ticket, my_uid, my_client, my_owner, my_note, my_mode, my_max_holders, my_ttl, my_delay,
                             my_age, my_detached, clock_timestamp(), clock_timestamp());
    IF others THEN
        look := look_in(over_at, count_before(my_name, last, ticket));
    ELSE
        UPDATE lock SET crowded = true WHERE name = my_name;
        look := look_in(over_at, 0);
    END IF;
END
$$;

-- Something was given back that is not there: asked a second time, mostly, because the connection was lost, and perhaps before the NOTIFY
-- behind the first. So those who have the lock now are notified again. Who knows it already does not mind; who does not asks at once,
-- for this lease (1 ms) is too short for anything else. l is the locked and settled row, or nothing.
CREATE OR REPLACE FUNCTION tell_again(l lock) RETURNS void LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    s record;
    told boolean;
BEGIN
    FOR s IN SELECT l.client, l.uid, l.token WHERE l.uid IS NOT NULL
             UNION ALL
             (SELECT client, uid, token FROM share WHERE name = l.name ORDER BY token DESC LIMIT 100) LOOP
        told := tell(s.client, 'granted ' || replace(s.uid::text, '-', '') || ' ' || s.token || ' 1');
    END LOOP;
END
$$;

-- Gives a lock back and hands it on. lost: it ran out by its holder's own clock; that is a failure, and the lock-delay
-- begins. The first row: (my_uid, 1, 0) if it was held until now, or released before by a request whose answer was lost;
-- (my_uid, 0, 0) if it was lost; (my_uid, 2, 0) if nothing is known of it (any more). Further rows: what was granted to claims of
-- the same client. Grants to others are told.
CREATE OR REPLACE FUNCTION release(my_name text, my_uid uuid, my_client bigint, my_lost boolean)
RETURNS TABLE (uid uuid, token bigint, lease bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    l lock;
    s share;
    how int := CASE WHEN my_lost THEN 2 ELSE 1 END;
BEGIN
    uid := my_uid;
    token := 1;
    lease := 0;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM refuse_isolation();
    END IF;
    IF NOT my_lost THEN
        -- Nobody else around.
        UPDATE lock SET past = ROW(uid, token, owner, note, since, clock_timestamp(), 1, 0, 0)::tenure || past[1:7], uid = NULL,
                        since = clock_timestamp()
        WHERE name = my_name AND uid = my_uid AND NOT crowded AND expires_at > clock_timestamp();
        IF FOUND THEN
            RETURN NEXT;
            RETURN;
        END IF;
    END IF;
    SELECT * INTO l FROM lock WHERE name = my_name FOR UPDATE;
    IF l.uid IS NULL OR l.expires_at <= clock_timestamp() THEN
        l := settle(l);
    END IF;
    IF l.uid = my_uid THEN
        l.past := ROW(l.uid, l.token, l.owner, l.note, l.since, clock_timestamp(), how, 0, 0)::tenure || l.past[1:7];
        l.since := clock_timestamp();
        l.uid := NULL;
        IF my_lost AND l.delay > 0 THEN
            l.free_at := clock_timestamp() + l.delay * interval '1 ms';
        END IF;
    ELSE
        token := 0;
        IF l.holders > 0 THEN
            DELETE FROM share WHERE name = my_name AND uid = my_uid RETURNING * INTO s;
        END IF;
        IF s.uid IS NOT NULL THEN
            token := 1;
            l.holders := l.holders - 1;
            l.past := ROW(s.uid, s.token, s.owner, s.note, s.since, clock_timestamp(), how, 1, s.max_holders)::tenure
                      || l.past[1:7];
            l.since := clock_timestamp();
            IF my_lost AND s.delay > 0 THEN
                l.free_at := greatest(l.free_at, clock_timestamp() + s.delay * interval '1 ms');
            END IF;
        ELSE
            token := coalesce((SELECT (p.how = 1)::int FROM unnest(l.past) AS p WHERE p.uid = my_uid LIMIT 1), 2);
            PERFORM tell_again(l);
        END IF;
    END IF;
    RETURN NEXT;
    IF l.uid IS NULL THEN
        RETURN QUERY SELECT * FROM serve(l, my_client);
    END IF;
END
$$;

-- The same for clients that send `tell` behind it.
CREATE OR REPLACE FUNCTION hand_on(my_name text, my_uid uuid, my_client bigint, my_lost boolean)
RETURNS TABLE (uid uuid, token bigint, lease bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    PERFORM set_config('pawl.later', 'on', true);
    RETURN QUERY SELECT * FROM release(my_name, my_uid, my_client, my_lost);
END
$$;

-- A claim that waits, or may have been granted meanwhile, is given up; a grant is handed on. The first row: (my_uid, 0, 0)
-- it was neither, (my_uid, 1, 0) it stood in line, (my_uid, 2, 0) it held the lock. Further rows as of release().
CREATE OR REPLACE FUNCTION cancel(my_name text, my_uid uuid, my_client bigint)
RETURNS TABLE (uid uuid, token bigint, lease bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    l lock;
BEGIN
    uid := my_uid;
    token := 0;
    lease := 0;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM refuse_isolation();
    END IF;
    SELECT * INTO l FROM lock WHERE name = my_name FOR UPDATE;
    l := settle(l);
    DELETE FROM wait WHERE name = my_name AND uid = my_uid;
    IF FOUND THEN
        token := 1;
    ELSIF l.uid = my_uid THEN
        token := 2;
        l.since := clock_timestamp();
        l.uid := NULL;
    ELSIF l.holders > 0 THEN
        DELETE FROM share WHERE name = my_name AND uid = my_uid;
        IF FOUND THEN
            token := 2;
            l.since := clock_timestamp();
            l.holders := l.holders - 1;
        END IF;
    END IF;
    IF token = 0 THEN
        PERFORM tell_again(l);
    END IF;
    RETURN NEXT;
    IF l.uid IS NULL THEN
        RETURN QUERY SELECT * FROM serve(l, my_client);
    END IF;
END
$$;

-- The leases of many locks begin again, if they still stand. Never makes one anew. result: 1 it does, 0 it is not theirs
-- any more, 2 it was broken by an administrator. A row that somebody else has locked must not keep the others from it: it is waited for
-- half of lock_timeout, the next one half of what is left, and so on. If it is not free then no row says anything of it. In the order of
-- names, so that two who renew the same locks do not wait for each other.
CREATE OR REPLACE FUNCTION renew(my_client bigint, my_names text[], my_uids uuid[], my_ttls bigint[])
RETURNS TABLE (uid uuid, result int)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    my_name text;
    my_uid uuid;
    my_ttl bigint;
    patience bigint;
BEGIN
    FOR my_name, my_uid, my_ttl IN SELECT * FROM unnest(my_names, my_uids, my_ttls) AS u(name, uid, ttl)
                                   ORDER BY u.name COLLATE "C" LOOP
        uid := my_uid;
        result := 1;
        UPDATE lock SET client = my_client, expires_at = clock_timestamp() + my_ttl * interval '1 ms'
        WHERE name = (SELECT l.name FROM lock AS l WHERE l.name = my_name AND l.uid = my_uid AND l.expires_at > clock_timestamp()
                      FOR NO KEY UPDATE SKIP LOCKED);
        IF NOT FOUND THEN
            UPDATE share SET client = my_client, expires_at = clock_timestamp() + my_ttl * interval '1 ms'
            WHERE name = my_name AND uid = (SELECT s.uid FROM share AS s WHERE s.name = my_name AND s.uid = my_uid
                                                   AND s.expires_at > clock_timestamp() FOR NO KEY UPDATE SKIP LOCKED);
        END IF;
        IF NOT FOUND THEN
            result := still_holds(my_name, my_uid);
            IF result = 1 THEN
                patience := coalesce(patience, (SELECT setting::bigint FROM pg_settings WHERE name = 'lock_timeout'));
                patience := patience - patience / 2; -- 0: without an end
                PERFORM set_config('lock_timeout', patience::text, true);
                result := renew_one(my_client, my_name, my_uid, my_ttl);
            END IF;
        END IF;
        IF result IS NOT NULL THEN
            RETURN NEXT;
        END IF;
    END LOOP;
END
$$;

-- Takes up a lease that outlived its process: who does is told of it from now on, and is the one whom others see; past owners are
-- those who took the lock. No note: the first one's. Clients of version 1 do not say who they are. No row: it is over.
CREATE OR REPLACE FUNCTION adopt(my_name text, my_uid uuid, my_client bigint DEFAULT NULL, my_owner text DEFAULT NULL,
                                 my_note text DEFAULT NULL)
RETURNS TABLE (token bigint, remaining bigint, ttl bigint, mode int)
LANGUAGE sql SECURITY DEFINER SET search_path FROM CURRENT AS $$
    WITH l AS (UPDATE lock SET client = coalesce(my_client, client), taken = CASE WHEN my_owner IS NULL THEN taken ELSE token END,
                               taker = coalesce(my_owner, taker),
                               taker_note = CASE WHEN my_owner IS NULL THEN taker_note ELSE nullif(my_note, '') END
               WHERE name = my_name AND uid = my_uid AND expires_at > clock_timestamp()
               RETURNING token, expires_at, ttl, 0 AS mode),
         s AS (UPDATE share SET client = coalesce(my_client, client), taker = coalesce(my_owner, taker),
                                taker_note = CASE WHEN my_owner IS NULL THEN taker_note ELSE nullif(my_note, '') END
               WHERE name = my_name AND uid = my_uid AND expires_at > clock_timestamp()
               RETURNING token, expires_at, ttl, 1 AS mode)
    SELECT h.token, floor(date_part('epoch', h.expires_at - clock_timestamp()) * 1000)::bigint, h.ttl, h.mode
    FROM (SELECT * FROM l UNION ALL SELECT * FROM s) AS h
$$;

-- ---- bytes beside a lock ----------------------------------------------------------------------------------------------

-- Keeps data beside a lock, for so many ms (0: until they are replaced), if this grant holds it alone at this moment; NULL: keeps
-- nothing any more. The row of the lock stays locked, so that nobody else gets it before this is committed. 1: done; 0: it is not
-- held, and nothing was changed. May be sent again: my_former are the connections on which it, or one before it, was sent and not
-- answered. 2: one of them is still there, and may yet do what it was told; nothing was changed.
CREATE OR REPLACE FUNCTION store_value(my_name text, my_uid uuid, my_token bigint, my_data bytea, my_keep bigint, my_former bigint[])
RETURNS int LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    l lock;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM refuse_isolation();
    END IF;
    IF EXISTS (SELECT FROM unnest(my_former) AS f(client) WHERE lives(client)) THEN
        RETURN 2;
    END IF;
    SELECT * INTO l FROM lock WHERE name = my_name FOR UPDATE;
    IF l.uid IS DISTINCT FROM my_uid OR l.token <> my_token OR l.expires_at <= clock_timestamp() THEN
        RETURN 0;
    END IF;
    PERFORM keep_value(my_name, false, my_token, my_data, my_keep);
    RETURN 1;
END
$$;

-- What is kept beside a lock, when it was stored and what time it is, in us. A primary that was replaced and does not know it has
-- no synchronous standby any more: what it says is not told before one has confirmed something that was written after it was read.
CREATE OR REPLACE FUNCTION fetch_value(my_name text, my_advisory boolean)
RETURNS TABLE (data bytea, token bigint, stored bigint, moment bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY SELECT v.data, v.token, (date_part('epoch', v.stored_at) * 1000000)::bigint,
                        (date_part('epoch', clock.now) * 1000000)::bigint
                 FROM (SELECT clock_timestamp() AS now OFFSET 0) AS clock, value AS v
                 WHERE v.name = my_name AND v.advisory = my_advisory AND (v.keep_until IS NULL OR v.keep_until > clock.now);
    IF current_setting('synchronous_standby_names') <> '' THEN
        PERFORM pg_logical_emit_message(true, 'pawl', '');
    END IF;
END
$$;

-- ---- looking, and interfering -----------------------------------------------------------------------------------------

-- Cuts the holders off, tells them, and hands the lock on. The first row: (NULL, how many were cut off, 0). Further rows as
-- of release().
CREATE OR REPLACE FUNCTION break_holders(my_name text, my_client bigint)
RETURNS TABLE (uid uuid, token bigint, lease bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    moment timestamptz;
    told boolean;
    l lock;
    s share;
BEGIN
    token := 0;
    lease := 0;
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM refuse_isolation();
    END IF;
    SELECT * INTO l FROM lock WHERE name = my_name FOR UPDATE;
    l := settle(l);
    moment := clock_timestamp();
    IF l.uid IS NOT NULL THEN
        told := tell(l.client, 'broken ' || replace(l.uid::text, '-', ''));
        l.past := ROW(l.uid, l.token, l.owner, l.note, l.since, moment, 4, 0, 0)::tenure || l.past[1:7];
        IF l.delay > 0 THEN
            l.free_at := moment + l.delay * interval '1 ms';
        END IF;
        l.uid := NULL;
        token := 1;
    ELSE
        FOR s IN WITH cut AS (DELETE FROM share WHERE name = my_name RETURNING *) SELECT * FROM cut ORDER BY token LOOP
            told := tell(s.client, 'broken ' || replace(s.uid::text, '-', ''));
            l.past := ROW(s.uid, s.token, s.owner, s.note, s.since, moment, 4, 1, s.max_holders)::tenure || l.past[1:7];
            IF s.delay > 0 THEN
                l.free_at := greatest(l.free_at, moment + s.delay * interval '1 ms');
            END IF;
            token := token + 1;
        END LOOP;
        l.holders := 0;
    END IF;
    RETURN NEXT;
    IF l.name IS NOT NULL THEN
        l.since := moment;
        RETURN QUERY SELECT * FROM serve(l, my_client);
    END IF;
END
$$;

-- Asks the holders to let go. Returns how many there are.
CREATE OR REPLACE FUNCTION ask_holders(my_name text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    asked bigint := 0;
    told boolean;
    h record;
BEGIN
    FOR h IN SELECT client, uid FROM lock WHERE name = my_name AND uid IS NOT NULL AND expires_at > clock_timestamp()
             UNION ALL
             SELECT client, uid FROM share WHERE name = my_name AND expires_at > clock_timestamp() LOOP
        told := tell(h.client, 'asked ' || replace(h.uid::text, '-', ''));
        asked := asked + 1;
    END LOOP;
    RETURN asked;
END
$$;

CREATE OR REPLACE FUNCTION unix_ms(moment timestamptz) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT floor(date_part('epoch', moment) * 1000)::bigint
$$;

-- The least text behind all names that begin so, by their bytes (COLLATE "C"): its last letter is the next one. A letter that has no next
-- one everywhere (beyond ASCII) is left out, which is more than needed and never less. Nothing left: behind the last name there is.
CREATE OR REPLACE FUNCTION prefix_end(my_prefix text) RETURNS text LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    kept text := regexp_replace(my_prefix, '[^ -}]+$', '');
BEGIN
    IF kept = '' THEN
        RETURN coalesce((SELECT name FROM lock ORDER BY name DESC LIMIT 1), '') || '~';
    END IF;
    RETURN left(kept, -1) || chr(ascii(right(kept, 1)) + 1);
END
$$;

-- Who holds the locks whose names begin with these letters, and FREE entries for those that nobody has and that are not
-- simply free. role: 1 holder, 2 waiter, 3 past, 4 free. The names are told without their first strip letters. my_end: none of the names
-- is at or behind it. Without nested loops: the planner, who does not know the bounds, believes that few names lie between them. Where
-- one is needed all the same the plan looks so expensive that it would be compiled for a second.
CREATE OR REPLACE FUNCTION list_between(my_prefix text, my_end text, strip int)
RETURNS TABLE (role int, name text, owner text, note text, token bigint, remaining bigint, since bigint, until bigint, how int,
               mode int, max_holders int, waiters bigint, detached boolean, age bigint)
LANGUAGE plpgsql SET enable_nestloop = off SET jit = off AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS moment),
    locks AS (
        SELECT l.*, l.uid IS NOT NULL AND l.expires_at > moment AS held, moment,
               greatest(l.free_at, CASE WHEN l.uid IS NOT NULL THEN l.expires_at + l.delay * interval '1 ms' END) AS delayed_until
        FROM lock AS l, clock
        WHERE l.name >= my_prefix AND l.name < my_end AND starts_with(l.name, my_prefix) AND (l.crowded OR l.uid IS NOT NULL)),
    queues AS (SELECT w.name, count(*) AS waiters FROM wait AS w WHERE w.name >= my_prefix AND w.name < my_end
               GROUP BY w.name),
    holders AS (
        SELECT l.name, CASE WHEN l.taken = l.token THEN l.taker ELSE l.owner END AS owner,
               CASE WHEN l.taken = l.token THEN coalesce(l.taker_note, l.note) ELSE l.note END AS note,
               l.token, l.expires_at, l.since, 0 AS mode, 0 AS max_holders, l.detached, l.age
        FROM locks AS l WHERE l.held
        UNION ALL
        SELECT s.name, coalesce(s.taker, s.owner), coalesce(s.taker_note, s.note), s.token, s.expires_at, s.since, 1,
               s.max_holders, s.detached, s.age
        FROM share AS s, clock
        WHERE s.name >= my_prefix AND s.name < my_end AND starts_with(s.name, my_prefix) AND s.expires_at > moment)
    SELECT CASE WHEN h.name IS NULL THEN 4 ELSE 1 END, substr(l.name, strip + 1), coalesce(h.owner, ''), coalesce(h.note, ''),
           coalesce(h.token, 0), greatest(0, unix_ms(coalesce(h.expires_at, l.delayed_until)) - unix_ms(l.moment)),
           coalesce(unix_ms(h.since), 0), 0::bigint, 0, coalesce(h.mode, 0), coalesce(h.max_holders, 0), coalesce(q.waiters, 0),
           coalesce(h.detached, false), coalesce(h.age, 0)
    FROM locks AS l LEFT JOIN holders AS h ON h.name = l.name LEFT JOIN queues AS q ON q.name = l.name
    WHERE h.name IS NOT NULL OR q.waiters > 0 OR l.delayed_until > l.moment
    ORDER BY l.name, h.token;
END
$$;

CREATE OR REPLACE FUNCTION list_holders(my_prefix text, strip int)
RETURNS TABLE (role int, name text, owner text, note text, token bigint, remaining bigint, since bigint, until bigint, how int,
               mode int, max_holders int, waiters bigint, detached boolean, age bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
BEGIN
    RETURN QUERY SELECT * FROM list_between(my_prefix, prefix_end(my_prefix), strip);
END
$$;

-- The same of one lock, then its queue in its order, then those who had it before, the latest first. No row: it was never
-- used.
CREATE OR REPLACE FUNCTION show_lock(my_name text)
RETURNS TABLE (role int, name text, owner text, note text, token bigint, remaining bigint, since bigint, until bigint, how int,
               mode int, max_holders int, waiters bigint, detached boolean, age bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    waiting bigint := (SELECT count(*) FROM wait WHERE name = my_name);
BEGIN
    RETURN QUERY SELECT * FROM list_between(my_name, my_name || chr(1), 0) AS h WHERE h.name = my_name;
    RETURN QUERY SELECT 2, w.name, w.owner, w.note, 0::bigint, 0::bigint, unix_ms(w.since), 0::bigint, 0, w.mode, w.max_holders,
                        waiting, w.detached, coalesce(w.age, 0)
                 FROM wait AS w WHERE w.name = my_name ORDER BY w.ticket;
    -- Whose lease is over and whom nobody has cleared away yet is past.
    RETURN QUERY SELECT 3, my_name, p.owner, p.note, p.token, 0::bigint, unix_ms(p.since), unix_ms(p.until), p.how, p.mode,
                        p.max_holders, waiting, false, 0::bigint
                 FROM (SELECT s.owner, s.note, s.token, s.since, s.expires_at AS until, 2 AS how, 1 AS mode, s.max_holders,
                              0::bigint AS place
                       FROM share AS s WHERE s.name = my_name AND s.expires_at <= clock_timestamp()
                       UNION ALL
                       SELECT l.owner, l.note, l.token, l.since, l.expires_at, 2, 0, 0, 0
                       FROM lock AS l WHERE l.name = my_name AND l.uid IS NOT NULL AND l.expires_at <= clock_timestamp()
                       UNION ALL
                       SELECT t.owner, t.note, t.token, t.since, t.until, t.how, t.mode, t.max_holders, t.place
                       FROM lock AS l, unnest(l.past) WITH ORDINALITY
                            AS t(uid, token, owner, note, since, until, how, mode, max_holders, place)
                       WHERE l.name = my_name) AS p
                 ORDER BY p.place, p.until DESC;
END
$$;

-- Takes rows away that nobody has used for this long, and values whose time is over; what the tokens were stays in floor. Looks at 500 of
-- each at most and returns how many it has looked at: if that is 500 there may be more. 0 also if another one is reaping.
--
-- What every use of a lock changes is in no index, or each would write one (HOT). So there is seen_at, which only this changes: rows that
-- were in use when it came are not looked at again before they can be old enough.
CREATE OR REPLACE FUNCTION reap(older interval) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    before timestamptz := clock_timestamp() - older;
    l lock;
    looked bigint := 0;
    gone bigint;
    greatest_token bigint := 0;
BEGIN
    IF current_setting('transaction_isolation') <> 'read committed' THEN
        PERFORM refuse_isolation();
    END IF;
    PERFORM FROM floor FOR UPDATE SKIP LOCKED; -- one at a time
    IF NOT FOUND THEN
        RETURN 0;
    END IF;
    -- Rows that somebody uses at this moment are not waited for.
    FOR l IN SELECT * FROM lock WHERE seen_at < before ORDER BY seen_at LIMIT 500 FOR UPDATE SKIP LOCKED LOOP
        looked := looked + 1;
        IF l.since < before AND (l.crowded OR l.uid IS NOT NULL) AND (l.uid IS NULL OR l.expires_at < before) THEN
            PERFORM serve(settle(l), 0); -- left behind by waiters that died, or by a crash
            SELECT * INTO l FROM lock WHERE name = l.name;
        END IF;
        IF l.uid IS NULL AND NOT l.crowded AND l.since < before THEN
            DELETE FROM lock WHERE name = l.name;
            greatest_token := greatest(greatest_token, l.token);
        ELSE
            UPDATE lock SET seen_at = CASE WHEN l.uid IS NULL AND NOT l.crowded THEN coalesce(l.since, clock_timestamp())
                                          ELSE clock_timestamp() END
            WHERE name = l.name;
        END IF;
    END LOOP;
    UPDATE floor SET token = greatest_token WHERE token < greatest_token;
    DELETE FROM value AS v USING (SELECT name, advisory FROM value WHERE keep_until <= clock_timestamp()
                                  ORDER BY keep_until LIMIT 500 FOR UPDATE SKIP LOCKED) AS over
    WHERE v.name = over.name AND v.advisory = over.advisory AND v.keep_until <= clock_timestamp();
    GET DIAGNOSTICS gone = ROW_COUNT;
    RETURN greatest(looked, gone);
END
$$;

-- ---- sessions ---------------------------------------------------------------------------------------------------------

CREATE OR REPLACE FUNCTION lock_version() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 3';

-- The oldest version whose clients find all they need.
CREATE OR REPLACE FUNCTION serves_since() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 1';

-- A connection begins: it listens, and holds what shows that it lives. client: fresh and random for each, and nobody else's to
-- know. version: serves_since(), which is what clients of version 1 look at. fast: it may use the short statements instead of
-- functions. With the caller's own rights.
CREATE OR REPLACE FUNCTION enter(my_client bigint, OUT version int, OUT pid int, OUT fast boolean)
LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
BEGIN
    IF NOT pg_try_advisory_lock(life_of(my_client)) THEN
        RAISE 'another connection has the id %', my_client USING ERRCODE = 'lock_not_available';
    END IF;
    EXECUTE format('LISTEN %I', 'pawl_' || to_hex(my_client));
    version := serves_since();
    pid := pg_backend_pid();
    fast := has_table_privilege('lock', 'SELECT') AND has_table_privilege('lock', 'UPDATE')
            AND has_table_privilege('wait', 'SELECT') AND has_table_privilege('wait', 'INSERT')
            AND has_table_privilege('wait', 'DELETE');
END
$$;

-- ---- ?mode=advisory ---------------------------------------------------------------------------------------------------

-- The number of a name. Two names have two numbers: where their hashes meet the later one takes the next seed.
CREATE OR REPLACE FUNCTION advisory_key_of(my_name text) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
#variable_conflict use_column
DECLARE
    seed bigint := 0;
    found_key bigint;
BEGIN
    LOOP
        SELECT key INTO found_key FROM advisory_key WHERE name = my_name;
        EXIT WHEN FOUND;
        INSERT INTO advisory_key VALUES (my_name, hashtextextended(my_name, seed)) ON CONFLICT DO NOTHING;
        seed := seed + 1;
    END LOOP;
    RETURN found_key;
END
$$;

-- A session begins: the counter of tokens is at least at the clock, also if the database is an old copy. Sessions raise it one after the
-- other, so that none lowers what another raised. Nobody who draws from it is locked out, nor locks us out, whatever transaction that
-- is in: what is drawn between the look and setval is far below the clock, which is where setval puts it. version: as of enter().
CREATE OR REPLACE FUNCTION advisory_enter(OUT version int, OUT pid int)
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    clock bigint;
BEGIN
    IF (SELECT last_value FROM advisory_token) < next_token(0) - 100000 THEN
        PERFORM pg_advisory_xact_lock(x'7061776c'::int, hashtext(current_schema() || '.advisory_token'));
        clock := next_token(0);
        IF (SELECT last_value FROM advisory_token) < clock - 100000 THEN
            PERFORM setval('advisory_token', clock);
        END IF;
    END IF;
    version := serves_since();
    pid := pg_backend_pid();
END
$$;

-- store_value() for a lock of this very session: nobody else can have it before this is committed.
CREATE OR REPLACE FUNCTION advisory_store_value(my_name text, my_token bigint, my_data bytea, my_keep bigint) RETURNS int
LANGUAGE plpgsql SECURITY DEFINER SET search_path FROM CURRENT AS $$
DECLARE
    my_key bigint := advisory_key_of(my_name);
BEGIN
    IF NOT EXISTS (SELECT FROM pg_locks AS l JOIN pg_database AS d ON d.oid = l.database AND d.datname = current_database()
                   WHERE l.locktype = 'advisory' AND l.pid = pg_backend_pid() AND l.granted AND l.mode = 'ExclusiveLock'
                         AND l.objsubid = 1 AND (l.classid::bigint << 32 | l.objid::bigint) = my_key) THEN
        RETURN 0;
    END IF;
    PERFORM keep_value(my_name, true, my_token, my_data, my_keep);
    RETURN 1;
END
$$;

-- ---- rights -----------------------------------------------------------------------------------------------------------

DO $$
BEGIN
    EXECUTE format('REVOKE ALL ON ALL FUNCTIONS IN SCHEMA %I FROM PUBLIC', current_schema());
    IF current_setting('pawl.grants') <> '' THEN
        EXECUTE current_setting('pawl.grants');
    END IF;
END
$$;
