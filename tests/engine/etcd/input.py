#!/usr/bin/env python3
"""input.py - what an etcd can refuse: a password, a prefix that is not for us, a full database, history that was compacted,
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


# ---- who may -----------------------------------------------------------------------------------------------------------

def locked():
    """A cluster with a password, and how its administrator says something."""
    name = "etcd-auth"
    if name not in Store.running:
        Store.running[name] = Etcd(name)
    store = Store.running[name]
    store.heal()

    def order(*words):
        done = subprocess.run(["etcdctl", "--endpoints", store.hosts(), "--user", "root:all/of it", *words],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                              env={**os.environ, "ETCDCTL_API": "3"})
        require(done.returncode == 0, words, done.stdout)
        return done.stdout
    return store, order


WORKER = "worker:one%3A100%25@"


@test
def a_wrong_password_is_said():
    store, _ = locked()
    text = refusal(store.url(prefix="lock/", user="worker:secret7@"), DENIED, "password|user|authenticat")
    require("secret7" not in text, text)
    refusal(store.url(prefix="lock/", user="nobody:x@"), DENIED, "password|user|authenticat")


@test
def no_password_where_one_is_needed_is_said():
    store, _ = locked()
    refusal(store.url(prefix="lock/"), DENIED, "password|user|authenticat")


@test
def a_prefix_that_is_not_for_us_is_said_and_nothing_is_left():
    store, order = locked()
    text = refusal(store.url(prefix="other/", user=WORKER), DENIED, "may not|permission|denied|not allowed")
    matches(text, "other/")
    equal(order("get", "--prefix", "other/"), "")


@test
def a_role_for_the_prefix_is_all_it_takes():
    store, order = locked()
    holder, other = [Peer(store.url(prefix="lock/", user=WORKER)) for _ in range(2)]
    held = holder.acquire("a", ttl=5000)
    equal(held.code, OK, held.text)
    equal(other.acquire("a").code, BUSY)
    time.sleep(7)
    equal(holder.check(), OK, "it is renewed")
    done = pawl("ls", "-e", store.url(prefix="lock/", user=WORKER))
    equal(done.code, 0, done.errors)
    equal(holder.release(), OK)
    equal(order("get", "--prefix", "lock/a/"), "")


@test
def a_token_that_the_server_has_forgotten_is_asked_for_again():
    """Its tokens are in memory: a server that is started again knows only those that it finds in its log, and what is
    written to the database is not read from the log. It refuses whoever shows another, even when asked for a new one."""
    store, _ = locked()
    peer = Peer(store.url(prefix="lock/", user=WORKER, timeout="20s"))
    equal(peer.acquire("a").code, OK)
    equal(peer.release(), OK)
    time.sleep(1)  # ten times as long as it waits with writing
    store.members[0].kill()
    store.members[0].start()
    answer = peer.acquire("a", wait=20000, patience=40)
    equal(answer.code, OK, answer.text)
    equal(peer.release(), OK)


@test
def authentication_that_is_enabled_while_a_client_is_connected_costs_nothing():
    """The client has a user in its URL, but no token: nobody wanted one when it connected."""
    store, order = locked()
    order("auth", "disable")
    at_end(lambda: order("auth", "enable"))
    holder, waiter, other = [warmed(store.url(prefix="lock/", user=WORKER)) for _ in range(3)]
    equal(holder.acquire("a", ttl=4000).code, OK)
    waiter.request("a", ttl=LONG)
    eventually(lambda: len(pawl("-e", store.url(prefix="lock/", user=WORKER), "show", "a").output.splitlines()) > 1)
    order("auth", "enable")
    equal(other.acquire("a").code, BUSY)
    time.sleep(5)
    equal(holder.check(), OK, "it could not be renewed")
    equal(holder.release(), OK)
    equal(waiter.hear().code, OK)
    equal(waiter.release(), OK)
    answer = other.acquire("b")
    equal(answer.code, OK, answer.text)
    equal(other.release(), OK)


@test
def a_right_that_is_taken_away_while_a_lock_is_held_is_a_loss_in_time():
    store, order = locked()
    peer = Peer(store.url(prefix="lock/", user=WORKER))
    equal(peer.acquire("a", ttl=2000).code, OK)
    order("role", "revoke-permission", "locks", "lock/", "lock0")
    at_end(lambda: order("role", "grant-permission", "--prefix=true", "locks", "readwrite", "lock/"))
    answer = Peer(store.url(prefix="lock/", user=WORKER)).acquire("b")
    equal(answer.code, DENIED, answer.text)
    code = peer.release()  # it may be told as lost, or as done in doubt; never as if nothing was wrong for ever
    require(code in (OK, LOST, DENIED) or failed(code), show(code))


# ---- a full database ---------------------------------------------------------------------------------------------------

@test
def a_full_database_takes_no_new_lock_but_renews_and_takes_back_the_old_ones():
    store = Etcd("etcd")
    at_end(store.down)
    store.fresh()
    store.members[0].restart("--quota-backend-bytes", str(4 << 20))
    holder = Peer(store.url())
    equal(holder.acquire("a", ttl=6000).code, OK)
    full = False
    for number in range(100):
        try:
            store.call("kv/put", {"key": text64("fill%d" % number), "value": text64("x" * 200000)})
        except ConnectionError as error:
            matches(str(error), "space")
            full = True
            break
    require(full, "it is not full")
    text = refusal(store.url(), FULL, "space|full|quota", name="b")
    matches(text, "etcd|database")
    equal(store.line("b"), [])
    time.sleep(7)
    equal(holder.check(), OK, "a full server must not cost a lock that is held")
    equal(holder.release(), OK, "nor keep one that is given back")
    equal(store.line("a"), [])


# ---- history that is not there any more --------------------------------------------------------------------------------

def compact(store):
    revision = store.put("unrelated", "x")["header"]["revision"]
    store.asked("kv/compaction", {"revision": revision, "physical": True})


@test
def a_compaction_while_somebody_waits_or_was_away_costs_nothing():
    store = Etcd.one()
    between = Between(store.members[0])
    holder, waiter = warmed(store.url()), warmed(store.url(between, timeout="3s"))
    held = holder.acquire("a", ttl=LONG)
    waiter.request("a", ttl=LONG)
    eventually(lambda: len(store.line("a")) == 2)
    compact(store)
    between.cut_all()
    between.silent = True
    for _ in range(3):
        compact(store)
    equal(holder.release(), OK)
    compact(store)
    between.silent = False
    got = waiter.hear(40)
    equal(got.code, OK)
    require(got.token > held.token)
    equal(waiter.release(), OK)
    nothing_is_left(store)


@test
def a_store_that_goes_back_is_refused_until_init():
    """A cluster restored without --bump-revision: its numbers come again."""
    store = Etcd("etcd")
    at_end(store.down)
    store.fresh()
    member = store.members[0]
    for _ in range(50):
        store.put("unrelated", "x")
    peer = Peer(store.url(timeout="3s"))
    before = peer.acquire("a")
    equal(before.code, OK)
    equal(peer.release(), OK)
    member.kill()
    data = member.command[member.command.index("--data-dir") + 1]
    shutil.rmtree(data)
    member.start()
    eventually(member.answers, store.log, patience=40)
    answer = peer.acquire("a", wait=5000, patience=40)
    if answer.code == OK:
        raise Failed("a number came again", before.token, answer.token)
    equal(answer.code, CORRUPT, answer.text)
    matches(answer.text, "init")
    done = pawl("init", "-e", store.url(), "--yes")
    equal(done.code, 0, done.errors)
    after = Peer(store.url()).acquire("a", wait=5000)
    equal(after.code, OK, after.text)
    require(after.token > before.token)


# ---- leases ------------------------------------------------------------------------------------------------------------

@test
def leases_are_given_back():
    store = Etcd.one()
    peers_ = [Peer(store.url()) for _ in range(3)]
    ours = set()
    for peer in peers_:  # with a ttl that outlasts our patience
        equal(peer.acquire("a", wait=20000, ttl=120000).code, OK)
        ours.add(int(store.lease("a")))
        equal(peer.release(), OK)
    require(len(ours) == 3 and ours <= store.leases(), ours)
    for peer in peers_:
        equal(peer.leave(), 0)
    eventually(lambda: not store.leases() & ours, "leases are left for their whole ttl", lambda: store.leases() & ours)


def has_hung_up(end):
    try:
        return end.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True


class Slow(Between):
    """What a client says takes its time, and does not arrive if its connection ends before: as at a busy server."""

    pause = 0

    def allow(self, way, data):
        if way == "out" and self.pause:
            time.sleep(self.pause)
            if any(has_hung_up(client) for client, _ in self.pairs):
                return b""
        return super().allow(way, data)


@test
def a_lease_is_given_back_to_a_slow_server():
    """pawl_close waits for the answer, for two seconds at most: on a busy machine that is not always enough."""
    store = Etcd.one()

    def comes_back():
        slow = Slow(store.members[0])
        peer = Peer(store.url(slow))
        equal(peer.acquire("a", wait=20000, ttl=120000).code, OK)
        lease = int(store.lease("a"))
        equal(peer.release(), OK)
        slow.pause = 0.7
        equal(peer.leave(), 0)
        return lease not in store.leases()

    require(any(comes_back() for _ in range(6)), "each lease was left for its whole ttl")


@test
def a_lease_that_is_not_found_when_it_is_used_is_made_anew():
    store = Etcd.one()
    peer, other = peers(store, 2)
    equal(peer.acquire("a", ttl=15000).code, OK)
    lease = store.lease("a")
    equal(peer.release(), OK)
    store.revoke(lease)
    answer = peer.acquire("a", wait=10000, ttl=15000)
    equal(answer.code, OK, answer.text)
    require(store.lease("a") != lease)
    equal(other.acquire("a").code, BUSY)
    equal(peer.release(), OK)
    nothing_is_left(store)


# ---- servers that are none -----------------------------------------------------------------------------------------------

@test
def nobody_there_is_said_with_the_address():
    store = Etcd.one()
    port = free_port()
    refusal(store.url("127.0.0.1:%d" % port, **SOON), UNREACHABLE, str(port))


def talker(*answers):
    def serve(connection):
        connection.recv(4096)
        for answer in answers:
            connection.sendall(answer)
        connection.recv(65536)
    return Listener(serve)


def frame(kind, flags, stream, data=b""):
    return len(data).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + data


@test
def a_server_that_is_no_etcd_is_never_believed():
    store = Etcd.one()
    settings = frame(4, 0, 0)
    for data in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"+PONG\r\n", b"\0" * 9, b"\xff" * 100, settings,
                 settings + frame(7, 0, 0, b"\0" * 8), settings + frame(1, 5, 1, b"\x88"), settings + frame(0, 1, 1, b"\0" * 5),
                 settings + frame(3, 0, 1, b"\0\0\0\x07"), b""):
        peer = Peer(store.url("127.0.0.1:%d" % talker(data).port, **SOON))
        answer = peer.acquire("a") if peer.opened.code == OK else peer.opened
        require(answer.code != OK, "%r was believed" % data)
        require(len(answer.text) > 15, "%r: no sentence: %s %r" % (data, show(answer.code), answer.text))
        peer.leave()


@test
def a_server_that_speaks_tls_is_not_spoken_to_in_the_clear_and_the_other_way_round():
    store = Etcd.one()
    refusal(store.url(scheme="etcds", **SOON), (UNREACHABLE, DENIED), "TLS|SSL")
    secure = Store("etcd-tls")
    at_end(secure.down)
    refusal(store.url(secure.members[0], **SOON), UNREACHABLE, secure.members[0].where)
    peer = Peer(secure.base)
    equal(peer.acquire("a", ttl=5000).code, OK)
    time.sleep(7)
    equal(peer.check(), OK)
    equal(peer.release(), OK)
    refusal(re.sub("&cert=.*", "&timeout=1s", secure.base), (UNREACHABLE, DENIED), "TLS|SSL|certificate|handshake|reset|closed")
    refusal(re.sub(r"\?.*", "?timeout=1s", secure.base), (UNREACHABLE, DENIED), "certificate|verif")


@test
def urls_that_say_nothing_sensible_are_refused_before_anything_is_asked():
    for url in ("etcd://127.0.0.1:0", "etcd://127.0.0.1:99999", "etcd://127.0.0.1?nonsense=1",
                "etcd://127.0.0.1?timeout=soon", "etcd://,", "etcd://127.0.0.1,,127.0.0.2", "etcd://127.0.0.1/path"):
        peer = Peer(url)
        equal(peer.opened.code, INVALID, url, peer.opened.text)
        require(len(peer.opened.text) > 10, url, peer.opened.text)


# ---- strange things in a line --------------------------------------------------------------------------------------------

@test
def keys_of_a_name_that_begins_alike_are_another_line():
    store = Etcd.one()
    one, two = peers(store, 2)
    equal(one.acquire("ab").code, OK)
    equal(two.acquire("a").code, OK, "a sees ab")


@test
def an_init_after_a_restore_lets_tokens_grow():
    store = Etcd.one()
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


def fresh_token(store):
    peer = Peer(store.url())
    token = peer.acquire("a").token
    equal(peer.release(), OK)
    peer.leave()
    return token


@test
def a_client_that_was_connected_before_an_init_makes_no_lower_tokens_after_it():
    store = Etcd.one()
    old = Peer(store.url())
    equal(old.acquire("a").code, OK)
    equal(old.release(), OK)
    equal(pawl("init", "-e", store.url(), "--yes").code, 0)
    last = fresh_token(store)
    for wait in (NO_WAIT, 5000):  # one that tries, and one that enters the line
        answer = old.acquire("a", wait=wait)
        equal(answer.code, OK, answer.text)
        require(answer.token > last, answer.token, last)
        equal(old.release(), OK)
        equal(pawl("init", "-e", store.url(), "--yes").code, 0)
        last = fresh_token(store)


@test
def an_init_mends_a_base_that_cannot_be_read():
    store = Etcd.one()
    store.put(store.prefix + ".pawl/base", "x")
    refusal(store.url(), CORRUPT, "init")
    require(pawl("init", "-e", store.url()).code != 0)
    done = pawl("init", "-e", store.url(), "--yes")
    equal(done.code, 0, done.errors)
    equal(pawl("run", "-e", store.url(), "a", "true").code, 0)


main(have("etcd", "etcd-auth", "etcd-tls"))
