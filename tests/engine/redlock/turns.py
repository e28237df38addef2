#!/usr/bin/env python3
"""turns.py - many clients that want one lock of a redlock: who is next, and what it costs. The clients are redlock-crowd,
contract-peer and pawl; the servers are real, and this test's own."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import time

SOURCE = pathlib.Path(os.environ["SOURCE_DIR"])
sys.path[:0] = [str(SOURCE / "tests/tap"), str(SOURCE / "tests/engine/redis")]
import rig
from rig import OK, pawl
from tap import check, equal, finish

PATIENCE = 40
QUEUE = "pawl:turn:lock:a"


def soon(condition):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(0.02)
    return False


class Nodes(list):
    def __init__(self, number):
        super().__init__(rig.Server() for _ in range(number))

    def url(self, options=""):
        return "redlock://" + ",".join("127.0.0.1:%d" % node.port for node in self) + options

    def queued(self, number):
        return soon(lambda: all(node("ZCARD", QUEUE) == number for node in self))


class Peer(rig.Peer):
    def ask(self, order):
        return super().ask(order, 2 * PATIENCE).code

    def get(self):
        return self.hear(2 * PATIENCE).code


def waiters(nodes, number):
    """A holder and clients that wait, in their order."""
    holder = Peer(nodes.url())
    equal("one holds", holder.ask("acquire a 0 60000"), OK)
    waiting = []
    for i in range(number):
        peer = Peer(nodes.url())
        peer.ask("acquire warm%d 0 60000" % i)
        peer.ask("release")
        peer.tell("acquire a 0 60000")
        waiting.append(peer)
        check("another waits", nodes.queued(i + 1), [node("ZRANGE", QUEUE, 0, -1) for node in nodes])
    return holder, waiting


# ---- who is next ------------------------------------------------------------------------------------------------------


def first_come_first_served():
    nodes = Nodes(3)
    holder, waiting = waiters(nodes, 3)
    holder.ask("release")
    for i, peer in enumerate(waiting):
        code = peer.get()
        equal("number %d gets it" % i, code, OK)
        check("and those behind it wait", nodes.queued(2 - i))
        peer.ask("release")
    check("no key of a queue is left", soon(lambda: not any(node("EXISTS", QUEUE) for node in nodes)))


def the_first_is_stopped():
    nodes = Nodes(3)
    holder, (first, second, third) = waiters(nodes, 3)
    first.stop()
    holder.ask("release")
    equal("a waiter that is stopped is passed over, long before any lease ends", second.get(), OK)
    first.go_on()
    second.ask("release")
    codes = []

    def take_turn(peer):
        codes.append(peer.get())
        peer.ask("release")

    threads = [threading.Thread(target=take_turn, args=(peer,)) for peer in (first, third)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    equal("the others get it in their turn", codes, [OK, OK])


def the_first_is_killed():
    nodes = Nodes(3)
    holder, (first, second) = waiters(nodes, 2)
    first.kill()
    holder.ask("release")
    equal("a waiter that was killed is passed over", second.get(), OK)


def one_gives_up():
    nodes = Nodes(3)
    holder = Peer(nodes.url())
    holder.ask("acquire a 0 60000")
    equal("one who gives up", pawl("-e", nodes.url(), "run", "-w", "500ms", "a", "true")[0], 1)
    check("leaves no place in the queues", nodes.queued(0))


def a_lock_is_broken():
    nodes = Nodes(3)
    holder, (first,) = waiters(nodes, 1)
    equal("the lock is broken", pawl("-e", nodes.url(), "break", "a")[0], 0)
    equal("and the next one has it", first.get(), OK)


def what_is_kept_is_not_held():
    nodes = Nodes(3)
    Peer(nodes.url()).ask("acquire b 0 1000")
    for node in nodes:
        node("SET", "lock:a", "turn 0123456789abcdef", "PX", 600000)
    status, said, _ = pawl("-e", nodes.url(), "show", "a")
    check("a lock that is kept for the next one has no holder", "holder" not in said, (status, said))


# ---- what it costs ----------------------------------------------------------------------------------------------------


def crowd(nodes, clients, seconds):
    said = subprocess.run([os.environ["REDLOCK_CROWD"], nodes.url(), str(clients), str(seconds)], stdout=subprocess.PIPE,
                          text=True, timeout=120, check=False).stdout
    found = re.match(r"(\d+) grants/s, (\d+) overlaps, (\d+) failures", said)
    return [int(number) for number in found.groups()] if found else [0, 1, 1]


def twenty_clients():
    nodes = Nodes(3)
    rates = {1: 0, 20: 0}
    wrong = []
    for clients in (1, 20, 1, 20):
        rate, overlaps, failures = crowd(nodes, clients, 1.5)
        rates[clients] = max(rates[clients], rate)
        wrong += [(clients, overlaps, failures)] if overlaps or failures else []
    check("nobody fails, and never do two hold", not wrong, wrong)
    check("twenty clients get at least a seventh of the grants of one (%d, %d)" % (rates[20], rates[1]),
          rates[20] * 7 >= rates[1])
    before = sum(int(calls) for calls in re.findall(r"cmdstat_evalsha:calls=(\d+)", nodes[0]("INFO", "commandstats")))
    rate, _, _ = crowd(nodes, 20, 1.5)
    after = sum(int(calls) for calls in re.findall(r"cmdstat_evalsha:calls=(\d+)", nodes[0]("INFO", "commandstats")))
    grants = rate * 1.5 + 20
    check("with at most six requests to a server for each (%.1f)" % ((after - before) / grants),
          after - before <= 6 * grants)


TESTS = (first_come_first_served, the_first_is_stopped, the_first_is_killed, one_gives_up, a_lock_is_broken,
         what_is_kept_is_not_held, twenty_clients)

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
