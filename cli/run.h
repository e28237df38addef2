/* run.h - the parts of `pawl run`: signals, waiting for the lock, the child, its watchdog, and keeping watch over all. */
#ifndef PAWL_CLI_RUN_H
#define PAWL_CLI_RUN_H

#include <signal.h>
#include <sys/types.h>

#include "cli.h"

/* ---- signals.c: signals as something to read ------------------------------------------------------------------- */

struct signals {
        int fd;       /* readable when one has come */
        int ended_by; /* the last INT, TERM or QUIT that has come; 0: none has */
        sigset_t original_mask;
        struct sigaction original_chld;
};

/* Blocks INT TERM HUP QUIT USR1 USR2 TSTP CONT WINCH and CHLD and opens fd for them, but leaves alone what we were
 * started to ignore (nohup, background jobs). False: says why. */
bool signals_begin(struct signals *);
/* The next one that has come, or 0. */
int signals_next(struct signals *);
/* For the child: mask and dispositions as we found them. */
void signals_restore(const struct signals *);
/* Stops us, or the whole job with us, as the terminal would have, and returns when it is continued. */
void signals_stop(int stop_signal, bool whole_job);
/* Ends us by the signal itself, the whole job with us, as the terminal would have. */
void signals_end_job(int signal);
/* Does the signal end a program that does not care for it? */
bool signal_ends(int signal);
/* "SIGTERM"; "signal 34" for one without a name. Valid until the next call. */
const char *signal_name(int signal);
/* Of "TERM", "SIGTERM" or "15"; 0: there is none. */
int signal_number(const char *text);

/* ---- claim.c: waiting for the lock ----------------------------------------------------------------------------- */

/* How a lock is asked for, by the options of CLAIM_OPTIONS. */
struct claim_request {
        int64_t wait_ms;      /* -1: for ever */
        int64_t ttl_ms;       /* 0: the client's */
        int64_t delay_ms;     /* the lock-delay; -1: own_delay_ms */
        int64_t own_delay_ms; /* pawl's own, where the engine has one */
        bool shared;
        bool exclusive;
        uint32_t max_holders;
        uint32_t conflict_status;
        uint32_t flags; /* enum pawl_lock_flag */
        const char *note;
        const char *shown;     /* the name as people know it; NULL: the lock's */
        const char *purpose;   /* "waiting for", as people are told; NULL: they are not told that it waits */
        bool silent;           /* nor that it was refused */
        bool leave_with_input; /* the wait ends with standard input: EXIT_DONE */
        bool ready_to_wait;    /* for a service manager: a waiter is ready */
};
/* Whoever waits for a claim hears no signal while the store is asked who has it. */
enum { CLAIM_LOOK_MS = 1000 };
#define CLAIM_REQUEST .wait_ms = -1, .delay_ms = -1, .conflict_status = EXIT_CONFLICT
/* clang-format off */
#define CLAIM_OPTIONS(request)                                                                                         \
        {'n', "nonblock", NULL, "fail at once if it is held", claim_no_wait, &(request).wait_ms},                      \
        {'w', "wait", "DUR", "give up after DUR (0: as -n); else wait for ever", option_duration, &(request).wait_ms}, \
        {'s', "shared", NULL, "share it with others who do", option_flag, &(request).shared},                          \
        {'x', "exclusive", NULL, "alone; the default", option_flag, &(request).exclusive},                             \
        {'N', "max", "N", "shared by at most N holders", option_number, &(request).max_holders},                       \
        {'E', "conflict-exit-code", "N", "the status when -n or -w gives up (1)", claim_exit_code,                     \
         &(request).conflict_status},                                                                                  \
        {0, "ttl", "DUR", "the lease (10s)", option_some_time, &(request).ttl_ms},                                    \
        CLAIM_NAMES(request)
/* Of all that take a lock. */
#define CLAIM_NAMES(request)                                                                                           \
        {0, "lock-delay", "DUR", "if this holder fails, nobody gets the lock for DUR", option_duration,                \
         &(request).delay_ms},                                                                                         \
        {0, "note", "TEXT", "for others to read in `pawl show`", option_text, &(request).note},                        \
        {0, "owner", "TEXT", "who we are, for others to read (HOST:PID:PROGRAM)", option_text, &settings.owner}
