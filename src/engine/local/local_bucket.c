/* local_bucket.c - a bucket: the names that hash to it, and how it is rebuilt when a process died inside. */
#include <string.h>

#include "local.h"

void bucket_give(struct local *local, struct bucket *bucket)
{
        word_give(&bucket->word);
        if (unlikely(local->wake_count != 0 || !list_empty(&local->told)))
                queue_flush(local);
}

bool bucket_take_slow(struct local *local, struct bucket *bucket, enum taken taken)
{
        if (taken == NOT_TAKEN)
                return false;
        if (taken == TAKEN_OVER || atomic_load_explicit(&bucket->dirty, memory_order_acquire) != 0)
                bucket_rebuild(local, bucket);
        return true;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

struct name *bucket_find(struct local *local, struct bucket *bucket, uint64_t hash, const char *text, size_t length,
                         bool *damaged)
{
        uint32_t steps = local->name_capacity;

        *damaged = false;
        for (uint32_t reference = bucket->first; reference != 0;) {
                struct name *name = name_at(local, reference);

                if (unlikely(name == NULL || steps-- == 0)) {
                        *damaged = true;
                        return NULL;
                }
                if (name_is(name, hash, text, length))
                        return name;
                reference = name->next;
        }
        return NULL;
}

static void name_init(struct name *name, uint64_t hash, const char *text, size_t length)
{
        memset(name->past, 0, sizeof(name->past));
        memcpy(name->text, text, length);
        name->text[length] = '\0';
        name->hash = hash;
        name->length = (uint32_t)length;
        name->pasts = 0;
        name->holders = name->waiters = 0;
        name->holder_first = name->queue_first = name->queue_last = 0;
        name->limit = UINT32_MAX;
        name->delay_until = 0;
        name->ticket = 0;
}

static int name_new(struct local *local, struct bucket *bucket, uint64_t hash, const char *text, size_t length,
                    struct name **name)
{
        int code = PAWL_FULL;
        struct name *fresh = name_take(local, &code);

        if (fresh == NULL)
                return code;
        name_init(fresh, hash, text, length);
        atomic_store_explicit(&fresh->used, 1, memory_order_release);
        hook(local, 30);
        fresh->next = bucket->first;
        bucket->first = name_reference(local, fresh);
        *name = fresh;
        return PAWL_OK;
}

int bucket_name_slow(struct local *local, struct bucket *bucket, uint64_t hash, const char *text, size_t length,
                     struct name **name)
{
        bool damaged;

        *name = bucket_find(local, bucket, hash, text, length, &damaged);
        if (likely(*name != NULL))
                return PAWL_OK;
        if (damaged) {
                bucket_rebuild(local, bucket);
                *name = bucket_find(local, bucket, hash, text, length, &damaged);
                if (*name != NULL)
                        return PAWL_OK;
                if (damaged)
                        return why_set(&local->why, PAWL_CORRUPT,
                                       "the state in %s is damaged; remove the directory when nobody uses it",
                                       local->path);
        }
        return name_new(local, bucket, hash, text, length, name);
}

static bool name_idle(const struct name *name, int64_t now)
{
        return name->holders == 0 && name->waiters == 0 && name->queue_first == 0 && name->delay_until <= now;
}

static bool unchain(struct local *local, struct bucket *bucket, struct name *name)
{
        uint32_t reference = name_reference(local, name);
        uint32_t *link = &bucket->first;
        uint32_t steps = local->name_capacity;

        while (*link != 0 && steps-- > 0) {
                struct name *member = name_at(local, *link);

                if (*link == reference) {
                        *link = name->next;
                        return true;
                }
                if (member == NULL)
                        return false;
                link = &member->next;
        }
        return false;
}

static bool recycle_one(struct local *local, struct name *name, int64_t now)
{
        struct bucket *bucket = bucket_of(local, name->hash);
        bool recycled = false;

        if (!bucket_take(local, bucket))
                return false;
        if (atomic_load(&name->used) == 1 && bucket_of(local, name->hash) == bucket && name_idle(name, now) &&
            unchain(local, bucket, name)) {
                name_free(local, name);
                recycled = true;
        }
        bucket_give(local, bucket);
        return recycled;
}

bool name_recycle(struct local *local)
{
        uint32_t ready = atomic_load_explicit(&local->header->names_ready, memory_order_relaxed);
        uint32_t from = atomic_load_explicit(&local->header->name_sweep, memory_order_relaxed);
        uint32_t recycled = 0;
        int64_t now = local_now(local);

        if (ready > local->name_capacity)
                ready = local->name_capacity;
        for (uint32_t i = 0; i < ready && recycled < NAME_CHUNK; i++) {
                struct name *name = &local->names[(from + i) % ready];

                if (atomic_load(&name->used) == 1 && name_idle(name, now) && recycle_one(local, name, now))
                        recycled++;
                atomic_store_explicit(&local->header->name_sweep, (from + i + 1) % ready, memory_order_relaxed);
        }
        return recycled > 0;
}

/* ---- rebuilding -------------------------------------------------------------------------------------------------- */

static bool before(const struct local *local, uint32_t a, uint32_t b)
{
        const struct entry *left = &local->entries[a - 1];
        const struct entry *right = &local->entries[b - 1];

        return left->ticket != right->ticket ? left->ticket < right->ticket : a < b;
}

static uint32_t merge(struct local *local, uint32_t a, uint32_t b)
{
        uint32_t first = 0;
        uint32_t *link = &first;

        while (a != 0 && b != 0) {
                uint32_t *least = before(local, a, b) ? &a : &b;

                *link = *least;
                link = &local->entries[*least - 1].next;
                *least = *link;
        }
        *link = a != 0 ? a : b;
        return first;
}

/* Sorts a singly linked list by ticket in place: no memory is to be had for it. */
static uint32_t sort_by_ticket(struct local *local, uint32_t list)
{
        uint32_t runs[32] = {0};
        uint32_t sorted = 0;

        while (list != 0) {
                uint32_t run = list;
                int i = 0;

                list = local->entries[run - 1].next;
                local->entries[run - 1].next = 0;
                for (; runs[i] != 0; i++) {
                        run = merge(local, runs[i], run);
                        runs[i] = 0;
                }
                runs[i] = run;
        }
        for (int i = 0; i < 32; i++)
                sorted = merge(local, runs[i], sorted);
        return sorted;
}

static bool in_bucket(const struct local *local, const struct bucket *bucket, const struct name *name)
{
        return name != NULL && atomic_load_explicit(&name->used, memory_order_acquire) == 1 &&
               bucket_of(local, name->hash) == bucket;
}

static uint32_t names_ready(const struct local *local)
{
        uint32_t ready = atomic_load_explicit(&local->header->names_ready, memory_order_acquire);

        return ready < local->name_capacity ? ready : local->name_capacity;
}

static uint32_t entries_ready(const struct local *local)
{
        uint32_t ready = atomic_load_explicit(&local->header->entries_ready, memory_order_acquire);

        return ready < local->entry_capacity ? ready : local->entry_capacity;
}

static void collect_names(struct local *local, struct bucket *bucket)
{
        uint32_t ready = names_ready(local);

        bucket->first = 0;
        for (uint32_t i = 0; i < ready; i++) {
                struct name *name = &local->names[i];

                if (!in_bucket(local, bucket, name))
                        continue;
                if (name->length > PAWL_NAME_MAX || name->length == 0) {
                        atomic_store(&name->used, 2); /* damaged: never in a bucket, never recycled */
                        continue;
                }
                name->text[name->length] = '\0';
                name->next = bucket->first;
                name->holders = name->waiters = 0;
                name->holder_first = name->queue_first = name->queue_last = 0;
                name->limit = UINT32_MAX;
                bucket->first = i + 1;
        }
}

/* Its owner gave it up. One that is in the news of a living process is not free before that process has read them: it
 * would be in another's list, too. */
static void end_given_up(struct local *local, struct entry *entry)
{
        uint32_t flags;

        if (!process_alive(local, entry_owner(entry))) {
                entry_commit(entry, FREE); /* put into the pool when the slot is reaped */
                return;
        }
        entry_commit(entry, LEFT);
        flags = atomic_load(&entry->flags);
        while ((flags & LISTED) != 0)
                if (atomic_compare_exchange_weak(&entry->flags, &flags, flags | AWAY))
                        return;
        entry_free(local, entry);
}

/* Entries back into the lists of their names; the queues unsorted, linked by next alone. */
static void collect_entries(struct local *local, struct bucket *bucket)
{
        uint32_t ready = entries_ready(local);

        for (uint32_t i = 0; i < ready; i++) {
                struct entry *entry = &local->entries[i];
                uint32_t state = entry_state(entry);
                struct name *name;
                uint32_t flags;

                if (state == FREE || entry_owner(entry) == 0)
                        continue;
                name = name_at(local, entry->name);
                if (!in_bucket(local, bucket, name))
                        continue;
                flags = atomic_load(&entry->flags);
                if (unlikely((flags & GIVEN_UP) != 0)) {
                        if ((flags & AWAY) == 0)
                                end_given_up(local, entry);
                } else if (state == HELD || state == GRANTED) {
                        queue_hold(local, name, entry);
                } else if (state == WAITING) {
                        entry->next = name->queue_first;
                        name->queue_first = i + 1;
                }
        }
}

static void relink_queue(struct local *local, struct name *name)
{
        uint32_t prev = 0;

        name->queue_first = sort_by_ticket(local, name->queue_first);
        for (uint32_t reference = name->queue_first; reference != 0;) {
                struct entry *entry = &local->entries[reference - 1];

                entry->prev = prev;
                prev = reference;
                name->waiters++;
                if (entry->ticket > name->ticket)
                        name->ticket = entry->ticket;
                reference = entry->next;
        }
        name->queue_last = prev;
}

/* Whoever died may have granted without telling. */
static void tell_again(struct local *local, struct name *name)
{
        uint32_t steps = local->entry_capacity;

        for (uint32_t reference = name->holder_first; reference != 0 && steps-- > 0;) {
                struct entry *entry = entry_at(local, reference);

                if (entry == NULL)
                        return;
                if (entry_state(entry) == GRANTED)
                        queue_notify(local, entry);
                reference = entry->next;
        }
}

/* The bucket is ours. Everything in it anew from names and entries, which are the truth; then whatever the dead process
 * left undone: its own holdings end, the next in the queue gets its turn. */
void bucket_rebuild(struct local *local, struct bucket *bucket)
{
        int64_t now = local_now(local);
        uint32_t steps = local->name_capacity;

        (void)atomic_exchange(&bucket->dirty, 0); /* reads it, too: what was given up before is seen below */
        collect_names(local, bucket);
        collect_entries(local, bucket);
        for (uint32_t reference = bucket->first; reference != 0 && steps-- > 0;) {
                struct name *name = &local->names[reference - 1];

                relink_queue(local, name);
                queue_purge(local, name, now, true);
                tell_again(local, name);
                queue_hand_off(local, name, now);
                reference = name->next;
        }
}
