/* test_waiting.c - promises 7 and 8: a claim that failed leaves nothing behind, and the others wait in their order. */
#include "contract.h"

TEST(a_try_that_failed_leaves_nothing_behind)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct view view;
        pawl_lock *lock, *none;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        for (int i = 0; i < 100; i++) {
                struct pawl_why why = {0};
                int code = pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT, .why = &why), &none);
                if (code != PAWL_BUSY)
                        NOTE("%s", why.text);
                REQUIRE_CODE(code, PAWL_BUSY);
        }
        if (pawl_capabilities(one) & PAWL_CAN_INSPECT) {
                CHECK_CODE(show(one, "a", &view), PAWL_OK);
                CHECK_UINT(view.holders, 1);
                CHECK_UINT(view.waiters, 0);
        }
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(nothing_is_left(one, "a"));
        CHECK(is_free(one, "a"));
}

TEST(a_wait_that_timed_out_leaves_nothing_behind_and_was_not_shorter_than_asked)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *none;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        int64_t before = now_ms();
        CHECK_CODE(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = 500), &none), PAWL_TIMEOUT);
        CHECK_COMPARE(now_ms() - before, >=, 499);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(SOON(nothing_is_left(one, "a"))); /* the caller was told at once: the store is told behind him */
        CHECK(SOON(is_free(one, "a")));
        CHECK(SOON(is_free(two, "a")));
}

/* Is refused with that code and a message that begins so. It is a general one if the store does not say who has it. */
static bool is_refused_with(pawl_client *client, int64_t wait_ms, int code, const char *message)
{
        struct pawl_why why = {0};
        pawl_lock *none;

        return pawl_acquire(client, "a", PAWL_LOCK(.wait_ms = wait_ms, .why = &why), &none) == code &&
               why.code == code && strncmp(why.text, message, strlen(message)) == 0 &&
               strstr(why.text, "(lease ends within ");
}

TEST(a_refusal_names_the_holder_and_its_lease)
{
        const char *place = fresh_place();
        pawl_client *one = join_with(place, (struct pawl_open_options){.owner = "the holder"}), *two = join(place);
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_INSPECT);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 60000, .note = "a note"), &lock));
        CHECK(SOON(is_refused_with(two, PAWL_NO_WAIT, PAWL_BUSY,
                                   "the lock 'a' is taken: held by the holder (a note) for ")));
        CHECK(SOON(is_refused_with(two, 500, PAWL_TIMEOUT,
                                   "the lock 'a' was not free in time: held by the holder (a note) for ")));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

TEST(an_asynchronous_wait_times_out_too)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *lock, *waiting;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        MUST(pawl_acquire_async(two, "a", PAWL_LOCK(.wait_ms = 500), see_granted, &seen, &waiting));
        CHECK(SOON(atomic_load(&seen.granted) == 1));
        CHECK_CODE(atomic_load(&seen.status), PAWL_TIMEOUT);
        CHECK_INT(pawl_state(waiting), PAWL_OVER);
        CHECK_CODE(pawl_check(waiting), PAWL_MISUSE);
        (void)pawl_release(waiting);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(SOON(nothing_is_left(one, "a")));
        CHECK_INT(atomic_load(&seen.granted), 1);
}

TEST(a_cancelled_claim_says_so_once_and_leaves_nothing_behind)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *lock, *waiting;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        MUST(pawl_acquire_async(two, "a", NULL, see_granted, &seen, &waiting));
        REQUIRE(queue_reaches(one, "a", 1));
        CHECK_INT(pawl_state(waiting), PAWL_WAITING);
        CHECK_CODE(pawl_cancel(waiting), PAWL_OK);
        CHECK(SOON(atomic_load(&seen.granted) == 1));
        CHECK_CODE(atomic_load(&seen.status), PAWL_CANCELLED);
        CHECK_INT(pawl_state(waiting), PAWL_OVER);
        CHECK_CODE(pawl_cancel(waiting), PAWL_MISUSE);
        CHECK(queue_reaches(one, "a", 0));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(is_free(one, "a"));
        (void)pawl_release(waiting);
        CHECK_INT(atomic_load(&seen.granted), 1);
}

TEST(cancelling_what_is_held_is_misuse_and_changes_nothing)
{
        pawl_client *one = join(fresh_place());
        pawl_lock *lock;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        CHECK_CODE(pawl_cancel(lock), PAWL_MISUSE);
        CHECK_CODE(pawl_check(lock), PAWL_OK);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

TEST(releasing_a_claim_that_waits_ends_it_without_a_later_callback)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *waiting;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        for (int i = 0; i < 20; i++) {
                struct seen seen = {0};
                MUST(pawl_acquire_async(two, "a", NULL, see_granted, &seen, &waiting));
                (void)pawl_release(waiting);
                int calls = atomic_load(&seen.granted);
                nap(2);
                CHECK_INT(atomic_load(&seen.granted), calls);
        }
        CHECK(queue_reaches(one, "a", 0));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(SOON(is_free(one, "a"))); /* the last one may have been on its way when the queue was empty */
}

