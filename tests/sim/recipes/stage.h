/* stage.h - where recipes are tested: the real API, its private thread included, over the real core and the model
 * store, in the time and by the chance of ../sim.h. Simulated processes run ordinary blocking code.
 *
 *   threads.c    threads of which one runs at a time; where they block, and what wakes them
 *   calls.c      every public call is a step at which its process may die
 *   heap.c       memory belongs to a process: it goes when that dies, and must be gone when that is done
 *   stage.c      one history: processes, faults, the end
 *   scene_X.c    who does what, and what must be true of it
 *
 * Nothing of the library is compiled anew: the linker puts our functions in the place of those that sleep, wake, start
 * threads and look at the clock (wrapped, in meson.build). Time stands still while a thread runs; it passes where
 * threads block.
 *
 * A new scene: a file scene_X.c with one struct scene (play is what a process does, from stage_open to pawl_close; end
 * and watch fail where a promise was not kept; bugs are mistakes that play can make, for test_scenes.c), its name in
 * scenes.c and meson.build. A call that recipes need and that is to be a step: calls.h and meson.build. */
#ifndef STAGE_H
#define STAGE_H

#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>

#include "../sim.h"

enum { THREADS_MAX = 512, STEPS_WITHOUT_TIME = 200000 };

struct stage;

struct thread {
        struct stage *stage;
        struct process *process;
        int index;
        pthread_t id;
        sem_t turn;
        void *(*main)(void *);
        void *arg;
        bool asleep, ended, joined, doomed;
        const void *waits_on;
        bool in_loop;
        int64_t wakes_at; /* true time; NEVER: only if woken */
        uint64_t sleeps;  /* a wake that was meant for an earlier sleep is ignored */
        jmp_buf end;      /* where one that is doomed jumps to */
        char doing[128];  /* the call that it is in, for whoever reads a failure */
        int64_t doing_since;
};

/* What has arrived and was not read yet. */
struct letter {
        struct list listed;
        struct message *message;
};

struct process {
        struct stage *stage;
        int index;
        struct thread *first; /* runs the scene; the process is done when it returns */
        bool alive, done;
        int lives; /* how often it was started */
        uint64_t steps, crash_at;
        struct loop *loop; /* of its client, while that is open */
        struct list inbox;
        bool woken;
};

/* Bugs of recipes and their stores that the scenes can switch on: each scene has its own, from 1. */
struct scene {
        const char *name;
        const char *promise; /* a sentence for the TAP line */
        int variant;         /* where several scenes are played by the same people */
        int processes;
        bool again;    /* who dies is started again; else the others go on without it */
        int64_t bound; /* after the faults everybody is done within this time */
        void (*begin)(struct stage *);
        void (*play)(struct stage *, int process);
        void (*watch)(struct stage *); /* after every step; may be NULL, as begin and end */
        void (*end)(struct stage *);   /* what must be true when all are done */
        size_t size;                   /* of its own state */
        const char *const *bugs;       /* sentences, NULL last; NULL: none */
};

/* How a history is to go. */
struct direction {
        uint64_t seed;
        bool faults;
        int crash; /* process, from 1, that dies at crash_step; 0: none */
        uint64_t crash_step;
        int bug; /* of the scene, from 1; 0: none */
        enum bug model_bug;
        bool tracing;
};

struct stage {
        struct world *world;
        const struct scene *scene;
        struct direction direction;
        void *state; /* the scene's own */
        struct process processes[CLIENTS_MAX];
        struct thread *threads[THREADS_MAX];
        int thread_count;
        sem_t turn;              /* the scheduler's */
        struct process *crashed; /* just now, by the thread that ran */
        uint64_t steps_at_now;
        char names[NAMES_ROOM][PAWL_NAME_MAX + 1];
};

struct play_outcome {
        bool failed;
        char failure[256];
        uint64_t hash;
        uint64_t steps[CLIENTS_MAX]; /* of the first life of each process */
        struct figures figures;
};
struct play_outcome stage_run(const struct scene *scene, const struct direction *direction);

/* ---- for scenes: on the thread of a process ---------------------------------------------------------------------- */

/* A client of the simulated store; the ttl is short, so that leases matter. Never fails. */
struct pawl_client *stage_open(struct stage *stage, int process);
/* Sleeps, by the process's own clock. */
void stage_pause(struct stage *stage, int64_t least, int64_t most);
uint64_t stage_chance(struct stage *stage, uint64_t below);
/* A call said something else than PAWL_OK. True, after a pause: the faults explain it, try again. Else that is a
 * failure. */
bool stage_again(struct stage *stage, int code, const char *what);
/* The resource's side: true if the token is not older than one that was seen; *highest is what it has seen. */
bool stage_admit(uint64_t *highest, uint64_t token);
void stage_say(struct stage *stage, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The token of the lock of that name that the process believes to hold, or did last; 0: none. */
uint64_t stage_token(int process, const char *name);
/* The store's clock, as it tells it: us. */
int64_t stage_store_us(struct stage *stage);
void stage_fail(struct stage *stage, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- inside ------------------------------------------------------------------------------------------------------ */

/* threads.c */
struct thread *thread_me(void); /* NULL outside of the simulated world */
struct thread *thread_start(struct process *process, void *(*main)(void *), void *arg);
/* The baton: from the scheduler to the thread, until it blocks, ends or its process dies. */
void thread_run(struct thread *thread);
/* Ends a thread of a process that died. */
void thread_doom(struct thread *thread);
void thread_free(struct thread *thread);
/* Gives the baton away until woken, or until a true time. */
void thread_sleep(const void *on, int64_t until);
void thread_wake_all(struct stage *stage, const void *on);
/* One more step of its process, which may be its last. */
void thread_step(void);

/* heap.c */
size_t heap_size(const struct process *process);
void heap_free(const struct process *process);

/* stage.c */
struct sim_client *stage_client(const struct process *process);
void stage_opened(struct process *process, struct loop *loop);
void stage_closed(struct process *process);
void stage_deliver(struct process *process);
/* calls.c: what a process that died leaves in memory. */
void calls_forget(struct loop *loop);
struct engine *calls_engine(struct loop *loop);
uint64_t calls_token(struct loop *loop, const char *name);
/* Do two believe that they hold what only one may? Checked after every step. */
void calls_check_beliefs(struct stage *stage);

extern const struct scene *const scenes[]; /* NULL last */

#endif
