#!/usr/bin/env python3
"""doctor.py - `pawl doctor` and PostgreSQL servers, databases and roles that are set up wrongly on purpose: each finding is
there, and gone when exactly the command was run that it prints."""
from pg import *

MODES = {}, {"mode": "advisory"}


def findings(url):
    done = pawl("doctor", "-e", url, "--json")
    require(done.code in (0, 1), done.errors)
    return json.loads(done.output)


def finding(url, pattern, severity=None):
    """The finding that says so, or None."""
    return next((one for one in findings(url)
                 if re.search(pattern, one["what"]) and (not severity or one["severity"] == severity)), None)


def mended(url, severity, pattern):
    """It is found; then its command is run by the administrator, and it is not found again."""
    found = eventually(lambda: finding(url, pattern, severity), "not found: " + pattern)
    note(found["mend"])
    done = subprocess.run(["sh", "-c", found["mend"]], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False, timeout=PATIENCE, env={**os.environ, "PGUSER": ADMINISTRATOR})
    equal(done.returncode, 0, found["mend"], done.stdout)
    eventually(lambda: not finding(url, pattern, severity), "it is said again: " + pattern)


def worker(store, name, *rights):
    """A role that may do what the engine needs, and no more."""
    equal(warmed(store.url()).leave(), 0)
    return store.role(name, *rights)


RIGHTS = "USAGE ON SCHEMA pawl", "EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl", "USAGE ON SEQUENCE pawl.advisory_token"


# ---- what is fine ---------------------------------------------------------------------------------------------------------

@test
def a_server_that_is_set_up_well_and_a_role_that_may_do_little_are_fine():
    store = Postgres.new()
    store("ALTER SYSTEM SET fsync = on")
    store("ALTER SYSTEM SET tcp_keepalives_idle = 30")
    store("SELECT pg_reload_conf()")
    role = worker(store, "modest", *RIGHTS)
    for mode in MODES:
        eventually(lambda: not [one for one in findings(store.url(user=role, **mode)) if one["severity"] != "fine"],
                   findings(store.url(user=role, **mode)))


@test
def it_makes_no_schema_and_leaves_no_connection():
    store = Postgres.one()
    store.database("untouched%d" % os.getpid())
    url = store.url(database="untouched%d" % os.getpid())
    found = finding(url, "is not there yet")
    equal(found and found["severity"], "fine", findings(url))
    equal(store("SELECT count(*) FROM pg_namespace WHERE nspname = 'pawl'", database="untouched%d" % os.getpid()), [(0,)])
    eventually(lambda: not store.backends(), store.backends())


@test
def what_a_role_sets_otherwise_is_said_and_does_no_harm():
    store = Postgres.one()
    role = worker(store, "strange%d" % os.getpid(), *RIGHTS)
    for setting in ("statement_timeout = '50ms'", "lock_timeout = '40ms'", "idle_session_timeout = '200ms'",
                    "default_transaction_isolation = 'serializable'"):
        store("ALTER ROLE %s SET %s" % (role, setting))
    found = finding(store.url(user=role), "our own sessions set them otherwise")
    equal(found and found["severity"], "fine")
    for setting in ("statement_timeout", "lock_timeout", "idle_session_timeout", "serializable"):
        require(setting in found["what"], found)
    for mode in MODES:
        peer = Peer(store.url(user=role, **mode))
        answer = peer.acquire("a", ttl=3000)
        equal(answer.code, OK, answer.text)
        time.sleep(1)
        equal(peer.check(), OK, "a session was ended, or a lock lost")
        equal(peer.release(), OK)


# ---- what is not there ----------------------------------------------------------------------------------------------------

@test
def one_that_cannot_be_reached_is_one_danger_with_its_reason():
    found = findings("postgres://postgres@127.0.0.1:%d/postgres?timeout=500ms" % free_port())
    equal([one["severity"] for one in found], ["danger"])
    matches(found[0]["what"], "cannot be reached.*refused")


