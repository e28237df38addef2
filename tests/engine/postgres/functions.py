#!/usr/bin/env python3
"""functions.py - the functions of schema.sql by themselves, without the engine: every state of a lock's row, sessions that race,
rights, a crash. Needs POSTGRES_URL (tests/servers/with postgres)."""
import importlib.util
import os
import pathlib
import random
import re
import select
import signal
import sys
import threading
import time
import traceback
import uuid

if not importlib.util.find_spec("psycopg2") and sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

SOURCE = pathlib.Path(os.environ.get("SOURCE_DIR") or pathlib.Path(__file__).resolve().parents[3])
sys.path.insert(0, str(SOURCE / "tests/tap"))
from tap import check, finish  # noqa: E402

try:
    import psycopg2
    from psycopg2 import sql
except ImportError:
    print("1..1\nok 1 - the functions do what they say # SKIP missing: python3-psycopg2")
    sys.exit(0)

URL = os.environ["POSTGRES_URL"]
SCHEMA_SQL = (SOURCE / "src/engine/postgres/schema.sql").read_text(encoding="utf-8")
OLDER_SQL = {version: (SOURCE / ("tests/engine/postgres/schema-%d.sql" % version)).read_text(encoding="utf-8") for version in (1, 2, 3)}
TRUST_SQL = re.sub(r"^--.*\n", "", (SOURCE / "src/base/pq_trust.sql").read_text(encoding="utf-8"), flags=re.M)
STATEMENTS = dict(re.findall(r"^-- name: (\w+)\n(.*?)\n(?:\n|\Z)", (SOURCE / "src/engine/postgres/statements.sql").read_text(
    encoding="utf-8"), re.S | re.M))
PATIENCE = 20.0  # only a failing test waits so long
RELEASED, EXPIRED, BROKEN = 1, 2, 4
HOLDER, WAITER, PAST, FREE = 1, 2, 3, 4


class Wrong(Exception):
    pass


def equal(actual, expected, *notes):
    if actual != expected:
        raise Wrong("%r, expected %r" % (actual, expected), *notes)


def require(good, *notes):
    if not good:
        raise Wrong(*notes)


def eventually(condition, *notes):
    until = time.monotonic() + PATIENCE
    while True:
        value = condition()
        if value:
            return value
        require(time.monotonic() < until, "did not become true", *notes)
        time.sleep(0.01)


# ---- sessions ------------------------------------------------------------------------------------------------------------

def install(schema="pawl", script=None, **more):
    connection = psycopg2.connect(URL, **more)
    try:
        with connection, connection.cursor() as cursor:
            cursor.execute("SELECT set_config('pawl.schema', %s, true)", [schema])
            cursor.execute(script or SCHEMA_SQL)
    finally:
        connection.close()


class Session:
    """A connection of a client, as the engine makes it."""

    def __init__(self, schema="pawl", enters=True, user=None, password=None):
        more = {"user": user} if user else {}
        if password:
            more["password"] = password
        self.connection = psycopg2.connect(URL, **more)
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        self.notes = []
        self.client = random.getrandbits(63) + 1
        self("SET search_path TO pg_catalog")
        equal(self(statement("settings"), schema, "", "20000", "0")[0][4], None)
        if enters:
            self.serves_since, self.pid, self.fast, self.version = self(statement("enter"), self.client)[0]

    def __call__(self, text, *values):
        named = {str(i): value for i, value in enumerate(values, 1)}
        self.cursor.execute(text, named if "%(1)s" in str(text) else values)
        self.hear()
        return self.cursor.fetchall() if self.cursor.description else None

    def hear(self):
        self.connection.poll()
        self.notes += [note.payload for note in self.connection.notifies]
        del self.connection.notifies[:]

    def told(self, word, uid):
        """The words of a notice behind the uid, as soon as it comes."""
        start = "%s %s" % (word, uid.replace("-", ""))

        def found():
            select.select([self.connection], [], [], 0.05)
            self.hear()
            return [note for note in self.notes if note.startswith(start)]
        note = eventually(found, "not told: " + start, self.notes)[0]
        return [int(number) for number in note[len(start):].split()]

    def acquire(self, name, uid=None, mode=0, limit=0, ttl=10000, delay=0, wait=True, ticket=0, client=None, detached=False,
                owner="somebody", note="a note", age=0):
        uid = uid or new_uid()
        row = self(statement("acquire"), name, uid, client or self.client, owner, note, mode, limit, ttl, delay, age, detached, wait,
                   ticket)
        equal(len(row), 1)
        token, ticket, look, seen = row[0]
        return Claim(uid, token, ticket, look, seen)

    def attempt(self, name, **more):
        return self.acquire(name, wait=False, **more).token

    def hold(self, name, **more):
        claim = self.acquire(name, **more)
        require(claim.token > 0, "not held: %s" % name)
        return claim

    def release(self, name, uid, lost=False):
        rows = self(statement("release"), name, uid, self.client, lost)
        self(statement("tell"))
        return self.first_and_grants(rows, uid)

    def cancel(self, name, uid):
        return self.first_and_grants(self(statement("cancel"), name, uid, self.client), uid)

    def breaks(self, name, token=0, owner="an administrator", reason=""):
        return self.first_and_grants(self(statement("break"), name, self.client, token, owner, reason), None)

    @staticmethod
    def first_and_grants(rows, uid):
        equal((rows[0][0], rows[0][2]), (uid, 0))
        return rows[0][1], [tuple(row) for row in rows[1:]]

    def renew(self, *pairs, ttl=10000):
        rows = self("SELECT uid, result FROM renew(%s, %s, %s::uuid[], %s)", self.client, [name for name, _ in pairs],
                    [uid for _, uid in pairs], [ttl] * len(pairs))
        return dict(rows)

    def adopt(self, name, uid, owner="somebody else", note=""):
        return self(statement("adopt"), name, uid, self.client, owner, note)

    def store(self, name, claim, data, keep=0, former=()):
        return self(statement("store"), name, claim.uid, claim.token, data, keep, list(former))[0][0]

    def fetch(self, name, advisory=False):
        """The bytes and their token; None."""
        rows = self(statement("fetch"), name, advisory)
        return (bytes(rows[0][0]), rows[0][1]) if rows else None

    def show(self, name):
        return [Entry(*row) for row in self(statement("show"), name)]

    def list(self, prefix, strip=0):
        return [Entry(*row) for row in self(statement("list"), prefix, strip)]

    def row(self, name, column):
        found = self(sql.SQL("SELECT {} FROM lock WHERE name = %s").format(sql.Identifier(column)), name)
        return found[0][0] if found else None

    def waiters(self, name):
        return [row[0] for row in self("SELECT uid FROM wait WHERE name = %s ORDER BY ticket", name)]

    def age(self, name, seconds):
        """As if the holder's lease had run out so long ago."""
        self("UPDATE lock SET expires_at = clock_timestamp() - %s * interval '1 s' WHERE name = %s", seconds, name)
        self("UPDATE share SET expires_at = clock_timestamp() - %s * interval '1 s' WHERE name = %s", seconds, name)

    def close(self):
        self.connection.close()


class Claim:
    def __init__(self, uid, token, ticket, look, seen):
        self.uid, self.token, self.ticket, self.look, self.seen = uid, token, ticket, look, seen


class Entry:
    def __init__(self, role, name, owner, note, token, remaining, since, until, how, mode, limit, waiters, detached, age, broken_by,
                 reason):
        self.role, self.name, self.owner, self.note, self.token = role, name, owner, note, token
        self.remaining, self.since, self.until, self.how = remaining, since, until, how
        self.mode, self.limit, self.waiters, self.detached, self.age = mode, limit, waiters, detached, age
        self.broken_by, self.reason = broken_by, reason


def statement(name):
    """With the parameters as this driver wants them."""
    types = {"acquire": {2: "uuid", 3: "bigint", 8: "bigint", 9: "bigint", 10: "bigint", 13: "bigint"}, "take": {2: "uuid"},
             "give": {2: "uuid"}, "release": {2: "uuid"}, "cancel": {2: "uuid"}, "adopt": {2: "uuid", 3: "bigint"}, "hand": {2: "uuid"},
             "store": {2: "uuid", 3: "bigint", 5: "bigint", 6: "bigint[]"}, "advisory_store": {2: "bigint", 4: "bigint"},
             "line_up": {2: "uuid", 3: "bigint", 8: "bigint", 9: "bigint", 10: "bigint"}}
    casts = types.get(name, {})

    def parameter(found):
        number = int(found.group(1))
        return "%%(%d)s" % number + ("::" + casts[number] if number in casts else "")
    return re.sub(r"\$(\d+)", parameter, STATEMENTS[name].replace("{trust}", TRUST_SQL).replace("%", "%%"))


def new_uid():
    return str(uuid.uuid4())


def take(session, name, uid=None, ttl=10000):
    """The short way; None if it is not as simple as that."""
    uid = uid or new_uid()
    rows = session(statement("take"), name, uid, session.client, "somebody", "a note", ttl, 0, 0, False)
    return Claim(uid, rows[0][0], 0, 0, 0) if rows else None


def give(session, name, uid):
    return bool(session(statement("give"), name, uid))


