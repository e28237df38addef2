/* alloc_test.c - the Redis guard without memory, and with system calls that fail: the caller is told the truth, nothing
 * leaks, and the next guard works. It is part of this program, not a module, so that its allocations and calls can be made
 * to fail. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../alloc/inject.h"
#include "guard/guard.h"
#include "tap.h"

extern const struct guard_ops redis_guard;

static struct pawl_why why;

/* ---- without the library ----------------------------------------------------------------------------------------- */

static void close_guard(pawl_guard *guard)
{
        if (guard)
                guard->ops->close(guard);
        free(guard);
}

static int open_guard(pawl_guard **opened)
{
        struct pawl_guard_options options = {.size = sizeof(options), .why = &why, .wait_ms = 30000};
        struct url *url;
        int code = url_parse(getenv("PAWL_TEST_STORE"), &url, &why);

        *opened = NULL;
        if (code != PAWL_OK)
                return code;
        *opened = calloc(1, redis_guard.size);
        if (!*opened) {
                url_free(url);
                return PAWL_NO_MEMORY;
        }
        (*opened)->ops = &redis_guard;
        (*opened)->pid = getpid();
        code = redis_guard.open(*opened, url, &options);
        url_free(url);
        return code;
}

/* ---- a scene ----------------------------------------------------------------------------------------------------- */

struct played {
        int code; /* the first that was not PAWL_OK */
        int put;
        const char *part;
};

static int no_entry(const struct pawl_guard_entry *entry, void *arg)
{
        (void)entry;
        (void)arg;
        return 0;
}

static int no_finding(const struct pawl_finding *finding, void *arg)
{
        (void)finding;
        (void)arg;
        return 0;
}

static int note(struct played *played, const char *part, int code)
{
        if (played->code == PAWL_OK && code != PAWL_OK) {
                played->code = code;
                played->part = part;
        }
        return code;
}

/* One guard's life. What it puts is the token as text. */
static struct played play(uint64_t token)
{
        struct played played = {.part = "nothing"};
        struct visit visit = {"r", 1, token, &why}, other = {"other", 5, token, &why};
        struct visit versioned = {"versioned", 9, 0, &why};
        struct pawl_guard_data data = {0}, found = {0};
        uint64_t pruned = 0;
        pawl_guard *guard;
        char text[24];
        int looked;

        snprintf(text, sizeof(text), "%llu", (unsigned long long)token);
        if (note(&played, "open", open_guard(&guard)) == PAWL_OK) {
                note(&played, "admit", redis_guard.admit(guard, &visit));
                played.put = note(&played, "put", redis_guard.put(guard, &visit, text, strlen(text)));
                note(&played, "get", redis_guard.get(guard, &visit, &data));
                free(data.bytes);
                looked = redis_guard.look(guard, &versioned, &found);
                note(&played, "look", looked == PAWL_NOT_FOUND ? PAWL_OK : looked);
                free(found.bytes);
                versioned.token = found.token + 1;
                const struct guard_swap next = {.data = text, .size = strlen(text), .id = 1};

                if (looked == PAWL_OK || looked == PAWL_NOT_FOUND)
                        note(&played, "swap", redis_guard.swap(guard, &versioned, &next));
                note(&played, "admit another", redis_guard.admit(guard, &other));
                note(&played, "forget", redis_guard.forget(guard, &other));
                note(&played, "list", redis_guard.list(guard, "", no_entry, NULL, &why));
                note(&played, "examine", redis_guard.examine(guard, no_finding, NULL, &why));
                note(&played, "prune", redis_guard.prune(guard, 1, &why, &pruned));
        } else {
                played.put = played.code;
        }
        close_guard(guard);
        return played;
}

/* ---- what must be so --------------------------------------------------------------------------------------------- */

static int count_descriptors(void)
{
        DIR *directory = opendir("/proc/self/fd");
        int count = 0;

        REQUIRE(directory != NULL);
        while (readdir(directory))
                count++;
        closedir(directory);
        return count;
}

