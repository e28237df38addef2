/* txn.h - several locks at once, and no deadlock.
 *
 * Who holds one lock and waits for another can wait for ever: each of two may have what the other wants. A
 * transaction is a set of locks with a policy under which that cannot last:
 *
 *     static int transfer(pawl_txn *txn, void *arg)
 *     {
 *             int code = pawl_txn_acquire(txn, "accounts/1", NULL, NULL);
 *             if (code == PAWL_OK)
 *                     code = pawl_txn_acquire(txn, "accounts/2", NULL, NULL);
 *             return code == PAWL_OK ? move_the_money(txn, arg) : code;
 *     }
 *     code = pawl_txn_run(client, PAWL_TXN(.policy = PAWL_WOUND_WAIT, .wait_ms = 5000), transfer, &order);
 *
 * If all the names are known beforehand, pawl_acquire_all is all it takes.
 *
 * All who share names use the same policy. Two orders do not mix, and neither do ages with claims that have none: a
 * plain pawl_acquire beside transactions is fine as long as its holder waits for no other lock meanwhile.
 *
 * The rules of pawl.h hold here too. A transaction is used by one thread at a time, and ended before its client is
 * closed. The calls block; with PAWL_DRIVE_CALLER they turn the client, as pawl_acquire does. */
#ifndef PAWL_TXN_H
#define PAWL_TXN_H

#include <pawl.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pawl_txn pawl_txn;

enum pawl_policy {
        /* Names are taken in one order, that of strcmp. There is no deadlock to break, nobody starts again. For every
         * engine; the names must be known in time. */
        PAWL_ORDERED = 0,
        /* Any order. Who holds something waits for the next lock for try_ms at most, then starts again, after a
         * pause that grows and is random. For every engine; nobody is promised to get his turn. */
        PAWL_BACK_OFF = 1,
        /* Any order. The older waits for the younger; the younger starts again at once rather than wait for an
         * older one. Nobody is disturbed while it works. Needs PAWL_CAN_AGE and PAWL_CAN_INSPECT. */
        PAWL_WAIT_DIE = 2,
        /* Any order. The younger waits for the older; the older does not wait for the younger, but wounds it: that
         * one is to let go, and is cut off at its lease's end. Fewest start again. Needs PAWL_CAN_ASK besides. */
        PAWL_WOUND_WAIT = 3
};

/* Another, older one comes first (PAWL_WOUND_WAIT): let go soon. Runs where pawl_asked_fn does, once until the
 * transaction is restarted; may use pawl_txn_check and what pawl_asked_fn may. */
typedef void pawl_wounded_fn(pawl_txn *txn, void *arg);

struct pawl_txn_options {
        uint32_t size;   /* sizeof(struct pawl_txn_options): PAWL_TXN sets it */
        uint32_t policy; /* enum pawl_policy */
        int64_t ttl_ms;  /* of its locks; 0: the client's default */
        int64_t wait_ms; /* for all of it, restarts included: PAWL_FOREVER (0), PAWL_NO_WAIT, or how long from the begin */
        int64_t try_ms; /* PAWL_BACK_OFF: how long who holds something waits for one lock; 0: 100 ms */
        pawl_wounded_fn *on_wounded;
        void *arg;            /* for on_wounded */
        struct pawl_why *why; /* written by pawl_txn_begin, pawl_txn_run and pawl_acquire_all themselves, not later */
        /* For pawl_acquire_all: */
        const struct pawl_lock_options *lock; /* how each is taken; NULL: exclusively */
        const char *cover;                    /* take this name instead of all the others */
};

#ifndef __cplusplus
#define PAWL_TXN(...) (&(const struct pawl_txn_options){.size = sizeof(struct pawl_txn_options), __VA_ARGS__})
#else
PAWL_DEFAULTS(txn)
#endif

