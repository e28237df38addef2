/* local_stuck_test.c - processes that are stopped in the middle of something, and everybody else: whoever holds and checks
 * other locks, opens the directory, or waits for the stopped one. And a thousand who open at once. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "local_driver.h"

struct shared {
        _Atomic int step;
        _Atomic int failed;
        pthread_barrier_t all_ready, all_open; /* threads of many processes meet here without looking again and again */
        char why[512];
};

static struct shared *shared;
static int fatal_step;

static void share(void)
{
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        REQUIRE(shared != MAP_FAILED);
}

static void nap(int ms)
{
        struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000L};

        nanosleep(&pause, NULL);
}

static int64_t clock_us(clockid_t clock)
{
        struct timespec ts;

        clock_gettime(clock, &ts);
        return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void end(pid_t child)
{
        int status;

        REQUIRE(child > 0);
        kill(child, SIGKILL);
        REQUIRE(waitpid(child, &status, 0) == child);
}

static pawl_client *open_client(const char *path)
{
        struct pawl_why why = {0};
        pawl_client *client = NULL;
        char url[4200];

        snprintf(url, sizeof(url), "local:%s", path);
        if (pawl_open(url, PAWL_OPEN(.why = &why), &client) != PAWL_OK)
                NOTE("open: %s", why.text);
        REQUIRE(client != NULL);
        return client;
}

/* ---- stopped at any step ---------------------------------------------------------------------------------------- */

static void stop_at_step(struct local *local, int point)
{
        (void)point;
        if (atomic_fetch_add(&shared->step, 1) + 1 != fatal_step)
                return;
        local->hook = NULL;
        raise(SIGSTOP);
}

/* Two clients that take two locks from each other in most of the ways there are, and grow the pools. */
static void busy_scene(const char *path)
{
        struct driver one, two;
        struct seat a, b, wait_a, wait_b, many[20];
        char names[20][16];

        if (driver_open(&one, path) != PAWL_OK || driver_open(&two, path) != PAWL_OK)
                _exit(2);
        driver_local(&one)->hook = driver_local(&two)->hook = stop_at_step;
        seat_init(&a, &one, "a");
        seat_init(&b, &two, "b");
        seat_try(&a);
        seat_try(&b);
        seat_init(&wait_a, &two, "a");
        seat_acquire(&wait_a);
        seat_init(&wait_b, &one, "b");
        seat_acquire(&wait_b);
        seat_release(&a);
        (void)GRANTED(&wait_a, &one, &two);
        local_engine.cancel(one.engine, &wait_b.claim);
        seat_release(&wait_a);
        for (int i = 0; i < 20; i++) {
                snprintf(names[i], sizeof(names[i]), "many-%d", i);
                seat_init(&many[i], &one, names[i]);
                seat_try(&many[i]);
        }
        for (int i = 0; i < 20; i++)
                seat_release(&many[i]);
        seat_release(&b);
        driver_close(&one);
        driver_close(&two);
        _exit(0);
}

/* Its own locks, another name, another client: none of them has anything to do with the stopped one. */
static void live_beside_it(pawl_client *client, pawl_lock *mine, const char *path)
{
        int64_t before = clock_us(CLOCK_THREAD_CPUTIME_ID);
        pawl_client *fresh;
        pawl_lock *lock;

        CHECK_INT(pawl_check(mine), PAWL_OK);
        CHECK(clock_us(CLOCK_THREAD_CPUTIME_ID) - before < 1000);
        CHECK_INT(pawl_acquire(client, "another", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &lock), PAWL_OK);
        CHECK_INT(pawl_release(lock), PAWL_OK);
        fresh = open_client(path);
        CHECK_INT(pawl_acquire(fresh, "a third", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &lock), PAWL_OK);
        CHECK_INT(pawl_release(lock), PAWL_OK);
        CHECK_INT(pawl_close(fresh), PAWL_OK);
}

TEST_WITHIN(240, a_process_stopped_at_any_step_is_in_the_way_of_no_other_name)
{
        const char *path = path_in(tap_directory(), "d");
        pawl_client *client;
        pawl_lock *mine;
        bool survived = false;

        share();
        client = open_client(path);
        REQUIRE_INT(pawl_acquire(client, "mine", NULL, &mine), PAWL_OK);
        for (fatal_step = 1; fatal_step < 1000 && !survived; fatal_step++) {
                pid_t child;
                int status;

                atomic_store(&shared->step, 0);
                child = fork();
                if (child == 0)
                        busy_scene(path);
                REQUIRE(waitpid(child, &status, WUNTRACED) == child);
                survived = WIFEXITED(status);
                if (survived)
                        break;
                live_beside_it(client, mine, path);
                end(child);
        }
        CHECK(survived);
        CHECK(fatal_step > 50);
        NOTE("stopped at each of %d steps", fatal_step - 1);
        CHECK_INT(pawl_release(mine), PAWL_OK);
        pawl_close(client);
}

/* ---- stopped while it opens ------------------------------------------------------------------------------------ */

/* A child that opens and closes, and stands still at its nth system call. False if it came to its end. */
static bool stop_opening(const char *path, int nth, pid_t *child)
{
        int status;

        *child = fork();
        if (*child == 0) {
                struct driver driver;

                ptrace(PTRACE_TRACEME, 0, NULL, NULL);
                raise(SIGSTOP);
                driver_open(&driver, path);
                driver_close(&driver);
                _exit(0);
        }
        REQUIRE(*child > 0 && waitpid(*child, &status, 0) == *child);
        if (!WIFSTOPPED(status) || ptrace(PTRACE_SETOPTIONS, *child, NULL, PTRACE_O_EXITKILL) != 0)
                SKIP("no ptrace here");
        for (int i = 0; i < nth; i++) {
                REQUIRE(ptrace(PTRACE_SYSCALL, *child, NULL, NULL) == 0 && waitpid(*child, &status, 0) == *child);
                if (!WIFSTOPPED(status))
                        return false;
        }
        return true;
}

TEST_WITHIN(240, a_process_stopped_while_it_opens_keeps_nobody_from_opening)
{
        const char *path = path_in(tap_directory(), "d");
        pawl_client *client = open_client(path);
        pawl_lock *mine;
        pid_t child;
        int nth;

        REQUIRE_INT(pawl_acquire(client, "mine", NULL, &mine), PAWL_OK);
        for (nth = 1; stop_opening(path, nth, &child); nth++) {
                live_beside_it(client, mine, path);
                end(child);
        }
        CHECK(nth > 30);
        NOTE("stopped at each of %d system calls", nth - 1);
        pawl_close(client);
}

/* The directory is new: a stop while the first state is put into its place, which is one step for all, is the only one that
 * others wait for; they are told for whom. */
TEST_WITHIN(240, a_process_stopped_while_it_makes_the_state_is_named)
{
        int stuck = 0;
        pid_t child;

        for (int nth = 1; stuck == 0; nth += 6) { /* who prepares keeps others for a second each time */
                struct driver driver;
                char path[4096];
                bool stopped;
                int code;

                snprintf(path, sizeof(path), "%s/d%d", tap_directory(), nth);
                stopped = stop_opening(path, nth, &child);
                if (!stopped)
                        break;
                code = driver_open(&driver, path);
                if (code == PAWL_STUCK) {
                        CHECK_HAS(driver.why.text, "has been replacing");
                        stuck += strstr(driver.why.text, "host:1:test") != NULL; /* not in the moment before it signs */
                } else {
                        CHECK_INT(code, PAWL_OK);
                }
                driver_close(&driver);
                end(child);
                CHECK_INT(driver_open(&driver, path), PAWL_OK);
                driver_close(&driver);
        }
        CHECK_INT(stuck, 1);
}

/* ---- waiters for a stuck name ----------------------------------------------------------------------------------- */

static void stop_at_commit(struct local *local, int point)
{
        if (point != 2)
                return;
        local->hook = NULL;
        raise(SIGSTOP);
}

static pid_t stopped_inside(const char *path)
{
        pid_t child = fork();
        int status;

        if (child == 0) {
                struct driver driver;
                struct seat seat;

                driver_must_open(&driver, path);
                seat_init(&seat, &driver, "a");
                driver_local(&driver)->hook = stop_at_commit;
                seat_try(&seat);
                for (;;)
                        pause();
        }
        REQUIRE(child > 0 && waitpid(child, &status, WUNTRACED) == child && WIFSTOPPED(status));
        return child;
}

enum { WAITERS = 40 };

struct waiter {
        pthread_t thread;
        pawl_client *client;
        int code;
        struct pawl_why why;
};

static void *wait_for_stuck(void *arg)
{
        struct waiter *waiter = arg;
        pawl_lock *lock;

        waiter->code = pawl_acquire(waiter->client, "a", PAWL_LOCK(.wait_ms = 2000, .why = &waiter->why), &lock);
        return NULL;
}

static void on_lost(pawl_lock *lock, int reason, void *arg)
{
        (void)lock;
        CHECK_INT(reason, PAWL_REASON_EXPIRED);
        atomic_store((_Atomic int64_t *)arg, clock_us(CLOCK_BOOTTIME));
}

/* Until when it is ours. */
static int64_t hold_for_a_second(pawl_client *client, _Atomic int64_t *lost, pawl_lock **lock)
{
        REQUIRE_INT(pawl_acquire(client, "mine of it",
                                 PAWL_LOCK(.ttl_ms = 1000, .flags = PAWL_NO_RENEW, .mode = PAWL_SHARED,
                                           .on_lost = on_lost, .arg = lost),
                                 lock),
                    PAWL_OK);
        return clock_us(CLOCK_BOOTTIME) + pawl_remaining_ms(*lock) * 1000;
}

TEST_WITHIN(60, a_loss_is_told_in_time_beside_forty_waiters_for_a_stuck_name)
{
        const char *path = path_in(tap_directory(), "d");
        static struct waiter waiters[WAITERS];
        static _Atomic int64_t lost, lost_quietly;
        pawl_client *client = open_client(path), *quiet = open_client(path);
        pid_t child = stopped_inside(path);
        pawl_lock *lock, *control;
        int64_t until, control_until, before;
        int checks = 0;

        for (int i = 0; i < WAITERS; i++) {
                waiters[i].client = client;
                REQUIRE(pthread_create(&waiters[i].thread, NULL, wait_for_stuck, &waiters[i]) == 0);
        }
        nap(100);
        until = hold_for_a_second(client, &lost, &lock);
        control_until = hold_for_a_second(quiet, &lost_quietly, &control);
        before = clock_us(CLOCK_THREAD_CPUTIME_ID);
        for (; pawl_check(lock) == PAWL_OK; checks++)
                nap(5);
        CHECK(clock_us(CLOCK_THREAD_CPUTIME_ID) - before < 1000 * (checks + 1));
        CHECK(clock_us(CLOCK_BOOTTIME) >= until - 1000);
        while (atomic_load(&lost) == 0 || atomic_load(&lost_quietly) == 0)
                nap(1);
        NOTE("told %lld us after the deadline, %lld without waiters", (long long)(lost - until),
             (long long)(lost_quietly - control_until));
        /* It was many seconds; a busy machine and a sanitizer add some hundred ms. */
        CHECK_COMPARE(lost - until, <, 3 * (lost_quietly - control_until) + 2000000);
        for (int i = 0; i < WAITERS; i++) {
                pthread_join(waiters[i].thread, NULL);
                CHECK_INT(waiters[i].code, PAWL_STUCK);
                CHECK_HAS(waiters[i].why.text, "host:1:test");
        }
        end(child);
        CHECK_INT(pawl_close(client), PAWL_OK);
        CHECK_INT(pawl_close(quiet), PAWL_OK);
}

TEST_WITHIN(60, everything_that_is_asked_of_a_stuck_name_says_so_in_time)
{
        const char *path = path_in(tap_directory(), "d");
        pawl_client *client = open_client(path);
        pid_t child = stopped_inside(path);
        struct pawl_why why = {0};
        pawl_lock *lock;

        CHECK_INT(pawl_acquire(client, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT, .why = &why), &lock), PAWL_STUCK);
        CHECK_HAS(why.text, "host:1:test");
        CHECK_INT(pawl_break(client, "a"), PAWL_STUCK);
        CHECK_INT(pawl_ask(client, "a"), PAWL_STUCK);
        kill(child, SIGCONT);
        CHECK_INT(pawl_acquire(client, "a", PAWL_LOCK(.wait_ms = 200), &lock), PAWL_TIMEOUT); /* now it is just held */
        end(child);
        CHECK_INT(pawl_acquire(client, "a", PAWL_LOCK(.wait_ms = 20000), &lock), PAWL_OK);
        CHECK_INT(pawl_release(lock), PAWL_OK);
        pawl_close(client);
}

