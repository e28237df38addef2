/* redis_guard_ask.c - a command and what becomes of it: what error replies mean, when it is sent again, whether it was done.
 *
 * A reply that is lost leaves in doubt whether the command was done, or will be: bytes may sit in the socket of a server
 * that stands still, and be read after what we send on the next connection. For a mark that does no harm, it only grows.
 * But a put that comes late would undo one that came after it with the same token. So whatever changes data names the line
 * of this guard, a key with a word for each connection and the number of the last request that was done. A new connection
 * writes its own word there before its first change, and learns that number: what was sent before is done, or never will
 * be. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis_guard.h"

enum { LOSSES_MAX = 4, LATES_MAX = 4, DATA_MAX = 60 << 20 };

#define LINE_TAKEN_FOR (300 * SECOND) /* it lasts twice as long, and begins again with each change */

/* ---- commands ---------------------------------------------------------------------------------------------------- */

void words_add(struct words *words, const char *bytes, size_t size)
{
        words->at[words->count] = bytes;
        words->size[words->count++] = size;
}

void words_text(struct words *words, const char *text)
{
        words_add(words, text, strlen(text));
}

void words_script(struct words *words, enum fence_script script, size_t keys)
{
        words->script = &fence_list[script];
        words->count = 0;
        words->changes = false;
        snprintf(words->keys, sizeof(words->keys), "%u", (unsigned)keys);
        words_text(words, "EVALSHA");
        words_text(words, words->script->digest);
        words_text(words, words->keys);
}

/* With its text, for a server that does not know it. */
static void tell_script(struct words *words)
{
        words->at[0] = "EVAL";
        words->size[0] = 4;
        words->at[1] = words->script->text;
        words->size[1] = words->script->length;
}

static bool knows_script(const struct words *words)
{
        return !words->script || words->size[0] == 4;
}

/* ---- what error replies mean ------------------------------------------------------------------------------------- */

/* They begin with a word. */
static const struct meaning {
        const char *word;
        int code;
        const char *text;
} meanings[] = {
        {"NOAUTH", PAWL_DENIED, "it wants a password: give one in the URL, or with passfile="},
        {"WRONGPASS", PAWL_DENIED, "it refuses the user or the password"},
        {"NOPERM", PAWL_DENIED, "the user may not do that there"},
        {"DENIED", PAWL_DENIED, "it is in protected mode and does not serve us"},
        {"READONLY", PAWL_UNREACHABLE, "it is a read-only replica: marks need the primary"},
        {"LOADING", PAWL_UNREACHABLE, "it is still loading its data"},
        {"MASTERDOWN", PAWL_UNREACHABLE, "it is a replica without its primary"},
        {"NOREPLICAS", PAWL_UNREACHABLE, "it has fewer replicas than it is told to write with"},
        {"BUSY", PAWL_UNREACHABLE, "it is busy with somebody's long script"},
        {"OOM", PAWL_FULL, "it has no memory left for data (maxmemory)"},
        {"MISCONF", PAWL_FULL, "it cannot save its data and refuses to write"},
        {"MOVED", PAWL_UNSUPPORTED, "another node of the Redis Cluster has the prefix: give the URL of that one"},
        {"ASK", PAWL_UNSUPPORTED, "another node of the Redis Cluster has the prefix: give the URL of that one"},
        {"CROSSSLOT", PAWL_UNSUPPORTED, "in a Redis Cluster the prefix must have a hash tag: prefix={data}:"},
        {"CLUSTERDOWN", PAWL_UNREACHABLE, "the Redis Cluster is down"},
        {"CORRUPT", PAWL_CORRUPT, "what stands in the place of a token is damaged"},
        {"WRONGTYPE", PAWL_CORRUPT, "the data are no string: they were not written here, and are left alone"},
        {"INVALID", PAWL_INVALID, "it does not take that"},
        {"LATE", PAWL_UNREACHABLE, "it takes us for a connection that is gone"},
        {"STALE", PAWL_STALE, "a greater one has been admitted"},
};

static const struct meaning *meaning_of(const char *text)
{
        size_t length = strcspn(text, " \r\n");

        for (size_t i = 0; i < sizeof(meanings) / sizeof(*meanings); i++)
                if (strlen(meanings[i].word) == length && memcmp(meanings[i].word, text, length) == 0)
                        return &meanings[i];
        return NULL;
}

/* An error inside a script comes with the script's name before or after (Redis 6): the word may be anywhere. */
static const struct meaning *find_meaning(const char *text)
{
        const struct meaning *meaning = meaning_of(text);

        for (const char *at = text; !meaning && (at = strpbrk(at, " :-")) != NULL;)
                meaning = meaning_of(++at);
        return meaning;
}