def line_up(session, name, mode=0, ttl=10000):
    uid = new_uid()
    rows = session(statement("line_up"), name, uid, session.client, "somebody", "a note", mode, 0, ttl, 0, 0, False)
    return Claim(uid, *rows[0])


def hand(session, name, uid):
    """Who has it now, with which token and for how long; None if it is not as simple as that."""
    rows = session(statement("hand"), name, uid, session.client)
    session(statement("tell"))
    return rows[0][:3] if rows else None


tests = []


def test(function):
    tests.append(function)
    return function


# ---- exclusive -----------------------------------------------------------------------------------------------------------

@test
def a_free_lock_is_taken_and_a_held_one_is_busy_or_waited_for():
    one, two = Session(), Session()
    held = one.hold("a1")
    equal(two.attempt("a1"), 0)
    waiting = two.acquire("a1")
    require(waiting.token == 0 and waiting.ticket > 0)
    require(0 < waiting.look <= 10000, waiting.look)
    equal(waiting.seen, held.token)


@test
def a_release_hands_the_lock_to_the_first_in_line_with_a_greater_token():
    one, two, three = Session(), Session(), Session()
    held = one.hold("a2")
    first, second = two.acquire("a2"), three.acquire("a2")
    equal(one.release("a2", held.uid), (1, []))
    token, lease = two.told("granted", first.uid)
    require(token > held.token)
    equal(lease, 10000)
    equal(one.waiters("a2"), [second.uid])
    equal(two.release("a2", first.uid), (1, []))
    require(three.told("granted", second.uid)[0] > token)
    equal(three.release("a2", second.uid), (1, []))
    equal(one.row("a2", "crowded"), False)
    equal(one.row("a2", "uid"), None)


@test
def a_grant_to_a_claim_of_the_same_client_is_returned_and_not_told():
    one = Session()
    held = one.hold("a3")
    waiting = one.acquire("a3")
    code, grants = one.release("a3", held.uid)
    equal(code, 1)
    equal([(uid, lease) for uid, _, lease in grants], [(waiting.uid, 10000)])
    require(grants[0][1] > held.token)
    time.sleep(0.1)
    one("SELECT 1")
    equal(one.notes, [])


@test
def asking_again_a_holder_gets_its_token_and_a_waiter_keeps_its_ticket():
    one, two = Session(), Session()
    held = one.hold("a4", ttl=5000)
    one.age("a4", -1)
    again = one.acquire("a4", uid=held.uid, ttl=5000)
    equal(again.token, held.token)
    require(one.show("a4")[0].remaining > 4000, "the lease did not begin again")
    waiting, behind = two.acquire("a4"), two.acquire("a4")
    for ticket in 0, waiting.ticket:
        again = two.acquire("a4", uid=waiting.uid, ticket=ticket)
        equal((again.token, again.ticket), (0, waiting.ticket))
    equal(one.waiters("a4"), [waiting.uid, behind.uid])


@test
def a_waiter_that_was_dropped_stands_in_its_old_place_again():
    one, two = Session(), Session()
    one.hold("a5")
    first, second = two.acquire("a5"), two.acquire("a5")
    one("DELETE FROM wait WHERE uid = %s", first.uid)
    one("UPDATE lock SET served = %s WHERE name = 'a5'", second.ticket - 1)
    again = two.acquire("a5", uid=first.uid, ticket=first.ticket)
    equal(again.ticket, first.ticket)
    equal(one.waiters("a5"), [first.uid, second.uid])
    code, _ = one.release("a5", one.row("a5", "uid"))
    equal(code, 1)
    equal(one.row("a5", "uid"), first.uid)


@test
def a_waiter_whose_client_is_gone_is_skipped_and_one_that_lives_is_not():
    one, two, three = Session(), Session(), Session()
    held = one.hold("a6")
    dead, alive = two.acquire("a6"), three.acquire("a6")
    two.close()
    eventually(lambda: one("SELECT lives(%s)", two.client) == [(False,)])
    equal(one("SELECT lives(%s)", three.client), [(True,)])
    equal(one.release("a6", held.uid), (1, []))
    three.told("granted", alive.uid)
    equal(one.waiters("a6"), [])
    back = Session()
    again = back.acquire("a6", uid=dead.uid, ticket=dead.ticket)
    equal(again.ticket, dead.ticket)
    three.release("a6", alive.uid)
    back.told("granted", dead.uid)


@test
def a_second_release_says_released_and_a_strange_one_does_not():
    one, two = Session(), Session()
    held = one.hold("a7")
    equal(one.release("a7", held.uid)[0], 1)
    equal(one.release("a7", held.uid)[0], 1)
    equal(one.release("a7", new_uid())[0], 2)
    equal(one.release("never used", new_uid())[0], 2)
    equal(one.row("never used", "token"), None)
    other = two.hold("a7")
    equal(one.release("a7", held.uid)[0], 1)
    equal(one.row("a7", "uid"), other.uid)


@test
def an_expired_holder_is_cleared_by_a_look_and_the_first_in_line_gets_it():
    one, two, three = Session(), Session(), Session()
    held = one.hold("a8")
    first, second = two.acquire("a8"), three.acquire("a8")
    one.age("a8", 1)
    equal(one.show("a8")[0].role, FREE)
    again = three.acquire("a8", uid=second.uid, ticket=second.ticket)
    equal((again.token, again.ticket), (0, second.ticket))
    token, _ = two.told("granted", first.uid)
    equal(again.seen, token)
    equal(one.row("a8", "uid"), first.uid)
    equal([(entry.token, entry.how) for entry in one.show("a8") if entry.role == PAST], [(held.token, EXPIRED)])
    equal(one.renew(("a8", held.uid)), {held.uid: 0})
    equal(one.release("a8", held.uid)[0], 0)


@test
def a_waiter_that_asks_itself_finds_itself_granted():
    one, two = Session(), Session()
    one.hold("a9")
    waiting = two.acquire("a9")
    one.age("a9", 1)
    again = two.acquire("a9", uid=waiting.uid, ticket=waiting.ticket)
    require(again.token > 0)
    equal(again.ticket, 0)
    equal(two.notes, [])


@test
def one_that_has_not_asked_for_long_gets_just_enough_to_confirm():
    one, two = Session(), Session()
    held = one.hold("a10")
    waiting = two.acquire("a10", ttl=60000)
    one("UPDATE wait SET asked_at = asked_at - interval '11 s' WHERE uid = %s", waiting.uid)
    one.release("a10", held.uid)
    equal(two.told("granted", waiting.uid)[1], 6000)
    require(one.show("a10")[0].remaining <= 6000)
    confirmed = two.acquire("a10", uid=waiting.uid, ttl=60000)
    require(confirmed.token > held.token)
    require(one.show("a10")[0].remaining > 50000)


@test
def a_cancelled_claim_leaves_the_line_and_a_grant_is_handed_on():
    one, two, three = Session(), Session(), Session()
    held = one.hold("a11")
    first, second = two.acquire("a11"), three.acquire("a11")
    equal(two.cancel("a11", first.uid), (1, []))
    equal(two.cancel("a11", first.uid), (0, []))
    equal(one.waiters("a11"), [second.uid])
    equal(one.cancel("a11", held.uid), (2, []))
    three.told("granted", second.uid)
    equal([entry for entry in one.show("a11") if entry.role == PAST], [])
    equal(one.cancel("never used either", new_uid()), (0, []))


@test
def the_short_ways_and_the_functions_see_the_same_lock():
    one, two = Session(), Session()
    equal(take(one, "a12"), None)  # there is no row yet
    held = one.hold("a12")
    require(give(one, "a12", held.uid))
    require(not give(one, "a12", held.uid))
    again = take(one, "a12")
    require(again.token > held.token)
    equal(take(two, "a12"), None)
    equal(two.attempt("a12"), 0)
    waiting = two.acquire("a12")
    require(not give(one, "a12", again.uid))  # crowded: only the function hands it on
    equal(one.release("a12", again.uid)[0], 1)
    two.told("granted", waiting.uid)
    equal([entry.how for entry in one.show("a12") if entry.role == PAST], [RELEASED, RELEASED])
    require(not give(two, "a12", waiting.uid))  # nobody looked whether others wait
    equal(two.release("a12", waiting.uid)[0], 1)
    require(take(one, "a12"))  # and now there is nobody


@test
def an_expired_holder_cannot_give_or_renew():
    one = Session()
    held = one.hold("a13")
    one.age("a13", 1)
    require(not give(one, "a13", held.uid))
    equal(one.renew(("a13", held.uid)), {held.uid: 0})
    equal(one.release("a13", held.uid)[0], 0)
    equal([entry.how for entry in one.show("a13")], [EXPIRED])


# ---- shared --------------------------------------------------------------------------------------------------------------

@test
def readers_share_and_a_writer_waits_for_the_last_of_them():
    one, two = Session(), Session()
    readers = [one.hold("s1", mode=1), two.hold("s1", mode=1)]
    require(readers[1].token > readers[0].token)
    equal(two.attempt("s1"), 0)
    writer = two.acquire("s1")
    equal(one.attempt("s1", mode=1), 0)  # nobody overtakes him
    late = one.acquire("s1", mode=1)
    equal(late.token, 0)
    equal(one.release("s1", readers[0].uid), (1, []))
    equal(one.row("s1", "holders"), 1)
    equal(one.release("s1", readers[1].uid), (1, []))
    two.told("granted", writer.uid)
    equal(one.waiters("s1"), [late.uid])
    equal(two.release("s1", writer.uid), (1, []))
    one.told("granted", late.uid)


