/* etcd.h - the engine for an etcd cluster: what its files share. NOTES.md tells the protocol.
 *
 *   etcd_open.c     the URL, and the ops table
 *   grpc.c          one HTTP/2 connection: calls and streams
 *   etcd_channel.c  the connection to one of the endpoints; requests that outlive it
 *   etcd_watch.c    watches on one stream, keep-alives on another
 *   etcd_key.c      how keys are written and read
 *   etcd_term.c     leases of the store, kept alive on one stream
 *   etcd_proof.c    what proves that a lease was extended, and that it is there
 *   etcd_claim.c    acquire, cancel, renew, release: one request of a claim at a time
 *   etcd_slot.c     which key a claim gets: the same again, if that is safe
 *   etcd_door.c     who enters a line first
 *   etcd_sweep.c    deletes, many at once
 *   etcd_wait.c     claims that wait: for one of our own, or for a key to be deleted
 *   etcd_turn.c     whose turn it is, and whether it takes it
 *   etcd_delay.c    lock-delay: markers beside the line
 *   etcd_news.c     the mailbox: broken, asked
 *   etcd_past.c     past owners
 *   etcd_view.c     reads lines, for whoever looks at them
 *   etcd_inspect.c  list, show, history
 *   etcd_break.c    break, ask
 *   etcd_lease.c    leases as words
 *   etcd_value.c    bytes beside a lock
 *   etcd_examine.c  what pawl doctor asks, and init
 *   etcd_judge.c    what the answers mean
 *
 * Keys, with PREFIX as the URL has it and NAME percent-encoded:
 *
 *   PREFIX NAME / <lease, hex> - <uid, 32 hex> [-flags]    a claim; flags: s (shared), sN (shared, at most N hold)
 *   PREFIX NAME / <lease, hex>                             etcdctl lock, Go's Mutex: an exclusive claim of somebody else
 *   PREFIX .pawl/base                                      how many times the store was restored: init --force
 *   PREFIX .pawl/delay/ NAME / <uid, 32 hex>               a marker (etcd_delay.c)
 *   PREFIX .pawl/mail/ <client, 16 hex> / <uid, 32 hex>    mail: broken, asked (etcd_news.c)
 *   PREFIX .pawl/mail/ <client, 16 hex> / lease-<hex>      a sentinel: there as long as the lease (etcd_proof.c)
 *   PREFIX .pawl/past/ ...                                 past owners (etcd_past.c)
 *   PREFIX .pawl/value/ NAME                               bytes beside a lock (etcd_value.c) */
#ifndef PAWL_ETCD_H
#define PAWL_ETCD_H

#include "../../base/list.h"
#include "../../base/name.h"
#include "../../base/table.h"
#include "../../base/uid.h"
#include "../../net/net.h"
#include "../engine.h"
#include "../session/line.h"
#include "../session/past.h"
#include "../session/record.h"
#include "../session/term.h"
#include "engine/etcd/etcd.pb-c.h" /* made from etcd.proto at build time: Pb__TxnRequest, ... */
#include "grpc.h"

struct etcd;
struct etcd_channel;
struct etcd_ask;
struct etcd_watch;
struct etcd_term;
struct etcd_part;
struct etcd_flight; /* etcd_channel.c: one call under way */
struct etcd_wait;   /* etcd_wait.c */
struct etcd_turn;   /* etcd_turn.c */
struct etcd_marker; /* etcd_delay.c */

/* ---- the channel: requests and watches that outlive a connection ------------------------------------------------- */

/* What kind of request it is: one constant for each. */
struct etcd_method {
        const char *path; /* "/etcdserverpb.KV/Txn" */
        const ProtobufCMessageDescriptor *reply;
        /* Builds the request on its stack and gives it to grpc_write. Called for every attempt, perhaps in a later turn. */
        void (*write)(struct etcd_ask *ask, struct grpc_out *out);
        /* Exactly once, in a later turn of the loop: with the reply, which lasts for the call; or with NULL and why. */
        void (*answered)(struct etcd_ask *ask, const ProtobufCMessage *reply, const struct pawl_why *why);
};

/* One request, embedded in whoever asks. It is sent again, on another connection, when nobody knows what became of it, so
 * every request must bear to be done twice; answered with an error when its time is up, or when asking again cannot help. */
