/* drive_test.c - blocking calls, callbacks and closing over an engine that answers through the loop: who drives, and what a
 * caller sees when answers are late, lost or refused. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "pawl.h"
#include "slow_engine.h"
#include "tap.h"

/* Every scheme is the slow engine here. */
const struct engine_ops *__wrap_engine_find(const char *scheme, struct pawl_why *why);
const struct engine_ops *__wrap_engine_find(const char *scheme, struct pawl_why *why)
{
        (void)scheme;
        (void)why;
        return &slow_engine;
}

static pawl_client *open_client(uint32_t drive)
{
        pawl_client *client = NULL;

        memset(&slow, 0, sizeof(slow));
        slow.delay = MS / 5;
        REQUIRE_INT(pawl_open("slow:", PAWL_OPEN(.drive = drive), &client), PAWL_OK);
        return client;
}

static void pump(pawl_client *client, const atomic_int *done, int wanted)
{
        struct pollfd ready = {.fd = pawl_fd(client), .events = POLLIN};

        for (int i = 0; i < 5000 && atomic_load(done) < wanted; i++) {
                if (ready.fd >= 0) {
                        poll(&ready, 1, 20);
                        CHECK_INT(pawl_dispatch(client), PAWL_OK);
                } else {
                        usleep(2000);
                }
        }
        CHECK_INT(atomic_load(done), wanted);
}

static void pairs(uint32_t drive)
{
        pawl_client *client = open_client(drive);
        uint64_t last = 0;

        for (int i = 0; i < 200; i++) {
                pawl_lock *lock;

                REQUIRE_INT(pawl_acquire(client, "a", NULL, &lock), PAWL_OK);
                CHECK(pawl_token(lock) > last);
                last = pawl_token(lock);
                CHECK_INT(pawl_check(lock), PAWL_OK);
                CHECK_INT(pawl_release(lock), PAWL_OK);
        }
        CHECK_INT(slow.held, 0);
        CHECK_INT(pawl_close(client), PAWL_OK);
}

TEST(a_blocking_caller_gets_his_answers_with_a_private_thread)
{
        pairs(PAWL_DRIVE_THREAD);
}

TEST(a_blocking_caller_gets_his_answers_without_one)
{
        pairs(PAWL_DRIVE_CALLER);
}

struct crowd {
        pawl_client *client;
        volatile int inside[4];
        volatile int count[4];
        _Atomic(const char *) complaint;
};

static const char *come_and_go(struct crowd *crowd)
{
        static const char *const names[] = {"a", "b", "c", "d"};

        for (int i = 0; i < 100; i++) {
                pawl_lock *lock;
                int n = i & 3;

                if (pawl_acquire(crowd->client, names[n], NULL, &lock) != PAWL_OK)
                        return "acquire failed";
                if (crowd->inside[n]++ != 0)
                        return "two inside";
                crowd->count[n]++;
                crowd->inside[n]--;
                if (pawl_release(lock) != PAWL_OK)
                        return "release failed";
        }
        return NULL;
}

static void *crowd_member(void *arg)
{
        struct crowd *crowd = arg;
        const char *complaint = come_and_go(crowd);

        if (complaint)
                atomic_store(&crowd->complaint, complaint);
        return NULL;
}

static void crowd_of_eight(uint32_t drive)
{
        struct crowd crowd = {.client = open_client(drive)};
        pthread_t threads[8];

        slow.delay = MS / 20;
        for (int i = 0; i < 8; i++)
                REQUIRE_INT(pthread_create(&threads[i], NULL, crowd_member, &crowd), 0);
        for (int i = 0; i < 8; i++)
                pthread_join(threads[i], NULL);
        CHECK_STR(atomic_load(&crowd.complaint) ? atomic_load(&crowd.complaint) : "none", "none");
        for (int i = 0; i < 4; i++)
                CHECK_INT(crowd.count[i], 200);
        CHECK_INT(pawl_close(crowd.client), PAWL_OK);
}

