/* redis_claim.c - acquire, cancel, renew, release. A claim has one request under way at most, so that none overtakes
 * another; a request whose reply was lost with the connection is sent again, and every script bears that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis.h"

#define RETRY_AFTER (100 * MS)
#define ALIVE_EVERY (20 * SECOND) /* a third of the lease that a waiting client has: scripts/common.lua */

static void claim_ask(struct part *part);
static void send_cancel(struct part *part);
static void send_release(struct part *part);
static void release_behind(struct part *part);

static struct part *part_of_ask(struct ask *ask)
{
        return container_of(ask, struct part, ask);
}

static void park_cancel(struct part *part)
{
        part->until = redis_now(part->redis) + part->claim->ttl + part->claim->delay;
        claim_park(part, CANCELLING);
}

static const struct engine_host *host_of(const struct part *part)
{
        return part->redis->engine.host;
}

/* ---- known and forgotten ----------------------------------------------------------------------------------------- */

static uint64_t uid_hash(const uint64_t uid[2])
{
        return (uid[0] ^ uid[1]) * UINT64_C(0x9e3779b97f4a7c15) >> 16;
}

void claim_know(struct redis *redis, struct claim *claim)
{
        struct part *part = part_of(claim);

        part->claim = claim;
        part->redis = redis;
        list_init(&part->listed);
        list_init(&part->ask.listed);
        table_add(&redis->claims, &part->link, uid_hash(claim->uid));
        part->known = true;
        redis->known++;
}

struct part *claim_find(struct redis *redis, const uint64_t uid[2])
{
        uint64_t hash = uid_hash(uid);

        for (struct link *link = table_first(&redis->claims, hash); link; link = link->next) {
                struct part *part = container_of(link, struct part, link);

                if (link->hash == hash && part->claim->uid[0] == uid[0] && part->claim->uid[1] == uid[1])
                        return part;
        }
        return NULL;
}

static void leave_renewal(struct part *part)
{
        if (part->state == HELD && part->renewal) {
                part->renewal->parts[part->place] = NULL;
                part->renewal = NULL;
        }
}

void claim_forget(struct part *part)
{
        if (!part->known)
                return;
        leave_renewal(part);
        if (part->state == WAITING)
                wait_end(part);
        if (!list_empty(&part->ask.listed))
                wire_forget(&part->redis->commands, &part->ask);
        list_remove(&part->listed);
        table_remove(&part->redis->claims, &part->link);
        part->known = false;
        part->redis->known--;
}

void claim_refuse(struct part *part, int code, const char *why)
{
        const struct engine_host *host = host_of(part);

        claim_forget(part);
        host->events->refused(host->core, part->claim, code, why);
}

void claim_told(struct part *part, uint64_t token, int64_t sent_at)
{
        const struct engine_host *host = host_of(part);
        struct grant grant = {.token = token, .sent_at = sent_at};

        part->state = HELD;
        part->token = token;
        part->renewal = NULL;
        part->told_at = sent_at;
        part->doubtful = false;
        host->events->granted(host->core, part->claim, &grant); /* if it was cancelled, the core gives it back */
}

static void claim_end_release(struct part *part, int code)
{
        const struct engine_host *host = host_of(part);

        claim_forget(part);
        host->events->released(host->core, part->claim, code);
}

static void claim_gone(struct part *part, int reason)
{
        const struct engine_host *host = host_of(part);

        claim_forget(part);
        host->events->gone(host->core, part->claim, reason);
}

void claim_broken(struct part *part)
{
        if (part->state == HELD)
                claim_gone(part, PAWL_REASON_BROKEN);
}

/* ---- parked: to be asked when there is a connection -------------------------------------------------------------- */

void claim_park(struct part *part, enum claim_state want)
{
        part->state = PARKED;
        part->want = (uint8_t)want;
        list_remove(&part->listed);
        list_append(&part->redis->parked, &part->listed);
        wire_want(&part->redis->commands);
}

