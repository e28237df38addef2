/* etcd_open.c - the URL of an etcd cluster, and the engine's ops table.
 *
 *   etcd://[user:password@]host[:port][,host[:port]...]?options      etcds:// the same through TLS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd.h"

extern const struct engine_ops etcd_engine;

enum { DEFAULT_PORT = 2379 };

static int no_memory(struct pawl_why *why)
{
        return why_set(why, PAWL_NO_MEMORY, "no memory to open the etcd engine");
}

/* PAWL_OK and a copy, NULL for NULL. */
static int copy(char **to, const char *text, struct pawl_why *why)
{
        *to = text ? strdup(text) : NULL;
        return text && !*to ? no_memory(why) : PAWL_OK;
}

/* ---- where it is ------------------------------------------------------------------------------------------------- */

static int read_endpoint(struct etcd_endpoint *endpoint, const struct url_host *host, struct pawl_why *why)
{
        int code = copy(&endpoint->host, host ? host->name : "127.0.0.1", why);

        if (code != PAWL_OK)
                return code;
        endpoint->port = host && host->port ? host->port : DEFAULT_PORT;
        endpoint->where = url_where(endpoint->host, endpoint->port);
        return endpoint->where ? PAWL_OK : no_memory(why);
}

static int join_where(struct etcd *etcd, struct pawl_why *why)
{
        const struct etcd_channel *channel = &etcd->channel;
        size_t size = 1;

        for (size_t i = 0; i < channel->endpoint_count; i++)
                size += strlen(channel->endpoints[i].where) + 2;
        etcd->where = calloc(1, size);
        if (!etcd->where)
                return no_memory(why);
        for (size_t i = 0; i < channel->endpoint_count; i++) {
                strcat(etcd->where, i ? ", " : "");
                strcat(etcd->where, channel->endpoints[i].where);
        }
        return PAWL_OK;
}

static int read_hosts(struct etcd *etcd, const struct url *url, struct pawl_why *why)
{
        struct etcd_channel *channel = &etcd->channel;
        size_t count = url->host_count ? url->host_count : 1;
        int code = PAWL_OK;

        if (url->path[0] != '\0' && strcmp(url->path, "/") != 0)
                return why_set(why, PAWL_INVALID, "%s: a path means nothing here; prefix= is what keys begin with",
                               url->shown);
        channel->endpoints = calloc(count, sizeof(*channel->endpoints));
        if (!channel->endpoints)
                return no_memory(why);
        channel->endpoint_count = count;
        for (size_t i = 0; i < count && code == PAWL_OK; i++)
                code = read_endpoint(&channel->endpoints[i], url->host_count ? &url->hosts[i] : NULL, why);
        return code == PAWL_OK ? join_where(etcd, why) : code;
}

static int read_tls(struct etcd *etcd, const struct url *url, struct pawl_why *why)
{
        struct net_tls_options options;
        int code = net_tls_options(url, "etcds", &options, why);

        if (code != PAWL_OK || strcmp(url->scheme, "etcds") != 0)
                return code;
        options.protocol = "h2";
        etcd->has_certificate = options.cert_file != NULL;
        etcd->cli_options = examine_cli_options(&options);
        return etcd->cli_options ? net_tls_open(&options, &etcd->tls, why) : no_memory(why);
}

/* ---- what it is called ------------------------------------------------------------------------------------------- */

static int read_prefix(struct etcd *etcd, const struct url *url, struct pawl_why *why)
{
        const char *prefix = url_option(url, "prefix");
        size_t length;
        int code;

        if (!prefix)
                prefix = "lock/";
        if (strlen(prefix) > ETCD_PREFIX_MAX)
                return why_set(why, PAWL_INVALID, "the prefix is longer than %d bytes", ETCD_PREFIX_MAX);
        if (*prefix && (code = name_check(prefix, &length, why)) != PAWL_OK)
                return code;
        etcd->prefix_length = strlen(prefix);
        return copy(&etcd->prefix, prefix, why);
}

static int read_limits(struct etcd *etcd, const struct url *url, struct pawl_why *why)
{
        int code = url_timeout(url, &etcd->timeout, why);

        etcd->history = true;
        if (code == PAWL_OK)
                code = url_slack(url, &etcd->slack, why);
        if (code == PAWL_OK)
                code = url_flag(url, "history", &etcd->history, why);
        return code;
}

