/* bare_pg.h - PostgreSQL by libpq on one blocking connection, with statements that are prepared once: the least that a
 * lock can cost there. */
#ifndef PAWL_BENCH_BARE_PG_H
#define PAWL_BENCH_BARE_PG_H

#include <stdint.h>

#include "crew.h"

struct bare_pg;

/* Ends the program instead of failing. */
struct bare_pg *bare_pg_connect(uint16_t port);
void bare_pg_close(struct bare_pg *pg);

/* n times: a row with an owner and an end, put there unless it is there and not over; then its deletion. */
void bare_pg_row_pairs(struct bare_pg *pg, int n);
/* n times: an advisory lock of the session, tried and unlocked. */
void bare_pg_advisory_pairs(struct bare_pg *pg, int n);
/* How many transactions the server has committed. It counts those of a client a second later at the latest. */
double bare_pg_commits(void *pg);

/* A member of a crew: an advisory lock that the server hands on in the order of asking. No token, no lease. arg is a struct
 * turns. */
void bare_pg_turns(struct crew *crew, uint32_t me, void *arg);

#endif
