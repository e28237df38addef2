/* redis.h - the engine for one Redis server: what its files share. NOTES.md tells the protocol, scripts/ has it in Lua.
 *
 *   redis_open.c     the URL, and the ops table
 *   redis_wire.c     one connection: requests out, replies in, in order; the handshake; coming back after a loss
 *   redis_write.c    commands as bytes
 *   redis_table.c    finding a claim by its uid, a queue by its name
 *   redis_bundle.c   many claims in one request
 *   redis_claim.c    acquire, cancel, renew, release: one request of a claim at a time
 *   redis_wait.c     claims that wait: the queue of a name, grants that are pushed, looking again
 *   redis_ghost.c    what was given up without an answer, to be cleaned up behind the caller
 *   redis_inspect.c  list, show, history, break, ask
 *   redis_value.c    the bytes beside a lock
 *   redis_lease.c    leases as words
 *   redis_examine.c  what pawl doctor asks; redis_judge.c: what the answers mean
 *   redis_member.c   one member of a quorum (redlock) */
#ifndef PAWL_REDIS_H
#define PAWL_REDIS_H

#include <hiredis/hiredis.h>

#include "../../base/list.h"
#include "../../base/table.h"
#include "../../base/uid.h"
#include "../../net/net.h"
#include "../engine.h"
#include "engine/redis/scripts.h" /* made from scripts/ at build time: enum script, script_list */

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

/* A request of the connection itself. */
struct hello {
        struct ask ask;
        struct wire *wire;
};

struct wire {
        struct net net; /* first */
        struct redis *redis;
        redisReader *reader;
        redisReplyObjectFunctions make; /* the reader's own, but for arrays */
        __typeof__(((redisReplyObjectFunctions *)NULL)->createArray) make_array;
        struct list asked;     /* sent, in the order of their replies */
        struct hello hello[2]; /* the handshake: AUTH, SELECT */
        struct ask open;       /* of the news: SUBSCRIBE or PING, answered by what is told */
        struct ask identify;   /* INFO server: which one is it? */
        struct timer overdue;  /* is the first of asked answered in time? */
        struct timer again;    /* connect again */
        struct net_backoff backoff;
        size_t written;      /* bytes of the command being written */
        size_t unsaid;       /* hellos not yet answered */
        int64_t lost_at;     /* when the last one that was proven was lost */
        uint32_t mute;       /* so many connections in a row ended without any answer */
        char run[48];        /* which run of which server this is; empty: not known */
        bool news;           /* the connection that is told what happens; the other one carries commands */
        bool ready;          /* the handshake is done */
        bool met;            /* the last one came up, whatever became of it */
        bool proven;         /* this connection has served us: not only a greeting */
        bool ever;           /* one was proven */
        bool wanted;         /* connect, and stay connected */
        bool dry;            /* no memory for the command being written */
        struct pawl_why why; /* why it is not ready */
};

/* Asks. Only while ready; PAWL_OK, or an error and it is not asked. Sends at once if nothing is under way; otherwise with
 * the next reply, together with whatever else was asked meanwhile. */
int wire_ask(struct wire *wire, struct ask *ask);
/* The asker goes away: its reply will be dropped. Only for asks that were asked and not answered. */
void wire_forget(struct wire *wire, struct ask *ask);
/* Makes sure that it is connected, or being connected. */
void wire_want(struct wire *wire);
/* 0 or an errno. */
int wire_init(struct wire *wire, struct redis *redis, bool news);
void wire_close(struct wire *wire);
void wire_be_ready(struct wire *wire); /* the news are subscribed */
/* The news: do they still come? Their connection is lost if this is not answered in time. */
void wire_ping(struct wire *wire);
void wire_open_told(struct wire *wire);
/* Asks the server which one it is: the two connections must be at the same. */
void wire_identify(struct wire *wire);
/* A server that was never heard is given up after so many connections that it ended without an answer. */
enum { WIRE_MUTE_MOST = 3 };
/* What an error reply means: a PAWL_ code and a sentence. */
int wire_error(const redisReply *reply, const struct redis *redis, struct pawl_why *why);
/* Is it a state of the server that passes, such as loading its data? */
bool wire_passes(const struct pawl_why *why);

