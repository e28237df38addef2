#!/usr/bin/env python3
"""waiting.py - who waits does not poll, is found again when its notice was lost, never stalls the others, and leaves nothing
behind; and who is stopped past its lease learns it before its next step."""
import os
import random
import time

from rig import *

NO_RENEW = 1
SHARED = 1
KEPT = ("pawl:fence:", "pawl:past:", "pawl:old:", "pawl:older:")  # one each for a whole namespace
ALIVE = ("pawl:alive:",)  # one for a client that has waited, for a minute


def clean(server, kept=KEPT + ALIVE):
    return [key for key in server.keys() if not key.startswith(kept)]


def queue_up(server, count, name="a", ttl=10000, **options):
    """So many waiters, in this order."""
    waiters = []
    for number in range(count):
        waiter = Peer(server.url(**options))
        waiter.request(name, ttl=ttl)
        waiters.append(waiter)
        eventually(lambda: server.waiters(name) == number + 1)
    return waiters


# ---- quiet -------------------------------------------------------------------------------------------------------------

def commands(recorder):
    """How many each client has sent; what scripts do is not sent."""
    counts = {}
    for address, _ in recorder.lines:
        if address != "lua":
            counts[address] = counts.get(address, 0) + 1
    return counts


@test
def a_quiet_wait_of_ten_seconds_costs_no_more_than_the_slow_look():
    server = Server()
    holder = Peer(server.url())
    equal(holder.acquire("a", ttl=60000, flags=NO_RENEW).code, OK)  # nobody renews: what is seen is the waiter's
    waiter = Peer(server.url())
    waiter.request("a")
    eventually(lambda: server.waiters("a") == 1)
    time.sleep(0.5)
    recorder = Recorder(server)
    time.sleep(10)
    note("%d commands in 10 s of waiting for one lock" % sum(commands(recorder).values()))
    require(sum(commands(recorder).values()) <= 3, recorder.lines)
    require(not waiter.heard())


@test
def quiet_waits_for_many_locks_cost_no_more_than_the_slow_look_each():
    server = Server()
    holder, waiters = Peer(server.url()), [Peer(server.url()) for _ in range(5)]
    for number, waiter in enumerate(waiters):
        equal(holder.acquire("n%d" % number, ttl=60000, flags=NO_RENEW).code, OK)
        waiter.request("n%d" % number)
    eventually(lambda: sum(server.waiters("n%d" % number) for number in range(5)) == 5)
    time.sleep(0.5)
    recorder = Recorder(server)
    time.sleep(5)
    require(all(count <= 2 for count in commands(recorder).values()), commands(recorder))


@test
def a_wait_for_a_stranger_who_tells_nobody_looks_ten_times_a_second_at_most():
    server = Server()
    server("SET", "lock:a", "somebody else", "PX", 60000)
    waiter = Peer(server.url())
    waiter.request("a")
    eventually(lambda: server.waiters("a") == 1)
    recorder = Recorder(server)
    time.sleep(5)
    note("%s commands in 5 s" % commands(recorder))
    require(all(count <= 60 for count in commands(recorder).values()), commands(recorder))


@test
def an_idle_client_that_holds_nothing_says_nothing():
    server = Server()
    peer = Peer(server.url())
    equal(peer.acquire("a").code, OK)
    equal(peer.release(), OK)
    time.sleep(0.3)
    recorder = Recorder(server)
    time.sleep(4)
    require(sum(commands(recorder).values()) <= 1, recorder.lines)


@test
def an_uncontended_pair_is_two_commands():
    server = Server()
    peer = Peer(server.url())
    for _ in range(3):
        equal(peer.acquire("a").code, OK)
        equal(peer.release(), OK)
    recorder = Recorder(server)
    time.sleep(0.2)
    for _ in range(10):
        equal(peer.acquire("a").code, OK)
        equal(peer.release(), OK)
    time.sleep(0.2)
    asked = [words.split()[0] for address, words in recorder.lines if address != "lua"]
    equal(asked, ['"EVALSHA"'] * 20)


