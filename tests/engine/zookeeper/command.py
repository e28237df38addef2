#!/usr/bin/env python3
"""command.py - `pawl` on ZooKeeper from end to end: looking, breaking, leases in words, history, and a doctor whose commands
mend what it finds."""
import json
import re
import shutil
import subprocess

from hurt import *

ZKCLI = shutil.which("zkCli.sh") or "/usr/share/zookeeper/bin/zkCli.sh"


def listed(store, *arguments):
    done = pawl("ls", "-e", store.url(), "--json", *arguments)
    equal(done.code, 0, done.errors)
    return json.loads(done.output)


def shown(store, name, **options):
    done = pawl("show", "-e", store.url(**options), "--json", name)
    return json.loads(done.output) if done.code == 0 else []


def stranger(store, name, child, data=b"somebody else", acl=None):
    """A node in the line that another kind of client made."""
    return store.keeper.create("%s/%s/%s" % (store.chroot, name, child), data, acl=acl, ephemeral=True, sequence=True,
                               makepath=True)


# ---- looking -----------------------------------------------------------------------------------------------------------

@test
def looking_shows_holders_waiters_and_strangers():
    store = ZooKeeper.one()
    holder, waiter = Peer(store.url()), Peer(store.url())
    held = holder.acquire("mine")
    equal(held.code, OK, held.text)
    waiter.request("mine")
    eventually(lambda: len(store.line("mine")) == 2)
    stranger(store, "theirs", "_c_0b7f3b1c-6b0e-4a52-9a7e-2f0a1c3d4e5f-lock-", b"10.0.0.7\x07")
    stranger(store, "kazoos", "0123456789abcdef0123456789abcdef__lock__", b"me")
    kazoos, mine, theirs = listed(store)
    equal((mine["name"], mine["role"], mine["token"], mine["waiters"]), ("mine", "holder", str(held.token), 1))
    equal((theirs["name"], theirs["role"], theirs["owner"]), ("theirs", "holder", "not pawl: 10.0.0.7?"))
    equal((kazoos["name"], kazoos["owner"]), ("kazoos", "not pawl: me"))
    require("token" not in theirs, theirs)
    roles = [line["role"] for line in shown(store, "mine")]
    equal(roles, ["holder", "waiter"])


@test
def a_line_behind_a_stranger_waits_and_is_shown_so():
    store = ZooKeeper.one()
    node = stranger(store, "a", "_c_0b7f3b1c-6b0e-4a52-9a7e-2f0a1c3d4e5f-lock-")
    waiter = Peer(store.url())
    waiter.request("a")
    eventually(lambda: [line["role"] for line in shown(store, "a")] == ["holder", "waiter"])
    store.keeper.delete(node)
    equal(waiter.hear().code, OK)


@test
def a_waiter_behind_a_node_it_may_not_read_is_served_when_that_goes():
    from kazoo.security import make_digest_acl
    store = ZooKeeper.one()
    store.keeper.create(store.chroot + "/a")
    node = stranger(store, "a", "_c_0b7f3b1c-6b0e-4a52-9a7e-2f0a1c3d4e5f-lock-", acl=[make_digest_acl("one", "right", all=True)])
    waiter, last = Peer(store.url()), Peer(store.url())
    waiter.request("a")
    eventually(lambda: len(store.line("a")) == 2)
    last.request("a")
    eventually(lambda: len(store.line("a")) == 3)
    time.sleep(0.3)  # it waits
    store.keeper.delete(node)
    equal(waiter.hear().code, OK)
    equal(waiter.release(), OK)
    equal(last.hear().code, OK)


@test
def what_is_not_readable_or_no_marker_does_not_stand_in_the_way_of_looking_and_breaking():
    from kazoo.security import make_digest_acl
    store = ZooKeeper.one()
    holder = Peer(store.url())
    equal(holder.acquire("mine").code, OK)
    store.keeper.create(store.chroot + "/theirs", acl=[make_digest_acl("one", "right", all=True)])
    store.keeper.create(store.chroot + "/mine/_d_no-marker")
    equal([line["name"] for line in listed(store)], ["mine"])
    equal([line["role"] for line in shown(store, "mine")], ["holder"])
    equal(pawl("break", "-e", store.url(), "mine").code, 0)
    eventually(lambda: holder.check() == LOST)
    equal([line["role"] for line in shown(store, "mine")], ["past"])
    equal(Peer(store.url()).acquire("mine").code, OK)


