/* local_engine_test.c - what is true of the embedded engine alone: death at any step, stopped processes, capacity, tokens,
 * namespaces, no system call. What is true of every engine is in tests/contract. */
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "local_driver.h"

/* What a test and its children share. */
struct shared {
        _Atomic int step;
        _Atomic int ready;
        _Atomic uint64_t token; /* the greatest given out */
};

static struct shared *share(void)
{
        struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        REQUIRE(shared != MAP_FAILED);
        return shared;
}

static void note_token(struct shared *shared, uint64_t token)
{
        uint64_t greatest = atomic_load(&shared->token);

        while (token > greatest && !atomic_compare_exchange_weak(&shared->token, &greatest, token))
                continue;
}

static void nap(int ms)
{
        struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = (ms % 1000) * 1000000L};

        nanosleep(&pause, NULL);
}

static void await(_Atomic int *value, int wanted)
{
        for (int i = 0; i < 10000 && atomic_load(value) < wanted; i++)
                nap(1);
        REQUIRE(atomic_load(value) >= wanted);
}

/* Gives what became of it. One that could not be forked must not become everybody. */
static int end(pid_t child, int how)
{
        int status;

        REQUIRE(child > 0);
        kill(child, how);
        REQUIRE(waitpid(child, &status, 0) == child);
        return status;
}

/* Acquires, waiting as long as it takes, notes the token, releases. */
static void use(struct driver *driver, const char *name, struct shared *shared)
{
        struct seat seat;

        seat_init(&seat, driver, name);
        seat_acquire(&seat);
        REQUIRE(GRANTED(&seat, driver));
        CHECK(seat.token > atomic_load(&shared->token));
        note_token(shared, seat.token);
        CHECK_INT(seat_release(&seat), PAWL_OK);
}

/* ---- system calls ----------------------------------------------------------------------------------------------- */

static void allow_only_exit(void)
{
        struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
        };
        struct sock_fprog program = {.len = sizeof(filter) / sizeof(filter[0]), .filter = filter};

        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
                _exit(77);
}

static void pairs(struct driver *driver, int count)
{
        int64_t now = loop_now(&driver->loop);
        struct seat seat;
        struct grant grant;

        seat_init(&seat, driver, "steady");
        for (int i = 0; i < count; i++)
                if (local_instant.acquire(driver->engine, &seat.claim, now, &grant) != PAWL_OK ||
                    local_instant.release(driver->engine, &seat.claim, now) != PAWL_OK)
                        _exit(1);
}

TEST(a_lock_that_is_free_is_taken_and_given_back_without_a_system_call)
{
        const char *path = path_in(tap_directory(), "d");
        pid_t child = fork();
        int status;

        if (child == 0) {
                struct driver driver;

                if (driver_open(&driver, path) != PAWL_OK)
                        _exit(2);
                pairs(&driver, 10);
                allow_only_exit();
                pairs(&driver, 20000);
                syscall(SYS_exit_group, 0);
        }
        REQUIRE(waitpid(child, &status, 0) == child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
                SKIP("no seccomp here");
        CHECK_INT(status, 0);
}

/* ---- death at any step -------------------------------------------------------------------------------------------- */

static struct shared *steps;
static int deadly_step;

static void die_at_step(struct local *local, int point)
{
        (void)local;
        (void)point;
        if (atomic_fetch_add(&steps->step, 1) + 1 == deadly_step)
                kill(getpid(), SIGKILL);
}

/* Two engines that take two locks from each other in every way there is. */
static void busy_scene(const char *path)
{
        struct driver one, two;
        struct seat a, b, wait_a, wait_b, shared_a[3];

        if (driver_open(&one, path) != PAWL_OK || driver_open(&two, path) != PAWL_OK)
                _exit(2);
        driver_local(&one)->hook = driver_local(&two)->hook = die_at_step;
        seat_init(&a, &one, "a");
        seat_init(&b, &two, "b");
        seat_try(&a);
        note_token(steps, a.token);
        seat_try(&b);
        note_token(steps, b.token);
        seat_init(&wait_a, &two, "a");
        seat_acquire(&wait_a);
        seat_init(&wait_b, &one, "b");
        seat_acquire(&wait_b);
        for (int i = 0; i < 3; i++) {
                seat_init(&shared_a[i], i == 1 ? &two : &one, "a");
                shared_a[i].claim.mode = PAWL_SHARED;
                seat_acquire(&shared_a[i]);
        }
        seat_release(&a);
        (void)GRANTED(&wait_a, &one, &two);
        note_token(steps, wait_a.token);
        local_engine.cancel(one.engine, &wait_b.claim);
        seat_release(&wait_a);
        for (int i = 0; i < 3; i++)
                (void)GRANTED(&shared_a[i], &one, &two);
        for (int i = 0; i < 3; i++) {
                note_token(steps, shared_a[i].token);
                seat_release(&shared_a[i]);
        }
        seat_release(&b);
        driver_close(&one);
        driver_close(&two);
        _exit(0);
}

TEST_WITHIN(120, a_process_may_die_at_any_step_and_the_lock_goes_on)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver watcher;
        bool survived = false;

        steps = share();
        driver_must_open(&watcher, path);
        for (deadly_step = 1; deadly_step < 1000 && !survived; deadly_step++) {
                pid_t child;
                int status;

                atomic_store(&steps->step, 0);
                child = fork();
                if (child == 0)
                        busy_scene(path);
                REQUIRE(waitpid(child, &status, 0) == child);
                survived = WIFEXITED(status);
                use(&watcher, "a", steps);
                use(&watcher, "b", steps);
        }
        CHECK(survived);
        CHECK(deadly_step > 20);
        NOTE("died at each of %d steps", deadly_step - 2);
        driver_close(&watcher);
}

