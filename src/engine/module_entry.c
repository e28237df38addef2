/* module_entry.c - the one symbol of a module. Compiled once for each, with MODULE_ENGINE and MODULE_GUARD naming its ops
 * tables. */
#include "../base/module.h"

#ifdef MODULE_ENGINE
extern const struct engine_ops MODULE_ENGINE;
#endif
#ifdef MODULE_GUARD
extern const struct guard_ops MODULE_GUARD;
#endif
extern const struct module pawl_module;

PAWL_EXPORT const struct module pawl_module = {
        .abi = MODULE_ABI,
        .version = PAWL_VERSION,
#ifdef MODULE_ENGINE
        .engine = &MODULE_ENGINE,
#endif
#ifdef MODULE_GUARD
        .guard = &MODULE_GUARD,
#endif
};