@test
def the_renewal_of_many_locks_of_one_client_is_one_command():
    server = Server()
    holders = start_pawl_many(server, 40)
    time.sleep(0.2)
    recorder = Recorder(server)
    time.sleep(4)
    asked = [words for address, words in recorder.lines if address != "lua"]
    note("%d commands for 40 locks over 4 s with a ttl of 3 s" % len(asked))
    require(2 <= len(asked) <= 14, [words[:80] for words in asked])
    equal(holders.check(), OK)


def start_pawl_many(server, count):
    """One client that holds many locks: the peer forgets the handle of all but the last, the client does not."""
    peer = Peer(server.url())
    for number in range(count):
        equal(peer.acquire("many%d" % number, ttl=3000).code, OK)
    return peer


# ---- handing over ------------------------------------------------------------------------------------------------------

def served(waiters, within=PATIENCE):
    """Serves them one after the other, in the order in which they get it."""
    order, tokens = [], []
    waiting = list(waiters)
    while waiting:
        ready = eventually(lambda: [waiter for waiter in waiting if waiter.heard()], "%d wait" % len(waiting), patience=within)
        equal(len(ready), 1, "that many hold it at once")
        answer = ready[0].hear()
        equal(answer.code, OK)
        tokens.append(answer.token)
        order.append(waiters.index(ready[0]))
        waiting.remove(ready[0])
        equal(ready[0].release(), OK)
    equal(tokens, sorted(set(tokens)))
    return order


@test
def waiters_are_served_in_their_order():
    server = Server()
    holder = Peer(server.url())
    equal(holder.acquire("a").code, OK)
    waiters = queue_up(server, 6)
    equal(holder.release(), OK)
    equal(served(waiters), list(range(6)))
    eventually(lambda: clean(server) == [], server.keys())


@test
def waiters_that_are_killed_delay_nobody_for_longer_than_their_own_short_lease():
    server = Server()
    holder = Peer(server.url())
    equal(holder.acquire("a", ttl=60000).code, OK)
    waiters = queue_up(server, 6, ttl=60000)
    for number in (0, 1, 3):
        waiters[number].kill()
    began = time.monotonic()
    equal(holder.release(), OK)
    equal(served([waiters[2], waiters[4], waiters[5]]), [0, 1, 2])
    note("three dead of six: all served after %.1f s; their ttl was 60 s" % (time.monotonic() - began))
    require(time.monotonic() - began < 45, "a dead waiter kept the lock for its whole ttl")
    eventually(lambda: clean(server) == [], server.keys())


@test
def a_waiter_that_is_stopped_does_not_stall_the_queue_and_is_served_when_it_goes_on():
    server = Server()
    holder = Peer(server.url())
    equal(holder.acquire("a", ttl=60000).code, OK)
    waiters = queue_up(server, 3, ttl=2000)
    waiters[0].stop()
    equal(holder.release(), OK)
    equal(served(waiters[1:]), [0, 1])
    waiters[0].go_on()
    answer = waiters[0].hear()
    equal(answer.code, OK)
    equal(waiters[0].check(), OK)
    equal(waiters[0].release(), OK)
    eventually(lambda: clean(server) == [], server.keys())


@test
def a_waiter_that_was_given_the_lock_while_it_was_stopped_does_not_believe_it_afterwards():
    server = Server()
    holder = Peer(server.url())
    equal(holder.acquire("a", ttl=60000).code, OK)
    waiters = queue_up(server, 1, ttl=3000)
    waiters[0].stop()
    equal(holder.release(), OK)  # it is handed to the one that is stopped
    other = Peer(server.url())
    got = other.acquire("a", wait=60000, ttl=60000)
    equal(got.code, OK)
    waiters[0].go_on()
    time.sleep(1)
    require(not waiters[0].heard(), "two hold it")
    equal(other.check(), OK)
    equal(other.release(), OK)
    answer = waiters[0].hear()
    equal(answer.code, OK)
    require(answer.token > got.token)