TEST(eight_threads_share_one_client_with_a_private_thread)
{
        crowd_of_eight(PAWL_DRIVE_THREAD);
}

TEST(eight_threads_share_one_client_without_one)
{
        crowd_of_eight(PAWL_DRIVE_CALLER);
}

struct heard {
        atomic_int granted, lost, released;
        atomic_int status, reason;
        pthread_t where;
        pawl_client *client;
        int nested;
};

static void on_granted(pawl_lock *lock, int status, void *arg)
{
        struct heard *heard = arg;
        pawl_lock *other;

        (void)lock;
        heard->where = pthread_self();
        heard->nested = pawl_acquire(heard->client, "nested", NULL, &other);
        atomic_store(&heard->status, status);
        atomic_fetch_add(&heard->granted, 1);
}

static void on_lost(pawl_lock *lock, int reason, void *arg)
{
        struct heard *heard = arg;

        CHECK_INT(pawl_check(lock), PAWL_LOST);
        atomic_store(&heard->reason, reason);
        atomic_fetch_add(&heard->lost, 1);
}

static void on_released(int status, void *arg)
{
        struct heard *heard = arg;

        atomic_store(&heard->status, status);
        atomic_fetch_add(&heard->released, 1);
}

TEST(callbacks_run_on_the_private_thread_and_may_not_block)
{
        struct heard heard = {.client = open_client(PAWL_DRIVE_THREAD)};
        pawl_lock *lock;

        REQUIRE_INT(pawl_acquire_async(heard.client, "a", NULL, on_granted, &heard, &lock), PAWL_OK);
        pump(heard.client, &heard.granted, 1);
        CHECK(!pthread_equal(heard.where, pthread_self()));
        CHECK_INT(heard.nested, PAWL_MISUSE);
        CHECK_INT(heard.status, PAWL_OK);
        CHECK_INT(pawl_release_async(lock, on_released, &heard), PAWL_OK);
        pump(heard.client, &heard.released, 1);
        CHECK_INT(heard.status, PAWL_OK);
        CHECK_INT(pawl_close(heard.client), PAWL_OK);
}

TEST(callbacks_run_inside_dispatch_without_a_thread)
{
        struct heard heard = {.client = open_client(PAWL_DRIVE_CALLER)};
        pawl_lock *lock;

        REQUIRE_INT(pawl_acquire_async(heard.client, "a", NULL, on_granted, &heard, &lock), PAWL_OK);
        CHECK_INT(heard.granted, 0);
        pump(heard.client, &heard.granted, 1);
        CHECK(pthread_equal(heard.where, pthread_self()));
        CHECK_INT(pawl_release(lock), PAWL_OK);
        CHECK_INT(pawl_close(heard.client), PAWL_OK);
}

TEST(a_wait_ends_in_time_although_the_store_never_answers)
{
        pawl_client *client = open_client(PAWL_DRIVE_THREAD);
        struct pawl_why why = {0};
        pawl_lock *lock;

        slow.mute_acquire = true;
        CHECK_INT(pawl_acquire(client, "a", PAWL_LOCK(.wait_ms = 30, .why = &why), &lock), PAWL_TIMEOUT);
        CHECK_INT(why.code, PAWL_TIMEOUT);
        CHECK_INT(pawl_close(client), PAWL_OK);
}

TEST(a_grant_that_comes_after_the_wait_is_given_back)
{
        pawl_client *client = open_client(PAWL_DRIVE_THREAD);
        pawl_lock *lock;

        slow.delay = 80 * MS;
        CHECK_INT(pawl_acquire(client, "a", PAWL_LOCK(.wait_ms = 20), &lock), PAWL_TIMEOUT);
        usleep(300000);
        slow.delay = MS / 5;
        CHECK_INT(pawl_acquire(client, "a", PAWL_LOCK(.wait_ms = 5000), &lock), PAWL_OK);
        CHECK_INT(pawl_release(lock), PAWL_OK);
        CHECK_INT(slow.held, 0);
        CHECK_INT(pawl_close(client), PAWL_OK);
}

