/* row_07_redlock_pair.c - one uncontended acquire and release on five Redis servers, with a fencing token. The floor
 * asks all five at once by hiredis and has no token: it waits for every answer, or for the third. */
#include <pawl.h>
#include <poll.h>
#include <stdio.h>

#include "bench.h"
#include "peer.h"
#include "redis_pair.h"

enum { SERVERS = REDIS_SERVERS_MAX, QUORUM = SERVERS / 2 + 1, BATCH = 50, SAMPLES = 20, PEERS = 2 };

/* ---- floor ------------------------------------------------------------------------------------------------------ */

struct quorum {
        struct redis_pair pairs[SERVERS];
        int owed[SERVERS]; /* answers that are still to come */
        int enough;        /* how many servers' answers are waited for */
};

static void ask_all(struct quorum *quorum, bool take)
{
        for (int i = 0; i < SERVERS; i++) {
                struct redis_pair *pair = &quorum->pairs[i];
                int done = 0;

                if (take)
                        redisAppendCommand(pair->connection, "SET %s %s NX PX %d", pair->key, pair->value,
                                           REDIS_TTL_MS);
                else
                        redisAppendCommand(pair->connection, "EVALSHA %s 1 %s %s", pair->digest, pair->key,
                                           pair->value);
                while (!done)
                        if (redisBufferWrite(pair->connection, &done) != REDIS_OK)
                                bench_die("a server is gone: %s", pair->connection->errstr);
                quorum->owed[i]++;
        }
}

/* Every answer says that the lock was free, or ours. */
static void read_answers(struct quorum *quorum, int i)
{
        redisContext *connection = quorum->pairs[i].connection;
        redisReply *reply = NULL;

        if (redisBufferRead(connection) != REDIS_OK)
                bench_die("a server is gone: %s", connection->errstr);
        while (redisGetReplyFromReader(connection, (void **)&reply) == REDIS_OK && reply) {
                if (reply->type != REDIS_REPLY_STATUS && !(reply->type == REDIS_REPLY_INTEGER && reply->integer == 1))
                        bench_die("a server of the floor refused");
                freeReplyObject(reply);
                quorum->owed[i]--;
        }
}

static int settled(const struct quorum *quorum)
{
        int n = 0;

        for (int i = 0; i < SERVERS; i++)
                n += quorum->owed[i] == 0;
        return n;
}

static void wait_for_answers(struct quorum *quorum, int enough)
{
        struct pollfd ready[SERVERS];

        while (settled(quorum) < enough) {
                for (int i = 0; i < SERVERS; i++)
                        ready[i] = (struct pollfd){.fd = quorum->owed[i] ? quorum->pairs[i].connection->fd : -1,
                                                   .events = POLLIN};
                if (poll(ready, SERVERS, -1) < 0)
                        bench_die("poll failed");
                for (int i = 0; i < SERVERS; i++)
                        if (ready[i].revents)
                                read_answers(quorum, i);
        }
}

static double floor_pair(void *arg)
{
        struct quorum *quorum = arg;
        int64_t begin = bench_now();
        double us;

        for (int i = 0; i < BATCH; i++) {
                ask_all(quorum, true);
                wait_for_answers(quorum, quorum->enough);
                ask_all(quorum, false);
                wait_for_answers(quorum, quorum->enough);
        }
        us = (double)(bench_now() - begin) / BATCH / 1000;
        wait_for_answers(quorum, SERVERS);
        return us;
}

static void init_quorum(struct quorum *quorum, struct redis_server *servers, int enough, const char *key)
{
        *quorum = (struct quorum){.enough = enough};
        for (int i = 0; i < SERVERS; i++)
                redis_pair_init(&quorum->pairs[i], redis_connect(servers[i].port), key);
}

static void free_quorum(struct quorum *quorum)
{
        for (int i = 0; i < SERVERS; i++)
                redis_pair_free(&quorum->pairs[i]);
}

/* ---- pawl ------------------------------------------------------------------------------------------------------- */

static double our_pair(void *arg)
{
        int64_t begin = bench_now();
        uint64_t last = 0;

        for (int i = 0; i < BATCH; i++) {
                pawl_lock *lock;

                bench_must(pawl_acquire(arg, "bench/pair", NULL, &lock), "acquire");
                if (pawl_token(lock) <= last)
                        bench_die("a token did not grow");
                last = pawl_token(lock);
                bench_must(pawl_release(lock), "release");
        }
        return (double)(bench_now() - begin) / BATCH / 1000;
}

static pawl_client *open_redlock(const struct redis_server *servers)
{
        char url[256];
        int used = snprintf(url, sizeof(url), "redlock://");

        for (int i = 0; i < SERVERS; i++)
                used += snprintf(url + used, sizeof(url) - (size_t)used, "%s127.0.0.1:%u", i ? "," : "",
                                 servers[i].port);
        return bench_open(url, NULL);
}

/* ---- the row ---------------------------------------------------------------------------------------------------- */

static void lines(int cores, struct contender *c)
{
        char what[128];

        snprintf(what, sizeof(what), "redlock of 5, pair with token, us, %d core(s); pawl/wait for all", cores);
        bench_line(7, what, bench_figure(&c[0]), -1, bench_figure(&c[2]), bench_ratio(&c[2], &c[0]),
                   cores == 1 ? "<= 1.15" : NULL);
        snprintf(what, sizeof(what), "  the same; pawl/return at quorum, %d core(s)", cores);
        bench_line(7, what, bench_figure(&c[1]), -1, bench_figure(&c[2]), bench_ratio(&c[2], &c[1]),
                   cores == 2 ? "<= 1.15" : NULL);
        for (int i = 3; i < 3 + PEERS; i++) {
                snprintf(what, sizeof(what), "  %s, no token, %d core(s); peer/wait for all", c[i].name, cores);
                bench_line(7, what, -1, bench_figure(&c[i]), -1, bench_ratio(&c[i], &c[0]), NULL);
        }
}

static void part(int cores)
{
        struct redis_server servers[SERVERS];
        uint16_t ports[SERVERS];
        struct quorum all, quorum;
        pawl_client *client;

        redis_servers_start(servers, SERVERS);
        for (int i = 0; i < SERVERS; i++)
                ports[i] = servers[i].port;
        init_quorum(&all, servers, SERVERS, "all");
        init_quorum(&quorum, servers, QUORUM, "quorum");
        client = open_redlock(servers);
        struct contender c[] = {
                {.name = "wait for all", .sample = floor_pair, .arg = &all},
                {.name = "return at quorum", .sample = floor_pair, .arg = &quorum},
                {.name = "pawl", .sample = client ? our_pair : NULL, .arg = client},
                peer_start("redlock", ports, SERVERS, "pair 50"),
                peer_start("redis-semaphore", ports, SERVERS, "pair 50"),
        };
        bench_compare(c, 3 + PEERS, SAMPLES);
        lines(cores, c);
        for (int i = 3; i < 3 + PEERS; i++)
                peer_stop(&c[i]);
        pawl_close(client);
        free_quorum(&all);
        free_quorum(&quorum);
        redis_servers_stop(servers, SERVERS);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
