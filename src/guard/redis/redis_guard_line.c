/* redis_guard_line.c - one connection that calls share in turns: a command goes out, its reply is waited for.
 *
 * A reply that is lost leaves in doubt whether the command was done, or will be: bytes may sit in the socket of a server that
 * stands still, and be read after what we send on the next connection. For a mark that does no harm, it only grows. But a put
 * that comes late would undo one that came after it with the same token. So whatever changes data names the line of this guard,
 * a key with a word for each connection and the number of the last request that was done. A new connection writes its own word
 * there before its first change, and learns that number: what was sent before is done, or never will be. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../base/list.h"
#include "redis_guard.h"

enum { LOSSES_MAX = 4, LATES_MAX = 4, ELEMENTS_MAX = 1 << 20, DATA_MAX = 60 << 20 };

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

static int explain(const struct redis_guard *guard, const char *text, struct pawl_why *why)
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
        if (strstr(text, "unknown command"))
                return why_set(why, PAWL_UNSUPPORTED, "%s: it is too old, or a command is switched off: %.200s", where,
                               text);
        return why_set(why, PAWL_SYSTEM, "%s: it says: %.300s", where, text);
}

static bool begins(const redisReply *reply, const char *word)
{
        return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, word, strlen(word)) == 0;
}

/* ---- the connection's events ------------------------------------------------------------------------------------- */

static struct redis_guard *guard_of(struct net *net)
{
        return container_of(net, struct redis_guard, net);
}

static void *make_array(const redisReadTask *task, element_count elements)
{
        const struct redis_guard *guard = task->privdata;

        /* Memory is taken for the whole of an array before its first element is there. */
        return elements > ELEMENTS_MAX ? NULL : guard->make_array(task, elements);
}

static void up(struct net *net)
{
        struct redis_guard *guard = guard_of(net);

        guard->reader = redisReaderCreate();
        if (!guard->reader) {
                net_fail(net, PAWL_NO_MEMORY, "%s: no memory", guard->where);
                return;
        }
        guard->make = *guard->reader->fn;
        guard->make_array = guard->make.createArray;
        guard->make.createArray = make_array;
        guard->reader->fn = &guard->make;
        guard->reader->privdata = guard;
}

/* A second reply to one command makes no sense, and could be taken for the next one's. */
static void take(struct redis_guard *guard, redisReply *reply)
{
        if (!guard->reply) {
                guard->reply = reply;
                return;
        }
        freeReplyObject(reply);
        net_fail(&guard->net, PAWL_UNREACHABLE, "%s: a reply to nothing: it does not speak the Redis protocol",
                 guard->where);
}

static void heard(struct net *net, const char *data, size_t size)
{
        struct redis_guard *guard = guard_of(net);
        void *reply = NULL;
        int status = redisReaderFeed(guard->reader, data, size);

        while (status == REDIS_OK && !net->failing) {
                status = redisReaderGetReply(guard->reader, &reply);
                if (status != REDIS_OK || !reply)
                        break;
                take(guard, reply);
                reply = NULL;
        }
        if (status == REDIS_ERR && guard->reader->err == REDIS_ERR_OOM)
                net_fail(net, PAWL_NO_MEMORY, "%s: no memory for a reply, or it is too long", guard->where);
        else if (status == REDIS_ERR)
                net_fail(net, PAWL_UNREACHABLE, "%s: what answers there does not speak the Redis protocol",
                         guard->where);
}

static void let_go(struct redis_guard *guard)
{
        if (guard->reader)
                redisReaderFree(guard->reader);
        guard->reader = NULL;
        if (guard->reply)
                freeReplyObject(guard->reply);
        guard->reply = NULL;
        guard->greeted = guard->lined = false;
}

