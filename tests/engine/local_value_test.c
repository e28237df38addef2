/* local_value_test.c - the files of values: death and stopping at any step of a store, files and directories that cannot be
 * trusted, names that look like paths, what a power cut may leave, sweeping. */
#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "local_driver.h"

/* What a test and its children share. */
struct shared {
        _Atomic int step;
        _Atomic int ready;
        _Atomic int code;
};
static struct shared *shared;

static void share(void)
{
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        REQUIRE(shared != MAP_FAILED);
        atomic_store(&shared->code, -1);
}

static void nap(int ms)
{
        struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000L};

        nanosleep(&pause, NULL);
}

static void await(_Atomic int *value, int least)
{
        for (int i = 0; i < 10000 && atomic_load(value) < least; i++)
                nap(1);
        REQUIRE(atomic_load(value) >= least);
}

static void end(pid_t child)
{
        REQUIRE(child > 0);
        kill(child, SIGKILL);
        REQUIRE(waitpid(child, NULL, 0) == child);
}

static void hold(struct seat *seat, struct driver *driver, const char *name)
{
        seat_init(seat, driver, name);
        seat_acquire(seat);
        REQUIRE(GRANTED(seat, driver));
}

/* Takes the lock, stores, gives it back. */
static int keep_for(struct driver *driver, const char *name, const char *text, int64_t how_long)
{
        struct seat seat;
        int code;

        hold(&seat, driver, name);
        code = store(&seat, text, how_long);
        CHECK_INT(seat_release(&seat), PAWL_OK);
        return code;
}

static int keep(struct driver *driver, const char *name, const char *text)
{
        return keep_for(driver, name, text, 0);
}

static int count(const char *path, const char *prefix)
{
        DIR *files = opendir(path);
        int found = 0;

        for (const struct dirent *file; files != NULL && (file = readdir(files)) != NULL;)
                found += file->d_name[0] != '.' && strncmp(file->d_name, prefix, strlen(prefix)) == 0;
        if (files != NULL)
                closedir(files);
        return found;
}

/* Valid to the end of the test. */
static const char *state_directory(void)
{
        static char path[4096];

        snprintf(path, sizeof(path), "%s/d", tap_directory());
        return path;
}

/* Where the value of a name is; valid until the next but three calls. */
static const char *place_of(const char *path, const char *name)
{
        struct value_place place;
        char below[80];

        value_place(name, &place);
        snprintf(below, sizeof(below), "values/%s/%s", place.directory, place.file);
        return path_in(path, below);
}

static const char *directory_of(const char *path, const char *name)
{
        struct value_place place;
        char below[16];

        value_place(name, &place);
        snprintf(below, sizeof(below), "values/%s", place.directory);
        return path_in(path, below);
}

/* ---- death ----------------------------------------------------------------------------------------------------------- */

static int deadly_step;
static int64_t deadly_keep;

static void die_at_step(struct local *local, int point)
{
        (void)local;
        (void)point;
        if (atomic_fetch_add(&shared->step, 1) + 1 == deadly_step)
                kill(getpid(), SIGKILL);
}

static void store_and_die(const char *path, const char *text)
{
        struct driver driver;
        struct seat seat;

        driver_must_open(&driver, path);
        hold(&seat, &driver, "a");
        driver_local(&driver)->hook = die_at_step;
        (void)store(&seat, text, deadly_keep);
        driver_local(&driver)->hook = NULL;
        _exit(0);
}

/* Stores as a process that dies at the step given; whether it came through. */
static bool die_storing(const char *path, const char *text, int step)
{
        pid_t child;
        int status;

        deadly_step = step;
        atomic_store(&shared->step, 0);
        child = fork();
        if (child == 0)
                store_and_die(path, text);
        REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
        return WIFEXITED(status);
}

static void check_usable(struct driver *driver, const char *path)
{
        driver_local(driver)->stored = 0; /* the next store sweeps */
        CHECK_INT(keep(driver, "a", "the next"), PAWL_OK);
        CHECK(is_kept(driver, "a", "the next"));
        CHECK_INT(count(path_in(path, "values"), "new."), 0);
}

