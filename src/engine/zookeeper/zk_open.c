/* zk_open.c - the URL of a ZooKeeper ensemble, names and paths, and the engine's ops table.
 *
 *   zk://[user:password@]host[:port][,host[:port]...][/chroot]?options      zks:// the same through TLS */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "zk.h"

extern const struct engine_ops zookeeper_engine;

enum { DEFAULT_PORT = 2181, DEFAULT_TLS_PORT = 2281, WHERE_MAX = 200 };

static int no_memory(struct pawl_why *why)
{
        return why_set(why, PAWL_NO_MEMORY, "no memory to open the ZooKeeper engine");
}

int64_t zk_wall_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* ---- names and paths ------------------------------------------------------------------------------------------- */

/* 8-4-4-4-12: as Curator writes a UUID. */
void zk_guid_write(const uint64_t uid[2], char *guid)
{
        char text[33];

        uid_text(uid, text);
        snprintf(guid, 37, "%.8s-%.4s-%.4s-%.4s-%.12s", text, text + 8, text + 12, text + 16, text + 20);
}

bool zk_guid_read(const char *guid, uint64_t uid[2])
{
        char text[33];

        if (guid[8] != '-' || guid[13] != '-' || guid[18] != '-' || guid[23] != '-')
                return false;
        memcpy(text, guid, 8);
        memcpy(text + 8, guid + 9, 4);
        memcpy(text + 12, guid + 14, 4);
        memcpy(text + 16, guid + 19, 4);
        memcpy(text + 20, guid + 24, 12);
        text[32] = '\0';
        return uid_read(text, uid);
}

void zk_path_of_name(const struct zk *zk, const char *name, size_t length, char *path)
{
        size_t chroot = strlen(zk->chroot);

        memcpy(path, zk->chroot, chroot);
        path[chroot] = '/';
        name_encode(name, length, NULL, path + chroot + 1);
}

/* What follows the uid: [sharing][lock-delay]-, and the word by which others know what it is. */
void zk_path_to_make(const struct zk_part *part, char *path)
{
        const struct claim *claim = part->claim;
        bool shared = claim->mode == PAWL_SHARED, readwrite = part->zk->readwrite;
        char guid[37], flags[16] = "";
        size_t length;

        zk_path_of_name(part->zk, claim->name, claim->name_length, path);
        length = strlen(path);
        zk_guid_write(claim->uid, guid);
        if (claim->max_holders)
                snprintf(flags, sizeof(flags), "n%lu", (unsigned long)claim->max_holders);
        else if (shared && !readwrite)
                strcpy(flags, "s");
        if (claim->delay)
                strcat(flags, "d");
        if (*flags)
                strcat(flags, "-");
        snprintf(path + length, ZK_PATH_MAX - length, "/_c_%s-%s%s", guid, flags,
                 !readwrite ? "lock-"
                 : shared   ? "__READ__"
                            : "__WRIT__");
}

void zk_path_of_part(const struct zk_part *part, char *path)
{
        size_t length;

        zk_path_to_make(part, path);
        length = strlen(path);
        snprintf(path + length, ZK_PATH_MAX - length, "%010d", (int)part->number);
}

void zk_path_of_own(const struct zk *zk, const char *rest, char *path)
{
        snprintf(path, ZK_PATH_MAX, "%s/.pawl%s%s", zk->chroot, rest ? "/" : "", rest ? rest : "");
}

static bool ends_with(const char *text, size_t *length, const char *word)
{
        size_t size = strlen(word);

        if (*length < size || memcmp(text + *length - size, word, size) != 0)
                return false;
        *length -= size;
        return true;
}

/* Takes the word off that stands before the number. Curator: lock-, __WRIT__, __READ__; kazoo: __lock__, __rlock__. */
static bool read_kind(const char *text, size_t *length, bool *shared)
{
        *shared = ends_with(text, length, "__READ__") || ends_with(text, length, "__rlock__");
        return *shared || ends_with(text, length, "lock-") || ends_with(text, length, "__WRIT__") ||
               ends_with(text, length, "__lock__");
}

/* The server writes the number as %010d: ten characters, or eleven below -999999999. A - before ten digits belongs to the
 * number if there is a word before it, and not to the word. Returns the length of what is before the number. */
static size_t read_number(struct jute_text name, int32_t *number)
{
        int64_t value = 0;
        size_t start = name.length - 10, before = start - 1;
        bool negative = name.at[start] == '-', shared;

        for (size_t i = start + negative; i < name.length; i++) {
                if (name.at[i] < '0' || name.at[i] > '9')
                        return 0;
                value = 10 * value + (name.at[i] - '0');
        }
        if (!negative && name.at[before] == '-' && read_kind(name.at, &before, &shared)) {
                negative = true;
                start--;
        }
        value = negative ? -value : value;
        if (value < INT32_MIN || value > INT32_MAX)
                return 0;
        *number = (int32_t)value;
        return start;
}

