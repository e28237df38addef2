/* sqlite_test.c - what is true of guards in SQLite alone: how they open, what damage, locks, full disks and other versions
 * do, and what is on the disk when a call has said PAWL_OK. fsync and fdatasync stand here in front of the C library's. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "store.h"

static char synced[2000];

static int note_sync(int fd)
{
        char link[64];
        char path[1000] = "";
        size_t used = strlen(synced);
        ssize_t size;

        snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
        size = readlink(link, path, sizeof(path) - 1);
        if (size > 0)
                snprintf(synced + used, sizeof(synced) - used, "%s ", strrchr(path, '/') + 1);
        return (int)syscall(SYS_fsync, fd);
}

__attribute__((visibility("default"))) int fsync(int fd)
{
        return note_sync(fd);
}

__attribute__((visibility("default"))) int fdatasync(int fd)
{
        return note_sync(fd);
}

static const char *path_of(const char *name)
{
        static char path[600];

        snprintf(path, sizeof(path), "%s/%s", tap_directory(), name);
        return path;
}

static const char *database(void)
{
        static char path[600];

        snprintf(path, sizeof(path), "%s/marks.db", tap_directory());
        return path;
}

static const char *url_of(const char *rest)
{
        static char url[700];

        snprintf(url, sizeof(url), "sqlite:%s/%s", tap_directory(), rest);
        return url;
}

static pawl_guard *open_guard(uint32_t wait_ms)
{
        pawl_guard *guard = NULL;

        if (!CHECK_INT(pawl_guard_open(url_of("marks.db"), PAWL_GUARD(.why = &why, .wait_ms = wait_ms), &guard),
                       PAWL_OK))
                NOTE("%s", why.text);
        REQUIRE(guard != NULL);
        return guard;
}

/* A stranger's connection. */
static sqlite3 *open_stranger(void)
{
        sqlite3 *db = NULL;

        REQUIRE(sqlite3_open(database(), &db) == SQLITE_OK);
        sqlite3_busy_timeout(db, 60000);
        return db;
}

static int say(sqlite3 *db, const char *sql)
{
        return sqlite3_exec(db, sql, NULL, NULL, NULL);
}

static void let_a_stranger(const char *sql)
{
        sqlite3 *db = open_stranger();

        if (!CHECK_INT(say(db, sql), SQLITE_OK))
                NOTE("%s: %s", sql, sqlite3_errmsg(db));
        sqlite3_close(db);
}

struct findings {
        char text[8000];
        unsigned worst;
};

static int note_finding(const struct pawl_finding *finding, void *arg)
{
        struct findings *findings = arg;
        size_t used = strlen(findings->text);

        snprintf(findings->text + used, sizeof(findings->text) - used, "%u %s [%s]\n", finding->severity, finding->what,
                 finding->mend);
        CHECK_STR(strrchr(finding->where, '/'), "/marks.db");
        if (finding->severity > findings->worst)
                findings->worst = finding->severity;
        return 0;
}

static struct findings *examine(void)
{
        static struct findings findings;
        pawl_guard *guard = open_guard(0);

