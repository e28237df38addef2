/* turns.h - what a member of a crew does over and over: take the lock, hold it, let go, pause. */
#ifndef PAWL_BENCH_TURNS_H
#define PAWL_BENCH_TURNS_H

#include <stdint.h>

#include "crew.h"

struct turns {
        const char *url; /* for pawl */
        uint16_t port;   /* for who speaks to the server itself */
        int64_t hold_ns, pause_ns;
};

/* One sleep of a turn; none if it is 0. As exact as the kernel can make it: its slack is not the lock's cost. */
void turns_sleep(int64_t ns);
/* A member with a pawl client of its own; arg is a struct turns. */
void turns_pawl(struct crew *crew, uint32_t me, void *arg);

#endif
