/* inspect.c - looking at a store and interfering with it. The store's lines are copied while the client is locked and shown
 * to the caller's function afterwards, so that it may call what it likes. */
#include <stdlib.h>
#include <string.h>

#include "../base/name.h"
#include "client.h"

struct line {
        struct line *next;
        struct pawl_entry entry;
        char text[];
};

struct question {
        struct inquiry inquiry;
        struct sleeper sleeper;
        struct line *first;
        struct line **last;
        size_t lines;
        int code;
};

static char *keep(char **room, const char *text)
{
        char *kept = *room;
        size_t size = strlen(text) + 1;

        memcpy(kept, text, size);
        *room += size;
        return kept;
}

static const char *or_empty(const char *text)
{
        return text ? text : "";
}

static void on_entry(struct inquiry *inquiry, const struct pawl_entry *entry)
{
        struct question *question = container_of(inquiry, struct question, inquiry);
        const char *name = or_empty(entry->name), *owner = or_empty(entry->owner), *note = or_empty(entry->note);
        struct line *line = malloc(sizeof(*line) + strlen(name) + strlen(owner) + strlen(note) + 3);
        char *room;

        if (!line) {
                question->code = PAWL_NO_MEMORY;
                return;
        }
        room = line->text;
        line->next = NULL;
        line->entry = *entry;
        line->entry.name = keep(&room, name);
        line->entry.owner = keep(&room, owner);
        line->entry.note = keep(&room, note);
        *question->last = line;
        question->last = &line->next;
        question->lines++;
}

static void on_answered(struct inquiry *inquiry, int code, const char *why)
{
        struct question *question = container_of(inquiry, struct question, inquiry);

        (void)why;
        if (question->code == PAWL_OK)
                question->code = code;
        question->sleeper.got = 1;
        if (question->sleeper.waiting)
                event_tell_one(&question->sleeper.event);
}

static void question_init(struct question *question, const char *name)
{
        *question = (struct question){
                .inquiry = {.name = name, .entry = on_entry, .answered = on_answered},
                .sleeper = {.wanted = 1},
        };
        question->last = &question->first;
        list_init(&question->sleeper.listed);
}

static void question_free(struct question *question)
{
        while (question->first) {
                struct line *line = question->first;

                question->first = line->next;
                free(line);
        }
}

/* Asks with the client locked. A code that was set before (no memory) stands. */
static int ask(struct pawl_client *client, void (*op)(struct engine *, struct inquiry *), struct question *question)
{
        question->sleeper.got = 0;
        op(client->engine, &question->inquiry);
        if (!question->sleeper.got)
                client_sleep(client, &question->sleeper);
        return question->code;
}

static int enter(pawl_client *client, uint32_t capability)
{
        int code = client_check(client);

        if (code != PAWL_OK)
                return code;
        if (!(client->engine->capabilities & capability) || !client->engine->ops->inspect)
                return PAWL_UNSUPPORTED;
        client_lock(client);
        if (client_calls_back(client))
                code = PAWL_MISUSE;
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

int pawl_list(pawl_client *client, const char *prefix, pawl_entry_fn *fn, void *arg)
{
        struct question question;
        int code;

        if (!fn)
                return PAWL_INVALID;
        code = enter(client, PAWL_CAN_INSPECT);
        if (code != PAWL_OK)
                return code;
        question_init(&question, or_empty(prefix));
        code = ask(client, client->engine->ops->inspect->list, &question);
        client_unlock(client);
        return show_lines(&question, code, fn, arg);
}

/* One part of an answer: that it is empty says nothing about the other part. */
static int ask_part(struct pawl_client *client, void (*op)(struct engine *, struct inquiry *),
                    struct question *question)
{
        int code = ask(client, op, question);

        if (code == PAWL_NOT_FOUND)
                code = question->code = PAWL_OK;
        return code;
}

int pawl_show(pawl_client *client, const char *name, pawl_entry_fn *fn, void *arg)
{
        struct question question;
        size_t length;
        int code;

        if (!fn)
                return PAWL_INVALID;
        code = name_check(name, &length, NULL);
        if (code == PAWL_OK)
                code = enter(client, PAWL_CAN_INSPECT);
        if (code != PAWL_OK)
                return code;
        question_init(&question, name);
        code = ask_part(client, client->engine->ops->inspect->show, &question);
        if (code == PAWL_OK && client->engine->capabilities & PAWL_CAN_HISTORY)
                code = ask_part(client, client->engine->ops->inspect->history, &question);
        client_unlock(client);
        if (code == PAWL_OK && !question.lines)
                code = PAWL_NOT_FOUND;
        return show_lines(&question, code, fn, arg);
}

static int interfere(pawl_client *client, const char *name, uint32_t capability, bool break_it)
{
        const struct engine_inspect *inspect;
        struct question question;
        size_t length;
        int code = name_check(name, &length, NULL);

        if (code == PAWL_OK)
                code = enter(client, capability);
        if (code != PAWL_OK)
                return code;
        inspect = client->engine->ops->inspect;
        question_init(&question, name);
        code = ask(client, break_it ? inspect->break_ : inspect->ask, &question);
        client_unlock(client);
        question_free(&question);
        return code;
}

int pawl_break(pawl_client *client, const char *name)
{
        return interfere(client, name, PAWL_CAN_BREAK, true);
}

int pawl_ask(pawl_client *client, const char *name)
{
        return interfere(client, name, PAWL_CAN_ASK, false);
}
