/* pg_claim.c - acquire, cancel, renew, release on rows. A claim has one request under way at most, so that none
 * overtakes another; a request whose answer was lost with the connection is sent again, and every function bears that. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "postgres.h"

/* Claims that wait tolerate a server that is unreachable, or a row that stays locked, for this many times the time limit. */
enum { PATIENCE_IN_LINE = 6 };
#define RETRY_AFTER (100 * MS)

static int write_hand(struct ask *ask, struct wire *wire);
static int write_release(struct ask *ask, struct wire *wire);
static void claim_ask(struct part *part);
static void send_cancel(struct part *part);
static void send_release(struct part *part);
static void release_behind(struct part *part);

static struct part *part_of_ask(struct ask *ask)
{
        return container_of(ask, struct part, ask);
}

static const struct engine_host *host_of(const struct part *part)
{
        return part->postgres->engine.host;
}

const char *key_of(const struct postgres *postgres, const char *name, char key[KEY_MAX + 1])
{
        if (postgres->prefix_length == 0)
                return name;
        memcpy(key, postgres->prefix, postgres->prefix_length);
        snprintf(key + postgres->prefix_length, PAWL_NAME_MAX + 1, "%s", name);
        return key;
}

/* ---- known and forgotten ----------------------------------------------------------------------------------------- */

static uint64_t uid_hash(const uint64_t uid[2])
{
        return (uid[0] ^ uid[1]) * UINT64_C(0x9e3779b97f4a7c15) >> 16;
}

void claim_know(struct postgres *postgres, struct claim *claim)
{
        struct part *part = part_of(claim);

        part->claim = claim;
        part->postgres = postgres;
        list_init(&part->listed);
        list_init(&part->ask.listed);
        part->order = ++postgres->orders;
        table_add(&postgres->claims, &part->link, uid_hash(claim->uid));
        part->known = true;
        postgres->known++;
}

struct part *claim_find(struct postgres *postgres, const uint64_t uid[2])
{
        uint64_t hash = uid_hash(uid);

        for (struct link *link = table_first(&postgres->claims, hash); link; link = link->next) {
                struct part *part = container_of(link, struct part, link);

                if (link->hash == hash && part->claim->uid[0] == uid[0] && part->claim->uid[1] == uid[1])
                        return part;
        }
        return NULL;
}

static size_t hash_of(const struct part *part)
{
        return table_hash(part->claim->name, part->claim->name_length) % NAME_HASHES;
}

static uint32_t *takers_of(const struct part *part)
{
        return &part->postgres->taking[hash_of(part)];
}

static void end_taking(struct part *part)
{
        if (part->taking)
                --*takers_of(part);
        part->taking = false;
}

/* ---- rows that somebody else has locked -------------------------------------------------------------------------- */

/* A shorter lease has made it short, and may be over. */
static void loosen_bound(struct postgres *postgres)
{
        postgres->lock_limit = LOCK_LIMIT_MOST;
        postgres_bound(postgres, NEVER);
        for (size_t room = 0; room < postgres->claims.size; room++)
                for (struct link *link = postgres->claims.rooms[room]; link; link = link->next)
                        postgres_bound(postgres, container_of(link, struct part, link)->claim->ttl);
}

/* An answer came to whatever it asked. Claims whose row was locked are tried again one after the other: each may keep what
 * is behind it waiting for as long as lock_timeout, and the renewals of all other locks are. */
static void note_answer(struct part *part, const PGresult *rows)
{
        if (part->postgres->retried == part)
                part->postgres->retried = NULL;
        part->blocked = error_is_blocked(rows);
        if (part->blocked)
                loosen_bound(part->postgres);
}

/* May it be sent now? */
static bool take_turn(struct part *part)
{
        struct postgres *postgres = part->postgres;

        if (!part->blocked)
                return true;
        if (postgres->retried && postgres->retried != part) /* itself: it could not be sent last time */
                return false;
        postgres->retried = part;
        return true;
}

