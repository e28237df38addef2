#!/usr/bin/env python3
"""failover.py - one address, several servers: a failover while clients wait and hold, an address that balances, a primary that is
demoted. Two never hold at once, and nobody stays with a server that no longer serves."""
import threading
import time

from rig import *

SHARED = 1


class Switch(Cutter):
    """One address. New connections go to server; news, if it is set, gets those that subscribe, for ever."""
    news = None

    def relay(self, client):
        first = client.recv(65536)
        while b"SUBSCRIBE" not in first and b"EVAL" not in first and b"SCAN" not in first:
            more = client.recv(65536)
            if not more:
                return
            first += more
        subscribes = b"SUBSCRIBE" in first
        target = self.news if subscribes and self.news else self.server
        server = socket.create_connection(("127.0.0.1", target.port))
        for end in client, server:
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self.lock:
            self.pairs.append((client, server, subscribes))
        server.sendall(first)
        back = threading.Thread(target=self.pump, args=(server, client, "in", (client, server)), daemon=True)
        back.start()
        self.pump(client, server, "out", (client, server))
        back.join()
        server.close()

    def cut_commands(self):
        with self.lock:
            pairs = [pair for pair in self.pairs if not pair[2]]
        for client, server, _ in pairs:
            hang_up(client, server)


def follow(replica, primary):
    replica("REPLICAOF", "127.0.0.1", primary.port)
    eventually(lambda: "master_link_status:up" in replica("INFO", "replication"), replica.log)


def primary_and_replica():
    primary, replica = Server(), Server()
    follow(replica, primary)
    return primary, replica


def catch_up(primary, replica):
    """Nothing is lost: the replica has all that the primary has."""
    eventually(lambda: primary("WAIT", 1, 100) == 1)
    offset = re.search(r"master_repl_offset:(\d+)", primary("INFO", "replication")).group(1)
    eventually(lambda: int(re.search(r"slave_repl_offset:(\d+)", replica("INFO", "replication")).group(1)) >= int(offset))


def fail_over(old, new):
    """A planned one."""
    catch_up(old, new)
    new("REPLICAOF", "NO", "ONE")
    follow(old, new)


def wait_in_line(server, waiter, name, count, ttl):
    waiter.request(name, ttl=ttl)
    eventually(lambda: server.waiters(name) == count)


# ---- never two ---------------------------------------------------------------------------------------------------------

@test
def a_waiter_that_listens_at_a_replica_never_holds_beside_another():
    primary, replica = primary_and_replica()
    balanced = Switch(primary)
    holder, near = Peer(primary.url()), Peer(primary.url())
    far = Peer(primary.url(port=balanced.port))
    equal(holder.acquire("a", ttl=60000).code, OK)
    wait_in_line(primary, far, "a", 1, 60000)
    wait_in_line(primary, near, "a", 2, 60000)
    balanced.news = replica
    for client, server, subscribes in list(balanced.pairs):
        if subscribes:
            hang_up(client, server)
    # It may leave at once, when it sees that the two connections are at different servers.
    eventually(lambda: "cmdstat_subscribe:" in replica("INFO", "commandstats"), "it does not listen at the replica")
    equal(holder.release(), OK)
    got = near.hear()
    equal(got.code, OK)
    time.sleep(1)
    require(not far.heard(), "two hold it: the other was told by the replica")
    equal(near.check(), OK)
    balanced.news = None
    equal(near.release(), OK)
    answer = far.hear()
    equal(answer.code, OK, "it must come back when it reaches the primary")
    require(answer.token > got.token)
    equal(far.release(), OK)


@test(within=90)
def a_failover_behind_one_address_with_subscribers_left_behind_has_one_holder_at_a_time():
    old, new = primary_and_replica()
    address = Switch(old)
    url = old.url(port=address.port)
    holder, waiters = Peer(url), [Peer(url) for _ in range(4)]
    equal(holder.acquire("a", ttl=60000).code, OK)
    for number, waiter in enumerate(waiters):
        wait_in_line(old, waiter, "a", number + 1, 60000)
    address.server = new
    fail_over(old, new)
    address.cut_commands()  # and the subscribers stay where they are
    equal(holder.release(), OK)
    served, tokens = 0, []
    while served < len(waiters):
        ready = eventually(lambda: [waiter for waiter in waiters if waiter.heard()], "%d were served" % served, patience=30)
        time.sleep(0.3)
        ready = [waiter for waiter in waiters if waiter.heard()]
        equal(len(ready), 1, "so many hold it at once")
        answer = ready[0].hear()
        equal(answer.code, OK, ready[0].ask("why").text)
        tokens.append(answer.token)
        equal(ready[0].check(), OK)
        equal(ready[0].release(), OK)
        served += 1
    equal(tokens, sorted(set(tokens)))
    equal(len(old("PUBSUB", "CHANNELS")), 0, "somebody still listens where nothing is told")


# ---- nobody stays ------------------------------------------------------------------------------------------------------

