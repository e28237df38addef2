/* local_file_test.c - the state directory: made safely, refused when others could interfere, replaced when it may be. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "local_driver.h"

static mode_t mode_of(const char *path)
{
        struct stat status;

        return stat(path, &status) == 0 ? status.st_mode & 07777 : 0;
}

/* Opening fails with the code, says the words, and leaves nothing held open. */
static void refuses(const char *path, int code, const char *words)
{
        struct driver driver;

        CHECK_INT(driver_open(&driver, path), code);
        CHECK_HAS(driver.why.text, words);
        driver_close(&driver);
}

/* A directory that was used once. */
static const char *used_directory(uint64_t *token)
{
        static char path[4096];
        struct driver driver;
        struct seat seat;

        snprintf(path, sizeof(path), "%s/state-directory", tap_directory());
        driver_must_open(&driver, path);
        seat_init(&seat, &driver, "a");
        REQUIRE_INT(seat_try(&seat), PAWL_OK);
        *token = seat.token;
        CHECK_INT(seat_release(&seat), PAWL_OK);
        driver_close(&driver);
        return path;
}

static void scribble(const char *directory, off_t at, const void *bytes, size_t size)
{
        int fd = open(path_in(directory, "state"), O_RDWR | O_CLOEXEC);

        REQUIRE(fd >= 0);
        CHECK(pwrite(fd, bytes, size, at) == (ssize_t)size);
        close(fd);
}

/* The counter as it stands on disk: what a crash of the machine would leave. */
static uint64_t durable_limit(const char *path)
{
        uint64_t limit = 0;
        int fd = open(path_in(path, "state"), O_RDONLY | O_CLOEXEC);

        REQUIRE(fd >= 0 && pread(fd, &limit, sizeof(limit), PAGE) == (ssize_t)sizeof(limit));
        close(fd);
        return limit;
}

/* ---- making ---------------------------------------------------------------------------------------------------- */

TEST(a_missing_directory_is_made_for_its_owner_alone)
{
        const char *path = path_in(tap_directory(), "one/two");
        struct driver driver;

        umask(0);
        driver_must_open(&driver, path);
        CHECK_INT(mode_of(path), 0700);
        CHECK_INT(mode_of(path_in(tap_directory(), "one")), 0700);
        CHECK_INT(mode_of(path_in(path, "state")), 0600);
        CHECK_INT(mode_of(path_in(path, "alive")), 0600);
        CHECK(is_free(&driver, "a"));
        driver_close(&driver);
}

TEST(a_directory_shared_by_a_group_has_files_that_the_group_may_write)
{
        const char *path = path_in(tap_directory(), "shared");
        struct driver driver;

        umask(077);
        REQUIRE(mkdir(path, 0700) == 0 && chmod(path, 01770) == 0);
        driver_must_open(&driver, path);
        CHECK(is_free(&driver, "a"));
        CHECK_INT(mode_of(path_in(path, "state")), 0660);
        CHECK_INT(mode_of(path_in(path, "alive")), 0660);
        CHECK_INT(mode_of(path_in(path, "bell.0")), 0660);
        driver_close(&driver);
}

static int files_in(const char *path)
{
        DIR *files = opendir(path);
        int count = 0;

        REQUIRE(files != NULL);
        while (readdir(files) != NULL)
                count++;
        closedir(files);
        return count - 2; /* . and .. */
}

/* What fs.protected_regular does to the file of another member, done to every file that is there. */
static bool refuse_creating_opens(void)
{
        struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_openat, 0, 4),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[2])),
                BPF_STMT(BPF_ALU | BPF_AND | BPF_K, O_CREAT | O_EXCL),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, O_CREAT, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EACCES),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* As a member of group 12345: takes and gives back "a". The code of opening, or of what failed then. */
