/* pgguard_error.c - what the server said, by its SQLSTATE, as a code and a sentence that says what to do. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/pq_error.h"
#include "pgguard.h"

/* By SQLSTATE or its class; the first that fits. Errors of PostgreSQL: appendix A of its manual. */
static const struct {
        const char *state;
        int code;
        enum pgguard_end end;
        const char *sentence; /* NULL: the server's own */
} known[] = {
        {"08", PAWL_UNREACHABLE, PGGUARD_LOST, NULL},
        {"22021", PAWL_INVALID, PGGUARD_REFUSED, NULL}, /* a name that its encoding does not have, as 22P05 */
        {"22023", PAWL_INVALID, PGGUARD_REFUSED, NULL},
        {"22P05", PAWL_INVALID, PGGUARD_REFUSED, NULL},
        {"25006", PAWL_UNREACHABLE, PGGUARD_REFUSED,
         "it is read-only there: a standby, or default_transaction_read_only is on; a guard needs the primary"},
        {"25P04", PAWL_TIMEOUT, PGGUARD_REFUSED, "the transaction took longer than the server allows"},
        {"28", PAWL_DENIED, PGGUARD_REFUSED, NULL},
        {"3D000", PAWL_INVALID, PGGUARD_REFUSED, NULL},
        {"3F000", PAWL_DENIED, PGGUARD_MISSING, NULL},
        {"40001", PAWL_TIMEOUT, PGGUARD_AGAIN, NULL},
        {"40P01", PAWL_TIMEOUT, PGGUARD_AGAIN, NULL},
        {"42501", PAWL_DENIED, PGGUARD_REFUSED, NULL},
        {"42883", PAWL_DENIED, PGGUARD_MISSING, NULL},
        {"42P01", PAWL_DENIED, PGGUARD_MISSING, NULL},
        {"53100", PAWL_FULL, PGGUARD_REFUSED, "its disk is full: make room; nothing was changed"},
        {"53200", PAWL_FULL, PGGUARD_REFUSED, "the server has no memory for it; nothing was changed"},
        {"53300", PAWL_FULL, PGGUARD_REFUSED, "it has no room for another connection (max_connections)"},
        {"53", PAWL_FULL, PGGUARD_REFUSED, NULL},
        {"54", PAWL_FULL, PGGUARD_REFUSED, "that is more than it can keep in one value"},
        {"55P03", PAWL_TIMEOUT, PGGUARD_REFUSED, NULL},
        {"57014", PAWL_TIMEOUT, PGGUARD_REFUSED, NULL},
        {"57P", PAWL_UNREACHABLE, PGGUARD_LOST, NULL}, /* it shuts down, starts up, has crashed */
        {"58030", PAWL_SYSTEM, PGGUARD_REFUSED, NULL},
        {"XX001", PAWL_CORRUPT, PGGUARD_REFUSED, NULL},
        {"XX002", PAWL_CORRUPT, PGGUARD_REFUSED, NULL},
};

static size_t place_of(const char *state)
{
        size_t at = 0;

        while (at < sizeof(known) / sizeof(*known) && strncmp(known[at].state, state, strlen(known[at].state)) != 0)
                at++;
        return at;
}

const char *pgguard_state(const PGresult *error)
{
        const char *state = PQresultErrorField(error, PG_DIAG_SQLSTATE);

        return state ? state : "";
}

static const char *message_of(const PGresult *error)
{
        const char *text = PQresultErrorField(error, PG_DIAG_MESSAGE_PRIMARY);

        return text ? text : "the server said no, and not why";
}

enum pgguard_end pgguard_end_of(const PGresult *error)
{
        const char *state = pgguard_state(error);
        size_t at = place_of(state);

        if (!*state) /* of libpq itself */
                return PGGUARD_LOST;
        return at < sizeof(known) / sizeof(*known) ? known[at].end : PGGUARD_REFUSED;
}

