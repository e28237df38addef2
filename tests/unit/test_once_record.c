/* test_once_record.c - what is kept by pawl_once is read as it was written, and nothing else is read at all. */
#include <stdio.h>
#include <string.h>

#include "recipe/once_record.h"
#include "recipe/recipe.h"
#include "tap.h"

struct read {
        char bytes[256];
        size_t size;
        int32_t status;
        uint32_t flags;
};

static bool reads(struct read *read, const char *text, size_t size)
{
        memcpy(read->bytes, text, size);
        read->bytes[size] = '\0';
        return once_record_read(read->bytes, size, &read->status, &read->flags, &read->size);
}

TEST(a_result_is_read_back)
{
        static const int32_t statuses[] = {0, 1, -1, 42, INT32_MAX, INT32_MIN};
        static const uint32_t flags[] = {0, 1, ONCE_FLAGS_MAX};
        static const char data[] = "\0 bytes\nof any kind";
        char room[ONCE_HEAD_MAX + sizeof(data)];
        struct read read;

        for (size_t i = 0; i < 6 * 3; i++)
                for (size_t size = 0; size <= sizeof(data); size++) {
                        size_t length = once_record_write(room, statuses[i % 6], flags[i / 6], data, size);

                        CHECK(reads(&read, room, length));
                        CHECK_INT(read.status, statuses[i % 6]);
                        CHECK_UINT(read.flags, flags[i / 6]);
                        CHECK_UINT(read.size, size);
                        CHECK(memcmp(read.bytes, data, size) == 0 && read.bytes[size] == '\0');
                }
}

TEST(a_head_that_is_cut_is_none)
{
        char room[ONCE_HEAD_MAX];
        struct read read;
        size_t length = once_record_write(room, -12, 34, NULL, 0);

        for (size_t size = 0; size < length; size++)
                CHECK(!reads(&read, room, size));
        CHECK(reads(&read, room, length));
}

TEST(what_is_not_written_like_that_is_none_and_stays_as_it_was)
{
        static const char *const heads[] = {
                "",
                "pawl-once 2 0 0\n",
                "Pawl-once 1 0 0\n",
                "pawl-once 1  0 0\n",
                "pawl-once 1 0  0\n",
                "pawl-once 1 +1 0\n",
                "pawl-once 1 -0 0\n",
                "pawl-once 1 00 0\n",
                "pawl-once 1 01 0\n",
                "pawl-once 1 - 0\n",
                "pawl-once 1 0 -1\n",
                "pawl-once 1 0 65536\n",
                "pawl-once 1 2147483648 0\n",
                "pawl-once 1 -2147483649 0\n",
                "pawl-once 1 99999999999999999999 0\n",
                "pawl-once 1 0 0",
                "pawl-once 1 0 0 \n",
                "pawl-once 1 0x1 0\n",
        };
        struct read read;

        for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++)
                if (!CHECK(!reads(&read, heads[i], strlen(heads[i]))) || !CHECK_STR(read.bytes, heads[i]))
                        NOTE("\"%s\"", heads[i]);
}

/* ---- the numbers of the others ------------------------------------------------------------------------------------ */

TEST(a_number_is_read_back)
{
        static const uint64_t numbers[] = {0, 1, 9, 10, 4711, UINT32_MAX, INT64_MAX, UINT64_MAX};
        char text[64];

        for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++) {
                int size = snprintf(text, sizeof(text), "magic 1 %llu", (unsigned long long)numbers[i]);
                uint64_t number = 77;

                CHECK(recipe_read_number(text, (size_t)size, "magic 1 ", UINT64_MAX, &number));
                CHECK_UINT(number, numbers[i]);
                CHECK(recipe_read_number(text, (size_t)size, "magic 1 ", numbers[i], &number));
                if (numbers[i] > 0)
                        CHECK(!recipe_read_number(text, (size_t)size, "magic 1 ", numbers[i] - 1, &number));
        }
}

TEST(what_is_not_a_number_is_not_read)
{
        static const char *const texts[] = {"",
                                            "m",
                                            "m ",
                                            "m  5",
                                            "m +5",
                                            "m -5",
                                            "m 05",
                                            "m 00",
                                            "m 5 ",
                                            "m 5\n",
                                            "m 5x",
                                            "m 0x5",
                                            "m 1.5",
                                            "m 18446744073709551616",
                                            "m 99999999999999999999999",
                                            "n 5",
                                            "m5",
                                            "m 5\xff"};
        uint64_t number = 77;

        for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
                if (!CHECK(!recipe_read_number(texts[i], strlen(texts[i]), "m ", UINT64_MAX, &number)))
                        NOTE("\"%s\"", texts[i]);
        CHECK(!recipe_read_number("m 5\0", 4, "m ", UINT64_MAX, &number));
        CHECK_UINT(number, 77);
}
