/* etcd_proof.c - what proves that a lease was extended, and that it is still there: docs/decisions/0110 and 0175.
 *
 * A keep-alive is answered from the leader's memory, without the other members. A leader that hung and was replaced
 * meanwhile answers it all the same. So it counts only when a linearizable read that was sent after the answer reports
 * the same raft_term: then the member that answered was the leader, and extended the lease where it is ended.
 *
 * The read is of the sentinel, a key that hangs on the lease and on nothing else. The watch on the client's mailbox covers
 * it too, so a lease that is revoked is noticed at once, however many claims hang on it. */
#include <stdio.h>
#include <string.h>

#include "etcd.h"

size_t key_of_sentinel(const struct etcd *etcd, int64_t lease, char *key)
{
        size_t length = key_of_mail(etcd, etcd->client, key);

        return length + (size_t)sprintf(key + length, "lease-%llx", (unsigned long long)lease);
}

/* ---- the sentinel ------------------------------------------------------------------------------------------------ */

static void write_sign(struct etcd_ask *ask, struct grpc_out *out)
{
        const struct etcd_term *term = container_of(ask, struct etcd_term, sign);
        Pb__PutRequest request = PB__PUT_REQUEST__INIT;
        char key[ETCD_KEY_MAX];

        request.key = bytes_of(key, key_of_sentinel(term->etcd, term->lease, key));
        request.lease = term->lease;
        grpc_write(out, &request.base);
}

/* If it failed it is put after the next keep-alive. */
static void was_signed(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_term *term = container_of(ask, struct etcd_term, sign);
        const Pb__PutResponse *reply = (const Pb__PutResponse *)message;

        (void)why;
        if (!reply)
                return;
        etcd_wrote(term->etcd, revision_of(reply->header), true);
        term->guarded = true;
}

static const struct etcd_method sign_method = {
        .path = "/etcdserverpb.KV/Put",
        .reply = &pb__put_response__descriptor,
        .write = write_sign,
        .answered = was_signed,
};

void sentinel_put(struct etcd_term *term)
{
        if (term->state == TERM_ALIVE && !ask_busy(&term->sign))
                channel_ask(&term->etcd->channel, &term->sign, &sign_method,
                            etcd_now(term->etcd) + term->etcd->timeout);
}

/* ---- the proof --------------------------------------------------------------------------------------------------- */

static void write_proof(struct etcd_ask *ask, struct grpc_out *out)
{
        struct etcd_term *term = container_of(ask, struct etcd_term, proof);
        Pb__RangeRequest request = PB__RANGE_REQUEST__INIT;
        char key[ETCD_KEY_MAX];

        term->expected = term->guarded;
        request.key = bytes_of(key, key_of_sentinel(term->etcd, term->lease, key));
        request.keys_only = true;
        grpc_write(out, &request.base);
}

/* A member that was started from a snapshot reports 0 until something is written, and that proves nothing. */
static bool is_same_leader(const struct etcd_term *term, const Pb__ResponseHeader *header)
{
        return header && header->raft_term != 0 && header->raft_term == term->raft_term;
}

static void proof_answered(struct etcd_ask *ask, const ProtobufCMessage *message, const struct pawl_why *why)
{
        struct etcd_term *term = container_of(ask, struct etcd_term, proof);
        const Pb__RangeResponse *reply = (const Pb__RangeResponse *)message;

        (void)why;
        if (!reply) {
                term_unproven(term, PAWL_UNREACHABLE);
        } else if (term->expected && reply->n_kvs == 0) {
                term_revoked(term);
        } else if (is_same_leader(term, reply->header)) {
                term_proven(term);
        } else {
                if (term->raft_term == 0)
                        sentinel_put(term);
                term_unproven(term, PAWL_OK);
        }
}

static const struct etcd_method proof_method = {
        .path = "/etcdserverpb.KV/Range",
        .reply = &pb__range_response__descriptor,
        .write = write_proof,
        .answered = proof_answered,
};

void proof_ask(struct etcd_term *term, uint64_t raft_term)
{
        term->raft_term = raft_term;
        channel_ask(&term->etcd->channel, &term->proof, &proof_method, etcd_now(term->etcd) + term->etcd->timeout);
}