        findings = (struct findings){0};
        if (!CHECK_INT(pawl_guard_examine(guard, note_finding, &findings, &why), PAWL_OK))
                NOTE("%s", why.text);
        pawl_guard_close(guard);
        return &findings;
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static void check_refused(const char *url, int code, const char *words)
{
        pawl_guard *guard = NULL;

        if (!CHECK_INT(pawl_guard_open(url, PAWL_GUARD(.why = &why), &guard), code))
                NOTE("%s: %s", url, why.text);
        CHECK_HAS(why.text, words);
        CHECK_NULL(guard);
        CHECK_INT(pawl_guard_open(url, NULL, &guard), code);
}

TEST(a_guard_that_cannot_be_opened_says_why)
{
        check_refused("sqlite:", PAWL_INVALID, "needs a file");
        check_refused("sqlite:/", PAWL_INVALID, "needs a file");
        check_refused("sqlite:/tmp/", PAWL_INVALID, "needs a file");
        check_refused("sqlite:/tmp/..", PAWL_INVALID, "needs a file");
        check_refused("sqlite://host/x", PAWL_INVALID, "one slash");
        check_refused("sqlite:/nowhere/at/all.db", PAWL_NOT_FOUND, "make it first");
        check_refused("sqlite:/dev/null/x", PAWL_SYSTEM, "Not a directory");
        check_refused(url_of("x.db?x=1"), PAWL_INVALID, "do not have the option x");
        check_refused(url_of("x.db?create=perhaps"), PAWL_INVALID, "create");
        check_refused(url_of("x.db?create=no"), PAWL_NOT_FOUND, "no database");
        CHECK(access(path_of("x.db"), F_OK) != 0);
}

TEST(nothing_but_a_regular_file_is_opened)
{
        let_a_stranger("CREATE TABLE t(x)");
        REQUIRE(symlink("marks.db", path_of("link.db")) == 0);
        check_refused(url_of("link.db"), PAWL_INVALID, "not a regular file");
        REQUIRE(symlink("nowhere.db", path_of("loose.db")) == 0);
        check_refused(url_of("loose.db"), PAWL_INVALID, "not a regular file");
        CHECK(access(path_of("nowhere.db"), F_OK) != 0);
        REQUIRE(mkfifo(path_of("fifo.db"), 0600) == 0);
        check_refused(url_of("fifo.db"), PAWL_INVALID, "not a regular file");
        REQUIRE(mkdir(path_of("dir.db"), 0700) == 0);
        check_refused(url_of("dir.db"), PAWL_INVALID, "not a regular file");
}

TEST(a_directory_may_be_reached_by_a_link)
{
        pawl_guard *guard = NULL;

        REQUIRE(mkdir(path_of("real"), 0700) == 0 && symlink("real", path_of("link")) == 0);
        REQUIRE(pawl_guard_open(url_of("link/marks.db"), NULL, &guard) == PAWL_OK);
        CHECK_INT(admit(guard, "r", 5), PAWL_OK);
        CHECK(access(path_of("real/marks.db"), F_OK) == 0);
        pawl_guard_close(guard);
}

static void check_mode(const char *name, mode_t mode)
{
        struct stat info;

        REQUIRE(stat(path_of(name), &info) == 0);
        CHECK_INT(info.st_mode & 07777, mode);
}

TEST(a_new_database_is_its_owners_alone_and_an_old_one_keeps_its_permissions)
{
        pawl_guard *guard;

        umask(0);
        guard = open_guard(0);
        CHECK_INT(put(guard, "r", 1, "x"), PAWL_OK);
        check_mode("marks.db", 0600);
        REQUIRE(chmod(database(), 0640) == 0);
        CHECK_INT(put(guard, "r", 2, "y"), PAWL_OK);
        check_mode("marks.db", 0640);
        pawl_guard_close(guard);
}

TEST(the_tables_of_others_are_left_alone)
{
        pawl_guard *guard;

        let_a_stranger("CREATE TABLE orders(id INTEGER PRIMARY KEY, total); INSERT INTO orders VALUES (42, 7);"
                       "PRAGMA user_version = 17; PRAGMA application_id = 18");
        guard = open_guard(0);
        CHECK_INT(put(guard, "orders/42", 5, "x"), PAWL_OK);
        pawl_guard_close(guard);
        let_a_stranger(
                "CREATE TEMP TABLE must(x NOT NULL); INSERT INTO must SELECT CASE WHEN "
                "(SELECT total FROM orders WHERE id = 42) = 7 AND (SELECT user_version FROM pragma_user_version) = "
                "17 AND (SELECT application_id FROM pragma_application_id) = 18 THEN 1 END");
}

/* ---- damage ----------------------------------------------------------------------------------------------------- */

static int ignore(const struct pawl_guard_entry *entry, void *arg)
{
        (void)entry;
        (void)arg;
        return 0;
}

static void check_every_call(pawl_guard *guard, int code)
{
        struct pawl_guard_data data;

        CHECK_INT(admit(guard, "r", 100), code);
        CHECK_INT(put(guard, "r", 100, "new"), code);
        CHECK_INT(pawl_guard_get(guard, "r", 100, &why, &data), code);
        CHECK_INT(forget(guard, "r", 100), code);
        CHECK_INT(pawl_guard_prune(guard, 100, &why, NULL), code);
        CHECK_HAS(why.text, "marks.db");
}

TEST(a_file_that_is_no_database_lets_nobody_pass_and_stays_as_it_is)
{
        static char text[4096];
        char found[sizeof(text)];
        pawl_guard *guard;
        int fd = open(database(), O_RDWR | O_CREAT, 0600);

        memset(text, 'x', sizeof(text));
        REQUIRE(fd >= 0 && write(fd, text, sizeof(text)) == sizeof(text));
        guard = open_guard(0);
        check_every_call(guard, PAWL_CORRUPT);
        CHECK_INT(pawl_guard_list(guard, NULL, ignore, NULL, &why), PAWL_CORRUPT);
        pawl_guard_close(guard);
        CHECK(pread(fd, found, sizeof(found), 0) == sizeof(found));
        CHECK_MEM(found, text, sizeof(text));
        close(fd);
}

/* Whatever page is struck, no token passes below one that did. */
TEST_WITHIN(300, a_damaged_page_lets_nobody_pass)
{
        enum { MARKS = 300, PAGE = 4096 };
        static char junk[PAGE];
        char name[16], command[1500];
        int corrupt = 0, stale = 0;
        struct stat info;
        pawl_guard *guard = open_guard(0);

        for (int i = 0; i < MARKS; i++) {
                snprintf(name, sizeof(name), "mark %d", i);
                REQUIRE(admit(guard, name, 100) == PAWL_OK);
        }
        pawl_guard_close(guard);
        REQUIRE(stat(database(), &info) == 0);
        snprintf(command, sizeof(command), "cp '%s' '%s.good'", database(), database());
        REQUIRE(system(command) == 0);
        for (off_t page = 0; page < info.st_size / PAGE; page++) {
                int fd;

                snprintf(command, sizeof(command), "cp '%s.good' '%s'", database(), database());
                REQUIRE(system(command) == 0);
                fd = open(database(), O_WRONLY);
                memset(junk, page % 2 ? 0 : 0xa5, sizeof(junk));
                REQUIRE(fd >= 0 && pwrite(fd, junk, sizeof(junk), page * PAGE) == PAGE);
                close(fd);
                guard = open_guard(0);
                for (int i = 0; i < MARKS; i += 7) {
                        int code;

                        snprintf(name, sizeof(name), "mark %d", i);
                        code = admit(guard, name, 99);
                        CHECK(code == PAWL_CORRUPT || code == PAWL_STALE);
                        corrupt += code == PAWL_CORRUPT;
                        stale += code == PAWL_STALE;
                }
                pawl_guard_close(guard);
        }
        NOTE("%d visits found the damage, %d were refused", corrupt, stale);
        CHECK(corrupt > 0 && stale > 0);
}

TEST(a_database_that_lost_a_part_of_ours_lets_nobody_pass)
{
        static const char *const losses[] = {"DROP TABLE pawl_mark", "DROP TABLE pawl_floor", "DROP TABLE pawl_data",
                                             "DROP VIEW pawl_admit", "DROP TRIGGER pawl_admit_token"};
        pawl_guard *guard;

        for (size_t i = 0; i < sizeof(losses) / sizeof(losses[0]); i++) {
                guard = open_guard(0);
                CHECK_INT(put(guard, "r", 50, "x"), PAWL_OK);
                pawl_guard_close(guard);
                let_a_stranger(losses[i]);
                guard = open_guard(0);
                check_every_call(guard, PAWL_CORRUPT);
                CHECK_INT(pawl_guard_list(guard, NULL, ignore, NULL, &why), PAWL_CORRUPT);
                pawl_guard_close(guard);
                REQUIRE(unlink(database()) == 0);
        }
}

/* As an older pawl made it. */
TEST(a_database_from_before_versions_gets_what_it_lacks_and_keeps_its_marks)
{
        pawl_guard *guard = open_guard(0);
        struct pawl_guard_data data = {0};

        CHECK_INT(put(guard, "r", 50, "x"), PAWL_OK);
        pawl_guard_close(guard);
        let_a_stranger("DROP TRIGGER pawl_swap_version; DROP VIEW pawl_swap");
        guard = open_guard(0);
        REQUIRE(pawl_guard_look(guard, "r", &why, &data) == PAWL_OK);
        CHECK_UINT(data.token, 50);
        free(data.bytes);
        CHECK_INT(admit(guard, "r", 49), PAWL_STALE);
        CHECK_INT(pawl_guard_swap(guard, "v", 0, "one", 3, &why, NULL), PAWL_OK);
        pawl_guard_close(guard);
        let_a_stranger("INSERT INTO pawl_swap(resource, version) VALUES ('v', 1)");
        guard = open_guard(0);
        CHECK_INT(pawl_guard_swap(guard, "v", 1, "late", 4, &why, NULL), PAWL_STALE);
        CHECK_INT(pawl_guard_swap(guard, "v", 2, "three", 5, &why, NULL), PAWL_OK);
        pawl_guard_close(guard);
}

TEST(a_table_that_goes_while_the_guard_is_open_lets_nobody_pass)
{
        pawl_guard *guard = open_guard(0);

        CHECK_INT(put(guard, "r", 50, "x"), PAWL_OK);
        let_a_stranger("DROP TABLE pawl_mark");
        CHECK_INT(admit(guard, "r", 60), PAWL_CORRUPT);
        CHECK_HAS(why.text, "pawl_mark");
        pawl_guard_close(guard);
}

TEST(a_floor_that_is_missing_lets_nobody_pass)
{
        pawl_guard *guard = open_guard(0);

        CHECK_INT(put(guard, "r", 50, "x"), PAWL_OK);
        let_a_stranger("DELETE FROM pawl_floor");
        check_every_call(guard, PAWL_CORRUPT);
        CHECK_HAS(why.text, "floor");
        pawl_guard_close(guard);
}

TEST(a_mark_that_is_no_token_lets_nobody_pass)
{
        static const char *const marks[] = {"0", "-1", "'text'", "x'00'", "5.5"};
        pawl_guard *guard = open_guard(0);
        char sql[200];

        CHECK_INT(put(guard, "r", 50, "x"), PAWL_OK);
        for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
                snprintf(sql, sizeof(sql), "PRAGMA ignore_check_constraints = 1; UPDATE pawl_mark SET token = %s",
                         marks[i]);
                let_a_stranger(sql);
                if (!CHECK_INT(admit(guard, "r", 100), PAWL_CORRUPT))
                        NOTE("%s", marks[i]);
                CHECK_INT(forget(guard, "r", 100), PAWL_CORRUPT);
        }
        pawl_guard_close(guard);
}

