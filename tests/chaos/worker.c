/* worker.c - the loop of a child process. Every call is written down before and after it is made. */
#include "worker.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct worker {
        const struct plan *plan;
        struct resource *resource;
        struct scribe scribe;
        uint64_t random;
        /* an asynchronous claim's answer */
        pthread_mutex_t mutex;
        pthread_cond_t told;
        bool answered;
        int answer;
        atomic_int losses; /* of the lock in hand */
        struct pawl_why why;
};

void lock_name(uint32_t n, char *name, size_t size)
{
        snprintf(name, size, "chaos/%u", n);
}

void sleep_ns(int64_t ns)
{
        struct timespec left = {.tv_sec = ns / SECOND, .tv_nsec = ns % SECOND};

        while (nanosleep(&left, &left) != 0 && errno == EINTR)
                ;
}

/* xorshift64*: enough to be unlike, and the seed replays the choices. */
static uint64_t chance(struct worker *worker, uint64_t below)
{
        uint64_t x = worker->random;

        x ^= x >> 12;
        x ^= x << 25;
        x ^= x >> 27;
        worker->random = x;
        return (x * UINT64_C(2685821657736338717) >> 11) % below;
}

static bool has(const struct worker *worker, uint32_t habit)
{
        return (worker->plan->habits & habit) != 0;
}

/* A promise that a worker can see broken by itself. */
__attribute__((noreturn)) static void surprised(const char *call, int status)
{
        fprintf(stderr, "# a worker was surprised by %s: %s\n", call, pawl_error_name(status));
        _exit(WORKER_SURPRISED);
}

/* ---- the scribe ----------------------------------------------------------------------------------------------- */

bool scribe_open(struct scribe *scribe, const struct plan *plan, uint32_t client_number)
{
        struct pawl_why why = {0};
        uint32_t drive = plan->habits & HABIT_CALLER ? PAWL_DRIVE_CALLER : PAWL_DRIVE_THREAD;
        int status =
                pawl_open(plan->url, PAWL_OPEN(.drive = drive, .ttl_ms = plan->ttl_ms, .why = &why), &scribe->client);

        if (status != PAWL_OK) {
                fprintf(stderr, "# open: %s: %s\n", pawl_error_name(status), why.text);
                return false;
        }
        scribe->op = 0;
        scribe->borrowed = false;
        return history_open(&scribe->history, plan->directory, client_number);
}

void scribe_close(struct scribe *scribe)
{
        if (!scribe->borrowed)
                pawl_close(scribe->client);
        history_close(&scribe->history);
}

static struct record record_of(const struct scribe *scribe, uint32_t name, enum deed deed, enum phase phase)
{
        return (struct record){.client = scribe->history.client,
                               .op = scribe->op,
                               .lock = name,
                               .deed = (uint8_t)deed,
                               .phase = (uint8_t)phase};
}

static void write_now(struct scribe *scribe, struct record record)
{
        record.at = boottime_now();
        history_write(&scribe->history, record);
}

/* remaining_ms is somewhere between two readings of the clock, and is rounded down. */
static void measure_lease(pawl_lock *lock, struct record *record)
{
        int64_t before = boottime_now();
        int64_t remaining = pawl_remaining_ms(lock) * MS;

        record->valid_least = before + remaining;
        record->valid_most = boottime_now() + remaining + MS;
}

static struct record invocation(const struct scribe *scribe, uint32_t name, const struct pawl_lock_options *options)
{
        struct record record = record_of(scribe, name, DID_ACQUIRE, PHASE_INVOKE);

        record.mode = (uint8_t)options->mode;
        record.limit = options->max_holders;
        if (options->flags & (PAWL_NO_RENEW | PAWL_DETACH))
                record.flags |= TENURE_FIXED;
        if (options->flags & PAWL_DETACH)
                record.flags |= TENURE_DETACHED;
        return record;
}

