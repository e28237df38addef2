"""hurt.py - what is true of a store with several servers (ZooKeeper, etcd) whatever happens to them: no lock is lost or held
twice, tokens grow, who waits is served, nothing is left. The tests of each engine add these sentences to their own.

Each sentence takes a store of three, or of one."""
import random
import threading

from stores import *

LONG = 20000  # a ttl that no election outlasts
FAILED = ("UNREACHABLE", "IN_DOUBT", "NO_QUORUM", "TIMEOUT")


def failed(code):
    return NAMES.get(code) in FAILED


def nothing_is_left(store):
    """Neither in a line nor beside it. Mailboxes go with their clients."""
    eventually(lambda: not [each for each in store.left() if not each.startswith(".pawl/mail")], store.left())


def peers(store, count, **options):
    made = [Peer(store.url(**options)) for _ in range(count)]
    for peer in made:
        equal(peer.acquire("warm", wait=30000, patience=60).code, OK)
        equal(peer.release(), OK)
    return made


def warmed(url):
    peer = Peer(url)
    answer = peer.acquire("warm", wait=30000, patience=60)
    equal(answer.code, OK, answer.text)
    equal(peer.release(), OK)
    return peer


class Crowd:
    """Peers that take one lock in turns. What is seen: two inside, a token that does not grow, a lock that was lost."""

    def __init__(self, store, count, ttl=LONG, mode="forever"):
        self.store, self.ttl, self.mode = store, ttl, mode
        self.guard = threading.Lock()
        self.inside = 0
        self.last = 0
        self.pairs = 0
        self.in_doubt = 0
        self.over = False
        self.problems = []
        self.peers = peers(store, count)
        self.threads = [threading.Thread(target=self.work, args=(peer,), daemon=True) for peer in self.peers]
        for thread in self.threads:
            thread.start()

    def work(self, peer):
        try:
            while not self.over:
                self.turn(peer)
        except Exception as problem:
            self.problems.append("%r" % (problem,))

    def turn(self, peer):
        got = peer.acquire("crowd", wait=60000, ttl=self.ttl, patience=90)
        if got.code != OK:
            require(failed(got.code), show(got.code), got.text)
            self.in_doubt += 1
            return
        with self.guard:
            self.inside += 1
            good, grows = self.inside == 1, got.token > self.last
            self.last = max(self.last, got.token)
        require(good, "two hold it")
        require(grows, "a token did not grow")
        time.sleep(random.random() * 0.01)
        held = peer.check()
        with self.guard:
            self.inside -= 1
        equal(held, OK, "it was lost inside")
        code = peer.release()
        require(code == OK or failed(code), show(code))
        self.in_doubt += code != OK
        self.pairs += 1

    def progress(self, more):
        """Until so many more pairs are done."""
        wanted = self.pairs + more
        eventually(lambda: self.problems or self.pairs >= wanted, lambda: "nobody gets it: %d of %d pairs" % (self.pairs, wanted),
                   patience=60)
        equal(self.problems, [])

    def end(self):
        self.over = True
        for thread in self.threads:
            thread.join(90)
            require(not thread.is_alive(), "somebody was never served")
        equal(self.problems, [])
        note("%d pairs, %d without an answer" % (self.pairs, self.in_doubt))


# ---- three servers: the leader -----------------------------------------------------------------------------------------

def a_leader_killed_while_a_lock_changes_hands_loses_none_and_doubles_none(store):
    crowd = Crowd(store, 4)
    for _ in range(2):
        crowd.progress(10)
        leader = store.leader()
        leader.kill()
        crowd.progress(5)
        leader.start()
        eventually(leader.answers, patience=60)
    crowd.progress(10)
    crowd.end()
    nothing_is_left(store)


def a_leader_killed_costs_no_lock_that_is_held(store):
    holder, other = peers(store, 2)
    held = holder.acquire("a", ttl=12000)
    equal(held.code, OK)
    store.leader().kill()
    time.sleep(14)  # longer than the lease: it was renewed at another
    equal(holder.check(), OK)
    equal(holder.number("lost"), 0)
    equal(other.acquire("a").code, BUSY)
    equal(holder.release(), OK)
    got = other.acquire("a", wait=20000)
    equal(got.code, OK)
    require(got.token > held.token)
    equal(other.release(), OK)
    nothing_is_left(store)