static void die_replacing(int64_t how_long)
{
        const char *path = state_directory();
        struct driver watcher;
        bool survived = false;
        int old = 0, new = 0, step;

        share();
        deadly_keep = how_long;
        driver_must_open(&watcher, path);
        for (step = 1; step < 100 && !survived; step++) {
                REQUIRE_INT(keep(&watcher, "a", NULL), PAWL_OK);
                REQUIRE_INT(keep_for(&watcher, "a", "the old one", how_long), PAWL_OK);
                survived = die_storing(path, "the new one, which is longer", step);
                old += is_kept(&watcher, "a", "the old one");
                new += is_kept(&watcher, "a", "the new one, which is longer");
                CHECK_INT(old + new, step);
                check_usable(&watcher, path);
        }
        CHECK(survived);
        CHECK(old >= 4);
        CHECK(new >= 2);
        NOTE("died at each of %d steps", step - 2);
        driver_close(&watcher);
}

TEST_WITHIN(120, who_dies_at_any_step_of_a_store_leaves_the_old_value_or_the_new)
{
        die_replacing(0);
}

TEST_WITHIN(120, who_dies_at_any_step_of_a_brief_store_leaves_the_old_value_or_the_new)
{
        die_replacing(60 * SECOND);
}

TEST_WITHIN(120, who_dies_at_any_step_of_the_first_store_leaves_nothing_or_all)
{
        bool survived = false;
        char path[4096];

        share();
        for (int step = 1; step < 100 && !survived; step++) {
                struct driver watcher;

                snprintf(path, sizeof(path), "%s/d%d", tap_directory(), step);
                driver_must_open(&watcher, path);
                survived = die_storing(path, "all", step);
                CHECK(is_kept(&watcher, "a", NULL) || is_kept(&watcher, "a", "all"));
                check_usable(&watcher, path);
                CHECK_INT(count(path, "values"), 1);
                driver_close(&watcher);
        }
        CHECK(survived);
}

/* ---- stopped ------------------------------------------------------------------------------------------------------- */

static int stop_point;

static void stop_at_point(struct local *local, int point)
{
        if (point != stop_point)
                return;
        local->hook = NULL;
        atomic_store(&shared->ready, 1);
        raise(SIGSTOP);
}

/* A process that takes a lock for 300 ms, is stopped at that point of its store, and later tells what became of it. */
static pid_t stopped_storing(const char *path, int point)
{
        pid_t child;

        stop_point = point;
        child = fork();
        if (child == 0) {
                struct driver driver;
                struct seat seat;

                driver_must_open(&driver, path);
                seat_init(&seat, &driver, "a");
                seat.claim.ttl = 300 * MS;
                REQUIRE_INT(seat_try(&seat), PAWL_OK);
                driver_local(&driver)->hook = stop_at_point;
                atomic_store(&shared->code, store(&seat, "of the stopped one", 0));
                for (;;)
                        pause();
        }
        await(&shared->ready, 1);
        nap(20);
        return child;
}

/* It had looked, and was stopped before it changed anything: whoever came after must not see what was before. */
TEST_WITHIN(60, who_is_stopped_inside_delays_others_but_not_for_ever)
{
        const char *path = state_directory();
        struct driver driver;
        struct report report;
        struct seat seat;
        pid_t child;

        share();
        driver_must_open(&driver, path);
        REQUIRE_INT(keep(&driver, "a", "old"), PAWL_OK);
        child = stopped_storing(path, 63);
        fetch_begin(&driver, "a", &report);
        CHECK(!report.answered);
        CHECK_INT(report_of(&driver, &report), PAWL_STUCK);
        CHECK_HAS(report.why, "stopped");
        CHECK_INT(keep(&driver, "b", "another name's"), PAWL_OK); /* of another stripe */
        hold(&seat, &driver, "a");
        store_begin(&seat, "ours", 0, &report);
        CHECK_INT(report_of(&driver, &report), PAWL_STUCK);
        CHECK_HAS(report.why, "stopped");
        CHECK_INT(count(path_in(path, "values"), "new."), 1); /* its own */
        fetch_begin(&driver, "a", &report);
        CHECK(!report.answered);
        kill(child, SIGCONT);
        CHECK_INT(report_of(&driver, &report), PAWL_OK);
        CHECK_STR(report.text, "of the stopped one");
        await(&shared->code, PAWL_OK);
        CHECK_INT(atomic_load(&shared->code), PAWL_OK);
        CHECK_INT(store(&seat, "ours", 0), PAWL_OK);
        CHECK(is_kept(&driver, "a", "ours"));
        end(child);
        driver_close(&driver);
}

