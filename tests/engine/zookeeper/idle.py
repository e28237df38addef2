#!/usr/bin/env python3
"""idle.py - names that are used once leave no containers behind, and names in repeated use do not pay for that. The server
of these tests removes no containers by itself: what is gone was deleted by a client."""
from hurt import *

OTHERS = 400  # more names than a client remembers


def own_store():
    os.environ["PAWL_TEST_ZOOKEEPER_JAVA"] = "-Dznode.container.checkIntervalMs=3600000"
    try:
        store = Store.running.get("idle") or ZooKeeper("zookeeper")
    finally:
        del os.environ["PAWL_TEST_ZOOKEEPER_JAVA"]
    Store.running["idle"] = store
    store.healed()
    store.fresh()
    return store


def names_in(store):
    return [child for child in store.children() if child != ".pawl"]


def only(store, *names):
    """Nothing else is left."""
    eventually(lambda: names_in(store) == sorted(names), lambda: "left: %d, %r ..." % (len(names_in(store)), names_in(store)[:5]))


def pair(peer, name, wait=20000):
    answer = peer.acquire(name, wait=wait, patience=60)
    equal(answer.code, OK, name, answer.text)
    equal(peer.release(), OK, name)


def use(peer, count, prefix):
    """So many names, each of them once."""
    for number in range(count):
        pair(peer, "%s-%d" % (prefix, number))


def stat_of(store, path=""):
    return store.keeper.retry(store.keeper.exists, store.chroot + path)


def changes_of(store):
    """How many names were made and removed."""
    return stat_of(store).cversion - (".pawl" in store.children())


@test
def a_thousand_names_that_were_used_once_leave_nothing():
    store = own_store()
    peer = Peer(store.url())
    use(peer, 1000, "job")
    only(store)
    use(peer, 3, "few")
    only(store)


@test
def a_client_that_closes_takes_its_names_along():
    store = own_store()
    peer = Peer(store.url())
    use(peer, 1000, "job")
    equal(peer.leave(), 0)
    only(store)
    peer = Peer(store.url())
    use(peer, 100, "job")
    equal(peer.leave(), 0)
    only(store)


@test
def a_process_that_takes_one_lock_leaves_its_name_to_the_next():
    store = own_store()
    for _ in range(3):
        equal(pawl("run", "-e", store.url(), "a", "true").code, 0)
    made = stat_of(store, "/a").czxid
    equal(pawl("run", "-e", store.url(), "a", "true").code, 0)
    equal(stat_of(store, "/a").czxid, made)


@test
def a_name_in_repeated_use_keeps_its_container_and_costs_two_writes():
    store = own_store()
    peer = Peer(store.url(history="no"))
    pair(peer, "a")
    pair(peer, "a")
    made, changes = stat_of(store, "/a").czxid, changes_of(store)
    for _ in range(300):
        pair(peer, "a")
    equal(stat_of(store, "/a").czxid, made)
    equal(stat_of(store, "/a").cversion, 2 * 302)  # of each pair one node, made and deleted, and nothing else
    use(peer, OTHERS, "other")
    only(store, "a")
    equal(stat_of(store, "/a").czxid, made)
    equal(changes_of(store) - changes, 2 * OTHERS, "only the others were made and removed")


@test
def a_name_that_comes_back_after_it_was_deleted_is_deleted_only_once():
    store = own_store()
    peer = Peer(store.url())
    pair(peer, "a")
    only(store)
    pair(peer, "a")
    made = stat_of(store, "/a").czxid
    use(peer, OTHERS, "other")
    only(store, "a")
    pair(peer, "a")
    equal(stat_of(store, "/a").czxid, made)


@test
def a_container_with_somebody_in_it_stays_and_does_not_keep_the_others():
    store = own_store()
    peer = Peer(store.url())
    stays = ["job-%d" % number for number in (0, 17, 100)]
    for number in range(300):
        name = "job-%d" % number
        pair(peer, name)
        if name in stays:
            store.keeper.create("%s/%s/lock-" % (store.chroot, name), ephemeral=True, sequence=True)
    only(store, *stays)


