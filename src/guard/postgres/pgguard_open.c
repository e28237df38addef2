/* pgguard_open.c - the calls of the guard: each is one function of guard.sql, in a transaction of its own. */
#include <stdlib.h>
#include <string.h>

#include "../../base/duration.h"
#include "../../base/utf8.h"
#include "guard/postgres/guard_sql.h"
#include "pgguard.h"

/* A row may have 1 GB, and the server holds it more than once. */
enum { PAGE = 1000, SCHEMA_MAX = 63, DATA_MAX = 1 << 29 };

/* A byte 1 is the schema. */
static const char *const texts[PGGUARD_STATEMENTS] = {
        [PGGUARD_ADMIT] = "SELECT \1.admit($1, $2)",
        [PGGUARD_PUT] = "SELECT \1.put($1, $2, $3)",
        [PGGUARD_GET] = "SELECT before, data FROM \1.get($1, $2)",
        [PGGUARD_FORGET] = "SELECT \1.forget($1, $2)::integer::bigint",
        [PGGUARD_LIST] = "SELECT resource, token FROM \1.guard_list($1, $2, $3::integer)",
        [PGGUARD_PRUNE] = "SELECT \1.prune($1)",
        [PGGUARD_LOOK] = "SELECT version, data FROM \1.look($1)",
        [PGGUARD_SWAP] = "SELECT \1.swap_once($1, $2, $3, $4)",
        /* Read, not run, until its owner is known. */
        [PGGUARD_IS_THERE] =
                "SELECT (SELECT substring(p.prosrc from '^SELECT ([0-9]{1,9})$')::bigint FROM pg_proc AS p "
                "JOIN pg_namespace AS n ON n.oid = p.pronamespace WHERE n.nspname = $1 AND "
                "p.proname = 'guard_version' AND p.pronargs = 0), " GUARD_TRUST,
        [PGGUARD_SETTINGS] = "SELECT pg_is_in_recovery()::text, current_setting('server_version'), "
                             "current_setting('server_version_num'), current_setting('fsync'), "
                             "current_setting('full_page_writes'), current_setting('synchronous_commit'), "
                             "current_setting('synchronous_standby_names'), current_setting('transaction_read_only'), "
                             "(SELECT count(*) FROM pg_stat_replication)::text, current_user::text, "
                             "current_setting('is_superuser')",
        /* In the order of guard.sql; what may be missing is told by name. */
        [PGGUARD_RIGHTS] = "SELECT coalesce(string_agg(f.name, ', '), '') FROM (VALUES ('admit', 'text, bigint'), "
                           "('put', 'text, bigint, bytea'), ('get', 'text, bigint'), ('forget', 'text, bigint'), "
                           "('prune', 'bigint'), ('guard_list', 'text, text, integer'), ('look', 'text'), "
                           "('swap_once', 'text, bigint, bytea, bigint')) AS f (name, arguments) WHERE NOT "
                           "has_function_privilege(to_regprocedure(format('%I.%I(%s)', $1, f.name, f.arguments)), "
                           "'EXECUTE')", /* NULL: an older pawl made the functions, without that one */
};

/* ---- opening --------------------------------------------------------------------------------------------------------- */

/* An identifier that needs no thought wherever it stands. */
static int read_schema(struct pgguard *postgres, const struct url *url, struct pawl_why *why)
{
        static const char letters[] = "abcdefghijklmnopqrstuvwxyz_";
        const char *name = url_option(url, "schema");
        size_t length;

        if (!name)
                name = "pawl";
        length = strlen(name);
        if (length == 0 || length > SCHEMA_MAX || !strchr(letters, *name) ||
            strspn(name, "abcdefghijklmnopqrstuvwxyz_0123456789") != length || strncmp(name, "pg_", 3) == 0)
                return why_set(why, PAWL_INVALID,
                               "schema=%.64s: it is 1 to %d small letters, digits and underscores, no digit first, and "
                               "does not begin with pg_",
                               name, SCHEMA_MAX);
        if (strcmp(name, "public") == 0)
                return why_set(
                        why, PAWL_INVALID,
                        "schema=public: a guard needs a schema of its own, where nobody else may make functions");
        postgres->schema = strdup(name);
        name = url_option(url, "owner");
        postgres->owner = strdup(name ? name : "");
        return postgres->schema && postgres->owner ? PAWL_OK : why_set(why, PAWL_NO_MEMORY, "no memory for the guard");
}

