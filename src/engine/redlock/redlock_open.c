/* redlock_open.c - the URL of a quorum, its nodes, and the engine's ops table.
 *
 *   redlock://[user:password@]host[:port],host[:port],host[:port][,...][/database]?options
 *
 * What is not an option of ours is passed on to the nodes; so are user, password and database. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redlock.h"

extern const struct engine_ops redlock_engine;

enum { TEXT_MAX = 6000, DEFAULT_PORT = 6379 };

void redlock_log(const struct redlock *redlock, int level, const char *format, ...)
{
        const struct engine_host *host = redlock->engine.host;
        char text[600];
        va_list args;

        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        host->log(host, level, text);
}

void redlock_tend(struct redlock *redlock, int64_t at)
{
        if (at < redlock->tend.at)
                loop_set(redlock->engine.host->loop, &redlock->tend, at); /* moving: cannot fail */
}

/* ---- what the nodes tell ----------------------------------------------------------------------------------------- */

/* A node may be alone with what it says; a majority is not. */
static void on_news(struct member *member, const uint64_t uid[2], bool broken)
{
        struct node *node = container_of(member, struct node, member);
        struct redlock *redlock = node->redlock;
        const struct engine_host *host = redlock->engine.host;
        struct part *part = places_find(redlock, uid);

        if (!part || part->state != HELD)
                return;
        *(broken ? &part->broken : &part->asked) |= node->bit;
        if (broken && how_many(part->broken) == redlock->quorum)
                claim_gone(part, PAWL_REASON_BROKEN);
        else if (!broken && how_many(part->asked) == redlock->quorum)
                host->events->asked(host->core, part->claim);
}

/* ---- one node ---------------------------------------------------------------------------------------------------- */

/* A URL being written; one that does not fit is found out at its end. */
struct text {
        char bytes[TEXT_MAX];
        size_t length;
};

static void add(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *text, const char *format, ...)
{
        va_list args;

        va_start(args, format);
        if (text->length < sizeof(text->bytes))
                text->length +=
                        (size_t)vsnprintf(text->bytes + text->length, sizeof(text->bytes) - text->length, format, args);
        va_end(args);
}

