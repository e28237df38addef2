#!/usr/bin/env python3
"""redis_py.py PORT - drives redis-py's Lock for the benchmark: jobs on stdin, figures on stdout (bench/peer.h)."""
import sys
import threading
import time

import redis

TTL = 10  # seconds


class Turns:
    """Owner changes, counted by whoever has the lock."""

    def __init__(self):
        self.last, self.changes, self.stop = None, 0, False

    def turn(self, me):
        self.changes += self.last != me
        self.last = me


def connect():
    return redis.Redis(host="127.0.0.1", port=PORT)


def pairs(client, name, n):
    for _ in range(n):
        lock = client.lock(name, timeout=TTL)
        lock.acquire()
        lock.release()


def pair(n):
    begin = time.perf_counter()
    pairs(CLIENT, "peer:pair", int(n))
    return (time.perf_counter() - begin) / int(n) * 1e6


def together(bodies):
    threads = [threading.Thread(target=body) for body in bodies]
    for thread in threads:
        thread.start()
    return threads


def threads(count, n):
    begin = time.perf_counter()
    for thread in together([lambda i=i: pairs(CLIENT, "peer:%d" % i, int(n)) for i in range(int(count))]):
        thread.join()
    return int(count) * int(n) / (time.perf_counter() - begin)


def take_turns(waiters, seconds, hold, pause):
    state = Turns()

    def waiter(me):
        client = connect()
        while not state.stop:
            lock = client.lock("peer:turns", timeout=TTL)
            lock.acquire()
            state.turn(me)
            if hold:
                time.sleep(hold)
            lock.release()
            if pause:
                time.sleep(pause)

    begin = time.perf_counter()
    running = together([lambda me=me: waiter(me) for me in range(int(waiters))])
    time.sleep(float(seconds))
    rate = state.changes / (time.perf_counter() - begin)
    state.stop = True
    for thread in running:
        thread.join()
    return rate


def turns(waiters, seconds):
    return take_turns(waiters, seconds, 0, 0)


def polite(waiters, seconds):
    return take_turns(waiters, seconds, 0.001, 0.005)


if sys.argv[1] == "--version":
    print("redis-py " + redis.__version__)
    sys.exit(0)
PORT = int(sys.argv[1])
CLIENT = connect()
JOBS = {"pair": pair, "threads": threads, "turns": turns, "polite": polite}
for line in sys.stdin:
    job, *arguments = line.split()
    print(JOBS[job](*arguments), flush=True)
