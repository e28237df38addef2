/* histogram.c - reading a histogram; recording is in the header, because it is on the shortest way. */
#include "histogram.h"

enum { STEPS = 16 };

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
