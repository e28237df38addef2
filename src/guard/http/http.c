/* http.c - a guard behind an HTTP server that checks tokens: docs/guards/http.md is the protocol.
 *
 *   admit   HEAD /base/NAME            put     PUT /base/NAME
 *   get     GET /base/NAME             forget  POST /base/NAME?forget
 *   list    GET /base/?marks           prune   POST /base/?prune=FLOOR
 *   look    GET /base/NAME?look        swap    POST /base/NAME?swap
 *
 * What changes something is asked once, and only of a server that has just proved, by admitting the token on the same
 * connection, that it checks them: one that does not is never given data. For a swap it must have told a version. And
 * that is a POST, for a PUT may be sent again by a proxy, which would be answered that the version is another. What only
 * admits may be asked again where a connection that was kept turns out to be closed. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../base/name.h"
#include "answer.h"
#include "connection.h"

enum { DEFAULT_WAIT_MS = 10000, MOST_IDLE = 8 };

/* A server may have closed a connection that was quiet for longer, and its farewell may be on its way. */
static const int64_t trusted_for = SECOND;

struct http {
        pawl_guard guard;
        struct origin origin;
        struct net_target target;
        struct net_tls *tls;
        char *host;
        char *where; /* the URL, without secrets */
        int64_t wait;
        bool in_the_clear;     /* neither TLS nor this machine */
        pthread_mutex_t mutex; /* of the two below */
        struct connection *idle;
        unsigned idle_count;
        bool ready; /* the mutex is there */
};

/* One call: the same connection for all its requests, if it lasts. */
struct call {
        struct http *http;
        struct connection *connection;
        int64_t until;
        struct pawl_why *why;
};

static struct http *http_of(pawl_guard *guard)
{
        return (struct http *)guard;
}

/* ---- connections ----------------------------------------------------------------------------------------------- */

static struct connection *take_idle(struct http *http)
{
        struct connection *connection;

        pthread_mutex_lock(&http->mutex);
        connection = http->idle;
        if (connection) {
                http->idle = connection->next;
                http->idle_count--;
        }
        pthread_mutex_unlock(&http->mutex);
        return connection;
}

static bool give_back(struct http *http, struct connection *connection)
{
        bool kept;

        pthread_mutex_lock(&http->mutex);
        kept = http->idle_count < MOST_IDLE;
        if (kept) {
                connection->next = http->idle;
                http->idle = connection;
                http->idle_count++;
        }
        pthread_mutex_unlock(&http->mutex);
        return kept;
}

static int call_begin(struct call *call, struct http *http, struct pawl_why *why)
{
        int code = PAWL_OK;

        *call = (struct call){.http = http, .why = why};
        while (!call->connection && (call->connection = take_idle(http)) != NULL) {
                if (connection_is_quiet(call->connection))
                        break;
                connection_close(call->connection);
                call->connection = NULL;
        }
        if (!call->connection)
                code = connection_open(&call->connection, &http->target, why);
        if (code == PAWL_OK)
                call->until = loop_now(&call->connection->loop) + http->wait;
        return code;
}

static void call_end(struct call *call)
{
        struct connection *connection = call->connection;

        if (connection && (connection->net.state != NET_UP || !give_back(call->http, connection)))
                connection_close(connection);
}

/* Closed, and ready to be connected again. */
static void renew(struct connection *connection)
{
        net_close(&connection->net);
        connection->reused = connection->proven = connection->knows_versions = connection->spoiled = false;
}

/* ---- one request ----------------------------------------------------------------------------------------------- */

/* The connection was kept, and closed at the other end before the server can have seen the request. */
static bool was_closed(const struct connection *connection, const struct reply *reply)
{
        return connection->reused && connection->net.state == NET_DOWN && reply_is_fresh(reply);
}

