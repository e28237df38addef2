/* redis_value.c - the bytes beside a lock: stored by one script that looks whose the lock is, fetched by another. A store
 * whose reply was lost is sent again, as all questions are; its number tells the server that it is the same. */
#include <stdlib.h>
#include <string.h>

#include "redis_question.h"

/* What a store says: the claim may be gone when it is sent again, and so may the caller's bytes. */
struct deposit {
        uint64_t token;
        uint64_t number;
        int64_t keep; /* ms */
        char uid[33];
        size_t size;
        char bytes[];
};

static void write_value_key(struct wire *wire, const struct question *question)
{
        write_key(wire, question->redis->value_prefix, question->name, strlen(question->name));
}

/* ---- store ------------------------------------------------------------------------------------------------------- */

static int write_store(struct ask *ask, struct wire *wire)
{
        const struct question *question = question_of(ask);
        const struct deposit *deposit = question->deposit;

        write_script(wire, ask, SCRIPT_STORE, 2, 8);
        write_key(wire, question->redis->prefix, question->name, strlen(question->name));
        write_value_key(wire, question);
        write_bytes(wire, deposit->uid, 32);
        write_number(wire, (int64_t)deposit->token);
        write_text(wire, question->redis->client);
        write_number(wire, (int64_t)deposit->number);
        write_number(wire, deposit->keep);
        write_bytes(wire, deposit->bytes, deposit->size);
        return write_end(wire);
}

static void store_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct question *question = question_of(ask);

        if (!question_heard(question, reply, why))
                return;
        if (reply->type != REDIS_REPLY_INTEGER)
                question_finish(question, PAWL_IN_DOUBT, question_nonsense);
        else if (reply->integer == 1)
                question_finish(question, PAWL_OK, NULL);
        else if (reply->integer < 0 && question->doubtful)
                question_finish(question, PAWL_IN_DOUBT, "it was sent, no answer came, and the lock is another's now");
        else
                question_finish(question, PAWL_LOST, NULL);
}

static struct deposit *deposit_new(struct redis *redis, const struct claim *claim, uint64_t token,
                                   const struct inquiry *inquiry)
{
        struct deposit *deposit = malloc(sizeof(*deposit) + inquiry->size);

        if (!deposit)
                return NULL;
        deposit->token = token;
        deposit->number = ++redis->stores;
        deposit->keep = inquiry->keep / MS;
        uid_text(claim->uid, deposit->uid);
        deposit->size = inquiry->size;
        if (inquiry->size)
                memcpy(deposit->bytes, inquiry->data, inquiry->size);
        return deposit;
}

static void value_store(struct engine *engine, const struct claim *claim, uint64_t token, struct inquiry *inquiry)
{
        struct question *question = question_new(engine, inquiry, write_store, store_answered);

        if (!question)
                return;
        question->deposit = deposit_new(redis_of(engine), claim, token, inquiry);
        if (question->deposit)
                question_ask(question);
        else
                question_finish(question, PAWL_NO_MEMORY, NULL);
}

/* ---- fetch ------------------------------------------------------------------------------------------------------- */

static int write_fetch(struct ask *ask, struct wire *wire)
{
        write_script(wire, ask, SCRIPT_FETCH, 1, 1);
        write_value_key(wire, question_of(ask));
        return write_end(wire);
}

/* { bytes, token, when, TIME } */
static bool is_value(const redisReply *reply)
{
        if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 4)
                return false;
        for (size_t i = 0; i < 4; i++)
                if (reply->element[i]->type != REDIS_REPLY_STRING || !reply->element[i]->str)
                        return false;
        return reply->element[0]->len > 0 && reply->element[0]->len <= PAWL_VALUE_MAX;
}

static void fetch_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct question *question = question_of(ask);
        struct pawl_value value;

        if (!question_heard(question, reply, why))
                return;
        if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 0) {
                question_finish(question, PAWL_NOT_FOUND, NULL);
                return;
        }
        if (!is_value(reply)) {
                question_finish(question, PAWL_CORRUPT, question_nonsense);
                return;
        }
        value.data = reply->element[0]->str;
        value.size = reply->element[0]->len;
        value.token = strtoull(reply->element[1]->str, NULL, 10);
        value.stored_us = strtoll(reply->element[2]->str, NULL, 10);
        value.now_us = strtoll(reply->element[3]->str, NULL, 10);
        if (question->inquiry)
                question->inquiry->value(question->inquiry, &value);
        question_finish(question, PAWL_OK, NULL);
}

static void value_fetch(struct engine *engine, struct inquiry *inquiry)
{
        struct question *question = question_new(engine, inquiry, write_fetch, fetch_answered);

        if (question)
                question_ask(question);
}

const struct engine_values redis_values = {
        .store = value_store,
        .fetch = value_fetch,
};
