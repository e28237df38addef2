/* pg_value.c - a few bytes beside a lock. In rows what was not answered is sent again when the connection is back; the
 * server refuses that as long as the connection on which it was sent before is there, so that nothing overtakes
 * anything. In mode=advisory a value goes through the session that has the lock, and ends with it. */
#include <stdio.h>
#include <stdlib.h>

#include "postgres.h"

/* What store_value says (schema.sql). */
enum { NOT_HELD, KEPT, NOT_YET };

/* One inquiry on its way. */
struct errand {
        struct ask ask;
        struct list listed; /* in postgres->errands */
        struct postgres *postgres;
        struct inquiry *inquiry; /* NULL: nobody waits for the answer any more */
        struct wire *wire;       /* where it goes, if not where there is room (mode=advisory, store) */
        int64_t tried_at;
        uint64_t uid[2];
        uint64_t token;
        uint64_t session; /* on which it was sent; 0: it was not */
        bool stores;
        bool sent;
        bool doubtful;         /* the server may have done it */
        char key[KEY_MAX + 1]; /* the name, with the engine's prefix */
};

static struct errand *errand_of(struct ask *ask)
{
        return container_of(ask, struct errand, ask);
}

static void errand_free(struct errand *errand)
{
        list_remove(&errand->listed);
        free(errand);
}

/* What may have been done is not said to have failed. */
static void finish(struct errand *errand, int code, const char *why)
{
        struct inquiry *inquiry = errand->inquiry;
        bool doubtful = errand->doubtful && code != PAWL_OK;

        errand_free(errand);
        if (!inquiry)
                return;
        if (doubtful)
                inquiry->answered(inquiry, PAWL_IN_DOUBT, "it was sent, and no answer came: it may be kept");
        else
                inquiry->answered(inquiry, code, why);
}

