/* recipe.h - what recipes share: options, sentences, names of their own, time that runs out. They stand on the public
 * headers alone; the clock is in when.h. */
#ifndef PAWL_RECIPE_H
#define PAWL_RECIPE_H

#include <pawl.h>
#include <stdbool.h>
#include <stddef.h>

#define RECIPE_MS INT64_C(1000000)
#define RECIPE_NEVER INT64_MAX

/* The rule of pawl.h for structs that begin with their size; theirs may be NULL. PAWL_OK; else PAWL_INVALID or
 * PAWL_UNSUPPORTED, and their why says so, also if they have no size. macro: the one that sets it, "PAWL_ONCE". Whatever is
 * returned, mine->why is theirs, or NULL where it cannot be read. */
#define RECIPE_OPTIONS(mine, theirs, macro)                                                                            \
        recipe_options((mine), sizeof(*(mine)), offsetof(__typeof__(*(mine)), why), (theirs), macro)
int recipe_options(void *mine, size_t size, size_t why_at, const void *theirs, const char *macro);
/* Writes the sentence and returns code; why may be NULL. A name in it must have been checked by a call that took it. */
int recipe_fail(struct pawl_why *why, int code, const char *text);
int recipe_why(struct pawl_why *why, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same for a call that looks at the store or writes beside a lock: the client knows why. */
int recipe_explain(struct pawl_why *why, pawl_client *client, int code);
/* PAWL_UNSUPPORTED, and the text, if the client's engine lacks one of these. PAWL_INVALID, PAWL_FORKED: no client, or one of
 * the parent process. */
int recipe_needs(pawl_client *client, uint32_t capabilities, struct pawl_why *why, const char *text);

/* "FAMILY/NAME": the lock that a recipe takes for something called NAME. PAWL_INVALID if that is too long. */
int recipe_name(const char *family, const char *name, char room[PAWL_NAME_MAX + 1], struct pawl_why *why);

/* A number that a recipe keeps, as recipes write it: magic, digits (without a zero before them), nothing else. False: it is
 * something else, or more than most. */
bool recipe_read_number(const char *text, size_t size, const char *magic, uint64_t most, uint64_t *number);

/* When a wait of wait_ms that begins now is over: RECIPE_NEVER for PAWL_FOREVER, now for PAWL_NO_WAIT. */
int64_t recipe_deadline(int64_t wait_ms);
/* What is left of it, as wait_ms for the next call: PAWL_NO_WAIT if nothing is. */
int64_t recipe_left(int64_t deadline);

/* The whole of it, as when_sleep; a client without a thread (PAWL_DRIVE_CALLER) is turned meanwhile, for it may have other
 * leases to renew. */
void recipe_sleep(pawl_client *client, int64_t ns);

/* Waits until whoever has the lock alone has given it back or lost it, together with all others who wait so: they share
 * it for a moment, where the engine can. PAWL_OK, or why that was not found out. */
int recipe_outwait(pawl_client *client, const char *name, int64_t wait_ms, struct pawl_why *why);

/* Pauses of a reader that has to look again and again: from 2 ms, doubling, up to a quarter of a second, each between half
 * and the whole of that; never past the deadline. False: the deadline has passed. */
struct recipe_pause {
        pawl_client *client;
        int64_t next;
        int64_t deadline;
};
bool recipe_pause(struct recipe_pause *pause);

#endif
