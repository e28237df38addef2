/* fuzz_redis_reply.c - any bytes as a Redis server's replies. The engine speaks to a unix socket of ours in the same thread;
 * whatever comes, it must neither crash nor hang, and what it makes of the bytes must not depend on how they are cut.
 *
 * An input is a letter that says what is asked for (see options_of), then the replies to commands, then, after a byte 0x1e,
 * what the connection for news is told. */
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "fuzz.h"
#include "pawl.h"

enum { INPUT_MAX = 4096, TURNS = 6 };
#define NEWS_MARK 0x1e

/* What came of it. */
struct outcome {
        int granted; /* how often it was told */
        int status;
        uint64_t token;
        int lost;
};

/* The server's end of one connection. */
struct line {
        int fd;
        bool news;
        bool known; /* its first request was read */
        const uint8_t *bytes;
        size_t size;
};

struct server {
        int listener;
        struct line lines[2];
        size_t count;
        int good[8]; /* connections to the good server that takes over at the end */
        size_t good_count;
        unsigned scripts; /* that it answered */
};

static void on_granted(pawl_lock *lock, int status, void *arg)
{
        struct outcome *outcome = arg;

        outcome->granted++;
        outcome->status = status;
        outcome->token = pawl_token(lock);
}

static void on_lost(pawl_lock *lock, int reason, void *arg)
{
        (void)lock;
        (void)reason;
        ((struct outcome *)arg)->lost++;
}

static struct pawl_lock_options options_of(uint8_t letter, struct outcome *outcome)
{
        return (struct pawl_lock_options){.size = sizeof(struct pawl_lock_options),
                                          .wait_ms = letter & 1 ? PAWL_FOREVER : PAWL_NO_WAIT,
                                          .mode = letter & 2 ? PAWL_SHARED : PAWL_EXCLUSIVE,
                                          .max_holders = letter & 4 && letter & 2 ? 2 : 0,
                                          .delay_ms = letter & 8 ? 1000 : 0,
                                          .ttl_ms = 60000,
                                          .on_lost = on_lost,
                                          .arg = outcome};
}

/* ---- the server --------------------------------------------------------------------------------------------------- */

static void server_open(struct server *server, char *url, size_t size)
{
        static unsigned number;
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int length = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "pawl-fuzz-%d-%u", (int)getpid(),
                              number++);

        *server = (struct server){.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)};
        MUST(bind(server->listener, (struct sockaddr *)&address,
                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length)) == 0);
        MUST(listen(server->listener, 8) == 0);
        snprintf(url, size, "redis+unix:@%s?timeout=1s&prefix=f:", address.sun_path + 1);
}

static void hang_up(struct server *server)
{
        for (size_t i = 0; i < server->count; i++)
                close(server->lines[i].fd);
}

static void server_close(struct server *server)
{
        close(server->listener);
        for (size_t i = 0; i < server->good_count; i++)
                close(server->good[i]);
}

static void take_connection(struct server *server)
{
        int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd < 0)
                return;
        if (server->count < 2)
                server->lines[server->count++] = (struct line){.fd = fd};
        else
                close(fd); /* it comes again: what we had to say is said */
}

/* Reads what was asked; the first request tells which connection it is. */
static void read_requests(struct line *line, const uint8_t *data, size_t size)
{
        const uint8_t *mark = memchr(data, NEWS_MARK, size);
        size_t commands = mark ? (size_t)(mark - data) : size;
        char request[65536];
        ssize_t got = recv(line->fd, request, sizeof(request) - 1, 0);

        if (got <= 0 || line->known)
                return;
        line->known = true;
        request[got] = '\0';
        line->news = strstr(request, "SUBSCRIBE") != NULL;
        line->bytes = line->news ? data + commands + (mark != NULL) : data;
        line->size = line->news ? size - commands - (mark != NULL) : commands;
}

/* Says all of it, or so much. False when all is said. */
static bool say(struct line *line, size_t most)
{
        size_t size = line->size < most ? line->size : most;

        if (!line->known || size == 0)
                return false;
        if (send(line->fd, line->bytes, size, MSG_NOSIGNAL) != (ssize_t)size)
                size = line->size; /* it has hung up on us */
        line->bytes += size;
        line->size -= size;
        return true;
}

