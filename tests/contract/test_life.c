/* test_life.c - promise 12 and the life of a client: open, close, fork, descriptors, memory, silence, figures. */
#include "contract.h"

#include <dirent.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- close ----------------------------------------------------------------------------------------------------- */

TEST(close_releases_each_lock_that_is_still_held)
{
        enum { LOCKS = 20 };
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *lock;
        char name[8];

        for (int i = 0; i < LOCKS; i++) {
                snprintf(name, sizeof name, "n%d", i);
                MUST(pawl_acquire(one, name, PAWL_LOCK(.ttl_ms = 60000, .on_lost = see_lost, .arg = &seen), &lock));
        }
        CHECK_CODE(leave(one), PAWL_OK);
        for (int i = 0; i < LOCKS; i++) {
                snprintf(name, sizeof name, "n%d", i);
                CHECK(is_free(two, name));
        }
}

TEST(close_ends_the_claims_that_wait_and_tells_each_once)
{
        enum { CLAIMS = 50 };
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen[CLAIMS];
        pawl_lock *lock, *waiting;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        for (int i = 0; i < CLAIMS; i++)
                MUST(pawl_acquire_async(two, "a", NULL, see_granted, &seen[i], &waiting));
        CHECK_CODE(leave(two), PAWL_OK);
        for (int i = 0; i < CLAIMS; i++) {
                CHECK_INT(atomic_load(&seen[i].granted), 1);
                CHECK_CODE(atomic_load(&seen[i].status), PAWL_CANCELLED);
        }
        CHECK(queue_reaches(one, "a", 0));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(is_free(one, "a"));
}

static void *wait_for_ever(void *arg)
{
        pawl_lock *none;
        return (void *)(intptr_t)pawl_acquire(arg, "a", NULL, &none);
}

TEST(close_ends_the_blocking_acquire_of_another_thread)
{
        enum { THREADS = 4 };
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pthread_t threads[THREADS];
        pawl_lock *lock;
        void *code;

        MUST(pawl_acquire(one, "a", NULL, &lock));
        for (int i = 0; i < THREADS; i++)
                REQUIRE(!pthread_create(&threads[i], NULL, wait_for_ever, two));
        REQUIRE(queue_reaches(one, "a", THREADS));
        CHECK_CODE(leave(two), PAWL_OK);
        for (int i = 0; i < THREADS; i++) {
                pthread_join(threads[i], &code);
                CHECK_CODE((intptr_t)code, PAWL_CANCELLED);
        }
        CHECK(queue_reaches(one, "a", 0));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(is_free(one, "a"));
}

TEST(a_detached_lock_whose_grant_nobody_heard_of_is_given_back_by_close)
{
        const char *place = fresh_place();
        pawl_client *one, *two = join(place);
        static struct seen seen;
        pawl_lock *lock;

        NEEDS(two, PAWL_CAN_DETACH);
        MUST(pawl_open(place, PAWL_OPEN(.drive = PAWL_DRIVE_CALLER), &one)); /* and nobody dispatches */
        MUST(pawl_acquire_async(one, "a", PAWL_LOCK(.ttl_ms = 60000, .flags = PAWL_DETACH), see_granted, &seen, &lock));
        nap(50);
        CHECK_CODE(pawl_close(one), PAWL_OK);
        CHECK_INT(atomic_load(&seen.granted), 1);
        CHECK_CODE(atomic_load(&seen.status), PAWL_CANCELLED);
        CHECK(is_free(two, "a"));
}

/* A thread that is kept from running, without stopping the process. */
static int gate[2];
static atomic_bool stands_still;

static void stand_still(int signal)
{
        char byte;
        (void)signal;
        atomic_store(&stands_still, true);
        while (read(gate[0], &byte, 1) != 1)
                ;
}

/* One of two threads that close the same client: one does, and the other is told at once that it comes too late. */
struct closer {
        pawl_client *client;
        atomic_int *refused;
        pthread_t thread;
        int code;
};

