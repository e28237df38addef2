#!/usr/bin/env python3
"""races.py - eight processes that read, think and write, with tokens of which most are stale by then; at every isolation
level, and while somebody prunes. The same without a fence shows that the rig can see what goes wrong."""
import multiprocessing
import random

from rig import *

WORKERS, ROUNDS = 8, 25
processes = multiprocessing.get_context("fork")


def grant(connection):
    token = ask(connection, "UPDATE granted SET token = token + 1 RETURNING token")[0][0]
    connection.commit()
    return token


def write(connection, token, fence, resource):
    """Reads, thinks, writes what it read plus one. True: done; False: stale."""
    while True:
        try:
            if fence:
                admit(connection, resource, token)
            seen = ask(connection, "SELECT v FROM counter WHERE resource = %s", resource)[0][0]
            time.sleep(random.random() * 0.003)
            ask(connection, "UPDATE counter SET v = %s WHERE resource = %s", seen + 1, resource)
            ask(connection, "INSERT INTO log (resource, token, seen) VALUES (%s, %s, %s)", resource, token, seen)
            connection.commit()
            return True
        except psycopg2.Error as error:
            connection.rollback()
            if error.pgcode == STALE:
                return False
            if error.pgcode not in (CONFLICT, "40P01"):
                raise


def work(port, database, level, fence, resources, seed):
    random.seed(seed)
    connection = psycopg2.connect(host="127.0.0.1", port=port, user="postgres", dbname=database)
    grants = psycopg2.connect(host="127.0.0.1", port=port, user="postgres", dbname=database)
    connection.set_session(isolation_level=LEVELS[level])
    for _ in range(ROUNDS):
        token = grant(grants)
        time.sleep(random.random() * 0.01)  # slept past its lease, perhaps
        while write(connection, token, fence, random.choice(resources)) and random.random() < 0.6:
            time.sleep(random.random() * 0.005)


def prepare(server, resources):
    result = server.prepare()
    equal((result.returncode, result.stderr), (0, ""))
    server.run("CREATE TABLE granted (token bigint); INSERT INTO granted VALUES (0); CREATE TABLE counter (resource text "
               "PRIMARY KEY, v integer); CREATE TABLE log (id bigserial, resource text, token bigint, seen integer)")
    for resource in resources:
        server.run("INSERT INTO counter VALUES (%s, 0)", resource)


def run_all(server, level, fence, resources):
    workers = [processes.Process(target=work, args=(server.port, server.database, level, fence, resources, seed))
               for seed in range(WORKERS)]
    for worker in workers:
        worker.start()
    return workers


def finish(workers):
    for worker in workers:
        worker.join(300)
        equal(worker.exitcode, 0)


def wrongs(server, resources):
    """Lost updates, and tokens that went back."""
    lost = backwards = writes = 0
    for resource in resources:
        rows = server.run("SELECT token, seen FROM log WHERE resource = %s ORDER BY id", resource)
        lost += sum(seen != number for number, (_, seen) in enumerate(rows))
        backwards += sum(after < before for (before, _), (after, _) in zip(rows, rows[1:]))
        writes += len(rows)
        lost += server.run("SELECT v FROM counter WHERE resource = %s", resource) != [(len(rows),)]
    return writes, lost, backwards


def race(server, level):
    resources = ["one", "two"]
    prepare(server, resources)
    finish(run_all(server, level, True, resources))
    writes, lost, backwards = wrongs(server, resources)
    print("# %s: %d writes of %d grants" % (level, writes, WORKERS * ROUNDS))
    equal((lost, backwards), (0, 0))
    equal(writes > 0, True)


@test
def no_update_is_lost_and_no_token_goes_back_at_read_committed(server):
    race(server, "read committed")


@test
def no_update_is_lost_and_no_token_goes_back_at_repeatable_read(server):
    race(server, "repeatable read")


@test
def no_update_is_lost_and_no_token_goes_back_at_serializable(server):
    race(server, "serializable")


@test
def without_the_fence_updates_are_lost_and_tokens_go_back(server):
    prepare(server, ["one"])
    finish(run_all(server, "read committed", False, ["one"]))
    _, lost, backwards = wrongs(server, ["one"])
    equal((lost > 0, backwards > 0), (True, True))


def race_with_prunes(server, level):
    resources = ["r%d" % i for i in range(6)]
    prepare(server, resources)
    workers = run_all(server, level, True, resources)
    pruned = prunes = 0
    connection = server.connect()
    while any(worker.is_alive() for worker in workers):
        [(token,)] = ask(connection, "SELECT token FROM granted")
        connection.commit()
        pruned += ask(connection, "SELECT pawl.prune(%s)", max(1, token - random.randrange(3)))[0][0]
        connection.commit()
        prunes += 1
        time.sleep(0.005)
    finish(workers)
    print("# %s: %d marks in %d prunes" % (level, pruned, prunes))
    writes, lost, backwards = wrongs(server, resources)
    equal((lost, backwards), (0, 0))
    equal((pruned > 0, writes > 0), (True, True))


@test
def a_prune_in_the_middle_lets_no_token_go_back_at_read_committed(server):
    race_with_prunes(server, "read committed")


@test
def a_prune_in_the_middle_lets_no_token_go_back_at_repeatable_read(server):
    race_with_prunes(server, "repeatable read")


@test
def a_prune_in_the_middle_lets_no_token_go_back_at_serializable(server):
    race_with_prunes(server, "serializable")


@test
def guards_and_strangers_are_fenced_by_each_other(server):
    peers = [Peer(server.url()) for _ in range(4)]
    equal(peers[0].code("admit", "r", 1), "OK")
    connection = server.connect()
    greatest = 1
    for _ in range(60):
        token = random.randrange(1, 200)
        if random.random() < 0.5:
            passed = random.choice(peers).code("put", "r", token, token) == "OK"
        else:
            passed = refused(connection, "SELECT pawl.admit('r', %s)", token) == ""
            connection.commit()
        equal(passed, token >= greatest)
        greatest = max(greatest, token)


main()
