#!/usr/bin/env python3
"""zookeeper.py - the clients that are in production on ZooKeeper exclude us and we them, both ways: Curator's mutex and its
read/write lock, kazoo's lock, and the elections of both, as the distribution has them."""
from strangers import *

SESSION_MS = 3000
JARS = ":".join("/usr/share/java/%s.jar" % jar for jar in
                ("curator-recipes", "curator-framework", "curator-client", "zookeeper", "zookeeper-jute", "guava", "slf4j-api",
                 "slf4j-nop"))
SHARED, READWRITE = 1, "recipe=readwrite"


def compiled():
    source = os.path.join(HERE, "Curator.java")
    make("Curator.class", [source], ["javac", "-cp", JARS, "-d", MADE, source])
    return MADE


def curator(kind):
    return lambda store: Stranger("java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx64m", "-cp",
                                  JARS + ":" + compiled(), "Curator", store.hosts() + store.chroot, SESSION_MS, kind)


def kazoo(store, *kind):
    return Stranger(sys.executable, os.path.join(HERE, "kazoo_worker.py"), store.hosts() + store.chroot, SESSION_MS / 1000,
                    *kind)


def elected(stranger):
    """Of those who take part in an election: they wait, or they do not take part."""
    def made(store):
        one = stranger(store)
        one.can_try = False
        return one
    return made


selector, candidate = elected(curator("leader")), elected(lambda store: kazoo(store, "election"))


# ---- Curator's read/write lock -----------------------------------------------------------------------------------------

class ReadWrite:
    """A store whose URL asks for names as Curator's read/write lock has them."""

    def __init__(self, store):
        self.store = store

    def url(self):
        return self.store.url(recipe="readwrite")

    def __getattr__(self, name):
        return getattr(self.store, name)


def readwrite():
    return ReadWrite(ZooKeeper.one())


@test
def curator_readers_and_ours_hold_together_and_a_writer_of_either_waits():
    store = readwrite()
    reader, ours = curator("read")(store), Peer(store.url())
    require(reader.wait("a"))
    equal(ours.acquire("a", mode=SHARED).code, OK, "two readers")
    writer, ours_writes = curator("write")(store), Peer(store.url())
    require(not writer.take("a"), "a writer beside readers")
    equal(ours_writes.acquire("a").code, BUSY)
    writer.request("a")
    eventually(lambda: len(store.line("a")) == 3)
    ours_writes.request("a")
    eventually(lambda: len(store.line("a")) == 4)
    require(reader.release())
    time.sleep(0.2)
    require(not writer.heard() and not ours_writes.heard(), "a writer beside a reader of ours")
    equal(ours.release(), OK)
    require(writer.hear())
    equal(ours.acquire("a", mode=SHARED).code, BUSY)
    time.sleep(0.2)
    require(not ours_writes.heard(), "two write")
    require(writer.release())
    equal(ours_writes.hear().code, OK)
    require(not reader.take("a"), "a reader beside a writer of ours")
    equal(ours_writes.release(), OK)
    require(reader.wait("a"))
    require(reader.release())


@test
def our_readers_keep_a_curator_mutex_out_and_a_curator_mutex_keeps_them_out():
    store = ZooKeeper.one()
    mutex, one, two = curator("mutex")(store), Peer(store.url()), Peer(store.url())
    equal(one.acquire("a", mode=SHARED).code, OK)
    equal(two.acquire("a", mode=SHARED).code, OK)
    require(not mutex.take("a"))
    mutex.request("a")
    eventually(lambda: len(store.line("a")) == 3)
    equal(one.release(), OK)
    time.sleep(0.2)
    require(not mutex.heard(), "a mutex beside a reader")
    equal(two.release(), OK)
    require(mutex.hear())
    equal(one.acquire("a", mode=SHARED).code, BUSY)
    require(mutex.release())
    equal(one.acquire("a", wait=10000, mode=SHARED).code, OK)


@test
def a_lock_of_curator_that_is_broken_is_ours():
    store = ZooKeeper.one()
    mutex = curator("mutex")(store)
    require(mutex.wait("a"))
    waiter = Peer(store.url())
    waiter.request("a")
    eventually(lambda: len(store.line("a")) == 2)
    done = pawl("break", "-e", store.url(), "a")
    equal(done.code, 0, done.errors)
    equal(waiter.hear().code, OK, "their node was deleted")


# ---- elections ---------------------------------------------------------------------------------------------------------

def who(observer, name):
    """What an observer of the election says."""
    observer.tell("who", name)
    require(readable(observer.process.stdout, 3 * PATIENCE), "they do not answer")
    return observer.process.stdout.readline().rstrip("\n").split("|")


@test
def observers_of_their_elections_see_our_leader_and_those_who_wait_in_their_order():
    store = ZooKeeper.one()
    leader, next_one, theirs = Peer(store.url()), Peer(store.url()), selector(store)
    equal(leader.acquire("a").code, OK)
    next_one.request("a")
    eventually(lambda: len(store.line("a")) == 2)
    theirs.request("a")
    eventually(lambda: len(store.line("a")) == 3)
    records = [store.keeper.get("%s/a/%s" % (store.chroot, child))[0].decode() for child in store.line("a")]
    for record in records[:2]:
        matches(record, r"^pawl1 [0-9a-f]{16} 10000 0 x 0 - 0 \d+ \S+ a%20peer$")
    equal(records[2], "a selector")
    equal(who(selector(store), "a"), records[:1] + records, "the leader, and all who take part")
    equal(who(candidate(store), "a"), records)
    equal(leader.release(), OK)
    equal(next_one.hear().code, OK)
    equal(who(selector(store), "a")[0], records[1])
    equal(next_one.release(), OK)
    require(theirs.hear())
    equal(who(selector(store), "a")[0], "a selector")


missing = [word for word, there in (
    ("zookeeper", not have("zookeeper")), ("default-jdk-headless", shutil.which("javac")),
    ("libcurator-recipes-java", os.path.exists("/usr/share/java/curator-recipes.jar")),
    ("python3-kazoo", importlib.util.find_spec("kazoo"))) if not there]
add("Curator", ZooKeeper.one, curator("mutex"))
add("Curator's write lock", readwrite, curator("write"),
    (they_hold_and_we_are_refused_until_they_let_go, we_hold_and_they_are_refused_until_we_let_go,
     a_storm_of_both_loses_no_update))
add("kazoo", ZooKeeper.one, kazoo)
add("Curator's election", ZooKeeper.one, selector,
    (they_hold_and_we_are_refused_until_they_let_go, we_hold_and_they_are_refused_until_we_let_go,
     a_line_of_both_is_served_in_its_order, when_they_are_killed_we_get_it))
add("kazoo's election", ZooKeeper.one, candidate,
    (they_hold_and_we_are_refused_until_they_let_go, we_hold_and_they_are_refused_until_we_let_go,
     a_line_of_both_is_served_in_its_order, when_they_are_killed_we_get_it))
add("Curator on three servers", ZooKeeper.three, curator("mutex"), (a_storm_of_both_loses_no_update,))
main(" ".join(missing))
