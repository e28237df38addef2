/* test_forks.c - children without exec, and processes that are pid 1 in namespaces of their own. */
#include <string.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"
#include "tap.h"

TEST_WITHIN(600, forked_children_that_linger_keep_no_lock_alive)
{
        struct rig rig;
        struct findings findings;
        struct plan plan;
        int64_t end;

        rig_open(&rig);
        plan = rig_plan(&rig, 3, 1000, HABIT_FORK | HABIT_LINGER | HABIT_TIMEOUT | HABIT_ASYNC);
        end = boottime_now() + rig_seconds(6) * SECOND;
        for (unsigned i = 0; i < 6; i++)
                rig_work(&rig, &plan);
        while (boottime_now() < end) {
                struct child *victim = rig_any(&rig);

                sleep_ns((int64_t)rig_chance(&rig, 80 * MS));
                rig_kill(&rig, victim);
                rig_wait(&rig, victim, 10 * SECOND);
                rig_work(&rig, &plan);
        }
        rig_finish(&rig, 30 * SECOND);
        rig_judge(&rig, &findings);
        rig_expect_clean(&rig, &findings);
        CHECK(findings.kills >= 20);
        findings_free(&findings);
        rig_close(&rig);
}

/* ---- one parent, one child -------------------------------------------------------------------------------------- */

struct family {
        const char *url;
        atomic_int held;
        atomic_int child;
};

/* The child outlives the parent by far; only the parent's death counts. */
static int hold_with_a_child(void *arg)
{
        struct family *family = arg;
        pawl_client *client;
        pawl_lock *lock;
        pid_t pid;

        if (pawl_open(family->url, NULL, &client) != PAWL_OK)
                return WORKER_CANNOT_OPEN;
        if (pawl_acquire(client, "chaos/0", PAWL_LOCK(.ttl_ms = 60000), &lock) != PAWL_OK)
                return WORKER_SURPRISED;
        pid = fork();
        if (pid < 0)
                return WORKER_SURPRISED;
        if (pid == 0) {
                sleep_ns(20 * SECOND);
                _exit(0);
        }
        atomic_store(&family->child, pid);
        atomic_store(&family->held, 1);
        for (;;)
                pause();
}

TEST_WITHIN(120, a_dead_parents_lock_is_free_although_its_child_lives)
{
        struct rig rig;
        struct family *family = rig_share(sizeof *family);
        struct visit *visit = rig_share(sizeof *visit);
        struct child *holder;
        int64_t killed;

        rig_open(&rig);
        family->url = rig.url;
        holder = rig_start(&rig, hold_with_a_child, family);
        while (!atomic_load(&family->held))
                sleep_ns(MS);
        killed = boottime_now();
        rig_kill(&rig, holder);
        snprintf(visit->url, sizeof visit->url, "%s", rig.url);
        visit->wait_ms = 10000;
        visit->times = 1;
        CHECK(rig_visit(&rig, visit));
        CHECK_INT(visit->opened, PAWL_OK);
        CHECK_INT(visit->status, PAWL_OK);
        NOTE("holder killed -> next holder, with a lingering child: %.2f ms", (double)(boottime_now() - killed) / 1e6);
        CHECK(boottime_now() - killed < 5 * SECOND);
        kill(atomic_load(&family->child), SIGKILL);
        rig_close(&rig);
}

