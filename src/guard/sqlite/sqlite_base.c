/* sqlite_base.c - the guard's connection: how the database is opened, set up, written, and what its errors mean.
 *
 * The file is never opened and closed but by SQLite: closing any descriptor of it takes the process's locks away. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "guard/sqlite/schema.h"
#include "sqlite.h"

/* What belongs to us in a database. */
#define OUR_NAMES "('pawl_mark', 'pawl_floor', 'pawl_data', 'pawl_admit', 'pawl_admit_token')"
enum { OUR_OBJECTS = 5 };
/* Later than the rest, and made where an older pawl made that. */
#define OUR_LATER_NAMES "('pawl_swap', 'pawl_swap_version', 'pawl_swapped')"
enum { OUR_LATER_OBJECTS = 3 };

static const char *const queries[QUERIES] = {
        [QUERY_BEGIN] = "BEGIN IMMEDIATE",
        [QUERY_COMMIT] = "COMMIT",
        [QUERY_ROLLBACK] = "ROLLBACK",
        [QUERY_OBJECTS] = "SELECT count(*) FILTER (WHERE name IN " OUR_NAMES
                          "), count(*) FILTER (WHERE name IN " OUR_LATER_NAMES ") FROM main.sqlite_master",
        [QUERY_LOOK] = "SELECT (SELECT token FROM main.pawl_mark WHERE resource = ?1), token, version FROM "
                       "main.pawl_floor",
        [QUERY_READ] = "SELECT (SELECT token FROM main.pawl_mark WHERE resource = ?1), token, version, "
                       "(SELECT data FROM main.pawl_data WHERE resource = ?1) FROM main.pawl_floor",
        [QUERY_RAISE] = "INSERT INTO main.pawl_mark(resource, token) VALUES (?1, ?2) "
                        "ON CONFLICT (resource) DO UPDATE SET token = excluded.token",
        [QUERY_PUT] = "INSERT INTO main.pawl_data(resource, data) VALUES (?1, ?2) "
                      "ON CONFLICT (resource) DO UPDATE SET data = excluded.data",
        [QUERY_GET] = "SELECT data FROM main.pawl_data WHERE resource = ?1",
        [QUERY_FORGET] = "DELETE FROM main.pawl_mark WHERE resource = ?1",
        [QUERY_LIST] =
                "SELECT resource, token FROM main.pawl_mark WHERE resource > ?1 AND length(CAST(resource AS BLOB)) "
                "<= ?2 AND instr(resource, char(0)) = 0 ORDER BY resource LIMIT ?3",
        [QUERY_FLOOR] = "UPDATE main.pawl_floor SET token = ?1 WHERE token < ?1",
        [QUERY_PRUNE] = "DELETE FROM main.pawl_mark WHERE token <= ?1",
        [QUERY_SWAPPED] = "SELECT id FROM main.pawl_swapped WHERE resource = ?1 AND version = ?2",
        [QUERY_NAME_SWAP] = "INSERT INTO main.pawl_swapped(resource, version, id) VALUES (?1, ?2, ?3) "
                            "ON CONFLICT (resource) DO UPDATE SET version = excluded.version, id = excluded.id",
        [QUERY_FORGET_SWAP] = "DELETE FROM main.pawl_swapped WHERE resource = ?1",
        [QUERY_PRUNE_SWAPS] =
                "DELETE FROM main.pawl_swapped WHERE resource NOT IN (SELECT resource FROM main.pawl_mark)",
};

/* ---- errors ----------------------------------------------------------------------------------------------------- */

static int fail_by_errno(struct sqlite *sqlite, struct pawl_why *why)
{
        int error = sqlite3_system_errno(sqlite->db);

        return why_system(why, error ? error : EIO, "the database %s: %s", sqlite->path, sqlite3_errmsg(sqlite->db));
}

