/* turns.c - see turns.h. */
#include "turns.h"

#include <sys/prctl.h>

#include <pawl.h>

#include "bench.h"

void turns_sleep(int64_t ns)
{
        if (!ns)
                return;
        prctl(PR_SET_TIMERSLACK, 1);
        crew_sleep_ns(ns);
}

void turns_pawl(struct crew *crew, uint32_t me, void *arg)
{
        const struct turns *turns = arg;
        pawl_client *client = bench_open(turns->url, NULL);
        pawl_lock *lock;

        if (!client)
                bench_die("the engine is gone");
        crew_start(crew);
        while (!atomic_load(&crew->stop)) {
                uint64_t ticket = crew_ask(crew);

                bench_must(pawl_acquire(client, "bench/turns", NULL, &lock), "acquire");
                crew_turn(crew, me, ticket);
                turns_sleep(turns->hold_ns);
                bench_must(pawl_release(lock), "release");
                turns_sleep(turns->pause_ns);
        }
        pawl_close(client);
}
