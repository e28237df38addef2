/* etcd_proof.c - what proves that a lease was extended, and that it is still there: docs/decisions/0110 and 0175.
 *
 * A keep-alive is answered from the leader's memory, without the other members. A leader that hung and was replaced
 * meanwhile answers it all the same. So it counts only when a linearizable read that was sent after the answer reports
 * the same raft_term: then the member that answered was the leader, and extended the lease where it is ended.
 *
 * The read is of the sentinel, a key that hangs on the lease and on nothing else. The watch on the client's mailbox covers
 * it too, so a lease that is revoked is noticed at once, however many claims hang on it. */
#include <stdio.h>
#include <stdlib.h>
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

static bool is_guardable(const struct etcd_term *term)
{
        return !term->own && term->state == TERM_ALIVE && !list_empty(&term->parts);
}

void sentinels_put(struct etcd *etcd)
{
        for (struct list *at = etcd->terms.next; at != &etcd->terms; at = at->next) {
                struct etcd_term *term = container_of(at, struct etcd_term, listed);

                if (is_guardable(term) && !term->guarded)
                        sentinel_put(term);
        }
}

/* The lease of a sentinel of ours; NULL: it is none. */
static struct etcd_term *term_of(const struct etcd *etcd, const char *rest, size_t length)
{
        static const char word[] = "lease-";
        enum { WORD = sizeof(word) - 1, DIGITS = 16 };
        char digits[DIGITS + 1] = "";

        if (length <= WORD || length > WORD + DIGITS || memcmp(rest, word, WORD) != 0)
                return NULL;
        memcpy(digits, rest + WORD, length - WORD);
        return term_find(etcd, (int64_t)strtoull(digits, NULL, 16));
}

void sentinels_await(struct etcd *etcd)
{
        for (struct list *at = etcd->terms.next; at != &etcd->terms; at = at->next) {
                struct etcd_term *term = container_of(at, struct etcd_term, listed);

                term->awaited = term->guarded && term->state == TERM_ALIVE;
        }
}

void sentinel_seen(struct etcd *etcd, const char *rest, size_t length)
{
        struct etcd_term *term = term_of(etcd, rest, length);

        if (term)
                term->awaited = false;
}

static struct etcd_term *first_awaited(const struct etcd *etcd)
{
        for (struct list *at = etcd->terms.next; at != &etcd->terms; at = at->next) {
                struct etcd_term *term = container_of(at, struct etcd_term, listed);

                if (term->awaited)
                        return term;
        }
        return NULL;
}

void sentinels_miss(struct etcd *etcd)
{
        struct etcd_term *term;

        while ((term = first_awaited(etcd)) != NULL)
                term_revoked(term);
}

void sentinel_gone(struct etcd *etcd, const char *rest, size_t length)
{
        struct etcd_term *term = term_of(etcd, rest, length);

        if (term) /* also while its put is not answered yet */
                term_revoked(term);
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
