/* fuzz_once_record.c - a result is what once_record_write makes of one, and a number what recipes write; everything else is
 * refused, and stays as it was. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "recipe/once_record.h"
#include "recipe/recipe.h"

static void check_record(const uint8_t *data, size_t size)
{
        char *bytes = malloc(size + 1), *again = malloc(ONCE_HEAD_MAX + size);
        size_t data_size = 0;
        int32_t status = 0;
        uint32_t flags = 0;

        MUST(bytes != NULL && again != NULL);
        memcpy(bytes, data, size);
        bytes[size] = '\0';
        if (once_record_read(bytes, size, &status, &flags, &data_size)) {
                MUST(data_size < size && flags <= ONCE_FLAGS_MAX && bytes[data_size] == '\0');
                MUST(once_record_write(again, status, flags, bytes, data_size) == size);
                MUST(memcmp(again, data, size) == 0);
        } else {
                MUST(memcmp(bytes, data, size) == 0 && data_size == 0);
        }
        free(again);
        free(bytes);
}

static void check_number(const uint8_t *data, size_t size, const char *magic, uint64_t most)
{
        char *text = malloc(size > 0 ? size : 1); /* of its own, so that a step too far is seen */
        char again[64];
        uint64_t number = 0;

        MUST(text != NULL);
        memcpy(text, data, size);
        if (recipe_read_number(text, size, magic, most, &number)) {
                MUST(number <= most);
                MUST((size_t)snprintf(again, sizeof(again), "%s%" PRIu64, magic, number) == size);
                MUST(memcmp(again, data, size) == 0);
        } else {
                MUST(number == 0);
        }
        free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static const uint8_t none[1];

        data = size > 0 ? data : none; /* libFuzzer has no bytes at NULL */
        check_record(data, size);
        check_number(data, size, "", UINT64_MAX);
        check_number(data, size, "pawl-latch 1 ", UINT32_MAX);
        check_number(data, size, "pawl-limit 1 ", INT64_MAX);
        return 0;
}
