/* pg_inspect.c - list, show, history, break, ask. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postgres.h"

/* The columns of list_holders and show_lock (schema.sql). */
enum column {
        ROLE,
        NAME,
        OWNER,
        NOTE,
        TOKEN,
        REMAINING,
        SINCE,
        UNTIL,
        HOW,
        MODE,
        MAX_HOLDERS,
        WAITERS,
        DETACHED,
        AGE,
        BROKEN_BY,
        REASON,
        COLUMNS
};

/* One inquiry on its way. */
struct question {
        struct ask ask;
        struct list listed; /* in postgres->questions */
        struct postgres *postgres;
        struct inquiry *inquiry; /* NULL: nobody waits for the answer any more */
        int64_t tried_at;
        enum sql sql;
        bool sent;
        bool past;      /* of show_lock, the past; else the present */
        uint64_t token; /* of a break: the holder that is meant; 0: all */
        char reason[PAWL_BREAK_REASON_MAX + 1];
        char key[KEY_MAX + 1]; /* the name or prefix, with the engine's prefix */
};

static struct question *question_of(struct ask *ask)
{
        return container_of(ask, struct question, ask);
}

static void question_free(struct question *question)
{
        list_remove(&question->listed);
        free(question);
}

static void finish(struct question *question, int code, const char *why)
{
        struct inquiry *inquiry = question->inquiry;

        question_free(question);
        if (inquiry)
                inquiry->answered(inquiry, code, why);
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static void tell(const struct question *question, const PGresult *rows, int row)
{
        size_t prefix = question->postgres->prefix_length;
        const char *name = row_text(rows, row, NAME);
        struct pawl_entry entry = {
                .name = strlen(name) >= prefix ? name + prefix : name,
                .owner = row_text(rows, row, OWNER),
                .note = row_text(rows, row, NOTE),
                .token = (uint64_t)row_number(rows, row, TOKEN),
                .remaining_ms = row_number(rows, row, REMAINING),
                .since_ms = row_number(rows, row, SINCE),
                .until_ms = row_number(rows, row, UNTIL),
                .role = (uint32_t)row_number(rows, row, ROLE),
                .how = (uint32_t)row_number(rows, row, HOW),
                .mode = (uint32_t)row_number(rows, row, MODE),
                .max_holders = (uint32_t)row_number(rows, row, MAX_HOLDERS),
                .waiters = (uint32_t)row_number(rows, row, WAITERS),
                .flags = row_bool(rows, row, DETACHED) ? PAWL_DETACH : 0,
                .age = (uint64_t)row_number(rows, row, AGE),
                .broken_by = row_text(rows, row, BROKEN_BY),
                .reason = row_text(rows, row, REASON),
        };

        question->inquiry->entry(question->inquiry, &entry);
}

static bool is_asked_for(const struct question *question, const PGresult *rows, int row)
{
        bool past = row_number(rows, row, ROLE) == PAWL_ROLE_PAST;

        return question->sql == SQL_LIST || past == question->past;
}

static void told_entries(struct question *question, const PGresult *rows)
{
        bool found = question->sql == SQL_LIST;

        for (int row = 0; row < PQntuples(rows) && question->inquiry && PQnfields(rows) >= COLUMNS; row++) {
                if (!is_asked_for(question, rows, row))
                        continue;
                found = true;
                tell(question, rows, row);
        }
        finish(question, found ? PAWL_OK : PAWL_NOT_FOUND, NULL);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static void put_break(const struct question *question, const struct wire *wire, struct values *values)
{
        value_number(values, (int64_t)wire->session);
        value_number(values, (int64_t)question->token);
        value_text(values, question->postgres->engine.host->owner);
        value_text(values, question->reason);
}

static int write_question(struct ask *ask, struct wire *wire)
{
        const struct question *question = question_of(ask);
        struct values values = {.count = 0};

        value_text(&values, question->key);
        if (question->sql == SQL_BREAK)
                put_break(question, wire, &values);
        else if (question->sql == SQL_LIST)
                value_number(&values, 0); /* the prefix is taken off here: it is counted in bytes */
        return wire_send(wire, ask, question->sql, &values);
}

/* Sends it, now or when there is a connection. */
static void question_ask(struct question *question)
{
        struct wire *wire = &question->postgres->wire;
        int code = wire_ask(wire, &question->ask);

        question->sent = code == PAWL_OK;
        if (code == PAWL_NO_MEMORY)
                finish(question, code, NULL);
        else if (code != PAWL_OK)
                wire_want(wire);
}

static void not_answered(struct question *question, const struct pawl_why *why)
{
        const struct postgres *postgres = question->postgres;
        bool ready = wire_ready(&postgres->wire);

        question->sent = false;
        if (question->sql == SQL_BREAK && !ready) /* a second time it would cut off the next holder */
                finish(question, PAWL_IN_DOUBT, "it was asked for, and no answer came: it may have been done");
        else if (ready || !question->inquiry)
                finish(question, why->code, why->text);
        /* else it is asked again when the connection is back, or ends with it: inspect_down */
}

static int code_of_break(const PGresult *rows)
{
        int64_t cut = PQntuples(rows) > 0 ? row_number(rows, 0, 1) : 0;

        return cut > 0 ? PAWL_OK : cut < 0 ? PAWL_BUSY : PAWL_NOT_FOUND;
}

static void answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct question *question = question_of(ask);
        struct postgres *postgres = question->postgres;

        if (why) {
                not_answered(question, why);
        } else if (question->sql == SQL_BREAK) {
                finish(question, code_of_break(rows), NULL);
                claims_granted(postgres, rows);
        } else if (question->sql == SQL_ASK) {
                finish(question, PQntuples(rows) > 0 && row_number(rows, 0, 0) > 0 ? PAWL_OK : PAWL_NOT_FOUND, NULL);
        } else {
                told_entries(question, rows);
        }
}

static void begin(struct engine *engine, struct inquiry *inquiry, enum sql sql, bool past)
{
        struct postgres *postgres = postgres_of(engine);
        struct question *question = calloc(1, sizeof(*question));

        if (!question) {
                inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
                return;
        }
        question->postgres = postgres;
        question->tried_at = postgres_now(postgres);
        question->inquiry = inquiry;
        question->sql = sql;
        question->past = past;
        question->token = inquiry->token;
        snprintf(question->reason, sizeof(question->reason), "%s", inquiry->reason ? inquiry->reason : "");
        question->ask.write = write_question;
        question->ask.answered = answered;
        snprintf(question->key, sizeof(question->key), "%s%s", postgres->prefix, inquiry->name);
        list_init(&question->ask.listed);
        list_append(&postgres->questions, &question->listed);
        question_ask(question);
}

static void inspect_list(struct engine *engine, struct inquiry *inquiry)
{
        begin(engine, inquiry, SQL_LIST, false);
}

static void inspect_show(struct engine *engine, struct inquiry *inquiry)
{
        begin(engine, inquiry, SQL_SHOW, false);
}

static void inspect_history(struct engine *engine, struct inquiry *inquiry)
{
        begin(engine, inquiry, SQL_SHOW, true);
}

static void inspect_break(struct engine *engine, struct inquiry *inquiry)
{
        begin(engine, inquiry, SQL_BREAK, false);
}

static void inspect_ask(struct engine *engine, struct inquiry *inquiry)
{
        begin(engine, inquiry, SQL_ASK, false);
}

static void inspect_forget(struct engine *engine, struct inquiry *inquiry)
{
        struct postgres *postgres = postgres_of(engine);

        if (examine_forget(postgres, inquiry) || values_forget(postgres, inquiry))
                return;
        for (struct list *at = postgres->questions.next; at != &postgres->questions; at = at->next) {
                struct question *question = container_of(at, struct question, listed);

                if (question->inquiry != inquiry)
                        continue;
                question->inquiry = NULL;
                if (!question->sent)
                        question_free(question);
                return;
        }
}

const struct engine_inspect postgres_inspect = {
        .list = inspect_list,
        .show = inspect_show,
        .history = inspect_history,
        .break_ = inspect_break,
        .ask = inspect_ask,
        .examine = examine_begin,
        .forget = inspect_forget,
};

void inspect_up(struct postgres *postgres)
{
        struct list *next;

        for (struct list *at = postgres->questions.next; at != &postgres->questions; at = next) {
                struct question *question = container_of(at, struct question, listed);

                next = at->next;
                if (!question->sent)
                        question_ask(question);
        }
}

void inspect_down(struct postgres *postgres, const struct pawl_why *why, bool was_ready)
{
        int64_t now = postgres_now(postgres);
        struct list *next;

        if (was_ready)
                return;
        for (struct list *at = postgres->questions.next; at != &postgres->questions; at = next) {
                struct question *question = container_of(at, struct question, listed);

                next = at->next;
                if (!postgres->wire.met || now - question->tried_at >= postgres->timeout)
                        finish(question, why->code, why->text);
        }
}

void inspect_free(struct postgres *postgres)
{
        while (!list_empty(&postgres->questions))
                question_free(list_first(&postgres->questions, struct question, listed));
}
