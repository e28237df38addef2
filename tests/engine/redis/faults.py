#!/usr/bin/env python3
"""faults.py - what can be wrong with a server, an address or an account: each a clear and distinct error, in time, and never
a lock that is believed and not held."""
import os
import shutil
import socket
import subprocess
import threading
import time

from rig import *

SOON = {"timeout": "1s"}


def refusal(url, name="a", wait=NO_WAIT, code=None, says=None):
    """What a client is told that tries there: an error that is none of the lock's own, in time."""
    peer = Peer(url)
    equal(peer.opened.code, OK, peer.opened.text)
    began = time.monotonic()
    answer = peer.acquire(name, wait=wait)
    took = time.monotonic() - began
    require(answer.code not in (OK, BUSY, TIMEOUT, CANCELLED), "%s: %s" % (show(answer.code), answer.text))
    if code is not None:
        equal(answer.code, code, answer.text)
    if says:
        matches(answer.text, says)
    require(len(answer.text) > 20 and "\\n" not in answer.text, "no sentence: %r" % answer.text)
    equal(peer.leave(), 0)
    note("%s, %.0f ms: %s" % (show(answer.code), took * 1000, answer.text))
    return answer


# ---- nobody there ------------------------------------------------------------------------------------------------------

@test
def a_port_where_nobody_listens_is_unreachable():
    port = free_port()
    refusal("redis://127.0.0.1:%d" % port, code=UNREACHABLE, says="127.0.0.1.*%d|%d" % (port, port))


@test
def a_waiting_claim_on_a_port_where_nobody_listens_is_told_too():
    refusal("redis://127.0.0.1:%d?timeout=500ms" % free_port(), wait=60000, code=UNREACHABLE, says="refused")


@test
def a_name_that_does_not_resolve_is_unreachable_and_says_which():
    refusal("redis://no-such-host.invalid?timeout=5s", code=UNREACHABLE, says="no-such-host.invalid")


@test
def a_unix_socket_that_is_not_there_is_unreachable_and_says_which():
    refusal("redis+unix:%s/nothing.socket" % directory(), code=UNREACHABLE, says="nothing.socket")


@test
def a_server_that_comes_later_is_used_then():
    port = free_port()
    peer = Peer("redis://127.0.0.1:%d?timeout=500ms" % port)
    equal(peer.acquire("a").code, UNREACHABLE)
    Server(port=port)
    eventually(lambda: peer.acquire("a").code == OK)
    equal(peer.release(), OK)


# ---- not allowed -------------------------------------------------------------------------------------------------------

def url_of(server, account, **options):
    return server.url(**options).replace("redis://", "redis://%s@" % account)


@test
def a_wrong_password_is_denied_and_not_repeated():
    server = Server("--requirepass", "the-right-one", plain=False)
    answer = refusal(url_of(server, ":a-wrong-secret"), code=DENIED, says="password")
    require("a-wrong-secret" not in answer.text, answer.text)
    answer = refusal(url_of(server, "nobody:a-wrong-secret"), code=DENIED, says="password|nobody")
    require("a-wrong-secret" not in answer.text, answer.text)


@test
def a_password_that_is_missing_is_denied():
    server = Server("--requirepass", "the-right-one", plain=False)
    refusal(server.url(), code=DENIED, says="password|authenti")


@test
def a_password_where_none_is_needed_does_no_harm_or_is_refused_clearly():
    server = Server()
    peer = Peer(url_of(server, ":superfluous"))
    answer = peer.acquire("a")
    require(answer.code in (OK, DENIED), show(answer.code), answer.text)
    require("superfluous" not in answer.text, answer.text)


def account(server, *rules):
    server("ACL", "SETUSER", "worker", "reset", "on", ">secret", *rules)
    return url_of(server, "worker:secret")


@test
def an_account_without_rights_is_denied_and_leaves_nothing():
    server = Server()
    for rules in (("~*", "&*", "+@all", "-evalsha", "-eval"),
                  ("~other:*", "&*", "+@all"),
                  ("~*", "&*", "+@all", "-set", "-setex", "-psetex"),
                  ("~*", "&*", "+@all", "-time"),
                  ("~lock:*", "&*", "+@all")):
        answer = refusal(account(server, *rules), code=DENIED)
        require("secret" not in answer.text, answer.text)
        equal(server.keys("lock:*"), [], rules)


@test
def an_account_that_may_not_listen_is_told_instead_of_waiting_for_ever():
    server = Server()
    holder = Peer(server.url())
    equal(holder.acquire("a", ttl=60000).code, OK)
    for rules in (("~*", "resetchannels", "+@all"), ("~*", "&*", "+@all", "-subscribe")):
        waiter = Peer(account(server, *rules))
        answer = waiter.acquire("a", wait=60000)
        equal(answer.code, DENIED, answer.text)
        equal(server.waiters("a"), 0)


