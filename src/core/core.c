/* core.c - the life of a lock: from the claim to the grant, and to its end. Renewal is in renew.c. */
#include "core.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lease.h"

/* A handle that was given back rests before it is used again, so that a second release of it is seen for what it is. */
enum { SPARES_RESTING = 8, SPARES_KEPT = 16384 };

/* ---- states ---------------------------------------------------------------------------------------------------- */

#define TO(state) (1u << LOCK_##state)

static const uint16_t moves[LOCK_STATES] = {
        [LOCK_FREE] = TO(WAITING) | TO(HELD),
        [LOCK_WAITING] = TO(HELD) | TO(REFUSED),
        [LOCK_HELD] = TO(UNCERTAIN) | TO(RELEASING) | TO(LOST) | TO(OVER),
        [LOCK_UNCERTAIN] = TO(HELD) | TO(RELEASING) | TO(LOST) | TO(OVER),
        [LOCK_RELEASING] = TO(OVER),
        [LOCK_LOST] = TO(OVER),
        [LOCK_REFUSED] = TO(OVER),
        [LOCK_OVER] = TO(FREE),
};

bool core_moves(enum lock_state from, enum lock_state to)
{
        return from < LOCK_STATES && to < LOCK_STATES && (moves[from] >> to & 1);
}

static bool held(const struct pawl_lock *lock)
{
        return lock->state == LOCK_HELD || lock->state == LOCK_UNCERTAIN;
}

void core_raise(struct pawl_lock *lock, enum notice notice)
{
        if (lock->sleeper && lock->core->tell(lock, notice))
                return;
        if (!lock->notices)
                list_append(&lock->core->notices, &lock->noticed);
        lock->notices |= notice;
}

struct pawl_lock *core_notice(struct core *core, uint32_t *notices)
{
        struct pawl_lock *lock;

        if (list_empty(&core->notices))
                return NULL;
        lock = list_first(&core->notices, struct pawl_lock, noticed);
        list_remove(&lock->noticed);
        *notices = lock->notices;
        lock->notices = 0;
        return lock;
}

/* ---- the pool -------------------------------------------------------------------------------------------------- */

static void timer_due(struct timer *timer);

void core_init(struct core *core, struct loop *loop)
{
        memset(core, 0, sizeof(*core));
        core->loop = loop;
        list_init(&core->classes);
        list_init(&core->locks);
        list_init(&core->notices);
        loop_random(loop, &core->nonce, sizeof(core->nonce));
}

void core_use(struct core *core, struct engine *engine)
{
        core->engine = engine;
        core->instant = engine ? engine->ops->instant : NULL;
}

/* Why it was refused, for whoever asks later. Without memory the code must do. */
static void keep_sentence(struct pawl_lock *lock, const char *why)
{
        lock->sentence = strdup(why);
        lock->explained = lock->sentence != NULL;
}

static void drop_sentence(struct pawl_lock *lock)
{
        if (lock->explained)
                free(lock->sentence);
        lock->explained = false;
}

static void lock_destroy(struct pawl_lock *lock)
{
        loop_unset(lock->core->loop, &lock->timer);
        list_remove(&lock->term);
        list_remove(&lock->noticed);
        list_remove(&lock->listed);
        renew_forget(lock);
        drop_sentence(lock);
        free(lock->long_text);
        free(lock);
}

void core_free(struct core *core)
{
        while (!list_empty(&core->locks))
                lock_destroy(list_first(&core->locks, struct pawl_lock, listed));
        while (!list_empty(&core->classes)) {
                struct ttl_class *class = list_first(&core->classes, struct ttl_class, listed);

                loop_unset(core->loop, &class->timer);
                list_remove(&class->listed);
                free(class);
        }
        free(core->batch);
}

static struct pawl_lock *lock_new(struct core *core)
{
        size_t head = (sizeof(struct pawl_lock) + 15) & ~(size_t)15;
        struct pawl_lock *lock = calloc(1, head + core->engine->claim_size);

