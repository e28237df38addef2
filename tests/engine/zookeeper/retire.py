#!/usr/bin/env python3
"""retire.py - queues whose numbers come to their end. The counter of a parent sticks at 2147483647: from there on nobody can
tell who was first. Set by SetCounter.java in the data of a server that is down."""
from hurt import *

HERE = os.path.dirname(os.path.abspath(__file__))
JARS = ":".join("/usr/share/java/%s.jar" % jar for jar in ("zookeeper", "zookeeper-jute", "slf4j-api", "slf4j-nop"))
LAST = 2 ** 31 - 1
HALF_WAY = 2 ** 30


def set_counter(store, path, number):
    """Of a node below the chroot, which is made if it is not there."""
    classes = os.path.join(store.directory, "classes")
    if not os.path.exists(classes):
        subprocess.run(["javac", "-cp", JARS, "-d", classes, os.path.join(HERE, "SetCounter.java")], check=True)
    store.keeper.retry(store.keeper.ensure_path, store.chroot + path)
    server = store.members[0]
    server.kill()
    with open(server.command[-1], encoding="utf-8") as file:
        data = re.search("^dataDir=(.*)", file.read(), re.M).group(1)
    done = subprocess.run(["java", "-XX:TieredStopAtLevel=1", "-cp", JARS + ":" + classes, "SetCounter", data, store.chroot + path,
                           str(number)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    equal(done.returncode, 0, done.stdout)
    server.start()
    store.healed()


def numbers_of(store, path):
    return [int(re.search(r"-(-?\d{10})$", child).group(1)) for child in store.children(path) if re.search(r"\d{10}$", child)]


def stranger_in(store, path):
    """What another library leaves in a queue. Our own connection may still be on its way back after a restart: it is back
    before that, as a create that is tried again may leave two."""
    store.keeper.retry(store.keeper.exists, store.chroot)
    return store.keeper.retry(store.keeper.create, store.chroot + path + "/lock-", ephemeral=True, sequence=True)


def remove(store, stranger):
    """Also if the first try was made, and only its answer was lost."""
    from kazoo.exceptions import NoNodeError
    try:
        store.keeper.retry(store.keeper.delete, stranger)
    except NoNodeError:
        pass


def own_store():
    """One that no other program uses, since it is killed."""
    return ZooKeeper.one()


def cross(number):
    """Eight clients take one lock in turns, from that number on."""
    store = own_store()
    set_counter(store, "/crowd", number)
    crowd = Crowd(store, 8)
    crowd.progress(150)
    numbers = numbers_of(store, "/crowd")
    require(all(0 <= each < HALF_WAY for each in numbers), "the queue did not begin anew", numbers)
    crowd.end()
    nothing_is_left(store)


@test(within=180)
def eight_clients_whose_queue_is_at_the_end_of_its_numbers_hold_one_at_a_time():
    cross(LAST - 100)


@test(within=180)
def eight_clients_begin_a_new_queue_half_way():
    cross(HALF_WAY - 60)


@test(within=120)
def beside_another_library_they_stay_in_the_queue_and_are_refused_at_its_end():
    store = own_store()
    set_counter(store, "/a", HALF_WAY + 5)
    stranger = stranger_in(store, "/a")
    waiter, late = Peer(store.url()), Peer(store.url())
    waiter.request("a")
    eventually(lambda: len(store.line("a")) == 2)
    equal(late.acquire("a").code, BUSY)
    remove(store, stranger)
    equal(waiter.hear().code, OK)
    equal(waiter.release(), OK)
    set_counter(store, "/b", LAST - 1000)
    stranger = stranger_in(store, "/b")
    answer = late.acquire("b", wait=20000)
    equal(answer.code, FULL, answer.text)
    matches(answer.text, "numbers")
    remove(store, stranger)
    require(not store.line("b"), store.line("b"))
    answer = late.acquire("c")
    equal(answer.code, OK, answer.text)


@test(within=120)
def a_try_in_a_queue_that_is_retired_gets_a_free_lock_and_is_refused_a_held_one():
    store = own_store()
    set_counter(store, "/a", HALF_WAY)
    one, two = Peer(store.url()), Peer(store.url())
    equal(one.acquire("a").code, OK)
    equal(two.acquire("a").code, BUSY)
    equal(numbers_of(store, "/a")[0] < HALF_WAY, True)
    equal(one.release(), OK)
    equal(two.acquire("a").code, OK)
    equal(two.release(), OK)
    nothing_is_left(store)


@test(within=120)
def history_goes_on_when_its_numbers_are_used_up():
    store = own_store()
    set_counter(store, "/.pawl/past", LAST - 1)
    peer = Peer(store.url())

    def begin_anew():
        equal(peer.acquire("a").code, OK)
        equal(peer.release(), OK)
        numbers = numbers_of(store, "/.pawl/past")
        return numbers and all(0 <= each < HALF_WAY for each in numbers)

    eventually(begin_anew, lambda: "the batches do not begin anew: %r" % store.children("/.pawl/past"))


main(have("zookeeper") or ("" if shutil.which("javac") else "default-jdk-headless"))
