/* redis_guard.c - a guard in a Redis: each call is one script, which is atomic there. The ops table. */
#include "redis_guard.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

extern const struct guard_ops redis_guard;

/* What each script is given first. */
struct keys {
        char mark[KEY_MAX]; /* the data's own key is the end of it */
        size_t length;
        char token[24];
};

static const char mark_prefix[] = "pawl:mark:";
enum { MARK_PREFIX = sizeof(mark_prefix) - 1 };

static int make_keys(const struct redis_guard *guard, const struct visit *visit, struct keys *keys)
{
        const char *data = keys->mark + MARK_PREFIX;

        keys->length =
                (size_t)snprintf(keys->mark, sizeof(keys->mark), "%s%s%s", mark_prefix, guard->prefix, visit->resource);
        snprintf(keys->token, sizeof(keys->token), "%" PRIu64, visit->token);
        if (strncmp(data, "pawl:", 5) == 0)
                return why_set(visit->why, PAWL_INVALID,
                               "%s: keys that begin with pawl: are for marks and locks, not for data", data);
        return PAWL_OK;
}

/* The keys. changes: the guard's line is the fourth, and its word must be the last argument. A swap adds a fifth. */
static void begin(const struct redis_guard *guard, struct words *words, enum fence_script script,
                  const struct keys *keys, bool changes)
{
        words_script(words, script, script == FENCE_SWAP_ONCE ? 5 : changes ? 4 : 3);
        words->changes = changes;
        words_add(words, keys->mark + MARK_PREFIX, keys->length - MARK_PREFIX);
        words_add(words, keys->mark, keys->length);
        words_text(words, guard->floor_key);
        if (changes)
                words_text(words, guard->line_key);
}

static int ask(struct redis_guard *guard, const struct visit *visit, struct words *words, struct answer *answer)
{
        int code = line_enter(guard, visit->why);

        *answer = (struct answer){0};
        if (code != PAWL_OK)
                return code;
        code = line_ask(guard, words, answer, visit->why);
        line_leave(guard);
        return code;
}

/* The same where a token is brought. */
static int ask_with_token(struct redis_guard *guard, const struct visit *visit, struct words *words,
                          struct answer *answer)
{
        int code = ask(guard, visit, words, answer);

        return code == PAWL_STALE ? guard_stale(visit, answer->greatest) : code;
}

static int odd_reply(const struct redis_guard *guard, const struct visit *visit)
{
        return why_set(visit->why, PAWL_SYSTEM, "%s: an answer that makes no sense", guard->where);
}

static int redis_guard_admit(pawl_guard *opened, const struct visit *visit)
{
        struct redis_guard *guard = redis_guard_of(opened);
        struct words words;
        struct answer answer;
        struct keys keys;
        int code = make_keys(guard, visit, &keys);

        if (code != PAWL_OK)
                return code;
        begin(guard, &words, FENCE_ADMIT, &keys, false);
        words_text(&words, keys.token);
        code = ask_with_token(guard, visit, &words, &answer);
        if (code == PAWL_OK && answer.reply->type != REDIS_REPLY_STATUS)
                code = odd_reply(guard, visit);
        freeReplyObject(answer.reply);
        return code;
}

static int redis_guard_put(pawl_guard *opened, const struct visit *visit, const void *data, size_t size)
{
        struct redis_guard *guard = redis_guard_of(opened);
        struct words words;
        struct answer answer;
        struct keys keys;
        int code = make_keys(guard, visit, &keys);

        if (code != PAWL_OK)
                return code;
        begin(guard, &words, FENCE_SET, &keys, true);
        words_text(&words, keys.token);
        words_add(&words, size ? data : "", size);
        words_add(&words, guard->line_word, sizeof(guard->line_word) - 1);
        code = ask_with_token(guard, visit, &words, &answer);
        if (code == PAWL_OK && !answer.done && answer.reply->type != REDIS_REPLY_STATUS)
                code = odd_reply(guard, visit);
        freeReplyObject(answer.reply);
        return code;
}

/* The value, or nil, and the greatest token before. */
static int read_data(const struct redis_guard *guard, const struct visit *visit, const redisReply *reply,
                     struct pawl_guard_data *data)
{
        const redisReply *value;
        char *bytes;