        if (!lock)
                return NULL;
        lock->core = core;
        lock->claim.part = (char *)lock + head;
        lock->timer.fire = timer_due;
        list_init(&lock->term);
        list_init(&lock->noticed);
        list_append(&core->locks, &lock->listed);
        return lock;
}

static struct pawl_lock *lock_reuse(struct core *core)
{
        struct pawl_lock *lock = core->first_spare;

        core->first_spare = lock->next_spare;
        core->spares--;
        lock->marks[0] = lock->marks[1] = lock->marks[2] = lock->marks[3] = 0;
        lock->token = 0;
        lock->on_granted = NULL;
        lock->on_released = NULL;
        return lock;
}

static void lock_spare(struct pawl_lock *lock)
{
        struct core *core = lock->core;

        lock->next_spare = NULL;
        if (core->spares++ == 0)
                core->first_spare = lock;
        else
                core->last_spare->next_spare = lock;
        core->last_spare = lock;
        if (core->spares > SPARES_KEPT) {
                struct pawl_lock *oldest = core->first_spare;

                core->first_spare = oldest->next_spare;
                core->spares--;
                lock_destroy(oldest);
        }
}

static bool set_long_text(struct pawl_lock *lock, const char *name, size_t length, const char *note, size_t note_length)
{
        lock->long_text = malloc(length + note_length + 2);
        if (!lock->long_text)
                return false;
        memcpy(lock->long_text, name, length);
        lock->long_text[length] = '\0';
        lock->claim.name = lock->long_text;
        lock->claim.note = memcpy(lock->long_text + length + 1, note, note_length);
        lock->long_text[length + 1 + note_length] = '\0';
        return true;
}

/* A short name stays the caller's until keep_name: to read a copy while it is still on its way to the cache costs more
 * than everything else that is done with it. */
static bool set_text(struct pawl_lock *lock, const char *name, size_t length, const char *note, size_t note_length)
{
        size_t needed = length + 1 + (note_length ? note_length + 1 : 0);

        lock->claim.name = name;
        lock->claim.name_length = length;
        lock->claim.note = "";
        if (needed > LOCK_TEXT_ROOM)
                return set_long_text(lock, name, length, note_length ? note : "", note_length);
        if (note_length) {
                lock->claim.note = memcpy(lock->text + length + 1, note, note_length);
                lock->text[length + 1 + note_length] = '\0';
        }
        return true;
}

static void keep_name(struct pawl_lock *lock)
{
        if (lock->long_text)
                return;
        memcpy(lock->text, lock->claim.name, lock->claim.name_length);
        lock->text[lock->claim.name_length] = '\0';
        lock->claim.name = lock->text;
}

struct pawl_lock *core_lock(struct core *core, const char *name, size_t length, const char *note, size_t note_length)
{
        struct pawl_lock *lock = core->spares > SPARES_RESTING ? lock_reuse(core) : lock_new(core);

        if (!lock)
                return NULL;
        if (!set_text(lock, name, length, note, note_length)) {
                lock_destroy(lock);
                return NULL;
        }
        lock->claim.lost = false;
        return lock;
}

void core_settle(struct pawl_lock *lock)
{
        if (lock->owned || lock->known || lock->notices || lock->running || lock->sleeper)
                return;
        if (lock->state != LOCK_OVER) {
                if (lock->state != LOCK_REFUSED && lock->state != LOCK_LOST)
                        return;
                core_move(lock, LOCK_OVER);
        }
        core_move(lock, LOCK_FREE);
        drop_sentence(lock);
        core_drop(lock);
}

void core_drop(struct pawl_lock *lock)
{
        if (lock->long_text) {
                free(lock->long_text);
                lock->long_text = NULL;
        }
        lock_spare(lock);
}

/* ---- acquire --------------------------------------------------------------------------------------------------- */

static void refuse(struct pawl_lock *lock, int code, const char *why)
{
        loop_unset(lock->core->loop, &lock->timer);
        core_move(lock, LOCK_REFUSED);
        lock->status = (int16_t)code;
        if (lock->why)
                why_set(lock->why, code, "%s", why ? why : pawl_strerror(code));
        else if (why)
                keep_sentence(lock, why);
        core_count_refusal(lock->core, code);
        core_raise(lock, NOTICE_GRANTED);
}

