#!/usr/bin/env python3
"""interop.py - the clients that are in production already exclude us and we them, both ways: redis-py's Lock, npm's redlock
and redis-semaphore, each as it comes from its registry."""
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time

# The module comes from the distribution, whose python need not be the first in the PATH.
if not importlib.util.find_spec("redis") and sys.executable != "/usr/bin/python3" and os.path.exists("/usr/bin/python3"):
    os.execv("/usr/bin/python3", ["/usr/bin/python3", *sys.argv])

from rig import *

HERE = os.path.dirname(os.path.abspath(__file__))
NO_RENEW = 1


# ---- the others --------------------------------------------------------------------------------------------------------

class RedisPy:
    """redis.lock.Lock as its documentation shows it."""
    prefix = "lock:"

    def __init__(self, *ports):
        import redis
        self.redis = redis
        self.client = redis.Redis(host="127.0.0.1", port=ports[0])
        self.lock = None

    def make(self, name, ttl):
        self.lock = self.client.lock("lock:" + name, timeout=ttl / 1000, sleep=0.005, thread_local=False)
        return self.lock

    def take(self, name, ttl=60000):
        return self.make(name, ttl).acquire(blocking=False)

    def wait(self, name, ttl=60000):
        return self.make(name, ttl).acquire()

    def extend(self, ttl=60000):
        try:
            return self.lock.extend(ttl / 1000, replace_ttl=True)
        except self.redis.exceptions.LockNotOwnedError:
            return False

    def release(self):
        try:
            self.lock.release()
            return True
        except self.redis.exceptions.LockNotOwnedError:
            return False


