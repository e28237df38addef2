/* client.h - what stands behind a pawl_client: a core on a loop, the lock around them, and who drives. */
#ifndef PAWL_CLIENT_H
#define PAWL_CLIENT_H

#include <pthread.h>

#include "../base/options.h"
#include "../base/latch.h"
#include "../base/url.h"
#include "../core/core.h"

/* Somebody who waits inside a blocking call: for a notice of one lock, or for the answer to an inquiry. */
struct sleeper {
        uint32_t wanted;
        uint32_t got;
        int status;   /* what the renewal, or the claim, came to: the lock may be another's before he wakes */
        bool leaves;  /* once told, the lock is left to whoever gives it back meanwhile */
        bool waiting; /* for event: whoever gives the loop up may wake him to drive */
        struct event event;
        struct list listed; /* in client->sleepers while waiting */
};

enum driver { DRIVER_NOBODY, DRIVER_THREAD, DRIVER_CALLER };

struct pawl_client {
        struct latch latch; /* around everything but the constant fields */
        struct core core;
        struct loop loop;
        struct engine_host host;
        struct engine *engine;
        struct url *url;
        const uint32_t *here; /* 1 in the process that opened it; the kernel wipes it in a child */
        uint32_t drive;
        uint32_t log_level;
        int64_t ttl;
        int64_t look_ms; /* pawl_open_options.look_ms */
        pawl_log_fn *log;
        void *log_arg;
        char owner[PAWL_OWNER_MAX + 1];

        pthread_t thread;
        struct event thread_event;
        bool thread_up;
        bool stop;
        bool closing;
        bool kicked;           /* something new for whoever drives */
        uint8_t driver;        /* enum driver: who is in loop_wait or loop_turn */
        bool in_callback;      /* on callback_thread */
        uint32_t inside;       /* blocking calls that have let the mutex go */
        uint64_t caller_turns; /* so that the thread sees that callers drive */
        bool thread_rests;     /* until the caller who drives leaves */
        uint32_t wanting;      /* callers who would rather drive themselves */
        pthread_t callback_thread;
        struct event callback_done;
        struct list sleepers;

        /* inspect.c's */
        struct list questions;     /* not answered yet, of an engine that can forget them */
        struct pawl_why complaint; /* of the last inquiry that failed: pawl_explain */
};

static inline struct pawl_client *client_of(const struct pawl_lock *lock)
{
        return container_of(lock->core, struct pawl_client, core);
}

/* PAWL_OK if the handle may be used: not NULL, not of a parent process. */
static inline int client_check(const struct pawl_client *client)
{
        if (!client)
                return PAWL_INVALID;
        return __atomic_load_n(client->here, __ATOMIC_RELAXED) ? PAWL_OK : PAWL_FORKED;
}

/* drive.c */
/* Whoever drives has something new to send or to deliver. */
void client_kick(struct pawl_client *client);

static inline void client_lock(struct pawl_client *client)
{
        latch_take(&client->latch);
}

/* Unlocks, and sees to it that somebody delivers the notices that are due. */
static inline void client_unlock(struct pawl_client *client)
{
        if (!list_empty(&client->core.notices))
                client_kick(client);
        latch_give(&client->latch);
}

/* Starts the private thread if there is to be one. PAWL_OK or PAWL_SYSTEM. */
int client_thread(struct pawl_client *client, struct pawl_why *why);
void client_thread_stop(struct pawl_client *client);
/* Is this thread running one of the client's callbacks? Locked, as all below. */
bool client_calls_back(const struct pawl_client *client);
/* Waits, locked on entry and exit, until the sleeper got something it wanted; drives the loop if nobody else does. */
void client_sleep(struct pawl_client *client, struct sleeper *sleeper);
bool client_tell(struct pawl_lock *lock, enum notice notice);
/* Runs callbacks that are due, unlocked meanwhile: not all of them if they are many. */
void client_call_back(struct pawl_client *client);

/* inspect.c: ends what is being asked. */
void client_end_questions(struct pawl_client *client);
/* Completes the message of a claim that was refused because another client has the lock: who, for how long, until when.
 * Asks the store, and not for long; if that does not say, why stays as it is. Locked. */
void client_name_holder(struct pawl_client *client, const char *name, struct pawl_why *why);

#endif
