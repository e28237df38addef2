#!/usr/bin/env python3
"""input.py - what a ZooKeeper can refuse: a chroot that is not there, nodes that are not for us, sessions that are too long,
servers that are none. Each is told by a sentence of its own, and nothing is left."""
from hurt import *

SOON = {"timeout": "1s"}


def refusal(url, code, says, name="a", **more):
    """The sentence of an acquire that must be refused."""
    peer = Peer(url)
    if peer.opened.code != OK:
        answer = peer.opened
    else:
        answer = peer.acquire(name, **more)
    require(answer.code in (code if isinstance(code, tuple) else (code,)), show(answer.code), answer.text)
    matches(answer.text, says)
    note(answer.text)
    return answer.text


# ---- chroot ------------------------------------------------------------------------------------------------------------

@test
def a_chroot_that_is_not_there_is_said_and_init_makes_it():
    store = ZooKeeper.one()
    url = store.url(chroot=store.chroot + "/not/there")
    text = refusal(url, NOT_FOUND, "not/there")
    matches(text, "init")
    equal(store.children(), [], "something was made")
    done = pawl("init", "-e", url)
    equal(done.code, 0, done.errors)
    peer = Peer(url)
    equal(peer.acquire("a").code, OK)
    equal(peer.release(), OK)


@test
def locks_in_one_chroot_are_not_those_in_another():
    store = ZooKeeper.one()
    for part in ("/x", "/y"):
        equal(pawl("init", "-e", store.url(chroot=store.chroot + part)).code, 0)
    one, two = [Peer(store.url(chroot=store.chroot + part)) for part in ("/x", "/y")]
    equal(one.acquire("a").code, OK)
    equal(two.acquire("a").code, OK)


def remove(store):
    from kazoo.exceptions import NotEmptyError
    while store.keeper.exists(store.chroot):
        try:
            store.keeper.delete(store.chroot, recursive=True)
        except NotEmptyError:  # a mailbox came into being
            continue


@test
def a_chroot_that_is_removed_while_a_lock_is_held_is_a_loss():
    store = ZooKeeper.one()
    peer = Peer(store.url())
    held = peer.acquire("a", ttl=2000)
    equal(held.code, OK)
    remove(store)
    eventually(lambda: peer.check() == LOST)
    equal(peer.release(), LOST)
    answer = peer.acquire("a")  # who was connected makes it anew
    require(answer.code == NOT_FOUND or answer.token > held.token, show(answer.code), answer.text)


# ---- who may ---------------------------------------------------------------------------------------------------------

def private(store):
    """A chroot that only the user one may use."""
    from kazoo.security import make_digest_acl
    store.keeper.set_acls(store.chroot, [make_digest_acl("one", "right", all=True)])
    at_end(lambda: store.keeper.add_auth("digest", "one:right"))


@test
def nodes_that_are_not_for_us_are_said_and_nothing_is_left():
    store = ZooKeeper.one()
    private(store)
    refusal(store.url(), DENIED, "may not|permission|not allowed|denied|ACL")
    refusal(store.url(user="one:wrong@"), DENIED, "may not|permission|not allowed|denied|ACL")
    peer = Peer(store.url(user="one:right@"))
    answer = peer.acquire("a")
    equal(answer.code, OK, answer.text)
    equal(peer.release(), OK)


@test
def every_node_of_a_client_with_a_password_is_its_own():
    store = ZooKeeper.one()
    peer = Peer(store.url(user="one:right@"))
    equal(peer.acquire("a", delay=500).code, OK)
    time.sleep(0.3)  # a mailbox is made
    keeper = store.connect(auth_data=[("digest", "one:right")])
    at_end(keeper.stop)
    seen = 0
    for name in ("a", ".pawl"):
        paths = ["%s/%s" % (store.chroot, name)]
        paths += ["%s/%s" % (paths[0], child) for child in keeper.get_children(paths[0])]
        for path in paths:
            acls, _ = keeper.get_acls(path)
            require(all(acl.id.scheme == "digest" for acl in acls), path, acls)
            seen += 1
    require(seen > 3, seen)
    other = Peer(store.url())
    answer = other.acquire("a")
    require(answer.code in (DENIED, BUSY), show(answer.code), answer.text)
    equal(peer.check(), OK)
    equal(peer.release(), OK)


