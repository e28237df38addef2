/* zk_proof.h - what the leader is known to have heard of a session. Arithmetic only: no clock is read here. Decision 0101
 * has the reasons.
 *
 * The leader ends a session its timeout after it last heard of it. Of a client of another server it hears by that server's
 * reports: the leader asks each server for one at least once in an interval, half a tickTime, and a report names the
 * sessions that were active since the last one. Requests, reports and answers between two servers keep their order. So three
 * round trips to the leader prove something, one after the other:
 *
 *   a sign    a write, which a quorum confirmed: our server has noted that we are alive
 *   reported  sent an interval after the sign was answered: meanwhile the leader has asked, and that came before this answer
 *   known     sent after that one was answered: the report arrived before this request
 *
 * Then the leader has heard that we were alive when the sign was sent, or a later leader began with all sessions anew. */
#ifndef PAWL_ZK_PROOF_H
#define PAWL_ZK_PROOF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../loop/loop.h"

enum { ZK_SIGNS = 8 };

/* A sign of life, on its way to the leader. */
struct zk_sign {
        int64_t sent, answered;
        int64_t reported; /* when that was answered which proves the report; 0: not yet */
};

/* Of one connection. */
struct zk_proof {
        int64_t interval; /* the leader asks for reports this often, or more often */
        struct zk_sign signs[ZK_SIGNS];
        size_t count; /* the oldest first */
};

/* tick: the servers' tickTime; 0: not known. Then timeout, the shortest session that they granted: that is two ticks at
 * least. A fiftieth and 50 ms are for a leader whose timers are late. */
static inline int64_t zk_proof_interval(int64_t tick, int64_t timeout)
{
        int64_t half = tick ? tick / 2 : timeout / 4;

        return half + half / 50 + 50 * MS;
}

static inline void zk_proof_begin(struct zk_proof *proof, int64_t interval)
{
        *proof = (struct zk_proof){.interval = interval};
}

static inline void zk_proof_drop(struct zk_proof *proof, size_t count)
{
        for (size_t i = count; i < proof->count; i++)
                proof->signs[i - count] = proof->signs[i];
        proof->count -= count;
}

/* A busy client sends more than are of use: one in a sixth of the interval is enough. */
static inline void zk_proof_add(struct zk_proof *proof, int64_t sent, int64_t answered)
{
        if (proof->count == ZK_SIGNS ||
            (proof->count && sent < proof->signs[proof->count - 1].sent + proof->interval / 6))
                return;
        proof->signs[proof->count++] = (struct zk_sign){.sent = sent, .answered = answered};
}

/* A request that went to the leader was answered. is_write: and confirmed by a quorum. *known: when the last sign was sent
 * of which the leader has heard; true if that is a later one now. */
static inline bool zk_proof_answered(struct zk_proof *proof, int64_t sent, int64_t answered, bool is_write,
                                     int64_t *known)
{
        size_t count = 0;
        bool later;

        for (size_t i = 0; i < proof->count; i++) {
                struct zk_sign *sign = &proof->signs[i];

                if (sign->reported && sent > sign->reported)
                        count = i + 1;
                else if (!sign->reported && sent > sign->answered + proof->interval)
                        sign->reported = answered;
        }
        later = count > 0 && proof->signs[count - 1].sent > *known;
        if (later)
                *known = proof->signs[count - 1].sent;
        zk_proof_drop(proof, count);
        if (is_write)
                zk_proof_add(proof, sent, answered);
        return later;
}

/* From when on a round trip to the leader is of use; NEVER: there is no sign. */
static inline int64_t zk_proof_wants(const struct zk_proof *proof)
{
        if (proof->count == 0)
                return NEVER;
        return (proof->signs[0].reported ? proof->signs[0].reported : proof->signs[0].answered + proof->interval) + 1;
}

#endif
