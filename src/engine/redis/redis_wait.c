/* redis_wait.c - claims that wait. A grant is pushed to us by whoever gives the lock back. A push can be lost, and a holder
 * can die without a word: so each queue is looked at when its holder's lease may be over. */
#include <stdlib.h>
#include <string.h>

#include "redis.h"

enum { LOOK_AT_ONCE = 200 };
#define LOOK_LEAST (5 * MS)     /* never oftener */
#define LOOK_MOST (20 * SECOND) /* a third of the queue's lease: scripts/common.lua */
#define LOOK_FOREIGN (100 * MS) /* a holder that is not one of us tells nobody when it lets go */
#define LOOK_GRACE (2 * MS)     /* the server's clock has steps of a millisecond */

/* ---- the list of one name ---------------------------------------------------------------------------------------- */

static struct waitlist *waitlist_find(struct redis *redis, const char *name, size_t length)
{
        uint64_t hash = table_hash(name, length);

        for (struct link *link = table_first(&redis->waitlists, hash); link; link = link->next) {
                struct waitlist *list = container_of(link, struct waitlist, link);

                if (link->hash == hash && list->name_length == length && memcmp(list->name, name, length) == 0)
                        return list;
        }
        return NULL;
}

static void look_due(struct timer *timer);

static struct waitlist *waitlist_new(struct redis *redis, const char *name, size_t length)
{
        struct waitlist *list = calloc(1, sizeof(*list) + length + 1);

        if (!list)
                return NULL;
        list->redis = redis;
        list->name_length = length;
        memcpy(list->name, name, length);
        list_init(&list->claims);
        list_init(&list->ask.listed);
        list->timer.fire = look_due;
        if (loop_set(redis->engine.host->loop, &list->timer, NEVER) != 0) {
                free(list);
                return NULL;
        }
        list_append(&redis->queues, &list->listed);
        table_add(&redis->waitlists, &list->link, table_hash(name, length));
        return list;
}

static void waitlist_free(struct waitlist *list)
{
        loop_unset(list->redis->engine.host->loop, &list->timer);
        table_remove(&list->redis->waitlists, &list->link);
        list_remove(&list->listed);
        free(list->holder);
        free(list->sent);
        free(list);
}

static void keep_holder(struct waitlist *list, const char *value, size_t length)
{
        free(list->holder);
        list->holder = length ? strndup(value, length) : NULL; /* for the history only: it may be missing */
}

/* Of one that nobody will notify. The first in line looks often; those behind it much less, all of them together hardly more
 * than the first: they only see to it that it is still there. */
static int64_t poll_interval(struct loop *loop, int64_t place)
{
        int64_t in = place * place * LOOK_FOREIGN;
        uint16_t chance;

        if (place > 100 || in > LOOK_MOST)
                in = LOOK_MOST;
        loop_random(loop, &chance, sizeof(chance));
        return in / 2 + in / UINT16_MAX * chance;
}

static int64_t look_interval(struct loop *loop, int64_t ms, int64_t foreign)
{
        int64_t in = ms > LOOK_MOST / MS ? LOOK_MOST : ms * MS + LOOK_GRACE;
        int64_t poll;

        if (foreign > 0) {
                poll = poll_interval(loop, foreign);
                if (foreign > 1 || poll < in)
                        in = poll;
        }
        if (in > LOOK_MOST)
                in = LOOK_MOST;
        return in < LOOK_LEAST ? LOOK_LEAST : in;
}

static void look_in(struct waitlist *list, int64_t ms, int64_t foreign)
{
        struct loop *loop = list->redis->engine.host->loop;

        loop_set(loop, &list->timer, loop_now(loop) + look_interval(loop, ms, foreign)); /* moving: cannot fail */
}

/* As look_in, but never later than what was planned. */
static void look_by(struct waitlist *list, int64_t ms, int64_t foreign)
{
        struct loop *loop = list->redis->engine.host->loop;
        int64_t at = loop_now(loop) + look_interval(loop, ms, foreign);

        if (at < list->timer.at)
                loop_set(loop, &list->timer, at);
}

