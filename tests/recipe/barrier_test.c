/* barrier_test.c - waiting for each other: barriers that open for as many as were asked for, latches that count down. */
#include "contract.h"

#include <pawl/barrier.h>

enum { PARTIES = 4, ROUNDS = 3 };
static atomic_int came[ROUNDS], left[ROUNDS], too_early;

struct party {
        pawl_client *client;
        int number;
};

static void *meet(void *arg)
{
        struct party *party = arg;
        pawl_barrier *barrier;

        for (int round = 0; round < ROUNDS; round++) {
                nap(20 * party->number);
                atomic_fetch_add(&came[round], 1);
                MUST(pawl_barrier_enter(party->client, "b", PARTIES, PAWL_BARRIER(.wait_ms = 2 * PATIENCE), &barrier));
                if (atomic_load(&came[round]) < PARTIES)
                        atomic_fetch_add(&too_early, 1);
                CHECK_CODE(pawl_barrier_check(barrier), PAWL_OK);
                atomic_fetch_add(&left[round], 1);
                CHECK_CODE(pawl_barrier_leave(barrier, 2 * PATIENCE), PAWL_OK);
                if (atomic_load(&left[round]) < PARTIES)
                        atomic_fetch_add(&too_early, 1);
        }
        return NULL;
}

TEST(nobody_goes_on_before_all_have_come_nor_before_all_are_done_round_after_round)
{
        const char *place = fresh_place();
        static struct party parties[PARTIES];
        pthread_t threads[PARTIES];
        pawl_barrier *none;

        for (int i = 0; i < PARTIES; i++)
                parties[i] = (struct party){join(place), i};
        if (!(pawl_capabilities(parties[0].client) & PAWL_CAN_KEEP)) {
                CHECK_CODE(pawl_barrier_enter(parties[0].client, "b", 2, NULL, &none), PAWL_UNSUPPORTED);
                return;
        }
        NEEDS(parties[0].client, PAWL_CAN_SHARE | PAWL_CAN_INSPECT);
        for (int i = 0; i < PARTIES; i++)
                REQUIRE_INT(pthread_create(&threads[i], NULL, meet, &parties[i]), 0);
        for (int i = 0; i < PARTIES; i++)
                pthread_join(threads[i], NULL);
        CHECK_INT(atomic_load(&too_early), 0);
        CHECK_INT(atomic_load(&left[ROUNDS - 1]), PARTIES);
        CHECK(SOON(nothing_is_left(parties[0].client, "barrier/b")));
}

TEST(who_gives_up_or_dies_does_not_count)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct peer *peer = start_peer(place);
        pawl_barrier *barrier;

        NEEDS(one, PAWL_CAN_KEEP | PAWL_CAN_SHARE | PAWL_CAN_INSPECT);
        CHECK_CODE(pawl_barrier_enter(one, "b", 2, PAWL_BARRIER(.wait_ms = 500), &barrier), PAWL_TIMEOUT);
        CHECK_CODE(pawl_barrier_enter(two, "b", 2, PAWL_BARRIER(.wait_ms = 500), &barrier), PAWL_TIMEOUT);
        REQUIRE_CODE(ask_peer(peer, "acquire barrier/b 0 500 0 1"), PAWL_OK);
        kill_peer(peer);
        CHECK(SOON(nothing_is_left(one, "barrier/b")));
        CHECK_CODE(pawl_barrier_enter(two, "b", 2, PAWL_BARRIER(.wait_ms = 300), &barrier), PAWL_TIMEOUT);
        MUST(pawl_barrier_enter(two, "b", 1, PAWL_BARRIER(.wait_ms = PATIENCE), &barrier));
        CHECK_CODE(pawl_barrier_leave(barrier, PAWL_NO_WAIT), PAWL_OK);
        CHECK_CODE(pawl_barrier_leave(NULL, 0), PAWL_OK);
        CHECK_CODE(pawl_barrier_enter(one, "b", 0, NULL, &barrier), PAWL_INVALID);
}

static void *enter_one(void *arg)
{
        pawl_barrier *barrier;

        return pawl_barrier_enter(arg, "b", 2, PAWL_BARRIER(.wait_ms = PATIENCE), &barrier) == PAWL_OK &&
                               pawl_barrier_leave(barrier, PAWL_NO_WAIT) == PAWL_OK
                       ? arg
                       : NULL;
}

TEST(a_gate_that_nobody_can_open_makes_nobody_busy_and_nobody_late)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place), *three = join(place);
        struct pawl_stats before = {.size = sizeof(before)}, after = {.size = sizeof(after)};
        pawl_barrier *barrier;
        pthread_t thread;
        pawl_lock *gate;
        int64_t began;
        void *done;

        NEEDS(one, PAWL_CAN_KEEP | PAWL_CAN_SHARE | PAWL_CAN_INSPECT);
        MUST(pawl_acquire(three, "gate/b", NULL, &gate));
        REQUIRE_INT(pthread_create(&thread, NULL, enter_one, two), 0);
        MUST(pawl_stats(one, &before));
        began = now_ms();
        CHECK_CODE(pawl_barrier_enter(one, "b", 2, PAWL_BARRIER(.wait_ms = 1000), &barrier), PAWL_IN_DOUBT);
        CHECK_COMPARE(now_ms() - began, <, PATIENCE / 2);
        MUST(pawl_stats(one, &after));
        CHECK_COMPARE(after.busy - before.busy, <, 100);
        CHECK_CODE(pawl_release(gate), PAWL_OK);
        MUST(pawl_barrier_enter(one, "b", 2, PAWL_BARRIER(.wait_ms = PATIENCE), &barrier));
        CHECK_CODE(pawl_barrier_leave(barrier, PAWL_NO_WAIT), PAWL_OK);
        REQUIRE_INT(pthread_join(thread, &done), 0);
        CHECK(done);
}

