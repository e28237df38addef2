/* server.c - the model store: what a Redis with our scripts would do (one step is one script), by the rules the model
 * checker showed to be needed. It has no timers: what has run out is noticed by whoever asks next. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

/* How long a waiter that stopped asking keeps its place, and how long a grant waits to be confirmed. */
#define WAITER_TTL (1500 * MS)
#define CONFIRM_TTL (400 * MS)
/* Longer than any history, and yet a time. */
#define FOR_EVER (1800 * SECOND)

static int64_t server_now(const struct world *world)
{
        return clock_read(&world->server.clock, world->now);
}

/* ---- claims that ended ----------------------------------------------------------------------------------------- */

static struct grave *find_grave(struct server_name *name, struct uid uid)
{
        for (int i = 0; i < GRAVES_MAX; i++)
                if ((uint64_t)i < name->grave_count && uid_same(name->graves[i].uid, uid))
                        return &name->graves[i];
        return NULL;
}

static void bury(struct world *world, int index, struct uid uid, bool released, bool broken)
{
        struct server_name *name = &world->server.names[index];

        check_claim_over(world, index, uid);
        if (world->bug == BUG_REUSED_UID || find_grave(name, uid))
                return;
        name->graves[name->grave_count++ % GRAVES_MAX] = (struct grave){uid, released, broken};
}

/* ---- the queue ------------------------------------------------------------------------------------------------- */

static struct waiter *find_waiter(struct server_name *name, struct uid uid)
{
        for (int i = 0; i < name->waiter_count; i++)
                if (uid_same(name->queue[i].uid, uid))
                        return &name->queue[i];
        return NULL;
}

static void remove_waiter(struct server_name *name, struct waiter *waiter)
{
        size_t behind = (size_t)(name->queue + name->waiter_count - 1 - waiter);

        memmove(waiter, waiter + 1, behind * sizeof(*waiter));
        name->waiter_count--;
}

static struct waiter waiter_of(const struct world *world, const struct message *message)
{
        struct waiter waiter = {
                .uid = message->uid,
                .until = server_now(world) + WAITER_TTL,
                .ttl = message->ttl,
                .mode = message->mode,
                .max_holders = message->max_holders,
                .client = message->client,
                .age = message->age,
                .since = server_now(world),
        };

        memcpy(waiter.note, message->note, sizeof(waiter.note));
        return waiter;
}

static void enqueue(struct world *world, struct server_name *name, const struct message *message)
{
        struct server *server = &world->server;
        struct waiter *waiter = &name->queue[name->waiter_count];

        if (name->waiter_count == WAITERS_MAX)
                return;
        name->waiter_count++;
        *waiter = waiter_of(world, message);
        waiter->ticket = ++server->tickets;
        waiter->token = world->bug == BUG_TOKEN_AT_ENQUEUE ? ++server->counter : 0;
}

/* ---- holders --------------------------------------------------------------------------------------------------- */

static struct holding *find_holder(struct server_name *name, struct uid uid)
{
        for (int i = 0; i < name->holder_count; i++)
                if (uid_same(name->holders[i].uid, uid))
                        return &name->holders[i];
        return NULL;
}

static void end_holding(struct world *world, int index, struct holding *holding, enum end why)
{
        struct server_name *name = &world->server.names[index];
        size_t behind = (size_t)(name->holders + name->holder_count - 1 - holding);

        trace(world, "store: %s token %llu of client %d ends", sim_name(index), (unsigned long long)holding->token,
              holding->client);
        check_ended_by_store(world, index, holding, why);
        memmove(holding, holding + 1, behind * sizeof(*holding));
        name->holder_count--;
}

/* Whoever asks once more never heard of the grant that ran out: he may queue again. */
static void end_expired(struct world *world, int index)
{
        struct server_name *name = &world->server.names[index];
        int64_t now = server_now(world);

        for (int i = 0; i < name->holder_count;) {
                struct holding *holding = &name->holders[i];

                if (holding->until > now) {
                        i++;
                        continue;
                }
                end_holding(world, index, holding, END_EXPIRED);
        }
}

