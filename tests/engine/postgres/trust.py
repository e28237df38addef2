#!/usr/bin/env python3
"""trust.py - whose functions a client runs. Any role that may CREATE in a database can make the schema before anybody else, or put
something into one where it may; neither the engine, nor the guard, nor the doctor of either runs that with the rights of its caller."""
from pg import *

MODES = {}, {"mode": "advisory"}
SPIES = "lock_version()", "serves_since()", "advisory_enter()", "guard_version()", "enter(bigint)", "admit(text, bigint)"


class Base:
    """A database of its own with a role that may CREATE in it, and a table that shows whose rights its functions had."""

    def __init__(self, name, *roles):
        """The roles first: they go after the database."""
        self.store = Postgres.one()
        self.mallory, *self.roles = [self.store.role("%s_%s%d" % (role, name, os.getpid())) for role in ("mallory", *roles)]
        self.name = self.store.database("%s%d" % (name, os.getpid()))
        self("GRANT CREATE ON DATABASE %s TO %s" % (self.name, self.mallory))
        self("CREATE SCHEMA loot AUTHORIZATION %s" % self.mallory)
        self("CREATE TABLE loot.seen (who text); GRANT USAGE ON SCHEMA loot TO PUBLIC; GRANT INSERT ON loot.seen TO PUBLIC")

    def __call__(self, statement, *values, user=None):
        if user:
            statement = "SET ROLE %s; %s" % (user, statement)
        return self.store(statement, *values, database=self.name)

    def url(self, **options):
        return self.store.url(**{"database": self.name, "timeout": "5s", **options})

    def spy(self, signature, returns="int", body="INSERT INTO loot.seen VALUES (current_user); RETURN 1;"):
        """A function of mallory's that shows that it was run."""
        self("CREATE FUNCTION %s RETURNS %s LANGUAGE plpgsql AS $$ BEGIN %s END $$; GRANT EXECUTE ON FUNCTION %s TO PUBLIC"
             % (signature, returns, body, signature), user=self.mallory)

    def untouched(self):
        equal(self("SELECT who FROM loot.seen"), [], "its function was run")


def refused(url, pattern):
    """By the engine in both modes and by the guard, each with the reason."""
    for mode in MODES:
        peer = Peer(url + "".join("&%s=%s" % pair for pair in mode.items()))
        answer = peer.acquire("a", patience=40) if peer.opened.code == OK else peer.opened
        equal(answer.code, DENIED, answer.text)
        matches(answer.text, pattern)
    note(answer.text)
    done = pawl("put", "--store", url, "r", "7", data="data")
    equal(done.code, 125, done.errors)
    matches(done.errors, pattern)


def doctors(url):
    """What both doctors find."""
    found = []
    for kind in "-e", "--store":
        done = pawl("doctor", kind, url, "--json")
        require(done.code in (0, 1), done.errors)
        found.append(json.loads(done.output))
    return found


def dangers(url, pattern):
    """Both doctors say so; gives what the engine's prints to resolve it."""
    for found in doctors(url):
        one = next((one for one in found if one["severity"] == "danger" and re.search(pattern, one["what"])), None)
        require(one, "not found: " + pattern, found)
    return next(one for one in doctors(url)[0] if one["severity"] == "danger")["mend"]


def works(url):
    for mode in MODES:
        peer = Peer(url + "".join("&%s=%s" % pair for pair in mode.items()))
        got = peer.acquire("a", wait=20000)
        equal(got.code, OK, got.text)
        equal(peer.release(), OK)
    done = pawl("put", "--store", url, "r", "7", data="data")
    equal(done.code, 0, done.errors)
    doctors(url)


