/* redis_inspect.c - list, show, history, break, ask; and one look at the server's settings, to warn of the worst. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis_question.h"

enum { SCAN_AT_ONCE = 1000, SHOW_AT_ONCE = 200, WAITERS_SHOWN = 100000, PAST_SHOWN = 16 };

static void question_free(struct question *question)
{
        list_remove(&question->listed);
        for (size_t i = 0; i < question->count; i++)
                free(question->keys[i]);
        free(question->keys);
        free(question->deposit);
        free(question);
}

void question_finish(struct question *question, int code, const char *why)
{
        struct inquiry *inquiry = question->inquiry;

        question_free(question);
        if (inquiry)
                inquiry->answered(inquiry, code, why);
}

/* A store that may have been done is not said to have failed. */
static bool is_unsure(const struct question *question)
{
        return question->deposit && question->doubtful;
}

void question_ask(struct question *question)
{
        struct wire *wire = &question->redis->commands;
        int code = wire_ask(wire, &question->ask);

        question->sent = code == PAWL_OK;
        if (code == PAWL_NO_MEMORY)
                question_finish(question, is_unsure(question) ? PAWL_IN_DOUBT : code, NULL);
        else if (code != PAWL_OK)
                wire_want(wire);
}

struct question *question_new(struct engine *engine, struct inquiry *inquiry, int (*write)(struct ask *, struct wire *),
                              void (*answered)(struct ask *, const redisReply *, const struct pawl_why *))
{
        struct redis *redis = redis_of(engine);
        struct question *question = calloc(1, sizeof(*question));

        if (!question) {
                inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
                return NULL;
        }
        question->redis = redis;
        question->tried_at = redis_now(redis);
        question->inquiry = inquiry;
        question->ask.write = write;
        question->ask.answered = answered;
        snprintf(question->name, sizeof(question->name), "%s", inquiry->name);
        strcpy(question->cursor, "0");
        list_init(&question->ask.listed);
        list_append(&redis->questions, &question->listed);
        return question;
}

static void question_begin(struct engine *engine, struct inquiry *inquiry, int (*write)(struct ask *, struct wire *),
                           void (*answered)(struct ask *, const redisReply *, const struct pawl_why *))
{
        struct question *question = question_new(engine, inquiry, write, answered);

        if (question)
                question_ask(question);
}

const char question_nonsense[] = "the server's answer makes no sense";

/* ---- values as entries ------------------------------------------------------------------------------------------- */

static size_t decode(const char *text, size_t length, char *out, size_t size)
{
        size_t at = 0;
        unsigned byte;

        if (length == 1 && *text == '-')
                length = 0;
        for (size_t i = 0; i < length && at + 1 < size; i++) {
                if (text[i] == '%' && i + 2 < length && sscanf(text + i + 1, "%2x", &byte) == 1) {
                        out[at++] = (char)byte;
                        i += 2;
                } else {
                        out[at++] = text[i];
                }
        }
        out[at] = '\0';
        return at;
}

/* The words of a value; less than that and it is not one of ours. */
enum word {
        UID,
        CLIENT,
        TTL,
        DELAY,
        MODE,
        LIMIT,
        FLAGS,
        AGE,
        OWNER,
        NOTE,
        RECORD_WORDS,
        TOKEN = RECORD_WORDS,
        SINCE,
        LATE, /* for the scripts only */
        WORDS
};

struct value {
        const char *word[WORDS];
        size_t length[WORDS];
        size_t words;
        char owner[PAWL_OWNER_MAX + 1];
        char note[PAWL_NOTE_MAX + 1];
};

static void split(const char *text, struct value *value)
{
        value->words = 0;
        while (*text && value->words < WORDS) {
                size_t length = strcspn(text, " ");

                value->word[value->words] = text;
                value->length[value->words++] = length;
                text += length;
                text += *text == ' ';
        }
        if (*text || (value->words > LATE && *value->word[LATE] != '~'))
                value->words = 0;
}

static bool is_ours(const struct value *value, size_t words)
{
        return value->words >= words && value->length[UID] == 32 && value->length[MODE] == 1;
}

