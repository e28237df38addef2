/* http_server.c - a key-value server whose clients bring a token with every request, so that what a late one still sends is
 * refused: docs/guards/http.md is the protocol. The data, and the greatest token of each, are kept by a guard: of files in
 * the current directory, or of any URL that pawl_guard_open takes.
 *
 *     http_server [--port N] [--address A] [--host NAME]... [--limit BYTES] [GUARD-URL]
 *     http_server --self-test [GUARD-URL]
 *
 *     curl -H 'Pawl-Fence: orders/42 7' -T order.json http://127.0.0.1:8087/orders/42
 *     curl -H 'Pawl-Expect: prices 3' --data-binary @prices.json 'http://127.0.0.1:8087/prices?swap'
 *
 * Prints "listening on http://ADDRESS:PORT/", and serves until it is ended. One thread for each connection, a bounded number
 * of them; heads, bodies and times are bounded, too. It listens on 127.0.0.1 unless told otherwise, and answers only
 * requests whose Host is its own, so that no web page can talk to it through a name of its own (DNS rebinding). It knows
 * no passwords and no TLS: put a proxy in front of it where it is open to others. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pawl.h>
#include <pawl/guard.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { HEAD_MAX = 16 * 1024, FIELDS_MAX = 100, CONNECTIONS_MAX = 256, NAMES_MAX = 8, QUERY_MAX = 1024 };
enum { REQUEST_SECONDS = 30, IDLE_SECONDS = 30 };

/* What the command line says. The same for all connections, and not changed while they run. */
struct settings {
        const char *url;
        const char *address;
        uint16_t port;
        size_t body_max;
        const char *names[NAMES_MAX]; /* what Host may say beside the address */
        size_t name_count;
        bool self_test;
};

static struct settings settings = {.url = "file:.", .address = "127.0.0.1", .port = 8087, .body_max = 64 << 20};
static pawl_guard *guard;
static atomic_int connections;

struct request {
        const char *method;
        char *path;            /* decoded, without its leading slash; "" is all resources */
        char query[QUERY_MAX]; /* as it was sent; "" if none */
        const char *host;
        const char *fence;  /* the field's value, or NULL */
        const char *expect; /* the same of Pawl-Expect */
        const char *swap;   /* and of Pawl-Swap-Id */
        const char *prune;  /* and of Pawl-Prune */
        char *body;
        size_t size;
        bool keeps; /* the connection is to be kept */
        bool continues;
};

/* Who asks, and what was read of it so far. */
struct peer {
        int fd;
        int64_t until; /* for the request being read or answered, in ms */
        size_t used;
        char head[HEAD_MAX + 1]; /* and what came behind it */
};

/* ---- bytes in time --------------------------------------------------------------------------------------------- */

static int64_t now_ms(void)
{
        struct timespec time;

        clock_gettime(CLOCK_MONOTONIC, &time);
        return time.tv_sec * INT64_C(1000) + time.tv_nsec / 1000000;
}

static bool wait_for(const struct peer *peer, short events)
{
        for (;;) {
                struct pollfd descriptor = {.fd = peer->fd, .events = events};
                int64_t left = peer->until - now_ms();
                int count = left > 0 ? poll(&descriptor, 1, (int)left) : 0;

                if (count > 0)
                        return true;
                if (count == 0 || errno != EINTR)
                        return false;
        }
}

/* How many bytes, at least one; 0: the end, or it took too long. */
static size_t receive(const struct peer *peer, char *bytes, size_t room)
{
        while (wait_for(peer, POLLIN)) {
                ssize_t n = recv(peer->fd, bytes, room, MSG_DONTWAIT);

                if (n > 0)
                        return (size_t)n;
                if (n == 0 || (errno != EAGAIN && errno != EINTR))
                        break;
        }
        return 0;
}

static bool send_all(const struct peer *peer, const char *bytes, size_t size, int flags)
{
        while (size > 0) {
                ssize_t n = send(peer->fd, bytes, size, flags | MSG_NOSIGNAL | MSG_DONTWAIT);

                if (n > 0) {
                        bytes += n;
                        size -= (size_t)n;
                } else if (n < 0 && errno == EAGAIN) {
                        if (!wait_for(peer, POLLOUT))
                                return false;
                } else if (n == 0 || errno != EINTR) {
                        return false;
                }
        }
        return true;
}

/* ---- answers --------------------------------------------------------------------------------------------------- */

