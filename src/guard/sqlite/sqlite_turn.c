/* sqlite_turn.c - threads of one guard take turns with its connection; a call has one deadline for its turn and for whatever
 * locks of the database it meets after that. */
#include <errno.h>
#include <time.h>

#include "../../base/duration.h"
#include "sqlite.h"

static int64_t now_ns(void)
{
        struct timespec now;

        clock_gettime(CLOCK_MONOTONIC, &now); /* as the condition counts */
        return now.tv_sec * SECOND + now.tv_nsec;
}

int sqlite_make_turns(struct sqlite *sqlite, struct pawl_why *why)
{
        pthread_condattr_t attributes;
        int error = pthread_condattr_init(&attributes);

        if (error == 0)
                error = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
        if (error == 0)
                error = pthread_cond_init(&sqlite->left, &attributes);
        if (error == 0 && (error = pthread_mutex_init(&sqlite->mutex, NULL)) != 0)
                pthread_cond_destroy(&sqlite->left);
        pthread_condattr_destroy(&attributes);
        sqlite->mutex_made = error == 0;
        return error == 0 ? PAWL_OK : why_set(why, PAWL_NO_MEMORY, "no memory for the guard");
}

void sqlite_end_turns(struct sqlite *sqlite)
{
        if (!sqlite->mutex_made)
                return;
        pthread_mutex_destroy(&sqlite->mutex);
        pthread_cond_destroy(&sqlite->left);
}

int sqlite_take_turn(struct sqlite *sqlite, struct pawl_why *why)
{
        int64_t deadline = now_ns() + sqlite->wait_ms * MS;
        const struct timespec until = {deadline / SECOND, deadline % SECOND};
        bool ours;
        int error = 0;

        pthread_mutex_lock(&sqlite->mutex);
        while (sqlite->busy && error != ETIMEDOUT)
                error = pthread_cond_timedwait(&sqlite->left, &sqlite->mutex, &until);
        ours = !sqlite->busy;
        sqlite->busy = true;
        pthread_mutex_unlock(&sqlite->mutex);
        if (!ours)
                return why_set(why, PAWL_TIMEOUT,
                               "the database %s: other threads' calls of this guard took more than %u ms", sqlite->path,
                               sqlite->wait_ms);
        sqlite->deadline = deadline;
        return PAWL_OK;
}

void sqlite_leave_turn(struct sqlite *sqlite)
{
        pthread_mutex_lock(&sqlite->mutex);
        sqlite->busy = false;
        pthread_cond_signal(&sqlite->left);
        pthread_mutex_unlock(&sqlite->mutex);
}

/* SQLite has no queue: short pauses first, longer ones later. 0 gives up. */
int sqlite_wait_for_lock(void *arg, int count)
{
        const struct sqlite *sqlite = arg;
        int64_t left = sqlite->deadline - now_ns();
        int64_t pause = (count < 8 ? 1 + count * 3 : 25) * MS;
        struct timespec span;

        if (left <= 0)
                return 0;
        pause = pause < left ? pause : left;
        span = (struct timespec){pause / SECOND, pause % SECOND};
        nanosleep(&span, NULL);
        return 1;
}
