/* term.h - time in a store with sessions. A ZooKeeper session and an etcd lease are one thing here: a *term*, which the
 * store ends so long after it last heard of it, and with it everything that hangs on it. Many claims share one term.
 *
 * What a claim may believe is counted from when the last request was sent by which the store is known to have extended the
 * term. Where the term is longer than the claim's ttl there is room: the claim's lease may count from later than that, up to
 * now, as long as it ends before the term does. So a renewal often needs no message at all. */
#ifndef PAWL_TERM_H
#define PAWL_TERM_H

#include <stdbool.h>
#include <stdint.h>

#include "../../loop/loop.h"

struct term_time {
        int64_t extended_at; /* loop time before the request was sent; INT64_MIN: never */
        int64_t length;      /* what the store granted, without the slack; ns */
};

/* From when a lease of ttl may count at the time now. At most now; if the term is too old the lease is over already. The
 * core takes off a hundredth of the ttl and 2 ms, so a hundredth of the rest is taken off here. A store that granted less
 * than the ttl is not believed for longer than it granted. */
static inline int64_t term_counts_from(const struct term_time *time, int64_t now, int64_t ttl)
{
        int64_t room, latest;

        if (time->extended_at == INT64_MIN)
                return INT64_MIN / 2;
        room = time->length - ttl;
        latest = time->extended_at + room - (room > 0 ? room / 100 : 0);
        return latest < now ? latest : now;
}

/* Is there room for a renewal at this moment, without a message? Three quarters of the ttl must be left after it: the core
 * asks again when a third is gone. */
static inline bool term_has_room(const struct term_time *time, int64_t now, int64_t ttl)
{
        return now - term_counts_from(time, now, ttl) <= ttl / 4;
}

#endif
