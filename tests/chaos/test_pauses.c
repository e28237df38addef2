/* test_pauses.c - processes that are stopped past their lease and wake up believing nothing has happened. The fenced
 * counter loses no update; its unfenced twin does, which proves that there was something to see. */
#include <string.h>

#include "rig.h"
#include "tap.h"

enum { WORKERS = 6, TTL_MS = 150 };

/* Each for itself: stopped for half a ttl to two and a half, then woken. */
static void stop_and_wake(struct rig *rig, struct child *child, int64_t *wake_at)
{
        if (child->stopped && boottime_now() >= *wake_at) {
                rig_continue(rig, child);
        } else if (!child->stopped && rig_chance(rig, 20) == 0) {
                *wake_at = boottime_now() + (TTL_MS / 2 + (int64_t)rig_chance(rig, 2 * TTL_MS)) * MS;
                rig_stop(rig, child);
        }
}

static void pause_at_random(struct rig *rig, struct plan *plan, int64_t ns)
{
        struct child *children[WORKERS];
        int64_t wake_at[WORKERS];
        int64_t end = boottime_now() + ns;

        for (unsigned i = 0; i < WORKERS; i++) {
                struct plan varied = *plan;

                varied.habits |= i % 3 == 0 ? HABIT_CALLER : 0;
                children[i] = rig_work(rig, &varied);
        }
        while (boottime_now() < end) {
                for (unsigned i = 0; i < WORKERS; i++)
                        stop_and_wake(rig, children[i], &wake_at[i]);
                sleep_ns((int64_t)rig_chance(rig, 20 * MS));
        }
        rig_finish(rig, 30 * SECOND);
}

/* How much goes wrong in a few seconds is chance: a round in which the rig saw no damage to the unfenced twin is followed by
 * another, ROUNDS at most. No round may have a violation. */
enum { ROUNDS = 4 };

static bool stopped_past_their_leases(void)
{
        struct rig rig;
        struct findings findings;
        struct plan plan;
        bool seen;

        rig_open(&rig);
        plan = rig_plan(&rig, 2, TTL_MS, HABIT_TIMEOUT | HABIT_ASYNC | HABIT_LINGER | HABIT_TWIN);
        pause_at_random(&rig, &plan, rig_seconds(12) * SECOND);
        rig_judge(&rig, &findings);
        rig_expect_clean(&rig, &findings);
        CHECK(findings.stops >= 10);
        seen = findings.losses > 0 && findings.stale_refused > 0 && findings.twin_lost > 0;
        findings_free(&findings);
        rig_close(&rig);
        return seen;
}

TEST_WITHIN(600, a_holder_stopped_past_its_lease_loses_no_update)
{
        bool seen = false;

        for (int round = 0; round < ROUNDS && !seen; round++)
                seen = stopped_past_their_leases();
        CHECK(seen); /* else the rig is too weak to see anything */
}

static bool asleep_past_their_leases(void)
{
        struct rig rig;
        struct findings findings;
        struct plan plan;
        bool seen;

        rig_open(&rig);
        plan = rig_plan(&rig, 3, TTL_MS, HABIT_TIMEOUT | HABIT_ASYNC | HABIT_SLEEP | HABIT_DETACH | HABIT_TWIN);
        for (unsigned i = 0; i < WORKERS; i++)
                rig_work(&rig, &plan);
        sleep_ns(rig_seconds(6) * SECOND);
        rig_finish(&rig, 30 * SECOND);
        rig_judge(&rig, &findings);
        rig_expect_clean(&rig, &findings);
        seen = findings.losses > 0 && findings.twin_lost > 2;
        findings_free(&findings);
        rig_close(&rig);
        return seen;
}

TEST_WITHIN(600, holders_that_sleep_past_fixed_leases_lose_no_update)
{
        bool seen = false;

        for (int round = 0; round < ROUNDS && !seen; round++)
                seen = asleep_past_their_leases();
        CHECK(seen);
}