static void write_answer(struct scribe *scribe, uint32_t name, int status, pawl_lock *lock)
{
        struct record record = record_of(scribe, name, DID_ACQUIRE, status == PAWL_OK ? PHASE_OK : PHASE_FAIL);

        record.status = status;
        if (status == PAWL_OK) {
                record.token = pawl_token(lock);
                measure_lease(lock, &record);
        }
        write_now(scribe, record);
}

int scribe_acquire(struct scribe *scribe, uint32_t name, const struct pawl_lock_options *options, pawl_lock **lock)
{
        char text[64];
        int status;

        lock_name(name, text, sizeof text);
        scribe->op++;
        write_now(scribe, invocation(scribe, name, options));
        status = pawl_acquire(scribe->client, text, options, lock);
        write_answer(scribe, name, status, status == PAWL_OK ? *lock : NULL);
        return status;
}

int scribe_check(struct scribe *scribe, uint32_t name, pawl_lock *lock)
{
        struct record record = record_of(scribe, name, DID_CHECK, PHASE_OK);
        int64_t before = boottime_now();
        int status = pawl_check(lock);

        if (status != PAWL_OK && status != PAWL_LOST)
                surprised("pawl_check", status);
        if (status == PAWL_OK)
                measure_lease(lock, &record);
        else
                record.phase = PHASE_FAIL;
        record.at = before;
        record.status = status;
        history_write(&scribe->history, record);
        return status;
}

static void write_release(struct scribe *scribe, uint32_t name, int status)
{
        struct record record = record_of(scribe, name, DID_RELEASE, status == PAWL_OK ? PHASE_OK : PHASE_FAIL);

        record.status = status;
        write_now(scribe, record);
}

int scribe_release(struct scribe *scribe, uint32_t name, pawl_lock *lock)
{
        int status;

        write_now(scribe, record_of(scribe, name, DID_RELEASE, PHASE_INVOKE));
        status = pawl_release(lock);
        write_release(scribe, name, status);
        return status;
}

/* ---- what a holder does ---------------------------------------------------------------------------------------- */

static void doze(struct worker *worker)
{
        int64_t ttl = worker->plan->ttl_ms * MS;

        if (has(worker, HABIT_SLEEP) && chance(worker, 4) == 0)
                sleep_ns((int64_t)chance(worker, (uint64_t)(2 * ttl)));
        else if (has(worker, HABIT_LINGER))
                sleep_ns((int64_t)chance(worker, 4 * MS));
        else if (chance(worker, 8) == 0)
                sleep_ns((int64_t)chance(worker, MS / 4));
}

/* The twin is written by whoever once held the lock, without asking again: that is what people do. */
static void guarded_step(struct worker *worker, uint32_t name, pawl_lock *lock)
{
        struct effect effect = {
                .token = pawl_token(lock), .client = worker->scribe.history.client, .op = worker->scribe.op};
        struct effect twin = effect;
        bool read;

        if (scribe_check(&worker->scribe, name, lock) != PAWL_OK)
                return;
        if (has(worker, HABIT_TWIN))
                twin_read(worker->resource, name, &twin.read);
        read = resource_admit(worker->resource, name, effect.token) &&
               resource_read(worker->resource, name, effect.token, &effect.read);
        doze(worker);
        scribe_check(&worker->scribe, name, lock);
        effect.wrote = effect.read + 1;
        if (read)
                (void)!resource_write(worker->resource, name, &effect);
        twin.wrote = twin.read + 1;
        if (has(worker, HABIT_TWIN))
                twin_write(worker->resource, name, &twin);
}

/* A child that does nothing but linger, and asks once whether the parent's lock is its own. */
static void fork_and_linger(struct worker *worker, pawl_lock *lock)
{
        pid_t pid = fork();

        if (pid != 0)
                return;
        if (pawl_check(lock) != PAWL_FORKED)
                surprised("pawl_check in a forked child", pawl_check(lock));
        sleep_ns((int64_t)chance(worker, (uint64_t)SECOND));
        _exit(0);
}

