/* lease_test.c - the arithmetic of leases and the table of moves. */
#include "core/core.h"
#include "core/lease.h"
#include "tap.h"

TEST(a_lease_ends_before_the_store_would_end_it)
{
        CHECK_INT(lease_end(1000 * SECOND, 10 * SECOND), 1010 * SECOND - 100 * MS - 2 * MS);
        for (int64_t ttl = LEASE_TTL_MIN; ttl < 1000 * SECOND; ttl += 777 * MS) {
                CHECK(lease_end(0, ttl) < ttl);
                CHECK(lease_end(0, ttl) > ttl / 2);
        }
}

TEST(a_renewal_is_due_before_doubt_and_doubt_before_the_end)
{
        for (int64_t ttl = LEASE_TTL_MIN; ttl < 1000 * SECOND; ttl += 333 * MS) {
                CHECK(lease_renew_at(0, ttl) < lease_doubt_at(0, ttl));
                CHECK(lease_doubt_at(0, ttl) < lease_end(0, ttl));
                CHECK(lease_doubt_at(0, ttl) + lease_retry_after(ttl) < lease_end(0, ttl));
        }
}

TEST(the_longest_ttl_does_not_overflow)
{
        CHECK(lease_end(INT64_MAX / 4, LEASE_TTL_MAX) > 0);
        CHECK(lease_ttl_valid(LEASE_TTL_MAX));
        CHECK(!lease_ttl_valid(LEASE_TTL_MAX + 1));
        CHECK(!lease_ttl_valid(LEASE_TTL_MIN - 1));
}

TEST(the_formula_for_a_ttl_is_twice_the_sum_and_saturates)
{
        CHECK_INT(lease_ttl_for(5000, 100, 50), 10300);
        CHECK_INT(lease_ttl_for(INT64_MAX, 1, 1), INT64_MAX);
        CHECK_INT(lease_ttl_for(INT64_MAX / 2, 1, 1), INT64_MAX);
}

TEST(nothing_leads_back_to_a_lock_that_was_lost)
{
        for (int to = 0; to < LOCK_STATES; to++) {
                CHECK(core_moves(LOCK_LOST, to) == (to == LOCK_OVER));
                CHECK(core_moves(LOCK_OVER, to) == (to == LOCK_FREE));
                CHECK(core_moves(to, LOCK_WAITING) == (to == LOCK_FREE));
        }
        CHECK(!core_moves(LOCK_STATES, LOCK_FREE));
}
