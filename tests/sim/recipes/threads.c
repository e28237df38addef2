/* threads.c - threads of which one runs at a time. Each is a thread of the machine that waits for its turn; where the
 * library and the recipes would block it gives the baton back, and the scheduler decides, by the world's events, who
 * has it next.
 *
 * A latch is never contended here: whoever blocks has given it away before. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../../../src/base/latch.h"
#include "stage.h"

/* How long the machine may take to run who was woken. */
#define RUN_DELAY_MAX (50 * 1000)
/* What the wall clock of the first process says in the beginning, and how much each of the others is ahead of the one
 * before. */
#define WALL_CLOCK (INT64_C(1800000000) * SECOND)
#define WALL_CLOCK_SKEW (137 * MS)
#define STACK_SIZE (512 * 1024) /* small ones are kept for the next thread */

static _Thread_local struct thread *me;

struct thread *thread_me(void)
{
        return me;
}

/* ---- the baton --------------------------------------------------------------------------------------------------- */

static void take(sem_t *turn)
{
        while (sem_wait(turn) != 0)
                ;
}

/* Jumped out of by whoever is doomed: its frames are left as they are, as those of a process that died. */
static void give_back_and_wait(struct thread *thread)
{
        sem_post(&thread->stage->turn);
        take(&thread->turn);
        if (thread->doomed)
                longjmp(thread->end, 1);
}

void thread_run(struct thread *thread)
{
        thread->asleep = false;
        thread->waits_on = NULL;
        thread->in_loop = false;
        thread->sleeps++;
        sem_post(&thread->turn);
        take(&thread->stage->turn);
}

void thread_doom(struct thread *thread)
{
        thread->doomed = true;
        thread_run(thread);
}

static void schedule_wake(struct thread *thread, int64_t after)
{
        struct world *world = thread->stage->world;

        schedule(world, after > 0 ? after : 0,
                 (struct happening){.kind = THREAD_WAKES,
                                    .client = thread->process->index,
                                    .actor = thread->index,
                                    .tenure = thread->sleeps});
}

static void make_ready(struct thread *thread)
{
        thread->waits_on = NULL;
        thread->in_loop = false;
        thread->sleeps++;
        schedule_wake(thread, between(thread->stage->world, 0, RUN_DELAY_MAX));
}

void thread_sleep(const void *on, int64_t until)
{
        me->asleep = true;
        me->waits_on = on;
        me->wakes_at = until;
        me->sleeps++;
        if (until != NEVER)
                schedule_wake(me, until - me->stage->world->now);
        give_back_and_wait(me);
        thread_step();
}

void thread_wake_all(struct stage *stage, const void *on)
{
        for (int i = 0; i < stage->thread_count; i++)
                if (stage->threads[i]->asleep && stage->threads[i]->waits_on == on)
                        make_ready(stage->threads[i]);
}

static void wake_one(struct stage *stage, const void *on)
{
        for (int i = 0; i < stage->thread_count; i++)
                if (stage->threads[i]->asleep && stage->threads[i]->waits_on == on) {
                        make_ready(stage->threads[i]);
                        return;
                }
}

void thread_step(void)
{
        struct process *process = me->process;
        struct stage *stage = me->stage;

        if (++stage->steps_at_now > STEPS_WITHOUT_TIME) {
                fail(stage->world, "process %d turns in circles: %s", process->index, me->doing);
                stage->crashed = process;
        } else if (++process->steps == process->crash_at) {
                stage->crashed = process;
        } else {
                return;
        }
        give_back_and_wait(me);
}

/* ---- from start to end ------------------------------------------------------------------------------------------- */

static void *run_thread(void *arg)
{
        struct thread *thread = arg;

        me = thread;
        take(&thread->turn);
        if (setjmp(thread->end) == 0 && !thread->doomed)
                thread->main(thread->arg);
        thread->ended = true;
        if (!thread->doomed)
                thread_wake_all(thread->stage, thread);
        sem_post(&thread->stage->turn);
        return NULL;
}

int __real_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*main)(void *), void *arg);
int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*main)(void *), void *arg);
int __real_pthread_join(pthread_t id, void **result);
int __wrap_pthread_join(pthread_t id, void **result);

struct thread *thread_start(struct process *process, void *(*main)(void *), void *arg)
{
        struct stage *stage = process->stage;
        struct thread *thread = world_room(NULL, sizeof(*thread));
        pthread_attr_t attributes;