def a_leader_killed_while_many_wait_lets_them_all_have_it_in_their_order(store):
    holder, *waiters = peers(store, 5)
    last = holder.acquire("a", ttl=LONG).token
    for number, waiter in enumerate(waiters, 2):
        waiter.request("a", ttl=LONG)
        eventually(lambda: len(store.line("a")) == number)
    store.leader().kill()
    equal(holder.release(), OK)
    for waiter in waiters:
        got = waiter.hear(40)
        equal(got.code, OK)
        require(got.token > last, "a token did not grow")
        last = got.token
        require(not [other for other in waiters if other is not waiter and other.heard()], "two hold it")
        equal(waiter.release(), OK)
    nothing_is_left(store)


def a_leader_killed_in_the_middle_of_a_release_leaves_no_lock_behind(store):
    for _ in range(2):
        store.healed()
        holder, waiter = peers(store, 2)
        held = holder.acquire("a", wait=20000, ttl=60000)
        equal(held.code, OK)
        waiter.request("a", ttl=LONG)
        eventually(lambda: len(store.line("a")) == 2)
        leader = store.leader()
        holder.tell("release")
        leader.kill()
        code = holder.hear(40).code
        require(code == OK or failed(code), show(code))
        got = waiter.hear(40)
        equal(got.code, OK)
        require(got.token > held.token)
        equal(waiter.release(), OK)
        nothing_is_left(store)


def a_leader_killed_in_the_middle_of_an_acquire_leaves_no_ghost(store):
    for _ in range(2):
        store.healed()
        one, two = peers(store, 2)
        leader = store.leader()
        one.request("a", wait=30000, ttl=60000)
        leader.kill()
        got = one.hear(60)
        require(got.code == OK or failed(got.code), show(got.code))
        if got.code == OK:
            equal(two.acquire("a").code, BUSY)
            equal(one.release(), OK)
        again = two.acquire("a", wait=30000, patience=60)
        equal(again.code, OK, again.text)
        require(again.token > got.token)
        equal(two.release(), OK)
        nothing_is_left(store)


def a_leader_that_stands_still_is_replaced_and_does_no_harm_when_it_goes_on(store):
    crowd = Crowd(store, 3, ttl=60000)
    crowd.progress(5)
    leader = store.leader()
    leader.stop()
    crowd.progress(5)
    leader.go_on()
    crowd.progress(10)
    crowd.end()
    nothing_is_left(store)


# ---- three servers: the others -----------------------------------------------------------------------------------------

def used(betweens):
    return [between for between in betweens if between.live()]


def a_client_whose_server_is_cut_off_from_it_goes_to_another_and_holds_what_it_held(store):
    betweens = [Between(member) for member in store.members]
    holder, other = warmed(store.url(*betweens, timeout="2s")), warmed(store.url())
    equal(holder.acquire("a", ttl=9000).code, OK)
    mine = used(betweens)
    equal(len(mine), 1, "one connection")
    mine[0].silent = True
    eventually(lambda: [between for between in used(betweens) if between is not mine[0]], "it did not go to another")
    time.sleep(10)
    equal(holder.check(), OK, "the session did not move with it")
    equal(holder.number("lost"), 0)
    equal(other.acquire("a").code, BUSY)
    equal(holder.release(), OK)
    mine[0].silent = False
    equal(other.acquire("a", wait=20000).code, OK)
    equal(other.release(), OK)
    nothing_is_left(store)


def a_waiter_whose_server_is_killed_is_served_by_another(store):
    betweens = [Between(member) for member in store.members]
    holder, waiter = warmed(store.url()), warmed(store.url(*betweens, timeout="2s"))
    held = holder.acquire("a", ttl=LONG)
    waiter.request("a", ttl=LONG)
    eventually(lambda: len(store.line("a")) == 2)
    used(betweens)[0].server.kill()
    eventually(lambda: holder.check() == OK)
    equal(holder.release(), OK)
    got = waiter.hear(40)
    equal(got.code, OK)
    require(got.token > held.token)
    equal(waiter.release(), OK)
    nothing_is_left(store)


