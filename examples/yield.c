/* yield.c - a long job that lets others in between. It holds the lock for all of its parts; after each it looks
 * whether somebody waits, and if so lets him go first and goes on behind him, with a new token.
 *
 *     yield [URL] */
#include <pawl.h>
#include <pawl/handle.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { PARTS = 20, HALF = PARTS / 2 };

static const char NAME[] = "example/table";

static pawl_client *client;
static atomic_int parts, came_after; /* so many parts were done when the urgent one came in */

static void pause_ms(long ms)
{
        const struct timespec pause = {.tv_nsec = ms * 1000000};

        nanosleep(&pause, NULL);
}

static void *urgent(void *arg)
{
        pawl_lock *lock;

        if (pawl_acquire(client, NAME, PAWL_LOCK(.note = "urgent"), &lock) == PAWL_OK) {
                atomic_store(&came_after, atomic_load(&parts));
                pawl_release(lock);
        }
        return arg;
}

static void wait_until_it_waits(void)
{
        uint32_t waiters = 0;

        while (pawl_waiters(client, NAME, &waiters) == PAWL_OK && waiters == 0)
                pause_ms(2);
}

/* PAWL_OK from pawl_yield means held, whichever lock it is: the token must be read anew. */
static int do_all(pawl_lock **lock, pthread_t *other, int *yields)
{
        uint64_t token = pawl_token(*lock);
        int code = PAWL_OK;

        while (code == PAWL_OK && atomic_load(&parts) < PARTS) {
                pause_ms(2);
                if (atomic_fetch_add(&parts, 1) + 1 == HALF) {
                        if (pthread_create(other, NULL, urgent, NULL) != 0)
                                return PAWL_SYSTEM;
                        wait_until_it_waits();
                }
                code = pawl_yield(client, PAWL_LOCK(.note = "long job"), lock);
                if (code == PAWL_OK && pawl_token(*lock) != token) {
                        token = pawl_token(*lock);
                        ++*yields;
                }
        }
        return code;
}

int main(int argc, char **argv)
{
        pthread_t other;
        pawl_lock *lock;
        int yields = 0, code = pawl_open(argc > 1 ? argv[1] : NULL, NULL, &client);

        if (code == PAWL_OK)
                code = pawl_acquire(client, NAME, PAWL_LOCK(.note = "long job"), &lock);
        if (code == PAWL_OK)
                code = do_all(&lock, &other, &yields);
        if (code != PAWL_OK) {
                fprintf(stderr, "yield: %s\n", pawl_strerror(code));
                return 1;
        }
        pawl_release(lock);
        pthread_join(other, NULL);
        pawl_close(client);
        printf("%d parts; the urgent one came in after %d of them; let others go first %d times\n", atomic_load(&parts),
               atomic_load(&came_after), yields);
        return yields > 0 && atomic_load(&came_after) >= HALF && atomic_load(&came_after) < PARTS ? 0 : 1;
}