static int send(struct call *call, const struct request *request, struct reply *reply)
{
        struct connection *connection = call->connection;
        int code = connection_ask(connection, request, call->until, reply, call->why);

        if (code != PAWL_OK && request->repeatable && was_closed(connection, reply)) {
                reply_free(reply);
                renew(connection);
                code = connection_ask(connection, request, call->until, reply, call->why);
        }
        return code;
}

/* An answer that was cut, or that makes no sense, says as little about what was done as none. */
static int on_no_answer(const struct question *question, const struct call *call, int code)
{
        struct pawl_why *why = question->why;
        char text[sizeof(why->text)];

        if (!act_changes(question->act) || !connection_has_asked(call->connection))
                return code;
        if (!why)
                return PAWL_IN_DOUBT;
        memcpy(text, why->text, sizeof(text));
        return why_set(why, PAWL_IN_DOUBT,
                       "no answer to a request that was sent: it may be done or not, or be done later (%s)", text);
}

static int ask(struct call *call, const struct question *question, struct reply *reply)
{
        struct connection *connection = call->connection;
        int code = send(call, question->request, reply);

        if (code != PAWL_OK) {
                code = on_no_answer(question, call, code);
                renew(connection);
                return code;
        }
        code = answer_judge(question, reply);
        if (!connection_keeps(connection, reply)) {
                renew(connection);
                return code;
        }
        connection->reused = true;
        if (code == PAWL_OK || code == PAWL_NOT_FOUND)
                *(act_is_versioned(question->act) ? &connection->knows_versions : &connection->proven) = true;
        return code;
}

/* ---- the requests ---------------------------------------------------------------------------------------------- */

/* What a request has beside its act. */
struct wish {
        enum act act;
        const char *method;
        const char *query;
        const struct visit *visit;
        const void *data;
        size_t size;
        const struct guard_swap *swap; /* of ACT_SWAP */
        uint64_t floor;                /* of ACT_PRUNE */
};

static int make(struct request *request, const struct http *http, const struct wish *wish)
{
        int code = request_init(request, &http->origin, wish->method, wish->visit, wish->query);

        if (code != PAWL_OK)
                return code;
        if (wish->act == ACT_SWAP) {
                request_say(request, PAWL_EXPECT_HEADER ": ", guard_expected(wish->visit));
                request_name(request, wish->swap->id);
        } else if (wish->act == ACT_PRUNE)
                request_repeat(request, PAWL_PRUNE_HEADER ": ", wish->floor);
        else if (wish->visit && wish->act != ACT_LOOK)
                request_say(request, PAWL_FENCE_HEADER ": ", wish->visit->token);
        if (act_changes(wish->act))
                request_carry(request, wish->data, wish->size);
        request->repeatable = !act_changes(wish->act);
        if (strcmp(wish->method, "HEAD") == 0)
                request->need = REPLY_NO_BODY;
        else if (strcmp(wish->method, "GET") == 0)
                request->need = REPLY_DATA;
        return request_seal(request);
}

static int fulfil(struct call *call, const struct wish *wish, struct reply *reply)
{
        struct request request;
        struct question question = {wish->act,  call->http->where, &call->http->origin, &request, wish->visit,
                                    wish->swap, call->why};
        int code = make(&request, call->http, wish);

        reply_init(reply, REPLY_NO_BODY); /* also where nothing is asked there is one to be freed */
        if (code == PAWL_OK)
                code = ask(call, &question, reply);
        else
                why_set(call->why, code, "no memory for the request");
        request_free(&request);
        return code;
}

/* Before anything is changed: the server shows that it checks tokens, or knows versions. A put has its own admitted for
 * that; a forget may not, for then there would always be one to forget. */
