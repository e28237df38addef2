/* test_net.c - one connection against real sockets: each test plays the server itself, in this process. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "net_user.h"

/* ---- the server --------------------------------------------------------------------------------------------------- */

static int listen_unix(const char *path, int backlog)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        size_t length = strlen(path);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        REQUIRE(fd >= 0);
        REQUIRE(length < sizeof(address.sun_path));
        memcpy(address.sun_path, path, length);
        if (path[0] == '@')
                address.sun_path[0] = '\0';
        REQUIRE_INT(bind(fd, (struct sockaddr *)&address,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (path[0] != '@'))),
                    0);
        REQUIRE_INT(listen(fd, backlog), 0);
        return fd;
}

/* Connects the user to a fresh server; the server's end. */
static int bring_up(struct user *user)
{
        int listener = listen_tcp(&user->target.port, 5);
        int fd;

        connect_within(user, 10 * SECOND);
        TURN_UNTIL(user->ups == 1);
        fd = take(listener);
        close(listener);
        return fd;
}

static void server_says(int fd, const char *text)
{
        REQUIRE_INT(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

static void server_hears(int fd, const char *text)
{
        char bytes[1000] = "";

        REQUIRE_INT(recv(fd, bytes, strlen(text), MSG_WAITALL), (ssize_t)strlen(text));
        CHECK_STR(bytes, text);
}

/* Closing like this sends RST. */
static void reset(int fd)
{
        struct linger linger = {.l_onoff = 1};

        REQUIRE_INT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)), 0);
        close(fd);
}

/* ---- coming up ---------------------------------------------------------------------------------------------------- */

TEST(it_connects_and_bytes_go_both_ways)
{
        struct user user;
        int fd;

        begin(&user);
        fd = bring_up(&user);
        say(&user, "hello");
        net_flush(&user.net);
        CHECK_UINT(net_unsent(&user.net), 0);
        server_hears(fd, "hello");
        server_says(fd, "good day");
        TURN_UNTIL(user.size == 8);
        CHECK_STR(user.said, "good day");
        CHECK_UINT(user.net.connections, 1);
        CHECK_INT(user.downs, 0);
        close(fd);
        end(&user);
}

TEST(a_port_where_nobody_listens_is_refused_in_a_sentence)
{
        struct user user;
        char sentence[100];
        int listener;

        begin(&user);
        listener = listen_tcp(&user.target.port, 1);
        close(listener);
        connect_within(&user, 10 * SECOND);
        CHECK_INT(user.net.state, NET_CONNECTING);
        TURN_UNTIL(user.downs == 1);
        snprintf(sentence, sizeof(sentence), "127.0.0.1:%u: connection refused", (unsigned)user.target.port);
        CHECK_STR(user.why.text, sentence);
        CHECK_INT(user.why.code, PAWL_UNREACHABLE);
        CHECK_INT(user.why.sys_errno, ECONNREFUSED);
        CHECK_INT(user.ups, 0);
        end(&user);
}

TEST(net_connect_may_be_called_when_it_is_told_to_be_down)
{
        struct user user;
        int listener;

        begin(&user);
        user.connect_when_down = true;
        listener = listen_tcp(&user.target.port, 1);
        close(listener);
        connect_within(&user, 10 * SECOND);
        TURN_UNTIL(user.downs == 3);
        end(&user);
}

TEST(a_unix_socket_is_connected_to)
{
        struct user user;
        char path[200];
        int listener, fd;

        begin(&user);
        snprintf(path, sizeof(path), "%s/socket", tap_directory());
        user.target.path = path;
        listener = listen_unix(path, 5);
        connect_within(&user, 10 * SECOND);
        TURN_UNTIL(user.ups == 1);
        fd = take(listener);
        server_says(fd, "hello");
        TURN_UNTIL(user.size == 5);
        close(fd);
        TURN_UNTIL(user.downs == 1);
        CHECK_HAS(user.why.text, path);
        close(listener);
        end(&user);
}

