/* past.h - past owners, where the store remembers none (ZooKeeper, etcd). Who holds writes down that it began and
 * how it ended: in batches, so that history costs a busy client one request a second and no lock waits for it. A
 * batch is a text of lines:
 *
 *   TOKEN HOW SINCE_MS UNTIL_MS MODE LIMIT NAME OWNER NOTE
 *
 * HOW is enum pawl_how, 0 for a beginning. A hold that began, has no end and is not there any more has expired. A batch
 * of holds that were broken, all by one client, has one more line behind them, which older versions pass over:
 *
 *   broken BY REASON */
#ifndef PAWL_PAST_H
#define PAWL_PAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../../base/list.h"
#include "../engine.h"

enum {
        PAST_LINES = 64, /* in a batch; of more the oldest are forgotten */
        PAST_LINE_MAX = 160 + 3 * (PAWL_NAME_MAX + PAWL_OWNER_MAX + PAWL_NOTE_MAX),
        PAST_BATCH_MAX = (PAST_LINES + 1) * PAST_LINE_MAX
};

struct past_line {
        uint64_t token;
        int64_t since_ms, until_ms;
        uint32_t how, mode, limit;
        const char *name, *owner, *note;
};

/* ---- writing --------------------------------------------------------------------------------------------------- */

struct past {
        struct list lines; /* struct past_kept, the oldest first */
        struct list spare; /* to be used again: who holds often does not allocate each time */
        size_t count;
};

void past_init(struct past *past);
void past_free(struct past *past); /* also if it is zeroed only */
/* Remembers a beginning or an end; an end takes the place of a beginning that is still here, and of several ends that
 * with the greatest how stays. Without memory it is forgotten. */
void past_note(struct past *past, const struct past_line *line);
/* All of it as one batch, and it is empty. The text is the caller's to free; NULL if there is nothing, or no memory. */
char *past_write(struct past *past, size_t *size);
/* The same of holds that were all broken: who did, and why. */
char *past_write_broken(struct past *past, const char *by, const char *reason, size_t *size);

/* ---- reading --------------------------------------------------------------------------------------------------- */

struct past_view {
        struct past_kept **lines;
        size_t count, room;
};

/* Adds the lines of a batch that are about name; what is no line of ours is passed over. PAWL_OK or PAWL_NO_MEMORY. */
int past_read(struct past_view *view, const char *text, size_t size, const char *name);
/* Did the latest of them begin, and neither hold nor end? Its end may be on its way: those of a busy client take a
 * second. */
bool past_awaits_end(const struct past_view *view, bool (*holds)(void *arg, uint64_t token), void *arg);
/* Tells them, the latest first, each once; those whose token holds says are not past. Frees the view. now_ms: for
 * ends that nobody wrote down. */
void past_tell(struct past_view *view, struct inquiry *inquiry, bool (*holds)(void *arg, uint64_t token), void *arg,
               int64_t now_ms);
void past_view_free(struct past_view *view);

#endif
