/* handoff.c - see handoff.h. Waiters of the floor and of pawl are processes with a connection (pawl: a client) each;
 * those of a peer are threads or tasks of one process, each with a connection and a session of its own. */
#include "handoff.h"

#include <stdio.h>

#include "peer.h"
#include "turns.h"

static const double SECONDS = 0.6, SETTLE = 0.3; /* all that come at once at the start stand in each other's way */

static void lines(const struct handoff *handoff, uint32_t waiters, const char *target, struct contender *c, size_t n)
{
        char what[128];

        snprintf(what, sizeof(what), "%s hand-off, %u waiters%s, owner changes/s, %d core(s); pawl/%s", handoff->engine,
                 waiters, handoff->beside, handoff->cores, c[2].name);
        bench_line(handoff->row, what, bench_figure(&c[0]), bench_figure(&c[2]), bench_figure(&c[1]),
                   bench_ratio(&c[1], &c[2]), handoff->cores == 1 ? target : NULL);
        snprintf(what, sizeof(what), "  the same, pawl/floor, %d core(s)", handoff->cores);
        bench_line(handoff->row, what, bench_figure(&c[0]), -1, bench_figure(&c[1]), bench_ratio(&c[1], &c[0]), NULL);
        for (size_t i = 3; i < n; i++) {
                snprintf(what, sizeof(what), "  %s, %u waiters, %d core(s); peer/%s", c[i].name, waiters,
                         handoff->cores, c[2].name);
                bench_line(handoff->row, what, -1, bench_figure(&c[i]), -1, bench_ratio(&c[i], &c[2]), NULL);
        }
}

struct contender handoff_compare(const struct handoff *handoff, uint32_t waiters, const char *target)
{
        struct turns turns = {.url = handoff->url, .port = handoff->port};
        struct crew_job floor = {
                .size = waiters, .member = handoff->floor, .arg = &turns, .seconds = SECONDS, .settle = SETTLE};
        struct crew_job pawls = {
                .size = waiters, .member = turns_pawl, .arg = &turns, .seconds = SECONDS, .settle = SETTLE};
        struct contender c[2 + HANDOFF_PEERS_MAX] = {
                {.name = "floor", .sample = crew_run, .arg = &floor},
                {.name = "pawl", .sample = handoff->built ? crew_run : NULL, .arg = &pawls},
        };
        char job[32];
        size_t n = 2;

        snprintf(job, sizeof(job), "turns %u %g", waiters, bench_quick() ? 0.1 : 2 * SECONDS);
        for (; n < 2 + HANDOFF_PEERS_MAX && handoff->peers[n - 2]; n++)
                c[n] = peer_start(handoff->peers[n - 2], &handoff->port, 1, job);
        bench_compare(c, n, 1);
        lines(handoff, waiters, target, c, n);
        for (size_t i = 2; i < n; i++)
                peer_stop(&c[i]);
        if (pawls.out_of_turn)
                bench_note("pawl: %llu of %llu turns were not in the order of asking, by %llu at most",
                           (unsigned long long)pawls.out_of_turn, (unsigned long long)pawls.turns,
                           (unsigned long long)pawls.worst);
        return c[1];
}

void handoff_many(const struct handoff *handoff, const struct contender *few, const struct contender *many,
                  const char *target)
{
        char what[128];

        snprintf(what, sizeof(what), "  pawl, 32 waiters against 8 (as the floor), %d core(s)", handoff->cores);
        bench_line(handoff->row, what, bench_figure(few), -1, bench_figure(many), bench_ratio(many, few),
                   handoff->cores == 1 ? target : NULL);
}
