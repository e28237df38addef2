/* test_net_hurt.c - every allocation and system call on the way to a connection fails once: there is an error or a down
 * with a sentence, nothing is left behind, and the next try works. The calls are our own here (the linker's --wrap). */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net_user.h"

enum call { NEVER_CALLED, NONE, MALLOC, CALLOC, SOCKET, EPOLL_CTL, EVENTFD, PTHREAD_CREATE, SEND, RECV };

static _Atomic enum call victim = NONE;
static atomic_int left; /* calls of it until it fails */
static atomic_bool struck;

static bool strikes(enum call call)
{
        if (atomic_load(&victim) != call || atomic_fetch_sub(&left, 1) != 1)
                return false;
        atomic_store(&struck, true);
        return true;
}

/* Declares what the linker makes of a name, and fails when it is its turn. */
#define WRAP(call, type, name, parameters, arguments, failure)                                                         \
        type __real_##name parameters;                                                                                 \
        type __wrap_##name parameters;                                                                                 \
        type __wrap_##name parameters                                                                                  \
        {                                                                                                              \
                if (strikes(call))                                                                                     \
                        return failure;                                                                                \
                return __real_##name arguments;                                                                        \
        }

WRAP(MALLOC, void *, malloc, (size_t size), (size), (errno = ENOMEM, (void *)NULL))
WRAP(CALLOC, void *, calloc, (size_t n, size_t size), (n, size), (errno = ENOMEM, (void *)NULL))
WRAP(SOCKET, int, socket, (int domain, int type, int protocol), (domain, type, protocol), (errno = EMFILE, -1))
/* Removing what is there takes nothing, and does not fail. */
WRAP(operation == EPOLL_CTL_DEL ? NEVER_CALLED : EPOLL_CTL, int, epoll_ctl,
     (int fd, int operation, int other, struct epoll_event *event), (fd, operation, other, event), (errno = ENOSPC, -1))
WRAP(EVENTFD, int, eventfd, (unsigned count, int flags), (count, flags), (errno = EMFILE, -1))
WRAP(PTHREAD_CREATE, int, pthread_create,
     (pthread_t * thread, const pthread_attr_t *attributes, void *(*start)(void *), void *arg),
     (thread, attributes, start, arg), EAGAIN)
WRAP(SEND, ssize_t, send, (int fd, const void *bytes, size_t size, int flags), (fd, bytes, size, flags),
     (errno = ENOBUFS, -1))
WRAP(RECV, ssize_t, recv, (int fd, void *bytes, size_t size, int flags), (fd, bytes, size, flags), (errno = ENOMEM, -1))

static void arm(enum call call, int number)
{
        atomic_store(&struck, false);
        atomic_store(&left, number);
        atomic_store(&victim, call);
}

static void disarm(void)
{
        atomic_store(&victim, NONE);
}

/* Connects, speaks, hears. Whether it went well; if not, it was told exactly once. */
static bool converse(struct user *user, int listener)
{
        struct pawl_why why = {0};
        int downs = user->downs;
        int ups = user->ups;
        char *room;
        int fd;

        if (net_connect(&user->net, 20 * SECOND, &why) != PAWL_OK) {
                CHECK(why.code == PAWL_NO_MEMORY || why.code == PAWL_SYSTEM);
                CHECK(why.text[0] != '\0');
                CHECK_INT(user->net.state, NET_DOWN);
                return false;
        }
        TURN_UNTIL(user->ups > ups || user->downs > downs);
        if (user->downs > downs)
                return false;
        fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        REQUIRE(fd >= 0);
        REQUIRE(write(fd, "x", 1) == 1);
        room = net_room(&user->net, 10000);
        if (room) {
                memset(room, 'y', 10000);
                net_wrote(&user->net, 10000);
                net_flush(&user->net);
        }
        TURN_UNTIL(user->downs > downs || user->size > 0);
        user->size = 0;
        for (int i = 0; i < 2; i++)
                loop_turn(&loop);
        close(fd);
        return room && user->downs == downs;
}

/* The 1st, 2nd, ... call fails, until there are no more of them. */
static void hurt(const char *host, enum call call)
{
        struct user user;
        int number = 0;

        do {
                int listener;
                size_t before;
                bool good;

                begin(&user);
                user.target.host = host;
                listener = listen_tcp(&user.target.port, 5);
                before = descriptors();
                arm(call, ++number);
                good = converse(&user, listener);
                disarm();
                CHECK(good || atomic_load(&struck));
                if (user.downs > 0)
                        CHECK(user.why.text[0] != '\0' && user.why.code != PAWL_OK);
                net_close(&user.net);
                TURN_UNTIL(descriptors() <= before); /* fewer: the last one's thread has ended */
                close(listener);                     /* with what may be left in its queue */
                listener = listen_tcp(&user.target.port, 5);
                CHECK(converse(&user, listener));
                close(listener);
                end(&user);
        } while (atomic_load(&struck) && number < 100);
        CHECK(number > 1); /* at least one failed */
        CHECK(number < 100);
}

TEST(no_allocation_that_fails_does_harm)
{
        hurt("127.0.0.1", MALLOC);
        hurt("127.0.0.1", CALLOC);
        hurt("localhost", CALLOC);
}

TEST(no_socket_or_watch_that_cannot_be_had_does_harm)
{
        hurt("127.0.0.1", SOCKET);
        hurt("127.0.0.1", EPOLL_CTL);
}

TEST(no_question_that_cannot_be_asked_does_harm)
{
        hurt("localhost", EVENTFD);
        hurt("localhost", EPOLL_CTL);
        hurt("localhost", PTHREAD_CREATE);
}

TEST(no_send_or_recv_that_fails_does_harm)
{
        hurt("127.0.0.1", SEND);
        hurt("127.0.0.1", RECV);
}
