/* redis_pipeline.c - see redis_pipeline.h. */
#include "redis_pipeline.h"

#include <stdio.h>
#include <stdlib.h>

#include "bench.h"
#include "redis.h"

enum { ROUNDS = 50 };

struct redis_pipeline {
        redisContext *connection;
        char *take[REDIS_PIPELINE_DEPTH], *give[REDIS_PIPELINE_DEPTH]; /* commands as bytes, made once */
        size_t take_size[REDIS_PIPELINE_DEPTH], give_size[REDIS_PIPELINE_DEPTH];
        long long last; /* token */
};

static void make_commands(struct redis_pipeline *pipeline, const char *take, const char *give, int i)
{
        static const char value[] = "0123456789abcdef0123456789abcdef";
        int taking = redisFormatCommand(&pipeline->take[i], "EVALSHA %s 2 bare:pipeline:%d bare:fence %s %d", take, i,
                                        value, REDIS_TTL_MS);
        int giving = redisFormatCommand(&pipeline->give[i], "EVALSHA %s 1 bare:pipeline:%d %s", give, i, value);

        if (taking < 0 || giving < 0)
                bench_die("no memory");
        pipeline->take_size[i] = (size_t)taking;
        pipeline->give_size[i] = (size_t)giving;
}

struct redis_pipeline *redis_pipeline_new(uint16_t port)
{
        struct redis_pipeline *pipeline = calloc(1, sizeof(*pipeline));
        char take[41], give[41];

        if (!pipeline)
                bench_die("no memory");
        pipeline->connection = redis_connect(port);
        redis_load(pipeline->connection, REDIS_SET_WITH_FENCE, take);
        redis_load(pipeline->connection, REDIS_COMPARE_AND_DELETE, give);
        for (int i = 0; i < REDIS_PIPELINE_DEPTH; i++)
                make_commands(pipeline, take, give, i);
        return pipeline;
}

void redis_pipeline_free(struct redis_pipeline *pipeline)
{
        for (int i = 0; i < REDIS_PIPELINE_DEPTH; i++) {
                redisFreeCommand(pipeline->take[i]);
                redisFreeCommand(pipeline->give[i]);
        }
        redisFree(pipeline->connection);
        free(pipeline);
}

/* All of the answers; every one is an integer and, if it is a token, greater than the last. */
static void read_answers(struct redis_pipeline *pipeline, bool tokens)
{
        for (int i = 0; i < REDIS_PIPELINE_DEPTH; i++) {
                redisReply *reply = NULL;

                redisGetReply(pipeline->connection, (void **)&reply);
                redis_must(pipeline->connection, reply, "EVALSHA");
                if (reply->type != REDIS_REPLY_INTEGER || reply->integer <= (tokens ? pipeline->last : 0))
                        bench_die("a pair in the pipeline failed");
                if (tokens)
                        pipeline->last = reply->integer;
                freeReplyObject(reply);
        }
}

static void take_and_give(struct redis_pipeline *pipeline)
{
        for (int i = 0; i < REDIS_PIPELINE_DEPTH; i++)
                redisAppendFormattedCommand(pipeline->connection, pipeline->take[i], pipeline->take_size[i]);
        read_answers(pipeline, true);
        for (int i = 0; i < REDIS_PIPELINE_DEPTH; i++)
                redisAppendFormattedCommand(pipeline->connection, pipeline->give[i], pipeline->give_size[i]);
        read_answers(pipeline, false);
}

double redis_pipeline_rate(void *arg)
{
        int64_t begin = bench_now();

        for (int i = 0; i < ROUNDS; i++)
                take_and_give(arg);
        return ROUNDS * REDIS_PIPELINE_DEPTH * 1e9 / (double)(bench_now() - begin);
}