TEST(a_dead_process_leaves_no_entry_behind)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver watcher;

        local_set_capacity(16, 16, 64);
        steps = share();
        driver_must_open(&watcher, path);
        for (int i = 0; i < 50; i++) {
                pid_t child = fork();
                int status;

                if (child == 0) {
                        struct driver driver;
                        struct seat held, waiting;

                        driver_must_open(&driver, path);
                        seat_init(&held, &driver, "a");
                        REQUIRE_INT(seat_try(&held), PAWL_OK);
                        seat_init(&waiting, &driver, "a");
                        seat_acquire(&waiting);
                        kill(getpid(), SIGKILL);
                }
                REQUIRE(waitpid(child, &status, 0) == child);
        }
        use(&watcher, "a", steps);
        driver_close(&watcher);
}

/* A child that acquires with a lock-delay, and is killed. */
static void die_holding(const char *path, int64_t ttl, int64_t delay)
{
        pid_t child = fork();
        int status;

        if (child == 0) {
                struct driver driver;
                struct seat seat;

                driver_must_open(&driver, path);
                seat_init(&seat, &driver, "a");
                seat.claim.ttl = ttl;
                seat.claim.delay = delay;
                REQUIRE_INT(seat_try(&seat), PAWL_OK);
                kill(getpid(), SIGKILL);
        }
        REQUIRE(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
}

TEST(a_holder_that_died_long_ago_makes_nobody_wait)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver driver;

        driver_must_open(&driver, path);
        die_holding(path, 100 * MS, 200 * MS);
        nap(400);
        CHECK(is_free(&driver, "a"));
        die_holding(path, 100 * MS, 3600 * SECOND);
        nap(200);
        CHECK(!is_free(&driver, "a"));
        driver_close(&driver);
}

/* ---- stopped inside ------------------------------------------------------------------------------------------------ */

static void stop_at_commit(struct local *local, int point)
{
        if (point != 2)
                return;
        local->hook = NULL;
        atomic_store(&steps->ready, 1);
        raise(SIGSTOP);
}

static pid_t stopped_inside(const char *path)
{
        pid_t child = fork();

        if (child == 0) {
                struct driver driver;
                struct seat seat;

                driver_must_open(&driver, path);
                seat_init(&seat, &driver, "a");
                driver_local(&driver)->hook = stop_at_commit;
                seat_try(&seat);
                seat_release(&seat);
                atomic_store(&steps->ready, 2);
                for (;;)
                        pause();
        }
        await(&steps->ready, 1);
        nap(20);
        return child;
}

TEST(a_process_stopped_inside_delays_others_and_cannot_be_robbed)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver driver;
        struct seat waiting;
        pid_t child;

        steps = share();
        driver_must_open(&driver, path);
        child = stopped_inside(path);
        CHECK(!is_free(&driver, "a"));
        seat_init(&waiting, &driver, "a");
        seat_acquire(&waiting);
        CHECK(!waiting.granted);
        kill(child, SIGCONT);
        CHECK(GRANTED(&waiting, &driver));
        CHECK_INT(seat_release(&waiting), PAWL_OK);
        end(child, SIGKILL);
        driver_close(&driver);
}