/* Begins one, with nothing held and nothing asked. Its age is that of this moment, and stays through all restarts:
 * the older it gets the fewer come before it, so that nobody starves. PAWL_UNSUPPORTED if the engine cannot do what
 * the policy needs. options may be NULL. */
PAWL_EXPORT PAWL_MUST_USE int pawl_txn_begin(pawl_client *client, const struct pawl_txn_options *options,
                                             pawl_txn **txn);

/* Takes one more lock. *lock is borrowed until the transaction is restarted or ended: use its token, do not release
 * it; lock may be NULL. options may be NULL; their wait_ms is for this lock alone, their age is the transaction's
 * business.
 *   PAWL_OK       held.
 *   PAWL_WOUNDED  another comes first: undo what was done, pawl_txn_restart, and begin anew. So says every further call.
 *   PAWL_TIMEOUT  wait_ms is over, the transaction's or the lock's (PAWL_BUSY for PAWL_NO_WAIT).
 *   PAWL_LOST     a lock that it had before was lost meanwhile: stop.
 *   PAWL_MISUSE   it has that name already, or (PAWL_ORDERED) one that comes after it.
 * After any error this lock is not held, and the others are as they were. */
PAWL_EXPORT PAWL_MUST_USE int pawl_txn_acquire(pawl_txn *txn, const char *name, const struct pawl_lock_options *options,
                                               pawl_lock **lock);

/* Its lock on name, borrowed as above; NULL if it has none. */
PAWL_EXPORT pawl_lock *pawl_txn_lock(pawl_txn *txn, const char *name);

/* PAWL_OK while all its locks are held at this moment. PAWL_LOST: one is not. PAWL_WOUNDED: they are, but not for
 * long. Call it before every guarded step and after every blocking call. */
PAWL_EXPORT PAWL_MUST_USE int pawl_txn_check(pawl_txn *txn);

/* Releases all its locks, the last first, and pauses for a random time that doubles from time to time. The age stays.
 * PAWL_TIMEOUT if wait_ms is over: then end it. */
PAWL_EXPORT PAWL_MUST_USE int pawl_txn_restart(pawl_txn *txn);

/* Releases all its locks, the last first; the transaction is consumed whatever is returned; NULL is fine. PAWL_OK:
 * all were held until now, if only just. PAWL_LOST: one had been lost before. PAWL_IN_DOUBT: one was not confirmed,
 * and is finished in the background or by its lease. PAWL_MISUSE, and nothing happens, inside a callback of the
 * transaction's own; restart likewise. */
PAWL_EXPORT int pawl_txn_end(pawl_txn *txn);

/* What is done under the locks, taken in it with pawl_txn_acquire. PAWL_WOUNDED: it has undone what it did and is
 * to run again. */
typedef int pawl_txn_fn(pawl_txn *txn, void *arg);
/* Begins, runs fn, restarts and runs it again while it returns PAWL_WOUNDED, and ends: what fn returned at last,
 * or, after PAWL_OK, what pawl_txn_end says. PAWL_TIMEOUT if wait_ms was over first. fn may have numbers of its
 * own, from 100 on. */
PAWL_EXPORT PAWL_MUST_USE int pawl_txn_run(pawl_client *client, const struct pawl_txn_options *options, pawl_txn_fn *fn,
                                           void *arg);

/* A transaction that holds all the names, or an error and none of them. A name that is there twice is taken once.
 * They are sorted, so that PAWL_ORDERED, the default, is always right and works with every engine; where others
 * take the same names in an order of their own, give the policy they use.
 * With cover that one lock is taken instead: one request for any number of names. It excludes those only who take
 * the cover as well, so everybody must; worth it where most want many of the names, and dear where most want few. */
PAWL_EXPORT PAWL_MUST_USE int pawl_acquire_all(pawl_client *client, const char *const *names, size_t n,
                                               const struct pawl_txn_options *options, pawl_txn **txn);

#ifdef __cplusplus
}
#endif
#endif
