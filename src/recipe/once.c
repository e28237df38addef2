/* once.c - one execution for each key: the lock "once/KEY", and beside it the result.
 *
 *   look --found--> done
 *    ^ '--nothing--> try the lock --taken--> look again --found--> give the lock back, done
 *    |                  |                        '--nothing--> run, store, release
 *    |                  '--busy--> wait, sharing the lock with all others who wait; the second time wait for it alone
 *    '---------------------------------------------'
 *
 * Those who wait take the lock shared: when the runner is done they have it all at once, and not one after another.
 * If there is no result even then they stand in line to run: who shares is in the way of who tries, and many would
 * try for ever. */
#include <pawl/once.h>

#include <stdlib.h>
#include <string.h>

#include "once_record.h"
#include "recipe.h"

#define KEEP_A_DAY (INT64_C(24) * 3600 * 1000)
#define KEEP_MAX (366 * KEEP_A_DAY)

static int check_options(const struct pawl_once_options *theirs, struct pawl_once_options *options)
{
        int code = RECIPE_OPTIONS(options, theirs, "PAWL_ONCE");

        if (code == PAWL_OK && options->flags)
                return recipe_fail(options->why, PAWL_UNSUPPORTED, "flags are not known to this version");
        if (code == PAWL_OK && (options->keep_ms < -1 || options->keep_ms > KEEP_MAX))
                return recipe_fail(options->why, PAWL_INVALID,
                                   "a result is kept for up to 366 days, for a day (0) or for ever (-1)");
        return code;
}

int pawl_once_name(const char *key, char *name)
{
        return name ? recipe_name("once", key, name, NULL) : PAWL_INVALID;
}

/* ---- results ----------------------------------------------------------------------------------------------------- */

static const char no_place[] = "there is no place for the result: it is NULL";
static const char nothing_kept[] = "no result is kept under this key";

static int look(pawl_client *client, const char *name, struct pawl_why *why, struct pawl_result *result)
{
        struct pawl_value value;
        int code = pawl_fetch(client, name, &value);

        if (code != PAWL_OK)
                return code == PAWL_NOT_FOUND ? code : recipe_explain(why, client, code);
        *result = (struct pawl_result){.data = value.data, .token = value.token, .stored_us = value.stored_us};
        if (once_record_read(value.data, value.size, &result->status, &result->flags, &result->size))
                return PAWL_OK;
        free(value.data);
        return recipe_fail(why, PAWL_CORRUPT, "what is kept under this key is not a result of pawl_once");
}

int pawl_once_look(pawl_client *client, const char *key, struct pawl_why *why, struct pawl_result *result)
{
        char name[PAWL_NAME_MAX + 1];
        int code = result ? recipe_name("once", key, name, why) : recipe_fail(why, PAWL_INVALID, no_place);

        if (code == PAWL_OK)
                code = look(client, name, why, result);
        return code == PAWL_NOT_FOUND ? recipe_fail(why, code, nothing_kept) : code;
}

/* Into room that holds a header and the data. */
static int store(pawl_lock *lock, const struct pawl_result *result, int64_t keep_ms)
{
        char *record;
        size_t size;
        int code;

        if (result->size > PAWL_RESULT_MAX || (result->size && !result->data) || result->flags > ONCE_FLAGS_MAX)
                return PAWL_INVALID;
        record = malloc(ONCE_HEAD_MAX + result->size);
        if (!record)
                return PAWL_NO_MEMORY;
        size = once_record_write(record, result->status, result->flags, result->data, result->size);
        code = pawl_store(lock, record, size, keep_ms == 0 ? KEEP_A_DAY : keep_ms < 0 ? 0 : keep_ms);
        free(record);
        return code;
}

int pawl_once_finish(pawl_lock *lock, const struct pawl_result *result, int64_t keep_ms)
{
        int code = result ? store(lock, result, keep_ms) : PAWL_INVALID;

        (void)pawl_release(lock); /* what counts is the result: an unconfirmed release is finished behind us */
        return code;
}

