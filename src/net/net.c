/* net.c - the life of a connection: every address in its turn, up, bytes in and out, down. Names are resolve.c's, what TLS
 * makes of the bytes is tls.c's.
 *
 * The timer stays set from net_connect to down, for NEVER if there is nothing to wait for: moving it cannot fail, so that
 * down is always told. Every loss takes the same way: lose() lets go of everything, and the timer tells it. */
#include "net.h"

#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "../base/list.h"
#include "resolve.h"
#include "tls.h"

enum {
        READ_SIZE = 16 * 1024,
        READS_A_TURN = 16, /* others on the loop have their turn, too */
        FIRST_ROOM = 4096,
        MOST_ROOM = 64 << 20,
        KEPT_ROOM = 256 * 1024, /* more than this is given back */
};

static const int64_t at_once = 0; /* the loop makes it the next turn */
static const int64_t idle_after = 10 * SECOND;
static const int64_t knock_again = 10 * MS;

static void try_addresses(struct net *net);
static void ready(struct watch *watch, uint32_t events);
static void due(struct timer *timer);

/* ---- what is said ------------------------------------------------------------------------------------------------ */

const char *net_where(const struct net_target *target, char text[WHERE_SIZE])
{
        if (target->path)
                snprintf(text, WHERE_SIZE, "%s", target->path);
        else if (strchr(target->host, ':'))
                snprintf(text, WHERE_SIZE, "[%s]:%u", target->host, (unsigned)target->port);
        else
                snprintf(text, WHERE_SIZE, "%s:%u", target->host, (unsigned)target->port);
        return text;
}

static int code_of(const struct net *net, int error)
{
        switch (error) {
        case ENOMEM:
        case ENOBUFS:
                return PAWL_NO_MEMORY;
        case EMFILE:
        case ENFILE:
        case ENOSPC: /* epoll's limit of watches */
                return PAWL_SYSTEM;
        case EACCES:
        case EPERM: /* of a path it is about rights, of an address a firewall */
                return net->target->path ? PAWL_DENIED : PAWL_UNREACHABLE;
        default:
                return PAWL_UNREACHABLE;
        }
}

/* "127.0.0.1:6379: connection refused" */
static void say_error(struct net *net, int error)
{
        char where[WHERE_SIZE];
        char buffer[128];
        const char *reason = why_errno(error, buffer, sizeof(buffer));

        why_set(&net->why, code_of(net, error), "%s: %c%s%s", net_where(net->target, where), tolower(reason[0]),
                reason[0] ? reason + 1 : "",
                net->secured && net->state == NET_CONNECTING ? " in the TLS handshake: does it speak TLS?" : "");
        net->why.sys_errno = error;
}

/* A question that is still open is kept for the next try: nameservers that do not answer would otherwise gather threads. */
static bool keeps_asking(const struct net *net)
{
        return net->lookup && net->lookup->open;
}

static void say_too_late(struct net *net)
{
        char where[WHERE_SIZE];

        if (keeps_asking(net))
                why_set(&net->why, PAWL_UNREACHABLE, "%s was not looked up in time", net->target->host);
        else if (net->secured)
                why_set(&net->why, PAWL_UNREACHABLE, "%s did not finish the TLS handshake in time: does it speak TLS?",
                        net_where(net->target, where));
        else
                why_set(&net->why, PAWL_UNREACHABLE, "%s did not answer in time", net_where(net->target, where));
        net->why.sys_errno = ETIMEDOUT;
}

static void say_ended(struct net *net)
{
        char where[WHERE_SIZE];

        if (net->send_error != 0)
                say_error(net, net->send_error);
        else if (!net->secured)
                why_set(&net->why, PAWL_UNREACHABLE, "%s closed the connection", net_where(net->target, where));
        else if (net->state == NET_CONNECTING)
                why_set(&net->why, PAWL_UNREACHABLE,
                        "%s closed the connection in the TLS handshake: does it speak TLS?",
                        net_where(net->target, where));
        else
                why_set(&net->why, PAWL_UNREACHABLE, "the connection to %s was cut off (no TLS close_notify)",
                        net_where(net->target, where));
}

/* ---- letting go -------------------------------------------------------------------------------------------------- */

/* There were passwords in it. */
static void free_buffer(struct net_buffer *buffer)
{
        if (buffer->bytes)
                explicit_bzero(buffer->bytes, buffer->room);
        free(buffer->bytes);
        *buffer = (struct net_buffer){0};
}

