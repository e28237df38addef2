/* tls.h - one connection's TLS, between bytes and bytes: no socket is known here. Only for net.c. */
#ifndef PAWL_TLS_H
#define PAWL_TLS_H

#include <sys/types.h>

#include "net.h"

int secured_open(struct net_secured **secured, const struct net_target *target, struct pawl_why *why);
/* NULL is fine. */
void secured_close(struct net_secured *secured);

/* From the socket. PAWL_OK or PAWL_NO_MEMORY. */
int secured_put(struct net_secured *secured, const char *bytes, size_t size);
/* For the socket: what is to be sent next, in one piece; then how much of it was. */
size_t secured_sealed(const struct net_secured *secured, const char **bytes);
void secured_sent(struct net_secured *secured, size_t size);

/* The handshake, as far as it gets. PAWL_OK: done, and the server is who it should be. PAWL_BUSY: more bytes are needed.
 * Anything else: it failed, with a sentence; there may be an alert to send. */
int secured_shake(struct net_secured *secured, struct pawl_why *why);
/* What the server said: how many bytes; 0: nothing more for now; -1: it has ended, with a sentence. */
ssize_t secured_read(struct net_secured *secured, char *bytes, size_t size, struct pawl_why *why);
/* Seals some of it; how many bytes it took, > 0; or -1 and a sentence. */
ssize_t secured_write(struct net_secured *secured, const char *bytes, size_t size, struct pawl_why *why);
/* We end it: leaves the alert that says so to be sent. */
void secured_bye(struct net_secured *secured);

/* "host:port", "[address]:port" or a path. Returns text. */
enum { WHERE_SIZE = 300 };
const char *net_where(const struct net_target *target, char text[WHERE_SIZE]);

#endif
