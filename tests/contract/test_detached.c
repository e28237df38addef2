/* test_detached.c - leases that outlive the handle and the process, as one word. */
#include "contract.h"

TEST(a_detached_lock_outlives_its_handle_and_client)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *none;

        NEEDS(one, PAWL_CAN_DETACH);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 30000, .flags = PAWL_DETACH), &lock));
        CHECK_CODE(pawl_forget(lock), PAWL_OK);
        CHECK_CODE(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
        CHECK_CODE(leave(one), PAWL_OK);
        CHECK_CODE(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
}

/* It is told of its grant in more than one way, and what comes late must not end a lock whose handle is gone. */
TEST(a_detached_lock_that_was_waited_for_outlives_its_handle)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *none;

        NEEDS(one, PAWL_CAN_DETACH);
        MUST(pawl_acquire(two, "a", PAWL_LOCK(.ttl_ms = 100, .flags = PAWL_DETACH), &lock));
        CHECK_CODE(pawl_forget(lock), PAWL_OK);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PATIENCE, .ttl_ms = 30000, .flags = PAWL_DETACH), &lock));
        CHECK_CODE(pawl_forget(lock), PAWL_OK);
        nap(100);
        CHECK_CODE(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
}

/* Waits for a lock longer than the lease is, puts it down and takes it up again. False: the machine was away for so long
 * that the lease may have run out meanwhile. */
static bool wait_and_take_up(pawl_client *one, pawl_client *two)
{
        enum { TTL = 1000 };
        struct seen seen = {0};
        char word[PAWL_LEASE_MAX + 1];
        pawl_lock *before, *lock, *again;
        int64_t until;
        int code;

        MUST(pawl_acquire(two, "a", NULL, &before));
        MUST(pawl_acquire_async(one, "a", PAWL_LOCK(.ttl_ms = TTL, .flags = PAWL_DETACH), see_granted, &seen, &lock));
        nap(TTL + 100);
        CHECK_INT(atomic_load(&seen.granted), 0);
        CHECK_CODE(pawl_release(before), PAWL_OK);
        REQUIRE(SOON(atomic_load(&seen.granted) == 1));
        REQUIRE_CODE(atomic_load(&seen.status), PAWL_OK);
        MUST(pawl_lease(lock, word, sizeof word));
        until = now_ms() + pawl_remaining_ms(lock);
        CHECK_CODE(pawl_forget(lock), PAWL_OK);
        code = pawl_adopt(one, word, NULL, &again);
        if (now_ms() >= until) {
                if (code == PAWL_OK)
                        pawl_release(again);
                return false;
        }
        REQUIRE_CODE(code, PAWL_OK);
        CHECK_CODE(pawl_check(again), PAWL_OK);
        CHECK_CODE(pawl_release(again), PAWL_OK);
        return true;
}

/* Somebody who takes it up must not find it over, or even free, because its claim is as old as its wait. */
TEST(a_lease_counts_from_its_grant_and_not_from_when_it_was_asked_for)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        bool judged = false;

        NEEDS(one, PAWL_CAN_DETACH);
        for (int round = 0; round < 5 && !judged; round++)
                judged = wait_and_take_up(one, two);
        CHECK(judged);
}

/* Its client knows who waits behind it, and must not take its handle's end for its own. */
TEST(a_detached_lock_that_is_put_down_keeps_others_of_its_client_waiting)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct seen seen = {0};
        char word[PAWL_LEASE_MAX + 1];
        pawl_lock *lock, *claim;

        NEEDS(one, PAWL_CAN_DETACH);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 30000, .flags = PAWL_DETACH), &lock));
        MUST(pawl_lease(lock, word, sizeof word));
        MUST(pawl_acquire_async(one, "a", NULL, see_granted, &seen, &claim));
        REQUIRE(queue_reaches(one, "a", 1));
        CHECK_CODE(pawl_forget(lock), PAWL_OK);
        nap(300);
        CHECK_INT(atomic_load(&seen.granted), 0);
        MUST(pawl_adopt(one, word, NULL, &lock));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(SOON(atomic_load(&seen.granted) == 1));
        CHECK_CODE(atomic_load(&seen.status), PAWL_OK);
        CHECK_CODE(pawl_release(claim), PAWL_OK);
}

/* Who waits in the same client does not wait for the other handle. */
TEST(a_lease_with_two_handles_in_one_client_is_free_when_one_gives_it_back)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct seen seen = {0};
        char word[PAWL_LEASE_MAX + 1];
        pawl_lock *first, *second, *claim;

        NEEDS(one, PAWL_CAN_DETACH);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 60000, .flags = PAWL_DETACH), &first));
        MUST(pawl_lease(first, word, sizeof word));
        MUST(pawl_adopt(one, word, NULL, &second));
        CHECK_UINT(pawl_token(second), pawl_token(first));
        MUST(pawl_acquire_async(one, "a", NULL, see_granted, &seen, &claim));
        REQUIRE(queue_reaches(one, "a", 1));
        CHECK_CODE(pawl_release(first), PAWL_OK);
        CHECK(SOON(atomic_load(&seen.granted) == 1));
        CHECK_CODE(atomic_load(&seen.status), PAWL_OK);
        CHECK_CODE(pawl_check(claim), PAWL_OK);
        CHECK_CODE(pawl_release(claim), PAWL_OK);
}