def a_waiter_whose_server_falls_silent_is_served_by_another(store):
    betweens = [Between(member) for member in store.members]
    holder, waiter = warmed(store.url()), warmed(store.url(*betweens, timeout="2s"))
    equal(holder.acquire("a", ttl=LONG).code, OK)
    waiter.request("a", ttl=6000)
    eventually(lambda: len(store.line("a")) == 2)
    used(betweens)[0].silent = True
    equal(holder.release(), OK)
    equal(waiter.hear(60).code, OK)
    equal(waiter.check(), OK)
    equal(waiter.release(), OK)
    for between in betweens:
        between.silent = False
    nothing_is_left(store)


def a_follower_that_is_cut_off_from_the_others_grants_nothing_and_costs_nobody_a_lock(store):
    """It is alive, and it has clients: SIGSTOP of the other two, as the network would look to it."""
    follower = store.followers()[0]
    alone = warmed(store.url(follower, timeout="2s"))
    held = alone.acquire("a", ttl=3000)
    equal(held.code, OK)
    for member in store.members:
        if member is not follower:
            member.stop()
    answer = Peer(store.url(follower, timeout="2s")).acquire("b", ttl=3000)
    require(failed(answer.code), show(answer.code), answer.text)
    note(answer.text)
    require(len(answer.text) > 15, "no sentence")
    eventually(lambda: alone.check() == LOST, "it believes in a lock that nobody renews")
    for member in store.members:
        if member.stopped:
            member.go_on()
    other = Peer(store.url(timeout="20s"))
    got = other.acquire("a", wait=30000, patience=60)
    equal(got.code, OK, got.text)
    require(got.token > held.token)
    equal(other.release(), OK)
    nothing_is_left(store)


def a_client_cut_off_from_all_servers_loses_its_lock_at_its_deadline_and_not_after_another_has_it(store):
    betweens = [Between(member) for member in store.members]
    holder, waiter = warmed(store.url(*betweens, timeout="1s")), warmed(store.url())
    held = holder.acquire("a", ttl=2500)
    equal(held.code, OK)
    waiter.request("a", ttl=LONG)
    eventually(lambda: len(store.line("a")) == 2)
    for between in betweens:
        between.silent = True
    lost = []
    while not waiter.heard():
        lost.append(holder.check() == LOST)
        time.sleep(0.005)
        require(len(lost) < 20000, "the waiter never gets it")
    equal(holder.check(), LOST, "two hold it")
    require(lost[-1], "it was told only after another had it")
    got = waiter.hear()
    equal(got.code, OK)
    require(got.token > held.token)
    for between in betweens:
        between.silent = False
        between.cut_all()
    equal(holder.release(), LOST)
    equal(waiter.check(), OK, "a late release took it away")
    equal(waiter.release(), OK)
    nothing_is_left(store)


def without_a_majority_it_is_said_and_when_it_is_back_all_goes_on(store):
    holder, waiter, other = [Peer(store.url(timeout="2s")) for _ in range(3)]
    held = holder.acquire("a", ttl=3000)
    equal(held.code, OK)
    waiter.request("a", wait=60000, ttl=3000)
    eventually(lambda: len(store.line("a")) == 2)
    dead = store.followers()
    for member in dead:
        member.kill()
    answer = other.acquire("b", ttl=3000)
    require(failed(answer.code), show(answer.code), answer.text)
    note(answer.text)
    eventually(lambda: holder.check() == LOST)
    equal(other.acquire("a", ttl=3000).code != OK, True)
    for member in dead:
        member.start()
    store.healed()
    got = waiter.hear(60)
    if got.code == OK:
        require(got.token > held.token)
        equal(waiter.release(), OK)
    else:  # it need not wait for ever for servers that do not answer
        require(failed(got.code), show(got.code))
    again = other.acquire("a", wait=30000, patience=60)
    equal(again.code, OK, again.text)
    require(again.token > held.token)
    equal(other.release(), OK)
    nothing_is_left(store)