/* The server lives but cannot serve at the moment: once more in a while. */
void claims_retry_soon(struct redis *redis)
{
        if (redis->retry.at == NEVER)
                loop_set(redis->engine.host->loop, &redis->retry, redis_now(redis) + RETRY_AFTER);
}

static void park_a_while(struct part *part, enum claim_state want)
{
        claim_park(part, want);
        claims_retry_soon(part->redis);
}

static void unpark(struct part *part)
{
        list_remove(&part->listed);
        switch ((enum claim_state)part->want) {
        case RELEASING:
                send_release(part);
                break;
        case CANCELLING:
                send_cancel(part);
                break;
        case ADOPTING:
                lease_ask(part);
                break;
        default:
                claim_ask(part);
        }
}

static void unpark_all(struct redis *redis)
{
        struct list parked;

        list_init(&parked);
        list_splice(&parked, &redis->parked);
        while (!list_empty(&parked))
                unpark(list_first(&parked, struct part, listed));
}

void claims_retry(struct timer *timer)
{
        struct redis *redis = container_of(timer, struct redis, retry);

        loop_set(redis->engine.host->loop, timer, NEVER);
        if (!redis->commands.ready)
                return;
        unpark_all(redis);
        ghosts_up(redis);
}

/* What acquire.lua is to do with one that finds the lock taken. */
static char if_taken(const struct part *part)
{
        if (part->waits)
                return '1';
        return part->claim->wait ? '2' : '0';
}

static bool is_plain(const struct part *part)
{
        return !part->claim->lost && !part->claim->delay && !part->asking_history;
}

/* With others if it is nothing special. */
static int ask_one(struct part *part)
{
        struct redis *redis = part->redis;
        bool exclusive = part->claim->mode == PAWL_EXCLUSIVE;

        if (part->state == ASKING && exclusive && !part->ticket)
                return bundle_ask(redis, &part->ask, BUNDLE_ACQUIRE, if_taken(part));
        if (part->state == RELEASING && exclusive && is_plain(part))
                return bundle_ask(redis, &part->ask, BUNDLE_RELEASE, 0);
        if (part->state == ASKING)
                bundles_send(redis); /* it must not overtake who asked before it */
        return wire_ask(&redis->commands, &part->ask);
}

/* Without memory for a command. One of whom the server knows nothing is refused at once; one that it may know of is asked
 * again for a while: what it has, it would keep for the whole lease. */
static void starve(struct part *part, enum claim_state want)
{
        const struct redis *redis = part->redis;
        int64_t now = redis_now(redis);
        bool goes_on = want == RELEASING || want == CANCELLING
                               ? now < part->until
                               : part->doubtful && now - part->tried_at < redis->timeout;

        if (goes_on) {
                park_a_while(part, want);
        } else if (want == RELEASING) {
                release_behind(part);
        } else if (want == CANCELLING) {
                claim_refuse(part, PAWL_CANCELLED, NULL);
        } else {
                if (part->doubtful)
                        ghost_of_part(part);
                claim_refuse(part, PAWL_NO_MEMORY, NULL);
        }
}

/* Sends, or parks what cannot be sent now. */
static void ask_or_park(struct part *part, enum claim_state want, int (*write)(struct ask *, struct wire *),
                        void (*answered)(struct ask *, const redisReply *, const struct pawl_why *))
{
        struct wire *wire = &part->redis->commands;

        part->ask.write = write;
        part->ask.answered = answered;
        part->state = (uint8_t)want;
        if (ask_one(part) == PAWL_OK)
                return;
        if (want == CONFIRMING)
                want = ASKING;
        if (wire->ready)
                starve(part, want);
        else
                claim_park(part, want);
}

/* ---- acquire ----------------------------------------------------------------------------------------------------- */

