/* test_kills.c - kill -9 of holders and waiters: hundreds at random, and one by one with a stop-watch. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "rig.h"
#include "tap.h"

/* ---- at random -------------------------------------------------------------------------------------------------- */

static void keep_staffed(struct rig *rig, struct plan *plan, unsigned wanted)
{
        unsigned alive = 0;

        for (size_t i = 0; i < RIG_CHILDREN; i++)
                alive += rig->children[i].pid != 0 && !rig->children[i].doomed;
        for (; alive < wanted; alive++) {
                struct plan varied = *plan;

                varied.habits |= rig_chance(rig, 3) == 0 ? HABIT_CALLER : 0;
                varied.threads = varied.habits & HABIT_CALLER ? 1 : 1 + (uint32_t)rig_chance(rig, 3);
                varied.habits |= rig_chance(rig, 2) == 0 ? HABIT_ONE_CLIENT : 0;
                rig_work(rig, &varied);
        }
}

static void bury(struct rig *rig)
{
        for (size_t i = 0; i < RIG_CHILDREN; i++)
                if (rig->children[i].pid != 0 && rig->children[i].doomed)
                        rig_wait(rig, &rig->children[i], 10 * SECOND);
}

static void kill_at_random(struct rig *rig, struct plan *plan, unsigned workers, int64_t ns)
{
        int64_t end = boottime_now() + ns;

        while (boottime_now() < end) {
                struct child *victim;

                keep_staffed(rig, plan, workers);
                sleep_ns((int64_t)rig_chance(rig, (uint64_t)(rig_pace() * MS)));
                victim = rig_any(rig);
                if (victim)
                        rig_kill(rig, victim);
                if (rig_chance(rig, 4) == 0)
                        bury(rig);
        }
        bury(rig);
        rig_finish(rig, 30 * SECOND);
}

TEST_WITHIN(600, hundreds_of_kills_break_no_promise)
{
        struct rig rig;
        struct findings findings;
        struct plan plan;

        rig_open(&rig);
        plan = rig_plan(&rig, 4, 500, HABIT_ALL | HABIT_LINGER);
        kill_at_random(&rig, &plan, 10, rig_seconds(12) * SECOND);
        rig_judge(&rig, &findings);
        rig_expect_clean(&rig, &findings);
        CHECK(findings.kills >= 4000 / (uint64_t)rig_pace());
        CHECK(findings.grants >= 20000 / (uint64_t)rig_pace());
        findings_free(&findings);
        rig_close(&rig);
}

/* One name, nobody pauses: the kills fall into the middle of the engine's own work. */
TEST_WITHIN(600, kills_in_the_middle_of_the_engines_work_break_no_promise)
{
        struct rig rig;
        struct findings findings;
        struct plan plan;

        rig_open(&rig);
        plan = rig_plan(&rig, 1, 2000, HABIT_HURRY | HABIT_TIMEOUT | HABIT_ASYNC);
        kill_at_random(&rig, &plan, 6, rig_seconds(6) * SECOND);
        rig_judge(&rig, &findings);
        rig_expect_clean(&rig, &findings);
        CHECK(findings.kills >= 2000 / (uint64_t)rig_pace());
        findings_free(&findings);
        rig_close(&rig);
}

/* ---- stopped first ---------------------------------------------------------------------------------------------- */

/* Stopped wherever it is, also in the middle of the engine's work; then killed, or woken. */
static void stop_then(struct rig *rig, struct child *child)
{
        rig_stop(rig, child);
        sleep_ns((int64_t)rig_chance(rig, 400 * MS));
        if (rig_chance(rig, 2))
                rig_kill(rig, child);
        else
                rig_continue(rig, child);
}

TEST_WITHIN(600, processes_stopped_anywhere_and_then_killed_break_no_promise)
{
        struct rig rig;
        struct findings findings;
        struct plan plan;
        int64_t end;

        rig_open(&rig);
        plan = rig_plan(&rig, 2, 300, HABIT_TIMEOUT | HABIT_ASYNC | HABIT_DETACH | HABIT_HURRY);
        end = boottime_now() + rig_seconds(6) * SECOND;
        while (boottime_now() < end) {
                keep_staffed(&rig, &plan, 6);
                stop_then(&rig, rig_any(&rig));
                bury(&rig);
        }
        rig_finish(&rig, 30 * SECOND);
        rig_judge(&rig, &findings);
        rig_expect_clean(&rig, &findings);
        CHECK(findings.stops >= 10);
        CHECK(findings.grants >= 4000 / (uint64_t)rig_pace()); /* a turn of one who is stopped costs its lease */
        findings_free(&findings);
        rig_close(&rig);
}

