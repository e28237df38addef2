/* base64.h - names in words that take letters, digits, '-' and '_' only: base64url without padding (RFC 4648, section
 * 5). */
#ifndef PAWL_BASE64_H
#define PAWL_BASE64_H

#include <stdbool.h>
#include <stddef.h>

/* What length bytes become, with the NUL. */
#define BASE64_SIZE(length) (((length)*4 + 2) / 3 + 1)

void base64_encode(const char *bytes, size_t length, char *text);
/* False unless it is exactly what base64_encode makes of at most max bytes. A NUL is put behind them: bytes holds max
 * + 1. */
bool base64_decode(const char *text, char *bytes, size_t max);

#endif
