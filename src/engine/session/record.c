/* record.c - see record.h. */
#include "record.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../../base/name.h"
#include "turn.h"
#include "words.h"

static void write_flags(const struct claim *claim, bool holds, char *out)
{
        char *at = out;

        if (claim->detached)
                *at++ = 'd';
        for (uint8_t i = 0; i < claim->confirms && i < TURN_CONFIRMS_MAX; i++)
                *at++ = 'c';
        if (holds)
                *at++ = 'h';
        if (at == out)
                *at++ = '-';
        *at = '\0';
}

size_t record_write(const struct claim *claim, uint64_t client, const char *owner, int64_t since_ms, bool holds,
                    char *out)
{
        char who[3 * PAWL_OWNER_MAX + 1], note[3 * PAWL_NOTE_MAX + 1];
        char flags[TURN_CONFIRMS_MAX + 3];
        int length;

        write_flags(claim, holds, flags);
        words_encode(owner, PAWL_OWNER_MAX, who);
        words_encode(claim->note, PAWL_NOTE_MAX, note);
        length =
                snprintf(out, RECORD_MAX + 1,
                         "pawl1 %016" PRIx64 " %" PRId64 " %" PRId64 " %c %" PRIu32 " %s %" PRIu64 " %" PRId64 " %s %s",
                         client, claim->ttl / MS, claim->delay / MS, claim->mode == PAWL_SHARED ? 's' : 'x',
                         claim->max_holders, flags, claim->age, since_ms > 0 ? since_ms : 0, who, note);
        return (size_t)length;
}

static bool read_client(struct words *words, uint64_t *client)
{
        struct words ahead = *words;
        const char *word;
        size_t length;

        return words_next(&ahead, &word, &length) && length == 16 && words_number(words, 16, UINT64_MAX, client);
}

static bool read_mode(struct words *words, uint32_t *mode)
{
        const char *word;
        size_t length;

        if (!words_next(words, &word, &length) || length != 1 || (*word != 's' && *word != 'x'))
                return false;
        *mode = *word == 's' ? PAWL_SHARED : PAWL_EXCLUSIVE;
        return true;
}

static bool read_flags(struct words *words, struct record *record)
{
        const char *word;
        size_t length, at = 0;

        if (!words_next(words, &word, &length))
                return false;
        if (length == 1 && *word == '-')
                return true;
        record->detached = word[at] == 'd';
        at += record->detached;
        while (at < length && word[at] == 'c' && record->confirms < TURN_CONFIRMS_MAX) {
                record->confirms++;
                at++;
        }
        record->holds = at < length && word[at] == 'h';
        return at + record->holds == length;
}

bool record_read(const char *text, size_t size, struct record *record)
{
        struct words words = {.at = text, .end = size ? text + size : text};
        uint64_t limit, ttl, delay, since;

        memset(record, 0, sizeof(*record));
        if (!words_is(&words, "pawl1") || !read_client(&words, &record->client) ||
            !words_number(&words, 10, INT64_MAX / MS, &ttl) || !words_number(&words, 10, INT64_MAX / MS, &delay) ||
            !read_mode(&words, &record->mode) || !words_number(&words, 10, UINT32_MAX, &limit) ||
            !read_flags(&words, record) || !words_number(&words, 10, UINT64_MAX, &record->age) ||
            !words_number(&words, 10, INT64_MAX, &since) || !words_text(&words, PAWL_OWNER_MAX, record->owner) ||
            !words_text(&words, PAWL_NOTE_MAX, record->note) || !words_end(&words))
                return false;
        record->limit = (uint32_t)limit;
        record->ttl_ms = (int64_t)ttl;
        record->delay_ms = (int64_t)delay;
        record->since_ms = (int64_t)since;
        return true;
}
