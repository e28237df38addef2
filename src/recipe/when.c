/* when.c - see when.h: the machine's own time, sleep and chance. */
#include "when.h"

#include <errno.h>
#include <sys/random.h>
#include <time.h>

enum { SECOND_NS = 1000000000 };

int64_t when_now(void)
{
        struct timespec now;

        clock_gettime(CLOCK_BOOTTIME, &now); /* MONOTONIC stands still while suspended; leases do not */
        return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

int64_t when_unix(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return (int64_t)now.tv_sec * SECOND_NS + now.tv_nsec;
}

void when_sleep(int64_t ns)
{
        int64_t until, now = when_now();
        struct timespec deadline;

        if (ns <= 0)
                return;
        until = ns < INT64_MAX - now ? now + ns : INT64_MAX;
        deadline = (struct timespec){.tv_sec = until / SECOND_NS, .tv_nsec = until % SECOND_NS};
        /* Absolute: what is left does not grow with every signal. */
        while (clock_nanosleep(CLOCK_BOOTTIME, TIMER_ABSTIME, &deadline, NULL) == EINTR)
                ;
}

uint64_t when_random(void)
{
        uint64_t word = 0;
        ssize_t n;

        do
                n = getrandom(&word, sizeof(word), 0);
        while (n < 0 && errno == EINTR);
        /* Eight bytes come whole or not at all. Where the call is forbidden no client can be opened; what is left are the
         * pauses of pawl_update, which are only to differ. */
        if (n != (ssize_t)sizeof(word))
                word = (uint64_t)when_now() * 0x9e3779b97f4a7c15u ^ (uintptr_t)&word;
        return word;
}
