/* test_guard_crash.c - the file guard among processes: many at once, killed at any moment, on a full disk. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pawl/guard.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

/* Shared with the children. */
static struct shared {
        atomic_ullong token;   /* the last one handed out */
        atomic_ullong written; /* updates that were confirmed */
        atomic_ullong stale;   /* and refused */
        atomic_ullong confirmed;
} * shared;

static pawl_guard *open_guard(const char *directory)
{
        char url[600];
        struct pawl_why why = {0};
        pawl_guard *guard = NULL;

        snprintf(url, sizeof(url), "file:%s", directory);
        if (!CHECK_INT(pawl_guard_open(url, PAWL_GUARD(.why = &why, .wait_ms = 60000), &guard), PAWL_OK))
                NOTE("%s", why.text);
        REQUIRE(guard != NULL);
        return guard;
}

static void share(void)
{
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        REQUIRE(shared != MAP_FAILED);
}

/* ---- many at once ------------------------------------------------------------------------------------------------ */

enum { WRITERS = 8, UPDATES = 40 };

static void nap(unsigned *seed)
{
        usleep((useconds_t)(rand_r(seed) % 1500));
}

/* Read, add one, write: with a token that may have grown old on the way. */
static void update_fenced(pawl_guard *guard, unsigned *seed)
{
        uint64_t token = atomic_fetch_add(&shared->token, 1) + 1;
        struct pawl_guard_data data = {0};
        long number = 0;
        char text[32];
        int code;

        nap(seed);
        code = pawl_guard_get(guard, "counter", token, NULL, &data);
        if (code == PAWL_OK) {
                number = atol(data.bytes);
                free(data.bytes);
        }
        if (code == PAWL_OK || code == PAWL_NOT_FOUND) {
                nap(seed);
                snprintf(text, sizeof(text), "%ld", number + 1);
                code = pawl_guard_put(guard, "counter", token, text, strlen(text), NULL);
        }
        CHECK(code == PAWL_OK || code == PAWL_STALE);
        atomic_fetch_add(code == PAWL_OK ? &shared->written : &shared->stale, 1);
}

/* The same with nobody at the door. */
static void update_unfenced(const char *path, unsigned *seed)
{
        char next[700];
        long number = 0;
        FILE *file = fopen(path, "r");

        if (file) {
                if (fscanf(file, "%ld", &number) != 1)
                        number = 0;
                fclose(file);
        }
        nap(seed);
        snprintf(next, sizeof(next), "%s.%d", path, (int)getpid());
        file = fopen(next, "w");
        REQUIRE(file != NULL);
        fprintf(file, "%ld", number + 1);
        fclose(file);
        REQUIRE(rename(next, path) == 0);
        atomic_fetch_add(&shared->written, 1);
}

static void run_writer(unsigned number, bool fenced)
{
        char path[600];
        pawl_guard *guard = open_guard(tap_directory());
        unsigned seed = number;

        snprintf(path, sizeof(path), "%s/counter", tap_directory());
        for (int i = 0; i < UPDATES; i++) {
                if (fenced)
                        update_fenced(guard, &seed);
                else
                        update_unfenced(path, &seed);
        }
        pawl_guard_close(guard);
        _exit(0);
}

/* What the file says after all writers are done. */
static long run_writers(bool fenced)
{
        char path[600];
        long number = -1;
        FILE *file;

        share();
        snprintf(path, sizeof(path), "%s/counter", tap_directory());
        for (unsigned i = 0; i < WRITERS; i++) {
                pid_t child = fork();

                REQUIRE(child >= 0);
                if (child == 0)
                        run_writer(i + 1, fenced);
        }
        for (int status; wait(&status) > 0;)
                CHECK_INT(status, 0);
        file = fopen(path, "r");
        REQUIRE(file != NULL && fscanf(file, "%ld", &number) == 1);
        fclose(file);
        return number;
}

TEST(eight_processes_lose_no_update_behind_the_guard)
{
        long number = run_writers(true);

        NOTE("%llu written, %llu refused", (unsigned long long)shared->written, (unsigned long long)shared->stale);
        CHECK_UINT(number, shared->written);
        CHECK(shared->written > 0);
        CHECK(shared->stale > 0);
}