static int use_as_member(const char *path, uid_t user)
{
        pid_t child = fork();
        int status;

        if (child == 0) {
                struct driver driver;
                int code;

                if (setgroups(0, NULL) != 0 || setgid(12345) != 0 || setuid(user) != 0 || !refuse_creating_opens())
                        _exit(77);
                code = driver_open(&driver, path);
                if (code != PAWL_OK)
                        NOTE("%s", driver.why.text);
                if (code == PAWL_OK && !is_free(&driver, "a"))
                        code = 78;
                driver_close(&driver);
                _exit(code);
        }
        REQUIRE(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
        return WEXITSTATUS(status);
}

TEST(a_member_of_a_group_opens_what_another_member_made)
{
        char path[4096];
        uint64_t limit;

        if (geteuid() != 0)
                SKIP("needs root");
        snprintf(path, sizeof(path), "%s/shared", tap_directory());
        REQUIRE(chmod(tap_directory(), 0711) == 0 && mkdir(path, 0700) == 0 && chown(path, 0, 12345) == 0);
        REQUIRE(chmod(path, 01770) == 0);
        CHECK_INT(use_as_member(path, 12001), PAWL_OK);
        CHECK_INT(use_as_member(path, 12002), PAWL_OK);
        limit = durable_limit(path);
        scribble(path, (off_t)offsetof(struct header, boot_id), "00000000-0000-0000-0000-000000000000", 36);
        CHECK_INT(use_as_member(path, 12002), PAWL_OK); /* after a reboot, and state is not his own */
        CHECK(durable_limit(path) > limit);
        CHECK_INT(use_as_member(path, 12001), PAWL_OK);
        scribble(path, 0, "pawl-rmk", 8); /* of one who died while he made it anew */
        CHECK_INT(use_as_member(path, 12002), PAWL_OK);
}

TEST(coming_and_going_leaves_three_files)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver driver;

        for (int i = 0; i < 20; i++) {
                driver_must_open(&driver, path);
                CHECK(is_free(&driver, "a"));
                driver_close(&driver);
        }
        CHECK_INT(files_in(path), 3); /* state, alive and the bell of slot 0 */
}

TEST(an_option_it_does_not_know_is_refused)
{
        refuses(path_in(tap_directory(), "d?colour=red"), PAWL_INVALID, "colour");
}

/* ---- refusing -------------------------------------------------------------------------------------------------- */

TEST(a_symbolic_link_to_a_directory_is_refused)
{
        const char *real = path_in(tap_directory(), "real");
        const char *link = path_in(tap_directory(), "link");

        REQUIRE(mkdir(real, 0700) == 0 && symlink(real, link) == 0);
        refuses(link, PAWL_DENIED, "symbolic link");
        refuses(path_in(tap_directory(), "link/"), PAWL_DENIED, "symbolic link");
}

TEST(a_file_in_the_directorys_place_is_refused)
{
        const char *path = path_in(tap_directory(), "file");

        close(open(path, O_CREAT | O_RDWR | O_CLOEXEC, 0600));
        refuses(path, PAWL_DENIED, "not a directory");
}

TEST(a_directory_that_others_may_write_to_is_refused)
{
        const char *path = path_in(tap_directory(), "open");

        REQUIRE(mkdir(path, 0700) == 0 && chmod(path, 0777) == 0);
        refuses(path, PAWL_DENIED, "everybody may write");
        REQUIRE(chmod(path, 01777) == 0);
        refuses(path, PAWL_DENIED, "everybody may write");
        REQUIRE(chmod(path, 0770) == 0);
        refuses(path, PAWL_DENIED, "1770");
        REQUIRE(chmod(path, 0750) == 0);
        struct driver driver;
        driver_must_open(&driver, path);
        driver_close(&driver);
}

TEST(a_directory_of_another_user_is_refused)
{
        const char *path = path_in(tap_directory(), "theirs");

        if (geteuid() != 0)
                SKIP("needs root");
        REQUIRE(mkdir(path, 0700) == 0 && chown(path, 12345, 12345) == 0);
        refuses(path, PAWL_DENIED, "12345");
}

