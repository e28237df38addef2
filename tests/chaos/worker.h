/* worker.h - what a child process does: take a lock in one of many ways, write down what happened, do a guarded
 * read-modify-write, let go, again. */
#ifndef CHAOS_WORKER_H
#define CHAOS_WORKER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "history.h"
#include "pawl.h"
#include "resource.h"

enum habit {
        HABIT_SHARE = 1 << 0,       /* every third name is shared, by readers and writers */
        HABIT_LIMIT = 1 << 1,       /* every fourth name has at most LIMIT holders */
        HABIT_ASYNC = 1 << 2,       /* asynchronous claims, some of them cancelled */
        HABIT_TIMEOUT = 1 << 3,     /* waits end early, or there is no wait at all */
        HABIT_DETACH = 1 << 4,      /* leases that outlive the handle */
        HABIT_SLEEP = 1 << 5,       /* sometimes up to two ttl asleep while holding, on fixed and on renewed leases */
        HABIT_BREAK = 1 << 6,       /* now and then an administrator breaks a lock */
        HABIT_FORK = 1 << 7,        /* now and then a child without exec that lingers */
        HABIT_CALLER = 1 << 8,      /* no private thread */
        HABIT_LINGER = 1 << 9,      /* hold for some ms, so that others queue up */
        HABIT_HURRY = 1 << 10,      /* no pause and no guarded step: only take and let go */
        HABIT_TWIN = 1 << 11,       /* also write to the unfenced twin */
        HABIT_ONE_CLIENT = 1 << 12, /* all threads of a process share one client */
        HABIT_ALL = HABIT_SHARE | HABIT_LIMIT | HABIT_ASYNC | HABIT_TIMEOUT | HABIT_DETACH | HABIT_BREAK,
};

enum { LIMIT = 3 };

struct plan {
        const char *url;
        const char *directory; /* for the history */
        const char *resource;  /* path */
        atomic_int *stop;      /* in shared memory: finish */
        atomic_int *ready;     /* in shared memory: raised by each worker that is open; may be NULL */
        uint64_t seed;
        int64_t ttl_ms;
        uint32_t process; /* its number: never used twice in one history */
        uint32_t names;
        uint32_t threads; /* at least 1, at most CLIENTS_PER_PROCESS */
        uint32_t rounds;  /* at most so many claims per thread, 0: until stop */
        uint32_t habits;  /* enum habit */
};

/* How a worker ends: its exit status. */
enum { WORKER_DONE = 0, WORKER_CANNOT_OPEN = 80, WORKER_SURPRISED = 81 };

int worker_run(const struct plan *plan);

/* ---- for tests that lead a claim by the hand ------------------------------------------------------------------- */

/* Writes the invocation, acquires, writes the answer. lock is NULL if it was refused. */
struct scribe {
        struct history history;
        pawl_client *client;
        uint32_t op;
        bool borrowed; /* the client is another's to close */
};
bool scribe_open(struct scribe *scribe, const struct plan *plan, uint32_t client_number);
int scribe_acquire(struct scribe *scribe, uint32_t name, const struct pawl_lock_options *options, pawl_lock **lock);
/* PAWL_OK if it is believed; writes that down. */
int scribe_check(struct scribe *scribe, uint32_t name, pawl_lock *lock);
int scribe_release(struct scribe *scribe, uint32_t name, pawl_lock *lock);
void scribe_close(struct scribe *scribe);

/* The name of lock number n. */
void lock_name(uint32_t n, char *name, size_t size);
void sleep_ns(int64_t ns);

#endif
