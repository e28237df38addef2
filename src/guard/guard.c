/* guard.c - the public calls: what every guard would have to check is checked here. */
#include "guard.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "../base/module.h"
#include "../base/name.h"
#include "../base/options.h"

/* Which scheme is which guard. */
static const struct row {
        const char *scheme;
        const struct guard_ops *ops; /* NULL: in a module */
        const char *module;          /* pawl-MODULE.so */
        const char *missing;         /* said when the module is not there */
} rows[] = {
        {"file", &file_guard, NULL, NULL},
        {"mem", &memory_guard, NULL, NULL},
        {"sqlite", NULL, "sqlite", MODULE_MISSING("sqlite", "pawl-sqlite", BUILT_WITH("libsqlite3-dev"))},
        {"postgres", NULL, "postgres",
         MODULE_MISSING("postgres", "pawl-postgres", BUILT_WITH("libpq-dev and libssl-dev"))},
        {"postgresql", NULL, "postgres",
         MODULE_MISSING("postgres", "pawl-postgres", BUILT_WITH("libpq-dev and libssl-dev"))},
        {"redis", NULL, "redis", MODULE_MISSING("redis", "pawl-redis", BUILT_WITH("libhiredis-dev and libssl-dev"))},
        {"rediss", NULL, "redis", MODULE_MISSING("redis", "pawl-redis", BUILT_WITH("libhiredis-dev and libssl-dev"))},
        {"redis+unix", NULL, "redis",
         MODULE_MISSING("redis", "pawl-redis", BUILT_WITH("libhiredis-dev and libssl-dev"))},
        {"http", NULL, "http", MODULE_MISSING("http", "pawl-http", BUILT_WITH("libssl-dev"))},
        {"https", NULL, "http", MODULE_MISSING("http", "pawl-http", BUILT_WITH("libssl-dev"))},
};

static const struct guard_ops *of_module(const struct row *row, struct pawl_why *why)
{
        struct pawl_why own;
        const struct module *module = module_open(row->module, &own);

        if (module && module->guard)
                return module->guard;
        if (!module && own.code != PAWL_NOT_FOUND)
                why_set(why, PAWL_NO_ENGINE, "%s", own.text);
        else
                why_set(why, PAWL_NO_ENGINE, "%s: cannot be guarded: %s", row->scheme, row->missing);
        return NULL;
}

static const struct guard_ops *find(const char *scheme, struct pawl_why *why)
{
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                if (strcmp(rows[i].scheme, scheme) == 0)
                        return rows[i].ops ? rows[i].ops : of_module(&rows[i], why);
        }
        why_set(why, PAWL_NO_ENGINE,
                "there is no guard for %.64s: URLs, only for file:, mem:, sqlite:, postgres:, redis: and http:",
                scheme);
        return NULL;
}

const char *guard_sql(const char *scheme)
{
        const struct guard_ops *ops = find(scheme, NULL);

        return ops ? ops->sql : NULL;
}

static int read_options(const struct pawl_guard_options *theirs, struct pawl_guard_options *mine)
{
        int code;

        if (theirs && theirs->size == 0)
                return why_set(theirs->why, PAWL_INVALID, OPTIONS_SIZELESS, "PAWL_GUARD(...)", "pawl_guard_options");
        code = options_read(mine, sizeof(*mine), theirs);
        if (code == PAWL_UNSUPPORTED)
                return why_set(mine->why, code, "the guard's options ask for something newer than we are");
        if (code == PAWL_OK && mine->flags)
                return why_set(mine->why, PAWL_UNSUPPORTED, "the guard's options have flags that we do not know");
        return code;
}

static int open_guard(const struct url *url, const struct pawl_guard_options *options, pawl_guard **guard)
{
        const struct guard_ops *ops = find(url->scheme, options->why);
        pawl_guard *opened;
        int code;

        if (!ops)
                return PAWL_NO_ENGINE;
        opened = calloc(1, ops->size);
        if (!opened)
                return why_set(options->why, PAWL_NO_MEMORY, "no memory for the guard");
        opened->ops = ops;
        opened->pid = getpid();
        code = url_flag(url, "insecure", &opened->insecure, options->why);
        if (code != PAWL_OK) {
                free(opened);
                return code;
        }
        code = ops->open(opened, url, options);
        if (code != PAWL_OK) {
                pawl_guard_close(opened);
                return code;
        }
        *guard = opened;
        return PAWL_OK;
}

