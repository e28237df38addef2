/* handle.h - small recipes around one lock: reentrant, handed over to another process, lent when others wait, a semaphore.
 *
 * The rules of pawl.h hold here too. */
#ifndef PAWL_HANDLE_H
#define PAWL_HANDLE_H

#include <pawl.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- a semaphore ------------------------------------------------------------------------------------------------- */

/* Options for one of at most n permits: pawl_acquire(client, "printers", PAWL_SEMAPHORE(3, .wait_ms = 5000), &permit).
 * All holders give the same n. Needs PAWL_CAN_LIMIT. */
#ifndef __cplusplus
#define PAWL_SEMAPHORE(n, ...) PAWL_LOCK(.mode = PAWL_SHARED, .max_holders = (n), __VA_ARGS__)
#endif

/* ---- reentrant --------------------------------------------------------------------------------------------------- */

/* A lock that its owner may take again while it has it: whoever has this handle is the owner, so give each thread its
 * own. */
typedef struct pawl_reentrant pawl_reentrant;

/* options (copied, but for the note, which must stay) count for every acquire of the lock; their why is for this call. */
PAWL_EXPORT PAWL_MUST_USE int pawl_reentrant_new(pawl_client *client, const char *name,
                                                 const struct pawl_lock_options *options, pawl_reentrant **reentrant);
/* The first takes the lock, the others count. PAWL_LOST: it was lost further out; release as often as you have acquired. */
PAWL_EXPORT PAWL_MUST_USE int pawl_reentrant_acquire(pawl_reentrant *reentrant);
/* What went wrong with the last acquire, and what to do; *why is cleared if it succeeded. */
PAWL_EXPORT int pawl_reentrant_why(const pawl_reentrant *reentrant, struct pawl_why *why);
/* The last gives it back, and says what pawl_release says. PAWL_MISUSE: it is not held. */
PAWL_EXPORT int pawl_reentrant_release(pawl_reentrant *reentrant);
/* The lock, for pawl_token, pawl_check, ...; NULL while it is not held. Borrowed until the last release. */
PAWL_EXPORT pawl_lock *pawl_reentrant_lock(const pawl_reentrant *reentrant);
/* Releases what is held. NULL is fine. */
PAWL_EXPORT int pawl_reentrant_free(pawl_reentrant *reentrant);

/* ---- handed over ------------------------------------------------------------------------------------------------- */

/* A lock that another process goes on with, with the same token and without a gap. Acquire it with PAWL_DETACH |
 * PAWL_RENEW; hand the word over through a pipe, a file of your own, a message: who knows it has the lock. The lease is
 * not renewed between the two calls. Needs PAWL_CAN_DETACH. */

/* Writes the word (PAWL_LEASE_MAX + 1 bytes) and ends the handle: consumed if, and only if, PAWL_OK. */
PAWL_EXPORT PAWL_MUST_USE int pawl_hand_over(pawl_lock *lock, char *word, size_t size);
/* Goes on with it: the owner that others see is this client's, and the lease is renewed again. options: what to call
 * back. */
PAWL_EXPORT PAWL_MUST_USE int pawl_take_over(pawl_client *client, const char *word,
                                             const struct pawl_lock_options *options, pawl_lock **lock);

/* ---- lent -------------------------------------------------------------------------------------------------------- */

/* How many wait for a lock. Needs PAWL_CAN_INSPECT. */
PAWL_EXPORT PAWL_MUST_USE int pawl_waiters(pawl_client *client, const char *name, uint32_t *count);
/* For a holder with much to do: if others wait, lets them go first and takes the lock again behind them, with a new
 * token; else keeps it. options are those of the acquire. PAWL_OK: *lock is held, whichever it is. Anything else: it is
 * not, *lock is NULL, and the handle is consumed. Needs PAWL_CAN_INSPECT. */
PAWL_EXPORT PAWL_MUST_USE int pawl_yield(pawl_client *client, const struct pawl_lock_options *options,
                                         pawl_lock **lock);
/* As pawl_acquire, but tells the holders that somebody waits (their on_asked runs, pawl_asked says 1) if it has to. Needs
 * PAWL_CAN_ASK. */
PAWL_EXPORT PAWL_MUST_USE int pawl_acquire_asking(pawl_client *client, const char *name,
                                                  const struct pawl_lock_options *options, pawl_lock **lock);

#ifdef __cplusplus
}
#endif
#endif
