/* sim.h - a world in which only the core is real: clients with clocks of their own, a network that loses, delays, doubles
 * and reorders, a store that restarts, a resource that is guarded by tokens. One seed is one history, to the nanosecond.
 *
 *   world.c         time, chance, events, the network, the trace
 *   server.c        the model store: leases by its own clock, one queue per name, tokens at the grant
 *   model_engine.c  the engine that speaks to it: engine.h's contract over an unreliable network
 *   actors.c        clients and their users, the guarded resource
 *   checks.c        what must be true after every step
 *   run.c           one history: which faults, when, and the quiet end */
#ifndef SIM_H
#define SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/core.h"

enum {
        CLIENTS_MAX = 5,
        ACTORS_MAX = 6, /* for each client */
        NAMES_MAX = 3,
        NAMES_ROOM = 32, /* recipes name more than one would think */
        HOLDERS_MAX = 16,
        WAITERS_MAX = 64,
        BATCH_MAX = 8, /* renewals in one message */
        GRAVES_MAX = 64
};

/* Bugs to be switched on: the simulator must find each of them. X(flag, the sentence that is wrong) */
#define SIM_BUGS(X)                                                                                                    \
        X(REPLY_TIME, "a lease counts from the reply, not from before the request")                                    \
        X(RENEW_REPLY_TIME, "a renewal counts from its reply")                                                         \
        X(TOKEN_RESET, "tokens start again when the store lost its data")                                              \
        X(TOKEN_AT_ENQUEUE, "a claim is numbered when it queues, not when it is granted")                              \
        X(BLIND_RELEASE, "a release removes whoever holds the lock")                                                   \
        X(NO_RECHECK, "a waiter relies on being told and never asks again")                                            \
        X(UNCONFIRMED, "a grant that was pushed is used without asking the store")                                     \
        X(REUSED_UID, "one client uses one uid for all its claims of a name")                                          \
        X(RENEW_RECREATES, "a renewal makes a lock that vanished anew")                                                \
        X(NO_CANCEL, "a cancelled claim stays in the queue")                                                           \
        X(TWICE, "a request that came twice is executed twice")                                                        \
        X(UNFENCED, "the resource takes any token")                                                                    \
        X(READ_UNFENCED, "reads do not show their token to the resource")                                              \
        X(NO_QUARANTINE, "a store that lost its data grants at once")                                                  \
        X(RELEASE_UNCONFIRMED, "a release is called done before the store said so")                                    \
        X(EARLY_EXPIRY, "the store ends leases at nine tenths")                                                        \
        X(LAST_COME, "the last in the queue is served first")                                                          \
        X(NO_LIMIT, "the store lets one more in than the limit")                                                       \
        X(NO_CONFIRM_LEASE, "a grant that nobody confirms lasts for ever")                                             \
        /* of what recipes need: these are found by ./recipes */                                                       \
        X(STORE_UNCHECKED, "bytes are kept also for who no longer holds the lock")                                     \
        X(NO_AGE, "the age of a claim is not shown")                                                                   \
        X(NO_CALL, "a holder is not told that it was asked to let go")

enum bug {
        BUG_NONE,
#define SIM_BUG(flag, text) BUG_##flag,
        SIM_BUGS(SIM_BUG)
#undef SIM_BUG
                BUGS
};
const char *bug_name(enum bug bug);
const char *bug_text(enum bug bug);
enum bug bug_find(const char *name); /* BUGS: there is none of that name */

/* ---- time ------------------------------------------------------------------------------------------------------ */

/* A clock that is read as: local + (true time - origin) * (1 + ppm / 1,000,000). */
struct clock {
        int64_t origin;
        int64_t local;
        int64_t ppm;
};
int64_t clock_read(const struct clock *clock, int64_t now);
/* The first true time at which it shows at. */
int64_t clock_when(const struct clock *clock, int64_t at);
/* Changes the rate, and puts it forward, from now on. */
void clock_change(struct clock *clock, int64_t now, int64_t ppm, int64_t jump);

/* ---- messages -------------------------------------------------------------------------------------------------- */

struct uid {
        uint64_t word[2];
};
static inline bool uid_same(struct uid one, struct uid other)
{
        return one.word[0] == other.word[0] && one.word[1] == other.word[1];
}

enum message_kind {
        /* to the store */
        ASK, /* acquire, look again, confirm: all the same question, "do I hold it?" */
        CANCEL,
        RENEW,
        RELEASE,
        /* from the store */
        GRANTED,
        QUEUED,
        BUSY,
        NOT_READY,
        CANCELLED,
        RENEWED,
        RELEASED,
        PUSHED, /* nobody asked: it is your turn */
        /* to the store, by who looks at it: each is answered by itself */
        SHOW,
        LIST,
        CALL, /* asks the holders to let go */
        STORE,
        FETCH,
        HEARD, /* from the store, to a holder: somebody called */
        RESET, /* the connection is cut; not a message at all, but heard like one */
        /* the resource */
        READ,
        WRITE,
        READ_DONE,
        WRITE_DONE,
        STALE
};

