/* row_14_polite_redis.c - a polite load on one Redis server: each of eight waiters holds the lock for 1 ms and then pauses
 * for 5 ms. With no cost at all that makes 1,000 hand-offs a second. */
#include <pawl.h>
#include <stdio.h>

#include "bench.h"
#include "peer.h"
#include "redis.h"
#include "turns.h"

enum { WAITERS = 8, HOLD_NS = 1000000, PAUSE_NS = 5000000 };
static const double SECONDS = 1.0, IDEAL = 1000;

static void part(int cores)
{
        struct redis_server server;
        struct turns polite = {.url = server.url, .hold_ns = HOLD_NS, .pause_ns = PAUSE_NS};
        struct crew_job floor = {.size = WAITERS, .member = redis_turns_blpop, .arg = &polite, .seconds = SECONDS};
        struct crew_job pawls = {.size = WAITERS, .member = turns_pawl, .arg = &polite, .seconds = SECONDS};
        pawl_client *client;
        char what[128];

        redis_servers_start(&server, 1);
        polite.port = server.port;
        client = bench_open(server.url, NULL);
        pawl_close(client);
        struct contender c[] = {
                {.name = "BLPOP", .sample = crew_run, .arg = &floor},
                {.name = "redis-py", .sample = NULL},
                {.name = "pawl", .sample = client ? crew_run : NULL, .arg = &pawls},
        };
        c[1] = peer_start("redis-py", &server.port, 1, bench_quick() ? "polite 8 0.1" : "polite 8 1");
        bench_compare(c, 3, 1);
        snprintf(what, sizeof(what),
                 "redis polite load, hand-offs/s, %d core(s); floor BLPOP, peer redis-py; pawl/1000", cores);
        bench_line(14, what, bench_figure(&c[0]), bench_figure(&c[1]), bench_figure(&c[2]), bench_figure(&c[2]) / IDEAL,
                   cores == 1 ? ">= 0.85" : NULL);
        peer_stop(&c[1]);
        redis_servers_stop(&server, 1);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