/* "The greatest is 34." */
static int tell_stale(struct pgguard_call *call, const PGresult *error)
{
        const char *detail = PQresultErrorField(error, PG_DIAG_MESSAGE_DETAIL);
        const struct visit visit = {call->resource, 0, call->token, call->why};

        if (detail)
                detail += strcspn(detail, "0123456789");
        call->greatest = detail ? strtoull(detail, NULL, 10) : 0;
        return call->swap ? guard_moved(&visit, call->swap, call->greatest) : guard_stale(&visit, call->greatest);
}

int pgguard_tell_denied(const struct pgguard *postgres, const char *text, struct pawl_why *why)
{
        return why_set(why, PAWL_DENIED,
                       "%s: %s; the owner grants it: GRANT USAGE ON SCHEMA %s TO %s; GRANT EXECUTE ON ALL FUNCTIONS IN "
                       "SCHEMA %s TO %s;",
                       postgres->where, text, postgres->schema, pq_params_get(&postgres->params, "user"),
                       postgres->schema, pq_params_get(&postgres->params, "user"));
}

static int tell_missing(const struct pgguard *postgres, const struct pgguard_call *call, const PGresult *error)
{
        return why_set(call->why, PAWL_DENIED,
                       "%s: the guard's functions are not there (%s): run what \"pawl engines --sql postgres\" prints",
                       postgres->where, message_of(error));
}

static int tell_late(const struct pgguard *postgres, const struct pgguard_call *call)
{
        return why_set(call->why, PAWL_TIMEOUT,
                       "%s: it was not done in time: another transaction that admitted a token for %s%s%s may not have "
                       "ended",
                       postgres->where, call->resource ? "\"" : "", call->resource ? call->resource : "some resource",
                       call->resource ? "\"" : "");
}

int pgguard_tell(const struct pgguard *postgres, struct pgguard_call *call, const PGresult *error)
{
        const char *state = pgguard_state(error);
        size_t at = place_of(state);

        if (strcmp(state, "PW001") == 0 && call->resource)
                return tell_stale(call, error);
        if (at == sizeof(known) / sizeof(*known))
                return why_set(call->why, PAWL_SYSTEM, "%s: the server refused it: %s (%s)", postgres->where,
                               message_of(error), state);
        if (known[at].end == PGGUARD_MISSING)
                return tell_missing(postgres, call, error);
        if (known[at].code == PAWL_TIMEOUT && !known[at].sentence)
                return tell_late(postgres, call);
        if (strcmp(state, "42501") == 0)
                return pgguard_tell_denied(postgres, message_of(error), call->why);
        return why_set(call->why, known[at].code, "%s: %s (%s)", postgres->where,
                       known[at].sentence ? known[at].sentence : message_of(error), state);
}

/* ---- connections --------------------------------------------------------------------------------------------------- */

static int tell_state(const struct pgguard *postgres, const char *state, const char *line, struct pawl_why *why)
{
        size_t at = place_of(state);
        bool no_password = !postgres->params.has_password && strncmp(state, "28", 2) == 0;
        int code = at < sizeof(known) / sizeof(*known) ? known[at].code : PAWL_UNREACHABLE;
        const char *sentence = at < sizeof(known) / sizeof(*known) ? known[at].sentence : NULL;

        return why_set(why, code, "%s: %s (%s)%s", postgres->where, sentence ? sentence : line, state,
                       no_password ? ": the URL has no password: put it in a file, passfile=FILE" : "");
}

int pgguard_tell_connect(const struct pgguard *postgres, const PGconn *conn, struct pawl_why *why)
{
        const char *text = PQerrorMessage(conn);
        char state[6];
        const char *said = pq_error_state(text, state);
        char line[400];
        bool invalid;

        pq_error_line(said ? said : text, line, sizeof(line));
        if (said)
                return tell_state(postgres, state, line, why);
        invalid = strncmp(text, "invalid ", 8) == 0 || strncmp(text, "could not match ", 16) == 0;
        return why_set(why, invalid ? PAWL_INVALID : PAWL_UNREACHABLE, "%s: %s%s", postgres->where, line,
                       strstr(line, "SSL") || strstr(line, "certificate")
                               ? " (sslrootcert=FILE in the URL says whom to trust; insecure=1 trusts all)"
                               : "");
}
