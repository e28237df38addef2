/* inventory.c - four workers sell from one stock, and one of them is stopped (SIGSTOP) in the middle of every sale, until
 * others have gone on without it. Nothing is sold twice, nothing is lost: whoever was stopped too long is refused, and
 * begins again.
 *
 *     inventory [URL [STORE]]      STORE: where the stock is, such as file:DIR, redis://... (default: file:.)
 */
#include <pawl.h>
#include <pawl/guard.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WORKERS = 4, STOCK = 40, TTL_MS = 200 };
static const char NAME[] = "example/stock";

/* What the workers tell their parent. */
struct sales {
        atomic_int by_others;   /* than worker 0, */
        atomic_int by_slow_one; /* which is stopped all the time */
        atomic_int refused;
};

static int write_stock(pawl_guard *guard, uint64_t token, int pieces)
{
        char text[16];
        int size = snprintf(text, sizeof(text), "%d\n", pieces);

        return pawl_guard_put(guard, NAME, token, text, (size_t)size, NULL);
}

static int read_stock(pawl_guard *guard, uint64_t token, int *pieces)
{
        struct pawl_guard_data data;
        int code = pawl_guard_get(guard, NAME, token, NULL, &data);

        if (code != PAWL_OK)
                return code;
        *pieces = atoi(data.bytes);
        free(data.bytes);
        return PAWL_OK;
}

/* One sale under the lock, or rather: under what may be left of it. *pieces: in stock before. */
static int sell(pawl_guard *guard, uint64_t token, int is_slow, int *pieces)
{
        int code = read_stock(guard, token, pieces);

        if (code != PAWL_OK || *pieces == 0)
                return code;
        if (is_slow)
                raise(SIGSTOP); /* the worst moment: we have read, and will write what follows from it */
        return write_stock(guard, token, *pieces - 1);
}

/* Until there is nothing to sell. 0 if all went well. */
static int work(pawl_client *client, pawl_guard *guard, int is_slow, struct sales *sales)
{
        for (;;) {
                pawl_lock *lock;
                int pieces = 0;
                int code = pawl_acquire(client, NAME, PAWL_LOCK(.ttl_ms = TTL_MS, .wait_ms = 60000), &lock);

                if (code != PAWL_OK)
                        return 1;
                code = sell(guard, pawl_token(lock), is_slow, &pieces);
                pawl_release(lock);
                if (code == PAWL_STALE) { /* our sale is void: again, with another token */
                        atomic_fetch_add(&sales->refused, 1);
                        continue;
                }
                if (code != PAWL_OK || pieces == 0)
                        return code != PAWL_OK;
                atomic_fetch_add(is_slow ? &sales->by_slow_one : &sales->by_others, 1);
        }
}

static int run_worker(const char *url, const char *store, int is_slow, struct sales *sales)
{
        pawl_client *client = NULL;
        pawl_guard *guard = NULL;
        int status = 1;

        if (pawl_open(url, NULL, &client) == PAWL_OK && pawl_guard_open(store, NULL, &guard) == PAWL_OK)
                status = work(client, guard, is_slow, sales);
        pawl_guard_close(guard);
        pawl_close(client);
        return status;
}

/* A stopped worker sleeps until others have sold something, or there is nothing left for them: 5 s then. */
static void wake_later(pid_t worker, struct sales *sales)
{
        const struct timespec moment = {.tv_nsec = 10000000};
        int before = atomic_load(&sales->by_others);

        for (int i = 0; i < 500 && atomic_load(&sales->by_others) == before; i++)
                nanosleep(&moment, NULL);
        kill(worker, SIGCONT);
}

/* How many workers did not end well. */
static int wait_for_all(int workers, struct sales *sales)
{
        int status, failed = 0;

        while (workers > 0) {
                pid_t worker = waitpid(-1, &status, WUNTRACED);

                if (worker < 0)
                        return workers;
                if (WIFSTOPPED(status)) {
                        wake_later(worker, sales);
                        continue;
                }
                workers--;
                failed += status != 0;
        }
        return failed;
}

/* Before the workers begin, and after they have ended: pieces in stock, written, or read if it is negative. */
static int take_stock(const char *url, const char *store, int *pieces)
{
        pawl_client *client = NULL;
        pawl_guard *guard = NULL;
        pawl_lock *lock;
        int code = pawl_open(url, NULL, &client);

        if (code == PAWL_OK)
                code = pawl_guard_open(store, NULL, &guard);
        if (code == PAWL_OK)
                code = pawl_acquire(client, NAME, NULL, &lock);
        if (code == PAWL_OK && *pieces < 0)
                code = read_stock(guard, pawl_token(lock), pieces);
        else if (code == PAWL_OK)
                code = write_stock(guard, pawl_token(lock), *pieces);
        pawl_guard_close(guard);
        pawl_close(client); /* releases the lock, too */
        return code;
}

static pid_t start_worker(const char *url, const char *store, int is_slow, struct sales *sales)
{
        pid_t pid = fork();

        if (pid == 0)
                _exit(run_worker(url, store, is_slow, sales));
        return pid;
}

/* The slow one first: the others begin while it stands still in its first sale. */
static const char *run_all(const char *url, const char *store, struct sales *sales)
{
        pid_t slow_one = start_worker(url, store, 1, sales);
        int status;

        if (slow_one < 0 || waitpid(slow_one, &status, WUNTRACED) != slow_one || !WIFSTOPPED(status))
                return "the slow worker does not come to its first sale";
        for (int i = 1; i < WORKERS; i++)
                if (start_worker(url, store, 0, sales) < 0)
                        return "cannot fork";
        wake_later(slow_one, sales);
        return wait_for_all(WORKERS, sales) == 0 ? NULL : "a worker failed";
}

static const char *play(const char *url, const char *store, struct sales *sales)
{
        const char *wrong;
        int pieces = STOCK;

        if (take_stock(url, store, &pieces) != PAWL_OK)
                return "cannot write the stock";
        wrong = run_all(url, store, sales);
        if (wrong)
                return wrong;
        pieces = -1;
        if (take_stock(url, store, &pieces) != PAWL_OK || pieces != 0)
                return "something is left, and nobody sold it";
        if (atomic_load(&sales->by_others) + atomic_load(&sales->by_slow_one) != STOCK)
                return "what was sold is not what was there";
        return atomic_load(&sales->refused) > 0 ? NULL : "nobody was refused: there was nothing to see";
}

int main(int argc, char **argv)
{
        struct sales *sales = mmap(NULL, sizeof(*sales), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        const char *wrong;

        if (sales == MAP_FAILED)
                return 1;
        wrong = play(argc > 1 ? argv[1] : NULL, argc > 2 ? argv[2] : "file:.", sales);
        if (wrong)
                printf("%s\n", wrong);
        else
                printf("%d pieces sold once each, %d of them by the worker that was stopped; %d late sales were "
                       "refused\n",
                       STOCK, atomic_load(&sales->by_slow_one), atomic_load(&sales->refused));
        return wrong ? 1 : 0;
}
