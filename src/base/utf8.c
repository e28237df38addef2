/* utf8.c - decodes one character, strictly (Unicode 15, table 3-7). */
#include "utf8.h"

/* By the number of bytes: the least character that needs so many. */
static const uint32_t least[5] = {0, 0, 0x80, 0x800, 0x10000};

static size_t length_by_first(unsigned char first)
{
        if (first < 0x80)
                return 1;
        if (first >= 0xc2 && first <= 0xdf)
                return 2;
        if (first >= 0xe0 && first <= 0xef)
                return 3;
        if (first >= 0xf0 && first <= 0xf4)
                return 4;
        return 0;
}

size_t utf8_next(const char *text, size_t size, uint32_t *character)
{
        const unsigned char *bytes = (const unsigned char *)text;
        size_t length = length_by_first(bytes[0]);
        uint32_t value;

        if (length == 0 || length > size)
                return 0;
        value = length == 1 ? bytes[0] : bytes[0] & (0x7fu >> length);
        for (size_t i = 1; i < length; i++) {
                if ((bytes[i] & 0xc0) != 0x80)
                        return 0;
                value = value << 6 | (bytes[i] & 0x3f);
        }
        if (value < least[length] || value > 0x10ffff || (value >= 0xd800 && value <= 0xdfff))
                return 0;
        *character = value;
        return length;
}