/* A cancel races with the grant: whichever wins, the lock is held by exactly that one and freed by its release. */
TEST(a_cancel_that_races_with_the_grant_loses_nothing)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *waiting;

        for (int i = 0; i < 200; i++) {
                struct seen seen = {0};
                MUST(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PATIENCE), &lock));
                MUST(pawl_acquire_async(two, "a", NULL, see_granted, &seen, &waiting));
                CHECK_CODE(pawl_release_async(lock, NULL, NULL), PAWL_OK);
                (void)pawl_cancel(waiting);
                REQUIRE(SOON(atomic_load(&seen.granted) == 1));
                if (atomic_load(&seen.status) == PAWL_OK) {
                        CHECK_CODE(pawl_check(waiting), PAWL_OK);
                        CHECK_CODE(pawl_release(waiting), PAWL_OK);
                } else {
                        CHECK_CODE(atomic_load(&seen.status), PAWL_CANCELLED);
                        (void)pawl_release(waiting);
                }
                REQUIRE(SOON(is_free(one, "a")));
        }
}

TEST(a_release_hands_the_lock_to_the_waiter_and_not_to_a_passer_by)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *waiting, *none;

        NEEDS(one, PAWL_CAN_QUEUE);
        for (int i = 0; i < 20; i++) {
                struct seen seen = {0};
                MUST(pawl_acquire(one, "a", NULL, &lock));
                MUST(pawl_acquire_async(two, "a", NULL, see_granted, &seen, &waiting));
                REQUIRE(queue_reaches(one, "a", 1));
                CHECK_CODE(pawl_release(lock), PAWL_OK);
                CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
                REQUIRE(SOON(atomic_load(&seen.granted) == 1));
                CHECK_CODE(atomic_load(&seen.status), PAWL_OK);
                CHECK_CODE(pawl_release(waiting), PAWL_OK);
        }
}

TEST(a_waiter_is_served_when_the_holders_lease_runs_out)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *next;

        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 300, .flags = PAWL_NO_RENEW), &lock));
        MUST(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PATIENCE), &next));
        CHECK_COMPARE(pawl_token(next), >, pawl_token(lock));
}

TEST(a_waiter_that_gave_up_does_not_stall_the_queue)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen gave_up, cancelled, served;
        pawl_lock *lock, *claims[3];

        MUST(pawl_acquire(one, "a", NULL, &lock));
        MUST(pawl_acquire_async(two, "a", PAWL_LOCK(.wait_ms = 1500), see_granted, &gave_up, &claims[0]));
        MUST(pawl_acquire_async(two, "a", NULL, see_granted, &cancelled, &claims[1]));
        MUST(pawl_acquire_async(two, "a", NULL, see_granted, &served, &claims[2]));
        REQUIRE(SOON(atomic_load(&gave_up.granted) == 1));
        CHECK_CODE(pawl_cancel(claims[1]), PAWL_OK);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(SOON(atomic_load(&served.granted) == 1));
        CHECK_CODE(atomic_load(&served.status), PAWL_OK);
        CHECK_CODE(pawl_release(claims[2]), PAWL_OK);
        CHECK(is_free(one, "a"));
}

/* It gives up while it is still on its way into the queue, behind another client. The one behind it stays behind both. */
TEST(a_waiter_that_gave_up_at_once_leaves_its_place_to_nobody)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct view view;

        NEEDS(one, PAWL_CAN_QUEUE);
        for (int i = 0; i < 20; i++) {
                pawl_lock *lock, *first, *other, *gone, *behind;

                MUST(pawl_acquire(two, "a", NULL, &lock));
                MUST(pawl_acquire_async(one, "a", NULL, NULL, NULL, &first));
                REQUIRE(queue_reaches(two, "a", 1));
                MUST(pawl_acquire_async(two, "a", NULL, NULL, NULL, &other));
                REQUIRE(queue_reaches(two, "a", 2));
                MUST(pawl_acquire_async(one, "a", NULL, NULL, NULL, &gone));
                MUST(pawl_acquire_async(one, "a", PAWL_LOCK(.note = "behind"), NULL, NULL, &behind));
                (void)pawl_cancel(gone);
                REQUIRE(queue_reaches(two, "a", 3));
                if (pawl_capabilities(one) & PAWL_CAN_INSPECT)
                        REQUIRE(SOON(show(two, "a", &view) == PAWL_OK && view.waiters == 3 &&
                                     !strcmp(line_of(&view, PAWL_ROLE_WAITER, 2)->note, "behind")));
                MUST(pawl_release(lock));
                MUST(pawl_wait(first, PATIENCE));
                MUST(pawl_release(first));
                MUST(pawl_wait(other, PATIENCE));
                CHECK_INT(pawl_state(behind), PAWL_WAITING);
                CHECK_CODE(pawl_release(other), PAWL_OK);
                MUST(pawl_wait(behind, PATIENCE));
                CHECK_CODE(pawl_release(behind), PAWL_OK);
                (void)pawl_release(gone);
        }
}

