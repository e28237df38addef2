/* watch.h - what `pawl watch` remembers of one name, and what has happened to it between two polls. */
#ifndef PAWL_CLI_WATCH_H
#define PAWL_CLI_WATCH_H

#include "cli.h"

/* What the store says of one name: copies of its entries. */
struct sight {
        struct pawl_entry *entry; /* their texts are our own */
        size_t count;
        size_t room;
        bool short_of_memory;
};

/* For pawl_show and pawl_list; arg is the sight. */
int sight_add(const struct pawl_entry *, void *arg);
void sight_clear(struct sight *);

enum { ENDS_MAX = 64 };

struct watched {
        char *name;
        struct sight last;    /* holders and waiters as they were seen last */
        struct sight missing; /* holders that vanished, and whose end the history does not show yet */
        uint64_t settled;     /* every end up to this token was reported, or was before our time */
        uint64_t ends[ENDS_MAX];
        size_t end_count;   /* above settled, the ends that were reported */
        int64_t missing_at; /* now_ns(): when the first of them vanished */
        int64_t busy_at;    /* now_ns(): when it was seen held or waited for last */
        uint32_t waiters;   /* as a list of names says */
        bool shown;         /* its history was read */
        bool due;           /* to be polled: something has changed */
        bool listed;
};

struct watched *watched_new(const char *name);
void watched_free(struct watched *);

/* Something that happened; its texts are borrowed. */
struct happening {
        const char *event;
        const char *name;               /* NULL: to the store */
        const struct pawl_entry *entry; /* who; NULL: nobody in particular */
        int64_t at_ms;                  /* unix time */
        uint32_t waiters;
        const char *message; /* NULL: none */
        int code;            /* of an error, else PAWL_OK */
};
typedef void happening_fn(const struct happening *);

/* The holders, and those who wait, as they are when the watch begins. */
void watched_begin(struct watched *, struct sight *, bool alone, happening_fn *);
/* What has happened since the last sight, which the new one, from pawl_show, replaces. history: the engine has one. */
void watched_compare(struct watched *, struct sight *, bool history, happening_fn *);
/* How some holds ended will not be learned any more. */
void watched_give_up(struct watched *, happening_fn *);
/* Past owners that ended before then were before our time. */
void watched_settle(struct watched *, const struct sight *, int64_t before_ms);
/* The list of names has the holders that were seen last. */
bool watched_same_holders(const struct watched *, const struct sight *);

#endif
