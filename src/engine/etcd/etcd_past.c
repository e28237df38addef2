/* etcd_past.c - past owners, written down in batches (session/past.h), one key each:
 *
 *   PREFIX .pawl/past/ <unix time in ms, hex> - <client> - <a random number>
 *
 * A client writes at once while it has little to tell, and once a second if it has much. An end goes with the release
 * itself, in one transaction, if it is time to write: who exits right after a release has told all. The oldest
 * batches are deleted by whoever sees too many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "etcd.h"

enum { KEPT_BATCHES = 128, MORE_BATCHES = 32, BURST = 8, CURIOUS_BELOW = PAST_LINES / 4 };

static const int64_t between = SECOND;       /* batches, if there is much to tell */
static const int64_t patience = 30 * SECOND; /* for a batch that cannot be written */

/* Whose lease it was that we adopted: history has who took it, not who gave it back. */
struct adopted {
        struct list listed;
        uint64_t uid[2];
        int64_t since_ms;
        char owner[PAWL_OWNER_MAX + 1];
        char note[PAWL_NOTE_MAX + 1];
};

struct etcd_history {
        struct etcd *etcd;
        struct etcd_ask ask;  /* puts a batch */
        struct etcd_ask trim; /* looks for the oldest, then deletes them */
        struct etcd_batch batch;
        struct etcd_batch riding;      /* goes with the release of rider */
        const struct etcd_part *rider; /* NULL: none */
        struct timer timer;
        struct list adopted;
        struct list waiting; /* struct etcd_settling */
        int64_t next;        /* when the next batch may go, but for the burst */
        int64_t surplus;     /* batches to be deleted */
        char trim_end[ETCD_KEY_MAX];
        size_t trim_length;
};

int64_t etcd_unix_ms(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_REALTIME, &ts);
        return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* ---- requests ---------------------------------------------------------------------------------------------------- */

static size_t key_of_past(const struct etcd *etcd, char *key, char *end, size_t *end_length)
{
        size_t length = key_of_ours(etcd, "past/", key);

        *end_length = key_after_prefix(key, length, end);
        return length;
}

/* The batch, and how many there are. */
static void write_batch(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_history *history = container_of(ask, struct etcd_history, ask);
        char key[ETCD_KEY_MAX], end[ETCD_KEY_MAX];
        size_t end_length, length = key_of_past(history->etcd, key, end, &end_length);
        Pb__PutRequest put = PB__PUT_REQUEST__INIT;
        Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;
        Pb__RequestOp put_op = PB__REQUEST_OP__INIT, range_op = PB__REQUEST_OP__INIT;
        Pb__RequestOp *ops[] = {&put_op, &range_op};
        Pb__TxnRequest txn = PB__TXN_REQUEST__INIT;

        put.key = bytes_of((char *)(uintptr_t)history->batch.key, history->batch.key_length);
        put.value = bytes_of(history->batch.text, history->batch.size);
        put_op.request_case = PB__REQUEST_OP__REQUEST_PUT;
        put_op.put = &put;
        range.key = bytes_of(key, length);
        range.range_end = bytes_of(end, end_length);
        range.count_only = true;
        range_op.request_case = PB__REQUEST_OP__REQUEST_RANGE;
        range_op.range = &range;
        txn.success = ops;
        txn.n_success = 2;
        grpc_write(out, &txn.base);
}

static void batch_answered(struct etcd_ask *ask, const ProtobufCMessage *reply, const struct pawl_why *why);

static const struct etcd_method put_batch = {
        .path = "/etcdserverpb.KV/Txn",
        .reply = &pb__txn_response__descriptor,
        .write = write_batch,
        .answered = batch_answered,
};

/* The keys of a batch are in the order of time: the first are the oldest. */
static void write_oldest(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_history *history = container_of(ask, struct etcd_history, trim);
        char key[ETCD_KEY_MAX], end[ETCD_KEY_MAX];
        size_t end_length, length = key_of_past(history->etcd, key, end, &end_length);
        Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;

        range.key = bytes_of(key, length);
        range.range_end = bytes_of(end, end_length);
        range.limit = history->surplus;
        range.keys_only = true;
        grpc_write(out, &range.base);
}

