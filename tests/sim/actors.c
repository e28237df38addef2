/* actors.c - clients made of the real core, their users, and the resource they guard. A user does what a careful program
 * does: check before every step, send the token along, stop when the lock is lost. */
#include "sim.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const names[NAMES_MAX] = {"orders", "stock", "mail"};

const char *sim_name(int name)
{
        return names[name];
}

int sim_name_index(const char *name)
{
        for (int i = 0; i < NAMES_MAX; i++)
                if (strcmp(names[i], name) == 0)
                        return i;
        return 0;
}

void sim_owner(const struct world *world, int client, char *owner, size_t size)
{
        (void)world;
        snprintf(owner, size, "client %d", client);
}

struct sim_client *engine_client(const struct engine_host *host)
{
        return host->log_arg;
}

int64_t client_now(const struct sim_client *client)
{
        return clock_read(&client->clock, client->world->now);
}

/* ---- clients --------------------------------------------------------------------------------------------------- */

static int64_t source_now(void *arg)
{
        return client_now(arg);
}

static void source_random(void *arg, void *bytes, size_t size)
{
        struct sim_client *client = arg;
        unsigned char *out = bytes;

        while (size--)
                *out++ = (unsigned char)chance(client->world, 256);
}

static void log_nothing(const struct engine_host *host, int level, const char *text)
{
        (void)host, (void)level, (void)text;
}

static void wake_actor(struct world *world, struct actor *actor, int64_t after)
{
        schedule(world, after,
                 (struct happening){.kind = ACTOR_STEP,
                                    .client = actor->client,
                                    .actor = actor->index,
                                    .life = world->clients[actor->client].life,
                                    .tenure = actor->tenure});
}

void client_start(struct world *world, int index)
{
        static const struct url nowhere = {.shown = "model:"};
        struct sim_client *client = &world->clients[index];
        struct loop_source source = {.now = source_now, .random = source_random, .arg = client};
        struct pawl_why why;

        client->world = world;
        client->index = index;
        client->life++;
        client->paused = false;
        client->turns_after = 0;
        client->ran_since = client_now(client);
        if (loop_init(&client->loop, &source) != 0)
                abort();
        core_init(&client->core, &client->loop);
        client->host = (struct engine_host){.loop = &client->loop,
                                            .events = &core_events,
                                            .core = &client->core,
                                            .owner = "a client",
                                            .log = log_nothing,
                                            .log_arg = client};
        if (engine_open(world->plan.instant ? &instant_model_ops : &model_ops, &client->host, &nowhere, &client->engine,
                        &why) != PAWL_OK)
                abort();
        core_use(&client->core, client->engine);
        client->alive = true;
        trace(world, "client %d starts", index);
        for (int i = 0; i < world->plan.actors; i++) {
                struct actor *actor = &client->actors[i];
                uint64_t tenure = actor->tenure + 1;

                *actor = (struct actor){.client = index, .index = i, .tenure = tenure};
                wake_actor(world, actor, between(world, 0, 500 * MS));
        }
}

/* Without a word to anybody: what it held is ended by the store. */
void client_crash(struct world *world, int index)
{
        struct sim_client *client = &world->clients[index];

        trace(world, "client %d dies", index);
        client->alive = false;
        client->life++;
        engine_close(client->engine);
        core_free(&client->core);
        loop_close(&client->loop);
}

/* As api does after every turn. */
static void call_back(struct sim_client *client)
{
        struct pawl_lock *lock;
        uint32_t notices;

        while ((lock = core_notice(&client->core, &notices))) {
                lock->running = true;
                if (notices & NOTICE_GRANTED && lock->on_granted)
                        lock->on_granted(lock, lock->status, lock->granted_arg);
                if (notices & NOTICE_LOST && lock->on_lost)
                        lock->on_lost(lock, lock->reason, lock->arg);
                if (notices & NOTICE_RELEASED && lock->on_released)
                        lock->on_released(lock->release_status, lock->released_arg);
                lock->running = false;
                core_settle(lock);
        }
}

void client_turn(struct world *world, struct sim_client *client)
{
        loop_turn(&client->loop);
        call_back(client);
        check_turned(world, client);
}

/* ---- users ----------------------------------------------------------------------------------------------------- */

static struct world *world_of(struct actor *actor)
{
        return container_of(actor - actor->index, struct sim_client, actors[0])->world;
}

