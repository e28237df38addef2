#!/usr/bin/env python3
"""sql.py - guard.sql as strangers use it: inside their own transactions, at every isolation level, with few rights."""
from rig import *


def prepared(server):
    result = server.prepare()
    equal((result.returncode, result.stdout, result.stderr), (0, "", ""))
    return server.connect()


# ---- the script ----------------------------------------------------------------------------------------------------

@test
def the_script_may_be_run_twice_and_says_nothing(server):
    prepared(server)
    server.run("SELECT pawl.put('r', 7, 'data')")
    server.run("SELECT pawl.prune(5)")
    prepared(server)
    equal(server.run("SELECT pawl.greatest('r'), (SELECT floor FROM pawl.guard_floor)"), [(7, 5)])


@test
def two_first_users_do_not_collide(server):
    peers = [Peer(server.url()) for _ in range(8)]
    for token, peer in enumerate(peers, 1):
        peer.send("admit", "r%d" % token, token)
    equal([peer.answer()[0] for peer in peers], ["OK"] * 8)


@test
def the_script_replaces_nothing_that_is_newer(server):
    prepared(server)
    server.run("CREATE OR REPLACE FUNCTION pawl.guard_version() RETURNS integer LANGUAGE sql IMMUTABLE AS 'SELECT 2'")
    result = server.prepare()
    equal(result.returncode != 0, True)
    has(result.stderr, "of version 2, which is newer")
    equal(server.run("SELECT pawl.guard_version()"), [(2,)])


@test
def the_script_touches_nothing_that_another_owns(server):
    server.run("CREATE ROLE mallory LOGIN; CREATE SCHEMA pawl AUTHORIZATION mallory")
    try:
        result = server.prepare()
        equal(result.returncode != 0, True)
        has(result.stderr, "belongs to mallory")
        equal(server.run("SELECT count(*) FROM pg_class WHERE relname LIKE 'guard%'"), [(0,)])
    finally:
        server.run("DROP SCHEMA pawl CASCADE; DROP ROLE mallory")


# ---- admission -----------------------------------------------------------------------------------------------------

@test
def a_lower_token_is_refused_with_a_state_of_its_own(server):
    connection = prepared(server)
    equal(admit(connection, "r", 34), 0)
    equal(admit(connection, "r", 34), 34)
    equal(admit(connection, "r", 40), 34)
    connection.commit()
    try:
        admit(connection, "r", 39)
        raise Failed("39 passed after 40")
    except psycopg2.Error as error:
        equal(error.pgcode, STALE)
        has(error.diag.message_primary, 'token 39 is too old for "r": 40 has been admitted')
        equal(error.diag.message_detail, "The greatest is 40.")
        has(error.diag.message_hint, "acquire the lock again")
    connection.rollback()
    equal(ask(connection, "SELECT pawl.greatest('r')"), [(40,)])
    equal(ask(connection, "SELECT pawl.greatest('other')"), [(0,)])


@test
def tokens_of_two_stores_of_locks_are_said_to_be_that(server):
    connection = prepared(server)
    equal(admit(connection, "moved", 1794966346892925), 0)
    connection.commit()
    for token, hint in ((1281, "different stores of locks"), (1794966346892924, "acquire the lock again")):
        try:
            admit(connection, "moved", token)
            raise Failed("%d passed" % token)
        except psycopg2.Error as error:
            equal(error.pgcode, STALE)
            has(error.diag.message_hint, hint)
        connection.rollback()


@test
def names_are_checked_whatever_the_session_says_of_string_literals(server):
    prepared(server)
    connection = server.connect()
    ask(connection, "SET standard_conforming_strings = off")
    equal(admit(connection, "r", 5), 0)
    equal(ask(connection, "SELECT pawl.put('r', 6, 'data')") is not None, True)
    connection.commit()
    equal(refused(connection, "SELECT pawl.admit(%s, 7)", "a\x85b"), INVALID)