void acquire_how(const struct redis *redis, enum pawl_mode mode, char taken, int64_t sent_at, char *how)
{
        how[0] = mode == PAWL_SHARED ? 's' : 'x';
        how[1] = taken;
        how[2] = *redis->history;
        how[3] = sent_at - redis->alive_at > ALIVE_EVERY ? 'a' : '-';
        how[4] = '\0';
}

static int write_acquire(struct ask *ask, struct wire *wire)
{
        const struct part *part = part_of_ask(ask);
        const struct claim *claim = part->claim;
        char how[32];

        acquire_how(part->redis, claim->mode, if_taken(part), ask->sent_at, how);
        if (part->ticket)
                snprintf(how + 4, sizeof(how) - 4, "%llu", (unsigned long long)part->ticket);
        write_script(wire, ask, SCRIPT_ACQUIRE, LOCK_KEYS, LOCK_KEYS + 3);
        write_lock_keys(wire, claim->name, claim->name_length);
        write_record(wire, part, " ");
        write_number(wire, (claim->ttl + claim->delay) / MS);
        write_text(wire, how);
        return write_end(wire);
}

/* What the server may know of it is cleaned up behind the caller. */
static void refuse_and_clean(struct part *part, int code, const char *why)
{
        if (part->doubtful)
                ghost_of_part(part);
        claim_refuse(part, code, why);
}

/* A claim that does not wait is refused by the first server that cannot serve it. A server that served us before and no
 * longer does has lost its role, and we are leaving it: then the next connection decides. */
static bool is_worth_another_try(const struct part *part)
{
        const struct wire *wire = &part->redis->commands;

        return part->claim->wait || (wire->net.failing && wire->proven);
}

/* Not answered. With the connection gone it is asked again when that is back; nobody knows what the server did. */
static void acquire_failed(struct part *part, const struct pawl_why *why)
{
        struct redis *redis = part->redis;
        int64_t now = redis_now(redis);

        if (!redis->commands.ready) {
                part->doubtful = true;
                if (part->cancelled)
                        park_cancel(part);
                else
                        claim_park(part, ASKING);
        } else if (part->cancelled) {
                refuse_and_clean(part, PAWL_CANCELLED, NULL);
        } else if (wire_passes(why) && now - part->tried_at < redis->timeout && is_worth_another_try(part)) {
                redis->refusal = *why;
                park_a_while(part, ASKING);
        } else {
                refuse_and_clean(part, why->code, why->text);
        }
}

/* One that is to wait has drawn a ticket: with it it keeps its place before those who ask while we connect. */
static void not_free(struct part *part, uint64_t ticket)
{
        struct redis *redis = part->redis;

        part->ticket = ticket;
        if (part->cancelled) {
                claim_refuse(part, PAWL_CANCELLED, NULL);
        } else if (!part->claim->wait) {
                claim_refuse(part, PAWL_BUSY, NULL);
        } else if (redis->news.ready) { /* they came up while we asked */
                claim_ask(part);
        } else {
                part->state = UNHEARD;
                list_append(&redis->unheard, &part->listed);
                wire_want(&redis->news);
        }
}

static void in_line(struct part *part, const redisReply *reply)
{
        redisReply **words = reply->element;
        uint64_t token = part->token;

        part->ticket = (uint64_t)words[0]->integer;
        part->floor = (uint64_t)words[4]->integer;
        if (part->ask.sent_at - part->redis->alive_at > ALIVE_EVERY)
                part->redis->alive_at = part->ask.sent_at;
        part->doubtful = true; /* the server knows it */
        part->asked_at = part->ask.sent_at;
        if (part->cancelled)
                send_cancel(part);
        else if (wait_begin(part, words[1]->integer, words[2]->integer, words[3]->str, words[3]->len) != PAWL_OK) {
                ghost_of_part(part);
                claim_refuse(part, PAWL_NO_MEMORY, NULL);
        } else if (part->pushed_lease) {
                wait_granted(part, token, part->pushed_lease);
        }
}

