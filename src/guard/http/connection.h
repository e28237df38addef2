/* connection.h - one connection to an HTTP server, and one question on it at a time, waited for. Each has a loop of its own,
 * so that any thread may use one, and as many threads as there are connections at once. */
#ifndef PAWL_HTTP_CONNECTION_H
#define PAWL_HTTP_CONNECTION_H

#include "../../net/net.h"
#include "request.h"

struct connection {
        struct net net; /* first */
        struct loop loop;
        struct connection *next; /* among the idle ones */
        int64_t used_at;         /* when the last answer came */
        bool reused;             /* it has answered before */
        bool proven;             /* the server on it has admitted a token: it checks them */
        bool knows_versions;     /* ... has told a version */
        bool spoiled;            /* what comes next cannot be told from what was before */

        struct reply *reply; /* being read; NULL: nothing is asked */
        const struct request *request;
        size_t written; /* of the request's body */
        bool begun;     /* its head was written */
        bool over;      /* with the answer, or without: see code */
        int code;
        struct pawl_why why;
};

/* Not connected yet. target is borrowed until it is closed. */
int connection_open(struct connection **connection, const struct net_target *target, struct pawl_why *why);
/* NULL is fine. */
void connection_close(struct connection *connection);
/* In a child of who opened it, to whom it goes on belonging: only our copies of its descriptors are closed. */
void connection_abandon(struct connection *connection);

/* Nothing was heard since the last answer: neither words nor the end. */
bool connection_is_quiet(struct connection *connection);
/* Connects if it is not, asks, and waits for the whole answer until the time given. reply is initialised here, and is to be
 * freed whatever is returned. */
int connection_ask(struct connection *connection, const struct request *request, int64_t until, struct reply *reply,
                   struct pawl_why *why);
/* After a connection_ask that failed: the server may have got all of the request. */
bool connection_has_asked(const struct connection *connection);
/* Another question may follow. */
bool connection_keeps(const struct connection *connection, const struct reply *reply);

#endif
