/* txn.c - a transaction from its begin to its end: which names it may take, how long it may wait, how it lets go. What
 * policies with ages look at while they wait is in txn_wait.c; what is made of these calls, in txn_all.c. */
#include "txn.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "recipe.h"
#include "when.h"

enum {
        TRY_MS = 100, /* if try_ms is 0 */
        PAUSE_MS = 8, /* after the first restart, at most; then twice that, and so on */
        PAUSE_MAX_MS = 512,
        AGE_CHANCE_BITS = 20 /* below the milliseconds, which then fit into 63 bits until the year 2248 */
};

/* ---- begin ------------------------------------------------------------------------------------------------------- */

static int check_times(const struct pawl_txn_options *options)
{
        int64_t most = INT64_C(366) * 24 * 3600 * 1000;

        if (options->wait_ms < PAWL_NO_WAIT || options->wait_ms > most)
                return recipe_fail(options->why, PAWL_INVALID,
                                   "wait_ms is neither PAWL_FOREVER, PAWL_NO_WAIT nor below 366 days");
        if (options->try_ms < 0 || options->try_ms > most)
                return recipe_fail(options->why, PAWL_INVALID, "try_ms is not between 0 and 366 days");
        return PAWL_OK;
}

static int check_policy(pawl_client *client, const struct pawl_txn_options *options)
{
        switch (options->policy) {
        case PAWL_ORDERED:
        case PAWL_BACK_OFF:
                return PAWL_OK;
        case PAWL_WAIT_DIE:
                return recipe_needs(
                        client, PAWL_CAN_AGE | PAWL_CAN_INSPECT, options->why,
                        "PAWL_WAIT_DIE needs an engine that keeps the age of a claim and can be asked for it: "
                        "use PAWL_ORDERED or PAWL_BACK_OFF here");
        case PAWL_WOUND_WAIT:
                return recipe_needs(client, PAWL_CAN_AGE | PAWL_CAN_INSPECT | PAWL_CAN_ASK, options->why,
                                    "PAWL_WOUND_WAIT needs an engine that keeps the age of a claim and can ask its "
                                    "holder: use PAWL_ORDERED or PAWL_BACK_OFF here");
        default:
                return recipe_fail(options->why, PAWL_UNSUPPORTED, "the policy is not known to this version");
        }
}

/* Milliseconds, so that others can compare it, and chance, so that no two are the same. */
static uint64_t new_age(void)
{
        uint64_t ms = (uint64_t)(when_unix() / RECIPE_MS);

        return ms << AGE_CHANCE_BITS | (when_random() & ((1u << AGE_CHANCE_BITS) - 1));
}

int pawl_txn_begin(pawl_client *client, const struct pawl_txn_options *theirs, pawl_txn **out)
{
        struct pawl_txn_options options;
        struct pawl_txn *txn;
        int code = RECIPE_OPTIONS(&options, theirs, "PAWL_TXN");

        if (code != PAWL_OK)
                return code;
        if (!out)
                return recipe_fail(options.why, PAWL_INVALID, "there is no place for the transaction: it is NULL");
        if ((code = recipe_needs(client, 0, options.why, NULL)) != PAWL_OK ||
            (code = check_times(&options)) != PAWL_OK || (code = check_policy(client, &options)) != PAWL_OK)
                return code;
        txn = calloc(1, sizeof(*txn));
        if (!txn || pthread_mutex_init(&txn->mutex, NULL) != 0) {
                free(txn);
                return recipe_fail(options.why, PAWL_NO_MEMORY, "out of memory");
        }
        txn->client = client;
        txn->options = options;
        txn->options.size = sizeof(options);
        txn->options.why = NULL;
        txn->options.lock = NULL;
        txn->options.cover = NULL;
        txn->age = options.policy >= PAWL_WAIT_DIE ? new_age() : 0;
        txn->until = recipe_deadline(options.wait_ms);
        txn->pid = getpid();
        *out = txn;
        return PAWL_OK;
}

/* ---- what it has ------------------------------------------------------------------------------------------------- */

bool txn_add(struct pawl_txn *txn, struct part *part, pawl_lock *lock)
{
        bool added;

        pthread_mutex_lock(&txn->mutex);
        added = !txn->wounded;
        if (added) {
                part->lock = lock;
                part->before = txn->last;
                txn->last = part;
        }
        pthread_mutex_unlock(&txn->mutex);
        return added;
}

void txn_remove(struct pawl_txn *txn, struct part *part)
{
        pthread_mutex_lock(&txn->mutex);
        txn->last = part->before;
        pthread_mutex_unlock(&txn->mutex);
}

bool txn_is_wounded(struct pawl_txn *txn)
{
        bool wounded;

        pthread_mutex_lock(&txn->mutex);
        wounded = txn->wounded;
        pthread_mutex_unlock(&txn->mutex);
        return wounded;
}

bool txn_wound(struct pawl_txn *txn)
{
        bool first;

        pthread_mutex_lock(&txn->mutex);
        first = !txn->wounded;
        txn->wounded = true;
        for (struct part *part = first ? txn->last : NULL; part; part = part->before)
                if (pawl_wound(part->lock) == PAWL_MISUSE) /* not granted yet */
                        pawl_cancel(part->lock);
        pthread_mutex_unlock(&txn->mutex);
        return first;
}