static pid_t writer;

static void let_a_writer_in(struct local *local, int point)
{
        if (point != 67)
                return;
        local->hook = NULL;
        writer = stopped_storing(local->path, 64);
}

TEST(what_is_not_on_disk_yet_is_not_told)
{
        const char *path = state_directory();
        struct driver driver;
        struct report report;

        share();
        driver_must_open(&driver, path);
        driver_local(&driver)->hook = let_a_writer_in; /* between our look and our reading */
        fetch_begin(&driver, "a", &report);
        CHECK(!report.answered);
        kill(writer, SIGCONT);
        CHECK_INT(report_of(&driver, &report), PAWL_OK);
        CHECK_STR(report.text, "of the stopped one");
        end(writer);
        driver_close(&driver);
}

TEST(who_is_stopped_before_it_looks_changes_nothing_afterwards)
{
        static const int points[] = {60, 61};
        const char *path = state_directory();
        struct driver driver;
        struct seat seat;

        share();
        driver_must_open(&driver, path);
        for (int i = 0; i < 2; i++) {
                pid_t child;

                atomic_store(&shared->ready, 0);
                atomic_store(&shared->code, -1);
                child = stopped_storing(path, points[i]);
                hold(&seat, &driver, "a");
                CHECK_INT(store(&seat, "ours", 0), PAWL_OK);
                kill(child, SIGCONT);
                await(&shared->code, PAWL_OK);
                CHECK_INT(atomic_load(&shared->code), PAWL_LOST);
                CHECK(is_kept(&driver, "a", "ours"));
                CHECK_INT(count(path_in(path, "values"), "new."), 0);
                CHECK_INT(seat_release(&seat), PAWL_OK);
                end(child);
        }
        driver_close(&driver);
}

TEST(who_is_killed_inside_lets_others_in)
{
        const char *path = state_directory();
        struct driver driver;
        struct report report;
        pid_t child;

        share();
        driver_must_open(&driver, path);
        REQUIRE_INT(keep(&driver, "a", "old"), PAWL_OK);
        child = stopped_storing(path, 63);
        fetch_begin(&driver, "a", &report);
        end(child);
        CHECK_INT(report_of(&driver, &report), PAWL_OK);
        CHECK_STR(report.text, "old");
        check_usable(&driver, path);
        driver_close(&driver);
}

TEST(what_waits_for_a_stopped_one_can_be_forgotten)
{
        const char *path = state_directory();
        struct driver driver;
        struct report fetched, stored;
        struct seat seat;
        pid_t child;

        share();
        driver_must_open(&driver, path);
        child = stopped_storing(path, 63);
        hold(&seat, &driver, "a");
        fetch_begin(&driver, "a", &fetched);
        store_begin(&seat, "ours", 0, &stored);
        CHECK_INT(count(path_in(path, "values"), "new."), 2);
        local_inspect.forget(driver.engine, &fetched.inquiry);
        local_inspect.forget(driver.engine, &stored.inquiry);
        CHECK_INT(count(path_in(path, "values"), "new."), 1);
        store_begin(&seat, "ours", 0, &stored);
        driver_close(&driver); /* with one under way */
        CHECK(!fetched.answered);
        CHECK(!stored.answered);
        CHECK_INT(count(path_in(path, "values"), "new."), 1);
        end(child);
}

/* ---- what cannot be trusted -------------------------------------------------------------------------------------- */

