/* etcd_inspect.c - list, show, history; and the table of all that can be asked about a store. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd_inspect.h"

/* ---- questions --------------------------------------------------------------------------------------------------- */

static void question_free(struct question *question)
{
        list_remove(&question->listed);
        list_remove(&question->settling.listed);
        channel_forget(&question->etcd->channel, &question->ask);
        break_free(question->acting);
        storing_free(question);
        view_free(&question->view);
        free(question);
}

void question_finish(struct question *question, int code, const char *why)
{
        struct inquiry *inquiry = question->inquiry;
        char text[sizeof(((struct pawl_why *)NULL)->text)];

        snprintf(text, sizeof(text), "%s", why ? why : ""); /* it may be in what is freed now */
        question_free(question);
        inquiry->answered(inquiry, code, why ? text : NULL);
}

void question_ask(struct question *question, const struct etcd_method *method)
{
        channel_ask(&question->etcd->channel, &question->ask, method,
                    etcd_now(question->etcd) + question->etcd->timeout);
}

struct question *question_new(struct engine *engine, struct inquiry *inquiry, bool one,
                              void (*read)(struct question *question))
{
        struct etcd *etcd = etcd_of(engine);
        struct question *question = calloc(1, sizeof(*question));

        if (!question) {
                inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
                return NULL;
        }
        question->etcd = etcd;
        question->inquiry = inquiry;
        question->one = one;
        question->read = read;
        snprintf(question->name, sizeof(question->name), "%s", inquiry->name);
        question->name_length = strlen(question->name);
        ask_init(&question->ask);
        list_init(&question->settling.listed);
        list_append(&etcd->questions, &question->listed);
        return question;
}

/* ---- what is told ------------------------------------------------------------------------------------------------ */

/* Somebody else's key is shown as it is, as far as it can be printed. */
static void describe_foreign(const struct seen *seen, char *owner, size_t size)
{
        int length = snprintf(owner, size, "not pawl: %.*s", (int)seen->rest_length, seen->rest);

        for (int i = 0; i < length && (size_t)i + 1 < size; i++)
                if ((unsigned char)owner[i] < 0x20 || (unsigned char)owner[i] >= 0x7f)
                        owner[i] = '?';
}

static int64_t remaining(const struct view *view, const struct seen *seen)
{
        int64_t left = view_left(view, seen->lease);

        if (!seen->ours)
                return left > 0 ? left : 0;
        return left >= 0 && left < seen->record.ttl_ms ? left : seen->record.ttl_ms;
}

static void tell_seen(struct question *question, const struct seen_line *line, const struct seen *seen, bool holds)
{
        char owner[PAWL_OWNER_MAX + 1];
        struct pawl_entry entry = {.name = line->name,
                                   .owner = owner,
                                   .note = "",
                                   .role = holds ? PAWL_ROLE_HOLDER : PAWL_ROLE_WAITER,
                                   .waiters = (uint32_t)(line->count - line->holders)};

        if (holds) {
                entry.token = seen->ours ? etcd_token(question->etcd, seen->contender.order) : 0;
                entry.remaining_ms = remaining(&question->view, seen);
        }
        if (seen->ours) {
                entry.owner = seen->record.owner;
                entry.note = seen->record.note;
                entry.mode = seen->record.mode;
                entry.max_holders = seen->record.limit;
                entry.since_ms = seen->record.since_ms;
                entry.flags = seen->record.detached ? PAWL_DETACH : 0;
                entry.age = seen->record.age;
        } else {
                describe_foreign(seen, owner, sizeof(owner));
        }
        question->inquiry->entry(question->inquiry, &entry);
}

static void tell_free(struct question *question, const char *name, uint32_t waiters, const struct seen_marker *marker)
{
        int64_t left = marker ? view_left(&question->view, marker->lease) : 0;
        struct pawl_entry entry = {.name = name,
                                   .owner = "",
                                   .note = "",
                                   .role = PAWL_ROLE_FREE,
                                   .waiters = waiters,
                                   .remaining_ms = left > 0 ? left : 0};

        question->inquiry->entry(question->inquiry, &entry);
}

static void tell_line(struct question *question, const struct seen_line *line)
{
        const struct view *view = &question->view;
        const struct seen *seen = view->seen + line->first;

        for (size_t i = 0; i < line->holders; i++)
                tell_seen(question, line, &seen[i], true);
        if (line->holders == 0)
                tell_free(question, line->name, (uint32_t)line->count,
                          line->delayed ? &view->markers[line->marker] : NULL);
        for (size_t i = line->holders; question->one && i < line->count; i++)
                tell_seen(question, line, &seen[i], false);
        question->found = true;
}

/* Markers of names on which nobody stands. */
static void tell_delays(struct question *question)
{
        struct view *view = &question->view;

        for (size_t i = 0; i < view->marker_count; i++) {
                struct seen_marker *marker = &view->markers[i];

                if (marker->told)
                        continue;
                for (size_t k = i; k < view->marker_count; k++)
                        if (strcmp(view->markers[k].name, marker->name) == 0)
                                view->markers[k].told = true;
                tell_free(question, marker->name, 0, marker);
                question->found = true;
        }
}

/* ---- list, show -------------------------------------------------------------------------------------------------- */

static void tell_page(struct question *question)
{
        struct view *view = &question->view;
        size_t whole = view->line_count - (view->more && view->line_count > 0 ? 1 : 0);

        for (size_t i = 0; i < whole; i++)
                tell_line(question, &view->lines[i]);
        view_next(view);
        if (view->more) {
                view_read(question);
                return;
        }
        tell_delays(question);
        question_finish(question, question->found || !question->one ? PAWL_OK : PAWL_NOT_FOUND, NULL);
}