/* ---- at the beginning ------------------------------------------------------------------------------------------- */

static int open_only(void *arg)
{
        pawl_client *client;

        if (pawl_open(arg, NULL, &client) != PAWL_OK)
                return WORKER_CANNOT_OPEN;
        return pawl_close(client) == PAWL_OK ? 0 : WORKER_SURPRISED;
}

/* Several make the directory at once, one of them is killed doing so, and the next one finds a whole state. */
TEST_WITHIN(600, whoever_is_killed_while_making_the_state_leaves_none_or_a_whole_one)
{
        struct rig rig;
        struct visit *visit = rig_share(sizeof *visit);
        uint64_t highest = 0;
        int64_t rounds = 60 * rig_seconds(1);

        rig_open(&rig);
        visit->times = 1;
        for (int64_t round = 0; round < rounds; round++) {
                struct child *makers[3];

                snprintf(rig.url, sizeof rig.url, "local:%s/made%d", rig.root, (int)round);
                snprintf(visit->url, sizeof visit->url, "%s", rig.url);
                for (int i = 0; i < 3; i++)
                        makers[i] = rig_start(&rig, open_only, rig.url);
                sleep_ns((int64_t)rig_chance(&rig, 3 * MS));
                rig_kill(&rig, makers[0]);
                for (int i = 0; i < 3; i++)
                        rig_wait(&rig, makers[i], 20 * SECOND);
                CHECK(rig_visit(&rig, visit));
                if (!CHECK_INT(visit->opened, PAWL_OK) || !CHECK_INT(visit->status, PAWL_OK))
                        NOTE("round %d: %s", (int)round, visit->why.text);
                CHECK(visit->lowest > highest); /* another file, but the clock is the floor of its tokens */
                highest = visit->highest;
        }
        NOTE("%d states made while somebody was killed", (int)rounds);
        CHECK_UINT(rig.crashes + rig.hangs + rig.surprises, 0);
        rig_close(&rig);
}

/* ---- one by one ------------------------------------------------------------------------------------------------- */

/* What the holder and the waiters of one hand-over share. */
struct handover {
        struct plan plan;
        uint32_t first; /* process number of the holder; waiters follow */
        atomic_int place;
        atomic_int held;
};

static int hold_for_ever(void *arg)
{
        struct handover *handover = arg;
        struct scribe scribe;
        pawl_lock *lock;

        if (!scribe_open(&scribe, &handover->plan, handover->first * CLIENTS_PER_PROCESS))
                return WORKER_CANNOT_OPEN;
        if (scribe_acquire(&scribe, 0, PAWL_LOCK(.ttl_ms = 10000), &lock) != PAWL_OK)
                return WORKER_SURPRISED;
        atomic_store(&handover->held, 1);
        for (;;)
                pause();
}

static int wait_and_go(void *arg)
{
        struct handover *handover = arg;
        uint32_t process = handover->first + 1 + (uint32_t)atomic_fetch_add(&handover->place, 1);
        struct scribe scribe;
        pawl_lock *lock;

        if (!scribe_open(&scribe, &handover->plan, process * CLIENTS_PER_PROCESS))
                return WORKER_CANNOT_OPEN;
        if (scribe_acquire(&scribe, 0, PAWL_LOCK(.ttl_ms = 10000), &lock) != PAWL_OK)
                return WORKER_SURPRISED;
        if (scribe_release(&scribe, 0, lock) != PAWL_OK)
                return WORKER_SURPRISED;
        scribe_close(&scribe);
        return 0;
}

/* An observer saw the claim in the queue: whoever asks from now on comes later. */
static void note_queued(struct rig *rig, uint32_t process)
{
        history_write(&rig->history, (struct record){.at = boottime_now(),
                                                     .client = process * CLIENTS_PER_PROCESS,
                                                     .op = 1,
                                                     .deed = DID_QUEUE,
                                                     .phase = PHASE_OK});
}