TEST(eight_processes_lose_updates_without_the_guard)
{
        long number = run_writers(false);

        NOTE("%llu written, %ld counted", (unsigned long long)shared->written, number);
        CHECK_UINT(shared->written, WRITERS * UPDATES);
        CHECK((unsigned long long)number < shared->written);
}

/* ---- killed at any moment ---------------------------------------------------------------------------------------- */

enum { BODY = 20000 };

/* "TOKEN:" and then a body of one letter that the token chooses. */
static size_t make_content(uint64_t token, char *content)
{
        int head = sprintf(content, "%llu:", (unsigned long long)token);

        memset(content + head, (int)('a' + token % 26), BODY);
        return (size_t)head + BODY;
}

static void write_until_killed(void)
{
        static char content[BODY + 32];
        pawl_guard *guard = open_guard(tap_directory());

        for (;;) {
                uint64_t token = atomic_fetch_add(&shared->token, 1) + 1;

                if (pawl_guard_put(guard, "r", token, content, make_content(token, content), NULL) != PAWL_OK)
                        _exit(1);
                atomic_store(&shared->confirmed, token);
        }
}

/* The same by versions: each is what the content says. */
static void swap_until_killed(void)
{
        static char content[BODY + 32];
        pawl_guard *guard = open_guard(tap_directory());

        for (;;) {
                struct pawl_guard_data data = {0};
                uint64_t version = 0;
                int code = pawl_guard_look(guard, "r", NULL, &data);

                free(data.bytes);
                if (code != PAWL_OK && code != PAWL_NOT_FOUND)
                        _exit(1);
                if (pawl_guard_swap(guard, "r", data.token, content, make_content(data.token + 1, content), NULL,
                                    &version) != PAWL_OK)
                        _exit(1);
                atomic_store(&shared->confirmed, version);
        }
}

static int find_mark(const struct pawl_guard_entry *entry, void *arg)
{
        CHECK_INT(entry->code, PAWL_OK);
        *(uint64_t *)arg = entry->token;
        return 0;
}

/* Old or new, whole; never ahead of the mark; never behind what was confirmed. */
static bool check_state(pawl_guard *guard)
{
        static char content[BODY + 32];
        struct pawl_guard_data data = {0};
        uint64_t mark = 0;
        uint64_t token;
        bool good;

        REQUIRE(pawl_guard_list(guard, NULL, find_mark, &mark, NULL) == PAWL_OK);
        if (mark == 0)
                return CHECK_UINT(atomic_load(&shared->confirmed), 0);
        good = CHECK(mark >= atomic_load(&shared->confirmed));
        if (pawl_guard_get(guard, "r", mark, NULL, &data) != PAWL_OK)
                return CHECK_UINT(atomic_load(&shared->confirmed), 0) && good;
        token = strtoull(data.bytes, NULL, 10);
        good &= CHECK_UINT(data.size, make_content(token, content)) && CHECK_MEM(data.bytes, content, data.size);
        good &= CHECK(token >= atomic_load(&shared->confirmed)) && CHECK(token <= mark);
        free(data.bytes);
        return good;
}

/* Starts a writer and kills it after the time given, in microseconds. */
static void kill_a_writer(void (*write)(void), useconds_t after)
{
        pid_t child = fork();
        int status;

        REQUIRE(child >= 0);
        if (child == 0)
                write();
        usleep(after);
        kill(child, SIGKILL);
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status));
}

static void check_kills(void (*write)(void), int kills)
{
        pawl_guard *guard = open_guard(tap_directory());
        unsigned seed = 4711;
        useconds_t window = 2000; /* grows to a few puts, however slow the disk is today */

        share();
        for (int i = 0; i < kills; i++) {
                unsigned long long before = shared->confirmed;

                kill_a_writer(write, (useconds_t)rand_r(&seed) % window);
                if (!check_state(guard)) {
                        NOTE("after kill %d", i);
                        break;
                }
                if (shared->confirmed == before && window < 200000)
                        window += window / 16;
                else if (shared->confirmed > before + 2 && window > 2000)
                        window -= window / 16;
        }
        NOTE("%llu puts were confirmed, the last of them within %u us", (unsigned long long)shared->confirmed, window);
        CHECK(shared->confirmed > 0);
        pawl_guard_close(guard);
}

