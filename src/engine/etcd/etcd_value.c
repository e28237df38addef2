/* etcd_value.c - bytes beside a lock: PREFIX .pawl/value/ NAME, which is no lock's line. Its value is
 *
 *   pawl1 TOKEN STORED_US UNTIL_US \n BYTES        UNTIL_US: 0 if it is kept until it is replaced
 *
 * by the writer's clock. One transaction writes it if the lock's key is still the one that was granted, and writes that key
 * once more, as it is: so a request that is done late, after a later one of the same holder, finds a key that was written
 * since, and changes nothing. What is kept for a while hangs on a lease of its own, which goes when it is replaced. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../session/words.h"
#include "etcd_inspect.h"
#include "etcd_txn.h"

enum { HEAD_MAX = 80 };

/* One store on its way. The claim may be gone before its end. */
struct etcd_storing {
        uint64_t token, order; /* the lock's, and its key's create_revision */
        int64_t seen;          /* the key was not written after this revision */
        int64_t keep;
        int64_t lease, seconds; /* 0: none */
        bool hangs;             /* the lease may have its key */
        bool perhaps;           /* an attempt that was given up may have been done */
        size_t own_length;
        char own[ETCD_KEY_MAX]; /* the lock's key */
        size_t head, size;      /* of bytes: where the head begins; of the data, behind HEAD_MAX */
        char bytes[];
};

static const char doubt[] = "it was sent, and no answer came: it may have been stored";

static struct question *question_of(struct etcd_ask *ask)
{
        return container_of(ask, struct question, ask);
}

static int64_t unix_us(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_REALTIME, &ts); /* etcd tells no time */
        return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

void storing_free(struct question *question)
{
        struct etcd_storing *storing = question->storing;

        if (storing && storing->lease && !storing->hangs && !question->etcd->closing)
                ghost_of_lease(question->etcd, storing->lease);
        free(storing);
        question->storing = NULL;
}

/* ---- writing ----------------------------------------------------------------------------------------------------- */

static void write_head(struct etcd_storing *storing)
{
        int64_t now = unix_us();
        char head[HEAD_MAX];
        int length = snprintf(head, sizeof(head), "pawl1 %" PRIu64 " %" PRId64 " %" PRId64 "\n", storing->token, now,
                              storing->keep ? now + storing->keep / 1000 : 0);

        storing->head = HEAD_MAX - (size_t)length;
        memcpy(storing->bytes + storing->head, head, (size_t)length);
}

static ProtobufCBinaryData whole_of(struct etcd_storing *storing)
{
        return bytes_of(storing->bytes + storing->head, HEAD_MAX - storing->head + storing->size);
}

static void put_value(struct etcd_txn *txn, struct etcd_storing *storing, ProtobufCBinaryData key)
{
        Pb__PutRequest *put;

        txn_range(txn, TXN_THEN, key)->keys_only = true; /* the lease of what is replaced */
        if (storing->size == 0) {
                txn_delete(txn, TXN_THEN, key);
                return;
        }
        put = txn_put(txn, TXN_THEN, key);
        put->value = whole_of(storing);
        put->lease = storing->lease;
}

/* If it is not done: is the lock there, and has an earlier attempt done it? */
static void write_store(struct etcd_ask *ask, struct grpc_out *out)
{
        struct question *question = question_of(ask);
        struct etcd_storing *storing = question->storing;
        char key[ETCD_KEY_MAX];
        ProtobufCBinaryData own = bytes_of(storing->own, storing->own_length);
        ProtobufCBinaryData value =
                bytes_of(key, key_of_value(question->etcd, question->name, question->name_length, key));
        struct etcd_txn txn;
        Pb__PutRequest *touch;

        txn_begin(&txn);
        txn_if_created(&txn, own, storing->order);
        txn_if_written_until(&txn, own, storing->seen);
        put_value(&txn, storing, value);
        touch = txn_put(&txn, TXN_THEN, own);
        touch->ignore_value = touch->ignore_lease = true;
        txn_range(&txn, TXN_ELSE, own)->keys_only = true;
        txn_range(&txn, TXN_ELSE, value)->keys_only = ask->tries <= 1;
        storing->hangs = true;
        grpc_write(out, &txn.request.base);
}

static void begin_store(struct question *question);
static void send_store(struct question *question);

