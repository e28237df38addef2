/* row_16_many_waiters_pg.c - hand-offs between asynchronous waiters of one client on one lock of one PostgreSQL server:
 * 10,000 against 32. */
#include "bench.h"
#include "server.h"
#include "waiters.h"

static void part(int cores)
{
        struct server server;

        server_start(&server, "postgres");
        waiters_compare(server.url, server.url, "PostgreSQL", cores);
        server_stop(&server);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