/* As url.c decodes it. */
static void add_encoded(struct text *text, const char *value)
{
        for (; *value; value++) {
                unsigned char byte = (unsigned char)*value;

                if ((byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z'))
                        add(text, "%c", byte);
                else
                        add(text, "%%%02X", byte);
        }
}

static bool is_ours(const char *key)
{
        static const char *const ours[] = {"ttl", "tls", "even", "init", "history", NULL};

        for (const char *const *name = ours; *name; name++)
                if (strcmp(*name, key) == 0)
                        return true;
        return false;
}

static void write_url(const struct redlock *redlock, const struct url *url, const struct url_host *host,
                      struct text *text)
{
        add(text, "%s://", redlock->tls ? "rediss" : "redis");
        if (url->user)
                add_encoded(text, url->user);
        if (url->password) {
                add(text, ":");
                add_encoded(text, url->password);
        }
        if (url->user || url->password)
                add(text, "@");
        add(text, strchr(host->name, ':') ? "[%s]:%u" : "%s:%u", host->name, host->port ? host->port : DEFAULT_PORT);
        add(text, "%s?history=0", url->path); /* a node's own history would say who tried, not who held */
        for (uint32_t i = 0; i < url->option_count; i++) {
                if (is_ours(url->options[i].key))
                        continue;
                add(text, "&%s=", url->options[i].key);
                add_encoded(text, url->options[i].value);
        }
}

static int open_engine(struct node *node, struct pawl_why *why)
{
        const struct engine_host *host = &node->redlock->node_host;
        const struct engine_ops *ops = host->find(node->url->scheme, why);

        if (!ops)
                return PAWL_NO_ENGINE;
        if (!ops->member)
                return why_set(why, PAWL_NO_ENGINE, "the %s engine cannot be one of a quorum", ops->name);
        node->engine = calloc(1, ops->size);
        if (!node->engine)
                return why_set(why, PAWL_NO_MEMORY, "no memory to open %s", node->name);
        node->engine->ops = ops;
        node->engine->host = host;
        node->engine->claim_size = ops->claim_size;
        return ops->open(node->engine, node->url, why);
}

static int open_node(struct redlock *redlock, const struct url *url, uint32_t index, struct pawl_why *why)
{
        const struct url_host *host = &url->hosts[index];
        struct node *node = &redlock->nodes[index];
        struct text text = {.length = 0};
        int code;

        redlock->count = index + 1;
        node->redlock = redlock;
        node->bit = (nodes_t)1 << index;
        node->seat = node->home = -1;
        node->member.changed = trust_changed;
        node->member.turn = places_turn;
        node->member.news = on_news;
        snprintf(node->name, sizeof(node->name), strchr(host->name, ':') ? "[%s]:%u" : "%s:%u", host->name,
                 host->port ? host->port : DEFAULT_PORT);
        write_url(redlock, url, host, &text);
        if (text.length < sizeof(text.bytes))
                code = url_parse(text.bytes, &node->url, why);
        else
                code = why_set(why, PAWL_INVALID, "the URL is too long");
        explicit_bzero(&text, sizeof(text));
        return code == PAWL_OK ? open_engine(node, why) : code;
}

/* ---- the URL ----------------------------------------------------------------------------------------------------- */

static int check_count(const struct redlock *redlock, const struct url *url, struct pawl_why *why)
{
        uint32_t count = url->host_count;

        if (count < NODES_LEAST)
                return why_set(why, PAWL_INVALID,
                               "%s: %u is too few: a majority that survives a failure needs at least 3 independent "
                               "servers; for one server use redis://",
                               url->shown, count);
        if (count > NODES_MOST)
                return why_set(why, PAWL_INVALID, "%s: more than %d nodes", url->shown, NODES_MOST);
        if (count % 2 == 0 && !redlock->even)
                return why_set(why, PAWL_INVALID,
                               "%s: %u nodes stand no more failures than %u and split their votes more often: take one "
                               "away or add one (even=1 overrides this)",
                               url->shown, count, count - 1);
        return PAWL_OK;
}

static int check_twins(const struct url *url, struct pawl_why *why)
{
        for (uint32_t i = 0; i < url->host_count; i++) {
                for (uint32_t j = 0; j < i; j++) {
                        const struct url_host *one = &url->hosts[i], *two = &url->hosts[j];
                        unsigned port = one->port ? one->port : DEFAULT_PORT;

                        if (strcasecmp(one->name, two->name) == 0 && port == (two->port ? two->port : DEFAULT_PORT))
                                return why_set(why, PAWL_INVALID, "%s: %s:%u is there twice: it would have two votes",
                                               url->shown, one->name, port);
                }
        }
        return PAWL_OK;
}

static int read_url(struct redlock *redlock, const struct url *url, struct pawl_why *why)
{
        bool history = true; /* nobody keeps one here; what the option says is checked all the same */
        const char *prefix = url_option(url, "prefix");
        int code = url_timeout(url, &redlock->timeout, why);

        snprintf(redlock->prefix_start, sizeof(redlock->prefix_start), "%.5s", prefix ? prefix : "lock:");
        if (code == PAWL_OK)
                code = url_flag(url, "even", &redlock->even, why);
        if (code == PAWL_OK)
                code = url_flag(url, "tls", &redlock->tls, why);
        if (code == PAWL_OK)
                code = url_flag(url, "history", &history, why);
        if (code == PAWL_OK)
                code = url_choice(url, "init", "auto", "manual", &redlock->init_manual, why);
        if (code == PAWL_OK)
                code = check_count(redlock, url, why);
        return code == PAWL_OK ? check_twins(url, why) : code;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static void patience_over(struct timer *timer)
{
        struct redlock *redlock = container_of(timer, struct redlock, patience);

        claims_wake(redlock);
}

static void tend_due(struct timer *timer)
{
        struct redlock *redlock = container_of(timer, struct redlock, tend);

        loop_set(redlock->engine.host->loop, timer, NEVER); /* at once, while the heap still has the room it left */
        trust_due(redlock);
}

static int open_nodes(struct redlock *redlock, const struct url *url, struct pawl_why *why)
{
        int code = PAWL_OK;

        for (uint32_t i = 0; i < url->host_count && code == PAWL_OK; i++)
                code = open_node(redlock, url, i, why);
        if (code != PAWL_OK)
                return code;
        redlock->all = ((nodes_t)1 << redlock->count) - 1;
        redlock->quorum = redlock->count / 2 + 1;
        redlock->told = redlock->count;
        for (uint32_t i = 0; i < redlock->count && code == PAWL_OK; i++) {
                struct node *node = &redlock->nodes[i];

                code = node->engine->ops->member->join(node->engine, &node->member);
        }
        return code == PAWL_OK ? code : why_set(why, code, "no memory to open %s", url->shown);
}

static int redlock_open(struct engine *engine, const struct url *url, struct pawl_why *why)
{
        struct redlock *redlock = redlock_of(engine);
        int code;

        list_init(&redlock->rounds);
        list_init(&redlock->spare_rounds);
        list_init(&redlock->renewals);
        list_init(&redlock->pending);
        list_init(&redlock->inquiries);
        list_init(&redlock->spare_places);
        redlock->node_host = *engine->host;
        redlock->tend.fire = tend_due;
        redlock->patience.fire = patience_over;
        redlock->announce_at = redlock->mend_at = NEVER;
        code = read_url(redlock, url, why);
        if (code != PAWL_OK)
                return code;
        if (places_init(redlock) != PAWL_OK || loop_set(engine->host->loop, &redlock->tend, NEVER) != 0)
                return why_set(why, PAWL_NO_MEMORY, "no memory to open %s", url->shown);
        engine->capabilities = PAWL_CAN_DELAY | PAWL_CAN_DETACH | PAWL_CAN_INSPECT | PAWL_CAN_BREAK | PAWL_CAN_ASK |
                               PAWL_TOKEN_DURABLE | PAWL_CAN_AGE;
        return open_nodes(redlock, url, why);
}

static void redlock_close(struct engine *engine)
{
        struct redlock *redlock = redlock_of(engine);
        struct loop *loop = engine->host->loop;

        for (uint32_t i = 0; i < redlock->count; i++) {
                struct node *node = &redlock->nodes[i];

                if (node->engine) {
                        node->engine->ops->close(node->engine);
                        free(node->engine);
                }
                url_free(node->url);
        }
        if (!redlock->rounds.next)
                return; /* nothing was begun */
        inspect_free(redlock);
        renewals_free(redlock);
        rounds_free(redlock);
        places_free(redlock);
        loop_unset(loop, &redlock->tend);
        loop_unset(loop, &redlock->patience);
}

const struct engine_ops redlock_engine = {
        .name = "redlock",
        .size = sizeof(struct redlock),
        .claim_size = sizeof(struct part),
        .open = redlock_open,
        .close = redlock_close,
        .acquire = claim_acquire,
        .cancel = claim_cancel,
        .overdue = claim_overdue,
        .renew = claim_renew,
        .release = claim_release,
        .inspect = &redlock_inspect,
        .leases = &redlock_leases,
};
