/* redis_guard_examine.c - asks a server about itself, and what the answers mean for marks. What loses a mark lets an old
 * token pass, so that is what is looked for. That the server cannot be reached, or refuses us, is an answer too. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/quote.h"
#include "redis_guard.h"

/* What scripts and connections of ours use, for an ACL. */
#define NEEDED "+eval +evalsha +select +get +set +strlen +del +scan"

/* What was learned. Text that is not known is empty. */
struct examination {
        struct redis_guard *guard;
        pawl_finding_fn *fn;
        void *arg;
        bool ended; /* enough was told */
        char *info; /* or NULL */
        struct pawl_why no_info;
        char appendfsync[32];
        char min_replicas[32];
        char tls_clients[32];
        struct pawl_why no_settings;
        char user[128];
        bool has_functions; /* the library pawl is there */
        bool probed;
        struct pawl_why no_probe;
        char refused[256]; /* commands */
        char refusal[256]; /* the first error */
        int64_t answered_in;
        char mend[4096]; /* the command being told */
};

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static void tell(struct examination *examination, enum pawl_severity severity, const char *mend, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));
static void tell(struct examination *examination, enum pawl_severity severity, const char *mend, const char *format,
                 ...)
{
        char what[1024];
        struct pawl_finding finding = {
                .severity = severity, .where = examination->guard->where, .what = what, .mend = mend};
        va_list args;

        if (examination->ended)
                return;
        va_start(args, format);
        vsnprintf(what, sizeof(what), format, args);
        va_end(args);
        examination->ended = examination->fn(&finding, examination->arg) != 0;
}

static bool is_local(const struct redis_guard *guard)
{
        return guard->path || strcmp(guard->host, "localhost") == 0 || strncmp(guard->host, "127.", 4) == 0 ||
               strcmp(guard->host, "::1") == 0;
}

/* redis-cli as it reaches this server, and what it is to do there. For an administrator, not for our own user: the password
 * it finds in REDISCLI_AUTH. */
static const char *command(struct examination *examination, const char *format, ...)
        __attribute__((format(printf, 2, 3)));
static const char *command(struct examination *examination, const char *format, ...)
{
        const struct redis_guard *guard = examination->guard;
        char *mend = examination->mend;
        size_t size = sizeof(examination->mend);
        char word[256];
        va_list args;
        size_t at;

        quote_for_shell(guard->path ? guard->path : guard->host, word, sizeof(word));
        if (guard->path)
                at = (size_t)snprintf(mend, size, "redis-cli -s %s", word);
        else
                at = (size_t)snprintf(mend, size, "redis-cli%s%s -p %u", is_local(guard) ? "" : " -h ",
                                      is_local(guard) ? "" : word, (unsigned)guard->target.port);
        at += (size_t)snprintf(mend + at, size - at, "%s ", guard->cli_options ? guard->cli_options : "");
        if (at >= size)
                return "";
        va_start(args, format);
        vsnprintf(mend + at, size - at, format, args);
        va_end(args);
        return mend;
}

