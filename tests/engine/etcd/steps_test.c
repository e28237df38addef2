/* steps_test.c - a lock that goes round among eight clients, while others write, is not handed over in steps of the server's
 * slow loop. etcd serves a watch that begins in the past ten times a second, and may take one for that which asks for "from
 * now on": then a few hand-overs in a hundred take a hundred times as long as the rest.
 * Beside other work the rest is so slow that they do not stand out. ETCD_URL says where. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "pawl.h"
#include "tap.h"

enum { CLIENTS = 8, TURNS = 100, GRANTS = CLIENTS * TURNS };

static double moments[GRANTS]; /* of the grants, in their order: one at a time has the lock */
static atomic_int granted;
static atomic_bool over;

static double now(void)
{
        struct timespec time;

        clock_gettime(CLOCK_MONOTONIC, &time);
        return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static bool take_turn(pawl_client *client, const char *name, bool noted)
{
        pawl_lock *lock;

        if (pawl_acquire(client, name, NULL, &lock) != PAWL_OK)
                return false;
        if (noted)
                moments[atomic_fetch_add(&granted, 1)] = now();
        return pawl_release(lock) == PAWL_OK;
}

static void *go_round(void *arg)
{
        int turns = 0;

        while (turns < TURNS && take_turn(arg, "round", true))
                turns++;
        return NULL;
}

static void *write_all_the_time(void *arg)
{
        while (!atomic_load(&over) && take_turn(arg, "unrelated", false))
                ;
        return NULL;
}

static pawl_client *join_in(void)
{
        pawl_client *client;

        REQUIRE_INT(pawl_open(getenv("ETCD_URL"), NULL, &client), PAWL_OK);
        return client;
}

static int by_size(const void *a, const void *b)
{
        const double x = *(const double *)a, y = *(const double *)b;

        return (x > y) - (x < y);
}

/* How many hand-overs took much longer than usual. */
static int count_slow(pawl_client *const *clients, pawl_client *writer)
{
        pthread_t threads[CLIENTS], writing;
        double gaps[GRANTS - 1];
        int slow = 0;

        atomic_store(&granted, 0);
        atomic_store(&over, false);
        REQUIRE(pthread_create(&writing, NULL, write_all_the_time, writer) == 0);
        for (int i = 0; i < CLIENTS; i++)
                REQUIRE(pthread_create(&threads[i], NULL, go_round, clients[i]) == 0);
        for (int i = 0; i < CLIENTS; i++)
                pthread_join(threads[i], NULL);
        atomic_store(&over, true);
        pthread_join(writing, NULL);
        REQUIRE_INT(atomic_load(&granted), GRANTS);
        for (int i = 0; i < GRANTS - 1; i++)
                gaps[i] = moments[i + 1] - moments[i];
        qsort(gaps, GRANTS - 1, sizeof(*gaps), by_size);
        for (int i = 0; i < GRANTS - 1; i++)
                slow += gaps[i] > 25 * gaps[GRANTS / 2];
        NOTE("of %d hand-overs %d took 25 times as long as the median of %.2f ms, and more", GRANTS - 1, slow,
             1000 * gaps[GRANTS / 2]);
        return slow;
}

/* The machine has steps of its own, not in every round. */
TEST_WITHIN(300, hand_overs_take_no_steps_of_the_servers_slow_loop_while_others_write)
{
        pawl_client *clients[CLIENTS], *writer = join_in();
        int least = GRANTS;

        for (int i = 0; i < CLIENTS; i++)
                clients[i] = join_in();
        for (int round = 0; round < 6 && least > GRANTS / 200; round++) {
                int slow = count_slow(clients, writer);

                if (slow < least)
                        least = slow;
        }
        CHECK(least <= GRANTS / 200);
        for (int i = 0; i < CLIENTS; i++)
                CHECK_INT(pawl_close(clients[i]), PAWL_OK);
        CHECK_INT(pawl_close(writer), PAWL_OK);
}

/* Both are under way at the same time, and the store does requests that are under way together in any order. */
TEST_WITHIN(60, a_try_does_not_overtake_an_earlier_waiter_of_the_same_client)
{
        enum { ROUNDS = 100 };
        pawl_client *client = join_in();
        int overtaken = 0;

        REQUIRE(take_turn(client, "try", false));
        for (int i = 0; i < ROUNDS; i++) {
                pawl_lock *waiter, *eager;

                REQUIRE_INT(pawl_acquire_async(client, "try", NULL, NULL, NULL, &waiter), PAWL_OK);
                REQUIRE_INT(pawl_acquire_async(client, "try", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), NULL, NULL, &eager),
                            PAWL_OK);
                overtaken += pawl_wait(eager, PAWL_FOREVER) != PAWL_BUSY;
                (void)pawl_release(eager);
                REQUIRE_INT(pawl_wait(waiter, PAWL_FOREVER), PAWL_OK);
                REQUIRE_INT(pawl_release(waiter), PAWL_OK);
        }
        CHECK_INT(overtaken, 0);
        CHECK_INT(pawl_close(client), PAWL_OK);
}
