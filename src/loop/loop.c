/* loop.c - timers in a binary heap, readiness from epoll, both behind one descriptor. */
#include "loop.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { FIRST_ROOM = 16 };

static const int64_t no_turn = INT64_MIN;

/* ---- the machine as source --------------------------------------------------------------------------------------- */

static int64_t machine_now(void *arg)
{
        struct timespec now;

        (void)arg;
        clock_gettime(CLOCK_BOOTTIME, &now); /* MONOTONIC stands still while suspended; leases do not */
        return now.tv_sec * SECOND + now.tv_nsec;
}

/* Moves at every tick of the timer, and when the machine wakes up: the kernel counts what was left of the last tick
 * before it goes to sleep. A fifth of the price of the real time, because the processor's counter is not read. */
static int64_t machine_tick(void *arg)
{
        struct timespec now;

        (void)arg;
        clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
        return now.tv_sec * SECOND + now.tv_nsec;
}

static int64_t machine_wall(void *arg)
{
        struct timespec ts;

        (void)arg;
        clock_gettime(CLOCK_REALTIME, &ts);
        return ts.tv_sec * SECOND + ts.tv_nsec;
}

/* 0 or an errno. */
static int fill(void *bytes, size_t size)
{
        for (size_t done = 0; done < size;) {
                ssize_t n = getrandom((char *)bytes + done, size - done, 0);

                if (n < 0 && errno != EINTR)
                        return errno;
                if (n > 0)
                        done += (size_t)n;
        }
        return 0;
}

/* Leases are known by random words that must not be guessed: so the kernel's bytes, fetched in advance, each given out
 * once and wiped here. */
static void machine_random(void *arg, void *bytes, size_t size)
{
        struct loop *loop = arg;
        unsigned char *out = bytes;

        while (size > 0) {
                size_t part = size < loop->chance_left ? size : loop->chance_left;
                unsigned char *from = loop->chance + sizeof(loop->chance) - loop->chance_left;

                memcpy(out, from, part);
                explicit_bzero(from, part);
                loop->chance_left -= part;
                out += part;
                size -= part;
                /* It worked in loop_init, and the kernel does not run dry. */
                if (loop->chance_left == 0 && fill(loop->chance, sizeof(loop->chance)) == 0)
                        loop->chance_left = sizeof(loop->chance);
        }
}

/* ---- opening and closing ----------------------------------------------------------------------------------------- */

/* data.ptr tells our own two descriptors from watches: it points to where they are kept. */
static int watch_own(struct loop *loop, int *fd)
{
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = fd};

        return epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, *fd, &event);
}

static int open_descriptors(struct loop *loop)
{
        loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
        if (loop->epoll_fd < 0)
                return errno;
        loop->timer_fd = timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC);
        if (loop->timer_fd < 0)
                return errno;
        loop->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        if (loop->wake_fd < 0)
                return errno;
        if (watch_own(loop, &loop->timer_fd) != 0 || watch_own(loop, &loop->wake_fd) != 0)
                return errno;
        return 0;
}

int loop_init(struct loop *loop, const struct loop_source *source)
{
        int error;

        memset(loop, 0, sizeof(*loop));
        loop->armed = NEVER;
        loop->turn = no_turn;
        loop->epoll_fd = loop->timer_fd = loop->wake_fd = -1;
        if (source) {
                loop->source = *source;
                return 0;
        }
        loop->source = (struct loop_source){machine_now, machine_random, loop, machine_tick, machine_wall};
        error = fill(loop->chance, sizeof(loop->chance));
        loop->chance_left = sizeof(loop->chance);
        if (error == 0)
                error = open_descriptors(loop);
        if (error != 0)
                loop_close(loop);
        return error;
}

static void close_descriptor(int *fd)
{
        if (*fd >= 0)
                close(*fd);
        *fd = -1;
}

void loop_close(struct loop *loop)
{
        close_descriptor(&loop->wake_fd);
        close_descriptor(&loop->timer_fd);
        close_descriptor(&loop->epoll_fd);
        free(loop->heap);
        loop->heap = NULL;
        loop->timers = loop->heap_room = 0;
        explicit_bzero(loop->chance, sizeof(loop->chance));
}

/* ---- timers ------------------------------------------------------------------------------------------------------ */

static bool is_before(const struct loop_slot *one, const struct loop_slot *other)
{
        return one->at < other->at || (one->at == other->at && one->order < other->order);
}

static void put(struct loop *loop, size_t place, struct loop_slot slot)
{
        loop->heap[place] = slot;
        slot.timer->place = place;
}