static void hold(struct worker *worker, uint32_t name, const struct pawl_lock_options *options, pawl_lock *lock)
{
        unsigned steps = (unsigned)chance(worker, 3);

        if (has(worker, HABIT_HURRY))
                return;
        if (has(worker, HABIT_FORK) && chance(worker, 20) == 0)
                fork_and_linger(worker, lock);
        if (options->mode != PAWL_EXCLUSIVE || name >= RESOURCE_NAMES) {
                doze(worker);
                scribe_check(&worker->scribe, name, lock);
                return;
        }
        for (unsigned i = 0; i <= steps; i++)
                guarded_step(worker, name, lock);
}

/* The answer of a server may be overdue when a process that was stopped goes on. */
static bool may_be_in_doubt(const struct worker *worker)
{
        return strncmp(worker->plan->url, "local:", 6) != 0;
}

static void let_go(struct worker *worker, uint32_t name, pawl_lock *lock)
{
        int status = scribe_release(&worker->scribe, name, lock);

        if (status != PAWL_OK && status != PAWL_LOST && !(status == PAWL_IN_DOUBT && may_be_in_doubt(worker)))
                surprised("pawl_release", status);
        if (atomic_load(&worker->losses) > 1)
                surprised("a loss that was told twice", PAWL_LOST);
        if (atomic_load(&worker->losses) == 1 && status == PAWL_OK)
                surprised("a lost lock that was released as held", PAWL_OK);
}

static void on_lost(pawl_lock *lock, int reason, void *arg)
{
        struct worker *worker = arg;

        if (reason == PAWL_REASON_NONE)
                surprised("a loss without a reason", PAWL_LOST);
        if (pawl_check(lock) == PAWL_OK) /* PAWL_MISUSE: it is just being released */
                surprised(pawl_reason_text(reason), PAWL_OK);
        atomic_fetch_add(&worker->losses, 1);
}

/* ---- the ways to take a lock ----------------------------------------------------------------------------------- */

/* UNREACHABLE: on a machine this busy an answer may take longer than a short lease; it is given back then. STUCK: a worker
 * that was stopped is inside the bucket. */
static bool is_refusal(int status)
{
        return status == PAWL_BUSY || status == PAWL_TIMEOUT || status == PAWL_CANCELLED ||
               status == PAWL_UNREACHABLE || status == PAWL_STUCK;
}

static void take_blocking(struct worker *worker, uint32_t name, const struct pawl_lock_options *options)
{
        pawl_lock *lock;
        int status = scribe_acquire(&worker->scribe, name, options, &lock);

        if (status == PAWL_OK) {
                hold(worker, name, options, lock);
                let_go(worker, name, lock);
        } else if (!is_refusal(status)) {
                fprintf(stderr, "# %s\n", worker->why.text);
                surprised("pawl_acquire", status);
        }
}

static void on_granted(pawl_lock *lock, int status, void *arg)
{
        struct worker *worker = arg;

        (void)lock;
        pthread_mutex_lock(&worker->mutex);
        worker->answered = true;
        worker->answer = status;
        pthread_cond_signal(&worker->told);
        pthread_mutex_unlock(&worker->mutex);
}

static bool wait_on_thread(struct worker *worker, int64_t until)
{
        struct timespec at;
        bool answered;

        pthread_mutex_lock(&worker->mutex);
        while (!worker->answered && boottime_now() < until) {
                clock_gettime(CLOCK_REALTIME, &at);
                at.tv_nsec += 20 * MS; /* short: it must also end where the clocks drift apart */
                at.tv_sec += at.tv_nsec / SECOND;
                at.tv_nsec %= SECOND;
                pthread_cond_timedwait(&worker->told, &worker->mutex, &at);
        }
        answered = worker->answered;
        pthread_mutex_unlock(&worker->mutex);
        return answered;
}

static bool wait_by_dispatch(struct worker *worker, int64_t until)
{
        struct pollfd ready = {.fd = pawl_fd(worker->scribe.client), .events = POLLIN};

        while (!worker->answered && boottime_now() < until) {
                poll(&ready, 1, (int)((until - boottime_now()) / MS + 1));
                if (pawl_dispatch(worker->scribe.client) != PAWL_OK)
                        surprised("pawl_dispatch", PAWL_SYSTEM);
        }
        return worker->answered;
}

