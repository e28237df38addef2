#!/usr/bin/env python3
"""reports.py - a follower that vanishes together with its clients. It tells the leader of their sessions only with its next
report, so what a client believes may rest on no more than what has arrived there: see docs/decisions/0101."""
from hurt import *

HOLDERS = 6


def ensemble(tick):
    """Three servers with this tickTime."""
    os.environ["PAWL_TEST_ZOOKEEPER_TICK"] = str(tick)
    store = ZooKeeper("zookeeper3")
    at_end(store.down)
    store.fresh()
    return store


def hold(store, follower, ttl, **options):
    """Holders whose renewals come at different moments, each with a waiter at another server."""
    others = [member for member in store.members if member is not follower]
    pairs = []
    for number in range(HOLDERS):
        holder, waiter = Peer(store.url(follower, **options)), Peer(store.url(*others))
        equal(holder.acquire("a%d" % number, ttl=ttl, wait=20000, patience=40).code, OK)
        waiter.request("a%d" % number, ttl=LONG)
        pairs.append((holder, waiter))
        time.sleep(ttl / 3000 / HOLDERS)
    eventually(lambda: all(len(store.line("a%d" % number)) == 2 for number in range(HOLDERS)))
    time.sleep(ttl / 1000)  # some renewals
    equal([holder.check() for holder, _ in pairs], HOLDERS * [OK], "a lock was not renewed")
    return pairs


def follow(pairs):
    """Until each waiter holds: no holder may believe in its lock then."""
    left, until = list(pairs), time.monotonic() + 90
    while left:
        for pair in list(left):
            holder, waiter = pair
            if waiter.heard():
                equal(holder.check(), LOST, "two hold it")
                equal(waiter.hear().code, OK)
                left.remove(pair)
        require(time.monotonic() < until, "nobody follows a holder whose server is gone")
        time.sleep(0.002)


def vanish(tick, ttl, **options):
    store = ensemble(tick)
    follower = store.followers()[0]
    pairs = hold(store, follower, ttl, **options)
    follower.stop()
    follow(pairs)


@test(within=120)
def a_follower_that_vanishes_with_its_clients_leaves_one_holder():
    vanish(500, 4000, slack="250ms")


@test(within=120)
def a_follower_that_vanishes_with_its_clients_leaves_one_holder_with_the_default_tick():
    vanish(2000, 15000)


main(have("zookeeper3"))
