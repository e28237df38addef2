/* many.c - one client with many locks: many URL TTL_MS HELD,... WAITED,...
 * Takes the first names and says "held"; waits for the others, each in a thread of its own. To each line on stdin it
 * says how many of the first it still has, and how many of the others it has got. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pawl.h"

enum { MANY = 64 };

static pawl_client *client;
static int64_t ttl_ms;
static atomic_int got;

static pawl_lock *acquire(const char *name, int64_t wait_ms)
{
        pawl_lock *lock = NULL;
        int code = pawl_acquire(client, name, PAWL_LOCK(.wait_ms = wait_ms, .ttl_ms = ttl_ms), &lock);

        if (code != PAWL_OK)
                fprintf(stderr, "%s: %s\n", name, pawl_strerror(code));
        return code == PAWL_OK ? lock : NULL;
}

static void *wait_for(void *name)
{
        if (acquire(name, PAWL_FOREVER))
                atomic_fetch_add(&got, 1);
        return NULL;
}

static int count_held(pawl_lock *const *locks, int count)
{
        int held = 0;

        for (int i = 0; i < count; i++)
                held += pawl_check(locks[i]) == PAWL_OK;
        return held;
}

int main(int argc, char **argv)
{
        pawl_lock *locks[MANY];
        pthread_t thread;
        char line[16];
        int count = 0;

        if (argc != 5 || pawl_open(argv[1], NULL, &client) != PAWL_OK)
                return 2;
        ttl_ms = atoll(argv[2]);
        for (char *name = strtok(argv[3], ","); name && count < MANY; name = strtok(NULL, ","))
                if (!(locks[count++] = acquire(name, PAWL_NO_WAIT)))
                        return 1;
        puts("held");
        fflush(stdout);
        for (char *name = strtok(argv[4], ","); name; name = strtok(NULL, ","))
                if (pthread_create(&thread, NULL, wait_for, name) != 0)
                        return 1;
        while (fgets(line, sizeof(line), stdin)) {
                printf("%d %d\n", count_held(locks, count), atomic_load(&got));
                fflush(stdout);
        }
        return 0;
}
