/* test_jute.c - ZooKeeper's records: as its servers write them (tests/fuzz/corpus/jute was recorded from one), and
 * cut, long or full ones. */
#include <pawl.h>
#include <string.h>

#include "engine/zookeeper/jute.h"
#include "tap.h"

static char memory[512];

static struct jute_out fresh(size_t size)
{
        struct jute_out out;

        memset(memory, 'x', sizeof(memory));
        jute_out_init(&out, memory, size);
        return out;
}

/* What was written, behind the length and the header of a request, for reading. */
static struct jute_in body(const struct jute_out *out)
{
        struct jute_in in;

        jute_in_init(&in, out->start + 12, jute_written(out) - 12);
        return in;
}

TEST(a_request_is_its_length_its_number_its_type_and_its_body)
{
        static const char expected[] = "\0\0\0\x11\0\0\0\7\0\0\0\2\0\0\0\1/\xff\xff\xff\xff";
        struct jute_out out = fresh(sizeof(memory));
        size_t start = jute_begin(&out, 7, ZK_DELETE);

        jute_put_path_version(&out, "/", -1);
        jute_end(&out, start);
        CHECK(!out.full);
        REQUIRE_INT(jute_written(&out), sizeof(expected) - 1);
        CHECK_MEM(memory, expected, sizeof(expected) - 1);
}

TEST(requests_stand_one_behind_the_other)
{
        struct jute_out out = fresh(sizeof(memory));
        struct jute_in in;
        size_t first;

        jute_put_close(&out, 2);
        jute_put_close(&out, 3);
        first = jute_packet(memory, jute_written(&out), 100, &in);
        REQUIRE_INT(first, 12);
        CHECK_INT(jute_get_int(&in), 2);
        CHECK_INT(jute_get_int(&in), ZK_CLOSE);
        REQUIRE_INT(jute_packet(memory + first, jute_written(&out) - first, 100, &in), 12);
        CHECK_INT(jute_get_int(&in), 3);
        CHECK_INT(jute_get_int(&in), ZK_CLOSE);
}

TEST(numbers_come_back_as_they_went)
{
        struct jute_out out = fresh(sizeof(memory));
        struct jute_in in;

        jute_put_long(&out, INT64_MIN);
        jute_put_long(&out, 0x0102030405060708);
        jute_put_int(&out, INT32_MIN);
        jute_put_int(&out, -2);
        jute_put_bool(&out, true);
        jute_put_bool(&out, false);
        jute_in_init(&in, memory, jute_written(&out));
        CHECK(jute_get_long(&in) == INT64_MIN);
        CHECK_MEM(memory + 8, "\1\2\3\4\5\6\7\10", 8);
        CHECK_INT(jute_get_long(&in), 0x0102030405060708);
        CHECK_INT(jute_get_int(&in), INT32_MIN);
        CHECK_INT(jute_get_int(&in), -2);
        CHECK(jute_get_bool(&in));
        CHECK(!jute_get_bool(&in));
        CHECK(!in.bad && in.at == in.end);
}

TEST(a_node_is_made_for_everybody_or_for_who_has_authenticated)
{
        for (int acl = ZK_ACL_OPEN; acl <= ZK_ACL_CREATOR; acl++) {
                struct jute_out out = fresh(sizeof(memory));
                size_t start = jute_begin(&out, 1, ZK_CREATE2);
                struct jute_text path, data;
                struct zk_access access;
                struct jute_in in;

                jute_put_create(&out, "/a", "data", 4, (enum zk_acl)acl, ZK_EPHEMERAL | ZK_SEQUENTIAL);
                jute_end(&out, start);
                in = body(&out);
                path = jute_get_text(&in);
                data = jute_get_text(&in);
                CHECK_MEM(path.at, "/a", 2);
                CHECK_MEM(data.at, "data", 4);
                REQUIRE_INT(jute_get_count(&in, 12), 1);
                jute_get_access(&in, &access);
                CHECK_INT(access.permissions, 31);
                CHECK_MEM(access.scheme.at, acl == ZK_ACL_OPEN ? "world" : "auth", access.scheme.length);
                CHECK_INT(access.id.length, acl == ZK_ACL_OPEN ? 6 : 0);
                CHECK_INT(jute_get_int(&in), 3);
                CHECK(!in.bad && in.at == in.end);
        }
}

