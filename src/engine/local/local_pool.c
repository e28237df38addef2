/* local_pool.c - the pool of entries, and the few that an engine keeps ready so that acquire touches no pool. An entry
 * with an owner is taken; one without is free; the free list is a cache of that. */
#include "local.h"

enum { BATCH = 16 };

static void rebuild_pool(struct local *local)
{
        uint32_t ready = atomic_load_explicit(&local->header->entries_ready, memory_order_relaxed);
        uint32_t first = 0;

        if (ready > local->entry_capacity)
                ready = local->entry_capacity;
        for (uint32_t reference = ready; reference > 0; reference--) {
                struct entry *entry = &local->entries[reference - 1];

                if (entry_owner(entry) != 0)
                        continue;
                entry_commit(entry, FREE);
                entry->next = first;
                first = reference;
        }
        local->header->entry_free = first;
}

static bool pool_take(struct local *local)
{
        enum taken taken = word_take(local, &local->header->entry_pool);

        if (taken == NOT_TAKEN) {
                why_set(&local->why, PAWL_BUSY,
                        "a process that is stopped blocks the pool of claims in %s; continue or kill it", local->path);
                return false;
        }
        if (taken == TAKEN_OVER)
                rebuild_pool(local);
        return true;
}

static void pool_give(struct local *local)
{
        word_give(&local->header->entry_pool);
}

static struct entry *pool_first(struct local *local)
{
        struct entry *entry = entry_at(local, local->header->entry_free);

        return entry != NULL && entry_owner(entry) == 0 ? entry : NULL;
}

/* The pool is ours. */
static struct entry *pool_pop(struct local *local)
{
        struct header *header = local->header;
        struct entry *entry = pool_first(local);
        uint32_t ready;

        if (entry == NULL && header->entry_free != 0) { /* damaged */
                rebuild_pool(local);
                entry = pool_first(local);
        }
        if (entry != NULL) {
                header->entry_free = entry->next;
                return entry;
        }
        ready = atomic_load_explicit(&header->entries_ready, memory_order_relaxed);
        if ((ready >= header->entries_room || ready >= local->entry_capacity) && file_grow_entries(local) != PAWL_OK)
                return NULL;
        entry = &local->entries[ready];
        entry_commit(entry, FREE);
        entry_own(entry, 0);
        atomic_store_explicit(&header->entries_ready, ready + 1, memory_order_release);
        return entry;
}

static void pool_push(struct local *local, struct entry *entry)
{
        entry_commit(entry, FREE);
        entry_own(entry, 0);
        hook(local, 20);
        entry->next = local->header->entry_free;
        local->header->entry_free = entry_reference(local, entry);
}

static bool fill(struct local *local)
{
        if (!pool_take(local))
                return false;
        while (local->cached < BATCH) {
                struct entry *entry = pool_pop(local);

                if (entry == NULL)
                        break;
                atomic_store_explicit(&entry->flags, 0, memory_order_relaxed);
                entry_own(entry, local->id);
                hook(local, 21);
                local->cache[local->cached++] = entry_reference(local, entry);
        }
        pool_give(local);
        return local->cached > 0;
}

bool entry_ready(struct local *local)
{
        if (local->cached > 0 || fill(local))
                return true;
        return process_reap_dead(local) && fill(local);
}

void entry_flush(struct local *local, uint32_t keep)
{
        if (local->cached <= keep || !pool_take(local))
                return;
        while (local->cached > keep)
                pool_push(local, entry_take(local));
        pool_give(local);
}

void entry_give_slow(struct local *local)
{
        entry_flush(local, CACHE_ROOM / 2);
        if (local->cached == CACHE_ROOM)
                local->cached--; /* the pool is stuck: one stays ours until we close or die, then it is reaped */
}

void entry_pool_put(struct local *local, struct entry *entry)
{
        if (!pool_take(local))
                return;
        if (entry_owner(entry) != 0)
                pool_push(local, entry);
        pool_give(local);
}
