/* pgguard_connect.c - libpq within a deadline. A statement and its time limit travel together (pipeline mode) and are one
 * transaction: the server gives up before we do, so that no statement outlives the call that sent it. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/duration.h"
#include "pgguard.h"

enum { TEXT_TYPE = 25, TIME_LIMIT_LEAST_MS = 1 };

/* A library does not print. */
static void stay_silent(void *arg, const char *message)
{
        (void)arg;
        (void)message;
}

/* True if there was something before the deadline. */
static bool wait_for(PGconn *conn, short events, int64_t deadline)
{
        struct pollfd news = {.fd = PQsocket(conn), .events = events};

        for (;;) {
                int64_t left = deadline - pgguard_now();
                int count;

                if (left <= 0 || news.fd < 0)
                        return false;
                count = poll(&news, 1, (int)((left + MS - 1) / MS));
                if (count > 0)
                        return true;
                if (count < 0 && errno != EINTR)
                        return false;
        }
}

/* ---- connecting ---------------------------------------------------------------------------------------------------- */

static bool finish_connecting(PGconn *conn, int64_t deadline)
{
        PostgresPollingStatusType next = PGRES_POLLING_WRITING;

        while (next == PGRES_POLLING_READING || next == PGRES_POLLING_WRITING) {
                if (!wait_for(conn, next == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline))
                        return false;
                next = PQconnectPoll(conn);
        }
        return true;
}

int pgguard_connect(struct pgguard *postgres, int64_t deadline, PGconn **conn, struct pawl_why *why)
{
        struct pgguard_places *places;
        struct pq_params params;
        PGconn *made;
        int code = pgguard_resolve(postgres, deadline, &params, &places, why);

        if (code != PAWL_OK) {
                free(places);
                return code;
        }
        made = PQconnectStartParams(params.keywords, params.values, 0);
        free(places);
        if (!made)
                return why_set(why, PAWL_NO_MEMORY, "no memory for a connection");
        PQsetNoticeProcessor(made, stay_silent, NULL);
        PQsetErrorVerbosity(made, PQERRORS_VERBOSE); /* for the SQLSTATE of a refusal: see pgguard_tell_connect */
        if (PQstatus(made) == CONNECTION_BAD) {
                code = pgguard_tell_connect(postgres, made, why);
        } else if (!finish_connecting(made, deadline)) {
                code = why_set(why, PAWL_UNREACHABLE, "%s: it did not answer in time", postgres->where);
        } else if (PQstatus(made) != CONNECTION_OK) {
                code = pgguard_tell_connect(postgres, made, why);
        } else if (PQsetnonblocking(made, 1) != 0 || !PQenterPipelineMode(made)) {
                code = why_set(why, PAWL_NO_MEMORY, "no memory for a connection");
        } else {
                *conn = made;
                return PAWL_OK;
        }
        PQfinish(made);
        return code;
}

/* ---- sending and reading ------------------------------------------------------------------------------------------- */

static bool send_all(PGconn *conn, int64_t deadline)
{
        for (;;) {
                int left = PQflush(conn);

                if (left <= 0)
                        return left == 0;
                if (!wait_for(conn, POLLIN | POLLOUT, deadline))
                        return false;
                if (!PQconsumeInput(conn)) /* the server may be waiting for us to read */
                        return false;
        }
}

/* The next result; NULL is one too: the end of a statement's. */
static bool read_one(PGconn *conn, int64_t deadline, PGresult **result)
{
        while (PQisBusy(conn)) {
                if (!wait_for(conn, POLLIN, deadline) || !PQconsumeInput(conn))
                        return false;
        }
        *result = PQgetResult(conn);
        return *result || PQstatus(conn) == CONNECTION_OK;
}

static void keep(PGresult **kept, PGresult *result)
{
        PQclear(*kept);
        *kept = result;
}

/* The first error decides, wherever it comes: a commit may fail too. Only the end (the sync) says that all was done. */
static enum pgguard_end read_all(PGconn *conn, int64_t deadline, bool pipeline, PGresult **rows, PGresult **error)
{
        PGresult *result;

        while (read_one(conn, deadline, &result)) {
                ExecStatusType status = PQresultStatus(result);

                if (status == PGRES_PIPELINE_SYNC || (!result && !pipeline)) {
                        PQclear(result);
                        return *error ? pgguard_end_of(*error) : PGGUARD_DONE;
                }
                if (status == PGRES_TUPLES_OK)
                        keep(rows, result);
                else if (result && status != PGRES_COMMAND_OK && status != PGRES_PIPELINE_ABORTED && !*error)
                        *error = result;
                else
                        PQclear(result);
        }
        return PGGUARD_LOST;
}

/* And for this transaction nothing of other roles is found: what follows names its schema, and the role's own search_path
 * has public in it, where anybody may have put an operator that fits better than the server's. */
static bool send_limit(PGconn *conn, int64_t deadline)
{
        int64_t left = (deadline - pgguard_now()) / MS * 9 / 10;
        char text[24];
        const char *values[] = {text};
        static const Oid types[] = {TEXT_TYPE};

        snprintf(text, sizeof(text), "%" PRId64, left < TIME_LIMIT_LEAST_MS ? TIME_LIMIT_LEAST_MS : left);
        return PQsendQueryParams(conn,
                                 "SELECT pg_catalog.set_config('statement_timeout', $1, true), "
                                 "pg_catalog.set_config('search_path', 'pg_catalog', true)",
                                 1, types, values, NULL, NULL, 0);
}

enum pgguard_end pgguard_ask(PGconn *conn, const char *statement, struct pgguard_call *call, PGresult **error)
{
        static const int binary[PGGUARD_VALUES] = {1, 1, 1, 1};
        PGresult *rows = NULL;
        enum pgguard_end end = PGGUARD_LOST;

        *error = NULL;
        if (send_limit(conn, call->deadline) &&
            PQsendQueryParams(conn, statement, call->count, call->types, call->values, call->lengths, binary, 1) &&
            PQpipelineSync(conn) && send_all(conn, call->deadline))
                end = read_all(conn, call->deadline, true, &rows, error);
        if (end == PGGUARD_DONE)
                keep(&call->result, rows);
        else
                PQclear(rows);
        return end;
}

enum pgguard_end pgguard_script(PGconn *conn, const char *script, int64_t deadline, PGresult **error)
{
        PGresult *rows = NULL;
        enum pgguard_end end = PGGUARD_LOST;

        *error = NULL;
        if (PQexitPipelineMode(conn) && PQsendQuery(conn, script) && send_all(conn, deadline))
                end = read_all(conn, deadline, false, &rows, error);
        PQclear(rows);
        if (end == PGGUARD_DONE && !PQenterPipelineMode(conn))
                end = PGGUARD_LOST;
        return end;
}
