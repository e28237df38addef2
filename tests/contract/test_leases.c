/* test_leases.c - promises 3, 4 and 5: how long a lease is believed, how a loss is told, how renewal keeps it. */
#include "contract.h"

#include <signal.h>

static int take_fixed(pawl_client *client, const char *name, int64_t ttl_ms, struct seen *seen, pawl_lock **lock)
{
        return pawl_acquire(client, name,
                            PAWL_LOCK(.ttl_ms = ttl_ms, .flags = PAWL_NO_RENEW, .wait_ms = PATIENCE,
                                      .on_lost = see_lost, .arg = seen),
                            lock);
}

TEST(a_lease_is_believed_for_99_percent_of_the_ttl_less_2_ms_at_most)
{
        static const int64_t ttls[] = {1000, 5000, 10000, 60000, 3600000};
        pawl_client *one = join(fresh_place());

        for (size_t i = 0; i < sizeof ttls / sizeof *ttls; i++) {
                pawl_lock *lock;
                MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = ttls[i]), &lock));
                CHECK_COMPARE(pawl_remaining_ms(lock), <=, believable_ms(ttls[i]));
                CHECK_COMPARE(pawl_remaining_ms(lock), >, 0);
                CHECK_CODE(pawl_release(lock), PAWL_OK);
        }
}

TEST(the_lease_is_counted_from_before_the_grant_and_only_shrinks_unless_renewed)
{
        pawl_client *one = join(fresh_place());
        static struct seen seen;
        pawl_lock *lock;

        MUST(take_fixed(one, "a", 5000, &seen, &lock));
        int64_t granted_at = now_ms();
        for (int i = 0; i < 10; i++) {
                nap(10);
                int64_t before = now_ms();
                /* a ms for the rounding of either clock reading */
                CHECK_COMPARE(pawl_remaining_ms(lock), <=, believable_ms(5000) - (before - granted_at) + 2);
        }
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

TEST(the_lease_of_a_waiter_is_counted_from_its_grant_not_from_its_wait)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *first, *second;

        MUST(take_fixed(one, "a", 600, &seen, &first));
        MUST(take_fixed(two, "a", 3000, &seen, &second));
        CHECK_COMPARE(pawl_remaining_ms(second), >, 0);
        CHECK_COMPARE(pawl_remaining_ms(second), <=, believable_ms(3000));
        CHECK_CODE(pawl_check(second), PAWL_OK);
        CHECK_CODE(pawl_check(first), PAWL_LOST);
}

TEST(a_lease_nobody_renews_is_lost_and_says_so_exactly_once)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *lock, *next;

        MUST(take_fixed(one, "a", 300, &seen, &lock));
        CHECK(SOON(atomic_load(&seen.lost) == 1));
        CHECK_INT(atomic_load(&seen.reason), PAWL_REASON_EXPIRED);
        CHECK_CODE(pawl_check(lock), PAWL_LOST);
        CHECK_INT(pawl_state(lock), PAWL_GONE);
        CHECK_INT(pawl_reason(lock), PAWL_REASON_EXPIRED);
        CHECK_INT(pawl_remaining_ms(lock), 0);
        MUST(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PATIENCE), &next));
        CHECK_CODE(pawl_check(lock), PAWL_LOST);
        CHECK_CODE(pawl_release(lock), PAWL_LOST);
        nap(100);
        CHECK_INT(atomic_load(&seen.lost), 1);
        CHECK_CODE(pawl_check(next), PAWL_OK);
}

TEST(a_lease_is_lost_by_our_own_clock_before_another_can_have_the_lock)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *lock, *next;

        for (int i = 0; i < 3; i++) {
                MUST(take_fixed(one, "a", 200, &seen, &lock));
                MUST(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PATIENCE), &next));
                CHECK_CODE(pawl_check(lock), PAWL_LOST);
                CHECK_CODE(pawl_release(next), PAWL_OK);
                CHECK_CODE(pawl_release(lock), PAWL_LOST);
        }
}

TEST(check_tells_the_loss_also_if_nothing_else_ran)
{
        pawl_client *one = join(fresh_place());
        pawl_lock *lock;

        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 100, .flags = PAWL_NO_RENEW), &lock));
        nap(150);
        CHECK_CODE(pawl_check(lock), PAWL_LOST);
        CHECK_CODE(pawl_release(lock), PAWL_LOST);
}

TEST(releasing_what_is_lost_leaves_the_next_holder_alone)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *lock, *next, *none;

        MUST(take_fixed(one, "a", 200, &seen, &lock));
        MUST(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PATIENCE), &next));
        CHECK_CODE(pawl_release(lock), PAWL_LOST);
        CHECK_CODE(pawl_check(next), PAWL_OK);
        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
        CHECK_CODE(pawl_release(next), PAWL_OK);
}

TEST(a_renewed_lease_outlives_its_ttl_several_times)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        struct pawl_stats stats = {.size = sizeof stats};
        pawl_lock *lock, *none;

        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 2500, .on_lost = see_lost, .arg = &seen), &lock));
        for (int i = 0; i < 7; i++) { /* on a busy machine the store and we sleep for a second now and then */
                nap(1250);
                CHECK_CODE(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
                CHECK_CODE(pawl_check(lock), PAWL_OK);
                CHECK_COMPARE(pawl_remaining_ms(lock), <=, believable_ms(2500));
        }
        CHECK_CODE(pawl_stats(one, &stats), PAWL_OK);
        CHECK_COMPARE(stats.renewals, >=, 3);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_INT(atomic_load(&seen.lost), 0);
}

