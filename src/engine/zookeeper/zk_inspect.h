/* zk_inspect.h - questions of those who look at the store, between the files that answer them: zk_inspect.c (list,
 * show), zk_break.c (break, ask), zk_past.c (history), zk_value.c (store, fetch), zk_examine.c, zk_init.c. */
#ifndef PAWL_ZK_INSPECT_H
#define PAWL_ZK_INSPECT_H

#include "../session/past.h"
#include "zk.h"

/* A child of a lock's node, as it was seen. */
struct zk_seen {
        struct zk_node node;
        char *child;   /* its name */
        size_t line;   /* which of the question's lines it stands in */
        bool marker;   /* of a lock-delay */
        bool orphan;   /* a marker whose claim is not there any more */
        bool holds;    /* one in the line */
        bool there;    /* when its data were asked for */
        bool ours;     /* record is what they say; else they are in foreign */
        bool curators; /* not ours, and who made it listens for __REVOKE__ */
        int64_t czxid, ctime_ms;
        struct record record;
        char foreign[65];
};

/* One inquiry on its way. It takes several flights; if the connection is lost between them it begins again. */
struct zk_question {
        struct zk_ask ask;
        struct list listed; /* in zk->questions */
        struct zk *zk;
        struct zk_session *session; /* on which its flight is under way, or NULL */
        struct inquiry *inquiry;
        struct timer timer; /* begins again, or goes on */
        int64_t until;      /* how long it waits for a connection */
        size_t failures;    /* attempts to connect since it waits */
        bool waiting;       /* for a connection */
        bool sent;          /* what it asks for may have been done: it must not be asked for again */
        bool repeats;       /* unless this is set */
        bool doubtful;      /* and then it was sent before, and may have been done */
        bool over;          /* it was done, only its history is still to be written */
        void (*begin)(struct zk_question *question);
        void (*looked)(struct zk_question *question); /* the lines first to last were read */
        void (*ended)(struct zk_question *question);  /* frees what it has beside this; may be NULL */
        /* The flight that is under way: what each of its answers is for, and what comes behind the last. */
        void (*take)(struct zk_question *question, size_t place, int error, struct jute_in *reply);
        void (*then)(struct zk_question *question);
        size_t answers; /* so many were taken */
        int code;       /* of an error that ends it when the flight is over */
        const char *why;
        char name[PAWL_NAME_MAX + 1]; /* or prefix */
        bool everyone;                /* those who wait are read too */
        char **names;                 /* of the lines; as they are, not encoded */
        size_t name_count, name_room;
        size_t first, last; /* of the lines that are being read */
        struct zk_seen *seen;
        size_t seen_count, seen_room;
        size_t read; /* of seen: so many were asked for */
        unsigned tries;
        void *rest; /* of break and ask, history, store, init */
};

/* Enough of waiting for a connection: nothing will change, or the time is over, or nobody was ever there.
 * failures: attempts so far, with this one. */
bool zk_is_hopeless(const struct zk *zk, const struct pawl_why *why, size_t failures, int64_t until);
/* For how long: less than those who ask have patience, so that they hear why. */
static inline int64_t zk_inspect_until(const struct zk *zk)
{
        return zk_now(zk) + (zk->timeout < 4 * SECOND ? zk->timeout : 4 * SECOND);
}

struct zk_question *zk_question_new(struct engine *engine, struct inquiry *inquiry,
                                    void (*begin)(struct zk_question *question));
/* Begins, now or when there is a connection. */
void zk_question_start(struct zk_question *question);
/* Waits so long, then does what is in question->timer.fire (zk_question_again if it is not set). */
void zk_question_pause(struct zk_question *question, int64_t wait, void (*fire)(struct timer *));
void zk_question_again(struct timer *timer);
/* Answers and frees it. */
void zk_question_finish(struct zk_question *question, int code, const char *why);
void zk_question_fail(struct zk_question *question, int error); /* of the server */

/* A flight of the question: begin, then zk_request and its body any number of times, then send. NULL: there is no
 * connection any more, and it will begin again. session NULL: any. */
struct jute_out *zk_question_flight(struct zk_question *question, struct zk_session *session, size_t room);
void zk_question_send(struct zk_question *question,
                      void (*take)(struct zk_question *question, size_t place, int error, struct jute_in *reply),
                      void (*then)(struct zk_question *question));

/* Reads the lines from first on, at most a few at a time, with the data of those who hold (everyone: of all); then
 * looked. */
void zk_question_look(struct zk_question *question);
int zk_question_add_name(struct zk_question *question, const char *name); /* PAWL_OK or PAWL_NO_MEMORY */
void zk_path_of_seen(const struct zk_question *question, const struct zk_seen *seen, char *path);

void zk_inspect_break(struct engine *engine, struct inquiry *inquiry);
void zk_inspect_ask(struct engine *engine, struct inquiry *inquiry);
void zk_inspect_history(struct engine *engine, struct inquiry *inquiry);
void zk_inspect_examine(struct engine *engine, struct inquiry *inquiry);
void zk_inspect_init(struct engine *engine, struct inquiry *inquiry);
/* zk_examine.c; false: it is not one of these */
bool zk_examine_forget(struct zk *zk, const struct inquiry *inquiry);
void zk_examine_up(struct zk *zk);
void zk_examine_down(struct zk *zk, const struct pawl_why *why);
void zk_examine_free(struct zk *zk);

/* zk_past.c: what must be there above the batches, in ZK_OWN_ROOM and ZK_REQUEST_ROOM; a batch of lines as a request
 * that makes it (for a break); what the owner of an adopted lease was. */
void zk_request_above_past(struct zk_session *session, struct jute_out *out);
void zk_request_past(struct zk_session *session, struct jute_out *out, const char *text, size_t size);

/* A lease that is taken up, or was: whose it is, and how to reach it. */
struct zk_adopted {
        struct list listed;
        uint64_t uid[2];
        int64_t session;
        char password[ZK_PASSWORD_SIZE];
        int64_t now_ms;      /* by the servers' clock, when it was last asked */
        int64_t from_ms;     /* by the same clock: since when the lease counts */
        int64_t counts_from; /* the same, by ours */
        int32_t version;     /* of its node, when it was last read */
        bool missing;        /* .pawl is to be made first */
        struct record record;
};
struct zk_adopted *zk_past_adopt(struct zk *zk, const struct zk_part *part); /* NULL: no memory */
struct zk_adopted *zk_past_adopted(const struct zk *zk, const struct zk_part *part);

#endif