/* clang-format on */
bool claim_no_wait(const struct option *, const char *text);
bool claim_exit_code(const struct option *, const char *text);
/* EXIT_DONE if the options go together. */
int claim_check(const struct command *, const struct claim_request *);

/* Waits for name, with an ear for signals. *lock: it is held. NULL: it is not, nothing is left behind, and the exit
 * status is returned. */
int claim_wait(struct signals *, pawl_client *, const char *name, const struct claim_request *, pawl_lock **lock);

/* The next signal that ends the program, or 0; a stop at the terminal is obeyed. */
int claim_signal(struct signals *);
/* Reads what there is, and ignores it. True: no more will come. */
bool input_ends(int fd);

/* ---- waiting.c: what people are told meanwhile ------------------------------------------------------------------- */

struct waiting {
        pawl_client *client;
        const char *name;
        const struct claim_request *request;
        const bool *over;       /* the claim was decided */
        struct holders holders; /* as they were seen last */
        int64_t next;           /* when something is to be said, INT64_MAX: no more */
        int64_t ask_at;         /* when the store is to be asked again */
        bool drawn;             /* a line stands on the terminal */
        bool spoken;            /* a line was written */
};

/* Nothing is said for the first second; nor later with -q, or if the request has no purpose. */
void waiting_begin(struct waiting *, pawl_client *, const char *name, const struct claim_request *, const bool *over);
/* For poll(2): ms until waiting_show has something to do, -1: never. */
int waiting_due_ms(const struct waiting *);
/* Says what is due. Asks the store, which may turn the client's loop and run its callbacks. */
void waiting_show(struct waiting *);
/* Takes the line off the terminal. */
void waiting_end(struct waiting *);

/* ---- notify.c: notifying a service manager ------------------------------------------------------------------------- */

/* Takes NOTIFY_SOCKET out of the environment, so that COMMAND does not speak for us; pass: COMMAND has it, and says itself
 * whether it is ready. Without this call nothing is sent. */