@test
def what_is_not_a_token_or_a_name_is_refused(server):
    connection = prepared(server)
    for token in (None, 0, -1, -2 ** 63):
        equal(refused(connection, "SELECT pawl.admit('r', %s)", token), INVALID)
        equal(refused(connection, "SELECT pawl.put('r', %s, 'x')", token), INVALID)
        equal(refused(connection, "SELECT pawl.forget('r', %s)", token), INVALID)
        equal(refused(connection, "SELECT pawl.prune(%s)", token), INVALID)
    for name in (None, "", "x" * 256, "ü" * 128, "a\nb", "a\x7f", "a\x85b"):
        equal(refused(connection, "SELECT pawl.admit(%s, 1)", name), INVALID, name)
    equal(refused(connection, "SELECT pawl.admit('r', 9223372036854775808)"), "42883")  # no such function: a numeric
    equal(refused(connection, "SELECT pawl.put('r', 1, NULL)"), "22004")
    equal(admit(connection, "ü" * 127, 2 ** 63 - 1), 0)
    equal(ask(connection, "SELECT count(*) FROM pawl.guard_mark"), [(1,)])


@test
def names_are_names_and_never_statements(server):
    connection = prepared(server)
    names = ["'; DROP TABLE pawl.guard_mark; --", '"', "$$", "%s %I", "\\", "a'b", "pawl", "NULL", " ", "{}", "$1", "E'\\x00'"]
    for token, name in enumerate(names, 1):
        equal(admit(connection, name, token), 0)
    connection.commit()
    for token, name in enumerate(names, 1):
        equal(ask(connection, "SELECT pawl.greatest(%s)", name), [(token,)])
        if token > 1:
            equal(refused(connection, "SELECT pawl.admit(%s, %s)", name, token - 1), STALE)


@test
def writes_stand_or_fall_with_the_admission(server):
    connection = prepared(server)
    ask(connection, "CREATE TABLE t (v integer)")
    connection.commit()
    admit(connection, "r", 5)
    ask(connection, "INSERT INTO t VALUES (5)")
    connection.rollback()
    equal(ask(connection, "SELECT pawl.greatest('r'), (SELECT count(*) FROM t)"), [(0, 0)])
    admit(connection, "r", 4)  # nobody greater has been here
    ask(connection, "SAVEPOINT s")
    admit(connection, "r", 6)
    ask(connection, "ROLLBACK TO s")
    connection.commit()
    equal(ask(connection, "SELECT pawl.greatest('r')"), [(4,)])


@test
def data_are_kept_with_their_mark(server):
    connection = prepared(server)
    equal(ask(connection, "SELECT before, data FROM pawl.get('r', 1)"), [(0, None)])
    equal(ask(connection, "SELECT pawl.put('r', 2, %s)", b"\0\xff'"), [(1,)])
    [(before, data)] = ask(connection, "SELECT before, data FROM pawl.get('r', 3)")
    equal((before, bytes(data)), (2, b"\0\xff'"))
    connection.commit()
    equal(refused(connection, "SELECT pawl.put('r', 2, 'old')"), STALE)
    equal(refused(connection, "SELECT pawl.get('r', 2)"), STALE)
    equal(ask(connection, "SELECT pawl.forget('r', 3), pawl.forget('r', 3)"), [(True, False)])
    equal(bytes(ask(connection, "SELECT data FROM pawl.get('r', 1)")[0][0]), b"\0\xff'")


