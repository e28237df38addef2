/* payment.c - a charge that happens once. The token is checked inside the transaction that charges, in the application's own
 * database: a worker that was overtaken charges nothing, however late it comes. And the order's number is the key of the
 * charge: a worker that does not know whether its last attempt was committed may just try again.
 *
 *     payment [URL [DATABASE]]
 */
#include <pawl.h>
#include <pawl/guard.h>
#include <sqlite3.h>
#include <stdio.h>

static const char NAME[] = "example/customer/7";

static const char SCHEMA[] = "CREATE TABLE IF NOT EXISTS account (cents INTEGER NOT NULL);"
                             "CREATE TABLE IF NOT EXISTS charge (number INTEGER PRIMARY KEY, cents INTEGER NOT NULL);"
                             "DELETE FROM account; DELETE FROM charge; INSERT INTO account VALUES (1000);";
/* The guard's: what is inserted there is admitted, or an error (docs/guards/sqlite.md). */
static const char ADMIT[] = "INSERT INTO pawl_admit (resource, token) VALUES ('customer/7', ?1)";
static const char CHARGE[] = "INSERT INTO charge VALUES (?1, ?2) ON CONFLICT (number) DO NOTHING";
static const char PAY[] = "UPDATE account SET cents = cents - ?1";

enum outcome { CHARGED, ALREADY_CHARGED, STALE, FAILED };

/* The rows that a statement changed; -1: it was refused, or it failed. */
static int change(sqlite3 *database, const char *sql, sqlite3_int64 first, sqlite3_int64 second)
{
        sqlite3_stmt *statement;
        int rows = -1;

        if (sqlite3_prepare_v2(database, sql, -1, &statement, NULL) != SQLITE_OK)
                return -1;
        sqlite3_bind_int64(statement, 1, first);
        if (sqlite3_bind_parameter_count(statement) > 1)
                sqlite3_bind_int64(statement, 2, second);
        if (sqlite3_step(statement) == SQLITE_DONE)
                rows = sqlite3_changes(database);
        sqlite3_finalize(statement);
        return rows;
}

/* Inside the transaction. */
static enum outcome charge_inside(sqlite3 *database, uint64_t token, int number, int cents)
{
        int rows;

        if (change(database, ADMIT, (sqlite3_int64)token, 0) < 0)
                return sqlite3_errcode(database) == SQLITE_CONSTRAINT ? STALE : FAILED;
        rows = change(database, CHARGE, number, cents);
        if (rows != 1)
                return rows == 0 ? ALREADY_CHARGED : FAILED;
        return change(database, PAY, cents, 0) == 1 ? CHARGED : FAILED;
}

static enum outcome charge(sqlite3 *database, uint64_t token, int number, int cents)
{
        enum outcome outcome;

        /* IMMEDIATE: from here on nobody else writes, so that what is checked still holds at the COMMIT. */
        if (sqlite3_exec(database, "BEGIN IMMEDIATE", NULL, NULL, NULL) != SQLITE_OK)
                return FAILED;
        outcome = charge_inside(database, token, number, cents);
        if (outcome != STALE && outcome != FAILED && sqlite3_exec(database, "COMMIT", NULL, NULL, NULL) == SQLITE_OK)
                return outcome;
        sqlite3_exec(database, "ROLLBACK", NULL, NULL, NULL);
        return outcome == STALE ? STALE : FAILED;
}

static int balance(sqlite3 *database)
{
        sqlite3_stmt *statement;
        int cents = -1;

        if (sqlite3_prepare_v2(database, "SELECT cents FROM account", -1, &statement, NULL) != SQLITE_OK)
                return -1;
        if (sqlite3_step(statement) == SQLITE_ROW)
                cents = sqlite3_column_int(statement, 0);
        sqlite3_finalize(statement);
        return cents;
}

static int take(pawl_client *client, pawl_lock **lock)
{
        return pawl_acquire(client, NAME, PAWL_LOCK(.ttl_ms = 3000, .wait_ms = 10000), lock);
}

/* The guard makes its tables when it first admits somebody. Where there is nothing but SQL, share/pawl/sqlite.sql does. */
static int make_marks(const char *path, uint64_t token)
{
        char url[4096];
        pawl_guard *guard;
        int code;

        snprintf(url, sizeof(url), "sqlite:%s", path);
        code = pawl_guard_open(url, NULL, &guard);
        if (code != PAWL_OK)
                return code;
        code = pawl_guard_admit(guard, "customer/7", token, NULL);
        pawl_guard_close(guard);
        return code;
}

/* The story. The first thing that does not come out as it should is the answer. */
static const char *play(pawl_client *client, sqlite3 *database, const char *path)
{
        pawl_lock *first, *second;

        if (take(client, &first) != PAWL_OK)
                return "the first worker does not get the lock";
        if (make_marks(path, pawl_token(first)) != PAWL_OK)
                return "the database cannot be guarded";
        if (charge(database, pawl_token(first), 41, 100) != CHARGED)
                return "the first worker cannot charge";
        /* Here it is paused, with order 42 in its hands. Its lock is broken, and another takes over what is left to do. */
        if (pawl_break(client, NAME) != PAWL_OK || take(client, &second) != PAWL_OK)
                return "the second worker does not get the broken lock";
        if (charge(database, pawl_token(second), 42, 200) != CHARGED)
                return "the second worker cannot charge";
        if (charge(database, pawl_token(first), 42, 250) != STALE)
                return "a worker that was overtaken is not refused";
        if (charge(database, pawl_token(first), 43, 300) != STALE)
                return "it is refused only what is charged already";
        if (charge(database, pawl_token(second), 42, 200) != ALREADY_CHARGED)
                return "an order is charged twice";
        if (balance(database) != 1000 - 100 - 200)
                return "the account is not what it should be";
        if (pawl_release(first) != PAWL_LOST || pawl_release(second) != PAWL_OK)
                return "release does not say what was";
        return NULL;
}

int main(int argc, char **argv)
{
        const char *path = argc > 2 ? argv[2] : "payments.db";
        const char *wrong = "cannot open the store or the database";
        pawl_client *client = NULL;
        sqlite3 *database = NULL;

        if (pawl_open(argc > 1 ? argv[1] : NULL, NULL, &client) == PAWL_OK &&
            sqlite3_open(path, &database) == SQLITE_OK && sqlite3_exec(database, SCHEMA, NULL, NULL, NULL) == SQLITE_OK)
                wrong = play(client, database, path);
        printf("%s\n", wrong ? wrong : "two orders charged once each; the worker that was overtaken charged nothing");
        sqlite3_close(database);
        pawl_close(client);
        return wrong ? 1 : 0;
}
