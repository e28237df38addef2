/* words.c - see words.h. */
#include "words.h"

#include <string.h>

#include "../../base/name.h"

bool words_next(struct words *words, const char **word, size_t *length)
{
        const char *space;

        if (!words->at)
                return false;
        space = memchr(words->at, ' ', (size_t)(words->end - words->at));
        *word = words->at;
        *length = (size_t)((space ? space : words->end) - words->at);
        words->at = space ? space + 1 : NULL;
        return *length > 0;
}

bool words_is(struct words *words, const char *expected)
{
        const char *word;
        size_t length;

        return words_next(words, &word, &length) && length == strlen(expected) && memcmp(word, expected, length) == 0;
}

bool words_number(struct words *words, unsigned base, uint64_t max, uint64_t *number)
{
        static const char digits[] = "0123456789abcdef";
        const char *word, *digit;
        size_t length;

        *number = 0;
        if (!words_next(words, &word, &length))
                return false;
        for (size_t i = 0; i < length; i++) {
                digit = memchr(digits, word[i], base);
                if (!digit || *number > (max - (uint64_t)(digit - digits)) / base)
                        return false;
                *number = *number * base + (uint64_t)(digit - digits);
        }
        return true;
}

static int hex(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

bool words_text(struct words *words, size_t max, char *text)
{
        const char *word;
        size_t length, at = 0;

        if (!words_next(words, &word, &length))
                return false;
        if (length == 1 && *word == '%')
                length = 0;
        for (size_t i = 0; i < length; i++, at++) {
                if (at == max)
                        return false;
                text[at] = word[i];
                if (word[i] != '%')
                        continue;
                if (i + 2 >= length || hex(word[i + 1]) < 0 || hex(word[i + 2]) < 0)
                        return false;
                text[at] = (char)(hex(word[i + 1]) * 16 + hex(word[i + 2]));
                i += 2;
        }
        text[at] = '\0';
        return memchr(text, '\0', at) == NULL;
}

void words_encode(const char *text, size_t max, char *out)
{
        size_t length = text ? strnlen(text, max) : 0;

        if (length == 0)
                memcpy(out, "%", 2);
        else
                name_encode(text, length, NULL, out);
}
