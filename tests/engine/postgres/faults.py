#!/usr/bin/env python3
"""faults.py - a PostgreSQL server that is killed, stopped and restarted, connections that it ends, clients that stand still: no
lock is held twice, tokens grow, who waits is served, nothing is left. Locks are rows here; advisory.py has the other mode."""
from pg import *


def waiting(store, count, name="a", ttl=LONG):
    """A holder, and so many who wait for it, in their order. Gives the holder, its answer and the waiters."""
    holder, *waiters = peers(store, count + 1)
    held = holder.acquire(name, ttl=ttl)
    equal(held.code, OK, held.text)
    for number, waiter in enumerate(waiters, 2):
        waiter.request(name, ttl=ttl)
        eventually(lambda: len(store.line(name)) == number)
    return holder, held, waiters


def served_in_order(store, holder, held, waiters):
    """The holder lets go; each has it once, alone, with a greater token."""
    last = held.token
    equal(holder.release(), OK)
    for waiter in waiters:
        got = waiter.hear(40)
        equal(got.code, OK)
        require(got.token > last, "a token did not grow")
        last = got.token
        require(not [other for other in waiters if other is not waiter and other.heard()], "two hold it")
        equal(waiter.release(), OK)
    nothing_is_left(store)


# ---- bytes beside a lock ------------------------------------------------------------------------------------------------

def kept(store, name="a"):
    """What is kept under a name, and the token it was stored with."""
    found = store.asked("SELECT data, token FROM pawl.value WHERE name = %s", store.prefix + name)
    return (bytes(found[0][0]).decode().lstrip(), found[0][1]) if found else None  # a peer stores the space before it, too


@test(within=120)
def what_was_confirmed_is_there_after_a_kill_and_its_holder_goes_on_storing():
    store = Postgres.one()
    holder = warmed(store.url(timeout="20s"))
    held = holder.acquire("a", ttl=60000)
    equal(holder.ask("store before").code, OK)
    store.members[0].restart()
    equal(kept(store), ("before", held.token))
    equal(holder.ask("store after", 60).code, OK, holder.ask("why").text)
    equal(kept(store), ("after", held.token))
    equal(holder.release(), OK)


@test(within=120)
def a_server_that_dies_while_something_is_stored_has_it_or_says_that_it_is_in_doubt():
    store = Postgres.one()
    holder = warmed(store.url(timeout="20s"))
    held = holder.acquire("a", ttl=60000)
    for number in range(5):
        equal(holder.ask("store before").code, OK)
        holder.tell("store %d" % number)
        time.sleep(0.002 * number)
        store.members[0].restart()
        code = holder.hear(60).code
        require(code in (OK, IN_DOUBT), show(code))
        require(kept(store)[0] in ((str(number),) if code == OK else ("before", str(number))), kept(store), show(code))
    equal(kept(store)[1], held.token)
    equal(holder.release(), OK)


@test(within=120)
def what_is_held_up_at_the_server_does_not_come_after_what_was_stored_later():
    """Its process at the server is stopped. The first is given up, but that process does not know, and will do it."""
    store = Postgres.one()
    holder = warmed(store.url(timeout="1s"))
    held = holder.acquire("a", ttl=60000)
    backend, = store.backends()
    os.kill(backend, signal.SIGSTOP)
    at_end(lambda: alive(backend) and os.kill(backend, signal.SIGCONT))
    equal(holder.ask("store first", 40).code, IN_DOUBT)
    equal(holder.ask("store second", 40).code, IN_DOUBT)
    equal(kept(store), None)
    os.kill(backend, signal.SIGCONT)
    eventually(lambda: holder.ask("store third", 40).code == OK)
    time.sleep(1)
    equal(kept(store), ("third", held.token))
    equal(holder.check(), OK)
    equal(holder.release(), OK)


# ---- rows that somebody else has locked, commits that wait ----------------------------------------------------------------

class Blocker:
    """Somebody's transaction that does not end."""

    def __init__(self, store, statement, *values):
        import psycopg2
        server = store.members[0]
        self.connection = psycopg2.connect(host=server.data, port=server.port, user=ADMINISTRATOR, dbname="postgres")
        at_end(self.connection.close)
        with self.connection.cursor() as cursor:
            cursor.execute(statement, values)

    def end(self):
        self.connection.rollback()