TEST(a_waiter_that_died_does_not_stall_the_queue)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *dead[2] = {start_peer(place), start_peer(place)}, *alive = start_peer(place);
        pawl_lock *lock;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        for (int i = 0; i < 2; i++) {
                tell_peer(dead[i], "acquire a 0 1000");
                REQUIRE(queue_reaches(one, "a", (unsigned)i + 1));
        }
        tell_peer(alive, "acquire a 0 1000");
        REQUIRE(queue_reaches(one, "a", 3));
        kill_peer(dead[0]);
        kill_peer(dead[1]);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(hear_peer(alive), PAWL_OK);
        CHECK_CODE(ask_peer(alive, "release"), PAWL_OK);
        CHECK(is_free(one, "a"));
}

/* Where an engine has no use for the flag it is a lock like any other. */
TEST(claims_that_confirm_their_turn_are_served_in_their_order_and_leave_nothing_behind)
{
        enum { CLAIMS = 4 };
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen[CLAIMS];
        pawl_lock *lock, *waiting[CLAIMS], *none;
        uint64_t last;

        NEEDS(one, PAWL_CAN_QUEUE);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.flags = PAWL_CONFIRM, .wait_ms = PAWL_NO_WAIT), &lock));
        CHECK_CODE(pawl_acquire(two, "a", PAWL_LOCK(.flags = PAWL_CONFIRM, .wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
        CHECK_CODE(pawl_acquire(two, "a", PAWL_LOCK(.flags = PAWL_CONFIRM, .wait_ms = 100), &none), PAWL_TIMEOUT);
        REQUIRE(queue_reaches(one, "a", 0));
        for (unsigned i = 0; i < CLAIMS; i++) {
                MUST(pawl_acquire_async(two, "a", PAWL_LOCK(.flags = i == 2 ? 0 : PAWL_CONFIRM), see_granted, &seen[i],
                                        &waiting[i]));
                REQUIRE(queue_reaches(one, "a", i + 1));
        }
        CHECK_CODE(pawl_cancel(waiting[1]), PAWL_OK);
        last = pawl_token(lock);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        for (unsigned i = 0; i < CLAIMS; i++) {
                REQUIRE(SOON(atomic_load(&seen[i].granted) == 1));
                CHECK_CODE(atomic_load(&seen[i].status), i == 1 ? PAWL_CANCELLED : PAWL_OK);
                if (i != 1) {
                        CHECK_CODE(pawl_check(waiting[i]), PAWL_OK);
                        CHECK_COMPARE(pawl_token(waiting[i]), >, last);
                        last = pawl_token(waiting[i]);
                        for (unsigned later = i == 0 ? 2 : i + 1; later < CLAIMS; later++)
                                CHECK_INT(atomic_load(&seen[later].granted), 0);
                }
                CHECK_CODE(pawl_release(waiting[i]), i == 1 ? PAWL_CANCELLED : PAWL_OK);
        }
        CHECK(SOON(nothing_is_left(one, "a")));
        CHECK(is_free(one, "a"));
}

TEST(to_confirm_a_turn_is_for_exclusive_locks_that_end_with_their_client)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct pawl_why why = {0};
        pawl_lock *none;

        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.flags = PAWL_CONFIRM, .mode = PAWL_SHARED, .why = &why), &none),
                   PAWL_INVALID);
        CHECK(strstr(why.text, "PAWL_CONFIRM"));
        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.flags = PAWL_CONFIRM | PAWL_DETACH), &none), PAWL_INVALID);
        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.flags = PAWL_CONFIRM, .delay_ms = 100), &none), PAWL_INVALID);
        CHECK(is_free(one, "a"));
}

/* ---- first come, first served ---------------------------------------------------------------------------------- */

struct thread_waiter {
        pawl_client *client;
        pthread_t thread;
        uint64_t token;
};