static void drop_socket(struct net *net)
{
        secured_close(net->secured);
        net->secured = NULL;
        net->send_error = 0;
        if (net->watch.fd < 0)
                return;
        loop_unwatch(net->loop, &net->watch);
        if (net->loop->slept_in == &net->hot) { /* another thread: its number must not become another file's */
                shutdown(net->watch.fd, SHUT_RDWR);
                net->slept_in_fd = net->watch.fd;
        } else {
                close(net->watch.fd);
        }
        net->watch.fd = -1;
}

static void drop_lookup(struct net *net)
{
        lookup_close(net->lookup);
        net->lookup = NULL;
}

static void drop_everything(struct net *net)
{
        net_expect(net, false);
        net->sleepable = false;
        drop_socket(net);
        if (!keeps_asking(net))
                drop_lookup(net);
        net->address = NULL;
        free_buffer(&net->out);
}

/* It is over, net->why says why: the timer tells it. */
static void lose(struct net *net)
{
        if (net->failing)
                return;
        drop_everything(net);
        net->failing = true;
        loop_set(net->loop, &net->timer, at_once);
}

static void lose_by(struct net *net, int error)
{
        if (net->failing)
                return;
        say_error(net, error);
        lose(net);
}

/* ---- sending ----------------------------------------------------------------------------------------------------- */

/* Asks the loop to tell when the socket takes more, or no longer. */
static void want_out(struct net *net, bool wanted)
{
        uint32_t events = wanted ? EPOLLIN | EPOLLOUT : EPOLLIN;
        int error;

        if (net->watch.events == events)
                return;
        net->watch.events = events;
        error = loop_rewatch(net->loop, &net->watch);
        if (error != 0)
                lose_by(net, error);
}

/* What the server said before it went away is still to be heard (why it does, perhaps): so the loss is told by the timer,
 * after a last look. */
static void cannot_send(struct net *net, int error)
{
        net->send_error = error;
        net->out.start = net->out.end = 0;
        loop_set(net->loop, &net->timer, at_once);
}

/* How many bytes the socket took; fewer: it is full, or does not work any more. */
static size_t send_bytes(struct net *net, const char *bytes, size_t size)
{
        size_t sent = 0;

        while (sent < size) {
                ssize_t n = send(net->watch.fd, bytes + sent, size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0 && errno != EAGAIN)
                        cannot_send(net, errno);
                if (n <= 0)
                        break;
                sent += (size_t)n;
        }
        return sent;
}

static bool send_sealed(struct net *net)
{
        const char *bytes;
        size_t size;

        while ((size = secured_sealed(net->secured, &bytes)) > 0) {
                size_t sent = send_bytes(net, bytes, size);

                secured_sent(net->secured, sent);
                if (sent < size)
                        return false;
        }
        return true;
}

/* Sealed only when it can be sent: what waits, waits once. */
static void flush_secured(struct net *net)
{
        struct net_buffer *out = &net->out;

        while (send_sealed(net) && out->end > out->start) {
                ssize_t n = secured_write(net->secured, out->bytes + out->start, out->end - out->start, &net->why);

                if (n < 0) {
                        lose(net);
                        return;
                }
                out->start += (size_t)n;
        }
}

/* A buffer that was needed once is given back after a while. */
static void rest(struct net *net)
{
        net->out.start = net->out.end = 0;
        if (net->out.room > KEPT_ROOM && net->timer.at == NEVER)
                loop_set(net->loop, &net->timer, loop_now(net->loop) + idle_after);
}

void net_flush(struct net *net)
{
        struct net_buffer *out = &net->out;

        if (net->state != NET_UP || net->failing || net->send_error != 0)
                return;
        if (net->secured)
                flush_secured(net);
        else if (out->end > out->start)
                out->start += send_bytes(net, out->bytes + out->start, out->end - out->start);
        if (net->failing || net->send_error != 0)
                return;
        if (net->timer.at == at_once)
                loop_set(net->loop, &net->timer, NEVER);
        if (out->start == out->end)
                rest(net);
        want_out(net, net_unsent(net) > 0);
}

size_t net_unsent(const struct net *net)
{
        const char *bytes;

        return net->out.end - net->out.start + (net->secured ? secured_sealed(net->secured, &bytes) : 0);
}