enum { QUEUE = 6 };

static struct child *start_holder(struct rig *rig, struct handover *handover)
{
        struct child *holder;

        handover->plan = rig_plan(rig, 1, 10000, 0);
        handover->first = rig->processes;
        rig->processes += 1 + QUEUE;
        atomic_store(&handover->held, 0);
        atomic_store(&handover->place, 0);
        holder = rig_start(rig, hold_for_ever, handover);
        holder->process = handover->first;
        while (!atomic_load(&handover->held))
                sleep_ns(MS / 10);
        return holder;
}

static void start_waiters(struct rig *rig, struct handover *handover, struct child **waiters, unsigned count)
{
        for (unsigned i = 0; i < count; i++) {
                waiters[i] = rig_start(rig, wait_and_go, handover);
                waiters[i]->process = handover->first + 1 + i;
                REQUIRE(wait_for_queue(rig, 0, i + 1));
                note_queued(rig, waiters[i]->process);
        }
}

/* The holder dies, and with it perhaps the first of the queue. */
static void hand_over(struct rig *rig, struct handover *handover, bool kill_first)
{
        struct child *waiters[QUEUE];
        struct child *holder = start_holder(rig, handover);
        unsigned count = kill_first ? 3 : 1;

        start_waiters(rig, handover, waiters, count);
        if (kill_first)
                rig_kill(rig, waiters[0]);
        rig_kill(rig, holder);
        for (unsigned i = 0; i < count; i++)
                rig_wait(rig, waiters[i], 20 * SECOND);
        rig_wait(rig, holder, 20 * SECOND);
}

static bool is_quick(const struct findings *findings)
{
        return quantile(findings->deaths, findings->death_count, 0.5) < 100 * MS &&
               quantile(findings->deaths, findings->death_count, 0.95) < 100 * MS;
}

/* On a noisy machine the measurement may be repeated; a promise that holds is kept in one of three. */
static bool measure_handovers(bool kill_first, int tries)
{
        struct rig rig;
        struct findings findings;
        struct handover *handover = rig_share(sizeof *handover);
        bool quick;

        rig_open(&rig);
        for (int64_t i = 0; i < rig_seconds(30); i++)
                hand_over(&rig, handover, kill_first);
        rig_judge(&rig, &findings);
        rig_expect_clean(&rig, &findings);
        CHECK(findings.death_count > 0);
        quick = is_quick(&findings);
        findings_free(&findings);
        rig_close(&rig);
        munmap(handover, sizeof *handover);
        return quick || (tries > 1 && measure_handovers(kill_first, tries - 1));
}

TEST_WITHIN(600, a_dead_holders_lock_has_a_new_holder_within_100_ms)
{
        CHECK(measure_handovers(false, 3));
}

TEST_WITHIN(600, a_dead_waiter_behind_a_dead_holder_does_not_delay_the_queue)
{
        CHECK(measure_handovers(true, 3));
}

/* ---- order ------------------------------------------------------------------------------------------------------ */

TEST_WITHIN(600, waiters_are_served_in_their_order_whoever_dies_among_them)
{
        struct rig rig;
        struct findings findings;
        struct handover *handover = rig_share(sizeof *handover);

        rig_open(&rig);
        for (int64_t round = 0; round < rig_seconds(8); round++) {
                struct child *waiters[QUEUE];
                struct child *holder = start_holder(&rig, handover);

                start_waiters(&rig, handover, waiters, QUEUE);
                for (unsigned i = 0; i < QUEUE; i++)
                        if (rig_chance(&rig, 3) == 0)
                                rig_kill(&rig, waiters[i]);
                rig_kill(&rig, holder);
                for (unsigned i = 0; i < QUEUE; i++)
                        rig_wait(&rig, waiters[i], 20 * SECOND);
                rig_wait(&rig, holder, 20 * SECOND);
        }
        rig_judge(&rig, &findings);
        rig_expect_clean(&rig, &findings);
        CHECK(findings.grants > 0);
        findings_free(&findings);
        rig_close(&rig);
}