/* Every call of the child says so, and nothing it does touches the parent's lock. */
static int question_a_child(void *arg)
{
        const char *url = arg;
        pawl_client *client;
        pawl_lock *lock;
        pawl_lock *other;
        int status;
        pid_t pid;

        if (pawl_open(url, NULL, &client) != PAWL_OK)
                return WORKER_CANNOT_OPEN;
        if (pawl_acquire(client, "chaos/0", NULL, &lock) != PAWL_OK)
                return WORKER_SURPRISED;
        pid = fork();
        if (pid == 0) {
                CHECK_INT(pawl_check(lock), PAWL_FORKED);
                CHECK_INT(pawl_acquire(client, "chaos/1", NULL, &other), PAWL_FORKED);
                CHECK_INT(pawl_release(lock), PAWL_FORKED);
                CHECK_INT(pawl_close(client), PAWL_FORKED);
                CHECK_INT(pawl_open(url, NULL, &client), PAWL_OK);
                CHECK_INT(pawl_acquire(client, "chaos/0", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &other), PAWL_BUSY);
                CHECK_INT(pawl_acquire(client, "chaos/1", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &other), PAWL_OK);
                CHECK_INT(pawl_release(other), PAWL_OK);
                CHECK_INT(pawl_close(client), PAWL_OK);
                _exit(0);
        }
        waitpid(pid, &status, 0);
        CHECK_INT(status, 0);
        CHECK_INT(pawl_check(lock), PAWL_OK);
        CHECK_INT(pawl_release(lock), PAWL_OK);
        CHECK_INT(pawl_close(client), PAWL_OK);
        return 0;
}

TEST(a_forked_child_is_told_that_the_handles_are_not_its_own)
{
        struct rig rig;

        rig_open(&rig);
        CHECK_INT(rig_do(&rig, question_a_child, rig.url), 0);
        CHECK_UINT(rig.crashes + rig.hangs, 0);
        rig_close(&rig);
}

/* A thread of the parent is always inside pawl when the fork happens: the child must still get its answer. */
static void *keep_busy(void *arg)
{
        pawl_client *client = arg;

        for (;;) {
                pawl_lock *lock;

                if (pawl_acquire(client, "chaos/2", PAWL_LOCK(.wait_ms = 1000), &lock) == PAWL_OK)
                        pawl_release(lock);
        }
        return NULL;
}

static int fork_while_busy(void *arg)
{
        pthread_t thread;
        pawl_client *client;
        pawl_lock *lock;

        if (pawl_open(arg, NULL, &client) != PAWL_OK)
                return WORKER_CANNOT_OPEN;
        if (pawl_acquire(client, "chaos/0", NULL, &lock) != PAWL_OK)
                return WORKER_SURPRISED;
        pthread_create(&thread, NULL, keep_busy, client);
        for (int i = 0; i < 200; i++) {
                int status;
                pid_t pid = fork();

                if (pid == 0)
                        _exit(pawl_check(lock) == PAWL_FORKED && pawl_release(lock) == PAWL_FORKED ? 0 : 1);
                waitpid(pid, &status, 0);
                if (status != 0)
                        return WORKER_SURPRISED;
        }
        return pawl_check(lock) == PAWL_OK ? 0 : WORKER_SURPRISED;
}

TEST(a_child_forked_in_the_middle_of_anothers_call_still_gets_its_answer)
{
        struct rig rig;

        rig_open(&rig);
        CHECK_INT(rig_do(&rig, fork_while_busy, rig.url), 0);
        CHECK_UINT(rig.crashes + rig.hangs, 0);
        rig_close(&rig);
}

/* ---- PID namespaces --------------------------------------------------------------------------------------------- */

TEST_WITHIN(600, processes_that_are_all_pid_1_keep_the_promises)
{
        struct rig rig;
        struct findings findings;
        struct plan plan;
        int64_t end;

        rig_open(&rig);
        plan = rig_plan(&rig, 3, 1000, HABIT_ALL | HABIT_LINGER);
        end = boottime_now() + rig_seconds(8) * SECOND;
        for (unsigned i = 0; i < 6; i++)
                if (!rig_work_apart(&rig, &plan))
                        SKIP("no PID namespaces for us here");
        rig_work(&rig, &plan);
        while (boottime_now() < end) {
                struct child *victim = rig_any(&rig);

                sleep_ns((int64_t)rig_chance(&rig, 40 * MS));
                rig_kill(&rig, victim);
                rig_wait(&rig, victim, 10 * SECOND);
                rig_work_apart(&rig, &plan);
        }
        rig_finish(&rig, 30 * SECOND);
        rig_judge(&rig, &findings);
        rig_expect_clean(&rig, &findings);
        CHECK(findings.kills >= 20);
        findings_free(&findings);
        rig_close(&rig);
}
