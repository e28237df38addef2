/* polite.h - row 14 on a server that tests/servers starts: eight waiters that hold the lock for 1 ms and then pause for 5
 * ms. */
#ifndef PAWL_BENCH_POLITE_H
#define PAWL_BENCH_POLITE_H

#include "crew.h"

struct server;

/* Floor, peer and pawl in turn on that server; prints the line. target is of pawl/1000. */
void polite_compare(const struct server *server, const char *engine,
                    void (*floor)(struct crew *crew, uint32_t me, void *arg), const char *peer, int cores,
                    const char *target);

#endif
