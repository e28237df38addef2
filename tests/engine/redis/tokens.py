#!/usr/bin/env python3
"""tokens.py - the token of a later grant is greater, whatever the server has forgotten; and who held a forgotten lock is
told."""
import os
import time

from rig import *

NO_RENEW = 1


def grants(url, name="a", count=3):
    """Tokens of so many grants by a new client."""
    peer = Peer(url)
    tokens = []
    for _ in range(count):
        answer = peer.acquire(name)
        equal(answer.code, OK, answer.text)
        tokens.append(answer.token)
        equal(peer.release(), OK)
    equal(peer.leave(), 0)
    return tokens


def grow(*parts):
    tokens = [token for part in parts for token in part]
    require(all(one < next_ for one, next_ in zip(tokens, tokens[1:])), "tokens do not grow: %s" % tokens)
    require(0 < tokens[0] and tokens[-1] < 2 ** 53, "tokens are out of range: %s" % tokens)


def told_of_loss(peer):
    """The peer's lock is lost, by its next renewal at the latest, and says so once."""
    eventually(lambda: peer.number("lost") == 1, "nobody told the holder")
    equal(peer.check(), LOST)
    eventually(lambda: peer.number("lost") == 1, "the callback did not run")
    require(peer.number("reason") in (TAKEN, SESSION), "the reason is %d" % peer.number("reason"))
    equal(peer.release(), LOST)


@test
def tokens_grow_over_a_flushall_and_the_holder_is_told():
    server = Server()
    before = grants(server.url())
    holder = Peer(server.url())
    held = holder.acquire("a", ttl=1500)
    equal(held.code, OK)
    server("FLUSHALL")
    after = grants(server.url())
    grow(before, [held.token], after)
    told_of_loss(holder)


@test
def tokens_grow_over_a_restart_without_data_and_the_holder_is_told():
    server = Server()
    before = grants(server.url())
    holder = Peer(server.url())
    held = holder.acquire("a", ttl=2000)
    equal(held.code, OK)
    server.restart()
    after = grants(server.url())
    grow(before, [held.token], after)
    told_of_loss(holder)


@test
def tokens_grow_over_many_restarts_without_data():
    server = Server()
    tokens = []
    for _ in range(5):
        tokens.append(grants(server.url(), count=2))
        server.restart()
    grow(*tokens)


@test
def scripts_that_were_flushed_are_sent_again_at_every_step():
    server = Server()
    holder = Peer(server.url())
    waiter = Peer(server.url())
    tokens = []
    for _ in range(3):
        server("SCRIPT", "FLUSH")
        held = holder.acquire("a", ttl=3000)
        equal(held.code, OK, held.text)
        server("SCRIPT", "FLUSH")
        waiter.request("a")
        eventually(lambda: server.waiters("a") == 1)
        server("SCRIPT", "FLUSH")
        time.sleep(2.2)  # two renewals
        equal(holder.check(), OK)
        server("SCRIPT", "FLUSH")
        equal(holder.release(), OK)
        got = waiter.hear()
        equal(got.code, OK)
        server("SCRIPT", "FLUSH")
        equal(waiter.release(), OK)
        tokens += [held.token, got.token]
    grow(tokens)
    equal(holder.number("lost") + waiter.number("lost"), 0)


@test
def a_lock_that_was_evicted_is_lost_at_the_next_renewal_and_tokens_still_grow():
    server = Server("--maxmemory", "4mb", "--maxmemory-policy", "allkeys-random")
    holder = Peer(server.url())
    held = holder.acquire("a", ttl=60000, flags=NO_RENEW)
    equal(held.code, OK, held.text)
    connection = server.connect()
    number = 0
    while connection("EXISTS", "lock:a") or connection("EXISTS", "pawl:fence:lock:"):
        connection("SET", "filler:%d" % number, "x" * 10000)
        number += 1
        require(number < 20000, "neither the lock nor the counter was evicted")
    equal(holder.ask("renew").code, LOST)
    equal(holder.check(), LOST)
    require(holder.number("reason") in (TAKEN, SESSION), "the reason is %d" % holder.number("reason"))
    grow([held.token], grants(server.url()))


@test
def an_evicted_lock_is_told_to_a_holder_that_renews_by_itself():
    server = Server()
    holder = Peer(server.url())
    held = holder.acquire("a", ttl=1500)
    equal(held.code, OK)
    equal(server("DEL", "lock:a"), 1)  # what eviction does
    told_of_loss(holder)
    equal(server("EXISTS", "lock:a"), 0, "a renewal has made the lock again")
    grow([held.token], grants(server.url()))