static void *close_it(void *arg)
{
        struct closer *closer = arg;
        closer->code = pawl_close(closer->client);
        if (closer->code == PAWL_MISUSE)
                atomic_fetch_add(closer->refused, 1);
        return NULL;
}

TEST(a_grant_that_comes_while_the_client_is_being_closed_is_not_handed_out)
{
        const char *place = fresh_place();
        struct sigaction still = {.sa_handler = stand_still};
        pawl_client *one = join(place), *two;
        atomic_int refused = 0;
        struct closer closers[2];
        pthread_t waiter;
        pawl_lock *lock;
        void *code;

        atomic_store(&stands_still, false);
        REQUIRE(pipe(gate) == 0 && sigaction(SIGUSR1, &still, NULL) == 0);
        MUST(pawl_open(place, NULL, &two));
        MUST(pawl_acquire(one, "a", NULL, &lock));
        REQUIRE(!pthread_create(&waiter, NULL, wait_for_ever, two));
        REQUIRE(queue_reaches(one, "a", 1));
        nap(50);
        REQUIRE(!pthread_kill(waiter, SIGUSR1));
        while (!atomic_load(&stands_still))
                nap(1);
        CHECK_CODE(pawl_release(lock), PAWL_OK); /* now the lock is the waiter's, who does not know it yet */
        for (int i = 0; i < 2; i++) {
                closers[i] = (struct closer){.client = two, .refused = &refused};
                REQUIRE(!pthread_create(&closers[i].thread, NULL, close_it, &closers[i]));
        }
        while (atomic_load(&refused) == 0) /* then the other one has begun, and cannot end before the waiter */
                nap(1);
        nap(50);
        CHECK_INT(write(gate[1], "!", 1), 1);
        pthread_join(waiter, &code);
        CHECK_CODE((intptr_t)code, PAWL_CANCELLED);
        for (int i = 0; i < 2; i++)
                pthread_join(closers[i].thread, NULL);
        CHECK_INT(closers[0].code + closers[1].code, PAWL_OK + PAWL_MISUSE);
        CHECK(is_free(one, "a"));
        close(gate[0]);
        close(gate[1]);
}

TEST(close_finishes_releases_that_are_under_way)
{
        enum { LOCKS = 50 };
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *lock;
        char name[8];

        for (int i = 0; i < LOCKS; i++) {
                snprintf(name, sizeof name, "n%d", i);
                MUST(pawl_acquire(one, name, PAWL_LOCK(.ttl_ms = 60000), &lock));
                CHECK_CODE(pawl_release_async(lock, see_released, &seen), PAWL_OK);
        }
        CHECK_CODE(leave(one), PAWL_OK);
        CHECK_INT(atomic_load(&seen.released), LOCKS);
        for (int i = 0; i < LOCKS; i++) {
                snprintf(name, sizeof name, "n%d", i);
                CHECK(is_free(two, name));
        }
}

TEST(a_client_says_which_url_and_capabilities_it_has)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);

        CHECK(pawl_url(one) && strchr(pawl_url(one), ':'));
        CHECK(pawl_owner(one) && *pawl_owner(one));
        CHECK(caller_drives() ? pawl_fd(one) >= 0 : pawl_fd(one) == -1);
}

/* ---- the caller drives ----------------------------------------------------------------------------------------- */

