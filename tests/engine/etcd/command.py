#!/usr/bin/env python3
"""command.py - `pawl` on etcd from end to end: looking, breaking, leases in words, history, and a doctor whose commands mend
what it finds."""
import json
import re
import shutil
import subprocess

from hurt import *


def listed(store, *arguments):
    done = pawl("ls", "-e", store.url(), "--json", *arguments)
    equal(done.code, 0, done.errors)
    return json.loads(done.output)


def shown(store, name):
    done = pawl("show", "-e", store.url(), "--json", name)
    return json.loads(done.output) if done.code == 0 else []


def past_of(store, name):
    return [line for line in shown(store, name) if line["role"] == "past"]


def stranger(store, name, seconds=60):
    """A key in the line that `etcdctl lock` or Go's Mutex would make. Gives its lease."""
    lease = int(store.asked("lease/grant", {"TTL": str(seconds)})["ID"])
    key = "%s%s/%x" % (store.prefix, name, lease)
    store.asked("kv/put", {"key": text64(key), "value": "", "lease": str(lease)})
    return lease


# ---- looking -----------------------------------------------------------------------------------------------------------

@test
def looking_shows_holders_waiters_and_strangers():
    store = Etcd.one()
    holder, waiter = Peer(store.url()), Peer(store.url())
    held = holder.acquire("mine")
    equal(held.code, OK, held.text)
    waiter.request("mine")
    eventually(lambda: len(store.line("mine")) == 2)
    lease = stranger(store, "theirs")
    store.put(store.prefix + "no lock", "")
    mine, theirs = listed(store)
    equal((mine["name"], mine["role"], mine["token"], mine["waiters"]), ("mine", "holder", str(held.token), 1))
    equal((theirs["name"], theirs["role"], theirs["owner"]), ("theirs", "holder", "not pawl: %x" % lease))
    require("token" not in theirs, theirs)
    require(50000 < theirs["remaining_ms"] <= 60000, theirs)
    equal([line["role"] for line in shown(store, "mine")][:2], ["holder", "waiter"])


@test
def a_line_behind_a_stranger_waits_and_is_shown_so():
    store = Etcd.one()
    lease = stranger(store, "a")
    waiter = Peer(store.url())
    waiter.request("a")
    eventually(lambda: [line["role"] for line in shown(store, "a")] == ["holder", "waiter"])
    store.revoke(lease)
    equal(waiter.hear().code, OK)


@test
def names_with_any_characters_stay_apart():
    store = Etcd.one()
    peers = []
    for name in ("a", "a%", "%61", "a:b", "a/b", "..", ".", ".pawl", "a.b", "ä", "a*", "\\", "'", '"'):
        peer = Peer(store.url())
        answer = peer.acquire(name)
        equal(answer.code, OK, name, answer.text)
        peers.append(peer)
    equal(len(listed(store)), len(peers))
    equal(len(listed(store, "a")), 6)
    equal([line["name"] for line in listed(store, "a/")], ["a/b"])
    equal([line["name"] for line in listed(store, ".p")], [".pawl"])


@test
def more_than_a_page_of_names_is_listed_each_once():
    store = Etcd.one()
    lease = int(store.asked("lease/grant", {"TTL": "600"})["ID"])
    names = ["n%05d" % number for number in range(10300)]
    for start in range(0, 10300, 100):
        store.asked("kv/txn", {"success": [{"requestPut": {"key": text64("%s%s/%x" % (store.prefix, name, lease)), "value": "",
                                                            "lease": str(lease)}} for name in names[start:start + 100]]})
    equal([line["name"] for line in listed(store)], names)
    store.revoke(lease)


# ---- history -----------------------------------------------------------------------------------------------------------

@test
def history_tells_who_had_it_also_to_others():
    store = Etcd.one()
    equal(pawl("run", "-e", store.url(), "a", "true").code, 0)
    equal(pawl("run", "-e", store.url(), "a", "false").code, 1)
    past = past_of(store, "a")
    equal([(line["note"], line["how"]) for line in past], [("false", "released"), ("true", "released")])
    require(int(past[0]["token"]) > int(past[1]["token"]))


@test
def a_holder_that_was_killed_is_a_past_owner_that_expired():
    store = Etcd.one()
    holder = Peer(store.url())
    token = holder.acquire("a", ttl=500).token
    eventually(lambda: store.keys(".pawl/past/"))
    holder.kill()
    eventually(lambda: store.line("a") == [])
    equal([(int(line["token"]), line["how"]) for line in past_of(store, "a")], [(token, "expired")])


