/* test_held.c - promise 1: PAWL_OK from acquire means held; and what release makes of it (promise 6). */
#include "contract.h"

TEST(acquire_means_held_and_another_client_is_told_busy)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *none;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        CHECK_CODE(pawl_check(lock), PAWL_OK);
        CHECK_INT(pawl_state(lock), PAWL_HELD);
        CHECK_INT(pawl_reason(lock), PAWL_REASON_NONE);
        CHECK_STR(pawl_name(lock), "a");
        CHECK_CODE(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
        CHECK_CODE(pawl_check(lock), PAWL_OK);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

TEST(a_released_lock_is_free_at_once_for_another_client)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock;

        for (int i = 0; i < 50; i++) {
                MUST(pawl_acquire(one, "a", NULL, &lock));
                REQUIRE_CODE(pawl_release(lock), PAWL_OK);
                REQUIRE(is_free(two, "a"));
        }
}

TEST(two_claims_of_one_client_are_two_owners)
{
        pawl_client *one = join(fresh_place());
        pawl_lock *lock, *none;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(is_free(one, "a"));
}

TEST(another_process_is_told_busy_and_gets_the_lock_after_the_release)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);
        pawl_lock *lock, *none;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        CHECK_CODE(ask_peer(peer, "acquire a -1 0"), PAWL_BUSY);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(ask_peer(peer, "acquire a -1 0"), PAWL_OK);
        CHECK_CODE(ask_peer(peer, "check"), PAWL_OK);
        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
        CHECK_CODE(ask_peer(peer, "release"), PAWL_OK);
        CHECK(is_free(one, "a"));
}

TEST(a_waiting_process_gets_the_lock_from_the_release)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);
        pawl_lock *lock;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        tell_peer(peer, "acquire a %d 0", PATIENCE);
        REQUIRE(queue_reaches(one, "a", 1));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(hear_peer(peer), PAWL_OK);
        CHECK_CODE(ask_peer(peer, "check"), PAWL_OK);
}

TEST(locks_of_different_names_do_not_meet)
{
        pawl_client *one = join(fresh_place());
        pawl_lock *locks[100];
        char name[16];

        for (int i = 0; i < 100; i++) {
                snprintf(name, sizeof name, "name-%d", i);
                MUST(pawl_acquire(one, name, PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &locks[i]));
        }
        for (int i = 0; i < 100; i++)
                CHECK_CODE(pawl_release(locks[i]), PAWL_OK);
}

TEST(the_handle_is_written_only_when_the_lock_is_held)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        pawl_lock *lock, *untouched = (pawl_lock *)&lock;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &untouched), PAWL_BUSY);
        CHECK(untouched == (pawl_lock *)&lock);
        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = 500), &untouched), PAWL_TIMEOUT);
        CHECK(untouched == (pawl_lock *)&lock);
        CHECK_CODE(pawl_acquire(one, "", NULL, &untouched), PAWL_INVALID);
        CHECK(untouched == (pawl_lock *)&lock);
}

TEST(a_handle_released_twice_is_misuse)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        pawl_lock *lock;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(pawl_release(lock), PAWL_MISUSE);
        CHECK(is_free(one, "a"));
}

TEST(releasing_a_stale_handle_leaves_the_next_holder_alone)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *stale, *lock, *none;

        MUST(pawl_acquire(one, "a", NULL, &stale));
        CHECK_CODE(pawl_release(stale), PAWL_OK);
        MUST(pawl_acquire(two, "a", NULL, &lock));
        CHECK_CODE(pawl_release(stale), PAWL_MISUSE);
        CHECK_CODE(pawl_check(lock), PAWL_OK);
        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
}

TEST(releasing_and_closing_nothing_is_fine)
{
        CHECK_CODE(pawl_release(NULL), PAWL_OK);
        CHECK_CODE(pawl_close(NULL), PAWL_OK);
}

TEST(release_async_frees_the_lock_and_tells_once)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *lock;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        CHECK_CODE(pawl_release_async(lock, see_released, &seen), PAWL_OK);
        CHECK(SOON(atomic_load(&seen.released) == 1));
        CHECK_CODE(atomic_load(&seen.release_status), PAWL_OK);
        CHECK(is_free(two, "a"));
        MUST(pawl_acquire(one, "a", NULL, &lock));
        CHECK_CODE(pawl_release_async(lock, NULL, NULL), PAWL_OK);
        CHECK(SOON(is_free(two, "a")));
        CHECK_INT(atomic_load(&seen.released), 1);
}
