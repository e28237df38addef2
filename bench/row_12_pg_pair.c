/* row_12_pg_pair.c - one uncontended acquire and release on one PostgreSQL server through the public API with a fencing
 * token, in both modes: lease rows against the bare rows by libpq, advisory locks against bare ones, and those of
 * pgbench. */
#include <stdio.h>

#include <pawl.h>

#include "bare_pg.h"
#include "bench.h"
#include "pair.h"
#include "peer.h"
#include "server.h"

enum { SAMPLES = 12 };
enum { ROWS, LEASES, BARE, ADVISORY, PGBENCH, CONTENDERS };

static double rows(void *arg)
{
        int64_t begin = bench_now();

        bare_pg_row_pairs(arg, PAIR_BATCH);
        return (double)(bench_now() - begin) / PAIR_BATCH / 1000;
}

static double advisory(void *arg)
{
        int64_t begin = bench_now();

        bare_pg_advisory_pairs(arg, PAIR_BATCH);
        return (double)(bench_now() - begin) / PAIR_BATCH / 1000;
}

static void lines(int cores, struct contender *c)
{
        char what[128];

        snprintf(what, sizeof(what), "PostgreSQL pair, us, %d core(s); floor INSERT, DELETE by libpq; pawl/floor",
                 cores);
        bench_line(12, what, bench_figure(&c[ROWS]), -1, bench_figure(&c[LEASES]), bench_ratio(&c[LEASES], &c[ROWS]),
                   cores == 1 ? "<= 1.30" : NULL);
        snprintf(what, sizeof(what), "  mode=advisory, %d core(s); floor try, unlock by libpq; pawl/floor", cores);
        bench_line(12, what, bench_figure(&c[BARE]), bench_figure(&c[PGBENCH]), bench_figure(&c[ADVISORY]),
                   bench_ratio(&c[ADVISORY], &c[BARE]), cores == 1 ? "<= 1.05" : NULL);
        snprintf(what, sizeof(what), "  advisory locks by pgbench, %d core(s); peer/floor", cores);
        bench_line(12, what, -1, bench_figure(&c[PGBENCH]), -1, bench_ratio(&c[PGBENCH], &c[BARE]), NULL);
}

static void part(int cores)
{
        struct server server;
        struct bare_pg *pg;
        pawl_client *lease, *session;
        char url[sizeof(server.url) + 16];

        server_start(&server, "postgres");
        pg = bare_pg_connect(server.port);
        lease = bench_open(server.url, NULL);
        snprintf(url, sizeof(url), "%s?mode=advisory", server.url);
        session = lease ? bench_open(url, NULL) : NULL;
        struct contender c[CONTENDERS] = {
                [ROWS] = {.name = "rows", .sample = rows, .arg = pg},
                [LEASES] = {.name = "pawl", .sample = lease ? pair_sample : NULL, .arg = lease},
                [BARE] = {.name = "advisory", .sample = advisory, .arg = pg},
                [ADVISORY] = {.name = "pawl advisory", .sample = session ? pair_sample : NULL, .arg = session},
                [PGBENCH] = peer_start("pgbench", &server.port, 1, bench_quick() ? "pair 50" : "pair 500"),
        };

        bench_compare(c, CONTENDERS, SAMPLES);
        lines(cores, c);
        peer_stop(&c[PGBENCH]);
        pawl_close(session);
        pawl_close(lease);
        bare_pg_close(pg);
        server_stop(&server);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
