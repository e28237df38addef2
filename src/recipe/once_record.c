/* once_record.c - see once_record.h. */
#include "once_record.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char magic[] = "pawl-once 1 ";

size_t once_record_write(char *room, int32_t status, uint32_t flags, const void *data, size_t size)
{
        size_t head = (size_t)snprintf(room, ONCE_HEAD_MAX, "%s%" PRId32 " %" PRIu32 "\n", magic, status, flags);

        if (size)
                memcpy(room + head, data, size);
        return head + size;
}

/* A number that is written as we write it, and then this byte. NULL: it is not. */
static const char *read_number(const char *text, char end, int64_t least, int64_t most, int64_t *number)
{
        const char *digits = *text == '-' ? text + 1 : text;
        size_t length = strspn(digits, "0123456789");

        if (length == 0 || length > 10 || digits[length] != end || (*digits == '0' && (length > 1 || digits != text)))
                return NULL;
        *number = strtoll(text, NULL, 10);
        return *number >= least && *number <= most ? digits + length + 1 : NULL;
}

bool once_record_read(char *bytes, size_t size, int32_t *status, uint32_t *flags, size_t *data_size)
{
        size_t length = sizeof(magic) - 1;
        int64_t first, second;
        const char *at;

        if (size < length || memcmp(bytes, magic, length) != 0)
                return false;
        at = read_number(bytes + length, ' ', INT32_MIN, INT32_MAX, &first);
        if (at)
                at = read_number(at, '\n', 0, ONCE_FLAGS_MAX, &second);
        if (!at)
                return false;
        *status = (int32_t)first;
        *flags = (uint32_t)second;
        *data_size = size - (size_t)(at - bytes);
        memmove(bytes, at, *data_size + 1);
        return true;
}
