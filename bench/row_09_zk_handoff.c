/* row_09_zk_handoff.c - one lock on one ZooKeeper server, handed on as fast as it goes. The floor watches the node
 * before its own, by ZooKeeper's own library: no token, no owner. */
#include <pawl.h>

#include "bare_zk.h"
#include "bench.h"
#include "handoff.h"
#include "server.h"

enum { FEW = 8, MORE = 32 };

static void part(int cores)
{
        struct server server;
        struct handoff handoff = {.row = 9,
                                  .engine = "zookeeper",
                                  .url = server.url,
                                  .cores = cores,
                                  .floor = bare_zk_turns,
                                  .peers = {"curator", "kazoo"},
                                  .beside = ""};
        struct contender few, more;
        pawl_client *client;

        server_start(&server, "zookeeper");
        bare_zk_warm_up(server.port);
        handoff.port = server.port;
        client = bench_open(server.url, NULL);
        handoff.built = client;
        pawl_close(client);
        few = handoff_compare(&handoff, FEW, ">= 1.5");
        more = handoff_compare(&handoff, MORE, ">= 1.5");
        handoff_many(&handoff, &few, &more, NULL);
        server_stop(&server);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
