/* pair.h - one uncontended acquire and release through the public API, on any engine. */
#ifndef PAWL_BENCH_PAIR_H
#define PAWL_BENCH_PAIR_H

enum { PAIR_BATCH = 50 };

/* A sample: microseconds for each of PAIR_BATCH pairs, one after the other, whose tokens must grow. arg is a client. */
double pair_sample(void *arg);

#endif