static void oldest_answered(struct etcd_ask *ask, const ProtobufCMessage *reply, const struct pawl_why *why);

static const struct etcd_method find_oldest = {
        .path = "/etcdserverpb.KV/Range",
        .reply = &pb__range_response__descriptor,
        .write = write_oldest,
        .answered = oldest_answered,
};

static void write_delete(struct etcd_ask *ask, struct grpc_out *out)
{
        struct etcd_history *history = container_of(ask, struct etcd_history, trim);
        char key[ETCD_KEY_MAX];
        size_t length = key_of_ours(history->etcd, "past/", key);
        Pb__DeleteRangeRequest request = PB__DELETE_RANGE_REQUEST__INIT;

        request.key = bytes_of(key, length);
        request.range_end = bytes_of(history->trim_end, history->trim_length);
        grpc_write(out, &request.base);
}

static void delete_answered(struct etcd_ask *ask, const ProtobufCMessage *reply, const struct pawl_why *why)
{
        struct etcd_history *history = container_of(ask, struct etcd_history, trim);
        const Pb__DeleteRangeResponse *told = (const Pb__DeleteRangeResponse *)reply;

        (void)why; /* by whoever writes next */
        if (told)
                etcd_wrote(history->etcd, revision_of(told->header), told->deleted > 0);
}

static const struct etcd_method delete_oldest = {
        .path = "/etcdserverpb.KV/DeleteRange",
        .reply = &pb__delete_range_response__descriptor,
        .write = write_delete,
        .answered = delete_answered,
};

/* ---- when -------------------------------------------------------------------------------------------------------- */

static void batch_free(struct etcd_batch *batch)
{
        free(batch->text);
        batch->text = NULL;
}

static bool batch_name(struct etcd *etcd, struct etcd_batch *batch)
{
        char rest[64];
        uint32_t number;

        if (!batch->text)
                return false;
        loop_random(etcd->engine.host->loop, &number, sizeof(number));
        snprintf(rest, sizeof(rest), "past/%012llx-%016llx-%08x", (unsigned long long)etcd_unix_ms(),
                 (unsigned long long)etcd->client, (unsigned)number);
        batch->key_length = key_of_ours(etcd, rest, batch->key);
        return true;
}

bool batch_make(struct etcd *etcd, struct past *past, struct etcd_batch *batch)
{
        batch->text = past_write(past, &batch->size);
        return batch_name(etcd, batch);
}

bool batch_make_broken(struct etcd *etcd, struct past *past, const char *reason, struct etcd_batch *batch)
{
        batch->text = past_write_broken(past, etcd->engine.host->owner, reason, &batch->size);
        return batch_name(etcd, batch);
}

/* A few at once, then one a second. */
static bool is_time(struct etcd_history *history)
{
        int64_t now = etcd_now(history->etcd), earliest = now - (BURST - 1) * between;

        if (history->next < earliest)
                history->next = earliest;
        if (history->next > now)
                return false;
        history->next += between;
        return true;
}

static void flush(struct etcd_history *history)
{
        struct etcd_channel *channel = &history->etcd->channel;

        if (ask_busy(&history->ask) || !batch_make(history->etcd, &history->etcd->past, &history->batch))
                return;
        history->ask.patient = true;
        channel_ask(channel, &history->ask, &put_batch, etcd_now(history->etcd) + patience);
}

static void write_soon(struct etcd_history *history)
{
        struct etcd *etcd = history->etcd;

        if (ask_busy(&history->ask) || etcd->past.count == 0)
                return; /* when it is answered */
        if (is_time(history))
                flush(history);
        else if (history->timer.place == 0)
                loop_set(etcd->engine.host->loop, &history->timer, history->next); /* without memory: at the next one */
}

static void due(struct timer *timer)
{
        write_soon(container_of(timer, struct etcd_history, timer));
}

/* ---- what is answered -------------------------------------------------------------------------------------------- */