static bool is_in_line(const redisReply *reply)
{
        return reply->type == REDIS_REPLY_ARRAY && reply->elements == 5 &&
               reply->element[0]->type == REDIS_REPLY_INTEGER && reply->element[1]->type == REDIS_REPLY_INTEGER &&
               reply->element[2]->type == REDIS_REPLY_INTEGER && reply->element[3]->type == REDIS_REPLY_STRING &&
               reply->element[4]->type == REDIS_REPLY_INTEGER;
}

static void acquire_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct part *part = part_of_ask(ask);
        uint64_t token;

        if (!reply)
                acquire_failed(part, why);
        else if (reply->type == REDIS_REPLY_STRING && (token = strtoull(reply->str, NULL, 10)) > 0)
                claim_told(part, token, ask->sent_at);
        else if (reply->type == REDIS_REPLY_INTEGER && reply->integer <= 0)
                not_free(part, (uint64_t)-reply->integer);
        else if (is_in_line(reply))
                in_line(part, reply);
        else
                claim_refuse(part, PAWL_CORRUPT,
                             "the server's answer makes no sense: is another program's script there?");
}

static void claim_ask(struct part *part)
{
        part->waits = part->claim->wait && part->redis->news.ready;
        part->pushed_lease = part->pushed_due = 0;
        ask_or_park(part, ASKING, write_acquire, acquire_answered);
}

static bool is_reserved(const struct redis *redis, const struct claim *claim)
{
        char start[6] = "";

        if (redis->prefix_length >= 5)
                return false; /* redis_open.c looked at it */
        memcpy(start, redis->prefix, redis->prefix_length);
        strncat(start, claim->name, 5 - redis->prefix_length);
        return strcmp(start, "pawl:") == 0;
}

void claim_acquire(struct engine *engine, struct claim *claim)
{
        struct redis *redis = redis_of(engine);
        struct part *part = part_of(claim);

        claim_know(redis, claim);
        if (is_reserved(redis, claim)) {
                claim_refuse(part, PAWL_INVALID,
                             "with this prefix the key would begin with pawl:, as queues, counters and values do");
                return;
        }
        part->tried_at = redis_now(redis);
        if (!redis->news.wanted)
                wire_want(&redis->news);
        claim_ask(part);
}

/* ---- confirm: a grant after a long wait is used when the server has said so again ----------------------------------- */

static int write_confirm(struct ask *ask, struct wire *wire)
{
        const struct part *part = part_of_ask(ask);
        const struct claim *claim = part->claim;
        char uid[33];

        uid_text(part->claim->uid, uid);
        write_script(wire, ask, SCRIPT_RENEW, 1, 4);
        write_key(wire, part->redis->prefix, claim->name, claim->name_length);
        write_text(wire, uid);
        write_number(wire, claim->ttl / MS);
        write_number(wire, claim->delay / MS);
        return write_end(wire);
}

static void confirm_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct part *part = part_of_ask(ask);
        bool stands =
                reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 1 && reply->element[0]->integer == 1;

        if (stands)
                claim_told(part, part->token, ask->sent_at);
        else if (!reply)
                acquire_failed(part, why);
        else if (part->cancelled)
                send_cancel(part);
        else
                claim_ask(part); /* too late: it went to somebody else. Its ticket gives it its old place. */
}

void claim_confirm(struct part *part)
{
        part->tried_at = redis_now(part->redis);
        ask_or_park(part, CONFIRMING, write_confirm, confirm_answered);
}

/* ---- cancel ------------------------------------------------------------------------------------------------------ */

static int write_cancel(struct ask *ask, struct wire *wire)
{
        const struct part *part = part_of_ask(ask);

        write_script(wire, ask, SCRIPT_CANCEL, LOCK_KEYS, LOCK_KEYS + 2);
        write_lock_keys(wire, part->claim->name, part->claim->name_length);
        write_record(wire, part, "");
        write_text(wire, part->redis->history);
        return write_end(wire);
}

