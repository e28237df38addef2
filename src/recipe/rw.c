/* rw.c - two locks: the right to write ("upgrade/NAME"), and NAME itself.
 *
 *   READ         NAME shared
 *   UPGRADABLE   the right, then NAME shared
 *   WRITE        the right, then NAME alone
 *
 * To upgrade, NAME is given back and taken alone; nobody can write meanwhile, because nobody else has the right to. To
 * go back the same is done the other way round. The right is always taken first and given back last, so nobody waits in
 * a circle. */
#include <pawl/rw.h>

#include <stdlib.h>
#include <string.h>

#include "recipe.h"

struct pawl_rw {
        pawl_client *client;
        pawl_lock *right; /* NULL: a plain reader */
        pawl_lock *lock;  /* NULL: it was lost on the way */
        int mode;
        struct pawl_lock_options options; /* for what is taken later */
        struct pawl_why why;              /* of the last change of mode that failed */
        char name[PAWL_NAME_MAX + 1];
};

static int check(pawl_client *client, const char *name, int mode, const struct pawl_lock_options *options)
{
        int code = recipe_needs(client, PAWL_CAN_SHARE, options->why, "this engine has no shared locks");

        if (code != PAWL_OK)
                return code;
        if (mode != PAWL_READ && mode != PAWL_WRITE && mode != PAWL_UPGRADABLE)
                return recipe_fail(options->why, PAWL_INVALID, "the mode is PAWL_READ, PAWL_WRITE or PAWL_UPGRADABLE");
        if (options->mode || options->max_holders || options->flags)
                return recipe_fail(options->why, PAWL_INVALID,
                                   "mode, max_holders and flags are set by pawl_rw_acquire");
        if (!name || strlen(name) > PAWL_NAME_MAX)
                return recipe_fail(options->why, PAWL_INVALID, "a name has 1 to 255 bytes");
        return PAWL_OK;
}

/* What is held meanwhile keeps others waiting: no time to ask who is in the way. */
static int take(pawl_rw *rw, const char *name, uint32_t mode, int64_t wait_ms, struct pawl_why *why, pawl_lock **lock)
{
        struct pawl_lock_options options = rw->options;

        options.size = sizeof(options);
        options.flags |= PAWL_BRIEF;
        options.mode = mode;
        options.wait_ms = wait_ms;
        options.why = why;
        return pawl_acquire(rw->client, name, &options, lock);
}

static int acquire(pawl_rw *rw, int mode, int64_t deadline, struct pawl_why *why)
{
        char right[PAWL_NAME_MAX + 1];
        int code = mode == PAWL_READ ? PAWL_OK : recipe_name("upgrade", rw->name, right, why);

        if (code == PAWL_OK && mode != PAWL_READ)
                code = take(rw, right, PAWL_EXCLUSIVE, recipe_left(deadline), why, &rw->right);
        if (code == PAWL_OK)
                code = take(rw, rw->name, mode == PAWL_WRITE ? PAWL_EXCLUSIVE : PAWL_SHARED, recipe_left(deadline), why,
                            &rw->lock);
        rw->mode = mode;
        return code;
}

int pawl_rw_acquire(pawl_client *client, const char *name, int mode, const struct pawl_lock_options *theirs,
                    pawl_rw **out)
{
        struct pawl_lock_options options;
        pawl_rw *rw;
        int code = RECIPE_OPTIONS(&options, theirs, "PAWL_LOCK");

        if (code == PAWL_OK && !out)
                code = recipe_fail(options.why, PAWL_INVALID, "there is no place for the handle: it is NULL");
        if (code == PAWL_OK)
                code = check(client, name, mode, &options);
        if (code != PAWL_OK)
                return code;
        rw = calloc(1, sizeof(*rw));
        if (!rw)
                return recipe_fail(options.why, PAWL_NO_MEMORY, pawl_strerror(PAWL_NO_MEMORY));
        rw->client = client;
        rw->options = options;
        rw->options.why = NULL;
        memcpy(rw->name, name, strlen(name) + 1);
        code = acquire(rw, mode, recipe_deadline(options.wait_ms), options.why);
        rw->options.note = NULL; /* the caller's text: only for what was taken now */
        if (code == PAWL_OK)
                *out = rw;
        else
                (void)pawl_rw_release(rw);
        return code;
}

