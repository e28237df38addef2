#!/usr/bin/env python3
"""command.py - `pawl` on Redis from end to end: statuses, what COMMAND is told, and that no password shows anywhere."""
import json
import os
import signal
import time

from rig import *


@test
def run_gives_the_commands_status_and_its_token():
    server = Server()
    done = pawl("run", "-e", server.url(), "x", "sh", "-c", 'echo "$PAWL_NAME $PAWL_TOKEN $PAWL_URL"; exit 7')
    equal(done.code, 7, done.errors)
    name, token, url = done.output.split()
    equal(name, "x")
    require(int(token) > 1000000)
    require(url.startswith("redis://127.0.0.1:%d" % server.port), url)
    again = pawl("run", "-e", url, "x", "sh", "-c", 'echo "$PAWL_TOKEN"')
    equal(again.code, 0, again.errors)
    require(int(again.output) > int(token))
    equal(server.keys("lock:*"), [])
    equal(pawl("run", "-e", server.url(), "x", "sh", "-c", "kill -9 $$").code, 137)
    equal(pawl("run", "-e", server.url(), "x", "no-such-command-here").code, 127)


@test
def run_says_busy_timed_out_and_unreachable_by_its_status():
    server = Server()
    holder = Peer(server.url())
    equal(holder.acquire("x").code, OK)
    equal(pawl("run", "-n", "-e", server.url(), "x", "true").code, 1)
    equal(pawl("run", "-n", "-E", 42, "-e", server.url(), "x", "true").code, 42)
    equal(pawl("run", "-w", "200ms", "-e", server.url(), "x", "true").code, 1)
    equal(holder.release(), OK)
    done = pawl("run", "-e", "redis://127.0.0.1:%d?timeout=500ms" % free_port(), "x", "true")
    equal(done.code, 125)
    equal(done.errors.count("\n"), 1, done.errors)


@test
def a_lock_that_is_lost_is_123_and_the_command_is_gone():
    server = Server()
    place = directory()
    process = start_pawl("run", "-e", server.url(), "--ttl", "1500ms", "-k", "200ms", "x", "sh", "-c",
                         "echo $$ >\"$PLACE/pid\"; exec sleep 600", env=dict(os.environ, PLACE=place))
    eventually(lambda: os.path.exists(place + "/pid") and os.path.getsize(place + "/pid"))
    with open(place + "/pid", encoding="utf-8") as file:
        child = int(file.read())
    server("FLUSHALL")
    equal(process.wait(PATIENCE), 123)
    eventually(lambda: not os.path.exists("/proc/%d" % child) or "Z" in open("/proc/%d/stat" % child).read().split()[2])


@test
def a_server_that_dies_ends_the_command_before_its_lease_does():
    server = Server()
    place = directory()
    process = start_pawl("run", "-e", server.url(timeout="500ms"), "--ttl", "2s", "-k", "300ms", "x", "sh", "-c",
                         "touch \"$PLACE/up\"; exec sleep 600", env=dict(os.environ, PLACE=place))
    eventually(lambda: os.path.exists(place + "/up"))
    server.kill()
    equal(process.wait(PATIENCE), 123)


@test
def acquire_renew_and_release_work_with_a_lease_in_a_word():
    server = Server()
    done = pawl("acquire", "-e", server.url(), "--ttl", "30s", "x")
    equal(done.code, 0, done.errors)
    token, lease = done.output.split()
    equal(server.keys("lock:*"), ["lock:x"])
    matches(lease, r"^[A-Za-z0-9._:-]+$")
    equal(pawl("renew", "-e", server.url(), lease).code, 0)
    equal(pawl("run", "-n", "-e", server.url(), "x", "true").code, 1)
    equal(pawl("release", "-e", server.url(), lease).code, 0)
    require(pawl("release", "-e", server.url(), lease).code != 0)
    require(pawl("renew", "-e", server.url(), lease).code != 0)
    require(pawl("release", "-e", server.url(), lease[:-3] + "abc").code != 0)
    equal(server.keys("lock:*"), [])
    require(int(token) > 0)


