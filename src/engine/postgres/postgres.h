/* postgres.h - the engine for a PostgreSQL database: what its files share. NOTES.md tells the protocol, schema.sql has
 * it.
 *
 *   pg_open.c      the URL, and the ops table
 *   pg_wire.c      one connection: statements out, results in, in order; coming back after a loss
 *   pg_hello.c     what is said first: names resolved, settings, the schema, the session's id
 *   pg_error.c     what errors mean
 *   pg_claim.c     acquire, cancel, release: one request of a claim at a time
 *   pg_renew.c     renewal, of many claims in one statement
 *   pg_wait.c      claims that wait: the queue of a name, grants that are told, looking again
 *   pg_ghost.c     what was given up without an answer, to be cleaned up behind the caller
 *   pg_inspect.c   list, show, history, break, ask
 *   pg_value.c     bytes beside a lock
 *   pg_lease.c     leases as words
 *   pg_examine.c   what pawl doctor asks; pg_judge.c: what the answers mean
 *   advisory.h     the other mode: locks of sessions, without rows */
#ifndef PAWL_POSTGRES_H
#define PAWL_POSTGRES_H

#include <libpq-fe.h>

#include "../../base/list.h"
#include "../../base/pq_params.h"
#include "../../base/table.h"
#include "../../base/uid.h"
#include "../../net/net.h"
#include "../../net/resolve.h"
#include "../engine.h"
#include "engine/postgres/sql.h" /* made from schema.sql and statements.sql at build time: enum sql, sql_text, sql_schema */

struct postgres;
struct wire;
struct ask;

/* ---- the wire -------------------------------------------------------------------------------------------------- */

/* One statement on its way, embedded in whoever asks. Asked with wire_ask, answered exactly once: with its rows, or
 * with NULL and why (an error of the server too: pg_error.c made the code of it). */
struct ask {
        struct list listed; /* in wire->asked */
        int64_t sent_at;    /* before its bytes left */
        /* Calls wire_send, once. PAWL_OK, PAWL_NO_MEMORY, or PAWL_UNREACHABLE: the connection broke under it. */
        int (*write)(struct ask *ask, struct wire *wire);
        void (*answered)(struct ask *ask, const PGresult *rows, const struct pawl_why *why);
        PGresult *result; /* what came of it so far */
        enum sql sql;
        bool prepares; /* its statement is prepared in the same flight: one result more */
        bool tells;    /* it may grant something to others, who are notified by the statement behind it: SQL_TELL */
};

/* Parameters of a statement, in their order. Everything is borrowed until wire_send. */
enum { VALUES_MAX = 16 };
struct values {
        const char *value[VALUES_MAX];
        int length[VALUES_MAX];
        int format[VALUES_MAX];
        char number[VALUES_MAX][21]; /* room for those that are made here */
        int count;
};
void value_text(struct values *values, const char *text);
void value_number(struct values *values, int64_t number);
void value_bool(struct values *values, bool yes);
void value_bytes(struct values *values, const void *bytes, size_t size); /* as bytea; NULL if there are none */
void value_uid(struct values *values, const uint64_t uid[2]);            /* 16 bytes, as a uuid */
/* Fields of an answer, from text. What is NULL, not there or something else is "", false and 0. */
const char *row_text(const PGresult *rows, int row, int column);
bool row_bool(const PGresult *rows, int row, int column);
bool row_uid(const PGresult *rows, int row, int column, uint64_t uid[2]);
int64_t row_number(const PGresult *rows, int row, int column);
int64_t row_binary_number(const PGresult *rows, int row, int column); /* of an answer in bytes */

/* Connections that were given up with something unanswered, the latest last: their ids, and their processes at the server.
 * Of more than these the oldest is forgotten. */
enum { FORMER_MAX = 16 };
struct former {
        uint64_t sessions[FORMER_MAX];
        int64_t pids[FORMER_MAX];
        size_t count;
};
enum { FORMER_TEXT = 22 * FORMER_MAX + 3 };
void former_add(struct former *former, uint64_t session, int64_t pid);
/* As an array of the server's: {1,2}. */
void former_sessions(const struct former *former, char text[FORMER_TEXT]);
void former_pids(const struct former *former, char text[FORMER_TEXT]);

/*   DOWN --> RESOLVING --> CONNECTING --> GREETING --> ENTERING --> READY
 *                                            |   ^        |
 *                                            |   '-- INSTALLING (the schema is not there yet, or an older one)
 *   any but DOWN --> (failing) --> DOWN                                                          */
enum wire_state { DOWN, RESOLVING, CONNECTING, GREETING, ENTERING, INSTALLING, READY };

