/* row_15_many_locks_etcd.c - one client holds 100,000 locks on one etcd server: how many requests keep them, what each costs
 * in memory, and whether a renewal is late. */
#include <stdio.h>

#include "bench.h"
#include "many_locks.h"
#include "server.h"

/* All messages that came to the server, those on streams too. */
static double requests(void *arg)
{
        static char answer[1 << 20];

        if (!server_ask(arg, "GET /metrics HTTP/1.0\r\n\r\n", answer, sizeof(answer)))
                bench_die("etcd does not answer to /metrics");
        return server_sum(answer, "grpc_server_msg_received_total");
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

        server_start(&server, "etcd");
        many_locks_of_session(&job, "etcd", cores);
        server_stop(&server);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        return 0;
}
