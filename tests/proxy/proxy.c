/* proxy.c - a bad network between a client and a server, for tests.
 *
 *     proxy --to HOST:PORT [--listen PORT] [--cut MEAN [--spare BYTES]] [--seed N] [--delay MS] [--control PATH]
 *
 * Its port is the first line it prints. --cut ends each connection after a random number of bytes with that mean, counted
 * in both directions: in the middle of whatever was being said, by FIN or RST at either end; --spare: never within the
 * first BYTES. --delay keeps everything back
 * for so long, each way. Lines on stdin, and on the unix socket PATH, say what happens from now on; each is answered by
 * "ok" or "no: why" where it came from:
 *
 *     pass            what comes is passed on, and what was kept back (the beginning)
 *     hold-replies    requests are passed on, replies are kept back
 *     hold            both are kept back: a network that is away for a while
 *     blackhole       connections are accepted, and everything is swallowed; they are cut at the next pass
 *     refuse          new connections are reset at once
 *     cut             every connection is cut now
 *     cut MEAN        as --cut, from now on and for those that are there; 0: no more
 *     delay MS        as --delay, from now on
 *     count           "ok CONNECTIONS": how many there are
 *     quit
 *
 * It ends when stdin does, so that it never outlives who started it. */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { MOST_LINKS = 4000, MOST_CONTROLS = 16, MOST_KEPT = 4 << 20, READ_SIZE = 16 * 1024 };

enum mode { PASS, HOLD_REPLIES, HOLD, BLACKHOLE, REFUSE };

/* Bytes that were read at once; passed on when they are due. */
struct chunk {
        struct chunk *next;
        int64_t due;
        size_t start, end;
        char bytes[READ_SIZE];
};

/* One direction of a connection. */
struct way {
        int from, to;
        struct chunk *first, *last;
        size_t kept;
        bool ended; /* from has said its last word */
        bool told;  /* to knows it */
};

struct link {
        bool connected; /* to the server */
        bool swallowed; /* something is missing: it cannot go on */
        struct way requests, replies;
        int64_t left; /* bytes until it is cut; INT64_MAX: never */
};

/* Somebody who gives orders. */
struct control {
        int in, out;
        size_t size;
        char line[200];
};

static enum mode mode = PASS;
static int64_t cut_mean, spared, delay_ms;
static uint64_t dice = 1;
static struct addrinfo *server;
static struct link *links[MOST_LINKS];
static size_t link_count;
static struct control controls[MOST_CONTROLS]; /* [0] is stdin */
static size_t control_count;
static bool finished;

_Noreturn static void give_up(const char *what)
{
        fprintf(stderr, "proxy: %s: %s\n", what, errno ? strerror(errno) : "no");
        exit(2);
}

static int64_t now_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static uint64_t roll(uint64_t below)
{
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        return dice % below;
}

/* From 1 to twice the mean, each as likely, behind what is spared. */
static int64_t draw_left(void)
{
        return cut_mean > 0 ? spared + 1 + (int64_t)roll((uint64_t)cut_mean * 2) : INT64_MAX;
}

/* ---- connections -------------------------------------------------------------------------------------------------- */

static void close_end(int fd, bool by_reset)
{
        struct linger linger = {.l_onoff = 1};

        if (fd < 0)
                return;
        if (by_reset)
                setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
        close(fd);
}

static void free_way(struct way *way)
{
        while (way->first) {
                struct chunk *chunk = way->first;

                way->first = chunk->next;
                free(chunk);
        }
}

/* Its place is taken by the last one. */
static void end_link(size_t at, bool client_reset, bool server_reset)
{
        struct link *link = links[at];

        close_end(link->requests.from, client_reset);
        close_end(link->requests.to, server_reset);
        free_way(&link->requests);
        free_way(&link->replies);
        free(link);
        links[at] = links[--link_count];
}

static void cut(size_t at)
{
        uint64_t how = roll(4);

        end_link(at, how & 1, how & 2);
}

static void cut_all(bool only_swallowed)
{
        for (size_t i = link_count; i-- > 0;)
                if (!only_swallowed || links[i]->swallowed)
                        cut(i);
}

