/* inspect.c - looking at a store, interfering with it, and the bytes kept beside locks. The store's lines are copied
 * while the client is locked and shown to the caller's function afterwards, so that it may call what it likes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../base/name.h"
#include "../base/options.h"
#include "../base/utf8.h"
#include "../core/lease.h"
#include "client.h"

/* How long a store may take to answer. An engine may have answered for it before, when its own time limit (the URL's
 * timeout=) had passed; an examination leaves it the time to do so, because that is a finding. */
#define PATIENCE (5 * SECOND)
#define PATIENCE_TO_EXAMINE (20 * SECOND)
#define PATIENCE_FOR_A_MESSAGE (500 * MS) /* its caller has been answered already */

struct line {
        struct line *next;
        union {
                struct pawl_entry entry;
                struct pawl_finding finding;
        };
        char text[];
};

struct question {
        struct inquiry inquiry;
        struct sleeper sleeper;
        struct pawl_client *client;
        struct timer late;
        int64_t patience;
        struct list listed; /* in client->questions while the engine knows it */
        struct line *first;
        struct line **last;
        size_t lines;
        struct pawl_value value; /* of fetch */
        int late_code;
        int code;
        bool quiet; /* a failure is nobody's business: no complaint */
};

/* ---- the answer -------------------------------------------------------------------------------------------------- */

static const char *or_empty(const char *text)
{
        return text ? text : "";
}

static const char *keep(char **room, const char *text)
{
        char *kept = *room;
        size_t size = strlen(text) + 1;

        memcpy(kept, text, size);
        *room += size;
        return kept;
}

/* A line with room for its texts, at the end of the answer. NULL: no memory, and the answer is that. */
static struct line *add_line(struct question *question, size_t size)
{
        struct line *line = malloc(sizeof(*line) + size);

        if (!line) {
                question->code = PAWL_NO_MEMORY;
                return NULL;
        }
        line->next = NULL;
        *question->last = line;
        question->last = &line->next;
        question->lines++;
        return line;
}

static void on_entry(struct inquiry *inquiry, const struct pawl_entry *entry)
{
        struct question *question = container_of(inquiry, struct question, inquiry);
        const char *name = or_empty(entry->name), *owner = or_empty(entry->owner), *note = or_empty(entry->note);
        const char *by = or_empty(entry->broken_by), *reason = or_empty(entry->reason);
        struct line *line =
                add_line(question, strlen(name) + strlen(owner) + strlen(note) + strlen(by) + strlen(reason) + 5);
        char *room;

        if (!line)
                return;
        room = line->text;
        line->entry = *entry;
        line->entry.name = keep(&room, name);
        line->entry.owner = keep(&room, owner);
        line->entry.note = keep(&room, note);
        line->entry.broken_by = keep(&room, by);
        line->entry.reason = keep(&room, reason);
}

static void on_finding(struct inquiry *inquiry, const struct pawl_finding *finding)
{
        struct question *question = container_of(inquiry, struct question, inquiry);
        const char *where = or_empty(finding->where), *what = or_empty(finding->what), *mend = or_empty(finding->mend);
        struct line *line = add_line(question, strlen(where) + strlen(what) + strlen(mend) + 3);
        char *room;

        if (!line)
                return;
        room = line->text;
        line->finding = *finding;
        line->finding.where = keep(&room, where);
        line->finding.what = keep(&room, what);
        line->finding.mend = keep(&room, mend);
}

static void on_value(struct inquiry *inquiry, const struct pawl_value *value)
{
        struct question *question = container_of(inquiry, struct question, inquiry);
        char *data = malloc(value->size + 1);

        if (!data) {
                question->code = PAWL_NO_MEMORY;
                return;
        }
        memcpy(data, value->data, value->size);
        data[value->size] = '\0';
        question->value = *value;
        question->value.data = data;
}

/* The other codes are answers, not failures of the store: the caller writes their message. */
static bool failed(int code)
{
        return code != PAWL_OK && code != PAWL_NOT_FOUND && code != PAWL_BUSY;
}

