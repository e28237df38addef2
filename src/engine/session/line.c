/* line.c - see line.h. */
#include "line.h"

/* May it hold, where so many hold before it and all of them share? */
static bool may_join(const struct contender *contender, size_t before)
{
        return before == 0 || (contender->shared && (contender->limit == 0 || before < contender->limit));
}

/* Do the first count of them all hold? */
static bool all_hold(const struct contender *line, size_t count)
{
        for (size_t i = 1; i < count; i++) {
                if (!line[i - 1].shared || !may_join(&line[i], i))
                        return false;
        }
        return true;
}

static size_t exclusive_ones(const struct contender *line, size_t count, long *last)
{
        size_t found = 0;

        for (size_t i = 0; i < count; i++) {
                if (line[i].shared)
                        continue;
                *last = (long)i;
                found++;
        }
        return found;
}

void line_judge(const struct contender *earlier, size_t count, const struct contender *claim, struct verdict *verdict)
{
        long last = (long)count - 1;
        bool all = all_hold(earlier, count);
        size_t exclusive;

        *verdict = (struct verdict){.wait_for = LINE_NOBODY};
        if (count == 0 || (all && earlier[count - 1].shared && may_join(claim, count))) {
                verdict->granted = true;
                return;
        }
        if (!claim->shared) {
                verdict->wait_for = last;
                verdict->proven = count == 1;
                return;
        }
        exclusive = exclusive_ones(earlier, count, &last);
        verdict->wait_for = exclusive > 0 ? last : LINE_ANYBODY;
        verdict->proven = exclusive == 0 ? all && count == claim->limit : exclusive == 1 && count == 1;
}

int line_compare(const void *a, const void *b)
{
        const struct contender *one = a, *other = b;

        if (one->order == other->order)
                return 0;
        return one->order < other->order ? -1 : 1;
}