TEST(a_unix_socket_in_the_abstract_namespace_is_connected_to)
{
        struct user user;
        char path[100];
        int listener, fd;

        begin(&user);
        snprintf(path, sizeof(path), "@pawl-test-%ld", (long)getpid());
        user.target.path = path;
        listener = listen_unix(path, 5);
        connect_within(&user, 10 * SECOND);
        TURN_UNTIL(user.ups == 1);
        fd = take(listener);
        server_says(fd, "hello");
        TURN_UNTIL(user.size == 5);
        close(fd);
        close(listener);
        end(&user);
}

TEST(a_unix_socket_that_is_not_there_is_named)
{
        struct user user;
        char path[200];

        begin(&user);
        snprintf(path, sizeof(path), "%s/nothing", tap_directory());
        user.target.path = path;
        connect_within(&user, 10 * SECOND);
        TURN_UNTIL(user.downs == 1);
        CHECK_HAS(user.why.text, "/nothing: no such file or directory");
        CHECK_INT(user.why.sys_errno, ENOENT);
        end(&user);
}

TEST(a_path_too_long_for_a_unix_socket_is_told)
{
        struct user user;
        char path[200];

        begin(&user);
        memset(path, 'x', sizeof(path));
        path[0] = '/';
        path[sizeof(path) - 1] = '\0';
        user.target.path = path;
        connect_within(&user, 10 * SECOND);
        TURN_UNTIL(user.downs == 1);
        CHECK_INT(user.why.sys_errno, ENAMETOOLONG);
        end(&user);
}

TEST(a_unix_socket_whose_queue_is_full_is_asked_again_until_there_is_room)
{
        struct user user;
        char path[100];
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        int listener, taken[3];

        begin(&user);
        snprintf(path, sizeof(path), "@pawl-full-%ld", (long)getpid());
        user.target.path = path;
        listener = listen_unix(path, 0);
        memcpy(address.sun_path + 1, path + 1, strlen(path) - 1);
        taken[0] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        REQUIRE_INT(connect(taken[0], (struct sockaddr *)&address,
                            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(path))),
                    0);
        connect_within(&user, 20 * SECOND);
        for (int i = 0; i < 5; i++)
                turn_once();
        CHECK_INT(user.ups + user.downs, 0);
        taken[1] = take(listener);
        TURN_UNTIL(user.ups == 1);
        taken[2] = take(listener);
        for (int i = 0; i < 3; i++)
                close(taken[i]);
        close(listener);
        end(&user);
}

TEST(a_name_is_resolved_beside_the_loop)
{
        struct user user;
        int listener, fd;

        begin(&user);
        user.target.host = "localhost";
        listener = listen_tcp(&user.target.port, 5);
        connect_within(&user, 20 * SECOND);
        CHECK_INT(user.net.state, NET_CONNECTING);
        TURN_UNTIL(user.ups == 1);
        fd = take(listener);
        close(fd);
        close(listener);
        end(&user);
}

TEST(a_name_that_nobody_has_is_told)
{
        struct user user;

        begin(&user);
        user.target.host = "nobody.invalid";
        user.target.port = 6379;
        connect_within(&user, 20 * SECOND);
        TURN_UNTIL(user.downs == 1);
        CHECK_HAS(user.why.text, "nobody.invalid");
        CHECK_INT(user.why.code, PAWL_UNREACHABLE);
        end(&user);
}

TEST(closing_while_the_name_is_being_resolved_leaves_nothing_behind)
{
        struct user user;
        size_t before;

        begin(&user);
        before = descriptors();
        user.target.port = 6379;
        for (int i = 0; i < 50; i++) {
                user.target.host = i % 2 ? "localhost" : "nobody.invalid";
                connect_within(&user, 20 * SECOND);
                net_close(&user.net);
                CHECK_INT(user.net.state, NET_DOWN);
        }
        /* Whose eventfd is closed by the last thread to come back. */
        TURN_UNTIL(descriptors() == before);
        CHECK_INT(user.ups + user.downs, 0);
        end(&user);
}

