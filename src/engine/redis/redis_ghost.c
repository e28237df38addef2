/* redis_ghost.c - what may be left at the server although its caller was told that it failed. It is cleaned up behind him as
 * soon as there is a connection; without memory, or when the client is closed before, its lease does it. */
#include <stdlib.h>
#include <string.h>

#include "redis.h"

static struct ghost *ghost_of_ask(struct ask *ask)
{
        return container_of(ask, struct ghost, ask);
}

static void ghost_free(struct ghost *ghost)
{
        list_remove(&ghost->listed);
        free(ghost);
}

static int write_ghost(struct ask *ask, struct wire *wire)
{
        const struct ghost *ghost = ghost_of_ask(ask);
        const struct redis *redis = ghost->redis;
        size_t name_length = ghost->key_length - redis->prefix_length;

        write_script(wire, ask, SCRIPT_CANCEL, LOCK_KEYS, LOCK_KEYS + 2);
        write_lock_keys(wire, ghost->text + redis->prefix_length, name_length);
        write_bytes(wire, ghost->text + ghost->key_length, ghost->record_length);
        write_text(wire, redis->history);
        return write_end(wire);
}

static void ghost_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct ghost *ghost = ghost_of_ask(ask);

        struct redis *redis = ghost->redis;

        ghost->asked = false;
        if (reply || (redis->commands.ready && !wire_passes(why) && why->code != PAWL_FULL))
                ghost_free(ghost);
        else if (redis->commands.ready) /* else when the connection is back */
                claims_retry_soon(redis);
}

static void ghost_ask(struct ghost *ghost)
{
        if (!ghost->asked && redis_now(ghost->redis) >= ghost->until)
                ghost_free(ghost); /* what is left is over by itself */
        else if (!ghost->asked && wire_ask(&ghost->redis->commands, &ghost->ask) == PAWL_OK)
                ghost->asked = true;
}

static void ghost_add(struct redis *redis, const char *key, size_t key_length, const char *record, size_t record_length,
                      int64_t until)
{
        struct ghost *ghost;

        if (key_length < redis->prefix_length || memcmp(key, redis->prefix, redis->prefix_length) != 0)
                return;
        ghost = calloc(1, sizeof(*ghost) + key_length + record_length);
        if (!ghost)
                return;
        ghost->redis = redis;
        ghost->until = until;
        ghost->key_length = key_length;
        ghost->record_length = record_length;
        memcpy(ghost->text, key, key_length);
        memcpy(ghost->text + key_length, record, record_length);
        ghost->ask.write = write_ghost;
        ghost->ask.answered = ghost_answered;
        list_append(&redis->ghosts, &ghost->listed);
        wire_want(&redis->commands);
        ghost_ask(ghost);
}

void ghost_of_part(const struct part *part)
{
        const struct claim *claim = part->claim;
        struct redis *redis = part->redis;
        char key[256 + PAWL_NAME_MAX + 1], record[RECORD_MAX];
        size_t length = record_make(part, record);

        memcpy(key, redis->prefix, redis->prefix_length);
        memcpy(key + redis->prefix_length, claim->name, claim->name_length);
        ghost_add(redis, key, redis->prefix_length + claim->name_length, record, length,
                  redis_now(redis) + claim->ttl + claim->delay + 60 * SECOND);
}

void ghost_of_uid(struct redis *redis, const char *uid, const char *key, size_t key_length)
{
        ghost_add(redis, key, key_length, uid, 32, redis_now(redis) + 60 * SECOND);
}

void ghosts_up(struct redis *redis)
{
        struct list *next;

        for (struct list *at = redis->ghosts.next; at != &redis->ghosts; at = next) {
                next = at->next;
                ghost_ask(container_of(at, struct ghost, listed));
        }
}

void ghosts_down(struct redis *redis)
{
        int64_t now = redis_now(redis);
        struct list *next;

        for (struct list *at = redis->ghosts.next; at != &redis->ghosts; at = next) {
                struct ghost *ghost = container_of(at, struct ghost, listed);

                next = at->next;
                if (now >= ghost->until && !ghost->asked)
                        ghost_free(ghost);
        }
}

void ghosts_free(struct redis *redis)
{
        while (!list_empty(&redis->ghosts))
                ghost_free(list_first(&redis->ghosts, struct ghost, listed));
}
