/* info.c - small things a program may ask without a client. */
#include "../base/duration.h"
#include "../core/lease.h"
#include "../guard/guard.h"
#include "client.h"

int pawl_engine(size_t index, struct pawl_engine_info *info)
{
        return info ? engine_info(index, info) : PAWL_INVALID;
}

int pawl_engine_sql(const char *scheme, const char **locks, const char **guards)
{
        const char *for_locks = NULL;
        const char *for_guards;
        int code = scheme && locks && guards ? engine_sql(scheme, &for_locks) : PAWL_INVALID;

        if (code != PAWL_OK)
                return code;
        for_guards = guard_sql(scheme);
        if (!for_locks && !for_guards)
                return PAWL_UNSUPPORTED;
        *locks = for_locks;
        *guards = for_guards;
        return PAWL_OK;
}

int pawl_duration(const char *text, int64_t *ms)
{
        int64_t ns;

        if (!text || !ms || !duration_parse(text, &ns))
                return PAWL_INVALID;
        *ms = ns / MS;
        return PAWL_OK;
}

const char *pawl_duration_text(int64_t ms, char *text, size_t size)
{
        return text && size ? duration_text(ms <= 0 ? 0 : ms < INT64_MAX / MS ? ms * MS : INT64_MAX, text, size) : "";
}

int64_t pawl_ttl_for(int64_t work_ms, int64_t latency_ms, int64_t drift_ms)
{
        return lease_ttl_for(work_ms, latency_ms, drift_ms);
}

const char *pawl_version(void)
{
        return PAWL_VERSION;
}
