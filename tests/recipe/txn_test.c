/* txn_test.c - transactions: what each policy says to the older and to the younger, who lets go, and what is left behind. */
#include <fcntl.h>
#include <poll.h>
#include <pawl/txn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "contract.h"

enum { TTL = 1000 }; /* of locks that are to run out */

/* Two clients, and a third one that stands outside; the older transaction is the first client's. */
struct stage {
        const char *place;
        pawl_client *one, *two, *outside;
        pawl_txn *older, *younger;
};

static const uint32_t needs[] = {
        [PAWL_ORDERED] = 0,
        [PAWL_BACK_OFF] = 0,
        [PAWL_WAIT_DIE] = PAWL_CAN_AGE | PAWL_CAN_INSPECT,
        [PAWL_WOUND_WAIT] = PAWL_CAN_AGE | PAWL_CAN_INSPECT | PAWL_CAN_ASK,
};

static bool supports(pawl_client *client, uint32_t policy)
{
        return (pawl_capabilities(client) & needs[policy]) == needs[policy];
}

static void see_wounded(pawl_txn *txn, void *arg)
{
        int code = pawl_txn_check(txn);

        CHECK(code == PAWL_WOUNDED || code == PAWL_LOST);
        CHECK_CODE(pawl_txn_restart(txn), PAWL_MISUSE);
        CHECK_CODE(pawl_txn_end(txn), PAWL_MISUSE);
        atomic_fetch_add((atomic_int *)arg, 1);
}

static pawl_txn *begin(pawl_client *client, uint32_t policy, int64_t ttl_ms, atomic_int *wounded)
{
        pawl_txn *txn = NULL;
        int code = pawl_txn_begin(client,
                                  PAWL_TXN(.policy = policy, .ttl_ms = ttl_ms,
                                           .on_wounded = wounded ? see_wounded : NULL, .arg = wounded),
                                  &txn);

        REQUIRE_CODE(code, PAWL_OK);
        nap(3); /* ages are milliseconds */
        return txn;
}

static struct stage set_up(uint32_t policy)
{
        struct stage stage = {.place = fresh_place()};

        stage.one = join(stage.place);
        stage.two = join(stage.place);
        stage.outside = join(stage.place);
        NEEDS(stage.one, needs[policy]);
        stage.older = begin(stage.one, policy, 0, NULL);
        stage.younger = begin(stage.two, policy, 0, NULL);
        return stage;
}

/* One more lock, taken by a thread of its own. */
struct attempt {
        pawl_txn *txn;
        const char *name;
        pthread_t thread;
        atomic_int code; /* -1: it waits */
};

static void *attempt_main(void *arg)
{
        struct attempt *attempt = arg;

        atomic_store(&attempt->code, pawl_txn_acquire(attempt->txn, attempt->name, NULL, NULL));
        return NULL;
}

static void start(struct attempt *attempt, pawl_txn *txn, const char *name)
{
        attempt->txn = txn;
        attempt->name = name;
        atomic_store(&attempt->code, -1);
        REQUIRE_INT(pthread_create(&attempt->thread, NULL, attempt_main, attempt), 0);
}

static int outcome(struct attempt *attempt)
{
        pthread_join(attempt->thread, NULL);
        return atomic_load(&attempt->code);
}

static bool is_waiting(struct attempt *attempt)
{
        nap(200); /* more than one look */
        return atomic_load(&attempt->code) == -1;
}

static bool all_free(pawl_client *client, const char *names)
{
        for (const char *p = names; *p; p++)
                if (!SOON(is_free(client, (char[]){*p, '\0'})))
                        return false;
        return true;
}

/* ---- what holds for all ------------------------------------------------------------------------------------------- */

TEST(a_transaction_holds_its_locks_until_it_ends)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);

        for (uint32_t policy = PAWL_ORDERED; policy <= PAWL_WOUND_WAIT; policy++) {
                pawl_lock *a = NULL, *b = NULL;
                pawl_txn *txn;

                if (!supports(one, policy))
                        continue;
                txn = begin(one, policy, 0, NULL);
                CHECK_CODE(pawl_txn_check(txn), PAWL_OK);
                MUST(pawl_txn_acquire(txn, "a", NULL, &a));
                MUST(pawl_txn_acquire(txn, "b", PAWL_LOCK(.note = "mine"), &b));
                MUST(pawl_txn_acquire(txn, "c", NULL, NULL));
                CHECK(a && b && pawl_token(a) && pawl_token(b));
                CHECK(pawl_txn_lock(txn, "a") == a && pawl_txn_lock(txn, "c"));
                CHECK_NULL(pawl_txn_lock(txn, "d"));
                CHECK_CODE(pawl_txn_check(txn), PAWL_OK);
                CHECK(!is_free(two, "a") && !is_free(two, "b") && !is_free(two, "c"));
                CHECK_CODE(pawl_txn_end(txn), PAWL_OK);
                CHECK(all_free(two, "abc"));
        }
}

TEST(a_name_is_not_taken_twice)
{
        struct pawl_why why = {0};
        pawl_client *one = join(fresh_place());
        pawl_txn *txn = begin(one, PAWL_BACK_OFF, 0, NULL);

        MUST(pawl_txn_acquire(txn, "a", NULL, NULL));
        CHECK_CODE(pawl_txn_acquire(txn, "a", PAWL_LOCK(.why = &why), NULL), PAWL_MISUSE);
        CHECK_HAS(why.text, "already");
        CHECK_CODE(pawl_txn_check(txn), PAWL_OK);
        CHECK_CODE(pawl_txn_end(txn), PAWL_OK);
}

