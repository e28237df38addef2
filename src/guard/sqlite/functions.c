/* functions.c - functions for SQL, as an extension that any SQLite loads:
 *
 *     SELECT pawl_admit('orders/42', 34);   the token, or an error; inside the writer's own transaction
 *     SELECT pawl_mark('orders/42');        the greatest token admitted, NULL if none; admits nothing
 *     SELECT pawl_swap('prices', 7);        8, or an error if the version is not 7; inside the writer's own transaction
 *     SELECT pawl_version('prices');        the version, 0 if there was never one; changes nothing
 *
 * They do what the views pawl_admit and pawl_swap do (schema.sql), in the database that is main, with better sentences. It
 * uses nothing of pawl. */
#include <stdbool.h>
#include <stddef.h>

#include <sqlite3ext.h>

/* The loader's table of functions: SQLite's own way, and the one thing here that is written once. */
SQLITE_EXTENSION_INIT1

/* One more than a resource of 255 letters and a sentence need. */
enum { SENTENCE_MAX = 1400 };

static void refuse(sqlite3_context *context, const char *sentence)
{
        sqlite3_result_error(context, sentence, -1);
        sqlite3_result_error_code(context, SQLITE_CONSTRAINT); /* as the trigger's: one kind of error to catch */
}

/* What SQLite says of the last statement. */
static void pass_on(sqlite3_context *context, sqlite3 *db, int code)
{
        char sentence[SENTENCE_MAX];

        sqlite3_snprintf(sizeof(sentence), sentence, "pawl: %s", sqlite3_errmsg(db));
        sqlite3_result_error(context, sentence, -1);
        sqlite3_result_error_code(context, code);
}

/* One number that a statement finds for the resource; 0: none. */
static int look(sqlite3 *db, const char *sql, sqlite3_value *resource, sqlite3_int64 *number)
{
        sqlite3_stmt *statement = NULL;
        int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

        *number = 0;
        if (code != SQLITE_OK)
                return code;
        if (sqlite3_bind_parameter_count(statement) > 0)
                code = sqlite3_bind_value(statement, 1, resource);
        if (code == SQLITE_OK)
                code = sqlite3_step(statement);
        if (code == SQLITE_ROW)
                *number = sqlite3_column_int64(statement, 0);
        code = sqlite3_finalize(statement);
        return code;
}

static int look_mark(sqlite3 *db, sqlite3_value *resource, sqlite3_int64 *token)
{
        return look(db, "SELECT token FROM main.pawl_mark WHERE resource = ?1", resource, token);
}

/* The trigger has refused: says by whose token. */
static void explain(sqlite3_context *context, sqlite3 *db, sqlite3_value **values)
{
        const char *resource = (const char *)sqlite3_value_text(values[0]);
        sqlite3_int64 token = sqlite3_value_int64(values[1]);
        bool is_token = sqlite3_value_type(values[1]) == SQLITE_INTEGER && token > 0;
        sqlite3_int64 mark = 0;
        sqlite3_int64 floor = 0;
        char trigger[SENTENCE_MAX];
        char sentence[SENTENCE_MAX];

        sqlite3_snprintf(sizeof(trigger), trigger, "%s", sqlite3_errmsg(db));
        if (is_token)
                look_mark(db, values[0], &mark);
        if (is_token && mark == 0)
                look(db, "SELECT token FROM main.pawl_floor", NULL, &floor);
        if (is_token && token < mark)
                sqlite3_snprintf(
                        sizeof(sentence), sentence,
                        "pawl: token %lld is too old for \"%s\": %lld has been admitted; another one has had the "
                        "lock since",
                        token, resource ? resource : "", mark);
        else if (is_token && token < floor)
                sqlite3_snprintf(
                        sizeof(sentence), sentence,
                        "pawl: token %lld is too old for \"%s\": no mark is known, and the guard was pruned up to "
                        "%lld",
                        token, resource ? resource : "", floor);
        else
                sqlite3_snprintf(sizeof(sentence), sentence, "%s", trigger);
        refuse(context, sentence);
}

/* Runs one of the views' INSERTs with both values. */
static int insert(sqlite3 *db, const char *sql, sqlite3_value **values)
{
        sqlite3_stmt *statement = NULL;
        int code = sqlite3_prepare_v2(db, sql, -1, &statement, NULL);

        if (code == SQLITE_OK)
                code = sqlite3_bind_value(statement, 1, values[0]);
        if (code == SQLITE_OK)
                code = sqlite3_bind_value(statement, 2, values[1]);
        if (code == SQLITE_OK)
                code = sqlite3_step(statement);
        sqlite3_finalize(statement); /* the sentence stays with the database */
        return code;
}

