/* local_queue.c - who holds a name, who waits for it, and how the lock goes from one to the next. The name's bucket is
 * ours in every function here but queue_flush. Each change of an entry is filled in first and committed by one store;
 * then the lists follow. */
#include <stdio.h>
#include <string.h>

#include "local.h"

static void mark_damaged(struct local *local, struct name *name)
{
        atomic_store(&bucket_of(local, name->hash)->dirty, 1); /* the next to come rebuilds it */
}

/* ---- lists ------------------------------------------------------------------------------------------------------- */

void queue_hold_slow(struct local *local, struct name *name, struct entry *entry)
{
        uint32_t reference = entry_reference(local, entry);
        struct entry *second = entry_at(local, name->holder_first);

        entry->prev = 0;
        entry->next = name->holder_first;
        if (second != NULL)
                second->prev = reference;
        name->holder_first = reference;
        name->holders++;
        if (entry->limit < name->limit)
                name->limit = entry->limit;
}

static uint32_t least_limit(struct local *local, const struct name *name)
{
        uint32_t least = UINT32_MAX;
        uint32_t steps = local->entry_capacity;

        for (uint32_t reference = name->holder_first; reference != 0 && steps-- > 0;) {
                struct entry *entry = entry_at(local, reference);

                if (entry == NULL)
                        break;
                if (entry->limit < least)
                        least = entry->limit;
                reference = entry->next;
        }
        return least;
}

/* Unlinks from a doubly linked list; false, and nothing changed, if the neighbours do not agree. */
static bool unlink_entry(struct local *local, struct entry *entry, uint32_t *first, uint32_t *last)
{
        uint32_t reference = entry_reference(local, entry);
        struct entry *prev = entry_at(local, entry->prev);
        struct entry *next = entry_at(local, entry->next);
        bool in_order =
                (entry->prev == 0 ? *first == reference : prev != NULL && prev->next == reference) &&
                (entry->next == 0 ? last == NULL || *last == reference : next != NULL && next->prev == reference);

        if (unlikely(!in_order))
                return false;
        if (prev != NULL)
                prev->next = entry->next;
        else
                *first = entry->next;
        if (next != NULL)
                next->prev = entry->prev;
        else if (last != NULL)
                *last = entry->prev;
        return true;
}

void queue_unhold_slow(struct local *local, struct name *name, struct entry *entry)
{
        if (unlikely(!unlink_entry(local, entry, &name->holder_first, NULL) || name->holders == 0)) {
                mark_damaged(local, name);
                return;
        }
        name->holders--;
        if (name->holders == 0)
                name->limit = UINT32_MAX;
        else if (name->limit != UINT32_MAX && entry->limit == name->limit)
                name->limit = least_limit(local, name);
}

void queue_append(struct local *local, struct name *name, struct entry *entry)
{
        uint32_t reference = entry_reference(local, entry);
        struct entry *last = entry_at(local, name->queue_last);

        entry->prev = name->queue_last;
        entry->next = 0;
        if (last != NULL)
                last->next = reference;
        else
                name->queue_first = reference;
        name->queue_last = reference;
        name->waiters++;
}

void queue_insert(struct local *local, struct name *name, struct entry *entry)
{
        uint32_t reference = entry_reference(local, entry);
        uint32_t steps = local->entry_capacity;
        struct entry *next = entry_at(local, name->queue_first);
        struct entry *prev = NULL;

        while (next != NULL && next->ticket < entry->ticket && steps-- > 0) {
                prev = next;
                next = entry_at(local, next->next);
        }
        if (next == NULL) {
                queue_append(local, name, entry);
                return;
        }
        entry->prev = prev != NULL ? entry_reference(local, prev) : 0;
        entry->next = entry_reference(local, next);
        next->prev = reference;
        if (prev != NULL)
                prev->next = reference;
        else
                name->queue_first = reference;
        name->waiters++;
}