/* The fields of an answer are added one by one. */
struct answer {
        int status;
        char fields[2 * PAWL_FENCE_MAX];
        const char *body;
        size_t size;
};

__attribute__((format(printf, 2, 3))) static void add_field(struct answer *answer, const char *format, ...)
{
        size_t used = strlen(answer->fields);
        va_list args;

        va_start(args, format);
        vsnprintf(answer->fields + used, sizeof(answer->fields) - used, format, args);
        va_end(args);
}

static const char *phrase_of(int status)
{
        static const struct {
                int status;
                const char *phrase;
        } phrases[] = {
                {200, "OK"},
                {204, "No Content"},
                {400, "Bad Request"},
                {403, "Forbidden"},
                {404, "Not Found"},
                {405, "Method Not Allowed"},
                {411, "Length Required"},
                {412, "Precondition Failed"},
                {413, "Content Too Large"},
                {421, "Misdirected Request"},
                {428, "Precondition Required"},
                {431, "Request Header Fields Too Large"},
                {500, "Internal Server Error"},
                {501, "Not Implemented"},
                {503, "Service Unavailable"},
                {507, "Insufficient Storage"},
        };

        for (size_t i = 0; i < sizeof(phrases) / sizeof(phrases[0]); i++) {
                if (phrases[i].status == status)
                        return phrases[i].phrase;
        }
        return "Unknown";
}

static bool send_answer(const struct peer *peer, const struct request *request, const struct answer *answer)
{
        char head[sizeof(answer->fields) + 512];
        bool has_body = strcmp(request->method, "HEAD") != 0 && answer->status != 204;
        char length[64] = "";
        int size;

        if (answer->status != 204)
                snprintf(length, sizeof(length), "Content-Length: %zu\r\n", answer->size);
        size = snprintf(head, sizeof(head),
                        "HTTP/1.1 %d %s\r\n%s%sCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n%s\r\n",
                        answer->status, phrase_of(answer->status), length, answer->fields,
                        request->keeps ? "" : "Connection: close\r\n");
        has_body = has_body && answer->size > 0;
        return send_all(peer, head, (size_t)size, has_body ? MSG_MORE : 0) &&
               (!has_body || send_all(peer, answer->body, answer->size, 0));
}

/* An answer that is a sentence; the connection is not kept if the request was not read to its end. */
static bool say(const struct peer *peer, const struct request *request, struct answer *answer, int status,
                const char *sentence)
{
        char body[sizeof(((struct pawl_why *)NULL)->text) + 2];

        answer->status = status;
        add_field(answer, "Content-Type: text/plain; charset=utf-8\r\n");
        answer->body = body;
        answer->size = (size_t)snprintf(body, sizeof(body), "%s\n", sentence);
        return send_answer(peer, request, answer);
}

/* ---- what is asked for ----------------------------------------------------------------------------------------- */

/* The greatest token, for who was refused. */
struct search {
        const char *resource;
        uint64_t token;
};

static int on_entry(const struct pawl_guard_entry *entry, void *arg)
{
        struct search *search = arg;

        if (strcmp(entry->resource, search->resource) != 0)
                return 0;
        search->token = entry->token;
        return 1;
}

static bool refuse(const struct peer *peer, const struct request *request, int code, const struct pawl_why *why)
{
        struct answer answer = {0};
        struct search search = {request->path, 0};

        if (code == PAWL_STALE && pawl_guard_list(guard, request->path, on_entry, &search, NULL) == PAWL_OK &&
            search.token > 0)
                add_field(&answer, "Pawl-Greatest: %" PRIu64 "\r\n", search.token);
        return say(peer, request, &answer, pawl_fence_status(code), why->text);
}

/* Every answer to an admitted token says which one it was. */
static void add_admitted(struct answer *answer, const char *resource, uint64_t token)
{
        char value[PAWL_FENCE_MAX + 1];

        if (pawl_fence_write(resource, token, value, sizeof(value)) == PAWL_OK)
                add_field(answer, PAWL_ADMITTED_HEADER ": %s\r\n", value);
}

static bool serve_get(const struct peer *peer, const struct request *request, uint64_t token)
{
        struct answer answer = {.status = 200};
        struct pawl_guard_data data = {0};
        struct pawl_why why = {0};
        int code = pawl_guard_get(guard, request->path, token, &why, &data);
        bool sent;

        if (code != PAWL_OK && code != PAWL_NOT_FOUND)
                return refuse(peer, request, code, &why);
        add_admitted(&answer, request->path, token);
        if (code == PAWL_NOT_FOUND)
                return say(peer, request, &answer, 404, why.text);
        add_field(&answer, "Pawl-Before: %" PRIu64 "\r\nContent-Type: application/octet-stream\r\n", data.token);
        answer.body = data.bytes;
        answer.size = data.size;
        sent = send_answer(peer, request, &answer);
        free(data.bytes);
        return sent;
}