/* Our own words between the uid and the kind. */
static void read_flags(const char *flags, size_t length, struct zk_node *node)
{
        for (size_t i = 0; i < length; i++) {
                if (flags[i] == 's') {
                        node->contender.shared = true;
                } else if (flags[i] == 'd') {
                        node->delays = true;
                } else if (flags[i] == 'n') {
                        node->contender.shared = true;
                        for (; i + 1 < length && flags[i + 1] >= '0' && flags[i + 1] <= '9'; i++)
                                node->contender.limit = 10 * node->contender.limit + (uint32_t)(flags[i + 1] - '0');
                }
        }
}

bool zk_node_read(struct jute_text name, struct zk_node *node)
{
        enum { GUID_END = 3 + 36 };
        size_t length;

        memset(node, 0, sizeof(*node));
        if (name.length <= 10 || (length = read_number(name, &node->number)) == 0)
                return false;
        if (!read_kind(name.at, &length, &node->contender.shared))
                return false;
        if (length > GUID_END && memcmp(name.at, "_c_", 3) == 0 && name.at[GUID_END] == '-' &&
            zk_guid_read(name.at + 3, node->contender.uid) && length > GUID_END + 1)
                read_flags(name.at + GUID_END + 1, length - GUID_END - 1, node);
        return true;
}

int zk_request_own(struct zk_session *session, struct jute_out *out)
{
        const struct zk *zk = session->zk;
        char path[ZK_PATH_MAX];
        int count = 0;

        if (zk->make_chroot && *zk->chroot) {
                zk_request(session, ZK_CREATE);
                jute_put_create(out, zk->chroot, NULL, 0, zk->acl, ZK_PERSISTENT);
                count++;
        }
        zk_path_of_own(zk, NULL, path);
        zk_request(session, ZK_CREATE);
        jute_put_create(out, path, "0", 1, zk->acl, ZK_PERSISTENT);
        return count + 1;
}

/* ---- the URL --------------------------------------------------------------------------------------------------- */

static bool is_tls(const struct url *url)
{
        return strcmp(url->scheme, "zks") == 0;
}

static int read_hosts(struct zk *zk, const struct url *url, struct pawl_why *why)
{
        size_t count = url->host_count, length = 0;

        if (count == 0)
                return why_set(why, PAWL_INVALID, "%s: it names no server: zk://host,host,host/path", url->shown);
        zk->servers = calloc(count, sizeof(*zk->servers));
        zk->where = calloc(1, WHERE_MAX);
        if (!zk->servers || !zk->where)
                return no_memory(why);
        for (size_t i = 0; i < count; i++) {
                const struct url_host *host = &url->hosts[i];

                zk->servers[i].host = strdup(host->name);
                zk->servers[i].port = host->port ? host->port : is_tls(url) ? DEFAULT_TLS_PORT : DEFAULT_PORT;
                if (!zk->servers[i].host)
                        return no_memory(why);
                zk->server_count++;
                if (length < WHERE_MAX)
                        length += (size_t)snprintf(zk->where + length, WHERE_MAX - length,
                                                   strchr(host->name, ':') ? "%s[%s]:%u" : "%s%s:%u", i ? "," : "",
                                                   host->name, (unsigned)zk->servers[i].port);
        }
        return PAWL_OK;
}

static bool is_component(const char *text, size_t length)
{
        return length > 0 && !(length == 1 && text[0] == '.') && !(length == 2 && text[0] == '.' && text[1] == '.');
}

static int read_chroot(struct zk *zk, const struct url *url, struct pawl_why *why)
{
        size_t length = strlen(url->path);
        const char *at = url->path;

        while (length > 0 && url->path[length - 1] == '/')
                length--;
        if (length > ZK_CHROOT_MAX)
                return why_set(why, PAWL_INVALID, "%s: the path is longer than %d bytes", url->shown, ZK_CHROOT_MAX);
        zk->chroot = strndup(url->path, length);
        if (!zk->chroot)
                return no_memory(why);
        for (at = zk->chroot; *at; at += strcspn(at, "/")) {
                if (*at != '/' || !is_component(at + 1, strcspn(at + 1, "/")))
                        return why_set(why, PAWL_INVALID, "%s: %s is not a path that ZooKeeper takes", url->shown,
                                       zk->chroot);
                at++;
        }
        if (strcmp(zk->chroot, "/zookeeper") == 0 || strncmp(zk->chroot, "/zookeeper/", 11) == 0)
                return why_set(why, PAWL_INVALID, "%s: /zookeeper is the servers' own", url->shown);
        return PAWL_OK;
}

static int read_user(struct zk *zk, const struct url *url, struct pawl_why *why)
{
        if (!url->user || !*url->user)
                return PAWL_OK;
        if (!url->password)
                return why_set(why, PAWL_INVALID,
                               "%s: a user needs a password: user:password@, or passfile=", url->shown);
        if (asprintf(&zk->auth, "%s:%s", url->user, url->password) < 0) {
                zk->auth = NULL;
                return no_memory(why);
        }
        zk->acl = ZK_ACL_CREATOR;
        return PAWL_OK;
}

