/* redlock.h - the engine for N independent Redis servers of which a majority decides: what its files share. It
 * speaks to each server through the redis engine (engine.h, struct engine_member). docs/decisions/0080 tells the
 * protocol and why it holds.
 *
 *   redlock_open.c     the URL, the nodes, the ops table
 *   redlock_round.c    one question to all nodes, counted as the answers come; what is unconfirmed is asked again
 *   redlock_roster.c   which servers have a vote: the list that all clients go by, as text and as a value
 *   redlock_trust.c    which nodes may vote; marking new ones, mending those that forgot, replacing one by another
 *   redlock_place.c    the claims of this client on one name: one tries, the others stand in line behind it
 *   redlock_claim.c    the life of a claim
 *   redlock_renew.c    renewal in batches, and nodes that lost a lock whose majority stands
 *   redlock_lease.c    leases as words
 *   redlock_inspect.c  what a majority sees; break, ask, examine, init  */
#ifndef PAWL_REDLOCK_H
#define PAWL_REDLOCK_H

#include "../../base/list.h"
#include "../engine.h"

enum { NODES_LEAST = 3, NODES_MOST = 31 }; /* a set of nodes is a word of 32 bits */

/* No attempt takes longer, whatever ?timeout= says: a node that forgot its data is not marked again before every
 * attempt that it may have voted in is over. */
#define ATTEMPT_MOST (5 * SECOND)
/* How far hints may be ahead of a node's clock, and so the numbers; in us. */
#define HINT_AHEAD UINT64_C(1000000)

/* Who goes on at a majority could leave slow nodes ever further behind. So a release waits a little for one that
 * has so many votes to answer; and one that has so many and has answered none for a while is left alone if the
 * others are enough. */
enum { BEHIND_MOST = 8 };
#define BEHIND_PATIENCE (20 * MS)

struct redlock;
struct place;
struct round;
struct renewal;

typedef uint32_t nodes_t; /* one bit for each node */

static inline uint32_t how_many(nodes_t nodes)
{
        return (uint32_t)__builtin_popcount(nodes);
}

/* ---- rosters ----------------------------------------------------------------------------------------------------- */

enum { ID_LENGTH = 16, WHERE_MAX = 80, ROSTER_TEXT_MAX = 34 + NODES_MOST * (9 + 17 + WHERE_MAX + 1) };

/* One seat: the server that votes in it. A server that takes the seat of another, or its own again after it forgot its
 * data, does so under a new id and a greater turn. */
struct seat {
        uint32_t turn;
        char id[ID_LENGTH + 1];
        char where[WHERE_MAX + 1]; /* host:port, as the client that seated it called it */
};

/* The servers that keep the locks of a namespace. Every server has it among its data, and votes only for requests that
 * were made with the same. Of two rosters of one set everybody takes, seat by seat, the greater: no order of events makes
 * two clients disagree for good. docs/decisions/0165 tells why this is enough. */
struct roster {
        uint32_t count; /* 0: none is known */
        char set[ID_LENGTH + 1];
        struct seat seats[NODES_MOST];
};

/* "ID SET TURN-ID-WHERE...": the first is the server's own id. False: it is not one. */
bool roster_read(struct roster *roster, char own[ID_LENGTH + 1], const char *text);
void roster_write(const struct roster *roster, const char *own, char text[ROSTER_TEXT_MAX]);
uint64_t roster_tag(const struct roster *roster); /* never 0 */
void roster_join(struct roster *roster, const struct roster *other);
int roster_seat(const struct roster *roster, const char *id); /* -1: it has none */
void roster_sit(struct seat *seat, uint32_t turn, const char *id, const char *where);
bool roster_is_at(const struct seat *seat, const char *where);
/* The first roster of new servers: the same whatever their order. */
void roster_first(struct roster *roster);
/* host:port, host:port, ... for messages. */
void roster_list(const struct roster *roster, char *text, size_t size);