static void drop_dead_waiters(const struct world *world, struct server_name *name)
{
        int64_t now = server_now(world);

        for (int i = 0; i < name->waiter_count;) {
                if (name->queue[i].until <= now)
                        remove_waiter(name, &name->queue[i]);
                else
                        i++;
        }
}

static bool has_room(const struct world *world, const struct server_name *name, uint32_t mode, uint32_t max_holders)
{
        uint32_t limit = max_holders ? max_holders : HOLDERS_MAX;

        if (name->holder_count == 0)
                return true;
        if (mode == PAWL_EXCLUSIVE || name->holders[0].mode == PAWL_EXCLUSIVE)
                return false;
        if (world->bug == BUG_NO_LIMIT && max_holders)
                limit++;
        return (uint32_t)name->holder_count < limit && name->holder_count < HOLDERS_MAX;
}

/* Survives the loss of all data, unless the clock also went back. */
static uint64_t next_token(struct world *world)
{
        struct server *server = &world->server;
        uint64_t floor = (uint64_t)server_now(world) / 1000;

        server->counter++;
        if (server->counter < floor && world->bug != BUG_TOKEN_RESET && world->bug != BUG_TOKEN_AT_ENQUEUE)
                server->counter = floor;
        return server->counter;
}

static struct holding *grant(struct world *world, int index, const struct waiter *waiter, bool confirmed)
{
        struct server_name *name = &world->server.names[index];
        struct holding *holding = &name->holders[name->holder_count++];
        int64_t lease = confirmed ? waiter->ttl : CONFIRM_TTL;

        if (!confirmed && world->bug == BUG_NO_CONFIRM_LEASE)
                lease = FOR_EVER;
        *holding = (struct holding){
                .uid = waiter->uid,
                .token = waiter->token ? waiter->token : next_token(world),
                .until = server_now(world) + lease,
                .ttl = waiter->ttl,
                .mode = waiter->mode,
                .max_holders = waiter->max_holders,
                .client = waiter->client,
                .confirmed = confirmed,
                .age = waiter->age,
                .since = server_now(world),
        };
        memcpy(holding->note, waiter->note, sizeof(holding->note));
        trace(world, "store: %s granted to client %d, token %llu%s", sim_name(index), holding->client,
              (unsigned long long)holding->token, confirmed ? "" : ", to be confirmed");
        world->figures.grants++;
        check_granted_by_store(world, index, holding);
        return holding;
}

static void push(struct world *world, int index, const struct holding *holding)
{
        struct message message = {
                .kind = PUSHED, .name = index, .uid = holding->uid, .client = holding->client, .token = holding->token};

        message.life = world->clients[holding->client].life;
        send_to_client(world, &message);
}

void server_look(struct world *world, int index)
{
        struct server_name *name = &world->server.names[index];

        end_expired(world, index);
        drop_dead_waiters(world, name);
        while (name->waiter_count && server_now(world) >= world->server.quarantine) {
                int first = world->bug == BUG_LAST_COME ? name->waiter_count - 1 : 0;
                struct waiter waiter = name->queue[first];

                if (!has_room(world, name, waiter.mode, waiter.max_holders))
                        return;
                remove_waiter(name, &name->queue[first]);
                check_order(world, index, waiter.ticket);
                push(world, index, grant(world, index, &waiter, false));
        }
}

/* ---- requests -------------------------------------------------------------------------------------------------- */

static void reply(struct world *world, const struct message *request, enum message_kind kind, uint64_t token, int code)
{
        struct message message = *request;

        message.kind = kind;
        message.token = token;
        message.code = code;
        send_to_client(world, &message);
}

/* The holder's lease restarts with each of its questions: that is what makes a question a confirmation. */
static void confirm(struct world *world, struct holding *holding, const struct message *request)
{
        int64_t lease = holding->ttl;

        if (world->bug == BUG_EARLY_EXPIRY)
                lease = lease / 10 * 9;
        holding->confirmed = true;
        if (holding->until < server_now(world) + lease)
                holding->until = server_now(world) + lease;
        reply(world, request, GRANTED, holding->token, PAWL_OK);
}

