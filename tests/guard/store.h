/* store.h - what the sentences about guards share: a fresh store each, and the calls in short. */
#ifndef TESTS_GUARD_STORE_H
#define TESTS_GUARD_STORE_H

#include <pawl/guard.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

/* The sentence of the last call below that failed. */
extern struct pawl_why why;

/* The URL in PAWL_TEST_STORE, with {dir} an empty directory and {n} a number of the test's own: the same during one test.
 * PAWL_TEST_BEFORE is a command that prepares it. */
const char *store_url(void);
/* True if the store is one of this scheme, "mem:" or the like. */
bool store_is(const char *scheme);
/* Ends the test as skipped where PAWL_TEST_WITHOUT names the word: what this kind of guard does not have. */
void needs(const char *word);
/* ... and where the store is gone when it is closed. */
void needs_persistence(void);

pawl_guard *open_store(void);
int admit(pawl_guard *guard, const char *resource, uint64_t token);
int put(pawl_guard *guard, const char *resource, uint64_t token, const char *text);
int forget(pawl_guard *guard, const char *resource, uint64_t token);
/* Admits the token and finds this text, and before it this greatest token. */
void check_get(pawl_guard *guard, const char *resource, uint64_t token, const char *text, uint64_t before);
/* Admits the token and finds no data. */
void check_empty(pawl_guard *guard, const char *resource, uint64_t token);
/* The resources that a list of prefix names are these, each once; tokens[i] is the greatest of names[i]. */
void check_list(pawl_guard *guard, const char *prefix, const char *const *names, const uint64_t *tokens, int count);
/* Waits for a child of the test's own, which must have ended well. */
void check_child(int child);

#endif
