/* test_http_reply.c - answers of HTTP servers, read: whole, byte by byte, and cut at every place. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "guard/http/reply.h"
#include "tap.h"

#define OK_HEAD "HTTP/1.1 200 OK\r\n"

/* Feeds text in steps of so many bytes; how much of it was taken. */
static size_t feed(struct reply *reply, enum reply_need need, const char *text, size_t size, size_t step, int *code)
{
        size_t used = 0;

        reply_init(reply, need);
        *code = PAWL_OK;
        while (*code == PAWL_OK && used < size && reply->state != REPLY_DONE) {
                size_t part = size - used < step ? size - used : step;
                size_t taken = 0;

                *code = reply_read(reply, text + used, part, &taken);
                used += taken;
        }
        return used;
}

static bool same_number(const struct reply_number *one, const struct reply_number *other)
{
        return one->said == other->said && one->value == other->value;
}

/* However it is cut, the same comes out. */
static void check_same(const struct reply *one, const struct reply *other)
{
        CHECK_INT(one->state, other->state);
        CHECK_INT(one->status, other->status);
        CHECK(one->keeps == other->keeps && one->aged == other->aged && one->encoded == other->encoded);
        CHECK(same_number(&one->before, &other->before) && same_number(&one->greatest, &other->greatest));
        CHECK(same_number(&one->marks, &other->marks) && same_number(&one->pruned, &other->pruned));
        CHECK_STR(one->admitted, other->admitted);
        CHECK_UINT(one->size, other->size);
        if (one->size > 0 && other->size == one->size)
                CHECK_MEM(one->body, other->body, one->size);
}

/* Reads text in all ways. The reply of the first is left to be looked at, and freed by the caller. */
static int read_bytes(struct reply *reply, enum reply_need need, const char *text, size_t size)
{
        static const size_t steps[] = {1, 2, 3, 7, 64};
        int code, other_code;
        size_t used = feed(reply, need, text, size, SIZE_MAX, &code);

        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
                struct reply other;
                size_t other_used = feed(&other, need, text, size, steps[i], &other_code);

                CHECK_INT(other_code, code);
                if (code == PAWL_OK) {
                        CHECK_UINT(other_used, used);
                        check_same(&other, reply);
                }
                reply_free(&other);
        }
        return code;
}

static int read_text(struct reply *reply, enum reply_need need, const char *text)
{
        return read_bytes(reply, need, text, strlen(text));
}

static void check_bad(const char *text, const char *problem)
{
        struct reply reply;

        if (!CHECK_INT(read_text(&reply, REPLY_DATA, text), PAWL_UNSUPPORTED))
                NOTE("%s", text);
        else
                CHECK_HAS(reply.problem, problem);
        reply_free(&reply);
}

static void check_data(const char *text, const char *data)
{
        struct reply reply;

        if (!CHECK_INT(read_text(&reply, REPLY_DATA, text), PAWL_OK) || !CHECK_INT(reply.state, REPLY_DONE))
                NOTE("%s", text);
        else if (*data)
                CHECK_STR(reply.body, data);
        CHECK_UINT(reply.size, strlen(data));
        reply_free(&reply);
}

TEST(the_fields_of_a_guard_are_read_whatever_their_case)
{
        struct reply reply;

        REQUIRE_INT(read_text(&reply, REPLY_DATA,
                              OK_HEAD
                              "content-length: 2\r\nPAWL-ADMITTED:orders/42 7 \r\nPawl-Before:\t6\r\n"
                              "pawl-greatest: 8\r\nPawl-Marks: 0\r\nPawl-Pruned: 9223372036854775807\r\n\r\nhi"),
                    PAWL_OK);
        CHECK_INT(reply.state, REPLY_DONE);
        CHECK_INT(reply.status, 200);
        CHECK(reply.keeps && !reply.aged && !reply.encoded);
        CHECK_STR(reply.admitted, "orders/42 7");
        CHECK(reply.before.said && reply.before.value == 6);
        CHECK(reply.greatest.said && reply.greatest.value == 8);
        CHECK(reply.marks.said && reply.marks.value == 0);
        CHECK(reply.pruned.said && reply.pruned.value == INT64_MAX);
        CHECK_STR(reply.body, "hi");
        reply_free(&reply);
}

TEST(a_body_has_the_length_that_was_said)
{
        check_data(OK_HEAD "Content-Length: 5\r\n\r\nhello", "hello");
        check_data(OK_HEAD "Content-Length: 5\r\n\r\nhello, and what is not ours", "hello");
        check_data(OK_HEAD "Content-Length: 0\r\n\r\n", "");
        check_data("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", "hi");
}

