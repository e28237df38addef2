/* rw.h - readers and writers, with a reader who may become the writer without anybody writing in between.
 *
 *     pawl_rw_acquire(client, "stock", PAWL_UPGRADABLE, NULL, &rw);
 *     if (is_low(read_stock()))
 *             if (pawl_rw_upgrade(rw, PAWL_FOREVER) == PAWL_OK)
 *                     order_more(pawl_rw_token(rw));       what was read still holds
 *     pawl_rw_release(rw);
 *
 * Any number of readers, or one writer. One upgradable reader may be there beside plain readers; it keeps writers and
 * other upgradable readers out. A plain reader cannot upgrade: two of them would wait for each other for ever, so it is
 * refused at once. Whoever waits is served in order, and readers do not starve writers.
 *
 * Two locks are behind it: NAME, and "upgrade/NAME", which writers and upgradable readers take first. So all writers of
 * NAME must use these calls; plain readers may also take NAME with PAWL_SHARED. Needs PAWL_CAN_SHARE. The rules of
 * pawl.h hold here too. */
#ifndef PAWL_RW_H
#define PAWL_RW_H

#include <pawl.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pawl_rw pawl_rw;

enum pawl_rw_mode { PAWL_READ = 0, PAWL_WRITE = 1, PAWL_UPGRADABLE = 2 };

/* Waits for it. options (mode, max_holders and flags 0) count for each of the locks; wait_ms is for both together. */
PAWL_EXPORT PAWL_MUST_USE int pawl_rw_acquire(pawl_client *client, const char *name, int mode,
                                              const struct pawl_lock_options *options, pawl_rw **rw);
/* From PAWL_UPGRADABLE to PAWL_WRITE: waits for the readers that are there. PAWL_BUSY, PAWL_TIMEOUT: they did not go; it is
 * upgradable as before. PAWL_MISUSE for a plain reader. PAWL_LOST: it is lost, release it. */
PAWL_EXPORT PAWL_MUST_USE int pawl_rw_upgrade(pawl_rw *rw, int64_t wait_ms);
/* From PAWL_WRITE to PAWL_UPGRADABLE or PAWL_READ, or from PAWL_UPGRADABLE to PAWL_READ; nobody writes in between. */
PAWL_EXPORT PAWL_MUST_USE int pawl_rw_downgrade(pawl_rw *rw, int mode);
/* What went wrong with the last of these two that failed, and what to do; *why is cleared if the last one succeeded. */
PAWL_EXPORT int pawl_rw_why(const pawl_rw *rw, struct pawl_why *why);
/* Both locks, in reverse order. Consumed whatever is returned; NULL is fine. The first code that was not PAWL_OK. */
PAWL_EXPORT int pawl_rw_release(pawl_rw *rw);

PAWL_EXPORT int pawl_rw_mode(const pawl_rw *rw);
/* PAWL_OK while all of it is held, by our own clock; else PAWL_LOST. */
PAWL_EXPORT PAWL_MUST_USE int pawl_rw_check(pawl_rw *rw);
/* For the guards: that of NAME. After an upgrade it is a greater one. */
PAWL_EXPORT uint64_t pawl_rw_token(const pawl_rw *rw);

#ifdef __cplusplus
}
#endif
#endif
