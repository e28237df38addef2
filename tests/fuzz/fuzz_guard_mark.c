/* fuzz_guard_mark.c - a mark is what mark_write makes for its name, or it is refused and no token is told. */
#include <pawl.h>
#include <string.h>

#include "fuzz.h"
#include "guard/mark.h"

static void check(const char *mark, size_t size, const char *name)
{
        char again[MARK_MAX];
        uint64_t token = 0, swap = 0;
        int code = mark_read(mark, size, name, &token, &swap);

        if (code != PAWL_OK) {
                MUST((code == PAWL_CORRUPT || code == PAWL_OTHER_VERSION) && token == 0 && swap == 0);
                return;
        }
        MUST(token > 0 && token <= INT64_MAX);
        MUST(mark_write(name, token, swap, again) == size && memcmp(again, mark, size) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *mark = (const char *)data;
        char name[201] = "";

        check(mark, size, "r");
        check(mark, size, "a%2Fb");
        /* And for the name it gives itself. */
        if (size > 12) {
                const char *end = memchr(mark + 12, ' ', size - 12);
                size_t length = end ? (size_t)(end - mark) - 12 : 0;

                if (length > 0 && length < sizeof(name) && !memchr(mark + 12, 0, length)) {
                        memcpy(name, mark + 12, length);
                        check(mark, size, name);
                }
        }
        return 0;
}
