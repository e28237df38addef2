/* test_guard.c - what every guard promises, on each kind; then what is true of files and of memory alone. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pawl/guard.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tap.h"

static struct pawl_why why;

static const char *file_url(void)
{
        static char url[512];

        snprintf(url, sizeof(url), "file:%s", tap_directory());
        return url;
}

static pawl_guard *open_guard(const char *url)
{
        pawl_guard *guard = NULL;

        if (!CHECK_INT(pawl_guard_open(url, PAWL_GUARD(.why = &why), &guard), PAWL_OK))
                NOTE("%s", why.text);
        REQUIRE(guard != NULL);
        return guard;
}

static int admit(pawl_guard *guard, const char *resource, uint64_t token)
{
        return pawl_guard_admit(guard, resource, token, &why);
}

static int put(pawl_guard *guard, const char *resource, uint64_t token, const char *text)
{
        return pawl_guard_put(guard, resource, token, text, strlen(text), &why);
}

/* PAWL_OK if the data are this text. */
static void check_get(pawl_guard *guard, const char *resource, uint64_t token, const char *text, uint64_t before)
{
        struct pawl_guard_data data = {0};

        if (!CHECK_INT(pawl_guard_get(guard, resource, token, &why, &data), PAWL_OK)) {
                NOTE("%s", why.text);
                return;
        }
        CHECK_STR(data.bytes, text);
        CHECK_UINT(data.size, strlen(text));
        CHECK_UINT(data.token, before);
        free(data.bytes);
}

/* Each sentence of the contract, said of every kind. */
#define EACH(guard)                                                                                                    \
        for (pawl_guard * kinds[] = {open_guard("mem:"), open_guard(file_url())}, **kind = kinds, *guard = *kind;      \
             kind < kinds + 2; pawl_guard_close(guard), kind++, guard = kind < kinds + 2 ? *kind : NULL)

TEST(a_smaller_token_is_refused_and_an_equal_one_passes)
{
        EACH(guard)
        {
                CHECK_INT(admit(guard, "r", 5), PAWL_OK);
                CHECK_INT(admit(guard, "r", 5), PAWL_OK);
                CHECK_INT(admit(guard, "r", 4), PAWL_STALE);
                CHECK_HAS(why.text, "token 4 is too old for \"r\": 5 has been admitted");
                CHECK_INT(admit(guard, "r", INT64_MAX), PAWL_OK);
                CHECK_INT(admit(guard, "r", INT64_MAX - 1), PAWL_STALE);
        }
}

TEST(resources_do_not_know_each_other)
{
        EACH(guard)
        {
                CHECK_INT(admit(guard, "one", 100), PAWL_OK);
                CHECK_INT(admit(guard, "two", 1), PAWL_OK);
                CHECK_INT(admit(guard, "ONE", 1), PAWL_OK);
                CHECK_INT(admit(guard, "one", 1), PAWL_STALE);
        }
}

TEST(a_stale_put_changes_nothing)
{
        EACH(guard)
        {
                CHECK_INT(put(guard, "r", 7, "seven"), PAWL_OK);
                CHECK_INT(put(guard, "r", 6, "six"), PAWL_STALE);
                check_get(guard, "r", 7, "seven", 7);
                CHECK_INT(put(guard, "r", 7, "seven again"), PAWL_OK);
                check_get(guard, "r", 7, "seven again", 7);
                CHECK_INT(put(guard, "r", 8, ""), PAWL_OK);
                check_get(guard, "r", 9, "", 8);
        }
}

TEST(a_read_is_a_barrier_too)
{
        struct pawl_guard_data data = {.size = 99};

        EACH(guard)
        {
                CHECK_INT(put(guard, "r", 1, "one"), PAWL_OK);
                check_get(guard, "r", 3, "one", 1);
                CHECK_INT(put(guard, "r", 2, "two"), PAWL_STALE);
                CHECK_INT(pawl_guard_get(guard, "r", 2, &why, &data), PAWL_STALE);
                CHECK_UINT(data.size, 99);
                CHECK_INT(pawl_guard_get(guard, "empty", 5, &why, &data), PAWL_NOT_FOUND);
                CHECK_UINT(data.size, 99);
                CHECK_INT(put(guard, "empty", 4, "four"), PAWL_STALE);
        }
}

