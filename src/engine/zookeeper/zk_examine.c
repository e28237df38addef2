/* zk_examine.c - asks the servers about themselves, for pawl doctor. */
#include "zk_inspect.h"

void zk_inspect_examine(struct engine *engine, struct inquiry *inquiry)
{
        (void)engine;
        inquiry->answered(inquiry, PAWL_OK, NULL);
}

bool zk_examine_forget(struct zk *zk, const struct inquiry *inquiry)
{
        (void)zk, (void)inquiry;
        return false;
}

void zk_examine_up(struct zk *zk)
{
        (void)zk;
}

void zk_examine_down(struct zk *zk, const struct pawl_why *why)
{
        (void)zk, (void)why;
}

void zk_examine_free(struct zk *zk)
{
        (void)zk;
}
