/* etcd_turn.c - claims that confirm their turn, while they wait: is the head of the queue one of those, and dead? It
 * is deleted on the condition that it was not written to since it was made: a head that has confirmed stays, and one
 * that is deleted never held. See session/turn.h; the confirming itself is in etcd_claim.c. */
#include <stdlib.h>
#include <string.h>

#include "../session/turn.h"
#include "etcd_txn.h"

/* How much of the queue is read: whoever is further behind need not know its rank exactly. */
enum { SEEN_OF_QUEUE = 16 };

/* Of a claim that waits. Its requests are apart from the claim's own: they never concern the claim's key. */
struct etcd_turn {
        struct etcd_ask ask;
        struct timer timer;
        struct etcd_part *part;
        struct turn turn;
        size_t rank; /* so many are before the claim, when it last read the queue */
        size_t key_length;
        char key[ETCD_KEY_MAX]; /* of the head */
};

static struct etcd_turn *turn_of_ask(struct etcd_ask *ask)
{
        return container_of(ask, struct etcd_turn, ask);
}

static struct loop *loop_of(const struct etcd_turn *turn)
{
        return turn->part->etcd->engine.host->loop;
}

static void rest(struct etcd_turn *turn)
{
        int64_t at = turn_next(&turn->turn, turn->rank, etcd_now(turn->part->etcd));

        (void)loop_set(loop_of(turn), &turn->timer, at); /* moving a set timer: cannot fail */
}

/* What was seen before an answer was lost counts no more: the head may have suffered from the same servers. */
static void begin_anew(struct etcd_turn *turn)
{
        turn->turn = (struct turn){0};
        rest(turn);
}

static void ask_for(struct etcd_turn *turn, const struct etcd_method *method)
{
        struct etcd *etcd = turn->part->etcd;

        channel_ask(&etcd->channel, &turn->ask, method, etcd_now(etcd) + etcd->timeout);
}

static void send_check(struct etcd_turn *turn);

/* ---- passing over ------------------------------------------------------------------------------------------------ */

/* A key that was made anew, or written, has a later revision. */
static void write_pass_over(struct etcd_ask *ask, struct grpc_out *out)
{
        struct etcd_turn *turn = turn_of_ask(ask);
        ProtobufCBinaryData key = bytes_of(turn->key, turn->key_length);
        struct etcd_txn txn;

        txn_begin(&txn);
        txn_if_written(&txn, key, (int64_t)turn->turn.head);
        txn_delete(&txn, TXN_THEN, key);
        grpc_write(out, &txn.request.base);
}

static void passed_over(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_turn *turn = turn_of_ask(ask);
        const Pb__TxnResponse *reply = (const Pb__TxnResponse *)message;

        (void)why;
        if (reply && reply->succeeded) {
                etcd_wrote(turn->part->etcd, revision_of(reply->header), true);
                send_check(turn);
        } else {
                begin_anew(turn); /* it has confirmed, or is gone; or nobody knows */
        }
}

static const struct etcd_method pass_over_method = {
        .path = "/etcdserverpb.KV/Txn",
        .reply = &pb__txn_response__descriptor,
        .write = write_pass_over,
        .answered = passed_over,
};

/* ---- checking ---------------------------------------------------------------------------------------------------- */

/* The head of the queue and those behind it, and whether there is any marker. Any member may answer: what it has not
 * heard of makes the deletion fail. */
static void write_check(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_part *part = turn_of_ask(ask)->part;
        const struct claim *claim = part->claim;
        char line[ETCD_KEY_MAX], line_end[ETCD_KEY_MAX], markers[ETCD_KEY_MAX], markers_end[ETCD_KEY_MAX];
        size_t length = key_of_line(part->etcd, claim->name, claim->name_length, line);
        Pb__RangeRequest *range;
        struct etcd_txn txn;

        txn_begin(&txn);
        range = txn_range(&txn, TXN_THEN, bytes_of(line, length));
        range->range_end = bytes_of(line_end, key_after_prefix(line, length, line_end));
        range->sort_target = PB__SORT_TARGET__BY_CREATE;
        range->sort_order = PB__SORT_ORDER__ASCENDING;
        range->limit = SEEN_OF_QUEUE;
        range->serializable = true;
        length = key_of_markers(part->etcd, claim->name, claim->name_length, markers);
        range = txn_range(&txn, TXN_THEN, bytes_of(markers, length));
        range->range_end = bytes_of(markers_end, key_after_prefix(markers, length, markers_end));
        range->keys_only = true;
        range->limit = 1;
        range->serializable = true;
        grpc_write(out, &txn.request.base);
}

