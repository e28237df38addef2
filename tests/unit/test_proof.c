/* test_proof.c - when the leader of a ZooKeeper ensemble is known to have heard of a session: the arithmetic of zk_proof.h.
*/
#include "base/duration.h"
#include "engine/zookeeper/zk_proof.h"
#include "tap.h"

static const int64_t interval = 1000 * MS;

/* Times in milliseconds. */
static bool answered(struct zk_proof *proof, int64_t sent, int64_t answered_at, bool is_write, int64_t *known)
{
        bool later = zk_proof_answered(proof, sent * MS, answered_at * MS, is_write, known);

        return later;
}

TEST(a_sign_is_known_after_two_more_round_trips)
{
        struct zk_proof proof;
        int64_t known = 0;

        zk_proof_begin(&proof, interval);
        CHECK(!answered(&proof, 100, 110, true, &known));
        CHECK(!answered(&proof, 1111, 1120, false, &known));
        CHECK(answered(&proof, 1121, 1130, false, &known));
        CHECK_INT(known / MS, 100);
}

TEST(a_second_round_trip_within_the_interval_proves_nothing)
{
        struct zk_proof proof;
        int64_t known = 0;

        zk_proof_begin(&proof, interval);
        answered(&proof, 100, 400, true, &known);
        for (int64_t at = 500; at <= 1400; at += 100)
                CHECK(!answered(&proof, at, at + 10, false, &known));
        CHECK_INT(known, 0);
        CHECK(!answered(&proof, 1401, 1500, false, &known));
        CHECK(answered(&proof, 1501, 1510, false, &known));
        CHECK_INT(known / MS, 100);
}

TEST(a_third_that_was_sent_before_the_second_was_answered_proves_nothing)
{
        struct zk_proof proof;
        int64_t known = 0;

        zk_proof_begin(&proof, interval);
        answered(&proof, 100, 110, true, &known);
        CHECK(!answered(&proof, 1200, 1300, false, &known));
        CHECK(!answered(&proof, 1250, 1310, false, &known));
        CHECK(!answered(&proof, 1300, 1320, false, &known));
        CHECK_INT(known, 0);
        CHECK(answered(&proof, 1301, 1330, false, &known));
}

TEST(without_a_write_there_is_no_sign)
{
        struct zk_proof proof;
        int64_t known = 0;

        zk_proof_begin(&proof, interval);
        CHECK(zk_proof_wants(&proof) == NEVER);
        for (int64_t at = 0; at < 10000; at += 100)
                CHECK(!answered(&proof, at, at + 10, false, &known));
        CHECK(zk_proof_wants(&proof) == NEVER);
}

TEST(it_says_when_a_round_trip_is_of_use)
{
        struct zk_proof proof;
        int64_t known = 0;

        zk_proof_begin(&proof, interval);
        answered(&proof, 100, 110, true, &known);
        CHECK_INT(zk_proof_wants(&proof), 1110 * MS + 1);
        answered(&proof, 1120, 1130, false, &known);
        CHECK_INT(zk_proof_wants(&proof), 1130 * MS + 1);
        answered(&proof, 1140, 1150, false, &known);
        CHECK(zk_proof_wants(&proof) == NEVER);
}

/* Of a client that writes all the time what is known is never much older than the interval. */
TEST(a_busy_client_needs_no_more_than_its_own_writes)
{
        struct zk_proof proof;
        int64_t known = 0;

        zk_proof_begin(&proof, interval);
        for (int64_t at = 1; at < 20000; at += 3) {
                answered(&proof, at, at + 2, true, &known);
                CHECK_COMPARE(known, <=, (at - 1000) * MS > 0 ? (at - 1000) * MS : 0);
                if (at > 3000)
                        CHECK_COMPARE(known, >=, (at - 1000 - 1000 / 6 - 20) * MS);
        }
}

TEST(an_interval_is_a_quarter_of_the_shortest_session_or_half_a_tick)
{
        CHECK_COMPARE(zk_proof_interval(0, 4000 * MS), >, 1000 * MS);
        CHECK_COMPARE(zk_proof_interval(0, 4000 * MS), <, 1100 * MS);
        CHECK_COMPARE(zk_proof_interval(500 * MS, 40000 * MS), >, 250 * MS);
        CHECK_COMPARE(zk_proof_interval(500 * MS, 40000 * MS), <, 310 * MS);
}