TEST(a_grant_older_than_its_lease_is_asked_for_again)
{
        pawl_client *client = open_client(PAWL_DRIVE_THREAD);
        pawl_lock *lock;

        slow.grant_age = 2 * SECOND;
        CHECK_INT(pawl_acquire(client, "a", PAWL_LOCK(.ttl_ms = 1000), &lock), PAWL_OK);
        CHECK_INT(slow.acquires, 2);
        CHECK_INT(slow.releases, 1);
        CHECK_INT(pawl_check(lock), PAWL_OK);
        CHECK_INT(pawl_release(lock), PAWL_OK);
        CHECK_INT(pawl_close(client), PAWL_OK);
}

TEST(a_grant_older_than_its_lease_is_an_error_for_one_who_does_not_wait)
{
        pawl_client *client = open_client(PAWL_DRIVE_THREAD);
        pawl_lock *lock;

        slow.grant_age = 2 * SECOND;
        CHECK_INT(pawl_acquire(client, "a", PAWL_LOCK(.ttl_ms = 1000, .wait_ms = PAWL_NO_WAIT), &lock),
                  PAWL_UNREACHABLE);
        CHECK_INT(pawl_close(client), PAWL_OK);
        CHECK_INT(slow.releases, 1);
}

TEST(renewals_that_are_not_answered_make_the_lock_uncertain_and_then_lost_once)
{
        struct heard heard = {.client = open_client(PAWL_DRIVE_THREAD)};
        bool uncertain = false;
        pawl_lock *lock;

        slow.mute_renew = true;
        REQUIRE_INT(pawl_acquire(heard.client, "a", PAWL_LOCK(.ttl_ms = 400, .on_lost = on_lost, .arg = &heard), &lock),
                    PAWL_OK);
        while (pawl_check(lock) == PAWL_OK) {
                if (pawl_state(lock) == PAWL_UNCERTAIN)
                        uncertain = true;
                usleep(1000);
        }
        CHECK(uncertain);
        CHECK_INT(pawl_state(lock), PAWL_GONE);
        CHECK_INT(pawl_reason(lock), PAWL_REASON_EXPIRED);
        CHECK_INT(pawl_remaining_ms(lock), 0);
        pump(heard.client, &heard.lost, 1);
        CHECK_INT(heard.reason, PAWL_REASON_EXPIRED);
        usleep(100000);
        CHECK_INT(heard.lost, 1);
        CHECK_INT(pawl_release(lock), PAWL_LOST);
        CHECK_INT(pawl_close(heard.client), PAWL_OK);
}

TEST(renewals_that_fail_are_tried_again_until_one_succeeds)
{
        struct heard heard = {.client = open_client(PAWL_DRIVE_THREAD)};
        pawl_lock *lock;
        int waited = 0;

        slow.fail_renew = true;
        REQUIRE_INT(
                pawl_acquire(heard.client, "a", PAWL_LOCK(.ttl_ms = 3000, .on_lost = on_lost, .arg = &heard), &lock),
                PAWL_OK);
        while (pawl_state(lock) != PAWL_UNCERTAIN && waited++ < 5000)
                usleep(1000);
        CHECK(__atomic_load_n(&slow.renewals, __ATOMIC_RELAXED) >= 1);
        slow.fail_renew = false;
        while (pawl_state(lock) == PAWL_UNCERTAIN && waited++ < 5000)
                usleep(1000);
        CHECK_INT(pawl_state(lock), PAWL_HELD);
        CHECK_INT(pawl_release(lock), PAWL_OK);
        CHECK_INT(heard.lost, 0);
        CHECK_INT(pawl_close(heard.client), PAWL_OK);
}

