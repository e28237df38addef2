/* worker.c - a worker as it should be: it holds a lock while it works, checks it before every step, is told when the lock
 * is lost, and writes its result through a guard, so that even a write that comes too late does no harm.
 *
 * Shows it the hard way: in the middle of the job an administrator breaks the lock and a second worker takes over.
 *
 *     worker [URL [DIRECTORY]]
 */
#include <pawl.h>
#include <pawl/guard.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char JOB[] = "example/nightly-report", RESULT[] = "report.txt";

static atomic_int losses;

/* Runs once, on the client's private thread. A real worker would stop what cannot wait for the next pawl_check. */
static void on_lost(pawl_lock *lock, int reason, void *arg)
{
        (void)arg;
        printf("%s is lost: %s\n", pawl_name(lock), pawl_reason_text(reason));
        atomic_fetch_add(&losses, 1);
}

static int take(pawl_client *client, const char *who, pawl_lock **lock)
{
        return pawl_acquire(client, JOB, PAWL_LOCK(.ttl_ms = 3000, .wait_ms = 10000, .note = who, .on_lost = on_lost),
                            lock);
}

/* One step of the work: is the lock still ours? Then write, with the token. */
static int step(pawl_lock *lock, pawl_guard *guard, const char *text)
{
        int code = pawl_check(lock);

        if (code != PAWL_OK)
                return code;
        return pawl_guard_put(guard, RESULT, pawl_token(lock), text, strlen(text), NULL);
}

static void wait_for_a_loss(void)
{
        const struct timespec pause = {.tv_nsec = 10000000};

        for (int tries = 0; tries < 1000 && atomic_load(&losses) == 0; tries++)
                nanosleep(&pause, NULL);
}

static int result_is(pawl_guard *guard, uint64_t token, const char *text)
{
        struct pawl_guard_data data;
        int same;

        if (pawl_guard_get(guard, RESULT, token, NULL, &data) != PAWL_OK)
                return 0;
        same = strcmp(data.bytes, text) == 0;
        free(data.bytes);
        return same;
}

/* The story. Each line is a thing that must come out so; the first that does not is the answer. */
static const char *play(pawl_client *client, pawl_guard *guard)
{
        static const char LATE[] = "by the first worker, too late";
        pawl_lock *first, *second;

        if (take(client, "first worker", &first) != PAWL_OK)
                return "the first worker does not get the lock";
        if (step(first, guard, "by the first worker") != PAWL_OK)
                return "the first worker cannot write while it holds the lock";
        if (pawl_break(client, JOB) != PAWL_OK || take(client, "second worker", &second) != PAWL_OK)
                return "the second worker does not get the broken lock";
        if (step(second, guard, "by the second worker") != PAWL_OK)
                return "the second worker cannot write";
        wait_for_a_loss();
        if (atomic_load(&losses) != 1 || pawl_check(first) != PAWL_LOST)
                return "the first worker is not told that its lock is lost";
        if (step(first, guard, LATE) != PAWL_LOST)
                return "the first worker goes on";
        /* And one that does not check at all, because it was paused just after it did: */
        if (pawl_guard_put(guard, RESULT, pawl_token(first), LATE, strlen(LATE), NULL) != PAWL_STALE)
                return "a write with an old token is admitted";
        if (!result_is(guard, pawl_token(second), "by the second worker"))
                return "the second worker's result is damaged";
        if (pawl_release(first) != PAWL_LOST || pawl_release(second) != PAWL_OK)
                return "release does not say what was";
        return NULL;
}

int main(int argc, char **argv)
{
        char store[4096];
        const char *wrong = "cannot open the store or the guard";
        pawl_client *client = NULL;
        pawl_guard *guard = NULL;

        snprintf(store, sizeof(store), "file:%s", argc > 2 ? argv[2] : ".");
        if (pawl_open(argc > 1 ? argv[1] : NULL, NULL, &client) == PAWL_OK &&
            pawl_guard_open(store, NULL, &guard) == PAWL_OK)
                wrong = play(client, guard);
        printf("%s\n", wrong ? wrong : "the late write was refused; the second worker's result stands");
        pawl_guard_close(guard);
        pawl_close(client);
        return wrong ? 1 : 0;
}