static int read_options(struct pgguard *postgres, const struct url *url, const struct pawl_guard_options *options)
{
        /* Of the engine, whose URL may be ours too: nothing here. */
        static const char *const own[] = {"schema", "create", "timeout",     "ttl",   "prefix",
                                          "mode",   "pooler", "connections", "owner", NULL};
        int code;

        postgres->may_create = true;
        code = url_flag(url, "create", &postgres->may_create, options->why);
        if (code == PAWL_OK && url_option(url, "timeout"))
                code = url_timeout(url, &postgres->wait, options->why);
        else
                postgres->wait = 10 * SECOND;
        if (code != PAWL_OK)
                return code;
        if (options->wait_ms)
                postgres->wait = options->wait_ms * MS;
        code = read_schema(postgres, url, options->why);
        return code == PAWL_OK ? pq_params_make(url, own, &postgres->params, options->why) : code;
}

static int make_statements(struct pgguard *postgres, const struct url *url, struct pawl_why *why)
{
        postgres->where = strdup(url->shown);
        for (int i = 0; postgres->where && i < PGGUARD_STATEMENTS; i++) {
                postgres->statements[i] = pgguard_with_schema(texts[i], postgres->schema);
                if (!postgres->statements[i])
                        break;
        }
        if (!postgres->statements[PGGUARD_STATEMENTS - 1])
                return why_set(why, PAWL_NO_MEMORY, "no memory for the guard");
        return PAWL_OK;
}

/* The condition counts by the clock of pgguard_now. */
static int make_locks(struct pgguard *postgres, struct pawl_why *why)
{
        pthread_condattr_t attributes;

        if (pthread_mutex_init(&postgres->mutex, NULL) != 0)
                return why_set(why, PAWL_NO_MEMORY, "no memory for a mutex");
        if (pthread_condattr_init(&attributes) != 0 || pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC) != 0 ||
            pthread_cond_init(&postgres->returned, &attributes) != 0) {
                pthread_mutex_destroy(&postgres->mutex);
                return why_set(why, PAWL_NO_MEMORY, "no memory for a condition");
        }
        pthread_condattr_destroy(&attributes);
        postgres->made = true;
        return PAWL_OK;
}

static int postgres_open(pawl_guard *guard, const struct url *url, const struct pawl_guard_options *options)
{
        struct pgguard *postgres = pgguard_of(guard);
        int code;

        if (!PQisthreadsafe())
                return why_set(options->why, PAWL_UNSUPPORTED, "this libpq was built without threads");
        code = read_options(postgres, url, options);
        if (code == PAWL_OK)
                code = make_statements(postgres, url, options->why);
        return code == PAWL_OK ? make_locks(postgres, options->why) : code;
}

static void postgres_close(pawl_guard *guard)
{
        struct pgguard *postgres = pgguard_of(guard);

        pgguard_close_all(postgres);
        if (postgres->made) {
                pthread_cond_destroy(&postgres->returned);
                pthread_mutex_destroy(&postgres->mutex);
        }
        for (int i = 0; i < PGGUARD_STATEMENTS; i++)
                free(postgres->statements[i]);
        pq_params_free(&postgres->params);
        free(postgres->schema);
        free(postgres->owner);
        free(postgres->where);
}

/* ---- calls ----------------------------------------------------------------------------------------------------------- */

static int too_large(const struct visit *visit, size_t size)
{
        return why_set(visit->why, PAWL_FULL, "%zu bytes are more than PostgreSQL keeps for a resource: 512 MB", size);
}

