/* lock.c - acquire, release and what lies between them: the blocking calls and their asynchronous twins. */
#include <string.h>

#include "../base/name.h"
#include "../core/lease.h"
#include "client.h"

/* ---- asking ------------------------------------------------------------------------------------------------------ */

static int check_mode(const struct pawl_client *client, const struct pawl_lock_options *options)
{
        uint32_t can = client->engine->capabilities;
        uint32_t known = PAWL_NO_RENEW | PAWL_DETACH | PAWL_RENEW | PAWL_CONFIRM | PAWL_BRIEF;

        if (options->mode > PAWL_SHARED)
                return why_set(options->why, PAWL_INVALID, "mode %u is neither PAWL_EXCLUSIVE nor PAWL_SHARED",
                               options->mode);
        if (options->max_holders && options->mode != PAWL_SHARED)
                return why_set(options->why, PAWL_INVALID, "max_holders needs mode PAWL_SHARED");
        if (options->flags & ~known)
                return why_set(options->why, PAWL_UNSUPPORTED, "flags 0x%x are not known to this version",
                               options->flags & ~known);
        if (options->flags & PAWL_RENEW && (options->flags & PAWL_NO_RENEW || !(options->flags & PAWL_DETACH)))
                return why_set(options->why, PAWL_INVALID,
                               "PAWL_RENEW goes with PAWL_DETACH, and not with PAWL_NO_RENEW");
        if (options->flags & PAWL_CONFIRM &&
            (options->mode != PAWL_EXCLUSIVE || options->flags & PAWL_DETACH || options->delay_ms))
                return why_set(options->why, PAWL_INVALID,
                               "PAWL_CONFIRM is for exclusive locks, without PAWL_DETACH and delay_ms");
        if (options->mode == PAWL_SHARED && !(can & PAWL_CAN_SHARE))
                return why_set(options->why, PAWL_UNSUPPORTED, "this engine has no shared locks");
        if (options->max_holders && !(can & PAWL_CAN_LIMIT))
                return why_set(options->why, PAWL_UNSUPPORTED, "this engine cannot limit the number of holders");
        if (options->flags & PAWL_DETACH && !(can & PAWL_CAN_DETACH))
                return why_set(options->why, PAWL_UNSUPPORTED, "this engine has no leases that outlive their client");
        if (options->delay_ms && !(can & PAWL_CAN_DELAY))
                return why_set(options->why, PAWL_UNSUPPORTED, "this engine has no lock-delay");
        if (options->age && !(can & PAWL_CAN_AGE))
                return why_set(options->why, PAWL_UNSUPPORTED, "this engine does not keep the age of a claim");
        return PAWL_OK;
}

static int check_times(const struct pawl_lock_options *options)
{
        if (options->ttl_ms && (options->ttl_ms < LEASE_TTL_MIN / MS || options->ttl_ms > LEASE_TTL_MAX / MS))
                return why_set(options->why, PAWL_INVALID, "a ttl of %lld ms is not between %lld ms and 366 days",
                               (long long)options->ttl_ms, (long long)(LEASE_TTL_MIN / MS));
        if (options->wait_ms < PAWL_NO_WAIT || options->wait_ms > LEASE_TTL_MAX / MS)
                return why_set(options->why, PAWL_INVALID,
                               "a wait of %lld ms is neither PAWL_FOREVER, PAWL_NO_WAIT nor below 366 days",
                               (long long)options->wait_ms);
        if (options->delay_ms < 0 || options->delay_ms > LEASE_TTL_MAX / MS)
                return why_set(options->why, PAWL_INVALID, "a lock-delay of %lld ms is not between 0 and 366 days",
                               (long long)options->delay_ms);
        return PAWL_OK;
}

static const struct pawl_lock_options defaults = {.size = sizeof(defaults)};

static int copy_options(struct pawl_lock_options *room, const struct pawl_lock_options *theirs)
{
        int code;

        if (theirs && theirs->size == 0)
                return why_set(theirs->why, PAWL_INVALID, OPTIONS_SIZELESS, "PAWL_LOCK(...)", "pawl_lock_options");
        code = options_read(room, sizeof(*room), theirs);
        return code == PAWL_UNSUPPORTED ? why_set(room->why, code, OPTIONS_NEWER, "pawl_lock_options") : code;
}

