/* world.c - time, chance, events, the network, the trace. */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BUG_ENTRY(flag, text) {#flag, text},
static const struct {
        const char *name, *text;
} bugs[BUGS] = {{"NONE", "nothing is wrong"}, SIM_BUGS(BUG_ENTRY)};

const char *bug_name(enum bug bug)
{
        return bugs[bug].name;
}

const char *bug_text(enum bug bug)
{
        return bugs[bug].text;
}

enum bug bug_find(const char *name)
{
        int bug = BUG_NONE;

        while (bug < BUGS && strcmp(bugs[bug].name, name) != 0)
                bug++;
        return (enum bug)bug;
}

/* ---- chance: splitmix64 --------------------------------------------------------------------------------------- */

static uint64_t draw(struct world *world)
{
        uint64_t z = (world->random += UINT64_C(0x9e3779b97f4a7c15));

        z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
        z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
        return z ^ (z >> 31);
}

uint64_t chance(struct world *world, uint64_t below)
{
        return draw(world) % below;
}

bool one_in(struct world *world, uint64_t n)
{
        return chance(world, n) == 0;
}

int64_t between(struct world *world, int64_t least, int64_t most)
{
        return least + (int64_t)chance(world, (uint64_t)(most - least) + 1);
}

/* ---- clocks ---------------------------------------------------------------------------------------------------- */

int64_t clock_read(const struct clock *clock, int64_t now)
{
        int64_t past = now - clock->origin;

        return clock->local + past + past / 1000 * clock->ppm / 1000;
}

int64_t clock_when(const struct clock *clock, int64_t at)
{
        int64_t ahead = at == NEVER ? NEVER : at - clock->local;
        int64_t when;

        if (ahead > 3600 * SECOND)
                return NEVER; /* longer than any history */
        if (ahead <= 0)
                return clock->origin;
        when = clock->origin + ahead * 1000000 / (1000000 + clock->ppm) - 1;
        while (clock_read(clock, when) < at) {
                int64_t missing = at - clock_read(clock, when);

                when += missing / 4 + 1; /* the fastest clock runs at three times the true rate */
        }
        return when;
}

void clock_change(struct clock *clock, int64_t now, int64_t ppm, int64_t jump)
{
        clock->local = clock_read(clock, now) + jump;
        clock->origin = now;
        clock->ppm = ppm;
}

/* ---- events ---------------------------------------------------------------------------------------------------- */

static bool is_before(const struct happening *one, const struct happening *other)
{
        return one->at < other->at || (one->at == other->at && one->order < other->order);
}

static void sift_up(struct happening *heap, size_t at)
{
        while (at > 0 && is_before(&heap[at], &heap[(at - 1) / 2])) {
                struct happening moved = heap[at];

                heap[at] = heap[(at - 1) / 2];
                heap[(at - 1) / 2] = moved;
                at = (at - 1) / 2;
        }
}

static void sift_down(struct happening *heap, size_t count, size_t at)
{
        for (;;) {
                size_t least = at;
                struct happening moved = heap[at];

                for (size_t child = 2 * at + 1; child <= 2 * at + 2 && child < count; child++)
                        if (is_before(&heap[child], &heap[least]))
                                least = child;
                if (least == at)
                        return;
                heap[at] = heap[least];
                heap[least] = moved;
                at = least;
        }
}

void schedule(struct world *world, int64_t after, struct happening event)
{
        if (world->events == world->room) {
                world->room = world->room ? 2 * world->room : 256;
                world->heap = world_room(world->heap, world->room * sizeof(*world->heap));
        }
        event.at = world->now + after;
        event.order = ++world->order;
        world->heap[world->events++] = event;
        sift_up(world->heap, world->events - 1);
}

bool next_event(struct world *world, struct happening *event)
{
        if (!world->events)
                return false;
        *event = world->heap[0];
        world->heap[0] = world->heap[--world->events];
        sift_down(world->heap, world->events, 0);
        return true;
}

int64_t next_event_at(const struct world *world)
{
        return world->events ? world->heap[0].at : NEVER;
}

/* ---- the network ----------------------------------------------------------------------------------------------- */

static int64_t delay(struct world *world)
{
        if (!world->calm && (int)chance(world, 1000) < world->plan.slow)
                return one_in(world, 5) ? between(world, 300 * MS, 4 * SECOND) : between(world, 5 * MS, 300 * MS);
        return between(world, MS / 20, 2 * MS);
}

static void deliver(struct world *world, enum event_kind kind, const struct message *message)
{
        struct message *copy = world_room(NULL, sizeof(*copy) + message->more_size);

        *copy = *message;
        if (message->more_size)
                copy->more = memcpy(copy + 1, message->more, message->more_size);
        world->figures.messages++;
        schedule(world, delay(world),
                 (struct happening){.kind = kind, .client = message->client, .life = message->life, .message = copy});
}

static void transmit(struct world *world, enum event_kind kind, const struct message *message)
{
        if (!world->calm && (int)chance(world, 1000) < world->plan.loss)
                return;
        deliver(world, kind, message);
        while (!world->calm && (int)chance(world, 1000) < world->plan.duplicates)
                deliver(world, kind, message);
}

void send_to_server(struct world *world, const struct message *message)
{
        transmit(world, TO_SERVER, message);
}

void send_to_client(struct world *world, const struct message *message)
{
        transmit(world, TO_CLIENT, message);
}

/* One connection for each request: nothing comes twice, but it may come late or not at all. */
void send_to_resource(struct world *world, const struct message *message, bool back)
{
        if (!world->calm && (int)chance(world, 1000) < world->plan.loss)
                return;
        deliver(world, back ? TO_CLIENT : TO_RESOURCE, message);
}

/* A connection that is reset takes along what was on its way, in both directions. */
void drop_messages(struct world *world, int client)
{
        for (size_t i = 0; i < world->events; i++) {
                struct happening *event = &world->heap[i];

                if (!event->message || event->kind == TO_RESOURCE || event->message->kind >= READ)
                        continue;
                if (client >= 0 && event->client != client)
                        continue;
                free(event->message);
                event->message = NULL;
        }
}

void world_free(struct world *world)
{
        for (size_t i = 0; i < world->events; i++)
                free(world->heap[i].message);
        free(world->heap);
        server_free(world);
        for (int i = 0; i < world->plan.clients; i++)
                if (world->clients[i].alive)
                        client_crash(world, i);
}

/* ---- telling --------------------------------------------------------------------------------------------------- */

void fail(struct world *world, const char *format, ...)
{
        va_list arguments;

        if (world->failed)
                return;
        world->failed = true;
        va_start(arguments, format);
        vsnprintf(world->failure, sizeof(world->failure), format, arguments);
        va_end(arguments);
        trace(world, "VIOLATION: %s", world->failure);
}

/* FNV-1a. */
static void mix(struct world *world, const char *line)
{
        for (; *line; line++)
                world->hash = (world->hash ^ (unsigned char)*line) * UINT64_C(0x100000001b3);
}

void trace(struct world *world, const char *format, ...)
{
        char line[256];
        va_list arguments;
        int head;

        if (!world->tracing && !world->hashing)
                return;
        head = snprintf(line, sizeof(line), "# %14.6f ms  ", (double)world->now / 1e6);
        va_start(arguments, format);
        vsnprintf(line + head, sizeof(line) - (size_t)head, format, arguments);
        va_end(arguments);
        mix(world, line);
        if (world->tracing)
                puts(line);
}