TEST(what_is_wrong_with_the_call_is_said_at_once)
{
        struct pawl_why why = {0};
        pawl_client *one = join(fresh_place());
        pawl_txn *txn = NULL;

        CHECK_CODE(pawl_txn_begin(NULL, NULL, &txn), PAWL_INVALID);
        CHECK_CODE(pawl_txn_begin(one, NULL, NULL), PAWL_INVALID);
        CHECK_CODE(pawl_txn_begin(one, PAWL_TXN(.policy = 9, .why = &why), &txn), PAWL_UNSUPPORTED);
        CHECK_HAS(why.text, "policy");
        CHECK_CODE(pawl_txn_begin(one, PAWL_TXN(.wait_ms = -2), &txn), PAWL_INVALID);
        CHECK_CODE(pawl_txn_begin(one, PAWL_TXN(.try_ms = -1), &txn), PAWL_INVALID);
        CHECK_CODE(pawl_txn_begin(one, &(struct pawl_txn_options){0}, &txn), PAWL_INVALID);
        CHECK_CODE(pawl_txn_run(one, NULL, NULL, NULL), PAWL_INVALID);
        CHECK_CODE(pawl_txn_acquire(NULL, "a", NULL, NULL), PAWL_INVALID);
        CHECK_CODE(pawl_txn_check(NULL), PAWL_INVALID);
        CHECK_CODE(pawl_txn_restart(NULL), PAWL_INVALID);
        CHECK_CODE(pawl_txn_end(NULL), PAWL_OK);
        txn = begin(one, PAWL_ORDERED, 0, NULL);
        CHECK_CODE(pawl_txn_acquire(txn, NULL, NULL, NULL), PAWL_INVALID);
        CHECK_CODE(pawl_txn_acquire(txn, "", NULL, NULL), PAWL_INVALID);
        CHECK_CODE(pawl_txn_acquire(txn, "a", PAWL_LOCK(.age = 7, .why = &why), NULL), PAWL_INVALID);
        CHECK_HAS(why.text, "age");
        CHECK_CODE(pawl_txn_acquire(txn, "a", PAWL_LOCK(.ttl_ms = 1), NULL), PAWL_INVALID);
        CHECK_CODE(pawl_txn_check(txn), PAWL_OK);
        CHECK_CODE(pawl_txn_end(txn), PAWL_OK);
        CHECK(is_free(one, "a"));
}

TEST(an_engine_without_ages_says_so_at_the_begin)
{
        struct pawl_why why = {0};
        pawl_client *one = join(fresh_place());
        pawl_txn *txn = NULL;

        for (uint32_t policy = PAWL_WAIT_DIE; policy <= PAWL_WOUND_WAIT; policy++) {
                bool able = supports(one, policy);

                CHECK_CODE(pawl_txn_begin(one, PAWL_TXN(.policy = policy, .why = &why), &txn),
                           able ? PAWL_OK : PAWL_UNSUPPORTED);
                if (able)
                        CHECK_CODE(pawl_txn_end(txn), PAWL_OK);
                else
                        CHECK_HAS(why.text, "PAWL_ORDERED");
        }
}

TEST(the_whole_may_take_so_long_and_no_longer)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock;
        pawl_txn *txn;

        MUST(pawl_acquire(one, "b", NULL, &lock));
        MUST(pawl_txn_begin(two, PAWL_TXN(.policy = PAWL_BACK_OFF, .wait_ms = 400, .try_ms = 50), &txn));
        int64_t began = now_ms();
        int code;
        do {
                code = pawl_txn_acquire(txn, "a", NULL, NULL);
                if (code == PAWL_OK)
                        code = pawl_txn_acquire(txn, "b", NULL, NULL);
        } while (code == PAWL_WOUNDED && (code = pawl_txn_restart(txn)) == PAWL_OK);
        CHECK_CODE(code, PAWL_TIMEOUT);
        CHECK_COMPARE(now_ms() - began, >=, 350);
        CHECK_CODE(pawl_txn_acquire(txn, "c", NULL, NULL), PAWL_TIMEOUT);
        CHECK_CODE(pawl_txn_end(txn), PAWL_OK);
        CHECK(all_free(one, "ac"));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

TEST(who_does_not_wait_is_told_that_it_is_busy)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock;
        pawl_txn *txn;

        MUST(pawl_acquire(one, "b", NULL, &lock));
        for (uint32_t policy = PAWL_ORDERED; policy <= PAWL_WOUND_WAIT; policy++) {
                if (!supports(one, policy))
                        continue;
                MUST(pawl_txn_begin(two, PAWL_TXN(.policy = policy, .wait_ms = PAWL_NO_WAIT), &txn));
                MUST(pawl_txn_acquire(txn, "a", NULL, NULL));
                CHECK_CODE(pawl_txn_acquire(txn, "b", NULL, NULL), PAWL_BUSY);
                CHECK_CODE(pawl_txn_check(txn), PAWL_OK);
                CHECK_CODE(pawl_txn_end(txn), PAWL_OK);
                MUST(pawl_txn_begin(two, PAWL_TXN(.policy = policy, .try_ms = 5000), &txn));
                MUST(pawl_txn_acquire(txn, "a", NULL, NULL));
                CHECK_CODE(pawl_txn_acquire(txn, "b", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), NULL), PAWL_BUSY);
                CHECK_CODE(pawl_txn_acquire(txn, "b", PAWL_LOCK(.wait_ms = 500), NULL), PAWL_TIMEOUT);
                CHECK_CODE(pawl_txn_end(txn), PAWL_OK);
        }
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(nothing_is_left(one, "b"));
}

