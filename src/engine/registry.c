/* registry.c - which scheme is which engine: the one list of engines. */
#include "registry.h"

#include <stdlib.h>
#include <string.h>

extern const struct engine_ops local_engine;

const struct engine_ops *engine_find(const char *scheme, struct pawl_why *why)
{
        if (strcmp(scheme, "local") == 0)
                return &local_engine;
        if (strncmp(scheme, "trace+", 6) == 0)
                return module_open("trace", why);
        why_set(why, PAWL_NO_ENGINE, "no engine is called %s; there is local", scheme);
        return NULL;
}

int engine_info(size_t index, struct pawl_engine_info *info)
{
        if (index > 0)
                return PAWL_NOT_FOUND;
        *info = (struct pawl_engine_info){.scheme = "local", .summary = "one machine, no server", .promise = "all"};
        return PAWL_OK;
}

int engine_open(const struct engine_ops *ops, const struct engine_host *host, const struct url *url,
                struct engine **engine, struct pawl_why *why)
{
        struct engine *opened = calloc(1, ops->size);
        int code;

        if (!opened)
                return why_set(why, PAWL_NO_MEMORY, "out of memory opening %s", ops->name);
        opened->ops = ops;
        opened->host = host;
        opened->claim_size = ops->claim_size;
        code = ops->open(opened, url, why);
        if (code != PAWL_OK) {
                engine_close(opened);
                return code;
        }
        *engine = opened;
        return PAWL_OK;
}

void engine_close(struct engine *engine)
{
        if (!engine)
                return;
        engine->ops->close(engine);
        free(engine);
}
