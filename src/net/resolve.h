/* resolve.h - from a name to addresses, beside the loop. Only for net.c. */
#ifndef PAWL_RESOLVE_H
#define PAWL_RESOLVE_H

#include <netdb.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "../base/why.h"
#include "../loop/loop.h"

/* Shared by the connection and the thread that asks; the last of them frees it, whoever that is. */
struct net_lookup {
        struct watch watch; /* first; of the eventfd by which the thread says that it is done */
        struct loop *loop;
        void (*done)(void *arg);
        void *arg;
        bool open;    /* the thread has not been heard yet */
        bool at_once; /* it was an address: there is no thread, and done is not called */
        atomic_int holders;
        atomic_bool answered;
        struct addrinfo *addresses; /* what was found; owned */
        int error;                  /* 0 or EAI_... */
        int system_error;           /* for EAI_SYSTEM */
        char service[8];
        char host[];
};

/* An address is there at once, and at_once says so. For a name done is called in a later turn. PAWL_OK, PAWL_NO_MEMORY or
 * PAWL_SYSTEM. host is copied. */
int lookup_open(struct net_lookup **lookup, struct loop *loop, const char *host, uint16_t port, void (*done)(void *),
                void *arg, struct pawl_why *why);
/* After done: PAWL_OK and there is at least one address, or a sentence that says why not. */
int lookup_result(const struct net_lookup *lookup, struct pawl_why *why);
/* Lets go of it, also while the thread is still asking. NULL is fine. */
void lookup_close(struct net_lookup *lookup);

#endif