static void cancel_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct part *part = part_of_ask(ask);

        if (!reply && !part->redis->commands.ready)
                claim_park(part, CANCELLING);
        else if (!reply && wire_passes(why) && redis_now(part->redis) < part->until)
                park_a_while(part, CANCELLING);
        else
                claim_refuse(part, PAWL_CANCELLED, NULL);
}

static void send_cancel(struct part *part)
{
        if (part->state != CANCELLING && !(part->state == PARKED && part->want == CANCELLING))
                part->until = redis_now(part->redis) + part->claim->ttl + part->claim->delay;
        ask_or_park(part, CANCELLING, write_cancel, cancel_answered);
}

int claim_overdue(struct engine *engine, const struct claim *claim, struct pawl_why *why)
{
        const struct redis *redis = redis_of(engine);
        const struct part *part = part_of(claim);
        const struct pawl_why *last = NULL;

        if (!redis->commands.ready)
                last = &redis->commands.why;
        else if (part->state == WAITING && !redis->news.ready)
                last = &redis->news.why;
        else if (part->state == WAITING && part->waitlist->refused_at)
                last = &redis->refusal; /* it may be free, and the server does not say so */
        else if (part->ticket)          /* it was answered, and told to wait */
                return PAWL_TIMEOUT;
        else if (part->state == PARKED)
                last = &redis->refusal;
        return engine_silent(why, redis->where, redis_now(redis) - part->tried_at, last);
}

void claim_cancel(struct engine *engine, struct claim *claim)
{
        struct part *part = part_of(claim);

        (void)engine;
        switch ((enum claim_state)part->state) {
        case PARKED:
                if (part->want == ASKING && part->doubtful)
                        park_cancel(part);
                else if (part->want == ASKING || part->want == ADOPTING)
                        claim_refuse(part, PAWL_CANCELLED, NULL);
                break;
        case UNHEARD:
                claim_refuse(part, PAWL_CANCELLED, NULL);
                break;
        case WAITING:
                wait_end(part);
                send_cancel(part);
                break;
        case ASKING:
        case CONFIRMING:
        case ADOPTING:
                part->cancelled = true; /* when its answer is there: nothing overtakes it */
                break;
        default:
                break;
        }
}

/* ---- renew ------------------------------------------------------------------------------------------------------- */

static struct renewal *renewal_of_ask(struct ask *ask)
{
        return container_of(ask, struct renewal, ask);
}

static int write_renewal(struct ask *ask, struct wire *wire)
{
        const struct renewal *renewal = renewal_of_ask(ask);
        char uid[33];

        write_script(wire, ask, SCRIPT_RENEW, renewal->written, 4 * renewal->written);
        for (size_t i = 0; i < renewal->count; i++)
                if (renewal->parts[i])
                        write_key(wire, renewal->redis->prefix, renewal->parts[i]->claim->name,
                                  renewal->parts[i]->claim->name_length);
        for (size_t i = 0; i < renewal->count; i++) {
                const struct part *part = renewal->parts[i];

                if (!part)
                        continue;
                uid_text(part->claim->uid, uid);
                write_text(wire, uid);
                write_number(wire, part->claim->ttl / MS);
                write_number(wire, part->claim->delay / MS);
        }
        return write_end(wire);
}

/* Sent once more with the whole script: what was released meanwhile stays out. */
static int rewrite_renewal(struct ask *ask, struct wire *wire)
{
        struct renewal *renewal = renewal_of_ask(ask);
        size_t kept = 0;

        for (size_t i = 0; i < renewal->count; i++) {
                if (!renewal->parts[i])
                        continue;
                renewal->parts[kept] = renewal->parts[i];
                renewal->parts[kept]->place = kept;
                kept++;
        }
        renewal->count = renewal->written = kept;
        return write_renewal(ask, wire);
}

static void renewed(struct part *part, int code, int64_t sent_at)
{
        const struct engine_host *host = host_of(part);

        part->renewal = NULL;
        host->events->renewed(host->core, part->claim, code, sent_at);
}

