/* zk.h - the engine for ZooKeeper: what its files share. NOTES.md tells the protocol, jute.h has its records.
 *
 *   zk_open.c     the URL, names and paths, and the ops table
 *   zk_session.c  a session and its connection: requests out, answers in; heartbeat; coming back, or having expired
 *   zk_claim.c    acquire, cancel, renew, release: one flight of a claim at a time
 *   zk_wait.c     claims that wait: what they watch, and what wakes them
 *   zk_turn.c     whose turn it is, and whether it takes it
 *   zk_retire.c   a line whose numbers come to their end
 *   zk_delay.c    lock-delay: markers beside the line
 *   zk_ghost.c    nodes that were given up without an answer, to be deleted behind the caller
 *   zk_idle.c     containers of names that are used once
 *   zk_check.c    nodes that were deleted by hand, or came late
 *   zk_news.c     the mailbox of a client: it is asked to yield, or cut off
 *   zk_inspect.c  list, show, break, ask; zk_past.c: history; zk_examine.c: doctor, init
 *   zk_value.c    bytes beside a lock
 *   zk_lease.c    leases as words */
#ifndef PAWL_ZK_H
#define PAWL_ZK_H

#include "../../base/list.h"
#include "../../base/name.h"
#include "../../base/table.h"
#include "../../base/uid.h"
#include "../../net/net.h"
#include "../engine.h"
#include "../session/line.h"
#include "../session/record.h"
#include "../session/term.h"
#include "jute.h"
#include "zk_proof.h"

struct zk;
struct zk_session;
struct zk_part;

/* ---- asking ---------------------------------------------------------------------------------------------------- */

/* A flight: one request, or several in a row which are sent together and answered in their order. Embedded in
 * whoever asks. answered is called once for each answer; ask->left says how many are still to come behind this
 * one. If the connection is lost it is called once with ZK_CONNECTION_LOSS for all that are still missing, and
 * left is 0: nobody knows what the server did of them; session->why says why. reply stands behind the header; NULL
 * if there is an error. */
struct zk_ask {
        struct list listed; /* in session->asked */
        int64_t sent_at;    /* when its bytes were written: before they left */
        void (*answered)(struct zk_ask *ask, int error, struct jute_in *reply);
        int32_t xid; /* of the next answer */
        uint16_t left;
        uint16_t proves; /* two bits for each answer, the next one's first: enum zk_proves */
};
/* What an answer says of the session; of the first eight of a flight. */
enum zk_proves {
        ZK_PROVES_LEADER = 1, /* the request went to the leader */
        ZK_PROVES_WRITE = 3   /* and a quorum confirmed it */
};
static inline void zk_ask_init(struct zk_ask *ask, void (*answered)(struct zk_ask *, int, struct jute_in *))
{
        *ask = (struct zk_ask){.answered = answered};
        list_init(&ask->listed);
}
static inline bool zk_asked(const struct zk_ask *ask)
{
        return !list_empty(&ask->listed);
}

/* Writing a flight. ask->answered is set, and it is not under way. Nothing of it can fail before zk_send says so:
 *
 *   out = zk_begin(session, &part->ask, 2 * ZK_REQUEST_ROOM);
 *   zk_request(session, ZK_DELETE);
 *   jute_put_path_version(out, path, -1);
 *   zk_request(session, ZK_EXISTS);
 *   jute_put_path_watch(out, other, false);
 *   code = zk_send(session);
 *
 * zk_send: PAWL_OK; or PAWL_UNREACHABLE (it is not connected) or PAWL_NO_MEMORY, and it was not asked. room: for
 * all of it. */
struct jute_out *zk_begin(struct zk_session *session, struct zk_ask *ask, size_t room);
void zk_request(struct zk_session *session, enum zk_op op);
int zk_send(struct zk_session *session);
/* The asker goes away: its answers will be dropped. Nothing happens if it is not under way. */
void zk_forget(struct zk_session *session, struct zk_ask *ask);
/* For an ask from malloc whose answers nobody needs: frees it behind the last. */
void zk_nobody_hears(struct zk_ask *ask, int error, struct jute_in *reply);