@test
def a_version_is_raised_only_from_the_one_expected(server):
    connection = prepared(server)
    equal(ask(connection, "SELECT version, data FROM pawl.look('v')"), [(0, None)])
    equal(ask(connection, "SELECT pawl.swap('v', 0, 'one')"), [(1,)])
    equal(ask(connection, "SELECT pawl.swap('v', 1)"), [(2,)])  # the data are elsewhere
    connection.commit()
    [(version, data)] = ask(connection, "SELECT version, data FROM pawl.look('v')")
    equal((version, bytes(data)), (2, b"one"))
    for expected in (0, 1, 3, 2 ** 63 - 2):
        equal(refused(connection, "SELECT pawl.swap('v', %s, 'late')", expected), STALE)
    for wrong in (None, -1, 2 ** 63 - 1):
        equal(refused(connection, "SELECT pawl.swap('v', %s::bigint)", wrong), INVALID)
    equal(refused(connection, "SELECT pawl.swap('', 0)"), INVALID)
    equal(refused(connection, "SELECT pawl.swap('v', 2, NULL)"), "22004")
    try:
        ask(connection, "SELECT pawl.swap('v', 1)")
        raise Failed("1 passed at 2")
    except psycopg2.Error as error:
        has(error.diag.message_primary, '"v" is not at version 1 but at 2')
        equal(error.diag.message_detail, "The greatest is 2.")
    connection.rollback()
    ask(connection, "SELECT pawl.swap('v', 2, 'gone')")
    connection.rollback()
    equal(ask(connection, "SELECT version FROM pawl.look('v')"), [(2,)])


@test
def a_version_that_was_pruned_does_not_begin_anew(server):
    connection = prepared(server)
    ask(connection, "SELECT pawl.swap('v', 0, 'one')")
    ask(connection, "SELECT pawl.prune(10)")
    connection.commit()
    equal(ask(connection, "SELECT version FROM pawl.look('v')"), [(10,)])
    for expected in (0, 1, 9, 11):
        equal(refused(connection, "SELECT pawl.swap('v', %s)", expected), STALE)
    equal(ask(connection, "SELECT pawl.swap('v', 10)"), [(11,)])


@test
def a_guard_from_before_versions_gets_them_at_the_first_use(server):
    prepared(server)
    server.run("SELECT pawl.put('r', 7, 'data'); DROP FUNCTION pawl.look(text), pawl.swap(text, bigint), "
               "pawl.swap(text, bigint, bytea), pawl.guard_moved(text, bigint, bigint), "
               "pawl.guard_swap(text, bigint, bigint), pawl.swap_once(text, bigint, bytea, bigint)")
    peer = Peer(server.url())
    equal(peer.code("admit", "r", 7), "OK")
    equal(server.run("SELECT to_regprocedure('pawl.look(text)') IS NULL"), [(True,)])
    equal(peer.code("swap", "v", 0, "one"), "OK")
    equal(peer.code("swap", "v", 0, "late"), "STALE")
    equal(server.run("SELECT version FROM pawl.look('v')"), [(1,)])
    equal(server.run("SELECT pawl.greatest('r')"), [(7,)])


@test
def where_nothing_may_be_made_it_says_what_to_run(server):
    prepared(server)
    server.run("DROP FUNCTION pawl.look(text), pawl.swap(text, bigint), pawl.swap(text, bigint, bytea), "
               "pawl.swap_once(text, bigint, bytea, bigint)")
    peer = Peer(server.url("?create=no"))
    equal(peer.code("admit", "r", 7), "OK")
    answer = peer.ask("swap", "v", 0, "one")
    equal(answer[0], "DENIED")
    has(" ".join(answer), "pawl engines --sql postgres")
    equal(peer.code("admit", "r", 8), "OK")


@test
def a_commit_that_admits_waits_for_the_disk_whatever_the_session_says(server):
    connection = prepared(server)
    ask(connection, "SET synchronous_commit = off")
    connection.commit()
    admit(connection, "r", 1)
    equal(ask(connection, "SHOW synchronous_commit"), [("on",)])
    connection.commit()
    equal(ask(connection, "SHOW synchronous_commit"), [("off",)])
    ask(connection, "SET synchronous_commit = remote_apply")
    admit(connection, "r", 1)
    equal(ask(connection, "SHOW synchronous_commit"), [("remote_apply",)])


# ---- isolation -----------------------------------------------------------------------------------------------------

def pair(server, level):
    one, two = server.connect(), server.connect()
    one.set_session(isolation_level=LEVELS[level])
    two.set_session(isolation_level=LEVELS[level])
    return one, two


def look(connection):
    """Takes the transaction's snapshot."""
    return ask(connection, "SELECT count(*) FROM pg_class")