/* Finds the place for slot from a hole on, upwards or downwards. */
static void settle(struct loop *loop, size_t hole, struct loop_slot slot)
{
        struct loop_slot *heap = loop->heap;

        for (; hole > 1 && is_before(&slot, &heap[hole / 2]); hole /= 2)
                put(loop, hole, heap[hole / 2]);
        for (size_t child; (child = hole * 2) <= loop->timers; hole = child) {
                if (child < loop->timers && is_before(&heap[child + 1], &heap[child]))
                        child++;
                if (!is_before(&heap[child], &slot))
                        break;
                put(loop, hole, heap[child]);
        }
        put(loop, hole, slot);
}

static void arm(struct loop *loop, int64_t at)
{
        struct itimerspec when = {0};

        if (loop->timer_fd < 0)
                return;
        if (at != NEVER) {
                int64_t positive = at > 0 ? at : 1; /* 0 would disarm */

                when.it_value.tv_sec = positive / SECOND;
                when.it_value.tv_nsec = positive % SECOND;
        }
        timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &when, NULL);
        loop->armed = at;
}

/* The timerfd may go off too early, for a timer that was unset since, but never too late: so most settings and
 * unsettings cost no system call. Within a turn it is done once, at the end. */
static void arm_if_earlier(struct loop *loop)
{
        if (loop->turn == no_turn && loop_next(loop) < loop->armed)
                arm(loop, loop_next(loop));
}

int loop_reserve(struct loop *loop, size_t n)
{
        size_t room = loop->heap_room ? loop->heap_room : FIRST_ROOM;
        struct loop_slot *heap;

        if (n >= SIZE_MAX / sizeof(*heap) / 2 - loop->timers)
                return ENOMEM;
        while (room < loop->timers + n + 1) /* [0] is not used */
                room *= 2;
        if (room == loop->heap_room)
                return 0;
        heap = realloc(loop->heap, room * sizeof(*heap));
        if (!heap)
                return ENOMEM;
        loop->heap = heap;
        loop->heap_room = room;
        return 0;
}

int loop_set(struct loop *loop, struct timer *timer, int64_t at)
{
        struct loop_slot slot = {at, loop->order++, timer};

        if (at <= loop->turn)
                slot.at = loop->turn + 1;
        if (timer->place == 0) {
                int error = loop_reserve(loop, 1);

                if (error != 0)
                        return error;
                timer->place = ++loop->timers;
        }
        timer->at = at;
        settle(loop, timer->place, slot);
        arm_if_earlier(loop);
        return 0;
}

void loop_unset(struct loop *loop, struct timer *timer)
{
        size_t place = timer->place;
        struct loop_slot last;

        if (place == 0)
                return;
        assert(loop->heap[place].timer == timer);
        last = loop->heap[loop->timers--];
        timer->place = 0;
        if (last.timer != timer)
                settle(loop, place, last);
}

int64_t loop_next(const struct loop *loop)
{
        return loop->timers > 0 ? loop->heap[1].at : NEVER;
}

static size_t fire_timers(struct loop *loop)
{
        size_t fired = 0;

        while (loop_next(loop) <= loop->turn) {
                struct timer *timer = loop->heap[1].timer;

                loop_unset(loop, timer);
                timer->fire(timer);
                fired++;
        }
        return fired;
}

/* ---- watches ----------------------------------------------------------------------------------------------------- */

static int control(struct loop *loop, int operation, struct watch *watch)
{
        struct epoll_event event = {.events = watch->events, .data.ptr = watch};

        if (loop->epoll_fd < 0)
                return ENOSYS;
        return epoll_ctl(loop->epoll_fd, operation, watch->fd, &event) == 0 ? 0 : errno;
}

int loop_watch(struct loop *loop, struct watch *watch)
{
        return control(loop, EPOLL_CTL_ADD, watch);
}

int loop_rewatch(struct loop *loop, struct watch *watch)
{
        int error = control(loop, EPOLL_CTL_MOD, watch);

        return error == ENOENT ? control(loop, EPOLL_CTL_ADD, watch) : error;
}

void loop_unwatch(struct loop *loop, struct watch *watch)
{
        atomic_fetch_add_explicit(&loop->unwatched, 1, memory_order_relaxed);
        control(loop, EPOLL_CTL_DEL, watch); /* a descriptor that is closed already has left by itself */
        for (size_t i = 0; i < loop->batched; i++)
                if (loop->batch[i] == watch)
                        loop->batch[i] = NULL;
}

/* Read first, then marked: whoever finds woken set while we are between the two has left its work before, and the
 * turn's caller looks for it after. The other way round a wake could be read away that nobody would repeat. */
static void take_wake(struct loop *loop)
{
        uint64_t count;
        ssize_t n = read(loop->wake_fd, &count, sizeof(count));

        (void)n;
        atomic_exchange(&loop->woken, false);
}