struct etcd_ask {
        struct list listed; /* in channel->parked or channel->sent; else to itself: not under way */
        const struct etcd_method *method;
        struct etcd_flight *flight; /* while it is sent */
        int64_t sent_at;            /* of the attempt that was answered: before its bytes left */
        int64_t until;              /* it is not sent again after this */
        uint16_t tries;             /* how many times it was sent: after the second an earlier one may have been done */
        bool patient;               /* waits for a server to come back; else it fails when none can be reached */
        bool early;                 /* the channel's own: sent before the channel is ready */
        uint8_t status;             /* gRPC's, if it was answered with an error */
};

/* Init once, then ask any number of times, one after the other. until: loop time. */
void ask_init(struct etcd_ask *ask);
void channel_ask(struct etcd_channel *channel, struct etcd_ask *ask, const struct etcd_method *method, int64_t until);
/* The asker goes away, or does not care any longer. Also for one that is not under way. */
void channel_forget(struct etcd_channel *channel, struct etcd_ask *ask);
static inline bool ask_busy(const struct etcd_ask *ask)
{
        return !list_empty(&ask->listed);
}

/* A standing watch, embedded in whoever wants to know. Deletions only, or puts too. It is made again on the next connection,
 * and when the store cancelled it (compaction): ready is told each time, and what happened before that is to be read. */
struct etcd_watch {
        struct list listed; /* in channel->watches */
        struct link link;   /* in channel->watch_ids, by id */
        int64_t id;         /* even; see has_twin */
        int64_t from;       /* it tells what happened after this revision */
        int64_t since;      /* its owner knows what happened up to this one: a member that lags may tell of it */
        /* Writes the key, at most ETCD_KEY_MAX bytes; returns its length. */
        size_t (*key)(const struct etcd_watch *watch, char *key);
        void (*ready)(struct etcd_watch *watch); /* it stands, on this connection */
        void (*fired)(struct etcd_watch *watch, const Pb__Event *event);
        bool prefix; /* all keys that begin so */
        bool puts;   /* else deletions only */
        bool prev;   /* what is deleted is told, too */
        bool stands; /* ready was told, on this connection */
        bool asked;  /* on this connection */
        bool spent;  /* its one key was deleted */
};
void watch_begin(struct etcd_channel *channel, struct etcd_watch *watch);
void watch_end(struct etcd_channel *channel, struct etcd_watch *watch); /* also of one that was not begun but zeroed */
static inline bool watch_begun(const struct etcd_watch *watch)
{
        return watch->id != 0;
}

struct etcd_endpoint {
        char *host, *where; /* where: for sentences, host:port */
        uint16_t port;
};

/*   DOWN --> CONNECTING --> AUTHENTICATING --> GREETING --> READY
 *    ^            |               |               |          |
 *    '------------+---------------+---------------+----------'   the next endpoint; after a round of all a pause */
enum channel_state { CHANNEL_DOWN, CHANNEL_CONNECTING, CHANNEL_AUTHENTICATING, CHANNEL_GREETING, CHANNEL_READY };

enum { STALE_MAX = 128 };
struct etcd_channel {
        struct grpc grpc;
        struct net_target target; /* of the endpoint in use */
        struct etcd *etcd;
        struct etcd_endpoint *endpoints; /* in random order */
        size_t endpoint_count, endpoint;
        size_t failed; /* endpoints that could not be reached, one after the other */
        enum channel_state state;
        struct list parked; /* asks, to be sent when it is ready */
        struct list sent;   /* asks, the oldest first */
        struct list spare;  /* flights */
        struct list watches;
        struct table watch_ids;
        int64_t last_watch_id;
        int64_t stale[STALE_MAX]; /* ids of watches that have nothing more to tell: cancelled together */
        size_t stale_count;
        struct grpc_stream watching;  /* all watches */
        struct grpc_stream keeping;   /* all keep-alives */
        struct etcd_ask authenticate; /* who we are, to get a token */
        struct etcd_ask greet;        /* the base of our numbers */
        struct etcd_ask status;       /* which version it is */
        int64_t token_at;             /* when the token in use was asked for; INT64_MIN: there is none */
        int64_t lost_at;              /* when a connection that was ready was lost */
        struct timer overdue;         /* are calls answered, is the time of parked ones up? */
        struct timer again;           /* connect again */
        struct net_backoff backoff;
        struct pawl_why why; /* why it is not ready */
        size_t sent_count;
        int64_t heard_at; /* when a call was last answered, or the first of those under way was sent */
        int64_t ready_at;
        uint64_t turn;      /* how many times it was ready: which connection it is */
        uint64_t raft_term; /* of the last linearizable read on this connection of which it was taken down */
        bool ever;          /* it was ready once */
        bool stalled;       /* the server cannot serve at the moment: again in a while */
        bool unwatched;     /* some watch is to be made again */
};

