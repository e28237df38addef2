/* test_lease.c - the core's pure parts: the arithmetic of leases, and which moves of a lock are allowed. */
#include <string.h>

#include "core/core.h"
#include "core/lease.h"
#include "tap.h"

TEST(the_allowance_is_one_percent_and_two_milliseconds)
{
        CHECK_INT(lease_allowance(10 * SECOND), 102 * MS);
        CHECK_INT(lease_allowance(50 * MS), 2 * MS + MS / 2);
}

TEST(a_lease_ends_before_the_stores_does_whatever_the_clocks_rates_within_one_percent)
{
        for (int64_t ttl = LEASE_TTL_MIN; ttl < LEASE_TTL_MAX / 2; ttl *= 3) {
                int64_t believed = lease_end(0, ttl);

                CHECK(believed < ttl);
                CHECK(believed > ttl / 10 * 9);
                /* our clock slow by one percent: the believed time takes longer than it should */
                CHECK(believed + believed / 100 <= ttl);
        }
}

TEST(a_lease_counts_from_when_it_was_sent)
{
        CHECK_INT(lease_end(7 * SECOND, SECOND) - lease_end(0, SECOND), 7 * SECOND);
        CHECK_INT(lease_renew_at(7 * SECOND, 3 * SECOND), 8 * SECOND);
}

TEST(a_lease_is_renewed_then_doubted_then_lost)
{
        for (int64_t ttl = LEASE_TTL_MIN; ttl < LEASE_TTL_MAX / 2; ttl *= 7) {
                CHECK(lease_renew_at(0, ttl) < lease_doubt_at(0, ttl));
                CHECK(lease_doubt_at(0, ttl) < lease_end(0, ttl));
                CHECK(lease_retry_after(ttl) > 0);
                CHECK(lease_renew_at(0, ttl) + lease_retry_after(ttl) < lease_end(0, ttl));
        }
}

TEST(ttls_have_a_least_and_a_greatest)
{
        CHECK(lease_ttl_valid(LEASE_TTL_MIN) && lease_ttl_valid(LEASE_TTL_MAX));
        CHECK(!lease_ttl_valid(LEASE_TTL_MIN - 1) && !lease_ttl_valid(LEASE_TTL_MAX + 1));
        CHECK(!lease_ttl_valid(0) && !lease_ttl_valid(-1) && !lease_ttl_valid(INT64_MIN) &&
              !lease_ttl_valid(INT64_MAX));
}

TEST(the_ttl_for_some_work_is_twice_all_of_it_and_saturates)
{
        CHECK_INT(lease_ttl_for(5000, 100, 50), 10300);
        CHECK_INT(lease_ttl_for(INT64_MAX, 1, 1), INT64_MAX);
        CHECK_INT(lease_ttl_for(INT64_MAX / 2, 1, 1), INT64_MAX);
}

/* Row: from, column: to. F W H U R L X O = free waiting held uncertain releasing lost refused over. */
TEST(a_lock_moves_only_as_the_picture_says)
{
        static const char *const allowed[LOCK_STATES] = {
                [LOCK_FREE] = ".WH.....",      [LOCK_WAITING] = "..H...X.",   [LOCK_HELD] = "...URL.O",
                [LOCK_UNCERTAIN] = "..H.RL.O", [LOCK_RELEASING] = ".......O", [LOCK_LOST] = ".......O",
                [LOCK_REFUSED] = ".......O",   [LOCK_OVER] = "F.......",
        };

        for (unsigned from = 0; from < LOCK_STATES; from++)
                for (unsigned to = 0; to < LOCK_STATES; to++)
                        CHECK_INT(core_moves(from, to), allowed[from][to] != '.');
        CHECK(!core_moves(LOCK_STATES, LOCK_FREE) && !core_moves(LOCK_FREE, LOCK_STATES));
}
