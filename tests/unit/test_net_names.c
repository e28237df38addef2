/* test_net_names.c - names with several addresses, and nameservers that take their time: getaddrinfo is our own here (the
 * linker's --wrap), so that it answers what a test wants, when it wants. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "net_user.h"

/* What the next question is answered with: the addresses one after the other, or the error. */
static const char *addresses[3];
static int error, system_error;
static bool slow; /* not before the gate opens */
static sem_t gate;
static atomic_int questions;

int __real_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found);

int __wrap_getaddrinfo(const char *host, const char *service, const struct addrinfo *hints, struct addrinfo **found)
{
        struct addrinfo **last = found;

        if (hints->ai_flags & AI_NUMERICHOST)
                return __real_getaddrinfo(host, service, hints, found);
        atomic_fetch_add(&questions, 1);
        while (slow && sem_wait(&gate) != 0)
                ;
        errno = system_error;
        if (error != 0)
                return error;
        for (size_t i = 0; i < 3 && addresses[i]; i++) {
                if (__real_getaddrinfo(addresses[i], service, hints, last) != 0)
                        return EAI_FAIL;
                last = &(*last)->ai_next;
        }
        return 0;
}

static int listen_on(const char *address, uint16_t port)
{
        struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(port)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        REQUIRE(inet_pton(AF_INET, address, &place.sin_addr) == 1);
        REQUIRE_INT(bind(fd, (struct sockaddr *)&place, sizeof(place)), 0);
        REQUIRE_INT(listen(fd, 0), 0);
        return fd;
}

static void fill(const char *address, uint16_t port, int *fillers, int count)
{
        struct sockaddr_in place = {.sin_family = AF_INET, .sin_port = htons(port)};

        REQUIRE(inet_pton(AF_INET, address, &place.sin_addr) == 1);
        for (int i = 0; i < count; i++) {
                fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
                REQUIRE(fillers[i] >= 0);
                connect(fillers[i], (struct sockaddr *)&place, sizeof(place));
        }
        usleep(50000);
}

static void set_names(struct user *user, const char *first, const char *second, const char *third)
{
        begin(user);
        user->target.host = "db.example";
        addresses[0] = first;
        addresses[1] = second;
        addresses[2] = third;
        REQUIRE_INT(sem_init(&gate, 0, 0), 0);
}

TEST(every_address_of_a_name_is_tried_in_its_turn)
{
        struct user user;
        int listener;

        set_names(&user, "127.0.0.2", "::1", "127.0.0.1");
        listener = listen_tcp(&user.target.port, 5);
        connect_within(&user, 20 * SECOND);
        TURN_UNTIL(user.ups == 1);
        CHECK_INT(user.downs, 0);
        close(listener);
        end(&user);
}

TEST(an_address_that_does_not_answer_has_only_its_part_of_the_time)
{
        struct user user;
        int fillers[8];
        int listener, deaf;

        set_names(&user, "127.0.0.2", "127.0.0.1", NULL);
        listener = listen_tcp(&user.target.port, 5);
        deaf = listen_on("127.0.0.2", user.target.port);
        fill("127.0.0.2", user.target.port, fillers, 8);
        connect_within(&user, 2 * SECOND);
        TURN_UNTIL(user.ups + user.downs > 0);
        CHECK_INT(user.ups, 1);
        for (int i = 0; i < 8; i++)
                close(fillers[i]);
        close(deaf);
        close(listener);
        end(&user);
}

TEST(if_no_address_works_that_is_told_once)
{
        struct user user;
        int listener;

        set_names(&user, "127.0.0.1", "127.0.0.2", "127.0.0.3");
        listener = listen_tcp(&user.target.port, 5);
        close(listener);
        connect_within(&user, 20 * SECOND);
        TURN_UNTIL(user.downs == 1);
        for (int i = 0; i < 3; i++)
                turn_once();
        CHECK_INT(user.downs, 1);
        CHECK_HAS(user.why.text, "db.example:");
        CHECK_HAS(user.why.text, "connection refused");
        end(&user);
}

TEST(closing_while_the_question_is_open_touches_nothing_when_the_answer_comes)
{
        struct user user;
        size_t before;

        set_names(&user, "127.0.0.1", NULL, NULL);
        before = descriptors();
        slow = true;
        connect_within(&user, 20 * SECOND);
        turn_once();
        net_close(&user.net);
        memset(&user.net, 0x5a, sizeof(user.net)); /* whoever looks at it now will be noticed */
        sem_post(&gate);
        TURN_UNTIL(descriptors() == before);
        turn_once();
        CHECK_INT(user.ups + user.downs, 0);
        loop_close(&loop);
}

TEST(a_question_that_is_not_answered_in_time_is_kept_for_the_next_try)
{
        struct user user;
        int listener;

        set_names(&user, "127.0.0.1", NULL, NULL);
        listener = listen_tcp(&user.target.port, 5);
        slow = true;
        for (int i = 1; i <= 5; i++) {
                connect_within(&user, 10 * MS);
                TURN_UNTIL(user.downs == i);
                CHECK_STR(user.why.text, "db.example was not looked up in time");
                CHECK_INT(user.why.sys_errno, ETIMEDOUT);
        }
        connect_within(&user, 20 * SECOND);
        sem_post(&gate);
        TURN_UNTIL(user.ups == 1);
        CHECK_INT(atomic_load(&questions), 1); /* not one thread for each try */
        close(listener);
        end(&user);
}

TEST(an_answer_that_nobody_waits_for_is_forgotten)
{
        struct user user;
        int listener;

        set_names(&user, "127.0.0.1", NULL, NULL);
        listener = listen_tcp(&user.target.port, 5);
        slow = true;
        connect_within(&user, 10 * MS);
        TURN_UNTIL(user.downs == 1);
        sem_post(&gate);
        TURN_UNTIL(user.net.lookup == NULL);
        CHECK_INT(user.ups, 0);
        sem_post(&gate);
        connect_within(&user, 20 * SECOND);
        TURN_UNTIL(user.ups == 1);
        CHECK_INT(atomic_load(&questions), 2);
        close(listener);
        end(&user);
}

static void expect_error(int lookup_error, int code, const char *sentence)
{
        struct user user;

        set_names(&user, NULL, NULL, NULL);
        error = lookup_error;
        connect_within(&user, 20 * SECOND);
        TURN_UNTIL(user.downs == 1);
        CHECK_INT(user.why.code, code);
        CHECK_HAS(user.why.text, sentence);
        end(&user);
}

TEST(what_the_resolver_says_becomes_a_sentence)
{
        expect_error(EAI_NONAME, PAWL_UNREACHABLE, "no address for db.example");
        expect_error(EAI_AGAIN, PAWL_UNREACHABLE, "cannot look up db.example: ");
        expect_error(EAI_MEMORY, PAWL_NO_MEMORY, "db.example");
        system_error = EMFILE;
        expect_error(EAI_SYSTEM, PAWL_SYSTEM, "cannot look up db.example: Too many open files");
}
