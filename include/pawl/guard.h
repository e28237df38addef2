/* guard.h - the resource's side of the lock: admits a token, or refuses it.
 *
 * A lock alone cannot stop a holder that slept past its lease and wakes up in the middle of a write. The resource can: it
 * remembers, for each name, the greatest token it has seen, and refuses every smaller one.
 *
 *     if (pawl_guard_put(guard, "orders", pawl_token(lock), data, size, NULL) == PAWL_STALE)
 *             ...another one has had the lock since: our work is void
 *
 * What every guard promises, for each resource on its own:
 *   Once a call with token T has succeeded, no call with a smaller token ever succeeds again. An equal one does: a
 *   holder may come many times. PAWL_STALE changes nothing.
 *   Every call is a barrier: after it, whatever older holders still send is refused. So send the first *read* through
 *   the guard too (get, or admit before it): else an older holder may still write after you have read.
 *   put is atomic with its check: the data are replaced if the token is admitted, else not, whole or not at all. admit
 *   alone is not: what you do after it may be overtaken by a later holder's admit. Use it where put does not reach.
 *   If a call fails for another reason, the data are as they were, and the token may have been admitted or not.
 *   PAWL_IN_DOUBT, from a guard behind a network that did not answer: the data may be replaced or not, and may be yet.
 *   Do not go on with this token: the first call with a greater one shuts out what is still on its way.
 *
 * Versions instead of tokens, for resources that no lock stands for: look reads the data and their version, swap
 * replaces them if the version is still that one. A resource is either fenced by the tokens of a lock or versioned: the
 * two do not mix.
 *
 * Kinds of guard, by URL:
 *   file:DIR  Each resource is a file in DIR, named like the resource (bytes other than letters, digits and "._-" are
 *             written %XX, and so is a leading dot); readers that do not care for tokens just open it. The greatest token is
 *             kept beside it, in .NAME.pawl, and is on the disk before the data it admits. All this holds between
 *             processes, and across kill -9, crashes and power failures as far as fsync(2) is true. Processes that
 *             write the files past the guard are not stopped. A damaged .NAME.pawl is PAWL_CORRUPT, never a pass. Who
 *             may write DIR may do anything. A process that is stopped within a put makes the others wait for it.
 *   mem:      A table in this process, for resources that live in it. It is forgotten when it is closed.
 *   sqlite:FILE, postgres://..., redis://..., http://...
 *             Marks beside the data in the store that has them; each is a module. docs/FENCING.md has the SQL and the
 *             scripts with which any program checks a token there inside its own transaction.
 *
 * The rules of pawl.h hold here too. A guard may be used by any number of threads. In each call why may be NULL; it is
 * written if the call fails. Resources are named like locks: 1 to 255 bytes of UTF-8 without control characters; for
 * file: the encoded name has 200 bytes at most. Tokens are > 0 and < 2^63: anything else is PAWL_INVALID. */
#ifndef PAWL_GUARD_H
#define PAWL_GUARD_H

#include <pawl.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pawl_guard pawl_guard;

struct pawl_guard_options {
        uint32_t size;          /* sizeof(struct pawl_guard_options): PAWL_GUARD sets it */
        uint32_t flags;         /* none yet: 0 */
        uint32_t resources_max; /* mem: at most so many, then PAWL_FULL; 0: 65536 */
        uint32_t wait_ms;       /* how long a call waits at most: for threads, other processes, a server; 0: 10 s */
        struct pawl_why *why;   /* of pawl_guard_open */
};

#ifndef __cplusplus
#define PAWL_GUARD(...) (&(const struct pawl_guard_options){.size = sizeof(struct pawl_guard_options), __VA_ARGS__})
#else
PAWL_DEFAULTS(guard)
#endif

/* Opens a guard; "file:DIR" must be there. Does not wait for a server. options may be NULL. */
PAWL_EXPORT PAWL_MUST_USE int pawl_guard_open(const char *url, const struct pawl_guard_options *options,
                                              pawl_guard **guard);
/* NULL is fine. Not while another thread is in a call. */
PAWL_EXPORT void pawl_guard_close(pawl_guard *guard);

/* PAWL_OK: admitted, and from now on all smaller tokens are refused. PAWL_STALE: a greater one was here. */
PAWL_EXPORT PAWL_MUST_USE int pawl_guard_admit(pawl_guard *guard, const char *resource, uint64_t token,
                                               struct pawl_why *why);
