/* info.c - small things a program may ask without a client. */
#include "../base/duration.h"
#include "../core/lease.h"
#include "client.h"

int pawl_engine(size_t index, struct pawl_engine_info *info)
{
        return info ? engine_info(index, info) : PAWL_INVALID;
}

int pawl_duration(const char *text, int64_t *ms)
{
        int64_t ns;

        if (!text || !ms || !duration_parse(text, &ns))
                return PAWL_INVALID;
        *ms = ns / MS;
        return PAWL_OK;
}

int64_t pawl_ttl_for(int64_t work_ms, int64_t latency_ms, int64_t drift_ms)
{
        return lease_ttl_for(work_ms, latency_ms, drift_ms);
}

const char *pawl_version(void)
{
        return PAWL_VERSION;
}
