/* row_08_zk_pair.c - one uncontended acquire and release on one ZooKeeper server, through the public API with a fencing
 * token, against the bare protocol by ZooKeeper's own library (which has none) and against other libraries. */
#include <stdio.h>

#include <pawl.h>

#include "bare_zk.h"
#include "bench.h"
#include "pair.h"
#include "peer.h"
#include "server.h"

enum { SAMPLES = 6, PEERS = 2 };

static double one_flight(void *arg)
{
        int64_t begin = bench_now();

        bare_zk_pairs(arg, PAIR_BATCH, true);
        return (double)(bench_now() - begin) / PAIR_BATCH / 1000;
}

static double blind(void *arg)
{
        int64_t begin = bench_now();

        bare_zk_pairs(arg, PAIR_BATCH, false);
        return (double)(bench_now() - begin) / PAIR_BATCH / 1000;
}

static void lines(int cores, struct contender *c)
{
        char what[128];

        snprintf(what, sizeof(what), "zookeeper pair, us, %d core(s); floor node and list in one flight; pawl/floor",
                 cores);
        bench_line(8, what, bench_figure(&c[0]), -1, bench_figure(&c[2]), bench_ratio(&c[2], &c[0]),
                   cores == 1 ? "<= 1.05" : NULL);
        snprintf(what, sizeof(what), "  floor: without the list: not a lock, %d core(s); of the floor", cores);
        bench_line(8, what, bench_figure(&c[1]), -1, -1, bench_ratio(&c[1], &c[0]), NULL);
        for (size_t i = 3; i < 3 + PEERS; i++) {
                snprintf(what, sizeof(what), "  %s, no fence, %d core(s); peer/floor", c[i].name, cores);
                bench_line(8, what, -1, bench_figure(&c[i]), -1, bench_ratio(&c[i], &c[0]), NULL);
        }
}

static void part(int cores)
{
        struct server server;
        struct bare_zk *bare;
        pawl_client *client;

        server_start(&server, "zookeeper");
        bare_zk_warm_up(server.port);
        bare = bare_zk_connect(server.port);
        client = bench_open(server.url, NULL);
        struct contender c[3 + PEERS] = {
                {.name = "one flight", .sample = one_flight, .arg = bare},
                {.name = "without the list", .sample = blind, .arg = bare},
                {.name = "pawl", .sample = client ? pair_sample : NULL, .arg = client},
                peer_start("curator", &server.port, 1, "pair 50"),
                peer_start("kazoo", &server.port, 1, "pair 50"),
        };

        bench_compare(c, 3 + PEERS, SAMPLES);
        lines(cores, c);
        for (size_t i = 3; i < 3 + PEERS; i++)
                peer_stop(&c[i]);
        pawl_close(client);
        bare_zk_close(bare);
        server_stop(&server);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
