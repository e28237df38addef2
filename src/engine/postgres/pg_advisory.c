/* pg_advisory.c - ?mode=advisory: acquire, cancel, renew, release on locks of the server's sessions. What is free is
 * had at once, by one statement on a session that has many; what is not waits in the server's queue: pg_slot.c. */
#include <stdlib.h>

#include "advisory.h"

enum { CONNECTIONS = 32, CONNECTIONS_MAX = 10000, FAILURES_MAX = 3 };
#define TRY_AGAIN_AFTER (100 * MS)

static struct hold *hold_of_ask(struct ask *ask)
{
        return container_of(ask, struct hold, ask);
}

static const struct engine_host *host_of(const struct hold *hold)
{
        return hold->advisory->postgres->engine.host;
}

/* ---- known and forgotten ----------------------------------------------------------------------------------------- */

static void hold_forget(struct hold *hold)
{
        session_leave(hold);
        list_remove(&hold->listed);
        place_leave(hold->place);
}

void hold_refuse(struct hold *hold, int code, const char *why)
{
        hold_forget(hold);
        host_of(hold)->events->refused(host_of(hold)->core, hold->claim, code, why);
}

static void hold_released(struct hold *hold, int code)
{
        hold_forget(hold);
        host_of(hold)->events->released(host_of(hold)->core, hold->claim, code);
}

void hold_lost(struct hold *hold)
{
        if (hold->state == RELEASING) {
                hold_released(hold, PAWL_IN_DOUBT);
                return;
        }
        hold_forget(hold);
        host_of(hold)->events->gone(host_of(hold)->core, hold->claim, PAWL_REASON_SESSION);
}

static void hold_granted(struct hold *hold, uint64_t token, int64_t sent_at)
{
        struct grant grant = {.token = token, .sent_at = sent_at};

        hold->state = HELD;
        host_of(hold)->events->granted(host_of(hold)->core, hold->claim, &grant);
}

static void hold_park(struct hold *hold)
{
        hold->state = PARKED;
        list_remove(&hold->listed);
        list_append(&hold->advisory->parked, &hold->listed);
}

static void hold_wait(struct hold *hold, bool first)
{
        struct advisory *advisory = hold->advisory;

        line_enter(hold, first);
        sessions_feed(advisory);
}

/* ---- giving back ------------------------------------------------------------------------------------------------- */

static int write_give(struct ask *ask, struct wire *wire)
{
        const struct hold *hold = hold_of_ask(ask);
        struct values values = {.count = 0};

        value_number(&values, hold->place->key);
        return wire_send(wire, ask, is_shared(hold) ? SQL_ADVISORY_GIVE_SHARED : SQL_ADVISORY_GIVE, &values);
}

static void give_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why);

/* The connection broke: the lock ends with its session, as soon as the server has noticed. That may take as long as the
 * ttl, so it is not said to be free. */
static void give(struct hold *hold)
{
        hold->ask.write = write_give;
        hold->ask.answered = give_answered;
        if (wire_ask(&hold->session->wire, &hold->ask) == PAWL_OK)
                return;
        if (hold->state == RELEASING)
                hold_released(hold, PAWL_IN_DOUBT);
        else
                hold_refuse(hold, PAWL_CANCELLED, NULL);
}

static void give_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct hold *hold = hold_of_ask(ask);
        struct wire *wire = &hold->session->wire;

        if (why && wire_ready(wire) && ++hold->failures < FAILURES_MAX) {
                give(hold);
                return;
        }
        if (why && wire_ready(wire)) /* what cannot be given back goes with its session */
                wire_fail(wire, why->code, "%s", why->text);
        if (hold->state != RELEASING)
                hold_refuse(hold, PAWL_CANCELLED, NULL);
        else if (why)
                hold_released(hold, PAWL_IN_DOUBT);
        else /* what failed before may have done it: to unlock is not undone with its transaction */
                hold_released(hold, row_bool(rows, 0, 0) || hold->failures > 0 ? PAWL_OK : PAWL_LOST);
}

/* It was cancelled, and came all the same: refused when nothing is left of it. */
static void give_back(struct hold *hold)
{
        hold->state = CANCELLING;
        give(hold);
}

