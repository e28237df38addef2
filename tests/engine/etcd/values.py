#!/usr/bin/env python3
"""values.py - the bytes beside a lock on real servers that are hurt: what is kept, what is not, and what is left of it."""
from hurt import *


def kept(store):
    """As it stands in the store, behind its head; None: there is nothing."""
    entries = store.entries(".pawl/value/a")
    return plain(entries[0][1]["value"]).split("\n", 1)[1] if entries else None


def holder_of(store, *members, **options):
    peer = Peer(store.url(*members, **options))
    answer = peer.acquire("a", wait=20000, ttl=60000)
    equal(answer.code, OK, answer.text)
    return peer, answer.token


@test
def what_was_confirmed_is_there_after_the_server_was_killed():
    store = Etcd.one()
    holder, token = holder_of(store)
    equal(holder.ask("keep 0 before").code, OK)
    store.members[0].restart()
    reader = Peer(store.url())
    equal(reader.ask("fetch a"), (OK, token, "before"))
    equal(holder.ask("keep 0 after").code, OK)
    equal(reader.ask("fetch a"), (OK, token, "after"))
    equal(holder.release(), OK)
    equal(reader.ask("fetch a"), (OK, token, "after"))
    nothing_is_left(store)


@test
def a_leader_killed_in_the_middle_of_a_store_loses_nothing_that_was_confirmed():
    store = Etcd.three()
    holder, token = holder_of(store)
    reader = warmed(store.url())
    equal(holder.ask("keep 0 first").code, OK)
    leader = store.leader()
    holder.tell("keep 0 second")
    leader.kill()
    code = holder.hear(60).code
    require(code in (OK, IN_DOUBT), show(code))
    found = eventually(lambda: next((answer for answer in [reader.ask("fetch a", 60)] if not failed(answer.code)), None))
    require(found.text == "second" or (code == IN_DOUBT and found.text == "first"), show(code), found)
    equal(found.token, token)


@test
def what_is_kept_for_a_while_leaves_neither_key_nor_lease():
    store = Etcd.one()
    holder, _ = holder_of(store)
    before = store.leases()
    equal(holder.ask("keep 1000 short").code, OK)
    equal(len(store.leases() - before), 1)
    equal(kept(store), "short")
    eventually(lambda: holder.ask("fetch a").code == NOT_FOUND)
    eventually(lambda: kept(store) is None, "the key is left")
    eventually(lambda: store.leases() <= before, "the lease is left")
    equal(holder.release(), OK)


@test
def a_value_that_is_replaced_takes_its_lease_along():
    store = Etcd.one()
    holder, _ = holder_of(store)
    before = store.leases()
    for order in "keep 600000 more", "keep 0 for ever", "keep 600000 again", "keep 0":
        equal(holder.ask(order).code, OK)
        leases = 1 if "600000" in order else 0
        eventually(lambda: len(store.leases() - before) == leases, order)
    equal(kept(store), None)
    equal(holder.release(), OK)


@test
def a_store_that_is_refused_leaves_no_lease():
    store = Etcd.one()
    holder, _ = holder_of(store)
    before = store.leases()
    store.remove(store.line("a")[0])
    equal(holder.ask("keep 600000 late").code, LOST)
    equal(kept(store), None)
    eventually(lambda: store.leases() <= before, "the lease is left")


@test
def a_request_that_comes_late_does_not_undo_a_later_one():
    """It was sent to a member that did not answer, and again to another; then more was stored. Then the first one arrives."""
    store = Etcd.one()
    ways = [Between(store.members[0]) for _ in range(2)]
    holder, token = holder_of(store, *ways, timeout="3s")
    equal(holder.ask("keep 0 zero").code, OK)
    slow = used(ways)[0]
    slow.silent = True
    equal(holder.ask("keep 0 first", 60).code, OK)
    equal(holder.ask("keep 0 second").code, OK)
    revision = store.entries("a/")[0][1]["mod_revision"]
    slow.silent = False
    time.sleep(1)
    equal(kept(store), "second")
    equal(store.entries("a/")[0][1]["mod_revision"], revision, "it was done")
    equal(holder.ask("fetch a"), (OK, token, "second"))
    equal(holder.release(), OK)


def stores_through_cuts(way, step):
    store = Etcd.one()
    between = Between(store.members[0])
    holder, _ = holder_of(store, between, timeout="3s")
    reader = warmed(store.url())
    count, rounds, last = 0, 0, None
    while between.cut is None:
        between.set_cut(way, count)
        text = "%d-%s" % (rounds, "x" * 300)
        code = holder.ask("keep %d %s" % (600000 * (rounds % 2), text), 60).code
        require(code in (OK, IN_DOUBT, UNREACHABLE), show(code), count)
        found = reader.ask("fetch a")
        require(found.text == text or (code != OK and found.text == (last or "-")), "after %d bytes" % count, show(code), found)
        last = found.text
        rounds += 1
        count += step
    require(rounds > 5)
    note("%d stores" % rounds)


@test(within=200)
def a_cut_anywhere_on_the_way_of_a_store_breaks_no_promise():
    stores_through_cuts("out", 61)


@test(within=200)
def a_cut_anywhere_on_the_way_of_its_answer_breaks_no_promise():
    stores_through_cuts("in", 13)


@test
def what_others_have_written_there_is_not_taken_for_a_value():
    store = Etcd.one()
    store.put(store.prefix + ".pawl/value/a", "something else")
    holder, token = holder_of(store)
    equal(holder.ask("fetch a").code, CORRUPT)
    equal(holder.ask("keep 0 ours").code, OK)
    equal(holder.ask("fetch a"), (OK, token, "ours"))
    equal(holder.release(), OK)


@test
def where_there_is_no_room_it_is_said_and_a_lease_can_still_be_given_back():
    store = Etcd("etcd")
    at_end(store.down)
    store.fresh()
    store.members[0].restart("--quota-backend-bytes", str(4 << 20))
    holder, token = holder_of(store)
    equal(holder.ask("keep 0 before").code, OK)
    other = Peer(store.url())
    equal(other.acquire("b", ttl=60000, flags=2).code, OK)
    word = other.ask("lease").text
    equal(other.ask("forget").code, OK)
    try:
        for _ in range(100):
            store.call("kv/put", {"key": text64("filled"), "value": text64("x" * 200000)})
        raise AssertionError("it is not full")
    except ConnectionError as error:
        matches(str(error), "space")
    equal(holder.ask("keep 0 after").code, FULL)
    equal(holder.ask("keep 600000 after").code, FULL)
    equal(other.ask("fetch a"), (OK, token, "before"))
    equal(other.ask("adopt " + word).code, OK)
    equal(other.release(), OK)
    equal(holder.release(), OK)
    equal(store.line("a") + store.line("b"), [])


main(have("etcd", "etcd3"))
