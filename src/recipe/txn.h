/* txn.h - what stands behind a pawl_txn: its locks, the latest first, and what its policy says of one more. */
#ifndef PAWL_RECIPE_TXN_H
#define PAWL_RECIPE_TXN_H

#include <pawl/txn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* One lock of a transaction. The user's callbacks are called by ours, where we need one. */
struct part {
        struct part *before; /* taken before it; NULL: it is the first */
        struct pawl_txn *txn;
        pawl_lock *lock;
        atomic_bool asking;  /* we asked its holder, which may have been us by then */
        atomic_bool doubted; /* we were asked in that moment: by ourselves, or by an older one */
        pawl_lost_fn *on_lost;
        pawl_asked_fn *on_asked;
        void *arg;
};

struct pawl_txn {
        /* Around what follows: who is asked to let go hears it on another thread. Never taken over a call that
         * blocks. */
        pthread_mutex_t mutex;
        struct part *last; /* changed by the thread that uses the transaction, and by no other */
        bool wounded;
        bool telling; /* on the thread teller: it is inside a callback of the transaction */
        pthread_t teller;

        pawl_client *client;
        struct pawl_txn_options options; /* without what pawl_acquire_all needs, and without why */
        uint64_t age;                    /* 0: the policy needs none */
        int64_t until;                   /* when_now at which wait_ms is over; RECIPE_NEVER: it never is */
        unsigned restarts;
        bool answered; /* it got a lock: the store answers */
        pid_t pid;     /* of whoever began it: a child's copy of the mutex may be locked for ever */
};

/* Puts the part, with its lock, among those of the transaction. False: it was wounded meanwhile, and has it not. */
bool txn_add(struct pawl_txn *txn, struct part *part, pawl_lock *lock);
/* Takes the last one out again. */
void txn_remove(struct pawl_txn *txn, struct part *part);
bool txn_is_wounded(struct pawl_txn *txn);
/* Marks it and all its locks; a claim that waits is cancelled. False: it was wounded before. */
bool txn_wound(struct pawl_txn *txn);
/* A callback of the transaction begins, or is over, on this thread. */
void txn_tell(struct pawl_txn *txn, bool telling);

/* txn_wait.c: takes name under a policy with ages. The part is added if, and only if, PAWL_OK. */
int txn_take_by_age(struct pawl_txn *txn, const char *name, struct pawl_lock_options *options, struct part *part);

#endif
