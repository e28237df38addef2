/* rig.h - the driver's side: starts workers, hurts them, waits for them with a deadline, and asks the checker. The
 * driver itself never opens a client: whatever speaks to pawl is a child, so that a crash or a hang is a finding. */
#ifndef CHAOS_RIG_H
#define CHAOS_RIG_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "check.h"
#include "history.h"
#include "resource.h"
#include "worker.h"

enum { RIG_CHILDREN = 512 };

struct child {
        pid_t pid; /* 0: a free place */
        uint32_t process;
        bool stopped;
        bool doomed; /* we killed it: its death is no finding */
};

struct rig {
        char root[256];  /* everything below */
        char state[300]; /* the engine's directory */
        char url[320];
        char histories[300];
        char resource_path[300];
        struct rig_shared {
                atomic_int stop;
                atomic_int ready;
        } * shared;
        struct history history; /* the driver's own */
        struct child children[RIG_CHILDREN];
        uint32_t processes; /* numbered so far */
        unsigned most_alive;
        uint64_t random;
        uint64_t crashes; /* I9 */
        uint64_t hangs;
        uint64_t surprises;
};

/* In the test's own directory. The seed comes from CHAOS_SEED, or from the clock, and is printed. */
void rig_open(struct rig *rig);
/* Kills what is left, by pid. */
void rig_close(struct rig *rig);

uint64_t rig_chance(struct rig *rig, uint64_t below);
/* How long a test should hurt: usual, or more with CHAOS_SECONDS. */
int64_t rig_seconds(int64_t usual);
/* The longest time between two kills, in ms: 40, or CHAOS_PACE where a store takes long to notice a death. */
int64_t rig_pace(void);

struct plan rig_plan(struct rig *rig, uint32_t names, int64_t ttl_ms, uint32_t habits);

/* Starts fn(arg) in a child, which ends with what it returns. */
struct child *rig_start(struct rig *rig, int (*fn)(void *), void *arg);
/* The same in a PID namespace of its own (CLONE_NEWPID), or a time namespace (CLONE_NEWTIME, boottime moved by offset
 * seconds); NULL if the kernel does not let us. */
struct child *rig_start_apart(struct rig *rig, int flags, long offset, int (*fn)(void *), void *arg);
/* A worker with a number of its own; plan is copied. */
struct child *rig_work(struct rig *rig, const struct plan *plan);
struct child *rig_work_apart(struct rig *rig, const struct plan *plan);

void rig_kill(struct rig *rig, struct child *child);
void rig_stop(struct rig *rig, struct child *child);
void rig_continue(struct rig *rig, struct child *child);
/* A random live child for which the flag says so; NULL if there is none. */
struct child *rig_any(struct rig *rig);

/* Waits at most so long for a child and judges its end: the exit status, or -1 for a crash or a hang (counted). */
int rig_wait(struct rig *rig, struct child *child, int64_t ns);
/* rig_start and rig_wait. */
int rig_do(struct rig *rig, int (*fn)(void *), void *arg);
/* Tells the workers to finish and waits for all children, each at most so long. */
void rig_finish(struct rig *rig, int64_t ns);

/* Loads everything, checks it, prints it. Then nothing may be left in the store. */
void rig_judge(struct rig *rig, struct findings *findings);
/* CHECKs that there is nothing to complain about. */
void rig_expect_clean(struct rig *rig, const struct findings *findings);

/* Memory that children and the driver share; zeroed; lives until the test ends. */
void *rig_share(size_t size);
unsigned open_descriptors(void);
/* The sockets and pipes left anywhere below the engine's directory. */
unsigned leftover_bells(const char *directory);
/* The largest regular file of the engine's directory: the state. */
bool find_state_file(const char *directory, char *path, size_t size);

/* Waits, in a child, until the name has exactly so many waiters. */
bool wait_for_queue(struct rig *rig, uint32_t name, unsigned waiters);
/* One acquire and release in a child: its status, the token in *token. wait_ms as in the options. */
struct visit {
        char url[320];
        uint32_t name;
        int64_t wait_ms;
        int64_t ttl_ms;
        uint32_t times;
        uint32_t names;  /* in turn, from name on; 0: one */
        uint32_t flags;  /* of the lock; PAWL_DETACH leaves it held */
        int opened;      /* status of pawl_open */
        int status;      /* of the first failure, or PAWL_OK */
        uint64_t lowest; /* token */
        uint64_t highest;
        struct pawl_why why;
};
/* visit is in shared memory. True if the child ended well, whatever it was told. */
bool rig_visit(struct rig *rig, struct visit *visit);

#endif
