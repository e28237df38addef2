/* redlock_lease.c - leases that outlive their process, as words: r1.UID.TTL.TOKEN.NAME.CHECK, the uid being 128
 * random bits and the name in base64url. Whoever knows the word may renew and release; nobody can guess it. The
 * nodes know only the uid, so the check is what keeps a word with a changed ttl, token or name from being taken for
 * the lease. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/name.h"
#include "redlock.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

struct lease {
        uint64_t uid[2];
        int64_t ttl;
        uint64_t token;
        char name[PAWL_NAME_MAX + 1];
};

/* ---- words ------------------------------------------------------------------------------------------------------- */

static void encode_name(const char *name, size_t length, char *out)
{
        for (size_t i = 0; i < length; i += 3) {
                uint32_t bits = (uint32_t)(unsigned char)name[i] << 16;

                if (i + 1 < length)
                        bits |= (uint32_t)(unsigned char)name[i + 1] << 8;
                if (i + 2 < length)
                        bits |= (unsigned char)name[i + 2];
                *out++ = digits[bits >> 18];
                *out++ = digits[bits >> 12 & 63];
                if (i + 1 < length)
                        *out++ = digits[bits >> 6 & 63];
                if (i + 2 < length)
                        *out++ = digits[bits & 63];
        }
        *out = '\0';
}

/* The length, or 0 if it is not what encode_name makes of a name. */
static size_t decode_name(const char *text, size_t size, char *name)
{
        uint32_t bits = 0;
        size_t length = 0;

        if (size % 4 == 1 || size > (PAWL_NAME_MAX + 2) / 3 * 4)
                return 0;
        for (size_t i = 0; i < size; i++) {
                const char *digit = text[i] ? strchr(digits, text[i]) : NULL;

                if (!digit)
                        return 0;
                bits = bits << 6 | (uint32_t)(digit - digits);
                if (i % 4 && length < PAWL_NAME_MAX)
                        name[length++] = (char)(bits >> (6 - 2 * (i % 4)));
        }
        name[length] = '\0';
        return length;
}

static uint64_t check_of(const char *text, size_t size)
{
        uint64_t hash = UINT64_C(14695981039346656037);

        for (size_t i = 0; i < size; i++)
                hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
        hash ^= hash >> 29;
        return hash * UINT64_C(0xbf58476d1ce4e5b9);
}

static int word(struct engine *engine, const struct claim *claim, char *text, size_t size)
{
        const struct part *part = part_of(claim);
        char name[(PAWL_NAME_MAX + 2) / 3 * 4 + 1];
        int length;

        (void)engine;
        if (part->state != HELD || !claim->detached)
                return PAWL_MISUSE;
        encode_name(claim->name, claim->name_length, name);
        length = snprintf(text, size, "r1.%016llx%016llx.%lld.%llu.%s", (unsigned long long)part->uid[0],
                          (unsigned long long)part->uid[1], (long long)(claim->ttl / MS),
                          (unsigned long long)part->token, name);
        if (length <= 0 || (size_t)length + 18 > size)
                return PAWL_INVALID;
        snprintf(text + length, size - (size_t)length, ".%016llx", (unsigned long long)check_of(text, (size_t)length));
        return PAWL_OK;
}

static bool parse(const char *text, struct lease *lease)
{
        const char *check = strrchr(text, '.');
        unsigned long long uid[2], token, sum;
        long long ttl;
        int name = 0, end = 0;
        size_t length;

        if (!check || sscanf(check, ".%16llx%n", &sum, &end) != 1 || end != 17 || check[end] != '\0' ||
            sum != check_of(text, (size_t)(check - text)))
                return false;
        if (sscanf(text, "r1.%16llx%16llx.%lld.%llu.%n", &uid[0], &uid[1], &ttl, &token, &name) != 4 || !name ||
            ttl <= 0 || ttl > INT64_MAX / MS || !token)
                return false;
        length = decode_name(text + name, (size_t)(check - text) - (size_t)name, lease->name);
        lease->uid[0] = uid[0];
        lease->uid[1] = uid[1];
        lease->ttl = ttl * MS;
        lease->token = token;
        return length > 0 && strlen(lease->name) == length && name_check(lease->name, &length, NULL) == PAWL_OK;
}

