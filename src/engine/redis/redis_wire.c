/* redis_wire.c - one connection: requests out, replies in, in their order; the handshake; coming back after a loss. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis.h"

#define PING_EVERY (5 * SECOND) /* looks may come oftener */

static struct wire *wire_of(struct net *net)
{
        return container_of(net, struct wire, net);
}

/* ---- what replies mean ------------------------------------------------------------------------------------------- */

/* Error replies begin with a word. leave: this server cannot serve us, and another connection to the same address may reach
 * one that can. A connection that stayed after a failover would be refused for ever. BUSY, OOM and MISCONF say nothing about
 * the server's role, and pass; NOPERM changes on the connection that is there. */
static const struct meaning {
        const char *word;
        int code;
        bool leave;
        const char *text;
} meanings[] = {
        {"NOAUTH", PAWL_DENIED, false, "it wants a password: give one in the URL, or with passfile="},
        {"WRONGPASS", PAWL_DENIED, false, "it refuses the user or the password"},
        {"NOPERM", PAWL_DENIED, false, "the user may not do that there"},
        {"READONLY", PAWL_UNREACHABLE, true, "it is a read-only replica: locks need the primary"},
        {"LOADING", PAWL_UNREACHABLE, true, "it is still loading its data"},
        {"MASTERDOWN", PAWL_UNREACHABLE, true, "it is a replica without its primary"},
        {"NOREPLICAS", PAWL_UNREACHABLE, true, "it has fewer replicas than it is told to write with"},
        {"BUSY", PAWL_UNREACHABLE, false, "it is busy with somebody's long script"},
        {"OOM", PAWL_FULL, false, "it has no memory left for data (maxmemory)"},
        {"MISCONF", PAWL_FULL, false, "it cannot save its data and refuses to write"},
        {"MOVED", PAWL_UNSUPPORTED, false, "it is a node of a Redis Cluster, which this engine does not support"},
        {"ASK", PAWL_UNSUPPORTED, false, "it is a node of a Redis Cluster, which this engine does not support"},
        {"CROSSSLOT", PAWL_UNSUPPORTED, false, "it is a node of a Redis Cluster, which this engine does not support"},
        {"CLUSTERDOWN", PAWL_UNSUPPORTED, false, "it is a node of a Redis Cluster, which this engine does not support"},
        {"CORRUPT", PAWL_CORRUPT, false, "the data of its locks are damaged"},
        {"WRONGTYPE", PAWL_CORRUPT, false, "a key of that name is there and is not a lock"},
        {"DENIED", PAWL_DENIED, false, "it is in protected mode and does not serve us"},
        {"BADCLOCK", PAWL_SYSTEM, false, "its clock is wrong: set it, and nothing else is needed"},
};

static const struct meaning *meaning_of(const char *text)
{
        size_t length = strcspn(text, " \r\n");

        for (size_t i = 0; i < sizeof(meanings) / sizeof(*meanings); i++)
                if (strlen(meanings[i].word) == length && memcmp(meanings[i].word, text, length) == 0)
                        return &meanings[i];
        return NULL;
}

/* An error inside a script comes with the script's name before or after; the word may be anywhere. */
static const struct meaning *find_meaning(const char *text)
{
        const struct meaning *meaning = meaning_of(text);

        for (const char *at = text; !meaning && (at = strpbrk(at, " :-")) != NULL;)
                meaning = meaning_of(++at);
        return meaning;
}

int wire_error(const redisReply *reply, const struct redis *redis, struct pawl_why *why)
{
        const char *where = redis->where;
        const struct meaning *meaning = find_meaning(reply->str);

        if (meaning)
                return why_set(why, meaning->code, "%s: %s (%.100s)", where, meaning->text, reply->str);
        if (strstr(reply->str, "max number of clients"))
                return why_set(why, PAWL_UNREACHABLE, "%s: it has as many clients as it takes (maxclients)", where);
        if (strstr(reply->str, "unauthenticated"))
                return why_set(why, PAWL_DENIED,
                               "%s: it wants a password: give one in the URL, or with passfile=", where);
        if (strstr(reply->str, "without any password configured"))
                return why_set(why, PAWL_DENIED, "%s: the URL has a password, and the server has none", where);
        if (strstr(reply->str, "user executing the script")) /* Redis before 7.2: NOPERM without that word */
                return why_set(why, PAWL_DENIED, "%s: the user may not do that there (%.200s)", where, reply->str);
        if (strstr(reply->str, "unknown command") || strstr(reply->str, "Unknown Redis command"))
                return why_set(why, PAWL_UNSUPPORTED, "%s: it is too old, or a command is switched off: %.200s", where,
                               reply->str);
        return why_set(why, PAWL_SYSTEM, "%s: it says: %.300s", where, reply->str);
}