/* Our own sentences begin with where it was; a finding says that besides. */
static const char *without_place(const struct examination *examination, const struct pawl_why *why)
{
        size_t length = strlen(examination->guard->where);

        if (strncmp(why->text, examination->guard->where, length) == 0 && strncmp(why->text + length, ": ", 2) == 0)
                return why->text + length + 2;
        return why->text;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static bool is_text(const redisReply *reply)
{
        return (reply->type == REDIS_REPLY_STRING || reply->type == REDIS_REPLY_STATUS) && reply->str;
}

/* Up to three words; the reply to be freed, or NULL and why. */
static redisReply *ask(struct examination *examination, const char *first, const char *second, const char *third,
                       struct pawl_why *why)
{
        struct words words = {.count = 0};
        struct answer answer;

        words_text(&words, first);
        if (second)
                words_text(&words, second);
        if (third)
                words_text(&words, third);
        line_ask(examination->guard, &words, &answer, why);
        return answer.reply;
}

static int ask_info(struct examination *examination)
{
        int64_t since;
        redisReply *reply = ask(examination, "PING", NULL, NULL, &examination->no_info); /* connects, too */

        freeReplyObject(reply);
        since = loop_now(&examination->guard->loop);
        reply = ask(examination, "INFO", NULL, NULL, &examination->no_info);
        examination->answered_in = loop_now(&examination->guard->loop) - since;
        if (reply && is_text(reply))
                examination->info = strdup(reply->str);
        freeReplyObject(reply);
        if (!reply && (examination->no_info.code != PAWL_DENIED || strstr(examination->no_info.text, "NOAUTH")))
                return examination->no_info.code;
        return PAWL_OK;
}

static void ask_setting(struct examination *examination, const char *name, char *room, size_t size)
{
        redisReply *reply = ask(examination, "CONFIG", "GET", name, &examination->no_settings);

        if (reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && is_text(reply->element[1]))
                snprintf(room, size, "%s", reply->element[1]->str);
        freeReplyObject(reply);
}

static void ask_settings(struct examination *examination)
{
        ask_setting(examination, "appendfsync", examination->appendfsync, sizeof(examination->appendfsync));
        ask_setting(examination, "min-replicas-to-write", examination->min_replicas, sizeof(examination->min_replicas));
        ask_setting(examination, "tls-auth-clients", examination->tls_clients, sizeof(examination->tls_clients));
}

static void ask_user(struct examination *examination)
{
        struct pawl_why ignored;
        const char *user = examination->guard->user;
        redisReply *reply = ask(examination, "ACL", "WHOAMI", NULL, &ignored);

        if (reply && is_text(reply))
                user = reply->str;
        snprintf(examination->user, sizeof(examination->user), "%s", user ? user : "default");
        freeReplyObject(reply);
}

static void ask_functions(struct examination *examination)
{
        struct words words = {.count = 0};
        struct pawl_why ignored;
        struct answer answer;

        words_text(&words, "FUNCTION");
        words_text(&words, "LIST");
        words_text(&words, "LIBRARYNAME");
        words_text(&words, "pawl");
        line_ask(examination->guard, &words, &answer, &ignored);
        examination->has_functions =
                answer.reply && answer.reply->type == REDIS_REPLY_ARRAY && answer.reply->elements > 0;
        freeReplyObject(answer.reply);
}

static void take_probe(struct examination *examination, const redisReply *reply)
{
        size_t at = 0;

        examination->probed = reply->type == REDIS_REPLY_ARRAY;
        for (size_t i = 0; examination->probed && i + 1 < reply->elements; i += 2) {
                if (!is_text(reply->element[i]) || !is_text(reply->element[i + 1]))
                        continue;
                if (i == 0)
                        snprintf(examination->refusal, sizeof(examination->refusal), "%.200s", reply->element[1]->str);
                if (at < sizeof(examination->refused))
                        at += (size_t)snprintf(examination->refused + at, sizeof(examination->refused) - at, "%s%s",
                                               at ? " " : "", reply->element[i]->str);
        }
}

static void ask_probe(struct examination *examination)
{
        struct redis_guard *guard = examination->guard;
        char mark[KEY_MAX];
        struct words words;
        struct answer answer;

        snprintf(mark, sizeof(mark), "pawl:mark:%s?", guard->prefix);
        words_script(&words, FENCE_PROBE, 4);
        words_text(&words, mark + strlen("pawl:mark:"));
        words_text(&words, mark);
        words_text(&words, guard->floor_key);
        words_text(&words, guard->line_key);
        line_ask(guard, &words, &answer, &examination->no_probe);
        if (answer.reply)
                take_probe(examination, answer.reply);
        freeReplyObject(answer.reply);
        guard->lined = false; /* the probe has deleted it */
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

/* ---- judging ----------------------------------------------------------------------------------------------------- */

static void judge_version(struct examination *examination)
{
        const char *brand = "Valkey";
        char text[32];

        if (!info_text(examination, "valkey_version", text, sizeof(text))) {
                brand = "Redis";
                if (!info_text(examination, "redis_version", text, sizeof(text)))
                        return;
        }
        if (strtol(text, NULL, 10) < 6)
                tell(examination, PAWL_WARNING, "update it to Redis 6.2 or later",
                     "it is %s %s, which nobody mends any more", brand, text);
        else if (examination->has_functions)
                tell(examination, PAWL_FINE, "", "it is %s %s, with the functions of pawl for other clients", brand,
                     text);
        else
                tell(examination, PAWL_FINE, "", "it is %s %s", brand, text);
}

/* {tag}: all keys of the namespace lie in one slot, for the names of ours repeat the prefix. */
static bool has_tag(const char *prefix)
{
        const char *open = strchr(prefix, '{');

        return open && open[1] != '}' && strchr(open, '}');
}

static void judge_role(struct examination *examination)
{
        char primary[128], port[16];

        if (info_is(examination, "cluster_enabled", "1") && !has_tag(examination->guard->prefix))
                tell(examination, PAWL_DANGER, "put a prefix with a hash tag into the URL: prefix={data}:",
                     "it is a node of a Redis Cluster, where data and mark must lie in one slot");
        if (info_is(examination, "redis_mode", "sentinel"))
                tell(examination, PAWL_DANGER, "", "it is a Sentinel, which keeps no data: use the primary it watches");
        if (!info_is(examination, "role", "slave"))
                return;
        if (!info_text(examination, "master_host", primary, sizeof(primary)) ||
            !info_text(examination, "master_port", port, sizeof(port)))
                *primary = *port = '\0';
        snprintf(examination->mend, sizeof(examination->mend), "use redis://%s:%s", primary, port);
        tell(examination, PAWL_DANGER, *primary ? examination->mend : "",
             "it is a read-only replica: marks need the primary");
}

static void judge_memory(struct examination *examination)
{
        int64_t limit = info_number(examination, "maxmemory"), used = info_number(examination, "used_memory");
        char policy[64];

        if (limit < 0 || !info_text(examination, "maxmemory_policy", policy, sizeof(policy)))
                return;
        if (limit == 0)
                tell(examination, PAWL_FINE, "", "it has no memory limit (maxmemory) and evicts nothing");
        else if (strncmp(policy, "allkeys", 7) == 0)
                tell(examination, PAWL_DANGER, command(examination, "CONFIG SET maxmemory-policy noeviction"),
                     "it evicts keys, also marks, when its memory is full (maxmemory-policy %s): then old tokens pass",
                     policy);
        else
                tell(examination, PAWL_FINE, "", "it does not evict marks (maxmemory-policy %s)", policy);
        if (limit > 0 && used > limit / 10 * 9)
                tell(examination, PAWL_WARNING, command(examination, "CONFIG SET maxmemory %" PRId64, 2 * limit),
                     "its memory is nearly full: %" PRId64 " of %" PRId64
                     " MB (maxmemory); when it is, it refuses every "
                     "token",
                     used >> 20, limit >> 20);
}

static void judge_saving(struct examination *examination)
{
        if (info_is(examination, "rdb_last_bgsave_status", "err") ||
            info_is(examination, "aof_last_write_status", "err") ||
            info_is(examination, "aof_last_bgrewrite_status", "err"))
                tell(examination, PAWL_WARNING, command(examination, "BGSAVE"),
                     "it could not save its data the last time, and may refuse to write: see its log, make room, then");
}

static void judge_persistence(struct examination *examination)
{
        const char *fsync = examination->appendfsync;

        if (info_is(examination, "aof_enabled", "0"))
                tell(examination, PAWL_WARNING, command(examination, "CONFIG SET appendonly yes"),
                     "a restart forgets marks (appendonly no): then old tokens pass");
        else if (!info_is(examination, "aof_enabled", "1"))
                return;
        else if (strcmp(fsync, "always") == 0)
                tell(examination, PAWL_FINE, "", "marks survive a crash (appendonly yes, appendfsync always)");
        else if (*fsync)
                tell(examination, PAWL_WARNING, command(examination, "CONFIG SET appendfsync always"),
                     "a power failure forgets marks, and the data, of the last %s (appendfsync %s): then tokens pass "
                     "that were refused; a restart alone forgets nothing",
                     strcmp(fsync, "no") == 0 ? "half minute" : "second or two", fsync);
        else
                tell(examination, PAWL_FINE, "", "marks survive a restart (appendonly yes)");
        judge_saving(examination);
}

static void judge_replicas(struct examination *examination)
{
        int64_t replicas = info_number(examination, "connected_slaves");

        if (replicas <= 0 || info_is(examination, "role", "slave"))
                return;
        tell(examination, PAWL_WARNING,
             strcmp(examination->min_replicas, "0") == 0 ? command(examination, "CONFIG SET min-replicas-to-write 1")
                                                         : "",
             "%" PRId64 " replica(s) follow it a moment later: a failover forgets the marks, and the data, of that "
             "moment, and tokens pass that were refused",
             replicas);
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
        static const char *const kinds[] = {"", "pawl:mark:", "pawl:floor:", "pawl:line:", "pawl:swap:"};
        char pattern[2 * PREFIX_MAX + 4], keys[2 * PREFIX_MAX + 32], word[4 * PREFIX_MAX], what[2048];
        size_t at = 0;

        pattern_of(examination->guard->prefix, pattern, sizeof(pattern));
        for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
                snprintf(keys, sizeof(keys), "~%s%s*", kinds[i], pattern);
                quote_for_shell(keys, word, sizeof(word));
                at += (size_t)snprintf(what + at, sizeof(what) - at, "%s ", word);
                if (at >= sizeof(what))
                        return "";
        }
        snprintf(what + at, sizeof(what) - at, NEEDED);
        return allow(examination, what);
}

static void judge_rights(struct examination *examination)
{
        if (info_is(examination, "role", "slave") || examination->no_probe.code == PAWL_UNSUPPORTED)
                return; /* nothing can be written there anyway, and that is told */
        if (!examination->probed)
                tell(examination, PAWL_DANGER, examination->no_probe.code == PAWL_DENIED ? allow_all(examination) : "",
                     "it refuses what a guard needs: %s", without_place(examination, &examination->no_probe));
        else if (*examination->refused)
                tell(examination, PAWL_DANGER, allow_all(examination), "user %s may not do what a guard needs: %s (%s)",
                     examination->user, examination->refused, examination->refusal);
        else
                tell(examination, PAWL_FINE, "", "user %s may do what a guard needs", examination->user);
}

static void judge_access(struct examination *examination)
{
        const struct redis_guard *guard = examination->guard;

        if (!guard->password && !guard->path && strcmp(examination->user, "default") == 0 &&
            !(guard->tls && strcmp(examination->tls_clients, "yes") == 0))
                tell(examination, is_local(guard) ? PAWL_ADVICE : PAWL_WARNING,
                     command(examination, "CONFIG SET requirepass SECRET"),
                     "it lets in whoever reaches it, and they may write past the guard: set a password, and put it in "
                     "the URL or a file (passfile=)");
        if (!guard->tls && !is_local(guard))
                tell(examination, PAWL_WARNING, "use rediss:// and a server with tls-port",
                     "everything goes over the network in clear: who listens reads the data and the password");
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

static void judge_all(struct examination *examination)
{
        tell(examination, PAWL_FINE, "", "it answers, in %.2f ms", (double)examination->answered_in / 1e6);
        judge_version(examination);
        judge_role(examination);
        judge_rights(examination);
        judge_memory(examination);
        judge_persistence(examination);
        judge_replicas(examination);
        judge_access(examination);
        judge_sight(examination);
}

static void judge_absence(struct examination *examination, const struct pawl_why *why)
{
        const char *mend = "";

        if (why->code == PAWL_DENIED && !examination->guard->tls)
                mend = "put user and password in the URL, or the password in a file: redis://USER@HOST?passfile=FILE";
        tell(examination, PAWL_DANGER, mend, "%s", without_place(examination, why));
}

static void examine(struct examination *examination)
{
        if (ask_info(examination) != PAWL_OK || !examination->guard->greeted) {
                judge_absence(examination, &examination->no_info);
                return;
        }
        ask_settings(examination);
        ask_user(examination);
        ask_functions(examination);
        ask_probe(examination);
        judge_all(examination);
}

int redis_guard_examine(pawl_guard *opened, pawl_finding_fn *fn, void *arg, struct pawl_why *why)
{
        struct redis_guard *guard = redis_guard_of(opened);
        struct examination *examination;
        int code = line_enter(guard, why);

        if (code != PAWL_OK)
                return code;
        examination = calloc(1, sizeof(*examination));
        if (examination) {
                examination->guard = guard;
                examination->fn = fn;
                examination->arg = arg;
                examine(examination);
                free(examination->info);
                free(examination);
        } else {
                code = why_set(why, PAWL_NO_MEMORY, "no memory to examine the guard");
        }
        line_leave(guard);
        return code;
}