static void down(struct net *net, const struct pawl_why *why)
{
        struct redis_guard *guard = guard_of(net);

        guard->down = *why;
        let_go(guard);
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static void turn(struct redis_guard *guard, int64_t until)
{
        struct loop_hot *hot = loop_heat(&guard->loop);

        if (hot) {
                hot->wait(hot);
                loop_turn_hot(&guard->loop, hot);
                return;
        }
        loop_wait(&guard->loop, until);
        loop_turn(&guard->loop);
}

static int too_late(struct redis_guard *guard, int64_t since, struct pawl_why *why)
{
        int64_t waited = loop_now(&guard->loop) - since;

        net_close(&guard->net);
        let_go(guard);
        return why_set(why, PAWL_UNREACHABLE, "%s: no answer for %lld ms", guard->where, (long long)(waited / MS));
}

/* All of it or nothing: half a command would be completed by the next one. */
static int write_command(struct redis_guard *guard, const struct words *words, struct pawl_why *why)
{
        char *command = NULL;
        long long size;
        char *room;

        size = redisFormatCommandArgv(&command, words->count, (const char **)(uintptr_t)words->at, words->size);
        if (size < 0 || !command)
                return why_set(why, PAWL_NO_MEMORY, "%s: no memory", guard->where);
        room = net_room(&guard->net, (size_t)size);
        if (room) {
                memcpy(room, command, (size_t)size);
                net_wrote(&guard->net, (size_t)size);
        }
        explicit_bzero(command, (size_t)size); /* there may be a password in it */
        free(command);
        return room ? PAWL_OK : why_set(why, PAWL_NO_MEMORY, "%s: no memory", guard->where);
}

/* It speaks before it is asked: to say that it does not want us, if it is a Redis. */
static int refuse_unasked(struct redis_guard *guard, struct pawl_why *why)
{
        int code;

        if (guard->reply->type == REDIS_REPLY_ERROR)
                code = explain(guard, guard->reply->str, why);
        else
                code = why_set(why, PAWL_UNREACHABLE, "%s: a reply to nothing: it does not speak the Redis protocol",
                               guard->where);
        net_close(&guard->net);
        let_go(guard);
        return code;
}

/* One command, one reply, which may be an error. *sent: it may have been done, whatever is returned. */
static int exchange(struct redis_guard *guard, const struct words *words, int64_t until, bool *sent, redisReply **reply,
                    struct pawl_why *why)
{
        int64_t now = loop_now(&guard->loop);
        int code;

        if (guard->reply)
                return refuse_unasked(guard, why);
        code = write_command(guard, words, why);
        if (code != PAWL_OK)
                return code;
        *sent = true;
        if (until > now + guard->timeout)
                until = now + guard->timeout;
        net_flush(&guard->net);
        net_expect(&guard->net, true);
        while (!guard->reply && guard->net.state == NET_UP) {
                if (loop_now(&guard->loop) >= until)
                        return too_late(guard, now, why);
                turn(guard, until);
        }
        net_expect(&guard->net, false);
        if (!guard->reply)
                return why_set(why, guard->down.code, "%s", guard->down.text);
        guard->ever = true;
        *reply = guard->reply;
        guard->reply = NULL;
        return PAWL_OK;
}

/* The same where only one thing may be answered. */
static int demand(struct redis_guard *guard, const struct words *words, int64_t until, struct pawl_why *why)
{
        redisReply *reply = NULL;
        bool sent = false;
        int code = exchange(guard, words, until, &sent, &reply, why);

        if (code != PAWL_OK)
                return code;
        if (reply->type == REDIS_REPLY_ERROR)
                code = explain(guard, reply->str, why);
        freeReplyObject(reply);
        return code;
}

/* ---- coming up --------------------------------------------------------------------------------------------------- */

static int greet(struct redis_guard *guard, int64_t until, struct pawl_why *why)
{
        struct words words = {.count = 0};
        char number[24];
        int code = PAWL_OK;

        if (guard->user || guard->password) {
                words_text(&words, "AUTH");
                if (guard->user)
                        words_text(&words, guard->user);
                words_text(&words, guard->password ? guard->password : "");
                code = demand(guard, &words, until, why);
        }
        if (code == PAWL_OK && guard->database) {
                words.count = 0;
                snprintf(number, sizeof(number), "%lld", (long long)guard->database);
                words_text(&words, "SELECT");
                words_text(&words, number);
                code = demand(guard, &words, until, why);
        }
        guard->greeted = code == PAWL_OK;
        return code;
}

static int come_up(struct redis_guard *guard, int64_t until, struct pawl_why *why)
{
        int64_t now = loop_now(&guard->loop);
        int64_t limit = until - now < guard->timeout ? until - now : guard->timeout;
        int code;

        loop_turn(&guard->loop); /* it may have been closed since the last call */
        if (guard->greeted && guard->net.state == NET_UP && !guard->net.failing)
                return PAWL_OK;
        net_close(&guard->net);
        let_go(guard);
        code = net_connect(&guard->net, limit > MS ? limit : MS, why);
        if (code != PAWL_OK)
                return code;
        while (guard->net.state == NET_CONNECTING)
                turn(guard, NEVER);
        if (guard->net.state != NET_UP)
                return why_set(why, guard->down.code, "%s", guard->down.text);
        code = greet(guard, until, why);
        if (code != PAWL_OK) {
                net_close(&guard->net);
                let_go(guard);
        }
        return code;
}

/* From now on, whatever we sent before is refused if it is done later. The reply is the number of the last that was done; "?" if
 * the line was lost when it mattered; or an error. */
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
        return exchange(guard, &words, until, &sent, reply, why);
}