/* TAKER<MAKER if the lease was taken up: the one who has it, or for the history the one who took the lock. */
static void decode_owner(struct value *value, bool past)
{
        const char *word = value->word[OWNER], *mark = memchr(word, '<', value->length[OWNER]);
        const char *end = word + value->length[OWNER];

        if (mark && past)
                word = mark + 1;
        else if (mark)
                end = mark;
        decode(word, (size_t)(end - word), value->owner, sizeof(value->owner));
}

static void describe(struct value *value, struct pawl_entry *entry)
{
        decode_owner(value, entry->role == PAWL_ROLE_PAST);
        decode(value->word[NOTE], value->length[NOTE], value->note, sizeof(value->note));
        entry->owner = value->owner;
        entry->note = value->note;
        entry->mode = *value->word[MODE] == 's' ? PAWL_SHARED : PAWL_EXCLUSIVE;
        entry->max_holders = (uint32_t)strtoul(value->word[LIMIT], NULL, 10);
        entry->flags = *value->word[FLAGS] == 'd' ? PAWL_DETACH : 0;
        entry->age = strtoull(value->word[AGE], NULL, 10);
        if (value->words > TOKEN)
                entry->token = strtoull(value->word[TOKEN], NULL, 10);
        if (value->words > SINCE)
                entry->since_ms = strtoll(value->word[SINCE], NULL, 10);
        else
                entry->since_ms = (int64_t)(entry->token / 1000);
}

/* Somebody else's value is shown as it is, as far as it can be printed. */
static void describe_foreign(const char *text, struct value *value, struct pawl_entry *entry)
{
        size_t at = (size_t)snprintf(value->owner, sizeof(value->owner), "not pawl: %.64s", text);

        for (size_t i = 0; i < at && i < sizeof(value->owner); i++)
                if ((unsigned char)value->owner[i] < 0x20 || (unsigned char)value->owner[i] >= 0x7f)
                        value->owner[i] = '?';
        entry->owner = value->owner;
        entry->note = "";
}

static void tell_holder(struct inquiry *inquiry, const char *name, const char *text, int64_t left, uint32_t waiters)
{
        struct pawl_entry entry = {.name = name, .role = PAWL_ROLE_HOLDER, .waiters = waiters};
        struct value value;

        split(text, &value);
        entry.remaining_ms = left > 0 ? left : 0;
        if (is_ours(&value, TOKEN + 1))
                describe(&value, &entry);
        else
                describe_foreign(text, &value, &entry);
        inquiry->entry(inquiry, &entry);
}

static void tell_waiter(struct inquiry *inquiry, const char *name, const char *text, const char *ticket,
                        uint32_t waiters)
{
        struct pawl_entry entry = {.name = name, .role = PAWL_ROLE_WAITER, .waiters = waiters};
        struct value value;

        split(text, &value);
        if (!is_ours(&value, RECORD_WORDS))
                return;
        describe(&value, &entry);
        entry.since_ms = (int64_t)(strtod(ticket, NULL) / 1000);
        inquiry->entry(inquiry, &entry);
}

/* { kind, ms left, waiters, { value, left, ... }, { record, ticket, ... } } */
static bool is_shown(const redisReply *reply)
{
        return reply->type == REDIS_REPLY_ARRAY && reply->elements == 5 &&
               reply->element[0]->type == REDIS_REPLY_STRING && reply->element[1]->type == REDIS_REPLY_INTEGER &&
               reply->element[2]->type == REDIS_REPLY_INTEGER && reply->element[3]->type == REDIS_REPLY_ARRAY &&
               reply->element[4]->type == REDIS_REPLY_ARRAY;
}

static int64_t number_of(const redisReply *reply)
{
        return reply->type == REDIS_REPLY_INTEGER ? reply->integer : reply->str ? strtoll(reply->str, NULL, 10) : 0;
}

static bool has_text(const redisReply *reply)
{
        return reply->type == REDIS_REPLY_STRING && reply->str;
}

