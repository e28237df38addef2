/* version.h - changes without a lock: read, change, write if nobody else has; else again. For resources of a guard that
 * are versioned (pawl_guard_look and pawl_guard_swap in pawl/guard.h), where a change is short and two at once are rare.
 *
 *     static int add_one(struct pawl_change *change, void *arg)
 *     {
 *             char text[32];
 *             long count = change->old ? atol(change->old) : 0;
 *
 *             snprintf(text, sizeof(text), "%ld", count + 1);
 *             return pawl_change_to(change, text, strlen(text));
 *     }
 *     ...
 *     code = pawl_update(guard, "visitors", add_one, NULL, NULL, &version);
 *
 * No update is lost: what was changed is what the change had read. The function may run many times for one change that is
 * made, so it does nothing but compute. The rules of pawl.h and pawl/guard.h hold here too. */
#ifndef PAWL_VERSION_H
#define PAWL_VERSION_H

#include <pawl/guard.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One try. All of it is ours, and borrowed for the call. */
struct pawl_change {
        const void *old;  /* the data, with a NUL behind them; NULL: there are none yet */
        size_t old_size;  /* without that NUL */
        uint64_t version; /* of the old data */
        uint32_t number;  /* of the try: 1, 2, ... */
        uint32_t flags;   /* none yet: 0 */
        void *next;       /* what pawl_change_to has kept */
        size_t next_size;
};

/* Says by pawl_change_to what the new data are, and returns PAWL_OK. PAWL_OK without that: let them be as they are, and
 * be done. Anything else ends pawl_update, which returns it: a code of your own is best negative, for pawl has none. */
typedef int pawl_change_fn(struct pawl_change *change, void *arg);

/* The new data; copied. The last call counts. PAWL_OK or PAWL_NO_MEMORY: return it. */
PAWL_EXPORT PAWL_MUST_USE int pawl_change_to(struct pawl_change *change, const void *data, size_t size);

struct pawl_update_options {
        uint32_t size;  /* sizeof(struct pawl_update_options): PAWL_UPDATE sets it */
        uint32_t flags; /* none yet: 0 */
        uint32_t
                wait_ms; /* no try begins later than that; 0: 10 s. A call of the guard may take its own wait_ms besides */
        uint32_t tries; /* at most so many; 0: any number */
        struct pawl_why *why;
};

#ifndef __cplusplus
#define PAWL_UPDATE(...) (&(const struct pawl_update_options){.size = sizeof(struct pawl_update_options), __VA_ARGS__})
#else
PAWL_DEFAULTS(update)
#endif

/* Looks, calls fn, swaps; if another one was faster, sleeps for a random time that grows, and again. options and version
 * may be NULL. PAWL_OK: *version is the one that was made, or was read if fn let the data be. PAWL_STALE: others were
 * faster until the time or the tries were over; nothing was changed. What fn returned: nothing was changed. Else what
 * look or swap said.
 *
 * A swap whose answer was lost is sent again under its id, which is kept beside the version (pawl_guard_swap_as): so it is
 * made once, and PAWL_OK means that this change was made, also where another one writes the same bytes. PAWL_IN_DOUBT: the
 * resource was changed more than once meanwhile, or could not be reached in time; or, over HTTP, the server does not keep
 * ids. Then this change was made or not. */
PAWL_EXPORT PAWL_MUST_USE int pawl_update(pawl_guard *guard, const char *resource, pawl_change_fn *fn, void *arg,
                                          const struct pawl_update_options *options, uint64_t *version);

#ifdef __cplusplus
}
#endif
#endif