struct wire_events {
        /* It is READY. */
        void (*up)(struct wire *wire);
        /* It was lost, or never came up. Everything asked was answered before. */
        void (*down)(struct wire *wire, const struct pawl_why *why, bool was_ready);
        /* Somebody told us something: the payload of a NOTIFY. */
        void (*told)(struct wire *wire, const char *text);
};

struct wire {
        struct watch watch; /* first */
        struct postgres *postgres;
        const struct wire_events *events;
        PGconn *conn;
        struct list asked;    /* sent, in the order of their results */
        struct timer limit;   /* of the attempt to connect; then: is the first of asked answered in time? */
        struct timer again;   /* connect again */
        struct timer failing; /* tells down in a turn of its own */
        struct net_backoff backoff;
        struct net_lookup *lookup;
        int64_t lock_limit;              /* what the server has */
        char *hosts, *addresses, *ports; /* one of each for every address that was found; NULL: as in the URL */
        uint32_t resolved;               /* hosts of the URL */
        uint32_t found;                  /* addresses */
        uint32_t tried;                  /* of them, in this attempt */
        struct ask hello;
        int64_t until;        /* of the attempt to connect */
        int64_t heard_at;     /* when the last answer came: what waits behind others is not overdue */
        int64_t lost_at;      /* when the last one that was ready was lost */
        int64_t untold_since; /* when it first failed to notify others; 0: it did not */
        uint64_t session;     /* this connection's id: fresh and random each time */
        uint64_t prepared;    /* a bit for each statement */
        enum wire_state state;
        enum sql enter; /* the statement that opens the session */
        struct loop_hot hot;
        int hot_fd;
        bool hot_found; /* by the one who sleeps there */
        int version;    /* of the server: 150004 */
        int64_t pid;    /* of its process for us */
        bool watched;
        bool expecting;
        bool wanted;         /* connect, and stay connected */
        bool met;            /* the last attempt reached a server */
        bool ever;           /* one was ready */
        bool fast;           /* we may use the tables themselves */
        bool installed;      /* the schema was installed for this connection already */
        int older;           /* the version that it had then; 0: there was none */
        bool looks;          /* nothing is said first, for who only looks (pg_examine.c) */
        bool untold;         /* those whom it handed locks to are to be notified again */
        bool patient;        /* asks may take as long as they like: they wait for a lock (advisory) */
        struct pawl_why why; /* why it is not READY */
};