/* True if there was anything to tell. */
static bool tell_name(struct inquiry *inquiry, const char *name, const redisReply *shown)
{
        const redisReply *holders = shown->element[3], *line = shown->element[4];
        uint32_t waiters = (uint32_t)shown->element[2]->integer;
        bool delayed = strcmp(shown->element[0]->str, "delay") == 0;

        for (size_t i = 0; i + 1 < holders->elements; i += 2)
                if (has_text(holders->element[i]))
                        tell_holder(inquiry, name, holders->element[i]->str, number_of(holders->element[i + 1]),
                                    waiters);
        if (holders->elements == 0 && (delayed || waiters)) {
                struct pawl_entry entry = {
                        .name = name, .role = PAWL_ROLE_FREE, .waiters = waiters, .owner = "", .note = ""};

                entry.remaining_ms = delayed && shown->element[1]->integer > 0 ? shown->element[1]->integer : 0;
                inquiry->entry(inquiry, &entry);
        }
        for (size_t i = 0; i + 1 < line->elements; i += 2)
                if (has_text(line->element[i]) && has_text(line->element[i + 1]))
                        tell_waiter(inquiry, name, line->element[i]->str, line->element[i + 1]->str, waiters);
        return holders->elements || delayed || waiters;
}

/* ---- show, history ----------------------------------------------------------------------------------------------- */

static int write_show(struct ask *ask, struct wire *wire)
{
        const struct question *question = question_of(ask);

        write_script(wire, ask, SCRIPT_SHOW, 1, 2);
        write_key(wire, question->redis->prefix, question->name, strlen(question->name));
        write_number(wire, WAITERS_SHOWN);
        return write_end(wire);
}

static int write_break(struct ask *ask, struct wire *wire);

/* There is no answer and there will be none. What was to be changed may have been, if it was sent once. */
static void question_fail(struct question *question, const struct pawl_why *why)
{
        question_finish(question, is_unsure(question) ? PAWL_IN_DOUBT : why->code, why->text);
}

bool question_heard(struct question *question, const redisReply *reply, const struct pawl_why *why)
{
        if (reply)
                return true;
        question->sent = false;
        if (question->redis->commands.ready || !question->inquiry) /* refused, or nobody wants to know */
                question_fail(question, why);
        else if (question->ask.write == write_break) /* a second time it would cut off the next holder */
                question_finish(question, PAWL_IN_DOUBT, "it was asked for, and no answer came: it may have been done");
        else /* it is asked again when the connection is back, or ends with it: inspect_down */
                question->doubtful = true;
        return false;
}

static void show_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct question *question = question_of(ask);
        bool found = false;

        if (!question_heard(question, reply, why))
                return;
        if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 1 || !is_shown(reply->element[0])) {
                question_finish(question, PAWL_CORRUPT, question_nonsense);
                return;
        }
        if (question->inquiry)
                found = tell_name(question->inquiry, question->name, reply->element[0]);
        question_finish(question, found ? PAWL_OK : PAWL_NOT_FOUND, NULL);
}

static int write_past(struct ask *ask, struct wire *wire)
{
        const struct question *question = question_of(ask);

        write_script(wire, ask, SCRIPT_PAST, 2, 3);
        write_key(wire, question->redis->prefix, question->name, strlen(question->name));
        write_text(wire, question->redis->past_key);
        write_number(wire, PAST_SHOWN);
        return write_end(wire);
}

static uint32_t how_of(const char *text)
{
        if (strcmp(text, "released") == 0)
                return PAWL_HOW_RELEASED;
        return strcmp(text, "broken") == 0 ? PAWL_HOW_BROKEN : PAWL_HOW_EXPIRED;
}

/* Behind the value of a holder that was cut off: "\nBY\nREASON", both encoded. */
static void tell_breakage(const char *at, struct pawl_entry *entry, char *by, char *reason)
{
        size_t length = strcspn(at, "\n");

        decode(at, length, by, PAWL_OWNER_MAX + 1);
        at += length + (at[length] == '\n');
        decode(at, strcspn(at, "\n"), reason, PAWL_BREAK_REASON_MAX + 1);
        entry->broken_by = by;
        entry->reason = reason;
}

