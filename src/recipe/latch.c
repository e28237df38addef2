/* latch.c - a number beside the lock "latch/NAME" that is counted down to 0. */
#include <pawl/barrier.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "recipe.h"

static const char magic[] = "pawl-latch 1 ";

static int prepare(pawl_client *client, const char *name, const struct pawl_barrier_options *theirs,
                   struct pawl_barrier_options *options, char room[PAWL_NAME_MAX + 1])
{
        int code = RECIPE_OPTIONS(options, theirs, "PAWL_BARRIER");

        if (code == PAWL_OK && (options->flags || options->wait_ms < 0))
                return recipe_fail(options->why, PAWL_INVALID, "no flags are known, and a wait is not negative");
        if (code == PAWL_OK)
                code = recipe_name("latch", name, room, options->why);
        if (code == PAWL_OK)
                code = recipe_needs(client, PAWL_CAN_KEEP, options->why, "this engine keeps nothing beside its locks");
        return code;
}

static int read_count(pawl_client *client, const char *name, uint32_t *count)
{
        struct pawl_value value;
        uint64_t number = 0;
        int code = pawl_fetch(client, name, &value);
        bool good;

        if (code != PAWL_OK)
                return code;
        good = recipe_read_number(value.data, value.size, magic, UINT32_MAX, &number);
        *count = (uint32_t)number;
        free(value.data);
        return good ? PAWL_OK : PAWL_CORRUPT;
}

static int explain(pawl_client *client, const struct pawl_barrier_options *options, int code)
{
        if (code == PAWL_CORRUPT)
                return recipe_fail(options->why, code, "what is kept under this name is not a latch");
        return recipe_explain(options->why, client, code);
}

static int count_down(pawl_client *client, pawl_lock *lock, uint32_t total, uint32_t steps, uint32_t *left)
{
        uint32_t count;
        char text[64];
        int length, code = read_count(client, pawl_name(lock), &count);

        if (code == PAWL_NOT_FOUND) {
                count = total;
                code = PAWL_OK;
        }
        if (code != PAWL_OK)
                return code;
        *left = count > steps ? count - steps : 0;
        length = snprintf(text, sizeof(text), "%s%" PRIu32, magic, *left);
        return pawl_store(lock, text, (size_t)length, 0);
}

static int take(pawl_client *client, const char *name, const struct pawl_barrier_options *options, pawl_lock **lock)
{
        return pawl_acquire(client, name,
                            PAWL_LOCK(.wait_ms = options->wait_ms, .ttl_ms = options->ttl_ms, .why = options->why),
                            lock);
}

int pawl_latch_down(pawl_client *client, const char *name, uint32_t total, uint32_t steps,
                    const struct pawl_barrier_options *theirs, uint32_t *out)
{
        struct pawl_barrier_options options;
        char room[PAWL_NAME_MAX + 1];
        uint32_t left = 0;
        pawl_lock *lock;
        int code = prepare(client, name, theirs, &options, room);

        if (code == PAWL_OK && (!total || !steps))
                code = recipe_fail(options.why, PAWL_INVALID, "a latch counts down from 1 or more, by 1 or more");
        if (code == PAWL_OK)
                code = take(client, room, &options, &lock);
        if (code != PAWL_OK)
                return code;
        code = count_down(client, lock, total, steps, &left);
        (void)pawl_release(lock);
        if (code != PAWL_OK)
                return explain(client, &options, code);
        if (out)
                *out = left;
        return PAWL_OK;
}

int pawl_latch_wait(pawl_client *client, const char *name, const struct pawl_barrier_options *theirs)
{
        struct pawl_barrier_options options;
        struct recipe_pause pause = {.client = client};
        char room[PAWL_NAME_MAX + 1];
        uint32_t count = 0;
        int code = prepare(client, name, theirs, &options, room);

        pause.deadline = code == PAWL_OK ? recipe_deadline(options.wait_ms) : 0;
        while (code == PAWL_OK) {
                code = read_count(client, room, &count);
                if (code == PAWL_OK && count == 0)
                        return PAWL_OK;
                if (code != PAWL_OK && code != PAWL_NOT_FOUND)
                        return explain(client, &options, code);
                code = recipe_pause(&pause) ? PAWL_OK
                                            : recipe_fail(options.why, PAWL_TIMEOUT, "it is not at 0 in time");
        }
        return code;
}

int pawl_latch_forget(pawl_client *client, const char *name, const struct pawl_barrier_options *theirs)
{
        struct pawl_barrier_options options;
        char room[PAWL_NAME_MAX + 1];
        pawl_lock *lock;
        int code = prepare(client, name, theirs, &options, room);

        if (code == PAWL_OK)
                code = take(client, room, &options, &lock);
        if (code != PAWL_OK)
                return code;
        code = pawl_store(lock, NULL, 0, 0);
        (void)pawl_release(lock);
        return code == PAWL_OK ? code : recipe_explain(options.why, client, code);
}
