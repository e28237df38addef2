#!/usr/bin/env python3
"""every_byte.py - the connection ends after every single byte of a call, in either direction: what was told is what is there."""
from guards import *


def visit(server, guard, number):
    """Four calls, one of which is cut. All are resolved: the server is there."""
    data = "data %d" % number
    reply = guard.put("r", number, data)
    equal(reply.code, OK, reply.text)
    equal(server("GET", "data:r"), data)
    reply = guard.get("r", number)
    equal((reply.code, reply.number, reply.data), (OK, number, data.encode()), reply.text)
    equal(guard.put("r", number - 1, "late").code, STALE)
    equal(server("GET", "data:r"), data)
    equal(guard.admit("forgotten", number).code, OK)
    reply = guard.forget("forgotten", number)
    equal(reply.code, OK, reply.text)
    equal(server("EXISTS", "pawl:mark:data:forgotten"), 0)


def every_byte(way, step):
    server = Server()
    cutter = Cutter(server)
    guard = Guard(place(server, port=cutter.port))
    visit(server, guard, 2)
    number, count, cuts = 3, 0, 0
    while cutter.cut is None:
        cutter.set_cut(way, count)
        try:
            visit(server, guard, number)
        except Failed as failure:
            raise Failed("after %d bytes %s" % (count, way), *failure.args) from failure
        cuts += cutter.cut is None
        number += 1
        count += step
    note("%d cuts, %d bytes" % (cuts, count))
    require(cuts > 20)
    equal(guard.leave(), 0)


@test(within=400)
def a_cut_after_every_byte_that_is_sent_is_resolved():
    every_byte("out", 5)


@test(within=400)
def a_cut_after_every_byte_that_is_received_is_resolved():
    every_byte("in", 1)


main()
