/* redis_judge.c - what the answers of redis_examine.c mean for locks, and the command that mends what is wrong. Each judge_X
 * looks at one thing and tells at least whether it is fine, if that can be known. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/quote.h"
#include "redis_examine.h"

/* What scripts and connections of ours use, for an ACL. */
#define NEEDED                                                                                                         \
        "+eval +evalsha +select +ping +info +scan +subscribe +unsubscribe +publish +time +exists +get +mget +set "     \
        "+getset +del +pttl +pexpire +zadd +zscore +zcard +zrank +zrange +zrangebyscore +zrem +zpopmin +hset +hget "   \
        "+hvals +hmget +hlen +hdel +rpush +ltrim +lrange +rename +pubsub"

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static void tell(const struct examination *examination, enum pawl_severity severity, const char *mend,
                 const char *format, ...) __attribute__((format(printf, 4, 5)));
static void tell(const struct examination *examination, enum pawl_severity severity, const char *mend,
                 const char *format, ...)
{
        char what[1024];
        struct pawl_finding finding = {
                .severity = severity, .where = examination->redis->where, .what = what, .mend = mend};
        va_list args;

        if (!examination->inquiry)
                return;
        va_start(args, format);
        vsnprintf(what, sizeof(what), format, args);
        va_end(args);
        examination->inquiry->finding(examination->inquiry, &finding);
}

static bool is_local(const struct redis *redis)
{
        return redis->path || strcmp(redis->host, "localhost") == 0 || strncmp(redis->host, "127.", 4) == 0 ||
               strcmp(redis->host, "::1") == 0;
}

char *examine_cli_options(const struct net_tls_options *options)
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

/* redis-cli as it reaches this server, and what it is to do there. For an administrator, not for our own user: the password
 * it finds in REDISCLI_AUTH. */
