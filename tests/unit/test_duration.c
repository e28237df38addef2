/* test_duration.c - durations. */
#include <stdio.h>

#include "base/duration.h"
#include "tap.h"

#define MS_NS INT64_C(1000000)
#define S_NS INT64_C(1000000000)

TEST(durations_are_read_exactly)
{
        static const struct {
                const char *text;
                int64_t ns;
        } rows[] = {
                {"0", 0},
                {"3", 3 * S_NS},
                {"500ms", 500 * MS_NS},
                {"10s", 10 * S_NS},
                {"2m", 120 * S_NS},
                {"1h", 3600 * S_NS},
                {"1.5s", 1500 * MS_NS},
                {"1.5m", 90 * S_NS},
                {"0.1", 100 * MS_NS},
                {"0.3s", 300 * MS_NS},
                {"0.7h", 2520 * S_NS},
                {"0.001ms", 1000},
                {"0.000000001s", 1},
                {"0.0000000001s", 0},
                {"1.000000000999999999999999999999s", S_NS},
                {"000000000000000000000000000000001s", S_NS},
                {"87600h", 315360000 * S_NS},
                {"315360000", 315360000 * S_NS},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                int64_t ns = -1;

                if (!CHECK(duration_parse(rows[i].text, &ns)) || !CHECK_INT(ns, rows[i].ns))
                        NOTE("%s", rows[i].text);
        }
}

TEST(everything_else_is_refused_and_writes_nothing)
{
        static const char *const bad[] = {"",
                                          "s",
                                          "ms",
                                          ".5s",
                                          "1.",
                                          "1.s",
                                          "-1s",
                                          "+1s",
                                          " 1s",
                                          "1s ",
                                          "1 s",
                                          "1S",
                                          "1us",
                                          "1d",
                                          "1e3",
                                          "0x1",
                                          "1,5s",
                                          "1.5.5s",
                                          "1s1s",
                                          "1m30s",
                                          "nan",
                                          "inf",
                                          "315360001",
                                          "87601h",
                                          "87600.1h",
                                          "99999999999999999999999999",
                                          "9223372036854775808",
                                          "18446744073709551617s",
                                          "1\n",
                                          "1sec",
                                          "1\xc2\xb5s",
                                          "--1"};

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                int64_t ns = 4711;

                if (!CHECK(!duration_parse(bad[i], &ns)) || !CHECK_INT(ns, 4711))
                        NOTE("%s", bad[i]);
        }
}

TEST(every_millisecond_is_read_as_it_is_written)
{
        char text[64];

        for (int64_t ms = 0; ms < 100000; ms += 7) {
                int64_t ns = -1;

                snprintf(text, sizeof(text), "%lld.%03lld", (long long)(ms / 1000), (long long)(ms % 1000));
                REQUIRE(duration_parse(text, &ns));
                REQUIRE_INT(ns, ms * MS_NS);
        }
}

TEST(durations_are_short_for_people)
{
        static const struct {
                int64_t ms;
                const char *text;
        } known[] = {
                {0, "0ms"},         {999, "999ms"},     {1000, "1.0s"},         {8299, "8.2s"},
                {59999, "59.9s"},   {60000, "1m00s"},   {192000, "3m12s"},      {3599999, "59m59s"},
                {3600000, "1h00m"}, {7500000, "2h05m"}, {360000000, "100h00m"}, {-1, "0ms"},
        };

        for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
                char text[24];

                CHECK_STR(duration_text(known[i].ms * MS_NS, text, sizeof(text)), known[i].text);
        }
}
