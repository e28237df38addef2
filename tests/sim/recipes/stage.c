/* stage.c - one history: processes that play a scene, faults for a while, and whether everybody gets on after them. */
#include "stage.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last late message has come, the last pause has ended, and the last lease of who died. */
#define SETTLING (12 * SECOND)
#define TTL_MS 1000

/* The one that is played: names are asked for without a world. */
static struct stage *current;

/* ---- names, owners, clients -------------------------------------------------------------------------------------- */

const char *sim_name(int name)
{
        return current->names[name];
}

int sim_name_index(const char *name)
{
        struct plan *plan = &current->world->plan;

        for (int i = 0; i < plan->names; i++)
                if (strcmp(current->names[i], name) == 0)
                        return i;
        if (plan->names == NAMES_ROOM)
                abort();
        snprintf(current->names[plan->names], sizeof(current->names[0]), "%s", name);
        return plan->names++;
}

void sim_owner(const struct world *world, int client, char *owner, size_t size)
{
        (void)world;
        snprintf(owner, size, "process %d", client);
}

int64_t client_now(const struct sim_client *client)
{
        return clock_read(&client->clock, client->world->now);
}

struct sim_client *stage_client(const struct process *process)
{
        return &process->stage->world->clients[process->index];
}

struct pawl_client *stage_open(struct stage *stage, int process)
{
        struct pawl_client *client;
        char owner[32];

        sim_owner(stage->world, process, owner, sizeof(owner));
        if (pawl_open("model:", PAWL_OPEN(.ttl_ms = TTL_MS, .owner = owner), &client) != PAWL_OK)
                abort();
        return client;
}

void stage_opened(struct process *process, struct loop *loop)
{
        struct sim_client *client = stage_client(process);

        if (process->loop)
                abort(); /* one client at a time is all that a scene needs */
        process->loop = loop;
        client->alive = true;
        client->life++;
}

static void empty_inbox(struct process *process)
{
        while (!list_empty(&process->inbox)) {
                struct letter *letter = list_first(&process->inbox, struct letter, listed);

                list_remove(&letter->listed);
                free(letter->message);
                free(letter);
        }
}

void stage_closed(struct process *process)
{
        struct sim_client *client = stage_client(process);

        process->loop = NULL;
        process->woken = false;
        client->alive = false;
        client->life++;
        empty_inbox(process);
}

/* ---- what arrives ------------------------------------------------------------------------------------------------ */

/* Takes the message over; it is read when the loop turns. */
static void put_into_inbox(struct process *process, struct message *message)
{
        struct letter *letter = malloc(sizeof(*letter));

        if (!letter)
                abort();
        letter->message = message;
        list_append(&process->inbox, &letter->listed);
        thread_wake_all(process->stage, process->loop);
}

void stage_deliver(struct process *process)
{
        while (!list_empty(&process->inbox)) {
                struct letter *letter = list_first(&process->inbox, struct letter, listed);

                list_remove(&letter->listed);
                if (letter->message->kind == RESET)
                        engine_reset(calls_engine(process->loop));
                else
                        engine_receive(calls_engine(process->loop), letter->message);
                free(letter->message);
                free(letter);
        }
}

/* ---- life and death ---------------------------------------------------------------------------------------------- */

static void *play(void *arg)
{
        struct process *process = arg;

        process->stage->scene->play(process->stage, process->index);
        if (heap_size(process))
                fail(process->stage->world, "process %d is done and has not freed %zu bytes", process->index,
                     heap_size(process));
        process->done = true;
        trace(process->stage->world, "process %d is done", process->index);
        return NULL;
}

static void start_process(struct process *process)
{
        process->lives++;
        process->alive = true;
        trace(process->stage->world, "process %d starts", process->index);
        process->first = thread_start(process, play, process);
}