static struct pgguard_call call_of(enum pgguard_statement statement, const struct visit *visit, uint64_t *room)
{
        struct pgguard_call call = {
                .statement = statement,
                .repeatable = true,
                .resource = visit->resource,
                .token = visit->token,
                .why = visit->why,
        };

        pgguard_add_text(&call, visit->resource);
        pgguard_add_number(&call, visit->token, room);
        return call;
}

static int postgres_admit(pawl_guard *guard, const struct visit *visit)
{
        uint64_t token;
        struct pgguard_call call = call_of(PGGUARD_ADMIT, visit, &token);
        int code = pgguard_run(pgguard_of(guard), &call);

        PQclear(call.result);
        return code;
}

static int postgres_put(pawl_guard *guard, const struct visit *visit, const void *data, size_t size)
{
        uint64_t token;
        struct pgguard_call call = call_of(PGGUARD_PUT, visit, &token);
        int code;

        if (size > DATA_MAX)
                return too_large(visit, size);
        call.changes = true;
        pgguard_add_bytes(&call, data, size);
        code = pgguard_run(pgguard_of(guard), &call);
        PQclear(call.result);
        return code;
}

static int copy_data(const struct visit *visit, const PGresult *result, struct pawl_guard_data *data)
{
        size_t size;
        char *bytes;

        if (!pgguard_has(result, 0, 1))
                return guard_no_data(visit);
        size = (size_t)PQgetlength(result, 0, 1);
        bytes = malloc(size + 1);
        if (!bytes)
                return why_set(visit->why, PAWL_NO_MEMORY, "no memory for %zu bytes of data", size);
        memcpy(bytes, PQgetvalue(result, 0, 1), size);
        bytes[size] = 0;
        data->bytes = bytes;
        data->size = size;
        data->token = pgguard_number(result, 0, 0);
        return PAWL_OK;
}

static int postgres_get(pawl_guard *guard, const struct visit *visit, struct pawl_guard_data *data)
{
        uint64_t token;
        struct pgguard_call call = call_of(PGGUARD_GET, visit, &token);
        int code = pgguard_run(pgguard_of(guard), &call);

        if (code == PAWL_OK)
                code = copy_data(visit, call.result, data);
        PQclear(call.result);
        return code;
}

/* Not repeated: the second would find nothing, as if there had been nothing. */
static int postgres_forget(pawl_guard *guard, const struct visit *visit)
{
        uint64_t token;
        struct pgguard_call call = call_of(PGGUARD_FORGET, visit, &token);
        int code;

        call.changes = true;
        call.repeatable = false;
        code = pgguard_run(pgguard_of(guard), &call);
        if (code == PAWL_OK && pgguard_number(call.result, 0, 0) == 0)
                code = why_set(visit->why, PAWL_NOT_FOUND, "no token is known for \"%s\"", visit->resource);
        PQclear(call.result);
        return code;
}

static int postgres_look(pawl_guard *guard, const struct visit *visit, struct pawl_guard_data *data)
{
        struct pgguard_call call = {
                .statement = PGGUARD_LOOK, .repeatable = true, .resource = visit->resource, .why = visit->why};
        int code;

        pgguard_add_text(&call, visit->resource);
        code = pgguard_run(pgguard_of(guard), &call);
        if (code == PAWL_OK && !pgguard_has(call.result, 0, 0))
                code = why_set(visit->why, PAWL_CORRUPT, "the floor of the guard is missing: its only row was deleted");
        if (code == PAWL_OK) {
                data->token = pgguard_number(call.result, 0, 0);
                code = copy_data(visit, call.result, data);
        }
        PQclear(call.result);
        return code;
}

