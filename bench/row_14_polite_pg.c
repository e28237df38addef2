/* row_14_polite_pg.c - a polite load on one PostgreSQL server: each of eight waiters holds the lock for 1 ms and then
 * pauses for 5 ms. */
#include "bare_pg.h"
#include "bench.h"
#include "polite.h"
#include "server.h"

static void part(int cores)
{
        struct server server;

        server_start(&server, "postgres");
        polite_compare(&server, "PostgreSQL", bare_pg_turns, "pgbench", cores, ">= 0.8");
        server_stop(&server);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
