/* test_checker.c - the tester tested: a good history passes, and each kind of bad one is caught, as what it is. */
#include <string.h>

#include "check.h"
#include "pawl.h"
#include "tap.h"

enum { A = 8, B = 16, C = 24 }; /* clients of three processes */

/* A history in the making. Times are in ms, for reading. */
static struct record records[64];
static size_t count;
static struct findings findings;

static struct record *note(uint32_t client, uint32_t op, int64_t at, enum deed deed, enum phase phase)
{
        records[count] = (struct record){
                .at = at * MS, .client = client, .op = op, .deed = (uint8_t)deed, .phase = (uint8_t)phase};
        return &records[count++];
}

static struct record *ask(uint32_t client, uint32_t op, int64_t at)
{
        return note(client, op, at, DID_ACQUIRE, PHASE_INVOKE);
}

static struct record *grant(uint32_t client, uint32_t op, int64_t at, uint64_t token, int64_t until)
{
        struct record *record = note(client, op, at, DID_ACQUIRE, PHASE_OK);

        record->token = token;
        record->valid_least = until * MS;
        record->valid_most = until * MS + MS;
        return record;
}

static void release(uint32_t client, uint32_t op, int64_t at, int status)
{
        note(client, op, at, DID_RELEASE, PHASE_INVOKE);
        note(client, op, at + 1, DID_RELEASE, status == PAWL_OK ? PHASE_OK : PHASE_FAIL)->status = status;
}

/* Asked, granted and released, all at once. */
static void tenure(uint32_t client, uint32_t op, int64_t from, int64_t to, uint64_t token)
{
        ask(client, op, from);
        grant(client, op, from + 1, token, to + 100);
        release(client, op, to, PAWL_OK);
}

static void judge(void)
{
        memset(&findings, 0, sizeof findings);
        REQUIRE(check_history(records, count, &findings));
        count = 0;
}

/* Exactly the one kind of violation. */
static void expect_only(enum invariant invariant)
{
        judge();
        for (int i = 0; i < INVARIANT_COUNT; i++) {
                if (i == (int)invariant)
                        CHECK(findings.violations[i] > 0);
                else if (!CHECK_UINT(findings.violations[i], 0))
                        NOTE("%s: %s", invariant_text((enum invariant)i), findings.first[i]);
        }
        findings_free(&findings);
}

TEST(a_good_history_has_no_violation)
{
        tenure(A, 1, 0, 10, 100);
        tenure(B, 1, 5, 20, 101);
        records[count - 3].at = 12 * MS; /* B asked at 5 and was granted at 12, when A was gone */
        tenure(A, 2, 30, 40, 102);
        judge();
        CHECK_UINT(findings_total(&findings), 0);
        CHECK_UINT(findings.grants, 3);
        findings_free(&findings);
}

TEST(an_empty_history_is_fine)
{
        judge();
        CHECK_UINT(findings_total(&findings), 0);
        findings_free(&findings);
}

TEST(two_exclusive_holders_at_once_are_caught)
{
        tenure(A, 1, 0, 10, 100);
        ask(B, 1, 0);
        grant(B, 1, 8, 101, 60);
        release(B, 1, 20, PAWL_OK);
        expect_only(INVARIANT_TWO_HOLDERS);
}

TEST(a_grant_before_the_end_of_a_stopped_holders_lease_is_caught)
{
        ask(A, 1, 0);
        grant(A, 1, 1, 100, 50);
        tenure(B, 1, 40, 45, 101);
        note(A, 1, 60, DID_CHECK, PHASE_FAIL)->status = PAWL_LOST;
        release(A, 1, 61, PAWL_LOST);
        expect_only(INVARIANT_TWO_HOLDERS);
}

TEST(a_grant_after_the_end_of_a_lease_is_fine)
{
        ask(A, 1, 0);
        grant(A, 1, 1, 100, 50);
        tenure(B, 1, 51, 55, 101);
        release(A, 1, 61, PAWL_LOST);
        judge();
        CHECK_UINT(findings_total(&findings), 0);
        findings_free(&findings);
}