static void page_read(struct question *question)
{
        view_lefts(question, tell_page);
}

static void inspect_list(struct engine *engine, struct inquiry *inquiry)
{
        struct question *question = question_new(engine, inquiry, false, page_read);

        if (question)
                view_read(question);
}

static void inspect_show(struct engine *engine, struct inquiry *inquiry)
{
        struct question *question = question_new(engine, inquiry, true, page_read);

        if (question)
                view_read(question);
}

/* ---- history ----------------------------------------------------------------------------------------------------- */

static void write_history(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct question *question = container_of(ask, struct question, ask);
        const struct etcd *etcd = question->etcd;
        char past[ETCD_KEY_MAX], past_end[ETCD_KEY_MAX], line[ETCD_KEY_MAX], line_end[ETCD_KEY_MAX];
        size_t length = key_of_ours(etcd, "past/", past);
        Pb__RangeRequest ranges[2];
        Pb__RequestOp ops[2], *op_list[] = {&ops[0], &ops[1]};
        Pb__TxnRequest txn = PB__TXN_REQUEST__INIT;

        for (int i = 0; i < 2; i++) {
                pb__range_request__init(&ranges[i]);
                pb__request_op__init(&ops[i]);
                ops[i].request_case = PB__REQUEST_OP__REQUEST_RANGE;
                ops[i].range = &ranges[i];
        }
        ranges[0].key = bytes_of(past, length);
        ranges[0].range_end = bytes_of(past_end, key_after_prefix(past, length, past_end));
        length = key_of_line(etcd, question->name, question->name_length, line);
        ranges[1].key = bytes_of(line, length);
        ranges[1].range_end = bytes_of(line_end, key_after_prefix(line, length, line_end));
        ranges[1].keys_only = true;
        txn.success = op_list;
        txn.n_success = 2;
        grpc_write(out, &txn.base);
}

/* Who stands there, for past_tell. */
struct living {
        const struct etcd *etcd;
        const Pb__RangeResponse *line;
};

static bool lives(void *arg, uint64_t token)
{
        const struct living *living = arg;

        for (size_t i = 0; i < living->line->n_kvs; i++)
                if (etcd_token(living->etcd, (uint64_t)living->line->kvs[i]->create_revision) == token)
                        return true;
        return false;
}

/* Counts what is told. */
struct counter {
        struct inquiry inquiry; /* first */
        struct inquiry *real;
        size_t count;
};

static void count_entry(struct inquiry *inquiry, const struct pawl_entry *entry)
{
        struct counter *counter = (struct counter *)(void *)inquiry;

        counter->count++;
        counter->real->entry(counter->real, entry);
}

static void history_answered(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct question *question = container_of(ask, struct question, ask);
        const Pb__TxnResponse *reply = (const Pb__TxnResponse *)message;
        struct counter counter = {.inquiry.entry = count_entry, .real = question->inquiry};
        struct living living = {.etcd = question->etcd};
        const Pb__RangeResponse *past;
        struct past_view view = {0};

        if (!reply || reply->n_responses != 2 ||
            reply->responses[0]->response_case != PB__RESPONSE_OP__RESPONSE_RANGE ||
            reply->responses[1]->response_case != PB__RESPONSE_OP__RESPONSE_RANGE) {
                question_finish(question, reply ? PAWL_CORRUPT : why->code,
                                reply ? "the answer makes no sense" : why->text);
                return;
        }
        past = reply->responses[0]->range;
        living.line = reply->responses[1]->range;
        for (size_t i = 0; i < past->n_kvs; i++) {
                const ProtobufCBinaryData *value = &past->kvs[i]->value;

                if (past_read(&view, (const char *)value->data, value->len, question->name) != PAWL_OK) {
                        past_view_free(&view);
                        question_finish(question, PAWL_NO_MEMORY, NULL);
                        return;
                }
        }
        past_tell(&view, &counter.inquiry, lives, &living, etcd_unix_ms());
        question_finish(question, counter.count ? PAWL_OK : PAWL_NOT_FOUND, NULL);
}

static const struct etcd_method read_history = {
        .path = "/etcdserverpb.KV/Txn",
        .reply = &pb__txn_response__descriptor,
        .write = write_history,
        .answered = history_answered,
};

static void settled(struct etcd_settling *settling)
{
        question_ask(container_of(settling, struct question, settling), &read_history);
}

/* What this client has still to write down is written first. */
static void inspect_history(struct engine *engine, struct inquiry *inquiry)
{
        struct question *question = question_new(engine, inquiry, true, NULL);

        if (!question)
                return;
        question->settling.settled = settled;
        if (history_settle(question->etcd, &question->settling))
                question_ask(question, &read_history);
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static void inspect_forget(struct engine *engine, struct inquiry *inquiry)
{
        struct etcd *etcd = etcd_of(engine);

        if (examine_forget(etcd, inquiry))
                return;
        for (struct list *at = etcd->questions.next; at != &etcd->questions; at = at->next) {
                struct question *question = container_of(at, struct question, listed);

                if (question->inquiry == inquiry) {
                        question_free(question);
                        return;
                }
        }
}

const struct engine_inspect etcd_inspect = {
        .list = inspect_list,
        .show = inspect_show,
        .history = inspect_history,
        .break_ = break_begin,
        .ask = ask_begin,
        .examine = examine_begin,
        .init = examine_init,
        .forget = inspect_forget,
};

void inspect_free(struct etcd *etcd)
{
        while (!list_empty(&etcd->questions))
                question_free(list_first(&etcd->questions, struct question, listed));
        examine_free(etcd);
}
