/* limit.c - a token bucket as one number: the time at which the bucket will be full again (the generic cell rate algorithm).
 *
 *   full_at                    a permit moves it on by interval = per / rate, from now at the earliest;
 *   now <= full_at - burst     the bucket is empty: the permit counts from the moment when that is no longer so
 *
 * It is kept beside the lock "limit/NAME" until the bucket is full, and then nobody needs it any more. */
#include <pawl/limit.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recipe.h"

enum { US = 1000, COUNTING_MS = 500 };

/* Long enough to be read back, for the first who asks for a bucket that nobody keeps. */
#define KEEP_AT_LEAST_MS 10000
#define COUNT_MAX INT64_C(1000000000)
#define PER_MAX_MS (INT64_C(366) * 24 * 3600 * 1000)
/* ns since 1970, and so far from the last that can be told that a full bucket can be added. */
#define FULL_AT_MAX (INT64_MAX - PER_MAX_MS * RECIPE_MS)

static const char magic[] = "pawl-limit 1 ";

struct bucket {
        char name[PAWL_NAME_MAX + 1];
        int64_t interval; /* ns for one permit; rounded up, so that the rate is never above what was asked for */
        int64_t depth;    /* ns for all of them */
        int64_t cost;     /* ns for what this call wants */
        int64_t wait;     /* ns; at most so long */
};

/* ---- what is asked for ------------------------------------------------------------------------------------------- */

static int check_options(struct pawl_limit_options *options)
{
        if (options->flags)
                return recipe_fail(options->why, PAWL_UNSUPPORTED, "flags are not known to this version");
        if (options->per_ms == 0)
                options->per_ms = 1000;
        if (options->burst == 0)
                options->burst = options->rate;
        if (options->permits == 0)
                options->permits = 1;
        if (options->rate < 1 || options->rate > COUNT_MAX || options->burst < 1 || options->burst > COUNT_MAX)
                return recipe_fail(options->why, PAWL_INVALID, "rate and burst are between 1 and 1000000000");
        if (options->per_ms < 1 || options->per_ms > PER_MAX_MS)
                return recipe_fail(options->why, PAWL_INVALID, "a rate is for 1 ms to 366 days");
        if (options->permits < 1 || options->permits > options->burst)
                return recipe_fail(options->why, PAWL_INVALID,
                                   "so many permits are never there at once: burst is the most");
        if (options->wait_ms < PAWL_NO_WAIT || options->wait_ms > PER_MAX_MS)
                return recipe_fail(options->why, PAWL_INVALID,
                                   "a wait is PAWL_FOREVER, PAWL_NO_WAIT or below 366 days");
        return PAWL_OK;
}

static int read_bucket(const struct pawl_limit_options *options, struct bucket *bucket)
{
        int64_t per = options->per_ms * RECIPE_MS;

        bucket->interval = (per + options->rate - 1) / options->rate;
        if (bucket->interval > (PER_MAX_MS * RECIPE_MS) / options->burst)
                return recipe_fail(options->why, PAWL_INVALID, "a full bucket would last longer than 366 days");
        bucket->depth = options->burst * bucket->interval;
        bucket->cost = options->permits * bucket->interval;
        bucket->wait = options->wait_ms == PAWL_FOREVER   ? RECIPE_NEVER
                       : options->wait_ms == PAWL_NO_WAIT ? 0
                                                          : options->wait_ms * RECIPE_MS;
        return PAWL_OK;
}

/* ---- what is kept ------------------------------------------------------------------------------------------------ */

static int keep(pawl_lock *lock, int64_t full_at, int64_t for_ns)
{
        char text[64];
        int length = snprintf(text, sizeof(text), "%s%" PRId64, magic, full_at);
        int64_t for_ms = for_ns / RECIPE_MS + KEEP_AT_LEAST_MS;

        return pawl_store(lock, text, (size_t)length, for_ms < PER_MAX_MS ? for_ms : PER_MAX_MS);
}

static int fetch(pawl_client *client, const char *name, int64_t *now, int64_t *full_at)
{
        struct pawl_value value;
        uint64_t number = 0;
        int code = pawl_fetch(client, name, &value);
        bool good;

        if (code != PAWL_OK)
                return code;
        *now = value.now_us * US;
        good = recipe_read_number(value.data, value.size, magic, FULL_AT_MAX, &number);
        *full_at = (int64_t)number;
        free(value.data);
        return good ? PAWL_OK : PAWL_CORRUPT;
}

/* The store's time, and when the bucket is full. Nothing is kept of a full one: then something must be, to be told the
 * time. */
