/* silence_test.c - what becomes of a question, a renewal or a claim that the store does not answer, or answers with no; and
 * that the sentence for it can be read afterwards. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
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

static int64_t now_ms(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_BOOTTIME, &ts);
        return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static int count_entry(const struct pawl_entry *entry, void *arg)
{
        (void)entry;
        ++*(int *)arg;
        return 0;
}

static int count_finding(const struct pawl_finding *finding, void *arg)
{
        CHECK_STR(finding->where, "slow");
        CHECK_STR(finding->what, "it is slow");
        CHECK_STR(finding->mend, "wait");
        ++*(int *)arg;
        return 0;
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

static void ask_a_silent_store(uint32_t drive)
{
        pawl_client *client = open_client(drive);
        struct pawl_why why;
        int64_t began = now_ms();
        int entries = 0;

        slow.mute_inspect = true;
        CHECK_INT(pawl_list(client, NULL, count_entry, &entries), PAWL_UNREACHABLE);
        CHECK(now_ms() - began >= 4900);
        CHECK_UINT(slow.forgotten, 1);
        CHECK_INT(pawl_explain(client, &why), PAWL_OK);
        CHECK_INT(why.code, PAWL_UNREACHABLE);
        CHECK_HAS(why.text, "did not answer in time");
        CHECK_INT(pawl_close(client), PAWL_OK);
        CHECK_INT(entries, 0);
}

TEST(a_question_to_a_silent_store_ends_after_5_s_with_a_private_thread)
{
        ask_a_silent_store(PAWL_DRIVE_THREAD);
}

TEST(a_question_to_a_silent_store_ends_after_5_s_without_one)
{
        ask_a_silent_store(PAWL_DRIVE_CALLER);
}

TEST(a_question_that_was_answered_is_not_forgotten_later)
{
        pawl_client *client = open_client(PAWL_DRIVE_THREAD);
        struct pawl_why why;

        CHECK_INT(pawl_explain(client, &why), PAWL_OK);
        CHECK_INT(why.code, PAWL_OK);
        CHECK_STR(why.text, "");
        CHECK_INT(pawl_break(client, "a"), PAWL_DENIED);
        CHECK_INT(pawl_explain(client, &why), PAWL_OK);
        CHECK_INT(why.code, PAWL_DENIED);
        CHECK_STR(why.text, "nobody may look");
        CHECK_INT(pawl_close(client), PAWL_OK);
        CHECK_UINT(slow.forgotten, 0);
}

TEST(what_is_wrong_with_the_call_itself_is_explained_too)
{
        pawl_client *client = open_client(PAWL_DRIVE_THREAD);
        struct pawl_why why;

        CHECK_INT(pawl_break(client, ""), PAWL_INVALID);
        CHECK_INT(pawl_explain(client, &why), PAWL_OK);
        CHECK_INT(why.code, PAWL_INVALID);
        CHECK(why.text[0] != 0);
        CHECK_INT(pawl_list(client, NULL, NULL, NULL), PAWL_INVALID);
        CHECK_INT(pawl_explain(client, NULL), PAWL_INVALID);
        CHECK_INT(pawl_explain(NULL, &why), PAWL_INVALID);
        CHECK_INT(pawl_close(client), PAWL_OK);
}

TEST(findings_are_told_also_when_the_examination_failed)
{
        pawl_client *client = open_client(PAWL_DRIVE_CALLER);
        int findings = 0;

        CHECK_INT(pawl_examine(client, count_finding, &findings), PAWL_DENIED);
        CHECK_INT(findings, 1);
        CHECK_INT(pawl_close(client), PAWL_OK);
}

struct asker {
        pawl_client *client;
        atomic_int code;
};

static void *ask_on(void *arg)
{
        struct asker *asker = arg;

        atomic_store(&asker->code, pawl_ask(asker->client, "a"));
        return NULL;
}

static void close_while_two_ask(uint32_t drive)
{
        struct asker askers[2];
        pthread_t threads[2];
        int64_t began;

        askers[0].client = askers[1].client = open_client(drive);
        slow.mute_inspect = true;
        for (int i = 0; i < 2; i++) {
                atomic_init(&askers[i].code, -1);
                REQUIRE_INT(pthread_create(&threads[i], NULL, ask_on, &askers[i]), 0);
        }
        while (__atomic_load_n(&slow.inquiries, __ATOMIC_RELAXED) < 2)
                usleep(1000);
        began = now_ms();
        CHECK_INT(pawl_close(askers[0].client), PAWL_OK);
        CHECK(now_ms() - began < 4000);
        for (int i = 0; i < 2; i++) {
                pthread_join(threads[i], NULL);
                CHECK_INT(atomic_load(&askers[i].code), PAWL_CANCELLED);
        }
        CHECK_UINT(slow.forgotten, 2);
}

TEST(closing_ends_the_questions_of_other_threads_with_a_private_thread)
{
        close_while_two_ask(PAWL_DRIVE_THREAD);
}

TEST(closing_ends_the_questions_of_other_threads_without_one)
{
        close_while_two_ask(PAWL_DRIVE_CALLER);
}

struct keeper {
        pawl_lock *lock;
        atomic_int code;
};

static void *keep_on(void *arg)
{
        struct keeper *keeper = arg;

        atomic_store(&keeper->code, pawl_store(keeper->lock, "x", 1, 0));
        return NULL;
}

/* It was sent: nobody can say that it was not done. */
TEST(closing_leaves_what_is_being_stored_in_doubt)
{
        pawl_client *client = open_client(PAWL_DRIVE_THREAD);
        struct keeper keeper = {.code = -1};
        pthread_t thread;

        slow.mute_inspect = true;
        REQUIRE_INT(pawl_acquire(client, "a", NULL, &keeper.lock), PAWL_OK);
        REQUIRE_INT(pthread_create(&thread, NULL, keep_on, &keeper), 0);
        while (__atomic_load_n(&slow.inquiries, __ATOMIC_RELAXED) < 1)
                usleep(1000);
        CHECK_INT(pawl_close(client), PAWL_OK);
        pthread_join(thread, NULL);
        CHECK_INT(atomic_load(&keeper.code), PAWL_IN_DOUBT);
        CHECK_UINT(slow.forgotten, 1);
}

