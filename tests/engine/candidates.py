"""candidates.py - claims that confirm their turn (PAWL_CONFIRM), as elections make them, in a store with sessions: a chain of
deaths, a candidate that stands still, and those that must never be passed over. Store-specific are a few functions:

    mark(store, name, place)   what the record of one in the queue says of it: "c", "cch", or "" of a foreign one
    tenant(store, name)        the session or lease of the last in the queue
    lives(store, tenant)       whether the store still knows it"""
import json

from hurt import *

CONFIRM = 8
LEASE = 4000


def queue(store, name, length):
    eventually(lambda: len(store.line(name)) == length, "the queue is not %d long" % length, store.line(name))


def candidate(store, name, length, ttl=LEASE, flags=CONFIRM):
    """Stands in the queue, as so many-th."""
    peer = Peer(store.url())
    peer.request(name, ttl=ttl, flags=flags)
    queue(store, name, length)
    return peer


def holds(peer):
    return peer.check() == OK


def a_chain_of_deaths_costs_one_session_and_not_each_its_own(kind):
    """The last one to die has its session for long when the live one leads: without confirming it would wait for its end."""
    store, ttl, pause = kind.store(), 16000, 4.0  # none of them may lead before it dies
    leader = Peer(store.url())
    equal(leader.acquire("a", ttl=ttl, flags=CONFIRM).code, OK)
    dying, tenants = [], []
    for place in range(3):
        dying.append(candidate(store, "a", 2 + place, ttl))
        tenants.append(kind.tenant(store, "a"))
    live = candidate(store, "a", 5, ttl)
    leader.kill()
    for number, peer in enumerate(dying):
        time.sleep(pause)
        peer.stop() if number == 1 else peer.kill()
    equal(live.hear(patience=120).code, OK)
    require(kind.lives(store, tenants[-1]), "it led only when the last one that died had lost its session")
    require(holds(live))
    dying[1].kill()


def a_candidate_that_stands_still_is_passed_over_and_may_lead_later(kind):
    store = kind.store()
    leader = Peer(store.url())
    first = leader.acquire("a", ttl=60000, flags=CONFIRM)
    equal(first.code, OK)
    still = candidate(store, "a", 2, 60000)
    next_one = candidate(store, "a", 3, 60000)
    still.stop()
    equal(leader.release(), OK)
    second = next_one.hear()
    equal(second.code, OK)
    queue(store, "a", 1)
    still.go_on()
    queue(store, "a", 2)
    require(not still.heard(), "two hold it")
    require(holds(next_one))
    equal(kind.mark(store, "a", 0), "ch")
    equal(kind.mark(store, "a", 1), "cc", "it asks for more time")
    equal(next_one.release(), OK)
    third = still.hear()
    equal(third.code, OK)
    require(first.token < second.token < third.token, "tokens do not grow")
    equal(kind.mark(store, "a", 0), "cch")
    equal(still.release(), OK)
    nothing_is_left(store)


def candidates_that_stand_still_in_turns_never_hold_together(kind):
    """Each is stopped for about as long as it would have to confirm: some confirm just in time, some just too late."""
    store = kind.store()
    peers = [Peer(store.url()) for _ in range(4)]
    held, passed, last = 0, 0, 0
    for peer in peers:
        peer.request("a", ttl=30000, flags=CONFIRM)
    for turn in range(12):
        leaders = eventually(lambda: [peer for peer in peers if peer.heard()], "nobody leads")
        equal(len(leaders), 1, "two were granted")
        answer = leaders[0].hear()
        equal(answer.code, OK)
        require(answer.token > last, "tokens do not grow")
        last, held = answer.token, held + 1
        eventually(lambda: len(store.line("a")) == len(peers), "not all are queued")
        others = [peer for peer in peers if peer is not leaders[0]]
        require(not any(peer.heard() for peer in others), "two hold it")
        stopped = others[turn % 3]
        stopped.stop()
        equal(leaders[0].release(), OK)
        time.sleep(0.35 + 0.08 * (turn % 6))
        passed += any(peer.heard() for peer in others if peer is not stopped)
        stopped.go_on()
        leaders[0].request("a", ttl=30000, flags=CONFIRM)
    note("%d grants, another led while one stood still in %d of them" % (held, passed))