TEST(bytes_of_any_kind_and_number_are_kept)
{
        enum { SIZE = 300000 };
        char *bytes = malloc(SIZE);
        struct pawl_guard_data data;

        REQUIRE(bytes != NULL);
        for (int i = 0; i < SIZE; i++)
                bytes[i] = (char)(i * 7 % 256);
        EACH(guard)
        {
                CHECK_INT(pawl_guard_put(guard, "r", 1, bytes, SIZE, &why), PAWL_OK);
                REQUIRE(pawl_guard_get(guard, "r", 1, &why, &data) == PAWL_OK);
                REQUIRE(data.size == SIZE);
                CHECK_MEM(data.bytes, bytes, SIZE);
                free(data.bytes);
        }
        free(bytes);
}

TEST(what_is_forgotten_passes_again_and_keeps_its_data)
{
        EACH(guard)
        {
                CHECK_INT(pawl_guard_forget(guard, "r", 1, &why), PAWL_NOT_FOUND);
                CHECK_INT(put(guard, "r", 9, "nine"), PAWL_OK);
                CHECK_INT(pawl_guard_forget(guard, "r", 8, &why), PAWL_STALE);
                CHECK_INT(pawl_guard_forget(guard, "r", 9, &why), PAWL_OK);
                check_get(guard, "r", 2, "nine", 0);
        }
}

struct listing {
        uint64_t tokens[3];
        int seen;
        int stop_after;
};

static int list_one(const struct pawl_guard_entry *entry, void *arg)
{
        struct listing *listing = arg;

        CHECK_INT(entry->code, PAWL_OK);
        for (int i = 0; i < 3; i++)
                if (strcmp(entry->resource, ((const char *[]){"a/1", "a/2", "\xc3\xbc"})[i]) == 0)
                        listing->tokens[i] = entry->token;
        return ++listing->seen == listing->stop_after;
}

TEST(a_list_names_every_resource_with_its_token)
{
        EACH(guard)
        {
                struct listing all = {0}, some = {0}, first = {.stop_after = 1};

                CHECK_INT(admit(guard, "a/1", 11), PAWL_OK);
                CHECK_INT(put(guard, "a/2", 12, "x"), PAWL_OK);
                CHECK_INT(admit(guard, "\xc3\xbc", 13), PAWL_OK);
                CHECK_INT(pawl_guard_list(guard, NULL, list_one, &all, &why), PAWL_OK);
                CHECK_INT(all.seen, 3);
                CHECK_UINT(all.tokens[0], 11);
                CHECK_UINT(all.tokens[1], 12);
                CHECK_UINT(all.tokens[2], 13);
                CHECK_INT(pawl_guard_list(guard, "a/", list_one, &some, &why), PAWL_OK);
                CHECK_INT(some.seen, 2);
                CHECK_INT(pawl_guard_list(guard, "", list_one, &first, &why), PAWL_OK);
                CHECK_INT(first.seen, 1);
        }
}

TEST(wrong_arguments_are_answered_and_change_nothing)
{
        struct pawl_guard_data data;

        EACH(guard)
        {
                struct listing none = {0};

                CHECK_INT(admit(guard, "r", 0), PAWL_INVALID);
                CHECK_INT(admit(guard, "r", UINT64_C(1) << 63), PAWL_INVALID);
                CHECK_INT(admit(guard, "r", UINT64_MAX), PAWL_INVALID);
                CHECK_INT(admit(guard, "", 1), PAWL_INVALID);
                CHECK_INT(admit(guard, "a\nb", 1), PAWL_INVALID);
                CHECK_INT(admit(guard, NULL, 1), PAWL_INVALID);
                CHECK_INT(pawl_guard_put(guard, "r", 1, NULL, 1, NULL), PAWL_INVALID);
                CHECK_INT(pawl_guard_get(guard, "r", 1, NULL, NULL), PAWL_INVALID);
                CHECK_INT(pawl_guard_list(guard, NULL, NULL, NULL, NULL), PAWL_INVALID);
                CHECK_INT(pawl_guard_list(guard, NULL, list_one, &none, NULL), PAWL_OK);
                CHECK_INT(none.seen, 0);
                CHECK_INT(pawl_guard_put(guard, "r", 1, NULL, 0, NULL), PAWL_OK);
        }
        CHECK_INT(admit(NULL, "r", 1), PAWL_INVALID);
        CHECK_INT(pawl_guard_get(NULL, "r", 1, NULL, &data), PAWL_INVALID);
        pawl_guard_close(NULL);
}

