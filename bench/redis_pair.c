/* redis_pair.c - see redis_pair.h. */
#include "redis_pair.h"

#include <stdio.h>

#include "bench.h"

static void format(char **bytes, size_t *size, int made)
{
        if (made < 0 || !*bytes)
                bench_die("no memory for a command");
        *size = (size_t)made;
}

void redis_pair_init(struct redis_pair *pair, redisContext *connection, const char *key)
{
        pair->connection = connection;
        snprintf(pair->key, sizeof(pair->key), "bare:%s", key);
        snprintf(pair->value, sizeof(pair->value), "0123456789abcdef0123456789abcdef");
        redis_load(connection, REDIS_COMPARE_AND_DELETE, pair->digest);
        format(&pair->set, &pair->set_size,
               redisFormatCommand(&pair->set, "SET %s %s NX PX %d", pair->key, pair->value, REDIS_TTL_MS));
        format(&pair->unset, &pair->unset_size,
               redisFormatCommand(&pair->unset, "EVALSHA %s 1 %s %s", pair->digest, pair->key, pair->value));
}

void redis_pair_free(struct redis_pair *pair)
{
        redisFreeCommand(pair->set);
        redisFreeCommand(pair->unset);
        redisFree(pair->connection);
}

static void must_set(struct redis_pair *pair, redisReply *reply)
{
        redis_must(pair->connection, reply, "SET");
        if (reply->type != REDIS_REPLY_STATUS)
                bench_die("the lock of nobody is taken");
        freeReplyObject(reply);
}

static void must_unset(struct redis_pair *pair, redisReply *reply)
{
        redis_must(pair->connection, reply, "EVALSHA");
        if (reply->type != REDIS_REPLY_INTEGER || reply->integer != 1)
                bench_die("the lock was not ours");
        freeReplyObject(reply);
}

void redis_pairs(struct redis_pair *pair, int n)
{
        for (int i = 0; i < n; i++) {
                must_set(pair,
                         redisCommand(pair->connection, "SET %s %s NX PX %d", pair->key, pair->value, REDIS_TTL_MS));
                must_unset(pair,
                           redisCommand(pair->connection, "EVALSHA %s 1 %s %s", pair->digest, pair->key, pair->value));
        }
}

static redisReply *exchange(redisContext *connection, const char *bytes, size_t size)
{
        void *reply = NULL;

        redisAppendFormattedCommand(connection, bytes, size);
        redisGetReply(connection, &reply);
        return reply;
}

void redis_pairs_formatted(struct redis_pair *pair, int n)
{
        for (int i = 0; i < n; i++) {
                must_set(pair, exchange(pair->connection, pair->set, pair->set_size));
                must_unset(pair, exchange(pair->connection, pair->unset, pair->unset_size));
        }
}
