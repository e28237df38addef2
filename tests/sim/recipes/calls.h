/* calls.h - the public calls that are steps of a process: X(name, parameters, arguments, what it is about). A call
 * that is not here works all the same, but nobody dies before it. meson.build reads the names, too. */
#ifndef CALLS_H
#define CALLS_H

#include "pawl.h"

#define CALLS(X)                                                                                                       \
        X(pawl_acquire,                                                                                                \
          (pawl_client * client, const char *name, const struct pawl_lock_options *options, pawl_lock **lock),         \
          (client, name, options, lock), name)                                                                         \
        X(pawl_acquire_async,                                                                                          \
          (pawl_client * client, const char *name, const struct pawl_lock_options *options,                            \
           pawl_granted_fn *on_granted, void *arg, pawl_lock **lock),                                                  \
          (client, name, options, on_granted, arg, lock), name)                                                        \
        X(pawl_wait, (pawl_lock * lock, int64_t wait_ms), (lock, wait_ms), pawl_name(lock))                            \
        X(pawl_cancel, (pawl_lock * lock), (lock), pawl_name(lock))                                                    \
        X(pawl_release, (pawl_lock * lock), (lock), pawl_name(lock))                                                   \
        X(pawl_release_async, (pawl_lock * lock, pawl_released_fn * on_released, void *arg), (lock, on_released, arg), \
          pawl_name(lock))                                                                                             \
        X(pawl_check, (pawl_lock * lock), (lock), pawl_name(lock))                                                     \
        X(pawl_wound, (pawl_lock * lock), (lock), pawl_name(lock))                                                     \
        X(pawl_renew, (pawl_lock * lock), (lock), pawl_name(lock))                                                     \
        X(pawl_store, (pawl_lock * lock, const void *data, size_t size, int64_t keep_ms), (lock, data, size, keep_ms), \
          pawl_name(lock))                                                                                             \
        X(pawl_fetch, (pawl_client * client, const char *name, struct pawl_value *value), (client, name, value), name) \
        X(pawl_list, (pawl_client * client, const char *prefix, pawl_entry_fn *fn, void *arg),                         \
          (client, prefix, fn, arg), prefix)                                                                           \
        X(pawl_show, (pawl_client * client, const char *name, pawl_entry_fn *fn, void *arg), (client, name, fn, arg),  \
          name)                                                                                                        \
        X(pawl_look, (pawl_client * client, const char *name, pawl_entry_fn *fn, void *arg), (client, name, fn, arg),  \
          name)                                                                                                        \
        X(pawl_ask, (pawl_client * client, const char *name), (client, name), name)                                    \
        X(pawl_close, (pawl_client * client), (client), "")

#endif