/* ---- who runs ---------------------------------------------------------------------------------------------------- */

static int take_alone(pawl_client *client, const char *name, const struct pawl_once_options *options, int64_t wait_ms,
                      pawl_lock **lock)
{
        return pawl_acquire(client, name,
                            PAWL_LOCK(.flags = PAWL_BRIEF, .wait_ms = wait_ms, .ttl_ms = options->ttl_ms,
                                      .note = options->note, .on_lost = options->on_lost, .arg = options->arg,
                                      .why = options->why),
                            lock);
}

static int another_is_at_it(const struct pawl_once_options *options)
{
        return recipe_fail(options->why, options->wait_ms == PAWL_NO_WAIT ? PAWL_BUSY : PAWL_TIMEOUT,
                           "another one is at it");
}

/* Until whoever has the lock gives it back, or loses it. */
static int wait_with_others(pawl_client *client, const char *name, const struct pawl_once_options *options,
                            int64_t deadline)
{
        int64_t left = recipe_left(deadline);

        if (left == PAWL_NO_WAIT)
                return another_is_at_it(options);
        return recipe_outwait(client, name, left, options->why);
}

/* The lock is ours: is there still nothing? */
static int look_alone(pawl_client *client, const char *name, struct pawl_why *why, struct pawl_result *result,
                      pawl_lock **lock)
{
        int code = look(client, name, why, result);

        if (code == PAWL_NOT_FOUND)
                return PAWL_OK;
        (void)pawl_release(*lock);
        *lock = NULL;
        return code;
}

static int begin(pawl_client *client, const char *name, const struct pawl_once_options *options,
                 struct pawl_result *result, pawl_lock **lock)
{
        int64_t deadline = recipe_deadline(options->wait_ms);
        int64_t wait_ms = PAWL_NO_WAIT;
        int code;

        *lock = NULL;
        for (bool waited = false;; waited = true) {
                code = look(client, name, options->why, result);
                if (code != PAWL_NOT_FOUND)
                        return code;
                code = take_alone(client, name, options, wait_ms, lock);
                if (code == PAWL_OK)
                        return look_alone(client, name, options->why, result, lock);
                if (code == PAWL_BUSY)
                        code = waited ? another_is_at_it(options) : wait_with_others(client, name, options, deadline);
                if (code != PAWL_OK)
                        return code;
                wait_ms = recipe_left(deadline);
        }
}

/* What all of them begin with. */
static int prepare(pawl_client *client, const char *key, const struct pawl_once_options *theirs,
                   struct pawl_once_options *options, char name[PAWL_NAME_MAX + 1])
{
        int code = check_options(theirs, options);

        if (code == PAWL_OK)
                code = recipe_name("once", key, name, options->why);
        if (code == PAWL_OK)
                code = recipe_needs(client, PAWL_CAN_KEEP, options->why, "this engine keeps nothing beside its locks");
        return code;
}

int pawl_once_begin(pawl_client *client, const char *key, const struct pawl_once_options *theirs,
                    struct pawl_result *result, pawl_lock **lock)
{
        struct pawl_once_options options;
        char name[PAWL_NAME_MAX + 1];
        struct pawl_result found;
        pawl_lock *got;
        int code;