TEST(a_child_may_not_use_its_parents_guard)
{
        EACH(guard)
        {
                pid_t child = fork();
                int status;

                if (child == 0)
                        _exit(admit(guard, "r", 1) == PAWL_FORKED ? 0 : 1);
                REQUIRE(waitpid(child, &status, 0) == child);
                CHECK_INT(status, 0);
        }
}

struct runner {
        pthread_t thread;
        pawl_guard *guard;
        uint64_t first;
        uint64_t passed_stale; /* must stay 0: how often a token passed below one we had seen admitted */
};

static void *run_tokens(void *arg)
{
        struct runner *runner = arg;
        uint64_t highest = 0;
        char resource[16];

        for (uint64_t i = 0; i < 200; i++) {
                uint64_t token = 1 + (runner->first + i * 7919) % 1000;

                snprintf(resource, sizeof(resource), "r%d", (int)(i % 2));
                if (pawl_guard_admit(runner->guard, resource, token, NULL) != PAWL_OK || i % 2 == 1)
                        continue;
                runner->passed_stale += token < highest;
                highest = token;
        }
        return NULL;
}

TEST(threads_agree_on_the_greatest_token)
{
        EACH(guard)
        {
                struct runner runners[4];

                for (int i = 0; i < 4; i++) {
                        runners[i] = (struct runner){.guard = guard, .first = (uint64_t)i * 211};
                        REQUIRE(pthread_create(&runners[i].thread, NULL, run_tokens, &runners[i]) == 0);
                }
                for (int i = 0; i < 4; i++) {
                        pthread_join(runners[i].thread, NULL);
                        CHECK_UINT(runners[i].passed_stale, 0);
                }
                CHECK_INT(admit(guard, "r0", 1), PAWL_STALE);
        }
}

/* ---- opening ---------------------------------------------------------------------------------------------------- */

static void check_refused(const char *url, int code, const char *words)
{
        pawl_guard *guard = NULL;

        CHECK_INT(pawl_guard_open(url, PAWL_GUARD(.why = &why), &guard), code);
        CHECK_HAS(why.text, words);
        CHECK_NULL(guard);
        CHECK_INT(pawl_guard_open(url, NULL, &guard), code);
}

TEST(a_guard_that_cannot_be_opened_says_why)
{
        char url[600];

        check_refused(NULL, PAWL_INVALID, "NULL");
        check_refused("nonsense", PAWL_INVALID, "scheme");
        check_refused("zk://h", PAWL_NO_ENGINE, "no guard for zk: URLs");
        check_refused("file:", PAWL_INVALID, "needs a directory");
        check_refused("file://tmp/x", PAWL_INVALID, "one slash");
        check_refused("file:/nowhere/at/all", PAWL_NOT_FOUND, "make it first");
        check_refused("file:/dev/null", PAWL_SYSTEM, "Not a directory");
        check_refused("file:/tmp?x=1", PAWL_INVALID, "do not have the option x");
        check_refused("mem:/x", PAWL_INVALID, "nothing else");
        check_refused("mem:?x=1", PAWL_INVALID, "do not have the option x");
        snprintf(url, sizeof(url), "file://%s", tap_directory());
        pawl_guard_close(open_guard(url));
}