static char *grow(struct net_buffer *out, size_t size)
{
        size_t used = out->end - out->start;
        size_t room = out->room ? out->room : FIRST_ROOM;
        char *bytes;

        if (size > MOST_ROOM || used > MOST_ROOM - size)
                return NULL;
        while (room < used + size)
                room *= 2;
        bytes = malloc(room);
        if (!bytes)
                return NULL;
        if (used > 0)
                memcpy(bytes, out->bytes + out->start, used);
        free_buffer(out);
        *out = (struct net_buffer){.bytes = bytes, .end = used, .room = room};
        return bytes + used;
}

char *net_room(struct net *net, size_t size)
{
        struct net_buffer *out = &net->out;

        assert(net->state == NET_UP);
        if (size <= out->room - out->end)
                return out->bytes + out->end;
        /* Moved to the front only if that makes much room: not again and again for a few bytes. */
        if (out->start < out->room / 2 || size > out->room - (out->end - out->start))
                return grow(out, size);
        memmove(out->bytes, out->bytes + out->start, out->end - out->start);
        out->end -= out->start;
        out->start = 0;
        return out->bytes + out->end;
}

void net_wrote(struct net *net, size_t size)
{
        assert(size <= net->out.room - net->out.end);
        net->out.end += size;
        /* Our own events are followed by a flush, outside of a turn the caller flushes: so a timer is seldom needed, and
         * within a turn it costs no system call. */
        if (net->closed == NULL && net->loop->turn != INT64_MIN && net->timer.at > at_once)
                loop_set(net->loop, &net->timer, at_once);
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

/* Each returns whether there still is a connection: it may have been closed in the call, and be freed even. */
static bool hear(struct net *net, const char *bytes, size_t size)
{
        bool closed = false;

        net->closed = &closed;
        net->events->heard(net, bytes, size);
        if (closed)
                return false;
        net->closed = NULL;
        return !net->failing;
}

static bool tell_up(struct net *net)
{
        bool closed = false;

        net->closed = &closed;
        net->events->up(net);
        if (closed)
                return false;
        net->closed = NULL;
        return !net->failing;
}

static void tell_down(struct net *net)
{
        struct pawl_why why = net->why;

        loop_unset(net->loop, &net->timer);
        free_buffer(&net->out); /* what was written since is not for the next connection */
        net->failing = false;
        net->state = NET_DOWN;
        net->events->down(net, &why);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

/* How many bytes; 0: none now; -1: it has ended, and net->why says how. */
static ssize_t receive(struct net *net, char *bytes, size_t size)
{
        ssize_t n;

        do
                n = recv(net->watch.fd, bytes, size, MSG_DONTWAIT);
        while (n < 0 && errno == EINTR);
        if (n > 0)
                return n;
        if (n < 0 && errno == EAGAIN)
                return 0;
        if (n < 0)
                say_error(net, errno);
        else
                say_ended(net);
        return -1;
}

/* Whether there still is a connection. */
static bool read_plain(struct net *net)
{
        char bytes[READ_SIZE];

        for (int i = 0; i < READS_A_TURN; i++) {
                ssize_t n = receive(net, bytes, sizeof(bytes));

                if (n < 0)
                        lose(net);
                if (n < 0 || (n > 0 && !hear(net, bytes, (size_t)n)))
                        return false;
                if (n < (ssize_t)sizeof(bytes)) /* that was all: asking once more would cost a system call */
                        return true;
        }
        return true;
}

static bool hear_opened(struct net *net)
{
        char bytes[READ_SIZE];
        ssize_t n;

        while ((n = secured_read(net->secured, bytes, sizeof(bytes), &net->why)) > 0)
                if (!hear(net, bytes, (size_t)n))
                        return false;
        if (n < 0)
                lose(net);
        return n == 0;
}

/* Moves what is there from the socket into TLS: PAWL_OK, PAWL_BUSY (there is more), PAWL_LOST (ended, net->why). */
static int feed(struct net *net)
{
        char bytes[READ_SIZE];
        ssize_t n = receive(net, bytes, sizeof(bytes));

        if (n < 0)
                return PAWL_LOST;
        if (n > 0 && secured_put(net->secured, bytes, (size_t)n) != PAWL_OK) {
                say_error(net, ENOMEM);
                return PAWL_LOST;
        }
        return n == (ssize_t)sizeof(bytes) ? PAWL_BUSY : PAWL_OK;
}

static bool read_secured(struct net *net)
{
        int fed = PAWL_BUSY;

        for (int i = 0; i < READS_A_TURN && fed == PAWL_BUSY; i++) {
                fed = feed(net);
                if (fed == PAWL_LOST)
                        lose(net);
                else if (!hear_opened(net))
                        return false;
        }
        return fed != PAWL_LOST;
}

static void read_and_send(struct net *net, uint32_t events)
{
        if (!(net->secured ? read_secured(net) : read_plain(net)))
                return;
        /* What was written while it heard; and TLS may have something to answer by itself. */
        if (events & EPOLLOUT || (net_unsent(net) > 0 && !(net->watch.events & EPOLLOUT)))
                net_flush(net);
}

/* ---- connecting -------------------------------------------------------------------------------------------------- */

static void come_up(struct net *net)
{
        net->state = NET_UP;
        net->connections++;
        net->address = NULL;
        drop_lookup(net);
        loop_set(net->loop, &net->timer, NEVER);
        want_out(net, net_unsent(net) > 0);
        if (net->failing || !tell_up(net))
                return;
        /* It may have come with the end of the handshake, and the socket will not say so again. */
        if (net->secured && !hear_opened(net))
                return;
        net_flush(net);
}

/* This address does not work: net->why says why. Then the next. */
static void try_next(struct net *net)
{
        drop_socket(net);
        if (net->address)
                net->address = net->address->ai_next;
        try_addresses(net);
}

static void shake(struct net *net)
{
        int fed = feed(net);
        int code = PAWL_BUSY;

        if (fed != PAWL_LOST)
                code = secured_shake(net->secured, &net->why);
        send_sealed(net); /* also the alert that says what we do not like */
        if (code != PAWL_OK && code != PAWL_BUSY) {
                lose(net); /* another address has the same certificate, and nobody should go looking for a better one */
        } else if (fed == PAWL_LOST) {
                try_next(net);
        } else if (net->send_error != 0) {
                say_ended(net);
                try_next(net);
        } else if (code == PAWL_OK) {
                come_up(net);
        } else {
                want_out(net, net_unsent(net) > 0);
        }
}

static void connected(struct net *net)
{
        if (!net->target->tls) {
                come_up(net);
                return;
        }
        if (secured_open(&net->secured, net->target, &net->why) != PAWL_OK) {
                lose(net);
                return;
        }
        shake(net);
}

/* A port of this machine at which nobody listens may be given to our own end, which then talks to itself. */
static bool is_ourselves(const struct net *net)
{
        struct sockaddr_storage ours = {0}, theirs = {0};
        socklen_t our_size = sizeof(ours), their_size = sizeof(theirs);

        return !net->target->path && getsockname(net->watch.fd, (struct sockaddr *)&ours, &our_size) == 0 &&
               getpeername(net->watch.fd, (struct sockaddr *)&theirs, &their_size) == 0 && our_size == their_size &&
               memcmp(&ours, &theirs, our_size) == 0;
}

static void connect_ended(struct net *net)
{
        int error = 0;
        socklen_t size = sizeof(error);

        if (getsockopt(net->watch.fd, SOL_SOCKET, SO_ERROR, &error, &size) != 0)
                error = errno;
        if (error == 0 && is_ourselves(net))
                error = ECONNREFUSED;
        if (error == 0) {
                connected(net);
                return;
        }
        say_error(net, error);
        try_next(net);
}

/* None of these can fail on a TCP socket, and a connection without them is still one. */
static void set_options(int fd, int64_t silence)
{
        int ms = (int)(silence / MS < INT32_MAX ? silence / MS : INT32_MAX);
        int one = 1;
        int idle = ms / 2000 > 0 ? ms / 2000 : 1;
        int interval = ms / 6000 > 0 ? ms / 6000 : 1;
        int count = 3;

        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof(idle));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof(interval));
        setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof(count));
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms));
}

