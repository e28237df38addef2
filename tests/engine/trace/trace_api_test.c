/* trace_api_test.c - the whole way: a program opens trace+local:, the library opens the module, the log hook hears. */
#include "tap.h"

#include <pawl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static char lines[20000];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static void keep_line(int level, const char *text, void *arg)
{
        (void)arg;
        pthread_mutex_lock(&mutex);
        if (level == PAWL_LOG_TRACE && strlen(lines) + strlen(text) + 2 < sizeof(lines)) {
                strcat(lines, text);
                strcat(lines, "\n");
        }
        pthread_mutex_unlock(&mutex);
}

static pawl_client *open_traced(const char *scheme, uint32_t level)
{
        char url[600];
        struct pawl_why why = {0};
        pawl_client *client;

        snprintf(url, sizeof(url), "%slocal:%s/locks", scheme, tap_directory());
        if (!CHECK_INT(pawl_open(url, PAWL_OPEN(.log = keep_line, .log_level = level, .why = &why), &client),
                       PAWL_OK)) {
                NOTE("%s", why.text);
                tap_end();
        }
        return client;
}

static void take_and_give_back(pawl_client *client)
{
        pawl_lock *lock;

        REQUIRE_INT(pawl_acquire(client, "orders/42", NULL, &lock), PAWL_OK);
        CHECK(pawl_token(lock) > 0);
        CHECK_INT(pawl_check(lock), PAWL_OK);
        CHECK_INT(pawl_release(lock), PAWL_OK);
}

TEST(a_lock_taken_through_the_module_is_a_lock_and_leaves_its_lines)
{
        pawl_client *client = open_traced("trace+", PAWL_LOG_TRACE);

        take_and_give_back(client);
        CHECK_INT(pawl_close(client), PAWL_OK);
        CHECK_HAS(lines, "acquire orders/42: at once: token ");
        CHECK_HAS(lines, "release orders/42: at once: PAWL_OK");
}

TEST(it_excludes_and_is_excluded_by_clients_without_the_trace)
{
        pawl_client *traced = open_traced("trace+", PAWL_LOG_TRACE);
        pawl_client *plain = open_traced("", PAWL_LOG_ERROR);
        pawl_lock *lock;
        pawl_lock *other;

        REQUIRE_INT(pawl_acquire(traced, "x", NULL, &lock), PAWL_OK);
        CHECK_INT(pawl_acquire(plain, "x", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &other), PAWL_BUSY);
        CHECK_INT(pawl_release(lock), PAWL_OK);
        REQUIRE_INT(pawl_acquire(plain, "x", NULL, &lock), PAWL_OK);
        CHECK_INT(pawl_acquire(traced, "x", PAWL_LOCK(.wait_ms = 50), &other), PAWL_TIMEOUT);
        CHECK_INT(pawl_release(lock), PAWL_OK);
        pawl_close(traced);
        pawl_close(plain);
}

TEST(capabilities_are_those_of_the_engine_behind)
{
        pawl_client *traced = open_traced("trace+", PAWL_LOG_ERROR);
        pawl_client *plain = open_traced("", PAWL_LOG_ERROR);

        CHECK_UINT(pawl_capabilities(traced), pawl_capabilities(plain));
        pawl_close(traced);
        pawl_close(plain);
}

TEST(a_trace_of_a_trace_is_still_a_lock)
{
        pawl_client *client = open_traced("trace+trace+", PAWL_LOG_TRACE);

        take_and_give_back(client);
        CHECK_INT(pawl_close(client), PAWL_OK);
}

TEST(an_engine_that_is_not_there_is_refused_with_a_sentence)
{
        static const char *const urls[] = {"nats://localhost", "trace+nats://localhost", "gopher://x",
                                           "trace+:", "trace+trace+nats://h"};

        for (size_t i = 0; i < sizeof(urls) / sizeof(*urls); i++) {
                struct pawl_why why = {0};
                pawl_client *client = NULL;
                int code = pawl_open(urls[i], PAWL_OPEN(.why = &why), &client);

                CHECK(code == PAWL_NO_ENGINE || code == PAWL_INVALID);
                CHECK(*why.text);
                CHECK_NULL(client);
        }
}

TEST(pawl_engine_says_that_local_and_trace_can_be_opened)
{
        struct pawl_engine_info info;
        int found = 0;

        for (size_t i = 0; pawl_engine(i, &info) == PAWL_OK; i++) {
                if (strcmp(info.scheme, "local") == 0 || strncmp(info.scheme, "trace", 5) == 0) {
                        CHECK_STR(info.missing, NULL);
                        found++;
                }
        }
        CHECK_INT(found, 2);
}