TEST(options_of_other_versions_are_read_by_the_kernels_rule)
{
        struct {
                struct pawl_guard_options known;
                uint64_t unknown;
        } newer = {.known = {.size = sizeof(newer)}};
        struct pawl_guard_options options = {.size = 0};
        pawl_guard *guard = NULL;

        CHECK_INT(pawl_guard_open("mem:", &options, &guard), PAWL_INVALID);
        options.size = UINT32_MAX;
        CHECK_INT(pawl_guard_open("mem:", &options, &guard), PAWL_INVALID);
        options.size = 8;
        options.wait_ms = UINT32_MAX;
        REQUIRE(pawl_guard_open("mem:", &options, &guard) == PAWL_OK);
        pawl_guard_close(guard);
        REQUIRE(pawl_guard_open("mem:", &newer.known, &guard) == PAWL_OK);
        pawl_guard_close(guard);
        newer.unknown = 1;
        CHECK_INT(pawl_guard_open("mem:", &newer.known, &guard), PAWL_UNSUPPORTED);
        CHECK_INT(pawl_guard_open("mem:", PAWL_GUARD(.flags = 1), &guard), PAWL_UNSUPPORTED);
        CHECK_INT(pawl_guard_open("mem:", NULL, NULL), PAWL_INVALID);
}

/* ---- memory ------------------------------------------------------------------------------------------------------ */

TEST(a_full_table_refuses_new_resources_and_serves_the_old)
{
        pawl_guard *guard = NULL;
        char name[16];

        REQUIRE(pawl_guard_open("mem:", PAWL_GUARD(.resources_max = 1000), &guard) == PAWL_OK);
        for (int i = 0; i < 1000; i++) {
                snprintf(name, sizeof(name), "r%d", i);
                CHECK_INT(admit(guard, name, 10), PAWL_OK);
        }
        CHECK_INT(admit(guard, "one more", 10), PAWL_FULL);
        CHECK_HAS(why.text, "resources_max");
        for (int i = 0; i < 1000; i++) {
                snprintf(name, sizeof(name), "r%d", i);
                CHECK_INT(admit(guard, name, 9), PAWL_STALE);
                CHECK_INT(admit(guard, name, 11), PAWL_OK);
        }
        CHECK_INT(pawl_guard_forget(guard, "r7", 11, &why), PAWL_OK);
        CHECK_INT(admit(guard, "one more", 10), PAWL_OK);
        pawl_guard_close(guard);
}

/* ---- files ------------------------------------------------------------------------------------------------------- */

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

static void check_file(const char *name, const char *text)
{
        char found[200] = "";
        FILE *file = fopen(path_of(name), "r");

        REQUIRE(file != NULL);
        found[fread(found, 1, sizeof(found) - 1, file)] = 0;
        fclose(file);
        CHECK_STR(found, text);
}

static int count_files(void)
{
        DIR *stream = opendir(tap_directory());
        int count = 0;

        REQUIRE(stream != NULL);
        while (readdir(stream))
                count++;
        closedir(stream);
        return count - 2;
}

TEST(the_data_are_a_file_named_like_the_resource)
{
        pawl_guard *guard = open_guard(file_url());

        CHECK_INT(put(guard, "orders", 3, "three\n"), PAWL_OK);
        CHECK_INT(put(guard, "../escape/../x", 3, "inside\n"), PAWL_OK);
        check_file("orders", "three\n");
        check_file("%2E.%2Fescape%2F..%2Fx", "inside\n");
        CHECK_INT(count_files(), 5);
        pawl_guard_close(guard);
}

TEST(tokens_outlive_the_process_that_admitted_them)
{
        pawl_guard *guard = open_guard(file_url());

        CHECK_INT(put(guard, "r", 42, "x"), PAWL_OK);
        pawl_guard_close(guard);
        guard = open_guard(file_url());
        CHECK_INT(put(guard, "r", 41, "y"), PAWL_STALE);
        check_get(guard, "r", 42, "x", 42);
        pawl_guard_close(guard);
}

