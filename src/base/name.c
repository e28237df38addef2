/* name.c - names checked and encoded. */
#include "name.h"

#include <stdbool.h>
#include <string.h>

#include "utf8.h"

int name_check(const char *name, size_t *length, struct pawl_why *why)
{
        size_t size;
        uint32_t character;

        if (!name)
                return why_set(why, PAWL_INVALID, "there is no name: it is NULL");
        size = strnlen(name, PAWL_NAME_MAX + 1);
        if (size == 0)
                return why_set(why, PAWL_INVALID, "the name is empty: it must have 1 to %d bytes", PAWL_NAME_MAX);
        if (size > PAWL_NAME_MAX)
                return why_set(why, PAWL_INVALID, "the name is longer than %d bytes", PAWL_NAME_MAX);
        for (size_t i = 0, taken; i < size; i += taken) {
                taken = utf8_next(name + i, size - i, &character);
                if (taken == 0)
                        return why_set(why, PAWL_INVALID, "the name \"%s\" is not UTF-8 at byte %zu", name, i + 1);
                if (utf8_is_control(character))
                        return why_set(why, PAWL_INVALID, "the name \"%s\" has a control character at byte %zu", name,
                                       i + 1);
        }
        *length = size;
        return PAWL_OK;
}

static bool is_plain(char c, const char *plain)
{
        if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'))
                return true;
        if (c == '.' || c == '_' || c == '-')
                return true;
        return plain && c != '%' && c != 0 && strchr(plain, c);
}

size_t name_encode(const char *name, size_t length, const char *plain, char *out)
{
        static const char hex[] = "0123456789ABCDEF";
        char *end = out;

        for (size_t i = 0; i < length; i++) {
                unsigned char byte = (unsigned char)name[i];

                if (is_plain(name[i], plain) && !(i == 0 && byte == '.')) {
                        *end++ = name[i];
                        continue;
                }
                *end++ = '%';
                *end++ = hex[byte >> 4];
                *end++ = hex[byte & 15];
        }
        *end = 0;
        return (size_t)(end - out);
}

static int hex_value(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

/* The bytes, without asking whether they had to be encoded. False: not hexadecimal, or too long. */
static bool decode_bytes(const char *encoded, size_t length, char *name, size_t *name_length)
{
        size_t used = 0;

        for (size_t i = 0; i < length; i++) {
                if (used == PAWL_NAME_MAX)
                        return false;
                if (encoded[i] != '%') {
                        name[used++] = encoded[i];
                        continue;
                }
                if (length - i < 3 || hex_value(encoded[i + 1]) < 0 || hex_value(encoded[i + 2]) < 0)
                        return false;
                name[used++] = (char)(hex_value(encoded[i + 1]) << 4 | hex_value(encoded[i + 2]));
                i += 2;
        }
        name[used] = 0;
        *name_length = used;
        return true;
}

int name_decode(const char *encoded, size_t length, const char *plain, char *name, size_t *name_length)
{
        char decoded[PAWL_NAME_MAX + 1];
        char again[NAME_ENCODED_MAX + 1];
        size_t size;
        size_t checked;

        if (!decode_bytes(encoded, length, decoded, &size))
                return PAWL_INVALID;
        if (name_check(decoded, &checked, NULL) != PAWL_OK || checked != size)
                return PAWL_INVALID;
        /* One name, one encoding: what we would write differently was not written by us. */
        if (name_encode(decoded, size, plain, again) != length || memcmp(again, encoded, length) != 0)
                return PAWL_INVALID;
        memcpy(name, decoded, size + 1);
        *name_length = size;
        return PAWL_OK;
}
