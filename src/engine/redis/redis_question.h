/* redis_question.h - one inquiry on its way to the server: for redis_inspect.c, which keeps them, and redis_value.c. */
#ifndef PAWL_REDIS_QUESTION_H
#define PAWL_REDIS_QUESTION_H

#include "redis.h"

struct deposit;

struct question {
        struct ask ask;
        struct list listed; /* in redis->questions */
        struct redis *redis;
        struct inquiry *inquiry; /* NULL: nobody waits for the answer any more */
        int64_t tried_at;
        bool sent;
        bool doubtful;                /* sent before, and the connection broke before the reply */
        char name[PAWL_NAME_MAX + 1]; /* or prefix */
        /* of a listing, which takes several requests */
        char cursor[24];
        bool queues; /* the second walk: names that somebody waits for */
        char **keys;
        size_t count, room, shown;
        struct deposit *deposit;                    /* of a store; freed with the question */
        uint64_t token;                             /* of a break: the holder that is meant; 0: all */
        char reason[3 * PAWL_BREAK_REASON_MAX + 1]; /* encoded */
};

static inline struct question *question_of(struct ask *ask)
{
        return container_of(ask, struct question, ask);
}

extern const char question_nonsense[]; /* why: for a reply of the wrong shape */

/* NULL, and the inquiry is answered: there is no memory. Else to be asked, or freed. */
struct question *question_new(struct engine *engine, struct inquiry *inquiry, int (*write)(struct ask *, struct wire *),
                              void (*answered)(struct ask *, const redisReply *, const struct pawl_why *));
/* Sends it, now or when there is a connection. */
void question_ask(struct question *question);
/* False, and the question is answered or waits for a connection: there is no reply to read. */
bool question_heard(struct question *question, const redisReply *reply, const struct pawl_why *why);
void question_finish(struct question *question, int code, const char *why);

#endif
