/* row_lock.c - the lock is the row. Workers, each a process with a connection of its own, sell from one stock under
 * SELECT ... FOR UPDATE: no piece is sold twice, and no lock of pawl is needed for it. Then a worker that also acts outside
 * of the database, under a lock of pawl: it shows its token to pawl.admit inside the transaction, and one that was overtaken
 * sells nothing, however late it comes. docs/engines/postgres.md says which of the two when.
 *
 *     row_lock LOCKS [DATABASE]      the URL of the locks, of any engine; that of the database, or POSTGRES_URL has it
 */
#include <libpq-fe.h>
#include <pawl.h>
#include <pawl/guard.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 4, PIECES = 100 };
static const char NAME[] = "example/stock/7";

static const char SCHEMA[] = "DROP TABLE IF EXISTS pawl_example_stock, pawl_example_sale;"
                             "CREATE TABLE pawl_example_stock (item int PRIMARY KEY, pieces int NOT NULL);"
                             "CREATE TABLE pawl_example_sale (number serial PRIMARY KEY, worker int NOT NULL);";
static const char FILL[] = "INSERT INTO pawl_example_stock VALUES (7, $1::int) "
                           "ON CONFLICT (item) DO UPDATE SET pieces = excluded.pieces";
/* Waits for whoever has the row. NOWAIT or SKIP LOCKED behind it: does not. */
static const char LOCK[] = "SELECT pieces FROM pawl_example_stock WHERE item = 7 FOR UPDATE";
static const char SELL[] = "UPDATE pawl_example_stock SET pieces = $1::int WHERE item = 7";
static const char NOTE[] = "INSERT INTO pawl_example_sale (worker) VALUES ($1::int)";
/* The guard's: PW001 if a greater token was here (docs/guards/postgres.md). Before anything is read. */
static const char ADMIT[] = "SELECT pawl.admit('example/stock/7', $1::bigint)";

enum outcome { SOLD, SOLD_OUT, STALE, FAILED };

/* A statement with one number or none. *number: the first value of the first row, if there is one. */
static enum outcome ask(PGconn *database, const char *sql, const uint64_t *argument, long *number)
{
        char text[32] = "";
        const char *values[] = {text};
        enum outcome outcome = FAILED;
        const char *state;
        PGresult *result;

        if (argument)
                snprintf(text, sizeof(text), "%llu", (unsigned long long)*argument);
        result = PQexecParams(database, sql, argument ? 1 : 0, NULL, values, NULL, NULL, 0);
        state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
        if (PQresultStatus(result) == PGRES_COMMAND_OK || PQresultStatus(result) == PGRES_TUPLES_OK)
                outcome = SOLD;
        else if (state && strcmp(state, "PW001") == 0)
                outcome = STALE;
        if (number && PQntuples(result) > 0)
                *number = strtol(PQgetvalue(result, 0, 0), NULL, 10);
        PQclear(result);
        return outcome;
}

/* Inside the transaction. What was read cannot change before the COMMIT: the row is ours. */
static enum outcome sell_inside(PGconn *database, uint64_t worker, const uint64_t *token)
{
        enum outcome outcome = token ? ask(database, ADMIT, token, NULL) : SOLD;
        long pieces = -1;
        uint64_t left;

        if (outcome == SOLD)
                outcome = ask(database, LOCK, NULL, &pieces);
        if (outcome != SOLD || pieces < 0)
                return outcome == STALE ? STALE : FAILED;
        if (pieces == 0)
                return SOLD_OUT;
        left = (uint64_t)pieces - 1;
        if (ask(database, SELL, &left, NULL) != SOLD)
                return FAILED;
        return ask(database, NOTE, &worker, NULL);
}

/* token NULL: by the row's lock alone. */
static enum outcome sell(PGconn *database, uint64_t worker, const uint64_t *token)
{
        enum outcome outcome = ask(database, "BEGIN", NULL, NULL);

        if (outcome == SOLD)
                outcome = sell_inside(database, worker, token);
        if (outcome == SOLD)
                return ask(database, "COMMIT", NULL, NULL);
        (void)ask(database, "ROLLBACK", NULL, NULL);
        return outcome;
}

static PGconn *connect_to(const char *url)
{
        PGconn *database = PQconnectdb(url);

        if (PQstatus(database) == CONNECTION_OK)
                return database;
        fprintf(stderr, "%s", PQerrorMessage(database));
        PQfinish(database);
        return NULL;
}

/* ---- the row is the lock ----------------------------------------------------------------------------------------- */

/* Sells until there is nothing left. The status of its process: did all go well? */
static int work(const char *url, uint64_t worker)
{
        PGconn *database = connect_to(url);
        enum outcome outcome = database ? SOLD : FAILED;

        while (outcome == SOLD)
                outcome = sell(database, worker, NULL);
        PQfinish(database);
        return outcome == SOLD_OUT ? 0 : 1;
}

