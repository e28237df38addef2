/* limit_test.c - the common rate: the bound that it keeps, the order, and a thousand callers in four processes. */
#include "contract.h"

#include <pawl/limit.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

TEST(a_burst_is_there_at_once_and_then_no_more)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct pawl_permit permit = {0};

        if (!(pawl_capabilities(one) & PAWL_CAN_KEEP)) {
                CHECK_CODE(pawl_limit(one, "l", PAWL_LIMIT(.rate = 1), NULL), PAWL_UNSUPPORTED);
                return;
        }
        for (int i = 0; i < 3; i++)
                CHECK_CODE(pawl_limit(i % 2 ? one : two, "l",
                                      PAWL_LIMIT(.rate = 1, .per_ms = 3600000, .burst = 3, .wait_ms = PAWL_NO_WAIT),
                                      NULL),
                           PAWL_OK);
        CHECK_CODE(pawl_limit(one, "l", PAWL_LIMIT(.rate = 1, .per_ms = 3600000, .burst = 3, .wait_ms = PAWL_NO_WAIT),
                              &permit),
                   PAWL_BUSY);
        CHECK(permit.wait_ms > 3000000 && permit.wait_ms <= 3600000);
        CHECK_CODE(
                pawl_limit(two, "l", PAWL_LIMIT(.rate = 1, .per_ms = 3600000, .burst = 3, .wait_ms = 60000), &permit),
                PAWL_TIMEOUT); /* known at once */
        CHECK_CODE(pawl_limit(one, "another", PAWL_LIMIT(.rate = 1, .per_ms = 3600000, .wait_ms = PAWL_NO_WAIT), NULL),
                   PAWL_OK);
}

TEST(a_refused_call_takes_nothing)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct pawl_permit first = {0}, second = {0};

        NEEDS(one, PAWL_CAN_KEEP);
        MUST(pawl_limit(one, "l", PAWL_LIMIT(.rate = 1, .per_ms = 3600000), NULL));
        CHECK_CODE(pawl_limit(one, "l", PAWL_LIMIT(.rate = 1, .per_ms = 3600000, .wait_ms = PAWL_NO_WAIT), &first),
                   PAWL_BUSY);
        CHECK_CODE(pawl_limit(one, "l", PAWL_LIMIT(.rate = 1, .per_ms = 3600000, .wait_ms = PAWL_NO_WAIT), &second),
                   PAWL_BUSY);
        CHECK_COMPARE(second.wait_ms, <=, first.wait_ms);
}

TEST(permits_come_back_with_time_and_several_can_be_taken_at_once)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct pawl_permit permit = {0};
        int64_t before = now_ms();

        NEEDS(one, PAWL_CAN_KEEP);
        MUST(pawl_limit(one, "l", PAWL_LIMIT(.rate = 10, .permits = 10, .wait_ms = PAWL_NO_WAIT), NULL));
        MUST(pawl_limit(one, "l", PAWL_LIMIT(.rate = 10, .permits = 5), &permit));
        CHECK_COMPARE(now_ms() - before, >=, 499);
        CHECK_COMPARE(permit.wait_ms, <=, 500);
        CHECK_CODE(pawl_limit(one, "l", PAWL_LIMIT(.rate = 10, .permits = 11), NULL), PAWL_INVALID);
}

TEST(bad_input_is_refused)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_KEEP);
        CHECK_CODE(pawl_limit(one, "l", NULL, NULL), PAWL_INVALID);
        CHECK_CODE(pawl_limit(one, "l", PAWL_LIMIT(.rate = -1), NULL), PAWL_INVALID);
        CHECK_CODE(pawl_limit(one, "l", PAWL_LIMIT(.rate = 1, .per_ms = -1), NULL), PAWL_INVALID);
        CHECK_CODE(pawl_limit(one, "l", PAWL_LIMIT(.rate = 1, .burst = -1), NULL), PAWL_INVALID);
        CHECK_CODE(pawl_limit(one, "l", PAWL_LIMIT(.rate = 1, .per_ms = 86400000, .burst = 1000000000), NULL),
                   PAWL_INVALID);
        CHECK_CODE(pawl_limit(one, "l", PAWL_LIMIT(.rate = 1, .flags = 1), NULL), PAWL_UNSUPPORTED);
        CHECK_CODE(pawl_limit(one, "", PAWL_LIMIT(.rate = 1), NULL), PAWL_INVALID);
        MUST(pawl_acquire(one, "limit/l", NULL, &lock));
        MUST(pawl_store(lock, "not a bucket", 12, 0));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(pawl_limit(one, "l", PAWL_LIMIT(.rate = 1), NULL), PAWL_CORRUPT);
}