static void admit(sqlite3_context *context, int count, sqlite3_value **values)
{
        sqlite3 *db = sqlite3_context_db_handle(context);
        int code = insert(db, "INSERT INTO main.pawl_admit(resource, token) VALUES (?1, ?2)", values);

        (void)count;
        if (code == SQLITE_DONE)
                sqlite3_result_value(context, values[1]);
        else if ((code & 0xff) == SQLITE_CONSTRAINT)
                explain(context, db, values);
        else
                pass_on(context, db, code);
}

/* The mark, or the floor where there is none. */
static int look_version(sqlite3 *db, sqlite3_value *resource, sqlite3_int64 *version)
{
        return look(db,
                    "SELECT coalesce((SELECT token FROM main.pawl_mark WHERE resource = ?1), (SELECT token FROM "
                    "main.pawl_floor))",
                    resource, version);
}

/* The trigger has refused: says which version it is. */
static void explain_swap(sqlite3_context *context, sqlite3 *db, sqlite3_value **values)
{
        const char *resource = (const char *)sqlite3_value_text(values[0]);
        sqlite3_int64 expected = sqlite3_value_int64(values[1]);
        sqlite3_int64 version = 0;
        char sentence[SENTENCE_MAX];

        sqlite3_snprintf(sizeof(sentence), sentence, "%s", sqlite3_errmsg(db));
        if (sqlite3_value_type(values[1]) == SQLITE_INTEGER && expected >= 0 && resource &&
            look_version(db, values[0], &version) == SQLITE_OK && version != expected)
                sqlite3_snprintf(sizeof(sentence), sentence,
                                 "pawl: \"%s\" is not at version %lld but at %lld: another one has changed it since",
                                 resource, expected, version);
        refuse(context, sentence);
}

static void swap(sqlite3_context *context, int count, sqlite3_value **values)
{
        sqlite3 *db = sqlite3_context_db_handle(context);
        int code = insert(db, "INSERT INTO main.pawl_swap(resource, version) VALUES (?1, ?2)", values);

        (void)count;
        if (code == SQLITE_DONE)
                sqlite3_result_int64(context, sqlite3_value_int64(values[1]) + 1);
        else if ((code & 0xff) == SQLITE_CONSTRAINT)
                explain_swap(context, db, values);
        else
                pass_on(context, db, code);
}

static bool is_resource(sqlite3_context *context, sqlite3_value *value)
{
        if (sqlite3_value_type(value) == SQLITE_TEXT)
                return true;
        refuse(context, "pawl: a resource is a text of 1 to 255 letters, without control characters");
        return false;
}

static void version(sqlite3_context *context, int count, sqlite3_value **values)
{
        sqlite3 *db = sqlite3_context_db_handle(context);
        sqlite3_int64 number;
        int code;

        (void)count;
        if (!is_resource(context, values[0]))
                return;
        code = look_version(db, values[0], &number);
        if (code == SQLITE_OK)
                sqlite3_result_int64(context, number);
        else
                pass_on(context, db, code);
}

static void mark(sqlite3_context *context, int count, sqlite3_value **values)
{
        sqlite3 *db = sqlite3_context_db_handle(context);
        sqlite3_int64 token;
        int code;

        (void)count;
        if (!is_resource(context, values[0]))
                return;
        code = look_mark(db, values[0], &token);
        if (code != SQLITE_OK)
                pass_on(context, db, code);
        else if (token > 0)
                sqlite3_result_int64(context, token);
        else
                sqlite3_result_null(context);
}

int sqlite3_extension_init(sqlite3 *db, char **error, const sqlite3_api_routines *api);

__attribute__((visibility("default"))) int sqlite3_extension_init(sqlite3 *db, char **error,
                                                                  const sqlite3_api_routines *api)
{
        /* Not in triggers and views: who has not loaded us could no longer write there. Those use the view pawl_admit. */
        const int flags = SQLITE_UTF8 | SQLITE_DIRECTONLY;
        int code;

        (void)error;
        SQLITE_EXTENSION_INIT2(api)
        code = sqlite3_create_function_v2(db, "pawl_admit", 2, flags, NULL, admit, NULL, NULL, NULL);
        if (code == SQLITE_OK)
                code = sqlite3_create_function_v2(db, "pawl_mark", 1, flags, NULL, mark, NULL, NULL, NULL);
        if (code == SQLITE_OK)
                code = sqlite3_create_function_v2(db, "pawl_swap", 2, flags, NULL, swap, NULL, NULL, NULL);
        if (code == SQLITE_OK)
                code = sqlite3_create_function_v2(db, "pawl_version", 1, flags, NULL, version, NULL, NULL, NULL);
        return code;
}
