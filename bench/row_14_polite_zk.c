/* row_14_polite_zk.c - a polite load on one ZooKeeper server: each of eight waiters holds the lock for 1 ms and then
 * pauses for 5 ms. */
#include "bare_zk.h"
#include "bench.h"
#include "polite.h"
#include "server.h"

static void part(int cores)
{
        struct server server;

        server_start(&server, "zookeeper");
        bare_zk_warm_up(server.port);
        polite_compare(&server, "zookeeper", bare_zk_turns, "curator", cores, ">= 0.6");
        server_stop(&server);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
