/* module.h - engines and guards that live in shared objects of their own, so that the library needs libc only. A module
 * exports one symbol, const struct module pawl_module, and uses none of the library's. */
#ifndef PAWL_MODULE_H
#define PAWL_MODULE_H

#include <stdint.h>

#include "why.h"

struct engine_ops; /* engine/engine.h */
struct guard_ops;  /* guard/guard.h */

/* Raised with every change to engine.h, guard/guard.h, url.h, why.h or loop.h; a module of another is refused. */
enum { MODULE_ABI = 6 };

struct module {
        uint32_t abi; /* MODULE_ABI */
        uint32_t unused;
        const char *version;             /* PAWL_VERSION: a module fits the library it was built with */
        const struct engine_ops *engine; /* NULL: it has none */
        const struct guard_ops *guard;   /* NULL: it has none */
};

/* What is said of a module that is not there: how somebody with this build gets it (the option missing_modules). */
#if defined(MISSING_MODULES_PACKAGES)
#define MODULE_MISSING(module, package, built)                                                                         \
        "it needs the module pawl-" module ".so, which is not installed: install the package " package
#elif defined(MISSING_MODULES_NONE)
#define MODULE_MISSING(module, package, built)                                                                         \
        "it needs the module pawl-" module ".so, and this pawl is a single file that opens none: install pawl itself"
#else
#define MODULE_MISSING(module, package, built) "it needs the module pawl-" module ".so, which is not installed: " built
#endif
#define BUILT_WITH(libraries) "install " libraries ", then build and install pawl again"

/* The module pawl-NAME.so, from a directory that was fixed when the library was built or installed. NULL and why
 * otherwise: code PAWL_NOT_FOUND if there is no such file, PAWL_NO_ENGINE if it is of no use. It stays loaded. */
const struct module *module_open(const char *name, struct pawl_why *why);

/* The same for one file. */
const struct module *module_load(const char *path, struct pawl_why *why);

#endif