TEST_WITHIN(300, a_writer_killed_at_any_moment_leaves_the_old_or_the_new)
{
        check_kills(write_until_killed, 400);
}

TEST_WITHIN(300, a_swap_killed_at_any_moment_leaves_the_old_or_the_new_and_no_version_comes_back)
{
        check_kills(swap_until_killed, 200);
}

/* ---- a full disk ------------------------------------------------------------------------------------------------- */

static int count_files(const char *directory)
{
        DIR *stream = opendir(directory);
        int count = 0;

        REQUIRE(stream != NULL);
        while (readdir(stream))
                count++;
        closedir(stream);
        return count - 2;
}

static void check_content(pawl_guard *guard, uint64_t token, const char *text)
{
        struct pawl_guard_data data;

        REQUIRE(pawl_guard_get(guard, "r", token, NULL, &data) == PAWL_OK);
        CHECK_STR(data.bytes, text);
        free(data.bytes);
}

static void fill_disk(const char *bytes, size_t size)
{
        char path[600];
        int fd;

        snprintf(path, sizeof(path), "%s/filler", tap_directory());
        fd = open(path, O_WRONLY | O_CREAT, 0600);
        REQUIRE(fd >= 0);
        while (write(fd, bytes, size) > 0)
                ;
        CHECK_INT(errno, ENOSPC);
        close(fd);
}

TEST(on_a_full_disk_the_old_data_stand_and_nothing_is_left_behind)
{
        static char big[1 << 20];
        struct pawl_why why = {0};
        pawl_guard *guard;

        if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("none", tap_directory(), "tmpfs", 0, "size=64k") != 0)
                SKIP("no right to mount a small disk: %s", strerror(errno));
        memset(big, 'x', sizeof(big));
        guard = open_guard(tap_directory());
        REQUIRE(pawl_guard_put(guard, "r", 1, "old", 3, &why) == PAWL_OK);
        CHECK_INT(pawl_guard_put(guard, "r", 2, big, sizeof(big), &why), PAWL_FULL);
        CHECK_INT(why.sys_errno, ENOSPC);
        CHECK_INT(count_files(tap_directory()), 3);
        check_content(guard, 2, "old");
        fill_disk(big, sizeof(big));
        CHECK_INT(pawl_guard_admit(guard, "r", 3, &why), PAWL_FULL);
        CHECK_INT(pawl_guard_admit(guard, "r", 1, &why), PAWL_STALE);
        CHECK_INT(pawl_guard_put(guard, "r", 2, "new", 3, &why), PAWL_FULL);
        check_content(guard, 2, "old");
        pawl_guard_close(guard);
        umount(tap_directory());
}

TEST(a_file_that_may_not_grow_leaves_the_old_data)
{
        struct rlimit limit = {.rlim_cur = 8192, .rlim_max = RLIM_INFINITY};
        static char big[1 << 16];
        struct pawl_why why = {0};
        pawl_guard *guard = open_guard(tap_directory());

        REQUIRE(pawl_guard_put(guard, "r", 1, "old", 3, &why) == PAWL_OK);
        signal(SIGXFSZ, SIG_IGN);
        REQUIRE(getrlimit(RLIMIT_FSIZE, &limit) == 0);
        limit.rlim_cur = 8192;
        REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        CHECK_INT(pawl_guard_put(guard, "r", 2, big, sizeof(big), &why), PAWL_SYSTEM);
        CHECK_INT(why.sys_errno, EFBIG);
        limit.rlim_cur = limit.rlim_max;
        REQUIRE(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        CHECK_INT(count_files(tap_directory()), 3);
        check_content(guard, 2, "old");
        pawl_guard_close(guard);
}
