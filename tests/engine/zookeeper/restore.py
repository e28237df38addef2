#!/usr/bin/env python3
"""restore.py - the servers' data are set back to a copy while clients go on."""
from hurt import *


def data_of(server):
    with open(server.command[-1], encoding="utf-8") as file:
        return re.search("^dataDir=(.*)", file.read(), re.M).group(1)


def set_back(store, meanwhile):
    """Copies the data, lets meanwhile happen, and puts the copy in their place."""
    server = store.members[0]
    copy = os.path.join(store.directory, "copy")
    server.kill()
    shutil.copytree(data_of(server), copy)
    server.start()
    store.healed()
    meanwhile()
    server.kill()
    for entry in os.listdir(data_of(server)):
        shutil.rmtree(os.path.join(data_of(server), entry))
    shutil.copytree(copy, data_of(server), dirs_exist_ok=True)
    shutil.rmtree(copy)
    server.start()
    eventually(server.answers)


@test(within=120)
def a_busy_client_says_that_the_data_went_back_and_goes_on_after_init():
    store = ZooKeeper.one()
    peer = Peer(store.url(timeout="2s"))
    tokens = []

    def work():
        for _ in range(20):
            got = peer.acquire("a", wait=20000, ttl=1000, patience=40)
            equal(got.code, OK, got.text)
            tokens.append(got.token)
            equal(peer.release(), OK)

    work()
    set_back(store, work)

    def refused():
        got = peer.acquire("a", wait=1000, ttl=1000, patience=40)
        require(got.code != OK or got.token > max(tokens), "a token went back")
        return NAMES.get(got.code) == "CORRUPT" and got

    answer = eventually(refused, "it does not say why", patience=60)
    matches(answer.text, "pawl init --yes")
    done = subprocess.run([os.environ["PAWL"], "-e", store.url(), "init", "--yes"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    equal(done.returncode, 0, done.stdout)
    got = peer.acquire("a", wait=20000, ttl=1000, patience=40)
    equal(got.code, OK, got.text)
    require(got.token > max(tokens), "a token went back")
    equal(peer.release(), OK)


main(have("zookeeper"))