TEST(a_process_killed_while_stopped_inside_frees_the_lock)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver driver;
        struct seat waiting;
        pid_t child;

        steps = share();
        driver_must_open(&driver, path);
        child = stopped_inside(path);
        seat_init(&waiting, &driver, "a");
        seat_acquire(&waiting);
        end(child, SIGKILL);
        CHECK(GRANTED(&waiting, &driver));
        driver_close(&driver);
}

TEST(a_wait_for_a_stopped_process_can_be_cancelled)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver driver;
        struct seat waiting;
        struct pawl_why why = {0};
        pid_t child;

        steps = share();
        driver_must_open(&driver, path);
        child = stopped_inside(path);
        seat_init(&waiting, &driver, "a");
        seat_acquire(&waiting);
        CHECK_INT(local_engine.overdue(driver.engine, &waiting.claim, &why), PAWL_STUCK); /* was it free? */
        CHECK_HAS(why.text, "host:1:test");
        local_engine.cancel(driver.engine, &waiting.claim);
        CHECK_INT(waiting.refused, PAWL_CANCELLED);
        end(child, SIGKILL);
        CHECK(is_free(&driver, "a"));
        driver_close(&driver);
}

TEST(a_waiter_that_does_not_take_its_turn_loses_it_but_not_its_place)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver one, slow, quick;
        struct seat held, first, second;

        driver_must_open(&one, path);
        driver_must_open(&slow, path);
        driver_must_open(&quick, path);
        seat_init(&held, &one, "a");
        REQUIRE_INT(seat_try(&held), PAWL_OK);
        seat_init(&first, &slow, "a");
        seat_acquire(&first);
        seat_init(&second, &quick, "a");
        seat_acquire(&second);
        CHECK_INT(seat_release(&held), PAWL_OK);
        CHECK(GRANTED(&second, &quick)); /* slow's loop does not turn */
        CHECK_INT(first.granted, 0);
        seat_init(&held, &one, "a");
        seat_acquire(&held);
        for (int i = 0; i < 100; i++)
                drivers_turn((struct driver *[]){&slow, &one}, 2);
        CHECK_INT(seat_release(&second), PAWL_OK);
        CHECK(GRANTED(&first, &slow, &one));
        CHECK_INT(held.granted, 0);
        CHECK(first.token > second.token);
        CHECK_INT(seat_release(&first), PAWL_OK);
        CHECK(GRANTED(&held, &one));
        driver_close(&one);
        driver_close(&slow);
        driver_close(&quick);
}

/* ---- lifelines ------------------------------------------------------------------------------------------------------ */

TEST(a_forked_child_does_not_keep_its_dead_parent_alive)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver driver;
        pid_t parent;
        pid_t grandchild;

        steps = share();
        driver_must_open(&driver, path);
        parent = fork();
        if (parent == 0) {
                struct driver own;
                struct seat seat;
                pid_t child;

                driver_must_open(&own, path);
                seat_init(&seat, &own, "a");
                seat.claim.ttl = 3600 * SECOND;
                REQUIRE_INT(seat_try(&seat), PAWL_OK);
                child = fork();
                if (child != 0)
                        atomic_store(&steps->ready, (int)child);
                for (;;)
                        pause();
        }
        await(&steps->ready, 1);
        grandchild = (pid_t)atomic_load(&steps->ready);
        nap(20);
        CHECK(!is_free(&driver, "a"));
        end(parent, SIGKILL);
        use(&driver, "a", steps);
        kill(grandchild, SIGKILL);
        driver_close(&driver);
}

/* In a PID namespace of its own: runs there as process 1. */
static pid_t fork_into_namespace(void)
{
        pid_t child = fork();

        if (child != 0)
                return child;
        if (unshare(CLONE_NEWPID) != 0)
                _exit(77);
        child = fork();
        if (child == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                return 0;
        }
        int status;
        waitpid(child, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 1);
}

