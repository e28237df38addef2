/* row_14_polite_etcd.c - a polite load on one etcd server: each of eight waiters holds the lock for 1 ms and then pauses for
 * 5 ms. */
#include "bare_etcd.h"
#include "bench.h"
#include "polite.h"
#include "server.h"

static void part(int cores)
{
        struct server server;

        server_start(&server, "etcd");
        polite_compare(&server, "etcd", bare_etcd_turns, "go-etcd", cores, ">= 0.6");
        server_stop(&server);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