/* The sentence stays for pawl_explain. Locked. */
static int complain(struct pawl_client *client, int code, const char *why)
{
        return why_set(&client->complaint, code, "%s", why ? why : pawl_strerror(code));
}

static void on_answered(struct inquiry *inquiry, int code, const char *why)
{
        struct question *question = container_of(inquiry, struct question, inquiry);

        loop_unset(&question->client->loop, &question->late);
        list_remove(&question->listed);
        if (question->code == PAWL_OK)
                question->code = code;
        else
                why = NULL;
        if (failed(question->code) && !question->quiet)
                complain(question->client, question->code, why);
        question->sleeper.got = 1;
        if (question->sleeper.waiting)
                event_tell_one(&question->sleeper.event);
}

/* Ends it without the store's answer. Only where the engine can forget. */
static void give_up(struct question *question, int code, const char *why)
{
        struct engine *engine = question->client->engine;

        engine->ops->inspect->forget(engine, &question->inquiry);
        on_answered(&question->inquiry, code, why);
}

static void on_late(struct timer *timer)
{
        struct question *question = container_of(timer, struct question, late);

        give_up(question, question->late_code, "the store did not answer in time; what was asked may still be done");
}

/* What may have been done stays in doubt. */
void client_end_questions(struct pawl_client *client)
{
        while (!list_empty(&client->questions)) {
                struct question *question = list_first(&client->questions, struct question, listed);

                give_up(question, question->late_code == PAWL_IN_DOUBT ? PAWL_IN_DOUBT : PAWL_CANCELLED,
                        "the client is being closed");
        }
}

/* ---- the question ------------------------------------------------------------------------------------------------ */

static void question_init(struct question *question, struct pawl_client *client, const char *name)
{
        *question = (struct question){
                .inquiry = {.name = name,
                            .entry = on_entry,
                            .finding = on_finding,
                            .value = on_value,
                            .answered = on_answered},
                .sleeper = {.wanted = 1},
                .client = client,
                .patience = PATIENCE,
                .late_code = PAWL_UNREACHABLE,
                .late = {.fire = on_late},
        };
        question->last = &question->first;
        list_init(&question->sleeper.listed);
        list_init(&question->listed);
}

static void question_free(struct question *question)
{
        while (question->first) {
                struct line *line = question->first;

                question->first = line->next;
                free(line);
        }
}

/* Before the engine is asked: it is to answer in time, if it can forget. */
static int set_out(struct question *question)
{
        struct pawl_client *client = question->client;

        question->sleeper.got = 0;
        if (!client->engine->ops->inspect->forget)
                return PAWL_OK;
        if (loop_set(&client->loop, &question->late, loop_now(&client->loop) + question->patience) != 0) {
                question->code = PAWL_NO_MEMORY;
                return question->quiet ? PAWL_NO_MEMORY : complain(client, PAWL_NO_MEMORY, NULL);
        }
        list_append(&client->questions, &question->listed);
        return PAWL_OK;
}

static int await(struct question *question)
{
        if (!question->sleeper.got)
                client_sleep(question->client, &question->sleeper);
        return question->code;
}

/* Asks with the client locked. A code that was set before (no memory) stands. */
static int ask(void (*op)(struct engine *, struct inquiry *), struct question *question)
{
        if (set_out(question) != PAWL_OK)
                return question->code;
        op(question->client->engine, &question->inquiry);
        return await(question);
}

/* What stands against asking at all; the client is locked. */
static int check(struct pawl_client *client, uint32_t capability, struct pawl_why *why)
{
        if (client->closing)
                return why_set(why, PAWL_MISUSE, "the client is being closed");
        if (client_calls_back(client))
                return why_set(why, PAWL_MISUSE, "a blocking call inside a callback");
        if ((client->engine->capabilities & capability) != capability || !client->engine->ops->inspect)
                return why_set(why, PAWL_UNSUPPORTED, "this engine cannot do that");
        return PAWL_OK;
}

