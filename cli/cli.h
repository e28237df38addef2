/* cli.h - what the commands of pawl share: exit codes, options, messages, the client, printing. The commands use the
 * library as everybody else does, through its public headers. */
#ifndef PAWL_CLI_H
#define PAWL_CLI_H

#include <pawl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

enum {
        EXIT_DONE = 0,
        EXIT_CONFLICT = 1, /* held by another, not free in time, nobody there; -E chooses another for the first two */
        EXIT_LOST = 123,
        EXIT_STALE = 124,
        EXIT_FAILED = 125, /* pawl itself: bad usage, unreachable store, ... */
        EXIT_NOT_EXECUTABLE = 126,
        EXIT_NOT_FOUND = 127,
        EXIT_SIGNAL = 128 /* plus the signal's number */
};

/* ---- commands -------------------------------------------------------------------------------------------------- */

enum command_flag {
        COMMAND_ENGINE = 1u << 0, /* uses -e; the others accept it too, so that it can be part of an alias */
        COMMAND_JSON = 1u << 1,   /* takes --json */
        COMMAND_RUNS = 1u << 2,   /* a COMMAND follows its words, with or without "--" */
        COMMAND_DASHES = 1u << 3  /* a COMMAND may follow its words, behind "--" only */
};

struct command {
        const char *name;
        const char *arguments; /* as the usage line shows them */
        const char *summary;   /* one line, for `pawl --help` */
        const char *details;   /* more, for its own --help; NULL: nothing */
        uint32_t flags;        /* enum command_flag */
        int words_min;         /* words of its own: neither options nor COMMAND */
        int words_max;
        /* The arguments after the command's name. The exit status. */
        int (*run)(const struct command *, int argc, char **argv);
};

extern const struct command cmd_acquire, cmd_ask, cmd_break, cmd_demo, cmd_doctor, cmd_elect, cmd_engines, cmd_fence,
        cmd_forget, cmd_get, cmd_hold, cmd_init, cmd_limit, cmd_ls, cmd_marks, cmd_once, cmd_prune, cmd_put,
        cmd_release, cmd_renew, cmd_run, cmd_show, cmd_top, cmd_ttl;

/* ---- options (options.c) --------------------------------------------------------------------------------------- */

struct option {
        char letter;       /* 0: none */
        const char *name;  /* without its two dashes; NULL: none */
        const char *value; /* what the help calls its value; NULL: it takes none */
        const char *help;
        bool (*set)(const struct option *, const char *text); /* false: wrong, and said so */
        void *target;
};

bool option_flag(const struct option *, const char *text);       /* bool */
bool option_count(const struct option *, const char *text);      /* uint32_t, one more each time */
bool option_text(const struct option *, const char *text);       /* const char * */
bool option_duration(const struct option *, const char *text);   /* int64_t, ms */
bool option_some_time(const struct option *, const char *text);  /* the same, and not 0 */
bool option_number(const struct option *, const char *text);     /* uint32_t > 0 */
bool option_token(const struct option *, const char *text);      /* uint64_t > 0 */
bool option_log_format(const struct option *, const char *text); /* enum log_format */

/* How messages on stderr are written. */
enum log_format { LOG_TEXT = 0, LOG_JSON = 1 };

/* What every command takes. */
struct settings {
        const char *url;   /* -e; NULL: not said */
        const char *owner; /* --owner; NULL: the library's */
        bool json;
        bool quiet;
        uint32_t verbose;
        uint32_t log_format; /* enum log_format */
        int64_t look_ms;     /* how long the store may take to say who has a lock; 0: as the library has it */
};
extern struct settings settings;

/* What is left of a command line without its options. */
struct arguments {
        char **word; /* the command's own words */
        int words;
        char **command; /* COMMAND, NULL-terminated; NULL: there is none, and it was not announced by "--" either */
};

/* Reads the command line: options may stand before, between and behind the command's own words, until COMMAND or "--".
 * options ends with an entry without letter and name; NULL: none of its own. The number of words is checked. False: the
 * command ends with *status. */
bool options_read(const struct command *, const struct option *options, int argc, char **argv, struct arguments *,
                  int *status);