@test
def readers_who_waited_together_are_let_in_together():
    one, two = Session(), Session()
    writer = one.hold("s2")
    readers = [two.acquire("s2", mode=1) for _ in range(5)]
    next_writer = one.acquire("s2")
    equal(one.release("s2", writer.uid), (1, []))
    tokens = [two.told("granted", reader.uid)[0] for reader in readers]
    equal(tokens, sorted(set(tokens)))
    equal(one.waiters("s2"), [next_writer.uid])
    equal(one.row("s2", "holders"), 5)


@test
def the_least_limit_of_all_counts():
    one, two = Session(), Session()
    held = [one.hold("s3", mode=1, limit=3) for _ in range(2)]
    equal(two.attempt("s3", mode=1, limit=2), 0)
    third = two.hold("s3", mode=1)
    equal(two.attempt("s3", mode=1), 0)
    equal(two.attempt("s3", mode=1, limit=9), 0)
    waiting = two.acquire("s3", mode=1, limit=9)
    equal(one.release("s3", held[0].uid), (1, []))
    two.told("granted", waiting.uid)
    for uid in held[1].uid, third.uid, waiting.uid:
        equal(one.release("s3", uid)[0], 1)
    equal((one.row("s3", "holders"), one.row("s3", "crowded")), (0, False))
    for _ in range(2):
        one.hold("s3", mode=1, limit=2)
    equal(one.attempt("s3", mode=1, limit=2), 0)


@test
def a_waiter_with_a_lower_limit_than_the_holders_waits_for_enough_of_them_to_leave():
    one, two = Session(), Session()
    held = [one.hold("s12", mode=1, limit=5) for _ in range(3)]
    waiting = two.acquire("s12", mode=1, limit=2)
    equal(waiting.token, 0)
    equal(one.release("s12", held[0].uid), (1, []))
    equal(one.waiters("s12"), [waiting.uid])
    equal(one.release("s12", held[1].uid), (1, []))
    two.told("granted", waiting.uid)


@test
def a_waiter_that_comes_back_while_the_lock_is_shared_is_served_in_its_turn():
    one, two = Session(), Session()
    reader = one.hold("s13", mode=1)
    first, second = two.acquire("s13"), two.acquire("s13")
    one("DELETE FROM wait WHERE uid = %s", first.uid)
    one("UPDATE lock SET served = %s WHERE name = 's13'", second.ticket - 1)
    equal(two.acquire("s13", uid=first.uid, ticket=first.ticket).ticket, first.ticket)
    equal(one.release("s13", reader.uid), (1, []))
    two.told("granted", first.uid)
    equal(one.waiters("s13"), [second.uid])


@test
def a_refused_attempt_writes_nothing():
    one, two = Session(), Session()
    one.hold("s4")
    one.hold("s5", mode=1, limit=1)
    one.hold("s6", mode=1)
    two.acquire("s6")
    one.hold("s7", delay=60000)
    one.breaks("s7")
    one.hold("s8", delay=60000)
    one.age("s8", 1)
    for name, mode in ("s4", 0), ("s4", 1), ("s5", 1), ("s5", 0), ("s6", 1), ("s7", 0), ("s8", 0):
        two("BEGIN")
        equal(two.attempt(name, mode=mode), 0)
        wrote = two("SELECT pg_current_xact_id_if_assigned() IS NOT NULL" if two.connection.server_version >= 130000 else
                    "SELECT txid_current_if_assigned() IS NOT NULL")
        two("COMMIT")
        equal((name, mode, wrote), (name, mode, [(False,)]))


@test
def a_shared_holder_that_expired_leaves_its_place():
    one, two = Session(), Session()
    dead = one.hold("s9", mode=1, limit=1)
    waiting = two.acquire("s9", mode=1, limit=1)
    require(0 < waiting.look <= 10000)
    one.age("s9", 1)
    again = two.acquire("s9", mode=1, limit=1, uid=waiting.uid, ticket=waiting.ticket)
    require(again.token > dead.token)
    equal([(entry.token, entry.how, entry.mode) for entry in one.show("s9") if entry.role == PAST], [(dead.token, EXPIRED, 1)])
    equal(one.row("s9", "holders"), 1)
    equal(one.renew(("s9", dead.uid), ("s9", waiting.uid)), {dead.uid: 0, waiting.uid: 1})


@test
def a_shared_holder_that_asks_again_gets_its_token():
    one = Session()
    held = one.hold("s10", mode=1)
    equal(one.hold("s10", mode=1, uid=held.uid).token, held.token)
    equal(one.acquire("s10", mode=1, uid=held.uid, wait=False).token, held.token)
    equal(one.row("s10", "holders"), 1)
    equal(one.cancel("s10", held.uid), (2, []))
    equal(one.row("s10", "holders"), 0)


@test
def a_writer_that_leaves_the_line_lets_the_readers_behind_it_in():
    one, two = Session(), Session()
    one.hold("s11", mode=1)
    writer, reader = one.acquire("s11"), two.acquire("s11", mode=1)
    equal(one.cancel("s11", writer.uid), (1, []))
    two.told("granted", reader.uid)


# ---- lock-delay, break, ask ----------------------------------------------------------------------------------------------

@test
def a_clean_release_has_no_delay_and_a_lost_one_has():
    one, two = Session(), Session()
    held = one.hold("d1", delay=60000)
    equal(one.release("d1", held.uid)[0], 1)
    held = two.hold("d1", delay=60000)
    equal(two.release("d1", held.uid, lost=True)[0], 1)
    equal(one.attempt("d1"), 0)
    equal(take(one, "d1"), None)
    waiting = one.acquire("d1")
    require(50000 < waiting.look <= 60000, waiting.look)
    entry = one.show("d1")[0]
    equal((entry.role, entry.waiters), (FREE, 1))
    require(50000 < entry.remaining <= 60000)
    equal([entry.how for entry in one.show("d1") if entry.role == PAST], [EXPIRED, RELEASED])
    one("UPDATE lock SET free_at = clock_timestamp() - interval '1 ms' WHERE name = 'd1'")
    require(one.acquire("d1", uid=waiting.uid, ticket=waiting.ticket).token > held.token)


@test
def after_an_expired_lease_the_delay_counts_from_its_end():
    one, two = Session(), Session()
    one.hold("d2", delay=60000)
    one.age("d2", 10)
    entry = one.show("d2")[0]
    equal(entry.role, FREE)
    require(45000 < entry.remaining <= 50000, entry.remaining)
    equal(two.attempt("d2"), 0)
    waiting = two.acquire("d2")
    require(45000 < waiting.look <= 50000, waiting.look)
    one.age("d2", 61)
    one("UPDATE lock SET free_at = clock_timestamp() WHERE name = 'd2' AND free_at IS NOT NULL")
    require(two.acquire("d2", uid=waiting.uid, ticket=waiting.ticket).token)


@test
def the_delay_of_a_shared_holder_keeps_everyone_out():
    one, two = Session(), Session()
    failed = one.hold("d3", mode=1, delay=60000)
    stays = two.hold("d3", mode=1)
    equal(one.release("d3", failed.uid, lost=True)[0], 1)
    equal(two.attempt("d3", mode=1), 0)
    equal(two.release("d3", stays.uid)[0], 1)
    equal(two.attempt("d3", mode=1), 0)
    equal(one.show("d3")[0].role, FREE)
    equal(one.row("d3", "crowded"), True)


@test
def a_broken_holder_is_told_and_its_renewal_says_so():
    one, two, three = Session(), Session(), Session()
    held = one.hold("b1")
    waiting = three.acquire("b1")
    equal(two.breaks("b1"), (1, []))
    equal(one.told("broken", held.uid), [])
    three.told("granted", waiting.uid)
    equal(one.renew(("b1", held.uid)), {held.uid: 2})
    equal(one.release("b1", held.uid)[0], 0)
    equal([entry.how for entry in two.show("b1") if entry.role == PAST], [BROKEN])
    equal(two.breaks("never used"), (0, []))
    equal(two.row("never used", "token"), None)


@test
def a_break_cuts_off_every_shared_holder_and_counts_them():
    one, two = Session(), Session()
    held = [one.hold("b2", mode=1) for _ in range(3)]
    equal(two.breaks("b2"), (3, []))
    for claim in held:
        one.told("broken", claim.uid)
    equal((one.row("b2", "holders"), one.row("b2", "crowded")), (0, False))
    equal(two.breaks("b2"), (0, []))
    require(two.attempt("b2") > held[2].token)


@test
def a_break_with_a_token_cuts_off_that_holder_alone():
    one, two, three = Session(), Session(), Session()
    held = one.hold("b5", delay=0)
    waiting = three.acquire("b5")
    equal(two.breaks("b5", held.token - 1), (-1, []))
    equal(two.breaks("b5", held.token + 1), (-1, []))
    equal((one.row("b5", "uid"), one.row("b5", "broken")), (held.uid, None))
    equal(two.breaks("b5", held.token, "the night", "it hangs"), (1, []))
    one.told("broken", held.uid)
    three.told("granted", waiting.uid)
    entry = [entry for entry in two.show("b5") if entry.role == PAST][0]
    equal((entry.how, entry.token, entry.broken_by, entry.reason), (BROKEN, held.token, "the night", "it hangs"))
    equal(two.breaks("b5", held.token), (-1, []))
    equal(three.release("b5", waiting.uid)[0], 1)
    equal(two.breaks("b5", held.token), (0, []))


