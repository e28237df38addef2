/* pawl.h - a distributed lock: one process at a time, across threads, processes and machines.
 *
 *     pawl_client *client;
 *     pawl_lock *lock;
 *
 *     if (pawl_open(NULL, NULL, &client) != PAWL_OK)
 *             return 1;
 *     if (pawl_acquire(client, "orders/42", PAWL_LOCK(.wait_ms = 5000), &lock) == PAWL_OK) {
 *             store_order(42, pawl_token(lock));
 *             pawl_release(lock);
 *     }
 *     pawl_close(client);
 *
 * What every engine promises (docs/GUARANTEES.md says under which faults):
 *   PAWL_OK from pawl_acquire means held. Every grant has a token; for one name a later grant has a greater one.
 *   A lease is counted from before the request was sent and is never resurrected. A lost lock says so exactly once,
 *   with the reason, at our own clock's deadline at the latest. A failed or cancelled acquire leaves nothing behind.
 *
 * Rules of the house: handles are opaque; options begin with their size and zero is always the default;
 * out-parameters come last and are written on success only; text is copied. If a call that took a callback fails,
 * the callback never runs; if it succeeds it runs exactly once, never before the call returned. A client may be used
 * by any number of threads; none may be cancelled (pthread_cancel) inside a call. After fork() the child may not use
 * the parent's handles: every call says PAWL_FORKED. Do not close descriptors that you did not open (close_range).
 * The library never prints, exits, installs signal handlers or reads the environment. */
#ifndef PAWL_H
#define PAWL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PAWL_VERSION_MAJOR 0
#define PAWL_VERSION_MINOR 1
#define PAWL_VERSION_PATCH 0
#define PAWL_VERSION "0.1.0"

#if defined(__GNUC__)
#define PAWL_EXPORT __attribute__((visibility("default")))
#define PAWL_MUST_USE __attribute__((warn_unused_result))
#else
#define PAWL_EXPORT
#define PAWL_MUST_USE
#endif

typedef struct pawl_client pawl_client; /* one open URL */
typedef struct pawl_lock pawl_lock;     /* one claim on one name: waiting, held, or over */

/* ---- errors --------------------------------------------------------------------------------------------------- */

/* X(name, number, text), sorted by what the caller should do. */
#define PAWL_ERRORS(X)                                                                                                 \
        X(OK, 0, "done")                                                                                               \
        /* wait, or do something else: another one has it */                                                           \
        X(BUSY, 1, "the lock is held by another")                                                                      \
        X(TIMEOUT, 2, "the lock was not free in time")                                                                 \
        X(CANCELLED, 3, "the claim was cancelled")                                                                     \
        /* stop: what you had is no longer yours */                                                                    \
        X(LOST, 10, "the lock was lost")                                                                               \
        X(STALE, 11, "the token is older than one already admitted")                                                   \
        X(WOUNDED, 12, "an older claim comes first: let go of everything, and try again")                              \
        /* try again later: the store */                                                                               \
        X(UNREACHABLE, 20, "the store cannot be reached")                                                              \
        X(NO_QUORUM, 21, "too few of the stores answered")                                                             \
        X(IN_DOUBT, 22, "the request was sent and not confirmed; it is being finished in the background")              \
        X(FULL, 23, "the store is full: no room for another name, claim, client or value, or no disk space")           \
        X(NO_MEMORY, 24, "out of memory")                                                                              \
        X(SYSTEM, 25, "a system call failed")                                                                          \
        X(STUCK, 26, "another process is stopped in the middle of a step; continue or kill it")                        \
        /* mend the call */                                                                                            \
        X(INVALID, 30, "an argument is not valid")                                                                     \
        X(UNSUPPORTED, 31, "the engine, or this version, cannot do that")                                              \
        X(MISUSE, 32, "not allowed here or in this state")                                                             \
        X(FORKED, 33, "the handle belongs to the parent process")                                                      \
        X(NOT_FOUND, 34, "there is no such lock, lease or resource")                                                   \
        /* mend the installation */                                                                                    \
        X(DENIED, 40, "permission denied")                                                                             \
        X(NO_ENGINE, 41, "no engine for that URL")                                                                     \
        X(CORRUPT, 42, "the store's data are damaged")                                                                 \
        X(OTHER_VERSION, 43, "the store was written by another version")

