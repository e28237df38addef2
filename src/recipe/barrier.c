/* barrier.c - who waits at a barrier holds "barrier/NAME", shared; so those who died are not there. When enough are
 * there, one of them, with "gate/NAME", keeps beside that lock the token of the last who goes through: everybody with a
 * token up to that one does. Tokens only grow, so who comes later belongs to the next round, and nothing has to be put
 * back. */
#include <pawl/barrier.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "recipe.h"

static const char magic[] = "pawl-barrier 1 ";

/* The gate's lock is held for moments, unless its holder died. */
enum { GIVE_UP_MS = 2000 };

struct pawl_barrier {
        pawl_client *client;
        pawl_lock *lock;
        uint32_t parties;
        int64_t ttl_ms;
        uint64_t through; /* the last token of our round */
        char name[PAWL_NAME_MAX + 1];
        char gate[PAWL_NAME_MAX + 1];
};

/* ---- who is there ------------------------------------------------------------------------------------------------ */

struct crowd {
        uint64_t *tokens;
        size_t count, room;
        bool no_memory;
};

static int note_holder(const struct pawl_entry *entry, void *arg)
{
        struct crowd *crowd = arg;

        if (entry->role != PAWL_ROLE_HOLDER)
                return 0;
        if (crowd->count == crowd->room) {
                size_t room = crowd->room ? 2 * crowd->room : 64;
                uint64_t *tokens = realloc(crowd->tokens, room * sizeof(*tokens));

                if (!tokens) {
                        crowd->no_memory = true;
                        return 1;
                }
                crowd->tokens = tokens;
                crowd->room = room;
        }
        crowd->tokens[crowd->count++] = entry->token;
        return 0;
}

static int look_around(const pawl_barrier *barrier, struct crowd *crowd)
{
        int code = pawl_look(barrier->client, barrier->name, note_holder, crowd);

        if (code == PAWL_NOT_FOUND)
                code = PAWL_OK;
        return code == PAWL_OK && crowd->no_memory ? PAWL_NO_MEMORY : code;
}

static int in_order(const void *one, const void *other)
{
        uint64_t a = *(const uint64_t *)one, b = *(const uint64_t *)other;

        return (a > b) - (a < b);
}

/* ---- the gate ---------------------------------------------------------------------------------------------------- */

/* Up to which token it has been opened; 0: never. */
static int read_gate(const pawl_barrier *barrier, uint64_t *through)
{
        struct pawl_value value;
        int code = pawl_fetch(barrier->client, barrier->gate, &value);
        bool good;

        *through = 0;
        if (code == PAWL_NOT_FOUND)
                return PAWL_OK;
        if (code != PAWL_OK)
                return code;
        good = recipe_read_number(value.data, value.size, magic, INT64_MAX, through);
        free(value.data);
        return good ? PAWL_OK : PAWL_CORRUPT;
}

/* With the gate's lock: opens it for the next round if enough are there. */
static int open_locked(const pawl_barrier *barrier, pawl_lock *gate, bool *opened)
{
        struct crowd crowd = {0};
        uint64_t through;
        size_t first = 0;
        char text[64];
        int length, code = read_gate(barrier, &through);

        if (code == PAWL_OK)
                code = look_around(barrier, &crowd);
        if (code == PAWL_OK && crowd.count)
                qsort(crowd.tokens, crowd.count, sizeof(*crowd.tokens), in_order);
        while (first < crowd.count && crowd.tokens[first] <= through)
                first++;
        if (code == PAWL_OK && crowd.count - first >= barrier->parties) {
                length = snprintf(text, sizeof(text), "%s%" PRIu64, magic, crowd.tokens[first + barrier->parties - 1]);
                code = pawl_store(gate, text, (size_t)length, 0);
                *opened = code == PAWL_OK;
        }
        free(crowd.tokens);
        return code;
}

static int take_gate(const pawl_barrier *barrier, int64_t wait_ms, struct pawl_why *why, pawl_lock **gate)
{
        return pawl_acquire(barrier->client, barrier->gate,
                            PAWL_LOCK(.flags = PAWL_BRIEF, .wait_ms = wait_ms, .ttl_ms = barrier->ttl_ms, .why = why),
                            gate);
}

