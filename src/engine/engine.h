/* engine.h - the contract between the core, which decides when, and an engine, which knows how to speak to one kind of
 * store. An engine exports one symbol, its ops table; it never names the core.
 *
 * Every operation is called with the client locked, on whatever thread drives the loop; every event is told in that
 * same context, inside an operation or from a watch or timer of the loop. An engine may tell an event before the
 * operation that caused it has returned.
 *
 * The life of a claim, as the engine sees it:
 *
 *   acquire --> granted --> renew* --> release --> released      the engine has forgotten the claim
 *      |           |-----> gone                                  forgotten: do not release
 *      |-----> refused                                           forgotten
 *      |-- cancel --> refused(PAWL_CANCELLED), or granted if that was faster
 *
 * The core owns the claim's memory and keeps it until the engine has forgotten it. */
#ifndef PAWL_ENGINE_H
#define PAWL_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../base/list.h"
#include "../base/url.h"
#include "../base/why.h"
#include "../loop/loop.h"
#include "pawl.h"

struct engine;

/* One request for one lock. Filled by the core, read by the engine; constant while the engine knows the claim. */
struct claim {
        const char *name; /* checked: see base/name.h */
        size_t name_length;
        uint64_t uid[2];      /* fresh and random for each acquire: the identity of the attempt and of its grant */
        int64_t ttl;          /* ns, as all times below loop.h */
        int64_t delay;        /* lock-delay after a failure, 0: none */
        uint64_t age;         /* of the transaction it belongs to, 0: none */
        uint32_t mode;        /* enum pawl_mode */
        uint32_t max_holders; /* 0: any number */
        bool wait;            /* enqueue if it is not free; else refuse with PAWL_BUSY */
        bool detached;        /* outlives us: nothing but its ttl ends it */
        bool lost; /* set before release: the lease ran out, to the store a failure and not a release (lock-delay) */
        uint8_t confirms; /* > 0: it confirms its turn (engine/session/turn.h); 1 more for each time it was passed over */
        bool blocking;    /* a thread will sleep in instant->sleep for it */
        const char *note; /* "" if none */
        void *part;       /* the engine's own part: engine->claim_size bytes, zeroed before acquire and adopt */
};

/* What a grant is. The token is told at the grant, never earlier, also where the store numbers claims as they queue. */
struct grant {
        uint64_t token;  /* > 0 and < 2^63 */
        int64_t sent_at; /* loop time before the request was sent by which the store began to count the lease */
};

/* One question by somebody who looks at the store; the engine calls entry for each line, then answered once. */
struct inquiry {
        const char *name; /* or prefix, for list: "" for all */
        bool force;       /* init: also where it was done before */
        uint64_t token;   /* break: of the holder that is meant; 0: all of them */
        /* break: "" or a text of at most PAWL_BREAK_REASON_MAX bytes without control characters; borrowed until it is
         * answered or forgotten. Of other inquiries NULL. */
        const char *reason;
        const void *data; /* store: what is to be kept, borrowed until it is answered or forgotten */
        size_t size;      /* 0: nothing any more; at most PAWL_VALUE_MAX */
        int64_t keep;     /* ns; 0: until it is replaced */
        void (*entry)(struct inquiry *, const struct pawl_entry *);
        void (*value)(struct inquiry *, const struct pawl_value *);     /* of fetch; borrowed for the call */
        void (*finding)(struct inquiry *, const struct pawl_finding *); /* of examine */
        void (*answered)(struct inquiry *, int code, const char *why);
};

/* What an engine tells. why is a sentence, or NULL where the code says it all; borrowed for the call. */
struct engine_events {
        void (*granted)(void *core, struct claim *, const struct grant *);
        void (*refused)(void *core, struct claim *, int code, const char *why);
        /* PAWL_OK: the lease counts from sent_at again. Anything else: not renewed now, the lock may still be ours. */
        void (*renewed)(void *core, struct claim *, int code, int64_t sent_at);
        void (*released)(void *core, struct claim *, int code); /* PAWL_OK, PAWL_LOST, PAWL_IN_DOUBT */
        void (*gone)(void *core, struct claim *, int reason);   /* enum pawl_reason: the store says it is not ours */
        void (*asked)(void *core, struct claim *);
};

