/* sqlite.c - a guard in an SQLite database: the marks are rows beside the data they guard, and every call is one
 * transaction. schema.sql says what lies there, and what programs in SQL do; sqlite_base.c has the connection. */
#include "sqlite.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../base/name.h"

enum {
        DEFAULT_WAIT_MS = 10000,
        LISTED_AT_ONCE = 128,
        LISTED_MAX = 4 * PAWL_NAME_MAX /* bytes of a name: SQL counts letters */
};

/* ---- one visit -------------------------------------------------------------------------------------------------- */

static int lock(struct sqlite *sqlite, struct pawl_why *why)
{
        int code = sqlite_take_turn(sqlite, why);

        if (code != PAWL_OK)
                return code;
        code = sqlite_set_up(sqlite, why);
        if (code != PAWL_OK)
                sqlite_leave_turn(sqlite);
        return code;
}

static int read_look(struct sqlite *sqlite, sqlite3_stmt *statement, const struct visit *visit, uint64_t *mark,
                     uint64_t *floor)
{
        sqlite3_int64 found = sqlite3_column_int64(statement, 0);
        sqlite3_int64 least = sqlite3_column_int64(statement, 1);
        bool known = sqlite3_column_type(statement, 0) != SQLITE_NULL;

        if (sqlite3_column_int(statement, 2) != SCHEMA_VERSION)
                return why_set(visit->why, PAWL_OTHER_VERSION, "the marks in %s were made by another version of pawl",
                               sqlite->path);
        /* The tables' constraints do not let such rows in; somebody has got round them. */
        if ((known && (sqlite3_column_type(statement, 0) != SQLITE_INTEGER || found <= 0)) ||
            sqlite3_column_type(statement, 1) != SQLITE_INTEGER || least < 0)
                return why_set(visit->why, PAWL_CORRUPT,
                               "the mark of \"%s\" in %s is not a token: which it admitted is unknown", visit->resource,
                               sqlite->path);
        *mark = (uint64_t)found;
        *floor = (uint64_t)least;
        return PAWL_OK;
}

static int no_floor(const struct sqlite *sqlite, const struct visit *visit)
{
        return why_set(visit->why, PAWL_CORRUPT,
                       "the floor of the guard in %s is missing: which tokens it refuses is unknown", sqlite->path);
}

/* The greatest token, 0 if none; and the floor. */
static int look(struct sqlite *sqlite, const struct visit *visit, uint64_t *mark, uint64_t *floor)
{
        sqlite3_stmt *statement;
        int code = sqlite_prepare(sqlite, QUERY_LOOK, &statement, visit->why);

        if (code != PAWL_OK)
                return code;
        sqlite3_bind_text(statement, 1, visit->resource, (int)visit->length, SQLITE_STATIC);
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW)
                code = read_look(sqlite, statement, visit, mark, floor);
        else if (code == SQLITE_DONE)
                code = no_floor(sqlite, visit);
        else
                code = sqlite_fail(sqlite, code, visit->why);
        sqlite3_reset(statement);
        return code;
}

static int leave(struct sqlite *sqlite, int code, struct pawl_why *why)
{
        code = sqlite_end(sqlite, code, why);
        sqlite_leave_turn(sqlite);
        return code;
}

/* Begins a transaction, and looks. With PAWL_OK the turn is ours. */
static int begin(struct sqlite *sqlite, const struct visit *visit, uint64_t *mark, uint64_t *floor)
{
        int code = lock(sqlite, visit->why);

        if (code != PAWL_OK)
                return code;
        code = sqlite_begin(sqlite, visit->why);
        if (code != PAWL_OK) {
                sqlite_leave_turn(sqlite);
                return code;
        }
        code = look(sqlite, visit, mark, floor);
        return code == PAWL_OK ? PAWL_OK : leave(sqlite, code, visit->why);
}

