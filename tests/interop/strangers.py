"""strangers.py - the clients of others, each in a process of its own, and what must be true of every one of them beside ours.

A Stranger has take (without waiting; what it says), wait, release, and can be killed. store: where both are."""
import threading

from stores import *

HERE = os.path.dirname(os.path.abspath(__file__))
MADE = os.path.join(BUILD, "tests/interop")


def make(target, sources, command, **environment):
    """Compiles once, into the build directory; another test that does the same at the same time does no harm."""
    os.makedirs(MADE, exist_ok=True)
    target = os.path.join(MADE, target)
    if not os.path.exists(target) or any(os.path.getmtime(source) > os.path.getmtime(target) for source in sources):
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, cwd=MADE,
                              env={**os.environ, **environment})
        require(done.returncode == 0, done.stdout)
    return target


class Stranger:
    """Reads orders on stdin, one line each, and answers yes or no."""
    can_try = True

    def __init__(self, *command):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        stderr=subprocess.DEVNULL, text=True, bufsize=1)
        at_end(self.kill)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def tell(self, *words):
        self.process.stdin.write(" ".join(words) + "\n")

    def heard(self):
        return readable(self.process.stdout, 0)

    def hear(self):
        require(readable(self.process.stdout, 3 * PATIENCE), "they do not answer")
        answer = self.process.stdout.readline().strip()
        require(answer in ("yes", "no"), "they say %r" % answer)
        return answer == "yes"

    def order(self, *words):
        self.tell(*words)
        return self.hear()

    def take(self, name):
        return self.order("take", name)

    def request(self, name):
        """Waits, and does not wait for the answer."""
        self.tell("wait", name)

    def wait(self, name):
        self.request(name)
        return self.hear()

    def release(self):
        return self.order("release")


# ---- what is true of each ----------------------------------------------------------------------------------------------

def they_hold_and_we_are_refused_until_they_let_go(store, other):
    theirs, ours = other(store), Peer(store.url())
    require(theirs.wait("a"))
    equal(ours.acquire("a").code, BUSY)
    equal(len(store.line("a")), 1, "what was refused is still in the line")
    equal(ours.acquire("a", wait=200).code, TIMEOUT)
    eventually(lambda: len(store.line("a")) == 1, "what gave up is still in the line")
    ours.request("a")
    eventually(lambda: len(store.line("a")) == 2)
    time.sleep(0.3)
    require(not ours.heard(), "two hold it")
    require(theirs.release())
    equal(ours.hear().code, OK)
    equal(ours.release(), OK)
    eventually(lambda: not store.line("a"), store.line("a"))


def we_hold_and_they_are_refused_until_we_let_go(store, other):
    theirs, ours = other(store), Peer(store.url())
    equal(ours.acquire("a").code, OK)
    if theirs.can_try:
        require(not theirs.take("a"))
    theirs.request("a")
    eventually(lambda: len(store.line("a")) == 2)
    time.sleep(0.3)
    require(not theirs.heard(), "two hold it")
    equal(ours.check(), OK)
    equal(ours.release(), OK)
    require(theirs.hear())
    equal(ours.acquire("a").code, BUSY)
    require(theirs.release())
    equal(ours.acquire("a", wait=10000).code, OK)


def a_line_of_both_is_served_in_its_order(store, other):
    first, theirs, ours, last = Peer(store.url()), other(store), Peer(store.url()), other(store)
    before = first.acquire("a")
    equal(before.code, OK)
    for number, who in enumerate((theirs, ours, last), 2):
        who.request("a")
        eventually(lambda: len(store.line("a")) == number)
    equal(first.release(), OK)
    require(theirs.hear())
    time.sleep(0.2)
    require(not ours.heard() and not last.heard(), "somebody got it who stood behind")
    require(theirs.release())
    got = ours.hear()
    equal(got.code, OK)
    require(got.token > before.token)
    time.sleep(0.2)
    require(not last.heard(), "two hold it")
    equal(ours.release(), OK)
    require(last.hear())
    require(last.release())


def when_they_are_killed_we_get_it(store, other):
    theirs, ours = other(store), Peer(store.url())
    require(theirs.wait("a"))
    ours.request("a")
    eventually(lambda: len(store.line("a")) == 2)
    theirs.kill()
    equal(ours.hear(2 * PATIENCE).code, OK)
    equal(ours.release(), OK)
    eventually(lambda: not store.line("a"))