/* redis_write.c: begin with the number of words, then exactly so many of the others. They write into the connection's
 * buffer; the first that finds no memory makes write_end say so and takes back what was written. */
void write_begin(struct wire *wire, size_t words);
void write_text(struct wire *wire, const char *text);
void write_bytes(struct wire *wire, const void *bytes, size_t size);
void write_number(struct wire *wire, int64_t number);
/* The first three words of a script's call: EVALSHA digest keys, or EVAL script keys. words counts those that follow. */
void write_script(struct wire *wire, const struct ask *ask, enum script script, size_t keys, size_t words);
/* prefix and name as one word. */
void write_key(struct wire *wire, const char *prefix, const char *name, size_t length);
int write_end(struct wire *wire);

/* ---- claims ---------------------------------------------------------------------------------------------------- */

/*   PARKED --> ASKING --> HELD --> RELEASING --> (released)
 *     ^          |  '--> WAITING --> CONFIRMING --> HELD
 *     |          '-----> UNHEARD --> ASKING            (busy, and the news are not connected yet)
 *     '--- from ASKING, CONFIRMING, RELEASING, CANCELLING when the connection is lost: asked again, which is safe
 *   all before HELD --> CANCELLING --> (refused) */
enum claim_state { PARKED, ASKING, UNHEARD, WAITING, CONFIRMING, HELD, RELEASING, CANCELLING, ADOPTING };

/* Claims that are queued already tolerate a server that is unreachable for this many times the time limit. */
enum { PATIENCE_IN_LINE = 6 };

struct waitlist;
struct renewal;

/* The engine's part of a claim. At most one request of a claim is under way, so that none overtakes another. */
struct part {
        struct ask ask;
        struct list listed; /* redis->parked, redis->unheard, or its waitlist's claims */
        struct link link;   /* in redis->claims, by uid */
        struct claim *claim;
        struct redis *redis;
        uint64_t token;
        union {
                struct { /* until it is held */
                        struct waitlist *waitlist;
                        uint64_t ticket;
                        int64_t asked_at; /* when it last asked and was told to wait */
                        uint64_t floor;   /* a grant that came later has a greater token */
                        int64_t tried_at; /* since when */
                };
                struct {                         /* while it is held */
                        struct renewal *renewal; /* under way, with this claim in it */
                        size_t place;
                        int64_t told_at;
                };
                struct {               /* while it is given back */
                        int64_t until; /* afterwards it is pointless */
                        int64_t held_for;
                };
        };
        uint32_t pushed_lease; /* ms: granted by a push that came before the reply; 0: not */
        uint32_t pushed_due;   /* ms: told by a push that came before the reply to look again then; 0: not */
        uint8_t state;         /* enum claim_state */
        uint8_t want;          /* what to ask for when it is parked: ASKING, RELEASING or CANCELLING */
        bool known;            /* to the engine: from acquire until it is told */
        bool cancelled;        /* when the reply is there */
        bool doubtful;         /* asked before, and the reply was lost */
        bool waits;            /* its request makes it stand in line */
        bool asking_history;   /* a release that found nothing: was it ours? */
};

enum { RENEW_AT_ONCE = 600 };
struct renewal {
        struct ask ask;
        struct redis *redis;
        struct list listed;
        size_t count, written;
        struct part *parts[]; /* NULL: released meanwhile */
};