def one_that_does_not_confirm_its_turn_is_never_passed_over(kind):
    """A claim without the flag that stands still, and those of other libraries."""
    store = kind.store()
    leader = Peer(store.url())
    equal(leader.acquire("a", ttl=60000, flags=CONFIRM).code, OK)
    plain_one = candidate(store, "a", 2, 60000, flags=0)
    waiting = candidate(store, "a", 3, 60000)
    plain_one.stop()
    equal(leader.release(), OK)
    time.sleep(3)
    require(not waiting.heard(), "a claim that confirms nothing was passed over")
    equal(len(store.line("a")), 2)
    plain_one.go_on()
    equal(plain_one.hear().code, OK)
    equal(plain_one.release(), OK)
    equal(waiting.hear().code, OK)
    for number, remove in enumerate(kind.strangers(store, "a")):
        last = candidate(store, "a", 3, 60000)
        equal(waiting.release(), OK)
        time.sleep(2)
        require(not last.heard(), "another library's claim was passed over", number)
        equal(len(store.line("a")), 2, number)
        remove()
        equal(last.hear().code, OK)
        waiting = last
    equal(waiting.release(), OK)
    nothing_is_left(store)


def roles(store, name):
    shown = subprocess.run([PAWL, "show", "--json", "-e", store.url(), name], stdout=subprocess.PIPE, text=True, check=False)
    return [entry["role"] for entry in json.loads(shown.stdout)]


def one_whose_turn_it_is_does_not_lead_before_it_confirms_that(kind):
    store = kind.store()
    leader = Peer(store.url())
    equal(leader.acquire("a", ttl=60000, flags=CONFIRM).code, OK)
    equal(roles(store, "a")[0], "holder")
    still = candidate(store, "a", 2, 60000)
    still.stop()
    equal(leader.release(), OK)
    queue(store, "a", 1)
    require("holder" not in roles(store, "a"), roles(store, "a"))
    still.go_on()
    equal(still.hear().code, OK)
    equal(roles(store, "a")[0], "holder")


def a_cut_anywhere_in_the_confirming_makes_no_two_leaders(kind):
    """The connection of the one whose turn it is ends; it confirms after that, or another leads and it is queued again."""
    store = kind.store()
    between = Between(store.members[0])
    holder, rival, torn = warmed(store.url()), warmed(store.url()), warmed(store.url(between, timeout="3s"))
    last, cuts, passed = 0, 0, 0
    for direction in ("out", "in"):
        count, cut = 0, True
        while cut:
            equal(holder.acquire("a", wait=30000, ttl=60000, flags=CONFIRM).code, OK)
            torn.request("a", wait=60000, ttl=60000, flags=CONFIRM)
            queue(store, "a", 2)
            rival.request("a", wait=60000, ttl=60000, flags=CONFIRM)
            queue(store, "a", 3)
            between.set_cut(direction, count)
            equal(holder.release(), OK)
            leader = eventually(lambda: next((peer for peer in (torn, rival) if peer.heard()), None), "nobody leads", patience=60)
            other = torn if leader is rival else rival
            for peer in (leader, other):
                answer = peer.hear(60)
                equal(answer.code, OK, "after %d bytes %s" % (count, direction))
                require(answer.token > last, "after %d bytes %s" % (count, direction))
                equal(peer.check(), OK)
                last = answer.token
                require(peer is other or not other.heard(), "two lead after %d bytes %s" % (count, direction))
                code = peer.release()
                require(code == OK or failed(code), show(code))
            eventually(lambda: not store.line("a"), store.line("a"))
            cut = between.cut is None
            cuts, passed = cuts + cut, passed + (leader is rival)
            count += store.few_bytes + 2
        between.cut = None
    note("%d cuts, passed over in %d of them" % (cuts, passed))
    require(cuts > 6)
    nothing_is_left(store)


CANDIDATES = (a_chain_of_deaths_costs_one_session_and_not_each_its_own,
              a_candidate_that_stands_still_is_passed_over_and_may_lead_later,
              candidates_that_stand_still_in_turns_never_hold_together,
              one_that_does_not_confirm_its_turn_is_never_passed_over,
              one_whose_turn_it_is_does_not_lead_before_it_confirms_that,
              a_cut_anywhere_in_the_confirming_makes_no_two_leaders)


def add_candidates(kind):
    add(lambda: kind, CANDIDATES, within=250)
