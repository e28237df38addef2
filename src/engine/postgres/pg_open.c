/* pg_open.c - the URL of a PostgreSQL database, and the engine's ops table.
 *
 *   postgres://[user[:password]@]host[:port][,...]/database?options      any URL that libpq takes, and options of ours */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/name.h"
#include "postgres.h"

extern const struct engine_ops postgres_engine;

#define REAP_PAUSE (100 * MS)
enum { REAP_BATCH = 500 }; /* schema.sql: reap */
#define REAP_EVERY (600 * SECOND)

static int no_memory(struct pawl_why *why)
{
        return why_set(why, PAWL_NO_MEMORY, "no memory to open the PostgreSQL engine");
}

/* ---- reading the URL --------------------------------------------------------------------------------------------- */

static const char *const own_options[] = {"ttl",  "prefix", "timeout",     "schema", "create",
                                          "mode", "pooler", "connections", "owner",  NULL};

static int read_prefix(struct postgres *postgres, const struct url *url, struct pawl_why *why)
{
        const char *prefix = url_option(url, "prefix");
        size_t length;
        int code;

        if (!prefix)
                prefix = "";
        if (strlen(prefix) > PREFIX_MAX)
                return why_set(why, PAWL_INVALID, "the prefix is longer than %d bytes", PREFIX_MAX);
        if (*prefix && (code = name_check(prefix, &length, why)) != PAWL_OK)
                return code;
        postgres->prefix = strdup(prefix);
        if (!postgres->prefix)
                return no_memory(why);
        postgres->prefix_length = strlen(prefix);
        return PAWL_OK;
}

static int read_schema(struct postgres *postgres, const struct url *url, struct pawl_why *why)
{
        const char *schema = url_option(url, "schema");

        if (!schema)
                schema = "pawl";
        if (strspn(schema, "abcdefghijklmnopqrstuvwxyz0123456789_") != strlen(schema) || *schema == '\0' ||
            (*schema >= '0' && *schema <= '9') || strlen(schema) > 63 || strncmp(schema, "pg_", 3) == 0)
                return why_set(
                        why, PAWL_INVALID,
                        "schema=%.64s: it must be lower-case letters, digits and _, and not begin with a digit or "
                        "pg_",
                        schema);
        if (strcmp(schema, "public") == 0)
                return why_set(why, PAWL_INVALID,
                               "schema=public: locks need a schema of their own, where nobody else may make functions");
        postgres->schema = strdup(schema);
        return postgres->schema ? PAWL_OK : no_memory(why);
}

static int read_owner(struct postgres *postgres, const struct url *url, struct pawl_why *why)
{
        const char *owner = url_option(url, "owner");

        postgres->owner = strdup(owner ? owner : "");
        return postgres->owner ? PAWL_OK : no_memory(why);
}

/* Where it is, for sentences: never the user, never the password. */
static int read_where(struct postgres *postgres, struct pawl_why *why)
{
        const char *hosts = pq_params_get(&postgres->params, "host");
        const char *ports = pq_params_get(&postgres->params, "port");
        const char *database = pq_params_get(&postgres->params, "dbname");
        size_t size = (hosts ? 2 * strlen(hosts) : 0) + (ports ? URL_HOSTS_MAX * sizeof("65535") : 0) +
                      (database ? strlen(database) : 0) + sizeof(":/");
        size_t at = 0;
        uint32_t index = 0;

        postgres->where = malloc(size);
        if (!postgres->where)
                return no_memory(why);
        for (const char *host = hosts ? hosts : ""; host;
             host = strchr(host, ',') ? strchr(host, ',') + 1 : NULL, index++) {
                size_t length;
                const char *port = item_of(ports, index, &length);

                at += (size_t)snprintf(postgres->where + at, size - at, "%s%.*s%s%.*s", index ? "," : "",
                                       (int)strcspn(host, ","), host, length ? ":" : "", (int)length,
                                       length ? port : "");
                if (at >= size)
                        return PAWL_OK; /* cut short: it is for people */
        }
        snprintf(postgres->where + at, size - at, "/%s", database ? database : "");
        return PAWL_OK;
}

