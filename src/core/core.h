/* core.h - decides WHEN: deadlines, renewals, belief. Speaks to one engine, through engine.h, on one loop; knows neither
 * threads nor blocking calls (api does). Every function wants the client locked. The same core runs in the simulator. */
#ifndef PAWL_CORE_H
#define PAWL_CORE_H

#include <assert.h>

#include "../base/histogram.h"
#include "../base/list.h"
#include "../engine/engine.h"

/*                  .-- cancel, time-out, refused --> REFUSED -.
 *   FREE --> WAITING                                           +--> OVER --> FREE
 *     |            '--granted--> HELD <---> UNCERTAIN           |
 *     |                         |  |            |               |
 *     '--granted at once--------'  +--release---+--> RELEASING -+
 *                                  '--deadline--+--> LOST ------'
 *
 * A lock that is OVER goes back to the pool when the engine has forgotten the claim, the user has given the handle back
 * and no notice is on its way. */
enum lock_state {
        LOCK_FREE,
        LOCK_WAITING,
        LOCK_HELD,
        LOCK_UNCERTAIN,
        LOCK_RELEASING,
        LOCK_LOST,
        LOCK_REFUSED,
        LOCK_OVER,
        LOCK_STATES
};

/* What somebody has to be told, once each. */
enum notice {
        NOTICE_GRANTED = 1u << 0, /* lock->status: what acquire came to */
        NOTICE_LOST = 1u << 1,    /* lock->reason */
        NOTICE_ASKED = 1u << 2,
        NOTICE_RELEASED = 1u << 3, /* lock->release_status */
        NOTICE_RENEWED = 1u << 4   /* of core_renew: lock->renew_status */
};

enum { LOCK_TEXT_ROOM = 64 };

struct core;
struct ttl_class;

struct pawl_lock {
        struct claim claim;
        struct core *core;
        uint64_t token;
        union {
                int64_t valid_until; /* while HELD or UNCERTAIN; LEASE_OVER: pawl_check saw its end. See core_stands */
                char *sentence;      /* while REFUSED, if explained: why */
        };
        union {
                int64_t sent_at;              /* from when the lease counts */
                struct pawl_lock *next_spare; /* while FREE */
        };
        int64_t started_at;
        int64_t granted_at;
        int64_t tick; /* when granted at once: see loop_tick */
        struct ttl_class *ttl_class;
        struct list term;   /* in one of the class's lists, while HELD or UNCERTAIN */
        struct list listed; /* in core->locks, for as long as it exists */
        struct list noticed;
        struct timer timer; /* WAITING: the wait is over; RELEASING: in doubt */
        union {
                struct {
                        uint32_t notices;  /* enum notice */
                        uint8_t state;     /* enum lock_state */
                        bool known;        /* the engine knows the claim */
                        bool owned;        /* the user has the handle */
                        bool fixed;        /* not renewed by us */
                        bool again;        /* granted too late: release it, then ask once more */
                        bool adopted;      /* a lease taken up by its word */
                        bool renewing;     /* a renewal is under way */
                        bool renew_wanted; /* by the user: NOTICE_RENEWED */
                        bool asked;
                        bool running;   /* one of its callbacks is running */
                        bool sampled;   /* its short way is timed */
                        bool explained; /* there is a sentence */
                        bool wounded;   /* another one comes first: pawl_wound */
                        uint8_t reason; /* enum pawl_reason */
                        int16_t status;
                        int16_t release_status;
                        int16_t renew_status;
                };
                uint64_t marks[4]; /* all of them, to be cleared at once */
        };

        /* the user's, and api's; on_lost, on_asked and arg are set for every claim */
        struct pawl_why *why;           /* during a blocking acquire */
        const struct pawl_why *verdict; /* during a cancel: what it is refused with */
        pawl_lost_fn *on_lost;
        pawl_asked_fn *on_asked;
        void *arg;
        pawl_granted_fn *on_granted;
        void *granted_arg;
        pawl_released_fn *on_released;
        void *released_arg;
        void *sleeper; /* a blocking caller waits: api's business */

