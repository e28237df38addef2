/* redis_guard_line.c - one connection that calls share in turns: a command goes out, its reply is waited for. What replies
 * mean, and what becomes of lost ones, is redis_guard_ask.c's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../base/list.h"
#include "redis_guard.h"

enum { ELEMENTS_MAX = 1 << 20 };

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

        guard->moved_at = loop_now(net->loop);
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

static int too_late(struct redis_guard *guard, struct pawl_why *why)
{
        int64_t waited = loop_now(&guard->loop) - guard->moved_at;

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
        redisFreeCommand(command);
        return room ? PAWL_OK : why_set(why, PAWL_NO_MEMORY, "%s: no memory", guard->where);
}

/* The time limit is one of silence: what is large may take longer, as long as bytes move. Only when all is sent may we sleep
 * in the socket, which hears but does not send. PAWL_OK: there is a reply, or the connection is lost. */
static int await_reply(struct redis_guard *guard, int64_t until, struct pawl_why *why)
{
        size_t unsent = SIZE_MAX;

        net_flush(&guard->net);
        while (!guard->reply && guard->net.state == NET_UP) {
                int64_t now = loop_now(&guard->loop);
                int64_t limit;

                if (net_unsent(&guard->net) < unsent)
                        guard->moved_at = now;
                unsent = net_unsent(&guard->net);
                limit = until < guard->moved_at + guard->timeout ? until : guard->moved_at + guard->timeout;
                if (now >= limit)
                        return too_late(guard, why);
                net_expect(&guard->net, unsent == 0);
                turn(guard, limit);
        }
        net_expect(&guard->net, false);
        return PAWL_OK;
}

/* It speaks before it is asked: to say that it does not want us, if it is a Redis. */
static int refuse_unasked(struct redis_guard *guard, struct pawl_why *why)
{
        int code;

        if (guard->reply->type == REDIS_REPLY_ERROR)
                code = line_explain(guard, guard->reply->str, why);
        else
                code = why_set(why, PAWL_UNREACHABLE, "%s: a reply to nothing: it does not speak the Redis protocol",
                               guard->where);
        net_close(&guard->net);
        let_go(guard);
        return code;
}

int line_exchange(struct redis_guard *guard, const struct words *words, int64_t until, bool *sent, redisReply **reply,
                  struct pawl_why *why)
{
        int code;

        if (guard->reply)
                return refuse_unasked(guard, why);
        code = write_command(guard, words, why);
        if (code != PAWL_OK)
                return code;
        *sent = true;
        code = await_reply(guard, until, why);
        if (code != PAWL_OK)
                return code;
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
        int code = line_exchange(guard, words, until, &sent, &reply, why);

        if (code != PAWL_OK)
                return code;
        if (reply->type == REDIS_REPLY_ERROR)
                code = line_explain(guard, reply->str, why);
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

int line_come_up(struct redis_guard *guard, int64_t until, struct pawl_why *why)
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

/* ---- turns ------------------------------------------------------------------------------------------------------- */

/* ns until then; 0 if it is past. */
static int64_t time_left(const struct timespec *until)
{
        struct timespec now;
        int64_t left;

        clock_gettime(CLOCK_MONOTONIC, &now);
        left = (until->tv_sec - now.tv_sec) * SECOND + until->tv_nsec - now.tv_nsec;
        return left > 0 ? left : 0;
}

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
        guard->until = loop_now(&guard->loop) + time_left(&until);
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

/* Only our copies of the descriptors: whatever else is done to them is done to the parent's connection. The rest of its
 * state is small, and ends with the child. */
void line_abandon(struct redis_guard *guard)
{
        if (!guard->ready)
                return;
        if (guard->net.watch.fd >= 0)
                close(guard->net.watch.fd);
        loop_close(&guard->loop);
}
