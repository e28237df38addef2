/* waiters.c - see waiters.h. Each waiter that is granted lets go at once and stands in line again. A line stands still while
 * the other one is measured: with a longer ttl than usual, so that this makes nobody look as if it had died. */
#include "waiters.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <pawl.h>

#include "bench.h"

enum { FEW = 32, MANY = 10000, SAMPLES = 3, TTL_MS = 60000 };
static const int64_t SAMPLE_NS = 200000000;

struct line {
        char name[32];
        pawl_client *client;
        uint64_t handed_off;
        uint64_t last_token;
};

static void stand_in_line(struct line *line);

static void on_granted(pawl_lock *lock, int status, void *arg)
{
        struct line *line = arg;

        if (status == PAWL_CANCELLED) /* the client is being closed */
                return;
        bench_must(status, "grant");
        if (pawl_token(lock) <= line->last_token)
                bench_die("a token did not grow");
        line->last_token = pawl_token(lock);
        line->handed_off++;
        stand_in_line(line); /* first: so the line is as long at every hand-off */
        bench_must(pawl_release_async(lock, NULL, NULL), "release");
}

static void stand_in_line(struct line *line)
{
        pawl_lock *lock;

        bench_must(pawl_acquire_async(line->client, line->name, PAWL_LOCK(.ttl_ms = TTL_MS), on_granted, line, &lock),
                   "acquire");
}

double waiters_rate(void *arg)
{
        struct line *line = arg;
        struct pollfd ready = {.fd = pawl_fd(line->client), .events = POLLIN};
        uint64_t before = line->handed_off;
        int64_t begin = bench_now(), now;

        do {
                poll(&ready, 1, 100);
                bench_must(pawl_dispatch(line->client), "dispatch");
                now = bench_now();
        } while (now - begin < SAMPLE_NS);
        return (double)(line->handed_off - before) * 1e9 / (double)(now - begin);
}

struct line *waiters_line(const char *url, int waiters)
{
        struct line *line = calloc(1, sizeof(*line));

        if (!line)
                bench_die("no memory");
        snprintf(line->name, sizeof(line->name), "bench/line-%d", waiters);
        line->client = bench_open(url, PAWL_OPEN(.drive = PAWL_DRIVE_CALLER));
        if (!line->client) {
                free(line);
                return NULL;
        }
        for (int i = 0; i < waiters + 1; i++)
                stand_in_line(line);
        while (line->handed_off < (uint64_t)waiters) /* until everybody stood in line once */
                waiters_rate(line);
        return line;
}

void waiters_end(struct line *line)
{
        if (!line)
                return;
        pawl_close(line->client);
        free(line);
}

void waiters_compare(const char *few_url, const char *many_url, const char *engine, int cores)
{
        struct line *lines[] = {waiters_line(few_url, FEW), waiters_line(many_url, MANY)};
        struct contender c[] = {
                {.name = "32 waiters", .sample = waiters_rate, .arg = lines[0]},
                {.name = "10,000 waiters", .sample = waiters_rate, .arg = lines[1]},
        };
        char what[128];

        if (!lines[0] || !lines[1])
                return;
        bench_compare(c, 2, SAMPLES);
        snprintf(what, sizeof(what), "%s: 10,000 async waiters, hand-offs/s, %d core(s); pawl/32 waiters", engine,
                 cores);
        bench_line(16, what, bench_figure(&c[0]), -1, bench_figure(&c[1]), bench_ratio(&c[1], &c[0]), ">= 0.8");
        for (int i = 0; i < 2; i++)
                waiters_end(lines[i]);
}