/* ... and refuses a stale token. */
static int enter(struct sqlite *sqlite, const struct visit *visit, uint64_t *mark)
{
        uint64_t floor;
        int code = begin(sqlite, visit, mark, &floor);

        if (code != PAWL_OK)
                return code;
        if (visit->token < *mark)
                code = guard_stale(visit, *mark);
        else if (*mark == 0 && visit->token < floor)
                code = guard_below_floor(visit, floor);
        return code == PAWL_OK ? PAWL_OK : leave(sqlite, code, visit->why);
}

/* A statement about the resource alone. */
static int run_on(struct sqlite *sqlite, enum query query, const struct visit *visit)
{
        sqlite3_stmt *statement;
        int code = sqlite_prepare(sqlite, query, &statement, visit->why);

        if (code != PAWL_OK)
                return code;
        sqlite3_bind_text(statement, 1, visit->resource, (int)visit->length, SQLITE_STATIC);
        return sqlite_finish(sqlite, statement, visit->why);
}

/* Also if it is the same: whoever wrote it may not have waited for the disk, and with our commit it is there. SQLite does
 * not write a row over itself, and then commits nothing: so it is removed first. */
static int raise_mark(struct sqlite *sqlite, const struct visit *visit, uint64_t mark)
{
        sqlite3_stmt *statement;
        int code = visit->token == mark ? run_on(sqlite, QUERY_FORGET, visit) : PAWL_OK;

        if (code == PAWL_OK)
                code = sqlite_prepare(sqlite, QUERY_RAISE, &statement, visit->why);
        if (code != PAWL_OK)
                return code;
        sqlite3_bind_text(statement, 1, visit->resource, (int)visit->length, SQLITE_STATIC);
        sqlite3_bind_int64(statement, 2, (sqlite3_int64)visit->token);
        return sqlite_finish(sqlite, statement, visit->why);
}

/* ---- the operations --------------------------------------------------------------------------------------------- */

static int sqlite_admit(pawl_guard *guard, const struct visit *visit)
{
        uint64_t mark;
        int code = enter(sqlite_of(guard), visit, &mark);

        if (code != PAWL_OK)
                return code;
        return leave(sqlite_of(guard), raise_mark(sqlite_of(guard), visit, mark), visit->why);
}

static int write_data(struct sqlite *sqlite, const struct visit *visit, const void *data, size_t size)
{
        sqlite3_stmt *statement;
        int code = sqlite_prepare(sqlite, QUERY_PUT, &statement, visit->why);

        if (code != PAWL_OK)
                return code;
        sqlite3_bind_text(statement, 1, visit->resource, (int)visit->length, SQLITE_STATIC);
        if (size > 0) /* NULL would be no data at all */
                code = sqlite3_bind_blob64(statement, 2, data, size, SQLITE_STATIC);
        else
                code = sqlite3_bind_zeroblob(statement, 2, 0);
        return code == SQLITE_OK ? sqlite_finish(sqlite, statement, visit->why) : sqlite_fail(sqlite, code, visit->why);
}

static int sqlite_put(pawl_guard *guard, const struct visit *visit, const void *data, size_t size)
{
        uint64_t mark;
        int code = enter(sqlite_of(guard), visit, &mark);

        if (code != PAWL_OK)
                return code;
        code = raise_mark(sqlite_of(guard), visit, mark);
        if (code == PAWL_OK)
                code = write_data(sqlite_of(guard), visit, data, size);
        return leave(sqlite_of(guard), code, visit->why);
}

static int copy_data(struct sqlite *sqlite, sqlite3_stmt *statement, int column, const struct visit *visit,
                     struct pawl_guard_data *data)
{
        const void *blob = sqlite3_column_blob(statement, column);
        size_t size = (size_t)sqlite3_column_bytes(statement, column);
        char *bytes;

        if (!blob && sqlite3_errcode(sqlite->db) == SQLITE_NOMEM)
                return sqlite_fail(sqlite, SQLITE_NOMEM, visit->why);
        bytes = malloc(size + 1);
        if (!bytes)
                return why_set(visit->why, PAWL_NO_MEMORY, "no memory for the data");
        if (size > 0)
                memcpy(bytes, blob, size);
        bytes[size] = 0;
        data->bytes = bytes;
        data->size = size;
        return PAWL_OK;
}