TEST(no_resource_is_another_ones_mark_or_leftover)
{
        static const char *const names[] = {"a",          ".a",          "a.pawl",    ".a.pawl",    "a.new",
                                            "a.pawl-new", ".a.pawl-new", "pawl.lock", ".pawl.lock", ".pawl",
                                            "pawl",       "a.pawl.new",  "..",        ".a.new"};
        enum { COUNT = sizeof(names) / sizeof(names[0]) };
        pawl_guard *guard = open_guard(file_url());

        for (uint64_t i = 0; i < COUNT; i++)
                CHECK_INT(put(guard, names[i], 10 + i, names[i]), PAWL_OK);
        for (uint64_t i = 0; i < COUNT; i++)
                check_get(guard, names[i], 10 + i, names[i], 10 + i);
        CHECK_INT(count_files(), 2 * COUNT + 1);
        pawl_guard_close(guard);
}

TEST(a_name_too_long_for_a_file_is_refused)
{
        pawl_guard *guard = open_guard(file_url());
        char name[256];

        memset(name, 'n', sizeof(name));
        name[201] = 0;
        CHECK_INT(admit(guard, name, 1), PAWL_INVALID);
        CHECK_HAS(why.text, "encoded it has 201 bytes, and may have 200");
        name[200] = 0;
        CHECK_INT(put(guard, name, 1, "x"), PAWL_OK);
        check_get(guard, name, 1, "x", 1);
        pawl_guard_close(guard);
}

static void check_damaged(pawl_guard *guard, const char *mark, int code)
{
        write_file(".r.pawl", mark);
        CHECK_INT(put(guard, "r", 100, "new"), code);
        CHECK_INT(admit(guard, "r", 100), code);
        CHECK_INT(pawl_guard_forget(guard, "r", 100, &why), code);
        CHECK_HAS(why.text, ".r.pawl");
        check_file(".r.pawl", mark);
        check_file("r", "old");
}

static int list_damaged(const struct pawl_guard_entry *entry, void *arg)
{
        CHECK_STR(entry->resource, "r");
        CHECK_INT(entry->code, PAWL_CORRUPT);
        CHECK_UINT(entry->token, 0);
        ++*(int *)arg;
        return 0;
}

TEST(a_damaged_mark_lets_nobody_pass)
{
        pawl_guard *guard = open_guard(file_url());
        int listed = 0;

        CHECK_INT(put(guard, "r", 5, "old"), PAWL_OK);
        check_damaged(guard, "pawl-mark 3 r 5 0123456789abcdef\n", PAWL_OTHER_VERSION);
        check_damaged(guard, "", PAWL_CORRUPT);
        check_damaged(guard, "pawl-mark 1 r 5 0123456789abcdef\n", PAWL_CORRUPT);
        check_damaged(guard, "nonsense", PAWL_CORRUPT);
        CHECK_INT(pawl_guard_list(guard, NULL, list_damaged, &listed, &why), PAWL_OK);
        CHECK_INT(listed, 1);
        pawl_guard_close(guard);
}

TEST(nothing_but_regular_files_is_touched)
{
        static const char *const places[] = {"r", ".r.pawl", ".pawl.lock"};

        write_file("victim", "untouched");
        for (int i = 0; i < 3; i++) {
                for (int kind = 0; kind < 3; kind++) {
                        pawl_guard *guard = open_guard(file_url());

                        unlink(path_of(".pawl.lock"));
                        if (kind == 0)
                                REQUIRE(symlink("victim", path_of(places[i])) == 0);
                        else if (kind == 1)
                                REQUIRE(mkfifo(path_of(places[i]), 0600) == 0);
                        else
                                REQUIRE(mkdir(path_of(places[i]), 0700) == 0);
                        CHECK_INT(put(guard, "r", 5, "x"), PAWL_INVALID);
                        CHECK_HAS(why.text, "not a regular file");
                        check_file("victim", "untouched");
                        REQUIRE(remove(path_of(places[i])) == 0);
                        pawl_guard_close(guard);
                }
        }
}

