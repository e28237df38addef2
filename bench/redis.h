/* redis.h - Redis servers of the benchmark's own, and the bare protocol from C: what physics and the server leave. */
#ifndef PAWL_BENCH_REDIS_H
#define PAWL_BENCH_REDIS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <hiredis/hiredis.h>

#include "crew.h"

enum { REDIS_SERVERS_MAX = 5, REDIS_TTL_MS = 10000 };

/* One server, on a free port of 127.0.0.1 and on a unix socket, that keeps everything in memory. It may use the cores that
 * we may use. */
struct redis_server {
        pid_t pid;
        uint16_t port;
        char path[256];
        char url[64];
        char unix_url[300];
};

/* Starts n of them and waits until they answer; skips the row if there is no redis-server. They end with
 * redis_servers_stop, and if we die. */
void redis_servers_start(struct redis_server *servers, size_t n);
void redis_servers_stop(struct redis_server *servers, size_t n);

/* These end the program instead of failing. */
redisContext *redis_connect(uint16_t port);
redisContext *redis_connect_unix(const char *path);

/* The digest of a script, loaded into the server behind the connection. Copied into digest. */
void redis_load(redisContext *connection, const char *script, char digest[41]);
/* Ends the program unless the reply is there and no error. Gives it back. */
redisReply *redis_must(redisContext *connection, void *reply, const char *what);

/* Deletes a key if it has the value: how every client of Redis lets go of a lock. */
extern const char REDIS_COMPARE_AND_DELETE[];
/* SET NX PX, then one more of the counter: the least that makes a token in the same step. */
extern const char REDIS_SET_WITH_FENCE[];

/* A member of a crew that waits for a token with BLPOP and hands it on with RPUSH: no lease, nothing but the hand-off.
 * arg is a struct turns. */
void redis_turns_blpop(struct crew *crew, uint32_t me, void *arg);

#endif