static void believe(struct pawl_lock *lock, const struct grant *grant, int64_t now)
{
        core_set_valid(lock, lease_end(grant->sent_at, lock->claim.ttl)); /* before the state by which it is read */
        core_move(lock, LOCK_HELD);
        lock->status = PAWL_OK;
        __atomic_store_n(&lock->token, grant->token, __ATOMIC_RELAXED); /* pawl_token reads it unlocked */
        lock->sent_at = grant->sent_at;
        lock->granted_at = now;
        core_count_grant(lock, now);
        renew_begin(lock);
}

static void hold(struct pawl_lock *lock, const struct grant *grant, int64_t now)
{
        if (lock->timer.place)
                loop_unset(lock->core->loop, &lock->timer);
        believe(lock, grant, now);
        core_raise(lock, NOTICE_GRANTED);
}

/* Fresh for each attempt: a lost release plus a second acquire must not resume the old tenure. Only the uid of a lease that
 * is handed around as a word is a secret; the others cost no random numbers. */
static void set_uid(struct pawl_lock *lock)
{
        struct core *core = lock->core;

        if (lock->claim.detached) {
                loop_random(core->loop, lock->claim.uid, sizeof(lock->claim.uid));
                return;
        }
        lock->claim.uid[0] = core->nonce;
        lock->claim.uid[1] = ++core->attempts;
}

int core_acquire_now(struct pawl_lock *lock)
{
        struct core *core = lock->core;
        struct grant grant;
        int code;

        if (renew_prepare(lock) != PAWL_OK)
                return PAWL_NO_MEMORY;
        set_uid(lock);
        lock->tick = loop_tick(core->loop);
        lock->started_at = loop_now(core->loop);
        code = core->instant->acquire(core->engine, &lock->claim, lock->started_at, &grant);
        if (code != PAWL_OK)
                return code;
        keep_name(lock);
        lock->known = true;
        lock->sampled = ++core->short_ways % SAMPLE_EVERY == 0;
        believe(lock, &grant, lock->sampled ? loop_now(core->loop) : lock->started_at);
        return PAWL_OK;
}

static void set_out(struct pawl_lock *lock)
{
        lock->started_at = loop_now(lock->core->loop);
        keep_name(lock);
        set_uid(lock);
        memset(lock->claim.part, 0, lock->core->engine->claim_size);
        core_move(lock, LOCK_WAITING);
}

/* The long way, also where the short one found an error: it comes with a sentence here. */
void core_ask(struct pawl_lock *lock, int64_t wait)
{
        struct core *core = lock->core;

        set_out(lock);
        if (renew_prepare(lock) != PAWL_OK) {
                refuse(lock, PAWL_NO_MEMORY, NULL);
                return;
        }
        if (wait != NEVER && loop_set(core->loop, &lock->timer, lock->started_at + wait) != 0) {
                refuse(lock, PAWL_NO_MEMORY, NULL);
                return;
        }
        lock->known = true;
        core->engine->ops->acquire(core->engine, &lock->claim);
}

void core_acquire(struct pawl_lock *lock, int64_t wait)
{
        if (lock->core->instant && core_acquire_now(lock) == PAWL_OK)
                core_raise(lock, NOTICE_GRANTED);
        else
                core_ask(lock, wait);
}

void core_adopt(struct pawl_lock *lock, const char *word)
{
        struct core *core = lock->core;

        set_out(lock);
        if (renew_prepare(lock) != PAWL_OK) {
                refuse(lock, PAWL_NO_MEMORY, NULL);
                return;
        }
        lock->known = true;
        lock->adopted = true;
        core->engine->ops->leases->adopt(core->engine, &lock->claim, word);
}

static void refuse_by_verdict(struct pawl_lock *lock, const struct pawl_why *verdict)
{
        refuse(lock, verdict->code, verdict->text[0] ? verdict->text : NULL);
}

