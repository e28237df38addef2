/* flight.h - single-flight, against cache stampedes: when a cached value is missing or old, one caller builds it, and
 * the others wait for it or use the old one meanwhile.
 *
 *     code = pawl_flight(client, "front-page", PAWL_FLIGHT(.fresh_ms = 30000, .stale_ms = 300000), render, site, &value);
 *
 *   0 ............ fresh_ms ............ fresh_ms + stale_ms
 *   | everybody     | one builds anew; the  | gone: one builds,
 *   | gets it       | others get the old one | the others wait
 *
 * The value is kept in the store, under the lock "flight/KEY" (at most PAWL_VALUE_MAX bytes; for more, keep the place
 * where it lies). A builder that was overtaken stores nothing. Needs PAWL_CAN_KEEP; the rules of pawl.h hold here too. */
#ifndef PAWL_FLIGHT_H
#define PAWL_FLIGHT_H

#include <pawl.h>

#ifdef __cplusplus
extern "C" {
#endif

struct pawl_flight_options {
        uint32_t size;    /* sizeof(struct pawl_flight_options): PAWL_FLIGHT sets it */
        uint32_t flags;   /* none yet: 0 */
        int64_t fresh_ms; /* how long a value is as good as new; 0: a minute */
        int64_t stale_ms; /* how much longer it may be used while another one builds; 0: not */
        int64_t wait_ms; /* for another's building: PAWL_FOREVER, PAWL_NO_WAIT (PAWL_BUSY), or how long (PAWL_TIMEOUT) */
        int64_t ttl_ms;  /* of the lock; 0: the client's default */
        struct pawl_why *why;
};

#ifndef __cplusplus
#define PAWL_FLIGHT(...) (&(const struct pawl_flight_options){.size = sizeof(struct pawl_flight_options), __VA_ARGS__})
#else
PAWL_DEFAULTS(flight)
#endif

/* Builds the value: *data by malloc (taken over), *size of them, at least one. Any code but PAWL_OK: this caller gets
 * it, and the next one builds. The lock is held meanwhile. */
typedef int pawl_build_fn(pawl_lock *lock, void **data, size_t *size, void *arg);

/* The value, fresh or as old as stale_ms allows. value->token is that of its building. If we built it ourselves and the
 * store cannot take it (PAWL_FULL, out of reach), it is given all the same. */
PAWL_EXPORT PAWL_MUST_USE int pawl_flight(pawl_client *client, const char *key,
                                          const struct pawl_flight_options *options, pawl_build_fn *build, void *arg,
                                          struct pawl_value *value);
/* Forgets the value, because what it was made of has changed: the next caller builds. It waits for a building that is under
 * way: that may have seen the old state. */
PAWL_EXPORT PAWL_MUST_USE int pawl_flight_forget(pawl_client *client, const char *key,
                                                 const struct pawl_flight_options *options);

#ifdef __cplusplus
}
#endif
#endif