@test
def a_container_whose_delay_is_not_over_stays():
    store = own_store()
    peer, other = Peer(store.url()), Peer(store.url())
    equal(peer.acquire("a", delay=60000).code, OK)
    equal(pawl("break", "-e", store.url(), "a").code, 0)
    eventually(lambda: peer.check() == LOST)
    equal(peer.release(), LOST)
    require(not store.line("a") and store.markers("a"), store.children("/a"))
    use(peer, OTHERS, "other")
    only(store, "a")
    equal(other.acquire("a").code, BUSY)


@test
def without_the_right_to_delete_below_the_path_locks_work_all_the_same():
    from kazoo.security import make_acl
    store = own_store()
    store.keeper.set_acls(store.chroot, [make_acl("world", "anyone", read=True, create=True, write=True, admin=True)])
    peer = Peer(store.url())
    use(peer, 400, "job")
    equal(len(names_in(store)), 400)
    store.keeper.set_acls(store.chroot, [make_acl("world", "anyone", all=True)])


@test
def doctor_mentions_very_many_names():
    store = own_store()

    def mentioned():
        done = pawl("doctor", "-e", store.url())
        return re.search(r"(\d+) names stand below", done.output)

    require(not mentioned())
    for first in range(0, 21000, 1000):
        many = store.keeper.transaction()
        for number in range(first, first + 1000):
            many.create("%s/n%d" % (store.chroot, number))
        many.commit()
    equal(mentioned().group(1), "21000")


class Pairs:
    """Threads that drive a peer each. Two inside, or an acquire that fails, is a problem."""

    def __init__(self):
        self.guard = threading.Lock()
        self.inside = {}
        self.last = {}
        self.problems = []
        self.pairs = 0

    def pair(self, peer, name):
        answer = peer.acquire(name, wait=30000, patience=60)
        with self.guard:
            if answer.code != OK:
                self.problems.append((name, NAMES.get(answer.code), answer.text))
                return
            if self.inside.get(name):
                self.problems.append((name, "two hold it"))
            if answer.token <= self.last.get(name, 0):
                self.problems.append((name, "its token does not grow"))
            self.inside[name], self.last[name] = True, answer.token
            self.pairs += 1
        with self.guard:
            self.inside[name] = False
        code = peer.release()
        if code != OK:
            self.problems.append((name, "release", NAMES.get(code)))

    def run(self, *works):
        threads = [threading.Thread(target=self.guarded, args=(work,), daemon=True) for work in works]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        require(not self.problems, self.problems[:10])
        note("%d pairs" % self.pairs)

    def guarded(self, work):
        try:
            work()
        except Exception as problem:  # pylint: disable=broad-except
            self.problems.append(repr(problem))


@test(within=240)
def two_clients_on_the_names_that_one_of_them_deletes_hold_one_at_a_time():
    """One goes ahead; the other takes the names that the first is about to delete."""
    store = own_store()
    pairs, ahead, at = Pairs(), 3000, [0]
    first, second, third = (Peer(store.url(history="no")) for _ in range(3))

    def lead():
        for number in range(ahead):
            at[0] = number
            pairs.pair(first, "job-%d" % number)
        at[0] = 2 * ahead

    def follow(peer):
        while at[0] < ahead:
            number = at[0] - random.randrange(150, 400)
            if number >= 0:
                pairs.pair(peer, "job-%d" % number)

    pairs.run(lead, lambda: follow(second), lambda: follow(third))
    eventually(lambda: len(names_in(store)) < ahead / 2, lambda: len(names_in(store)))
    nothing_is_left(store)


@test(within=240)
def a_container_that_somebody_deletes_again_and_again_fails_no_acquire():
    from kazoo.exceptions import NoNodeError, NotEmptyError
    store = own_store()
    pairs, over, deleted = Pairs(), [], [0]
    peers = [Peer(store.url(history="no")) for _ in range(2)]

    def delete():
        while len(over) < 2:
            try:
                store.keeper.delete(store.chroot + "/a")
                deleted[0] += 1
            except (NoNodeError, NotEmptyError):
                pass

    def work(peer):
        for _ in range(1500):
            pairs.pair(peer, "a")
        over.append(peer)

    pairs.run(delete, *[lambda peer=peer: work(peer) for peer in peers])
    require(deleted[0] > 0)
    note("%d containers were deleted" % deleted[0])
    nothing_is_left(store)


main(have("zookeeper"))