TEST(marks_of_another_version_let_nobody_pass)
{
        pawl_guard *guard = open_guard(0);

        CHECK_INT(put(guard, "r", 50, "x"), PAWL_OK);
        let_a_stranger("UPDATE pawl_floor SET version = 2");
        check_every_call(guard, PAWL_OTHER_VERSION);
        pawl_guard_close(guard);
}

TEST(a_database_that_is_replaced_while_the_guard_is_open_is_told)
{
        pawl_guard *guard = open_guard(0);

        CHECK_INT(put(guard, "r", 50, "x"), PAWL_OK);
        REQUIRE(unlink(database()) == 0);
        check_every_call(guard, PAWL_SYSTEM);
        CHECK_HAS(why.text, "open the guard again");
        let_a_stranger("CREATE TABLE t(x)");
        check_every_call(guard, PAWL_SYSTEM);
        pawl_guard_close(guard);
}

static int note_name(const struct pawl_guard_entry *entry, void *arg)
{
        char *text = arg;

        snprintf(text + strlen(text), 200 - strlen(text), "%s %d ", entry->resource, entry->code == PAWL_OK);
        return 0;
}

TEST(names_that_got_round_the_view_are_told_encoded)
{
        pawl_guard *guard = open_guard(0);
        char text[200] = "";

        CHECK_INT(admit(guard, "r", 50), PAWL_OK);
        let_a_stranger("INSERT INTO pawl_mark VALUES (char(27) || '[2J', 5), ('a' || char(0) || 'b', 5)");
        CHECK_INT(pawl_guard_list(guard, NULL, note_name, text, &why), PAWL_OK);
        CHECK_STR(text, "%1B%5B2J 0 r 1 ");
        pawl_guard_close(guard);
}

