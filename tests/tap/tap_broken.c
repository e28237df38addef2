/* tap_broken.c - tests that fail in every way a test can, for tap_test.sh. */
#include "history.h"
#include "tap.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(passes)
{
        CHECK(1 == 1);
        CHECK_INT(2, 2);
        CHECK_STR("a", "a");
        CHECK_STR(NULL, NULL);
        CHECK_MEM("abc", "abd", 2);
        CHECK_HAS("haystack", "stack");
        CHECK_NULL(NULL);
        CHECK_COMPARE(2, >=, 2);
}

TEST(fails_with_integers)
{
        CHECK_INT(41, 42);
        CHECK_COMPARE(41, >, 42);
}

TEST(fails_with_memory)
{
        CHECK_MEM("abc", "abd", 3);
        CHECK_HAS("haystack", "needle");
        CHECK_NULL("something");
}

TEST(fails_with_strings)
{
        CHECK_STR("left", "right");
        CHECK_STR(NULL, "right");
}

TEST(fails_and_goes_on)
{
        CHECK(1 == 2);
        NOTE("reached");
}

#define ANSWER 42
TEST(fails_and_ends)
{
        REQUIRE(ANSWER == 2);
        NOTE("not reached");
}

TEST(crashes)
{
        signal(SIGSEGV, SIG_DFL); /* sanitizers have their own */
        CHECK(true);
        raise(SIGSEGV);
}

TEST_WITHIN(1, hangs)
{
        pause();
}

TEST_WITHIN(1, hangs_in_a_check)
{
        CHECK(true);
        CHECK_INT(pause(), 0);
}

TEST_WITHIN(1, hangs_after_a_check)
{
        CHECK(tap_name());
        pause();
}

TEST(exits)
{
        _exit(3);
}

TEST(skips)
{
        SKIP("there is no %s", "moon");
}

TEST(fails_in_a_child)
{
        pid_t child = fork();

        if (child == 0) {
                CHECK(1 == 2);
                _exit(0);
        }
        waitpid(child, NULL, 0);
}

static void *check_on_a_thread(void *arg)
{
        (void)arg;
        CHECK(1 == 2);
        return NULL;
}

TEST(fails_on_a_thread)
{
        pthread_t thread;

        REQUIRE(pthread_create(&thread, NULL, check_on_a_thread, NULL) == 0);
        pthread_join(thread, NULL);
}

TEST(leaves_a_directory)
{
        char path[500];

        snprintf(path, sizeof(path), "%s/file", tap_directory());
        fclose(fopen(path, "w"));
        NOTE("directory %s", tap_directory());
        raise(SIGKILL);
}

TEST(leaves_a_process)
{
        pid_t child = fork();

        if (child == 0)
                pause();
        NOTE("process %d", (int)child);
}

/* A turn of a worker that waited 1 ms and then held the lock for held_ms; its token is the time. */
static void hold(struct history *history, unsigned worker, int64_t acquired_ms, int64_t held_ms)
{
        struct history_turn *turn = history_begin(&history->workers[worker], 0, history->permits > 0);

        turn->requested = (acquired_ms - 1) * 1000000;
        turn->acquired = acquired_ms * 1000000;
        turn->releasing = turn->acquired + held_ms * 1000000;
        turn->released = turn->releasing + 1000;
        turn->token = (uint64_t)acquired_ms;
}

TEST(shows_a_meeting_of_holders)
{
        static struct history history;

        for (int i = 1; i <= HISTORY_TURNS + 10; i++)
                hold(&history, 0, i * 10, 2);
        CHECK(!history_print(&history, 0, 0));
        hold(&history, 2, 1301, 4);
        CHECK(history_print(&history, 0, 0));
        CHECK(!history_print(&history, 1, 0));
        history.workers[2].last[0].token = 7;
        history.workers[2].last[0].acquired = 1303 * 1000000;
        CHECK(history_print(&history, 0, 1303 * 1000000));
}

TEST(shows_one_holder_too_many)
{
        static struct history history = {.permits = 2};

        hold(&history, 0, 10, 5);
        hold(&history, 1, 11, 5);
        CHECK(!history_print(&history, 0, 0));
        hold(&history, 2, 12, 5);
        CHECK(history_print(&history, 0, 0));
}