/* For one request with a path and a record's data. */
enum {
        ZK_CHROOT_MAX = 512,
        ZK_PATH_MAX = ZK_CHROOT_MAX + NAME_ENCODED_MAX + 160,
        ZK_REQUEST_ROOM = ZK_PATH_MAX + RECORD_MAX + 160
};

/* Waits for one event at a path, on one connection. Add it before the request that sets it at the server is sent
 * (getData, getChildren2 or exists with watch); remove it if that says that there is no such node. fired is called
 * once: with the event's type, and then it is removed; or with ZK_EVENT_SESSION: the connection was lost, and the
 * watch with it: look again when the session is back. */
struct zk_watch {
        struct link link; /* in session->watches, by path */
        struct list listed;
        struct zk_session *session;
        const char *path; /* borrowed while it is added */
        size_t length;
        void (*fired)(struct zk_watch *watch, int type);
};
void zk_watch_add(struct zk_session *session, struct zk_watch *watch);
void zk_watch_remove(struct zk_session *session, struct zk_watch *watch); /* also if it is not added, but zeroed */

/* ---- sessions -------------------------------------------------------------------------------------------------- */

/*   DOWN --> CONNECTING --> GREETING --> CONNECTED
 *     ^           |            |            |
 *     '-----------+------------+------------'
 *                              '--> EXPIRED
 *
 * GREETING: the session is opened or taken up again, we authenticate, and the namespace's number is read. EXPIRED:
 * the server has forgotten it, and everything on it is gone; freed when nobody uses it. */
enum zk_session_state { ZK_DOWN, ZK_CONNECTING, ZK_GREETING, ZK_CONNECTED, ZK_EXPIRED };

/* What a session is for. */
enum zk_session_kind {
        ZK_SHARED, /* by all claims of one ttl; kept alive while there are any, closed when idle */
        ZK_OWN,    /* of one detached claim: not kept alive, not closed when we go */
        ZK_MARKERS /* of the markers of lock-delays: kept alive with the session of the claims */
};

struct zk_session {
        struct net net; /* first */
        struct net_target target;
        struct zk *zk;
        struct list listed;   /* in zk->sessions */
        struct list asked;    /* in the order of their answers */
        struct list renewals; /* parts that wait until more is known; of a ZK_OWN one until it is connected */
        struct list watching;
        struct table watches;
        struct timer timer; /* heartbeat, overdue answers, being idle */
        struct timer again; /* connect again */
        struct net_backoff backoff;
        struct zk_ask greeting, beat, witness;
        struct jute_out out; /* of the flight being written */
        struct zk_ask *asking;
        size_t packet; /* where its last request begins */
        char *in;      /* a part of an answer */
        size_t in_size, in_room;
        int64_t id; /* 0: not opened yet */
        char password[ZK_PASSWORD_SIZE];
        int64_t last_zxid;
        int64_t least_zxid; /* of its first answers, if it is a new one: others had seen that before it asked */
        int64_t refused_at; /* since when servers hang up when we want it back; 0: they do not */
        int64_t wanted_ms;  /* the timeout that is asked for */
        int64_t timeout;    /* what the server granted; ns */
        struct term_time time;
        struct zk_proof proof;
        int64_t known;    /* the leader has heard that we were alive then; INT64_MIN: nothing is known */
        int64_t wrote_at; /* when the last write was sent that was confirmed */
        int64_t used_at;  /* when it was last used, if users is 0 */
        int64_t sent_at;  /* when the last bytes were sent */
        int64_t taken_at; /* when it was opened, or taken up again, the last time: before that was sent */
        int64_t heard_at;
        int64_t every;  /* how often something is written on it */
        size_t users;   /* claims, markers: it is not idle */
        size_t asks;    /* under way */
        size_t server;  /* in zk->servers */
        uint32_t round; /* servers tried since the last that answered */
        uint32_t beats;
        int32_t xid;
        uint8_t state, kind;
        bool hearing;        /* in heard: what is written goes out behind it */
        bool met;            /* a server of this round took the connection, whatever became of it */
        bool greeted;        /* the server has answered the first packet of this connection */
        bool beaten;         /* the first answer of the beat's flight is there */
        bool kept;           /* ZK_OWN: its claim waits, and it is kept alive */
        bool freed;          /* as soon as nobody uses it */
        bool dropped;        /* and without closing it at the server */
        struct pawl_why why; /* why it is not connected */
};

