/* row_15_many_locks_pg.c - one client holds 100,000 locks on one PostgreSQL server: how many transactions renew them,
 * what each costs in memory, and whether a renewal is late. */
#include <stdio.h>

#include "bare_pg.h"
#include "bench.h"
#include "many_locks.h"
#include "server.h"

static void part(int cores)
{
        struct server server;
        struct many_locks job = {
                .url = server.url, .ttl_ms = 10000, .hold_seconds = 10, .flight = 64, .commands = bare_pg_commits};
        char what[128];

        server_start(&server, "postgres");
        job.arg = bare_pg_connect(server.port);
        if (bench_quick())
                job.hold_seconds = 1;
        if (many_locks_run(&job)) {
                many_locks_lines(&job, "PostgreSQL", cores);
                snprintf(what, sizeof(what), "  transactions that renew them in a third of the ttl, %d core(s)", cores);
                bench_line(15, what, -1, -1, job.per_third, -1, "<= 200");
        }
        bare_pg_close(job.arg);
        server_stop(&server);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
