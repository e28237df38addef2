#!/usr/bin/env python3
"""successors.py - what those in a queue owe each other: a successor that dies or stops costs its own lease and not its predecessor's,
a monitor changes nothing, many wait at the price of one, and a release does not grow with the number of holders."""
import time

from rig import *

NO_RENEW = 1
SHARED = 1
STALE = 20.0  # s: a waiter that believes in a lease of a minute re-checks after that


def queue_up(server, name, *ttls, **options):
    """A waiter for each ttl, in this order."""
    waiters = []
    for ttl in ttls:
        before = server.waiters(name)
        waiter = Peer(server.url())
        waiter.request(name, ttl=ttl, **options)
        eventually(lambda: server.waiters(name) == before + 1)
        waiters.append(waiter)
    return waiters


def hold_long(server, name="a", **options):
    holder = Peer(server.url())
    equal(holder.acquire(name, ttl=60000, **options).code, OK)
    return holder


def soon(waiter, since, least=0):
    """It gets the lock long before a stale timer would fire."""
    answer = waiter.hear(STALE)
    took = time.monotonic() - since
    equal(answer.code, OK)
    note("after %.1f s" % took)
    require(least <= took < STALE * 0.6, "after %.1f s" % took)
    return answer


# ---- a successor that fails --------------------------------------------------------------------------------------------

@test
def a_successor_that_is_killed_costs_its_own_lease_and_not_its_predecessors():
    server = Server()
    holder = hold_long(server)
    short, last = queue_up(server, "a", 1000, 10000)
    equal(holder.release(), OK)
    equal(short.hear().code, OK)
    short.kill()
    soon(last, time.monotonic())


@test
def a_successor_that_is_stopped_costs_a_tenth_of_its_lease():
    server = Server()
    holder = hold_long(server)
    stopped, last = queue_up(server, "a", 10000, 10000)
    time.sleep(2)  # they have waited long: a sixth of the ttl
    stopped.stop()
    equal(holder.release(), OK)
    soon(last, time.monotonic())
    equal(last.check(), OK)
    equal(last.release(), OK)
    stopped.go_on()
    equal(stopped.hear().code, OK)


@test
def also_those_far_behind_learn_how_short_the_leases_before_them_are():
    server = Server()
    holder = hold_long(server)
    waiters = queue_up(server, "a", 1000, 1000, 1000, 1000, 10000)
    equal(holder.release(), OK)
    for waiter in waiters[:3]:
        equal(waiter.hear().code, OK)
        equal(waiter.release(), OK)
    equal(waiters[3].hear().code, OK)
    waiters[3].kill()
    soon(waiters[4], time.monotonic())


@test
def a_machine_that_stops_with_all_its_waiters_costs_a_tenth_of_each_lease():
    server = Server()
    holder = hold_long(server)
    waiters = queue_up(server, "a", 2000, 2000, 2000, 2000, 2000)
    time.sleep(0.5)
    for waiter in waiters[:4]:
        waiter.stop()
    equal(holder.release(), OK)
    soon(waiters[4], time.monotonic())
    equal(waiters[4].check(), OK)


@test
def permits_have_successors_too():
    server = Server()
    limited = {"mode": SHARED, "holders": 2}
    staying, leaving = hold_long(server, **limited), hold_long(server, **limited)
    short, last = queue_up(server, "a", 1000, 10000, **limited)
    equal(leaving.release(), OK)
    equal(short.hear().code, OK)
    short.kill()
    soon(last, time.monotonic())
    equal(staying.check(), OK)


@test
def a_lock_delay_ends_when_it_says_and_not_with_the_lease_that_was_broken():
    server = Server()
    for kind in ({"delay": 1000}, {"delay": 1000, "mode": SHARED}):
        hold_long(server, **kind)
        last, = queue_up(server, "a", 10000)
        since = time.monotonic()
        equal(pawl("break", "-e", server.url(), "a").code, 0)
        soon(last, since, least=1.0)
        equal(last.release(), OK)


