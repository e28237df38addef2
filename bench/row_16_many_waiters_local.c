/* row_16_many_waiters_local.c - local hand-offs between asynchronous waiters of one client on one lock: 10,000 against
 * 32. */
#include <stdio.h>

#include "bench.h"
#include "waiters.h"

static void part(int cores)
{
        char few[512];

        snprintf(few, sizeof(few), "%s", bench_url("few"));
        waiters_compare(few, bench_url("many"), "local", cores);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