def all_servers_killed_and_started_again_keep_locks_and_order(store):
    holder, waiter = peers(store, 2)
    held = holder.acquire("a", ttl=60000)
    waiter.request("a", ttl=60000)
    eventually(lambda: len(store.line("a")) == 2)
    for member in store.members:
        member.kill()
    for member in store.members:
        member.start()
    store.healed()
    stranger = Peer(store.url(timeout="20s"))
    equal(stranger.acquire("a").code, BUSY, "it was forgotten")
    equal(holder.check(), OK)
    require(not waiter.heard(), "two hold it")
    equal(holder.release(), OK)
    got = waiter.hear(60)
    equal(got.code, OK)
    require(got.token > held.token)
    equal(waiter.release(), OK)
    nothing_is_left(store)


# ---- one server: whose session or lease has ended ----------------------------------------------------------------------

def end_term_of(store, name, place):
    if isinstance(store, Etcd):
        store.revoke(store.lease(name, place))
    else:
        store.end_session(store.owner(name, place))


def a_waiter_whose_session_was_ended_is_not_told_that_it_holds(store):
    """etcd#11456, curator#1121."""
    holder, waiter, third = peers(store, 3)
    held = holder.acquire("a", ttl=LONG)
    waiter.request("a", ttl=15000)
    eventually(lambda: len(store.line("a")) == 2)
    third.request("a", ttl=30000)
    eventually(lambda: len(store.line("a")) == 3)
    waiting = store.line("a")
    end_term_of(store, "a", 1)
    equal(holder.release(), OK)
    got = third.hear()
    equal(got.code, OK, "it was next, for the one before it had no session")
    require(got.token > held.token)
    time.sleep(0.5)
    require(not waiter.heard(), "two hold it")
    require(store.line("a")[0] == waiting[2], store.line("a"))
    equal(third.check(), OK)
    equal(third.release(), OK)
    again = waiter.hear()
    equal(again.code, OK)
    require(again.token > got.token, "it holds with the number of the session that was ended")
    line = store.line("a")
    require(len(line) == 1 and line[0] not in waiting, "it holds by a node that is not there", line)
    equal(waiter.release(), OK)
    nothing_is_left(store)


def a_waiter_whose_session_was_ended_while_its_predecessor_left_is_not_told_that_it_holds(store):
    """Both at once: the news of the predecessor's end may come first, and is no grant."""
    for number in range(5):
        name = "a%d" % number
        holder, waiter, third = [Peer(store.url()) for _ in range(3)]
        equal(holder.acquire(name, ttl=LONG).code, OK)
        waiter.request(name, ttl=15000)
        eventually(lambda: len(store.line(name)) == 2)
        waiting = store.line(name)[1]
        waiter.stop()
        end_term_of(store, name, 1)
        equal(holder.release(), OK)
        got = third.acquire(name, wait=20000, ttl=30000)
        equal(got.code, OK)
        waiter.go_on()
        time.sleep(0.3)
        require(not waiter.heard(), "two hold it")
        equal(third.release(), OK)
        again = waiter.hear()
        equal(again.code, OK)
        require(again.token > got.token)
        require(waiting not in store.line(name))
        equal(waiter.release(), OK)
        for peer in (holder, waiter, third):
            peer.leave()
    nothing_is_left(store)


def a_waiter_that_stood_still_past_its_session_is_not_told_that_it_holds(store):
    holder, waiter, third = peers(store, 3)
    equal(holder.acquire("a", ttl=LONG).code, OK)
    waiter.request("a", ttl=3000)
    eventually(lambda: len(store.line("a")) == 2)
    waiter.stop()
    eventually(lambda: len(store.line("a")) == 1, "its session does not end")
    equal(holder.release(), OK)
    got = third.acquire("a", wait=20000, ttl=LONG)
    equal(got.code, OK)
    waiter.go_on()
    time.sleep(1)
    require(not waiter.heard(), "two hold it")
    equal(third.check(), OK)
    equal(third.release(), OK)
    again = waiter.hear()
    equal(again.code, OK)
    require(again.token > got.token)
    equal(waiter.release(), OK)
    nothing_is_left(store)