/* Admits, and replaces the resource's data; data may be NULL if size is 0. PAWL_FULL: no room, the old data stand.
 * file: an existing file keeps its permissions; a new one gets those of the process's umask. */
PAWL_EXPORT PAWL_MUST_USE int pawl_guard_put(pawl_guard *guard, const char *resource, uint64_t token, const void *data,
                                             size_t size, struct pawl_why *why);

struct pawl_guard_data {
        void *bytes;    /* yours: free() it. One NUL follows the last byte. */
        size_t size;    /* without that NUL */
        uint64_t token; /* the greatest admitted before this call; 0: none */
};
/* Admits, and reads. PAWL_NOT_FOUND: admitted, but there are no data yet. */
PAWL_EXPORT PAWL_MUST_USE int pawl_guard_get(pawl_guard *guard, const char *resource, uint64_t token,
                                             struct pawl_why *why, struct pawl_guard_data *data);
/* Admits the token, then forgets the greatest token, but not the data: from now on every token passes again. Only when no
 * older holder can be left. PAWL_NOT_FOUND if no token is known. */
PAWL_EXPORT PAWL_MUST_USE int pawl_guard_forget(pawl_guard *guard, const char *resource, uint64_t token,
                                                struct pawl_why *why);

/* ---- versions ---------------------------------------------------------------------------------------------------- */

/* Of a resource that is versioned the greatest token IS the version: each swap raises it by one, and it never falls.
 * Where there is none, the version is the floor of the last prune, 0 without one: so what was pruned does not begin anew
 * either. Do not call admit, put or get for it, and forget only when nobody is left who has looked. pawl/version.h has
 * the loop around these two: look, change, swap, and again. */

/* Reads, and admits nothing; who only reads may use it for any resource. data->token is the version. PAWL_NOT_FOUND:
 * there are no data yet; data->token is written all the same, so that swap can make the first. */
PAWL_EXPORT PAWL_MUST_USE int pawl_guard_look(pawl_guard *guard, const char *resource, struct pawl_why *why,
                                              struct pawl_guard_data *data);
/* Replaces the data and makes the version expected + 1, if and only if the version is expected: one step, as durable as
 * put. PAWL_STALE: it is another, and nothing was changed. *version is then as it was; it may be NULL. A write that
 * failed may have used up a version. PAWL_IN_DOUBT: the data may be replaced or not, and may be yet, but not once the
 * version is greater than expected; and never twice. */
PAWL_EXPORT PAWL_MUST_USE int pawl_guard_swap(pawl_guard *guard, const char *resource, uint64_t expected,
                                              const void *data, size_t size, struct pawl_why *why, uint64_t *version);

/* Of pawl_guard_swap_as: this swap was sent before, and returned PAWL_IN_DOUBT. */
#define PAWL_SWAP_AGAIN 1u
struct pawl_swap_options {
        uint32_t size;  /* sizeof(struct pawl_swap_options): PAWL_SWAP sets it */
        uint32_t flags; /* PAWL_SWAP_AGAIN */
        uint64_t id;    /* of this swap and of no other: random, not 0 */
        struct pawl_why *why;
};

#ifndef __cplusplus
#define PAWL_SWAP(...) (&(const struct pawl_swap_options){.size = sizeof(struct pawl_swap_options), __VA_ARGS__})
#else
PAWL_DEFAULTS(swap)
#endif

/* The same under an id that the guard keeps beside the version, so that a swap in doubt can be sent again, with the same
 * arguments and PAWL_SWAP_AGAIN. PAWL_OK: it was made, once, now or before. PAWL_STALE, sent again: it was not made, and
 * never will be. Anything else, sent again: it is still not known; and never will be if the version is greater than
 * expected + 1, for then others have changed the resource since. */
PAWL_EXPORT PAWL_MUST_USE int pawl_guard_swap_as(pawl_guard *guard, const char *resource, uint64_t expected,
                                                 const void *data, size_t size, const struct pawl_swap_options *options,
                                                 uint64_t *version);

/* ---- all resources ----------------------------------------------------------------------------------------------- */