enum pawl_error {
#define PAWL_ERROR_ENUM(name, number, text) PAWL_##name = (number),
        PAWL_ERRORS(PAWL_ERROR_ENUM)
#undef PAWL_ERROR_ENUM
};

/* A short sentence for a code; for an unknown code "unknown error". Never NULL. */
PAWL_EXPORT const char *pawl_strerror(int code);
/* The code's name, "PAWL_BUSY". Never NULL. */
PAWL_EXPORT const char *pawl_error_name(int code);

/* What exactly went wrong and what to do about it: give one in the options, read it when the call failed. It is written also
 * if the options have no size, or the client cannot be used. */
struct pawl_why {
        int32_t code;
        int32_t sys_errno; /* 0 if no system call was to blame */
        char text[504];
};

/* ---- client --------------------------------------------------------------------------------------------------- */

enum pawl_drive {
        PAWL_DRIVE_THREAD = 0, /* a private thread, started when first needed, keeps leases alive */
        PAWL_DRIVE_CALLER = 1, /* no thread: the program polls pawl_fd() and calls pawl_dispatch() */
};

enum pawl_level { PAWL_LOG_ERROR = 0, PAWL_LOG_WARNING = 1, PAWL_LOG_INFO = 2, PAWL_LOG_TRACE = 3 };

/* May run on any thread that is inside a pawl call, and on the private thread. May not call pawl. */
typedef void pawl_log_fn(int level, const char *text, void *arg);

struct pawl_open_options {
        uint32_t size;      /* sizeof(struct pawl_open_options) */
        uint32_t drive;     /* enum pawl_drive */
        uint32_t flags;     /* none yet: 0 */
        uint32_t log_level; /* the least urgent level that is logged */
        int64_t ttl_ms;     /* default ttl of this client's locks; 0: the URL's ttl=, else 10 s */
        const char *owner;  /* who we are, for others to read; NULL: "host:pid:program" */
        pawl_log_fn *log;
        void *log_arg;
        struct pawl_why *why;
        int64_t look_ms; /* how long pawl_list, pawl_show and pawl_look wait for the store; 0: 5 s */
};

/* Opens url (NULL: "local:"). Does not wait for a store: an unreachable one is told by the first acquire. */
PAWL_EXPORT PAWL_MUST_USE int pawl_open(const char *url, const struct pawl_open_options *options, pawl_client **client);

/* Releases what is still held, each lock on its own, and frees the client and all its handles. Consumed whatever is
 * returned; NULL is fine. It waits up to 2 s for answers of the store, so that nothing stays behind there until its lease
 * ends. No callback runs after it returned. PAWL_MISUSE, and nothing happens, inside a callback. Other threads that are
 * blocked in pawl_acquire, pawl_wait or a question to the store get PAWL_CANCELLED, or PAWL_IN_DOUBT if something may have
 * been done; let those inside a recipe (include/pawl) come back first: it makes several calls, and would use the client
 * again. */
PAWL_EXPORT int pawl_close(pawl_client *client);

/* PAWL_DRIVE_CALLER: readable when pawl_dispatch() has something to do, timers included. -1 with a private thread. */
PAWL_EXPORT int pawl_fd(const pawl_client *client);
/* Does what is due, runs callbacks, never blocks. */
PAWL_EXPORT int pawl_dispatch(pawl_client *client);

/* The URL in use, without secrets; borrowed until pawl_close. */
PAWL_EXPORT const char *pawl_url(const pawl_client *client);
/* The owner string in use; borrowed until pawl_close. */
PAWL_EXPORT const char *pawl_owner(const pawl_client *client);