@test
def a_lease_word_with_any_letter_changed_is_refused_or_finds_nothing():
    server = Server()
    done = pawl("acquire", "-e", server.url(), "--ttl", "60s", "x")
    lease = done.output.split()[1]
    value = server("GET", "lock:x")
    for at in range(len(lease)):
        for letter in "0z-":
            if lease[at] == letter:
                continue
            wrong = lease[:at] + letter + lease[at + 1:]
            require(pawl("release", "-e", server.url(), wrong).code != 0, wrong) if at % 3 == 0 else None
    equal(server("GET", "lock:x"), value)
    equal(pawl("release", "-e", server.url(), lease).code, 0)


@test
def looking_shows_holders_waiters_and_strangers():
    server = Server()
    holder = Peer(server.url())
    held = holder.acquire("mine")
    equal(held.code, OK)
    waiter = Peer(server.url())
    waiter.request("mine")
    eventually(lambda: server.waiters("mine") == 1)
    server("SET", "lock:theirs", "a stranger's value", "PX", 60000)
    server("SET", "unrelated", "x")
    done = pawl("ls", "-e", server.url(), "--json")
    equal(done.code, 0, done.errors)
    mine, theirs = json.loads(done.output)
    equal((mine["name"], mine["role"], mine["token"], mine["waiters"]), ("mine", "holder", str(held.token), 1))
    equal((theirs["name"], theirs["role"], theirs["owner"]), ("theirs", "holder", "not pawl: a stranger's value"))
    require("token" not in theirs, theirs)
    shown = pawl("show", "-e", server.url(), "mine")
    equal(shown.code, 0, shown.errors)
    equal(pawl("break", "-e", server.url(), "theirs").code, 0)
    equal(server("EXISTS", "lock:theirs"), 0)
    require(pawl("break", "-e", server.url(), "nobody").code != 0)


@test
def names_with_any_characters_stay_apart():
    server = Server()
    peers = []
    for name in ("a", "a%", "%61", "a:b", "a/b", "{a}", "ä", "a*", "?", "[a-z]", "\\", "'", '"'):
        peer = Peer(server.url())
        answer = peer.acquire(name)
        equal(answer.code, OK, name, answer.text)
        peers.append(peer)
    listed = pawl("ls", "-e", server.url(), "--json")
    equal(len(json.loads(listed.output)), len(peers))
    equal(len(json.loads(pawl("ls", "-e", server.url(), "--json", "a").output)), 5)
    equal(json.loads(pawl("ls", "-e", server.url(), "--json", "a*").output)[0]["name"], "a*")
    equal(len(json.loads(pawl("ls", "-e", server.url(), "--json", "a*").output)), 1)
    equal(len(json.loads(pawl("ls", "-e", server.url(), "--json", "?").output)), 1)


@test
def namespaces_do_not_see_each_other():
    server = Server()
    one, other = Peer(server.url(prefix="one:")), Peer(server.url(prefix="other:"))
    equal(one.acquire("a").code, OK)
    equal(other.acquire("a").code, OK)
    equal(json.loads(pawl("ls", "-e", server.url(prefix="lock:"), "--json").output), [])
    equal(server.keys("*:a"), ["one:a", "other:a"])


@test
def another_database_is_another_place():
    server = Server()
    one, other = Peer(server.url()), Peer(server.url().replace("?", "/5?"))
    equal(one.acquire("a").code, OK)
    equal(other.acquire("a").code, OK)
    connection = server.connect()
    connection("SELECT", 5)
    equal(connection("EXISTS", "lock:a"), 1)
    for wrong in ("/x", "/16", "/-1", "/0/1"):
        done = pawl("run", "-n", "-e", server.url().replace("?", wrong + "?"), "x", "true")
        equal(done.code, 125, wrong)
        require(done.errors.count("\n") == 1, done.errors)


# ---- secrets -----------------------------------------------------------------------------------------------------------

SECRET = "sEcr3t-0f-Th1s-Test"


def guarded():
    server = Server("--requirepass", SECRET, plain=False)
    return server, "redis://:%s@127.0.0.1:%d?prefix=lock:" % (SECRET, server.port)


