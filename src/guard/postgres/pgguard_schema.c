/* pgguard_schema.c - makes sure that guard.sql has been run, in the schema that was asked for. */
#include <stdlib.h>
#include <string.h>

#include "guard/postgres/guard_sql.h"
#include "pgguard.h"

enum { TRIES = 4 };

/* The name, quoted, for each byte 1. The name has no quotes in it: see read_schema. */
char *pgguard_with_schema(const char *text, const char *schema)
{
        size_t length = strlen(schema) + 2;
        size_t size = strlen(text) + 1;
        char *out;
        char *made;

        for (const char *at = text; *at; at++)
                size += *at == 1 ? length : 0;
        made = out = malloc(size);
        if (!made)
                return NULL;
        for (; *text; text++) {
                if (*text != 1) {
                        *out++ = *text;
                        continue;
                }
                *out++ = '"';
                memcpy(out, schema, length - 2);
                out += length - 2;
                *out++ = '"';
        }
        *out = 0;
        return made;
}

/* Two may still meet where a schema is made beside ours, by the engine's script: the loser finds it made. */
static bool have_met(const PGresult *error)
{
        static const char *const states[] = {"23505", "42P06", "42P07", "42710", "42723", "XX000", "40P01", "40001"};

        for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++)
                if (strcmp(states[i], pgguard_state(error)) == 0)
                        return true;
        return false;
}

/* After a failed script its transaction is still open. */
static bool roll_back(PGconn *conn, int64_t deadline)
{
        PGresult *error = NULL;
        enum pgguard_end end;

        if (PQpipelineStatus(conn) == PQ_PIPELINE_OFF && !PQenterPipelineMode(conn))
                return false;
        end = pgguard_script(conn, "ROLLBACK", deadline, &error);
        PQclear(error);
        return end == PGGUARD_DONE;
}

static int tell_not_made(const struct pgguard *postgres, const PGresult *error, struct pawl_why *why)
{
        const char *text = PQresultErrorField(error, PG_DIAG_MESSAGE_PRIMARY);
        int code = strcmp(pgguard_state(error), "42501") == 0 ? PAWL_DENIED : PAWL_SYSTEM;

        return why_set(
                why, code,
                "%s: the guard's functions are not in the schema %s, and could not be made: %s; let its owner run "
                "what \"pawl engines --sql postgres\" prints",
                postgres->where, postgres->schema, text ? text : "the server did not say why");
}

static enum pgguard_end create(struct pgguard *postgres, PGconn *conn, struct pgguard_call *call, int *code)
{
        char *script = pgguard_with_schema(guard_template, postgres->schema);
        enum pgguard_end end = PGGUARD_LOST;
        PGresult *error = NULL;

        if (!script) {
                *code = why_set(call->why, PAWL_NO_MEMORY, "no memory for the guard's schema");
                return PGGUARD_REFUSED;
        }
        for (int i = 0; i < TRIES; i++) {
                PQclear(error);
                error = NULL;
                end = pgguard_script(conn, script, call->deadline, &error);
                if (end == PGGUARD_DONE || end == PGGUARD_LOST)
                        break;
                if (!roll_back(conn, call->deadline))
                        end = PGGUARD_LOST;
                if (end == PGGUARD_LOST || !have_met(error))
                        break;
        }
        if (end != PGGUARD_DONE && end != PGGUARD_LOST) {
                bool plain = strcmp(pgguard_state(error), "42501") == 0 || have_met(error);

                *code = plain ? tell_not_made(postgres, error, call->why) : pgguard_tell(postgres, call, error);
                end = PGGUARD_REFUSED;
        }
        PQclear(error);
        free(script);
        return end;
}

/* Two lines: what is wrong, and what resolves it. */
static int tell_distrust(const struct pgguard *postgres, const char *text, struct pawl_why *why)
{
        size_t length = strcspn(text, "\n");

        return why_set(why, PAWL_DENIED, "%s: %.*s. To resolve this: %s", postgres->where, (int)length, text,
                       text[length] ? text + length + 1 : text);
}

static enum pgguard_end look(struct pgguard *postgres, PGconn *conn, struct pgguard_call *call, PGresult **error,
                             int *code)
{
        struct pgguard_call question = {.why = call->why, .deadline = call->deadline};
        enum pgguard_end end;
        uint64_t version = 0;

        pgguard_add_text(&question, postgres->schema);
        pgguard_add_text(&question, postgres->owner);
        end = pgguard_ask(conn, postgres->statements[PGGUARD_IS_THERE], &question, error);
        if (end == PGGUARD_DONE && pgguard_has(question.result, 0, 1)) {
                *code = tell_distrust(postgres, pgguard_text(question.result, 0, 1), call->why);
                end = PGGUARD_REFUSED;
        } else if (end == PGGUARD_DONE && !pgguard_has(question.result, 0, 0)) {
                end = PGGUARD_MISSING;
        } else if (end == PGGUARD_DONE) {
                version = pgguard_number(question.result, 0, 0);
        }
        PQclear(question.result);
        if (end == PGGUARD_DONE && version != PGGUARD_VERSION) {
                *code = why_set(call->why, PAWL_OTHER_VERSION,
                                "%s: the guard's functions in the schema %s are of version %" PRIu64 ", and ours %d",
                                postgres->where, postgres->schema, version, PGGUARD_VERSION);
                return PGGUARD_REFUSED;
        }
        return end;
}

enum pgguard_end pgguard_prepare(struct pgguard *postgres, PGconn *conn, struct pgguard_call *call, PGresult **error,
                                 int *code)
{
        enum pgguard_end end = look(postgres, conn, call, error, code);

        /* Who may call admit alone may not look; what else is denied, the call itself will say. */
        if (end == PGGUARD_REFUSED && strcmp(pgguard_state(*error), "42501") == 0) {
                PQclear(*error);
                *error = NULL;
                end = PGGUARD_DONE;
        }
        if (end == PGGUARD_DONE && call->lacking)
                end = PGGUARD_MISSING;
        if (end == PGGUARD_MISSING && !postgres->may_create) {
                *code = why_set(call->why, PAWL_DENIED,
                                "%s: the guard's functions are not there (schema %s), and create=no: run what \"pawl "
                                "engines --sql postgres\" prints",
                                postgres->where, postgres->schema);
                return PGGUARD_REFUSED;
        }
        if (end == PGGUARD_MISSING) {
                PQclear(*error);
                *error = NULL;
                end = create(postgres, conn, call, code);
        }
        if (end == PGGUARD_DONE)
                atomic_store(&postgres->ready, true);
        return end;
}
