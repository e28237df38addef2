/* row_15_many_locks_redis.c - one client holds 100,000 locks on one Redis server: how many commands renew them, what each
 * costs in memory, and whether a renewal is late. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "many_locks.h"
#include "redis.h"

/* The calls of one command; those that scripts make count elsewhere, under their own names. */
static double calls_of(const char *stats, const char *command)
{
        const char *at = strstr(stats, command);

        return at ? strtod(at + strlen(command), NULL) : 0;
}

/* A client's renewal is a script: nothing else may carry hundreds of locks. */
static double commands(void *arg)
{
        redisContext *connection = arg;
        redisReply *reply = redis_must(connection, redisCommand(connection, "INFO commandstats"), "INFO");
        double calls = calls_of(reply->str, "cmdstat_evalsha:calls=") + calls_of(reply->str, "cmdstat_eval:calls=");

        freeReplyObject(reply);
        return calls;
}

static void part(int cores)
{
        struct redis_server server;
        struct many_locks job = {.url = server.url, .ttl_ms = 10000, .hold_seconds = 10, .commands = commands};
        char what[128];

        redis_servers_start(&server, 1);
        job.arg = redis_connect(server.port);
        if (bench_quick())
                job.hold_seconds = 1;
        if (many_locks_run(&job)) {
                many_locks_lines(&job, "redis", cores);
                snprintf(what, sizeof(what), "  commands that renew them in a third of the ttl, %d core(s)", cores);
                bench_line(15, what, -1, -1, job.per_third, -1, "<= 200");
        }
        redisFree(job.arg);
        redis_servers_stop(&server, 1);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