/* The session for claims of this ttl, connected or being connected; NULL: no memory. Each that is found is used
 * (users++); give it back with zk_session_unuse. A ZK_OWN one is always new. */
struct zk_session *zk_session_find(struct zk *zk, int64_t ttl, enum zk_session_kind kind);
/* One with this id and password, being connected: a detached lease that is taken up. Used by the caller. */
struct zk_session *zk_session_resume(struct zk *zk, int64_t id, const char password[ZK_PASSWORD_SIZE], int64_t ttl);
void zk_session_use(struct zk_session *session);
/* The last user of a ZK_OWN session closes it; others are closed when they have been idle for a while. */
void zk_session_unuse(struct zk_session *session);
/* Lets go of a ZK_OWN session without closing it: it lives on until its time is over. Its only user is the caller. */
void zk_session_drop(struct zk_session *session);
/* A connected session for what is not a claim's; or NULL, and one is being connected: zk_up or zk_not_up will be
 * called. */
struct zk_session *zk_any_session(struct zk *zk);
/* Writes, so that there is a sign of life that a quorum has seen, unless that is under way. */
void zk_beat(struct zk_session *session);
/* How often that is done for claims of this ttl. */
int64_t zk_pace(const struct zk *zk, int64_t ttl);
/* Leases on it count by what is known of it from now on. */
void zk_session_believe(struct zk_session *session);
/* Takes it up again on a new connection, which is a sign of life at the leader itself. */
void zk_session_refresh(struct zk_session *session);
/* From when a lease of ttl on this session may count, now. */
static inline int64_t zk_counts_from(const struct zk_session *session, int64_t ttl)
{
        return term_counts_from(&session->time, loop_now(session->net.loop), ttl);
}
void zk_sessions_close(struct zk *zk);
/* Nothing will change by trying again. */
static inline bool zk_is_final(const struct pawl_why *why)
{
        return why->code == PAWL_DENIED || why->code == PAWL_UNSUPPORTED || why->code == PAWL_INVALID ||
               why->code == PAWL_NOT_FOUND || why->code == PAWL_CORRUPT;
}

/* ---- claims ---------------------------------------------------------------------------------------------------- */

/*   PARKED --> ASKING --> [MARKING] --> HELD --> RELEASING --> (released)
 *     ^         | ^ '--> WAITING --> LOOKING --> ...
 *     |         v |
 *     |        MAKING                                   the container above it is made
 *     '--- from all that ask, when the connection is lost: asked again, which is safe; LOOKING finds what was made
 *   all before HELD --> CANCELLING --> (refused)
 *   ADOPTING --> HELD                                   a lease is taken up: zk_lease.c */
enum zk_claim_state {
        ZK_PARKED,
        ZK_ASKING,
        ZK_ASKING_ALONE, /* without looking: one of ours is before it */
        ZK_MAKING,
        ZK_FINDING, /* is the node that was asked for there? */
        ZK_LOOKING,
        ZK_WATCHING,
        ZK_WAITING,
        ZK_MARKING,
        ZK_WRITING, /* that it holds, if it is detached, or confirms its turn */
        ZK_HELD,
        ZK_RELEASING,
        ZK_CANCELLING,
        ZK_ADOPTING,
        ZK_OUTSIDE /* the queue has used up its numbers: zk_retire.c */
};

struct zk_wait;
struct zk_delay;
struct zk_turn; /* zk_turn.c */

