/* row_13_pg_handoff.c - one lock on one PostgreSQL server, handed on as fast as it goes. The floor is an advisory lock,
 * for which the server itself keeps the line: a process and a connection for each waiter, no token. pawl's waiters share
 * one connection of one client, and have a token each; beside that, as processes with a client each. */
#include <stdio.h>

#include <pawl.h>

#include "bare_pg.h"
#include "bench.h"
#include "peer.h"
#include "server.h"
#include "turns.h"
#include "waiters.h"

enum { FEW = 8, MORE = 32 };
enum { FLOOR, LINE, CLIENTS, PGBENCH, CONTENDERS };
static const double SECONDS = 0.6, SETTLE = 0.3;

static void lines(int cores, uint32_t waiters, struct contender *c)
{
        char what[128];

        snprintf(what, sizeof(what),
                 "PostgreSQL hand-off, %u waiters of a client, changes/s, %d core(s); pawl/advisory", waiters, cores);
        bench_line(13, what, bench_figure(&c[FLOOR]), bench_figure(&c[PGBENCH]), bench_figure(&c[LINE]),
                   bench_ratio(&c[LINE], &c[FLOOR]), cores == 1 ? ">= 0.5" : NULL);
        snprintf(what, sizeof(what), "  a process and a client each, %u waiters, %d core(s); pawl/advisory", waiters,
                 cores);
        bench_line(13, what, bench_figure(&c[FLOOR]), -1, bench_figure(&c[CLIENTS]),
                   bench_ratio(&c[CLIENTS], &c[FLOOR]), NULL);
}

static void compare(const struct server *server, int cores, bool built, uint32_t waiters)
{
        struct turns turns = {.url = server->url, .port = server->port};
        struct crew_job floor = {
                .size = waiters, .member = bare_pg_turns, .arg = &turns, .seconds = SECONDS, .settle = SETTLE};
        struct crew_job pawls = {
                .size = waiters, .member = turns_pawl, .arg = &turns, .seconds = SECONDS, .settle = SETTLE};
        struct line *line = built ? waiters_line(server->url, (int)waiters) : NULL;
        char job[32];
        struct contender c[CONTENDERS] = {
                [FLOOR] = {.name = "advisory", .sample = crew_run, .arg = &floor},
                [LINE] = {.name = "pawl", .sample = line ? waiters_rate : NULL, .arg = line},
                [CLIENTS] = {.name = "pawl, clients", .sample = built ? crew_run : NULL, .arg = &pawls},
        };

        snprintf(job, sizeof(job), "turns %u %g", waiters, bench_quick() ? 0.1 : 2 * SECONDS);
        c[PGBENCH] = peer_start("pgbench", &server->port, 1, job);
        bench_compare(c, CONTENDERS, 1);
        lines(cores, waiters, c);
        peer_stop(&c[PGBENCH]);
        waiters_end(line);
        if (pawls.out_of_turn)
                bench_note("pawl: %llu of %llu turns were not in the order of asking, by %llu at most",
                           (unsigned long long)pawls.out_of_turn, (unsigned long long)pawls.turns,
                           (unsigned long long)pawls.worst);
}

static void part(int cores)
{
        struct server server;
        pawl_client *client;

        server_start(&server, "postgres");
        client = bench_open(server.url, NULL);
        pawl_close(client);
        compare(&server, cores, client, FEW);
        compare(&server, cores, client, MORE);
        server_stop(&server);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
