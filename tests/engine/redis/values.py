#!/usr/bin/env python3
"""values.py - the bytes beside a lock on servers that are hurt, and who is told what becomes of a lease that was taken up."""
import json
import shlex

from rig import *

DETACH = 2
SOON = {"timeout": "1s"}
KEY = "pawl:value:lock:a"


def holder_of(url, **more):
    peer = Peer(url)
    answer = peer.acquire("a", ttl=60000, **more)
    equal(answer.code, OK, answer.text)
    return peer, answer.token


def kept(server):
    """As it stands in the store, behind its head; None: there is nothing."""
    value = server("GET", KEY)
    return value.split("\n", 1)[1] if value else None


# ---- the server ----------------------------------------------------------------------------------------------------------

@test
def scripts_that_the_server_forgot_are_sent_again():
    server = Server()
    holder, token = holder_of(server.url())
    for text in "first", "second":
        server("SCRIPT", "FLUSH")
        equal(holder.ask("keep 0 " + text).code, OK)
        server("SCRIPT", "FLUSH")
        equal(holder.ask("fetch a"), (OK, token, text))
    equal(holder.release(), OK)


@test
def what_is_kept_is_as_durable_as_the_server():
    for durable in True, False:
        server = Server("--appendonly", "yes" if durable else "no", "--appendfsync", "always")
        holder, token = holder_of(server.url())
        equal(holder.ask("keep 0 before").code, OK)
        server.restart()
        if durable:
            eventually(lambda: holder.ask("fetch a") == (OK, token, "before"))
            equal(holder.ask("keep 0 after").code, OK)
            equal(holder.ask("fetch a"), (OK, token, "after"))
        else:
            eventually(lambda: holder.ask("fetch a").code == NOT_FOUND)
            equal(holder.ask("keep 0 after").code, LOST, "the lock is gone as well")
            equal(server.keys(KEY), [])


@test
def a_full_server_keeps_what_it_has_and_lets_it_go():
    server = Server("--maxmemory-policy", "noeviction")
    holder, token = holder_of(server.url())
    equal(holder.ask("keep 0 old").code, OK)
    server("CONFIG", "SET", "maxmemory", "1")
    for order in "keep 0 new", "keep 1000 new":
        equal(holder.ask(order).code, FULL)
        equal(holder.ask("fetch a"), (OK, token, "old"))
    equal(holder.ask("keep 0").code, OK)
    equal(holder.ask("fetch a").code, NOT_FOUND)
    server("CONFIG", "SET", "maxmemory", "0")
    equal(holder.ask("keep 0 new").code, OK)
    equal(holder.ask("fetch a"), (OK, token, "new"))
    equal(holder.release(), OK)


@test
def what_another_put_in_its_place_is_said_to_be_damaged_until_it_is_replaced():
    server = Server()
    holder, token = holder_of(server.url())
    for words in ("HSET", KEY, "a", "b"), ("SET", KEY, "something"), ("SET", KEY, "v1 1 2 3\nx"), ("SET", KEY, ""):
        server("DEL", KEY)
        server(*words)
        equal(holder.ask("fetch a").code, CORRUPT, words)
        equal(holder.ask("keep 0 ours").code, OK, words)
        equal(holder.ask("fetch a"), (OK, token, "ours"), words)
    equal(holder.release(), OK)


@test
def a_replica_does_not_tell_what_may_be_old():
    primary = Server()
    holder, token = holder_of(primary.url())
    equal(holder.ask("keep 0 text").code, OK)
    replica = Server("--replicaof", "127.0.0.1 %d" % primary.port)
    eventually(lambda: replica("GET", KEY))
    reader = Peer(replica.url())
    equal(reader.ask("fetch a").code, UNREACHABLE)
    replica("REPLICAOF", "NO", "ONE")
    equal(reader.ask("fetch a"), (OK, token, "text"))


@test
def the_rights_that_doctor_names_are_enough():
    server = Server()
    server("ACL", "SETUSER", "worker", "reset", "on", ">secret", "+eval", "+evalsha", "+acl|whoami", "+info", "+time")
    url = server.url().replace("redis://", "redis://worker:secret@")
    done = pawl("doctor", "-e", url, "--json")
    mend = next(line["mend"] for line in json.loads(done.output) if "ACL SETUSER worker" in (line["mend"] or ""))
    server(*shlex.split(mend[mend.index("ACL SETUSER"):]))
    holder, token = holder_of(url)
    equal(holder.ask("keep 0 text").code, OK)
    equal(holder.ask("fetch a"), (OK, token, "text"))
    equal(holder.ask("keep 0").code, OK)
    equal(holder.release(), OK)


