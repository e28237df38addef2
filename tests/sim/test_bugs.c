/* test_bugs.c - tests the tester: each bug of sim.h, switched on, must be found, and found soon. */
#include "sim.h"
#include "tap.h"

#define SEEDS 300

static bool is_found(enum bug bug)
{
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
                struct outcome outcome = run_seed(seed, bug, false);

                if (outcome.failed) {
                        NOTE("seed %llu: %s", (unsigned long long)seed, outcome.failure);
                        return true;
                }
        }
        NOTE("not found in %d seeds: %s", SEEDS, bug_text(bug));
        return false;
}

TEST(without_a_bug_nothing_is_found)
{
        CHECK(!run_seed(1, BUG_NONE, false).failed);
        CHECK(!run_seed(2, BUG_NONE, false).failed);
}

TEST(one_seed_is_one_history)
{
        for (uint64_t seed = 1; seed <= 5; seed++) {
                struct outcome one = run_seed(seed, BUG_NONE, false), two = run_seed(seed, BUG_NONE, false);

                CHECK_UINT(one.figures.steps, two.figures.steps);
                CHECK_UINT(one.figures.messages, two.figures.messages);
                CHECK_UINT(one.figures.writes, two.figures.writes);
        }
}

TEST(a_lease_counted_from_the_reply_is_found)
{
        CHECK(is_found(BUG_REPLY_TIME));
}

TEST(a_renewal_counted_from_its_reply_is_found)
{
        CHECK(is_found(BUG_RENEW_REPLY_TIME));
}

TEST(tokens_that_start_again_after_data_loss_are_found)
{
        CHECK(is_found(BUG_TOKEN_RESET));
}

TEST(tokens_numbered_in_the_queue_are_found)
{
        CHECK(is_found(BUG_TOKEN_AT_ENQUEUE));
}

TEST(a_release_without_an_owner_check_is_found)
{
        CHECK(is_found(BUG_BLIND_RELEASE));
}

TEST(a_lost_wake_up_is_found)
{
        CHECK(is_found(BUG_NO_RECHECK));
}

TEST(a_grant_used_without_confirmation_is_found)
{
        CHECK(is_found(BUG_UNCONFIRMED));
}

TEST(a_reused_uid_is_found)
{
        CHECK(is_found(BUG_REUSED_UID));
}

TEST(a_renewal_that_recreates_a_lock_is_found)
{
        CHECK(is_found(BUG_RENEW_RECREATES));
}

TEST(a_ghost_after_a_cancel_is_found)
{
        CHECK(is_found(BUG_NO_CANCEL));
}

TEST(a_request_executed_twice_is_found)
{
        CHECK(is_found(BUG_TWICE));
}

TEST(an_unfenced_resource_is_found)
{
        CHECK(is_found(BUG_UNFENCED));
}

TEST(reads_without_a_token_are_found)
{
        CHECK(is_found(BUG_READ_UNFENCED));
}

TEST(a_store_that_grants_at_once_after_data_loss_is_found)
{
        CHECK(is_found(BUG_NO_QUARANTINE));
}

TEST(a_release_told_before_it_was_confirmed_is_found)
{
        CHECK(is_found(BUG_RELEASE_UNCONFIRMED));
}

TEST(a_store_that_ends_leases_early_is_found)
{
        CHECK(is_found(BUG_EARLY_EXPIRY));
}

TEST(a_queue_in_the_wrong_order_is_found)
{
        CHECK(is_found(BUG_LAST_COME));
}

TEST(one_holder_too_many_is_found)
{
        CHECK(is_found(BUG_NO_LIMIT));
}

TEST(a_grant_that_waits_for_ever_to_be_confirmed_is_found)
{
        CHECK(is_found(BUG_NO_CONFIRM_LEASE));
}