/* The one line: where an answer is all that hangs on the token, and the deed is not the guard's own. */
static bool serve_head(const struct peer *peer, const struct request *request, uint64_t token)
{
        struct answer answer = {.status = 204};
        struct pawl_why why = {0};
        int code = pawl_guard_check(guard, request->path, request->fence, &why);

        if (code != PAWL_OK)
                return refuse(peer, request, code, &why);
        add_admitted(&answer, request->path, token);
        return send_answer(peer, request, &answer);
}

static bool serve_put(const struct peer *peer, const struct request *request, uint64_t token)
{
        struct answer answer = {.status = 204};
        struct pawl_why why = {0};
        int code = pawl_guard_put(guard, request->path, token, request->body, request->size, &why);

        if (code != PAWL_OK)
                return refuse(peer, request, code, &why);
        add_admitted(&answer, request->path, token);
        return send_answer(peer, request, &answer);
}

static bool serve_forget(const struct peer *peer, const struct request *request, uint64_t token)
{
        struct answer answer = {.status = 204};
        struct pawl_why why = {0};
        int code = pawl_guard_forget(guard, request->path, token, &why);

        if (code != PAWL_OK && code != PAWL_NOT_FOUND)
                return refuse(peer, request, code, &why);
        add_admitted(&answer, request->path, token);
        return code == PAWL_OK ? send_answer(peer, request, &answer) : say(peer, request, &answer, 404, why.text);
}

/* ---- versions: for resources that no lock stands for ------------------------------------------------------------- */

/* Every answer to such a request says which version it is. */
static void add_version(struct answer *answer, const char *resource, uint64_t version)
{
        char value[PAWL_FENCE_MAX + 1];

        if (pawl_expect_write(resource, version, value, sizeof(value)) == PAWL_OK)
                add_field(answer, PAWL_NOW_HEADER ": %s\r\n", value);
}

static bool serve_look(const struct peer *peer, const struct request *request)
{
        struct answer answer = {.status = 200};
        struct pawl_guard_data data = {0};
        struct pawl_why why = {0};
        int code = pawl_guard_look(guard, request->path, &why, &data);
        bool sent;

        if (code != PAWL_OK && code != PAWL_NOT_FOUND)
                return refuse(peer, request, code, &why);
        add_version(&answer, request->path, data.token);
        if (code == PAWL_NOT_FOUND)
                return say(peer, request, &answer, 404, why.text);
        add_field(&answer, "Content-Type: application/octet-stream\r\n");
        answer.body = data.bytes;
        answer.size = data.size;
        sent = send_answer(peer, request, &answer);
        free(data.bytes);
        return sent;
}

/* Every answer to a swap with an id repeats it: the guard has compared it with the one beside the version. */
static void add_swap(struct answer *answer, const struct request *request)
{
        if (request->swap)
                add_field(answer, PAWL_SWAP_HEADER ": %s\r\n", request->swap);
}

/* 16 hexadecimal digits, not all of them 0. */
static bool read_swap(const char *text, uint64_t *id)
{
        *id = strtoull(text, NULL, 16);
        return strlen(text) == 16 && strspn(text, "0123456789abcdef") == 16 && *id != 0;
}

static int swap_data(const struct request *request, uint64_t *version, uint64_t id, struct pawl_why *why)
{
        if (!request->swap)
                return pawl_guard_swap(guard, request->path, *version, request->body, request->size, why, version);
        return pawl_guard_swap_as(guard, request->path, *version, request->body, request->size,
                                  PAWL_SWAP(.id = id, .why = why), version);
}

static bool refuse_swap(const struct peer *peer, const struct request *request, int code, const struct pawl_why *why)
{
        struct answer answer = {0};
        struct pawl_guard_data data = {0};
        int looked = code == PAWL_STALE ? pawl_guard_look(guard, request->path, NULL, &data) : code;

        if (looked == PAWL_OK || looked == PAWL_NOT_FOUND)
                add_field(&answer, "Pawl-Greatest: %" PRIu64 "\r\n", data.token);
        if (code == PAWL_STALE)
                add_swap(&answer, request);
        free(data.bytes);
        return say(peer, request, &answer, pawl_fence_status(code), why->text);
}