TEST(a_state_file_that_is_not_what_it_should_be_is_refused)
{
        uint64_t token;
        const char *path = used_directory(&token);
        char state[4096], aside[4096];

        snprintf(state, sizeof(state), "%s/state", path);
        snprintf(aside, sizeof(aside), "%s/aside", path);
        REQUIRE(link(state, aside) == 0);
        refuses(path, PAWL_DENIED, "second name");
        REQUIRE(unlink(aside) == 0);
        REQUIRE(chmod(state, 0666) == 0);
        refuses(path, PAWL_DENIED, "chmod it to 600");
        REQUIRE(chmod(state, 0600) == 0 && rename(state, aside) == 0 && symlink("aside", state) == 0);
        refuses(path, PAWL_DENIED, "symbolic link");
        REQUIRE(unlink(state) == 0 && mkfifo(state, 0600) == 0);
        refuses(path, PAWL_DENIED, "not a regular file");
        REQUIRE(unlink(state) == 0 && mkdir(state, 0700) == 0);
        refuses(path, PAWL_DENIED, "not a regular file");
}

TEST(a_truncated_state_file_is_refused)
{
        uint64_t token;
        const char *path = used_directory(&token);
        const off_t sizes[] = {0, 1, 4096, 100000, 5000000};

        for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
                REQUIRE(truncate(path_in(path, "state"), sizes[i]) == 0);
                refuses(path, PAWL_CORRUPT, "damaged");
        }
}

TEST(a_damaged_header_is_refused)
{
        uint64_t token;
        const char *path = used_directory(&token);
        uint32_t many = UINT32_MAX;

        scribble(path, (off_t)offsetof(struct header, names), &many, sizeof(many));
        refuses(path, PAWL_CORRUPT, "remove the directory");
        scribble(path, 0, "nonsense", 8);
        refuses(path, PAWL_CORRUPT, "remove the directory");
}

TEST(a_state_file_removed_under_its_users_is_noticed)
{
        const char *path = path_in(tap_directory(), "d");
        struct claim *claims[1];
        struct driver driver;
        struct seat seat;

        driver_must_open(&driver, path);
        seat_init(&seat, &driver, "a");
        REQUIRE_INT(seat_try(&seat), PAWL_OK);
        REQUIRE(unlink(path_in(path, "state")) == 0);
        refuses(path, PAWL_CORRUPT, "removed");
        claims[0] = &seat.claim;
        local_engine.renew(driver.engine, claims, 1);
        CHECK_INT(seat.gone, PAWL_REASON_SESSION);
        seat_init(&seat, &driver, "b");
        CHECK_INT(seat_try(&seat), PAWL_CORRUPT);
        driver_close(&driver);
}

TEST(a_directory_moved_under_its_users_is_noticed)
{
        const char *path = path_in(tap_directory(), "d");
        struct claim *claims[1];
        struct driver driver, other;
        struct seat seat, theirs;

        driver_must_open(&driver, path);
        seat_init(&seat, &driver, "a");
        REQUIRE_INT(seat_try(&seat), PAWL_OK);
        REQUIRE(chdir("/") == 0); /* nothing to do with it */
        REQUIRE(rename(path, path_in(tap_directory(), "e")) == 0);
        driver_must_open(&other, path);
        seat_init(&theirs, &other, "a");
        REQUIRE_INT(seat_try(&theirs), PAWL_OK);
        claims[0] = &seat.claim;
        local_engine.renew(driver.engine, claims, 1);
        CHECK_INT(seat.gone, PAWL_REASON_SESSION);
        seat_init(&seat, &driver, "b");
        CHECK_INT(seat_try(&seat), PAWL_CORRUPT);
        CHECK_HAS(driver_local(&driver)->why.text, "moved");
        driver_close(&driver);
        driver_close(&other);
}

/* Named by a relative path: where the program goes afterwards is nothing to it. */
TEST(a_program_may_change_its_directory)
{
        struct claim *claims[1];
        struct driver driver;
        struct seat seat;

        REQUIRE(chdir(tap_directory()) == 0);
        driver_must_open(&driver, "d");
        seat_init(&seat, &driver, "a");
        REQUIRE_INT(seat_try(&seat), PAWL_OK);
        REQUIRE(chdir("/") == 0);
        claims[0] = &seat.claim;
        local_engine.renew(driver.engine, claims, 1);
        CHECK_INT(seat.gone, 0);
        CHECK_INT(seat.renewed, 1);
        CHECK_INT(seat_release(&seat), PAWL_OK);
        driver_close(&driver);
}

