#!/usr/bin/env python3
"""cut.py - the connection ends after every single byte of an exchange, in either direction: what was believed was held, what
was refused left nothing, and tokens grow."""
from rig import *


def settled(server, name, holder):
    """Nobody but the holder has it, soon and long before its ttl."""
    eventually(lambda: bool(server("EXISTS", "lock:" + name)) == holder, server.keys())


def exchange(server, cutter, peer, last):
    """One pair through the proxy, which will cut. The token of the last grant."""
    answer = peer.acquire("a", wait=10000, ttl=60000)
    if answer.code != OK:
        require(answer.code in (UNREACHABLE, IN_DOUBT, TIMEOUT), show(answer.code), answer.text)
        settled(server, "a", False)
        return last
    require(answer.token > last, "a token came again")
    equal(peer.check(), OK)
    settled(server, "a", True)
    code = peer.release()
    require(code in (OK, IN_DOUBT), show(code))
    settled(server, "a", False)
    return answer.token


def every_byte(way, step):
    server = Server()
    cutter = Cutter(server)
    peer = Peer(server.url(port=cutter.port, timeout="2s"))
    equal(peer.acquire("warm").code, OK)
    equal(peer.release(), OK)
    last, count, cuts = 0, 0, 0
    while cutter.cut is None:
        cutter.set_cut(way, count)
        try:
            last = exchange(server, cutter, peer, last)
        except Failed as failure:
            raise Failed("after %d bytes %s" % (count, way), *failure.args) from failure
        cuts += cutter.cut is None
        count += step
    note("%d cuts, %d bytes" % (cuts, count))
    require(cuts > 20)
    equal(peer.leave(), 0)
    equal([key for key in server.keys() if not key.startswith(("pawl:fence:", "pawl:past:", "pawl:old"))], [])


@test(within=400)
def a_cut_after_every_byte_that_is_sent_breaks_no_promise():
    every_byte("out", 2)


@test(within=400)
def a_cut_after_every_byte_that_is_received_breaks_no_promise():
    every_byte("in", 1)


@test(within=400)
def a_cut_anywhere_in_a_hand_over_breaks_no_promise():
    server = Server()
    cutter = Cutter(server)
    holder = Peer(server.url())
    waiter = Peer(server.url(port=cutter.port, timeout="2s"))
    last, count, cuts = 0, 0, 0
    while cutter.cut is None:
        held = holder.acquire("a", wait=30000, ttl=60000)
        equal(held.code, OK)
        require(held.token > last)
        waiter.request("a", wait=30000)
        eventually(lambda: server.waiters("a") == 1)
        cutter.set_cut("in", count)
        equal(holder.release(), OK)
        got = waiter.hear()
        equal(got.code, OK, "after %d bytes" % count, waiter.ask("why").text)
        require(got.token > held.token, "after %d bytes" % count)
        equal(waiter.check(), OK)
        last = got.token
        code = waiter.release()
        require(code in (OK, IN_DOUBT), show(code))
        settled(server, "a", False)
        cuts += cutter.cut is None
        count += 3
    note("%d cuts" % cuts)
    require(cuts > 5)


main()