void claim_forget(struct part *part)
{
        if (!part->known)
                return;
        if (part->postgres->retried == part)
                part->postgres->retried = NULL;
        renewal_leave(part);
        end_taking(part);
        if (part->state == WAITING)
                wait_end(part);
        if (!list_empty(&part->ask.listed))
                wire_forget(&part->postgres->wire, &part->ask);
        list_remove(&part->listed);
        table_remove(&part->postgres->claims, &part->link);
        part->known = false;
        part->postgres->known--;
}

void claim_refuse(struct part *part, int code, const char *why)
{
        const struct engine_host *host = host_of(part);

        claim_forget(part);
        host->events->refused(host->core, part->claim, code, why);
}

void claim_told(struct part *part, uint64_t token, int64_t sent_at)
{
        const struct engine_host *host = host_of(part);
        struct grant grant = {.token = token, .sent_at = sent_at};

        part->state = HELD;
        part->token = token;
        part->ends_at = sent_at + part->claim->ttl;
        part->renewal = NULL;
        part->doubtful = false;
        host->events->granted(host->core, part->claim, &grant); /* if it was cancelled, the core gives it back */
}

static void claim_end_release(struct part *part, int code)
{
        const struct engine_host *host = host_of(part);

        claim_forget(part);
        host->events->released(host->core, part->claim, code);
}

void claim_gone(struct part *part, int reason)
{
        const struct engine_host *host = host_of(part);

        claim_forget(part);
        host->events->gone(host->core, part->claim, reason);
}

void claim_broken(struct part *part)
{
        if (part->state == HELD)
                claim_gone(part, PAWL_REASON_BROKEN);
}

void claim_asked(struct part *part)
{
        const struct engine_host *host = host_of(part);

        if (part->state == HELD)
                host->events->asked(host->core, part->claim);
}

/* ---- parked: to be asked when there is a connection -------------------------------------------------------------- */

/* In the order in which they were first asked for, whatever became of it: most come in that order. */
void claim_park(struct part *part, enum claim_state want)
{
        struct list *after;

        part->state = PARKED;
        part->want = (uint8_t)want;
        list_remove(&part->listed);
        after = part->postgres->parked.prev;
        while (after != &part->postgres->parked && container_of(after, struct part, listed)->order > part->order)
                after = after->prev;
        list_append(after->next, &part->listed); /* before the next one */
        wire_want(&part->postgres->wire);
}

/* As long as a row may hold up what is behind it, it does not: half of the time at least is for the others. */
void retry_later(struct postgres *postgres)
{
        bool holds_up = postgres->retried || !list_empty(&postgres->parked) || !list_empty(&postgres->ghosts);
        int64_t pause = holds_up ? postgres->lock_limit : 0;

        if (pause < RETRY_AFTER)
                pause = RETRY_AFTER;
        if (postgres->retry.at == NEVER) /* moving: cannot fail */
                loop_set(postgres->engine.host->loop, &postgres->retry, postgres_now(postgres) + pause);
}

/* The server lives but cannot serve at the moment: once more in a while. */
static void park_a_while(struct part *part, enum claim_state want)
{
        struct postgres *postgres = part->postgres;

        claim_park(part, want);
        retry_later(postgres);
}

static void park_cancel(struct part *part)
{
        part->until = postgres_now(part->postgres) + part->claim->ttl + part->claim->delay;
        claim_park(part, CANCELLING);
}

static void unpark(struct part *part)
{
        list_remove(&part->listed);
        switch ((enum claim_state)part->want) {
        case RELEASING:
                send_release(part);
                break;
        case CANCELLING:
                send_cancel(part);
                break;
        case ADOPTING:
                lease_ask(part);
                break;
        default:
                claim_ask(part);
        }
}

static void unpark_all(struct postgres *postgres)
{
        struct list parked;

        list_init(&parked);
        list_splice(&parked, &postgres->parked);
        while (!list_empty(&parked)) {
                struct part *part = list_first(&parked, struct part, listed);

                if (take_turn(part)) {
                        unpark(part);
                        continue;
                }
                list_remove(&part->listed); /* in its order: they came in it */
                list_append(&postgres->parked, &part->listed);
                retry_later(postgres);
        }
}