/* As a program does that becomes a daemon. Others see it as dead from then on. */
TEST(a_program_that_closed_our_descriptors_learns_that_it_lost_its_locks)
{
        const char *path = path_in(tap_directory(), "d");
        pid_t child = fork();
        int status;

        if (child == 0) {
                struct claim *claims[1];
                struct driver driver, other;
                struct seat seat, theirs;

                driver_must_open(&driver, path);
                seat_init(&seat, &driver, "a");
                REQUIRE_INT(seat_try(&seat), PAWL_OK);
                REQUIRE(local_instant.stands(driver.engine, &seat.claim));
                REQUIRE(close_range(3, ~0U, 0) == 0);
                driver_must_open(&other, path);
                seat_init(&theirs, &other, "a");
                theirs.claim.wait = false;
                REQUIRE_INT(seat_try(&theirs), PAWL_OK);
                REQUIRE(!local_instant.stands(driver.engine, &seat.claim)); /* what pawl_check asks */
                claims[0] = &seat.claim;
                local_engine.renew(driver.engine, claims, 1);
                REQUIRE_INT(seat.gone, PAWL_REASON_SESSION);
                seat_init(&seat, &driver, "b");
                driver_local(&driver)->there_until = 0;
                REQUIRE_INT(seat_try(&seat), PAWL_MISUSE);
                _exit(0);
        }
        REQUIRE(child > 0 && waitpid(child, &status, 0) == child);
        CHECK_INT(status, 0);
}

TEST(a_client_whose_place_was_scribbled_over_is_not_told_of_descriptors_alone)
{
        struct driver driver;
        struct seat seat;

        driver_must_open(&driver, path_in(tap_directory(), "d"));
        seat_init(&seat, &driver, "a");
        atomic_fetch_add(&driver_local(&driver)->me->generation, 1);
        REQUIRE_INT(seat_try(&seat), PAWL_MISUSE);
        CHECK_HAS(driver_local(&driver)->why.text, "damaged");
        atomic_fetch_sub(&driver_local(&driver)->me->generation, 1);
        driver_close(&driver);
}

/* ---- replacing -------------------------------------------------------------------------------------------------- */

static uint64_t token_of(const char *path)
{
        struct driver driver;
        struct seat seat;

        driver_must_open(&driver, path);
        seat_init(&seat, &driver, "a");
        REQUIRE_INT(seat_try(&seat), PAWL_OK);
        seat_release(&seat);
        driver_close(&driver);
        return seat.token;
}

TEST(after_a_reboot_every_lock_is_free_and_tokens_go_on)
{
        const char *path = path_in(tap_directory(), "d");
        uint64_t token = 0;
        pid_t child = fork();
        int status;

        if (child == 0) { /* dies holding a detached lease: only its ttl would end it */
                struct driver driver;
                struct seat seat;

                driver_must_open(&driver, path);
                seat_init(&seat, &driver, "a");
                seat.claim.detached = true;
                seat.claim.ttl = 3600 * SECOND;
                REQUIRE_INT(seat_try(&seat), PAWL_OK);
                _exit(0);
        }
        REQUIRE(waitpid(child, &status, 0) == child && status == 0);
        token = durable_limit(path);
        struct driver driver;
        driver_must_open(&driver, path);
        CHECK(!is_free(&driver, "a"));
        driver_close(&driver);
        scribble(path, (off_t)offsetof(struct header, boot_id), "00000000-0000-0000-0000-000000000000", 36);
        CHECK(token_of(path) > token);
}