static void tell_past(struct inquiry *inquiry, const char *name, const redisReply *line)
{
        char by[PAWL_OWNER_MAX + 1], reason[PAWL_BREAK_REASON_MAX + 1], *end;
        struct pawl_entry entry = {.name = name, .role = PAWL_ROLE_PAST};
        struct value value;

        if (line->type != REDIS_REPLY_ARRAY || line->elements != 3 || !has_text(line->element[0]) ||
            !has_text(line->element[1]) || !has_text(line->element[2]))
                return;
        end = strchr(line->element[2]->str, '\n');
        if (end)
                *end = '\0';
        split(line->element[2]->str, &value);
        if (!is_ours(&value, TOKEN + 1))
                return;
        describe(&value, &entry);
        entry.how = how_of(line->element[0]->str);
        if (end && entry.how == PAWL_HOW_BROKEN)
                tell_breakage(end + 1, &entry, by, reason);
        entry.until_ms = strtoll(line->element[1]->str, NULL, 10);
        if (*line->element[1]->str == '+')
                entry.until_ms += entry.since_ms;
        if (entry.until_ms < entry.since_ms)
                entry.until_ms = entry.since_ms;
        inquiry->entry(inquiry, &entry);
}

static void past_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct question *question = question_of(ask);

        if (!question_heard(question, reply, why))
                return;
        if (reply->type != REDIS_REPLY_ARRAY) {
                question_finish(question, PAWL_CORRUPT, question_nonsense);
                return;
        }
        for (size_t i = 0; question->inquiry && i < reply->elements; i++)
                tell_past(question->inquiry, question->name, reply->element[i]);
        question_finish(question, reply->elements ? PAWL_OK : PAWL_NOT_FOUND, NULL);
}

/* ---- list: walk over the keys, then show them -------------------------------------------------------------------- */

/* prefix and name as a pattern that matches nothing else. */
static void write_pattern(struct wire *wire, const struct question *question)
{
        char pattern[2 * (16 + 256 + PAWL_NAME_MAX) + 2];
        const char *parts[] = {question->queues ? "pawl:queue:" : "", question->redis->prefix, question->name};
        size_t at = 0;

        for (size_t i = 0; i < 3; i++) {
                for (const char *c = parts[i]; *c && at + 3 < sizeof(pattern); c++) {
                        if (strchr("*?[]\\^", *c))
                                pattern[at++] = '\\';
                        pattern[at++] = *c;
                }
        }
        pattern[at++] = '*';
        write_bytes(wire, pattern, at);
}

static int write_scan(struct ask *ask, struct wire *wire)
{
        const struct question *question = question_of(ask);

        write_begin(wire, 6);
        write_text(wire, "SCAN");
        write_text(wire, question->cursor);
        write_text(wire, "MATCH");
        write_pattern(wire, question);
        write_text(wire, "COUNT");
        write_number(wire, SCAN_AT_ONCE);
        return write_end(wire);
}

static int write_show_keys(struct ask *ask, struct wire *wire)
{
        const struct question *question = question_of(ask);
        size_t n = question->count - question->shown;

        if (n > SHOW_AT_ONCE)
                n = SHOW_AT_ONCE;
        write_script(wire, ask, SCRIPT_SHOW, n, n + 1);
        for (size_t i = 0; i < n; i++)
                write_text(wire, question->keys[question->shown + i]);
        write_text(wire, "0");
        return write_end(wire);
}

static void show_keys_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why);

static void show_next(struct question *question)
{
        if (question->shown == question->count || !question->inquiry) {
                question_finish(question, PAWL_OK, NULL);
                return;
        }
        question->ask.write = write_show_keys;
        question->ask.answered = show_keys_answered;
        question_ask(question);
}