        char *long_text;           /* if they do not fit below */
        char text[LOCK_TEXT_ROOM]; /* the name, then the note */
        /* engine->claim_size bytes follow */
};
_Static_assert(offsetof(struct pawl_lock, renew_status) + sizeof(int16_t) <=
                       offsetof(struct pawl_lock, marks) + sizeof(((struct pawl_lock *)NULL)->marks),
               "marks covers all of them");

/* Locks of one ttl come due in the order in which they were granted or renewed: lists, not a heap, and one timer. */
struct ttl_class {
        struct list listed; /* in core->classes */
        struct core *core;
        int64_t ttl;
        struct list fresh;    /* due for renewal at sent_at + ttl/3, in that order */
        struct list renewing; /* asked for, or to be asked again; lost at valid_until, in that order */
        struct list fixed;    /* never renewed by us; lost at valid_until, in that order */
        int64_t retry_at;     /* when renewals that failed are tried again; NEVER: none did */
        struct timer timer;   /* always set, if only to NEVER: moving a set timer cannot fail */
        size_t users;         /* locks that point here, spare ones too: the next claim may have the same ttl */
};

struct core_stats {
        uint64_t held, waiting, acquired, released, busy, timed_out, cancelled, lost, failed, renewals,
                renewal_failures, uncertain;
        struct histogram acquire, wait, hold, renew_slack;
};

struct core {
        struct loop *loop;
        struct engine *engine;                /* by core_use */
        const struct engine_instant *instant; /* the engine's, or NULL */
        struct list classes;                  /* the last used first */
        size_t class_count;
        struct list locks;             /* all of them, FREE ones too */
        struct pawl_lock *first_spare; /* FREE and resting; the longest rested first */
        struct pawl_lock *last_spare;
        size_t spares;
        struct list notices; /* locks with something to tell: whoever turned the loop takes them */
        /* Tells somebody who waits for just this lock (lock->sleeper): true if that is all there is to do. */
        bool (*tell)(struct pawl_lock *lock, enum notice notice);
        uint64_t nonce; /* with attempts, the uid of claims that nobody needs to guess */
        uint64_t attempts;
        struct claim **batch;
        size_t batch_room;
        uint32_t short_ways;
        struct core_stats stats;
};

/* For engine_host.events. */
extern const struct engine_events core_events;

void core_init(struct core *core, struct loop *loop);
/* The engine, opened with core_events and this core. */
void core_use(struct core *core, struct engine *engine);
/* Frees everything; engine closed before. */
void core_free(struct core *core);

/* A lock from the pool with its claim's name (borrowed until it is asked for), note (copied; length 0: none) and part set;
 * the rest of the claim is the caller's to fill before core_acquire. NULL: no memory. */
struct pawl_lock *core_lock(struct core *core, const char *name, size_t length, const char *note, size_t note_length);
/* Back to the pool if nobody needs it any more: call after owned, notices or running were cleared. */
void core_settle(struct pawl_lock *lock);

/* Asks for the lock, for at most wait (NEVER: for ever; only if claim.wait). Afterwards WAITING, HELD or REFUSED; the last
 * two with NOTICE_GRANTED raised. */
void core_acquire(struct pawl_lock *lock, int64_t wait);
/* The same without trying the short way first. */
void core_ask(struct pawl_lock *lock, int64_t wait);
/* The shortest way, for an engine that answers at once and a caller who waits for the answer: nothing is raised.
 * PAWL_OK: HELD. Anything else: it is FREE as before; core_ask may follow. */