@test
def a_database_and_a_role_that_are_not_there_are_told_apart():
    store = Postgres.one()
    matches(findings(store.url(database="nosuch"))[0]["what"], 'nosuch.*does not exist')
    matches(findings(store.url(user="nobody_here"))[0]["what"], "refuses us.*nobody_here")


@test
def a_schema_that_this_role_may_not_make_is_a_danger_with_the_command_of_an_administrator():
    store = Postgres.one()
    role = store.role("humble%d" % os.getpid())
    found = finding(store.url(user=role, schema="elsewhere"), "elsewhere is not there", "danger")
    require(found, "not found")
    matches(found["mend"], r"^pawl engines --sql postgres \| psql .*elsewhere")
    require(finding(store.url(schema="elsewhere", create="no"), "create=no", "danger"), "create=no is not said")


# ---- what is wrong --------------------------------------------------------------------------------------------------------

@test(within=120)
def settings_that_forget_are_found_and_mended():
    store = Postgres.new()
    for setting in ("fsync = off", "full_page_writes = off", "autovacuum = off", "tcp_keepalives_idle = 7200"):
        store("ALTER SYSTEM SET " + setting)
    store("SELECT pg_reload_conf()")
    mended(store.url(), "danger", "fsync off")
    mended(store.url(), "danger", "full_page_writes off")
    mended(store.url(), "warning", "autovacuum off")
    mended(store.url(), "advice", "tcp_keepalives_idle")
    require(finding(store.url(), "survive a crash", "fine"))


@test
def commits_that_are_not_waited_for_are_found_and_mended():
    store = Postgres.one()
    role = worker(store, "hasty%d" % os.getpid(), *RIGHTS)
    store("ALTER ROLE %s SET synchronous_commit = off" % role)
    mended(store.url(user=role), "advice", "synchronous_commit is off")


@test
def a_role_that_only_reads_is_found_and_mended():
    store = Postgres.one()
    role = worker(store, "reader%d" % os.getpid(), *RIGHTS)
    store("ALTER ROLE %s SET default_transaction_read_only = on" % role)
    mended(store.url(user=role), "danger", "only read")


@test
def rights_that_are_missing_are_granted_by_what_it_prints():
    store = Postgres.one()
    for mode in MODES:
        for number, rights in enumerate(((), RIGHTS[:1], RIGHTS[1:])):
            role = worker(store, "lacks_%d_%d_%s" % (os.getpid(), number, mode.get("mode", "rows")), *rights)
            url = store.url(user=role, **mode)
            mended(url, "danger", "may not use the schema pawl")
            peer = Peer(url)
            answer = peer.acquire("a")
            equal(answer.code, OK, answer.text)
            equal(peer.release(), OK)


@test
def a_counter_that_may_not_be_used_matters_in_advisory_mode_only():
    store = Postgres.one()
    role = worker(store, "counts%d" % os.getpid(), *RIGHTS[:2])
    require(not finding(store.url(user=role), "may not use"), "the rows need no counter")
    refused = Peer(store.url(user=role, mode="advisory"))
    answer = refused.acquire("a")
    equal(answer.code, DENIED, answer.text)
    mended(store.url(user=role, mode="advisory"), "danger", "may not use the schema pawl")
    equal(refused.acquire("a").code, OK, "what was refused left the lock behind")
    equal(refused.release(), OK)


@test
def a_role_with_odd_letters_is_quoted():
    store = Postgres.one()
    name = 'odd "%d" $x; \'' % os.getpid()
    quoted = '"%s"' % name.replace('"', '""')
    equal(warmed(store.url()).leave(), 0)
    store("CREATE ROLE %s LOGIN" % quoted)
    at_end(lambda: (store("DROP OWNED BY %s" % quoted), store("DROP ROLE %s" % quoted)))
    mended(store.url(user=encoded(name)), "danger", "may not use the schema pawl")