TEST(a_bucket_that_another_one_does_not_give_back_is_not_waited_for_longer_than_was_said)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct pawl_why why = {0};
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_KEEP);
        MUST(pawl_acquire(one, "limit/l", PAWL_LOCK(.ttl_ms = 3 * PATIENCE), &lock));
        CHECK_CODE(pawl_limit(two, "l", PAWL_LIMIT(.rate = 1, .wait_ms = 500, .why = &why), NULL), PAWL_TIMEOUT);
        CHECK_CODE(why.code, PAWL_TIMEOUT);
        MUST(pawl_store(lock, "pawl-limit 1 9223372036854775807", 32, 0));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(pawl_limit(two, "l", PAWL_LIMIT(.rate = 1, .wait_ms = 100), NULL), PAWL_CORRUPT);
}

TEST(who_waits_for_a_permit_keeps_its_locks_also_without_a_thread)
{
        const char *place = fresh_place();
        struct pawl_open_options options = {.size = sizeof(options), .drive = PAWL_DRIVE_CALLER};
        pawl_client *client;
        pawl_lock *lock;

        MUST(pawl_open(place, &options, &client));
        NEEDS(client, PAWL_CAN_KEEP);
        MUST(pawl_acquire(client, "held", PAWL_LOCK(.ttl_ms = 3000), &lock));
        MUST(pawl_limit(client, "l", PAWL_LIMIT(.rate = 1, .per_ms = 6000), NULL));
        MUST(pawl_limit(client, "l", PAWL_LIMIT(.rate = 1, .per_ms = 6000), NULL));
        CHECK_CODE(pawl_check(lock), PAWL_OK);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        pawl_close(client);
}

static void keep_bucket(pawl_client *client, const char *text)
{
        pawl_lock *lock;

        MUST(pawl_acquire(client, "limit/l", NULL, &lock));
        MUST(pawl_store(lock, text, strlen(text), 0));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

TEST(a_bucket_is_read_as_it_is_written_and_in_no_other_way)
{
        static const char *const texts[] = {"pawl-limit 1 -1",
                                            "pawl-limit 1 +1",
                                            "pawl-limit 1  1",
                                            "pawl-limit 1 1 ",
                                            "pawl-limit 1 01",
                                            "pawl-limit 2 1",
                                            "pawl-limit 1 9223372036854775807"};
        const char *place = fresh_place();
        pawl_client *one = join(place);

        NEEDS(one, PAWL_CAN_KEEP);
        for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
                keep_bucket(one, texts[i]);
                if (!CHECK_CODE(pawl_limit(one, "l", PAWL_LIMIT(.rate = 1), NULL), PAWL_CORRUPT))
                        NOTE("\"%s\"", texts[i]);
        }
        /* As far as can be told, and one permit is beyond. */
        keep_bucket(one, "pawl-limit 1 9191749636854775807");
        CHECK_CODE(pawl_limit(one, "l", PAWL_LIMIT(.rate = 1), NULL), PAWL_TIMEOUT);
        CHECK_CODE(pawl_limit(one, "l", PAWL_LIMIT(.rate = 1, .wait_ms = PAWL_NO_WAIT), NULL), PAWL_BUSY);
        keep_bucket(one, "pawl-limit 1 1");
        CHECK_CODE(pawl_limit(one, "l", PAWL_LIMIT(.rate = 1), NULL), PAWL_OK);
}

TEST(a_full_bucket_leaves_nothing_to_keep)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct pawl_value value;

        NEEDS(one, PAWL_CAN_KEEP);
        MUST(pawl_limit(one, "l", PAWL_LIMIT(.rate = 1000), NULL));
        MUST(pawl_fetch(one, "limit/l", &value));
        free(value.data);
        CHECK(SOON(pawl_fetch(one, "limit/l", &value) == PAWL_NOT_FOUND || (free(value.data), false)));
}

/* ---- a crowd ----------------------------------------------------------------------------------------------------- */

enum { PROCESSES = 4, CALLERS = 250, PER_CALL = 1, BURST = 50 };

struct book {
        atomic_int calls;
        atomic_int errors;
        int64_t began_ms;
        struct {
                int64_t at_us;  /* from when the permit counts, by the store */
                int64_t got_ms; /* when the caller went on, by our clock */
        } permits[PROCESSES * CALLERS];
};

struct crowd {
        pawl_client *client;
        struct book *book;
        int64_t rate;
        atomic_int left;
};

