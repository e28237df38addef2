/* latch.h - a mutex and a condition of one word each, for the threads of one process. pthread's do more (kinds, protocols,
 * owners) and cost 10 ns the pair; the whole of an uncontended acquire and release is to cost 100. */
#ifndef PAWL_LATCH_H
#define PAWL_LATCH_H

#include <stdatomic.h>
#include <stdint.h>

enum { LATCH_TOLD_MAX = 16 };

struct latch {
        _Atomic uint32_t word; /* 0: free, 1: taken, 2: taken, and somebody may sleep */
        /* Guarded by the latch itself: whom to wake when it is given back. Woken before, they would only wait for it. */
        uint32_t told_count;
        _Atomic uint32_t *told[LATCH_TOLD_MAX];
};

void latch_wait(struct latch *latch);
void latch_wake(struct latch *latch);
void latch_give_and_wake(struct latch *latch);

static inline void latch_take(struct latch *latch)
{
        uint32_t nobody = 0;

        if (__builtin_expect(!atomic_compare_exchange_strong_explicit(&latch->word, &nobody, 1, memory_order_acquire,
                                                                      memory_order_relaxed),
                             0))
                latch_wait(latch);
}

/* 0: another has it, or seems to. */
static inline int latch_try(struct latch *latch)
{
        uint32_t nobody = 0;

        return atomic_compare_exchange_strong_explicit(&latch->word, &nobody, 1, memory_order_acquire,
                                                       memory_order_relaxed);
}

static inline void latch_give(struct latch *latch)
{
        if (__builtin_expect(latch->told_count > 0, 0))
                latch_give_and_wake(latch);
        else if (__builtin_expect(atomic_exchange_explicit(&latch->word, 0, memory_order_release) == 2, 0))
                latch_wake(latch);
}

/* What a thread sleeps on while it has given the latch away. As with every condition: it may wake for nothing. */
struct event {
        _Atomic uint32_t count;
        uint32_t sleepers;   /* guarded by the latch: nobody sleeps, nobody has to be woken */
        struct latch *latch; /* of those who sleep */
};

/* At most ns; INT64_MAX: until it is told. The latch is taken on entry and on return. */
void event_wait(struct event *event, struct latch *latch, int64_t ns);
/* With the latch taken; they run when it is given back. */
void event_tell_one(struct event *event);
void event_tell_all(struct event *event);

#endif