TEST(a_caller_who_drives_needs_only_poll_and_dispatch)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *mine;
        static struct seen seen;
        pawl_lock *held, *lock;

        MUST(pawl_open(place, PAWL_OPEN(.drive = PAWL_DRIVE_CALLER), &mine));
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 400, .flags = PAWL_NO_RENEW), &held));
        MUST(pawl_acquire_async(mine, "a",
                                PAWL_LOCK(.ttl_ms = 300, .flags = PAWL_NO_RENEW, .on_lost = see_lost, .arg = &seen),
                                see_granted, &seen, &lock));
        CHECK_INT(atomic_load(&seen.granted), 0); /* nobody turned it yet */
        int64_t until = now_ms() + PATIENCE;
        while (!atomic_load(&seen.lost) && now_ms() < until) {
                struct pollfd fd = {.fd = pawl_fd(mine), .events = POLLIN};
                CHECK_INT(poll(&fd, 1, PATIENCE), 1);
                CHECK_CODE(pawl_dispatch(mine), PAWL_OK);
        }
        CHECK_INT(atomic_load(&seen.granted), 1);
        CHECK_CODE(atomic_load(&seen.status), PAWL_OK);
        CHECK_INT(atomic_load(&seen.lost), 1);
        CHECK_CODE(pawl_release(lock), PAWL_LOST);
        CHECK_CODE(pawl_close(mine), PAWL_OK);
}

TEST(dispatch_does_not_block_when_nothing_is_due)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *mine;
        static struct seen seen;
        pawl_lock *held, *lock;

        MUST(pawl_open(place, PAWL_OPEN(.drive = PAWL_DRIVE_CALLER), &mine));
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 3600000), &held));
        MUST(pawl_acquire_async(mine, "a", NULL, see_granted, &seen, &lock));
        for (int i = 0; i < 100; i++)
                CHECK_CODE(pawl_dispatch(mine), PAWL_OK);
        CHECK_INT(atomic_load(&seen.granted), 0);
        CHECK_CODE(pawl_close(mine), PAWL_OK);
        CHECK_INT(atomic_load(&seen.granted), 1);
        CHECK_CODE(atomic_load(&seen.status), PAWL_CANCELLED);
}

/* The allocator of a sanitizer does not survive a fork beside threads: one of them may have had its lock. glibc's does. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

/* ---- fork ------------------------------------------------------------------------------------------------------ */

static int in_the_child(pawl_client *client, pawl_lock *lock)
{
        struct pawl_stats stats = {.size = sizeof stats};
        char word[PAWL_LEASE_MAX + 1];
        static struct seen seen;
        static struct view view;
        pawl_lock *none;
        int wrong = 0;

        wrong += !CHECK_CODE(pawl_acquire(client, "b", NULL, &none), PAWL_FORKED);
        wrong += !CHECK_CODE(pawl_acquire_async(client, "b", NULL, see_granted, &seen, &none), PAWL_FORKED);
        wrong += !CHECK_CODE(pawl_check(lock), PAWL_FORKED);
        wrong += !CHECK_CODE(pawl_renew(lock), PAWL_FORKED);
        wrong += !CHECK_CODE(pawl_cancel(lock), PAWL_FORKED);
        wrong += !CHECK_CODE(pawl_lease(lock, word, sizeof word), PAWL_FORKED);
        wrong += !CHECK_CODE(pawl_forget(lock), PAWL_FORKED);
        wrong += !CHECK_CODE(pawl_adopt(client, "word", NULL, &none), PAWL_FORKED);
        wrong += !CHECK_CODE(list(client, NULL, &view), PAWL_FORKED);
        wrong += !CHECK_CODE(show(client, "a", &view), PAWL_FORKED);
        wrong += !CHECK_CODE(pawl_break(client, "a"), PAWL_FORKED);
        wrong += !CHECK_CODE(pawl_ask(client, "a"), PAWL_FORKED);
        wrong += !CHECK_CODE(pawl_stats(client, &stats), PAWL_FORKED);
        wrong += !CHECK_CODE(pawl_dispatch(client), PAWL_FORKED);
        wrong += !CHECK_CODE(pawl_release_async(lock, see_released, &seen), PAWL_FORKED);
        wrong += !CHECK_CODE(pawl_release(lock), PAWL_FORKED);
        wrong += !CHECK_CODE(pawl_close(client), PAWL_FORKED);
        wrong += !CHECK_INT(atomic_load(&seen.granted) + atomic_load(&seen.released), 0);
        return wrong;
}

