/* updates.h - many workers change few resources under locks whose leases end while they sleep, as those of any program that
 * was stopped. What became of their updates is counted exactly. */
#ifndef PAWL_TEST_UPDATES_H
#define PAWL_TEST_UPDATES_H

#include <pawl/guard.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { WORKERS = 8, RESOURCES = 4, TTL_MS = 50 };

struct plan {
        pawl_guard *guard;    /* the workers are threads that share it; NULL: processes, each with its own */
        const char *locks;    /* URL of the engine */
        const char *store;    /* URL of the guard */
        const char *prefix;   /* of the resources' names */
        uint64_t updates;     /* until so many were accepted */
        uint64_t pause_every; /* one update in so many sleeps past its lease */
        bool fenced;          /* false: everybody comes with the same token, so that nobody is refused */
};

/* One accepted update. */
struct update {
        uint64_t resource;
        uint64_t counter; /* that it wrote: one more than it had read */
        uint64_t stamp;   /* nobody else's */
};

/* Shared by all workers. */
struct score {
        atomic_ullong accepted;
        atomic_ullong refused_reads;
        atomic_ullong refused_writes;
        atomic_ullong pauses;    /* that were longer than the lease */
        atomic_ullong takeovers; /* grants while the holder before still believed in its own */
        atomic_ullong handovers; /* reads of what another worker wrote */
        atomic_int wrong;        /* something failed: all stop */
        char sentence[640];      /* what */
        /* The token of who believes to hold the lock of each resource; 0: nobody. */
        atomic_ullong believers[RESOURCES];
        uint64_t room;
        struct update accepted_updates[];
};

/* NULL: no memory. */
struct score *score_new(const struct plan *plan);
void score_free(struct score *score);
/* Lets the workers loose, and waits until they are done. */
void work(const struct plan *plan, struct score *score);

struct verdict {
        uint64_t accepted;
        uint64_t lost;   /* accepted, and not in the final counters */
        uint64_t broken; /* places where the chain of updates is not what the log says */
};
/* Reads the resources a last time, and counts. The first code that is not PAWL_OK. */
int judge(const struct plan *plan, struct score *score, pawl_guard *guard, struct verdict *verdict);

/* What a resource holds. */
struct content {
        uint64_t counter; /* updates so far */
        uint64_t chain;   /* of their stamps, in their order */
        uint64_t worker;  /* who wrote it, from 1 */
};
enum { CONTENT_MAX = 80, RESOURCE_MAX = 64 };
int content_write(const struct content *content, char *text);
bool content_read(const char *text, struct content *content);
/* The chain with one more stamp. */
uint64_t chain_add(uint64_t chain, uint64_t stamp);
void resource_name(const struct plan *plan, uint64_t resource, char *name);

#endif
