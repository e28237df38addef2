/* local_process.c - process slots. A process lives as long as byte 1 + slot of the side file is locked by its open file
 * description: the kernel lets go when the last descriptor closes, whatever killed the process, and anybody may ask, also
 * from another PID namespace. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "local.h"

enum { JOIN_PROBES = 8 };

static struct flock lifeline(uint32_t slot, short type)
{
        return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = 1 + (off_t)slot, .l_len = 1};
}

bool process_any_alive(int alive_fd, uint32_t capacity)
{
        struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 1, .l_len = capacity};

        return fcntl(alive_fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

bool process_alive(struct local *local, uint32_t id)
{
        uint32_t slot = (id & SLOT_MASK) - 1;
        struct flock lock = lifeline(slot, F_WRLCK);

        if (id == local->id)
                return true;
        if (slot >= local->process_capacity || slot == local->slot)
                return false;
        if (identity(slot, atomic_load(&local->processes[slot].generation)) != id)
                return false;
        return fcntl(local->alive_fd, F_OFD_GETLK, &lock) != 0 || lock.l_type != F_UNLCK;
}

void process_owner(struct local *local, uint32_t id, char *text, size_t size)
{
        uint32_t slot = (id & SLOT_MASK) - 1;
        const struct process *process;
        uint32_t generation;

        snprintf(text, size, "unknown");
        if (slot >= local->process_capacity)
                return;
        process = &local->processes[slot];
        generation = atomic_load(&process->generation);
        if (identity(slot, generation) == id ||
            (atomic_load(&process->busy) == SLOT_REAPED && identity(slot, generation - 1) == id))
                snprintf(text, size, "%.*s", (int)sizeof(process->owner) - 1, process->owner);
}

/* ---- reaping ----------------------------------------------------------------------------------------------------- */

/* Ends what the entry stands for. The bucket is ours. */
static void end_entry(struct local *local, struct name *name, struct entry *entry, int64_t now)
{
        switch (entry_state(entry)) {
        case HELD:
                queue_end(local, name, entry, PAWL_HOW_DIED, now);
                break;
        case GRANTED:
                queue_unhold(local, name, entry);
                entry_commit(entry, FREE);
                break;
        case WAITING:
                queue_remove(local, name, entry);
                entry_commit(entry, FREE);
                break;
        default:
                entry_commit(entry, FREE);
        }
        queue_hand_off(local, name, now);
}

/* Ends and frees it, the name's bucket being ours. */
static void reap_in_bucket(struct local *local, struct bucket *bucket, struct name *name, struct entry *entry,
                           uint32_t owner)
{
        if (entry_state(entry) != FREE && (entry_flags(entry) & GIVEN_UP) != 0)
                bucket_rebuild(local, bucket); /* perhaps in lists: its owner died before it said so */
        else if (entry_owner(entry) == owner && bucket_of(local, name->hash) == bucket) /* else recycled */
                end_entry(local, name, entry, local_now(local));
        if (entry_owner(entry) == owner)
                entry_free(local, entry);
}

/* False if it is in a bucket that is stuck: the next process that takes the slot, or needs room, tries again. An entry that
 * was given up is freed by a rebuilder or by us, and by the time it is free it may belong to a third process: so both free
 * it with the bucket taken, also when it is FREE already. Nobody else frees the others, whose owner is dead, or is us. */
static bool reap_entry(struct local *local, struct entry *entry, uint32_t owner)
{
        struct name *name = name_at(local, entry->name);
        bool listed = entry_state(entry) != FREE || (entry_flags(entry) & GIVEN_UP) != 0;
        struct bucket *bucket;

        if (listed && name != NULL && atomic_load(&name->used) == 1) {
                bucket = bucket_of(local, name->hash);
                if (!bucket_take(local, bucket))
                        return false;
                reap_in_bucket(local, bucket, name, entry, owner);
                bucket_give(local, bucket);
        } else if (entry_owner(entry) == owner) { /* read last: what was read before was that owner's */
                entry_free(local, entry);
        }
        return true;
}

/* The slot's lock words that its dead process was inside of: so that no identity is left when generations wrap. */
static void free_words(struct local *local, uint32_t slot)
{
        for (uint32_t i = 0; i < BUCKETS; i++) {
                struct bucket *bucket = &local->buckets[i];
                uint32_t owner = atomic_load_explicit(&bucket->word.owner, memory_order_relaxed);

                if (unlikely(owner != 0 && (owner & SLOT_MASK) == slot + 1 && owner != local->id) &&
                    bucket_take(local, bucket))
                        bucket_give(local, bucket);
        }
}