/* Before anything else is looked at: there is nothing to use, or no place for what was asked for. */
static int refuse_call(const struct pawl_lock_options *theirs, int code, const char *text)
{
        struct pawl_lock_options room;

        return copy_options(&room, theirs) == PAWL_OK ? why_set(room.why, code, "%s", text) : code;
}

static int refuse_client(const struct pawl_lock_options *theirs, int code)
{
        return refuse_call(theirs, code,
                           code == PAWL_FORKED ? "the client belongs to the parent process: open another after fork()"
                                               : "there is no client: it is NULL");
}

static int refuse_place(const struct pawl_lock_options *theirs)
{
        return refuse_call(theirs, PAWL_INVALID, "there is no place for the lock: it is NULL");
}

/* Options of our own version are read where they are; others are copied into room. */
static int read_options(struct pawl_client *client, const struct pawl_lock_options *theirs,
                        struct pawl_lock_options *room, const struct pawl_lock_options **options)
{
        int code = PAWL_OK;

        *options = theirs ? theirs : &defaults;
        if (!theirs)
                return PAWL_OK;
        if (theirs->size != sizeof(*theirs)) {
                code = copy_options(room, theirs);
                *options = room;
        }
        if (code == PAWL_OK)
                code = check_mode(client, *options);
        return code == PAWL_OK ? check_times(*options) : code;
}

/* As much as fits, and no character cut in half. */
static size_t length_of_note(const char *note)
{
        size_t length = note ? strnlen(note, PAWL_NOTE_MAX + 1) : 0;

        if (length <= PAWL_NOTE_MAX)
                return length;
        length = PAWL_NOTE_MAX;
        while (length && ((unsigned char)note[length] & 0xc0) == 0x80)
                length--;
        return length;
}

static void fill_claim(struct pawl_client *client, struct pawl_lock *lock, const struct pawl_lock_options *options)
{
        struct claim *claim = &lock->claim;

        claim->ttl = options->ttl_ms ? options->ttl_ms * MS : client->ttl;
        claim->delay = options->delay_ms * MS;
        claim->age = options->age;
        claim->mode = options->mode;
        claim->max_holders = options->max_holders;
        claim->wait = options->wait_ms != PAWL_NO_WAIT;
        claim->detached = options->flags & PAWL_DETACH;
        claim->confirms = options->flags & PAWL_CONFIRM ? 1 : 0;
        claim->blocking = false;
        lock->fixed = options->flags & (PAWL_NO_RENEW | PAWL_DETACH) && !(options->flags & PAWL_RENEW);
        lock->on_lost = options->on_lost;
        lock->on_asked = options->on_asked;
        lock->arg = options->arg;
}

static int64_t wait_of(const struct pawl_lock_options *options)
{
        return options->wait_ms > 0 ? options->wait_ms * MS : NEVER;
}

/* Locked: a lock for the claim, filled. */
static int prepare(struct pawl_client *client, const char *name, size_t length, bool blocking,
                   const struct pawl_lock_options *options, struct pawl_lock **lock)
{
        int code;

        if (client->closing)
                return why_set(options->why, PAWL_MISUSE, "the client is being closed");
        if (blocking && client_calls_back(client)) /* it would wait for itself */
                return why_set(options->why, PAWL_MISUSE,
                               "a blocking call inside a callback: use the asynchronous one");
        if (!client->thread_up && (code = client_thread(client, options->why)) != PAWL_OK)
                return code;
        *lock = core_lock(&client->core, name, length, options->note, length_of_note(options->note));
        if (!*lock)
                return why_set(options->why, PAWL_NO_MEMORY, "out of memory");
        fill_claim(client, *lock, options);
        return PAWL_OK;
}

/* One acquire: what was asked for, and how. */
struct request {
        const struct pawl_lock_options *options;
        struct pawl_lock_options room;
};