static void *wait_in_a_thread(void *arg)
{
        struct thread_waiter *waiter = arg;
        pawl_lock *lock;
        if (pawl_acquire(waiter->client, "a", PAWL_LOCK(.wait_ms = PATIENCE), &lock) == PAWL_OK) {
                waiter->token = pawl_token(lock);
                (void)pawl_release(lock);
        }
        return NULL;
}

struct async_waiter {
        atomic_int done;
        uint64_t token;
};

static void note_token_and_release(pawl_lock *lock, int status, void *arg)
{
        struct async_waiter *waiter = arg;
        waiter->token = status == PAWL_OK ? pawl_token(lock) : 0;
        (void)pawl_release_async(lock, NULL, NULL);
        atomic_store(&waiter->done, 1);
}

TEST(threads_are_served_in_the_order_in_which_they_came)
{
        enum { WAITERS = 10 };
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct thread_waiter waiters[WAITERS] = {{0}};
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_QUEUE);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        for (unsigned i = 0; i < WAITERS; i++) {
                waiters[i].client = one;
                REQUIRE(!pthread_create(&waiters[i].thread, NULL, wait_in_a_thread, &waiters[i]));
                REQUIRE(queue_reaches(one, "a", i + 1));
        }
        uint64_t last = pawl_token(lock);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        for (int i = 0; i < WAITERS; i++) {
                pthread_join(waiters[i].thread, NULL);
                CHECK_COMPARE(waiters[i].token, >, last);
                last = waiters[i].token;
        }
}

TEST(processes_threads_and_asynchronous_claims_stand_in_one_queue)
{
        enum { ROUNDS = 4 };
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct thread_waiter threads[ROUNDS] = {{0}};
        struct async_waiter claims[ROUNDS] = {{0}};
        struct peer *peers[ROUNDS];
        pawl_lock *lock, *claim;

        NEEDS(one, PAWL_CAN_QUEUE);
        for (int i = 0; i < ROUNDS; i++)
                peers[i] = start_peer(place);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        for (unsigned i = 0; i < ROUNDS; i++) {
                tell_peer(peers[i], "acquire a %d 0", PATIENCE);
                tell_peer(peers[i], "release");
                REQUIRE(queue_reaches(one, "a", 3 * i + 1));
                threads[i].client = two;
                REQUIRE(!pthread_create(&threads[i].thread, NULL, wait_in_a_thread, &threads[i]));
                REQUIRE(queue_reaches(one, "a", 3 * i + 2));
                MUST(pawl_acquire_async(two, "a", NULL, note_token_and_release, &claims[i], &claim));
                REQUIRE(queue_reaches(one, "a", 3 * i + 3));
        }
        uint64_t last = pawl_token(lock);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        for (int i = 0; i < ROUNDS; i++) {
                CHECK_CODE(hear_peer(peers[i]), PAWL_OK);
                CHECK_COMPARE(peer_token(peers[i]), >, last);
                last = peer_token(peers[i]);
                pthread_join(threads[i].thread, NULL);
                CHECK_COMPARE(threads[i].token, >, last);
                last = threads[i].token;
                REQUIRE(SOON(atomic_load(&claims[i].done)));
                CHECK_COMPARE(claims[i].token, >, last);
                last = claims[i].token;
        }
}

/* ---- very many ------------------------------------------------------------------------------------------------- */

enum { CROWD = 10000 };

static struct {
        atomic_int served;
        atomic_int out_of_order;
        uint64_t last;
        int place[CROWD];
} crowd;

static void serve_one(pawl_lock *lock, int status, void *arg)
{
        int *place = arg;
        int turn = atomic_fetch_add(&crowd.served, 1);
        if (status != PAWL_OK || *place != turn || pawl_token(lock) <= crowd.last)
                atomic_fetch_add(&crowd.out_of_order, 1);
        crowd.last = pawl_token(lock);
        (void)pawl_release_async(lock, NULL, NULL);
}

/* A crowd takes its time on a machine that has other things to do. */
#define LATER(condition) (SOON(condition) || SOON(condition) || SOON(condition) || SOON(condition))

TEST_WITHIN(300, ten_thousand_asynchronous_waiters_are_served_one_by_one_in_their_order)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *claim;

        NEEDS(one, PAWL_CAN_QUEUE);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        for (int i = 0; i < CROWD; i++) {
                crowd.place[i] = i;
                MUST(pawl_acquire_async(two, "a", PAWL_LOCK(.ttl_ms = 60000), serve_one, &crowd.place[i], &claim));
        }
        REQUIRE(LATER(queue_reaches(one, "a", CROWD)));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(LATER(atomic_load(&crowd.served) == CROWD));
        CHECK_INT(atomic_load(&crowd.out_of_order), 0);
        CHECK(SOON(is_free(one, "a")));
        CHECK(nothing_is_left(one, "a"));
}
