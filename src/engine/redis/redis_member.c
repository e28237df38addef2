/* redis_member.c - one server as a member of a quorum (redlock). The votes are scripts, member_*.lua; what makes
 * the server trusted is a marker among its data that names the run in which they are whole. A connection belongs to
 * one run: the run is read when the connection is made, and every vote carries it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../base/name.h"
#include "redis.h"

#define LOOK_RETRY (500 * MS)
enum { MARKER_TAG = 73, MARKER_LENGTH = 89 };  /* "RUN FLOOR LONGEST FLAG TAG" has fixed places */
#define NUMBER_LEAST INT64_C(1000000000000000) /* the scripts want 16 digits: us since 1970 have them from 2001 on */

/* A claim that is announced: a channel that is subscribed to. */
struct channel {
        struct list listed;
        uint64_t uid[2]; /* of the claim */
        size_t length;
        char text[];
};

struct redis_member {
        struct redis *redis;
        struct member *member;
        struct ask config, look, mark, enrol;
        struct timer retry;    /* look again: it could not tell */
        struct list announced; /* struct channel */
        struct list batches;   /* renewals under way */
        struct list questions;
        bool looking, look_again, marking;
        uint64_t floor; /* to be marked with */
        int64_t longest;
        uint64_t mark_tag;
        bool again;
        char durable;     /* d: every write is on disk before it is confirmed; n: not; ?: nobody may know */
        char run[41];     /* of the connection; "" if it is not known yet */
        char seen[160];   /* the marker as it was told */
        char *roster;     /* as it was told; NULL: none */
        char *new_roster; /* to be written; NULL: none is */
        uint64_t new_tag;
        int64_t known;     /* the longest lease in it, ms, as far as we know */
        char flag;         /* the flag in it */
        char *key;         /* pawl:member:P */
        char *roster_key;  /* pawl:roster:P */
        char *turn_prefix; /* pawl:turn:P */
        char *news_prefix; /* pawl:news:P */
        char *wait_prefix; /* pawl:wait:P */
};

/* Our part of a vote. */
struct request {
        struct ask ask; /* first */
        struct vote *vote;
        struct redis_member *own;
};
_Static_assert(sizeof(struct request) <= sizeof(((struct vote *)0)->part), "a vote has room for its request");

static struct vote *vote_of(struct ask *ask)
{
        return container_of(ask, struct request, ask)->vote;
}

/* Tells one uid from another; never 0. */
static uint64_t number_of(const uint64_t uid[2])
{
        uint64_t number = uid[0] * UINT64_C(0x9e3779b97f4a7c15) ^ uid[1];

        return number ? number : 1;
}

static bool is_integer(const redisReply *reply)
{
        return reply->type == REDIS_REPLY_INTEGER;
}

/* ---- what is known of the server --------------------------------------------------------------------------------- */

static void tell(struct redis_member *own)
{
        own->member->changed(own->member);
}

static void send_look(struct redis_member *own);

static void not_trusted(struct redis_member *own)
{
        struct member *member = own->member;

        if (member->trusted)
                member->incarnation++; /* what it voted before does not go together with what it will vote */
        member->trusted = false;
        why_set(&member->why, PAWL_CORRUPT,
                member->marked ? "%s was restarted and may have lost its last writes"
                               : "%s has lost its data, or is new",
                own->redis->where);
}

/* The roster, and the tag that stands behind everything else in the marker of a server that is trusted. */
static void learn_roster(struct redis_member *own, const redisReply *const *told)
{
        struct member *member = own->member;
        const char *tag = strlen(own->seen) == MARKER_LENGTH ? own->seen + MARKER_TAG : "";

        if (!own->roster || strcmp(own->roster, told[8]->str) != 0) {
                free(own->roster);
                own->roster = strdup(told[8]->str); /* without memory it is a server without one */
        }
        member->roster = own->roster ? own->roster : "";
        snprintf(member->id, sizeof(member->id), "%.16s", told[9]->str);
        member->confirmed = told[1]->integer == 1 ? strtoull(tag, NULL, 16) : 0;
        if (!member->enrolling)
                member->tag = member->confirmed;
}

static void learn(struct redis_member *own, const redisReply *const *told)
{
        struct member *member = own->member;

        snprintf(own->run, sizeof(own->run), "%s", told[0]->str);
        snprintf(own->seen, sizeof(own->seen), "%s", told[7]->str);
        own->known = told[3]->integer;
        own->flag = told[4]->str[0];
        learn_roster(own, told);
        member->decided = true;
        member->reachable = true;
        member->run = table_hash(own->run, strlen(own->run));
        member->floor = (uint64_t)told[2]->integer;
        member->longest = told[3]->integer * MS;
        member->marked = member->floor != 0;
        member->durable = told[4]->str[0] == 'd';
        member->untrusted = told[5]->integer * 1000;
        member->clock = (uint64_t)told[6]->integer;
        member->asked_at = own->look.sent_at;
        if (told[1]->integer == 1)
                member->trusted = true;
        else
                not_trusted(own);
}

