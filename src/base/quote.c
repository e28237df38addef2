/* quote.c - see quote.h. */
#include "quote.h"

#include <stdio.h>
#include <string.h>

void quote_for_shell(const char *text, char *room, size_t size)
{
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+=:,@%";
        static const char apostrophe[] = "'\\''"; /* ends the quote, stands alone, begins it again */
        size_t at = 0;

        if (*text && text[strspn(text, plain)] == '\0') {
                snprintf(room, size, "%s", text);
                return;
        }
        room[at++] = '\'';
        for (; *text && at + sizeof(apostrophe) + 1 < size; text++) {
                if (*text == '\'') {
                        memcpy(room + at, apostrophe, sizeof(apostrophe) - 1);
                        at += sizeof(apostrophe) - 1;
                } else {
                        room[at++] = *text;
                }
        }
        room[at++] = '\'';
        room[at] = '\0';
}
