/* pg_session.c - the sessions of ?mode=advisory: how many there are, which one is asked for what, and what is left when
 * one is lost. A session that has locks has their ttl as its idle_session_timeout: the server ends it when its client
 * has been silent for so long, and with it its locks. That is the lease; any statement renews it. */
#include <limits.h>
#include <stdlib.h>

#include "advisory.h"

/* idle_session_timeout and client_connection_check_interval. */
enum { OLDEST_SERVER = 140000 };
/* How long one that nobody needs stays connected; how long after the server refused one to ask for another. */
#define REST_AFTER (5 * SECOND)
#define GROW_PAUSE SECOND
#define LOOK_EVERY (250 * MS)
/* Those who stand in line bear with a server that is away for so many times the time limit. */
enum { PATIENCE_IN_LINE = 6, LOOKS_AT_ONCE = 16 };

static struct loop *loop_of(const struct advisory *advisory)
{
        return advisory->postgres->engine.host->loop;
}

static struct session *session_at(struct list *at)
{
        return container_of(at, struct session, listed);
}

/* The server counts in int: a longer ttl has no end there, but that of the connection. */
static int64_t ttl_of(const struct hold *hold)
{
        return hold->claim->ttl > INT_MAX * MS ? NEVER : hold->claim->ttl;
}

void value_timeout(struct values *values, int64_t ttl)
{
        value_number(values, ttl == NEVER ? 0 : (ttl + MS - 1) / MS);
}

void sessions_later(struct advisory *advisory, int64_t delay)
{
        int64_t at = advisory_now(advisory) + delay;

        if (advisory->later.at > at)
                loop_set(loop_of(advisory), &advisory->later, at); /* moving: cannot fail */
}

/* A request that gives back, with nobody to tell. */
struct undo {
        struct ask ask;
        struct list listed; /* session->undos */
        struct session *session;
        const struct place *place; /* while it is written */
        uint32_t mode;
};

/* ---- resting ----------------------------------------------------------------------------------------------------- */

/* Half of the timeout: the server must not end a session that is not needed at the moment. */
static int64_t rest_until(const struct session *session)
{
        int64_t wait = REST_AFTER;

        if (session->server_ttl != NEVER && session->server_ttl / 2 < wait)
                wait = session->server_ttl / 2;
        return session->empty_since + wait;
}

/* The timer is not moved with each request: it fires, and finds whether there was one. */
static void rest_later(struct session *session)
{
        int64_t at = rest_until(session);

        if (session->rest.at > at)
                loop_set(loop_of(session->advisory), &session->rest, at); /* moving: cannot fail */
}

void session_idles(struct session *session)
{
        session->needed = 0;
        session->empty_since = advisory_now(session->advisory);
        rest_later(session);
        if (!list_empty(&session->advisory->hungry))
                sessions_later(session->advisory, 0);
}

/* One that is about to be lost is not. */
static bool is_ready(const struct session *session)
{
        return wire_ready(&session->wire) && session->wire.failing.at == NEVER;
}

static bool is_idle(const struct session *session)
{
        return is_ready(session) && !session->place && !session->needed && list_empty(&session->wire.asked);
}

/* Closed in a turn of its own: it may be in the middle of telling something. */
static void bury(struct session *session)
{
        struct advisory *advisory = session->advisory;

        session->dead = true;
        session->wire.wanted = false;
        list_remove(&session->listed);
        list_append(&advisory->dead, &session->listed);
        advisory->count--;
        sessions_later(advisory, 0);
}

static void session_free(struct session *session)
{
        list_remove(&session->listed);
        loop_unset(loop_of(session->advisory), &session->rest);
        loop_unset(loop_of(session->advisory), &session->again);
        wire_close(&session->wire);
        while (!list_empty(&session->undos)) {
                struct undo *undo = list_first(&session->undos, struct undo, listed);

                list_remove(&undo->listed);
                free(undo);
        }
        free(session);
}

static void rest_due(struct timer *timer)
{
        struct session *session = container_of(timer, struct session, rest);
        int64_t now = advisory_now(session->advisory);

        loop_set(loop_of(session->advisory), timer, NEVER);
        if (!session->dead && is_ready(session) && !session->place && !session->needed && !is_idle(session))
                session->empty_since = now; /* it is asked something that nobody needs a lock for */
        else if (session->dead || !is_idle(session))
                return; /* it is set again when there is nothing left to do */
        if (now < rest_until(session)) {
                rest_later(session);
        } else if (now >= session->empty_since + REST_AFTER && session_other(session->advisory, session)) {
                bury(session); /* never the last that does not wait: it calls off */
        } else if (session->server_ttl != NEVER) {
                session->resets = true;
                session_renew(session);
        }
}