void claims_retry(struct timer *timer)
{
        struct postgres *postgres = container_of(timer, struct postgres, retry);

        loop_set(postgres->engine.host->loop, timer, NEVER);
        values_up(postgres);
        wire_tell_again(&postgres->wire);
        if (wire_ready(&postgres->wire))
                unpark_all(postgres);
        ghosts_retry(postgres);
}

/* Without memory for a statement. One of whom the server knows nothing is refused at once; one that it may know of is
 * asked again for a while: what it has, it would keep for the whole lease. */
static void starve(struct part *part, enum claim_state want)
{
        const struct postgres *postgres = part->postgres;
        int64_t now = postgres_now(postgres);
        bool goes_on = want == RELEASING || want == CANCELLING
                               ? now < part->until
                               : part->doubtful && now - part->tried_at < postgres->timeout;

        if (goes_on) {
                park_a_while(part, want);
        } else if (want == RELEASING) {
                release_behind(part);
        } else if (want == CANCELLING) {
                claim_refuse(part, PAWL_CANCELLED, NULL);
        } else {
                if (part->doubtful)
                        ghost_of_part(part);
                claim_refuse(part, PAWL_NO_MEMORY, NULL);
        }
}

/* Sends, or parks what cannot be sent now. */
static void ask_or_park(struct part *part, enum claim_state want, int (*write)(struct ask *, struct wire *),
                        void (*answered)(struct ask *, const PGresult *, const struct pawl_why *))
{
        struct wire *wire = &part->postgres->wire;
        int code;

        part->ask.write = write;
        part->ask.answered = answered;
        part->ask.tells = write == write_hand || write == write_release;
        part->state = (uint8_t)want;
        code = wire_ask(wire, &part->ask);
        if (code == PAWL_OK)
                return;
        if (wire_ready(wire)) /* it broke while this was sent */
                part->doubtful = true;
        if (want == CONFIRMING)
                want = ASKING;
        if (code == PAWL_NO_MEMORY)
                starve(part, want);
        else
                claim_park(part, want);
}

/* ---- acquire ----------------------------------------------------------------------------------------------------- */

/* Who asks. */
static void put_claim(const struct part *part, const struct wire *wire, struct values *values, char key[KEY_MAX + 1])
{
        value_text(values, key_of(part->postgres, part->claim->name, key));
        value_uid(values, part->claim->uid);
        value_number(values, (int64_t)wire->session);
        value_text(values, host_of(part)->owner);
        value_text(values, part->claim->note);
}

/* For how long, and so on. */
static void put_terms(const struct part *part, struct values *values)
{
        value_number(values, part->claim->ttl / MS);
        value_number(values, part->claim->delay / MS);
        value_number(values, (int64_t)part->claim->age);
        value_bool(values, part->claim->detached);
}

/* One row, nobody waits: no function is needed. 0 rows say nothing but that. */
static int write_take(struct ask *ask, struct wire *wire)
{
        struct part *part = part_of_ask(ask);
        struct values values = {.count = 0};
        char key[KEY_MAX + 1];
        int code;

        put_claim(part, wire, &values, key);
        put_terms(part, &values);
        code = wire_send(wire, ask, SQL_TAKE, &values);
        if (code == PAWL_OK) {
                part->taking = true;
                ++*takers_of(part);
        }
        return code;
}

static int write_acquire(struct ask *ask, struct wire *wire)
{
        const struct part *part = part_of_ask(ask);
        const struct claim *claim = part->claim;
        struct values values = {.count = 0};
        char key[KEY_MAX + 1];

        put_claim(part, wire, &values, key);
        value_number(&values, claim->mode);
        value_number(&values, claim->max_holders < INT32_MAX ? claim->max_holders : INT32_MAX); /* int there */
        put_terms(part, &values);
        if (wire->fast && claim->wait && !part->doubtful && !part->ticket)
                return wire_send(wire, ask, SQL_LINE_UP, &values);
        value_bool(&values, claim->wait);
        value_number(&values, (int64_t)part->ticket);
        return wire_send(wire, ask, SQL_ACQUIRE, &values);
}