/* Everything that can be wrong with the call. Locked if, and only if, PAWL_OK. */
static int enter(pawl_client *client, uint32_t capability, bool answerable, const char *name, bool named)
{
        size_t length;
        int code = client_check(client);

        if (code != PAWL_OK)
                return code;
        client_lock(client);
        if (!answerable)
                code = complain(client, PAWL_INVALID, "there is no function to give the answer to");
        else if (named)
                code = name_check(name, &length, &client->complaint);
        if (code == PAWL_OK)
                code = check(client, capability, &client->complaint);
        if (code != PAWL_OK)
                client_unlock(client);
        return code;
}

static int show_lines(struct question *question, int code, pawl_entry_fn *fn, void *arg)
{
        if (code == PAWL_OK)
                for (struct line *line = question->first; line; line = line->next)
                        if (fn(&line->entry, arg) != 0)
                                break;
        question_free(question);
        return code;
}

static int64_t look_patience(const struct pawl_client *client)
{
        return client->look_ms ? client->look_ms * MS : PATIENCE;
}

/* ---- the calls --------------------------------------------------------------------------------------------------- */

int pawl_list(pawl_client *client, const char *prefix, pawl_entry_fn *fn, void *arg)
{
        struct question question;
        int code = enter(client, PAWL_CAN_INSPECT, fn, NULL, false);

        if (code != PAWL_OK)
                return code;
        question_init(&question, client, or_empty(prefix));
        question.patience = look_patience(client);
        code = ask(client->engine->ops->inspect->list, &question);
        client_unlock(client);
        return show_lines(&question, code, fn, arg);
}

/* One part of an answer: that it is empty says nothing about the other part. */
static int ask_part(void (*op)(struct engine *, struct inquiry *), struct question *question)
{
        int code = ask(op, question);

        if (code == PAWL_NOT_FOUND)
                code = question->code = PAWL_OK;
        return code;
}

static int show(pawl_client *client, const char *name, bool past, pawl_entry_fn *fn, void *arg)
{
        struct question question;
        int code = enter(client, PAWL_CAN_INSPECT, fn, name, true);

        if (code != PAWL_OK)
                return code;
        question_init(&question, client, name);
        question.patience = look_patience(client);
        code = ask_part(client->engine->ops->inspect->show, &question);
        if (code == PAWL_OK && past && client->engine->capabilities & PAWL_CAN_HISTORY)
                code = ask_part(client->engine->ops->inspect->history, &question);
        if (code == PAWL_OK && !question.lines)
                code = complain(client, PAWL_NOT_FOUND, NULL);
        client_unlock(client);
        return show_lines(&question, code, fn, arg);
}

int pawl_show(pawl_client *client, const char *name, pawl_entry_fn *fn, void *arg)
{
        return show(client, name, true, fn, arg);
}

int pawl_look(pawl_client *client, const char *name, pawl_entry_fn *fn, void *arg)
{
        return show(client, name, false, fn, arg);
}

/* ---- refusals ------------------------------------------------------------------------------------------------------ */

/* The first holder, and how many there are; a lock-delay if there is none. */
static const struct pawl_entry *find_holder(const struct question *question, uint32_t *count)
{
        const struct pawl_entry *found = NULL;

        *count = 0;
        for (const struct line *line = question->first; line; line = line->next) {
                const struct pawl_entry *entry = &line->entry;

                if (entry->role == PAWL_ROLE_HOLDER && (*count)++ == 0)
                        found = entry;
                else if (!found && entry->role == PAWL_ROLE_FREE && entry->remaining_ms > 0)
                        found = entry;
        }
        return found;
}

/* " for 3m12s (lease ends within 8.2s)": of foreign holders the store may not know either. */
static void write_times(const struct pawl_client *client, const struct pawl_entry *holder, char *text, size_t size)
{
        char held[40] = "", left[48] = "", number[24];

        if (holder->since_ms > 0)
                snprintf(held, sizeof(held), " for %s",
                         duration_text(loop_wall(&client->loop) - holder->since_ms * MS, number, sizeof(number)));
        if (holder->remaining_ms > 0)
                snprintf(left, sizeof(left), " (lease ends within %s)",
                         duration_text(holder->remaining_ms * MS, number, sizeof(number)));
        snprintf(text, size, "%s%s", held, left);
}

