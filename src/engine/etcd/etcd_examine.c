/* etcd_examine.c - asks the cluster about itself, one request after the other, for pawl doctor; and pawl init, which makes
 * tokens go on where they were after a restore. That the cluster cannot be reached, or refuses us, is an answer too. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd_examine.h"
#include "etcd_txn.h"

static struct examination *examination_of(struct etcd_ask *ask)
{
        return container_of(ask, struct examination, ask);
}

static void examination_free(struct examination *examination)
{
        list_remove(&examination->listed);
        channel_forget(&examination->etcd->channel, &examination->ask);
        free(examination);
}

static void finish(struct examination *examination, int code, const char *why)
{
        struct inquiry *inquiry = examination->inquiry;

        examination_free(examination);
        inquiry->answered(inquiry, code, why);
}

static void answered(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why);

/* ---- what is asked, and what it tells ---------------------------------------------------------------------------- */

static void write_status(struct etcd_ask *ask, struct grpc_out *out)
{
        Pb__StatusRequest request = PB__STATUS_REQUEST__INIT;

        (void)ask;
        grpc_write(out, &request.base);
}

static void take_status(struct examination *examination, const ProtobufCMessage *message, const struct pawl_why *why)
{
        const Pb__StatusResponse *status = (const Pb__StatusResponse *)message;

        if (!status) {
                examination->no_status = *why;
                return;
        }
        snprintf(examination->version, sizeof(examination->version), "%s", status->version);
        examination->db_size = status->db_size;
        examination->db_used = status->db_size_in_use;
        examination->db_quota = status->db_size_quota;
        examination->leader = status->leader;
        examination->learner = status->is_learner;
        if (status->header) {
                examination->revision = status->header->revision;
                examination->member = status->header->member_id;
        }
}

static void write_members(struct etcd_ask *ask, struct grpc_out *out)
{
        Pb__MemberListRequest request = PB__MEMBER_LIST_REQUEST__INIT;

        (void)ask;
        grpc_write(out, &request.base);
}

static void take_members(struct examination *examination, const ProtobufCMessage *message, const struct pawl_why *why)
{
        const Pb__MemberListResponse *list = (const Pb__MemberListResponse *)message;

        if (!list) {
                examination->no_members = *why;
                return;
        }
        for (size_t i = 0; i < list->n_members; i++) {
                if (list->members[i]->is_learner)
                        examination->learners++;
                else
                        examination->members++;
        }
}

static void write_alarms(struct etcd_ask *ask, struct grpc_out *out)
{
        Pb__AlarmRequest request = PB__ALARM_REQUEST__INIT;

        (void)ask;
        grpc_write(out, &request.base);
}

static void take_alarms(struct examination *examination, const ProtobufCMessage *message, const struct pawl_why *why)
{
        const Pb__AlarmResponse *alarms = (const Pb__AlarmResponse *)message;

        if (!alarms) {
                examination->no_alarms = *why;
                return;
        }
        for (size_t i = 0; i < alarms->n_alarms; i++) {
                examination->no_space |= alarms->alarms[i]->alarm == PB__ALARM_TYPE__NOSPACE;
                examination->corrupt |= alarms->alarms[i]->alarm == PB__ALARM_TYPE__CORRUPT;
        }
}

/* Is there still what was long ago? Then nothing is ever thrown away. */
static void write_old(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct examination *examination = examination_of(ask);
        Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;
        char key[ETCD_KEY_MAX];

        range.key = bytes_of(key, key_of_ours(examination->etcd, "base", key));
        range.count_only = true;
        if (examination->revision > KEPT_REVISIONS)
                range.revision = examination->revision - KEPT_REVISIONS;
        grpc_write(out, &range.base);
}

static void take_old(struct examination *examination, const ProtobufCMessage *message, const struct pawl_why *why)
{
        if (!message && examination->ask.status == GRPC_OUT_OF_RANGE)
                examination->compacted = true;
        else if (!message)
                examination->no_compaction = *why;
}

/* The probe: may we write what locks need? On a lease, so that nothing stays. */
static void write_lease(struct etcd_ask *ask, struct grpc_out *out)
{
        struct examination *examination = examination_of(ask);
        Pb__LeaseGrantRequest grant = PB__LEASE_GRANT_REQUEST__INIT;

        loop_random(examination->etcd->engine.host->loop, &examination->lease, sizeof(examination->lease));
        examination->lease = (examination->lease & INT64_MAX) | 1;
        grant.id = examination->lease;
        grant.ttl = 10;
        grpc_write(out, &grant.base);
}

static void take_probe(struct examination *examination, const ProtobufCMessage *message, const struct pawl_why *why)
{
        (void)message;
        if (why)
                examination->no_probe = *why;
}

