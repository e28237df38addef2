/* upgrade.c - many look whether the stock is low, and one orders: a reader who may become the writer without
 * anybody writing in between. If each looked with a plain read lock and came back with a write lock, each would
 * order.
 *
 *     upgrade [URL] */
#include <pawl.h>
#include <pawl/rw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>

enum { CLERKS = 4, LOW = 10, ORDER = 100 };

static const char STOCK[] = "example/stock";

static pawl_client *client;
static atomic_int stock = 3, orders, reads, failures, done;

static void pause_ms(long ms)
{
        const struct timespec pause = {.tv_nsec = ms * 1000000};

        nanosleep(&pause, NULL);
}

/* One that only looks. It is not kept out by a clerk who is looking, too. */
static void *customer(void *arg)
{
        do {
                pawl_rw *rw;

                if (pawl_rw_acquire(client, STOCK, PAWL_READ, NULL, &rw) != PAWL_OK) {
                        atomic_fetch_add(&failures, 1);
                        break;
                }
                atomic_fetch_add(&reads, 1);
                /* It may not order: two readers who both want to write would wait for each other. */
                if (pawl_rw_upgrade(rw, PAWL_NO_WAIT) != PAWL_MISUSE || pawl_rw_release(rw) != PAWL_OK)
                        atomic_fetch_add(&failures, 1);
                pause_ms(1);
        } while (!atomic_load(&done));
        return arg;
}

static int order_if_low(pawl_rw *rw)
{
        int seen = atomic_load(&stock), code;

        if (seen >= LOW)
                return PAWL_OK;
        pause_ms(5);
        code = pawl_rw_upgrade(rw, PAWL_FOREVER);
        if (code != PAWL_OK)
                return code;
        /* A real one sends pawl_rw_token(rw) along, to a guard. */
        atomic_store(&stock, seen + ORDER); /* what was read still holds */
        atomic_fetch_add(&orders, 1);
        return PAWL_OK;
}

static void *clerk(void *arg)
{
        pawl_rw *rw;
        int code = pawl_rw_acquire(client, STOCK, PAWL_UPGRADABLE, NULL, &rw);

        if (code == PAWL_OK) {
                code = order_if_low(rw);
                if (pawl_rw_release(rw) != PAWL_OK)
                        atomic_fetch_add(&failures, 1);
        }
        if (code != PAWL_OK)
                atomic_fetch_add(&failures, 1);
        return arg;
}

int main(int argc, char **argv)
{
        pthread_t clerks[CLERKS], reader;
        int code = pawl_open(argc > 1 ? argv[1] : NULL, NULL, &client);

        if (code != PAWL_OK) {
                fprintf(stderr, "upgrade: %s\n", pawl_strerror(code));
                return 1;
        }
        if (pthread_create(&reader, NULL, customer, NULL) != 0)
                return 1;
        for (int i = 0; i < CLERKS; i++)
                if (pthread_create(&clerks[i], NULL, clerk, NULL) != 0)
                        return 1;
        for (int i = 0; i < CLERKS; i++)
                pthread_join(clerks[i], NULL);
        atomic_store(&done, 1);
        pthread_join(reader, NULL);
        pawl_close(client);
        printf("%d clerks looked, %d ordered; the stock is %d, and was read %d times meanwhile\n", CLERKS,
               atomic_load(&orders), atomic_load(&stock), atomic_load(&reads));
        return atomic_load(&orders) == 1 && atomic_load(&stock) == 3 + ORDER && !atomic_load(&failures) ? 0 : 1;
}