/* ---- which one --------------------------------------------------------------------------------------------------- */

/* Asking for a name twice on one session would succeed whoever waits. What is being given back does not count: the
 * server hears of that first. */
static bool has_name(const struct session *session, const struct place *place)
{
        for (struct list *at = place->users.next; at != &place->users; at = at->next) {
                const struct hold *user = container_of(at, struct hold, user);

                if (user->session == session && (is_held(user) || user->state != RELEASING))
                        return true;
        }
        return false;
}

static const struct wire_events session_events;
static void touch_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why);
static int write_touch(struct ask *ask, struct wire *wire);

static bool can_grow(struct advisory *advisory)
{
        if (advisory->count == 0)
                return true;
        if (advisory->count >= advisory->limit)
                return false;
        if (advisory_now(advisory) >= advisory->grow_at)
                return true;
        sessions_later(advisory, advisory->grow_at - advisory_now(advisory));
        return false;
}

static struct session *session_new(struct advisory *advisory)
{
        struct session *session = calloc(1, sizeof(*session));

        if (!session)
                return NULL;
        session->advisory = advisory;
        list_init(&session->listed);
        list_init(&session->holds);
        list_init(&session->touching);
        list_init(&session->to_touch);
        list_init(&session->undos);
        list_init(&session->slot);
        list_init(&session->touch.listed);
        list_init(&session->wait.listed);
        list_init(&session->call_off.listed);
        session->touch.write = write_touch;
        session->touch.answered = touch_answered;
        session->rest.fire = rest_due;
        session->again.fire = slot_call_off_again;
        session->server_ttl = NEVER;
        session->wire.enter = SQL_ADVISORY_ENTER;
        if (loop_set(loop_of(advisory), &session->rest, NEVER) != 0 ||
            loop_set(loop_of(advisory), &session->again, NEVER) != 0 ||
            wire_init(&session->wire, advisory->postgres, &session_events) != 0) {
                session_free(session);
                return NULL;
        }
        list_append(&advisory->sessions, &session->listed);
        advisory->count++;
        return session;
}

static bool grow(struct advisory *advisory)
{
        struct session *session = can_grow(advisory) ? session_new(advisory) : NULL;

        if (session)
                wire_want(&session->wire);
        return session != NULL;
}

/* One that connects already will do for one; and where there is none at all one is enough to begin with. */
void sessions_grow(struct advisory *advisory, uint32_t wanted)
{
        bool any = false;

        for (struct list *at = advisory->sessions.next; at != &advisory->sessions; at = at->next)
                any = any || is_ready(session_at(at));
        if (!any && wanted > 1)
                wanted = 1;
        for (struct list *at = advisory->sessions.next; at != &advisory->sessions && wanted; at = at->next)
                wanted -= !is_ready(session_at(at));
        while (wanted && grow(advisory))
                wanted--;
}

/* One with just this ttl; else one that has nothing, and may get it; else a new one. Where there can be no more it
 * shares one whose locks are kept longer: nobody gets them too early. */
int session_for(const struct hold *hold, struct session **session)
{
        struct advisory *advisory = hold->advisory;
        struct session *best = NULL;
        bool coming = false;
        bool any = false;

        for (struct list *at = advisory->sessions.next; at != &advisory->sessions; at = at->next) {
                struct session *one = session_at(at);
                bool ready = is_ready(one);

                coming = coming || !ready;
                any = any || ready;
                if (!ready || one->place || has_name(one, hold->place))
                        continue;
                if (one->needed == ttl_of(hold) || (!one->needed && one->server_ttl == ttl_of(hold))) {
                        *session = one;
                        return PAWL_OK;
                }
                if (!best || (best->needed && (!one->needed || one->needed < best->needed)))
                        best = one;
        }
        *session = best;
        if (best && !best->needed)
                return PAWL_OK;
        if (coming || grow(advisory))
                return PAWL_UNREACHABLE;
        if (best)
                return PAWL_OK;
        return any ? PAWL_FULL : PAWL_UNREACHABLE;
}

struct session *session_other(struct advisory *advisory, const struct session *session)
{
        for (struct list *at = advisory->sessions.next; at != &advisory->sessions; at = at->next)
                if (session_at(at) != session && is_ready(session_at(at)) && !session_at(at)->place)
                        return session_at(at);
        return NULL;
}

struct session *session_to_wait(struct advisory *advisory)
{
        for (struct list *at = advisory->sessions.prev; at != &advisory->sessions; at = at->prev)
                if (is_idle(session_at(at)))
                        return session_other(advisory, session_at(at)) ? session_at(at) : NULL; /* one does not wait */
        return NULL;
}