static bool makes_sense(const redisReply *reply)
{
        static const int types[] = {REDIS_REPLY_STRING, REDIS_REPLY_INTEGER, REDIS_REPLY_INTEGER, REDIS_REPLY_INTEGER,
                                    REDIS_REPLY_STRING, REDIS_REPLY_INTEGER, REDIS_REPLY_INTEGER, REDIS_REPLY_STRING,
                                    REDIS_REPLY_STRING, REDIS_REPLY_STRING};

        if (reply->type != REDIS_REPLY_ARRAY || reply->elements != sizeof(types) / sizeof(*types))
                return false;
        for (size_t i = 0; i < reply->elements; i++)
                if (reply->element[i]->type != types[i])
                        return false;
        return true;
}

static void look_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct redis_member *own = container_of(ask, struct redis_member, look);
        struct member *member = own->member;

        own->looking = false;
        if (!own->redis->commands.ready)
                return; /* member_down tells it */
        if (reply && makes_sense(reply)) {
                learn(own, (const redisReply *const *)reply->element);
        } else {
                member->decided = true;
                member->reachable = false;
                if (reply)
                        why_set(&member->why, PAWL_SYSTEM, "%s: its answer makes no sense", own->redis->where);
                else
                        member->why = *why;
                loop_set(own->redis->engine.host->loop, &own->retry, redis_now(own->redis) + LOOK_RETRY);
        }
        if (own->look_again)
                send_look(own);
        tell(own);
}

static int write_look(struct ask *ask, struct wire *wire)
{
        struct redis_member *own = container_of(ask, struct redis_member, look);

        char id[17];
        uint64_t random;

        loop_random(own->redis->engine.host->loop, &random, sizeof(random));
        snprintf(id, sizeof(id), "%016llx", (unsigned long long)random);
        write_script(wire, ask, SCRIPT_MEMBER_LOOK, 2, 4);
        write_text(wire, own->key);
        write_text(wire, own->roster_key);
        write_bytes(wire, &own->durable, 1);
        write_text(wire, id);
        return write_end(wire);
}

static void send_look(struct redis_member *own)
{
        own->look_again = own->looking;
        if (own->looking)
                return;
        own->look = (struct ask){.write = write_look, .answered = look_answered};
        own->looking = wire_ask(&own->redis->commands, &own->look) == PAWL_OK;
}

static void member_look(struct engine *engine)
{
        send_look(redis_of(engine)->member);
}

/* ---- is every write on disk? ------------------------------------------------------------------------------------- */

static const char *setting(const redisReply *reply, const char *name)
{
        for (size_t i = 0; i + 1 < reply->elements; i += 2)
                if (reply->element[i]->type == REDIS_REPLY_STRING && strcmp(reply->element[i]->str, name) == 0)
                        return reply->element[i + 1]->type == REDIS_REPLY_STRING ? reply->element[i + 1]->str : "";
        return "";
}

static void config_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct redis_member *own = container_of(ask, struct redis_member, config);

        (void)why;
        own->durable = '?';
        if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements)
                own->durable = strcmp(setting(reply, "appendonly"), "yes") == 0 &&
                                               strcmp(setting(reply, "appendfsync"), "always") == 0
                                       ? 'd'
                                       : 'n';
        if (own->redis->commands.ready)
                send_look(own);
}

static int write_config(struct ask *ask, struct wire *wire)
{
        (void)ask;
        write_begin(wire, 3);
        write_text(wire, "CONFIG");
        write_text(wire, "GET");
        write_text(wire, "append*");
        return write_end(wire);
}

/* ---- the connection ---------------------------------------------------------------------------------------------- */

void member_up(struct redis *redis)
{
        struct redis_member *own = redis->member;

        own->run[0] = '\0';
        own->member->incarnation++;
        own->member->enrolling = false;
        own->looking = own->look_again = own->marking = false;
        own->config = (struct ask){.write = write_config, .answered = config_answered};
        (void)!wire_ask(&redis->commands, &own->config); /* it is ready: no memory is all that can be wrong */
}

void member_down(struct redis *redis, const struct pawl_why *why)
{
        struct redis_member *own = redis->member;
        struct member *member = own->member;

        own->run[0] = '\0';
        own->looking = own->look_again = own->marking = member->enrolling = false;
        member->decided = true;
        member->reachable = false;
        member->trusted = false;
        member->why = *why;
        tell(own);
}

/* ---- votes ------------------------------------------------------------------------------------------------------- */

static void write_lock_and_marker(struct wire *wire, const struct vote *vote)
{
        const struct redis *redis = wire->redis;

        write_key(wire, redis->prefix, vote->claim->name, vote->claim->name_length);
        write_text(wire, redis->member->key);
}