int channel_init(struct etcd_channel *channel, struct etcd *etcd); /* PAWL_OK or PAWL_NO_MEMORY */
void channel_close(struct etcd_channel *channel);
/* Makes sure that it is connected, or being connected. */
void channel_want(struct etcd_channel *channel);
static inline bool channel_ready(const struct etcd_channel *channel)
{
        return channel->state == CHANNEL_READY;
}
/* etcd_watch.c, for the channel: it is ready (again), or not any more; makes watches anew that the store ended. */
int watches_init(struct etcd_channel *channel);
void watches_up(struct etcd_channel *channel);
void watches_down(struct etcd_channel *channel);
void watches_mend(struct etcd_channel *channel);
void watches_free(struct etcd_channel *channel);
void channel_clock(struct etcd_channel *channel); /* something is to be mended in a while */
/* The base is not what it was: it is read before anything else is asked. */
void channel_greet_again(struct etcd_channel *channel);
/* A stream was refused: perhaps its token is too old. */
void channel_doubt_token(struct etcd_channel *channel);
/* A stream does not answer: to the next endpoint. */
void channel_suspect(struct etcd_channel *channel);
/* Sends a keep-alive for a lease on its stream; the answer comes to term_kept. False: it could not be sent. */
bool channel_keep(struct etcd_channel *channel, int64_t lease);

/* ---- keys -------------------------------------------------------------------------------------------------------- */

enum {
        ETCD_PREFIX_MAX = 200,
        ETCD_KEY_MAX = ETCD_PREFIX_MAX + NAME_ENCODED_MAX + 128, /* of any key of ours */
};

/* All write without a NUL and return the length. */
size_t key_of_line(const struct etcd *etcd, const char *name, size_t length, char *key); /* PREFIX NAME / */
size_t key_of_claim(const struct etcd_part *part, char *key);
size_t key_of_marker(const struct etcd *etcd, const struct claim *claim, char *key);
size_t key_of_markers(const struct etcd *etcd, const char *name, size_t length, char *key); /* .pawl/delay/NAME/ */
size_t key_of_value(const struct etcd *etcd, const char *name, size_t length, char *key);   /* .pawl/value/NAME */
size_t key_of_ours(const struct etcd *etcd, const char *rest, char *key);                   /* PREFIX .pawl/ rest */
/* The key behind the last that begins with prefix: for range_end. Writes at most length bytes. */
size_t key_after_prefix(const char *prefix, size_t length, char *key);
/* What a key behind PREFIX NAME / says. lease 0: none. A key that we did not write is an exclusive claim without a uid. */
void key_read(const char *rest, size_t length, struct contender *contender, int64_t *lease);
/* Splits PREFIX NAME / rest. False: it is not a claim's key, but one of .pawl/ or nobody knows whose. */
bool key_split(const struct etcd *etcd, const ProtobufCBinaryData *key, char *name, size_t *name_length,
               const char **rest, size_t *rest_length);
/* A request for a range: of one key, or of all that begin with it. The room is the caller's: ETCD_KEY_MAX bytes each. */
static inline ProtobufCBinaryData bytes_of(char *bytes, size_t length)
{
        return (ProtobufCBinaryData){.len = length, .data = (uint8_t *)bytes};
}

/* ---- terms: leases of the store ---------------------------------------------------------------------------------- */

/*   ASKED --> ALIVE --> OVER
 *     '--------------> (refused: its claims are) */
enum term_state { TERM_ASKED, TERM_ALIVE, TERM_OVER };