@test
def a_client_leaves_a_primary_that_was_demoted():
    old, new = primary_and_replica()
    address = Switch(old)
    url = old.url(port=address.port)
    busy, waiting, other = Peer(url), Peer(url), Peer(url)
    for _ in range(3):
        equal(busy.acquire("a").code, OK)
        equal(busy.release(), OK)
    held = other.acquire("b", ttl=3000)
    equal(held.code, OK)
    wait_in_line(old, waiting, "b", 1, 3000)
    address.server = new
    fail_over(old, new)  # no connection is cut: the server only says no
    answer = busy.acquire("a")
    equal(answer.code, OK, "the first try after it", answer.text)
    equal(busy.release(), OK)
    time.sleep(4)  # longer than the lease
    equal(other.check(), OK, "a lock whose data were all there is held on the new one")
    equal(other.release(), OK)
    answer = waiting.hear()
    equal(answer.code, OK)
    require(answer.token > held.token)
    equal(waiting.release(), OK)
    equal(len(old("PUBSUB", "CHANNELS")), 0)


@test
def a_release_on_a_demoted_primary_is_done_on_the_new_one():
    old, new = primary_and_replica()
    address = Switch(old)
    peer = Peer(old.url(port=address.port))
    for kind in ({}, {"mode": SHARED}, {"delay": 300}):
        equal(peer.acquire("a", ttl=60000, **kind).code, OK)
        address.server = new
        fail_over(old, new)
        equal(peer.release(), OK, kind)
        equal(new.keys("lock:*"), [], kind)
        old, new = new, old


@test
def where_all_are_replicas_the_reason_is_told():
    old, new = primary_and_replica()
    peer = Peer(old.url(timeout="1s"))
    equal(peer.acquire("a").code, OK)
    equal(peer.release(), OK)
    fail_over(old, new)
    for wait in (NO_WAIT, 8000):
        answer = peer.acquire("a", wait=wait)
        equal(answer.code, UNREACHABLE, answer.text)
        matches(answer.text, "replica")
    follow(new, old) if False else old("REPLICAOF", "NO", "ONE")
    eventually(lambda: peer.acquire("a").code == OK)


@test
def a_waiter_whose_server_stays_a_replica_is_told_the_reason():
    old, new = primary_and_replica()
    holder, waiter = Peer(new.url()), Peer(old.url(timeout="300ms"))
    first = Peer(old.url())
    equal(first.acquire("a", ttl=1000).code, OK)
    wait_in_line(old, waiter, "a", 1, 1000)
    fail_over(old, new)
    answer = waiter.hear()
    equal(answer.code, UNREACHABLE)
    matches(waiter.ask("why").text, "replica")
    note(holder.opened)


@test
def a_server_that_refuses_is_not_stormed():
    primary, replica = primary_and_replica()
    waiters = [Peer(replica.url(timeout="5s")) for _ in range(5)]
    before = int(re.search(r"total_connections_received:(\d+)", replica("INFO", "stats")).group(1))
    for waiter in waiters:
        waiter.request("a", wait=60000)
    for waiter in waiters:
        equal(waiter.hear().code, UNREACHABLE)
    after = int(re.search(r"total_connections_received:(\d+)", replica("INFO", "stats")).group(1))
    note("%d connections of 5 clients in 5 s" % (after - before))
    require(after - before < 5 * 2 * 15, "%d connections" % (after - before))
    note(primary("PING"))


@test
def an_account_whose_password_is_set_anew_logs_in_again():
    server = Server()
    server("ACL", "SETUSER", "worker", "reset", "on", ">secret", "~*", "&*", "+@all")
    peer = Peer(server.url().replace("redis://", "redis://worker:secret@"))
    equal(peer.acquire("a").code, OK)
    equal(peer.release(), OK)
    server("ACL", "DELUSER", "worker")
    server("ACL", "SETUSER", "worker", "reset", "on", ">secret", "~*", "&*", "+@all")
    eventually(lambda: peer.acquire("a").code == OK)
    equal(peer.release(), OK)


# ---- a refusal that passes ---------------------------------------------------------------------------------------------

@test
def holders_of_every_kind_survive_a_refusal_that_passes():
    server = Server()
    kinds = ({}, {"mode": SHARED}, {"mode": SHARED, "holders": 3}, {"delay": 300}, {"mode": SHARED, "delay": 300})
    holders = [Peer(server.url()) for _ in kinds]
    for number, (holder, kind) in enumerate(zip(holders, kinds)):
        equal(holder.acquire("n%d" % number, ttl=6000, **kind).code, OK)
    server("CONFIG", "SET", "min-replicas-to-write", 1)  # NOREPLICAS
    time.sleep(3.5)  # a renewal, at least, is refused
    server("CONFIG", "SET", "min-replicas-to-write", 0)
    time.sleep(4)  # and now their first lease is over
    for holder, kind in zip(holders, kinds):
        equal(holder.number("lost"), 0, kind, "lost, reason %d" % holder.number("reason"))
        equal(holder.check(), OK, kind)
        equal(holder.release(), OK, kind)


@test
def a_shared_lock_whose_keys_are_damaged_is_lost_alone():
    server = Server()
    peer = Peer(server.url())
    equal(peer.acquire("a", ttl=5000, mode=SHARED).code, OK)
    equal(peer.acquire("b", ttl=5000, mode=SHARED).code, OK)
    server("DEL", "pawl:share:lock:a")
    server("SET", "pawl:share:lock:a", "not a set")
    eventually(lambda: peer.number("lost") == 1)
    time.sleep(6)
    eventually(lambda: peer.number("lost") == 1, "the callback did not run")
    equal(peer.check(), OK, "the one beside it")


main()