/* PAWL_NOT_FOUND if there are none. */
static int read_data(struct sqlite *sqlite, const struct visit *visit, struct pawl_guard_data *data)
{
        sqlite3_stmt *statement;
        int code = sqlite_prepare(sqlite, QUERY_GET, &statement, visit->why);

        if (code != PAWL_OK)
                return code;
        sqlite3_bind_text(statement, 1, visit->resource, (int)visit->length, SQLITE_STATIC);
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW)
                code = copy_data(sqlite, statement, 0, visit, data);
        else if (code == SQLITE_DONE)
                code = guard_no_data(visit);
        else
                code = sqlite_fail(sqlite, code, visit->why);
        sqlite3_reset(statement);
        return code;
}

static int sqlite_get(pawl_guard *guard, const struct visit *visit, struct pawl_guard_data *data)
{
        struct pawl_guard_data found = {0};
        int code = enter(sqlite_of(guard), visit, &found.token);
        int read;

        if (code != PAWL_OK)
                return code;
        code = raise_mark(sqlite_of(guard), visit, found.token);
        read = code == PAWL_OK ? read_data(sqlite_of(guard), visit, &found) : code;
        /* Without data the token is admitted all the same. */
        code = leave(sqlite_of(guard), read == PAWL_NOT_FOUND ? PAWL_OK : read, visit->why);
        if (code == PAWL_OK && read == PAWL_OK)
                *data = found;
        else
                free(found.bytes);
        return code == PAWL_OK ? read : code;
}

static int sqlite_forget(pawl_guard *guard, const struct visit *visit)
{
        struct sqlite *sqlite = sqlite_of(guard);
        uint64_t mark;
        int code = enter(sqlite, visit, &mark);

        if (code != PAWL_OK)
                return code;
        if (mark > 0)
                code = run_on(sqlite, QUERY_FORGET, visit);
        else
                code = why_set(visit->why, PAWL_NOT_FOUND, "no token is known for \"%s\"", visit->resource);
        if (code == PAWL_OK)
                code = run_on(sqlite, QUERY_FORGET_SWAP, visit);
        return leave(sqlite, code, visit->why);
}

/* ---- versions --------------------------------------------------------------------------------------------------- */

/* The mark, the floor and the data, in one statement: it sees one moment. */
static int read_version(struct sqlite *sqlite, const struct visit *visit, struct pawl_guard_data *data)
{
        sqlite3_stmt *statement;
        uint64_t floor = 0;
        int code = sqlite_prepare(sqlite, QUERY_READ, &statement, visit->why);

        if (code != PAWL_OK)
                return code;
        sqlite3_bind_text(statement, 1, visit->resource, (int)visit->length, SQLITE_STATIC);
        code = sqlite3_step(statement);
        if (code == SQLITE_ROW) {
                code = read_look(sqlite, statement, visit, &data->token, &floor);
                data->token = data->token > 0 ? data->token : floor;
                if (code == PAWL_OK && sqlite3_column_type(statement, 3) == SQLITE_NULL)
                        code = guard_no_data(visit);
                else if (code == PAWL_OK)
                        code = copy_data(sqlite, statement, 3, visit, data);
        } else
                code = code == SQLITE_DONE ? no_floor(sqlite, visit) : sqlite_fail(sqlite, code, visit->why);
        sqlite3_reset(statement);
        return code;
}

static int sqlite_look(pawl_guard *guard, const struct visit *visit, struct pawl_guard_data *data)
{
        struct sqlite *sqlite = sqlite_of(guard);
        bool found = false;
        int code = lock(sqlite, visit->why);

        if (code != PAWL_OK)
                return code;
        code = sqlite_look_for_tables(sqlite, &found, NULL, visit->why); /* none are made to be looked at */
        if (code == PAWL_OK)
                code = found ? read_version(sqlite, visit, data) : guard_no_data(visit);
        sqlite_leave_turn(sqlite);
        return code;
}