static int read_tls(struct zk *zk, const struct url *url, struct pawl_why *why)
{
        struct net_tls_options options;
        int code = net_tls_options(url, "zks", &options, why);

        return code == PAWL_OK && is_tls(url) ? net_tls_open(&options, &zk->tls, why) : code;
}

static int read_times(struct zk *zk, const struct url *url, struct pawl_why *why)
{
        int code = url_timeout(url, &zk->timeout, why);

        zk->idle = 60 * SECOND;
        if (code == PAWL_OK)
                code = url_slack(url, &zk->slack, why);
        return code == PAWL_OK ? url_duration(url, "tick", &zk->tick, why) : code;
}

static int read_url(struct zk *zk, const struct url *url, struct pawl_why *why)
{
        static const char *const known[] = {"ttl", "timeout", "slack", "tick",       "recipe",   "create",   "history",
                                            "ca",  "cert",    "key",   "servername", "insecure", "passfile", NULL};
        int code = url_only(url, known, why);

        zk->make_chroot = zk->history = true;
        if (code == PAWL_OK)
                code = read_hosts(zk, url, why);
        if (code == PAWL_OK)
                code = read_chroot(zk, url, why);
        if (code == PAWL_OK)
                code = read_user(zk, url, why);
        if (code == PAWL_OK)
                code = read_times(zk, url, why);
        if (code == PAWL_OK)
                code = url_choice(url, "recipe", "lock", "readwrite", &zk->readwrite, why);
        if (code == PAWL_OK)
                code = url_flag(url, "create", &zk->make_chroot, why);
        if (code == PAWL_OK)
                code = url_flag(url, "history", &zk->history, why);
        if (code == PAWL_OK)
                code = read_tls(zk, url, why);
        return code;
}

/* ---- open and close -------------------------------------------------------------------------------------------- */

static int zk_open(struct engine *engine, const struct url *url, struct pawl_why *why)
{
        struct zk *zk = zk_of(engine);
        uint64_t chance;
        int code;

        list_init(&zk->sessions);
        list_init(&zk->parked);
        list_init(&zk->ghosts);
        list_init(&zk->delays);
        list_init(&zk->spare_waits);
        list_init(&zk->questions);
        list_init(&zk->examinations);
        code = read_url(zk, url, why);
        if (code != PAWL_OK)
                return code;
        loop_random(engine->host->loop, &zk->client, sizeof(zk->client));
        loop_random(engine->host->loop, &chance, sizeof(chance));
        zk->first_server = chance % zk->server_count;
        if (table_init(&zk->claims) != PAWL_OK || table_init(&zk->tails) != PAWL_OK || zk_claims_open(zk) != PAWL_OK ||
            zk_news_open(zk) != PAWL_OK || zk_past_open(zk) != PAWL_OK || zk_idle_open(zk) != PAWL_OK)
                return no_memory(why);
        engine->capabilities = PAWL_CAN_SHARE | PAWL_CAN_LIMIT | PAWL_CAN_QUEUE | PAWL_CAN_DELAY | PAWL_CAN_DETACH |
                               PAWL_CAN_INSPECT | PAWL_CAN_BREAK | PAWL_CAN_ASK | PAWL_TOKEN_DURABLE | PAWL_CAN_AGE |
                               PAWL_CAN_KEEP;
        if (zk->history)
                engine->capabilities |= PAWL_CAN_HISTORY;
        return PAWL_OK;
}

/* The sessions are closed, so that what is still on them goes at once; what is detached lives on. */
static void zk_close(struct engine *engine)
{
        struct zk *zk = zk_of(engine);

        if (!zk->sessions.next)
                return;
        loop_unset(engine->host->loop, &zk->retry);
        zk_inspect_free(zk);
        zk_past_free(zk);
        zk_news_free(zk);
        zk_idle_free(zk);
        for (size_t i = 0; i < zk->claims.size; i++)
                for (struct link *link = zk->claims.rooms[i]; link; link = link->next)
                        zk_wait_end(container_of(link, struct zk_part, link));
        zk_delays_free(zk);
        zk_ghosts_free(zk);
        zk_sessions_close(zk);
        zk_waits_free(zk);
        table_free(&zk->claims);
        table_free(&zk->tails);
        net_tls_close(zk->tls);
        for (size_t i = 0; i < zk->server_count; i++)
                free(zk->servers[i].host);
        free(zk->servers);
        free(zk->earlier);
        free(zk->where);
        free(zk->chroot);
        url_wipe(zk->auth);
}

const struct engine_ops zookeeper_engine = {
        .name = "zookeeper",
        .size = sizeof(struct zk),
        .claim_size = sizeof(struct zk_part),
        .open = zk_open,
        .close = zk_close,
        .acquire = zk_claim_acquire,
        .cancel = zk_claim_cancel,
        .overdue = zk_claim_overdue,
        .renew = zk_claim_renew,
        .release = zk_claim_release,
        .inspect = &zk_inspect,
        .leases = &zk_leases,
        .values = &zk_values,
};