struct pawl_guard_entry {
        const char *resource;
        uint64_t token; /* the greatest admitted; 0 if it cannot be read: see code */
        int32_t code;   /* PAWL_OK, or why it cannot be read: PAWL_CORRUPT, PAWL_OTHER_VERSION, ... */
        uint32_t flags; /* none yet: 0 */
};
/* The entry is borrowed for the call; a return other than 0 ends the listing. May not call this guard. */
typedef int pawl_guard_entry_fn(const struct pawl_guard_entry *entry, void *arg);
/* Every resource whose name begins with prefix (NULL: all), in no order. Admits nothing. */
PAWL_EXPORT PAWL_MUST_USE int pawl_guard_list(pawl_guard *guard, const char *prefix, pawl_guard_entry_fn *fn, void *arg,
                                              struct pawl_why *why);

/* Forgets the greatest token of every resource where it is not above floor, and from now on refuses tokens below floor for
 * all resources of which none is known: so nothing that was refused before ever passes. Only when no holder of any lock that
 * is guarded here has a smaller token: take that of a lock acquired long after the last one that may still be held. *pruned
 * may be NULL. */
PAWL_EXPORT PAWL_MUST_USE int pawl_guard_prune(pawl_guard *guard, uint64_t floor, struct pawl_why *why,
                                               uint64_t *pruned);
/* Examines the guard's store: is it fit, and may we? As pawl_examine does for locks. */
PAWL_EXPORT PAWL_MUST_USE int pawl_guard_examine(pawl_guard *guard, pawl_finding_fn *fn, void *arg,
                                                 struct pawl_why *why);

/* ---- over HTTP ------------------------------------------------------------------------------------------------- */

/* The header by which a request carries its token: "Pawl-Fence: NAME TOKEN". NAME is percent-encoded, TOKEN decimal. The
 * answer to a request whose token was admitted has "Pawl-Admitted: NAME TOKEN": docs/guards/http.md. */
#define PAWL_FENCE_HEADER "Pawl-Fence"
#define PAWL_ADMITTED_HEADER "Pawl-Admitted"
/* The same for versions: a request says which it expects, "Pawl-Expect: NAME VERSION", in place of a token; an answer
 * which it is. Here VERSION may be 0. */
#define PAWL_EXPECT_HEADER "Pawl-Expect"
#define PAWL_NOW_HEADER "Pawl-Version"
/* A prune says its floor in this header too: a web page can send a POST, but not with this. */
#define PAWL_PRUNE_HEADER "Pawl-Prune"
/* The id of a swap, 16 hexadecimal digits; an answer repeats it if the server keeps ids beside versions. */
#define PAWL_SWAP_HEADER "Pawl-Swap-Id"
enum { PAWL_FENCE_MAX = 3 * PAWL_NAME_MAX + 1 + 19 };
/* Writes the header's value and a NUL; PAWL_FENCE_MAX + 1 bytes are enough for all. */
PAWL_EXPORT PAWL_MUST_USE int pawl_fence_write(const char *resource, uint64_t token, char *value, size_t size);
/* Reads one, without the blanks around it; resource holds PAWL_NAME_MAX + 1 bytes. Names may be encoded more than needed, as
 * other languages do. PAWL_INVALID for anything else, and for two headers that were joined by a comma. */
PAWL_EXPORT PAWL_MUST_USE int pawl_fence_read(const char *value, char *resource, uint64_t *token, struct pawl_why *why);
/* The two for PAWL_EXPECT_HEADER and PAWL_NOW_HEADER. */
PAWL_EXPORT PAWL_MUST_USE int pawl_expect_write(const char *resource, uint64_t version, char *value, size_t size);
PAWL_EXPORT PAWL_MUST_USE int pawl_expect_read(const char *value, char *resource, uint64_t *version,
                                               struct pawl_why *why);
/* What a server asks before it serves a request: admits the token of the header's value. resource is what the request is
 * about; a header for another is PAWL_INVALID (NULL: whatever the header names). value NULL, the header is missing:
 * PAWL_NOT_FOUND, never a pass. */
PAWL_EXPORT PAWL_MUST_USE int pawl_guard_check(pawl_guard *guard, const char *resource, const char *value,
                                               struct pawl_why *why);
/* The HTTP status to answer a code with: 200, 412 stale, 428 no header, 400 a bad one, 403, 500, 501, 503, 507 no room. */
PAWL_EXPORT int pawl_fence_status(int code);

#ifdef __cplusplus
}
#endif
#endif