static void drop_notices(struct pawl_lock *lock, uint32_t notices)
{
        if (!lock->notices)
                return;
        lock->notices &= ~notices;
        if (!lock->notices)
                list_remove(&lock->noticed);
}

static void on_released(int status, void *arg)
{
        struct actor *actor = arg;
        struct world *world = world_of(actor);

        trace(world, "client %d.%d %s released: %s", actor->client, actor->index, names[actor->name],
              pawl_error_name(status));
        actor->released++;
        check_release_told(world, actor, status);
        actor->state = ACTOR_IDLE;
        actor->lock = NULL;
        actor->tenure++;
        wake_actor(world, actor, between(world, 0, one_in(world, 4) ? 5 * MS : 1500 * MS));
}

static void release(struct actor *actor)
{
        struct pawl_lock *lock = actor->lock;
        int code;

        if (actor->state == ACTOR_RELEASING)
                return;
        actor->uid = engine_uid(&lock->claim);
        actor->incarnation = world_of(actor)->server.incarnation;
        actor->state = ACTOR_RELEASING;
        actor->tenure++;
        lock->owned = false;
        if (one_in(world_of(actor), 2) && core_release_now(lock, &code)) {
                on_released(code, actor);
                return;
        }
        lock->on_released = on_released;
        lock->released_arg = actor;
        drop_notices(lock, NOTICE_LOST | NOTICE_ASKED);
        core_release(lock);
        drop_notices(lock, NOTICE_LOST | NOTICE_ASKED);
}

static void on_lost(pawl_lock *lock, int reason, void *arg)
{
        struct actor *actor = arg;
        struct world *world = world_of(actor);

        (void)lock;
        trace(world, "client %d.%d lost %s: %s", actor->client, actor->index, names[actor->name],
              pawl_reason_text(reason));
        world->figures.losses++;
        check_lost(world, actor, reason);
        if (++actor->lost > 1)
                fail(world, "client %d heard twice that %s is lost", actor->client, names[actor->name]);
        if (actor->granted != 1)
                fail(world, "client %d lost %s before it had it", actor->client, names[actor->name]);
        if (one_in(world, 2))
                release(actor);
        else
                wake_actor(world, actor, between(world, 0, 100 * MS));
}

static void on_granted(pawl_lock *lock, int status, void *arg)
{
        struct actor *actor = arg;
        struct world *world = world_of(actor);

        trace(world, "client %d.%d asked for %s: %s, token %llu", actor->client, actor->index, names[actor->name],
              pawl_error_name(status), (unsigned long long)lock->token);
        if (++actor->granted > 1)
                fail(world, "client %d got two answers to one claim of %s", actor->client, names[actor->name]);
        if (status != PAWL_OK) {
                release(actor);
                return;
        }
        actor->state = ACTOR_HOLDING;
        actor->tenure++;
        check_told(world, actor);
        actor->rounds = world->plan.mode[actor->name] == PAWL_EXCLUSIVE ? (int)chance(world, 4) : 0;
        wake_actor(world, actor, one_in(world, 3) ? 0 : between(world, 0, 400 * MS));
}

static int64_t choose_ttl(struct world *world)
{
        static const int64_t ttls[] = {200 * MS, 500 * MS, 1 * SECOND, 3 * SECOND};

        return world->plan.ttl ? world->plan.ttl : ttls[chance(world, sizeof(ttls) / sizeof(*ttls))];
}

static void fill_claim(struct world *world, struct actor *actor, struct pawl_lock *lock)
{
        const struct plan *plan = &world->plan;

        lock->claim.ttl = choose_ttl(world);
        lock->claim.mode = plan->mode[actor->name];
        lock->claim.max_holders = plan->max_holders[actor->name];
        if (lock->claim.mode == PAWL_SHARED && !lock->claim.max_holders && one_in(world, 3))
                lock->claim.mode = PAWL_EXCLUSIVE;
        lock->claim.wait = !one_in(world, 10);
        lock->claim.delay = 0;
        lock->claim.detached = false;
        lock->fixed = one_in(world, 5);
        lock->owned = true;
        lock->on_granted = on_granted;
        lock->granted_arg = actor;
        lock->on_lost = on_lost;
        lock->on_asked = NULL;
        lock->arg = actor;
}