# ---- repeated, late, never -------------------------------------------------------------------------------------------------

def requests_of(recorder):
    """The stores that were sent, as they would be sent again."""
    return [words for words in (shlex.split(line.replace("\\\\", "\\")) for _, line in list(recorder.lines))
            if words[0].upper() == "EVALSHA" and words[4:5] == [KEY]]


@test
def a_store_that_comes_once_more_changes_nothing_and_one_that_comes_late_undoes_nothing():
    server = Server()
    holder, token = holder_of(server.url())
    equal(holder.ask("keep 0 zero").code, OK)  # the script is known from now on
    recorder = Recorder(server)
    equal(holder.ask("keep 0 first").code, OK)
    first = eventually(lambda: requests_of(recorder))[0]
    before = server("GET", KEY)
    equal(server(*first), 1)
    equal(server("GET", KEY), before, "the same, and stored when it was")
    for order in "keep 0 second", "keep 50 third", "keep 0":
        equal(holder.ask(order).code, OK)
        if order != "keep 0 second":
            eventually(lambda: holder.ask("fetch a").code == NOT_FOUND)
        before = server("GET", KEY)
        equal(server(*first), 1)
        equal(server("GET", KEY), before, order)
    equal(holder.ask("fetch a").code, NOT_FOUND)
    equal(holder.ask("keep 0 last").code, OK)
    equal(holder.release(), OK)
    fresh = [*first[:8], str(int(first[8]) + 1000), *first[9:]]
    equal(server(*fresh), 0, "the lock is nobody's")
    equal(server(*fresh[:7], "ab" * 8, *fresh[8:]), -1, "who took the lease up has stored, and given the lock back")
    equal(holder.ask("fetch a"), (OK, token, "last"))
    other, _ = holder_of(server.url())
    equal(other.ask("keep 0 another's").code, OK)
    equal(server(*fresh), -1, "whether it was done before, nobody knows")
    equal(kept(server), "another's")


@test
def a_store_of_an_earlier_grant_is_not_said_to_be_done_because_the_same_client_stored_since():
    server = Server()
    holder, _ = holder_of(server.url())
    equal(holder.ask("keep 0 zero").code, OK)  # the script is known from now on
    recorder = Recorder(server)
    equal(holder.ask("keep 0 first").code, OK)
    first = eventually(lambda: requests_of(recorder))[0]
    never = [*first[:8], str(int(first[8]) + 1), *first[9:]]  # as if the next one of this grant had not come through
    equal(holder.release(), OK)
    equal(holder.acquire("a", ttl=60000).code, OK)
    for order in "keep 0 second", "keep 0 third":
        equal(holder.ask(order).code, OK)
    before = server("GET", KEY)
    equal(server(*never), -1, "whether it was done before, nobody knows")
    equal(server("GET", KEY), before)


@test
def what_is_kept_no_longer_leaves_nothing_behind_for_long():
    server = Server()
    holder, _ = holder_of(server.url())
    for order in "keep 1000 text", "keep 0":
        equal(holder.ask(order).code, OK)
        left = server("PTTL", KEY)
        require(0 < left <= 61000, left)
    equal(holder.ask("keep 0 text").code, OK)
    equal(server("PTTL", KEY), -1)


@test
def what_was_never_sent_is_unreachable_and_what_got_no_answer_is_in_doubt():
    server = Server()
    holder, token = holder_of(server.url(**SOON))
    equal(holder.ask("keep 0 before").code, OK)
    server.stop()
    equal(holder.ask("keep 0 doubtful").code, IN_DOUBT)
    server.go_on()
    eventually(lambda: holder.ask("keep 0 after").code == OK)
    equal(holder.ask("fetch a"), (OK, token, "after"))
    server.kill()
    eventually(lambda: holder.ask("keep 0 never").code == UNREACHABLE)
    equal(holder.ask("fetch a").code, UNREACHABLE)
    equal(holder.check(), OK)


def stores_through_cuts(way, step, least):
    server = Server()
    cutter = Cutter(server)
    holder, _ = holder_of(server.url(port=cutter.port, timeout="3s"))
    reader = Peer(server.url())
    count, rounds, last = 0, 0, None
    while cutter.cut is None:
        cutter.set_cut(way, count)
        text = "%d-%s" % (rounds, "x" * 100)
        code = holder.ask("keep %d %s" % (600000 * (rounds % 2), text)).code
        require(code in (OK, IN_DOUBT), show(code), count)
        found = reader.ask("fetch a")
        require(found.text == text or (code != OK and found.text == last), "after %d bytes" % count, show(code), found)
        last = found.text
        rounds += 1
        count += step
    require(rounds > least)
    note("%d stores" % rounds)


