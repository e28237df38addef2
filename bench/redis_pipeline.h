/* redis_pipeline.h - the floor of many claims in flight: 64 locks taken with a fence in one write, their answers read, and
 * all of them returned in another. The commands are formatted once: it is a floor. */
#ifndef PAWL_BENCH_REDIS_PIPELINE_H
#define PAWL_BENCH_REDIS_PIPELINE_H

#include <stdint.h>

enum { REDIS_PIPELINE_DEPTH = 64 };

struct redis_pipeline;

struct redis_pipeline *redis_pipeline_new(uint16_t port);
void redis_pipeline_free(struct redis_pipeline *pipeline);
/* A sample of the harness: pairs a second; arg is the pipeline. */
double redis_pipeline_rate(void *arg);

#endif