static void doubt(struct errand *errand)
{
        if (!errand->stores || !errand->session)
                return;
        errand->doubtful = true;
        if (!errand->postgres->advisory)
                former_add(&errand->postgres->former, errand->session, 0);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static int write_store(struct ask *ask, struct wire *wire)
{
        struct errand *errand = errand_of(ask);
        const struct inquiry *inquiry = errand->inquiry;
        bool advisory = errand->postgres->advisory != NULL;
        char former[FORMER_TEXT];
        struct values values = {.count = 0};

        value_text(&values, errand->key);
        if (!advisory)
                value_uid(&values, errand->uid);
        value_number(&values, (int64_t)errand->token);
        value_bytes(&values, inquiry->data, inquiry->size);
        value_number(&values, inquiry->keep / MS);
        if (!advisory) {
                former_sessions(&errand->postgres->former, former);
                value_text(&values, former);
        }
        errand->session = wire->session;
        return wire_send(wire, ask, advisory ? SQL_ADVISORY_STORE : SQL_STORE, &values);
}

static int write_fetch(struct ask *ask, struct wire *wire)
{
        const struct errand *errand = errand_of(ask);
        struct values values = {.count = 0};

        value_text(&values, errand->key);
        value_bool(&values, errand->postgres->advisory != NULL);
        return wire_send(wire, ask, SQL_FETCH, &values);
}

static struct wire *wire_for(const struct errand *errand)
{
        if (errand->wire)
                return errand->wire;
        return errand->postgres->advisory ? advisory_wire(errand->postgres) : &errand->postgres->wire;
}

static void want_wire(struct postgres *postgres)
{
        if (!postgres->advisory) {
                wire_want(&postgres->wire);
                return;
        }
        advisory_want(postgres);
        retry_later(postgres); /* there may be no more of them, and all wait */
}

/* Sends it, now or when there is a connection. */
static void errand_ask(struct errand *errand)
{
        struct wire *wire = wire_for(errand);
        int code;

        errand->session = 0;
        code = wire ? wire_ask(wire, &errand->ask) : PAWL_UNREACHABLE;
        errand->sent = code == PAWL_OK;
        if (errand->sent)
                return;
        doubt(errand); /* the connection may have broken under it */
        if (code == PAWL_NO_MEMORY)
                finish(errand, code, NULL);
        else if (errand->wire)
                finish(errand, PAWL_LOST, NULL);
        else
                want_wire(errand->postgres);
}

/* ---- answers ----------------------------------------------------------------------------------------------------- */

static bool is_late(const struct errand *errand)
{
        return postgres_now(errand->postgres) - errand->tried_at >= errand->postgres->timeout;
}

static void try_again(struct errand *errand, int code, const char *why)
{
        if (!errand->inquiry || errand->wire || is_late(errand))
                finish(errand, code, why);
        else
                retry_later(errand->postgres);
}

/* With the connection it is asked again when there is one, or ends with it: values_down. An error that passes may be
 * the last word of a server that has done it. */
static void not_answered(struct errand *errand, const PGresult *rows, const struct pawl_why *why)
{
        errand->sent = false;
        if (why->code == PAWL_UNREACHABLE && !error_is_blocked(rows))
                doubt(errand);
        if (!errand->inquiry || errand->wire || !error_passes(why))
                finish(errand, why->code, why->text);
        else if (wire_for(errand) && wire_ready(wire_for(errand)))
                try_again(errand, why->code, why->text);
        else
                want_wire(errand->postgres);
}

static void stored(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct errand *errand = errand_of(ask);
        int64_t result = why ? NOT_YET : row_number(rows, 0, 0);

        if (why) {
                not_answered(errand, rows, why);
                return;
        }
        errand->sent = false;
        if (result != NOT_YET) /* so none of them is there any more */
                errand->postgres->former.count = 0;
        if (result == KEPT)
                finish(errand, PAWL_OK, NULL);
        else if (result == NOT_HELD)
                finish(errand, PAWL_LOST, NULL);
        else
                try_again(errand, PAWL_IN_DOUBT,
                          "an earlier one may still be under way: the server has not missed its "
                          "connection yet");
}

static bool is_value(const PGresult *rows)
{
        int size = PQnfields(rows) == 4 ? PQgetlength(rows, 0, 0) : 0;

        return size > 0 && size <= PAWL_VALUE_MAX && row_binary_number(rows, 0, 1) > 0;
}

static void fetched(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct errand *errand = errand_of(ask);
        struct pawl_value value;

        if (why) {
                not_answered(errand, rows, why);
        } else if (PQntuples(rows) == 0) {
                finish(errand, PAWL_NOT_FOUND, NULL);
        } else if (!is_value(rows)) {
                finish(errand, PAWL_CORRUPT, "what is kept there makes no sense");
        } else {
                value = (struct pawl_value){.data = PQgetvalue(rows, 0, 0),
                                            .size = (size_t)PQgetlength(rows, 0, 0),
                                            .token = (uint64_t)row_binary_number(rows, 0, 1),
                                            .stored_us = row_binary_number(rows, 0, 2),
                                            .now_us = row_binary_number(rows, 0, 3)};
                if (errand->inquiry)
                        errand->inquiry->value(errand->inquiry, &value);
                finish(errand, PAWL_OK, NULL);
        }
}

/* ---- what the core asks for -------------------------------------------------------------------------------------- */

static struct errand *begin(struct postgres *postgres, struct inquiry *inquiry, const char *name)
{
        struct errand *errand = calloc(1, sizeof(*errand));

        if (!errand) {
                inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
                return NULL;
        }
        errand->postgres = postgres;
        errand->inquiry = inquiry;
        errand->tried_at = postgres_now(postgres);
        errand->ask.write = write_fetch;
        errand->ask.answered = fetched;
        snprintf(errand->key, sizeof(errand->key), "%s%s", postgres->prefix, name);
        list_init(&errand->ask.listed);
        list_append(&postgres->errands, &errand->listed);
        return errand;
}

static void store(struct engine *engine, const struct claim *claim, uint64_t token, struct inquiry *inquiry)
{
        struct postgres *postgres = postgres_of(engine);
        struct errand *errand = begin(postgres, inquiry, claim->name);

        if (!errand)
                return;
        errand->stores = true;
        errand->ask.write = write_store;
        errand->ask.answered = stored;
        errand->uid[0] = claim->uid[0];
        errand->uid[1] = claim->uid[1];
        errand->token = token;
        if (postgres->advisory)
                errand->wire = advisory_wire_of(claim);
        if (postgres->advisory && !errand->wire)
                finish(errand, PAWL_LOST, NULL);
        else
                errand_ask(errand);
}

static void fetch(struct engine *engine, struct inquiry *inquiry)
{
        struct errand *errand = begin(postgres_of(engine), inquiry, inquiry->name);

        if (errand)
                errand_ask(errand);
}

const struct engine_values postgres_values = {.store = store, .fetch = fetch};

bool values_forget(struct postgres *postgres, const struct inquiry *inquiry)
{
        for (struct list *at = postgres->errands.next; at != &postgres->errands; at = at->next) {
                struct errand *errand = container_of(at, struct errand, listed);

                if (errand->inquiry != inquiry)
                        continue;
                errand->inquiry = NULL;
                if (!errand->sent)
                        errand_free(errand);
                return true;
        }
        return false;
}

/* ---- the connection comes and goes ------------------------------------------------------------------------------- */

void values_up(struct postgres *postgres)
{
        struct list *next;

        for (struct list *at = postgres->errands.next; at != &postgres->errands; at = next) {
                struct errand *errand = container_of(at, struct errand, listed);

                next = at->next;
                if (!errand->sent)
                        errand_ask(errand);
        }
}

/* A connection that was cut says nothing about the next one. */
void values_down(struct postgres *postgres, const struct pawl_why *why, bool was_ready, bool met)
{
        struct list *next;

        for (struct list *at = postgres->errands.next; at != &postgres->errands; at = next) {
                struct errand *errand = container_of(at, struct errand, listed);

                next = at->next;
                if (!errand->sent && (is_final(why) || (!was_ready && (!met || is_late(errand)))))
                        finish(errand, why->code, why->text);
        }
}

void values_free(struct postgres *postgres)
{
        while (!list_empty(&postgres->errands))
                errand_free(list_first(&postgres->errands, struct errand, listed));
}
