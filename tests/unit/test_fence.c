/* test_fence.c - a token in the header of a request: what is written is read, and nothing else passes. */
#include <pawl/guard.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

static struct pawl_why why;

/* The token, or 0 if it is refused with a sentence. *resource is the name then. */
static uint64_t read_value(const char *value, char resource[PAWL_NAME_MAX + 1])
{
        uint64_t token = 0;
        int code;

        resource[0] = '\0';
        why = (struct pawl_why){0};
        code = pawl_fence_read(value, resource, &token, &why);
        if (code == PAWL_OK)
                return token;
        CHECK_INT(code, PAWL_INVALID);
        CHECK_INT(why.code, PAWL_INVALID);
        CHECK_HAS(why.text, "Pawl-Fence");
        CHECK_STR(resource, "");
        CHECK_UINT(token, 0);
        return 0;
}

static void check_read(const char *value, const char *name, uint64_t token)
{
        char resource[PAWL_NAME_MAX + 1];

        if (!CHECK_UINT(read_value(value, resource), token))
                NOTE("\"%s\"", value);
        CHECK_STR(resource, name);
}

static void check_refused(const char *value)
{
        char resource[PAWL_NAME_MAX + 1];

        if (!CHECK_UINT(read_value(value, resource), 0))
                NOTE("\"%s\"", value);
}

static void check_written(const char *name, uint64_t token, const char *expected)
{
        char value[PAWL_FENCE_MAX + 1];

        REQUIRE_INT(pawl_fence_write(name, token, value, sizeof(value)), PAWL_OK);
        CHECK_STR(value, expected);
        check_read(value, name, token);
}

static pawl_guard *open_memory(void)
{
        pawl_guard *guard = NULL;

        REQUIRE_INT(pawl_guard_open("mem:", NULL, &guard), PAWL_OK);
        return guard;
}

TEST(what_is_written_is_read)
{
        check_written("orders", 7, "orders 7");
        check_written("orders/42", 1, "orders/42 1");
        check_written("two words", 2, "two%20words 2");
        check_written("100%", 3, "100%25 3");
        check_written("a,b", 4, "a%2Cb 4");
        check_written(".hidden", 5, "%2Ehidden 5");
        check_written("..", 6, "%2E. 6");
        check_written("\xc3\xa4", 8, "%C3%A4 8");
        check_written("big", INT64_MAX, "big 9223372036854775807");
}

TEST(the_longest_name_fits)
{
        char name[PAWL_NAME_MAX + 2];
        char value[PAWL_FENCE_MAX + 1];
        char resource[PAWL_NAME_MAX + 1];

        memset(name, ' ', sizeof(name));
        name[PAWL_NAME_MAX] = '\0';
        REQUIRE_INT(pawl_fence_write(name, INT64_MAX, value, sizeof(value)), PAWL_OK);
        CHECK_UINT(strlen(value), PAWL_FENCE_MAX);
        CHECK_UINT(read_value(value, resource), INT64_MAX);
        CHECK_STR(resource, name);
        name[PAWL_NAME_MAX] = ' ';
        name[PAWL_NAME_MAX + 1] = '\0';
        CHECK_INT(pawl_fence_write(name, 1, value, sizeof(value)), PAWL_INVALID);
}

TEST(a_value_that_does_not_fit_is_not_written_at_all)
{
        char value[8] = "as was";

        CHECK_INT(pawl_fence_write("orders", 1, value, 8), PAWL_INVALID);
        CHECK_STR(value, "as was");
        CHECK_INT(pawl_fence_write("order", 1, value, 8), PAWL_OK);
        CHECK_STR(value, "order 1");
        CHECK_INT(pawl_fence_write("order", 1, value, 0), PAWL_INVALID);
        CHECK_INT(pawl_fence_write("order", 1, NULL, 8), PAWL_INVALID);
}

TEST(what_is_no_token_or_no_name_is_not_written)
{
        char value[PAWL_FENCE_MAX + 1];

        CHECK_INT(pawl_fence_write("a", 0, value, sizeof(value)), PAWL_INVALID);
        CHECK_INT(pawl_fence_write("a", (uint64_t)INT64_MAX + 1, value, sizeof(value)), PAWL_INVALID);
        CHECK_INT(pawl_fence_write("", 1, value, sizeof(value)), PAWL_INVALID);
        CHECK_INT(pawl_fence_write(NULL, 1, value, sizeof(value)), PAWL_INVALID);
        CHECK_INT(pawl_fence_write("a\r\nX: y", 1, value, sizeof(value)), PAWL_INVALID);
        CHECK_INT(pawl_fence_write("\xff", 1, value, sizeof(value)), PAWL_INVALID);
}