def when_one_of_theirs_that_waits_before_us_is_killed_we_get_it_in_our_turn(store, other):
    first, theirs, ours = Peer(store.url()), other(store), Peer(store.url())
    equal(first.acquire("a").code, OK)
    theirs.request("a")
    eventually(lambda: len(store.line("a")) == 2)
    ours.request("a")
    eventually(lambda: len(store.line("a")) == 3)
    theirs.kill()
    eventually(lambda: len(store.line("a")) == 2)
    time.sleep(0.2)
    require(not ours.heard(), "it got the lock while another held it")
    equal(first.check(), OK)
    equal(first.release(), OK)
    equal(ours.hear().code, OK)


def when_we_are_killed_they_get_it(store, other):
    theirs, ours = other(store), Peer(store.url())
    equal(ours.acquire("a", ttl=1000).code, OK)
    theirs.request("a")
    eventually(lambda: len(store.line("a")) == 2)
    ours.kill()
    require(theirs.hear())
    require(theirs.release())


def when_we_stood_still_for_too_long_they_have_it_and_our_late_release_does_not_free_theirs(store, other):
    theirs, ours = other(store), Peer(store.url())
    equal(ours.acquire("a", ttl=800).code, OK)
    theirs.request("a")
    eventually(lambda: len(store.line("a")) == 2)
    ours.stop()
    require(theirs.hear())
    ours.go_on()
    eventually(lambda: ours.check() == LOST)
    equal(ours.release(), LOST)
    equal(len(store.line("a")), 1)
    equal(ours.acquire("a").code, BUSY)
    require(theirs.release())


def the_command_excludes_them_too(store, other):
    theirs = other(store)
    require(theirs.wait("a"))
    done = pawl("run", "-e", store.url(), "-n", "a", "true")
    equal(done.code, 1, done.errors)
    require(theirs.release())
    done = pawl("run", "-e", store.url(), "-w", "20s", "a", "echo", "held")
    equal((done.code, done.output), (0, "held\n"), done.errors)


def their_lock_shows_in_a_listing_as_a_strangers(store, other):
    theirs = other(store)
    require(theirs.wait("a"))
    done = pawl("ls", "-e", store.url(), "--json")
    equal(done.code, 0, done.errors)
    entry, = json.loads(done.output)
    equal((entry["name"], entry["role"]), ("a", "holder"))
    matches(entry["owner"], "^not pawl")
    done = pawl("show", "-e", store.url(), "a")
    equal(done.code, 0, done.errors)
    require(theirs.release())


def count_up(path):
    """What must not be done by two at once."""
    with open(path, encoding="utf-8") as file:
        value = int(file.read())
    time.sleep(0.0005)
    with open(path, "w", encoding="utf-8") as file:
        file.write("%d" % (value + 1))


def a_storm_of_both_loses_no_update(store, other):
    rounds, tokens, problems = 12, [], []
    path = directory() + "/count"
    with open(path, "w", encoding="utf-8") as file:
        file.write("0")

    def ours():
        peer = Peer(store.url())
        for _ in range(rounds):
            got = peer.acquire("storm", wait=60000, patience=90)
            equal(got.code, OK, got.text)
            tokens.append(got.token)
            count_up(path)
            equal(peer.check(), OK)
            equal(peer.release(), OK)

    def theirs(stranger):
        for _ in range(rounds):
            require(stranger.wait("storm"))
            count_up(path)
            require(stranger.release())

    def guarded(function, *arguments):
        try:
            function(*arguments)
        except Exception as problem:
            problems.append(repr(problem))

    strangers = [other(store) for _ in range(2)]
    threads = [threading.Thread(target=guarded, args=(ours,), daemon=True) for _ in range(3)]
    threads += [threading.Thread(target=guarded, args=(theirs, stranger), daemon=True) for stranger in strangers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(90)
        require(not thread.is_alive(), "somebody was never served")
    equal(problems, [])
    with open(path, encoding="utf-8") as file:
        equal(int(file.read()), len(threads) * rounds)
    equal(tokens, sorted(set(tokens)), "tokens")
    eventually(lambda: not store.line("storm"), store.line("storm"))


EACH = (they_hold_and_we_are_refused_until_they_let_go,
        we_hold_and_they_are_refused_until_we_let_go,
        a_line_of_both_is_served_in_its_order,
        when_they_are_killed_we_get_it,
        when_one_of_theirs_that_waits_before_us_is_killed_we_get_it_in_our_turn,
        when_we_are_killed_they_get_it,
        when_we_stood_still_for_too_long_they_have_it_and_our_late_release_does_not_free_theirs,
        the_command_excludes_them_too,
        their_lock_shows_in_a_listing_as_a_strangers,
        a_storm_of_both_loses_no_update)


def add(called, store, other, parts=EACH):
    """store(): where; other(store): one of them."""
    for part in parts:
        def run(part=part):
            part(store(), other)
        run.__name__ = "%s: %s" % (called, part.__name__)
        test(run, within=120)
