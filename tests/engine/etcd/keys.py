#!/usr/bin/env python3
"""keys.py - the keys of claims: the same few again and again, because etcd keeps those that were deleted in its index until they are
compacted, and walks over them; but never one of which a request may still be done."""
import statistics

from hurt import *


def used(store, name):
    """All keys that were ever put below a name, by the store's own history."""
    end = name + "/~%d" % next(numbers)
    start, last = store.prefix + name + "/", store.prefix + end
    store.put(last, "")
    watch = subprocess.Popen(["etcdctl", "--endpoints", store.members[0].where, "watch", "--prefix", start, "--rev=1"],
                             env={**os.environ, "ETCDCTL_API": "3"}, stdout=subprocess.PIPE, text=True)
    try:
        found = set()
        for line in watch.stdout:
            if line.rstrip() == last:
                break
            if line.startswith(start) and "~" not in line:
                found.add(line.rstrip())
    finally:
        watch.kill()
        watch.wait()
    store.remove(end)
    return found


def pairs(peer, name, count, **options):
    for _ in range(count):
        answer = peer.acquire(name, **options)
        equal(answer.code, OK, answer.text)
        equal(peer.release(), OK)


def a_lock_that_is_taken_again_and_again_uses_one_key(store):
    peer = warmed(store.url())
    pairs(peer, "a", 100)
    pairs(peer, "a", 100, wait=5000)
    equal(len(used(store, "a")), 1)
    pairs(peer, "b", 20, delay=1)
    equal(len(used(store, "b")), 1, "with a lock-delay")
    pairs(peer, "c", 20, mode=1)
    equal(len(used(store, "c")), 1, "shared")


def cpu_of(server):
    """What all threads of a server have run for, in ns."""
    total = 0
    for task in os.listdir("/proc/%d/task" % server.pid):
        try:
            with open("/proc/%d/task/%s/schedstat" % (server.pid, task), encoding="utf-8") as file:
                total += int(file.read().split()[0])
        except OSError:  # the thread has ended
            pass
    return total


def thousands_of_pairs_without_a_compaction_cost_the_server_no_more_than_the_first(store):
    """A name that was used 4,000 times beside fresh ones, in turns, so that a busy machine slows both: the median of the ratios.
    With a key for each pair the old name costs about twice as much by then."""
    if not os.path.exists("/proc/self/schedstat"):
        note("not measured: this kernel does not say how long a thread has run")
        return
    peer = warmed(store.url())
    pairs(peer, "old", 4000)
    cost = {}
    ratios = []
    for turn in range(21):
        for name in ("old", "fresh%d" % turn):
            before = cpu_of(store.members[0])
            pairs(peer, name, 40)
            cost[name] = cpu_of(store.members[0]) - before
        ratios.append(cost["old"] / cost["fresh%d" % turn])
    note("a pair on the old name costs %.2f of one on a fresh name" % statistics.median(ratios))
    require(statistics.median(ratios) < 1.3, "%.2f" % statistics.median(ratios), ratios)


def a_refused_try_uses_up_no_key(store):
    holder, other = peers(store, 2)
    equal(holder.acquire("a").code, OK)
    for _ in range(20):
        equal(other.acquire("a").code, BUSY)
    for _ in range(20):
        require(other.acquire("a", wait=20).code in (TIMEOUT, UNREACHABLE))  # it may end before the first answer
    equal(holder.release(), OK)
    equal(other.acquire("a", wait=20000).code, OK)  # those that gave up may still be leaving
    equal(other.release(), OK)
    pairs(other, "a", 5)
    found = used(store, "a")  # one that gave up may still be leaving when the next comes
    require(len(found) <= 5, found)


def clients_that_hand_a_lock_over_use_a_key_each_and_never_miss_its_end(store):
    """The key that a waiter watches is deleted, and put again behind the waiter."""
    one, two = peers(store, 2)
    last = one.acquire("a", ttl=LONG).token
    for _ in range(60):
        two.request("a", ttl=LONG)
        eventually(lambda: len(store.line("a")) == 2)
        equal(one.release(), OK)
        one.request("a", ttl=LONG)
        got = two.hear()
        equal(got.code, OK)
        require(got.token > last, "a token did not grow")
        require(not one.heard(), "two hold it")
        equal(two.release(), OK)
        got = one.hear()
        equal(got.code, OK)
        last = got.token
    equal(one.release(), OK)
    equal(len(used(store, "a")), 2)


def a_key_of_which_a_request_may_still_be_done_is_not_used_again(store):
    peer = warmed(store.url(timeout="500ms"))
    pairs(peer, "a", 3)
    before = used(store, "a")
    server = store.members[0]
    server.stop()
    answer = peer.acquire("a")
    require(failed(answer.code), show(answer.code), answer.text)
    server.go_on()
    eventually(lambda: peer.acquire("b", wait=5000).code == OK)
    equal(peer.release(), OK)
    equal(peer.acquire("a", wait=5000).code, OK)
    held = {store.prefix + key for key in store.line("a")}
    require(not held & before, "it holds by a key that a late request may delete or put")
    equal(peer.release(), OK)
    pairs(peer, "a", 20)
    equal(used(store, "a"), before | held, "each has a key of its own from then on")


def a_waiters_key_that_somebody_overwrote_is_put_anew_at_the_end(store):
    """It is no longer on a lease: left there it would be in the way for good."""
    holder, waiter, third = peers(store, 3)
    equal(holder.acquire("a", ttl=LONG).code, OK)
    waiter.request("a", ttl=LONG)
    eventually(lambda: len(store.line("a")) == 2)
    store.put(store.prefix + store.line("a")[1], "by hand")
    third.request("a", ttl=LONG)
    eventually(lambda: len(store.line("a")) == 3)
    equal(holder.release(), OK)
    equal(third.hear().code, OK)
    equal(third.release(), OK)
    equal(waiter.hear().code, OK)
    equal(waiter.release(), OK)
    eventually(lambda: not store.line("a"), store.line("a"))


def a_holders_key_that_somebody_overwrote_is_lost_and_removed(store):
    holder, waiter = peers(store, 2)
    equal(holder.acquire("a", ttl=2000).code, OK)
    store.put(store.prefix + store.line("a")[0], "by hand")
    waiter.request("a", ttl=LONG)
    equal(waiter.hear().code, OK)
    equal(holder.check(), LOST)
    equal(waiter.release(), OK)
    eventually(lambda: not store.line("a"), store.line("a"))


add(Etcd.one, (a_lock_that_is_taken_again_and_again_uses_one_key,
               thousands_of_pairs_without_a_compaction_cost_the_server_no_more_than_the_first,
               a_refused_try_uses_up_no_key,
               clients_that_hand_a_lock_over_use_a_key_each_and_never_miss_its_end,
               a_key_of_which_a_request_may_still_be_done_is_not_used_again,
               a_waiters_key_that_somebody_overwrote_is_put_anew_at_the_end,
               a_holders_key_that_somebody_overwrote_is_lost_and_removed))
main(have("etcd"))
