/* row_10_etcd_pair.c - one uncontended acquire and release on one etcd server, through the public API with a fencing token,
 * against the bare protocol by nghttp2 and against other libraries. Who can share a lease between locks does. */
#include <stdio.h>

#include <pawl.h>

#include "bare_etcd.h"
#include "bench.h"
#include "pair.h"
#include "peer.h"
#include "server.h"

enum { SAMPLES = 6, PEERS = 3 };

static double bare(void *arg)
{
        int64_t begin = bench_now();

        bare_etcd_pairs(arg, PAIR_BATCH);
        return (double)(bench_now() - begin) / PAIR_BATCH / 1000;
}

static void lines(int cores, struct contender *c)
{
        char what[128];

        snprintf(what, sizeof(what), "etcd pair, us, %d core(s); floor Txn and Delete by nghttp2; pawl/floor", cores);
        bench_line(10, what, bench_figure(&c[0]), -1, bench_figure(&c[1]), bench_ratio(&c[1], &c[0]),
                   cores == 1 ? "<= 1.05" : NULL);
        for (size_t i = 2; i < 2 + PEERS; i++) {
                snprintf(what, sizeof(what), "  %s, %d core(s); peer/floor", c[i].name, cores);
                bench_line(10, what, -1, bench_figure(&c[i]), -1, bench_ratio(&c[i], &c[0]), NULL);
        }
}

static void part(int cores)
{
        struct server server;
        struct bare_etcd *etcd;
        pawl_client *client;

        server_start(&server, "etcd");
        etcd = bare_etcd_connect(server.port);
        client = bench_open(server.url, NULL);
        struct contender c[2 + PEERS] = {
                {.name = "nghttp2", .sample = bare, .arg = etcd},
                {.name = "pawl", .sample = client ? pair_sample : NULL, .arg = client},
                peer_start("go-etcd", &server.port, 1, "pair 50"),
                peer_start("python-etcd3", &server.port, 1, "pair 50"),
                peer_start("npm-etcd3", &server.port, 1, "pair 50"),
        };

        bench_compare(c, 2 + PEERS, SAMPLES);
        lines(cores, c);
        for (size_t i = 2; i < 2 + PEERS; i++)
                peer_stop(&c[i]);
        pawl_close(client);
        bare_etcd_close(etcd);
        server_stop(&server);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