int wait_begin(struct part *part, int64_t look_in_ms, int64_t foreign, const char *holder, size_t holder_length)
{
        const struct claim *claim = part->claim;
        struct waitlist *list = waitlist_find(part->redis, claim->name, claim->name_length);
        bool first = !list || list_empty(&list->claims);

        if (!list)
                list = waitlist_new(part->redis, claim->name, claim->name_length);
        if (!list)
                return PAWL_NO_MEMORY;
        part->state = WAITING;
        part->waitlist = list;
        list_append(&list->claims, &part->listed);
        if (first) {
                keep_holder(list, holder, holder_length);
                look_in(list, look_in_ms, foreign);
        } else if (!foreign) {
                look_by(list, look_in_ms, 0);
        }
        if (part->pushed_due)
                look_by(list, part->pushed_due, 0);
        return PAWL_OK;
}

void wait_end(struct part *part)
{
        struct waitlist *list = part->waitlist;

        if (list->next == &part->listed)
                list->next = part->listed.next;
        list_remove(&part->listed);
        part->waitlist = NULL;
        if (list_empty(&list->claims) && !list->looking)
                waitlist_free(list);
}

/* ---- granted by a push ------------------------------------------------------------------------------------------- */

static bool is_looked_at(const struct part *part)
{
        const struct waitlist *list = part->waitlist;

        for (size_t i = 0; list->looking && i < list->sent_count; i++)
                if (memcmp(&list->sent[2 * i], part->claim->uid, sizeof(part->claim->uid)) == 0)
                        return true;
        return false;
}

/* The grant came after we last asked, so its lease began after that: counted from there it is safe to use at once. Not so
 * if that was long ago, or if the server gave it just long enough to ask. */
static void use_grant(struct part *part, uint64_t token, int64_t lease_ms)
{
        int64_t asked_at = part->asked_at;
        int64_t ttl = part->claim->ttl;

        wait_end(part);
        part->token = token;
        if (lease_ms >= ttl / MS && redis_now(part->redis) - asked_at < ttl / 4)
                claim_told(part, token, asked_at);
        else
                claim_confirm(part);
}

void wait_granted(struct part *part, uint64_t token, int64_t lease_ms)
{
        if (token <= part->floor) /* an old grant, told late: the server knows better by now */
                return;
        if (!is_looked_at(part)) {
                use_grant(part, token, lease_ms);
                return;
        }
        /* The look that is under way may find this grant over and get another, with another token: it goes first. */
        part->token = token;
        part->pushed_lease = (uint32_t)lease_ms;
}

static void look_now(struct waitlist *list);

static void told_granted(struct redis *redis, const char *text, const uint64_t uid[2])
{
        struct part *part = claim_find(redis, uid);
        char *end;
        uint64_t token = strtoull(text + 33, &end, 10);
        long lease = strtol(end, &end, 10);

        if (*end != ' ' || token == 0 || lease <= 0)
                return;
        if (!part) { /* given up, and the server did not know yet */
                ghost_of_uid(redis, text, end + 1, strlen(end + 1));
        } else if (part->state == WAITING) {
                wait_granted(part, token, lease);
        } else if (part->state == ASKING) { /* faster than the reply that says we wait */
                part->token = token;
                part->pushed_lease = (uint32_t)lease;
        }
}

/* The lock has gone to a holder whose lease ends sooner than the one that we know of. The reply to a check that is under way
 * may not know that. */
static void told_due(struct part *part, const char *text)
{
        long ms = strtol(text + 33, NULL, 10);

        if (ms <= 0 || ms > LOOK_MOST / MS)
                return;
        if (part->state == ASKING)
                part->pushed_due = (uint32_t)ms;
        if (part->state != WAITING)
                return;
        if (part->waitlist->looking)
                part->waitlist->again = true;
        look_by(part->waitlist, ms, 0);
}

static void told(struct redis *redis, const char *text)
{
        const struct engine_host *host = redis->engine.host;
        const char *blank = strchr(text, ' ');
        struct part *part;
        uint64_t uid[2];

        if (!blank || strlen(blank + 1) < 32 || !uid_read(blank + 1, uid))
                return;
        if (redis->member) {
                member_told(redis, text, uid);
                return;
        }
        if (strncmp(text, "granted ", 8) == 0) {
                told_granted(redis, blank + 1, uid);
                return;
        }
        part = claim_find(redis, uid);
        if (part && strncmp(text, "due ", 4) == 0)
                told_due(part, blank + 1);
        else if (part && part->state == WAITING && strncmp(text, "look ", 5) == 0)
                look_now(part->waitlist);
        else if (part && part->state == HELD && strncmp(text, "broken ", 7) == 0)
                claim_broken(part);
        else if (part && part->state == HELD && strncmp(text, "asked ", 6) == 0)
                host->events->asked(host->core, part->claim);
}