/* A listener whose queue is full drops what comes: connecting to it neither works nor fails. */
static int listen_deaf(uint16_t *port, int *fillers, int count)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int listener = listen_tcp(port, 0);

        address.sin_port = htons(*port);
        for (int i = 0; i < count; i++) {
                fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                REQUIRE(fillers[i] >= 0);
                connect(fillers[i], (struct sockaddr *)&address, sizeof(address));
        }
        return listener;
}

TEST(a_server_that_does_not_answer_is_given_up_at_the_time_limit)
{
        struct user user;
        int fillers[8];
        int listener;
        int64_t began;

        begin(&user);
        listener = listen_deaf(&user.target.port, fillers, 8);
        usleep(50000);
        began = loop_now(&loop);
        connect_within(&user, 200 * MS);
        TURN_UNTIL(user.downs == 1);
        CHECK(loop_now(&loop) - began >= 200 * MS);
        CHECK_HAS(user.why.text, "did not answer in time");
        CHECK_INT(user.why.sys_errno, ETIMEDOUT);
        CHECK_INT(user.ups, 0);
        for (int i = 0; i < 8; i++)
                close(fillers[i]);
        close(listener);
        end(&user);
}

/* A network of our own in which the kernel has two ports to choose from for our end: a connection to one of them that
 * nobody listens at soon meets itself. */
