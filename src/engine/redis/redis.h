/* redis.h - the engine for one Redis server: what its files share. NOTES.md tells the protocol, scripts/ has it in Lua.
 *
 *   redis_open.c     the URL, and the ops table
 *   redis_wire.c     one connection: requests out, replies in, in order; the handshake; coming back after a loss
 *   redis_write.c    commands as bytes
 *   redis_claim.c    acquire, cancel, renew, release: one request of a claim at a time
 *   redis_wait.c     claims that wait: the queue of a name, grants that are pushed, looking again
 *   redis_inspect.c  list, show, history, break, ask
 *   redis_lease.c    leases as words
 *   redis_examine.c  what pawl doctor asks
 *   redis_member.c   one member of a quorum (redlock) */
#ifndef PAWL_REDIS_H
#define PAWL_REDIS_H

#include <hiredis/read.h>
#include <hiredis/hiredis.h>

#include "../../base/list.h"
#include "../../net/net.h"
#include "../engine.h"
#include "scripts.h" /* made from scripts/ at build time: enum script, script_list */

struct redis;
struct wire;
struct ask;

/* ---- the wire -------------------------------------------------------------------------------------------------- */

/* One request on its way, embedded in whoever asks. Asked with wire_ask, answered exactly once: with a reply, or with NULL
 * and why. A reply that is an error is told as NULL and why too: wire_error made the code of it. */
struct ask {
        struct list listed; /* in wire->asked */
        int64_t sent_at;    /* when its bytes were written: before they left */
        /* Writes the command (redis_write.c): at wire_ask, and once more with the whole script if the server did not know
         * it. PAWL_OK or PAWL_NO_MEMORY. */
        int (*write)(struct ask *ask, struct wire *wire);
        void (*answered)(struct ask *ask, const redisReply *reply, const struct pawl_why *why);
        bool whole; /* send the script, not its digest */
};

struct wire {
        struct net net; /* first */
        struct redis *redis;
        const char *called; /* "commands" or "news": for the log */
        redisReader *reader;
        struct list asked;     /* sent, in the order of their replies */
        struct ask hello;      /* the handshake */
        struct timer overdue;  /* the first of asked is not answered in time */
        struct timer again;    /* connect again */
        struct net_backoff backoff;
        bool ready;            /* the handshake is done */
        bool wanted;           /* connect, and stay connected */
        bool ever;             /* it was ready once */
        struct pawl_why why;   /* why it is not ready */
        int64_t lost_at;       /* since when */
        void (*up)(struct wire *);   /* ready */
        void (*down)(struct wire *); /* no longer, or a try has failed: wire->why */
        void (*push)(struct wire *, const redisReply *reply); /* news: what nobody asked for */
};

/* Asks. Only while ready; PAWL_OK, or an error and it is not asked. Sends at once if nothing is under way; otherwise with
 * the next reply, together with whatever else was asked meanwhile. */
int wire_ask(struct wire *wire, struct ask *ask);
/* The asker goes away: its reply will be dropped. Only for asks that were asked and not answered. */
void wire_forget(struct wire *wire, struct ask *ask);
/* Makes sure that it is connected, or being connected. */
void wire_want(struct wire *wire);
void wire_init(struct wire *wire, struct redis *redis, const char *called);
void wire_close(struct wire *wire);
/* What an error reply means: a PAWL_ code and a sentence. */
int wire_error(const redisReply *reply, const struct redis *redis, struct pawl_why *why);

/* redis_write.c: begin with the number of words, then exactly so many of the others. They write into the connection's
 * buffer; the first that finds no memory makes write_end say so and takes back what was written. */
struct writer {
        struct wire *wire;
        char *at;
        size_t room;
};
void write_begin(struct wire *wire, size_t words);
void write_text(struct wire *wire, const char *text);
void write_bytes(struct wire *wire, const void *bytes, size_t size);
void write_number(struct wire *wire, int64_t number);
/* The first three words of a script's call: EVALSHA digest keys, or EVAL script keys. words counts those that follow. */
void write_script(struct wire *wire, const struct ask *ask, enum script script, size_t keys, size_t words);
/* prefix and name as one word. */
void write_key(struct wire *wire, const char *prefix, const char *name, size_t length);
int write_end(struct wire *wire);

#endif