def each_level(function):
    """The same sentence for each isolation level."""
    for level in LEVELS:
        def one(server, level=level):
            prepared(server)
            function(server, level)
        one.__name__ = function.__name__ + "_at_" + level.replace(" ", "_")
        test(one)
    return function


@each_level
def an_older_holder_waits_for_a_newer_one_and_is_refused(server, level):
    newer, older = pair(server, level)
    for resource, first in (("new", 0), ("known", 1)):
        if first:
            admit(newer, resource, first)
            newer.commit()
        look(older)
        admit(newer, resource, 34)
        later = Later(refused, older, "SELECT pawl.admit(%s, 33)", resource)
        waits(server, older)
        newer.commit()
        equal(later.get(), STALE if level == "read committed" else CONFLICT)
        equal(refused(older, "SELECT pawl.admit(%s, 33)", resource), STALE)


@each_level
def a_newer_holder_waits_for_an_older_one_and_passes(server, level):
    older, newer = pair(server, level)
    admit(older, "r", 33)
    later = Later(admit, newer, "r", 34)
    waits(server, newer)
    older.commit()
    if level == "read committed":
        equal(later.get(), 33)
    else:
        equal(later.done(), True)
        equal(later.error.pgcode, CONFLICT)
        newer.rollback()
        equal(admit(newer, "r", 34), 33)
    newer.commit()


@each_level
def one_that_is_rolled_back_leaves_the_way_free(server, level):
    newer, older = pair(server, level)
    admit(newer, "r", 34)
    later = Later(admit, older, "r", 33)
    waits(server, older)
    newer.rollback()
    equal(later.get(), 0)
    older.commit()


@each_level
def a_snapshot_from_before_an_admission_is_not_read_after_it(server, level):
    one, two = pair(server, level)
    ask(one, "CREATE TABLE t (v integer)")
    ask(one, "INSERT INTO t VALUES (1)")
    admit(one, "r", 5)
    one.commit()
    look(two)
    admit(one, "r", 5)  # the same token: no greater mark, but a later write
    ask(one, "UPDATE t SET v = 2")
    one.commit()
    if level == "read committed":
        admit(two, "r", 6)
        equal(ask(two, "SELECT v FROM t"), [(2,)])
    else:
        equal(refused(two, "SELECT pawl.admit('r', 6)"), CONFLICT)


@each_level
def a_floor_is_seen_by_a_snapshot_from_before_it(server, level):
    one, two = pair(server, level)
    look(two)
    admit(one, "r", 8)
    one.commit()
    equal(ask(one, "SELECT pawl.prune(10)"), [(1,)])
    one.commit()
    equal(refused(two, "SELECT pawl.admit('r', 5)"), STALE if level == "read committed" else CONFLICT)
    equal(refused(two, "SELECT pawl.admit('r', 9)"), STALE)
    equal(refused(two, "SELECT pawl.forget('r', 9)"), STALE)
    equal(admit(two, "r", 10), 0)


@each_level
def who_waits_for_a_mark_that_is_pruned_meets_the_floor(server, level):
    pruner, older = pair(server, level)
    admit(pruner, "r", 8)
    pruner.commit()
    look(older)
    ask(pruner, "SELECT pawl.prune(10)")
    later = Later(refused, older, "SELECT pawl.admit('r', 5)")
    waits(server, older)
    pruner.commit()
    equal(later.get(), STALE if level == "read committed" else CONFLICT)
    equal(refused(older, "SELECT pawl.admit('r', 5)"), STALE)


@each_level
def who_meets_a_prune_that_is_under_way_waits_for_its_floor(server, level):
    pruner, newcomer = pair(server, level)
    ask(pruner, "SELECT pawl.prune(10)")
    later = Later(refused, newcomer, "SELECT pawl.admit('never seen', 5)")
    waits(server, newcomer)
    pruner.commit()
    equal(later.get(), STALE if level == "read committed" else CONFLICT)
    equal(refused(newcomer, "SELECT pawl.admit('never seen', 5)"), STALE)