TEST(what_does_not_fit_is_full_and_writes_nothing_behind_its_end)
{
        for (size_t size = 0; size < 60; size++) {
                struct jute_out out = fresh(size);
                size_t start = jute_begin(&out, 1, ZK_CREATE);

                jute_put_create(&out, "/path", "data", 4, ZK_ACL_OPEN, 0);
                jute_end(&out, start);
                CHECK(out.full);
                CHECK_INT(memory[size], 'x');
                jute_put_bool(&out, true); /* what would fit is not written either: it would stand in the wrong place */
                CHECK(out.full && jute_written(&out) <= size);
        }
}

TEST(a_packet_that_is_not_all_there_is_waited_for)
{
        struct jute_out out = fresh(sizeof(memory));
        struct jute_in in;

        jute_put_close(&out, 1);
        for (size_t size = 0; size < 12; size++)
                CHECK_INT(jute_packet(memory, size, 100, &in), 0);
        CHECK_INT(jute_packet(memory, 12, 100, &in), 12);
        CHECK_INT(jute_packet(memory, 13, 100, &in), 12);
        CHECK(!in.bad);
}

TEST(a_packet_longer_than_we_take_is_bad_at_once)
{
        struct jute_in in;

        REQUIRE(jute_packet("\x7f\xff\xff\xff", 4, 4096, &in) > 0);
        CHECK(in.bad);
        REQUIRE(jute_packet("\xff\xff\xff\xff", 4, 4096, &in) > 0);
        CHECK(in.bad);
}

TEST(a_cut_record_is_bad_and_reads_as_nothing)
{
        struct jute_in in;
        struct jute_text text;

        jute_in_init(&in, "\0\0\0\5abcd", 8);
        text = jute_get_text(&in);
        CHECK(in.bad);
        CHECK_INT(text.length, 0);
        CHECK_INT(jute_get_int(&in), 0);
        CHECK(!jute_get_bool(&in));
}

TEST(a_text_of_length_minus_one_is_empty_and_of_minus_two_is_bad)
{
        struct jute_in in;

        jute_in_init(&in, "\xff\xff\xff\xff", 4);
        CHECK_INT(jute_get_text(&in).length, 0);
        CHECK(!in.bad);
        jute_in_init(&in, "\xff\xff\xff\xfe", 4);
        CHECK_INT(jute_get_text(&in).length, 0);
        CHECK(in.bad);
}

TEST(a_vector_that_promises_more_than_is_there_is_bad)
{
        struct jute_in in;

        jute_in_init(&in, "\0\0\0\2\0\0\0\0\0\0\0\0", 12);
        CHECK_INT(jute_get_count(&in, 4), 2);
        jute_in_init(&in, "\0\0\0\3\0\0\0\0\0\0\0\0", 12);
        CHECK_INT(jute_get_count(&in, 4), 0);
        CHECK(in.bad);
        jute_in_init(&in, "\x7f\xff\xff\xff", 4);
        CHECK_INT(jute_get_count(&in, 4), 0);
        CHECK(in.bad);
}