static void show_keys_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct question *question = question_of(ask);

        if (!question_heard(question, reply, why))
                return;
        if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0 ||
            reply->elements > question->count - question->shown) {
                question_finish(question, PAWL_CORRUPT, question_nonsense);
                return;
        }
        for (size_t i = 0; i < reply->elements; i++) {
                const char *name = question->keys[question->shown++] + question->redis->prefix_length;

                if (question->inquiry && is_shown(reply->element[i]))
                        tell_name(question->inquiry, name, reply->element[i]);
        }
        show_next(question);
}

static int compare_keys(const void *a, const void *b)
{
        return strcmp(*(char *const *)a, *(char *const *)b);
}

/* A walk may tell a key twice, and a name may be locked and waited for. */
static void sort_keys(struct question *question)
{
        size_t kept = 0;

        if (question->count)
                qsort(question->keys, question->count, sizeof(*question->keys), compare_keys);
        for (size_t i = 0; i < question->count; i++) {
                if (kept && strcmp(question->keys[kept - 1], question->keys[i]) == 0)
                        free(question->keys[i]);
                else
                        question->keys[kept++] = question->keys[i];
        }
        question->count = kept;
}

static bool add_key(struct question *question, const redisReply *reply)
{
        size_t skip = question->queues ? strlen("pawl:queue:") : 0;

        if (!has_text(reply) || reply->len <= skip + question->redis->prefix_length)
                return true;
        if (!skip && strncmp(reply->str, "pawl:", 5) == 0) /* ours, under an empty prefix */
                return true;
        if (question->count == question->room) {
                size_t room = question->room ? 2 * question->room : 64;
                char **keys = realloc(question->keys, room * sizeof(*keys));

                if (!keys)
                        return false;
                question->keys = keys;
                question->room = room;
        }
        question->keys[question->count] = strdup(reply->str + skip);
        return question->keys[question->count] && ++question->count;
}

static bool is_scan(const redisReply *reply)
{
        return reply->type == REDIS_REPLY_ARRAY && reply->elements == 2 && has_text(reply->element[0]) &&
               reply->element[0]->len < 24 && reply->element[1]->type == REDIS_REPLY_ARRAY;
}

static void scan_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct question *question = question_of(ask);

        if (!question_heard(question, reply, why))
                return;
        if (!is_scan(reply) || !question->inquiry) {
                question_finish(question, PAWL_CORRUPT, question_nonsense);
                return;
        }
        for (size_t i = 0; i < reply->element[1]->elements; i++) {
                if (!add_key(question, reply->element[1]->element[i])) {
                        question_finish(question, PAWL_NO_MEMORY, NULL);
                        return;
                }
        }
        strcpy(question->cursor, reply->element[0]->str);
        if (strcmp(question->cursor, "0") != 0) {
                question_ask(question);
        } else if (!question->queues) {
                question->queues = true;
                question_ask(question);
        } else {
                sort_keys(question);
                show_next(question);
        }
}

/* ---- break, ask -------------------------------------------------------------------------------------------------- */

static int write_break(struct ask *ask, struct wire *wire)
{
        const struct question *question = question_of(ask);

        write_script(wire, ask, SCRIPT_BREAK, LOCK_KEYS, LOCK_KEYS + 4);
        write_lock_keys(wire, question->name, strlen(question->name));
        write_text(wire, question->redis->history);
        write_number(wire, (int64_t)question->token);
        write_text(wire, question->redis->owner);
        write_text(wire, question->reason);
        return write_end(wire);
}

static int write_ask(struct ask *ask, struct wire *wire)
{
        const struct question *question = question_of(ask);

        write_script(wire, ask, SCRIPT_ASK, LOCK_KEYS, LOCK_KEYS + 1);
        write_lock_keys(wire, question->name, strlen(question->name));
        write_text(wire, question->redis->history);
        return write_end(wire);
}

static void count_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct question *question = question_of(ask);

        if (question_heard(question, reply, why))
                question_finish(question,
                                reply->integer > 0   ? PAWL_OK
                                : reply->integer < 0 ? PAWL_BUSY
                                                     : PAWL_NOT_FOUND,
                                NULL);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void inspect_list(struct engine *engine, struct inquiry *inquiry)
{
        question_begin(engine, inquiry, write_scan, scan_answered);
}