@test
def one_who_may_do_anything_is_advised_otherwise():
    store = Postgres.one()
    require(finding(store.url(), "the role postgres may do anything", "advice"))
    role = worker(store, "little%d" % os.getpid(), *RIGHTS)
    require(not finding(store.url(user=role), "may do anything"))


@test
def a_schema_of_another_version_is_a_danger():
    store = Postgres.new()
    equal(warmed(store.url()).leave(), 0)
    for function, version in ("lock_version", 999), ("serves_since", 998):
        require(finding(store.url(), "has the rights it needs"), findings(store.url()))
        store("CREATE OR REPLACE FUNCTION pawl.%s() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT %d'" % (function, version))
    require(finding(store.url(), "is of version 999, and does not serve this", "danger"), findings(store.url()))


@test
def a_schema_of_the_version_before_is_fine_for_who_may_change_it_and_a_danger_for_others():
    store = Postgres.new()
    store(older_schema(3))
    role = store.role("little%d" % os.getpid(), *RIGHTS)
    require(finding(store.url(), "is of version 3, and is made one of version 4 at the first use"), findings(store.url()))
    require(finding(store.url(user=role), "this role may not change it", "danger"), findings(store.url(user=role)))
    require(finding(store.url(create="no"), "and create=no", "danger"), findings(store.url(create="no")))
    equal(warmed(store.url()).leave(), 0)
    require(finding(store.url(user=role), "has the rights it needs"), findings(store.url(user=role)))


@test(within=120)
def connections_that_run_out_are_a_warning_before_they_do():
    import psycopg2
    store = Postgres.new()
    server = store.members[0]
    server.end(signal.SIGINT)
    server.start("-c", "max_connections=20", "-c", "max_wal_senders=2")
    eventually(lambda: store.answers(server), store.log)
    require(finding(store.url(), "of its 17 connections are in use", "fine"), findings(store.url()))
    require(finding(store.url(mode="advisory"), "may use 32 of them", "advice"))
    many = [psycopg2.connect(host=server.data, port=server.port, user=ADMINISTRATOR, dbname="postgres") for _ in range(15)]
    found = eventually(lambda: finding(store.url(), "of its 17 connections are in use", "warning"), findings(store.url()))
    matches(found["mend"], "max_connections = 40")
    for one in many:
        one.close()


# ---- more than one server -------------------------------------------------------------------------------------------------

@test(within=120)
def a_standby_is_a_danger_and_one_that_is_not_waited_for_is_a_warning():
    store = Postgres.new("postgres-pair")
    primary, standby = store.members
    require(finding(store.url(standby), "only reads", "danger"), findings(store.url(standby)))
    require(finding(store.url(primary), "commits wait for them", "fine"), findings(store.url(primary)))
    primary("ALTER SYSTEM SET synchronous_standby_names = ''")
    primary("SELECT pg_reload_conf()")
    mended(store.url(primary), "warning", "a failover may forget")
    require(not finding(store.url(primary, mode="advisory"), "failover", "warning"), "its holders hear of it")


@test
def a_pooler_is_a_danger_unless_it_is_said_to_be_fine():
    if have("pgbouncer"):
        return note("PgBouncer is not here")
    for kind, options, severity in (("pgbouncer", {}, "danger"), ("pgbouncer-session", {}, "danger"),
                                    ("pgbouncer-session", {"pooler": "session"}, "fine")):
        pool = Pooled.get(kind)
        found = finding(pool.url(**options), "pooler")
        equal(found and found["severity"], severity, kind, options)
    return None


class Pooled(Store):
    def fresh(self):
        self.prefix = ""

    def answers(self, member):
        import psycopg2
        try:
            psycopg2.connect(host="127.0.0.1", port=member.port, user=ADMINISTRATOR, dbname="postgres").close()
            return True
        except psycopg2.Error:
            return False

    def url(self, **options):
        return "postgres://postgres@%s/postgres?%s" % (self.hosts(), "&".join("%s=%s" % pair for pair in options.items()))


main(missing("postgres", "postgres-pair"))