void queue_remove(struct local *local, struct name *name, struct entry *entry)
{
        if (unlikely(!unlink_entry(local, entry, &name->queue_first, &name->queue_last) || name->waiters == 0)) {
                mark_damaged(local, name);
                return;
        }
        name->waiters--;
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

static void wake_later(struct local *local, struct entry *entry)
{
        enum { ROOM = sizeof(local->wakes) / sizeof(local->wakes[0]) };

        if (local->wake_count < ROOM)
                local->wakes[local->wake_count++] = entry_reference(local, entry);
        else if ((entry_flags(entry) & BLOCKING) != 0)
                (void)futex_wake(&entry->word, 1);
        else
                (void)bell_ring(local, entry_owner(entry));
}

void queue_notify(struct local *local, struct entry *entry)
{
        atomic_store_explicit(&entry->word, atomic_load_explicit(&entry->word, memory_order_relaxed) + 1,
                              memory_order_release);
        if ((entry_flags(entry) & BLOCKING) == 0)
                news_list(local, entry);
        wake_later(local, entry);
}

/* ---- the end of a holding ---------------------------------------------------------------------------------------- */

static void owner_of(struct local *local, const struct entry *entry, char *text, size_t size)
{
        uint32_t owner = entry_owner(entry);

        if (likely(owner == local->id)) {
                memcpy(text, local->brief, size < sizeof(local->brief) ? size : sizeof(local->brief));
        } else if (owner == DETACHED) {
                snprintf(text, size, "%.*s", (int)sizeof(entry->maker) - 1, entry->maker);
        } else {
                process_owner(local, owner, text, size);
        }
}

static void record(struct local *local, struct name *name, const struct entry *entry, enum pawl_how how, int64_t now)
{
        struct past *past = &name->past[name->pasts % PASTS];

        past->token = 0; /* whoever dies from here on leaves no half of a record behind */
        past->since = entry->since;
        past->until = now;
        past->how = (uint8_t)how;
        past->mode = (uint8_t)entry->mode;
        past->writer = 0;
        owner_of(local, entry, past->owner, sizeof(past->owner));
        past->noted = (entry_flags(entry) & NOTED) != 0;
        if (unlikely(past->noted != 0))
                memcpy(past->note, entry->note, sizeof(past->note));
        past->token = entry->token;
        name->pasts++;
}

/* The committing store: what becomes of the entry depends on who may still refer to it. */
static void commit_end(struct local *local, struct entry *entry, enum pawl_how how)
{
        uint32_t owner = entry_owner(entry);

        if (how == PAWL_HOW_DIED) {
                entry_commit(entry, FREE); /* a dead process's is put into the pool when its slot is reaped */
        } else if (owner == DETACHED) {
                entry_own(entry, local->id); /* first: should we die here it is ours, and reaped */
                entry_commit(entry, FREE);
                entry_set_uid(entry, 0, 0); /* nobody's any more, also if a handle of ours knows it */
                entry_retire(local, entry);
        } else {
                entry->how = how;
                entry_commit(entry, ENDED);
                if (how == PAWL_HOW_BROKEN)
                        queue_notify(local, entry);
        }
}

/* A lock-delay counts from the failure, not from when somebody finds out: a holder is over at the end of its lease at the
 * latest, and may have been dead for a night when the next one arrives. One that is broken is believed to be at work. */
static int64_t failed_at(const struct entry *entry, enum pawl_how how, int64_t now)
{
        return how != PAWL_HOW_BROKEN && entry->lease_until < now ? entry->lease_until : now;
}

void queue_end(struct local *local, struct name *name, struct entry *entry, enum pawl_how how, int64_t now)
{
        int64_t delay_until = failed_at(entry, how, now) + entry->delay;

        record(local, name, entry, how, now);
        if (entry->delay > 0 && delay_until > name->delay_until)
                name->delay_until = delay_until;
        if (unlikely(how == PAWL_HOW_BROKEN && entry->delay > 0))
                raise_to(&local->header->leases_until, delay_until);
        hook(local, 40);
        queue_unhold(local, name, entry);
        commit_end(local, entry, how);
        hook(local, 41);
}

/* A grant that its waiter did not take up in time: it loses its turn, not its place. */
static void take_back(struct local *local, struct name *name, struct entry *entry, bool dead)
{
        queue_unhold(local, name, entry);
        entry_commit(entry, dead ? FREE : PAUSED);
        if (!dead)
                queue_notify(local, entry);
}

static bool purge_holder(struct local *local, struct name *name, struct entry *entry, int64_t now, bool dead)
{
        bool granted = entry_state(entry) == GRANTED;

        if (!dead && entry->lease_until > now)
                return false;
        if (granted)
                take_back(local, name, entry, dead);
        else
                queue_end(local, name, entry, dead ? PAWL_HOW_DIED : PAWL_HOW_EXPIRED, now);
        return true;
}

static bool purge_head(struct local *local, struct name *name)
{
        bool purged = false;
        uint32_t steps = local->entry_capacity;

        for (uint32_t reference = name->queue_first; reference != 0 && steps-- > 0; reference = name->queue_first) {
                struct entry *entry = entry_at(local, reference);

                if (entry == NULL || entry_owner(entry) == local->id || process_alive(local, entry_owner(entry)))
                        return purged;
                queue_remove(local, name, entry);
                if (name->queue_first == reference)
                        return purged; /* damaged */
                entry_commit(entry, FREE);
                purged = true;
        }
        return purged;
}

bool queue_purge(struct local *local, struct name *name, int64_t now, bool probe)
{
        bool purged = false;
        uint32_t living = local->id; /* the last one probed: many holders may be of one process */
        uint32_t steps = local->entry_capacity;

        for (uint32_t reference = name->holder_first; reference != 0;) {
                struct entry *entry = entry_at(local, reference);
                uint32_t owner;
                bool dead;

                if (unlikely(entry == NULL || steps-- == 0)) {
                        mark_damaged(local, name);
                        break;
                }
                reference = entry->next;
                owner = entry_owner(entry);
                dead = probe && owner != DETACHED && owner != living && !process_alive(local, owner);
                if (!dead && owner != DETACHED)
                        living = owner;
                if (purge_holder(local, name, entry, now, dead))
                        purged = true;
        }
        if (probe && purge_head(local, name))
                purged = true;
        return purged;
}

/* ---- hand-off ---------------------------------------------------------------------------------------------------- */

void queue_confirm(struct local *local, struct entry *entry, int64_t now)
{
        bool detached = (entry_flags(entry) & FIXED) != 0;

        entry->lease_until = now + entry->ttl;
        entry->since = now;
        atomic_fetch_and(&entry->flags, ~(uint32_t)(BLOCKING | DEEP));
        entry_commit(entry, HELD);
        if (detached)
                entry_detach(local, entry);
        entry_outlasts(local, entry, detached);
}

/* One of our own: held at once, told when the bucket is given back. */
static bool grant_own(struct local *local, struct name *name, struct entry *entry, int64_t now)
{
        struct claim *claim = local->claims[entry_reference(local, entry) - 1];
        struct part *part;

        if (claim == NULL || (entry_flags(entry) & BLOCKING) != 0)
                return false;
        part = part_of(claim);
        queue_confirm(local, entry, now);
        queue_hold(local, name, entry);
        part->view = VIEW_HELD;
        part->token = entry->token;
        part->sent_at = now;
        list_remove(&part->link);
        list_append(&local->told, &part->link);
        return true;
}

static void grant(struct local *local, struct name *name, struct entry *entry, uint64_t token, int64_t now)
{
        entry->token = token;
        entry->lease_until = now + (entry->ttl < CONFIRM_LEASE ? entry->ttl : CONFIRM_LEASE);
        if (entry_owner(entry) == local->id && grant_own(local, name, entry, now))
                return;
        entry_commit(entry, GRANTED);
        hook(local, 50);
        queue_hold(local, name, entry);
        queue_notify(local, entry);
}

/* The first in the queue looks after the holder's life. One that sleeps for long must be told that it is the first now;
 * but not if it would look after its own process. */
static void tell_head(struct local *local, struct name *name)
{
        struct entry *entry = entry_at(local, name->queue_first);
        struct entry *holder = entry_at(local, name->holder_first);

        if (entry == NULL || (entry_flags(entry) & DEEP) == 0)
                return;
        if (name->holders == 1 && holder != NULL && entry_owner(holder) == entry_owner(entry))
                return;
        atomic_fetch_and(&entry->flags, ~(uint32_t)DEEP);
        queue_notify(local, entry);
}

void queue_hand_off(struct local *local, struct name *name, int64_t now)
{
        uint32_t steps = local->entry_capacity;

        while (name->queue_first != 0 && steps-- > 0) {
                uint32_t reference = name->queue_first;
                struct entry *entry = entry_at(local, reference);
                uint64_t token;

                if (unlikely(entry == NULL)) {
                        mark_damaged(local, name);
                        return;
                }
                if (name->delay_until > now || !queue_admits(name, entry->limit))
                        break;
                token = token_next(local);
                if (token == 0)
                        return;
                queue_remove(local, name, entry);
                if (unlikely(name->queue_first == reference))
                        return; /* damaged, and marked so */
                if (likely(entry_state(entry) == WAITING))
                        grant(local, name, entry, token, now);
        }
        tell_head(local, name);
}

/* Near the first we count; further back the tickets tell, those of claims that have left included. */
uint64_t queue_distance(struct local *local, const struct name *name, const struct entry *entry)
{
        struct entry *first = entry_at(local, name->queue_first);
        const struct entry *before = entry;

        for (uint64_t steps = 0; before != NULL && steps < NEAR_HEAD; steps++) {
                if (before == first)
                        return steps;
                before = entry_at(local, before->prev);
        }
        return first != NULL && entry->ticket > first->ticket ? entry->ticket - first->ticket : 0;
}

/* The first in the queue looks every HEAD_CHECK, as do those who have just come; the others the less often the further
 * back they stand, because those before them may be dead, each of them. */
int64_t queue_next_check(struct local *local, const struct name *name, const struct entry *entry, int64_t now)
{
        bool first = name->queue_first == entry_reference(local, entry);
        uint64_t distance = (entry_flags(entry) & DEEP) == 0 ? 0 : queue_distance(local, name, entry);
        int64_t at = now + (distance < WAIT_CHECK / HEAD_CHECK ? (int64_t)(distance + 1) * HEAD_CHECK : WAIT_CHECK);
        struct entry *holder = entry_at(local, name->holder_first);

        if (!first)
                return at;
        if (holder != NULL && holder->lease_until > now && holder->lease_until < at)
                at = holder->lease_until;
        if (name->delay_until > now && name->delay_until < at)
                at = name->delay_until;
        return at;
}

/* ---- after the bucket -------------------------------------------------------------------------------------------- */

/* Nobody woke up: not yet asleep, or dead. */
static void check_granted(struct local *local, struct entry *entry)
{
        struct name *name = name_at(local, entry->name);
        struct bucket *bucket;
        int64_t now;

        if (name == NULL || process_alive(local, entry_owner(entry)))
                return;
        bucket = bucket_of(local, name->hash);
        if (!bucket_take(local, bucket))
                return;
        now = local_now(local);
        if (atomic_load(&name->used) == 1 && bucket_of(local, name->hash) == bucket &&
            queue_purge(local, name, now, true))
                queue_hand_off(local, name, now);
        word_give(&bucket->word);
}

static void wake(struct local *local, struct entry *entry)
{
        bool heard;

        if ((entry_flags(entry) & BLOCKING) != 0)
                heard = futex_wake(&entry->word, 1) > 0;
        else
                heard = bell_ring(local, entry_owner(entry));
        if (!heard)
                check_granted(local, entry);
}

static void tell(struct local *local, struct part *part)
{
        const struct engine_host *host = local->engine.host;
        struct grant grant = {.token = part->token, .sent_at = part->sent_at};

        list_remove(&part->link);
        host->events->granted(host->core, part->claim, &grant);
}

/* Telling may lead to new operations, which flush too: those leave it to the outermost. */
void queue_flush(struct local *local)
{
        if (local->flushing)
                return;
        local->flushing = true;
        while (local->wake_count > 0 || !list_empty(&local->told)) {
                if (local->wake_count > 0)
                        wake(local, &local->entries[local->wakes[--local->wake_count] - 1]);
                else
                        tell(local, list_first(&local->told, struct part, link));
        }
        local->flushing = false;
}
