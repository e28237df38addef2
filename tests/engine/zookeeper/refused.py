#!/usr/bin/env python3
"""refused.py - servers that take a connection and close it again: the message names the probable reasons."""
from hurt import *


@test
def too_many_connections_from_one_address_are_said_to_be_that():
    os.environ["PAWL_TEST_ZOOKEEPER_CONF"] = "maxClientCnxns=3"
    try:
        store = ZooKeeper("zookeeper")  # its keeper has one of the connections
    finally:
        del os.environ["PAWL_TEST_ZOOKEEPER_CONF"]
    at_end(store.down)
    store.fresh()
    first, second, third = (Peer(store.url()) for _ in range(3))
    equal(first.acquire("a").code, OK)
    equal(second.acquire("b").code, OK)
    answer = third.acquire("c", patience=60)
    equal(answer.code, UNREACHABLE, answer.text)
    matches(answer.text, r"^127\.0\.0\.1:\d+ closed the connection before it opened a session: .*maxClientCnxns")
    require("broken pipe" not in answer.text.lower() and "reset" not in answer.text.lower(), answer.text)
    answer = second.ask("release")
    equal(answer.code, OK)
    answer = second.acquire("b", ttl=30000, patience=60)  # another session, on another connection
    equal(answer.code, UNREACHABLE, answer.text)
    matches(answer.text, "while another session of this client is served: .*maxClientCnxns")
    equal(second.acquire("b").code, OK)


@test
def a_server_without_a_quorum_is_said_to_be_that():
    store = ZooKeeper.three()
    alone = store.followers()[0]
    for member in store.members:
        if member is not alone:
            member.kill()
    peer = Peer(store.url(alone))

    def says_so():
        answer = peer.acquire("a", patience=60)
        equal(answer.code, UNREACHABLE, answer.text)
        return re.search("closed the connection before it opened a session: .*no quorum", answer.text)

    eventually(says_so)


main(have("zookeeper", "zookeeper3"))