@test
def a_break_with_a_token_leaves_the_others_who_share():
    one, two = Session(), Session()
    held = [one.hold("b6", mode=1, limit=3) for _ in range(3)]
    waiting = two.acquire("b6", mode=1, limit=3)
    equal(two.breaks("b6", held[1].token, "the night"), (1, [(waiting.uid, one.row("b6", "token"), 10000)]))
    one.told("broken", held[1].uid)
    equal(one.row("b6", "holders"), 3)
    equal(one.renew(*[("b6", claim.uid) for claim in held]), {held[0].uid: 1, held[1].uid: 2, held[2].uid: 1})
    equal(two.breaks("b6", 1), (-1, []))
    equal(two.breaks("b6", 0, "the day"), (3, []))
    equal([entry.broken_by for entry in one.show("b6")], ["the day"] * 3 + ["the night"])


@test
def only_the_last_breaks_are_kept():
    one = Session()
    for number in range(12):
        held = one.hold("b7")
        equal(one.breaks("b7", held.token, "me", str(number))[0], 1)
    equal([entry.reason for entry in one.show("b7")], [str(number) for number in range(11, 3, -1)])
    equal(one("SELECT cardinality(broken) FROM lock WHERE name = 'b7'"), [(8,)])


@test
def clients_before_version_4_break_as_they_did():
    one, two = Session(), Session()
    held = one.hold("b8")
    equal(two("SELECT uid, token, lease FROM break_holders(%s, %s)", "b8", two.client), [(None, 1, 0)])
    one.told("broken", held.uid)
    equal([(entry.how, entry.broken_by, entry.reason) for entry in two.show("b8")], [(BROKEN, "", "")])
    equal(len(two("SELECT role, name, owner, note, token, remaining, since, until, how, mode, max_holders, waiters, detached, age "
                  "FROM show_lock('b8')")), 1)


@test
def holders_are_asked_where_they_renewed_last():
    one, two = Session(), Session()
    held, shared = one.hold("b3"), one.hold("b4", mode=1)
    equal(two("SELECT ask_holders('b3')"), [(1,)])
    one.told("asked", held.uid)
    equal(two("SELECT ask_holders('b4')"), [(1,)])
    one.told("asked", shared.uid)
    equal(two("SELECT ask_holders('never used')"), [(0,)])
    back = Session()
    equal(back.renew(("b3", held.uid)), {held.uid: 1})
    two("SELECT ask_holders('b3')")
    back.told("asked", held.uid)


# ---- looking -------------------------------------------------------------------------------------------------------------

@test
def show_tells_the_holder_the_line_in_its_order_and_the_past_the_latest_first():
    one = Session()
    tokens = []
    for i in range(10):
        held = one.hold("i1", note="tenure %d" % i)
        tokens.append(held.token)
        one.release("i1", held.uid)
    held = one.hold("i1", owner="the holder", note="holds", detached=True)
    for i in range(3):
        one.acquire("i1", owner="waiter %d" % i)
    entries = one.show("i1")
    equal([entry.role for entry in entries], [HOLDER] + 3 * [WAITER] + 8 * [PAST])
    holder = entries[0]
    equal((holder.name, holder.owner, holder.note, holder.token, holder.waiters, holder.detached),
          ("i1", "the holder", "holds", held.token, 3, True))
    equal([entry.owner for entry in entries[1:4]], ["waiter 0", "waiter 1", "waiter 2"])
    equal([entry.token for entry in entries[4:]], tokens[:1:-1])
    equal(entries[4].note, "tenure 9")
    now = time.time() * 1000
    for entry in entries[4:]:
        require(now - 60000 < entry.since <= entry.until <= now + 1000)
    equal(one.show("never used"), [])
    equal(one.show("i"), [])


@test
def list_tells_holders_and_free_ones_of_a_prefix_without_it():
    one = Session()
    for name in "l/apple/1", "l/apple/2", "l/apple", "l/banana":
        one.hold(name)
    shares = [one.hold("l/many", mode=1, limit=7) for _ in range(2)]
    one.acquire("l/many")
    one.hold("l/delayed", delay=60000)
    one.breaks("l/delayed")
    released = one.hold("l/released")
    one.release("l/released", released.uid)
    equal([(entry.role, entry.name, entry.waiters) for entry in one.list("l/", 2)],
          [(HOLDER, "apple", 0), (HOLDER, "apple/1", 0), (HOLDER, "apple/2", 0), (HOLDER, "banana", 0), (FREE, "delayed", 0),
           (HOLDER, "many", 1), (HOLDER, "many", 1)])
    equal([entry.token for entry in one.list("l/many")], [claim.token for claim in shares])
    equal([entry.limit for entry in one.list("l/many")], [7, 7])
    equal([entry.name for entry in one.list("l/apple/")], ["l/apple/1", "l/apple/2"])
    equal(one.list("l/cherry"), [])
    equal(one.list("l/%"), [])


@test
def an_age_stays_with_its_claim_however_that_gets_the_lock():
    one, two = Session(), Session()

    def ages(role=HOLDER):
        return [entry.age for entry in one.show("n1") if entry.role == role]
    held = one.hold("n1", age=2 ** 63 - 1)
    waiting = [two.acquire("n1", age=20 + i, mode=int(i > 3)) for i in range(6)]
    equal((ages(), ages(WAITER)), ([2 ** 63 - 1], [20, 21, 22, 23, 24, 25]))
    require(hand(one, "n1", held.uid), "the short way does not hand it on")
    equal(ages(), [20])
    two.release("n1", waiting[0].uid)
    equal(ages(), [21])
    one.breaks("n1")
    equal(ages(), [22])
    one.age("n1", 1)
    two.acquire("n1", uid=waiting[3].uid, ticket=waiting[3].ticket)
    equal((ages(), ages(WAITER)), ([23], [24, 25]))
    two.cancel("n1", waiting[3].uid)
    equal((ages(), [entry.age for entry in one.list("n1")]), ([24, 25], [24, 25]))
    require(set(ages(PAST)) == {0}, ages(PAST))


@test
def a_lease_is_taken_up_while_it_stands():
    one, two = Session(), Session()
    held, shared = one.hold("o1", ttl=30000, detached=True), one.hold("o2", ttl=30000, mode=1)
    for name, claim, mode in ("o1", held, 0), ("o2", shared, 1):
        for note, seen in ("", "a note"), ("another", "another"), ("", "a note"):
            token, remaining, ttl, mode_told = two.adopt(name, claim.uid, note=note)[0]
            equal((token, ttl, mode_told), (claim.token, 30000, mode))
            require(0 < remaining <= 30000)
            shown = one.show(name)[0]
            equal((shown.owner, shown.note, shown.token), ("somebody else", seen, claim.token))
        equal(one("SELECT ask_holders(%s)", name), [(1,)])
        two.told("asked", claim.uid)
    equal(one.adopt("o1", new_uid()), [])
    one.age("o1", 1)
    equal(two.adopt("o1", held.uid), [])
    equal([(entry.role, entry.owner) for entry in one.show("o1")], [(PAST, "somebody")])
    one.hold("o1", owner="the next")
    equal(one.show("o1")[0].owner, "the next")


# ---- bytes beside a lock ---------------------------------------------------------------------------------------------------

@test
def only_who_holds_a_lock_alone_keeps_something_beside_it():
    one, two = Session(), Session()
    held = one.hold("v1")
    equal((one.store("v1", held, b"a\0\xff'\\"), two.fetch("v1")), (1, (b"a\0\xff'\\", held.token)))
    other = Claim(new_uid(), held.token, 0, 0, 0)
    older = Claim(held.uid, held.token - 1, 0, 0, 0)
    waiting = two.acquire("v1")
    for claim in other, older, waiting:
        equal(two.store("v1", claim, b"b"), 0)
    equal((one.store("v2", held, b"b"), one.fetch("v2")), (0, None))
    one.release("v1", held.uid)
    equal(one.store("v1", held, b"b"), 0)
    waiting.token = two.told("granted", waiting.uid)[0]
    equal(one.fetch("v1"), (b"a\0\xff'\\", held.token))
    one.age("v1", 1)
    equal((two.store("v1", waiting, b"b"), one.fetch("v1")), (0, (b"a\0\xff'\\", held.token)))
    shared = one.hold("v1", mode=1)
    equal(one.store("v1", shared, b"b"), 0)
    one.release("v1", shared.uid)
    again = one.hold("v1")
    equal((one.store("v1", again, None), one.fetch("v1")), (1, None))


@test
def whose_lease_ends_while_it_waits_for_the_row_is_too_late():
    one, two = Session(), Session()
    held = one.hold("v3", ttl=3000)
    two("BEGIN")
    two("SELECT FROM lock WHERE name = 'v3' FOR UPDATE")
    results = []
    late = threading.Thread(target=lambda: results.append(one.store("v3", held, b"late")))
    late.start()
    time.sleep(3.5)
    require(not results, "it did not wait")
    two("COMMIT")
    late.join()
    equal((results, two.fetch("v3")), ([0], None))