bool wire_passes(const struct pawl_why *why)
{
        return why->code == PAWL_UNREACHABLE;
}

/* A server that we are logged in at asks for a password again if our account was reset meanwhile. */
static bool is_to_leave(const redisReply *reply, const struct redis *redis)
{
        const struct meaning *meaning = find_meaning(reply->str);

        return meaning && (meaning->leave || (strcmp(meaning->word, "NOAUTH") == 0 && redis->password));
}

/* Both connections: the address led them to the same server. */
static void leave_server(struct redis *redis, const struct pawl_why *why)
{
        net_fail(&redis->commands.net, PAWL_UNREACHABLE, "%s", why->text);
        net_fail(&redis->news.net, PAWL_UNREACHABLE, "%s", why->text);
}

static void hello_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why);
static void run_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why);

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static void watch_time(struct wire *wire)
{
        const struct ask *first;

        if (wire->overdue.at != NEVER || list_empty(&wire->asked))
                return;
        first = list_first(&wire->asked, struct ask, listed);
        loop_set(wire->net.loop, &wire->overdue, first->sent_at + wire->redis->timeout); /* moving: cannot fail */
}

/* The timer is not moved with each request: it fires, finds that all is well, and goes on from there. */
static void overdue(struct timer *timer)
{
        struct wire *wire = container_of(timer, struct wire, overdue);
        struct loop *loop = wire->net.loop;
        const struct ask *first;

        loop_set(loop, timer, NEVER); /* at once, while the heap still has the room it left: cannot fail */
        if (list_empty(&wire->asked))
                return;
        first = list_first(&wire->asked, struct ask, listed);
        if (loop_now(loop) < first->sent_at + wire->redis->timeout)
                watch_time(wire);
        else
                net_fail(&wire->net, PAWL_UNREACHABLE, "%s: no answer for %lld ms", wire->redis->where,
                         (long long)(wire->redis->timeout / MS));
}

static int send_ask(struct wire *wire, struct ask *ask)
{
        bool idle = list_empty(&wire->asked);
        int code;

        ask->sent_at = loop_now(wire->net.loop);
        code = ask->write(ask, wire);
        if (code != PAWL_OK)
                return code;
        list_append(&wire->asked, &ask->listed);
        watch_time(wire);
        if (idle) { /* else the next reply takes along what was written meanwhile */
                net_flush(&wire->net);
                net_expect(&wire->net, !wire->news);
        }
        return PAWL_OK;
}

int wire_ask(struct wire *wire, struct ask *ask)
{
        ask->whole = false;
        if (!wire->ready)
                return PAWL_UNREACHABLE;
        return send_ask(wire, ask);
}

/* Somebody must be there when the reply comes. */
static void nobody_hears(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        (void)reply;
        (void)why;
        free(ask);
}

void wire_forget(struct wire *wire, struct ask *ask)
{
        struct ask *stand_in = calloc(1, sizeof(*stand_in));

        if (!stand_in) { /* replies could no longer be told apart */
                list_remove(&ask->listed);
                net_fail(&wire->net, PAWL_NO_MEMORY, "%s: no memory", wire->redis->where);
                return;
        }
        stand_in->answered = nobody_hears;
        stand_in->sent_at = ask->sent_at;
        list_append(ask->listed.next, &stand_in->listed); /* before the next: in its place */
        list_remove(&ask->listed);
}

/* ---- replies ----------------------------------------------------------------------------------------------------- */

static bool is_noscript(const redisReply *reply)
{
        return reply->type == REDIS_REPLY_ERROR && strncmp(reply->str, "NOSCRIPT", 8) == 0;
}

static void answer(struct wire *wire, const redisReply *reply)
{
        struct ask *ask = list_first(&wire->asked, struct ask, listed);
        struct pawl_why why;

        list_remove(&ask->listed);
        if (is_noscript(reply) && !ask->whole && ask->write) {
                ask->whole = true;
                if (send_ask(wire, ask) == PAWL_OK)
                        return;
                why_set(&why, PAWL_NO_MEMORY, "%s: no memory", wire->redis->where);
                ask->answered(ask, NULL, &why);
        } else if (reply->type == REDIS_REPLY_ERROR) {
                wire_error(reply, wire->redis, &why);
                if (is_to_leave(reply, wire->redis))
                        leave_server(wire->redis, &why);
                ask->answered(ask, NULL, &why);
        } else {
                ask->answered(ask, reply, NULL);
        }
}