TEST(a_lock_that_was_lost_is_told_by_check_acquire_and_end)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        struct pawl_why why = {0};
        pawl_txn *txn;

        NEEDS(one, PAWL_CAN_BREAK);
        txn = begin(one, PAWL_ORDERED, 0, NULL);
        MUST(pawl_txn_acquire(txn, "a", PAWL_LOCK(.on_lost = see_lost, .arg = &seen), NULL));
        MUST(pawl_txn_acquire(txn, "b", NULL, NULL));
        CHECK_CODE(break_it(two, "a"), PAWL_OK);
        CHECK(SOON(pawl_txn_check(txn) == PAWL_LOST));
        CHECK(SOON(atomic_load(&seen.lost) == 1));
        CHECK_CODE(pawl_txn_acquire(txn, "c", PAWL_LOCK(.why = &why), NULL), PAWL_LOST);
        CHECK_HAS(why.text, "lost");
        CHECK_CODE(pawl_txn_end(txn), PAWL_LOST);
        CHECK(all_free(two, "abc"));
}

TEST(after_fork_the_transaction_is_the_parents)
{
        pawl_client *one = join(fresh_place());
        pawl_txn *txn = begin(one, PAWL_ORDERED, 0, NULL);
        int status = -1;

        MUST(pawl_txn_acquire(txn, "a", NULL, NULL));
        pid_t pid = fork();
        REQUIRE_COMPARE(pid, >=, 0);
        if (pid == 0) {
                bool right = pawl_txn_acquire(txn, "b", NULL, NULL) == PAWL_FORKED &&
                             pawl_txn_check(txn) == PAWL_FORKED && pawl_txn_restart(txn) == PAWL_FORKED &&
                             pawl_txn_end(txn) == PAWL_FORKED;

                _exit(right ? 0 : 1);
        }
        waitpid(pid, &status, 0);
        CHECK_INT(status, 0);
        CHECK_CODE(pawl_txn_check(txn), PAWL_OK);
        CHECK_CODE(pawl_txn_end(txn), PAWL_OK);
}

/* ---- PAWL_ORDERED ------------------------------------------------------------------------------------------------- */

TEST(ordered_names_that_come_before_one_that_is_held_are_refused)
{
        struct pawl_why why = {0};
        pawl_client *one = join(fresh_place());
        pawl_txn *txn = begin(one, PAWL_ORDERED, 0, NULL);

        MUST(pawl_txn_acquire(txn, "b", NULL, NULL));
        CHECK_CODE(pawl_txn_acquire(txn, "a", PAWL_LOCK(.why = &why), NULL), PAWL_MISUSE);
        CHECK_HAS(why.text, "comes after");
        CHECK_CODE(pawl_txn_acquire(txn, "B", NULL, NULL), PAWL_MISUSE);
        MUST(pawl_txn_acquire(txn, "b/1", NULL, NULL));
        MUST(pawl_txn_acquire(txn, "\xc3\xa9", NULL, NULL)); /* bytes are not signed */
        CHECK_CODE(pawl_txn_acquire(txn, "z", NULL, NULL), PAWL_MISUSE);
        CHECK_CODE(pawl_txn_check(txn), PAWL_OK);
        MUST(pawl_txn_restart(txn));
        MUST(pawl_txn_acquire(txn, "a", NULL, NULL));
        CHECK_CODE(pawl_txn_end(txn), PAWL_OK);
}

TEST(ordered_transactions_wait_for_each_other)
{
        struct stage stage = set_up(PAWL_ORDERED);
        static struct attempt attempt;

        MUST(pawl_txn_acquire(stage.older, "a", NULL, NULL));
        start(&attempt, stage.younger, "a");
        CHECK(queue_reaches(stage.outside, "a", 1));
        MUST(pawl_txn_acquire(stage.older, "b", NULL, NULL));
        CHECK_INT(atomic_load(&attempt.code), -1);
        CHECK_CODE(pawl_txn_end(stage.older), PAWL_OK);
        CHECK_CODE(outcome(&attempt), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.younger), PAWL_OK);
}

/* ---- PAWL_BACK_OFF ------------------------------------------------------------------------------------------------ */

TEST(backing_off_who_holds_something_does_not_wait_for_long)
{
        struct stage stage = set_up(PAWL_BACK_OFF);
        struct pawl_why why = {0};

        MUST(pawl_txn_acquire(stage.older, "a", NULL, NULL));
        MUST(pawl_txn_acquire(stage.younger, "b", NULL, NULL));
        CHECK_CODE(pawl_txn_acquire(stage.younger, "a", PAWL_LOCK(.why = &why), NULL), PAWL_WOUNDED);
        CHECK_HAS(why.text, "restart");
        CHECK_CODE(pawl_txn_check(stage.younger), PAWL_WOUNDED);
        CHECK_CODE(pawl_txn_acquire(stage.younger, "c", NULL, NULL), PAWL_WOUNDED);
        CHECK(!is_free(stage.outside, "b"));
        MUST(pawl_txn_restart(stage.younger));
        CHECK(all_free(stage.outside, "b"));
        CHECK_CODE(pawl_txn_check(stage.younger), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.older), PAWL_OK);
        MUST(pawl_txn_acquire(stage.younger, "a", NULL, NULL));
        MUST(pawl_txn_acquire(stage.younger, "b", NULL, NULL));
        CHECK_CODE(pawl_txn_end(stage.younger), PAWL_OK);
}

TEST(backing_off_who_holds_nothing_waits)
{
        struct stage stage = set_up(PAWL_BACK_OFF);
        static struct attempt attempt;

        MUST(pawl_txn_acquire(stage.older, "a", NULL, NULL));
        start(&attempt, stage.younger, "a");
        CHECK(queue_reaches(stage.outside, "a", 1));
        CHECK(is_waiting(&attempt));
        CHECK_CODE(pawl_txn_end(stage.older), PAWL_OK);
        CHECK_CODE(outcome(&attempt), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.younger), PAWL_OK);
}

/* ---- PAWL_WAIT_DIE ------------------------------------------------------------------------------------------------ */

