/* alloc_served_test.c - the same for an engine with a server, and the connections and libraries below it: whatever
 * fails, the caller is told the truth, nothing leaks, nobody else is harmed, and what is left at the server ends
 * by itself. The engine is part of this program, not a module, so that its allocations and system calls can be
 * made to fail. */
#include "../contract/contract.h"
#include "inject.h"
#include "left.h"
#include "scene.h"

#include <errno.h>

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static struct baseline begin_at_pace(const char *place, uint32_t drive)
{
        struct baseline baseline = begin(place, drive);

        baseline.replay = pace.replay;
        return baseline;
}

/* Without memory for good there may be none for the answer to a release. */
static bool is_honest(int code, bool lasting)
{
        return code == PAWL_OK || code == PAWL_NO_MEMORY || (lasting && code == PAWL_IN_DOUBT) ||
               (pace.hidden && code == PAWL_UNREACHABLE);
}

/* All that was done is undone, unless there was nothing left to undo it with. */
static bool is_tidy(int code, int left, bool lasting)
{
        return code == PAWL_OK && !lasting ? CHECK_INT(left, 0) : CHECK(left >= 0);
}

static bool fail_one_allocation(struct baseline *baseline, const char *place, uint32_t drive, long k, bool lasting)
{
        int code, left;
        bool struck;

        inject_arm(INJECT_ANY_ALLOCATION, k, ENOMEM, lasting);
        code = play(place, drive);
        struck = inject_disarm();
        left = count_left(place);
        if (CHECK(!struck || is_honest(code, lasting)) && is_tidy(code, left, lasting) &&
            is_as_before(baseline, place, drive))
                return struck;
        NOTE("allocation %ld failed in \"%s\": %s", k, played(), pawl_error_name(code));
        return false;
}

/* The first of them open and connect, each in its own place; of the many later ones each so-many-th stands for all. */
static void fail_allocations(uint32_t drive, bool lasting, const struct steps *steps)
{
        const char *place = fresh_place();
        struct baseline baseline = begin_at_pace(place, drive);
        long k = 1;

        while (fail_one_allocation(&baseline, place, drive, k, lasting))
                k += k < steps->first ? 1 : steps->step;
}

TEST_WITHIN(240, each_allocation_that_fails_once_is_a_clean_error)
{
        fail_allocations(PAWL_DRIVE_THREAD, false, &pace.once);
}

TEST_WITHIN(240, an_allocation_that_fails_is_a_clean_error_when_the_caller_drives)
{
        fail_allocations(PAWL_DRIVE_CALLER, false, &pace.by_caller);
}

TEST_WITHIN(240, memory_that_runs_out_for_good_is_a_clean_error)
{
        fail_allocations(PAWL_DRIVE_THREAD, true, &pace.for_good);
}

/* ---- system calls ---------------------------------------------------------------------------------------------- */

static bool fail_one_call(struct baseline *baseline, const char *place, int which, long k, int error, bool lasting)
{
        int code, left;

        inject_arm(which, k, error, lasting);
        code = play(place, PAWL_DRIVE_THREAD);
        (void)inject_disarm();
        left = count_left(place);
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
        static const int errors[] = {EIO, EMFILE, ENOMEM, ECONNRESET};
        const char *place = fresh_place();
        struct baseline baseline = begin_at_pace(place, PAWL_DRIVE_THREAD);
        long calls[INJECTED];

        count_calls(place, calls);
        for (int which = INJECT_strdup + 1; which < INJECTED; which++)
                for (long k = 1; k <= calls[which]; k += k < pace.calls.first ? 1 : pace.calls.step)
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
        struct baseline baseline = begin_at_pace(place, PAWL_DRIVE_THREAD);

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
        struct baseline baseline = begin_at_pace(place, PAWL_DRIVE_THREAD);

        for (int i = 0; i < 4 * EACH; i++) {
                int code;

                inject_arm(calls[i & 1], 1 + i / 4, errors[i >> 1 & 1], false);
                code = play(place, PAWL_DRIVE_THREAD);
                if (!CHECK(inject_disarm()) || !CHECK_INT(code, PAWL_OK) ||
                    !is_as_before(&baseline, place, PAWL_DRIVE_THREAD))
                        return;
        }
}

/* ---- connections that are lost again and again ----------------------------------------------------------------- */

/* The k-th call from now on fails, and with it a connection; what is asked for meanwhile is done all the same, or
 * not. */
static void lose_a_connection(pawl_client *client, int which, long k)
{
        int64_t until = now_ms() + PATIENCE;
        bool struck = false;
        pawl_lock *lock;

        inject_arm(which, k, ECONNRESET, false);
        while (!struck && now_ms() < until) {
                int code = pawl_acquire(client, "short", PAWL_LOCK(.ttl_ms = 60000), &lock);

                if (code == PAWL_OK)
                        code = pawl_release(lock);
                CHECK(is_clean(code) || code == PAWL_IN_DOUBT);
                struck = inject_calls(which) >= k;
        }
        CHECK(inject_disarm());
}

TEST_WITHIN(240, connections_that_are_lost_again_and_again_leave_no_descriptor)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *held, *waiting, *lock;
        struct seen told = {0};
        int descriptors;

        REQUIRE_INT(pawl_acquire(one, "long", PAWL_LOCK(.ttl_ms = 60000), &held), PAWL_OK);
        REQUIRE_INT(pawl_acquire_async(two, "long", PAWL_LOCK(.ttl_ms = 60000), see_granted, &told, &waiting), PAWL_OK);
        REQUIRE(queue_reaches(one, "long", 1));
        REQUIRE_INT(pawl_acquire(two, "short", PAWL_LOCK(.ttl_ms = 60000), &lock), PAWL_OK);
        REQUIRE_INT(pawl_release(lock), PAWL_OK);
        descriptors = count_descriptors();
        for (long i = 0; i < 12; i++)
                lose_a_connection(i & 1 ? one : two, i & 2 ? INJECT_recv : INJECT_send, 1 + i / 4);
        CHECK(SOON(pawl_acquire(one, "short", PAWL_LOCK(.ttl_ms = 60000), &lock) == PAWL_OK));
        CHECK_INT(pawl_release(lock), PAWL_OK);
        (void)SOON(count_descriptors() == descriptors);
        CHECK_INT(count_descriptors(), descriptors);
        CHECK_INT(pawl_check(held), PAWL_OK);
        CHECK_INT(atomic_load(&told.granted), 0);
        CHECK_INT(pawl_release(held), PAWL_OK);
        REQUIRE(SOON(atomic_load(&told.granted) == 1));
        CHECK_INT(atomic_load(&told.status), PAWL_OK);
}
