/* test_options.c - options of other versions. */
#include <pawl.h>
#include <string.h>

#include "base/options.h"
#include "tap.h"

struct known {
        uint32_t size;
        uint32_t a;
        uint64_t b;
};

struct newer {
        struct known known;
        uint64_t c;
};

TEST(no_options_are_the_defaults)
{
        struct known mine = {1, 2, 3};

        CHECK_INT(options_read(&mine, sizeof(mine), NULL), PAWL_OK);
        CHECK_UINT(mine.a + mine.b, 0);
}

TEST(an_older_caller_gets_the_defaults_for_what_it_does_not_know)
{
        struct known mine = {1, 2, 3};
        const struct known older = {.size = offsetof(struct known, b), .a = 5, .b = 7};

        CHECK_INT(options_read(&mine, sizeof(mine), &older), PAWL_OK);
        CHECK_UINT(mine.a, 5);
        CHECK_UINT(mine.b, 0);
}

TEST(a_newer_caller_may_ask_for_nothing_new)
{
        struct known mine;
        struct newer newer = {.known = {.size = sizeof(newer), .a = 5, .b = 7}};

        CHECK_INT(options_read(&mine, sizeof(mine), &newer), PAWL_OK);
        CHECK_UINT(mine.b, 7);
        newer.c = 1;
        CHECK_INT(options_read(&mine, sizeof(mine), &newer), PAWL_UNSUPPORTED);
        CHECK_UINT(mine.b, 7);
}

TEST(a_size_that_was_forgotten_is_found)
{
        struct known mine = {1, 2, 3};
        struct known theirs = {.size = 0, .a = 5};

        CHECK_INT(options_read(&mine, sizeof(mine), &theirs), PAWL_INVALID);
        CHECK_UINT(mine.a, 0);
        theirs.size = 3;
        CHECK_INT(options_read(&mine, sizeof(mine), &theirs), PAWL_INVALID);
        theirs.size = UINT32_MAX;
        CHECK_INT(options_read(&mine, sizeof(mine), &theirs), PAWL_INVALID);
}
