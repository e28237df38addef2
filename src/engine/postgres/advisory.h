/* advisory.h - ?mode=advisory: locks of the server's sessions, without rows. docs/decisions/0142 has the reasons.
 *   pg_advisory.c  what the core asks for: acquire, cancel, renew, release
 *   pg_session.c   the sessions: how many, which one for what, what is left when one is lost
 *   pg_slot.c      sessions that wait in the server's queue, and how they are called off
 *   pg_place.c     names: their numbers, and who of us waits for them
 *
 * A session is one connection. What it got stays there until it is given back, or the session ends. A name is never
 * asked for on a session that has it: the server would say yes, whoever else waits. */
#ifndef PAWL_ADVISORY_H
#define PAWL_ADVISORY_H

#include "postgres.h"

struct session;

/* All of this client that has to do with one name. */
struct place {
        struct link link; /* in advisory->places, by name */
        struct advisory *advisory;
        struct list quiet;   /* in advisory->quiet, while nobody uses it */
        struct list hungry;  /* in advisory->hungry: more wait than have a slot */
        struct list users;   /* claims that have it, or just ask for it, on some session */
        struct list waiting; /* claims in their order */
        struct list slots;   /* sessions that wait for it in the server's queue, in their order */
        struct list giving;  /* claims to be given back when those who left are out of the queue */
        uint32_t leaving;    /* slots that are called off */
        struct hold *trier;  /* a claim that would wait looks whether it is free: those behind it keep back */
        uint32_t waiters[2]; /* of each mode, as slots */
        uint32_t standing[2];
        uint32_t uses; /* claims and slots */
        int64_t key;
        uint64_t epoch; /* the key is from this one; 0: not known */
        size_t name_length;
        char name[]; /* with the prefix */
};

/* The engine's part of a claim in this mode. Its states are those of enum claim_state:
 *
 *   PARKED --> ASKING --> HELD --> RELEASING --> (released)
 *     ^         |  '--> WAITING --> CONFIRMING --> HELD
 *     '- lost --'          ^------- lost --'
 *   all before HELD --> CANCELLING --> (refused) */
struct hold {
        struct ask ask;
        struct list listed;   /* advisory->parked, place->waiting or session->holds */
        struct list user;     /* place->users */
        struct list renewing; /* session->touching or session->to_touch; place->giving */
        struct claim *claim;
        struct advisory *advisory;
        struct place *place;
        struct session *session; /* where it is asked for or held */
        uint64_t token;
        int64_t tried_at; /* since when */
        uint8_t state;    /* enum claim_state */
        uint8_t failures; /* of giving it back */
        bool cancelled;   /* when the answer is there */
        bool sets;        /* its request sets the session's timeout */
        bool lined;       /* it has stood in line */
};

struct session {
        struct wire wire;
        struct advisory *advisory;
        struct list listed;   /* advisory->sessions or advisory->dead */
        struct list holds;    /* claims that have, or just ask for, something here */
        struct list touching; /* renewed by the statement under way */
        struct list to_touch; /* by the next one */
        struct list undos;    /* what nobody waits for */
        struct ask touch;
        struct timer rest;  /* nothing to do for a while */
        int64_t server_ttl; /* the idle_session_timeout that the server has, ns; NEVER: none */
        int64_t set_ttl;    /* the one on its way */
        int64_t needed;     /* the greatest ttl of holds; 0: there are none */
        int64_t empty_since;
        uint32_t sets; /* requests under way that set the timeout */
        bool resets;   /* touch does so */
        bool dead;
        /* while it waits in the server's queue: */
        struct place *place;
        struct list slot; /* place->slots */
        struct ask wait;
        struct ask call_off; /* sent on another session */
        struct session *called_on;
        struct timer again;  /* call off again */
        struct hold *leaver; /* told when nothing is left */
        uint32_t mode;
        uint32_t calls;   /* how often it was called off */
        bool waits;       /* wait is not answered */
        bool called_off;  /* counts no longer among those who stand there */
        bool calling_off; /* call_off is not answered */
};