/* What the core lends an engine. */
struct engine_host {
        struct loop *loop;
        const struct engine_events *events;
        void *core;        /* first argument of the events */
        const char *owner; /* who we are, for others to read */
        void (*log)(const struct engine_host *, int level, const char *text);
        void *log_arg;
        /* The ops for a scheme, for engines made of engines. NULL, and why, if there are none. */
        const struct engine_ops *(*find)(const char *scheme, struct pawl_why *why);
};

/* Optional, for a store in memory: answers at once, without the loop, without a system call, without allocating. */
struct engine_instant {
        /* Takes the lock if it is free and nobody waits. PAWL_OK and *grant; PAWL_BUSY: not taken, the claim is
         * unknown to the engine and acquire may follow; another error: likewise, and acquire will say why. now is the
         * loop's time. The claim's part is not zeroed. */
        int (*acquire)(struct engine *, struct claim *, int64_t now, struct grant *grant);
        /* Gives a held claim back: PAWL_OK, PAWL_LOST; forgotten either way. PAWL_STUCK: another process is in the way;
         * nothing is done, and release may follow, which answers in time. */
        int (*release)(struct engine *, struct claim *, int64_t now);
        /* For a claim with blocking set, after acquire: sleeps until there may be news or until the time given.
         * Called with the client *unlocked*. Then look, with the client locked, tells the events. */
        void (*sleep)(struct engine *, struct claim *, int64_t until);
        void (*look)(struct engine *, struct claim *);
        /* Whether the store still says that a granted claim is ours. Called with the client unlocked, at any time while
         * the user has the handle; once it said no it does not say yes again. */
        bool (*stands)(struct engine *, const struct claim *);
};

/* Optional: inspection. Each asks inquiry->name and answers through the inquiry. */
struct engine_inspect {
        void (*list)(struct engine *, struct inquiry *);    /* every holder of the names with that prefix */
        void (*show)(struct engine *, struct inquiry *);    /* holders and queue of one name */
        void (*history)(struct engine *, struct inquiry *); /* its past owners, the latest first */
        /* Cuts the holders off; with inquiry->token that one only, which is checked in the same step: PAWL_BUSY if only
         * others hold it, and nothing was changed. The history has the host's owner and inquiry->reason. */
        void (*break_)(struct engine *, struct inquiry *);
        void (*ask)(struct engine *, struct inquiry *); /* asks the holders to yield */
        /* Is the store fit to keep locks, and are we allowed to? May be NULL. */
        void (*examine)(struct engine *, struct inquiry *);
        /* Prepares servers that must be prepared before their first use. May be NULL. */
        void (*init)(struct engine *, struct inquiry *);
        /* The inquiry will not wait any longer: forget it, without an answer. Only where an inquiry takes I/O. */
        void (*forget)(struct engine *, struct inquiry *);
};

/* Optional: a few bytes beside each lock (PAWL_CAN_KEEP). An engine that has it has inspect as well: what is not
 * answered in time is forgotten there, as any inquiry. */
struct engine_values {
        /* Keeps inquiry->data under the claim's name if, and only if, the claim is held in the store at that moment;
         * check and write are one step there. PAWL_OK. PAWL_LOST: it is not, and nothing was changed. PAWL_IN_DOUBT:
         * sent, and not confirmed. The claim may be gone before the answer: what is needed of it is copied. */
        void (*store)(struct engine *, const struct claim *, uint64_t token, struct inquiry *);
        /* value, then answered with PAWL_OK; or PAWL_NOT_FOUND: there is nothing, or it was to be kept no longer. Never
         * older than what was confirmed before it was asked, also by another server of the same store. */
        void (*fetch)(struct engine *, struct inquiry *);
};

