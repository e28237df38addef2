/* local_word.c - lock words: 32 bits that say which process is inside. Not pthread robust mutexes: those name their owner
 * by a thread id, which means another thread in another PID namespace.
 *
 * A process that died inside is found out by its lifeline, and its word taken over; whoever does so rebuilds what the
 * word covers. A process that lives but does not come out (it was stopped there) cannot be robbed: it might go on at
 * any moment. Then the taker gives up for now (NOT_TAKEN), and tries again by and by.
 *
 * The counts of those who wait are hints. One who dies waiting leaves its count too high: whoever finds nobody there
 * sets it right. One too low costs a sleeper its short time-out. */
#include "local.h"

enum { SPINS = 200, COURTESY = 40, SPINNER = 1, SLEEPER = 1 << 16, SPINNERS = 0xffff };
#define SLEEP (2 * MS)
#define GIVE_UP (250 * MS)

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
}

static bool try_take(struct local *local, struct word *word)
{
        uint32_t nobody = 0;

        return atomic_load_explicit(&word->owner, memory_order_relaxed) == 0 &&
               atomic_compare_exchange_strong_explicit(&word->owner, &nobody, local->id, memory_order_acquire,
                                                       memory_order_relaxed);
}

static void count_out(struct word *word, uint32_t what)
{
        uint32_t mask = what == SPINNER ? SPINNERS : ~(uint32_t)SPINNERS;
        uint32_t count = atomic_load(&word->waiting);

        while ((count & mask) != 0)
                if (atomic_compare_exchange_weak(&word->waiting, &count, count - what))
                        return;
}

/* The word is free, but others came before us: let them have it first. If nobody takes it they are gone. */
static void give_way(struct word *word)
{
        for (int i = 0; i < COURTESY; i++) {
                if (atomic_load_explicit(&word->owner, memory_order_relaxed) != 0 ||
                    atomic_load_explicit(&word->waiting, memory_order_relaxed) == 0)
                        return;
                relax();
        }
        atomic_fetch_and(&word->waiting, ~(uint32_t)SPINNERS);
}

static bool spin(struct local *local, struct word *word)
{
        bool taken = false;

        atomic_fetch_add(&word->waiting, SPINNER);
        for (int i = 0; i < SPINS && !taken; i++) {
                taken = try_take(local, word);
                relax();
        }
        count_out(word, SPINNER);
        return taken;
}

static void sleep_on(struct word *word, uint32_t owner)
{
        atomic_fetch_add(&word->waiting, SLEEPER);
        futex_wait(&word->owner, owner, SLEEP);
        count_out(word, SLEEPER);
}

/* Out of a dead process's hands, or out of ours if we are not inside at all. */
static bool take_over(struct local *local, struct word *word, uint32_t owner)
{
        if (owner == local->id)
                return true;
        return !process_alive(local, owner) &&
               atomic_compare_exchange_strong_explicit(&word->owner, &owner, local->id, memory_order_acquire,
                                                       memory_order_relaxed);
}

enum taken word_wait(struct local *local, struct word *word)
{
        int64_t give_up = 0;

        if (atomic_load_explicit(&word->owner, memory_order_relaxed) == 0)
                give_way(word);
        for (;;) {
                uint32_t owner;
                int64_t now;

                if (spin(local, word))
                        return TAKEN;
                owner = atomic_load_explicit(&word->owner, memory_order_relaxed);
                if (owner == 0)
                        continue;
                now = local_now(local);
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
        if (atomic_load_explicit(&word->waiting, memory_order_relaxed) >= SLEEPER && futex_wake(&word->owner, 1) == 0)
                atomic_fetch_and(&word->waiting, SPINNERS); /* nobody sleeps here: who did is dead, or on its way */
}
