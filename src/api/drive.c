/* drive.c - who turns the loop, and where callbacks run.
 *
 * With a private thread (the default) callbacks run on it and nowhere else. It sleeps in the loop while nobody waits in a
 * blocking call; a blocking caller of an engine that needs I/O drives the loop himself, which saves two thread hops per
 * call, and the thread then stands by for a moment instead of being woken after each of them. Without a thread
 * (PAWL_DRIVE_CALLER) whoever is inside a call drives, and runs the callbacks. */
#include <signal.h>

#include "client.h"

/* How long the thread leaves the loop alone after a caller drove it, and how late a timer may be for it. */
#define STANDBY (10 * MS)

/* Callbacks may cause callbacks without end; leases and other descriptors must have their turn all the same. */
enum { CALLBACKS_AT_ONCE = 64 };

bool client_calls_back(const struct pawl_client *client)
{
        return client->in_callback && pthread_equal(client->callback_thread, pthread_self());
}

void client_kick(struct pawl_client *client)
{
        client->kicked = true;
        if (client->driver == DRIVER_NOBODY && client->thread_up)
                event_tell_one(&client->thread_event);
        else
                loop_wake(&client->loop);
}

/* ---- callbacks -------------------------------------------------------------------------------------------------- */

static void tell_user(struct pawl_lock *lock, uint32_t notices)
{
        if (notices & NOTICE_GRANTED && lock->on_granted)
                lock->on_granted(lock, lock->status, lock->granted_arg);
        if (notices & NOTICE_ASKED && lock->on_asked)
                lock->on_asked(lock, lock->arg);
        if (notices & NOTICE_LOST && lock->on_lost)
                lock->on_lost(lock, lock->reason, lock->arg);
        if (notices & NOTICE_RELEASED && lock->on_released)
                lock->on_released(lock->release_status, lock->released_arg);
}

/* One at a time: a callback may give the lock back, and then the rest is not told. */
static uint32_t take_first(struct pawl_lock *lock, uint32_t notices)
{
        static const uint32_t order[] = {NOTICE_GRANTED, NOTICE_ASKED, NOTICE_LOST, NOTICE_RELEASED};
        uint32_t first = notices;

        for (size_t i = sizeof(order) / sizeof(order[0]); i-- > 0;)
                if (notices & order[i])
                        first = order[i];
        lock->notices = notices & ~first;
        if (lock->notices)
                list_append(&lock->core->notices, &lock->noticed);
        return first;
}

void client_call_back(struct pawl_client *client)
{
        struct pawl_lock *lock;
        uint32_t notices;

        if (client->in_callback) /* by another thread: it will find these too */
                return;
        for (int i = 0; i < CALLBACKS_AT_ONCE && (lock = core_notice(&client->core, &notices)); i++) {
                notices = take_first(lock, notices);
                lock->running = true;
                client->in_callback = true;
                client->callback_thread = pthread_self();
                latch_give(&client->latch);
                tell_user(lock, notices);
                latch_take(&client->latch);
                client->in_callback = false;
                lock->running = false;
                event_tell_all(&client->callback_done);
                core_settle(lock);
        }
}

/* ---- sleepers --------------------------------------------------------------------------------------------------- */

bool client_tell(struct pawl_lock *lock, enum notice notice)
{
        struct sleeper *sleeper = lock->sleeper;

        if (!(sleeper->wanted & notice))
                return false;
        sleeper->got |= notice;
        if (sleeper->leaves) {
                sleeper->status = notice == NOTICE_RENEWED ? lock->renew_status : lock->status;
                lock->sleeper = NULL;
        }
        if (sleeper->waiting)
                event_tell_one(&sleeper->event);
        return !(sleeper->leaves && notice == NOTICE_GRANTED &&
                 lock->on_granted); /* who waits does not replace the callback */
}

/* The loop is free: one of those who wait for something should drive it on, or the thread. */
static void pass_the_loop_on(struct pawl_client *client)
{
        if (!list_empty(&client->sleepers))
                event_tell_one(&list_first(&client->sleepers, struct sleeper, listed)->event);
        else if (client->thread_up && (client->core.stats.waiting || !list_empty(&client->core.notices)))
                event_tell_one(&client->thread_event);
}

static void wake_thread(struct pawl_client *client)
{
        client->thread_rests = false;
        event_tell_one(&client->thread_event);
}

/* True if there is a thread to deliver the notices, and it knows. */
static bool left_to_the_thread(struct pawl_client *client)
{
        if (client->drive == PAWL_DRIVE_CALLER)
                return false;
        if (!list_empty(&client->core.notices))
                event_tell_one(&client->thread_event);
        return true;
}

/* The only one who wants something, and a reply to it is all that is expected: sleeps right where it will come. */
static bool drive_hot(struct pawl_client *client)
{
        struct loop_hot *hot;
        bool something;

        if (client->core.stats.waiting > 1 || !list_empty(&client->sleepers) || !list_empty(&client->core.notices))
                return false;
        hot = loop_heat(&client->loop);
        if (!hot)
                return false;
        latch_give(&client->latch);
        something = hot->wait(hot);
        latch_take(&client->latch);
        loop_turn_hot(&client->loop, hot);
        return something;
}

