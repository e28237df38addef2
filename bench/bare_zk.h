/* bare_zk.h - ZooKeeper by its own C library, single-threaded, and nothing else: the least that a lock can cost there. */
#ifndef PAWL_BENCH_BARE_ZK_H
#define PAWL_BENCH_BARE_ZK_H

#include <stdbool.h>
#include <stdint.h>

#include "crew.h"

struct bare_zk;

/* Ends the program instead of failing. */
struct bare_zk *bare_zk_connect(uint16_t port);
void bare_zk_close(struct bare_zk *zk);

/* n times: an ephemeral node with a number, then its deletion. In between the list of the line, asked for in the same flight
 * as the node, if looks. */
void bare_zk_pairs(struct bare_zk *zk, int n, bool looks);
/* Some thousand of them on a connection of its own: the server is in Java, which compiles while it runs. */
void bare_zk_warm_up(uint16_t port);

/* A member of a crew: node and list in one flight; then a watch on the node before it, whose end is the grant if it was the
 * first, else another look. No token, no owner. arg is a struct turns. */
void bare_zk_turns(struct crew *crew, uint32_t me, void *arg);

#endif
