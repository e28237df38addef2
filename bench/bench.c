/* bench.c - the harness: see bench.h. Knows nothing of any engine. */
#include "bench.h"

#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pawl.h"

enum { TMPFS = 0x01021994, PATH_LENGTH = 256 };

static char directory[PATH_LENGTH];
static pid_t directory_of;
static const char *build = ".";
static bool quick;

void bench_die(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        fputs("bench: ", stderr);
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
        va_end(args);
        exit(1);
}

void bench_skip(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        fputs("skipped: ", stderr);
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
        va_end(args);
        exit(BENCH_SKIPPED);
}

void bench_begin(int argc, char **argv)
{
        if (argc < 2 || argc > 3 || (argc == 3 && strcmp(argv[2], "--quick") != 0))
                bench_die("usage: %s BUILD [--quick]", argv[0]);
        build = argv[1];
        quick = argc == 3;
}

const char *bench_build(void)
{
        return build;
}

bool bench_quick(void)
{
        return quick;
}

void bench_must(int code, const char *what)
{
        if (code != PAWL_OK)
                bench_die("%s: %s", what, pawl_strerror(code));
}

int64_t bench_now(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static int by_value(const void *a, const void *b)
{
        double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

double bench_median(double *values, size_t n)
{
        qsort(values, n, sizeof(*values), by_value);
        return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

static void pin(int cores)
{
        cpu_set_t set;

        CPU_ZERO(&set);
        for (int core = 0; core < cores; core++)
                CPU_SET((size_t)core, &set);
        if (sched_setaffinity(0, sizeof(set), &set) != 0)
                bench_skip("needs %d core(s): this machine, or its container, has fewer", cores);
}

void bench_on_cores(int cores, void (*part)(int cores))
{
        int status;
        pid_t child;

        if (quick && cores > 1)
                return;
        fflush(stdout);
        child = fork();
        if (child < 0)
                bench_die("fork failed");
        if (child == 0) {
                pin(cores);
                part(cores);
                exit(0);
        }
        if (waitpid(child, &status, 0) != child || status != 0)
                exit(WIFEXITED(status) && WEXITSTATUS(status) == BENCH_SKIPPED ? BENCH_SKIPPED : 1);
}

static int rounds(void)
{
        return quick ? 1 : BENCH_ROUNDS;
}

static double ask(struct contender *contender)
{
        return contender->sample ? contender->sample(contender->arg) : -1;
}

void bench_compare(struct contender *contenders, size_t n, int samples)
{
        double *taken = calloc(n * (size_t)samples, sizeof(*taken));

        if (!taken || n > BENCH_CONTENDERS_MAX)
                bench_die("no memory for the samples");
        if (quick)
                samples = 1;
        for (size_t i = 0; i < n; i++)
                ask(&contenders[i]);
        for (int round = 0; round < rounds(); round++) {
                for (int s = 0; s < samples; s++)
                        for (size_t i = 0; i < n; i++)
                                taken[i * (size_t)samples + (size_t)s] = ask(&contenders[i]);
                for (size_t i = 0; i < n; i++)
                        contenders[i].p50[round] = bench_median(taken + i * (size_t)samples, (size_t)samples);
        }
        free(taken);
}

double bench_figure(const struct contender *contender)
{
        double p50[BENCH_ROUNDS];

        memcpy(p50, contender->p50, sizeof(p50));
        return bench_median(p50, (size_t)rounds());
}

double bench_ratio(const struct contender *a, const struct contender *b)
{
        double ratios[BENCH_ROUNDS];

        if (!a->sample || !b->sample)
                return -1;
        for (int round = 0; round < rounds(); round++)
                ratios[round] = a->p50[round] / b->p50[round];
        return bench_median(ratios, (size_t)rounds());
}

/* Four digits are more than two runs agree on. */
static const char *figure(char *text, size_t size, double value)
{
        if (value < 0)
                snprintf(text, size, "-");
        else
                snprintf(text, size, value >= 1000 ? "%.0f" : "%.4g", value);
        return text;
}

static bool reaches(double figure, const char *target)
{
        double limit = strtod(target + strcspn(target, "0123456789"), NULL);

        if (strncmp(target, ">=", 2) == 0)
                return figure >= limit;
        return strncmp(target, "<=", 2) == 0 ? figure <= limit : figure < limit;
}

static const char *verdict(double pawl, double ratio, const char *target)
{
        if (!target || pawl < 0)
                return "-";
        return reaches(ratio < 0 ? pawl : ratio, target) ? "yes" : "NO";
}

void bench_line(int row, const char *what, double floor, double peer, double pawl, double ratio, const char *target)
{
        char text[4][32];

        printf("%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", row, what, figure(text[0], sizeof(text[0]), floor),
               figure(text[1], sizeof(text[1]), peer), figure(text[2], sizeof(text[2]), pawl),
               figure(text[3], sizeof(text[3]), ratio), target ? target : "-", verdict(pawl, ratio, target));
        fflush(stdout);
}

void bench_note(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        fputs("    ", stderr);
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
        va_end(args);
}

static void remove_directory(void)
{
        char command[PATH_LENGTH + 16];

        if (directory_of != getpid())
                return;
        snprintf(command, sizeof(command), "rm -rf '%s'", directory);
        if (system(command) != 0)
                fprintf(stderr, "bench: %s is left behind\n", directory);
}

const char *bench_directory(void)
{
        struct statfs fs;
        int on_tmpfs = statfs("/dev/shm", &fs) == 0 && fs.f_type == TMPFS;

        if (directory_of == getpid())
                return directory;
        snprintf(directory, sizeof(directory), "%s/pawl-bench.XXXXXX", on_tmpfs ? "/dev/shm" : "/tmp");
        if (!mkdtemp(directory))
                bench_die("cannot make a directory like %s", directory);
        directory_of = getpid();
        atexit(remove_directory);
        if (!on_tmpfs)
                bench_note("there is no tmpfs at /dev/shm: a disk is part of these figures");
        return directory;
}

char *bench_url(const char *name)
{
        static char url[PATH_LENGTH + 64];

        snprintf(url, sizeof(url), "local:%s/%s", bench_directory(), name);
        return url;
}

pawl_client *bench_open(const char *url, const struct pawl_open_options *options)
{
        pawl_client *client;
        pawl_lock *lock;
        int code = pawl_open(url, options, &client);

        if (code == PAWL_NO_ENGINE) {
                bench_note("this build has no engine for %s", url);
                return NULL;
        }
        bench_must(code, url);
        bench_must(pawl_acquire(client, "bench/first", NULL, &lock), url);
        bench_must(pawl_release(lock), "release");
        return client;
}