static void begin(struct world *world, struct actor *actor)
{
        struct sim_client *client = &world->clients[actor->client];
        int64_t wait = one_in(world, 2) ? NEVER : between(world, 20 * MS, 3 * SECOND);
        struct pawl_lock *lock;

        actor->name = (int)chance(world, (uint64_t)world->plan.names);
        lock = core_lock(&client->core, names[actor->name], strlen(names[actor->name]), NULL, 0);
        if (!lock)
                abort();
        fill_claim(world, actor, lock);
        actor->lock = lock;
        actor->state = ACTOR_WAITING;
        actor->tenure++;
        actor->granted = actor->lost = actor->released = 0;
        actor->busy = false;
        actor->began = world->told_max[actor->name];
        actor->deadline = lock->claim.wait && wait != NEVER ? client_now(client) + wait : NEVER;
        if (world->plan.instant && one_in(world, 2) && core_acquire_now(lock) == PAWL_OK) {
                on_granted(lock, PAWL_OK, actor);
                return;
        }
        core_acquire(lock, lock->claim.wait ? wait : NEVER);
        if (!world->calm && one_in(world, 8))
                wake_actor(world, actor, between(world, 0, SECOND)); /* to change its mind */
}

static void ask_resource(struct world *world, struct actor *actor, enum message_kind kind, uint64_t version)
{
        struct message message = {.kind = kind,
                                  .client = actor->client,
                                  .life = world->clients[actor->client].life,
                                  .actor = actor->index,
                                  .tenure = actor->tenure,
                                  .name = actor->name,
                                  .token = actor->lock->token,
                                  .version = version};

        send_to_resource(world, &message, false);
}

/* Gives up when the resource does not answer: its answer may still take effect, and only the token stops it then. */
static void work(struct world *world, struct actor *actor)
{
        if (!core_holds(actor->lock, client_now(&world->clients[actor->client])) || actor->busy || !actor->rounds) {
                release(actor);
                return;
        }
        actor->rounds--;
        actor->busy = true;
        ask_resource(world, actor, READ, 0);
        wake_actor(world, actor, one_in(world, 10) ? 4 * SECOND : 600 * MS);
}

void actor_step(struct world *world, struct actor *actor, uint64_t tenure)
{
        struct sim_client *client = &world->clients[actor->client];

        if (tenure != actor->tenure)
                return;
        if (actor->state == ACTOR_IDLE && !world->closing)
                begin(world, actor);
        else if (actor->state == ACTOR_WAITING)
                core_cancel(actor->lock, false);
        else if (actor->state == ACTOR_HOLDING)
                work(world, actor);
        call_back(client);
}

/* ---- the resource ---------------------------------------------------------------------------------------------- */

void resource_receive(struct world *world, const struct message *request)
{
        struct resource *resource = &world->resources[request->name];
        struct message answer = *request;
        bool writes = request->kind == WRITE;
        bool fenced = world->bug != BUG_UNFENCED && (writes || world->bug != BUG_READ_UNFENCED);

        if (fenced && request->token < resource->highest) {
                world->figures.stale++;
                trace(world, "resource %s refuses token %llu", names[request->name],
                      (unsigned long long)request->token);
                answer.kind = STALE;
                send_to_resource(world, &answer, true);
                return;
        }
        if (fenced)
                resource->highest = request->token;
        if (writes) {
                check_written(world, request->name, request);
                resource->version++;
                world->figures.writes++;
        }
        trace(world, "resource %s %s, token %llu, version %llu", names[request->name], writes ? "written" : "read",
              (unsigned long long)request->token, (unsigned long long)resource->version);
        answer.kind = writes ? WRITE_DONE : READ_DONE;
        answer.version = resource->version;
        send_to_resource(world, &answer, true);
}

void actor_hears(struct world *world, const struct message *answer)
{
        struct sim_client *client = &world->clients[answer->client];
        struct actor *actor = &client->actors[answer->actor];

        if (actor->tenure != answer->tenure || actor->state != ACTOR_HOLDING || !actor->busy)
                return;
        if (answer->kind == READ_DONE && core_holds(actor->lock, client_now(client))) {
                ask_resource(world, actor, WRITE, answer->version);
        } else if (answer->kind == WRITE_DONE) {
                actor->busy = false;
                actor->tenure++;
                wake_actor(world, actor, between(world, 0, 50 * MS));
        } else {
                release(actor);
        }
        call_back(client);
}