/* What the server may know of it is cleaned up behind the caller. */
static void refuse_and_clean(struct part *part, int code, const char *why)
{
        if (part->doubtful)
                ghost_of_part(part);
        claim_refuse(part, code, why);
}

/* Not answered. With the connection gone it is asked again when that is back; nobody knows what the server did. */
static void acquire_failed(struct part *part, const struct pawl_why *why)
{
        struct postgres *postgres = part->postgres;
        int64_t now = postgres_now(postgres);

        if (!wire_ready(&postgres->wire)) {
                part->doubtful = true;
                if (part->cancelled)
                        park_cancel(part);
                else
                        claim_park(part, ASKING);
        } else if (part->cancelled) {
                refuse_and_clean(part, PAWL_CANCELLED, NULL);
        } else if (error_passes(why) &&
                   now - part->tried_at < postgres->timeout * (part->claim->wait ? PATIENCE_IN_LINE : 1)) {
                postgres->refusal = *why;
                park_a_while(part, ASKING);
        } else {
                refuse_and_clean(part, why->code, why->text);
        }
}

static void in_line(struct part *part, const PGresult *rows)
{
        uint64_t token = part->token;

        part->ticket = (uint64_t)row_number(rows, 0, 1);
        part->floor = (uint64_t)row_number(rows, 0, 3);
        part->doubtful = true; /* the server knows it */
        part->asked_at = part->ask.sent_at;
        part->tried_at = postgres_now(part->postgres); /* from here on its patience counts anew */
        if (part->cancelled)
                send_cancel(part);
        else if (wait_begin(part, row_number(rows, 0, 2)) != PAWL_OK) {
                ghost_of_part(part);
                claim_refuse(part, PAWL_NO_MEMORY, NULL);
        } else if (part->told_lease) {
                wait_granted(part, token, part->told_lease);
        }
}

static void acquired(struct part *part, uint64_t token)
{
        if (!part->ticket) /* it did not wait */
                part->postgres->crowded[hash_of(part)] = false;
        claim_told(part, token, part->ask.sent_at);
}

static void acquire_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct part *part = part_of_ask(ask);

        note_answer(part, rows);
        if (why)
                acquire_failed(part, why);
        else if (PQntuples(rows) != 1 || PQnfields(rows) < 4)
                refuse_and_clean(part, PAWL_CORRUPT, "the server's answer makes no sense");
        else if (row_number(rows, 0, 0) > 0)
                acquired(part, (uint64_t)row_number(rows, 0, 0));
        else if (row_number(rows, 0, 1) > 0)
                in_line(part, rows);
        else
                claim_refuse(part, part->cancelled ? PAWL_CANCELLED : PAWL_BUSY, NULL);
}

static void take_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct part *part = part_of_ask(ask);

        end_taking(part);
        note_answer(part, rows);
        if (why) {
                acquire_failed(part, why);
        } else if (PQntuples(rows) == 1 && row_number(rows, 0, 0) > 0) {
                claim_told(part, (uint64_t)row_number(rows, 0, 0), ask->sent_at);
        } else if (part->cancelled) {
                refuse_and_clean(part, PAWL_CANCELLED, NULL);
        } else {
                part->way = WHOLE;
                part->postgres->crowded[hash_of(part)] = true;
                claim_ask(part);
        }
}

static void claim_ask(struct part *part)
{
        const struct claim *claim = part->claim;
        bool alone = part->way == ALONE && part->postgres->wire.fast && claim->mode == PAWL_EXCLUSIVE &&
                     !part->doubtful && !part->ticket;

        part->told_lease = 0;
        ask_or_park(part, ASKING, alone ? write_take : write_acquire, alone ? take_answered : acquire_answered);
}

