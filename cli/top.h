/* top.h - the parts of `pawl top`: what the store said, asking it, keys, what they do, and drawing. */
#ifndef PAWL_CLI_TOP_H
#define PAWL_CLI_TOP_H

#include "run.h"

/* ---- top_rows.c: what the store said --------------------------------------------------------------------------- */

struct row {
        struct pawl_entry entry; /* its texts are our own copies */
        int64_t longest_ms;      /* the longest rest of its lease that was seen */
};

/* The answer to one question. */
struct snapshot {
        char name[PAWL_NAME_MAX + 1]; /* of the lock it is about; "": all of them */
        int code;
        struct pawl_why why; /* if the code is not PAWL_OK */
        int64_t at_ms;       /* unix time */
        struct row *rows;
        size_t count;
        size_t room;
        bool short_of_memory; /* not all rows are here */
        int value_code;       /* about one lock: PAWL_OK: what follows is known */
        size_t value_size;    /* of the bytes that are kept beside it */
        uint64_t value_token;
};

/* Asks, and waits for the answer. client NULL: there is no store yet. */
void snapshot_take(pawl_client *, const char *name, struct snapshot *);
void snapshot_free(struct snapshot *);
/* What the one before knew of the same leases. */
void snapshot_remember(struct snapshot *, const struct snapshot *before);

enum order { ORDER_WAITERS, ORDER_NAME, ORDER_HOLDER, ORDER_HELD, ORDER_LEFT, ORDERS };
const char *order_text(enum order);
/* The rows whose name, owner or note contains the text, in upper or lower case, in that order. To be freed; NULL, and none:
 * no memory. */
const struct row **rows_arranged(const struct snapshot *, const char *text, enum order, bool reverse, size_t *count);

enum row_state { STATE_FREE, STATE_HELD, STATE_WANTED, STATE_STUCK, STATE_ENDING };
/* stuck_ms: wanted, and held for that long. */
enum row_state row_state(const struct row *, const struct snapshot *, int64_t stuck_ms);
/* Of the lease, by now; -1: it is not known. */
int64_t row_left_ms(const struct row *, const struct snapshot *);

/* ---- top_source.c: asking without waiting ------------------------------------------------------------------------ */

struct source;

/* Opens a thread that asks; NULL: there is none, and errno says why. */
struct source *source_open(pawl_client *);
/* Waits for the thread, which the client's look_ms bounds. */
void source_close(struct source *);
/* Readable when an answer is there. */
int source_fd(const struct source *);
/* False: the last question has no answer yet. */
bool source_ask(struct source *, const char *name);
/* The answer, to be freed. False: there is none. */
bool source_take(struct source *, struct snapshot *);

/* ---- top_keys.c: bytes into keys ---------------------------------------------------------------------------------- */

/* A key is a byte, or one of these. */
enum key { KEY_NONE = 0, KEY_UP = 256, KEY_DOWN, KEY_PAGE_UP, KEY_PAGE_DOWN, KEY_HOME, KEY_END, KEY_ESCAPE };

struct keys {
        char bytes[256];
        size_t count;
};
/* Reads what was typed. False: the terminal is gone. */
bool keys_read(struct keys *);
/* A sequence has begun: Escape, if nothing follows soon. */
bool keys_wait(const struct keys *);
/* The next key, or KEY_NONE; over: nothing followed. */
int keys_next(struct keys *, bool over);

/* ---- top_view.c: what the screen is about ---------------------------------------------------------------------------- */

enum page { PAGE_LIST, PAGE_LOCK, PAGE_HELP };
enum { FILTER_MAX = 100 };

struct view {
        const char *url;
        int64_t stuck_ms;
        bool colours;
        enum page page;
        enum page page_behind; /* the help */
        struct snapshot list;
        struct snapshot lock;     /* of PAGE_LOCK */
        int64_t silent_since_ms;  /* 0: the store answers */
        struct pawl_why why;      /* it does not */
        const struct row **shown; /* the rows of the list that pass the filter, in their order */
        size_t shown_count;
        enum order order;
        bool reverse;
        char filter[FILTER_MAX + 1];
        char filter_before[FILTER_MAX + 1];
        bool typing; /* the filter */
        size_t cursor;
        char chosen[PAWL_NAME_MAX + 1]; /* the row that the cursor stays on; "": the first, whichever that is */
        uint64_t chosen_token;
        size_t first; /* the line of the page at the top of the screen */
        size_t lines; /* of the page, as it was drawn */
        size_t room;  /* for them on the screen */
};

void view_end(struct view *);
/* The name to ask the store about; "": all of them. */
const char *view_question(const struct view *);
/* Takes the answer over. */
void view_answer(struct view *, struct snapshot *);
/* False: it ends. */
bool view_key(struct view *, int key);
/* Keeps cursor and first within what there is. */
void view_clamp(struct view *);

/* ---- top_frame.c: a screen that is being written -------------------------------------------------------------------- */

struct frame {
        FILE *out;
        size_t width;
        size_t line;   /* of the screen */
        size_t used;   /* columns of this line */
        bool selected; /* this line */
        bool colours;
};

enum style { STYLE_PLAIN, STYLE_HEAD, STYLE_QUIET, STYLE_WANTED, STYLE_BAD, STYLE_WORST };
void set_style(struct frame *, enum style);
/* As much of a text of our own as there is room for. */
void put(struct frame *, const char *text);
void put_format(struct frame *, const char *format, ...) __attribute__((format(printf, 2, 3)));
void put_blanks(struct frame *, size_t count);
/* What came from others, in that many columns at most. */
void put_foreign(struct frame *, const char *text, size_t width);
void line_ends(struct frame *);
void next_line(struct frame *);
/* How a cell is drawn, by its column. */
typedef enum style cell_style(size_t column, const void *arg);
/* One row of a table; the line does not end. */
void put_row(struct frame *, const struct table *, const struct column *, const size_t *widths, size_t row,
             cell_style *, const void *arg);

/* ---- top_draw.c --------------------------------------------------------------------------------------------------- */

/* One screen; says in the view how many lines there are and fit. */
void draw(struct view *, size_t width, size_t height);
/* The same for a pipe, without commands for a terminal. */
void draw_plain(const char *url, const struct snapshot *, const struct row **rows, size_t count);

/* ---- top_screen.c: the terminal -------------------------------------------------------------------------------------- */

/* Standard input and output are a terminal that can move its cursor. */
bool screen_exists(void);
/* Only in the foreground: else we are stopped until we are there. False: that will not be. */
bool screen_on(void);
void screen_off(void);
/* After a stop that we did not see coming: a shell may have changed the terminal meanwhile. */
bool screen_again(void);
void screen_size(size_t *width, size_t *height);

#endif
