/* local.h - the embedded engine inside: the layout of the shared file, and what its parts offer each other.
 *
 * A state directory holds
 *
 *   state     the mapped file, drawn below
 *   alive     who replaced the state last; byte 0 is locked by who opens (shared) or replaces the state (exclusive), byte
 *             1 + slot while that process lives
 *   bell.N    a FIFO for the process in slot N: a byte in it means "look at your news"
 *   values    the bytes kept beside locks, a file for each name; see local_value.c
 *
 *   state:  +--------+---------+-------------+----------+-------+------------------+--------------------+
 *           | header | durable |  processes  | buckets  | hints |      names       |      entries       |
 *           | 1 page | 1 page  | 8192 x 256  | 65536x16 | 96 KB | to 262144 x 960  | to 524288 x 320    |
 *           +--------+---------+-------------+----------+-------+------------------+--------------------+
 *
 * An entry is one claim: waiting, granted or held. Entries are the truth: every change of one is committed by one
 * store to its state word. Lists (a bucket's chain of names, a name's holders and queue) are a cache that is rebuilt from
 * the entries when a process died while it changed them.
 *
 * A process may be stopped at any instruction, and nobody may wait for it under the client's mutex. Only one thing is
 * locked by words in the file: a bucket. Everything else that processes share (free names and entries, the token counter,
 * the news of a process) changes by single atomic steps. docs/decisions/0186-nobody-waits-for-a-stopped-process.md
 *
 * References to names and entries count from 1; 0 is none. Whatever is read from the file is checked before use. */
#ifndef PAWL_LOCAL_H
#define PAWL_LOCAL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "../../base/list.h"
#include "../../base/why.h"
#include "../engine.h"

enum {
        LAYOUT_VERSION = 3,
        PAGE = 4096,
        PROCESSES_MAX = 8192,
        VALUE_LOCKS = 2 * PROCESSES_MAX,  /* where in alive the locks of values begin: beyond every lifeline */
        PREPARE_LOCK = VALUE_LOCKS + 256, /* and the lock of who prepares a new state */
        BUCKETS = 65536,
        NAMES_MAX = 262144,
        ENTRIES_MAX = 524288,
        NAME_CHUNK = 1024, /* how many are given disk space at once */
        ENTRY_CHUNK = 2048,
        PASTS = 4, /* past owners kept for a name */
        PAST_OWNER = 64,
        BREAKAGES = 16,     /* of all names: the last locks that were broken */
        CACHE_ROOM = 64,    /* entries an engine keeps ready */
        TOKEN_BLOCK = 65536 /* tokens reserved on disk at once */
};

#define CONFIRM_LEASE (500 * MS) /* how long a waiter has to take up what it was handed */
#define HEAD_CHECK (20 * MS)     /* how often the first in a queue looks whether the holder lives */
#define WAIT_CHECK (1 * SECOND)  /* how often those far back do, should every wake-up be lost */
#define NEAR_HEAD 4              /* so close to the first, an asynchronous claim looks as often as that */
#define THERE_CHECK (1 * SECOND) /* how often an acquire asks whether the state file is still there */
#define STALL_FIRST                                                                                                    \
        (100 * 1000) /* how soon a step that found its bucket taken is tried again, in ns; doubled each time */
#define STALL_MOST (10 * MS)
#define STUCK_CHECK (50 * MS) /* how often a thread that sleeps for a stuck bucket sees whether it was cancelled */
#define GIVE_UP (250 * MS)    /* how long a step is tried that cannot wait for ever */
#define TOKEN_LIMIT (UINT64_C(1) << 62)

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

/* The lock word of a bucket: the identity of the process that is inside, or 0. Never held for longer than a few hundred
 * ns, but by a process that was stopped or died inside; see local_word.c. */
struct word {
        _Atomic uint32_t owner;
        _Atomic uint32_t waiting; /* how many spin (low half) and sleep (high half) for it, about */
};

/* Who broke a lock, and why: beside the past of its name, where there is no room. */
struct breakage {
        _Atomic uint64_t token; /* of the holder that was cut off; 0: none, or it is being written */
        uint64_t hash;          /* of the name */
        char by[PAST_OWNER];
        char reason[PAWL_BREAK_REASON_MAX + 1];
};

struct header {
        char magic[8];
        uint32_t version;
        uint32_t processes; /* capacities of this file */
        uint32_t names;
        uint32_t entries;
        uint64_t file_id[2]; /* random: also the seed of the hash */
        uint64_t inode;      /* of this file: a copy is another file, whose tokens must not repeat ours */
        uint64_t alive_inode;
        uint64_t time_namespace;
        char boot_id[40];

        _Alignas(64) _Atomic uint64_t fence; /* the last token */

