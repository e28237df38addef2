/* why.h - the sentence that goes with an error code: what is wrong, and what to do about it. */
#ifndef PAWL_WHY_H
#define PAWL_WHY_H

#include "pawl.h"

/* Writes the sentence and returns code, so that a failure is one line: return why_set(why, PAWL_INVALID, "...", ...).
 * why may be NULL. Bytes that a terminal would interpret are escaped. */
int why_set(struct pawl_why *why, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same for a failed system call: adds the text of error (an errno) and maps it: EACCES, EPERM -> PAWL_DENIED, ENOMEM ->
 * PAWL_NO_MEMORY, ENOSPC, EDQUOT -> PAWL_FULL, everything else PAWL_SYSTEM. */
int why_system(struct pawl_why *why, int error, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The text of an errno; in buffer, or in memory that stays. Of strerror_r() there are two kinds. */
const char *why_errno(int error, char *buffer, size_t size);

#endif
