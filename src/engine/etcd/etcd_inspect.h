/* etcd_inspect.h - between etcd_inspect.c, which answers whoever looks at the store, etcd_view.c, which reads lines,
 * etcd_break.c, which acts on their holders, and etcd_value.c, for the bytes beside them. */
#ifndef PAWL_ETCD_INSPECT_H
#define PAWL_ETCD_INSPECT_H

#include "etcd.h"

enum { REST_MAX = 96 };

/* One who stands in a line, as it was read. */
struct seen {
        struct contender contender;
        int64_t lease;
        bool ours;           /* there is a record */
        uint8_t rest_length; /* 0: longer than any that is known */
        char rest[REST_MAX]; /* of its key, behind NAME / */
        struct record record;
};

struct seen_line {
        char name[PAWL_NAME_MAX + 1];
        size_t first, count; /* in view->seen */
        size_t holders;      /* the first so many of them */
        bool delayed;        /* by a lock-delay: view->markers[marker] */
        size_t marker;
};

/* A lock-delay's marker (etcd_delay.c). */
struct seen_marker {
        char name[PAWL_NAME_MAX + 1];
        uint64_t uid[2], order;
        int64_t lease;
        bool told;
};

struct seen_left {
        int64_t lease, ms;
};

/* Lines, read page by page. */
struct view {
        struct seen *seen;
        struct seen_line *lines;
        struct seen_marker *markers;
        struct seen_left *lefts;
        size_t count, line_count, marker_count, left_count;
        size_t room, line_room, marker_room, left_room;
        size_t lefts_known;                        /* so many were asked for */
        char key[ETCD_KEY_MAX], end[ETCD_KEY_MAX]; /* what is still to be read */
        size_t key_length, end_length;
        bool begun, more;
};

/* One inquiry on its way. */
struct question {
        struct etcd_ask ask;
        struct list listed; /* in etcd->questions */
        struct etcd *etcd;
        struct inquiry *inquiry;
        void (*read)(struct question *question);   /* what to do with a page that was read */
        void (*looked)(struct question *question); /* and when the leases were looked at */
        struct view view;
        struct etcd_settling settling; /* of a history */
        struct etcd_break *acting;     /* etcd_break.c */
        struct etcd_storing *storing;  /* etcd_value.c */
        bool one;                      /* name is the name of one lock, not a prefix */
        bool found;                    /* something was told */
        size_t name_length;
        char name[PAWL_NAME_MAX + 1];
};

/* NULL, and the inquiry is answered: no memory. */
struct question *question_new(struct engine *engine, struct inquiry *inquiry, bool one,
                              void (*read)(struct question *question));
void question_finish(struct question *question, int code, const char *why);
void question_ask(struct question *question, const struct etcd_method *method);

/* etcd_view.c: reads the first page, or the next; then question->read is told, with whole lines only; a question that
 * fails is finished. */
void view_read(struct question *question);
/* Asks for the time that is left of the leases of holders and markers; then told is called. */
void view_lefts(struct question *question, void (*told)(struct question *question));
int64_t view_left(const struct view *view, int64_t lease); /* in ms; -1: not known */
/* Lets go of the lines that were read, but for one that the next page goes on with. */
void view_next(struct view *view);
void view_free(struct view *view);

/* etcd_break.c */
void break_begin(struct engine *engine, struct inquiry *inquiry);
void ask_begin(struct engine *engine, struct inquiry *inquiry);
void break_free(struct etcd_break *acting);

/* etcd_value.c: of a question that is being freed. */
void storing_free(struct question *question);

#endif