/* The length of the request at text, and whether it is a script's; 0 if it is not whole. */
static size_t request_length(const char *text, size_t size, bool *script)
{
        const char *at = text, *end = text + size;
        long words = at < end && *at == '*' ? strtol(at + 1, NULL, 10) : 0;

        *script = size > 12 && memmem(text, 24 < size ? 24 : size, "\r\nEVAL", 6) != NULL;
        at = memchr(text, '\n', size);
        for (; at && words > 0; words--) {
                long length = strtol(at + 2, NULL, 10);

                at = memchr(at + 1, '\n', (size_t)(end - at - 1));
                at = at && end - at > length + 2 ? at + length + 2 : NULL;
        }
        return at ? (size_t)(at + 1 - text) : 0;
}

/* Then a server takes over that says yes to everything: so the client gets rid of its claim and is closed at once. */
static void serve_well(struct server *server)
{
        char requests[65536] = "";
        int fd = accept4(server->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0 && server->good_count < 8)
                server->good[server->good_count++] = fd;
        else if (fd >= 0)
                close(fd);
        for (size_t i = 0; i < server->good_count; i++) {
                ssize_t got = recv(server->good[i], requests, sizeof(requests) - 1, 0);
                size_t length = 1;
                bool script;

                requests[got > 0 ? got : 0] = '\0';
                for (size_t at = 0; got > 0 && length > 0 && at < (size_t)got; at += length) {
                        length = request_length(requests + at, (size_t)got - at, &script);
                        server->scripts += length > 0 && script;
                        if (length > 0)
                                (void)!send(server->good[i], script ? ":1\r\n" : "+OK\r\n", script ? 4 : 5,
                                            MSG_NOSIGNAL);
                }
        }
}

/* ---- one run ------------------------------------------------------------------------------------------------------ */

static void turn(pawl_client *client, struct server *server, const uint8_t *data, size_t size)
{
        for (int i = 0; i < TURNS; i++) {
                MUST(pawl_dispatch(client) == PAWL_OK);
                take_connection(server);
                for (size_t j = 0; j < server->count; j++)
                        read_requests(&server->lines[j], data, size);
        }
}

static void on_released(int status, void *arg)
{
        (void)status;
        *(bool *)arg = true;
}

static void end(pawl_client *client, pawl_lock *lock, struct server *server)
{
        struct pollfd fd = {.fd = pawl_fd(client), .events = POLLIN};
        bool released = false;

        hang_up(server);
        MUST(pawl_release_async(lock, on_released, &released) == PAWL_OK);
        /* What is given up without having been held is cleaned up behind us: that takes one script more. */
        for (int left = 100; !released || (server->scripts == 0 && left > 0); left--) {
                MUST(pawl_dispatch(client) == PAWL_OK);
                serve_well(server);
                poll(&fd, 1, 1);
        }
        server_close(server);
        (void)pawl_close(client);
}

/* The commands' replies first, then the news, so much at once. */
static struct outcome run(const uint8_t *data, size_t size, size_t most)
{
        struct outcome outcome = {0};
        struct pawl_lock_options options = options_of(data[0], &outcome);
        struct server server;
        pawl_client *client;
        pawl_lock *lock;
        char url[256];

        server_open(&server, url, sizeof(url));
        MUST(pawl_open(url, PAWL_OPEN(.drive = PAWL_DRIVE_CALLER, .owner = "fuzz"), &client) == PAWL_OK);
        MUST(pawl_acquire_async(client, "a", &options, on_granted, &outcome, &lock) == PAWL_OK);
        turn(client, &server, data + 1, size - 1);
        for (int news = 0; news < 2; news++)
                for (size_t i = 0; i < server.count; i++)
                        while (server.lines[i].news == news && say(&server.lines[i], most))
                                turn(client, &server, data + 1, size - 1);
        MUST(outcome.granted <= 1 && outcome.lost <= outcome.granted);
        MUST(outcome.status != PAWL_OK || outcome.granted == 0 || outcome.token > 0);
        end(client, lock, &server);
        return outcome;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct outcome whole, bytewise;

        if (size < 1 || size > INPUT_MAX)
                return 0;
        whole = run(data, size, size);
        bytewise = run(data, size, 1);
        MUST(whole.granted == bytewise.granted);
        MUST(whole.status == bytewise.status);
        MUST(whole.token == bytewise.token);
        return 0;
}