static void trim(struct etcd_history *history, const Pb__TxnResponse *told)
{
        const Pb__ResponseOp *op = told->n_responses == 2 ? told->responses[1] : NULL;

        if (!op || op->response_case != PB__RESPONSE_OP__RESPONSE_RANGE || ask_busy(&history->trim))
                return;
        if (op->range->count <= KEPT_BATCHES + MORE_BATCHES)
                return;
        history->surplus = op->range->count - KEPT_BATCHES;
        channel_ask(&history->etcd->channel, &history->trim, &find_oldest, etcd_now(history->etcd) + patience);
}

static void oldest_answered(struct etcd_ask *ask, const ProtobufCMessage *reply, const struct pawl_why *why)
{
        struct etcd_history *history = container_of(ask, struct etcd_history, trim);
        const Pb__RangeResponse *found = (const void *)reply;
        const Pb__KeyValue *last;

        (void)why;
        if (!found || found->n_kvs == 0)
                return;
        last = found->kvs[found->n_kvs - 1];
        if (last->key.len >= sizeof(history->trim_end))
                return;
        memcpy(history->trim_end, last->key.data, last->key.len);
        history->trim_end[last->key.len] = '\0'; /* the end is not in the range: one byte behind the last */
        history->trim_length = last->key.len + 1;
        channel_ask(&history->etcd->channel, ask, &delete_oldest, etcd_now(history->etcd) + patience);
}

static void settle(struct etcd_history *history)
{
        struct list told;

        list_init(&told);
        list_splice(&told, &history->waiting);
        while (!list_empty(&told)) {
                struct etcd_settling *settling = list_first(&told, struct etcd_settling, listed);

                list_remove(&settling->listed);
                settling->settled(settling);
        }
}

static void batch_answered(struct etcd_ask *ask, const ProtobufCMessage *reply, const struct pawl_why *why)
{
        struct etcd_history *history = container_of(ask, struct etcd_history, ask);
        const Pb__TxnResponse *told = (const Pb__TxnResponse *)reply;

        (void)why; /* then it is not remembered */
        batch_free(&history->batch);
        if (told) {
                etcd_wrote(history->etcd, revision_of(told->header), true);
                trim(history, told);
        }
        if (!list_empty(&history->waiting) && history->etcd->past.count > 0)
                flush(history);
        else
                write_soon(history);
        if (!ask_busy(&history->ask))
                settle(history);
}

bool history_settle(struct etcd *etcd, struct etcd_settling *settling)
{
        struct etcd_history *history = etcd->history_state;

        list_init(&settling->listed);
        if (!history || (etcd->past.count == 0 && !ask_busy(&history->ask)))
                return true;
        flush(history);
        if (!ask_busy(&history->ask)) /* no memory for it */
                return true;
        list_append(&history->waiting, &settling->listed);
        return false;
}

/* ---- what is remembered ------------------------------------------------------------------------------------------ */

static struct etcd_history *history_of(struct etcd *etcd)
{
        struct etcd_history *history = etcd->history_state;

        if (history || !etcd->history)
                return history;
        history = calloc(1, sizeof(*history));
        if (!history)
                return NULL;
        history->etcd = etcd;
        history->timer.fire = due;
        ask_init(&history->ask);
        ask_init(&history->trim);
        list_init(&history->adopted);
        list_init(&history->waiting);
        if (!etcd->past.lines.next)
                past_init(&etcd->past);
        etcd->history_state = history;
        return history;
}

static struct adopted *adopted_of(const struct etcd_history *history, const struct claim *claim)
{
        for (struct list *at = history->adopted.next; at != &history->adopted; at = at->next) {
                struct adopted *adopted = container_of(at, struct adopted, listed);

                if (adopted->uid[0] == claim->uid[0] && adopted->uid[1] == claim->uid[1])
                        return adopted;
        }
        return NULL;
}

void history_adopted(const struct etcd_part *part, const struct record *record)
{
        struct etcd_history *history = history_of(part->etcd);
        struct adopted *adopted = history ? malloc(sizeof(*adopted)) : NULL;

        if (!adopted)
                return;
        *adopted = (struct adopted){.uid = {part->claim->uid[0], part->claim->uid[1]}, .since_ms = record->since_ms};
        strcpy(adopted->owner, record->owner);
        strcpy(adopted->note, record->note);
        list_init(&adopted->listed);
        list_append(&history->adopted, &adopted->listed);
}