TEST(after_a_fork_every_call_of_the_child_says_so_and_the_parents_lock_is_unharmed)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *none;
        int status = -1;

        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 2000), &lock));
        pid_t child = fork();
        if (child == 0)
                _exit(in_the_child(one, lock) != 0);
        REQUIRE_INT(waitpid(child, &status, 0), child);
        CHECK_INT(status, 0);
        CHECK_CODE(pawl_check(lock), PAWL_OK);
        CHECK_CODE(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
        nap(2500);
        CHECK_CODE(pawl_check(lock), PAWL_OK);
        CHECK_CODE(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &none), PAWL_BUSY);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(is_free(two, "a"));
}

TEST(a_forked_child_may_open_a_client_of_its_own)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *mine;
        pawl_lock *lock, *got;
        int status = -1;

        if (SANITIZED)
                SKIP("a sanitizer allows no new threads and no memory after a fork");
        MUST(pawl_acquire(one, "a", NULL, &lock));
        pid_t child = fork();
        if (child == 0) {
                int wrong = !CHECK_CODE(pawl_open(place, NULL, &mine), PAWL_OK);
                wrong = wrong ||
                        !CHECK_CODE(pawl_acquire(mine, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &got), PAWL_BUSY);
                wrong = wrong ||
                        !CHECK_CODE(pawl_acquire(mine, "b", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &got), PAWL_OK);
                wrong = wrong || !CHECK_CODE(pawl_release(got), PAWL_OK);
                wrong = wrong || !CHECK_CODE(pawl_close(mine), PAWL_OK);
                fflush(stdout);
                _exit(wrong);
        }
        REQUIRE_INT(waitpid(child, &status, 0), child);
        CHECK_INT(status, 0);
        CHECK_CODE(pawl_check(lock), PAWL_OK);
        CHECK(is_free(one, "b"));
}

/* A child that lives on must not keep the parent's lock alive. */
TEST(the_death_of_a_holder_is_seen_although_its_forked_child_lives)
{
        const char *place = fresh_place();
        pawl_client *watcher;
        pawl_lock *lock;
        int ready[2], hold[2];
        char byte;

        REQUIRE(!pipe2(ready, O_CLOEXEC) && !pipe2(hold, O_CLOEXEC));
        pid_t holder = fork();
        if (holder == 0) {
                pawl_client *client;
                pawl_lock *held;
                if (pawl_open(place, NULL, &client) || pawl_acquire(client, "a", PAWL_LOCK(.ttl_ms = 1000), &held))
                        _exit(1);
                close(hold[1]);
                if (fork() == 0) {
                        (void)!read(hold[0], &byte, 1); /* lives until the test ends */
                        _exit(0);
                }
                (void)!write(ready[1], "x", 1);
                pause();
        }
        REQUIRE_INT(read(ready[0], &byte, 1), 1);
        kill(holder, 9);
        waitpid(holder, NULL, 0);
        watcher = join(place);
        CHECK_CODE(pawl_acquire(watcher, "a", PAWL_LOCK(.wait_ms = PATIENCE), &lock), PAWL_OK);
        close(hold[1]);
}

/* ---- descriptors, memory --------------------------------------------------------------------------------------- */

/* Counts the open descriptors; and those that an exec would hand on. */
static int count_descriptors(int *inheritable)
{
        DIR *directory = opendir("/proc/self/fd");
        struct dirent *entry;
        int count = 0;
        *inheritable = 0;
        while (directory && (entry = readdir(directory))) {
                int fd = atoi(entry->d_name);
                if (entry->d_name[0] == '.' || fd == dirfd(directory))
                        continue;
                count++;
                *inheritable += !(fcntl(fd, F_GETFD) & FD_CLOEXEC);
        }
        if (directory)
                closedir(directory);
        return count;
}