int sqlite_fail(struct sqlite *sqlite, int code, struct pawl_why *why)
{
        const char *text = sqlite->db ? sqlite3_errmsg(sqlite->db) : "out of memory";

        switch (code & 0xff) {
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
                return why_set(why, PAWL_TIMEOUT,
                               "the database %s has been locked by another for %u ms: has it left a transaction open?",
                               sqlite->path, sqlite->wait_ms);
        case SQLITE_FULL:
                return why_set(why, PAWL_FULL, "the database %s has no room: %s", sqlite->path, text);
        case SQLITE_NOMEM:
                return why_set(why, PAWL_NO_MEMORY, "no memory for the database %s", sqlite->path);
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
                return why_set(why, PAWL_CORRUPT,
                               "the database %s is damaged (%s): which tokens it admitted is unknown; restore it",
                               sqlite->path, text);
        case SQLITE_ERROR: /* a table of ours has gone, or is not what we made */
                return why_set(why, PAWL_CORRUPT, "the database %s does not have pawl's tables as they were made: %s",
                               sqlite->path, text);
        case SQLITE_READONLY:
                return why_set(why, PAWL_DENIED, "the database %s may not be written: %s", sqlite->path, text);
        case SQLITE_PERM:
        case SQLITE_AUTH:
                return why_set(why, PAWL_DENIED, "the database %s: %s", sqlite->path, text);
        case SQLITE_TOOBIG:
                return why_set(why, PAWL_INVALID, "the data are too large for SQLite");
        case SQLITE_CANTOPEN:
        case SQLITE_IOERR:
                return fail_by_errno(sqlite, why);
        default:
                return why_set(why, PAWL_SYSTEM, "the database %s: %s", sqlite->path, text);
        }
}

/* ---- statements ------------------------------------------------------------------------------------------------- */

int sqlite_prepare(struct sqlite *sqlite, enum query query, sqlite3_stmt **statement, struct pawl_why *why)
{
        int code = SQLITE_OK;

        if (!sqlite->statements[query])
                code = sqlite3_prepare_v3(sqlite->db, queries[query], -1, SQLITE_PREPARE_PERSISTENT,
                                          &sqlite->statements[query], NULL);
        if (code != SQLITE_OK)
                return sqlite_fail(sqlite, code, why);
        *statement = sqlite->statements[query];
        sqlite3_reset(*statement);
        sqlite3_clear_bindings(*statement);
        return PAWL_OK;
}

int sqlite_finish(struct sqlite *sqlite, sqlite3_stmt *statement, struct pawl_why *why)
{
        int code = sqlite3_step(statement);

        while (code == SQLITE_ROW)
                code = sqlite3_step(statement);
        code = code == SQLITE_DONE ? PAWL_OK : sqlite_fail(sqlite, code, why);
        sqlite3_reset(statement);
        sqlite3_clear_bindings(statement); /* the data are borrowed */
        return code;
}

static int run(struct sqlite *sqlite, enum query query, struct pawl_why *why)
{
        sqlite3_stmt *statement;
        int code = sqlite_prepare(sqlite, query, &statement, why);

        return code == PAWL_OK ? sqlite_finish(sqlite, statement, why) : code;
}

