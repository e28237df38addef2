/* calls.c - every public call is a step: before it the process may die, or another may be faster. Also what of a
 * client is looked at from outside: its beliefs, and what is left of it when its process died. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../../src/api/client.h"
#include "calls.h"
#include "stage.h"

/* ---- steps ------------------------------------------------------------------------------------------------------- */

/* Now and then another thread is faster: with faults, for the machine is busy then. */
static void let_others_run(struct world *world)
{
        if (!world->calm && one_in(world, 6))
                thread_sleep(NULL, world->now + between(world, 0, MS));
}

static void call(const char *what, const char *about)
{
        struct thread *me = thread_me();

        snprintf(me->doing, sizeof(me->doing), "%s(%s)", what, about ? about : "");
        me->doing_since = me->stage->world->now;
        thread_step();
        let_others_run(me->stage->world);
}

static int called(int code)
{
        struct thread *me = thread_me();

        trace(me->stage->world, "process %d: %s: %s", me->process->index, me->doing, pawl_error_name(code));
        me->doing[0] = '\0';
        return code;
}

/* X(returns, name, (parameters), (arguments), what it is about); each is asked for by its name, and answers with a
 * code. */
#define STEP(name, parameters, arguments, about)                                                                       \
        int __real_##name parameters;                                                                                  \
        int __wrap_##name parameters;                                                                                  \
        int __wrap_##name parameters                                                                                   \
        {                                                                                                              \
                call(#name, about);                                                                                    \
                return called(__real_##name arguments);                                                                \
        }
CALLS(STEP)

/* ---- the engine -------------------------------------------------------------------------------------------------- */

const struct engine_ops *__wrap_engine_find(const char *scheme, struct pawl_why *why);

const struct engine_ops *__wrap_engine_find(const char *scheme, struct pawl_why *why)
{
        if (strcmp(scheme, "model") == 0)
                return &model_ops;
        why_set(why, PAWL_NO_ENGINE, "there is only the model");
        return NULL;
}

struct sim_client *engine_client(const struct engine_host *host)
{
        return stage_client(host->loop->source.arg);
}

static struct pawl_client *owner_of(struct loop *loop)
{
        return container_of(loop, struct pawl_client, loop);
}

struct engine *calls_engine(struct loop *loop)
{
        return owner_of(loop)->engine;
}

/* Of those that the program still has. */
uint64_t calls_token(struct loop *loop, const char *name)
{
        struct list *locks = &owner_of(loop)->core.locks;
        uint64_t token = 0;

        for (struct list *at = locks->next; at != locks; at = at->next) {
                const struct pawl_lock *lock = container_of(at, struct pawl_lock, listed);

                if (lock->owned && lock->token > token && strcmp(lock->claim.name, name) == 0)
                        token = lock->token;
        }
        return token;
}

/* As if the kernel had taken it all: nothing is sent, nobody is told. */
void calls_forget(struct loop *loop)
{
        struct pawl_client *client = owner_of(loop);

        engine_close(client->engine);
        core_free(&client->core);
        loop_close(loop);
        munmap((void *)(uintptr_t)client->here, (size_t)sysconf(_SC_PAGESIZE));
        url_free(client->url);
        free(client);
}

/* ---- beliefs ----------------------------------------------------------------------------------------------------- */

static bool believes(struct process *process, const struct pawl_lock *lock)
{
        return (lock->state == LOCK_HELD || lock->state == LOCK_UNCERTAIN) &&
               client_now(stage_client(process)) < lock->valid_until;
}

static bool may_hold_together(const struct pawl_lock *one, const struct pawl_lock *other)
{
        return (one->claim.mode == PAWL_SHARED && other->claim.mode == PAWL_SHARED) ||
               strcmp(one->claim.name, other->claim.name) != 0;
}

static void check_pair(struct process *one, const struct pawl_lock *lock, struct process *other)
{
        struct list *locks = &owner_of(other->loop)->core.locks;

        for (struct list *at = locks->next; at != locks; at = at->next) {
                const struct pawl_lock *theirs = container_of(at, struct pawl_lock, listed);

                if (theirs != lock && believes(other, theirs) && !may_hold_together(lock, theirs))
                        fail(one->stage->world, "processes %d and %d both believe that they hold %s", one->index,
                             other->index, lock->claim.name);
        }
}

static void check_process(struct stage *stage, struct process *process)
{
        struct list *locks = &owner_of(process->loop)->core.locks;

        for (struct list *at = locks->next; at != locks; at = at->next) {
                const struct pawl_lock *lock = container_of(at, struct pawl_lock, listed);

                if (!believes(process, lock))
                        continue;
                for (int i = process->index; i < stage->scene->processes; i++)
                        if (stage->processes[i].loop)
                                check_pair(process, lock, &stage->processes[i]);
        }
}

void calls_check_beliefs(struct stage *stage)
{
        for (int i = 0; i < stage->scene->processes; i++)
                if (stage->processes[i].loop)
                        check_process(stage, &stage->processes[i]);
}
