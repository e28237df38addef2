#!/usr/bin/env python3
"""etcd.py - the clients that are in production on etcd exclude us and we them, both ways: etcdctl lock and elect, and the Mutex
of etcd's own Go package, as the distribution has them. python-etcd3 is not here: its Lock is one key (/locks/NAME) that nobody queues
behind, and no client of the two above sees it either."""
from strangers import *

TTL_S = 3
GO = "/usr/share/gocode"


class Etcdctl(Stranger):
    """Holds for as long as it runs; says the name of its key when it does."""
    can_try = False
    command = ("lock", "--ttl", str(TTL_S))
    value = ()

    def __init__(self, store):
        self.store = store
        self.process = None
        at_end(self.kill)

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()

    def request(self, name):
        self.process = subprocess.Popen(
            ["etcdctl", "--endpoints", self.store.hosts(), *self.command, self.store.prefix + name, *self.value],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, bufsize=1,
            env={**os.environ, "ETCDCTL_API": "3"})

    def hear(self):
        require(readable(self.process.stdout, 3 * PATIENCE), "etcdctl does not get it")
        line = self.process.stdout.readline()
        require(line.startswith(self.store.prefix), "etcdctl says %r" % line)
        return True

    def release(self):
        self.process.terminate()
        self.process.wait(PATIENCE)
        return True


class Candidate(Etcdctl):
    """Leads for as long as it runs. Its lease lasts a minute, and that cannot be set."""
    command = ("elect",)
    value = ("a candidate",)


class Observer(Etcdctl):
    """Says who leads, whenever that changes: a key, and its value."""
    command = ("elect", "--listen")

    def sees(self):
        require(readable(self.process.stdout, PATIENCE), "it sees nobody")
        return [self.process.stdout.readline().rstrip("\n") for _ in range(2)]


def make_mutex():
    source = os.path.join(HERE, "mutex.go")
    return make("go-mutex", [source], ["go", "build", "-o", "go-mutex", source], GO111MODULE="off", GOPATH=GO, GOFLAGS="",
                GOCACHE=os.path.join(MADE, "go-cache"))


def go_mutex(store):
    return Stranger(make_mutex(), store.hosts(), TTL_S, store.prefix)


# ---- elections ---------------------------------------------------------------------------------------------------------

@test
def who_observes_an_election_of_that_name_sees_our_holders_one_after_the_other():
    store = Etcd.one()
    first, second, observer = Peer(store.url()), Peer(store.url()), Observer(store)
    equal(first.acquire("a").code, OK)
    observer.request("a")
    leader = store.line("a")[0]
    key, value = observer.sees()
    equal(key, store.prefix + leader)
    matches(value, r"^pawl1 .* a%20peer$")
    second.request("a")
    eventually(lambda: len(store.line("a")) == 2)
    equal(first.ask("keep 0 bytes").code, OK)
    equal(observer.sees(), [key, value], "a store tells the same once more")
    equal(first.release(), OK)
    equal(second.hear().code, OK)
    key, value = observer.sees()
    equal(key, store.prefix + store.line("a")[0])
    require(key != store.prefix + leader)
    candidate = Candidate(store)
    candidate.request("a")
    eventually(lambda: len(store.line("a")) == 2)
    equal(second.release(), OK)
    require(candidate.hear())
    equal(observer.sees(), [store.prefix + store.line("a")[0], "a candidate"])
    require(candidate.release())


# ---- the 50 ms trap ----------------------------------------------------------------------------------------------------

class Writer:
    """A client that writes keys of its own all the time, so that the store's revision never stands still."""

    def __init__(self, store):
        self.over = False
        self.count = 0
        self.store = store
        self.thread = threading.Thread(target=self.write, daemon=True)
        self.thread.start()
        at_end(self.end)

    def write(self):
        while not self.over:
            self.store.put("unrelated", str(self.count))
            self.count += 1

    def end(self):
        self.over = True
        self.thread.join()


def turns(pair, count):
    """How long it takes a pair to hand a lock over so many times, each standing in the line again before the other lets go."""
    first, second = pair
    first.ask_for()
    first.got()
    began = time.monotonic()
    for _ in range(count):
        second.ask_for()
        first.let_go()
        second.got()
        first, second = second, first
    took = time.monotonic() - began
    first.let_go()
    return took


class Turn:
    """One that takes turns: ours or theirs."""

    def __init__(self, store, peer):
        self.store, self.peer = store, peer

    def ask_for(self):
        waiting = len(self.store.line("turns"))
        self.peer.request("turns")
        eventually(lambda: len(self.store.line("turns")) > waiting)

    def got(self):
        answer = self.peer.hear()
        require(answer is True or answer.code == OK, answer)

    def let_go(self):
        require(self.peer.release() in (True, OK))


@test
def a_hand_over_while_others_write_takes_no_step_of_the_servers_watch_loop():
    """A watch that begins in the past is served every 100 ms: Go's Mutex has one, and shows what it costs, on the same server at
    the same time. Taken in turns, the best of three each."""
    store = Etcd.one()
    ours = [Turn(store, Peer(store.url())) for _ in range(2)]
    theirs = [Turn(store, go_mutex(store)) for _ in range(2)]
    for pair in ours, theirs:
        turns(pair, 2)
    writer = Writer(store)
    ours_took, theirs_took = [], []
    for _ in range(3):
        ours_took.append(turns(ours, 10))
        theirs_took.append(turns(theirs, 10))
    require(writer.count > 100, writer.count)
    note("ten hand-overs: ours %.0f ms, Go's Mutex %.0f ms" % (1000 * min(ours_took), 1000 * min(theirs_took)))
    require(min(ours_took) * 1.5 < min(theirs_took), "ours are as slow as one that begins in the past", ours_took, theirs_took)


missing = [word for word, there in (("etcd-server etcd-client", not have("etcd")), ("golang-go", shutil.which("go")),
                                    ("golang-etcd-server-dev", os.path.isdir(GO + "/src/go.etcd.io/etcd"))) if not there]
add("etcdctl", Etcd.one, Etcdctl)
add("etcdctl elect", Etcd.one, Candidate,
    (they_hold_and_we_are_refused_until_they_let_go, we_hold_and_they_are_refused_until_we_let_go,
     a_line_of_both_is_served_in_its_order, their_lock_shows_in_a_listing_as_a_strangers))
add("Go", Etcd.one, go_mutex)
add("Go on three members", Etcd.three, go_mutex, (a_storm_of_both_loses_no_update,))
if not missing:
    make_mutex()  # no sentence's time should go into the compiler
main(" ".join(missing))
