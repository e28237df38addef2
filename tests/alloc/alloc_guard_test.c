/* alloc_guard_test.c - when memory or a system call fails in a guard: a clean error, nothing leaked, no mark lost, and
 * the next try works. One scenario has every call; it is run again and again, each time something else fails. With
 * GUARD_SQLITE the guard of SQLite is compiled in, and SQLite itself, whose allocations and calls fail too. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pawl/version.h>

#include "guard/guard.h"
#include "inject.h"
#include "tap.h"

static struct pawl_why why;
static const char *part; /* of the scenario, for notes */
static uint64_t token;   /* grows with every call */
static uint64_t confirmed;

#ifdef GUARD_SQLITE
extern const struct guard_ops sqlite_guard;

/* As guard.c does, which would look for the module. */
static int open_guard(pawl_guard **guard)
{
        const struct pawl_guard_options options = {.size = sizeof(options), .why = &why};
        char text[600];
        struct url *url;
        int code;

        snprintf(text, sizeof(text), "sqlite:%s/marks.db", tap_directory());
        code = url_parse(text, &url, &why);
        if (code != PAWL_OK)
                return code;
        *guard = calloc(1, sqlite_guard.size);
        if (*guard) {
                (*guard)->ops = &sqlite_guard;
                (*guard)->pid = getpid();
                code = sqlite_guard.open(*guard, url, &options);
        } else
                code = PAWL_NO_MEMORY;
        if (code != PAWL_OK) {
                pawl_guard_close(*guard);
                *guard = NULL;
        }
        url_free(url);
        return code;
}
#else
static int open_guard(pawl_guard **guard)
{
        char text[600];

        snprintf(text, sizeof(text), "file:%s", tap_directory());
        return pawl_guard_open(text, PAWL_GUARD(.why = &why), guard);
}
#endif

/* ---- the scenario ----------------------------------------------------------------------------------------------- */

static int keep_going(const struct pawl_guard_entry *entry, void *arg)
{
        (void)arg;
        CHECK(entry->code != PAWL_CORRUPT);
        return 0;
}

static int note_finding(const struct pawl_finding *finding, void *arg)
{
        (void)finding;
        (void)arg;
        return 0;
}

static int visit(pawl_guard *guard)
{
        struct pawl_guard_data data;
        int code;

        part = "put";
        code = pawl_guard_put(guard, "r", ++token, "some data", 9, &why);
        if (code != PAWL_OK)
                return code;
        confirmed = token;
        part = "admit";
        code = pawl_guard_admit(guard, "r", token, &why);
        if (code != PAWL_OK)
                return code;
        part = "get";
        code = pawl_guard_get(guard, "r", ++token, &why, &data);
        if (code != PAWL_OK)
                return code;
        confirmed = token;
        CHECK_STR(data.bytes, "some data");
        free(data.bytes);
        part = "a stale put";
        code = pawl_guard_put(guard, "r", token - 1, "late", 4, &why);
        return code == PAWL_STALE ? PAWL_OK : code;
}

static int change(struct pawl_change *tried, void *arg)
{
        (void)arg;
        return pawl_change_to(tried, "changed", 7);
}

/* Of a resource that has a version. */
static int update(pawl_guard *guard)
{
        struct pawl_guard_data data = {0};
        uint64_t version = 0;
        int code;

        part = "update";
        code = pawl_update(guard, "versioned", change, NULL, PAWL_UPDATE(.why = &why), &version);
        if (code != PAWL_OK)
                return code;
        part = "look";
        code = pawl_guard_look(guard, "versioned", &why, &data);
        if (code != PAWL_OK)
                return code;
        CHECK_STR(data.bytes, "changed");
        CHECK_UINT(data.token, version);
        free(data.bytes);
        part = "a stale swap";
        code = pawl_guard_swap(guard, "versioned", version - 1, "late", 4, &why, NULL);
        return code == PAWL_STALE ? PAWL_OK : code;
}

static int look_after(pawl_guard *guard)
{
        int code;

        part = "another resource";
        code = pawl_guard_admit(guard, "other", ++token, &why);
        if (code != PAWL_OK)
                return code;
        part = "forget";
        code = pawl_guard_forget(guard, "other", token, &why);
        if (code != PAWL_OK)
                return code;
        part = "list";
        code = pawl_guard_list(guard, NULL, keep_going, NULL, &why);
        if (code != PAWL_OK)
                return code;
        part = "examine";
        code = pawl_guard_examine(guard, note_finding, NULL, &why);
        if (code != PAWL_OK)
                return code;
        part = "prune";
        return pawl_guard_prune(guard, confirmed, &why, NULL);
}