/* 0 or an errno. */
int wire_init(struct wire *wire, struct postgres *postgres, const struct wire_events *events);
void wire_close(struct wire *wire);
/* Makes sure that it is connected, or being connected. */
void wire_want(struct wire *wire);
/* Asks. PAWL_OK; PAWL_UNREACHABLE (not READY) or PAWL_NO_MEMORY, and it is not asked. */
int wire_ask(struct wire *wire, struct ask *ask);
/* Inside ask->write: sends the statement, prepared on first use. */
int wire_send(struct wire *wire, struct ask *ask, enum sql sql, const struct values *values);
/* How long a statement waits for a row at most, however long the leases are. */
#define LOCK_LIMIT_MOST SECOND
/* A lease of this length will be renewed here: no statement may hold the renewal up for long. */
void postgres_bound(struct postgres *postgres, int64_t ttl);
/* Notifies those whom the session handed locks to, if that has failed. */
void wire_tell_again(struct wire *wire);
/* The asker goes away: its rows will be dropped. Only for asks that were asked and not answered. */
void wire_forget(struct wire *wire, struct ask *ask);
/* Ends the connection from our side; down is told in a later turn. */
void wire_fail(struct wire *wire, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
static inline bool wire_ready(const struct wire *wire)
{
        return wire->state == READY;
}

/* pg_hello.c, for pg_wire.c: begins with the names; then what is said first on a new connection. */
void hello_resolve(struct wire *wire);
void hello_begin(struct wire *wire);
void hello_installed(struct wire *wire, const PGresult *result);
void hello_earlier(struct wire *wire); /* again: are those gone that were given up? */
void wire_flush(struct wire *wire);
/* The addresses are known: to the next of them, each for its part of the time. PAWL_OK, or PAWL_NO_MEMORY. */
int wire_connect(struct wire *wire);
/* The index-th of a list with commas, or the only one there is. *length 0: empty, or there is none. */
const char *item_of(const char *list, uint32_t index, size_t *length);
void wire_be_ready(struct wire *wire);

/* pg_error.c: a PAWL_ code and a sentence. */
int error_of_result(const struct postgres *postgres, const PGresult *result, struct pawl_why *why);
int error_of_connecting(const struct postgres *postgres, const PGconn *conn, struct pawl_why *why); /* it never stood */
int error_of_connection(const struct postgres *postgres, const PGconn *conn, struct pawl_why *why);
/* Is it a state of the server, or of a transaction, that passes? */
bool error_passes(const struct pawl_why *why);
bool error_is(const PGresult *result, const char *state);
/* The statement waited for a row for too long: nothing was done. */
bool error_is_blocked(const PGresult *result);

/* ---- claims ---------------------------------------------------------------------------------------------------- */

/*   PARKED --> ASKING --> HELD --> RELEASING --> (released)
 *     ^          '--> WAITING --> CONFIRMING --> HELD
 *     '--- from ASKING, CONFIRMING, RELEASING, CANCELLING when the connection is lost: asked again, which is safe
 *   all before HELD --> CANCELLING --> (refused) */
enum claim_state { PARKED, ASKING, WAITING, CONFIRMING, HELD, RELEASING, CANCELLING, ADOPTING };

/* A request goes the shortest way that may do; one that came to nothing is followed by the next. */
enum way {
        ALONE, /* one statement: nobody holds it, or nobody waits */
        FIRST, /* one statement: the first in line gets it */
        WHOLE  /* a function */
};

struct waitlist;
struct renewal;

/* The engine's part of a claim. At most one request of a claim is under way, so that none overtakes another. */
struct part {
        struct ask ask;
        struct list listed; /* postgres->parked, or its waitlist's claims */
        struct link link;   /* in postgres->claims, by uid */
        struct claim *claim;
        struct postgres *postgres;
        uint64_t token;
        int64_t ends_at; /* the lease, as far as we know: at the server not before that */
        uint64_t order;  /* of being asked for: those that are asked again are, in this order */
        union {
                struct { /* until it is held */
                        struct waitlist *waitlist;
                        uint64_t ticket;
                        int64_t asked_at; /* when it last asked and was told to wait */
                        uint64_t floor;   /* a grant that came later has a greater token */
                        int64_t tried_at; /* since when */
                };
                struct {                         /* while it is held */
                        struct renewal *renewal; /* under way, with this claim in it */
                        size_t place;
                };
                int64_t until; /* while it is given back: afterwards it is pointless */
        };
        uint32_t told_lease; /* ms: granted by news that came before the answer; 0: not */
        uint8_t state;       /* enum claim_state */
        uint8_t want;        /* what to ask for when it is parked: ASKING, RELEASING, CANCELLING or ADOPTING */
        bool known;          /* to the engine: from acquire until it is told */
        bool cancelled;      /* when the answer is there */
        bool doubtful;       /* the server may know of it */
        uint8_t way;         /* enum way: how the request under way, or the next, is asked */
        bool taking;         /* the short statement is under way */
        bool blocked;        /* somebody else has locked its row: lock_timeout ended the last request */
};

/* The claims of this client that wait for one name. One that looks is not among them meanwhile: it asks. */
struct waitlist {
        struct link link; /* in postgres->waitlists, by name */
        struct list listed;
        struct list claims; /* in the order of their tickets */
        struct timer timer; /* look again */
        struct postgres *postgres;
        uint32_t looks;
        size_t name_length;
        char name[];
};

enum { NAME_HASHES = 256 };

struct advisory; /* pg_advisory.c */

struct postgres {
        struct engine engine; /* first */
        struct wire wire;
        struct pq_params params;
        char *where; /* for sentences: host:port, ... */
        char *prefix;
        size_t prefix_length;
        char *schema;
        char *owner; /* owner= of the URL: whose schema it is; empty: it is not said */
        int64_t timeout;
        bool create;         /* the schema, if it is not there */
        bool pooler_is_fine; /* pooler=session: the user says so */
        struct list parked;
        struct list queues; /* of struct waitlist */
        struct list renewals;
        struct list ghosts;
        struct list questions; /* pg_inspect.c */
        struct list errands;   /* pg_value.c */
        struct former
                former; /* where a value was sent: what is under way there must not be done after what is sent now */
        struct former earlier;    /* where anything was: see pg_hello.c */
        int64_t lock_limit;       /* how long a statement may wait for a row: what is behind it waits too */
        struct part *retried;     /* its row was locked, and it is tried again: one at a time */
        struct list examinations; /* pg_examine.c */
        struct table claims;
        struct table waitlists;
        size_t known; /* claims */
        uint64_t orders;
        /* By the name's hash. Short statements under way: none that comes later may overtake them. Names that had a
         * queue when they were last asked for: the short statement would be a round trip for nothing. */
        uint32_t taking[NAME_HASHES];
        bool crowded[NAME_HASHES];
        struct pawl_why refusal; /* the last one that parked a claim for a while */
        struct timer retry;      /* ask again what the server could not do at the moment */
        struct timer reap;       /* old rows into the floor, now and then */
        struct ask reaping;
        struct advisory *advisory; /* NULL: rows */
};

static inline struct postgres *postgres_of(struct engine *engine)
{
        return (struct postgres *)(void *)engine;
}
static inline struct part *part_of(const struct claim *claim)
{
        return claim->part;
}
static inline int64_t postgres_now(const struct postgres *postgres)
{
        return loop_now(postgres->engine.host->loop);
}
/* The prefix and the name, as the store knows it. */
enum { PREFIX_MAX = 200, KEY_MAX = PREFIX_MAX + PAWL_NAME_MAX };
const char *key_of(const struct postgres *postgres, const char *name, char key[KEY_MAX + 1]);

extern const struct wire_events lease_events; /* pg_claim.c */
void claim_acquire(struct engine *engine, struct claim *claim);
void claim_cancel(struct engine *engine, struct claim *claim);
int claim_overdue(struct engine *engine, const struct claim *claim, struct pawl_why *why);
void claim_renew(struct engine *engine, struct claim *const *claims, size_t n);
void claim_release(struct engine *engine, struct claim *claim);
void claim_know(struct postgres *postgres, struct claim *claim);
void claim_forget(struct part *part);
void claim_told(struct part *part, uint64_t token, int64_t sent_at); /* granted */
void claim_refuse(struct part *part, int code, const char *why);
void claim_park(struct part *part, enum claim_state want);
void claim_confirm(struct part *part);
void claim_broken(struct part *part);
void claim_asked(struct part *part);
struct part *claim_find(struct postgres *postgres, const uint64_t uid[2]);
/* Rows from the second on: grants to claims of ours (schema.sql: release). */
void claims_granted(struct postgres *postgres, const PGresult *rows);
void claims_retry(struct timer *timer);
void retry_later(struct postgres *postgres);    /* the server lives but cannot serve at the moment */
bool is_final(const struct pawl_why *why);      /* nothing will change by trying again */
void claim_gone(struct part *part, int reason); /* enum pawl_reason */

/* pg_renew.c */
void renewal_leave(struct part *part); /* it is given back: the answer is not for it any more */
void renewals_free(struct postgres *postgres);

/* pg_wait.c */
int wait_begin(struct part *part, int64_t look_in_ms);
void wait_end(struct part *part); /* it does not wait any more, for whatever reason */
void wait_granted(struct part *part, uint64_t token, int64_t lease_ms);
/* Does a claim of ours wait for it? Then no short way will do. */
bool wait_is_here(struct postgres *postgres, const char *name, size_t length);
/* A grant, told by an answer or by NOTIFY. */
void grant_told(struct postgres *postgres, const uint64_t uid[2], uint64_t token, int64_t lease_ms);
void wait_told(struct postgres *postgres, const char *text); /* a NOTIFY */
void wait_look_all(struct postgres *postgres);
void wait_refuse_all(struct postgres *postgres, const struct pawl_why *why);
void wait_free(struct postgres *postgres);

/* pg_ghost.c: remembers to clean up after a claim. Without memory the lease has to do it. */
void ghost_of_part(const struct part *part);
void ghosts_up(struct postgres *postgres);
void ghosts_retry(struct postgres *postgres); /* what failed although there is a connection */
void ghosts_down(struct postgres *postgres);
void ghosts_free(struct postgres *postgres);

/* pg_lease.c */
extern const struct engine_leases postgres_leases;
void lease_ask(struct part *part);

/* pg_inspect.c */
extern const struct engine_inspect postgres_inspect;
void inspect_up(struct postgres *postgres);
void inspect_down(struct postgres *postgres, const struct pawl_why *why, bool was_ready);
void inspect_free(struct postgres *postgres);

/* pg_value.c */
extern const struct engine_values postgres_values;
void values_up(struct postgres *postgres);
void values_down(struct postgres *postgres, const struct pawl_why *why, bool was_ready, bool met);
bool values_forget(struct postgres *postgres, const struct inquiry *inquiry);
void values_free(struct postgres *postgres);

/* pg_examine.c */
void examine_begin(struct engine *engine, struct inquiry *inquiry);
bool examine_forget(struct postgres *postgres, const struct inquiry *inquiry);
void examine_free(struct postgres *postgres);

/* pg_advisory.c */
int advisory_open(struct postgres *postgres, const struct url *url, struct pawl_why *why);
void advisory_close(struct postgres *postgres);
void advisory_acquire(struct engine *engine, struct claim *claim);
void advisory_cancel(struct engine *engine, struct claim *claim);
int advisory_overdue(struct engine *engine, const struct claim *claim, struct pawl_why *why);
void advisory_renew(struct engine *engine, struct claim *const *claims, size_t n);
void advisory_release(struct engine *engine, struct claim *claim);
struct wire *advisory_wire(struct postgres *postgres); /* one that can be asked something; NULL: there is none */
void advisory_want(struct postgres *postgres);         /* there should be one */
/* The one that has the lock; NULL: it is lost. */
struct wire *advisory_wire_of(const struct claim *claim);

#endif