/* "held by web1:4711:backup.sh (nightly) and 2 more for 3m12s (lease ends within 8.2s)" */
static void write_holder(const struct pawl_client *client, const struct pawl_entry *holder, uint32_t count, char *text,
                         size_t size)
{
        char times[96], note[PAWL_NOTE_MAX + 4] = "", others[24] = "";

        if (*holder->note)
                snprintf(note, sizeof(note), " (%.*s)", PAWL_NOTE_MAX, holder->note);
        if (count > 1)
                snprintf(others, sizeof(others), " and %u more", count - 1);
        write_times(client, holder, times, sizeof(times));
        snprintf(text, size, "held by %.*s%s%s%s", PAWL_OWNER_MAX,
                 *holder->owner ? holder->owner : "a client without a name", note, others, times);
}

static void write_refusal(const struct pawl_client *client, const char *name, const struct pawl_entry *holder,
                          uint32_t count, struct pawl_why *why)
{
        char text[384], times[24];

        if (count == 0)
                snprintf(text, sizeof(text), "its last holder failed, and its lock-delay ends in %s",
                         duration_text(holder->remaining_ms * MS, times, sizeof(times)));
        else
                write_holder(client, holder, count, text, sizeof(text));
        if (why->code == PAWL_TIMEOUT)
                why_set(why, PAWL_TIMEOUT, "the lock '%s' was not free in time: %s", name, text);
        else
                why_set(why, PAWL_BUSY, "the lock '%s' is taken: %s", name, text);
}

/* Asks, for a message, who has the lock; NULL: nobody has, or it is not known. The answer is to be freed. */
static const struct pawl_entry *look_for_holder(struct question *question, struct pawl_client *client, const char *name,
                                                uint32_t *count)
{
        question_init(question, client, name);
        question->patience = PATIENCE_FOR_A_MESSAGE;
        question->quiet = true;
        if (client->closing || !(client->engine->capabilities & PAWL_CAN_INSPECT) ||
            ask(client->engine->ops->inspect->show, question) != PAWL_OK)
                return NULL;
        return find_holder(question, count);
}

void client_name_holder(struct pawl_client *client, const char *name, struct pawl_why *why)
{
        struct question question;
        uint32_t count;
        const struct pawl_entry *holder = look_for_holder(&question, client, name, &count);

        if (holder)
                write_refusal(client, name, holder, count, why);
        question_free(&question);
}

/* ---- interfering --------------------------------------------------------------------------------------------------- */

int pawl_ask(pawl_client *client, const char *name)
{
        struct question question;
        int code = enter(client, PAWL_CAN_ASK, true, name, true);

        if (code != PAWL_OK)
                return code;
        question_init(&question, client, name);
        code = ask(client->engine->ops->inspect->ask, &question);
        if (code == PAWL_NOT_FOUND)
                complain(client, code, NULL);
        client_unlock(client);
        question_free(&question);
        return code;
}

static bool is_control(uint32_t character)
{
        return character < 0x20 || (character >= 0x7f && character < 0xa0);
}

/* As many whole characters as fit; what a terminal would obey is a blank, what is no UTF-8 a question mark. */
static void clean_reason(const char *reason, char text[PAWL_BREAK_REASON_MAX + 1])
{
        size_t left = reason ? strlen(reason) : 0, at = 0;

        while (left) {
                uint32_t character = 0;
                size_t length = utf8_next(reason, left, &character);
                size_t taken = length ? length : 1;

                if (at + taken > PAWL_BREAK_REASON_MAX)
                        break;
                if (!length || is_control(character)) {
                        text[at++] = length ? ' ' : '?';
                } else {
                        memcpy(text + at, reason, length);
                        at += length;
                }
                reason += taken;
                left -= taken;
        }
        text[at] = '\0';
}