TEST(processes_of_two_pid_namespaces_share_a_directory)
{
        const char *path = path_in(tap_directory(), "d");
        pid_t holder, waiter;
        int status;

        if (geteuid() != 0)
                SKIP("needs root");
        steps = share();
        holder = fork_into_namespace();
        if (holder == 0) {
                struct driver driver;
                struct seat seat;

                driver_must_open(&driver, path);
                seat_init(&seat, &driver, "a");
                seat.claim.ttl = 3600 * SECOND;
                REQUIRE_INT(seat_try(&seat), PAWL_OK);
                note_token(steps, seat.token);
                atomic_store(&steps->ready, 1);
                for (;;)
                        pause();
        }
        for (int i = 0; i < 5000 && atomic_load(&steps->ready) == 0; i++) {
                if (waitpid(holder, &status, WNOHANG) == holder)
                        SKIP("cannot have a PID namespace");
                nap(1);
        }
        waiter = fork_into_namespace();
        if (waiter == 0) {
                struct driver driver;
                struct seat seat;

                driver_must_open(&driver, path);
                seat_init(&seat, &driver, "a");
                seat_acquire(&seat);
                for (int i = 0; i < 100; i++)
                        drivers_turn((struct driver *[]){&driver}, 1);
                if (seat.granted)
                        _exit(3);
                atomic_store(&steps->ready, 2);
                _exit(GRANTED(&seat, &driver) && seat.token > atomic_load(&steps->token) ? 0 : 4);
        }
        await(&steps->ready, 2);
        end(holder, SIGKILL);
        REQUIRE(waitpid(waiter, &status, 0) == waiter);
        CHECK_INT(status, 0);
}

/* ---- tokens --------------------------------------------------------------------------------------------------------- */

TEST(tokens_are_reserved_on_disk_before_they_are_given_out)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver driver;
        struct seat seat;
        uint64_t last = 0;

        driver_must_open(&driver, path);
        for (int i = 0; i < 3 * TOKEN_BLOCK; i++) {
                seat_init(&seat, &driver, "a");
                if (seat_try(&seat) != PAWL_OK || seat.token <= last ||
                    seat.token > atomic_load(&driver_local(&driver)->durable->limit) || seat_release(&seat) != PAWL_OK)
                        break;
                last = seat.token;
        }
        CHECK_UINT(seat.token, last);
        CHECK(last < UINT64_C(1) << 53);
        driver_close(&driver);
}

/* Takes and gives back until it is killed, or until a token is not new. */
static _Noreturn void take_and_give(const char *path)
{
        struct driver driver;

        driver_must_open(&driver, path);
        for (;;) {
                struct seat seat;

                seat_init(&seat, &driver, "a");
                seat_acquire(&seat);
                if (!GRANTED(&seat, &driver) || seat.token <= atomic_load(&steps->token))
                        _exit(1);
                note_token(steps, seat.token);
                if (seat_release(&seat) != PAWL_OK)
                        _exit(2);
        }
}

/* Every third child dies wherever it has come to, the others after their first grant. */
TEST(no_token_is_repeated_over_deaths)
{
        const char *path = path_in(tap_directory(), "d");

        steps = share();
        for (int round = 0; round < 30; round++) {
                uint64_t before = atomic_load(&steps->token);
                pid_t child = fork();

                if (child == 0)
                        take_and_give(path);
                for (int i = 0; round % 3 != 0 && i < 10000 && atomic_load(&steps->token) == before; i++)
                        nap(1);
                nap(round);
                CHECK_INT(end(child, SIGKILL), SIGKILL);
                CHECK(round % 3 == 0 || atomic_load(&steps->token) > before);
        }
}

/* ---- detached ------------------------------------------------------------------------------------------------------ */

/* Two claims that must not have got the same entry. */
static void checks_that_entries_are_single(struct driver *driver)
{
        struct seat seats[8];
        char names[8][8];

        for (int i = 0; i < 8; i++) {
                snprintf(names[i], sizeof(names[i]), "n%d", i);
                seat_init(&seats[i], driver, names[i]);
                REQUIRE_INT(seat_try(&seats[i]), PAWL_OK);
                for (int j = 0; j < i; j++)
                        CHECK(seats[i].part.entry != seats[j].part.entry);
        }
        for (int i = 0; i < 8; i++)
                CHECK_INT(seat_release(&seats[i]), PAWL_OK);
}