/* A lease of etcd. Claims of the same ttl share one; a detached claim has its own, which nobody keeps alive. */
struct etcd_term {
        struct list listed; /* in etcd->terms */
        struct link link;   /* in etcd->leases, by lease */
        struct etcd *etcd;
        struct etcd_ask ask;   /* LeaseGrant; later LeaseRevoke */
        struct etcd_ask look;  /* LeaseTimeToLive: which keys are there? */
        struct etcd_ask proof; /* a linearizable read: is the leader still the one that confirmed the keep-alive? */
        struct etcd_ask sign;  /* puts the sentinel: a key that is there as long as the lease is */
        struct term_time time; /* length: without the slack */
        struct list parts;     /* claims, and those that wait for it to begin: etcd_part.termed */
        struct list users;     /* etcd_tenant: others that hang a key on it */
        struct timer timer;    /* keep it alive; give it up */
        int64_t lease;         /* its id: ours to choose */
        int64_t seconds;       /* what is asked for, slack included */
        int64_t kept_at;       /* when the keep-alive that is under way was sent; 0: none */
        uint64_t raft_term;    /* of the member that answered it: while proof is under way */
        int64_t looked_at;     /* when the look that is under way was sent */
        uint64_t stray[2];     /* the uid of a key on it that nobody knew, at the last look */
        int64_t idle_at;       /* since when nobody uses it */
        size_t count;          /* of parts and users */
        size_t wanted;         /* renewals that wait for the next keep-alive */
        enum term_state state;
        bool own;      /* of one detached claim: not shared, not kept alive */
        bool guarded;  /* its sentinel was put */
        bool expected; /* ... before the proof under way was sent */
        bool awaited;  /* ... before the mailbox was read, and it is not among what was read so far */
};

/* Somebody who keeps a key on a term (a mailbox, a marker), embedded. */
struct etcd_tenant {
        struct list listed; /* in term->users */
        struct etcd_term *term;
        bool kept;                                 /* a term of its own is kept alive as long as this is set */
        void (*begun)(struct etcd_tenant *tenant); /* the term is alive: hang your key on it */
        void (*over)(struct etcd_tenant *tenant,
                     const struct pawl_why *why); /* it is not, and the key is gone; left already */
};
/* Takes a place on a term for this ttl, shared or its own. begun is told in this call if it is alive. PAWL_OK or
 * PAWL_NO_MEMORY. */
int term_rent(struct etcd *etcd, struct etcd_tenant *tenant, int64_t ttl, bool own);
void term_leave(struct etcd_tenant *tenant); /* also one that is on none */
static inline bool term_alive(const struct etcd_term *term)
{
        return term && term->state == TERM_ALIVE;
}

/* Puts a claim on a term, shared or its own if it is detached: then, or when the term is alive, claim_termed is told; or
 * claim_unterm if there is none to be had, or when it is over. PAWL_OK or PAWL_NO_MEMORY. */
int term_join(struct etcd *etcd, struct etcd_part *part);
void term_part(struct etcd_part *part); /* leaves it */
/* A term for a lease that exists, of a detached claim that was adopted (etcd_lease.c). NULL: no memory. extended_at: since
 * when its whole ttl counts. */
struct etcd_term *term_adopt(struct etcd *etcd, struct etcd_part *part, int64_t lease, const struct term_time *time);
/* Forgets a term without touching the store. */
void term_drop(struct etcd_term *term);
/* Sends a keep-alive unless one is under way; claims that wait for it are told. */
void term_keep(struct etcd_term *term);
void term_kept(struct etcd *etcd, const Pb__LeaseKeepAliveResponse *reply); /* by the channel */
void term_end(struct etcd_term *term, const struct pawl_why *why);          /* the store has ended it */
void term_revoked(
        struct etcd_term *term); /* its sentinel is gone: whatever was the cause, it is not to be used any more */
/* NULL: none of ours that is alive. */
struct etcd_term *term_find(const struct etcd *etcd, int64_t lease);
/* The last keep-alive counts; or it does not: PAWL_OK: because the leader has changed, so another is sent. */
void term_proven(struct etcd_term *term);
void term_unproven(struct etcd_term *term, int code);
void terms_up(struct etcd *etcd);
void terms_down(struct etcd *etcd); /* what was under way on the stream is not answered any more */
/* Those that nobody uses. True: no answer is to be waited for. */
bool terms_revoke(struct etcd *etcd);
void terms_free(struct etcd *etcd);

/* etcd_proof.c. raft_term: what the answer to the keep-alive reported; term_proven or term_unproven is told. */
void proof_ask(struct etcd_term *term, uint64_t raft_term);
void sentinel_put(struct etcd_term *term);
void sentinels_put(struct etcd *etcd); /* of all leases that claims hang on and that have none */
/* The mailbox is read: sentinels that should be there and are not mean that their leases are gone. */
void sentinels_await(struct etcd *etcd);
void sentinel_seen(struct etcd *etcd, const char *rest, size_t length); /* what a key has behind the mailbox's prefix */
void sentinels_miss(struct etcd *etcd);
void sentinel_gone(struct etcd *etcd, const char *rest, size_t length); /* it was deleted */
size_t key_of_sentinel(const struct etcd *etcd, int64_t lease, char *key);

