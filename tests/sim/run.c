/* run.c - one history: a plan drawn from the seed, faults for a while, then work without faults, then a quiet end at which
 * nothing may be left. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

/* When the last late message has come, the last pause and quarantine have ended. */
#define SETTLING (12 * SECOND)
#define WORKING (8 * SECOND)
#define ENDING (40 * SECOND)

volatile uint64_t running_seed;

/* ---- the plan -------------------------------------------------------------------------------------------------- */

static void draw_names(struct world *world)
{
        struct plan *plan = &world->plan;

        plan->names = (int)between(world, 1, NAMES_MAX);
        for (int i = 0; i < plan->names; i++) {
                uint64_t kind = i == 0 ? 0 : chance(world, 3); /* at least one is exclusive */

                plan->mode[i] = kind == 0 ? PAWL_EXCLUSIVE : PAWL_SHARED;
                plan->max_holders[i] = kind == 2 ? (uint32_t)between(world, 1, 3) : 0;
        }
}

static int64_t draw_ppm(struct world *world)
{
        return world->plan.honest ? between(world, -5000, 5000) : between(world, -600000, 1800000);
}

static void draw_plan(struct world *world)
{
        struct plan *plan = &world->plan;

        plan->clients = (int)between(world, 2, CLIENTS_MAX);
        plan->actors = (int)between(world, 1, one_in(world, 4) ? ACTORS_MAX : 3);
        plan->faults_until = between(world, 60, 150) * SECOND;
        plan->works_until = plan->faults_until + SETTLING + WORKING;
        plan->ttl_max = 3 * SECOND;
        plan->loss = one_in(world, 3) ? 0 : (int)chance(world, 150);
        plan->duplicates = one_in(world, 3) ? 0 : (int)chance(world, 200);
        plan->slow = one_in(world, 4) ? 0 : (int)chance(world, 120);
        plan->honest = !one_in(world, 5);
        plan->data_loss = one_in(world, 3);
        plan->instant = one_in(world, 4);
        plan->ttl = one_in(world, 3) ? between(world, 1, 3) * SECOND : 0;
        draw_names(world);
        world->server.up = true;
        world->server.clock = (struct clock){.local = between(world, SECOND, 1000 * SECOND)};
        world->server.clock.ppm = plan->honest ? draw_ppm(world) : 0;
        for (int i = 0; i < plan->clients; i++)
                world->clients[i].clock =
                        (struct clock){.local = between(world, 0, 1000 * SECOND), .ppm = draw_ppm(world)};
}

/* ---- faults ---------------------------------------------------------------------------------------------------- */

static void pause_client(struct world *world, int index)
{
        struct sim_client *client = &world->clients[index];
        int64_t length = one_in(world, 3) ? between(world, 500 * MS, 6 * SECOND) : between(world, 10 * MS, 500 * MS);

        if (!client->alive || client->paused)
                return;
        trace(world, "client %d is stopped for %lld ms", index, (long long)(length / MS));
        client->paused = true;
        client->resumes_at = world->now + length;
        schedule(world, length, (struct happening){.kind = CLIENT_RESUME, .client = index, .life = client->life});
}

static void kill_client(struct world *world, int index)
{
        if (!world->clients[index].alive)
                return;
        client_crash(world, index);
        schedule(world, between(world, MS, 2 * SECOND), (struct happening){.kind = CLIENT_START, .client = index});
}

static void reset_connection(struct world *world, int index)
{
        struct happening event = {.kind = CONNECTION_RESET, .client = index, .life = world->clients[index].life};

        trace(world, "connection of client %d is reset", index);
        drop_messages(world, index);
        schedule(world, between(world, 0, 20 * MS), event);
}

static void restart_server(struct world *world)
{
        bool loses = world->plan.data_loss && one_in(world, 2);

        if (!world->server.up || world->plan.instant)
                return;
        trace(world, "store restarts%s", loses ? " and has lost its data" : "");
        server_restart(world, loses);
        world->server.up = false;
        schedule(world, between(world, MS, 800 * MS), (struct happening){.kind = SERVER_UP});
        for (int i = 0; i < world->plan.clients; i++)
                reset_connection(world, i);
}

/* The network gets worse or better for a while. */
static void change_network(struct world *world)
{
        world->plan.loss = one_in(world, 6) ? 800 : (int)chance(world, 100);
        world->plan.slow = (int)chance(world, 200);
        world->plan.duplicates = (int)chance(world, 200);
}

static void change_clocks(struct world *world, int index)
{
        struct clock *clock = &world->clients[index].clock;

        if (world->plan.honest) {
                clock_change(clock, world->now, draw_ppm(world), 0);
                return;
        }
        trace(world, "clocks lie");
        clock_change(clock, world->now, draw_ppm(world), one_in(world, 3) ? between(world, 0, 10 * SECOND) : 0);
        if (one_in(world, 3)) /* the store's clock jumps: every lease ends early */
                clock_change(&world->server.clock, world->now, 0, between(world, 0, 10 * SECOND));
}

