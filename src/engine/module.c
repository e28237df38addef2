/* module.c - opens an engine's shared object. */
#include "registry.h"

const struct engine_ops *module_open(const char *module, struct pawl_why *why)
{
        why_set(why, PAWL_NO_ENGINE, "no module %s", module);
        return NULL;
}
