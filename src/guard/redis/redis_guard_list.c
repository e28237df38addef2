/* redis_guard_list.c - all marks of a namespace: found by SCAN, which does not hold the server up, and read or pruned in
 * batches. SCAN may tell a key twice, and all of them again after a restart of the server: they are gathered and sorted. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis_guard.h"

enum { RESTARTS_MAX = 8 };

struct marks {
        char **keys;
        size_t count, room;
};

static void marks_free(struct marks *marks)
{
        for (size_t i = 0; i < marks->count; i++)
                free(marks->keys[i]);
        free(marks->keys);
        *marks = (struct marks){0};
}

static int marks_add(struct marks *marks, const char *key)
{
        if (marks->count == marks->room) {
                size_t room = marks->room ? 2 * marks->room : BATCH_MAX;
                char **keys = realloc(marks->keys, room * sizeof(*keys));

                if (!keys)
                        return PAWL_NO_MEMORY;
                marks->keys = keys;
                marks->room = room;
        }
        marks->keys[marks->count] = strdup(key);
        if (!marks->keys[marks->count])
                return PAWL_NO_MEMORY;
        marks->count++;
        return PAWL_OK;
}

static int by_text(const void *one, const void *other)
{
        return strcmp(*(char *const *)one, *(char *const *)other);
}

static void marks_sort(struct marks *marks)
{
        size_t kept = 0;

        if (marks->count == 0)
                return;
        qsort(marks->keys, marks->count, sizeof(*marks->keys), by_text);
        for (size_t i = 1; i < marks->count; i++) {
                if (strcmp(marks->keys[kept], marks->keys[i]) == 0)
                        free(marks->keys[i]);
                else
                        marks->keys[++kept] = marks->keys[i];
        }
        marks->count = kept + 1;
}

/* ---- finding ----------------------------------------------------------------------------------------------------- */

/* The characters of a pattern stand for themselves behind a backslash. */
static char *add_literally(char *at, const char *text)
{
        for (; *text; text++) {
                if (strchr("*?[]\\^", *text))
                        *at++ = '\\';
                *at++ = *text;
        }
        *at = '\0';
        return at;
}

static char *pattern_of(const struct redis_guard *guard, const char *prefix)
{
        char *pattern = malloc(16 + 2 * (strlen(guard->prefix) + strlen(prefix)));

        if (pattern)
                strcpy(add_literally(add_literally(stpcpy(pattern, "pawl:mark:"), guard->prefix), prefix), "*");
        return pattern;
}

static bool is_page(const redisReply *reply)
{
        return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 &&
               reply->element[0]->type == REDIS_REPLY_STRING && reply->element[1]->type == REDIS_REPLY_ARRAY;
}

/* A key that no resource of ours can have is not ours. */
static bool is_mark(const struct redis_guard *guard, const redisReply *key)
{
        size_t before = strlen("pawl:mark:") + strlen(guard->prefix);
        size_t length;

        return key->type == REDIS_REPLY_STRING && strlen(key->str) == (size_t)key->len && (size_t)key->len > before &&
               name_check(key->str + before, &length, NULL) == PAWL_OK;
}

static int take_page(const struct redis_guard *guard, const redisReply *reply, char cursor[32], struct marks *marks,
                     struct pawl_why *why)
{
        if (!is_page(reply))
                return why_set(why, PAWL_SYSTEM, "%s: an answer to SCAN that makes no sense", guard->where);
        snprintf(cursor, 32, "%s", reply->element[0]->str);
        for (size_t i = 0; i < reply->element[1]->elements; i++) {
                const redisReply *key = reply->element[1]->element[i];

                if (is_mark(guard, key) && marks_add(marks, key->str) != PAWL_OK)
                        return why_set(why, PAWL_NO_MEMORY, "no memory for the marks");
        }
        return PAWL_OK;
}

static int find_page(struct redis_guard *guard, const char *pattern, char cursor[32], struct marks *marks,
                     struct pawl_why *why)
{
        struct words words = {.count = 0};
        struct answer answer;
        char from[32];
        int code;

        strcpy(from, cursor);
        words_text(&words, "SCAN");
        words_text(&words, from);
        words_text(&words, "MATCH");
        words_text(&words, pattern);
        words_text(&words, "COUNT");
        words_text(&words, "250");
        code = line_ask(guard, &words, &answer, why);
        if (code == PAWL_OK)
                code = take_page(guard, answer.reply, cursor, marks, why);
        freeReplyObject(answer.reply);
        return code;
}

/* A cursor is worth nothing after a restart of the server: with another connection it is begun anew. */
static int find_marks(struct redis_guard *guard, const char *prefix, struct marks *marks, struct pawl_why *why)
{
        char *pattern = pattern_of(guard, prefix);
        char cursor[32] = "0";
        uint64_t connections = 0;
        int restarts = 0;
        bool anew;
        int code;

        if (!pattern)
                return why_set(why, PAWL_NO_MEMORY, "no memory for the marks");
        do {
                code = find_page(guard, pattern, cursor, marks, why);
                anew = connections != 0 && connections != guard->net.connections && restarts++ < RESTARTS_MAX;
                connections = guard->net.connections;
                if (anew)
                        strcpy(cursor, "0");
        } while (code == PAWL_OK && (anew || strcmp(cursor, "0") != 0));
        free(pattern);
        marks_sort(marks);
        return code;
}