TEST(a_release_nobody_confirms_is_in_doubt_at_the_end_of_the_lease)
{
        pawl_client *client = open_client(PAWL_DRIVE_THREAD);
        pawl_lock *lock;

        slow.mute_release = true;
        REQUIRE_INT(pawl_acquire(client, "a", PAWL_LOCK(.ttl_ms = 200), &lock), PAWL_OK);
        CHECK_INT(pawl_release(lock), PAWL_IN_DOUBT);
        CHECK_INT(pawl_release(lock), PAWL_MISUSE);
        CHECK_INT(pawl_close(client), PAWL_OK);
}

static void release_inside(pawl_lock *lock, int status, void *arg)
{
        struct heard *heard = arg;

        atomic_store(&heard->status, status);
        heard->nested = pawl_release(lock);
        atomic_fetch_add(&heard->granted, 1);
}

TEST(a_release_inside_a_callback_does_not_wait_for_the_store)
{
        struct heard heard = {.client = open_client(PAWL_DRIVE_THREAD)};
        pawl_lock *lock;

        REQUIRE_INT(pawl_acquire_async(heard.client, "a", NULL, release_inside, &heard, &lock), PAWL_OK);
        pump(heard.client, &heard.granted, 1);
        CHECK_INT(heard.nested, PAWL_IN_DOUBT);
        REQUIRE_INT(pawl_acquire(heard.client, "a", PAWL_LOCK(.wait_ms = 5000), &lock), PAWL_OK);
        CHECK_INT(pawl_release(lock), PAWL_OK);
        CHECK_INT(pawl_close(heard.client), PAWL_OK);
}

static void *blocked(void *arg)
{
        struct heard *heard = arg;
        pawl_lock *lock;

        atomic_store(&heard->status, pawl_acquire(heard->client, "a", NULL, &lock));
        atomic_fetch_add(&heard->granted, 1);
        return NULL;
}

TEST(closing_ends_a_blocked_acquire_and_a_waiting_claim)
{
        struct heard async = {.client = open_client(PAWL_DRIVE_THREAD)}, blocking = {.client = async.client};
        pawl_lock *held, *waiting;
        pthread_t thread;

        REQUIRE_INT(pawl_acquire(async.client, "a", NULL, &held), PAWL_OK);
        REQUIRE_INT(pawl_acquire_async(async.client, "a", NULL, on_granted, &async, &waiting), PAWL_OK);
        REQUIRE_INT(pthread_create(&thread, NULL, blocked, &blocking), 0);
        usleep(50000);
        CHECK_INT(pawl_close(async.client), PAWL_OK);
        CHECK_INT(async.granted, 1);
        CHECK_INT(async.status, PAWL_CANCELLED);
        pthread_join(thread, NULL);
        CHECK_INT(blocking.status, PAWL_CANCELLED);
        CHECK_INT(slow.held, 0);
}

TEST(a_hundred_claims_in_flight_are_each_answered_once)
{
        struct heard heard = {.client = open_client(PAWL_DRIVE_CALLER)};
        pawl_lock *locks[100];

        for (int i = 0; i < 100; i++)
                REQUIRE_INT(
                        pawl_acquire_async(heard.client, i % 2 ? "a" : "b", NULL, release_inside, &heard, &locks[i]),
                        PAWL_OK);
        pump(heard.client, &heard.granted, 100);
        CHECK_INT(pawl_close(heard.client), PAWL_OK);
        CHECK_INT(slow.held, 0);
}

/* ---- who drives when several wait ---------------------------------------------------------------------------------- */

struct errand {
        pawl_client *client;
        const char *name;
        pawl_lock *lock;
        int64_t wait_ms;
        atomic_int code;
        atomic_bool done;
        pthread_t thread;
};

static void *fetch_lock(void *arg)
{
        struct errand *errand = arg;

        atomic_store(&errand->code,
                     pawl_acquire(errand->client, errand->name, PAWL_LOCK(.wait_ms = errand->wait_ms), &errand->lock));
        atomic_store(&errand->done, true);
        return NULL;
}