TEST(a_late_release_that_says_it_was_held_until_now_is_caught)
{
        ask(A, 1, 0);
        grant(A, 1, 1, 100, 50);
        tenure(B, 1, 51, 55, 101);
        release(A, 1, 61, PAWL_OK);
        expect_only(INVARIANT_TWO_HOLDERS);
}

TEST(a_holder_that_was_killed_holds_no_longer)
{
        ask(A, 1, 0);
        grant(A, 1, 1, 100, 5000);
        note(A, 0, 10, DID_KILL, PHASE_INVOKE);
        ask(B, 1, 7);
        note(B, 1, 8, DID_QUEUE, PHASE_OK);
        grant(B, 1, 12, 101, 1000);
        release(B, 1, 20, PAWL_OK);
        judge();
        CHECK_UINT(findings_total(&findings), 0);
        CHECK_UINT(findings.kills, 1);
        REQUIRE(findings.death_count == 1);
        CHECK_INT(findings.deaths[0], 2 * MS);
        findings_free(&findings);
}

TEST(a_detached_lease_outlives_its_process_and_a_grant_inside_it_is_caught)
{
        ask(A, 1, 0)->flags = TENURE_FIXED | TENURE_DETACHED;
        grant(A, 1, 1, 100, 50);
        note(A, 0, 10, DID_KILL, PHASE_INVOKE);
        tenure(B, 1, 20, 30, 101);
        expect_only(INVARIANT_TWO_HOLDERS);
}

TEST(a_reader_beside_a_writer_is_caught)
{
        tenure(A, 1, 0, 10, 100);
        ask(B, 1, 0)->mode = PAWL_SHARED;
        grant(B, 1, 5, 101, 60);
        release(B, 1, 20, PAWL_OK);
        expect_only(INVARIANT_TWO_HOLDERS);
}

TEST(readers_beside_readers_are_fine)
{
        for (uint32_t i = 1; i <= 5; i++) {
                ask(A, i, i)->mode = PAWL_SHARED;
                grant(A, i, i + 1, 100 + i, 900);
                release(A, i, 50 + i, PAWL_OK);
        }
        judge();
        CHECK_UINT(findings_total(&findings), 0);
        findings_free(&findings);
}

TEST(more_holders_than_the_limit_are_caught)
{
        for (uint32_t i = 1; i <= 3; i++) {
                struct record *record = ask(A, i, i);

                record->mode = PAWL_SHARED;
                record->limit = 2;
                grant(A, i, i + 1, 100 + i, 900);
                release(A, i, 50 + i, PAWL_OK);
        }
        expect_only(INVARIANT_TOO_MANY);
}

TEST(a_break_ends_the_holders_right)
{
        ask(A, 1, 0);
        grant(A, 1, 1, 100, 500);
        note(C, 1, 10, DID_BREAK, PHASE_INVOKE);
        tenure(B, 1, 11, 20, 101);
        note(C, 1, 12, DID_BREAK, PHASE_OK);
        note(A, 1, 15, DID_CHECK, PHASE_FAIL)->status = PAWL_LOST;
        release(A, 1, 30, PAWL_LOST);
        judge();
        CHECK_UINT(findings_total(&findings), 0);
        findings_free(&findings);
}

TEST(a_break_may_come_before_the_holder_knows_of_its_grant)
{
        ask(A, 1, 0);
        note(C, 1, 10, DID_BREAK, PHASE_INVOKE);
        note(C, 1, 12, DID_BREAK, PHASE_OK);
        ask(B, 1, 2);
        grant(B, 1, 14, 101, 500);
        grant(A, 1, 15, 100, 500);
        note(A, 1, 16, DID_CHECK, PHASE_FAIL)->status = PAWL_LOST;
        release(A, 1, 17, PAWL_LOST);
        release(B, 1, 20, PAWL_OK);
        judge();
        CHECK_UINT(findings_total(&findings), 0);
        findings_free(&findings);
}

