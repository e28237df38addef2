/* registry.c - which scheme is which engine: the one list of engines, and opening one. */
#include "engine.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/module.h"

extern const struct engine_ops local_engine;
#ifdef BUILTIN_TRACE
extern const struct engine_ops trace_engine;
#define TRACE &trace_engine
#else
#define TRACE NULL
#endif
#ifdef BUILTIN_REDIS
extern const struct engine_ops redis_engine;
#define REDIS_ENGINE &redis_engine
#else
#define REDIS_ENGINE NULL
#endif
#ifdef BUILTIN_ZOOKEEPER
extern const struct engine_ops zookeeper_engine;
#define ZOOKEEPER_ENGINE &zookeeper_engine
#else
#define ZOOKEEPER_ENGINE NULL
#endif
#ifdef BUILTIN_ETCD
extern const struct engine_ops etcd_engine;
#define ETCD_ENGINE &etcd_engine
#else
#define ETCD_ENGINE NULL
#endif

#ifdef BUILTIN_POSTGRES
extern const struct engine_ops postgres_engine;
#define POSTGRES_ENGINE &postgres_engine
#else
#define POSTGRES_ENGINE NULL
#endif

struct row {
        const char *scheme;           /* one that ends in '+' stands before another scheme */
        const struct engine_ops *ops; /* NULL: in a module */
        const char *module;           /* pawl-MODULE.so */
        const char *inner;            /* the module of the engines it is made of; NULL: none */
        const char *summary;
        const char *promise;
        const char *missing; /* said when the module is not there */
};

#define REDIS_PROMISE                                                                                                  \
        "FIFO; tokens from a counter and the server's clock: they grow although the server loses its data, unless "    \
        "its clock goes back; a failover to a replica may lose a lock, and the token still fences"

#define ZOOKEEPER_PROMISE                                                                                              \
        "FIFO; a minority of servers may fail without losing a lock; tokens are the ensemble's transaction numbers: "  \
        "they grow unless it is restored from a backup, which pawl init must be told"
#define ETCD_PROMISE                                                                                                   \
        "FIFO; a minority of servers may fail without losing a lock; tokens are the cluster's revisions: they grow "   \
        "unless it is restored from a backup, which pawl init must be told"

#define POSTGRES_PROMISE                                                                                               \
        "FIFO; a commit keeps a grant across crashes, and across a failover if the standby is synchronous; tokens "    \
        "grow although the database is an old copy, unless the server's clock goes back"

static const struct row rows[] = {
        {
                .scheme = "local",
                .ops = &local_engine,
                .summary = "one machine, no server: processes share a file in memory",
                .promise = "FIFO; a holder's death frees at once; tokens grow across crashes and reboots; if the file "
                           "is deleted or lies on tmpfs, their floor is the wall clock",
        },
        {
                .scheme = "trace+",
                .ops = TRACE,
                .module = "trace",
                .summary = "logs what is asked of another engine, and what it says: trace+local:",
                .promise = "what the engine behind it promises",
                .missing = MODULE_MISSING("trace", "pawl", "run make install"),
        },
#define REDIS(scheme_, summary_)                                                                                       \
        {                                                                                                              \
                .scheme = scheme_, .ops = REDIS_ENGINE, .module = "redis", .summary = summary_,                        \
                .promise = REDIS_PROMISE,                                                                              \
                .missing = MODULE_MISSING("redis", "pawl-redis", BUILT_WITH("libhiredis-dev and libssl-dev")),         \
        }
        REDIS("redis", "one Redis server or primary"),
        REDIS("rediss", "one Redis server or primary, through TLS"),
        REDIS("redis+unix", "one Redis server, through its unix socket"),
        {
                .scheme = "redlock",
                .module = "redlock",
                .inner = "redis",
                .summary = "an odd number of independent Redis servers; a majority decides",
                .promise = "no queue; a minority of servers may fail; tokens grow as long as a majority keeps its data "
                           "or comes back late enough; a server that lost its data is not trusted until then",
                .missing = MODULE_MISSING("redlock", "pawl-redis", BUILT_WITH("libhiredis-dev and libssl-dev")),
        },
#define ZOOKEEPER(scheme_, summary_)                                                                                   \
        {                                                                                                              \
                .scheme = scheme_, .ops = ZOOKEEPER_ENGINE, .module = "zookeeper", .summary = summary_,                \
                .promise = ZOOKEEPER_PROMISE,                                                                          \
                .missing = MODULE_MISSING("zookeeper", "pawl-zookeeper", BUILT_WITH("libssl-dev")),                    \
        }
        ZOOKEEPER("zk", "a ZooKeeper ensemble"),
        ZOOKEEPER("zks", "a ZooKeeper ensemble, through TLS"),
#define ETCD(scheme_, summary_)                                                                                        \
        {                                                                                                              \
                .scheme = scheme_, .ops = ETCD_ENGINE, .module = "etcd", .summary = summary_, .promise = ETCD_PROMISE, \
                .missing = MODULE_MISSING(                                                                             \
                        "etcd", "pawl-etcd",                                                                           \
                        BUILT_WITH("libnghttp2-dev, libprotobuf-c-dev, protobuf-c-compiler and libssl-dev")),          \
        }
        ETCD("etcd", "an etcd cluster"),
        ETCD("etcds", "an etcd cluster, through TLS"),
#define POSTGRES(scheme_)                                                                                              \
        {                                                                                                              \
                .scheme = scheme_, .ops = POSTGRES_ENGINE, .module = "postgres",                                       \
                .summary = "a PostgreSQL database: leases in rows, or locks of sessions with mode=advisory",           \
                .promise = POSTGRES_PROMISE,                                                                           \
                .missing = MODULE_MISSING("postgres", "pawl-postgres", BUILT_WITH("libpq-dev and libssl-dev")),        \
        }
        POSTGRES("postgres"),
        POSTGRES("postgresql"),
};