@test
def who_comes_next_waits_for_what_is_being_kept():
    one, two = Session(), Session()
    held = one.hold("v4")
    one("BEGIN")
    equal(one.store("v4", held, b"first"), 1)
    one.age("v4", 1)
    results = []
    next_one = threading.Thread(target=lambda: results.append(two.acquire("v4")))
    next_one.start()
    time.sleep(0.3)
    require(not results, "it has the lock, and the other may still write")
    one("COMMIT")
    next_one.join()
    require(results[0].token > held.token)
    equal(two.fetch("v4"), (b"first", held.token))


@test
def what_may_still_be_under_way_elsewhere_is_waited_for():
    one, two, three = Session(), Session(), Session()
    held = one.hold("v5")
    equal(two.store("v5", held, b"x", former=[one.client, three.client]), 2)
    equal(two.fetch("v5"), None)
    equal(two.store("v5", held, b"x", former=[two.client, random.getrandbits(62)]), 1)
    three.close()
    eventually(lambda: two.store("v5", held, b"y", former=[three.client]) == 1)
    equal(one.fetch("v5"), (b"y", held.token))


@test
def what_is_over_is_never_told_and_goes_with_the_old_rows():
    one = Session()
    for name, keep in ("v6/short", 1), ("v6/long", 600000), ("v6/ever", 0):
        held = one.hold(name)
        equal(one.store(name, held, name.encode(), keep), 1)
        one.release(name, held.uid)
    time.sleep(0.01)

    def rows():
        return sorted(name for name, in one("SELECT name FROM value WHERE starts_with(name, 'v6/')"))
    equal((one.fetch("v6/short"), len(rows())), (None, 3))
    require(one.fetch("v6/long") and one.fetch("v6/ever"))
    one("SELECT reap('100 years')")
    equal(rows(), ["v6/ever", "v6/long"])


@test
def a_value_of_an_advisory_lock_is_kept_by_the_session_that_has_it_and_is_another():
    one, two = Session(), Session()
    key = one("SELECT advisory_key_of('v7')")[0][0]

    def keep(session, data):
        return session(statement("advisory_store"), "v7", 5, data, 0)[0][0]
    held = one.hold("v7")
    equal((keep(one, b"x"), one.store("v7", held, b"of the lease")), (0, 1))
    one("SELECT pg_advisory_lock_shared(%s)", key)
    equal(keep(one, b"x"), 0)
    one("SELECT pg_advisory_unlock_shared(%s), pg_advisory_lock(%s)", key, key)
    equal((keep(one, b"x"), keep(two, b"y")), (1, 0))
    equal((two.fetch("v7", True), two.fetch("v7")), ((b"x", 5), (b"of the lease", held.token)))
    one("SELECT pg_advisory_unlock(%s)", key)
    equal((keep(one, b"z"), two.fetch("v7", True)), (0, (b"x", 5)))


# ---- many at once --------------------------------------------------------------------------------------------------------