struct advisory {
        struct postgres *postgres;
        struct list sessions; /* tried from the front, used for waiting from the back */
        struct list dead;     /* to be closed in a turn of their own */
        struct list parked;   /* claims that need a session */
        struct list hungry;   /* places, in turns */
        struct list quiet;    /* places, the longest unused first */
        struct table places;
        size_t quiets;
        uint32_t limit;  /* connections= */
        uint32_t count;  /* of sessions */
        uint64_t epoch;  /* of keys: another one after all connections were lost */
        int64_t grow_at; /* no further connection before: the server would not have one more */
        int64_t lost_at; /* when there was no session left */
        int64_t look_at; /* for whom no session waits look again */
        bool ever;       /* there was one */
        struct timer later;
};

static inline struct hold *hold_of(const struct claim *claim)
{
        return claim->part;
}
static inline int64_t advisory_now(const struct advisory *advisory)
{
        return postgres_now(advisory->postgres);
}
/* It has the lock, and the server has not been asked to take it back. */
static inline bool is_held(const struct hold *hold)
{
        return hold->state == HELD || hold->state == CONFIRMING ||
               (hold->state == RELEASING && !list_empty(&hold->renewing));
}
static inline bool is_shared(const struct hold *hold)
{
        return hold->claim->mode == PAWL_SHARED;
}

/* pg_place.c: NULL: no memory. */
struct place *place_get(struct advisory *advisory, const char *name);
void place_use(struct place *place);
void place_leave(struct place *place);
void places_free(struct advisory *advisory);
static inline bool place_has_key(const struct place *place)
{
        return place->epoch == place->advisory->epoch;
}
/* Is it certain that this claim must wait, because of what this client has itself? */
bool place_is_taken(const struct place *place, const struct hold *hold);
/* Stands in line, behind all others or (it was there already) before them. */
void line_enter(struct hold *hold, bool first);
void line_leave(struct hold *hold);
struct hold *line_first(const struct place *place, uint32_t mode);
/* The first in line who has no slot; NULL: all have. */
struct hold *line_next(const struct place *place);
void place_hungers(struct place *place);

/* pg_advisory.c */
void hold_start(struct hold *hold);
void hold_try(struct hold *hold);
void hold_refuse(struct hold *hold, int code, const char *why);
void hold_lost(struct hold *hold);       /* with its session */
void hold_give_all(struct place *place); /* place->giving */
/* A session got it after a wait: is it certain that the server still thinks so? */
void hold_confirm(struct hold *hold, struct session *session, uint64_t token, int64_t sent_at);

/* pg_session.c */
/* For a claim that asks: PAWL_OK; PAWL_UNREACHABLE: there will be one; PAWL_FULL: there is none that does not have the
 * name. */
int session_for(const struct hold *hold, struct session **session);
void session_enter(struct session *session, struct hold *hold);
void session_leave(struct hold *hold);
void session_idles(struct session *session); /* it has nothing to do from now on */
/* Can it be relied on as it is, or must the request set the timeout? */
bool session_must_set(const struct session *session, const struct hold *hold);
void session_sets(struct session *session, int64_t ttl);
void session_has_set(struct session *session, bool done);
void session_renew(struct session *session);
/* Some session that can be asked something now, not this one. */
struct session *session_other(struct advisory *advisory, const struct session *session);
/* Room for one that waits: a free session; NULL: none yet. */
struct session *session_to_wait(struct advisory *advisory);
void sessions_grow(struct advisory *advisory, uint32_t wanted);
void sessions_later(struct advisory *advisory, int64_t delay);
/* Hands what is free to those who need it. */
void sessions_feed(struct advisory *advisory);
/* 0 or an errno. */
int sessions_open(struct advisory *advisory);
void sessions_close(struct advisory *advisory);
/* A ttl as the server takes it. */
void value_timeout(struct values *values, int64_t ttl);

/* Gives back what a request that failed may have got there, without telling anybody. */
void session_unlock(struct session *session, const struct place *place, uint32_t mode);
int write_unlock(struct wire *wire, struct ask *ask, const struct place *place, uint32_t mode);

/* pg_slot.c */
void slot_begin(struct session *session, struct place *place, uint32_t mode, int64_t ttl);
/* One of so many who wait is superfluous; leaver (may be NULL) is told when it is gone. */
void slot_call_off(struct place *place, uint32_t mode, struct hold *leaver);
void slot_call_off_again(struct timer *timer);
void slot_lost(struct session *session);

#endif
