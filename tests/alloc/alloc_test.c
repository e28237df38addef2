/* alloc_test.c - when memory or a system call fails: a clean error, nothing lost, nothing leaked, others unharmed, and
 * the next try works. One scenario touches most of the API; it is run again and again, each time something else fails. */
#include "../contract/contract.h"
#include "inject.h"
#include "scene.h"

#include <errno.h>

/* ---- memory ---------------------------------------------------------------------------------------------------- */

static void fail_each_allocation(uint32_t drive, bool lasting)
{
        const char *place = fresh_place();
        struct baseline baseline = begin(place, drive);
        bool struck = true;

        for (long k = 1; struck; k++) {
                int code;

                inject_arm(INJECT_ANY_ALLOCATION, k, ENOMEM, lasting);
                code = play(place, drive);
                struck = inject_disarm();
                if (!CHECK(code == PAWL_NO_MEMORY || (code == PAWL_OK && !lasting) || !struck) ||
                    !is_as_before(&baseline, place, drive)) {
                        NOTE("allocation %ld failed in \"%s\": %s", k, played(), pawl_error_name(code));
                        return;
                }
        }
}

TEST(each_allocation_that_fails_once_is_a_clean_error)
{
        fail_each_allocation(PAWL_DRIVE_THREAD, false);
}

TEST(memory_that_runs_out_for_good_is_a_clean_error)
{
        fail_each_allocation(PAWL_DRIVE_THREAD, true);
}

TEST(each_allocation_that_fails_is_a_clean_error_when_the_caller_drives)
{
        fail_each_allocation(PAWL_DRIVE_CALLER, false);
}

/* ---- system calls ---------------------------------------------------------------------------------------------- */

static bool fail_one_call(struct baseline *baseline, const char *place, int which, long k, int error)
{
        int code;

        inject_arm(which, k, error, false);
        code = play(place, PAWL_DRIVE_THREAD);
        (void)inject_disarm();
        if (CHECK(is_clean(code)) && is_as_before(baseline, place, PAWL_DRIVE_THREAD))
                return true;
        NOTE("call %ld of %s failed with %s in \"%s\": %s", k, inject_name(which), strerrorname_np(error), played(),
             pawl_error_name(code));
        return false;
}

/* The first calls are those of opening; of those made again and again a few stand for all. */
TEST_WITHIN(240, each_system_call_that_fails_is_a_clean_error)
{
        enum { FIRST = 18 };
        static const int errors[] = {EIO, EMFILE, ENOMEM};
        const char *place = fresh_place();
        struct baseline baseline = begin(place, PAWL_DRIVE_THREAD);
        long calls[INJECTED];

        inject_arm(INJECT_ANY_ALLOCATION, 0, 0, false);
        REQUIRE_INT(play(place, PAWL_DRIVE_THREAD), PAWL_OK);
        (void)inject_disarm();
        for (int which = 0; which < INJECTED; which++)
                calls[which] = inject_calls(which);
        for (int which = INJECT_strdup + 1; which < INJECTED; which++)
                for (long k = 1; k <= calls[which] && k <= FIRST; k++)
                        if (!fail_one_call(&baseline, place, which, k, errors[(k + which) % 3]))
                                break;
}

/* The first client of all makes the place: whatever fails then, the next one finds a place it can use. */
TEST_WITHIN(240, a_place_that_could_not_be_made_can_be_made_at_the_next_try)
{
        char place[1024];
        long calls[INJECTED];
        int number = 0;

        inject_arm(INJECT_ANY_ALLOCATION, 0, 0, false);
        snprintf(place, sizeof(place), "local:%s/%d", tap_directory(), number++);
        REQUIRE_INT(play(place, PAWL_DRIVE_THREAD), PAWL_OK);
        (void)inject_disarm();
        for (int which = 0; which < INJECTED; which++)
                calls[which] = inject_calls(which);
        for (int which = INJECT_strdup + 1; which < INJECTED; which++) {
                for (long k = 1; k <= calls[which] && k <= 3; k++) {
                        int code;

                        snprintf(place, sizeof(place), "local:%s/%d", tap_directory(), number++);
                        inject_arm(which, k, EIO, false);
                        code = play(place, PAWL_DRIVE_THREAD);
                        (void)inject_disarm();
                        if (CHECK(is_clean(code)) && CHECK_INT(play(place, PAWL_DRIVE_THREAD), PAWL_OK))
                                continue;
                        NOTE("call %ld of %s: %s in \"%s\"", k, inject_name(which), pawl_error_name(code), played());
                        break;
                }
        }
}