TEST(a_connection_is_asked_for_and_answered)
{
        struct zk_connect connect = {
                .last_zxid = 5, .session = 0x10001, .timeout_ms = 10000, .password = "sixteen bytes ."};
        static const char answer[] = "\0\0\0\0\0\0\x27\x10\0\0\0\0\0\1\0\1\0\0\0\x10sixteen bytes .\0\1";
        struct jute_out out = fresh(sizeof(memory));
        struct zk_connect answered;
        struct jute_in in;

        jute_put_connect(&out, &connect);
        REQUIRE_INT(jute_packet(memory, jute_written(&out), 100, &in), 4 + 4 + 8 + 4 + 8 + 4 + 16 + 1);
        CHECK_INT(jute_get_int(&in), 0);
        CHECK_INT(jute_get_long(&in), 5);
        CHECK_INT(jute_get_int(&in), 10000);
        CHECK_INT(jute_get_long(&in), 0x10001);
        jute_in_init(&in, answer, sizeof(answer) - 1);
        jute_get_connect(&in, &answered);
        CHECK(!in.bad && answered.read_only);
        CHECK_INT(answered.timeout_ms, 10000);
        CHECK_INT(answered.session, 0x10001);
        CHECK_MEM(answered.password, connect.password, 16);
        /* A server before 3.4 says nothing of reading only. */
        jute_in_init(&in, answer, sizeof(answer) - 2);
        jute_get_connect(&in, &answered);
        CHECK(!in.bad && !answered.read_only);
}

/* One op of an answer to a multi, with nothing behind it or with an error. */
static void put_result(struct jute_out *out, int op, int error, bool failed)
{
        jute_put_int(out, op);
        jute_put_bool(out, false);
        jute_put_int(out, error);
        if (failed)
                jute_put_int(out, error);
}

TEST(a_transaction_that_failed_says_which_of_its_operations_did)
{
        struct jute_out out = fresh(sizeof(memory));
        struct jute_in in;
        size_t failed = 0;

        put_result(&out, ZK_ERROR, ZK_OK, true);
        put_result(&out, ZK_ERROR, ZK_NO_NODE, true);
        put_result(&out, ZK_ERROR, ZK_INCONSISTENT, true);
        jute_end_ops(&out);
        jute_in_init(&in, memory, jute_written(&out));
        CHECK_INT(jute_get_results(&in, &failed), ZK_NO_NODE);
        CHECK_INT(failed, 1);
        CHECK(!in.bad && in.at == in.end);
}

TEST(a_transaction_that_was_done_says_so_and_one_that_is_cut_does_not)
{
        struct jute_out out = fresh(sizeof(memory));
        struct jute_in in;

        put_result(&out, ZK_CHECK, ZK_OK, false);
        put_result(&out, ZK_DELETE, ZK_OK, false);
        jute_in_init(&in, memory, jute_written(&out));
        CHECK(jute_get_results(&in, NULL) != ZK_OK);
        CHECK(in.bad);
        jute_end_ops(&out);
        jute_in_init(&in, memory, jute_written(&out));
        CHECK_INT(jute_get_results(&in, NULL), ZK_OK);
        CHECK(!in.bad);
}

TEST(an_operation_that_we_never_ask_for_is_bad)
{
        struct jute_out out = fresh(sizeof(memory));
        struct jute_in in;

        put_result(&out, 8, ZK_OK, false);
        jute_end_ops(&out);
        jute_in_init(&in, memory, jute_written(&out));
        CHECK(jute_get_results(&in, NULL) != ZK_OK);
        CHECK(in.bad);
}

TEST(each_error_of_the_server_has_a_code_and_a_sentence)
{
        const char *sentence;

        CHECK_INT(zk_error(ZK_NO_AUTH, &sentence), PAWL_DENIED);
        CHECK_HAS(sentence, "ACL");
        CHECK_INT(zk_error(ZK_QUOTA_EXCEEDED, &sentence), PAWL_FULL);
        CHECK_HAS(sentence, "quota");
        CHECK_INT(zk_error(ZK_THROTTLED, &sentence), PAWL_UNREACHABLE);
        CHECK_INT(zk_error(ZK_NOT_READ_ONLY, &sentence), PAWL_UNREACHABLE);
        CHECK_HAS(sentence, "quorum");
        CHECK_INT(zk_error(-9999, &sentence), PAWL_OTHER_VERSION);
        CHECK(sentence[0] != '\0');
}