def row_blocker(store, *names):
    return Blocker(store, "SELECT FROM pawl.lock WHERE name = ANY(%s) FOR UPDATE", [store.prefix + name for name in names])


@test(within=120)
def waiters_beside_a_row_that_stays_locked_use_one_connection_each_and_are_served_afterwards():
    store = Postgres.one()
    url = store.url(timeout="1s")
    first = warmed(url)
    equal(first.acquire("a", ttl=60000).code, OK)
    blocker = row_blocker(store, "a")
    waiters = [Peer(url) for _ in range(20)]
    for waiter in waiters:
        waiter.request("a", ttl=10000)
    most = 0
    until = time.monotonic() + 5  # connections were given up after 1 s
    while time.monotonic() < until:
        most = max(most, len(store.backends()))
        time.sleep(0.2)
    require(most <= 21, "%d connections for 21 clients" % most)
    require(not [waiter for waiter in waiters if waiter.heard()], "one gave up, or two hold it")
    blocker.end()
    eventually(lambda: first.release() == OK)
    while waiters:
        got = eventually(lambda: [waiter for waiter in waiters if waiter.heard()], patience=60)[0]
        equal(got.hear().code, OK)
        equal(got.release(), OK)
        waiters.remove(got)
    nothing_is_left(store)


class Many:
    """A client that holds one lock, or several, and waits for others."""

    def __init__(self, url, ttl, held, waited):
        self.process = subprocess.Popen([os.environ["PAWL_TEST_MANY"], url, str(ttl), ",".join(held), ",".join(waited)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        at_end(lambda: (self.process.kill(), self.process.wait()))
        equal(self.process.stdout.readline().strip(), b"held")

    def check(self):
        """How many of its locks it still has, and how many of the others it has got."""
        self.process.stdin.write(b"check\n")
        return tuple(int(word) for word in self.process.stdout.readline().split())


@test(within=120)
def a_row_that_stays_locked_costs_no_other_lock_of_the_client():
    """Neither the rows of locks that it waits for, nor that of one that it holds itself."""
    store = Postgres.one()
    waited = ["b%d" % number for number in range(4)]
    others = [Peer(store.url()) for _ in waited]
    for name, other in zip(waited, others):
        equal(other.acquire(name, ttl=60000).code, OK)
    blocker = row_blocker(store, *waited)
    many = Many(store.url(), 4000, ["a", "stuck", "z"], waited)
    alone = row_blocker(store, "stuck")
    time.sleep(2.5)
    alone.end()  # in time for its next renewal
    time.sleep(6)
    equal(many.check(), (3, 0), "a lock was lost, or two hold one")
    blocker.end()
    for other in others:
        equal(other.release(), OK)
    eventually(lambda: many.check() == (3, 4), many.check())


@test(within=120)
def a_client_whose_row_stays_locked_for_longer_than_its_lease_loses_that_lock_alone():
    store = Postgres.one()
    many = Many(store.url(), 2000, ["a", "stuck", "z"], [])
    blocker = row_blocker(store, "stuck")
    eventually(lambda: many.check()[0] < 3)
    time.sleep(3)
    equal(many.check(), (2, 0))
    blocker.end()


@test(within=120)
def a_session_that_ends_while_it_stores_leaves_no_promise_open():
    """mode=advisory: what goes through the session that has the lock ends with it."""
    store = Postgres.one()
    url = store.url(mode="advisory")
    holder, other = Peer(url), Peer(url)
    equal(holder.acquire("a", ttl=60000).code, OK)
    equal(holder.ask("store before").code, OK)
    for pid in store.backends():
        store("SELECT pg_terminate_backend(%s)", pid)
    code = holder.ask("store after").code
    require(code in (LOST, IN_DOUBT), show(code))
    eventually(lambda: holder.check() == LOST)
    equal(holder.ask("store late").code, LOST)
    got = eventually(lambda: (lambda answer: answer.code == OK and answer)(other.acquire("a")))
    equal(kept(store)[0], "before")
    equal(other.ask("store next").code, OK)
    equal(kept(store), ("next", got.token))


# ---- a server that goes away -------------------------------------------------------------------------------------------

def survives(store, hurt):
    """Locks that are held and waited for outlive what happens to the server."""
    holder, held, waiters = waiting(store, 4)
    hurt(store.members[0])
    eventually(lambda: len(store.line("a")) == 5, lambda: "they did not come back: %r" % store.line("a"), patience=40)
    stranger = Peer(store.url(timeout="20s"))
    equal(stranger.acquire("a").code, BUSY, "it was forgotten")
    equal(holder.check(), OK)
    equal(holder.number("lost"), 0)
    require(not [waiter for waiter in waiters if waiter.heard()], "two hold it")
    served_in_order(store, holder, held, waiters)


@test(within=120)
def a_server_that_is_killed_and_started_again_keeps_locks_and_the_order_of_those_who_wait():
    survives(Postgres.one(), lambda server: server.restart())


@test(within=120)
def an_immediate_restart_keeps_locks_and_the_order_of_those_who_wait():
    def immediate(server):
        server.end(signal.SIGQUIT)
        server.start()
        eventually(server.answers, server.store.log)
    survives(Postgres.one(), immediate)


@test(within=120)
def a_fast_restart_keeps_locks_and_the_order_of_those_who_wait():
    def fast(server):
        server.end(signal.SIGINT)
        server.start()
        eventually(server.answers, server.store.log)
    survives(Postgres.one(), fast)


@test(within=120)
def one_process_of_the_server_that_is_killed_takes_all_connections_with_it_and_no_lock():
    """As when the kernel runs out of memory: the server throws everybody out and recovers."""
    store = Postgres.one()

    def one(server):
        os.kill(store.backends()[0], signal.SIGKILL)
        eventually(server.answers, server.store.log)
    survives(store, one)


@test(within=180)
def a_server_that_crashes_while_a_lock_changes_hands_loses_none_and_doubles_none():
    store = Postgres.one()
    crowd = Crowd(store, 4)
    for hurt in ("crash", "kill", "end"):
        crowd.progress(20)
        server = store.members[0]
        getattr(server, hurt)()
        server.start()
        eventually(server.answers, store.log, patience=60)
    crowd.progress(20)
    crowd.end()
    nothing_is_left(store)


@test(within=120)
def a_lease_that_ended_while_the_server_was_away_is_lost_and_the_next_has_it():
    store = Postgres.one()
    holder, held, (waiter,) = waiting(store, 1, ttl=1500)
    server = store.members[0]
    server.kill()
    eventually(lambda: holder.check() == LOST, "it believes in a lock that nobody renews")
    server.start()
    got = waiter.hear(60)
    if got.code == OK:
        require(got.token > held.token)
        equal(waiter.release(), OK)
    else:
        require(failed(got.code), show(got.code))
    equal(holder.release(), LOST)
    nothing_is_left(store)


# ---- connections that the server ends ----------------------------------------------------------------------------------

def terminate(store, client):
    """The connection that this client's record names."""
    ended = store("""SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory' AND objsubid = 1 AND granted
                     AND (classid::bigint << 32 | objid::bigint) = pawl.life_of(%s)""", client)
    equal(ended, [(True,)], client)


def client_of(store, table, name):
    return store("SELECT client FROM pawl.%s WHERE name = %%s" % table, store.prefix + name)[0][0]


@test
def a_holder_whose_connection_the_server_ends_holds_what_it_held():
    store = Postgres.one()
    holder, held, waiters = waiting(store, 1, ttl=3000)
    for _ in range(3):
        for pid in store.backends():
            store("SELECT pg_terminate_backend(%s)", pid)
        time.sleep(1.5)
    equal(holder.check(), OK)
    equal(holder.number("lost"), 0)
    served_in_order(store, holder, held, waiters)


@test
def a_waiter_whose_connection_the_server_ends_keeps_its_place():
    store = Postgres.one()
    holder, held, waiters = waiting(store, 3)
    before = store.line("a")
    terminate(store, client_of(store, "wait", "a"))
    eventually(lambda: store.line("a") == before, lambda: "%r, before it was %r" % (store.line("a"), before))
    served_in_order(store, holder, held, waiters)


@test
def a_waiter_that_is_away_when_its_turn_comes_is_passed_over_and_served_when_it_is_back():
    store = Postgres.one()
    between = Between(store.members[0])
    holder, other = peers(store, 2)
    waiter = warmed(store.url(between, timeout="2s"))
    held = holder.acquire("a", ttl=LONG)
    waiter.request("a", ttl=LONG)
    eventually(lambda: len(store.line("a")) == 2)
    other.request("a", ttl=LONG)
    eventually(lambda: len(store.line("a")) == 3)
    between.refuse = True
    terminate(store, store("SELECT client FROM pawl.wait WHERE name = %s ORDER BY ticket", store.prefix + "a")[0][0])
    eventually(lambda: len(store.line("a")) == 2)
    equal(holder.release(), OK)
    got = other.hear()
    equal(got.code, OK, "one who is away stands in its way")
    require(got.token > held.token)
    between.refuse = False
    eventually(lambda: len(store.line("a")) == 2, "it does not stand in line again")
    equal(other.release(), OK)
    again = waiter.hear()
    equal(again.code, OK)
    require(again.token > got.token)
    equal(waiter.release(), OK)
    nothing_is_left(store)


@test
def connections_that_end_when_they_are_idle_cost_nothing():
    store = Postgres.one()
    user = store.role("sleepy", "CREATE ON DATABASE postgres", "ALL ON SCHEMA pawl", options="LOGIN SUPERUSER")
    store("ALTER ROLE sleepy SET idle_session_timeout = 400")
    holder, waiter = [warmed(store.url(user=user)) for _ in range(2)]
    held = holder.acquire("a", ttl=6000)
    equal(held.code, OK)
    waiter.request("a", ttl=6000)
    eventually(lambda: len(store.line("a")) == 2)
    time.sleep(4)
    equal(holder.check(), OK)
    equal(holder.number("lost"), 0)
    require(not waiter.heard(), "two hold it")
    equal(holder.release(), OK)
    got = waiter.hear()
    equal(got.code, OK)
    require(got.token > held.token)
    equal(waiter.release(), OK)
    nothing_is_left(store)
    for peer in holder, waiter:
        equal(peer.leave(), 0)


@test
def connections_that_are_lost_again_and_again_leave_nothing_open():
    store = Postgres.one()
    holder, held, (waiter,) = waiting(store, 1)
    before = [len(os.listdir("/proc/%d/fd" % peer.pid)) for peer in (holder, waiter)]
    for _ in range(12):
        for pid in store.backends():
            store("SELECT pg_terminate_backend(%s)", pid)
        eventually(lambda: len(store.line("a")) == 2, "they did not come back")
        equal(holder.check(), OK)
    eventually(lambda: [len(os.listdir("/proc/%d/fd" % peer.pid)) for peer in (holder, waiter)] == before, "descriptors are left")
    eventually(lambda: len(store.backends()) == 2, lambda: "connections are left: %r" % store.backends())
    served_in_order(store, holder, held, [waiter])


# ---- news that do not come ---------------------------------------------------------------------------------------------

@test
def a_grant_whose_news_are_lost_with_the_connection_is_found_by_looking():
    store = Postgres.one()
    between = Between(store.members[0])
    holder, waiter = warmed(store.url()), warmed(store.url(between, timeout="2s"))
    last = 0
    for _ in range(3):
        held = holder.acquire("a", wait=20000, ttl=LONG)
        equal(held.code, OK, held.text)
        require(held.token > last)
        waiter.request("a", ttl=LONG)
        eventually(lambda: len(store.line("a")) == 2)
        between.set_cut("in", 0)  # the first byte that comes is the news
        equal(holder.release(), OK)
        got = waiter.hear(40)
        equal(got.code, OK)
        require(got.token > held.token)
        equal(waiter.check(), OK)
        equal(waiter.release(), OK)
        last = got.token
    nothing_is_left(store)


@test
def a_grant_that_is_told_to_nobody_is_found_by_looking():
    """Its lease is put into the row as the functions would, and nobody is told."""
    store = Postgres.one()
    holder, held, (waiter,) = waiting(store, 1, ttl=3000)
    store("""WITH next AS (DELETE FROM pawl.wait WHERE name = %s RETURNING *)
             UPDATE pawl.lock AS l SET token = l.token + 1, uid = next.uid, client = next.client, owner = next.owner,
             since = clock_timestamp(), expires_at = clock_timestamp() + interval '1 s' FROM next WHERE l.name = next.name""",
          store.prefix + "a")
    eventually(lambda: holder.check() == LOST, "it renews what another has")
    got = waiter.hear()
    equal(got.code, OK)
    require(got.token > held.token)
    equal(waiter.check(), OK)
    equal(waiter.release(), OK)
    equal(holder.release(), LOST)
    nothing_is_left(store)


@test
def a_waiter_whose_network_is_silent_while_its_turn_comes_is_served_when_it_is_heard_again():
    store = Postgres.one()
    between = Between(store.members[0])
    holder, third = peers(store, 2)
    waiter = warmed(store.url(between, timeout="2s"))
    held = holder.acquire("a", ttl=LONG)
    waiter.request("a", ttl=2000)
    eventually(lambda: len(store.line("a")) == 2)
    between.silent = True
    equal(holder.release(), OK)  # to one who does not hear it
    got = third.acquire("a", wait=30000, ttl=LONG, patience=40)
    equal(got.code, OK, "who does not hear holds it for ever")
    require(got.token > held.token)
    require(not waiter.heard(), "two hold it")
    between.silent = False
    between.cut_all()
    time.sleep(1)
    if waiter.heard():
        equal(waiter.hear().code, OK)
        equal(waiter.check(), LOST, "two hold it")
        equal(third.release(), OK)
    else:
        equal(third.release(), OK)
        again = waiter.hear(40)
        equal(again.code, OK)
        require(again.token > got.token)
        equal(waiter.release(), OK)
    nothing_is_left(store)


# ---- clients that stand still -------------------------------------------------------------------------------------------

@test
def a_holder_that_stood_still_past_its_lease_is_told_and_its_late_release_does_no_harm():
    store = Postgres.one()
    holder, held, (waiter,) = waiting(store, 1, ttl=1500)
    holder.stop()
    got = waiter.hear()
    equal(got.code, OK)
    require(got.token > held.token)
    holder.go_on()
    equal(holder.check(), LOST, "two hold it")
    equal(holder.release(), LOST)
    equal(waiter.check(), OK, "a late release took it away")
    equal(waiter.release(), OK)
    nothing_is_left(store)


@test
def a_waiter_for_whose_role_there_are_too_many_connections_goes_on_waiting():
    store = Postgres.one()
    holder = warmed(store.url())
    held = holder.acquire("a", ttl=LONG)
    equal(held.code, OK, held.text)
    role = store.role("crowded", "CREATE ON DATABASE postgres", "pg_monitor", options="LOGIN SUPERUSER CONNECTION LIMIT 1")
    waiter = Peer(store.url(user=role, timeout="20s"))
    waiter.request("a", ttl=LONG)
    eventually(lambda: len(store.line("a")) == 2)
    store("ALTER ROLE %s NOSUPERUSER CONNECTION LIMIT 0" % role)
    store("GRANT USAGE ON SCHEMA pawl TO %s" % role)
    store("GRANT EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl TO %s" % role)
    store("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = %s", role)
    eventually(lambda: len(store.line("a")) == 1)
    time.sleep(1)  # it was refused a connection by now, mostly
    require(not waiter.heard(), "it was refused")
    store("ALTER ROLE %s CONNECTION LIMIT 1" % role)
    eventually(lambda: len(store.line("a")) == 2)
    equal(holder.release(), OK)
    equal(waiter.hear().code, OK)
    equal(waiter.release(), OK)
    equal(waiter.leave(), 0)
    nothing_is_left(store)


@test
def a_release_that_met_a_locked_row_is_made_good_when_the_row_is_free():
    """The caller hears that it is in doubt; what is left is not held until its lease ends."""
    import psycopg2
    store = Postgres.one()
    holder, next_one = peers(store, 2, timeout="1s")
    equal(holder.acquire("a", ttl=600000).code, OK)
    member = store.members[0]
    other = psycopg2.connect(host=member.data, port=member.port, user=ADMINISTRATOR, dbname="postgres")
    try:
        with other.cursor() as cursor:
            cursor.execute("SELECT FROM pawl.lock WHERE name = %s FOR UPDATE", (store.prefix + "a",))
            equal(holder.ask("release").code, IN_DOUBT)
            time.sleep(1)  # and what cleans up behind it has met the row too
            other.rollback()
    finally:
        other.close()
    got = next_one.acquire("a", wait=30000, ttl=LONG, patience=40)
    equal(got.code, OK, "it is held by nobody until its lease ends", got.text)
    equal(next_one.release(), OK)
    nothing_is_left(store)


@test
def a_waiter_hears_that_it_was_granted_the_lock_although_it_could_not_be_notified_at_first():
    """It would look by itself after 20 s. A NOTIFY can fail: others that commit with one come first, one after the other."""
    store = Postgres.new()
    equal(warmed(store.url()).leave(), 0)
    role = store.role("worker", "USAGE ON SCHEMA pawl", "EXECUTE ON ALL FUNCTIONS IN SCHEMA pawl", "SELECT, UPDATE ON pawl.lock",
                      "SELECT, INSERT, DELETE ON pawl.wait")
    holder, waiter = [warmed(store.url(user=role)) for _ in range(2)]
    equal(holder.acquire("a", ttl=600000).code, OK)
    waiter.request("a", ttl=600000)
    eventually(lambda: len(store.line("a")) == 2)
    store("REVOKE EXECUTE ON FUNCTION pg_catalog.pg_notify(text, text) FROM PUBLIC")
    equal(holder.release(), OK)
    eventually(lambda: len(store.line("a")) == 1)
    time.sleep(0.5)
    require(not waiter.heard(), "it was notified: this test shows nothing")
    store("GRANT EXECUTE ON FUNCTION pg_catalog.pg_notify(text, text) TO PUBLIC")
    got = waiter.hear(15)
    equal(got.code, OK)
    equal(waiter.release(), OK)
    nothing_is_left(store)


@test
def a_limit_that_is_no_int_of_the_server_is_none():
    store = Postgres.one()
    holder, other = peers(store, 2)
    for peer in holder, other:
        got = peer.acquire("a", mode=1, holders=2 ** 32 - 1)
        equal(got.code, OK, got.text)
    for peer in holder, other:
        equal(peer.release(), OK)
    nothing_is_left(store)


@test
def a_row_changed_by_hand_is_a_lock_that_is_lost():
    store = Postgres.one()
    holder, other = peers(store, 2)
    held = holder.acquire("a", ttl=1500)
    equal(held.code, OK)
    store("UPDATE pawl.lock SET uid = NULL WHERE name = %s", store.prefix + "a")
    got = other.acquire("a", ttl=LONG)
    equal(got.code, OK, got.text)
    require(got.token > held.token)
    eventually(lambda: holder.check() == LOST, "it renews a lock that is not there")
    equal(holder.release(), LOST)
    equal(other.check(), OK)
    equal(other.release(), OK)
    nothing_is_left(store)


@test
def tables_that_are_dropped_under_a_holder_are_a_lock_that_is_lost_and_a_sentence():
    store = Postgres.new()
    holder, other = peers(store, 2)
    held = holder.acquire("a", ttl=1500)
    equal(held.code, OK)
    store("DROP SCHEMA pawl CASCADE")
    eventually(lambda: holder.check() == LOST, "it believes in a lock that is nowhere")
    code = holder.release()
    require(code == LOST or failed(code), show(code))
    again = eventually(lambda: (lambda answer: answer.code == OK and answer)(Peer(store.url()).acquire("a")))
    require(again.token > held.token, "a token came again")
    answer = other.acquire("a", wait=2000, patience=40)
    require(answer.code in (BUSY, TIMEOUT) or len(answer.text) > 15, show(answer.code), answer.text)


@test
def a_host_that_says_nothing_does_not_stand_before_the_next():
    store = Postgres.one()
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(8)  # the kernel takes the connection, and nobody else does
        url = store.url("127.0.0.1:%d" % silent.getsockname()[1], store.members[0].where, timeout="4s")
        peer = Peer(url)
        got = peer.acquire("a")
        equal(got.code, OK, got.text)
        equal(peer.release(), OK)
    nothing_is_left(store)



add(Postgres.one, (a_client_cut_off_from_all_servers_loses_its_lock_at_its_deadline_and_not_after_another_has_it,
                   a_waiter_that_stood_still_while_it_became_the_holder_and_lost_it_is_told_the_truth,
                   a_server_that_stands_still_for_longer_than_the_session_costs_the_lock_at_the_deadline_and_nothing_else,
                   a_request_whose_answer_never_comes_leaves_nothing_behind,
                   a_release_whose_answer_never_comes_is_finished_in_the_background,
                   a_refused_try_leaves_nothing_in_the_line,
                   a_holder_that_is_killed_is_followed_when_its_time_is_over,
                   a_killed_waiter_stands_in_nobodys_way))
main(missing("postgres"))
