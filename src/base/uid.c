/* uid.c - see uid.h. */
#include "uid.h"

static char *put_hex(char *at, uint64_t number)
{
        static const char digits[] = "0123456789abcdef";

        for (int shift = 60; shift >= 0; shift -= 4)
                *at++ = digits[number >> shift & 15];
        return at;
}

char *uid_put(char *at, const uint64_t uid[2])
{
        return put_hex(put_hex(at, uid[0]), uid[1]);
}

void uid_text(const uint64_t uid[2], char text[33])
{
        *uid_put(text, uid) = '\0';
}

static bool read_hex(const char *text, uint64_t *number)
{
        *number = 0;
        for (int i = 0; i < 16; i++) {
                char c = text[i];

                if (c >= '0' && c <= '9')
                        *number = *number << 4 | (uint64_t)(c - '0');
                else if (c >= 'a' && c <= 'f')
                        *number = *number << 4 | (uint64_t)(c - 'a' + 10);
                else
                        return false;
        }
        return true;
}

bool uid_read(const char *text, uint64_t uid[2])
{
        return read_hex(text, &uid[0]) && read_hex(text + 16, &uid[1]);
}
