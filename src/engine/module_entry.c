/* module_entry.c - the one symbol of a module. Compiled once for each, with MODULE_ENGINE naming its ops table. */
#include "engine.h"

extern const struct engine_ops MODULE_ENGINE;
extern const struct engine_module pawl_module;

PAWL_EXPORT const struct engine_module pawl_module = {
        .abi = ENGINE_ABI,
        .version = PAWL_VERSION,
        .ops = &MODULE_ENGINE,
};