static void refuses(struct driver *driver, int code, const char *words)
{
        struct report report;
        struct seat seat;

        fetch_begin(driver, "a", &report);
        CHECK_INT(report_of(driver, &report), code);
        CHECK_HAS(report.why, words);
        hold(&seat, driver, "a");
        store_begin(&seat, "x", 0, &report);
        CHECK_INT(report_of(driver, &report), code);
        CHECK_HAS(report.why, words);
        CHECK_INT(seat_release(&seat), PAWL_OK);
}

TEST(a_directory_of_values_that_is_not_what_it_should_be_is_refused)
{
        const char *path = state_directory();
        char values[4104], other[4096];
        struct driver driver;

        snprintf(other, sizeof(other), "%s/other", tap_directory());
        driver_must_open(&driver, path);
        snprintf(values, sizeof(values), "%s/values", path);
        REQUIRE(mkdir(other, 0700) == 0 && symlink(other, values) == 0);
        refuses(&driver, PAWL_DENIED, "symbolic link");
        CHECK_INT(count(other, ""), 0);
        REQUIRE(unlink(values) == 0 && symlink("/nowhere/at/all", values) == 0);
        refuses(&driver, PAWL_DENIED, "symbolic link");
        REQUIRE(unlink(values) == 0 && mkfifo(values, 0600) == 0);
        refuses(&driver, PAWL_DENIED, "not a directory");
        REQUIRE(unlink(values) == 0 && mkdir(values, 0700) == 0 && chmod(values, 0777) == 0);
        refuses(&driver, PAWL_DENIED, "others may write");
        REQUIRE(chmod(values, 0770) == 0);
        refuses(&driver, PAWL_DENIED, "others may write");
        REQUIRE(chmod(values, 0700) == 0);
        CHECK_INT(keep(&driver, "a", "at last"), PAWL_OK);
        driver_close(&driver);
}

TEST(a_directory_of_values_of_another_user_is_refused)
{
        const char *path = state_directory();
        struct driver driver;

        if (geteuid() != 0)
                SKIP("needs root");
        driver_must_open(&driver, path);
        CHECK_INT(keep(&driver, "a", "mine"), PAWL_OK);
        REQUIRE(chown(path_in(path, "values"), 12345, 12345) == 0);
        refuses(&driver, PAWL_DENIED, "belongs to user 12345");
        driver_close(&driver);
}

TEST(a_link_below_is_not_followed)
{
        const char *path = state_directory();
        char directory[4096], file[4096], other[4096];
        struct report report;
        struct driver driver;

        snprintf(other, sizeof(other), "%s/other", tap_directory());
        driver_must_open(&driver, path);
        CHECK_INT(keep(&driver, "a", "one"), PAWL_OK);
        snprintf(directory, sizeof(directory), "%s", directory_of(path, "a"));
        snprintf(file, sizeof(file), "%s", place_of(path, "a"));
        REQUIRE(rename(file, other) == 0 && symlink(other, file) == 0);
        fetch_begin(&driver, "a", &report);
        CHECK_INT(report_of(&driver, &report), PAWL_DENIED);
        CHECK_HAS(report.why, "symbolic link");
        CHECK_INT(keep(&driver, "a", "two"), PAWL_OK); /* in the link's place */
        CHECK(is_kept(&driver, "a", "two"));
        REQUIRE(unlink(other) == 0 && rename(directory, other) == 0 && symlink(other, directory) == 0);
        refuses(&driver, PAWL_DENIED, "symbolic link");
        driver_close(&driver);
}