static int connect_to_server(void)
{
        int fd = socket(server->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        int one = 1;

        if (fd < 0)
                return -1;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        if (connect(fd, server->ai_addr, server->ai_addrlen) == 0 || errno == EINPROGRESS)
                return fd;
        close(fd);
        return -1;
}

static void begin_link(int client)
{
        struct link *link = calloc(1, sizeof(*link));
        int one = 1;
        int fd = mode == BLACKHOLE ? -1 : connect_to_server();

        if (!link || (fd < 0 && mode != BLACKHOLE) || link_count == MOST_LINKS) {
                close_end(client, true);
                close_end(fd, true);
                free(link);
                return;
        }
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        link->requests.from = link->replies.to = client;
        link->requests.to = link->replies.from = fd;
        link->swallowed = fd < 0;
        link->left = draw_left();
        links[link_count++] = link;
}

static void take_connections(int listener)
{
        int fd;

        while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK)) >= 0) {
                if (mode == REFUSE)
                        close_end(fd, true);
                else
                        begin_link(fd);
        }
}

/* ---- bytes -------------------------------------------------------------------------------------------------------- */

static bool is_held(const struct link *link, const struct way *way)
{
        return mode == HOLD || mode == BLACKHOLE || (mode == HOLD_REPLIES && way == &link->replies) || !link->connected;
}

static void keep(struct way *way, struct chunk *chunk, size_t size)
{
        chunk->next = NULL;
        chunk->start = 0;
        chunk->end = size;
        chunk->due = now_ms() + delay_ms;
        if (way->first)
                way->last->next = chunk;
        else
                way->first = chunk;
        way->last = chunk;
        way->kept += size;
}

/* Reads once. False: the connection is broken. */
static bool read_from(struct link *link, struct way *way)
{
        struct chunk *chunk = malloc(sizeof(*chunk));
        ssize_t n;

        if (!chunk)
                return false;
        n = recv(way->from, chunk->bytes, sizeof(chunk->bytes), 0);
        if (n > 0 && mode != BLACKHOLE) {
                keep(way, chunk, (size_t)n);
                return true;
        }
        if (n > 0)
                link->swallowed = true;
        if (n == 0)
                way->ended = true;
        free(chunk);
        return n >= 0 || errno == EAGAIN || errno == EINTR;
}

static void forget_first(struct way *way)
{
        struct chunk *chunk = way->first;

        way->first = chunk->next;
        free(chunk);
}

/* Passes on what is due. False: it is broken, or at its end. */
static bool pass_on(struct link *link, struct way *way)
{
        int64_t now = now_ms();

        while (way->first && !is_held(link, way) && way->first->due <= now) {
                struct chunk *chunk = way->first;
                size_t size = chunk->end - chunk->start;
                ssize_t n;

                if ((int64_t)size > link->left)
                        size = (size_t)link->left;
                n = send(way->to, chunk->bytes + chunk->start, size, MSG_NOSIGNAL);
                if (n < 0 && (errno == EAGAIN || errno == EINTR))
                        return true;
                if (n < 0)
                        return false;
                chunk->start += (size_t)n;
                way->kept -= (size_t)n;
                if (link->left != INT64_MAX && (link->left -= n) == 0)
                        return false;
                if (chunk->start == chunk->end)
                        forget_first(way);
        }
        if (way->ended && !way->told && !way->first && !is_held(link, way)) {
                shutdown(way->to, SHUT_WR);
                way->told = true;
        }
        return true;
}

static bool is_over(const struct link *link)
{
        if (link->requests.to < 0)
                return link->requests.ended;
        return link->requests.told && link->replies.told;
}

static bool finish_connecting(struct link *link)
{
        int error = 0;
        socklen_t size = sizeof(error);

        if (getsockopt(link->requests.to, SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0)
                return false;
        link->connected = true;
        return true;
}

/* False: it is broken. */
static bool serve_link(struct link *link, short client, short from_server)
{
        if (from_server && !link->connected && !finish_connecting(link))
                return false;
        if (client & ~POLLOUT && !link->requests.ended && !read_from(link, &link->requests))
                return false;
        if (from_server & ~POLLOUT && link->connected && !link->replies.ended && !read_from(link, &link->replies))
                return false;
        return pass_on(link, &link->requests) && pass_on(link, &link->replies);
}

/* ---- orders ------------------------------------------------------------------------------------------------------- */

static bool set_mode(const char *line)
{
        static const char *const names[] = {"pass", "hold-replies", "hold", "blackhole", "refuse"};

        for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
                if (strcmp(line, names[i]) != 0)
                        continue;
                mode = (enum mode)i;
                if (mode != BLACKHOLE)
                        cut_all(true);
                return true;
        }
        return false;
}