struct message {
        enum message_kind kind;
        int client;
        uint64_t life; /* of the client: a message for one that died goes nowhere */
        struct uid uid;
        int name;
        int64_t stamp; /* the client's clock when it sent the request; echoed */
        int64_t ttl;
        uint32_t mode, max_holders;
        bool wait;
        uint64_t token;
        int code;  /* RELEASED, RENEWED */
        int count; /* RENEW, RENEWED */
        struct uid uids[BATCH_MAX];
        int codes[BATCH_MAX];
        /* the resource */
        int actor;
        uint64_t tenure;
        uint64_t version;
        /* recipes */
        uint64_t age;
        int64_t keep;            /* STORE */
        int64_t stored_at, read; /* FETCH: the store's clock */
        bool asked[BATCH_MAX];   /* RENEWED */
        char note[PAWL_NOTE_MAX + 1];
        const void *more; /* bytes or lines that come along; copied with the message */
        size_t more_size;
};

/* One line of an answer to SHOW and LIST. */
struct shown {
        int name;
        int client;
        uint32_t role, mode, max_holders, waiters;
        uint64_t token, age;
        int64_t remaining, since;
        char note[PAWL_NOTE_MAX + 1];
};

/* How a holding ended in the store. */
enum end { END_RELEASED, END_EXPIRED, END_BROKEN, END_FORGOTTEN };

/* ---- the store ------------------------------------------------------------------------------------------------- */

struct holding {
        struct uid uid;
        uint64_t token;
        int64_t until; /* the store's clock */
        int64_t ttl;
        uint32_t mode, max_holders;
        int client;
        bool confirmed;
        bool asked;
        uint64_t age;
        uint64_t stores; /* the latest of its stores: what was sent before it comes too late */
        int64_t since;
        char note[PAWL_NOTE_MAX + 1];
};

struct waiter {
        struct uid uid;
        uint64_t ticket;
        uint64_t token; /* BUG_TOKEN_AT_ENQUEUE */
        int64_t until;
        int64_t ttl;
        uint32_t mode, max_holders;
        int client;
        uint64_t age;
        int64_t since;
        char note[PAWL_NOTE_MAX + 1];
};

/* A few bytes beside a lock. */
struct kept {
        void *data;
        size_t size;
        uint64_t token;
        int64_t stored_at, until;
};

/* Claims that ended: what comes late for them is refused. */
struct grave {
        struct uid uid;
        bool released; /* cleanly: a second release hears the same */
        bool broken;
};

struct server_name {
        struct holding holders[HOLDERS_MAX];
        int holder_count;
        struct waiter queue[WAITERS_MAX];
        int waiter_count;
        struct grave graves[GRAVES_MAX];
        uint64_t grave_count;
        struct kept kept;
};

struct server {
        struct clock clock;
        bool up;
        int64_t quarantine; /* no grants before */
        uint64_t counter;
        uint64_t tickets;
        uint64_t incarnation; /* raised when the data were lost */
        struct server_name names[NAMES_ROOM];
};

/* ---- clients --------------------------------------------------------------------------------------------------- */

/*   IDLE --> WAITING --> HOLDING --> RELEASING --> IDLE     */
enum actor_state { ACTOR_IDLE, ACTOR_WAITING, ACTOR_HOLDING, ACTOR_RELEASING };

struct actor {
        int client, index;
        enum actor_state state;
        struct pawl_lock *lock;
        uint64_t tenure; /* of this actor: raised with each claim */
        uint64_t began;  /* the greatest token told of this name when the claim began */
        int name;
        int granted, lost, released; /* callbacks of this claim */
        int64_t deadline;            /* of its wait, by the client's clock */
        int64_t seen_until;          /* the end of its lease as it was a step ago */
        struct uid uid;              /* of the grant, at its release */
        uint64_t incarnation;        /* of the store then */
        int rounds;                  /* of guarded read-modify-write still to do */
        bool busy;                   /* a request is at the resource */
};

struct sim_client {
        struct world *world;
        int index;
        uint64_t life;
        bool alive;
        bool paused;
        struct clock clock;
        struct loop loop;
        struct core core;
        struct engine_host host;
        struct engine *engine;
        struct actor actors[ACTORS_MAX];
        int64_t resumes_at;  /* while paused */
        int64_t turns_after; /* after a pause the user may be faster than the loop */
        int64_t ran_since;   /* its clock at its start or at the end of its last pause */
};

struct resource {
        uint64_t highest;
        uint64_t version;
};

/* ---- the world ------------------------------------------------------------------------------------------------- */

enum event_kind {
        TO_SERVER,
        TO_CLIENT,
        TO_RESOURCE,
        ACTOR_STEP,
        CLIENT_RESUME,
        CLIENT_START,
        THREAD_WAKES, /* recipes */
        CONNECTION_RESET,
        SERVER_UP,
        FAULT
};

struct happening {
        int64_t at;
        uint64_t order;
        enum event_kind kind;
        int client;
        int actor;
        uint64_t life;
        uint64_t tenure;
        struct message *message;
};