@test
def a_notice_that_was_lost_is_found_by_looking_again():
    server = Server()
    holder = Peer(server.url())
    equal(holder.acquire("a", ttl=60000).code, OK)
    waiters = queue_up(server, 3)
    while waiters:  # whoever is served first then: their order is lost with their notices
        server("CLIENT", "KILL", "TYPE", "pubsub")
        equal(holder.release(), OK)
        holder = eventually(lambda: [waiter for waiter in waiters if waiter.heard()])[0]
        equal(holder.hear().code, OK)
        equal(holder.check(), OK)
        waiters.remove(holder)
    equal(holder.release(), OK)
    eventually(lambda: clean(server) == [], server.keys())


@test
def a_waiter_whose_connections_are_cut_again_and_again_is_served():
    server = Server()
    cutter = Cutter(server)
    holder = Peer(server.url())
    equal(holder.acquire("a", ttl=60000).code, OK)
    waiter = Peer(server.url(port=cutter.port))
    waiter.request("a")
    eventually(lambda: server.waiters("a") == 1)
    for _ in range(10):
        cutter.cut_all()
        time.sleep(random.random() / 5)
    equal(holder.release(), OK)
    answer = waiter.hear()
    equal(answer.code, OK)
    equal(waiter.check(), OK)
    equal(waiter.release(), OK)
    eventually(lambda: clean(server) == [], server.keys())


@test
def waiters_that_are_disconnected_at_the_hand_over_do_not_stall_the_queue():
    server = Server()
    cutter = Cutter(server)
    holder = Peer(server.url())
    equal(holder.acquire("a", ttl=60000).code, OK)
    lost = Peer(server.url(port=cutter.port))
    lost.request("a", ttl=2000)
    eventually(lambda: server.waiters("a") == 1)
    others = [Peer(server.url()) for _ in range(2)]
    for number, other in enumerate(others):
        other.request("a", ttl=2000)
        eventually(lambda: server.waiters("a") == number + 2)
    cutter.silent = True  # as behind a cable that was pulled
    equal(holder.release(), OK)
    equal(served(others), [0, 1])
    cutter.silent = False
    answer = lost.hear()
    equal(answer.code, OK)
    equal(lost.release(), OK)


@test
def a_subscriber_whose_output_buffer_is_full_is_served_all_the_same():
    server = Server("--client-output-buffer-limit", "pubsub", "64kb", "64kb", "1")
    holder = Peer(server.url())
    equal(holder.acquire("a", ttl=60000).code, OK)
    waiter = queue_up(server, 1)[0]
    channels = eventually(lambda: server("PUBSUB", "CHANNELS", "pawl:news:*"))
    waiter.stop()
    connection = server.connect()
    for channel in channels:
        while connection("PUBLISH", channel, "x" * 100000):
            pass  # until the server has thrown the subscriber out
    waiter.go_on()
    equal(holder.release(), OK)
    answer = waiter.hear()
    equal(answer.code, OK)
    equal(waiter.check(), OK)
    equal(waiter.release(), OK)


@test
def nonsense_on_a_clients_channel_is_no_grant():
    server = Server()
    holder = Peer(server.url())
    equal(holder.acquire("a", ttl=60000).code, OK)
    waiter = queue_up(server, 1)[0]
    channels = eventually(lambda: server("PUBSUB", "CHANNELS", "pawl:news:*"))
    for channel in channels:
        for text in ("", "x", "grant", "grant a 1", "granted", " " * 100, "\0\1\2", "9" * 5000, "%s 1 a" % ("0" * 32)):
            server("PUBLISH", channel, text)
    time.sleep(0.5)
    require(not waiter.heard(), "it believed a stranger")
    equal(holder.check(), OK)
    equal(holder.release(), OK)
    equal(waiter.hear().code, OK)
    equal(waiter.check(), OK)


@test
def a_foreign_lock_that_ends_wakes_the_queue():
    server = Server()
    server("SET", "lock:a", "redis-py", "PX", 60000)
    waiters = queue_up(server, 2)
    server("DEL", "lock:a")  # as redis-py gives it back: nobody is told
    equal(served(waiters), [0, 1])
    server("SET", "lock:a", "redis-py", "PX", 1500)
    waiters = queue_up(server, 2)
    equal(served(waiters), [0, 1])  # and when it runs out