/* Calls the watches that are ready; *timer_ready: the timerfd went off. */
static size_t call_watches(struct loop *loop, const struct epoll_event *events, int n, bool *timer_ready)
{
        struct watch *batch[LOOP_BATCH];
        size_t called = 0;

        for (int i = 0; i < n; i++) {
                bool is_timer = events[i].data.ptr == &loop->timer_fd;
                bool is_wake = events[i].data.ptr == &loop->wake_fd;

                *timer_ready |= is_timer;
                if (is_wake)
                        take_wake(loop);
                batch[i] = is_timer || is_wake ? NULL : events[i].data.ptr;
        }
        loop->batch = batch;
        loop->batched = n > 0 ? (size_t)n : 0;
        for (int i = 0; i < n; i++) {
                if (!batch[i])
                        continue;
                batch[i]->ready(batch[i], events[i].events);
                called++;
        }
        loop->batch = NULL;
        loop->batched = 0;
        return called;
}

/* ---- turning ----------------------------------------------------------------------------------------------------- */

static size_t turn(struct loop *loop, const struct epoll_event *events, int n)
{
        bool timer_ready = false;
        size_t done = 0;

        assert(loop->turn == no_turn);
        loop->turn = loop_now(loop);
        loop->polled_at = loop->turn;
        /* What has arrived comes before what is overdue: a reply in time must not lose to its own deadline. */
        if (n > 0)
                done += call_watches(loop, events, n, &timer_ready);
        done += fire_timers(loop);
        if (timer_ready || loop->armed <= loop->turn || loop_next(loop) < loop->armed)
                arm(loop, loop_next(loop));
        loop->turn = no_turn;
        return done;
}

size_t loop_turn(struct loop *loop)
{
        struct epoll_event events[LOOP_BATCH];

        return turn(loop, events, loop->epoll_fd < 0 ? 0 : epoll_wait(loop->epoll_fd, events, LOOP_BATCH, 0));
}

/* A watch that was removed since may not exist any more: then nothing is believed. */
size_t loop_turn_found(struct loop *loop, const struct loop_found *found)
{
        if (found->unwatched != atomic_load_explicit(&loop->unwatched, memory_order_relaxed))
                return loop_turn(loop);
        return turn(loop, found->events, found->count);
}

void loop_sleep(struct loop *loop, struct loop_found *found)
{
        found->unwatched = atomic_load_explicit(&loop->unwatched, memory_order_relaxed);
        found->count = loop->epoll_fd < 0 ? 0 : epoll_wait(loop->epoll_fd, found->events, LOOP_BATCH, -1);
}

/* ---- hot descriptors ---------------------------------------------------------------------------------------------- */

/* A hot wait may last a few ms, and other descriptors are not looked at meanwhile: not so near to a timer, and not so
 * often in a row that they wait longer than this. */
#define HOT_WAIT_MAX (20 * MS)
#define HOT_TURNS_FOR MS

void loop_expect(struct loop *loop, struct loop_hot *hot, bool expected)
{
        if (expected) {
                loop->hots++;
                loop->hot = hot;
        } else {
                loop->hots--;
                if (loop->hot == hot)
                        loop->hot = NULL;
        }
}

struct loop_hot *loop_heat(struct loop *loop)
{
        int64_t now;

        if (loop->hots != 1 || !loop->hot || atomic_load(&loop->woken))
                return NULL;
        now = loop_now(loop);
        if (now - loop->polled_at >= HOT_TURNS_FOR || loop_next(loop) - now < HOT_WAIT_MAX)
                return NULL;
        return loop->slept_in = loop->hot;
}

void loop_turn_hot(struct loop *loop, struct loop_hot *hot)
{
        assert(loop->turn == no_turn);
        loop->turn = loop_now(loop);
        loop->slept_in = NULL;
        hot->take(hot);
        fire_timers(loop);
        if (loop_next(loop) < loop->armed)
                arm(loop, loop_next(loop));
        loop->turn = no_turn;
}

void loop_wait(struct loop *loop, int64_t until)
{
        struct pollfd descriptor = {.fd = loop->epoll_fd, .events = POLLIN};
        int64_t left = until == NEVER ? NEVER : until - loop_now(loop);
        struct timespec timeout = {.tv_sec = left / SECOND, .tv_nsec = left % SECOND};

        if (loop->epoll_fd < 0 || left <= 0)
                return;
        ppoll(&descriptor, 1, until == NEVER ? NULL : &timeout, NULL);
}

void loop_wake(struct loop *loop)
{
        uint64_t one = 1;
        ssize_t n;

        if (loop->wake_fd < 0 || atomic_exchange(&loop->woken, true))
                return;
        n = write(loop->wake_fd, &one, sizeof(one));
        (void)n; /* it cannot be full: there is one wake in it at most */
}
