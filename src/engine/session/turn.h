/* turn.h - claims that confirm their turn (PAWL_CONFIRM): when the head of the queue is to be checked, and when it
 * has had its time. Arithmetic only: no clock is read here. Decision 0176 has the reasons.
 *
 * The store keeps the place of a waiter that died until its session is over. So a claim of this kind holds only when
 * it has written to its own node or key, in its turn. While it waits it checks the head of the queue now and then; a
 * head that should confirm and has not for a while is deleted, on the condition that it was not written to. The store
 * does one of the two first: either the head holds, and stays, or it is gone, and never held. */
#ifndef PAWL_TURN_H
#define PAWL_TURN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../loop/loop.h"

/* A claim says how often it was passed over, and is given twice the time for each: 500 ms, 1 s, ... 8 s. Otherwise
 * candidates that are all slow could pass each other over without end. */
enum { TURN_CONFIRMS_MAX = 5 };
#define TURN_TIME (500 * MS)
/* The first check comes soon, for claims that wait a short time only, and try again; those that hand over faster need
 * none. */
#define TURN_FIRST (100 * MS)
#define TURN_PACE_MAX (30 * SECOND)

/* What is known of the head of the queue. */
struct turn {
        uint64_t head;  /* which it is: its czxid, its create_revision; 0: not known */
        int64_t since;  /* when it was first seen as unconfirmed */
        uint8_t awaits; /* its claim.confirms, while it is unconfirmed; else nothing is to be done about it */
};

static inline int64_t turn_time(uint8_t confirms)
{
        return TURN_TIME << ((confirms < TURN_CONFIRMS_MAX ? confirms : TURN_CONFIRMS_MAX) - 1);
}

static inline uint8_t turn_more(uint8_t confirms)
{
        return confirms && confirms < TURN_CONFIRMS_MAX ? confirms + 1 : confirms;
}

/* The head was seen. awaits: > 0: it is of a claim that confirms its turn, nothing keeps it from that, and it has
 * not. */
static inline void turn_sees(struct turn *turn, uint64_t head, uint8_t awaits, int64_t now)
{
        if (turn->head != head || (awaits && !turn->awaits))
                turn->since = now;
        turn->head = head;
        turn->awaits = awaits;
}

/* The head has had its time. */
static inline bool turn_is_over(const struct turn *turn, int64_t now)
{
        return turn->awaits && now - turn->since >= turn_time(turn->awaits);
}

/* When to check the head the next time; rank: so many are before us. The further behind, the more of those before may
 * be alive and check it sooner: all of n candidates together check about 2 ln n times a second. The second in the
 * queue waits for the head itself, and is notified of its end. */
static inline int64_t turn_next(const struct turn *turn, size_t rank, int64_t now)
{
        int64_t pace = rank < (size_t)(TURN_PACE_MAX / TURN_TIME) ? (int64_t)rank * TURN_TIME : TURN_PACE_MAX;

        if (turn->awaits) {
                int64_t over = turn->since + turn_time(turn->awaits);

                return over > now ? over : now + TURN_FIRST;
        }
        if (rank == 1 && turn->head)
                return NEVER;
        return now + (pace > TURN_TIME ? pace : TURN_TIME);
}

#endif