/* A statement about the resource, the version that the visit makes, and the id of the swap. */
static int bind_swap(struct sqlite *sqlite, enum query query, const struct visit *visit, const struct guard_swap *swap,
                     sqlite3_stmt **statement)
{
        int code = sqlite_prepare(sqlite, query, statement, visit->why);

        if (code != PAWL_OK)
                return code;
        sqlite3_bind_text(*statement, 1, visit->resource, (int)visit->length, SQLITE_STATIC);
        sqlite3_bind_int64(*statement, 2, (sqlite3_int64)visit->token);
        if (query == QUERY_NAME_SWAP)
                sqlite3_bind_int64(*statement, 3, (sqlite3_int64)swap->id);
        return PAWL_OK;
}

/* Has this swap made the version that is there? */
static int find_swap(struct sqlite *sqlite, const struct visit *visit, const struct guard_swap *swap, bool *made)
{
        sqlite3_stmt *statement;
        int code = bind_swap(sqlite, QUERY_SWAPPED, visit, swap, &statement);

        if (code != PAWL_OK)
                return code;
        code = sqlite3_step(statement);
        *made = code == SQLITE_ROW && (uint64_t)sqlite3_column_int64(statement, 0) == swap->id;
        code = code == SQLITE_ROW || code == SQLITE_DONE ? PAWL_OK : sqlite_fail(sqlite, code, visit->why);
        sqlite3_reset(statement);
        return code;
}

static int name_swap(struct sqlite *sqlite, const struct visit *visit, const struct guard_swap *swap)
{
        sqlite3_stmt *statement;
        int code = bind_swap(sqlite, QUERY_NAME_SWAP, visit, swap, &statement);

        return code == PAWL_OK ? sqlite_finish(sqlite, statement, visit->why) : code;
}

static int make_version(struct sqlite *sqlite, const struct visit *visit, const struct guard_swap *swap, uint64_t mark)
{
        int code = raise_mark(sqlite, visit, mark);

        if (code == PAWL_OK)
                code = write_data(sqlite, visit, swap->data, swap->size);
        return code == PAWL_OK ? name_swap(sqlite, visit, swap) : code;
}

static int sqlite_swap(pawl_guard *guard, const struct visit *visit, const struct guard_swap *swap)
{
        struct sqlite *sqlite = sqlite_of(guard);
        uint64_t mark, floor;
        bool made = false;
        int code = begin(sqlite, visit, &mark, &floor);

        if (code != PAWL_OK)
                return code;
        if (mark == visit->token)
                code = find_swap(sqlite, visit, swap, &made);
        if (mark == 0)
                mark = floor;
        if (code == PAWL_OK && mark == guard_expected(visit))
                code = make_version(sqlite, visit, swap, mark);
        else if (code == PAWL_OK && !made)
                code = guard_moved(visit, swap, mark);
        return leave(sqlite, code, visit->why);
}

/* ---- all resources ---------------------------------------------------------------------------------------------- */

/* A page of a list. Callers get it when nothing in the database is locked any more: they may take their time. */
struct page {
        int count;
        char last[LISTED_MAX + 1]; /* of the page before */
        struct line {
                sqlite3_int64 token;
                char resource[LISTED_MAX + 1];
        } lines[LISTED_AT_ONCE];
};