@test
def an_account_that_may_not_publish_gives_its_locks_back():
    server = Server()
    mute = account(server, "~*", "resetchannels", "+@all")
    for mode in (0, 1):
        holder, waiter = Peer(mute), Peer(server.url())
        equal(holder.acquire("a", ttl=2000, mode=mode).code, OK)
        waiter.request("a", ttl=2000)
        eventually(lambda: server.waiters("a") == 1)
        equal(holder.release(), OK)
        if server.waiters("a") == 1:  # it has not checked yet: nobody overtakes it
            for _ in range(3):
                require(holder.acquire("a").code != OK)
            equal(server.waiters("a") + (1 if server("EXISTS", "lock:a") else 0), 1)
        equal(waiter.hear().code, OK)
        last = Peer(server.url())
        last.request("a", ttl=2000)
        eventually(lambda: server.waiters("a") == 1)
        done = pawl("break", "-e", mute, "a")
        equal(done.code, 0, done.errors)
        equal(last.hear().code, OK)
        eventually(lambda: waiter.check() == LOST)
        equal(last.release(), OK)


@test
def a_server_without_a_command_that_scripts_need_is_told_as_such():
    server = Server("--rename-command", "PUBLISH", "")
    holder, waiter = Peer(server.url()), Peer(server.url())
    equal(holder.acquire("a").code, OK)
    waiter.request("a", wait=60000)
    eventually(lambda: server.waiters("a") == 1)
    equal(holder.release(), OK)
    equal(waiter.hear().code, UNSUPPORTED)
    matches(waiter.ask("why").text, "switched off")


@test
def an_account_that_loses_its_rights_while_it_holds_is_told_at_its_deadline():
    server = Server()
    holder = Peer(account(server, "~*", "&*", "+@all"))
    equal(holder.acquire("a", ttl=1000).code, OK)
    server("ACL", "SETUSER", "worker", "-@all")
    eventually(lambda: holder.number("lost") == 1)
    equal(holder.check(), LOST)
    server("ACL", "SETUSER", "worker", "+@all")
    eventually(lambda: holder.acquire("b").code == OK)


# ---- another protocol --------------------------------------------------------------------------------------------------

def web(connection):
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")


def banner(connection):
    connection.sendall(b"SSH-2.0-OpenSSH_9.2p1 Debian-2\r\n")
    time.sleep(30)


def says_nothing(connection):
    while connection.recv(65536):
        pass


def hangs_up(connection):
    connection.recv(65536)


def noise(connection):
    connection.sendall(bytes((number * 37 + 11) % 256 for number in range(4096)))
    time.sleep(30)


@test
def a_port_with_another_protocol_is_told_from_one_that_is_silent_or_hangs_up():
    sentences = set()
    for serve in (web, banner, says_nothing, hangs_up, noise):
        answer = refusal(Listener(serve).url(**SOON))
        sentences.add(answer.text.split("127.0.0.1")[-1].lstrip(":0123456789"))
    require(len(sentences) >= 3, "these should be distinct", *sentences)


@test
def another_protocol_is_named_as_such():
    for serve in (web, banner, noise):
        answer = refusal(Listener(serve).url(**SOON))
        matches(answer.text, "redis|protocol|understand")
        require(answer.code != NO_MEMORY, answer.text)


@test
def a_port_that_ends_each_connection_is_given_up_quickly_and_said_once():
    connections = []

    def ends(connection):
        connections.append(1)
        hangs_up(connection)

    for wait in (NO_WAIT, 60000):
        connections.clear()
        answer = refusal(Listener(ends).url(timeout="60s"), wait=wait, code=UNREACHABLE, says="is that the port of a Redis")
        equal(answer.text.count("127.0.0.1"), 1, answer.text)
        require(len(connections) <= 8, "%d connections" % len(connections))
    done = pawl("ls", "-e", Listener(ends).url(timeout="60s"))
    equal(done.code, 125)
    matches(done.errors, "is that the port of a Redis")


@test
def the_port_of_an_etcd_is_no_redis():
    place = directory()
    servers = os.path.join(SOURCE, "tests/servers/servers")
    if not shutil.which("etcd"):
        note("no etcd here")
        return
    subprocess.run([servers, "up", place, "etcd"], check=True, stdout=subprocess.DEVNULL)
    at_end(lambda: subprocess.run([servers, "down", place], check=False))
    with open(os.path.join(place, "env"), encoding="utf-8") as env:
        address = re.search("ETCD_URL='etcd://([^/?']*)", env.read()).group(1)
    refusal("redis://%s?timeout=60s" % address, code=UNREACHABLE, says="redis")