/* 0 or an errno. The end of it, also of one that succeeds at once, is told by the watch. */
static int begin_connect(struct net *net, const struct sockaddr *address, socklen_t size)
{
        int fd = socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        int error = 0;

        if (fd < 0)
                return errno;
        if (address->sa_family != AF_UNIX)
                set_options(fd, net->target->silence > 0 ? net->target->silence : 10 * SECOND);
        if (connect(fd, address, size) != 0 && errno != EINPROGRESS && errno != EINTR)
                error = errno;
        if (error == 0) {
                net->watch = (struct watch){.fd = fd, .events = EPOLLOUT, .ready = ready};
                error = loop_watch(net->loop, &net->watch);
        }
        if (error != 0) {
                net->watch.fd = -1;
                close(fd);
        }
        return error;
}

static void try_path(struct net *net)
{
        const char *path = net->target->path;
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        size_t length = strlen(path);
        socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (path[0] == '@' ? 0 : 1));
        int error = ENAMETOOLONG;

        if (length < sizeof(address.sun_path)) {
                memcpy(address.sun_path, path, length);
                if (path[0] == '@')
                        address.sun_path[0] = '\0';
                error = begin_connect(net, (const struct sockaddr *)&address, size);
        }
        if (error == 0)
                loop_set(net->loop, &net->timer, net->until);
        else if (error == EAGAIN) /* its queue is full, and nothing will tell when it is not */
                loop_set(net->loop, &net->timer, loop_now(net->loop) + knock_again);
        else
                lose_by(net, error);
}