static void inspect_show(struct engine *engine, struct inquiry *inquiry)
{
        question_begin(engine, inquiry, write_show, show_answered);
}

static void inspect_history(struct engine *engine, struct inquiry *inquiry)
{
        question_begin(engine, inquiry, write_past, past_answered);
}

static void inspect_break(struct engine *engine, struct inquiry *inquiry)
{
        struct question *question = question_new(engine, inquiry, write_break, count_answered);

        if (!question)
                return;
        question->token = inquiry->token;
        write_reason(inquiry->reason, question->reason);
        question_ask(question);
}

static void inspect_ask(struct engine *engine, struct inquiry *inquiry)
{
        question_begin(engine, inquiry, write_ask, count_answered);
}

static void inspect_forget(struct engine *engine, struct inquiry *inquiry)
{
        struct redis *redis = redis_of(engine);

        if (examine_forget(redis, inquiry))
                return;
        for (struct list *at = redis->questions.next; at != &redis->questions; at = at->next) {
                struct question *question = container_of(at, struct question, listed);

                if (question->inquiry != inquiry)
                        continue;
                question->inquiry = NULL;
                if (!question->sent)
                        question_free(question);
                return;
        }
}

const struct engine_inspect redis_inspect = {
        .list = inspect_list,
        .show = inspect_show,
        .history = inspect_history,
        .break_ = inspect_break,
        .ask = inspect_ask,
        .examine = examine_begin,
        .forget = inspect_forget,
};

void inspect_up(struct redis *redis)
{
        struct list *next;

        for (struct list *at = redis->questions.next; at != &redis->questions; at = next) {
                struct question *question = container_of(at, struct question, listed);

                next = at->next;
                if (!question->sent)
                        question_ask(question);
        }
        examine_up(redis);
}

void inspect_down(struct redis *redis, const struct pawl_why *why, bool was_ready)
{
        int64_t now = redis_now(redis);
        struct list *next;

        if (was_ready)
                return;
        for (struct list *at = redis->questions.next; at != &redis->questions; at = next) {
                struct question *question = container_of(at, struct question, listed);

                next = at->next;
                if (!redis->commands.met || redis->commands.mute >= WIRE_MUTE_MOST ||
                    now - question->tried_at >= redis->timeout)
                        question_fail(question, why);
        }
        examine_down(redis, why);
}

void inspect_free(struct redis *redis)
{
        while (!list_empty(&redis->questions))
                question_free(list_first(&redis->questions, struct question, listed));
        examine_free(redis);
}

/* ---- the server's settings --------------------------------------------------------------------------------------- */

static int write_check(struct ask *ask, struct wire *wire)
{
        (void)ask;
        write_begin(wire, 2);
        write_text(wire, "INFO");
        write_text(wire, "memory");
        return write_end(wire);
}

/* A server that throws data away under pressure throws locks away. That is said once; pawl doctor says more. */
static void check_answered(struct ask *ask, const redisReply *reply, const struct pawl_why *why)
{
        struct redis *redis = container_of(ask, struct redis, check);
        const struct engine_host *host = redis->engine.host;
        const char *policy, *limit;
        char text[256];

        (void)why;
        if (!reply || !has_text(reply))
                return;
        policy = strstr(reply->str, "maxmemory_policy:");
        limit = strstr(reply->str, "maxmemory:");
        if (!policy || !limit || strncmp(limit, "maxmemory:0\r", 12) == 0 ||
            strstr(policy, "noeviction") == policy + 17)
                return;
        snprintf(text, sizeof(text),
                 "%s: it may evict locks when its memory is full (maxmemory-policy %.*s): set it to noeviction",
                 redis->where, (int)strcspn(policy + 17, "\r\n"), policy + 17);
        host->log(host, PAWL_LOG_WARNING, text);
}

void check_server(struct redis *redis)
{
        if (redis->checked)
                return;
        redis->check.write = write_check;
        redis->check.answered = check_answered;
        redis->checked = wire_ask(&redis->commands, &redis->check) == PAWL_OK;
}
