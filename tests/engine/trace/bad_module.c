/* bad_module.c - a module of another interface, of another version, or without its symbol: none may be opened. */
#include "engine/engine.h"

#ifndef MODULE_ABI
#define MODULE_ABI ENGINE_ABI
#endif
#ifndef MODULE_VERSION
#define MODULE_VERSION PAWL_VERSION
#endif
#ifndef MODULE_SYMBOL
#define MODULE_SYMBOL pawl_module
#endif

static const struct engine_ops no_ops = {.name = "bad"};

extern const struct engine_module MODULE_SYMBOL;
PAWL_EXPORT const struct engine_module MODULE_SYMBOL = {
        .abi = MODULE_ABI,
        .version = MODULE_VERSION,
        .ops = &no_ops,
};