static bool serve_swap(const struct peer *peer, const struct request *request)
{
        struct answer answer = {.status = 204};
        struct pawl_why why = {0};
        char resource[PAWL_NAME_MAX + 1];
        uint64_t version, id = 0;
        int code;

        if (!request->expect)
                return say(peer, request, &answer, 428, "the request has no " PAWL_EXPECT_HEADER " header");
        if (pawl_expect_read(request->expect, resource, &version, &why) != PAWL_OK)
                return say(peer, request, &answer, 400, why.text);
        if (strcmp(resource, request->path) != 0)
                return say(peer, request, &answer, 400, "the version is of another resource than the request is about");
        if (request->swap && !read_swap(request->swap, &id))
                return say(peer, request, &answer, 400, PAWL_SWAP_HEADER " is not 16 hexadecimal digits");
        code = swap_data(request, &version, id, &why);
        if (code != PAWL_OK)
                return refuse_swap(peer, request, code, &why);
        add_version(&answer, resource, version);
        add_swap(&answer, request);
        return send_answer(peer, request, &answer);
}

/* A request with a token about one resource: its field must be about the same. */
static bool serve_fenced(const struct peer *peer, const struct request *request)
{
        static const struct {
                const char *method, *query;
                bool (*serve)(const struct peer *, const struct request *, uint64_t token);
        } rows[] = {
                {"HEAD", "", serve_head},
                {"GET", "", serve_get},
                {"PUT", "", serve_put},
                {"POST", "forget", serve_forget},
        };
        struct answer answer = {0};
        struct pawl_why why = {0};
        char resource[PAWL_NAME_MAX + 1];
        uint64_t token;

        if (!request->fence)
                return say(peer, request, &answer, 428, "the request has no " PAWL_FENCE_HEADER " header");
        if (pawl_fence_read(request->fence, resource, &token, &why) != PAWL_OK)
                return say(peer, request, &answer, 400, why.text);
        if (strcmp(resource, request->path) != 0)
                return say(peer, request, &answer, 400, "the token is for another resource than the request is about");
        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                if (strcmp(request->method, rows[i].method) == 0 && strcmp(request->query, rows[i].query) == 0)
                        return rows[i].serve(peer, request, token);
        }
        add_field(&answer, "Allow: HEAD, GET, PUT, POST\r\n");
        return say(peer, request, &answer, 405, "HEAD, GET and PUT are known here, and POST ?forget and ?swap");
}

static bool serve_resource(const struct peer *peer, const struct request *request)
{
        bool reads = strcmp(request->method, "GET") == 0 || strcmp(request->method, "HEAD") == 0;
        struct answer answer = {0};

        if (request->fence && request->expect)
                return say(peer, request, &answer, 400, "a request has a token or a version, not both");
        if (reads && strcmp(request->query, "look") == 0)
                return serve_look(peer, request);
        if (strcmp(request->method, "POST") == 0 && strcmp(request->query, "swap") == 0)
                return serve_swap(peer, request);
        return serve_fenced(peer, request);
}

/* ---- all resources --------------------------------------------------------------------------------------------- */

struct list {
        FILE *file;
        uint64_t count;
};

static int on_mark(const struct pawl_guard_entry *entry, void *arg)
{
        struct list *list = arg;
        char value[PAWL_FENCE_MAX + 1];

        /* A mark that cannot be read is listed as 0, which no token is. */
        if (pawl_fence_write(entry->resource, entry->code == PAWL_OK ? entry->token : 1, value, sizeof(value)) !=
            PAWL_OK)
                return 0;
        if (entry->code != PAWL_OK)
                value[strlen(value) - 1] = '0';
        list->count++;
        return fprintf(list->file, "%s\n", value) < 0;
}

static bool decode(const char *text, size_t size, char *out);