@test
def names_with_any_characters_stay_apart():
    store = ZooKeeper.one()
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
def a_thousand_names_are_all_listed():
    store = ZooKeeper.one()
    for number in range(200):
        store.keeper.create_async("%s/n%03d" % (store.chroot, number))
    for number in range(200):
        store.keeper.create_async("%s/n%03d/0123456789abcdef0123456789abcdef__lock__" % (store.chroot, number), b"x", ephemeral=True,
                                  sequence=True)
    eventually(lambda: len(listed(store)) == 200)
    equal([line["name"] for line in listed(store)], ["n%03d" % number for number in range(200)])


def past_of(store, name):
    return [line for line in shown(store, name) if line["role"] == "past"]


@test
def history_tells_who_had_it_also_to_others():
    """The holders stay until it is written: a slow server may not read what a client that closes has sent last."""
    store = ZooKeeper.one()
    holders = [Peer(store.url()), Peer(store.url())]
    tokens = []
    for holder in holders:
        tokens.insert(0, str(holder.acquire("a").token))
        equal(holder.release(), OK)
    eventually(lambda: [(line["token"], line["how"]) for line in past_of(store, "a")] == [(token, "released") for token in tokens])
    require(int(tokens[0]) > int(tokens[1]))
    for number, line in enumerate(past_of(store, "a")):
        matches(line["owner"], ":%d:" % holders[1 - number].pid)


@test
def a_holder_that_was_killed_is_a_past_owner_that_expired():
    store = ZooKeeper.one()
    equal(pawl("run", "-e", store.url(), "b", "true").code, 0) # there is a history
    holder = Peer(store.url())
    token = holder.acquire("a", ttl=500).token
    holder.kill()
    eventually(lambda: store.line("a") == [])
    past = [line for line in shown(store, "a") if line["role"] == "past"]
    equal([(int(line["token"]), line["how"]) for line in past], [(token, "expired")])


@test
def a_release_a_moment_ago_is_not_told_as_a_death():
    store = ZooKeeper.one()
    holder = Peer(store.url())
    for _ in range(3): # the ends of a busy client are written once a second
        equal(holder.acquire("a").code, OK)
        equal(holder.release(), OK)
    past = [line for line in shown(store, "a") if line["role"] == "past"]
    equal([line["how"] for line in past], ["released"] * 3)


@test
def history_is_kept_for_the_last_batches_and_no_more():
    store = ZooKeeper.one()
    path = store.chroot + "/.pawl/past"
    equal(pawl("run", "-e", store.url(), "a", "true").code, 0)
    eventually(lambda: store.keeper.exists(path))
    for _ in range(300):
        store.keeper.create_async(path + "/b-", b"", sequence=True)
    eventually(lambda: len(store.keeper.get_children(path)) >= 300)
    holder = Peer(store.url())
    equal(holder.acquire("a").code, OK)
    eventually(lambda: len(store.keeper.get_children(path)) < 200)
    equal(holder.release(), OK)
    eventually(lambda: past_of(store, "a")[0]["how"] == "released")


@test
def servers_that_are_not_there_are_said_by_every_command():
    url = "zk://127.0.0.1:%d/locks" % free_port()
    for command in (["ls"], ["show", "a"], ["break", "a"], ["init"]):
        done = pawl("-e", url, *command)
        equal(done.code, 125, command)
        matches(done.errors, "connection refused", command)
    done = pawl("doctor", "-e", url)
    equal(done.code, 1, done.errors)
    matches(done.output, "cannot be reached")


# ---- breaking and asking ------------------------------------------------------------------------------------------------

@test
def a_break_cuts_the_holder_off_and_it_is_told_why():
    store = ZooKeeper.one()
    holder, waiter = Peer(store.url()), Peer(store.url())
    equal(holder.acquire("a").code, OK)
    waiter.request("a")
    eventually(lambda: len(store.line("a")) == 2)
    done = pawl("break", "-e", store.url(), "a")
    equal(done.code, 0, done.errors)
    equal(waiter.hear().code, OK)
    eventually(lambda: holder.number("reason") == 3) # broken
    equal(holder.release(), LOST)
    past = [line for line in shown(store, "a") if line["role"] == "past"]
    equal(past[0]["how"], "broken")
    require(pawl("break", "-e", store.url(), "nobody").code != 0)