static const char *command(struct examination *examination, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
static const char *command(struct examination *examination, const char *format, ...)
{
        const struct redis *redis = examination->redis;
        char *mend = examination->mend;
        size_t size = sizeof(examination->mend);
        char word[256];
        va_list args;
        size_t at;

        if (redis->path) {
                quote_for_shell(redis->path, word, sizeof(word));
                at = (size_t)snprintf(mend, size, "redis-cli -s %s", word);
        } else {
                quote_for_shell(redis->host, word, sizeof(word));
                at = (size_t)snprintf(mend, size, "redis-cli%s%s -p %u", is_local(redis) ? "" : " -h ",
                                      is_local(redis) ? "" : word, (unsigned)redis->target.port);
        }
        at += (size_t)snprintf(mend + at, size - at, "%s", redis->cli_options ? redis->cli_options : "");
        if (at >= size)
                return "";
        at += (size_t)snprintf(mend + at, size - at, " ");
        va_start(args, format);
        vsnprintf(mend + at, size - at, format, args);
        va_end(args);
        return mend;
}

/* Our own sentences begin with where it was; a finding says that besides. */
static const char *without_place(const struct examination *examination, const struct pawl_why *why)
{
        size_t length = strlen(examination->redis->where);

        if (strncmp(why->text, examination->redis->where, length) == 0 && strncmp(why->text + length, ": ", 2) == 0)
                return why->text + length + 2;
        return why->text;
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* A field of INFO, up to the end of its line. False: not told. */
static bool info_text(const struct examination *examination, const char *field, char *room, size_t size)
{
        size_t length = strlen(field);
        const char *at = examination->info;

        while (at && *at) {
                if (strncmp(at, field, length) == 0 && at[length] == ':') {
                        snprintf(room, size, "%.*s", (int)strcspn(at + length + 1, "\r\n"), at + length + 1);
                        return true;
                }
                at = strchr(at, '\n');
                at += at != NULL;
        }
        return false;
}

/* Negative: not told. */
static int64_t info_number(const struct examination *examination, const char *field)
{
        char text[32];

        return info_text(examination, field, text, sizeof(text)) ? strtoll(text, NULL, 10) : -1;
}

static bool info_is(const struct examination *examination, const char *field, const char *value)
{
        char text[64];

        return info_text(examination, field, text, sizeof(text)) && strcmp(text, value) == 0;
}

static int64_t setting_number(const struct examination *examination, enum setting setting)
{
        const char *text = examination->settings[setting];

        return *text ? strtoll(text, NULL, 10) : -1;
}

/* ---- what it is -------------------------------------------------------------------------------------------------- */

struct version {
        int major, minor, patch;
};

/* CVE-2025-49844 (and 46817 to 46819): the first versions without it, a line for each branch that was mended. */
static const struct version redis_mended[] = {{6, 2, 20}, {7, 2, 11}, {7, 4, 6}, {8, 0, 4}, {8, 2, 2}, {0, 0, 0}};
static const struct version valkey_mended[] = {{7, 2, 11}, {8, 0, 6}, {8, 1, 4}, {0, 0, 0}};

static bool has_hole(const struct version *version, const struct version *mended)
{
        for (; mended->major; mended++) {
                if (version->major == mended->major && version->minor == mended->minor)
                        return version->patch < mended->patch;
                if (!mended[1].major)
                        return version->major < mended->major ||
                               (version->major == mended->major && version->minor < mended->minor);
        }
        return false;
}

static void judge_version(struct examination *examination)
{
        const struct version *mended = valkey_mended;
        const char *brand = "Valkey";
        struct version version = {0};
        char text[32];

        if (!info_text(examination, "valkey_version", text, sizeof(text))) {
                brand = "Redis";
                mended = redis_mended;
                if (!info_text(examination, "redis_version", text, sizeof(text)))
                        return;
        }
        sscanf(text, "%d.%d.%d", &version.major, &version.minor, &version.patch);
        if (version.major < 5)
                tell(examination, PAWL_DANGER, "update it to Redis 6.2.20 or later",
                     "it is %s %s: scripts that read the clock and then write need 5.0", brand, text);
        else if (version.major < 6)
                tell(examination, PAWL_WARNING, "update it to Redis 6.2.20 or later",
                     "it is %s %s, which nobody mends any more", brand, text);
        else if (has_hole(&version, mended))
                tell(examination, PAWL_ADVICE,
                     mended == redis_mended ? "update it to Redis 6.2.20, 7.2.11, 7.4.6, 8.0.4, 8.2.2 or later"
                                            : "update it to Valkey 7.2.11, 8.0.6, 8.1.4 or later",
                     "it is %s %s: unless its distributor mended that, whoever may run scripts may take the server "
                     "over "
                     "(CVE-2025-49844)",
                     brand, text);
        else
                tell(examination, PAWL_FINE, "", "it is %s %s", brand, text);
}

static void judge_role(struct examination *examination)
{
        char primary[128], port[16];

        if (info_is(examination, "cluster_enabled", "1"))
                tell(examination, PAWL_DANGER, "",
                     "it is a node of a Redis Cluster, where the keys of a lock lie on several servers: use one that "
                     "is "
                     "not");
        if (info_is(examination, "redis_mode", "sentinel"))
                tell(examination, PAWL_DANGER, "", "it is a Sentinel, which keeps no data: use the primary it watches");
        if (!info_is(examination, "role", "slave"))
                return;
        if (!info_text(examination, "master_host", primary, sizeof(primary)) ||
            !info_text(examination, "master_port", port, sizeof(port)))
                *primary = *port = '\0';
        snprintf(examination->mend, sizeof(examination->mend), "export PAWL_URL=redis://%s:%s", primary, port);
        tell(examination, PAWL_DANGER, *primary ? examination->mend : "",
             "it is a read-only replica: locks need the primary");
}

/* ---- what it forgets --------------------------------------------------------------------------------------------- */

static void judge_memory(struct examination *examination)
{
        int64_t limit = info_number(examination, "maxmemory"), used = info_number(examination, "used_memory");
        char policy[64];

        if (limit < 0 || !info_text(examination, "maxmemory_policy", policy, sizeof(policy)))
                return;
        if (limit == 0) {
                tell(examination, PAWL_FINE, "", "it has no memory limit (maxmemory) and evicts nothing");
                return;
        }
        if (strcmp(policy, "noeviction") != 0)
                tell(examination, PAWL_DANGER, command(examination, "CONFIG SET maxmemory-policy noeviction"),
                     "it evicts %s when its memory is full (maxmemory-policy %s), so two may hold one",
                     strncmp(policy, "volatile", 8) == 0 ? "keys that expire, and locks are such,"
                                                         : "keys, also locks,",
                     policy);
        else
                tell(examination, PAWL_FINE, "", "it does not evict (maxmemory-policy noeviction)");
        if (used > limit / 10 * 9)
                tell(examination, PAWL_WARNING, command(examination, "CONFIG SET maxmemory %" PRId64, 2 * limit),
                     "its memory is nearly full: %" PRId64 " of %" PRId64 " MB (maxmemory)", used >> 20, limit >> 20);
}

static void judge_unsaved(struct examination *examination)
{
        const char *save = examination->settings[SAVE];

        tell(examination, PAWL_WARNING, command(examination, "CONFIG SET appendonly yes"),
             "a restart forgets the locks that were taken %s (appendonly no), and their holders do not hear of it; "
             "tokens "
             "go on by its clock",
             *save ? "since its last snapshot" : "before it");
}

static void judge_persistence(struct examination *examination)
{
        const char *fsync = examination->settings[APPENDFSYNC];
        const char *always = command(examination, "CONFIG SET appendfsync always");

        if (info_is(examination, "aof_enabled", "0"))
                judge_unsaved(examination);
        else if (!info_is(examination, "aof_enabled", "1"))
                return;
        else if (strcmp(fsync, "always") == 0)
                tell(examination, PAWL_FINE, "", "locks survive a crash (appendonly yes, appendfsync always)");
        else if (strcmp(fsync, "no") == 0)
                tell(examination, PAWL_WARNING, always,
                     "a power failure forgets locks of the last half minute (appendfsync no); a restart alone does "
                     "not");
        else if (*fsync)
                tell(examination, PAWL_ADVICE, always,
                     "a power failure forgets locks of the last second or two (appendfsync %s); a restart alone does "
                     "not",
                     fsync);
        else
                tell(examination, PAWL_FINE, "", "locks survive a restart (appendonly yes)");
        if (info_is(examination, "rdb_last_bgsave_status", "err") ||
            info_is(examination, "aof_last_write_status", "err") ||
            info_is(examination, "aof_last_bgrewrite_status", "err"))
                tell(examination, PAWL_WARNING, command(examination, "BGSAVE"),
                     "it could not save its data the last time, and may refuse to write: see its log, make room, then");
}

static void judge_replicas(struct examination *examination)
{
        int64_t replicas = info_number(examination, "connected_slaves");
        int64_t wanted = setting_number(examination, MIN_REPLICAS);

        if (replicas <= 0 || info_is(examination, "role", "slave"))
                return;
        if (wanted == 0)
                tell(examination, PAWL_WARNING, command(examination, "CONFIG SET min-replicas-to-write 1"),
                     "%" PRId64
                     " replica(s) follow it a moment later: a failover can lose a lock, and a primary that was "
                     "cut off goes on granting; tokens still fence",
                     replicas);
        else
                tell(examination, PAWL_ADVICE, "",
                     "%" PRId64
                     " replica(s) follow it a moment later: a failover can lose a lock that was just granted; "
                     "tokens still fence",
                     replicas);
}

static void judge_clock(struct examination *examination)
{
        int64_t off = examination->clock_off;

        if (!examination->clock_known)
                return;
        if (off > 1000000 || off < -1000000)
                tell(examination, PAWL_WARNING, "chronyc makestep",
                     "its clock is %.1f s %s ours: if it loses its data, tokens go on by its clock, and must not go "
                     "back",
                     (double)llabs(off) / 1000000, off > 0 ? "ahead of" : "behind");
        else
                tell(examination, PAWL_FINE, "", "its clock and ours agree");
}

/* ---- who may do what --------------------------------------------------------------------------------------------- */

/* A pattern of an ACL takes its own characters literally after a backslash. */
static void pattern_of(const char *prefix, char *room, size_t size)
{
        size_t at = 0;

        for (; *prefix && at + 3 < size; prefix++) {
                if (strchr("*?[]\\^", *prefix))
                        room[at++] = '\\';
                room[at++] = *prefix;
        }
        room[at] = '\0';
}

static const char *allow(struct examination *examination, const char *what)
{
        char user[256];

        quote_for_shell(examination->user, user, sizeof(user));
        return command(examination, "ACL SETUSER %s %s", user, what);
}

static const char *allow_all(struct examination *examination)
{
        char pattern[512], keys[600], word[700], what[1200];

        pattern_of(examination->redis->prefix, pattern, sizeof(pattern));
        snprintf(keys, sizeof(keys), "~%s*", pattern);
        quote_for_shell(keys, word, sizeof(word));
        snprintf(what, sizeof(what), "%s '~pawl:*' '&pawl:*' " NEEDED, word);
        return allow(examination, what);
}

static void judge_rights(struct examination *examination)
{
        const struct redis *redis = examination->redis;

        if (info_is(examination, "role", "slave") || info_is(examination, "cluster_enabled", "1"))
                return; /* nothing can be written there anyway */
        if (!examination->probed)
                tell(examination, PAWL_DANGER, examination->no_probe.code == PAWL_DENIED ? allow_all(examination) : "",
                     "it refuses what locks need: %s", without_place(examination, &examination->no_probe));
        else if (*examination->refused)
                tell(examination, PAWL_DANGER, allow_all(examination), "user %s may not do what locks need: %s (%s)",
                     examination->user, examination->refused, examination->refusal);
        else if (!redis->news.ready && redis->news.why.code == PAWL_DENIED)
                tell(examination, PAWL_DANGER, allow_all(examination), "user %s may not listen: %s", examination->user,
                     without_place(examination, &redis->news.why));
        else
                tell(examination, PAWL_FINE, "", "user %s may do what locks need", examination->user);
}

static void judge_sight(struct examination *examination)
{
        if (!examination->info)
                tell(examination, PAWL_ADVICE, allow(examination, "+info"), "most was not looked at: %s",
                     without_place(examination, &examination->no_info));
        if (examination->no_settings.code)
                tell(examination, PAWL_ADVICE, allow(examination, "'+config|get'"),
                     "some settings were not looked at: %s", without_place(examination, &examination->no_settings));
}

static void judge_access(struct examination *examination)
{
        const struct redis *redis = examination->redis;

        if (!redis->password && !redis->path && strcmp(examination->user, "default") == 0 &&
            !(redis->tls && strcmp(examination->settings[TLS_CLIENTS], "yes") == 0))
                tell(examination, is_local(redis) ? PAWL_ADVICE : PAWL_WARNING,
                     command(examination, "CONFIG SET requirepass SECRET"),
                     "it lets in whoever reaches it: set a password, and put it in the URL or a file (passfile=)");
        if (!redis->tls && !is_local(redis))
                tell(examination, PAWL_WARNING, "use rediss:// and a server with tls-port",
                     "everything goes over the network in clear: who listens can take locks and the password");
}

/* ---- what cuts us off -------------------------------------------------------------------------------------------- */

static void judge_pubsub_limit(struct examination *examination)
{
        const char *at = strstr(examination->settings[OUTPUT_LIMIT], "pubsub ");
        long long hard, soft;

        if (!at || sscanf(at, "pubsub %lld %lld", &hard, &soft) != 2)
                return;
        if ((hard > 0 && hard < 1 << 20) || (soft > 0 && soft < 1 << 18))
                tell(examination, PAWL_ADVICE,
                     command(examination, "CONFIG SET client-output-buffer-limit 'pubsub 33554432 8388608 60'"),
                     "who waits for many locks may be cut off: client-output-buffer-limit leaves %lld bytes for news",
                     hard);
}

static void judge_patterns(struct examination *examination)
{
        int64_t patterns = info_number(examination, "pubsub_patterns");

        if (patterns > 0)
                tell(examination, PAWL_ADVICE, command(examination, "CLIENT LIST TYPE pubsub"),
                     "a monitor listens to %" PRId64
                     " pattern(s) (PSUBSCRIBE): handing a lock over costs a little more",
                     patterns);
}

static void judge_connections(struct examination *examination)
{
        int64_t timeout = setting_number(examination, TIMEOUT), keepalive = setting_number(examination, KEEPALIVE);
        int64_t limit = setting_number(examination, LUA_LIMIT);
        int64_t clients = info_number(examination, "connected_clients");
        int64_t most = setting_number(examination, MAX_CLIENTS);

        if (timeout > 0)
                tell(examination, PAWL_ADVICE, command(examination, "CONFIG SET timeout 0"),
                     "it cuts off who is silent for %" PRId64
                     " s (timeout), and a lease of three times that is renewed no "
                     "more often",
                     timeout);
        if (keepalive == 0)
                tell(examination, PAWL_ADVICE, command(examination, "CONFIG SET tcp-keepalive 60"),
                     "it never notices clients that vanished (tcp-keepalive 0)");
        if (limit == 0 || limit > 10000)
                tell(examination, PAWL_ADVICE, command(examination, "CONFIG SET lua-time-limit 5000"),
                     "somebody's script may keep it from answering, unseen, for %s (lua-time-limit)",
                     limit ? "more than 10 s" : "ever");
        if (most > 0 && clients > most / 10 * 9)
                tell(examination, PAWL_WARNING, command(examination, "CONFIG SET maxclients %" PRId64, 2 * most),
                     "%" PRId64 " of at most %" PRId64 " clients are connected (maxclients)", clients, most);
        judge_pubsub_limit(examination);
        judge_patterns(examination);
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

void judge_all(struct examination *examination)
{
        tell(examination, PAWL_FINE, "", "it answers, in %.2f ms at best", (double)examination->answered_in / 1e6);
        judge_version(examination);
        judge_role(examination);
        judge_rights(examination);
        judge_memory(examination);
        judge_persistence(examination);
        judge_replicas(examination);
        judge_clock(examination);
        judge_access(examination);
        judge_connections(examination);
        judge_sight(examination);
}

void judge_absence(struct examination *examination, const struct pawl_why *why)
{
        const char *mend = "";

        if (why->code == PAWL_DENIED && !examination->redis->tls)
                mend = "put user and password in the URL, or the password in a file: redis://USER@HOST?passfile=FILE";
        tell(examination, PAWL_DANGER, mend, "%s", without_place(examination, why));
}