/* Everything that can be wrong is found here, before anything is asked. Locked if, and only if, PAWL_OK. */
static int begin(struct pawl_client *client, const char *name, const struct pawl_lock_options *theirs, bool blocking,
                 struct request *request, struct pawl_lock **lock)
{
        size_t length;
        int code = client_check(client);

        if (code != PAWL_OK)
                return refuse_client(theirs, code);
        code = read_options(client, theirs, &request->room, &request->options);
        if (code == PAWL_OK && (length = name_plain(name)) == 0)
                code = name_check(name, &length, request->options->why);
        if (code != PAWL_OK)
                return code;
        client_lock(client);
        code = prepare(client, name, length, blocking, request->options, lock);
        if (code != PAWL_OK)
                client_unlock(client);
        return code;
}

/* ---- blocking ----------------------------------------------------------------------------------------------------- */

/* A store in memory: the thread sleeps on the claim's own word, and nobody has to hand the news on. */
static void sleep_instantly(struct pawl_client *client, struct pawl_lock *lock, struct sleeper *me, int64_t wait)
{
        const struct engine_instant *instant = client->core.instant;
        int64_t until = wait == NEVER ? NEVER : lock->started_at + wait;

        client->inside++;
        while (!me->got) {
                client_unlock(client);
                instant->sleep(client->engine, &lock->claim, until);
                client_lock(client);
                if (!me->got)
                        instant->look(client->engine, &lock->claim);
                if (!me->got && until != NEVER && loop_now(&client->loop) >= until)
                        core_cancel(lock, true);
        }
        client->inside--;
}

static int wait_for_grant(struct pawl_client *client, struct pawl_lock *lock, const struct pawl_lock_options *options)
{
        struct sleeper me = {.wanted = NOTICE_GRANTED};
        bool instant = client->core.instant && client->drive == PAWL_DRIVE_THREAD;
        int64_t wait = wait_of(options);

        list_init(&me.listed);
        lock->sleeper = &me;
        lock->why = options->why;
        lock->claim.blocking = instant;
        core_ask(lock, instant ? NEVER : wait);
        if (!me.got && instant)
                sleep_instantly(client, lock, &me, wait);
        else if (!me.got)
                client_sleep(client, &me);
        lock->sleeper = NULL;
        lock->why = NULL;
        if (lock->status != PAWL_OK || !client->closing)
                return lock->status;
        core_release(lock); /* granted while the client was being closed: the handle would not outlive this call */
        return why_set(options->why, PAWL_CANCELLED, "the client is being closed");
}

static bool names_holder(const struct pawl_lock_options *options, int code)
{
        return (code == PAWL_BUSY || code == PAWL_TIMEOUT) && options->why && !(options->flags & PAWL_BRIEF);
}

int pawl_acquire(pawl_client *client, const char *name, const struct pawl_lock_options *theirs, pawl_lock **out)
{
        struct request request;
        struct pawl_lock *lock;
        int code;

        if (!out)
                return refuse_place(theirs);
        code = begin(client, name, theirs, true, &request, &lock);
        if (code != PAWL_OK)
                return code;
        if (!client->core.instant || core_acquire_now(lock) != PAWL_OK)
                code = wait_for_grant(client, lock, request.options);
        if (code == PAWL_OK) {
                core_set_owned(lock, true);
                *out = lock;
        } else {
                core_settle(lock);
                if (names_holder(request.options, code))
                        client_name_holder(client, name, request.options->why);
        }
        client_unlock(client);
        return code;
}

int pawl_acquire_async(pawl_client *client, const char *name, const struct pawl_lock_options *theirs,
                       pawl_granted_fn *on_granted, void *arg, pawl_lock **out)
{
        struct request request;
        struct pawl_lock *lock;
        int code;

        if (!out)
                return refuse_place(theirs);
        code = begin(client, name, theirs, false, &request, &lock);
        if (code != PAWL_OK)
                return code;
        core_set_owned(lock, true);
        lock->on_granted = on_granted;
        lock->granted_arg = arg;
        core_acquire(lock, wait_of(request.options));
        *out = lock;
        if (lock->state == LOCK_WAITING && !client->core.instant)
                client_kick(client);
        client_unlock(client);
        return PAWL_OK;
}