int core_acquire_now(struct pawl_lock *lock);
/* Likewise: true, and the lock is given back to the store and to the pool; or false: nothing done, core_release it. */
bool core_release_now(struct pawl_lock *lock, int *code);
/* Back to the pool: a lock that was never asked for. */
void core_drop(struct pawl_lock *lock);
/* The same for a lease word. */
void core_adopt(struct pawl_lock *lock, const char *word);
/* Ends a WAITING lock's wait with code unless the grant is faster. */
void core_cancel(struct pawl_lock *lock, bool timed_out);
/* Ends it, whatever the state; NOTICE_RELEASED with what pawl_release is to say, at once or later. */
void core_release(struct pawl_lock *lock);
/* Lets go of the handle's lock without telling the store: it lives on until its lease ends. */
void core_forget(struct pawl_lock *lock);
/* Renews now; NOTICE_RENEWED later or at once. */
void core_renew(struct pawl_lock *lock);
/* Held, but not for long: its lease is renewed no more. */
void core_wound(struct pawl_lock *lock);
/* Ends what core_renew began, if it is still under way, with code. */
void core_end_renewal(struct pawl_lock *lock, int code);
/* Is it held at this moment? Declares it lost if the deadline has passed: the timer may be late, the caller is not. */
bool core_holds(struct pawl_lock *lock, int64_t now);
/* The same without the client's mutex, and nothing is declared: state is what was read of the lock before. What was once
 * said to be over stays over, whatever a renewal brings at the same moment. */
bool core_stands(struct pawl_lock *lock, int64_t now);
/* What went wrong with it: the sentence of the refusal, or the reason of the loss. Empty if nothing did. */
void core_explain(const struct pawl_lock *lock, struct pawl_why *why);

/* The next lock with notices, or NULL; *notices gets and clears them. */
struct pawl_lock *core_notice(struct core *core, uint32_t *notices);

/* stats.c: of what goes the short way one in so many is timed, and counts for all. */
enum { SAMPLE_EVERY = 16 };
void core_count_grant(struct pawl_lock *lock, int64_t now);
void core_count_refusal(struct core *core, int code);
void core_count_end(struct pawl_lock *lock, int64_t now, uint32_t weight);
void core_read_stats(const struct core *core, struct pawl_stats *stats);

/* Between core.c and renew.c. */
void core_lose(struct pawl_lock *lock, int reason, int64_t now);
bool core_moves(enum lock_state from, enum lock_state to);
static inline void core_move(struct pawl_lock *lock, enum lock_state to)
{
        assert(core_moves(lock->state, to));
        lock->core->stats.waiting += (to == LOCK_WAITING) - (uint64_t)(lock->state == LOCK_WAITING);
        __atomic_store_n(&lock->state, (uint8_t)to, __ATOMIC_RELEASE); /* pawl_check reads it unlocked */
}

/* pawl_check reads it unlocked, too: who gives the handle back at the same time makes a mistake, but is told so. */
static inline void core_set_owned(struct pawl_lock *lock, bool owned)
{
        __atomic_store_n(&lock->owned, owned, __ATOMIC_RELAXED);
}

/* What an end of a lease becomes when it was seen to have passed. Earlier than every other. */
#define LEASE_OVER INT64_MIN

static inline int64_t core_valid_until(const struct pawl_lock *lock)
{
        return __atomic_load_n(&lock->valid_until, __ATOMIC_RELAXED);
}

/* A new grant: nobody else knows the lock yet. */
static inline void core_set_valid(struct pawl_lock *lock, int64_t until)
{
        __atomic_store_n(&lock->valid_until, until, __ATOMIC_RELAXED);
}

/* A renewal. False if the lease was seen to be over meanwhile. */
static inline bool core_extend_valid(struct pawl_lock *lock, int64_t until)
{
        int64_t known = core_valid_until(lock);

        return known != LEASE_OVER &&
               __atomic_compare_exchange_n(&lock->valid_until, &known, until, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}
void core_raise(struct pawl_lock *lock, enum notice notice);
/* renew.c: finds or makes the class for the claim's ttl, before anything is asked: PAWL_OK or PAWL_NO_MEMORY. */
int renew_find(struct pawl_lock *lock);
static inline int renew_prepare(struct pawl_lock *lock)
{
        return lock->ttl_class && lock->ttl_class->ttl == lock->claim.ttl ? PAWL_OK : renew_find(lock);
}
void renew_begin(struct pawl_lock *lock);  /* it is granted: care for it */
void renew_end(struct pawl_lock *lock);    /* it is not held any more */
void renew_forget(struct pawl_lock *lock); /* the class loses a user */
void renew_answer(struct pawl_lock *lock, int code, int64_t sent_at);

#endif