enum pawl_capability {
        PAWL_CAN_SHARE = 1u << 0,      /* PAWL_SHARED */
        PAWL_CAN_LIMIT = 1u << 1,      /* max_holders */
        PAWL_CAN_QUEUE = 1u << 2,      /* waiters are served first come, first served */
        PAWL_CAN_DELAY = 1u << 3,      /* delay_ms */
        PAWL_CAN_DETACH = 1u << 4,     /* PAWL_DETACH, pawl_lease, pawl_adopt */
        PAWL_CAN_INSPECT = 1u << 5,    /* pawl_list, pawl_show, pawl_look */
        PAWL_CAN_BREAK = 1u << 6,      /* pawl_break, pawl_break_if */
        PAWL_CAN_ASK = 1u << 7,        /* pawl_ask */
        PAWL_CAN_HISTORY = 1u << 8,    /* past owners in pawl_show */
        PAWL_SEES_DEATH = 1u << 9,     /* a holder's death frees the lock before its ttl ends */
        PAWL_TOKEN_DURABLE = 1u << 10, /* tokens go on growing when the store loses all its data */
        PAWL_CAN_AGE = 1u << 11,       /* the age of a claim is kept in the store (deadlock policies) */
        PAWL_CAN_KEEP = 1u << 12       /* pawl_store, pawl_fetch */
};
PAWL_EXPORT uint32_t pawl_capabilities(const pawl_client *client);

/* ---- locks ---------------------------------------------------------------------------------------------------- */

enum pawl_mode {
        PAWL_EXCLUSIVE = 0,
        PAWL_SHARED = 1 /* with other shared holders; at most max_holders of them if that is set (a semaphore) */
};

enum pawl_state {
        PAWL_WAITING = 1,
        PAWL_HELD = 2,
        PAWL_UNCERTAIN = 3, /* a renewal is overdue; the lease still stands: start nothing new */
        PAWL_GONE = 4,      /* lost */
        PAWL_OVER = 5       /* refused, cancelled, or being released */
};

enum pawl_reason {
        PAWL_REASON_NONE = 0,
        PAWL_REASON_EXPIRED = 1, /* the lease ran out by our own clock */
        PAWL_REASON_TAKEN = 2,   /* the store says it is no longer ours */
        PAWL_REASON_BROKEN = 3,  /* an administrator broke it */
        PAWL_REASON_SESSION = 4, /* the session, or the store's memory of us, ended */
        PAWL_REASON_CLOSED = 5   /* the client was closed */
};
PAWL_EXPORT const char *pawl_reason_text(int reason);

enum { PAWL_FOREVER = 0, PAWL_NO_WAIT = -1 };

enum pawl_lock_flag {
        PAWL_NO_RENEW = 1u << 0, /* a fixed lease: it ends after ttl_ms */
        PAWL_DETACH = 1u << 1,   /* the lock outlives the handle and the process: see pawl_lease; a fixed lease, too */
        PAWL_RENEW =
                1u << 2, /* with PAWL_DETACH, and for pawl_adopt: renewed as others are, while we have the handle */
        PAWL_CONFIRM = 1u << 3, /* takes its turn by a write, and is passed over if it does not: see below */
        PAWL_BRIEF = 1u << 4    /* why need not name the holder that is in the way: the store is not asked for that */
};

/* PAWL_CONFIRM: for locks that many wait for and few hold, such as the leader's; elections set it. ZooKeeper and etcd keep
 * the place of a waiter that died until its session is over, so that several deaths one after the other cost nearly a
 * session each. A claim with this flag must confirm its turn by one more write before it is granted, and the next one with
 * the flag removes it from the queue if it has not after about half a second. A waiter that was only slow never held, and is
 * queued again at the end. Costs one more round trip per grant there. The other engines skip dead waiters anyway, and ignore
 * it. For exclusive locks, without delay_ms and PAWL_DETACH. */

