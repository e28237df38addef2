/* redis_bundle_test.c - many claims of one client in one request to a Redis server: what is true of each alone stays true.
 * REDIS_URL says where (tests/servers/with). */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "pawl.h"
#include "tap.h"

enum { PATIENCE = 20000 };

/* ---- the server, asked directly ------------------------------------------------------------------------------------ */

static int dial(void)
{
        const char *url = getenv("REDIS_URL");
        struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        REQUIRE(url && strrchr(url, ':'));
        to.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1));
        REQUIRE(connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0);
        return fd;
}

/* One command as a line; the reply as it came. */
static const char *say(const char *command)
{
        static char reply[64 * 1024];
        char line[512];
        size_t length = 0;
        ssize_t got;
        int fd = dial(), size = snprintf(line, sizeof(line), "%s\r\nQUIT\r\n", command);

        REQUIRE(write(fd, line, (size_t)size) == size);
        while ((got = read(fd, reply + length, sizeof(reply) - 1 - length)) > 0)
                length += (size_t)got;
        close(fd);
        reply[length] = '\0';
        return reply;
}

static long calls_of(const char *statistics, const char *command)
{
        char word[64];
        const char *at;

        snprintf(word, sizeof(word), "cmdstat_%s:calls=", command);
        at = strstr(statistics, word);
        return at ? atol(at + strlen(word)) : 0;
}

static long script_calls(void)
{
        const char *statistics = say("INFO commandstats");

        return calls_of(statistics, "eval") + calls_of(statistics, "evalsha");
}

/* ---- claims -------------------------------------------------------------------------------------------------------- */

static void nap(int ms)
{
        nanosleep(&(struct timespec){.tv_nsec = ms * 1000000L}, NULL);
}

static pawl_client *open_client(const char *prefix, enum pawl_drive drive)
{
        pawl_client *client;
        char url[256];

        snprintf(url, sizeof(url), "%s?prefix=%s:", getenv("REDIS_URL"), prefix);
        REQUIRE(pawl_open(url, PAWL_OPEN(.drive = drive), &client) == PAWL_OK);
        return client;
}

/* Turns the client until *count is at least n. */
static bool reaches(pawl_client *client, const int *count, int n)
{
        struct pollfd ready = {.fd = pawl_fd(client), .events = POLLIN};

        for (int ms = 0; *count < n && ms < PATIENCE; ms += poll(&ready, 1, 10) == 0 ? 10 : 0)
                if (pawl_dispatch(client) != PAWL_OK)
                        return false;
        return *count >= n;
}

/* Connected, both ways: from now on claims wait where they ask. */
static void warm_up(pawl_client *client)
{
        pawl_lock *first, *second;

        REQUIRE(pawl_acquire(client, "warm", NULL, &first) == PAWL_OK);
        REQUIRE(pawl_acquire(client, "warm", PAWL_LOCK(.wait_ms = 300), &second) == PAWL_TIMEOUT);
        REQUIRE(pawl_release(first) == PAWL_OK);
}

enum { MANY = 100 };

struct burst {
        int granted, released;
        int order[MANY];
        int status[MANY];
        uint64_t tokens[MANY];
        pawl_lock *locks[MANY];
};
static struct burst burst;

static void on_granted(pawl_lock *lock, int status, void *arg)
{
        int i = (int)((int *)arg - burst.order);

        burst.status[i] = status;
        burst.tokens[i] = pawl_token(lock);
        burst.order[i] = burst.granted++;
}

static void on_released(int status, void *arg)
{
        (void)arg;
        CHECK_INT(status, PAWL_OK);
        burst.released++;
}

static const char *numbered(int i)
{
        static _Thread_local char name[64];

        snprintf(name, sizeof(name), "job/%d", i);
        return name;
}

static void ask_for_many(pawl_client *client)
{
        for (int i = 0; i < MANY; i++)
                REQUIRE(pawl_acquire_async(client, numbered(i), NULL, on_granted, &burst.order[i], &burst.locks[i]) ==
                        PAWL_OK);
}

TEST(claims_that_are_asked_at_once_go_in_one_request)
{
        pawl_client *client = open_client("once", PAWL_DRIVE_CALLER);
        long before;

        warm_up(client);
        before = script_calls();
        ask_for_many(client);
        CHECK(reaches(client, &burst.granted, MANY));
        for (int i = 0; i < MANY; i++) {
                CHECK_INT(burst.status[i], PAWL_OK);
                CHECK(i == 0 || burst.tokens[i] > burst.tokens[i - 1]);
        }
        for (int i = 0; i < MANY; i++)
                pawl_release_async(burst.locks[i], on_released, NULL);
        CHECK(reaches(client, &burst.released, MANY));
        CHECK_INT(script_calls() - before, 4); /* the first alone, the others together; twice */
        CHECK_HAS(say("KEYS once:*"), "*0\r\n");
        pawl_close(client);
}

static void serve(pawl_lock *lock, int status, void *arg)
{
        on_granted(lock, status, arg);
        pawl_release_async(lock, on_released, NULL);
}

TEST(claims_on_few_names_that_are_asked_at_once_are_served_in_their_order)
{
        enum { FEW = 7 };
        pawl_client *client = open_client("order", PAWL_DRIVE_CALLER);
        int last[FEW] = {0};

        warm_up(client);
        for (int i = 0; i < MANY; i++)
                REQUIRE(pawl_acquire_async(client, i ? numbered(i % FEW) : "alone",
                                           PAWL_LOCK(.mode = i % 10 == 9 ? PAWL_SHARED : PAWL_EXCLUSIVE), serve,
                                           &burst.order[i], &burst.locks[i]) == PAWL_OK);
        CHECK(reaches(client, &burst.released, MANY));
        for (int i = 1; i < MANY; i++) {
                CHECK_INT(burst.status[i], PAWL_OK);
                CHECK(burst.order[i] >= last[i % FEW]);
                last[i % FEW] = burst.order[i];
        }
        pawl_close(client);
        CHECK_HAS(say("KEYS order:*"), "*0\r\n");
}

