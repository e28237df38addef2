/* test_failures.c - promise 9 and what goes with it: death, lock-delay, break, ask. */
#include "contract.h"

#define DELAY_MS 700

TEST(a_killed_holder_makes_way_for_the_next)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);
        pawl_lock *lock;

        REQUIRE_CODE(ask_peer(peer, "acquire a 0 1000"), PAWL_OK);
        uint64_t first = peer_token(peer);
        kill_peer(peer);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PATIENCE), &lock));
        CHECK_COMPARE(pawl_token(lock), >, first);
}

/* A holder with a short lock-delay, as of pawl run, is killed; nobody requests the lock for a while. */
static int try_once_after(const char *place, const char *name, int64_t pause_ms)
{
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);
        int delay_ms = pawl_capabilities(one) & PAWL_CAN_DELAY ? 100 : 0;
        pawl_lock *lock;

        REQUIRE_CODE(ask_peer(peer, "acquire %s 0 1000 0 0 0 %d", name, delay_ms), PAWL_OK);
        kill_peer(peer);
        nap(pause_ms);
        return pawl_acquire(one, name, PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &lock);
}

TEST(long_after_a_holder_was_killed_the_first_try_succeeds)
{
        const char *place = fresh_place();
        static const char *const names[] = {"a", "b", "c", "d"}; /* a try that fails changes what the next one sees */
        int code = PAWL_BUSY, i = 0;

        /* Some stores count in seconds, and a busy machine is late: what is long enough is found out. */
        for (int64_t pause_ms = 2000; code == PAWL_BUSY && pause_ms <= 16000; pause_ms *= 2)
                code = try_once_after(place, names[i++], pause_ms);
        CHECK_CODE(code, PAWL_OK);
}

TEST(a_waiter_is_served_when_the_holder_is_killed)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);
        static struct seen seen;
        pawl_lock *lock;

        REQUIRE_CODE(ask_peer(peer, "acquire a 0 1000"), PAWL_OK);
        MUST(pawl_acquire_async(one, "a", NULL, see_granted, &seen, &lock));
        REQUIRE(queue_reaches(one, "a", 1));
        kill_peer(peer);
        CHECK(SOON(atomic_load(&seen.granted) == 1));
        CHECK_CODE(atomic_load(&seen.status), PAWL_OK);
}

TEST(where_death_is_seen_the_next_need_not_wait_for_the_ttl)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);
        static struct seen seen;
        pawl_lock *lock, *waiting;

        NEEDS(one, PAWL_SEES_DEATH);
        REQUIRE_CODE(ask_peer(peer, "acquire a 0 3600000"), PAWL_OK);
        kill_peer(peer);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PATIENCE), &lock));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        peer = start_peer(place);
        REQUIRE_CODE(ask_peer(peer, "acquire a 0 3600000"), PAWL_OK);
        MUST(pawl_acquire_async(one, "a", NULL, see_granted, &seen, &waiting));
        REQUIRE(queue_reaches(one, "a", 1));
        kill_peer(peer);
        CHECK(SOON(atomic_load(&seen.granted) == 1));
        CHECK_CODE(atomic_load(&seen.status), PAWL_OK);
}

TEST(a_process_that_exits_without_closing_makes_way_too)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);
        pawl_lock *lock;

        REQUIRE_CODE(ask_peer(peer, "acquire a 0 1000"), PAWL_OK);
        signal_peer(peer, 15);
        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PATIENCE), &lock), PAWL_OK);
}

/* ---- lock-delay ------------------------------------------------------------------------------------------------ */

TEST(a_clean_release_has_no_lock_delay)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_DELAY);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.delay_ms = 60000), &lock));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(is_free(two, "a"));
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.delay_ms = 60000), &lock));
        CHECK_CODE(leave(one), PAWL_OK);
        CHECK(is_free(two, "a"));
}

TEST(after_a_death_the_lock_delay_keeps_everyone_out)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_DELAY);
        REQUIRE_CODE(ask_peer(peer, "acquire a 0 500 0 0 0 %d", DELAY_MS), PAWL_OK);
        int64_t before = now_ms();
        kill_peer(peer);
        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &lock), PAWL_BUSY);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PATIENCE), &lock));
        CHECK_COMPARE(now_ms() - before, >=, DELAY_MS - 1);
}

TEST(after_an_expired_lease_the_lock_delay_keeps_everyone_out)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *next;

        NEEDS(one, PAWL_CAN_DELAY);
        int64_t before = now_ms();
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 300, .flags = PAWL_NO_RENEW, .delay_ms = DELAY_MS), &lock));
        MUST(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PATIENCE), &next));
        CHECK_COMPARE(now_ms() - before, >=, believable_ms(300) + DELAY_MS - 1);
        CHECK_CODE(pawl_release(lock), PAWL_LOST);
        CHECK_CODE(pawl_check(next), PAWL_OK);
}

TEST(after_a_break_the_lock_delay_keeps_everyone_out)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *next;

        NEEDS(one, PAWL_CAN_DELAY | PAWL_CAN_BREAK);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.delay_ms = DELAY_MS), &lock));
        int64_t before = now_ms();
        CHECK_CODE(break_it(two, "a"), PAWL_OK);
        MUST(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PATIENCE), &next));
        CHECK_COMPARE(now_ms() - before, >=, DELAY_MS - 1);
}

