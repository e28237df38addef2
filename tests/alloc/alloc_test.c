/* alloc_test.c - when memory or a system call fails: a clean error, nothing lost, nothing leaked, others unharmed, and
 * the next try works. One scenario touches most of the API; it is run again and again, each time something else fails. */
#include "../contract/contract.h"
#include "inject.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <unistd.h>

enum { LOCKS = 40 };

struct scene {
        const char *place;
        uint32_t drive;
        pawl_client *one, *two;
        pawl_lock *lock;
};

static struct seen seen;
static const char *phase = "";

/* ---- the scenario ---------------------------------------------------------------------------------------------- */

static int open_both(struct scene *scene)
{
        int code = pawl_open(scene->place, PAWL_OPEN(.drive = scene->drive), &scene->one);

        return code != PAWL_OK ? code : pawl_open(scene->place, PAWL_OPEN(.drive = scene->drive), &scene->two);
}

static int take(struct scene *scene)
{
        int code = pawl_acquire(scene->one, "a", PAWL_LOCK(.note = "the first"), &scene->lock);

        return code != PAWL_OK ? code : pawl_check(scene->lock);
}

/* Refused as it should be: PAWL_OK. */
static int refuse(struct scene *scene)
{
        pawl_lock *none;
        int code = pawl_acquire(scene->two, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none);

        if (code != PAWL_BUSY)
                return CHECK(code != PAWL_OK) ? code : PAWL_MISUSE;
        code = pawl_acquire(scene->two, "a", PAWL_LOCK(.wait_ms = 2), &none);
        if (code != PAWL_TIMEOUT)
                return CHECK(code != PAWL_OK) ? code : PAWL_MISUSE;
        return PAWL_OK;
}

static void turn(pawl_client *client)
{
        struct pollfd fd = {.fd = pawl_fd(client), .events = POLLIN};

        if (fd.fd < 0) {
                nap(1);
        } else {
                poll(&fd, 1, 5);
                (void)pawl_dispatch(client);
        }
}

/* Hands the lock from one to two, which waits for it. */
static int hand_over(struct scene *scene)
{
        int64_t until = now_ms() + PATIENCE;
        pawl_lock *next;
        int code;

        memset(&seen, 0, sizeof(seen));
        code = pawl_acquire_async(scene->two, "a", NULL, see_granted, &seen, &next);
        if (code != PAWL_OK)
                return code;
        code = pawl_release(scene->lock);
        if (code != PAWL_OK)
                return code;
        while (!atomic_load(&seen.granted) && now_ms() < until)
                turn(scene->two);
        if (!CHECK_INT(atomic_load(&seen.granted), 1))
                return PAWL_MISUSE;
        if (atomic_load(&seen.status) != PAWL_OK)
                return atomic_load(&seen.status);
        return pawl_release(next);
}

static int count_entry(const struct pawl_entry *entry, void *arg)
{
        int *count = arg;

        (void)entry;
        ++*count;
        return 0;
}

static int look(struct scene *scene)
{
        struct pawl_stats stats = {.size = sizeof(stats)};
        int count = 0;
        int code = pawl_list(scene->one, NULL, count_entry, &count);

        if (code == PAWL_OK)
                code = pawl_show(scene->one, "a", count_entry, &count);
        return code != PAWL_OK ? code : pawl_stats(scene->one, &stats);
}

static int lend(struct scene *scene)
{
        char word[PAWL_LEASE_MAX + 1];
        pawl_lock *lock;
        int code = pawl_acquire(scene->one, "b", PAWL_LOCK(.flags = PAWL_DETACH, .ttl_ms = 400), &lock);

        if (code == PAWL_OK)
                code = pawl_lease(lock, word, sizeof(word));
        if (code == PAWL_OK)
                code = pawl_forget(lock);
        if (code == PAWL_OK)
                code = pawl_adopt(scene->two, word, NULL, &lock);
        if (code == PAWL_OK)
                code = pawl_renew(lock);
        return code != PAWL_OK ? code : pawl_release(lock);
}

/* More than a client keeps in stock, each with a ttl of its own and a name that does not fit into a handle. */
static int take_many(struct scene *scene)
{
        char name[128];
        pawl_lock *lock;

        for (int i = 0; i < LOCKS; i++) {
                int code;

                snprintf(name, sizeof(name), "%0100d", i);
                code = pawl_acquire(scene->one, name, PAWL_LOCK(.ttl_ms = 1000 + i), &lock);
                if (code != PAWL_OK)
                        return code;
        }
        return PAWL_OK;
}

/* PAWL_OK, or the first error that was told. Everything is closed again. */
static int play(const char *place, uint32_t drive)
{
        static const struct {
                const char *name;
                int (*play)(struct scene *);
        } acts[] = {{"open", open_both}, {"take", take}, {"refuse", refuse},      {"hand over", hand_over},
                    {"look", look},      {"lend", lend}, {"take many", take_many}};
        struct scene scene = {.place = place, .drive = drive};
        int code = PAWL_OK;

        for (size_t i = 0; i < sizeof(acts) / sizeof(*acts) && code == PAWL_OK; i++) {
                phase = acts[i].name;
                code = acts[i].play(&scene);
        }
        CHECK_INT(pawl_close(scene.one), PAWL_OK);
        CHECK_INT(pawl_close(scene.two), PAWL_OK);
        return code;
}

/* ---- what must be so afterwards -------------------------------------------------------------------------------- */

static int count_descriptors(void)
{
        DIR *directory = opendir("/proc/self/fd");
        int count = 0;

        while (directory && readdir(directory))
                count++;
        if (directory)
                closedir(directory);
        return count;
}

struct baseline {
        struct peer *witness; /* holds a lock all the while */
        int descriptors;
        long outstanding;
};

static bool is_as_before(const struct baseline *baseline, const char *place, uint32_t drive)
{
        return CHECK_INT(inject_outstanding(), baseline->outstanding) &&
               CHECK_INT(count_descriptors(), baseline->descriptors) &&
               CHECK_INT(ask_peer(baseline->witness, "check"), PAWL_OK) && CHECK_INT(play(place, drive), PAWL_OK);
}

static struct baseline begin(const char *place, uint32_t drive)
{
        struct baseline baseline = {.witness = start_peer(place)};

        REQUIRE_INT(ask_peer(baseline.witness, "acquire witness 0 600000"), PAWL_OK);
        REQUIRE_INT(play(place, drive), PAWL_OK);
        baseline.descriptors = count_descriptors();
        baseline.outstanding = inject_outstanding();
        return baseline;
}

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
                        NOTE("allocation %ld failed in \"%s\": %s", k, phase, pawl_error_name(code));
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

/* What a failed system call may be called. */
static bool is_clean(int code)
{
        return code == PAWL_OK || code == PAWL_SYSTEM || code == PAWL_NO_MEMORY || code == PAWL_FULL ||
               code == PAWL_DENIED || code == PAWL_CORRUPT || code == PAWL_UNREACHABLE || code == PAWL_UNSUPPORTED;
}

static bool fail_one_call(const struct baseline *baseline, const char *place, int which, long k, int error)
{
        int code;

        inject_arm(which, k, error, false);
        code = play(place, PAWL_DRIVE_THREAD);
        (void)inject_disarm();
        if (CHECK(is_clean(code)) && is_as_before(baseline, place, PAWL_DRIVE_THREAD))
                return true;
        NOTE("call %ld of %s failed with %s in \"%s\": %s", k, inject_name(which), strerrorname_np(error), phase,
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
                        NOTE("call %ld of %s: %s in \"%s\"", k, inject_name(which), pawl_error_name(code), phase);
                        break;
                }
        }
}