static void receive_ask(struct world *world, const struct message *request)
{
        struct server_name *name = &world->server.names[request->name];
        struct grave *grave = find_grave(name, request->uid);
        struct holding *holding;
        struct waiter *waiter;

        if (grave) {
                reply(world, request, CANCELLED, 0, PAWL_LOST);
                return;
        }
        server_look(world, request->name);
        holding = find_holder(name, request->uid);
        if (holding && world->bug == BUG_TWICE && !find_waiter(name, request->uid))
                enqueue(world, name, request);
        if (holding) {
                confirm(world, holding, request);
                return;
        }
        if (server_now(world) < world->server.quarantine && !request->wait) {
                bury(world, request->name, request->uid, true, false);
                reply(world, request, NOT_READY, 0, PAWL_UNREACHABLE);
                return;
        }
        waiter = find_waiter(name, request->uid);
        if (waiter) {
                waiter->until = server_now(world) + WAITER_TTL;
                reply(world, request, QUEUED, 0, PAWL_OK);
                return;
        }
        if (!name->waiter_count && server_now(world) >= world->server.quarantine &&
            has_room(world, name, request->mode, request->max_holders)) {
                struct waiter now = waiter_of(world, request);

                confirm(world, grant(world, request->name, &now, true), request);
                return;
        }
        if (request->wait)
                enqueue(world, name, request);
        else
                bury(world, request->name, request->uid, true, false);
        reply(world, request, request->wait ? QUEUED : BUSY, 0, PAWL_BUSY);
}

static void receive_cancel(struct world *world, const struct message *request)
{
        struct server_name *name = &world->server.names[request->name];
        struct holding *holding = find_holder(name, request->uid);
        struct waiter *waiter = find_waiter(name, request->uid);

        if (world->bug == BUG_NO_CANCEL) {
                check_claim_over(world, request->name, request->uid);
                reply(world, request, CANCELLED, 0, PAWL_CANCELLED);
                return;
        }
        bury(world, request->name, request->uid, true, false);
        if (waiter)
                remove_waiter(name, waiter);
        if (holding)
                end_holding(world, request->name, holding, END_RELEASED); /* and the next one gets it */
        server_look(world, request->name);
        reply(world, request, CANCELLED, 0, PAWL_CANCELLED);
}

/* True if the claim held the lock until now. A second release of it hears the same. */
static bool release(struct world *world, int index, struct uid uid)
{
        struct server_name *name = &world->server.names[index];
        struct waiter *waiter = find_waiter(name, uid);
        struct holding *holding;
        struct grave *grave;
        bool released;

        end_expired(world, index);
        if (waiter) /* a question of his that came late had queued him again */
                remove_waiter(name, waiter);
        holding = find_holder(name, uid);
        if (!holding && world->bug == BUG_BLIND_RELEASE && name->holder_count)
                holding = &name->holders[0];
        if (holding) {
                bury(world, index, uid, true, false);
                end_holding(world, index, holding, END_RELEASED);
        }
        grave = find_grave(name, uid);
        released = holding || (grave && grave->released);
        bury(world, index, uid, false, false);
        server_look(world, index);
        return released;
}

static void receive_release(struct world *world, const struct message *request)
{
        bool released = release(world, request->name, request->uid);

        reply(world, request, RELEASED, request->token, released ? PAWL_OK : PAWL_LOST);
}

static int renew_one(struct world *world, const struct message *request, int i)
{
        struct server_name *name = &world->server.names[request->name];
        struct holding *holding = find_holder(name, request->uids[i]);
        struct grave *grave = find_grave(name, request->uids[i]);

        if (!holding && world->bug == BUG_RENEW_RECREATES && !name->holder_count) {
                holding = &name->holders[name->holder_count++];
                *holding = (struct holding){.uid = request->uids[i],
                                            .token = request->token,
                                            .ttl = request->ttl,
                                            .client = request->client,
                                            .confirmed = true};
        }
        if (holding) {
                if (holding->until < server_now(world) + holding->ttl)
                        holding->until = server_now(world) + holding->ttl;
                return PAWL_REASON_NONE;
        }
        return grave && grave->broken ? PAWL_REASON_BROKEN : PAWL_REASON_TAKEN;
}

