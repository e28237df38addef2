/* redis_pair.h - the floor of a Redis pair: SET NX PX and a compare-and-delete script, on one blocking connection. No fence,
 * no queue, no owner to read. */
#ifndef PAWL_BENCH_REDIS_PAIR_H
#define PAWL_BENCH_REDIS_PAIR_H

#include "redis.h"

struct redis_pair {
        redisContext *connection;
        char key[32], value[40], digest[41];
        char *set, *unset; /* the same two commands as bytes, made once */
        size_t set_size, unset_size;
};

/* key names the lock; the connection is the pair's from now on. */
void redis_pair_init(struct redis_pair *pair, redisContext *connection, const char *key);
void redis_pair_free(struct redis_pair *pair);

/* n pairs by redisCommand; and from bytes that were formatted before. */
void redis_pairs(struct redis_pair *pair, int n);
void redis_pairs_formatted(struct redis_pair *pair, int n);

#endif