TEST(a_thousand_opens_and_closes_leak_no_descriptor)
{
        const char *place = fresh_place();
        int inheritable_before, inheritable, before;

        REQUIRE_CODE(leave(join(place)), PAWL_OK); /* what a library opens once and keeps */
        before = count_descriptors(&inheritable_before);
        for (int i = 0; i < 1000; i++) {
                pawl_client *client = NULL;
                pawl_lock *lock;
                REQUIRE_CODE(pawl_open(place, NULL, &client), PAWL_OK);
                if (i % 10 == 0) {
                        MUST(pawl_acquire(client, "a", NULL, &lock));
                        REQUIRE_CODE(pawl_release(lock), PAWL_OK);
                }
                REQUIRE_CODE(pawl_close(client), PAWL_OK);
        }
        CHECK_INT(count_descriptors(&inheritable), before);
}

TEST(every_descriptor_of_the_library_is_closed_by_exec)
{
        const char *place = fresh_place();
        static struct seen seen;
        pawl_lock *lock, *waiting;
        int inheritable_before, inheritable;

        count_descriptors(&inheritable_before);
        pawl_client *one = join(place);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        MUST(pawl_acquire_async(one, "a", NULL, see_granted, &seen, &waiting));
        REQUIRE(queue_reaches(one, "a", 1));
        count_descriptors(&inheritable);
        CHECK_INT(inheritable, inheritable_before);
}

static size_t allocated_bytes(void)
{
        struct mallinfo2 info = mallinfo2();
        return info.uordblks + info.hblkhd;
}

/* The least leak, 16 bytes in every pair, is five times what is let pass: buffers that reach their size, and what the
 * allocator keeps for each thread, which it counts as in use. */
TEST_WITHIN(900, many_thousand_pairs_do_not_grow_the_memory)
{
        pawl_client *one = join(fresh_place());
        const char *wanted = getenv("PAWL_TEST_PAIRS");
        const int pairs = wanted ? atoi(wanted) : 100000;
        pawl_lock *lock;
        size_t before = 0;

        for (int i = 0; i < 1000 + pairs; i++) {
                if (i == 1000)
                        before = allocated_bytes();
                MUST(pawl_acquire(one, i % 2 ? "a" : "b", NULL, &lock));
                MUST(pawl_release(lock));
        }
        CHECK_COMPARE(allocated_bytes(), <=, before + 65536);
}

/* ---- silence --------------------------------------------------------------------------------------------------- */

TEST(the_library_prints_nothing_whatever_goes_wrong)
{
        char output[512];

        CHECK_INT(run_quiet_scenario(fresh_place(), output, sizeof output), 0);
        CHECK_STR(output, "");
}

static atomic_int logged;

static void count_lines(int level, const char *text, void *arg)
{
        if (level >= PAWL_LOG_ERROR && level <= PAWL_LOG_TRACE && text && *text && arg == &logged)
                atomic_fetch_add(&logged, 1);
}

TEST(the_log_hook_hears_of_a_lost_lock)
{
        const char *place = fresh_place();
        pawl_client *one = join_with(
                place, (struct pawl_open_options){.log = count_lines, .log_arg = &logged, .log_level = PAWL_LOG_TRACE});
        static struct seen seen;
        pawl_lock *lock;

        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 100, .flags = PAWL_NO_RENEW, .on_lost = see_lost, .arg = &seen),
                          &lock));
        CHECK(SOON(atomic_load(&seen.lost) == 1));
        CHECK(SOON(atomic_load(&logged) > 0));
}

/* ---- figures --------------------------------------------------------------------------------------------------- */

static void check_latency(const struct pawl_latency *latency)
{
        CHECK_COMPARE(latency->p50_ns, <=, latency->p99_ns);
        CHECK_COMPARE(latency->p99_ns, <=, latency->p999_ns);
        CHECK_COMPARE(latency->p999_ns, <=, latency->max_ns);
}

