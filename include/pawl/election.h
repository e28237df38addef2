/* election.h - one leader among many candidates, with an epoch and a word to everybody.
 *
 *     if (pawl_campaign(client, "scheduler", PAWL_ELECTION(.ttl_ms = 5000), &election) == PAWL_OK) {
 *             while (pawl_leads(election) == PAWL_OK)
 *                     do_one_thing(pawl_epoch(election));
 *             pawl_resign(election);
 *     }
 *
 * The leader is the holder of the lock NAME, the epoch is its token: it grows with every election. A leader that cannot
 * renew its lease stops leading by its own clock before anybody else can be elected; a leader that was asleep and has
 * not looked yet is fenced: send the epoch along with what you do, to a guard (guard.h). Candidates wait in one queue
 * where the engine has one; one that is dead or stands still in its turn is passed over (PAWL_CONFIRM).
 *
 * The value is what the leader wants others to know: an address, say. It is kept with the epoch it belongs to, and goes
 * with the leader. It needs PAWL_CAN_KEEP; to see who leads needs PAWL_CAN_INSPECT. Leaders of ZooKeeper's and etcd's
 * own recipes exclude ours, where they use the same path: docs/engines. The rules of pawl.h hold here too. */
#ifndef PAWL_ELECTION_H
#define PAWL_ELECTION_H

#include <pawl.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pawl_election pawl_election; /* one candidacy: waiting, leading, or over */

/* It does not lead any more. Runs once, where pawl_lost_fn does. */
typedef void pawl_demoted_fn(pawl_election *election, int reason, void *arg);
/* status: what pawl_campaign would have returned. Runs where pawl_granted_fn does. The value is not published yet. */
typedef void pawl_elected_fn(pawl_election *election, int status, void *arg);

struct pawl_election_options {
        uint32_t size;     /* sizeof(struct pawl_election_options): PAWL_ELECTION sets it */
        uint32_t flags;    /* none yet: 0 */
        int64_t wait_ms;   /* PAWL_FOREVER, PAWL_NO_WAIT (PAWL_BUSY), or how long (PAWL_TIMEOUT) */
        int64_t ttl_ms;    /* of the leader's lease: a dead one is followed after so long; 0: the client's default */
        const void *value; /* published when elected; copied; NULL: nothing */
        size_t value_size; /* at most PAWL_VALUE_MAX */
        const char *note;  /* of the lock, for others to read */
        pawl_demoted_fn *on_demoted;
        void *arg; /* for on_demoted */
        struct pawl_why *why;
};

#ifndef __cplusplus
#define PAWL_ELECTION(...)                                                                                             \
        (&(const struct pawl_election_options){.size = sizeof(struct pawl_election_options), __VA_ARGS__})
#else
PAWL_DEFAULTS(election)
#endif

/* Waits to be elected. PAWL_OK: we lead, and the value is published. */
PAWL_EXPORT PAWL_MUST_USE int pawl_campaign(pawl_client *client, const char *name,
                                            const struct pawl_election_options *options, pawl_election **election);
/* The asynchronous twin: the handle is given at once, and must be resigned once. options->value may not be given:
 * publish it. */
PAWL_EXPORT PAWL_MUST_USE int pawl_campaign_async(pawl_client *client, const char *name,
                                                  const struct pawl_election_options *options,
                                                  pawl_elected_fn *on_elected, void *arg, pawl_election **election);

/* PAWL_OK while we lead, at this moment, by our own clock; else PAWL_LOST; PAWL_MISUSE before the election. */
PAWL_EXPORT PAWL_MUST_USE int pawl_leads(pawl_election *election);
/* How long we lead for certain, if nothing is renewed: ms. */
PAWL_EXPORT int64_t pawl_leads_ms(pawl_election *election);
/* > 0, greater than that of every earlier leader; 0 before the election. */
PAWL_EXPORT uint64_t pawl_epoch(const pawl_election *election);
/* Replaces the value; size 0: nothing any more. PAWL_LOST: we do not lead, and nothing was changed. */
PAWL_EXPORT PAWL_MUST_USE int pawl_publish(pawl_election *election, const void *value, size_t size);
/* Withdraws the value, and steps down; the next in line leads. Consumed whatever is returned; NULL is fine. As
 * pawl_release. */
PAWL_EXPORT int pawl_resign(pawl_election *election);

struct pawl_leader {
        uint64_t epoch;
        int64_t since_ms;     /* unix time */
        int64_t remaining_ms; /* of its lease */
        void *value;          /* NULL: none was published. One NUL follows the last byte. */
        size_t value_size;
        char owner[PAWL_OWNER_MAX + 1];
        char note[PAWL_NOTE_MAX + 1];
};
/* Who leads. PAWL_NOT_FOUND: nobody. pawl_leader_free frees what is in it. */
PAWL_EXPORT PAWL_MUST_USE int pawl_leader(pawl_client *client, const char *name, struct pawl_why *why,
                                          struct pawl_leader *leader);
PAWL_EXPORT void pawl_leader_free(struct pawl_leader *leader);

struct pawl_observe_options {
        uint32_t size;    /* sizeof(struct pawl_observe_options): PAWL_OBSERVE sets it */
        uint32_t flags;   /* none yet: 0 */
        int64_t every_ms; /* how often is looked; 0: half a second */
        int64_t wait_ms;  /* PAWL_FOREVER, or after how long it ends with PAWL_TIMEOUT */
        struct pawl_why *why;
};

#ifndef __cplusplus
#define PAWL_OBSERVE(...)                                                                                              \
        (&(const struct pawl_observe_options){.size = sizeof(struct pawl_observe_options), __VA_ARGS__})
#else
PAWL_DEFAULTS(observe)
#endif

/* leader NULL: nobody leads. Borrowed for the call. A return other than 0 ends pawl_observe. */
typedef int pawl_leader_fn(const struct pawl_leader *leader, void *arg);
/* Tells who leads, and again whenever leader or value have changed, until fn says so: then PAWL_OK. A store that does
 * not answer is asked again; only what will not get better ends it. A leader who was deposed between two looks is not
 * told. */
PAWL_EXPORT PAWL_MUST_USE int pawl_observe(pawl_client *client, const char *name,
                                           const struct pawl_observe_options *options, pawl_leader_fn *fn, void *arg);

#ifdef __cplusplus
}
#endif
#endif
