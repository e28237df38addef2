/* lease.h - when to renew and when to stop believing. Arithmetic only: no clock is read here. */
#ifndef PAWL_LEASE_H
#define PAWL_LEASE_H

#include <stdbool.h>
#include <stdint.h>

/* The shortest ttl leaves room for a renewal and for the allowance below; the longest keeps sums of times in 63 bits. */
#define LEASE_TTL_MIN (INT64_C(50) * 1000000)
#define LEASE_TTL_MAX (INT64_C(366) * 24 * 3600 * 1000000000)

/* What we give away for clocks that run at different rates: 1 % and the grain of the stores' clocks (Redlock's drift). */
static inline int64_t lease_allowance(int64_t ttl)
{
        return ttl / 100 + INT64_C(2000000);
}

/* Until when a lease is believable that the store began to count at sent_at or later. */
static inline int64_t lease_end(int64_t sent_at, int64_t ttl)
{
        return sent_at + ttl - lease_allowance(ttl);
}

/* When to renew it, when to call it uncertain if nothing was heard, and how long to wait between two tries. */
static inline int64_t lease_renew_at(int64_t sent_at, int64_t ttl)
{
        return sent_at + ttl / 3;
}

static inline int64_t lease_doubt_at(int64_t sent_at, int64_t ttl)
{
        return sent_at + ttl / 2;
}

int64_t lease_retry_after(int64_t ttl);
bool lease_ttl_valid(int64_t ttl);
/* 2 x (work + latency + drift), in whatever unit they come; saturates. */
int64_t lease_ttl_for(int64_t work, int64_t latency, int64_t drift);

#endif
