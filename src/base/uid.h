/* uid.h - the identity of an attempt as text: 32 hex digits. */
#ifndef PAWL_UID_H
#define PAWL_UID_H

#include <stdbool.h>
#include <stdint.h>

/* Writes the digits, without a NUL; returns what is behind them. */
char *uid_put(char *at, const uint64_t uid[2]);
void uid_text(const uint64_t uid[2], char text[33]);
/* Reads 32 digits in lower case; what follows is not looked at. */
bool uid_read(const char *text, uint64_t uid[2]);

#endif