static bool is_text(const redisReply *reply, const char *text)
{
        return reply->type == REDIS_REPLY_STRING && strcmp(reply->str, text) == 0;
}

void news_told(struct wire *wire, const redisReply *reply)
{
        struct redis *redis = wire->redis;

        if (reply->elements == 2 && is_text(reply->element[0], "pong"))
                wire_open_told(wire);
        if (reply->elements != 3 || reply->element[1]->type != REDIS_REPLY_STRING)
                return;
        if (!is_text(reply->element[1], redis->channel))
                return;
        if (is_text(reply->element[0], "subscribe")) {
                wire_open_told(wire);
                wire_be_ready(wire);
        } else if (is_text(reply->element[0], "message") && reply->element[2]->type == REDIS_REPLY_STRING) {
                told(redis, reply->element[2]->str);
        }
}

/* ---- looking again ----------------------------------------------------------------------------------------------- */

static struct waitlist *waitlist_of_ask(struct ask *ask)
{
        return container_of(ask, struct waitlist, ask);
}

static struct part *sent_part(const struct waitlist *list, size_t i)
{
        struct part *part = claim_find(list->redis, &list->sent[2 * i]);

        return part && part->state == WAITING && part->waitlist == list ? part : NULL;
}

/* Those that have left meanwhile are taken out: the reply has a line for each that was written. */
static void drop_those_who_left(struct waitlist *list)
{
        size_t kept = 0;

        for (size_t i = 0; i < list->sent_count; i++) {
                if (!sent_part(list, i))
                        continue;
                list->sent[2 * kept] = list->sent[2 * i];
                list->sent[2 * kept + 1] = list->sent[2 * i + 1];
                kept++;
        }
        list->sent_count = kept;
}

static int write_look(struct ask *ask, struct wire *wire)
{
        struct waitlist *list = waitlist_of_ask(ask);
        const struct redis *redis = list->redis;

        drop_those_who_left(list);
        write_script(wire, ask, SCRIPT_WAIT, LOCK_KEYS, LOCK_KEYS + 3 + 2 * list->sent_count);
        write_lock_keys(wire, list->name, list->name_length);
        write_text(wire, redis->history);
        write_text(wire, redis->client);
        write_text(wire, list->holder ? list->holder : "");
        for (size_t i = 0; i < list->sent_count; i++) {
                const struct part *part = sent_part(list, i);

                write_record(wire, part, "");
                write_number(wire, (int64_t)part->ticket);
        }
        return write_end(wire);
}

static bool is_look(const struct waitlist *list, const redisReply *reply)
{
        if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 4 + list->sent_count)
                return false;
        for (size_t i = 0; i < reply->elements; i++)
                if (reply->element[i]->type != (i == 2 ? REDIS_REPLY_STRING : REDIS_REPLY_INTEGER))
                        return false;
        return true;
}

static void look_told(struct waitlist *list, const redisReply *reply)
{
        redisReply **words = reply->element;

        for (size_t i = 0; i < list->sent_count; i++) {
                struct part *part = sent_part(list, i);

                if (!part)
                        continue;
                part->asked_at = list->ask.sent_at;
                part->floor = (uint64_t)words[3]->integer;
                if (words[4 + i]->integer > 0) {
                        wait_end(part);
                        claim_told(part, (uint64_t)words[4 + i]->integer, list->ask.sent_at);
                } else if (part->pushed_lease && part->token > part->floor) {
                        use_grant(part, part->token, part->pushed_lease);
                }
        }
        list->redis->alive_at = list->ask.sent_at;
        keep_holder(list, words[2]->str, words[2]->len);
        look_in(list, words[0]->integer, words[1]->integer);
}

static void look(struct waitlist *list);

static void refuse_claims(struct waitlist *list, const struct pawl_why *why);