/* The engine's part of a claim. At most one flight of a claim is under way, so that none overtakes another. */
struct zk_part {
        struct zk_ask ask;
        struct list listed;    /* zk->parked, session->renewals, or the followers of the claim it waits for */
        struct list followers; /* claims of this client that wait for the end of this one */
        struct link link;      /* in zk->claims, by uid */
        struct claim *claim;
        struct zk *zk;
        struct zk_session *session;
        int64_t token;    /* its node's czxid, before anything is added; 0: not known; ZK_OUTSIDE: the queue's */
        int64_t until;    /* asking: since when; releasing: afterwards it is told as in doubt */
        int64_t since_ms; /* wall clock: asked for, then granted */
        struct zk_wait *wait;
        struct zk_delay *delay;
        int32_t number;     /* of its node in the line */
        int32_t heir;       /* releasing: the number of the follower that is asked about in the same flight */
        int16_t error;      /* what the first answer of a flight said */
        int16_t code;       /* cancelling: what it is refused with */
        uint8_t state;      /* enum zk_claim_state */
        uint8_t want;       /* what to do when it is parked */
        uint8_t tries : 5;  /* TRIES_MAX at most */
        bool founded : 1;   /* it made the container of its queue */
        bool known : 1;     /* to the engine: from acquire until it is told */
        bool made : 1;      /* its node was made, and its number is known */
        bool doubtful : 1;  /* a flight of it was lost: its node may be there, or not */
        bool cancelled : 1; /* when the answer is there */
        bool heired : 1;    /* releasing: there is an heir */
        bool inherits : 1;  /* and its node is there */
        bool both : 1;      /* its node and its marker are being deleted in one */
        bool again : 1;     /* the marker was not there: delete the node alone */
        bool seen : 1;      /* by the check that is under way */
        bool broken : 1;    /* its node was deleted before it was told that it holds */
};

static inline struct zk_part *zk_part_of(const struct claim *claim)
{
        return claim->part;
}
struct zk_part *zk_claim_find(struct zk *zk, const uint64_t uid[2]);
/* Takes a claim in hand, with no session yet; forgets it: its session is given back too. */
void zk_claim_know(struct zk *zk, struct claim *claim);
void zk_claim_forget(struct zk_part *part);
/* Does want as soon as its session is connected (ADOPTING: lease_ask). */
void zk_claim_park(struct zk_part *part, enum zk_claim_state want);
/* Tells, and the engine has forgotten it, or holds it. */
void zk_claim_grant(struct zk_part *part);
void zk_claim_refuse(struct zk_part *part, int code, const char *why);
void zk_claim_gone(struct zk_part *part, int reason); /* of a held one: its node is not there any more */
void zk_claim_asked(struct zk_part *part);
/* Somebody has deleted its node. If it does not hold yet, it will find out before it does. */
void zk_claim_broken(struct zk_part *part);
void zk_claim_acquire(struct engine *engine, struct claim *claim);
void zk_claim_cancel(struct engine *engine, struct claim *claim);
int zk_claim_overdue(struct engine *engine, const struct claim *claim, struct pawl_why *why);
void zk_claim_renew(struct engine *engine, struct claim *const *claims, size_t n);
void zk_claim_release(struct engine *engine, struct claim *claim);
int zk_claims_open(struct zk *zk);
/* The number of the node with this uid among the children (getChildren2); false: there is none. */
bool zk_find_node(struct jute_in *children, const uint64_t uid[2], int32_t *number);
/* zk_session.c tells: it is connected; it is not, or the attempt to connect it has failed; it has expired; the
 * leader is known to have heard of it of late; a renewal may have to be told as failed. */
void zk_claims_up(struct zk_session *session);
void zk_claims_down(struct zk_session *session, const struct pawl_why *why, bool was_connected);
/* session, its own or its marker's, is down: has it waited for it long enough? */
bool zk_claim_gives_up(const struct zk_part *part, const struct zk_session *session, const struct pawl_why *why,
                       bool was_connected);
void zk_claims_expired(struct zk_session *session);
void zk_claims_proven(struct zk_session *session);
void zk_claims_not_renewed(struct zk_session *session);