int pawl_guard_open(const char *url, const struct pawl_guard_options *options, pawl_guard **guard)
{
        struct pawl_guard_options mine;
        struct url *parsed;
        int code = read_options(options, &mine);

        if (code != PAWL_OK)
                return code;
        if (!guard)
                return why_set(mine.why, PAWL_INVALID, "there is no place for the guard: it is NULL");
        code = url_parse(url, &parsed, mine.why);
        if (code != PAWL_OK)
                return code;
        code = open_guard(parsed, &mine, guard);
        url_free(parsed);
        return code;
}

void pawl_guard_close(pawl_guard *guard)
{
        if (!guard)
                return;
        guard->ops->close(guard);
        free(guard);
}

static int check_guard(const pawl_guard *guard, struct pawl_why *why)
{
        if (!guard)
                return why_set(why, PAWL_INVALID, "there is no guard: it is NULL");
        if (guard->pid != getpid())
                return why_set(why, PAWL_FORKED, "the guard was opened before fork: open another in the child");
        return PAWL_OK;
}

static int check_token(uint64_t token, struct pawl_why *why)
{
        if (token == 0 || token > INT64_MAX)
                return why_set(why, PAWL_INVALID, "%" PRIu64 " is not a token: it must be > 0 and < 2^63", token);
        return PAWL_OK;
}

static int check_visit(const pawl_guard *guard, struct visit *visit)
{
        int code = check_guard(guard, visit->why);

        if (code == PAWL_OK)
                code = check_token(visit->token, visit->why);
        if (code != PAWL_OK)
                return code;
        return name_check(visit->resource, &visit->length, visit->why);
}

int pawl_guard_admit(pawl_guard *guard, const char *resource, uint64_t token, struct pawl_why *why)
{
        struct visit visit = {resource, 0, token, why};
        int code = check_visit(guard, &visit);

        return code == PAWL_OK ? guard->ops->admit(guard, &visit) : code;
}

int pawl_guard_put(pawl_guard *guard, const char *resource, uint64_t token, const void *data, size_t size,
                   struct pawl_why *why)
{
        struct visit visit = {resource, 0, token, why};
        int code = check_visit(guard, &visit);

        if (code != PAWL_OK)
                return code;
        if (!data && size > 0)
                return why_set(why, PAWL_INVALID, "there are no data: they are NULL");
        return guard->ops->put(guard, &visit, data, size);
}

int pawl_guard_get(pawl_guard *guard, const char *resource, uint64_t token, struct pawl_why *why,
                   struct pawl_guard_data *data)
{
        struct visit visit = {resource, 0, token, why};
        int code = check_visit(guard, &visit);

        if (code != PAWL_OK)
                return code;
        if (!data)
                return why_set(why, PAWL_INVALID, "there is no place for the data: it is NULL");
        return guard->ops->get(guard, &visit, data);
}

int pawl_guard_forget(pawl_guard *guard, const char *resource, uint64_t token, struct pawl_why *why)
{
        struct visit visit = {resource, 0, token, why};
        int code = check_visit(guard, &visit);

        return code == PAWL_OK ? guard->ops->forget(guard, &visit) : code;
}

/* ---- versions --------------------------------------------------------------------------------------------------- */

static int check_resource(const pawl_guard *guard, struct visit *visit)
{
        int code = check_guard(guard, visit->why);

        return code == PAWL_OK ? name_check(visit->resource, &visit->length, visit->why) : code;
}

int pawl_guard_look(pawl_guard *guard, const char *resource, struct pawl_why *why, struct pawl_guard_data *data)
{
        struct visit visit = {resource, 0, 0, why};
        struct pawl_guard_data found = {0};
        int code = check_resource(guard, &visit);

        if (code != PAWL_OK)
                return code;
        if (!data)
                return why_set(why, PAWL_INVALID, "there is no place for the data: it is NULL");
        code = guard->ops->look(guard, &visit, &found);
        if (code == PAWL_OK || code == PAWL_NOT_FOUND)
                *data = found;
        return code;
}