def together(*works):
    """Each on a thread of its own; what goes wrong in one is told."""
    problems = []

    def guarded(work):
        try:
            work()
        except Exception:
            problems.append(traceback.format_exc())
    threads = [threading.Thread(target=guarded, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    require(not any(thread.is_alive() for thread in threads), "they wait for each other")
    require(not problems, *problems)


@test
def sessions_that_race_hold_it_one_at_a_time_and_nobody_is_forgotten():
    inside, worst, tokens = [], [], []

    def work(seed):
        session, dice = Session(), random.Random(seed)
        for _ in range(60):
            uid = new_uid()
            claim = take(session, "r1", uid) if dice.random() < 0.3 else None
            claim = claim or session.acquire("r1", uid=uid)
            if not claim.token:
                if dice.random() < 0.2:
                    session.cancel("r1", uid)
                    continue
                claim.token = session.told("granted", uid)[0]
            inside.append(uid)
            worst.append(len(inside))
            tokens.append(claim.token)
            inside.remove(uid)
            if not (dice.random() < 0.5 and give(session, "r1", uid)):
                equal(session.release("r1", uid)[0], 1)

    together(*[lambda seed=seed: work(seed) for seed in range(6)])
    equal(max(worst), 1)
    equal(tokens, sorted(set(tokens)))
    one = Session()
    equal(one.waiters("r1"), [])
    require(one.attempt("r1") > tokens[-1])


def while_open(session, begun, other):
    """other() on a thread while what begun() did is not committed; what it returned."""
    results = []
    session("BEGIN")
    begun()
    thread = threading.Thread(target=lambda: results.append(other()))
    thread.start()
    time.sleep(0.3)  # it waits for the row by now; if not, it comes later and the outcome is the same
    session("COMMIT")
    thread.join(PATIENCE)
    require(results, "it does not end")
    return results[0]


@test
def who_asks_while_a_release_is_under_way_gets_the_lock():
    one, two = Session(), Session()
    for gives in lambda uid: give(one, "u1", uid), lambda uid: one.release("u1", uid):
        held = one.hold("u1")
        claim = while_open(one, lambda: gives(held.uid), lambda: two.acquire("u1"))
        require(claim.token > held.token, claim.ticket)
        equal(two.release("u1", claim.uid)[0], 1)


@test
def who_releases_while_somebody_is_about_to_wait_hands_it_on():
    one, two = Session(), Session()
    claims = []
    held = one.hold("u2")
    equal(while_open(two, lambda: claims.append(two.acquire("u2")), lambda: give(one, "u2", held.uid)), False)
    equal(two.cancel("u2", claims[0].uid), (1, []))
    equal((one.row("u2", "crowded"), one.waiters("u2")), (True, []))  # nothing in the row will say that somebody waits
    equal(while_open(two, lambda: claims.append(two.acquire("u2")), lambda: one.release("u2", held.uid)), (1, []))
    two.told("granted", claims[1].uid)


@test
def renewals_of_the_same_locks_in_any_order_do_not_wait_for_each_other_in_a_circle():
    one = Session()
    pairs = [(name, one.hold(name).uid) for name in ("c%d" % i for i in range(20))]

    def work(seed):
        session, dice = Session(), random.Random(seed)
        for _ in range(40):
            mine = pairs[:]
            dice.shuffle(mine)
            equal(set(session.renew(*mine).values()), {1})

    together(*[lambda seed=seed: work(seed) for seed in range(4)])


@test
def a_name_that_is_reaped_while_it_is_taken_does_not_repeat_a_token():
    session, stop = Session(), threading.Event()

    def reap():
        reaper = Session()
        while not stop.is_set():
            reaper("SELECT reap(%s::interval)", "0 s")

    def use(name):
        user, last = Session(), 2 ** 60  # far in the future: only the floor can keep it
        user("INSERT INTO lock (name, token) VALUES (%s, %s)", name, last)
        for _ in range(150):
            claim = user.acquire(name)
            require(claim.token > last, claim.token, last)
            last = claim.token
            equal(user.release(name, claim.uid)[0], 1)

    def use_all():
        try:
            together(*[lambda i=i: use("reaped/%d" % i) for i in range(3)])
        finally:
            stop.set()

    together(reap, use_all)
    require(session("SELECT token FROM floor")[0][0] > 2 ** 60)
    session("UPDATE floor SET token = 0")


# ---- tokens, reap, crash -------------------------------------------------------------------------------------------------

@test
def a_token_in_the_future_stays_the_greater_one():
    one = Session()
    held = one.hold("t1")
    one.release("t1", held.uid)
    future = held.token + 10 ** 15
    one("UPDATE lock SET token = %s WHERE name = 't1'", future)
    equal(take(one, "t1", held.uid).token, future + 1)
    waiting = one.acquire("t1")
    equal(one.release("t1", held.uid)[1][0][1], future + 2)
    one.release("t1", waiting.uid)
    equal(one.attempt("t1", mode=1), future + 3)


@test
def reap_takes_what_nobody_uses_and_leaves_the_rest():
    one, two = Session(), Session()
    uids = {}
    for name in "free", "held", "expired", "shared", "waited", "dead":
        uids[name] = one.hold("p/" + name, mode=1 if name == "shared" else 0).uid
    two.acquire("p/waited")
    gone = Session()
    gone.acquire("p/dead")
    gone.close()
    eventually(lambda: one("SELECT lives(%s)", gone.client) == [(False,)])
    one.release("p/free", uids["free"])
    one.age("p/expired", 7200)
    one.age("p/dead", 7200)
    one("UPDATE lock SET since = since - interval '2 h', seen_at = seen_at - interval '2 h' WHERE name LIKE 'p/%%'")
    token = one.row("p/free", "token")
    one("UPDATE lock SET token = token + 1000000000 WHERE name = 'p/free'")
    equal(one("SELECT reap(%s::interval)", "1 day"), [(0,)])
    one("SELECT reap(%s::interval)", "1 h")
    equal([row[0] for row in one("SELECT name FROM lock WHERE name LIKE 'p/%%' ORDER BY name")],
          ["p/held", "p/shared", "p/waited"])
    require(one("SELECT token FROM floor")[0][0] >= token + 1000000000)
    require(one.attempt("p/free") > token + 1000000000)
    one("UPDATE floor SET token = 0")


def plan_of(session, text, *values):
    return "\n".join(row[0] for row in session("EXPLAIN (COSTS OFF) " + text, *values))


@test
def reap_works_in_batches_that_are_found_by_an_index_and_looks_once_an_hour_at_what_is_in_use():
    one = Session()
    one("INSERT INTO lock (name, since, seen_at) SELECT 'reap/' || n, clock_timestamp() - interval '3 h', clock_timestamp() - interval '3 h'"
        " FROM generate_series(1, 1100) AS n")
    one("UPDATE lock SET seen_at = '-infinity' WHERE name = 'reap/7'")  # as in a schema that was older
    held = one.hold("reap/held")
    one("UPDATE lock SET seen_at = seen_at - interval '3 h' WHERE name = 'reap/held'")
    counts = []
    while not counts or counts[-1] == 500:
        counts += one("SELECT reap('1 h')")[0]
    equal(sum(counts), 1101, counts)
    equal(one("SELECT name FROM lock WHERE starts_with(name, 'reap/')"), [("reap/held",)])
    equal(one("SELECT reap('1 h')"), [(0,)], "it is looked at again and again")
    equal(one.release("reap/held", held.uid)[0], 1)
    plan = plan_of(one, "SELECT * FROM lock WHERE seen_at < now() ORDER BY seen_at LIMIT 500 FOR UPDATE SKIP LOCKED")
    require("lock_seen_at" in plan, plan)


@test
def who_reaps_beside_another_does_not_wait_for_it():
    one, two = Session(), Session()
    one("BEGIN")
    one("SELECT FROM floor FOR UPDATE")
    equal(two("SELECT reap('1 h')"), [(0,)])
    one("ROLLBACK")


@test
def a_prefix_is_looked_for_between_two_bounds():
    one = Session()
    names = ["a", "a}", "a~", "ab", "b", "a\u00e4", "a\u00e4b", "a\u00e5", "\U0010ffff", "\U0010ffffz", "~"]
    held = [(name, one.hold("bound/" + name).uid) for name in names]
    for prefix in ("", "a", "a}", "a~", "ab", "a\u00e4", "\U0010ffff", "~", "nothing"):
        equal({entry.name for entry in one.list("bound/" + prefix, 6)}, {name for name in names if name.startswith(prefix)}, prefix)
        equal({entry.name for entry in one.list(prefix) if entry.name.startswith("bound/")},
              {"bound/" + name for name in names if ("bound/" + name).startswith(prefix)}, prefix)
    for name, uid in held:
        equal([entry.name for entry in one.show("bound/" + name)], ["bound/" + name])
        equal(one.release("bound/" + name, uid)[0], 1)
    require(one("SELECT prefix_end('job/')") == [("job0",)])
    plan = plan_of(one, "SELECT * FROM lock AS l WHERE l.name >= %s AND l.name < %s AND (l.crowded OR l.uid IS NOT NULL)", "a", "b")
    require(re.search("Index Cond: .*>=.*<", plan), plan)


@test
def those_who_waited_before_a_failover_that_forgot_are_served_before_newcomers():
    """The queue is empty on the standby, and a sequence would have gone back."""
    one, two, three, four = [Session() for _ in range(4)]
    held = one.hold("forgot")
    waiting = [(session, session.acquire("forgot")) for session in (two, three)]
    one("DELETE FROM wait WHERE name = 'forgot'")
    one("UPDATE lock SET crowded = false WHERE name = 'forgot'")
    if one("SELECT to_regclass('ticket') IS NOT NULL")[0][0]:
        one("SELECT setval('ticket', 1)")
    newcomer = four.acquire("forgot")
    for session, claim in reversed(waiting):
        again = session.acquire("forgot", uid=claim.uid, ticket=claim.ticket)
        equal(again.ticket, claim.ticket)
    equal(one.waiters("forgot"), [claim.uid for _, claim in waiting] + [newcomer.uid])
    # Somebody has got the same ticket: it is no error, and costs no turn.
    one("DELETE FROM wait WHERE name = 'forgot' AND uid = %s", waiting[0][1].uid)
    one("UPDATE wait SET ticket = %s WHERE uid = %s", waiting[0][1].ticket, newcomer.uid)
    again = two.acquire("forgot", uid=waiting[0][1].uid, ticket=waiting[0][1].ticket)
    equal(again.ticket, waiting[0][1].ticket + 1)
    equal(one.release("forgot", held.uid)[0], 1)
    for session, claim in (four, newcomer), waiting[0], waiting[1]:
        session.told("granted", claim.uid)
        equal(session.release("forgot", claim.uid)[0], 1)


@test
def a_crash_empties_the_line_and_it_heals_and_tokens_grow():
    one, two = Session(), Session()
    held = one.hold("x1", ttl=600000)
    other = one.hold("x2", ttl=600000)
    waiting, behind = two.acquire("x1"), two.acquire("x1")
    two.acquire("x2")
    os.kill(one("SELECT pg_backend_pid()")[0][0], signal.SIGKILL)

    def back():
        try:
            return Session()
        except psycopg2.Error:
            return None
    one = eventually(back, "the server does not come back")
    two = Session()
    equal(one("SELECT count(*) FROM wait"), [(0,)])
    equal(one.row("x1", "crowded"), True)
    equal(one.renew(("x1", held.uid), ("x2", other.uid)), {held.uid: 1, other.uid: 1})
    for claim in behind, waiting:  # in whatever order they come back
        equal(two.acquire("x1", uid=claim.uid, ticket=claim.ticket).ticket, claim.ticket)
    equal(one.waiters("x1"), [waiting.uid, behind.uid])
    equal(one.release("x1", held.uid)[0], 1)
    require(two.told("granted", waiting.uid)[0] > held.token)
    equal(one.release("x2", other.uid), (1, []))  # nobody came back for this one
    equal(one.row("x2", "crowded"), False)
    require(take(one, "x2").token > other.token)


# ---- rights, isolation, installation -------------------------------------------------------------------------------------

@test
def who_may_only_execute_can_use_every_function_and_touch_no_table():
    admin = Session()
    role, word = "worker_%d" % random.getrandbits(30), new_uid()
    admin(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(role), sql.Literal(word)))
    try:
        nobody = Session(enters=False, user=role, password=word)
        try:
            nobody(statement("enter"), nobody.client)
            raise Wrong("it may use the schema without a grant")
        except (psycopg2.errors.InsufficientPrivilege, psycopg2.errors.UndefinedFunction):
            pass
        for grant in "USAGE ON SCHEMA pawl", "EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl", "USAGE ON SEQUENCE pawl.advisory_token":
            admin(sql.SQL("GRANT " + grant + " TO {}").format(sql.Identifier(role)))
        worker = Session(user=role, password=word)
        equal((worker.version, worker.pid, worker.fast), (4, worker("SELECT pg_backend_pid()")[0][0], False))
        held = worker.hold("w1")
        waiting = worker.acquire("w1")
        equal([grant[0] for grant in worker.release("w1", held.uid)[1]], [waiting.uid])
        equal(worker.renew(("w1", waiting.uid)), {waiting.uid: 1})
        equal(len(worker.adopt("w1", waiting.uid)), 1)
        waiting.token = worker.show("w1")[0].token
        equal((worker.store("w1", waiting, b"x"), worker.fetch("w1")), (1, (b"x", waiting.token)))
        equal(worker("SELECT ask_holders('w1')"), [(1,)])
        worker.told("asked", waiting.uid)
        equal(worker.show("w1")[0].token, worker.list("w1")[0].token)
        equal(worker.breaks("w1")[0], 1)
        equal(worker.cancel("w1", waiting.uid)[0], 0)
        shared = worker.hold("w1", mode=1)
        equal(worker.release("w1", shared.uid)[0], 1)
        worker("SELECT reap(%s::interval)", "100 years")
        equal(worker(statement("advisory_enter"), random.getrandbits(62))[0][0], 1)
        worker(statement("advisory_take"), worker("SELECT advisory_key_of(%s)", "w1")[0][0])
        for table in "lock", "share", "wait", "floor", "advisory_key", "value":
            for text in "SELECT * FROM {}", "DELETE FROM {}", "INSERT INTO {} DEFAULT VALUES":
                try:
                    worker(sql.SQL(text).format(sql.Identifier(table)))
                    raise Wrong("%s of %s is allowed" % (text, table))
                except psycopg2.errors.InsufficientPrivilege:
                    pass
        for text in "SELECT serve(NULL, 0)", "SELECT setval('advisory_token', 1)":
            try:
                worker(text)
                raise Wrong("allowed: " + text)
            except psycopg2.errors.InsufficientPrivilege:
                pass
        for right in "SELECT, UPDATE ON pawl.lock", "SELECT, INSERT, DELETE ON pawl.wait":
            admin(sql.SQL("GRANT " + right + " TO {}").format(sql.Identifier(role)))
        trusted = Session(user=role, password=word)
        equal(trusted.fast, True)
        require(give(trusted, "w1", take(trusted, "w1").uid))
        for session in nobody, worker, trusted:
            session.close()
    finally:
        admin(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(role)))


