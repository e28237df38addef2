/* sqlite.h - what the files of the guard in an SQLite database share. */
#ifndef PAWL_GUARD_SQLITE_H
#define PAWL_GUARD_SQLITE_H

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>

#include "../guard.h"

enum { SCHEMA_VERSION = 1 };

/* Every statement, prepared at its first use. */
enum query {
        QUERY_BEGIN,
        QUERY_COMMIT,
        QUERY_ROLLBACK,
        QUERY_OBJECTS, /* how many of ours there are, and how many of those that came later */
        QUERY_LOOK,    /* the mark, the floor, the layout's version */
        QUERY_READ,    /* the same, and the data */
        QUERY_RAISE,   /* the mark */
        QUERY_PUT,
        QUERY_GET,
        QUERY_FORGET,
        QUERY_LIST,
        QUERY_FLOOR,
        QUERY_PRUNE,
        QUERY_SWAPPED, /* the id of the swap that made a version */
        QUERY_NAME_SWAP,
        QUERY_FORGET_SWAP,
        QUERY_PRUNE_SWAPS,
        QUERIES
};

/* One connection, used by one thread at a time. */
struct sqlite {
        pawl_guard guard;
        pthread_mutex_t mutex; /* of busy alone */
        pthread_cond_t left;
        bool mutex_made;
        bool busy;        /* a thread has the connection, and all below */
        int64_t deadline; /* of its call, ns: for its turn and for every lock of the database together */
        bool create;      /* a database that is not there */
        bool set_up;      /* the connection does as we want */
        bool ready;       /* our tables have been seen */
        uint32_t wait_ms;
        char *path; /* without symbolic links before its last name */
        sqlite3 *db;
        sqlite3_stmt *statements[QUERIES];
};

static inline struct sqlite *sqlite_of(pawl_guard *guard)
{
        return (struct sqlite *)guard;
}

/* ---- sqlite_turn.c: threads take turns ------------------------------------------------------------------------------ */

int sqlite_make_turns(struct sqlite *sqlite, struct pawl_why *why);
void sqlite_end_turns(struct sqlite *sqlite);
/* Our turn, or PAWL_TIMEOUT. */
int sqlite_take_turn(struct sqlite *sqlite, struct pawl_why *why);
void sqlite_leave_turn(struct sqlite *sqlite);
/* For sqlite3_busy_handler: waits a little, until the deadline of the call. arg is the guard. */
int sqlite_wait_for_lock(void *arg, int count);

/* ---- sqlite_base.c: the connection; for who has the turn ------------------------------------------------------------ */

/* Opens the file, and reads nothing of it. */
int sqlite_connect(struct sqlite *sqlite, struct pawl_why *why);
/* Before every call: sets the connection up if that was not done, and looks whether the file is still the one that was
 * opened. */
int sqlite_set_up(struct sqlite *sqlite, struct pawl_why *why);
void sqlite_disconnect(struct sqlite *sqlite);
/* The sentence and the code for one of SQLite's codes, of the last call. */
int sqlite_fail(struct sqlite *sqlite, int code, struct pawl_why *why);
/* A statement, reset and without values. */
int sqlite_prepare(struct sqlite *sqlite, enum query query, sqlite3_stmt **statement, struct pawl_why *why);
/* Steps to the end, with the values that were bound, and resets; PAWL_OK or why not. */
int sqlite_finish(struct sqlite *sqlite, sqlite3_stmt *statement, struct pawl_why *why);
/* Have we our tables? Some of them, but not all: PAWL_CORRUPT. *whole, which may be NULL: and what came later, too. */
int sqlite_look_for_tables(struct sqlite *sqlite, bool *found, bool *whole, struct pawl_why *why);
/* A transaction that may write, in a database with our tables. */
int sqlite_begin(struct sqlite *sqlite, struct pawl_why *why);
/* PAWL_OK is committed, and on the disk; anything else is rolled back. Returns code, or why the commit failed. */
int sqlite_end(struct sqlite *sqlite, int code, struct pawl_why *why);

/* ---- sqlite_examine.c ---------------------------------------------------------------------------------------------- */

int sqlite_examine(pawl_guard *guard, pawl_finding_fn *fn, void *arg, struct pawl_why *why);

#endif