TEST(blanks_around_a_value_are_not_part_of_it)
{
        check_read(" orders 7", "orders", 7);
        check_read("\t orders 7 \t", "orders", 7);
}

TEST(blanks_within_a_value_are_wrong)
{
        check_refused("orders  7");
        check_refused("orders\t7");
        check_refused("or ders 7");
        check_refused("orders7");
        check_refused(" 7");
        check_refused(" ");
        check_refused("");
}

TEST(other_encoders_are_understood)
{
        check_read("orders%2f42 7", "orders/42", 7);
        check_read("orders%2F42 7", "orders/42", 7);
        check_read("%6Frders 7", "orders", 7);
        check_read("~user!'()* 7", "~user!'()*", 7);
        check_read(".hidden 7", ".hidden", 7);
}

TEST(a_bad_encoding_is_refused)
{
        check_refused("a% 7");
        check_refused("a%2 7");
        check_refused("a%zz 7");
        check_refused("a%2");
        check_refused("a%");
        check_refused("a%00b 7");
        check_refused("a%0Ab 7");
        check_refused("%FF 7");
        check_refused("\xc3\xa4 7");
        check_refused("a+b,c 7");
        check_refused("\"a\" 7");
}

TEST(a_header_that_came_twice_is_refused_when_they_were_joined)
{
        check_refused("a 1, a 2");
        check_refused("a 1,a 2");
        check_refused("a 2, a 2");
        check_refused("a 1,");
        check_refused(", a 1");
        check_refused("a, b 1");
        check_refused("a 1; b 2");
}

TEST(lines_cannot_be_smuggled_in)
{
        check_refused("a 1\r\nX: y");
        check_refused("a 1\n");
        check_refused("a 1\r");
        check_refused("a\r 1");
        check_refused("\na 1");
}

TEST(only_plain_decimal_numbers_are_tokens)
{
        check_refused("a 0");
        check_refused("a 07");
        check_refused("a -1");
        check_refused("a +1");
        check_refused("a 1.0");
        check_refused("a 1e3");
        check_refused("a 0x10");
        check_refused("a 9223372036854775808");
        check_refused("a 18446744073709551617");
        check_refused("a 99999999999999999999999");
        check_refused("a ");
        check_refused("a one");
        check_refused("a 1 2");
}

TEST(a_name_that_is_too_long_is_refused)
{
        char value[PAWL_NAME_MAX + 8];

        memset(value, 'a', sizeof(value));
        memcpy(value + PAWL_NAME_MAX + 1, " 7", 3);
        check_refused(value);
        memcpy(value + PAWL_NAME_MAX, " 7", 3);
        value[PAWL_NAME_MAX + 2] = '\0';
        CHECK_UINT(read_value(value, (char[PAWL_NAME_MAX + 1]){0}), 7);
}

TEST(a_reader_without_a_place_is_told)
{
        char resource[PAWL_NAME_MAX + 1];
        uint64_t token;

        CHECK_INT(pawl_fence_read("a 1", NULL, &token, &why), PAWL_INVALID);
        CHECK_INT(pawl_fence_read("a 1", resource, NULL, &why), PAWL_INVALID);
        CHECK_INT(pawl_fence_read(NULL, resource, &token, &why), PAWL_INVALID);
        CHECK_INT(pawl_fence_read("nonsense", resource, &token, NULL), PAWL_INVALID);
}

TEST(a_check_admits_and_refuses_as_the_guard_does)
{
        pawl_guard *guard = open_memory();

        CHECK_INT(pawl_guard_check(guard, "orders", "orders 7", &why), PAWL_OK);
        CHECK_INT(pawl_guard_check(guard, "orders", "orders 7", &why), PAWL_OK);
        CHECK_INT(pawl_guard_check(guard, "orders", "orders 6", &why), PAWL_STALE);
        CHECK_HAS(why.text, "7 has been admitted");
        CHECK_INT(pawl_guard_admit(guard, "orders", 6, NULL), PAWL_STALE);
        CHECK_INT(pawl_guard_check(guard, NULL, "orders 8", &why), PAWL_OK);
        CHECK_INT(pawl_guard_admit(guard, "orders", 7, NULL), PAWL_STALE);
        pawl_guard_close(guard);
}

TEST(a_missing_header_is_never_a_pass)
{
        pawl_guard *guard = open_memory();

        CHECK_INT(pawl_guard_check(guard, "orders", NULL, &why), PAWL_NOT_FOUND);
        CHECK_HAS(why.text, "no Pawl-Fence header");
        CHECK_INT(pawl_guard_check(guard, NULL, NULL, NULL), PAWL_NOT_FOUND);
        CHECK_INT(pawl_guard_check(guard, "orders", "", &why), PAWL_INVALID);
        pawl_guard_close(guard);
}

