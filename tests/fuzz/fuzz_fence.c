/* fuzz_fence.c - a header is refused with a sentence, or it names a resource and a token that can be written and read
 * again; and what is written for any name comes back. */
#include <pawl/guard.h>
#include <string.h>

#include "base/name.h"
#include "fuzz.h"

static void check_value(const char *text)
{
        char name[PAWL_NAME_MAX + 1], again[PAWL_NAME_MAX + 1];
        char value[PAWL_FENCE_MAX + 1];
        struct pawl_why why = {0};
        uint64_t token = 0, token_again = 0;
        size_t length;
        int code = pawl_fence_read(text, name, &token, &why);

        if (code != PAWL_OK) {
                MUST(code == PAWL_INVALID && why.code == code && why.text[0] && token == 0);
                return;
        }
        MUST(name_check(name, &length, NULL) == PAWL_OK && token > 0 && token <= INT64_MAX);
        MUST(strpbrk(text, "\r\n,;") == NULL);
        MUST(pawl_fence_write(name, token, value, sizeof(value)) == PAWL_OK);
        MUST(pawl_fence_read(value, again, &token_again, NULL) == PAWL_OK);
        MUST(strcmp(again, name) == 0 && token_again == token);
}

/* The same for versions; and what is a token is a version too. */
static void check_version(const char *text)
{
        char name[PAWL_NAME_MAX + 1], again[PAWL_NAME_MAX + 1];
        char value[PAWL_FENCE_MAX + 1];
        struct pawl_why why = {0};
        uint64_t version = 0, version_again = 0;
        int code = pawl_expect_read(text, name, &version, &why);

        if (code != PAWL_OK) {
                MUST(code == PAWL_INVALID && why.code == code && why.text[0] && version == 0);
                MUST(pawl_fence_read(text, again, &version_again, NULL) == PAWL_INVALID);
                return;
        }
        MUST(version <= INT64_MAX && strpbrk(text, "\r\n,;") == NULL);
        MUST(pawl_expect_write(name, version, value, sizeof(value)) == PAWL_OK);
        MUST(pawl_expect_read(value, again, &version_again, NULL) == PAWL_OK);
        MUST(strcmp(again, name) == 0 && version_again == version);
}

static void check_name(const char *name, uint64_t token)
{
        char value[PAWL_FENCE_MAX + 1];
        char again[PAWL_NAME_MAX + 1];
        uint64_t token_again = 0;

        if (pawl_fence_write(name, token, value, sizeof(value)) != PAWL_OK)
                return;
        for (const char *c = value; *c; c++)
                MUST((unsigned char)*c >= 0x20 && (unsigned char)*c < 0x7f && *c != ',');
        MUST(pawl_fence_read(value, again, &token_again, NULL) == PAWL_OK);
        MUST(strcmp(again, name) == 0 && token_again == token);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = strndup((const char *)data, size);

        MUST(text != NULL);
        check_value(text);
        check_version(text);
        check_name(text, size + 1);
        free(text);
        return 0;
}
