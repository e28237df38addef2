/* pg_examine.c - asks a server about itself, for pawl doctor, on a connection of its own that says nothing else:
 * neither settings nor a schema are made, and nothing of the schema is run. One statement: what is set, what we may do,
 * whose the schema is and which version it has. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pg_examine.h"

static const char *const fact_names[FACTS] = {
        [VERSION] = "version",
        [PID] = "pid",
        [STANDBY] = "standby",
        [READ_ONLY] = "read only",
        [CLOCK] = "clock",
        [FSYNC] = "fsync",
        [FULL_PAGES] = "full_page_writes",
        [SYNCHRONOUS_COMMIT] = "synchronous_commit",
        [STANDBYS] = "standbys",
        [SYNCHRONOUS_STANDBYS] = "synchronous standbys",
        [UNKNOWN_STANDBYS] = "unknown standbys",
        [STANDBY_NAMES] = "synchronous_standby_names",
        [IDLE_TIMEOUT] = "idle_session_timeout",
        [STATEMENT_TIMEOUT] = "statement_timeout",
        [LOCK_TIMEOUT] = "lock_timeout",
        [ISOLATION] = "default_transaction_isolation",
        [KEEPALIVE] = "tcp_keepalives_idle",
        [MAX_CONNECTIONS] = "max_connections",
        [RESERVED] = "reserved",
        [CONNECTIONS_NOW] = "connections",
        [AUTOVACUUM] = "autovacuum",
        [SUPERUSER] = "superuser",
        [ROLE] = "role",
        [DATABASE] = "database",
        [TLS] = "tls",
        [SCHEMA] = "schema",
        [MAY_CREATE] = "may create",
        [MAY_USE] = "may use",
        [FUNCTIONS] = "functions",
        [REFUSED_FUNCTIONS] = "refused functions",
        [MAY_WRITE] = "may write",
        [MAY_COUNT] = "may count",
        [MAY_CHANGE] = "may change",
        [OWNER] = "owner",
        [SCHEMA_VERSION] = "schema version",
        [SCHEMA_SERVES] = "schema serves",
};

static struct examination *examination_of(struct ask *ask)
{
        return container_of(ask, struct examination, ask);
}

static void examination_free(struct examination *examination)
{
        list_remove(&examination->listed);
        loop_unset(examination->postgres->engine.host->loop, &examination->over);
        wire_close(&examination->wire);
        free(examination);
}

static void over_due(struct timer *timer)
{
        examination_free(container_of(timer, struct examination, over));
}

/* Its connection may be in the middle of telling something. */
static void finish(struct examination *examination)
{
        struct inquiry *inquiry = examination->inquiry;
        struct loop *loop = examination->postgres->engine.host->loop;

        examination->inquiry = NULL;
        examination->wire.wanted = false;
        loop_set(loop, &examination->over, loop_now(loop)); /* moving: cannot fail */
        if (inquiry)
                inquiry->answered(inquiry, PAWL_OK, NULL);
}

/* ---- the facts --------------------------------------------------------------------------------------------------- */

static int write_facts(struct ask *ask, struct wire *wire)
{
        struct values values = {.count = 0};

        value_text(&values, wire->postgres->schema);
        value_text(&values, wire->postgres->owner);
        return wire_send(wire, ask, SQL_EXAMINE, &values);
}

static void take_fact(struct examination *examination, const char *name, const char *value)
{
        if (strcmp(name, "distrust") == 0)
                snprintf(examination->distrust, sizeof(examination->distrust), "%s", value);
        for (int fact = 0; fact < FACTS; fact++)
                if (strcmp(name, fact_names[fact]) == 0)
                        snprintf(examination->facts[fact], FACT_MAX, "%s", value);
}

/* An answer that took long says nothing about the clock. */
static void compare_clocks(struct examination *examination)
{
        int64_t took = postgres_now(examination->postgres) - examination->ask.sent_at;
        struct timespec now;

        if (!*examination->facts[CLOCK] || took > SECOND)
                return;
        clock_gettime(CLOCK_REALTIME, &now);
        examination->clock_off = strtoll(examination->facts[CLOCK], NULL, 10) -
                                 ((int64_t)now.tv_sec * 1000000 + (now.tv_nsec - took / 2) / 1000);
        examination->clock_known = true;
}

static void take_facts(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct examination *examination = examination_of(ask);

        if (why) {
                judge_absence(examination, why);
                finish(examination);
                return;
        }
        for (int row = 0; row < PQntuples(rows); row++)
                if (PQnfields(rows) > 1 && !PQgetisnull(rows, row, 1))
                        take_fact(examination, row_text(rows, row, 0), row_text(rows, row, 1));
        compare_clocks(examination);
        if (*examination->facts[SCHEMA_VERSION])
                examination->schema_version = strtoll(examination->facts[SCHEMA_VERSION], NULL, 10);
        examination->schema_serves = strtoll(examination->facts[SCHEMA_SERVES], NULL, 10);
        judge_all(examination);
        finish(examination);
}

/* ---- beginning and ending ---------------------------------------------------------------------------------------- */

static void up(struct wire *wire)
{
        struct examination *examination = container_of(wire, struct examination, wire);

        if (!examination->inquiry)
                return;
        examination->version = wire->version;
        examination->ask.write = write_facts;
        examination->ask.answered = take_facts;
        (void)!wire_ask(wire, &examination->ask); /* if it cannot be asked, the connection is lost */
}

static void down(struct wire *wire, const struct pawl_why *why, bool was_ready)
{
        struct examination *examination = container_of(wire, struct examination, wire);

        (void)was_ready;
        if (!examination->inquiry)
                return;
        judge_absence(examination, why);
        finish(examination);
}

static const struct wire_events examination_events = {.up = up, .down = down};

void examine_begin(struct engine *engine, struct inquiry *inquiry)
{
        struct postgres *postgres = postgres_of(engine);
        struct examination *examination = calloc(1, sizeof(*examination));

        if (!examination) {
                inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
                return;
        }
        examination->postgres = postgres;
        examination->inquiry = inquiry;
        examination->schema_version = -1;
        examination->over.fire = over_due;
        examination->wire.looks = true;
        list_init(&examination->ask.listed);
        list_append(&postgres->examinations, &examination->listed);
        if (loop_set(engine->host->loop, &examination->over, NEVER) != 0 ||
            wire_init(&examination->wire, postgres, &examination_events) != 0) {
                examination_free(examination);
                inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
                return;
        }
        wire_want(&examination->wire);
}

bool examine_forget(struct postgres *postgres, const struct inquiry *inquiry)
{
        for (struct list *at = postgres->examinations.next; at != &postgres->examinations; at = at->next) {
                struct examination *examination = container_of(at, struct examination, listed);

                if (examination->inquiry != inquiry)
                        continue;
                examination->inquiry = NULL;
                finish(examination);
                return true;
        }
        return false;
}

void examine_free(struct postgres *postgres)
{
        while (!list_empty(&postgres->examinations))
                examination_free(list_first(&postgres->examinations, struct examination, listed));
}