@test
def a_prune_waits_for_no_holder_of_a_known_mark_and_leaves_it(server):
    holder = prepared(server)
    admit(holder, "held", 3)
    admit(holder, "free", 3)
    holder.commit()
    admit(holder, "held", 4)
    equal(server.run("SELECT pawl.prune(10)"), [(1,)])
    holder.commit()
    equal(server.run("SELECT pawl.greatest('held'), pawl.greatest('free')"), [(4, 0)])
    equal(refused(holder, "SELECT pawl.admit('held', 3)"), STALE)
    equal(server.run("SELECT pawl.prune(10)"), [(1,)])


# ---- a table that fences itself ------------------------------------------------------------------------------------

def fenced(server, arguments="'token', 'orders'"):
    connection = prepared(server)
    ask(connection, "CREATE TABLE orders (id integer PRIMARY KEY, v text, token bigint)")
    ask(connection, "CREATE TRIGGER fence BEFORE INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW "
                    "EXECUTE FUNCTION pawl.fence_table(%s)" % arguments)
    ask(connection, "CREATE TRIGGER fence_truncate BEFORE TRUNCATE ON orders FOR EACH STATEMENT "
                    "EXECUTE FUNCTION pawl.fence_table(%s)" % arguments)
    connection.commit()
    return connection


@test
def a_fenced_table_takes_rows_with_tokens_that_are_not_stale(server):
    connection = fenced(server)
    ask(connection, "INSERT INTO orders VALUES (1, 'a', 33)")
    connection.commit()
    equal(ask(connection, "SELECT pawl.greatest('orders')"), [(33,)])
    ask(connection, "UPDATE orders SET v = 'b', token = 34")
    connection.commit()
    equal(refused(connection, "UPDATE orders SET v = 'late', token = 33"), STALE)
    equal(refused(connection, "INSERT INTO orders VALUES (2, 'late', 33)"), STALE)
    equal(refused(connection, "INSERT INTO orders VALUES (2, 'none', NULL)"), INVALID)
    equal(refused(connection, "INSERT INTO orders VALUES (2, 'none', 0)"), INVALID)
    equal(refused(connection, "INSERT INTO orders VALUES (1, 'late', 33) ON CONFLICT (id) DO UPDATE SET v = 'late'"), STALE)
    equal(ask(connection, "SELECT * FROM orders"), [(1, "b", 34)])


@test
def a_write_that_does_not_care_for_tokens_is_refused(server):
    connection = fenced(server)
    ask(connection, "INSERT INTO orders VALUES (1, 'a', 34)")
    connection.commit()
    equal(refused(connection, "UPDATE orders SET v = 'careless'"), NOT_ADMITTED)
    equal(refused(connection, "UPDATE orders SET v = 'careless', token = 34"), NOT_ADMITTED)
    equal(refused(connection, "DELETE FROM orders"), NOT_ADMITTED)
    equal(refused(connection, "TRUNCATE orders"), NOT_ADMITTED)
    equal(ask(connection, "SELECT * FROM orders"), [(1, "a", 34)])


@test
def a_transaction_that_admitted_may_write_keep_and_delete(server):
    connection = fenced(server)
    admit(connection, "orders", 34)
    ask(connection, "INSERT INTO orders VALUES (1, 'a', 34), (2, 'b', 34), (3, 'c', 34)")
    connection.commit()
    admit(connection, "orders", 34)
    ask(connection, "UPDATE orders SET v = 'again' WHERE id = 1")
    ask(connection, "DELETE FROM orders WHERE id = 2")
    connection.commit()
    equal(refused(connection, "DELETE FROM orders WHERE id = 3"), NOT_ADMITTED)  # another transaction
    admit(connection, "orders", 35)
    equal(refused(connection, "UPDATE orders SET v = 'x' WHERE id = 1"), STALE)  # it would keep 34
    admit(connection, "orders", 35)
    ask(connection, "UPDATE orders SET v = 'x', token = 35 WHERE id = 1")
    ask(connection, "SAVEPOINT s")
    ask(connection, "DELETE FROM orders WHERE id = 3")
    ask(connection, "RELEASE s")
    connection.commit()
    equal(ask(connection, "SELECT * FROM orders"), [(1, "x", 35)])
    admit(connection, "orders", 35)
    ask(connection, "TRUNCATE orders")
    connection.commit()


