/* reader_writer.c - readers together, a writer alone, one queue. The writer keeps two numbers equal, but not while it
 * works on them; no reader ever sees them differ, and the writer is not starved by readers that never stop coming.
 *
 *     reader_writer [URL]
 */
#include <pawl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { READERS = 4, WRITES = 20 };

static pawl_client *client;
static atomic_int left, right; /* atomic only so that a broken lock would be a wrong answer, not undefined behaviour */
static atomic_int reads, torn, failures, done;

static void pause_ms(long ms)
{
        const struct timespec pause = {.tv_nsec = ms * 1000000};

        nanosleep(&pause, NULL);
}

static void *reader(void *arg)
{
        while (!atomic_load(&done)) {
                pawl_lock *lock;

                if (pawl_acquire(client, "example/table", PAWL_LOCK(.mode = PAWL_SHARED), &lock) != PAWL_OK) {
                        atomic_fetch_add(&failures, 1);
                        break;
                }
                if (atomic_load(&left) != atomic_load(&right))
                        atomic_fetch_add(&torn, 1);
                atomic_fetch_add(&reads, 1);
                pause_ms(1);
                if (pawl_release(lock) != PAWL_OK)
                        atomic_fetch_add(&failures, 1);
        }
        return arg;
}

static int write_once(void)
{
        pawl_lock *lock;
        int code = pawl_acquire(client, "example/table", PAWL_LOCK(.wait_ms = 30000), &lock);

        if (code != PAWL_OK)
                return code;
        atomic_fetch_add(&left, 1);
        pause_ms(1);
        atomic_fetch_add(&right, 1);
        return pawl_release(lock);
}

int main(int argc, char **argv)
{
        pthread_t readers[READERS];
        int written = 0, code = pawl_open(argc > 1 ? argv[1] : NULL, NULL, &client);

        if (code != PAWL_OK) {
                fprintf(stderr, "reader_writer: %s\n", pawl_strerror(code));
                return 1;
        }
        for (int i = 0; i < READERS; i++)
                if (pthread_create(&readers[i], NULL, reader, NULL) != 0)
                        return 1;
        while (written < WRITES && write_once() == PAWL_OK)
                written++;
        atomic_store(&done, 1);
        for (int i = 0; i < READERS; i++)
                pthread_join(readers[i], NULL);
        pawl_close(client);
        printf("%d writes between %d reads, %d of them torn\n", written, atomic_load(&reads), atomic_load(&torn));
        return written == WRITES && atomic_load(&torn) == 0 && atomic_load(&failures) == 0 ? 0 : 1;
}