static int explain(const pawl_barrier *barrier, int code, struct pawl_why *why)
{
        if (code == PAWL_LOST)
                return recipe_fail(why, code, "our lease ran out while we waited: the others take us for dead");
        if (code == PAWL_CORRUPT)
                return recipe_fail(why, code, "what is kept under this name is not a barrier");
        return recipe_explain(why, barrier->client, code);
}

static int open_gate(const pawl_barrier *barrier, struct pawl_why *why, bool *opened)
{
        pawl_lock *gate;
        int code = take_gate(barrier, PAWL_NO_WAIT, why, &gate);

        if (code != PAWL_OK)
                return code == PAWL_BUSY ? PAWL_OK : code; /* another one is just doing it */
        code = open_locked(barrier, gate, opened);
        (void)pawl_release(gate);
        if (code == PAWL_LOST || code == PAWL_IN_DOUBT) /* it will be seen, or tried again */
                return PAWL_OK;
        return code == PAWL_OK ? code : explain(barrier, code, why);
}

/* Are enough there to open it? Only then its lock is worth taking. */
static int enough(const pawl_barrier *barrier, uint64_t through, bool *yes)
{
        struct crowd crowd = {0};
        size_t waiting = 0;
        int code = look_around(barrier, &crowd);

        for (size_t i = 0; i < crowd.count; i++)
                waiting += crowd.tokens[i] > through;
        free(crowd.tokens);
        *yes = waiting >= barrier->parties;
        return code;
}

/* Our time is over. With the gate's lock nobody counts us while we go; without it we may be counted. */
static int give_up(pawl_barrier *barrier, struct pawl_why *why)
{
        pawl_lock *gate;
        int code = take_gate(barrier, GIVE_UP_MS, NULL, &gate);

        if (code == PAWL_OK) {
                code = read_gate(barrier, &barrier->through);
                if (code == PAWL_OK && barrier->through >= pawl_token(barrier->lock)) {
                        code = pawl_check(barrier->lock); /* who lost its lease was not counted */
                } else if (code == PAWL_OK) {
                        code = pawl_release(barrier->lock);
                        barrier->lock = NULL;
                        code = code == PAWL_OK || code == PAWL_LOST ? PAWL_TIMEOUT : code;
                }
                (void)pawl_release(gate);
        }
        if (code == PAWL_OK)
                return PAWL_OK;
        if (code == PAWL_TIMEOUT && !barrier->lock)
                return recipe_fail(why, code, "not enough have come in time");
        return recipe_fail(why, PAWL_IN_DOUBT,
                           "not enough have come in time, as far as is known: the others may count us");
}

static int wait_for_gate(pawl_barrier *barrier, int64_t deadline, const struct pawl_barrier_options *options)
{
        struct recipe_pause pause = {.client = barrier->client, .deadline = deadline};
        uint64_t mine = pawl_token(barrier->lock);
        bool yes = false, opened;
        int code;

        for (;;) {
                opened = false;
                code = read_gate(barrier, &barrier->through);
                if (code == PAWL_OK) /* who was asleep past its lease was not counted when the gate was opened */
                        code = pawl_check(barrier->lock);
                if (code == PAWL_OK && barrier->through >= mine)
                        return PAWL_OK;
                if (code == PAWL_OK)
                        code = enough(barrier, barrier->through, &yes);
                if (code != PAWL_OK)
                        return explain(barrier, code, options->why);
                if (yes && (code = open_gate(barrier, options->why, &opened)) != PAWL_OK)
                        return code;
                if (!opened && !recipe_pause(&pause))
                        return give_up(barrier, options->why);
        }
}

/* ---- in and out -------------------------------------------------------------------------------------------------- */