@test
def the_command_that_runs_never_sees_the_password():
    server, url = guarded()
    done = pawl("run", "x", "sh", "-c", "env", PAWL_URL=url)
    equal(done.code, 0, done.errors)
    require(SECRET not in done.output, "in the environment")
    matches(done.output, "PAWL_URL=redis://")
    done = pawl("-e", url, "run", "-v", "-v", "x", "sh", "-c", "env")
    equal(done.code, 0, done.errors)
    require(SECRET not in done.output + done.errors, "in what -v says", done.errors)
    passfile = directory() + "/password"
    with open(passfile, "w", encoding="utf-8") as file:
        file.write(SECRET + "\n")
    os.chmod(passfile, 0o600)
    done = pawl("run", "-e", "redis://127.0.0.1:%d?passfile=%s" % (server.port, passfile), "x", "sh", "-c", "env; exit 3")
    equal(done.code, 3, done.errors)
    require(SECRET not in done.output + done.errors)


@test
def no_error_says_a_password():
    server, _ = guarded()
    for url in ("redis://:wrong-SECRET@127.0.0.1:%d" % server.port,
                "redis://user:wrong-SECRET@127.0.0.1:%d" % server.port,
                "redis://user:wrong-SECRET@127.0.0.1:%d" % free_port(),
                "redis://user:wrong-SECRET@no-such-host.invalid",
                "redis://user:wrong-SECRET@127.0.0.1:99999",
                "redis://user:wrong-SECRET@127.0.0.1?nonsense=1",
                "rediss://user:wrong-SECRET@127.0.0.1:%d?timeout=1s" % server.port,
                "redlock://user:wrong-SECRET@127.0.0.1:1,127.0.0.1:2,127.0.0.1:3?timeout=500ms"):
        done = pawl("run", "-v", "-v", "-n", "-e", url, "x", "true")
        equal(done.code, 125, url, done.errors)
        require("SECRET" not in done.errors + done.output, done.errors)
        require(done.errors.strip(), url)
    unreadable = pawl("run", "-e", "redis://127.0.0.1:1?passfile=/no/such/file", "x", "true")
    equal(unreadable.code, 125)
    matches(unreadable.errors, "/no/such/file")


@test
def a_password_may_come_from_a_variable_and_children_are_shown_its_name_only():
    server = Server("--requirepass", "s/e@c:r e%t", plain=False)
    url = "redis://127.0.0.1:%d?passenv=SECRET" % server.port
    child = 'echo "$PAWL_URL"; "$0" run -n inner true'
    done = pawl("run", "-e", url, "x", "sh", "-c", child, PAWL, SECRET="s/e@c:r e%t")
    equal((done.code, done.output.strip()), (0, url), done.errors)
    equal(pawl("run", "-n", "-e", url.replace("//", "//default@"), "x", "true", SECRET="s/e@c:r e%t").code, 0)
    put = pawl("put", "--store", url, "r", 1, data="x", SECRET="s/e@c:r e%t")
    equal(put.code, 0, put.errors)
    for secret in ("", "wrong"):
        done = pawl("run", "-n", "-e", url, "x", "true", SECRET=secret)
        equal(done.code, 125)
        require("wrong" not in done.errors, done.errors)
    both = pawl("run", "-n", "-e", url.replace("//", "//u:p@"), "x", "true", SECRET="x")
    equal(both.code, 125)
    matches(both.errors, "both a password and passenv=")
    matches(Peer(url).opened.text, "does not read the environment")


@test
def url_options_that_are_wrong_are_named():
    for option, word in (("nonsense=1", "nonsense"), ("timeout=soon", "timeout"), ("timeout=-1s", "timeout"),
                         ("insecure=1", "insecure|tls"), ("ca=/etc/passwd", "ca|tls"), ("ttl=1ms", "ttl")):
        done = pawl("run", "-n", "-e", "redis://127.0.0.1:1?" + option, "x", "true")
        equal(done.code, 125, option)
        equal(done.errors.count("\n"), 1, done.errors)
        matches(done.errors, word)


@test
def an_interrupted_wait_leaves_nothing():
    server = Server()
    holder = Peer(server.url())
    equal(holder.acquire("x", ttl=60000).code, OK)
    process = start_pawl("run", "-e", server.url(), "x", "true")
    eventually(lambda: server.waiters("x") == 1)
    process.send_signal(signal.SIGINT)
    equal(process.wait(PATIENCE), 130)
    eventually(lambda: server.waiters("x") == 0)


main()