@test(within=200)
def a_cut_anywhere_on_the_way_of_a_store_breaks_no_promise():
    stores_through_cuts("out", 7, 20)


@test(within=200)
def a_cut_anywhere_on_the_way_of_its_answer_breaks_no_promise():
    stores_through_cuts("in", 1, 4)


# ---- whose it is -----------------------------------------------------------------------------------------------------------

@test
def who_has_lost_the_lock_in_the_server_stores_nothing():
    server = Server()
    holder, token = holder_of(server.url())
    equal(holder.ask("keep 0 before").code, OK)
    value = server("GET", "lock:a")
    for words in (("DEL", "lock:a"), ("SET", "lock:a", "delay"), ("SET", "lock:a", "another's"), ("SET", "lock:a", value),
                  ("HSET", "lock:a", "a", "b")):
        server("DEL", "lock:a")
        server(*words)  # without an end it is nobody's either
        equal(holder.ask("keep 0 after").code, LOST, words)
        equal(holder.ask("fetch a"), (OK, token, "before"), words)


@test
def in_its_lock_delay_a_lock_is_nobodys():
    server = Server()
    holder, _ = holder_of(server.url(), delay=30000)
    equal(holder.ask("keep 0 before").code, OK)
    server("PEXPIRE", "lock:a", 20000)
    equal(holder.ask("keep 0 after").code, LOST)
    equal(kept(server), "before")


@test
def a_value_is_no_lock_and_no_lock_is_a_value():
    server = Server()
    for prefix in "", "p", "lock:":
        holder, token = holder_of(server.url(prefix=prefix))
        equal(holder.ask("keep 0 text").code, OK)
        equal(holder.release(), OK)
        equal(json.loads(pawl("ls", "-e", server.url(prefix=prefix), "--json").output), [], prefix)
        equal(holder.ask("fetch a"), (OK, token, "text"))
    for prefix, name in ("", "pawl:value:lock:a"), ("p", "awl:value:lock:a"), ("pawl", ":value:lock:a"):
        equal(Peer(server.url(prefix=prefix)).acquire(name).code, INVALID, prefix)
    equal(kept(server), "text")


# ---- leases that are taken up ----------------------------------------------------------------------------------------------

def hand_over(server, **more):
    giver, token = holder_of(server.url(), flags=DETACH, **more)
    word = giver.ask("lease").text
    equal(giver.ask("forget").code, OK)
    taker = Peer(server.url())
    equal(taker.ask("adopt " + word), (OK, token, "-"))
    return giver, taker


@test
def who_took_up_a_lease_is_told_that_it_was_broken():
    server = Server()
    for mode in 0, 1:
        giver, taker = hand_over(server, mode=mode)
        equal(giver.leave(), 0)
        eventually(lambda: len(server("PUBSUB", "CHANNELS", "pawl:news:*")) == 1)
        equal(pawl("break", "-e", server.url(), "a").code, 0)
        eventually(lambda: taker.number("lost") == 1)
        equal(taker.check(), LOST)
        equal(taker.leave(), 0)


@test
def a_lock_delay_goes_with_the_lease_that_is_taken_up():
    server = Server()
    for mode in 0, 1:
        _, taker = hand_over(server, mode=mode, delay=90000)
        equal(taker.ask("renew").code, OK)
        require(server("PTTL", "lock:a") > 100000)
        equal(json.loads(pawl("ls", "-e", server.url(), "--json").output)[0]["name"], "a")
        equal(taker.release(), OK)
        equal(server.keys("lock:*"), [])


@test
def a_full_server_lets_a_lease_be_taken_up_and_given_back():
    server = Server("--maxmemory-policy", "noeviction")
    for mode in 0, 1:
        giver, _ = holder_of(server.url(), flags=DETACH, mode=mode)
        word = giver.ask("lease").text
        equal(giver.ask("forget").code, OK)
        server("CONFIG", "SET", "maxmemory", "1")
        equal(pawl("renew", "-e", server.url(), word).code, 0)
        equal(pawl("release", "-e", server.url(), word).code, 0)
        equal(server.keys("lock:*"), [])
        server("CONFIG", "SET", "maxmemory", "0")


main()