@test
def who_has_no_rights_finds_no_channel_to_listen_to_or_to_tell_lies_on():
    admin, one, two = Session(), Session(), Session()
    role, word = "stranger_%d" % random.getrandbits(30), new_uid()
    admin(sql.SQL("CREATE ROLE {} LOGIN PASSWORD {}").format(sql.Identifier(role), sql.Literal(word)))
    try:
        stranger = Session(enters=False, user=role, password=word)
        seen = [key for key, in stranger("""SELECT classid::bigint << 32 | objid::bigint FROM pg_locks
                                           WHERE locktype = 'advisory' AND objsubid = 1""")]
        for client in one.client, two.client:
            require(client not in seen, "its number is in pg_locks")
            require(admin("SELECT life_of(%s)", client)[0][0] in seen, "its life is not")
        for key in seen:
            stranger(sql.SQL("LISTEN {}").format(sql.Identifier("pawl_%x" % (key & 2 ** 64 - 1))))
        held = one.hold("stranger")
        waiting = two.acquire("stranger")
        one.release("stranger", held.uid)
        two.told("granted", waiting.uid)
        stranger("SELECT 1")
        equal(stranger.notes, [])
        stranger.close()
    finally:
        admin(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(sql.Identifier(role)))


@test
def a_function_cannot_be_led_to_other_tables_by_the_callers_search_path():
    one = Session()
    held = one.hold("w2")
    other = Session()
    other("CREATE TEMP TABLE lock (LIKE pawl.lock INCLUDING ALL)")
    other("SET search_path = pg_temp, public")
    rows = other("SELECT token FROM pawl.acquire('w2', %s, 1, '', '', 0, 0, 1000, 0, 0, false, false, 0)", new_uid())
    equal(rows, [(0,)])
    equal(one.show("w2")[0].token, held.token)


@test
def any_isolation_but_read_committed_is_refused():
    one = Session()
    held = one.hold("y1", ttl=60000)
    one.acquire("y1")
    for level in "REPEATABLE READ", "SERIALIZABLE":
        for text in ("SELECT acquire('y1', '%s', 1, '', '', 0, 0, 1000, 0, 0, false, true, 0)" % new_uid(),
                     "SELECT release('y1', '%s', 1, false)" % held.uid, "SELECT cancel('y1', '%s', 1)" % held.uid,
                     "SELECT break_holders('y1', 1)", "SELECT reap('1 day')",
                     "SELECT store_value('y1', '%s', %d, 'x', 0, '{}')" % (held.uid, held.token)):
            one("BEGIN ISOLATION LEVEL " + level)
            try:
                one(text)
                raise Wrong("not refused: " + text)
            except psycopg2.Error as error:
                equal(error.pgcode, "25000", text)
                require(level in str(error), str(error))
            one("ROLLBACK")
    equal(one("SHOW default_transaction_isolation"), [("read committed",)])


@test
def the_schema_may_be_installed_again_and_keeps_what_is_there():
    one = Session()
    held = one.hold("z1")
    install()
    equal(one.show("z1")[0].token, held.token)
    equal(one.release("z1", held.uid)[0], 1)


def description(session, schema):
    """What is in a schema, without its name, whoever may do what."""
    found = session("""
        SELECT p.proname::text, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), p.prosrc, p.prosecdef, p.proconfig
        FROM pg_proc AS p WHERE p.pronamespace = to_regnamespace(%(1)s)
        UNION ALL SELECT c.relname, c.relkind::text, c.relpersistence::text,
                         string_agg(a.attname || ' ' || a.atttypid::regtype || ' ' || a.attnotnull, ', ' ORDER BY a.attnum),
                         NULL, c.reloptions
        FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0
        WHERE c.relnamespace = to_regnamespace(%(1)s) GROUP BY c.oid ORDER BY 1""", schema)
    return [str(row).replace(schema + ".", "").replace(schema, "home") for row in found]


@test
def a_schema_of_any_version_before_becomes_as_a_new_one_and_keeps_its_locks_and_its_grants():
    for version in OLDER_SQL:
        becomes_as_new(version)


def becomes_as_new(version):
    admin, old, new = Session(), "old%d" % random.getrandbits(30), "new%d" % random.getrandbits(30)
    some, all_but = "some%d" % random.getrandbits(30), "allbut%d" % random.getrandbits(30)
    install(old, OLDER_SQL[version])
    install(new)
    for role, right in (some, "acquire, %s.enter, %s.lock_version" % (old, old)), (all_but, None):
        admin(sql.SQL("CREATE ROLE {}").format(sql.Identifier(role)))
        admin("GRANT EXECUTE ON %s TO %s" % ("FUNCTION %s.%s" % (old, right) if right else "ALL FUNCTIONS IN SCHEMA " + old, role))
    admin("REVOKE EXECUTE ON FUNCTION %s.show_lock FROM %s" % (old, all_but))
    one = Session(old, enters=False)
    equal(one("SELECT version FROM enter(%s)", one.client), [(1,)])
    uid = new_uid()
    token = one("SELECT token FROM acquire('a', %s, %s, 'me', '', 0, 0, 60000, 0, 7, true, true, 0)", uid, one.client)[0][0]
    one("PREPARE older_break(text) AS SELECT uid, token, lease FROM break_holders($1, 1)")
    one("PREPARE older_show(text) AS SELECT role, token, owner FROM show_lock($1)")
    equal((one("EXECUTE older_break('b')"), one("EXECUTE older_show('a')")), ([(None, 0, 0)], [(1, token, "me")]))
    together(*[lambda: install(old)] * 4)
    equal(description(one, old), description(one, new))
    # A client of that version that is still there, and one that comes.
    equal(one("SELECT token, mode FROM adopt('a', %s)", uid), [(token, 0)])
    equal(one("SELECT version, fast FROM enter(%s)", random.getrandbits(62)), [(1, True)])
    entry = one.show("a")[0]
    equal((entry.token, entry.owner, entry.age, entry.detached), (token, "me", 7, True))
    equal(one("EXECUTE older_show('a')"), [(1, token, "me")])
    equal((one("EXECUTE older_break('a')"), one("EXECUTE older_break('a')")), ([(None, 1, 0)], [(None, 0, 0)]))
    equal([(past.how, past.broken_by) for past in one.show("a")], [(BROKEN, "")])

    def may(role):
        return {name for name, in one("""SELECT proname::text FROM pg_proc WHERE pronamespace = to_regnamespace(%(1)s)
                                         AND has_function_privilege(%(2)s, oid, 'EXECUTE')""", old, role)}
    equal(may("postgres") - may(all_but), {"show_lock"})
    equal(may(some), {"acquire", "enter", "lock_version"} | ({"serves_since", "store_value", "keep_value", "fetch_value"} if version == 1
                                                             else set()))
    one.close()
    for name in old, new:
        admin(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(name)))
    for role in some, all_but:
        admin(sql.SQL("DROP ROLE {}").format(sql.Identifier(role)))


@test
def a_schema_that_is_newer_is_not_replaced():
    one, schema = Session(), "newer%d" % random.getrandbits(30)
    install(schema)
    one(sql.SQL("CREATE OR REPLACE FUNCTION {}.lock_version() RETURNS int LANGUAGE sql IMMUTABLE AS 'SELECT 5'").format(
        sql.Identifier(schema)))
    try:
        install(schema)
        raise Wrong("it was replaced")
    except psycopg2.Error as error:
        require("version 5, which is newer" in str(error), error)
    equal(one(sql.SQL("SELECT {}.lock_version()").format(sql.Identifier(schema)))[0][0], 5)
    one(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))


@test
def first_users_who_come_at_once_make_one_schema():
    schema = "Other %d \"quoted\"" % random.getrandbits(30)
    together(*[lambda: install(schema)] * 6)
    one, pawl = Session(schema), Session()
    held = one.hold("a1")
    equal((one.serves_since, one.version), (1, 4))
    require(pawl.row("a1", "token") != held.token)
    one("SELECT release('a1', %s, %s, false)", held.uid, one.client)
    one.close()
    pawl(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))


@test
def a_session_has_one_life_and_an_id_of_its_own():
    one = Session()
    try:
        Session(enters=False)(statement("enter"), one.client)
        raise Wrong("two connections with one id")
    except psycopg2.errors.LockNotAvailable:
        pass
    two = Session()
    equal(two("SELECT lives(%s)", one.client), [(True,)])
    one.close()
    eventually(lambda: two("SELECT lives(%s)", one.client) == [(False,)])
    equal(two("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()"), [(1,)])


# ---- the short ways where there is a queue ----------------------------------------------------------------------------------

@test
def the_short_ways_of_a_queue_keep_its_order_and_its_tokens():
    one, two, three = Session(), Session(), Session()
    held = line_up(one, "q1")
    require(held.token > 0, "free, and not taken")
    first, second, third = line_up(two, "q1"), line_up(one, "q1"), line_up(three, "q1")
    equal([claim.token for claim in (first, second, third)], [0, 0, 0])
    require(0 < first.ticket < second.ticket < third.ticket)
    equal(first.seen, held.token)
    require(0 < first.look <= 10000 and 0 < second.look, first.look)
    equal(one.waiters("q1"), [first.uid, second.uid, third.uid])
    uid, token, lease = hand(one, "q1", held.uid)
    equal((uid, lease), (first.uid, 10000))
    equal(two.told("granted", first.uid), [token, lease])
    uid, next_token, lease = hand(two, "q1", first.uid)
    equal(uid, second.uid)
    require(held.token < token < next_token)
    equal(hand(two, "q1", first.uid), None)
    equal(hand(one, "q1", second.uid)[0], third.uid)
    equal(hand(three, "q1", third.uid), None)
    equal(three.release("q1", third.uid), (1, []))
    equal([past.token for past in one.show("q1") if past.role == 3][1:], [next_token, token, held.token])


