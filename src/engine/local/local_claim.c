/* local_claim.c - what the core asks for: acquire, cancel, renew, release, and their instant twins. Everything happens
 * under the lock word of the name's bucket; events are told when it has been given back. */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "local.h"

static const struct engine_events *events_of(const struct local *local)
{
        return local->engine.host->events;
}

static void *core_of(const struct local *local)
{
        return local->engine.host->core;
}

static uint32_t limit_of(const struct claim *claim)
{
        if (claim->mode == PAWL_EXCLUSIVE)
                return 1;
        return claim->max_holders == 0 ? UINT32_MAX : claim->max_holders;
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */

static void copy_note(struct entry *entry, const char *note)
{
        size_t length = strnlen(note, sizeof(entry->note) - 1);

        memset(entry->note, 0, sizeof(entry->note));
        memcpy(entry->note, note, length);
}

/* An entry of ours, filled but not committed: still FREE. */
static inline struct entry *fill(struct local *local, struct claim *claim, struct name *name, int64_t now,
                                 uint32_t flags)
{
        struct entry *entry = entry_take(local);
        struct part *part = part_of(claim);

        entry->name = name_reference(local, name);
        entry->limit = limit_of(claim);
        entry->ttl = claim->ttl;
        entry->since = now;
        part->uid[0] = claim->uid[0];
        part->uid[1] = claim->uid[1];
        entry_set_uid(entry, claim->uid[0], claim->uid[1]);
        entry->delay = claim->delay;
        entry->age = claim->age;
        entry->mode = claim->mode;
        entry->max_holders = claim->max_holders;
        if (unlikely(claim->detached))
                flags |= FIXED;
        if (unlikely(claim->note[0] != '\0')) {
                copy_note(entry, claim->note);
                flags |= NOTED;
        }
        atomic_store_explicit(&entry->flags, flags, memory_order_relaxed);
        part->entry = entry_reference(local, entry);
        part->name = entry->name;
        part->claim = claim;
        local->claims[part->entry - 1] = claim;
        local->known++;
        return entry;
}

static inline int take(struct local *local, struct claim *claim, struct name *name, int64_t now, struct grant *grant)
{
        uint64_t token = token_next(local);
        struct entry *entry;

        if (unlikely(token == 0))
                return local->why.code;
        entry = fill(local, claim, name, now, 0);
        entry->token = token;
        entry->lease_until = now + claim->ttl;
        hook(local, 1);
        entry_commit(entry, HELD);
        if (unlikely(claim->detached))
                entry_detach(local, entry);
        if (unlikely(claim->detached || claim->delay > 0))
                entry_outlasts(local, entry, claim->detached);
        hook(local, 2);
        queue_hold(local, name, entry);
        part_of(claim)->view = VIEW_HELD;
        grant->token = token;
        grant->sent_at = now;
        return PAWL_OK;
}

static bool is_free(const struct name *name, const struct claim *claim, int64_t now)
{
        return name->queue_first == 0 && name->delay_until <= now && queue_admits(name, limit_of(claim));
}

/* The bucket is ours. PAWL_OK: taken. PAWL_BUSY: not now. probe: ask the kernel who lives before saying so. */
static inline int try_take(struct local *local, struct claim *claim, struct name *name, int64_t now, bool probe,
                           struct grant *grant)
{
        if (likely(is_free(name, claim, now)))
                return take(local, claim, name, now, grant);
        if (queue_purge(local, name, now, probe))
                queue_hand_off(local, name, now);
        if (is_free(name, claim, now))
                return take(local, claim, name, now, grant);
        return PAWL_BUSY;
}

/* The bucket of the claim's name, and the name. PAWL_STUCK: another process is inside. Else, if not PAWL_OK, why is set. */
static inline int enter(struct local *local, struct claim *claim, struct bucket **bucket, struct name **name)
{
        uint64_t hash = bucket_hash(local, claim->name, claim->name_length);
        int code = PAWL_OK;

        *bucket = bucket_of(local, hash);
        part_of(claim)->bucket = (uint32_t)(*bucket - local->buckets);
        for (int round = 0; round < 2; round++) {
                if (unlikely(!bucket_take(local, *bucket)))
                        return PAWL_STUCK;
                code = bucket_name(local, *bucket, hash, claim->name, claim->name_length, name);
                if (likely(code == PAWL_OK))
                        return PAWL_OK;
                bucket_give(local, *bucket);
                if (code != PAWL_FULL || !name_recycle(local))
                        break;
        }
        return code;
}

/* Things to have before the bucket: an entry, a bell, a file that is still there. */
static int prepare(struct local *local, int64_t now)
{
        bell_open(local);
        if (now >= local->there_until) {
                local->there_until = now + THERE_CHECK;
                (void)file_is_there(local);
        }
        if (local->gone != NULL)
                return why_set(&local->why, local->gone_code, "%s", local->gone);
        return entry_ready(local) ? PAWL_OK : local->why.code;
}

static int instant_acquire(struct engine *engine, struct claim *claim, int64_t now, struct grant *grant)
{
        struct local *local = local_of(engine);
        struct bucket *bucket;
        struct name *name;
        int code;

        if (unlikely(local->cached == 0 || now >= local->there_until || local->gone != NULL) &&
            (code = prepare(local, now)) != PAWL_OK)
                return code;
        code = enter(local, claim, &bucket, &name);
        if (unlikely(code != PAWL_OK))
                return code;
        code = try_take(local, claim, name, now, !claim->wait, grant);
        bucket_give(local, bucket);
        return code;
}

/* ---- forgetting -------------------------------------------------------------------------------------------------- */

void claim_forget(struct local *local, struct claim *claim)
{
        struct part *part = part_of(claim);

        if (part->entry != 0 && local->claims[part->entry - 1] == claim)
                local->claims[part->entry - 1] = NULL;
        if (part->view != VIEW_NONE && part->view != VIEW_LIMBO)
                local->known--;
        if (part->link.next != NULL)
                list_remove(&part->link);
        if (unlikely(part->step != STEP_NONE))
                part->step = STEP_NONE;
        __atomic_store_n(&part->entry, 0, __ATOMIC_RELAXED); /* a thread may be in sleep_for: see there */
        __atomic_store_n(&part->view, VIEW_NONE, __ATOMIC_RELAXED);
}

/* Whether the entry still is this claim's. */
static inline bool ours(const struct local *local, const struct part *part, const struct entry *entry)
{
        uint32_t owner = entry_owner(entry);
        uint32_t expected = (entry_flags(entry) & FIXED) != 0 && owner == DETACHED ? DETACHED : local->id;

        return likely(owner == expected && entry_has_uid(entry, part->uid));
}

/* Back to our cache, if it is ours to give; the committing store has been done, or is done here. The claim is not forgotten
 * yet. */
static inline void put_away(struct local *local, struct entry *entry)
{
        if (entry_owner(entry) == DETACHED)
                entry_own(entry, local->id);
        if (entry_owner(entry) != local->id)
                return;
        entry_commit(entry, FREE);
        if (unlikely((entry_flags(entry) & FIXED) != 0))
                entry_set_uid(entry, 0, 0); /* another handle of ours may know the same lease */
        entry_retire(local, entry);
}

/* ---- steps that another process delays --------------------------------------------------------------------------- */

/* A thread may be in sleep_for: see there. */
static void set_stuck(struct part *part, uint32_t owner)
{
        __atomic_store_n(&part->stuck, owner, __ATOMIC_RELAXED);
}

/* The bucket is taken: the tick tries again. False if that has been so for long enough: the step is given up. */
bool claim_stall(struct local *local, struct claim *claim, enum step step, int64_t now)
{
        struct part *part = part_of(claim);

        if (part->link.next != NULL)
                list_remove(&part->link);
        else
                list_init(&part->link);
        part->claim = claim;
        set_stuck(part, local->stuck.owner);
        if (part->step != step) {
                part->step = step;
                part->give_up_at = now + GIVE_UP;
        } else if (now >= part->give_up_at) {
                part->step = STEP_NONE;
                return false;
        }
        if (list_empty(&local->stalled) && list_empty(&local->limbo))
                local->stall_pause = STALL_FIRST;
        list_append(&local->stalled, &part->link);
        tick_by(local, now + local->stall_pause);
        return true;
}

/* The step is being done. */
static inline void resume(struct part *part)
{
        if (likely(part->step == STEP_NONE))
                return;
        part->step = STEP_NONE;
        list_remove(&part->link);
}

/* The bucket is stuck: a process is stopped inside, and may go on to change the state and the owner of the entry. Whoever
 * comes next finishes this. False if it is not ours alone to give up: a detached lease runs out. */
static bool leave(struct local *local, struct part *part, struct entry *entry)
{
        if (entry_owner(entry) != local->id || !entry_has_uid(entry, part->uid))
                return false;
        atomic_fetch_or(&entry->flags, GIVEN_UP);
        hook(local, 71);
        atomic_store(&local->buckets[part->bucket].dirty, 1);
        return true;
}

/* ---- release ----------------------------------------------------------------------------------------------------- */

/* A lease that was handed around was held by who took it, not by who gives it back. */
static void credit_maker(struct name *name, const struct entry *entry)
{
        struct past *past = &name->past[(name->pasts - 1) % PASTS];
        uint64_t token = past->token;

        past->token = 0; /* as in queue_release */
        past->writer = 0;
        snprintf(past->owner, sizeof(past->owner), "%.*s", (int)sizeof(entry->maker) - 1, entry->maker);
        past->token = token;
}

/* The bucket is ours. */
static inline int release_held(struct local *local, const struct claim *claim, struct entry *entry, int64_t now)
{
        struct name *name = name_at(local, part_of(claim)->name);
        bool in_time = entry->lease_until > now && !claim->lost;
        bool detached = entry_owner(entry) == DETACHED;

        if (unlikely(name == NULL))
                return PAWL_LOST;
        if (unlikely(detached))
                entry_own(entry, local->id);
        if (likely(in_time))
                queue_release(local, name, entry, now);
        else
                queue_end(local, name, entry, PAWL_HOW_EXPIRED, now);
        if (unlikely(detached))
                credit_maker(name, entry);
        put_away(local, entry);
        if (unlikely(name->queue_first != 0))
                queue_hand_off(local, name, now);
        return in_time ? PAWL_OK : PAWL_LOST;
}

static int instant_release(struct engine *engine, struct claim *claim, int64_t now)
{
        struct local *local = local_of(engine);
        struct part *part = part_of(claim);
        struct bucket *bucket = &local->buckets[part->bucket];
        struct entry *entry = &local->entries[part->entry - 1];
        int code = PAWL_LOST;

        if (unlikely(!bucket_take(local, bucket)))
                return PAWL_STUCK;
        if (likely(ours(local, part, entry))) {
                if (likely(entry_state(entry) == HELD))
                        code = release_held(local, claim, entry, now);
                else
                        put_away(local, entry);
        }
        claim_forget(local, claim);
        bucket_give(local, bucket);
        return code;
}

/* Given up: it is over for us, and whoever takes the bucket next ends it. PAWL_STUCK: its lease does. */
static int release_by_leaving(struct local *local, struct claim *claim, int64_t now)
{
        struct part *part = part_of(claim);
        struct entry *entry = &local->entries[part->entry - 1];
        bool in_time =
                ours(local, part, entry) && entry_state(entry) == HELD && entry->lease_until > now && !claim->lost;
        bool left = leave(local, part, entry);

        claim_forget(local, claim);
        if (in_time && !left)
                return PAWL_STUCK;
        return in_time ? PAWL_OK : PAWL_LOST;
}

static void release(struct engine *engine, struct claim *claim)
{
        struct local *local = local_of(engine);
        int64_t now = local_now(local);
        int code = instant_release(engine, claim, now);

        if (code == PAWL_STUCK && claim_stall(local, claim, STEP_RELEASE, now))
                return;
        if (code == PAWL_STUCK)
                code = release_by_leaving(local, claim, now);
        events_of(local)->released(core_of(local), claim, code);
}

/* ---- waiting ----------------------------------------------------------------------------------------------------- */

static void tell_granted(struct local *local, struct claim *claim, uint64_t token, int64_t sent_at)
{
        struct grant grant = {.token = token, .sent_at = sent_at};

        events_of(local)->granted(core_of(local), claim, &grant);
}

static void refuse(struct local *local, struct claim *claim, int code)
{
        char text[sizeof(local->why.text)] = "";

        if (code != PAWL_BUSY)
                memcpy(text, local->why.text, sizeof(text));
        events_of(local)->refused(core_of(local), claim, code, text[0] != '\0' ? text : NULL);
}

static void enqueue(struct local *local, struct claim *claim, struct name *name, int64_t now)
{
        struct entry *entry = fill(local, claim, name, now, claim->blocking ? BLOCKING : 0);
        struct part *part = part_of(claim);

        list_init(&part->link);
        entry->token = 0;
        entry->lease_until = 0;
        entry->ticket = ++name->ticket;
        part->seen = atomic_load(&entry->word);
        hook(local, 3);
        entry_commit(entry, WAITING);
        hook(local, 4);
        queue_append(local, name, entry);
        part->view = VIEW_WAITING;
        part->recheck_at = queue_next_check(local, name, entry, now);
        if (!claim->blocking) {
                list_append(&local->fresh, &part->link);
                tick_by(local, part->recheck_at);
        }
}

/* It could not even queue: another process is inside the bucket. Tried again by the tick, or by the thread that sleeps for
 * it. One that is not to wait gives up in time. */
static void wait_in_limbo(struct local *local, struct claim *claim, int64_t now)
{
        struct part *part = part_of(claim);

        if (part->view != VIEW_LIMBO)
                part->give_up_at = claim->wait ? NEVER : now + GIVE_UP;
        set_stuck(part, local->stuck.owner);
        if (now >= part->give_up_at) {
                claim_forget(local, claim);
                refuse(local, claim, word_blame(local, part->stuck, &local->why));
                return;
        }
        part->view = VIEW_LIMBO;
        part->entry = 0;
        part->claim = claim;
        part->recheck_at = part->give_up_at;
        list_init(&part->link);
        if (claim->blocking)
                return;
        if (list_empty(&local->stalled) && list_empty(&local->limbo))
                local->stall_pause = STALL_FIRST;
        list_append(&local->limbo, &part->link);
        tick_by(local, now + local->stall_pause);
}

static void acquire_or_wait(struct local *local, struct claim *claim, int64_t now)
{
        struct bucket *bucket;
        struct name *name;
        struct grant grant = {0};
        int code = prepare(local, now);

        if (code == PAWL_OK)
                code = enter(local, claim, &bucket, &name);
        if (code == PAWL_STUCK) {
                wait_in_limbo(local, claim, now);
                return;
        }
        part_of(claim)->view = VIEW_NONE;
        if (code != PAWL_OK) {
                refuse(local, claim, code);
                return;
        }
        code = try_take(local, claim, name, now, !claim->wait,
                        &grant); /* who waits looks after the holder soon enough */
        if (code == PAWL_BUSY && claim->wait)
                enqueue(local, claim, name, now);
        bucket_give(local, bucket);
        if (code == PAWL_OK)
                tell_granted(local, claim, grant.token, grant.sent_at);
        else if (code != PAWL_BUSY || !claim->wait)
                refuse(local, claim, code);
}

static void acquire(struct engine *engine, struct claim *claim)
{
        struct local *local = local_of(engine);

        acquire_or_wait(local, claim, local_now(local));
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

/* What became of a claim, found under the bucket's lock, told after it. */
enum outcome { NOTHING, TELL_GRANTED, TELL_REFUSED, TELL_GONE, TELL_ASKED, NO_NAME };

static void keep_waiting(struct local *local, struct part *part, struct name *name, struct entry *entry, int64_t now)
{
        bool first = name->queue_first == part->entry;

        if (first)
                atomic_fetch_and(&entry->flags, ~(uint32_t)DEEP);
        else
                atomic_fetch_or(&entry->flags, DEEP);
        part->seen = atomic_load(&entry->word);
        set_stuck(part, 0);
        part->recheck_at = queue_next_check(local, name, entry, now);
        if (part->claim->blocking)
                return;
        list_remove(&part->link);
        list_append(queue_distance(local, name, entry) < NEAR_HEAD ? &local->heads : &local->deep, &part->link);
        tick_by(local, part->recheck_at);
}

/* Who lost its turn stood in no list, and its name may have been recycled meanwhile: it is looked up anew. The bucket is
 * ours. */
static int queue_again(struct local *local, struct part *part, struct entry *entry)
{
        const struct claim *claim = part->claim;
        uint64_t hash = bucket_hash(local, claim->name, claim->name_length);
        struct name *name;
        int code = bucket_name(local, &local->buckets[part->bucket], hash, claim->name, claim->name_length, &name);

        if (code != PAWL_OK)
                return code;
        part->name = entry->name = name_reference(local, name);
        entry_commit(entry, WAITING);
        queue_insert(local, name, entry);
        return PAWL_OK;
}

/* The bucket is ours. */
static enum outcome look_at_waiting(struct local *local, struct part *part, struct entry *entry, int64_t now)
{
        struct name *name;

        if (unlikely(ours(local, part, entry) && entry_state(entry) == PAUSED) &&
            queue_again(local, part, entry) != PAWL_OK)
                return NO_NAME;
        name = name_at(local, part->name);
        if (unlikely(name == NULL || !ours(local, part, entry))) {
                why_set(&local->why, PAWL_CORRUPT,
                        "the state in %s is damaged; remove the directory when nobody uses it", local->path);
                return TELL_REFUSED;
        }
        if (entry_state(entry) == WAITING) {
                local->why.code = PAWL_OK;
                queue_purge(local, name, now, true); /* also if we are not the first: the first may be dead too */
                queue_hand_off(local, name, now);
        }
        switch (entry_state(entry)) {
        case GRANTED:
                queue_confirm(local, entry, now);
                return TELL_GRANTED;
        case WAITING:
                if (local->why.code != PAWL_OK && name->queue_first == part->entry) {
                        queue_remove(local, name, entry); /* our turn, but no token is to be had */
                        put_away(local, entry);
                        return TELL_REFUSED;
                }
                keep_waiting(local, part, name, entry, now);
                return NOTHING;
        case HELD:
                return NOTHING; /* granted by ourselves just now: told when the bucket is given back */
        default:
                put_away(local, entry);
                why_set(&local->why, PAWL_CORRUPT,
                        "the state in %s is damaged; remove the directory when nobody uses it", local->path);
                return TELL_REFUSED;
        }
}

static enum outcome look_at_held(struct local *local, struct part *part, struct entry *entry, int *reason)
{
        if (!ours(local, part, entry)) {
                *reason = PAWL_REASON_TAKEN;
                return TELL_GONE;
        }
        if (entry_state(entry) == HELD) {
                if ((atomic_fetch_and(&entry->flags, ~(uint32_t)ASKED) & ASKED) != 0)
                        return TELL_ASKED;
                return NOTHING;
        }
        *reason = entry->how == PAWL_HOW_BROKEN ? PAWL_REASON_BROKEN : PAWL_REASON_TAKEN;
        put_away(local, entry);
        return TELL_GONE;
}

static void tell_outcome(struct local *local, struct claim *claim, enum outcome outcome, uint64_t token, int64_t now,
                         int reason)
{
        struct part *part = part_of(claim);

        switch (outcome) {
        case NOTHING:
        case NO_NAME:
                break;
        case TELL_GRANTED:
                list_remove(&part->link);
                __atomic_store_n(&part->view, VIEW_HELD,
                                 __ATOMIC_RELAXED); /* a thread may be in sleep_for: see there */
                tell_granted(local, claim, token, now);
                break;
        case TELL_REFUSED:
                claim_forget(local, claim);
                refuse(local, claim, local->why.code);
                break;
        case TELL_GONE:
                claim_forget(local, claim);
                events_of(local)->gone(core_of(local), claim, reason);
                break;
        case TELL_ASKED:
                events_of(local)->asked(core_of(local), claim);
                break;
        }
}

static void look_again_later(struct local *local, struct part *part, int64_t now)
{
        part->recheck_at = now + STALL_MOST;
        if (!part->claim->blocking)
                tick_by(local, part->recheck_at);
}

/* The bucket is taken. What a thread waits for is that thread's to look at again. */
static void look_is_stuck(struct local *local, struct claim *claim, int64_t now)
{
        struct part *part = part_of(claim);

        if (part->view == VIEW_WAITING) {
                set_stuck(part, local->stuck.owner);
                look_again_later(local, part, now);
        } else if (!claim_stall(local, claim, STEP_LOOK, now)) {
                (void)claim_stall(local, claim, STEP_LOOK, now); /* as long as it takes: it was asked for, or broken */
        }
}

/* There was no room for its name: made, and tried again, or there is none. No bucket is ours. */
static enum outcome make_room(struct local *local, struct part *part, struct entry *entry, int64_t now)
{
        struct pawl_why why = local->why;

        if (why.code == PAWL_FULL && name_recycle(local)) {
                look_again_later(local, part, now);
                return NOTHING;
        }
        put_away(local, entry);
        local->why = why;
        return TELL_REFUSED;
}

static void look_now(struct local *local, struct claim *claim)
{
        struct part *part = part_of(claim);
        int64_t now = local_now(local);
        struct entry *entry;
        enum outcome outcome;
        uint64_t token;
        int reason = PAWL_REASON_NONE;

        if (part->view == VIEW_LIMBO) {
                list_remove(&part->link);
                acquire_or_wait(local, claim, now);
                return;
        }
        if (part->view == VIEW_NONE)
                return;
        if (!bucket_take(local, &local->buckets[part->bucket])) {
                look_is_stuck(local, claim, now);
                return;
        }
        resume(part);
        entry = &local->entries[part->entry - 1];
        if (part->view == VIEW_WAITING)
                outcome = look_at_waiting(local, part, entry, now);
        else
                outcome = look_at_held(local, part, entry, &reason);
        token = entry->token;
        word_give(&local->buckets[part->bucket].word);
        if (unlikely(outcome == NO_NAME))
                outcome = make_room(local, part, entry, now);
        tell_outcome(local, claim, outcome, token, now, reason);
        queue_flush(local);
}

/* The client is unlocked: only what nobody changes while the claim waits, and the entry's word. The claim may be cancelled
 * meanwhile by who closes the client: then there is no entry, or one that is no longer ours and wakes us too late, at the
 * next look, or for nothing. */
static void sleep_for(struct engine *engine, struct claim *claim, int64_t until)
{
        struct local *local = local_of(engine);
        struct part *part = part_of(claim);
        int64_t at = part->recheck_at < until ? part->recheck_at : until;
        int64_t now = local_now(local);
        uint32_t stuck = __atomic_load_n(&part->stuck, __ATOMIC_RELAXED);
        uint32_t entry = __atomic_load_n(&part->entry, __ATOMIC_RELAXED);
        uint32_t view = __atomic_load_n(&part->view, __ATOMIC_RELAXED);

        if (at <= now)
                return;
        if (view == VIEW_LIMBO || (view == VIEW_WAITING && stuck != 0))
                word_sleep(local, &local->buckets[part->bucket].word, stuck,
                           at < now + STUCK_CHECK ? at : now + STUCK_CHECK);
        else if (view == VIEW_WAITING && entry != 0)
                futex_wait(&local->entries[entry - 1].word, part->seen, at - now);
}

/* The client is unlocked, as above. One that is forgotten has no entry: it is over, though the core may not know yet. */
static bool stands(struct engine *engine, const struct claim *claim)
{
        struct local *local = local_of(engine);
        const struct part *part = part_of(claim);
        uint32_t reference = __atomic_load_n(&part->entry, __ATOMIC_RELAXED);
        const struct entry *entry;

        if (reference == 0)
                return false;
        entry = &local->entries[reference - 1];
        return ours(local, part, entry) && entry_state(entry) == HELD;
}

/* ---- cancel ------------------------------------------------------------------------------------------------------ */

/* The bucket is ours. True if it holds the lock after all. */
static bool cancel_waiting(struct local *local, struct part *part, struct entry *entry, int64_t now)
{
        struct name *name = name_at(local, part->name);

        if (name == NULL || !ours(local, part, entry))
                return false;
        if (entry_state(entry) == GRANTED) {
                queue_confirm(local, entry, now);
                return true;
        }
        if (entry_state(entry) != WAITING) { /* in no list, and the name may be another's by now */
                put_away(local, entry);
                return false;
        }
        queue_remove(local, name, entry);
        put_away(local, entry);
        queue_hand_off(local, name, now);
        return false;
}

/* Whether it is over: not if it holds the lock after all, nor if the bucket is stuck and it is tried again. */
static bool cancel_queued(struct local *local, struct claim *claim, int64_t now)
{
        struct part *part = part_of(claim);
        struct bucket *bucket = &local->buckets[part->bucket];
        struct entry *entry = &local->entries[part->entry - 1];
        uint64_t token;
        bool held;

        if (!bucket_take(local, bucket)) {
                if (claim_stall(local, claim, STEP_CANCEL, now))
                        return false;
                (void)leave(local, part, entry);
                return true;
        }
        resume(part);
        held = cancel_waiting(local, part, entry, now);
        token = entry->token;
        word_give(&bucket->word);
        if (held)
                tell_outcome(local, claim, TELL_GRANTED, token, now, 0);
        return !held;
}

static void cancel(struct engine *engine, struct claim *claim)
{
        struct local *local = local_of(engine);
        struct part *part = part_of(claim);

        if (part->view == VIEW_HELD)
                return; /* granted, and about to be told */
        if (part->view != VIEW_WAITING || cancel_queued(local, claim, local_now(local))) {
                claim_forget(local, claim);
                events_of(local)->refused(core_of(local), claim, PAWL_CANCELLED, NULL);
        }
        queue_flush(local);
}

/* One that could not even queue does not know whether the lock was free. */
static int overdue(struct engine *engine, const struct claim *claim, struct pawl_why *why)
{
        const struct part *part = part_of(claim);

        return part->view == VIEW_LIMBO ? word_blame(local_of(engine), part->stuck, why) : PAWL_TIMEOUT;
}

/* ---- renew ------------------------------------------------------------------------------------------------------- */

/* The bucket is ours. */
static enum outcome renew_held(struct local *local, struct part *part, struct entry *entry, int64_t now, int *reason)
{
        struct name *name = name_at(local, part->name);

        if (ours(local, part, entry) && entry_state(entry) == HELD && entry->lease_until <= now && name != NULL) {
                queue_end(local, name, entry, PAWL_HOW_EXPIRED, now); /* too late, though nobody has taken it yet */
                queue_hand_off(local, name, now);
        }
        if (ours(local, part, entry) && entry_state(entry) == HELD) {
                entry->lease_until = now + part->claim->ttl;
                entry_outlasts(local, entry, entry_owner(entry) == DETACHED);
        }
        return look_at_held(local, part, entry, reason);
}

static void renew_one(struct local *local, struct claim *claim, int64_t now)
{
        struct part *part = part_of(claim);
        struct bucket *bucket = &local->buckets[part->bucket];
        int reason = PAWL_REASON_NONE;
        enum outcome outcome;

        if (part->view != VIEW_HELD)
                return;
        if (!bucket_take(local, bucket)) {
                if (!claim_stall(local, claim, STEP_RENEW, now))
                        events_of(local)->renewed(core_of(local), claim, PAWL_STUCK, now);
                return;
        }
        resume(part);
        outcome = renew_held(local, part, &local->entries[part->entry - 1], now, &reason);
        word_give(&bucket->word);
        if (outcome != TELL_GONE)
                events_of(local)->renewed(core_of(local), claim, PAWL_OK, now);
        if (part->view == VIEW_HELD)
                tell_outcome(local, claim, outcome, 0, now, reason);
        queue_flush(local);
}

static void renew(struct engine *engine, struct claim *const *claims, size_t n)
{
        struct local *local = local_of(engine);
        int64_t now = local_now(local);

        if (!file_is_there(local)) {
                for (size_t i = 0; i < n; i++) {
                        claim_forget(local, claims[i]);
                        events_of(local)->gone(core_of(local), claims[i], PAWL_REASON_SESSION);
                }
                return;
        }
        for (size_t i = 0; i < n; i++)
                renew_one(local, claims[i], now);
        news_check(local);
}

/* ---- trying again ------------------------------------------------------------------------------------------------ */

void claim_look(struct local *local, struct claim *claim)
{
        switch ((enum step)part_of(claim)->step) {
        case STEP_NONE:
        case STEP_LOOK:
                look_now(local, claim);
                break;
        case STEP_RENEW:
                renew_one(local, claim, local_now(local));
                break;
        case STEP_CANCEL:
                cancel(&local->engine, claim);
                break;
        case STEP_RELEASE:
                release(&local->engine, claim);
                break;
        case STEP_ADOPT:
                lease_adopt(local, claim);
                break;
        }
}

static void look(struct engine *engine, struct claim *claim)
{
        claim_look(local_of(engine), claim);
}

/* ---- open and close ---------------------------------------------------------------------------------------------- */

static int open_path(struct local *local, const struct url *url, struct pawl_why *why)
{
        char path[4096];
        int code;

        if (url->host_count > 0 || url->user != NULL)
                return why_set(why, PAWL_INVALID, "local: takes a directory, as in local:/var/lib/pawl");
        if (url->path[0] != '\0')
                return file_open(local, url->path, why);
        code = file_default_path(path, sizeof(path), why);
        return code == PAWL_OK ? file_open(local, path, why) : code;
}

/* A child may stand in another directory, and be another user. Without memory it is shown as it was given. */
static void show_path(struct local *local, const struct url *url)
{
        char path[PATH_MAX];

        if (realpath(local->path, path) && strcmp(path, url->path) != 0)
                local->engine.url = url_of_path("local", path, strchr(url->shown, '?'));
}

static int open_engine(struct engine *engine, const struct url *url, struct pawl_why *why)
{
        static const char *const known[] = {"ttl", "create", NULL};
        struct local *local = local_of(engine);
        int code;

        local->directory_fd = local->state_fd = local->alive_fd = local->bell.fd = -1;
        list_init(&local->fresh);
        list_init(&local->deep);
        list_init(&local->heads);
        list_init(&local->limbo);
        list_init(&local->stalled);
        list_init(&local->told);
        list_init(&local->errands);
        local->create = true;
        code = url_only(url, known, why);
        if (code == PAWL_OK)
                code = url_flag(url, "create", &local->create, why);
        if (code == PAWL_OK)
                code = process_watch_fork(local, why); /* before there is a lifeline that a child could inherit */
        if (code == PAWL_OK)
                code = open_path(local, url, why);
        if (code == PAWL_OK)
                show_path(local, url);
        engine->capabilities = PAWL_CAN_SHARE | PAWL_CAN_LIMIT | PAWL_CAN_QUEUE | PAWL_CAN_DELAY | PAWL_CAN_DETACH |
                               PAWL_CAN_INSPECT | PAWL_CAN_BREAK | PAWL_CAN_ASK | PAWL_CAN_HISTORY | PAWL_CAN_AGE |
                               PAWL_CAN_KEEP | PAWL_SEES_DEATH | (local->on_tmpfs ? 0 : PAWL_TOKEN_DURABLE);
        return code;
}

static void close_engine(struct engine *engine)
{
        struct local *local = local_of(engine);

        keep_close(local);
        if (local->tick.place != 0)
                loop_unset(engine->host->loop, &local->tick);
        process_leave(local);
        bell_close(local);
        process_unwatch_fork(local);
        file_close(local);
}

const struct engine_instant local_instant = {
        .acquire = instant_acquire,
        .release = instant_release,
        .sleep = sleep_for,
        .look = look,
        .stands = stands,
};

const struct engine_ops local_engine = {
        .name = "local",
        .size = sizeof(struct local),
        .claim_size = sizeof(struct part),
        .open = open_engine,
        .close = close_engine,
        .acquire = acquire,
        .cancel = cancel,
        .overdue = overdue,
        .renew = renew,
        .release = release,
        .instant = &local_instant,
        .inspect = &local_inspect,
        .leases = &local_leases,
        .values = &local_values,
};
