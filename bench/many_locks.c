/* many_locks.c - see many_locks.h. */
#include "many_locks.h"

#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <pawl.h>

#include "bench.h"

/* The process's own memory; the pages of a state file are the store's and are not counted. */
static double anonymous_bytes(void)
{
        FILE *file = fopen("/proc/self/status", "r");
        char line[256];
        long kib = -1;

        while (file && fgets(line, sizeof(line), file))
                if (strncmp(line, "RssAnon:", 8) == 0)
                        kib = strtol(line + 8, NULL, 10);
        if (kib < 0)
                bench_die("/proc/self/status does not say RssAnon");
        fclose(file);
        return (double)kib * 1024;
}

static int locks_wanted(void)
{
        return bench_quick() ? MANY_LOCKS / 100 : MANY_LOCKS;
}

/* ---- several at once -------------------------------------------------------------------------------------------- */

struct flight {
        sem_t room;
        _Atomic int lost;
};

static void on_granted(pawl_lock *lock, int status, void *arg)
{
        struct flight *flight = arg;

        (void)lock;
        bench_must(status, "grant");
        sem_post(&flight->room);
}

static void on_released(int status, void *arg)
{
        struct flight *flight = arg;

        flight->lost += status != PAWL_OK;
        sem_post(&flight->room);
}

static void await(struct flight *flight, int places)
{
        for (int i = 0; i < places; i++)
                while (sem_wait(&flight->room) != 0)
                        ;
}

/* ---- all of them ------------------------------------------------------------------------------------------------ */

static void take_all(pawl_client *client, pawl_lock **locks, const struct many_locks *job)
{
        struct flight flight;

        sem_init(&flight.room, 0, (unsigned)job->flight);
        for (int i = 0; i < locks_wanted(); i++) {
                const struct pawl_lock_options *options = PAWL_LOCK(.ttl_ms = job->ttl_ms);
                char name[32];

                snprintf(name, sizeof(name), "bench/many/%d", i);
                if (!job->flight) {
                        bench_must(pawl_acquire(client, name, options, &locks[i]), "acquire");
                        continue;
                }
                await(&flight, 1);
                bench_must(pawl_acquire_async(client, name, options, on_granted, &flight, &locks[i]), "acquire");
        }
        await(&flight, job->flight);
        sem_destroy(&flight.room);
}

/* Gives how many had been lost. */
static int return_all(pawl_lock **locks, const struct many_locks *job)
{
        struct flight flight = {.lost = 0};

        sem_init(&flight.room, 0, (unsigned)job->flight);
        for (int i = 0; i < locks_wanted(); i++) {
                if (!job->flight) {
                        flight.lost += pawl_release(locks[i]) != PAWL_OK;
                        continue;
                }
                await(&flight, 1);
                bench_must(pawl_release_async(locks[i], on_released, &flight), "release");
        }
        await(&flight, job->flight);
        sem_destroy(&flight.room);
        return flight.lost;
}

static void hold_all(struct many_locks *job)
{
        double before = job->commands ? job->commands(job->arg) : 0;
        int64_t begin = bench_now();
        double seconds;

        sleep((unsigned)job->hold_seconds);
        seconds = (double)(bench_now() - begin) / 1e9;
        if (job->commands)
                job->per_third = (job->commands(job->arg) - before) / (seconds * 3000 / job->ttl_ms);
}

int many_locks_run(struct many_locks *job)
{
        pawl_lock **locks = calloc(MANY_LOCKS, sizeof(pawl_lock *));
        struct pawl_stats stats = {.size = sizeof(stats)};
        pawl_client *client = bench_open(job->url, NULL);
        double before;

        if (!locks)
                bench_die("no memory");
        if (!client)
                return 0;
        memset(locks, 1, MANY_LOCKS * sizeof(pawl_lock *)); /* our own pages must not count as the client's */
        before = anonymous_bytes();
        take_all(client, locks, job);
        job->bytes = (anonymous_bytes() - before) / locks_wanted();
        hold_all(job);
        bench_must(pawl_stats(client, &stats), "stats");
        job->late = (double)stats.uncertain + return_all(locks, job);
        job->renewals = (double)stats.renewals;
        job->slack_p50_ms = (double)stats.renew_slack.p50_ns / 1e6;
        pawl_close(client);
        free(locks);
        return 1;
}

void many_locks_lines(const struct many_locks *job, const char *engine, int cores)
{
        char what[128];

        snprintf(what, sizeof(what), "%s: 100,000 locks held, bytes of client memory each, %d core(s)", engine, cores);
        bench_line(15, what, -1, -1, job->bytes, -1, "< 600");
        snprintf(what, sizeof(what), "  of them late with a renewal, or lost, %d core(s)", cores);
        bench_line(15, what, -1, -1, job->late, -1, "<= 0");
        bench_note("%.0f renewals in %d s of a ttl of %d ms; slack p50 %.0f ms of the lease left", job->renewals,
                   job->hold_seconds, job->ttl_ms, job->slack_p50_ms);
}

void many_locks_of_session(struct many_locks *job, const char *engine, int cores)
{
        char what[128];

        if (bench_quick())
                job->hold_seconds = 1;
        if (!many_locks_run(job))
                return;
        many_locks_lines(job, engine, cores);
        snprintf(what, sizeof(what), "  requests that keep them in a third of the ttl, %d core(s)", cores);
        bench_line(15, what, -1, -1, job->per_third, -1, "<= 10");
}