static void *give_lock(void *arg)
{
        struct errand *errand = arg;

        atomic_store(&errand->code, pawl_release(errand->lock));
        atomic_store(&errand->done, true);
        return NULL;
}

static void send_out(struct errand *errand, void *(*what)(void *))
{
        REQUIRE_INT(pthread_create(&errand->thread, NULL, what, errand), 0);
        usleep(20000); /* until it waits, most likely */
}

static bool comes_back(const struct errand *errand)
{
        for (int i = 0; i < 5000 && !atomic_load(&errand->done); i++)
                usleep(1000);
        return atomic_load(&errand->done);
}

/* One turn of the loop ends the wait of the one who drives and of the first who sleeps: the second is left over. */
static void the_last_is_not_left_alone(uint32_t drive)
{
        pawl_client *client = open_client(drive);
        struct errand next = {.client = client, .name = "a"}, giver = {.client = client};
        struct errand last = {.client = client, .name = "b", .wait_ms = 300};
        pawl_lock *other;

        REQUIRE_INT(pawl_acquire(client, "a", NULL, &giver.lock), PAWL_OK);
        REQUIRE_INT(pawl_acquire(client, "b", NULL, &other), PAWL_OK);
        send_out(&next, fetch_lock);
        __atomic_store_n(&slow.delay, 200 * MS, __ATOMIC_RELAXED);
        send_out(&giver, give_lock);
        send_out(&last, fetch_lock);
        CHECK(comes_back(&next) && comes_back(&giver));
        CHECK(comes_back(&last));
        CHECK_INT(atomic_load(&last.code), PAWL_TIMEOUT);
        CHECK_INT(pawl_close(client), PAWL_OK);
        pthread_join(next.thread, NULL);
        pthread_join(giver.thread, NULL);
        pthread_join(last.thread, NULL);
}

TEST(one_who_waits_drives_when_all_others_were_answered_at_once)
{
        the_last_is_not_left_alone(PAWL_DRIVE_CALLER);
}

TEST(one_who_waits_is_answered_beside_a_private_thread_when_all_others_were)
{
        the_last_is_not_left_alone(PAWL_DRIVE_THREAD);
}

static atomic_bool may_return;

static void dawdle(pawl_lock *lock, int status, void *arg)
{
        atomic_int *calls = arg;

        (void)lock, (void)status;
        atomic_fetch_add(calls, 1);
        for (int i = 0; i < 5000 && !atomic_load(&may_return); i++)
                usleep(1000);
}

TEST(a_caller_who_drives_lets_others_in_while_the_thread_is_in_a_callback)
{
        pawl_client *client = open_client(PAWL_DRIVE_THREAD);
        struct errand next = {.client = client, .name = "a"};
        pawl_lock *held, *first, *second;
        static atomic_int calls;

        atomic_store(&may_return, false);
        REQUIRE_INT(pawl_acquire(client, "a", NULL, &held), PAWL_OK);
        send_out(&next, fetch_lock);
        REQUIRE_INT(pawl_acquire_async(client, "b", NULL, dawdle, &calls, &first), PAWL_OK);
        REQUIRE_INT(pawl_acquire_async(client, "c", NULL, dawdle, &calls, &second), PAWL_OK);
        for (int i = 0; i < 5000 && atomic_load(&calls) == 0; i++)
                usleep(1000);
        usleep(50000); /* one callback runs, the other is due */
        CHECK_INT(pawl_release(held), PAWL_OK);
        CHECK(comes_back(&next));
        CHECK_INT(atomic_load(&next.code), PAWL_OK);
        CHECK_INT(atomic_load(&calls), 1);
        atomic_store(&may_return, true);
        pump(client, &calls, 2);
        pthread_join(next.thread, NULL);
        CHECK_INT(pawl_close(client), PAWL_OK);
}
