/* latch.c - the slow ends of latch.h: who has to wait sleeps on the word itself. */
#include "latch.h"

#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { SPINS = 100 };

static void sleep_on(_Atomic uint32_t *word, uint32_t value, const struct timespec *timeout)
{
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, timeout, NULL, 0);
}

static void wake_from(_Atomic uint32_t *word, int threads)
{
        syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

/* What is done under a latch is short: look again for a moment before asking the kernel. */
static int take_by_spinning(struct latch *latch)
{
        for (int i = 0; i < SPINS; i++) {
                uint32_t nobody = 0;

                if (atomic_load_explicit(&latch->word, memory_order_relaxed) == 0 &&
                    atomic_compare_exchange_weak_explicit(&latch->word, &nobody, 1, memory_order_acquire,
                                                          memory_order_relaxed))
                        return 1;
#if defined(__x86_64__) || defined(__i386__)
                __builtin_ia32_pause();
#endif
        }
        return 0;
}

void latch_wait(struct latch *latch)
{
        if (take_by_spinning(latch))
                return;
        while (atomic_exchange_explicit(&latch->word, 2, memory_order_acquire) != 0)
                sleep_on(&latch->word, 2, NULL);
}

void latch_wake(struct latch *latch)
{
        wake_from(&latch->word, 1);
}

/* Whoever was told may be gone by then, and its word with it: waking at an address where nobody sleeps does no harm, and
 * waking somebody else is what every sleeper has to expect. */
void latch_give_and_wake(struct latch *latch)
{
        _Atomic uint32_t *told[LATCH_TOLD_MAX];
        uint32_t count = latch->told_count;

        memcpy(told, latch->told, count * sizeof(told[0]));
        latch->told_count = 0;
        latch_give(latch);
        for (uint32_t i = 0; i < count; i++)
                wake_from(told[i], 1);
}

void event_wait(struct event *event, struct latch *latch, int64_t ns)
{
        uint32_t count = atomic_load_explicit(&event->count, memory_order_relaxed);
        struct timespec timeout = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

        event->sleepers++;
        event->latch = latch;
        latch_give(latch);
        sleep_on(&event->count, count, ns == INT64_MAX ? NULL : &timeout);
        latch_take(latch);
        event->sleepers--;
}

void event_tell_one(struct event *event)
{
        struct latch *latch = event->latch;

        atomic_fetch_add_explicit(&event->count, 1, memory_order_relaxed);
        if (!event->sleepers)
                return;
        if (latch->told_count < LATCH_TOLD_MAX)
                latch->told[latch->told_count++] = &event->count;
        else
                wake_from(&event->count, 1);
}

void event_tell_all(struct event *event)
{
        atomic_fetch_add_explicit(&event->count, 1, memory_order_relaxed);
        if (event->sleepers)
                wake_from(&event->count, INT_MAX);
}