TEST(wait_die_the_younger_does_not_wait_for_the_older)
{
        struct stage stage = set_up(PAWL_WAIT_DIE);
        struct pawl_why why = {0};

        MUST(pawl_txn_acquire(stage.older, "a", NULL, NULL));
        MUST(pawl_txn_acquire(stage.younger, "b", NULL, NULL));
        CHECK_CODE(pawl_txn_acquire(stage.younger, "a", PAWL_LOCK(.why = &why), NULL), PAWL_WOUNDED);
        CHECK_HAS(why.text, "older");
        CHECK_CODE(pawl_txn_check(stage.younger), PAWL_WOUNDED);
        CHECK(SOON(queue_reaches(stage.outside, "a", 0)));
        CHECK_CODE(pawl_txn_check(stage.older), PAWL_OK);
        MUST(pawl_txn_restart(stage.younger));
        MUST(pawl_txn_acquire(stage.older, "b", NULL, NULL));
        CHECK_CODE(pawl_txn_end(stage.older), PAWL_OK);
        MUST(pawl_txn_acquire(stage.younger, "b", NULL, NULL));
        MUST(pawl_txn_acquire(stage.younger, "a", NULL, NULL));
        CHECK_CODE(pawl_txn_end(stage.younger), PAWL_OK);
}

TEST(wait_die_the_older_waits_for_the_younger)
{
        struct stage stage = set_up(PAWL_WAIT_DIE);
        static struct attempt attempt;

        MUST(pawl_txn_acquire(stage.older, "a", NULL, NULL));
        MUST(pawl_txn_acquire(stage.younger, "b", NULL, NULL));
        start(&attempt, stage.older, "b");
        CHECK(queue_reaches(stage.outside, "b", 1));
        CHECK(is_waiting(&attempt));
        CHECK_CODE(pawl_txn_check(stage.younger), PAWL_OK);
        CHECK_CODE(pawl_txn_acquire(stage.younger, "a", NULL, NULL), PAWL_WOUNDED);
        CHECK_CODE(pawl_txn_end(stage.younger), PAWL_OK);
        CHECK_CODE(outcome(&attempt), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.older), PAWL_OK);
}

TEST(wait_die_who_holds_nothing_waits_for_anybody)
{
        struct stage stage = set_up(PAWL_WAIT_DIE);
        static struct attempt attempt;

        MUST(pawl_txn_acquire(stage.older, "a", NULL, NULL));
        start(&attempt, stage.younger, "a");
        CHECK(queue_reaches(stage.outside, "a", 1));
        CHECK(is_waiting(&attempt));
        CHECK_CODE(pawl_txn_end(stage.older), PAWL_OK);
        CHECK_CODE(outcome(&attempt), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.younger), PAWL_OK);
}

TEST(wait_die_the_younger_does_not_stand_behind_the_older)
{
        struct stage stage = set_up(PAWL_WAIT_DIE);
        static struct attempt attempt;
        pawl_lock *lock;

        NEEDS(stage.one, PAWL_CAN_QUEUE);
        MUST(pawl_acquire(stage.outside, "c", NULL, &lock));
        MUST(pawl_txn_acquire(stage.older, "a", NULL, NULL));
        MUST(pawl_txn_acquire(stage.younger, "b", NULL, NULL));
        start(&attempt, stage.older, "c");
        CHECK(queue_reaches(stage.outside, "c", 1));
        CHECK_CODE(pawl_txn_acquire(stage.younger, "c", NULL, NULL), PAWL_WOUNDED);
        CHECK_CODE(pawl_txn_end(stage.younger), PAWL_OK);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(outcome(&attempt), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.older), PAWL_OK);
}

TEST(wait_die_a_holder_without_an_age_is_waited_for)
{
        struct stage stage = set_up(PAWL_WAIT_DIE);
        static struct attempt attempt;
        pawl_lock *lock;

        MUST(pawl_acquire(stage.outside, "a", NULL, &lock));
        MUST(pawl_txn_acquire(stage.younger, "b", NULL, NULL));
        start(&attempt, stage.younger, "a");
        CHECK(queue_reaches(stage.outside, "a", 1));
        CHECK(is_waiting(&attempt));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(outcome(&attempt), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.younger), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.older), PAWL_OK);
}

/* ---- PAWL_WOUND_WAIT ---------------------------------------------------------------------------------------------- */

TEST(wound_wait_the_older_wounds_the_younger)
{
        struct stage stage = set_up(PAWL_WOUND_WAIT);
        static struct attempt attempt;
        static atomic_int wounded;
        static struct seen seen;
        pawl_txn *third = begin(stage.two, PAWL_WOUND_WAIT, 30000, &wounded);
        pawl_lock *a, *b;

        MUST(pawl_txn_acquire(third, "a", PAWL_LOCK(.on_asked = see_asked, .arg = &seen), &a));
        MUST(pawl_txn_acquire(third, "b", NULL, &b));
        start(&attempt, stage.older, "a");
        CHECK(SOON(pawl_txn_check(third) == PAWL_WOUNDED));
        CHECK_CODE(pawl_check(a), PAWL_WOUNDED);
        CHECK_CODE(pawl_check(b), PAWL_WOUNDED);
        CHECK(SOON(atomic_load(&wounded) == 1));
        CHECK(SOON(atomic_load(&seen.asked) >= 1));
        CHECK_CODE(pawl_txn_acquire(third, "c", NULL, NULL), PAWL_WOUNDED);
        CHECK_INT(atomic_load(&attempt.code), -1);
        MUST(pawl_txn_restart(third));
        CHECK_CODE(outcome(&attempt), PAWL_OK);
        CHECK_INT(atomic_load(&wounded), 1);
        CHECK_CODE(pawl_txn_check(third), PAWL_OK);
        CHECK_CODE(pawl_txn_end(third), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.older), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.younger), PAWL_OK);
}

