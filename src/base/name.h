/* name.h - names of locks: checked once at the door, encoded so that none can escape its key, path or statement. */
#ifndef PAWL_NAME_H
#define PAWL_NAME_H

#include <stddef.h>

#include "why.h"

/* 1 to 255 bytes of UTF-8 without control characters (C0, DEL, C1) and without surrogates. *length without the NUL. */
int name_check(const char *name, size_t *length, struct pawl_why *why);

/* The same for most names, which are short and printable ASCII: the length, or 0, and name_check has the last word. */
static inline size_t name_plain(const char *name)
{
        size_t length = 0;

        if (!name)
                return 0;
        while ((unsigned char)(name[length] - 0x20) < 0x5f) {
                if (++length > PAWL_NAME_MAX)
                        return 0;
        }
        return name[length] == '\0' ? length : 0;
}

enum { NAME_ENCODED_MAX = 3 * PAWL_NAME_MAX };
/* Percent-encodes all but [A-Za-z0-9._-] and the bytes in plain (NULL: none; never '%'); a name that is "." or "..", or
 * begins with '.', has its first byte encoded. Injective. Returns the length; out holds NAME_ENCODED_MAX + 1. */
size_t name_encode(const char *name, size_t length, const char *plain, char *out);
/* The way back: PAWL_INVALID if it is not something name_encode made of a valid name. */
int name_decode(const char *encoded, size_t length, const char *plain, char *name, size_t *name_length);

#endif