TEST(a_body_in_chunks_is_put_together)
{
        check_data(OK_HEAD "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n1\r\n,\r\n0\r\n\r\n", "hello,");
        check_data(OK_HEAD "Transfer-Encoding: Chunked\r\n\r\nA;name=\"value\"\r\n0123456789\r\n0\r\n\r\n",
                   "0123456789");
        check_data(OK_HEAD "Transfer-Encoding: chunked\r\n\r\n0\r\nTrailer: value\r\nPawl-Before: no\r\n\r\n", "");
        check_data(OK_HEAD "Transfer-Encoding: chunked\r\n\r\n00a \r\n0123456789\r\n000\r\n\r\n", "0123456789");
}

TEST(an_answer_that_is_cut_anywhere_is_never_done)
{
        static const char *const whole[] = {
                OK_HEAD "Content-Length: 5\r\nPawl-Admitted: a 1\r\n\r\nhello",
                OK_HEAD "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nA: b\r\n\r\n",
                "HTTP/1.1 100 Continue\r\n\r\n" OK_HEAD "Content-Length: 1\r\n\r\n.",
        };

        for (size_t i = 0; i < sizeof(whole) / sizeof(whole[0]); i++) {
                for (size_t size = 0; size < strlen(whole[i]); size++) {
                        struct reply reply;

                        CHECK_INT(read_bytes(&reply, REPLY_DATA, whole[i], size), PAWL_OK);
                        CHECK(reply.state != REPLY_DONE);
                        CHECK(reply_is_fresh(&reply) == (size == 0));
                        reply_free(&reply);
                }
                check_data(whole[i], i == 2 ? "." : "hello");
        }
}

TEST(what_follows_an_answer_is_not_taken)
{
        struct reply reply;
        const char *text = OK_HEAD "Content-Length: 2\r\n\r\nhiHTTP/1.1 200 OK\r\n";
        size_t used;

        reply_init(&reply, REPLY_DATA);
        CHECK_INT(reply_read(&reply, text, strlen(text), &used), PAWL_OK);
        CHECK_UINT(used, strlen(text) - strlen("HTTP/1.1 200 OK\r\n"));
        CHECK_INT(reply_read(&reply, text, strlen(text), &used), PAWL_OK);
        CHECK_UINT(used, 0);
        reply_free(&reply);
}

TEST(interim_answers_are_skipped_and_what_they_say_does_not_count)
{
        struct reply reply;

        REQUIRE_INT(
                read_text(&reply, REPLY_STATUS,
                          "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nPawl-Admitted: a 1\r\nAge: 1\r\n"
                          "Connection: close\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"),
                PAWL_OK);
        CHECK_INT(reply.state, REPLY_DONE);
        CHECK_INT(reply.status, 204);
        CHECK_STR(reply.admitted, "");
        CHECK(reply.keeps && !reply.aged);
        reply_free(&reply);
        check_bad("HTTP/1.1 101 Switching Protocols\r\n\r\n", "another protocol");
}

TEST(answers_without_a_body_end_with_their_head)
{
        static const struct {
                enum reply_need need;
                const char *text;
        } rows[] = {
                {REPLY_NO_BODY, OK_HEAD "Content-Length: 500\r\n\r\n"},
                {REPLY_NO_BODY, OK_HEAD "Transfer-Encoding: chunked\r\n\r\n"},
                {REPLY_DATA, "HTTP/1.1 204 No Content\r\n\r\n"},
                {REPLY_DATA, "HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n"},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct reply reply;

                CHECK_INT(read_text(&reply, rows[i].need, rows[i].text), PAWL_OK);
                CHECK_INT(reply.state, REPLY_DONE);
                CHECK(reply.keeps);
                reply_free(&reply);
        }
}

TEST(data_that_end_with_the_connection_are_refused_because_a_cut_looks_the_same)
{
        struct reply reply;

        check_bad(OK_HEAD "\r\n", "where its data end");
        CHECK_INT(read_text(&reply, REPLY_DATA, "HTTP/1.1 412 Stale\r\nPawl-Greatest: 9\r\n\r\nand so on"), PAWL_OK);
        CHECK_INT(reply.state, REPLY_DONE);
        CHECK(!reply.keeps);
        reply_free(&reply);
}

