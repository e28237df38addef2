#!/usr/bin/env python3
"""failover.py - a primary and its synchronous standby, which takes over: what was granted is known there, tokens grow, and a
client whose URL names both goes on. Also what a standby alone, and a primary that waits for its standby, are told as."""
from pg import *


def pair():
    """A pair of the test's own: after it the second is no standby any more."""
    store = Postgres.new("postgres-pair")
    store.primary, store.standby = store.members
    return store


def take_over(store):
    """The primary dies; the standby is made the primary, and looked at from now on."""
    store.primary.kill()
    store.standby.promote()
    store.members = [store.standby, store.primary]
    eventually(lambda: store.asked("SELECT pg_is_in_recovery()") == [(False,)], "it does not take over", patience=60)



def url_of_both(store):
    hosts = ",".join(member.where for member in sorted(store.members, key=lambda member: member.number))
    return lambda *members, **options: Postgres.url(store, *(members or hosts.split(",")), **options)


@test(within=180)
def a_standby_that_takes_over_knows_who_holds_and_those_who_wait_are_served_in_their_order():
    store = pair()
    store.url = url_of_both(store)
    holder, *waiters = peers(store, 4, timeout="3s")
    held = holder.acquire("a", ttl=60000)
    equal(held.code, OK, held.text)
    for number, waiter in enumerate(waiters, 2):
        waiter.request("a", ttl=60000)
        eventually(lambda: len(store.line("a")) == number)
    take_over(store)
    eventually(lambda: len(store.line("a")) == 4, lambda: "they did not come over: %r" % store.line("a"), patience=60)
    equal(holder.check(), OK)
    equal(holder.number("lost"), 0)
    stranger = Peer(store.url(timeout="20s"))
    equal(stranger.acquire("a").code, BUSY, "it was forgotten")
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


@test(within=180)
def a_standby_that_takes_over_while_a_lock_changes_hands_loses_none_and_doubles_none():
    store = pair()
    store.url = url_of_both(store)
    crowd = Crowd(store, 4, ttl=60000)
    crowd.progress(20)
    take_over(store)
    crowd.progress(20)
    crowd.end()
    nothing_is_left(store)


@test(within=120)
def tokens_grow_over_a_fail_over_also_those_of_advisory_locks():
    store = pair()
    store.url = url_of_both(store)
    before = {}
    for mode in ("lease", "advisory"):
        options = {} if mode == "lease" else {"mode": mode}
        peer = warmed(store.url(timeout="5s", **options))
        before[mode] = peer, peer.acquire("a", wait=20000).token
        equal(peer.release(), OK)
    take_over(store)
    for peer, token in before.values():
        answer = eventually(lambda: (lambda got: got.code == OK and got)(peer.acquire("a", wait=20000, patience=40)), patience=60)
        require(answer.token > token, "a token came again", answer.token, token)
        equal(peer.release(), OK)


@test(within=180)
def a_standby_that_lacks_the_last_commits_grants_nothing_twice_and_nobody_starves():
    """Asynchronous replication, cut off some time before the primary dies. What was granted since is forgotten."""
    store = pair()
    store.url = url_of_both(store)
    store.primary("ALTER SYSTEM RESET synchronous_standby_names")
    with open(os.path.join(store.primary.data, "postgresql.conf"), "a", encoding="utf-8") as file:
        file.write("synchronous_standby_names = ''\n")
    store.primary("SELECT pg_reload_conf()")
    holder, other, *waiters = peers(store, 6, timeout="4s")
    newcomer = Peer(store.url(timeout="20s"))
    equal(other.acquire("b", ttl=5000).code, OK)
    place, = store.primary("SELECT pg_current_wal_lsn()")[0]
    eventually(lambda: store.standby("SELECT pg_last_wal_replay_lsn() >= %s", place) == [(True,)])
    receiver = next(pid for pid in store.standby.children()
                    if "walreceiver" in open("/proc/%d/cmdline" % pid, encoding="utf-8", errors="replace").read())
    stand_still(receiver)
    equal(other.release(), OK)  # forgotten as what follows is: it looks held for the rest of its lease
    for _ in range(50):
        last = holder.acquire("a", ttl=LONG)
        equal(last.code, OK, last.text)
        equal(holder.release(), OK)
    held = holder.acquire("a", ttl=5000)
    equal(held.code, OK)
    for number, waiter in enumerate(waiters, 2):
        waiter.request("a", ttl=LONG)
        eventually(lambda: len(store.line("a")) == number)
    store.primary.kill()
    os.kill(receiver, signal.SIGKILL)
    store.members = [store.standby, store.primary]
    store.asked("SELECT 1")  # it begins anew after that
    store.standby.promote()
    eventually(lambda: store.asked("SELECT pg_is_in_recovery()") == [(False,)], "it does not take over", patience=60)
    require(holder.number("lost") or held.token not in [token for token, in store.asked("SELECT token FROM pawl.lock")],
            "it has all: this test shows nothing")
    eventually(lambda: holder.check() == LOST, "it believes in a lock that was forgotten")
    equal(holder.release(), LOST)
    first = eventually(lambda: [waiter for waiter in waiters if waiter.heard()], "nobody gets it", patience=60)
    eventually(lambda: len(store.line("a")) == len(waiters), lambda: "they did not come over: %r" % store.line("a"), patience=60)
    newcomer.request("a", ttl=LONG)
    eventually(lambda: len(store.line("a")) == len(waiters) + 1)
    last = held.token
    waiters = first + [waiter for waiter in waiters if waiter not in first] + [newcomer]  # who came back first may be first
    for waiter in waiters:
        got = waiter.hear(40)
        equal(got.code, OK)
        require(got.token > last, "a token came again", got.token, last)
        last = got.token
        require(not [one for one in waiters if one is not waiter and one.heard()], "two hold it")
        equal(waiter.release(), OK)
    got = other.acquire("b", wait=30000, patience=40)
    equal(got.code, OK, "what was given back is held for longer than its lease")
    equal(other.release(), OK)
    nothing_is_left(store)