/* ---- rights, room and locks ------------------------------------------------------------------------------------- */

TEST(a_database_that_may_not_be_written_is_denied_and_can_be_listed)
{
        pawl_guard *guard = open_guard(0);
        bool root = geteuid() == 0;

        CHECK_INT(put(guard, "r", 50, "x"), PAWL_OK);
        pawl_guard_close(guard);
        REQUIRE(chmod(database(), 0444) == 0 && chmod(tap_directory(), 0755) == 0);
        if (root)
                REQUIRE(seteuid(65534) == 0);
        guard = open_guard(0);
        check_every_call(guard, PAWL_DENIED);
        CHECK_HAS(why.text, "may not be written");
        CHECK_INT(pawl_guard_list(guard, NULL, ignore, NULL, &why), PAWL_OK);
        pawl_guard_close(guard);
        check_refused(url_of("new.db"), PAWL_DENIED, "cannot create");
        if (root)
                REQUIRE(seteuid(0) == 0);
}

TEST(a_full_disk_leaves_the_old_data_and_the_old_mark)
{
        static char big[1 << 20];
        pawl_guard *guard;

        if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("none", tap_directory(), "tmpfs", 0, "size=128k") != 0)
                SKIP("no right to mount a small disk: %s", strerror(errno));
        guard = open_guard(0);
        CHECK_INT(put(guard, "r", 1, "old"), PAWL_OK);
        CHECK_INT(pawl_guard_put(guard, "r", 2, big, sizeof(big), &why), PAWL_FULL);
        CHECK_HAS(why.text, "no room");
        check_get(guard, "r", 1, "old", 1);
        CHECK_INT(put(guard, "r", 3, "new"), PAWL_OK);
        check_get(guard, "r", 3, "new", 3);
        pawl_guard_close(guard);
        umount(tap_directory());
}