        _Alignas(64) _Atomic uint64_t limit; /* tokens up to here are reserved on disk */
        _Atomic uint32_t names_ready;        /* so many have disk space and were in use at some time */
        _Atomic uint32_t entries_ready;
        _Atomic uint32_t names_room; /* so many have disk space */
        _Atomic uint32_t entries_room;

        _Alignas(64) _Atomic uint64_t seal; /* says which fence the last who left saw; see token_mend */
        _Atomic uint32_t name_sweep;        /* where the next search for names to recycle begins */
        _Atomic uint32_t probe;             /* where the next who opens looks for slots of dead processes */
        /* Which boot this is, and until when it matters; at these places in every layout from 3 on. */
        _Atomic int64_t leases_until; /* no lease that outlives its process, and no lock-delay, lasts longer */
        _Atomic int64_t seen;         /* CLOCK_BOOTTIME when it was opened last; less than that is another boot's */
        _Atomic int64_t seen_real;    /* CLOCK_REALTIME then */
        int64_t clock_offset;         /* what the time namespace adds to the clocks; CLOCK_UNKNOWN */
        uint64_t kernels_own;         /* 1: boot_id is the kernel's own, 0: one that a container was given */
        /* Zeros where a library wrote that did not know of them. */
        _Atomic uint64_t breaks; /* how many there ever were; the next one takes the place of the oldest */
        struct breakage breakage[BREAKAGES];
};
#define CLOCK_UNKNOWN INT64_MIN

struct durable {
        _Atomic uint64_t limit; /* on disk before header.limit says so */
};

/* A process slot. Its generation grows each time it is taken: (generation, slot) is an identity that never returns
 * while anything still carries it. */
struct process {
        _Atomic uint32_t generation;
        _Atomic uint32_t busy; /* enum slot_state */
        _Atomic uint32_t rung; /* RUNG: a byte is in the bell; else who is about to ring, or failed to; 0: nobody */
        uint32_t pid;
        uint32_t unused[3];
        _Atomic uint32_t news_first; /* entries with news for it: pushed by all, taken as a whole by its own process */
        char owner[128];
        char padding[96];
};

enum slot_state { SLOT_CLEAN = 0, SLOT_BUSY, SLOT_REAPED /* what the generation before left is being put away */ };

struct bucket {
        struct word word; /* covers the bucket's names and their entries */
        uint32_t first;
        _Atomic uint32_t dirty; /* somebody left an entry behind: rebuild */
};

/* How a lock was held before. */
struct past {
        uint64_t token; /* 0: none */
        int64_t since;
        int64_t until;
        uint8_t how;
        uint8_t mode;
        uint8_t noted;
        uint8_t unused;
        uint32_t writer; /* identity of who wrote owner last: the same one need not copy it again */
        char owner[PAST_OWNER];
        char note[64];
};

struct name {
        uint64_t hash;
        _Atomic uint32_t used; /* 0: free, 1: in its bucket's chain, 2: damaged; else the identity of who fills it */
        uint32_t next;         /* there */
        uint32_t length;
        uint32_t pasts; /* how many there ever were; the last PASTS are kept */
        uint32_t holders;
        uint32_t waiters;
        uint32_t holder_first;
        uint32_t queue_first;
        uint32_t queue_last;
        uint32_t limit; /* the least limit of all holders */
        int64_t delay_until;
        uint64_t ticket; /* the last one */
        char text[256];
        struct past past[PASTS];
};

/*   FREE --acquire--> HELD <--confirm-- GRANTED <--hand-off-- WAITING <--acquire-- FREE
 *                      | |                 |  confirm lease over  ^
 *                      | |                 +------> PAUSED -------+ its owner looks again
 *        release: FREE-+ +-> ENDED (expired, broken: its owner reads why, then FREE)
 *   any, GIVEN_UP --the bucket is rebuilt--> FREE, or LEFT while it is in the news of its owner, who frees it */
enum entry_state { FREE = 0, WAITING, GRANTED, HELD, PAUSED, ENDED, LEFT };

enum entry_flag {
        BLOCKING = 1u << 0, /* a thread sleeps on word */
        ASKED = 1u << 1,    /* somebody would like to have it */
        DEEP = 1u << 2,     /* it sleeps for long: tell it when it becomes the first of the queue */
        LISTED = 1u << 3,   /* it is in its process's news */
        FIXED = 1u << 4,    /* detached: the lease alone ends it */
        NOTED = 1u << 5,    /* it has a note */
        AWAY = 1u << 6,     /* FREE or LEFT, but still in the news: into the cache when it comes out of there */
        GIVEN_UP = 1u << 7  /* by its owner, the bucket being stuck: who rebuilds that ends it, whatever its state */
};

struct entry {
        _Atomic uint32_t state;
        _Atomic uint32_t owner; /* identity; DETACHED; 0: in the pool */
        uint32_t name;
        uint32_t limit; /* how many holders it suffers, itself among them; exclusive: 1 */
        uint64_t token;
        int64_t lease_until;
        int64_t ttl;
        int64_t since;
        uint64_t uid[2];