static bool serve_list(const struct peer *peer, const struct request *request)
{
        struct answer answer = {.status = 200};
        struct pawl_why why = {.text = "no memory for the list"};
        const char *encoded = strchr(request->query, '=');
        char prefix[QUERY_MAX] = "";
        char *text = NULL;
        size_t size = 0;
        struct list list = {open_memstream(&text, &size), 0};
        int code = list.file ? PAWL_OK : PAWL_NO_MEMORY;
        bool whole, sent;

        if (encoded && !decode(encoded + 1, strlen(encoded + 1), prefix)) {
                why = (struct pawl_why){.text = "the prefix is not well encoded"};
                code = PAWL_INVALID;
        }
        if (code == PAWL_OK)
                code = pawl_guard_list(guard, prefix, on_mark, &list, &why);
        whole = list.file && fclose(list.file) == 0;
        if (code == PAWL_OK && !whole)
                code = PAWL_NO_MEMORY;
        add_field(&answer, "Pawl-Marks: %" PRIu64 "\r\nContent-Type: text/plain; charset=utf-8\r\n", list.count);
        answer.body = text;
        answer.size = size;
        sent = code == PAWL_OK ? send_answer(peer, request, &answer) : refuse(peer, request, code, &why);
        free(text);
        return sent;
}

/* Decimal digits and nothing else, > 0 and < 2^63. */
static bool read_floor(const char *text, uint64_t *floor)
{
        size_t size = strlen(text);

        errno = 0;
        *floor = size > 0 && strspn(text, "0123456789") == size ? strtoull(text, NULL, 10) : 0;
        return *floor > 0 && *floor <= INT64_MAX && errno == 0;
}

/* The header is what no web page can send with its POST. */
static bool serve_prune(const struct peer *peer, const struct request *request)
{
        struct answer answer = {.status = 204};
        struct pawl_why why = {0};
        const char *text = request->query + strlen("prune=");
        uint64_t floor, pruned = 0;
        int code;

        if (!request->prune)
                return say(peer, request, &answer, 428, "the request has no " PAWL_PRUNE_HEADER " header");
        if (!read_floor(text, &floor) || strcmp(request->prune, text) != 0)
                return say(peer, request, &answer, 400, "the floor is not a token, or not that of " PAWL_PRUNE_HEADER);
        code = pawl_guard_prune(guard, floor, &why, &pruned);
        if (code != PAWL_OK)
                return refuse(peer, request, code, &why);
        add_field(&answer, "Pawl-Pruned: %" PRIu64 "\r\n", pruned);
        return send_answer(peer, request, &answer);
}

static bool serve_all(const struct peer *peer, const struct request *request)
{
        struct answer answer = {0};

        if (strcmp(request->method, "GET") == 0 &&
            (strcmp(request->query, "marks") == 0 || strncmp(request->query, "marks&prefix=", 13) == 0))
                return serve_list(peer, request);
        if (strcmp(request->method, "POST") == 0 && strncmp(request->query, "prune=", 6) == 0)
                return serve_prune(peer, request);
        return say(peer, request, &answer, 404, "there is no resource without a name; GET ?marks lists their tokens");
}

/* ---- reading a request ----------------------------------------------------------------------------------------- */

static int hex_value(char c)
{
        const char *digits = "0123456789abcdef0123456789ABCDEF";
        const char *digit = c ? strchr(digits, c) : NULL;

        return digit ? (int)(digit - digits) & 15 : -1;
}

/* Takes %XX out; out has room for size + 1, and may be text. */
static bool decode(const char *text, size_t size, char *out)
{
        const char *end = text + size;

        while (text < end) {
                bool encoded = *text == '%';
                int high = encoded && end - text > 2 ? hex_value(text[1]) : -1;
                int low = high >= 0 ? hex_value(text[2]) : -1;

                if (encoded && (low < 0 || (high | low) == 0))
                        return false;
                *out++ = encoded ? (char)(high << 4 | low) : *text;
                text += encoded ? 3 : 1;
        }
        *out = '\0';
        return true;
}

/* METHOD /path?query HTTP/1.1; what is wrong with it, or NULL. */
static const char *read_first(struct request *request, char *line)
{
        char *target = strchr(line, ' ');
        char *version = target ? strchr(target + 1, ' ') : NULL;
        char *query;

        if (!version || target[1] != '/' || (strcmp(version, " HTTP/1.1") != 0 && strcmp(version, " HTTP/1.0") != 0))
                return "the request does not begin like one of HTTP/1.1";
        *target++ = *version = '\0';
        request->method = line;
        request->keeps = version[8] == '1';
        query = strchr(target, '?');
        if (query)
                *query++ = '\0';
        if (query && strlen(query) >= sizeof(request->query))
                return "the request's query is too long";
        if (query)
                memcpy(request->query, query, strlen(query) + 1);
        request->path = target + 1;
        return decode(request->path, strlen(request->path), request->path) ? NULL : "the path is not well encoded";
}

static char *trim(char *text)
{
        char *end;

        text += strspn(text, " \t");
        end = text + strlen(text);
        while (end > text && (end[-1] == ' ' || end[-1] == '\t'))
                *--end = '\0';
        return text;
}