int line_explain(const struct redis_guard *guard, const char *text, struct pawl_why *why)
{
        const struct meaning *meaning = find_meaning(text);
        const char *where = guard->where;

        if (meaning)
                return why_set(why, meaning->code, "%s: %s (%.200s)", where, meaning->text, text);
        if (strstr(text, "max number of clients"))
                return why_set(why, PAWL_UNREACHABLE, "%s: it has as many clients as it takes (maxclients)", where);
        if (strstr(text, "unauthenticated"))
                return why_set(why, PAWL_DENIED,
                               "%s: it wants a password: give one in the URL, or with passfile=", where);
        if (strstr(text, "without any password configured"))
                return why_set(why, PAWL_DENIED, "%s: the URL has a password, and the server has none", where);
        if (strstr(text, "user executing the script")) /* Redis before 7.2: NOPERM without that word */
                return why_set(why, PAWL_DENIED, "%s: the user may not do that there (%.200s)", where, text);
        if (strstr(text, "unknown command") || strstr(text, "Unknown Redis command"))
                return why_set(why, PAWL_UNSUPPORTED, "%s: it is too old, or a command is switched off: %.200s", where,
                               text);
        return why_set(why, PAWL_SYSTEM, "%s: it says: %.300s", where, text);
}

static bool begins(const redisReply *reply, const char *word)
{
        return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, word, strlen(word)) == 0;
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* From now on, whatever we sent before is refused if it comes later. The reply is the number of the last that was done; "?"
 * if the line was lost when it mattered; or an error. */
static int ask_line(struct redis_guard *guard, int64_t until, bool doubtful, redisReply **reply, struct pawl_why *why)
{
        struct words words = {.count = 0};
        bool sent = false;
        uint64_t word;

        loop_random(&guard->loop, &word, sizeof(word));
        snprintf(guard->line_word, sizeof(guard->line_word), "%016" PRIx64 " %016" PRIx64, word, guard->requests);
        words_script(&words, FENCE_LINE, 1);
        tell_script(&words);
        words_text(&words, guard->line_key);
        words_add(&words, guard->line_word, 16);
        words_text(&words, doubtful ? "?" : "0000000000000000");
        return line_exchange(guard, &words, until, &sent, reply, why);
}

struct request {
        struct words *words;
        struct answer *answer;
        int64_t until;
        struct net_backoff backoff;
        uint64_t connections; /* before this */
        int losses;           /* of replies */
        bool doubtful;        /* it may have been done */
        int lates;
};

/* An error is left as the answer. */
static int take_line(struct redis_guard *guard, struct request *request, struct pawl_why *why)
{
        struct answer *answer = request->answer;
        redisReply *reply = NULL;
        int code = ask_line(guard, request->until, request->doubtful, &reply, why);

        if (code != PAWL_OK)
                return code;
        if (reply->type == REDIS_REPLY_ERROR) {
                answer->reply = reply;
                return PAWL_OK;
        }
        if (reply->type != REDIS_REPLY_STRING) {
                freeReplyObject(reply);
                return why_set(why, PAWL_SYSTEM, "%s: an answer that makes no sense", guard->where);
        }
        guard->lined = true;
        guard->lined_at = loop_now(&guard->loop);
        if (request->doubtful && strcmp(reply->str, guard->line_word + 17) == 0)
                answer->done = true;
        else if (request->doubtful)
                request->doubtful = strcmp(reply->str, "?") == 0;
        freeReplyObject(reply);
        return PAWL_OK;
}

/* Before it could end by itself. */
static bool is_lined(struct redis_guard *guard)
{
        return guard->lined && loop_now(&guard->loop) - guard->lined_at < LINE_TAKEN_FOR;
}

/* PAWL_OK: there is a reply, which may be an error; or it was done before. */
static int send_once(struct redis_guard *guard, struct request *request, struct pawl_why *why)
{
        redisReply **reply = &request->answer->reply;
        bool sent = false;
        int code = line_come_up(guard, request->until, why);

        if (code == PAWL_OK && request->words->changes && !is_lined(guard))
                code = take_line(guard, request, why);
        if (code != PAWL_OK || *reply || request->answer->done)
                return code;
        code = line_exchange(guard, request->words, request->until, &sent, reply, why);
        if (code != PAWL_OK && sent) {
                request->losses++;
                request->doubtful = true;
        }
        return code;
}

static void drop_reply(struct answer *answer)
{
        freeReplyObject(answer->reply);
        answer->reply = NULL;
}