TEST(a_claim_that_cannot_be_served_does_not_hurt_those_that_are_asked_with_it)
{
        pawl_client *client = open_client("hurt", PAWL_DRIVE_CALLER);

        warm_up(client);
        CHECK_HAS(say("RPUSH hurt:job/50 data"), ":1");
        ask_for_many(client);
        CHECK(reaches(client, &burst.granted, MANY));
        for (int i = 0; i < MANY; i++)
                CHECK_INT(burst.status[i], i == 50 ? PAWL_CORRUPT : PAWL_OK);
        pawl_close(client);
        CHECK_HAS(say("KEYS hurt:*"), "*1\r\n");
        CHECK_HAS(say("DEL hurt:job/50"), ":1");
}

static void note_released(int status, void *arg)
{
        burst.status[(int *)arg - burst.order] = status;
        burst.released++;
}

TEST(a_lock_that_somebody_damaged_does_not_hurt_those_that_are_released_with_it)
{
        pawl_client *client = open_client("torn", PAWL_DRIVE_CALLER);

        warm_up(client);
        ask_for_many(client);
        REQUIRE(reaches(client, &burst.granted, MANY));
        CHECK_HAS(say("DEL torn:job/50"), ":1");
        CHECK_HAS(say("RPUSH torn:job/50 data"), ":1");
        for (int i = 0; i < MANY; i++)
                CHECK_INT(pawl_release_async(burst.locks[i], note_released, &burst.order[i]), PAWL_OK);
        CHECK(reaches(client, &burst.released, MANY));
        for (int i = 0; i < MANY; i++)
                CHECK_INT(burst.status[i], i == 50 ? PAWL_IN_DOUBT : PAWL_OK);
        pawl_close(client);
        CHECK_HAS(say("KEYS torn:*"), "*1\r\n");
        CHECK_HAS(say("DEL torn:job/50"), ":1");
}

TEST(claims_that_are_given_up_among_others_leave_nothing)
{
        pawl_client *client = open_client("given", PAWL_DRIVE_CALLER);

        warm_up(client);
        ask_for_many(client);
        for (int i = 0; i < MANY; i += 2)
                CHECK_INT(i % 4 ? pawl_cancel(burst.locks[i]) : pawl_release_async(burst.locks[i], NULL, NULL),
                          PAWL_OK);
        CHECK(reaches(client, &burst.granted, MANY / 2));
        CHECK_INT(pawl_close(client), PAWL_OK);
        CHECK_HAS(say("KEYS given:*"), "*0\r\n");
}

/* ---- connections that are cut ------------------------------------------------------------------------------------- */

enum { RUNNERS = 300, ROUNDS = 20, NAMES = 60 };

struct runner {
        int name, left;
};
static struct {
        pawl_client *client;
        struct runner runners[RUNNERS];
        uint64_t last[NAMES];
        uint64_t tokens[RUNNERS * ROUNDS];
        atomic_int grants, ended;
} race;

static void run_on(struct runner *runner);

static void race_released(int status, void *arg)
{
        struct runner *runner = arg;

        CHECK_INT(status, PAWL_OK);
        if (--runner->left)
                run_on(runner);
        else
                atomic_fetch_add(&race.ended, 1);
}

static void race_granted(pawl_lock *lock, int status, void *arg)
{
        struct runner *runner = arg;
        uint64_t token = pawl_token(lock);

        if (CHECK_INT(status, PAWL_OK)) {
                CHECK(token > race.last[runner->name]);
                race.last[runner->name] = token;
                race.tokens[atomic_fetch_add(&race.grants, 1)] = token;
        }
        pawl_release_async(lock, race_released, arg);
}

static void run_on(struct runner *runner)
{
        pawl_lock *lock;

        runner->name = (runner->name + 7) % NAMES;
        CHECK_INT(pawl_acquire_async(race.client, numbered(runner->name), NULL, race_granted, runner, &lock), PAWL_OK);
}

static int by_size(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return x < y ? -1 : x > y;
}

TEST_WITHIN(120, tokens_are_unique_and_grow_and_nothing_is_left_when_connections_are_cut_again_and_again)
{
        race.client = open_client("cut", PAWL_DRIVE_THREAD);
        for (int i = 0; i < RUNNERS; i++) {
                race.runners[i] = (struct runner){.name = i % NAMES, .left = ROUNDS};
                run_on(&race.runners[i]);
        }
        for (int i = 0; i < 10000 && atomic_load(&race.ended) < RUNNERS; i++) {
                nap(10);
                if (i % 5 == 4)
                        say("CLIENT KILL TYPE normal");
        }
        CHECK_INT(atomic_load(&race.ended), RUNNERS);
        CHECK_INT(atomic_load(&race.grants), RUNNERS * ROUNDS);
        CHECK_INT(pawl_close(race.client), PAWL_OK);
        qsort(race.tokens, RUNNERS * ROUNDS, sizeof(race.tokens[0]), by_size);
        for (int i = 1; i < RUNNERS * ROUNDS; i++)
                CHECK(race.tokens[i] > race.tokens[i - 1]);
        CHECK_HAS(say("KEYS cut:*"), "*0\r\n");
        CHECK_HAS(say("KEYS pawl:queue:cut:*"), "*0\r\n");
}
