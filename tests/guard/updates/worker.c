/* worker.c - the workers: lock, read, sleep too long at times, write. None of them asks whether its lock still stands. */
#include <errno.h>
#include <inttypes.h>
#include <pawl/guard.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "updates.h"

struct worker {
        const struct plan *plan;
        struct score *score;
        pawl_guard *guard;
        pawl_client *client;
        uint64_t number; /* from 1 */
        uint64_t updates;
        uint64_t random;
};

struct score *score_new(const struct plan *plan)
{
        uint64_t room = plan->updates + WORKERS;
        struct score *score = mmap(NULL, sizeof(*score) + room * sizeof(struct update), PROT_READ | PROT_WRITE,
                                   MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        if (score == MAP_FAILED)
                return NULL;
        score->room = room;
        return score;
}

void score_free(struct score *score)
{
        if (score)
                munmap(score, sizeof(*score) + score->room * sizeof(struct update));
}

/* The first failure is told; then everybody stops. */
static void went_wrong(struct worker *worker, const char *what, int code, const struct pawl_why *why)
{
        if (atomic_exchange(&worker->score->wrong, 1) == 0)
                snprintf(worker->score->sentence, sizeof(worker->score->sentence), "%s: %s: %s", what,
                         pawl_error_name(code), why->text[0] ? why->text : pawl_strerror(code));
}

/* Marsaglia's xorshift: nobody depends on its quality. */
static uint64_t chance(struct worker *worker, uint64_t below)
{
        worker->random ^= worker->random << 13;
        worker->random ^= worker->random >> 7;
        worker->random ^= worker->random << 17;
        return worker->random % below;
}

static void nap(uint64_t ms)
{
        struct timespec left = {.tv_nsec = (long)ms * 1000000};

        while (nanosleep(&left, &left) != 0 && errno == EINTR)
                continue;
}

static void sleep_past_the_lease(struct worker *worker)
{
        atomic_fetch_add(&worker->score->pauses, 1);
        nap(TTL_MS + 10 + chance(worker, 2 * (uint64_t)TTL_MS));
}

/* Who shows the same token as everybody has nothing to be refused for. */
static bool refused(struct worker *worker, atomic_ullong *count, int code)
{
        if (code != PAWL_STALE || !worker->plan->fenced)
                return false;
        atomic_fetch_add(count, 1);
        return true;
}

/* False: refused, or it failed. */
static bool read_resource(struct worker *worker, const char *name, uint64_t token, struct content *content)
{
        struct pawl_why why = {0};
        struct pawl_guard_data data;
        int code = pawl_guard_get(worker->guard, name, token, &why, &data);
        bool good;

        *content = (struct content){0};
        if (code == PAWL_NOT_FOUND || refused(worker, &worker->score->refused_reads, code))
                return code == PAWL_NOT_FOUND;
        if (code != PAWL_OK) {
                went_wrong(worker, "get", code, &why);
                return false;
        }
        good = content_read(data.bytes, content);
        free(data.bytes);
        if (!good)
                went_wrong(worker, "what was read is not what anybody wrote", PAWL_CORRUPT, &why);
        else if (content->worker != worker->number)
                atomic_fetch_add(&worker->score->handovers, 1);
        return good;
}

static void log_update(struct score *score, const struct update *update)
{
        uint64_t place = atomic_fetch_add(&score->accepted, 1);

        if (place < score->room)
                score->accepted_updates[place] = *update;
}

static void write_resource(struct worker *worker, const char *name, uint64_t token, uint64_t resource,
                           const struct content *before)
{
        struct pawl_why why = {0};
        uint64_t stamp = ++worker->updates * WORKERS + worker->number - 1;
        struct content content = {before->counter + 1, chain_add(before->chain, stamp), worker->number};
        char text[CONTENT_MAX];
        int size = content_write(&content, text);
        int code = pawl_guard_put(worker->guard, name, token, text, (size_t)size, &why);

        if (code == PAWL_OK)
                log_update(worker->score, &(struct update){resource, content.counter, stamp});
        else if (!refused(worker, &worker->score->refused_writes, code))
                went_wrong(worker, "put", code, &why);
}

/* One update under a lock, which may be over long before. Who took over from a sleeper takes its time between reading and
 * writing, within its lease: there the sleeper wakes, and only if the read was a barrier it is refused. */
static void update(struct worker *worker, uint64_t resource, uint64_t token, bool took_over)
{
        uint64_t shown = worker->plan->fenced ? token : 1;
        bool pauses = chance(worker, worker->plan->pause_every) == 0;
        bool before_reading = pauses && chance(worker, 4) == 0;
        struct content content;
        char name[RESOURCE_MAX];

        resource_name(worker->plan, resource, name);
        if (before_reading)
                sleep_past_the_lease(worker);
        if (!read_resource(worker, name, shown, &content))
                return;
        if (pauses && !before_reading)
                sleep_past_the_lease(worker);
        else if (took_over)
                nap(chance(worker, TTL_MS - 10));
        write_resource(worker, name, shown, resource, &content);
}

static void lock_and_update(struct worker *worker)
{
        struct pawl_why why = {0};
        uint64_t resource = chance(worker, RESOURCES);
        unsigned long long token;
        bool took_over;
        char name[RESOURCE_MAX];
        pawl_lock *lock;
        int code;

        resource_name(worker->plan, resource, name);
        code = pawl_acquire(worker->client, name,
                            PAWL_LOCK(.ttl_ms = TTL_MS, .wait_ms = 20000, .flags = PAWL_NO_RENEW, .why = &why), &lock);
        if (code != PAWL_OK) {
                if (code != PAWL_TIMEOUT)
                        went_wrong(worker, "acquire", code, &why);
                return;
        }
        token = pawl_token(lock);
        took_over = atomic_exchange(&worker->score->believers[resource], token) != 0;
        if (took_over)
                atomic_fetch_add(&worker->score->takeovers, 1);
        update(worker, resource, token, took_over);
        atomic_compare_exchange_strong(&worker->score->believers[resource], &token, 0);
        (void)pawl_release(lock); /* PAWL_LOST, if we slept */
}

static void *run_worker(void *arg)
{
        struct worker *worker = arg;
        struct pawl_why why = {0};
        int code = pawl_open(worker->plan->locks, PAWL_OPEN(.drive = PAWL_DRIVE_CALLER, .why = &why), &worker->client);

        if (code != PAWL_OK) {
                went_wrong(worker, "open", code, &why);
                return NULL;
        }
        if (getrandom(&worker->random, sizeof(worker->random), 0) < 0 || worker->random == 0)
                worker->random = worker->number;
        while (!atomic_load(&worker->score->wrong) && atomic_load(&worker->score->accepted) < worker->plan->updates)
                lock_and_update(worker);
        pawl_close(worker->client);
        return NULL;
}

static bool open_guard(struct worker *worker)
{
        struct pawl_why why = {0};
        int code = pawl_guard_open(worker->plan->store, PAWL_GUARD(.why = &why), &worker->guard);

        if (code != PAWL_OK)
                went_wrong(worker, "open the guard", code, &why);
        return code == PAWL_OK;
}

static void work_in_threads(struct worker *workers)
{
        pthread_t threads[WORKERS];
        int started = 0;

        while (started < WORKERS && pthread_create(&threads[started], NULL, run_worker, &workers[started]) == 0)
                started++;
        if (started < WORKERS)
                went_wrong(&workers[0], "start a thread", PAWL_SYSTEM, &(struct pawl_why){0});
        while (started > 0)
                pthread_join(threads[--started], NULL);
}

static void work_in_processes(struct worker *workers)
{
        pid_t children[WORKERS];
        int status;

        for (int i = 0; i < WORKERS; i++) {
                children[i] = fork();
                if (children[i] == 0) {
                        if (open_guard(&workers[i]))
                                run_worker(&workers[i]);
                        pawl_guard_close(workers[i].guard);
                        _exit(0);
                }
                if (children[i] < 0)
                        went_wrong(&workers[i], "fork", PAWL_SYSTEM, &(struct pawl_why){0});
        }
        for (int i = 0; i < WORKERS; i++)
                if (children[i] > 0 && (waitpid(children[i], &status, 0) < 0 || status != 0))
                        went_wrong(&workers[i], "a worker ended badly", PAWL_SYSTEM, &(struct pawl_why){0});
}

void work(const struct plan *plan, struct score *score)
{
        struct worker workers[WORKERS] = {{0}};

        for (uint64_t i = 0; i < WORKERS; i++)
                workers[i] = (struct worker){.plan = plan, .score = score, .guard = plan->guard, .number = i + 1};
        (plan->guard ? work_in_threads : work_in_processes)(workers);
}
