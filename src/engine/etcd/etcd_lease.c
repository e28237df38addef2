/* etcd_lease.c - leases that outlive their process, as words: e1.LEASE.UID.TTL.NAME, the lease being the store's, which
 * nobody keeps alive, the uid 128 random bits, the name in base64url. Whoever knows the word may renew and release. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../../base/base64.h"
#include "etcd_txn.h"

struct lease_word {
        uint64_t uid[2];
        int64_t lease;
        int64_t ttl;
        char name[PAWL_NAME_MAX + 1];
};

static const char over[] = "the lease is over: it ran out, or was released or broken";

/* ---- words ------------------------------------------------------------------------------------------------------- */

static int word(struct engine *engine, const struct claim *claim, char *text, size_t size)
{
        const struct etcd_part *part = part_of(claim);
        char name[BASE64_SIZE(PAWL_NAME_MAX)], uid[33];
        int length;

        (void)engine;
        if (part->state != PART_HELD || !claim->detached || !part->term)
                return PAWL_MISUSE;
        base64_encode(claim->name, claim->name_length, name);
        uid_text(claim->uid, uid);
        length = snprintf(text, size, "e1.%llx.%s.%lld.%s", (unsigned long long)part->term->lease, uid,
                          (long long)(claim->ttl / MS), name);
        return length > 0 && (size_t)length < size ? PAWL_OK : PAWL_INVALID;
}

/* A positive number without leading zeros, at most so many digits, and a point behind it. */
static const char *read_number(const char *text, int base, size_t digits, int64_t *number)
{
        char *end;

        if (!strchr("123456789abcdef", *text) || !*text)
                return NULL;
        *number = strtoll(text, &end, base);
        if (*end != '.' || (size_t)(end - text) > digits || *number <= 0 || *number == INT64_MAX)
                return NULL;
        return end + 1;
}

static bool parse(const char *text, struct lease_word *lease)
{
        const char *at;

        if (strncmp(text, "e1.", 3) != 0)
                return false;
        at = read_number(text + 3, 16, 16, &lease->lease);
        if (!at || strlen(at) < 33 || !uid_read(at, lease->uid) || at[32] != '.')
                return false;
        at = read_number(at + 33, 10, 13, &lease->ttl);
        if (!at || !base64_decode(at, lease->name, PAWL_NAME_MAX))
                return false;
        lease->ttl *= MS;
        return true;
}

static int read_word(struct engine *engine, const char *text, char *name, int64_t *ttl, struct pawl_why *why)
{
        struct lease_word lease;
        size_t length;

        (void)engine;
        if (!parse(text, &lease) || name_check(lease.name, &length, NULL) != PAWL_OK || lease.ttl < 50 * MS)
                return why_set(why, PAWL_INVALID, "that is not a lease of this engine");
        strcpy(name, lease.name);
        *ttl = lease.ttl;
        return PAWL_OK;
}

/* ---- taking one up: for how long is it there, and is its key? ---------------------------------------------------- */

static struct etcd_part *part_of_ask(struct etcd_ask *ask)
{
        return container_of(ask, struct etcd_part, ask);
}

/* What is refused here leaves the lease as it is: the term must not take it along. */
static void refuse(struct etcd_part *part, int code, const char *why)
{
        if (part->order && part->term)
                history_forget(part->claim, part->etcd);
        if (part->term)
                term_drop(part->term);
        claim_refuse(part, part->cancelled ? PAWL_CANCELLED : code, why);
}

/* The key says how it is shared, which the word does not: so all that begins with lease and uid. */
static void write_find(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_part *part = part_of_ask(ask);
        const struct claim *claim = part->claim;
        char key[ETCD_KEY_MAX], end[ETCD_KEY_MAX];
        size_t length = key_of_line(part->etcd, claim->name, claim->name_length, key);
        Pb__RangeRequest range = PB__RANGE_REQUEST__INIT;

        length += (size_t)snprintf(key + length, 18, "%llx-", (unsigned long long)part->term->lease);
        length = (size_t)(uid_put(key + length, claim->uid) - key);
        range.key = bytes_of(key, length);
        range.range_end = bytes_of(end, key_after_prefix(key, length, end));
        grpc_write(out, &range.base);
}