/* It is ours before the other one stops in our bucket. */
TEST_WITHIN(60, what_is_held_in_a_stuck_bucket_can_be_given_back)
{
        const char *path = path_in(tap_directory(), "d");
        pawl_client *client = open_client(path);
        pawl_lock *lock;
        pid_t child;
        struct driver driver;

        REQUIRE_INT(pawl_acquire(client, "a", PAWL_LOCK(.mode = PAWL_SHARED, .ttl_ms = 60000), &lock), PAWL_OK);
        child = fork();
        if (child == 0) {
                struct driver other;
                struct seat seat;

                driver_must_open(&other, path);
                seat_init(&seat, &other, "a");
                seat.claim.mode = PAWL_SHARED;
                driver_local(&other)->hook = stop_at_commit;
                seat_try(&seat);
                _exit(0);
        }
        REQUIRE(child > 0 && waitpid(child, NULL, WUNTRACED) == child);
        CHECK_INT(pawl_renew(lock), PAWL_STUCK);
        CHECK_INT(pawl_check(lock), PAWL_OK);
        CHECK_INT(pawl_release(lock), PAWL_OK);
        CHECK_INT(pawl_close(client), PAWL_OK);
        end(child);
        driver_must_open(&driver, path);
        CHECK(is_free(&driver, "a"));
        driver_close(&driver);
}