static size_t batch_at(const struct marks *marks, size_t at)
{
        return marks->count - at < BATCH_MAX ? marks->count - at : BATCH_MAX;
}

static void add_batch(struct words *words, const struct marks *marks, size_t at)
{
        for (size_t i = 0; i < batch_at(marks, at); i++)
                words_text(words, marks->keys[at + i]);
}

/* ---- listing ----------------------------------------------------------------------------------------------------- */

/* Decimal, > 0, < 2^63, without a zero before it; else 0. */
static uint64_t token_of(const redisReply *text)
{
        char again[24];
        uint64_t token = strtoull(text->str, NULL, 10);

        snprintf(again, sizeof(again), "%" PRIu64, token);
        return token <= INT64_MAX && strcmp(again, text->str) == 0 ? token : 0;
}

static int tell_batch(const struct redis_guard *guard, const struct marks *marks, size_t at, const redisReply *reply,
                      pawl_guard_entry_fn *fn, void *arg)
{
        size_t before = strlen("pawl:mark:") + strlen(guard->prefix);
        int ended = 0;

        for (size_t i = 0; i < reply->elements && !ended; i++) {
                const redisReply *text = reply->element[i];
                struct pawl_guard_entry entry = {.resource = marks->keys[at + i] + before};

                if (text->type != REDIS_REPLY_STRING) /* gone since */
                        continue;
                entry.token = token_of(text);
                entry.code = entry.token ? PAWL_OK : PAWL_CORRUPT;
                ended = fn(&entry, arg);
        }
        return ended;
}

static int list_marks(struct redis_guard *guard, const struct marks *marks, pawl_guard_entry_fn *fn, void *arg,
                      struct pawl_why *why)
{
        struct words words;
        struct answer answer;
        int ended = 0;
        int code = PAWL_OK;

        for (size_t at = 0; at < marks->count && code == PAWL_OK && !ended; at += BATCH_MAX) {
                words_script(&words, FENCE_LIST, batch_at(marks, at));
                add_batch(&words, marks, at);
                code = line_ask(guard, &words, &answer, why);
                if (code == PAWL_OK &&
                    (answer.reply->type != REDIS_REPLY_ARRAY || answer.reply->elements != batch_at(marks, at)))
                        code = why_set(why, PAWL_SYSTEM, "%s: an answer that makes no sense", guard->where);
                if (code == PAWL_OK)
                        ended = tell_batch(guard, marks, at, answer.reply, fn, arg);
                freeReplyObject(answer.reply);
        }
        return code;
}

int redis_guard_list(pawl_guard *opened, const char *prefix, pawl_guard_entry_fn *fn, void *arg, struct pawl_why *why)
{
        struct redis_guard *guard = redis_guard_of(opened);
        struct marks marks = {0};
        int code = line_enter(guard, why);

        if (code != PAWL_OK)
                return code;
        code = find_marks(guard, prefix, &marks, why);
        if (code == PAWL_OK)
                code = list_marks(guard, &marks, fn, arg, why);
        line_leave(guard);
        marks_free(&marks);
        return code;
}

/* ---- pruning ----------------------------------------------------------------------------------------------------- */

/* One batch; the first may be empty, and raises the floor. Sent twice it counts what is left of it: a lost reply's count is
 * lost. */
static int prune_batch(struct redis_guard *guard, const struct marks *marks, size_t at, const char *floor,
                       uint64_t *pruned, struct pawl_why *why)
{
        struct words words;
        struct answer answer;
        int code;

        words_script(&words, FENCE_PRUNE, 1 + batch_at(marks, at));
        words_text(&words, guard->floor_key);
        add_batch(&words, marks, at);
        words_text(&words, floor);
        code = line_ask(guard, &words, &answer, why);
        if (code == PAWL_OK && answer.reply->type != REDIS_REPLY_INTEGER)
                code = why_set(why, PAWL_SYSTEM, "%s: an answer that makes no sense", guard->where);
        if (code == PAWL_OK)
                *pruned += (uint64_t)answer.reply->integer;
        freeReplyObject(answer.reply);
        return code;
}

int redis_guard_prune(pawl_guard *opened, uint64_t floor, struct pawl_why *why, uint64_t *pruned)
{
        struct redis_guard *guard = redis_guard_of(opened);
        struct marks marks = {0};
        char text[24];
        int code = line_enter(guard, why);

        if (code != PAWL_OK)
                return code;
        snprintf(text, sizeof(text), "%" PRIu64, floor);
        code = prune_batch(guard, &marks, 0, text, pruned, why);
        if (code == PAWL_OK)
                code = find_marks(guard, "", &marks, why);
        for (size_t at = 0; at < marks.count && code == PAWL_OK; at += BATCH_MAX)
                code = prune_batch(guard, &marks, at, text, pruned, why);
        line_leave(guard);
        marks_free(&marks);
        return code;
}
