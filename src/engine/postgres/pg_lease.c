/* pg_lease.c - leases that outlive their process, as words: p1.UID.TTL.NAME, the uid being 128 random bits, the name in
 * base64url. Whoever knows the word may renew and release; nobody can guess it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/base64.h"
#include "../../base/name.h"
#include "postgres.h"

static int word(struct engine *engine, const struct claim *claim, char *text, size_t size)
{
        const struct part *part = part_of(claim);
        char name[BASE64_SIZE(PAWL_NAME_MAX)], uid[33];
        int length;

        (void)engine;
        if (part->state != HELD || !claim->detached)
                return PAWL_MISUSE;
        base64_encode(claim->name, claim->name_length, name);
        uid_text(claim->uid, uid);
        length = snprintf(text, size, "p1.%s.%lld.%s", uid, (long long)(claim->ttl / MS), name);
        return length > 0 && (size_t)length < size ? PAWL_OK : PAWL_INVALID;
}

static bool parse(const char *text, uint64_t uid[2], int64_t *ttl, char *name)
{
        char *end;

        if (strncmp(text, "p1.", 3) != 0 || strlen(text) < 38 || !uid_read(text + 3, uid) || text[35] != '.')
                return false;
        if (text[36] < '1' || text[36] > '9')
                return false;
        *ttl = strtoll(text + 36, &end, 10);
        if (*end != '.' || end - (text + 36) > 12) /* in ns it must be a number as well */
                return false;
        *ttl *= MS;
        return base64_decode(end + 1, name, PAWL_NAME_MAX);
}

static int read_word(struct engine *engine, const char *text, char *name, int64_t *ttl, struct pawl_why *why)
{
        uint64_t uid[2];
        size_t length;

        if (postgres_of(engine)->advisory)
                return why_set(why, PAWL_UNSUPPORTED, "mode=advisory has no leases that outlive their client");
        if (!parse(text, uid, ttl, name) || name_check(name, &length, NULL) != PAWL_OK || *ttl < 50 * MS)
                return why_set(why, PAWL_INVALID, "that is not a lease of this engine");
        return PAWL_OK;
}

static int write_adopt(struct ask *ask, struct wire *wire)
{
        const struct part *part = container_of(ask, struct part, ask);
        struct values values = {.count = 0};
        char key[KEY_MAX + 1];

        value_text(&values, key_of(part->postgres, part->claim->name, key));
        value_uid(&values, part->claim->uid);
        value_number(&values, (int64_t)wire->session);
        value_text(&values, part->postgres->engine.host->owner);
        value_text(&values, part->claim->note);
        return wire_send(wire, ask, SQL_ADOPT, &values);
}

/* Of a lease there is never more left than it has. */
static int64_t remaining(int64_t ms, int64_t ttl)
{
        if (ms < 0)
                return 0;
        return ms < ttl / MS ? ms * MS : ttl;
}

/* How much is left of it is counted from before it was asked for. */
static void adopt_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct part *part = container_of(ask, struct part, ask);
        int64_t left;

        if (why && !wire_ready(&part->postgres->wire) && !part->cancelled) {
                claim_park(part, ADOPTING);
        } else if (why) {
                claim_refuse(part, part->cancelled ? PAWL_CANCELLED : why->code, why->text);
        } else if (PQntuples(rows) != 1 || row_number(rows, 0, 0) <= 0 ||
                   row_number(rows, 0, 2) != part->claim->ttl / MS) {
                claim_refuse(part, PAWL_LOST, "the lease is over: it ran out, or was released or broken");
        } else if (part->cancelled) {
                claim_refuse(part, PAWL_CANCELLED, NULL);
        } else {
                left = remaining(row_number(rows, 0, 1), part->claim->ttl);
                part->claim->mode = (uint32_t)row_number(rows, 0, 3);
                claim_told(part, (uint64_t)row_number(rows, 0, 0), ask->sent_at + left - part->claim->ttl);
        }
}

void lease_ask(struct part *part)
{
        int code;

        part->ask.write = write_adopt;
        part->ask.answered = adopt_answered;
        part->ask.tells = false;
        part->state = ADOPTING;
        code = wire_ask(&part->postgres->wire, &part->ask);
        if (code == PAWL_NO_MEMORY)
                claim_refuse(part, code, NULL); /* the lease is as it was */
        else if (code != PAWL_OK)
                claim_park(part, ADOPTING);
}

static void adopt(struct engine *engine, struct claim *claim, const char *text)
{
        struct postgres *postgres = postgres_of(engine);
        const struct engine_host *host = engine->host;
        char name[PAWL_NAME_MAX + 1];
        int64_t ttl;

        if (!parse(text, claim->uid, &ttl, name) || strcmp(name, claim->name) != 0) {
                host->events->refused(host->core, claim, PAWL_LOST, NULL);
                return;
        }
        claim_know(postgres, claim);
        postgres_bound(postgres, ttl);
        part_of(claim)->tried_at = postgres_now(postgres);
        lease_ask(part_of(claim));
}

static void forget(struct engine *engine, struct claim *claim)
{
        (void)engine;
        claim_forget(part_of(claim));
}

const struct engine_leases postgres_leases = {
        .word = word,
        .read = read_word,
        .adopt = adopt,
        .forget = forget,
};