/* ---- renewals ---------------------------------------------------------------------------------------------------- */

struct renewer {
        pawl_lock *lock;
        atomic_int code;
};

static void *renew_on(void *arg)
{
        struct renewer *renewer = arg;

        atomic_store(&renewer->code, pawl_renew(renewer->lock));
        return NULL;
}

static void begin_to_renew(struct renewer *renewer, pthread_t *thread)
{
        uint32_t before = __atomic_load_n(&slow.renewals, __ATOMIC_RELAXED);

        __atomic_store_n(&slow.mute_renew, true, __ATOMIC_RELAXED);
        atomic_init(&renewer->code, -1);
        REQUIRE_INT(pthread_create(thread, NULL, renew_on, renewer), 0);
        while (__atomic_load_n(&slow.renewals, __ATOMIC_RELAXED) == before)
                usleep(1000);
}

static void release_beside_renew(uint32_t drive)
{
        pawl_client *client = open_client(drive);
        struct renewer renewer;
        pthread_t thread;

        REQUIRE_INT(pawl_acquire(client, "a", PAWL_LOCK(.flags = PAWL_NO_RENEW, .ttl_ms = 60000), &renewer.lock),
                    PAWL_OK);
        begin_to_renew(&renewer, &thread);
        CHECK_INT(pawl_release(renewer.lock), PAWL_OK);
        pthread_join(thread, NULL);
        CHECK_INT(atomic_load(&renewer.code), PAWL_LOST);
        CHECK_INT(pawl_close(client), PAWL_OK);
}

TEST(a_renewal_ends_when_another_thread_releases_with_a_private_thread)
{
        release_beside_renew(PAWL_DRIVE_THREAD);
}

TEST(a_renewal_ends_when_another_thread_releases_without_one)
{
        release_beside_renew(PAWL_DRIVE_CALLER);
}

TEST(a_renewal_ends_when_another_thread_releases_asynchronously)
{
        pawl_client *client = open_client(PAWL_DRIVE_THREAD);
        struct renewer renewer;
        pthread_t thread;

        REQUIRE_INT(pawl_acquire(client, "a", PAWL_LOCK(.flags = PAWL_NO_RENEW, .ttl_ms = 60000), &renewer.lock),
                    PAWL_OK);
        begin_to_renew(&renewer, &thread);
        CHECK_INT(pawl_release_async(renewer.lock, NULL, NULL), PAWL_OK);
        pthread_join(thread, NULL);
        CHECK_INT(atomic_load(&renewer.code), PAWL_LOST);
        CHECK_INT(pawl_close(client), PAWL_OK);
}