TEST(a_token_granted_twice_is_caught)
{
        tenure(A, 1, 0, 10, 100);
        ask(B, 1, 0)->lock = 1; /* another name, asked before the first was known: only uniqueness is broken */
        grant(B, 1, 5, 100, 50)->lock = 1;
        release(B, 1, 20, PAWL_OK);
        expect_only(INVARIANT_TOKEN_TWICE);
}

TEST(a_token_of_zero_is_caught)
{
        tenure(A, 1, 0, 10, 0);
        expect_only(INVARIANT_TOKEN_RANGE);
}

TEST(a_token_that_does_not_fit_a_signed_number_is_caught)
{
        tenure(A, 1, 0, 10, UINT64_C(1) << 63);
        expect_only(INVARIANT_TOKEN_RANGE);
}

TEST(a_lower_token_for_a_later_grant_of_the_name_is_caught)
{
        tenure(A, 1, 0, 10, 100);
        tenure(B, 1, 20, 30, 99);
        judge();
        CHECK_UINT(findings.violations[INVARIANT_TOKEN_ORDER], 1);
        CHECK_UINT(findings.violations[INVARIANT_TOKEN_ORDER_ACROSS], 1);
        CHECK_UINT(findings_total(&findings), 2);
        findings_free(&findings);
}

TEST(a_lower_token_for_a_later_grant_of_another_name_is_caught)
{
        tenure(A, 1, 0, 10, 100);
        ask(B, 1, 20)->lock = 1;
        grant(B, 1, 21, 99, 50);
        release(B, 1, 30, PAWL_OK);
        expect_only(INVARIANT_TOKEN_ORDER_ACROSS);
}

TEST(concurrent_grants_of_two_names_may_come_in_any_order)
{
        tenure(A, 1, 0, 10, 100);
        ask(B, 1, 0)->lock = 1;
        grant(B, 1, 5, 99, 50);
        release(B, 1, 30, PAWL_OK);
        judge();
        CHECK_UINT(findings_total(&findings), 0);
        findings_free(&findings);
}

TEST(belief_after_the_end_of_a_fixed_lease_is_caught)
{
        ask(A, 1, 0)->flags = TENURE_FIXED;
        grant(A, 1, 1, 100, 50);
        note(A, 1, 60, DID_CHECK, PHASE_OK);
        release(A, 1, 61, PAWL_LOST);
        expect_only(INVARIANT_LATE_BELIEF);
}

TEST(an_explicit_renewal_moves_the_end_of_a_fixed_lease)
{
        ask(A, 1, 0)->flags = TENURE_FIXED;
        grant(A, 1, 1, 100, 50);
        note(A, 1, 40, DID_RENEW, PHASE_OK)->valid_most = 90 * MS;
        note(A, 1, 60, DID_CHECK, PHASE_OK);
        release(A, 1, 61, PAWL_OK);
        judge();
        CHECK_UINT(findings_total(&findings), 0);
        findings_free(&findings);
}

TEST(a_lost_lock_that_is_believed_again_is_caught)
{
        ask(A, 1, 0);
        grant(A, 1, 1, 100, 50);
        note(A, 1, 20, DID_CHECK, PHASE_FAIL)->status = PAWL_LOST;
        note(A, 1, 30, DID_CHECK, PHASE_OK);
        release(A, 1, 61, PAWL_LOST);
        expect_only(INVARIANT_RESURRECTED);
}

TEST(a_lock_that_stays_free_while_somebody_waits_is_caught)
{
        tenure(A, 1, 0, 10, 100);
        ask(B, 1, 5);
        grant(B, 1, 19000, 101, 19999);
        release(B, 1, 19001, PAWL_OK);
        expect_only(INVARIANT_STUCK);
}