TEST(a_lease_known_to_two_handles_is_given_back_once)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver driver;
        struct seat first, second;
        char word[PAWL_LEASE_MAX + 1];

        driver_must_open(&driver, path);
        seat_init(&first, &driver, "a");
        first.claim.detached = true;
        REQUIRE_INT(seat_try(&first), PAWL_OK);
        REQUIRE_INT(local_leases.word(driver.engine, &first.claim, word, sizeof(word)), PAWL_OK);
        seat_init(&second, &driver, "a");
        second.claim.detached = true;
        local_leases.adopt(driver.engine, &second.claim, word);
        REQUIRE_INT(second.granted, 1);
        CHECK_UINT(second.token, first.token);
        CHECK_INT(seat_release(&second), PAWL_OK);
        CHECK_INT(seat_release(&first), PAWL_LOST);
        checks_that_entries_are_single(&driver);
        driver_close(&driver);
}

TEST(a_detached_lease_renewed_too_late_is_gone_once)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver driver;
        struct seat seat;
        struct claim *claims[1] = {&seat.claim};

        driver_must_open(&driver, path);
        seat_init(&seat, &driver, "a");
        seat.claim.detached = true;
        seat.claim.ttl = 20 * MS;
        REQUIRE_INT(seat_try(&seat), PAWL_OK);
        nap(40);
        local_engine.renew(driver.engine, claims, 1);
        CHECK_INT(seat.gone, PAWL_REASON_TAKEN);
        checks_that_entries_are_single(&driver);
        driver_close(&driver);
}

/* ---- the bell -------------------------------------------------------------------------------------------------------- */

static void ignore_answer(struct inquiry *inquiry, int code, const char *why)
{
        (void)inquiry;
        (void)why;
        CHECK_INT(code, PAWL_OK);
}

TEST(a_bell_that_could_not_be_rung_is_rung_the_next_time)
{
        const char *path = path_in(tap_directory(), "d");
        struct inquiry inquiry = {.name = "a", .answered = ignore_answer};
        struct rlimit before, none;
        struct driver one, two;
        struct seat held;

        driver_must_open(&one, path);
        driver_must_open(&two, path);
        seat_init(&held, &two, "a");
        seat_acquire(&held);
        REQUIRE_INT(held.granted, 1);
        REQUIRE_INT(getrlimit(RLIMIT_NOFILE, &before), 0);
        none = (struct rlimit){.rlim_cur = 0, .rlim_max = before.rlim_max};
        REQUIRE_INT(setrlimit(RLIMIT_NOFILE, &none), 0);
        local_inspect.ask(one.engine, &inquiry);
        REQUIRE_INT(setrlimit(RLIMIT_NOFILE, &before), 0);
        local_inspect.break_(one.engine, &inquiry);
        for (int i = 0; i < 1000 && !held.gone; i++)
                drivers_turn((struct driver *[]){&two}, 1);
        CHECK_INT(held.gone, PAWL_REASON_BROKEN);
        driver_close(&one);
        driver_close(&two);
}

static char reason_told[PAWL_BREAK_REASON_MAX + 1], by_told[PAST_OWNER];

static void note_reason(struct inquiry *inquiry, const struct pawl_entry *entry)
{
        (void)inquiry;
        CHECK_INT(entry->how, PAWL_HOW_BROKEN);
        snprintf(reason_told, sizeof(reason_told), "%s", entry->reason);
        snprintf(by_told, sizeof(by_told), "%s", entry->broken_by);
}

TEST(who_broke_a_lock_is_known_of_the_last_that_were_broken)
{
        const char *path = path_in(tap_directory(), "d");
        enum { MANY = BREAKAGES + 4 };
        struct driver one, two;
        struct seat held[MANY];
        char names[MANY][8], reason[16];

        driver_must_open(&one, path);
        driver_must_open(&two, path);
        for (int i = 0; i < MANY; i++) {
                struct inquiry inquiry = {.name = names[i], .reason = reason, .answered = ignore_answer};

                snprintf(names[i], sizeof(names[i]), "n%d", i);
                snprintf(reason, sizeof(reason), "reason %d", i);
                seat_init(&held[i], &one, names[i]);
                REQUIRE_INT(seat_try(&held[i]), PAWL_OK);
                local_inspect.break_(two.engine, &inquiry);
        }
        for (int i = 0; i < MANY; i++) {
                struct inquiry inquiry = {.name = names[i], .entry = note_reason, .answered = ignore_answer};

                reason_told[0] = '?';
                local_inspect.history(one.engine, &inquiry);
                snprintf(reason, sizeof(reason), "reason %d", i);
                CHECK_STR(reason_told, i < MANY - BREAKAGES ? "" : reason);
                CHECK_STR(by_told, i < MANY - BREAKAGES ? "" : driver_local(&two)->brief);
        }
        driver_close(&two);
        driver_close(&one);
}