static bool is_crowded(const struct part *part)
{
        const struct claim *claim = part->claim;

        return part->postgres->crowded[hash_of(part)] || wait_is_here(part->postgres, claim->name, claim->name_length);
}

/* Where others wait the short way leads nowhere; but who goes the long way must not overtake who went the short. */
void claim_acquire(struct engine *engine, struct claim *claim)
{
        struct postgres *postgres = postgres_of(engine);
        struct part *part = part_of(claim);

        claim_know(postgres, claim);
        postgres_bound(postgres, claim->ttl);
        part->tried_at = postgres_now(postgres);
        part->way = !*takers_of(part) && is_crowded(part) ? WHOLE : ALONE;
        claim_ask(part);
}

/* ---- confirm: a grant after a long wait is used when the server has said so again ----------------------------------- */

/* Asking again is just that: who holds it gets its token, and the lease begins again; who does not stands in line. */
void claim_confirm(struct part *part)
{
        part->told_lease = 0;
        ask_or_park(part, CONFIRMING, write_acquire, acquire_answered);
}

/* ---- cancel ------------------------------------------------------------------------------------------------------ */

static int write_cancel(struct ask *ask, struct wire *wire)
{
        const struct part *part = part_of_ask(ask);
        struct values values = {.count = 0};
        char key[KEY_MAX + 1];

        value_text(&values, key_of(part->postgres, part->claim->name, key));
        value_uid(&values, part->claim->uid);
        value_number(&values, (int64_t)wire->session);
        return wire_send(wire, ask, SQL_CANCEL, &values);
}

static void cancel_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct part *part = part_of_ask(ask);
        struct postgres *postgres = part->postgres;

        note_answer(part, rows);
        if (why && !wire_ready(&postgres->wire)) {
                claim_park(part, CANCELLING);
        } else if (why && error_passes(why) && postgres_now(postgres) < part->until) {
                park_a_while(part, CANCELLING);
        } else {
                if (why)
                        ghost_of_part(part);
                claim_refuse(part, PAWL_CANCELLED, NULL);
                if (!why)
                        claims_granted(postgres, rows);
        }
}

static void send_cancel(struct part *part)
{
        part->until = postgres_now(part->postgres) + part->claim->ttl + part->claim->delay;
        ask_or_park(part, CANCELLING, write_cancel, cancel_answered);
}

int claim_overdue(struct engine *engine, const struct claim *claim, struct pawl_why *why)
{
        const struct postgres *postgres = postgres_of(engine);
        const struct part *part = part_of(claim);
        const struct pawl_why *last = NULL;

        if (!wire_ready(&postgres->wire))
                last = &postgres->wire.why;
        else if (part->ticket) /* it was answered, and told to wait */
                return PAWL_TIMEOUT;
        else if (part->state == PARKED)
                last = &postgres->refusal;
        return engine_silent(why, postgres->where, postgres_now(postgres) - part->tried_at, last);
}

void claim_cancel(struct engine *engine, struct claim *claim)
{
        struct part *part = part_of(claim);

        (void)engine;
        switch ((enum claim_state)part->state) {
        case PARKED:
                if (part->want != CANCELLING)
                        refuse_and_clean(part, PAWL_CANCELLED, NULL);
                return;
        case WAITING:
                wait_end(part);
                send_cancel(part);
                return;
        case ASKING:
        case CONFIRMING:
        case ADOPTING:
                part->cancelled = true; /* when the answer is there */
                return;
        default:
                return;
        }
}

/* ---- grants that came with an answer ----------------------------------------------------------------------------- */

void claims_granted(struct postgres *postgres, const PGresult *rows)
{
        for (int row = 1; row < PQntuples(rows); row++) {
                uint64_t uid[2];

                if (row_uid(rows, row, 0, uid))
                        grant_told(postgres, uid, (uint64_t)row_number(rows, row, 1), row_number(rows, row, 2));
        }
}