def a_waiter_that_stood_still_while_it_became_the_holder_and_lost_it_is_told_the_truth(store):
    holder, waiter, third = peers(store, 3)
    equal(holder.acquire("a", ttl=LONG).code, OK)
    waiter.request("a", ttl=3000)
    eventually(lambda: len(store.line("a")) == 2)
    waiter.stop()
    equal(holder.release(), OK)  # now the one that stands still is first
    got = third.acquire("a", wait=20000, ttl=LONG, patience=40)
    equal(got.code, OK, "who stands still holds it for ever")
    waiter.go_on()
    time.sleep(1)
    told = waiter.heard()
    if told:
        equal(waiter.hear().code, OK)
        equal(waiter.check(), LOST, "two hold it")
    equal(third.check(), OK)
    equal(third.release(), OK)
    if not told:  # it stands in the line again
        again = waiter.hear()
        equal(again.code, OK)
        require(again.token > got.token)
        equal(waiter.release(), OK)
    nothing_is_left(store)


def a_holder_whose_session_was_ended_is_told_at_once_and_the_next_has_it(store):
    holder, waiter = peers(store, 2)
    held = holder.acquire("a", ttl=LONG)
    waiter.request("a", ttl=30000)
    eventually(lambda: len(store.line("a")) == 2)
    end_term_of(store, "a", 0)
    got = waiter.hear()
    equal(got.code, OK)
    require(got.token > held.token)
    eventually(lambda: holder.check() == LOST, "it was not told")
    eventually(lambda: holder.number("lost") == 1, "the callback did not run")
    require(holder.number("reason") in (SESSION, TAKEN, EXPIRED, BROKEN), holder.number("reason"))
    equal(holder.release(), LOST)
    equal(waiter.check(), OK, "a late release took it away")
    equal(waiter.release(), OK)
    equal(holder.acquire("a", wait=20000).code, OK, "the client is not able to go on")
    equal(holder.release(), OK)
    nothing_is_left(store)


def a_lock_deleted_by_hand_is_lost_and_says_so(store):
    holder, other = peers(store, 2)
    held = holder.acquire("a", ttl=3000)
    equal(held.code, OK)
    line = store.line("a")
    store.remove("a") if isinstance(store, ZooKeeper) else store.remove(line[0])
    got = other.acquire("a", wait=10000, ttl=LONG)
    equal(got.code, OK)
    require(got.token > held.token)
    eventually(lambda: holder.check() == LOST, "it renews a lock that is not there")
    equal(holder.release(), LOST)
    equal(other.check(), OK)
    equal(other.release(), OK)
    nothing_is_left(store)


# ---- one server: that goes away ----------------------------------------------------------------------------------------

def a_server_that_stands_still_for_longer_than_the_session_costs_the_lock_at_the_deadline_and_nothing_else(store):
    holder, waiter = [Peer(store.url(timeout="3s")) for _ in range(2)]
    held = holder.acquire("a", ttl=1500)
    equal(held.code, OK)
    waiter.request("a", wait=60000, ttl=1500)
    eventually(lambda: len(store.line("a")) == 2)
    server = store.members[0]
    server.stop()
    eventually(lambda: holder.number("lost") == 1, "it was not told")
    equal(holder.check(), LOST)
    stranger = Peer(store.url(timeout="500ms"))
    answer = stranger.acquire("b")
    require(failed(answer.code), show(answer.code), answer.text)
    time.sleep(2)
    server.go_on()
    got = waiter.hear(60)
    if got.code == OK:
        require(got.token > held.token)
        equal(waiter.release(), OK)
    else:
        require(failed(got.code), show(got.code))
    equal(holder.release(), LOST)
    again = holder.acquire("a", wait=20000, patience=40)
    equal(again.code, OK, again.text)
    require(again.token > held.token)
    equal(holder.release(), OK)
    nothing_is_left(store)