static void receive_renew(struct world *world, const struct message *request)
{
        struct message answer = *request;

        server_look(world, request->name);
        for (int i = 0; i < request->count; i++) {
                struct holding *holding;

                answer.codes[i] = renew_one(world, request, i);
                holding = find_holder(&world->server.names[request->name], request->uids[i]);
                answer.asked[i] = holding && holding->asked; /* for whom the call itself was lost */
        }
        answer.kind = RENEWED;
        send_to_client(world, &answer);
}

/* ---- who looks, and the bytes beside a lock ----------------------------------------------------------------------- */

static int show_holders(const struct world *world, int index, struct shown *lines)
{
        const struct server_name *name = &world->server.names[index];

        for (int i = 0; i < name->holder_count; i++) {
                const struct holding *holding = &name->holders[i];

                lines[i] = (struct shown){.name = index,
                                          .client = holding->client,
                                          .role = PAWL_ROLE_HOLDER,
                                          .mode = holding->mode,
                                          .max_holders = holding->max_holders,
                                          .waiters = (uint32_t)name->waiter_count,
                                          .token = holding->token,
                                          .age = world->bug == BUG_NO_AGE ? 0 : holding->age,
                                          .remaining = holding->until - server_now(world),
                                          .since = holding->since};
                memcpy(lines[i].note, holding->note, sizeof(lines[i].note));
        }
        return name->holder_count;
}

static int show_waiters(const struct world *world, int index, struct shown *lines)
{
        const struct server_name *name = &world->server.names[index];

        for (int i = 0; i < name->waiter_count; i++) {
                const struct waiter *waiter = &name->queue[i];

                lines[i] = (struct shown){.name = index,
                                          .client = waiter->client,
                                          .role = PAWL_ROLE_WAITER,
                                          .mode = waiter->mode,
                                          .max_holders = waiter->max_holders,
                                          .waiters = (uint32_t)name->waiter_count,
                                          .age = world->bug == BUG_NO_AGE ? 0 : waiter->age,
                                          .since = waiter->since};
                memcpy(lines[i].note, waiter->note, sizeof(lines[i].note));
        }
        return name->waiter_count;
}

static void answer_with(struct world *world, const struct message *request, int code, const void *more, size_t size)
{
        struct message answer = *request;

        answer.code = code;
        answer.more = more;
        answer.more_size = size;
        send_to_client(world, &answer);
}

static void receive_show(struct world *world, const struct message *request)
{
        struct shown lines[HOLDERS_MAX + WAITERS_MAX];
        int count;

        server_look(world, request->name);
        count = show_holders(world, request->name, lines);
        count += show_waiters(world, request->name, lines + count);
        answer_with(world, request, count ? PAWL_OK : PAWL_NOT_FOUND, lines, (size_t)count * sizeof(*lines));
}

static void receive_list(struct world *world, const struct message *request)
{
        struct shown lines[HOLDERS_MAX * NAMES_ROOM];
        int count = 0;

        for (int i = 0; i < world->plan.names; i++) {
                if (strncmp(sim_name(i), request->note, strlen(request->note)) != 0)
                        continue;
                server_look(world, i);
                count += show_holders(world, i, lines + count);
        }
        answer_with(world, request, PAWL_OK, lines, (size_t)count * sizeof(*lines));
}

static void receive_call(struct world *world, const struct message *request)
{
        struct server_name *name = &world->server.names[request->name];

        server_look(world, request->name);
        for (int i = 0; i < name->holder_count; i++) {
                struct holding *holding = &name->holders[i];
                struct message call = {
                        .kind = HEARD, .name = request->name, .uid = holding->uid, .client = holding->client};

                if (world->bug == BUG_NO_CALL)
                        continue;
                holding->asked = true;
                call.life = world->clients[holding->client].life;
                send_to_client(world, &call);
        }
        answer_with(world, request, name->holder_count ? PAWL_OK : PAWL_NOT_FOUND, NULL, 0);
}

static void forget_kept(struct kept *kept)
{
        free(kept->data);
        *kept = (struct kept){0};
}

static void keep(struct world *world, struct kept *kept, const struct message *request)
{
        int64_t now = server_now(world);

        forget_kept(kept);
        if (!request->more_size)
                return;
        kept->data = malloc(request->more_size);
        if (!kept->data)
                abort();
        memcpy(kept->data, request->more, request->more_size);
        kept->size = request->more_size;
        kept->token = request->token;
        kept->stored_at = now;
        kept->until = request->keep ? now + request->keep : NEVER;
}

