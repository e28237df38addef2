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
        if (base == 10 && *word == '0' && length > 1)
                return false;
        for (size_t i = 0; i < length; i++) {
                digit = memchr(digits, word[i], base);
                if (!digit || (uint64_t)(digit - digits) > max || *number > (max - (uint64_t)(digit - digits)) / base)
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

/* The bytes, without asking whether they had to be encoded. */
static bool decode(const char *word, size_t length, size_t max, char *text)
{
        size_t at = 0;

        for (size_t i = 0; i < length; i++, at++) {
                if (at == max)
                        return false;
                text[at] = word[i];
                if (word[i] != '%')
                        continue;
                if (length - i < 3 || hex(word[i + 1]) < 0 || hex(word[i + 2]) < 0)
                        return false;
                text[at] = (char)(hex(word[i + 1]) * 16 + hex(word[i + 2]));
                i += 2;
        }
        text[at] = '\0';
        return true;
}

/* Owners and notes may be any bytes, names may not: so this is not name_decode. */
bool words_text(struct words *words, size_t max, char *text)
{
        char again[NAME_ENCODED_MAX + 1];
        const char *word;
        size_t length;

        if (!words_next(words, &word, &length))
                return false;
        *text = '\0';
        if (length == 1 && *word == '%')
                return true;
        if (max > PAWL_NAME_MAX || !decode(word, length, max, text))
                return false;
        /* One text, one word: what we would write differently was not written by us. */
        words_encode(text, max, again);
        return strlen(again) == length && memcmp(again, word, length) == 0;
}

void words_encode(const char *text, size_t max, char *out)
{
        size_t length = text ? strnlen(text, max) : 0;

        if (length == 0)
                memcpy(out, "%", 2);
        else
                name_encode(text, length, NULL, out);
}