static int read_page(struct sqlite *sqlite, struct page *page, struct pawl_why *why)
{
        sqlite3_stmt *statement;
        int code = sqlite_prepare(sqlite, QUERY_LIST, &statement, why);

        if (code != PAWL_OK)
                return code;
        sqlite3_bind_text(statement, 1, page->last, -1, SQLITE_STATIC);
        sqlite3_bind_int(statement, 2, LISTED_MAX);
        sqlite3_bind_int(statement, 3, LISTED_AT_ONCE);
        page->count = 0;
        while ((code = sqlite3_step(statement)) == SQLITE_ROW && page->count < LISTED_AT_ONCE) {
                struct line *line = &page->lines[page->count++];
                const unsigned char *text = sqlite3_column_text(statement, 0);

                if (!text) {
                        code = SQLITE_NOMEM;
                        break;
                }
                snprintf(line->resource, sizeof(line->resource), "%s", (const char *)text);
                line->token = sqlite3_column_int64(statement, 1);
        }
        code = code == SQLITE_DONE ? PAWL_OK : sqlite_fail(sqlite, code, why);
        sqlite3_reset(statement);
        if (page->count > 0)
                memcpy(page->last, page->lines[page->count - 1].resource, sizeof(page->last));
        return code;
}

static int next_page(struct sqlite *sqlite, struct page *page, struct pawl_why *why)
{
        bool found = false;
        int code = lock(sqlite, why);

        if (code != PAWL_OK)
                return code;
        page->count = 0;
        code = sqlite_look_for_tables(sqlite, &found, NULL, why); /* none are made to be listed */
        if (code == PAWL_OK && found)
                code = read_page(sqlite, page, why);
        sqlite_leave_turn(sqlite);
        return code;
}

/* Who writes past the view may have names that are none: they are told encoded, so that nobody's terminal obeys them. */
static int tell_line(const struct line *line, pawl_guard_entry_fn *fn, void *arg)
{
        struct pawl_guard_entry entry = {.resource = line->resource, .code = PAWL_OK};
        char encoded[NAME_ENCODED_MAX + 1];
        size_t length;

        if (name_check(line->resource, &length, NULL) != PAWL_OK) {
                name_encode(line->resource, strnlen(line->resource, PAWL_NAME_MAX), NULL, encoded);
                entry.resource = encoded;
                entry.code = PAWL_INVALID;
        } else if (line->token > 0)
                entry.token = (uint64_t)line->token;
        else
                entry.code = PAWL_CORRUPT;
        return fn(&entry, arg);
}

static int tell_page(const struct page *page, const char *prefix, pawl_guard_entry_fn *fn, void *arg)
{
        int ended = 0;

        for (int i = 0; i < page->count && !ended; i++) {
                if (strncmp(page->lines[i].resource, prefix, strlen(prefix)) == 0)
                        ended = tell_line(&page->lines[i], fn, arg);
        }
        return ended;
}

static int sqlite_list(pawl_guard *guard, const char *prefix, pawl_guard_entry_fn *fn, void *arg, struct pawl_why *why)
{
        struct page *page = calloc(1, sizeof(*page));
        int code;

        if (!page)
                return why_set(why, PAWL_NO_MEMORY, "no memory for the list");
        do
                code = next_page(sqlite_of(guard), page, why);
        while (code == PAWL_OK && page->count > 0 && tell_page(page, prefix, fn, arg) == 0 &&
               page->count == LISTED_AT_ONCE);
        free(page);
        return code;
}

static int run_with_floor(struct sqlite *sqlite, enum query query, uint64_t floor, struct pawl_why *why)
{
        sqlite3_stmt *statement;
        int code = sqlite_prepare(sqlite, query, &statement, why);

        if (code != PAWL_OK)
                return code;
        sqlite3_bind_int64(statement, 1, (sqlite3_int64)floor);
        return sqlite_finish(sqlite, statement, why);
}

/* Those of versions that are gone. */
static int forget_swaps(struct sqlite *sqlite, struct pawl_why *why)
{
        sqlite3_stmt *statement;
        int code = sqlite_prepare(sqlite, QUERY_PRUNE_SWAPS, &statement, why);

        return code == PAWL_OK ? sqlite_finish(sqlite, statement, why) : code;
}