TEST(a_locked_database_is_waited_for_and_then_told)
{
        pawl_guard *guard = open_guard(100);
        sqlite3 *stranger;

        CHECK_INT(put(guard, "r", 1, "x"), PAWL_OK);
        stranger = open_stranger();
        REQUIRE(say(stranger, "BEGIN EXCLUSIVE") == SQLITE_OK);
        check_every_call(guard, PAWL_TIMEOUT);
        CHECK_HAS(why.text, "has been locked by another for 100 ms");
        pawl_guard_close(open_guard(60000)); /* which does not wait */
        CHECK_INT(pawl_guard_list(guard, NULL, ignore, NULL, &why), PAWL_TIMEOUT);
        REQUIRE(say(stranger, "ROLLBACK") == SQLITE_OK);
        check_get(guard, "r", 1, "x", 1);
        sqlite3_close(stranger);
        pawl_guard_close(guard);
}

static double seconds(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now);
        return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* How long it took. */
static void *admit_in_vain(void *arg)
{
        static _Thread_local double took;
        double began = seconds();

        CHECK_INT(pawl_guard_admit(arg, "r", 2, NULL), PAWL_TIMEOUT);
        took = seconds() - began;
        return memcpy(malloc(sizeof(took)), &took, sizeof(took));
}

/* One after the other they would wait eight times as long. */
TEST_WITHIN(120, threads_that_wait_for_a_locked_database_wait_no_longer_than_one)
{
        enum { THREADS = 8 };
        pawl_guard *guard = open_guard(400);
        pthread_t threads[THREADS];
        sqlite3 *stranger;
        double *alone, *took;

        CHECK_INT(put(guard, "r", 1, "x"), PAWL_OK);
        stranger = open_stranger();
        REQUIRE(say(stranger, "BEGIN EXCLUSIVE") == SQLITE_OK);
        alone = admit_in_vain(guard);
        for (int i = 0; i < THREADS; i++)
                REQUIRE(pthread_create(&threads[i], NULL, admit_in_vain, guard) == 0);
        for (int i = 0; i < THREADS; i++) {
                pthread_join(threads[i], (void **)&took);
                CHECK(*took < 3 * *alone);
                free(took);
        }
        free(alone);
        REQUIRE(say(stranger, "ROLLBACK") == SQLITE_OK);
        check_get(guard, "r", 1, "x", 1);
        sqlite3_close(stranger);
        pawl_guard_close(guard);
}