static int play(void)
{
        pawl_guard *guard = NULL;
        int code;

        part = "open";
        code = open_guard(&guard);
        if (code == PAWL_OK)
                code = visit(guard);
        if (code == PAWL_OK)
                code = update(guard);
        if (code == PAWL_OK)
                code = look_after(guard);
        pawl_guard_close(guard);
        return code;
}

/* ---- what must be so after it ----------------------------------------------------------------------------------- */

static int count_descriptors(void)
{
        DIR *stream = opendir("/proc/self/fd");
        int count = 0;

        REQUIRE(stream != NULL);
        while (readdir(stream))
                count++;
        closedir(stream);
        return count;
}

struct baseline {
        int descriptors;
        long outstanding;
};

static struct baseline begin(void)
{
        REQUIRE_INT(play(), PAWL_OK);
        return (struct baseline){count_descriptors(), inject_outstanding()};
}

/* No descriptor, no memory, no mark is lost, and everything works. */
static bool is_as_before(const struct baseline *baseline)
{
        static int looks; /* every fifth time will do */
        pawl_guard *guard = NULL;
        bool good = CHECK_INT(count_descriptors(), baseline->descriptors) &&
                    CHECK_INT(inject_outstanding(), baseline->outstanding);

        REQUIRE_INT(open_guard(&guard), PAWL_OK);
        good &= CHECK_INT(pawl_guard_admit(guard, "r", confirmed - 1, &why), PAWL_STALE);
        pawl_guard_close(guard);
        return good && (++looks % 5 != 0 || CHECK_INT(play(), PAWL_OK));
}

/* What a failed system call may be called; it is not damage, and not a verdict on a token. But SQLite takes a page that
 * cannot be read for one that is damaged. */
static bool is_clean(int code, int which, int error)
{
#ifdef GUARD_SQLITE
        if (code == PAWL_CORRUPT && (which == INJECT_pread64 || which == INJECT_read) && error == EIO)
                return true;
#else
        (void)which;
        (void)error;
#endif
        return code == PAWL_OK || code == PAWL_NO_MEMORY || code == PAWL_SYSTEM || code == PAWL_FULL ||
               code == PAWL_TIMEOUT || code == PAWL_DENIED;
}

static void fail_each_allocation(bool lasting)
{
        struct baseline baseline = begin();
        bool struck = true;
        long k;

        for (k = 1; struck; k += lasting && k > 20 ? 7 : 1) {
                int code;

                inject_arm(INJECT_ANY_ALLOCATION, k, ENOMEM, lasting);
                code = play();
                struck = inject_disarm();
                if (!CHECK(code == PAWL_NO_MEMORY || (code == PAWL_OK && !lasting) || !struck) ||
                    !is_as_before(&baseline)) {
                        NOTE("allocation %ld failed in %s: %s: %s", k, part, pawl_error_name(code), why.text);
                        return;
                }
        }
        NOTE("up to allocation %ld", k);
}

TEST_WITHIN(300, each_allocation_that_fails_once_is_a_clean_error)
{
        fail_each_allocation(false);
}

TEST_WITHIN(300, memory_that_runs_out_for_good_is_a_clean_error)
{
        fail_each_allocation(true);
}

TEST_WITHIN(300, each_system_call_that_fails_is_a_clean_error)
{
        static const int errors[] = {EIO, EMFILE, ENOSPC};
        struct baseline baseline = begin();
        long calls[INJECTED];
        long failed = 0;

        inject_arm(INJECT_ANY_ALLOCATION, 0, 0, false);
        REQUIRE_INT(play(), PAWL_OK);
        (void)inject_disarm();
        for (int which = 0; which < INJECTED; which++)
                calls[which] = inject_calls(which);
        for (int which = INJECT_strdup + 1; which < INJECTED; which++) {
                for (long k = 1; k <= calls[which]; k++) {
                        int error = errors[(k + which) % 3];
                        int code;

                        inject_arm(which, k, error, false);
                        code = play();
                        failed += inject_disarm();
                        if (CHECK(is_clean(code, which, error)) && is_as_before(&baseline))
                                continue;
                        NOTE("call %ld of %s failed with %s in %s: %s: %s", k, inject_name(which),
                             strerrorname_np(error), part, pawl_error_name(code), why.text);
                        break;
                }
        }
        NOTE("%ld calls failed", failed);
        CHECK(failed > 10);
}
