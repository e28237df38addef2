/* mark.c - "pawl-mark 1 NAME TOKEN CHECK": the name, so that a mark copied to another resource is found out; the
 * check, so that a damaged one is. */
#include "mark.h"

#include <inttypes.h>
#include <pawl.h>
#include <stdio.h>
#include <string.h>

#define MAGIC "pawl-mark "
#define VERSION "1 "

/* FNV-1a: against accidents, not against people; who can write the mark can write the data. */
static uint64_t check_of(const char *text, size_t size)
{
        uint64_t hash = UINT64_C(14695981039346656037);

        for (size_t i = 0; i < size; i++)
                hash = (hash ^ (unsigned char)text[i]) * UINT64_C(1099511628211);
        return hash;
}

size_t mark_write(const char *name, uint64_t token, char mark[MARK_MAX])
{
        int size = snprintf(mark, MARK_MAX, MAGIC VERSION "%s %" PRIu64, name, token);

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

int mark_read(const char *mark, size_t size, const char *name, uint64_t *token)
{
        const size_t magic = strlen(MAGIC);
        const size_t head = magic + strlen(VERSION) + strlen(name) + 1;
        char expected[MARK_MAX];
        uint64_t found;

        if (size <= magic || memcmp(mark, MAGIC, magic) != 0)
                return PAWL_CORRUPT;
        if (size >= magic + strlen(VERSION) && memcmp(mark + magic, VERSION, strlen(VERSION)) != 0)
                return PAWL_OTHER_VERSION;
        if (size <= head)
                return PAWL_CORRUPT;
        found = read_token(mark + head, size - head);
        if (found == 0)
                return PAWL_CORRUPT;
        if (mark_write(name, found, expected) != size || memcmp(mark, expected, size) != 0)
                return PAWL_CORRUPT;
        *token = found;
        return PAWL_OK;
}
