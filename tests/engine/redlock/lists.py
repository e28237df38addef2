#!/usr/bin/env python3
"""lists.py - which servers have a vote: clients whose URLs name different servers, and servers that are replaced while
clients work. The clients are contract-peer and pawl; the servers are real, and this test's own."""
import os
import pathlib
import re
import shutil
import sys
import tempfile
import threading
import time

SOURCE = pathlib.Path(os.environ["SOURCE_DIR"])
sys.path[:0] = [str(SOURCE / "tests/tap"), str(SOURCE / "tests/engine/redis")]
import rig
from rig import INVALID, NO_QUORUM, OK, pawl
from tap import check, equal, finish

PATIENCE = 40
NO_RENEW = 1  # enum pawl_lock_flag


def soon(condition, patience=2 * PATIENCE):
    until = time.monotonic() + patience
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.05)
    return False


class Node(rig.Server):
    def marker(self):
        return self("GET", "pawl:member:lock:") or ""

    def votes(self):
        run = re.search(r"run_id:(\w+)", self("INFO", "server")).group(1)
        return self.marker().startswith(run)


def url(*nodes, options=""):
    return "redlock://" + ",".join("127.0.0.1:%d" % node.port for node in nodes) + options


def nodes_of(number):
    return [Node() for _ in range(number)]


class Peer(rig.Peer):
    token, text = 0, ""

    def hear(self, patience=2 * PATIENCE):
        answer = super().hear(patience)
        self.token = answer.token or self.token
        self.text = answer.text
        return answer.code

    def ask(self, order):
        return super().ask(order, 2 * PATIENCE)


def take(where, name="a", ttl=1500):
    """One lock by one client: the code."""
    peer = Peer(where)
    code = peer.ask("acquire %s %d %d" % (name, 500 * PATIENCE, ttl))
    if code == OK:
        peer.ask("release")
    return code


class Crowd:
    """Clients that take one lock in turn, from different lists: counts grants and moments with two holders."""

    def __init__(self):
        self.lock = threading.Lock()
        self.holders, self.overlaps, self.tokens, self.threads, self.ended = 0, 0, [], [], False
        self.grants = {}
        self.problems = []

    def begin(self, where, name):
        thread = threading.Thread(target=self.work, args=(where, name))
        thread.start()
        self.threads.append(thread)

    def work(self, where, name):
        try:
            peer = Peer(where)
            while not self.ended:
                self.turn(peer, name)
        except Exception as problem:
            self.problems.append("%s: %r" % (name, problem))

    def turn(self, peer, name):
        if peer.ask("acquire a 500 5000") != OK:
            time.sleep(0.05)
            return
        with self.lock:
            self.holders += 1
            self.overlaps += self.holders > 1
            self.tokens.append(peer.token)
            self.grants[name] = self.grants.get(name, 0) + 1
        time.sleep(0.002)
        with self.lock:
            self.holders -= 1
        peer.ask("release")

    def end(self):
        self.ended = True
        for thread in self.threads:
            thread.join()

    def is_sound(self):
        return self.overlaps == 0 and self.tokens == sorted(set(self.tokens)) and not self.problems

    def __str__(self):
        back = sum(later <= earlier for earlier, later in zip(self.tokens, self.tokens[1:]))
        return "%s: %d overlaps, %d tokens that went back %s" % (self.grants, self.overlaps, back, self.problems or "")


# ---- lists that differ -----------------------------------------------------------------------------------------------


def two_lists_at_once():
    one, two, three, four = nodes_of(4)
    crowd = Crowd()
    for _ in range(2):
        crowd.begin(url(one, two, three), "old")
        crowd.begin(url(one, two, four), "new")
    soon(four.votes, 9)  # as long as a server needs that forgot its data
    time.sleep(2)
    crowd.end()
    check("clients with {1,2,3} beside clients with {1,2,4} never hold at the same time", crowd.is_sound(), str(crowd))
    check("one of the two lists is that of the locks", len(crowd.tokens) > 0, str(crowd))
    check("at most one of the servers that differ votes", three.votes() + four.votes() <= 1)


