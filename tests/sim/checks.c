/* checks.c - what must be true: of beliefs, tokens, effects and endings. Told by the others as things happen, and asked
 * after every step. */
#include "sim.h"

#define RING 64

/* How long a free lock may stay free while somebody waits, once the faults are over. */
#define HANDOFF_BOUND (2 * SECOND)

/* ---- beliefs --------------------------------------------------------------------------------------------------- */

struct belief {
        const struct sim_client *client;
        const struct pawl_lock *lock;
};

static bool believes(const struct sim_client *client, const struct pawl_lock *lock)
{
        return (lock->state == LOCK_HELD || lock->state == LOCK_UNCERTAIN) && client_now(client) < lock->valid_until;
}

static const struct ended *find_ended(const struct world *world, int name, uint64_t token)
{
        for (int i = 0; i < RING; i++)
                if (world->ended[name][i].token == token)
                        return &world->ended[name][i];
        return NULL;
}

/* Cut off by force: the holder cannot know yet, and its token is what protects the resource. */
static bool was_cut_off(const struct world *world, int name, const struct pawl_lock *lock)
{
        const struct ended *ended = find_ended(world, name, lock->token);

        return ended && ended->why == END_BROKEN;
}

static const struct holding *find_holding(const struct world *world, int name, uint64_t token)
{
        const struct server_name *store = &world->server.names[name];

        for (int i = 0; i < store->holder_count; i++)
                if (store->holders[i].token == token)
                        return &store->holders[i];
        return NULL;
}

/* What a client believes, the store must still grant: not a nanosecond longer. */
static void check_backed(struct world *world, int name, const struct belief *belief)
{
        const struct pawl_lock *lock = belief->lock;
        const struct holding *holding = find_holding(world, name, lock->token);
        const struct ended *ended = find_ended(world, name, lock->token);
        int64_t until = clock_when(&belief->client->clock, lock->valid_until);

        if (holding) {
                if (until > clock_when(&world->server.clock, holding->until) + 1000)
                        fail(world, "client %d believes in %s longer than the store's lease", belief->client->index,
                             sim_name(name));
                return;
        }
        if (!ended)
                return;
        if (ended->why == END_RELEASED || ended->why == END_EXPIRED)
                fail(world, "client %d believes that it holds %s, which ended in the store", belief->client->index,
                     sim_name(name));
        else if (world->now > ended->at + ended->ttl / 100 * 102)
                fail(world, "client %d still believes in %s a whole ttl after it was cut off", belief->client->index,
                     sim_name(name));
}

static bool may_hold_together(const struct pawl_lock *one, const struct pawl_lock *other)
{
        return one->claim.mode == PAWL_SHARED && other->claim.mode == PAWL_SHARED;
}

static void check_together(struct world *world, int name, const struct belief *beliefs, int count)
{
        uint32_t limit = world->plan.max_holders[name];

        if (limit && (uint32_t)count > limit)
                fail(world, "%d hold %s, at most %u may", count, sim_name(name), limit);
        for (int i = 1; i < count; i++)
                if (!may_hold_together(beliefs[0].lock, beliefs[i].lock))
                        fail(world, "clients %d and %d both believe that they hold %s (tokens %llu and %llu)",
                             beliefs[0].client->index, beliefs[i].client->index, sim_name(name),
                             (unsigned long long)beliefs[0].lock->token, (unsigned long long)beliefs[i].lock->token);
}

static int gather_beliefs(const struct world *world, int name, struct belief *beliefs)
{
        int count = 0;

        for (int i = 0; i < world->plan.clients; i++) {
                const struct sim_client *client = &world->clients[i];

                if (!client->alive)
                        continue;
                for (int a = 0; a < world->plan.actors; a++) {
                        const struct actor *actor = &client->actors[a];

                        if (actor->state == ACTOR_HOLDING && actor->name == name && believes(client, actor->lock))
                                beliefs[count++] = (struct belief){client, actor->lock};
                }
        }
        return count;
}

static void check_beliefs(struct world *world, int name)
{
        struct belief beliefs[CLIENTS_MAX * ACTORS_MAX];
        int count = gather_beliefs(world, name, beliefs);
        int kept = 0;

        for (int i = 0; i < count; i++) {
                check_backed(world, name, &beliefs[i]);
                if (!was_cut_off(world, name, beliefs[i].lock))
                        beliefs[kept++] = beliefs[i];
        }
        check_together(world, name, beliefs, kept);
}