TEST(wound_wait_the_younger_waits_for_the_older)
{
        struct stage stage = set_up(PAWL_WOUND_WAIT);
        static struct attempt attempt;

        MUST(pawl_txn_acquire(stage.older, "a", NULL, NULL));
        MUST(pawl_txn_acquire(stage.younger, "b", NULL, NULL));
        start(&attempt, stage.younger, "a");
        CHECK(queue_reaches(stage.outside, "a", 1));
        CHECK(is_waiting(&attempt));
        CHECK_CODE(pawl_txn_check(stage.older), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.older), PAWL_OK);
        CHECK_CODE(outcome(&attempt), PAWL_OK);
        CHECK_CODE(pawl_txn_check(stage.younger), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.younger), PAWL_OK);
}

TEST(wound_wait_who_waits_hears_at_once_that_it_is_wounded)
{
        struct stage stage = set_up(PAWL_WOUND_WAIT);
        static struct attempt attempt;
        pawl_lock *lock;

        MUST(pawl_acquire(stage.outside, "b", NULL, &lock));
        MUST(pawl_txn_acquire(stage.younger, "a", NULL, NULL));
        start(&attempt, stage.younger, "b");
        CHECK(queue_reaches(stage.outside, "b", 1));
        static struct attempt other;
        start(&other, stage.older, "a");
        CHECK_CODE(outcome(&attempt), PAWL_WOUNDED);
        CHECK(SOON(queue_reaches(stage.outside, "b", 0)));
        MUST(pawl_txn_restart(stage.younger));
        CHECK_CODE(outcome(&other), PAWL_OK);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.older), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.younger), PAWL_OK);
        CHECK(all_free(stage.outside, "ab"));
}

TEST(wound_wait_who_does_not_let_go_is_cut_off_at_the_end_of_its_lease)
{
        struct stage stage = set_up(PAWL_WOUND_WAIT);
        pawl_txn *third = begin(stage.two, PAWL_WOUND_WAIT, TTL, NULL);

        MUST(pawl_txn_acquire(third, "a", NULL, NULL));
        MUST(pawl_txn_acquire(third, "b", NULL, NULL));
        nap(TTL); /* it is renewed as any other */
        REQUIRE_CODE(pawl_txn_check(third), PAWL_OK);
        MUST(pawl_txn_acquire(stage.older, "a", PAWL_LOCK(.wait_ms = PATIENCE), NULL));
        CHECK_CODE(pawl_txn_check(third), PAWL_LOST);
        CHECK(SOON(is_free(stage.outside, "b")));
        CHECK_CODE(pawl_txn_end(third), PAWL_LOST);
        CHECK_CODE(pawl_txn_end(stage.older), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.younger), PAWL_OK);
}

TEST(wound_wait_who_is_wounded_may_finish_what_it_does)
{
        struct stage stage = set_up(PAWL_WOUND_WAIT);
        static struct attempt attempt;

        MUST(pawl_txn_acquire(stage.younger, "a", PAWL_LOCK(.ttl_ms = 60000), NULL));
        start(&attempt, stage.older, "a");
        CHECK(SOON(pawl_txn_check(stage.younger) == PAWL_WOUNDED));
        CHECK_CODE(pawl_txn_end(stage.younger), PAWL_OK);
        CHECK_CODE(outcome(&attempt), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.older), PAWL_OK);
}

TEST(wound_wait_who_gets_its_turn_lets_an_older_one_pass)
{
        struct stage stage = set_up(PAWL_WOUND_WAIT);
        static struct attempt first, second;
        pawl_lock *lock;

        NEEDS(stage.one, PAWL_CAN_QUEUE);
        MUST(pawl_acquire(stage.outside, "a", NULL, &lock));
        start(&first, stage.younger, "a");
        CHECK(queue_reaches(stage.outside, "a", 1));
        start(&second, stage.older, "a");
        CHECK(queue_reaches(stage.outside, "a", 2));
        CHECK(is_waiting(&first));
        CHECK_INT(pawl_asked(lock), 0); /* it has no age: it is waited for */
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(outcome(&first), PAWL_WOUNDED);
        CHECK_CODE(outcome(&second), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.younger), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.older), PAWL_OK);
}

TEST(transactions_of_one_client_are_different_ones)
{
        for (uint32_t policy = PAWL_WAIT_DIE; policy <= PAWL_WOUND_WAIT; policy++) {
                pawl_client *one = join(fresh_place());
                static struct attempt attempt;
                pawl_txn *older, *younger;

                NEEDS(one, needs[policy]);
                older = begin(one, policy, 0, NULL);
                younger = begin(one, policy, 0, NULL);
                MUST(pawl_txn_acquire(older, "a", NULL, NULL));
                MUST(pawl_txn_acquire(younger, "b", NULL, NULL));
                start(&attempt, older, "b");
                if (policy == PAWL_WAIT_DIE)
                        CHECK(queue_reaches(one, "b", 1));
                CHECK_CODE(pawl_txn_acquire(younger, "a", NULL, NULL), PAWL_WOUNDED);
                CHECK_CODE(pawl_txn_end(younger), PAWL_OK);
                CHECK_CODE(outcome(&attempt), PAWL_OK);
                CHECK_CODE(pawl_txn_end(older), PAWL_OK);
        }
}

TEST(the_age_stays_when_a_transaction_is_restarted)
{
        static struct view view;
        struct stage stage = set_up(PAWL_WOUND_WAIT);
        uint64_t age, other;

        MUST(pawl_txn_acquire(stage.older, "a", NULL, NULL));
        MUST(pawl_txn_acquire(stage.younger, "b", NULL, NULL));
        MUST(show(stage.outside, "a", &view));
        REQUIRE_INT(view.holders, 1);
        age = line_of(&view, PAWL_ROLE_HOLDER, 0)->entry.age;
        CHECK(age > 0 && age < (uint64_t)1 << 63);
        MUST(show(stage.outside, "b", &view));
        REQUIRE_INT(view.holders, 1);
        other = line_of(&view, PAWL_ROLE_HOLDER, 0)->entry.age;
        CHECK(other > age);
        MUST(pawl_txn_restart(stage.older));
        MUST(pawl_txn_acquire(stage.older, "c", NULL, NULL));
        MUST(show(stage.outside, "c", &view));
        REQUIRE_INT(view.holders, 1);
        CHECK_UINT(line_of(&view, PAWL_ROLE_HOLDER, 0)->entry.age, age);
        CHECK_CODE(pawl_txn_end(stage.older), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.younger), PAWL_OK);
}