/* ---- claims ------------------------------------------------------------------------------------------------------ */

/*   TERMING --> ENTERING --> HELD --> RELEASING --> (released)
 *      ^            |          ^
 *      |            '-> WAITING <--> LOOKING
 *      |                   |
 *      '-------------------'   its term is over, or its key is gone: in again, at the end of the line
 *   LOOKING --> KEEPING --> HELD: a detached one that waited, to begin with its whole ttl
 *   ENTERING, LOOKING --> CONFIRMING --> HELD: one that confirms its turn (PAWL_CONFIRM)
 *   all before HELD --> LEAVING --> (refused);  ADOPTING: a lease by its word (etcd_lease.c) */
enum part_state {
        PART_TERMING,
        PART_ENTERING,
        PART_WAITING,
        PART_LOOKING,
        PART_KEEPING,
        PART_CONFIRMING,
        PART_HELD,
        PART_RELEASING,
        PART_LEAVING,
        PART_ADOPTING
};

/* The engine's part of a claim. At most one request of a claim is under way, so that none overtakes another. */
struct etcd_part {
        struct etcd_ask ask;
        struct link link;   /* in etcd->claims, by uid */
        struct list termed; /* in term->parts */
        struct claim *claim;
        struct etcd *etcd;
        struct etcd_term *term;
        struct etcd_marker *marker; /* lock-delay (etcd_delay.c), or NULL */
        struct etcd_wait *wait;     /* while it waits: for whom (etcd_wait.c) */
        struct etcd_wait *behind;   /* the first of our own that wait for this one */
        uint64_t order;             /* its key's create_revision; 0: not known to be there */
        int64_t asked_at;           /* when it was asked for */
        int64_t since;              /* tried since; held since */
        int64_t base_at;            /* etcd->base_at when it entered */
        uint8_t state;              /* enum part_state */
        uint8_t code;               /* of a refusal that waits for its key to be deleted */
        bool known : 1;             /* to the engine: from acquire until it is told */
        bool cancelled : 1;         /* when the answer is there */
        bool renewing : 1;          /* told at the next keep-alive */
        bool again : 1;             /* its key was there and went: its marker may still be there */
        bool swept : 1;             /* its key is being deleted together with others (etcd_sweep.c) */
        bool plain : 1;             /* it is deleted without history: there was no room for it */
        bool crowded : 1;           /* it enters together with others like it (etcd_door.c) */
        bool brief : 1;             /* it enters behind one of our own, without a look */
        bool seen : 1;              /* its key, by a look that is being read */
        bool sent : 1;              /* a request that puts its key was sent */
        bool doubtful : 1;          /* ... more than once, or it is not known what became of it */
        bool tidy : 1;              /* nothing that was requested for its key can still be done (etcd_slot.c) */
};

void claim_acquire(struct engine *engine, struct claim *claim);
void claim_cancel(struct engine *engine, struct claim *claim);
int claim_overdue(struct engine *engine, const struct claim *claim, struct pawl_why *why);
void claim_renew(struct engine *engine, struct claim *const *claims, size_t n);
void claim_release(struct engine *engine, struct claim *claim);

/* Takes a claim in hand; takes it out of everything: the engine has forgotten it. */
void claim_know(struct etcd *etcd, struct claim *claim);
void claim_forget(struct etcd_part *part);
void claim_let_go(
        struct etcd_part *part); /* the same of a detached one, without touching the store: engine_leases.forget */
struct etcd_part *claim_find(struct etcd *etcd, const uint64_t uid[2]); /* NULL: not one of ours */
/* Tells the core; of those that end the claim it is forgotten first. */
void claim_told(struct etcd_part *part, int64_t sent_at); /* granted: order is its number */
void claim_refuse(struct etcd_part *part, int code, const char *why);
void claim_gone(struct etcd_part *part, int reason); /* a held one; its key is gone: see enum pawl_reason */
void claim_taken(struct etcd_part *part); /* the same; its key is no longer on our lease, if it is there at all */
void claim_asked(struct etcd_part *part); /* somebody asks a held one to yield */
/* By its term: alive, or not to be had, or over. */
void claim_termed(struct etcd_part *part);
void claim_unterm(struct etcd_part *part, const struct pawl_why *why, bool was_alive);
void claim_renewed(struct etcd_part *part, int code);

