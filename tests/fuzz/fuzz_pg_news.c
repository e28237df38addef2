/* fuzz_pg_news.c - any bytes as what the PostgreSQL engine is told: the payload of a NOTIFY, which everybody in the database
 * may send, the values of rows, and words for leases. Whatever comes it must not crash, grant only what is asked for and
 * named, and heed no uid that it does not know. There is no server: a request counts as sent when the input says so.
 *
 * An input is a byte (odd: we may use the tables, so the short statements are used), then lines. A line is a letter, the
 * number of a claim and the rest:
 *
 *   q acquire    c cancel    f release    d adopt REST    s what is parked is sent    t REST ms pass
 *   n NOTIFY REST    a answered with the rows REST (, between values, ; between rows)    e answered with an error */
#include <stdbool.h>
#include <string.h>

#include "base/name.h"
#include "engine/postgres/postgres.h"
#include "fuzz.h"

enum { CLAIMS = 4, INPUT_MAX = 4096, COLUMNS_MAX = 8 };

extern const struct engine_ops postgres_engine;

/*   FREE --> ASKED --> OURS --> GIVEN --> FREE */
enum stage { FREE, ASKED, OURS, GIVEN };

/* A claim, and what the core would know of it. */
struct owned {
        struct claim claim;
        char name[PAWL_NAME_MAX + 1];
        enum stage stage;
};

struct world {
        struct loop loop;
        struct engine_host host;
        struct postgres *postgres;
        struct owned claims[CLAIMS];
        int64_t now;
        uint64_t attempts;
        /* The line being told. */
        char letter;
        const struct owned *answered; /* whose answer it is; NULL: nobody's */
        const char *text;
};

/* ---- what the engine may say ------------------------------------------------------------------------------------- */

static struct owned *owned_of(struct claim *claim)
{
        return container_of(claim, struct owned, claim);
}

/* Does the line name this claim? Rows may have dashes in their uids. */
static bool is_named(const struct world *world, const struct owned *owned)
{
        char uid[33], plain[INPUT_MAX + 1];
        size_t length = 0;

        uid_text(owned->claim.uid, uid);
        for (const char *c = world->text; *c; c++)
                if (*c != '-')
                        plain[length++] = *c;
        plain[length] = '\0';
        return strstr(plain, uid) != NULL;
}

static void on_granted(void *core, struct claim *claim, const struct grant *grant)
{
        const struct world *world = core;
        struct owned *owned = owned_of(claim);

        MUST(owned->stage == ASKED);
        MUST(grant->token > 0 && grant->token <= INT64_MAX);
        MUST(grant->sent_at <= world->now);
        MUST(owned == world->answered || is_named(world, owned));
        MUST(world->letter == 'a' || (world->letter == 'n' && strncmp(world->text, "granted ", 8) == 0));
        owned->stage = OURS;
}

static void on_refused(void *core, struct claim *claim, int code, const char *why)
{
        (void)core;
        MUST(owned_of(claim)->stage == ASKED && code > PAWL_OK && (!why || *why));
        owned_of(claim)->stage = FREE;
}

static void on_released(void *core, struct claim *claim, int code)
{
        (void)core;
        MUST(owned_of(claim)->stage == GIVEN);
        MUST(code == PAWL_OK || code == PAWL_LOST || code == PAWL_IN_DOUBT);
        owned_of(claim)->stage = FREE;
}

static void on_gone(void *core, struct claim *claim, int reason)
{
        const struct world *world = core;

        MUST(owned_of(claim)->stage == OURS && reason == PAWL_REASON_BROKEN);
        MUST(world->letter == 'n' && strncmp(world->text, "broken ", 7) == 0 && is_named(world, owned_of(claim)));
        owned_of(claim)->stage = FREE;
}

static void on_asked(void *core, struct claim *claim)
{
        const struct world *world = core;

        MUST(owned_of(claim)->stage == OURS);
        MUST(world->letter == 'n' && strncmp(world->text, "asked ", 6) == 0 && is_named(world, owned_of(claim)));
}

