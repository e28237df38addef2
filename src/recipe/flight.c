/* flight.c - one builds, the others wait or use what is old: the lock "flight/KEY", and beside it the value. Those
 * who wait share the lock, so that they have it all at once when the builder is done. If there is no value even
 * then they stand in line to build, for who shares is in the way of who tries. */
#include <pawl/flight.h>

#include <stdlib.h>
#include <string.h>

#include "recipe.h"

enum { US_PER_MS = 1000 };

#define FRESH_MS 60000
#define KEEP_MAX_MS (INT64_C(366) * 24 * 3600 * 1000)

struct flight {
        pawl_client *client;
        char name[PAWL_NAME_MAX + 1];
        struct pawl_flight_options options;
        int64_t deadline;
        pawl_build_fn *build;
        void *arg;
};

enum age { AGE_FRESH, AGE_STALE, AGE_NONE };

static int prepare(struct flight *flight, pawl_client *client, const char *key,
                   const struct pawl_flight_options *theirs)
{
        struct pawl_flight_options *options = &flight->options;
        int code = RECIPE_OPTIONS(options, theirs, "PAWL_FLIGHT");

        if (code == PAWL_OK && options->flags)
                return recipe_fail(options->why, PAWL_UNSUPPORTED, "flags are not known to this version");
        if (code != PAWL_OK)
                return code;
        if (options->fresh_ms == 0)
                options->fresh_ms = FRESH_MS;
        if (options->fresh_ms < 0 || options->fresh_ms > KEEP_MAX_MS / 2 || options->stale_ms < 0 ||
            options->stale_ms > KEEP_MAX_MS / 2)
                return recipe_fail(options->why, PAWL_INVALID, "fresh_ms and stale_ms are at most half a year each");
        if (options->wait_ms < PAWL_NO_WAIT || options->wait_ms > KEEP_MAX_MS)
                return recipe_fail(options->why, PAWL_INVALID,
                                   "a wait is PAWL_FOREVER, PAWL_NO_WAIT or below 366 days");
        flight->client = client;
        flight->deadline = recipe_deadline(options->wait_ms);
        code = recipe_name("flight", key, flight->name, options->why);
        return code == PAWL_OK
                       ? recipe_needs(client, PAWL_CAN_KEEP, options->why, "this engine keeps nothing beside its locks")
                       : code;
}

/* What is kept, and how old it is. A clock that differs from the writer's may make it look younger than nothing: fresh,
 * too. */
static int look(const struct flight *flight, enum age *age, struct pawl_value *value)
{
        int code = pawl_fetch(flight->client, flight->name, value);
        int64_t old_ms;

        *age = AGE_NONE;
        if (code == PAWL_NOT_FOUND)
                return PAWL_OK;
        if (code != PAWL_OK)
                return recipe_explain(flight->options.why, flight->client, code);
        old_ms = (value->now_us - value->stored_us) / US_PER_MS;
        if (old_ms < flight->options.fresh_ms)
                *age = AGE_FRESH;
        else if (old_ms < flight->options.fresh_ms + flight->options.stale_ms)
                *age = AGE_STALE;
        else
                free(value->data);
        return PAWL_OK;
}

static int another_builds_it(const struct flight *flight)
{
        return recipe_fail(flight->options.why, flight->options.wait_ms == PAWL_NO_WAIT ? PAWL_BUSY : PAWL_TIMEOUT,
                           "another one is building it");
}

static int wait_with_others(const struct flight *flight)
{
        int64_t left = recipe_left(flight->deadline);

        if (left == PAWL_NO_WAIT)
                return another_builds_it(flight);
        return recipe_outwait(flight->client, flight->name, left, flight->options.why);
}

