/* net_user.c - what the tests of net share: a user of a connection, a listening socket, open descriptors. */
#include "net_user.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

struct loop loop;

void say(struct user *user, const char *text)
{
        char *room = net_room(&user->net, strlen(text));

        REQUIRE(room != NULL);
        memcpy(room, text, strlen(text));
        net_wrote(&user->net, strlen(text));
}

static void on_up(struct net *net)
{
        struct user *user = (struct user *)net;

        CHECK(!user->in_call);
        CHECK_INT(net->state, NET_UP);
        user->ups++;
        if (user->close_when_up)
                net_close(net);
}

static void on_heard(struct net *net, const char *data, size_t size)
{
        struct user *user = (struct user *)net;

        CHECK(!user->in_call);
        CHECK(size > 0);
        user->hearings++;
        user->said = realloc(user->said, user->size + size + 1);
        REQUIRE(user->said != NULL);
        memcpy(user->said + user->size, data, size);
        user->size += size;
        user->said[user->size] = '\0';
        if (user->say_when_heard)
                say(user, user->say_when_heard);
        if (user->fail_when_heard)
                net_fail(net, PAWL_UNREACHABLE, "it said %zu bytes of nonsense", size);
        if (user->close_when_heard)
                net_close(net);
        if (user->free_when_heard) {
                net_close(net);
                free(user->said);
                free(user);
        }
}

static void on_down(struct net *net, const struct pawl_why *why)
{
        struct user *user = (struct user *)net;

        CHECK(!user->in_call);
        CHECK_INT(net->state, NET_DOWN);
        user->downs++;
        user->why = *why;
        if (user->connect_when_down && user->downs < 3)
                REQUIRE_INT(net_connect(net, 10 * SECOND, NULL), PAWL_OK);
}

static const struct net_events events = {on_up, on_heard, on_down};

void begin(struct user *user)
{
        memset(user, 0, sizeof(*user));
        REQUIRE_INT(loop_init(&loop, NULL), 0);
        net_init(&user->net, &loop, &events, &user->target);
        user->target.host = "127.0.0.1";
}

void end(struct user *user)
{
        net_close(&user->net);
        CHECK_UINT(loop.timers, 0);
        free(user->said);
        loop_close(&loop);
}

void connect_within(struct user *user, int64_t limit)
{
        struct pawl_why why = {0};

        user->in_call = true;
        if (!CHECK_INT(net_connect(&user->net, limit, &why), PAWL_OK))
                NOTE("%s", why.text);
        user->in_call = false;
}

void turn_once(void)
{
        loop_wait(&loop, loop_now(&loop) + 20 * MS);
        loop_turn(&loop);
}

/* ---- the server --------------------------------------------------------------------------------------------------- */

int listen_tcp(uint16_t *port, int backlog)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof(address);
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        REQUIRE(fd >= 0);
        REQUIRE_INT(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
        REQUIRE_INT(listen(fd, backlog), 0);
        REQUIRE_INT(getsockname(fd, (struct sockaddr *)&address, &size), 0);
        *port = ntohs(address.sin_port);
        return fd;
}

int take(int listener)
{
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);

        REQUIRE(fd >= 0);
        return fd;
}

size_t descriptors(void)
{
        DIR *directory = opendir("/proc/self/fd");
        size_t count = 0;

        REQUIRE(directory != NULL);
        while (readdir(directory))
                count++;
        closedir(directory);
        return count;
}