static int read_pooler(struct postgres *postgres, const struct url *url, struct pawl_why *why)
{
        return url_choice(url, "pooler", "none", "session", &postgres->pooler_is_fine, why);
}

static int read_create(struct postgres *postgres, const struct url *url, struct pawl_why *why)
{
        postgres->create = true;
        return url_flag(url, "create", &postgres->create, why);
}

/* Locks on rows of their own, or on sessions. Locking rows of the program's is not ours to do, but its own. */
static int read_mode(const struct url *url, bool *advisory, struct pawl_why *why)
{
        const char *mode = url_option(url, "mode");

        *advisory = mode && strcmp(mode, "advisory") == 0;
        if (!*advisory && url_option(url, "connections"))
                return why_set(why, PAWL_INVALID, "connections= is for mode=advisory only: leave it out");
        if (!mode || *advisory || strcmp(mode, "lease") == 0)
                return PAWL_OK;
        if (strcmp(mode, "row") == 0)
                return why_set(
                        why, PAWL_UNSUPPORTED,
                        "mode=row: a row is locked by SELECT ... FOR UPDATE in your own transaction, not through "
                        "here: docs/engines/postgres.md has the recipe");
        return why_set(why, PAWL_INVALID, "mode=%.32s: it must be lease or advisory", mode);
}

static int read_url(struct postgres *postgres, const struct url *url, struct pawl_why *why)
{
        int code = pq_params_make(url, own_options, &postgres->params, why);

        if (code == PAWL_OK)
                code = read_where(postgres, why);
        if (code == PAWL_OK)
                code = read_prefix(postgres, url, why);
        if (code == PAWL_OK)
                code = read_schema(postgres, url, why);
        if (code == PAWL_OK)
                code = read_owner(postgres, url, why);
        if (code == PAWL_OK)
                code = read_create(postgres, url, why);
        if (code == PAWL_OK)
                code = read_pooler(postgres, url, why);
        if (code == PAWL_OK)
                code = url_timeout(url, &postgres->timeout, why);
        postgres->lock_limit = LOCK_LIMIT_MOST;
        postgres_bound(postgres, NEVER);
        return code;
}

/* ---- old rows ---------------------------------------------------------------------------------------------------- */

static int write_reap(struct ask *ask, struct wire *wire)
{
        const struct values values = {.count = 0};

        return wire_send(wire, ask, SQL_REAP, &values);
}

/* A full batch: there is more. Each is short, and what waits behind it comes in between. */
static void reap_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct postgres *postgres = container_of(ask, struct postgres, reaping);
        struct loop *loop = postgres->engine.host->loop;

        if (!why && row_number(rows, 0, 0) >= REAP_BATCH) /* if not: another client, or the next time */
                loop_set(loop, &postgres->reap, loop_now(loop) + REAP_PAUSE);
}