static void write_lock_marker_and_queue(struct wire *wire, const char *name, size_t length)
{
        const struct redis *redis = wire->redis;

        write_key(wire, redis->prefix, name, length);
        write_text(wire, redis->member->key);
        write_key(wire, redis->member->turn_prefix, name, length);
}

static void write_uid(struct wire *wire, const uint64_t uid[2])
{
        char text[33];

        uid_text(uid, text);
        write_bytes(wire, text, 32);
}

static void write_vote_record(struct wire *wire, const struct vote *vote)
{
        struct claim claim = *vote->claim;
        struct part part;

        part.claim = &claim;
        part.redis = wire->redis;
        write_record(wire, &part, "");
}

enum { REST_LENGTH = 32, REST_FLAG = 14, REST_TAG = 16 };

static void put_tag(char text[16], uint64_t tag)
{
        for (int i = 15; i >= 0; i--, tag >>= 4)
                text[i] = "0123456789abcdef"[tag & 15];
}

/* What stands behind the floor in a marker: " LONGEST FLAG TAG", 12 digits and 16. */
static void write_rest(struct wire *wire, int64_t longest, char flag, uint64_t tag)
{
        char rest[REST_LENGTH + 1] = " 000000000000 n                 ";

        for (int i = 12; i > 0 && longest; i--, longest /= 10)
                rest[i] = (char)('0' + longest % 10);
        rest[REST_FLAG] = flag;
        put_tag(rest + REST_TAG, tag);
        write_bytes(wire, rest, REST_LENGTH);
}

/* What a server must have in its marker for a vote of it to count. */
static void write_run_and_tag(struct wire *wire, uint64_t tag)
{
        const struct redis_member *own = wire->redis->member;
        char text[40 + 16];

        memcpy(text, own->run, 40);
        put_tag(text + 40, tag);
        write_bytes(wire, text, sizeof(text));
}

static int write_grant(struct ask *ask, struct wire *wire)
{
        const struct vote *vote = vote_of(ask);
        int64_t number = (int64_t)vote->number < NUMBER_LEAST ? NUMBER_LEAST : (int64_t)vote->number;
        const struct redis_member *own = wire->redis->member;
        int64_t length = (vote->claim->ttl + vote->claim->delay) / MS;

        write_script(wire, ask, SCRIPT_MEMBER_GRANT, 3, 12);
        write_lock_marker_and_queue(wire, vote->claim->name, vote->claim->name_length);
        write_bytes(wire, own->run, 40);
        write_vote_record(wire, vote);
        write_number(wire, length);
        write_number(wire, number);
        write_number(wire, number / 1000);
        write_rest(wire, length > own->known ? length : own->known, own->flag, vote->tag);
        write_bytes(wire, wire->redis->client, 16);
        if (vote->ticket)
                write_number(wire, (int64_t)vote->ticket);
        else
                write_text(wire, "");
        write_text(wire, vote->queued ? "q" : "");
        return write_end(wire);
}

static int write_accept(struct ask *ask, struct wire *wire)
{
        const struct vote *vote = vote_of(ask);

        write_script(wire, ask, SCRIPT_MEMBER_ACCEPT, 2, 5);
        write_lock_and_marker(wire, vote);
        write_run_and_tag(wire, vote->tag);
        write_uid(wire, vote->claim->uid);
        write_number(wire, (int64_t)vote->number);
        return write_end(wire);
}

static int write_release(struct ask *ask, struct wire *wire)
{
        const struct vote *vote = vote_of(ask);

        write_script(wire, ask, SCRIPT_MEMBER_RELEASE, 3, 9);
        write_lock_marker_and_queue(wire, vote->claim->name, vote->claim->name_length);
        write_uid(wire, vote->claim->uid);
        write_number(wire, (int64_t)vote->number);
        write_text(wire, vote->number ? wire->redis->member->news_prefix : "");
        write_bytes(wire, vote->claim->name, vote->claim->name_length);
        write_bytes(wire, wire->redis->client, 16);
        write_text(wire, vote->queued ? "n" : "");
        return write_end(wire);
}

static int write_adopt(struct ask *ask, struct wire *wire)
{
        const struct vote *vote = vote_of(ask);

        write_script(wire, ask, SCRIPT_MEMBER_ADOPT, 2, 4);
        write_lock_and_marker(wire, vote);
        write_run_and_tag(wire, vote->tag);
        write_vote_record(wire, vote);
        return write_end(wire);
}

static int (*const writers[])(struct ask *, struct wire *) = {
        [VOTE_GRANT] = write_grant,
        [VOTE_ACCEPT] = write_accept,
        [VOTE_RELEASE] = write_release,
        [VOTE_ADOPT] = write_adopt,
};

/* ---- their answers ----------------------------------------------------------------------------------------------- */

