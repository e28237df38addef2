/* barrier.h - waiting for each other: a barrier that opens when enough have come, and a latch that opens when
 * enough was done.
 *
 *     pawl_barrier_enter(client, "migration", 3, NULL, &barrier);     nobody goes on before three have come
 *     ...
 *     pawl_barrier_leave(barrier, PAWL_FOREVER);                      and nobody before the three are done
 *
 *     pawl_latch_down(client, "shards", 16, 1, NULL, NULL);           one of 16 is done
 *     pawl_latch_wait(client, "shards", NULL);                        until all are
 *
 * Whoever waits at a barrier holds a shared lock, so a process that dies does not count any more; those of one
 * round are told by their tokens, so the next round may begin at once. A latch counts down to 0 and stays there
 * until it is forgotten. Both are looked at in intervals (2 ms to a quarter of a second) by those who wait. Both
 * need PAWL_CAN_KEEP, a barrier PAWL_CAN_SHARE and PAWL_CAN_INSPECT too. The rules of pawl.h hold here too. */
#ifndef PAWL_BARRIER_H
#define PAWL_BARRIER_H

#include <pawl.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pawl_barrier pawl_barrier;

struct pawl_barrier_options {
        uint32_t size;   /* sizeof(struct pawl_barrier_options): PAWL_BARRIER sets it */
        uint32_t flags;  /* none yet: 0 */
        int64_t wait_ms; /* PAWL_FOREVER, or how long at most (PAWL_TIMEOUT) */
        int64_t ttl_ms;  /* of the locks; 0: the client's default */
        struct pawl_why *why;
};

#ifndef __cplusplus
#define PAWL_BARRIER(...)                                                                                              \
        (&(const struct pawl_barrier_options){.size = sizeof(struct pawl_barrier_options), __VA_ARGS__})
#else
PAWL_DEFAULTS(barrier)
#endif

/* Waits until parties, ourselves included, have come; exactly so many go on together. PAWL_TIMEOUT: not in time,
 * and we do not count any more. PAWL_IN_DOUBT: likewise, but whether the others count us could not be found out. To
 * find that out may take a few seconds more than wait_ms, if the store is slow. */
PAWL_EXPORT PAWL_MUST_USE int pawl_barrier_enter(pawl_client *client, const char *name, uint32_t parties,
                                                 const struct pawl_barrier_options *options, pawl_barrier **barrier);
/* We are done; waits until the others of this round are, or are dead. PAWL_NO_WAIT: does not wait. Consumed whatever is
 * returned; NULL is fine. PAWL_TIMEOUT: some are still inside. */
PAWL_EXPORT int pawl_barrier_leave(pawl_barrier *barrier, int64_t wait_ms);
/* PAWL_OK, or PAWL_LOST: the others take us for dead. */
PAWL_EXPORT PAWL_MUST_USE int pawl_barrier_check(pawl_barrier *barrier);

/* Counts down by steps from total (the first caller's counts), never below 0. *left may be NULL. PAWL_IN_DOUBT: it may
 * have been counted, or not. */
PAWL_EXPORT PAWL_MUST_USE int pawl_latch_down(pawl_client *client, const char *name, uint32_t total, uint32_t steps,
                                              const struct pawl_barrier_options *options, uint32_t *left);
/* Waits until it is at 0; one that nobody has counted down yet is not. */
PAWL_EXPORT PAWL_MUST_USE int pawl_latch_wait(pawl_client *client, const char *name,
                                              const struct pawl_barrier_options *options);
/* Forgets it: the next to count down begins anew. */
PAWL_EXPORT PAWL_MUST_USE int pawl_latch_forget(pawl_client *client, const char *name,
                                                const struct pawl_barrier_options *options);

#ifdef __cplusplus
}
#endif
#endif