/* ---- shared locks ------------------------------------------------------------------------------------------------- */

/* The older wants it alone; two hold it together, of whom one is older still: nobody is asked before that one has gone. */
TEST(wound_wait_of_several_holders_none_is_wounded_while_one_is_older)
{
        struct stage stage = set_up(PAWL_WOUND_WAIT);
        static struct attempt attempt;
        pawl_txn *third;

        NEEDS(stage.one, PAWL_CAN_SHARE);
        third = begin(stage.outside, PAWL_WOUND_WAIT, 0, NULL);
        MUST(pawl_txn_acquire(stage.older, "a", PAWL_LOCK(.mode = PAWL_SHARED), NULL));
        MUST(pawl_txn_acquire(third, "a", PAWL_LOCK(.mode = PAWL_SHARED), NULL));
        start(&attempt, stage.younger, "a");
        CHECK(queue_reaches(stage.outside, "a", 1));
        CHECK(is_waiting(&attempt));
        CHECK_CODE(pawl_txn_check(third), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.older), PAWL_OK);
        CHECK(SOON(pawl_txn_check(third) == PAWL_WOUNDED));
        CHECK_CODE(pawl_txn_end(third), PAWL_OK);
        CHECK_CODE(outcome(&attempt), PAWL_OK);
        CHECK_CODE(pawl_txn_end(stage.younger), PAWL_OK);
}

/* ---- all at once -------------------------------------------------------------------------------------------------- */

TEST(acquire_all_takes_all_in_order_and_each_once)
{
        static const char *const names[] = {"c", "a", "b", "a", "c"};
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);

        for (uint32_t policy = PAWL_ORDERED; policy <= PAWL_WOUND_WAIT; policy++) {
                pawl_txn *txn = NULL;

                if (!supports(one, policy))
                        continue;
                MUST(pawl_acquire_all(one, names, 5, PAWL_TXN(.policy = policy, .wait_ms = PATIENCE), &txn));
                CHECK(pawl_txn_lock(txn, "a") && pawl_txn_lock(txn, "b") && pawl_txn_lock(txn, "c"));
                CHECK_CODE(pawl_txn_check(txn), PAWL_OK);
                CHECK(!is_free(two, "a") && !is_free(two, "b") && !is_free(two, "c"));
                MUST(pawl_txn_acquire(txn, "d", NULL, NULL)); /* it is a transaction as any other */
                CHECK_CODE(pawl_txn_end(txn), PAWL_OK);
                CHECK(all_free(two, "abcd"));
        }
}

TEST(acquire_all_that_fails_leaves_nothing_behind)
{
        static const char *const names[] = {"c", "a", "b"}, *const bad[] = {"a", "b", "c\n"},
                                 *const hole[] = {"a", NULL};
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct pawl_why why = {0};
        pawl_txn *txn = NULL;
        pawl_lock *lock;

        MUST(pawl_acquire(one, "c", NULL, &lock));
        for (uint32_t policy = PAWL_ORDERED; policy <= PAWL_WOUND_WAIT; policy++) {
                if (!supports(one, policy))
                        continue;
                CHECK_CODE(
                        pawl_acquire_all(two, names, 3, PAWL_TXN(.policy = policy, .wait_ms = 1500, .why = &why), &txn),
                        PAWL_TIMEOUT);
                CHECK(why.text[0]);
                CHECK_CODE(pawl_acquire_all(two, names, 3, PAWL_TXN(.policy = policy, .wait_ms = PAWL_NO_WAIT), &txn),
                           PAWL_BUSY);
                CHECK_CODE(pawl_acquire_all(two, bad, 3, PAWL_TXN(.policy = policy, .why = &why), &txn), PAWL_INVALID);
                CHECK(all_free(one, "ab"));
        }
        CHECK_CODE(pawl_acquire_all(two, hole, 2, NULL, &txn), PAWL_INVALID);
        CHECK_CODE(pawl_acquire_all(two, NULL, 1, NULL, &txn), PAWL_INVALID);
        CHECK_CODE(pawl_acquire_all(two, names, 0, NULL, &txn), PAWL_INVALID);
        CHECK_NULL(txn);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(nothing_is_left(one, "c"));
}

TEST(acquire_all_takes_the_cover_instead)
{
        static const char *const names[] = {"a", "b"};
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_txn *txn, *none;

        MUST(pawl_acquire_all(one, names, 2, PAWL_TXN(.cover = "all"), &txn));
        CHECK(pawl_txn_lock(txn, "all") && !pawl_txn_lock(txn, "a"));
        CHECK(is_free(two, "a") && is_free(two, "b"));
        CHECK_CODE(pawl_acquire_all(two, names, 1, PAWL_TXN(.cover = "all", .wait_ms = PAWL_NO_WAIT), &none),
                   PAWL_BUSY);
        CHECK_CODE(pawl_txn_end(txn), PAWL_OK);
}

TEST(acquire_all_takes_them_as_it_is_told)
{
        static const char *const names[] = {"a", "b"};
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_txn *txn, *other;

        NEEDS(one, PAWL_CAN_SHARE);
        MUST(pawl_acquire_all(one, names, 2, PAWL_TXN(.lock = PAWL_LOCK(.mode = PAWL_SHARED)), &txn));
        MUST(pawl_acquire_all(two, names, 2, PAWL_TXN(.wait_ms = PATIENCE, .lock = PAWL_LOCK(.mode = PAWL_SHARED)),
                              &other));
        CHECK_CODE(pawl_txn_end(txn), PAWL_OK);
        CHECK_CODE(pawl_txn_end(other), PAWL_OK);
}