struct node {
        struct member member; /* first */
        struct redlock *redlock;
        struct engine *engine;
        struct url *url;
        nodes_t bit;
        bool votes;    /* when it was last looked at */
        bool replaces; /* an operator wants it in a seat of the roster */
        int seat;      /* in the roster; -1: none */
        int home;      /* the seat in which it voted; -1: none, as far as we know */
        char home_id[ID_LENGTH + 1];
        char new_id[ID_LENGTH + 1]; /* in a set that is being made */
        uint32_t behind;            /* votes that it has not answered */
        int64_t heard_at;           /* when it last answered one, or had none to answer */
        uint32_t doubts;            /* how often in a row it was found not to be trusted */
        int64_t over_at;            /* since when its quarantine is known to be over; 0: it is not */
        uint64_t over_of;           /* in this incarnation */
        int64_t looked_at;          /* when the others were last asked for its floor */
        char name[272];             /* host:port, for sentences */
};

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

struct ballot {
        struct vote vote; /* first */
        struct round *round;
        struct node *node;
};

/* One kind of vote on all nodes, or some. It has its own copy of the claim: answers may come when that is long
 * forgotten. */
struct round {
        struct list listed; /* redlock->rounds or redlock->spare_rounds */
        struct redlock *redlock;
        struct claim claim;
        struct part *asker;           /* NULL: nobody waits for it any more */
        void (*told)(struct round *); /* something was answered, or the time is up */
        struct timer timer;
        enum vote_kind kind;
        uint64_t number;
        uint64_t ticket; /* of a grant */
        bool queued;
        int64_t started_at;
        int64_t until;                                      /* of a release: afterwards it is pointless */
        nodes_t sent;                                       /* asked at all */
        nodes_t out;                                        /* not answered */
        nodes_t ok, busy, other, missing, doubtful, failed; /* the answers */
        nodes_t again;                                      /* a release to be asked again when the node is back */
        nodes_t soon;                                       /* of these: the node is there, and was busy */
        bool late;                                          /* the time is up */
        bool telling;
        char name[PAWL_NAME_MAX + 1];
        char note[PAWL_NOTE_MAX + 1];
        struct ballot ballots[];
};

/* NULL: no memory. */
struct round *round_new(struct redlock *redlock, const struct part *part, void (*told)(struct round *));
/* Asks those of the nodes that can be asked; the others have failed. told comes later, if anything was asked. */
void round_send(struct round *round, enum vote_kind kind, uint64_t number, nodes_t nodes);
/* told at this time if it is still awaited. PAWL_OK or PAWL_NO_MEMORY. */
int round_limit(struct round *round, int64_t at);
/* Are there nodes that are far behind, but at work? */
bool round_behind(const struct round *round);
/* Nobody waits for it any more; it ends in the background. */
void round_leave(struct round *round);
/* A node is back: what it did not confirm is sent again. */
void rounds_again(struct redlock *redlock, struct node *node);
void rounds_soon(struct redlock *redlock); /* and to those that were busy */
/* Drops what has become pointless. True if anything is left. */
bool rounds_sweep(struct redlock *redlock, int64_t now);
void rounds_free(struct redlock *redlock);

/* ---- claims ------------------------------------------------------------------------------------------------------ */

/*   PENDING <--> WAITING <--> ASKING --> ACCEPTING --> HELD --> RELEASING --> (released)
 *                   ^            |           |           |
 *                   '-- UNDOING <+-----------'           '----> (gone)
 *                         '--> (refused)                            ADOPTING --> HELD
 *
 * PENDING: too few nodes can vote. WAITING: stands in line in its place. The others have a round under way. */
enum part_state { PENDING, WAITING, ASKING, ACCEPTING, UNDOING, HELD, RELEASING, ADOPTING };

/* What an attempt came to. */
enum outcome { OUTCOME_HELD, OUTCOME_SPLIT, OUTCOME_SILENT };

struct item;