@test
def who_broke_the_first_lock_of_a_place_is_remembered():
    """The holder is gone, and may not have made the node above the history."""
    store = ZooKeeper.one()
    equal(pawl("acquire", "-e", store.url(), "--ttl", "60s", "a").code, 0)
    done = pawl("break", "-e", store.url(), "--owner", "the night", "--reason", "it hangs", "a")
    equal(done.code, 0, done.errors)
    past = [line for line in shown(store, "a") if line["role"] == "past"]
    equal([(line["how"], line["broken_by"], line["reason"]) for line in past], [("broken", "the night", "it hangs")])


@test
def a_break_removes_a_stranger_too():
    store = ZooKeeper.one()
    node = stranger(store, "a", "0123456789abcdef0123456789abcdef__lock__")
    equal(pawl("break", "-e", store.url(), "a").code, 0)
    equal(store.keeper.exists(node), None)


@test
def a_break_of_a_holder_that_stands_still_is_done_all_the_same():
    store = ZooKeeper.one()
    holder = Peer(store.url())
    equal(holder.acquire("a", ttl=9000).code, OK)
    holder.stop()
    at_end(holder.go_on)
    equal(pawl("break", "-e", store.url(), "a").code, 0)
    equal(store.line("a"), [])
    holder.go_on()
    eventually(lambda: holder.check() == LOST)


@test
def what_may_not_be_deleted_is_not_broken_and_that_is_said():
    from kazoo.security import make_acl, make_digest_acl
    store = ZooKeeper.one()
    store.keeper.create(store.chroot + "/a", acl=[make_acl("world", "anyone", read=True, create=True),
                                                   make_digest_acl("one", "right", all=True)])
    node = stranger(store, "a", "0123456789abcdef0123456789abcdef__lock__")
    done = pawl("break", "-e", store.url(), "a")
    require(done.code != 0)
    matches(done.errors, "ACL")
    require(store.keeper.exists(node))
    store.keeper.add_auth("digest", "one:right")


@test
def a_mailbox_is_made_for_a_client_that_holds_and_goes_with_it():
    store = ZooKeeper.one()
    holder = Peer(store.url())
    equal(holder.acquire("a").code, OK)
    eventually(lambda: any(child.startswith("mail-") for child in store.children("/.pawl")))
    equal(holder.leave(), 0)
    eventually(lambda: not any(child.startswith("mail-") for child in store.children("/.pawl")))


# ---- leases -------------------------------------------------------------------------------------------------------------

@test
def acquire_renew_and_release_work_with_a_lease_in_a_word():
    store = ZooKeeper.one()
    done = pawl("acquire", "-e", store.url(), "--ttl", "30s", "x")
    equal(done.code, 0, done.errors)
    token, lease = done.output.split()
    require(int(token) > 0)
    matches(lease, r"^z1\.[A-Za-z0-9._-]+$")
    equal(len(store.line("x")), 1)
    equal(pawl("renew", "-e", store.url(), lease).code, 0)
    equal(pawl("run", "-n", "-e", store.url(), "x", "true").code, 1)
    equal(pawl("release", "-e", store.url(), lease).code, 0)
    equal(store.line("x"), [])
    require(pawl("release", "-e", store.url(), lease).code != 0)
    require(pawl("renew", "-e", store.url(), lease).code != 0)


@test
def a_lease_that_ran_out_is_a_past_owner():
    store = ZooKeeper.one()
    equal(pawl("run", "-e", store.url(), "b", "true").code, 0) # there is a history
    done = pawl("acquire", "-e", store.url(), "--ttl", "500ms", "x")
    equal(done.code, 0, done.errors)
    eventually(lambda: store.line("x") == [])
    past = [line for line in shown(store, "x") if line["role"] == "past"]
    equal([(int(line["token"]), line["how"]) for line in past], [(int(done.output.split()[0]), "expired")])


@test
def a_shared_lease_is_given_back_as_what_it_is():
    store = ZooKeeper.one()
    leases = [pawl("acquire", "-e", store.url(), "--ttl", "30s", "--shared", "x").output.split()[1] for _ in range(2)]
    equal(len(store.line("x")), 2)
    for lease in leases:
        done = pawl("release", "-e", store.url(), lease)
        equal(done.code, 0, done.errors)
    equal(store.line("x"), [])