static int prove(struct call *call, const struct wish *wish)
{
        const struct wish admit = {.act = ACT_ADMIT, .method = "HEAD", .visit = wish->visit};
        const struct wish list = {.act = ACT_LIST, .method = "GET", .query = "marks&prefix=%2E"};
        const struct wish look = {.act = ACT_LOOK, .method = "HEAD", .query = "look", .visit = wish->visit};
        const struct connection *connection = call->connection;
        bool proven = wish->act == ACT_SWAP ? connection->knows_versions : connection->proven;
        struct reply reply;
        int code;

        if (proven && loop_now(&connection->loop) - connection->used_at < trusted_for)
                return PAWL_OK;
        code = fulfil(call, wish->act == ACT_PUT ? &admit : wish->act == ACT_SWAP ? &look : &list, &reply);
        reply_free(&reply);
        return code == PAWL_NOT_FOUND ? PAWL_OK : code;
}

/* One whole call. The reply is to be freed whatever is returned. */
static int perform(pawl_guard *guard, const struct wish *wish, struct reply *reply, struct pawl_why *why)
{
        struct call call;
        int code = call_begin(&call, http_of(guard), why);

        reply_init(reply, REPLY_NO_BODY);
        if (code != PAWL_OK)
                return code;
        if (act_changes(wish->act))
                code = prove(&call, wish);
        if (code == PAWL_OK)
                code = fulfil(&call, wish, reply);
        call_end(&call);
        return code;
}

/* The same where nothing but the code is wanted. */
static int just(pawl_guard *guard, const struct wish *wish)
{
        struct reply reply;
        int code = perform(guard, wish, &reply, wish->visit->why);

        reply_free(&reply);
        return code;
}

/* ---- the operations -------------------------------------------------------------------------------------------- */

static int http_admit(pawl_guard *guard, const struct visit *visit)
{
        return just(guard, &(const struct wish){.act = ACT_ADMIT, .method = "HEAD", .visit = visit});
}

static int http_put(pawl_guard *guard, const struct visit *visit, const void *data, size_t size)
{
        if (size > REPLY_BODY_MAX)
                return why_set(visit->why, PAWL_FULL, "the data are more than 64 MiB");
        return just(guard,
                    &(const struct wish){.act = ACT_PUT, .method = "PUT", .visit = visit, .data = data, .size = size});
}

/* What was read, to the caller; number: which token or version is told with it. */
static int take_body(struct reply *reply, uint64_t number, struct pawl_why *why, struct pawl_guard_data *data)
{
        if (!reply->body)
                reply->body = calloc(1, 1);
        if (!reply->body)
                return why_set(why, PAWL_NO_MEMORY, "no memory for the data");
        *data = (struct pawl_guard_data){reply->body, reply->size, number};
        reply->body = NULL;
        return PAWL_OK;
}

static int http_get(pawl_guard *guard, const struct visit *visit, struct pawl_guard_data *data)
{
        const struct wish wish = {.act = ACT_GET, .method = "GET", .visit = visit};
        struct reply reply;
        int code = perform(guard, &wish, &reply, visit->why);

        if (code == PAWL_OK)
                code = take_body(&reply, reply.before.value, visit->why, data);
        reply_free(&reply);
        return code;
}

static int http_look(pawl_guard *guard, const struct visit *visit, struct pawl_guard_data *data)
{
        const struct wish wish = {.act = ACT_LOOK, .method = "GET", .query = "look", .visit = visit};
        struct reply reply;
        int code = perform(guard, &wish, &reply, visit->why);

        data->token = reply.version;
        if (code == PAWL_OK)
                code = take_body(&reply, reply.version, visit->why, data);
        reply_free(&reply);
        return code;
}

static int http_swap(pawl_guard *guard, const struct visit *visit, const struct guard_swap *swap)
{
        if (swap->size > REPLY_BODY_MAX)
                return why_set(visit->why, PAWL_FULL, "the data are more than 64 MiB");
        return just(guard, &(const struct wish){.act = ACT_SWAP,
                                                .method = "POST",
                                                .query = "swap",
                                                .visit = visit,
                                                .data = swap->data,
                                                .size = swap->size,
                                                .swap = swap});
}

static int http_forget(pawl_guard *guard, const struct visit *visit)
{
        return just(guard,
                    &(const struct wish){.act = ACT_FORGET, .method = "POST", .query = "forget", .visit = visit});
}

