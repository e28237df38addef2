/* guard.c - the public calls: what every guard would have to check is checked here. */
#include "guard.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../base/name.h"
#include "../base/options.h"

static const struct guard_ops *const guards[] = {&file_guard, &memory_guard};

static const struct guard_ops *find(const char *scheme)
{
        for (size_t i = 0; i < sizeof(guards) / sizeof(guards[0]); i++)
                if (strcmp(guards[i]->scheme, scheme) == 0)
                        return guards[i];
        return NULL;
}

static int read_options(const struct pawl_guard_options *theirs, struct pawl_guard_options *mine)
{
        int code = options_read(mine, sizeof(*mine), theirs);

        if (code == PAWL_UNSUPPORTED)
                return why_set(mine->why, code, "the guard's options ask for something newer than we are");
        if (code == PAWL_OK && mine->flags)
                return why_set(mine->why, PAWL_UNSUPPORTED, "the guard's options have flags that we do not know");
        return code;
}

static int open_guard(const struct url *url, const struct pawl_guard_options *options, pawl_guard **guard)
{
        const struct guard_ops *ops = find(url->scheme);
        pawl_guard *opened;
        int code;

        if (!ops)
                return why_set(options->why, PAWL_NO_ENGINE,
                               "there is no guard for %s: URLs, only file:DIR and mem:", url->scheme);
        opened = calloc(1, ops->size);
        if (!opened)
                return why_set(options->why, PAWL_NO_MEMORY, "no memory for the guard");
        opened->ops = ops;
        opened->pid = getpid();
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

static int check_visit(const pawl_guard *guard, struct visit *visit)
{
        int code = check_guard(guard, visit->why);

        if (code != PAWL_OK)
                return code;
        if (visit->token == 0 || visit->token > INT64_MAX)
                return why_set(visit->why, PAWL_INVALID, "%" PRIu64 " is not a token: it must be > 0 and < 2^63",
                               visit->token);
        return name_check(visit->resource, &visit->length, visit->why);
}

int guard_stale(const struct visit *visit, uint64_t greatest)
{
        return why_set(visit->why, PAWL_STALE,
                       "token %" PRIu64 " is too old for \"%s\": %" PRIu64
                       " has been admitted; another one has had the lock since",
                       visit->token, visit->resource, greatest);
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

int pawl_guard_list(pawl_guard *guard, const char *prefix, pawl_guard_entry_fn *fn, void *arg, struct pawl_why *why)
{
        int code = check_guard(guard, why);

        if (code != PAWL_OK)
                return code;
        if (!fn)
                return why_set(why, PAWL_INVALID, "there is no function to list to: it is NULL");
        return guard->ops->list(guard, prefix ? prefix : "", fn, arg, why);
}