/* The store has said that it did not do it. */
static bool is_refused(const struct etcd_ask *ask)
{
        switch ((enum grpc_status)ask->status) {
        case GRPC_RESOURCE_EXHAUSTED:
        case GRPC_PERMISSION_DENIED:
        case GRPC_UNAUTHENTICATED:
        case GRPC_INVALID_ARGUMENT:
        case GRPC_NOT_FOUND:
        case GRPC_UNIMPLEMENTED:
                return true;
        default:
                return false;
        }
}

static void store_failed(struct question *question, const struct pawl_why *why)
{
        struct etcd_storing *storing = question->storing;
        const struct etcd_ask *ask = &question->ask;
        bool refused = ask->tries == 0 || is_refused(ask);

        storing->perhaps = storing->perhaps || ask->tries > 1 || !refused;
        storing->hangs = storing->perhaps;
        if (ask->status == GRPC_NOT_FOUND && ask->tries > 0 && storing->lease)
                begin_store(question); /* it took longer than it was to be kept */
        else if (storing->perhaps)
                question_finish(question, PAWL_IN_DOUBT, doubt);
        else
                question_finish(question, why->code, why->text);
}

static const Pb__KeyValue *only(const Pb__RangeResponse *range)
{
        return range && range->n_kvs == 1 ? range->kvs[0] : NULL;
}

/* By an earlier attempt. */
static bool is_done(struct etcd_storing *storing, const Pb__KeyValue *value)
{
        ProtobufCBinaryData ours = whole_of(storing);

        if (storing->size == 0 || !value)
                return storing->size == 0 && !value;
        return value->value.len == ours.len && memcmp(value->value.data, ours.data, ours.len) == 0;
}

/* Its key was written after what we knew of it: by an earlier attempt, or by another handle of the same lease. Or it is
 * gone, and no attempt that is still on its way can be done. */
static void not_stored(struct question *question, const Pb__TxnResponse *reply)
{
        struct etcd_storing *storing = question->storing;
        const Pb__KeyValue *own = only(txn_range_told(reply, 0));
        bool ours = own && (uint64_t)own->create_revision == storing->order;

        storing->perhaps = storing->perhaps || question->ask.tries > 1;
        if (storing->perhaps && is_done(storing, only(txn_range_told(reply, 1))) && (ours || storing->size)) {
                question_finish(question, PAWL_OK, NULL);
                return;
        }
        storing->hangs = false;
        if (ours) {
                storing->seen = (int64_t)revision_of(reply->header);
                send_store(question);
        } else if (storing->perhaps) {
                question_finish(question, PAWL_IN_DOUBT, doubt);
        } else {
                question_finish(question, PAWL_LOST, NULL);
        }
}

static void stored(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct question *question = question_of(ask);
        const Pb__TxnResponse *reply = (const Pb__TxnResponse *)message;
        const Pb__KeyValue *replaced;

        if (!reply) {
                store_failed(question, why);
                return;
        }
        etcd_wrote(question->etcd, revision_of(reply->header), reply->succeeded);
        if (!reply->succeeded) {
                not_stored(question, reply);
                return;
        }
        replaced = only(txn_range_told(reply, 0));
        if (replaced && replaced->lease && replaced->lease != question->storing->lease)
                ghost_of_lease(question->etcd, replaced->lease);
        question_finish(question, PAWL_OK, NULL);
}

static const struct etcd_method store_method = {
        .path = "/etcdserverpb.KV/Txn",
        .reply = &pb__txn_response__descriptor,
        .write = write_store,
        .answered = stored,
};

static void send_store(struct question *question)
{
        question_ask(question, &store_method);
}

/* ---- a lease, for what is kept for a while ----------------------------------------------------------------------- */

static void write_grant(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_storing *storing = question_of(ask)->storing;
        Pb__LeaseGrantRequest grant = PB__LEASE_GRANT_REQUEST__INIT;

        grant.id = storing->lease;
        grant.ttl = storing->seconds;
        grpc_write(out, &grant.base);
}

static void granted(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct question *question = question_of(ask);
        bool exists = !message && ask->status == GRPC_FAILED_PRECONDITION;

        if (message || (exists && ask->tries > 1)) {
                send_store(question);
        } else if (exists) { /* somebody else's, by chance */
                question->storing->lease = 0;
                begin_store(question);
        } else {
                question_finish(question, question->storing->perhaps ? PAWL_IN_DOUBT : why->code,
                                question->storing->perhaps ? doubt : why->text);
        }
}

