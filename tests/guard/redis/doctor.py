#!/usr/bin/env python3
"""doctor.py - what an examination finds on a Redis: what would lose marks, who may not, and that what it says mends it."""
import shlex

from guards import *


def found(guard, pattern):
    rows = guard.examine()
    row = next((row for row in rows if re.search(pattern, row[1], re.I)), None)
    require(row, "nothing found like " + pattern, rows)
    return row


def mended(mend):
    """Runs what it says; what redis-cli answers."""
    matches(mend, "^redis-cli ")
    return subprocess.run(shlex.split(mend), stdout=subprocess.PIPE, check=True, timeout=PATIENCE).stdout.decode().strip()


@test
def a_server_without_a_log_forgets_marks_and_is_mended_step_by_step():
    server = Server()
    guard = Guard(place(server))
    severity, _, mend = found(guard, "restart forgets marks")
    equal((severity, mended(mend)), (WARNING, "OK"))
    severity, _, mend = found(guard, "power failure forgets marks")
    equal((severity, mended(mend)), (WARNING, "OK"))
    equal(found(guard, "marks survive a crash")[0], FINE)
    require(all(severity < WARNING for severity, _, _ in guard.examine()), guard.examine())


@test
def eviction_of_all_keys_is_a_danger_and_of_those_that_expire_is_not():
    server = Server()
    guard = Guard(place(server))
    equal(found(guard, "evicts nothing")[0], FINE)
    server("CONFIG", "SET", "maxmemory", 1 << 30)
    for policy in "allkeys-lru", "allkeys-lfu", "allkeys-random":
        server("CONFIG", "SET", "maxmemory-policy", policy)
        severity, _, mend = found(guard, "evicts keys, also marks")
        equal(severity, DANGER)
    equal(mended(mend), "OK")
    for policy in "noeviction", "volatile-lru", "volatile-ttl":
        server("CONFIG", "SET", "maxmemory-policy", policy)
        equal(found(guard, "does not evict marks")[0], FINE)
    server("CONFIG", "SET", "maxmemory", 1)
    equal(found(guard, "memory is nearly full")[0], WARNING)


@test
def a_replica_is_a_danger_and_its_primary_is_warned():
    server = Server()
    replica = Server("--replicaof", "127.0.0.1 %d" % server.port)
    eventually(lambda: "master_link_status:up" in replica("INFO", "replication"))
    severity, _, mend = found(Guard(place(replica)), "read-only replica")
    equal((severity, mend), (DANGER, "use redis://127.0.0.1:%d" % server.port))
    severity, _, mend = found(Guard(place(server)), "replica.s. follow it")
    equal((severity, mended(mend)), (WARNING, "OK"))


@test
def rights_that_are_missing_are_named_and_granted_by_the_command():
    server = Server()
    server("ACL", "SETUSER", "worker", "on", ">secret", "+info", "+config|get", "+ping", "+acl|whoami")
    guard = Guard("redis://worker:secret@127.0.0.1:%d" % server.port)
    equal(guard.put("r", 5, "x").code, DENIED)
    severity, _, mend = found(guard, "needs")
    equal((severity, mended(mend)), (DANGER, "OK"))
    equal(found(guard, "worker may do what a guard needs")[0], FINE)
    equal(guard.put("r", 5, "x").code, OK)
    equal(guard.put("r", 4, "x").code, STALE)
    equal(guard.list(), {"r": (5, OK)})
    matches(refused(server.connect(), "AUTH", "worker", "wrong"), "WRONGPASS")
    server("ACL", "SETUSER", "worker", "-strlen", "-del")
    severity, what, mend = found(guard, "may not do what a guard needs")
    equal((severity, mended(mend)), (DANGER, "OK"))
    matches(what, "STRLEN DEL")


@test
def what_may_not_be_looked_at_is_said():
    server = Server()
    server("ACL", "SETUSER", "worker", "on", ">secret", "~*", *"+eval +evalsha +get +set +strlen +del +scan".split())
    guard = Guard("redis://worker:secret@127.0.0.1:%d" % server.port)
    equal(found(guard, "may do what a guard needs")[0], FINE)
    for pattern in "most was not looked at", "some settings were not looked at":
        severity, _, mend = found(guard, pattern)
        equal((severity, mended(mend)), (ADVICE, "OK"))
    equal(found(guard, "restart forgets marks")[0], WARNING)


@test
def an_examination_leaves_nothing_behind_and_hurts_nothing():
    server = Server()
    guard = Guard(place(server))
    guard.examine()
    equal(server.keys(), [])
    equal(guard.put("r", 5, "x").code, OK)
    guard.examine()
    equal(guard.put("r", 5, "y").code, OK)
    equal(server("GET", "data:r"), "y")


@test
def functions_for_other_clients_are_seen():
    server = Server()
    guard = Guard(place(server))
    require(not any("functions of pawl" in what for _, what, _ in guard.examine()))
    load_library(server)
    equal(found(guard, "with the functions of pawl")[0], FINE)


@test
def a_server_that_cannot_be_asked_is_a_danger():
    server = Server()
    server("CONFIG", "SET", "requirepass", "secret")
    equal(found(Guard(place(server)), "wants a password")[0], DANGER)
    equal(found(Guard("redis://:wrong@127.0.0.1:%d" % server.port), "refuses the user or the password")[0], DANGER)
    server.kill()
    equal(found(Guard(place(server)), "refused")[0], DANGER)


@test
def a_cluster_without_a_tag_in_the_prefix_is_a_danger():
    server = cluster_node()
    server("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
    eventually(lambda: "cluster_state:ok" in server("CLUSTER", "INFO"))
    equal(found(Guard(place(server)), "Redis Cluster")[0], DANGER)
    guard = Guard(place(server, prefix="{data}:"))
    require(all(severity < DANGER for severity, _, _ in guard.examine()), guard.examine())


main()
