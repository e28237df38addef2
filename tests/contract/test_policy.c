/* test_policy.c - what deadlock policies and recipes stand on: ages that others see, claims that are waited for bit by bit,
 * holders that are wounded, leases that change their owner. */
#include "contract.h"

TEST(the_age_of_holders_and_waiters_is_shown_as_it_was_given)
{
        static struct view view;
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place), *three = join(place);
        uint64_t old = UINT64_C(0x7123456789abcdef), young = old + 1;
        static struct seen seen;
        pawl_lock *lock, *waiting, *ageless;

        if (!(pawl_capabilities(one) & PAWL_CAN_AGE)) {
                CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.age = old), &lock), PAWL_UNSUPPORTED);
                return;
        }
        NEEDS(one, PAWL_CAN_INSPECT);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.age = old, .ttl_ms = 30000), &lock));
        MUST(pawl_acquire_async(two, "a", PAWL_LOCK(.age = young), see_granted, &seen, &waiting));
        REQUIRE(queue_reaches(three, "a", 1));
        MUST(show(three, "a", &view));
        REQUIRE(line_of(&view, PAWL_ROLE_HOLDER, 0) && line_of(&view, PAWL_ROLE_WAITER, 0));
        CHECK_UINT(line_of(&view, PAWL_ROLE_HOLDER, 0)->entry.age, old);
        CHECK_UINT(line_of(&view, PAWL_ROLE_WAITER, 0)->entry.age, young);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(pawl_wait(waiting, PATIENCE), PAWL_OK);
        MUST(show(three, "a", &view));
        REQUIRE(line_of(&view, PAWL_ROLE_HOLDER, 0));
        CHECK_UINT(line_of(&view, PAWL_ROLE_HOLDER, 0)->entry.age, young);
        CHECK_CODE(pawl_release(waiting), PAWL_OK);
        MUST(pawl_acquire(one, "a", NULL, &ageless));
        MUST(show(three, "a", &view));
        REQUIRE(line_of(&view, PAWL_ROLE_HOLDER, 0));
        CHECK_UINT(line_of(&view, PAWL_ROLE_HOLDER, 0)->entry.age, 0);
        CHECK_CODE(pawl_release(ageless), PAWL_OK);
}

TEST(the_ages_of_those_who_share_are_shown)
{
        static struct view view;
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *first, *second;
        uint64_t sum = 0;

        NEEDS(one, PAWL_CAN_AGE | PAWL_CAN_INSPECT | PAWL_CAN_SHARE);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.age = 100, .mode = PAWL_SHARED), &first));
        MUST(pawl_acquire(two, "a", PAWL_LOCK(.age = 23, .mode = PAWL_SHARED), &second));
        MUST(show(one, "a", &view));
        CHECK_UINT(view.holders, 2);
        for (unsigned i = 0; i < view.count; i++)
                sum += view.lines[i].entry.role == PAWL_ROLE_HOLDER ? view.lines[i].entry.age : 0;
        CHECK_UINT(sum, 123);
        CHECK_CODE(pawl_release(first), PAWL_OK);
        CHECK_CODE(pawl_release(second), PAWL_OK);
}

TEST(a_claim_can_be_waited_for_bit_by_bit_without_losing_its_place)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *waiting;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        MUST(pawl_acquire_async(two, "a", NULL, NULL, NULL, &waiting));
        CHECK_CODE(pawl_wait(waiting, PAWL_NO_WAIT), PAWL_TIMEOUT);
        for (int i = 0; i < 5; i++)
                CHECK_CODE(pawl_wait(waiting, 20), PAWL_TIMEOUT);
        CHECK_INT(pawl_state(waiting), PAWL_WAITING);
        CHECK_CODE(pawl_wait(waiting, -2), PAWL_INVALID);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(pawl_wait(waiting, PATIENCE), PAWL_OK);
        CHECK_CODE(pawl_wait(waiting, PAWL_NO_WAIT), PAWL_OK);
        CHECK_CODE(pawl_check(waiting), PAWL_OK);
        CHECK_CODE(pawl_release(waiting), PAWL_OK);
}

TEST(who_waits_for_a_claim_hears_that_it_was_cancelled_or_timed_out)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *waiting;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        MUST(pawl_acquire_async(two, "a", PAWL_LOCK(.wait_ms = 1500), NULL, NULL, &waiting));
        CHECK_CODE(pawl_wait(waiting, PATIENCE), PAWL_TIMEOUT);
        CHECK_INT(pawl_state(waiting), PAWL_OVER);
        pawl_release(waiting);
        MUST(pawl_acquire_async(two, "a", NULL, NULL, NULL, &waiting));
        CHECK_CODE(pawl_cancel(waiting), PAWL_OK);
        CHECK_CODE(pawl_wait(waiting, PATIENCE), PAWL_CANCELLED);
        pawl_release(waiting);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

static void *wait_for_ever(void *arg)
{
        static atomic_int code;

        atomic_store(&code, pawl_wait(arg, PAWL_FOREVER));
        return &code;
}

TEST(a_claim_that_is_given_back_ends_the_wait_of_another_thread)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *waiting;
        pthread_t thread;
        void *code;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        MUST(pawl_acquire_async(two, "a", NULL, NULL, NULL, &waiting));
        REQUIRE_INT(pthread_create(&thread, NULL, wait_for_ever, waiting), 0);
        nap(100);
        pawl_release(waiting);
        REQUIRE_INT(pthread_join(thread, &code), 0);
        CHECK(atomic_load((atomic_int *)code) == PAWL_CANCELLED || atomic_load((atomic_int *)code) == PAWL_MISUSE);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