/* The lock is lost. Runs once, on the private thread or inside pawl_dispatch; may use async calls and pawl_check. */
typedef void pawl_lost_fn(pawl_lock *lock, int reason, void *arg);
/* Another one would like to have it (pawl_ask). Runs where pawl_lost_fn does. */
typedef void pawl_asked_fn(pawl_lock *lock, void *arg);

struct pawl_lock_options {
        uint32_t size;        /* sizeof(struct pawl_lock_options): PAWL_LOCK sets it */
        uint32_t flags;       /* enum pawl_lock_flag */
        uint32_t mode;        /* enum pawl_mode */
        uint32_t max_holders; /* with PAWL_SHARED: at most so many at once; 0: any number */
        int64_t wait_ms;      /* PAWL_FOREVER (0), PAWL_NO_WAIT, or how long */
        int64_t ttl_ms;       /* 0: the client's default; the least is 50 ms */
        int64_t delay_ms;     /* if we fail (die, expire, are broken), nobody gets the lock for so long */
        uint64_t age;         /* for deadlock policies: the smaller the older; 0: none */
        const char *note;     /* for others to read; at most 63 bytes are kept */
        pawl_lost_fn *on_lost;
        pawl_asked_fn *on_asked;
        void *arg; /* for on_lost and on_asked */
        /* Written by the call itself, not later. If another client has the lock (PAWL_BUSY, PAWL_TIMEOUT) pawl_acquire asks
         * the store who, for half a second at most: in a loop that tries leave it NULL, or set PAWL_BRIEF. */
        struct pawl_why *why;
};

/* Options in C: PAWL_LOCK(.wait_ms = 5000), a literal. C++ has none: there a function gives the defaults, size included:
 *     auto options = pawl_lock_defaults();
 *     options.wait_ms = 5000;
 *     int code = pawl_acquire(client, "orders/42", &options, &lock);
 * The same for every struct of options: pawl_open_defaults(), pawl_once_defaults(), ... */
#ifdef __cplusplus
#define PAWL_DEFAULTS(what)                                                                                            \
        inline pawl_##what##_options pawl_##what##_defaults()                                                          \
        {                                                                                                              \
                pawl_##what##_options options = {};                                                                    \
                options.size = static_cast<uint32_t>(sizeof(options));                                                 \
                return options;                                                                                        \
        }
#endif

#ifndef __cplusplus
#define PAWL_OPEN(...) (&(const struct pawl_open_options){.size = sizeof(struct pawl_open_options), __VA_ARGS__})
#define PAWL_LOCK(...) (&(const struct pawl_lock_options){.size = sizeof(struct pawl_lock_options), __VA_ARGS__})
#else
PAWL_DEFAULTS(open)
PAWL_DEFAULTS(lock)
#endif

/* A name is 1 to 255 bytes of UTF-8 without control characters. */
enum { PAWL_NAME_MAX = 255, PAWL_NOTE_MAX = 63, PAWL_OWNER_MAX = 127, PAWL_LEASE_MAX = 511 };

/* Waits for the lock and takes it. PAWL_OK: held, until pawl_release or until it is lost. PAWL_BUSY (PAWL_NO_WAIT),
 * PAWL_TIMEOUT: the store has answered, and another one holds it. PAWL_UNREACHABLE or another error: the store has not
 * answered, however short the wait was; why says more. Not held then, and nothing left behind. options may be NULL. */
PAWL_EXPORT PAWL_MUST_USE int pawl_acquire(pawl_client *client, const char *name,
                                           const struct pawl_lock_options *options, pawl_lock **lock);

/* Ends the claim whatever its state, and consumes the handle whatever is returned; NULL is fine. PAWL_OK: it was held
 * until now. PAWL_LOST: it had been lost before. PAWL_CANCELLED: it was never held, because the claim was refused, timed
 * out, was cancelled, or still waited; only a handle of pawl_acquire_async can be like that. PAWL_IN_DOUBT: not confirmed;
 * finished in the background or by the lease. No callback of this lock runs after it returned. Release a handle once:
 * a second time is PAWL_MISUSE for as long as the handle rests (the client's next eight acquires); later it is
 * another lock's, and ends that. */
