/* etcd_sweep.c - plain deletes of claims' keys, given back or given up: one request is under way at a time, and what comes
 * meanwhile goes together with the next. */
#include <string.h>

#include "etcd_txn.h"

static struct etcd *etcd_of_ask(struct etcd_ask *ask)
{
        return container_of(ask, struct etcd, sweep.ask);
}

static void write_one(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_sweep *sweep = &etcd_of_ask(ask)->sweep;
        Pb__DeleteRangeRequest request = PB__DELETE_RANGE_REQUEST__INIT;
        char key[ETCD_KEY_MAX];

        if (sweep->parts[0])
                request.key = bytes_of(key, key_of_claim(sweep->parts[0], key));
        else /* gone with its term: something must be asked */
                request.key = bytes_of(key, key_of_ours(etcd_of_ask(ask), "none", key));
        grpc_write(out, &request.base);
}

static void write_many(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_sweep *sweep = &etcd_of_ask(ask)->sweep;
        static const char nothing[] = "none";
        Pb__TxnRequest request = PB__TXN_REQUEST__INIT;
        Pb__DeleteRangeRequest deletes[SWEEP_MAX];
        Pb__RequestOp ops[SWEEP_MAX], *list[SWEEP_MAX];
        char *keys = etcd_of_ask(ask)->sweep.room;

        for (size_t i = 0; i < sweep->count; i++, keys += ETCD_KEY_MAX) {
                pb__delete_range_request__init(&deletes[i]);
                deletes[i].key = bytes_of(keys, sweep->parts[i] ? key_of_claim(sweep->parts[i], keys)
                                                                : key_of_ours(etcd_of_ask(ask), nothing, keys));
                pb__request_op__init(&ops[i]);
                ops[i].request_case = PB__REQUEST_OP__REQUEST_DELETE_RANGE;
                ops[i].delete_range = &deletes[i];
                list[i] = &ops[i];
        }
        request.success = list;
        request.n_success = sweep->count;
        grpc_write(out, &request.base);
}

static void send(struct etcd *etcd);

/* Takes all of them before any is told: whoever is told may give back another. */
static void tell(struct etcd *etcd, const int64_t *counts, const struct pawl_why *why)
{
        struct etcd_sweep *sweep = &etcd->sweep;
        struct etcd_part *parts[SWEEP_MAX];
        size_t count = sweep->count;
        uint16_t tries = sweep->ask.tries;

        memcpy(parts, sweep->parts, count * sizeof(*parts));
        sweep->count = 0;
        for (size_t i = 0; i < count; i++) {
                if (!parts[i])
                        continue;
                parts[i]->swept = false;
                parts[i]->ask.tries = tries;
        }
        send(etcd);
        for (size_t i = 0; i < count; i++)
                if (parts[i])
                        claim_deleted(parts[i], counts ? counts[i] : -1, why);
}

static void one_answered(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        const Pb__DeleteRangeResponse *reply = (const Pb__DeleteRangeResponse *)message;

        if (reply)
                etcd_wrote(etcd_of_ask(ask), revision_of(reply->header), reply->deleted > 0);
        tell(etcd_of_ask(ask), reply ? &reply->deleted : NULL, why);
}

static void many_answered(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd *etcd = etcd_of_ask(ask);
        const Pb__TxnResponse *reply = (const Pb__TxnResponse *)message;
        int64_t counts[SWEEP_MAX] = {0}, all = 0;

        for (size_t i = 0; reply && i < etcd->sweep.count; i++) {
                const Pb__DeleteRangeResponse *told = txn_delete_told(reply, i);

                counts[i] = told ? told->deleted : 0;
                all += counts[i];
        }
        if (reply)
                etcd_wrote(etcd, revision_of(reply->header), all > 0);
        tell(etcd, reply ? counts : NULL, why);
}

static const struct etcd_method one_method = {
        .path = "/etcdserverpb.KV/DeleteRange",
        .reply = &pb__delete_range_response__descriptor,
        .write = write_one,
        .answered = one_answered,
};
static const struct etcd_method many_method = {
        .path = "/etcdserverpb.KV/Txn",
        .reply = &pb__txn_response__descriptor,
        .write = write_many,
        .answered = many_answered,
};

static void send(struct etcd *etcd)
{
        struct etcd_sweep *sweep = &etcd->sweep;

        if (ask_busy(&sweep->ask) || list_empty(&sweep->waiting))
                return;
        while (sweep->count < SWEEP_MAX && !list_empty(&sweep->waiting)) {
                struct etcd_ask *ask = list_first(&sweep->waiting, struct etcd_ask, listed);

                list_remove(&ask->listed);
                sweep->parts[sweep->count++] = container_of(ask, struct etcd_part, ask);
        }
        channel_ask(&etcd->channel, &sweep->ask, sweep->count == 1 ? &one_method : &many_method,
                    etcd_now(etcd) + etcd->timeout);
}

void sweep_add(struct etcd_part *part)
{
        part->swept = true;
        part->ask.tries = 0;
        list_append(&part->etcd->sweep.waiting, &part->ask.listed);
        send(part->etcd);
}

void sweep_remove(struct etcd_part *part)
{
        struct etcd_sweep *sweep = &part->etcd->sweep;

        if (!part->swept)
                return;
        part->swept = false;
        list_remove(&part->ask.listed);
        for (size_t i = 0; i < sweep->count; i++)
                if (sweep->parts[i] == part)
                        sweep->parts[i] = NULL;
}

void sweep_init(struct etcd *etcd)
{
        list_init(&etcd->sweep.waiting);
        ask_init(&etcd->sweep.ask);
        etcd->sweep.ask.patient = true;
}