void history_forget(const struct claim *claim, struct etcd *etcd)
{
        struct etcd_history *history = etcd->history_state;
        struct adopted *adopted = history && claim->detached ? adopted_of(history, claim) : NULL;

        if (!adopted)
                return;
        list_remove(&adopted->listed);
        free(adopted);
}

static void note(const struct etcd_history *history, const struct etcd_part *part, uint32_t how)
{
        const struct claim *claim = part->claim;
        const struct adopted *adopted = claim->detached ? adopted_of(history, claim) : NULL;
        struct etcd *etcd = part->etcd;
        int64_t now = etcd_unix_ms();
        struct past_line line = {.token = etcd_token(etcd, part->order),
                                 .since_ms = now - (etcd_now(etcd) - part->since) / MS,
                                 .until_ms = how ? now : 0,
                                 .how = how,
                                 .mode = claim->mode,
                                 .limit = claim->max_holders,
                                 .name = claim->name,
                                 .owner = etcd->engine.host->owner,
                                 .note = claim->note};

        if (adopted) {
                line.owner = adopted->owner;
                line.note = adopted->note;
                line.since_ms = adopted->since_ms;
        }
        past_note(&etcd->past, &line);
}

void history_began(const struct etcd_part *part)
{
        struct etcd_history *history = history_of(part->etcd);

        if (!history)
                return;
        note(history, part, 0);
        write_soon(history);
}

bool history_curious(const struct etcd *etcd)
{
        return etcd->history && etcd->past.count < CURIOUS_BELOW;
}

/* A process that was killed right after a grant took what it had to say along: a call ends with its connection. */
void history_witnessed(struct etcd *etcd, const char *name, const Pb__KeyValue *holder)
{
        struct etcd_history *history = history_of(etcd);
        struct record record;
        struct past_line line = {.token = etcd_token(etcd, (uint64_t)holder->create_revision), .name = name};

        if (!history || !record_read((const char *)holder->value.data, holder->value.len, &record))
                return;
        if (record.confirms && !record.holds) /* it was passed over */
                return;
        line.since_ms = record.since_ms;
        line.mode = record.mode;
        line.limit = record.limit;
        line.owner = record.owner;
        line.note = record.note;
        past_note(&etcd->past, &line); /* written with what we begin ourselves */
}

static void stop_riding(struct etcd_history *history)
{
        batch_free(&history->riding);
        history->rider = NULL;
}

void history_ended(const struct etcd_part *part, uint32_t how)
{
        struct etcd_history *history = history_of(part->etcd);

        if (!history)
                return;
        if (history->rider == part) /* its release was overtaken by the end of its lease */
                stop_riding(history);
        note(history, part, how);
        history_forget(part->claim, part->etcd);
        write_soon(history);
}

void history_leaving(const struct etcd_part *part, uint32_t how)
{
        struct etcd_history *history = history_of(part->etcd);

        if (!history || history->rider || !is_time(history))
                return;
        note(history, part, how);
        if (batch_make(part->etcd, &part->etcd->past, &history->riding))
                history->rider = part;
}

const struct etcd_batch *history_batch(const struct etcd_part *part)
{
        const struct etcd_history *history = part->etcd->history_state;

        return history && history->rider == part ? &history->riding : NULL;
}

void history_left(const struct etcd_part *part, uint32_t how, bool done)
{
        struct etcd_history *history = history_of(part->etcd);

        if (!history)
                return;
        if (history->rider == part) {
                stop_riding(history);
                history_forget(part->claim, part->etcd);
        } else if (done) {
                history_ended(part, how);
        }
}

void history_free(struct etcd *etcd)
{
        struct etcd_history *history = etcd->history_state;

        past_free(&etcd->past);
        if (!history)
                return;
        channel_forget(&etcd->channel, &history->ask);
        channel_forget(&etcd->channel, &history->trim);
        loop_unset(etcd->engine.host->loop, &history->timer);
        while (!list_empty(&history->adopted)) {
                struct adopted *adopted = list_first(&history->adopted, struct adopted, listed);

                list_remove(&adopted->listed);
                free(adopted);
        }
        batch_free(&history->batch);
        batch_free(&history->riding);
        free(history);
        etcd->history_state = NULL;
}