static void renewal_told(struct part *part, const redisReply *reply, int64_t sent_at)
{
        if (reply->type == REDIS_REPLY_INTEGER && reply->integer == 1) {
                renewed(part, PAWL_OK, sent_at);
        } else if (reply->type == REDIS_REPLY_INTEGER && reply->integer == -2) {
                renewed(part, PAWL_UNREACHABLE, 0); /* not gone: tried again until its deadline */
        } else {
                part->renewal = NULL;
                claim_gone(part, reply->integer == 0 ? PAWL_REASON_SESSION : PAWL_REASON_TAKEN);
        }
}

static void renewal_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct renewal *renewal = renewal_of_ask(ask);
        bool sane = reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == renewal->count;
        int code = why ? why->code : PAWL_CORRUPT;

        for (size_t i = 0; i < renewal->count; i++) {
                struct part *part = renewal->parts[i];

                if (part && sane)
                        renewal_told(part, reply->element[i], ask->sent_at);
                else if (part)
                        renewed(part, code, 0);
        }
        list_remove(&renewal->listed);
        free(renewal);
}

static struct renewal *renewal_new(struct redis *redis, struct claim *const *claims, size_t n)
{
        struct renewal *renewal = calloc(1, sizeof(*renewal) + n * sizeof(renewal->parts[0]));

        if (!renewal)
                return NULL;
        renewal->redis = redis;
        renewal->count = renewal->written = n;
        renewal->ask.write = rewrite_renewal;
        renewal->ask.answered = renewal_answered;
        for (size_t i = 0; i < n; i++) {
                renewal->parts[i] = part_of(claims[i]);
                renewal->parts[i]->renewal = renewal;
                renewal->parts[i]->place = i;
        }
        list_append(&redis->renewals, &renewal->listed);
        return renewal;
}

static void renew_some(struct redis *redis, struct claim *const *claims, size_t n)
{
        struct renewal *renewal = renewal_new(redis, claims, n);
        struct pawl_why why = {.code = PAWL_NO_MEMORY};
        int code;

        if (!renewal) {
                for (size_t i = 0; i < n; i++)
                        renewed(part_of(claims[i]), PAWL_NO_MEMORY, 0);
                return;
        }
        code = wire_ask(&redis->commands, &renewal->ask);
        if (code == PAWL_OK)
                return;
        why.code = code;
        wire_want(&redis->commands);
        renewal_answered(&renewal->ask, NULL, &why);
}

void claim_renew(struct engine *engine, struct claim *const *claims, size_t n)
{
        for (size_t from = 0; from < n; from += RENEW_AT_ONCE)
                renew_some(redis_of(engine), claims + from, n - from < RENEW_AT_ONCE ? n - from : RENEW_AT_ONCE);
}

/* ---- release ----------------------------------------------------------------------------------------------------- */

void release_how(const struct part *part, char *how)
{
        *how = '\0';
        if (*part->redis->history == 'h')
                snprintf(how, RELEASE_HOW_MAX, "released +%lld", (long long)(part->held_for / MS));
}

static int write_release(struct ask *ask, struct wire *wire)
{
        const struct part *part = part_of_ask(ask);
        const struct claim *claim = part->claim;
        const struct redis *redis = part->redis;
        char uid[33], how[RELEASE_HOW_MAX];

        uid_text(claim->uid, uid);
        release_how(part, how);
        write_script(wire, ask, SCRIPT_RELEASE, LOCK_KEYS + 1, LOCK_KEYS + 3);
        write_lock_keys(wire, claim->name, claim->name_length);
        write_text(wire, redis->past_key);
        write_bytes(wire, uid, 32);
        write_text(wire, how);
        return write_end(wire);
}

