/* test_loop.c - timers, readiness and wakes: on the machine, and with a clock of our own. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/list.h"
#include "loop/loop.h"
#include "tap.h"

/* ---- a clock of our own ----------------------------------------------------------------------------------------- */

static int64_t clock_now = 1000;
static uint64_t dice = 1;

static int64_t simulated_now(void *arg)
{
        (void)arg;
        return clock_now;
}

static void simulated_random(void *arg, void *bytes, size_t size)
{
        (void)arg;
        memset(bytes, 7, size);
}

static const struct loop_source simulator = {.now = simulated_now, .random = simulated_random};

static uint32_t roll(uint32_t below)
{
        dice = dice * UINT64_C(6364136223846793005) + 1442695040888963407;
        return (uint32_t)(dice >> 33) % below;
}

static struct loop loop;

struct bell {
        struct timer timer;
        int number;
        int rung;
        int64_t again;      /* set anew for this time when it rings; 0: not */
        struct bell *other; /* unset when it rings */
};

static int rings[100];
static size_t ring_count;

static void ring(struct timer *timer)
{
        struct bell *bell = container_of(timer, struct bell, timer);

        CHECK_UINT(timer->place, 0);
        bell->rung++;
        if (ring_count < sizeof(rings) / sizeof(rings[0]))
                rings[ring_count++] = bell->number;
        if (bell->again)
                CHECK_INT(loop_set(&loop, timer, bell->again), 0);
        if (bell->other)
                loop_unset(&loop, &bell->other->timer);
}

static void set(struct bell *bell, int number, int64_t at)
{
        bell->timer.fire = ring;
        bell->number = number;
        REQUIRE(loop_set(&loop, &bell->timer, at) == 0);
}

TEST(timers_fire_by_time_and_then_by_the_order_of_being_set)
{
        struct bell bells[6] = {0};
        static const int expected[] = {5, 1, 3, 4, 0};

        REQUIRE(loop_init(&loop, &simulator) == 0);
        CHECK_INT(loop_next(&loop), NEVER);
        set(&bells[0], 0, 1030);
        set(&bells[1], 1, 1020);
        set(&bells[2], 2, 1040);
        set(&bells[3], 3, 1020);
        set(&bells[4], 4, 1020);
        set(&bells[5], 5, -7);
        CHECK_INT(loop_next(&loop), -7);
        clock_now = 1039;
        CHECK_UINT(loop_turn(&loop), 5);
        CHECK_UINT(ring_count, 5);
        CHECK_MEM(rings, expected, sizeof(expected));
        CHECK_INT(loop_next(&loop), 1040);
        CHECK_UINT(loop_turn(&loop), 0);
        loop_close(&loop);
}

TEST(a_timer_that_is_moved_fires_at_its_new_time_after_those_that_were_there)
{
        struct bell bells[2] = {0};

        REQUIRE(loop_init(&loop, &simulator) == 0);
        set(&bells[0], 0, 1010);
        set(&bells[1], 1, 1020);
        set(&bells[0], 0, 1020);
        CHECK_INT(bells[0].timer.at, 1020);
        clock_now = 1020;
        CHECK_UINT(loop_turn(&loop), 2);
        CHECK_INT(rings[0], 1);
        CHECK_INT(rings[1], 0);
        loop_close(&loop);
}

TEST(a_timer_set_in_a_turn_for_a_time_past_fires_in_the_next_turn)
{
        struct bell bell = {.again = 1};
        struct bell later = {0};

        REQUIRE(loop_init(&loop, &simulator) == 0);
        set(&bell, 0, 1000);
        set(&later, 1, 1001);
        CHECK_UINT(loop_turn(&loop), 1);
        CHECK_INT(bell.rung, 1);
        CHECK_INT(bell.timer.at, 1);
        CHECK(loop_next(&loop) <= 1001);
        clock_now = loop_next(&loop);
        CHECK_UINT(loop_turn(&loop), 2);
        CHECK_INT(bell.rung, 2);
        CHECK_INT(later.rung, 1);
        loop_close(&loop);
}

TEST(a_timer_may_unset_another_that_is_due_in_the_same_turn)
{
        struct bell bells[3] = {0};

        REQUIRE(loop_init(&loop, &simulator) == 0);
        bells[0].other = &bells[1];
        set(&bells[0], 0, 1000);
        set(&bells[1], 1, 1000);
        set(&bells[2], 2, 1000);
        CHECK_UINT(loop_turn(&loop), 2);
        CHECK_INT(bells[1].rung, 0);
        CHECK_INT(bells[2].rung, 1);
        loop_unset(&loop, &bells[1].timer);
        loop_close(&loop);
}