static bool wait_for_answer(struct worker *worker, int64_t ns)
{
        int64_t until = boottime_now() + ns;

        return has(worker, HABIT_CALLER) ? wait_by_dispatch(worker, until) : wait_on_thread(worker, until);
}

static void take_async(struct worker *worker, uint32_t name, const struct pawl_lock_options *options)
{
        struct scribe *scribe = &worker->scribe;
        char text[64];
        pawl_lock *lock;
        int status;

        lock_name(name, text, sizeof text);
        scribe->op++;
        worker->answered = false;
        write_now(scribe, invocation(scribe, name, options));
        status = pawl_acquire_async(scribe->client, text, options, on_granted, worker, &lock);
        if (status != PAWL_OK)
                surprised("pawl_acquire_async", status);
        if (!wait_for_answer(worker, (int64_t)chance(worker, (uint64_t)(worker->plan->ttl_ms * MS)))) {
                if (chance(worker, 2) == 0)
                        pawl_cancel(lock);
                if (!wait_for_answer(worker, 60 * SECOND))
                        surprised("no answer to pawl_acquire_async", PAWL_TIMEOUT);
        }
        write_answer(scribe, name, worker->answer, lock);
        if (worker->answer != PAWL_OK) {
                if (!is_refusal(worker->answer))
                        surprised("the answer to pawl_acquire_async", worker->answer);
                pawl_release(lock);
                return;
        }
        hold(worker, name, options, lock);
        let_go(worker, name, lock);
}

static void take_up_again(struct worker *worker, uint32_t name, const char *word)
{
        struct record record = record_of(&worker->scribe, name, DID_RENEW, PHASE_OK);
        pawl_lock *lock;
        int status = pawl_adopt(worker->scribe.client, word, NULL, &lock);

        if (status == PAWL_LOST || status == PAWL_STUCK)
                return;
        if (status != PAWL_OK)
                surprised("pawl_adopt", status);
        if (pawl_renew(lock) == PAWL_OK) {
                measure_lease(lock, &record);
                write_now(&worker->scribe, record);
        }
        scribe_check(&worker->scribe, name, lock);
        let_go(worker, name, lock);
}

/* Half of the words are taken up again; the other leases simply run out. */
static void take_detached(struct worker *worker, uint32_t name)
{
        const struct pawl_lock_options *options =
                PAWL_LOCK(.flags = PAWL_DETACH, .wait_ms = worker->plan->ttl_ms, .ttl_ms = worker->plan->ttl_ms);
        char word[PAWL_LEASE_MAX + 1];
        pawl_lock *lock;
        int status = scribe_acquire(&worker->scribe, name, options, &lock);

        if (status != PAWL_OK) {
                if (!is_refusal(status))
                        surprised("pawl_acquire of a detached lock", status);
                return;
        }
        if (pawl_lease(lock, word, sizeof word) != PAWL_OK) {
                let_go(worker, name, lock);
                return;
        }
        status = pawl_forget(lock);
        if (status != PAWL_OK)
                surprised("pawl_forget", status);
        doze(worker);
        if (chance(worker, 2) == 0)
                take_up_again(worker, name, word);
}

