/* row_06_redis_handoff.c - one lock on one Redis server, handed on as fast as it goes. Waiters of the floor and of pawl are
 * processes with a connection (pawl: a client) each; those of a peer are threads or tasks of one process, each with a
 * connection. The floor is a token that is waited for with BLPOP and handed on with RPUSH: no lease, no fence. */
#include <stdio.h>

#include <pawl.h>

#include "bench.h"
#include "peer.h"
#include "redis.h"
#include "turns.h"

enum { FEW = 8, MORE = 32, MANY = 1000, PEERS = 3 };
static const double SECONDS = 0.3;

static void lines(int cores, uint32_t waiters, struct contender *c, size_t peers)
{
        char what[128];

        snprintf(what, sizeof(what), "redis hand-off, %u waiters, owner changes/s, %d core(s); pawl/BLPOP", waiters,
                 cores);
        bench_line(6, what, bench_figure(&c[0]), -1, bench_figure(&c[1]), bench_ratio(&c[1], &c[0]),
                   cores == 1 ? ">= 0.6" : NULL);
        for (size_t i = 2; i < 2 + peers; i++) {
                snprintf(what, sizeof(what), "  %s, %u waiters, %d core(s); peer/BLPOP", c[i].name, waiters, cores);
                bench_line(6, what, -1, bench_figure(&c[i]), -1, bench_ratio(&c[i], &c[0]), NULL);
        }
}

/* Gives pawl's figures, for the comparison of few with many. */
static struct contender compare(int cores, const struct redis_server *server, bool engine, uint32_t waiters,
                                size_t peers)
{
        struct turns turns = {.url = server->url, .port = server->port};
        double settle = waiters > MORE ? 1 : 0;
        struct crew_job floor = {
                .size = waiters, .member = redis_turns_blpop, .arg = &turns, .seconds = SECONDS, .settle = settle};
        struct crew_job pawls = {
                .size = waiters, .member = turns_pawl, .arg = &turns, .seconds = SECONDS, .settle = settle};
        static const char *names[PEERS] = {"redis-py", "redlock", "redis-semaphore"};
        char job[32];
        struct contender c[2 + PEERS] = {
                {.name = "BLPOP", .sample = crew_run, .arg = &floor},
                {.name = "pawl", .sample = engine ? crew_run : NULL, .arg = &pawls},
        };

        snprintf(job, sizeof(job), "turns %u %g", waiters, bench_quick() ? 0.1 : 2 * SECONDS);
        for (size_t i = 0; i < peers; i++)
                c[2 + i] = peer_start(names[i], &server->port, 1, job);
        bench_compare(c, 2 + peers, 1);
        lines(cores, waiters, c, peers);
        for (size_t i = 0; i < peers; i++)
                peer_stop(&c[2 + i]);
        return c[1];
}

static void part(int cores)
{
        struct redis_server server;
        struct contender few, more, many;
        char what[128];
        pawl_client *client;

        redis_servers_start(&server, 1);
        client = bench_open(server.url, NULL);
        pawl_close(client);
        few = compare(cores, &server, client, FEW, PEERS);
        more = compare(cores, &server, client, MORE, PEERS);
        snprintf(what, sizeof(what), "  pawl, 32 waiters against 8 (as the floor), %d core(s)", cores);
        bench_line(6, what, bench_figure(&few), -1, bench_figure(&more), bench_ratio(&more, &few),
                   cores == 1 ? ">= 0.9" : NULL);
        if (!bench_quick()) {
                many = compare(cores, &server, client, MANY, 0);
                snprintf(what, sizeof(what), "  pawl, 1,000 waiters against 8 (as the floor), %d core(s)", cores);
                bench_line(6, what, bench_figure(&few), -1, bench_figure(&many), bench_ratio(&many, &few), NULL);
        }
        redis_servers_stop(&server, 1);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