/* One step of a quorum's protocol on one of its members (redlock): docs/decisions/0080. */
enum vote_kind {
        VOTE_GRANT,  /* take the lock for claim->uid; number: the hint */
        VOTE_ACCEPT, /* number T for a lock that is ours */
        VOTE_RENEW,  /* extend a lock that is ours; number: its token */
        VOTE_RELEASE, /* give it back if it is ours; number: its token, or 0 for an attempt that failed: nobody is told */
        VOTE_ADOPT    /* take up a lease that is ours: its owner and note are the claim's from now on */
};
struct vote {
        enum vote_kind kind;
        const struct claim *claim; /* name, uid, ttl, delay, note, detached; the caller keeps it until it is answered */
        uint64_t number;
        uint64_t ticket; /* grant: to be queued with if the lock is not free, the least first; 0: not to be */
        bool queued;     /* grant: this client may be in the queue already. release: the second in it is told, too */
        void (*answered)(struct vote *); /* exactly once, in a later turn */
        /* The answer. PAWL_OK. PAWL_BUSY: another has the lock (grant). PAWL_LOST: another has it, or T is too low.
         * PAWL_NOT_FOUND: nobody has it. PAWL_IN_DOUBT: the member cannot be trusted, member->why says why. Anything
         * else: it could not be asked, or did not answer in time. */
        int code;
        uint64_t granted;     /* the number it has there (grant) */
        uint64_t holder;      /* who has it (busy): the same for the same attempt; 0: not one of us */
        uint32_t before;      /* so many are before us in the queue (busy) */
        int64_t left;         /* of the other's lease and lock-delay (busy), or of ours (adopt); ns */
        int64_t delay;        /* the lock-delay of ours (adopt); ns */
        uint64_t incarnation; /* of the member, when it was asked */
        uint64_t tag;         /* of its roster, then */
        int64_t sent_at;
        _Alignas(16) char part[96]; /* the member's own */
};
/* What is known of a member. The data are whole since a time that a marker among them says; a member that was restarted
 * or emptied has none, or an old one, and from its first sight on says since when. */
struct member {
        bool decided; /* what follows was found out, if only that it cannot be reached */
        bool reachable;
        bool trusted;         /* its data are whole since this incarnation began */
        bool marked;          /* it has a marker, if only of an earlier incarnation */
        bool durable;         /* every write is on disk before it is confirmed, and was when it was marked */
        uint64_t incarnation; /* of the server's run, this connection and its data; 0: never reached */
        uint64_t run;         /* the server's run: the same for the same server */
        const char *roster;   /* "ID SET ENTRY..." as it has it, "" if it has none; valid until the next change */
        char id[17];          /* its own id in the roster, or the one it will have */
        uint64_t tag;         /* the digest of the roster that votes are sent with */
        uint64_t confirmed;   /* the one it was last seen to have */
        bool enrolling;       /* a roster is being written */
        uint64_t floor;       /* no number below or equal is ever given again */
        int64_t longest;      /* ttl + delay that was ever granted there, ns */
        int64_t asked_at;     /* loop time before this was asked for */
        uint64_t clock;       /* its wall clock in us, then */
        int64_t untrusted;    /* for how long it is known not to be trusted, ns */
        struct pawl_why why;  /* if it is not reachable or not trusted */
        void (*changed)(struct member *); /* told in a turn of the loop, whenever any of the above was told */
        /* A lock that this client is queued for was given back, and is kept for us for a moment; or, if not first, for
         * the one before us. */
        void (*turn)(struct member *, const char *name, size_t length, bool first);
        void (*news)(struct member *, const uint64_t uid[2], bool broken); /* broken, or else asked to let go */
};
/* Optional: a store that can be one member of a quorum. */
struct engine_member {
        /* Connects now and stays connected; claims are not made of it. PAWL_OK or PAWL_NO_MEMORY. */
        int (*join)(struct engine *, struct member *);
        void (*look)(struct engine *);               /* reads all of it again; changed is told */
        int (*vote)(struct engine *, struct vote *); /* PAWL_OK, or it was not asked and will not be answered */
        /* VOTE_RENEW for many. Those that could not be asked are answered before it returns. */
        void (*renew)(struct engine *, struct vote *const *, size_t n);
        /* Leaves the queue that grants with a ticket entered. */
        void (*leave)(struct engine *, const char *name, size_t length);
        /* The lock was freed by force: the next one gets its turn. */
        void (*call)(struct engine *, const char *name, size_t length);
        /* Lets others see that the claim waits, or no longer. */
        void (*announce)(struct engine *, const struct claim *, bool on);
        /* Those who were announced for inquiry->name, by all clients. */
        void (*waiters)(struct engine *, struct inquiry *);
        /* Makes it trusted: no number at or below floor is given again. Does nothing if its state is not the one that
         * was told last. tag: the digest of its roster. again: also if it is trusted already. changed is told. */
        void (*mark)(struct engine *, uint64_t floor, int64_t longest, uint64_t tag, bool again);
        /* Writes the roster, "ID SET ENTRY...", and its digest; votes sent from now on carry that. Does nothing if the
         * roster is not the one that was told last. With another ID than before it is not trusted any more. changed is
         * told. */
        void (*enrol)(struct engine *, const char *roster, uint64_t tag);
};

