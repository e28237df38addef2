/* registry.h - what the registry and the module loader share. */
#ifndef PAWL_REGISTRY_H
#define PAWL_REGISTRY_H

#include "engine.h"

const struct engine_ops *module_open(const char *module, struct pawl_why *why);

#endif