/* Without a WAL a reader holds writers up at their commit, and what was written until then is taken back. */
TEST(a_reader_that_does_not_end_delays_a_commit_for_a_bounded_time)
{
        pawl_guard *guard = open_guard(100);
        sqlite3 *stranger;

        CHECK_INT(put(guard, "r", 1, "old"), PAWL_OK);
        stranger = open_stranger();
        REQUIRE(say(stranger, "BEGIN; SELECT count(*) FROM pawl_mark") == SQLITE_OK);
        CHECK_INT(put(guard, "r", 2, "new"), PAWL_TIMEOUT);
        REQUIRE(say(stranger, "COMMIT") == SQLITE_OK);
        check_get(guard, "r", 1, "old", 1);
        REQUIRE(say(stranger, "PRAGMA journal_mode = WAL") == SQLITE_OK);
        REQUIRE(say(stranger, "BEGIN; SELECT count(*) FROM pawl_mark") == SQLITE_OK);
        CHECK_INT(put(guard, "r", 2, "new"), PAWL_OK);
        REQUIRE(say(stranger, "COMMIT") == SQLITE_OK);
        sqlite3_close(stranger);
        check_get(guard, "r", 2, "new", 2);
        pawl_guard_close(guard);
}

/* ---- what is on the disk ---------------------------------------------------------------------------------------- */

TEST(a_token_is_on_the_disk_when_it_is_admitted_whatever_the_journal)
{
        pawl_guard *guard = open_guard(0);
        const char *directory = strrchr(tap_directory(), '/') + 1;

        CHECK_INT(admit(guard, "r", 1), PAWL_OK);
        synced[0] = 0;
        CHECK_INT(admit(guard, "r", 2), PAWL_OK);
        CHECK_HAS(synced, "marks.db-journal ");
        CHECK_HAS(synced, "marks.db ");
        /* Last of all the directory, without which a power failure could bring the journal back. */
        REQUIRE(strlen(synced) > strlen(directory) + 1);
        CHECK(strncmp(synced + strlen(synced) - strlen(directory) - 1, directory, strlen(directory)) == 0);
        let_a_stranger("PRAGMA journal_mode = WAL");
        CHECK_INT(admit(guard, "r", 3), PAWL_OK);
        synced[0] = 0;
        CHECK_INT(admit(guard, "r", 4), PAWL_OK);
        CHECK_HAS(synced, "marks.db-wal ");
        pawl_guard_close(guard);
}

TEST(what_a_careless_stranger_admitted_is_on_the_disk_when_the_same_token_is_admitted)
{
        pawl_guard *guard = open_guard(0);
        sqlite3 *stranger;

        CHECK_INT(admit(guard, "r", 1), PAWL_OK);
        stranger = open_stranger();
        REQUIRE(say(stranger, "PRAGMA journal_mode = WAL") == SQLITE_OK);
        REQUIRE(say(stranger, "PRAGMA synchronous = NORMAL") == SQLITE_OK);
        CHECK_INT(admit(guard, "r", 2), PAWL_OK);
        REQUIRE(say(stranger, "INSERT INTO pawl_admit VALUES ('r', 3)") == SQLITE_OK);
        synced[0] = 0;
        REQUIRE(say(stranger, "INSERT INTO pawl_admit VALUES ('r', 4)") == SQLITE_OK);
        CHECK_STR(synced, "");
        CHECK_INT(admit(guard, "r", 4), PAWL_OK);
        CHECK_HAS(synced, "marks.db-wal ");
        sqlite3_close(stranger);
        pawl_guard_close(guard);
}

