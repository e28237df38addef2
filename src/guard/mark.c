/* mark.c - "pawl-mark 1 NAME TOKEN CHECK": the name, so that a mark copied to another resource is found out; the
 * check, so that a damaged one is. "pawl-mark 2 NAME TOKEN SWAP CHECK" is the version that a swap has made, with its id. */
#include "mark.h"

#include <inttypes.h>
#include <pawl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MAGIC "pawl-mark "
#define VERSION_OF_TOKEN "1 "
#define VERSION_OF_SWAP "2 "

/* FNV-1a: against accidents, not against people; who can write the mark can write the data. */
static uint64_t check_of(const char *text, size_t size)
{
        uint64_t hash = UINT64_C(14695981039346656037);

        for (size_t i = 0; i < size; i++)
                hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
        return hash;
}

size_t mark_write(const char *name, uint64_t token, uint64_t swap, char mark[MARK_MAX])
{
        int size =
                snprintf(mark, MARK_MAX, MAGIC "%s%s %" PRIu64, swap ? VERSION_OF_SWAP : VERSION_OF_TOKEN, name, token);

        if (swap)
                size += snprintf(mark + size, MARK_MAX - (size_t)size, " %016" PRIx64, swap);
        size += snprintf(mark + size, MARK_MAX - (size_t)size, " %016" PRIx64 "\n", check_of(mark, (size_t)size));
        return (size_t)size;
}

/* The number at the front of text; 0 if there is none or it is too great for a token. */
static uint64_t read_token(const char *text, size_t size)
{
        uint64_t token = 0;

        for (size_t i = 0; i < size && text[i] >= '0' && text[i] <= '9'; i++) {
                if (token > INT64_MAX / 10)
                        return 0;
                token = token * 10 + (uint64_t)(text[i] - '0');
        }
        return token <= INT64_MAX ? token : 0;
}

/* The id of 16 hexadecimal digits behind the token at the front of text; 0 if there is none. */
static uint64_t read_swap(const char *text, size_t size)
{
        static const char digits[] = "0123456789abcdef";
        const char *blank = memchr(text, ' ', size);
        uint64_t swap = 0;

        if (!blank || size - (size_t)(blank - text) <= 16)
                return 0;
        for (int i = 1; i <= 16; i++) {
                const char *digit = memchr(digits, blank[i], 16);

                if (!digit)
                        return 0;
                swap = swap << 4 | (uint64_t)(digit - digits);
        }
        return swap;
}

int mark_read(const char *mark, size_t size, const char *name, uint64_t *token, uint64_t *swap)
{
        const size_t magic = strlen(MAGIC);
        const size_t head = magic + strlen(VERSION_OF_TOKEN) + strlen(name) + 1;
        char expected[MARK_MAX];
        uint64_t found, made;
        bool swapped;

        if (size <= magic + 1 || memcmp(mark, MAGIC, magic) != 0)
                return PAWL_CORRUPT;
        swapped = memcmp(mark + magic, VERSION_OF_SWAP, 2) == 0;
        if (!swapped && memcmp(mark + magic, VERSION_OF_TOKEN, 2) != 0)
                return PAWL_OTHER_VERSION;
        if (size <= head)
                return PAWL_CORRUPT;
        found = read_token(mark + head, size - head);
        made = swapped ? read_swap(mark + head, size - head) : 0;
        if (found == 0 || (swapped && made == 0))
                return PAWL_CORRUPT;
        if (mark_write(name, found, made, expected) != size || memcmp(mark, expected, size) != 0)
                return PAWL_CORRUPT;
        *token = found;
        if (swap)
                *swap = made;
        return PAWL_OK;
}