static int read_word(struct engine *engine, const char *text, char *name, int64_t *ttl, struct pawl_why *why)
{
        struct lease lease;

        (void)engine;
        if (!parse(text, &lease))
                return why_set(why, PAWL_INVALID, "that is not a lease of this engine");
        strcpy(name, lease.name);
        *ttl = lease.ttl;
        return PAWL_OK;
}

/* ---- taking one up ----------------------------------------------------------------------------------------------- */

/* It stands for as long as a majority has it: until the end of the shortest of the longest. */
static int64_t end_of(const struct round *round)
{
        int64_t ends[NODES_MOST];
        uint32_t count = 0;

        for (uint32_t i = 0; i < round->redlock->count; i++) {
                const struct vote *vote = &round->ballots[i].vote;
                int64_t end = vote->sent_at + vote->left;
                uint32_t at = count;

                if (!(round->ok & round->redlock->nodes[i].bit))
                        continue;
                for (; at > 0 && ends[at - 1] < end; at--)
                        ends[at] = ends[at - 1];
                ends[at] = end;
                count++;
        }
        return ends[round->redlock->quorum - 1];
}

/* They all have the same; it is not in the word. */
static int64_t delay_of(const struct round *round)
{
        int64_t delay = 0;

        for (uint32_t i = 0; i < round->redlock->count; i++)
                if (round->ok & round->redlock->nodes[i].bit && round->ballots[i].vote.delay > delay)
                        delay = round->ballots[i].vote.delay;
        return delay;
}

/* Nodes that are away decide nothing: those who answered may still say that it is there, or that it is over. */
static void look_told(struct round *round)
{
        struct part *part = round->asker;
        struct place *place = part->place;
        uint32_t quorum = part->redlock->quorum, others = part->redlock->count - quorum;
        nodes_t without = round->missing | round->other;
        struct pawl_why why;

        if (how_many(round->ok) >= quorum) {
                part->on = round->ok;
                part->claim->delay = delay_of(round);
                claim_adopted(part, part->token, end_of(round) - part->claim->ttl);
        } else if (how_many(without) > others) {
                claim_refuse(part, PAWL_LOST, "the lease is over: it ran out, or was released or broken");
                place_next(place);
        } else if ((how_many(round->ok | round->out) < quorum && how_many(without | round->out) <= others) ||
                   round->late) {
                claim_refuse(part, trust_why(part->redlock, &why), why.text);
                place_next(place);
        }
}

void claim_adopt_now(struct part *part)
{
        struct redlock *redlock = part->redlock;
        struct round *round;

        part->place = place_get(redlock, part->claim->name, part->claim->name_length);
        round = part->place ? round_new(redlock, part, look_told) : NULL;
        if (!round) {
                claim_refuse(part, PAWL_NO_MEMORY, NULL);
                return;
        }
        part->state = ADOPTING;
        part->reached = redlock->all;
        part->round = round;
        round->asker = part;
        round_send(round, VOTE_ADOPT, part->token, redlock->all);
        if (!round->out || round_limit(round, redlock_now(redlock) + redlock->timeout) != PAWL_OK) {
                round->late = true;
                look_told(round);
        }
}

static void adopt(struct engine *engine, struct claim *claim, const char *text)
{
        struct redlock *redlock = redlock_of(engine);
        struct part *part = part_of(claim);
        const struct engine_host *host = engine->host;
        struct lease lease;

        if (!parse(text, &lease) || strcmp(lease.name, claim->name) != 0) {
                host->events->refused(host->core, claim, PAWL_LOST, NULL);
                return;
        }
        claim_know(redlock, claim);
        part->uid[0] = lease.uid[0];
        part->uid[1] = lease.uid[1];
        part->token = lease.token;
        part->adopts = true;
        claim_set_out(part);
}

static void forget(struct engine *engine, struct claim *claim)
{
        struct part *part = part_of(claim);
        struct place *place = part->place;

        (void)engine;
        claim_forget(part);
        if (place)
                place_next(place);
}

const struct engine_leases redlock_leases = {
        .word = word,
        .read = read_word,
        .adopt = adopt,
        .forget = forget,
};