void notify_begin(bool pass);
bool notify_wanted(void);
/* What we do, for people. */
void notify_status(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The same, and the first time that we are ready. */
void notify_ready(const char *format, ...) __attribute__((format(printf, 1, 2)));
void notify_stopping(void);

/* ---- terminal.c: who is in the foreground ----------------------------------------------------------------------- */

/* Our own group, or that one, is in the foreground of the terminal we were started from. */
bool terminal_is_ours(void);
bool terminal_is_of(pid_t group);
bool terminal_exists(void);
/* Standard input and output are that terminal: COMMAND gets it from the start. Else it gets it when it asks. */
bool terminal_at_once(void);
/* From our group to another's, and back. Nothing happens if the terminal belongs to a third. */
bool terminal_give(pid_t group);
void terminal_take_back(pid_t group);

/* ---- watchdog.c: kills COMMAND's group when we cannot ------------------------------------------------------------ */

struct watchdog {
        int fd; /* our end of its pipe */
        pid_t pid;
        pid_t group; /* what it knows */
        int64_t deadline;
};

/* The last word of our command line, in the memory where the kernel put it: the watchdog writes its own name over all of
 * it, so that who looks for us by our command line, to kill us perhaps, does not find it too. */
void watchdog_last_word(char *word);
/* A process of its own, before COMMAND's, so that COMMAND never runs without it. */
bool watchdog_start(struct watchdog *);
/* Kills the group at that time (CLOCK_BOOTTIME, ns) unless told otherwise, and when we are gone. INT64_MAX: only then. */
void watchdog_guard(struct watchdog *, pid_t group, int64_t deadline);
/* The first such order, by COMMAND's own process before it becomes COMMAND: only the system call. */
bool watchdog_guard_me(const struct watchdog *, int64_t deadline);
/* It may have been killed: have another one. */
void watchdog_look(struct watchdog *);
/* The group is no longer ours to kill. The rest, when there is time for it. */
void watchdog_end(struct watchdog *);
void watchdog_reap(struct watchdog *);

/* ---- child.c: COMMAND ------------------------------------------------------------------------------------------ */

struct child {
        pid_t pid; /* also the number of its process group */
        bool had_terminal;
        int stopped_by; /* the signal that stopped it; 0: it runs */
        bool ended;
        int how;    /* CLD_EXITED, CLD_KILLED, CLD_DUMPED */
        int status; /* exit status, or signal */
};

/* Starts argv in its own process group, guarded by the watchdog from its first moment; it dies with us. 0, or the errno of
 * what failed; ETIME: the deadline has passed, and it was not started. */
int child_start(struct child *, char **argv, const struct signals *, struct watchdog *, int64_t deadline);
/* What has become of it? Does not reap: its number stays its own until child_reap. */
void child_look(struct child *);
void child_reap(struct child *);
/* To the whole group, and to COMMAND itself should it have left it. */
void child_signal(const struct child *, int signal);
/* From now on what COMMAND leaves behind is left to us, so that we can tell when the last of it has ended. */
void child_inherit(void);
/* Nobody is left of the group. After child_reap. */
bool child_group_gone(const struct child *);
/* The status by which `pawl run` tells how COMMAND ended. */
int child_exit_status(const struct child *);

/* ---- keep.c: while COMMAND runs -------------------------------------------------------------------------------- */

struct keep_options {
        int lost_signal;  /* --on-lost: what COMMAND gets; 0: nothing */
        int asked_signal; /* --on-asked: the same when another client asks for the lock */
        bool no_renew;
        int64_t kill_after_ms;
        int64_t at_least_ms; /* 0: no */
        int64_t at_most_ms;  /* 0: no */
};

/* Until when COMMAND is safe, as far as is known now; INT64_MAX with --on-lost ignore. */
int64_t keep_deadline(pawl_lock *, const struct keep_options *);
/* Watches over COMMAND and the lock until COMMAND has ended, and on until at_least_ms. True if the lock was lost, or if
 * COMMAND was stopped because it was about to be. */
bool keep(struct signals *, pawl_client *, pawl_lock *, struct child *, struct watchdog *, const struct keep_options *);

/* ---- hold.c: COMMAND under a held lock --------------------------------------------------------------------------- */

struct hold {
        const char *name; /* of the lock */
        char **argv;      /* COMMAND */
        struct keep_options keep;
        int64_t kill_after_ms; /* -1: a fifth of the lease */
        struct child child;
        struct watchdog dog;
        bool released; /* in time, and confirmed */
};
#define HOLD .keep = {.lost_signal = SIGTERM}, .kill_after_ms = -1
/* clang-format off */
#define HOLD_OPTIONS(hold)                                                                                             \
        {0, "on-lost", "term|kill|ignore|signal:SIG", "what COMMAND gets if the lock is lost (term)", hold_on_lost,    \
         &(hold).keep.lost_signal},                                                                                    \
        {0, "on-asked", "ignore|term|signal:SIG", "what COMMAND gets from `pawl ask` (ignore)", hold_on_asked,         \
         &(hold).keep.asked_signal},                                                                                   \
        {'k', "kill-after", "DUR", "from the signal to SIGKILL (ttl/5)", option_duration, &(hold).kill_after_ms}
/* clang-format on */
bool hold_on_lost(const struct option *, const char *text);
bool hold_on_asked(const struct option *, const char *text);
/* EXIT_DONE if the options go together; completes the request. */
int hold_check(const struct command *, const struct hold *, struct claim_request *);
/* COMMAND as one string for $SHELL. */
char **hold_shell(const char *string);
/* Runs COMMAND while the lock is held. Its exit status, EXIT_LOST, or why it was not started. */
int hold_command(struct hold *, struct signals *, pawl_client *, pawl_lock *);
/* Gives the lock back; the status that is left to say. */
int hold_release(struct hold *, pawl_lock *, int status);
/* After the lock was given back. An interrupt at the terminal that ended COMMAND ends the whole job. */
void hold_end(struct hold *, int status);

#endif