def a_server_killed_and_started_again_serves_all_who_wait_in_their_order(store):
    holder, *waiters = peers(store, 7)
    last = holder.acquire("a", ttl=LONG).token
    for number, waiter in enumerate(waiters, 2):
        waiter.request("a", ttl=LONG)
        eventually(lambda: len(store.line("a")) == number)
    store.members[0].restart()
    equal(holder.check(), OK)
    equal(holder.release(), OK)
    for waiter in waiters:
        got = waiter.hear(40)
        equal(got.code, OK)
        require(got.token > last)
        last = got.token
        require(not [other for other in waiters if other is not waiter and other.heard()], "two hold it")
        equal(waiter.release(), OK)
    nothing_is_left(store)


def a_request_whose_answer_never_comes_leaves_nothing_behind(store):
    peer = warmed(store.url(timeout="500ms"))
    server = store.members[0]
    server.stop()
    answer = peer.acquire("a", ttl=60000)  # it will be granted when the server goes on, and nobody will know
    require(failed(answer.code), show(answer.code), answer.text)
    server.go_on()
    eventually(lambda: not store.line("a"), "the lock of a claim that failed is left for its whole ttl")
    stranger = Peer(store.url())
    equal(stranger.acquire("a").code, OK)


def a_release_whose_answer_never_comes_is_finished_in_the_background(store):
    peer = warmed(store.url(timeout="500ms"))
    equal(peer.acquire("a", ttl=60000).code, OK)
    server = store.members[0]
    server.stop()
    code = peer.release()
    require(code == OK or failed(code), show(code))
    server.go_on()
    eventually(lambda: not store.line("a"), "the lock is left for its whole ttl")


def a_refused_try_leaves_nothing_in_the_line(store):
    holder, other = peers(store, 2)
    equal(holder.acquire("a").code, OK)
    for _ in range(20):
        equal(other.acquire("a").code, BUSY)
        equal(len(store.line("a")), 1, store.line("a"))
    equal(other.acquire("a", wait=500).code, TIMEOUT)
    eventually(lambda: len(store.line("a")) == 1, store.line("a"))
    equal(holder.release(), OK)


def a_holder_that_is_killed_is_followed_when_its_time_is_over(store):
    holder, waiter = peers(store, 2)
    held = holder.acquire("a", ttl=1500)
    waiter.request("a", ttl=LONG)
    eventually(lambda: len(store.line("a")) == 2)
    holder.kill()
    got = waiter.hear()
    equal(got.code, OK)
    require(got.token > held.token)
    equal(waiter.release(), OK)
    nothing_is_left(store)


def a_killed_waiter_stands_in_nobodys_way(store):
    holder, waiter, third = peers(store, 3)
    equal(holder.acquire("a", ttl=LONG).code, OK)
    waiter.request("a", ttl=1000)
    eventually(lambda: len(store.line("a")) == 2)
    third.request("a", ttl=LONG)
    eventually(lambda: len(store.line("a")) == 3)
    waiter.kill()
    eventually(lambda: len(store.line("a")) == 2)
    time.sleep(0.2)
    require(not third.heard(), "it got the lock while another held it")
    equal(holder.release(), OK)
    equal(third.hear().code, OK)
    equal(third.release(), OK)
    nothing_is_left(store)


# ---- one server: a cut after every byte --------------------------------------------------------------------------------

def exchange(store, peer, last):
    """One pair through the proxy, which will cut. The token of the last grant."""
    answer = peer.acquire("a", wait=20000, ttl=60000, patience=40)
    if answer.code != OK:
        require(failed(answer.code), show(answer.code), answer.text)
        eventually(lambda: not store.line("a"), "what failed is in the line", store.line("a"))
        return last
    require(answer.token > last, "a token came again")
    equal(peer.check(), OK)
    equal(len(store.line("a")), 1, "it holds, and is not in the line")
    code = peer.release()
    require(code == OK or failed(code), show(code))
    eventually(lambda: not store.line("a"), "what was released is in the line", store.line("a"))
    return answer.token


def every_byte(store, way, step):
    between = Between(store.members[0])
    peer = warmed(store.url(between, timeout="3s"))
    last, count, cuts = 0, 0, 0
    while between.cut is None:
        between.set_cut(way, count)
        try:
            last = exchange(store, peer, last)
        except Failed as failure:
            raise Failed("after %d bytes %s" % (count, way), *failure.args) from failure
        cuts += between.cut is None
        count += step
    note("%d cuts, %d bytes" % (cuts, count))
    require(cuts > 5)
    equal(peer.leave(), 0)
    nothing_is_left(store)


