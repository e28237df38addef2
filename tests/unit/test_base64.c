/* test_base64.c - names in words. */
#include <string.h>

#include "base/base64.h"
#include "tap.h"

static void check_pair(const char *bytes, const char *text)
{
        char out[100], back[100];

        base64_encode(bytes, strlen(bytes), out);
        CHECK_STR(out, text);
        CHECK(strlen(text) < BASE64_SIZE(strlen(bytes)));
        CHECK(base64_decode(text, back, 60));
        CHECK_STR(back, bytes);
}

TEST(the_examples_of_the_RFC_come_out_without_padding)
{
        check_pair("", "");
        check_pair("f", "Zg");
        check_pair("fo", "Zm8");
        check_pair("foo", "Zm9v");
        check_pair("foob", "Zm9vYg");
        check_pair("fooba", "Zm9vYmE");
        check_pair("foobar", "Zm9vYmFy");
        check_pair("\xff\xfe?", "__4_");
}

TEST(every_other_text_is_refused)
{
        static const char *const wrong[] = {"Z", "Zh", "Zm9", "Zg==", "Zm9v Yg", "Zm9v+g", "Zm9vY", "\xc3\xa9"};
        char back[100];

        for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
                if (!CHECK(!base64_decode(wrong[i], back, 60)))
                        NOTE("%s", wrong[i]);
}

TEST(more_than_there_is_room_for_is_refused)
{
        char back[4];

        CHECK(base64_decode("Zm9v", back, 3));
        CHECK(!base64_decode("Zm9vYg", back, 3));
}