TEST(what_a_crash_left_behind_is_overwritten)
{
        pawl_guard *guard = open_guard(file_url());

        write_file("victim", "untouched");
        REQUIRE(symlink("victim", path_of(".r.new")) == 0);
        write_file(".r.pawl-new", "half a ma");
        CHECK_INT(put(guard, "r", 5, "x"), PAWL_OK);
        check_file("victim", "untouched");
        check_get(guard, "r", 5, "x", 5);
        CHECK_INT(count_files(), 4);
        pawl_guard_close(guard);
}

static void check_mode(const char *name, mode_t mode)
{
        struct stat info;

        REQUIRE(stat(path_of(name), &info) == 0);
        CHECK_INT(info.st_mode & 07777, mode);
}

TEST(a_file_keeps_its_permissions_and_marks_are_private)
{
        pawl_guard *guard = open_guard(file_url());

        umask(027);
        CHECK_INT(put(guard, "r", 1, "x"), PAWL_OK);
        check_mode("r", 0640);
        check_mode(".r.pawl", 0600);
        check_mode(".pawl.lock", 0600);
        REQUIRE(chmod(path_of("r"), 0604) == 0);
        REQUIRE(chmod(path_of(".r.pawl"), 0660) == 0);
        CHECK_INT(put(guard, "r", 2, "y"), PAWL_OK);
        check_mode("r", 0604);
        check_mode(".r.pawl", 0660);
        pawl_guard_close(guard);
}

/* Its members could replace the files anyway: they are to use the guard, whatever the umask. */
TEST(in_a_directory_of_a_group_marks_and_lock_are_the_groups)
{
        pawl_guard *guard = open_guard(file_url());

        umask(077);
        REQUIRE(chmod(path_of("."), 02770) == 0);
        CHECK_INT(put(guard, "r", 1, "x"), PAWL_OK);
        check_mode("r", 0600);
        check_mode(".r.pawl", 0660);
        check_mode(".pawl.lock", 0660);
        CHECK_INT(admit(guard, "r", 2), PAWL_OK);
        check_mode(".r.pawl", 0660);
        CHECK_INT(pawl_guard_prune(guard, 1, &why, NULL), PAWL_OK);
        check_mode(".pawl.floor", 0660);
        pawl_guard_close(guard);
}

TEST(whoever_stops_inside_a_resource_delays_others_for_a_bounded_time)
{
        struct flock everything = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        pawl_guard *guard = NULL;
        int fd;

        REQUIRE(pawl_guard_open(file_url(), PAWL_GUARD(.wait_ms = 30), &guard) == PAWL_OK);
        CHECK_INT(put(guard, "r", 1, "x"), PAWL_OK);
        fd = open(path_of(".pawl.lock"), O_RDWR);
        REQUIRE(fd >= 0 && fcntl(fd, F_OFD_SETLK, &everything) == 0);
        CHECK_INT(put(guard, "r", 2, "y"), PAWL_TIMEOUT);
        CHECK_HAS(why.text, "is it stopped?");
        close(fd);
        CHECK_INT(put(guard, "r", 2, "y"), PAWL_OK);
        pawl_guard_close(guard);
}

TEST(a_directory_that_may_not_be_written_is_denied)
{
        pawl_guard *guard = open_guard(file_url());
        bool root = geteuid() == 0;

        CHECK_INT(put(guard, "r", 1, "x"), PAWL_OK);
        if (root)
                REQUIRE(chmod(tap_directory(), 0755) == 0 && seteuid(65534) == 0);
        else
                REQUIRE(chmod(tap_directory(), 0500) == 0 && chmod(path_of(".pawl.lock"), 0400) == 0);
        CHECK_INT(put(guard, "r", 2, "y"), PAWL_DENIED);
        CHECK_HAS(why.text, "Permission denied");
        check_file("r", "x");
        if (root)
                REQUIRE(seteuid(0) == 0);
        REQUIRE(chmod(tap_directory(), 0700) == 0);
        pawl_guard_close(guard);
}