PAWL_EXPORT int pawl_release(pawl_lock *lock);

/* status: what pawl_acquire would have returned. */
typedef void pawl_granted_fn(pawl_lock *lock, int status, void *arg);
typedef void pawl_released_fn(int status, void *arg);

/* The asynchronous twins. The handle is given at once and must be released once, whatever becomes of the claim: also
 * after on_granted got an error, because only the caller knows when nobody uses the handle any more. pawl_release then
 * returns PAWL_CANCELLED, which is no failure; the reason is what on_granted or pawl_wait got.
 * on_granted gets its own arg; options->arg is for on_lost and on_asked. It may be NULL for who uses pawl_wait. */
PAWL_EXPORT PAWL_MUST_USE int pawl_acquire_async(pawl_client *client, const char *name,
                                                 const struct pawl_lock_options *options, pawl_granted_fn *on_granted,
                                                 void *arg, pawl_lock **lock);
/* on_released may be NULL. If the call fails (PAWL_MISUSE, PAWL_FORKED) the callback never runs. */
PAWL_EXPORT int pawl_release_async(pawl_lock *lock, pawl_released_fn *on_released, void *arg);

/* Stops waiting: on_granted gets PAWL_CANCELLED, or PAWL_OK if the grant was faster. Also from another thread, for a
 * claim made by pawl_acquire_async. The handle stays to be released. PAWL_MISUSE if it is not waiting. */
PAWL_EXPORT int pawl_cancel(pawl_lock *lock);

/* Waits until a claim of pawl_acquire_async is decided: what pawl_acquire would have returned, or PAWL_TIMEOUT after wait_ms
 * (PAWL_FOREVER, PAWL_NO_WAIT), and the claim waits on. A later decision may be waited for again. */
PAWL_EXPORT PAWL_MUST_USE int pawl_wait(pawl_lock *lock, int64_t wait_ms);

/* PAWL_OK while held and the lease stands at this moment by our own clock; else PAWL_LOST, or PAWL_MISUSE before the
 * grant; PAWL_WOUNDED while it is held, after pawl_wound. Never waits: for no store, no other lock, no other thread.
 * Call it before every guarded step and after every blocking call. */
PAWL_EXPORT PAWL_MUST_USE int pawl_check(pawl_lock *lock);
/* The fencing token: > 0, greater than that of every earlier grant of this name; 0 before the grant. Send it along
 * with every write *and read* (include/pawl/guard.h). It stays readable after a loss. */
PAWL_EXPORT uint64_t pawl_token(const pawl_lock *lock);
/* How long the lease still stands, in ms; 0 if it does not. */
PAWL_EXPORT int64_t pawl_remaining_ms(pawl_lock *lock);
PAWL_EXPORT int pawl_state(pawl_lock *lock);
/* Why it was lost; PAWL_REASON_NONE if it was not. */
PAWL_EXPORT int pawl_reason(pawl_lock *lock);
/* What went wrong with this claim, in words: the refusal's sentence (also of pawl_acquire_async), or the reason of the
 * loss. *why is cleared if nothing did. */
PAWL_EXPORT int pawl_lock_why(pawl_lock *lock, struct pawl_why *why);
/* Borrowed until release. */
PAWL_EXPORT const char *pawl_name(const pawl_lock *lock);
/* 1 if someone called pawl_ask for this lock since it was granted. */
PAWL_EXPORT int pawl_asked(pawl_lock *lock);

/* For deadlock policies: another one comes first. From now on the lease is not renewed, so that the lock is lost at its end
 * if it is not released before, and pawl_check and pawl_renew say PAWL_WOUNDED. PAWL_LOST if it is lost. Also inside a
 * callback. */