TEST(a_length_that_is_said_twice_or_in_two_ways_is_refused)
{
        check_bad(OK_HEAD "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", "twice");
        check_bad(OK_HEAD "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", "twice");
        check_bad(OK_HEAD "Content-Length: 5, 5\r\n\r\n", "number");
        check_bad(OK_HEAD "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", "two ways");
        check_bad(OK_HEAD "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", "chunked");
        check_bad(OK_HEAD "Transfer-Encoding: gzip, chunked\r\n\r\n", "chunked");
        check_bad("HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "two ways");
}

TEST(a_number_that_is_none_is_refused)
{
        static const char *const numbers[] = {
                "-1", "+1", "0x5", "five", "", "9223372036854775808", "18446744073709551620", "1 2"};

        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                char text[128];

                snprintf(text, sizeof(text), OK_HEAD "Content-Length: %s\r\n\r\n", numbers[i]);
                check_bad(text, "number");
                snprintf(text, sizeof(text), OK_HEAD "Pawl-Greatest: %s\r\n\r\n", numbers[i]);
                check_bad(text, "number");
        }
        check_bad(OK_HEAD "Pawl-Before: 1\r\nPawl-Before: 1\r\n\r\n", "twice");
        check_bad(OK_HEAD "Pawl-Admitted: a 1\r\nPawl-Admitted: a 1\r\n\r\n", "twice");
        check_bad(OK_HEAD "Pawl-Admitted:\r\n\r\n", "Pawl-Admitted");
}

TEST(an_admitted_field_that_is_too_long_is_refused)
{
        char *text = NULL;
        struct reply reply;

        REQUIRE(asprintf(&text, OK_HEAD "Content-Length: 0\r\nPawl-Admitted: %0*d\r\n\r\n", PAWL_FENCE_MAX + 1, 7) > 0);
        CHECK_INT(read_text(&reply, REPLY_DATA, text), PAWL_UNSUPPORTED);
        reply_free(&reply);
        free(text);
        REQUIRE(asprintf(&text, OK_HEAD "Content-Length: 0\r\nPawl-Admitted: %0*d\r\n\r\n", PAWL_FENCE_MAX, 7) > 0);
        CHECK_INT(read_text(&reply, REPLY_DATA, text), PAWL_OK);
        CHECK_UINT(strlen(reply.admitted), PAWL_FENCE_MAX);
        reply_free(&reply);
        free(text);
}

TEST(what_is_not_http_is_refused)
{
        check_bad("SSH-2.0-OpenSSH_9.2\r\n", "does not begin");
        check_bad("HTTP/2.0 200 OK\r\n", "does not begin");
        check_bad("HTTP/1.1 20 OK\r\n", "does not begin");
        check_bad("HTTP/1.1 2000 OK\r\n", "does not begin");
        check_bad("HTTP/1.1 099 OK\r\n", "does not begin");
        check_bad("HTTP/1.1 600 OK\r\n", "does not begin");
        check_bad("HTTP/1.1  200 OK\r\n", "does not begin");
        check_bad("http/1.1 200 OK\r\n", "does not begin");
        check_bad("\r\n", "does not begin");
        check_bad("HTTP/1.1 200 OK\n\n", "CR LF");
        check_bad(OK_HEAD "A: b\n\r\n", "CR LF");
        check_bad(OK_HEAD "A: b\rc\r\n\r\n", "CR or a NUL");
        check_bad(OK_HEAD "no colon\r\n\r\n", "Name: value");
        check_bad(OK_HEAD ": value\r\n\r\n", "Name: value");
        check_bad(OK_HEAD "Name : value\r\n\r\n", "Name: value");
        check_bad(OK_HEAD "A: b\r\n folded\r\n\r\n", "Name: value");
}

TEST(a_nul_in_the_head_is_refused)
{
        static const char text[] = OK_HEAD "A: b\0c\r\n\r\n";
        struct reply reply;

        CHECK_INT(read_bytes(&reply, REPLY_DATA, text, sizeof(text) - 1), PAWL_UNSUPPORTED);
        reply_free(&reply);
}

TEST(chunks_that_are_none_are_refused)
{
        const char *head = OK_HEAD "Transfer-Encoding: chunked\r\n\r\n";
        static const char *const bodies[] = {"\r\n",
                                             "x\r\n",
                                             "-1\r\n",
                                             "0x5\r\n",
                                             "5\r\nhello!\r\n",
                                             ";\r\n",
                                             "1234567890123456\r\n",
                                             "0\r\nno colon\r\n",
                                             "5 5\r\n",
                                             "5\nhello"};

        for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
                char text[256];

                snprintf(text, sizeof(text), "%s%s", head, bodies[i]);
                check_bad(text, "");
        }
}

