/* redis_bundle.c - many claims in one call: while a request is under way, plain acquires and releases are gathered; the next
 * reply sends them as one. Each is answered as if it had been asked alone. A script call costs the server more than what the
 * script does for one claim, see NOTES.md.
 *
 * The order stays: a bundle's claims are served in the order in which they were asked, bundles and acquires that are asked
 * alone too. Only releases may overtake acquires. */
#include <stdio.h>
#include <stdlib.h>

#include "redis.h"

enum { BUNDLE_MAX = 128 };

struct bundle {
        struct ask ask;
        struct list listed; /* in redis->bundles */
        struct redis *redis;
        struct list asks; /* of parts, in their order; after wire_forget of something that has no write */
        size_t count;
        enum bundle_kind kind;
        char how; /* of acquires: what to do if it is not free, the same for all */
};

static struct part *part_of_item(struct list *item)
{
        return container_of(container_of(item, struct ask, listed), struct part, ask);
}

static void bundle_free(struct bundle *bundle)
{
        list_remove(&bundle->listed);
        free(bundle);
}

/* ---- writing ------------------------------------------------------------------------------------------------------- */

static void drop_forgotten(struct bundle *bundle)
{
        struct list *next;

        bundle->count = 0;
        for (struct list *at = bundle->asks.next; at != &bundle->asks; at = next) {
                struct ask *ask = container_of(at, struct ask, listed);

                next = at->next;
                if (ask->write) {
                        bundle->count++;
                        continue;
                }
                list_remove(at);
                ask->answered(ask, NULL, NULL);
        }
}

static void write_locks(struct wire *wire, const struct bundle *bundle)
{
        for (struct list *at = bundle->asks.next; at != &bundle->asks; at = at->next) {
                const struct claim *claim = part_of_item(at)->claim;

                write_key(wire, wire->redis->prefix, claim->name, claim->name_length);
        }
        write_text(wire, wire->redis->fence_key);
}

static int write_acquires(struct wire *wire, const struct bundle *bundle)
{
        char how[ACQUIRE_HOW_MAX];

        acquire_how(wire->redis, PAWL_EXCLUSIVE, bundle->how, bundle->ask.sent_at, how);
        write_script(wire, &bundle->ask, SCRIPT_ACQUIRE_MANY, bundle->count + 1, 3 * bundle->count + 2);
        write_locks(wire, bundle);
        write_text(wire, how);
        for (struct list *at = bundle->asks.next; at != &bundle->asks; at = at->next) {
                const struct part *part = part_of_item(at);

                write_record(wire, part, " ");
                write_number(wire, (part->claim->ttl + part->claim->delay) / MS);
        }
        return write_end(wire);
}

static int write_releases(struct wire *wire, const struct bundle *bundle)
{
        write_script(wire, &bundle->ask, SCRIPT_RELEASE_MANY, bundle->count + 2, 2 * bundle->count + 2);
        write_locks(wire, bundle);
        write_text(wire, wire->redis->past_key);
        for (struct list *at = bundle->asks.next; at != &bundle->asks; at = at->next) {
                const struct part *part = part_of_item(at);
                char word[33 + RELEASE_HOW_MAX];

                uid_text(part->claim->uid, word);
                release_how(part, word + 32);
                write_text(wire, word);
        }
        return write_end(wire);
}

/* The first one of a connection carries its script: if the server had to say that it does not know it, what was asked
 * meanwhile would be served before. */
static int write_bundle(struct ask *ask, struct wire *wire)
{
        struct bundle *bundle = container_of(ask, struct bundle, ask);
        bool *told = &bundle->redis->bundle_told[bundle->kind];
        int code;

        drop_forgotten(bundle);
        ask->whole = ask->whole || !*told;
        code = bundle->kind == BUNDLE_ACQUIRE ? write_acquires(wire, bundle) : write_releases(wire, bundle);
        if (code == PAWL_OK)
                *told = true;
        return code;
}

/* ---- answers ------------------------------------------------------------------------------------------------------- */

struct answer {
        redisReply reply;
        char text[24];
};

/* What the script for one claim would have said to the one at place. */
static const redisReply *answer_at(const struct bundle *bundle, const redisReply *reply, size_t place,
                                   struct answer *answer)
{
        unsigned long long token;

        if (reply->type == REDIS_REPLY_ARRAY && reply->elements == bundle->count)
                return reply->element[place];
        answer->reply = (redisReply){.type = REDIS_REPLY_NIL};
        if (bundle->kind == BUNDLE_RELEASE && reply->type == REDIS_REPLY_INTEGER)
                return reply;
        if (bundle->kind == BUNDLE_ACQUIRE && reply->type == REDIS_REPLY_STRING) {
                token = strtoull(reply->str, NULL, 10);
                if (token >= bundle->count) {
                        answer->reply.type = REDIS_REPLY_STRING;
                        answer->reply.str = answer->text;
                        answer->reply.len = (size_t)snprintf(answer->text, sizeof(answer->text), "%llu",
                                                             token - (bundle->count - 1 - place));
                }
        }
        return &answer->reply;
}