static int look(pawl_client *client, pawl_lock *lock, int64_t *now, int64_t *full_at)
{
        const char *name = pawl_name(lock);
        int code = fetch(client, name, now, full_at);

        if (code != PAWL_NOT_FOUND)
                return code;
        code = keep(lock, 0, 0);
        return code == PAWL_OK ? fetch(client, name, now, full_at) : code;
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */

/* With the lock: takes what is wanted if it is there in time. */
static int take(pawl_client *client, pawl_lock *lock, const struct bucket *bucket, struct pawl_permit *permit,
                int64_t *wait)
{
        int64_t now, full_at;
        int code = look(client, lock, &now, &full_at);

        if (code != PAWL_OK)
                return code;
        if (full_at < now)
                full_at = now;
        full_at += bucket->cost;
        *wait = full_at - bucket->depth - now;
        if (*wait < 0)
                *wait = 0;
        *permit = (struct pawl_permit){.at_us = (now + *wait) / US, .wait_ms = (*wait + RECIPE_MS - 1) / RECIPE_MS};
        if (*wait > bucket->wait || full_at > FULL_AT_MAX)
                return bucket->wait ? PAWL_TIMEOUT : PAWL_BUSY;
        return keep(lock, full_at, full_at - now);
}

/* Others have it for moments, in which they count: also a caller that waits for no permit waits for these, or it would be
 * refused one that is there. But one of them may have died or be stopped, so not for long. */
static int take_lock(pawl_client *client, const struct bucket *bucket, const struct pawl_limit_options *options,
                     int64_t deadline, struct pawl_permit *permit, pawl_lock **lock)
{
        bool no_wait = options->wait_ms == PAWL_NO_WAIT;
        int64_t wait_ms = no_wait ? COUNTING_MS : recipe_left(deadline);
        int code = pawl_acquire(
                client, bucket->name,
                PAWL_LOCK(.flags = PAWL_BRIEF, .wait_ms = wait_ms, .ttl_ms = options->ttl_ms, .why = options->why),
                lock);

        if (code != PAWL_TIMEOUT && code != PAWL_BUSY)
                return code;
        permit->wait_ms = no_wait ? 0 : options->wait_ms;
        return recipe_fail(options->why, no_wait ? PAWL_BUSY : PAWL_TIMEOUT,
                           "the bucket is not to be had in time: another one has it");
}

static int reserve(pawl_client *client, const struct bucket *bucket, const struct pawl_limit_options *options,
                   int64_t deadline, struct pawl_permit *permit, int64_t *wait)
{
        pawl_lock *lock;
        int code = take_lock(client, bucket, options, deadline, permit, &lock);

        if (code != PAWL_OK)
                return code;
        code = take(client, lock, bucket, permit, wait);
        (void)pawl_release(lock);
        if (code == PAWL_BUSY || code == PAWL_TIMEOUT)
                return recipe_fail(options->why, code, "the rate is used up");
        if (code == PAWL_CORRUPT)
                return recipe_fail(options->why, code, "what is kept under this name is not a bucket of pawl_limit");
        return code == PAWL_OK ? code : recipe_explain(options->why, client, code);
}

int pawl_limit(pawl_client *client, const char *name, const struct pawl_limit_options *theirs,
               struct pawl_permit *permit)
{
        struct pawl_limit_options options;
        struct pawl_permit got = {0};
        struct bucket bucket;
        int64_t deadline, wait = 0;
        int code = RECIPE_OPTIONS(&options, theirs, "PAWL_LIMIT");

        if (code == PAWL_OK)
                code = check_options(&options);
        if (code == PAWL_OK)
                code = read_bucket(&options, &bucket);
        if (code == PAWL_OK)
                code = recipe_name("limit", name, bucket.name, options.why);
        if (code == PAWL_OK)
                code = recipe_needs(client, PAWL_CAN_KEEP, options.why, "this engine keeps nothing beside its locks");
        deadline = code == PAWL_OK ? recipe_deadline(options.wait_ms) : 0;
        while (code == PAWL_OK) {
                code = reserve(client, &bucket, &options, deadline, &got, &wait);
                if (code != PAWL_LOST) /* the lock ran out while we counted: nothing was taken */
                        break;
                code = PAWL_OK;
        }
        if (permit && (code == PAWL_OK || code == PAWL_BUSY || code == PAWL_TIMEOUT))
                *permit = got;
        if (code == PAWL_OK)
                recipe_sleep(client, wait + wait / 100); /* our clock may be the faster one */
        return code;
}
