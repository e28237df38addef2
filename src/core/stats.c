/* stats.c - what a client counts. */
#include <string.h>

#include "core.h"

void core_count_grant(struct pawl_lock *lock, int64_t now)
{
        struct core_stats *stats = &lock->core->stats;
        int64_t took = now - lock->started_at;

        stats->acquired++;
        stats->held++;
        if (lock->sampled) {
                histogram_record(&stats->acquire, took, SAMPLE_EVERY);
        } else if (took > 0) {
                histogram_record(&stats->acquire, took, 1);
                histogram_record(&stats->wait, took, 1);
        }
}

void core_count_refusal(struct core *core, int code)
{
        switch (code) {
        case PAWL_BUSY:
                core->stats.busy++;
                break;
        case PAWL_TIMEOUT:
                core->stats.timed_out++;
                break;
        case PAWL_CANCELLED:
                core->stats.cancelled++;
                break;
        default:
                core->stats.failed++;
        }
}

void core_count_end(struct pawl_lock *lock, int64_t now, uint32_t weight)
{
        struct core_stats *stats = &lock->core->stats;

        stats->held--;
        if (weight)
                histogram_record(&stats->hold, now - lock->granted_at, weight);
}

void core_read_stats(const struct core *core, struct pawl_stats *out)
{
        const struct core_stats *stats = &core->stats;

        out->held = stats->held;
        out->waiting = stats->waiting;
        out->acquired = stats->acquired;
        out->released = stats->released;
        out->busy = stats->busy;
        out->timed_out = stats->timed_out;
        out->cancelled = stats->cancelled;
        out->lost = stats->lost;
        out->failed = stats->failed;
        out->renewals = stats->renewals;
        out->renewal_failures = stats->renewal_failures;
        out->uncertain = stats->uncertain;
        histogram_summary(&stats->acquire, &out->acquire);
        histogram_summary(&stats->wait, &out->wait);
        histogram_summary(&stats->hold, &out->hold);
        histogram_summary(&stats->renew_slack, &out->renew_slack);
}