/* Once its end has passed, a lease may be lost and nothing else. */
static void check_not_resurrected(struct world *world, const struct sim_client *client, struct actor *actor)
{
        const struct pawl_lock *lock = actor->lock;

        if (actor->seen_until && lock->valid_until > actor->seen_until && client_now(client) >= actor->seen_until &&
            believes(client, lock))
                fail(world, "the lease of client %d on %s had run out, and stands again", client->index,
                     sim_name(actor->name));
        actor->seen_until = lock->valid_until;
}

static void check_leases(struct world *world)
{
        for (int i = 0; i < world->plan.clients; i++)
                for (int a = 0; a < world->plan.actors; a++) {
                        struct sim_client *client = &world->clients[i];
                        struct actor *actor = &client->actors[a];

                        if (client->alive && actor->state == ACTOR_HOLDING)
                                check_not_resurrected(world, client, actor);
                        else
                                actor->seen_until = 0;
                }
}

/* A lease that is kept alive is asked for again and again until its end, not once. */
void check_lost(struct world *world, struct actor *actor, int reason)
{
        const struct sim_client *client = &world->clients[actor->client];
        const struct pawl_lock *lock = actor->lock;
        bool ran = lock->sent_at > client->ran_since;
        bool in_time = lock->granted_at - lock->sent_at < lock->claim.ttl / 6; /* for two tries */

        if (reason == PAWL_REASON_EXPIRED && !lock->fixed && ran && in_time && world->plan.honest &&
            lock->claim.ttl >= SECOND && engine_renewals(&lock->claim) < 2)
                fail(world, "client %d lost %s after %d tries to renew it", client->index, sim_name(actor->name),
                     engine_renewals(&lock->claim));
}

/* As soon as a client runs, it knows what its own clock says. */
void check_turned(struct world *world, struct sim_client *client)
{
        int64_t now = client_now(client);

        for (int a = 0; a < world->plan.actors; a++)
                if (client->actors[a].state == ACTOR_WAITING && client->actors[a].deadline < now)
                        fail(world, "client %d waits for %s longer than it wanted", client->index,
                             sim_name(client->actors[a].name));

        for (struct list *at = client->core.locks.next; at != &client->core.locks; at = at->next) {
                const struct pawl_lock *lock = container_of(at, struct pawl_lock, listed);

                if ((lock->state == LOCK_HELD || lock->state == LOCK_UNCERTAIN) && lock->valid_until <= now)
                        fail(world, "client %d runs and has not noticed that its lease of %s is over", client->index,
                             lock->claim.name);
        }
}

/* ---- tokens ---------------------------------------------------------------------------------------------------- */

void check_granted_by_store(struct world *world, int name, const struct holding *holding)
{
        if (holding->token <= world->granted_last[name])
                fail(world, "the store granted %s with token %llu after %llu", sim_name(name),
                     (unsigned long long)holding->token, (unsigned long long)world->granted_last[name]);
        world->granted_last[name] = holding->token;
        for (int i = 0; i < RING; i++)
                if ((uint64_t)i < world->over_count[name] && uid_same(world->over[name][i], holding->uid))
                        fail(world, "the store granted %s to a claim that had ended", sim_name(name));
}

void check_ended_by_store(struct world *world, int name, const struct holding *holding, enum end why)
{
        world->ended[name][world->ended_count[name]++ % RING] =
                (struct ended){.token = holding->token, .at = world->now, .ttl = holding->ttl, .why = why};
}

void check_claim_over(struct world *world, int name, struct uid uid)
{
        world->over[name][world->over_count[name]++ % RING] = uid;
}

void check_order(struct world *world, int name, uint64_t ticket)
{
        const struct server_name *store = &world->server.names[name];

        for (int i = 0; i < store->waiter_count; i++)
                if (store->queue[i].ticket < ticket)
                        fail(world, "a waiter for %s was overtaken", sim_name(name));
}

void check_told(struct world *world, struct actor *actor)
{
        uint64_t token = actor->lock->token;
        int name = actor->name;

        if (!believes(&world->clients[actor->client], actor->lock))
                fail(world, "client %d was told that it holds %s, which had run out", actor->client, sim_name(name));
        if (token == 0 || token >> 63)
                fail(world, "a grant of %s has token %llu", sim_name(name), (unsigned long long)token);
        if (token <= actor->began)
                fail(world, "client %d got token %llu of %s, but %llu was told before it asked", actor->client,
                     (unsigned long long)token, sim_name(name), (unsigned long long)actor->began);
        for (int i = 0; i < RING; i++)
                if (world->told[name][i] == token)
                        fail(world, "token %llu of %s was given twice", (unsigned long long)token, sim_name(name));
        world->told[name][world->told_count[name]++ % RING] = token;
        if (token > world->told_max[name])
                world->told_max[name] = token;
}

