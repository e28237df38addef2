/* test_callbacks.c - callbacks run exactly once, never before their call returned, and may use what does not block. */
#include "contract.h"

/* ---- exactly once, and not too early --------------------------------------------------------------------------- */

struct early {
        atomic_bool returned;
        atomic_int calls;
        atomic_int too_early;
        pthread_t caller;
};

static void was_it_early(pawl_lock *lock, int status, void *arg)
{
        struct early *early = arg;
        (void)lock, (void)status;
        /* on another thread it may run at once: only our own call must have returned before */
        if (pthread_equal(pthread_self(), early->caller) && !atomic_load(&early->returned))
                atomic_fetch_add(&early->too_early, 1);
        atomic_fetch_add(&early->calls, 1);
}

TEST(on_granted_runs_exactly_once_and_not_before_the_call_returned)
{
        pawl_client *one = join(fresh_place());
        pawl_lock *lock;

        for (int i = 0; i < 200; i++) {
                struct early early = {.caller = pthread_self()};
                MUST(pawl_acquire_async(one, "a", NULL, was_it_early, &early, &lock));
                atomic_store(&early.returned, true);
                REQUIRE(SOON(atomic_load(&early.calls) == 1));
                CHECK_INT(atomic_load(&early.too_early), 0);
                CHECK_CODE(pawl_check(lock), PAWL_OK);
                CHECK_CODE(pawl_release(lock), PAWL_OK);
                CHECK_INT(atomic_load(&early.calls), 1);
        }
}

TEST(on_granted_tells_busy_when_there_was_to_be_no_wait)
{
        pawl_client *one = join(fresh_place());
        static struct seen seen;
        pawl_lock *held, *lock;

        MUST(pawl_acquire(one, "a", NULL, &held));
        MUST(pawl_acquire_async(one, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), see_granted, &seen, &lock));
        CHECK(SOON(atomic_load(&seen.granted) == 1));
        CHECK_CODE(atomic_load(&seen.status), PAWL_BUSY);
        CHECK_INT(pawl_state(lock), PAWL_OVER);
        CHECK_UINT(pawl_token(lock), 0);
        (void)pawl_release(lock);
        CHECK_CODE(pawl_check(held), PAWL_OK);
}

TEST(a_call_that_failed_never_runs_its_callback)
{
        pawl_client *one = join(fresh_place());
        static struct seen seen;
        pawl_lock *lock;

        CHECK_CODE(pawl_acquire_async(one, "", NULL, see_granted, &seen, &lock), PAWL_INVALID);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(pawl_release_async(lock, see_released, &seen), PAWL_MISUSE);
        nap(50);
        CHECK_INT(atomic_load(&seen.granted), 0);
        CHECK_INT(atomic_load(&seen.released), 0);
}

/* ---- what a callback may do ------------------------------------------------------------------------------------ */

enum { CHAIN = 1000 };
static struct {
        pawl_client *client;
        atomic_int links;
        atomic_int wrong;
        uint64_t last;
} chain;

static void next_link(pawl_lock *lock, int status, void *arg)
{
        pawl_lock *next;
        (void)arg;
        if (status != PAWL_OK || pawl_check(lock) != PAWL_OK || pawl_token(lock) <= chain.last)
                atomic_fetch_add(&chain.wrong, 1);
        chain.last = pawl_token(lock);
        if (atomic_fetch_add(&chain.links, 1) + 1 < CHAIN &&
            pawl_acquire_async(chain.client, "a", NULL, next_link, NULL, &next) != PAWL_OK)
                atomic_fetch_add(&chain.wrong, 1);
        if (pawl_release_async(lock, NULL, NULL) != PAWL_OK)
                atomic_fetch_add(&chain.wrong, 1);
}

TEST(a_thousand_claims_are_chained_from_callback_to_callback)
{
        pawl_lock *lock;

        chain.client = join(fresh_place());
        MUST(pawl_acquire_async(chain.client, "a", NULL, next_link, NULL, &lock));
        CHECK(SOON(atomic_load(&chain.links) == CHAIN));
        CHECK_INT(atomic_load(&chain.wrong), 0);
        CHECK(SOON(is_free(chain.client, "a")));
}