/* The slot's lifeline is ours, its generation has been raised. False if something is left. */
static bool reap(struct local *local, uint32_t slot)
{
        uint32_t ready = atomic_load_explicit(&local->header->entries_ready, memory_order_acquire);
        bool whole = true;

        free_words(local, slot);
        for (uint32_t i = 0; i < ready && i < local->entry_capacity; i++) {
                struct entry *entry = &local->entries[i];
                uint32_t owner = entry_owner(entry);

                if (owner != 0 && owner != DETACHED && (owner & SLOT_MASK) == slot + 1 && owner != local->id)
                        whole &= reap_entry(local, entry, owner);
        }
        news_clear(local, &local->processes[slot]);
        return whole;
}

static void raise_generation(struct process *process)
{
        uint32_t generation = atomic_load(&process->generation) + 1;

        /* Not 0 in the bits of an identity: slot 0 of generation 0 would do, but a zeroed file should name nobody. */
        atomic_store(&process->generation, (generation & GENERATION_MASK) == 0 ? generation + 1 : generation);
}

static bool reap_slot(struct local *local, uint32_t slot)
{
        struct process *process = &local->processes[slot];
        struct flock lock = lifeline(slot, F_WRLCK);

        if (slot == local->slot || atomic_load(&process->busy) == SLOT_CLEAN ||
            fcntl(local->alive_fd, F_OFD_SETLK, &lock) != 0)
                return false;
        atomic_store(&process->busy, SLOT_REAPED);
        raise_generation(process);
        if (reap(local, slot))
                atomic_store(&process->busy, SLOT_CLEAN);
        lock.l_type = F_UNLCK;
        (void)fcntl(local->alive_fd, F_OFD_SETLK, &lock);
        return true;
}

/* Detached leases belong to no process: those that ran out go when room is needed. */
static bool reap_detached(struct local *local)
{
        uint32_t ready = atomic_load_explicit(&local->header->entries_ready, memory_order_acquire);
        int64_t now = local_now(local);
        bool found = false;

        for (uint32_t i = 0; i < ready && i < local->entry_capacity; i++) {
                struct entry *entry = &local->entries[i];
                struct name *name = name_at(local, entry->name);
                struct bucket *bucket;

                if (entry_owner(entry) != DETACHED || entry->lease_until > now || name == NULL)
                        continue;
                bucket = bucket_of(local, name->hash);
                if (!bucket_take(local, bucket))
                        continue;
                if (entry_owner(entry) == DETACHED && entry_state(entry) == HELD &&
                    bucket_of(local, name->hash) == bucket && queue_purge(local, name, now, false)) {
                        queue_hand_off(local, name, now);
                        found = true;
                }
                bucket_give(local, bucket);
        }
        return found;
}

bool process_reap_dead(struct local *local)
{
        bool found = false;

        for (uint32_t slot = 0; slot < local->process_capacity; slot++)
                if (reap_slot(local, slot))
                        found = true;
        return reap_detached(local) || found;
}

bool process_drop_own(struct local *local)
{
        uint32_t ready = atomic_load_explicit(&local->header->entries_ready, memory_order_acquire);
        bool whole = true;

        for (uint32_t i = 0; i < ready && i < local->entry_capacity; i++)
                if (entry_owner(&local->entries[i]) == local->id)
                        whole &= reap_entry(local, &local->entries[i], local->id);
        return whole;
}

/* ---- joining and leaving ----------------------------------------------------------------------------------------- */

static void take_slot(struct local *local, uint32_t slot, bool reaped)
{
        struct process *process = &local->processes[slot];

        local->slot = slot;
        local->me = process;
        if (reaped)
                atomic_store(&process->busy, SLOT_REAPED);
        raise_generation(process);
        local->id = identity(slot, atomic_load(&process->generation));
        if (reaped)
                (void)reap(local, slot); /* what is in a stuck bucket has an owner that is dead, and is seen to be */
        news_clear(local, process);
        atomic_store(&process->rung, 0);
        process->pid = (uint32_t)getpid();
        snprintf(process->owner, sizeof(process->owner), "%s", local->engine.host->owner);
        memset(local->brief, 0, sizeof(local->brief));
        snprintf(local->brief, sizeof(local->brief), "%s", local->engine.host->owner);
        atomic_store(&process->busy, SLOT_BUSY);
}

static bool is_clean(const struct local *local, uint32_t slot)
{
        return atomic_load(&local->processes[slot].busy) == SLOT_CLEAN;
}

