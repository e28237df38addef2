/* fuzz_name.c - a name is refused, or its encoding is closed and comes back; what decodes encodes to itself. */
#include <string.h>

#include "base/name.h"
#include "fuzz.h"

static const char *const plains[] = {NULL, "", "/", " /%:@", "%"};

static void check_name(const char *name, const char *plain)
{
        char encoded[NAME_ENCODED_MAX + 1];
        char decoded[PAWL_NAME_MAX + 1];
        struct pawl_why why = {0};
        size_t length, size, back;
        int code = name_check(name, &length, &why);

        if (code != PAWL_OK) {
                MUST(code == PAWL_INVALID && why.code == code && why.text[0]);
                return;
        }
        size = name_encode(name, length, plain, encoded);
        MUST(size == strlen(encoded) && size >= length && size <= NAME_ENCODED_MAX && encoded[0] != '.');
        for (const char *c = encoded; *c; c++)
                MUST(((unsigned char)*c > 0x20 && (unsigned char)*c < 0x7f) || (plain && strchr(plain, *c)));
        MUST(name_decode(encoded, size, plain, decoded, &back) == PAWL_OK);
        MUST(back == length && memcmp(decoded, name, length + 1) == 0);
}

static void check_encoded(const char *encoded, size_t size, const char *plain)
{
        char again[NAME_ENCODED_MAX + 1];
        char decoded[PAWL_NAME_MAX + 1];
        size_t length, checked;

        if (name_decode(encoded, size, plain, decoded, &length) != PAWL_OK)
                return;
        MUST(name_check(decoded, &checked, NULL) == PAWL_OK && checked == length);
        MUST(name_encode(decoded, length, plain, again) == size && memcmp(again, encoded, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        char *text = strndup((const char *)data, size);

        MUST(text != NULL);
        for (size_t i = 0; i < sizeof(plains) / sizeof(plains[0]); i++) {
                check_name(text, plains[i]);
                check_encoded((const char *)data, size, plains[i]);
        }
        free(text);
        return 0;
}
