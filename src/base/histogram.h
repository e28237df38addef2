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

/* The first 16 values have a bucket each; from there on, each octave is cut into 16. */
static inline uint32_t histogram_bucket(uint64_t value)
{
        uint32_t octave;
        uint32_t bucket;

        if (value < 16)
                return (uint32_t)value;
        octave = 63 - (uint32_t)__builtin_clzll(value);
        bucket = (octave - 3) * 16 + (uint32_t)(value >> (octave - 4) & 15);
        return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* weight: how many such values this one stands for. */
static inline void histogram_record(struct histogram *histogram, int64_t ns, uint32_t weight)
{
        uint64_t value = ns > 0 ? (uint64_t)ns : 0;

        histogram->buckets[histogram_bucket(value)] += weight;
        histogram->count += weight;
        if (value > histogram->max && weight > 0)
                histogram->max = value;
}

/* The upper edge of the bucket in which the quantile lies (never above max); 0 if empty. quantile in (0, 1]. */
uint64_t histogram_quantile(const struct histogram *histogram, double quantile);
void histogram_summary(const struct histogram *histogram, struct pawl_latency *latency);

#endif