struct plan {
        int clients, actors, names;
        int64_t faults_until, works_until;
        int64_t ttl_max;
        int loss, duplicates, slow; /* per 1,000 messages */
        bool honest;                /* clocks within the promised allowance */
        bool data_loss;
        bool instant; /* the store is in memory */
        int64_t ttl;  /* of all claims; 0: each its own */
        uint32_t mode[NAMES_MAX];
        uint32_t max_holders[NAMES_MAX];
};

struct figures {
        uint64_t steps, messages, grants, losses, writes, stale, faults;
};

struct world {
        uint64_t seed;
        enum bug bug;
        uint64_t random;
        int64_t now;
        uint64_t order;
        struct happening *heap;
        size_t events, room;
        struct plan plan;
        bool calm;    /* no more faults */
        bool closing; /* nobody begins anything new */
        struct server server;
        struct sim_client clients[CLIENTS_MAX];
        struct resource resources[NAMES_MAX];
        struct figures figures;
        bool failed;
        char failure[256];
        bool tracing;
        bool hashing;
        uint64_t hash; /* of what the trace would say */
        /* checks.c */
        uint64_t told_max[NAMES_ROOM];     /* the greatest token told to a client */
        uint64_t granted_last[NAMES_ROOM]; /* the latest token the store gave */
        int64_t free_since[NAMES_ROOM];
        struct ended {
                uint64_t token;
                int64_t at;
                int64_t ttl;
                enum end why;
        } ended[NAMES_ROOM][64];
        uint64_t ended_count[NAMES_ROOM];
        uint64_t told[NAMES_ROOM][64]; /* tokens told to clients, the latest */
        uint64_t told_count[NAMES_ROOM];
        struct uid over[NAMES_ROOM][64]; /* claims that ended, as the store knows */
        uint64_t over_count[NAMES_ROOM];
};

/* world.c */
uint64_t chance(struct world *world, uint64_t below);
bool one_in(struct world *world, uint64_t n);
int64_t between(struct world *world, int64_t least, int64_t most);
void schedule(struct world *world, int64_t after, struct happening event);
bool next_event(struct world *world, struct happening *event);
int64_t next_event_at(const struct world *world);
/* Copies the message and lets the network have it. */
void send_to_server(struct world *world, const struct message *message);
void send_to_client(struct world *world, const struct message *message);
void send_to_resource(struct world *world, const struct message *message, bool back);
void drop_messages(struct world *world, int client); /* -1: everybody's */
void world_free(struct world *world);
/* room.c: as realloc, and never NULL. */
void *world_room(void *old, size_t size);
void fail(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));
void trace(struct world *world, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* server.c */
void server_receive(struct world *world, const struct message *message);
void server_restart(struct world *world, bool loses_data);
bool server_break(struct world *world, int name);
void server_free(struct world *world);
/* For a store in memory: the token, or 0 if it is not free; and whether it was held until now. */
uint64_t server_try(struct world *world, const struct message *request);
bool server_give_back(struct world *world, int name, struct uid uid);
bool server_holds(const struct world *world, int name, struct uid uid);
/* Ends what has run out and serves who waits, as any request would. */
void server_look(struct world *world, int name);

/* model_engine.c */
extern const struct engine_ops model_ops;
extern const struct engine_ops instant_model_ops; /* the store is in memory: a free lock is had at once */
void engine_receive(struct engine *engine, const struct message *message);
void engine_reset(struct engine *engine);
/* Whose engine it is: the simulator's, where a client has a core and nothing above it, or that of recipes. */
struct sim_client *engine_client(const struct engine_host *host);
/* Claims it has not forgotten. */
int engine_claims(const struct engine *engine);
struct uid engine_uid(const struct claim *claim);
/* How often it was asked to renew this one since that last worked. */
int engine_renewals(const struct claim *claim);
const char *sim_name(int name);
int sim_name_index(const char *name);
void sim_owner(const struct world *world, int client, char *owner, size_t size);

/* actors.c */
void client_start(struct world *world, int client);
void client_crash(struct world *world, int client);
void client_turn(struct world *world, struct sim_client *client);
void actor_step(struct world *world, struct actor *actor, uint64_t tenure);
void actor_hears(struct world *world, const struct message *message);
void resource_receive(struct world *world, const struct message *message);
int64_t client_now(const struct sim_client *client);

/* checks.c */
void check_step(struct world *world);
void check_turned(struct world *world, struct sim_client *client);
void check_granted_by_store(struct world *world, int name, const struct holding *holding);
void check_ended_by_store(struct world *world, int name, const struct holding *holding, enum end why);
void check_claim_over(struct world *world, int name, struct uid uid);
void check_order(struct world *world, int name, uint64_t ticket);
void check_told(struct world *world, struct actor *actor);
void check_lost(struct world *world, struct actor *actor, int reason);
void check_release_told(struct world *world, struct actor *actor, int status);
void check_written(struct world *world, int name, const struct message *message);
void check_end(struct world *world);

/* run.c: the figures, and failure if there was one (else ""). */
struct outcome {
        bool failed;
        char failure[256];
        struct figures figures;
};
struct outcome run_seed(uint64_t seed, enum bug bug, bool tracing);
extern volatile uint64_t running_seed;

#endif