static void reap_due(struct timer *timer)
{
        struct postgres *postgres = container_of(timer, struct postgres, reap);
        struct loop *loop = postgres->engine.host->loop;
        struct wire *wire = postgres->advisory ? advisory_wire(postgres) : &postgres->wire;
        uint16_t chance;

        loop_random(loop, &chance, sizeof(chance)); /* not all clients at once */
        loop_set(loop, timer, loop_now(loop) + REAP_EVERY / 2 + REAP_EVERY * chance / UINT16_MAX);
        if (wire && list_empty(&postgres->reaping.listed))
                (void)!wire_ask(wire, &postgres->reaping);
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static int open_rows(struct postgres *postgres, struct pawl_why *why)
{
        struct engine *engine = &postgres->engine;

        postgres->wire.enter = SQL_ENTER;
        if (table_init(&postgres->claims) != PAWL_OK || table_init(&postgres->waitlists) != PAWL_OK ||
            wire_init(&postgres->wire, postgres, &lease_events) != 0)
                return no_memory(why);
        engine->capabilities = PAWL_CAN_SHARE | PAWL_CAN_LIMIT | PAWL_CAN_QUEUE | PAWL_CAN_DELAY | PAWL_CAN_DETACH |
                               PAWL_CAN_INSPECT | PAWL_CAN_BREAK | PAWL_CAN_ASK | PAWL_CAN_HISTORY |
                               PAWL_TOKEN_DURABLE | PAWL_CAN_AGE | PAWL_CAN_KEEP;
        return PAWL_OK;
}

static int postgres_open(struct engine *engine, const struct url *url, struct pawl_why *why)
{
        struct postgres *postgres = postgres_of(engine);
        struct loop *loop = engine->host->loop;
        bool advisory = false;
        int code;

        list_init(&postgres->parked);
        list_init(&postgres->queues);
        list_init(&postgres->renewals);
        list_init(&postgres->ghosts);
        list_init(&postgres->questions);
        list_init(&postgres->examinations);
        list_init(&postgres->errands);
        list_init(&postgres->reaping.listed);
        postgres->reaping.write = write_reap;
        postgres->reaping.answered = reap_answered;
        postgres->retry.fire = claims_retry;
        postgres->reap.fire = reap_due;
        code = read_mode(url, &advisory, why);
        if (code == PAWL_OK)
                code = read_url(postgres, url, why);
        if (code != PAWL_OK)
                return code;
        if (loop_set(loop, &postgres->retry, NEVER) != 0 ||
            loop_set(loop, &postgres->reap, loop_now(loop) + REAP_EVERY) != 0)
                return no_memory(why);
        return advisory ? advisory_open(postgres, url, why) : open_rows(postgres, why);
}

static void postgres_close(struct engine *engine)
{
        struct postgres *postgres = postgres_of(engine);

        loop_unset(engine->host->loop, &postgres->retry);
        loop_unset(engine->host->loop, &postgres->reap);
        advisory_close(postgres);
        wire_close(&postgres->wire);
        wait_free(postgres);
        ghosts_free(postgres);
        renewals_free(postgres);
        inspect_free(postgres);
        values_free(postgres);
        examine_free(postgres);
        table_free(&postgres->claims);
        table_free(&postgres->waitlists);
        pq_params_free(&postgres->params);
        free(postgres->where);
        free(postgres->prefix);
        free(postgres->schema);
        free(postgres->owner);
}

/* ---- the two modes ----------------------------------------------------------------------------------------------- */

static void postgres_acquire(struct engine *engine, struct claim *claim)
{
        (postgres_of(engine)->advisory ? advisory_acquire : claim_acquire)(engine, claim);
}

static void postgres_cancel(struct engine *engine, struct claim *claim)
{
        (postgres_of(engine)->advisory ? advisory_cancel : claim_cancel)(engine, claim);
}

static int postgres_overdue(struct engine *engine, const struct claim *claim, struct pawl_why *why)
{
        return (postgres_of(engine)->advisory ? advisory_overdue : claim_overdue)(engine, claim, why);
}

static void postgres_renew(struct engine *engine, struct claim *const *claims, size_t n)
{
        (postgres_of(engine)->advisory ? advisory_renew : claim_renew)(engine, claims, n);
}

static void postgres_release(struct engine *engine, struct claim *claim)
{
        (postgres_of(engine)->advisory ? advisory_release : claim_release)(engine, claim);
}

const struct engine_ops postgres_engine = {
        .name = "postgres",
        .size = sizeof(struct postgres),
        .claim_size = sizeof(struct part),
        .open = postgres_open,
        .close = postgres_close,
        .acquire = postgres_acquire,
        .cancel = postgres_cancel,
        .overdue = postgres_overdue,
        .renew = postgres_renew,
        .release = postgres_release,
        .inspect = &postgres_inspect,
        .leases = &postgres_leases,
        .values = &postgres_values,
        .sql = sql_schema,
};