def a_list_with_a_server_that_is_not_one():
    one, two, three, four = nodes_of(4)
    equal("the first list is the one that counts", take(url(one, two, three)), OK)
    equal("another one works with the servers that both name", take(url(one, two, four)), OK)
    time.sleep(1)
    check("the other server gets no vote", not four.votes(), four.marker())
    status, said, _ = pawl("-e", url(one, two, four), "doctor")
    check("doctor says which server is not one of them, and which are",
          status == 1 and "not one of the servers" in said and str(three.port) in said, said)
    two.kill()
    code = take(url(one, four, two, options="?timeout=2s"))
    equal("so no majority of that list can grant where one of the shared servers is away", code, NO_QUORUM)
    equal("and a majority of the first list can", take(url(one, two, three)), OK)


def longer_and_shorter_lists():
    one, two, three, four, five = nodes_of(5)
    equal("three servers are used", take(url(one, two, three)), OK)
    peer = Peer(url(one, two, three, four, five))
    equal("a list that contains them is refused", peer.ask("acquire a -1 1500"), INVALID)
    status, _, said = pawl("-e", url(one, two, three, four, five), "run", "-n", "a", "true")
    check("with a message that names the servers of the locks",
          status == 125 and all(str(node.port) in said for node in (one, two, three)) and "5" in said, said)
    others = nodes_of(2)
    five_of = [three, four, five] + others
    for node in five_of:
        node("FLUSHALL")
    equal("five new ones are used", take(url(*five_of)), OK)
    equal("a list that is a part of them is refused", take(url(four, five, others[0])), INVALID)


def order_and_names():
    one, two, three = nodes = nodes_of(3)
    equal("a list is used", take(url(*nodes)), OK)
    markers = [node("GET", "pawl:roster:lock:") for node in nodes]
    equal("its order does not matter", take(url(three, one, two)), OK)
    equal("nor how the servers are called", take(url(*nodes).replace("127.0.0.1", "localhost")), OK)
    check("and nobody changes anything for that", [node("GET", "pawl:roster:lock:") for node in nodes] == markers)


def a_server_of_another_list():
    first, second = nodes_of(3), nodes_of(3)
    equal("three servers are used", take(url(*first)), OK)
    equal("three others, too", take(url(*second)), OK)
    rosters = [node("GET", "pawl:roster:lock:") for node in first + second]
    peer = Peer(url(first[0], first[1], second[0]))
    equal("a server of other locks does not vote beside a majority", peer.ask("acquire b 0 60000"), OK)
    check("it has no key of that", second[0]("EXISTS", "lock:b") == 0)
    check("and stays where it is", [node("GET", "pawl:roster:lock:") for node in first + second] == rosters)


# ---- replacing a server ----------------------------------------------------------------------------------------------


def a_server_is_replaced():
    one, two, three, four, five = nodes_of(5)
    crowd = Crowd()
    old, new, newest = url(one, two, three), url(one, two, four), url(five, two, four)
    crowd.begin(old, "old")
    crowd.begin(old, "old")
    check("clients work", soon(lambda: len(crowd.tokens) > 20), str(crowd))
    status, _, said = pawl("-e", new, "init")
    check("a server is not replaced without being sure", status == 125 and "--yes" in said, said)
    status, _, said = pawl("-e", new, "init", "--yes")
    check("init with the new list replaces it", status == 0, said)
    crowd.begin(new, "new")
    check("it votes later", soon(four.votes), four.marker())
    one.stop()
    code = take(url(one, two, three, options="?timeout=2s"), "b")
    equal("with a shared server stopped the old list has no majority any more", code, NO_QUORUM)
    equal("and the new one has", take(url(one, two, four), "b"), OK)
    one.go_on()
    count = crowd.grants.get("old", 0)
    check("clients with the old list still work on the servers that both have",
          soon(lambda: crowd.grants.get("old", 0) > count + 5), str(crowd))
    equal("the next one is replaced", pawl("-e", newest, "init", "--yes")[0], 0)
    crowd.begin(newest, "newest")
    check("it votes later", soon(five.votes), five.marker())
    check("clients with the newest list work", soon(lambda: crowd.grants.get("newest", 0) > 10), str(crowd))
    peer = Peer(old)
    check("the oldest list is refused", peer.ask("acquire a -1 1500") in (INVALID, NO_QUORUM), peer.text)
    status, said, _ = pawl("-e", old, "doctor")
    check("doctor says that its servers were replaced", "was replaced" in said, said)
    crowd.end()
    check("never were there two holders, and tokens only grew", crowd.is_sound(), str(crowd))