TEST(another_boot_is_not_believed_while_somebody_lives)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver driver;

        driver_must_open(&driver, path);
        scribble(path, (off_t)offsetof(struct header, boot_id), "00000000-0000-0000-0000-000000000000", 36);
        refuses(path, PAWL_CORRUPT, "damaged");
        driver_close(&driver);
}

TEST(another_versions_file_is_refused_while_in_use_and_then_replaced)
{
        const char *path = path_in(tap_directory(), "d");
        uint32_t other = LAYOUT_VERSION + 1;
        struct driver driver;
        struct seat seat;

        driver_must_open(&driver, path);
        seat_init(&seat, &driver, "a");
        REQUIRE_INT(seat_try(&seat), PAWL_OK);
        scribble(path, (off_t)offsetof(struct header, version), &other, sizeof(other));
        refuses(path, PAWL_OTHER_VERSION, "another version");
        driver_close(&driver);
        CHECK(token_of(path) > seat.token);
}

/* Leaves a lease of an hour that outlives its process; in a child, so that nobody lives afterwards. */
static void leave_lease(const char *path)
{
        pid_t child = fork();
        int status;

        if (child == 0) {
                struct driver driver;
                struct seat seat;

                driver_must_open(&driver, path);
                seat_init(&seat, &driver, "a");
                seat.claim.detached = true;
                seat.claim.ttl = 3600 * SECOND;
                REQUIRE_INT(seat_try(&seat), PAWL_OK);
                _exit(0);
        }
        REQUIRE(child > 0 && waitpid(child, &status, 0) == child && status == 0);
}

TEST(a_lease_without_a_process_keeps_another_versions_file)
{
        const char *path = path_in(tap_directory(), "d");
        uint32_t other = LAYOUT_VERSION + 1, ours = LAYOUT_VERSION;
        struct driver driver;

        leave_lease(path);
        scribble(path, (off_t)offsetof(struct header, version), &other, sizeof(other));
        refuses(path, PAWL_OTHER_VERSION, "leases without a process that may last another 3600 s");
        scribble(path, (off_t)offsetof(struct header, version), &ours, sizeof(ours));
        driver_must_open(&driver, path);
        CHECK(!is_free(&driver, "a"));
        driver_close(&driver);
}

/* ---- containers ------------------------------------------------------------------------------------------------- */

/* In a child with a boot id of its own, as LXC and nspawn give it: a file over the kernel's. */
static bool enter_container(char digit)
{
        const char *kernels = "/proc/sys/kernel/random/boot_id";
        char id[37];
        FILE *file;

        memset(id, digit, 36);
        id[8] = id[13] = id[18] = id[23] = '-';
        id[36] = '\0';
        if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
                return false;
        file = fopen(path_in(tap_directory(), "boot_id"), "we");
        if (file == NULL)
                return false;
        fprintf(file, "%s\n", id);
        fclose(file);
        return mount(path_in(tap_directory(), "boot_id"), kernels, NULL, MS_BIND, NULL) == 0;
}

enum { FREE_THERE, HELD_THERE, REFUSED_THERE, NO_CONTAINERS = 77 };

/* What a process of another container sees of lock "a". */
static int seen_in_container(const char *path, char digit, bool leave)
{
        pid_t child = fork();
        int status;

        if (child == 0) {
                struct driver driver;

                if (!enter_container(digit))
                        _exit(NO_CONTAINERS);
                if (leave)
                        leave_lease(path);
                if (driver_open(&driver, path) != PAWL_OK) {
                        NOTE("%s", driver.why.text);
                        _exit(REFUSED_THERE);
                }
                _exit(is_free(&driver, "a") ? FREE_THERE : HELD_THERE);
        }
        REQUIRE(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
        if (WEXITSTATUS(status) == NO_CONTAINERS)
                SKIP("no mounts here");
        return WEXITSTATUS(status);
}

TEST(a_lease_of_one_container_is_seen_in_another_whose_boot_id_differs)
{
        const char *path = path_in(tap_directory(), "d");
        int64_t hours = 0;

        CHECK_INT(seen_in_container(path, '1', true), HELD_THERE);
        CHECK_INT(seen_in_container(path, '2', false), HELD_THERE);
        scribble(path, (off_t)offsetof(struct header, seen_real), &hours, sizeof(hours)); /* the wall clock was set */
        CHECK_INT(seen_in_container(path, '3', false), HELD_THERE);
        struct driver driver; /* of the machine itself */
        driver_must_open(&driver, path);
        CHECK(!is_free(&driver, "a"));
        driver_close(&driver);
}

TEST(containers_whose_boot_ids_differ_share_the_locks_of_living_processes)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver driver;
        struct seat seat;

        driver_must_open(&driver, path);
        seat_init(&seat, &driver, "a");
        REQUIRE_INT(seat_try(&seat), PAWL_OK);
        CHECK_INT(seen_in_container(path, '1', false), HELD_THERE);
        CHECK_INT(seat_release(&seat), PAWL_OK);
        CHECK_INT(seen_in_container(path, '2', false), FREE_THERE);
        driver_close(&driver);
}

