/* pg_error.c - what errors mean: a code, a sentence, and whether trying again may help. */
#include <string.h>

#include "../../base/pq_error.h"
#include "postgres.h"

/* By SQLSTATE, or by its class (two letters). */
static const struct meaning {
        const char *state;
        int code;
        const char *text;
} meanings[] = {
        {"42501", PAWL_DENIED, "the role may not do that there: `pawl doctor` prints the GRANTs it needs"},
        {"22P05", PAWL_INVALID,
         "the encoding of the database has no letters for that name, note or owner: it should be UTF8"},
        {"22021", PAWL_INVALID,
         "the encoding of the database has no letters for that name, note or owner: it should be UTF8"},
        {"25006", PAWL_UNREACHABLE, "it is read-only, a standby perhaps: locks need the primary"},
        {"40001", PAWL_UNREACHABLE, "a transaction came between"},
        {"40P01", PAWL_UNREACHABLE, "a transaction stood in the way (deadlock)"},
        {"55P03", PAWL_UNREACHABLE,
         "another transaction has locked the row of that lock, or its table, and does not end (lock_timeout; pg_locks "
         "shows "
         "which)"},
        {"57014", PAWL_UNREACHABLE, "the statement was cancelled, or took too long (statement_timeout)"},
        {"57P01", PAWL_UNREACHABLE, "the connection was ended by an administrator"},
        {"57P02", PAWL_UNREACHABLE, "it crashed, and starts again"},
        {"57P03", PAWL_UNREACHABLE, "it does not accept connections yet"},
        {"57P05", PAWL_UNREACHABLE, "the session was ended because it was idle (idle_session_timeout)"},
        {"53100", PAWL_FULL, "its disk is full"},
        {"53200", PAWL_FULL, "it has no memory left"},
        {"53300", PAWL_UNREACHABLE, "it has as many clients as it takes (max_connections)"},
        {"53", PAWL_FULL, "it has no room left"},
        {"26000", PAWL_UNREACHABLE, "it has forgotten a statement of this session"},
        {"42P05", PAWL_UNSUPPORTED,
         "a pooler such as PgBouncer stands in between, and handed us the session of another: connect to the server "
         "itself"},
        {"28", PAWL_DENIED, "it refuses the user or the password"},
        {"3D000", PAWL_NOT_FOUND, "there is no such database"},
        {"3F000", PAWL_NOT_FOUND, "the schema is not there"},
        {"42P01", PAWL_NOT_FOUND, "the tables are not there: let an administrator run `pawl engines --sql postgres`"},
        {"42883", PAWL_NOT_FOUND,
         "the functions are not there: let an administrator run `pawl engines --sql postgres`"},
        {"XX001", PAWL_CORRUPT, "its data are damaged"},
        {"XX002", PAWL_CORRUPT, "an index is damaged"},
        {"58", PAWL_SYSTEM, "a system call failed there"},
        {"08", PAWL_UNREACHABLE, "the connection was lost"},
};

static const struct meaning *find_meaning(const char *state)
{
        for (size_t i = 0; state && i < sizeof(meanings) / sizeof(*meanings); i++)
                if (strncmp(state, meanings[i].state, strlen(meanings[i].state)) == 0)
                        return &meanings[i];
        return NULL;
}

bool error_is(const PGresult *result, const char *state)
{
        const char *own = result ? PQresultErrorField(result, PG_DIAG_SQLSTATE) : NULL;

        return own && strcmp(own, state) == 0;
}

bool error_is_blocked(const PGresult *result)
{
        return error_is(result, "55P03");
}

int error_of_result(const struct postgres *postgres, const PGresult *result, struct pawl_why *why)
{
        const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        const char *message = PQresultErrorField(result, PG_DIAG_MESSAGE_PRIMARY);
        const struct meaning *meaning = find_meaning(state);

        if (!message)
                message = PQresultErrorMessage(result);
        if (meaning)
                return why_set(why, meaning->code, "%s: %s (%.200s)", postgres->where, meaning->text, message);
        return why_set(why, PAWL_SYSTEM, "%s: it says: %.300s", postgres->where, message);
}

/* What libpq says by itself is for people: several lines, of which the last tells most. In other languages the words are not
 * known, and a connection that fails is unreachable. */
static const struct phrase {
        const char *words;
        int code;
} phrases[] = {
        {"authentication", PAWL_DENIED},
        {"no password supplied", PAWL_DENIED},
        {"does not support SSL", PAWL_DENIED},
        {"certificate", PAWL_DENIED},
        {"SSL error", PAWL_DENIED},
        {"root certificate file", PAWL_DENIED},
        {"permission denied", PAWL_DENIED},
        {"out of memory", PAWL_NO_MEMORY},
};

/* The last that stands by itself: what follows a tab explains the line before it. */
static const char *last_line(const char *text)
{
        const char *last = text;

        for (const char *at = text; (at = strchr(at, '\n')) != NULL && *++at;)
                if (*at != '\t' && *at != '\n')
                        last = at;
        return last;
}

static int code_of_phrase(const char *text)
{
        for (size_t i = 0; i < sizeof(phrases) / sizeof(*phrases); i++)
                if (strstr(text, phrases[i].words))
                        return phrases[i].code;
        return PAWL_UNREACHABLE;
}

/* By the server's SQLSTATE, if it said one: its words have names in them (the role, the database), and say "role" also where
 * there are too many connections for one. */
int error_of_connecting(const struct postgres *postgres, const PGconn *conn, struct pawl_why *why)
{
        const char *text = PQerrorMessage(conn);
        const struct meaning *meaning;
        char state[6], line[380];
        int code = PAWL_UNREACHABLE;
        const char *said = pq_error_state(text, state);

        if (!said) {
                pq_error_line(last_line(text), line, sizeof(line));
                return why_set(why, code_of_phrase(text), "%s: %s", postgres->where, line);
        }
        meaning = find_meaning(state);
        if (strncmp(state, "08", 2) == 0) /* PgBouncer's, for whatever it refuses */
                code = code_of_phrase(said);
        else if (meaning)
                code = meaning->code;
        pq_error_line(said, line, sizeof(line));
        return why_set(why, code, "%s: %s (%s)", postgres->where, line, state);
}

/* One that stood says nothing about the next: whatever ended it, another is tried. */
int error_of_connection(const struct postgres *postgres, const PGconn *conn, struct pawl_why *why)
{
        const char *text = PQerrorMessage(conn);
        const char *last = last_line(text);
        size_t length = strcspn(last, "\n");

        return why_set(why, strstr(text, "out of memory") ? PAWL_NO_MEMORY : PAWL_UNREACHABLE, "%s: %.*s",
                       postgres->where, (int)(length < 380 ? length : 380), length ? last : "the connection was lost");
}

bool error_passes(const struct pawl_why *why)
{
        return why->code == PAWL_UNREACHABLE;
}