        uint64_t ticket;
        int64_t delay;
        uint32_t prev; /* in the holders or the queue */
        uint32_t next; /* there */
        _Atomic uint32_t word;
        _Atomic uint32_t flags;
        uint32_t mode;
        uint32_t max_holders;
        uint32_t news_next;
        uint32_t how; /* of ENDED: enum pawl_how */
        uint64_t age;
        uint64_t unused;

        char note[64];
        char maker[PAST_OWNER]; /* of a detached one, whose process may be gone: for the history */
        char taker[PAST_OWNER]; /* who has it now */
};

_Static_assert(sizeof(struct header) <= PAGE, "the header is one page");
_Static_assert(sizeof(struct process) == 256, "layout");
_Static_assert(sizeof(struct bucket) == 16, "layout");
_Static_assert(sizeof(struct breakage) == 208, "layout");
_Static_assert(sizeof(struct past) == 160, "layout");
_Static_assert(sizeof(struct name) == 960, "layout");
_Static_assert(sizeof(struct entry) == 320, "layout");

/* Identities: generation << 14 | slot + 1. */
enum { SLOT_BITS = 14, SLOT_MASK = (1 << SLOT_BITS) - 1, GENERATION_MASK = (1 << (32 - SLOT_BITS)) - 1 };
#define DETACHED UINT32_C(0x3fff) /* no slot has this number */
#define RUNG UINT32_C(0x7ffe)     /* nor this one */

static inline uint32_t identity(uint32_t slot, uint32_t generation)
{
        return (generation & GENERATION_MASK) << SLOT_BITS | (slot + 1);
}

/* What a claim is to us. */
enum view { VIEW_NONE = 0, VIEW_LIMBO, VIEW_WAITING, VIEW_HELD };

/* What is left to do for a claim whose bucket was taken by another process: tried again by the tick. */
enum step { STEP_NONE = 0, STEP_LOOK, STEP_RENEW, STEP_CANCEL, STEP_RELEASE, STEP_ADOPT };

struct part {
        uint32_t entry;
        uint32_t name;
        uint32_t bucket;
        uint32_t view;
        uint32_t seen;  /* the entry's word when we last looked */
        uint32_t step;  /* enum step */
        uint32_t stuck; /* identity of who was inside the bucket when we last tried; 0: nobody */
        uint32_t unused;
        int64_t give_up_at; /* when the step is given up */
        uint64_t uid[2];    /* of the entry: an adopted lease has that of its maker */
        int64_t recheck_at; /* when a sleeper should look again */
        struct list link;   /* fresh, deep, heads, limbo, stalled, told. Never linked: zero */
        struct claim *claim;
        uint64_t token; /* told: what to tell */
        int64_t sent_at;
};

struct local {
        struct engine engine;
        struct list opened; /* in the list that fork() goes through */

        /* constant while open */
        int directory_fd;
        int state_fd;
        int alive_fd; /* our lifeline: locks byte 1 + slot */
        char *map;
        size_t map_size;
        struct header *header;
        struct durable *durable;
        struct process *processes;
        struct bucket *buckets;
        _Atomic uint64_t *name_hints; /* a bit for each: taken, as far as is known */
        _Atomic uint64_t *entry_hints;
        struct name *names;
        struct entry *entries;
        uint32_t process_capacity;
        uint32_t name_capacity;
        uint32_t entry_capacity;
        uint64_t seed[2];
        uint32_t slot;
        uint32_t id;
        struct process *me;
        bool shared_directory; /* group-writable: files are too */
        bool create;           /* what is missing is made */
        bool on_tmpfs;
        bool mend;        /* the file may be of another boot: its counter is not believed */
        const char *gone; /* what became of the state file, or of our descriptors; NULL: nothing, as far as we know */
        int gone_code;
        int64_t there_until; /* when to ask again whether it is still there; 0: not asked yet */
        char *path;
        char *whole_path; /* from the root on, to state */
        uint64_t root[2]; /* device and inode of the root by which that was found */

        struct claim **claims;  /* by entry: which claim of ours it is */
        uint32_t known;         /* how many claims we know */
        char brief[PAST_OWNER]; /* who we are, for the history */
        uint32_t cache[CACHE_ROOM];
        uint32_t cached;
        uint32_t name_hint; /* where we found the last free one */
        uint32_t entry_hint;

        struct list fresh;   /* waiting, for less than HEAD_CHECK */
        struct list deep;    /* waiting for longer */
        struct list heads;   /* waiting, and the first in their queue */
        struct list limbo;   /* not even queued: the bucket was stuck */
        struct list stalled; /* a step of theirs waits for a bucket */
        int64_t stall_pause;
        struct {
                const struct word *word;
                uint32_t owner; /* was inside when we last tried */
                int64_t until;  /* not tried again before that */
        } stuck;
        struct list told;   /* granted under a lock word: told when it is given back */
        uint32_t wakes[16]; /* entries to wake when it is given back */
        uint32_t wake_count;
        bool flushing;

