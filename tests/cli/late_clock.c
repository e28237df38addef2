/* late_clock.c - preloaded into a server, it makes its clock an hour slow. */
#include <sys/time.h>
#include <time.h>

#define EXPORT __attribute__((visibility("default")))

enum { LATE = 3600 };

int late_gettimeofday(struct timeval *tv, void *tz) __asm__("gettimeofday") EXPORT;
int late_gettimeofday(struct timeval *tv, void *tz)
{
        struct timespec ts;

        (void)tz;
        clock_gettime(CLOCK_REALTIME, &ts);
        tv->tv_sec = ts.tv_sec - LATE;
        tv->tv_usec = ts.tv_nsec / 1000;
        return 0;
}
