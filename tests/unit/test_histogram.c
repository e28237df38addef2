/* test_histogram.c - quantiles are right to within a bucket, whatever the values. */
#include <stdlib.h>
#include <string.h>

#include "base/histogram.h"
#include "tap.h"

static struct histogram histogram;

TEST(an_empty_histogram_says_zero)
{
        struct pawl_latency latency;

        memset(&latency, 0xff, sizeof(latency));
        CHECK_UINT(histogram_quantile(&histogram, 0.5), 0);
        histogram_summary(&histogram, &latency);
        CHECK_UINT(latency.count, 0);
        CHECK_UINT(latency.p50_ns, 0);
        CHECK_UINT(latency.max_ns, 0);
}

TEST(one_value_is_every_quantile_of_itself)
{
        for (int bit = 0; bit < 63; bit++) {
                int64_t value = (INT64_C(1) << bit) + (bit > 5 ? 3 : 0);

                memset(&histogram, 0, sizeof(histogram));
                histogram_record(&histogram, value, 1);
                CHECK_UINT(histogram_quantile(&histogram, 0.001), value);
                CHECK_UINT(histogram_quantile(&histogram, 1), value);
        }
}

TEST(a_quantile_is_never_below_the_value_and_at_most_a_bucket_above)
{
        for (uint64_t value = 1; value < UINT64_C(1) << 46; value += value / 37 + 1) {
                uint64_t found;

                memset(&histogram, 0, sizeof(histogram));
                histogram_record(&histogram, (int64_t)value, 1);
                histogram_record(&histogram, INT64_MAX, 1);
                found = histogram_quantile(&histogram, 0.5);
                REQUIRE(found >= value);
                REQUIRE(found - value <= value / 16);
        }
}

static int by_value(const void *one, const void *other)
{
        int64_t a = *(const int64_t *)one;
        int64_t b = *(const int64_t *)other;

        return (a > b) - (a < b);
}

TEST(quantiles_of_many_values_are_right_to_a_sixteenth)
{
        enum { COUNT = 100000 };
        static const double quantiles[] = {0.01, 0.25, 0.5, 0.9, 0.99, 0.999, 0.9999, 1};
        int64_t *values = calloc(COUNT, sizeof(*values));
        uint64_t state = 1;

        REQUIRE(values != NULL);
        for (int i = 0; i < COUNT; i++) {
                state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
                values[i] = (int64_t)(state >> 33 >> (state >> 20) % 24);
                histogram_record(&histogram, values[i], 1);
        }
        qsort(values, COUNT, sizeof(*values), by_value);
        for (size_t i = 0; i < sizeof(quantiles) / sizeof(quantiles[0]); i++) {
                uint64_t exact = (uint64_t)values[(size_t)(quantiles[i] * COUNT) - 1];
                uint64_t found = histogram_quantile(&histogram, quantiles[i]);

                CHECK(found >= exact);
                CHECK(found <= exact + exact / 16 + 1);
        }
        CHECK_UINT(histogram.max, values[COUNT - 1]);
        free(values);
}

TEST(a_weight_stands_for_so_many_values)
{
        struct pawl_latency latency;

        histogram_record(&histogram, 10, 16);
        histogram_record(&histogram, 1000000, 0);
        histogram_record(&histogram, 20, 15);
        histogram_summary(&histogram, &latency);
        CHECK_UINT(latency.count, 31);
        CHECK_UINT(latency.p50_ns, 10);
        CHECK_UINT(latency.p99_ns, 20);
        CHECK_UINT(latency.max_ns, 20);
}

TEST(a_clock_that_went_back_is_zero_and_the_end_of_time_fits)
{
        histogram_record(&histogram, -5, 1);
        histogram_record(&histogram, INT64_MIN, 1);
        CHECK_UINT(histogram_quantile(&histogram, 1), 0);
        histogram_record(&histogram, INT64_MAX, 1);
        CHECK_UINT(histogram.count, 3);
        CHECK_UINT(histogram_quantile(&histogram, 1), INT64_MAX);
}