        struct list errands;  /* stores and fetches that wait for a stripe */
        uint32_t stored;      /* how many times: each so many of them sweep */
        uint32_t temporaries; /* how many were named */

        bool bell_tried;
        struct watch bell;
        struct timer tick;
        int64_t full_check_at;

        void (*hook)(struct local *, int point); /* tests: called at points inside the critical sections */
        struct pawl_why why;                     /* of what failed last, for refused */
};

static inline struct local *local_of(struct engine *engine)
{
        return (struct local *)(void *)engine;
}

static inline struct part *part_of(const struct claim *claim)
{
        return claim->part;
}

static inline int64_t local_now(const struct local *local)
{
        return loop_now(local->engine.host->loop);
}

static inline void hook(struct local *local, int point)
{
        if (unlikely(local->hook != NULL))
                local->hook(local, point);
}

/* NULL for a reference that points nowhere. */
static inline struct name *name_at(const struct local *local, uint32_t reference)
{
        uint32_t ready = atomic_load_explicit(&local->header->names_ready, memory_order_relaxed);

        if (unlikely(reference - 1 >= ready || reference > local->name_capacity))
                return NULL;
        return &local->names[reference - 1];
}

static inline struct entry *entry_at(const struct local *local, uint32_t reference)
{
        uint32_t ready = atomic_load_explicit(&local->header->entries_ready, memory_order_relaxed);

        if (unlikely(reference - 1 >= ready || reference > local->entry_capacity))
                return NULL;
        return &local->entries[reference - 1];
}

static inline uint32_t name_reference(const struct local *local, const struct name *name)
{
        return (uint32_t)(name - local->names) + 1;
}

static inline uint32_t entry_reference(const struct local *local, const struct entry *entry)
{
        return (uint32_t)(entry - local->entries) + 1;
}

static inline uint32_t entry_state(const struct entry *entry)
{
        return atomic_load_explicit(&entry->state, memory_order_acquire);
}

/* The committing store of every change. */
static inline void entry_commit(struct entry *entry, enum entry_state state)
{
        atomic_store_explicit(&entry->state, state, memory_order_release);
}

static inline uint32_t entry_owner(const struct entry *entry)
{
        return atomic_load_explicit(&entry->owner, memory_order_acquire);
}

static inline void entry_own(struct entry *entry, uint32_t owner)
{
        atomic_store_explicit(&entry->owner, owner, memory_order_release);
}

/* pawl_check looks at it without any lock. */
static inline void entry_set_uid(struct entry *entry, uint64_t first, uint64_t second)
{
        __atomic_store_n(&entry->uid[0], first, __ATOMIC_RELAXED);
        __atomic_store_n(&entry->uid[1], second, __ATOMIC_RELAXED);
}

static inline bool entry_has_uid(const struct entry *entry, const uint64_t uid[2])
{
        return __atomic_load_n(&entry->uid[0], __ATOMIC_RELAXED) == uid[0] &&
               __atomic_load_n(&entry->uid[1], __ATOMIC_RELAXED) == uid[1];
}

static inline void raise_to(_Atomic int64_t *word, int64_t value)
{
        int64_t known = atomic_load_explicit(word, memory_order_relaxed);

        while (known < value && !atomic_compare_exchange_weak(word, &known, value))
                continue;
}

/* What the file must be kept for although no process lives: a lease that outlives its own, a lock-delay. */
static inline void entry_outlasts(const struct local *local, const struct entry *entry, bool detached)
{
        if (detached || entry->delay > 0)
                raise_to(&local->header->leases_until, entry->lease_until + entry->delay);
}

/* It outlives its process. After the commit: should we die before, it is just a dead holder's. */
static inline void entry_detach(const struct local *local, struct entry *entry)
{
        memcpy(entry->maker, local->brief, sizeof(entry->maker));
        memcpy(entry->taker, local->brief, sizeof(entry->taker));
        entry_own(entry, DETACHED);
}

static inline uint32_t entry_flags(const struct entry *entry)
{
        return atomic_load_explicit(&entry->flags, memory_order_relaxed);
}

/* ---- local_file.c: the directory and the files in it ------------------------------------------------------------- */