TEST(the_figures_add_up)
{
        enum { PAIRS = 320 };
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct pawl_stats stats = {.size = sizeof stats};
        static struct seen seen;
        pawl_lock *lock, *other;

        for (int i = 0; i < PAIRS; i++) {
                MUST(pawl_acquire(one, "a", NULL, &lock));
                CHECK_CODE(pawl_release(lock), PAWL_OK);
        }
        MUST(pawl_acquire(two, "a", NULL, &other));
        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &lock), PAWL_BUSY);
        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = 500), &lock), PAWL_TIMEOUT);
        MUST(pawl_acquire_async(one, "a", NULL, see_granted, &seen, &lock));
        CHECK_CODE(pawl_stats(one, &stats), PAWL_OK);
        CHECK_UINT(stats.waiting, 1);
        CHECK_CODE(pawl_cancel(lock), PAWL_OK);
        REQUIRE(SOON(atomic_load(&seen.granted) == 1));
        (void)pawl_release(lock);
        MUST(pawl_acquire(one, "b", PAWL_LOCK(.ttl_ms = 100, .flags = PAWL_NO_RENEW), &lock));
        CHECK(SOON(pawl_check(lock) == PAWL_LOST));
        CHECK_CODE(pawl_release(lock), PAWL_LOST);
        MUST(pawl_acquire(one, "c", NULL, &lock));

        CHECK_CODE(pawl_stats(one, &stats), PAWL_OK);
        CHECK_UINT(stats.held, 1);
        CHECK_UINT(stats.waiting, 0);
        CHECK_UINT(stats.acquired, PAIRS + 2);
        CHECK_UINT(stats.released, PAIRS);
        CHECK_UINT(stats.busy, 1);
        CHECK_UINT(stats.timed_out, 1);
        CHECK_UINT(stats.cancelled, 1);
        CHECK_UINT(stats.lost, 1);
        CHECK_UINT(stats.failed, 0);
        CHECK_UINT(stats.acquired, stats.released + stats.lost + stats.held);
        check_latency(&stats.acquire);
        check_latency(&stats.wait);
        check_latency(&stats.hold);
        check_latency(&stats.renew_slack);
        CHECK(stats.acquire.count > 0 && stats.hold.count > 0);
}

TEST(a_wait_is_seen_in_the_figures)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct pawl_stats stats = {.size = sizeof stats};
        static struct seen seen;
        pawl_lock *held, *lock;

        MUST(pawl_acquire(one, "a", NULL, &held));
        MUST(pawl_acquire_async(two, "a", NULL, see_granted, &seen, &lock));
        nap(60);
        CHECK_CODE(pawl_release(held), PAWL_OK);
        REQUIRE(SOON(atomic_load(&seen.granted) == 1));
        CHECK_CODE(pawl_stats(two, &stats), PAWL_OK);
        CHECK_UINT(stats.wait.count, 1);
        CHECK_COMPARE(stats.wait.max_ns, >, UINT64_C(50000000));
        CHECK_COMPARE(stats.acquire.max_ns, >=, stats.wait.max_ns);
}

TEST(this_build_tells_its_engines)
{
        struct pawl_engine_info info;
        size_t count = 0;

        while (pawl_engine(count, &info) == PAWL_OK) {
                CHECK(info.scheme && *info.scheme && info.summary && *info.summary && info.promise && *info.promise);
                count++;
        }
        CHECK_COMPARE(count, >=, 1);
        CHECK_CODE(pawl_engine(count, &info), PAWL_NOT_FOUND);
        CHECK_CODE(pawl_engine(SIZE_MAX, &info), PAWL_NOT_FOUND);
}

TEST(durations_are_read_and_the_ttl_formula_is_kept)
{
        int64_t ms = -1;

        CHECK(pawl_duration("10s", &ms) == PAWL_OK && ms == 10000);
        CHECK(pawl_duration("500ms", &ms) == PAWL_OK && ms == 500);
        CHECK(pawl_duration("1.5m", &ms) == PAWL_OK && ms == 90000);
        CHECK(pawl_duration("3", &ms) == PAWL_OK && ms == 3000);
        CHECK(pawl_duration("soon", &ms) == PAWL_INVALID && ms == 3000);
        CHECK_CODE(pawl_duration(NULL, &ms), PAWL_INVALID);
        CHECK_INT(pawl_ttl_for(5000, 100, 50), 10300);
}