static const struct etcd_method grant_method = {
        .path = "/etcdserverpb.Lease/LeaseGrant",
        .reply = &pb__lease_grant_response__descriptor,
        .write = write_grant,
        .answered = granted,
};

/* The lease is longer than it is kept: it is there before the value is, and whoever reads knows the end by the value. */
static void begin_store(struct question *question)
{
        struct etcd_storing *storing = question->storing;
        const struct etcd *etcd = question->etcd;

        write_head(storing);
        storing->hangs = false;
        if (storing->keep == 0 || storing->size == 0) {
                send_store(question);
                return;
        }
        loop_random(etcd->engine.host->loop, &storing->lease, sizeof(storing->lease));
        storing->lease = (storing->lease & INT64_MAX) | 1;
        storing->seconds = (storing->keep + etcd->slack + SECOND - 1) / SECOND;
        question_ask(question, &grant_method);
}

static void store(struct engine *engine, const struct claim *claim, uint64_t token, struct inquiry *inquiry)
{
        const struct etcd_part *part = part_of(claim);
        struct etcd_storing *storing;
        struct question *question;

        if (!part->known || part->state != PART_HELD || !part->term) {
                inquiry->answered(inquiry, PAWL_LOST, NULL);
                return;
        }
        question = question_new(engine, inquiry, true, NULL);
        if (!question)
                return;
        storing = calloc(1, sizeof(*storing) + HEAD_MAX + inquiry->size);
        if (!storing) {
                question_finish(question, PAWL_NO_MEMORY, NULL);
                return;
        }
        question->storing = storing;
        storing->token = token;
        storing->order = part->order;
        storing->seen = question->etcd->revision;
        storing->keep = inquiry->keep;
        storing->own_length = key_of_claim(part, storing->own);
        storing->size = inquiry->size;
        if (inquiry->size)
                memcpy(storing->bytes + HEAD_MAX, inquiry->data, inquiry->size);
        begin_store(question);
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */

static void write_fetch(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct question *question = question_of(ask);
        char key[ETCD_KEY_MAX];
        Pb__RangeRequest request = PB__RANGE_REQUEST__INIT;

        request.key = bytes_of(key, key_of_value(question->etcd, question->name, question->name_length, key));
        grpc_write(out, &request.base);
}

/* False: it is not one of ours. */
static bool read_value(const ProtobufCBinaryData *kept, struct pawl_value *value, int64_t *until)
{
        const char *text = (const char *)kept->data;
        const char *stop = kept->len ? memchr(text, '\n', kept->len < HEAD_MAX ? kept->len : HEAD_MAX) : NULL;
        struct words words = {.at = text, .end = stop};
        uint64_t stored_us, until_us;

        if (!stop || !words_is(&words, "pawl1") || !words_number(&words, 10, INT64_MAX, &value->token) ||
            !words_number(&words, 10, INT64_MAX, &stored_us) || !words_number(&words, 10, INT64_MAX, &until_us) ||
            !words_end(&words))
                return false;
        value->stored_us = (int64_t)stored_us;
        *until = (int64_t)until_us;
        value->data = kept->data + (stop + 1 - text);
        value->size = kept->len - (size_t)(stop + 1 - text);
        return value->size > 0;
}

static void fetched(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct question *question = question_of(ask);
        const Pb__RangeResponse *reply = (const Pb__RangeResponse *)message;
        struct pawl_value value = {.now_us = unix_us()};
        int64_t until = 0;

        if (!reply) {
                question_finish(question, why->code, why->text);
        } else if (reply->n_kvs == 0) {
                question_finish(question, PAWL_NOT_FOUND, NULL);
        } else if (!read_value(&reply->kvs[0]->value, &value, &until)) {
                question_finish(question, PAWL_CORRUPT, "what is kept there was not written by pawl");
        } else if (until && value.now_us >= until) {
                question_finish(question, PAWL_NOT_FOUND, NULL);
        } else {
                question->inquiry->value(question->inquiry, &value);
                question_finish(question, PAWL_OK, NULL);
        }
}

static const struct etcd_method fetch_method = {
        .path = "/etcdserverpb.KV/Range",
        .reply = &pb__range_response__descriptor,
        .write = write_fetch,
        .answered = fetched,
};

static void fetch(struct engine *engine, struct inquiry *inquiry)
{
        struct question *question = question_new(engine, inquiry, true, NULL);

        if (question)
                question_ask(question, &fetch_method);
}

const struct engine_values etcd_values = {
        .store = store,
        .fetch = fetch,
};