@test
def a_password_is_in_no_sentence():
    store = ZooKeeper.one()
    private(store)
    text = refusal(store.url(user="one:secret7@"), DENIED, ".")
    require("secret7" not in text, text)
    for command in (["ls"], ["doctor"], ["run", "a", "true"]):
        done = pawl(command[0], "-e", store.url(user="one:secret7@"), *command[1:])
        require("secret7" not in done.output + done.errors, done.output + done.errors)


# ---- sessions --------------------------------------------------------------------------------------------------------

@test
def a_ttl_longer_than_the_server_allows_is_refused_with_both_numbers():
    store = ZooKeeper.get("zookeeper-default")
    text = refusal(store.url(), UNSUPPORTED, "40", ttl=3600000)
    matches(text, "3600|1h|60 ?m")
    equal(store.left(), [])
    peer = Peer(store.url())
    equal(peer.acquire("a", ttl=20000).code, OK, "one that it allows")


@test
def a_ttl_shorter_than_the_server_allows_is_the_lease_all_the_same():
    store = ZooKeeper.get("zookeeper-default")
    holder = Peer(store.url())
    equal(holder.acquire("a", ttl=1000, flags=1).code, OK)  # not renewed
    require(holder.number("remaining") <= 1000)
    eventually(lambda: holder.check() == LOST)
    other = Peer(store.url())
    equal(other.acquire("a", wait=20000, ttl=3000).code, OK)
    time.sleep(5)
    equal(other.check(), OK, "it is renewed")
    equal(other.release(), OK)


@test
def doctor_says_what_is_not_well_with_a_server_nobody_has_configured():
    store = ZooKeeper.get("zookeeper-default")
    done = pawl("doctor", "-e", store.url())
    matches(done.output, "leases of up to 39000 ms")
    matches(done.output, "ACL|world|anyone|anybody")
    matches(done.output, "one server|single|alone|three|ensemble")
    note(done.output)


# ---- servers that are none -------------------------------------------------------------------------------------------

@test
def nobody_there_is_said_with_the_address():
    store = ZooKeeper.one()
    port = free_port()
    refusal(store.url("127.0.0.1:%d" % port, chroot="", **SOON), UNREACHABLE, str(port))


def talker(*answers):
    def serve(connection):
        connection.recv(4096)
        for answer in answers:
            connection.sendall(answer)
        connection.recv(65536)
    return Listener(serve)


@test
def a_server_that_is_no_zookeeper_is_never_believed():
    store = ZooKeeper.one()
    for data in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+PONG\r\n", b"\0\0\0\0", b"\xff\xff\xff\xff", b"\0\0\0\x04abcd",
                 b"\x7f\xff\xff\xff" + b"x" * 1000, b"\0\0\0\x24" + b"\0" * 36, b"\0\0\0\x24" + b"\xff" * 36, b""):
        peer = Peer(store.url("127.0.0.1:%d" % talker(data).port, chroot="", **SOON))
        answer = peer.acquire("a") if peer.opened.code == OK else peer.opened
        require(answer.code != OK, "%r was believed" % data)
        require(len(answer.text) > 15, "%r: no sentence: %s %r" % (data, show(answer.code), answer.text))
        peer.leave()


@test
def a_server_that_speaks_tls_is_not_spoken_to_in_the_clear_and_the_other_way_round():
    store = ZooKeeper.one()
    refusal(store.url(scheme="zks", **SOON), (UNREACHABLE, DENIED), "TLS|SSL")
    secure = Store("zookeeper-tls")
    at_end(secure.down)
    refusal(store.url(secure.members[0], chroot="", **SOON), UNREACHABLE, secure.members[0].where)
    peer = Peer(secure.base)
    equal(peer.acquire("a", ttl=5000).code, OK)
    time.sleep(7)
    equal(peer.check(), OK)
    equal(peer.release(), OK)
    refusal(re.sub("&cert=.*", "&timeout=1s", secure.base), (UNREACHABLE, DENIED), "TLS|SSL|certificate|handshake|reset|closed")
    refusal(re.sub(r"\?.*", "?timeout=1s", secure.base), (UNREACHABLE, DENIED), "certificate|verif")