/* It closes before it hears of what was asked; its entry and its slot go to two others. */
TEST(what_was_in_the_news_of_a_closed_client_is_no_news_of_the_next_in_its_slot)
{
        const char *path = path_in(tap_directory(), "d");
        struct inquiry inquiry = {.name = "a", .answered = ignore_answer};
        struct driver first, asker, heir, next;
        struct seat held, seats[16], other;
        char names[16][8];
        uint32_t slot, entry;
        bool reused = false;

        driver_must_open(&first, path);
        driver_must_open(&asker, path);
        driver_must_open(&heir, path);
        seat_init(&held, &first, "a");
        REQUIRE_INT(seat_try(&held), PAWL_OK);
        slot = driver_local(&first)->slot;
        entry = held.part.entry;
        local_inspect.ask(asker.engine, &inquiry);
        driver_close(&first);
        for (int i = 0; i < 16; i++) {
                snprintf(names[i], sizeof(names[i]), "n%d", i);
                seat_init(&seats[i], &heir, names[i]);
                REQUIRE_INT(seat_try(&seats[i]), PAWL_OK);
                reused |= seats[i].part.entry == entry;
        }
        REQUIRE(reused);
        driver_must_open(&next, path);
        REQUIRE(driver_local(&next)->slot == slot);
        seat_init(&other, &next, "b");
        REQUIRE_INT(seat_try(&other), PAWL_OK);
        for (int i = 0; i < 16; i++) {
                inquiry.name = names[i];
                local_inspect.ask(asker.engine, &inquiry);
        }
        inquiry.name = "b";
        local_inspect.ask(asker.engine, &inquiry);
        for (int i = 0; i < 1000 && !other.asked; i++)
                drivers_turn((struct driver *[]){&next}, 1);
        CHECK_INT(other.asked, 1);
        for (int i = 0; i < 1000 && !seats[0].asked; i++)
                drivers_turn((struct driver *[]){&heir}, 1);
        for (int i = 0; i < 16; i++)
                CHECK_INT(seats[i].asked, 1);
        driver_close(&next);
        driver_close(&heir);
        driver_close(&asker);
}

/* The bucket is another's for so long that the release is given up; meanwhile the entry is listed. */
TEST(an_entry_that_was_given_up_stays_its_owners_while_it_is_in_the_news)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver one, two;
        struct seat held;
        struct entry *entry;
        struct word *word;

        driver_must_open(&one, path);
        driver_must_open(&two, path);
        seat_init(&held, &one, "a");
        REQUIRE_INT(seat_try(&held), PAWL_OK);
        entry = entry_at(driver_local(&one), held.part.entry);
        word = &driver_local(&one)->buckets[held.part.bucket].word;
        atomic_store(&word->owner, driver_local(&two)->id);
        CHECK_INT(seat_release(&held), PAWL_OK);
        news_list(driver_local(&two), entry);
        atomic_store(&word->owner, 0);
        CHECK(is_free(&two, "a"));
        CHECK(entry_owner(entry) == driver_local(&one)->id);
        checks_that_entries_are_single(&two);
        CHECK(entry_state(entry) == LEFT);
        CHECK(bell_ring(driver_local(&two), driver_local(&one)->id));
        for (int i = 0; i < 1000 && entry_state(entry) != FREE; i++)
                drivers_turn((struct driver *[]){&one}, 1);
        CHECK(entry_state(entry) == FREE);
        CHECK((entry_flags(entry) & (LISTED | AWAY | GIVEN_UP)) == 0);
        checks_that_entries_are_single(&one);
        driver_close(&one);
        driver_close(&two);
}

TEST(a_detached_lease_in_a_stuck_bucket_is_left_to_run_out)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver one, two;
        struct seat held;
        struct word *word;

        driver_must_open(&one, path);
        driver_must_open(&two, path);
        seat_init(&held, &one, "a");
        held.claim.detached = true;
        held.claim.ttl = 1 * SECOND;
        REQUIRE_INT(seat_try(&held), PAWL_OK);
        word = &driver_local(&one)->buckets[held.part.bucket].word;
        atomic_store(&word->owner, driver_local(&two)->id);
        CHECK_INT(seat_release(&held), PAWL_STUCK);
        atomic_store(&word->owner, 0);
        CHECK(!is_free(&two, "a"));
        nap(1100);
        CHECK(is_free(&two, "a"));
        driver_close(&one);
        driver_close(&two);
}