TEST(a_simulator_has_no_descriptor_and_never_sleeps)
{
        struct watch watch = {.fd = 0, .events = EPOLLIN};
        unsigned char bytes[2] = {0};

        REQUIRE(loop_init(&loop, &simulator) == 0);
        CHECK_INT(loop_fd(&loop), -1);
        loop_wait(&loop, NEVER);
        loop_wake(&loop);
        CHECK(loop_watch(&loop, &watch) != 0);
        loop_random(&loop, bytes, sizeof(bytes));
        CHECK_INT(bytes[1], 7);
        CHECK_INT(loop_now(&loop), 1000);
        loop_close(&loop);
}

TEST(room_that_was_reserved_is_there)
{
        struct bell *bells = calloc(1000, sizeof(*bells));
        struct loop_slot *heap;

        REQUIRE(bells != NULL && loop_init(&loop, &simulator) == 0);
        REQUIRE(loop_reserve(&loop, 1000) == 0);
        heap = loop.heap;
        for (int i = 0; i < 1000; i++)
                set(&bells[i], i, i);
        CHECK(loop.heap == heap);
        CHECK_INT(loop_reserve(&loop, SIZE_MAX), ENOMEM);
        CHECK_INT(loop_reserve(&loop, SIZE_MAX / 8), ENOMEM);
        loop_close(&loop);
        free(bells);
}

/* The heap against the plainest model: an array that is searched. */
TEST(a_heap_of_timers_is_a_sorted_list)
{
        enum { BELLS = 300 };
        struct bell *bells = calloc(BELLS, sizeof(*bells));

        REQUIRE(bells != NULL && loop_init(&loop, &simulator) == 0);
        for (int step = 0; step < 20000; step++) {
                struct bell *bell = &bells[roll(BELLS)];
                int64_t earliest = NEVER;

                if (roll(3) == 0)
                        loop_unset(&loop, &bell->timer);
                else
                        set(bell, 0, clock_now + 1 + roll(1000));
                for (int i = 0; i < BELLS; i++) {
                        if (bells[i].timer.place == 0)
                                continue;
                        REQUIRE(loop.heap[bells[i].timer.place].timer == &bells[i].timer);
                        if (bells[i].timer.at < earliest)
                                earliest = bells[i].timer.at;
                }
                REQUIRE_INT(loop_next(&loop), earliest);
                if (roll(10) == 0) {
                        clock_now += roll(50);
                        loop_turn(&loop);
                        REQUIRE(loop_next(&loop) > clock_now);
                }
        }
        loop_close(&loop);
        free(bells);
}

/* ---- the machine ------------------------------------------------------------------------------------------------ */

static int64_t timer_left(void)
{
        struct itimerspec left;

        REQUIRE(timerfd_gettime(loop.timer_fd, &left) == 0);
        return left.it_value.tv_sec * SECOND + left.it_value.tv_nsec;
}

TEST(the_loop_sleeps_until_a_timer_is_due)
{
        struct bell bell = {0};
        int64_t before, after;

        REQUIRE(loop_init(&loop, NULL) == 0);
        before = loop_now(&loop);
        set(&bell, 0, before + 20 * MS);
        while (bell.rung == 0) {
                loop_wait(&loop, NEVER);
                loop_turn(&loop);
        }
        after = loop_now(&loop);
        CHECK(after >= before + 20 * MS);
        CHECK_INT(bell.rung, 1);
        loop_close(&loop);
}

TEST(the_loop_sleeps_no_longer_than_it_was_told)
{
        int64_t before;

        REQUIRE(loop_init(&loop, NULL) == 0);
        before = loop_now(&loop);
        loop_wait(&loop, before - 1);
        loop_wait(&loop, INT64_MIN / 2);
        loop_wait(&loop, before + 10 * MS);
        CHECK(loop_now(&loop) >= before + 10 * MS);
        loop_close(&loop);
}

TEST(setting_and_unsetting_later_timers_costs_no_system_call)
{
        struct bell first = {0}, second = {0};
        int64_t now, armed;

        REQUIRE(loop_init(&loop, NULL) == 0);
        now = loop_now(&loop);
        CHECK_INT(timer_left(), 0);
        set(&first, 0, now + 100 * SECOND);
        armed = loop.armed;
        CHECK_INT(armed, now + 100 * SECOND);
        CHECK(timer_left() > 50 * SECOND);
        set(&second, 1, now + 200 * SECOND);
        loop_unset(&loop, &second.timer);
        loop_unset(&loop, &first.timer);
        set(&first, 0, now + 150 * SECOND);
        CHECK_INT(loop.armed, armed);
        set(&second, 1, now + 50 * SECOND);
        CHECK_INT(loop.armed, now + 50 * SECOND);
        CHECK(timer_left() <= 50 * SECOND);
        loop_close(&loop);
}

