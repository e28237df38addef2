#!/usr/bin/env python3
"""silent.py - a store that does not answer is not a lock that is taken, and neither is one whose holder was killed long ago. One
program for every kind of store: SILENT names the servers (tests/servers), SILENT_OPTIONS what the URL has besides.

The servers are stopped, not killed: their machine still accepts connections, and nothing is ever said on them."""
import os

from stores import *

NAME = os.environ["SILENT"]
OPTIONS = os.environ.get("SILENT_OPTIONS", "")
UNHEARD = (UNREACHABLE, NO_QUORUM)


def tree(pid):
    """A process and all that it has started: each backend of PostgreSQL is one."""
    found = [pid]
    for word in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % word, encoding="utf-8") as file:
                if int(file.read().rpartition(") ")[2].split()[1]) == pid:
                    found += tree(int(word))
        except OSError:  # it has ended meanwhile
            pass
    return found


class Servers:
    """Of the test's own, all at once."""

    def __init__(self):
        self.store = Store(NAME)
        self.stopped = []
        at_end(self.end)

    def end(self):
        for pid in self.stopped:
            os.kill(pid, signal.SIGCONT)
        self.store.down()

    def stop(self):
        for member in self.store.members:
            for pid in tree(member.pid):
                self.stopped.append(pid)
                stand_still(pid)

    def url(self, **options):
        words = [OPTIONS] if OPTIONS else []
        words += ["%s=%s" % pair for pair in options.items()]
        base = self.store.base
        return base + ("&" if "?" in base else "?") + "&".join(words) if words else base


def started():
    """Servers that have been used: what is made at the first use is there."""
    servers = Servers()
    equal(pawl("-e", servers.url(), "run", "-w", "60s", "warm", "true").code, 0)
    return servers


def refused(servers, *words):
    done = pawl("-e", servers.url(), "run", *words, "a", "true")
    require(done.code == 125, "status %d" % done.code, done.errors)
    matches(done.errors, "no answer|not answered|no connection|nodes can vote|answered in time", done.errors)


@test
def a_stopped_store_is_125_and_a_message_however_short_the_wait():
    servers = started()
    servers.stop()
    refused(servers, "-w", "1s")
    refused(servers, "-w", "300ms")
    refused(servers, "-n")


@test
def a_client_that_was_served_before_is_told_the_same():
    servers = started()
    peers = [Peer(servers.url()), Peer(servers.url(timeout="1s")), Peer("trace+" + servers.url())]
    for peer in peers:
        answer = peer.acquire("a", wait=20000)
        equal(answer.code, OK, answer.text)
        equal(peer.release(), OK)
    servers.stop()
    for peer in peers:
        answer = peer.acquire("a", wait=700)
        require(answer.code in UNHEARD, show(answer.code), answer.text)
        require(len(answer.text) > 15, answer.text)


@test
def a_lock_that_is_taken_is_a_timeout():
    servers = started()
    holder, waiter, late = Peer(servers.url()), Peer(servers.url()), Peer(servers.url())
    equal(holder.acquire("a", ttl=60000, wait=20000).code, OK)
    equal(waiter.acquire("a", wait=2000).code, TIMEOUT)
    equal(pawl("-e", servers.url(), "run", "-w", "2s", "a", "true").code, 1)
    equal(pawl("-e", servers.url(), "run", "-n", "a", "true").code, 1)
    late.request("a", wait=20000)
    equal(holder.release(), OK)
    equal(late.hear().code, OK)


@test
def after_the_lease_of_a_killed_holder_the_first_try_succeeds():
    """Nobody requests the lock in between. Some stores round a lease up, and a busy machine is late: what is enough is found out."""
    servers = started()
    for pause in (2.5, 5, 10, 20):
        name = "after %s" % pause
        holder = start_pawl("-e", servers.url(), "run", "--ttl", "2s", name, "--", "sh", "-c", "echo held; exec sleep 600")
        equal(holder.stdout.readline(), "held\n")
        holder.kill()
        time.sleep(pause)
        done = pawl("-e", servers.url(), "run", "-n", name, "true")
        if done.code == 0:
            break
    note("%s s after the kill: %d" % (pause, done.code))
    equal(done.code, 0, done.errors)


@test
def a_break_that_is_not_answered_is_in_doubt():
    """Whatever the patience of the connection: who repeats it without a token could cut off the next holder."""
    servers = started()
    holder, breakers = Peer(servers.url()), [Peer(servers.url()), Peer(servers.url(timeout="60s"))]
    equal(holder.acquire("a", ttl=60000, wait=20000).code, OK)
    for peer in breakers:
        equal(peer.acquire("b", wait=20000).code, OK)
        equal(peer.release(), OK)
    if breakers[0].ask("break b").code == UNSUPPORTED:
        return
    servers.stop()
    for peer in breakers:
        answer = peer.ask("break a")
        equal(answer.code, IN_DOUBT, answer.text)
        require(len(answer.text) > 15, answer.text)


@test
def a_store_that_stops_while_a_claim_waits_is_never_a_free_lock():
    servers = started()
    holder, waiter = Peer(servers.url(timeout="1s")), Peer(servers.url(timeout="1s"))
    equal(holder.acquire("a", ttl=30000, wait=20000).code, OK)
    waiter.request("a", wait=3000, ttl=30000)
    time.sleep(1)
    require(not waiter.heard())
    servers.stop()
    answer = waiter.hear()
    require(answer.code in (TIMEOUT, *UNHEARD), show(answer.code))
    note("it is told %s" % show(answer.code))
    answer = waiter.acquire("a", wait=700)  # the next one has not been answered at all
    require(answer.code in UNHEARD, show(answer.code), answer.text)


main(have(NAME) if have(NAME) else "")