static bool is_about_us(int error)
{
        return error == ENETUNREACH || error == EAFNOSUPPORT || error == EADDRNOTAVAIL || error == EHOSTUNREACH;
}

/* Each of those that are left gets an equal part of the time that is left. */
static void try_addresses(struct net *net)
{
        for (; net->address; net->address = net->address->ai_next) {
                int error = begin_connect(net, net->address->ai_addr, net->address->ai_addrlen);
                int64_t now = loop_now(net->loop);
                int64_t left = 0;

                if (error != 0) {
                        /* That there is no way to an address of this kind tells less than what another one said. */
                        if (!is_about_us(error) || net->why.code == PAWL_OK)
                                say_error(net, error);
                        continue;
                }
                for (const struct addrinfo *other = net->address; other; other = other->ai_next)
                        left++;
                loop_set(net->loop, &net->timer, net->until > now ? now + (net->until - now) / left : now);
                return;
        }
        lose(net);
}

static void looked_up(void *arg)
{
        struct net *net = arg;

        /* Nobody waits for it any more: the next try asks anew. */
        if (net->state != NET_CONNECTING || net->failing) {
                drop_lookup(net);
                return;
        }
        if (lookup_result(net->lookup, &net->why) != PAWL_OK) {
                drop_lookup(net);
                lose(net);
                return;
        }
        net->address = net->lookup->addresses;
        try_addresses(net);
}

static void too_late(struct net *net)
{
        bool over = loop_now(net->loop) >= net->until;

        if (net->target->path && net->watch.fd < 0 && !over) {
                try_path(net);
                return;
        }
        say_too_late(net);
        if (over)
                lose(net);
        else
                try_next(net);
}

void net_init(struct net *net, struct loop *loop, const struct net_events *events, const struct net_target *target)
{
        *net = (struct net){.loop = loop, .events = events, .target = target};
        net->watch.fd = -1;
        net->timer.fire = due;
}

/* Asks, unless the last try's question is still open. */
static int look_up(struct net *net, struct pawl_why *why)
{
        const struct net_target *target = net->target;

        if (net->lookup)
                return PAWL_OK;
        return lookup_open(&net->lookup, net->loop, target->host, target->port, looked_up, net, why);
}