def certified():
    """A server that speaks TLS only, and the directory of its certificates."""
    place = directory()
    servers = os.path.join(SOURCE, "tests/servers/servers")
    subprocess.run([servers, "up", place, "redis-tls"], check=True, stdout=subprocess.DEVNULL)
    at_end(lambda: subprocess.run([servers, "down", place], check=False))
    with open(os.path.join(place, "env"), encoding="utf-8") as env:
        url = re.search("REDIS_TLS_URL='(.*)'", env.read()).group(1)
    return url, place


@test
def tls_against_a_plain_port_and_the_reverse_are_told():
    refusal(Server().url(**SOON).replace("redis://", "rediss://"), says="tls")
    url, _ = certified()
    refusal("redis://%s?timeout=1s" % re.search("//([^?]*)", url).group(1))


@test
def certificates_that_do_not_fit_are_denied_and_no_plain_text_follows():
    url, place = certified()
    peer = Peer(url)
    answer = peer.acquire("a")
    equal(answer.code, OK, answer.text)
    equal(peer.release(), OK)
    address = re.search("//([^?]*)", url).group(1)
    mine = "cert=%s/client.crt&key=%s/client.key" % (place, place)
    refusal("rediss://%s?%s" % (address, mine), code=DENIED, says="certificate")  # the system does not trust it
    refusal("rediss://%s?ca=%s/client.crt&%s" % (address, place, mine), code=DENIED, says="certificate")
    refusal("rediss://%s?ca=%s/ca.crt&timeout=2s" % (address, place))  # the server wants to know who we are
    other = url.replace("127.0.0.1", "127.0.0.2")
    refusal(other)
    named = Peer(url.replace("127.0.0.1", "localhost"))
    equal(named.acquire("a").code, OK)
    equal(named.release(), OK)
    careless = Peer("rediss://%s?insecure=1&%s" % (address, mine))
    equal(careless.acquire("a").code, OK)
    equal(careless.release(), OK)
    for no in ("false", "off", "NO", "0"):
        refusal("rediss://%s?insecure=%s&%s" % (address, no, mine), code=DENIED, says="certificate")
    for neither in ("", "none", "false%20"):
        done = pawl("run", "-n", "-e", "rediss://%s?insecure=%s&%s" % (address, neither, mine), "x", "true")
        equal(done.code, 125)
        matches(done.errors, "insecure=.* is neither yes nor no")
    matches(pawl("doctor", "-e", "rediss://%s?insecure=on&%s" % (address, mine)).output, "insecure= is set")


@test
def certificate_files_that_are_missing_are_named_when_the_url_is_opened():
    for option in ("ca", "cert", "key"):
        done = pawl("run", "-e", "rediss://127.0.0.1:1?%s=/no/such/file" % option, "x", "true")
        equal(done.code, 125)
        matches(done.errors, "/no/such/file|cert.*key|key.*cert")


# ---- a Redis that will not -----------------------------------------------------------------------------------------------

@test
def a_replica_is_read_only():
    primary = Server()
    replica = Server("--replicaof", "127.0.0.1 %d" % primary.port)
    eventually(lambda: "master_link_status:up" in replica("INFO", "replication"))
    refusal(replica.url(), says="replica|read.only")
    equal(primary.keys("lock:*"), [])


@test
def a_primary_that_becomes_a_replica_costs_the_lock_at_the_deadline():
    primary, other = Server(), Server()
    holder = Peer(primary.url())
    equal(holder.acquire("a", ttl=1500).code, OK)
    primary("REPLICAOF", "127.0.0.1", other.port)
    eventually(lambda: holder.number("lost") == 1)
    equal(holder.check(), LOST)
    equal(holder.release(), LOST)


@test
def a_break_that_is_refused_was_not_done_and_says_so():
    server = Server()
    holder = Peer(server.url())
    equal(holder.acquire("a", ttl=60000).code, OK)
    server("CONFIG", "SET", "min-replicas-to-write", 1)
    done = pawl("break", "-e", server.url(), "a")
    matches(done.errors, "fewer replicas")
    require("may have been done" not in done.errors, done.errors)
    server("CONFIG", "SET", "min-replicas-to-write", 0)
    equal(holder.check(), OK)
    equal(holder.release(), OK)