/* One of them may have been the reason: each its own way. What the server did for some before it met that one it says again,
 * if it is asked as one whose reply was lost. */
static void ask_alone(struct redis *redis, struct ask *ask, bool sent)
{
        struct pawl_why why = {.code = PAWL_CANCELLED}; /* of one that was forgotten */

        if (ask->write) {
                if (sent)
                        container_of(ask, struct part, ask)->doubtful = true;
                why.code = wire_ask(&redis->commands, ask);
        }
        if (why.code != PAWL_OK)
                ask->answered(ask, NULL, &why);
}

static void bundle_answered(struct ask *asked, const redisReply *reply, const struct pawl_why *why)
{
        struct bundle *bundle = container_of(asked, struct bundle, ask);
        struct redis *redis = bundle->redis;
        struct answer answer;

        for (size_t place = 0; !list_empty(&bundle->asks); place++) {
                struct ask *ask = list_first(&bundle->asks, struct ask, listed);

                list_remove(&ask->listed);
                ask->sent_at = asked->sent_at;
                if (reply)
                        ask->answered(ask, answer_at(bundle, reply, place, &answer), NULL);
                else if (redis->commands.ready)
                        ask_alone(redis, ask, asked->sent_at != 0);
                else
                        ask->answered(ask, NULL, why);
        }
        bundle_free(bundle);
}

/* ---- gathering ----------------------------------------------------------------------------------------------------- */

static struct bundle *bundle_new(struct redis *redis, enum bundle_kind kind, char how)
{
        struct bundle *bundle = calloc(1, sizeof(*bundle));

        if (!bundle)
                return NULL;
        bundle->ask.write = write_bundle;
        bundle->ask.answered = bundle_answered;
        bundle->redis = redis;
        bundle->kind = kind;
        bundle->how = how;
        list_init(&bundle->asks);
        list_append(&redis->bundles, &bundle->listed);
        return bundle;
}

/* A single one keeps the script for one: it is shorter. */
static void bundle_send(struct bundle *bundle)
{
        struct pawl_why why = {.code = PAWL_OK};

        drop_forgotten(bundle);
        if (bundle->count > 1)
                why.code = wire_ask(&bundle->redis->commands, &bundle->ask);
        if (bundle->count <= 1 || why.code != PAWL_OK)
                bundle_answered(&bundle->ask, NULL, &why);
}

void bundles_send(struct redis *redis)
{
        for (int kind = 0; kind < BUNDLES; kind++) {
                struct bundle *bundle = redis->gathered[kind];

                redis->gathered[kind] = NULL;
                if (bundle)
                        bundle_send(bundle);
        }
}

static bool is_gathering(const struct redis *redis)
{
        return redis->gathered[BUNDLE_RELEASE] || redis->gathered[BUNDLE_ACQUIRE];
}

int bundle_ask(struct redis *redis, struct ask *ask, enum bundle_kind kind, char how)
{
        struct wire *wire = &redis->commands;
        struct bundle *bundle = redis->gathered[kind];

        if (!wire->ready || (list_empty(&wire->asked) && !is_gathering(redis)))
                return wire_ask(wire, ask);
        if (bundle && (bundle->how != how || bundle->count == BUNDLE_MAX)) {
                bundles_send(redis);
                bundle = NULL;
        }
        if (!bundle)
                bundle = redis->gathered[kind] = bundle_new(redis, kind, how);
        if (!bundle)
                return wire_ask(wire, ask);
        list_append(&bundle->asks, &ask->listed);
        bundle->count++;
        return PAWL_OK;
}

/* ---- the connection is lost, or closed ----------------------------------------------------------------------------- */

void bundles_down(struct redis *redis, const struct pawl_why *why)
{
        for (int kind = 0; kind < BUNDLES; kind++) {
                struct bundle *bundle = redis->gathered[kind];

                redis->bundle_told[kind] = false;
                redis->gathered[kind] = NULL;
                if (bundle)
                        bundle_answered(&bundle->ask, NULL, why);
        }
}

void bundles_free(struct redis *redis)
{
        while (!list_empty(&redis->bundles)) {
                struct bundle *bundle = list_first(&redis->bundles, struct bundle, listed);

                drop_forgotten(bundle);
                while (!list_empty(&bundle->asks))
                        list_remove(bundle->asks.next);
                bundle_free(bundle);
        }
}