@test
def a_release_a_moment_ago_is_not_told_as_a_death():
    store = Etcd.one()
    holder = Peer(store.url())
    for _ in range(3):
        equal(holder.acquire("a").code, OK)
        equal(holder.release(), OK)
    equal([line["how"] for line in past_of(store, "a")], ["released"] * 3)


@test
def history_is_kept_for_the_last_batches_and_no_more():
    store = Etcd.one()
    for start in range(0, 300, 100):
        store.asked("kv/txn", {"success": [{"requestPut": {"key": text64("%s.pawl/past/0000%08x" % (store.prefix, start + number)),
                                                            "value": text64("what")}} for number in range(100)]})
    holder = Peer(store.url())
    equal(holder.acquire("a").code, OK)
    eventually(lambda: len(store.keys(".pawl/past/")) < 200)
    equal(holder.release(), OK)
    equal(past_of(store, "a")[0]["how"], "released")


# ---- breaking and asking ------------------------------------------------------------------------------------------------

def letters(store):
    """Mail, without the sentinels of leases."""
    return [key for key in store.keys(".pawl/mail/") if "/lease-" not in key]


@test
def a_break_cuts_the_holder_off_and_it_is_told_why():
    store = Etcd.one()
    holder, waiter = Peer(store.url()), Peer(store.url())
    equal(holder.acquire("a").code, OK)
    waiter.request("a")
    eventually(lambda: len(store.line("a")) == 2)
    done = pawl("break", "-e", store.url(), "a")
    equal(done.code, 0, done.errors)
    equal(waiter.hear().code, OK)
    eventually(lambda: holder.number("reason") == 3) # broken
    equal(holder.release(), LOST)
    equal(past_of(store, "a")[0]["how"], "broken")
    eventually(lambda: not letters(store)) # it was read
    require(pawl("break", "-e", store.url(), "nobody").code != 0)


@test
def a_break_removes_a_stranger_too():
    store = Etcd.one()
    stranger(store, "a")
    equal(pawl("break", "-e", store.url(), "a").code, 0)
    equal(store.line("a"), [])


@test
def a_break_of_a_holder_that_stands_still_is_done_all_the_same():
    store = Etcd.one()
    holder = Peer(store.url())
    equal(holder.acquire("a", ttl=9000).code, OK)
    holder.stop()
    at_end(holder.go_on)
    equal(pawl("break", "-e", store.url(), "a").code, 0)
    equal(store.line("a"), [])
    holder.go_on()
    eventually(lambda: holder.check() == LOST)


@test
def all_of_many_who_share_are_broken_at_once():
    store = Etcd.one()
    lease = int(store.asked("lease/grant", {"TTL": "60"})["ID"])
    for number in range(60): # more than one transaction takes
        key = "%sa/%x-%032x-s" % (store.prefix, lease, number + 1)
        store.asked("kv/put", {"key": text64(key), "value": "", "lease": str(lease)})
    equal(len(listed(store)), 60)
    equal(pawl("break", "-e", store.url(), "a").code, 0)
    equal(store.line("a"), [])
    store.revoke(lease)


@test
def mail_that_nobody_reads_goes_with_the_lock():
    store = Etcd.one()
    holder = Peer(store.url())
    equal(holder.acquire("a", ttl=1000).code, OK)
    holder.stop()
    at_end(holder.go_on)
    equal(pawl("break", "-e", store.url(), "a").code, 0)
    equal(len(store.keys(".pawl/mail/")), 1)
    eventually(lambda: not letters(store))


# ---- leases -------------------------------------------------------------------------------------------------------------

@test
def acquire_renew_and_release_work_with_a_lease_in_a_word():
    store = Etcd.one()
    done = pawl("acquire", "-e", store.url(), "--ttl", "30s", "x")
    equal(done.code, 0, done.errors)
    token, lease = done.output.split()
    require(int(token) > 0)
    matches(lease, r"^e1\.[A-Za-z0-9._-]+$")
    equal(len(store.line("x")), 1)
    equal(pawl("renew", "-e", store.url(), lease).code, 0)
    equal(pawl("run", "-n", "-e", store.url(), "x", "true").code, 1)
    equal(pawl("release", "-e", store.url(), lease).code, 0)
    equal(store.line("x"), [])
    require(pawl("release", "-e", store.url(), lease).code != 0)
    require(pawl("renew", "-e", store.url(), lease).code != 0)


