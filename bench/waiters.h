/* waiters.h - many asynchronous waiters of one client on one lock (row 16), on any engine. */
#ifndef PAWL_BENCH_WAITERS_H
#define PAWL_BENCH_WAITERS_H

/* Lines of 32 and of 10,000 waiters, each on its own URL, compared: the table's line. engine is a word for the reader. */
void waiters_compare(const char *few_url, const char *many_url, const char *engine, int cores);

#endif