static void fault(struct world *world)
{
        int client = (int)chance(world, (uint64_t)world->plan.clients);
        uint64_t which = chance(world, 20);

        world->figures.faults++;
        if (which < 8)
                pause_client(world, client);
        else if (which < 10)
                kill_client(world, client);
        else if (which < 13)
                reset_connection(world, client);
        else if (which < 15)
                restart_server(world);
        else if (which < 16)
                server_break(world, (int)chance(world, (uint64_t)world->plan.names));
        else if (which < 18)
                change_network(world);
        else
                change_clocks(world, client);
        if (world->now < world->plan.faults_until)
                schedule(world, between(world, 20 * MS, 3 * SECOND), (struct happening){.kind = FAULT});
}

static void make_peace(struct world *world)
{
        world->plan.loss = world->plan.slow = world->plan.duplicates = 0;
        for (int i = 0; i < world->plan.clients; i++)
                if (!world->plan.honest)
                        clock_change(&world->clients[i].clock, world->now, 0, 0);
}

/* ---- events ---------------------------------------------------------------------------------------------------- */

/* What comes for a client that is stopped waits until it runs; then in any order, also before its loop has turned. */
static bool must_wait(struct world *world, const struct happening *event)
{
        struct sim_client *client = &world->clients[event->client];

        if (!client->paused)
                return false;
        schedule(world, client->resumes_at - world->now + between(world, 0, MS / 5), *event);
        return true;
}

static void resume(struct world *world, struct sim_client *client)
{
        trace(world, "client %d runs again", client->index);
        client->paused = false;
        client->turns_after = world->now + between(world, 0, MS / 5);
        client->ran_since = client_now(client);
}

static void to_client(struct world *world, struct sim_client *client, struct happening *event)
{
        struct message *message = event->message;

        if (!message)
                return;
        if (must_wait(world, event)) {
                event->message = NULL;
                return;
        }
        if (message->kind >= READ) {
                actor_hears(world, message);
                return;
        }
        engine_receive(client->engine, message);
        client_turn(world, client);
}

static void to_living_client(struct world *world, struct happening *event)
{
        struct sim_client *client = &world->clients[event->client];

        if (!client->alive || client->life != event->life)
                return;
        if (event->kind == TO_CLIENT) {
                to_client(world, client, event);
        } else if (event->kind == CLIENT_RESUME) {
                resume(world, client);
        } else if (event->kind == ACTOR_STEP) {
                if (!must_wait(world, event))
                        actor_step(world, &client->actors[event->actor], event->tenure);
        } else if (!must_wait(world, event)) {
                engine_reset(client->engine);
                client_turn(world, client);
        }
}

static void handle(struct world *world, struct happening *event)
{
        switch (event->kind) {
        case TO_SERVER:
                if (event->message)
                        server_receive(world, event->message);
                break;
        case TO_RESOURCE:
                resource_receive(world, event->message);
                break;
        case CLIENT_START:
                client_start(world, event->client);
                break;
        case SERVER_UP:
                world->server.up = true;
                break;
        case FAULT:
                fault(world);
                break;
        default:
                to_living_client(world, event);
        }
        free(event->message);
}

/* ---- time passes ----------------------------------------------------------------------------------------------- */

static int64_t turn_at(const struct sim_client *client)
{
        int64_t at;

        if (!client->alive || client->paused)
                return NEVER;
        at = clock_when(&client->clock, loop_next(&client->loop));
        return at < client->turns_after ? client->turns_after : at;
}

static struct sim_client *next_client(struct world *world, int64_t *at)
{
        struct sim_client *next = NULL;

        *at = NEVER;
        for (int i = 0; i < world->plan.clients; i++) {
                int64_t due = turn_at(&world->clients[i]);

                if (due < *at) {
                        *at = due;
                        next = &world->clients[i];
                }
        }
        return next;
}

/* One thing happens. False: nothing more happens before until. */
static bool step(struct world *world, int64_t until)
{
        int64_t due, event_at = next_event_at(world);
        struct sim_client *client = next_client(world, &due);
        struct happening event;

        if ((due < event_at ? due : event_at) > until) {
                world->now = until;
                return false;
        }
        world->figures.steps++;
        if (due < event_at) {
                if (due > world->now)
                        world->now = due;
                client_turn(world, client);
        } else if (next_event(world, &event)) {
                world->now = event.at > world->now ? event.at : world->now;
                handle(world, &event);
        }
        check_step(world);
        return true;
}

static void live_until(struct world *world, int64_t until)
{
        while (!world->failed && step(world, until))
                ;
}

static void live(struct world *world)
{
        for (int i = 0; i < world->plan.clients; i++)
                client_start(world, i);
        schedule(world, SECOND, (struct happening){.kind = FAULT});
        live_until(world, world->plan.faults_until);
        make_peace(world);
        live_until(world, world->plan.faults_until + SETTLING);
        world->calm = true;
        live_until(world, world->plan.works_until);
        world->closing = true;
        live_until(world, world->plan.works_until + ENDING);
        if (!world->failed)
                check_end(world);
}

struct outcome run_seed(uint64_t seed, enum bug bug, bool tracing)
{
        struct world *world = calloc(1, sizeof(*world));
        struct outcome outcome;

        if (!world)
                abort();
        running_seed = seed;
        world->seed = seed;
        world->random = seed * UINT64_C(0xd1342543de82ef95) + 1;
        world->bug = bug;
        world->tracing = tracing;
        draw_plan(world);
        live(world);
        outcome.failed = world->failed;
        memcpy(outcome.failure, world->failure, sizeof(outcome.failure));
        outcome.figures = world->figures;
        world->tracing = false;
        world_free(world);
        free(world);
        return outcome;
}
