#!/usr/bin/env python3
"""pooler.py - PgBouncer before the server. One that hands on transactions gives each of them another session: a lock of a session
would be anybody's, and nobody would hear. It is refused in words. One that hands on sessions is allowed, if the URL says so."""
from pg import *

MODES = {}, {"mode": "advisory"}


class Pooled(Store):
    """PgBouncer: the first member; the server behind it is only looked at."""

    @classmethod
    def of(cls, name):
        return cls.get(name)

    def fresh(self):
        self.prefix = "t%d-%d/" % (os.getpid(), next(numbers))

    def answers(self, member):
        import psycopg2
        try:
            psycopg2.connect(host="127.0.0.1", port=member.port, user="postgres", dbname="postgres", connect_timeout=5).close()
            return True
        except psycopg2.Error:
            return False

    def url(self, **options):
        return "postgres://postgres@%s/postgres?%s" % (self.hosts(), "&".join(
            "%s=%s" % pair for pair in {"prefix": self.prefix, **options}.items()))


def refused(url):
    peer = Peer(url)
    answer = peer.acquire("a", patience=40) if peer.opened.code == OK else peer.opened
    require(answer.code not in (OK, BUSY, TIMEOUT), show(answer.code), answer.text)
    matches(answer.text, "pooler")
    note(answer.text)
    waits = Peer(url)
    answer = waits.acquire("a", wait=5000, patience=40) if waits.opened.code == OK else waits.opened
    require(answer.code not in (OK, BUSY, TIMEOUT), "one that waits: " + show(answer.code), answer.text)


@test
def one_that_hands_on_transactions_is_refused_and_named_in_both_modes():
    pool = Pooled.of("pgbouncer")
    for mode in MODES:
        refused(pool.url(**mode))


@test
def one_that_hands_on_sessions_is_refused_too_until_the_url_says_so():
    pool = Pooled.of("pgbouncer-session")
    for mode in MODES:
        refused(pool.url(**mode))
        peer = Peer(pool.url(pooler="session", **mode))
        answer = peer.acquire("b")
        equal(answer.code, OK, answer.text)
        equal(peer.release(), OK)


@test
def locks_through_one_that_hands_on_sessions_are_held_and_handed_on():
    pool = Pooled.of("pgbouncer-session")
    for mode in MODES:
        holder, waiter = [Peer(pool.url(pooler="session", **mode)) for _ in range(2)]
        held = holder.acquire("a", ttl=5000)
        equal(held.code, OK, held.text)
        equal(waiter.acquire("a").code, BUSY)
        waiter.request("a", ttl=5000)
        time.sleep(7)
        equal(holder.check(), OK, "it is renewed")
        require(not waiter.heard(), "two hold it")
        equal(holder.release(), OK)
        got = waiter.hear()
        equal(got.code, OK)
        require(got.token > held.token)
        equal(waiter.release(), OK)


@test
def a_session_that_goes_back_to_the_pool_takes_no_lock_with_it():
    """The server's side of it lives on, and is given to the next who comes."""
    pool = Pooled.of("pgbouncer-session")
    for mode in MODES:
        first = Peer(pool.url(pooler="session", **mode))
        held = first.acquire("a", ttl=1500)
        equal(held.code, OK, held.text)
        first.kill()
        second = Peer(pool.url(pooler="session", **mode))
        got = second.acquire("a", wait=20000, patience=40)
        equal(got.code, OK, got.text)
        require(got.token > held.token)
        equal(second.release(), OK)


@test
def a_pooler_that_is_killed_and_comes_back_costs_no_lease():
    pool = Pooled.of("pgbouncer-session")
    holder = Peer(pool.url(pooler="session", timeout="3s"))
    held = holder.acquire("a", ttl=LONG)
    equal(held.code, OK, held.text)
    member = pool.members[0]
    member.kill()
    who = {}
    if os.getuid() == 0:
        entry = pwd.getpwnam("postgres")
        who = {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    process = subprocess.Popen(member.command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True, **who)
    member.process, member.pid, member.dead = process, process.pid, False
    eventually(member.answers)
    equal(holder.check(), OK)
    equal(Peer(pool.url(pooler="session", timeout="10s")).acquire("a").code, BUSY)
    equal(holder.release(), OK)
    equal(holder.number("lost"), 0)


main(missing("pgbouncer", "pgbouncer-session"))
