/* test_name.c - names: what is one, and that its encoding is closed, reversible and never another's. */
#include <stdlib.h>
#include <string.h>

#include "base/name.h"
#include "tap.h"

static int check(const char *name)
{
        size_t length = 12345;
        int code = name_check(name, &length, NULL);

        CHECK_UINT(length, code == PAWL_OK ? strlen(name) : 12345);
        return code;
}

TEST(a_name_is_1_to_255_bytes)
{
        char name[300];

        memset(name, 'x', sizeof(name));
        CHECK_INT(check(""), PAWL_INVALID);
        CHECK_INT(check("x"), PAWL_OK);
        name[255] = 0;
        CHECK_INT(check(name), PAWL_OK);
        name[255] = 'x';
        name[256] = 0;
        CHECK_INT(check(name), PAWL_INVALID);
        CHECK_INT(name_check(NULL, NULL, NULL), PAWL_INVALID);
}

TEST(a_name_is_utf8_without_control_characters)
{
        static const char *const good[] = {"orders/42",
                                           "..",
                                           ".",
                                           "%",
                                           "a b",
                                           "\xc3\xbc",
                                           "\xe2\x82\xac",
                                           "\xf0\x9f\x94\x92",
                                           "\xf4\x8f\xbf\xbf",
                                           "\xee\x80\x80",
                                           "\xed\x9f\xbf",
                                           "\xc2\xa0"};
        static const char *const bad[] = {
                "a\nb",         "\033[m",
                "\x7f",         "\xc2\x80",
                "\xc2\x9f",     "\xff",
                "\xc0\xaf",     "\xc3",
                "a\xe2\x82",    "\xed\xa0\x80",
                "\xed\xbf\xbf", "\xf4\x90\x80\x80",
                "\xe0\x80\xaf", "\xf0\x80\x80\xaf",
                "\x80",         "\xf8\x88\x80\x80\x80",
                "\xc3(",        "a\tb",
        };

        for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
                if (!CHECK_INT(check(good[i]), PAWL_OK))
                        NOTE("good %zu", i);
        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                if (!CHECK_INT(check(bad[i]), PAWL_INVALID))
                        NOTE("bad %zu", i);
}

TEST(the_sentence_says_where_the_name_is_wrong)
{
        struct pawl_why why;
        size_t length;

        name_check("ab\ncd", &length, &why);
        CHECK_HAS(why.text, "control character at byte 3");
        CHECK_NULL(strchr(why.text, '\n'));
        name_check("ab\xff", &length, &why);
        CHECK_HAS(why.text, "not UTF-8 at byte 3");
}

static void check_encoding(const char *name, const char *plain, const char *expected)
{
        char encoded[NAME_ENCODED_MAX + 1];
        char decoded[PAWL_NAME_MAX + 1];
        size_t length;
        size_t size = name_encode(name, strlen(name), plain, encoded);

        CHECK_STR(encoded, expected);
        CHECK_UINT(size, strlen(expected));
        REQUIRE_INT(name_decode(encoded, size, plain, decoded, &length), PAWL_OK);
        CHECK_UINT(length, strlen(name));
        CHECK_STR(decoded, name);
}

TEST(plain_names_stay_and_others_are_percent_encoded)
{
        check_encoding("orders-42_a.b", NULL, "orders-42_a.b");
        check_encoding("orders/42", NULL, "orders%2F42");
        check_encoding("orders/42", "/", "orders/42");
        check_encoding("100%", NULL, "100%25");
        check_encoding("100%", "%", "100%25");
        check_encoding(".", NULL, "%2E");
        check_encoding("..", NULL, "%2E.");
        check_encoding("../../etc/passwd", NULL, "%2E.%2F..%2Fetc%2Fpasswd");
        check_encoding(".hidden", "/", "%2Ehidden");
        check_encoding("\xc3\xbc a", NULL, "%C3%BC%20a");
        check_encoding("a b", " ", "a b");
}