/* A name that no lock can have: it begins with a control character. */
static size_t key_of_probe(const struct etcd *etcd, char *key)
{
        size_t length = etcd->prefix_length;

        memcpy(key, etcd->prefix, length);
        return length + (size_t)sprintf(key + length, "%%01probe/%016" PRIx64, etcd->client);
}

static void write_probe(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct examination *examination = examination_of(ask);
        const struct etcd *etcd = examination->etcd;
        char line[ETCD_KEY_MAX], ours[ETCD_KEY_MAX], prefix[ETCD_KEY_MAX], end[ETCD_KEY_MAX];
        size_t length = key_of_ours(etcd, "", prefix);
        struct etcd_txn txn;
        Pb__RangeRequest *range;

        txn_begin(&txn);
        txn_put(&txn, TXN_THEN, bytes_of(line, key_of_probe(etcd, line)))->lease = examination->lease;
        txn_put(&txn, TXN_THEN, bytes_of(ours, key_of_ours(etcd, "probe", ours)))->lease = examination->lease;
        range = txn_range(&txn, TXN_THEN, bytes_of(prefix, length));
        range->range_end = bytes_of(end, key_after_prefix(prefix, length, end));
        range->count_only = true;
        grpc_write(out, &txn.request.base);
}

static void write_unprobe(struct etcd_ask *ask, struct grpc_out *out)
{
        Pb__LeaseRevokeRequest revoke = PB__LEASE_REVOKE_REQUEST__INIT;

        revoke.id = examination_of(ask)->lease;
        grpc_write(out, &revoke.base);
}

static void take_nothing(struct examination *examination, const ProtobufCMessage *message, const struct pawl_why *why)
{
        (void)examination;
        (void)message;
        (void)why; /* the lease ends by itself */
}

static const struct step {
        struct etcd_method method;
        void (*take)(struct examination *, const ProtobufCMessage *, const struct pawl_why *);
} steps[] = {
        {{"/etcdserverpb.Maintenance/Status", &pb__status_response__descriptor, write_status, answered}, take_status},
        {{"/etcdserverpb.Cluster/MemberList", &pb__member_list_response__descriptor, write_members, answered},
         take_members},
        {{"/etcdserverpb.Maintenance/Alarm", &pb__alarm_response__descriptor, write_alarms, answered}, take_alarms},
        {{"/etcdserverpb.KV/Range", &pb__range_response__descriptor, write_old, answered}, take_old},
        {{"/etcdserverpb.Lease/LeaseGrant", &pb__lease_grant_response__descriptor, write_lease, answered}, take_probe},
        {{"/etcdserverpb.KV/Txn", &pb__txn_response__descriptor, write_probe, answered}, take_probe},
        {{"/etcdserverpb.Lease/LeaseRevoke", &pb__lease_revoke_response__descriptor, write_unprobe, answered},
         take_nothing},
};

enum { STEPS = sizeof(steps) / sizeof(*steps), PROBE_STEP = 5, UNPROBE_STEP = 6 };

/* ---- one after the other ----------------------------------------------------------------------------------------- */

static void ask_step(struct examination *examination)
{
        struct etcd *etcd = examination->etcd;

        channel_ask(&etcd->channel, &examination->ask, &steps[examination->step].method,
                    etcd_now(etcd) + etcd->timeout);
}

static void answered(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct examination *examination = examination_of(ask);
        int64_t took = etcd_now(examination->etcd) - ask->sent_at;

        if (!message && !channel_ready(&examination->etcd->channel)) {
                judge_absence(examination, why);
                finish(examination, PAWL_OK, NULL);
                return;
        }
        if (message && (examination->answered_in < 0 || took < examination->answered_in))
                examination->answered_in = took;
        steps[examination->step++].take(examination, message, why);
        if (examination->step == PROBE_STEP && examination->no_probe.code)
                examination->step = STEPS; /* without a lease there is nothing to write, nor to end */
        if (examination->step < STEPS) {
                ask_step(examination);
                return;
        }
        judge_all(examination);
        finish(examination, PAWL_OK, NULL);
}

static struct examination *examination_new(struct engine *engine, struct inquiry *inquiry)
{
        struct etcd *etcd = etcd_of(engine);
        struct examination *examination = calloc(1, sizeof(*examination));

        if (!examination) {
                inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
                return NULL;
        }
        examination->etcd = etcd;
        examination->inquiry = inquiry;
        examination->answered_in = -1;
        ask_init(&examination->ask);
        list_append(&etcd->examinations, &examination->listed);
        return examination;
}

void examine_begin(struct engine *engine, struct inquiry *inquiry)
{
        struct examination *examination = examination_new(engine, inquiry);

        if (examination)
                ask_step(examination);
}

bool examine_forget(struct etcd *etcd, const struct inquiry *inquiry)
{
        for (struct list *at = etcd->examinations.next; at != &etcd->examinations; at = at->next) {
                struct examination *examination = container_of(at, struct examination, listed);

                if (examination->inquiry == inquiry) {
                        examination_free(examination);
                        return true;
                }
        }
        return false;
}