TEST(a_lock_that_is_known_to_be_gone_does_not_stand)
{
        const char *path = path_in(tap_directory(), "d");
        struct inquiry inquiry = {.name = "a", .answered = ignore_answer};
        struct driver one, two;
        struct seat held;

        driver_must_open(&one, path);
        driver_must_open(&two, path);
        seat_init(&held, &two, "a");
        REQUIRE_INT(seat_try(&held), PAWL_OK);
        CHECK(local_instant.stands(two.engine, &held.claim));
        local_inspect.break_(one.engine, &inquiry);
        CHECK(!local_instant.stands(two.engine, &held.claim));
        for (int i = 0; i < 1000 && !held.gone; i++)
                drivers_turn((struct driver *[]){&two}, 1);
        CHECK_INT(held.gone, PAWL_REASON_BROKEN);
        CHECK(!local_instant.stands(two.engine, &held.claim));
        driver_close(&one);
        driver_close(&two);
}

/* ---- capacity ------------------------------------------------------------------------------------------------------- */

enum { MANY = 100000 };

TEST_WITHIN(120, a_hundred_thousand_names_are_held_at_once)
{
        const char *path = path_in(tap_directory(), "d");
        struct seat *seats = calloc(MANY, sizeof(*seats));
        char(*names)[16] = calloc(MANY, sizeof(*names));
        struct driver driver;
        int held = 0;

        REQUIRE(seats != NULL && names != NULL);
        driver_must_open(&driver, path);
        for (; held < MANY; held++) {
                snprintf(names[held], sizeof(names[held]), "name %d", held);
                seat_init(&seats[held], &driver, names[held]);
                seats[held].claim.ttl =
                        3600 * SECOND; /* nothing renews them, and a busy machine needs long for so many */
                if (seat_try(&seats[held]) != PAWL_OK)
                        break;
        }
        CHECK_INT(held, MANY);
        CHECK(!is_free(&driver, names[0]));
        CHECK(!is_free(&driver, names[MANY - 1]));
        for (int i = 0; i < held; i++)
                if (seat_release(&seats[i]) != PAWL_OK)
                        CHECK(false);
        CHECK(is_free(&driver, names[MANY / 2]));
        driver_close(&driver);
        free(seats);
        free(names);
}

TEST_WITHIN(120, a_hundred_thousand_wait_for_one_lock_and_are_served_in_order)
{
        const char *path = path_in(tap_directory(), "d");
        struct seat *seats = calloc(MANY, sizeof(*seats));
        struct driver one, two;
        struct seat held;
        int served = 0;

        REQUIRE(seats != NULL);
        driver_must_open(&one, path);
        driver_must_open(&two, path);
        seat_init(&held, &one, "a");
        held.claim.ttl = 3600 * SECOND;
        REQUIRE_INT(seat_try(&held), PAWL_OK);
        for (int i = 0; i < MANY; i++) {
                seat_init(&seats[i], &two, "a");
                seats[i].claim.ttl = 3600 * SECOND;
                seat_acquire(&seats[i]);
        }
        CHECK_INT(seats[MANY - 1].refused, 0);
        CHECK_INT(seat_release(&held), PAWL_OK);
        for (; served < MANY; served++)
                if (!GRANTED(&seats[served], &two) || seat_release(&seats[served]) != PAWL_OK)
                        break;
        CHECK_INT(served, MANY);
        driver_close(&one);
        driver_close(&two);
        free(seats);
}

TEST(beyond_its_capacity_it_says_so)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver one, two, three;
        struct seat seats[40];
        char names[40][8];

        local_set_capacity(2, 8, 32);
        driver_must_open(&one, path);
        driver_must_open(&two, path);
        CHECK_INT(driver_open(&three, path), PAWL_FULL);
        CHECK_HAS(three.why.text, "2 clients");
        for (int i = 0; i < 9; i++) {
                snprintf(names[i], sizeof(names[i]), "n%d", i);
                seat_init(&seats[i], &one, names[i]);
                CHECK_INT(seat_try(&seats[i]), i < 8 ? PAWL_OK : PAWL_FULL);
        }
        CHECK_HAS(driver_local(&one)->why.text, "8 names");
        for (int i = 10; i < 40; i++) {
                seat_init(&seats[i], &one, "n0");
                seat_acquire(&seats[i]);
                if (seats[i].refused)
                        break;
                CHECK(i < 39);
        }
        CHECK_HAS(driver_local(&one)->why.text, "32 claims");
        driver_close(&one);
        driver_close(&two);
}