/* NAME TOKEN: 0 is a mark that the server cannot read. */
static bool read_mark(const char *line, size_t size, char name[PAWL_NAME_MAX + 1], struct pawl_guard_entry *entry)
{
        const char *space = memchr(line, ' ', size);
        size_t length;

        if (!space || space - line > NAME_ENCODED_MAX ||
            name_decode(line, (size_t)(space - line), "/", name, &length) != PAWL_OK ||
            !reply_decimal(space + 1, size - (size_t)(space - line) - 1, &entry->token))
                return false;
        name[length] = '\0';
        entry->resource = name;
        entry->code = entry->token == 0 ? PAWL_CORRUPT : PAWL_OK;
        return true;
}

/* Twice: an answer that is not whole and right is not told in half. */
static int tell_marks(const struct reply *reply, const char *prefix, pawl_guard_entry_fn *fn, void *arg)
{
        const char *text = reply->body ? reply->body : "";
        const char *end = text + reply->size;
        uint64_t count = 0;

        while (text < end) {
                const char *newline = memchr(text, '\n', (size_t)(end - text));
                char name[PAWL_NAME_MAX + 1];
                struct pawl_guard_entry entry = {0};

                if (!newline || !read_mark(text, (size_t)(newline - text), name, &entry))
                        return PAWL_UNSUPPORTED;
                if (fn && strncmp(name, prefix, strlen(prefix)) == 0 && fn(&entry, arg) != 0)
                        return PAWL_OK;
                text = newline + 1;
                count++;
        }
        return count == reply->marks.value ? PAWL_OK : PAWL_UNSUPPORTED;
}

static int http_list(pawl_guard *guard, const char *prefix, pawl_guard_entry_fn *fn, void *arg, struct pawl_why *why)
{
        char query[sizeof("marks&prefix=") + NAME_ENCODED_MAX] = "marks&prefix=";
        const struct wish wish = {.act = ACT_LIST, .method = "GET", .query = query};
        struct reply reply;
        int code;

        if (strlen(prefix) > PAWL_NAME_MAX)
                return PAWL_OK; /* no name begins so */
        name_encode(prefix, strlen(prefix), "/", query + strlen(query));
        code = perform(guard, &wish, &reply, why);
        if (code == PAWL_OK) {
                code = tell_marks(&reply, prefix, NULL, NULL);
                if (code != PAWL_OK)
                        why_set(why, code, "%s: the list of tokens is not as Pawl-Marks says", http_of(guard)->where);
        }
        if (code == PAWL_OK)
                code = tell_marks(&reply, prefix, fn, arg);
        reply_free(&reply);
        return code;
}

static int http_prune(pawl_guard *guard, uint64_t floor, struct pawl_why *why, uint64_t *pruned)
{
        char query[32];
        const struct wish wish = {.act = ACT_PRUNE, .method = "POST", .query = query, .floor = floor};
        struct reply reply;
        int code;

        snprintf(query, sizeof(query), "prune=%" PRIu64, floor);
        code = perform(guard, &wish, &reply, why);
        if (code == PAWL_OK)
                *pruned = reply.pruned.value;
        reply_free(&reply);
        return code;
}

/* ---- examining ------------------------------------------------------------------------------------------------- */

static int tell(const struct http *http, pawl_finding_fn *fn, void *arg, uint32_t severity, const char *what,
                const char *mend)
{
        const struct pawl_finding finding = {severity, 0, http->where, what, mend};

        return fn(&finding, arg);
}