TEST(a_detached_lock_outlives_the_death_of_its_process_and_ends_with_its_ttl)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_DETACH);
        int64_t before = now_ms();
        REQUIRE_CODE(ask_peer(peer, "acquire a 0 1500 %u", (unsigned)PAWL_DETACH), PAWL_OK);
        kill_peer(peer);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PATIENCE), &lock));
        CHECK_COMPARE(now_ms() - before, >=, believable_ms(1500) - 1);
}

TEST(a_lease_is_taken_up_renewed_and_released_by_another_process)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);
        char word[PAWL_LEASE_MAX + 1];
        pawl_lock *lock, *none;

        NEEDS(one, PAWL_CAN_DETACH);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 20000, .flags = PAWL_DETACH), &lock));
        MUST(pawl_lease(lock, word, sizeof word));
        CHECK(strlen(word) > 0 && !strpbrk(word, " \t\n"));
        uint64_t token = pawl_token(lock);
        CHECK_CODE(pawl_forget(lock), PAWL_OK);
        REQUIRE_CODE(ask_peer(peer, "adopt %s", word), PAWL_OK);
        CHECK_UINT(peer_token(peer), token);
        CHECK_CODE(ask_peer(peer, "check"), PAWL_OK);
        nap(300);
        long before = ask_peer(peer, "remaining");
        CHECK_CODE(ask_peer(peer, "renew"), PAWL_OK);
        CHECK_COMPARE(ask_peer(peer, "remaining"), >, before);
        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
        CHECK_CODE(ask_peer(peer, "release"), PAWL_OK);
        CHECK(is_free(one, "a"));
}

TEST(an_adopted_lease_can_be_put_down_again)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        char word[PAWL_LEASE_MAX + 1];
        pawl_lock *lock, *none;

        NEEDS(one, PAWL_CAN_DETACH);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 20000, .flags = PAWL_DETACH), &lock));
        MUST(pawl_lease(lock, word, sizeof word));
        CHECK_CODE(pawl_forget(lock), PAWL_OK);
        for (int i = 0; i < 3; i++) {
                MUST(pawl_adopt(two, word, NULL, &lock));
                CHECK_STR(pawl_name(lock), "a");
                CHECK_CODE(pawl_forget(lock), PAWL_OK);
        }
        CHECK_CODE(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
        MUST(pawl_adopt(two, word, NULL, &lock));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(is_free(one, "a"));
        CHECK_CODE(pawl_adopt(two, word, NULL, &none), PAWL_LOST);
}

TEST(history_has_who_took_a_lease_not_who_gave_it_back)
{
        const char *place = fresh_place();
        pawl_client *one = join_with(place, (struct pawl_open_options){.owner = "the maker"});
        pawl_client *two = join_with(place, (struct pawl_open_options){.owner = "the messenger"});
        char word[PAWL_LEASE_MAX + 1];
        struct view view;
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_DETACH | PAWL_CAN_INSPECT | PAWL_CAN_HISTORY);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 20000, .flags = PAWL_DETACH), &lock));
        MUST(pawl_lease(lock, word, sizeof word));
        CHECK_CODE(pawl_forget(lock), PAWL_OK);
        MUST(pawl_adopt(two, word, NULL, &lock));
        uint64_t token = pawl_token(lock);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        REQUIRE_CODE(show(two, "a", &view), PAWL_OK);
        const struct line *past = line_of(&view, PAWL_ROLE_PAST, 0);
        REQUIRE(past);
        CHECK_STR(past->owner, "the maker");
        CHECK_UINT(past->entry.token, token);
        CHECK_UINT(past->entry.how, PAWL_HOW_RELEASED);
        MUST(pawl_acquire(two, "a", NULL, &lock));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        REQUIRE_CODE(show(two, "a", &view), PAWL_OK);
        REQUIRE(line_of(&view, PAWL_ROLE_PAST, 1));
        CHECK_STR(line_of(&view, PAWL_ROLE_PAST, 0)->owner, "the messenger");
        CHECK_STR(line_of(&view, PAWL_ROLE_PAST, 1)->owner, "the maker");
}

TEST(an_expired_lease_cannot_be_taken_up)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        char word[PAWL_LEASE_MAX + 1];
        pawl_lock *lock, *next, *none;

        NEEDS(one, PAWL_CAN_DETACH);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 1500, .flags = PAWL_DETACH), &lock));
        MUST(pawl_lease(lock, word, sizeof word));
        CHECK_CODE(pawl_forget(lock), PAWL_OK);
        MUST(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PATIENCE), &next));
        CHECK_CODE(pawl_adopt(one, word, NULL, &none), PAWL_LOST);
        CHECK_CODE(pawl_check(next), PAWL_OK);
        CHECK_CODE(pawl_release(next), PAWL_OK);
        CHECK_CODE(pawl_adopt(one, word, NULL, &none), PAWL_LOST);
}