def a_replaced_server_comes_back_empty():
    one, two, three, four = nodes_of(4)
    take(url(one, two, three))
    equal("a server is replaced", pawl("-e", url(one, two, four), "init", "--yes")[0], 0)
    peer = Peer(url(one, two, three))
    equal("a client with the old list is open", peer.ask("acquire b 0 1500"), OK)
    three("FLUSHALL")
    check("the new one votes", soon(lambda: take(url(one, two, four)) == OK and four.votes()), four.marker())
    time.sleep(2)
    peer.ask("check")
    check("and the old one never again", not three.votes() and four.votes(), three.marker())


def a_longer_list_is_made():
    one, two, three, four, five = nodes = nodes_of(5)
    crowd = Crowd()
    crowd.begin(url(one, two, three), "three")
    check("clients work on three", soon(lambda: len(crowd.tokens) > 20), str(crowd))
    status, _, said = pawl("-e", url(*nodes), "init", "--yes")
    check("init makes five of them", status == 0, said)
    crowd.begin(url(*nodes), "five")
    check("clients work on five", soon(lambda: crowd.grants.get("five", 0) > 20), str(crowd))
    equal("three are refused", take(url(one, two, three)), INVALID)
    crowd.end()
    check("never were there two holders, and tokens only grew", crowd.is_sound(), str(crowd))


class Torn(rig.Cutter):
    """Before a server: ends the connection on which that is given a seat in a list of five, once; before the server has read
    it, or ("in") before its answer is read. Who comes then is kept waiting."""

    def __init__(self, server, way, pause=0.5):
        self.way, self.pause, self.writing, self.torn = way, pause, False, False
        super().__init__(server)

    def relay(self, client):
        if self.torn:
            time.sleep(self.pause)
        super().relay(client)

    def allow(self, way, data):
        self.writing = self.writing or way == "out" and data.count(b"-127.0.0.1:") >= 5
        if self.torn or not self.writing or way != self.way:
            return data
        self.torn = True
        return b""


def sets_of(nodes):
    """The sets that the servers are in: the second word of their rosters."""
    return {(node("GET", "pawl:roster:lock:") or "- -").split()[1] for node in nodes}


def init_loses_a_connection():
    one, two, three, four, five = nodes = nodes_of(5)
    for seat, way in ((0, "out"), (4, "out"), (2, "in")):
        for node in nodes:
            node("FLUSHALL")
        equal("three servers are used", take(url(one, two, three)), OK)
        torn = Torn(nodes[seat], way)
        status, _, said = pawl("-e", url(*nodes[:seat], torn, *nodes[seat + 1:]), "init", "--yes")
        check("a connection of init is lost", torn.torn)
        check("it ends well when all servers have the list", status == 0 and len(sets_of(nodes)) == 1,
              (status, said, sets_of(nodes)))
    check("and clients work on five", soon(lambda: take(url(*nodes)) == OK))


def init_is_interrupted():
    one, two, three, four, five = nodes = nodes_of(5)
    crowd = Crowd()
    crowd.begin(url(one, two, three), "three")
    check("clients work on three", soon(lambda: len(crowd.tokens) > 20), str(crowd))
    torn = Torn(four, "out", 3 * PATIENCE)
    status, _, said = pawl("-e", url(one, two, three, torn, five, options="?timeout=2s"), "init", "--yes")
    check("init fails where it cannot reach a server any more", torn.torn and status == 125, (status, said))
    check("and not all of them have the new list", len(sets_of(nodes)) > 1, sets_of(nodes))
    crowd.begin(url(*nodes), "five")
    status, _, said = pawl("-e", url(*nodes), "init", "--yes")
    check("it can be run again", status == 0, said)
    check("clients work on five", soon(lambda: crowd.grants.get("five", 0) > 5), str(crowd))
    crowd.end()
    check("never were there two holders, and tokens only grew", crowd.is_sound(), str(crowd))