/* The number of words that the options before the command's name take; argv[0] is the program. */
int options_leading(int argc, char **argv);
bool is_option_word(const char *word);
/* The known word (known(0), known(1), ... until NULL) that one mistake or two make of this; NULL: none is near. */
const char *near_miss(const char *word, const char *(*known)(size_t index));
/* COMMAND has at least one word. */
bool has_command(const struct arguments *);
/* Says what is wrong with the arguments; EXIT_FAILED. */
int usage_error(const struct command *, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- messages (say.c): a line on stderr, escaped: "pawl: " and text, or with --log-format json an object ------------- */

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));    /* what failed: also with -q */
void warn(const char *format, ...) __attribute__((format(printf, 1, 2)));   /* not with -q */
void detail(const char *format, ...) __attribute__((format(printf, 1, 2))); /* only with -v */
/* As say(), with a level of the library (enum pawl_level). */
void say_at(int level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Who has a lock, as seen a moment ago (waiting.c). */
struct holders {
        bool known;     /* the store has answered */
        bool silent;    /* it did not: it cannot be reached, or we may not ask it */
        bool queued;    /* we are in the queue, and know our place */
        uint32_t count; /* of holders; what follows is about the first of them */
        uint32_t waiters;
        uint32_t ahead; /* of us in the queue */
        uint64_t token;
        int64_t since_ms;   /* unix time; 0: not known */
        int64_t lease_ends; /* now_ns(); 0: not known */
        int64_t delay_ends; /* nobody holds it: when the lock-delay of a holder that failed ends; 0: there is none */
        char owner[PAWL_OWNER_MAX + 1];
        char note[PAWL_NOTE_MAX + 4]; /* in brackets, behind a space; "" if there is none */
};
/* Asks the store; blocks as pawl_look does. False: it did not answer, or cannot say. */
bool holders_look(pawl_client *, const char *name, struct holders *);
/* One more of them. */
void holders_add(struct holders *, const struct pawl_entry *);
/* "held by web1:4711:pawl (./backup.sh) for 3m12s (lease ends within 8.0s)" */
void holders_text(const struct holders *, char *text, size_t size);

/* What a message is about, for programs that read --log-format json. */
struct event {
        const char *what;              /* "waiting", "refused", "held", "lost" */
        const char *name;              /* of the lock */
        const struct holders *holders; /* NULL: it is not about them */
        uint64_t token;                /* ours; 0: none */
};
/* As warn(), and about an event. */
void announce(const struct event *, const char *format, ...) __attribute__((format(printf, 2, 3)));
void announce_detail(const struct event *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says why, or what the code means, and gives the exit status for the code. */
int fail(int code, const struct pawl_why *why);
/* Says that COMMAND cannot be executed: EXIT_NOT_FOUND or EXIT_NOT_EXECUTABLE. */
int cannot_run(const char *command, int error);

/* ---- the client (client.c) ------------------------------------------------------------------------------------- */

/* Opens -e, else $PAWL_URL, else the embedded engine in its default directory. EXIT_DONE, or says why not. */
int client_open(enum pawl_drive drive, pawl_client **client);
/* Opens a client for one job, which gives the exit status, and closes it. */
int client_do(int (*job)(pawl_client *client, const char *argument), const char *argument);
/* The same for commands that only read: the client is NULL if there is no store yet, and none is made. */
int client_open_to_look(pawl_client **client);
int client_look(int (*job)(pawl_client *client, const char *argument), const char *argument);
/* As fail(), for a call that looks at a store or interferes with it: the client knows why. */
int fail_of_client(pawl_client *client, int code);

/* ---- time (keep.c) ------------------------------------------------------------------------------------------------ */

int64_t now_ns(void); /* CLOCK_BOOTTIME: a lease goes on while the machine sleeps */

/* ---- secrets (secret.c) ----------------------------------------------------------------------------------------- */

/* Takes the password out of the URL in an environment variable, if it is there and has one. False: no memory. */
bool hide_password(const char *variable);
/* *whole: the URL with the password that its passenv= names, to be freed; NULL if it has none. False: said why. */
bool resolve_passenv(const char *url, char **whole);

/* ---- printing (print.c) ---------------------------------------------------------------------------------------- */

/* Writes text so that a terminal shows it and obeys nothing in it. out is cut at size. Returns the columns used. */
size_t escape_for_terminal(const char *text, char *out, size_t size);
/* The bytes of the character at text, at least one, and the columns it takes on most terminals: 0, 1 or 2. */
size_t character_at(const char *text, size_t *columns);
/* pawl_duration_text into a buffer of 24 bytes. */
static inline const char *duration_text(int64_t ms, char buffer[24])
{
        return pawl_duration_text(ms, buffer, 24);
}

/* A table whose columns are as wide as their widest cell; cells are copied. The last column is not padded. */
struct table {
        size_t columns;
        size_t cells;
        size_t room;
        char **cell;
};
void table_begin(struct table *, size_t columns);
void table_cell(struct table *, const char *format, ...) __attribute__((format(printf, 2, 3)));
void table_text(struct table *, const char *text); /* escaped */
void table_sort(struct table *);                   /* the rows below the first, by their first cells */
/* Shortens what is too long in the first and the last column, so that rows are no wider than width where possible. */
void table_fit(struct table *, size_t width);
void table_print(const struct table *, FILE *out);
void table_end(struct table *);

/* JSON, one value at a time; the commas and the escaping are done here. key is NULL inside an array. */
void json_open(FILE *, const char *key, char bracket);
void json_close(FILE *, char bracket);
void json_text(FILE *, const char *key, const char *text); /* NULL: null */
/* Bytes that may hold NULs; what is not UTF-8 becomes U+FFFD. At least one NUL follows them. */
void json_bytes(FILE *, const char *key, const char *bytes, size_t size);
void json_number(FILE *, const char *key, int64_t number);
void json_token(FILE *, const char *key, uint64_t token); /* 0: null */
void json_seconds(FILE *, const char *key, int64_t ms);   /* 1.250 */
void json_flag(FILE *, const char *key, bool flag);
void json_end(FILE *); /* the line's end, at the outermost level */
/* Around an object of its own for another file, in the middle of this one. */
bool json_interrupt(void);
void json_resume(bool outer);

/* One holder, waiter or past owner as a JSON object. */
void json_entry(FILE *, const struct pawl_entry *);
/* The members that say who has a lock: holder, holders, waiters, ahead; none if the store did not say. */
void json_holders(FILE *, const struct holders *);
const char *role_text(uint32_t role);
/* "exclusive", "shared", "shared 3" */
const char *mode_text(const struct pawl_entry *, char *buffer, size_t size);

#endif