/* The lock's client, locked; or an error, and nothing is locked. */
static int enter(const pawl_lock *lock, struct pawl_client **client)
{
        int code;

        if (!lock)
                return PAWL_INVALID;
        *client = client_of(lock);
        code = client_check(*client);
        if (code != PAWL_OK)
                return code;
        client_lock(*client);
        if (!lock->owned)
                code = PAWL_MISUSE;
        if (code != PAWL_OK)
                client_unlock(*client);
        return code;
}

/* Somebody in pawl_wait, and until when. */
struct vigil {
        struct sleeper sleeper;
        struct timer over;
        struct pawl_lock *lock;
};

static void on_wait_over(struct timer *timer)
{
        struct vigil *vigil = container_of(timer, struct vigil, over);

        if (vigil->sleeper.got) /* told a moment ago: the lock may be another's by now, and so its sleeper */
                return;
        vigil->lock->sleeper = NULL;
        vigil->sleeper.status = PAWL_TIMEOUT;
        vigil->sleeper.got = vigil->sleeper.wanted;
        if (vigil->sleeper.waiting)
                event_tell_one(&vigil->sleeper.event);
}

static int wait_for_decision(struct pawl_client *client, struct pawl_lock *lock, int64_t wait_ms)
{
        struct vigil me = {
                .sleeper = {.wanted = NOTICE_GRANTED, .leaves = true}, .over = {.fire = on_wait_over}, .lock = lock};

        if (wait_ms != PAWL_FOREVER && loop_set(&client->loop, &me.over, loop_now(&client->loop) + wait_ms * MS) != 0)
                return PAWL_NO_MEMORY;
        list_init(&me.sleeper.listed);
        lock->sleeper = &me.sleeper;
        client_sleep(client, &me.sleeper);
        loop_unset(&client->loop, &me.over);
        if (me.sleeper.status == PAWL_OK && client->closing) /* as in wait_for_grant; here close gives it back */
                return PAWL_CANCELLED;
        return me.sleeper.status;
}

int pawl_wait(pawl_lock *lock, int64_t wait_ms)
{
        struct pawl_client *client;
        int code;

        if (wait_ms < PAWL_NO_WAIT || wait_ms > LEASE_TTL_MAX / MS)
                return PAWL_INVALID;
        code = enter(lock, &client);
        if (code != PAWL_OK)
                return code;
        if (lock->state != LOCK_WAITING)
                code = lock->status;
        else if (client_calls_back(client) || lock->sleeper)
                code = PAWL_MISUSE;
        else if (wait_ms == PAWL_NO_WAIT)
                code = PAWL_TIMEOUT;
        else
                code = wait_for_decision(client, lock, wait_ms);
        client_unlock(client);
        return code;
}

/* ---- the end ------------------------------------------------------------------------------------------------------ */

/* What the release itself says needs no callback besides. */
static void drop_notices(struct pawl_lock *lock, uint32_t notices)
{
        if (!lock->notices)
                return;
        lock->notices &= ~notices;
        if (!lock->notices)
                list_remove(&lock->noticed);
}

/* No callback of this lock runs once we have returned: wait for those that are due or under way. */
static void outwait_callbacks(struct pawl_client *client, struct pawl_lock *lock)
{
        client->inside++;
        while (lock->notices || lock->running) {
                if (client->drive == PAWL_DRIVE_CALLER && !client->in_callback) {
                        client_call_back(client);
                } else {
                        client_kick(client);
                        event_wait(&client->callback_done, &client->latch, NEVER);
                }
        }
        client->inside--;
}

/* Of another thread in pawl_renew or pawl_wait: he does not see its end any more. */
static void end_wait(struct pawl_lock *lock)
{
        struct sleeper *sleeper;

        core_end_renewal(lock, PAWL_LOST);
        sleeper = lock->sleeper;
        if (!sleeper)
                return;
        sleeper->got = sleeper->wanted;
        sleeper->status = PAWL_CANCELLED;
        lock->sleeper = NULL;
        if (sleeper->waiting)
                event_tell_one(&sleeper->event);
}