TEST(a_head_has_64_kib_at_most)
{
        size_t size = REPLY_HEAD_MAX + 100;
        char *text = malloc(size + 1);
        struct reply reply;

        REQUIRE(text != NULL);
        memset(text, 'a', size);
        memcpy(text, OK_HEAD, strlen(OK_HEAD));
        text[size] = '\0';
        CHECK_INT(read_bytes(&reply, REPLY_STATUS, text, size), PAWL_FULL);
        CHECK_HAS(reply.problem, "64 KiB");
        reply_free(&reply);
        for (size_t i = strlen(OK_HEAD); i + 6 < size; i += 6) /* many short lines are no better than a long one */
                memcpy(text + i, "A: b\r\n", 6);
        CHECK_INT(read_bytes(&reply, REPLY_STATUS, text, size), PAWL_FULL);
        reply_free(&reply);
        free(text);
}

TEST(data_have_64_mib_at_most)
{
        struct reply reply;

        CHECK_INT(read_text(&reply, REPLY_DATA, OK_HEAD "Content-Length: 67108865\r\n\r\n"), PAWL_FULL);
        CHECK_HAS(reply.problem, "64 MiB");
        reply_free(&reply);
        CHECK_INT(read_text(&reply, REPLY_DATA, OK_HEAD "Content-Length: 67108864\r\n\r\n"), PAWL_OK);
        reply_free(&reply);
        CHECK_INT(read_text(&reply, REPLY_DATA, OK_HEAD "Transfer-Encoding: chunked\r\n\r\nfffffffffffffff\r\n"),
                  PAWL_OK);
        reply_free(&reply);
}

TEST(chunks_that_add_up_to_more_than_64_mib_are_refused)
{
        const size_t piece = 1 << 20;
        char *bytes = calloc(1, piece);
        struct reply reply;
        size_t used;
        int code, rounds = 0;

        REQUIRE(bytes != NULL);
        reply_init(&reply, REPLY_DATA);
        code = reply_read(&reply, OK_HEAD "Transfer-Encoding: chunked\r\n\r\n", strlen(OK_HEAD) + 30, &used);
        while (code == PAWL_OK && rounds++ < 100) {
                code = reply_read(&reply, "100000\r\n", 8, &used);
                if (code == PAWL_OK)
                        code = reply_read(&reply, bytes, piece, &used);
                if (code == PAWL_OK)
                        code = reply_read(&reply, "\r\n", 2, &used);
        }
        CHECK_INT(code, PAWL_FULL);
        CHECK_INT(rounds, 65);
        reply_free(&reply);
        free(bytes);
}

TEST(of_a_long_sentence_the_beginning_is_kept)
{
        size_t size = 3 * REPLY_SENTENCE_MAX;
        char *text = malloc(size + 1);
        char *whole = NULL;
        struct reply reply;

        REQUIRE(text != NULL);
        memset(text, 'x', size);
        text[size] = '\0';
        REQUIRE(asprintf(&whole, "HTTP/1.1 500 Oh\r\nContent-Length: %zu\r\n\r\n%s", size, text) > 0);
        CHECK_INT(read_text(&reply, REPLY_DATA, whole), PAWL_OK);
        CHECK_INT(reply.state, REPLY_DONE);
        CHECK_UINT(reply.size, REPLY_SENTENCE_MAX);
        CHECK_UINT(strlen(reply.body), REPLY_SENTENCE_MAX);
        reply_free(&reply);
        free(whole);
        free(text);
}

TEST(a_server_that_closes_and_a_cache_are_recognised)
{
        struct reply reply;

        CHECK_INT(read_text(&reply, REPLY_STATUS, OK_HEAD "Connection: Keep-Alive, Close\r\nContent-Length: 0\r\n\r\n"),
                  PAWL_OK);
        CHECK(!reply.keeps);
        reply_free(&reply);
        CHECK_INT(read_text(&reply, REPLY_STATUS,
                            OK_HEAD "Connection: closed-door\r\nAge: 0\r\nContent-Length: 0\r\n\r\n"),
                  PAWL_OK);
        CHECK(reply.keeps && reply.aged);
        reply_free(&reply);
        CHECK_INT(read_text(&reply, REPLY_STATUS, OK_HEAD "Content-Encoding: gzip\r\nContent-Length: 0\r\n\r\n"),
                  PAWL_OK);
        CHECK(reply.encoded);
        reply_free(&reply);
}
