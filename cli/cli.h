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

extern const struct command cmd_acquire, cmd_ask, cmd_break, cmd_completion, cmd_demo, cmd_doctor, cmd_elect,
        cmd_engines, cmd_fence, cmd_forget, cmd_get, cmd_hold, cmd_init, cmd_limit, cmd_ls, cmd_marks, cmd_once,
        cmd_prune, cmd_put, cmd_release, cmd_renew, cmd_run, cmd_show, cmd_top, cmd_ttl, cmd_watch;

/* Those there are (main.c), in the order of `pawl --help`; NULL: no more. */
const struct command *command_at(size_t index);
const struct command *command_of_name(const char *name);

/* ---- options (options.c) --------------------------------------------------------------------------------------- */

struct option {
        char letter;      /* 0: none */
        const char *name; /* without its two dashes; NULL: none */
        const char *
                value; /* what the help calls its value: TEXT, or the words it may be: text|json; NULL: it takes none */
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
/* COMMAND begins here, behind that many of the command's own words. "--" behind the last that must be there announces it;
 * without it COMMAND begins behind the last that may be there. */
bool command_begins(const struct command *, int words, bool dashes);
/* The table that a command gives to options_read. */
const struct option *options_of(const struct command *);
/* One of a command's own options, or of those that every command has. command NULL: those before its name. */
const struct option *option_of_name(const struct command *, const struct option *options, const char *name,
                                    size_t length);
const struct option *option_of_letter(const struct command *, const struct option *options, const char *letter);
/* All of them, in the order of the help. */
typedef void option_visitor(const struct option *, void *arg);
void options_each(const struct command *, const struct option *options, option_visitor *, void *arg);
/* The known word (known(0), known(1), ... until NULL) that one mistake or two make of this; NULL: none is near. */
const char *near_miss(const char *word, const char *(*known)(size_t index));
/* COMMAND has at least one word. */
bool has_command(const struct arguments *);
/* Says what is wrong with the arguments; EXIT_FAILED. */
int usage_error(const struct command *, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- completion (complete.c) ------------------------------------------------------------------------------------- */

/* Prints what may stand in the place of the last of these words, which stand behind "pawl", for the scripts of shells:
 * a line for each, with a tab before what it means, and at the end
 *      :words N        that is all; the first N bytes of the word are not repeated
 *      :files N        paths as well, for what follows the first N bytes of the word
 *      :directories N  the same, but directories only
 *      :command N      the words from the Nth on are a command line of their own */
int complete(int count, char **words);
/* The scripts, of cli/completion. */
extern const char completion_bash[], completion_zsh[], completion_fish[];

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
/* A second try: nothing is said, and an error of the library is returned. */
int client_look_again(pawl_client **client, struct pawl_why *why);
int client_look(int (*job)(pawl_client *client, const char *argument), const char *argument);
/* Then: which store is not there, in the words of the library. */
const char *client_not_there(void);
/* What only looks makes no store: those that lie in a directory or a file are opened with create=no, unless the URL has a
 * create= of its own. Others have a server that is there or not. To be freed; NULL: no memory. */
char *url_to_look(const char *url);
bool url_says_create(const char *url);
/* What COMMAND finds as PAWL_URL: the URL in use without secrets, or the file that it and its secrets were read from. */
const char *client_url(const pawl_client *client);
/* As fail(), for a call that looks at a store or interferes with it: the client knows why. */
int fail_of_client(pawl_client *client, int code);

/* ---- time (keep.c) ------------------------------------------------------------------------------------------------ */

int64_t now_ns(void); /* CLOCK_BOOTTIME: a lease goes on while the machine sleeps */

/* ---- secrets (secret.c) ----------------------------------------------------------------------------------------- */

/* Takes the password out of the URL in an environment variable, if it is there and has one; of @FILE it makes a whole
 * path. False: no memory. */
bool hide_password(const char *variable);
/* What to open for a URL as people write it: for @FILE the URL in that file, with the password that a passenv= names.
 * *own is to be freed; NULL if that is the URL itself. False: said why. */
bool resolve_url(const char *url, char **own);
/* A copy to be shown, to be freed: @FILE is named by its whole path. NULL: no memory. */
char *url_without_secrets(const char *url);
/* "@/path/of/FILE" for a URL that was named as @FILE and has a secret, to be freed; else NULL, also without memory. */
char *url_to_hand_on(const char *named, const char *opened);

/* ---- printing (print.c) ---------------------------------------------------------------------------------------- */

/* Writes text so that a terminal shows it and obeys nothing in it. out is cut at size. Returns the columns used. */
size_t escape_for_terminal(const char *text, char *out, size_t size);
/* The bytes of the character at text, at least one, and the columns it takes on most terminals: 0, 1 or 2. */
size_t character_at(const char *text, size_t *columns);
/* The same for a code point (width.c). */
size_t columns_of(uint32_t point);
/* The columns of a whole text. */
size_t width_of(const char *text);
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
void table_print(const struct table *, FILE *out);
void table_end(struct table *);

/* ---- columns that fit (columns.c) ------------------------------------------------------------------------------ */

/* How a column of a table gives way where the screen is narrow. */
struct column {
        const char *head;
        size_t least;  /* it can be shortened to that; 0: never shortened */
        size_t wanted; /* columns that leave first leave before this one is shorter than that */
        size_t steady; /* so wide in any case, so that others do not move when a cell changes */
        size_t leaves; /* left out as the 1st, 2nd, ...; 0: never */
        bool right;    /* numbers */
};
enum { COLUMNS_MAX = 16, COLUMN_GAP = 2 };
/* The width that each column gets so that a row fits; 0: it is left out, as is one whose cells are all empty. The first row
 * are the heads. */
void table_layout(const struct table *, const struct column *, size_t width, size_t widths[COLUMNS_MAX]);
/* Writes text with "…" in its middle if it is wider than that. Returns the columns used. */
size_t put_shortened(FILE *, const char *text, size_t width);

int64_t unix_ms(void); /* by the clock of the day */

/* JSON, one value at a time; the commas and the escaping are done here. key is NULL inside an array. What is printed stands
 * in docs/json: durations are numbers of milliseconds called *_ms, times are texts, tokens and versions too. */
void json_open(FILE *, const char *key, char bracket);
void json_close(FILE *, char bracket);
void json_text(FILE *, const char *key, const char *text); /* NULL: null */
/* Bytes that may hold NULs; what is not UTF-8 becomes U+FFFD. At least one NUL follows them. */
void json_bytes(FILE *, const char *key, const char *bytes, size_t size);
void json_number(FILE *, const char *key, int64_t number);
void json_token(FILE *, const char *key, uint64_t token); /* 0: null */
void json_time(FILE *, const char *key, int64_t unix_ms); /* UTC, RFC 3339; 0: null */
void json_flag(FILE *, const char *key, bool flag);
void json_end(FILE *); /* the line's end, at the outermost level */
/* Around an object of its own for another file, in the middle of this one. */
bool json_interrupt(void);
void json_resume(bool outer);

/* A copy with texts of its own, for entry_free. False: there is no memory, and nothing to be freed. */
bool entry_copy(struct pawl_entry *copy, const struct pawl_entry *);
void entry_free(struct pawl_entry *copy);
/* Of a past owner: "night shift (host db3 is gone)", who broke its lock, and why. "" if nobody did, or it is not known. */
enum { BREAKER_MAX = PAWL_OWNER_MAX + PAWL_BREAK_REASON_MAX + 3 };
const char *breaker_text(const struct pawl_entry *, char text[BREAKER_MAX + 1]);
/* One holder, waiter or past owner as a JSON object. */
void json_entry(FILE *, const struct pawl_entry *);
/* The members that say who has a lock: holder, holders, waiters, ahead; none if the store did not say. */
void json_holders(FILE *, const struct holders *);
const char *role_text(uint32_t role);
/* "exclusive", "shared", "shared 3" */
const char *mode_text(const struct pawl_entry *, char *buffer, size_t size);

#endif