/* The token that was given does not hold it: who does, so that the caller need not look. */
static void write_mismatch(struct pawl_client *client, const char *name, uint64_t token)
{
        char text[384] = "held by another client", number[40] = "";
        struct question question;
        uint32_t count = 0;
        const struct pawl_entry *holder = look_for_holder(&question, client, name, &count);

        if (holder && count) {
                write_holder(client, holder, count, text, sizeof(text));
                snprintf(number, sizeof(number), ", token %llu", (unsigned long long)holder->token);
        }
        question_free(&question);
        why_set(&client->complaint, PAWL_BUSY, "the lock '%s' was not broken, token %llu does not hold it: %s%s", name,
                (unsigned long long)token, text, number);
}

static int read_break(const struct pawl_break_options *theirs, struct pawl_break_options *options)
{
        int code;

        *options = (struct pawl_break_options){0};
        if (theirs && theirs->size == 0)
                return why_set(theirs->why, PAWL_INVALID, OPTIONS_SIZELESS, "PAWL_BREAK(...)", "pawl_break_options");
        code = options_read(options, sizeof(*options), theirs);
        if (code == PAWL_OK && options->flags)
                code = PAWL_UNSUPPORTED;
        return code == PAWL_UNSUPPORTED ? why_set(options->why, code, OPTIONS_NEWER, "pawl_break_options") : code;
}

/* The client is locked. */
static int break_locked(pawl_client *client, const char *name, const struct pawl_break_options *options)
{
        char reason[PAWL_BREAK_REASON_MAX + 1];
        struct question question;
        int code;

        clean_reason(options->reason, reason);
        question_init(&question, client, name);
        question.inquiry.token = options->token;
        question.inquiry.reason = reason;
        question.late_code = PAWL_IN_DOUBT; /* a second time it could cut off the next holder */
        code = ask(client->engine->ops->inspect->break_, &question);
        question_free(&question);
        if (code == PAWL_NOT_FOUND)
                complain(client, code, NULL);
        else if (code == PAWL_BUSY)
                write_mismatch(client, name, options->token);
        return code;
}

int pawl_break_if(pawl_client *client, const char *name, const struct pawl_break_options *options)
{
        struct pawl_break_options read;
        int code = read_break(options, &read);

        if (code != PAWL_OK)
                return code;
        code = client_check(client);
        if (code != PAWL_OK)
                return why_set(read.why, code, "%s",
                               code == PAWL_FORKED
                                       ? "the client belongs to the parent process: open another after fork()"
                                       : "there is no client: it is NULL");
        code = enter(client, PAWL_CAN_BREAK, true, name, true);
        if (code != PAWL_OK) {
                if (read.why)
                        (void)pawl_explain(client, read.why);
                return code;
        }
        code = break_locked(client, name, &read);
        if (code != PAWL_OK && read.why)
                *read.why = client->complaint;
        client_unlock(client);
        return code;
}

int pawl_break(pawl_client *client, const char *name)
{
        return pawl_break_if(client, name, NULL);
}

/* What was found before the examination failed is worth knowing all the same. */
int pawl_examine(pawl_client *client, pawl_finding_fn *fn, void *arg)
{
        struct question question;
        bool insecure = false;
        int code = enter(client, 0, fn, NULL, false);

        if (code != PAWL_OK)
                return code;
        question_init(&question, client, "");
        question.patience = PATIENCE_TO_EXAMINE;
        if (url_flag(client->url, "insecure", &insecure, NULL) == PAWL_OK && insecure)
                on_finding(&question.inquiry, &url_insecure);
        if (client->engine->ops->inspect->examine)
                code = ask(client->engine->ops->inspect->examine, &question);
        else
                code = complain(client, PAWL_UNSUPPORTED, "this engine has nothing to examine");
        client_unlock(client);
        for (struct line *line = question.first; line; line = line->next)
                if (fn(&line->finding, arg) != 0)
                        break;
        question_free(&question);
        return code;
}

