/* test_mark.c - a mark says what was written, or that it is damaged; never anything else. */
#include <pawl.h>
#include <stdio.h>
#include <string.h>

#include "guard/mark.h"
#include "tap.h"

TEST(a_mark_is_read_back)
{
        static const uint64_t tokens[] = {1, 2, 9, 10, 4711, UINT64_C(1) << 53, INT64_MAX - 1, INT64_MAX};
        char mark[MARK_MAX];

        for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
                uint64_t token = 0;
                size_t size = mark_write("a%2Fb", tokens[i], mark);

                CHECK_UINT(size, strlen(mark));
                CHECK_INT(mark_read(mark, size, "a%2Fb", &token), PAWL_OK);
                CHECK_UINT(token, tokens[i]);
        }
}

TEST(a_mark_of_another_resource_is_damaged)
{
        char mark[MARK_MAX];
        uint64_t token = 77;
        size_t size = mark_write("one", 5, mark);

        CHECK_INT(mark_read(mark, size, "two", &token), PAWL_CORRUPT);
        CHECK_INT(mark_read(mark, size, "on", &token), PAWL_CORRUPT);
        CHECK_INT(mark_read(mark, size, "one 5", &token), PAWL_CORRUPT);
        CHECK_UINT(token, 77);
}

TEST(every_cut_and_every_flipped_bit_is_found)
{
        char mark[MARK_MAX];
        uint64_t token = 77;
        size_t size = mark_write("name", 12345, mark);

        for (size_t i = 0; i < size; i++)
                CHECK_INT(mark_read(mark, i, "name", &token), PAWL_CORRUPT);
        CHECK_INT(mark_read(mark, size + 1, "name", &token), PAWL_CORRUPT);
        for (size_t i = 0; i < size * 8; i++) {
                mark[i / 8] = (char)(mark[i / 8] ^ 1 << i % 8);
                CHECK(mark_read(mark, size, "name", &token) != PAWL_OK);
                mark[i / 8] = (char)(mark[i / 8] ^ 1 << i % 8);
        }
        CHECK_UINT(token, 77);
        CHECK_INT(mark_read(mark, size, "name", &token), PAWL_OK);
}

TEST(tokens_that_are_none_are_damage)
{
        static const char *const tokens[] = {"0", "9223372036854775808", "18446744073709551617", "-1", "", "x", "05"};
        char mark[MARK_MAX];
        uint64_t token = 77;

        for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
                int size = snprintf(mark, sizeof(mark), "pawl-mark 1 name %s 0123456789abcdef\n", tokens[i]);

                CHECK_INT(mark_read(mark, (size_t)size, "name", &token), PAWL_CORRUPT);
        }
        CHECK_UINT(token, 77);
}

TEST(a_mark_of_another_version_is_not_damage)
{
        uint64_t token = 77;

        CHECK_INT(mark_read("pawl-mark 2 whatever", 20, "name", &token), PAWL_OTHER_VERSION);
        CHECK_INT(mark_read("pawl-mark 10 name 1", 19, "name", &token), PAWL_OTHER_VERSION);
        CHECK_UINT(token, 77);
}