/* { the other's uid and a blank, ms left, how many are before us }; what does not begin so is not one of us. */
static void read_busy(struct vote *vote, const redisReply *reply)
{
        const redisReply *who = reply->element[0], *left = reply->element[1], *before = reply->element[2];
        uint64_t uid[2];

        vote->code = PAWL_BUSY;
        vote->holder = 0;
        vote->before = is_integer(before) && before->integer > 0 ? (uint32_t)before->integer : 0;
        if (who->type == REDIS_REPLY_STRING && who->len == 33 && who->str[32] == ' ' && uid_read(who->str, uid))
                vote->holder = number_of(uid);
        vote->left = is_integer(left) && left->integer > 0 ? left->integer * MS : 3600 * SECOND; /* it has no end */
}

/* { number, " LONGEST FLAG TAG" }: a vote for us, and something to remember for the next one. */
static void read_changed(struct redis_member *own, struct vote *vote, const redisReply *reply)
{
        const redisReply *rest = reply->element[1];

        vote->code = PAWL_OK;
        vote->granted = (uint64_t)reply->element[0]->integer;
        if (rest->type == REDIS_REPLY_STRING && rest->len == REST_LENGTH) {
                own->known = strtoll(rest->str, NULL, 10);
                own->flag = rest->str[REST_FLAG];
        }
}

static void read_grant(struct redis_member *own, struct vote *vote, const redisReply *reply)
{
        if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && is_integer(reply->element[0])) {
                read_changed(own, vote, reply);
        } else if (reply->type == REDIS_REPLY_ARRAY && reply->elements == 3) {
                read_busy(vote, reply);
        } else if (is_integer(reply) && reply->integer > 0) {
                vote->code = PAWL_OK;
                vote->granted = (uint64_t)reply->integer;
        } else {
                vote->code = is_integer(reply) && reply->integer == -1 ? PAWL_IN_DOUBT : PAWL_SYSTEM;
        }
}

/* { ms left, lock-delay in ms } */
static bool is_adopted(const redisReply *reply)
{
        return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && reply_is_ms(reply->element[0]) &&
               reply_is_ms(reply->element[1]) && reply->element[0]->integer > 0;
}

static int code_of(enum vote_kind kind, long long answer)
{
        switch (kind) {
        case VOTE_ACCEPT:
                return answer == 1 ? PAWL_OK : answer == 0 ? PAWL_LOST : PAWL_IN_DOUBT;
        case VOTE_ADOPT:
                return answer == 0 ? PAWL_NOT_FOUND : answer == -2 ? PAWL_LOST : PAWL_IN_DOUBT;
        default:
                return answer == 1 ? PAWL_OK : answer == 0 ? PAWL_NOT_FOUND : PAWL_LOST;
        }
}

/* It is trusted no more, as a vote found out. */
static void distrust(struct redis_member *own)
{
        if (!own->member->trusted)
                return;
        own->member->marked = false;
        not_trusted(own);
        own->member->decided = false; /* it may only have another roster, or be as new: the look says which */
        send_look(own);
        tell(own);
}

static void vote_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct vote *vote = vote_of(ask);
        struct redis_member *own = container_of(ask, struct request, ask)->own;
        uint64_t incarnation = vote->incarnation;
        bool doubtful;

        vote->sent_at = ask->sent_at;
        if (!reply) {
                vote->code = why->code;
        } else if (vote->kind == VOTE_GRANT) {
                read_grant(own, vote, reply);
        } else if (vote->kind == VOTE_ADOPT && is_adopted(reply)) {
                vote->code = PAWL_OK;
                vote->left = reply->element[0]->integer * MS;
                vote->delay = reply->element[1]->integer * MS;
        } else if (!is_integer(reply)) {
                vote->code = PAWL_SYSTEM;
        } else {
                vote->code = code_of(vote->kind, reply->integer);
        }
        doubtful = vote->code == PAWL_IN_DOUBT;
        vote->answered(vote); /* and is no more */
        if (doubtful && incarnation == own->member->incarnation)
                distrust(own);
}

static int member_vote(struct engine *engine, struct vote *vote)
{
        struct redis *redis = redis_of(engine);
        struct redis_member *own = redis->member;
        struct request *request = (struct request *)(void *)vote->part;

        if (!own->run[0])
                return PAWL_UNREACHABLE;
        vote->incarnation = own->member->incarnation;
        vote->tag = own->member->tag;
        *request = (struct request){
                .ask = {.write = writers[vote->kind], .answered = vote_answered}, .vote = vote, .own = own};
        return wire_ask(&redis->commands, &request->ask);
}

/* ---- renewal of many --------------------------------------------------------------------------------------------- */

struct batch {
        struct ask ask;
        struct list listed;
        struct redis_member *own;
        uint64_t incarnation;
        uint64_t tag;
        size_t count;
        struct vote *votes[];
};