/* A store that does not answer is not a lock that is taken: who gives up after a second must learn which it was. */
static void judge(const struct pawl_lock *lock, bool timed_out, struct pawl_why *verdict)
{
        struct engine *engine = lock->core->engine;

        *verdict = (struct pawl_why){.code = timed_out ? PAWL_TIMEOUT : PAWL_CANCELLED};
        if (timed_out && !lock->again && engine->ops->overdue &&
            engine->ops->overdue(engine, &lock->claim, verdict) == PAWL_TIMEOUT)
                *verdict = (struct pawl_why){.code = PAWL_TIMEOUT};
}

/* The caller's time is up whether or not the store answers: what it says afterwards is cleaned up behind him. */
void core_cancel(struct pawl_lock *lock, bool timed_out)
{
        struct core *core = lock->core;
        struct pawl_why verdict;

        if (lock->state != LOCK_WAITING)
                return;
        judge(lock, timed_out, &verdict);
        lock->verdict = &verdict;
        if (lock->again) /* between two attempts: the engine has nothing to cancel */
                lock->again = false;
        else
                core->engine->ops->cancel(core->engine, &lock->claim);
        lock->verdict = NULL;
        if (lock->state == LOCK_WAITING)
                refuse_by_verdict(lock, &verdict);
}

/* ---- the end --------------------------------------------------------------------------------------------------- */

static void let_go(struct pawl_lock *lock)
{
        struct engine *engine = lock->core->engine;

        if (!lock->known)
                return;
        if (lock->claim.detached) { /* somebody else may have renewed it by its word */
                lock->known = false;
                engine->ops->leases->forget(engine, &lock->claim);
        } else {
                engine->ops->release(engine, &lock->claim);
        }
}

/* Not a warning: those are for what nobody is told otherwise, and this one the holder is. */
static void log_loss(const struct pawl_lock *lock, int reason)
{
        const struct engine_host *host = lock->core->engine->host;
        char text[PAWL_NAME_MAX + 64];

        snprintf(text, sizeof(text), "%s is lost: %s", lock->claim.name, pawl_reason_text(reason));
        host->log(host, PAWL_LOG_INFO, text);
}

void core_lose(struct pawl_lock *lock, int reason, int64_t now)
{
        renew_end(lock);
        core_move(lock, LOCK_LOST);
        lock->reason = (uint8_t)reason;
        core_count_end(lock, now, 1);
        lock->core->stats.lost++;
        log_loss(lock, reason);
        core_raise(lock, NOTICE_LOST);
        lock->claim.lost = true;
        let_go(lock);
        core_end_renewal(lock, PAWL_LOST);
}

bool core_holds(struct pawl_lock *lock, int64_t now)
{
        if (!held(lock))
                return false;
        if (now < core_valid_until(lock))
                return true;
        core_lose(lock, PAWL_REASON_EXPIRED, now);
        return false;
}

bool core_stands(struct pawl_lock *lock, int64_t now)
{
        int64_t until = core_valid_until(lock);

        while (now >= until) /* else it was renewed just now */
                if (until == LEASE_OVER || __atomic_compare_exchange_n(&lock->valid_until, &until, LEASE_OVER, 0,
                                                                       __ATOMIC_RELAXED, __ATOMIC_RELAXED))
                        return false;
        return true;
}

static void finish_release(struct pawl_lock *lock, int code)
{
        if (lock->timer.place)
                loop_unset(lock->core->loop, &lock->timer);
        core_move(lock, LOCK_OVER);
        lock->release_status = (int16_t)code;
        if (code == PAWL_OK)
                lock->core->stats.released++;
        core_raise(lock, NOTICE_RELEASED);
}

static int give_back_now(struct pawl_lock *lock, int64_t now)
{
        struct core *core = lock->core;
        int code = core->instant->release(core->engine, &lock->claim, now);

        if (code == PAWL_STUCK) /* another process is in the way: nothing done */
                return code;
        lock->known = false;
        if (code == PAWL_LOST)
                core->stats.lost++;
        return code;
}

