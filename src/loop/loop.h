/* loop.h - now, timers, readiness, random, wake: the only place that knows the time. epoll, one timerfd on
 * CLOCK_BOOTTIME and one eventfd behind one descriptor. Not thread-safe, but for loop_wait and loop_wake: whoever
 * calls must own the loop. All times are ns on CLOCK_BOOTTIME, which counts while the machine sleeps, as leases do. */
#ifndef PAWL_LOOP_H
#define PAWL_LOOP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/epoll.h>

#include "../base/duration.h"

#define NEVER INT64_MAX

struct loop;

/* Where time and chance come from: the machine, or a simulator. */
struct loop_source {
        int64_t (*now)(void *arg);
        void (*random)(void *arg, void *bytes, size_t size);
        void *arg;
        int64_t (*tick)(void *arg); /* see loop_tick; NULL: there is none */
        int64_t (*wall)(void *arg); /* see loop_wall; NULL: as now */
};

struct timer {
        int64_t at;   /* when it is due; valid while it is set */
        size_t place; /* in the heap, from 1; 0: not set */
        void (*fire)(struct timer *);
};

struct watch {
        int fd;
        uint32_t events; /* EPOLLIN, ... */
        void (*ready)(struct watch *, uint32_t events);
};

/* A timer's place in the heap, with all that is compared. */
struct loop_slot {
        int64_t at;     /* the timer's, but never within the turn in which it was set */
        uint64_t order; /* of being set: decides between equal times */
        struct timer *timer;
};

/* A descriptor whose news are expected any moment, such as the reply to a request. A thread that waits for nothing else may
 * sleep right there: that is one system call instead of four. */
struct loop_hot {
        bool (*wait)(struct loop_hot *); /* like loop_wait, for a few ms at most; true: there is something to take */
        void (*take)(struct loop_hot *); /* hears what wait got; called after each */
};

enum { LOOP_BATCH = 64 };

/* What a loop_sleep has found. It is the sleeper's, for the loop may have been changed meanwhile by who owns it. */
struct loop_found {
        uint64_t unwatched; /* the loop's, when it fell asleep */
        int count;
        struct epoll_event events[LOOP_BATCH];
};

struct loop {
        struct loop_source source;
        struct loop_slot *heap; /* the earliest at [1] */
        size_t timers;
        size_t heap_room;
        uint64_t order; /* of the next timer to be set */
        int64_t armed;  /* what the timerfd is set to; NEVER: nothing */
        int64_t turn;   /* the time of the turn being dispatched; INT64_MIN: none */
        int epoll_fd;   /* -1 in a simulator: timers only */
        int timer_fd;
        int wake_fd;
        atomic_bool woken;          /* a wake is in the eventfd */
        _Atomic uint64_t unwatched; /* how many times a watch was removed: what was found before may be gone */
        struct watch **batch;       /* the watches of the turn being dispatched, so that one may be removed meanwhile */
        size_t batched;
        struct loop_hot *hot;      /* where news are expected, if hots is 1 */
        struct loop_hot *slept_in; /* a thread sleeps there now: its descriptor must stay open */
        size_t hots;               /* at how many places */
        int64_t polled_at;         /* when all descriptors were looked at */
        size_t chance_left;        /* random bytes not yet given out, at the end of chance */
        unsigned char chance[256];
};

/* 0, or an errno. source NULL: the machine's clock and random numbers, with descriptors; else timers only. */
int loop_init(struct loop *loop, const struct loop_source *source);
void loop_close(struct loop *loop);

static inline int64_t loop_now(const struct loop *loop)
{
        return loop->source.now(loop->source.arg);
}

/* A cheap look at the clock: as long as it gives the same number, less than a tick of the machine's timer (10 ms at
 * most) has passed, and the machine has not slept. A number not given before where there is no such thing. */
static inline int64_t loop_tick(const struct loop *loop)
{
        return loop->source.tick ? loop->source.tick(loop->source.arg) : loop_now(loop);
}

/* ns since 1970 by the wall clock, which may be wrong, and jump: only to show times to people. */
static inline int64_t loop_wall(const struct loop *loop)
{
        return loop->source.wall ? loop->source.wall(loop->source.arg) : loop_now(loop);
}

static inline void loop_random(const struct loop *loop, void *bytes, size_t size)
{
        loop->source.random(loop->source.arg, bytes, size);
}

/* Sets, or moves, a timer. 0, or ENOMEM and it is as it was; moving a set timer never fails. Timers fire in the order
 * of their times, those of equal times as they were set; one set within a turn fires in a later one, also for a time
 * that is past. */
int loop_set(struct loop *loop, struct timer *timer, int64_t at);
void loop_unset(struct loop *loop, struct timer *timer);
/* Makes room for n timers at once, so that the next loop_set of so many cannot fail. */
int loop_reserve(struct loop *loop, size_t n);
/* When the next turn has a timer to fire; NEVER if none is set. */
int64_t loop_next(const struct loop *loop);

/* 0 or an errno. Changing a watch: set ->events, then loop_rewatch (which adds it again if its descriptor was closed
 * and opened under us). */
int loop_watch(struct loop *loop, struct watch *watch);
int loop_rewatch(struct loop *loop, struct watch *watch);
void loop_unwatch(struct loop *loop, struct watch *watch);

/* Sleeps until something is ready, a timer is due or loop_wake was called, at most until the time given. This and
 * loop_sleep may run while another thread owns the loop; they only sleep. */
void loop_wait(struct loop *loop, int64_t until);
/* The same without an end, and the loop_turn_found that follows need not ask the kernel again: one system call for both. */
void loop_sleep(struct loop *loop, struct loop_found *found);
/* Makes a loop_wait or loop_sleep return; from any thread. The next loop_turn takes the wake back: look for what you were
 * woken for after the turn, not before. */
void loop_wake(struct loop *loop);
/* Does everything that is due now, without sleeping. Returns how many timers fired and watches were ready. */
size_t loop_turn(struct loop *loop);
size_t loop_turn_found(struct loop *loop, const struct loop_found *found);
/* News are expected here, or no longer. */
void loop_expect(struct loop *loop, struct loop_hot *hot, bool expected);
/* Where to sleep instead of in loop_wait; NULL if other things are due as well. Nobody may turn the loop until
 * loop_turn_hot. */
struct loop_hot *loop_heat(struct loop *loop);
/* A turn for what a hot wait got, if anything, and the timers. */
void loop_turn_hot(struct loop *loop, struct loop_hot *hot);

/* Readable when loop_turn has something to do. */
static inline int loop_fd(const struct loop *loop)
{
        return loop->epoll_fd;
}

#endif