TEST(closing_ends_a_renewal_of_another_thread)
{
        pawl_client *client = open_client(PAWL_DRIVE_THREAD);
        struct renewer renewer;
        pthread_t thread;

        REQUIRE_INT(pawl_acquire(client, "a", PAWL_LOCK(.flags = PAWL_NO_RENEW, .ttl_ms = 60000), &renewer.lock),
                    PAWL_OK);
        begin_to_renew(&renewer, &thread);
        CHECK_INT(pawl_close(client), PAWL_OK);
        pthread_join(thread, NULL);
        CHECK_INT(atomic_load(&renewer.code), PAWL_LOST);
}

TEST(a_renewal_that_nobody_answers_ends_with_the_lease)
{
        pawl_client *client = open_client(PAWL_DRIVE_THREAD);
        pawl_lock *lock;

        REQUIRE_INT(pawl_acquire(client, "a", PAWL_LOCK(.flags = PAWL_NO_RENEW, .ttl_ms = 300), &lock), PAWL_OK);
        slow.mute_renew = true;
        CHECK_INT(pawl_renew(lock), PAWL_LOST);
        CHECK_INT(pawl_release(lock), PAWL_LOST);
        CHECK_INT(pawl_close(client), PAWL_OK);
}

/* ---- sentences --------------------------------------------------------------------------------------------------- */

static void on_granted(pawl_lock *lock, int status, void *arg)
{
        (void)lock;
        atomic_store((atomic_int *)arg, status);
}

TEST(an_asynchronous_refusal_keeps_its_sentence_until_the_handle_is_given_back)
{
        pawl_client *client = open_client(PAWL_DRIVE_THREAD);
        atomic_int status = -1;
        struct pawl_why why;
        pawl_lock *lock;

        slow.refuse = true;
        REQUIRE_INT(pawl_acquire_async(client, "a", NULL, on_granted, &status, &lock), PAWL_OK);
        while (atomic_load(&status) == -1)
                usleep(1000);
        CHECK_INT(atomic_load(&status), PAWL_DENIED);
        CHECK_INT(pawl_lock_why(lock, &why), PAWL_OK);
        CHECK_INT(why.code, PAWL_DENIED);
        CHECK_STR(why.text, "the store said no");
        CHECK_INT(pawl_lock_why(lock, NULL), PAWL_INVALID);
        CHECK_INT(pawl_release(lock), PAWL_CANCELLED);
        CHECK_INT(pawl_lock_why(lock, &why), PAWL_MISUSE);
        CHECK_INT(pawl_close(client), PAWL_OK);
}

TEST(a_refusal_nobody_collects_leaks_nothing)
{
        pawl_client *client = open_client(PAWL_DRIVE_CALLER);
        atomic_int status = -1;
        pawl_lock *lock;

        slow.refuse = true;
        REQUIRE_INT(pawl_acquire_async(client, "a", NULL, on_granted, &status, &lock), PAWL_OK);
        while (atomic_load(&status) == -1)
                CHECK_INT(pawl_dispatch(client), PAWL_OK);
        CHECK_INT(pawl_close(client), PAWL_OK);
}

TEST(a_lost_lock_says_why_in_words_and_a_held_one_nothing)
{
        pawl_client *client = open_client(PAWL_DRIVE_THREAD);
        struct pawl_why why;
        pawl_lock *lock;

        REQUIRE_INT(pawl_acquire(client, "orders", PAWL_LOCK(.flags = PAWL_NO_RENEW, .ttl_ms = 60), &lock), PAWL_OK);
        if (pawl_check(lock) == PAWL_OK) {
                CHECK_INT(pawl_lock_why(lock, &why), PAWL_OK);
                CHECK(why.code == PAWL_OK || pawl_check(lock) == PAWL_LOST);
        }
        usleep(80000);
        CHECK_INT(pawl_lock_why(lock, &why), PAWL_OK);
        CHECK_INT(why.code, PAWL_LOST);
        CHECK_HAS(why.text, "orders");
        CHECK_HAS(why.text, pawl_reason_text(PAWL_REASON_EXPIRED));
        CHECK_INT(pawl_release(lock), PAWL_LOST);
        CHECK_INT(pawl_close(client), PAWL_OK);
}
