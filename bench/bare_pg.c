/* bare_pg.c - see bare_pg.h. */
#include "bare_pg.h"

#include <stdio.h>
#include <stdlib.h>

#include <libpq-fe.h>

#include "bench.h"
#include "turns.h"

struct bare_pg {
        PGconn *connection;
};

static const char *const STATEMENTS[][2] = {
        {"put", "INSERT INTO bare_row AS r VALUES ($1, 1, $2, clock_timestamp() + interval '10 s')"
                " ON CONFLICT (name) DO UPDATE SET token = r.token + 1, owner = $2, expires_at = excluded.expires_at"
                " WHERE r.expires_at < clock_timestamp() RETURNING token"},
        {"delete", "DELETE FROM bare_row WHERE name = $1 AND owner = $2"},
        {"try", "SELECT pg_try_advisory_lock($1)"},
        {"lock", "SELECT pg_advisory_lock($1)"},
        {"unlock", "SELECT pg_advisory_unlock($1)"},
};
enum { STATEMENT_COUNT = sizeof(STATEMENTS) / sizeof(STATEMENTS[0]) };
static const char *const ROW[] = {"bench/pair", "8c5f8a9e-5c6f-4a43-9f0e-2f2f3a2f7a11"};
static const char *const KEY[] = {"4711"};

/* Gives whether the first row says true, or how many rows were changed; ends the program at an error. */
static int done(struct bare_pg *pg, PGresult *result, const char *what)
{
        ExecStatusType status = PQresultStatus(result);
        int figure;

        if (status != PGRES_COMMAND_OK && status != PGRES_TUPLES_OK)
                bench_die("%s: %s", what, PQerrorMessage(pg->connection));
        if (PQntuples(result) > 0)
                figure = PQgetvalue(result, 0, 0)[0] != 'f';
        else
                figure = atoi(PQcmdTuples(result));
        PQclear(result);
        return figure;
}

static int call(struct bare_pg *pg, const char *statement, int n, const char *const *values)
{
        return done(pg, PQexecPrepared(pg->connection, statement, n, values, NULL, NULL, 0), statement);
}

static void make_table(struct bare_pg *pg)
{
        done(pg, PQexec(pg->connection, "SET client_min_messages = warning"), "SET");
        done(pg, PQexec(pg->connection, "SELECT pg_advisory_lock(1)"), "lock"); /* two that make it at once collide */
        done(pg,
             PQexec(pg->connection, "CREATE TABLE IF NOT EXISTS bare_row (name text COLLATE \"C\" PRIMARY KEY,"
                                    " token bigint, owner uuid, expires_at timestamptz) WITH (fillfactor = 70)"),
             "CREATE TABLE");
        done(pg, PQexec(pg->connection, "SELECT pg_advisory_unlock(1)"), "unlock");
}

struct bare_pg *bare_pg_connect(uint16_t port)
{
        struct bare_pg *pg = calloc(1, sizeof(*pg));
        char where[64];

        if (!pg)
                bench_die("no memory");
        snprintf(where, sizeof(where), "postgres://postgres@127.0.0.1:%u/postgres", port);
        pg->connection = PQconnectdb(where);
        if (PQstatus(pg->connection) != CONNECTION_OK)
                bench_die("cannot connect: %s", PQerrorMessage(pg->connection));
        make_table(pg);
        for (int i = 0; i < STATEMENT_COUNT; i++)
                done(pg, PQprepare(pg->connection, STATEMENTS[i][0], STATEMENTS[i][1], 0, NULL), STATEMENTS[i][0]);
        return pg;
}

void bare_pg_close(struct bare_pg *pg)
{
        PQfinish(pg->connection);
        free(pg);
}

void bare_pg_row_pairs(struct bare_pg *pg, int n)
{
        for (int i = 0; i < n; i++)
                if (!call(pg, "put", 2, ROW) || !call(pg, "delete", 2, ROW))
                        bench_die("a row that was free was not taken, or one that was taken was not there");
}

void bare_pg_advisory_pairs(struct bare_pg *pg, int n)
{
        for (int i = 0; i < n; i++)
                if (!call(pg, "try", 1, KEY) || !call(pg, "unlock", 1, KEY))
                        bench_die("a lock that was free was not granted, or not unlocked");
}

double bare_pg_commits(void *arg)
{
        struct bare_pg *pg = arg;
        PGresult *result;
        double count;

        result = PQexec(pg->connection, "SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()");
        if (PQntuples(result) != 1)
                bench_die("pg_stat_database: %s", PQerrorMessage(pg->connection));
        count = strtod(PQgetvalue(result, 0, 0), NULL);
        PQclear(result);
        return count;
}

void bare_pg_turns(struct crew *crew, uint32_t me, void *arg)
{
        const struct turns *turns = arg;
        struct bare_pg *pg = bare_pg_connect(turns->port);

        crew_start(crew);
        while (!atomic_load(&crew->stop)) {
                uint64_t ticket = crew_ask(crew);

                call(pg, "lock", 1, KEY);
                crew_turn(crew, me, ticket);
                turns_sleep(turns->hold_ns);
                call(pg, "unlock", 1, KEY);
                turns_sleep(turns->pause_ns);
        }
        bare_pg_close(pg);
}
