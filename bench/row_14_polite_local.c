/* row_14_polite_local.c - a polite load: each of eight processes holds the lock for 1 ms and then pauses for 5 ms.
 * With no cost at all that makes 1,000 hand-offs a second; what is missing is the price of each hand-off. */
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>

#include "bench.h"
#include "crew.h"
#include "turns.h"

enum { WAITERS = 8, HOLD_NS = 1000000, PAUSE_NS = 5000000 };
static const double SECONDS = 1.0, IDEAL = 1000;

static void flock_member(struct crew *crew, uint32_t me, void *arg)
{
        int fd = open(arg, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

        if (fd < 0)
                bench_die("cannot open %s", (const char *)arg);
        crew_start(crew);
        while (!atomic_load(&crew->stop)) {
                uint64_t ticket = crew_ask(crew);

                flock(fd, LOCK_EX);
                crew_turn(crew, me, ticket);
                turns_sleep(HOLD_NS);
                flock(fd, LOCK_UN);
                turns_sleep(PAUSE_NS);
        }
}

/* The floor: one process that does nothing but hold. What it misses of 1,000 is the timer's, not a lock's. */
static void alone_member(struct crew *crew, uint32_t me, void *arg)
{
        (void)arg;
        crew_start(crew);
        while (!atomic_load(&crew->stop)) {
                crew->last_member = UINT32_MAX; /* every turn counts as a change */
                crew_turn(crew, me, crew_ask(crew));
                turns_sleep(HOLD_NS);
        }
}

static void part(int cores)
{
        char path[512], what[128];
        struct crew_job alone = {.size = 1, .member = alone_member, .seconds = SECONDS};
        struct crew_job flocks = {.size = WAITERS, .member = flock_member, .arg = path, .seconds = SECONDS};
        struct turns polite = {.url = bench_url("polite"), .hold_ns = HOLD_NS, .pause_ns = PAUSE_NS};
        struct crew_job pawls = {.size = WAITERS, .member = turns_pawl, .arg = &polite, .seconds = SECONDS};
        struct contender c[] = {
                {.name = "sleep only", .sample = crew_run, .arg = &alone},
                {.name = "flock(2)", .sample = crew_run, .arg = &flocks},
                {.name = "pawl", .sample = crew_run, .arg = &pawls},
        };

        snprintf(path, sizeof(path), "%s/flock", bench_directory());
        bench_compare(c, 3, 1);
        snprintf(what, sizeof(what), "local polite load, hand-offs/s, %d core(s); pawl/1000", cores);
        bench_line(14, what, bench_figure(&c[0]), bench_figure(&c[1]), bench_figure(&c[2]), bench_figure(&c[2]) / IDEAL,
                   cores == 1 ? ">= 0.95" : NULL);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
