/* zk_examine.h - between zk_examine.c, which asks the servers about themselves, and zk_judge.c, which knows what the
 * answers mean for locks. */
#ifndef PAWL_ZK_EXAMINE_H
#define PAWL_ZK_EXAMINE_H

#include "zk_inspect.h"

/* The words of four letters that a server answers on a connection of their own, if its whitelist has them. */
enum zk_word { WORD_SRVR, WORD_CONF, WORD_MNTR, WORDS };
extern const char *const zk_words[WORDS];

enum { ANSWER_MAX = 32 << 10 };

/* What one server said. */
struct zk_said {
        char where[280];
        char *answers[WORDS]; /* NULL: nothing */
        struct pawl_why why;  /* the last connection, if it never came up */
        bool reached;
        int64_t answered_in; /* ns, srvr */
};

/* The requests of the probe: what locks need, tried on nodes of their own. */
enum zk_probe {
        PROBE_LINE,  /* the container */
        PROBE_CLAIM, /* an ephemeral, sequential node in it */
        PROBE_READ,
        PROBE_WRITE,
        PROBE_LIST,
        PROBE_LEAVE,
        PROBE_REMOVE, /* the container */
        PROBES
};

/* What was learned. */
struct zk_examination {
        struct list listed; /* in zk->examinations */
        struct zk *zk;
        struct inquiry *inquiry;
        /* the words */
        struct net net;
        struct net_target target;
        struct timer timer;
        struct zk_said *said; /* of each server */
        size_t server;
        enum zk_word word;
        char *text;
        size_t size;
        int64_t asked_at;
        /* the namespace */
        struct zk_ask ask;
        struct zk_session *session; /* on which ask is under way */
        size_t answers;
        bool waiting; /* for a session */
        int64_t until;
        size_t failures; /* to connect */
        bool connected;
        struct pawl_why why;                     /* why not */
        int chroot, acl, number, probes[PROBES]; /* errors of the server */
        bool probed;
        bool open;          /* the world may do more than read */
        int32_t names;      /* nodes below the path */
        uint64_t restores;  /* the number */
        int64_t granted;    /* the session's time, asked for it */
        int64_t wanted;     /* ns, both */
        int64_t written_in; /* ns, a write */
        char mend[2048];    /* the command being told */
};

/* Tells what all of it means. */
void zk_judge(struct zk_examination *examination);

#endif