@test
def the_token_of_a_row_does_not_fall_even_if_its_mark_is_gone(server):
    connection = fenced(server)
    ask(connection, "INSERT INTO orders VALUES (1, 'a', 34)")
    ask(connection, "SELECT pawl.forget('orders', 34)")
    connection.commit()
    equal(refused(connection, "UPDATE orders SET v = 'late', token = 33"), STALE)
    admit(connection, "orders", 33)
    equal(refused(connection, "DELETE FROM orders"), STALE)
    equal(ask(connection, "SELECT v FROM orders"), [("a",)])


@test
def each_row_may_have_a_mark_of_its_own(server):
    connection = fenced(server, "'token', 'orders/', 'id'")
    ask(connection, "INSERT INTO orders VALUES (1, 'a', 34), (2, 'b', 12)")
    connection.commit()
    equal(ask(connection, "SELECT resource, token FROM pawl.guard_list('', '', 10)"), [("orders/1", 34), ("orders/2", 12)])
    ask(connection, "UPDATE orders SET v = 'c', token = 13 WHERE id = 2")
    connection.commit()
    equal(refused(connection, "UPDATE orders SET token = 33 WHERE id = 1"), STALE)
    equal(refused(connection, "UPDATE orders SET id = 3, token = 14 WHERE id = 2"), NOT_ADMITTED)
    admit(connection, "orders/2", 14)
    ask(connection, "UPDATE orders SET id = 3, token = 14 WHERE id = 2")
    connection.commit()
    equal(ask(connection, "SELECT pawl.greatest('orders/3')"), [(14,)])
    equal(refused(connection, "TRUNCATE orders"), NOT_ADMITTED)


@test
def without_a_resource_the_table_is_one(server):
    connection = fenced(server, "'token'")
    ask(connection, "INSERT INTO orders VALUES (1, 'a', 34)")
    equal(ask(connection, "SELECT pawl.greatest('public.orders')"), [(34,)])


@test
def a_fence_that_is_put_up_wrongly_says_so_at_the_first_write(server):
    connection = fenced(server, "'tokn'")
    equal(refused(connection, "INSERT INTO orders VALUES (1, 'a', 34)"), "42703")
    ask(connection, "DROP TRIGGER fence ON orders")
    ask(connection, "CREATE TRIGGER fence AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION pawl.fence_table('token')")
    connection.commit()
    equal(refused(connection, "INSERT INTO orders VALUES (1, 'a', 34)"), "39P01")


@test
def columns_of_odd_names_and_types_fence_too(server):
    connection = prepared(server)
    ask(connection, 'CREATE TABLE odd ("to""ken; --" integer, "Key \'x\'" timestamptz)')
    ask(connection, "CREATE TRIGGER fence BEFORE INSERT OR UPDATE OR DELETE ON odd FOR EACH ROW "
                    "EXECUTE FUNCTION pawl.fence_table('to\"ken; --', 'it''s %I ', 'Key ''x''')")
    ask(connection, "SET timezone = 'UTC'; INSERT INTO odd VALUES (7, '2026-01-01')")
    equal(ask(connection, "SELECT pawl.greatest('it''s %I 2026-01-01 00:00:00+00')"), [(7,)])