/* The time of a short way's end. While the timer has not ticked the lease cannot have run out (the shortest is several
 * ticks long), and to know the time better would cost as much as all the rest: so only for the figures, now and then. */
static int64_t end_of_short_way(const struct pawl_lock *lock, uint32_t *weight)
{
        const struct loop *loop = lock->core->loop;
        bool same_tick = lock->tick == loop_tick(loop);

        *weight = !same_tick ? 1 : lock->sampled ? SAMPLE_EVERY : 0;
        return *weight ? loop_now(loop) : lock->granted_at;
}

bool core_release_now(struct pawl_lock *lock, int *code)
{
        struct core *core = lock->core;
        uint32_t weight;
        int64_t now;

        if (!core->instant || lock->state != LOCK_HELD || lock->notices || lock->running || lock->sleeper)
                return false;
        now = end_of_short_way(lock, &weight);
        if (now >= core_valid_until(lock))
                return false;
        *code = give_back_now(lock, now);
        if (*code == PAWL_STUCK)
                return false;
        renew_end(lock);
        core_count_end(lock, now, weight);
        core->stats.released += *code == PAWL_OK;
        core_move(lock, LOCK_OVER);
        core_move(lock, LOCK_FREE);
        core_set_owned(lock, false);
        core_drop(lock);
        return true;
}

static void release_held(struct pawl_lock *lock, int64_t now)
{
        struct core *core = lock->core;
        int code;

        renew_end(lock); /* no renewal is sent after the release */
        core_count_end(lock, now, 1);
        if (core->instant && (code = give_back_now(lock, now)) != PAWL_STUCK) {
                finish_release(lock, code);
                return;
        }
        core_move(lock, LOCK_RELEASING);
        (void)!loop_set(core->loop, &lock->timer,
                        core_valid_until(lock)); /* without it the engine's own answer is awaited */
        core->engine->ops->release(core->engine, &lock->claim);
}

static void release_waiting(struct pawl_lock *lock)
{
        core_cancel(lock, false);
        if (lock->state == LOCK_REFUSED)
                finish_release(lock, PAWL_CANCELLED);
        else /* the grant was faster */
                core_release(lock);
}

void core_explain(const struct pawl_lock *lock, struct pawl_why *why)
{
        memset(why, 0, sizeof(*why));
        if (lock->state == LOCK_REFUSED)
                why_set(why, lock->status, "%s", lock->explained ? lock->sentence : pawl_strerror(lock->status));
        else if (lock->reason != PAWL_REASON_NONE)
                why_set(why, PAWL_LOST, "the lock '%s' is lost: %s", lock->claim.name, pawl_reason_text(lock->reason));
}

void core_release(struct pawl_lock *lock)
{
        int64_t now = loop_now(lock->core->loop);

        core_end_renewal(lock, PAWL_LOST);
        if (lock->state == LOCK_WAITING)
                release_waiting(lock);
        else if (core_holds(lock, now))
                release_held(lock, now);
        else
                finish_release(lock, lock->state == LOCK_LOST ? PAWL_LOST : PAWL_CANCELLED);
}

void core_forget(struct pawl_lock *lock)
{
        struct core *core = lock->core;

        core_end_renewal(lock, PAWL_LOST);
        if (held(lock)) {
                renew_end(lock);
                core_count_end(lock, loop_now(core->loop), 1);
                lock->known = false;
                core->engine->ops->leases->forget(core->engine, &lock->claim);
                core_move(lock, LOCK_OVER);
        }
        core_settle(lock);
}

void core_renew(struct pawl_lock *lock)
{
        struct core *core = lock->core;
        struct claim *claim = &lock->claim;

        lock->renew_wanted = true;
        if (lock->renewing)
                return;
        if (!core_holds(lock, loop_now(core->loop))) {
                core_end_renewal(lock, PAWL_LOST);
                return;
        }
        lock->renewing = true;
        core->engine->ops->renew(core->engine, &claim, 1);
}