/* ---- what it has ------------------------------------------------------------------------------------------------- */

void session_enter(struct session *session, struct hold *hold)
{
        hold->session = session;
        list_remove(&hold->listed);
        list_append(&session->holds, &hold->listed);
        list_append(&hold->place->users, &hold->user);
        if (session->needed < ttl_of(hold))
                session->needed = ttl_of(hold);
}

void session_leave(struct hold *hold)
{
        struct session *session = hold->session;

        if (!session)
                return;
        hold->session = NULL;
        list_remove(&hold->listed);
        list_remove(&hold->user);
        list_remove(&hold->renewing);
        if (list_empty(&session->holds))
                session_idles(session);
}

/* Only what the server has confirmed is relied on: a request that failed took its setting back. */
bool session_must_set(const struct session *session, const struct hold *hold)
{
        if (session->sets)
                return true;
        return session->needed ? session->server_ttl < ttl_of(hold) : session->server_ttl != ttl_of(hold);
}

void session_sets(struct session *session, int64_t ttl)
{
        session->sets++;
        session->set_ttl = ttl;
}

void session_has_set(struct session *session, bool done)
{
        session->sets--;
        session->server_ttl = done ? session->set_ttl : 0;
}

/* ---- giving back what nobody was told of ------------------------------------------------------------------------- */

int write_unlock(struct wire *wire, struct ask *ask, const struct place *place, uint32_t mode)
{
        struct values values = {.count = 0};

        value_text(&values, place->name);
        value_bool(&values, mode == PAWL_SHARED);
        return wire_send(wire, ask, SQL_ADVISORY_UNDO, &values);
}

static int write_undo(struct ask *ask, struct wire *wire)
{
        const struct undo *undo = container_of(ask, struct undo, ask);

        return write_unlock(wire, ask, undo->place, undo->mode);
}

/* What cannot be given back goes with the session. */
static void undone(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct undo *undo = container_of(ask, struct undo, ask);

        (void)rows;
        list_remove(&undo->listed);
        if (why)
                wire_fail(&undo->session->wire, why->code, "%s", why->text);
        free(undo);
}

void session_unlock(struct session *session, const struct place *place, uint32_t mode)
{
        struct undo *undo = calloc(1, sizeof(*undo));

        if (!undo) {
                wire_fail(&session->wire, PAWL_NO_MEMORY, "%s: no memory", session->advisory->postgres->where);
                return;
        }
        *undo = (struct undo){.session = session, .place = place, .mode = mode};
        undo->ask.write = write_undo;
        undo->ask.answered = undone;
        list_append(&session->undos, &undo->listed);
        if (wire_ask(&session->wire, &undo->ask) == PAWL_OK)
                return;
        list_remove(&undo->listed);
        free(undo); /* the connection is being lost */
}

/* ---- renewing: one statement for all ----------------------------------------------------------------------------- */

static int write_touch(struct ask *ask, struct wire *wire)
{
        struct session *session = container_of(ask, struct session, touch);
        struct values values = {.count = 0};

        if (!session->resets)
                return wire_send(wire, ask, SQL_ADVISORY_TOUCH, &values);
        value_timeout(&values, NEVER);
        return wire_send(wire, ask, SQL_ADVISORY_SET, &values);
}

static void tell_renewed(struct list *holds, int code, int64_t sent_at)
{
        while (!list_empty(holds)) {
                struct hold *hold = list_first(holds, struct hold, renewing);
                const struct engine_host *host = hold->advisory->postgres->engine.host;

                list_remove(&hold->renewing);
                host->events->renewed(host->core, hold->claim, code, sent_at);
        }
}

static void touch_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct session *session = container_of(ask, struct session, touch);
        struct list holds;

        (void)rows;
        list_init(&holds);
        list_splice(&holds, &session->touching);
        if (session->resets)
                session_has_set(session, !why);
        session->resets = false;
        tell_renewed(&holds, why ? why->code : PAWL_OK, why ? 0 : ask->sent_at);
        if (!list_empty(&session->to_touch))
                session_renew(session);
        if (!session->needed && !session->place)
                rest_later(session);
}

void session_renew(struct session *session)
{
        int code;

        if (!list_empty(&session->touch.listed))
                return; /* the next one, when that is answered */
        list_splice(&session->touching, &session->to_touch);
        if (session->resets)
                session_sets(session, NEVER);
        code = wire_ask(&session->wire, &session->touch);
        if (code == PAWL_OK)
                return;
        if (session->resets)
                session_has_set(session, false);
        session->resets = false;
        tell_renewed(&session->touching, code, 0);
}

