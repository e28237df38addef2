/* redis_write.c - commands as bytes, written straight into the connection's buffer. */
#include <string.h>

#include "../../base/name.h"
#include "redis.h"

/* size bytes to be filled by the caller, or NULL: the command cannot be written. */
static char *room(struct wire *wire, size_t size)
{
        char *at = wire->dry ? NULL : net_room(&wire->net, size);

        if (!at)
                wire->dry = true;
        return at;
}

static void wrote(struct wire *wire, size_t size)
{
        net_wrote(&wire->net, size);
        wire->written += size;
}

enum { DIGITS = 20 };

static size_t decimal(char *text, uint64_t number)
{
        char digits[DIGITS];
        size_t n = 0;

        do {
                digits[n++] = (char)('0' + number % 10);
                number /= 10;
        } while (number);
        for (size_t i = 0; i < n; i++)
                text[i] = digits[n - 1 - i];
        return n;
}

/* "*3\r\n" or "$12\r\n". */
static char *put_head(char *at, char kind, size_t number)
{
        *at++ = kind;
        at += decimal(at, number);
        *at++ = '\r';
        *at++ = '\n';
        return at;
}

static char *put_word(char *at, const char *bytes, size_t size)
{
        at = put_head(at, '$', size);
        memcpy(at, bytes, size);
        at += size;
        *at++ = '\r';
        *at++ = '\n';
        return at;
}

enum { HEAD_MAX = DIGITS + 3, WORD_EXTRA = HEAD_MAX + 2 };

void write_begin(struct wire *wire, size_t words)
{
        char *at;

        wire->written = 0;
        wire->dry = false;
        at = room(wire, HEAD_MAX);
        if (at)
                wrote(wire, (size_t)(put_head(at, '*', words) - at));
}

void write_bytes(struct wire *wire, const void *bytes, size_t size)
{
        char *at = room(wire, size + WORD_EXTRA);

        if (at)
                wrote(wire, (size_t)(put_word(at, bytes, size) - at));
}

void write_text(struct wire *wire, const char *text)
{
        write_bytes(wire, text, strlen(text));
}

void write_number(struct wire *wire, int64_t number)
{
        char text[DIGITS + 1];
        size_t minus = number < 0;

        text[0] = '-';
        write_bytes(wire, text,
                    minus + decimal(text + minus, minus ? (uint64_t)0 - (uint64_t)number : (uint64_t)number));
}

void write_key(struct wire *wire, const char *prefix, const char *name, size_t length)
{
        size_t before = strlen(prefix);
        char *start = room(wire, before + length + WORD_EXTRA);
        char *at = start;

        if (!at)
                return;
        at = put_head(at, '$', before + length);
        memcpy(at, prefix, before);
        memcpy(at + before, name, length);
        at += before + length;
        *at++ = '\r';
        *at++ = '\n';
        wrote(wire, (size_t)(at - start));
}

void write_script(struct wire *wire, const struct ask *ask, enum script script, size_t keys, size_t words)
{
        const struct script_text *text = &script_list[script];

        write_begin(wire, 3 + words);
        if (ask->whole) {
                write_text(wire, "EVAL");
                write_bytes(wire, text->text, text->length);
        } else {
                write_bytes(wire, "EVALSHA", 7);
                write_bytes(wire, text->digest, 40);
        }
        write_number(wire, (int64_t)keys);
}

/* All of it or nothing: half a command would be completed by the next one. */
int write_end(struct wire *wire)
{
        if (!wire->dry)
                return PAWL_OK;
        wire->net.out.end -= wire->written;
        wire->written = 0;
        return PAWL_NO_MEMORY;
}

void write_lock_keys(struct wire *wire, const char *name, size_t length)
{
        struct redis *redis = wire->redis;

        write_key(wire, redis->prefix, name, length);
        write_bytes(wire, redis->fence_key, redis->fence_length);
}

/* ---- records --------------------------------------------------------------------------------------------------- */

static char *put_number(char *at, uint64_t number)
{
        *at++ = ' ';
        return at + decimal(at, number);
}

/* The words of a record are separated by blanks, so what people wrote is encoded; "-" stands for nothing. */
static char *put_encoded(char *at, const char *text)
{
        size_t length = strlen(text);

        *at++ = ' ';
        if (length == 0)
                return stpcpy(at, "-");
        if (strcmp(text, "-") == 0)
                return stpcpy(at, "%2D");
        return at + name_encode(text, length, ":/@+,=()[]", at);
}

void write_reason(const char *reason, char *out)
{
        char word[3 * PAWL_BREAK_REASON_MAX + 2];

        *put_encoded(word, reason) = '\0';
        strcpy(out, word + 1);
}

/* UID CLIENT TTL DELAY MODE LIMIT FLAGS AGE OWNER NOTE: the same bytes each time, for the server finds it by them. */
size_t record_make(const struct part *part, char *record)
{
        const struct claim *claim = part->claim;
        const struct redis *redis = part->redis;
        char *at = uid_put(record, part->claim->uid);

        *at++ = ' ';
        memcpy(at, redis->client, 16);
        at = put_number(at + 16, (uint64_t)(claim->ttl / MS));
        at = put_number(at, (uint64_t)(claim->delay / MS));
        *at++ = ' ';
        *at++ = claim->mode == PAWL_SHARED ? 's' : 'x';
        at = put_number(at, claim->max_holders);
        *at++ = ' ';
        *at++ = claim->detached ? 'd' : '-';
        at = put_number(at, claim->age);
        *at++ = ' ';
        memcpy(at, redis->owner, strlen(redis->owner));
        at = put_encoded(at + strlen(redis->owner), claim->note);
        return (size_t)(at - record);
}

void write_record(struct wire *wire, const struct part *part, const char *after)
{
        char record[RECORD_MAX];
        size_t length = record_make(part, record);

        write_bytes(wire, record, (size_t)(stpcpy(record + length, after) - record));
}