static int write_batch(struct ask *ask, struct wire *wire)
{
        const struct batch *batch = container_of(ask, struct batch, ask);

        write_script(wire, ask, SCRIPT_MEMBER_RENEW, 1 + batch->count, 2 + 5 * batch->count);
        write_text(wire, batch->own->key);
        for (size_t i = 0; i < batch->count; i++)
                write_key(wire, wire->redis->prefix, batch->votes[i]->claim->name, batch->votes[i]->claim->name_length);
        write_run_and_tag(wire, batch->tag);
        for (size_t i = 0; i < batch->count; i++) {
                const struct claim *claim = batch->votes[i]->claim;

                write_uid(wire, claim->uid);
                write_number(wire, claim->ttl / MS);
                write_number(wire, claim->delay / MS);
                write_number(wire, (int64_t)batch->votes[i]->number);
        }
        return write_end(wire);
}

static int renewal_code(const struct batch *batch, const redisReply *reply, const struct pawl_why *why, size_t i)
{
        if (!reply)
                return why->code;
        if (is_integer(reply))
                return PAWL_IN_DOUBT;
        if (reply->type != REDIS_REPLY_ARRAY || reply->elements != batch->count || !is_integer(reply->element[i]))
                return PAWL_SYSTEM;
        return code_of(VOTE_RENEW, reply->element[i]->integer);
}

static void batch_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct batch *batch = container_of(ask, struct batch, ask);
        struct redis_member *own = batch->own;
        bool doubtful = reply && is_integer(reply) && batch->incarnation == own->member->incarnation;

        for (size_t i = 0; i < batch->count; i++) {
                struct vote *vote = batch->votes[i];

                vote->sent_at = ask->sent_at;
                vote->incarnation = batch->incarnation;
                vote->code = renewal_code(batch, reply, why, i);
                vote->answered(vote);
        }
        list_remove(&batch->listed);
        free(batch);
        if (doubtful)
                distrust(own);
}

static void renew_some(struct redis *redis, struct vote *const *votes, size_t n)
{
        struct redis_member *own = redis->member;
        struct batch *batch = own->run[0] ? malloc(sizeof(*batch) + n * sizeof(batch->votes[0])) : NULL;
        struct pawl_why why = {.code = own->run[0] ? PAWL_NO_MEMORY : PAWL_UNREACHABLE};

        if (batch) {
                batch->ask = (struct ask){.write = write_batch, .answered = batch_answered};
                batch->own = own;
                batch->incarnation = own->member->incarnation;
                batch->tag = own->member->tag;
                batch->count = n;
                memcpy(batch->votes, votes, n * sizeof(batch->votes[0]));
                list_append(&own->batches, &batch->listed);
                if (wire_ask(&redis->commands, &batch->ask) != PAWL_OK)
                        batch_answered(&batch->ask, NULL, &why);
                return;
        }
        for (size_t i = 0; i < n; i++) {
                votes[i]->code = why.code;
                votes[i]->answered(votes[i]);
        }
}

static void member_renew(struct engine *engine, struct vote *const *votes, size_t n)
{
        for (size_t at = 0; at < n; at += RENEW_AT_ONCE)
                renew_some(redis_of(engine), votes + at, n - at < RENEW_AT_ONCE ? n - at : RENEW_AT_ONCE);
}

/* ---- channels ---------------------------------------------------------------------------------------------------- */

static void subscribe(struct redis *redis, const struct channel *channel, bool on)
{
        struct wire *wire = &redis->news;

        if (!wire->ready)
                return;
        write_begin(wire, 2);
        write_text(wire, on ? "SUBSCRIBE" : "UNSUBSCRIBE");
        write_bytes(wire, channel->text, channel->length);
        if (write_end(wire) == PAWL_OK)
                net_flush(&wire->net);
        else
                net_fail(&wire->net, PAWL_NO_MEMORY, "%s: no memory", redis->where);
}

static struct channel *channel_new(struct list *list, size_t length)
{
        struct channel *channel = malloc(sizeof(*channel) + length + 1);

        if (!channel)
                return NULL;
        channel->length = length;
        channel->uid[0] = channel->uid[1] = 0;
        list_append(list, &channel->listed);
        return channel;
}

static void channel_end(struct redis *redis, struct channel *channel)
{
        subscribe(redis, channel, false);
        list_remove(&channel->listed);
        free(channel);
}

static void subscribe_all(struct redis *redis, struct list *list)
{
        for (struct list *at = list->next; at != list; at = at->next)
                subscribe(redis, container_of(at, struct channel, listed), true);
}

void member_heard(struct redis *redis)
{
        subscribe_all(redis, &redis->member->announced);
}

/* "turn CLIENT CLIENT NAME", "near ...", without the blank between the two: it may be our turn. */
static void told_turn(struct member *member, const char *text)
{
        const char *name = text + 5 + 32;

        if (*name++ == ' ')
                member->turn(member, name, strlen(name), text[0] == 't');
}