/* ---- feeding ----------------------------------------------------------------------------------------------------- */

/* A place that has lost its number asks for it with the claim that is first in line. */
static struct place *without_key(const struct advisory *advisory)
{
        for (struct list *at = advisory->hungry.next; at != &advisory->hungry; at = at->next) {
                struct place *place = container_of(at, struct place, hungry);

                if (!place->trier && !place_has_key(place))
                        return place;
        }
        return NULL;
}

static struct place *next_place(const struct advisory *advisory)
{
        for (struct list *at = advisory->hungry.next; at != &advisory->hungry; at = at->next) {
                struct place *place = container_of(at, struct place, hungry);

                if (!place->trier && place_has_key(place))
                        return place;
        }
        return NULL;
}

static bool try_first(struct place *place)
{
        struct hold *hold = list_first(&place->waiting, struct hold, listed);
        bool tries;

        place_use(place); /* it is looked at afterwards */
        line_leave(hold);
        hold_try(hold);
        tries = place->trier == hold;
        place_hungers(place);
        place_leave(place);
        return tries;
}

static uint32_t missing_slots(const struct advisory *advisory)
{
        uint32_t missing = 0;

        for (struct list *at = advisory->hungry.next; at != &advisory->hungry && missing < advisory->limit;
             at = at->next) {
                const struct place *place = container_of(at, struct place, hungry);

                for (int mode = 0; mode < 2 && !place->trier; mode++)
                        if (place->waiters[mode] > place->standing[mode])
                                missing += place->waiters[mode] - place->standing[mode];
        }
        return missing;
}

void sessions_feed(struct advisory *advisory)
{
        struct session *session;
        struct place *place;

        while (session_other(advisory, NULL) && (place = without_key(advisory)) != NULL)
                if (!try_first(place))
                        break; /* not now */
        while ((place = next_place(advisory)) != NULL && (session = session_to_wait(advisory)) != NULL) {
                struct hold *hold = line_next(place);

                list_remove(&place->hungry);
                if (!hold)
                        continue;
                slot_begin(session, place, hold->claim->mode, ttl_of(hold));
                place_hungers(place); /* again, behind the others */
        }
        sessions_grow(advisory, missing_slots(advisory));
}

/* All sessions are in use: those for whom none waits look from time to time. */
static void look(struct advisory *advisory)
{
        struct place *places[LOOKS_AT_ONCE];
        size_t count = 0;

        for (struct list *at = advisory->hungry.next; at != &advisory->hungry && count < LOOKS_AT_ONCE; at = at->next) {
                struct place *place = container_of(at, struct place, hungry);

                if (place->trier || place->standing[0] || place->standing[1])
                        continue;
                place_use(place);
                places[count++] = place;
        }
        for (size_t i = 0; i < count; i++) {
                try_first(places[i]);
                list_remove(&places[i]->hungry);
                place_hungers(places[i]); /* the others are next */
                place_leave(places[i]);
        }
        advisory->look_at = advisory_now(advisory) + LOOK_EVERY;
}

static void unpark_all(struct advisory *advisory)
{
        struct list parked;

        list_init(&parked);
        list_splice(&parked, &advisory->parked);
        while (!list_empty(&parked)) {
                struct hold *hold = list_first(&parked, struct hold, listed);

                list_remove(&hold->listed);
                hold_start(hold);
        }
}

static void later_due(struct timer *timer)
{
        struct advisory *advisory = container_of(timer, struct advisory, later);

        loop_set(loop_of(advisory), timer, NEVER);
        while (!list_empty(&advisory->dead))
                session_free(session_at(advisory->dead.next));
        unpark_all(advisory);
        sessions_feed(advisory);
        if (list_empty(&advisory->hungry) || !session_other(advisory, NULL))
                return;
        if (advisory_now(advisory) >= advisory->look_at)
                look(advisory);
        sessions_later(advisory, LOOK_EVERY);
}

/* ---- coming and going -------------------------------------------------------------------------------------------- */

static bool is_alone(const struct session *session)
{
        return session->listed.next == session->listed.prev;
}

static bool another_is_ready(const struct session *session)
{
        const struct advisory *advisory = session->advisory;

        for (struct list *at = advisory->sessions.next; at != &advisory->sessions; at = at->next)
                if (session_at(at) != session && is_ready(session_at(at)))
                        return true;
        return false;
}