struct part {
        struct redlock *redlock;
        struct claim *claim;
        struct place *place;
        struct list listed; /* redlock->pending or place->waiting */
        struct round *round;
        struct item *item; /* of the renewal under way */
        uint64_t uid[2];   /* of the attempt */
        uint64_t token;
        int64_t since;    /* it was asked for */
        int64_t asked_at; /* since when it is without an answer */
        int64_t sent_at;  /* of the attempt */
        int64_t left;     /* of who stands in the way */
        uint32_t before;  /* so many are before us in the queue */
        uint64_t tag;     /* of the roster of the attempt */
        nodes_t exact;    /* nodes where it has the number that became the token */
        nodes_t on;       /* nodes that hold it, as far as is known */
        nodes_t reached;  /* nodes that may hold it */
        nodes_t broken, asked;
        uint8_t state;   /* enum part_state */
        uint8_t outcome; /* enum outcome, while UNDOING */
        uint8_t tries;
        bool cancelled;
        bool announced;
        bool hasty;   /* the attempt was not to be queued: it is our turn */
        bool foreign; /* who stands in the way is not one of us */
        bool adopts;  /* takes up a lease */
};

static inline struct part *part_of(const struct claim *claim)
{
        return claim->part;
}

void claim_acquire(struct engine *engine, struct claim *claim);
void claim_cancel(struct engine *engine, struct claim *claim);
int claim_overdue(struct engine *engine, const struct claim *claim, struct pawl_why *why);
void claim_release(struct engine *engine, struct claim *claim);
void claim_renew(struct engine *engine, struct claim *const *claims, size_t n);
/* Goes for it: there is a majority, and its place is free to try. */
void claim_try(struct part *part);
/* A majority keeps the lock for this client, and the claim has an attempt under way that may be too early. */
void claim_has_turn(struct part *part);
void claim_refuse(struct part *part, int code, const char *why);
/* The store says that it is not ours: forgotten. */
void claim_gone(struct part *part, int reason);
/* Held, by a lease that was there before. */
void claim_adopted(struct part *part, uint64_t token, int64_t sent_at);
/* Begins, as soon as there is a majority. */
void claim_set_out(struct part *part);
void claim_adopt_now(struct part *part); /* redlock_lease.c */
/* Prepares the part of a claim that is new here. */
void claim_know(struct redlock *redlock, struct claim *claim);
/* Takes the claim out of everything. */
void claim_forget(struct part *part);
/* Those that wait for a majority: go on, or give up. */
void claims_wake(struct redlock *redlock);

/* redlock_renew.c */
void renewal_forget(struct part *part);
void renewals_free(struct redlock *redlock);

/* ---- places ------------------------------------------------------------------------------------------------------ */

/* One name that this client has to do with. */
struct place {
        struct list hashed;
        struct redlock *redlock;
        struct part *holder; /* of this client */
        struct part *trying; /* the one that asks for it */
        struct list waiting; /* struct part, in their order */
        struct timer timer;  /* try again */
        uint64_t hash;
        int64_t answered_at; /* when a majority last said anything of it; 0: never */
        uint32_t failures;   /* in a row, for the pause */
        nodes_t turns;       /* nodes that keep it for us, since we last asked */
        bool queued;         /* this client is in the nodes' queues, or may be */
        size_t length;
        char name[PAWL_NAME_MAX + 1];
};

struct place *place_get(struct redlock *redlock, const char *name, size_t length); /* NULL: no memory */
struct place *place_find(struct redlock *redlock, const char *name, size_t length);
/* The claim's turn, now or later. */
void place_enter(struct part *part);
/* Back to the head of the line, for another try after a pause that fits the outcome. */
void place_wait(struct part *part, enum outcome outcome);
/* Nobody of this client holds it or asks for it any more: the next one tries; or the place is given up. */
void place_next(struct place *place);
/* Its claim is held: who did not want to wait is told so. */
void place_taken(struct place *place, struct part *holder);
void places_turn(struct member *member, const char *name, size_t length, bool first);
/* The holder with this uid, or NULL. */
struct part *places_find(struct redlock *redlock, const uint64_t uid[2]);
/* Shows claims that wait to whoever looks, once they have waited a while. */
void places_announce(struct redlock *redlock);
void place_hide(struct part *part);
int places_init(struct redlock *redlock);
void places_free(struct redlock *redlock);

