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
                size_t size = mark_write("a%2Fb", tokens[i], 0, mark);

                CHECK_UINT(size, strlen(mark));
                CHECK_INT(mark_read(mark, size, "a%2Fb", &token, NULL), PAWL_OK);
                CHECK_UINT(token, tokens[i]);
        }
}

TEST(the_mark_of_a_swap_is_read_back_with_its_id)
{
        static const uint64_t ids[] = {1, 0xabc, UINT64_C(1) << 63, UINT64_MAX};
        char mark[MARK_MAX];

        for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
                uint64_t token = 0, swap = 0;
                size_t size = mark_write("a%2Fb", INT64_MAX, ids[i], mark);

                CHECK_INT(mark_read(mark, size, "a%2Fb", &token, &swap), PAWL_OK);
                CHECK_UINT(token, INT64_MAX);
                CHECK_UINT(swap, ids[i]);
                CHECK_INT(mark_read(mark, size, "a%2Fb", &token, NULL), PAWL_OK);
        }
        CHECK_INT(mark_read("pawl-mark 2 name 1 0000000000000000 0", 37, "name", &(uint64_t){0}, NULL), PAWL_CORRUPT);
}

TEST(a_mark_of_another_resource_is_damaged)
{
        char mark[MARK_MAX];
        uint64_t token = 77;
        size_t size = mark_write("one", 5, 0, mark);

        CHECK_INT(mark_read(mark, size, "two", &token, NULL), PAWL_CORRUPT);
        CHECK_INT(mark_read(mark, size, "on", &token, NULL), PAWL_CORRUPT);
        CHECK_INT(mark_read(mark, size, "one 5", &token, NULL), PAWL_CORRUPT);
        CHECK_UINT(token, 77);
}

static void hurt_everywhere(uint64_t swap)
{
        char mark[MARK_MAX];
        uint64_t token = 77;
        size_t size = mark_write("name", 12345, swap, mark);

        for (size_t i = 0; i < size; i++)
                CHECK_INT(mark_read(mark, i, "name", &token, NULL), PAWL_CORRUPT);
        CHECK_INT(mark_read(mark, size + 1, "name", &token, NULL), PAWL_CORRUPT);
        for (size_t i = 0; i < size * 8; i++) {
                mark[i / 8] = (char)(mark[i / 8] ^ 1 << i % 8);
                CHECK(mark_read(mark, size, "name", &token, NULL) != PAWL_OK);
                mark[i / 8] = (char)(mark[i / 8] ^ 1 << i % 8);
        }
        CHECK_UINT(token, 77);
        CHECK_INT(mark_read(mark, size, "name", &token, NULL), PAWL_OK);
}

TEST(every_cut_and_every_flipped_bit_is_found)
{
        hurt_everywhere(0);
        hurt_everywhere(0x0123456789abcdef);
}

TEST(tokens_that_are_none_are_damage)
{
        static const char *const tokens[] = {"0", "9223372036854775808", "18446744073709551617", "-1", "", "x", "05"};
        char mark[MARK_MAX];
        uint64_t token = 77;

        for (size_t i = 0; i < sizeof(tokens) / sizeof(tokens[0]); i++) {
                int size = snprintf(mark, sizeof(mark), "pawl-mark 1 name %s 0123456789abcdef\n", tokens[i]);

                CHECK_INT(mark_read(mark, (size_t)size, "name", &token, NULL), PAWL_CORRUPT);
        }
        CHECK_UINT(token, 77);
}

TEST(a_mark_of_another_version_is_not_damage)
{
        uint64_t token = 77;

        CHECK_INT(mark_read("pawl-mark 3 whatever", 20, "name", &token, NULL), PAWL_OTHER_VERSION);
        CHECK_INT(mark_read("pawl-mark 10 name 1", 19, "name", &token, NULL), PAWL_OTHER_VERSION);
        CHECK_UINT(token, 77);
}