/* The claims of this client that wait for one name. */
struct waitlist {
        struct ask ask;
        struct link link; /* in redis->waitlists, by name */
        struct list listed;
        struct list claims; /* in the order of their tickets, more or less */
        struct timer timer; /* look again */
        struct redis *redis;
        char *holder;   /* the holder's value when it last looked, or NULL */
        uint64_t *sent; /* the uids of the look that is under way */
        size_t sent_count;
        struct list *next; /* of a look at all of them: where it goes on; NULL: only the first is looked at */
        uint32_t looks;
        int64_t refused_at; /* since when looks are refused; 0: they are not */
        bool looking;
        bool again; /* look once more as soon as the look under way is answered */
        bool all;   /* look at all of them, next time */
        size_t name_length;
        char name[];
};

/* Something that may be left at the server although its caller was told that it failed. */
struct ghost {
        struct ask ask;
        struct list listed;
        struct redis *redis;
        int64_t until;
        bool asked;
        size_t key_length;
        size_t record_length;
        char text[]; /* key, then record */
};

/* Requests of claims that may go together. In this order they are sent. */
enum bundle_kind { BUNDLE_RELEASE, BUNDLE_ACQUIRE, BUNDLES };

struct redis {
        struct engine engine; /* first */
        struct wire commands;
        struct wire news;
        struct net_target target;
        struct net_tls *tls;
        char *cli_options;                                    /* of redis-cli, for the same TLS; NULL: none */
        char *where;                                          /* for sentences: host:port, or the socket */
        char *host, *path, *user, *password, *prefix, *owner; /* owner: encoded */
        size_t prefix_length;
        char *fence_key, *past_key, *channel;
        char *value_prefix; /* a lock's name after it is the key of its value */
        uint64_t stores;    /* so many were begun */
        size_t fence_length;
        char client[17];
        const char *history; /* "h": past owners are remembered; "-" */
        int64_t database;
        int64_t alive_at; /* when the server last heard that this client's waiters are alive */
        int64_t timeout;
        struct list parked;  /* claims with something to ask as soon as there is a connection */
        struct list unheard; /* busy, and to wait as soon as the news are connected */
        struct list queues;  /* of struct waitlist */
        struct list renewals;
        struct list bundles;
        struct bundle *gathered[BUNDLES]; /* to be sent with the next reply; NULL: nothing */
        bool bundle_told[BUNDLES];        /* the server has the script */
        struct list ghosts;
        struct list questions;    /* redis_inspect.c */
        struct list examinations; /* redis_examine.c */
        struct table claims;
        struct table waitlists;
        size_t known;     /* claims */
        struct ask check; /* of the server's settings, once */
        bool checked;
        struct pawl_why refusal;     /* the last one that keeps a claim waiting */
        struct timer retry;          /* ask again what the server could not do at the moment */
        struct redis_member *member; /* redis_member.c; NULL: not one of a quorum */
};

static inline struct redis *redis_of(struct engine *engine)
{
        return (struct redis *)(void *)engine;
}
static inline struct part *part_of(const struct claim *claim)
{
        return claim->part;
}
/* So many ms that they are a number of ns as well. */
static inline bool reply_is_ms(const redisReply *reply)
{
        return reply->type == REDIS_REPLY_INTEGER && reply->integer >= 0 && reply->integer <= INT64_MAX / MS / 4;
}
static inline int64_t redis_now(const struct redis *redis)
{
        return loop_now(redis->engine.host->loop);
}

void claim_acquire(struct engine *engine, struct claim *claim);
void claim_cancel(struct engine *engine, struct claim *claim);
int claim_overdue(struct engine *engine, const struct claim *claim, struct pawl_why *why);
void claim_renew(struct engine *engine, struct claim *const *claims, size_t n);
void claim_release(struct engine *engine, struct claim *claim);
/* Takes a claim in hand; takes it out of everything: the engine has forgotten it. */
void claim_know(struct redis *redis, struct claim *claim);
void claim_forget(struct part *part);
void claim_told(struct part *part, uint64_t token, int64_t sent_at); /* granted: tells it, or gives it up */
void claim_refuse(struct part *part, int code, const char *why);
void claim_park(struct part *part, enum claim_state want);
void claim_confirm(struct part *part);
void claim_broken(struct part *part);
void lease_ask(struct part *part);
struct part *claim_find(struct redis *redis, const uint64_t uid[2]);
/* The connections came up, or did not. */
void claims_up(struct redis *redis);
void claims_down(struct redis *redis, const struct pawl_why *why, bool was_ready);
void claims_heard(struct redis *redis); /* news are connected */
void claims_unheard(struct redis *redis, const struct pawl_why *why, bool was_ready);
void claims_retry(struct timer *timer);
void claims_retry_soon(struct redis *redis); /* what was refused and may pass */
void claims_free(struct redis *redis);