TEST(a_child_that_closes_its_parents_guard_leaves_the_log_alone)
{
        pawl_guard *guard = open_guard(0);
        int child;

        let_a_stranger("PRAGMA journal_mode = WAL");
        CHECK_INT(put(guard, "r", 5, "five"), PAWL_OK);
        CHECK(access(path_of("marks.db-wal"), F_OK) == 0);
        child = fork();
        if (child == 0) {
                pawl_guard_close(guard);
                _exit(0);
        }
        check_child(child);
        CHECK(access(path_of("marks.db-wal"), F_OK) == 0);
        check_get(guard, "r", 5, "five", 5);
        pawl_guard_close(guard);
        guard = open_guard(0);
        CHECK_INT(admit(guard, "r", 4), PAWL_STALE);
        pawl_guard_close(guard);
}

static atomic_bool stopping;

static void *put_until_stopped(void *arg)
{
        static char big[200000];
        uint64_t token = 1;

        while (!atomic_load(&stopping)) {
                if (!CHECK_INT(pawl_guard_put(arg, "r", ++token, big, sizeof(big), &why), PAWL_OK)) {
                        NOTE("%s", why.text);
                        break;
                }
        }
        return NULL;
}

/* To roll back here what the parent has begun would tear its pages. */
TEST_WITHIN(300, a_child_that_is_forked_in_the_middle_of_a_put_does_not_undo_it)
{
        pawl_guard *guard = open_guard(60000);
        pthread_t thread;

        CHECK_INT(admit(guard, "r", 1), PAWL_OK);
        REQUIRE(pthread_create(&thread, NULL, put_until_stopped, guard) == 0);
        for (int i = 0; i < 100; i++) {
                int child;

                usleep(1000);
                child = fork();
                if (child == 0) {
                        pawl_guard_close(guard);
                        _exit(0);
                }
                check_child(child);
        }
        atomic_store(&stopping, true);
        pthread_join(thread, NULL);
        pawl_guard_close(guard);
        CHECK_HAS(examine()->text, "quick_check finds no damage");
}

/* ---- killed at any moment ---------------------------------------------------------------------------------------- */

enum { BODY = 20000 };

static struct shared {
        atomic_ullong token; /* the last one handed out */
        atomic_ullong confirmed;
} * shared;

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
        pawl_guard *guard = open_guard(60000);

        for (;;) {
                uint64_t token = atomic_fetch_add(&shared->token, 1) + 1;

                if (pawl_guard_put(guard, "r", token, content, make_content(token, content), &why) != PAWL_OK) {
                        NOTE("%s", why.text);
                        _exit(1);
                }
                atomic_store(&shared->confirmed, token);
        }
}

static int find_mark(const struct pawl_guard_entry *entry, void *arg)
{
        CHECK_INT(entry->code, PAWL_OK);
        *(uint64_t *)arg = entry->token;
        return 0;
}

/* Whole, the mark the data's own, and never behind what was confirmed. */
static bool check_state(pawl_guard *guard)
{
        static char content[BODY + 32];
        struct pawl_guard_data data = {0};
        uint64_t mark = 0;
        bool good;

        if (!CHECK_INT(pawl_guard_list(guard, NULL, find_mark, &mark, &why), PAWL_OK)) {
                NOTE("%s", why.text);
                return false;
        }
        if (!CHECK(mark >= atomic_load(&shared->confirmed)) || mark == 0)
                return mark == 0;
        if (!CHECK_INT(pawl_guard_get(guard, "r", mark, &why, &data), PAWL_OK))
                return false;
        good = CHECK_UINT(strtoull(data.bytes, NULL, 10), mark) && CHECK_UINT(data.size, make_content(mark, content)) &&
               CHECK_MEM(data.bytes, content, data.size);
        free(data.bytes);
        return good;
}

static void kill_a_writer(useconds_t after)
{
        pid_t child = fork();
        int status;

        REQUIRE(child >= 0);
        if (child == 0)
                write_until_killed();
        usleep(after);
        kill(child, SIGKILL);
        REQUIRE(waitpid(child, &status, 0) == child);
        CHECK(WIFSIGNALED(status));
}