static int run_text(struct sqlite *sqlite, const char *text, struct pawl_why *why)
{
        int code = sqlite3_exec(sqlite->db, text, NULL, NULL, NULL);

        return code == SQLITE_OK ? PAWL_OK : sqlite_fail(sqlite, code, why);
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

/* A new database is our own's alone; SQLite would open it to all. Its journals take its permissions. Nobody can have a lock
 * on what was made just now, so the descriptor may be closed. */
static int make_file(const struct sqlite *sqlite, struct pawl_why *why)
{
        int fd;

        if (!sqlite->create)
                return why_set(why, PAWL_NOT_FOUND, "there is no database %s, and create=no", sqlite->path);
        fd = open(sqlite->path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR);
        if (fd < 0 && errno != EEXIST)
                return why_system(why, errno, "cannot create the database %s", sqlite->path);
        if (fd >= 0)
                close(fd);
        return PAWL_OK;
}

static int check_file(const struct sqlite *sqlite, struct pawl_why *why)
{
        struct stat info;

        if (lstat(sqlite->path, &info) != 0)
                return errno == ENOENT ? make_file(sqlite, why)
                                       : why_system(why, errno, "cannot look at the database %s", sqlite->path);
        if (!S_ISREG(info.st_mode))
                return why_set(why, PAWL_INVALID, "the database %s is not a regular file", sqlite->path);
        return PAWL_OK;
}

int sqlite_connect(struct sqlite *sqlite, struct pawl_why *why)
{
        int code = check_file(sqlite, why);

        if (code != PAWL_OK)
                return code;
        code = sqlite3_open_v2(sqlite->path, &sqlite->db,
                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_NOFOLLOW, NULL);
        if (code != SQLITE_OK) {
                code = sqlite_fail(sqlite, code, why);
                sqlite_disconnect(sqlite);
                return code;
        }
        sqlite3_extended_result_codes(sqlite->db, 1);
        sqlite3_busy_handler(sqlite->db, sqlite_wait_for_lock, sqlite);
        /* A schema from elsewhere may not call functions of ours, nor write past the tables. */
        sqlite3_db_config(sqlite->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        sqlite3_db_config(sqlite->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
        return PAWL_OK;
}

static int check_moved(struct sqlite *sqlite, struct pawl_why *why)
{
        int moved = 0;

        if (sqlite3_file_control(sqlite->db, "main", SQLITE_FCNTL_HAS_MOVED, &moved) != SQLITE_OK || !moved)
                return PAWL_OK;
        return why_set(why, PAWL_SYSTEM,
                       "the database %s was removed or replaced while it was in use: open the guard again",
                       sqlite->path);
}

int sqlite_set_up(struct sqlite *sqlite, struct pawl_why *why)
{
        int code = sqlite->db ? check_moved(sqlite, why) : sqlite_connect(sqlite, why);

        if (code != PAWL_OK || sqlite->set_up)
                return code;
        /* EXTRA is FULL, and the directory is synced after a journal was removed: without that a power failure may bring a
         * journal back, and with it the mark that was. Nothing temporary goes to files. */
        code = run_text(sqlite, "PRAGMA synchronous = EXTRA; PRAGMA temp_store = MEMORY", why);
        sqlite->set_up = code == PAWL_OK;
        return code;
}

void sqlite_disconnect(struct sqlite *sqlite)
{
        for (int i = 0; i < QUERIES; i++) {
                sqlite3_finalize(sqlite->statements[i]);
                sqlite->statements[i] = NULL;
        }
        sqlite3_close(sqlite->db);
        sqlite->db = NULL;
        sqlite->set_up = false;
}

/* ---- transactions ------------------------------------------------------------------------------------------------ */

int sqlite_look_for_tables(struct sqlite *sqlite, bool *found, bool *whole, struct pawl_why *why)
{
        sqlite3_stmt *statement;
        int code = sqlite_prepare(sqlite, QUERY_OBJECTS, &statement, why);
        int count, later;

        if (code != PAWL_OK)
                return code;
        code = sqlite3_step(statement);
        if (code != SQLITE_ROW) {
                code = sqlite_fail(sqlite, code, why);
                sqlite3_reset(statement);
                return code;
        }
        count = sqlite3_column_int(statement, 0);
        later = sqlite3_column_int(statement, 1);
        code = sqlite_finish(sqlite, statement, why);
        if (code == PAWL_OK && count != 0 && count != OUR_OBJECTS)
                return why_set(
                        why, PAWL_CORRUPT,
                        "the database %s has %d of the %d tables, views and triggers that pawl makes: which tokens "
                        "it admitted is unknown; restore it",
                        sqlite->path, count, OUR_OBJECTS);
        *found = count == OUR_OBJECTS;
        if (whole)
                *whole = *found && later == OUR_LATER_OBJECTS;
        return code;
}

/* Within the transaction: another process may be at it too. */
static int make_tables(struct sqlite *sqlite, struct pawl_why *why)
{
        bool found, whole = false;
        int code = sqlite_look_for_tables(sqlite, &found, &whole, why);

        if (code == PAWL_OK && !whole)
                code = run_text(sqlite, schema_text, why);
        return code;
}

int sqlite_begin(struct sqlite *sqlite, struct pawl_why *why)
{
        int code = run(sqlite, QUERY_BEGIN, why);

        if (code != PAWL_OK || sqlite->ready)
                return code;
        code = make_tables(sqlite, why);
        if (code != PAWL_OK)
                return sqlite_end(sqlite, code, why);
        return PAWL_OK;
}

/* Some errors have rolled back already. One that cannot be, for lack of memory say, goes with its connection. */
static void roll_back(struct sqlite *sqlite)
{
        if (!sqlite3_get_autocommit(sqlite->db))
                (void)run(sqlite, QUERY_ROLLBACK, NULL);
        if (!sqlite3_get_autocommit(sqlite->db))
                sqlite_disconnect(sqlite);
}

int sqlite_end(struct sqlite *sqlite, int code, struct pawl_why *why)
{
        if (code == PAWL_OK)
                code = run(sqlite, QUERY_COMMIT, why);
        if (code == PAWL_OK)
                sqlite->ready = true;
        else
                roll_back(sqlite);
        return code;
}
