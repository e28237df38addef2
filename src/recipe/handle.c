/* handle.c - small recipes around one lock: see pawl/handle.h. */
#include <pawl/handle.h>

#include <stdlib.h>
#include <string.h>

#include "recipe.h"

/* ---- reentrant --------------------------------------------------------------------------------------------------- */

struct pawl_reentrant {
        pawl_client *client;
        pawl_lock *lock;
        uint64_t depth;
        struct pawl_lock_options options; /* with why, below */
        struct pawl_why why;              /* of the last acquire */
        char name[PAWL_NAME_MAX + 1];
};

int pawl_reentrant_new(pawl_client *client, const char *name, const struct pawl_lock_options *theirs,
                       pawl_reentrant **out)
{
        struct pawl_lock_options options;
        pawl_reentrant *reentrant;
        int code = RECIPE_OPTIONS(&options, theirs, "PAWL_LOCK");

        if (code != PAWL_OK || (code = recipe_needs(client, 0, options.why, NULL)) != PAWL_OK)
                return code;
        if (!out)
                return recipe_fail(options.why, PAWL_INVALID, "there is no place for the handle: it is NULL");
        if (!name || !*name || strlen(name) > PAWL_NAME_MAX)
                return recipe_fail(options.why, PAWL_INVALID, "a name has 1 to 255 bytes");
        reentrant = calloc(1, sizeof(*reentrant));
        if (!reentrant)
                return recipe_fail(options.why, PAWL_NO_MEMORY, pawl_strerror(PAWL_NO_MEMORY));
        reentrant->client = client;
        reentrant->options = options;
        reentrant->options.size = sizeof(options);
        if (!options.why) /* for pawl_reentrant_why alone the store is not asked who is in the way */
                reentrant->options.flags |= PAWL_BRIEF;
        reentrant->options.why = &reentrant->why; /* the caller's was for this call */
        memcpy(reentrant->name, name, strlen(name) + 1);
        *out = reentrant;
        return PAWL_OK;
}

int pawl_reentrant_acquire(pawl_reentrant *reentrant)
{
        int code;

        if (!reentrant)
                return PAWL_INVALID;
        reentrant->why = (struct pawl_why){0};
        if (!reentrant->depth)
                code = pawl_acquire(reentrant->client, reentrant->name, &reentrant->options, &reentrant->lock);
        else if ((code = pawl_check(reentrant->lock)) != PAWL_OK)
                recipe_fail(&reentrant->why, code,
                            "the lock was lost further out: release it as often as it was acquired");
        if (code == PAWL_OK)
                reentrant->depth++;
        return code;
}

int pawl_reentrant_why(const pawl_reentrant *reentrant, struct pawl_why *why)
{
        if (!reentrant || !why)
                return PAWL_INVALID;
        *why = reentrant->why;
        return PAWL_OK;
}

int pawl_reentrant_release(pawl_reentrant *reentrant)
{
        pawl_lock *lock;

        if (!reentrant)
                return PAWL_INVALID;
        if (!reentrant->depth)
                return PAWL_MISUSE;
        if (--reentrant->depth)
                return PAWL_OK;
        lock = reentrant->lock;
        reentrant->lock = NULL;
        return pawl_release(lock);
}

pawl_lock *pawl_reentrant_lock(const pawl_reentrant *reentrant)
{
        return reentrant ? reentrant->lock : NULL;
}

int pawl_reentrant_free(pawl_reentrant *reentrant)
{
        int code = reentrant ? pawl_release(reentrant->lock) : PAWL_OK;

        free(reentrant);
        return code;
}

/* ---- handed over ------------------------------------------------------------------------------------------------- */

int pawl_hand_over(pawl_lock *lock, char *word, size_t size)
{
        int code = pawl_lease(lock, word, size);

        return code == PAWL_OK ? pawl_forget(lock) : code;
}

int pawl_take_over(pawl_client *client, const char *word, const struct pawl_lock_options *theirs, pawl_lock **lock)
{
        struct pawl_lock_options options;
        int code = RECIPE_OPTIONS(&options, theirs, "PAWL_LOCK");

        if (code != PAWL_OK)
                return code;
        options.size = sizeof(options);
        options.flags |= PAWL_RENEW;
        return pawl_adopt(client, word, &options, lock);
}

/* ---- lent -------------------------------------------------------------------------------------------------------- */