/* The clock that counts from the boot is behind what it was: that was another boot, whatever the ids say. */
TEST(a_boot_of_a_container_ends_with_that_of_its_machine)
{
        const char *path = path_in(tap_directory(), "d");
        int64_t late = INT64_MAX / 2;

        CHECK_INT(seen_in_container(path, '1', true), HELD_THERE);
        scribble(path, (off_t)offsetof(struct header, seen), &late, sizeof(late));
        CHECK_INT(seen_in_container(path, '1', false), FREE_THERE);
}

/* In a child whose clocks are an hour ahead. */
static int seen_an_hour_ahead(const char *path)
{
        pid_t child = fork();
        int status;

        if (child == 0) {
                FILE *file;

                if (unshare(CLONE_NEWTIME) != 0 || (file = fopen("/proc/self/timens_offsets", "we")) == NULL)
                        _exit(NO_CONTAINERS);
                fprintf(file, "boottime 3500 0\n");
                if (fclose(file) != 0)
                        _exit(NO_CONTAINERS);
                child = fork(); /* the children are in it */
                if (child == 0) {
                        struct driver driver;
                        int code = driver_open(&driver, path);

                        NOTE("%s", driver.why.text);
                        if (code == PAWL_UNSUPPORTED)
                                _exit(strstr(driver.why.text, "leases") != NULL ? REFUSED_THERE : 99);
                        _exit(code == PAWL_OK && is_free(&driver, "a") ? FREE_THERE : HELD_THERE);
                }
                _exit(waitpid(child, &status, 0) == child && WIFEXITED(status) ? WEXITSTATUS(status) : 98);
        }
        REQUIRE(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
        if (WEXITSTATUS(status) == NO_CONTAINERS)
                SKIP("no time namespaces here");
        return WEXITSTATUS(status);
}

TEST(a_lease_of_another_time_namespace_is_counted_by_its_own_clock)
{
        const char *path = path_in(tap_directory(), "d");
        int64_t past = 1;

        leave_lease(path);
        CHECK_INT(seen_an_hour_ahead(path), REFUSED_THERE);
        scribble(path, (off_t)offsetof(struct header, leases_until), &past, sizeof(past));
        CHECK_INT(seen_an_hour_ahead(path), FREE_THERE);
}

TEST(a_copy_of_a_directory_does_not_repeat_its_tokens)
{
        uint64_t token;
        const char *path = used_directory(&token);
        char command[9000];

        snprintf(command, sizeof(command), "cp -r --sparse=always '%s' '%s.copy'", path, path);
        REQUIRE(system(command) == 0);
        snprintf(command, sizeof(command), "%s.copy", path);
        CHECK(token_of(command) > durable_limit(path));
}

TEST(a_deleted_directory_does_not_set_tokens_back)
{
        uint64_t token;
        const char *path = used_directory(&token);

        REQUIRE(unlink(path_in(path, "state")) == 0 && unlink(path_in(path, "alive")) == 0);
        CHECK(token_of(path) > token);
}

/* ---- a full disk -------------------------------------------------------------------------------------------------- */

/* A tmpfs of that size, in a mount namespace of our own. */
static const char *small_disk(const char *size)
{
        static char path[4096];
        char options[64];

        if (geteuid() != 0)
                SKIP("needs root");
        if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
                SKIP("cannot have a mount namespace: %s", strerror(errno));
        snprintf(path, sizeof(path), "%s/disk", tap_directory());
        snprintf(options, sizeof(options), "mode=700,size=%s", size);
        REQUIRE(mkdir(path, 0700) == 0);
        if (mount("tmpfs", path, "tmpfs", 0, options) != 0)
                SKIP("cannot mount: %s", strerror(errno));
        return path;
}

TEST(a_disk_without_room_is_an_error_and_not_a_signal)
{
        refuses(small_disk("1m"), PAWL_FULL, "no room on the disk");
}

TEST(a_disk_that_becomes_full_refuses_new_names_and_keeps_the_old)
{
        enum { MORE_THAN_FIT = 100000 };
        const char *path = small_disk("6m");
        struct seat *seats = calloc(MORE_THAN_FIT, sizeof(*seats));
        char(*names)[16] = calloc(MORE_THAN_FIT, sizeof(*names));
        struct driver driver;
        int code = PAWL_OK;

        REQUIRE(seats != NULL && names != NULL);
        driver_must_open(&driver, path);
        CHECK((driver.engine->capabilities & PAWL_TOKEN_DURABLE) == 0);
        for (int i = 0; i < MORE_THAN_FIT && code == PAWL_OK; i++) {
                snprintf(names[i], sizeof(names[i]), "name %d", i);
                seat_init(&seats[i], &driver, names[i]);
                code = seat_try(&seats[i]);
        }
        CHECK_INT(code, PAWL_FULL);
        CHECK_HAS(driver_local(&driver)->why.text, "no room on the disk");
        CHECK(!is_free(&driver, "name 0"));
        driver_close(&driver);
        free(seats);
        free(names);
}

TEST(a_disk_that_becomes_full_refuses_new_values_and_keeps_the_old)
{
        enum { MORE_THAN_FIT = 1000 };
        static char text[1000];
        char names[MORE_THAN_FIT][8];
        const char *path = small_disk("6m");
        struct driver driver;
        struct report report;
        struct seat seat;
        int code = PAWL_OK;
        int at;

        memset(text, 'x', sizeof(text) - 1);
        driver_must_open(&driver, path);
        for (at = 0; at < MORE_THAN_FIT && code == PAWL_OK; at++) {
                snprintf(names[at], sizeof(names[at]), "%d", at);
                seat_init(&seat, &driver, names[at]);
                REQUIRE_INT(seat_try(&seat), PAWL_OK);
                code = store(&seat, text, 0);
                if (code == PAWL_OK)
                        CHECK_INT(seat_release(&seat), PAWL_OK);
        }
        CHECK_INT(code, PAWL_FULL);
        CHECK(is_kept(&driver, "0", text));
        CHECK(is_kept(&driver, seat.claim.name, NULL));
        store_begin(&seat, text, 0, &report);
        CHECK_INT(report_of(&driver, &report), PAWL_FULL);
        CHECK_HAS(report.why, "No space");
        CHECK_INT(seat_release(&seat), PAWL_OK);
        seat_init(&seat, &driver, "0");
        REQUIRE_INT(seat_try(&seat), PAWL_OK);
        CHECK_INT(store(&seat, "y", 0), PAWL_FULL);
        CHECK(is_kept(&driver, "0", text));
        CHECK_INT(store(&seat, NULL, 0), PAWL_OK); /* what makes room needs none */
        CHECK_INT(store(&seat, "y", 0), PAWL_OK);
        driver_close(&driver);
}

TEST(a_limit_on_file_sizes_is_an_error_and_not_a_signal)
{
        struct rlimit limit = {.rlim_cur = 1 << 20, .rlim_max = 1 << 20};

        REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        refuses(path_in(tap_directory(), "d"), PAWL_FULL, "ulimit");
}