/* Sleeps with the latch given away, and does what is due. */
static void sleep_and_turn(struct pawl_client *client)
{
        struct loop_found found;

        latch_give(&client->latch);
        loop_sleep(&client->loop, &found);
        latch_take(&client->latch);
        loop_turn_found(&client->loop, &found);
}

/* What has arrived already is found by sleeping, too: only what is due now is done first. */
static void drive_once(struct pawl_client *client, struct sleeper *sleeper)
{
        client->driver = DRIVER_CALLER;
        client->caller_turns++;
        if (drive_hot(client) && sleeper->got) {
                client->driver = DRIVER_NOBODY;
                (void)left_to_the_thread(client);
                return;
        }
        if (loop_next(&client->loop) <= loop_now(&client->loop))
                loop_turn(&client->loop);
        if (!sleeper->got && (left_to_the_thread(client) || list_empty(&client->core.notices)))
                sleep_and_turn(client);
        client->driver = DRIVER_NOBODY;
        if (left_to_the_thread(client))
                return;
        if (!client->in_callback)
                client_call_back(client);
        else if (!sleeper->got && !list_empty(&client->core.notices)) /* another thread's: it finds these too */
                event_wait(&client->callback_done, &client->latch, STANDBY);
}

static void sleep_once(struct pawl_client *client, struct sleeper *sleeper)
{
        bool thread_sleeps = client->driver == DRIVER_THREAD;

        if (thread_sleeps) {
                client->wanting++;
                loop_wake(&client->loop);
        }
        sleeper->waiting = true;
        list_append(&client->sleepers, &sleeper->listed);
        event_wait(&sleeper->event, &client->latch, NEVER);
        list_remove(&sleeper->listed);
        sleeper->waiting = false;
        if (thread_sleeps)
                client->wanting--;
}

void client_sleep(struct pawl_client *client, struct sleeper *sleeper)
{
        client->inside++;
        while (!sleeper->got) {
                if (client->driver == DRIVER_NOBODY && !client->closing)
                        drive_once(client, sleeper);
                else
                        sleep_once(client, sleeper);
        }
        client->inside--;
        if (client->thread_rests)
                wake_thread(client);
        if (client->driver == DRIVER_NOBODY) /* also if we never drove: we may be the one whom it was passed to */
                pass_the_loop_on(client);
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

/* A caller who has not turned the loop since we last looked sleeps in it: he wakes us when he leaves. */
static void stand_by(struct pawl_client *client, uint64_t seen)
{
        client->thread_rests = client->driver == DRIVER_CALLER && client->caller_turns == seen;
        event_wait(&client->thread_event, &client->latch, client->thread_rests ? NEVER : STANDBY);
        client->thread_rests = false;
}

/* Somebody else turns the loop, wants to, or did a moment ago and left nothing that cannot wait. */
static bool others_drive(const struct pawl_client *client, uint64_t seen)
{
        if (client->driver != DRIVER_NOBODY || client->wanting)
                return true;
        return client->caller_turns != seen && !client->kicked && !client->core.stats.waiting;
}

static void drive_from_thread(struct pawl_client *client)
{
        client->kicked = false;
        client->driver = DRIVER_THREAD;
        sleep_and_turn(client);
        client->driver = DRIVER_NOBODY;
        if (client->wanting && !list_empty(&client->sleepers))
                event_tell_one(&list_first(&client->sleepers, struct sleeper, listed)->event);
}

static void *thread_main(void *arg)
{
        struct pawl_client *client = arg;
        uint64_t seen = 0;

        latch_take(&client->latch);
        while (!client->stop) {
                if (!list_empty(&client->core.notices)) {
                        client_call_back(client);
                        if (!list_empty(&client->core.notices) && client->driver == DRIVER_NOBODY)
                                loop_turn(&client->loop);
                } else if (others_drive(client, seen)) {
                        uint64_t before = seen;

                        seen = client->caller_turns;
                        stand_by(client, before);
                } else {
                        drive_from_thread(client);
                }
        }
        latch_give(&client->latch);
        return NULL;
}

/* The host's signals are the host's: none is delivered to this thread. */
int client_thread(struct pawl_client *client, struct pawl_why *why)
{
        sigset_t all, before;
        int error;

        if (client->thread_up || client->drive == PAWL_DRIVE_CALLER)
                return PAWL_OK;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before);
        error = pthread_create(&client->thread, NULL, thread_main, client);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
        if (error)
                return why_system(why, error, "cannot start the thread that keeps leases alive");
        pthread_setname_np(client->thread, "pawl");
        client->thread_up = true;
        return PAWL_OK;
}

void client_thread_stop(struct pawl_client *client)
{
        if (!client->thread_up)
                return;
        client->stop = true;
        event_tell_one(&client->thread_event);
        loop_wake(&client->loop);
        latch_give(&client->latch);
        pthread_join(client->thread, NULL);
        latch_take(&client->latch);
        client->thread_up = false;
}
