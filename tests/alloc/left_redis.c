/* left_redis.c - what is left at a Redis server: its keys. */
#include "../contract/contract.h"
#include "left.h"

#include <hiredis/hiredis.h>

const struct pace pace = {
        .once = {100, 11}, .by_caller = {1, 17}, .for_good = {34, 167}, .calls = {20, 13}, .replay = 1};

static redisContext *reach(void)
{
        const char *url = getenv("REDIS_URL");
        redisContext *server;
        int port = 0;

        REQUIRE(url && sscanf(url, "redis://127.0.0.1:%d", &port) == 1);
        server = redisConnect("127.0.0.1", port);
        REQUIRE(server && !server->err);
        return server;
}

/* The counter, the history, who was alive lately and what was kept stay; the witness holds its lock. */
static bool may_stay(const char *key)
{
        return !strncmp(key, "pawl:fence:", 11) || !strncmp(key, "pawl:past:", 10) || !strncmp(key, "pawl:old:", 9) ||
               !strncmp(key, "pawl:older:", 11) || !strncmp(key, "pawl:alive:", 11) ||
               !strncmp(key, "pawl:value:", 11) || strstr(key, ":witness");
}

static bool ends_by_itself(redisContext *server, const char *key)
{
        redisReply *left = redisCommand(server, "PTTL %s", key);
        bool ends = CHECK(left && left->type == REDIS_REPLY_INTEGER) && CHECK(left->integer != -1) &&
                    CHECK(left->integer <= 60000);

        if (!ends)
                NOTE("%s stays", key);
        freeReplyObject(left);
        return ends;
}

/* How many keys are left, or -1 if one of them would stay for ever. */
int count_left(const char *place)
{
        redisContext *server = reach();
        redisReply *keys = redisCommand(server, "KEYS *");
        int count = 0;

        (void)place;
        REQUIRE(keys && keys->type == REDIS_REPLY_ARRAY);
        for (size_t i = 0; i < keys->elements && count >= 0; i++) {
                const char *key = keys->element[i]->str;

                if (!may_stay(key))
                        count = ends_by_itself(server, key) ? count + 1 : -1;
        }
        freeReplyObject(keys);
        redisFree(server);
        return count;
}
