#!/usr/bin/env python3
"""command.py - `pawl` on PostgreSQL from end to end: looking, breaking, leases in words, history, what an administrator runs, and
a doctor whose commands mend what it finds."""
from pg import *


def listed(store, *arguments):
    done = pawl("ls", "-e", store.url(), "--json", *arguments)
    equal(done.code, 0, done.errors)
    return json.loads(done.output)


def shown(store, name):
    done = pawl("show", "-e", store.url(), "--json", name)
    return json.loads(done.output) if done.code == 0 else []


def past_of(store, name):
    return [line for line in shown(store, name) if line["role"] == "past"]


# ---- running -----------------------------------------------------------------------------------------------------------

@test
def run_holds_the_lock_for_as_long_as_the_command_runs():
    for options in ({}, {"mode": "advisory"}):
        store = Postgres.one()
        url = store.url(**options)
        done = pawl("run", "-e", url, "a", "sh", "-c", 'echo "$PAWL_TOKEN"; "$0" run -n -e "$1" a true; echo $?', PAWL, url)
        equal(done.code, 0, done.errors)
        token, inner = done.output.split()
        require(int(token) > 0)
        require(inner != "0", "two hold it")
        done = pawl("run", "-e", url, "a", "sh", "-c", 'echo "$PAWL_TOKEN"; exit 7')
        equal(done.code, 7, done.errors)
        require(int(done.output) > int(token))


@test
def run_waits_for_its_turn():
    for options in ({}, {"mode": "advisory"}):
        store = Postgres.one()
        holder = Peer(store.url(**options))
        held = holder.acquire("a")
        equal(held.code, OK, held.text)
        waiter = start_pawl("run", "-e", store.url(**options), "a", "sh", "-c", 'echo "$PAWL_TOKEN"')
        time.sleep(0.7)
        equal(waiter.poll(), None)
        equal(holder.release(), OK)
        output, errors = waiter.communicate(timeout=PATIENCE)
        equal(waiter.returncode, 0, errors)
        require(int(output) > held.token)


# ---- looking -----------------------------------------------------------------------------------------------------------

@test
def looking_shows_holders_and_waiters():
    store = Postgres.one()
    holder, waiter, other = [Peer(store.url()) for _ in range(3)]
    held = holder.acquire("mine", ttl=LONG)
    equal(held.code, OK, held.text)
    equal(other.acquire("other", ttl=LONG).code, OK)
    waiter.request("mine")
    eventually(lambda: len(store.line("mine")) == 2)
    mine, theirs = listed(store)
    equal((mine["name"], mine["role"], mine["token"], mine["waiters"]), ("mine", "holder", str(held.token), 1))
    equal((theirs["name"], theirs["role"]), ("other", "holder"))
    require(LONG / 2 < mine["remaining_ms"] <= LONG, mine)
    equal([line["role"] for line in shown(store, "mine")][:2], ["holder", "waiter"])
    equal([line["name"] for line in listed(store, "oth")], ["other"])


@test
def who_looks_at_nothing_sees_nothing_and_makes_nothing():
    store = Postgres.one()
    equal(listed(store), [])
    equal(shown(store, "nobody"), [])
    equal(store.left(), [])
    equal(store("SELECT count(*) FROM pawl.lock WHERE starts_with(name, %s)", store.prefix), [(0,)])


@test
def shared_holders_are_all_listed():
    store = Postgres.one()
    readers = [Peer(store.url()) for _ in range(3)]
    for reader in readers:
        equal(reader.acquire("a", mode=1, ttl=LONG).code, OK)
    equal([line["role"] for line in listed(store)], ["holder"] * 3)
    equal(len({line["token"] for line in listed(store)}), 3)


@test(within=120)
def more_than_a_page_of_names_is_listed_each_once():
    store = Postgres.one()
    equal(warmed(store.url()).leave(), 0)
    names = ["n%05d" % number for number in range(10300)]
    store("""INSERT INTO pawl.lock (name, token, uid, client, owner, note, ttl, delay, since, expires_at)
             SELECT %s || lpad(n::text, 5, '0'), 1, gen_random_uuid(), 1, 'o', 'x', 600000, 0, clock_timestamp(),
             clock_timestamp() + interval '10 min' FROM generate_series(0, 10299) AS n""", store.prefix + "n")
    equal([line["name"] for line in listed(store)], names)
    store("DELETE FROM pawl.lock WHERE starts_with(name, %s)", store.prefix)


# ---- history -----------------------------------------------------------------------------------------------------------

