/* local_word.c - the lock words of buckets: 32 bits that say which process is inside. Not pthread robust mutexes: those
 * name their owner by a thread id, which means another thread in another PID namespace.
 *
 * A process that died inside is found out by its lifeline, and its word taken over; whoever does so rebuilds what the
 * word covers. A process that lives but does not come out (it was stopped there, or lost its turn on the processor) cannot
 * be robbed: it might go on at any moment. Then the taker gives up at once (NOT_TAKEN) and tries again later: it has the
 * client's mutex, and other locks of the client must not wait for a name that they have nothing to do with.
 *
 * The counts of those who wait are hints. One who dies waiting leaves its count too high: whoever finds nobody there
 * sets it right. One too low costs a sleeper its short time-out. */
#include <time.h>

#include "local.h"

enum { SPINS = 200, ROUNDS = 4, COURTESY = 40, SPINNER = 1, SLEEPER = 1 << 16, SPINNERS = 0xffff };
#define STUCK_FOR (200 * 1000) /* ns for which the same owner is not tried again: many claims may want one bucket */
#define SLEEP_FIRST (2 * MS)
#define SLEEP_MOST (16 * MS)

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

/* Out of a dead process's hands, or out of ours if we are not inside at all. */
static bool take_over(struct local *local, struct word *word, uint32_t owner)
{
        if (owner == local->id)
                return true;
        return !process_alive(local, owner) &&
               atomic_compare_exchange_strong_explicit(&word->owner, &owner, local->id, memory_order_acquire,
                                                       memory_order_relaxed);
}

static bool still_stuck(const struct local *local, const struct word *word)
{
        return word == local->stuck.word &&
               atomic_load_explicit(&word->owner, memory_order_relaxed) == local->stuck.owner &&
               local_now(local) < local->stuck.until;
}

enum taken word_wait(struct local *local, struct word *word)
{
        uint32_t owner = 0;

        if (still_stuck(local, word))
                return NOT_TAKEN;
        if (atomic_load_explicit(&word->owner, memory_order_relaxed) == 0)
                give_way(word);
        for (int i = 0; i < ROUNDS && owner == 0; i++) {
                if (spin(local, word))
                        return TAKEN;
                owner = atomic_load_explicit(&word->owner, memory_order_relaxed);
        }
        if (owner != 0 && take_over(local, word, owner))
                return TAKEN_OVER;
        local->stuck.word = word;
        local->stuck.owner = owner;
        local->stuck.until = local_now(local) + STUCK_FOR;
        return NOT_TAKEN;
}

void word_sleep(struct local *local, struct word *word, uint32_t owner, int64_t until)
{
        const struct timespec moment = {.tv_nsec = 50 * 1000};
        int64_t pause = SLEEP_FIRST;
        int64_t now;

        if (owner == 0) /* many were inside, one after the other */
                nanosleep(&moment, NULL);
        while (owner != 0 && atomic_load_explicit(&word->owner, memory_order_relaxed) == owner &&
               (now = local_now(local)) < until) {
                atomic_fetch_add(&word->waiting, SLEEPER);
                futex_wait(&word->owner, owner, until - now < pause ? until - now : pause);
                count_out(word, SLEEPER);
                if (!process_alive(local, owner))
                        return;
                pause = pause < SLEEP_MOST / 2 ? 2 * pause : SLEEP_MOST;
        }
}

int word_blame(struct local *local, uint32_t owner, struct pawl_why *why)
{
        char who[128];

        process_owner(local, owner, who, sizeof(who));
        return why_set(
                why, PAWL_STUCK,
                "%s has been in the middle of a step for %lld ms: it is stopped, and every name of the same bucket "
                "of %s waits for it; continue or kill it",
                who, (long long)(GIVE_UP / MS), local->path);
}

void word_wake(struct word *word)
{
        if (atomic_load_explicit(&word->waiting, memory_order_relaxed) >= SLEEPER && futex_wake(&word->owner, 1) == 0)
                atomic_fetch_and(&word->waiting, SPINNERS); /* nobody sleeps here: who did is dead, or on its way */
}