TEST(an_alarm_for_a_timer_that_was_unset_is_armed_for_the_next)
{
        struct bell first = {0}, second = {0};
        int64_t now;

        REQUIRE(loop_init(&loop, NULL) == 0);
        now = loop_now(&loop);
        set(&first, 0, now + 5 * MS);
        set(&second, 1, now + 100 * SECOND);
        loop_unset(&loop, &first.timer);
        loop_wait(&loop, NEVER);
        CHECK_UINT(loop_turn(&loop), 0);
        CHECK_INT(loop.armed, now + 100 * SECOND);
        loop_unset(&loop, &second.timer);
        set(&first, 0, now);
        CHECK_UINT(loop_turn(&loop), 1);
        CHECK_INT(loop.armed, NEVER);
        CHECK_INT(timer_left(), 0);
        loop_wait(&loop, loop_now(&loop) + MS);
        loop_close(&loop);
}

TEST(a_timer_that_sets_itself_for_the_past_does_not_keep_the_turn)
{
        struct bell bell = {.again = 1};

        REQUIRE(loop_init(&loop, NULL) == 0);
        set(&bell, 0, 0);
        for (int i = 1; i <= 10; i++) {
                loop_wait(&loop, NEVER);
                CHECK_UINT(loop_turn(&loop), 1);
                CHECK_INT(bell.rung, i);
        }
        loop_close(&loop);
}

struct ear {
        struct watch watch;
        int heard;
        uint32_t events;
        struct ear *other; /* unwatched when we hear */
};

static void hear(struct watch *watch, uint32_t events)
{
        struct ear *ear = container_of(watch, struct ear, watch);

        ear->heard++;
        ear->events = events;
        if (ear->other)
                loop_unwatch(&loop, &ear->other->watch);
}

/* A pipe with something in it, watched at its reading end. The writing end. */
static int listen_to_pipe(struct ear *ear, const char *text)
{
        int ends[2];

        REQUIRE(pipe(ends) == 0);
        REQUIRE(write(ends[1], text, strlen(text)) == (ssize_t)strlen(text));
        ear->watch = (struct watch){ends[0], EPOLLIN, hear};
        REQUIRE(loop_watch(&loop, &ear->watch) == 0);
        return ends[1];
}

TEST(a_ready_descriptor_calls_its_watch_until_it_is_read_or_unwatched)
{
        struct ear ear = {0};
        char byte;

        REQUIRE(loop_init(&loop, NULL) == 0);
        listen_to_pipe(&ear, "x");
        loop_wait(&loop, NEVER);
        CHECK_UINT(loop_turn(&loop), 1);
        CHECK_UINT(loop_turn(&loop), 1);
        CHECK_INT(ear.heard, 2);
        CHECK_UINT(ear.events, EPOLLIN);
        CHECK_INT(loop_watch(&loop, &ear.watch), EEXIST);
        REQUIRE(read(ear.watch.fd, &byte, 1) == 1);
        CHECK_UINT(loop_turn(&loop), 0);
        loop_unwatch(&loop, &ear.watch);
        loop_unwatch(&loop, &ear.watch);
        loop_close(&loop);
}

TEST(a_watch_may_be_removed_by_another_in_the_same_turn)
{
        struct ear ears[2] = {{.heard = 0}, {.heard = 0}};

        REQUIRE(loop_init(&loop, NULL) == 0);
        listen_to_pipe(&ears[0], "x");
        listen_to_pipe(&ears[1], "x");
        ears[0].other = &ears[1];
        ears[1].other = &ears[0];
        CHECK_UINT(loop_turn(&loop), 1);
        CHECK_INT(ears[0].heard + ears[1].heard, 1);
        loop_close(&loop);
}

TEST(a_watch_changes_what_it_waits_for_and_survives_a_new_descriptor_of_its_number)
{
        struct ear ear = {0};
        int end;
        int fd;

        REQUIRE(loop_init(&loop, NULL) == 0);
        end = listen_to_pipe(&ear, "x");
        ear.watch.events = 0;
        CHECK_INT(loop_rewatch(&loop, &ear.watch), 0);
        CHECK_UINT(loop_turn(&loop), 0);
        ear.watch.events = EPOLLIN;
        CHECK_INT(loop_rewatch(&loop, &ear.watch), 0);
        CHECK_UINT(loop_turn(&loop), 1);
        fd = ear.watch.fd;
        close(fd);
        REQUIRE(dup2(end, fd) == fd);
        ear.watch.events = EPOLLOUT;
        CHECK_INT(loop_rewatch(&loop, &ear.watch), 0);
        loop_turn(&loop);
        CHECK(ear.events & (EPOLLOUT | EPOLLERR));
        loop_close(&loop);
}