TEST(names_that_nobody_uses_make_room_for_others)
{
        const char *path = path_in(tap_directory(), "d");
        struct driver driver;
        struct seat kept;
        char name[16];

        local_set_capacity(2, 8, 32);
        driver_must_open(&driver, path);
        seat_init(&kept, &driver, "kept");
        REQUIRE_INT(seat_try(&kept), PAWL_OK);
        for (int i = 0; i < 1000; i++) {
                snprintf(name, sizeof(name), "name %d", i);
                if (!is_free(&driver, name))
                        CHECK_STR(name, "free");
        }
        CHECK(!is_free(&driver, "kept"));
        CHECK_INT(seat_release(&kept), PAWL_OK);
        driver_close(&driver);
}

TEST(a_waiter_that_lost_its_turn_finds_its_name_again_although_it_was_recycled)
{
        const char *path = path_in(tap_directory(), "d");
        struct seat held, waiter, others[8];
        struct driver one, two;
        char names[8][8];

        local_set_capacity(2, 8, 64);
        driver_must_open(&one, path);
        driver_must_open(&two, path);
        seat_init(&held, &one, "a");
        seat_init(&waiter, &two, "a");
        REQUIRE_INT(seat_try(&held), PAWL_OK);
        seat_acquire(&waiter);
        CHECK_INT(seat_release(&held), PAWL_OK);
        nap(600); /* handed over, and not taken up in time */
        CHECK(is_free(&one, "a"));
        for (int i = 0; i < 8; i++) {
                snprintf(names[i], sizeof(names[i]), "n%d", i);
                seat_init(&others[i], &one, names[i]);
                REQUIRE_INT(seat_try(&others[i]), PAWL_OK); /* the last one where "a" was */
        }
        CHECK_INT(seat_release(&others[0]), PAWL_OK);
        REQUIRE(GRANTED(&waiter, &two));
        CHECK(!is_free(&one, "a"));
        CHECK_INT(seat_release(&waiter), PAWL_OK);
        CHECK(is_free(&one, "a"));
        for (int i = 1; i < 8; i++)
                CHECK_INT(seat_release(&others[i]), PAWL_OK);
        driver_close(&one);
        driver_close(&two);
}

/* ---- many waiters ---------------------------------------------------------------------------------------------------- */

static double hand_offs_per_second(const char *path, int waiters)
{
        struct seat *seats = calloc((size_t)waiters, sizeof(*seats));
        struct driver driver;
        int64_t begin;
        enum { TURNS = 20000 };

        REQUIRE(seats != NULL);
        driver_must_open(&driver, path);
        for (int i = 0; i < waiters; i++) {
                seat_init(&seats[i], &driver, "a");
                seats[i].claim.ttl = 3600 * SECOND;
                seat_acquire(&seats[i]);
        }
        begin = loop_now(&driver.loop);
        for (int turn = 0; turn < TURNS; turn++) {
                struct seat *seat = &seats[turn % waiters];

                if (!seat->granted || seat_release(seat) != PAWL_OK) {
                        CHECK_INT(turn, -1);
                        break;
                }
                seat_init(seat, &driver, "a");
                seat->claim.ttl = 3600 * SECOND;
                seat_acquire(seat);
        }
        double rate = TURNS * 1e9 / (double)(loop_now(&driver.loop) - begin);
        driver_close(&driver);
        free(seats);
        return rate;
}

TEST(a_hand_off_costs_the_same_with_ten_thousand_waiters_as_with_ten)
{
        const char *path = path_in(tap_directory(), "d");
        double best = 0;

        for (int i = 0; i < 5 && best < 0.5; i++) {
                double few = hand_offs_per_second(path, 10);
                double many = hand_offs_per_second(path, 10000);

                if (many / few > best)
                        best = many / few;
        }
        NOTE("10,000 waiters: %.2f of the rate with 10", best);
        CHECK(best > 0.2); /* memory is further away; a walk along the queue would make it 0.001 */
}
