"""jobs.py - what the peers in Python share: jobs on stdin, figures on stdout (bench/peer.h).

A peer has connect() that gives a client, lock(client, name) that gives something to acquire() and release(), and
disconnect(client)."""
import sys
import threading
import time


class Turns:
    """Owner changes, counted by whoever has the lock."""

    def __init__(self):
        self.last, self.changes, self.stop = None, 0, False

    def turn(self, me):
        self.changes += self.last != me
        self.last = me


def together(bodies):
    threads = [threading.Thread(target=body) for body in bodies]
    for thread in threads:
        thread.start()
    return threads


class Jobs:
    def __init__(self, peer):
        self.peer = peer
        self.client = peer.connect()

    def pairs(self, name, n):
        for _ in range(n):
            lock = self.peer.lock(self.client, name)
            lock.acquire()
            lock.release()

    def pair(self, n):
        begin = time.perf_counter()
        self.pairs("peer:pair", int(n))
        return (time.perf_counter() - begin) / int(n) * 1e6

    def threads(self, count, n):
        begin = time.perf_counter()
        for thread in together([lambda i=i: self.pairs("peer:%d" % i, int(n)) for i in range(int(count))]):
            thread.join()
        return int(count) * int(n) / (time.perf_counter() - begin)

    def take_turns(self, waiters, seconds, hold, pause):
        """Each waiter with a connection of its own."""
        state = Turns()
        clients = [self.peer.connect() for _ in range(int(waiters))]

        def waiter(me):
            while not state.stop:
                lock = self.peer.lock(clients[me], "peer:turns")
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
        for client in clients:
            self.peer.disconnect(client)
        return rate

    def turns(self, waiters, seconds):
        return self.take_turns(waiters, seconds, 0, 0)

    def polite(self, waiters, seconds):
        return self.take_turns(waiters, seconds, 0.001, 0.005)


def serve(peer):
    if sys.argv[1] == "--version":
        print(peer.version())
        return
    peer.port = int(sys.argv[1])
    jobs = Jobs(peer)
    for line in sys.stdin:
        job, *arguments = line.split()
        print(getattr(jobs, job)(*arguments), flush=True)
