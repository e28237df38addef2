/* quote.h - a text as one word of a shell command, for commands that people copy. */
#ifndef PAWL_QUOTE_H
#define PAWL_QUOTE_H

#include <stddef.h>

/* Writes text so that sh reads it back as it was; plain words stay plain. Cut at size, which is at least 8. */
void quote_for_shell(const char *text, char *room, size_t size);

#endif