/* A field that is said twice could be read in two ways. */
static bool once(const char **place, const char *value)
{
        bool first = *place == NULL;

        *place = value;
        return first;
}

/* RFC 9110, 5.6.2: what a field's name is made of. A blank there, or a line that goes on, is read differently by others. */
static size_t name_size(const char *line)
{
        return strspn(line, "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz");
}

/* What is wrong with it, or NULL. */
static const char *read_field(struct request *request, char *line, const char **length)
{
        char *colon = strchr(line, ':');
        char *value;

        if (!colon || colon == line || name_size(line) != (size_t)(colon - line))
                return "a line of the head is not \"Name: value\"";
        *colon = '\0';
        value = trim(colon + 1);
        if (strcasecmp(line, PAWL_FENCE_HEADER) == 0 && !once(&request->fence, value))
                return PAWL_FENCE_HEADER " is said twice";
        if (strcasecmp(line, PAWL_EXPECT_HEADER) == 0 && !once(&request->expect, value))
                return PAWL_EXPECT_HEADER " is said twice";
        if (strcasecmp(line, PAWL_SWAP_HEADER) == 0 && !once(&request->swap, value))
                return PAWL_SWAP_HEADER " is said twice";
        if (strcasecmp(line, PAWL_PRUNE_HEADER) == 0 && !once(&request->prune, value))
                return PAWL_PRUNE_HEADER " is said twice";
        if (strcasecmp(line, "Host") == 0 && !once(&request->host, value))
                return "Host is said twice";
        if (strcasecmp(line, "Content-Length") == 0 && !once(length, value))
                return "Content-Length is said twice";
        if (strcasecmp(line, "Transfer-Encoding") == 0)
                return "Transfer-Encoding is not known here: say Content-Length";
        if (strcasecmp(line, "Connection") == 0 && strcasestr(value, "close"))
                request->keeps = false;
        if (strcasecmp(line, "Expect") == 0 && strcasecmp(value, "100-continue") == 0)
                request->continues = true;
        return NULL;
}

/* The address it listens on, localhost, or a name of the command line; with the port or without. */
static bool is_our_host(const char *host)
{
        size_t size = host ? strcspn(host, ":") : 0;

        if (!host)
                return false;
        if (size == strlen(settings.address) && strncmp(host, settings.address, size) == 0)
                return true;
        if (size == 9 && strncasecmp(host, "localhost", size) == 0)
                return true;
        for (size_t i = 0; i < settings.name_count; i++) {
                if (size == strlen(settings.names[i]) && strncasecmp(host, settings.names[i], size) == 0)
                        return true;
        }
        return false;
}

/* Splits the head, which ends in a NUL. 0, or the status and a sentence of the refusal. */
static int read_head(struct request *request, char *head, const char **length, const char **wrong)
{
        char *next = strstr(head, "\r\n");
        int fields = 0;

        *next = '\0';
        *wrong = strpbrk(head, "\r\n") ? "a line does not end in CR LF" : read_first(request, head);
        for (char *line = next + 2; !*wrong && *line; line = next + 2) {
                next = strstr(line, "\r\n");
                *next = '\0';
                if (++fields > FIELDS_MAX)
                        *wrong = "the head has too many lines";
                else
                        *wrong = strpbrk(line, "\r\n") ? "a line does not end in CR LF"
                                                       : read_field(request, line, length);
        }
        if (*wrong)
                return 400;
        if (is_our_host(request->host))
                return 0;
        *wrong = "the request is for another host: start the server with --host NAME if it is called so";
        return 421;
}

/* The body's size, or a status. */
static int read_length(const struct request *request, const char *length, size_t *size, const char **wrong)
{
        bool puts = strcmp(request->method, "PUT") == 0 ||
                    (strcmp(request->method, "POST") == 0 && strcmp(request->query, "swap") == 0);

        *size = 0;
        if (!length) {
                *wrong = "what carries data must say its Content-Length";
                return puts ? 411 : 0;
        }
        *wrong = "the Content-Length is not a number";
        if (!*length || strspn(length, "0123456789") != strlen(length))
                return 400;
        *wrong = "the body is too large";
        if (strlen(length) > 18 || strtoull(length, NULL, 10) > settings.body_max)
                return 413;
        *size = (size_t)strtoull(length, NULL, 10);
        return 0;
}