def resolved(base, url, command):
    note(command)
    done = subprocess.run(["sh", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=PATIENCE, env={**os.environ, "PGUSER": ADMINISTRATOR})
    equal(done.returncode, 0, command, done.stdout)
    works(url)
    base.untouched()


# ---- a schema of somebody else's ------------------------------------------------------------------------------------------

@test(within=120)
def a_schema_that_an_ordinary_role_made_first_is_refused_and_nothing_of_it_is_run():
    base = Base("first", "worker")
    worker, = base.roles
    base("CREATE SCHEMA pawl; GRANT USAGE ON SCHEMA pawl TO PUBLIC", user=base.mallory)
    for signature in SPIES:
        base.spy("pawl." + signature)
    for user in "postgres", worker:
        url = base.url(user=user)
        refused(url, "pawl belongs to the role %s.*owner=%s" % (base.mallory, base.mallory))
        matches(dangers(url, "belongs to the role " + base.mallory), "owner=" + base.mallory)
    base.untouched()


@test(within=120)
def the_owner_is_a_superuser_or_the_databases_owner_or_ourselves_or_is_named():
    base = Base("owner", "keeper", "worker")
    keeper, worker = base.roles
    base("GRANT CREATE ON DATABASE %s TO %s" % (base.name, keeper))
    works(base.url(user=keeper))  # makes it
    base("GRANT USAGE ON SCHEMA pawl TO %s; GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl TO %s; "
         "GRANT USAGE ON SEQUENCE pawl.advisory_token TO %s" % ((worker,) * 3), user=keeper)
    for user in "postgres", worker:
        refused(base.url(user=user), "belongs to the role %s" % keeper)
        refused(base.url(user=user, owner=base.mallory), "belongs to the role %s" % keeper)
        works(base.url(user=user, owner=keeper))
    base("ALTER DATABASE %s OWNER TO %s" % (base.name, keeper))
    works(base.url(user=worker))
    refused(base.url(user="postgres"), "with the rights of postgres")  # who may do more than the database's owner
    refused(base.url(user=worker, owner=base.mallory), "belongs to the role %s" % keeper)
    base("ALTER DATABASE %s OWNER TO postgres" % base.name)


@test
def a_group_that_we_are_in_is_no_reason_to_trust_those_who_are_in_it_too():
    base = Base("group", "staff", "worker")
    staff, worker = base.roles
    base("GRANT %s TO %s, %s; GRANT CREATE ON DATABASE %s TO %s" % (staff, worker, base.mallory, base.name, staff))
    base("CREATE SCHEMA pawl AUTHORIZATION %s; GRANT USAGE ON SCHEMA pawl TO PUBLIC" % staff, user=base.mallory)
    for signature in SPIES:
        base.spy("pawl." + signature)
    refused(base.url(user=worker), "belongs to the role %s" % staff)
    base.untouched()


# ---- something in a schema of our own -------------------------------------------------------------------------------------

@test(within=120)
def a_schema_where_others_may_create_is_refused_until_they_may_not():
    base = Base("create")
    works(base.url())
    for who in "PUBLIC", base.mallory:
        base("GRANT USAGE, CREATE ON SCHEMA pawl TO %s" % who)
        refused(base.url(), "%s may create functions in the schema pawl.*REVOKE CREATE" % who)
        resolved(base, base.url(), dangers(base.url(), "may create functions"))


@test(within=120)
def whatever_another_role_left_in_the_schema_is_refused_until_it_is_dropped():
    base = Base("left")
    works(base.url())
    for make in ("CREATE FUNCTION pawl.next_token(numeric) RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint'",
                 "CREATE OPERATOR pawl.* (FUNCTION = loot.times, LEFTARG = bigint, RIGHTARG = interval)",
                 "CREATE TABLE pawl.notes (a int)", "CREATE VIEW pawl.glance AS SELECT 1 AS a", "CREATE SEQUENCE pawl.counts",
                 "CREATE TYPE pawl.shape AS (a int)", "CREATE DOMAIN pawl.bounds AS int CHECK (VALUE > 0)"):
        base("GRANT CREATE ON SCHEMA pawl TO %s; GRANT USAGE ON SCHEMA pawl TO %s" % (base.mallory, base.mallory))
        if "OPERATOR" in make:
            base.spy("loot.times(bigint, interval)", "interval", "INSERT INTO loot.seen VALUES (current_user); RETURN $2;")
        base(make, user=base.mallory)
        base("REVOKE CREATE ON SCHEMA pawl FROM %s" % base.mallory)
        refused(base.url(), "belongs to the role %s, and may run its code" % base.mallory)
        resolved(base, base.url(), dangers(base.url(), "belongs to the role"))


@test
def a_trigger_with_a_function_of_another_role_is_refused_until_it_is_dropped():
    base = Base("trigger")
    works(base.url())
    base.spy("loot.fires()", "trigger", "INSERT INTO loot.seen VALUES (current_user); RETURN NEW;")
    base("GRANT USAGE ON SCHEMA pawl TO %s; GRANT TRIGGER ON pawl.lock TO %s" % (base.mallory, base.mallory))
    base("CREATE TRIGGER evil BEFORE UPDATE ON pawl.lock FOR EACH ROW EXECUTE FUNCTION loot.fires()", user=base.mallory)
    refused(base.url(), "the trigger evil on pawl.lock runs a function of the role " + base.mallory)
    resolved(base, base.url(), dangers(base.url(), "the trigger evil"))


@test
def what_lies_in_public_is_not_found_by_the_first_statements():
    base = Base("public")
    base("GRANT CREATE ON SCHEMA public TO %s" % base.mallory)
    base.spy("public.times(float8, int)", "float8", "INSERT INTO loot.seen VALUES (current_user); RETURN $1;")
    base.spy("public.format(text, text, text, text)", "text", "INSERT INTO loot.seen VALUES (current_user); RETURN $1;")
    base("CREATE OPERATOR public.* (FUNCTION = public.times, LEFTARG = float8, RIGHTARG = int)", user=base.mallory)
    equal(base("SELECT 2::float8 * 3"), [(2.0,)], "the spy is not found by those who look there")
    base("DELETE FROM loot.seen")
    works(base.url())
    base.untouched()


# ---- the scripts ----------------------------------------------------------------------------------------------------------

@test
def public_is_refused_as_a_schema():
    base = Base("nopublic")
    opened = Peer(base.url(schema="public")).opened
    equal(opened.code, INVALID)
    matches(opened.text, "schema=public: locks need a schema of their own")
    done = pawl("put", "--store", base.url(schema="public"), "r", "7", data="data")
    equal(done.code, 125)
    matches(done.errors, "schema=public")


@test
def the_scripts_make_nothing_in_a_schema_of_another_role():
    base = Base("scripts")
    script = pawl("engines", "--sql", "postgres").output
    psql = ["psql", "-X", "-q", "-v", "ON_ERROR_STOP=1", base.url().partition("?")[0], "-c"]

    def run(*before):
        return subprocess.run([*psql, "".join(before) + script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              check=False, timeout=PATIENCE)
    base("CREATE SCHEMA pawl", user=base.mallory)
    done = run()
    require(done.returncode != 0, "it was made")
    matches(done.stdout, "belongs to the role %s, and this is postgres" % base.mallory)
    equal(base("SELECT count(*) FROM pg_proc WHERE pronamespace = 'pawl'::regnamespace"), [(0,)])
    equal(run("SET ROLE %s;" % base.mallory).returncode, 0)
    base("DROP SCHEMA pawl CASCADE; CREATE SCHEMA pawl; GRANT CREATE ON SCHEMA pawl TO PUBLIC")
    matches(run().stdout, "PUBLIC may create objects in the schema pawl")
    base("CREATE TABLE pawl.guard_mark (a int)", user=base.mallory)
    base("REVOKE CREATE ON SCHEMA pawl FROM PUBLIC")
    matches(run().stdout, "table pawl.guard_mark in the schema pawl belongs to the role " + base.mallory)
    base("DROP TABLE pawl.guard_mark")
    equal(run().returncode, 0)
    works(base.url())


main(missing("postgres"))