void advisory_release(struct engine *engine, struct claim *claim)
{
        struct hold *hold = hold_of(claim);

        (void)engine;
        list_remove(&hold->renewing);
        hold->state = RELEASING;
        if (hold->place->leaving)
                list_append(&hold->place->giving, &hold->renewing); /* who left before must not get it now */
        else
                give(hold);
}

void hold_give_all(struct place *place)
{
        struct list giving;

        list_init(&giving);
        list_splice(&giving, &place->giving);
        while (!list_empty(&giving)) {
                struct hold *hold = list_first(&giving, struct hold, renewing);

                list_remove(&hold->renewing);
                give(hold);
        }
}

/* ---- acquire ----------------------------------------------------------------------------------------------------- */

static int write_take(struct ask *ask, struct wire *wire)
{
        const struct hold *hold = hold_of_ask(ask);
        struct values values = {.count = 0};

        value_number(&values, hold->place->key);
        return wire_send(wire, ask, is_shared(hold) ? SQL_ADVISORY_TAKE_SHARED : SQL_ADVISORY_TAKE, &values);
}

static int write_begin(struct ask *ask, struct wire *wire)
{
        const struct hold *hold = hold_of_ask(ask);
        struct values values = {.count = 0};

        value_text(&values, hold->place->name);
        value_bool(&values, is_shared(hold));
        value_timeout(&values, hold->session->set_ttl);
        return wire_send(wire, ask, SQL_ADVISORY_BEGIN, &values);
}

/* Nobody knows what the server did. With the connection gone that does not matter: nothing outlives its session. */
static void take_failed(struct hold *hold, struct session *session, const struct pawl_why *why)
{
        struct advisory *advisory = hold->advisory;
        bool lives = wire_ready(&session->wire);

        session_leave(hold);
        if (lives)
                session_unlock(session, hold->place, hold->claim->mode);
        if (hold->cancelled) {
                hold_refuse(hold, PAWL_CANCELLED, NULL);
        } else if (!lives) {
                hold_park(hold);
        } else if (error_passes(why) && advisory_now(advisory) - hold->tried_at < advisory->postgres->timeout) {
                hold_park(hold);
                sessions_later(advisory, TRY_AGAIN_AFTER);
        } else {
                hold_refuse(hold, why->code, why->text);
        }
}

static void not_free(struct hold *hold)
{
        session_leave(hold);
        if (hold->cancelled)
                hold_refuse(hold, PAWL_CANCELLED, NULL);
        else if (hold->claim->wait)
                line_enter(hold, true);
        else
                hold_refuse(hold, PAWL_BUSY, NULL);
}

static void take_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct hold *hold = hold_of_ask(ask);
        struct session *session = hold->session;
        struct place *place = hold->place;
        struct advisory *advisory = hold->advisory;
        uint64_t token = why ? 0 : (uint64_t)row_number(rows, 0, 0);

        if (place->trier == hold)
                place->trier = NULL;
        if (hold->sets)
                session_has_set(session, !why);
        if (!why && hold->sets) {
                place->key = row_number(rows, 0, 1);
                place->epoch = advisory->epoch;
        }
        place_hungers(place);
        if (why)
                take_failed(hold, session, why);
        else if (token == 0)
                not_free(hold);
        else if (hold->cancelled)
                give_back(hold);
        else
                hold_granted(hold, token, ask->sent_at);
        if (!list_empty(&advisory->hungry))
                sessions_feed(advisory);
}

static void not_tried(struct hold *hold, int code)
{
        struct session *session = hold->session;

        if (hold->place->trier == hold)
                hold->place->trier = NULL;
        if (hold->sets)
                session_has_set(session, false);
        session_leave(hold);
        if (code == PAWL_NO_MEMORY)
                hold_refuse(hold, code, NULL);
        else
                hold_park(hold);
}