@test
def history_tells_who_had_it_also_to_others():
    store = Postgres.one()
    equal(pawl("run", "-e", store.url(), "a", "true").code, 0)
    equal(pawl("run", "-e", store.url(), "a", "false").code, 1)
    past = past_of(store, "a")
    equal([(line["note"], line["how"]) for line in past], [("false", "released"), ("true", "released")])
    require(int(past[0]["token"]) > int(past[1]["token"]))


@test
def a_holder_that_was_killed_is_a_past_owner_that_expired():
    store = Postgres.one()
    holder = Peer(store.url())
    token = holder.acquire("a", ttl=500).token
    holder.kill()
    eventually(lambda: store.line("a") == [])
    equal(pawl("run", "-e", store.url(), "a", "true").code, 0)
    equal([(int(line["token"]), line["how"]) for line in past_of(store, "a")][1:], [(token, "expired")])


@test
def history_is_kept_for_the_last_few_and_no_more():
    store = Postgres.one()
    holder = Peer(store.url())
    tokens = []
    for _ in range(20):
        tokens.append(holder.acquire("a").token)
        equal(holder.release(), OK)
    past = [int(line["token"]) for line in past_of(store, "a")]
    require(8 <= len(past) <= 16, len(past))
    equal(past, tokens[::-1][:len(past)])


# ---- breaking and asking ------------------------------------------------------------------------------------------------

@test
def a_break_cuts_the_holder_off_and_it_is_told_why():
    store = Postgres.one()
    holder, waiter = Peer(store.url()), Peer(store.url())
    held = holder.acquire("a", ttl=LONG)
    equal(held.code, OK)
    waiter.request("a")
    eventually(lambda: len(store.line("a")) == 2)
    done = pawl("break", "-e", store.url(), "a")
    equal(done.code, 0, done.errors)
    got = waiter.hear()
    equal(got.code, OK)
    require(got.token > held.token)
    eventually(lambda: holder.number("reason") == BROKEN)
    equal(holder.release(), LOST)
    equal(waiter.check(), OK, "a late release took it away")
    equal(past_of(store, "a")[0]["how"], "broken")
    require(pawl("break", "-e", store.url(), "nobody").code != 0)


@test
def a_break_of_a_holder_that_stands_still_is_done_all_the_same():
    store = Postgres.one()
    holder = Peer(store.url())
    equal(holder.acquire("a", ttl=9000).code, OK)
    holder.stop()
    at_end(holder.go_on)
    equal(pawl("break", "-e", store.url(), "a").code, 0)
    equal(store.line("a"), [])
    holder.go_on()
    eventually(lambda: holder.check() == LOST)


@test
def all_of_many_who_share_are_broken_at_once():
    store = Postgres.one()
    readers = [Peer(store.url()) for _ in range(6)]
    for reader in readers:
        equal(reader.acquire("a", mode=1, ttl=LONG).code, OK)
    equal(pawl("break", "-e", store.url(), "a").code, 0)
    equal(store.left(), [])
    for reader in readers:
        eventually(lambda: reader.check() == LOST)


# ---- leases -------------------------------------------------------------------------------------------------------------

@test
def acquire_renew_and_release_work_with_a_lease_in_a_word():
    store = Postgres.one()
    done = pawl("acquire", "-e", store.url(), "--ttl", "30s", "x")
    equal(done.code, 0, done.errors)
    token, lease = done.output.split()
    require(int(token) > 0)
    matches(lease, r"^[a-z]1\.[A-Za-z0-9._-]+$")
    equal(len(store.line("x")), 1)
    done = pawl("renew", "-e", store.url(), lease)
    equal(done.code, 0, done.errors)
    equal(pawl("run", "-n", "-e", store.url(), "x", "true").code, 1)
    equal(pawl("release", "-e", store.url(), lease).code, 0)
    equal(store.line("x"), [])
    require(pawl("release", "-e", store.url(), lease).code != 0)
    require(pawl("renew", "-e", store.url(), lease).code != 0)


@test
def a_shared_lease_is_given_back_as_what_it_is():
    store = Postgres.one()
    leases = [pawl("acquire", "-e", store.url(), "--ttl", "30s", "--shared", "x").output.split()[1] for _ in range(2)]
    equal(len(store.line("x")), 2)
    for lease in leases:
        done = pawl("release", "-e", store.url(), lease)
        equal(done.code, 0, done.errors)
    equal(store.line("x"), [])


@test
def a_lease_of_an_advisory_lock_is_refused_in_words():
    """It belongs to a connection: nothing of it can be carried away."""
    store = Postgres.one()
    done = pawl("acquire", "-e", store.url(mode="advisory"), "--ttl", "30s", "x")
    require(done.code != 0, done.output)
    matches(done.errors, "outlive")
    note(done.errors.strip())