/* The two keys of most scripts: the lock and the counter. */
enum { LOCK_KEYS = 2 };
void write_lock_keys(struct wire *wire, const char *name, size_t length);
void write_record(struct wire *wire, const struct part *part, const char *after);
/* Of a break, as a word: out holds 3 * PAWL_BREAK_REASON_MAX + 1. */
void write_reason(const char *reason, char *out);
enum { RECORD_MAX = 32 + 17 + 20 + 20 + 2 + 11 + 2 + 21 + 3 * PAWL_OWNER_MAX + 3 * PAWL_NOTE_MAX + 8 };
size_t record_make(const struct part *part, char *record);

/* The words of scripts that say how: redis_claim.c. */
enum { ACQUIRE_HOW_MAX = 5, RELEASE_HOW_MAX = 40 };
void acquire_how(const struct redis *redis, enum pawl_mode mode, char if_taken, int64_t sent_at, char *how);
void release_how(const struct part *part, char *how);

/* redis_bundle.c */
/* Asks for a part, as wire_ask does, but perhaps together with others. how: of an acquire, see acquire_how. */
int bundle_ask(struct redis *redis, struct ask *ask, enum bundle_kind kind, char how);
void bundles_send(struct redis *redis); /* what was gathered */
void bundles_down(struct redis *redis, const struct pawl_why *why);
void bundles_free(struct redis *redis);

/* redis_wait.c */
/* foreign: 0, or the claim's place in line behind a holder that is not one of us. */
int wait_begin(struct part *part, int64_t look_in_ms, int64_t foreign, const char *holder, size_t holder_length);
void wait_end(struct part *part); /* it does not wait any more, for whatever reason */
void wait_granted(struct part *part, uint64_t token, int64_t lease_ms);
void wait_look_all(struct redis *redis);
void wait_refuse_all(struct redis *redis, const struct pawl_why *why);
void wait_free(struct redis *redis);
void news_told(struct wire *wire, const redisReply *reply);

/* redis_ghost.c: remembers to clean up after claim. Without memory the lease has to do it. */
void ghost_of_part(const struct part *part);
void ghost_of_uid(struct redis *redis, const char *uid, const char *key, size_t key_length);
void ghosts_up(struct redis *redis);
void ghosts_down(struct redis *redis);
void ghosts_free(struct redis *redis);

extern const struct engine_inspect redis_inspect;
extern const struct engine_leases redis_leases;
extern const struct engine_values redis_values; /* redis_value.c */
void inspect_up(struct redis *redis);
void inspect_down(struct redis *redis, const struct pawl_why *why, bool was_ready);
void inspect_free(struct redis *redis);

/* redis_member.c */
extern const struct engine_member redis_member;
void member_up(struct redis *redis);
void member_down(struct redis *redis, const struct pawl_why *why);
void member_heard(struct redis *redis);
void member_told(struct redis *redis, const char *text, const uint64_t uid[2]); /* on our own channel */
void member_free(struct redis *redis);
void check_server(struct redis *redis);

/* redis_examine.c */
void examine_begin(struct engine *engine, struct inquiry *inquiry);
bool examine_forget(struct redis *redis, const struct inquiry *inquiry); /* false: it is not one of these */
void examine_up(struct redis *redis);
void examine_down(struct redis *redis, const struct pawl_why *why);
void examine_free(struct redis *redis);
char *examine_cli_options(const struct net_tls_options *options); /* NULL: no memory; to be freed */

#endif
