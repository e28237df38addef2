/* polite.c - see polite.h. With no cost at all that load makes 1,000 hand-offs a second. */
#include "polite.h"

#include <stdio.h>

#include <pawl.h>

#include "bench.h"
#include "peer.h"
#include "server.h"
#include "turns.h"

enum { WAITERS = 8, HOLD_NS = 1000000, PAUSE_NS = 5000000 };
static const double SECONDS = 1.0, IDEAL = 1000;

void polite_compare(const struct server *server, const char *engine,
                    void (*floor)(struct crew *crew, uint32_t me, void *arg), const char *peer, int cores,
                    const char *target)
{
        struct turns polite = {.url = server->url, .port = server->port, .hold_ns = HOLD_NS, .pause_ns = PAUSE_NS};
        struct crew_job floors = {.size = WAITERS, .member = floor, .arg = &polite, .seconds = SECONDS};
        struct crew_job pawls = {.size = WAITERS, .member = turns_pawl, .arg = &polite, .seconds = SECONDS};
        pawl_client *client = bench_open(server->url, NULL);
        struct contender c[] = {
                {.name = "floor", .sample = crew_run, .arg = &floors},
                peer_start(peer, &server->port, 1, bench_quick() ? "polite 8 0.1" : "polite 8 1"),
                {.name = "pawl", .sample = client ? crew_run : NULL, .arg = &pawls},
        };
        char what[128];

        pawl_close(client);
        bench_compare(c, 3, 1);
        snprintf(what, sizeof(what), "%s polite load, hand-offs/s, %d core(s); peer %s; pawl/1000", engine, cores,
                 peer);
        bench_line(14, what, bench_figure(&c[0]), bench_figure(&c[1]), bench_figure(&c[2]), bench_figure(&c[2]) / IDEAL,
                   cores == 1 ? target : NULL);
        peer_stop(&c[1]);
}
