/* utf8.h - one character at a time: what a name may hold and what a terminal may be shown. */
#ifndef PAWL_UTF8_H
#define PAWL_UTF8_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many bytes (1 to 4) the character at the front of text takes, and which it is. 0 if it is not one: cut short,
 * longer than need be, a surrogate, or beyond U+10FFFF. size > 0. */
size_t utf8_next(const char *text, size_t size, uint32_t *character);

/* C0, DEL, C1: what a terminal obeys. */
static inline bool utf8_is_control(uint32_t character)
{
        return character < 0x20 || (character >= 0x7f && character < 0xa0);
}

#endif