/* Opens, creating what is missing, checks and maps. On success we are in a slot of our own (local_process.c). */
int file_open(struct local *local, const char *path, struct pawl_why *why);
void file_close(struct local *local);
/* Gives disk space to the next chunk. PAWL_OK, PAWL_FULL or what the disk says. */
int file_grow_names(struct local *local);
int file_grow_entries(struct local *local);
/* False, and local->gone says why, if the state file was removed or moved, or our descriptors were closed, under us. */
bool file_is_there(struct local *local);
/* Whether a file that is open may be trusted; name is for the sentence. */
int file_check(const struct local *local, int fd, const char *name, struct pawl_why *why);
/* Gives the group its rights to something new, if the directory is a group's. */
void file_share(const struct local *local, int fd, mode_t mode);
/* A directory in parent: opened and checked, PAWL_NOT_FOUND if there is none; or made, if another does not do so first. *fd
 * is to be closed if it is not negative, whatever is returned. */
int file_open_below(struct local *local, int parent, const char *name, const char *shown, int *fd,
                    struct pawl_why *why);
int file_make_below(struct local *local, int parent, const char *name, const char *shown, int *fd,
                    struct pawl_why *why);
/* The directory of values, likewise. */
int file_open_values(struct local *local, bool make, int *fd, struct pawl_why *why);
/* renameat2(2), of which musl knows nothing. */
#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1 << 0)
#define RENAME_EXCHANGE (1 << 1)
#endif
int file_rename(int from, const char *name, int to, const char *fresh_name, unsigned flags);
/* For tests: capacities of files created from now on; 0: the greatest. */
void local_set_capacity(uint32_t processes, uint32_t names, uint32_t entries);
/* "/var/lib/pawl" or below the home directory. PAWL_OK or why there is none. */
int file_default_path(char *path, size_t size, struct pawl_why *why);

/* ---- local_process.c: slots, identities, who lives --------------------------------------------------------------- */

/* Takes a slot, reaping what a dead process left in it. */
int process_join(struct local *local, struct pawl_why *why);
void process_leave(struct local *local);
/* Whether our slot is still ours: another takes it whose kernel says that we are dead, as it does when our descriptors were
 * closed. */
bool process_is_ours(const struct local *local);
/* Whether anybody's lifeline is locked. */
bool process_any_alive(int alive_fd, uint32_t capacity);
bool process_alive(struct local *local, uint32_t id);
/* Ends everything dead processes left behind. Returns whether any was found. */
bool process_reap_dead(struct local *local);
/* Who: into text of the size given; never empty. */
void process_owner(struct local *local, uint32_t id, char *text, size_t size);
/* Ends and frees every entry of our own. False if some are in buckets that are stuck. */
bool process_drop_own(struct local *local);
/* Puts the engine on, or off, the list of those whose lifeline a forked child closes. */
int process_watch_fork(struct local *local, struct pawl_why *why);
void process_unwatch_fork(struct local *local);

/* ---- local_word.c: lock words ------------------------------------------------------------------------------------ */

enum taken { NOT_TAKEN = 0, TAKEN, TAKEN_OVER }; /* over: from a dead process, in the middle of something */

/* Spins for a few microseconds at most. NOT_TAKEN: another process is inside; local->stuck says which. */
enum taken word_wait(struct local *local, struct word *word);
/* Sleeps, without the client's mutex, until the process that was inside may be out, or until the time given. */
void word_sleep(struct local *local, struct word *word, uint32_t owner, int64_t until);
/* Says in local->why, or another, who is inside. PAWL_STUCK. */
int word_blame(struct local *local, uint32_t owner, struct pawl_why *why);

static inline enum taken word_take(struct local *local, struct word *word)
{
        uint32_t nobody = 0;

        /* Nobody overtakes those who wait: a process that takes the word again and again would never let them in. */
        if (likely(atomic_load_explicit(&word->waiting, memory_order_relaxed) == 0) &&
            likely(atomic_compare_exchange_strong_explicit(&word->owner, &nobody, local->id, memory_order_acquire,
                                                           memory_order_relaxed)))
                return TAKEN;
        return word_wait(local, word);
}

void word_wake(struct word *word);

static inline void word_give(struct word *word)
{
        /* A plain store: a sleeper that counts itself in just now may be missed, and wakes by itself in 2 ms. */
        atomic_store_explicit(&word->owner, 0, memory_order_release);
        if (unlikely(atomic_load_explicit(&word->waiting, memory_order_relaxed) != 0))
                word_wake(word);
}

/* ---- local_bucket.c: a bucket's names; rebuilding it ------------------------------------------------------------- */

