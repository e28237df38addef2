/* duration.h - "500ms", "10s", "2m", "1h", "1.5s"; a bare number is seconds. */
#ifndef PAWL_DURATION_H
#define PAWL_DURATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MS INT64_C(1000000)
#define SECOND INT64_C(1000000000)

/* ns. False for anything else: a sign, spaces, an unknown unit, no digits, more than 10 years. */
bool duration_parse(const char *text, int64_t *ns);
/* "250ms", "8.2s", "3m12s", "2h05m": short, for people. At most size bytes; 24 are enough. Returns text. */
const char *duration_text(int64_t ns, char *text, size_t size);

#endif
