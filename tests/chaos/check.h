/* check.h - reads the histories of all processes and the resource's log, and says which promise was broken. Tokens are
 * unique, so they are the order of grants; everything here is a sort and a sweep. */
#ifndef CHAOS_CHECK_H
#define CHAOS_CHECK_H

#include <stdint.h>
#include <stdio.h>

#include "history.h"
#include "resource.h"

#define INVARIANTS(X)                                                                                                  \
        X(TOKENS_FALL, "I1 the resource let in a lower token after a higher one")                                      \
        X(LOST_UPDATE, "I1 a fenced update was lost")                                                                  \
        X(TOKEN_TWICE, "I2 a token was granted twice")                                                                 \
        X(TOKEN_RANGE, "I2 a token is 0 or too large")                                                                 \
        X(TOKEN_ORDER, "I3 a later grant of a name has a lower token")                                                 \
        X(TOKEN_ORDER_ACROSS, "I3 a later grant of another name has a lower token")                                    \
        X(TWO_HOLDERS, "I4 an exclusive holder was not alone")                                                         \
        X(TOO_MANY, "I4 there were more holders than the limit")                                                       \
        X(LATE_BELIEF, "I5 a fixed lease was believed after its end")                                                  \
        X(RESURRECTED, "I5 a lost lock was believed again")                                                            \
        X(STUCK, "I6 a lock stayed free although somebody waited")                                                     \
        X(NO_ANSWER, "I6 a claim was never answered")                                                                  \
        X(QUEUE_JUMPED, "I7 a later claim was served before one in the queue")                                         \
        X(NONSENSE, "a claim was answered without being made, or twice")

enum invariant {
#define INVARIANT_ENUM(name, text) INVARIANT_##name,
        INVARIANTS(INVARIANT_ENUM)
#undef INVARIANT_ENUM
                INVARIANT_COUNT
};

struct findings {
        uint64_t violations[INVARIANT_COUNT];
        char first[INVARIANT_COUNT][160]; /* the first of each kind, for a person to read */
        uint64_t grants;
        uint64_t refusals;
        uint64_t losses;
        uint64_t effects;
        uint64_t twin_effects;
        uint64_t twin_lost;
        uint64_t stale_refused; /* by the guard */
        uint64_t kills;
        uint64_t stops;
        int64_t longest_gap; /* ns that a lock stayed free although somebody waited */
        int64_t *deaths;     /* ns from a holder's kill to the next grant, sorted */
        size_t death_count;
};

/* Longer than this with a free lock and a live waiter is a stuck queue, also on a noisy machine. */
#define STUCK_AFTER (10 * SECOND)

/* Sorts records. Adds to findings, which begins zeroed. False if memory ran out. */
bool check_history(struct record *records, size_t count, struct findings *findings);
void check_effects(const struct effect *log, uint64_t count, struct findings *findings);
void check_resource(const struct resource *resource, struct findings *findings);

uint64_t findings_total(const struct findings *findings);
const char *invariant_text(enum invariant invariant);
/* The given share (0.5: the median) of sorted times; 0 if there are none. */
int64_t quantile(const int64_t *sorted, size_t count, double share);
/* As TAP comments. */
void findings_print(const struct findings *findings, FILE *out);
void findings_free(struct findings *findings);

#endif