TEST(a_damaged_file_is_told_of_and_can_be_replaced)
{
        const char *path = state_directory();
        struct driver driver;
        struct report report;
        char file[4096];
        struct stat status;

        driver_must_open(&driver, path);
        CHECK_INT(keep(&driver, "a", "whole"), PAWL_OK);
        snprintf(file, sizeof(file), "%s", place_of(path, "a"));
        REQUIRE(stat(file, &status) == 0);
        for (off_t at = 0; at < status.st_size; at++) {
                int fd = open(file, O_RDWR | O_CLOEXEC);
                char byte;

                REQUIRE(fd >= 0 && pread(fd, &byte, 1, at) == 1);
                byte ^= 0x10;
                REQUIRE(pwrite(fd, &byte, 1, at) == 1);
                fetch_begin(&driver, "a", &report);
                CHECK_INT(report_of(&driver, &report), at >= 8 && at < 12 ? PAWL_OTHER_VERSION : PAWL_CORRUPT);
                byte ^= 0x10;
                REQUIRE(pwrite(fd, &byte, 1, at) == 1);
                close(fd);
                CHECK(is_kept(&driver, "a", "whole"));
        }
        REQUIRE(truncate(file, status.st_size - 1) == 0);
        fetch_begin(&driver, "a", &report);
        CHECK_INT(report_of(&driver, &report), PAWL_CORRUPT);
        CHECK_HAS(report.why, "damaged");
        CHECK_INT(keep(&driver, "a", "again"), PAWL_OK);
        CHECK(is_kept(&driver, "a", "again"));
        driver_close(&driver);
}

TEST(a_value_in_another_names_place_is_not_its_own)
{
        const char *path = state_directory();
        struct driver driver;
        struct report report;

        driver_must_open(&driver, path);
        CHECK_INT(keep(&driver, "a", "of a"), PAWL_OK);
        CHECK_INT(keep(&driver, "b", "of b"), PAWL_OK);
        REQUIRE(rename(place_of(path, "a"), place_of(path, "b")) == 0);
        fetch_begin(&driver, "b", &report);
        CHECK_INT(report_of(&driver, &report), PAWL_CORRUPT);
        CHECK(is_kept(&driver, "a", NULL));
        driver_close(&driver);
}

TEST(a_limit_on_file_sizes_is_an_error_and_not_a_signal)
{
        const char *path = state_directory();
        struct rlimit limit = {.rlim_cur = 60, .rlim_max = 60};
        struct driver driver;
        struct report report;
        struct seat seat;

        driver_must_open(&driver, path);
        hold(&seat, &driver, "a");
        CHECK_INT(store(&seat, "old", 0), PAWL_OK);
        REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        store_begin(&seat, "too much", 0, &report);
        CHECK_INT(report_of(&driver, &report), PAWL_FULL);
        CHECK_HAS(report.why, "ulimit");
        CHECK(is_kept(&driver, "a", "old"));
        CHECK_INT(count(path_in(path, "values"), "new."), 0);
        CHECK_INT(store(&seat, NULL, 0), PAWL_OK);
        CHECK(is_kept(&driver, "a", NULL));
        driver_close(&driver);
}

TEST(what_a_group_shares_its_members_may_write)
{
        char path[4096];
        struct driver driver;
        struct stat status;

        snprintf(path, sizeof(path), "%s/shared", tap_directory());
        umask(077);
        REQUIRE(mkdir(path, 0700) == 0 && chmod(path, 01770) == 0);
        driver_must_open(&driver, path);
        CHECK_INT(keep(&driver, "a", "ours"), PAWL_OK);
        CHECK_INT(keep(&driver, "a", "again"), PAWL_OK);
        REQUIRE(stat(path_in(path, "values"), &status) == 0);
        CHECK_INT(status.st_mode & 07777, 0770); /* no sticky bit: each replaces what another stored */
        REQUIRE(stat(directory_of(path, "a"), &status) == 0);
        CHECK_INT(status.st_mode & 07777, 0770);
        REQUIRE(stat(place_of(path, "a"), &status) == 0);
        CHECK_INT(status.st_mode & 07777, 0660);
        driver_close(&driver);
}