static int write_lose(struct ask *ask, struct wire *wire)
{
        const struct part *part = part_of_ask(ask);
        const struct claim *claim = part->claim;
        char uid[33];

        uid_text(claim->uid, uid);
        write_script(wire, ask, SCRIPT_LOSE, LOCK_KEYS, LOCK_KEYS + 4);
        write_lock_keys(wire, claim->name, claim->name_length);
        write_bytes(wire, uid, 32);
        write_number(wire, claim->delay / MS);
        write_text(wire, claim->lost ? "1" : "0");
        write_text(wire, part->redis->history);
        return write_end(wire);
}

static int write_released(struct ask *ask, struct wire *wire)
{
        const struct part *part = part_of_ask(ask);
        char uid[33];

        uid_text(part->claim->uid, uid);
        write_script(wire, ask, SCRIPT_RELEASED, 2, 3);
        write_key(wire, part->redis->prefix, part->claim->name, part->claim->name_length);
        write_text(wire, part->redis->past_key);
        write_text(wire, uid);
        return write_end(wire);
}

static bool keeps_history(const struct redis *redis)
{
        return redis->engine.capabilities & PAWL_CAN_HISTORY;
}

/* The caller has waited long enough. A lost lock with a lock-delay is left to the server: that is what frees it then. */
static void release_behind(struct part *part)
{
        if (!part->claim->lost || !part->claim->delay)
                ghost_of_part(part);
        claim_end_release(part, PAWL_IN_DOUBT);
}

static void release_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct part *part = part_of_ask(ask);
        struct redis *redis = part->redis;
        bool done = reply && reply->type == REDIS_REPLY_INTEGER && reply->integer == 1;

        if (done) {
                claim_end_release(part, PAWL_OK);
        } else if (!reply && !redis->commands.ready) {
                part->doubtful = true;
                claim_park(part, RELEASING);
        } else if (!reply && wire_passes(why) && redis_now(redis) < part->until) {
                park_a_while(part, RELEASING);
        } else if (!reply) {
                release_behind(part);
        } else if (part->doubtful && !keeps_history(redis)) {
                claim_end_release(part, PAWL_IN_DOUBT);
        } else if (part->doubtful && !part->asking_history) { /* gone: by our first request, or before it? */
                part->asking_history = true;
                send_release(part);
        } else {
                claim_end_release(part, PAWL_LOST);
        }
}

static void send_release(struct part *part)
{
        ask_or_park(part, RELEASING,
                    part->asking_history ? write_released
                    : is_plain(part)     ? write_release
                                         : write_lose,
                    release_answered);
}

void claim_release(struct engine *engine, struct claim *claim)
{
        struct part *part = part_of(claim);
        int64_t now = redis_now(part->redis);

        (void)engine;
        leave_renewal(part);
        part->held_for = now - part->told_at;
        part->until = now + (claim->ttl < part->redis->timeout ? claim->ttl : part->redis->timeout);
        send_release(part);
}

/* ---- the connections come and go --------------------------------------------------------------------------------- */

void claims_up(struct redis *redis)
{
        redis->alive_at = -3600 * SECOND; /* it may have lost its data */
        unpark_all(redis);
        wait_look_all(redis);
        ghosts_up(redis);
        inspect_up(redis);
        wire_identify(&redis->commands); /* after those who wait: their first request does not wait for this answer */
        check_server(redis);
        if (redis->member)
                member_up(redis);
}

void claims_heard(struct redis *redis)
{
        struct list unheard;

        list_init(&unheard);
        list_splice(&unheard, &redis->unheard);
        while (!list_empty(&unheard)) {
                struct part *part = list_first(&unheard, struct part, listed);

                list_remove(&part->listed);
                claim_ask(part);
        }
        wait_look_all(redis);
        if (redis->member)
                member_heard(redis);
}

/* Nothing will change by trying again. */
static bool is_final(const struct pawl_why *why)
{
        return why->code == PAWL_DENIED || why->code == PAWL_UNSUPPORTED || why->code == PAWL_INVALID;
}