        *thread = (struct thread){.stage = stage, .process = process, .main = main, .arg = arg};
        if (stage->thread_count == THREADS_MAX || sem_init(&thread->turn, 0, 0) != 0)
                abort();
        thread->index = stage->thread_count;
        thread->asleep = true;
        stage->threads[stage->thread_count++] = thread;
        if (pthread_attr_init(&attributes) != 0 || pthread_attr_setstacksize(&attributes, STACK_SIZE) != 0 ||
            __real_pthread_create(&thread->id, &attributes, run_thread, thread) != 0)
                abort();
        pthread_attr_destroy(&attributes);
        make_ready(thread);
        return thread;
}

void thread_free(struct thread *thread)
{
        if (!thread->joined)
                __real_pthread_join(thread->id, NULL);
        sem_destroy(&thread->turn);
        free(thread);
}

int __wrap_pthread_create(pthread_t *id, const pthread_attr_t *attributes, void *(*main)(void *), void *arg)
{
        if (!me)
                return __real_pthread_create(id, attributes, main, arg);
        *id = thread_start(me->process, main, arg)->id;
        return 0;
}

static struct thread *find_thread(struct stage *stage, pthread_t id)
{
        for (int i = stage->thread_count; i-- > 0;)
                if (!stage->threads[i]->joined && pthread_equal(stage->threads[i]->id, id))
                        return stage->threads[i];
        return NULL;
}

int __wrap_pthread_join(pthread_t id, void **result)
{
        struct thread *thread = me ? find_thread(me->stage, id) : NULL;

        if (!thread)
                return __real_pthread_join(id, result);
        while (!thread->ended)
                thread_sleep(thread, NEVER);
        thread->joined = true;
        return __real_pthread_join(id, result);
}

/* ---- the clock of the process ------------------------------------------------------------------------------------ */

static int64_t local_now(void)
{
        return client_now(stage_client(me->process));
}

/* The true time at which so much has passed by the clock of the process. */
static int64_t true_time_after(int64_t ns)
{
        return ns == NEVER ? NEVER : clock_when(&stage_client(me->process)->clock, local_now() + ns);
}

int64_t __real_when_now(void);
int64_t __wrap_when_now(void);
int64_t __wrap_when_unix(void);
void __real_when_sleep(int64_t ns);
void __wrap_when_sleep(int64_t ns);
uint64_t __real_when_random(void);
uint64_t __wrap_when_random(void);
int __real_nanosleep(const struct timespec *length, struct timespec *left);
int __wrap_nanosleep(const struct timespec *length, struct timespec *left);

int64_t __wrap_when_now(void)
{
        return local_now();
}

/* Wall clocks differ, as they do. */
int64_t __wrap_when_unix(void)
{
        return WALL_CLOCK + me->stage->world->now + me->process->index * WALL_CLOCK_SKEW;
}

void __wrap_when_sleep(int64_t ns)
{
        if (ns > 0)
                thread_sleep(NULL, true_time_after(ns));
}

uint64_t __wrap_when_random(void)
{
        return chance(me->stage->world, UINT64_MAX);
}

int __wrap_nanosleep(const struct timespec *length, struct timespec *left)
{
        if (!me)
                return __real_nanosleep(length, left);
        thread_sleep(NULL, true_time_after(length->tv_sec * SECOND + length->tv_nsec));
        return 0;
}

/* ---- events, of latch.h ------------------------------------------------------------------------------------------ */

void __wrap_event_wait(struct event *event, struct latch *latch, int64_t ns);
void __wrap_event_tell_one(struct event *event);
void __wrap_event_tell_all(struct event *event);

void __wrap_event_wait(struct event *event, struct latch *latch, int64_t ns)
{
        latch_give(latch);
        thread_sleep(event, true_time_after(ns));
        latch_take(latch);
}

void __wrap_event_tell_one(struct event *event)
{
        wake_one(me->stage, event);
}

void __wrap_event_tell_all(struct event *event)
{
        thread_wake_all(me->stage, event);
}

/* ---- mutexes and conditions, for recipes that have some ---------------------------------------------------------- */

int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __real_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex);
int __real_pthread_cond_signal(pthread_cond_t *condition);
int __wrap_pthread_cond_signal(pthread_cond_t *condition);
int __real_pthread_cond_broadcast(pthread_cond_t *condition);
int __wrap_pthread_cond_broadcast(pthread_cond_t *condition);

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
        int error;

        if (!me)
                return __real_pthread_mutex_lock(mutex);
        while ((error = pthread_mutex_trylock(mutex)) == EBUSY)
                thread_sleep(mutex, NEVER);
        return error;
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
        int error = __real_pthread_mutex_unlock(mutex);

        if (me)
                wake_one(me->stage, mutex);
        return error;
}

