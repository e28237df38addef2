/* base64.c - see base64.h. */
#include "base64.h"

#include <stdint.h>
#include <string.h>

static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

void base64_encode(const char *bytes, size_t length, char *text)
{
        const unsigned char *at = (const unsigned char *)bytes;
        uint32_t bits = 0;
        int count = 0;

        for (size_t i = 0; i < length; i++) {
                bits = bits << 8 | at[i];
                for (count += 8; count >= 6; count -= 6)
                        *text++ = letters[bits >> (count - 6) & 63];
        }
        if (count)
                *text++ = letters[bits << (6 - count) & 63];
        *text = '\0';
}

/* What is left over must be nothing: else two texts would be one name. */
bool base64_decode(const char *text, char *bytes, size_t max)
{
        uint32_t bits = 0;
        size_t length = 0;
        int count = 0;

        for (; *text; text++) {
                const char *letter = strchr(letters, *text);

                if (!letter)
                        return false;
                bits = (bits << 6 | (uint32_t)(letter - letters)) & 0xffff;
                count += 6;
                if (count < 8)
                        continue;
                if (length == max)
                        return false;
                count -= 8;
                bytes[length++] = (char)(bits >> count & 255);
        }
        bytes[length] = '\0';
        return count < 6 && (bits & ((1U << count) - 1)) == 0;
}