@test
def a_holder_whose_lease_is_over_is_followed_in_their_order_by_those_who_live():
    server = Server()
    holder = Peer(server.url())
    equal(holder.acquire("a", ttl=1000, flags=NO_RENEW).code, OK)
    waiters = queue_up(server, "a", 1000, 1000, 1000)
    equal(waiters[0].hear().code, OK)
    waiters[0].kill()
    equal(waiters[1].hear().code, OK)
    waiters[1].kill()
    soon(waiters[2], time.monotonic())


# ---- a monitor ---------------------------------------------------------------------------------------------------------

@test
def a_monitor_that_listens_to_everything_does_not_stand_for_those_who_were_killed():
    server = Server()
    monitor = server.connect()
    monitor("PSUBSCRIBE", "*")
    matches(pawl("doctor", "-e", server.url()).output, "pattern.*PSUBSCRIBE")
    holder = hold_long(server)
    waiters = queue_up(server, "a", 60000, 60000, 60000, 60000)
    for number in (0, 1):
        waiters[number].kill()
    eventually(lambda: len(server("PUBSUB", "CHANNELS", "pawl:news:*")) == 3)
    equal(holder.release(), OK)
    soon(waiters[2], time.monotonic())
    waiters[3].kill()
    eventually(lambda: len(server("PUBSUB", "CHANNELS", "pawl:news:*")) == 2)
    equal(waiters[2].release(), OK)
    eventually(lambda: server.keys("lock:*") == [], "the lock was handed to the dead")


@test
def an_account_that_may_not_count_listeners_hands_over_all_the_same():
    server = Server()
    server("ACL", "SETUSER", "worker", "reset", "on", ">secret", "~*", "&*", "+@all", "-pubsub", "-rename", "-hlen", "-info")
    url = server.url().replace("redis://", "redis://worker:secret@")
    holder, waiter = Peer(url), Peer(url)
    for _ in range(2):
        equal(holder.acquire("a").code, OK)
        waiter.request("a")
        eventually(lambda: server.waiters("a") == 1)
        equal(holder.release(), OK)
        equal(waiter.hear().code, OK)
        equal(waiter.release(), OK)


# ---- how much it costs -------------------------------------------------------------------------------------------------

def scripts(server):
    """How many scripts were run, and their time in us."""
    found = re.search(r"cmdstat_evalsha:calls=(\d+),usec=(\d+)", server("INFO", "commandstats"))
    return (int(found.group(1)), int(found.group(2))) if found else (0, 0)


def cost_of_a_release(server, peer, count):
    """us, of the cheapest of some: a busy machine makes some dearer."""
    costs = []
    equal(peer.release(), OK)  # the server learns the script
    equal(peer.acquire("a", mode=SHARED, holders=count).code, OK)
    for _ in range(15):
        before = scripts(server)
        equal(peer.release(), OK)
        after = scripts(server)
        equal(after[0] - before[0], 1)
        costs.append(after[1] - before[1])
        equal(peer.acquire("a", mode=SHARED, holders=count).code, OK)
    return min(costs)


@test(within=120)
def the_release_of_one_permit_costs_the_same_beside_many_others():
    server = Server()
    peer, most = Peer(server.url()), 3000
    costs = {}
    for held in range(1, 1501):
        equal(peer.acquire("a", ttl=600000, mode=SHARED, holders=most).code, OK)
        if held in (10, 1500):
            costs[held] = cost_of_a_release(server, peer, most)
    note("us of the server: %s" % costs)
    require(costs[1500] < 3 * costs[10], "a release walks over all holders: %s" % costs)
    require("cmdstat_hvals" not in server("INFO", "commandstats"))


