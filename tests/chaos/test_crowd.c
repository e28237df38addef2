/* test_crowd.c - many clients one after another, many at once, many processes on one name and on a thousand. */
#include <inttypes.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "rig.h"
#include "tap.h"

static void raise_descriptor_limit(void)
{
        struct rlimit limit;

        if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
                limit.rlim_cur = limit.rlim_max;
                setrlimit(RLIMIT_NOFILE, &limit);
        }
}

static int take_one(pawl_client *client, uint32_t n)
{
        char name[64];
        pawl_lock *lock;
        int status;

        lock_name(n, name, sizeof name);
        status = pawl_acquire(client, name, PAWL_LOCK(.wait_ms = 5000), &lock);
        return status == PAWL_OK ? pawl_release(lock) : status;
}

static int open_and_close(const char *url, uint32_t n)
{
        pawl_client *client;
        struct pawl_why why = {0};
        int status = pawl_open(url, PAWL_OPEN(.why = &why), &client);

        if (status != PAWL_OK) {
                NOTE("client %u: %s: %s", n, pawl_error_name(status), why.text);
                return WORKER_CANNOT_OPEN;
        }
        if (take_one(client, n % 10) != PAWL_OK)
                return WORKER_SURPRISED;
        return pawl_close(client) == PAWL_OK ? 0 : WORKER_SURPRISED;
}

enum { SEQUENTIAL = 5000, AT_ONCE = 200 };

static int one_after_another(void *arg)
{
        unsigned before;

        for (uint32_t i = 0; i < 5; i++)
                open_and_close(arg, i);
        before = open_descriptors();
        for (uint32_t i = 0; i < SEQUENTIAL; i++) {
                int result = open_and_close(arg, i);

                if (result != 0)
                        return result;
        }
        CHECK_INT(open_descriptors(), before);
        return 0;
}

TEST_WITHIN(300, five_thousand_clients_one_after_another_leave_nothing)
{
        struct rig rig;
        int64_t start;

        raise_descriptor_limit();
        rig_open(&rig);
        start = boottime_now();
        CHECK_INT(rig_wait(&rig, rig_start(&rig, one_after_another, rig.url), 240 * SECOND), 0);
        NOTE("%d clients opened and closed: %.0f us each", SEQUENTIAL,
             (double)(boottime_now() - start) / 1e3 / SEQUENTIAL);
        CHECK(leftover_bells(rig.state) <= 2); /* they stay for the next client: one for each that lived at once */
        CHECK_UINT(rig.crashes + rig.hangs, 0);
        rig_close(&rig);
}

/* A process that is killed leaves its place to the next one. */
static int open_and_wait(void *arg)
{
        pawl_client *client;
        pawl_lock *lock;

        if (pawl_open(arg, NULL, &client) != PAWL_OK)
                return WORKER_CANNOT_OPEN;
        if (pawl_acquire(client, "chaos/0", PAWL_LOCK(.wait_ms = 10000), &lock) != PAWL_OK)
                return WORKER_SURPRISED;
        raise(SIGKILL);
        return 0;
}

TEST_WITHIN(300, two_thousand_killed_processes_leave_their_places_to_others)
{
        struct rig rig;
        int64_t start;

        rig_open(&rig);
        start = boottime_now();
        for (int i = 0; i < 2000; i++) {
                struct child *child = rig_start(&rig, open_and_wait, rig.url);

                child->doomed = true;
                if (!CHECK_INT(rig_wait(&rig, child, 20 * SECOND), 0))
                        break;
        }
        NOTE("each killed holder and its successor: %.0f us", (double)(boottime_now() - start) / 1e3 / 2000);
        CHECK_INT(rig_do(&rig, one_after_another, rig.url), 0);
        CHECK_UINT(rig.crashes + rig.hangs + rig.surprises, 0);
        CHECK(leftover_bells(rig.state) <= 2);
        rig_close(&rig);
}

static int many_at_once(void *arg)
{
        static pawl_client *clients[AT_ONCE];
        static pawl_lock *locks[AT_ONCE];
        unsigned before = open_descriptors();

        for (uint32_t i = 0; i < AT_ONCE; i++)
                if (!CHECK_INT(pawl_open(arg, NULL, &clients[i]), PAWL_OK))
                        return WORKER_CANNOT_OPEN;
        for (uint32_t i = 0; i < AT_ONCE; i++)
                CHECK_INT(pawl_acquire(clients[i], "chaos/0", PAWL_LOCK(.mode = PAWL_SHARED), &locks[i]), PAWL_OK);
        for (uint32_t i = 0; i < AT_ONCE; i++)
                CHECK_INT(pawl_release(locks[i]), PAWL_OK);
        for (uint32_t i = 0; i < AT_ONCE; i++)
                CHECK_INT(pawl_close(clients[i]), PAWL_OK);
        CHECK_INT(open_descriptors(), before);
        return 0;
}

TEST_WITHIN(120, two_hundred_clients_of_one_process_hold_one_lock_together)
{
        struct rig rig;

        raise_descriptor_limit();
        rig_open(&rig);
        CHECK_INT(rig_do(&rig, many_at_once, rig.url), 0);
        CHECK_UINT(rig.crashes + rig.hangs, 0);
        CHECK(leftover_bells(rig.state) <= AT_ONCE); /* one for each that lived at once */
        rig_close(&rig);
}

/* ---- storms ----------------------------------------------------------------------------------------------------- */

static void storm(uint32_t processes, uint32_t names, uint32_t rounds, int64_t ttl_ms, uint32_t habits)
{
        struct rig rig;
        struct findings findings;
        struct plan plan;
        int64_t start;

        rig_open(&rig);
        plan = rig_plan(&rig, names, ttl_ms, habits);
        plan.rounds = rounds;
        start = boottime_now();
        for (uint32_t i = 0; i < processes; i++)
                rig_work(&rig, &plan);
        while (atomic_load(&rig.shared->ready) < (int)processes && boottime_now() - start < 30 * SECOND)
                sleep_ns(MS);
        sleep_ns(rig_seconds(3) * SECOND);
        rig_finish(&rig, 60 * SECOND);
        NOTE("%u processes on %u names", processes, names);
        rig_judge(&rig, &findings);
        rig_expect_clean(&rig, &findings);
        CHECK(findings.grants >= processes);
        findings_free(&findings);
        rig_close(&rig);
}

TEST_WITHIN(600, sixty_four_processes_storm_one_name)
{
        storm(64, 1, 3000, 5000, HABIT_TIMEOUT | HABIT_ASYNC);
}

TEST_WITHIN(600, sixty_four_processes_storm_thirty_names_in_every_way)
{
        storm(64, 30, 3000, 300, HABIT_ALL);
}

TEST_WITHIN(600, sixty_four_processes_storm_a_thousand_names)
{
        storm(64, 1000, 3000, 5000, HABIT_HURRY | HABIT_TIMEOUT | HABIT_ASYNC | HABIT_SHARE | HABIT_LIMIT);
}

TEST_WITHIN(600, two_hundred_processes_meet_at_one_name)
{
        storm(200, 1, 50, 5000, HABIT_TIMEOUT);
}
