/* row_15_many_locks_local.c - one client holds 100,000 locks: what each costs in memory, and whether a renewal is late. */
#include <pawl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

enum { LOCKS = 100000, TTL_MS = 3000, HOLD_SECONDS = 5 };

/* The process's own memory; the state file's pages are the store's and are not counted. */
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

static void take_all(pawl_client *client, pawl_lock **locks)
{
        for (int i = 0; i < LOCKS; i++) {
                char name[32];

                snprintf(name, sizeof(name), "bench/many/%d", i);
                bench_must(pawl_acquire(client, name, PAWL_LOCK(.ttl_ms = TTL_MS), &locks[i]), "acquire");
        }
}

static void part(int cores)
{
        pawl_lock **locks = calloc(LOCKS, sizeof(pawl_lock *));
        struct pawl_stats stats = {.size = sizeof(stats)};
        pawl_client *client;
        double before, bytes;
        int lost = 0;
        char what[128];

        if (!locks)
                bench_die("no memory");
        memset(locks, 1, LOCKS * sizeof(pawl_lock *)); /* our own pages must not count as the client's */
        bench_must(pawl_open(bench_url("many"), NULL, &client), "open");
        before = anonymous_bytes();
        take_all(client, locks);
        bytes = (anonymous_bytes() - before) / LOCKS;
        sleep(HOLD_SECONDS);
        bench_must(pawl_stats(client, &stats), "stats");
        for (int i = 0; i < LOCKS; i++)
                lost += pawl_release(locks[i]) != PAWL_OK;
        snprintf(what, sizeof(what), "100,000 locks held, bytes of client memory each, %d core(s); target < 600",
                 cores);
        bench_line(15, what, -1, -1, bytes, -1);
        snprintf(what, sizeof(what), "  of them late with a renewal or lost, %d core(s); target 0", cores);
        bench_line(15, what, -1, -1, (double)stats.uncertain + lost, -1);
        bench_note("%llu renewals in %d s of a ttl of %d ms; slack p50 %.0f ms of the lease left",
                   (unsigned long long)stats.renewals, HOLD_SECONDS, TTL_MS, (double)stats.renew_slack.p50_ns / 1e6);
        pawl_close(client);
        free(locks);
}

int main(void)
{
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