/* Stores as another user, a member of the group; the code. */
static int keep_as_member(const char *path)
{
        pid_t child = fork();
        int status;

        if (child == 0) {
                struct driver driver;

                if (setgroups(0, NULL) != 0 || setgid(12345) != 0 || setuid(12346) != 0)
                        _exit(99);
                driver_must_open(&driver, path);
                _exit(keep(&driver, "a", "theirs"));
        }
        REQUIRE(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
        return WEXITSTATUS(status);
}

TEST(a_member_who_died_making_a_directory_is_in_no_others_way)
{
        char path[4096];
        char unfinished[4096];
        struct driver driver;

        if (geteuid() != 0)
                SKIP("needs root");
        snprintf(path, sizeof(path), "%s/shared", tap_directory());
        REQUIRE(chmod(tap_directory(), 0711) == 0 && mkdir(path, 0700) == 0 && chown(path, 0, 12345) == 0);
        REQUIRE(chmod(path, 01770) == 0);
        driver_must_open(&driver, path);
        CHECK_INT(keep(&driver, "another", "ours"), PAWL_OK);
        snprintf(unfinished, sizeof(unfinished), "%s.new", directory_of(path, "a"));
        REQUIRE(mkdir(unfinished, 0700) == 0); /* before the group got its rights */
        CHECK_INT(keep_as_member(path), PAWL_OK);
        CHECK(is_kept(&driver, "a", "theirs"));
        CHECK(access(unfinished, F_OK) != 0);
        driver_close(&driver);
}

/* ---- names --------------------------------------------------------------------------------------------------------- */

TEST(names_that_look_like_paths_lead_nowhere)
{
        static char longest[PAWL_NAME_MAX + 1], nearly[PAWL_NAME_MAX + 1];
        const char *const names[] = {".",     "..",      "/",        "../../escaped", "/escaped", "values",
                                     "state", "new.1.1", "%2e%2e/x", "a/b",           "A",        "a",
                                     " ",     longest,   nearly,     "lock"};
        enum { NAMES = sizeof(names) / sizeof(names[0]) };
        const char *path = state_directory();
        struct driver driver;

        memset(longest, '/', PAWL_NAME_MAX);
        memset(nearly, '/', PAWL_NAME_MAX);
        nearly[PAWL_NAME_MAX - 1] = '.';
        driver_must_open(&driver, path);
        for (int i = 0; i < NAMES; i++)
                CHECK_INT(keep(&driver, names[i], names[i]), PAWL_OK);
        for (int i = 0; i < NAMES; i++)
                CHECK(is_kept(&driver, names[i], names[i]));
        driver_close(&driver);
        CHECK_INT(count(tap_directory(), ""), 1);
        CHECK_INT(count(path, ""), 4); /* state, alive, a bell and values */
}

/* ---- what is on disk, and what is not --------------------------------------------------------------------------------- */

static int syncs;

/* In the place of the library's. */
int fsync(int fd)
{
        syncs++;
        return (int)syscall(SYS_fsync, fd);
}

static int syncs_of(struct seat *seat, const char *text, int64_t how_long)
{
        int before = syncs;

        CHECK_INT(store(seat, text, how_long), PAWL_OK);
        CHECK(is_kept(seat->driver, seat->claim.name, text));
        return syncs - before;
}

TEST(what_is_brief_waits_for_no_disk_but_never_brings_back_what_it_replaced)
{
        const char *path = state_directory();
        struct driver driver;
        struct seat seat;

        driver_must_open(&driver, path);
        hold(&seat, &driver, "a");
        CHECK(syncs_of(&seat, "long", 61 * SECOND) >= 2);
        CHECK_INT(syncs_of(&seat, "longer", 0), 2);
        CHECK_INT(syncs_of(&seat, "brief", 60 * SECOND), 1); /* of the directory: "longer" must not return */
        CHECK_INT(syncs_of(&seat, "briefer", 30 * SECOND), 0);
        CHECK_INT(syncs_of(&seat, NULL, 0), 0);
        CHECK_INT(syncs_of(&seat, "brief", 30 * SECOND), 0);
        CHECK_INT(syncs_of(&seat, "long", 0), 2);
        CHECK_INT(syncs_of(&seat, NULL, 0), 1);
        driver_close(&driver);
}

/* The file as it would be if it was written in another boot, so many bytes of it. */
static void leave_of_another_boot(const struct local *local, const char *file, int64_t keep_us, size_t most)
{
        static char bytes[VALUE_FILE_MAX];
        struct pawl_value value = {.data = (char[]){"text"}, .size = 4, .token = 1, .stored_us = value_now_us()};
        size_t size = value_write("a", &value, keep_us ? value.stored_us + keep_us : 0, value_boot(local) + 1, bytes);
        int fd = open(file, O_WRONLY | O_TRUNC | O_CLOEXEC);

        size = size < most ? size : most;
        REQUIRE(fd >= 0 && write(fd, bytes, size) == (ssize_t)size);
        close(fd);
}

TEST(what_a_power_cut_left_of_a_brief_value_is_nothing)
{
        static const size_t sizes[] = {VALUE_FILE_MAX, 66, 64, 0};
        const char *path = state_directory();
        struct driver driver;
        struct value_place place;
        char file[4096];

        driver_must_open(&driver, path);
        value_place("a", &place);
        snprintf(file, sizeof(file), "%s", place_of(path, "a"));
        CHECK_INT(keep(&driver, "a", "long"), PAWL_OK);
        leave_of_another_boot(driver_local(&driver), file, 0, VALUE_FILE_MAX);
        CHECK(is_kept(&driver, "a", "text"));
        leave_of_another_boot(driver_local(&driver), file, 61000000, VALUE_FILE_MAX);
        CHECK(is_kept(&driver, "a", "text"));
        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
                CHECK_INT(keep(&driver, "a", "long"), PAWL_OK);
                leave_of_another_boot(driver_local(&driver), file, 30000000, sizes[i]);
                CHECK(is_kept(&driver, "a", NULL));
                value_sweep(driver_local(&driver), place.stripe);
                CHECK(access(file, F_OK) != 0);
        }
        driver_close(&driver);
}