enum { ROWS = sizeof(rows) / sizeof(*rows) };

static bool fits(const struct row *row, const char *scheme)
{
        size_t length = strlen(row->scheme);

        if (row->scheme[length - 1] == '+')
                return strncmp(scheme, row->scheme, length) == 0 && scheme[length] != '\0';
        return strcmp(scheme, row->scheme) == 0;
}

static void name_all(char *text, size_t size)
{
        size_t at = 0;

        for (size_t i = 0; i < ROWS && at < size; i++)
                at += (size_t)snprintf(text + at, size - at, "%s%s%s", i ? ", " : "", rows[i].scheme,
                                       rows[i].scheme[strlen(rows[i].scheme) - 1] == '+' ? "..." : "");
}

static const struct engine_ops *ops_of(const struct row *row, const char *scheme, struct pawl_why *why)
{
        const struct module *module;
        struct pawl_why own;

        if (row->ops)
                return row->ops;
        module = module_open(row->module, &own);
        if (module && module->engine)
                return module->engine;
        if (module || own.code == PAWL_NOT_FOUND)
                why_set(why, PAWL_NO_ENGINE, "%s: cannot be opened: %s", scheme, row->missing);
        else
                why_set(why, PAWL_NO_ENGINE, "%s", own.text);
        return NULL;
}

const struct engine_ops *engine_find(const char *scheme, struct pawl_why *why)
{
        char known[256];

        for (size_t i = 0; i < ROWS; i++) {
                if (fits(&rows[i], scheme))
                        return ops_of(&rows[i], scheme, why);
        }
        name_all(known, sizeof(known));
        why_set(why, PAWL_NO_ENGINE, "no engine is called %.64s; there are %s", scheme, known);
        return NULL;
}

static bool has_engine(const char *name, struct pawl_why *why)
{
        const struct module *module = module_open(name, why);

        if (module && !module->engine)
                why->code = PAWL_NOT_FOUND; /* it has a guard only */
        return module && module->engine;
}

static const char *missing(const struct row *row)
{
        struct pawl_why why;

        if (row->ops || (has_engine(row->module, &why) && (!row->inner || has_engine(row->inner, &why))))
                return NULL;
        if (why.code == PAWL_NOT_FOUND)
                return row->missing;
        return "its module does not fit this library or may not be trusted: opening it says more";
}

int engine_info(size_t index, struct pawl_engine_info *info)
{
        const struct row *row;

        if (index >= ROWS)
                return PAWL_NOT_FOUND;
        row = &rows[index];
        *info = (struct pawl_engine_info){
                .scheme = row->scheme,
                .summary = row->summary,
                .promise = row->promise,
                .missing = missing(row),
        };
        return PAWL_OK;
}

int engine_sql(const char *scheme, const char **locks)
{
        const struct engine_ops *ops = engine_find(scheme, NULL);

        if (!ops)
                return PAWL_NO_ENGINE;
        *locks = ops->sql;
        return PAWL_OK;
}

int engine_open(const struct engine_ops *ops, const struct engine_host *host, const struct url *url,
                struct engine **engine, struct pawl_why *why)
{
        struct engine *opened = calloc(1, ops->size);
        int code;

        if (!opened)
                return why_set(why, PAWL_NO_MEMORY, "no memory to open %s", url->shown);
        opened->ops = ops;
        opened->host = host;
        opened->claim_size = ops->claim_size;
        code = ops->open(opened, url, why);
        if (code != PAWL_OK) {
                engine_close(opened);
                return code;
        }
        *engine = opened;
        return PAWL_OK;
}

void engine_close(struct engine *engine)
{
        if (!engine)
                return;
        engine->ops->close(engine);
        free(engine->url);
        free(engine);
}