TEST(more_than_a_batch_of_ready_descriptors_are_all_served)
{
        enum { EARS = 150 };
        struct ear *ears = calloc(EARS, sizeof(*ears));
        int quiet = 0;

        REQUIRE(ears != NULL && loop_init(&loop, NULL) == 0);
        for (int i = 0; i < EARS; i++)
                listen_to_pipe(&ears[i], "x");
        for (int i = 0; i < 3; i++)
                CHECK(loop_turn(&loop) <= 64);
        for (int i = 0; i < EARS; i++)
                quiet += ears[i].heard == 0;
        CHECK_INT(quiet, 0);
        loop_close(&loop);
        free(ears);
}

TEST(what_has_arrived_comes_before_what_is_overdue)
{
        struct ear ear = {0};
        struct bell bell = {0};

        REQUIRE(loop_init(&loop, NULL) == 0);
        listen_to_pipe(&ear, "x");
        set(&bell, 0, 0);
        ear.other = &ear;
        CHECK_UINT(loop_turn(&loop), 2);
        CHECK_INT(ear.heard, 1);
        CHECK_INT(bell.rung, 1);
        loop_close(&loop);
}

/* ---- wakes ------------------------------------------------------------------------------------------------------- */

TEST(a_wake_ends_a_wait_once_however_often_it_was_called)
{
        uint64_t count = 0;

        REQUIRE(loop_init(&loop, NULL) == 0);
        for (int i = 0; i < 5; i++)
                loop_wake(&loop);
        loop_wait(&loop, NEVER);
        REQUIRE(read(loop.wake_fd, &count, sizeof(count)) == sizeof(count));
        CHECK_UINT(count, 1);
        loop_turn(&loop);
        loop_close(&loop);
}

enum { ERRANDS = 20000 };
static atomic_int errands; /* left to be taken */
static atomic_bool sent_all;

static void *send_errands(void *arg)
{
        (void)arg;
        for (int i = 0; i < ERRANDS; i++) {
                atomic_fetch_add(&errands, 1);
                loop_wake(&loop);
        }
        atomic_store(&sent_all, true);
        loop_wake(&loop);
        return NULL;
}

TEST(no_wake_is_lost_between_threads)
{
        pthread_t threads[3];
        int taken = 0;

        REQUIRE(loop_init(&loop, NULL) == 0);
        for (int i = 0; i < 3; i++)
                REQUIRE(pthread_create(&threads[i], NULL, send_errands, NULL) == 0);
        while (taken < 3 * ERRANDS) {
                loop_wait(&loop, NEVER);
                loop_turn(&loop);
                taken += atomic_exchange(&errands, 0);
        }
        for (int i = 0; i < 3; i++)
                pthread_join(threads[i], NULL);
        CHECK_INT(taken, 3 * ERRANDS);
        loop_close(&loop);
}

static void *turn_once_set(void *arg)
{
        (void)arg;
        loop_wait(&loop, NEVER);
        return NULL;
}

TEST(a_sleeper_is_woken_by_a_timer_that_the_owner_sets_meanwhile)
{
        struct bell bell = {0};
        pthread_t thread;

        REQUIRE(loop_init(&loop, NULL) == 0);
        REQUIRE(pthread_create(&thread, NULL, turn_once_set, NULL) == 0);
        usleep(10000);
        set(&bell, 0, loop_now(&loop) + 5 * MS);
        pthread_join(thread, NULL);
        CHECK_UINT(loop_turn(&loop), 1);
        loop_close(&loop);
}

/* ---- chance ------------------------------------------------------------------------------------------------------ */

static int by_value(const void *one, const void *other)
{
        return memcmp(one, other, 16);
}

TEST(random_numbers_are_not_repeated_and_not_kept)
{
        enum { COUNT = 5000 };
        unsigned char(*numbers)[16] = calloc(COUNT, 16);
        unsigned char many[1000] = {0};
        const unsigned char zeros[16] = {0};
        size_t used;

        REQUIRE(numbers != NULL && loop_init(&loop, NULL) == 0);
        for (int i = 0; i < COUNT; i++)
                loop_random(&loop, numbers[i], 16);
        qsort(numbers, COUNT, 16, by_value);
        for (int i = 1; i < COUNT; i++)
                CHECK(memcmp(numbers[i - 1], numbers[i], 16) != 0);
        loop_random(&loop, many, sizeof(many));
        CHECK(memcmp(many + sizeof(many) - 16, zeros, 16) != 0);
        loop_random(&loop, many, 5);
        used = sizeof(loop.chance) - loop.chance_left;
        for (size_t i = 0; i < used; i++)
                CHECK_INT(loop.chance[i], 0);
        loop_close(&loop);
        free(numbers);
}