static int release_slowly(struct pawl_client *client, struct pawl_lock *lock)
{
        struct sleeper me = {.wanted = NOTICE_RELEASED};
        bool inside_callback = client_calls_back(client);
        int code;

        list_init(&me.listed);
        end_wait(lock);
        core_set_owned(lock, false);
        lock->sleeper = &me;
        drop_notices(lock, NOTICE_LOST | NOTICE_ASKED);
        core_release(lock);
        drop_notices(lock, NOTICE_LOST | NOTICE_ASKED);
        if (!me.got && !inside_callback)
                client_sleep(client, &me);
        code = me.got ? lock->release_status : PAWL_IN_DOUBT;
        lock->sleeper = NULL;
        if (!inside_callback && (lock->notices || lock->running))
                outwait_callbacks(client, lock);
        core_settle(lock);
        return code;
}

int pawl_release(pawl_lock *lock)
{
        struct pawl_client *client;
        int code;

        if (!lock)
                return PAWL_OK;
        code = enter(lock, &client);
        if (code != PAWL_OK)
                return code;
        if (!core_release_now(lock, &code))
                code = release_slowly(client, lock);
        client_unlock(client);
        return code;
}

int pawl_release_async(pawl_lock *lock, pawl_released_fn *on_released, void *arg)
{
        struct pawl_client *client;
        int code = enter(lock, &client);

        if (code != PAWL_OK)
                return code;
        end_wait(lock);
        core_set_owned(lock, false);
        lock->on_released = on_released;
        lock->released_arg = arg;
        drop_notices(lock, NOTICE_LOST | NOTICE_ASKED);
        core_release(lock);
        drop_notices(lock, NOTICE_LOST | NOTICE_ASKED);
        if (lock->state == LOCK_RELEASING)
                client_kick(client);
        client_unlock(client);
        return PAWL_OK;
}

int pawl_cancel(pawl_lock *lock)
{
        struct pawl_client *client;
        int code = enter(lock, &client);

        if (code != PAWL_OK)
                return code;
        if (lock->state == LOCK_WAITING) {
                core_cancel(lock, false);
                client_kick(client); /* who is in pawl_wait may sleep in the loop, and the store need not answer */
        } else {
                code = PAWL_MISUSE;
        }
        client_unlock(client);
        return code;
}

/* ---- in between --------------------------------------------------------------------------------------------------- */

static bool was_granted(const struct pawl_lock *lock)
{
        return lock->state != LOCK_WAITING && lock->state != LOCK_REFUSED;
}

/* Like enter, but nothing is locked: for what is asked before every step, whatever the client's other locks are at. */
static int pass(const pawl_lock *lock, struct pawl_client **client)
{
        int code;

        if (!lock)
                return PAWL_INVALID;
        *client = client_of(lock);
        code = client_check(*client);
        if (code == PAWL_OK && !__atomic_load_n(&lock->owned, __ATOMIC_RELAXED))
                code = PAWL_MISUSE;
        return code;
}

static bool is_held(uint8_t state)
{
        return state == LOCK_HELD || state == LOCK_UNCERTAIN;
}

static bool stands_in_store(struct pawl_client *client, const struct pawl_lock *lock)
{
        const struct engine_instant *instant = client->core.instant;

        return !instant || !instant->stands || instant->stands(client->engine, &lock->claim);
}

/* The core is told as well, if that can be done at once; else its timer, or the next renewal, finds out. */
static void see_the_end(struct pawl_client *client, struct pawl_lock *lock)
{
        if (!latch_try(&client->latch))
                return;
        if (lock->owned && core_holds(lock, loop_now(&client->loop)) && !stands_in_store(client, lock))
                client->core.instant->look(client->engine, &lock->claim);
        client_unlock(client);
}