/* What a claim needs until it is held; reused, so that an acquire costs no allocation. */
struct zk_wait {
        struct list spare; /* in zk->spare_waits */
        struct link named; /* in zk->tails, by name, if tail */
        struct zk_part *part;
        struct zk_part *behind; /* the claim of this client whose follower it is, or NULL */
        struct zk_watch own;    /* its own node */
        struct zk_watch before; /* the node, or the line, that it waits for */
        char *paths;            /* of both */
        struct zk_turn *turn;   /* of one that confirms its turn: it checks the head of the queue; or NULL */
        bool tail;              /* the last of our claims in this line: who asks next stands behind it */
        bool proven;            /* when the one before has gone it holds */
        bool early;             /* that was told before the watch was confirmed */
        bool whole_line;        /* before is the line itself */
        bool until_held;        /* it is waited for until it holds, too */
        bool waited;            /* others may have seen it wait */
};

/* zk_wait.c: judges a line by the names of its children (getChildren2), and lets the claim hold or wait. */
void zk_line_look(struct zk_part *part, struct jute_in *children);
/* Begins and ends what struct zk_wait is for; PAWL_OK or PAWL_NO_MEMORY. */
int zk_wait_begin(struct zk_part *part);
void zk_wait_end(struct zk_part *part);
/* It holds: only its own node is still watched, if it was. */
void zk_wait_granted(struct zk_part *part);
/* Stands behind the last of our claims in its line, before it asks; false: there is none. Then it becomes the last. */
bool zk_wait_behind_ours(struct zk_part *part);
/* Its node was made: is it right behind the one it was put behind? Then it waits for that one, and nothing has to
 * be looked at. */
bool zk_wait_is_next(struct zk_part *part);
/* The claim's node is gone from the line. clean: it held the lock and gave it back. */
void zk_followers_told(struct zk_part *part, bool clean);
/* Writes the request that writes into its node that it holds: one flight, or a part of one. */
void zk_put_held(struct zk_part *part, struct jute_out *out);
/* A limited claim holds: those who wait for that are told. */
void zk_wait_tell_held(struct zk_part *part);
/* Writes the request that watches its own node again, if that was watched while it waited; false: it was not. Its answer is
 * the second of the flight: zk_wait_watched_own is called at the first, whose write has used the watch up. */
bool zk_wait_watch_own(struct zk_part *part, struct jute_out *out);
void zk_wait_watched_own(struct zk_part *part);
/* The one that inherits the lock if this one is given back, or NULL. */
struct zk_part *zk_wait_heir(const struct zk_part *part);
void zk_waits_free(struct zk *zk);

/* zk_claim.c: makes a node; looks at the line; it is the holder; it does not want the lock any more: the node is
 * deleted, then it is refused with code. */
void zk_claim_ask(struct zk_part *part);
void zk_claim_look(struct zk_part *part);
void zk_claim_first(struct zk_part *part);
void zk_claim_leave(struct zk_part *part, int code);
void zk_claim_retry(struct zk_part *part, enum zk_claim_state want); /* in a while */

/* zk_turn.c: a claim that confirms its turn waits; and does not wait any more. */
void zk_turn_begin(struct zk_part *part);
void zk_turn_end(struct zk_part *part);

/* zk_retire.c: is this number so high that a new line should begin? That it may not hold with it? */
enum { ZK_NUMBERS_RETIRE = 1 << 30, ZK_NUMBERS_END = INT32_MAX - (1 << 20) };
bool zk_number_retires(int32_t number);
bool zk_number_is_last(int32_t number);
/* Leaves a line with such numbers, whose children (getChildren2) are known, and waits until there is another. */
void zk_retire(struct zk_part *part, const struct jute_in *children);
void zk_retire_poll(struct zk_part *part);
const char *zk_retire_why(void); /* the message of PAWL_FULL */

/* zk_delay.c: a lock-delay's marker. */
void zk_delay_mark(struct zk_part *part);        /* makes it, then grants */
void zk_delay_cancel(struct zk_part *part);      /* does not want it any more */
bool zk_delay_is_marker(struct jute_text child); /* _d_... */
bool zk_delay_owner(struct jute_text child, uint64_t uid[2]);
/* From when the lease may count: a holder must believe in its marker's session, too. */
int64_t zk_delay_counts_from(const struct zk_part *part);
/* Is that later than what it was told before? gained: it is remembered. */
bool zk_delay_gains(const struct zk_part *part, int64_t from);
void zk_delay_gained(struct zk_part *part, int64_t from);
void zk_delay_mark_again(struct zk_part *part); /* if its marker is not there */
/* gone: the marker was deleted with the node; else it is, after the delay. */
void zk_delay_end(struct zk_part *part, bool gone);
bool zk_delay_path(const struct zk_part *part, char *path); /* false: there is no marker */
void zk_delays_up(struct zk_session *session);
void zk_delays_down(struct zk_session *session, const struct pawl_why *why, bool was_connected);
void zk_delays_expired(struct zk_session *session);
void zk_delays_free(struct zk *zk);