static inline uint64_t hash_mix(uint64_t a, uint64_t b)
{
        __uint128_t product = (__uint128_t)a * b;

        return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint64_t hash_load(const char *text, size_t size)
{
        uint64_t chunk = 0;

        memcpy(&chunk, text, size);
        return chunk;
}

/* Seeded by the file's random id, so that nobody who chooses names can choose their bucket. The first and last bytes of
 * short names overlap: no loop, no byte left out. */
static inline uint64_t bucket_hash(const struct local *local, const char *text, size_t length)
{
        uint64_t seed = local->seed[0];
        uint64_t a, b;

        for (; length > 16; text += 8, length -= 8)
                seed = hash_mix(seed ^ hash_load(text, 8), UINT64_C(0x9e3779b97f4a7c15));
        if (length >= 8) {
                a = hash_load(text, 8);
                b = hash_load(text + length - 8, 8);
        } else if (length >= 4) {
                a = hash_load(text, 4);
                b = hash_load(text + length - 4, 4);
        } else {
                a = hash_load(text, 1) << 8 | hash_load(text + length / 2, 1);
                b = hash_load(text + length - 1, 1);
        }
        return hash_mix(a ^ seed, b ^ local->seed[1] ^ length);
}

static inline struct bucket *bucket_of(const struct local *local, uint64_t hash)
{
        return &local->buckets[hash % BUCKETS];
}

/* The slow ends of bucket_take: somebody is inside, or it needs rebuilding. False: stuck, for now. */
bool bucket_take_slow(struct local *local, struct bucket *bucket, enum taken taken);

static inline bool bucket_take(struct local *local, struct bucket *bucket)
{
        enum taken taken = word_take(local, &bucket->word);

        if (likely(taken == TAKEN && atomic_load_explicit(&bucket->dirty, memory_order_relaxed) == 0))
                return true;
        return bucket_take_slow(local, bucket, taken);
}

/* Gives the bucket back, then wakes and tells those who got something meanwhile. */
void bucket_give(struct local *local, struct bucket *bucket);
/* The same when nobody can have got anything. */
static inline void bucket_give_quietly(struct bucket *bucket)
{
        word_give(&bucket->word);
}

/* memcmp for the usual lengths, without the call. */
static inline bool text_is(const char *a, const char *b, size_t length)
{
        if (likely(length >= 8 && length <= 16))
                return hash_load(a, 8) == hash_load(b, 8) &&
                       hash_load(a + length - 8, 8) == hash_load(b + length - 8, 8);
        return memcmp(a, b, length) == 0;
}

static inline bool name_is(const struct name *name, uint64_t hash, const char *text, size_t length)
{
        return likely(name->hash == hash && name->length == length && text_is(name->text, text, length));
}

/* The name, or NULL: *damaged if the chain is. The bucket is ours, here and below. */
struct name *bucket_find(struct local *local, struct bucket *bucket, uint64_t hash, const char *text, size_t length,
                         bool *damaged);
int bucket_name_slow(struct local *local, struct bucket *bucket, uint64_t hash, const char *text, size_t length,
                     struct name **name);
/* The name, made if need be. PAWL_OK, PAWL_FULL (then name_recycle, without the bucket, may help), PAWL_CORRUPT... */
static inline int bucket_name(struct local *local, struct bucket *bucket, uint64_t hash, const char *text,
                              size_t length, struct name **name)
{
        *name = name_at(local, bucket->first);
        if (likely(*name != NULL && name_is(*name, hash, text, length)))
                return PAWL_OK;
        return bucket_name_slow(local, bucket, hash, text, length, name);
}
/* Frees names that nobody uses. True if any was freed. No bucket is ours. */
bool name_recycle(struct local *local);
void bucket_rebuild(struct local *local, struct bucket *bucket);

/* ---- local_pool.c: entries --------------------------------------------------------------------------------------- */

/* An entry of ours, from the cache or the pool; NULL and local->why if there is none. No bucket is ours. */
bool entry_ready(struct local *local);
static inline struct entry *entry_take(struct local *local)
{
        return &local->entries[local->cache[--local->cached] - 1];
}
/* Gives one of ours (owner is us, FREE) back to the cache. */
void entry_give_slow(struct local *local);
static inline void entry_give(struct local *local, struct entry *entry)
{
        if (unlikely(local->cached == CACHE_ROOM))
                entry_give_slow(local);
        local->cache[local->cached++] = entry_reference(local, entry);
}
/* The same for one that may be listed: in our own news it waits for who reads them, in those of another, who made the lease
 * that we took up, it stays as it is until we close. */
static inline void entry_retire(struct local *local, struct entry *entry)
{
        if (likely((entry_flags(entry) & LISTED) == 0))
                entry_give(local, entry);
        else if (local->claims[entry_reference(local, entry) - 1] != NULL)
                atomic_fetch_or(&entry->flags, AWAY);
}
void entry_flush(struct local *local, uint32_t keep);
/* Back to those that are free: its owner is dead, or it is ours. */
void entry_free(struct local *local, struct entry *entry);
/* A name that nobody uses, to be filled and then marked as used; NULL and the code if there is none. And back. */
struct name *name_take(struct local *local, int *code);
void name_free(struct local *local, struct name *name);

/* ---- local_token.c ----------------------------------------------------------------------------------------------- */

/* The next token, or 0 and local->why if none could be reserved. */
uint64_t token_slow(struct local *local, uint64_t token);

static inline uint64_t token_next(struct local *local)
{
        struct header *header = local->header;
        uint64_t token = atomic_fetch_add_explicit(&header->fence, 1, memory_order_relaxed) + 1;
        uint64_t limit = atomic_load_explicit(&header->limit, memory_order_acquire);

        if (likely(token + TOKEN_BLOCK / 2 < limit))
                return token;
        return token_slow(local, token);
}

/* What header.seal should be. */
uint64_t token_seal(const struct header *header);
/* Nobody uses the file. If its last user died, or the counter was damaged since, goes on above all that was reserved. */
int token_mend(struct local *local, struct pawl_why *why);
/* The least the first token of a file may be. */
uint64_t token_floor(void);

/* ---- local_queue.c: holders, the queue, hand-off. The name's bucket is ours. ------------------------------------- */

static inline bool queue_admits(const struct name *name, uint32_t limit)
{
        return name->holders == 0 || (name->holders < name->limit && name->holders < limit);
}

void queue_hold_slow(struct local *local, struct name *name, struct entry *entry);
void queue_unhold_slow(struct local *local, struct name *name, struct entry *entry);

/* Into, and out of, the list of holders. Alone there is the usual case. */
static inline void queue_hold(struct local *local, struct name *name, struct entry *entry)
{
        if (unlikely(name->holder_first != 0)) {
                queue_hold_slow(local, name, entry);
                return;
        }
        entry->prev = entry->next = 0;
        name->holder_first = entry_reference(local, entry);
        name->holders = 1;
        name->limit = entry->limit;
}

static inline void queue_unhold(struct local *local, struct name *name, struct entry *entry)
{
        if (unlikely(name->holder_first != entry_reference(local, entry) || entry->next != 0)) {
                queue_unhold_slow(local, name, entry);
                return;
        }
        name->holder_first = 0;
        name->holders = 0;
        name->limit = UINT32_MAX;
}

void queue_append(struct local *local, struct name *name, struct entry *entry);
void queue_insert(struct local *local, struct name *name, struct entry *entry); /* in the order of tickets */
void queue_remove(struct local *local, struct name *name, struct entry *entry);
/* Ends a holding of our own, with history. */
static inline void queue_release(struct local *local, struct name *name, struct entry *entry, int64_t now)
{
        struct past *past = &name->past[name->pasts % PASTS];

        past->token = 0; /* whoever dies from here on leaves no half of a record behind */
        past->since = entry->since;
        past->until = now;
        past->how = PAWL_HOW_RELEASED;
        past->mode = (uint8_t)entry->mode;
        past->noted = 0;
        if (unlikely((entry_flags(entry) & NOTED) != 0)) {
                past->noted = 1;
                memcpy(past->note, entry->note, sizeof(past->note));
        }
        if (unlikely(past->writer != local->id)) {
                memcpy(past->owner, local->brief, sizeof(past->owner));
                past->writer = local->id;
        }
        past->token = entry->token;
        name->pasts++;
        hook(local, 40);
        queue_unhold(local, name, entry);
        entry_commit(entry, FREE);
        hook(local, 41);
}

/* Ends a holding against its owner, with history. */
void queue_end(struct local *local, struct name *name, struct entry *entry, enum pawl_how how, int64_t now);
/* Ends holders whose lease is over, or whose process is dead (if probe). True if any was. */
bool queue_purge(struct local *local, struct name *name, int64_t now, bool probe);
/* Hands the lock to those whose turn it is. */
void queue_hand_off(struct local *local, struct name *name, int64_t now);
/* Takes a grant up: held from now on. */
void queue_confirm(struct local *local, struct entry *entry, int64_t now);
/* There is news for the entry's owner: it is woken when the bucket is given back. */
void queue_notify(struct local *local, struct entry *entry);
/* How many came between the first in the queue and this one, also those who have left since. */
uint64_t queue_distance(struct local *local, const struct name *name, const struct entry *entry);
/* When somebody who waits should look again. */
int64_t queue_next_check(struct local *local, const struct name *name, const struct entry *entry, int64_t now);
/* After the bucket was given back: wakes and tells. */
void queue_flush(struct local *local);

/* ---- local_bell.c: news from other processes, and the timed re-check --------------------------------------------- */

void bell_open(struct local *local);
void bell_close(struct local *local);
/* Lists the entry in its process's news; does not ring. */
void news_list(struct local *local, struct entry *entry);
/* Reads our list if the bell should have rung: whoever rang may have died before the byte was written. */
void news_check(struct local *local);
/* The process is dead, or leaves; its entries are gone, and may be others' by now: so is its list. */
void news_clear(struct local *local, struct process *process);
/* Rings for it. False if nobody is there to hear. */
bool bell_ring(struct local *local, uint32_t id);
int futex_wake(_Atomic uint32_t *word, int count); /* how many woke */
void futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t ns);
/* Sees to it that the timer of the re-check is set early enough. */
void tick_by(struct local *local, int64_t at);

