/* redis_guard.h - marks in a Redis, beside the data they guard: the guard's own struct, and the calls between its files.
 *
 *   PREFIX RESOURCE            the data, a plain string
 *   pawl:mark:PREFIX RESOURCE  the greatest token, decimal
 *   pawl:swap:PREFIX RESOURCE  the id of the swap that made a version
 *   pawl:floor:PREFIX          tokens below it are refused where there is no mark
 *   pawl:line:PREFIX ID        which connection of one guard may change data, see redis_guard_ask.c; ends by itself */
#ifndef PAWL_REDIS_GUARD_H
#define PAWL_REDIS_GUARD_H

#include <hiredis/hiredis.h>
#include <pthread.h>

#include "../../base/name.h"
#include "../../net/net.h"
#include "../guard.h"
#include "guard/redis/fence_scripts.h"

#if HIREDIS_MAJOR >= 1
typedef size_t element_count;
#else
typedef int element_count;
#endif

enum { PREFIX_MAX = 200, KEY_MAX = 16 + PREFIX_MAX + PAWL_NAME_MAX, BATCH_MAX = 256, WORDS_MAX = BATCH_MAX + 16 };

struct redis_guard {
        pawl_guard guard;
        struct net_target target;
        struct net_tls *tls;
        char *host;  /* or path, of a unix socket */
        char *path;  /* or NULL */
        char *where; /* for sentences */
        char *user, *password;
        char *prefix;
        char *floor_key;
        char *cli_options; /* of TLS, for the commands that examine tells; NULL: none */
        int64_t database;
        int64_t timeout; /* of silence */
        int64_t wait;    /* of one call, the wait for its turn included */
        int64_t until;   /* when the command that is being sent, or is sent next, is given up; of who is busy */

        /* Calls take turns: whoever set busy owns all that follows. */
        pthread_mutex_t mutex;
        pthread_cond_t left;
        bool ready; /* mutex, condition and loop are there */
        bool busy;
        struct loop loop;
        struct net net;
        redisReader *reader;
        redisReplyObjectFunctions make; /* the reader's, but for long arrays */
        void *(*make_array)(const redisReadTask *task, element_count elements);
        redisReply *reply;    /* that was waited for */
        int64_t moved_at;     /* when bytes were last seen to go out or come in */
        struct pawl_why down; /* why the connection was lost */
        bool greeted;         /* connected, and it knows who we are */
        bool ever;            /* it has answered before */
        bool lined;           /* the line is this connection's */
        char line_key[KEY_MAX];
        char line_word[34]; /* the connection's, a blank, the number of the request that changes */
        uint64_t requests;
        int64_t lined_at;
};

static inline struct redis_guard *redis_guard_of(pawl_guard *guard)
{
        return (struct redis_guard *)guard;
}

/* A command. What is added is borrowed. */
struct words {
        const char *at[WORDS_MAX];
        size_t size[WORDS_MAX];
        int count;
        const struct fence_text *script; /* or NULL */
        bool changes;                    /* more than marks: the line is its last key, and line_word its last word */
        char keys[8];                    /* how many, of a script */
};
void words_add(struct words *words, const char *bytes, size_t size);
void words_text(struct words *words, const char *text);
/* EVALSHA; the keys follow, then the arguments. */
void words_script(struct words *words, enum fence_script script, size_t keys);

/* ---- redis_guard_line.c ---- */

int line_open(struct redis_guard *guard, struct pawl_why *why);
void line_close(struct redis_guard *guard);
/* In a child of fork: the connection is the parent's, and must not hear of it. */
void line_abandon(struct redis_guard *guard);
/* Our turn, or PAWL_TIMEOUT. All that follows is for who has it. */
int line_enter(struct redis_guard *guard, struct pawl_why *why);
void line_leave(struct redis_guard *guard);
/* A connection that is up, and the server knows who we are. */
int line_come_up(struct redis_guard *guard, int64_t until, struct pawl_why *why);
/* One command, one reply, which may be an error. *sent: it may have been done, whatever is returned. */
int line_exchange(struct redis_guard *guard, const struct words *words, int64_t until, bool *sent, redisReply **reply,
                  struct pawl_why *why);

/* ---- redis_guard_ask.c ---- */

/* What an error reply means: never PAWL_OK. */
int line_explain(const struct redis_guard *guard, const char *text, struct pawl_why *why);

/* What came of a command. */
struct answer {
        redisReply *reply; /* to be freed; NULL with every error */
        bool done;         /* of one that changes: it was done, but its reply is lost */
        uint64_t greatest; /* with PAWL_STALE */
};
/* Sends it, and again if the connection breaks, until the guard's time is over. PAWL_OK and a reply that is no error, or
 * done; else the code and the sentence of what is wrong. PAWL_IN_DOUBT: of one that changes, if it may have been done. */
int line_ask(struct redis_guard *guard, struct words *words, struct answer *answer, struct pawl_why *why);

/* ---- the ops ---- */

int redis_guard_open(pawl_guard *guard, const struct url *url, const struct pawl_guard_options *options);
void redis_guard_close(pawl_guard *guard);
int redis_guard_list(pawl_guard *guard, const char *prefix, pawl_guard_entry_fn *fn, void *arg, struct pawl_why *why);
int redis_guard_prune(pawl_guard *guard, uint64_t floor, struct pawl_why *why, uint64_t *pruned);
int redis_guard_examine(pawl_guard *guard, pawl_finding_fn *fn, void *arg, struct pawl_why *why);

#endif