/* Whether it is the lease of the word: no letter of that is idle. */
static bool is_it(struct etcd_part *part, const Pb__RangeResponse *found, struct record *record)
{
        struct claim *claim = part->claim;
        const Pb__KeyValue *kv = found->n_kvs == 1 ? found->kvs[0] : NULL;

        return kv && kv->lease == part->term->lease &&
               record_read((const char *)kv->value.data, kv->value.len, record) && record->detached &&
               record->ttl_ms == claim->ttl / MS;
}

/* We are its owner from now on. The key stays the one that it is, so that its number does, and nobody who waits behind it is
 * told anything: they watch for its end. */
static void write_sign(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_part *part = part_of_ask(ask);
        const struct etcd *etcd = part->etcd;
        char key[ETCD_KEY_MAX], value[RECORD_MAX + 1];
        ProtobufCBinaryData own = bytes_of(key, key_of_claim(part, key));
        struct etcd_txn txn;
        Pb__PutRequest *put;

        txn_begin(&txn);
        txn_if_created(&txn, own, part->order);
        txn_if_written(&txn, own, part->base_at);
        txn_range(&txn, TXN_ELSE, own)->keys_only = true;
        put = txn_put(&txn, TXN_THEN, own);
        put->value = bytes_of(
                value, record_write(part->claim, etcd->client, etcd->engine.host->owner, part->since, false, value));
        put->lease = part->term->lease;
        grpc_write(out, &txn.request.base);
}

/* It is there, but was written since it was found. */
static bool is_older(const struct etcd_part *part, const Pb__TxnResponse *reply)
{
        const Pb__RangeResponse *own = txn_range_told(reply, 0);

        return !reply->succeeded && own && own->n_kvs == 1 && (uint64_t)own->kvs[0]->create_revision == part->order;
}

static const struct etcd_method find;

static void find_it(struct etcd_part *part)
{
        channel_ask(&part->etcd->channel, &part->ask, &find, etcd_now(part->etcd) + part->etcd->timeout);
}

static void find_again(struct etcd_part *part)
{
        history_forget(part->claim, part->etcd);
        part->order = 0;
        find_it(part);
}

/* A store without room cannot be told, but a lock must be given back there too. One that was written since was so by an
 * earlier attempt of ours; if there was none, by somebody else, and is looked at again. */
static void was_signed(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_part *part = part_of_ask(ask);
        const Pb__TxnResponse *reply = (const Pb__TxnResponse *)message;

        if (reply)
                etcd_wrote(part->etcd, revision_of(reply->header), reply->succeeded);
        if (!reply && ask->status != GRPC_RESOURCE_EXHAUSTED)
                refuse(part, why->code, why->text);
        else if (part->cancelled || (reply && !reply->succeeded && !is_older(part, reply)))
                refuse(part, PAWL_LOST, over);
        else if (reply && !reply->succeeded && ask->tries <= 1)
                find_again(part);
        else
                claim_told(part, etcd_now(part->etcd));
}

static const struct etcd_method sign = {
        .path = "/etcdserverpb.KV/Txn",
        .reply = &pb__txn_response__descriptor,
        .write = write_sign,
        .answered = was_signed,
};

/* What the key says of the claim, but for whose it is. */
static void take_over(struct etcd_part *part, const Pb__KeyValue *kv, const struct record *record)
{
        struct claim *claim = part->claim;

        claim->mode = record->mode;
        claim->max_holders = record->limit;
        claim->delay = record->delay_ms * MS;
        if (!claim->age)
                claim->age = record->age;
        part->order = (uint64_t)kv->create_revision;
        part->since = record->since_ms;   /* until it is told */
        part->base_at = kv->mod_revision; /* and this: when the record was written that ours replaces */
        history_adopted(part, record);
}

static void look_at(struct etcd_part *part, int64_t lease);

/* What is left was told by the memory of a leader, which may have been replaced without knowing it. It counts if the cluster
 * had the same leader before we asked and after it was told: as in etcd_proof.c. */
static bool leader_changed(struct etcd_part *part, const Pb__RangeResponse *reply)
{
        struct etcd_channel *channel = &part->etcd->channel;
        uint64_t raft_term = reply->header ? reply->header->raft_term : 0;

        if (raft_term == (uint64_t)part->base_at)
                return false;
        channel->raft_term = raft_term;
        return true;
}

