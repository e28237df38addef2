/* bench.h - what every row of the benchmark shares: placement, interleaved rounds, medians, one line of the table.
 *
 * A row is one program, row_NN_words.c. It names its contenders (floor, peer, pawl); each can give a sample, a single
 * figure. The harness asks them in turn, so that a slow second of the machine hits all of them, takes the median of
 * each one's samples, and does that for several rounds. The ratio of a row is the median of the rounds' ratios. */
#ifndef PAWL_BENCH_H
#define PAWL_BENCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BENCH_ROUNDS = 5, BENCH_CONTENDERS_MAX = 8 };
enum { BENCH_SKIPPED = 77 }; /* the exit status of a row that cannot be measured here */

/* One figure: nanoseconds, or a rate. Rows say which. */
struct contender {
        const char *name;
        double (*sample)(void *arg); /* NULL: it is not there, and has no figure */
        void *arg;
        double p50[BENCH_ROUNDS]; /* filled by bench_compare: the median of each round's samples */
};

/* What every row's main calls first. The arguments are bench/run's: BUILD [--quick]. */
void bench_begin(int argc, char **argv);
/* The build directory. */
const char *bench_build(void);
/* Is this only to see that it runs? Then one round of few samples, on one core: the figures mean nothing. */
bool bench_quick(void);

/* Runs part in a child that may use only the first cores cores; ends the program if the child fails or skips. */
void bench_on_cores(int cores, void (*part)(int cores));

/* One warm-up pass, then BENCH_ROUNDS rounds of so many samples from each contender in turn. */
void bench_compare(struct contender *contenders, size_t n, int samples);

/* The median of the rounds, and the median of the rounds' ratios a / b; negative if one of them is not there. */
double bench_figure(const struct contender *contender);
double bench_ratio(const struct contender *a, const struct contender *b);

/* One line of build/bench.tsv. A negative figure means there is none. target is NULL, or "<= X", ">= X" or "< X": what is
 * asked of the ratio, or of pawl's figure if there is no ratio. */
void bench_line(int row, const char *what, double floor, double peer, double pawl, double ratio, const char *target);
/* A remark for the reader only. */
void bench_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

int64_t bench_now(void);
double bench_median(double *values, size_t n); /* sorts them */

/* A fresh directory, on tmpfs where there is one, so that no disk is measured; removed when the program ends. */
const char *bench_directory(void);
/* "local:DIRECTORY/name", for pawl_open. */
char *bench_url(const char *name);

struct pawl_client;
struct pawl_open_options;
/* pawl_open, and one lock taken and returned, so that what is connected first is connected. NULL with a remark if the build
 * at hand has no such engine; any other failure ends the program. */
struct pawl_client *bench_open(const char *url, const struct pawl_open_options *options);

/* Ends the program with a sentence: a benchmark that cannot run must not print figures. */
void bench_die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* Ends the program with BENCH_SKIPPED: the row needs something that this machine does not have. bench/run prints the reason,
 * "needs ...", and goes on. */
void bench_skip(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/* bench_die unless code is PAWL_OK. */
void bench_must(int code, const char *what);

#endif
