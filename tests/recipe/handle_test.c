/* handle_test.c - small recipes around one lock: reentrant, handed over, lent, a semaphore. */
#include "contract.h"

#include <pawl/handle.h>

TEST(whoever_has_the_handle_may_take_the_lock_again)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_reentrant *mine, *theirs;

        MUST(pawl_reentrant_new(one, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &mine));
        MUST(pawl_reentrant_new(two, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &theirs));
        CHECK_NULL(pawl_reentrant_lock(mine));
        CHECK_CODE(pawl_reentrant_release(mine), PAWL_MISUSE);
        MUST(pawl_reentrant_acquire(mine));
        uint64_t token = pawl_token(pawl_reentrant_lock(mine));
        MUST(pawl_reentrant_acquire(mine));
        CHECK_UINT(pawl_token(pawl_reentrant_lock(mine)), token);
        CHECK_CODE(pawl_reentrant_acquire(theirs), PAWL_BUSY);
        CHECK_CODE(pawl_reentrant_release(mine), PAWL_OK);
        CHECK_CODE(pawl_reentrant_acquire(theirs), PAWL_BUSY);
        CHECK_CODE(pawl_reentrant_release(mine), PAWL_OK);
        CHECK_CODE(pawl_reentrant_release(mine), PAWL_MISUSE);
        CHECK(SOON(pawl_reentrant_acquire(theirs) == PAWL_OK));
        CHECK_COMPARE(pawl_token(pawl_reentrant_lock(theirs)), >, token);
        CHECK_CODE(pawl_reentrant_free(theirs), PAWL_OK);
        CHECK_CODE(pawl_reentrant_free(mine), PAWL_OK);
        CHECK(SOON(is_free(one, "a")));
        CHECK_CODE(pawl_reentrant_new(one, "", NULL, &mine), PAWL_INVALID);
}

TEST(a_reentrant_lock_that_was_lost_is_not_taken_further_in)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_reentrant *mine;

        NEEDS(one, PAWL_CAN_BREAK);
        MUST(pawl_reentrant_new(one, "a", PAWL_LOCK(.wait_ms = PATIENCE), &mine));
        MUST(pawl_reentrant_acquire(mine));
        CHECK_CODE(break_it(two, "a"), PAWL_OK);
        CHECK(SOON(pawl_check(pawl_reentrant_lock(mine)) == PAWL_LOST));
        CHECK_CODE(pawl_reentrant_acquire(mine), PAWL_LOST);
        CHECK_CODE(pawl_reentrant_release(mine), PAWL_LOST);
        MUST(pawl_reentrant_acquire(mine));
        CHECK_CODE(pawl_reentrant_free(mine), PAWL_OK);
}

TEST(a_lock_is_handed_over_with_its_token_and_without_a_gap)
{
        enum { TTL = 3000 };
        static struct view view;
        const char *place = fresh_place();
        pawl_client *one = join_with(place, (struct pawl_open_options){.owner = "the giver"}),
                    *two = join_with(place, (struct pawl_open_options){.owner = "the taker"}), *three = join(place);
        char word[PAWL_LEASE_MAX + 1];
        pawl_lock *lock, *taken, *none;
        uint64_t token;

        if (!(pawl_capabilities(one) & PAWL_CAN_DETACH)) {
                CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.flags = PAWL_DETACH | PAWL_RENEW), &lock),
                           PAWL_UNSUPPORTED);
                return;
        }
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = TTL, .flags = PAWL_DETACH | PAWL_RENEW), &lock));
        token = pawl_token(lock);
        MUST(pawl_hand_over(lock, word, sizeof word));
        CHECK_CODE(pawl_acquire(three, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
        MUST(pawl_take_over(two, word, NULL, &taken));
        CHECK_UINT(pawl_token(taken), token);
        nap(2 * TTL);
        CHECK_CODE(pawl_check(taken), PAWL_OK);
        CHECK_CODE(pawl_acquire(three, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
        if (pawl_capabilities(one) & PAWL_CAN_INSPECT) {
                MUST(show(three, "a", &view));
                REQUIRE(line_of(&view, PAWL_ROLE_HOLDER, 0));
                CHECK_STR(line_of(&view, PAWL_ROLE_HOLDER, 0)->owner, "the taker");
        }
        CHECK_CODE(pawl_release(taken), PAWL_OK);
        CHECK(SOON(is_free(three, "a")));
        MUST(pawl_acquire(one, "b", NULL, &lock));
        CHECK_CODE(pawl_hand_over(lock, word, sizeof word), PAWL_MISUSE);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(pawl_take_over(two, "nonsense", NULL, &taken), PAWL_INVALID);
}

/* Who was to take it over is dead: the lease ends. So it does if the giver dies right after. */
TEST(a_lock_that_nobody_takes_over_is_free_after_its_lease)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);
        char word[PAWL_LEASE_MAX + 1];
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_DETACH);
        REQUIRE_CODE(ask_peer(peer, "acquire a 0 3000 %d", PAWL_DETACH | PAWL_RENEW), PAWL_OK);
        REQUIRE_CODE(ask_peer(peer, "lease"), PAWL_OK);
        snprintf(word, sizeof word, "%s", peer_text(peer));
        kill_peer(peer);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PATIENCE), &lock));
        pawl_lock *late;
        CHECK_CODE(pawl_take_over(one, word, NULL, &late), PAWL_LOST);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