static void *take_permits(void *arg)
{
        struct crowd *crowd = arg;

        while (atomic_fetch_sub(&crowd->left, 1) > 0) {
                struct pawl_permit permit = {0};
                int code = pawl_limit(crowd->client, "crowd", PAWL_LIMIT(.rate = crowd->rate, .burst = BURST), &permit);
                int call = atomic_fetch_add(&crowd->book->calls, 1);

                crowd->book->permits[call].got_ms = now_ms();
                crowd->book->permits[call].at_us = permit.at_us;
                if (code != PAWL_OK)
                        atomic_fetch_add(&crowd->book->errors, 1);
        }
        return NULL;
}

/* One process with a client and many callers; as many threads as are needed to keep the line busy. */
static _Noreturn void be_process(const char *place, struct book *book, int64_t rate)
{
        enum { THREADS = 25 };
        struct crowd crowd = {.book = book, .rate = rate, .left = CALLERS};
        pthread_t threads[THREADS];

        if (pawl_open(place, NULL, &crowd.client) != PAWL_OK)
                _exit(2);
        for (int i = 0; i < THREADS; i++)
                if (pthread_create(&threads[i], NULL, take_permits, &crowd) != 0)
                        _exit(3);
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        pawl_close(crowd.client);
        _exit(0);
}

static int by_time(const void *one, const void *other)
{
        int64_t a = *(const int64_t *)one, b = *(const int64_t *)other;

        return (a > b) - (a < b);
}

/* In every stretch of time at most burst + rate * t: for each permit, the earliest that could begin such a stretch is
 * looked at through the smallest difference seen so far between the number of permits and what the rate gave until then. */
static int64_t most_above(const int64_t *at_us, int count, int64_t rate)
{
        int64_t least = INT64_MAX, most = INT64_MIN; /* of number - rate * t, in millionths */

        for (int i = 0; i < count; i++) {
                int64_t given = rate * (at_us[i] - at_us[0]);

                if (i * INT64_C(1000000) - given < least)
                        least = i * INT64_C(1000000) - given;
                if ((i + 1) * INT64_C(1000000) - given - least > most)
                        most = (i + 1) * INT64_C(1000000) - given - least;
        }
        return most;
}

TEST_WITHIN(240, a_thousand_callers_in_four_processes_never_exceed_rate_and_burst)
{
        const char *place = fresh_place();
        int64_t rate = getenv("PAWL_TEST_RATE") ? atoi(getenv("PAWL_TEST_RATE")) : 100;
        struct book *book = mmap(NULL, sizeof *book, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        static int64_t at_us[PROCESSES * CALLERS], got_ms[PROCESSES * CALLERS];
        pawl_client *probe = join(place);
        bool able = pawl_capabilities(probe) & PAWL_CAN_KEEP;
        pid_t pids[PROCESSES];
        int count;

        (void)leave(probe);
        if (!able)
                SKIP("the engine does not claim PAWL_CAN_KEEP");
        REQUIRE(book != MAP_FAILED);
        book->began_ms = now_ms();
        for (int i = 0; i < PROCESSES; i++) {
                pids[i] = fork();
                REQUIRE_COMPARE(pids[i], >=, 0);
                if (pids[i] == 0)
                        be_process(place, book, rate);
        }
        for (int i = 0; i < PROCESSES; i++) {
                int status = 0;

                REQUIRE_INT(waitpid(pids[i], &status, 0), pids[i]);
                CHECK_INT(status, 0);
        }
        count = atomic_load(&book->calls);
        CHECK_INT(count, PROCESSES * CALLERS);
        CHECK_INT(atomic_load(&book->errors), 0);
        for (int i = 0; i < count; i++) {
                at_us[i] = book->permits[i].at_us;
                got_ms[i] = book->permits[i].got_ms;
        }
        qsort(at_us, (size_t)count, sizeof *at_us, by_time);
        qsort(got_ms, (size_t)count, sizeof *got_ms, by_time);
        int64_t above = most_above(at_us, count, rate);
        NOTE("%d permits in %lld ms at %lld/s and bursts of %d; the most beyond the rate in any stretch: %lld", count,
             (long long)(got_ms[count - 1] - book->began_ms), (long long)rate, BURST, (long long)(above / 1000000));
        /* a microsecond of rounding is less than a thousandth of a permit */
        CHECK_COMPARE(above, <=, BURST * INT64_C(1000000) + 1000 + rate);
        for (int i = 0; i < count; i++) /* and nobody went on before the permit counted */
                if (!CHECK_COMPARE((i + 1) * INT64_C(1000), <=, BURST * 1000 + rate * (got_ms[i] - book->began_ms + 1)))
                        break;
}