/* A renewal that is under way may still count; it was asked for before. */
void core_wound(struct pawl_lock *lock)
{
        assert(held(lock));
        __atomic_store_n(&lock->wounded, true, __ATOMIC_RELAXED); /* pawl_check reads it unlocked */
        if (lock->fixed)
                return;
        lock->fixed = true;
        renew_end(lock);
        renew_begin(lock);
}

/* One timer serves both ends: a wait that is over, a release that nobody confirmed. */
static void timer_due(struct timer *timer)
{
        struct pawl_lock *lock = container_of(timer, struct pawl_lock, timer);

        if (lock->state == LOCK_WAITING)
                core_cancel(lock, true);
        else if (lock->state == LOCK_RELEASING)
                finish_release(lock, PAWL_IN_DOUBT);
}

/* ---- what the engine tells -------------------------------------------------------------------------------------- */

static struct pawl_lock *lock_of(struct claim *claim)
{
        return container_of(claim, struct pawl_lock, claim);
}

/* The grant took longer than its lease: not worth telling. Give it back and ask again, as a new attempt. A lease that was
 * to be taken up in its last moments has simply run out. */
static void grant_too_late(struct pawl_lock *lock)
{
        struct engine *engine = lock->core->engine;

        if (lock->adopted)
                refuse(lock, PAWL_LOST, "the lease ran out while it was taken up");
        else if (lock->claim.wait)
                lock->again = true;
        else
                refuse(lock, PAWL_UNREACHABLE, "the store's answer took longer than the lease it granted");
        engine->ops->release(engine, &lock->claim);
}

static void on_granted(void *core, struct claim *claim, const struct grant *grant)
{
        struct pawl_lock *lock = lock_of(claim);
        struct engine *engine = lock->core->engine;
        int64_t now = loop_now(lock->core->loop);

        (void)core;
        if (lock->state != LOCK_WAITING) { /* given up meanwhile */
                engine->ops->release(engine, claim);
        } else if (now >= lease_end(grant->sent_at, claim->ttl)) {
                grant_too_late(lock);
        } else {
                hold(lock, grant, now);
        }
}

static void on_refused(void *core, struct claim *claim, int code, const char *why)
{
        struct pawl_lock *lock = lock_of(claim);

        (void)core;
        lock->known = false;
        if (lock->state != LOCK_WAITING)
                core_settle(lock);
        else if (code == PAWL_CANCELLED && lock->verdict)
                refuse_by_verdict(lock, lock->verdict);
        else
                refuse(lock, code, why);
}

static void on_renewed(void *core, struct claim *claim, int code, int64_t sent_at)
{
        (void)core;
        renew_answer(lock_of(claim), code, sent_at);
}

static void ask_again(struct pawl_lock *lock)
{
        struct core *core = lock->core;

        lock->again = false;
        set_uid(lock);
        memset(lock->claim.part, 0, core->engine->claim_size);
        lock->known = true;
        core->engine->ops->acquire(core->engine, &lock->claim);
}

static void on_released(void *core, struct claim *claim, int code)
{
        struct pawl_lock *lock = lock_of(claim);

        (void)core;
        lock->known = false;
        if (lock->state == LOCK_WAITING && lock->again)
                ask_again(lock);
        else if (lock->state == LOCK_RELEASING)
                finish_release(lock, code);
        else
                core_settle(lock);
}

static void on_gone(void *core, struct claim *claim, int reason)
{
        struct pawl_lock *lock = lock_of(claim);

        (void)core;
        lock->known = false;
        lock->renewing = false;
        if (held(lock))
                core_lose(lock, reason, loop_now(lock->core->loop));
        else
                on_released(core, claim, PAWL_LOST);
}

static void on_asked(void *core, struct claim *claim)
{
        struct pawl_lock *lock = lock_of(claim);

        (void)core;
        if (!held(lock) || lock->asked)
                return;
        lock->asked = true;
        core_raise(lock, NOTICE_ASKED);
}

const struct engine_events core_events = {
        .granted = on_granted,
        .refused = on_refused,
        .renewed = on_renewed,
        .released = on_released,
        .gone = on_gone,
        .asked = on_asked,
};