/* ---- sweeping -------------------------------------------------------------------------------------------------------- */

static int values_in(const char *path)
{
        char name[4];
        int found = 0;

        for (int i = 0; i < 256; i++) {
                snprintf(name, sizeof(name), "%02x", i);
                found += count(path_in(path_in(path, "values"), name), "");
        }
        return found;
}

/* So many names beginning so, kept for that long. */
static void keep_many(struct driver *driver, const char *prefix, int many, int64_t how_long)
{
        char name[32];
        struct seat seat;

        for (int i = 0; i < many; i++) {
                snprintf(name, sizeof(name), "%s %d", prefix, i);
                hold(&seat, driver, name);
                CHECK_INT(store(&seat, "x", how_long), PAWL_OK);
                CHECK_INT(seat_release(&seat), PAWL_OK);
        }
}

TEST_WITHIN(120, what_has_run_out_is_swept_and_nothing_else)
{
        const char *path = state_directory();
        struct driver driver;
        struct local *local;

        driver_must_open(&driver, path);
        local = driver_local(&driver);
        keep_many(&driver, "long", 40, 3600 * SECOND);
        keep_many(&driver, "ever", 40, 0);
        keep_many(&driver, "short", 100, 1);
        CHECK(is_kept(&driver, "short 0", NULL));
        for (int i = 0; i < 256; i++)
                value_sweep(local, (uint8_t)i);
        CHECK_INT(values_in(path), 80);
        CHECK(is_kept(&driver, "long 0", "x"));
        CHECK(is_kept(&driver, "ever 39", "x"));
        driver_close(&driver);
}

/* By later stores, and without end: each sweeps a little. */
TEST_WITHIN(120, stores_sweep_what_has_run_out)
{
        enum { MANY = 200 };
        const char *path = state_directory();
        struct driver driver;
        int before;

        driver_must_open(&driver, path);
        keep_many(&driver, "short", MANY, 1);
        before = values_in(path);
        for (int i = 0; i < MANY; i++) {
                driver_local(&driver)->stored = 0; /* as if each were a process's first */
                CHECK_INT(keep(&driver, "a", "x"), PAWL_OK);
        }
        CHECK(values_in(path) < before * 3 / 4);
        CHECK(is_kept(&driver, "a", "x"));
        driver_close(&driver);
}