static int count_waiter(const struct pawl_entry *entry, void *arg)
{
        *(uint32_t *)arg += entry->role == PAWL_ROLE_WAITER;
        return 0;
}

int pawl_waiters(pawl_client *client, const char *name, uint32_t *out)
{
        uint32_t count = 0;
        int code = out ? pawl_look(client, name, count_waiter, &count) : PAWL_INVALID;

        if (code != PAWL_OK && code != PAWL_NOT_FOUND)
                return code;
        *out = count;
        return PAWL_OK;
}

int pawl_yield(pawl_client *client, const struct pawl_lock_options *options, pawl_lock **lock)
{
        char name[PAWL_NAME_MAX + 1];
        uint32_t waiters = 0;
        pawl_lock *mine;
        int code;

        if (!lock || !*lock)
                return PAWL_INVALID;
        mine = *lock;
        memcpy(name, pawl_name(mine), strlen(pawl_name(mine)) + 1);
        code = pawl_check(mine);
        if (code == PAWL_OK && (pawl_waiters(client, name, &waiters) != PAWL_OK || !waiters))
                return PAWL_OK; /* also if that cannot be seen now: there will be another time */
        *lock = NULL;
        if (code == PAWL_OK)
                code = pawl_release(mine);
        else
                (void)pawl_release(mine);
        if (code == PAWL_OK || code == PAWL_IN_DOUBT) /* unconfirmed: it is finished behind us, before we are served */
                code = pawl_acquire(client, name, options, lock);
        return code;
}

/* After how long the holders are asked again: by then it may be another one, who came before us and was not asked. */
#define ASK_AGAIN_MS 250
#define ASK_AGAIN_MAX_MS 2000

/* The claim is in the queue, or on its way there: the holders hear of it. If the lock came free a moment ago it is we
 * who hear. */
static int wait_asking(pawl_client *client, pawl_lock *claim)
{
        int64_t again_ms = ASK_AGAIN_MS, next_ms = PAWL_NO_WAIT;

        while (pawl_wait(claim, next_ms) == PAWL_TIMEOUT && pawl_state(claim) == PAWL_WAITING) {
                (void)pawl_ask(client, pawl_name(claim)); /* who cannot be told is worth waiting for all the same */
                next_ms = again_ms;
                again_ms = 2 * again_ms < ASK_AGAIN_MAX_MS ? 2 * again_ms : ASK_AGAIN_MAX_MS;
        }
        return pawl_wait(claim, PAWL_NO_WAIT); /* decided: what it came to */
}

static int ask_and_wait(pawl_client *client, const char *name, const struct pawl_lock_options *options,
                        pawl_lock **lock)
{
        pawl_lock *claim;
        int code = pawl_acquire_async(client, name, options, NULL, NULL, &claim);

        if (code != PAWL_OK)
                return code;
        code = wait_asking(client, claim);
        if (code == PAWL_OK) {
                *lock = claim;
                return PAWL_OK;
        }
        if (code == PAWL_CANCELLED) /* nobody else has the claim to cancel it: it goes, or is gone, with its client */
                return recipe_fail(options->why, code, "the client is being closed");
        if (options->why)
                (void)pawl_lock_why(claim, options->why);
        (void)pawl_release(claim);
        return code;
}

int pawl_acquire_asking(pawl_client *client, const char *name, const struct pawl_lock_options *theirs, pawl_lock **lock)
{
        struct pawl_lock_options options;
        int64_t wait_ms;
        int code = RECIPE_OPTIONS(&options, theirs, "PAWL_LOCK");

        if (code == PAWL_OK && !lock)
                code = recipe_fail(options.why, PAWL_INVALID, "there is no place for the lock: it is NULL");
        if (code == PAWL_OK)
                code = recipe_needs(client, PAWL_CAN_ASK, options.why, "this engine cannot ask its holders");
        if (code != PAWL_OK)
                return code;
        wait_ms = options.wait_ms;
        options.size = sizeof(options);
        options.wait_ms = PAWL_NO_WAIT;
        if (wait_ms != PAWL_NO_WAIT) /* a holder that is in the way is asked at once */
                options.flags |= PAWL_BRIEF;
        code = pawl_acquire(client, name, &options, lock);
        if (code != PAWL_BUSY || wait_ms == PAWL_NO_WAIT)
                return code;
        options.wait_ms = wait_ms;
        return ask_and_wait(client, name, &options, lock);
}
