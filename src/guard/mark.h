/* mark.h - what a mark file says: the greatest token that a resource has admitted. Text; no file is touched here. */
#ifndef PAWL_MARK_H
#define PAWL_MARK_H

#include <stddef.h>
#include <stdint.h>

/* More than a mark of the longest name needs. */
enum { MARK_MAX = 320 };

/* Writes the mark and returns its length. name is encoded (base/name.h), at most FILE_NAME_MAX bytes. swap is the id of the
 * swap that made this version, 0 if none did. */
size_t mark_write(const char *name, uint64_t token, uint64_t swap, char mark[MARK_MAX]);
/* PAWL_OK, the token and the id (swap may be NULL); PAWL_CORRUPT if it is not, byte by byte, what mark_write makes for this
 * name; or PAWL_OTHER_VERSION. */
int mark_read(const char *mark, size_t size, const char *name, uint64_t *token, uint64_t *swap);

#endif