static bool all_workers(const char *url)
{
        int started = 0;
        bool fine = true;
        int status;

        for (; started < WORKERS; started++) {
                pid_t pid = fork();

                if (pid == 0)
                        _exit(work(url, (uint64_t)started + 1));
                if (pid < 0)
                        break;
        }
        for (int i = 0; i < started; i++)
                fine = wait(&status) > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 && fine;
        return fine && started == WORKERS;
}

static const char *sell_by_rows(PGconn *database, const char *url)
{
        long sales = -1, pieces = -1;

        if (ask(database, FILL, &(uint64_t){PIECES}, NULL) != SOLD || !all_workers(url))
                return "a worker cannot sell";
        if (ask(database, "SELECT count(*) FROM pawl_example_sale", NULL, &sales) != SOLD || sales != PIECES)
                return "what was sold is not what there was";
        if (ask(database, "SELECT pieces FROM pawl_example_stock WHERE item = 7", NULL, &pieces) != SOLD || pieces != 0)
                return "the stock is not empty";
        return NULL;
}

/* ---- a lock around it, whose token is checked inside --------------------------------------------------------------- */

static int take(pawl_client *client, pawl_lock **lock)
{
        return pawl_acquire(client, NAME, PAWL_LOCK(.ttl_ms = 5000, .wait_ms = 20000), lock);
}

/* The guard makes its functions when it first admits somebody. */
static bool make_marks(const char *url, uint64_t token)
{
        pawl_guard *guard;
        bool made;

        if (pawl_guard_open(url, NULL, &guard) != PAWL_OK)
                return false;
        made = pawl_guard_admit(guard, "example/stock/7", token, NULL) == PAWL_OK;
        pawl_guard_close(guard);
        return made;
}

static const char *sell_by_tokens(pawl_client *client, PGconn *database, const char *url)
{
        pawl_lock *first, *second;
        uint64_t old, new;
        long pieces = -1;

        if (ask(database, FILL, &(uint64_t){PIECES}, NULL) != SOLD || take(client, &first) != PAWL_OK)
                return "the first worker does not get the lock";
        old = pawl_token(first);
        if (!make_marks(url, old) || sell(database, 1, &old) != SOLD)
                return "the first worker cannot sell";
        /* Here it is paused, and has told somebody outside that it will sell. Its lock is broken, another goes on. */
        if (pawl_break(client, NAME) != PAWL_OK || take(client, &second) != PAWL_OK)
                return "the second worker does not get the broken lock";
        new = pawl_token(second);
        if (sell(database, 2, &new) != SOLD)
                return "the second worker cannot sell";
        if (sell(database, 1, &old) != STALE)
                return "a worker that was overtaken is not refused";
        if (sell(database, 2, &new) != SOLD)
                return "a holder cannot come twice";
        if (ask(database, LOCK, NULL, &pieces) != SOLD || pieces != PIECES - 3)
                return "the stock is not what it should be";
        if (pawl_release(first) != PAWL_LOST || pawl_release(second) != PAWL_OK)
                return "release does not say what was";
        return NULL;
}

/* The tables are there, and empty. */
static PGconn *prepare(const char *url)
{
        PGconn *database = connect_to(url);

        if (!database)
                return NULL;
        PQclear(PQexec(database, "SET client_min_messages = warning"));
        PQclear(PQexec(database, SCHEMA));
        return database;
}

static const char *play(const char *locks, PGconn *database, const char *url)
{
        pawl_client *client = NULL;
        const char *wrong = sell_by_rows(database, url);

        if (wrong)
                return wrong;
        if (pawl_open(locks, NULL, &client) != PAWL_OK) /* after the forks: a client is its own process's */
                return "cannot open the locks";
        wrong = sell_by_tokens(client, database, url);
        pawl_close(client);
        return wrong;
}

int main(int argc, char **argv)
{
        const char *url = argc > 2 ? argv[2] : getenv("POSTGRES_URL");
        const char *wrong = "cannot open the database";
        PGconn *database;

        if (argc < 2 || !url) {
                fprintf(stderr, "usage: row_lock LOCKS DATABASE\n");
                return 2;
        }
        database = prepare(url);
        if (database) {
                wrong = play(argv[1], database, url);
                PQclear(PQexec(database, "DROP TABLE IF EXISTS pawl_example_stock, pawl_example_sale"));
        }
        printf("%s\n", wrong ? wrong : "every piece was sold once; the worker that was overtaken sold nothing");
        PQfinish(database);
        return wrong ? 1 : 0;
}