/* ---- a thousand at once ------------------------------------------------------------------------------------------ */

/* It allows no new threads after a fork. */
#if defined(__SANITIZE_THREAD__)
#define THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define THREAD_SANITIZER 1
#endif
#endif
#ifndef THREAD_SANITIZER
#define THREAD_SANITIZER 0
#endif

enum { OPENING_PROCESSES = 25, OPENING_THREADS = 40, OPENING = OPENING_PROCESSES * OPENING_THREADS };

static void *open_with_all(void *arg)
{
        struct pawl_why why = {0};
        pawl_client *client = NULL;

        pthread_barrier_wait(&shared->all_ready);
        if (pawl_open(arg, PAWL_OPEN(.why = &why), &client) != PAWL_OK) {
                memcpy(shared->why, why.text, sizeof(why.text));
                atomic_fetch_add(&shared->failed, 1);
        }
        pthread_barrier_wait(&shared->all_open);
        pawl_close(client);
        return NULL;
}

/* Of all those threads, and of the test itself. */
static void prepare_meeting(pthread_barrier_t *barrier)
{
        pthread_barrierattr_t attributes;

        REQUIRE_INT(pthread_barrierattr_init(&attributes), 0);
        REQUIRE_INT(pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED), 0);
        REQUIRE_INT(pthread_barrier_init(barrier, &attributes, OPENING + 1), 0);
        pthread_barrierattr_destroy(&attributes);
}