def init_is_run_twice():
    one, two, three, four, five = nodes = nodes_of(5)
    holder, next_one = Peer(url(one, two, three)), Peer(url(*nodes))
    equal("a lock is held", holder.ask("acquire a 0 8000 %d" % NO_RENEW), OK)
    check("a third vote is taken away: without it the new servers make a majority", soon(lambda: three("DEL", "lock:a")))
    for run in ("once", "and once more"):
        status, _, said = pawl("-e", url(*nodes), "init", "--yes")
        check("init makes five of three, " + run, status == 0, said)
    equal("it is still held", holder.ask("check"), OK)
    check("the lock can be had", soon(lambda: next_one.ask("acquire a 20000 60000") == OK), next_one.text)
    equal("but not before the lease of its former holder was over", holder.ask("check"), rig.LOST)
    check("with a greater token", next_one.token > holder.token, (holder.token, next_one.token))


def a_server_that_init_has_taken_into_another_set():
    one, two, three, four, five = nodes_of(5)
    crowd = Crowd()
    crowd.begin(url(one, two, three), "three")
    check("clients work on three servers", soon(lambda: len(crowd.tokens) > 20), str(crowd))
    run, floor, longest = one.marker().split()[:3]  # what init does to the first server of a longer list
    roster = "0123456789abcdef fedcba9876543210 " + " ".join(
        "00000001-%016x-127.0.0.1:%d" % (0x0123456789abcdef + seat, node.port)
        for seat, node in enumerate((one, two, three, four, five)))
    one("EVAL", "redis.call('MSET', KEYS[1], ARGV[1], KEYS[2], ARGV[2])", 2, "pawl:roster:lock:", "pawl:member:lock:", roster,
        "?%s %s %s n %d 0123456789abcdef" % (run, floor, longest, time.time() * 1000000))
    so_far = len(crowd.tokens)
    check("they go on with the two that are left", soon(lambda: len(crowd.tokens) > so_far + 20), str(crowd))
    time.sleep(4)  # one that forgot its data takes its seat again at once
    equal("and do not take the first one back from that set", one("GET", "pawl:roster:lock:"), roster)
    crowd.end()
    check("never were there two holders, tokens only grew", crowd.is_sound(), str(crowd))


def too_few_of_the_former_servers():
    one, two, three, four, five = nodes_of(5)
    take(url(one, two, three))
    status, _, said = pawl("-e", url(one, four, five), "init", "--yes")
    check("init is refused where most of the former servers are not in the list",
          status == 125 and "only 1 of the 3" in said, said)
    equal("and has changed nothing", take(url(one, two, three)), OK)
    one("DEL", "pawl:member:lock:", "pawl:roster:lock:")
    equal("unless the operator has removed what they know", pawl("-e", url(one, four, five), "init", "--yes")[0], 0)
    equal("then the list works", take(url(one, four, five)), OK)


TESTS = (two_lists_at_once, a_list_with_a_server_that_is_not_one, longer_and_shorter_lists, order_and_names,
         a_server_of_another_list, a_server_is_replaced, a_replaced_server_comes_back_empty, a_longer_list_is_made,
         init_loses_a_connection, init_is_interrupted, init_is_run_twice,
         a_server_that_init_has_taken_into_another_set, too_few_of_the_former_servers)

if not shutil.which("redis-server"):
    print("1..1\nok 1 - redlock # SKIP missing: redis-server")
    sys.exit(0)
with tempfile.TemporaryDirectory(prefix="pawl-redlock.") as rig.scratch:
    for test in TESTS:
        if len(sys.argv) == 1 or test.__name__ in sys.argv[1:]:
            print("# %s" % test.__name__, flush=True)
            try:
                test()
            finally:
                rig.end_all()
finish()