PAWL_EXPORT int pawl_wound(pawl_lock *lock);

/* Extends the lease now, by its full ttl from now: for PAWL_NO_RENEW and adopted locks. Blocks. PAWL_LOST if over. */
PAWL_EXPORT PAWL_MUST_USE int pawl_renew(pawl_lock *lock);

/* ---- leases that outlive the process (PAWL_CAN_DETACH) --------------------------------------------------------- */

/* The lease of a lock taken with PAWL_DETACH, as one opaque word that cannot be guessed. Who knows it may renew and
 * release the lock. */
PAWL_EXPORT PAWL_MUST_USE int pawl_lease(pawl_lock *lock, char *word, size_t size);
/* Takes up such a lease, with its token; we are its owner from now on, and others see that. Whoever else still has a
 * handle of it has it as before. PAWL_LOST if it ran out, PAWL_INVALID if the word is not one. */
PAWL_EXPORT PAWL_MUST_USE int pawl_adopt(pawl_client *client, const char *word, const struct pawl_lock_options *options,
                                         pawl_lock **lock);
/* Frees the handle of a PAWL_DETACH or adopted lock without releasing the lock. PAWL_MISUSE for any other. */
PAWL_EXPORT int pawl_forget(pawl_lock *lock);

/* ---- a few bytes beside a lock (PAWL_CAN_KEEP) ----------------------------------------------------------------- */

enum { PAWL_VALUE_MAX = 65536 };

/* Keeps data under the lock's name, if and only if the lock is still ours in the store at that very moment: one step
 * there, so that what a holder sends too late changes nothing, however late it was. For exclusive locks. PAWL_LOST: it
 * is not ours, and nothing was changed. PAWL_IN_DOUBT: sent and not confirmed; release the lock, and let the next holder
 * find out. keep_ms: for how long, by the store's clock; 0: until it is replaced. size 0: keep nothing any more. It
 * stays when the lock is released or lost. Blocks. */
PAWL_EXPORT PAWL_MUST_USE int pawl_store(pawl_lock *lock, const void *data, size_t size, int64_t keep_ms);

struct pawl_value {
        void *data;     /* yours: free() it. One NUL follows the last byte. */
        size_t size;    /* without that NUL; never 0 */
        uint64_t token; /* of the lock under which it was stored */
        int64_t stored_us; /* unix time by the store's clock; ZooKeeper tells its own, etcd none: there it is the writer's */
        int64_t now_us; /* the same clock's when it was read (for ZooKeeper and etcd the reader's) */
};
/* What is kept under a name; no lock is needed. Never older than what was confirmed before the call. PAWL_NOT_FOUND if
 * there is nothing, or no longer. Blocks. */
PAWL_EXPORT PAWL_MUST_USE int pawl_fetch(pawl_client *client, const char *name, struct pawl_value *value);

/* ---- looking, and interfering --------------------------------------------------------------------------------- */

enum pawl_role {
        PAWL_ROLE_HOLDER = 1,
        PAWL_ROLE_WAITER = 2,
        PAWL_ROLE_PAST = 3, /* it held the lock before; how says how that ended */
        PAWL_ROLE_FREE = 4  /* nobody: a name with waiters or a lock-delay, but no holder */
};
enum pawl_how { PAWL_HOW_RELEASED = 1, PAWL_HOW_EXPIRED = 2, PAWL_HOW_DIED = 3, PAWL_HOW_BROKEN = 4 };
PAWL_EXPORT const char *pawl_how_text(int how);

