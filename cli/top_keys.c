/* top_keys.c - what was typed, as keys: a terminal sends several bytes for an arrow, and may send them in two pieces. */
#include <string.h>
#include <unistd.h>

#include "top.h"

static const struct {
        const char *bytes; /* behind the Escape */
        enum key key;
} sequences[] = {
        {"[A", KEY_UP},         {"OA", KEY_UP},   {"[B", KEY_DOWN}, {"OB", KEY_DOWN},  {"[5~", KEY_PAGE_UP},
        {"[6~", KEY_PAGE_DOWN}, {"[H", KEY_HOME}, {"OH", KEY_HOME}, {"[1~", KEY_HOME}, {"[7~", KEY_HOME},
        {"[F", KEY_END},        {"OF", KEY_END},  {"[4~", KEY_END}, {"[8~", KEY_END},
};

bool keys_read(struct keys *keys)
{
        ssize_t got = read(STDIN_FILENO, keys->bytes + keys->count, sizeof(keys->bytes) - keys->count);

        if (got <= 0)
                return false;
        keys->count += (size_t)got;
        return true;
}

/* The bytes of a sequence (ECMA-48, 5.4) without its Escape; 0: more of it is to come. */
static size_t sequence_length(const char *bytes, size_t count)
{
        if (count == 0)
                return 0;
        if (*bytes == 'O')
                return count < 2 ? 0 : 2;
        if (*bytes != '[')
                return 1; /* with Alt */
        for (size_t i = 1; i < count; i++)
                if (bytes[i] < 0x20 || bytes[i] >= 0x40)
                        return i + 1;
        return count == sizeof(((struct keys *)NULL)->bytes) - 1 ? count : 0;
}

static enum key key_of(const char *bytes, size_t count)
{
        for (size_t i = 0; i < sizeof(sequences) / sizeof(sequences[0]); i++)
                if (strlen(sequences[i].bytes) == count && !memcmp(sequences[i].bytes, bytes, count))
                        return sequences[i].key;
        return KEY_NONE;
}

static void drop(struct keys *keys, size_t count)
{
        keys->count -= count;
        memmove(keys->bytes, keys->bytes + count, keys->count);
}

bool keys_wait(const struct keys *keys)
{
        return keys->count && keys->bytes[0] == '\033' && !sequence_length(keys->bytes + 1, keys->count - 1);
}

int keys_next(struct keys *keys, bool over)
{
        while (keys->count) {
                int key = (unsigned char)keys->bytes[0];
                size_t length;

                if (key != '\033') {
                        drop(keys, 1);
                        if (key)
                                return key;
                        continue;
                }
                length = sequence_length(keys->bytes + 1, keys->count - 1);
                if (!length && !over)
                        return KEY_NONE;
                if (!length) { /* the key Escape, or what came of a sequence */
                        keys->count = 0;
                        return KEY_ESCAPE;
                }
                key = (int)key_of(keys->bytes + 1, length);
                drop(keys, 1 + length);
                if (key)
                        return key;
        }
        return KEY_NONE;
}
