/* test_sha256.c - the digests that FIPS 180-4 and others have published. */
#include <stdio.h>
#include <string.h>

#include "base/sha256.h"
#include "tap.h"

static void check_digest(const char *data, size_t size, const char *wanted)
{
        unsigned char digest[SHA256_SIZE];
        char text[2 * SHA256_SIZE + 1];

        sha256(data, size, digest);
        for (int i = 0; i < SHA256_SIZE; i++)
                snprintf(text + 2 * i, 3, "%02x", digest[i]);
        CHECK_STR(text, wanted);
}

TEST(the_published_digests_come_out)
{
        static char million[1000000];
        static const char long_one[] = "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmn"
                                       "hijklmnoijklmnopjklmnopqklmnopqrlmnopqrsmnopqrstnopqrstu";

        memset(million, 'a', sizeof(million));
        check_digest(NULL, 0, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        check_digest("abc", 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        check_digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 56,
                     "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
        check_digest(long_one, sizeof(long_one) - 1,
                     "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
        check_digest(million, sizeof(million), "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}
