/* pair.c - see pair.h. */
#include "pair.h"

#include <pawl.h>

#include "bench.h"

double pair_sample(void *arg)
{
        pawl_client *client = arg;
        int64_t begin = bench_now();
        uint64_t last = 0;

        for (int i = 0; i < PAIR_BATCH; i++) {
                pawl_lock *lock;

                bench_must(pawl_acquire(client, "bench/pair", NULL, &lock), "acquire");
                if (pawl_token(lock) <= last)
                        bench_die("a token did not grow");
                last = pawl_token(lock);
                bench_must(pawl_release(lock), "release");
        }
        return (double)(bench_now() - begin) / PAIR_BATCH / 1000;
}