/* "broken UID", "asked UID": for one of the locks that are held through us. */
void member_told(struct redis *redis, const char *text, const uint64_t uid[2])
{
        struct member *member = redis->member->member;

        if (strncmp(text, "broken ", 7) == 0)
                member->news(member, uid, true);
        else if (strncmp(text, "asked ", 6) == 0)
                member->news(member, uid, false);
        else if (strncmp(text, "turn ", 5) == 0 || strncmp(text, "near ", 5) == 0)
                told_turn(member, text);
}

/* ---- those who wait: a channel that nobody writes to, for as long as they live ----------------------------------- */

static int64_t unix_ms(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_REALTIME, &ts); /* only to show times to people */
        return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

enum { WAIT_ROOM = 4 * NAME_ENCODED_MAX };

/* pawl:wait:PNAME UID SINCE OWNER NOTE AGE, each encoded. */
static size_t wait_text(const struct redis *redis, const struct claim *claim, char text[WAIT_ROOM])
{
        char name[NAME_ENCODED_MAX + 1], note[3 * PAWL_NOTE_MAX + 1] = "-", uid[33];

        name_encode(claim->name, claim->name_length, NULL, name);
        uid_text(claim->uid, uid);
        if (claim->note && *claim->note)
                name_encode(claim->note, strlen(claim->note), NULL, note);
        return (size_t)snprintf(text, WAIT_ROOM, "%s%s %s %lld %s %s %llu", redis->member->wait_prefix, name, uid,
                                (long long)unix_ms(), redis->owner, note, (unsigned long long)claim->age);
}

static struct channel *find_announced(struct redis_member *own, const uint64_t uid[2])
{
        for (struct list *at = own->announced.next; at != &own->announced; at = at->next) {
                struct channel *channel = container_of(at, struct channel, listed);

                if (channel->uid[0] == uid[0] && channel->uid[1] == uid[1])
                        return channel;
        }
        return NULL;
}

static void member_announce(struct engine *engine, const struct claim *claim, bool on)
{
        struct redis *redis = redis_of(engine);
        struct redis_member *own = redis->member;
        struct channel *channel = find_announced(own, claim->uid);
        char text[WAIT_ROOM];
        size_t length;

        if (!on && channel)
                channel_end(redis, channel);
        if (!on || channel)
                return;
        length = wait_text(redis, claim, text);
        channel = channel_new(&own->announced, length);
        if (!channel)
                return;
        memcpy(channel->uid, claim->uid, sizeof(channel->uid));
        memcpy(channel->text, text, length + 1);
        subscribe(redis, channel, true);
}

/* ---- asking who waits -------------------------------------------------------------------------------------------- */

struct wait_question {
        struct ask ask;
        struct list listed;
        struct redis_member *own;
        struct inquiry *inquiry;
        char name[PAWL_NAME_MAX + 1];
};

/* Bytes that would mean something in a pattern. */
static size_t put_plain(char *out, const char *text)
{
        size_t length = 0;

        for (; *text; text++) {
                if (strchr("*?[]\\^-", *text))
                        out[length++] = '\\';
                out[length++] = *text;
        }
        return length;
}

static int write_waiters(struct ask *ask, struct wire *wire)
{
        const struct wait_question *question = container_of(ask, struct wait_question, ask);
        char name[NAME_ENCODED_MAX + 1], pattern[2 * WAIT_ROOM];
        size_t length = put_plain(pattern, question->own->wait_prefix);

        name_encode(question->name, strlen(question->name), NULL, name);
        length += put_plain(pattern + length, name);
        pattern[length++] = ' ';
        pattern[length++] = '*';
        write_begin(wire, 3);
        write_text(wire, "PUBSUB");
        write_text(wire, "CHANNELS");
        write_bytes(wire, pattern, length);
        return write_end(wire);
}

static void decode(const char *encoded, char *text, size_t size)
{
        size_t at = 0;
        unsigned byte;

        if (strcmp(encoded, "-") == 0)
                encoded = "";
        for (; *encoded && at + 1 < size; encoded++) {
                if (*encoded == '%' && sscanf(encoded + 1, "%2x", &byte) == 1) {
                        text[at++] = (char)byte;
                        encoded += 2;
                } else {
                        text[at++] = *encoded;
                }
        }
        text[at] = '\0';
}

static void tell_waiter(const struct wait_question *question, const char *channel)
{
        char owner[3 * PAWL_OWNER_MAX + 4], note[3 * PAWL_NOTE_MAX + 4], uid_word[33];
        char owner_text[PAWL_OWNER_MAX + 1], note_text[PAWL_NOTE_MAX + 1];
        struct pawl_entry entry = {.name = question->name, .role = PAWL_ROLE_WAITER};
        const char *rest = strchr(channel + strlen(question->own->wait_prefix), ' ');
        unsigned long long age = 0; /* an earlier version tells none */
        long long since;
        uint64_t uid[2];

        if (!rest || sscanf(rest, " %32s %lld %384s %192s %llu", uid_word, &since, owner, note, &age) < 4 ||
            strlen(uid_word) != 32 || !uid_read(uid_word, uid))
                return;
        decode(owner, owner_text, sizeof(owner_text));
        decode(note, note_text, sizeof(note_text));
        entry.owner = owner_text;
        entry.note = note_text;
        entry.since_ms = since;
        entry.age = age;
        entry.token = number_of(uid); /* tells one from the other; the quorum takes it out again */
        question->inquiry->entry(question->inquiry, &entry);
}

