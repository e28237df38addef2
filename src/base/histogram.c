/* histogram.c - the first 16 values have a bucket each; from there on, each octave is cut into 16. */
#include "histogram.h"

enum { STEPS = 16, STEP_BITS = 4 };

static uint32_t bucket_of(uint64_t value)
{
        uint32_t octave;
        uint32_t bucket;

        if (value < STEPS)
                return (uint32_t)value;
        octave = 63 - (uint32_t)__builtin_clzll(value);
        bucket = (octave - STEP_BITS + 1) * STEPS + (uint32_t)(value >> (octave - STEP_BITS) & (STEPS - 1));
        return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

/* The greatest value that falls into it. */
static uint64_t upper_edge(uint32_t bucket)
{
        uint32_t octave = bucket / STEPS;

        if (octave == 0)
                return bucket;
        if (bucket == HISTOGRAM_BUCKETS - 1)
                return UINT64_MAX;
        return ((uint64_t)(STEPS + bucket % STEPS + 1) << (octave - 1)) - 1;
}

void histogram_record(struct histogram *histogram, int64_t ns, uint32_t weight)
{
        uint64_t value = ns > 0 ? (uint64_t)ns : 0;

        histogram->buckets[bucket_of(value)] += weight;
        histogram->count += weight;
        if (value > histogram->max && weight > 0)
                histogram->max = value;
}

uint64_t histogram_quantile(const struct histogram *histogram, double quantile)
{
        double wanted = quantile * (double)histogram->count;
        uint64_t rank = wanted > 1 ? (uint64_t)wanted : 1;
        uint64_t seen = 0;

        if (histogram->count == 0)
                return 0;
        if ((double)rank < wanted)
                rank++;
        for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
                seen += histogram->buckets[i];
                if (seen >= rank)
                        return upper_edge(i) < histogram->max ? upper_edge(i) : histogram->max;
        }
        return histogram->max;
}

void histogram_summary(const struct histogram *histogram, struct pawl_latency *latency)
{
        latency->count = histogram->count;
        latency->p50_ns = histogram_quantile(histogram, 0.5);
        latency->p99_ns = histogram_quantile(histogram, 0.99);
        latency->p999_ns = histogram_quantile(histogram, 0.999);
        latency->max_ns = histogram->max;
}