/* A server that accepts a connection need not be a Redis, nor responsive; one that answers a greeting need not serve us. */
static void prove(struct wire *wire)
{
        wire->proven = true;
        wire->ever = true;
        net_backoff_reset(&wire->backoff);
}

static bool is_greeting(const struct wire *wire)
{
        const struct ask *first;

        if (list_empty(&wire->asked))
                return false;
        first = list_first(&wire->asked, struct ask, listed);
        return first->answered == hello_answered || first->answered == run_answered;
}

static void take(struct wire *wire, const redisReply *reply)
{
        wire->mute = 0;
        if (!wire->proven && reply->type != REDIS_REPLY_ERROR && !is_greeting(wire))
                prove(wire);
        if (wire->news && reply->type == REDIS_REPLY_ARRAY) {
                news_told(wire, reply);
        } else if (!list_empty(&wire->asked)) {
                answer(wire, reply);
        } else if (reply->type == REDIS_REPLY_ERROR) { /* not asked: it does not want us */
                struct pawl_why why;

                wire_error(reply, wire->redis, &why);
                net_fail(&wire->net, why.code, "%s", why.text);
        } else {
                net_fail(&wire->net, PAWL_UNREACHABLE, "%s: a reply to nothing: it does not speak the Redis protocol",
                         wire->redis->where);
        }
}

static void heard(struct net *net, const char *data, size_t size)
{
        struct wire *wire = wire_of(net);
        void *reply = NULL;
        int status = redisReaderFeed(wire->reader, data, size);

        while (status == REDIS_OK && !net->failing && net->state == NET_UP) {
                status = redisReaderGetReply(wire->reader, &reply);
                if (status != REDIS_OK || !reply)
                        break;
                take(wire, reply);
                freeReplyObject(reply);
                reply = NULL;
        }
        if (status == REDIS_ERR && wire->reader->err == REDIS_ERR_OOM)
                net_fail(net, PAWL_NO_MEMORY, "%s: no memory for a reply, or it is too long", wire->redis->where);
        else if (status == REDIS_ERR)
                net_fail(net, PAWL_UNREACHABLE, "%s: what answers there does not speak the Redis protocol",
                         wire->redis->where);
        if (!wire->news && !net->failing && net->state == NET_UP)
                bundles_send(wire->redis);
        if (net->state == NET_UP && net_unsent(net))
                net_flush(net);
        if (list_empty(&wire->asked))
                net_expect(net, false);
}

/* ---- the handshake ----------------------------------------------------------------------------------------------- */

void wire_be_ready(struct wire *wire)
{
        wire->ready = true;
        if (wire->news)
                claims_heard(wire->redis);
        else
                claims_up(wire->redis);
}

static int write_subscribe(struct ask *ask, struct wire *wire)
{
        (void)ask;
        write_begin(wire, 2);
        write_text(wire, "SUBSCRIBE");
        write_text(wire, wire->redis->channel);
        return write_end(wire);
}

static int write_ping(struct ask *ask, struct wire *wire)
{
        (void)ask;
        write_begin(wire, 1);
        write_text(wire, "PING");
        return write_end(wire);
}

/* Only refusals come as replies: what was done is told among the news. */
static void open_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct wire *wire = container_of(ask, struct wire, open);

        if (!reply)
                net_fail(&wire->net, why->code, "%s", why->text);
}

static void ask_openly(struct wire *wire, int (*write)(struct ask *, struct wire *))
{
        wire->open.write = write;
        wire->open.answered = open_answered;
        if (send_ask(wire, &wire->open) != PAWL_OK)
                net_fail(&wire->net, PAWL_NO_MEMORY, "%s: no memory", wire->redis->where);
}

void wire_ping(struct wire *wire)
{
        if (!wire->ready || !list_empty(&wire->open.listed))
                return;
        if (redis_now(wire->redis) - wire->open.sent_at >= PING_EVERY)
                ask_openly(wire, write_ping);
}

void wire_open_told(struct wire *wire)
{
        list_remove(&wire->open.listed);
}

/* ---- is it the same server? ---- */

