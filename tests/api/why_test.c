/* why_test.c - whoever gives a why learns from it what is wrong, in every call that takes one: options without a size, of a
 * newer program, no client, a client of the parent process, no place for the answer. On the local engine. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pawl.h"
#include "pawl/barrier.h"
#include "pawl/election.h"
#include "pawl/flight.h"
#include "pawl/handle.h"
#include "pawl/limit.h"
#include "pawl/once.h"
#include "pawl/rw.h"
#include "pawl/txn.h"
#include "pawl/version.h"
#include "tap.h"

/* Of each recipe the calls that take options, all with what a caller may have got wrong. The options are followed by room in
 * which a newer program would have something that we do not know. */
#define OPTIONS(what)                                                                                                  \
        struct {                                                                                                       \
                struct pawl_##what##_options options;                                                                  \
                uint64_t tail;                                                                                         \
        } what = {                                                                                                     \
                .options = {.size = size ? (uint32_t)(sizeof(struct pawl_##what##_options) + extra) : 0, .why = why},  \
                .tail = extra}

enum { OWN_CODE = 117 };

static struct pawl_why the_why;
static const char *const names[] = {"a"};

static int run_nothing(pawl_lock *lock, struct pawl_result *result, void *arg)
{
        (void)lock, (void)result, (void)arg;
        return OWN_CODE;
}

static int build_nothing(pawl_lock *lock, void **data, size_t *size, void *arg)
{
        (void)lock, (void)data, (void)size;
        return arg ? PAWL_OK : OWN_CODE;
}

static int transact_nothing(pawl_txn *txn, void *arg)
{
        (void)txn, (void)arg;
        return PAWL_OK;
}

static int see_leader(const struct pawl_leader *leader, void *arg)
{
        (void)leader, (void)arg;
        return 1;
}

static int change_nothing(struct pawl_change *change, void *arg)
{
        (void)change, (void)arg;
        return PAWL_OK;
}

static void see_elected(pawl_election *election, int status, void *arg)
{
        (void)election, (void)status, (void)arg;
}

/* The call fails so, and why says so, with this in its text. */
#define SAYS(call, expected, what)                                                                                     \
        do {                                                                                                           \
                memset(&the_why, 0, sizeof(the_why));                                                                  \
                CHECK_INT((call), (expected));                                                                         \
                CHECK_INT(the_why.code, (expected));                                                                   \
                CHECK_HAS(the_why.text, (what));                                                                       \
        } while (0)

static void every_lock(pawl_client *client, uint32_t size, uint32_t extra, int code, const char *text)
{
        struct pawl_why *why = &the_why;
        OPTIONS(lock);
        pawl_lock *none;
        pawl_rw *rw;

        SAYS(pawl_acquire(client, "a", &lock.options, &none), code, text);
        SAYS(pawl_acquire_async(client, "a", &lock.options, NULL, NULL, &none), code, text);
        SAYS(pawl_adopt(client, "l1.1.1", &lock.options, &none), code, text);
        SAYS(pawl_take_over(client, "l1.1.1", &lock.options, &none), code, text);
        SAYS(pawl_acquire_asking(client, "a", &lock.options, &none), code, text);
        SAYS(pawl_rw_acquire(client, "a", PAWL_READ, &lock.options, &rw), code, text);
}

static void every_kept(pawl_client *client, uint32_t size, uint32_t extra, int code, const char *text)
{
        struct pawl_why *why = &the_why;
        OPTIONS(once);
        OPTIONS(limit);
        OPTIONS(flight);
        struct pawl_result result;
        struct pawl_value value;
        pawl_lock *none;

        limit.options.rate = 1;
        SAYS(pawl_once(client, "a", &once.options, run_nothing, NULL, &result), code, text);
        SAYS(pawl_once_begin(client, "a", &once.options, &result, &none), code, text);
        SAYS(pawl_once_forget(client, "a", &once.options), code, text);
        SAYS(pawl_limit(client, "a", &limit.options, NULL), code, text);
        SAYS(pawl_flight(client, "a", &flight.options, build_nothing, NULL, &value), code, text);
        SAYS(pawl_flight_forget(client, "a", &flight.options), code, text);
}

static void every_crowd(pawl_client *client, uint32_t size, uint32_t extra, int code, const char *text)
{
        struct pawl_why *why = &the_why;
        OPTIONS(barrier);
        OPTIONS(election);
        OPTIONS(observe);
        OPTIONS(txn);
        pawl_election *none;
        pawl_barrier *nowhere;
        pawl_txn *nothing;

        SAYS(pawl_barrier_enter(client, "a", 1, &barrier.options, &nowhere), code, text);
        SAYS(pawl_latch_down(client, "a", 1, 1, &barrier.options, NULL), code, text);
        SAYS(pawl_latch_wait(client, "a", &barrier.options), code, text);
        SAYS(pawl_latch_forget(client, "a", &barrier.options), code, text);
        SAYS(pawl_campaign(client, "a", &election.options, &none), code, text);
        SAYS(pawl_campaign_async(client, "a", &election.options, see_elected, NULL, &none), code, text);
        SAYS(pawl_observe(client, "a", &observe.options, see_leader, NULL), code, text);
        SAYS(pawl_txn_begin(client, &txn.options, &nothing), code, text);
        SAYS(pawl_txn_run(client, &txn.options, transact_nothing, NULL), code, text);
        SAYS(pawl_acquire_all(client, names, 1, &txn.options, &nothing), code, text);
}

static void every_call(pawl_client *client, uint32_t size, uint32_t extra, int code, const char *text)
{
        every_lock(client, size, extra, code, text);
        every_kept(client, size, extra, code, text);
        every_crowd(client, size, extra, code, text);
}

static pawl_client *open_client(void)
{
        pawl_client *client;
        char url[512];

        snprintf(url, sizeof(url), "local:%s/state", tap_directory());
        REQUIRE_INT(pawl_open(url, NULL, &client), PAWL_OK);
        return client;
}

TEST(options_without_a_size_say_so)
{
        struct pawl_update_options update = {.why = &the_why};
        struct pawl_lock_options lock = {.why = &the_why};
        pawl_client *client = open_client();
        pawl_txn *txn;

        every_call(client, 0, 0, PAWL_INVALID, "have no size");
        SAYS(pawl_update(NULL, "a", change_nothing, NULL, &update, NULL), PAWL_INVALID, "have no size");
        REQUIRE_INT(pawl_txn_begin(client, NULL, &txn), PAWL_OK);
        SAYS(pawl_txn_acquire(txn, "a", &lock, NULL), PAWL_INVALID, "have no size");
        CHECK_INT(pawl_txn_end(txn), PAWL_OK);
        CHECK_INT(pawl_acquire_all(client, names, 1, &(struct pawl_txn_options){0}, &txn), PAWL_INVALID);
        CHECK_INT(pawl_close(client), PAWL_OK);
}

TEST(options_of_a_newer_program_say_so)
{
        pawl_client *client = open_client(), *none;
        struct {
                struct pawl_open_options options;
                uint64_t tail;
        } newer = {.options = {.size = sizeof(newer), .why = &the_why}, .tail = 1};

        every_call(client, 1, sizeof(uint64_t), PAWL_UNSUPPORTED, "newer than this library");
        SAYS(pawl_open(NULL, &newer.options, &none), PAWL_UNSUPPORTED, "newer than this library");
        CHECK_INT(pawl_close(client), PAWL_OK);
}

TEST(a_missing_client_is_said)
{
        struct pawl_leader leader;
        struct pawl_result result;

        every_call(NULL, 1, 0, PAWL_INVALID, "there is no client");
        SAYS(pawl_once_look(NULL, "a", &the_why, &result), PAWL_INVALID, "there is no client");
        SAYS(pawl_leader(NULL, "a", &the_why, &leader), PAWL_INVALID, "there is no client");
}

/* And not that the engine cannot do it. */
TEST(a_client_of_the_parent_process_is_said)
{
        pawl_client *client = open_client();
        struct pawl_leader leader;
        struct pawl_result result;
        pawl_reentrant *none;
        pid_t child = fork();
        int status;

        REQUIRE(child >= 0);
        if (child == 0) {
                every_call(client, 1, 0, PAWL_FORKED, "the parent process");
                SAYS(pawl_once_look(client, "a", &the_why, &result), PAWL_FORKED, "the parent process");
                SAYS(pawl_leader(client, "a", &the_why, &leader), PAWL_FORKED, "the parent process");
                SAYS(pawl_reentrant_new(client, "a", PAWL_LOCK(.why = &the_why), &none), PAWL_FORKED,
                     "the parent process");
                _exit(0);
        }
        REQUIRE_INT(waitpid(child, &status, 0), child);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        CHECK_INT(pawl_close(client), PAWL_OK);
}

TEST(a_missing_place_for_the_answer_is_said)
{
        pawl_client *client = open_client();
        struct pawl_result result;

        SAYS(pawl_open(NULL, PAWL_OPEN(.why = &the_why), NULL), PAWL_INVALID, "NULL");
        SAYS(pawl_acquire(client, "a", PAWL_LOCK(.why = &the_why), NULL), PAWL_INVALID, "NULL");
        SAYS(pawl_once(client, "a", PAWL_ONCE(.why = &the_why), NULL, NULL, &result), PAWL_INVALID, "no function");
        SAYS(pawl_once_begin(client, "a", PAWL_ONCE(.why = &the_why), NULL, NULL), PAWL_INVALID, "no place");
        SAYS(pawl_once_look(client, "a", &the_why, NULL), PAWL_INVALID, "no place");
        SAYS(pawl_flight(client, "a", PAWL_FLIGHT(.why = &the_why), NULL, NULL, NULL), PAWL_INVALID, "no function");
        SAYS(pawl_barrier_enter(client, "a", 1, PAWL_BARRIER(.why = &the_why), NULL), PAWL_INVALID, "NULL");
        SAYS(pawl_campaign(client, "a", PAWL_ELECTION(.why = &the_why), NULL), PAWL_INVALID, "NULL");
        SAYS(pawl_leader(client, "a", &the_why, NULL), PAWL_INVALID, "NULL");
        SAYS(pawl_observe(client, "a", PAWL_OBSERVE(.why = &the_why), NULL, NULL), PAWL_INVALID, "no function");
        SAYS(pawl_rw_acquire(client, "a", PAWL_READ, PAWL_LOCK(.why = &the_why), NULL), PAWL_INVALID, "NULL");
        SAYS(pawl_reentrant_new(client, "a", PAWL_LOCK(.why = &the_why), NULL), PAWL_INVALID, "NULL");
        SAYS(pawl_txn_begin(client, PAWL_TXN(.why = &the_why), NULL), PAWL_INVALID, "NULL");
        SAYS(pawl_acquire_all(client, names, 1, PAWL_TXN(.why = &the_why), NULL), PAWL_INVALID, "NULL");
        CHECK_INT(pawl_close(client), PAWL_OK);
}

static void keep_nonsense(pawl_client *client, const char *name)
{
        pawl_lock *lock;

        REQUIRE_INT(pawl_acquire(client, name, NULL, &lock), PAWL_OK);
        CHECK_INT(pawl_store(lock, "nonsense", 8, 0), PAWL_OK);
        CHECK_INT(pawl_release(lock), PAWL_OK);
}

TEST(what_came_of_the_callers_own_function_is_said)
{
        pawl_client *client = open_client();
        struct pawl_result result;
        struct pawl_value value;

        SAYS(pawl_once(client, "a", PAWL_ONCE(.why = &the_why), run_nothing, NULL, &result), OWN_CODE, "returned 117");
        SAYS(pawl_flight(client, "a", PAWL_FLIGHT(.why = &the_why), build_nothing, NULL, &value), OWN_CODE,
             "returned 117");
        SAYS(pawl_flight(client, "a", PAWL_FLIGHT(.why = &the_why), build_nothing, client, &value), PAWL_INVALID,
             "at least one byte");
        SAYS(pawl_once_look(client, "a", &the_why, &result), PAWL_NOT_FOUND, "no result");
        SAYS(pawl_once_forget(client, "a", PAWL_ONCE(.why = &the_why)), PAWL_NOT_FOUND, "no result");
        CHECK_INT(pawl_close(client), PAWL_OK);
}

TEST(what_is_kept_and_is_not_the_recipes_is_said)
{
        pawl_client *client = open_client();
        pawl_barrier *barrier;

        keep_nonsense(client, "latch/a");
        keep_nonsense(client, "gate/a");
        SAYS(pawl_latch_down(client, "a", 1, 1, PAWL_BARRIER(.why = &the_why), NULL), PAWL_CORRUPT, "not a latch");
        SAYS(pawl_latch_wait(client, "a", PAWL_BARRIER(.why = &the_why)), PAWL_CORRUPT, "not a latch");
        SAYS(pawl_barrier_enter(client, "a", 1, PAWL_BARRIER(.why = &the_why), &barrier), PAWL_CORRUPT,
             "not a barrier");
        CHECK_INT(pawl_close(client), PAWL_OK);
}

/* Handles whose later calls take no options. */
#define HANDLE_SAYS(call, ask, expected, what)                                                                         \
        do {                                                                                                           \
                CHECK_INT((call), (expected));                                                                         \
                CHECK_INT((ask), PAWL_OK);                                                                             \
                CHECK_INT(the_why.code, (expected));                                                                   \
                CHECK_HAS(the_why.text, (what));                                                                       \
        } while (0)

TEST(a_change_of_mode_says_why_it_failed)
{
        pawl_client *client = open_client(), *other = open_client();
        pawl_rw *reader, *upgradable;

        REQUIRE_INT(pawl_rw_acquire(client, "a", PAWL_READ, NULL, &reader), PAWL_OK);
        REQUIRE_INT(pawl_rw_acquire(other, "a", PAWL_UPGRADABLE, NULL, &upgradable), PAWL_OK);
        HANDLE_SAYS(pawl_rw_upgrade(reader, PAWL_NO_WAIT), pawl_rw_why(reader, &the_why), PAWL_MISUSE,
                    "PAWL_UPGRADABLE");
        HANDLE_SAYS(pawl_rw_downgrade(reader, PAWL_READ), pawl_rw_why(reader, &the_why), PAWL_MISUSE, "lower mode");
        HANDLE_SAYS(pawl_rw_upgrade(upgradable, PAWL_NO_WAIT), pawl_rw_why(upgradable, &the_why), PAWL_BUSY, "held");
        CHECK_INT(pawl_rw_release(reader), PAWL_OK);
        HANDLE_SAYS(pawl_rw_upgrade(upgradable, PAWL_FOREVER), pawl_rw_why(upgradable, &the_why), PAWL_OK, "");
        CHECK_INT(pawl_rw_why(NULL, &the_why), PAWL_INVALID);
        CHECK_INT(pawl_rw_why(upgradable, NULL), PAWL_INVALID);
        CHECK_INT(pawl_rw_release(upgradable), PAWL_OK);
        CHECK_INT(pawl_close(client), PAWL_OK);
        CHECK_INT(pawl_close(other), PAWL_OK);
}

TEST(a_reentrant_acquire_says_why_it_failed)
{
        pawl_client *client = open_client(), *other = open_client();
        pawl_reentrant *reentrant;
        pawl_lock *lock;

        REQUIRE_INT(pawl_acquire(other, "a", NULL, &lock), PAWL_OK);
        REQUIRE_INT(pawl_reentrant_new(client, "a", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &reentrant), PAWL_OK);
        HANDLE_SAYS(pawl_reentrant_acquire(reentrant), pawl_reentrant_why(reentrant, &the_why), PAWL_BUSY, "held");
        CHECK_INT(pawl_release(lock), PAWL_OK);
        HANDLE_SAYS(pawl_reentrant_acquire(reentrant), pawl_reentrant_why(reentrant, &the_why), PAWL_OK, "");
        CHECK_INT(pawl_break(other, "a"), PAWL_OK);
        HANDLE_SAYS(pawl_reentrant_acquire(reentrant), pawl_reentrant_why(reentrant, &the_why), PAWL_LOST,
                    "further out");
        CHECK_INT(pawl_reentrant_why(NULL, &the_why), PAWL_INVALID);
        CHECK_INT(pawl_reentrant_free(reentrant), PAWL_LOST);
        CHECK_INT(pawl_close(client), PAWL_OK);
        CHECK_INT(pawl_close(other), PAWL_OK);
}