/* As wait_ms: whoever has the right to write keeps it for so long without another answer of the store. */
static int64_t until_lost(const pawl_rw *rw)
{
        int64_t left_ms = pawl_remaining_ms(rw->right);

        return left_ms > 0 ? left_ms : PAWL_NO_WAIT;
}

/* Another mode of NAME, with the right to write kept. If it cannot be had NAME is shared: what an upgrade began with,
 * and what a downgrade is for. Nobody should be in the way of that; if somebody is, each try is given up after one lease. */
static int change(pawl_rw *rw, uint32_t mode, int64_t wait_ms)
{
        int code = pawl_rw_check(rw);

        if (code != PAWL_OK)
                return recipe_fail(&rw->why, code, "it is lost: release it");
        (void)pawl_release(rw->lock);
        rw->lock = NULL;
        code = take(rw, rw->name, mode, wait_ms, &rw->why, &rw->lock);
        if (code != PAWL_OK && take(rw, rw->name, PAWL_SHARED, until_lost(rw), NULL, &rw->lock) != PAWL_OK)
                return recipe_fail(&rw->why, PAWL_LOST, "it could not be shared again and is lost: release it");
        if (pawl_check(rw->right) != PAWL_OK)
                return recipe_fail(&rw->why, PAWL_LOST,
                                   "the right to write was lost while we waited: others may have written; release it");
        if (mode == PAWL_SHARED) { /* the second try is as good as the first */
                rw->why = (struct pawl_why){0};
                return PAWL_OK;
        }
        return code;
}

int pawl_rw_upgrade(pawl_rw *rw, int64_t wait_ms)
{
        int code;

        if (!rw)
                return PAWL_INVALID;
        rw->why = (struct pawl_why){0};
        if (rw->mode != PAWL_UPGRADABLE)
                return recipe_fail(&rw->why, PAWL_MISUSE,
                                   "only an upgradable reader can upgrade: acquire it with PAWL_UPGRADABLE");
        code = change(rw, PAWL_EXCLUSIVE, wait_ms);
        if (code == PAWL_OK)
                rw->mode = PAWL_WRITE;
        return code;
}

int pawl_rw_downgrade(pawl_rw *rw, int mode)
{
        int code = PAWL_OK;

        if (!rw)
                return PAWL_INVALID;
        rw->why = (struct pawl_why){0};
        if ((mode != PAWL_READ && mode != PAWL_UPGRADABLE) || rw->mode == PAWL_READ || rw->mode == mode)
                return recipe_fail(&rw->why, PAWL_MISUSE, "that is no lower mode than the one it has");
        if (rw->mode == PAWL_WRITE)
                code = change(rw, PAWL_SHARED, until_lost(rw));
        if (code != PAWL_OK)
                return code;
        rw->mode = PAWL_UPGRADABLE;
        if (mode == PAWL_READ) {
                code = pawl_release(rw->right);
                rw->right = NULL;
                rw->mode = PAWL_READ;
                if (code != PAWL_OK && code != PAWL_IN_DOUBT)
                        recipe_fail(&rw->why, code, "the right to write had been lost before: others may have written");
        }
        return code == PAWL_IN_DOUBT ? PAWL_OK : code; /* it is finished behind us */
}

int pawl_rw_release(pawl_rw *rw)
{
        int code, right;

        if (!rw)
                return PAWL_OK;
        code = rw->lock ? pawl_release(rw->lock) : PAWL_LOST;
        right = pawl_release(rw->right);
        free(rw);
        return code != PAWL_OK ? code : right;
}

int pawl_rw_why(const pawl_rw *rw, struct pawl_why *why)
{
        if (!rw || !why)
                return PAWL_INVALID;
        *why = rw->why;
        return PAWL_OK;
}

int pawl_rw_mode(const pawl_rw *rw)
{
        return rw ? rw->mode : PAWL_READ;
}

int pawl_rw_check(pawl_rw *rw)
{
        int code;

        if (!rw)
                return PAWL_INVALID;
        if (!rw->lock)
                return PAWL_LOST;
        code = pawl_check(rw->lock);
        return code == PAWL_OK && rw->right ? pawl_check(rw->right) : code;
}

uint64_t pawl_rw_token(const pawl_rw *rw)
{
        return rw && rw->lock ? pawl_token(rw->lock) : 0;
}
