/* store.h - what the commands of guards share: the guard they are told to use, and the token. */
#ifndef PAWL_CLI_STORE_H
#define PAWL_CLI_STORE_H

#include <pawl/guard.h>

#include "cli.h"

/* --store STORE: read by store_options, or by those of a command that has more, used by store_open. */
extern const struct option store_options[];
/* The same for commands that take a TOKEN. */
extern const struct option store_token_options[];
bool option_store(const struct option *, const char *text);
#define STORE_OPTION                                                                                                   \
        {                                                                                                              \
                0, "store", "STORE", "where the guard is, such as file:DIR; else $PAWL_STORE", option_store, NULL      \
        }

/* --force: see store_open. */
extern bool store_forced;
#define STORE_FORCE                                                                                                    \
        {                                                                                                              \
                0, "force", NULL, "also with a TOKEN of 2^62 or more, which no engine makes", option_flag,             \
                        &store_forced                                                                                  \
        }

/* The STORE of --store, NULL if it was not there; $PAWL_STORE alone does not count. */
const char *store_named(void);

/* What the help of each says of STORE. */
#define STORE_DETAILS "STORE is file:DIR, sqlite:FILE, postgres://..., redis://... or http://...; see pawl-fence(1).\n"

/* Opens the guard, and reads TOKEN if token_text is not NULL. One that no engine makes would shut the resource to all that
 * they do make, so it is refused without --force. False: says why, and *status is the command's. */
bool store_open(const struct command *, const char *token_text, pawl_guard **guard, uint64_t *token, int *status);

/* The same for commands that only read: the guard is NULL if there is no store yet, and none is made. */
bool store_open_to_look(const struct command *, pawl_guard **guard, int *status);

/* Reads VERSION, which may be 0. False: says why. */
bool store_version(const char *text, uint64_t *version);

#endif
