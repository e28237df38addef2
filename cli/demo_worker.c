/* demo_worker.c - one worker of `pawl demo`: a program as a user would write it. It keeps its ledger twice, behind a guard
 * and, to show the difference, carelessly. */
#include "demo.h"

#include <fcntl.h>
#include <pawl/guard.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct worker {
        const struct demo_paths *paths;
        uint32_t number;
        int events;
        pawl_client *client;
        pawl_guard *guard;
};

struct ledgers {
        char *guarded;
        char *careless;
};

static void tell(const struct worker *worker, enum demo_event_kind kind, uint64_t token, int value)
{
        struct demo_event event = {.kind = kind, .worker = worker->number, .token = token, .value = value};

        if (write(worker->events, &event, sizeof(event)) != sizeof(event))
                _exit(1); /* the director is gone */
}

static char *read_careless(const char *path)
{
        FILE *file = fopen(path, "r");
        char *text = calloc(1, 4096);

        if (file && text)
                text[fread(text, 1, 4095, file)] = 0;
        if (file)
                fclose(file);
        return text;
}

static void write_careless(const char *path, const char *text)
{
        FILE *file = fopen(path, "w");

        if (!file)
                return;
        fputs(text, file);
        fclose(file);
}

/* text with our own line behind it. */
static char *with_line(const struct worker *worker, const char *text, uint64_t token)
{
        char *longer;

        if (asprintf(&longer, "%s%s %llu\n", text, demo_names[worker->number], (unsigned long long)token) < 0)
                return NULL;
        return longer;
}

/* Reading is guarded too: from here on nobody with an older token can change what we have read. */
static int read_ledgers(struct worker *worker, uint64_t token, struct ledgers *ledgers)
{
        struct pawl_guard_data data = {0};
        int code = pawl_guard_get(worker->guard, DEMO_LOCK, token, NULL, &data);

        if (code != PAWL_OK && code != PAWL_NOT_FOUND)
                return code;
        ledgers->guarded = code == PAWL_OK ? data.bytes : strdup("");
        ledgers->careless = read_careless(worker->paths->careless);
        return ledgers->guarded && ledgers->careless ? PAWL_OK : PAWL_NO_MEMORY;
}

static int write_ledgers(struct worker *worker, uint64_t token, const struct ledgers *ledgers)
{
        char *guarded = with_line(worker, ledgers->guarded, token);
        char *careless = with_line(worker, ledgers->careless, token);
        int code = PAWL_NO_MEMORY;

        if (guarded && careless) {
                write_careless(worker->paths->careless, careless);
                code = pawl_guard_put(worker->guard, DEMO_LOCK, token, guarded, strlen(guarded), NULL);
        }
        free(guarded);
        free(careless);
        return code;
}

static void work(void)
{
        struct timespec ts = {0, DEMO_WORK_MS * 1000000L};

        nanosleep(&ts, NULL);
}

/* Between the read and the write, as a long pause of the collector, a swapped-out page or a sleeping laptop would. */
static void fall_asleep(const struct worker *worker, uint64_t token)
{
        tell(worker, EVENT_STOPS, token, 0);
        kill(getpid(), SIGSTOP);
}

/* Reads, works, writes. A worker that slept does not know it: it does not look at the lock before it writes, for it
 * might as well have fallen asleep after that look. */
static int add_line(struct worker *worker, pawl_lock *lock, enum demo_order order)
{
        struct ledgers ledgers = {0};
        uint64_t token = pawl_token(lock);
        int code = read_ledgers(worker, token, &ledgers);

        if (code == PAWL_OK) {
                work();
                if (order == ORDER_SLEEP)
                        fall_asleep(worker, token);
                code = write_ledgers(worker, token, &ledgers);
        }
        free(ledgers.guarded);
        free(ledgers.careless);
        return code;
}

static void take_turn(struct worker *worker, enum demo_order order)
{
        pawl_lock *lock;
        uint64_t token;
        int code;

        tell(worker, EVENT_WAITS, 0, 0);
        code = pawl_acquire(worker->client, DEMO_LOCK, PAWL_LOCK(.ttl_ms = DEMO_TTL_MS), &lock);
        if (code != PAWL_OK) {
                tell(worker, EVENT_FAILED, 0, code);
                return;
        }
        token = pawl_token(lock);
        tell(worker, EVENT_HOLDS, token, 0);
        code = add_line(worker, lock, order);
        if (code == PAWL_OK || code == PAWL_STALE)
                tell(worker, code == PAWL_OK ? EVENT_WROTE : EVENT_REFUSED, token, code);
        else
                tell(worker, EVENT_FAILED, token, code);
        if (pawl_check(lock) != PAWL_OK)
                tell(worker, EVENT_LOST, token, pawl_reason(lock));
        pawl_release(lock);
        tell(worker, EVENT_RELEASED, token, 0);
}

int demo_worker(const struct demo_paths *paths, uint32_t number, int orders, int events)
{
        struct worker worker = {.paths = paths, .number = number, .events = events};
        char order;
        int code = pawl_open(paths->engine, PAWL_OPEN(.owner = demo_names[number]), &worker.client);

        if (code == PAWL_OK)
                code = pawl_guard_open(paths->guard, NULL, &worker.guard);
        if (code != PAWL_OK)
                tell(&worker, EVENT_FAILED, 0, code);
        while (code == PAWL_OK && read(orders, &order, 1) == 1)
                take_turn(&worker, (enum demo_order)order);
        pawl_guard_close(worker.guard);
        pawl_close(worker.client);
        return code == PAWL_OK ? 0 : 1;
}
