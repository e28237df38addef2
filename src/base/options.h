/* options.h - reads an options struct of an older or a newer caller. */
#ifndef PAWL_OPTIONS_H
#define PAWL_OPTIONS_H

#include <stddef.h>

/* The kernel's rule for structs that begin with their uint32_t size.
 * PAWL_OK: mine is filled; theirs may be NULL.
 * PAWL_UNSUPPORTED: they ask for something newer; mine has all that we know of, so that a caller can say why.
 * PAWL_INVALID: the size was not set; mine is zeroed. */
int options_read(void *mine, size_t size, const void *theirs);

/* For options whose size is 0: nothing can be read from them but why, which every version has in that place; a caller
 * who forgot the size is told so. With the macro that sets it, and the struct. */
#define OPTIONS_SIZELESS "the options have no size: make them with %s, or set .size = sizeof(struct %s)"

/* For what options_read calls PAWL_UNSUPPORTED. With the struct and the library's version. */
#define OPTIONS_NEWER "the options (struct %s) ask for something newer than this library, which is " PAWL_VERSION

#endif
