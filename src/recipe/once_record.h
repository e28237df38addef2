/* once_record.h - a result as it is kept: one line of text, "pawl-once 1 STATUS FLAGS", then the data. */
#ifndef PAWL_ONCE_RECORD_H
#define PAWL_ONCE_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ONCE_HEAD_MAX = 64, ONCE_FLAGS_MAX = 0xffff };

/* Writes head and data into room of ONCE_HEAD_MAX + size bytes. How many they are. */
size_t once_record_write(char *room, int32_t status, uint32_t flags, const void *data, size_t size);
/* Reads one, and moves the data (*data_size of them, and a NUL) to the beginning of bytes, which has a NUL behind its
 * size. False: it is none, and bytes are as they were. */
bool once_record_read(char *bytes, size_t size, int32_t *status, uint32_t *flags, size_t *data_size);

#endif