@test
def a_lock_whose_end_was_taken_away_by_hand_is_held_can_be_seen_and_broken():
    server = Server()
    for kind in ({}, {"delay": 200}):
        holder = Peer(server.url())
        equal(holder.acquire("a", ttl=60000, **kind).code, OK)
        equal(server("PERSIST", "lock:a"), 1)
        equal(pawl("ls", "-e", server.url()).output.count("contract-peer"), 1)
        waiter = Peer(server.url())
        equal(waiter.acquire("a").code, BUSY)
        waiter.request("a")
        eventually(lambda: server.waiters("a") == 1)
        before = server("INFO", "commandstats")
        time.sleep(1)
        calls = [int(re.search(r"cmdstat_evalsha:calls=(\d+)", text).group(1)) for text in (before, server("INFO", "commandstats"))]
        require(calls[1] - calls[0] < 5, "it is looked at %d times a second" % (calls[1] - calls[0]))
        holder.kill()
        equal(pawl("break", "-e", server.url(), "a").code, 0)
        equal(waiter.hear().code, OK)
        equal(waiter.release(), OK)


@test
def a_renewal_gives_an_end_to_a_lock_that_lost_it():
    server = Server()
    for kind in ({}, {"delay": 200}):
        holder = Peer(server.url())
        equal(holder.acquire("a", ttl=4500, **kind).code, OK)
        equal(server("PERSIST", "lock:a"), 1)
        eventually(lambda: server("PTTL", "lock:a") > 0)
        equal(holder.check(), OK)
        equal(holder.release(), OK)