TEST(a_token_of_another_resource_is_refused_and_admits_nothing)
{
        pawl_guard *guard = open_memory();

        CHECK_INT(pawl_guard_check(guard, "orders", "invoices 7", &why), PAWL_INVALID);
        CHECK_HAS(why.text, "invoices");
        CHECK_INT(pawl_guard_check(guard, "orders", "Orders 7", &why), PAWL_INVALID);
        CHECK_INT(pawl_guard_check(guard, "orders", "orders/ 7", &why), PAWL_INVALID);
        CHECK_INT(pawl_guard_admit(guard, "orders", 1, NULL), PAWL_OK);
        CHECK_INT(pawl_guard_admit(guard, "invoices", 1, NULL), PAWL_OK);
        pawl_guard_close(guard);
}

TEST(a_check_without_a_guard_is_told)
{
        CHECK_INT(pawl_guard_check(NULL, "orders", "orders 7", &why), PAWL_INVALID);
}

TEST(only_ok_is_answered_with_200)
{
#define CHECK_STATUS(name, number, text)                                                                               \
        if ((number) != PAWL_OK)                                                                                       \
                CHECK(pawl_fence_status(number) >= 400);
        PAWL_ERRORS(CHECK_STATUS)
#undef CHECK_STATUS
        CHECK_INT(pawl_fence_status(PAWL_OK), 200);
        CHECK_INT(pawl_fence_status(PAWL_STALE), 412);
        CHECK_INT(pawl_fence_status(PAWL_NOT_FOUND), 428);
        CHECK_INT(pawl_fence_status(PAWL_INVALID), 400);
        CHECK_INT(pawl_fence_status(PAWL_DENIED), 403);
        CHECK_INT(pawl_fence_status(PAWL_UNREACHABLE), 503);
        CHECK_INT(pawl_fence_status(PAWL_IN_DOUBT), 503);
        CHECK_INT(pawl_fence_status(PAWL_FULL), 507);
        CHECK_INT(pawl_fence_status(PAWL_UNSUPPORTED), 501);
        CHECK_INT(pawl_fence_status(PAWL_CORRUPT), 500);
        CHECK_INT(pawl_fence_status(-1), 500);
        CHECK_INT(pawl_fence_status(12345), 500);
}

/* ---- versions --------------------------------------------------------------------------------------------------- */

static void check_expected(const char *name, uint64_t version, const char *expected)
{
        char value[PAWL_FENCE_MAX + 1];
        char resource[PAWL_NAME_MAX + 1];
        uint64_t again = 99;

        REQUIRE_INT(pawl_expect_write(name, version, value, sizeof(value)), PAWL_OK);
        CHECK_STR(value, expected);
        REQUIRE_INT(pawl_expect_read(value, resource, &again, &why), PAWL_OK);
        CHECK_STR(resource, name);
        CHECK_UINT(again, version);
}

TEST(a_version_is_written_and_read_like_a_token_and_may_be_0)
{
        static const char *const wrong[] = {"",     "r",        "r ",    "r -1", "r 00", "r 01",
                                            "r 1x", "r 1, r 2", "r 1 2", "r  1", "r\t1", "r 9223372036854775808",
                                            " 1",   "%00 1",    "r 0x1", "r +1"};
        char resource[PAWL_NAME_MAX + 1] = "";
        char value[PAWL_FENCE_MAX + 1];
        uint64_t version = 99;

        check_expected("orders", 0, "orders 0");
        check_expected("two words", 7, "two%20words 7");
        check_expected("big", INT64_MAX, "big 9223372036854775807");
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                if (!CHECK_INT(pawl_expect_read(wrong[i], resource, &version, &why), PAWL_INVALID))
                        NOTE("\"%s\"", wrong[i]);
                CHECK_HAS(why.text, "Pawl-Expect");
                CHECK_UINT(version, 99);
                CHECK_STR(resource, "");
        }
        CHECK_INT(pawl_expect_read(NULL, resource, &version, NULL), PAWL_INVALID);
        CHECK_INT(pawl_expect_read("r 1", NULL, &version, NULL), PAWL_INVALID);
        CHECK_INT(pawl_expect_read("r 1", resource, NULL, NULL), PAWL_INVALID);
        CHECK_INT(pawl_expect_write("r", UINT64_C(1) << 63, value, sizeof(value)), PAWL_INVALID);
        CHECK_INT(pawl_expect_write("r", 1, value, 3), PAWL_INVALID);
        CHECK_INT(pawl_expect_write("", 1, value, sizeof(value)), PAWL_INVALID);
}
