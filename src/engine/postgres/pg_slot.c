/* pg_slot.c - sessions that wait in the server's queue. A claim has no session of its own there: each adds one to the
 * queue, and what comes out first is for the claim that is first in line here. So the order of our own does not depend
 * on which connection was the faster, and one that gives up lets those behind it move up.
 *
 * A wait is called off by pg_cancel_backend on another session. PQcancel would open a connection, and wait for it;
 * closing the connection would leave it in the queue until the server looks; waiting in slices (lock_timeout) would
 * lose the place each time. A cancelled statement may have got the lock all the same: it is given back in any case, and
 * the session is not asked anything before the cancel has been answered, so that it cannot hit another statement. */
#include <stdlib.h>

#include "advisory.h"

#define CALL_AGAIN_AFTER (5 * MS)
#define CALL_ONCE_MORE_AFTER (500 * MS)
/* So often, and those who give the lock back wait for it no longer. */
enum { CALLS_IN_TIME = 20 };

static void slot_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why);

static struct session *session_of_wait(struct ask *ask)
{
        return container_of(ask, struct session, wait);
}

static void again_in(struct session *session, int64_t delay)
{
        loop_set(session->advisory->postgres->engine.host->loop, &session->again,
                 delay == NEVER ? NEVER : advisory_now(session->advisory) + delay); /* moving: cannot fail */
}

/* It stands in the queue no longer, and may be used for something else. */
static void slot_end(struct session *session)
{
        struct place *place = session->place;
        struct hold *leaver = session->leaver;
        struct advisory *advisory = session->advisory;

        again_in(session, NEVER);
        session->wire.patient = false;
        list_remove(&session->slot);
        if (session->called_off)
                place->leaving--;
        else
                place->standing[session->mode]--;
        session->place = NULL;
        session->leaver = NULL;
        session->called_off = false;
        session_idles(session);
        place_hungers(place);
        if (!place->leaving)
                hold_give_all(place);
        place_leave(place);
        sessions_later(advisory, 0);
        if (leaver)
                hold_refuse(leaver, PAWL_CANCELLED, NULL);
}

/* ---- into the queue ---------------------------------------------------------------------------------------------- */

static int write_wait(struct ask *ask, struct wire *wire)
{
        const struct session *session = session_of_wait(ask);
        struct values values = {.count = 0};

        value_number(&values, session->place->key);
        value_bool(&values, session->mode == PAWL_SHARED);
        value_timeout(&values, session->set_ttl);
        return wire_send(wire, ask, SQL_ADVISORY_WAIT, &values);
}

void slot_begin(struct session *session, struct place *place, uint32_t mode, int64_t ttl)
{
        place_use(place);
        session->place = place;
        session->mode = mode;
        list_append(&place->slots, &session->slot);
        place->standing[mode]++;
        session->waits = true;
        session->wire.patient = true; /* as long as it takes; a server that vanished is missed by the kernel */
        session->wait.write = write_wait;
        session->wait.answered = slot_answered;
        session_sets(session, ttl);
        if (wire_ask(&session->wire, &session->wait) == PAWL_OK)
                return;
        session_has_set(session, false);
        session->waits = false;
        slot_end(session);
}

/* ---- out of it --------------------------------------------------------------------------------------------------- */

static int write_undo(struct ask *ask, struct wire *wire)
{
        const struct session *session = session_of_wait(ask);

        return write_unlock(wire, ask, session->place, session->mode);
}

/* What cannot be given back goes with the session, which has nothing else. */
static void undone(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct session *session = session_of_wait(ask);

        (void)rows;
        if (why)
                wire_fail(&session->wire, why->code, "%s", why->text);
        slot_end(session);
}

static void slot_undo(struct session *session)
{
        session->wire.patient = false;
        session->wait.write = write_undo;
        session->wait.answered = undone;
        if (wire_ask(&session->wire, &session->wait) == PAWL_OK)
                return;
        wire_fail(&session->wire, PAWL_NO_MEMORY, "%s: no memory", session->advisory->postgres->where);
        slot_end(session);
}

