/* histogram.h - latencies in log-linear buckets: 16 to the octave, 6 % wide, from 1 ns to hours; a record is O(1). */
#ifndef PAWL_HISTOGRAM_H
#define PAWL_HISTOGRAM_H

#include <stdint.h>

#include "pawl.h"

enum { HISTOGRAM_BUCKETS = 16 * 44 };

struct histogram {
        uint64_t count;
        uint64_t max;
        uint64_t buckets[HISTOGRAM_BUCKETS];
};

/* weight: how many such values this one stands for. */
void histogram_record(struct histogram *histogram, int64_t ns, uint32_t weight);
/* The upper edge of the bucket in which the quantile lies (never above max); 0 if empty. quantile in (0, 1]. */
uint64_t histogram_quantile(const struct histogram *histogram, double quantile);
void histogram_summary(const struct histogram *histogram, struct pawl_latency *latency);

#endif