/* All of it, or nothing is done: a body that was cut is no body. */
static bool read_body(struct peer *peer, struct request *request, const char *begun, size_t begun_size)
{
        size_t have = begun_size < request->size ? begun_size : request->size;

        request->body = malloc(request->size + 1);
        if (!request->body)
                return false;
        memcpy(request->body, begun, have);
        if (request->continues && have < request->size && !send_all(peer, "HTTP/1.1 100 Continue\r\n\r\n", 25, 0))
                return false;
        while (have < request->size) {
                size_t n = receive(peer, request->body + have, request->size - have);

                if (n == 0)
                        return false;
                have += n;
        }
        return true;
}

/* ---- a connection ---------------------------------------------------------------------------------------------- */

/* Where the head ends, having read as much; NULL: it did not come, or it is too long (and *used is HEAD_MAX). */
static char *wait_for_head(struct peer *peer)
{
        char *end;

        peer->until = now_ms() + IDLE_SECONDS * 1000;
        peer->head[peer->used] = '\0';
        while ((end = memmem(peer->head, peer->used, "\r\n\r\n", 4)) == NULL) {
                size_t n = peer->used < HEAD_MAX ? receive(peer, peer->head + peer->used, HEAD_MAX - peer->used) : 0;

                if (n == 0)
                        return NULL;
                peer->used += n;
        }
        return end + 4;
}

/* Says what is wrong, and then waits a moment for the other end: closing a socket with unread bytes would take the answer
 * along. */
static void turn_away(struct peer *peer, struct request *request, int status, const char *sentence)
{
        struct answer answer = {0};
        char rest[4096];

        request->keeps = false;
        if (!request->method)
                request->method = "";
        if (!say(peer, request, &answer, status, sentence))
                return;
        shutdown(peer->fd, SHUT_WR);
        peer->until = now_ms() + 2000;
        for (size_t dropped = 0; dropped < 1 << 20;) {
                size_t n = receive(peer, rest, sizeof(rest));

                if (n == 0)
                        break;
                dropped += n;
        }
}

/* One request. Whether another may follow. */
static bool serve_one(struct peer *peer)
{
        struct request request = {0};
        const char *length = NULL;
        const char *wrong = NULL;
        char *end = wait_for_head(peer);
        char *body;
        size_t begun, taken;
        int status = 431;
        bool goes_on;

        if (!end && peer->used < HEAD_MAX)
                return false;
        peer->until = now_ms() + REQUEST_SECONDS * 1000;
        wrong = "the head is too long";
        if (end) {
                wrong = "there is a NUL in the head";
                status = memchr(peer->head, '\0', (size_t)(end - peer->head)) ? 400 : 0;
        }
        if (status == 0) {
                body = end;
                begun = peer->used - (size_t)(body - peer->head);
                end[-2] = '\0'; /* what follows the last line */
                status = read_head(&request, peer->head, &length, &wrong);
        }
        if (status == 0)
                status = read_length(&request, length, &request.size, &wrong);
        if (status != 0) {
                turn_away(peer, &request, status, wrong);
                return false;
        }
        goes_on = read_body(peer, &request, body, begun) &&
                  (*request.path ? serve_resource(peer, &request) : serve_all(peer, &request)) && request.keeps;
        free(request.body);
        taken = request.size < begun ? request.size : begun;
        peer->used = begun - taken;
        memmove(peer->head, body + taken, peer->used);
        return goes_on;
}

static void *serve_peer(void *arg)
{
        struct peer *peer = arg;

        while (serve_one(peer))
                continue;
        close(peer->fd);
        free(peer);
        atomic_fetch_sub(&connections, 1);
        return NULL;
}

static void take(int fd)
{
        struct peer *peer = atomic_fetch_add(&connections, 1) < CONNECTIONS_MAX ? malloc(sizeof(*peer)) : NULL;
        pthread_attr_t attributes;
        pthread_t thread;
        int error = ENOMEM;
        int yes = 1;

        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)); /* an answer waits for nothing */
        if (peer && pthread_attr_init(&attributes) == 0) {
                peer->fd = fd;
                peer->used = 0;
                pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
                error = pthread_create(&thread, &attributes, serve_peer, peer);
                pthread_attr_destroy(&attributes);
        }
        if (error == 0)
                return;
        close(fd); /* the client finds it closed, and tries again later */
        free(peer);
        atomic_fetch_sub(&connections, 1);
}

/* ---- the program ----------------------------------------------------------------------------------------------- */