static void look_again(struct etcd_part *part)
{
        int64_t lease = part->term->lease;

        term_drop(part->term);
        look_at(part, lease);
}

static void found(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_part *part = part_of_ask(ask);
        const Pb__RangeResponse *reply = (const Pb__RangeResponse *)message;
        struct record record;

        if (!reply) {
                refuse(part, why->code, why->text);
        } else if (part->cancelled || !is_it(part, reply, &record)) {
                refuse(part, PAWL_LOST, over);
        } else if (!reply->header || reply->header->raft_term == 0) { /* as in etcd_proof.c: it proves nothing */
                refuse(part, PAWL_UNREACHABLE, "the server cannot tell yet who leads the cluster: try again");
        } else if (leader_changed(part, reply)) {
                look_again(part);
        } else {
                take_over(part, reply->kvs[0], &record);
                channel_ask(&part->etcd->channel, ask, &sign, etcd_now(part->etcd) + part->etcd->timeout);
        }
}

static const struct etcd_method find = {
        .path = "/etcdserverpb.KV/Range",
        .reply = &pb__range_response__descriptor,
        .write = write_find,
        .answered = found,
};

static void write_look(struct etcd_ask *ask, struct grpc_out *out)
{
        struct etcd_part *part = part_of_ask(ask);
        Pb__LeaseTimeToLiveRequest look = PB__LEASE_TIME_TO_LIVE_REQUEST__INIT;

        part->base_at = (int64_t)part->etcd->channel.raft_term; /* until the key is found */
        look.id = (int64_t)part->order;
        grpc_write(out, &look.base);
}

/* The store tells whole seconds, rounded down: it ends the lease no earlier than so long after we asked. */
static void looked(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_part *part = part_of_ask(ask);
        const Pb__LeaseTimeToLiveResponse *reply = (const Pb__LeaseTimeToLiveResponse *)message;
        int64_t lease = (int64_t)part->order, ttl = part->claim->ttl;
        struct term_time time = {.length = ttl};

        part->order = 0;
        if (!reply && ask->status != GRPC_NOT_FOUND) {
                refuse(part, why->code, why->text);
                return;
        }
        if (!reply || part->cancelled || reply->ttl <= 0) {
                refuse(part, PAWL_LOST, over);
                return;
        }
        if (reply->ttl > reply->granted_ttl) { /* etcd#17705: a leader that is none any more says "for ever" */
                refuse(part, PAWL_UNREACHABLE, "the cluster's leader changed meanwhile: try again");
                return;
        }
        time.extended_at = ask->sent_at + reply->ttl * SECOND - ttl;
        if (time.extended_at > ask->sent_at)
                time.extended_at = ask->sent_at;
        if (!term_adopt(part->etcd, part, lease, &time))
                refuse(part, PAWL_NO_MEMORY, NULL);
        else
                find_it(part);
}

static const struct etcd_method look = {
        .path = "/etcdserverpb.Lease/LeaseTimeToLive",
        .reply = &pb__lease_time_to_live_response__descriptor,
        .write = write_look,
        .answered = looked,
};

static void look_at(struct etcd_part *part, int64_t lease)
{
        part->order = (uint64_t)lease; /* until it has a term */
        channel_ask(&part->etcd->channel, &part->ask, &look, etcd_now(part->etcd) + part->etcd->timeout);
}

static void adopt(struct engine *engine, struct claim *claim, const char *text)
{
        struct etcd *etcd = etcd_of(engine);
        const struct engine_host *host = engine->host;
        struct etcd_part *part = part_of(claim);
        struct lease_word lease;

        if (!parse(text, &lease) || strcmp(lease.name, claim->name) != 0) {
                host->events->refused(host->core, claim, PAWL_LOST, NULL);
                return;
        }
        claim->uid[0] = lease.uid[0];
        claim->uid[1] = lease.uid[1];
        claim_know(etcd, claim);
        part->state = PART_ADOPTING;
        look_at(part, lease.lease);
}

/* Puts it down: nobody here knows it any more, and the store keeps it. */
static void forget(struct engine *engine, struct claim *claim)
{
        struct etcd_part *part = part_of(claim);

        history_forget(claim, etcd_of(engine));
        claim_let_go(part);
}

const struct engine_leases etcd_leases = {
        .word = word,
        .read = read_word,
        .adopt = adopt,
        .forget = forget,
};