@test
def who_hands_a_lock_on_commits_without_a_notify_and_tells_afterwards():
    """A NOTIFY keeps all others of the cluster from committing until its own commit is on disk: pg_locks shows it as database 0."""
    for way in "hand", "release":
        one, two, name = Session(), Session(), "later/" + way
        held, next_one = one.hold(name), two.acquire(name)
        words = (name, held.uid, one.client) + ((False,) if way == "release" else ())
        rows = one(statement(way), *words)
        equal(rows[-1][0] if way == "hand" else rows[0][0], next_one.uid if way == "hand" else held.uid)
        time.sleep(0.2)
        two.hear()
        equal(two.notes, [], "it was told in the same transaction")
        one(statement("tell"))
        token, _ = two.told("granted", next_one.uid)
        equal(token, two.row(name, "token"))
        one(statement("tell"))
        time.sleep(0.1)
        two.hear()
        equal(len(two.notes), 1, "it was told twice")
        equal(two.release(name, next_one.uid)[0], 1)


@test
def what_was_rolled_back_is_not_told():
    one, two = Session(), Session()
    held, next_one = one.hold("later/back"), two.acquire("later/back")
    one("BEGIN")
    one(statement("release"), "later/back", held.uid, one.client, False)
    one("ROLLBACK")
    one(statement("tell"))
    time.sleep(0.2)
    two.hear()
    equal(two.notes, [])
    equal(one.release("later/back", held.uid)[0], 1)
    two.told("granted", next_one.uid)


@test
def clients_of_older_versions_are_told_by_the_release_itself():
    one, two = Session(), Session()
    held, next_one = one.hold("later/old"), two.acquire("later/old")
    one("SELECT release('later/old', %s, %s, false)", held.uid, one.client)
    two.told("granted", next_one.uid)


@test
def what_is_not_simple_is_not_handed_over_by_one_statement():
    one, two = Session(), Session()
    held = one.hold("q2")
    shared = line_up(two, "q2", mode=1)
    equal(hand(one, "q2", held.uid), None)
    equal(one.release("q2", held.uid)[0], 1)
    two.told("granted", shared.uid)
    gone = Session()
    held = one.hold("q3")
    dead, alive = line_up(gone, "q3"), line_up(two, "q3")
    gone.close()
    eventually(lambda: one("SELECT lives(%s)", gone.client) == [(False,)])
    equal(hand(one, "q3", held.uid), None)
    equal(one.waiters("q3"), [dead.uid, alive.uid])
    equal(one.release("q3", held.uid)[0], 1)
    two.told("granted", alive.uid)
    one.age("q3", 1)
    line_up(one, "q3")
    equal(hand(two, "q3", alive.uid), None)


@test
def who_comes_back_while_the_lock_is_handed_over_keeps_its_turn():
    one, two, three = Session(), Session(), Session()
    held = one.hold("q4")
    first, second, third = two.acquire("q4"), three.acquire("q4"), three.acquire("q4")
    for served in first.ticket, first.ticket - 1:
        one("DELETE FROM wait WHERE uid = %s", first.uid)
        one("UPDATE lock SET served = %s WHERE name = 'q4'", served)
        two.connection.autocommit = False
        equal(two.acquire("q4", uid=first.uid, ticket=first.ticket).ticket, first.ticket)
        handed = []
        handing = threading.Thread(target=lambda: handed.append(hand(one, "q4", held.uid)))
        handing.start()
        eventually(lambda: three("SELECT count(*) FROM pg_stat_activity WHERE pid = %s AND wait_event_type = 'Lock'", one.pid)
                   == [(1,)])
        two.connection.commit()
        two.connection.autocommit = True
        handing.join(PATIENCE)
        equal(handed, [None])
        equal(three.waiters("q4"), [first.uid, second.uid, third.uid])
    equal(one.release("q4", held.uid)[0], 1)
    two.told("granted", first.uid)


# ---- advisory ------------------------------------------------------------------------------------------------------------

@test
def every_name_has_a_number_of_its_own_also_if_hashes_meet():
    one, two = Session(), Session()
    number = one("SELECT advisory_key_of(%s)", "v1")[0][0]
    equal(two("SELECT advisory_key_of(%s)", "v1"), [(number,)])
    meets = one("SELECT hashtextextended('v2', 0)")[0][0]
    one("INSERT INTO advisory_key VALUES ('somebody', %s)", meets)
    number = one("SELECT advisory_key_of(%s)", "v2")[0][0]
    require(number != meets)
    equal(one("SELECT advisory_key_of(%s)", "v2"), [(number,)])
    numbers = []
    together(*[lambda: numbers.append(Session()("SELECT advisory_key_of(%s)", "v3")[0][0])] * 5)
    equal(len(set(numbers)), 1)


@test
def an_advisory_lock_has_growing_tokens_also_after_the_counter_was_lost():
    one, two = Session(), Session()
    number = one("SELECT advisory_key_of(%s)", "v4")[0][0]
    equal(one(statement("advisory_enter"), random.getrandbits(62))[0][0], 1)
    first = one(statement("advisory_take"), number)[0][0]
    require(first > 1500000000 * 1000000)
    equal(two(statement("advisory_take"), number), [(0,)])
    granted = []
    waiter = threading.Thread(target=lambda: granted.append(two(statement("advisory_wait"), number, False, "0")[0][0]))
    waiter.start()
    equal(one(statement("advisory_give"), number), [(True,)])
    waiter.join(PATIENCE)
    require(granted and granted[0] > first, granted)
    one("SELECT setval('advisory_token', 1)")  # as in an old copy
    three = Session()
    three(statement("advisory_enter"), random.getrandbits(62))
    two(statement("advisory_give"), number)
    require(three(statement("advisory_take"), number)[0][0] > granted[0])
    together(*[lambda: Session()(statement("advisory_enter"), random.getrandbits(62))] * 5)
    three(statement("advisory_give"), number)


@test
def what_no_client_asks_for_is_refused_and_spoils_nothing_for_others():
    """A role that may call the functions could leave a row with which no lock can be shown, broken or given back."""
    one, two = Session(), Session()
    held = one.hold("odd1")
    for odd in ({"ttl": 0}, {"ttl": -1}, {"ttl": None}, {"ttl": 2 ** 63 - 1}, {"delay": -1}, {"delay": None}, {"delay": 2 ** 63 - 1},
                {"mode": 2}, {"mode": None}, {"mode": 1, "limit": -1}):
        for name in "odd1", "odd2":
            try:
                two.acquire(name, **odd)
            except psycopg2.DataError as refused:
                equal(refused.pgcode, "22023", odd)
            else:
                require(False, "%r was accepted" % odd)
    for words in ("NULL, 1", "gen_random_uuid(), NULL"):
        try:
            two("SELECT acquire('odd2', %s, '', '', 0, 0, 1000, 0, 0, false, false, 0)" % words)
        except psycopg2.DataError:
            continue
        require(False, words)
    equal(two.show("odd2"), [])
    equal([entry.role for entry in two.show("odd1")], [1])
    equal(one.release("odd1", held.uid)[0], 1)
    equal(two.hold("odd1", ttl=366 * 24 * 3600 * 1000, delay=366 * 24 * 3600 * 1000).token > held.token, True)
    equal(two.breaks("odd1")[0], 1)


@test
def a_release_that_is_repeated_notifies_the_next_holder_again():
    """The connection was lost between the release and the NOTIFY behind it, so that nobody knows who has the lock."""
    for mode in 0, 1:
        name = "again%d" % mode
        one, two, back = Session(), Session(), Session()
        held = one.hold(name)
        waiter = two.acquire(name, mode=mode)
        equal(waiter.token, 0)
        one(statement("release"), name, held.uid, one.client, False)
        one.connection.close()
        equal(two.notes, [])
        for again in (lambda: equal(back.release(name, held.uid)[0], 1)), (lambda: equal(back.cancel(name, held.uid)[0], 0)):
            again()
            token, lease = two.told("granted", waiter.uid)
            require(token > held.token)
            equal(lease, 1, "it would be used without asking first")
            two.notes.clear()
        equal(two.release(name, waiter.uid)[0], 1)


@test
def what_lists_locks_is_not_compiled_first():
    """The engine's own sessions say jit = off; an administrator's do not."""
    equal(Session()("SELECT 'jit=off' = ANY(proconfig) FROM pg_proc WHERE proname = 'list_between' AND pronamespace = 'pawl'::regnamespace"),
          [(True,)])


def main():
    chosen = [function for function in tests if not sys.argv[1:] or any(word in function.__name__ for word in sys.argv[1:])]
    install()
    for function in chosen:
        problem = None
        try:
            function()
        except Wrong as wrong:
            place = traceback.extract_tb(wrong.__traceback__)
            lines = ["line %d: %s" % (frame.lineno, frame.line) for frame in place if frame.name == function.__name__]
            problem = lines[-1:] + [str(note) for note in wrong.args]
        except Exception:
            problem = [traceback.format_exc()]
        check(function.__name__.replace("_", " "), not problem, *(problem or ()))
    finish()


main()
