/* limit.h - a rate limit for all processes together: a token bucket in the store.
 *
 *     if (pawl_limit(client, "mails", PAWL_LIMIT(.rate = 100, .per_ms = 60000, .wait_ms = 5000), NULL) == PAWL_OK)
 *             send_mail();
 *
 * In any stretch of time of length t at most burst + rate * t / per permits are given out, by all callers together, wherever
 * they run. The bucket is read and written under the lock "limit/NAME", so the count is exact where the lock is; the time is
 * the store's own. Two stores tell no time (ZooKeeper, etcd): there it is the callers', and the bound is wider by what
 * their clocks differ. A store that lost its data begins with a full bucket.
 *
 * A permit that must be waited for is reserved: those who wait are served in the order in which they asked, and whoever
 * dies while it waits has used its permit. All callers of one name must give the same rate, per and burst.
 *
 * Needs PAWL_CAN_KEEP; the rules of pawl.h hold here too. */
#ifndef PAWL_LIMIT_H
#define PAWL_LIMIT_H

#include <pawl.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pawl_limit_options {
        uint32_t size;   /* sizeof(struct pawl_limit_options): PAWL_LIMIT sets it */
        uint32_t flags;  /* none yet: 0 */
        int64_t rate;    /* so many permits ... */
        int64_t per_ms;  /* ... in so long; 0: a second */
        int64_t burst;   /* so many at once after a rest; 0: rate */
        int64_t permits; /* how many this call wants; 0: 1; at most burst */
        int64_t wait_ms; /* PAWL_FOREVER, PAWL_NO_WAIT (PAWL_BUSY; see below), or how long at most */
        int64_t ttl_ms;  /* of the lock; 0: the client's default */
        struct pawl_why *why;
};

#ifndef __cplusplus
#define PAWL_LIMIT(...) (&(const struct pawl_limit_options){.size = sizeof(struct pawl_limit_options), __VA_ARGS__})
#else
PAWL_DEFAULTS(limit)
#endif

struct pawl_permit {
        int64_t at_us;   /* from when on it counts, by the store's clock (unix time) */
        int64_t wait_ms; /* how long this call waited for it; if there was none, how long it would have had to */
};

/* PAWL_OK: go on, now. PAWL_BUSY (PAWL_NO_WAIT): there is no permit now, or another caller that counts at this
 * moment did not end within half a second. PAWL_TIMEOUT: there will be none within
 * wait_ms; that is known and said at once, and nothing was reserved. permit may be NULL; it is also written with the
 * last two. */
PAWL_EXPORT PAWL_MUST_USE int pawl_limit(pawl_client *client, const char *name,
                                         const struct pawl_limit_options *options, struct pawl_permit *permit);

#ifdef __cplusplus
}
#endif
#endif