struct crossing {
        pawl_client *client;
        const char *names[2];
        uint32_t policy;
        int *inside;
        int rounds;
        atomic_int failed;
};

static void *cross(void *arg)
{
        struct crossing *crossing = arg;

        for (int i = 0; i < crossing->rounds; i++) {
                pawl_txn *txn;

                if (pawl_acquire_all(crossing->client, crossing->names, 2,
                                     PAWL_TXN(.policy = crossing->policy, .wait_ms = PATIENCE), &txn) != PAWL_OK) {
                        atomic_fetch_add(&crossing->failed, 1);
                        continue;
                }
                if (__atomic_add_fetch(crossing->inside, 1, __ATOMIC_SEQ_CST) != 1)
                        atomic_fetch_add(&crossing->failed, 1);
                __atomic_sub_fetch(crossing->inside, 1, __ATOMIC_SEQ_CST);
                if (pawl_txn_end(txn) != PAWL_OK)
                        atomic_fetch_add(&crossing->failed, 1);
        }
        return NULL;
}

TEST(acquire_all_from_both_ends_at_once)
{
        const char *place = fresh_place();
        static struct crossing two[2];
        static int inside;
        pthread_t threads[2];

        for (int i = 0; i < 2; i++)
                two[i] = (struct crossing){.client = join(place),
                                           .names = {i ? "b" : "a", i ? "a" : "b"},
                                           .inside = &inside,
                                           .rounds = 20};
        for (int i = 0; i < 2; i++)
                REQUIRE_INT(pthread_create(&threads[i], NULL, cross, &two[i]), 0);
        for (int i = 0; i < 2; i++)
                pthread_join(threads[i], NULL);
        CHECK_INT(atomic_load(&two[0].failed) + atomic_load(&two[1].failed), 0);
}

/* ---- the loop ----------------------------------------------------------------------------------------------------- */

struct tries {
        int runs;
        int wounded; /* the first so many */
        int answer;
};

static int take_two(pawl_txn *txn, void *arg)
{
        struct tries *tries = arg;
        int code = pawl_txn_acquire(txn, "a", NULL, NULL);

        if (code == PAWL_OK)
                code = pawl_txn_acquire(txn, "b", NULL, NULL);
        if (code != PAWL_OK)
                return code;
        return tries->runs++ < tries->wounded ? PAWL_WOUNDED : tries->answer;
}

TEST(run_begins_again_while_it_is_wounded_and_ends_it_always)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct pawl_why why = {0};
        struct tries tries = {.wounded = 3};

        CHECK_CODE(pawl_txn_run(one, NULL, take_two, &tries), PAWL_OK);
        CHECK_INT(tries.runs, 4);
        CHECK(all_free(two, "ab"));
        tries = (struct tries){.answer = 100};
        CHECK_INT(pawl_txn_run(one, PAWL_TXN(.policy = PAWL_BACK_OFF), take_two, &tries), 100);
        CHECK_INT(tries.runs, 1);
        CHECK(all_free(two, "ab"));
        tries = (struct tries){.wounded = 1000000};
        CHECK_CODE(pawl_txn_run(one, PAWL_TXN(.wait_ms = 200, .why = &why), take_two, &tries), PAWL_TIMEOUT);
        CHECK_CODE(why.code, PAWL_TIMEOUT);
        CHECK(all_free(two, "ab"));
}

/* ---- others die --------------------------------------------------------------------------------------------------- */

/* Another process with a transaction. It takes the names one by one, each when it gets its cue, the first as soon as it has
 * begun; it says what each came to, and lives on until it is killed. */
struct actor {
        pid_t pid;
        int tells, hears;
};

static const char *name_of(char room[3], char letter, uint32_t policy)
{
        snprintf(room, 3, "%c%c", letter, (char)('0' + policy));
        return room;
}

static void act(const char *place, uint32_t policy, const char *letters, int hears, int says)
{
        pawl_client *client;
        pawl_txn *txn;
        char name[3], go;

        for (const char *p = letters; *p && read(hears, &go, 1) == 1; p++) {
                if (p == letters &&
                    (pawl_open(place, NULL, &client) != PAWL_OK ||
                     pawl_txn_begin(client, PAWL_TXN(.policy = policy, .ttl_ms = TTL), &txn) != PAWL_OK))
                        _exit(2);
                char code = (char)pawl_txn_acquire(txn, name_of(name, *p, policy), NULL, NULL);
                if (write(says, &code, 1) != 1)
                        _exit(3);
        }
        for (;;)
                pause();
}

/* Before any client is opened: a child has only the thread that forked. */
static struct actor start_actor(const char *place, uint32_t policy, const char *letters)
{
        struct actor actor;
        int to[2], from[2];

