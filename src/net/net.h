/* net.h - one connection to one server, on the loop: TCP or a unix socket, TLS over it if wanted. Names are resolved
 * beside the loop, nothing here blocks, no signal is raised, and no event is told inside the call that caused it.
 *
 *   DOWN --net_connect--> CONNECTING --> UP --> (heard)* --> DOWN
 *                              '------ down(why) ------'
 *
 * CONNECTING covers the resolver, every address in its turn, and the TLS handshake with its checks. */
#ifndef PAWL_NET_H
#define PAWL_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/url.h"
#include "../base/why.h"
#include "../loop/loop.h"

struct net;
struct net_tls;     /* how to speak TLS: read once from files, used by any number of connections */
struct net_secured; /* one connection's TLS state */
struct net_lookup;  /* one name being resolved */
struct addrinfo;

enum net_state { NET_DOWN, NET_CONNECTING, NET_UP };

struct net_events {
        /* Connected, and the server is who it should be. */
        void (*up)(struct net *net);
        /* Bytes from the server, all of them taken. It may call net_close or net_fail. */
        void (*heard)(struct net *net, const char *data, size_t size);
        /* It is DOWN: never came up, or was lost. net_connect may be called here, or later. why has a sentence and one of
         * PAWL_UNREACHABLE (with sys_errno if a system call said so), PAWL_DENIED (certificates; rights to a unix
         * socket), PAWL_SYSTEM, PAWL_NO_MEMORY, or what net_fail was given. */
        void (*down)(struct net *net, const struct pawl_why *why);
};

/* Where to. Everything is borrowed until net_close. */
struct net_target {
        const char *host; /* a name or an address */
        uint16_t port;
        const char *path;    /* a unix socket instead, or NULL; '@' first: the abstract namespace */
        struct net_tls *tls; /* NULL: none */
        /* A server that vanished without a word is noticed within this: keepalive and TCP_USER_TIMEOUT. 0: 10 s. */
        int64_t silence;
};

struct net_buffer {
        char *bytes;
        size_t start, end, room;
};

struct net {
        struct watch watch; /* first */
        struct timer timer; /* the attempt's time limit; then the flush that is due */
        struct loop *loop;
        const struct net_events *events;
        const struct net_target *target;
        enum net_state state;
        uint64_t connections; /* how many times it came up */
        struct net_buffer out;
        struct net_lookup *lookup;
        struct net_secured *secured;
        const struct addrinfo *address; /* being tried; of lookup */
        int64_t until;                  /* of the attempt */
        bool *closed;                   /* in an event of ours: set by net_close */
        int send_error;                 /* an errno: nothing goes out any more; what came in is still to be heard */
        bool failing;                   /* it is over: down is told at the next turn */
        bool given_up;                  /* by net_fail, not by the other side; valid in down */
        struct loop_hot hot;            /* see net_expect */
        char *hot_bytes;                /* what a hot wait got */
        size_t hot_count;
        int hot_fd;      /* the socket, for the thread that sleeps there */
        int slept_in_fd; /* to be closed when nobody sleeps there any more; 0: none */
        bool expecting;
        bool sleepable; /* the socket is ready for hot waits */
        struct pawl_why why;
};

/* Never fails; net_close undoes it. */
void net_init(struct net *net, struct loop *loop, const struct net_events *events, const struct net_target *target);

/* Begins to connect, for at most the time given in all. up or down is told in a later turn. PAWL_OK, or PAWL_NO_MEMORY or
 * PAWL_SYSTEM, and it stays DOWN. */
int net_connect(struct net *net, int64_t time_limit, struct pawl_why *why);

/* Room for size more bytes to send, or NULL (no memory, or more than 64 MB unsent); then net_wrote says how many of them
 * were used. Only while UP; what is written after net_fail is dropped. */
char *net_room(struct net *net, size_t size);
void net_wrote(struct net *net, size_t size);
/* Sends what was written, as far as the socket takes it; the rest goes out as soon as it can. What is written in up or
 * heard goes out by itself when that returns, what is written elsewhere in a turn of the loop in the next turn. Outside of
 * a turn flush, or it waits for the connection's next event: a timer for it would cost a system call each time. */
void net_flush(struct net *net);
/* Written and not yet taken by the socket. */
size_t net_unsent(const struct net *net);

/* An answer is expected any moment, or no longer: a thread that waits for nothing else may sleep in the socket itself. */
void net_expect(struct net *net, bool expected);

/* Ends the connection from our side, with a sentence: down is told in a later turn, and until then the state stays as it
 * was. (A reply that makes no sense, a request that is overdue.) Nothing happens if it is DOWN, or has failed already. */
void net_fail(struct net *net, int code, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Ends it without an event and frees everything; net_connect may follow, and the struct may be freed, also in an event. */
void net_close(struct net *net);

/* ---- TLS ---- */

struct net_tls_options {
        const char *ca_file;   /* who is trusted: NULL: what the system trusts */
        const char *cert_file; /* our own certificate and key, or NULL */
        const char *key_file;
        const char *server_name; /* instead of the target's host, or NULL */
        const char *protocol;    /* what must be spoken inside (ALPN: "h2"), or NULL: it is not said */
        bool insecure;           /* do not check who it is */
};
/* What the URL says of it: ca, cert, key, servername, insecure; they are refused in a URL that is not of the scheme that
 * means TLS. */
int net_tls_options(const struct url *url, const char *scheme, struct net_tls_options *options, struct pawl_why *why);
/* Reads the files. PAWL_OK; PAWL_DENIED, PAWL_INVALID or PAWL_NO_MEMORY with a sentence that names the file. At least TLS
 * 1.2; SNI and the name (or address) are checked unless insecure. */
int net_tls_open(const struct net_tls_options *options, struct net_tls **tls, struct pawl_why *why);
void net_tls_close(struct net_tls *tls);

/* ---- trying again ---- */

/* How long to wait before the next try: doubles from 20 ms to 2 s, each time a random part between half and all of it. */
struct net_backoff {
        uint32_t tries;
};
int64_t net_backoff(struct net_backoff *backoff, struct loop *loop);
static inline void net_backoff_reset(struct net_backoff *backoff)
{
        backoff->tries = 0;
}

#endif