void claim_marked(struct etcd_part *part);
void claim_grant(struct etcd_part *part, int64_t sent_at);             /* the wait is over */
void claim_leave(struct etcd_part *part, int code);                    /* deletes its key, then refuses */
void claim_abandon(struct etcd_part *part, int code, const char *why); /* refuses, and cleans up behind it */
void claim_again(struct etcd_part *part);                              /* its key is gone: in again */
/* Deletes it in the background; created: only the one that was created then. */
void ghost_of_key(struct etcd *etcd, const char *key, size_t length, uint64_t created);
void ghost_of_lease(struct etcd *etcd, int64_t lease); /* revokes it in the background */
void claims_free(struct etcd *etcd);
void claim_enter(struct etcd_part *part);   /* sends it into the line */
void claim_entered(struct etcd_part *part); /* it stands behind others of ours */
void claim_deleted(struct etcd_part *part, int64_t count, const struct pawl_why *why); /* count -1: not known */
void claim_rename(struct etcd_part *one, struct etcd_part *other); /* they change keys: their uids and orders */

/* etcd_slot.c. Gives a claim its uid, which no other claim of ours has. */
void slot_take(struct etcd *etcd, struct claim *claim);
void slots_spoil(struct etcd *etcd); /* some request may still be done: no key that was used until now is used again */
bool slot_is_clean(const struct etcd *etcd,
                   const uint64_t uid[2]); /* it may be used again: never delete its key by name */

/* etcd_door.c: claims of ours on one name enter in the order in which they came. */
int doors_init(struct etcd *etcd); /* PAWL_OK or PAWL_NO_MEMORY */
void doors_free(struct etcd *etcd);
bool door_pass(
        struct etcd_part *part); /* also of a try; false: it is queued, and sent by claim_enter when it is its turn */
void doors_hurry(struct etcd *etcd);       /* there is no connection: tries do not wait for those before them */
void door_entered(struct etcd_part *part); /* one of a crowd was answered */
void door_leave(struct etcd_part *part);   /* it is not entering any more; also of one that was not */

enum { ETCD_BASE_MAX = 1 << 14, ETCD_BASE_SHIFT = 48 };
uint64_t etcd_token(const struct etcd *etcd, uint64_t create_revision); /* with the base */

/* ---- waiting (etcd_wait.c) --------------------------------------------------------------------------------------- */

struct etcd_txn;
struct sight_room { /* for the keys of a sight, on the stack of who writes it */
        char line[ETCD_KEY_MAX], line_end[ETCD_KEY_MAX], markers[ETCD_KEY_MAX], markers_end[ETCD_KEY_MAX];
};
/* Adds to a transaction what a claim must see: the line, or the end of it up to the claim's own key, and the markers.
 * up_to: create_revision, 0: all. */
void sight_write(struct etcd_txn *txn, const struct etcd_part *part, struct sight_room *room, bool whole,
                 uint64_t up_to);
/* Decides by what was seen: granted, or for whom to wait. first: the number of the sight's first answer. */
void wait_judge(struct etcd_part *part, const Pb__TxnResponse *reply, size_t first);
void wait_look(struct etcd_part *part); /* may it be granted now? */
/* Does an exclusive claim of ours wait for the same lock? Whoever enters behind it need not look at the line. */
bool wait_has_line(const struct etcd_part *part);
void wait_in_line(struct etcd_part *part);         /* it has entered behind one of ours */
void wait_end(struct etcd_part *part);             /* it does not wait any more, for whatever reason */
void wait_left(struct etcd_part *part, bool held); /* a claim of ours has left the line: those behind it look */
void wait_step_aside(struct etcd_part *part);      /* it will never hold: those behind it wait for whom it waited for */
void waits_free(struct etcd *etcd);
/* One of ours that is next when a held one is released is looked for in the release itself: one request for both. */
bool wait_has_heir(const struct etcd_part *part);
void wait_write_heir(struct etcd_txn *txn, const struct etcd_part *part, struct sight_room *room);
/* first: the number of the first answer that is about the heir, if it was asked for. */
void wait_inherit(struct etcd_part *part, const Pb__TxnResponse *reply, size_t first);
void wait_refuse_all(struct etcd *etcd, const struct pawl_why *why); /* there is no store */
void waits_unlearn(struct etcd *etcd); /* the store was restored: revisions that were seen are of another past */

/* etcd_turn.c: a claim that confirms its turn waits; NULL: it does not, or there is no memory to check the head with. And it
 * does not wait any more; also of NULL. */