# ---- nothing is left ---------------------------------------------------------------------------------------------------

@test(within=150)
def a_thousand_names_and_fifty_killed_leave_one_counter_and_one_history():
    server = Server()
    peer = Peer(server.url())
    for number in range(1000):
        equal(peer.acquire("name%d" % number).code, OK)
        equal(peer.release(), OK)
    equal(clean(server), [])
    killed = []
    for number in range(10):
        holder = Peer(server.url())
        equal(holder.acquire("x%d" % number, ttl=2000).code, OK)
        killed.append(holder)
        for mode in (0, SHARED, 0, 0):
            waiter = Peer(server.url())
            waiter.request("x%d" % number, ttl=2000, mode=mode)
            killed.append(waiter)
        eventually(lambda: server.waiters("x%d" % number) == 4)
    equal(len(killed), 50)
    for victim in killed:
        victim.kill()
    eventually(lambda: clean(server, KEPT) == [], "left", patience=70)
    note("left: %s" % server.keys())
    require(len(server.keys()) <= 2, server.keys())


@test
def shared_and_limited_locks_leave_nothing():
    server = Server()
    peers = [Peer(server.url()) for _ in range(4)]
    for holders in (0, 2):
        for peer in peers:
            peer.request("s", wait=300, mode=SHARED, holders=holders)
        codes = [peer.hear().code for peer in peers]
        equal(sorted(codes), [OK] * (holders or 4) + [TIMEOUT] * (4 - (holders or 4)))
        for peer, code in zip(peers, codes):
            if code == OK:
                equal(peer.release(), OK)
        eventually(lambda: clean(server) == [], server.keys())


@test
def waits_that_timed_out_leave_nothing():
    server = Server()
    holder = Peer(server.url())
    equal(holder.acquire("a").code, OK)
    waiters = [Peer(server.url()) for _ in range(10)]
    for waiter in waiters:
        waiter.request("a", wait=200)
    for waiter in waiters:
        equal(waiter.hear().code, TIMEOUT)
    eventually(lambda: server.waiters("a") == 0)
    equal(holder.release(), OK)
    eventually(lambda: clean(server) == [], server.keys())


@test
def the_history_does_not_grow_without_end():
    server = Server()
    peer = Peer(server.url())
    for number in range(3000):
        equal(peer.acquire("a").code, OK)
        equal(peer.release(), OK)
    lengths = [server("LLEN", key) for key in server.keys("pawl:past:*")]
    note("entries after 3000 grants: %s" % lengths)
    require(all(length < 3000 for length in lengths), lengths)


# ---- stopped past the lease ----------------------------------------------------------------------------------------------

@test
def a_holder_stopped_past_its_lease_finds_it_lost_first_thing_and_its_write_is_refused():
    server = Server()
    store = "file:" + directory()
    for drive in ("thread", "caller"):
        holder = Peer(server.url(), drive)
        held = holder.acquire("a", ttl=1000)
        equal(held.code, OK)
        equal(pawl("put", "--store", store, "r", held.token, data="first").code, 0)
        holder.stop()
        other = Peer(server.url())
        got = other.acquire("a", wait=30000)
        equal(got.code, OK)
        require(got.token > held.token)
        equal(pawl("put", "--store", store, "r", got.token, data="second").code, 0)
        holder.go_on()
        equal(holder.check(), LOST, "the first thing it asks")
        equal(pawl("put", "--store", store, "r", held.token, data="late").code, 124)
        equal(pawl("get", "--store", store, "r", got.token).output, "second")
        equal(holder.release(), LOST)
        equal(other.check(), OK)
        equal(other.release(), OK)


@test
def a_late_renewal_does_not_bring_a_lock_back():
    server = Server()
    holder = Peer(server.url())
    held = holder.acquire("a", ttl=800)
    equal(held.code, OK)
    holder.stop()
    eventually(lambda: not server("EXISTS", "lock:a"))
    holder.go_on()
    equal(holder.check(), LOST)
    time.sleep(1)
    equal(server("EXISTS", "lock:a"), 0)
    eventually(lambda: holder.number("lost") == 1, "the callback did not run")


main()