static bool set_number(const char *line, const char *word, int64_t *number)
{
        size_t length = strlen(word);
        char *end;
        long long value;

        if (strncmp(line, word, length) != 0 || line[length] != ' ')
                return false;
        value = strtoll(line + length + 1, &end, 10);
        if (end == line + length + 1 || *end || value < 0 || value > INT32_MAX)
                return false;
        *number = value;
        return true;
}

static void obey(const char *line, char *answer, size_t size)
{
        snprintf(answer, size, "ok\n");
        if (set_mode(line) || set_number(line, "delay", &delay_ms)) {
                return;
        } else if (set_number(line, "cut", &cut_mean)) {
                for (size_t i = 0; i < link_count; i++)
                        links[i]->left = draw_left();
        } else if (strcmp(line, "cut") == 0) {
                cut_all(false);
        } else if (strcmp(line, "count") == 0) {
                snprintf(answer, size, "ok %zu\n", link_count);
        } else if (strcmp(line, "quit") == 0) {
                finished = true;
        } else {
                snprintf(answer, size, "no: %.100s is not something I do\n", line);
        }
}

static void obey_line(struct control *control, const char *line)
{
        char answer[200];
        ssize_t n;

        obey(line, answer, sizeof(answer));
        n = write(control->out, answer, strlen(answer));
        (void)n; /* who does not listen does not want to know */
}

/* False: there will be no more. */
static bool listen_to(struct control *control)
{
        ssize_t n = read(control->in, control->line + control->size, sizeof(control->line) - 1 - control->size);
        char *end;

        if (n < 0 && (errno == EAGAIN || errno == EINTR))
                return true;
        if (n <= 0)
                return false;
        control->size += (size_t)n;
        control->line[control->size] = '\0';
        while ((end = strchr(control->line, '\n'))) {
                *end = '\0';
                obey_line(control, control->line);
                control->size -= (size_t)(end + 1 - control->line);
                memmove(control->line, end + 1, control->size + 1);
        }
        return control->size < sizeof(control->line) - 1;
}

static void serve_controls(const struct pollfd *descriptors, int control_listener)
{
        for (size_t i = control_count; i-- > 0;) {
                if (!descriptors[i].revents || listen_to(&controls[i]))
                        continue;
                if (i == 0) {
                        finished = true;
                        return;
                }
                close(controls[i].in);
                controls[i] = controls[--control_count];
        }
        if (control_listener >= 0 && control_count < MOST_CONTROLS) {
                int fd = accept4(control_listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

                if (fd >= 0)
                        controls[control_count++] = (struct control){.in = fd, .out = fd};
        }
}

/* ---- the loop ----------------------------------------------------------------------------------------------------- */

/* A descriptor of which nothing is wanted is not looked at: its end would be told again and again. */
static struct pollfd wanted(int fd, bool in, bool out)
{
        short events = (short)((in ? POLLIN : 0) | (out ? POLLOUT : 0));

        return (struct pollfd){.fd = events ? fd : -1, .events = events};
}

static bool is_waiting(const struct link *link, const struct way *way, int64_t now, int64_t *wake_at)
{
        if (!way->first || is_held(link, way))
                return false;
        if (way->first->due <= now)
                return true;
        if (way->first->due < *wake_at)
                *wake_at = way->first->due;
        return false;
}

/* What to wait for: the controls, the two listeners, then two for each link. How long, in ms. */
static int prepare(struct pollfd *descriptors, int listener, int control_listener)
{
        int64_t now = now_ms();
        int64_t wake_at = INT64_MAX;
        size_t n = 0;

        for (size_t i = 0; i < control_count; i++)
                descriptors[n++] = wanted(controls[i].in, true, false);
        descriptors[n++] = wanted(control_listener, true, false);
        descriptors[n++] = wanted(listener, true, false);
        for (size_t i = 0; i < link_count; i++) {
                struct link *link = links[i];
                bool to_server = is_waiting(link, &link->requests, now, &wake_at);
                bool to_client = is_waiting(link, &link->replies, now, &wake_at);
                bool hears_client = !link->requests.ended && link->requests.kept < MOST_KEPT;
                bool hears_server = link->connected && !link->replies.ended && link->replies.kept < MOST_KEPT;

                descriptors[n++] = wanted(link->requests.from, hears_client, to_client);
                descriptors[n++] = wanted(link->requests.to, hears_server, to_server || !link->connected);
        }
        return wake_at == INT64_MAX ? -1 : (int)(wake_at - now);
}

/* descriptors NULL: only what needs none to be told. */
static void serve_links(const struct pollfd *descriptors)
{
        for (size_t i = link_count; i-- > 0;) {
                struct link *link = links[i];
                short client = descriptors ? descriptors[2 * i].revents : 0;
                short from_server = descriptors ? descriptors[2 * i + 1].revents : 0;

                if (!serve_link(link, client, from_server))
                        cut(i);
                else if (is_over(link))
                        end_link(i, false, false);
        }
}

static void run(int listener, int control_listener)
{
        static struct pollfd descriptors[MOST_CONTROLS + 2 + 2 * MOST_LINKS];

        while (!finished) {
                int timeout = prepare(descriptors, listener, control_listener);
                size_t count = control_count + 2 + 2 * link_count;

                if (poll(descriptors, count, timeout) < 0 && errno != EINTR)
                        give_up("poll");
                /* Links first: orders and new connections change what the descriptors stand for. */
                serve_links(descriptors + control_count + 2);
                serve_controls(descriptors, control_listener);
                take_connections(listener);
                serve_links(NULL); /* what an order let go */
        }
}

/* ---- beginning ---------------------------------------------------------------------------------------------------- */

static int listen_at(uint16_t port)
{
        struct sockaddr_in address = {
                .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(address);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        int one = 1;

        if (fd < 0)
                give_up("socket");
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
        if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 512) != 0 ||
            getsockname(fd, (struct sockaddr *)&address, &size) != 0)
                give_up("listen");
        printf("%u\n", (unsigned)ntohs(address.sin_port));
        fflush(stdout);
        return fd;
}