static void waiters_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct wait_question *question = container_of(ask, struct wait_question, ask);
        struct inquiry *inquiry = question->inquiry;

        for (size_t i = 0; reply && reply->type == REDIS_REPLY_ARRAY && i < reply->elements; i++)
                if (reply->element[i]->type == REDIS_REPLY_STRING &&
                    reply->element[i]->len > strlen(question->own->wait_prefix))
                        tell_waiter(question, reply->element[i]->str);
        list_remove(&question->listed);
        free(question);
        inquiry->answered(inquiry, reply ? PAWL_OK : why->code, reply ? NULL : why->text);
}

static void member_waiters(struct engine *engine, struct inquiry *inquiry)
{
        struct redis *redis = redis_of(engine);
        struct wait_question *question = calloc(1, sizeof(*question));
        int code;

        if (!question) {
                inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
                return;
        }
        question->own = redis->member;
        question->inquiry = inquiry;
        question->ask = (struct ask){.write = write_waiters, .answered = waiters_answered};
        snprintf(question->name, sizeof(question->name), "%s", inquiry->name);
        list_append(&redis->member->questions, &question->listed);
        code = wire_ask(&redis->commands, &question->ask);
        if (code != PAWL_OK) {
                list_remove(&question->listed);
                free(question);
                inquiry->answered(inquiry, code, NULL);
        }
}

/* ---- the queue --------------------------------------------------------------------------------------------------- */

static void nobody_waits(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct wait_question *question = container_of(ask, struct wait_question, ask);

        (void)reply;
        (void)why;
        list_remove(&question->listed);
        free(question);
}

/* Something that nobody waits for: without memory the timers of those who wait have to do. */
static void send_behind(struct engine *engine, int (*write)(struct ask *, struct wire *), const char *name,
                        size_t length)
{
        struct redis *redis = redis_of(engine);
        struct wait_question *question = redis->commands.ready ? calloc(1, sizeof(*question)) : NULL;

        if (!question)
                return;
        question->own = redis->member;
        question->ask = (struct ask){.write = write, .answered = nobody_waits};
        snprintf(question->name, sizeof(question->name), "%.*s", (int)length, name);
        list_append(&redis->member->questions, &question->listed);
        if (wire_ask(&redis->commands, &question->ask) != PAWL_OK)
                nobody_waits(&question->ask, NULL, NULL);
}

static int write_call(struct ask *ask, struct wire *wire)
{
        const struct wait_question *question = container_of(ask, struct wait_question, ask);

        write_script(wire, ask, SCRIPT_MEMBER_TURN, 3, 5);
        write_lock_marker_and_queue(wire, question->name, strlen(question->name));
        write_text(wire, question->own->news_prefix);
        write_text(wire, question->name);
        return write_end(wire);
}

static void member_call(struct engine *engine, const char *name, size_t length)
{
        send_behind(engine, write_call, name, length);
}

static int write_leave(struct ask *ask, struct wire *wire)
{
        const struct wait_question *question = container_of(ask, struct wait_question, ask);

        write_begin(wire, 3);
        write_text(wire, "ZREM");
        write_key(wire, question->own->turn_prefix, question->name, strlen(question->name));
        write_bytes(wire, wire->redis->client, 16);
        return write_end(wire);
}

static void member_leave(struct engine *engine, const char *name, size_t length)
{
        send_behind(engine, write_leave, name, length);
}

/* ---- marking ----------------------------------------------------------------------------------------------------- */

static int write_mark(struct ask *ask, struct wire *wire)
{
        struct redis_member *own = container_of(ask, struct redis_member, mark);
        char flag = own->durable == 'd' ? 'd' : 'n';

        char tag[16];

        put_tag(tag, own->mark_tag);
        write_script(wire, ask, SCRIPT_MEMBER_MARK, 2, 10);
        write_text(wire, own->key);
        write_text(wire, own->roster_key);
        write_text(wire, own->seen);
        write_text(wire, own->run);
        write_number(wire, (int64_t)own->floor);
        write_number(wire, own->longest / MS);
        write_bytes(wire, &flag, 1);
        write_text(wire, own->again ? "1" : "0");
        write_text(wire, own->roster ? own->roster : "");
        write_bytes(wire, tag, sizeof(tag));
        return write_end(wire);
}

static void mark_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct redis_member *own = container_of(ask, struct redis_member, mark);

        (void)why;
        own->marking = false;
        if (reply && own->redis->commands.ready)
                send_look(own);
}