/* May be repeated: the second finds the version of the first, and the id of both beside it. */
static int postgres_swap(pawl_guard *guard, const struct visit *visit, const struct guard_swap *swap)
{
        uint64_t expected, id;
        struct pgguard_call call = {.statement = PGGUARD_SWAP,
                                    .changes = true,
                                    .repeatable = true,
                                    .swap = swap,
                                    .resource = visit->resource,
                                    .token = visit->token,
                                    .why = visit->why};
        int code;

        if (swap->size > DATA_MAX)
                return too_large(visit, swap->size);
        pgguard_add_text(&call, visit->resource);
        pgguard_add_number(&call, guard_expected(visit), &expected);
        pgguard_add_bytes(&call, swap->data, swap->size);
        pgguard_add_number(&call, swap->id, &id);
        code = pgguard_run(pgguard_of(guard), &call);
        PQclear(call.result);
        return code;
}

static int postgres_prune(pawl_guard *guard, uint64_t floor, struct pawl_why *why, uint64_t *pruned)
{
        uint64_t room;
        struct pgguard_call call = {.statement = PGGUARD_PRUNE, .repeatable = true, .why = why};
        int code;

        pgguard_add_number(&call, floor, &room);
        code = pgguard_run(pgguard_of(guard), &call);
        if (code == PAWL_OK)
                *pruned = pgguard_number(call.result, 0, 0);
        PQclear(call.result);
        return code;
}

/* ---- listing --------------------------------------------------------------------------------------------------------- */

/* A prefix is bytes, and may end within a character; the server takes whole ones only. At most room - 1 of its bytes. */
static void whole_characters(const char *prefix, char *whole, size_t room)
{
        size_t size = strnlen(prefix, room - 1);
        size_t used = 0;
        size_t length;
        uint32_t character;

        while (used < size && (length = utf8_next(prefix + used, size - used, &character)) > 0)
                used += length;
        memcpy(whole, prefix, used);
        whole[used] = 0;
}

/* Tells one page, and where it ended. True: there may be another. */
static bool tell_page(const PGresult *page, const char *prefix, pawl_guard_entry_fn *fn, void *arg,
                      char after[PAWL_NAME_MAX + 1])
{
        int rows = PQntuples(page);

        for (int i = 0; i < rows; i++) {
                struct pawl_guard_entry entry = {.resource = pgguard_text(page, i, 0),
                                                 .token = pgguard_number(page, i, 1)};

                if (strlen(entry.resource) > PAWL_NAME_MAX) /* nothing that pawl.admit let in */
                        return false;
                strcpy(after, entry.resource);
                if (strncmp(entry.resource, prefix, strlen(prefix)) == 0 && fn(&entry, arg) != 0)
                        return false;
        }
        return rows == PAGE;
}

/* Page by page, each a statement of its own: fn may take its time. */
static int postgres_list(pawl_guard *guard, const char *prefix, pawl_guard_entry_fn *fn, void *arg,
                         struct pawl_why *why)
{
        char after[PAWL_NAME_MAX + 1] = "";
        char whole[PAWL_NAME_MAX + 1];
        bool more = true;
        int code = PAWL_OK;

        whole_characters(prefix, whole, sizeof(whole));
        while (more && code == PAWL_OK) {
                uint64_t most;
                struct pgguard_call call = {.statement = PGGUARD_LIST, .repeatable = true, .why = why};

                pgguard_add_text(&call, whole);
                pgguard_add_text(&call, after);
                pgguard_add_number(&call, PAGE, &most);
                code = pgguard_run(pgguard_of(guard), &call);
                if (code == PAWL_OK)
                        more = tell_page(call.result, prefix, fn, arg, after);
                PQclear(call.result);
        }
        return code;
}

const struct guard_ops postgres_guard = {
        .size = sizeof(struct pgguard),
        .open = postgres_open,
        .close = postgres_close,
        .admit = postgres_admit,
        .put = postgres_put,
        .get = postgres_get,
        .forget = postgres_forget,
        .list = postgres_list,
        .prune = postgres_prune,
        .examine = pgguard_examine,
        .look = postgres_look,
        .swap = postgres_swap,
        .sql = guard_script,
};