/* zk_ghost.c: deletes the part's node behind the caller. Without memory the session has to do it. */
void zk_ghost_of(const struct zk_part *part);
void zk_ghost_at(struct zk_session *session, const char *path);
void zk_ghosts_up(struct zk_session *session);
void zk_ghosts_expired(struct zk_session *session);
void zk_ghosts_free(struct zk *zk);

/* zk_idle.c: a name is acquired; a claim that made the container is over. */
int zk_idle_open(struct zk *zk);
void zk_idle_free(struct zk *zk); /* at close: deletes what can be deleted without waiting; bears what was not opened */
void zk_idle_used(struct zk *zk, const struct claim *claim);
void zk_idle_add(struct zk *zk, const struct claim *claim);

/* zk_check.c: what is there of a session, beside what we believe. A request of the beat's flight, and its answer. */
bool zk_check_is_due(struct zk_session *session);
void zk_check_request(struct zk_session *session, struct jute_out *out);
void zk_check_answered(struct zk_session *session, int error, struct jute_in *reply);

/* ---- the engine ------------------------------------------------------------------------------------------------ */

struct zk_server {
        char *host;
        uint16_t port;
};

struct zk {
        struct engine engine; /* first */
        struct zk_server *servers;
        size_t server_count;
        size_t first_server; /* by chance */
        struct net_tls *tls;
        char *where;  /* for sentences: host:port,host:port */
        char *chroot; /* "" or /a/b */
        char *auth;   /* user:password, or NULL */
        enum zk_acl acl;
        uint64_t client; /* our mailbox, and what the record of each claim says */
        int64_t timeout; /* of answers */
        int64_t slack;
        int64_t tick;      /* of the servers; 0: not known */
        int64_t shortest;  /* the timeout of the shortest session that was granted; 0: none was */
        int64_t idle;      /* how long a session without users is kept */
        int64_t lost_at;   /* when a connected session was last lost */
        int64_t seen_zxid; /* the last transaction that any session has seen, since that number was read */
        uint64_t restores; /* how often the namespace's store was restored: the number in .pawl */
        bool ever;         /* a session was connected before */
        bool readwrite;    /* names as Curator's read/write lock has them */
        bool make_chroot;
        bool history;
        bool no_containers; /* the server is too old for them */
        bool no_ephemerals; /* nor for getEphemerals */
        bool closing;
        struct list sessions;
        struct list parked; /* parts with something to ask as soon as their session is connected */
        struct list ghosts;
        struct list delays;
        struct table claims; /* by uid */
        struct table tails;  /* by name: the last of our claims that waits there */
        size_t known;
        struct contender *earlier; /* room to judge a line in */
        size_t earlier_room;
        struct timer retry; /* ask again what the server could not do at the moment */
        struct list spare_waits;
        size_t spare_wait_count;
        struct zk_news *news;       /* zk_news.c */
        struct zk_past *past;       /* zk_past.c */
        struct zk_idle *idle_names; /* zk_idle.c */
        struct list questions;      /* zk_inspect.c */
        struct list examinations;   /* zk_examine.c */
};

static inline struct zk *zk_of(struct engine *engine)
{
        return (struct zk *)(void *)engine;
}
static inline int64_t zk_now(const struct zk *zk)
{
        return loop_now(zk->engine.host->loop);
}
int64_t zk_wall_ms(void);
/* The token of a node: its czxid, behind those before the last restore. */
static inline uint64_t zk_token(const struct zk *zk, int64_t czxid)
{
        return (zk->restores << 48) + (uint64_t)czxid;
}

