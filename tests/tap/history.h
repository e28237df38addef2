/* history.h - who held a lock, and when: each worker of a load test keeps its last turns, and when two holders have met
 * the turns around that moment are printed.
 *
 * A worker writes to its own ring only, and takes no mutex and makes no system call for it: the load test is there to find
 * races, and this must not hide them. The memory is shared with forked children, and all processes have the same clock.
 * A worker that sees a meeting sets `stop`, so that the turns around it are still in the rings when all have ended. */
#ifndef HISTORY_H
#define HISTORY_H

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#include "tap.h"

enum { HISTORY_TURNS = 128, HISTORY_WORKERS = 16, HISTORY_BEFORE = 8, HISTORY_AFTER = 8 };

/* One turn of one worker, on the monotonic clock in ns. 0: it did not get that far. */
struct history_turn {
        int64_t requested;
        int64_t acquired;
        int64_t releasing; /* the release was called: from here on others may hold it */
        int64_t released;
        uint64_t token;
        unsigned lock;   /* which of the locks */
        unsigned number; /* of the turn, from 1 */
        bool is_shared;
};

struct history_ring {
        unsigned turns; /* begun so far */
        struct history_turn last[HISTORY_TURNS];
};

struct history {
        int64_t began;
        unsigned permits; /* shared holders at most; 0: any number */
        atomic_bool stop;
        struct history_ring workers[HISTORY_WORKERS];
};

static inline int64_t history_now(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

/* The next turn of a worker; the oldest one is forgotten. The caller enters the times as they come. */
static inline struct history_turn *history_begin(struct history_ring *ring, unsigned lock, bool is_shared)
{
        struct history_turn *turn = &ring->last[ring->turns++ % HISTORY_TURNS];

        *turn = (struct history_turn){.lock = lock, .number = ring->turns, .is_shared = is_shared};
        turn->requested = history_now();
        return turn;
}

/* ---- printing, when all workers have ended ---- */

struct history_line {
        const struct history_turn *turn;
        unsigned worker;
};

struct history_lines {
        unsigned count;
        struct history_line line[HISTORY_WORKERS * HISTORY_TURNS];
};

static inline int history_order(const void *left, const void *right)
{
        int64_t a = ((const struct history_line *)left)->turn->acquired;
        int64_t b = ((const struct history_line *)right)->turn->acquired;

        return (a > b) - (a < b);
}

/* The turns that had this lock, in the order in which they acquired it. */
static inline void history_collect(const struct history *history, unsigned lock, struct history_lines *lines)
{
        lines->count = 0;
        for (unsigned worker = 0; worker < HISTORY_WORKERS; worker++) {
                const struct history_ring *ring = &history->workers[worker];

                for (unsigned i = 0; i < HISTORY_TURNS && i < ring->turns; i++) {
                        if (ring->last[i].lock == lock && ring->last[i].acquired)
                                lines->line[lines->count++] = (struct history_line){&ring->last[i], worker};
                }
        }
        qsort(lines->line, lines->count, sizeof(lines->line[0]), history_order);
}

static inline bool history_overlap(const struct history_turn *earlier, const struct history_turn *later)
{
        return !earlier->releasing || earlier->releasing > later->acquired;
}

/* A holder that should have kept line `at` out, or NULL. */
static inline const struct history_line *history_conflict(const struct history *history,
                                                          const struct history_lines *lines, unsigned at)
{
        const struct history_line *line = &lines->line[at];
        unsigned sharers = 1;

        for (unsigned i = at; i-- > 0;) {
                const struct history_line *earlier = &lines->line[i];

                if (!history_overlap(earlier->turn, line->turn))
                        continue;
                if (!earlier->turn->is_shared || !line->turn->is_shared)
                        return earlier;
                if (++sharers > history->permits && history->permits)
                        return earlier;
        }
        return NULL;
}

/* Two shared holders may return from acquiring in another order than they were granted; nobody else. */
static inline bool history_token_grew(const struct history_lines *lines, unsigned at)
{
        const struct history_turn *turn = lines->line[at].turn;
        const struct history_turn *before = at ? lines->line[at - 1].turn : NULL;

        return !before || (before->is_shared && turn->is_shared) || turn->token > before->token;
}

/* In ms since the run began. */
static inline const char *history_time(const struct history *history, int64_t at, char text[24])
{
        int64_t ns = at - history->began;

        if (at)
                snprintf(text, 24, "%" PRId64 ".%06" PRId64, ns / 1000000, ns % 1000000);
        return at ? text : "never";
}

static inline void history_print_line(const struct history *history, const struct history_lines *lines, unsigned at)
{
        const struct history_line *line = &lines->line[at];
        const struct history_turn *turn = line->turn;
        const struct history_line *other = history_conflict(history, lines, at);
        char times[4][24];
        char remark[96] = "";

        if (other && history->permits)
                snprintf(remark, sizeof(remark), "  <- one holder more than %u", history->permits);
        else if (other)
                snprintf(remark, sizeof(remark), "  <- worker %u still held it", other->worker);
        else if (!history_token_grew(lines, at))
                snprintf(remark, sizeof(remark), "  <- the token did not grow");
        NOTE("%14s %14s %14s %14s %17" PRIu64 " %6u %6u  %s%s", history_time(history, turn->requested, times[0]),
             history_time(history, turn->acquired, times[1]), history_time(history, turn->releasing, times[2]),
             history_time(history, turn->released, times[3]), turn->token, line->worker, turn->number,
             turn->is_shared ? "shared" : "exclusive", remark);
}

/* The first turn that acquired the lock at that time or later; with 0 the first in which it had two holders. */
static inline bool history_find(const struct history *history, const struct history_lines *lines, int64_t around,
                                unsigned *at)
{
        for (unsigned i = 0; i < lines->count; i++) {
                if (around ? lines->line[i].turn->acquired < around : !history_conflict(history, lines, i))
                        continue;
                *at = i;
                return true;
        }
        return false;
}

/* Prints who held a lock around a time; with 0, around the first meeting that the rings still show. False if they show
 * none. */
static inline bool history_print(const struct history *history, unsigned lock, int64_t around)
{
        static struct history_lines lines;
        unsigned at, first, end;

        history_collect(history, lock, &lines);
        if (!history_find(history, &lines, around, &at))
                return false;
        first = at > HISTORY_BEFORE ? at - HISTORY_BEFORE : 0;
        end = at + HISTORY_AFTER < lines.count ? at + HISTORY_AFTER : lines.count;
        NOTE("who held lock \"%u\" around that time, in the order of acquiring; times in ms since the run began:",
             lock);
        NOTE("%14s %14s %14s %14s %17s %6s %6s  %s", "requested", "acquired", "release begun", "release done", "token",
             "worker", "turn", "mode");
        for (unsigned i = first; i < end; i++)
                history_print_line(history, &lines, i);
        return true;
}

/* NULL if there is no memory. */
static inline void *history_share(size_t size)
{
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        return memory == MAP_FAILED ? NULL : memory;
}

#endif