static const struct engine_events events = {
        .granted = on_granted,
        .refused = on_refused,
        .released = on_released,
        .gone = on_gone,
        .asked = on_asked,
};

/* ---- the world --------------------------------------------------------------------------------------------------- */

static int64_t now_of(void *arg)
{
        return ((const struct world *)arg)->now;
}

static void no_chance(void *arg, void *bytes, size_t size)
{
        (void)arg;
        memset(bytes, 7, size);
}

static void world_open(struct world *world, bool fast)
{
        const struct loop_source source = {.now = now_of, .random = no_chance, .arg = world};
        struct engine *engine = calloc(1, postgres_engine.size);
        struct url *url = NULL;

        *world = (struct world){.now = 1000 * SECOND, .text = ""};
        MUST(engine != NULL && loop_init(&world->loop, &source) == 0);
        world->host = (struct engine_host){.loop = &world->loop, .events = &events, .core = world, .owner = "fuzz"};
        *engine = (struct engine){
                .ops = &postgres_engine, .host = &world->host, .claim_size = postgres_engine.claim_size};
        MUST(url_parse("postgres://u@127.0.0.1/d", &url, NULL) == PAWL_OK);
        MUST(postgres_engine.open(engine, url, NULL) == PAWL_OK);
        url_free(url);
        world->postgres = postgres_of(engine);
        world->postgres->wire.fast = fast;
        /* It is always just before connecting again: nothing is sent, everything is parked. */
        MUST(loop_set(&world->loop, &world->postgres->wire.again, NEVER - 1) == 0);
        for (size_t i = 0; i < CLAIMS; i++) {
                world->claims[i].claim.part = calloc(1, engine->claim_size);
                MUST(world->claims[i].claim.part != NULL);
        }
}

static void world_close(struct world *world)
{
        postgres_engine.close(&world->postgres->engine);
        free(world->postgres);
        for (size_t i = 0; i < CLAIMS; i++)
                free(world->claims[i].claim.part);
        loop_close(&world->loop);
}

/* ---- what the core asks for -------------------------------------------------------------------------------------- */

static void prepare(struct world *world, struct owned *owned, const char *name, int64_t ttl)
{
        void *part = owned->claim.part;
        bool second = owned == &world->claims[1];

        memset(part, 0, world->postgres->engine.claim_size);
        snprintf(owned->name, sizeof(owned->name), "%s", name);
        owned->claim = (struct claim){.name = owned->name,
                                      .name_length = strlen(owned->name),
                                      .uid = {1, ++world->attempts},
                                      .ttl = ttl,
                                      .mode = second ? PAWL_SHARED : PAWL_EXCLUSIVE,
                                      .wait = owned != &world->claims[3],
                                      .note = "",
                                      .part = part};
        owned->stage = ASKED;
}

static void acquire(struct world *world, struct owned *owned)
{
        if (owned->stage != FREE)
                return;
        prepare(world, owned, owned == &world->claims[2] ? "b" : "a", 10 * SECOND);
        postgres_engine.acquire(&world->postgres->engine, &owned->claim);
}

static void adopt(struct world *world, struct owned *owned, const char *word)
{
        struct engine *engine = &world->postgres->engine;
        char name[PAWL_NAME_MAX + 1];
        struct pawl_why why = {0};
        int64_t ttl = 0;
        size_t length;

        if (postgres_leases.read(engine, word, name, &ttl, &why) != PAWL_OK) {
                MUST(why.code == PAWL_INVALID && why.text[0]);
                return;
        }
        MUST(name_check(name, &length, NULL) == PAWL_OK && ttl >= 50 * MS);
        if (owned->stage != FREE)
                return;
        prepare(world, owned, name, ttl);
        postgres_leases.adopt(engine, &owned->claim, word);
}