int pawl_check(pawl_lock *lock)
{
        struct pawl_client *client;
        uint8_t state;
        int code = pass(lock, &client);

        if (code != PAWL_OK)
                return code;
        state = __atomic_load_n(&lock->state, __ATOMIC_ACQUIRE);
        if (state == LOCK_WAITING || state == LOCK_REFUSED)
                return PAWL_MISUSE;
        if (is_held(state) && core_stands(lock, loop_now(&client->loop)) && stands_in_store(client, lock))
                return __atomic_load_n(&lock->wounded, __ATOMIC_RELAXED) ? PAWL_WOUNDED : PAWL_OK;
        if (is_held(state))
                see_the_end(client, lock);
        return PAWL_LOST;
}

/* Without the client's mutex: it is written once, and whoever has the handle may read it. */
uint64_t pawl_token(const pawl_lock *lock)
{
        if (!lock || client_check(client_of(lock)) != PAWL_OK || !__atomic_load_n(&lock->owned, __ATOMIC_RELAXED))
                return 0;
        return __atomic_load_n(&lock->token, __ATOMIC_RELAXED);
}

int64_t pawl_remaining_ms(pawl_lock *lock)
{
        struct pawl_client *client;
        int64_t now, until;

        if (pass(lock, &client) != PAWL_OK || !is_held(__atomic_load_n(&lock->state, __ATOMIC_ACQUIRE)))
                return 0;
        now = loop_now(&client->loop);
        until = core_valid_until(lock);
        if (now < until)
                return (until - now) / MS;
        (void)core_stands(lock, now);
        see_the_end(client, lock);
        return 0;
}

int pawl_state(pawl_lock *lock)
{
        static const uint8_t shown[LOCK_STATES] = {
                [LOCK_FREE] = PAWL_OVER,           [LOCK_WAITING] = PAWL_WAITING, [LOCK_HELD] = PAWL_HELD,
                [LOCK_UNCERTAIN] = PAWL_UNCERTAIN, [LOCK_RELEASING] = PAWL_OVER,  [LOCK_LOST] = PAWL_GONE,
                [LOCK_REFUSED] = PAWL_OVER,        [LOCK_OVER] = PAWL_OVER,
        };
        struct pawl_client *client;
        int state;

        if (enter(lock, &client) != PAWL_OK)
                return PAWL_OVER;
        core_holds(lock, loop_now(&client->loop));
        state = shown[lock->state];
        client_unlock(client);
        return state;
}

int pawl_reason(pawl_lock *lock)
{
        struct pawl_client *client;
        int reason;

        if (enter(lock, &client) != PAWL_OK)
                return PAWL_REASON_NONE;
        core_holds(lock, loop_now(&client->loop));
        reason = lock->reason;
        client_unlock(client);
        return reason;
}

int pawl_lock_why(pawl_lock *lock, struct pawl_why *why)
{
        struct pawl_client *client;
        int code;

        if (!why)
                return PAWL_INVALID;
        code = enter(lock, &client);
        if (code != PAWL_OK)
                return code;
        core_holds(lock, loop_now(&client->loop));
        core_explain(lock, why);
        client_unlock(client);
        return PAWL_OK;
}

const char *pawl_name(const pawl_lock *lock)
{
        return lock && lock->claim.name ? lock->claim.name : "";
}

int pawl_asked(pawl_lock *lock)
{
        struct pawl_client *client;
        int asked;

        if (enter(lock, &client) != PAWL_OK)
                return 0;
        asked = lock->asked;
        client_unlock(client);
        return asked;
}

int pawl_wound(pawl_lock *lock)
{
        struct pawl_client *client;
        int code = enter(lock, &client);

        if (code != PAWL_OK)
                return code;
        if (!was_granted(lock))
                code = PAWL_MISUSE;
        else if (!core_holds(lock, loop_now(&client->loop)))
                code = PAWL_LOST;
        else
                core_wound(lock);
        client_unlock(client);
        return code;
}

static int renew_locked(struct pawl_client *client, struct pawl_lock *lock)
{
        struct sleeper me = {.wanted = NOTICE_RENEWED, .leaves = true};

        if (lock->sleeper || !was_granted(lock))
                return PAWL_MISUSE;
        if (lock->wounded && core_holds(lock, loop_now(&client->loop)))
                return PAWL_WOUNDED;
        list_init(&me.listed);
        lock->sleeper = &me;
        core_renew(lock);
        if (!me.got)
                client_sleep(client, &me);
        return me.status;
}

