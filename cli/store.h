/* store.h - what fence, put and get share: the guard they are told to use, and the token. */
#ifndef PAWL_CLI_STORE_H
#define PAWL_CLI_STORE_H

#include <pawl/guard.h>

#include "cli.h"

/* --store STORE: read by store_options, used by store_open. */
extern const struct option store_options[];

/* Opens the guard and reads TOKEN. False: says why, and *status is the command's. */
bool store_open(const struct command *, const char *token_text, pawl_guard **guard, uint64_t *token, int *status);

#endif