/* Some of them give up in the very moment in which the last one comes. */
static atomic_int gone_on, given_up;

static void *enter_shortly(void *arg)
{
        struct party *party = arg;
        pawl_barrier *barrier;
        int code = pawl_barrier_enter(party->client, "b", 2, PAWL_BARRIER(.wait_ms = 20 + party->number), &barrier);

        if (code == PAWL_OK)
                pawl_barrier_leave(barrier, PAWL_NO_WAIT);
        atomic_fetch_add(code == PAWL_OK ? &gone_on : &given_up, 1);
        CHECK(code == PAWL_OK || code == PAWL_TIMEOUT);
        return NULL;
}

TEST(who_gives_up_in_the_last_moment_is_not_counted)
{
        const char *place = fresh_place();
        static struct party parties[2];
        pthread_t threads[2];

        for (int i = 0; i < 2; i++)
                parties[i].client = join(place);
        NEEDS(parties[0].client, PAWL_CAN_KEEP | PAWL_CAN_SHARE | PAWL_CAN_INSPECT);
        for (int round = 0; round < 40; round++) {
                parties[0].number = 0;
                parties[1].number = 200;
                REQUIRE_INT(pthread_create(&threads[0], NULL, enter_shortly, &parties[0]), 0);
                nap(10 + round % 15);
                REQUIRE_INT(pthread_create(&threads[1], NULL, enter_shortly, &parties[1]), 0);
                pthread_join(threads[0], NULL);
                pthread_join(threads[1], NULL);
                CHECK_INT(atomic_load(&gone_on) % 2, 0);
        }
}

static void *wait_at_latch(void *arg)
{
        static atomic_int code;

        atomic_store(&code, pawl_latch_wait(arg, "l", PAWL_BARRIER(.wait_ms = 2 * PATIENCE)));
        return &code;
}

TEST(a_latch_opens_when_enough_was_done_and_stays_open)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pthread_t thread;
        uint32_t count = 9;
        void *code;

        if (!(pawl_capabilities(one) & PAWL_CAN_KEEP)) {
                CHECK_CODE(pawl_latch_down(one, "l", 1, 1, NULL, NULL), PAWL_UNSUPPORTED);
                return;
        }
        CHECK_CODE(pawl_latch_wait(one, "l", PAWL_BARRIER(.wait_ms = 30)), PAWL_TIMEOUT);
        REQUIRE_INT(pthread_create(&thread, NULL, wait_at_latch, two), 0);
        MUST(pawl_latch_down(one, "l", 4, 1, NULL, &count));
        CHECK_UINT(count, 3);
        MUST(pawl_latch_down(one, "l", 4, 2, NULL, &count));
        CHECK_UINT(count, 1);
        CHECK_CODE(pawl_latch_wait(one, "l", PAWL_BARRIER(.wait_ms = 30)), PAWL_TIMEOUT);
        MUST(pawl_latch_down(one, "l", 4, 5, NULL, &count));
        CHECK_UINT(count, 0);
        REQUIRE_INT(pthread_join(thread, &code), 0);
        CHECK_CODE(atomic_load((atomic_int *)code), PAWL_OK);
        CHECK_CODE(pawl_latch_wait(one, "l", NULL), PAWL_OK);
        MUST(pawl_latch_down(one, "l", 4, 1, NULL, &count));
        CHECK_UINT(count, 0);
        MUST(pawl_latch_forget(one, "l", NULL));
        CHECK_CODE(pawl_latch_wait(one, "l", PAWL_BARRIER(.wait_ms = 30)), PAWL_TIMEOUT);
        CHECK_CODE(pawl_latch_down(one, "l", 0, 1, NULL, NULL), PAWL_INVALID);
        CHECK_CODE(pawl_latch_down(one, "l", 1, 0, NULL, NULL), PAWL_INVALID);
        CHECK_CODE(pawl_latch_down(one, "", 1, 1, NULL, NULL), PAWL_INVALID);
}

TEST(a_gate_or_a_latch_that_is_none_of_ours_lets_nobody_through)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        pawl_barrier *barrier;
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_KEEP | PAWL_CAN_SHARE | PAWL_CAN_INSPECT);
        MUST(pawl_acquire(one, "gate/b", NULL, &lock));
        MUST(pawl_store(lock, "pawl-barrier 1 -1", 17, 0));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(pawl_barrier_enter(one, "b", 2, PAWL_BARRIER(.wait_ms = PATIENCE), &barrier), PAWL_CORRUPT);
        MUST(pawl_acquire(one, "latch/l", NULL, &lock));
        MUST(pawl_store(lock, "pawl-latch 1 4294967296", 23, 0));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(pawl_latch_wait(one, "l", PAWL_BARRIER(.wait_ms = PATIENCE)), PAWL_CORRUPT);
        CHECK_CODE(pawl_latch_down(one, "l", 1, 1, NULL, NULL), PAWL_CORRUPT);
        MUST(pawl_latch_forget(one, "l", NULL));
        CHECK_CODE(pawl_latch_down(one, "l", 1, 1, NULL, NULL), PAWL_OK);
}
