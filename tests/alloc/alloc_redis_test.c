/* alloc_redis_test.c - the same for the Redis engine, the connections below it and hiredis: whatever fails, the caller is
 * told the truth, nothing leaks, nobody else is harmed, and what is left at the server ends by itself. The engine is part of
 * this program, not a module, so that its allocations and system calls can be made to fail. */
#include "../contract/contract.h"
#include "inject.h"
#include "scene.h"

#include <errno.h>
#include <hiredis/hiredis.h>

/* ---- what is left at the server ---------------------------------------------------------------------------------- */

static redisContext *reach(void)
{
        const char *url = getenv("REDIS_URL");
        redisContext *server;
        int port = 0;

        REQUIRE(url && sscanf(url, "redis://127.0.0.1:%d", &port) == 1);
        server = redisConnect("127.0.0.1", port);
        REQUIRE(server && !server->err);
        return server;
}

/* The counter, the history and who was alive lately stay; the witness holds its lock. */
static bool may_stay(const char *key)
{
        return !strncmp(key, "pawl:fence:", 11) || !strncmp(key, "pawl:past:", 10) ||
               !strncmp(key, "pawl:alive:", 11) || strstr(key, ":witness");
}

static bool ends_by_itself(redisContext *server, const char *key)
{
        redisReply *left = redisCommand(server, "PTTL %s", key);
        bool ends = CHECK(left && left->type == REDIS_REPLY_INTEGER) && CHECK(left->integer != -1) &&
                    CHECK(left->integer <= 60000);

        if (!ends)
                NOTE("%s stays", key);
        freeReplyObject(left);
        return ends;
}