int net_connect(struct net *net, int64_t time_limit, struct pawl_why *why)
{
        int64_t now = loop_now(net->loop);
        int code;

        assert(net->state == NET_DOWN);
        net->until = time_limit < NEVER - now ? now + time_limit : NEVER - 1;
        net->why = (struct pawl_why){0};
        net->given_up = false;
        if (loop_set(net->loop, &net->timer, net->until) != 0)
                return why_set(why, PAWL_NO_MEMORY, "no memory to connect");
        code = net->target->path ? PAWL_OK : look_up(net, why);
        if (code != PAWL_OK) {
                loop_unset(net->loop, &net->timer);
                return code;
        }
        net->state = NET_CONNECTING;
        if (net->target->path)
                try_path(net);
        else if (net->lookup->at_once)
                looked_up(net);
        return PAWL_OK;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void ready(struct watch *watch, uint32_t events)
{
        struct net *net = container_of(watch, struct net, watch);

        if (net->state == NET_CONNECTING && net->secured)
                shake(net);
        else if (net->state == NET_CONNECTING)
                connect_ended(net);
        else if (events & ~(uint32_t)EPOLLOUT)
                read_and_send(net, events);
        else
                net_flush(net);
}

static void due(struct timer *timer)
{
        struct net *net = container_of(timer, struct net, timer);

        loop_set(net->loop, timer, NEVER); /* into the place that it has just left: that cannot fail */
        if (net->failing) {
                tell_down(net);
        } else if (net->state == NET_CONNECTING) {
                too_late(net);
        } else if (net->send_error != 0) {
                if (!(net->secured ? read_secured(net) : read_plain(net)))
                        return;
                say_ended(net);
                lose(net);
        } else {
                net_flush(net);
                if (!net->failing && net->out.room > KEPT_ROOM && net->out.start == net->out.end)
                        free_buffer(&net->out);
        }
}

/* ---- an answer that is expected any moment ----------------------------------------------------------------------- */

enum { HOT_SIZE = 4096 };

static struct net *net_of_hot(struct loop_hot *hot)
{
        return container_of(hot, struct net, hot);
}

/* The one place where the socket blocks: for as long as SO_RCVTIMEO says. An end or an error is left to the loop. Without
 * the loop: nobody changes what is used here meanwhile, also if the connection is lost (see slept_in). */
static bool hot_wait(struct loop_hot *hot)
{
        struct net *net = net_of_hot(hot);
        ssize_t n = recv(net->hot_fd, net->hot_bytes, HOT_SIZE, 0);

        net->hot_count = n > 0 ? (size_t)n : 0;
        return n > 0;
}

static void hot_take(struct loop_hot *hot)
{
        struct net *net = net_of_hot(hot);
        size_t count = net->hot_count;
        char *bytes = net->hot_bytes;

        net->hot_count = 0;
        if (net->slept_in_fd > 0)
                close(net->slept_in_fd);
        net->slept_in_fd = 0;
        if (count == 0 || net->state != NET_UP || net->failing)
                return;
        net->hot_bytes = NULL; /* net_close must not free what is being heard */
        if (!hear(net, bytes, count)) {
                free(bytes);
                return;
        }
        net->hot_bytes = bytes;
        if (net_unsent(net) > 0 && !(net->watch.events & EPOLLOUT))
                net_flush(net);
}

/* Everything else asks with MSG_DONTWAIT, so the socket itself may block. */
static bool make_sleepable(struct net *net)
{
        static const struct timeval few_ms = {.tv_usec = 4000};
        int flags = fcntl(net->watch.fd, F_GETFL);

        if (!net->hot_bytes)
                net->hot_bytes = malloc(HOT_SIZE);
        net->hot.wait = hot_wait;
        net->hot.take = hot_take;
        net->hot_fd = net->watch.fd;
        net->sleepable = net->hot_bytes && flags >= 0 &&
                         setsockopt(net->watch.fd, SOL_SOCKET, SO_RCVTIMEO, &few_ms, sizeof(few_ms)) == 0 &&
                         fcntl(net->watch.fd, F_SETFL, flags & ~O_NONBLOCK) == 0;
        return net->sleepable;
}

void net_expect(struct net *net, bool expected)
{
        if (net->expecting == expected)
                return;
        if (expected && (net->state != NET_UP || net->failing || net->secured))
                return;
        if (expected && !net->sleepable && !make_sleepable(net))
                return;
        net->expecting = expected;
        loop_expect(net->loop, &net->hot, expected);
}

void net_fail(struct net *net, int code, const char *format, ...)
{
        char text[sizeof(net->why.text)];
        va_list args;

        if (net->state == NET_DOWN || net->failing)
                return;
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        why_set(&net->why, code, "%s", text);
        net->given_up = true;
        lose(net);
}

void net_close(struct net *net)
{
        if (net->closed)
                *net->closed = true;
        net->closed = NULL;
        if (net->state == NET_UP && net->secured && !net->failing && net->send_error == 0) {
                secured_bye(net->secured);
                send_sealed(net);
        }
        drop_everything(net);
        drop_lookup(net);
        loop_unset(net->loop, &net->timer);
        free(net->hot_bytes);
        net->hot_bytes = NULL;
        net->failing = false;
        net->state = NET_DOWN;
}