void txn_tell(struct pawl_txn *txn, bool telling)
{
        pthread_mutex_lock(&txn->mutex);
        txn->telling = telling;
        txn->teller = pthread_self();
        pthread_mutex_unlock(&txn->mutex);
}

static int check_use(const struct pawl_txn *txn)
{
        if (!txn)
                return PAWL_INVALID;
        return txn->pid == getpid() ? PAWL_OK : PAWL_FORKED;
}

/* Who lets go inside a callback of the transaction would pull the ground from under it. */
static int check_let_go(struct pawl_txn *txn)
{
        int code = check_use(txn);

        if (code != PAWL_OK)
                return code;
        pthread_mutex_lock(&txn->mutex);
        if (txn->telling && pthread_equal(txn->teller, pthread_self()))
                code = PAWL_MISUSE;
        pthread_mutex_unlock(&txn->mutex);
        return code;
}

static int check_locked(struct pawl_txn *txn)
{
        int code = txn->wounded ? PAWL_WOUNDED : PAWL_OK;

        for (struct part *part = txn->last; part; part = part->before) {
                int one = pawl_check(part->lock);

                if (one == PAWL_WOUNDED)
                        code = one;
                else if (one != PAWL_OK)
                        return one;
        }
        return code;
}

int pawl_txn_check(pawl_txn *txn)
{
        int code = check_use(txn);

        if (code != PAWL_OK)
                return code;
        pthread_mutex_lock(&txn->mutex);
        code = check_locked(txn);
        pthread_mutex_unlock(&txn->mutex);
        return code;
}

static struct part *find(struct pawl_txn *txn, const char *name)
{
        struct part *part = txn->last;

        while (part && strcmp(pawl_name(part->lock), name) != 0)
                part = part->before;
        return part;
}

pawl_lock *pawl_txn_lock(pawl_txn *txn, const char *name)
{
        struct part *part;

        if (check_use(txn) != PAWL_OK || !name)
                return NULL;
        part = find(txn, name);
        return part ? part->lock : NULL;
}

/* ---- one more ---------------------------------------------------------------------------------------------------- */

static int check_state(struct pawl_txn *txn, struct pawl_why *why)
{
        int code = pawl_txn_check(txn);

        if (code == PAWL_WOUNDED)
                return recipe_fail(why, code, "another comes first: restart the transaction");
        if (code != PAWL_OK)
                return recipe_fail(why, code, "a lock that the transaction had was lost: end it, or restart it");
        return PAWL_OK;
}

static int check_name(struct pawl_txn *txn, const char *name, struct pawl_why *why)
{
        const char *last = txn->last ? pawl_name(txn->last->lock) : "";

        if (!name)
                return recipe_fail(why, PAWL_INVALID, "there is no name");
        if (find(txn, name)) /* it would wait for itself */
                return recipe_fail(why, PAWL_MISUSE, "the transaction has that name already");
        if (txn->options.policy == PAWL_ORDERED && strcmp(name, last) < 0)
                return recipe_fail(
                        why, PAWL_MISUSE,
                        "PAWL_ORDERED: the transaction has a name that comes after this one: take them in the "
                        "order of strcmp, or use pawl_acquire_all or another policy");
        return PAWL_OK;
}

/* What may be waited for this lock: the shorter of its own time and what the transaction has left. False: nothing
 * is left. */
static bool limit_wait(const struct pawl_txn *txn, struct pawl_lock_options *options)
{
        int64_t left_ms = recipe_left(txn->until);

        if (txn->options.wait_ms == PAWL_NO_WAIT)
                options->wait_ms = PAWL_NO_WAIT;
        if (options->wait_ms == PAWL_NO_WAIT || left_ms == PAWL_FOREVER)
                return true;
        if (left_ms == PAWL_NO_WAIT)
                return false;
        if (options->wait_ms == PAWL_FOREVER || options->wait_ms > left_ms)
                options->wait_ms = left_ms;
        return true;
}

/* Who holds nothing stands in nobody's way and may wait; who holds something may not wait for long. */
static bool bound_try(const struct pawl_txn *txn, struct pawl_lock_options *options)
{
        int64_t try_ms = txn->options.try_ms ? txn->options.try_ms : TRY_MS;

        if (txn->options.policy != PAWL_BACK_OFF || !txn->last || options->wait_ms == PAWL_NO_WAIT)
                return false;
        if (options->wait_ms != PAWL_FOREVER && options->wait_ms <= try_ms)
                return false;
        options->wait_ms = try_ms;
        return true;
}