static void end_process(struct process *process)
{
        struct stage *stage = process->stage;

        for (int i = 0; i < stage->thread_count; i++)
                if (stage->threads[i]->process == process && !stage->threads[i]->ended)
                        thread_doom(stage->threads[i]);
        if (process->loop)
                calls_forget(process->loop);
        heap_free(process);
}

static void kill_process(struct process *process)
{
        struct stage *stage = process->stage;
        struct world *world = stage->world;

        if (!process->alive || process->done)
                return;
        trace(world, "process %d dies at step %llu", process->index, (unsigned long long)process->steps);
        end_process(process);
        process->alive = false;
        process->crash_at = 0;
        process->done = !stage->scene->again;
        if (process->done)
                return;
        schedule(world, between(world, MS, 2 * SECOND),
                 (struct happening){.kind = CLIENT_START, .client = process->index});
}

/* world.c tidies up with it; on this stage a process has ended before. */
void client_crash(struct world *world, int client)
{
        (void)world;
        end_process(&current->processes[client]);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static void pause_process(struct world *world, int index)
{
        struct sim_client *client = &world->clients[index];
        int64_t length = one_in(world, 3) ? between(world, 500 * MS, 4 * SECOND) : between(world, 10 * MS, 500 * MS);

        if (client->paused)
                return;
        trace(world, "process %d is stopped for %lld ms", index, (long long)(length / MS));
        client->paused = true;
        client->resumes_at = world->now + length;
        schedule(world, length, (struct happening){.kind = CLIENT_RESUME, .client = index});
}

static void reset_connection(struct world *world, int index)
{
        struct sim_client *client = &world->clients[index];

        trace(world, "connection of process %d is reset", index);
        drop_messages(world, index);
        schedule(world, between(world, 0, 20 * MS),
                 (struct happening){.kind = CONNECTION_RESET, .client = index, .life = client->life});
}

static void restart_server(struct world *world)
{
        if (!world->server.up)
                return;
        trace(world, "store restarts");
        server_restart(world, false);
        world->server.up = false;
        schedule(world, between(world, MS, 800 * MS), (struct happening){.kind = SERVER_UP});
        for (int i = 0; i < world->plan.clients; i++)
                reset_connection(world, i);
}

static void change_network(struct world *world)
{
        world->plan.loss = one_in(world, 6) ? 700 : (int)chance(world, 100);
        world->plan.slow = (int)chance(world, 150);
        world->plan.duplicates = (int)chance(world, 200);
}

static void fault(struct stage *stage)
{
        struct world *world = stage->world;
        int process = (int)chance(world, (uint64_t)stage->scene->processes);
        uint64_t which = chance(world, 16);

        if (world->calm)
                return;
        world->figures.faults++;
        if (which < 7)
                pause_process(world, process);
        else if (which < 9)
                kill_process(&stage->processes[process]);
        else if (which < 12)
                reset_connection(world, process);
        else if (which < 14)
                restart_server(world);
        else
                change_network(world);
        schedule(world, between(world, 5 * MS, 2 * SECOND), (struct happening){.kind = FAULT});
}

static void make_peace(struct world *world)
{
        trace(world, "no more faults");
        world->plan.loss = world->plan.slow = world->plan.duplicates = 0;
        world->calm = true;
}

/* ---- events ------------------------------------------------------------------------------------------------------ */

/* A thread of a process that is stopped wakes when that runs again; then in any order. */
static void wake_thread(struct stage *stage, const struct happening *event)
{
        struct thread *thread = stage->threads[event->actor];
        struct sim_client *client = stage_client(thread->process);

        if (thread->ended || thread->sleeps != event->tenure)
                return;
        if (client->paused) {
                schedule(stage->world, client->resumes_at - stage->world->now + between(stage->world, 0, MS / 5),
                         *event);
                return;
        }
        thread_run(thread);
        if (stage->crashed) {
                stage->crashed = NULL;
                kill_process(thread->process);
        }
}

static void to_client(struct stage *stage, struct happening *event)
{
        struct process *process = &stage->processes[event->client];
        struct sim_client *client = stage_client(process);

        if (!client->alive || client->life != event->life)
                return;
        if (event->kind == CONNECTION_RESET) {
                event->message = calloc(1, sizeof(*event->message));
                if (!event->message)
                        abort();
                event->message->kind = RESET;
        }
        if (event->message)
                put_into_inbox(process, event->message);
        event->message = NULL;
}

static void handle(struct stage *stage, struct happening *event)
{
        struct world *world = stage->world;

        switch (event->kind) {
        case TO_SERVER:
                if (event->message)
                        server_receive(world, event->message);
                break;
        case TO_CLIENT:
        case CONNECTION_RESET:
                to_client(stage, event);
                break;
        case THREAD_WAKES:
                wake_thread(stage, event);
                break;
        case CLIENT_RESUME:
                world->clients[event->client].paused = false;
                break;
        case CLIENT_START:
                start_process(&stage->processes[event->client]);
                break;
        case SERVER_UP:
                world->server.up = true;
                break;
        case FAULT:
                fault(stage);
                break;
        default:
                abort();
        }
        free(event->message);
}

/* ---- time passes ------------------------------------------------------------------------------------------------- */

static bool all_done(const struct stage *stage)
{
        for (int i = 0; i < stage->scene->processes; i++)
                if (!stage->processes[i].done)
                        return false;
        return true;
}

/* Says of everybody who is not done what it is waiting for. */
static void complain(struct stage *stage)
{
        char text[200] = "";
        size_t used = 0;

        for (int i = 0; i < stage->scene->processes && used < sizeof(text); i++) {
                const struct process *process = &stage->processes[i];
                const struct thread *first = process->first;

                if (!process->done)
                        used += (size_t)snprintf(text + used, sizeof(text) - used, "; %d in %s for %lld ms", i,
                                                 first->doing[0] ? first->doing : "its own code",
                                                 (long long)((stage->world->now - first->doing_since) / MS));
        }
        fail(stage->world, "some get no further%s", text);
}

static void live(struct stage *stage)
{
        struct world *world = stage->world;
        int64_t horizon = world->plan.faults_until + SETTLING + stage->scene->bound;
        struct happening event;

        while (!world->failed && !all_done(stage)) {
                if (!next_event(world, &event) || event.at > horizon) {
                        complain(stage);
                        return;
                }
                if (event.at > world->now) {
                        world->now = event.at;
                        stage->steps_at_now = 0;
                }
                if (!world->calm && world->now >= world->plan.faults_until)
                        make_peace(world);
                world->figures.steps++;
                handle(stage, &event);
                calls_check_beliefs(stage);
                if (stage->scene->watch)
                        stage->scene->watch(stage);
        }
        if (!world->failed && stage->scene->end)
                stage->scene->end(stage);
}

/* ---- one history ------------------------------------------------------------------------------------------------- */

static void draw_plan(struct stage *stage)
{
        struct world *world = stage->world;
        struct plan *plan = &world->plan;

        plan->clients = stage->scene->processes;
        plan->honest = true;
        plan->ttl_max = 3 * SECOND;
        world->server.up = true;
        world->server.clock =
                (struct clock){.local = between(world, SECOND, 1000 * SECOND), .ppm = between(world, -5000, 5000)};
        for (int i = 0; i < plan->clients; i++) {
                world->clients[i].world = world;
                world->clients[i].index = i;
                world->clients[i].clock =
                        (struct clock){.local = between(world, 0, 1000 * SECOND), .ppm = between(world, -5000, 5000)};
        }
        world->calm = !stage->direction.faults;
        if (world->calm)
                return;
        plan->faults_until = between(world, 1, 20) * SECOND;
        plan->loss = one_in(world, 3) ? 0 : (int)chance(world, 100);
        plan->duplicates = one_in(world, 3) ? 0 : (int)chance(world, 200);
        plan->slow = one_in(world, 4) ? 0 : (int)chance(world, 100);
        schedule(world, between(world, 0, SECOND), (struct happening){.kind = FAULT});
}

static void set_up(struct stage *stage, const struct scene *scene, const struct direction *direction)
{
        struct world *world = stage->world = calloc(1, sizeof(*world));

        stage->scene = scene;
        stage->direction = *direction;
        stage->state = calloc(1, scene->size + 1);
        if (!world || !stage->state || sem_init(&stage->turn, 0, 0) != 0)
                abort();
        world->seed = direction->seed;
        world->random = direction->seed * UINT64_C(0xd1342543de82ef95) + 1;
        world->bug = direction->model_bug;
        world->tracing = direction->tracing;
        world->hashing = true;
        world->hash = UINT64_C(0xcbf29ce484222325);
        draw_plan(stage);
        for (int i = 0; i < scene->processes; i++) {
                struct process *process = &stage->processes[i];

                process->stage = stage;
                process->index = i;
                process->crash_at = direction->crash == i + 1 ? direction->crash_step : 0;
                list_init(&process->inbox);
        }
}

static void tear_down(struct stage *stage)
{
        stage->world->tracing = false;
        for (int i = 0; i < stage->scene->processes; i++)
                end_process(&stage->processes[i]);
        for (int i = 0; i < stage->thread_count; i++)
                thread_free(stage->threads[i]);
        world_free(stage->world);
        sem_destroy(&stage->turn);
        free(stage->world);
        free(stage->state);
}

static struct play_outcome read_outcome(const struct stage *stage)
{
        struct play_outcome outcome = {
                .failed = stage->world->failed, .hash = stage->world->hash, .figures = stage->world->figures};

        memcpy(outcome.failure, stage->world->failure, sizeof(outcome.failure));
        for (int i = 0; i < stage->scene->processes; i++)
                outcome.steps[i] = stage->processes[i].steps;
        return outcome;
}

struct play_outcome stage_run(const struct scene *scene, const struct direction *direction)
{
        struct stage *stage = calloc(1, sizeof(*stage));
        struct play_outcome outcome;

        if (!stage)
                abort();
        current = stage;
        set_up(stage, scene, direction);
        if (scene->begin)
                scene->begin(stage);
        for (int i = 0; i < scene->processes; i++)
                start_process(&stage->processes[i]);
        live(stage);
        outcome = read_outcome(stage);
        tear_down(stage);
        free(stage);
        return outcome;
}

/* ---- for scenes -------------------------------------------------------------------------------------------------- */

bool stage_again(struct stage *stage, int code, const char *what)
{
        bool explained = code == PAWL_UNREACHABLE || code == PAWL_IN_DOUBT || code == PAWL_LOST;

        if (!explained || (!stage->direction.faults && !stage->direction.crash)) {
                stage_fail(stage, "%s said %s", what, pawl_error_name(code));
                return false;
        }
        stage_pause(stage, MS, 100 * MS);
        return true;
}

bool stage_admit(uint64_t *highest, uint64_t token)
{
        if (token < *highest)
                return false;
        *highest = token;
        return true;
}

uint64_t stage_token(int process, const char *name)
{
        return current->processes[process].loop ? calls_token(current->processes[process].loop, name) : 0;
}

int64_t stage_store_us(struct stage *stage)
{
        return clock_read(&stage->world->server.clock, stage->world->now) / 1000;
}

void stage_say(struct stage *stage, const char *format, ...)
{
        char text[200];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        trace(stage->world, "process %d: %s", thread_me() ? thread_me()->process->index : -1, text);
}

void stage_fail(struct stage *stage, const char *format, ...)
{
        char text[200];
        va_list arguments;

        va_start(arguments, format);
        vsnprintf(text, sizeof(text), format, arguments);
        va_end(arguments);
        fail(stage->world, "%s", text);
}
