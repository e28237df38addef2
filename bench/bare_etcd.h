/* bare_etcd.h - etcd by nghttp2 on one blocking connection, with messages that are put together once: the least that a lock
 * can cost there. */
#ifndef PAWL_BENCH_BARE_ETCD_H
#define PAWL_BENCH_BARE_ETCD_H

#include <stdint.h>
#include <sys/types.h>

#include "crew.h"

struct bare_etcd;

/* With a lease of its own. Ends the program instead of failing. */
struct bare_etcd *bare_etcd_connect(uint16_t port);
void bare_etcd_close(struct bare_etcd *etcd);

/* n times: a transaction that puts a key if it is not there and reads the first of the line, then the key's deletion. */
void bare_etcd_pairs(struct bare_etcd *etcd, int n);

/* A member of a crew: a standing watch tells of every deletion in the line; as many as were before us, and it is our turn.
 * True only while nobody leaves the line but its first. arg is a struct turns. */
void bare_etcd_turns(struct crew *crew, uint32_t me, void *arg);
/* A process that writes other keys all the time, about one a millisecond, until it is stopped or we die. */
pid_t bare_etcd_noise_start(uint16_t port);
void bare_etcd_noise_stop(pid_t noise);

#endif