/* A connection that was cut says nothing about the next one; where there is none, the next is not waited for. */
static bool give_up_asking(const struct part *part, const struct pawl_why *why, bool was_ready)
{
        const struct wire *wire = &part->redis->commands;
        int64_t now = redis_now(part->redis), timeout = part->redis->timeout;

        if (is_final(why))
                return true;
        if (was_ready && part->claim->wait)
                return false;
        if (wire->ever && part->claim->wait)
                return now - wire->lost_at >= timeout;
        return !wire->met || wire->mute >= WIRE_MUTE_MOST || now - part->tried_at >= timeout;
}

static void end_parked(struct part *part, const struct pawl_why *why, bool was_ready)
{
        bool pointless = redis_now(part->redis) >= part->until;

        if (part->want == RELEASING) {
                if (pointless || is_final(why))
                        release_behind(part);
        } else if (part->want == CANCELLING) {
                if (pointless || is_final(why))
                        claim_refuse(part, PAWL_CANCELLED, NULL);
        } else if (give_up_asking(part, why, was_ready)) {
                if (part->doubtful)
                        ghost_of_part(part);
                claim_refuse(part, why->code, why->text);
        }
}

static void for_each_listed(struct list *list, void (*end)(struct part *, const struct pawl_why *, bool),
                            const struct pawl_why *why, bool was_ready)
{
        struct list *next;

        for (struct list *at = list->next; at != list; at = next) {
                next = at->next;
                end(container_of(at, struct part, listed), why, was_ready);
        }
}

static bool line_is_too_long_alone(const struct wire *wire, const struct pawl_why *why, bool was_ready)
{
        int64_t now = redis_now(wire->redis);

        return is_final(why) || (!was_ready && now - wire->lost_at >= PATIENCE_IN_LINE * wire->redis->timeout);
}

static void stop_wanting(struct redis *redis)
{
        if (redis->known || redis->member || !list_empty(&redis->ghosts) || !list_empty(&redis->questions) ||
            !list_empty(&redis->examinations))
                return;
        redis->commands.wanted = false;
        redis->news.wanted = false;
}

void claims_down(struct redis *redis, const struct pawl_why *why, bool was_ready)
{
        for_each_listed(&redis->parked, end_parked, why, was_ready);
        if (line_is_too_long_alone(&redis->commands, why, was_ready))
                wait_refuse_all(redis, why);
        inspect_down(redis, why, was_ready);
        ghosts_down(redis);
        stop_wanting(redis);
        if (redis->member)
                member_down(redis, why);
}

/* A server that serves us on the other connection is worth more tries. Without that one as well it is the same as for a
 * claim that is parked: the server has answered this one, and is given up when no connection has come up again for the
 * time limit. */
static bool give_up_listening(const struct part *part, const struct pawl_why *why, bool was_ready)
{
        const struct redis *redis = part->redis;
        int64_t now = redis_now(redis);

        if (is_final(why) || was_ready)
                return is_final(why);
        if (redis->commands.ready)
                return now - part->tried_at >= PATIENCE_IN_LINE * redis->timeout;
        return now - redis->commands.lost_at >= redis->timeout;
}

static void end_unheard(struct part *part, const struct pawl_why *why, bool was_ready)
{
        if (give_up_listening(part, why, was_ready))
                claim_refuse(part, why->code, why->text);
}

void claims_unheard(struct redis *redis, const struct pawl_why *why, bool was_ready)
{
        for_each_listed(&redis->unheard, end_unheard, why, was_ready);
        if (redis->commands.ready && line_is_too_long_alone(&redis->news, why, was_ready))
                wait_refuse_all(redis, why);
        stop_wanting(redis);
}

void claims_free(struct redis *redis)
{
        while (!list_empty(&redis->renewals)) {
                struct renewal *renewal = list_first(&redis->renewals, struct renewal, listed);

                list_remove(&renewal->listed);
                free(renewal);
        }
}
