/* test_term.c - a lease on a longer term: never believed beyond the term, and renewed without a message if there is
 * room. */
#include "core/lease.h"
#include "engine/session/term.h"
#include "tap.h"

static const int64_t lengths[] = {50 * MS,     400 * MS,        2 * SECOND,   4 * SECOND,
                                  10 * SECOND, 61 * SECOND + 7, LEASE_TTL_MAX};

TEST(no_lease_on_a_term_is_believed_as_long_as_the_term_lasts)
{
        static const int64_t later[] = {0, 1, MS, 100 * MS, SECOND, 3 * SECOND, 60 * SECOND, LEASE_TTL_MAX};
        size_t count = sizeof(lengths) / sizeof(lengths[0]);

        for (size_t i = 0; i < count * count * (sizeof(later) / sizeof(later[0])); i++) {
                struct term_time time = {.extended_at = 5 * SECOND, .length = lengths[i % count]};
                int64_t ttl = lengths[i / count % count], now = time.extended_at + later[i / count / count];
                int64_t from = term_counts_from(&time, now, ttl);
                CHECK(from <= now);
                CHECK(lease_end(from, ttl) <= time.extended_at + time.length - 2 * MS);
                /* And the hundredth for clocks that run at different rates is taken off the whole of it. */
                if (time.length >= ttl)
                        CHECK(lease_end(from, ttl) <= lease_end(time.extended_at, time.length) + 1);
        }
}

TEST(a_lease_much_shorter_than_its_term_counts_from_now)
{
        struct term_time time = {.extended_at = 5 * SECOND, .length = 10 * SECOND};

        CHECK_INT(term_counts_from(&time, 7 * SECOND, 2 * SECOND), 7 * SECOND);
        CHECK(term_has_room(&time, 7 * SECOND, 2 * SECOND));
        CHECK(term_counts_from(&time, 14 * SECOND, 2 * SECOND) < 14 * SECOND);
        CHECK(!term_has_room(&time, 14 * SECOND, 2 * SECOND));
}

TEST(a_lease_as_long_as_its_term_counts_from_when_the_term_was_extended)
{
        struct term_time time = {.extended_at = 5 * SECOND, .length = 4 * SECOND};

        CHECK_INT(term_counts_from(&time, 5 * SECOND, 4 * SECOND), 5 * SECOND);
        CHECK_INT(term_counts_from(&time, 8 * SECOND, 4 * SECOND), 5 * SECOND);
        CHECK(term_has_room(&time, 6 * SECOND, 4 * SECOND));
        CHECK(!term_has_room(&time, lease_renew_at(5 * SECOND, 4 * SECOND), 4 * SECOND));
}

TEST(a_renewal_without_a_message_is_not_asked_for_again_at_once)
{
        struct term_time time = {.extended_at = 5 * SECOND};

        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
                for (int64_t ttl = 50 * MS; ttl <= lengths[i]; ttl *= 3) {
                        for (int64_t now = time.extended_at; now < time.extended_at + lengths[i];
                             now += lengths[i] / 50) {
                                time.length = lengths[i];
                                if (term_has_room(&time, now, ttl))
                                        CHECK(lease_renew_at(term_counts_from(&time, now, ttl), ttl) > now);
                        }
                }
        }
}

TEST(on_a_term_that_the_store_never_extended_every_lease_is_over)
{
        struct term_time time = {.extended_at = INT64_MIN, .length = LEASE_TTL_MAX};

        CHECK(lease_end(term_counts_from(&time, 0, SECOND), SECOND) < 0);
        CHECK(lease_end(term_counts_from(&time, INT64_C(1) << 60, LEASE_TTL_MAX), LEASE_TTL_MAX) < 0);
        CHECK(!term_has_room(&time, 0, SECOND));
        CHECK(!term_has_room(&time, INT64_C(1) << 60, LEASE_TTL_MAX));
}