static int listen_there(uint16_t *port)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(*port)};
        socklen_t size = sizeof(address);
        int yes = 1;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (fd < 0 || inet_pton(AF_INET, settings.address, &address.sin_addr) != 1)
                return -1;
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
        if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 64) != 0 ||
            getsockname(fd, (struct sockaddr *)&address, &size) != 0)
                return -1;
        *port = ntohs(address.sin_port);
        return fd;
}

static void *accept_all(void *arg)
{
        int listener = *(const int *)arg;

        for (;;) {
                int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

                if (fd >= 0)
                        take(fd);
                else if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)
                        poll(NULL, 0, 100); /* until some connections have ended */
                else if (errno != EINTR && errno != ECONNABORTED)
                        return NULL;
        }
}

/* The story, through a guard of our own: the first thing that does not come out so. */
static const char *play(const char *url, struct pawl_why *why)
{
        struct pawl_guard_data data = {0};
        pawl_guard *remote;
        const char *wrong = NULL;

        if (pawl_guard_open(url, PAWL_GUARD(.why = why), &remote) != PAWL_OK)
                return "the guard over HTTP cannot be opened";
        if (pawl_guard_put(remote, "orders/42", 33, "first", 5, why) != PAWL_OK)
                wrong = "the first holder cannot write";
        else if (pawl_guard_put(remote, "orders/42", 34, "second", 6, why) != PAWL_OK)
                wrong = "the second holder cannot write";
        else if (pawl_guard_put(remote, "orders/42", 33, "late", 4, why) != PAWL_STALE)
                wrong = "a late write is not refused";
        else if (pawl_guard_get(remote, "orders/42", 35, why, &data) != PAWL_OK)
                wrong = "the third holder cannot read";
        else if (data.size != 6 || memcmp(data.bytes, "second", 6) != 0 || data.token != 34)
                wrong = "the data are not the second holder's";
        else if (pawl_guard_admit(remote, "orders/42", 34, why) != PAWL_STALE)
                wrong = "a reader is no barrier";
        free(data.bytes);
        pawl_guard_close(remote);
        return wrong;
}

static int test_self(int listener, uint16_t port)
{
        char url[64];
        struct pawl_why why = {0};
        const char *wrong;
        pthread_t thread;

        snprintf(url, sizeof(url), "http://127.0.0.1:%u", (unsigned)port);
        if (pthread_create(&thread, NULL, accept_all, &listener) != 0)
                return 1;
        pthread_detach(thread);
        wrong = play(url, &why);
        if (wrong)
                printf("%s: %s\n", wrong, why.text);
        else
                printf("the late write was refused; the second holder's data stand\n");
        return wrong ? 1 : 0;
}

/* False: it is not understood. */
static bool read_arguments(int argc, char **argv)
{
        for (int i = 1; i < argc; i++) {
                bool more = i + 1 < argc;

                if (strcmp(argv[i], "--self-test") == 0)
                        settings.self_test = true;
                else if (strcmp(argv[i], "--port") == 0 && more)
                        settings.port = (uint16_t)atoi(argv[++i]);
                else if (strcmp(argv[i], "--address") == 0 && more)
                        settings.address = argv[++i];
                else if (strcmp(argv[i], "--host") == 0 && more && settings.name_count < NAMES_MAX)
                        settings.names[settings.name_count++] = argv[++i];
                else if (strcmp(argv[i], "--limit") == 0 && more)
                        settings.body_max = strtoul(argv[++i], NULL, 10);
                else if (argv[i][0] != '-')
                        settings.url = argv[i];
                else
                        return false;
        }
        if (settings.self_test)
                settings.port = 0;
        return true;
}

int main(int argc, char **argv)
{
        struct pawl_why why = {0};
        int listener;

        if (!read_arguments(argc, argv)) {
                fprintf(stderr,
                        "usage: http_server [--port N] [--address A] [--host NAME]... [--limit BYTES] [GUARD-URL]\n");
                return 2;
        }
        if (pawl_guard_open(settings.url, PAWL_GUARD(.why = &why), &guard) != PAWL_OK) {
                fprintf(stderr, "http_server: %s\n", why.text);
                return 1;
        }
        listener = listen_there(&settings.port);
        if (listener < 0) {
                perror("http_server: cannot listen");
                return 1;
        }
        if (settings.self_test)
                return test_self(listener, settings.port);
        printf("listening on http://%s:%u/\n", settings.address, (unsigned)settings.port);
        fflush(stdout);
        accept_all(&listener);
        return 1;
}