/* Is it free? */
void hold_try(struct hold *hold)
{
        struct session *session;
        int code = session_for(hold, &session);

        if (code == PAWL_UNREACHABLE) {
                hold_park(hold);
                return;
        }
        if (code == PAWL_FULL && hold->claim->wait) {
                line_enter(hold, hold->lined);
                return;
        }
        if (code == PAWL_FULL) {
                hold_refuse(
                        hold, PAWL_FULL,
                        "each of this client's connections has the lock already: connections= in the URL allows more");
                return;
        }
        hold->sets = session_must_set(session, hold) || !place_has_key(hold->place);
        session_enter(session, hold);
        if (hold->sets)
                session_sets(session, session->needed);
        if (hold->claim->wait)
                hold->place->trier = hold;
        hold->state = ASKING;
        hold->ask.write = hold->sets ? write_begin : write_take;
        hold->ask.answered = take_answered;
        code = wire_ask(&session->wire, &hold->ask);
        if (code != PAWL_OK)
                not_tried(hold, code);
}

/* Who comes later does not overtake those of ours who wait. */
void hold_start(struct hold *hold)
{
        const struct place *place = hold->place;
        bool wait = hold->claim->wait;

        if (hold->lined)
                hold_wait(hold, true);
        else if (wait && (place->trier || !list_empty(&place->waiting) || place_is_taken(place, hold)))
                hold_wait(hold, false);
        else if (!list_empty(&place->waiting) || place_is_taken(place, hold))
                hold_refuse(hold, PAWL_BUSY, NULL);
        else
                hold_try(hold);
}

void advisory_acquire(struct engine *engine, struct claim *claim)
{
        struct postgres *postgres = postgres_of(engine);
        const struct engine_host *host = engine->host;
        struct hold *hold = hold_of(claim);

        hold->claim = claim;
        hold->advisory = postgres->advisory;
        hold->place = place_get(postgres->advisory, claim->name);
        if (!hold->place) {
                host->events->refused(host->core, claim, PAWL_NO_MEMORY, NULL);
                return;
        }
        list_init(&hold->listed);
        list_init(&hold->user);
        list_init(&hold->renewing);
        list_init(&hold->ask.listed);
        hold->tried_at = postgres_now(postgres);
        postgres_bound(postgres, claim->ttl);
        hold_start(hold);
}

/* ---- after a wait ------------------------------------------------------------------------------------------------ */

static int write_confirm(struct ask *ask, struct wire *wire)
{
        struct values values = {.count = 0};

        value_timeout(&values, hold_of_ask(ask)->session->set_ttl);
        return wire_send(wire, ask, SQL_ADVISORY_SET, &values);
}

static void confirm_failed(struct hold *hold, struct session *session, const struct pawl_why *why)
{
        bool lives = wire_ready(&session->wire);

        session_leave(hold);
        if (lives)
                session_unlock(session, hold->place, hold->claim->mode);
        if (hold->cancelled)
                hold_refuse(hold, PAWL_CANCELLED, NULL);
        else if (lives && !error_passes(why))
                hold_refuse(hold, why->code, why->text);
        else
                hold_wait(hold, true);
}

static void confirmed(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct hold *hold = hold_of_ask(ask);

        (void)rows;
        session_has_set(hold->session, !why);
        if (why)
                confirm_failed(hold, hold->session, why);
        else if (hold->cancelled)
                give_back(hold);
        else
                hold_granted(hold, hold->token, ask->sent_at);
}

/* The server counts from when it granted it, which may be long after it was asked, and long before we hear of it: we
 * may have been stopped. Where both were a moment ago that does not matter; else it is asked to count again. */
void hold_confirm(struct hold *hold, struct session *session, uint64_t token, int64_t sent_at)
{
        struct pawl_why why = {.code = PAWL_UNREACHABLE};
        bool sets = session_must_set(session, hold);

        session_enter(session, hold);
        hold->token = token;
        if (!sets && advisory_now(hold->advisory) - sent_at < hold->claim->ttl / 6) {
                hold_granted(hold, token, sent_at);
                return;
        }
        hold->state = CONFIRMING;
        hold->ask.write = write_confirm;
        hold->ask.answered = confirmed;
        session_sets(session, session->needed);
        if (wire_ask(&session->wire, &hold->ask) != PAWL_OK)
                confirmed(&hold->ask, NULL, &why);
}

/* ---- cancel, renew ----------------------------------------------------------------------------------------------- */

/* What waits in the server's queue is not answered before it has the lock. But no claim gets there before the first of ours
 * for its name was answered: that one is the trier. */