        code = prepare(client, key, theirs, &options, name);
        if (code == PAWL_OK && (!result || !lock))
                code = recipe_fail(options.why, PAWL_INVALID, "there is no place for the result, or for the lock");
        if (code == PAWL_OK)
                code = begin(client, name, &options, &found, &got);
        if (code != PAWL_OK)
                return code;
        *lock = got;
        if (!got)
                *result = found;
        return PAWL_OK;
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

/* As everybody else will read it: with a NUL behind. What cannot be kept is left to be refused. */
static bool end_with_nul(struct pawl_result *result)
{
        char *data;

        if (result->size > PAWL_RESULT_MAX || (result->size && !result->data))
                return true;
        data = realloc(result->data, result->size + 1);

        if (!data)
                return false;
        data[result->size] = '\0';
        result->data = data;
        return true;
}

/* What it ended with is its own business; whose code it is must be said. */
static int give_up(pawl_lock *lock, const struct pawl_once_options *options, int code)
{
        recipe_why(options->why, code,
                   "the function that was run for \"%s\" returned %d (%s): nothing is kept, the next caller runs",
                   pawl_name(lock), code, pawl_strerror(code));
        (void)pawl_release(lock);
        return code;
}

static int explain_finish(pawl_client *client, const struct pawl_once_options *options, int code)
{
        if (code == PAWL_INVALID)
                return recipe_fail(options->why, code,
                                   "the function that was run gave a result that cannot be kept: more than 65472 "
                                   "bytes, a size without data, or flags of more than 16 bits");
        return recipe_explain(options->why, client, code);
}

/* *overtaken: it was done, and the lock was lost before the result was kept. */
static int execute(pawl_client *client, pawl_lock *lock, const struct pawl_once_options *options, pawl_once_fn *fn,
                   void *arg, struct pawl_result *result, bool *overtaken)
{
        uint64_t token = pawl_token(lock);
        int code;

        *result = (struct pawl_result){0};
        *overtaken = false;
        code = fn(lock, result, arg);
        if (code != PAWL_OK)
                return give_up(lock, options, code);
        result->token = token;
        code = pawl_once_finish(lock, result, options->keep_ms);
        *overtaken = code == PAWL_LOST;
        if (code == PAWL_OK && !end_with_nul(result))
                code = PAWL_NO_MEMORY; /* for us: it is kept, and found by who asks again */
        return code == PAWL_OK ? code : explain_finish(client, options, code);
}

int pawl_once(pawl_client *client, const char *key, const struct pawl_once_options *theirs, pawl_once_fn *fn, void *arg,
              struct pawl_result *out)
{
        struct pawl_once_options options;
        char name[PAWL_NAME_MAX + 1];
        struct pawl_result result;
        bool overtaken;
        pawl_lock *lock;
        int code;

        code = prepare(client, key, theirs, &options, name);
        if (code == PAWL_OK && (!fn || !out))
                code = recipe_fail(options.why, PAWL_INVALID,
                                   "there is no function to run, or no place for its result");
        while (code == PAWL_OK) {
                code = begin(client, name, &options, &result, &lock);
                if (code != PAWL_OK || !lock)
                        break;
                code = execute(client, lock, &options, fn, arg, &result, &overtaken);
                if (code == PAWL_OK)
                        break;
                free(result.data);
                if (overtaken) /* the other's result is ours too */
                        code = PAWL_OK;
        }
        if (code == PAWL_OK)
                *out = result;
        return code;
}

int pawl_once_forget(pawl_client *client, const char *key, const struct pawl_once_options *theirs)
{
        struct pawl_once_options options;
        char name[PAWL_NAME_MAX + 1];
        struct pawl_result result;
        pawl_lock *lock;
        int code = prepare(client, key, theirs, &options, name);

        if (code == PAWL_OK)
                code = pawl_acquire(client, name,
                                    PAWL_LOCK(.wait_ms = options.wait_ms, .ttl_ms = options.ttl_ms, .why = options.why),
                                    &lock);
        if (code != PAWL_OK)
                return code;
        code = look(client, name, options.why, &result);
        if (code == PAWL_NOT_FOUND)
                recipe_fail(options.why, code, nothing_kept);
        if (code == PAWL_OK || code == PAWL_CORRUPT) {
                if (code == PAWL_OK)
                        free(result.data);
                code = pawl_store(lock, NULL, 0, 0);
                if (code != PAWL_OK)
                        recipe_explain(options.why, client, code);
        }
        (void)pawl_release(lock);
        return code;
}