struct pawl_entry {
        const char *name;
        const char *owner;
        const char *note;
        uint64_t token;       /* 0 for waiters */
        int64_t remaining_ms; /* of the lease (holders), the lock-delay (free), else 0 */
        int64_t since_ms;     /* held, or waiting, since: unix time in ms */
        int64_t until_ms;     /* past owners: ended at, unix time in ms; else 0 */
        uint32_t role;
        uint32_t how;
        uint32_t mode;
        uint32_t max_holders;
        uint32_t waiters; /* on this name */
        uint32_t flags;   /* PAWL_DETACH if so */
        uint64_t age;     /* of holders and waiters: pawl_lock_options.age */
        /* Of past owners with PAWL_HOW_BROKEN; else "". */
        const char *broken_by; /* the owner string of the client that broke the lock */
        const char *reason;    /* the reason it gave; "" if none, or not known any more */
};
/* The entry is borrowed for the call; a return other than 0 ends the listing. Runs on the calling thread. */
typedef int pawl_entry_fn(const struct pawl_entry *entry, void *arg);

/* Every holder of every name that begins with prefix (NULL: all), and a PAWL_ROLE_FREE for a name that has none. */
PAWL_EXPORT int pawl_list(pawl_client *client, const char *prefix, pawl_entry_fn *fn, void *arg);
/* Holders, then the queue in its order, then past owners, the latest first. PAWL_NOT_FOUND if nothing is known. */
PAWL_EXPORT int pawl_show(pawl_client *client, const char *name, pawl_entry_fn *fn, void *arg);
/* The same without past owners, for who acts on what it sees: to find those takes some engines more than a second. */
PAWL_EXPORT int pawl_look(pawl_client *client, const char *name, pawl_entry_fn *fn, void *arg);
/* An administrator's force: every holder is cut off; the next token is greater all the same. PAWL_NOT_FOUND if free.
 * PAWL_IN_DOUBT: it was asked for and not confirmed; a second time it could cut off the next holder. */
PAWL_EXPORT int pawl_break(pawl_client *client, const char *name);

enum { PAWL_BREAK_REASON_MAX = 127 };

struct pawl_break_options {
        uint32_t size;      /* sizeof(struct pawl_break_options): PAWL_BREAK sets it */
        uint32_t flags;     /* none yet: 0 */
        uint64_t token;     /* cut off the holder with this token, and no other one; 0: every holder */
        const char *reason; /* for others to read; at most 127 bytes are kept, control characters become blanks */
        struct pawl_why *why;
};
#ifndef __cplusplus
#define PAWL_BREAK(...) (&(const struct pawl_break_options){.size = sizeof(struct pawl_break_options), __VA_ARGS__})
#else
PAWL_DEFAULTS(break)
#endif

/* The same, but of one holder only, and with a reason: PAWL_BREAK(.token = t, .reason = "host db3 is gone"). Whether the
 * holder with this token holds it is checked in the step that breaks it. PAWL_BUSY: it does not, but another one does, and
 * why names it; PAWL_NOT_FOUND: nobody does. Nothing was changed then. pawl_show reports who broke it (pawl_owner), when
 * and why, where past owners are kept (PAWL_CAN_HISTORY); elsewhere it breaks all the same, and the reason is lost. After
 * PAWL_IN_DOUBT a call with a token may be repeated: it cannot cut off the next holder.
 * options may be NULL. */
PAWL_EXPORT int pawl_break_if(pawl_client *client, const char *name, const struct pawl_break_options *options);
/* Asks the holders to let go (their on_asked runs). PAWL_NOT_FOUND if free. */
PAWL_EXPORT int pawl_ask(pawl_client *client, const char *name);

/* What is wrong with a store, or might go wrong. */
enum pawl_severity {
        PAWL_FINE = 0,    /* looked at, nothing to mend */
        PAWL_ADVICE = 1,  /* could be better */
        PAWL_WARNING = 2, /* some promise does not hold under some fault */
        PAWL_DANGER = 3   /* locks or tokens can be lost in normal operation, or it does not work at all */
};
struct pawl_finding {
        uint32_t severity;
        uint32_t unused;
        const char *where; /* the store, or one of its servers */
        const char *what;  /* one sentence */
        const char *mend;  /* the command or setting that mends it; "" if there is nothing to mend */
};
typedef int pawl_finding_fn(const struct pawl_finding *finding, void *arg);
/* Examines the store: is it fit to keep locks, and may we? Borrowed, and ended, like entries. */
PAWL_EXPORT int pawl_examine(pawl_client *client, pawl_finding_fn *fn, void *arg);

