/* drive.c - who turns the loop, and where callbacks run.
 *
 * With a private thread (the default) callbacks run on it and nowhere else. It sleeps in the loop while nobody waits in a
 * blocking call; a blocking caller of an engine that needs I/O drives the loop himself, which saves two thread hops per
 * call, and the thread then stands by for a moment instead of being woken after each of them. Without a thread
 * (PAWL_DRIVE_CALLER) whoever is inside a call drives, and runs the callbacks. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include "client.h"

/* How long the thread leaves the loop alone after a caller drove it, and how late a timer may be for it. */
#define STANDBY (10 * MS)

/* Callbacks may cause callbacks without end; leases and other descriptors must have their turn all the same. */
enum { CALLBACKS_AT_ONCE = 64 };

bool client_calls_back(const struct pawl_client *client)
{
        return client->in_callback && pthread_equal(client->callback_thread, pthread_self());
}

void client_lock(struct pawl_client *client)
{
        pthread_mutex_lock(&client->mutex);
}

void client_kick(struct pawl_client *client)
{
        client->kicked = true;
        if (client->driver == DRIVER_NOBODY && client->thread_up)
                pthread_cond_signal(&client->thread_cond);
        else
                loop_wake(&client->loop);
}

void client_unlock(struct pawl_client *client)
{
        if (!list_empty(&client->core.notices))
                client_kick(client);
        pthread_mutex_unlock(&client->mutex);
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

void client_call_back(struct pawl_client *client)
{
        struct pawl_lock *lock;
        uint32_t notices;

        if (client->in_callback) /* by another thread: it will find these too */
                return;
        for (int i = 0; i < CALLBACKS_AT_ONCE && (lock = core_notice(&client->core, &notices)); i++) {
                lock->running = true;
                client->in_callback = true;
                client->callback_thread = pthread_self();
                pthread_mutex_unlock(&client->mutex);
                tell_user(lock, notices);
                pthread_mutex_lock(&client->mutex);
                client->in_callback = false;
                lock->running = false;
                pthread_cond_broadcast(&client->callback_done);
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
        if (sleeper->waiting)
                pthread_cond_signal(&sleeper->cond);
        return true;
}

/* The loop is free: one of those who wait for something should drive it on, or the thread. */
static void pass_the_loop_on(struct pawl_client *client)
{
        if (!list_empty(&client->sleepers))
                pthread_cond_signal(&list_first(&client->sleepers, struct sleeper, listed)->cond);
        else if (client->thread_up && (client->core.stats.waiting || !list_empty(&client->core.notices)))
                pthread_cond_signal(&client->thread_cond);
}

static void drive_once(struct pawl_client *client, struct sleeper *sleeper)
{
        client->driver = DRIVER_CALLER;
        client->caller_turns++;
        loop_turn(&client->loop);
        if (!sleeper->got && list_empty(&client->core.notices)) {
                pthread_mutex_unlock(&client->mutex);
                loop_wait(&client->loop, NEVER);
                pthread_mutex_lock(&client->mutex);
                loop_turn(&client->loop);
        }
        client->driver = DRIVER_NOBODY;
        if (client->drive == PAWL_DRIVE_CALLER)
                client_call_back(client);
        else if (!list_empty(&client->core.notices))
                pthread_cond_signal(&client->thread_cond);
        if (sleeper->got)
                pass_the_loop_on(client);
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
        pthread_cond_wait(&sleeper->cond, &client->mutex);
        list_remove(&sleeper->listed);
        sleeper->waiting = false;
        if (thread_sleeps)
                client->wanting--;
}

void client_sleep(struct pawl_client *client, struct sleeper *sleeper)
{
        client->inside++;
        if (client->driver == DRIVER_CALLER)
                loop_wake(&client->loop); /* the one who drives sends what we asked for */
        while (!sleeper->got) {
                if (client->driver == DRIVER_NOBODY && !client->closing)
                        drive_once(client, sleeper);
                else
                        sleep_once(client, sleeper);
        }
        client->inside--;
}

/* ---- the thread ------------------------------------------------------------------------------------------------- */

static void stand_by(struct pawl_client *client)
{
        struct timespec until;

        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += STANDBY;
        if (until.tv_nsec >= SECOND) {
                until.tv_nsec -= SECOND;
                until.tv_sec++;
        }
        pthread_cond_timedwait(&client->thread_cond, &client->mutex, &until);
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
        pthread_mutex_unlock(&client->mutex);
        loop_wait(&client->loop, NEVER);
        pthread_mutex_lock(&client->mutex);
        loop_turn(&client->loop);
        client->driver = DRIVER_NOBODY;
        if (client->wanting && !list_empty(&client->sleepers))
                pthread_cond_signal(&list_first(&client->sleepers, struct sleeper, listed)->cond);
}

static void *thread_main(void *arg)
{
        struct pawl_client *client = arg;
        uint64_t seen = 0;

        pthread_mutex_lock(&client->mutex);
        while (!client->stop) {
                if (!list_empty(&client->core.notices)) {
                        client_call_back(client);
                        if (!list_empty(&client->core.notices) && client->driver == DRIVER_NOBODY)
                                loop_turn(&client->loop);
                } else if (others_drive(client, seen)) {
                        seen = client->caller_turns;
                        stand_by(client);
                } else {
                        drive_from_thread(client);
                }
        }
        pthread_mutex_unlock(&client->mutex);
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
        pthread_cond_signal(&client->thread_cond);
        loop_wake(&client->loop);
        pthread_mutex_unlock(&client->mutex);
        pthread_join(client->thread, NULL);
        pthread_mutex_lock(&client->mutex);
        client->thread_up = false;
}