        if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 || reply->element[1]->type != REDIS_REPLY_STRING)
                return odd_reply(guard, visit);
        value = reply->element[0];
        data->token = strtoull(reply->element[1]->str, NULL, 10);
        if (value->type == REDIS_REPLY_NIL)
                return guard_no_data(visit);
        if (value->type != REDIS_REPLY_STRING)
                return odd_reply(guard, visit);
        bytes = malloc((size_t)value->len + 1);
        if (!bytes)
                return why_set(visit->why, PAWL_NO_MEMORY, "no memory for the data");
        memcpy(bytes, value->str, (size_t)value->len);
        bytes[value->len] = '\0';
        data->bytes = bytes;
        data->size = (size_t)value->len;
        return PAWL_OK;
}

static int redis_guard_get(pawl_guard *opened, const struct visit *visit, struct pawl_guard_data *data)
{
        struct redis_guard *guard = redis_guard_of(opened);
        struct pawl_guard_data found = {0};
        struct words words;
        struct answer answer;
        struct keys keys;
        int code = make_keys(guard, visit, &keys);

        if (code != PAWL_OK)
                return code;
        begin(guard, &words, FENCE_GET, &keys, false);
        words_text(&words, keys.token);
        code = ask_with_token(guard, visit, &words, &answer);
        if (code == PAWL_OK)
                code = read_data(guard, visit, answer.reply, &found);
        if (code == PAWL_OK)
                *data = found;
        freeReplyObject(answer.reply);
        return code;
}

static int redis_guard_forget(pawl_guard *opened, const struct visit *visit)
{
        struct redis_guard *guard = redis_guard_of(opened);
        struct words words;
        struct answer answer;
        struct keys keys;
        int code = make_keys(guard, visit, &keys);

        if (code != PAWL_OK)
                return code;
        begin(guard, &words, FENCE_FORGET, &keys, true);
        words_text(&words, keys.token);
        words_add(&words, guard->line_word, sizeof(guard->line_word) - 1);
        code = ask_with_token(guard, visit, &words, &answer);
        if (code == PAWL_OK && !answer.done && answer.reply->type != REDIS_REPLY_INTEGER)
                code = odd_reply(guard, visit);
        else if (code == PAWL_OK && !answer.done && answer.reply->integer == 0)
                code = why_set(visit->why, PAWL_NOT_FOUND, "no token is known for \"%s\"", visit->resource);
        freeReplyObject(answer.reply);
        return code;
}

static int redis_guard_look(pawl_guard *opened, const struct visit *visit, struct pawl_guard_data *data)
{
        struct redis_guard *guard = redis_guard_of(opened);
        struct words words;
        struct answer answer;
        struct keys keys;
        int code = make_keys(guard, visit, &keys);

        if (code != PAWL_OK)
                return code;
        begin(guard, &words, FENCE_LOOK, &keys, false);
        code = ask(guard, visit, &words, &answer);
        if (code == PAWL_OK)
                code = read_data(guard, visit, answer.reply, data);
        freeReplyObject(answer.reply);
        return code;
}

static int redis_guard_swap(pawl_guard *opened, const struct visit *visit, const struct guard_swap *swap)
{
        struct redis_guard *guard = redis_guard_of(opened);
        char expected[24], id[24], swap_key[KEY_MAX];
        struct words words;
        struct answer answer;
        struct keys keys;
        int code = make_keys(guard, visit, &keys);

        if (code != PAWL_OK)
                return code;
        snprintf(expected, sizeof(expected), "%" PRIu64, guard_expected(visit));
        snprintf(id, sizeof(id), "%016" PRIx64, swap->id);
        memcpy(swap_key, keys.mark, keys.length + 1);
        memcpy(swap_key, "pawl:swap:", MARK_PREFIX);
        begin(guard, &words, FENCE_SWAP_ONCE, &keys, true);
        words_text(&words, swap_key);
        words_text(&words, expected);
        words_add(&words, swap->size ? swap->data : "", swap->size);
        words_text(&words, id);
        words_add(&words, guard->line_word, sizeof(guard->line_word) - 1);
        code = ask(guard, visit, &words, &answer);
        if (code == PAWL_STALE)
                code = guard_moved(visit, swap, answer.greatest);
        if (code == PAWL_OK && !answer.done && answer.reply->type != REDIS_REPLY_STRING)
                code = odd_reply(guard, visit);
        freeReplyObject(answer.reply);
        return code;
}

const struct guard_ops redis_guard = {
        .size = sizeof(struct redis_guard),
        .open = redis_guard_open,
        .close = redis_guard_close,
        .admit = redis_guard_admit,
        .put = redis_guard_put,
        .get = redis_guard_get,
        .forget = redis_guard_forget,
        .list = redis_guard_list,
        .prune = redis_guard_prune,
        .examine = redis_guard_examine,
        .look = redis_guard_look,
        .swap = redis_guard_swap,
};
