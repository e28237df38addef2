/* renew.c - keeps held locks alive, and stops believing in time. One class per ttl; see core.h. */
#include <stdlib.h>

#include "core.h"
#include "lease.h"

enum { CLASSES_KEPT = 8 };

static void class_due(struct timer *timer);

static struct ttl_class *class_new(struct core *core, int64_t ttl)
{
        struct ttl_class *class = calloc(1, sizeof(*class));

        if (!class)
                return NULL;
        class->core = core;
        class->ttl = ttl;
        class->retry_at = NEVER;
        class->timer.fire = class_due;
        list_init(&class->fresh);
        list_init(&class->renewing);
        list_init(&class->fixed);
        list_init(&class->listed);
        if (loop_set(core->loop, &class->timer, NEVER) != 0) {
                free(class);
                return NULL;
        }
        core->class_count++;
        return class;
}

static void class_free(struct ttl_class *class)
{
        loop_unset(class->core->loop, &class->timer);
        list_remove(&class->listed);
        class->core->class_count--;
        free(class);
}

static void class_first(struct ttl_class *class)
{
        list_remove(&class->listed);
        list_append(class->core->classes.next, &class->listed); /* before the first: at the head */
}

static struct ttl_class *class_find(struct core *core, int64_t ttl)
{
        struct ttl_class *class;

        for (struct list *at = core->classes.next; at != &core->classes; at = at->next) {
                class = container_of(at, struct ttl_class, listed);
                if (class->ttl == ttl)
                        return class;
        }
        return NULL;
}

int renew_find(struct pawl_lock *lock)
{
        struct core *core = lock->core;
        struct ttl_class *class = class_find(core, lock->claim.ttl);

        renew_forget(lock);
        if (!class)
                class = class_new(core, lock->claim.ttl);
        if (!class)
                return PAWL_NO_MEMORY;
        if (core->classes.next != &class->listed)
                class_first(class);
        class->users++;
        lock->ttl_class = class;
        return PAWL_OK;
}

void renew_forget(struct pawl_lock *lock)
{
        struct ttl_class *class = lock->ttl_class;

        lock->ttl_class = NULL;
        if (class && --class->users == 0 && class->core->class_count > CLASSES_KEPT)
                class_free(class);
}

static struct pawl_lock *head(struct list *list)
{
        return list_empty(list) ? NULL : list_first(list, struct pawl_lock, term);
}

static void wake_class_by(struct ttl_class *class, int64_t at)
{
        if (at < class->timer.at)
                loop_set(class->core->loop, &class->timer, at); /* moving: cannot fail */
}

/* Answers overtake each other: a grant that was asked for earlier may be told later, and it ends earlier. Its place is
 * found from the end, where it nearly always belongs. */
static void put_in_order(struct list *list, struct pawl_lock *lock)
{
        struct list *before = list->prev;

        while (before != list && container_of(before, struct pawl_lock, term)->sent_at > lock->sent_at)
                before = before->prev;
        list_append(before->next, &lock->term);
}

void renew_begin(struct pawl_lock *lock)
{
        struct ttl_class *class = lock->ttl_class;

        if (lock->fixed) {
                put_in_order(&class->fixed, lock);
                wake_class_by(class, core_valid_until(lock));
        } else {
                put_in_order(&class->fresh, lock);
                wake_class_by(class, lease_renew_at(lock->sent_at, class->ttl));
        }
}

void renew_end(struct pawl_lock *lock)
{
        list_remove(&lock->term); /* the timer stays: it finds less to do, and costs no system call now */
}

/* ---- the class's timer ---------------------------------------------------------------------------------------- */

static void lose_expired(struct list *list, int64_t now)
{
        struct pawl_lock *lock;

        while ((lock = head(list)) && core_valid_until(lock) <= now)
                core_lose(lock, PAWL_REASON_EXPIRED, now);
}

static void doubt(struct pawl_lock *lock)
{
        if (lock->state != LOCK_HELD)
                return;
        core_move(lock, LOCK_UNCERTAIN);
        lock->core->stats.uncertain++;
}

static void doubt_unanswered(struct ttl_class *class, int64_t now)
{
        for (struct list *at = class->renewing.next; at != &class->renewing; at = at->next) {
                struct pawl_lock *lock = container_of(at, struct pawl_lock, term);

                if (lease_doubt_at(lock->sent_at, class->ttl) > now)
                        break;
                doubt(lock);
        }
}

static bool batch_add(struct core *core, size_t n, struct pawl_lock *lock)
{
        if (n == core->batch_room) {
                size_t room = n ? 2 * n : 64;
                struct claim **batch = realloc(core->batch, room * sizeof(*batch));

                if (!batch)
                        return false; /* a smaller batch now, the rest at the next turn */
                core->batch = batch;
                core->batch_room = room;
        }
        core->batch[n] = &lock->claim;
        return true;
}

