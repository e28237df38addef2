/* row_03_redis_pair.c - one uncontended acquire and release on one Redis server, through the public API with a fencing
 * token, against the bare protocol by hiredis (which has none) and against other libraries. */
#include <pawl.h>
#include <stdio.h>

#include "bench.h"
#include "peer.h"
#include "redis_pair.h"

enum { BATCH = 100, SAMPLES = 20, PEERS = 3 };

static double bare(void *arg)
{
        int64_t begin = bench_now();

        redis_pairs(arg, BATCH);
        return (double)(bench_now() - begin) / BATCH / 1000;
}

static double formatted(void *arg)
{
        int64_t begin = bench_now();

        redis_pairs_formatted(arg, BATCH);
        return (double)(bench_now() - begin) / BATCH / 1000;
}

static double ours(void *arg)
{
        pawl_client *client = arg;
        int64_t begin = bench_now();
        uint64_t last = 0;

        for (int i = 0; i < BATCH; i++) {
                pawl_lock *lock;

                bench_must(pawl_acquire(client, "bench/pair", NULL, &lock), "acquire");
                if (pawl_token(lock) <= last)
                        bench_die("a token did not grow");
                last = pawl_token(lock);
                bench_must(pawl_release(lock), "release");
        }
        return (double)(bench_now() - begin) / BATCH / 1000;
}

static void lines(int cores, const char *way, struct contender *c, size_t peers)
{
        char what[128];

        snprintf(what, sizeof(what), "redis pair with fence, us, %s, %d core(s); pawl/floor", way, cores);
        bench_line(3, what, bench_figure(&c[0]), -1, bench_figure(&c[2]), bench_ratio(&c[2], &c[0]),
                   cores == 1 ? "<= 1.08" : NULL);
        snprintf(what, sizeof(what), "  floor: the same, commands formatted once, %d core(s); of the floor", cores);
        bench_line(3, what, bench_figure(&c[1]), -1, -1, bench_ratio(&c[1], &c[0]), NULL);
        for (size_t i = 3; i < 3 + peers; i++) {
                snprintf(what, sizeof(what), "  %s, no fence, %d core(s); peer/floor", c[i].name, cores);
                bench_line(3, what, -1, bench_figure(&c[i]), -1, bench_ratio(&c[i], &c[0]), NULL);
        }
}

/* connection becomes the floor's. */
static void compare(int cores, const char *way, redisContext *connection, const char *url, struct contender *peers,
                    size_t n)
{
        struct redis_pair pair;
        pawl_client *client = bench_open(url, NULL);
        struct contender c[3 + PEERS] = {
                {.name = "hiredis", .sample = bare, .arg = &pair},
                {.name = "hiredis, formatted", .sample = formatted, .arg = &pair},
                {.name = "pawl", .sample = client ? ours : NULL, .arg = client},
        };

        for (size_t i = 0; i < n; i++)
                c[3 + i] = peers[i];
        redis_pair_init(&pair, connection, "pair");
        bench_compare(c, 3 + n, SAMPLES);
        lines(cores, way, c, n);
        redis_pair_free(&pair);
        pawl_close(client);
}

static void part(int cores)
{
        struct redis_server server;
        struct contender peers[PEERS];

        redis_servers_start(&server, 1);
        peers[0] = peer_start("redis-py", &server.port, 1, "pair 100");
        peers[1] = peer_start("redlock", &server.port, 1, "pair 100");
        peers[2] = peer_start("redis-semaphore", &server.port, 1, "pair 100");
        compare(cores, "TCP", redis_connect(server.port), server.url, peers, PEERS);
        compare(cores, "unix socket", redis_connect_unix(server.path), server.unix_url, NULL, 0);
        for (size_t i = 0; i < PEERS; i++)
                peer_stop(&peers[i]);
        redis_servers_stop(&server, 1);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