static void *wait_patiently(void *arg)
{
        static atomic_int code;

        atomic_store(&code, pawl_wait(arg, PATIENCE));
        return &code;
}

TEST(a_claim_that_is_cancelled_ends_the_wait_of_another_thread_at_once)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *waiting;
        pthread_t thread;
        int64_t before;
        void *code;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        MUST(pawl_acquire_async(two, "a", NULL, NULL, NULL, &waiting));
        REQUIRE_INT(pthread_create(&thread, NULL, wait_patiently, waiting), 0);
        nap(100);
        before = now_ms();
        CHECK_CODE(pawl_cancel(waiting), PAWL_OK);
        REQUIRE_INT(pthread_join(thread, &code), 0);
        CHECK_CODE(atomic_load((atomic_int *)code), PAWL_CANCELLED);
        CHECK_COMPARE(now_ms() - before, <, PATIENCE / 2);
        pawl_release(waiting);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

TEST(who_waits_for_a_claim_does_not_take_the_callbacks_place)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *lock, *waiting;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        MUST(pawl_acquire_async(two, "a", NULL, see_granted, &seen, &waiting));
        CHECK_CODE(pawl_wait(waiting, 20), PAWL_TIMEOUT);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(pawl_wait(waiting, PATIENCE), PAWL_OK);
        CHECK(SOON(atomic_load(&seen.granted) == 1));
        CHECK_CODE(pawl_release(waiting), PAWL_OK);
        CHECK_INT(atomic_load(&seen.granted), 1);
}

TEST(a_wounded_holder_is_told_by_check_and_cut_off_at_the_end_of_its_lease)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *lock, *next;

        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 1000, .on_lost = see_lost, .arg = &seen), &lock));
        CHECK_CODE(pawl_check(lock), PAWL_OK);
        CHECK_CODE(pawl_wound(lock), PAWL_OK);
        int code = pawl_check(lock);
        CHECK(code == PAWL_WOUNDED || code == PAWL_LOST);
        MUST(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PATIENCE), &next));
        CHECK(SOON(atomic_load(&seen.lost) == 1));
        CHECK_CODE(pawl_check(lock), PAWL_LOST);
        CHECK_CODE(pawl_wound(lock), PAWL_LOST);
        CHECK_CODE(pawl_release(lock), PAWL_LOST);
        CHECK_CODE(pawl_release(next), PAWL_OK);
}

TEST(a_wounded_holder_may_let_go_in_peace)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *next;

        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 30000), &lock));
        CHECK_CODE(pawl_wound(lock), PAWL_OK);
        CHECK_CODE(pawl_check(lock), PAWL_WOUNDED);
        CHECK_CODE(pawl_renew(lock), PAWL_WOUNDED);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        MUST(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PATIENCE), &next));
        CHECK_CODE(pawl_release(next), PAWL_OK);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        CHECK_CODE(pawl_check(lock), PAWL_OK);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(pawl_wound(NULL), PAWL_INVALID);
}

TEST(a_lease_that_is_taken_up_keeps_its_token_and_shows_its_new_owner)
{
        static struct view view;
        const char *place = fresh_place();
        pawl_client *one = join_with(place, (struct pawl_open_options){.owner = "the giver"}),
                    *two = join_with(place, (struct pawl_open_options){.owner = "the taker"});
        char word[PAWL_LEASE_MAX + 1];
        pawl_lock *lock, *taken;
        uint64_t token;

        NEEDS(one, PAWL_CAN_DETACH | PAWL_CAN_INSPECT);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 30000, .flags = PAWL_DETACH), &lock));
        token = pawl_token(lock);
        MUST(pawl_lease(lock, word, sizeof word));
        CHECK_CODE(pawl_forget(lock), PAWL_OK);
        MUST(pawl_adopt(two, word, NULL, &taken));
        CHECK_UINT(pawl_token(taken), token);
        MUST(show(one, "a", &view));
        REQUIRE(line_of(&view, PAWL_ROLE_HOLDER, 0));
        CHECK_STR(line_of(&view, PAWL_ROLE_HOLDER, 0)->owner, "the taker");
        CHECK_UINT(line_of(&view, PAWL_ROLE_HOLDER, 0)->entry.token, token);
        CHECK_CODE(pawl_release(taken), PAWL_OK);
        CHECK(SOON(is_free(one, "a")));
}

TEST(a_detached_lease_can_be_renewed_as_others_are_also_by_who_takes_it_up)
{
        enum { TTL = 1000 };
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        char word[PAWL_LEASE_MAX + 1];
        pawl_lock *lock, *taken, *none;

        NEEDS(one, PAWL_CAN_DETACH);
        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.flags = PAWL_RENEW), &lock), PAWL_INVALID);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = TTL, .flags = PAWL_DETACH | PAWL_RENEW), &lock));
        nap(2 * TTL);
        REQUIRE_CODE(pawl_check(lock), PAWL_OK);
        MUST(pawl_lease(lock, word, sizeof word));
        MUST(pawl_adopt(two, word, PAWL_LOCK(.flags = PAWL_RENEW), &taken));
        CHECK_CODE(pawl_forget(lock), PAWL_OK);
        nap(2 * TTL);
        CHECK_CODE(pawl_check(taken), PAWL_OK);
        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
        CHECK_CODE(pawl_release(taken), PAWL_OK);
        CHECK(SOON(is_free(one, "a")));
}