static void *want(void *arg)
{
        pawl_lock *lock;

        MUST(pawl_acquire(arg, "a", PAWL_LOCK(.wait_ms = 2 * PATIENCE), &lock));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        return NULL;
}

TEST(a_holder_yields_if_others_wait_and_else_keeps_its_lock)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock;
        pthread_t thread;
        uint32_t waiters = 9;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        NEEDS(one, PAWL_CAN_INSPECT);
        uint64_t token = pawl_token(lock);
        MUST(pawl_waiters(one, "a", &waiters));
        CHECK_UINT(waiters, 0);
        MUST(pawl_waiters(one, "nobody's", &waiters));
        CHECK_UINT(waiters, 0);
        MUST(pawl_yield(one, NULL, &lock));
        CHECK_UINT(pawl_token(lock), token);
        REQUIRE_INT(pthread_create(&thread, NULL, want, two), 0);
        REQUIRE(queue_reaches(one, "a", 1));
        MUST(pawl_waiters(one, "a", &waiters));
        CHECK_UINT(waiters, 1);
        MUST(pawl_yield(one, PAWL_LOCK(.wait_ms = 2 * PATIENCE), &lock));
        CHECK_COMPARE(pawl_token(lock), >, token);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        pthread_join(thread, NULL);
        CHECK_CODE(pawl_yield(one, NULL, NULL), PAWL_INVALID);
}

static void *want_loudly(void *arg)
{
        pawl_lock *lock;

        MUST(pawl_acquire_asking(arg, "a", PAWL_LOCK(.wait_ms = 2 * PATIENCE), &lock));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        return NULL;
}

TEST(a_holder_is_told_that_another_waits)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *lock, *quick;
        pthread_t thread;

        NEEDS(one, PAWL_CAN_ASK);
        MUST(pawl_acquire_asking(two, "a", NULL, &quick));
        CHECK_INT(pawl_asked(quick), 0);
        CHECK_CODE(pawl_release(quick), PAWL_OK);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.on_asked = see_asked, .arg = &seen), &lock));
        CHECK_CODE(pawl_acquire_asking(two, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &quick), PAWL_BUSY);
        CHECK_INT(pawl_asked(lock), 0);
        REQUIRE_INT(pthread_create(&thread, NULL, want_loudly, two), 0);
        CHECK(SOON(atomic_load(&seen.asked) >= 1)); /* it is asked again while the other waits */
        CHECK_INT(pawl_asked(lock), 1);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        pthread_join(thread, NULL);
}

TEST(a_semaphore_has_as_many_permits_as_it_says)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        pawl_lock *permits[3], *none;

        if (!(pawl_capabilities(one) & PAWL_CAN_LIMIT)) {
                CHECK_CODE(pawl_acquire(one, "s", PAWL_SEMAPHORE(3, .wait_ms = PAWL_NO_WAIT), &none), PAWL_UNSUPPORTED);
                return;
        }
        for (int i = 0; i < 3; i++)
                MUST(pawl_acquire(one, "s", PAWL_SEMAPHORE(3, .wait_ms = PAWL_NO_WAIT), &permits[i]));
        CHECK_CODE(pawl_acquire(one, "s", PAWL_SEMAPHORE(3, .wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
        for (int i = 0; i < 3; i++)
                CHECK_CODE(pawl_release(permits[i]), PAWL_OK);
}