/* ---- asking ------------------------------------------------------------------------------------------------------ */

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
        if (reply->type != REDIS_REPLY_STRING) {
                answer->reply = reply;
                return PAWL_OK;
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
        int code = come_up(guard, request->until, why);

        if (code == PAWL_OK && request->words->changes && !is_lined(guard))
                code = take_line(guard, request, why);
        if (code != PAWL_OK || *reply || request->answer->done)
                return code;
        code = exchange(guard, request->words, request->until, &sent, reply, why);
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
                if (code == PAWL_OK && ask_at_once(guard, request))
                        continue;
                if (code == PAWL_OK && answer->reply->type != REDIS_REPLY_ERROR)
                        return PAWL_OK;
                if (code == PAWL_OK)
                        code = explain(guard, answer->reply->str, why);
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
        struct request request = {.words = words,
                                  .answer = answer,
                                  .until = loop_now(&guard->loop) + guard->wait,
                                  .connections = guard->net.connections};
        struct pawl_why own;
        int code;

        *answer = (struct answer){0};
        if (size_of(words) > DATA_MAX)
                return why_set(why, PAWL_FULL, "%s: more than %d MB cannot be sent at once", guard->where,
                               DATA_MAX >> 20);
        if (words->changes)
                snprintf(guard->line_word + 17, 17, "%016" PRIx64, ++guard->requests);
        code = ask_until(guard, &request, &own);
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

/* ---- turns ------------------------------------------------------------------------------------------------------- */

int line_enter(struct redis_guard *guard, struct pawl_why *why)
{
        struct timespec until;
        int error = 0;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_sec += guard->wait / SECOND;
        until.tv_nsec += guard->wait % SECOND;
        if (until.tv_nsec >= SECOND) {
                until.tv_sec++;
                until.tv_nsec -= SECOND;
        }
        pthread_mutex_lock(&guard->mutex);
        while (guard->busy && error == 0)
                error = pthread_cond_timedwait(&guard->left, &guard->mutex, &until);
        if (!guard->busy)
                error = 0;
        if (error == 0)
                guard->busy = true;
        pthread_mutex_unlock(&guard->mutex);
        if (error != 0)
                return why_set(why, PAWL_TIMEOUT, "%s: other threads' calls of this guard took more than %lld ms",
                               guard->where, (long long)(guard->wait / MS));
        return PAWL_OK;
}

void line_leave(struct redis_guard *guard)
{
        pthread_mutex_lock(&guard->mutex);
        guard->busy = false;
        pthread_cond_signal(&guard->left);
        pthread_mutex_unlock(&guard->mutex);
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static const struct net_events net_events = {.up = up, .heard = heard, .down = down};

static int make_condition(pthread_cond_t *condition)
{
        pthread_condattr_t attributes;
        int error = pthread_condattr_init(&attributes);

        if (error != 0)
                return error;
        error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        if (error == 0)
                error = pthread_cond_init(condition, &attributes);
        pthread_condattr_destroy(&attributes);
        return error;
}

int line_open(struct redis_guard *guard, struct pawl_why *why)
{
        uint64_t id;
        int error = loop_init(&guard->loop, NULL);

        if (error != 0)
                return why_system(why, error, "a guard cannot be opened");
        error = make_condition(&guard->left);
        if (error == 0 && (error = pthread_mutex_init(&guard->mutex, NULL)) != 0)
                pthread_cond_destroy(&guard->left);
        if (error != 0) {
                loop_close(&guard->loop);
                return why_system(why, error, "a guard cannot be opened");
        }
        net_init(&guard->net, &guard->loop, &net_events, &guard->target);
        loop_random(&guard->loop, &id, sizeof(id));
        snprintf(guard->line_key, sizeof(guard->line_key), "pawl:line:%s%016llx", guard->prefix,
                 (unsigned long long)id);
        guard->ready = true;
        return PAWL_OK;
}

/* The line would end by itself; that the server hears of it is not waited for. */
static void drop_line(struct redis_guard *guard)
{
        struct words words = {.count = 0};

        words_text(&words, "DEL");
        words_text(&words, guard->line_key);
        if (guard->net.state == NET_UP && write_command(guard, &words, NULL) == PAWL_OK)
                net_flush(&guard->net);
}

void line_close(struct redis_guard *guard)
{
        if (!guard->ready)
                return;
        if (guard->lined)
                drop_line(guard);
        net_close(&guard->net);
        let_go(guard);
        loop_close(&guard->loop);
        pthread_mutex_destroy(&guard->mutex);
        pthread_cond_destroy(&guard->left);
}

/* Only our copies of the descriptors: with them everything could be done to the parent's connection. The rest of its state is
 * small, and ends with the child. */
void line_abandon(struct redis_guard *guard)
{
        if (!guard->ready)
                return;
        if (guard->net.watch.fd >= 0)
                close(guard->net.watch.fd);
        loop_close(&guard->loop);
}