        REQUIRE(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
        actor.pid = fork();
        REQUIRE_COMPARE(actor.pid, >=, 0);
        if (actor.pid == 0)
                act(place, policy, letters, to[0], from[1]);
        close(to[0]);
        close(from[1]);
        actor.tells = to[1];
        actor.hears = from[0];
        return actor;
}

static void cue(struct actor *actor)
{
        REQUIRE_INT(write(actor->tells, "", 1), 1);
}

/* What its next acquire came to; -1: nothing. */
static int hear(struct actor *actor)
{
        struct pollfd fd = {.fd = actor->hears, .events = POLLIN};
        char code;

        if (poll(&fd, 1, PATIENCE) <= 0 || read(actor->hears, &code, 1) != 1)
                return -1;
        return code;
}

static void kill_actor(struct actor *actor)
{
        kill(actor->pid, SIGKILL);
        waitpid(actor->pid, NULL, 0);
        close(actor->tells);
        close(actor->hears);
}

enum { POLICIES = PAWL_WOUND_WAIT + 1 };

/* The same letters for each policy that is supported; all of them at once, for each has to wait for a lease. */
static unsigned start_cast(const char *place, const char *letters, struct actor cast[POLICIES])
{
        pawl_client *client = join(place);
        unsigned able = 0;

        for (uint32_t policy = 0; policy < POLICIES; policy++)
                able |= supports(client, policy) ? 1u << policy : 0;
        leave(client);
        for (uint32_t policy = 0; policy < POLICIES; policy++)
                if (able & 1u << policy)
                        cast[policy] = start_actor(place, policy, letters);
        return able;
}

#define EACH_POLICY(policy, able)                                                                                      \
        for (uint32_t policy = 0; policy < POLICIES; policy++)                                                         \
                if ((able)&1u << policy)

TEST(a_holder_that_is_killed_is_outlived)
{
        const char *place = fresh_place();
        static struct attempt attempts[POLICIES];
        struct actor cast[POLICIES];
        static char names[POLICIES][3];
        unsigned able = start_cast(place, "a", cast);
        pawl_client *one = join(place);

        EACH_POLICY(policy, able)
        {
                cue(&cast[policy]);
                REQUIRE_CODE(hear(&cast[policy]), PAWL_OK);
                nap(3);
                start(&attempts[policy], begin(one, policy, 0, NULL), name_of(names[policy], 'a', policy));
        }
        EACH_POLICY(policy, able)
        CHECK(queue_reaches(one, names[policy], 1));
        EACH_POLICY(policy, able)
        kill_actor(&cast[policy]);
        EACH_POLICY(policy, able)
        {
                CHECK_CODE(outcome(&attempts[policy]), PAWL_OK);
                CHECK_CODE(pawl_txn_end(attempts[policy].txn), PAWL_OK);
        }
}

struct pair {
        char first[3], second[3];
};

static int take_pair(pawl_txn *txn, void *arg)
{
        struct pair *pair = arg;
        int code = pawl_txn_acquire(txn, pair->first, NULL, NULL);

        return code == PAWL_OK ? pawl_txn_acquire(txn, pair->second, NULL, NULL) : code;
}

/* They have a, and wait for b: dead, they still hold the one, and stand in line for the other. */
TEST(one_that_is_killed_while_it_holds_and_waits_is_outlived)
{
        const char *place = fresh_place();
        struct actor cast[POLICIES];
        pawl_lock *locks[POLICIES];
        unsigned able = start_cast(place, "ab", cast);
        pawl_client *one = join(place), *two = join(place);
        char name[3];

        EACH_POLICY(policy, able)
        MUST(pawl_acquire(one, name_of(name, 'b', policy), NULL, &locks[policy]));
        EACH_POLICY(policy, able)
        {
                cue(&cast[policy]);
                REQUIRE_CODE(hear(&cast[policy]), PAWL_OK);
                cue(&cast[policy]);
                if (policy != PAWL_BACK_OFF) /* that one does not wait for long */
                        CHECK(queue_reaches(two, name_of(name, 'b', policy), 1));
        }
        EACH_POLICY(policy, able)
        kill_actor(&cast[policy]);
        EACH_POLICY(policy, able)
        {
                struct pair pair;

                name_of(pair.first, 'a', policy);
                name_of(pair.second, 'b', policy);
                CHECK_CODE(pawl_release(locks[policy]), PAWL_OK);
                CHECK_CODE(pawl_txn_run(two, PAWL_TXN(.policy = policy, .wait_ms = PATIENCE), take_pair, &pair),
                           PAWL_OK);
        }
}

TEST(a_wounded_one_that_is_killed_is_outlived)
{
        const char *place = fresh_place();
        struct actor actor = start_actor(place, PAWL_WOUND_WAIT, "a");
        pawl_client *one = join(place);
        static struct attempt attempt;
        pawl_txn *older;

        if (!supports(one, PAWL_WOUND_WAIT))
                kill_actor(&actor);
        NEEDS(one, needs[PAWL_WOUND_WAIT]);
        older = begin(one, PAWL_WOUND_WAIT, 0, NULL);
        cue(&actor);
        REQUIRE_CODE(hear(&actor), PAWL_OK);
        start(&attempt, older, "a3");
        CHECK(queue_reaches(one, "a3", 1));
        nap(100);
        kill_actor(&actor);
        CHECK_CODE(outcome(&attempt), PAWL_OK);
        CHECK_CODE(pawl_txn_end(older), PAWL_OK);
}

TEST(who_was_wounded_by_one_that_is_killed_gets_its_turn)
{
        const char *place = fresh_place();
        struct actor actor = start_actor(place, PAWL_WOUND_WAIT, "ba");
        pawl_client *one = join(place);
        pawl_txn *younger;

        if (!supports(one, PAWL_WOUND_WAIT))
                kill_actor(&actor);
        NEEDS(one, needs[PAWL_WOUND_WAIT]);
        cue(&actor);
        REQUIRE_CODE(hear(&actor), PAWL_OK);
        nap(3);
        younger = begin(one, PAWL_WOUND_WAIT, 0, NULL);
        MUST(pawl_txn_acquire(younger, "a3", NULL, NULL));
        cue(&actor);
        CHECK(SOON(pawl_txn_check(younger) == PAWL_WOUNDED));
        kill_actor(&actor);
        MUST(pawl_txn_restart(younger));
        MUST(pawl_txn_acquire(younger, "a3", NULL, NULL));
        MUST(pawl_txn_acquire(younger, "b3", NULL, NULL));
        CHECK_CODE(pawl_txn_end(younger), PAWL_OK);
}
