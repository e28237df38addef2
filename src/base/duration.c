/* duration.c - durations as people write them. Integers only, so that 0.1s is 100 ms exactly. */
#include "duration.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define LONGEST (INT64_C(10) * 365 * 86400 * 1000000000)

static const struct unit {
        const char *text;
        int64_t ns;
} units[] = {
        {"", INT64_C(1000000000)},       {"ms", INT64_C(1000000)},          {"s", INT64_C(1000000000)},
        {"m", INT64_C(60) * 1000000000}, {"h", INT64_C(3600) * 1000000000},
};

static const struct unit *find_unit(const char *text)
{
        for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
                if (strcmp(text, units[i].text) == 0)
                        return &units[i];
        return NULL;
}

static size_t digits(const char *text)
{
        return strspn(text, "0123456789");
}

bool duration_parse(const char *text, int64_t *ns)
{
        size_t whole = digits(text);
        bool point = text[whole] == '.';
        size_t fraction = point ? digits(text + whole + 1) : 0;
        const struct unit *unit = find_unit(text + whole + point + fraction);
        int64_t value = 0;
        int64_t tenth;

        if (whole == 0 || (point && fraction == 0) || !unit)
                return false;
        for (size_t i = 0; i < whole; i++) {
                value = value * 10 + (text[i] - '0');
                if (value > LONGEST / unit->ns)
                        return false;
        }
        value *= unit->ns;
        tenth = unit->ns / 10;
        for (size_t i = 0; i < fraction; i++, tenth /= 10)
                value += tenth * (text[whole + 1 + i] - '0');
        if (value > LONGEST)
                return false;
        *ns = value;
        return true;
}

const char *duration_text(int64_t ns, char *text, size_t size)
{
        int64_t ms = ns > 0 ? ns / MS : 0;

        if (ms < 1000)
                snprintf(text, size, "%dms", (int)ms);
        else if (ms < 60 * 1000)
                snprintf(text, size, "%d.%ds", (int)(ms / 1000), (int)(ms % 1000 / 100));
        else if (ms < 3600 * 1000)
                snprintf(text, size, "%dm%02ds", (int)(ms / 60000), (int)(ms % 60000 / 1000));
        else
                snprintf(text, size, "%lldh%02dm", (long long)(ms / 3600000), (int)(ms % 3600000 / 60000));
        return text;
}