@test
def a_trigger_runs_nothing_of_the_tables_owner_with_our_rights(server):
    connection = prepared(server)
    server.run("DROP ROLE IF EXISTS mallory; CREATE ROLE mallory LOGIN; GRANT CREATE ON SCHEMA public TO mallory; "
               "GRANT USAGE ON SCHEMA pawl TO mallory; GRANT EXECUTE ON FUNCTION pawl.fence_table(), "
               "pawl.guard_fence(text, text, bigint, text, bigint) TO mallory")
    mallory = server.connect(user="mallory")
    ask(mallory, "CREATE TABLE who (name text)")
    ask(mallory, "GRANT ALL ON who TO PUBLIC")
    ask(mallory, "CREATE TYPE trap AS (x integer)")
    ask(mallory, "CREATE FUNCTION public.spring(trap) RETURNS text LANGUAGE plpgsql AS "
                 "$$BEGIN INSERT INTO public.who VALUES (current_user); RETURN 'x'; END$$")
    ask(mallory, "CREATE CAST (trap AS text) WITH FUNCTION public.spring(trap)")
    ask(mallory, "CREATE TABLE bait (token bigint, key trap)")
    ask(mallory, "CREATE TRIGGER fence BEFORE INSERT ON bait FOR EACH ROW EXECUTE FUNCTION pawl.fence_table('token', '', 'key')")
    ask(mallory, "INSERT INTO bait VALUES (1, ROW(1))")
    equal(ask(mallory, "SELECT DISTINCT name FROM who"), [("mallory",)])
    mallory.close()
    server.run("DROP OWNED BY mallory; DROP ROLE mallory")
    del connection


# ---- rights --------------------------------------------------------------------------------------------------------

def roled(server):
    connection = prepared(server)
    server.run("CREATE ROLE app LOGIN")
    after(server.run, "DROP OWNED BY app; DROP ROLE app")
    return connection, server.connect(user="app")


@test
def nobody_may_anything_until_it_is_granted(server):
    _, app = roled(server)
    equal(refused(app, "SELECT pawl.admit('r', 1)"), "42501")
    server.run("GRANT USAGE ON SCHEMA pawl TO app")
    for call in ("admit('r', 1)", "put('r', 1, '')", "get('r', 1)", "forget('r', 1)", "prune(1)", "greatest('r')",
                 "guard_list('', '', 1)", "admitted('r')", "guard_fence('', '', 1, '', 1)", "look('r')", "swap('r', 0)",
                 "swap('r', 0, '')", "guard_moved('r', 0, 1)"):
        equal(refused(app, "SELECT pawl." + call), "42501", call)
    for table in ("guard_mark", "guard_floor", "guard_data"):
        equal(refused(app, "SELECT * FROM pawl." + table), "42501", table)


@test
def execute_alone_is_enough_and_a_second_run_takes_it_from_nobody(server):
    _, app = roled(server)
    server.run("GRANT USAGE ON SCHEMA pawl TO app; GRANT EXECUTE ON FUNCTION pawl.admit(text, bigint), "
               "pawl.put(text, bigint, bytea), pawl.get(text, bigint) TO app")
    prepared(server)
    equal(admit(app, "r", 5), 0)
    equal(ask(app, "SELECT pawl.put('r', 6, 'x')"), [(5,)])
    app.commit()
    equal(refused(app, "SELECT pawl.forget('r', 6)"), "42501")
    equal(refused(app, "UPDATE pawl.guard_mark SET token = 1"), "42501")
    ask(app, "SET search_path = pg_temp, public")
    ask(app, "CREATE TEMP TABLE guard_mark (resource text, token bigint, xact xid8)")  # not taken for ours
    equal(refused(app, "SELECT pawl.admit('r', 5)"), STALE)


@test
def a_role_with_one_right_writes_a_fenced_table(server):
    connection, app = roled(server)
    ask(connection, "CREATE TABLE orders (id integer, token bigint)")
    ask(connection, "CREATE TRIGGER fence BEFORE INSERT OR UPDATE OR DELETE ON orders FOR EACH ROW "
                    "EXECUTE FUNCTION pawl.fence_table('token', 'orders')")
    connection.commit()
    server.run("GRANT ALL ON orders TO app; GRANT USAGE ON SCHEMA pawl TO app")
    equal(refused(app, "INSERT INTO orders VALUES (1, 34)"), "42501")
    server.run("GRANT EXECUTE ON FUNCTION pawl.guard_fence(text, text, bigint, text, bigint) TO app")
    ask(app, "INSERT INTO orders VALUES (1, 34)")
    ask(app, "DELETE FROM orders")
    app.commit()


main()
