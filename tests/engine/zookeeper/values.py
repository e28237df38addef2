#!/usr/bin/env python3
"""values.py - the bytes beside a lock on ZooKeeper, where the contract does not look: other servers of the ensemble, sessions
that end, connections that are cut, nodes of somebody else, and what is left of what was kept for a while."""
from hurt import *


def keep(peer, text, keep_ms=0, patience=PATIENCE):
    return peer.ask("keep %d%s" % (keep_ms, text), patience).code


def fetched(peer, name="a"):
    answer = peer.ask("fetch " + name)
    return answer.text if answer.code == OK else None


def kept(store):
    """The nodes of all values."""
    return [name for bucket in store.children("/.pawl/kept") for name in store.children("/.pawl/kept/" + bucket)]


def path_of(store, name):
    return next("%s/.pawl/kept/%s/%s" % (store.chroot, bucket, name) for bucket in store.children("/.pawl/kept")
                if name in store.children("/.pawl/kept/" + bucket))


# ---- several servers ---------------------------------------------------------------------------------------------------

@test
def whichever_server_is_asked_a_value_is_not_older_than_what_was_confirmed():
    store = ZooKeeper.three()
    writers = [Peer(store.url(member)) for member in store.members]
    readers = [Peer(store.url(member)) for member in store.members]
    for number in range(45):
        writer = writers[number % 3]
        token = writer.acquire("a", wait=20000).token
        equal(keep(writer, "=%d" % number), OK)
        for reader in readers:
            answer = reader.ask("fetch a")
            equal((answer.code, answer.text, answer.token), (OK, "=%d" % number, token))
        equal(writer.release(), OK)


@test
def a_leader_killed_while_a_value_is_stored_takes_back_nothing_that_was_confirmed():
    store = ZooKeeper.three()
    writer, reader = peers(store, 2, timeout="20s")
    equal(writer.acquire("a", ttl=LONG).code, OK)
    equal(keep(writer, "=before"), OK)
    leader = store.leader()
    writer.tell("keep 0=after")
    leader.kill()
    code = writer.hear(60).code
    require(code in (OK, IN_DOUBT), show(code))
    value = eventually(lambda: fetched(reader), patience=60)
    require(value == "=after" or (code == IN_DOUBT and value == "=before"), value)
    equal(keep(writer, "=later", patience=60), OK)
    equal(fetched(reader), "=later")


@test
def a_follower_that_is_cut_off_from_the_others_tells_no_value():
    store = ZooKeeper.three()
    follower = store.followers()[0]
    alone = Peer(store.url(follower, timeout="2s"))
    equal(alone.acquire("a", ttl=LONG).code, OK)
    equal(keep(alone, "=value"), OK)
    for member in store.members:
        if member is not follower:
            member.stop()
    answer = alone.ask("fetch a")
    require(failed(answer.code), show(answer.code))
    require(failed(keep(alone, "=late")))


# ---- one server --------------------------------------------------------------------------------------------------------

@test
def who_has_no_node_in_the_line_any_more_stores_nothing_before_it_knows():
    store = ZooKeeper.one()
    holder, other = peers(store, 2)
    equal(holder.acquire("a", ttl=30000).code, OK)
    equal(keep(holder, "=before"), OK)
    store.remove("a")  # nobody tells it
    equal(holder.check(), OK)
    equal(keep(holder, "=after"), LOST)
    equal(fetched(other), "=before")


@test
def who_was_absent_while_its_session_ended_stores_nothing():
    store = ZooKeeper.one()
    holder, other = peers(store, 2)
    held = holder.acquire("a", ttl=LONG)
    equal(keep(holder, "=before"), OK)
    end_term_of(store, "a", 0)
    require(keep(holder, "=after") in (LOST, IN_DOUBT))
    got = other.acquire("a", wait=20000)
    require(got.token > held.token)
    equal(fetched(other), "=before")
    equal(keep(other, "=next"), OK)
    equal(keep(holder, "=late"), LOST)
    equal(fetched(other), "=next")


@test
def a_store_that_is_not_answered_is_in_doubt_and_the_next_one_counts():
    store = ZooKeeper.one()
    holder, other = warmed(store.url(timeout="500ms")), warmed(store.url())
    equal(holder.acquire("a", ttl=LONG).code, OK)
    equal(keep(holder, "=before"), OK)
    server = store.members[0]
    server.stop()
    code = keep(holder, "=unheard")
    require(failed(code), show(code))
    server.go_on()
    require(eventually(lambda: fetched(other)) in ("=before", "=unheard"))
    eventually(lambda: keep(holder, "=after") == OK)
    time.sleep(0.3)
    equal(fetched(other), "=after", "what was late came last")