/* Nothing was done, and what was missing will be there the next time. */
static bool ask_at_once(struct redis_guard *guard, struct request *request)
{
        const redisReply *reply = request->answer->reply;

        if (begins(reply, "NOSCRIPT") && !knows_script(request->words))
                tell_script(request->words);
        else if (begins(reply, "LATE") && request->lates++ < LATES_MAX)
                guard->lined = false;
        else
                return false;
        drop_reply(request->answer);
        return true;
}

/* Refused because of the server's role: a failover may have given it to another, at the same address. So this connection is
 * left; if it was there before this request, the next one decides. */
static bool leave_server(struct redis_guard *guard, const struct request *request)
{
        static const char *const roles[] = {"READONLY", "MASTERDOWN", "NOREPLICAS", "LOADING"};
        const redisReply *reply = request->answer->reply;
        const struct meaning *meaning = reply->type == REDIS_REPLY_ERROR ? find_meaning(reply->str) : NULL;

        for (size_t i = 0; meaning && i < sizeof(roles) / sizeof(*roles); i++) {
                if (strcmp(meaning->word, roles[i]) != 0)
                        continue;
                net_fail(&guard->net, PAWL_UNREACHABLE, "%s", reply->str);
                if (guard->net.connections != request->connections)
                        return false;
                drop_reply(request->answer);
                return true;
        }
        return false;
}

/* Errors are final, but for those that are over soon. */
static bool is_final(const redisReply *reply)
{
        return reply && !begins(reply, "LOADING") && !begins(reply, "BUSY");
}

/* A server that was there before is waited for; that one never was is told at once, unless it was a cut. */
static bool may_try_again(const struct redis_guard *guard, const struct request *request, int code)
{
        uint64_t came_up = guard->net.connections - request->connections;

        if (code != PAWL_UNREACHABLE || loop_now(&guard->loop) >= request->until || request->losses >= LOSSES_MAX)
                return false;
        return guard->ever || (came_up > 0 && came_up < LOSSES_MAX);
}

static void pause_for(struct redis_guard *guard, struct request *request)
{
        int64_t at = loop_now(&guard->loop) + net_backoff(&request->backoff, &guard->loop);

        if (request->losses == 1 && request->backoff.tries == 1)
                return; /* cut off: the next connection will do */
        if (at > request->until)
                at = request->until;
        while (loop_now(&guard->loop) < at) {
                loop_wait(&guard->loop, at);
                loop_turn(&guard->loop);
        }
}

static void read_greatest(struct answer *answer)
{
        const char *at = strpbrk(answer->reply->str, "0123456789");

        answer->greatest = at ? strtoull(at, NULL, 10) : 0;
}

/* PAWL_OK: a reply that is no error; or it was done before. */
static int ask_until(struct redis_guard *guard, struct request *request, struct pawl_why *why)
{
        struct answer *answer = request->answer;
        int code;

        for (;;) {
                code = send_once(guard, request, why);
                if (code == PAWL_OK && answer->done)
                        return PAWL_OK;
                if (code == PAWL_OK && (ask_at_once(guard, request) || leave_server(guard, request)))
                        continue;
                if (code == PAWL_OK && answer->reply->type != REDIS_REPLY_ERROR)
                        return PAWL_OK;
                if (code == PAWL_OK)
                        code = line_explain(guard, answer->reply->str, why);
                if (code == PAWL_STALE)
                        read_greatest(answer);
                if (is_final(answer->reply) || !may_try_again(guard, request, code))
                        return code;
                drop_reply(answer);
                pause_for(guard, request);
        }
}

static size_t size_of(const struct words *words)
{
        size_t size = 0;

        for (int i = 0; i < words->count; i++)
                size += words->size[i];
        return size;
}

int line_ask(struct redis_guard *guard, struct words *words, struct answer *answer, struct pawl_why *why)
{
        struct request request = {
                .words = words, .answer = answer, .until = guard->until, .connections = guard->net.connections};
        struct pawl_why own;
        int code;

        *answer = (struct answer){0};
        if (size_of(words) > DATA_MAX)
                return why_set(why, PAWL_FULL, "%s: more than %d MB cannot be sent at once", guard->where,
                               DATA_MAX >> 20);
        if (words->changes)
                snprintf(guard->line_word + 17, 17, "%016" PRIx64, ++guard->requests);
        code = ask_until(guard, &request, &own);
        guard->until = loop_now(&guard->loop) + guard->wait; /* the next page of a list has its own time */
        if (code == PAWL_OK)
                return code;
        drop_reply(answer);
        if (request.doubtful && words->changes)
                return why_set(why, PAWL_IN_DOUBT, "a reply was lost, and it is not known whether it was done: then %s",
                               own.text);
        if (why)
                *why = own;
        return code;
}
