#!/usr/bin/env python3
"""kazoo_worker.py HOST:PORT/CHROOT SESSION_S - one lock of kazoo, which is told to count our nodes too. Reads orders, one line
each, and answers each with one line: take NAME | wait NAME | release  ->  yes | no | error TEXT"""
import logging
import sys

from kazoo.client import KazooClient

# What it calls contenders beside its own: as ours and Curator's are named.
OURS = ("lock-",)


def obey(client, words, held):
    if words[0] == "release":
        held.pop().release()
        return True
    lock = client.Lock("/" + words[1], extra_lock_patterns=OURS)
    got = lock.acquire(blocking=words[0] == "wait")
    if got:
        held.append(lock)
    return got


def main():
    logging.getLogger("kazoo").addHandler(logging.NullHandler())
    client = KazooClient(hosts=sys.argv[1], timeout=float(sys.argv[2]))
    client.start(timeout=20)
    held = []
    for line in sys.stdin:
        try:
            answer = "yes" if obey(client, line.split(), held) else "no"
        except Exception as error:
            answer = "error %r" % error
        print(answer, flush=True)
    client.stop()


main()