int pawl_renew(pawl_lock *lock)
{
        struct pawl_client *client;
        int code = enter(lock, &client);

        if (code != PAWL_OK)
                return code;
        code = client_calls_back(client) ? PAWL_MISUSE : renew_locked(client, lock);
        client_unlock(client);
        return code;
}

/* ---- leases as words ------------------------------------------------------------------------------------------------ */

int pawl_lease(pawl_lock *lock, char *word, size_t size)
{
        struct pawl_client *client;
        int code;

        if (!word || size <= PAWL_LEASE_MAX)
                return PAWL_INVALID;
        code = enter(lock, &client);
        if (code != PAWL_OK)
                return code;
        if (!lock->claim.detached || !was_granted(lock))
                code = PAWL_MISUSE;
        else if (!core_holds(lock, loop_now(&client->loop)))
                code = PAWL_LOST;
        else
                code = client->engine->ops->leases->word(client->engine, &lock->claim, word, size);
        client_unlock(client);
        return code;
}

/* The word knows the name and the ttl; the options only what to call back. */
static int read_word(struct pawl_client *client, const char *word, const struct pawl_lock_options *theirs,
                     struct pawl_lock_options *options, char *name)
{
        int code = copy_options(options, theirs);
        int64_t ttl;

        if (code != PAWL_OK)
                return code;
        if (client_calls_back(client))
                return why_set(options->why, PAWL_MISUSE, "a blocking call inside a callback");
        if (!client->engine->ops->leases)
                return why_set(options->why, PAWL_UNSUPPORTED, "this engine has no leases that outlive their client");
        code = client->engine->ops->leases->read(client->engine, word, name, &ttl, options->why);
        if (code != PAWL_OK)
                return code;
        options->size = sizeof(*options);
        options->flags = PAWL_DETACH | (options->flags & PAWL_RENEW);
        options->ttl_ms = ttl / MS;
        options->wait_ms = PAWL_NO_WAIT;
        return check_times(options);
}

static int adopt_locked(struct pawl_client *client, struct pawl_lock *lock, const char *word, struct pawl_why *why)
{
        struct sleeper me = {.wanted = NOTICE_GRANTED};

        list_init(&me.listed);
        lock->sleeper = &me;
        lock->why = why;
        core_adopt(lock, word);
        if (!me.got)
                client_sleep(client, &me);
        lock->sleeper = NULL;
        lock->why = NULL;
        return lock->status;
}

int pawl_adopt(pawl_client *client, const char *word, const struct pawl_lock_options *theirs, pawl_lock **out)
{
        struct pawl_lock_options given;
        struct request request;
        char name[PAWL_NAME_MAX + 1];
        struct pawl_lock *lock;
        int code = client_check(client);

        if (code != PAWL_OK)
                return refuse_client(theirs, code);
        if (!word || !out)
                return refuse_call(theirs, PAWL_INVALID, "there is no word of a lease, or no place for the lock");
        client_lock(client);
        code = read_word(client, word, theirs, &given, name);
        client_unlock(client);
        if (code == PAWL_OK)
                code = begin(client, name, &given, true, &request, &lock);
        if (code != PAWL_OK)
                return code;
        code = adopt_locked(client, lock, word, given.why);
        if (code == PAWL_OK) {
                core_set_owned(lock, true);
                *out = lock;
        } else {
                core_settle(lock);
        }
        client_unlock(client);
        return code;
}

int pawl_forget(pawl_lock *lock)
{
        struct pawl_client *client;
        int code;

        if (!lock)
                return PAWL_OK;
        code = enter(lock, &client);
        if (code != PAWL_OK)
                return code;
        if (!lock->claim.detached || lock->state == LOCK_WAITING) {
                client_unlock(client);
                return PAWL_MISUSE;
        }
        core_set_owned(lock, false);
        drop_notices(lock, NOTICE_LOST | NOTICE_ASKED);
        if (!client_calls_back(client))
                outwait_callbacks(client, lock);
        core_forget(lock);
        client_unlock(client);
        return PAWL_OK;
}