/* ---- effects and endings --------------------------------------------------------------------------------------- */

void check_written(struct world *world, int name, const struct message *message)
{
        if (message->version != world->resources[name].version)
                fail(world, "an update of %s was lost: written from version %llu over %llu (token %llu)",
                     sim_name(name), (unsigned long long)message->version,
                     (unsigned long long)world->resources[name].version, (unsigned long long)message->token);
}

void check_release_told(struct world *world, struct actor *actor, int status)
{
        if (actor->released != 1)
                fail(world, "client %d heard of a release of %s %d times", actor->client, sim_name(actor->name),
                     actor->released);
        if (actor->granted != 1)
                fail(world, "client %d never got an answer to its claim of %s", actor->client, sim_name(actor->name));
        if (status == PAWL_OK && actor->incarnation == world->server.incarnation &&
            server_holds(world, actor->name, actor->uid))
                fail(world, "client %d was told that %s is released, and the store still holds it", actor->client,
                     sim_name(actor->name));
}

/* ---- liveness -------------------------------------------------------------------------------------------------- */

static bool is_free(const struct world *world, int name)
{
        const struct server_name *store = &world->server.names[name];
        int64_t now = clock_read(&world->server.clock, world->now);

        for (int i = 0; i < store->holder_count; i++)
                if (store->holders[i].until > now)
                        return false;
        return now >= world->server.quarantine;
}

static bool somebody_waits(const struct world *world, int name)
{
        for (int i = 0; i < world->plan.clients; i++)
                for (int a = 0; a < world->plan.actors; a++) {
                        const struct actor *actor = &world->clients[i].actors[a];

                        if (world->clients[i].alive && actor->state == ACTOR_WAITING && actor->name == name)
                                return true;
                }
        return false;
}

static void check_progress(struct world *world, int name)
{
        if (!is_free(world, name) || !somebody_waits(world, name))
                world->free_since[name] = 0;
        else if (!world->free_since[name])
                world->free_since[name] = world->now;
        else if (world->now - world->free_since[name] > HANDOFF_BOUND)
                fail(world, "%s has been free for %lld ms while somebody waits", sim_name(name),
                     (long long)((world->now - world->free_since[name]) / MS));
}

void check_step(struct world *world)
{
        check_leases(world);
        for (int name = 0; name < world->plan.names; name++) {
                if (world->plan.honest)
                        check_beliefs(world, name);
                if (world->calm)
                        check_progress(world, name);
        }
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

static void check_nothing_left(struct world *world, struct sim_client *client)
{
        for (int a = 0; a < world->plan.actors; a++)
                if (client->actors[a].state != ACTOR_IDLE)
                        fail(world, "a claim of client %d for %s never ended (state %d)", client->index,
                             sim_name(client->actors[a].name), (int)client->actors[a].state);
        for (struct list *at = client->core.locks.next; at != &client->core.locks; at = at->next)
                if (container_of(at, struct pawl_lock, listed)->state != LOCK_FREE)
                        fail(world, "client %d has a handle left that nobody owns", client->index);
        if (engine_claims(client->engine))
                fail(world, "the engine of client %d has %d claims left", client->index, engine_claims(client->engine));
        if (loop_next(&client->loop) != NEVER)
                fail(world, "client %d has a timer left", client->index);
        if (client->core.stats.held || client->core.stats.waiting)
                fail(world, "the figures of client %d say that it holds %llu and waits for %llu", client->index,
                     (unsigned long long)client->core.stats.held, (unsigned long long)client->core.stats.waiting);
}

void check_end(struct world *world)
{
        for (int i = 0; i < world->plan.clients; i++)
                if (world->clients[i].alive)
                        check_nothing_left(world, &world->clients[i]);
        for (int name = 0; name < world->plan.names; name++) {
                server_look(world, name);
                if (world->server.names[name].holder_count)
                        fail(world, "the store still holds %s", sim_name(name));
                if (world->server.names[name].waiter_count)
                        fail(world, "somebody is left in the queue of %s", sim_name(name));
        }
}