int pawl_init(pawl_client *client, uint32_t flags)
{
        struct question question;
        int code = enter(client, 0, true, NULL, false);

        if (code != PAWL_OK)
                return code;
        question_init(&question, client, "");
        question.inquiry.force = flags & PAWL_INIT_AGAIN;
        if (flags & ~(uint32_t)PAWL_INIT_AGAIN)
                code = complain(client, PAWL_UNSUPPORTED, "a flag of pawl_init that this version does not know");
        else if (client->engine->ops->inspect->init)
                code = ask(client->engine->ops->inspect->init, &question);
        else
                code = complain(client, PAWL_UNSUPPORTED, "this engine needs no preparation");
        client_unlock(client);
        question_free(&question);
        return code;
}

/* ---- bytes beside a lock ----------------------------------------------------------------------------------------- */

static bool can_keep(const struct pawl_client *client)
{
        return client->engine->capabilities & PAWL_CAN_KEEP && client->engine->ops->values;
}

int pawl_fetch(pawl_client *client, const char *name, struct pawl_value *value)
{
        struct question question;
        int code = enter(client, 0, value, name, true);

        if (code != PAWL_OK)
                return code;
        question_init(&question, client, name);
        code = can_keep(client) ? ask(client->engine->ops->values->fetch, &question)
                                : complain(client, PAWL_UNSUPPORTED, "this engine keeps nothing beside its locks");
        client_unlock(client);
        if (code == PAWL_OK)
                *value = question.value;
        else
                free(question.value.data);
        return code;
}

/* Everything that can be wrong with the call; the client is locked. */
static int check_store(struct pawl_client *client, struct pawl_lock *lock, const void *data, size_t size,
                       int64_t keep_ms)
{
        if (!lock->owned || lock->state == LOCK_WAITING || lock->state == LOCK_REFUSED)
                return complain(client, PAWL_MISUSE, "the lock is not held");
        if (client_calls_back(client))
                return complain(client, PAWL_MISUSE, "a blocking call inside a callback");
        if (!can_keep(client))
                return complain(client, PAWL_UNSUPPORTED, "this engine keeps nothing beside its locks");
        if (lock->claim.mode != PAWL_EXCLUSIVE)
                return complain(client, PAWL_INVALID, "only who holds a lock alone may store under its name");
        if (size > PAWL_VALUE_MAX || (size && !data))
                return complain(client, PAWL_INVALID, "there are no data, or more than 65536 bytes of them");
        if (keep_ms < 0 || keep_ms > LEASE_TTL_MAX / MS)
                return complain(client, PAWL_INVALID,
                                "data are kept for up to 366 days, or (0) until they are replaced");
        if (!core_holds(lock, loop_now(&client->loop)))
                return complain(client, PAWL_LOST, NULL);
        return PAWL_OK;
}

static int store_locked(struct pawl_client *client, struct pawl_lock *lock, struct question *question)
{
        if (set_out(question) != PAWL_OK)
                return question->code;
        client->engine->ops->values->store(client->engine, &lock->claim, lock->token, &question->inquiry);
        return await(question); /* the lock may have been given back meanwhile */
}

int pawl_store(pawl_lock *lock, const void *data, size_t size, int64_t keep_ms)
{
        char name[PAWL_NAME_MAX + 1];
        struct pawl_client *client;
        struct question question;
        int code;

        if (!lock)
                return PAWL_INVALID;
        client = client_of(lock);
        code = client_check(client);
        if (code != PAWL_OK)
                return code;
        client_lock(client);
        code = check_store(client, lock, data, size, keep_ms);
        if (code == PAWL_OK) {
                memcpy(name, lock->claim.name, lock->claim.name_length + 1);
                question_init(&question, client, name);
                question.inquiry.data = data;
                question.inquiry.size = size;
                question.inquiry.keep = keep_ms * MS;
                question.late_code = PAWL_IN_DOUBT;
                code = store_locked(client, lock, &question);
        }
        client_unlock(client);
        return code;
}

int pawl_explain(pawl_client *client, struct pawl_why *why)
{
        int code = client_check(client);

        if (code != PAWL_OK)
                return code;
        if (!why)
                return PAWL_INVALID;
        client_lock(client);
        *why = client->complaint;
        client_unlock(client);
        return PAWL_OK;
}