/* ---- local_claim.c ----------------------------------------------------------------------------------------------- */

/* Looks at what became of a claim and tells it. */
void claim_look(struct local *local, struct claim *claim);
/* The claim is no longer known. */
void claim_forget(struct local *local, struct claim *claim);
/* Its bucket is taken by another process: the step is tried again by the tick. False if it has been for long enough. */
bool claim_stall(struct local *local, struct claim *claim, enum step step, int64_t now);
/* Takes up the lease whose entry and uid are in the claim's part. */
void lease_adopt(struct local *local, struct claim *claim);

/* ---- local_value.c: the files that hold values ------------------------------------------------------------------- */

/* Where the value of a name is: values/DIRECTORY/FILE, both of its SHA-256. The directory's number is also which of
 * the 256 locks covers it: a byte of alive, locked by who changes something there. */
struct value_place {
        uint8_t stripe;
        char directory[3];
        char file[63];
};

enum { VALUE_FILE_MAX = 64 + PAWL_NAME_MAX + PAWL_VALUE_MAX };

void value_place(const char *name, struct value_place *place);
int64_t value_now_us(void);
/* Kept for a minute at most: nobody waits for the disk, and it counts in no other boot. */
static inline bool value_is_brief(int64_t stored_us, int64_t until_us)
{
        return stored_us >= 0 && until_us > stored_us && until_us - stored_us <= 60 * INT64_C(1000000);
}
/* This boot, as values have it. */
uint64_t value_boot(const struct local *local);
/* The bytes of a file, into VALUE_FILE_MAX; how many. until_us: 0 for ever. */
size_t value_write(const char *name, const struct pawl_value *value, int64_t until_us, uint64_t boot, void *bytes);
/* Reads them, and leaves them as they are. value->data points into bytes. PAWL_NOT_FOUND: it was to be kept no longer.
 * PAWL_CORRUPT, PAWL_OTHER_VERSION. */
