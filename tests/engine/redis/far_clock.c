/* far_clock.c - preloaded into a server: while the file named in FAR_CLOCK is there, it is three centuries later. */
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

int far_gettimeofday(struct timeval *tv, void *tz) __asm__("gettimeofday") EXPORT;
int far_gettimeofday(struct timeval *tv, void *tz)
{
        const char *file = getenv("FAR_CLOCK");
        struct timespec ts;

        (void)tz;
        clock_gettime(CLOCK_REALTIME, &ts);
        tv->tv_sec = ts.tv_sec + (file && access(file, F_OK) == 0 ? 300LL * 365 * 86400 : 0);
        tv->tv_usec = ts.tv_nsec / 1000;
        return 0;
}