class Node:
    """worker.mjs in a process of its own."""
    kind = None

    def __init__(self, *ports):
        self.process = subprocess.Popen(["node", os.path.join(HERE, "worker.mjs"), self.kind, *map(str, ports)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
                                        env={**os.environ, "NODE_MODULES_OF": modules()})
        at_end(self.end)

    def end(self):
        self.process.kill()
        self.process.wait()

    def order(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        answer = self.process.stdout.readline().strip()
        require(answer in ("yes", "no"), "%s: %s" % (words, answer))
        return answer == "yes"

    def take(self, name, ttl=60000):
        return self.order("take", name, ttl)

    def wait(self, name, ttl=60000):
        return self.order("wait", name, ttl)

    def extend(self, ttl=60000):
        return self.order("extend", ttl)

    def release(self):
        return self.order("release")


class Redlock(Node):
    kind, prefix = "redlock", "lock:"


class Semaphore(Node):
    kind, prefix = "semaphore", "mutex:"


def modules():
    """Where npm's modules are; installed there if they are not."""
    place = os.path.join(BUILD, "tests/interop")
    if not os.path.isdir(os.path.join(place, "node_modules/redlock")):
        os.makedirs(place, exist_ok=True)
        shutil.copy(os.path.join(HERE, "package.json"), place)
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock", "--loglevel=error"], cwd=place,
                       check=True, stdout=subprocess.DEVNULL)
    return place


# ---- one server --------------------------------------------------------------------------------------------------------

def they_hold_and_we_are_refused_until_they_let_go(other):
    server = Server()
    theirs, ours = other(server.port), Peer(server.url(prefix=other.prefix))
    require(theirs.take("a"))
    equal(ours.acquire("a").code, BUSY)
    equal(ours.acquire("a", wait=200).code, TIMEOUT)
    ours.request("a")
    eventually(lambda: server.waiters("a", other.prefix) == 1)
    time.sleep(0.3)
    require(not ours.heard(), "two hold it")
    require(theirs.release())
    equal(ours.hear().code, OK)
    equal(ours.release(), OK)


def when_their_lease_runs_out_we_get_it_and_their_late_release_does_not_free_ours(other):
    server = Server()
    theirs, ours = other(server.port), Peer(server.url(prefix=other.prefix))
    require(theirs.take("a", 1000))
    equal(ours.acquire("a", wait=FOREVER).code, OK)
    require(not theirs.extend(60000), "they extended a lock of ours")
    require(not theirs.release(), "they released a lock of ours")
    equal(ours.check(), OK)
    equal(server("EXISTS", other.prefix + "a"), 1)
    require(not other(server.port).take("a"))
    equal(ours.release(), OK)


def we_hold_and_they_are_refused_until_we_let_go(other):
    server = Server()
    theirs, ours = other(server.port), Peer(server.url(prefix=other.prefix))
    equal(ours.acquire("a").code, OK)
    require(not theirs.take("a"))
    done = []
    thread = threading.Thread(target=lambda: done.append(theirs.wait("a")), daemon=True)
    thread.start()
    time.sleep(0.3)
    require(not done, "two hold it")
    equal(ours.check(), OK)
    equal(ours.release(), OK)
    eventually(lambda: done == [True])
    equal(ours.acquire("a").code, BUSY)
    require(theirs.release())


def when_our_lease_runs_out_they_get_it_and_our_late_release_does_not_free_theirs(other):
    server = Server()
    theirs, ours = other(server.port), Peer(server.url(prefix=other.prefix))
    equal(ours.acquire("a", ttl=800).code, OK)
    ours.stop()
    eventually(lambda: theirs.take("a"))
    ours.go_on()
    equal(ours.check(), LOST)
    equal(ours.release(), LOST)
    require(theirs.extend(60000), "we took theirs away")
    equal(ours.acquire("a").code, BUSY)
    require(theirs.release())


def our_renewal_does_not_touch_theirs(other):
    server = Server()
    theirs, ours = other(server.port), Peer(server.url(prefix=other.prefix))
    equal(ours.acquire("a", ttl=1500).code, OK)
    server("DEL", other.prefix + "a")
    require(theirs.take("a", 1000))
    eventually(lambda: ours.number("lost") == 1)
    equal(ours.check(), LOST)
    eventually(lambda: not server("EXISTS", other.prefix + "a"), "our renewal keeps theirs alive")


def our_lock_delay_keeps_them_out_too(other):
    server = Server()
    theirs, ours = other(server.port), Peer(server.url(prefix=other.prefix))
    equal(ours.acquire("a", ttl=500, delay=6000).code, OK)
    ours.kill()
    time.sleep(1.0)
    require(not theirs.take("a"), "they got it in our lock-delay")
    eventually(lambda: theirs.take("a"))


def their_lock_shows_in_a_listing_as_a_strangers(other):
    server = Server()
    theirs = other(server.port)
    require(theirs.take("a"))
    done = pawl("ls", "-e", server.url(prefix=other.prefix), "--json")
    equal(done.code, 0, done.errors)
    entry, = json.loads(done.output)
    equal((entry["name"], entry["role"]), ("a", "holder"))
    matches(entry["owner"], "^not pawl: ")
    require("token" not in entry, entry)
    require(pawl("show", "-e", server.url(prefix=other.prefix), "a").code == 0)
    require(theirs.release())


def count_up(path):
    """What must not be done by two at once."""
    with open(path, encoding="utf-8") as file:
        value = int(file.read())
    time.sleep(0.0005)
    with open(path, "w", encoding="utf-8") as file:
        file.write("%d" % (value + 1))


def storm(url, path, strangers, rounds):
    """Peers and strangers, all at once on one name. Whatever went wrong."""
    problems = []

    def ours():
        peer = Peer(url)
        for _ in range(rounds):
            equal(peer.acquire("storm", wait=60000, patience=60).code, OK)
            count_up(path)
            equal(peer.check(), OK)
            equal(peer.release(), OK)

    def theirs(stranger):
        for _ in range(rounds):
            require(stranger.wait("storm", 30000))
            count_up(path)
            require(stranger.release(), "they lost it")

    def guarded(function, *arguments):
        try:
            function(*arguments)
        except Exception as problem:
            problems.append(repr(problem))

    threads = [threading.Thread(target=guarded, args=(ours,), daemon=True) for _ in range(4)]
    threads += [threading.Thread(target=guarded, args=(theirs, stranger), daemon=True) for stranger in strangers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
        if thread.is_alive():
            problems.append("somebody was never served")
    return problems, len(threads)


def a_storm_of_both_loses_no_update(other):
    server = Server()
    path = directory() + "/count"
    with open(path, "w", encoding="utf-8") as file:
        file.write("0")
    problems, workers = storm(server.url(prefix=other.prefix), path, [other(server.port) for _ in range(3)], 40)
    equal(problems, [])
    with open(path, encoding="utf-8") as file:
        equal(int(file.read()), workers * 40)
    equal([key for key in server.keys() if not key.startswith(("pawl:fence:", "pawl:past:", "pawl:old", "pawl:alive:"))], [])


# ---- three servers -----------------------------------------------------------------------------------------------------

def quorum():
    servers = [Server() for _ in range(3)]
    ports = [server.port for server in servers]
    return servers, ports, "redlock://" + ",".join("127.0.0.1:%d" % port for port in ports)


def on_three_servers_each_excludes_the_other(other):
    servers, ports, url = quorum()
    url += "?prefix=" + other.prefix
    theirs, ours = other(*ports), Peer(url)
    answer = ours.acquire("a", wait=5000)
    equal(answer.code, OK, answer.text)
    require(not theirs.take("a"))
    equal(ours.check(), OK)
    equal(ours.release(), OK)

    # Our release is over when two have confirmed it: theirs may find the third still taken, and be content with two.
    def taken_everywhere():
        taken = theirs.take("a")
        if taken and len({server("GET", other.prefix + "a") for server in servers}) == 1:
            return True
        if taken:
            theirs.release()
        return False

    eventually(taken_everywhere)
    equal(ours.acquire("a").code, BUSY)
    servers[0].kill()
    equal(ours.acquire("a").code, BUSY)
    require(theirs.release())
    answer = ours.acquire("a", wait=10000)
    equal(answer.code, OK, answer.text)
    require(not theirs.take("a"))
    equal(ours.release(), OK)


def on_three_servers_a_storm_of_both_loses_no_update(other):
    servers, ports, url = quorum()
    path = directory() + "/count"
    with open(path, "w", encoding="utf-8") as file:
        file.write("0")
    problems, workers = storm(url + "?prefix=" + other.prefix, path, [other(*ports) for _ in range(2)], 10)
    equal(problems, [])
    with open(path, encoding="utf-8") as file:
        equal(int(file.read()), workers * 10)


# ---- each of them -----------------------------------------------------------------------------------------------------

ONE = (they_hold_and_we_are_refused_until_they_let_go,
       when_their_lease_runs_out_we_get_it_and_their_late_release_does_not_free_ours,
       we_hold_and_they_are_refused_until_we_let_go,
       when_our_lease_runs_out_they_get_it_and_our_late_release_does_not_free_theirs,
       our_renewal_does_not_touch_theirs,
       our_lock_delay_keeps_them_out_too,
       their_lock_shows_in_a_listing_as_a_strangers,
       a_storm_of_both_loses_no_update)
THREE = (on_three_servers_each_excludes_the_other, on_three_servers_a_storm_of_both_loses_no_update)


def add(other, called, parts):
    for part in parts:
        def run(part=part):
            part(other)
        run.__name__ = "%s: %s" % (called, part.__name__)
        test(run, within=120)


missing = [tool for tool in ("redis-server", "node", "npm") if not shutil.which(tool)]
if not importlib.util.find_spec("redis"):
    missing.append("python3-redis")
add(RedisPy, "redis-py", ONE)
if not os.path.exists(os.path.join(BUILD, "src/engine/pawl-redlock.so")):
    missing.append("the redlock engine")
add(Redlock, "npm redlock", ONE + THREE)
add(Semaphore, "npm redis-semaphore", ONE + THREE)
main(missing=" ".join(missing))
