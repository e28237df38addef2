/* test_guard_prune.c - the file guard pruned and examined: the order on the disk, each step failing, kills, damage. fsync,
 * renameat and unlinkat stand here in front of the C library's. */
#include <errno.h>
#include <fcntl.h>
#include <pawl/guard.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

static struct pawl_why why;
static char steps[2000];
static int step_count;
static int failing; /* the step that fails; 0: none */

static int take_step(const char *what, const char *name)
{
        size_t used = strlen(steps);

        snprintf(steps + used, sizeof(steps) - used, "%s%s %s", used ? ", " : "", what, name);
        if (++step_count != failing)
                return 0;
        errno = EIO;
        return -1;
}

int fsync(int fd)
{
        char link[64];
        char path[1000] = "";

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        if (readlink(link, path, sizeof(path) - 1) <= 0)
                return -1;
        if (take_step("sync", strcmp(path, tap_directory()) == 0 ? "directory" : strrchr(path, '/') + 1) != 0)
                return -1;
        return fdatasync(fd);
}

int renameat(int from_directory, const char *from, int to_directory, const char *to)
{
        if (take_step("rename", to) != 0)
                return -1;
        return (int)syscall(SYS_renameat2, from_directory, from, to_directory, to, 0);
}

/* Of what a crash may have left nothing is told. */
int unlinkat(int directory, const char *name, int flags)
{
        size_t length = strlen(name);

        if (length > 5 && strcmp(name + length - 5, ".pawl") == 0 && take_step("remove", name) != 0)
                return -1;
        return (int)syscall(SYS_unlinkat, directory, name, flags);
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
        REQUIRE(pawl_guard_open(url, PAWL_GUARD(.wait_ms = 60000), &guard) == PAWL_OK);
        return guard;
}

static int admit(pawl_guard *guard, const char *resource, uint64_t token)
{
        return pawl_guard_admit(guard, resource, token, &why);
}

static const char *path_of(const char *name)
{
        static char path[600];

        snprintf(path, sizeof(path), "%s/%s", tap_directory(), name);
        return path;
}

static void write_file(const char *name, const char *text)
{
        FILE *file = fopen(path_of(name), "w");

        REQUIRE(file != NULL);
        fputs(text, file);
        fclose(file);
}

/* ---- the order -------------------------------------------------------------------------------------------------- */

TEST(the_floor_is_on_the_disk_before_a_mark_goes)
{
        pawl_guard *guard = open_guard();
        uint64_t pruned = 0;

        CHECK_INT(admit(guard, "r", 5), PAWL_OK);
        forget_steps(0);
        CHECK_INT(pawl_guard_prune(guard, 5, &why, &pruned), PAWL_OK);
        CHECK_STR(steps, "sync .pawl.floor-new, rename .pawl.floor, sync directory, remove .r.pawl, sync directory");
        CHECK_UINT(pruned, 1);
        forget_steps(0);
        CHECK_INT(pawl_guard_prune(guard, 5, &why, &pruned), PAWL_OK);
        CHECK_STR(steps, "sync directory, sync directory"); /* whoever raised it may have been killed before that */
        pawl_guard_close(guard);
}

TEST(whichever_step_of_a_prune_fails_nothing_passes_that_was_refused)
{
        for (int step = 1; step <= 5; step++) {
                pawl_guard *guard = open_guard();
                uint64_t token = 100 * (uint64_t)step;

                CHECK_INT(admit(guard, "r", token), PAWL_OK);
                forget_steps(step);
                CHECK_INT(pawl_guard_prune(guard, token + 50, &why, NULL), PAWL_SYSTEM);
                CHECK_INT(why.sys_errno, EIO);
                forget_steps(0);
                pawl_guard_close(guard);
                guard = open_guard();
                CHECK_INT(admit(guard, "r", token - 1), PAWL_STALE);
                CHECK(access(path_of(".pawl.floor-new"), F_OK) != 0);
                CHECK_INT(pawl_guard_prune(guard, token + 50, &why, NULL), PAWL_OK);
                CHECK_INT(admit(guard, "r", token + 49), PAWL_STALE);
                pawl_guard_close(guard);
        }
}

/* ---- killed ------------------------------------------------------------------------------------------------------ */

static atomic_ullong *confirmed;

/* Admits and prunes; a token that has passed is told. */
static void visit_until_killed(void)
{
        pawl_guard *guard = open_guard();

        for (uint64_t token = atomic_load(confirmed) + 1;; token++) {
                if (admit(guard, "r", token) != PAWL_OK)
                        _exit(1);
                atomic_store(confirmed, token);
                if (token % 3 == 0 && pawl_guard_prune(guard, token, &why, NULL) != PAWL_OK)
                        _exit(2);
        }
}