static void slot_granted(struct session *session, uint64_t token)
{
        struct hold *hold = line_first(session->place, session->mode);

        if (!hold) {
                slot_undo(session);
                return;
        }
        line_leave(hold); /* which keeps the place */
        slot_end(session);
        hold_confirm(hold, session, token, session->wait.sent_at);
}

/* The server lives, and would not let it wait. Whoever is first hears it, if it will not pass. */
static void slot_failed(struct session *session, const struct pawl_why *why)
{
        struct hold *hold = error_passes(why) ? NULL : line_first(session->place, session->mode);

        if (hold)
                line_leave(hold);
        slot_undo(session);
        if (hold)
                hold_refuse(hold, why->code, why->text);
}

static void slot_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct session *session = session_of_wait(ask);

        session->waits = false;
        session_has_set(session, !why);
        if (why && !wire_ready(&session->wire)) {
                if (!session->calling_off)
                        slot_end(session);
        } else if (session->called_off) {
                if (!session->calling_off)
                        slot_undo(session);
        } else if (why) {
                slot_failed(session, why);
        } else {
                slot_granted(session, (uint64_t)row_number(rows, 0, 0));
        }
}

/* ---- calling off ------------------------------------------------------------------------------------------------- */

static int write_call_off(struct ask *ask, struct wire *wire)
{
        const struct session *session = container_of(ask, struct session, call_off);
        struct values values = {.count = 0};

        value_number(&values, session->wire.pid);
        return wire_send(wire, ask, SQL_ADVISORY_CALL_OFF, &values);
}

static void call_off_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct session *session = container_of(ask, struct session, call_off);

        session->calling_off = false;
        session->called_on = NULL;
        if (!session->place)
                return;
        if (why) /* nobody knows what the server did, or will do */
                wire_fail(&session->wire, PAWL_UNREACHABLE, "%s", why->text);
        else if (!session->waits)
                slot_undo(session);
        else if (PQntuples(rows) == 0) /* it did not wait yet, or what it waited for comes now */
                again_in(session, CALL_AGAIN_AFTER);
        else { /* its answer comes any moment */
                session->calls = CALLS_IN_TIME;
                again_in(session, CALL_ONCE_MORE_AFTER);
        }
}

static void call_off(struct session *session)
{
        struct session *other = session_other(session->advisory, session);

        session->call_off.write = write_call_off;
        session->call_off.answered = call_off_answered;
        session->calling_off = other && wire_ask(&other->wire, &session->call_off) == PAWL_OK;
        if (session->calling_off) {
                session->called_on = other;
                return;
        }
        sessions_grow(session->advisory, 1);
        again_in(session, CALL_AGAIN_AFTER);
}

void slot_call_off_again(struct timer *timer)
{
        struct session *session = container_of(timer, struct session, again);

        again_in(session, NEVER);
        if (!session->place || !session->called_off || !session->waits || session->calling_off)
                return;
        if (++session->calls >= CALLS_IN_TIME)
                hold_give_all(session->place);
        call_off(session);
}

/* The last one: those behind whoever left move up. */
void slot_call_off(struct place *place, uint32_t mode, struct hold *leaver)
{
        for (struct list *at = place->slots.prev; at != &place->slots; at = at->prev) {
                struct session *session = container_of(at, struct session, slot);

                if (session->mode != mode || session->called_off || !session->waits)
                        continue;
                session->called_off = true;
                session->calls = 0;
                session->leaver = leaver;
                place->leaving++;
                place->standing[mode]--;
                call_off(session);
                return;
        }
        hold_refuse(leaver, PAWL_CANCELLED, NULL);
}

/* Its connection is gone, and what was asked on it is answered. */
void slot_lost(struct session *session)
{
        if (session->calling_off)
                wire_forget(&session->called_on->wire, &session->call_off);
        session->calling_off = false;
        session->called_on = NULL;
        session->waits = false;
        if (session->place)
                slot_end(session);
}