TEST(a_long_wait_for_a_lock_that_is_held_is_fine)
{
        tenure(A, 1, 0, 19000, 100);
        ask(B, 1, 5);
        grant(B, 1, 19002, 101, 19999);
        release(B, 1, 19003, PAWL_OK);
        judge();
        CHECK_UINT(findings_total(&findings), 0);
        findings_free(&findings);
}

TEST(a_grant_to_a_stopped_process_explains_the_silence)
{
        tenure(A, 1, 0, 10, 100);
        ask(C, 1, 4);
        note(C, 0, 5, DID_STOP, PHASE_INVOKE);
        note(C, 0, 18900, DID_CONTINUE, PHASE_INVOKE);
        note(C, 1, 18901, DID_ACQUIRE, PHASE_FAIL)->status = PAWL_TIMEOUT;
        ask(B, 1, 5);
        grant(B, 1, 19000, 101, 19999);
        release(B, 1, 19001, PAWL_OK);
        judge();
        CHECK_UINT(findings_total(&findings), 0);
        CHECK_UINT(findings.stops, 1);
        findings_free(&findings);
}

TEST(a_claim_that_is_never_answered_is_caught)
{
        tenure(A, 1, 0, 10, 100);
        ask(B, 1, 5);
        expect_only(INVARIANT_NO_ANSWER);
}

TEST(a_claim_of_a_killed_process_needs_no_answer)
{
        ask(B, 1, 5);
        note(B, 0, 6, DID_KILL, PHASE_INVOKE);
        judge();
        CHECK_UINT(findings_total(&findings), 0);
        findings_free(&findings);
}

TEST(a_claim_that_jumps_the_queue_is_caught)
{
        tenure(A, 1, 0, 20, 100);
        ask(B, 1, 5);
        note(B, 1, 6, DID_QUEUE, PHASE_OK);
        ask(C, 1, 10);
        grant(C, 1, 22, 101, 99);
        release(C, 1, 23, PAWL_OK);
        grant(B, 1, 25, 102, 99);
        release(B, 1, 26, PAWL_OK);
        expect_only(INVARIANT_QUEUE_JUMPED);
}

TEST(two_answers_to_one_claim_are_caught)
{
        tenure(A, 1, 0, 10, 100);
        note(A, 1, 20, DID_ACQUIRE, PHASE_FAIL)->status = PAWL_TIMEOUT;
        expect_only(INVARIANT_NONSENSE);
}

TEST(an_answer_that_nobody_asked_for_is_caught)
{
        note(A, 1, 20, DID_ACQUIRE, PHASE_FAIL)->status = PAWL_TIMEOUT;
        expect_only(INVARIANT_NONSENSE);
}

TEST(a_lower_token_in_the_resources_log_is_caught)
{
        const struct effect log[] = {{.token = 5, .read = 0, .wrote = 1}, {.token = 4, .read = 1, .wrote = 2}};

        memset(&findings, 0, sizeof findings);
        check_effects(log, 2, &findings);
        CHECK_UINT(findings.violations[INVARIANT_TOKENS_FALL], 1);
        CHECK_UINT(findings_total(&findings), 1);
}

TEST(a_lost_update_in_the_resources_log_is_caught)
{
        const struct effect log[] = {{.token = 5, .read = 0, .wrote = 1},
                                     {.token = 6, .read = 1, .wrote = 2},
                                     {.token = 7, .read = 1, .wrote = 2}};

        memset(&findings, 0, sizeof findings);
        check_effects(log, 3, &findings);
        CHECK_UINT(findings.violations[INVARIANT_LOST_UPDATE], 1);
        CHECK_UINT(findings_total(&findings), 1);
}

TEST(a_quantile_of_nothing_is_zero)
{
        const int64_t times[] = {1, 2, 3, 4, 100};

        CHECK_INT(quantile(NULL, 0, 0.5), 0);
        CHECK_INT(quantile(times, 5, 0.5), 3);
        CHECK_INT(quantile(times, 5, 0.95), 100);
        CHECK_INT(quantile(times, 5, 1), 100);
}
