/* once.h - idempotency: one execution for each key among any number of callers, and one result for all of them.
 *
 *     struct pawl_result result;
 *
 *     if (pawl_once(client, "payment-4711", NULL, charge_card, order, &result) == PAWL_OK)
 *             ...result is that of the one execution, whoever made it; free(result.data)
 *
 * The first caller runs, under the lock "once/KEY"; the others wait for it, or find the result. The result is stored in
 * the same store as the lock, in one step with the check that the lock is still the runner's. If the runner dies or
 * sleeps past its lease, another caller runs, with a greater token; what the first one stores late is refused, and it
 * gets the other's result.
 *
 * A runner that was overtaken may still be at work, and one that died may have done its work before. So send the token
 * along (pawl_token(lock)) to a guard (guard.h): once a newer runner has been there, what an older one still sends is
 * refused. And let a runner look there first whether the work is done: then there is one effect, however many ran
 * (examples/once.c).
 *
 * Needs PAWL_CAN_KEEP; the rules of pawl.h hold here too. */
#ifndef PAWL_ONCE_H
#define PAWL_ONCE_H

#include <pawl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The longest data of a result. */
enum { PAWL_RESULT_MAX = PAWL_VALUE_MAX - 64 };

struct pawl_once_options {
        uint32_t size;  /* sizeof(struct pawl_once_options): PAWL_ONCE sets it */
        uint32_t flags; /* none yet: 0 */
        int64_t wait_ms; /* for another who is at it: PAWL_FOREVER, PAWL_NO_WAIT (PAWL_BUSY), or how long (PAWL_TIMEOUT) */
        int64_t ttl_ms;   /* of the lock; 0: the client's default */
        int64_t keep_ms;  /* how long the result is kept; 0: a day; -1: for ever */
        const char *note; /* of the lock, for others to read */
        pawl_lost_fn *on_lost;
        void *arg; /* for on_lost */
        struct pawl_why *why;
};

#ifndef __cplusplus
#define PAWL_ONCE(...) (&(const struct pawl_once_options){.size = sizeof(struct pawl_once_options), __VA_ARGS__})
#else
PAWL_DEFAULTS(once)
#endif

struct pawl_result {
        void *data;        /* yours: free() it. One NUL follows the last byte. */
        size_t size;       /* without that NUL */
        uint64_t token;    /* of the execution that made it */
        int64_t stored_us; /* when: pawl_value.stored_us; 0: just now, by ourselves */
        int32_t status;    /* what the execution said */
        uint32_t flags;    /* what the execution said: 16 bits for its own use */
};

/* The execution. Fill status, flags, data (by malloc; taken over) and size of *result and return PAWL_OK: that is the
 * result for everybody. Any other code: nothing is kept, this caller gets the code, and the next one runs. */
typedef int pawl_once_fn(pawl_lock *lock, struct pawl_result *result, void *arg);

/* Runs fn unless somebody has, and gives the one result. PAWL_OK; what fn said; or PAWL_IN_DOUBT: it ran, and whether
 * its result was kept is not known: ask again. */
PAWL_EXPORT PAWL_MUST_USE int pawl_once(pawl_client *client, const char *key, const struct pawl_once_options *options,
                                        pawl_once_fn *fn, void *arg, struct pawl_result *result);

/* The same in parts. PAWL_OK and *lock NULL: it was done, *result is filled. PAWL_OK and *lock: yours to do; then
 * pawl_once_finish, or pawl_release to leave it to the next. */
PAWL_EXPORT PAWL_MUST_USE int pawl_once_begin(pawl_client *client, const char *key,
                                              const struct pawl_once_options *options, struct pawl_result *result,
                                              pawl_lock **lock);
/* Stores the result (data are copied; result->token and stored_us are not read) and releases the lock: consumed whatever
 * is returned. PAWL_LOST: another one has the lock, or had it, and the result is its business; nothing was stored.
 * keep_ms as in the options. */
PAWL_EXPORT PAWL_MUST_USE int pawl_once_finish(pawl_lock *lock, const struct pawl_result *result, int64_t keep_ms);

/* The result, if there is one: PAWL_NOT_FOUND if not. */
PAWL_EXPORT PAWL_MUST_USE int pawl_once_look(pawl_client *client, const char *key, struct pawl_why *why,
                                             struct pawl_result *result);
/* Forgets the result of a key, so that the next caller runs; waits for who is at it. PAWL_NOT_FOUND if there is none. */
PAWL_EXPORT PAWL_MUST_USE int pawl_once_forget(pawl_client *client, const char *key,
                                               const struct pawl_once_options *options);
/* The name of the lock for a key: PAWL_NAME_MAX + 1 bytes. PAWL_INVALID if the key is too long: 250 bytes at most. */
PAWL_EXPORT PAWL_MUST_USE int pawl_once_name(const char *key, char *name);

#ifdef __cplusplus
}
#endif
#endif
