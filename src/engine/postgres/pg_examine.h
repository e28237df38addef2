/* pg_examine.h - between pg_examine.c, which asks a server about itself, and pg_judge.c, which knows what the answers
 * mean for locks. */
#ifndef PAWL_PG_EXAMINE_H
#define PAWL_PG_EXAMINE_H

#include "postgres.h"

/* What is asked for in statements.sql: examine. */
enum fact {
        VERSION,
        PID,
        STANDBY,
        READ_ONLY,
        CLOCK,
        FSYNC,
        FULL_PAGES,
        SYNCHRONOUS_COMMIT,
        STANDBYS,
        SYNCHRONOUS_STANDBYS,
        UNKNOWN_STANDBYS,
        STANDBY_NAMES,
        IDLE_TIMEOUT,
        STATEMENT_TIMEOUT,
        LOCK_TIMEOUT,
        ISOLATION,
        KEEPALIVE,
        MAX_CONNECTIONS,
        RESERVED,
        CONNECTIONS_NOW,
        AUTOVACUUM,
        SUPERUSER,
        ROLE,
        DATABASE,
        TLS,
        SCHEMA,
        MAY_CREATE,
        MAY_USE,
        FUNCTIONS,
        REFUSED_FUNCTIONS,
        MAY_WRITE,
        MAY_COUNT,
        MAY_CHANGE,
        OWNER,
        SCHEMA_VERSION,
        SCHEMA_SERVES,
        FACTS
};

enum { FACT_MAX = 256 };

/* A connection of its own: that there is none, or that it is refused, is an answer too. What is not known is empty. */
struct examination {
        struct wire wire;
        struct ask ask;
        struct list listed; /* in postgres->examinations */
        struct timer over;  /* freed in a turn of its own */
        struct postgres *postgres;
        struct inquiry *inquiry; /* NULL: answered, or nobody wants to know any more */
        int version;             /* of the server: 150004 */
        int64_t schema_version;  /* -1: not known */
        int64_t schema_serves;   /* from which version on */
        int64_t clock_off;       /* us, the server's less ours */
        bool clock_known;
        bool asked; /* for the facts */
        char facts[FACTS][FACT_MAX];
        char distrust[1024]; /* why nothing of the schema may be run, and what resolves it; empty: it may */
        char mend[8192];     /* the command being told */
};

/* Tells what all of it means. */
void judge_all(struct examination *examination);
/* Tells that it cannot be asked, or no longer. */
void judge_absence(struct examination *examination, const struct pawl_why *why);

#endif
