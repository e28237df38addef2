/* test_guard_order.c - what a power failure would show: the order in which a put reaches the disk, and each step of it
 * failing. fsync and renameat stand here in front of the C library's. */
#include <errno.h>
#include <fcntl.h>
#include <pawl/guard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tap.h"

static char steps[2000];
static int step_count;
static int failing; /* the step that fails; 0: none */

static void note_step(const char *what, const char *name)
{
        size_t used = strlen(steps);

        snprintf(steps + used, sizeof(steps) - used, "%s%s %s", used ? ", " : "", what, name);
}

static int fails(void)
{
        if (++step_count != failing)
                return 0;
        errno = EIO;
        return 1;
}

int fsync(int fd)
{
        char link[64];
        char path[1000] = "";
        ssize_t size;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        size = readlink(link, path, sizeof(path) - 1);
        if (size > 0)
                note_step("sync", strcmp(path, tap_directory()) == 0 ? "directory" : strrchr(path, '/') + 1);
        return fails() ? -1 : fdatasync(fd);
}

int renameat(int from_directory, const char *from, int to_directory, const char *to)
{
        note_step("rename", to);
        return fails() ? -1 : (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, 0);
}

static void forget_steps(int fail_at)
{
        steps[0] = 0;
        step_count = 0;
        failing = fail_at;
}

static pawl_guard *open_guard(void)
{
        char url[600];
        pawl_guard *guard = NULL;

        snprintf(url, sizeof(url), "file:%s", tap_directory());
        REQUIRE(pawl_guard_open(url, NULL, &guard) == PAWL_OK);
        return guard;
}

TEST(the_token_is_on_the_disk_before_the_data_it_admits)
{
        pawl_guard *guard = open_guard();

        CHECK_INT(pawl_guard_put(guard, "r", 1, "x", 1, NULL), PAWL_OK);
        CHECK_STR(steps, "sync .r.new, sync .r.pawl-new, rename .r.pawl, sync directory, rename r, sync directory");
        pawl_guard_close(guard);
}

TEST(a_token_is_on_the_disk_when_it_is_admitted)
{
        pawl_guard *guard = open_guard();
        struct pawl_guard_data data;

        CHECK_INT(pawl_guard_admit(guard, "r", 1, NULL), PAWL_OK);
        CHECK_STR(steps, "sync .r.pawl-new, rename .r.pawl, sync directory");
        forget_steps(0);
        CHECK_INT(pawl_guard_admit(guard, "r", 1, NULL), PAWL_OK);
        CHECK_STR(steps, "sync directory"); /* whoever admitted it first may have been killed before that */
        forget_steps(0);
        CHECK_INT(pawl_guard_get(guard, "r", 2, NULL, &data), PAWL_NOT_FOUND);
        CHECK_STR(steps, "sync .r.pawl-new, rename .r.pawl, sync directory");
        forget_steps(0);
        CHECK_INT(pawl_guard_admit(guard, "r", 1, NULL), PAWL_STALE);
        CHECK_STR(steps, "");
        pawl_guard_close(guard);
}

/* The greatest token admitted, found by asking from below. */
static uint64_t mark_of(pawl_guard *guard)
{
        uint64_t token = 1;

        while (pawl_guard_admit(guard, "r", token, NULL) == PAWL_STALE)
                token++;
        return token;
}

static bool left_behind(const char *name)
{
        char path[600];

        snprintf(path, sizeof(path), "%s/%s", tap_directory(), name);
        return access(path, F_OK) == 0;
}

TEST(whichever_step_fails_the_data_are_whole_and_the_mark_is_not_behind)
{
        pawl_guard *guard = open_guard();

        CHECK_INT(pawl_guard_put(guard, "r", 5, "old", 3, NULL), PAWL_OK);
        for (int step = 1; step <= 6; step++) {
                struct pawl_guard_data data;
                struct pawl_why why = {0};
                uint64_t mark;
                bool renamed = step == 6;

                forget_steps(step);
                CHECK_INT(pawl_guard_put(guard, "r", 5 + (uint64_t)step, "new", 3, &why), PAWL_SYSTEM);
                CHECK_INT(why.sys_errno, EIO);
                forget_steps(0);
                mark = mark_of(guard);
                CHECK(mark >= 5 && mark <= 5 + (uint64_t)step);
                REQUIRE(pawl_guard_get(guard, "r", mark, NULL, &data) == PAWL_OK);
                CHECK_STR(data.bytes, renamed ? "new" : "old");
                CHECK(!renamed || mark == 5 + (uint64_t)step);
                free(data.bytes);
                CHECK(!left_behind(".r.new") && !left_behind(".r.pawl-new"));
        }
        CHECK_INT(pawl_guard_put(guard, "r", 100, "good", 4, NULL), PAWL_OK);
        pawl_guard_close(guard);
}

TEST(a_version_is_on_the_disk_before_its_data_and_before_it_is_told)
{
        pawl_guard *guard = open_guard();
        struct pawl_guard_data data;

        CHECK_INT(pawl_guard_swap(guard, "r", 0, "x", 1, NULL, NULL), PAWL_OK);
        CHECK_STR(steps, "sync .r.new, sync .r.pawl-new, rename .r.pawl, sync directory, rename r, sync directory");
        forget_steps(0);
        REQUIRE(pawl_guard_look(guard, "r", NULL, &data) == PAWL_OK);
        CHECK_STR(steps, "sync directory"); /* who wrote it may have been killed before that */
        free(data.bytes);
        forget_steps(0);
        CHECK_INT(pawl_guard_swap(guard, "r", 0, "y", 1, NULL, NULL), PAWL_STALE);
        CHECK_STR(steps, "");
        pawl_guard_close(guard);
}

/* Data of one version that were told as those of the next would be changed without having been read. */
TEST(whichever_step_of_a_swap_fails_no_version_has_two_contents_that_were_told)
{
        pawl_guard *guard = open_guard();
        struct pawl_guard_data data;

        CHECK_INT(pawl_guard_swap(guard, "r", 0, "old", 3, NULL, NULL), PAWL_OK);
        for (int step = 1; step <= 6; step++) {
                uint64_t before;

                REQUIRE(pawl_guard_look(guard, "r", NULL, &data) == PAWL_OK);
                before = data.token;
                free(data.bytes);
                forget_steps(step);
                CHECK_INT(pawl_guard_swap(guard, "r", before, "new", 3, NULL, NULL), PAWL_SYSTEM);
                forget_steps(0);
                REQUIRE(pawl_guard_look(guard, "r", NULL, &data) == PAWL_OK);
                CHECK_STR(data.bytes, step == 6 ? "new" : "old");
                CHECK(data.token == before + (step >= 4) || (step == 3 && data.token == before));
                free(data.bytes);
                CHECK(!left_behind(".r.new") && !left_behind(".r.pawl-new"));
        }
        pawl_guard_close(guard);
}