/* Some refusals will not change; others may pass, but nobody waits in vain for ever and without a word. */
static void look_refused(struct waitlist *list, const struct pawl_why *why)
{
        struct redis *redis = list->redis;
        int64_t now = redis_now(redis);

        if (!redis->commands.ready) /* the connection is lost: claims_down decides */
                return;
        if (!list->refused_at)
                list->refused_at = now;
        if (why->code == PAWL_DENIED || why->code == PAWL_UNSUPPORTED || why->code == PAWL_CORRUPT ||
            now - list->refused_at >= PATIENCE_IN_LINE * redis->timeout)
                refuse_claims(list, why);
        else
                redis->refusal = *why; /* of the server, and not of this name */
}

static void look_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct waitlist *list = waitlist_of_ask(ask);

        if (reply && is_look(list, reply)) {
                list->refused_at = 0;
                look_told(list, reply);
        } else {
                look_in(list, LOOK_FOREIGN / MS, 1);
                if (why)
                        look_refused(list, why);
        }
        list->looking = false;
        if (list_empty(&list->claims))
                waitlist_free(list);
        else if (list->next || list->again)
                look(list);
}

/* The first is looked at; or, from where the last look ended, as many as fit. */
static size_t choose(struct waitlist *list)
{
        struct list *at = list->next ? list->next : list->claims.next;
        size_t most = list->next ? LOOK_AT_ONCE : 1;

        list->sent_count = 0;
        for (; at != &list->claims && list->sent_count < most; at = at->next) {
                const struct part *part = container_of(at, struct part, listed);

                memcpy(&list->sent[2 * list->sent_count++], part->claim->uid, sizeof(part->claim->uid));
        }
        if (list->next)
                list->next = at == &list->claims ? NULL : at;
        return list->sent_count;
}

static bool make_room(struct waitlist *list)
{
        size_t most = list->next ? LOOK_AT_ONCE : 1;
        uint64_t *sent = realloc(list->sent, most * 2 * sizeof(*sent));

        if (sent)
                list->sent = sent;
        return sent != NULL;
}

static void look(struct waitlist *list)
{
        struct redis *redis = list->redis;

        if (list->looking)
                list->again = true;
        if (list->looking || list_empty(&list->claims) || !redis->commands.ready)
                return;
        list->again = false;
        wire_ping(&redis->news);
        if (list->all) {
                list->all = false;
                list->next = list->claims.next;
        }
        list->ask.write = write_look;
        list->ask.answered = look_answered;
        if (!make_room(list) || choose(list) == 0 || wire_ask(&redis->commands, &list->ask) != PAWL_OK) {
                list->all = true;
                list->next = NULL;
                look_in(list, 1000, false);
                return;
        }
        list->looking = true;
        if (++list->looks % 8 == 0) /* the others now and then: what was lost of them would never be found */
                list->all = true;
}

static void look_due(struct timer *timer)
{
        struct waitlist *list = container_of(timer, struct waitlist, timer);

        loop_set(list->redis->engine.host->loop, timer, NEVER);
        look(list);
}

/* The server has dropped one of them, and lets us know. */
static void look_now(struct waitlist *list)
{
        list->all = true;
        look(list);
}

void wait_look_all(struct redis *redis)
{
        struct list *next;

        for (struct list *at = redis->queues.next; at != &redis->queues; at = next) {
                struct waitlist *list = container_of(at, struct waitlist, listed);

                next = at->next;
                list->all = true;
                look(list);
        }
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

/* Not while the list may be freed by that: it is looking. */
static void refuse_claims(struct waitlist *list, const struct pawl_why *why)
{
        while (!list_empty(&list->claims)) {
                struct part *part = list_first(&list->claims, struct part, listed);

                ghost_of_part(part);
                claim_refuse(part, why->code, why->text);
        }
}

static void refuse_list(struct waitlist *list, const struct pawl_why *why)
{
        list->looking = true; /* so that it stays until we are through */
        refuse_claims(list, why);
        list->looking = !list_empty(&list->ask.listed);
        if (!list->looking)
                waitlist_free(list);
}

void wait_refuse_all(struct redis *redis, const struct pawl_why *why)
{
        struct list *next;

        for (struct list *at = redis->queues.next; at != &redis->queues; at = next) {
                next = at->next;
                refuse_list(container_of(at, struct waitlist, listed), why);
        }
}

void wait_free(struct redis *redis)
{
        while (!list_empty(&redis->queues))
                waitlist_free(list_first(&redis->queues, struct waitlist, listed));
}
