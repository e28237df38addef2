/* guard.h - the contract between the public calls (guard.c), which check what they are given, and one kind of guard. */
#ifndef PAWL_SRC_GUARD_H
#define PAWL_SRC_GUARD_H

#include <inttypes.h>
#include <pawl/guard.h>
#include <stdbool.h>
#include <sys/types.h>

#include "../base/url.h"
#include "../base/why.h"

/* One call's resource and token, checked. */
struct visit {
        const char *resource;
        size_t length;
        uint64_t token;
        struct pawl_why *why; /* may be NULL */
};

/* What a swap brings beside the visit. */
struct guard_swap {
        const void *data;
        size_t size;
        uint64_t id; /* not 0; kept beside the version */
        bool again;  /* it may have been made before */
};

/* Called by any thread, several at once. Each promises what pawl/guard.h says. In a module (base/module.h) or in the
 * library; guard.c has the list. Prefixes and resources were checked. */
struct guard_ops {
        size_t size; /* of the guard's own struct, which begins with struct pawl_guard; zeroed before open */

        int (*open)(pawl_guard *, const struct url *, const struct pawl_guard_options *);
        void (*close)(pawl_guard *); /* also after a failed open */
        int (*admit)(pawl_guard *, const struct visit *);
        int (*put)(pawl_guard *, const struct visit *, const void *data, size_t size);
        int (*get)(pawl_guard *, const struct visit *, struct pawl_guard_data *data);
        int (*forget)(pawl_guard *, const struct visit *);
        int (*list)(pawl_guard *, const char *prefix, pawl_guard_entry_fn *fn, void *arg, struct pawl_why *why);
        int (*prune)(pawl_guard *, uint64_t floor, struct pawl_why *why, uint64_t *pruned);
        int (*examine)(pawl_guard *, pawl_finding_fn *fn, void *arg, struct pawl_why *why);
        /* visit->token is 0. Also without data, PAWL_NOT_FOUND, data->token is the version. */
        int (*look)(pawl_guard *, const struct visit *, struct pawl_guard_data *data);
        /* visit->token is the version that is made; guard_expected(visit) the one that must be there. One that finds the
         * version that it makes, with its own id beside it, has been made before: PAWL_OK. */
        int (*swap)(pawl_guard *, const struct visit *, const struct guard_swap *);
        const char *sql; /* what an administrator may run before the first use; NULL: nothing */
};

struct pawl_guard {
        const struct guard_ops *ops;
        pid_t pid;     /* who opened it */
        bool insecure; /* the URL says insecure=yes: nobody checks who answers */
};

/* The sentence of a stale token, the same for all. Inline: a guard in a module uses no symbol of the library. Tokens of one
 * store of locks are never so far apart: a counter that began anew, or another engine. */
static inline int guard_stale(const struct visit *visit, uint64_t greatest)
{
        if (greatest / 1024 > visit->token)
                return why_set(
                        visit->why, PAWL_STALE,
                        "token %" PRIu64 " is too old for \"%s\": %" PRIu64
                        " has been admitted, so far above it that the two come from different stores of locks; if "
                        "the lock has moved, see pawl forget",
                        visit->token, visit->resource, greatest);
        return why_set(visit->why, PAWL_STALE,
                       "token %" PRIu64 " is too old for \"%s\": %" PRIu64
                       " has been admitted; another one has had the lock since",
                       visit->token, visit->resource, greatest);
}

/* The same where no token is known, and the floor of a prune refuses. */
static inline int guard_below_floor(const struct visit *visit, uint64_t floor)
{
        return why_set(visit->why, PAWL_STALE,
                       "token %" PRIu64
                       " is too old for \"%s\": no mark is known, and the guard was pruned up to %" PRIu64,
                       visit->token, visit->resource, floor);
}

/* Of a swap. */
static inline uint64_t guard_expected(const struct visit *visit)
{
        return visit->token - 1;
}

/* Refused: the version is another, and was not made by this swap. If it is the very next one, this swap was not made; if
 * others have followed, one of them may have been it. */
static inline int guard_moved(const struct visit *visit, const struct guard_swap *swap, uint64_t version)
{
        if (swap->again && version != visit->token)
                return why_set(visit->why, PAWL_IN_DOUBT,
                               "\"%s\" is at version %" PRIu64 ": whether it was ever changed from version %" PRIu64
                               " by this swap is not known",
                               visit->resource, version, guard_expected(visit));
        return why_set(visit->why, PAWL_STALE,
                       "\"%s\" is not at version %" PRIu64 " but at %" PRIu64 ": another one has changed it since",
                       visit->resource, guard_expected(visit), version);
}

static inline int guard_no_data(const struct visit *visit)
{
        return why_set(visit->why, PAWL_NOT_FOUND, "there are no data for \"%s\" yet", visit->resource);
}

/* guard.c: what is to be run for a scheme, see pawl_engine_sql; NULL: nothing, or no such guard. */
const char *guard_sql(const char *scheme);

extern const struct guard_ops file_guard;
extern const struct guard_ops memory_guard;

#endif
