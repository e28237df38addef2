#!/usr/bin/env python3
"""kazoo_worker.py HOST:PORT/CHROOT SESSION_S [election] - one lock of kazoo, or one who is elected, which is told to count our
nodes too. Reads orders, one line each, and answers each with one line:
  take NAME | wait NAME | release  ->  yes | no | error TEXT
  who NAME                         ->  the contenders, with | between them"""
import functools
import logging
import sys
import threading

from kazoo.client import KazooClient

# What it calls contenders beside its own: as ours and Curator's are named.
OURS = ("lock-",)


class Office:
    """An election as if it were a lock: who leads has it."""

    def __init__(self, client, path, extra_lock_patterns):
        self.election = client.Election(path)
        self.election.lock = client.Lock(path, "a candidate", extra_lock_patterns=extra_lock_patterns)
        self.elected, self.over = threading.Event(), threading.Event()
        self.thread = threading.Thread(target=self.election.run, args=(self.lead,), daemon=True)

    def lead(self):
        self.elected.set()
        self.over.wait()

    def acquire(self, blocking):
        self.thread.start()
        return self.elected.wait(None if blocking else 0)

    def release(self):
        self.over.set()
        self.thread.join()


def obey(client, words, held):
    if words[0] == "release":
        held.pop().release()
        return True
    if words[0] == "who":
        return Office(client, "/" + words[1], extra_lock_patterns=OURS).election.contenders()
    make = functools.partial(Office, client) if "election" in sys.argv[3:] else client.Lock
    lock = make("/" + words[1], extra_lock_patterns=OURS)
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
            answer = obey(client, line.split(), held)
            answer = "|".join(answer) if isinstance(answer, list) else "yes" if answer else "no"
        except Exception as error:
            answer = "error %r" % error
        print(answer, flush=True)
    client.stop()


main()