static void member_mark(struct engine *engine, uint64_t floor, int64_t longest, uint64_t tag, bool again)
{
        struct redis_member *own = redis_of(engine)->member;

        if (own->marking || !own->run[0])
                return;
        own->floor = floor;
        own->longest = longest;
        own->mark_tag = tag;
        own->again = again;
        own->mark = (struct ask){.write = write_mark, .answered = mark_answered};
        own->marking = wire_ask(&own->redis->commands, &own->mark) == PAWL_OK;
}

/* ---- which servers have a vote ----------------------------------------------------------------------------------- */

static int write_enrol(struct ask *ask, struct wire *wire)
{
        const struct redis_member *own = container_of(ask, struct redis_member, enrol);
        char tag[16];

        put_tag(tag, own->new_tag);
        write_script(wire, ask, SCRIPT_MEMBER_ENROL, 2, 6);
        write_text(wire, own->key);
        write_text(wire, own->roster_key);
        write_text(wire, own->roster ? own->roster : "");
        write_text(wire, own->new_roster);
        write_bytes(wire, tag, sizeof(tag));
        write_text(wire, own->run);
        return write_end(wire);
}

static void enrol_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct redis_member *own = container_of(ask, struct redis_member, enrol);

        (void)why;
        own->member->enrolling = false;
        if (reply && own->redis->commands.ready)
                send_look(own);
}

/* Requests are executed in their order, so votes sent from now on find the new roster; where it was not written, because
 * it was not as we saw it, they are refused. */
static void member_enrol(struct engine *engine, const char *roster, uint64_t tag)
{
        struct redis_member *own = redis_of(engine)->member;
        char *copy = own->member->enrolling || !own->run[0] ? NULL : strdup(roster);

        if (!copy)
                return;
        free(own->new_roster);
        own->new_roster = copy;
        own->new_tag = tag;
        own->enrol = (struct ask){.write = write_enrol, .answered = enrol_answered};
        own->member->enrolling = wire_ask(&own->redis->commands, &own->enrol) == PAWL_OK;
        if (own->member->enrolling)
                own->member->tag = tag;
}

/* ---- beginning and end ------------------------------------------------------------------------------------------- */

static int join_texts(char **to, const char *before, const char *after)
{
        return asprintf(to, "%s%s", before, after) < 0 ? (*to = NULL, PAWL_NO_MEMORY) : PAWL_OK;
}

static void retry_look(struct timer *timer)
{
        struct redis_member *own = container_of(timer, struct redis_member, retry);

        loop_set(own->redis->engine.host->loop, timer, NEVER);
        send_look(own);
}

static int member_join(struct engine *engine, struct member *member)
{
        struct redis *redis = redis_of(engine);
        struct redis_member *own = calloc(1, sizeof(*own));

        if (!own)
                return PAWL_NO_MEMORY;
        redis->member = own;
        own->redis = redis;
        own->member = member;
        own->retry.fire = retry_look;
        list_init(&own->announced);
        list_init(&own->batches);
        list_init(&own->questions);
        member->roster = "";
        if (join_texts(&own->key, "pawl:member:", redis->prefix) != PAWL_OK ||
            join_texts(&own->roster_key, "pawl:roster:", redis->prefix) != PAWL_OK ||
            join_texts(&own->turn_prefix, "pawl:turn:", redis->prefix) != PAWL_OK ||
            join_texts(&own->news_prefix, "pawl:news:", redis->prefix) != PAWL_OK ||
            join_texts(&own->wait_prefix, "pawl:wait:", redis->prefix) != PAWL_OK ||
            loop_set(engine->host->loop, &own->retry, NEVER) != 0)
                return PAWL_NO_MEMORY;
        wire_want(&redis->commands);
        wire_want(&redis->news);
        return PAWL_OK;
}

static void free_all(struct list *list, size_t offset)
{
        while (!list_empty(list)) {
                struct list *first = list->next;

                list_remove(first);
                free((char *)first - offset);
        }
}

void member_free(struct redis *redis)
{
        struct redis_member *own = redis->member;

        if (!own)
                return;
        loop_unset(redis->engine.host->loop, &own->retry);
        free_all(&own->announced, offsetof(struct channel, listed));
        free_all(&own->batches, offsetof(struct batch, listed));
        free_all(&own->questions, offsetof(struct wait_question, listed));
        free(own->key);
        free(own->roster_key);
        free(own->roster);
        free(own->new_roster);
        free(own->turn_prefix);
        free(own->news_prefix);
        free(own->wait_prefix);
        free(own);
}

const struct engine_member redis_member = {
        .join = member_join,
        .look = member_look,
        .vote = member_vote,
        .renew = member_renew,
        .leave = member_leave,
        .call = member_call,
        .announce = member_announce,
        .waiters = member_waiters,
        .mark = member_mark,
        .enrol = member_enrol,
};