def a_cut_in_a_store(way):
    store = ZooKeeper.one()
    between = Between(store.members[0])
    holder, other = warmed(store.url(between, timeout="3s")), warmed(store.url())
    equal(holder.acquire("a", ttl=60000).code, OK)
    equal(keep(holder, "=0"), OK)
    count = cuts = number = 0
    while between.cut is None:
        before, number = fetched(other), number + 1
        between.set_cut(way, count)
        code = keep(holder, "=%d" % number, patience=40)
        require(code in (OK, IN_DOUBT), show(code), count)
        require(fetched(other) in (("=%d" % number,) if code == OK else (before, "=%d" % number)), count)
        equal(holder.check(), OK)
        cuts += between.cut is None
        count += store.few_bytes
    note("%d cuts, %d bytes" % (cuts, count))
    require(cuts > 5)


@test
def a_cut_after_every_few_bytes_of_a_store_that_are_sent_breaks_no_promise():
    a_cut_in_a_store("out")


@test
def a_cut_after_every_few_bytes_of_a_store_that_are_received_breaks_no_promise():
    a_cut_in_a_store("in")


@test(within=180)
def what_was_to_be_kept_no_longer_is_deleted_by_later_stores_and_nothing_else_is():
    store = ZooKeeper.one()
    peer = Peer(store.url(history=0))

    def once(name, keep_ms):
        equal(peer.acquire(name).code, OK)
        equal(keep(peer, "=x", keep_ms), OK)
        equal(peer.release(), OK)
    for number in range(40):
        once("stays%d" % number, 0 if number % 2 else 3600000)
    most = 0
    for number in range(3000):
        once("once%d" % number, 1)
        if number % 100 == 0:
            most = max(most, len(kept(store)))
    left = kept(store)
    note("%d are left, at most %d were" % (len(left), most))
    equal(len([name for name in left if name.startswith("stays")]), 40)
    require(len(left) < 2000, len(left))


@test
def a_value_of_a_user_is_for_that_user_alone():
    store = ZooKeeper.one()
    mine, theirs = Peer(store.url(user="one:right@")), Peer(store.url(user="two:left@"))
    equal(mine.acquire("a").code, OK)
    equal(keep(mine, "=mine"), OK)
    equal(fetched(mine), "=mine")
    equal(theirs.ask("fetch a").code, DENIED)
    store.keeper.add_auth("digest", "one:right")


@test
def where_nothing_may_be_made_that_is_said():
    from kazoo.security import make_acl
    store = ZooKeeper.one()
    peer = warmed(store.url())
    store.keeper.ensure_path(store.chroot + "/.pawl")
    store.keeper.create(store.chroot + "/.pawl/kept", acl=[make_acl("world", "anyone", read=True)])
    equal(peer.acquire("a").code, OK)
    equal(keep(peer, "=x"), DENIED)
    said = peer.ask("why").text
    note(said)
    require(store.chroot + "/.pawl/kept" in said and "ACL" in said, said)
    equal(peer.check(), OK)
    equal(peer.release(), OK)


@test
def what_somebody_else_wrote_there_is_told_as_such_and_replaced():
    store = ZooKeeper.one()
    peer = warmed(store.url())
    equal(peer.acquire("a").code, OK)
    equal(keep(peer, "=x"), OK)
    for data in (b"", b"x", b"kept1", b"kept1 1 0\n", b"kept1 1 -1\nx", b"kept1 1 0 0\nx", b"pawl1 1 0\nx", b"\n", b"\nx"):
        store.keeper.set(path_of(store, "a"), data)
        equal(peer.ask("fetch a").code, CORRUPT, data)
    equal(keep(peer, "=again"), OK)
    equal(fetched(peer), "=again")


@test
def who_may_not_read_the_root_fetches_what_is_below():
    from kazoo.security import OPEN_ACL_UNSAFE, make_acl
    store = ZooKeeper.one()
    holder, reader = peers(store, 2)
    equal(holder.acquire("a", ttl=LONG).code, OK)
    equal(keep(holder, "=text"), OK)
    store.keeper.set_acls("/", [make_acl("world", "anyone", create=True, write=True, delete=True, admin=True)])
    try:
        equal(fetched(reader), "=text")
        equal(keep(holder, "=more"), OK)
        equal(fetched(reader), "=more")
    finally:
        store.keeper.set_acls("/", OPEN_ACL_UNSAFE)
    equal(holder.release(), OK)


main(have("zookeeper", "zookeeper3"))