@test
def a_shared_lease_is_given_back_as_what_it_is():
    store = Etcd.one()
    leases = [pawl("acquire", "-e", store.url(), "--ttl", "30s", "--shared", "x").output.split()[1] for _ in range(2)]
    equal(len(store.line("x")), 2)
    for lease in leases:
        done = pawl("release", "-e", store.url(), lease)
        equal(done.code, 0, done.errors)
    equal(store.line("x"), [])


@test
def a_lease_is_not_made_longer_by_being_looked_at():
    store = Etcd.one()
    holder = Peer(store.url())
    equal(holder.acquire("x", ttl=3000, flags=2).code, OK)
    word = holder.ask("lease").text.strip()
    equal(holder.ask("forget").code, OK)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        answer = holder.ask("adopt " + word)
        if answer.code != OK:
            break
        equal(holder.ask("forget").code, OK)
        time.sleep(0.3)
    equal(answer.code, LOST, answer.text)
    eventually(lambda: store.line("x") == [])


# ---- doctor and init ----------------------------------------------------------------------------------------------------

def findings(url):
    done = pawl("doctor", "-e", url, "--json")
    require(done.code in (0, 1), done.errors)
    return json.loads(done.output)


def finding(url, pattern):
    """The finding that says so, or None."""
    return next((one for one in findings(url) if re.search(pattern, one["what"])), None)


def obey(command):
    done = subprocess.run(command, shell=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={**os.environ, "ETCDCTL_API": "3"})
    return done.stdout


@test
def doctor_finds_nothing_dangerous_in_a_cluster_and_leaves_nothing():
    store = Etcd.three()
    found = findings(store.url())
    equal([one["what"] for one in found if one["severity"] == "danger"], [])
    require(any("3 members" in one["what"] for one in found), found)
    require(any("it has a leader" in one["what"] for one in found), found)
    equal(store.left(), [])


@test
def doctor_says_that_the_url_names_too_few():
    store = Etcd.three()
    require(finding(store.url(store.members[0]), "names 1 of 3 members"))
    equal(finding(store.url(), "names . of 3 members"), None)


@test
def doctor_says_that_it_is_one_server_and_open_to_everybody():
    store = Etcd.one()
    equal(finding(store.url(), "it is one server")["severity"], "advice")
    equal(finding(store.url(), "lets in whoever")["severity"], "advice")


@test
def doctor_says_what_cannot_be_reached():
    store = Etcd.one()
    store.members[0].kill()
    found = findings(store.url(timeout="500ms"))
    equal([one["severity"] for one in found], ["danger"])


@test
def doctor_says_that_the_database_is_full_and_its_commands_make_room():
    store = Etcd("etcd")
    at_end(store.down)
    store.fresh()
    store.members[0].restart("--quota-backend-bytes", str(4 << 20))
    try:
        for _ in range(100):
            store.call("kv/put", {"key": text64("filled"), "value": text64("x" * 200000)})
        raise AssertionError("it is not full")
    except ConnectionError as error:
        matches(str(error), "space")
    full = finding(store.url(), "database is full")
    equal(full["severity"], "danger")
    text = obey(full["mend"])
    equal(finding(store.url(), "database is full"), None, text)
    equal(pawl("run", "-e", store.url(), "a", "true").code, 0)


@test
def doctor_says_what_the_user_may_not_and_its_commands_allow_it():
    store = Etcd("etcd-auth")
    at_end(store.down)
    worker = "worker:one%3A100%25@"
    require(finding(store.url(prefix="lock/", user=worker), "user worker may write what locks need"))
    url = store.url(prefix="its own/", user=worker)
    denied = next(one for one in findings(url) if one["severity"] == "danger")
    matches(denied["what"], "may not|permission")
    matches(denied["mend"], "role grant-permission pawl readwrite 'its own/'")
    text = obey("export ETCDCTL_USER='root:all/of it'; " + denied["mend"])
    require(finding(url, "user worker may write what locks need"), text, findings(url))
    equal(pawl("run", "-e", url, "a", "true").code, 0)


@test
def after_init_again_tokens_are_greater_than_those_of_any_store_before():
    store = Etcd.one()
    before = Peer(store.url())
    token = before.acquire("a").token
    equal(before.release(), OK)
    equal(pawl("init", "-e", store.url(), "--yes").code, 0)
    first = Peer(store.url())
    greater = first.acquire("a").token
    require(greater > token + (1 << 47), greater, token)
    equal(first.release(), OK)
    equal(pawl("init", "-e", store.url(), "--yes").code, 0)
    require(Peer(store.url()).acquire("a").token > greater + (1 << 47))
    require(pawl("init", "-e", store.url()).code != 0)


main(have("etcd", "etcd3"))
