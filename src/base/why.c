/* why.c - writes the sentence. What goes into it may come from anywhere, so nothing in it may drive a terminal. */
#include "why.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "utf8.h"

/* Appends one character of text as it is, or its first byte as \xNN. How much of text it took; 0: no room. */
static size_t append(char *out, size_t room, size_t *used, const char *text, size_t size)
{
        uint32_t character;
        size_t length = utf8_next(text, size, &character);

        if (length > 0 && !utf8_is_control(character)) {
                if (*used + length >= room)
                        return 0;
                memcpy(out + *used, text, length);
                *used += length;
                return length;
        }
        if (*used + 4 >= room)
                return 0;
        snprintf(out + *used, 5, "\\x%02x", (unsigned)(unsigned char)*text);
        *used += 4;
        return 1;
}

static void set_text(struct pawl_why *why, const char *text)
{
        size_t size = strlen(text);
        size_t used = 0;

        for (size_t i = 0; i < size;) {
                size_t taken = append(why->text, sizeof(why->text), &used, text + i, size - i);

                if (taken == 0)
                        break;
                i += taken;
        }
        why->text[used] = 0;
}

int why_set(struct pawl_why *why, int code, const char *format, ...)
{
        char text[sizeof(why->text)];
        va_list args;

        if (!why)
                return code;
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        why->code = code;
        why->sys_errno = 0;
        set_text(why, text);
        return code;
}

static int code_of(int error)
{
        switch (error) {
        case EACCES:
        case EPERM:
                return PAWL_DENIED;
        case ENOMEM:
                return PAWL_NO_MEMORY;
        case ENOSPC:
        case EDQUOT:
                return PAWL_FULL;
        default:
                return PAWL_SYSTEM;
        }
}

const char *why_errno(int error, char *buffer, size_t size)
{
#ifdef __GLIBC__
        return strerror_r(error, buffer, size); /* a text of its own, perhaps */
#else
        if (strerror_r(error, buffer, size) != 0)
                snprintf(buffer, size, "error %d", error);
        return buffer;
#endif
}

int why_system(struct pawl_why *why, int error, const char *format, ...)
{
        char text[sizeof(why->text)];
        char reason[128];
        va_list args;

        if (!why)
                return code_of(error);
        va_start(args, format);
        vsnprintf(text, sizeof(text), format, args);
        va_end(args);
        why_set(why, code_of(error), "%s: %s", text, why_errno(error, reason, sizeof(reason)));
        why->sys_errno = error;
        return why->code;
}