static bool enter_a_small_network(void)
{
        struct ifreq loopback = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
        int fd, range;
        bool done;

        if (unshare(CLONE_NEWNET) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
                return false;
        fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        range = open("/proc/sys/net/ipv4/ip_local_port_range", O_WRONLY | O_CLOEXEC);
        done = ioctl(fd, SIOCSIFFLAGS, &loopback) == 0 && write(range, "40000 40001", 11) == 11;
        close(range);
        close(fd);
        return done;
}

TEST(a_port_at_which_nobody_listens_never_answers_itself)
{
        struct user user;

        if (!enter_a_small_network())
                SKIP("a network of its own is not allowed here");
        begin(&user);
        for (int i = 1; i <= 20; i++) {
                user.target.port = i % 2 ? 40000 : 40001;
                connect_within(&user, 10 * SECOND);
                TURN_UNTIL(user.downs == i);
                CHECK_HAS(user.why.text, "connection refused");
        }
        CHECK_INT(user.ups, 0);
        end(&user);
}

/* ---- bytes -------------------------------------------------------------------------------------------------------- */

TEST(what_is_written_while_it_hears_goes_out_by_itself)
{
        struct user user;
        int fd;

        begin(&user);
        user.say_when_heard = "answer";
        fd = bring_up(&user);
        server_says(fd, "question");
        TURN_UNTIL(user.hearings == 1);
        CHECK_UINT(net_unsent(&user.net), 0);
        server_hears(fd, "answer");
        close(fd);
        end(&user);
}

struct writer {
        struct timer timer; /* first */
        struct user *user;
};

static void write_something(struct timer *timer)
{
        say(((struct writer *)timer)->user, "from a timer");
}

TEST(what_is_written_in_a_turn_and_never_flushed_goes_out_in_the_next)
{
        struct user user;
        struct writer writer = {.timer.fire = write_something, .user = &user};
        int fd;

        begin(&user);
        fd = bring_up(&user);
        REQUIRE_INT(loop_set(&loop, &writer.timer, 0), 0);
        loop_turn(&loop);
        loop_wait(&loop, loop_now(&loop) + 10 * SECOND);
        loop_turn(&loop);
        CHECK_UINT(net_unsent(&user.net), 0);
        server_hears(fd, "from a timer");
        close(fd);
        end(&user);
}

TEST(writing_and_flushing_outside_of_a_turn_sets_no_timer_and_asks_nothing_of_epoll)
{
        struct user user;
        int fd;

        begin(&user);
        fd = bring_up(&user);
        for (int i = 0; i < 10; i++) {
                say(&user, "x");
                net_flush(&user.net);
                CHECK_INT(loop_next(&loop), NEVER);
                CHECK_UINT(user.net.watch.events, EPOLLIN);
        }
        server_hears(fd, "xxxxxxxxxx");
        close(fd);
        end(&user);
}

TEST(bytes_arrive_in_order_however_they_are_split)
{
        struct user user;
        char *all = malloc(300000);
        size_t sent = 0;
        uint32_t dice = 7;
        int fd;

        begin(&user);
        REQUIRE(all != NULL);
        for (size_t i = 0; i < 300000; i++)
                all[i] = (char)('a' + i % 23);
        fd = bring_up(&user);
        while (sent < 300000) {
                size_t part = 1 + (dice = dice * 1103515245 + 12345) / 65536 % 3000;

                if (part > 300000 - sent)
                        part = 300000 - sent;
                REQUIRE_INT(send(fd, all + sent, part, MSG_NOSIGNAL), (ssize_t)part);
                sent += part;
                loop_turn(&loop);
        }
        TURN_UNTIL(user.size == 300000);
        CHECK_MEM(user.said, all, 300000);
        free(all);
        close(fd);
        end(&user);
}

TEST(one_connection_does_not_keep_the_loop_for_itself)
{
        struct user user;
        char *much = calloc(1, 4 << 20);
        ssize_t sent;
        int fd;

        begin(&user);
        REQUIRE(much != NULL);
        fd = bring_up(&user);
        sent = send(fd, much, 4 << 20, MSG_NOSIGNAL | MSG_DONTWAIT);
        REQUIRE(sent > 512 * 1024);
        usleep(20000);
        loop_turn(&loop);
        CHECK(user.size > 0);
        CHECK(user.size <= 256 * 1024);
        TURN_UNTIL(user.size == (size_t)sent);
        free(much);
        close(fd);
        end(&user);
}

/* A server that does not read for a while, then everything. */
struct reader {
        int fd;
        size_t size;
        uint64_t sum;
};

static void *read_all(void *arg)
{
        struct reader *reader = arg;
        unsigned char bytes[65536];
        ssize_t n;

        while ((n = read(reader->fd, bytes, sizeof(bytes))) > 0) {
                for (ssize_t i = 0; i < n; i++)
                        reader->sum = reader->sum * 31 + bytes[i];
                reader->size += (size_t)n;
        }
        return NULL;
}

TEST(a_server_that_does_not_read_makes_us_keep_20_MB_and_lose_none)
{
        enum { PART = 64 * 1024, PARTS = 320 };
        struct user user;
        struct reader reader = {0};
        pthread_t thread;
        uint64_t sum = 0;

        begin(&user);
        reader.fd = bring_up(&user);
        for (int i = 0; i < PARTS; i++) {
                char *room = net_room(&user.net, PART);

                REQUIRE(room != NULL);
                for (int j = 0; j < PART; j++) {
                        room[j] = (char)(i * 7 + j);
                        sum = sum * 31 + (unsigned char)room[j];
                }
                net_wrote(&user.net, PART);
                net_flush(&user.net);
                loop_turn(&loop);
        }
        CHECK(net_unsent(&user.net) > 10 << 20);
        CHECK(user.net.watch.events & EPOLLOUT);
        REQUIRE_INT(pthread_create(&thread, NULL, read_all, &reader), 0);
        TURN_UNTIL(net_unsent(&user.net) == 0);
        CHECK_UINT(user.net.watch.events, EPOLLIN);
        net_close(&user.net);
        pthread_join(thread, NULL);
        CHECK_UINT(reader.size, PART * PARTS);
        CHECK(reader.sum == sum);
        CHECK_INT(user.downs, 0);
        close(reader.fd);
        end(&user);
}

TEST(more_than_64_MB_unsent_is_refused)
{
        struct user user;
        size_t part = 1 << 20;
        int parts = 0;
        int fd;

        begin(&user);
        fd = bring_up(&user);
        CHECK_NULL(net_room(&user.net, (64 << 20) + 1));
        CHECK_NULL(net_room(&user.net, SIZE_MAX));
        while (parts < 100 && net_room(&user.net, part)) {
                net_wrote(&user.net, part);
                parts++;
        }
        CHECK_INT(parts, 64);
        CHECK(net_room(&user.net, 1) == NULL);
        close(fd);
        end(&user);
}

/* ---- going down --------------------------------------------------------------------------------------------------- */

TEST(a_server_that_closes_is_told_after_its_last_words)
{
        struct user user;
        int fd;

        begin(&user);
        fd = bring_up(&user);
        server_says(fd, "farewell");
        close(fd);
        TURN_UNTIL(user.downs == 1);
        CHECK_STR(user.said, "farewell");
        CHECK_HAS(user.why.text, "closed the connection");
        CHECK_INT(user.why.code, PAWL_UNREACHABLE);
        end(&user);
}

TEST(a_reset_is_told)
{
        struct user user;
        int fd;

        begin(&user);
        fd = bring_up(&user);
        reset(fd);
        TURN_UNTIL(user.downs == 1);
        CHECK_HAS(user.why.text, "connection reset");
        CHECK_INT(user.why.sys_errno, ECONNRESET);
        end(&user);
}

TEST(writing_to_a_server_that_is_gone_raises_no_signal_and_still_hears_its_last_words)
{
        struct user user;
        int fd;

        begin(&user);
        signal(SIGPIPE, SIG_DFL);
        fd = bring_up(&user);
        server_says(fd, "too many clients");
        close(fd);
        for (int i = 0; i < 5; i++) {
                user.in_call = true;
                say(&user, "hello?");
                net_flush(&user.net);
                user.in_call = false;
                usleep(2000);
        }
        CHECK_INT(user.downs, 0); /* not inside of net_flush */
        TURN_UNTIL(user.downs == 1);
        CHECK_STR(user.said, "too many clients");
        CHECK_INT(user.why.code, PAWL_UNREACHABLE);
        end(&user);
}

TEST(net_fail_passes_the_sentence_in_a_later_turn)
{
        struct user user;
        char byte;
        int fd;

        begin(&user);
        fd = bring_up(&user);
        user.in_call = true;
        net_fail(&user.net, PAWL_UNREACHABLE, "no reply for %d s", 7);
        net_fail(&user.net, PAWL_UNREACHABLE, "another reason");
        user.in_call = false;
        CHECK_INT(user.downs, 0);
        CHECK_INT(recv(fd, &byte, 1, 0), 0); /* the socket is closed already */
        say(&user, "dropped");
        net_flush(&user.net);
        TURN_UNTIL(user.downs == 1);
        CHECK_STR(user.why.text, "no reply for 7 s");
        net_fail(&user.net, PAWL_UNREACHABLE, "it is down");
        for (int i = 0; i < 3; i++)
                loop_turn(&loop);
        CHECK_INT(user.downs, 1);
        close(fd);
        end(&user);
}

TEST(what_was_written_to_a_connection_that_has_failed_is_not_said_to_the_next)
{
        struct user user;
        int listener, fd;

        begin(&user);
        listener = listen_tcp(&user.target.port, 5);
        connect_within(&user, 10 * SECOND);
        TURN_UNTIL(user.ups == 1);
        net_fail(&user.net, PAWL_UNREACHABLE, "no reply");
        say(&user, "for the first");
        TURN_UNTIL(user.downs == 1);
        close(take(listener));
        connect_within(&user, 10 * SECOND);
        TURN_UNTIL(user.ups == 2);
        fd = take(listener);
        say(&user, "for the second");
        net_flush(&user.net);
        server_hears(fd, "for the second");
        close(fd);
        close(listener);
        end(&user);
}

TEST(it_may_be_failed_while_it_hears_and_then_hears_no_more)
{
        struct user user;
        char *much = calloc(1, 200000);
        int fd;

        begin(&user);
        REQUIRE(much != NULL);
        user.fail_when_heard = true;
        fd = bring_up(&user);
        REQUIRE_INT(send(fd, much, 200000, MSG_NOSIGNAL), 200000);
        TURN_UNTIL(user.downs == 1);
        CHECK_INT(user.hearings, 1);
        CHECK_HAS(user.why.text, "nonsense");
        free(much);
        close(fd);
        end(&user);
}

TEST(it_may_be_closed_while_it_hears_and_then_hears_no_more)
{
        struct user user;
        char *much = calloc(1, 200000);
        int fd;

        begin(&user);
        REQUIRE(much != NULL);
        user.close_when_heard = true;
        fd = bring_up(&user);
        REQUIRE_INT(send(fd, much, 200000, MSG_NOSIGNAL), 200000);
        TURN_UNTIL(user.hearings == 1);
        for (int i = 0; i < 3; i++)
                loop_turn(&loop);
        CHECK_INT(user.hearings, 1);
        CHECK_INT(user.downs, 0);
        CHECK_INT(user.net.state, NET_DOWN);
        free(much);
        close(fd);
        end(&user);
}

TEST(it_may_be_closed_and_freed_while_it_hears)
{
        struct user *user = malloc(sizeof(*user));
        char *much = calloc(1, 200000);
        int fd;

        REQUIRE(user != NULL && much != NULL);
        begin(user);
        fd = bring_up(user);
        user->free_when_heard = true;
        REQUIRE_INT(send(fd, much, 200000, MSG_NOSIGNAL), 200000);
        for (int i = 0; i < 50 && loop.timers > 0; i++)
                turn_once();
        CHECK_UINT(loop.timers, 0);
        free(much);
        close(fd);
        loop_close(&loop);
}

TEST(it_may_be_closed_when_it_comes_up)
{
        struct user user;
        int listener;

        begin(&user);
        user.close_when_up = true;
        listener = listen_tcp(&user.target.port, 5);
        connect_within(&user, 10 * SECOND);
        TURN_UNTIL(user.ups == 1);
        CHECK_INT(user.net.state, NET_DOWN);
        close(listener);
        end(&user);
}

TEST(a_thousand_connections_leave_no_descriptor_behind)
{
        struct user user;
        int listener;
        size_t before;

        begin(&user);
        listener = listen_tcp(&user.target.port, 5);
        before = descriptors();
        for (int i = 1; i <= 1000; i++) {
                int fd;

                connect_within(&user, 10 * SECOND);
                TURN_UNTIL(user.ups == i);
                fd = take(listener);
                if (i % 2) {
                        close(fd);
                        TURN_UNTIL(user.net.state == NET_DOWN);
                } else {
                        net_close(&user.net);
                        close(fd);
                }
        }
        CHECK_INT(user.downs, 500);
        CHECK_UINT(descriptors(), before);
        close(listener);
        end(&user);
}

TEST(a_vanished_server_is_noticed_within_the_silence_asked_for)
{
        struct user user;
        int value;
        socklen_t size = sizeof(value);
        int fd;

        begin(&user);
        user.target.silence = 12 * SECOND;
        fd = bring_up(&user);
        REQUIRE_INT(getsockopt(user.net.watch.fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, &size), 0);
        CHECK_INT(value, 12000);
        REQUIRE_INT(getsockopt(user.net.watch.fd, IPPROTO_TCP, TCP_KEEPIDLE, &value, &size), 0);
        CHECK_INT(value, 6);
        REQUIRE_INT(getsockopt(user.net.watch.fd, IPPROTO_TCP, TCP_NODELAY, &value, &size), 0);
        CHECK(value != 0);
        close(fd);
        end(&user);
}

/* ---- an answer that is expected any moment ------------------------------------------------------------------------ */

/* Only right after the other descriptors were looked at. */
static struct loop_hot *heat(void)
{
        struct loop_hot *hot = NULL;

        for (int i = 0; i < 1000 && !hot; i++) {
                loop_turn(&loop);
                hot = loop_heat(&loop);
        }
        REQUIRE(hot != NULL);
        return hot;
}

TEST(an_answer_that_is_expected_is_heard_where_the_thread_sleeps)
{
        struct user user;
        struct loop_hot *hot;
        int fd;

        begin(&user);
        fd = bring_up(&user);
        user.say_when_heard = "thanks";
        net_expect(&user.net, true);
        hot = heat();
        server_says(fd, "answer");
        REQUIRE(hot->wait(hot));
        CHECK_INT(user.hearings, 0); /* not by the one who sleeps: that one has not got the loop */
        loop_turn_hot(&loop, hot);
        CHECK_STR(user.said, "answer");
        server_hears(fd, "thanks");
        net_expect(&user.net, false);
        CHECK_NULL(loop_heat(&loop));
        server_says(fd, "and more");
        TURN_UNTIL(user.size == 14);
        close(fd);
        end(&user);
        CHECK_UINT(loop.hots, 0);
}

TEST(it_may_be_closed_and_freed_while_it_hears_what_was_expected)
{
        struct user *user = malloc(sizeof(*user));
        struct loop_hot *hot;
        int fd;

        REQUIRE(user != NULL);
        begin(user);
        fd = bring_up(user);
        user->free_when_heard = true;
        net_expect(&user->net, true);
        hot = heat();
        server_says(fd, "answer");
        REQUIRE(hot->wait(hot));
        loop_turn_hot(&loop, hot);
        CHECK_UINT(loop.timers, 0);
        CHECK_UINT(loop.hots, 0);
        close(fd);
        loop_close(&loop);
}

TEST(an_answer_that_does_not_come_at_once_is_left_to_the_loop)
{
        struct user user;
        struct loop_hot *hot;
        int fd;

        begin(&user);
        fd = bring_up(&user);
        net_expect(&user.net, true);
        hot = heat();
        CHECK(!hot->wait(hot));
        loop_turn_hot(&loop, hot);
        CHECK_INT(user.hearings + user.downs, 0);
        server_says(fd, "late");
        TURN_UNTIL(user.size == 4);
        hot = heat();
        close(fd);
        CHECK(!hot->wait(hot));
        loop_turn_hot(&loop, hot);
        TURN_UNTIL(user.downs == 1);
        CHECK_UINT(loop.hots, 0); /* nothing is expected of a connection that is down */
        end(&user);
}

static void *sleep_once(void *arg)
{
        struct loop_hot *hot = arg;

        hot->wait(hot);
        return NULL;
}

TEST(a_connection_may_fail_while_a_thread_sleeps_there)
{
        struct user user;
        struct loop_hot *hot;
        pthread_t thread;
        size_t before;
        int fd;

        begin(&user);
        before = descriptors();
        fd = bring_up(&user);
        net_expect(&user.net, true);
        hot = heat();
        REQUIRE_INT(pthread_create(&thread, NULL, sleep_once, hot), 0);
        net_fail(&user.net, PAWL_UNREACHABLE, "no reply");
        pthread_join(thread, NULL);
        loop_turn_hot(&loop, hot);
        TURN_UNTIL(user.downs == 1);
        close(fd);
        CHECK_UINT(descriptors(), before);
        end(&user);
}

/* ---- trying again ------------------------------------------------------------------------------------------------- */

TEST(the_pause_before_a_new_try_doubles_up_to_two_seconds_and_differs)
{
        struct net_backoff backoff = {0};
        int64_t whole = 20 * MS;
        int64_t first;
        bool differs = false;

        REQUIRE_INT(loop_init(&loop, NULL), 0);
        for (int i = 0; i < 20; i++) {
                int64_t pause = net_backoff(&backoff, &loop);

                CHECK(pause >= whole / 2 && pause <= whole);
                whole = whole * 2 > 2 * SECOND ? 2 * SECOND : whole * 2;
        }
        net_backoff_reset(&backoff);
        first = net_backoff(&backoff, &loop);
        CHECK(first <= 20 * MS);
        for (int i = 0; i < 20; i++) {
                net_backoff_reset(&backoff);
                differs |= net_backoff(&backoff, &loop) != first;
        }
        CHECK(differs);
        loop_close(&loop);
}