static int listen_for_orders(const char *path)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

        if (fd < 0 || strlen(path) >= sizeof(address.sun_path))
                give_up(path);
        memcpy(address.sun_path, path, strlen(path));
        if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 16) != 0)
                give_up(path);
        return fd;
}

/* HOST:PORT; an IPv6 address may stand in brackets. */
static void find_server(char *text)
{
        struct addrinfo hints = {.ai_socktype = SOCK_STREAM};
        char *colon = strrchr(text, ':');
        int error;

        if (!colon)
                give_up("--to wants HOST:PORT");
        *colon = '\0';
        if (text[0] == '[' && colon[-1] == ']') {
                colon[-1] = '\0';
                text++;
        }
        error = getaddrinfo(text, colon + 1, &hints, &server);
        if (error != 0) {
                fprintf(stderr, "proxy: %s: %s\n", text, gai_strerror(error));
                exit(2);
        }
}

static int64_t read_number(const char *text)
{
        char *end;
        long long value = strtoll(text, &end, 10);

        if (end == text || *end || value < 0 || value > INT32_MAX)
                give_up(text);
        return value;
}

int main(int argc, char **argv)
{
        static const struct option options[] = {
                {"listen", required_argument, NULL, 'l'},  {"to", required_argument, NULL, 't'},
                {"cut", required_argument, NULL, 'c'},     {"spare", required_argument, NULL, 'p'},
                {"seed", required_argument, NULL, 's'},    {"delay", required_argument, NULL, 'd'},
                {"control", required_argument, NULL, 'C'}, {0},
        };
        const char *control = NULL;
        int64_t port = 0;
        int option;

        while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
                if (option == 'l')
                        port = read_number(optarg);
                else if (option == 't')
                        find_server(optarg);
                else if (option == 'c')
                        cut_mean = read_number(optarg);
                else if (option == 'p')
                        spared = read_number(optarg);
                else if (option == 's')
                        dice = (uint64_t)read_number(optarg) * UINT64_C(0x9E3779B97F4A7C15) + 1;
                else if (option == 'd')
                        delay_ms = read_number(optarg);
                else if (option == 'C')
                        control = optarg;
                else
                        return 2;
        }
        errno = 0;
        if (!server || optind < argc || port > UINT16_MAX)
                give_up("usage: proxy --to HOST:PORT [--listen PORT] [--cut MEAN [--spare BYTES]] [--seed N] "
                        "[--delay MS] [--control PATH]");
        signal(SIGPIPE, SIG_IGN);
        controls[control_count++] = (struct control){.in = 0, .out = 1};
        run(listen_at((uint16_t)port), control ? listen_for_orders(control) : -1);
        if (control)
                unlink(control);
        freeaddrinfo(server);
        return 0;
}