/* In the last moments the store still knows a lease that may not be believed any more: that is a lease that ran out. */
TEST(a_lease_taken_up_at_its_end_is_there_or_lost)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        pawl_lock *lock;
        char word[PAWL_LEASE_MAX + 1];

        NEEDS(one, PAWL_CAN_DETACH);
        for (int round = 0; round < 5; round++) {
                MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 300, .flags = PAWL_DETACH, .wait_ms = PATIENCE),
                                  &lock));
                MUST(pawl_lease(lock, word, sizeof word));
                int64_t until = now_ms() + PATIENCE, left = pawl_remaining_ms(lock);
                CHECK_CODE(pawl_forget(lock), PAWL_OK);
                nap(left - 10);
                int code = PAWL_OK;
                while (code == PAWL_OK && now_ms() < until) {
                        code = pawl_adopt(one, word, NULL, &lock);
                        if (code == PAWL_OK)
                                CHECK_CODE(pawl_forget(lock), PAWL_OK);
                }
                CHECK_CODE(code, PAWL_LOST);
        }
        CHECK(SOON(is_free(one, "a")));
}

/* A word that is nearly right must not open the lock: no letter of it is idle. */
TEST(no_changed_word_takes_the_lease_up)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        char word[PAWL_LEASE_MAX + 1], wrong[PAWL_LEASE_MAX + 1];
        pawl_lock *lock, *none;

        NEEDS(one, PAWL_CAN_DETACH);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 60000, .flags = PAWL_DETACH), &lock));
        MUST(pawl_lease(lock, word, sizeof word));
        for (size_t i = 0; i < strlen(word); i++) {
                snprintf(wrong, sizeof wrong, "%s", word);
                wrong[i] = wrong[i] == '1' ? '2' : '1';
                int code = pawl_adopt(one, wrong, NULL, &none);
                if (!CHECK(code == PAWL_INVALID || code == PAWL_LOST || code == PAWL_NOT_FOUND))
                        NOTE("byte %zu of %s changed: %s", i, word, pawl_error_name(code));
        }
        CHECK_CODE(pawl_check(lock), PAWL_OK);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

TEST(what_is_no_lease_word_is_refused)
{
        static const char *const words[] = {"",     "x",  "1",   "a b",        "../../etc/passwd",
                                            "::::", "\n", "%00", "caf\xc3\xa9"};
        pawl_client *one = join(fresh_place());
        char big[4096];
        pawl_lock *none;

        NEEDS(one, PAWL_CAN_DETACH);
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
                CHECK_CODE(pawl_adopt(one, words[i], NULL, &none), PAWL_INVALID);
        memset(big, 'a', sizeof big - 1);
        big[sizeof big - 1] = '\0';
        CHECK_CODE(pawl_adopt(one, big, NULL, &none), PAWL_INVALID);
        CHECK_CODE(pawl_adopt(one, NULL, NULL, &none), PAWL_INVALID);
}

TEST(only_detached_locks_have_a_lease_word_and_can_be_forgotten)
{
        pawl_client *one = join(fresh_place());
        char word[PAWL_LEASE_MAX + 1], small[2];
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_DETACH);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        CHECK_CODE(pawl_lease(lock, word, sizeof word), PAWL_MISUSE);
        CHECK_CODE(pawl_forget(lock), PAWL_MISUSE);
        CHECK_CODE(pawl_check(lock), PAWL_OK);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.flags = PAWL_DETACH), &lock));
        CHECK_CODE(pawl_lease(lock, small, sizeof small), PAWL_INVALID);
        CHECK_CODE(pawl_lease(lock, NULL, 0), PAWL_INVALID);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

TEST(every_lease_has_a_word_of_its_own)
{
        enum { WORDS = 50 };
        pawl_client *one = join(fresh_place());
        char words[WORDS][PAWL_LEASE_MAX + 1];
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_DETACH);
        for (int i = 0; i < WORDS; i++) {
                MUST(pawl_acquire(one, "a", PAWL_LOCK(.flags = PAWL_DETACH), &lock));
                MUST(pawl_lease(lock, words[i], sizeof words[i]));
                CHECK_CODE(pawl_release(lock), PAWL_OK);
                for (int k = 0; k < i; k++)
                        REQUIRE(strcmp(words[i], words[k]));
        }
}

TEST(a_detached_lock_is_shown_as_such)
{
        pawl_client *one = join(fresh_place());
        struct view view;
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_DETACH | PAWL_CAN_INSPECT);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 20000, .flags = PAWL_DETACH), &lock));
        CHECK_CODE(show(one, "a", &view), PAWL_OK);
        REQUIRE(line_of(&view, PAWL_ROLE_HOLDER, 0));
        CHECK(line_of(&view, PAWL_ROLE_HOLDER, 0)->entry.flags & PAWL_DETACH);
}
