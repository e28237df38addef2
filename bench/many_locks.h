/* many_locks.h - row 15 on any engine: one client holds 100,000 locks. */
#ifndef PAWL_BENCH_MANY_LOCKS_H
#define PAWL_BENCH_MANY_LOCKS_H

enum { MANY_LOCKS = 100000 };

struct many_locks {
        const char *url;
        int ttl_ms;
        int hold_seconds;
        int flight; /* so many are asked for, and returned, at once; 0: one after the other */
        /* How many commands the store has had, or NULL: then nobody asks. */
        double (*commands)(void *arg);
        void *arg;
        /* Filled by many_locks_run. */
        double bytes;        /* of the client's memory for each lock */
        double late;         /* locks that were lost, or whose renewal was overdue */
        double per_third;    /* commands in a third of the ttl, while nothing was asked but renewals */
        double renewals;     /* in hold_seconds */
        double slack_p50_ms; /* what was left of the lease when a renewal was confirmed */
};

/* Takes them, holds them for a while, gives them back. Ends the program if the engine is there and fails; false if the build
 * at hand has no such engine. */
int many_locks_run(struct many_locks *job);
/* The two lines that every engine has: memory and late renewals. engine is a word for the reader. */
void many_locks_lines(const struct many_locks *job, const char *engine, int cores);

/* The whole row on a store that keeps a session, not locks: their number must not matter. */
void many_locks_of_session(struct many_locks *job, const char *engine, int cores);

#endif