void examine_free(struct etcd *etcd)
{
        while (!list_empty(&etcd->examinations))
                examination_free(list_first(&etcd->examinations, struct examination, listed));
}

/* ---- init -------------------------------------------------------------------------------------------------------- */

/* The number that stands before tokens, if it is still what it was. */
static void write_init(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct examination *examination = examination_of(ask);
        const struct etcd *etcd = examination->etcd;
        Pb__Compare compare = PB__COMPARE__INIT, *compares[] = {&compare};
        Pb__PutRequest put = PB__PUT_REQUEST__INIT;
        Pb__RequestOp op = PB__REQUEST_OP__INIT, *ops[] = {&op};
        Pb__TxnRequest txn = PB__TXN_REQUEST__INIT;
        char key[ETCD_KEY_MAX], text[24];

        put.key = bytes_of(key, key_of_ours(etcd, "base", key));
        put.value = bytes_of(text, (size_t)snprintf(text, sizeof(text), "%" PRIu64, examination->base));
        compare.key = put.key;
        compare.target = PB__COMPARE_TARGET__IF_MOD;
        compare.with_case = PB__COMPARE__WITH_MOD_REVISION;
        compare.mod_revision = examination->base_revision;
        op.request_case = PB__REQUEST_OP__REQUEST_PUT;
        op.put = &put;
        txn.compare = compares;
        txn.n_compare = 1;
        txn.success = ops;
        txn.n_success = 1;
        grpc_write(out, &txn.base);
}

static void read_base(struct examination *examination);

/* Not as it was: somebody else was faster, or an earlier attempt of ours was done. */
static void init_answered(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct examination *examination = examination_of(ask);
        const Pb__TxnResponse *reply = (const Pb__TxnResponse *)message;

        if (!reply)
                finish(examination, why->code, why->text);
        else if (!reply->succeeded && ask->tries <= 1)
                read_base(examination);
        else
                finish(examination, PAWL_OK, NULL);
}

static const struct etcd_method init_method = {
        .path = "/etcdserverpb.KV/Txn",
        .reply = &pb__txn_response__descriptor,
        .write = write_init,
        .answered = init_answered,
};

static void write_base(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct examination *examination = examination_of(ask);
        Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;
        char key[ETCD_KEY_MAX];

        range.key = bytes_of(key, key_of_ours(examination->etcd, "base", key));
        grpc_write(out, &range.base);
}

/* One more than it was, and at least the number of days since 2020: a snapshot may be older than the last time. */
static uint64_t next_base(const struct etcd *etcd)
{
        uint64_t days = (uint64_t)(etcd_unix_ms() / 86400000 - 18262);

        return etcd->base + 1 > days ? etcd->base + 1 : days;
}

static void base_answered(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct examination *examination = examination_of(ask);
        struct etcd *etcd = examination->etcd;
        const Pb__RangeResponse *reply = (const Pb__RangeResponse *)message;

        if (!reply) {
                finish(examination, why->code, why->text);
        } else if (reply->n_kvs > 0 && !examination->inquiry->force) {
                finish(examination, PAWL_MISUSE,
                       "it was done before: again, with --yes, only after the store was restored from a snapshot");
        } else if (examination->inquiry->force && next_base(etcd) >= ETCD_BASE_MAX) {
                finish(examination, PAWL_FULL, "tokens have no room for another restore");
        } else {
                /* The channel read it when it became ready, and never takes less. */
                examination->base = examination->inquiry->force ? next_base(etcd) : etcd->base;
                examination->base_revision = reply->n_kvs > 0 ? reply->kvs[0]->mod_revision : 0;
                channel_ask(&etcd->channel, ask, &init_method, etcd_now(etcd) + etcd->timeout);
        }
}

static const struct etcd_method base_method = {
        .path = "/etcdserverpb.KV/Range",
        .reply = &pb__range_response__descriptor,
        .write = write_base,
        .answered = base_answered,
};

bool examine_mends(const struct etcd *etcd)
{
        for (const struct list *at = etcd->examinations.next; at != &etcd->examinations; at = at->next) {
                const struct examination *examination =
                        (const void *)((const char *)at - offsetof(struct examination, listed));
                const struct etcd_method *method = examination->ask.method;

                if (examination->inquiry->force && (method == &base_method || method == &init_method))
                        return true;
        }
        return false;
}

static void read_base(struct examination *examination)
{
        struct etcd *etcd = examination->etcd;

        channel_ask(&etcd->channel, &examination->ask, &base_method, etcd_now(etcd) + etcd->timeout);
}

void examine_init(struct engine *engine, struct inquiry *inquiry)
{
        struct examination *examination = examination_new(engine, inquiry);

        if (examination)
                read_base(examination);
}
