/* row_15_many_locks_zk.c - one client holds 100,000 locks on one ZooKeeper server: how many requests keep them, what each
 * costs in memory, and whether a renewal is late. */
#include <stdio.h>

#include "bench.h"
#include "many_locks.h"
#include "server.h"

/* All that came to the server, pings too. */
static double requests(void *arg)
{
        char answer[4096];

        if (!server_ask(arg, "srvr", answer, sizeof(answer)))
                bench_die("ZooKeeper does not answer to srvr");
        return server_sum(answer, "Received:");
}

static void part(int cores)
{
        struct server server;
        struct many_locks job = {.url = server.url,
                                 .ttl_ms = 10000,
                                 .hold_seconds = 10,
                                 .flight = 64,
                                 .commands = requests,
                                 .arg = &server};

        server_start(&server, "zookeeper");
        many_locks_of_session(&job, "zookeeper", cores);
        server_stop(&server);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        return 0;
}