/* With the lock: the value, and its copy in the store. */
static int build(const struct flight *flight, pawl_lock *lock, struct pawl_value *value)
{
        int64_t keep_ms = flight->options.fresh_ms + flight->options.stale_ms;
        struct pawl_value built = {.token = pawl_token(lock)};
        char *whole = NULL;
        int code = flight->build(lock, &built.data, &built.size, flight->arg);

        if (code != PAWL_OK) {
                recipe_why(flight->options.why, code,
                           "the function that builds \"%s\" returned %d (%s): nothing is kept, the next caller builds",
                           flight->name, code, pawl_strerror(code));
        } else if (!built.data || !built.size) {
                code = recipe_fail(flight->options.why, PAWL_INVALID,
                                   "the function that builds the value gave none: it has at least one byte");
        } else {
                whole = realloc(built.data, built.size + 1);
                code = whole ? PAWL_OK : recipe_fail(flight->options.why, PAWL_NO_MEMORY, "out of memory");
                built.data = whole ? whole : built.data;
        }
        if (code != PAWL_OK) {
                free(built.data);
                return code;
        }
        whole[built.size] = '\0';
        /* What was built is good whether or not others get it from us. */
        (void)!pawl_store(lock, built.data, built.size, keep_ms);
        *value = built;
        return PAWL_OK;
}

/* With the lock: another one may have built it while we came to it. */
static int build_unless_built(const struct flight *flight, pawl_lock *lock, struct pawl_value *value)
{
        enum age age;
        int code = look(flight, &age, value);

        if (code == PAWL_OK && age == AGE_STALE)
                free(value->data);
        if (code == PAWL_OK && age != AGE_FRESH)
                code = build(flight, lock, value);
        (void)pawl_release(lock);
        return code;
}

static int take_alone(const struct flight *flight, int64_t wait_ms, pawl_lock **lock)
{
        return pawl_acquire(flight->client, flight->name,
                            PAWL_LOCK(.flags = PAWL_BRIEF, .wait_ms = wait_ms, .ttl_ms = flight->options.ttl_ms,
                                      .why = flight->options.why),
                            lock);
}

static int run(const struct flight *flight, struct pawl_value *value)
{
        int64_t wait_ms = PAWL_NO_WAIT;
        struct pawl_value old;
        pawl_lock *lock;
        enum age age;
        int code;

        for (bool waited = false;; waited = true) {
                code = look(flight, &age, &old);
                if (code != PAWL_OK)
                        return code;
                if (age != AGE_FRESH)
                        code = take_alone(flight, age == AGE_STALE ? PAWL_NO_WAIT : wait_ms, &lock);
                if (age == AGE_FRESH || (age == AGE_STALE && code == PAWL_BUSY)) {
                        *value = old;
                        return PAWL_OK;
                }
                if (age == AGE_STALE)
                        free(old.data);
                if (code == PAWL_OK)
                        return build_unless_built(flight, lock, value);
                if (code == PAWL_BUSY)
                        code = waited ? another_builds_it(flight) : wait_with_others(flight);
                if (code != PAWL_OK)
                        return code;
                wait_ms = recipe_left(flight->deadline);
        }
}

int pawl_flight(pawl_client *client, const char *key, const struct pawl_flight_options *theirs, pawl_build_fn *fn,
                void *arg, struct pawl_value *out)
{
        struct flight flight = {.build = fn, .arg = arg};
        struct pawl_value value;
        int code;

        code = prepare(&flight, client, key, theirs);
        if (code == PAWL_OK && (!fn || !out))
                code = recipe_fail(flight.options.why, PAWL_INVALID,
                                   "there is no function that builds the value, or no place for it");
        if (code == PAWL_OK)
                code = run(&flight, &value);
        if (code == PAWL_OK)
                *out = value;
        return code;
}

int pawl_flight_forget(pawl_client *client, const char *key, const struct pawl_flight_options *theirs)
{
        struct flight flight = {0};
        pawl_lock *lock;
        int code = prepare(&flight, client, key, theirs);

        if (code == PAWL_OK)
                code = pawl_acquire(client, flight.name,
                                    PAWL_LOCK(.wait_ms = flight.options.wait_ms, .ttl_ms = flight.options.ttl_ms,
                                              .why = flight.options.why),
                                    &lock);
        if (code != PAWL_OK)
                return code;
        code = pawl_store(lock, NULL, 0, 0);
        (void)pawl_release(lock);
        return code == PAWL_OK ? code : recipe_explain(flight.options.why, client, code);
}