static void release(struct world *world, struct owned *owned)
{
        if (owned->stage != OURS)
                return;
        owned->stage = GIVEN;
        postgres_engine.release(&world->postgres->engine, &owned->claim);
}

/* ---- what the server would do ------------------------------------------------------------------------------------ */

/* As if the connection had been there: each waits for its answer now. */
static void send_parked(struct world *world)
{
        struct list *parked = &world->postgres->parked;

        while (!list_empty(parked)) {
                struct part *part = list_first(parked, struct part, listed);

                list_remove(&part->listed);
                part->state = part->want;
                part->ask.sent_at = world->now;
        }
}

static bool is_sent(const struct part *part)
{
        return part->known && part->state != PARKED && part->state != WAITING && part->state != HELD;
}

/* All rows have as many columns as the first. */
static PGresult *rows_of(char *text)
{
        PGresult *rows = PQmakeEmptyPGresult(NULL, PGRES_TUPLES_OK);
        PGresAttDesc columns[COLUMNS_MAX];
        char *row, *value, *rest = text;
        int count = 1;

        for (const char *c = text; *c && *c != ';' && count < COLUMNS_MAX; c++)
                count += *c == ',';
        memset(columns, 0, sizeof(columns));
        for (int i = 0; i < count; i++)
                columns[i].name = text;
        MUST(rows != NULL && PQsetResultAttrs(rows, count, columns));
        for (int i = 0; *text && (row = strsep(&rest, ";")) != NULL; i++)
                for (int j = 0; j < count; j++) {
                        value = strsep(&row, ",");
                        MUST(PQsetvalue(rows, i, j, value, value ? (int)strlen(value) : -1));
                }
        return rows;
}

static void answer(struct world *world, struct owned *owned, const char *text)
{
        struct part *part = owned->claim.part;
        char *copy = strdup(text);
        PGresult *rows;

        MUST(copy != NULL);
        if (is_sent(part)) {
                rows = rows_of(copy);
                world->answered = owned;
                part->ask.answered(&part->ask, rows, NULL);
                PQclear(rows);
        }
        free(copy);
}

static void fail(struct owned *owned)
{
        const struct pawl_why why = {.code = PAWL_UNREACHABLE, .text = "fuzz"};
        struct part *part = owned->claim.part;

        if (is_sent(part))
                part->ask.answered(&part->ask, NULL, &why);
}

/* ---- one run ----------------------------------------------------------------------------------------------------- */

static void pass_time(struct world *world, const char *text)
{
        long ms = strtol(text, NULL, 10);

        if (ms > 0 && ms < 1000000)
                world->now += ms * MS;
}

static void tell(struct world *world, const char *line)
{
        struct owned *owned = &world->claims[line[0] && line[1] ? (unsigned char)line[1] % CLAIMS : 0];

        world->letter = line[0];
        world->text = line[0] && line[1] ? line + 2 : "";
        world->answered = NULL;
        switch (line[0]) {
        case 'q':
                acquire(world, owned);
                break;
        case 'c':
                if (owned->stage == ASKED)
                        postgres_engine.cancel(&world->postgres->engine, &owned->claim);
                break;
        case 'f':
                release(world, owned);
                break;
        case 'd':
                adopt(world, owned, world->text);
                break;
        case 's':
                send_parked(world);
                break;
        case 't':
                pass_time(world, world->text);
                break;
        case 'n':
                world->postgres->wire.events->told(&world->postgres->wire, world->text);
                break;
        case 'a':
                answer(world, owned, world->text);
                break;
        case 'e':
                fail(owned);
                break;
        default:
                break;
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct world world;
        char *text, *rest;

        if (size < 1 || size > INPUT_MAX)
                return 0;
        text = strndup((const char *)data + 1, size - 1);
        MUST(text != NULL);
        world_open(&world, data[0] & 1);
        rest = text;
        for (char *line; (line = strsep(&rest, "\n")) != NULL;)
                tell(&world, line);
        world_close(&world);
        free(text);
        return 0;
}