/* Admits nothing: a probe's mark would stay. So it is only asked whether the server tells its tokens. */
static int http_examine(pawl_guard *guard, pawl_finding_fn *fn, void *arg, struct pawl_why *why)
{
        const struct wish wish = {.act = ACT_LIST, .method = "GET", .query = "marks&prefix=%2E"};
        const struct http *http = http_of(guard);
        struct reply reply;
        int code = perform(guard, &wish, &reply, why);

        reply_free(&reply);
        if (code != PAWL_OK && code != PAWL_UNSUPPORTED)
                return code;
        if (code == PAWL_OK && tell(http, fn, arg, PAWL_FINE, "the server answers and tells its tokens", "") != 0)
                return PAWL_OK;
        if (code == PAWL_UNSUPPORTED &&
            tell(http, fn, arg, PAWL_ADVICE,
                 "the server answers, but does not tell its tokens: whether it checks them is seen at the first use",
                 "let it answer GET ?marks as docs/guards/http.md says") != 0)
                return PAWL_OK;
        if (http->in_the_clear)
                tell(http, fn, arg, PAWL_WARNING,
                     "tokens, data and passwords go over the network in the clear, and anybody on the "
                     "way can change them",
                     "use https://");
        return PAWL_OK;
}

/* ---- life ------------------------------------------------------------------------------------------------------ */

static int check_url(const struct url *url, struct pawl_why *why)
{
        static const char *const known[] = {"ca", "cert", "key", "servername", "insecure", "tokenfile", NULL};
        int code = url_only(url, known, why);

        if (code != PAWL_OK)
                return code;
        if (url->host_count != 1)
                return why_set(why, PAWL_INVALID, "%s: write %s://HOST/PATH, with one host", url->shown, url->scheme);
        return PAWL_OK;
}

static bool is_this_machine(const char *host)
{
        return strcmp(host, "localhost") == 0 || strncmp(host, "127.", 4) == 0 || strcmp(host, "::1") == 0;
}

static int take_target(struct http *http, const struct url *url, struct pawl_why *why)
{
        bool secure = strcmp(url->scheme, "https") == 0;
        uint16_t usual = secure ? 443 : 80;
        struct net_tls_options tls;
        int code = net_tls_options(url, "https", &tls, why);

        if (code != PAWL_OK)
                return code;
        http->host = strdup(url->hosts[0].name);
        http->where = strdup(url->shown);
        if (!http->host || !http->where)
                return why_set(why, PAWL_NO_MEMORY, "no memory for the guard");
        http->in_the_clear = !secure && !is_this_machine(http->host);
        if (secure)
                code = net_tls_open(&tls, &http->tls, why);
        http->target = (struct net_target){
                .host = http->host,
                .port = url->hosts[0].port ? url->hosts[0].port : usual,
                .tls = http->tls,
                .silence = http->wait,
        };
        return code;
}

static int http_open(pawl_guard *guard, const struct url *url, const struct pawl_guard_options *options)
{
        struct http *http = http_of(guard);
        int code = check_url(url, options->why);

        if (code != PAWL_OK)
                return code;
        http->wait = (options->wait_ms ? options->wait_ms : DEFAULT_WAIT_MS) * MS;
        if (pthread_mutex_init(&http->mutex, NULL) != 0)
                return why_set(options->why, PAWL_NO_MEMORY, "no memory for the guard");
        http->ready = true;
        code = take_target(http, url, options->why);
        return code == PAWL_OK ? origin_init(&http->origin, url, options->why) : code;
}

static void http_close(pawl_guard *guard)
{
        struct http *http = http_of(guard);
        bool forked = guard->pid != getpid();

        for (struct connection *connection = http->idle, *next; connection; connection = next) {
                next = connection->next;
                if (forked)
                        connection_abandon(connection);
                else
                        connection_close(connection);
        }
        if (http->ready)
                pthread_mutex_destroy(&http->mutex);
        net_tls_close(http->tls);
        origin_free(&http->origin);
        free(http->host);
        free(http->where);
}

extern const struct guard_ops http_guard;
const struct guard_ops http_guard = {
        .size = sizeof(struct http),
        .open = http_open,
        .close = http_close,
        .admit = http_admit,
        .put = http_put,
        .get = http_get,
        .forget = http_forget,
        .list = http_list,
        .prune = http_prune,
        .examine = http_examine,
        .look = http_look,
        .swap = http_swap,
};