/* ---- release ----------------------------------------------------------------------------------------------------- */

static void put_holder(const struct part *part, struct values *values, char key[KEY_MAX + 1])
{
        value_text(values, key_of(part->postgres, part->claim->name, key));
        value_uid(values, part->claim->uid);
}

static int write_give(struct ask *ask, struct wire *wire)
{
        struct values values = {.count = 0};
        char key[KEY_MAX + 1];

        put_holder(part_of_ask(ask), &values, key);
        return wire_send(wire, ask, SQL_GIVE, &values);
}

static int write_hand(struct ask *ask, struct wire *wire)
{
        struct values values = {.count = 0};
        char key[KEY_MAX + 1];

        put_holder(part_of_ask(ask), &values, key);
        value_number(&values, (int64_t)wire->session);
        return wire_send(wire, ask, SQL_HAND, &values);
}

static int write_release(struct ask *ask, struct wire *wire)
{
        const struct part *part = part_of_ask(ask);
        struct values values = {.count = 0};
        char key[KEY_MAX + 1];

        put_holder(part, &values, key);
        value_number(&values, (int64_t)wire->session);
        value_bool(&values, part->claim->lost);
        return wire_send(wire, ask, SQL_RELEASE, &values);
}

/* The caller has waited long enough. A lost lock with a lock-delay is left to the server: that is what frees it then. */
static void release_behind(struct part *part)
{
        if (!part->claim->lost || !part->claim->delay)
                ghost_of_part(part);
        claim_end_release(part, PAWL_IN_DOUBT);
}

static void release_failed(struct part *part, const struct pawl_why *why)
{
        const struct postgres *postgres = part->postgres;

        if (!wire_ready(&postgres->wire)) {
                part->doubtful = true;
                claim_park(part, RELEASING);
        } else if (error_passes(why) && postgres_now(postgres) < part->until) {
                park_a_while(part, RELEASING);
        } else {
                release_behind(part);
        }
}

/* Asked a second time, the server may not know of it any more: many have had the lock since. It cannot have ended by itself
 * while its lease stood, so it was our first request that gave it back; afterwards nobody can tell. */
static int release_code(const struct part *part, int64_t result)
{
        if (result == 1)
                return PAWL_OK;
        if (result != 2 || !part->doubtful)
                return PAWL_LOST;
        return postgres_now(part->postgres) < part->ends_at ? PAWL_OK : PAWL_IN_DOUBT;
}

static void release_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct part *part = part_of_ask(ask);
        struct postgres *postgres = part->postgres;

        note_answer(part, rows);
        if (why) {
                release_failed(part, why);
                return;
        }
        claim_end_release(part, release_code(part, PQntuples(rows) > 0 ? row_number(rows, 0, 1) : 0));
        claims_granted(postgres, rows);
}

static void give_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct part *part = part_of_ask(ask);

        note_answer(part, rows);
        if (why) {
                release_failed(part, why);
        } else if (PQntuples(rows) == 1) {
                claim_end_release(part, PAWL_OK);
        } else {
                part->way = FIRST;
                part->postgres->crowded[hash_of(part)] = true;
                send_release(part);
        }
}

static void hand_answered(struct ask *ask, const PGresult *rows, const struct pawl_why *why)
{
        struct part *part = part_of_ask(ask);
        struct postgres *postgres = part->postgres;
        uint64_t uid[2];

        note_answer(part, rows);
        if (why) {
                release_failed(part, why);
        } else if (PQntuples(rows) == 1 && row_uid(rows, 0, 0, uid)) {
                claim_end_release(part, PAWL_OK);
                grant_told(postgres, uid, (uint64_t)row_number(rows, 0, 1), row_number(rows, 0, 2)); /* if it is ours */
        } else { /* nobody waits any more, or not simply so */
                postgres->crowded[hash_of(part)] = false;
                part->way = WHOLE;
                send_release(part);
        }
}