int __wrap_pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex)
{
        if (!me)
                return __real_pthread_cond_wait(condition, mutex);
        __wrap_pthread_mutex_unlock(mutex);
        thread_sleep(condition, NEVER);
        return __wrap_pthread_mutex_lock(mutex);
}

int __wrap_pthread_cond_signal(pthread_cond_t *condition)
{
        if (!me)
                return __real_pthread_cond_signal(condition);
        wake_one(me->stage, condition);
        return 0;
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *condition)
{
        if (!me)
                return __real_pthread_cond_broadcast(condition);
        thread_wake_all(me->stage, condition);
        return 0;
}

/* ---- the loop of a client ---------------------------------------------------------------------------------------- */

int __real_loop_init(struct loop *loop, const struct loop_source *source);
int __wrap_loop_init(struct loop *loop, const struct loop_source *source);
void __real_loop_close(struct loop *loop);
void __wrap_loop_close(struct loop *loop);
int __real_loop_set(struct loop *loop, struct timer *timer, int64_t at);
int __wrap_loop_set(struct loop *loop, struct timer *timer, int64_t at);
size_t __real_loop_turn(struct loop *loop);
size_t __wrap_loop_turn(struct loop *loop);
size_t __wrap_loop_turn_found(struct loop *loop, const struct loop_found *found);
void __wrap_loop_sleep(struct loop *loop, struct loop_found *found);
void __wrap_loop_wait(struct loop *loop, int64_t until);
void __wrap_loop_wake(struct loop *loop);

static int64_t source_now(void *arg)
{
        struct process *process = arg;

        return client_now(stage_client(process));
}

static void source_random(void *arg, void *bytes, size_t size)
{
        struct process *process = arg;
        unsigned char *out = bytes;

        while (size--)
                *out++ = (unsigned char)chance(process->stage->world, 256);
}

static struct process *process_of(const struct loop *loop)
{
        return loop->source.arg;
}

int __wrap_loop_init(struct loop *loop, const struct loop_source *machine)
{
        struct loop_source source = {.now = source_now, .random = source_random, .arg = me->process};
        int error = __real_loop_init(loop, &source);

        (void)machine;
        if (error == 0)
                stage_opened(me->process, loop);
        return error;
}

void __wrap_loop_close(struct loop *loop)
{
        stage_closed(process_of(loop));
        __real_loop_close(loop);
}

/* The true time at which the loop has something to do by itself. */
static int64_t due_at(const struct loop *loop)
{
        return clock_when(&stage_client(process_of(loop))->clock, loop_next(loop));
}

/* As the timerfd would: whoever sleeps in the loop wakes for the new timer, too. */
int __wrap_loop_set(struct loop *loop, struct timer *timer, int64_t at)
{
        struct stage *stage = process_of(loop)->stage;
        int error = __real_loop_set(loop, timer, at);

        for (int i = 0; i < stage->thread_count; i++) {
                struct thread *thread = stage->threads[i];

                if (thread->asleep && thread->in_loop && thread->waits_on == loop && due_at(loop) < thread->wakes_at) {
                        thread->wakes_at = due_at(loop);
                        schedule_wake(thread, thread->wakes_at - stage->world->now);
                }
        }
        return error;
}

void __wrap_loop_wait(struct loop *loop, int64_t until)
{
        struct process *process = process_of(loop);
        int64_t at = due_at(loop), limit = clock_when(&stage_client(process)->clock, until);

        if (limit < at)
                at = limit;
        if (process->woken || !list_empty(&process->inbox) || at <= process->stage->world->now)
                return;
        me->in_loop = true;
        thread_sleep(loop, at);
}

void __wrap_loop_sleep(struct loop *loop, struct loop_found *found)
{
        *found = (struct loop_found){.count = 0};
        __wrap_loop_wait(loop, NEVER);
}

void __wrap_loop_wake(struct loop *loop)
{
        process_of(loop)->woken = true;
        thread_wake_all(process_of(loop)->stage, loop);
}

/* What has arrived comes before what is overdue, as in the loop itself. */
size_t __wrap_loop_turn(struct loop *loop)
{
        process_of(loop)->woken = false;
        stage_deliver(process_of(loop));
        return __real_loop_turn(loop);
}

size_t __wrap_loop_turn_found(struct loop *loop, const struct loop_found *found)
{
        (void)found;
        return __wrap_loop_turn(loop);
}

/* ---- for scenes -------------------------------------------------------------------------------------------------- */

void stage_pause(struct stage *stage, int64_t least, int64_t most)
{
        __wrap_when_sleep(between(stage->world, least, most));
}

uint64_t stage_chance(struct stage *stage, uint64_t below)
{
        return chance(stage->world, below);
}