TEST(only_what_name_encode_makes_is_decoded)
{
        static const char *const bad[] = {"",      "%2f", "%",         "%2",     "a%",  "%41", "a/b", ".",
                                          "..",    ".a",  "%00",       "%0A",    "%FF", "%ZZ", "a b", "%2E%2E",
                                          "a%2Eb", "%C3", "%ED%A0%80", "%C2%80", "%-1", "% 1"};
        char name[PAWL_NAME_MAX + 1] = "untouched";
        size_t length = 7;

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
                if (!CHECK_INT(name_decode(bad[i], strlen(bad[i]), NULL, name, &length), PAWL_INVALID))
                        NOTE("%s", bad[i]);
        CHECK_STR(name, "untouched");
        CHECK_UINT(length, 7);
}

TEST(a_name_that_decodes_to_more_than_255_bytes_is_refused)
{
        char encoded[1000];
        char name[PAWL_NAME_MAX + 1];
        size_t length;

        memset(encoded, 'a', sizeof(encoded));
        CHECK_INT(name_decode(encoded, 255, NULL, name, &length), PAWL_OK);
        CHECK_INT(name_decode(encoded, 256, NULL, name, &length), PAWL_INVALID);
        CHECK_INT(name_decode(encoded, sizeof(encoded), NULL, name, &length), PAWL_INVALID);
}

/* ---- properties ------------------------------------------------------------------------------------------------ */

static uint64_t state = 88172645463325252u;

static uint32_t chance(uint32_t below)
{
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        return (uint32_t)(state >> 11) % below;
}

/* Short, of few characters: so that the dangerous ones meet and names nearly collide. */
static void random_name(char *name)
{
        static const char *const pieces[] = {
                ".", "/", "%", "2", "E", "F", "a", "A", "\xc3\xbc", "-", " ", "\xf0\x9f\x94\x92", "5", "\\"};
        uint32_t count = 1 + chance(6);

        *name = 0;
        for (uint32_t i = 0; i < count; i++)
                strcat(name, pieces[chance(sizeof(pieces) / sizeof(pieces[0]))]);
}

struct pair {
        char name[32];
        char encoded[100];
};

static int by_encoding(const void *one, const void *other)
{
        return strcmp(((const struct pair *)one)->encoded, ((const struct pair *)other)->encoded);
}

static void check_injective(const char *plain)
{
        enum { COUNT = 20000 };
        struct pair *pairs = calloc(COUNT, sizeof(*pairs));

        REQUIRE(pairs != NULL);
        for (size_t i = 0; i < COUNT; i++) {
                random_name(pairs[i].name);
                name_encode(pairs[i].name, strlen(pairs[i].name), plain, pairs[i].encoded);
        }
        qsort(pairs, COUNT, sizeof(*pairs), by_encoding);
        for (size_t i = 1; i < COUNT; i++)
                if (strcmp(pairs[i - 1].encoded, pairs[i].encoded) == 0)
                        CHECK_STR(pairs[i - 1].name, pairs[i].name);
        free(pairs);
}

TEST(no_two_names_have_one_encoding)
{
        check_injective(NULL);
        check_injective("/");
        check_injective(" /%\\");
}

TEST(every_encoding_is_of_the_closed_alphabet_and_comes_back)
{
        char name[64];
        char encoded[NAME_ENCODED_MAX + 1];
        char decoded[PAWL_NAME_MAX + 1];
        size_t length;

        for (int i = 0; i < 20000; i++) {
                size_t size;

                random_name(name);
                size = name_encode(name, strlen(name), NULL, encoded);
                REQUIRE(strspn(encoded, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-%") == size);
                REQUIRE(encoded[0] != '.');
                REQUIRE_INT(name_decode(encoded, size, NULL, decoded, &length), PAWL_OK);
                REQUIRE_STR(decoded, name);
        }
}

TEST(the_longest_encoding_fits)
{
        char name[PAWL_NAME_MAX + 1];
        char encoded[NAME_ENCODED_MAX + 1];
        char decoded[PAWL_NAME_MAX + 1];
        size_t length;

        memset(name, '/', PAWL_NAME_MAX);
        name[PAWL_NAME_MAX] = 0;
        CHECK_UINT(name_encode(name, PAWL_NAME_MAX, NULL, encoded), NAME_ENCODED_MAX);
        CHECK_UINT(strlen(encoded), NAME_ENCODED_MAX);
        REQUIRE_INT(name_decode(encoded, NAME_ENCODED_MAX, NULL, decoded, &length), PAWL_OK);
        CHECK_STR(decoded, name);
}
