/* pgguard.h - the guard in PostgreSQL: what its files share. guard.sql compares and stores; here are connections, deadlines
 * and sentences.
 *
 *   pgguard_open.c     the calls of the guard, each one statement
 *   pgguard_run.c      one call: takes a connection, tries again what may be tried again
 *   pgguard_pool.c     connections, and who waits for one
 *   pgguard_connect.c  libpq within a deadline: connects, sends, reads
 *   pgguard_resolve.c  names of hosts become addresses
 *   pgguard_schema.c   makes sure that guard.sql has been run
 *   pgguard_error.c    from SQLSTATE to a code and a sentence
 *   pgguard_examine.c  what pawl doctor asks */
#ifndef PAWL_PGGUARD_H
#define PAWL_PGGUARD_H

#include <libpq-fe.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "../../base/pq_params.h"
#include "../guard.h"

enum { PGGUARD_CONNECTIONS = 8, PGGUARD_VALUES = 4, PGGUARD_VERSION = 1 };

enum pgguard_statement {
        PGGUARD_ADMIT,
        PGGUARD_PUT,
        PGGUARD_GET,
        PGGUARD_FORGET,
        PGGUARD_LIST,
        PGGUARD_PRUNE,
        PGGUARD_LOOK,
        PGGUARD_SWAP,
        PGGUARD_IS_THERE,
        PGGUARD_SETTINGS,
        PGGUARD_RIGHTS,
        PGGUARD_STATEMENTS
};

struct pgguard {
        pawl_guard guard;
        struct pq_params params;
        char *where;  /* the URL without secrets */
        char *schema; /* plain letters, digits and underscores */
        char *owner;  /* owner= of the URL: whose schema it is; empty: it is not said */
        char *statements[PGGUARD_STATEMENTS];
        bool may_create;
        int64_t wait;      /* ns */
        atomic_bool ready; /* the schema was seen */
        bool made;         /* the mutex and the condition are there */
        pthread_mutex_t mutex;
        pthread_cond_t returned;
        PGconn *idle[PGGUARD_CONNECTIONS]; /* under the mutex, as the next two */
        uint32_t idle_count;
        uint32_t open_count; /* idle or in use */
};

/* One statement with its values, and how it ended. */
struct pgguard_call {
        enum pgguard_statement statement;
        bool changes;         /* more than a mark: it matters whether a lost one was done */
        bool repeatable;      /* done twice is as done once */
        bool lacking;         /* its function is not there: the others may be, of an older pawl */
        const char *resource; /* for the sentences; may be NULL */
        uint64_t token;
        const struct guard_swap *swap; /* NULL: it is none */
        uint64_t greatest;             /* that refused it, if it was stale */
        int count;
        Oid types[PGGUARD_VALUES];
        const char *values[PGGUARD_VALUES];
        int lengths[PGGUARD_VALUES];
        struct pawl_why *why;
        int64_t deadline;
        PGresult *result; /* after PAWL_OK; the caller's, for PQclear */
};

/* How one try ended. */
enum pgguard_end {
        PGGUARD_DONE,
        PGGUARD_REFUSED, /* the server said no, and nothing was changed */
        PGGUARD_AGAIN,   /* the same, but the next try may succeed: another transaction was in the way */
        PGGUARD_MISSING, /* the functions are not there */
        PGGUARD_LOST     /* the connection broke: done or not */
};

static inline struct pgguard *pgguard_of(pawl_guard *guard)
{
        return (struct pgguard *)guard;
}

int64_t pgguard_now(void); /* ns */

extern const struct guard_ops postgres_guard;

/* ---- pgguard_run.c */
/* PAWL_OK and a result, or a sentence in call->why. */
int pgguard_run(struct pgguard *postgres, struct pgguard_call *call);
void pgguard_add_text(struct pgguard_call *call, const char *text);
/* The number is kept in room, in the order of the network. */
void pgguard_add_number(struct pgguard_call *call, uint64_t number, uint64_t *room);
void pgguard_add_bytes(struct pgguard_call *call, const void *bytes, size_t size);
/* Is there such a field in the answer, and not NULL? */
bool pgguard_has(const PGresult *result, int row, int column);
const char *pgguard_text(const PGresult *result, int row, int column); /* "" if not */
/* What stands there as a binary number of eight bytes; 0 if it is none. */
uint64_t pgguard_number(const PGresult *result, int row, int column);

/* ---- pgguard_pool.c */
/* An idle connection, or NULL and the right to open one. */
int pgguard_take(struct pgguard *postgres, int64_t deadline, PGconn **conn, struct pawl_why *why);
/* Back among the idle ones; a broken one, or NULL, gives back the right alone. */
void pgguard_give(struct pgguard *postgres, PGconn *conn);
void pgguard_close_all(struct pgguard *postgres);

/* ---- pgguard_resolve.c */
struct pgguard_places;
/* The guard's parameters with an address for each name. They borrow from the guard and from places, which is for free(),
 * whatever is returned. */
int pgguard_resolve(const struct pgguard *postgres, int64_t deadline, struct pq_params *params,
                    struct pgguard_places **places, struct pawl_why *why);

/* ---- pgguard_connect.c */
int pgguard_connect(struct pgguard *postgres, int64_t deadline, PGconn **conn, struct pawl_why *why);
/* Sends the statement with a time limit of the server's own, and reads the answer. *error may be what the server said. */
enum pgguard_end pgguard_ask(PGconn *conn, const char *statement, struct pgguard_call *call, PGresult **error);
/* Runs a script. */
enum pgguard_end pgguard_script(PGconn *conn, const char *script, int64_t deadline, PGresult **error);

/* ---- pgguard_schema.c */
char *pgguard_with_schema(const char *text, const char *schema); /* NULL: no memory */
/* Looks for the functions, and makes them where they are not. */
enum pgguard_end pgguard_prepare(struct pgguard *postgres, PGconn *conn, struct pgguard_call *call, PGresult **error,
                                 int *code);

/* ---- pgguard_error.c */
const char *pgguard_state(const PGresult *error); /* its SQLSTATE, "" if it has none */
enum pgguard_end pgguard_end_of(const PGresult *error);
/* The code and the sentence. */
int pgguard_tell(const struct pgguard *postgres, struct pgguard_call *call, const PGresult *error);
/* The same for a connection that could not be made. */
int pgguard_tell_connect(const struct pgguard *postgres, const PGconn *conn, struct pawl_why *why);
/* What the functions need that are not ours: who may. */
int pgguard_tell_denied(const struct pgguard *postgres, const char *text, struct pawl_why *why);

/* ---- pgguard_examine.c */
int pgguard_examine(pawl_guard *guard, pawl_finding_fn *fn, void *arg, struct pawl_why *why);

#endif
