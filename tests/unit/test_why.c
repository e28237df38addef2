/* test_why.c - sentences, and the text of codes. */
#include <errno.h>
#include <string.h>

#include "base/why.h"
#include "tap.h"

TEST(a_sentence_comes_with_its_code)
{
        struct pawl_why why = {.sys_errno = 7};

        CHECK_INT(why_set(&why, PAWL_INVALID, "%d is not %s", 3, "four"), PAWL_INVALID);
        CHECK_INT(why.code, PAWL_INVALID);
        CHECK_INT(why.sys_errno, 0);
        CHECK_STR(why.text, "3 is not four");
}

TEST(nobody_needs_to_want_the_sentence)
{
        CHECK_INT(why_set(NULL, PAWL_BUSY, "%s", "unheard"), PAWL_BUSY);
        CHECK_INT(why_system(NULL, ENOSPC, "unheard"), PAWL_FULL);
}

TEST(a_terminal_is_never_driven_by_a_sentence)
{
        struct pawl_why why;

        why_set(&why, PAWL_INVALID, "%s", "a\033[2Jb\x7f\nc\xc2\x9bm\xff");
        CHECK_STR(why.text, "a\\x1b[2Jb\\x7f\\x0ac\\xc2\\x9bm\\xff");
        why_set(&why, PAWL_INVALID, "%s", "Schl\xc3\xbcssel \xe2\x82\xac \xf0\x9f\x94\x92");
        CHECK_STR(why.text, "Schl\xc3\xbcssel \xe2\x82\xac \xf0\x9f\x94\x92");
}

TEST(a_long_sentence_is_cut_between_characters)
{
        struct pawl_why why;
        char text[1000];

        for (size_t i = 0; i + 3 <= sizeof(text); i += 2)
                memcpy(text + i, "\xc3\xbc", 3);
        why_set(&why, PAWL_INVALID, "x%s", text);
        CHECK(strlen(why.text) < sizeof(why.text));
        CHECK(strlen(why.text) > sizeof(why.text) - 8);
        CHECK_INT(strlen(why.text) % 2, 1);
        memset(text, '\n', sizeof(text) - 1);
        text[sizeof(text) - 1] = 0;
        why_set(&why, PAWL_INVALID, "%s", text);
        CHECK(strlen(why.text) < sizeof(why.text));
        CHECK_INT(strlen(why.text) % 4, 0);
}

TEST(a_failed_system_call_is_mapped_and_named)
{
        static const struct {
                int error;
                int code;
        } rows[] = {
                {EACCES, PAWL_DENIED}, {EPERM, PAWL_DENIED}, {ENOMEM, PAWL_NO_MEMORY}, {ENOSPC, PAWL_FULL},
                {EDQUOT, PAWL_FULL},   {EIO, PAWL_SYSTEM},   {ENOENT, PAWL_SYSTEM},
        };
        struct pawl_why why;

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                CHECK_INT(why_system(&why, rows[i].error, "cannot open %s", "x"), rows[i].code);
                CHECK_INT(why.code, rows[i].code);
                CHECK_INT(why.sys_errno, rows[i].error);
                CHECK_HAS(why.text, "cannot open x: ");
                CHECK_HAS(why.text, strerror(rows[i].error));
        }
}

TEST(every_code_has_a_text_and_a_name)
{
#define CHECK_ONE(name, number, text)                                                                                  \
        CHECK_STR(pawl_strerror(number), text);                                                                        \
        CHECK_STR(pawl_error_name(number), "PAWL_" #name);
        PAWL_ERRORS(CHECK_ONE)
        CHECK_STR(pawl_strerror(-1), "unknown error");
        CHECK_STR(pawl_strerror(9999), "unknown error");
        CHECK(pawl_error_name(9999) != NULL);
        for (int i = -1; i < 10; i++) {
                CHECK(pawl_reason_text(i) != NULL);
                CHECK(pawl_how_text(i) != NULL);
        }
}
