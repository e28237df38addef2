/* crowd.c - redlock-crowd URL PROCESSES SECONDS: processes that take one lock in turn, as fast as they can. Prints how many
 * grants there were in a second, and how often two of them held at the same time. */
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "pawl.h"

struct shared {
        atomic_int ready, holders;
        atomic_long grants, overlaps, failures;
        atomic_bool go, stop;
};

static void work_once(pawl_client *client, struct shared *shared)
{
        pawl_lock *lock;

        if (pawl_acquire(client, "crowd", PAWL_LOCK(.wait_ms = 10000), &lock) != PAWL_OK) {
                shared->failures++;
                return;
        }
        shared->overlaps += atomic_fetch_add(&shared->holders, 1) > 0;
        shared->grants++;
        shared->holders--;
        shared->failures += pawl_release(lock) != PAWL_OK;
}

static int work(const char *url, struct shared *shared)
{
        pawl_client *client;

        if (pawl_open(url, NULL, &client) != PAWL_OK)
                return 1;
        work_once(client, shared);
        shared->ready++;
        while (!shared->go)
                usleep(1000);
        while (!shared->stop)
                work_once(client, shared);
        pawl_close(client);
        return 0;
}

static double seconds_now(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

int main(int argc, char **argv)
{
        struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        int count = argc == 4 ? atoi(argv[2]) : 0, status = 0, one;
        double begin, took;
        long before;

        if (count < 1 || shared == MAP_FAILED)
                return 2;
        for (int i = 0; i < count; i++)
                if (fork() == 0)
                        _exit(work(argv[1], shared));
        for (int i = 0; i < 60000 && shared->ready < count; i++)
                usleep(1000);
        before = shared->grants;
        begin = seconds_now();
        shared->go = true;
        usleep((useconds_t)(atof(argv[3]) * 1e6));
        shared->stop = true;
        took = seconds_now() - begin;
        printf("%.0f grants/s, %ld overlaps, %ld failures\n", (double)(shared->grants - before) / took,
               shared->overlaps, shared->failures);
        while (wait(&one) > 0)
                status |= one;
        return status ? 1 : 0;
}
