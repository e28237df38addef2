/* fuzz_duration.c - a duration is refused, or it is what the C library makes of its number. */
#include <string.h>

#include "base/duration.h"
#include "fuzz.h"

static long double unit_of(const char *unit)
{
        if (strcmp(unit, "ms") == 0)
                return 1e6L;
        if (strcmp(unit, "m") == 0)
                return 60e9L;
        if (strcmp(unit, "h") == 0)
                return 3600e9L;
        MUST(strcmp(unit, "s") == 0 || strcmp(unit, "") == 0);
        return 1e9L;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = strndup((const char *)data, size);
        int64_t ns = -1;

        MUST(text != NULL);
        if (duration_parse(text, &ns)) {
                char *end;
                long double value = strtold(text, &end);
                long double expected = value * unit_of(end);

                MUST(text[0] >= '0' && text[0] <= '9');
                MUST(ns >= 0 && ns <= INT64_C(315360000000000000));
                /* Cut off after each digit that is less than a nanosecond: ten of them at the most. */
                MUST((long double)ns <= expected + 1 && (long double)ns >= expected - 10);
        } else {
                MUST(ns == -1);
        }
        free(text);
        return 0;
}
