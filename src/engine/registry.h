/* registry.h - what the registry and the module loader share. */
#ifndef PAWL_REGISTRY_H
#define PAWL_REGISTRY_H

#include "engine.h"

/* The ops of the module pawl-NAME.so, from a directory that was fixed when the library was built or installed. NULL and
 * why otherwise: code PAWL_NOT_FOUND if there is no such file, PAWL_NO_ENGINE if it is of no use. It stays loaded. */
const struct engine_ops *module_open(const char *name, struct pawl_why *why);

/* The same for one file. */
const struct engine_ops *module_load(const char *path, struct pawl_why *why);

#endif