static void up(struct wire *wire)
{
        struct session *session = container_of(wire, struct session, wire);
        struct advisory *advisory = session->advisory;

        if (session->dead)
                return;
        if (wire->version < OLDEST_SERVER) {
                wire_fail(wire, PAWL_UNSUPPORTED,
                          "%s: mode=advisory needs PostgreSQL 14, which ends sessions whose client is silent "
                          "(idle_session_timeout); this is %d. Leave mode=advisory out",
                          advisory->postgres->where, wire->version / 10000);
                return;
        }
        if (!another_is_ready(session)) /* who knows what it is connected to now */
                advisory->epoch++;
        advisory->ever = true;
        session->server_ttl = NEVER; /* pg_hello.c */
        session_idles(session);
        values_up(advisory->postgres);
        unpark_all(advisory);
        sessions_feed(advisory);
}

/* A connection that was cut says nothing about the next one; where there is none, the next is not waited for. */
static bool gives_up(const struct hold *hold, const struct wire *wire, bool was_ready)
{
        const struct advisory *advisory = hold->advisory;
        int64_t now = advisory_now(advisory), timeout = advisory->postgres->timeout;

        if (is_final(&wire->why))
                return true;
        if (was_ready && hold->claim->wait)
                return false;
        if (advisory->ever && hold->claim->wait)
                return now - advisory->lost_at >= timeout;
        return !wire->met || now - hold->tried_at >= timeout;
}

static void refuse_line(struct advisory *advisory, const struct pawl_why *why)
{
        while (!list_empty(&advisory->hungry)) {
                struct place *place = list_first(&advisory->hungry, struct place, hungry);
                struct hold *hold = list_first(&place->waiting, struct hold, listed);

                line_leave(hold);
                hold_refuse(hold, why->code, why->text);
        }
}

/* There is no session any more. */
static void nobody_serves(struct advisory *advisory, struct wire *wire, bool was_ready)
{
        struct pawl_why why = wire->why;
        int64_t now = advisory_now(advisory);
        struct list parked;

        if (was_ready)
                advisory->lost_at = now;
        list_init(&parked);
        list_splice(&parked, &advisory->parked);
        while (!list_empty(&parked)) {
                struct hold *hold = list_first(&parked, struct hold, listed);

                list_remove(&hold->listed);
                if (gives_up(hold, wire, was_ready))
                        hold_refuse(hold, why.code, why.text);
                else
                        list_append(&advisory->parked, &hold->listed);
        }
        if (is_final(&why) || (!was_ready && now - advisory->lost_at >= PATIENCE_IN_LINE * advisory->postgres->timeout))
                refuse_line(advisory, &why);
        values_down(advisory->postgres, &why, was_ready, wire->met);
}

/* There is no way back into a session: what it had is lost to us, and free as soon as the server has noticed. */
static void lose_all(struct session *session)
{
        while (!list_empty(&session->holds))
                hold_lost(list_first(&session->holds, struct hold, listed));
        session->sets = 0;
        session->resets = false;
        session->server_ttl = NEVER;
}

static void down(struct wire *wire, const struct pawl_why *why, bool was_ready)
{
        struct session *session = container_of(wire, struct session, wire);
        struct advisory *advisory = session->advisory;
        bool alone = is_alone(session);

        (void)why;
        if (session->dead)
                return;
        slot_lost(session);
        lose_all(session);
        if (!another_is_ready(session))
                nobody_serves(advisory, wire, was_ready);
        if (!was_ready)
                advisory->grow_at = advisory_now(advisory) + GROW_PAUSE;
        if (!alone || (list_empty(&advisory->parked) && list_empty(&advisory->hungry) &&
                       list_empty(&advisory->postgres->errands)))
                bury(session);
        sessions_later(advisory, 0);
}

static const struct wire_events session_events = {.up = up, .down = down};

int sessions_open(struct advisory *advisory)
{
        list_init(&advisory->sessions);
        list_init(&advisory->dead);
        list_init(&advisory->parked);
        list_init(&advisory->hungry);
        list_init(&advisory->quiet);
        advisory->epoch = 1;
        advisory->later.fire = later_due;
        return loop_set(loop_of(advisory), &advisory->later, NEVER);
}

void sessions_close(struct advisory *advisory)
{
        for (struct list *at = advisory->sessions.next; at != &advisory->sessions; at = at->next)
                wire_close(&session_at(at)->wire); /* first: one may be asked something on behalf of another */
        while (!list_empty(&advisory->sessions))
                session_free(session_at(advisory->sessions.next));
        while (!list_empty(&advisory->dead))
                session_free(session_at(advisory->dead.next));
        loop_unset(loop_of(advisory), &advisory->later);
}
