/* redis_guard_open.c - the URL of a Redis server whose data are guarded.
 *
 *   redis://[user:password@]host[:port][/database]?options      rediss:// the same through TLS
 *   redis+unix:///path/to/socket?db=N&options */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../base/quote.h"
#include "redis_guard.h"

enum { DEFAULT_PORT = 6379, DEFAULT_WAIT_MS = 10000 };

static int no_memory(struct pawl_why *why)
{
        return why_set(why, PAWL_NO_MEMORY, "no memory to open the guard");
}

/* PAWL_OK and a copy, NULL for NULL. */
static int copy(char **to, const char *text, struct pawl_why *why)
{
        *to = text ? strdup(text) : NULL;
        return text && !*to ? no_memory(why) : PAWL_OK;
}

/* /DATABASE or db=, not both. */
static int read_database(struct redis_guard *guard, const struct url *url, struct pawl_why *why)
{
        const char *path = url->path;

        if (*path && *path != '/')
                return why_set(why, PAWL_INVALID, "%s: write %s://HOST:PORT/DATABASE, with two slashes before the host",
                               url->shown, url->scheme);
        if (path[0] == '\0' || path[1] == '\0')
                return url_number(url, "db", 0, INT_MAX, &guard->database, why);
        if (url_option(url, "db"))
                return why_set(why, PAWL_INVALID, "%s: the database is given twice: leave out db=", url->shown);
        if (!number_parse(path + 1, 0, INT_MAX, &guard->database))
                return why_set(why, PAWL_INVALID, "%s: the database %.32s is not a number from 0 to %d", url->shown,
                               path + 1, INT_MAX);
        return PAWL_OK;
}

static int read_socket(struct redis_guard *guard, const struct url *url, struct pawl_why *why)
{
        int code = url_number(url, "db", 0, INT_MAX, &guard->database, why);

        if (code != PAWL_OK)
                return code;
        if (url->path[0] == '\0' || url->host_count)
                return why_set(why, PAWL_INVALID, "%s: it must name a socket: redis+unix:///path/to/socket",
                               url->shown);
        code = copy(&guard->path, url->path, why);
        if (code == PAWL_OK)
                code = copy(&guard->where, url->path, why);
        guard->target.path = guard->path;
        return code;
}

static int read_host(struct redis_guard *guard, const struct url *url, struct pawl_why *why)
{
        int code = read_database(guard, url, why);

        if (code != PAWL_OK)
                return code;
        if (url->host_count > 1)
                return why_set(why, PAWL_INVALID, "%s: one host only: the one that has the data", url->shown);
        code = copy(&guard->host, url->host_count ? url->hosts[0].name : "127.0.0.1", why);
        if (code != PAWL_OK)
                return code;
        guard->target.host = guard->host;
        guard->target.port = url->host_count && url->hosts[0].port ? url->hosts[0].port : DEFAULT_PORT;
        guard->where = url_where(guard->host, guard->target.port);
        return guard->where ? PAWL_OK : no_memory(why);
}

/* How redis-cli is told the same. */
static char *cli_options(const struct net_tls_options *options)
{
        const struct {
                const char *option, *value;
        } words[] = {
                {"--cacert", options->ca_file},
                {"--cert", options->cert_file},
                {"--key", options->key_file},
                {"--sni", options->server_name},
        };
        char text[4096], word[1024];
        size_t at = (size_t)snprintf(text, sizeof(text), " --tls%s", options->insecure ? " --insecure" : "");

        for (size_t i = 0; i < sizeof(words) / sizeof(*words) && at + sizeof(word) < sizeof(text); i++) {
                if (!words[i].value)
                        continue;
                quote_for_shell(words[i].value, word, sizeof(word));
                at += (size_t)snprintf(text + at, sizeof(text) - at, " %s %s", words[i].option, word);
        }
        return strdup(text);
}

static int read_tls(struct redis_guard *guard, const struct url *url, struct pawl_why *why)
{
        struct net_tls_options options;
        int code = net_tls_options(url, "rediss", &options, why);

        if (code != PAWL_OK || strcmp(url->scheme, "rediss") != 0)
                return code;
        code = net_tls_open(&options, &guard->tls, why);
        guard->target.tls = guard->tls;
        if (code == PAWL_OK && !(guard->cli_options = cli_options(&options)))
                return no_memory(why);
        return code;
}

static int read_prefix(struct redis_guard *guard, const struct url *url, struct pawl_why *why)
{
        const char *prefix = url_option(url, "prefix");
        size_t length;
        int code;

        if (!prefix)
                prefix = "data:";
        if (strncmp(prefix, "pawl:", 5) == 0)
                return why_set(why, PAWL_INVALID, "prefix=%s: what begins with pawl: is for marks and locks", prefix);
        if (strlen(prefix) > PREFIX_MAX)
                return why_set(why, PAWL_INVALID, "the prefix is longer than %d bytes", PREFIX_MAX);
        if (*prefix && (code = name_check(prefix, &length, why)) != PAWL_OK)
                return code;
        code = copy(&guard->prefix, prefix, why);
        if (code == PAWL_OK && asprintf(&guard->floor_key, "pawl:floor:%s", prefix) < 0) {
                guard->floor_key = NULL;
                return no_memory(why);
        }
        return code;
}

static int read_url(struct redis_guard *guard, const struct url *url, struct pawl_why *why)
{
        static const char *const known[] = {"prefix", "timeout",    "db",       "ca",       "cert",
                                            "key",    "servername", "insecure", "passfile", NULL};
        int code = url_only(url, known, why);

        if (code == PAWL_OK)
                code = strcmp(url->scheme, "redis+unix") == 0 ? read_socket(guard, url, why)
                                                              : read_host(guard, url, why);
        if (code == PAWL_OK)
                code = read_tls(guard, url, why);
        if (code == PAWL_OK)
                code = read_prefix(guard, url, why);
        if (code == PAWL_OK)
                code = url_timeout(url, &guard->timeout, why);
        if (code == PAWL_OK && url->user && *url->user)
                code = copy(&guard->user, url->user, why);
        if (code == PAWL_OK)
                code = copy(&guard->password, url->password, why);
        return code;
}

int redis_guard_open(pawl_guard *opened, const struct url *url, const struct pawl_guard_options *options)
{
        struct redis_guard *guard = redis_guard_of(opened);
        int code = read_url(guard, url, options->why);

        if (code != PAWL_OK)
                return code;
        guard->target.silence = guard->timeout;
        guard->wait = (options->wait_ms ? options->wait_ms : DEFAULT_WAIT_MS) * MS;
        return line_open(guard, options->why);
}

void redis_guard_close(pawl_guard *opened)
{
        struct redis_guard *guard = redis_guard_of(opened);

        if (opened->pid == getpid())
                line_close(guard);
        else
                line_abandon(guard);
        net_tls_close(guard->tls);
        url_wipe(guard->password);
        free(guard->user);
        free(guard->host);
        free(guard->path);
        free(guard->where);
        free(guard->prefix);
        free(guard->floor_key);
        free(guard->cli_options);
}