static void open_many(const char *path)
{
        pthread_t threads[OPENING_THREADS];
        char url[4200];

        snprintf(url, sizeof(url), "local:%s", path);
        for (int i = 0; i < OPENING_THREADS; i++)
                if (pthread_create(&threads[i], NULL, open_with_all, url) != 0)
                        _exit(1);
        for (int i = 0; i < OPENING_THREADS; i++)
                pthread_join(threads[i], NULL);
        _exit(0);
}

TEST_WITHIN(120, a_thousand_open_at_once_and_none_fails)
{
        const char *path = path_in(tap_directory(), "d");
        pid_t children[OPENING_PROCESSES];
        struct rusage used;
        int64_t before;

        if (THREAD_SANITIZER)
                SKIP("no new threads after a fork with this sanitizer");
        share();
        prepare_meeting(&shared->all_ready);
        prepare_meeting(&shared->all_open);
        for (int i = 0; i < OPENING_PROCESSES; i++) {
                children[i] = fork();
                if (children[i] == 0)
                        open_many(path);
                REQUIRE(children[i] > 0);
        }
        pthread_barrier_wait(&shared->all_ready);
        before = clock_us(CLOCK_BOOTTIME);
        pthread_barrier_wait(&shared->all_open);
        NOTE("%lld ms", (long long)(clock_us(CLOCK_BOOTTIME) - before) / 1000);
        for (int i = 0; i < OPENING_PROCESSES; i++) {
                int status;

                REQUIRE(waitpid(children[i], &status, 0) == children[i]);
                CHECK_INT(status, 0);
        }
        if (shared->why[0] != '\0')
                NOTE("%s", shared->why);
        CHECK_INT(atomic_load(&shared->failed), 0);
        REQUIRE(getrusage(RUSAGE_CHILDREN, &used) == 0);
        NOTE("%ld s of processor time", used.ru_utime.tv_sec + used.ru_stime.tv_sec);
        CHECK(used.ru_utime.tv_sec + used.ru_stime.tv_sec < 30);
}