@test
def a_lease_is_not_made_longer_by_being_looked_at():
    store = ZooKeeper.one()
    holder = Peer(store.url())
    equal(holder.acquire("x", ttl=3000, flags=2).code, OK)
    since = time.monotonic()
    lease = holder.ask("lease").text.strip()
    equal(holder.ask("forget").code, OK)
    while True:
        answer = holder.ask("adopt " + lease)
        if answer.code != OK:
            break
        most = 3000 - (time.monotonic() - since) * 1000
        left = holder.number("remaining")
        require(left <= most + 5, "%d ms left, and it was %d at most" % (left, most)) # they count in whole ms
        equal(holder.ask("forget").code, OK)
        time.sleep(0.3)
    equal(answer.code, LOST, answer.text)
    eventually(lambda: store.line("x") == [])


@test
def a_break_reaches_who_took_a_lease_up_and_not_who_had_it_before():
    store = ZooKeeper.one()
    maker, taker = Peer(store.url()), Peer(store.url())
    made = maker.acquire("x", ttl=30000, flags=2)
    lease = maker.ask("lease").text.strip()
    equal(maker.ask("forget").code, OK)
    equal(maker.leave(), 0)
    taken = taker.ask("adopt " + lease)
    equal((taken.code, taken.token), (OK, made.token))
    data = store.keeper.get("%s/x/%s" % (store.chroot, store.line("x")[0]))[0].decode()
    matches(data, r"^pawl1 .* dh 0 \d+ \S+ \S+\nfrom \d+$")
    eventually(lambda: "mail-" + data.split()[1] in store.children("/.pawl"), "it has no mailbox")
    equal(pawl("break", "-e", store.url(), "x").code, 0)
    eventually(lambda: taker.number("lost") == 1, "it was not told")
    equal(taker.check(), LOST)


# ---- doctor and init ----------------------------------------------------------------------------------------------------

def findings(url):
    done = pawl("doctor", "-e", url, "--json")
    require(done.code in (0, 1), done.errors)
    return json.loads(done.output)


def finding(url, pattern):
    """The finding that says so, or None."""
    return next((one for one in findings(url) if re.search(pattern, one["what"])), None)


@test
def doctor_finds_nothing_dangerous_in_an_ensemble_and_leaves_nothing():
    store = ZooKeeper.three()
    equal(pawl("run", "-e", store.url(), "a", "true").code, 0)
    found = findings(store.url())
    equal([one["what"] for one in found if one["severity"] in ("danger", "warning")], [])
    require(any("3 servers vote" in one["what"] for one in found), found)
    equal(len([one for one in found if "it answers" in one["what"]]), 3)
    eventually(lambda: not any("probe" in child for child in store.children()), store.children)  # a follower may be behind


@test
def doctor_says_that_a_path_is_missing_and_its_command_makes_it():
    store = ZooKeeper.one()
    url = store.url(chroot=store.chroot + "/not/there")
    missing = finding(url, "is not there")
    equal(missing["severity"], "danger")
    command = missing["mend"]
    matches(command, "^pawl .* init$")
    done = subprocess.run(command.replace("pawl", PAWL, 1), shell=True, check=False)
    equal(done.returncode, 0)
    equal(finding(url, "is not there"), None)


@test
def doctor_says_that_everybody_may_write_and_its_command_ends_that():
    store = ZooKeeper.one()
    if not os.path.exists(ZKCLI):
        note("no zkCli.sh: its command is not run")
        return
    url = store.url(user="one:right@")
    opened = finding(url, "everybody may write")
    require(opened, findings(url))
    command = opened["mend"].replace("USER:PASSWORD", "one:right").replace("zkCli.sh", ZKCLI)
    done = subprocess.run(command, shell=True, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    equal(done.returncode, 0, done.stdout)
    equal(finding(url, "everybody may write"), None)
    require(finding(url, "only its users may write"), findings(url))
    refused = findings(store.url())
    require(any(one["severity"] == "danger" and "ACL" in one["what"] for one in refused), refused)
    store.keeper.add_auth("digest", "one:right")


@test
def doctor_says_what_cannot_be_reached_and_goes_on_with_the_rest():
    store = ZooKeeper.three()
    down = store.followers()[0]
    down.kill()
    found = findings(store.url())
    lost = [one for one in found if "cannot be reached" in one["what"]]
    equal([(one["where"], one["severity"]) for one in lost], [(down.where, "warning")])
    require(any("leads" in one["what"] for one in found), found)


@test
def after_init_again_tokens_are_greater_than_those_of_any_store_before():
    store = ZooKeeper.one()
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


main(have("zookeeper", "zookeeper3"))