@test
def the_least_limit_counts_and_is_forgotten_with_its_holder():
    server = Server()
    peers = [Peer(server.url()) for _ in range(5)]
    for peer, holders in zip(peers, (4, 3, 4)):
        equal(peer.acquire("a", mode=SHARED, holders=holders).code, OK)
    equal(peers[3].acquire("a", mode=SHARED, holders=4).code, BUSY)
    equal(peers[1].release(), OK)
    equal(peers[3].acquire("a", mode=SHARED, holders=4).code, OK)
    equal(peers[4].acquire("a", mode=SHARED, holders=4).code, OK)
    equal(peers[1].acquire("a", mode=SHARED, holders=4).code, BUSY)
    for peer in (peers[0], peers[2], peers[3], peers[4]):
        equal(peer.release(), OK)
    eventually(lambda: server.keys("pawl:[slw]*") == [], server.keys())


@test(within=120)
def many_who_wait_for_a_stranger_look_hardly_more_often_than_one():
    server = Server()
    server("SET", "lock:a", "somebody else", "PX", 120000)

    def looks(seconds):
        before = scripts(server)[0]
        time.sleep(seconds)
        return scripts(server)[0] - before

    waiters = queue_up(server, "a", 10000)
    one = looks(5)
    waiters += queue_up(server, "a", *[10000] * 24)
    time.sleep(3)
    many = looks(5)
    note("%d looks of one, %d of 25 in 5 s" % (one, many))
    require(many < 4 * one, "%d of 25 clients, %d of one" % (many, one))
    for waiter in waiters[:10]:
        waiter.kill()
    server("DEL", "lock:a")
    began = time.monotonic()
    soon(waiters[10], began)
    equal(waiters[10].release(), OK)
    equal(waiters[11].hear().code, OK)


@test
def who_becomes_the_first_by_a_cancel_looks_as_often_as_the_first():
    server = Server()
    server("SET", "lock:a", "somebody else", "PX", 120000)
    first = [Peer(server.url()) for _ in range(6)]
    for number, peer in enumerate(first):
        peer.request("a", wait=8000)
        eventually(lambda: server.waiters("a") == number + 1)
    last, = queue_up(server, "a", 10000)
    for peer in first:
        equal(peer.hear().code, TIMEOUT)
    time.sleep(0.5)
    server("DEL", "lock:a")
    answer = last.hear(3)
    equal(answer.code, OK)


# ---- what is remembered ------------------------------------------------------------------------------------------------

def past_count(server, name):
    return pawl("show", "-e", server.url(), name).output.count("past")


@test(within=120)
def a_busy_lock_does_not_erase_what_is_known_of_the_others():
    server = Server()
    peer = Peer(server.url())
    for name in ("nightly", "weekly"):
        for _ in range(3):
            equal(peer.acquire(name).code, OK)
            equal(peer.release(), OK)
    equal(past_count(server, "nightly"), 3)
    for _ in range(2600):
        equal(peer.acquire("busy").code, OK)
        equal(peer.release(), OK)
    for name in ("nightly", "weekly"):
        equal(past_count(server, name), 3, name)
    require(past_count(server, "busy") >= 8)
    require(server("HSTRLEN", "pawl:old:lock:", "lock:busy") <= 1500)


@test(within=120)
def what_is_remembered_is_bounded_by_names_too():
    server = Server()
    connection = server.connect()
    peer = Peer(server.url())
    equal(peer.acquire("seed").code, OK)
    value = server("GET", "lock:seed")
    for start in range(0, 4000, 500):  # as so many names would leave it behind
        connection("RPUSH", "pawl:past:lock:", *["released +1\nlock:one%d\n%s" % (start + i, value) for i in range(500)])
        while server("LLEN", "pawl:past:lock:") > 1100:
            equal(peer.release(), OK)
            equal(peer.acquire("seed").code, OK)
    sizes = [server("HLEN", key) for key in ("pawl:old:lock:", "pawl:older:lock:")]
    note("names in the archive: %s, entries before it: %d" % (sizes, server("LLEN", "pawl:past:lock:")))
    require(0 < sum(sizes) <= 2300, sizes)
    require(past_count(server, "one3000") == 1)
    equal(past_count(server, "one1"), 0)


main()