static int sqlite_prune(pawl_guard *guard, uint64_t floor, struct pawl_why *why, uint64_t *pruned)
{
        struct sqlite *sqlite = sqlite_of(guard);
        const struct visit visit = {"the floor", strlen("the floor"), floor, why};
        uint64_t unused, known;
        int code = begin(sqlite, &visit, &unused, &known); /* is it there, and of our version? */

        if (code != PAWL_OK)
                return code;
        code = run_with_floor(sqlite, QUERY_FLOOR, floor, why);
        if (code == PAWL_OK)
                code = run_with_floor(sqlite, QUERY_PRUNE, floor, why);
        if (code == PAWL_OK)
                *pruned = (uint64_t)sqlite3_changes(sqlite->db);
        if (code == PAWL_OK)
                code = forget_swaps(sqlite, why);
        return leave(sqlite, code, why);
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

/* The directory without symbolic links; the last name is looked at when the file is opened, and none is followed there. */
static int resolve(struct sqlite *sqlite, const char *path, struct pawl_why *why)
{
        const char *slash = strrchr(path, '/');
        const char *name = slash ? slash + 1 : path;
        char directory[PATH_MAX];
        char resolved[PATH_MAX];
        int length = slash ? (int)(slash - path) : 0;

        if (!*name || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
                return why_set(why, PAWL_INVALID, "a sqlite: URL needs a file: write sqlite:/DIRECTORY/FILE");
        if (snprintf(directory, sizeof(directory), "%.*s%s", length, path, slash ? "/" : ".") >= (int)sizeof(directory))
                return why_system(why, ENAMETOOLONG, "cannot open the database %.64s...", path);
        if (!realpath(directory, resolved) && errno == ENOENT)
                return why_set(why, PAWL_NOT_FOUND, "there is no directory %s: make it first", directory);
        if (!realpath(directory, resolved))
                return why_system(why, errno, "cannot open the database's directory %s", directory);
        if (asprintf(&sqlite->path, "%s/%s", strcmp(resolved, "/") == 0 ? "" : resolved, name) < 0) {
                sqlite->path = NULL;
                return why_set(why, PAWL_NO_MEMORY, "no memory for the guard");
        }
        return PAWL_OK;
}

static int sqlite_open(pawl_guard *guard, const struct url *url, const struct pawl_guard_options *options)
{
        static const char *const known[] = {"create", NULL};
        struct sqlite *sqlite = sqlite_of(guard);
        int code = url_only(url, known, options->why);

        sqlite->create = true;
        if (code == PAWL_OK)
                code = url_flag(url, "create", &sqlite->create, options->why);
        if (code != PAWL_OK)
                return code;
        if (url->host_count > 0)
                return why_set(options->why, PAWL_INVALID,
                               "a sqlite: URL has no host: write sqlite:/DIRECTORY/FILE with one slash");
        if (!sqlite3_threadsafe())
                return why_set(options->why, PAWL_UNSUPPORTED, "this SQLite was built without support for threads");
        code = resolve(sqlite, url->path, options->why);
        if (code != PAWL_OK)
                return code;
        code = sqlite_make_turns(sqlite, options->why);
        if (code != PAWL_OK)
                return code;
        sqlite->wait_ms = options->wait_ms ? options->wait_ms : DEFAULT_WAIT_MS;
        return sqlite_connect(sqlite, options->why); /* which waits for nobody */
}

static void sqlite_close(pawl_guard *guard)
{
        struct sqlite *sqlite = sqlite_of(guard);

        /* A child of fork leaves its parent's connection alone: closing it would clear away the parent's journal. Nor
         * does it end the condition, for which threads of the parent may have waited: that would wait for them. */
        if (guard->pid == getpid()) {
                sqlite_disconnect(sqlite);
                sqlite_end_turns(sqlite);
        }
        free(sqlite->path);
}

const struct guard_ops sqlite_guard = {
        .size = sizeof(struct sqlite),
        .open = sqlite_open,
        .close = sqlite_close,
        .admit = sqlite_admit,
        .put = sqlite_put,
        .get = sqlite_get,
        .forget = sqlite_forget,
        .list = sqlite_list,
        .prune = sqlite_prune,
        .examine = sqlite_examine,
        .look = sqlite_look,
        .swap = sqlite_swap,
};