struct blocker {
        pawl_client *client;
        atomic_int codes[8];
        atomic_bool done;
};

static int ignore_entry(const struct pawl_entry *entry, void *arg)
{
        (void)entry, (void)arg;
        return 0;
}

static void block_in_callback(pawl_lock *lock, int status, void *arg)
{
        struct blocker *blocker = arg;
        pawl_lock *none;
        (void)status;
        atomic_store(&blocker->codes[0], pawl_acquire(blocker->client, "b", NULL, &none));
        atomic_store(&blocker->codes[1], pawl_renew(lock));
        atomic_store(&blocker->codes[2], pawl_close(blocker->client));
        atomic_store(&blocker->codes[3], pawl_list(blocker->client, NULL, ignore_entry, NULL));
        atomic_store(&blocker->codes[4], pawl_show(blocker->client, "a", ignore_entry, NULL));
        atomic_store(&blocker->codes[5], pawl_dispatch(blocker->client));
        atomic_store(&blocker->done, true);
}

TEST(a_blocking_call_inside_a_callback_is_misuse_and_not_a_deadlock)
{
        static struct blocker blocker;
        pawl_lock *lock;

        blocker.client = join(fresh_place());
        for (int i = 0; i < 6; i++)
                atomic_store(&blocker.codes[i], -1);
        MUST(pawl_acquire_async(blocker.client, "a", NULL, block_in_callback, &blocker, &lock));
        REQUIRE(SOON(atomic_load(&blocker.done)));
        for (int i = 0; i < 6; i++)
                if (!CHECK_CODE(atomic_load(&blocker.codes[i]), PAWL_MISUSE))
                        NOTE("it was call %d", i);
        CHECK_CODE(pawl_check(lock), PAWL_OK);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(is_free(blocker.client, "b"));
}

struct releaser {
        struct seen seen;
        atomic_int code;
        atomic_int check;
        atomic_bool done;
};

static void release_when_granted(pawl_lock *lock, int status, void *arg)
{
        struct releaser *releaser = arg;
        atomic_store(&releaser->check, status == PAWL_OK ? pawl_check(lock) : status);
        atomic_store(&releaser->code, pawl_release_async(lock, see_released, &releaser->seen));
        atomic_store(&releaser->done, true);
}

TEST(a_lock_can_be_released_inside_on_granted)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct releaser releaser = {.code = -1, .check = -1};
        pawl_lock *lock;

        MUST(pawl_acquire_async(one, "a", NULL, release_when_granted, &releaser, &lock));
        REQUIRE(SOON(atomic_load(&releaser.seen.released) == 1));
        CHECK_CODE(atomic_load(&releaser.check), PAWL_OK);
        CHECK_CODE(atomic_load(&releaser.code), PAWL_OK);
        CHECK_CODE(atomic_load(&releaser.seen.release_status), PAWL_OK);
        CHECK(is_free(two, "a"));
}

static void release_when_lost(pawl_lock *lock, int reason, void *arg)
{
        struct releaser *releaser = arg;
        (void)reason;
        atomic_store(&releaser->check, pawl_check(lock));
        atomic_store(&releaser->code, pawl_release_async(lock, see_released, &releaser->seen));
        atomic_store(&releaser->done, true);
}

TEST(a_lock_can_be_released_inside_on_lost)
{
        pawl_client *one = join(fresh_place());
        static struct releaser releaser = {.code = -1, .check = -1};
        pawl_lock *lock;

        MUST(pawl_acquire(
                one, "a",
                PAWL_LOCK(.ttl_ms = 150, .flags = PAWL_NO_RENEW, .on_lost = release_when_lost, .arg = &releaser),
                &lock));
        REQUIRE(SOON(atomic_load(&releaser.seen.released) == 1));
        CHECK_CODE(atomic_load(&releaser.check), PAWL_LOST);
        CHECK_CODE(atomic_load(&releaser.code), PAWL_OK);
        CHECK_CODE(atomic_load(&releaser.seen.release_status), PAWL_LOST);
        CHECK(is_free(one, "a"));
}

