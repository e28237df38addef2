/* row_11_etcd_handoff.c - one lock on one etcd server, handed on as fast as it goes; and once more while another
 * client writes other keys all the time: a watch that lags then is served in steps of 100 ms. The floor has one
 * standing watch on the whole line: no token, no owner. */
#include <pawl.h>

#include "bare_etcd.h"
#include "bench.h"
#include "handoff.h"
#include "server.h"

enum { FEW = 8, MORE = 32 };

static void busy(struct handoff *handoff)
{
        pid_t noise = bare_etcd_noise_start(handoff->port);

        handoff->beside = " beside a writer";
        handoff_compare(handoff, FEW, ">= 15");
        bare_etcd_noise_stop(noise);
}

static void part(int cores)
{
        struct server server;
        struct handoff handoff = {.row = 11,
                                  .engine = "etcd",
                                  .url = server.url,
                                  .cores = cores,
                                  .floor = bare_etcd_turns,
                                  .peers = {"go-etcd"},
                                  .beside = ""};
        struct contender few, more;
        pawl_client *client;

        server_start(&server, "etcd");
        handoff.port = server.port;
        client = bench_open(server.url, NULL);
        handoff.built = client;
        pawl_close(client);
        few = handoff_compare(&handoff, FEW, ">= 15");
        more = handoff_compare(&handoff, MORE, NULL);
        handoff_many(&handoff, &few, &more, ">= 1");
        busy(&handoff);
        server_stop(&server);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
