/* test_load.c - exclusion under load: what the lock guards is a plain counter with a wide window, so that a lock that
 * lets two in shows as a wrong sum (and as a race, under a thread sanitizer). */
#include "contract.h"

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NAMES = 4, THREADS = 8, TURNS = 2000 };

struct counters {
        volatile long sums[NAMES];
        volatile int inside[NAMES];
        atomic_int wrong;
};

typedef void count_fn(struct counters *counters, int which, unsigned chance);

struct worker {
        struct counters *counters;
        pawl_client *client;
        count_fn *count;
        unsigned seed;
        int turns;
        pthread_t thread;
};

static void linger(unsigned chance)
{
        for (volatile unsigned i = 0; i < chance % 64; i++)
                ;
        if (chance % 32 == 0)
                sched_yield();
}

/* Read, linger, write: two at once would lose a turn. */
static void count_one(struct counters *counters, int which, unsigned chance)
{
        long sum = counters->sums[which];
        if (counters->inside[which]++)
                atomic_fetch_add(&counters->wrong, 1);
        linger(chance);
        counters->inside[which]--;
        counters->sums[which] = sum + 1;
}

/* The same for clients that meet only in the store: a sanitizer that watches one process's addresses cannot see that the
 * store orders them. */
static void count_one_apart(struct counters *counters, int which, unsigned chance)
{
        long sum = __atomic_load_n(&counters->sums[which], __ATOMIC_RELAXED);

        if (__atomic_fetch_add(&counters->inside[which], 1, __ATOMIC_RELAXED))
                atomic_fetch_add(&counters->wrong, 1);
        linger(chance);
        __atomic_fetch_sub(&counters->inside[which], 1, __ATOMIC_RELAXED);
        __atomic_store_n(&counters->sums[which], sum + 1, __ATOMIC_RELAXED);
}

static void *work(void *arg)
{
        struct worker *worker = arg;
        char name[2] = "0";
        for (int i = 0; i < worker->turns; i++) {
                pawl_lock *lock;
                worker->seed = worker->seed * 1103515245 + 12345;
                int which = (worker->seed >> 16) % NAMES;
                name[0] = (char)('0' + which);
                if (pawl_acquire(worker->client, name, PAWL_LOCK(.wait_ms = PATIENCE, .ttl_ms = 60000), &lock)) {
                        atomic_fetch_add(&worker->counters->wrong, 1);
                        return NULL;
                }
                worker->count(worker->counters, which, worker->seed >> 8);
                if (pawl_release(lock) != PAWL_OK)
                        atomic_fetch_add(&worker->counters->wrong, 1);
        }
        return NULL;
}

static long sum_of(const struct counters *counters)
{
        long sum = 0;
        for (int i = 0; i < NAMES; i++)
                sum += counters->sums[i];
        return sum;
}

