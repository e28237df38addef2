/* fuzz_value.c - a value's file is what value_write makes of a name and some bytes, or it is refused; either way it is only
 * read. */
#include <stdlib.h>
#include <string.h>

#include "engine/local/local.h"
#include "fuzz.h"

/* A whole one comes out again as it is. */
static void check_again(const char *name, const struct pawl_value *value, const char *bytes, size_t size)
{
        char *again = malloc(VALUE_FILE_MAX);
        int64_t until_us;
        uint64_t boot;

        MUST(again != NULL);
        memcpy(&until_us, bytes + 40, sizeof(until_us));
        memcpy(&boot, bytes + 48, sizeof(boot));
        MUST(value_write(name, value, until_us, boot, again) == size && memcmp(again, bytes, size) == 0);
        free(again);
}

static void check(const uint8_t *data, size_t size, const char *name)
{
        char *bytes = malloc(size > 0 ? size : 1); /* of its own, so that a step too far is seen */
        struct pawl_value value = {0};
        int code;

        MUST(bytes != NULL);
        if (size > 0)
                memcpy(bytes, data, size);
        code = value_read(bytes, size, name, 1, 1, &value);
        MUST(size == 0 || memcmp(bytes, data, size) == 0);
        if (code == PAWL_OK) {
                MUST(value.size >= 1 && value.size <= PAWL_VALUE_MAX && value.token > 0 && value.now_us == 1);
                MUST((char *)value.data >= bytes && (char *)value.data + value.size == bytes + size);
                check_again(name, &value, bytes, size);
        } else {
                MUST(code == PAWL_CORRUPT || code == PAWL_OTHER_VERSION || code == PAWL_NOT_FOUND);
                MUST(value.data == NULL);
        }
        free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static char whole[VALUE_FILE_MAX];
        struct pawl_value value = {.size = 1, .token = 7, .stored_us = 1};
        char text[1000] = "x";
        size_t length;

        check(data, size, "a");
        check(data, size, "another name");
        /* And a whole one with the input written over it: the check of so many bytes is not guessed. */
        value.data = text;
        length = value_write("a", &value, 0, 1, whole);
        if (size > 2) {
                size_t at = data[0] % length, count = (size_t)data[1] < length - at ? data[1] : length - at;

                count = count < size - 2 ? count : size - 2;
                memcpy(whole + at, data + 2, count);
        }
        check((const uint8_t *)whole, length, "a");
        return 0;
}