/* PAWL_OK: the slot is ours. PAWL_BUSY: another's. */
static int try_slot(struct local *local, uint32_t slot, bool reaped, struct pawl_why *why)
{
        struct flock lock = lifeline(slot, F_WRLCK);

        if (fcntl(local->alive_fd, F_OFD_SETLK, &lock) == 0) {
                take_slot(local, slot, reaped);
                return PAWL_OK;
        }
        if (errno == EAGAIN || errno == EACCES)
                return PAWL_BUSY;
        return why_system(why, errno, "cannot lock %s/alive", local->path);
}

/* Slots of dead processes among the first ones: a few are tried each time, so that they do not add up. */
static int join_after_dead(struct local *local, uint32_t count, struct pawl_why *why)
{
        uint32_t from = count > 0 ? atomic_fetch_add(&local->header->probe, JOIN_PROBES) % count : 0;
        int code = PAWL_BUSY;

        for (uint32_t i = 0; i < JOIN_PROBES && i < count && code == PAWL_BUSY; i++)
                if (!is_clean(local, (from + i) % count))
                        code = try_slot(local, (from + i) % count, true, why);
        return code;
}

/* One that nobody has, marked before its lock is asked for: the kernel goes through all locks of the file for each, and a
 * thousand who come at once would ask for the same. */
static int join_clean(struct local *local, uint32_t from, struct pawl_why *why)
{
        int code = PAWL_BUSY;

        for (uint32_t slot = from; slot < local->process_capacity && code == PAWL_BUSY; slot++) {
                uint32_t clean = SLOT_CLEAN;

                if (atomic_compare_exchange_strong(&local->processes[slot].busy, &clean, SLOT_BUSY))
                        code = try_slot(local, slot, false, why);
        }
        return code;
}

int process_join(struct local *local, struct pawl_why *why)
{
        uint32_t clean = 0;
        int code;

        while (clean < local->process_capacity && !is_clean(local, clean))
                clean++;
        code = join_after_dead(local, clean, why);
        if (code == PAWL_BUSY)
                code = join_clean(local, clean, why);
        for (uint32_t slot = 0; slot < local->process_capacity && code == PAWL_BUSY; slot++)
                code = try_slot(local, slot, true, why);
        if (code != PAWL_BUSY)
                return code;
        return why_set(why, PAWL_FULL, "%u clients have %s open, which is all it has room for; close some",
                       (unsigned)local->process_capacity, local->path);
}

bool process_is_ours(const struct local *local)
{
        return identity(local->slot, atomic_load(&local->me->generation)) == local->id;
}

/* The slot is clean if nothing of ours is left: what is in a bucket where another process is stopped is reaped later. */
void process_leave(struct local *local)
{
        if (local->id == 0)
                return;
        if (process_is_ours(local)) {
                bool whole;

                entry_flush(local, 0);
                whole = process_drop_own(local);
                entry_flush(local, 0); /* detached leases that had run out */
                news_clear(local, local->me);
                if (whole)
                        atomic_store(&local->me->busy, SLOT_CLEAN);
        }
        atomic_store(&local->header->seal, token_seal(local->header));
        local->id = 0;
}

/* ---- fork: the one piece of global state (docs/decisions/0030-local-engine.md) ----------------------------------- */

static pthread_mutex_t opened_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t opened_once = PTHREAD_ONCE_INIT;
static struct list opened = {&opened, &opened};
static int opened_error;

static void before_fork(void)
{
        pthread_mutex_lock(&opened_mutex);
}

static void after_fork_in_parent(void)
{
        pthread_mutex_unlock(&opened_mutex);
}

/* A child that kept our lifeline open would make us look alive after our death. */
static void after_fork_in_child(void)
{
        for (struct list *item = opened.next; item != &opened; item = item->next) {
                struct local *local = container_of(item, struct local, opened);

                close(local->alive_fd);
                local->alive_fd = -1;
                if (local->bell_tried && local->bell.fd >= 0)
                        close(local->bell.fd);
                local->bell.fd = -1;
        }
        list_init(&opened);
        pthread_mutex_unlock(&opened_mutex);
}

static void watch_fork(void)
{
        opened_error = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int process_watch_fork(struct local *local, struct pawl_why *why)
{
        pthread_once(&opened_once, watch_fork);
        if (opened_error != 0)
                return why_system(why, opened_error, "cannot watch for fork()");
        pthread_mutex_lock(&opened_mutex);
        list_append(&opened, &local->opened);
        pthread_mutex_unlock(&opened_mutex);
        return PAWL_OK;
}

void process_unwatch_fork(struct local *local)
{
        if (local->opened.next == NULL)
                return;
        pthread_mutex_lock(&opened_mutex);
        list_remove(&local->opened);
        pthread_mutex_unlock(&opened_mutex);
}