/* How many keys are left, or -1 if one of them would stay for ever. */
static int count_left(void)
{
        redisContext *server = reach();
        redisReply *keys = redisCommand(server, "KEYS *");
        int count = 0;

        REQUIRE(keys && keys->type == REDIS_REPLY_ARRAY);
        for (size_t i = 0; i < keys->elements && count >= 0; i++) {
                const char *key = keys->element[i]->str;

                if (!may_stay(key))
                        count = ends_by_itself(server, key) ? count + 1 : -1;
        }
        freeReplyObject(keys);
        redisFree(server);
        return count;
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

/* Without memory for good there may be none for the answer to a release. */
static bool is_honest(int code, bool lasting)
{
        return code == PAWL_OK || code == PAWL_NO_MEMORY || (lasting && code == PAWL_IN_DOUBT);
}

/* All that was done is undone, unless there was nothing left to undo it with. */
static bool is_tidy(int code, int left, bool lasting)
{
        return code == PAWL_OK && !lasting ? CHECK_INT(left, 0) : CHECK(left >= 0);
}

static bool fail_one_allocation(const struct baseline *baseline, const char *place, uint32_t drive, long k,
                                bool lasting)
{
        int code, left;
        bool struck;

        inject_arm(INJECT_ANY_ALLOCATION, k, ENOMEM, lasting);
        code = play(place, drive);
        struck = inject_disarm();
        left = count_left();
        if (CHECK(!struck || is_honest(code, lasting)) && is_tidy(code, left, lasting) &&
            is_as_before(baseline, place, drive))
                return struck;
        NOTE("allocation %ld failed in \"%s\": %s", k, played(), pawl_error_name(code));
        return false;
}

/* The first of them open and connect, each in its own place; of the many later ones each so-many-th stands for all. */
static void fail_allocations(uint32_t drive, bool lasting, long first, long step)
{
        const char *place = fresh_place();
        struct baseline baseline = begin(place, drive);
        long k = 1;

        while (fail_one_allocation(&baseline, place, drive, k, lasting))
                k += k < first ? 1 : step;
}

TEST_WITHIN(240, each_allocation_that_fails_once_is_a_clean_error)
{
        fail_allocations(PAWL_DRIVE_THREAD, false, 100, 11);
}

TEST_WITHIN(240, an_allocation_that_fails_is_a_clean_error_when_the_caller_drives)
{
        fail_allocations(PAWL_DRIVE_CALLER, false, 1, 17);
}

TEST_WITHIN(240, memory_that_runs_out_for_good_is_a_clean_error)
{
        fail_allocations(PAWL_DRIVE_THREAD, true, 34, 167);
}

/* ---- system calls ------------------------------------------------------------------------------------------------ */

static bool fail_one_call(const struct baseline *baseline, const char *place, int which, long k, int error,
                          bool lasting)
{
        int code, left;

        inject_arm(which, k, error, lasting);
        code = play(place, PAWL_DRIVE_THREAD);
        (void)inject_disarm();
        left = count_left();
        if (CHECK(is_clean(code) || (lasting && code == PAWL_IN_DOUBT)) && is_tidy(code, left, lasting) &&
            is_as_before(baseline, place, PAWL_DRIVE_THREAD))
                return true;
        NOTE("call %ld of %s failed with %s in \"%s\": %s", k, inject_name(which), strerrorname_np(error), played(),
             pawl_error_name(code));
        return false;
}

static void count_calls(const char *place, long calls[INJECTED])
{
        inject_arm(INJECT_ANY_ALLOCATION, 0, 0, false);
        REQUIRE_INT(play(place, PAWL_DRIVE_THREAD), PAWL_OK);
        (void)inject_disarm();
        for (int which = 0; which < INJECTED; which++)
                calls[which] = inject_calls(which);
}

/* The first calls are those of opening and connecting; of those made again and again a few stand for all. */
TEST_WITHIN(240, each_system_call_that_fails_is_a_clean_error)
{
        enum { FIRST = 20, STEP = 13 };
        static const int errors[] = {EIO, EMFILE, ENOMEM, ECONNRESET};
        const char *place = fresh_place();
        struct baseline baseline = begin(place, PAWL_DRIVE_THREAD);
        long calls[INJECTED];

        count_calls(place, calls);
        for (int which = INJECT_strdup + 1; which < INJECTED; which++)
                for (long k = 1; k <= calls[which]; k += k < FIRST ? 1 : STEP)
                        if (!fail_one_call(&baseline, place, which, k, errors[(k + which) % 4], false))
                                break;
}

/* Descriptors run out, the server is cut off: from some call on, until the client is closed. */
TEST_WITHIN(240, a_system_call_that_fails_for_good_is_a_clean_error)
{
        static const struct {
                int which, k, error;
        } failures[] = {
                {INJECT_socket, 1, EMFILE},      {INJECT_socket, 2, EMFILE},
                {INJECT_socket, 3, ENOBUFS},     {INJECT_connect, 1, ECONNREFUSED},
                {INJECT_connect, 3, ETIMEDOUT},  {INJECT_epoll_ctl, 5, ENOSPC},
                {INJECT_getsockopt, 1, ENOBUFS}, {INJECT_getaddrinfo, 1, ENOMEM},
                {INJECT_getaddrinfo, 3, EIO},    {INJECT_pthread_create, 1, EAGAIN},
                {INJECT_setsockopt, 1, EINVAL},  {INJECT_fcntl64, 1, EINVAL},
                {INJECT_send, 1, EPIPE},         {INJECT_send, 9, ECONNRESET},
                {INJECT_send, 40, EPIPE},        {INJECT_recv, 1, ECONNRESET},
                {INJECT_recv, 9, ETIMEDOUT},     {INJECT_recv, 40, ECONNRESET},
        };
        const char *place = fresh_place();
        struct baseline baseline = begin(place, PAWL_DRIVE_THREAD);

        for (size_t i = 0; i < sizeof(failures) / sizeof(*failures); i++)
                if (!fail_one_call(&baseline, place, failures[i].which, failures[i].k, failures[i].error, true))
                        return;
}

/* A signal came, or the kernel had no room just now: nobody needs to know. */
TEST_WITHIN(240, a_call_that_was_only_interrupted_goes_unnoticed)
{
        enum { EACH = 6 };
        static const int calls[] = {INJECT_send, INJECT_recv};
        static const int errors[] = {EINTR, EAGAIN};
        const char *place = fresh_place();
        struct baseline baseline = begin(place, PAWL_DRIVE_THREAD);

        for (int i = 0; i < 4 * EACH; i++) {
                int code;

                inject_arm(calls[i & 1], 1 + i / 4, errors[i >> 1 & 1], false);
                code = play(place, PAWL_DRIVE_THREAD);
                if (!CHECK(inject_disarm()) || !CHECK_INT(code, PAWL_OK) ||
                    !is_as_before(&baseline, place, PAWL_DRIVE_THREAD))
                        return;
        }
}
