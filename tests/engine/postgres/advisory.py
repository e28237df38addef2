#!/usr/bin/env python3
"""advisory.py - ?mode=advisory: a lock is the server's own, and belongs to a connection. It ends with it, at once; and a client
that stands still is cut off by the server when its ttl is over."""
from pg import *

MODE = {"mode": "advisory"}


class Advisory(Postgres):
    """The same server; locks are looked for where the server keeps them."""

    def url(self, *members, **options):
        return super().url(*members, **{**MODE, **options})

    def line(self, name):
        """Who has it, then who waits for it."""
        return [pid for pid, in self.asked("""
            SELECT l.pid FROM pg_locks AS l JOIN pawl.advisory_key AS k ON k.name = %s
            AND (l.classid::bigint << 32 | l.objid::bigint) = k.key
            WHERE l.locktype = 'advisory' AND l.objsubid = 1 ORDER BY NOT l.granted, l.waitstart""", self.prefix + name)]

    def left(self):
        return [name for name, in self.asked("""
            SELECT k.name FROM pg_locks AS l JOIN pawl.advisory_key AS k ON (l.classid::bigint << 32 | l.objid::bigint) = k.key
            WHERE l.locktype = 'advisory' AND l.objsubid = 1 AND starts_with(k.name, %s)""", self.prefix)]


def held_and_waited_for(store, ttl=LONG, count=1):
    holder, *waiters = peers(store, 1 + count)
    held = holder.acquire("a", ttl=ttl)
    equal(held.code, OK, held.text)
    for number, waiter in enumerate(waiters, 2):
        waiter.request("a", ttl=ttl)
        eventually(lambda: len(store.line("a")) == number)
    return holder, held, waiters


@test
def those_who_wait_are_served_in_their_order_with_tokens_that_grow():
    store = Advisory.one()
    holder, held, waiters = held_and_waited_for(store, count=4)
    last = held.token
    equal(holder.release(), OK)
    for waiter in waiters:
        got = waiter.hear()
        equal(got.code, OK)
        require(got.token > last, "a token did not grow")
        last = got.token
        require(not [other for other in waiters if other is not waiter and other.heard()], "two hold it")
        equal(waiter.release(), OK)
    nothing_is_left(store)


@test(within=120)
def a_crowd_takes_it_in_turns():
    store = Advisory.one()
    crowd = Crowd(store, 4)
    crowd.progress(100)
    crowd.end()
    nothing_is_left(store)


@test
def a_holder_that_is_killed_is_followed_at_once():
    store = Advisory.one()
    holder, held, (waiter,) = held_and_waited_for(store, ttl=600000)
    holder.kill()
    got = waiter.hear()
    equal(got.code, OK)
    require(got.token > held.token)
    equal(waiter.release(), OK)
    nothing_is_left(store)


@test
def a_holder_that_stood_still_past_its_ttl_is_cut_off_by_the_server_and_told():
    store = Advisory.one()
    holder, held, (waiter,) = held_and_waited_for(store, ttl=1500)
    holder.stop()
    got = waiter.hear()
    equal(got.code, OK, "who stands still holds it for ever")
    require(got.token > held.token)
    holder.go_on()
    equal(holder.check(), LOST, "two hold it")
    equal(holder.release(), LOST)
    equal(waiter.check(), OK, "a late release took it away")
    equal(waiter.release(), OK)
    nothing_is_left(store)


@test
def a_holder_that_goes_about_its_business_is_not_cut_off():
    store = Advisory.one()
    holder, held, (waiter,) = held_and_waited_for(store, ttl=1500)
    time.sleep(5)
    equal(holder.check(), OK)
    equal(holder.number("lost"), 0)
    require(not waiter.heard(), "two hold it")
    equal(holder.release(), OK)
    equal(waiter.hear().code, OK)
    equal(waiter.release(), OK)
    nothing_is_left(store)


@test
def a_connection_that_is_ended_takes_the_lock_with_it_and_the_holder_is_told():
    store = Advisory.one()
    holder, held, (waiter,) = held_and_waited_for(store)
    store("SELECT pg_terminate_backend(%s)", store.line("a")[0])
    got = waiter.hear()
    equal(got.code, OK)
    require(got.token > held.token)
    eventually(lambda: holder.check() == LOST, "it was not told")
    eventually(lambda: holder.number("lost") == 1, "the callback did not run")
    equal(holder.release(), LOST)
    equal(waiter.check(), OK, "a late release took it away")
    equal(waiter.release(), OK)
    again = holder.acquire("a", wait=20000)
    equal(again.code, OK, "the client is not able to go on", again.text)
    require(again.token > got.token)
    equal(holder.release(), OK)
    nothing_is_left(store)


@test
def a_waiter_whose_connection_is_ended_waits_on():
    store = Advisory.one()
    holder, held, (waiter,) = held_and_waited_for(store)
    before = store.line("a")
    store("SELECT pg_terminate_backend(%s)", before[1])
    eventually(lambda: (lambda line: len(line) == 2 and line[1] != before[1])(store.line("a")), "it does not wait any more")
    equal(holder.check(), OK)
    equal(holder.release(), OK)
    got = waiter.hear()
    equal(got.code, OK)
    require(got.token > held.token)
    equal(waiter.release(), OK)
    nothing_is_left(store)