/* Everything that is due within the next thirtieth of a ttl goes along: one batch instead of many. */
static size_t gather_due(struct ttl_class *class, int64_t now)
{
        int64_t horizon = now + class->ttl / 30;
        struct pawl_lock *lock;
        size_t n = 0;

        if (!(lock = head(&class->fresh)) || lease_renew_at(lock->sent_at, class->ttl) > now)
                return 0;
        while ((lock = head(&class->fresh)) && lease_renew_at(lock->sent_at, class->ttl) <= horizon) {
                if (core_valid_until(lock) <= now) {
                        core_lose(lock, PAWL_REASON_EXPIRED, now);
                        continue;
                }
                if (!batch_add(class->core, n, lock))
                        break;
                n++;
                list_remove(&lock->term);
                put_in_order(&class->renewing, lock);
                lock->renewing = true;
        }
        return n;
}

static size_t gather_failed(struct ttl_class *class, int64_t now, size_t n)
{
        if (class->retry_at > now)
                return n;
        class->retry_at = NEVER;
        for (struct list *at = class->renewing.next; at != &class->renewing; at = at->next) {
                struct pawl_lock *lock = container_of(at, struct pawl_lock, term);

                if (lock->renewing)
                        continue;
                if (!batch_add(class->core, n, lock)) {
                        class->retry_at = now + lease_retry_after(class->ttl);
                        break;
                }
                n++;
                lock->renewing = true;
        }
        return n;
}

static int64_t earlier(int64_t a, int64_t b)
{
        return a < b ? a : b;
}

static int64_t class_next(struct ttl_class *class)
{
        struct pawl_lock *lock;
        int64_t next = class->retry_at;

        if ((lock = head(&class->fixed)))
                next = earlier(next, core_valid_until(lock));
        if ((lock = head(&class->fresh)))
                next = earlier(next, lease_renew_at(lock->sent_at, class->ttl));
        if ((lock = head(&class->renewing))) {
                next = earlier(next, core_valid_until(lock));
                if (lock->state == LOCK_HELD)
                        next = earlier(next, lease_doubt_at(lock->sent_at, class->ttl));
        }
        return next;
}

static void class_due(struct timer *timer)
{
        struct ttl_class *class = container_of(timer, struct ttl_class, timer);
        struct core *core = class->core;
        int64_t now = loop_now(core->loop);
        size_t n;

        loop_set(core->loop, timer, NEVER); /* at once, while the heap still has the room it left: cannot fail */
        class->users++;                     /* the class outlives what it does to its locks */
        lose_expired(&class->fixed, now);
        lose_expired(&class->renewing, now);
        doubt_unanswered(class, now);
        n = gather_due(class, now);
        n = gather_failed(class, now, n);
        if (n)
                core->engine->ops->renew(core->engine, core->batch, n);
        class->users--;
        wake_class_by(class, class_next(class));
}

/* ---- answers -------------------------------------------------------------------------------------------------- */

/* False if pawl_check has said meanwhile that the lease is over. */
static bool believe(struct pawl_lock *lock, int64_t sent_at, int64_t now)
{
        struct core *core = lock->core;
        struct ttl_class *class = lock->ttl_class;
        int64_t until = core_valid_until(lock);

        if (until == LEASE_OVER)
                return false;
        if (sent_at > lock->sent_at) {
                if (!core_extend_valid(lock, lease_end(sent_at, class->ttl)))
                        return false;
                lock->sent_at = sent_at;
        }
        histogram_record(&core->stats.renew_slack, until - now, 1);
        core->stats.renewals++;
        if (lock->state == LOCK_UNCERTAIN)
                core_move(lock, LOCK_HELD);
        list_remove(&lock->term);
        renew_begin(lock);
        return true;
}

static void disbelieve(struct pawl_lock *lock, int64_t now)
{
        struct ttl_class *class = lock->ttl_class;

        lock->core->stats.renewal_failures++;
        if (lock->fixed)
                return;
        doubt(lock);
        class->retry_at = earlier(class->retry_at, now + lease_retry_after(class->ttl));
        wake_class_by(class, class->retry_at);
}

void renew_answer(struct pawl_lock *lock, int code, int64_t sent_at)
{
        int64_t now = loop_now(lock->core->loop);

        lock->renewing = false;
        if (lock->state != LOCK_HELD && lock->state != LOCK_UNCERTAIN)
                return;
        if (core_valid_until(lock) <= now) { /* a lease is never resurrected */
                core_lose(lock, PAWL_REASON_EXPIRED, now);
                code = PAWL_LOST;
        } else if (code != PAWL_OK) {
                disbelieve(lock, now);
        } else if (!believe(lock, sent_at, now)) {
                core_lose(lock, PAWL_REASON_EXPIRED, now);
                code = PAWL_LOST;
        }
        core_end_renewal(lock, code);
}

void core_end_renewal(struct pawl_lock *lock, int code)
{
        if (!lock->renew_wanted)
                return;
        lock->renew_wanted = false;
        lock->renew_status = (int16_t)code;
        core_raise(lock, NOTICE_RENEWED);
}
