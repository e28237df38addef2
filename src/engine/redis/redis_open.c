/* redis_open.c - the URL of a Redis server, and the engine's ops table.
 *
 *   redis://[user:password@]host[:port][/database]?options      rediss:// the same through TLS
 *   redis+unix:///path/to/socket?db=N&options */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/name.h"
#include "redis.h"

extern const struct engine_ops redis_engine;

enum { DEFAULT_PORT = 6379, PREFIX_MAX = 200 };

static int no_memory(struct pawl_why *why)
{
        return why_set(why, PAWL_NO_MEMORY, "no memory to open the Redis engine");
}

/* PAWL_OK and a copy, NULL for NULL. */
static int copy(char **to, const char *text, struct pawl_why *why)
{
        *to = text ? strdup(text) : NULL;
        return text && !*to ? no_memory(why) : PAWL_OK;
}

static int join(char **to, const char *before, const char *after, struct pawl_why *why)
{
        return asprintf(to, "%s%s", before, after) < 0 ? (*to = NULL, no_memory(why)) : PAWL_OK;
}

/* /DATABASE or db=, not both. */
static int read_database(struct redis *redis, const struct url *url, struct pawl_why *why)
{
        const char *path = url->path;

        if (*path && *path != '/')
                return why_set(why, PAWL_INVALID, "%s: write %s://HOST:PORT/DATABASE, with two slashes before the host",
                               url->shown, url->scheme);
        if (path[0] == '\0' || path[1] == '\0')
                return url_number(url, "db", 0, INT_MAX, &redis->database, why);
        if (url_option(url, "db"))
                return why_set(why, PAWL_INVALID, "%s: the database is given twice: leave out db=", url->shown);
        if (!number_parse(path + 1, 0, INT_MAX, &redis->database))
                return why_set(why, PAWL_INVALID, "%s: the database %.32s is not a number from 0 to %d", url->shown,
                               path + 1, INT_MAX);
        return PAWL_OK;
}

/* ---- where it is ------------------------------------------------------------------------------------------------- */

static int read_socket(struct redis *redis, const struct url *url, struct pawl_why *why)
{
        int code = url_number(url, "db", 0, INT_MAX, &redis->database, why);

        if (code != PAWL_OK)
                return code;
        if (url->path[0] == '\0' || url->host_count)
                return why_set(why, PAWL_INVALID, "%s: it must name a socket: redis+unix:///path/to/socket",
                               url->shown);
        code = copy(&redis->path, url->path, why);
        if (code == PAWL_OK)
                code = copy(&redis->where, url->path, why);
        redis->target.path = redis->path;
        return code;
}

static int read_host(struct redis *redis, const struct url *url, struct pawl_why *why)
{
        int code = read_database(redis, url, why);

        if (code != PAWL_OK)
                return code;
        if (url->host_count > 1)
                return why_set(why, PAWL_INVALID,
                               "%s: one host only; locks on several independent servers are redlock://", url->shown);
        code = copy(&redis->host, url->host_count ? url->hosts[0].name : "127.0.0.1", why);
        if (code != PAWL_OK)
                return code;
        redis->target.host = redis->host;
        redis->target.port = url->host_count && url->hosts[0].port ? url->hosts[0].port : DEFAULT_PORT;
        redis->where = url_where(redis->host, redis->target.port);
        return redis->where ? PAWL_OK : no_memory(why);
}

static int read_tls(struct redis *redis, const struct url *url, struct pawl_why *why)
{
        struct net_tls_options options;
        int code = net_tls_options(url, "rediss", &options, why);

        if (code != PAWL_OK || strcmp(url->scheme, "rediss") != 0)
                return code;
        code = net_tls_open(&options, &redis->tls, why);
        redis->target.tls = redis->tls;
        if (code == PAWL_OK && !(redis->cli_options = examine_cli_options(&options)))
                return no_memory(why);
        return code;
}

/* ---- what it is called ------------------------------------------------------------------------------------------- */

static int read_prefix(struct redis *redis, const struct url *url, struct pawl_why *why)
{
        const char *prefix = url_option(url, "prefix");
        size_t length;
        int code;

        if (!prefix)
                prefix = "lock:";
        if (strncmp(prefix, "pawl:", 5) == 0)
                return why_set(why, PAWL_INVALID, "prefix=%s: what begins with pawl: is for the queues and counters",
                               prefix);
        if (strlen(prefix) > PREFIX_MAX)
                return why_set(why, PAWL_INVALID, "the prefix is longer than %d bytes", PREFIX_MAX);
        if (*prefix && (code = name_check(prefix, &length, why)) != PAWL_OK)
                return code;
        code = copy(&redis->prefix, prefix, why);
        if (code != PAWL_OK)
                return code;
        redis->prefix_length = strlen(prefix);
        if ((code = join(&redis->fence_key, "pawl:fence:", prefix, why)) != PAWL_OK ||
            (code = join(&redis->past_key, "pawl:past:", prefix, why)) != PAWL_OK ||
            (code = join(&redis->value_prefix, "pawl:value:", prefix, why)) != PAWL_OK)
                return code;
        redis->fence_length = strlen(redis->fence_key);
        return PAWL_OK;
}