static int write_run(struct ask *ask, struct wire *wire)
{
        (void)ask;
        write_begin(wire, 2);
        write_text(wire, "INFO");
        write_text(wire, "server");
        return write_end(wire);
}

/* Grants are published where the commands go, and only there. Behind an address that leads to several servers, and after a
 * failover, the other connection may be at another one, where it would hear nothing. It is the commands that know which is
 * the right one, for they write. */
static void compare_servers(struct redis *redis)
{
        const char *commands = redis->commands.run, *news = redis->news.run;

        if (*commands && *news && strcmp(commands, news) != 0)
                net_fail(&redis->news.net, PAWL_UNREACHABLE,
                         "%s: the two connections of this client reach different servers: the address must lead to the "
                         "primary only",
                         redis->where);
}

/* Where INFO is not allowed, nothing is compared: such a client looks again now and then. */
static void run_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct wire *wire = container_of(ask, struct wire, identify);
        const char *run = reply && reply->type == REDIS_REPLY_STRING ? strstr(reply->str, "run_id:") : NULL;

        (void)why;
        if (!run)
                return;
        run += strlen("run_id:");
        snprintf(wire->run, sizeof(wire->run), "%.*s", (int)strcspn(run, "\r\n"), run);
        compare_servers(wire->redis);
}

void wire_identify(struct wire *wire)
{
        wire->identify.write = write_run;
        wire->identify.answered = run_answered;
        if (send_ask(wire, &wire->identify) != PAWL_OK)
                net_fail(&wire->net, PAWL_NO_MEMORY, "%s: no memory", wire->redis->where);
}

static void greeted(struct wire *wire)
{
        if (!wire->news) {
                wire_be_ready(wire);
                return;
        }
        wire_identify(wire);
        if (!wire->net.failing)
                ask_openly(wire, write_subscribe); /* ready when that is told */
}

static void hello_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct wire *wire = container_of(ask, struct hello, ask)->wire;

        if (!reply)
                net_fail(&wire->net, why->code, "%s", why->text);
        else if (--wire->unsaid == 0)
                greeted(wire);
}

static int write_auth(struct ask *ask, struct wire *wire)
{
        const struct redis *redis = wire->redis;

        (void)ask;
        write_begin(wire, redis->user ? 3 : 2);
        write_text(wire, "AUTH");
        if (redis->user)
                write_text(wire, redis->user);
        write_text(wire, redis->password ? redis->password : "");
        return write_end(wire);
}

static int write_select(struct ask *ask, struct wire *wire)
{
        (void)ask;
        write_begin(wire, 2);
        write_text(wire, "SELECT");
        write_number(wire, wire->redis->database);
        return write_end(wire);
}

static void say_hello(struct wire *wire, int (*write)(struct ask *, struct wire *))
{
        struct hello *hello = &wire->hello[wire->unsaid++];

        *hello = (struct hello){.ask = {.write = write, .answered = hello_answered}, .wire = wire};
        if (send_ask(wire, &hello->ask) != PAWL_OK)
                net_fail(&wire->net, PAWL_NO_MEMORY, "%s: no memory", wire->redis->where);
}

/* No answer of ours is longer than this; memory is taken for the whole of an array before its first element is there. */
enum { ELEMENTS_MAX = 1 << 20 };
#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

static void *make_array(const redisReadTask *task, element_count elements)
{
        const struct wire *wire = task->privdata;

        return elements > ELEMENTS_MAX ? NULL : wire->make_array(task, elements);
}

static redisReader *reader_new(struct wire *wire)
{
        redisReader *reader = redisReaderCreate();

        if (!reader)
                return NULL;
        wire->make = *reader->fn;
        wire->make_array = wire->make.createArray;
        wire->make.createArray = make_array;
        reader->fn = &wire->make;
        reader->privdata = wire;
        reader->maxbuf = 16 * 1024; /* keep that much when idle */
        return reader;
}

static void up(struct net *net)
{
        struct wire *wire = wire_of(net);
        const struct redis *redis = wire->redis;

        wire->reader = reader_new(wire);
        if (!wire->reader) {
                net_fail(net, PAWL_NO_MEMORY, "%s: no memory", redis->where);
                return;
        }
        wire->met = true;
        wire->proven = false;
        wire->unsaid = 0;
        if (redis->password || redis->user)
                say_hello(wire, write_auth);
        if (redis->database && !net->failing)
                say_hello(wire, write_select);
        if (wire->unsaid == 0)
                greeted(wire);
        else
                net_flush(net);
}