int advisory_overdue(struct engine *engine, const struct claim *claim, struct pawl_why *why)
{
        struct advisory *advisory = postgres_of(engine)->advisory;
        const struct hold *hold = hold_of(claim);
        bool connected = session_other(advisory, NULL) != NULL;
        const struct pawl_why *last = NULL;

        if (connected && hold->state == WAITING && !hold->place->trier)
                return PAWL_TIMEOUT;
        if (!connected && !list_empty(&advisory->sessions))
                last = &list_first(&advisory->sessions, struct session, listed)->wire.why;
        return engine_silent(why, advisory->postgres->where, advisory_now(advisory) - hold->tried_at, last);
}

void advisory_cancel(struct engine *engine, struct claim *claim)
{
        struct hold *hold = hold_of(claim);
        struct place *place = hold->place;
        uint32_t mode = claim->mode;

        (void)engine;
        switch ((enum claim_state)hold->state) {
        case PARKED:
                hold_refuse(hold, PAWL_CANCELLED, NULL);
                return;
        case ASKING:
        case CONFIRMING:
                hold->cancelled = true; /* when the answer is there */
                return;
        case WAITING:
                line_leave(hold);
                hold->state = CANCELLING;
                if (place->standing[mode] > place->waiters[mode])
                        slot_call_off(place, mode, hold);
                else
                        hold_refuse(hold, PAWL_CANCELLED, NULL);
                return;
        default:
                return;
        }
}

/* One statement for each session, however many it has. */
void advisory_renew(struct engine *engine, struct claim *const *claims, size_t n)
{
        struct advisory *advisory = postgres_of(engine)->advisory;

        for (size_t i = 0; i < n; i++) {
                struct hold *hold = hold_of(claims[i]);

                list_remove(&hold->renewing);
                list_append(&hold->session->to_touch, &hold->renewing);
        }
        for (struct list *at = advisory->sessions.next; at != &advisory->sessions; at = at->next) {
                struct session *session = container_of(at, struct session, listed);

                if (!list_empty(&session->to_touch))
                        session_renew(session);
        }
}

/* ---- bytes beside a lock ------------------------------------------------------------------------------------------ */

struct wire *advisory_wire(struct postgres *postgres)
{
        struct session *session = session_other(postgres->advisory, NULL);

        return session ? &session->wire : NULL;
}

void advisory_want(struct postgres *postgres)
{
        sessions_grow(postgres->advisory, 1);
}

struct wire *advisory_wire_of(const struct claim *claim)
{
        const struct hold *hold = hold_of(claim);

        return hold->session && is_held(hold) ? &hold->session->wire : NULL;
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static int read_connections(struct advisory *advisory, const struct url *url, struct pawl_why *why)
{
        int64_t number = CONNECTIONS;
        int code = url_number(url, "connections", 2, CONNECTIONS_MAX, &number, why);

        advisory->limit = (uint32_t)number;
        return code;
}

int advisory_open(struct postgres *postgres, const struct url *url, struct pawl_why *why)
{
        struct advisory *advisory = calloc(1, sizeof(*advisory));
        int code;

        if (!advisory)
                return why_set(why, PAWL_NO_MEMORY, "no memory to open the PostgreSQL engine");
        advisory->postgres = postgres;
        if (sessions_open(advisory) != 0 || table_init(&advisory->places) != PAWL_OK) {
                sessions_close(advisory);
                free(advisory);
                return why_set(why, PAWL_NO_MEMORY, "no memory to open the PostgreSQL engine");
        }
        postgres->advisory = advisory;
        code = read_connections(advisory, url, why);
        postgres->engine.claim_size = sizeof(struct hold);
        postgres->engine.capabilities =
                PAWL_CAN_SHARE | PAWL_CAN_QUEUE | PAWL_SEES_DEATH | PAWL_TOKEN_DURABLE | PAWL_CAN_KEEP;
        return code;
}

void advisory_close(struct postgres *postgres)
{
        struct advisory *advisory = postgres->advisory;

        if (!advisory)
                return;
        sessions_close(advisory);
        places_free(advisory);
        free(advisory);
        postgres->advisory = NULL;
}