@test
def a_waiter_that_is_killed_stands_in_nobodys_way():
    store = Advisory.one()
    holder, held, (waiter, third) = held_and_waited_for(store, count=2)
    waiter.kill()
    eventually(lambda: len(store.line("a")) == 2, "the server believes that it waits")
    equal(holder.release(), OK)
    got = third.hear()
    equal(got.code, OK)
    require(got.token > held.token)
    equal(third.release(), OK)
    nothing_is_left(store)


@test(within=120)
def a_restart_of_the_server_is_a_lock_that_is_lost_and_tokens_grow_over_it():
    store = Advisory.one()
    for hurt in ("kill", "end", "crash"):
        store.healed()
        store.fresh()
        holder, held, (waiter,) = held_and_waited_for(store)
        server = store.members[0]
        getattr(server, hurt)()
        eventually(lambda: holder.check() == LOST, "it was not told")
        server.start()
        eventually(server.answers, store.log)
        got = waiter.hear(60)
        if got.code == OK:
            require(got.token > held.token, "a token came again")
            equal(waiter.release(), OK)
        else:
            require(failed(got.code), show(got.code))
        equal(holder.release(), LOST)
        again = holder.acquire("a", wait=20000, patience=40)
        equal(again.code, OK, again.text)
        require(again.token > max(held.token, got.token), "a token came again")
        equal(holder.release(), OK)
        nothing_is_left(store)


@test
def a_server_that_stands_still_costs_the_lock_at_the_deadline_and_nothing_else():
    store = Advisory.one()
    holder, held, (waiter,) = held_and_waited_for(store, ttl=1500)
    server = store.members[0]
    server.stop()
    eventually(lambda: holder.check() == LOST, "it believes in a lock of which nobody hears")
    server.go_on()
    got = waiter.hear(60)
    if got.code == OK:
        require(got.token > held.token)
        equal(waiter.check(), OK)
        equal(waiter.release(), OK)
    else:
        require(failed(got.code), show(got.code))
    equal(holder.release(), LOST)
    nothing_is_left(store)


@test(within=120)
def a_token_that_is_drawn_in_a_transaction_that_stays_open_holds_nobody_up():
    """The document tells programs without pawl to draw one."""
    import psycopg2
    store = Advisory.one()
    holder = warmed(store.url())
    equal(holder.acquire("a", ttl=3000).code, OK)
    server = store.members[0]
    stranger = psycopg2.connect(host=server.data, port=server.port, user=ADMINISTRATOR, dbname="postgres")
    at_end(stranger.close)
    with stranger.cursor() as cursor:
        cursor.execute("SELECT nextval('pawl.advisory_token')")
    time.sleep(0.5)  # the counter is left as it is if it was raised a moment ago
    late = Peer(store.url(timeout="2s"))
    got = late.acquire("b", patience=40)
    equal(got.code, OK, got.text)
    time.sleep(4)
    equal(holder.check(), OK, "a lock was lost")
    equal(holder.number("lost"), 0)
    stranger.rollback()


@test
def two_names_with_one_number_do_not_exclude_each_other():
    """The number of the second is taken by another name before it is asked for."""
    store = Advisory.one()
    first, second = peers(store, 2)
    names = [store.prefix + name for name in ("one", "two")]
    store("INSERT INTO pawl.advisory_key SELECT %s, hashtextextended(%s, 0)", *names)
    equal(first.acquire("one").code, OK)
    answer = second.acquire("two")
    equal(answer.code, OK, answer.text)
    equal(len(set(store("SELECT key FROM pawl.advisory_key WHERE name = ANY(%s)", names))), 2)
    equal(first.release(), OK)
    equal(second.release(), OK)


@test
def a_refused_try_leaves_nothing_and_one_whose_time_is_over_is_not_granted_later():
    """madelson#147: the server may grant while we give up."""
    store = Advisory.one()
    holder, other = peers(store, 2)
    for number in range(20):
        equal(holder.acquire("a", wait=20000).code, OK)
        equal(other.acquire("a").code, BUSY)
        other.request("a", wait=30 + number)
        time.sleep((30 + number) / 1000)
        equal(holder.release(), OK)
        got = other.hear()
        require(got.code in (OK, TIMEOUT), show(got.code))
        if got.code == OK:
            equal(other.release(), OK)
        eventually(lambda: not store.line("a"), "who gave up holds it")


@test
def a_release_that_fails_after_it_was_done_is_no_lock_that_was_lost():
    """To unlock is not undone with its transaction: one that is cancelled then has been done, and finds nothing when it is repeated."""
    store = Advisory.new()
    equal(warmed(store.url()).leave(), 0)
    store("CREATE SEQUENCE public.unlocked")
    store("SET allow_system_table_mods = on; ALTER FUNCTION pg_catalog.pg_advisory_unlock(bigint) RENAME TO pg_advisory_unlock_once;"
          "CREATE FUNCTION pg_catalog.pg_advisory_unlock(key bigint) RETURNS boolean LANGUAGE plpgsql AS $$ DECLARE done boolean; BEGIN"
          " done := pg_advisory_unlock_once(key); IF done AND nextval('public.unlocked') = 1 THEN"
          " RAISE query_canceled; END IF; RETURN done; END $$")
    holder, other = Peer(store.url()), Peer(store.url())
    equal(holder.acquire("a", ttl=LONG).code, OK)
    equal(holder.release(), OK)
    equal(store("SELECT last_value, is_called FROM public.unlocked"), [(1, True)])
    equal(other.acquire("a", ttl=LONG).code, OK)
    equal(other.release(), OK)


main(missing("postgres"))
