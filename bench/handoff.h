/* handoff.h - rows 9 and 11: one lock of a store with sessions, handed on as fast as it goes, beside other libraries. */
#ifndef PAWL_BENCH_HANDOFF_H
#define PAWL_BENCH_HANDOFF_H

#include <stdbool.h>
#include <stdint.h>

#include "bench.h"
#include "crew.h"

enum { HANDOFF_PEERS_MAX = 3 };

struct handoff {
        int row;
        const char *engine;
        const char *url;
        uint16_t port;
        int cores;
        bool built; /* pawl has that engine */
        void (*floor)(struct crew *crew, uint32_t me, void *arg);
        const char *peers[HANDOFF_PEERS_MAX]; /* the first is the one that pawl is compared with */
        const char *beside;                   /* what else goes on, for the table; may be empty */
};

/* Floor, pawl and peers in turn, with so many waiters; prints the lines. target is of pawl/first peer. Gives pawl's
 * figures. */
struct contender handoff_compare(const struct handoff *handoff, uint32_t waiters, const char *target);
/* The line that compares many waiters of pawl's with few. */
void handoff_many(const struct handoff *handoff, const struct contender *few, const struct contender *many,
                  const char *target);

#endif
