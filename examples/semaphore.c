/* semaphore.c - at most three at once: a shared lock with max_holders. Eight threads want in; the count of those inside
 * never exceeds three.
 *
 *     semaphore [URL]
 */
#include <pawl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { THREADS = 8, TURNS = 5, PLACES = 3 };

static pawl_client *client; /* one client serves any number of threads */
static atomic_int inside, most, failures;

static void note_most(int now_inside)
{
        int seen = atomic_load(&most);

        while (now_inside > seen && !atomic_compare_exchange_weak(&most, &seen, now_inside))
                ;
}

static void *worker(void *arg)
{
        const struct timespec work = {.tv_nsec = 5000000};

        for (int turn = 0; turn < TURNS; turn++) {
                pawl_lock *lock;

                if (pawl_acquire(client, "example/download-slots",
                                 PAWL_LOCK(.mode = PAWL_SHARED, .max_holders = PLACES), &lock) != PAWL_OK) {
                        atomic_fetch_add(&failures, 1);
                        break;
                }
                note_most(atomic_fetch_add(&inside, 1) + 1);
                nanosleep(&work, NULL);
                atomic_fetch_sub(&inside, 1);
                if (pawl_release(lock) != PAWL_OK)
                        atomic_fetch_add(&failures, 1);
        }
        return arg;
}

int main(int argc, char **argv)
{
        pthread_t threads[THREADS];
        int code = pawl_open(argc > 1 ? argv[1] : NULL, NULL, &client);

        if (code != PAWL_OK) {
                fprintf(stderr, "semaphore: %s\n", pawl_strerror(code));
                return 1;
        }
        for (int i = 0; i < THREADS; i++)
                if (pthread_create(&threads[i], NULL, worker, NULL) != 0)
                        return 1;
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        pawl_close(client);
        printf("%d threads, %d places: at most %d were inside at once\n", THREADS, PLACES, atomic_load(&most));
        return atomic_load(&failures) == 0 && atomic_load(&most) <= PLACES ? 0 : 1;
}