@test(within=120)
def a_standby_alone_is_refused_in_a_sentence_and_used_as_soon_as_it_leads():
    store = pair()
    store.url = url_of_both(store)
    equal(warmed(store.url()).leave(), 0)
    for more in ({}, {"mode": "advisory"}):
        alone = Peer(store.url(store.standby, timeout="2s", **more))
        answer = alone.acquire("a", patience=40)
        require(answer.code not in (OK, BUSY, TIMEOUT), show(answer.code), answer.text)
        matches(answer.text, "standby|read-only|recovery|primary|read-write|read write")
        note(answer.text)
        equal(alone.leave(), 0)
    alone = Peer(store.url(store.standby, timeout="2s"))
    take_over(store)
    got = eventually(lambda: (lambda answer: answer.code == OK and answer)(alone.acquire("a")))
    require(got.token > 0)
    equal(alone.release(), OK)
    nothing_is_left(store)


@test(within=120)
def a_primary_whose_standby_stands_still_grants_nothing_that_it_may_forget():
    """It waits with every commit. What is asked then fails, and is cleaned up when the standby goes on."""
    store = pair()
    peer, other = [warmed(store.url(store.primary, timeout="2s")) for _ in range(2)]
    store.standby.stop()
    answer = peer.acquire("a", ttl=60000, patience=40)
    require(failed(answer.code), show(answer.code), answer.text)
    note(answer.text)
    store.standby.go_on()
    got = other.acquire("a", wait=30000, ttl=LONG, patience=60)
    equal(got.code, OK, "what failed is held for its whole ttl", got.text)
    equal(other.release(), OK)
    nothing_is_left(store)


@test(within=120)
def clients_of_a_primary_whose_standby_stands_still_use_two_connections_each():
    """A commit that waits for its standby notices neither that its client has gone nor any time limit."""
    store = pair()
    count = 4
    clients = [warmed(store.url(store.primary, timeout="1s")) for _ in range(count)]
    store.standby.stop()
    most = 0
    for client in clients:
        client.request("a", ttl=60000)
    until = time.monotonic() + 10
    while time.monotonic() < until:
        for client in clients:
            if client.heard():
                code = client.hear().code
                require(failed(code), show(code))
                client.request("a", ttl=60000)
        most = max(most, len(store.backends()))
        time.sleep(0.2)
    note("%d connections of %d clients" % (most, count))
    require(most <= 2 * count, "%d connections of %d clients" % (most, count))
    store.standby.go_on()
    got = 0
    while got < count:
        for client in [client for client in clients if client.heard()]:
            code = client.hear(40).code
            if code == OK:
                equal(client.release(), OK)
                got += 1
            else:
                client.request("a", wait=30000, ttl=LONG)
    nothing_is_left(store)


@test(within=120)
def what_is_kept_is_not_told_by_a_primary_whose_standby_stands_still_or_leads():
    store = pair()
    peer = warmed(store.url(store.primary))
    held = peer.acquire("a", ttl=60000)
    equal(peer.ask("store something").code, OK)
    answers = []

    def fetch():
        answers.append(store.primary("SELECT token FROM pawl.fetch_value(%s, false)", store.prefix + "a"))
    fetch()
    store.standby.stop()
    asking = threading.Thread(target=fetch)
    asking.start()
    time.sleep(1)
    equal(len(answers), 1, "what it says may be old")
    store.standby.go_on()
    asking.join()
    equal(answers, [[(held.token,)]] * 2)
    take_over(store)
    equal(store.asked("SELECT token FROM pawl.value WHERE name = %s", store.prefix + "a"), [(held.token,)])


@test(within=120)
def an_old_primary_that_comes_back_grants_nothing():
    """It has no standby any more, and waits for one."""
    store = pair()
    old = store.primary
    holder = warmed(store.url(old, store.standby, timeout="3s"))
    held = holder.acquire("a", ttl=60000)
    equal(held.code, OK)
    take_over(store)
    eventually(lambda: len(store.line("a")) == 1)
    equal(holder.release(), OK)
    second = Peer(store.url(store.standby))
    got = second.acquire("a", wait=20000, ttl=60000)
    equal(got.code, OK, got.text)
    require(got.token > held.token)
    old.start()
    eventually(old.answers)
    late = Peer(store.url(old, timeout="2s"))
    answer = late.acquire("a", wait=3000, patience=40)
    require(answer.code != OK, "two hold it")
    equal(second.check(), OK)
    equal(second.release(), OK)


main(missing("postgres-pair"))