/* Without ages nobody asks us, and nobody is looked at. */
static int take(struct pawl_txn *txn, const char *name, struct pawl_lock_options *options, struct part *part)
{
        bool bounded = bound_try(txn, options);
        pawl_lock *lock;
        int code;

        options->flags |= PAWL_BRIEF; /* what is held already keeps others waiting */
        code = pawl_acquire(txn->client, name, options, &lock);

        if (code == PAWL_OK) {
                (void)txn_add(txn, part, lock); /* nobody but this thread wounds it */
        } else if (bounded && (code == PAWL_TIMEOUT || code == PAWL_UNREACHABLE || code == PAWL_NO_QUORUM)) {
                /* A store that is away is found by the first lock, which is waited for as long as the caller said. */
                (void)txn_wound(txn);
                code = recipe_fail(options->why, PAWL_WOUNDED,
                                   "who holds others waits for try_ms at most: that is over, restart the transaction");
        }
        return code;
}

static void give_back(struct pawl_txn *txn, struct part *part)
{
        txn_remove(txn, part);
        pawl_release(part->lock);
}

/* The wait may have been long: it counts only if what it had before is still there. */
static int take_and_check(struct pawl_txn *txn, const char *name, struct pawl_lock_options *options, struct part *part)
{
        int code = txn->age ? txn_take_by_age(txn, name, options, part) : take(txn, name, options, part);

        /* The end of its time cut a round trip short: that is no sign of a store that is away. */
        if (code == PAWL_UNREACHABLE && txn->answered && when_now() >= txn->until)
                return recipe_fail(options->why, PAWL_TIMEOUT, "the transaction's time is over");
        if (code == PAWL_OK) {
                txn->answered = true;
                code = check_state(txn, options->why);
                if (code != PAWL_OK)
                        give_back(txn, part);
        }
        return code;
}

int pawl_txn_acquire(pawl_txn *txn, const char *name, const struct pawl_lock_options *theirs, pawl_lock **out)
{
        struct pawl_lock_options options;
        struct part *part;
        int code = RECIPE_OPTIONS(&options, theirs, "PAWL_LOCK");

        if (code == PAWL_OK && (code = check_use(txn)) != PAWL_OK)
                recipe_fail(options.why, code, txn ? pawl_strerror(code) : "there is no transaction: it is NULL");
        if (code == PAWL_OK && options.age)
                code = recipe_fail(options.why, PAWL_INVALID, "the age is the transaction's own");
        if (code != PAWL_OK || (code = check_name(txn, name, options.why)) != PAWL_OK ||
            (code = check_state(txn, options.why)) != PAWL_OK)
                return code;
        options.size = sizeof(options);
        options.age = txn->age;
        options.ttl_ms = options.ttl_ms ? options.ttl_ms : txn->options.ttl_ms;
        if (!limit_wait(txn, &options))
                return recipe_fail(options.why, PAWL_TIMEOUT, "the transaction's time is over");
        part = calloc(1, sizeof(*part));
        if (!part)
                return recipe_fail(options.why, PAWL_NO_MEMORY, "out of memory");
        code = take_and_check(txn, name, &options, part);
        if (code != PAWL_OK)
                free(part);
        else if (out)
                *out = part->lock;
        return code;
}

/* ---- letting go -------------------------------------------------------------------------------------------------- */

/* PAWL_OK, or the worst of what the releases said: that one was lost tells more than that one is in doubt. */
static int release_all(struct pawl_txn *txn)
{
        struct part *part;
        int worst = PAWL_OK;

        pthread_mutex_lock(&txn->mutex);
        part = txn->last;
        txn->last = NULL;
        pthread_mutex_unlock(&txn->mutex);
        while (part) {
                struct part *before = part->before;
                int code = pawl_release(part->lock); /* no callback of it runs any more */

                if (code == PAWL_LOST || worst == PAWL_OK)
                        worst = code;
                free(part);
                part = before;
        }
        return worst;
}

/* Full jitter: anything up to a bound that doubles. Those who met once are not to meet again. */
static int64_t next_pause(struct pawl_txn *txn)
{
        int64_t most = PAUSE_MAX_MS, left = txn->until - when_now();

        if (txn->restarts < 16 && PAUSE_MS << txn->restarts < PAUSE_MAX_MS)
                most = PAUSE_MS << txn->restarts;
        txn->restarts++;
        most = (int64_t)(when_random() % (uint64_t)(most * RECIPE_MS));
        return most < left ? most : left;
}

int pawl_txn_restart(pawl_txn *txn)
{
        int64_t pause;
        int code = check_let_go(txn);

        if (code != PAWL_OK)
                return code;
        (void)release_all(txn);
        pthread_mutex_lock(&txn->mutex);
        txn->wounded = false;
        pthread_mutex_unlock(&txn->mutex);
        pause = next_pause(txn);
        recipe_sleep(txn->client, pause);
        return when_now() < txn->until ? PAWL_OK : PAWL_TIMEOUT;
}

/* In a child: the memory is its own, the locks are not. */
static void forget_all(struct pawl_txn *txn)
{
        while (txn->last) {
                struct part *part = txn->last;

                txn->last = part->before;
                free(part);
        }
}

int pawl_txn_end(pawl_txn *txn)
{
        int code;

        if (!txn)
                return PAWL_OK;
        code = check_let_go(txn);
        if (code == PAWL_MISUSE)
                return code;
        if (code == PAWL_OK) {
                code = release_all(txn);
                pthread_mutex_destroy(&txn->mutex);
        } else {
                forget_all(txn);
        }
        free(txn);
        return code;
}