static size_t rank_in(const struct etcd_turn *turn, const Pb__RangeResponse *line)
{
        for (size_t i = 0; i < line->n_kvs; i++)
                if ((uint64_t)line->kvs[i]->create_revision >= turn->part->order)
                        return i;
        return (size_t)line->count;
}

/* What another wrote is no record of ours, and such a head is left alone. */
static uint8_t awaits(const Pb__KeyValue *head)
{
        struct record record;

        if (head->mod_revision != head->create_revision || head->key.len > ETCD_KEY_MAX ||
            !record_read((const char *)head->value.data, head->value.len, &record))
                return 0;
        return record.confirms;
}

static void see_head(struct etcd_turn *turn, const Pb__KeyValue *head)
{
        int64_t now = etcd_now(turn->part->etcd);

        turn_sees(&turn->turn, (uint64_t)head->create_revision, awaits(head), now);
        if (!turn_is_over(&turn->turn, now)) {
                rest(turn);
                return;
        }
        turn->key_length = head->key.len;
        memcpy(turn->key, head->key.data, head->key.len);
        ask_for(turn, &pass_over_method);
}

static void checked(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_turn *turn = turn_of_ask(ask);
        const Pb__TxnResponse *reply = (const Pb__TxnResponse *)message;
        const Pb__RangeResponse *line = reply ? txn_range_told(reply, 0) : NULL;
        const Pb__RangeResponse *markers = reply ? txn_range_told(reply, 1) : NULL;

        (void)why;
        if (!line || !markers) {
                begin_anew(turn);
                return;
        }
        turn->rank = rank_in(turn, line);
        if (turn->rank == 0 || line->n_kvs == 0 || markers->n_kvs > 0) /* a marker may keep the head from its turn */
                begin_anew(turn);
        else
                see_head(turn, line->kvs[0]);
}

static const struct etcd_method check_method = {
        .path = "/etcdserverpb.KV/Txn",
        .reply = &pb__txn_response__descriptor,
        .write = write_check,
        .answered = checked,
};

static void send_check(struct etcd_turn *turn)
{
        ask_for(turn, &check_method);
}

static void check(struct timer *timer)
{
        struct etcd_turn *turn = container_of(timer, struct etcd_turn, timer);
        struct etcd_part *part = turn->part;

        (void)loop_set(loop_of(turn), timer, NEVER);
        if (ask_busy(&turn->ask))
                return; /* its answer sets it */
        if (part->state == PART_WAITING && !wait_behind_checker(part) && channel_ready(&part->etcd->channel))
                send_check(turn);
        else
                begin_anew(turn);
}

/* ---- begin and end ----------------------------------------------------------------------------------------------- */

struct etcd_turn *turn_begin(struct etcd_part *part)
{
        struct etcd_turn *turn = part->claim->confirms && part->claim->wait ? calloc(1, sizeof(*turn)) : NULL;

        if (!turn)
                return NULL;
        ask_init(&turn->ask);
        turn->part = part;
        turn->rank = 1; /* it is known when the queue was read */
        turn->timer.fire = check;
        if (loop_set(loop_of(turn), &turn->timer, etcd_now(part->etcd) + TURN_FIRST) != 0) {
                free(turn);
                return NULL;
        }
        return turn;
}

void turn_end(struct etcd_turn *turn)
{
        if (!turn)
                return;
        loop_unset(loop_of(turn), &turn->timer);
        channel_forget(&turn->part->etcd->channel, &turn->ask);
        free(turn);
}