static int read_user(struct etcd *etcd, const struct url *url, struct pawl_why *why)
{
        int code = PAWL_OK;

        if (url->user && *url->user)
                code = copy(&etcd->user, url->user, why);
        else if (url->password)
                code = why_set(why, PAWL_INVALID, "%s: a password without a user", url->shown);
        return code == PAWL_OK ? copy(&etcd->password, url->password, why) : code;
}

static int read_url(struct etcd *etcd, const struct url *url, struct pawl_why *why)
{
        static const char *const known[] = {"ttl",  "prefix", "timeout",    "slack",    "history",  "ca",
                                            "cert", "key",    "servername", "insecure", "passfile", NULL};
        int code = url_only(url, known, why);

        if (code == PAWL_OK)
                code = read_hosts(etcd, url, why);
        if (code == PAWL_OK)
                code = read_tls(etcd, url, why);
        if (code == PAWL_OK)
                code = read_prefix(etcd, url, why);
        if (code == PAWL_OK)
                code = read_limits(etcd, url, why);
        if (code == PAWL_OK)
                code = read_user(etcd, url, why);
        return code;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static int etcd_open(struct engine *engine, const struct url *url, struct pawl_why *why)
{
        struct etcd *etcd = etcd_of(engine);
        int code;

        list_init(&etcd->terms);
        list_init(&etcd->ended);
        list_init(&etcd->waits);
        list_init(&etcd->ghosts);
        list_init(&etcd->markers);
        list_init(&etcd->questions);
        list_init(&etcd->examinations);
        past_init(&etcd->past);
        sweep_init(etcd);
        code = read_url(etcd, url, why);
        if (code != PAWL_OK)
                return code;
        loop_random(engine->host->loop, &etcd->client, sizeof(etcd->client));
        if (table_init(&etcd->claims) != PAWL_OK || table_init(&etcd->lines) != PAWL_OK ||
            table_init(&etcd->leases) != PAWL_OK || doors_init(etcd) != PAWL_OK ||
            channel_init(&etcd->channel, etcd) != PAWL_OK)
                return no_memory(why);
        engine->capabilities = PAWL_CAN_SHARE | PAWL_CAN_LIMIT | PAWL_CAN_QUEUE | PAWL_CAN_DELAY | PAWL_CAN_DETACH |
                               PAWL_CAN_INSPECT | PAWL_CAN_BREAK | PAWL_CAN_ASK | PAWL_CAN_AGE | PAWL_CAN_KEEP;
        if (etcd->history)
                engine->capabilities |= PAWL_CAN_HISTORY;
        return PAWL_OK;
}

static void free_endpoints(struct etcd_channel *channel)
{
        for (size_t i = 0; i < channel->endpoint_count; i++) {
                free(channel->endpoints[i].host);
                free(channel->endpoints[i].where);
        }
        free(channel->endpoints);
}

/* History ends first: what it still has to write would come in the way of leases that are given back. */
static bool etcd_leave(struct engine *engine)
{
        struct etcd *etcd = etcd_of(engine);

        etcd->history = false;
        history_free(etcd);
        return terms_revoke(etcd);
}

/* The channel goes first, so that nothing is requested any more. */
static void etcd_close(struct engine *engine)
{
        struct etcd *etcd = etcd_of(engine);

        history_free(etcd);
        etcd->closing = true;
        channel_close(&etcd->channel);
        news_free(etcd);
        inspect_free(etcd);
        examine_free(etcd);
        waits_free(etcd);
        delay_free(etcd);
        claims_free(etcd);
        terms_free(etcd);
        watches_free(&etcd->channel);
        table_free(&etcd->claims);
        table_free(&etcd->lines);
        table_free(&etcd->leases);
        net_tls_close(etcd->tls);
        free_endpoints(&etcd->channel);
        doors_free(etcd);
        url_wipe(etcd->password);
        free(etcd->user);
        free(etcd->cli_options);
        free(etcd->prefix);
        free(etcd->where);
}

const struct engine_ops etcd_engine = {
        .name = "etcd",
        .size = sizeof(struct etcd),
        .claim_size = sizeof(struct etcd_part),
        .open = etcd_open,
        .close = etcd_close,
        .acquire = claim_acquire,
        .cancel = claim_cancel,
        .overdue = claim_overdue,
        .renew = claim_renew,
        .release = claim_release,
        .leave = etcd_leave,
        .inspect = &etcd_inspect,
        .leases = &etcd_leases,
        .values = &etcd_values,
};