enum pawl_init_flag { PAWL_INIT_AGAIN = 1u << 0 /* also where it was done before */ };
/* Prepares servers that must be prepared before their first use: redlock:// with init=manual, or after so many of its
 * servers lost their data that it refuses to go on. Tokens stay greater than before; the locks of servers that forgot them
 * are free. PAWL_MISUSE if it was done before, unless PAWL_INIT_AGAIN. PAWL_UNSUPPORTED where nothing is to be done. */
PAWL_EXPORT int pawl_init(pawl_client *client, uint32_t flags);

/* The sentence for the last of the calls above that failed on this client, on whatever thread; *why is cleared if none
 * did. */
PAWL_EXPORT int pawl_explain(pawl_client *client, struct pawl_why *why);

/* ---- figures -------------------------------------------------------------------------------------------------- */

struct pawl_latency {
        uint64_t count;
        uint64_t p50_ns;
        uint64_t p99_ns;
        uint64_t p999_ns;
        uint64_t max_ns;
};

struct pawl_stats {
        uint64_t size;     /* set by the caller: sizeof(struct pawl_stats) */
        uint64_t held;     /* now */
        uint64_t waiting;  /* now */
        uint64_t acquired; /* since open, as all below */
        uint64_t released;
        uint64_t busy;
        uint64_t timed_out;
        uint64_t cancelled;
        uint64_t lost;
        uint64_t failed; /* other errors of acquire */
        uint64_t renewals;
        uint64_t renewal_failures;
        uint64_t uncertain;
        struct pawl_latency acquire; /* call to grant; of grants at once one in 16 is timed */
        struct pawl_latency wait;    /* the same, of those that had to wait */
        struct pawl_latency hold; /* grant to release or loss; of holds shorter than a timer tick one in 16 is timed */
        struct pawl_latency renew_slack; /* what was left of the lease when a renewal was confirmed */
};
PAWL_EXPORT int pawl_stats(pawl_client *client, struct pawl_stats *stats);

/* ---- what this build can do ----------------------------------------------------------------------------------- */

struct pawl_engine_info {
        const char *scheme;
        const char *summary; /* one line: what it is */
        const char *promise; /* one line: what it promises, and under which fault it does not */
        const char *missing; /* NULL if it can be opened; else why not, and what to install */
};
/* The index-th engine; PAWL_NOT_FOUND past the last. Static text. */
PAWL_EXPORT int pawl_engine(size_t index, struct pawl_engine_info *info);
/* What an administrator runs in the store of a scheme ("postgres") before its first use, where programs may not do it
 * themselves: the part of the locks, and that of the guards; each NULL if there is none. Static text. PAWL_NO_ENGINE if the
 * module is not here, PAWL_UNSUPPORTED if nothing is to be run for that scheme. */
PAWL_EXPORT int pawl_engine_sql(const char *scheme, const char **locks, const char **guards);

/* "10s", "500ms", "1.5m", "2h", "3" (seconds) as milliseconds. PAWL_INVALID for anything else. */
PAWL_EXPORT PAWL_MUST_USE int pawl_duration(const char *text, int64_t *ms);
/* The same for people: "250ms", "8.2s", "3m12s", "2h05m". Returns text; 24 bytes are enough. */
PAWL_EXPORT const char *pawl_duration_text(int64_t ms, char *text, size_t size);
/* The ttl for work of a given length: 2 x (work + latency + drift). */
PAWL_EXPORT int64_t pawl_ttl_for(int64_t work_ms, int64_t latency_ms, int64_t drift_ms);
/* The version of the library in use, "0.1.0". */
PAWL_EXPORT const char *pawl_version(void);

#ifdef __cplusplus
}
#endif
#endif