/* ---- losing it, and coming back ---------------------------------------------------------------------------------- */

static void drop_reader(struct wire *wire)
{
        if (wire->reader)
                redisReaderFree(wire->reader);
        wire->reader = NULL;
}

static void answer_all(struct wire *wire, const struct pawl_why *why)
{
        struct list asked;

        list_init(&asked);
        list_splice(&asked, &wire->asked);
        while (!list_empty(&asked)) {
                struct ask *ask = list_first(&asked, struct ask, listed);

                list_remove(&ask->listed);
                if (ask->answered != hello_answered)
                        ask->answered(ask, NULL, why);
        }
}

/* It came up, and ended before it answered anything. Once is an accident, also of the network. */
static void note_mute(struct wire *wire)
{
        struct pawl_why why = wire->why;

        if (!wire->reader || wire->proven || why.code != PAWL_UNREACHABLE || ++wire->mute < WIRE_MUTE_MOST)
                return;
        why_set(&wire->why, PAWL_UNREACHABLE, "%s: no connection is answered: is that the port of a Redis server?",
                why.text);
}

static void down(struct net *net, const struct pawl_why *why)
{
        struct wire *wire = wire_of(net);
        struct redis *redis = wire->redis;
        bool was_ready = wire->ready && wire->proven;

        wire->why = *why;
        note_mute(wire);
        drop_reader(wire);
        wire->ready = false;
        wire->run[0] = '\0';
        if (was_ready)
                wire->lost_at = redis_now(redis);
        /* First: whoever asks again now must not connect without a pause, and not before all have heard of this. */
        loop_set(net->loop, &wire->again, redis_now(redis) + net_backoff(&wire->backoff, net->loop));
        answer_all(wire, &wire->why);
        if (wire->news) {
                claims_unheard(redis, &wire->why, was_ready);
        } else {
                bundles_down(redis, &wire->why);
                claims_down(redis, &wire->why, was_ready);
        }
}

/* PAWL_OK; or it cannot even be begun, wire->why says why, and it will be tried again. */
static int connect_now(struct wire *wire)
{
        struct pawl_why why;
        int code;

        wire->met = false;
        code = net_connect(&wire->net, wire->redis->timeout, &why);
        if (code == PAWL_OK)
                return code;
        wire->why = why;
        loop_set(wire->net.loop, &wire->again, redis_now(wire->redis) + net_backoff(&wire->backoff, wire->net.loop));
        return code;
}

/* Not told by the connection, so it is told here: nobody shall wait for a connection that is never begun. */
static void connect_again(struct timer *timer)
{
        struct wire *wire = container_of(timer, struct wire, again);

        loop_set(wire->net.loop, timer, NEVER);
        if (!wire->wanted || wire->net.state != NET_DOWN || connect_now(wire) == PAWL_OK)
                return;
        if (wire->news)
                claims_unheard(wire->redis, &wire->why, false);
        else
                claims_down(wire->redis, &wire->why, false);
}

void wire_want(struct wire *wire)
{
        wire->wanted = true;
        if (wire->net.state == NET_DOWN && wire->again.at == NEVER)
                connect_now(wire);
}

static const struct net_events net_events = {.up = up, .heard = heard, .down = down};

/* Both timers are set from now on, if only to NEVER: moving a set timer cannot fail. */
int wire_init(struct wire *wire, struct redis *redis, bool news)
{
        struct loop *loop = redis->engine.host->loop;

        wire->redis = redis;
        wire->news = news;
        list_init(&wire->asked);
        list_init(&wire->open.listed);
        list_init(&wire->identify.listed);
        wire->overdue.fire = overdue;
        wire->again.fire = connect_again;
        net_init(&wire->net, loop, &net_events, &redis->target);
        if (loop_set(loop, &wire->overdue, NEVER) != 0 || loop_set(loop, &wire->again, NEVER) != 0)
                return ENOMEM;
        return 0;
}

void wire_close(struct wire *wire)
{
        if (!wire->redis)
                return;
        loop_unset(wire->net.loop, &wire->overdue);
        loop_unset(wire->net.loop, &wire->again);
        net_close(&wire->net);
        drop_reader(wire);
        while (!list_empty(&wire->asked)) {
                struct ask *ask = list_first(&wire->asked, struct ask, listed);

                list_remove(&ask->listed);
                if (ask->answered == nobody_hears)
                        free(ask);
        }
}
