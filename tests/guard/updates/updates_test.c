/* updates_test.c - no update that a guard accepted is lost, whoever slept past its lease; and where the guard is shown the
 * same token by everybody, some are: so there was something to lose.
 *
 * PAWL_TEST_STORE is the guard ({dir}: an empty directory, {n}: a number), PAWL_TEST_UPDATES how many updates are to be
 * accepted (20000). */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tap.h"
#include "updates.h"

static uint64_t wanted_updates(void)
{
        const char *text = getenv("PAWL_TEST_UPDATES");

        return text && atoll(text) > 0 ? (uint64_t)atoll(text) : 20000;
}

/* url with value in place of word, if it is there. */
static void fill_in(char *url, size_t size, const char *word, const char *value)
{
        char *place = strstr(url, word);
        char rest[1024];

        if (!place)
                return;
        snprintf(rest, sizeof(rest), "%s", place + strlen(word));
        snprintf(place, size - (size_t)(place - url), "%s%s", value, rest);
}

static const char *store_url(void)
{
        static char url[1024];
        const char *text = getenv("PAWL_TEST_STORE");

        snprintf(url, sizeof(url), "%s", text ? text : "mem:");
        fill_in(url, sizeof(url), "{dir}", tap_directory());
        fill_in(url, sizeof(url), "{n}", "1");
        return url;
}

static double seconds_now(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_BOOTTIME, &ts);
        return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void tell(const struct plan *plan, struct score *score, const struct verdict *verdict, double seconds)
{
        NOTE("%s %s: %" PRIu64 " accepted in %.1f s, %llu reads and %llu writes refused, %llu pauses past the lease, "
             "%llu takeovers, %llu hand-overs, %" PRIu64 " lost",
             plan->store, plan->fenced ? "with tokens" : "without", verdict->accepted, seconds,
             atomic_load(&score->refused_reads), atomic_load(&score->refused_writes), atomic_load(&score->pauses),
             atomic_load(&score->takeovers), atomic_load(&score->handovers), verdict->lost);
}

/* Works, judges, and says what came out. */
static struct score *play(struct plan *plan, struct verdict *verdict)
{
        static char locks[1024];
        struct pawl_why why = {0};
        double begin = seconds_now();
        struct score *score = score_new(plan);
        pawl_guard *guard;
        int code;

        REQUIRE(score != NULL);
        snprintf(locks, sizeof(locks), "local:%s/locks", tap_directory());
        plan->locks = locks;
        plan->store = store_url();
        code = pawl_guard_open(plan->store, PAWL_GUARD(.why = &why), &guard);
        if (code == PAWL_NO_ENGINE)
                SKIP("missing: %s", why.text);
        REQUIRE_INT(code, PAWL_OK);
        plan->guard = strncmp(plan->store, "mem:", 4) == 0 ? guard : NULL;
        work(plan, score);
        REQUIRE_STR(score->sentence, "");
        code = judge(plan, score, guard, verdict);
        pawl_guard_close(guard);
        REQUIRE_INT(code, PAWL_OK);
        tell(plan, score, verdict, seconds_now() - begin);
        return score;
}

TEST_WITHIN(900, no_update_that_was_accepted_is_lost)
{
        struct plan plan = {.prefix = "fenced", .updates = wanted_updates(), .pause_every = 60, .fenced = true};
        struct verdict verdict;
        struct score *score = play(&plan, &verdict);

        CHECK(verdict.accepted >= plan.updates);
        CHECK_UINT(verdict.lost, 0);
        CHECK_UINT(verdict.broken, 0);
        /* Else there was nothing to see. */
        CHECK(atomic_load(&score->takeovers) >= plan.updates / 1000);
        CHECK(atomic_load(&score->refused_writes) > 0);
        CHECK(atomic_load(&score->handovers) > plan.updates / 100);
        score_free(score);
}

TEST_WITHIN(900, the_same_without_tokens_loses_updates)
{
        struct plan plan = {.prefix = "plain", .updates = wanted_updates() / 10, .pause_every = 20, .fenced = false};
        struct verdict verdict;
        struct score *score = play(&plan, &verdict);

        CHECK(verdict.lost > 0);
        CHECK(verdict.broken > 0);
        CHECK_UINT(atomic_load(&score->refused_reads) + atomic_load(&score->refused_writes), 0);
        score_free(score);
}