static void release_and_wait_when_granted(pawl_lock *lock, int status, void *arg)
{
        struct releaser *releaser = arg;
        (void)status;
        atomic_store(&releaser->code, pawl_release(lock));
        atomic_store(&releaser->done, true);
}

TEST(even_the_blocking_release_inside_a_callback_is_no_deadlock)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct releaser releaser = {.code = -1};
        pawl_lock *lock;

        MUST(pawl_acquire_async(one, "a", NULL, release_and_wait_when_granted, &releaser, &lock));
        REQUIRE(SOON(atomic_load(&releaser.done)));
        int code = atomic_load(&releaser.code);
        CHECK(code == PAWL_OK || code == PAWL_IN_DOUBT); /* it cannot wait for an answer there */
        CHECK(SOON(is_free(two, "a")));
}

struct canceller {
        pawl_lock *waiting;
        atomic_int code;
};

static void cancel_another(pawl_lock *lock, int status, void *arg)
{
        struct canceller *canceller = arg;
        (void)lock, (void)status;
        atomic_store(&canceller->code, pawl_cancel(canceller->waiting));
}

TEST(a_callback_may_cancel_another_claim)
{
        pawl_client *one = join(fresh_place());
        static struct canceller canceller = {.code = -1};
        static struct seen seen;
        pawl_lock *held, *lock;

        MUST(pawl_acquire(one, "a", NULL, &held));
        MUST(pawl_acquire_async(one, "a", NULL, see_granted, &seen, &canceller.waiting));
        MUST(pawl_acquire_async(one, "b", NULL, cancel_another, &canceller, &lock));
        CHECK(SOON(atomic_load(&seen.granted) == 1));
        CHECK_CODE(atomic_load(&canceller.code), PAWL_OK);
        CHECK_CODE(atomic_load(&seen.status), PAWL_CANCELLED);
        CHECK_CODE(pawl_check(held), PAWL_OK);
}

TEST(no_callback_of_a_lock_runs_after_its_release_returned)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        pawl_lock *lock;

        /* released around the moment at which it is lost */
        for (int i = 0; i < 20; i++) {
                struct seen seen = {0};
                MUST(pawl_acquire(one, "a",
                                  PAWL_LOCK(.ttl_ms = 60, .flags = PAWL_NO_RENEW, .on_lost = see_lost, .arg = &seen,
                                            .wait_ms = PATIENCE),
                                  &lock));
                nap(47 + i % 15);
                int code = pawl_release(lock);
                int calls = atomic_load(&seen.lost);
                CHECK_COMPARE(calls, <=, (code == PAWL_LOST));
                nap(20);
                CHECK_INT(atomic_load(&seen.lost), calls);
        }
}

TEST(a_lock_that_on_granted_gives_back_is_not_told_lost_besides)
{
        static struct releaser releaser = {.code = -1};
        pawl_client *one;
        pawl_lock *lock;

        /* nobody dispatches until it is granted and lost */
        MUST(pawl_open(fresh_place(), PAWL_OPEN(.drive = PAWL_DRIVE_CALLER), &one));
        MUST(pawl_acquire_async(
                one, "a", PAWL_LOCK(.ttl_ms = 60, .flags = PAWL_NO_RENEW, .on_lost = see_lost, .arg = &releaser.seen),
                release_when_granted, &releaser, &lock));
        nap(100);
        CHECK_INT(pawl_remaining_ms(lock), 0);
        REQUIRE(SOON(pawl_dispatch(one) == PAWL_OK && atomic_load(&releaser.seen.released) == 1));
        int status = atomic_load(&releaser.seen.release_status);
        /* OK: a store with I/O could grant it only in the dispatch; in doubt: and its answer was late, or lost */
        CHECK(status == PAWL_LOST || status == PAWL_OK || status == PAWL_IN_DOUBT);
        CHECK_INT(atomic_load(&releaser.seen.lost), 0);
        CHECK_CODE(pawl_close(one), PAWL_OK);
        CHECK_INT(atomic_load(&releaser.seen.lost), 0);
}