static void break_it(struct worker *worker, uint32_t name)
{
        struct scribe *scribe = &worker->scribe;
        char text[64];
        int status;

        lock_name(name, text, sizeof text);
        scribe->op++;
        write_now(scribe, record_of(scribe, name, DID_BREAK, PHASE_INVOKE));
        status = pawl_break(scribe->client, text);
        if (status != PAWL_OK && status != PAWL_NOT_FOUND && status != PAWL_STUCK)
                surprised("pawl_break", status);
        write_now(scribe, record_of(scribe, name, DID_BREAK, PHASE_OK));
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

static void choose_wait(struct worker *worker, struct pawl_lock_options *options)
{
        if (!has(worker, HABIT_TIMEOUT))
                return;
        switch (chance(worker, 4)) {
        case 0:
                options->wait_ms = PAWL_NO_WAIT;
                break;
        case 1:
                options->wait_ms = 1 + (int64_t)chance(worker, (uint64_t)worker->plan->ttl_ms);
                break;
        default:
                options->wait_ms = PAWL_FOREVER;
        }
}

/* What a name is used for depends on its number, so that all processes agree. */
static void choose_mode(struct worker *worker, uint32_t name, struct pawl_lock_options *options)
{
        if (has(worker, HABIT_LIMIT) && name % 4 == 3) {
                options->mode = PAWL_SHARED;
                options->max_holders = LIMIT;
        } else if (has(worker, HABIT_SHARE) && name % 3 == 2) {
                options->mode = chance(worker, 4) == 0 ? PAWL_EXCLUSIVE : PAWL_SHARED;
        }
}

static void one_round(struct worker *worker)
{
        uint32_t name = (uint32_t)chance(worker, worker->plan->names);
        struct pawl_lock_options options = {
                .size = sizeof options,
                .ttl_ms = worker->plan->ttl_ms,
                .on_lost = on_lost,
                .arg = worker,
                .why = &worker->why,
        };

        atomic_store(&worker->losses, 0);
        choose_wait(worker, &options);
        choose_mode(worker, name, &options);
        if (has(worker, HABIT_SLEEP) && chance(worker, 2) == 0)
                options.flags |= PAWL_NO_RENEW;
        if (has(worker, HABIT_BREAK) && chance(worker, 300) == 0)
                break_it(worker, name);
        else if (has(worker, HABIT_DETACH) && options.mode == PAWL_EXCLUSIVE && chance(worker, 50) == 0)
                take_detached(worker, name);
        else if (has(worker, HABIT_ASYNC) && chance(worker, 3) == 0)
                take_async(worker, name, &options);
        else
                take_blocking(worker, name, &options);
}

static void *work(void *arg)
{
        struct worker *worker = arg;
        const struct plan *plan = worker->plan;

        for (uint32_t round = 0; !atomic_load(plan->stop) && (plan->rounds == 0 || round < plan->rounds); round++)
                one_round(worker);
        return NULL;
}

/* Threads share the client of the first, or have one each. */
static bool start(struct worker *workers, const struct plan *plan, struct resource *resource, uint32_t thread)
{
        uint32_t client = plan->process * CLIENTS_PER_PROCESS + thread;
        struct worker *worker = &workers[thread];

        *worker = (struct worker){.plan = plan, .resource = resource};
        worker->random = (plan->seed ^ (client * UINT64_C(0x9e3779b97f4a7c15))) | 1;
        pthread_mutex_init(&worker->mutex, NULL);
        pthread_cond_init(&worker->told, NULL);
        if (thread == 0 || !(plan->habits & HABIT_ONE_CLIENT))
                return scribe_open(&worker->scribe, plan, client);
        worker->scribe.client = workers[0].scribe.client;
        worker->scribe.borrowed = true;
        return history_open(&worker->scribe.history, plan->directory, client);
}

int worker_run(const struct plan *plan)
{
        struct worker workers[CLIENTS_PER_PROCESS];
        pthread_t threads[CLIENTS_PER_PROCESS];
        struct resource resource;

        signal(SIGCHLD, SIG_IGN); /* children that linger are nobody's business */
        if (!resource_open(&resource, plan->resource))
                return WORKER_CANNOT_OPEN;
        for (uint32_t i = 0; i < plan->threads; i++)
                if (!start(workers, plan, &resource, i))
                        return WORKER_CANNOT_OPEN;
        if (plan->ready)
                atomic_fetch_add(plan->ready, 1);
        for (uint32_t i = 1; i < plan->threads; i++)
                if (pthread_create(&threads[i], NULL, work, &workers[i]) != 0)
                        return WORKER_CANNOT_OPEN;
        work(&workers[0]);
        for (uint32_t i = 1; i < plan->threads; i++)
                pthread_join(threads[i], NULL);
        for (uint32_t i = plan->threads; i-- > 0;)
                scribe_close(&workers[i].scribe);
        resource_close(&resource);
        return WORKER_DONE;
}
