/* local_pool.c - names and entries that are free, and the few entries that an engine keeps ready so that acquire asks
 * nobody. What is free says so itself: the owner of an entry, the mark of a name; it is taken by one compare-and-swap of
 * that word. The hints, a bit for each, only say where to try first: a process that dies between the two leaves a wrong
 * one, which is put right when nothing else is left. So a process that stops here is in nobody's way. */
#include "local.h"

enum { BATCH = 16, WORD_BITS = 64 };
#define NOWHERE UINT32_MAX

/* ---- hints ------------------------------------------------------------------------------------------------------- */

/* One of the first count that is free, searched from a place on; NOWHERE if there is none. */
static uint32_t hint_find(const _Atomic uint64_t *hints, uint32_t from, uint32_t count)
{
        uint32_t words = (count + WORD_BITS - 1) / WORD_BITS;

        for (uint32_t i = 0; i < words; i++) {
                uint32_t word = (from / WORD_BITS + i) % words;
                uint64_t open = ~atomic_load_explicit(&hints[word], memory_order_relaxed);

                if (word == words - 1 && count % WORD_BITS != 0)
                        open &= (UINT64_C(1) << count % WORD_BITS) - 1;
                if (open != 0)
                        return word * WORD_BITS + (uint32_t)__builtin_ctzll(open);
        }
        return NOWHERE;
}

static void hint_taken(_Atomic uint64_t *hints, uint32_t at)
{
        atomic_fetch_or_explicit(&hints[at / WORD_BITS], UINT64_C(1) << at % WORD_BITS, memory_order_relaxed);
}

static void hint_free(_Atomic uint64_t *hints, uint32_t at)
{
        atomic_fetch_and_explicit(&hints[at / WORD_BITS], ~(UINT64_C(1) << at % WORD_BITS), memory_order_relaxed);
}

static bool hint_is_taken(const _Atomic uint64_t *hints, uint32_t at)
{
        return (atomic_load_explicit(&hints[at / WORD_BITS], memory_order_relaxed) >> at % WORD_BITS & 1) != 0;
}

/* One more that was never in use, if there is room. */
static bool ready_one(_Atomic uint32_t *ready, const _Atomic uint32_t *room, uint32_t capacity)
{
        uint32_t known = atomic_load(ready);

        if (known >= atomic_load(room) || known >= capacity)
                return false;
        (void)atomic_compare_exchange_strong(ready, &known, known + 1); /* if not, another one did */
        return true;
}

static uint32_t at_most(uint32_t ready, uint32_t capacity)
{
        return ready < capacity ? ready : capacity;
}

/* ---- entries ----------------------------------------------------------------------------------------------------- */

static uint32_t entries_ready(const struct local *local)
{
        return at_most(atomic_load_explicit(&local->header->entries_ready, memory_order_acquire),
                       local->entry_capacity);
}

/* True if any was found that the hints did not know. */
static bool mend_entry_hints(struct local *local)
{
        uint32_t ready = entries_ready(local);
        bool found = false;

        for (uint32_t i = 0; i < ready; i++) {
                if (entry_owner(&local->entries[i]) != 0 || !hint_is_taken(local->entry_hints, i))
                        continue;
                hint_free(local->entry_hints, i);
                found = true;
        }
        return found;
}

static bool more_entries(struct local *local)
{
        struct header *header = local->header;

        return ready_one(&header->entries_ready, &header->entries_room, local->entry_capacity) ||
               file_grow_entries(local) == PAWL_OK || mend_entry_hints(local);
}

static struct entry *pool_pop(struct local *local)
{
        for (;;) {
                uint32_t at = hint_find(local->entry_hints, local->entry_hint, entries_ready(local));
                uint32_t nobody = 0;

                if (at == NOWHERE) {
                        if (!more_entries(local))
                                return NULL;
                        continue;
                }
                hint_taken(local->entry_hints, at);
                hook(local, 20);
                if (!atomic_compare_exchange_strong(&local->entries[at].owner, &nobody, local->id))
                        continue;
                local->entry_hint = at;
                return &local->entries[at];
        }
}

void entry_free(struct local *local, struct entry *entry)
{
        entry_commit(entry, FREE);
        hook(local, 23);
        entry_own(entry, 0);
        hook(local, 21);
        hint_free(local->entry_hints, entry_reference(local, entry) - 1);
}

static bool fill(struct local *local)
{
        while (local->cached < BATCH) {
                struct entry *entry = pool_pop(local);

                if (entry == NULL)
                        break;
                entry_commit(entry, FREE);
                atomic_store_explicit(&entry->flags, 0, memory_order_relaxed);
                hook(local, 22);
                local->cache[local->cached++] = entry_reference(local, entry);
        }
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
        while (local->cached > keep)
                entry_free(local, entry_take(local));
}

void entry_give_slow(struct local *local)
{
        entry_flush(local, CACHE_ROOM / 2);
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

static uint32_t names_ready(const struct local *local)
{
        return at_most(atomic_load_explicit(&local->header->names_ready, memory_order_acquire), local->name_capacity);
}

enum { NAME_FREE = 0, NAME_USED = 1, NAME_DAMAGED = 2 };

/* Free, or being filled by a process that died over it. */
static bool name_is_lost(struct local *local, uint32_t at)
{
        uint32_t used = atomic_load(&local->names[at].used);

        if (used == NAME_FREE)
                return hint_is_taken(local->name_hints, at);
        return used > NAME_DAMAGED && !process_alive(local, used) &&
               atomic_compare_exchange_strong(&local->names[at].used, &used, NAME_FREE);
}

static bool mend_name_hints(struct local *local)
{
        uint32_t ready = names_ready(local);
        bool found = false;

        for (uint32_t i = 0; i < ready; i++) {
                if (!name_is_lost(local, i))
                        continue;
                hint_free(local->name_hints, i);
                found = true;
        }
        return found;
}

static int more_names(struct local *local)
{
        struct header *header = local->header;
        int code = PAWL_OK;

        if (ready_one(&header->names_ready, &header->names_room, local->name_capacity))
                return PAWL_OK;
        code = file_grow_names(local);
        return code != PAWL_OK && mend_name_hints(local) ? PAWL_OK : code;
}

struct name *name_take(struct local *local, int *code)
{
        for (;;) {
                uint32_t at = hint_find(local->name_hints, local->name_hint, names_ready(local));
                uint32_t nobody = NAME_FREE;

                if (at == NOWHERE) {
                        *code = more_names(local);
                        if (*code != PAWL_OK)
                                return NULL;
                        continue;
                }
                hint_taken(local->name_hints, at);
                if (!atomic_compare_exchange_strong(&local->names[at].used, &nobody, local->id))
                        continue;
                hook(local, 31);
                local->name_hint = at;
                return &local->names[at];
        }
}

void name_free(struct local *local, struct name *name)
{
        atomic_store_explicit(&name->used, NAME_FREE, memory_order_release);
        hint_free(local->name_hints, name_reference(local, name) - 1);
}