int value_read(void *bytes, size_t size, const char *name, uint64_t boot, int64_t now_us, struct pawl_value *value);
/* A new file with a name of its own, whole and, unless it is brief, on disk; but in nobody's way. */
int value_prepare(struct local *local, const char *name, const struct pawl_value *value, int64_t until_us,
                  char temporary[32], struct pawl_why *why);
void value_discard(struct local *local, const char *temporary);
/* Puts it into its place, or nothing if temporary is "". The stripe is ours. PAWL_IN_DOUBT: done, but perhaps not on
 * disk. */
int value_put(struct local *local, const struct value_place *place, const char *temporary, bool brief,
              struct pawl_why *why);
/* What is there; *bytes is to be freed, whatever is returned. */
int value_load(struct local *local, const struct value_place *place, const char *name, void **bytes,
               struct pawl_value *value, struct pawl_why *why);
/* Removes some of what has run out; the stripe is ours. */
void value_sweep(struct local *local, uint8_t stripe);
/* Removes what dead processes were preparing. */
void value_sweep_temporaries(struct local *local);

/* An inquiry that may have to be tried again, because another process is inside a bucket or a stripe. */
struct errand;
/* One try. PAWL_BUSY: the stripe is taken (unless refused). PAWL_STUCK, and why: the bucket is. Else that is the answer. */
typedef int errand_fn(struct errand *errand, struct pawl_why *why);

struct errand {
        struct inquiry *inquiry;
        struct local *local;
        struct list listed;
        errand_fn *attempt;
        struct timer again;
        int64_t pause;
        int64_t end;

        /* of list */
        uint32_t at;   /* the name that is next */
        uint32_t held; /* the name whose bucket is taken, from 1; 0: none */
        int64_t skip_at;

        bool refused; /* of break: others hold it, and that is the answer */

        /* of store and fetch */
        struct value_place place;
        bool stores;
        bool brief;
        uint32_t entry; /* the grant: it may be gone, and the entry another's */
        uint32_t bucket;
        uint64_t uid[2];
        uint64_t token;
        char temporary[32]; /* "": none, or in its place */
};

/* Tries now, and for GIVE_UP if need be; then answers. */
void errand_begin(struct local *local, struct inquiry *inquiry, errand_fn *attempt);

/* ---- local_keep.c: store and fetch ------------------------------------------------------------------------------- */

void keep_forget(struct engine *engine, struct inquiry *inquiry);
/* Forgets all that are under way. */
void keep_close(struct local *local);

/* local_examine.c */
void local_examine(struct engine *engine, struct inquiry *inquiry);

extern const struct engine_instant local_instant;
extern const struct engine_inspect local_inspect;
extern const struct engine_leases local_leases;
extern const struct engine_values local_values;
extern const struct engine_ops local_engine;

#endif