/* Optional: leases that outlive the process, as words. */
struct engine_leases {
        /* The word for a held, detached claim: letters, digits and [._:-], at most PAWL_LEASE_MAX bytes. */
        int (*word)(struct engine *, const struct claim *, char *word, size_t size);
        /* Reads the name and ttl out of a word (name needs PAWL_NAME_MAX + 1 bytes). Then adopt takes the lease up for
         * a claim made with them: granted with the lease's token, or refused with PAWL_LOST; the host's owner is its
         * owner from now on. Told before it returns where there is no I/O. It may put the lease's uid and lock-delay in
         * the place of the claim's. */
        int (*read)(struct engine *, const char *word, char *name, int64_t *ttl, struct pawl_why *why);
        void (*adopt)(struct engine *, struct claim *, const char *word);
        /* Forgets a held, detached claim without touching the store and without an event. */
        void (*forget)(struct engine *, struct claim *);
};

struct engine_ops {
        const char *name;
        size_t size;       /* of the engine's own struct, which begins with struct engine; zeroed before open */
        size_t claim_size; /* of its part of a claim, if open does not say otherwise */

        /* Reads the URL's options, refuses what it does not know, starts what it needs. Never waits for a store. */
        int (*open)(struct engine *, const struct url *, struct pawl_why *why);
        /* Also after a failed open. Claims still known are forgotten without an event. */
        void (*close)(struct engine *);

        void (*acquire)(struct engine *, struct claim *);
        void (*cancel)(struct engine *, struct claim *);
        /* The caller's time is up and the claim is undecided; cancel follows. Returns PAWL_TIMEOUT if the store has
         * answered for this claim and is still connected: another holder is in the way. Otherwise what keeps it from
         * answering, PAWL_UNREACHABLE if nothing else is known, with a message in why. NULL, for a store in memory:
         * always PAWL_TIMEOUT. */
        int (*overdue)(struct engine *, const struct claim *, struct pawl_why *why);
        /* Compare-and-extend, all in one batch if the store can; renewed for each of them. Never re-creates. */
        void (*renew)(struct engine *, struct claim *const *, size_t n);
        /* Compare-and-delete; no renewal of this claim is sent after it. Retried in the background until confirmed or
         * pointless; a claim whose reply is overdue may be answered with PAWL_IN_DOUBT. */
        void (*release)(struct engine *, struct claim *);
        /* The client is being closed, and nothing is asked of the engine any more but this and close. Gives back what it
         * keeps beside its claims. Called after each turn of the loop until it returns true, or for as long as
         * pawl_close may wait. NULL: there is nothing to give back. */
        bool (*leave)(struct engine *);

        const struct engine_instant *instant;
        const struct engine_inspect *inspect;
        const struct engine_leases *leases;
        const struct engine_values *values;
        const struct engine_member *member;
        const char *sql; /* what an administrator may run before the first use; NULL: nothing */
};

/* An open engine: the first member of each engine's own struct. Set by whoever opens it, before open. */
struct engine {
        const struct engine_ops *ops;
        const struct engine_host *host;
        size_t claim_size;     /* ops->claim_size, or what open set: a decorator has that of its inner engine */
        uint32_t capabilities; /* enum pawl_capability, set by open */
        /* The URL that leads to the same store from any directory, if that is not the one that was opened; set by open,
         * malloc'd, freed by whoever opened it. */
        char *url;
};

/* What overdue says of a store from which nothing was heard since then: last, if that is why it is not connected. */
static inline int engine_silent(struct pawl_why *why, const char *where, int64_t ns, const struct pawl_why *last)
{
        if (last && last->code != PAWL_OK)
                return why_set(why, last->code, "%s", last->text);
        return why_set(why, PAWL_UNREACHABLE, "%s: no answer for %lld ms", where, (long long)(ns / 1000000));
}

/* registry.c: which scheme is which engine. */
const struct engine_ops *engine_find(const char *scheme, struct pawl_why *why);
int engine_info(size_t index, struct pawl_engine_info *info);
/* What is to be run for a scheme: see pawl_engine_sql. */
int engine_sql(const char *scheme, const char **locks);

/* Opens and closes what engine_find found: allocates ops->size, sets the head, calls open. */
int engine_open(const struct engine_ops *ops, const struct engine_host *host, const struct url *url,
                struct engine **engine, struct pawl_why *why);
void engine_close(struct engine *engine);

#endif
