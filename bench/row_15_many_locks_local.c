/* row_15_many_locks_local.c - one client holds 100,000 local locks: what each costs in memory, and whether a renewal is
 * late. */
#include "bench.h"
#include "many_locks.h"

static void part(int cores)
{
        struct many_locks job = {.url = bench_url("many"), .ttl_ms = 3000, .hold_seconds = 5};

        if (many_locks_run(&job))
                many_locks_lines(&job, "local", cores);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