/* ---- trust ------------------------------------------------------------------------------------------------------- */

void trust_changed(struct member *member);
void trust_due(struct redlock *redlock);
/* May an attempt begin? */
bool trust_quorum(const struct redlock *redlock);
/* Is it known of each node how it is? */
bool trust_decided(const struct redlock *redlock);
/* Which nodes answer, and which of them may vote. */
nodes_t trust_reachable(const struct redlock *redlock);
nodes_t trust_voters(const struct redlock *redlock);
/* The node that is the same server as this one, or NULL. */
const struct node *trust_twin(const struct node *node);
/* Is it no use to wait for one? */
bool trust_hopeless(const struct redlock *redlock);
/* PAWL_NO_QUORUM or PAWL_CORRUPT, and a sentence that names each node that is missing. */
int trust_why(const struct redlock *redlock, struct pawl_why *why);
/* Prepares the nodes again, as an operator wants it. PAWL_OK: it is under way, and trust_init_done says when it is done. */
int trust_init(struct redlock *redlock, bool force, struct pawl_why *why);
bool trust_init_done(struct redlock *redlock);
/* Is it reachable, but none of the servers that keep these locks? Says why. */
bool trust_stranger(const struct node *node, char *text, size_t size);

/* ---- the engine -------------------------------------------------------------------------------------------------- */

struct redlock {
        struct engine engine; /* first */
        struct engine_host node_host;
        struct node nodes[NODES_MOST];
        uint32_t count;
        uint32_t quorum;
        nodes_t all;
        int64_t timeout;
        struct roster roster; /* as far as we know */
        uint64_t tag;         /* of it */
        bool founding;        /* an operator makes a new set of servers */
        bool founding_waits;  /* until the leases of the former one are over */
        char prefix_start[6]; /* the first bytes of keys of locks */
        bool init_manual;
        bool even;
        bool tls;
        uint32_t told; /* how many can vote, as it was logged last */
        bool ever;     /* there was a majority */
        struct list rounds;
        struct list spare_rounds;
        size_t spare_count;
        struct list renewals;
        struct list pending;
        struct list inquiries;
        struct list *buckets; /* of places */
        size_t bucket_count;
        size_t place_count;
        struct list spare_places;
        struct timer tend;     /* housekeeping: nodes to mend, releases to give up, claims to announce */
        struct timer patience; /* of the claims that are pending */
        int64_t grace_until;   /* for nodes that were never reached, once there is a majority; 0: there is none */
        int64_t announce_at;   /* NEVER: nobody is to be announced */
        int64_t mend_at;
};

static inline struct redlock *redlock_of(struct engine *engine)
{
        return (struct redlock *)(void *)engine;
}

static inline int64_t redlock_now(const struct redlock *redlock)
{
        return loop_now(redlock->engine.host->loop);
}

static inline uint32_t random_below(const struct redlock *redlock, uint32_t limit)
{
        uint32_t number;

        loop_random(redlock->engine.host->loop, &number, sizeof(number));
        return limit ? number % limit : 0;
}

void redlock_log(const struct redlock *redlock, int level, const char *format, ...)
        __attribute__((format(printf, 3, 4)));
/* Housekeeping is due by then. */
void redlock_tend(struct redlock *redlock, int64_t at);

extern const struct engine_inspect redlock_inspect;
extern const struct engine_leases redlock_leases;
/* Questions that wait until it is known who is there. */
void inspect_wake(struct redlock *redlock);
void inspect_free(struct redlock *redlock);

#endif
