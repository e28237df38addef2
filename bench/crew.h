/* crew.h - several processes that take turns at something, for a while, counted from shared memory. */
#ifndef PAWL_BENCH_CREW_H
#define PAWL_BENCH_CREW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

enum { CREW_MAX = 1024 };

/* Lies in shared memory. turns and what follows is written by whoever has the turn: the lock under test guards it. */
struct crew {
        _Atomic uint32_t ready;
        _Atomic uint32_t go;
        _Atomic uint32_t stop;
        _Atomic uint32_t word[CREW_MAX][16]; /* a futex word for each, on a cache line of its own */
        _Atomic uint64_t asked;              /* how many have asked for a turn: the tickets */
        _Atomic uint64_t turns;
        _Atomic uint64_t changes;     /* turns that were not the same member's as the one before */
        _Atomic uint64_t out_of_turn; /* turns whose number was not that of their ticket */
        _Atomic uint64_t worst;       /* by how many turns, at most */
        uint32_t size;
        uint32_t last_member;
};

struct crew_job {
        uint32_t size;
        /* Runs in each member's process: prepare, crew_start, take turns until crew->stop. */
        void (*member)(struct crew *crew, uint32_t me, void *arg);
        void *arg;
        double seconds;
        double settle; /* seconds before counting; 0: 0.05 */
        bool batch;    /* a wake-up does not preempt the one who wakes */
        /* Filled by crew_run: the rates of the last run; turns and order of all runs together. */
        double turn_rate;
        double change_rate;
        double change_share;
        uint64_t turns;
        uint64_t out_of_turn;
        uint64_t worst;
};

/* Tells that this member is ready and waits until all are. */
void crew_start(struct crew *crew);
/* This member is about to ask for its turn; gives its ticket. */
uint64_t crew_ask(struct crew *crew);
/* This member has the turn now. Says whether another one had it before. */
bool crew_turn(struct crew *crew, uint32_t me, uint64_t ticket);
/* Keeps the turn until all others have asked for theirs, so that every turn is handed on. Costs nothing if they have.
 * changed: what crew_turn said; if not, somebody who has asked has not come to wait yet, and is let run. */
void crew_crowd(struct crew *crew, bool changed);
/* Forks the members, lets them run, fills in the job's figures. Gives owner changes per second; arg is the job. */
double crew_run(void *arg);

void crew_sleep_ns(int64_t ns);

#endif