/* Who we are: a random number for the server, an encoded text for people. */
static int read_self(struct redis *redis, struct pawl_why *why)
{
        const struct engine_host *host = redis->engine.host;
        size_t length = strnlen(host->owner, PAWL_OWNER_MAX);
        uint64_t id;

        loop_random(host->loop, &id, sizeof(id));
        snprintf(redis->client, sizeof(redis->client), "%016llx", (unsigned long long)id);
        redis->owner = malloc(3 * length + 4);
        if (!redis->owner)
                return no_memory(why);
        if (length == 0 || (length == 1 && host->owner[0] == '-'))
                strcpy(redis->owner, length ? "%2D" : "-");
        else
                name_encode(host->owner, length, ":/@+,=()[]", redis->owner);
        if (asprintf(&redis->channel, "pawl:news:%s%s", redis->prefix, redis->client) < 0) {
                redis->channel = NULL;
                return no_memory(why);
        }
        return PAWL_OK;
}

static int read_limits(struct redis *redis, const struct url *url, struct pawl_why *why)
{
        bool remembers = true;
        int code = url_timeout(url, &redis->timeout, why);

        if (code == PAWL_OK)
                code = url_flag(url, "history", &remembers, why);
        redis->history = remembers ? "h" : "-";
        redis->target.silence = redis->timeout;
        return code;
}

static int read_url(struct redis *redis, const struct url *url, struct pawl_why *why)
{
        static const char *const known[] = {"ttl",  "prefix", "timeout",    "history",  "db",       "ca",
                                            "cert", "key",    "servername", "insecure", "passfile", NULL};
        int code = url_only(url, known, why);

        if (code == PAWL_OK)
                code = strcmp(url->scheme, "redis+unix") == 0 ? read_socket(redis, url, why)
                                                              : read_host(redis, url, why);
        if (code == PAWL_OK)
                code = read_tls(redis, url, why);
        if (code == PAWL_OK)
                code = read_prefix(redis, url, why);
        if (code == PAWL_OK)
                code = read_limits(redis, url, why);
        if (code == PAWL_OK && url->user && *url->user)
                code = copy(&redis->user, url->user, why);
        if (code == PAWL_OK)
                code = copy(&redis->password, url->password, why);
        return code;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static int redis_open(struct engine *engine, const struct url *url, struct pawl_why *why)
{
        struct redis *redis = redis_of(engine);
        int code;

        list_init(&redis->parked);
        list_init(&redis->unheard);
        list_init(&redis->queues);
        list_init(&redis->renewals);
        list_init(&redis->bundles);
        list_init(&redis->ghosts);
        list_init(&redis->questions);
        list_init(&redis->examinations);
        redis->retry.fire = claims_retry;
        redis->alive_at = -3600 * SECOND;
        code = read_url(redis, url, why);
        if (code == PAWL_OK)
                code = read_self(redis, why);
        if (code != PAWL_OK)
                return code;
        if (table_init(&redis->claims) != PAWL_OK || table_init(&redis->waitlists) != PAWL_OK ||
            wire_init(&redis->commands, redis, false) != 0 || wire_init(&redis->news, redis, true) != 0 ||
            loop_set(engine->host->loop, &redis->retry, NEVER) != 0)
                return no_memory(why);
        engine->capabilities = PAWL_CAN_SHARE | PAWL_CAN_LIMIT | PAWL_CAN_QUEUE | PAWL_CAN_DELAY | PAWL_CAN_DETACH |
                               PAWL_CAN_INSPECT | PAWL_CAN_BREAK | PAWL_CAN_ASK | PAWL_TOKEN_DURABLE | PAWL_CAN_AGE |
                               PAWL_CAN_KEEP;
        if (*redis->history == 'h')
                engine->capabilities |= PAWL_CAN_HISTORY;
        return PAWL_OK;
}

static void redis_close(struct engine *engine)
{
        struct redis *redis = redis_of(engine);

        loop_unset(engine->host->loop, &redis->retry);
        if (redis->member)
                net_flush(&redis->commands.net); /* releases that nobody waits for are under way */
        wire_close(&redis->commands);
        wire_close(&redis->news);
        wait_free(redis);
        ghosts_free(redis);
        bundles_free(redis);
        claims_free(redis);
        inspect_free(redis);
        member_free(redis);
        table_free(&redis->claims);
        table_free(&redis->waitlists);
        net_tls_close(redis->tls);
        free(redis->cli_options);
        url_wipe(redis->password);
        free(redis->user);
        free(redis->host);
        free(redis->path);
        free(redis->where);
        free(redis->prefix);
        free(redis->fence_key);
        free(redis->past_key);
        free(redis->value_prefix);
        free(redis->channel);
        free(redis->owner);
}

const struct engine_ops redis_engine = {
        .name = "redis",
        .size = sizeof(struct redis),
        .claim_size = sizeof(struct part),
        .open = redis_open,
        .close = redis_close,
        .acquire = claim_acquire,
        .cancel = claim_cancel,
        .overdue = claim_overdue,
        .renew = claim_renew,
        .release = claim_release,
        .inspect = &redis_inspect,
        .leases = &redis_leases,
        .values = &redis_values,
        .member = &redis_member,
};
