/* line.c - see line.h. */
#include "line.h"

/* Those who hold: how many, and how many they allow together; 0: any number. */
struct holders {
        size_t count;
        uint32_t limit;
        bool exclusive;
};

static uint32_t least(uint32_t one, uint32_t other)
{
        if (one == 0 || other == 0)
                return one + other;
        return one < other ? one : other;
}

/* One more holds, if it may. */
static bool joins(struct holders *holders, const struct contender *contender)
{
        uint32_t limit = contender->shared ? least(holders->limit, contender->limit) : 0;

        if (holders->count > 0 && (holders->exclusive || !contender->shared))
                return false;
        if (limit != 0 && holders->count >= limit)
                return false;
        *holders = (struct holders){.count = holders->count + 1, .limit = limit, .exclusive = !contender->shared};
        return true;
}

size_t line_holding(const struct contender *line, size_t count)
{
        struct holders holders = {0};
        size_t holding = 0;

        while (holding < count && joins(&holders, &line[holding]))
                holding++;
        return holding;
}

/* Do all of them hold, once the one at the place gone is gone? */
static bool all_hold(const struct contender *line, size_t count, long gone, struct holders *holders)
{
        *holders = (struct holders){0};
        for (size_t i = 0; i < count; i++) {
                if ((long)i != gone && !joins(holders, &line[i]))
                        return false;
        }
        return true;
}

/* The last of those without whose end it cannot hold. If there is none, those who share are too many. */
static long last_in_the_way(const struct contender *earlier, size_t count, const struct contender *claim)
{
        for (size_t i = count; i > 0; i--) {
                if (!claim->shared || !earlier[i - 1].shared)
                        return (long)i - 1;
        }
        return LINE_ANYBODY;
}

/* An end never takes from those who stay: each has as many before it or fewer, and they allow as many or more. So who holds
 * once that one is gone also holds if others went with it. */
static bool end_is_enough(const struct contender *earlier, size_t count, const struct contender *claim, long wait_for)
{
        struct holders holders;

        if (!all_hold(earlier, count, wait_for, &holders))
                return false;
        if (wait_for == LINE_ANYBODY)
                return holders.count - 1 < least(holders.limit, claim->limit);
        return joins(&holders, claim);
}

void line_judge(const struct contender *earlier, size_t count, const struct contender *claim, struct verdict *verdict)
{
        struct holders holders;

        *verdict = (struct verdict){.wait_for = LINE_NOBODY};
        verdict->next = all_hold(earlier, count, LINE_NOBODY, &holders);
        verdict->granted = verdict->next && joins(&holders, claim);
        if (verdict->granted)
                return;
        verdict->wait_for = last_in_the_way(earlier, count, claim);
        verdict->proven = end_is_enough(earlier, count, claim, verdict->wait_for);
}

int line_compare(const void *a, const void *b)
{
        const struct contender *one = a, *other = b;

        if (one->order == other->order)
                return 0;
        return one->order < other->order ? -1 : 1;
}
