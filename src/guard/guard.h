/* guard.h - the contract between the public calls (guard.c), which check what they are given, and one kind of guard. */
#ifndef PAWL_SRC_GUARD_H
#define PAWL_SRC_GUARD_H

#include <pawl/guard.h>
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

/* Called by any thread, several at once. Each promises what pawl/guard.h says. */
struct guard_ops {
        const char *scheme;
        size_t size; /* of the guard's own struct, which begins with struct pawl_guard; zeroed before open */

        int (*open)(pawl_guard *, const struct url *, const struct pawl_guard_options *);
        void (*close)(pawl_guard *); /* also after a failed open */
        int (*admit)(pawl_guard *, const struct visit *);
        int (*put)(pawl_guard *, const struct visit *, const void *data, size_t size);
        int (*get)(pawl_guard *, const struct visit *, struct pawl_guard_data *data);
        int (*forget)(pawl_guard *, const struct visit *);
        int (*list)(pawl_guard *, const char *prefix, pawl_guard_entry_fn *fn, void *arg, struct pawl_why *why);
};

struct pawl_guard {
        const struct guard_ops *ops;
        pid_t pid; /* who opened it */
};

/* The sentence of a stale token, the same for all. */
int guard_stale(const struct visit *visit, uint64_t greatest);

extern const struct guard_ops file_guard;
extern const struct guard_ops memory_guard;

#endif