@test
def urls_that_say_nothing_sensible_are_refused_before_anything_is_asked():
    for url in ("zk://127.0.0.1:0", "zk://127.0.0.1:99999", "zk://127.0.0.1/a//b", "zk://127.0.0.1/a/../b",
                "zk://127.0.0.1?nonsense=1", "zk://127.0.0.1?timeout=soon", "zk://127.0.0.1?recipe=cake", "zk://,",
                "zk://127.0.0.1,,127.0.0.2"):
        peer = Peer(url)
        equal(peer.opened.code, INVALID, url, peer.opened.text)
        require(len(peer.opened.text) > 10, url, peer.opened.text)


# ---- strange things in a line ----------------------------------------------------------------------------------------

@test
def what_is_no_lock_in_a_line_keeps_nobody_out():
    store = ZooKeeper.one()
    path = store.chroot + "/a"
    store.keeper.create(path)
    for child in ("readme", "x-lease-0000000001", "lock", "lock-12", "_c_zzz"):
        store.keeper.create("%s/%s" % (path, child))
    peer = Peer(store.url())
    equal(peer.acquire("a").code, OK)
    equal(pawl("ls", "-e", store.url()).code, 0)
    equal(peer.release(), OK)


@test
def the_number_of_a_line_may_wrap_around():
    """2147483647 is followed by -2147483648 (kazoo#730): order is by the difference."""
    store = ZooKeeper.one()
    path = store.chroot + "/a"
    store.keeper.create(path)
    theirs = store.connect()
    at_end(theirs.stop)
    theirs.create(path + "/_c_00000000-0000-4000-8000-000000000001-lock-2147483647", ephemeral=True)
    theirs.create(path + "/_c_00000000-0000-4000-8000-000000000002-lock--2147483648", ephemeral=True)
    listed = pawl("show", "-e", store.url(), "--json", "a")
    equal(listed.code, 0, listed.errors)
    roles = [entry["role"] for entry in json.loads(listed.output) if entry["role"] in ("holder", "waiter")]
    equal(sorted(roles), ["holder", "waiter"], listed.output)


@test
def numbers_of_eleven_characters_are_nodes_in_the_line():
    """All from -2147483648 to -1000000000: the - before the ten digits is not the one of lock-."""
    store = ZooKeeper.one()
    path = store.chroot + "/a"
    store.keeper.create(path)
    theirs = store.connect()
    at_end(theirs.stop)
    for number, child in enumerate(("-lock--2147483647", "-lock--1234567890", "-__WRIT__-1000000000", "-lock--999999999")):
        theirs.create("%s/_c_00000000-0000-4000-8000-00000000000%d%s" % (path, number, child), ephemeral=True)
    listed = pawl("show", "-e", store.url(), "--json", "a")
    equal(listed.code, 0, listed.errors)
    roles = [entry["role"] for entry in json.loads(listed.output) if entry["role"] in ("holder", "waiter")]
    equal(sorted(roles), ["holder", "waiter", "waiter", "waiter"], listed.output)


@test
def an_old_stores_numbers_never_come_again_after_init():
    """As after a restore: what was handed out before init --yes is less than what comes behind it."""
    store = ZooKeeper.one()
    peer = Peer(store.url())
    before = peer.acquire("a").token
    equal(peer.release(), OK)
    peer.leave()
    done = pawl("init", "-e", store.url(), "--yes")
    equal(done.code, 0, done.errors)
    peer = Peer(store.url())
    after = peer.acquire("a").token
    require(after >> 48 > before >> 48, before, after)
    equal(peer.release(), OK)


main(have("zookeeper", "zookeeper-default", "zookeeper-tls"))