TEST_WITHIN(300, a_prune_killed_at_any_moment_lets_nothing_pass_that_was_refused)
{
        enum { KILLS = 200 };
        pawl_guard *guard = open_guard();
        unsigned seed = 4711;
        useconds_t window = 8000; /* grows to a few visits, however slow the disk is today */

        confirmed = mmap(NULL, sizeof(*confirmed), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        REQUIRE(confirmed != MAP_FAILED);
        for (int i = 0; i < KILLS; i++) {
                unsigned long long before = atomic_load(confirmed);
                pid_t child = fork();
                int status;

                REQUIRE(child >= 0);
                if (child == 0)
                        visit_until_killed();
                usleep((useconds_t)rand_r(&seed) % window);
                kill(child, SIGKILL);
                REQUIRE(waitpid(child, &status, 0) == child);
                CHECK(WIFSIGNALED(status));
                if (atomic_load(confirmed) > 1 &&
                    !CHECK_INT(admit(guard, "r", atomic_load(confirmed) - 1), PAWL_STALE)) {
                        NOTE("after kill %d", i);
                        break;
                }
                if (atomic_load(confirmed) < before + 3 && window < 200000)
                        window += window / 16;
                else if (atomic_load(confirmed) > before + 9 && window > 8000)
                        window -= window / 16;
        }
        NOTE("%llu tokens passed", (unsigned long long)atomic_load(confirmed));
        CHECK(atomic_load(confirmed) > 1);
        pawl_guard_close(guard);
}

/* ---- damage ----------------------------------------------------------------------------------------------------- */

TEST(a_damaged_floor_lets_nobody_pass_who_has_no_mark)
{
        static const struct {
                const char *text;
                int code;
        } floors[] = {{"", PAWL_CORRUPT},
                      {"nonsense", PAWL_CORRUPT},
                      {"pawl-mark 1 .floor 5 0123456789abcdef\n", PAWL_CORRUPT},
                      {"pawl-mark 3 .floor 5 0123456789abcdef\n", PAWL_OTHER_VERSION}};
        pawl_guard *guard = open_guard();

        CHECK_INT(admit(guard, "known", 50), PAWL_OK);
        for (size_t i = 0; i < sizeof(floors) / sizeof(floors[0]); i++) {
                struct pawl_guard_data data;

                write_file(".pawl.floor", floors[i].text);
                CHECK_INT(admit(guard, "r", 100), floors[i].code);
                CHECK_INT(pawl_guard_put(guard, "r", 100, "x", 1, &why), floors[i].code);
                CHECK_INT(pawl_guard_get(guard, "r", 100, &why, &data), floors[i].code);
                CHECK_INT(pawl_guard_forget(guard, "r", 100, &why), floors[i].code);
                CHECK_INT(pawl_guard_prune(guard, 100, &why, NULL), floors[i].code);
                CHECK_HAS(why.text, ".pawl.floor");
                CHECK_INT(admit(guard, "known", 50), PAWL_OK);
                CHECK_INT(admit(guard, "known", 49), PAWL_STALE);
        }
        pawl_guard_close(guard);
}

TEST(the_mark_of_a_resource_is_no_floor)
{
        pawl_guard *guard = open_guard();
        char command[1500];

        CHECK_INT(admit(guard, "r", 5), PAWL_OK);
        snprintf(command, sizeof(command), "cp '%s/.r.pawl' '%s/.pawl.floor'", tap_directory(), tap_directory());
        REQUIRE(system(command) == 0);
        CHECK_INT(admit(guard, "s", 5), PAWL_CORRUPT);
        pawl_guard_close(guard);
}

TEST(a_prune_leaves_a_damaged_mark_and_says_so)
{
        pawl_guard *guard = open_guard();
        int left = 0;
        char name[16];

        for (int i = 0; i < 8; i++) {
                snprintf(name, sizeof(name), "r%d", i);
                CHECK_INT(admit(guard, name, 5), PAWL_OK);
        }
        write_file(".r3.pawl", "nonsense");
        CHECK_INT(pawl_guard_prune(guard, 9, &why, NULL), PAWL_CORRUPT);
        CHECK_HAS(why.text, ".r3.pawl");
        for (int i = 0; i < 8; i++) {
                snprintf(name, sizeof(name), ".r%d.pawl", i);
                left += access(path_of(name), F_OK) == 0;
        }
        CHECK_INT(left, 1); /* the others are gone all the same */
        CHECK_INT(admit(guard, "r3", 100), PAWL_CORRUPT);
        CHECK_INT(admit(guard, "r4", 8), PAWL_STALE);
        pawl_guard_close(guard);
}

TEST(a_prune_takes_what_a_crash_left_beside_a_mark)
{
        pawl_guard *guard = open_guard();

        CHECK_INT(admit(guard, "r", 5), PAWL_OK);
        write_file(".r.new", "half");
        write_file(".r.pawl-new", "half");
        CHECK_INT(pawl_guard_prune(guard, 5, &why, NULL), PAWL_OK);
        CHECK(access(path_of(".r.new"), F_OK) != 0);
        CHECK(access(path_of(".r.pawl-new"), F_OK) != 0);
        pawl_guard_close(guard);
}

/* ---- examined --------------------------------------------------------------------------------------------------- */

static char findings[8000];

static int note_finding(const struct pawl_finding *finding, void *arg)
{
        size_t used = strlen(findings);

        (void)arg;
        snprintf(findings + used, sizeof(findings) - used, "%u %s [%s]\n", finding->severity, finding->what,
                 finding->mend);
        CHECK(*finding->where == '/');
        return 0;
}

static void examine(pawl_guard *guard)
{
        findings[0] = 0;
        CHECK_INT(pawl_guard_examine(guard, note_finding, NULL, &why), PAWL_OK);
}

TEST(an_examination_says_who_may_write)
{
        pawl_guard *guard = open_guard();

        REQUIRE(chmod(tap_directory(), 0700) == 0);
        examine(guard);
        CHECK_HAS(findings, "0 only its owner may write to it []");
        REQUIRE(chmod(tap_directory(), 0770) == 0);
        examine(guard);
        CHECK_HAS(findings, "1 group ");
        CHECK_HAS(findings, "[chmod g-w /");
        REQUIRE(chmod(tap_directory(), 0707) == 0);
        examine(guard);
        CHECK_HAS(findings, "3 everybody may write to it");
        CHECK_HAS(findings, "[chmod o-w /");
        REQUIRE(chmod(tap_directory(), 0700) == 0);
        pawl_guard_close(guard);
}

TEST(an_examination_finds_damage_and_leftovers)
{
        pawl_guard *guard = open_guard();

        CHECK_INT(admit(guard, "good", 5), PAWL_OK);
        CHECK_INT(admit(guard, "it's bad", 5), PAWL_OK);
        CHECK_INT(pawl_guard_prune(guard, 3, &why, NULL), PAWL_OK);
        examine(guard);
        CHECK_HAS(findings, "0 it has 2 marks []");
        CHECK_HAS(findings, "0 it was pruned: resources without a mark admit no token below 3 []");
        write_file(".it%27s%20bad.pawl", "nonsense");
        write_file(".good.new", "half");
        write_file(".pawl.floor", "nonsense");
        examine(guard);
        CHECK_HAS(findings, "3 the mark .it%27s%20bad.pawl is damaged");
        CHECK_HAS(findings, "3 the mark .pawl.floor is damaged");
        CHECK_HAS(findings, "1 1 files were left by writers that were killed");
        pawl_guard_close(guard);
}

TEST(an_examination_sees_that_the_directory_was_replaced)
{
        pawl_guard *guard = NULL;
        char url[700];
        char path[600];

        snprintf(path, sizeof(path), "%s/inner", tap_directory());
        snprintf(url, sizeof(url), "file:%s", path);
        REQUIRE(mkdir(path, 0700) == 0);
        REQUIRE(pawl_guard_open(url, NULL, &guard) == PAWL_OK);
        REQUIRE(rmdir(path) == 0 && mkdir(path, 0700) == 0);
        examine(guard);
        CHECK_HAS(findings, "3 the directory was removed or replaced");
        pawl_guard_close(guard);
}

TEST(an_examination_knows_a_file_system_in_memory)
{
        char path[] = "/dev/shm/pawl-test.XXXXXX";
        pawl_guard *guard = NULL;
        char url[100];

        if (!mkdtemp(path))
                SKIP("there is no /dev/shm to write to");
        snprintf(url, sizeof(url), "file:%s", path);
        REQUIRE(pawl_guard_open(url, NULL, &guard) == PAWL_OK);
        examine(guard);
        rmdir(path);
        CHECK_HAS(findings, "2 the directory is in memory (tmpfs)");
        pawl_guard_close(guard);
}