TEST(one_lost_lock_does_not_stop_the_renewal_of_the_others)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *kept[8], *broken;
        char name[8];

        NEEDS(one, PAWL_CAN_BREAK);
        for (int i = 0; i < 8; i++) {
                snprintf(name, sizeof name, "k%d", i);
                MUST(pawl_acquire(one, name, PAWL_LOCK(.ttl_ms = 4000), &kept[i]));
        }
        MUST(pawl_acquire(one, "b", PAWL_LOCK(.ttl_ms = 4000, .on_lost = see_lost, .arg = &seen), &broken));
        CHECK_CODE(break_it(two, "b"), PAWL_OK);
        nap(6000);
        CHECK_INT(atomic_load(&seen.lost), 1);
        for (int i = 0; i < 8; i++)
                CHECK_CODE(pawl_check(kept[i]), PAWL_OK);
}

TEST(renew_extends_a_fixed_lease)
{
        pawl_client *one = join(fresh_place());
        static struct seen seen;
        pawl_lock *lock;

        MUST(take_fixed(one, "a", 2000, &seen, &lock));
        for (int i = 0; i < 4; i++) {
                nap(700);
                int64_t before = pawl_remaining_ms(lock);
                CHECK_CODE(pawl_renew(lock), PAWL_OK);
                CHECK_COMPARE(pawl_remaining_ms(lock), >, before);
                CHECK_COMPARE(pawl_remaining_ms(lock), <=, believable_ms(2000));
        }
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_INT(atomic_load(&seen.lost), 0);
}

TEST(a_lost_lease_is_never_resurrected)
{
        pawl_client *one = join(fresh_place());
        static struct seen seen;
        pawl_lock *lock;

        MUST(take_fixed(one, "a", 150, &seen, &lock));
        nap(200);
        CHECK_CODE(pawl_renew(lock), PAWL_LOST);
        CHECK_CODE(pawl_check(lock), PAWL_LOST);
        CHECK_INT(pawl_remaining_ms(lock), 0);
        CHECK(is_free(one, "a"));
        CHECK_CODE(pawl_check(lock), PAWL_LOST);
        CHECK(SOON(atomic_load(&seen.lost) == 1));
        CHECK_CODE(pawl_release(lock), PAWL_LOST);
}

TEST(a_process_stopped_past_its_lease_finds_it_lost_first_thing)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);
        pawl_lock *lock;

        REQUIRE_CODE(ask_peer(peer, "acquire a 0 600"), PAWL_OK);
        uint64_t first = peer_token(peer);
        signal_peer(peer, SIGSTOP);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PATIENCE), &lock));
        CHECK_COMPARE(pawl_token(lock), >, first);
        tell_peer(peer, "check");
        signal_peer(peer, SIGCONT);
        CHECK_CODE(hear_peer(peer), PAWL_LOST);
        CHECK(SOON(ask_peer(peer, "lost") == 1));
        CHECK_INT(ask_peer(peer, "state"), PAWL_GONE);
        CHECK_CODE(ask_peer(peer, "release"), PAWL_LOST);
        CHECK_INT(ask_peer(peer, "lost"), 1);
        CHECK_CODE(pawl_check(lock), PAWL_OK);
}

TEST(no_renewal_follows_a_release)
{
        enum { LOCKS = 16 };
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *next[LOCKS];
        char name[8];

        /* released around the moment at which each is renewed */
        for (int i = 0; i < LOCKS; i++) {
                snprintf(name, sizeof name, "n%d", i);
                MUST(pawl_acquire(one, name, PAWL_LOCK(.ttl_ms = 300), &lock));
                nap(92 + i);
                int code = pawl_release(lock);
                CHECK(code == PAWL_OK || code == PAWL_LOST ||
                      code == PAWL_IN_DOUBT); /* if this machine slept for 200 ms */
                MUST(pawl_acquire(two, name, PAWL_LOCK(.wait_ms = PATIENCE), &next[i]));
        }
        nap(200);
        for (int i = 0; i < LOCKS; i++) {
                CHECK_CODE(pawl_check(next[i]), PAWL_OK);
                CHECK_CODE(pawl_release(next[i]), PAWL_OK);
        }
        for (int i = 0; i < LOCKS; i++) {
                snprintf(name, sizeof name, "n%d", i);
                CHECK(is_free(one, name));
        }
}

TEST(the_clients_ttl_is_the_default_of_its_locks)
{
        const char *place = fresh_place();
        pawl_client *one = join_with(place, (struct pawl_open_options){.ttl_ms = 3000});
        pawl_client *two = join(place);
        pawl_lock *lock;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        CHECK_COMPARE(pawl_remaining_ms(lock), <=, believable_ms(3000));
        CHECK_COMPARE(pawl_remaining_ms(lock), >, 500);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        MUST(pawl_acquire(two, "a", NULL, &lock));
        CHECK_COMPARE(pawl_remaining_ms(lock), <=, believable_ms(10000));
        CHECK_COMPARE(pawl_remaining_ms(lock), >, 3000);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}