static int swap(pawl_guard *guard, struct visit *visit, const struct guard_swap *swap, uint64_t *version)
{
        int code = check_resource(guard, visit);

        if (code != PAWL_OK)
                return code;
        if (guard_expected(visit) >= INT64_MAX)
                return why_set(visit->why, PAWL_INVALID, "%" PRIu64 " is not a version: it must be < 2^63 - 1",
                               guard_expected(visit));
        if (!swap->data && swap->size > 0)
                return why_set(visit->why, PAWL_INVALID, "there are no data: they are NULL");
        code = guard->ops->swap(guard, visit, swap);
        if (code == PAWL_OK && version)
                *version = visit->token;
        return code;
}

/* An id that no other swap has. */
static int draw_id(uint64_t *id, struct pawl_why *why)
{
        do {
                if (getrandom(id, sizeof(*id), 0) != sizeof(*id) && errno != EINTR)
                        return why_system(why, errno, "no random number for the id of a swap");
        } while (*id == 0);
        return PAWL_OK;
}

int pawl_guard_swap(pawl_guard *guard, const char *resource, uint64_t expected, const void *data, size_t size,
                    struct pawl_why *why, uint64_t *version)
{
        struct visit visit = {resource, 0, expected + 1, why};
        struct guard_swap drawn = {.data = data, .size = size};
        int code = draw_id(&drawn.id, why);

        return code == PAWL_OK ? swap(guard, &visit, &drawn, version) : code;
}

int pawl_guard_swap_as(pawl_guard *guard, const char *resource, uint64_t expected, const void *data, size_t size,
                       const struct pawl_swap_options *options, uint64_t *version)
{
        struct pawl_swap_options mine;
        int code = options_read(&mine, sizeof(mine), options);
        struct visit visit = {resource, 0, expected + 1, mine.why};
        struct guard_swap named = {.data = data, .size = size, .id = mine.id, .again = mine.flags & PAWL_SWAP_AGAIN};

        if (code == PAWL_UNSUPPORTED || (code == PAWL_OK && mine.flags & ~PAWL_SWAP_AGAIN))
                return why_set(mine.why, PAWL_UNSUPPORTED, "the swap's options ask for something newer than we are");
        if (code != PAWL_OK)
                return code;
        if (named.id == 0)
                return why_set(mine.why, PAWL_INVALID, "the swap has no id: draw a random one, other than 0");
        return swap(guard, &visit, &named, version);
}

/* ---- all resources ---------------------------------------------------------------------------------------------- */

int pawl_guard_list(pawl_guard *guard, const char *prefix, pawl_guard_entry_fn *fn, void *arg, struct pawl_why *why)
{
        int code = check_guard(guard, why);

        if (code != PAWL_OK)
                return code;
        if (!fn)
                return why_set(why, PAWL_INVALID, "there is no function to list to: it is NULL");
        return guard->ops->list(guard, prefix ? prefix : "", fn, arg, why);
}

int pawl_guard_prune(pawl_guard *guard, uint64_t floor, struct pawl_why *why, uint64_t *pruned)
{
        uint64_t count = 0;
        int code = check_guard(guard, why);

        if (code == PAWL_OK)
                code = check_token(floor, why);
        if (code == PAWL_OK && !guard->ops->prune)
                code = why_set(why, PAWL_UNSUPPORTED, "this guard cannot be pruned");
        if (code == PAWL_OK)
                code = guard->ops->prune(guard, floor, why, &count);
        if (code == PAWL_OK && pruned)
                *pruned = count;
        return code;
}

int pawl_guard_examine(pawl_guard *guard, pawl_finding_fn *fn, void *arg, struct pawl_why *why)
{
        int code = check_guard(guard, why);

        if (code != PAWL_OK)
                return code;
        if (!fn)
                return why_set(why, PAWL_INVALID, "there is no function to tell the findings: it is NULL");
        if (!guard->ops->examine)
                return why_set(why, PAWL_UNSUPPORTED, "this guard has nothing to examine");
        if (guard->insecure && fn(&url_insecure, arg) != 0)
                return PAWL_OK;
        return guard->ops->examine(guard, fn, arg, why);
}