struct etcd_turn *turn_begin(struct etcd_part *part);
void turn_end(struct etcd_turn *turn);
/* It waits behind another of ours that checks the head: that is enough. */
bool wait_behind_checker(const struct etcd_part *part);

/* ---- deletes, many at once (etcd_sweep.c) ------------------------------------------------------------------------ */

enum { SWEEP_MAX = 64 };
struct etcd_sweep {
        struct etcd_ask ask;
        struct list waiting; /* by ask.listed of the parts */
        size_t count;
        struct etcd_part *parts[SWEEP_MAX];  /* under way; NULL: gone meanwhile */
        char room[SWEEP_MAX * ETCD_KEY_MAX]; /* for their keys */
};
void sweep_init(struct etcd *etcd);
void sweep_add(struct etcd_part *part);    /* deletes its key, and nothing else: claim_deleted is told */
void sweep_remove(struct etcd_part *part); /* it shall not be told; also of one that was not added */

/* ---- lock-delay (etcd_delay.c) ----------------------------------------------------------------------------------- */

/* A claim with a lock-delay gets a marker: claim_marked is told when it may be put. PAWL_OK or PAWL_NO_MEMORY. */
int delay_begin(struct etcd_part *part);
bool delay_ready(const struct etcd_part *part);                       /* also without a lock-delay */
int64_t delay_lease(struct etcd_part *part);                          /* the marker is being put, on this lease */
int64_t delay_counts_from(const struct etcd_part *part, int64_t now); /* of the marker: see term_counts_from */
void delay_keep(struct etcd_part *part);                              /* its lease */
void delay_orphan(struct etcd_part *part);                  /* the lock was lost: the marker stays for the lock-delay */
struct etcd_term *delay_term(const struct etcd_part *part); /* its lease; NULL: it has none */
void delay_drop(struct etcd_part *part);                    /* it is not in the store */
void delay_forget(struct etcd_part *part);                  /* deletes it, unless it was dropped */
void delay_leave_alone(struct etcd_part *part);             /* it is held and detached: nobody keeps it alive */
void delay_let_go(struct etcd_part *part);                  /* forgets it, without touching the store */
void delay_free(struct etcd *etcd);

/* ---- what etcd_news.c, etcd_past.c, etcd_inspect.c, etcd_lease.c, etcd_value.c and etcd_examine.c give ----------- */

/* A claim was granted. Our mail is watched from 50 ms later on. Cheap: it is called for every grant. */
void news_held(struct etcd_part *part);
void news_kept(struct etcd *etcd); /* a lease was extended: sentinels that could not be put are put now */
size_t key_of_mail(const struct etcd *etcd, uint64_t client, char *key); /* then the uid */
void news_free(struct etcd *etcd);

/* Lines of history, as one key. */
struct etcd_batch {
        char key[ETCD_KEY_MAX];
        size_t key_length;
        char *text; /* NULL: none */
        size_t size;
};
/* All of past becomes a batch. False: there is nothing, or no memory. */
bool batch_make(struct etcd *etcd, struct past *past, struct etcd_batch *batch);
/* The same of holds that this client breaks. */
bool batch_make_broken(struct etcd *etcd, struct past *past, const char *reason, struct etcd_batch *batch);
/* Remembers a beginning (at the grant) and an end (enum pawl_how); written to the store in a while. Cheap. */
void history_began(const struct etcd_part *part);
void history_ended(const struct etcd_part *part, uint32_t how);
/* An end that a request of ours brings about goes with it, if it is time to write: history_batch is then to be put in the
 * same transaction. history_left when it is answered; done: it was there, and is deleted. */
void history_leaving(const struct etcd_part *part, uint32_t how);
const struct etcd_batch *history_batch(const struct etcd_part *part); /* NULL: nothing to be put, the usual case */
void history_left(const struct etcd_part *part, uint32_t how, bool done);
/* Who waits for a holder sees its end, and knows then that it held, if it could not write that down itself. */
bool history_curious(const struct etcd *etcd); /* false: there is enough to write */
void history_witnessed(struct etcd *etcd, const char *name, const Pb__KeyValue *holder);
/* Whose lease it was; and it is put down again. */
void history_adopted(const struct etcd_part *part, const struct record *record);
void history_forget(const struct claim *claim, struct etcd *etcd);
/* Somebody who reads history after what this client knows of it was written. */
struct etcd_settling {
        struct list listed;
        void (*settled)(struct etcd_settling *settling);
};
bool history_settle(struct etcd *etcd, struct etcd_settling *settling); /* true: it is, and will not be told */
void history_free(struct etcd *etcd);
int64_t etcd_unix_ms(void);

