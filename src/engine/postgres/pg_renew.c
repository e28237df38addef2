/* pg_renew.c - the leases of many claims in one statement. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postgres.h"

enum { RENEW_AT_ONCE = 1000 };

/* Many claims, one statement. */
struct renewal {
        struct ask ask;
        struct postgres *postgres;
        struct list listed;
        size_t count;
        struct part *parts[]; /* NULL: released meanwhile */
};

void renewal_leave(struct part *part)
{
        if (part->state == HELD && part->renewal) {
                part->renewal->parts[part->place] = NULL;
                part->renewal = NULL;
        }
}

static void renewed(struct part *part, int code, int64_t sent_at)
{
        const struct engine_host *host = part->postgres->engine.host;

        part->renewal = NULL;
        host->events->renewed(host->core, part->claim, code, sent_at);
}

/* An array as text: {"a","b"}; backslashes and quotes in names are escaped. */
static bool put(char **text, size_t *length, size_t *room, const char *bytes, size_t size)
{
        if (*length + size + 1 > *room) {
                size_t more = 2 * (*length + size + 64);
                char *longer = realloc(*text, more);

                if (!longer)
                        return false;
                *text = longer;
                *room = more;
        }
        memcpy(*text + *length, bytes, size);
        *length += size;
        (*text)[*length] = '\0';
        return true;
}

struct array {
        char *text;
        size_t length, room;
        bool begun;
};

static bool array_add(struct array *array, const char *item, bool quoted)
{
        if (!put(&array->text, &array->length, &array->room, array->begun ? "," : "{", 1))
                return false;
        array->begun = true;
        if (!quoted)
                return put(&array->text, &array->length, &array->room, item, strlen(item));
        if (!put(&array->text, &array->length, &array->room, "\"", 1))
                return false;
        for (; *item; item++) {
                if ((*item == '"' || *item == '\\') && !put(&array->text, &array->length, &array->room, "\\", 1))
                        return false;
                if (!put(&array->text, &array->length, &array->room, item, 1))
                        return false;
        }
        return put(&array->text, &array->length, &array->room, "\"", 1);
}

static bool array_end(struct array *array)
{
        return put(&array->text, &array->length, &array->room, array->begun ? "}" : "{}", array->begun ? 1 : 2);
}

static bool add_claim(const struct part *part, struct array arrays[3])
{
        char key[KEY_MAX + 1], uid[33], ttl[24];

        uid_text(part->claim->uid, uid);
        snprintf(ttl, sizeof(ttl), "%lld", (long long)(part->claim->ttl / MS));
        return array_add(&arrays[0], key_of(part->postgres, part->claim->name, key), true) &&
               array_add(&arrays[1], uid, false) && array_add(&arrays[2], ttl, false);
}

static int write_renewal(struct ask *ask, struct wire *wire)
{
        const struct renewal *renewal = container_of(ask, struct renewal, ask);
        struct array arrays[3] = {{0}};
        struct values values = {.count = 0};
        int code = PAWL_OK;

        for (size_t i = 0; i < renewal->count && code == PAWL_OK; i++)
                if (renewal->parts[i] && !add_claim(renewal->parts[i], arrays))
                        code = PAWL_NO_MEMORY;
        value_number(&values, (int64_t)wire->session);
        for (size_t i = 0; i < 3 && code == PAWL_OK; i++) {
                if (array_end(&arrays[i]))
                        value_text(&values, arrays[i].text);
                else
                        code = PAWL_NO_MEMORY;
        }
        if (code == PAWL_OK)
                code = wire_send(wire, ask, SQL_RENEW, &values);
        for (size_t i = 0; i < 3; i++)
                free(arrays[i].text);
        return code;
}

static void renewal_told(struct postgres *postgres, const struct renewal *renewal, const PGresult *rows)
{
        for (int row = 0; row < PQntuples(rows); row++) {
                struct part *part;
                uint64_t uid[2];

                if (!row_uid(rows, row, 0, uid))
                        continue;
                part = claim_find(postgres, uid);
                if (!part || part->state != HELD || part->renewal != renewal)
                        continue;
                part->renewal->parts[part->place] = NULL;
                switch (row_number(rows, row, 1)) {
                case 1:
                        part->ends_at = renewal->ask.sent_at + part->claim->ttl;
                        renewed(part, PAWL_OK, renewal->ask.sent_at);
                        break;
                case 2:
                        part->renewal = NULL;
                        claim_gone(part, PAWL_REASON_BROKEN);
                        break;
                default:
                        part->renewal = NULL;
                        claim_gone(part, PAWL_REASON_TAKEN);
                }
        }
}

static void renewal_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct renewal *renewal = container_of(ask, struct renewal, ask);
        int code = why ? why->code : PAWL_UNREACHABLE; /* no row about one: somebody else has locked its row */

        if (!why)
                renewal_told(renewal->postgres, renewal, rows);
        for (size_t i = 0; i < renewal->count; i++)
                if (renewal->parts[i])
                        renewed(renewal->parts[i], code, 0);
        list_remove(&renewal->listed);
        free(renewal);
}

static void renew_some(struct postgres *postgres, struct claim *const *claims, size_t n)
{
        struct renewal *renewal = calloc(1, sizeof(*renewal) + n * sizeof(renewal->parts[0]));
        struct pawl_why why = {.code = PAWL_NO_MEMORY};

        if (!renewal) {
                for (size_t i = 0; i < n; i++)
                        renewed(part_of(claims[i]), PAWL_NO_MEMORY, 0);
                return;
        }
        renewal->postgres = postgres;
        renewal->count = n;
        renewal->ask.write = write_renewal;
        renewal->ask.answered = renewal_answered;
        for (size_t i = 0; i < n; i++) {
                renewal->parts[i] = part_of(claims[i]);
                renewal->parts[i]->renewal = renewal;
                renewal->parts[i]->place = i;
        }
        list_append(&postgres->renewals, &renewal->listed);
        why.code = wire_ask(&postgres->wire, &renewal->ask);
        if (why.code == PAWL_OK)
                return;
        wire_want(&postgres->wire);
        renewal_answered(&renewal->ask, NULL, &why);
}

void claim_renew(struct engine *engine, struct claim *const *claims, size_t n)
{
        for (size_t from = 0; from < n; from += RENEW_AT_ONCE)
                renew_some(postgres_of(engine), claims + from, n - from < RENEW_AT_ONCE ? n - from : RENEW_AT_ONCE);
}

void renewals_free(struct postgres *postgres)
{
        while (!list_empty(&postgres->renewals)) {
                struct renewal *renewal = list_first(&postgres->renewals, struct renewal, listed);

                list_remove(&renewal->listed);
                free(renewal);
        }
}
