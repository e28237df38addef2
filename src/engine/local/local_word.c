/* local_word.c - lock words: 32 bits that say which process is inside. Not pthread robust mutexes: those name their owner
 * by a thread id, which means another thread in another PID namespace.
 *
 * A process that died inside is found out by its lifeline, and its word taken over; whoever does so rebuilds what the
 * word covers. A process that lives but does not come out (it was stopped there) cannot be robbed: it might go on at
 * any moment. Then the taker gives up for now (NOT_TAKEN), and tries again by and by. */
#include "local.h"

enum { SPINS = 100 };
#define SLEEP (2 * MS)
#define GIVE_UP (250 * MS)

static bool try_take(struct local *local, struct word *word)
{
        uint32_t nobody = 0;

        return atomic_load_explicit(&word->owner, memory_order_relaxed) == 0 &&
               atomic_compare_exchange_strong_explicit(&word->owner, &nobody, local->id, memory_order_acquire,
                                                       memory_order_relaxed);
}

static bool spin(struct local *local, struct word *word)
{
        for (int i = 0; i < SPINS; i++) {
                if (try_take(local, word))
                        return true;
#if defined(__x86_64__) || defined(__i386__)
                __builtin_ia32_pause();
#endif
        }
        return false;
}

static void sleep_on(struct word *word, uint32_t owner)
{
        atomic_fetch_add_explicit(&word->sleepers, 1, memory_order_seq_cst);
        futex_wait(&word->owner, owner, SLEEP);
        /* Never below 0: the count may have been scribbled on, or set to 0 by a rebuild. */
        for (uint32_t count = atomic_load(&word->sleepers); count != 0;)
                if (atomic_compare_exchange_weak(&word->sleepers, &count, count - 1))
                        break;
}

/* Out of a dead process's hands, or out of ours if we are not inside at all. */
static bool take_over(struct local *local, struct word *word, uint32_t owner)
{
        if (owner != local->id && process_alive(local, owner))
                return false;
        /* Those who died asleep here never counted themselves out. */
        atomic_store_explicit(&word->sleepers, 0, memory_order_relaxed);
        return owner == local->id ||
               atomic_compare_exchange_strong_explicit(&word->owner, &owner, local->id, memory_order_acquire,
                                                       memory_order_relaxed);
}

enum taken word_wait(struct local *local, struct word *word)
{
        int64_t give_up = 0;

        if (spin(local, word))
                return TAKEN;
        for (;;) {
                uint32_t owner = atomic_load_explicit(&word->owner, memory_order_relaxed);
                int64_t now = local_now(local);

                if (owner == 0) {
                        if (try_take(local, word))
                                return TAKEN;
                        continue;
                }
                if (give_up == 0)
                        give_up = now + GIVE_UP;
                if (now >= give_up)
                        return NOT_TAKEN;
                sleep_on(word, owner);
                if (try_take(local, word))
                        return TAKEN;
                if (atomic_load_explicit(&word->owner, memory_order_relaxed) == owner && take_over(local, word, owner))
                        return TAKEN_OVER;
        }
}

void word_wake(struct word *word)
{
        futex_wake(&word->owner, 1);
}