@test
def a_cluster_is_refused_by_name():
    server = cluster_node()
    refusal(server.url(), says="cluster")  # no slots yet: CLUSTERDOWN
    server("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    eventually(lambda: "cluster_state:ok" in server("CLUSTER", "INFO"))
    peer = Peer(server.url())
    answer = peer.acquire("a")  # one node that has every slot: our keys are in several
    require(answer.code == UNSUPPORTED, show(answer.code), answer.text)
    matches(answer.text, "cluster")


@test
def a_node_of_a_cluster_that_has_the_key_elsewhere_is_refused_by_name():
    one, two = cluster_node(), cluster_node()
    one("CLUSTER", "ADDSLOTSRANGE", 0, 1)
    two("CLUSTER", "ADDSLOTSRANGE", 2, 16383)
    one("CLUSTER", "MEET", "127.0.0.1", two.port, two("CONFIG", "GET", "cluster-port")[1])
    eventually(lambda: "cluster_state:ok" in one("CLUSTER", "INFO"))
    refusal(one.url(), says="cluster|moved")


@test
def a_server_that_is_loading_says_so_and_works_when_it_has_loaded():
    server = Server("--dbfilename", "big.rdb", "--loading-process-events-interval-bytes", "1024")
    server("DEBUG", "POPULATE", 3000, "big", 100)
    server("SAVE")
    server.kill()
    server.start("--key-load-delay", "1000", wait=False)

    def loading():
        try:
            server("PING")
        except OSError:
            return False
        except Refused as refused:
            return "LOADING" in str(refused)
        return False

    eventually(loading)
    refusal(server.url(**SOON), says="loading")
    peer = Peer(server.url())
    eventually(lambda: peer.acquire("a").code == OK)
    equal(peer.release(), OK)


@test
def a_full_server_takes_no_new_lock_but_renews_and_takes_back_the_old_ones():
    server = Server("--maxmemory-policy", "noeviction")
    holder = Peer(server.url())
    waiter = Peer(server.url())
    held = holder.acquire("a", ttl=3000)
    equal(held.code, OK)
    waiter.request("a", ttl=3000)
    eventually(lambda: server.waiters("a") == 1)
    server("CONFIG", "SET", "maxmemory", "1")
    refusal(server.url(), name="b", code=FULL, says="memory|full")
    equal(server.keys("lock:b"), [])
    time.sleep(4)  # longer than the lease
    equal(holder.check(), OK, "a full server must not cost a lock that is held")
    equal(holder.release(), OK, "nor keep one that is given back")
    got = waiter.hear()
    equal(got.code, OK)
    require(got.token > held.token)
    equal(waiter.release(), OK)
    server("CONFIG", "SET", "maxmemory", "0")
    equal(holder.acquire("b").code, OK)


@test
def a_full_server_hands_the_lock_of_a_dead_holder_on():
    server = Server("--maxmemory-policy", "noeviction")
    holder, waiters = Peer(server.url()), [Peer(server.url()) for _ in range(2)]
    equal(holder.acquire("a", ttl=1500).code, OK)
    for number, waiter in enumerate(waiters):
        waiter.request("a", ttl=4500)
        eventually(lambda: server.waiters("a") == number + 1)
    server("CONFIG", "SET", "maxmemory", "1")
    holder.kill()
    for waiter in waiters:
        equal(waiter.hear().code, OK)
        equal(waiter.release(), OK)


@test
def who_waits_on_a_server_that_refuses_for_good_is_told():
    server = Server()
    server("ACL", "SETUSER", "worker", "reset", "on", ">secret", "~*", "&*", "+@all")
    holder, waiter = Peer(server.url()), Peer(url_of(server, "worker:secret"))
    equal(holder.acquire("a", ttl=1500).code, OK)
    waiter.request("a")
    eventually(lambda: server.waiters("a") == 1)
    server("ACL", "SETUSER", "worker", "-zadd", "-zscore", "-zrank")
    holder.kill()
    answer = waiter.hear()
    equal(answer.code, DENIED, waiter.ask("why").text)


@test
def a_full_server_takes_back_locks_of_every_kind():
    server = Server("--maxmemory-policy", "noeviction")
    for kind in ({}, {"delay": 500}, {"mode": 1}, {"mode": 1, "holders": 2}, {"mode": 1, "delay": 300}):
        peer = Peer(server.url())
        equal(peer.acquire("a", **kind).code, OK)
        server("CONFIG", "SET", "maxmemory", "1")
        equal(peer.release(), OK, kind)
        equal(server.keys("lock:*"), [], kind)
        server("CONFIG", "SET", "maxmemory", "0")


@test
def a_server_busy_with_a_script_of_another_says_so_and_works_afterwards():
    server = Server("--busy-reply-threshold", "50")
    peer = Peer(server.url(**SOON))
    equal(peer.acquire("a").code, OK)
    equal(peer.release(), OK)
    looping = server.connect()
    looping.send("EVAL", "while true do end", 0)

    def busy():
        try:
            server("GET", "x")
        except Refused as refused:
            return "BUSY" in str(refused)
        return False

    eventually(busy)
    answer = peer.acquire("a")
    require(answer.code not in (OK, BUSY), show(answer.code), answer.text)
    matches(answer.text, "busy|script")
    note(answer.text)
    server("SCRIPT", "KILL")
    eventually(lambda: peer.acquire("a").code == OK)
    equal(peer.release(), OK)


@test
def what_is_given_back_for_a_claim_that_is_no_more_is_tried_again_on_a_busy_server():
    server = Server("--busy-reply-threshold", "50")
    peer = Peer(server.url())
    equal(peer.acquire("b", ttl=60000).code, OK)
    channel = eventually(lambda: server("PUBSUB", "CHANNELS", "pawl:news:*"))[0]
    uid, client = "12345678" * 4, channel.rpartition(":")[2]
    server("SET", "lock:a", "%s %s 60000 0 x 0 - 0 o - 7 7" % (uid, client), "PX", 60000)
    busy = server.connect()
    busy("MULTI")  # told of a grant that it does not know, it finds the server busy
    busy("PUBLISH", channel, "granted %s 7 60000 lock:a" % uid)
    busy.send("EVAL", "while true do end", 0)
    busy.read()
    busy.send("EXEC")
    time.sleep(1)
    server("SCRIPT", "KILL")

    def given_back():
        try:
            return not server("EXISTS", "lock:a")
        except Refused:  # the script is just being ended
            return False

    eventually(given_back, "what nobody holds was not given back")
    equal(peer.check(), OK)


@test
def a_waiter_whose_checks_are_refused_is_told_the_reason_when_its_time_is_over():
    server = Server("--busy-reply-threshold", "50")
    holder, waiter = Peer(server.url()), Peer(server.url())
    equal(holder.acquire("a", ttl=1000).code, OK)
    waiter.request("a", wait=4000)
    eventually(lambda: server.waiters("a") == 1)
    looping = server.connect()
    looping.send("EVAL", "while true do end", 0)
    equal(waiter.hear().code, UNREACHABLE)
    matches(waiter.ask("why").text, "busy")
    server("SCRIPT", "KILL")


@test
def a_holder_on_a_server_busy_for_longer_than_its_lease_is_told_at_its_deadline():
    server = Server("--busy-reply-threshold", "50")
    holder = Peer(server.url())
    equal(holder.acquire("a", ttl=1000).code, OK)
    looping = server.connect()
    looping.send("EVAL", "while true do end", 0)
    eventually(lambda: holder.number("lost") == 1)
    equal(holder.check(), LOST)
    equal(holder.number("reason"), EXPIRED)
    server("SCRIPT", "KILL")
    eventually(lambda: holder.acquire("b").code == OK)
    eventually(lambda: not server("EXISTS", "lock:a"), "the lock outlived its lease")


@test
def a_lock_key_of_another_type_is_no_lock_of_ours_and_stays_as_it_is():
    server = Server()
    for words in (("RPUSH", "lock:a", "x"), ("HSET", "lock:a", "f", "v"), ("SADD", "lock:a", "m"),
                  ("ZADD", "lock:a", 1, "m"), ("XADD", "lock:a", "*", "f", "v")):
        server(*words)
        before = server("DUMP", "lock:a")
        peer = Peer(server.url())
        answer = peer.acquire("a")
        require(answer.code in (BUSY, CORRUPT), words[0], show(answer.code), answer.text)
        answer = peer.acquire("a", wait=300)
        require(answer.code in (TIMEOUT, CORRUPT), words[0], show(answer.code), answer.text)
        equal(server("DUMP", "lock:a"), before)
        listed = pawl("ls", "-e", server.url())
        equal(listed.code, 0, listed.errors)
        equal(peer.leave(), 0)
        server("DEL", "lock:a")
    equal(server.keys("pawl:queue:*"), [])


@test
def queue_keys_of_another_type_are_an_error_that_names_them():
    server = Server()
    holder = Peer(server.url())
    equal(holder.acquire("a", ttl=2000).code, OK)
    server("SET", "pawl:queue:lock:a", "not a queue")
    peer = Peer(server.url())
    answer = peer.acquire("a", wait=1000)
    require(answer.code in (CORRUPT, BUSY, TIMEOUT), show(answer.code), answer.text)
    note("%s: %s" % (show(answer.code), answer.text))
    listed = pawl("ls", "-e", server.url())
    equal(listed.code, 0, listed.errors)
    matches(listed.output, "contract-peer")
    server("DEL", "pawl:queue:lock:a")
    equal(holder.release(), OK)
    equal(peer.acquire("a").code, OK)


@test
def foreign_values_in_a_lock_are_somebody_elses_lock():
    server = Server()
    peer = Peer(server.url())
    for value in ("", " ", "x", "0" * 32, "f" * 32 + " ", "\0\1\2", "%" * 200, "a b c d e f g h i j k l", "9" * 400,
                  "%s 1 2 3 4 5 6 7 8 9 10 11 12" % ("a" * 32), "\xff" * 10, "x" * 100000):
        server("SET", "lock:a", value, "PX", 60000)
        equal(peer.acquire("a").code, BUSY, value[:80])
        for command in ("ls", "show"):
            done = pawl(command, "-e", server.url(), *(["a"] if command == "show" else []))
            equal(done.code, 0, value[:80], done.errors)
            require("a" in done.output, done.output)
        equal(server("GET", "lock:a") is not None, True)
    server("SET", "lock:a", "for ever")  # no PX at all
    equal(peer.acquire("a").code, BUSY)
    equal(peer.acquire("a", wait=200).code, TIMEOUT)
    equal(pawl("ls", "-e", server.url()).code, 0)
    equal(pawl("break", "-e", server.url(), "a").code, 0)
    equal(peer.acquire("a").code, OK)


# ---- a Redis that goes away ------------------------------------------------------------------------------------------------

@test
def a_server_that_stands_still_for_longer_than_the_lease_costs_the_lock_at_the_deadline_and_nothing_else():
    server = Server()
    holder = Peer(server.url(**SOON))
    waiter = Peer(server.url(**SOON))
    held = holder.acquire("a", ttl=1000)
    equal(held.code, OK)
    waiter.request("a", wait=60000, ttl=1000)
    eventually(lambda: server.waiters("a") == 1)
    server.stop()
    began = time.monotonic()
    eventually(lambda: holder.number("lost") == 1)
    require(time.monotonic() - began < 10)
    equal(holder.check(), LOST)
    equal(holder.number("reason"), EXPIRED)
    stranger = Peer(server.url(timeout="500ms"))
    equal(stranger.acquire("b").code, UNREACHABLE)
    time.sleep(1)
    server.go_on()
    got = waiter.hear()
    if got.code == OK:
        require(got.token > held.token)
        equal(waiter.release(), OK)
    else:  # it need not wait for ever for a server that does not answer
        equal(got.code, UNREACHABLE)
    equal(holder.release(), LOST)
    eventually(lambda: holder.acquire("a").code == OK)
    equal(holder.release(), OK)
    eventually(lambda: not server.keys("lock:*") and not server.keys("pawl:queue:*"), server.keys())


@test
def an_acquire_whose_answer_never_comes_leaves_nothing_behind():
    server = Server()
    cutter = Cutter(server)
    peer = Peer(server.url(port=cutter.port, timeout="500ms"))
    equal(peer.acquire("warm").code, OK)
    equal(peer.release(), OK)
    server.stop()
    answer = peer.acquire("a", ttl=60000)  # it will be granted when the server goes on, and nobody will know
    require(answer.code in (UNREACHABLE, IN_DOUBT), show(answer.code), answer.text)
    server.go_on()
    eventually(lambda: not server("EXISTS", "lock:a"), "the lock of a claim that failed is left for its whole ttl")
    stranger = Peer(server.url())
    equal(stranger.acquire("a").code, OK)


class Late(Cutter):
    """A network in which the requests of the connections in held arrive late, after all."""
    held = ()

    def allow(self, way, data):
        mine = threading.get_ident()
        while way == "out" and mine in self.held:
            time.sleep(0.01)
        return data

    def hold_those_there(self):
        self.held = {thread.ident for thread in threading.enumerate()}


@test
def a_request_that_arrives_after_its_claim_was_given_up_blocks_nobody_for_longer_than_its_ttl():
    server = Server()
    late = Late(server)
    peer, other = Peer(server.url(port=late.port, timeout="500ms")), Peer(server.url())
    equal(peer.acquire("warm").code, OK)
    equal(peer.release(), OK)
    late.hold_those_there()
    answer = peer.acquire("a", wait=5000, ttl=3000)
    if answer.code == OK:  # another connection was tried, with the same claim
        equal(peer.release(), OK)
    late.held = ()
    got = other.acquire("a", wait=20000)
    equal(got.code, OK, got.text)
    require(got.token > answer.token)
    equal(other.check(), OK)
    equal(peer.number("lost"), 0)


@test
def a_release_whose_answer_never_comes_is_finished_in_the_background():
    server = Server()
    peer = Peer(server.url(timeout="500ms"))
    equal(peer.acquire("a", ttl=60000).code, OK)
    server.stop()
    code = peer.release()
    require(code in (IN_DOUBT, OK), show(code))
    server.go_on()
    eventually(lambda: not server("EXISTS", "lock:a"), "the lock is left for its whole ttl")


@test
def a_server_that_is_killed_and_restarted_serves_all_who_wait():
    server = Server()
    holder = Peer(server.url())
    equal(holder.acquire("a", ttl=2000).code, OK)
    waiters = [Peer(server.url()) for _ in range(20)]
    for waiter in waiters:
        waiter.request("a", ttl=6000)
    eventually(lambda: server.waiters("a") == 20)
    server.restart()
    tokens = []
    waiting = list(waiters)
    while waiting:
        ready = eventually(lambda: [waiter for waiter in waiting if waiter.heard()], "%d are still waiting" % len(waiting))
        require(len(ready) == 1, "%d hold it at once" % len(ready))
        answer = ready[0].hear()
        equal(answer.code, OK, ready[0].ask("why").text)
        tokens.append(answer.token)
        equal(ready[0].release(), OK)
        waiting.remove(ready[0])
    equal(tokens, sorted(set(tokens)))
    eventually(lambda: holder.number("lost") == 1)


@test(within=120)
def too_many_connections_are_a_clear_error_until_there_is_room():
    server = Server("--maxclients", "12")
    others = []
    while True:
        connection = Connection(server.port)
        others.append(connection)
        try:
            connection("PING")
        except (Refused, ConnectionError, OSError):
            break
    answer = refusal(server.url(**SOON), code=None)
    matches(answer.text, "clients|connections")
    for connection in others:
        connection.close()
    peer = Peer(server.url())
    eventually(lambda: peer.acquire("a").code == OK)
    equal(peer.release(), OK)


@test
def a_holder_whose_connection_is_cut_comes_back_and_still_holds():
    server = Server()
    cutter = Cutter(server)
    peer = Peer(server.url(port=cutter.port))
    held = peer.acquire("a", ttl=4500)
    equal(held.code, OK)
    for _ in range(5):
        cutter.cut_all()
        time.sleep(1.5)
        equal(peer.check(), OK)
    equal(peer.number("lost"), 0)
    equal(peer.release(), OK)
    equal(server.keys("lock:*"), [])


@test
def a_connection_that_falls_silent_is_given_up_inside_the_lease():
    server = Server()
    cutter = Cutter(server)
    peer = Peer(server.url(port=cutter.port, timeout="500ms"))
    equal(peer.acquire("a", ttl=6000).code, OK)
    cutter.silent = True
    eventually(lambda: len(cutter.pairs) > 2, "it did not try another connection")
    cutter.silent = False
    time.sleep(6)
    equal(peer.check(), OK)
    equal(peer.release(), OK)


@test
def a_try_whose_connection_is_cut_is_asked_again_also_after_a_rest():
    """The connection for messages goes while there is nothing to do; then the other one, with a request on it."""
    server = Server()
    holder, peer = Peer(server.url()), Peer(server.url())
    equal(holder.acquire("a", ttl=60000).code, OK)
    equal(peer.acquire("a").code, BUSY)
    eventually(lambda: len(server("PUBSUB", "CHANNELS")) >= 2)
    server("CLIENT", "KILL", "TYPE", "pubsub")
    time.sleep(0.5)
    server("CLIENT", "PAUSE", "20000", "WRITE")
    peer.request("a", NO_WAIT)
    time.sleep(0.5)
    server("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
    server("CLIENT", "UNPAUSE")
    answer = peer.hear()
    equal(answer.code, BUSY, peer.ask("why").text)


class Shy(Cutter):
    """A network that cuts the connection for messages while it is being opened, so many times."""
    cuts = 0

    def allow(self, way, data):
        if way == "out" and b"SUBSCRIBE" in data and self.cuts > 0:
            self.cuts -= 1
            return b""
        return data


@test
def a_waiter_whose_second_connection_is_cut_while_it_is_opened_tries_again():
    server = Server()
    shy = Shy(server)
    holder, waiter = Peer(server.url()), Peer(server.url(port=shy.port))
    equal(holder.acquire("a", ttl=60000).code, OK)
    shy.cuts = 6
    waiter.request("a", wait=60000)
    eventually(lambda: shy.cuts == 0 or waiter.heard())
    eventually(lambda: server.waiters("a") == 1 or waiter.heard())
    require(not waiter.heard(), "it was refused")
    equal(holder.release(), OK)
    equal(waiter.hear().code, OK)


class Shaky(Cutter):
    """A network that loses both connections of a client that was told to wait: first the one for commands, and, before the server
    has greeted the next one, the one for messages, while it is being opened; once. The client has a database to select."""
    armed = True
    told = False   # the client knows that it must wait
    greetings = 0  # that are held back
    subscribed = False

    mine = threading.local()

    def pump(self, source, target, way, pair):
        self.mine.pair = pair
        super().pump(source, target, way, pair)

    def allow(self, way, data):
        if way == "in" and data.startswith(b":-"):
            self.told = True
        self.subscribed |= way == "in" and b"subscribe" in data
        if way == "out" and b"SUBSCRIBE" in data and self.armed:
            eventually(lambda: self.told)
            self.armed = False
            for pair in self.pairs:
                if pair != self.mine.pair:
                    hang_up(*pair)
            eventually(lambda: self.greetings == 1)
            return b""
        if way == "out" and b"SELECT" in data and self.told:
            self.greetings += 1
            eventually(lambda: self.greetings == 2)
        return data


@test
def a_waiter_that_loses_both_connections_while_the_second_is_opened_tries_again():
    server = Server()
    shaky = Shaky(server)
    waiter = Peer(server.url(port=shaky.port).replace("?", "/1?"))
    holder = Peer(server.url().replace("?", "/1?"))
    equal(holder.acquire("a", ttl=60000).code, OK)
    waiter.request("a", wait=60000)
    eventually(lambda: shaky.greetings == 2 or waiter.heard())
    eventually(lambda: shaky.subscribed or waiter.heard())
    require(not waiter.heard(), "it was refused")
    equal(holder.release(), OK)
    equal(waiter.hear().code, OK)


# ---- damage on the way -----------------------------------------------------------------------------------------------------

def answers_with(reply):
    """A server that shakes hands as Redis does, and then gives this for every script."""
    def serve(connection):
        data = b""
        while True:
            more = connection.recv(65536)
            if not more:
                return
            data += more
            for _ in range(len(re.findall(rb"\*\d+\r\n\$\d+\r\n[A-Za-z]+\r\n", more))):
                words = re.findall(rb"\$\d+\r\n([A-Za-z]+)\r\n", more)
                connection.sendall(reply if words and words[0].upper().startswith(b"EVAL") else b"+OK\r\n")
    return serve


@test
def a_reply_that_is_not_what_was_asked_for_is_never_a_lock():
    for reply in (b"+OK\r\n", b"$-1\r\n", b"*0\r\n", b"*-1\r\n", b"*1\r\n:1\r\n", b"$3\r\nabc\r\n",
                  b"*2\r\n:1\r\n$-1\r\n", b"*3\r\n*0\r\n*0\r\n*0\r\n", b":-1\r\n",
                  b"*2\r\n$2\r\nok\r\n:0\r\n", b"!bulk\r\n", b"$99999999999\r\n", b"*99999999\r\n", b"\r\n\r\n\r\n",
                  b"-\r\n", b"-ERR\r\n", b"-ERR something nobody has heard of\r\n"):
        peer = Peer(Listener(answers_with(reply)).url(**SOON))
        answer = peer.acquire("a")
        require(answer.code != OK, "%r was believed" % reply)
        require(len(answer.text) > 15, "%r: no sentence: %s %r" % (reply, show(answer.code), answer.text))
        peer.leave()


main()