/* Paths, into ZK_PATH_MAX bytes. */
void zk_path_of_name(const struct zk *zk, const char *name, size_t length, char *path); /* chroot/NAME */
void zk_path_of_part(const struct zk_part *part, char *path);           /* chroot/NAME/_c_...-lock-0000000007 */
void zk_path_to_make(const struct zk_part *part, char *path);           /* the same without its number */
void zk_path_of_own(const struct zk *zk, const char *rest, char *path); /* chroot/.pawl, or chroot/.pawl/rest */

/* A uid as Curator writes one: 36 characters, and written with a NUL. */
void zk_guid_write(const uint64_t uid[2], char *guid);
bool zk_guid_read(const char *guid, uint64_t uid[2]);

/* What the name of a node in a line says. */
struct zk_node {
        struct contender contender; /* its order is its number */
        int32_t number;
        bool delays; /* ours, with a lock-delay: a marker may stand beside it */
};
/* False: it is not somebody who waits or holds (a marker, or something that is not a lock). */
bool zk_node_read(struct jute_text name, struct zk_node *node);
/* Before (< 0) or behind. Those that wrapped around, which happens to the last of a line, are behind the others. */
static inline int32_t zk_number_order(int32_t a, int32_t b)
{
        return (int32_t)((uint32_t)a - (uint32_t)b);
}

/* Writes the requests that make the chroot (if we may) and .pawl; all but the last may fail with ZK_NODE_EXISTS,
 * and the last too, if another was faster. Returns how many. */
int zk_request_own(struct zk_session *session, struct jute_out *out);
enum { ZK_OWN_ROOM = 3 * ZK_REQUEST_ROOM };

/* ---- what zk2's files have, and when it is called -------------------------------------------------------------- */

extern const struct engine_inspect zk_inspect; /* zk_inspect.c, with zk_examine.c */
extern const struct engine_leases zk_leases;   /* zk_lease.c */
extern const struct engine_values zk_values;   /* zk_value.c */

/* A session is connected (each time one is); an attempt to connect has failed and none is connected (inquiries
 * that have waited too long are answered with why); a session is lost for good, and the nodes we made on it (the
 * mailbox). */
void zk_inspect_up(struct zk *zk);
void zk_inspect_down(struct zk *zk, const struct pawl_why *why);
void zk_inspect_free(struct zk *zk); /* zk->questions and zk->examinations */

/* PAWL_OK or PAWL_NO_MEMORY; free bears what was not opened. */
int zk_news_open(struct zk *zk);
void zk_news_free(struct zk *zk);
/* A claim is held, or waits: make the mailbox if claims are still known 50 ms from now. Called for every grant: it
 * must be cheap. */
void zk_news_needed(struct zk *zk);
void zk_news_up(struct zk_session *session); /* it is connected (again): if the mailbox is on it, read and watch it */
void zk_news_expired(struct zk_session *session); /* it is lost for good: if the mailbox was on it, make it anew */

int zk_past_open(struct zk *zk);
void zk_past_free(
        struct zk *zk); /* at close: what is still unwritten may be sent, if a session is connected, without waiting */
/* how: 0: granted (part->since_ms is when); else enum pawl_how. Called at every grant and every end if zk->history. */
void zk_past_note(struct zk *zk, const struct zk_part *part, int how);
void zk_past_up(struct zk *zk);
/* A claim is forgotten: so is what was known of the lease it had taken up. */
void zk_past_drop(struct zk *zk, const struct zk_part *part);

/* A part that was parked with ZK_ADOPTING: its session (from zk_session_resume, put into part->session) is
 * connected. Told with zk_claim_grant (after token, number and made were set) or zk_claim_refuse. An expired
 * session is refused with PAWL_LOST by zk_claim.c. */
void zk_lease_ask(struct zk_part *part);
/* The data of a node in a line. from_ms: since when the lease counts, if its node was last written by who took it up; else
 * 0, and it counts from then. False: it is not one of ours. */
bool zk_record_read(struct jute_text data, struct record *record, int64_t *from_ms);

#endif
