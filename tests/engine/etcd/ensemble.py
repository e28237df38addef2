#!/usr/bin/env python3
"""ensemble.py - three members that are killed, stopped and cut off, above all the leader: see hurt.py."""
from hurt import *


def stopped_across_a_keep_alive(store, betweens, ttl):
    """The leader stands still from one keep-alive of the holders until after the next one was sent, and is replaced
    meanwhile. What it answers when it goes on is the last that they hear."""
    leader = betweens[0].server
    leader.stop()
    time.sleep(ttl / 4000 + 0.8)
    require(store.leader() is not leader, "nobody took its place")
    leader.go_on()
    time.sleep(0.1)
    for between in betweens:
        between.silent = True


def a_leader_that_hung_and_was_replaced_extends_no_lease(store):
    """It answers a keep-alive that waited for it before it knows that another leads, and ends leases by its own count. The
    believers must not count that: the other has not heard of it. Whether it is quick enough is up to it, so several ask."""
    ttl, several = 21900, range(4)
    leader = store.leader()
    betweens = [Between(leader) for _ in several]
    holders = [Peer(store.url(between, timeout="30s", slack="10ms")) for between in betweens]
    waiters = [warmed(store.url(*store.followers())) for _ in several]
    tokens = [holder.acquire("a%d" % number, ttl=ttl).token for number, holder in enumerate(holders)]
    require(all(tokens))
    for number, waiter in enumerate(waiters):
        waiter.request("a%d" % number, ttl=LONG)
        eventually(lambda: len(store.line("a%d" % number)) == 2)
    stopped_across_a_keep_alive(store, betweens, ttl)
    waiting = set(several)
    while waiting:
        for number in sorted(waiting):
            if waiters[number].heard():
                equal(holders[number].check(), LOST, "two hold a%d" % number)
                waiting.remove(number)
        time.sleep(0.01)
    for waiter, token in zip(waiters, tokens):
        got = waiter.hear()
        equal(got.code, OK)
        require(got.token > token)
        equal(waiter.release(), OK)


add(Etcd.three, (a_leader_that_hung_and_was_replaced_extends_no_lease, *THREE), within=180)
main(have("etcd3"))
