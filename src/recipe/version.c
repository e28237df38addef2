/* version.c - read, change, and write if the version is still the same; see pawl/version.h. */
#include <pawl/version.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "recipe.h"
#include "when.h"

enum { DEFAULT_WAIT_MS = 10000, MS_NS = 1000000, LEAST_PAUSE_NS = MS_NS, MOST_PAUSE_NS = 256 * MS_NS };

struct update {
        pawl_guard *guard;
        const char *resource;
        pawl_change_fn *fn;
        void *arg;
        int64_t until;
        uint32_t tries_max; /* 0: any number */
        uint32_t tries;
        struct pawl_why why; /* of the last call that failed */
};

int pawl_change_to(struct pawl_change *change, const void *data, size_t size)
{
        char *bytes;

        if (!change || (!data && size > 0) || size == SIZE_MAX)
                return PAWL_INVALID;
        bytes = malloc(size + 1);
        if (!bytes)
                return PAWL_NO_MEMORY;
        if (size > 0)
                memcpy(bytes, data, size);
        bytes[size] = '\0';
        free(change->next);
        change->next = bytes;
        change->next_size = size;
        return PAWL_OK;
}

/* Any time up to a ceiling that doubles (full jitter): whoever met once does not meet again. False if it would end too
 * late. */
static bool pause_before(const struct update *update, uint32_t number)
{
        int64_t ceiling = number < 8 ? (int64_t)LEAST_PAUSE_NS << number : MOST_PAUSE_NS;
        int64_t pause = (int64_t)(when_random() % (uint64_t)(ceiling + 1));

        if (when_now() + pause >= update->until)
                return false;
        when_sleep(pause);
        return true;
}

static int swap(struct update *update, const struct pawl_change *change, uint64_t id, uint32_t flags)
{
        return pawl_guard_swap_as(update->guard, update->resource, change->version, change->next, change->next_size,
                                  PAWL_SWAP(.id = id, .flags = flags, .why = &update->why), NULL);
}

/* ---- a lost answer ----------------------------------------------------------------------------------------------- */

/* Others have changed it more than once since: nothing tells any more whether ours was among them. */
static bool has_moved_on(struct update *update, const struct pawl_change *change)
{
        struct pawl_guard_data data = {0};
        int code = pawl_guard_look(update->guard, update->resource, NULL, &data);

        free(data.bytes);
        return (code == PAWL_OK || code == PAWL_NOT_FOUND) && data.token != change->version &&
               data.token != change->version + 1;
}

/* Until it is known what became of the swap. The change itself is not made anew before: it may have been done. */
static int settle(struct update *update, const struct pawl_change *change, uint64_t id)
{
        struct pawl_why doubt = update->why;

        for (uint32_t number = 0; number == 0 || pause_before(update, number); number++) {
                int code = swap(update, change, id, PAWL_SWAP_AGAIN);

                if (code == PAWL_OK || code == PAWL_STALE)
                        return code;
                if (has_moved_on(update, change))
                        break;
        }
        return recipe_why(&update->why, PAWL_IN_DOUBT, "whether \"%.255s\" was changed is not known: %.200s",
                          update->resource, doubt.text);
}

/* ---- one try ----------------------------------------------------------------------------------------------------- */

static int write_change(struct update *update, const struct pawl_change *change)
{
        uint64_t id = when_random() | 1; /* not 0 */
        int code = swap(update, change, id, 0);

        return code == PAWL_IN_DOUBT ? settle(update, change, id) : code;
}

/* *again: another one was faster. */
static int try_once(struct update *update, uint64_t *version, bool *again)
{
        struct pawl_guard_data data = {0};
        struct pawl_change change;
        int code = pawl_guard_look(update->guard, update->resource, &update->why, &data);

        *again = false;
        if (code != PAWL_OK && code != PAWL_NOT_FOUND)
                return code;
        change = (struct pawl_change){
                .old = data.bytes, .old_size = data.size, .version = data.token, .number = ++update->tries};
        code = update->fn(&change, update->arg);
        if (code != PAWL_OK)
                recipe_why(&update->why, code, "the change of \"%.255s\" was ended by its own function",
                           update->resource);
        *version = data.token;
        if (code == PAWL_OK && change.next) {
                code = write_change(update, &change);
                *version = data.token + 1;
                *again = code == PAWL_STALE;
        }
        free(change.next);
        free(data.bytes);
        return code;
}

static bool may_try_again(const struct update *update)
{
        if (update->tries_max > 0 && update->tries >= update->tries_max)
                return false;
        return pause_before(update, update->tries);
}

static int run(struct update *update, uint64_t *version)
{
        bool again;
        int code;

        do
                code = try_once(update, version, &again);
        while (again && may_try_again(update));
        if (again)
                return recipe_why(&update->why, code,
                                  "others have changed \"%.255s\" in the middle of each of %u tries", update->resource,
                                  update->tries);
        return code;
}

int pawl_update(pawl_guard *guard, const char *resource, pawl_change_fn *fn, void *arg,
                const struct pawl_update_options *options, uint64_t *version)
{
        struct update update = {.guard = guard, .resource = resource, .fn = fn, .arg = arg};
        struct pawl_update_options mine;
        uint64_t made;
        int code = RECIPE_OPTIONS(&mine, options, "PAWL_UPDATE");

        if (code != PAWL_OK)
                return code;
        if (mine.flags)
                return recipe_fail(mine.why, PAWL_UNSUPPORTED, "flags are not known to this version");
        if (!fn)
                return recipe_why(mine.why, PAWL_INVALID, "there is no function that changes the data: it is NULL");
        update.until = when_now() + (int64_t)(mine.wait_ms ? mine.wait_ms : DEFAULT_WAIT_MS) * MS_NS;
        update.tries_max = mine.tries;
        code = run(&update, &made);
        if (code == PAWL_OK && version)
                *version = made;
        if (code != PAWL_OK && mine.why)
                *mine.why = update.why;
        return code;
}