def a_cut_after_every_few_bytes_that_are_sent_breaks_no_promise(store):
    every_byte(store, "out", store.few_bytes)


def a_cut_after_every_few_bytes_that_are_received_breaks_no_promise(store):
    every_byte(store, "in", store.few_bytes)


def a_cut_anywhere_in_a_hand_over_breaks_no_promise(store):
    between = Between(store.members[0])
    holder, waiter = warmed(store.url()), warmed(store.url(between, timeout="3s"))
    last, count, cuts = 0, 0, 0
    while between.cut is None:
        held = holder.acquire("a", wait=30000, ttl=60000)
        equal(held.code, OK)
        require(held.token > last)
        waiter.request("a", wait=30000, ttl=60000)
        eventually(lambda: len(store.line("a")) == 2)
        between.set_cut("in", count)
        equal(holder.release(), OK)
        got = waiter.hear(40)
        equal(got.code, OK, "after %d bytes" % count)
        require(got.token > held.token, "after %d bytes" % count)
        equal(waiter.check(), OK)
        last = got.token
        code = waiter.release()
        require(code == OK or failed(code), show(code))
        eventually(lambda: not store.line("a"), store.line("a"))
        cuts += between.cut is None
        count += store.few_bytes + 2
    note("%d cuts" % cuts)
    require(cuts > 3)
    nothing_is_left(store)


THREE = (a_leader_killed_while_a_lock_changes_hands_loses_none_and_doubles_none,
         a_leader_killed_costs_no_lock_that_is_held,
         a_leader_killed_while_many_wait_lets_them_all_have_it_in_their_order,
         a_leader_killed_in_the_middle_of_a_release_leaves_no_lock_behind,
         a_leader_killed_in_the_middle_of_an_acquire_leaves_no_ghost,
         a_leader_that_stands_still_is_replaced_and_does_no_harm_when_it_goes_on,
         a_client_whose_server_is_cut_off_from_it_goes_to_another_and_holds_what_it_held,
         a_waiter_whose_server_is_killed_is_served_by_another,
         a_waiter_whose_server_falls_silent_is_served_by_another,
         a_follower_that_is_cut_off_from_the_others_grants_nothing_and_costs_nobody_a_lock,
         a_client_cut_off_from_all_servers_loses_its_lock_at_its_deadline_and_not_after_another_has_it,
         without_a_majority_it_is_said_and_when_it_is_back_all_goes_on,
         all_servers_killed_and_started_again_keep_locks_and_order)
TERMS = (a_waiter_whose_session_was_ended_is_not_told_that_it_holds,
         a_waiter_whose_session_was_ended_while_its_predecessor_left_is_not_told_that_it_holds,
         a_waiter_that_stood_still_past_its_session_is_not_told_that_it_holds,
         a_waiter_that_stood_still_while_it_became_the_holder_and_lost_it_is_told_the_truth,
         a_holder_whose_session_was_ended_is_told_at_once_and_the_next_has_it,
         a_lock_deleted_by_hand_is_lost_and_says_so,
         a_server_that_stands_still_for_longer_than_the_session_costs_the_lock_at_the_deadline_and_nothing_else,
         a_server_killed_and_started_again_serves_all_who_wait_in_their_order,
         a_request_whose_answer_never_comes_leaves_nothing_behind,
         a_release_whose_answer_never_comes_is_finished_in_the_background,
         a_refused_try_leaves_nothing_in_the_line,
         a_holder_that_is_killed_is_followed_when_its_time_is_over,
         a_killed_waiter_stands_in_nobodys_way)
CUTS = (a_cut_after_every_few_bytes_that_are_sent_breaks_no_promise,
        a_cut_after_every_few_bytes_that_are_received_breaks_no_promise,
        a_cut_anywhere_in_a_hand_over_breaks_no_promise)


def add(store, sentences, within=120):
    for sentence in sentences:
        def run(sentence=sentence):
            sentence(store())
        run.__name__ = sentence.__name__
        test(run, within=within)
