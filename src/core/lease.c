/* lease.c - when to renew and when to stop believing. Arithmetic only: no clock is read here. */
#include "lease.h"

#define MILLISECOND INT64_C(1000000)

int64_t lease_retry_after(int64_t ttl)
{
        int64_t pause = ttl / 30;

        if (pause < 5 * MILLISECOND)
                return 5 * MILLISECOND;
        return pause > 1000 * MILLISECOND ? 1000 * MILLISECOND : pause;
}

bool lease_ttl_valid(int64_t ttl)
{
        return ttl >= LEASE_TTL_MIN && ttl <= LEASE_TTL_MAX;
}

int64_t lease_ttl_for(int64_t work, int64_t latency, int64_t drift)
{
        int64_t sum;

        if (__builtin_add_overflow(work, latency, &sum) || __builtin_add_overflow(sum, drift, &sum) ||
            __builtin_mul_overflow(sum, INT64_C(2), &sum))
                return INT64_MAX;
        return sum;
}
