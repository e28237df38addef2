/* row_04_redis_threads.c - eight threads of one client, each with a lock of its own, on one Redis server. The floor has a
 * connection and a thread for each; the other one shows what a single connection can do if it is kept full. */
#include <pawl.h>
#include <pthread.h>
#include <stdio.h>

#include "bench.h"
#include "peer.h"
#include "redis_pair.h"
#include "redis_pipeline.h"

enum { THREADS = 8, PAIRS = 200, SAMPLES = 3, PEERS = 3 };

struct worker {
        pthread_t thread;
        struct redis_pair pair;
        pawl_client *client;
        char name[32];
};

/* Pairs a second, all threads together. */
static double run(struct worker *workers, void *(*body)(void *))
{
        int64_t begin = bench_now();

        for (int i = 0; i < THREADS; i++)
                if (pthread_create(&workers[i].thread, NULL, body, &workers[i]) != 0)
                        bench_die("no thread");
        for (int i = 0; i < THREADS; i++)
                pthread_join(workers[i].thread, NULL);
        return THREADS * PAIRS * 1e9 / (double)(bench_now() - begin);
}

static void *bare_body(void *arg)
{
        struct worker *worker = arg;

        redis_pairs(&worker->pair, PAIRS);
        return NULL;
}

static double bare(void *arg)
{
        return run(arg, bare_body);
}

static void *our_body(void *arg)
{
        struct worker *worker = arg;

        for (int i = 0; i < PAIRS; i++) {
                pawl_lock *lock;

                bench_must(pawl_acquire(worker->client, worker->name, NULL, &lock), "acquire");
                bench_must(pawl_release(lock), "release");
        }
        return NULL;
}

static double ours(void *arg)
{
        return run(arg, our_body);
}

static void init_workers(struct worker *workers, const struct redis_server *server, pawl_client *client)
{
        for (int i = 0; i < THREADS; i++) {
                workers[i].client = client;
                snprintf(workers[i].name, sizeof(workers[i].name), "bench/threads/%d", i);
                redis_pair_init(&workers[i].pair, redis_connect(server->port), workers[i].name);
        }
}

static void lines(int cores, struct contender *c)
{
        char what[128];

        snprintf(what, sizeof(what), "redis, 8 threads of one client, pairs/s, %d core(s); pawl/8 connections", cores);
        bench_line(4, what, bench_figure(&c[0]), -1, bench_figure(&c[2]), bench_ratio(&c[2], &c[0]),
                   cores == 1 ? ">= 2" : NULL);
        snprintf(what, sizeof(what), "  floor: one connection, 64 deep with fence, %d core(s); of 8 connections",
                 cores);
        bench_line(4, what, bench_figure(&c[1]), -1, -1, bench_ratio(&c[1], &c[0]), NULL);
        for (int i = 3; i < 3 + PEERS; i++) {
                snprintf(what, sizeof(what), "  %s, 8 at once, no fence, %d core(s); peer/8 connections", c[i].name,
                         cores);
                bench_line(4, what, -1, bench_figure(&c[i]), -1, bench_ratio(&c[i], &c[0]), NULL);
        }
}

static void part(int cores)
{
        struct redis_server server;
        struct worker workers[THREADS];
        pawl_client *client;
        struct redis_pipeline *pipeline;

        redis_servers_start(&server, 1);
        client = bench_open(server.url, NULL);
        pipeline = redis_pipeline_new(server.port);
        init_workers(workers, &server, client);
        struct contender c[] = {
                {.name = "8 connections", .sample = bare, .arg = workers},
                {.name = "pipeline", .sample = redis_pipeline_rate, .arg = pipeline},
                {.name = "pawl", .sample = client ? ours : NULL, .arg = workers},
                peer_start("redis-py", &server.port, 1, "threads 8 50"),
                peer_start("redlock", &server.port, 1, "threads 8 50"),
                peer_start("redis-semaphore", &server.port, 1, "threads 8 50"),
        };
        bench_compare(c, 3 + PEERS, SAMPLES);
        lines(cores, c);
        for (int i = 3; i < 3 + PEERS; i++)
                peer_stop(&c[i]);
        for (int i = 0; i < THREADS; i++)
                redis_pair_free(&workers[i].pair);
        redis_pipeline_free(pipeline);
        pawl_close(client);
        redis_servers_stop(&server, 1);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