/* The check and the write are one step; what the holder sent before its latest store comes too late. */
static void receive_store(struct world *world, const struct message *request)
{
        struct server_name *name = &world->server.names[request->name];
        struct holding *holding;

        server_look(world, request->name);
        holding = find_holder(name, request->uids[0]);
        if (holding ? request->version > holding->stores : world->bug == BUG_STORE_UNCHECKED) {
                keep(world, &name->kept, request);
                if (holding)
                        holding->stores = request->version;
                trace(world, "store: client %d keeps %zu bytes under %s, token %llu", request->client,
                      request->more_size, sim_name(request->name), (unsigned long long)request->token);
        }
        answer_with(world, request, holding || world->bug == BUG_STORE_UNCHECKED ? PAWL_OK : PAWL_LOST, NULL, 0);
}

static void receive_fetch(struct world *world, const struct message *request)
{
        struct kept *kept = &world->server.names[request->name].kept;
        struct message found = *request;

        if (kept->data && kept->until <= server_now(world))
                forget_kept(kept);
        found.token = kept->token;
        found.stored_at = kept->stored_at;
        found.read = server_now(world);
        answer_with(world, &found, kept->data ? PAWL_OK : PAWL_NOT_FOUND, kept->data, kept->size);
}

void server_free(struct world *world)
{
        for (int i = 0; i < NAMES_ROOM; i++)
                forget_kept(&world->server.names[i].kept);
}

void server_receive(struct world *world, const struct message *message)
{
        if (!world->server.up)
                return;
        switch (message->kind) {
        case ASK:
                receive_ask(world, message);
                break;
        case CANCEL:
                receive_cancel(world, message);
                break;
        case RENEW:
                receive_renew(world, message);
                break;
        case RELEASE:
                receive_release(world, message);
                break;
        case SHOW:
                receive_show(world, message);
                break;
        case LIST:
                receive_list(world, message);
                break;
        case CALL:
                receive_call(world, message);
                break;
        case STORE:
                receive_store(world, message);
                break;
        case FETCH:
                receive_fetch(world, message);
                break;
        default:
                fail(world, "the store got message %d", (int)message->kind);
        }
}

/* ---- the same at once, for a store in memory -------------------------------------------------------------------- */

uint64_t server_try(struct world *world, const struct message *request)
{
        struct server_name *name = &world->server.names[request->name];
        struct waiter now = waiter_of(world, request);

        server_look(world, request->name);
        if (name->waiter_count || !has_room(world, name, request->mode, request->max_holders))
                return 0;
        return grant(world, request->name, &now, true)->token;
}

bool server_give_back(struct world *world, int name, struct uid uid)
{
        return release(world, name, uid);
}

/* ---- faults ---------------------------------------------------------------------------------------------------- */

void server_restart(struct world *world, bool loses_data)
{
        struct server *server = &world->server;

        drop_messages(world, -1);
        if (!loses_data)
                return;
        for (int i = 0; i < world->plan.names; i++)
                while (server->names[i].holder_count)
                        end_holding(world, i, &server->names[i].holders[0], END_FORGOTTEN);
        server_free(world);
        memset(server->names, 0, sizeof(server->names));
        memset(world->over, 0, sizeof(world->over));
        server->counter = 0;
        server->incarnation++;
        if (world->bug != BUG_NO_QUARANTINE) /* every lease that we forgot must have ended */
                server->quarantine = server_now(world) + world->plan.ttl_max;
}

bool server_break(struct world *world, int index)
{
        struct server_name *name = &world->server.names[index];
        bool any = name->holder_count > 0;

        while (name->holder_count) {
                bury(world, index, name->holders[0].uid, false, true);
                end_holding(world, index, &name->holders[0], END_BROKEN);
        }
        server_look(world, index);
        return any;
}

bool server_holds(const struct world *world, int index, struct uid uid)
{
        const struct server_name *name = &world->server.names[index];

        for (int i = 0; i < name->holder_count; i++)
                if (uid_same(name->holders[i].uid, uid))
                        return true;
        return false;
}
