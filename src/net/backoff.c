/* backoff.c - how long to wait before trying again. */
#include "net.h"

int64_t net_backoff(struct net_backoff *backoff, struct loop *loop)
{
        static const int64_t first = 20 * MS;
        static const int64_t longest = 2 * SECOND;
        int64_t whole = backoff->tries < 7 ? first << backoff->tries : longest;
        uint32_t chance;

        if (whole > longest)
                whole = longest;
        if (backoff->tries < UINT32_MAX)
                backoff->tries++;
        loop_random(loop, &chance, sizeof(chance));
        /* A part of it by chance: those who lost the server together must not come back together. */
        return whole / 2 + (int64_t)((uint64_t)(whole / 2) * chance >> 32);
}
