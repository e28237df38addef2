/* row_05_redis_async.c - 64 claims in flight on one Redis server, asynchronously, on one thread: each that is granted is
 * returned, each that was returned is asked for again. Against a pipeline of the bare protocol with a fence. */
#include <pawl.h>
#include <poll.h>
#include <stdio.h>

#include "bench.h"
#include "redis.h"
#include "redis_pipeline.h"

enum { FLIGHT = REDIS_PIPELINE_DEPTH, SAMPLES = 5 };
static const int64_t SAMPLE_NS = 50000000;

struct claim {
        struct flight *flight;
        char name[32];
        uint64_t last_token;
};

struct flight {
        pawl_client *client;
        uint64_t pairs;
        bool ending;
        struct claim claims[FLIGHT];
};

static void ask(struct claim *claim);

static void on_released(int status, void *arg)
{
        struct claim *claim = arg;

        bench_must(status, "release");
        claim->flight->pairs++;
        if (!claim->flight->ending)
                ask(claim);
}

static void on_granted(pawl_lock *lock, int status, void *arg)
{
        struct claim *claim = arg;

        bench_must(status, "grant");
        if (pawl_token(lock) <= claim->last_token)
                bench_die("a token did not grow");
        claim->last_token = pawl_token(lock);
        bench_must(pawl_release_async(lock, on_released, claim), "release");
}

static void ask(struct claim *claim)
{
        pawl_lock *lock;

        bench_must(pawl_acquire_async(claim->flight->client, claim->name, NULL, on_granted, claim, &lock), "acquire");
}

static void dispatch(struct flight *flight)
{
        struct pollfd ready = {.fd = pawl_fd(flight->client), .events = POLLIN};

        poll(&ready, 1, 100);
        bench_must(pawl_dispatch(flight->client), "dispatch");
}

/* Begins with nothing in flight and ends so: what the others do meanwhile must not wait for us. */
static double ours(void *arg)
{
        struct flight *flight = arg;
        uint64_t before = flight->pairs, asked;
        int64_t begin = bench_now(), now;

        flight->ending = false;
        for (int i = 0; i < FLIGHT; i++)
                ask(&flight->claims[i]);
        do {
                dispatch(flight);
                now = bench_now();
        } while (now - begin < SAMPLE_NS);
        asked = flight->pairs;
        flight->ending = true;
        for (uint64_t end = asked + FLIGHT; flight->pairs < end;)
                dispatch(flight);
        return (double)(asked - before) * 1e9 / (double)(now - begin);
}

static void part(int cores)
{
        struct redis_server server;
        struct redis_pipeline *pipeline;
        struct flight flight = {.pairs = 0};
        char what[128];

        redis_servers_start(&server, 1);
        pipeline = redis_pipeline_new(server.port);
        flight.client = bench_open(server.url, PAWL_OPEN(.drive = PAWL_DRIVE_CALLER));
        for (int i = 0; i < FLIGHT; i++) {
                flight.claims[i].flight = &flight;
                snprintf(flight.claims[i].name, sizeof(flight.claims[i].name), "bench/async/%d", i);
        }
        struct contender c[] = {
                {.name = "pipeline", .sample = redis_pipeline_rate, .arg = pipeline},
                {.name = "pawl", .sample = flight.client ? ours : NULL, .arg = &flight},
        };
        bench_compare(c, 2, SAMPLES);
        snprintf(what, sizeof(what), "redis, 64 async claims in flight, pairs/s, %d core(s); pawl/pipeline", cores);
        bench_line(5, what, bench_figure(&c[0]), -1, bench_figure(&c[1]), bench_ratio(&c[1], &c[0]),
                   cores == 1 ? ">= 0.8" : NULL);
        pawl_close(flight.client);
        redis_pipeline_free(pipeline);
        redis_servers_stop(&server, 1);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