extern const struct engine_inspect etcd_inspect;
void inspect_free(struct etcd *etcd);

extern const struct engine_leases etcd_leases;
/* The answer of an adoption is handled in etcd_lease.c: claim_know, ADOPTING, channel_ask(part->ask), then term_adopt and
 * claim_told, or claim_refuse. A cancel sets part->cancelled. */

extern const struct engine_values etcd_values;

/* Of the inspect table: doctor and init. forget: false if it is not one of these. */
void examine_begin(struct engine *engine, struct inquiry *inquiry);
void examine_init(struct engine *engine, struct inquiry *inquiry);
bool examine_forget(struct etcd *etcd, const struct inquiry *inquiry);
bool examine_mends(const struct etcd *etcd); /* is an init under way that writes the base anew, whatever it was? */
void examine_free(struct etcd *etcd);
char *examine_cli_options(const struct net_tls_options *options); /* of etcdctl; NULL: no memory; to be freed */

/* ---- the engine -------------------------------------------------------------------------------------------------- */

struct etcd {
        struct engine engine; /* first */
        struct etcd_channel channel;
        struct net_tls *tls;
        char *cli_options;    /* of etcdctl, for the same TLS; NULL: none */
        bool has_certificate; /* of our own: the server may know us by it */
        char *user, *password, *prefix;
        char *where; /* all endpoints, for sentences */
        size_t prefix_length;
        uint64_t client; /* who we are: a random number */
        int64_t timeout, slack;
        bool history;              /* past owners are remembered */
        bool closing;              /* nothing is asked any more */
        uint64_t base;             /* how many times the store was restored */
        int64_t base_at;           /* the revision that wrote it; 0: it is not there; -1: it cannot be read */
        int64_t revision;          /* the highest that was seen: it never goes back */
        struct table claims;       /* struct etcd_part, by uid */
        struct table lines;        /* names on which a claim of ours waits (etcd_wait.c) */
        struct list terms, ended;  /* ended: being revoked */
        struct table leases;       /* struct etcd_term, by lease */
        uint64_t run_from, run_to; /* all revisions between them were made by this client: see etcd_wrote */
        uint64_t run_next;         /* of the 64 behind run_to: answers do not come in the order of revisions */
        uint64_t judged_at;        /* the revision of the sight that is being judged */
        uint64_t slot_nonce;       /* etcd_slot.c; 0: to be drawn */
        uint64_t slot_turn;
        struct list waits; /* struct etcd_wait, all */
        struct etcd_sweep sweep;
        struct etcd_door *doors; /* etcd_door.c */
        struct list ghosts;      /* etcd_claim.c */
        struct list markers;     /* etcd_delay.c */
        struct etcd_news *news;  /* etcd_news.c; NULL: no mailbox yet */
        struct past past;        /* etcd_past.c */
        struct etcd_history *history_state;
        struct list questions;    /* etcd_inspect.c */
        struct list examinations; /* etcd_examine.c */
};

static inline struct etcd *etcd_of(struct engine *engine)
{
        return (struct etcd *)(void *)engine;
}
static inline struct etcd_part *part_of(const struct claim *claim)
{
        return claim->part;
}
/* The store never goes back behind what was seen of it. */
static inline void etcd_saw(struct etcd *etcd, const Pb__ResponseHeader *header)
{
        if (header && header->revision > etcd->revision)
                etcd->revision = header->revision;
}
static inline uint64_t revision_of(const Pb__ResponseHeader *header)
{
        return header ? (uint64_t)header->revision : 0;
}
/* A request of ours was done; changed: it made this revision. Between two claims of ours nobody else has come if all the
 * revisions between theirs are our own. */
static inline void etcd_wrote(struct etcd *etcd, uint64_t revision, bool changed)
{
        if ((int64_t)revision > etcd->revision)
                etcd->revision = (int64_t)revision;
        if (!changed || revision <= etcd->run_to)
                return;
        if (revision > etcd->run_to + 64) {
                etcd->run_from = revision;
                etcd->run_to = revision - 1;
                etcd->run_next = 0;
        }
        etcd->run_next |= UINT64_C(1) << (revision - etcd->run_to - 1);
        while (etcd->run_next & 1) {
                etcd->run_next >>= 1;
                etcd->run_to++;
        }
}
static inline int64_t etcd_now(const struct etcd *etcd)
{
        return loop_now(etcd->engine.host->loop);
}

#endif