@test
def tokens_grow_when_a_replica_that_lagged_is_promoted():
    primary = Server("--repl-diskless-sync-delay", "0")
    replica = Server("--repl-diskless-sync-delay", "0")
    before = grants(primary.url())
    replica("REPLICAOF", "127.0.0.1", primary.port)
    eventually(lambda: "master_link_status:up" in replica("INFO", "replication"))
    eventually(lambda: replica("GET", "pawl:fence:lock:") == primary("GET", "pawl:fence:lock:"))
    replica("REPLICAOF", "127.0.0.1", 1)  # cut off: what comes now it does not see
    lost = grants(primary.url(), count=20)
    require(int(replica("GET", "pawl:fence:lock:")) < lost[0], "the replica does not lag")
    primary.kill()
    replica("REPLICAOF", "NO", "ONE")
    after = grants(replica.url())
    grow(before, lost, after)


@test
def tokens_grow_when_the_counter_is_ahead_of_the_clock():
    server = Server()
    before = grants(server.url())
    ahead = int(time.time() * 1000000) + 3600 * 1000000  # as a server left it whose clock was fast
    server("SET", "pawl:fence:lock:", ahead)
    after = grants(server.url(), count=10)
    grow(before, [ahead], after)


@test
def a_clock_that_is_centuries_ahead_for_a_while_does_not_spoil_the_counter():
    later = os.path.join(directory(), "later")
    os.environ["FAR_CLOCK"] = later
    os.environ["LD_PRELOAD"] = os.environ.get("FAR_CLOCK_MODULE") or os.path.join(BUILD, "tests/engine/redis/far_clock.so")
    try:
        server = Server()
    finally:
        del os.environ["LD_PRELOAD"]
    before = grants(server.url())
    with open(later, "w", encoding="utf-8"):
        pass
    require(int(server("TIME")[0]) > 2 ** 33, "the clock was not moved")
    meanwhile = grants(server.url())
    holder, waiter = Peer(server.url()), Peer(server.url())
    held = holder.acquire("a", ttl=60000)
    equal(held.code, OK, held.text)
    waiter.request("a")
    eventually(lambda: server.waiters("a") == 1)
    equal(holder.release(), OK)
    got = waiter.hear()
    equal(got.code, OK)
    equal(waiter.release(), OK)
    os.unlink(later)
    grow(before, meanwhile, [held.token, got.token], grants(server.url()))
    with open(later, "w", encoding="utf-8"):
        pass
    server("DEL", "pawl:fence:lock:")
    for early in (False, True):  # in a second: then TIME has fewer digits
        eventually(lambda: (int(server("TIME")[1]) < 50000) == early)
        answer = holder.acquire("a")
        equal(answer.code, SYSTEM, answer.text)
        matches(answer.text, "clock")
    equal(server.keys("lock:*"), [])


@test
def a_counter_that_somebody_damaged_gives_a_clear_error_or_a_greater_token():
    server = Server()
    before = grants(server.url())
    for damage in ("", "nonsense", "-5", "1e3", "9007199254740993", "9" * 30):
        server("SET", "pawl:fence:lock:", damage)
        peer = Peer(server.url())
        answer = peer.acquire("a")
        if answer.code == OK:
            grow(before, [answer.token])
            equal(peer.release(), OK)
        else:
            require(answer.code in (CORRUPT, FULL), "%r: %s %s" % (damage, show(answer.code), answer.text))
            matches(answer.text, "fence|counter|token")
            equal(server.keys("lock:*"), [], "a refused claim left the lock")
        peer.leave()
    server("DEL", "pawl:fence:lock:")
    server("RPUSH", "pawl:fence:lock:", "a list")
    peer = Peer(server.url())
    answer = peer.acquire("a")
    equal(answer.code, CORRUPT, answer.text)
    equal(server.keys("lock:*"), [], "a refused claim left the lock")


@test
def the_tokens_of_all_names_of_one_namespace_are_distinct():
    server = Server()
    peer = Peer(server.url())
    tokens = []
    for number in range(200):
        answer = peer.acquire("name%d" % number)
        equal(answer.code, OK)
        equal(peer.release(), OK)
        tokens.append(answer.token)
    grow(tokens)
    equal(server.keys("pawl:fence:*"), ["pawl:fence:lock:"], "one counter for all names")


@test
def a_waiter_that_is_handed_the_lock_after_a_flushall_has_a_greater_token():
    server = Server()
    holder = Peer(server.url())
    waiter = Peer(server.url())
    held = holder.acquire("a", ttl=2000)
    waiter.request("a", ttl=2000)
    eventually(lambda: server.waiters("a") == 1)
    server("FLUSHALL")
    got = waiter.hear()
    equal(got.code, OK)
    grow([held.token], [got.token])
    told_of_loss(holder)
    equal(waiter.release(), OK)


@test
def a_restart_with_older_data_does_not_bring_tokens_back():
    server = Server("--dbfilename", "old.rdb")
    before = grants(server.url())
    server("SAVE")
    later = grants(server.url(), count=20)
    server.kill()
    server.start()
    require(int(server("GET", "pawl:fence:lock:")) < later[0], "the data are not older")
    grow(before, later, grants(server.url()))


main()
