/* bad_module.c - a module of another interface, of another version, or without its symbol: none may be opened. */
#include "base/module.h"
#include "engine/engine.h"

#ifndef BAD_ABI
#define BAD_ABI MODULE_ABI
#endif
#ifndef MODULE_VERSION
#define MODULE_VERSION PAWL_VERSION
#endif
#ifndef MODULE_SYMBOL
#define MODULE_SYMBOL pawl_module
#endif

static const struct engine_ops no_ops = {.name = "bad"};

extern const struct module MODULE_SYMBOL;
PAWL_EXPORT const struct module MODULE_SYMBOL = {
        .abi = BAD_ABI,
        .version = MODULE_VERSION,
        .engine = &no_ops,
};
