/* row_16_many_waiters_redis.c - hand-offs between asynchronous waiters of one client on one lock of one Redis server: 10,000
 * against 32. */
#include <stdio.h>

#include "bench.h"
#include "redis.h"
#include "waiters.h"

static void part(int cores)
{
        struct redis_server server;
        char few[128], many[128];

        redis_servers_start(&server, 1);
        snprintf(few, sizeof(few), "%s?prefix=few:", server.url);
        snprintf(many, sizeof(many), "%s?prefix=many:", server.url);
        waiters_compare(few, many, "redis", cores);
        redis_servers_stop(&server, 1);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