static void check_kills(const char *journal)
{
        enum { KILLS = 150 };
        pawl_guard *guard;
        unsigned seed = 4711;
        useconds_t window = 4000; /* grows to a few puts, however slow the disk is today */

        let_a_stranger(journal);
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        REQUIRE(shared != MAP_FAILED);
        for (int i = 0; i < KILLS; i++) {
                unsigned long long before = atomic_load(&shared->confirmed);

                kill_a_writer((useconds_t)rand_r(&seed) % window);
                guard = open_guard(60000);
                if (!check_state(guard)) {
                        NOTE("after kill %d", i);
                        break;
                }
                pawl_guard_close(guard);
                if (atomic_load(&shared->confirmed) == before && window < 200000)
                        window += window / 8;
                else if (atomic_load(&shared->confirmed) > before + 2 && window > 4000)
                        window -= window / 8;
        }
        NOTE("%llu puts were confirmed, the last of them within %u us", (unsigned long long)shared->confirmed, window);
        CHECK(atomic_load(&shared->confirmed) > 0);
}

TEST_WITHIN(300, a_writer_killed_at_any_moment_leaves_the_old_or_the_new)
{
        check_kills("PRAGMA journal_mode = DELETE");
}

TEST_WITHIN(300, a_writer_killed_at_any_moment_leaves_the_old_or_the_new_in_a_log)
{
        check_kills("PRAGMA journal_mode = WAL");
}

/* ---- examined --------------------------------------------------------------------------------------------------- */

TEST(an_examination_tells_what_is_kept_and_how)
{
        struct findings *findings = examine();

        CHECK_HAS(findings->text, "it has no marks yet");
        let_a_stranger("PRAGMA journal_mode = WAL");
        pawl_guard_close(open_guard(0));
        {
                pawl_guard *guard = open_guard(0);

                CHECK_INT(admit(guard, "r", 5), PAWL_OK);
                CHECK_INT(pawl_guard_prune(guard, 3, &why, NULL), PAWL_OK);
                pawl_guard_close(guard);
        }
        findings = examine();
        CHECK_HAS(findings->text, "it is read by SQLite 3.");
        CHECK_HAS(findings->text, "journal_mode is wal");
        CHECK_HAS(findings->text, "synchronous EXTRA");
        CHECK_HAS(findings->text, "quick_check finds no damage");
        CHECK_HAS(findings->text, "it has 1 marks; resources without one admit no token below 3");
        CHECK_HAS(findings->text, "only its owner may write to it");
        CHECK(findings->worst <= PAWL_WARNING); /* of the file system, which may be tmpfs here */
}

TEST(an_examination_warns_of_who_may_write_and_of_a_second_name)
{
        struct findings *findings = examine();

        REQUIRE(chmod(database(), 0666) == 0);
        findings = examine();
        CHECK_HAS(findings->text, "3 everybody may write to it");
        CHECK_HAS(findings->text, "[chmod o-w ");
        REQUIRE(chmod(database(), 0660) == 0);
        findings = examine();
        CHECK_HAS(findings->text, "1 group ");
        REQUIRE(chmod(database(), 0600) == 0 && chmod(tap_directory(), 0777) == 0);
        findings = examine();
        CHECK_HAS(findings->text, "3 everybody may write to its directory");
        REQUIRE(chmod(tap_directory(), 0700) == 0);
        REQUIRE(link(database(), path_of("second.db")) == 0);
        findings = examine();
        CHECK_HAS(findings->text, "2 it has a second name");
}

TEST(an_examination_finds_damage_and_other_versions)
{
        pawl_guard *guard = open_guard(0);
        int fd;

        CHECK_INT(admit(guard, "r", 5), PAWL_OK);
        pawl_guard_close(guard);
        let_a_stranger("UPDATE pawl_floor SET version = 2");
        CHECK_HAS(examine()->text, "3 its marks were made by another version");
        let_a_stranger("DROP VIEW pawl_admit");
        CHECK_HAS(examine()->text, "3 the database ");
        fd = open(database(), O_WRONLY);
        REQUIRE(fd >= 0 && pwrite(fd, "\xff\xff\xff\xff\xff\xff\xff\xff", 8, 4096) == 8);
        close(fd);
        CHECK_HAS(examine()->text, "3 it is damaged");
        REQUIRE(truncate(database(), 0) == 0 && truncate(database(), 5000) == 0);
        CHECK_HAS(examine()->text, "restore it");
}