@test
def a_lease_is_not_made_longer_by_being_looked_at():
    store = Postgres.one()
    holder = Peer(store.url())
    equal(holder.acquire("x", ttl=3000, flags=2).code, OK)
    word = holder.ask("lease").text.strip()
    equal(holder.ask("forget").code, OK)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        answer = holder.ask("adopt " + word)
        if answer.code != OK:
            break
        equal(holder.ask("forget").code, OK)
        time.sleep(0.3)
    equal(answer.code, LOST, answer.text)
    eventually(lambda: store.line("x") == [])


# ---- what an administrator runs -------------------------------------------------------------------------------------------

@test
def what_the_command_prints_makes_a_schema_that_works_and_may_be_run_again():
    store = Postgres.one()
    base = store.database("prepared")
    done = pawl("engines", "--sql", "postgres")
    equal(done.code, 0, done.errors)
    for _ in range(2):
        installed = subprocess.run(["psql", "-qX1", "-v", "ON_ERROR_STOP=1", "-h", store.members[0].data, "-p",
                                    str(store.members[0].port), "-U", "postgres", base], input=done.output, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, check=False)
        equal(installed.returncode, 0, installed.stdout)
    user = store.role("clerk")
    for right in ("USAGE ON SCHEMA pawl", "EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl"):
        store("GRANT %s TO clerk" % right, database=base)
    at_end(lambda: store("DROP OWNED BY clerk", database=base))
    equal(pawl("run", "-e", store.url(user=user, database=base), "a", "true").code, 0)


# ---- doctor ---------------------------------------------------------------------------------------------------------------

def findings(url):
    done = pawl("doctor", "-e", url, "--json")
    require(done.code in (0, 1), done.errors)
    return json.loads(done.output)


def finding(url, pattern):
    """The finding that says so, or None."""
    return next((one for one in findings(url) if re.search(pattern, one["what"], re.I)), None)


def obey(store, command):
    """As the administrator."""
    done = subprocess.run(command, shell=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "PGUSER": "postgres"})
    require(done.returncode == 0, command, done.stdout)


@test
def doctor_finds_nothing_dangerous_in_a_pair_and_leaves_nothing():
    store = Postgres.new("postgres-pair")
    equal(warmed(store.url(*store.members)).leave(), 0)
    found = findings(store.url(*store.members))
    equal([one["what"] for one in found if one["severity"] == "danger"], [])
    equal(store.left(), [])


@test
def doctor_says_what_cannot_be_reached():
    found = findings("postgres://postgres@127.0.0.1:%d/postgres?timeout=500ms" % free_port())
    equal([one["severity"] for one in found], ["danger"])


@test
def doctor_says_that_grants_may_be_forgotten_and_its_command_mends_it():
    store = Postgres.new()
    for setting in ("fsync", "full_page_writes"):
        store("ALTER SYSTEM SET %s = off" % setting)
        store("SELECT pg_reload_conf()")
        found = eventually(lambda: finding(store.url(), setting))
        equal(found["severity"], "danger")
        obey(store, found["mend"])
        eventually(lambda: store("SHOW " + setting) == [("on",)], found["mend"])
        equal(finding(store.url(), setting + ".* off"), None)


@test
def doctor_says_which_rights_are_missing_and_its_command_gives_them():
    store = Postgres.new()
    equal(warmed(store.url()).leave(), 0)
    store("REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl FROM PUBLIC")
    user = store.role("clerk")
    url = store.url(user=user)
    denied = next(one for one in findings(url) if one["severity"] == "danger")
    matches(denied["what"], "right|may not|permission")
    obey(store, denied["mend"])
    equal([one["what"] for one in findings(url) if one["severity"] == "danger" and "fsync" not in one["what"]], [])
    done = pawl("run", "-e", url, "a", "true")
    equal(done.code, 0, done.errors)


@test
def doctor_speaks_of_a_pooler_and_of_a_standby():
    store = Postgres.new("postgres-pair")
    found = findings(store.url(store.members[1], timeout="1s"))
    require([one for one in found if one["severity"] == "danger" and re.search("standby|read-only", one["what"])], found)
    pool = Store("pgbouncer")
    at_end(pool.down)
    found = findings("postgres://postgres@%s/postgres?timeout=1s" % pool.hosts())
    require([one for one in found if one["severity"] == "danger" and "pooler" in one["what"]], found)


main(missing("postgres", "postgres-pair"))