static void send_release(struct part *part)
{
        const struct claim *claim = part->claim;

        if (!part->postgres->wire.fast || claim->mode != PAWL_EXCLUSIVE || claim->lost || part->doubtful)
                part->way = WHOLE;
        if (part->way == WHOLE)
                ask_or_park(part, RELEASING, write_release, release_answered);
        else if (part->way == FIRST)
                ask_or_park(part, RELEASING, write_hand, hand_answered);
        else
                ask_or_park(part, RELEASING, write_give, give_answered);
}

void claim_release(struct engine *engine, struct claim *claim)
{
        struct part *part = part_of(claim);
        int64_t now = postgres_now(part->postgres);

        (void)engine;
        renewal_leave(part);
        part->until = now + (claim->ttl < part->postgres->timeout ? claim->ttl : part->postgres->timeout);
        part->way = is_crowded(part) ? FIRST : ALONE;
        send_release(part);
}

/* ---- the connection comes and goes ------------------------------------------------------------------------------- */

static void up(struct wire *wire)
{
        struct postgres *postgres = wire->postgres;

        values_up(postgres); /* first: what is given back meanwhile is stored before */
        unpark_all(postgres);
        wait_look_all(postgres);
        ghosts_up(postgres);
        inspect_up(postgres);
}

bool is_final(const struct pawl_why *why)
{
        return why->code != PAWL_UNREACHABLE && why->code != PAWL_NO_MEMORY && why->code != PAWL_SYSTEM &&
               why->code != PAWL_FULL;
}

/* A connection that was cut says nothing about the next one; where there is none, the next is not waited for. */
static bool give_up_asking(const struct part *part, const struct pawl_why *why, bool was_ready)
{
        const struct wire *wire = &part->postgres->wire;
        int64_t now = postgres_now(part->postgres), timeout = part->postgres->timeout;

        if (is_final(why))
                return true;
        if (was_ready && part->claim->wait)
                return false;
        if (wire->ever && part->claim->wait)
                return now - wire->lost_at >= timeout;
        return !wire->met || now - part->tried_at >= timeout;
}

static void end_parked(struct part *part, const struct pawl_why *why, bool was_ready)
{
        bool pointless = postgres_now(part->postgres) >= part->until;

        if (part->want == RELEASING) {
                if (pointless || is_final(why))
                        release_behind(part);
        } else if (part->want == CANCELLING) {
                if (pointless || is_final(why))
                        claim_refuse(part, PAWL_CANCELLED, NULL);
        } else if (give_up_asking(part, why, was_ready)) {
                refuse_and_clean(part, why->code, why->text);
        }
}

static bool line_is_too_long_alone(const struct wire *wire, const struct pawl_why *why, bool was_ready)
{
        int64_t now = postgres_now(wire->postgres);

        return is_final(why) || (!was_ready && now - wire->lost_at >= PATIENCE_IN_LINE * wire->postgres->timeout);
}

/* Nobody needs the connection any more. */
static void claims_rest(struct postgres *postgres)
{
        if (!postgres->known && list_empty(&postgres->ghosts) && list_empty(&postgres->questions) &&
            list_empty(&postgres->errands) && list_empty(&postgres->examinations))
                postgres->wire.wanted = false;
}

static void down(struct wire *wire, const struct pawl_why *why, bool was_ready)
{
        struct postgres *postgres = wire->postgres;
        struct list *next;

        postgres->retried = NULL;
        for (struct list *at = postgres->parked.next; at != &postgres->parked; at = next) {
                next = at->next;
                end_parked(container_of(at, struct part, listed), why, was_ready);
        }
        if (line_is_too_long_alone(wire, why, was_ready))
                wait_refuse_all(postgres, why);
        inspect_down(postgres, why, was_ready);
        values_down(postgres, why, was_ready, wire->met);
        ghosts_down(postgres);
        claims_rest(postgres);
}

static void told(struct wire *wire, const char *text)
{
        wait_told(wire->postgres, text);
}

const struct wire_events lease_events = {.up = up, .down = down, .told = told};