TEST_WITHIN(300, eight_threads_of_one_client_never_meet)
{
        static struct counters counters;
        struct worker workers[THREADS];
        pawl_client *one = join(fresh_place());

        for (unsigned i = 0; i < THREADS; i++) {
                workers[i] = (struct worker){&counters, one, count_one, i + 1, TURNS, 0};
                REQUIRE(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
        }
        for (int i = 0; i < THREADS; i++)
                pthread_join(workers[i].thread, NULL);
        CHECK_INT(atomic_load(&counters.wrong), 0);
        CHECK_INT(sum_of(&counters), THREADS * TURNS);
}

TEST_WITHIN(300, threads_of_several_clients_never_meet)
{
        static struct counters counters;
        struct worker workers[THREADS];
        const char *place = fresh_place();

        for (unsigned i = 0; i < THREADS; i++) {
                workers[i] = (struct worker){&counters, join(place), count_one_apart, i + 100, TURNS / 4, 0};
                REQUIRE(!pthread_create(&workers[i].thread, NULL, work, &workers[i]));
        }
        for (int i = 0; i < THREADS; i++)
                pthread_join(workers[i].thread, NULL);
        CHECK_INT(atomic_load(&counters.wrong), 0);
        CHECK_INT(sum_of(&counters), THREADS * (TURNS / 4));
}

TEST_WITHIN(300, several_processes_never_meet)
{
        enum { PROCESSES = 4 };
        const char *place = fresh_place();
        struct counters *counters =
                mmap(NULL, sizeof *counters, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        REQUIRE(counters != MAP_FAILED);
        for (unsigned i = 0; i < PROCESSES; i++) {
                if (fork())
                        continue;
                struct worker worker = {counters, NULL, count_one_apart, i + 1000, TURNS / 4, 0};
                if (pawl_open(place, NULL, &worker.client) != PAWL_OK)
                        _exit(1);
                work(&worker);
                _exit(pawl_close(worker.client) != PAWL_OK);
        }
        for (int i = 0; i < PROCESSES; i++) {
                int status = -1;
                CHECK_COMPARE(wait(&status), >, 0);
                CHECK_INT(status, 0);
        }
        CHECK_INT(atomic_load(&counters->wrong), 0);
        CHECK_INT(sum_of(counters), PROCESSES * (TURNS / 4));
}

/* Readers see a pair of numbers that writers change one after the other. */
static struct {
        pawl_client *client;
        volatile long left, right;
        atomic_int torn, reads, writes;
} pair;

static void *read_or_write(void *arg)
{
        unsigned seed = (unsigned)(uintptr_t)arg;
        for (int i = 0; i < 300; i++) {
                pawl_lock *lock;
                seed = seed * 1103515245 + 12345;
                bool writes = (seed >> 16) % 4 == 0;
                uint32_t mode = writes ? PAWL_EXCLUSIVE : PAWL_SHARED;
                if (pawl_acquire(pair.client, "a", PAWL_LOCK(.mode = mode, .wait_ms = PATIENCE), &lock) != PAWL_OK)
                        break;
                if (writes)
                        pair.left++;
                else if (pair.left != pair.right)
                        atomic_fetch_add(&pair.torn, 1);
                sched_yield();
                if (writes)
                        pair.right++;
                atomic_fetch_add(writes ? &pair.writes : &pair.reads, 1);
                (void)pawl_release(lock);
        }
        return NULL;
}

TEST_WITHIN(300, readers_never_meet_a_writer)
{
        pthread_t threads[THREADS];

        pair.client = join(fresh_place());
        NEEDS(pair.client, PAWL_CAN_SHARE);
        for (uintptr_t i = 0; i < THREADS; i++)
                REQUIRE(!pthread_create(&threads[i], NULL, read_or_write, (void *)(i + 1)));
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        CHECK_INT(atomic_load(&pair.torn), 0);
        CHECK_INT(pair.left, pair.right);
        CHECK_INT(atomic_load(&pair.writes), pair.left);
        CHECK_INT(atomic_load(&pair.reads) + atomic_load(&pair.writes), THREADS * 300);
}

/* ---- a semaphore ----------------------------------------------------------------------------------------------- */

enum { PERMITS = 3 };
static struct {
        pawl_client *client;
        atomic_int inside, most, turns;
} room;

static void *visit(void *arg)
{
        (void)arg;
        for (int i = 0; i < 100; i++) {
                pawl_lock *lock;
                if (pawl_acquire(room.client, "a",
                                 PAWL_LOCK(.mode = PAWL_SHARED, .max_holders = PERMITS, .wait_ms = PATIENCE), &lock))
                        break;
                int inside = atomic_fetch_add(&room.inside, 1) + 1;
                int most = atomic_load(&room.most);
                while (inside > most && !atomic_compare_exchange_weak(&room.most, &most, inside))
                        ;
                nap(1);
                atomic_fetch_sub(&room.inside, 1);
                atomic_fetch_add(&room.turns, 1);
                (void)pawl_release(lock);
        }
        return NULL;
}

TEST_WITHIN(300, never_more_than_n_are_inside_a_limited_lock_and_all_n_places_are_used)
{
        pthread_t threads[THREADS];

        room.client = join(fresh_place());
        NEEDS(room.client, PAWL_CAN_LIMIT);
        for (int i = 0; i < THREADS; i++)
                REQUIRE(!pthread_create(&threads[i], NULL, visit, NULL));
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        CHECK_INT(atomic_load(&room.turns), THREADS * 100);
        CHECK_INT(atomic_load(&room.most), PERMITS);
}