static int check(pawl_client *client, uint32_t parties, const struct pawl_barrier_options *options)
{
        if (options->flags)
                return recipe_fail(options->why, PAWL_UNSUPPORTED, "flags are not known to this version");
        if (parties < 1 || options->wait_ms < 0)
                return recipe_fail(options->why, PAWL_INVALID,
                                   "a barrier is for one or more, and its wait is not negative");
        return recipe_needs(client, PAWL_CAN_KEEP | PAWL_CAN_SHARE | PAWL_CAN_INSPECT, options->why,
                            "this engine has no shared locks, or keeps nothing beside its locks");
}

/* Nobody keeps us from a shared lock, so what takes time is the store. A claim given up while the store grants it is
 * counted by the others until it is taken back: it gets time for an answer, and leaves by the gate (give_up). */
static int enter(pawl_barrier *barrier, const struct pawl_barrier_options *options)
{
        int64_t deadline = recipe_deadline(options->wait_ms);
        bool shortly = options->wait_ms != PAWL_FOREVER && options->wait_ms < GIVE_UP_MS;
        int code = pawl_acquire(barrier->client, barrier->name,
                                PAWL_LOCK(.mode = PAWL_SHARED, .wait_ms = shortly ? GIVE_UP_MS : options->wait_ms,
                                          .ttl_ms = options->ttl_ms, .why = options->why),
                                &barrier->lock);

        if (code == PAWL_TIMEOUT)
                return recipe_fail(options->why, PAWL_IN_DOUBT,
                                   "no answer of the store in time: the others may count us");
        return code == PAWL_OK ? wait_for_gate(barrier, deadline, options) : code;
}

int pawl_barrier_enter(pawl_client *client, const char *name, uint32_t parties,
                       const struct pawl_barrier_options *theirs, pawl_barrier **out)
{
        struct pawl_barrier_options options;
        pawl_barrier *barrier;
        int code = RECIPE_OPTIONS(&options, theirs, "PAWL_BARRIER");

        if (code == PAWL_OK && !out)
                code = recipe_fail(options.why, PAWL_INVALID, "there is no place for the barrier: it is NULL");
        if (code == PAWL_OK)
                code = check(client, parties, &options);
        if (code != PAWL_OK)
                return code;
        barrier = calloc(1, sizeof(*barrier));
        if (!barrier)
                return recipe_fail(options.why, PAWL_NO_MEMORY, pawl_strerror(PAWL_NO_MEMORY));
        barrier->client = client;
        barrier->parties = parties;
        barrier->ttl_ms = options.ttl_ms;
        code = recipe_name("barrier", name, barrier->name, options.why);
        if (code == PAWL_OK)
                code = recipe_name("gate", name, barrier->gate, options.why);
        if (code == PAWL_OK)
                code = enter(barrier, &options);
        if (code == PAWL_OK) {
                *out = barrier;
        } else {
                (void)pawl_release(barrier->lock);
                free(barrier);
        }
        return code;
}

/* Those of our round who are still inside. */
static int count_inside(const pawl_barrier *barrier, size_t *inside)
{
        struct crowd crowd = {0};
        int code = look_around(barrier, &crowd);

        *inside = 0;
        for (size_t i = 0; i < crowd.count; i++)
                *inside += crowd.tokens[i] <= barrier->through;
        free(crowd.tokens);
        return code;
}

int pawl_barrier_leave(pawl_barrier *barrier, int64_t wait_ms)
{
        struct recipe_pause pause = {.deadline = recipe_deadline(wait_ms)};
        size_t inside = 0;
        int code, seen = PAWL_OK;

        if (!barrier)
                return PAWL_OK;
        pause.client = barrier->client;
        code = pawl_release(barrier->lock);
        while (wait_ms != PAWL_NO_WAIT && (seen = count_inside(barrier, &inside)) == PAWL_OK && inside) {
                if (!recipe_pause(&pause)) {
                        seen = PAWL_TIMEOUT;
                        break;
                }
        }
        free(barrier);
        return code != PAWL_OK ? code : seen;
}

int pawl_barrier_check(pawl_barrier *barrier)
{
        return barrier ? pawl_check(barrier->lock) : PAWL_INVALID;
}