TEST(a_waiter_waits_for_the_lock_delay_and_is_then_served)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *lock, *waiting;

        NEEDS(one, PAWL_CAN_DELAY);
        int64_t before = now_ms();
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 200, .flags = PAWL_NO_RENEW, .delay_ms = DELAY_MS), &lock));
        MUST(pawl_acquire_async(two, "a", NULL, see_granted, &seen, &waiting));
        CHECK(SOON(atomic_load(&seen.granted) == 1));
        CHECK_COMPARE(now_ms() - before, >=, believable_ms(200) + DELAY_MS - 1);
        CHECK_CODE(atomic_load(&seen.status), PAWL_OK);
}

/* ---- break ----------------------------------------------------------------------------------------------------- */

TEST(a_broken_holder_learns_that_it_was_broken)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_BREAK);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 3000, .on_lost = see_lost, .arg = &seen), &lock));
        CHECK_CODE(break_it(two, "a"), PAWL_OK);
        CHECK(SOON(atomic_load(&seen.lost) == 1));
        CHECK_INT(atomic_load(&seen.reason), PAWL_REASON_BROKEN);
        CHECK_CODE(pawl_check(lock), PAWL_LOST);
        CHECK_INT(pawl_reason(lock), PAWL_REASON_BROKEN);
        CHECK(is_free(two, "a"));
        CHECK_CODE(pawl_release(lock), PAWL_LOST);
        CHECK_INT(atomic_load(&seen.lost), 1);
}

TEST(a_holder_in_another_process_learns_that_it_was_broken)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);

        NEEDS(one, PAWL_CAN_BREAK);
        REQUIRE_CODE(ask_peer(peer, "acquire a 0 3000"), PAWL_OK);
        CHECK_CODE(break_it(one, "a"), PAWL_OK);
        CHECK(SOON(ask_peer(peer, "lost") == 1));
        CHECK_CODE(ask_peer(peer, "check"), PAWL_LOST);
        CHECK_INT(ask_peer(peer, "reason"), PAWL_REASON_BROKEN);
        CHECK_CODE(ask_peer(peer, "release"), PAWL_LOST);
}

TEST(a_break_serves_the_first_in_the_queue)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *lock, *waiting;

        NEEDS(one, PAWL_CAN_BREAK);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        MUST(pawl_acquire_async(two, "a", NULL, see_granted, &seen, &waiting));
        REQUIRE(queue_reaches(one, "a", 1));
        CHECK_CODE(break_it(two, "a"), PAWL_OK);
        CHECK(SOON(atomic_load(&seen.granted) == 1));
        CHECK_COMPARE(pawl_token(waiting), >, pawl_token(lock));
        CHECK_CODE(pawl_release(lock), PAWL_LOST);
        CHECK_CODE(pawl_check(waiting), PAWL_OK);
}

TEST(a_break_cuts_off_every_shared_holder)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *locks[3];

        NEEDS(one, PAWL_CAN_BREAK | PAWL_CAN_SHARE);
        for (int i = 0; i < 3; i++)
                MUST(pawl_acquire(one, "a",
                                  PAWL_LOCK(.mode = PAWL_SHARED, .ttl_ms = 3000, .on_lost = see_lost, .arg = &seen),
                                  &locks[i]));
        CHECK_CODE(break_it(two, "a"), PAWL_OK);
        CHECK(is_free(two, "a"));
        CHECK(SOON(atomic_load(&seen.lost) == 3));
}

TEST(breaking_or_asking_for_a_free_lock_is_not_found)
{
        pawl_client *one = join(fresh_place());
        uint32_t can = pawl_capabilities(one);

        CHECK_CODE(break_it(one, "a"), can & PAWL_CAN_BREAK ? PAWL_NOT_FOUND : PAWL_UNSUPPORTED);
        CHECK_CODE(pawl_ask(one, "a"), can & PAWL_CAN_ASK ? PAWL_NOT_FOUND : PAWL_UNSUPPORTED);
        CHECK(is_free(one, "a"));
        CHECK_CODE(break_it(one, "a"), can & PAWL_CAN_BREAK ? PAWL_NOT_FOUND : PAWL_UNSUPPORTED);
        CHECK_CODE(break_it(one, ""), PAWL_INVALID);
}

/* ---- ask ------------------------------------------------------------------------------------------------------- */

TEST(a_holder_hears_that_another_one_asks)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_ASK);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 3000, .on_asked = see_asked, .arg = &seen), &lock));
        CHECK_INT(pawl_asked(lock), 0);
        CHECK_CODE(pawl_ask(two, "a"), PAWL_OK);
        CHECK(SOON(atomic_load(&seen.asked) >= 1));
        CHECK_INT(pawl_asked(lock), 1);
        CHECK_CODE(pawl_check(lock), PAWL_OK);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.on_asked = see_asked, .arg = &seen), &lock));
        CHECK_INT(pawl_asked(lock), 0); /* it was the holder before who was asked */
}

TEST(a_holder_in_another_process_hears_that_it_is_asked)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);

        NEEDS(one, PAWL_CAN_ASK);
        REQUIRE_CODE(ask_peer(peer, "acquire a 0 3000"), PAWL_OK);
        CHECK_CODE(pawl_ask(one, "a"), PAWL_OK);
        CHECK(SOON(ask_peer(peer, "asked") >= 1));
        CHECK_CODE(ask_peer(peer, "check"), PAWL_OK);
}
