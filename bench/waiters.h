/* waiters.h - many asynchronous waiters of one client on one lock (rows 13 and 16), on any engine. */
#ifndef PAWL_BENCH_WAITERS_H
#define PAWL_BENCH_WAITERS_H

struct line;

/* So many waiters, each of whom lets go at once and stands in line again. NULL, with a remark, if the build at hand has
 * no such engine. The line moves only while it is measured. */
struct line *waiters_line(const char *url, int waiters);
/* A sample: hand-offs a second. arg is the line. */
double waiters_rate(void *line);
void waiters_end(struct line *line);

/* Lines of 32 and of 10,000 waiters, each on its own URL, compared: the table's line. engine is a word for the reader. */
void waiters_compare(const char *few_url, const char *many_url, const char *engine, int cores);

#endif