/* The greatest token and the data go together, and are what was told. */
static void check_truth(const struct played *played, uint64_t token, uint64_t *stands)
{
        struct visit visit = {"r", 1, token, &why};
        struct pawl_guard_data data = {0};
        pawl_guard *witness;
        uint64_t found;

        REQUIRE_INT(open_guard(&witness), PAWL_OK);
        REQUIRE_INT(redis_guard.get(witness, &visit, &data), PAWL_OK);
        found = strtoull(data.bytes, NULL, 10);
        if (played->put == PAWL_OK)
                CHECK_UINT(found, token);
        else if (played->put != PAWL_IN_DOUBT)
                CHECK_UINT(found, *stands);
        else
                CHECK(found == token || found == *stands);
        *stands = found;
        visit.token = token - 1;
        CHECK_INT(redis_guard.admit(witness, &visit), PAWL_STALE);
        free(data.bytes);
        close_guard(witness);
}

static bool is_clean(int code)
{
        return code == PAWL_OK || code == PAWL_NO_MEMORY || code == PAWL_UNREACHABLE || code == PAWL_SYSTEM ||
               code == PAWL_IN_DOUBT || code == PAWL_FULL;
}

struct trial {
        uint64_t token;
        uint64_t stands;
        int descriptors;
        long outstanding;
};

static struct trial begin(void)
{
        struct trial trial = {0};
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now); /* greater than those of the tests before */
        trial.token = (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000;
        REQUIRE_INT(play(trial.token).code, PAWL_OK);
        trial.stands = trial.token;
        trial.descriptors = count_descriptors();
        trial.outstanding = inject_outstanding();
        return trial;
}

/* Returns whether something failed. */
static bool fail_one(struct trial *trial, int which, long k, int error, bool lasting)
{
        struct played played;
        bool struck;

        inject_arm(which, k, error, lasting);
        played = play(++trial->token);
        struck = inject_disarm();
        CHECK_INT(inject_outstanding(), trial->outstanding);
        CHECK_INT(count_descriptors(), trial->descriptors);
        if (!CHECK(is_clean(played.code)))
                NOTE("call %ld of %s in \"%s\": %s: %s", k, which < INJECTED ? inject_name(which) : "memory",
                     played.part, pawl_error_name(played.code), why.text);
        check_truth(&played, trial->token, &trial->stands);
        return struck;
}

TEST_WITHIN(300, an_allocation_that_fails_is_a_clean_error)
{
        struct trial trial = begin();
        long k = 1;

        while (fail_one(&trial, INJECT_ANY_ALLOCATION, k, ENOMEM, false))
                k++;
        NOTE("%ld allocations", k - 1);
        CHECK(k > 30);
}

TEST_WITHIN(300, memory_that_runs_out_for_good_is_a_clean_error)
{
        struct trial trial = begin();
        long k = 1;

        while (fail_one(&trial, INJECT_ANY_ALLOCATION, k, ENOMEM, true))
                k += 3;
        CHECK(k > 30);
}

TEST_WITHIN(300, a_system_call_that_fails_is_a_clean_error)
{
        static const int errors[] = {EIO, EMFILE, ENOMEM, ECONNRESET};
        struct trial trial = begin();
        long calls[INJECTED];

        inject_arm(INJECT_ANY_ALLOCATION, 0, 0, false);
        REQUIRE_INT(play(++trial.token).code, PAWL_OK);
        trial.stands = trial.token;
        (void)inject_disarm();
        for (int which = INJECT_strdup + 1; which < INJECTED; which++)
                calls[which] = inject_calls(which);
        for (int which = INJECT_strdup + 1; which < INJECTED; which++)
                for (long k = 1; k <= calls[which]; k++)
                        fail_one(&trial, which, k, errors[(k + which) % 4], false);
}

TEST(data_that_are_too_large_are_refused_before_they_are_sent)
{
        struct visit visit = {"large", 5, 1, &why};
        char *bytes = calloc(1, 61 << 20);
        struct pawl_guard_data data = {0};
        pawl_guard *guard;

        REQUIRE(bytes != NULL);
        REQUIRE_INT(open_guard(&guard), PAWL_OK);
        CHECK_INT(redis_guard.put(guard, &visit, bytes, 30 << 20), PAWL_OK);
        CHECK_INT(redis_guard.put(guard, &visit, bytes, 61 << 20), PAWL_FULL);
        CHECK_HAS(why.text, "60 MB");
        CHECK_INT(redis_guard.get(guard, &visit, &data), PAWL_OK);
        CHECK_UINT(data.size, 30 << 20);
        free(data.bytes);
        free(bytes);
        close_guard(guard);
}
