/* peer.h - other lock libraries, measured in the same run. Each is a program of ours in bench/peers that drives it. It stays
 * up, is given one job in a line, and answers with a figure in a line; so it can take turns with the others.
 *
 *   pair N                 nanoseconds per acquire and release, one after the other
 *   threads T N            pairs a second: T of them at once, each with a lock of its own and N pairs
 *   turns W SECONDS        owner changes a second, W waiters on one lock
 *   polite W SECONDS       hand-offs a second, each held for 1 ms, with a pause of 5 ms
 *
 * With several ports it locks the majority of the servers. */
#ifndef PAWL_BENCH_PEER_H
#define PAWL_BENCH_PEER_H

#include <stddef.h>
#include <stdint.h>

struct contender;

/* Starts BUILD/peers/name (bench/run puts it there if the peer is installed). Gives a contender that asks it for one job
 * again and again; without a sample if the peer is not there. peer_stop ends it, and takes one that is not there. */
struct contender peer_start(const char *name, const uint16_t *ports, size_t n, const char *job);
void peer_stop(struct contender *contender);

#endif
