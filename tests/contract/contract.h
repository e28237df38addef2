/* contract.h - what the contract suite stands on: a fresh place for each test, clients, other processes, patience.
 *
 * The suite knows include/pawl.h and nothing else. Which engine it runs on is told from outside:
 *
 *   PAWL_TEST_URL    where {dir} is a fresh, empty directory and {n} a number that no other test has,
 *                    e.g. local:{dir} or redis://127.0.0.1:6390?prefix=test{n}:
 *   PAWL_TEST_INIT   if set, pawl_init is called for each fresh place, where the store must be prepared
 *   PAWL_TEST_DRIVE  thread (default), or caller: then the test's own event loop turns every client
 *   PAWL_TEST_PAIRS, PAWL_TEST_TURNS  how often the tests of memory and of load take a lock
 *   PAWL_TEST_PEER   the program contract-peer, which plays the other processes
 *
 * What join, start_peer and fresh_place made is taken down by the next fresh_place or at the end, so tests may just end;
 * what their callbacks write to must therefore be static. */
#ifndef CONTRACT_H
#define CONTRACT_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pawl.h"
#include "tap.h"

/* How long something that must happen may take, in ms: only a failing test waits so long. */
enum { PATIENCE = 20000 };

/* Checks of what a call of the library, or a peer, returned: shows both codes by name. */
#define CHECK_CODE(actual, expected) check_code((TAP_AT(#actual), (actual)), (expected), __FILE__, __LINE__, #actual)
#define REQUIRE_CODE(actual, expected)                                                                                 \
        (check_code((TAP_AT(#actual), (actual)), (expected), __FILE__, __LINE__, #actual) ? (void)0 : tap_end())
#define MUST(call) (check_code((TAP_AT(#call), (call)), PAWL_OK, __FILE__, __LINE__, #call) ? (void)0 : tap_end())
#define NEEDS(client, capability)                                                                                      \
        do {                                                                                                           \
                if ((pawl_capabilities(client) & (uint32_t)(capability)) != (uint32_t)(capability))                    \
                        SKIP("the engine does not claim " #capability);                                                \
        } while (0)
/* True as soon as the condition is, false (with a note) if it has not become true in PATIENCE. The condition often asks
 * a server: the longer it takes, the less often it is checked. */
#define SOON(condition)                                                                                                \
        __extension__({                                                                                                \
                int64_t soon_began_ = now_ms();                                                                        \
                bool soon_done_;                                                                                       \
                while (!(soon_done_ = (condition)) && now_ms() - soon_began_ < PATIENCE)                               \
                        nap(pause_after(now_ms() - soon_began_));                                                      \
                if (!soon_done_)                                                                                       \
                        note_wait(__FILE__, __LINE__, #condition);                                                     \
                soon_done_;                                                                                            \
        })

/* A URL where nothing is yet; and nothing is left of the test before. Borrowed until the next one. */
const char *fresh_place(void);
/* A client there, on the drive under test. Bails out if there is none. */
pawl_client *join(const char *place);
pawl_client *join_with(const char *place, struct pawl_open_options options);
/* Closes it; what pawl_close said. */
int leave(pawl_client *client);
bool caller_drives(void);

int64_t now_ms(void);
void nap(int64_t ms);
/* How long to pause before the next check of something that has been waited for this long: a tenth of it, 2 to 40 ms. */
int64_t pause_after(int64_t waited_ms);

bool check_code(long actual, long expected, const char *file, int line, const char *text);
void note_wait(const char *file, int line, const char *condition);

/* pawl_break; where its answer was lost (PAWL_IN_DOUBT), looks whether it was done, and else tries again. */
int break_it(pawl_client *client, const char *name);
/* Takes name without waiting and gives it back: the proof that nothing stands in the way. */
bool is_free(pawl_client *client, const char *name);
/* Nobody holds it and nobody waits for it, as far as the engine can be asked. */
bool nothing_is_left(pawl_client *client, const char *name);
/* Returns when so many wait for name (an engine that cannot be asked is given time instead). */
bool queue_reaches(pawl_client *client, const char *name, unsigned count);
/* 99 % of ttl, less 2 ms: what may be believed of a lease at most. */
int64_t believable_ms(int64_t ttl_ms);

/* What callbacks saw. */
struct seen {
        atomic_int granted; /* how often */
        atomic_int status;  /* the last one's */
        atomic_int lost;
        atomic_int reason;
        atomic_int asked;
        atomic_int released;
        atomic_int release_status;
};
pawl_granted_fn see_granted; /* arg: struct seen */
pawl_lost_fn see_lost;
pawl_asked_fn see_asked;
pawl_released_fn see_released;

/* What pawl_list and pawl_show told. */
struct line {
        char name[PAWL_NAME_MAX + 1];
        char owner[PAWL_OWNER_MAX + 1];
        char note[PAWL_NOTE_MAX + 1];
        char broken_by[PAWL_OWNER_MAX + 1];
        char reason[PAWL_BREAK_REASON_MAX + 1];
        struct pawl_entry entry; /* its pointers are not to be followed */
};
enum { VIEW_MAX = 128 };
struct view {
        unsigned count, holders, waiters, past;
        struct line lines[VIEW_MAX];
};
int show(pawl_client *client, const char *name, struct view *view);
int list(pawl_client *client, const char *prefix, struct view *view);
/* The index-th line of a role, or NULL. */
const struct line *line_of(const struct view *view, unsigned role, unsigned index);

/* Another process with one client and one lock. */
struct peer;
struct peer *start_peer(const char *place);
/* Says one line and waits for the answer's number (a PAWL_ code, for most); -1 if the peer does not answer.
 *   acquire NAME wait_ms ttl_ms [flags mode max_holders delay_ms]   -> code, and peer_token
 *   release  check  renew  forget  state  reason  remaining  lost  asked   -> the number
 *   store TEXT   -> code of pawl_store
 *   lease    -> code, and peer_text         adopt WORD   -> code, and peer_token
 *   why      -> the code and, as the rest of the line, the sentence of the last acquire that failed */
long ask_peer(struct peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The two halves of ask_peer. */
void tell_peer(struct peer *peer, const char *format, ...) __attribute__((format(printf, 2, 3)));
long hear_peer(struct peer *peer);
uint64_t peer_token(const struct peer *peer);
const char *peer_text(const struct peer *peer);
void signal_peer(struct peer *peer, int signal);
/* kill -9, and waited for. */
void kill_peer(struct peer *peer);
void end_all_peers(void);
/* Runs the peer program's scenario in which everything goes wrong; its whole stdout and stderr. Exit status or -1. */
int run_quiet_scenario(const char *place, char *output, size_t size);

#endif
