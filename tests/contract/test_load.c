/* test_load.c - exclusion under load: what the lock guards is a plain counter with a wide window, so that a lock that
 * lets two in shows as a lost update (and as a race, under a thread sanitizer). What went wrong is counted by kind, and
 * when two holders have met the history of that lock is printed (history.h). */
#include "contract.h"
#include "history.h"

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

enum { NAMES = 4, THREADS = 8, PROCESSES = 4, PERMITS = 3 };

/* What a holder can see of another one. */
enum { MET = 1, UPDATE_LOST = 2 };

/* The first call of its kind that failed. */
struct failure {
        int code;
        unsigned lock;
        unsigned turn;
        int64_t after_ns; /* how long the call took */
        char text[sizeof((struct pawl_why *)0)->text];
};

/* What became of one worker: written by it, read when it has ended. */
struct report {
        unsigned turns; /* complete */
        unsigned exclusive_turns;
        unsigned failed_acquires;
        unsigned failed_releases;
        unsigned meetings;
        unsigned lost_updates;
        struct failure open, acquire, release, close;
        struct history_turn sighting; /* the first turn in which it was not alone */
};

/* Shared with other processes. */
struct load {
        volatile long sums[NAMES];
        volatile int inside[NAMES];
        volatile long left, right; /* writers change one after the other */
        atomic_int visitors, most_visitors;
        struct history history;
        struct report reports[HISTORY_WORKERS];
};

/* What a worker does with the lock; MET and UPDATE_LOST, or 0. */
typedef int visit_fn(struct load *load, const struct history_turn *turn, unsigned chance);

struct task {
        visit_fn *visit;
        unsigned names;
        unsigned exclusive_of_four; /* turns; the others are shared */
        unsigned max_holders;
        int64_t ttl_ms;
};

struct worker {
        struct load *load;
        const struct task *task;
        pawl_client *client;
        unsigned index;
        unsigned seed;
        unsigned turns;
        pthread_t thread;
};

static struct load *new_load(unsigned permits)
{
        struct load *load = history_share(sizeof *load);
        REQUIRE(load != NULL);
        load->history.permits = permits;
        load->history.began = history_now();
        return load;
}

/* ---- a worker -------------------------------------------------------------------------------------------------- */

static void fail(struct failure *failure, const struct history_turn *turn, int code, int64_t after_ns, const char *text)
{
        if (failure->code)
                return;
        *failure = (struct failure){.code = code, .after_ns = after_ns};
        failure->lock = turn ? turn->lock : 0;
        failure->turn = turn ? turn->number : 0;
        snprintf(failure->text, sizeof failure->text, "%s", text);
}

static void report_sighting(struct worker *worker, const struct history_turn *turn, int seen)
{
        struct report *report = &worker->load->reports[worker->index];
        if (!report->sighting.acquired)
                report->sighting = *turn;
        report->meetings += (seen & MET) != 0;
        report->lost_updates += (seen & UPDATE_LOST) != 0;
        atomic_store_explicit(&worker->load->history.stop, true, memory_order_relaxed);
}

/* False if the lock could not be acquired. */
static bool take_turn(struct worker *worker)
{
        const struct task *task = worker->task;
        struct report *report = &worker->load->reports[worker->index];
        struct pawl_why why = {.code = 0};
        pawl_lock *lock;
        worker->seed = worker->seed * 1103515245 + 12345;
        unsigned chance = worker->seed >> 16;
        struct history_turn *turn = history_begin(&worker->load->history.workers[worker->index], chance % task->names,
                                                  chance % 4 >= task->exclusive_of_four);
        char name[2] = {(char)('0' + turn->lock), '\0'};
        int code = pawl_acquire(worker->client, name,
                                PAWL_LOCK(.mode = turn->is_shared ? PAWL_SHARED : PAWL_EXCLUSIVE,
                                          .max_holders = task->max_holders, .wait_ms = PATIENCE, .ttl_ms = task->ttl_ms,
                                          .why = &why),
                                &lock);
        if (code) {
                report->failed_acquires++;
                fail(&report->acquire, turn, code, history_now() - turn->requested, why.text);
                return false;
        }
        turn->acquired = history_now();
        turn->token = pawl_token(lock);
        int seen = task->visit(worker->load, turn, worker->seed >> 8);
        turn->releasing = history_now();
        code = pawl_release(lock);
        turn->released = history_now();
        report->turns++;
        report->exclusive_turns += !turn->is_shared;
        if (code) {
                report->failed_releases++;
                fail(&report->release, turn, code, turn->released - turn->releasing, pawl_strerror(code));
        }
        if (seen)
                report_sighting(worker, turn, seen);
        return true;
}

static void *work(void *arg)
{
        struct worker *worker = arg;
        for (unsigned i = 0; i < worker->turns; i++) {
                if (atomic_load_explicit(&worker->load->history.stop, memory_order_relaxed) || !take_turn(worker))
                        break;
        }
        return NULL;
}

/* All of them at once; to the end. */
static void run_threads(struct worker *workers)
{
        for (unsigned i = 0; i < THREADS; i++) {
                workers[i].index = i;
                REQUIRE_INT(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
        }
        for (unsigned i = 0; i < THREADS; i++)
                pthread_join(workers[i].thread, NULL);
}

/* ---- what happened --------------------------------------------------------------------------------------------- */

static void note_failure(unsigned worker, const char *what, const struct failure *failure)
{
        char turn[64] = "";
        if (!failure->code)
                return;
        if (failure->turn)
                snprintf(turn, sizeof turn, " of lock \"%u\" in turn %u", failure->lock, failure->turn);
        NOTE("worker %u: %s%s failed with %s after %.1f ms: %s", worker, what, turn, pawl_error_name(failure->code),
             (double)failure->after_ns / 1e6, failure->text);
}

static void note_failures(const struct load *load)
{
        for (unsigned i = 0; i < HISTORY_WORKERS; i++) {
                note_failure(i, "opening a client", &load->reports[i].open);
                note_failure(i, "the acquire", &load->reports[i].acquire);
                note_failure(i, "the release", &load->reports[i].release);
                note_failure(i, "closing the client", &load->reports[i].close);
        }
}

/* The earliest, or NULL. */
static const struct history_turn *first_sighting(const struct load *load, unsigned *worker)
{
        const struct history_turn *first = NULL;
        for (unsigned i = 0; i < HISTORY_WORKERS; i++) {
                const struct history_turn *turn = &load->reports[i].sighting;
                if (!turn->acquired || (first && first->acquired <= turn->acquired))
                        continue;
                first = turn;
                *worker = i;
        }
        return first;
}

static void note_history(const struct load *load)
{
        unsigned worker = 0;
        const struct history_turn *turn = first_sighting(load, &worker);
        bool printed = false;
        if (turn) {
                NOTE("worker %u %s lock \"%u\", which it acquired in turn %u, %.6f ms after the run began; all workers "
                     "stopped after the turn they were in",
                     worker, load->history.permits ? "was one holder too many of" : "was not the only holder of",
                     turn->lock, turn->number, (double)(turn->acquired - load->history.began) / 1e6);
                history_print(&load->history, turn->lock, turn->acquired);
                return;
        }
        for (unsigned lock = 0; lock < NAMES; lock++)
                printed |= history_print(&load->history, lock, 0);
        if (!printed)
                NOTE("the last %d turns of each worker show no two holders at once", HISTORY_TURNS);
}

/* The sum of all workers' reports. */
static struct report add_up(const struct load *load)
{
        struct report all = {0};
        for (unsigned i = 0; i < HISTORY_WORKERS; i++) {
                all.turns += load->reports[i].turns;
                all.exclusive_turns += load->reports[i].exclusive_turns;
                all.failed_acquires += load->reports[i].failed_acquires;
                all.failed_releases += load->reports[i].failed_releases;
                all.meetings += load->reports[i].meetings;
                all.lost_updates += load->reports[i].lost_updates;
        }
        return all;
}

static void check_load(const struct load *load, unsigned turns)
{
        struct report all = add_up(load);
        note_failures(load);
        CHECK_UINT(all.failed_acquires, 0);
        CHECK_UINT(all.failed_releases, 0);
        bool alone = CHECK_UINT(all.meetings, 0);
        if (CHECK_UINT(all.lost_updates, 0) && alone)
                CHECK_UINT(all.turns, turns);
        else
                note_history(load);
}

/* Each turn has added 1. A lost update that nobody saw when it happened shows here. */
static void check_sums(const struct load *load)
{
        struct report all = add_up(load);
        long sum = 0;
        for (int i = 0; i < NAMES; i++)
                sum += load->sums[i];
        if (!CHECK_INT(sum, all.turns) && !all.meetings && !all.lost_updates)
                note_history(load);
}

/* ---- one at a time --------------------------------------------------------------------------------------------- */

static void linger(unsigned chance)
{
        for (volatile unsigned i = 0; i < chance % 64; i++)
                ;
        if (chance % 32 == 0)
                sched_yield();
}

/* Read, linger, write: two at once would lose a turn. */
static int count_one(struct load *load, const struct history_turn *turn, unsigned chance)
{
        unsigned which = turn->lock;
        int seen = 0;
        long sum = load->sums[which];
        if (load->inside[which]++)
                seen |= MET;
        linger(chance);
        if (--load->inside[which])
                seen |= MET;
        if (load->sums[which] != sum)
                seen |= UPDATE_LOST;
        load->sums[which] = sum + 1;
        return seen;
}

/* The same for clients that meet only in the store: a sanitizer that watches one process's addresses cannot see that the
 * store orders them. */
static int count_one_apart(struct load *load, const struct history_turn *turn, unsigned chance)
{
        unsigned which = turn->lock;
        int seen = 0;
        long sum = __atomic_load_n(&load->sums[which], __ATOMIC_RELAXED);
        if (__atomic_fetch_add(&load->inside[which], 1, __ATOMIC_RELAXED))
                seen |= MET;
        linger(chance);
        if (__atomic_sub_fetch(&load->inside[which], 1, __ATOMIC_RELAXED))
                seen |= MET;
        if (__atomic_load_n(&load->sums[which], __ATOMIC_RELAXED) != sum)
                seen |= UPDATE_LOST;
        __atomic_store_n(&load->sums[which], sum + 1, __ATOMIC_RELAXED);
        return seen;
}

/* Of each thread of one client. PAWL_TEST_TURNS: fewer where each costs much, under a sanitizer. */
static unsigned turns(void)
{
        const char *wanted = getenv("PAWL_TEST_TURNS");

        return wanted ? (unsigned)atoi(wanted) : 2000;
}

static const struct task counting = {count_one, NAMES, 4, 0, 60000};
static const struct task counting_apart = {count_one_apart, NAMES, 4, 0, 60000};

TEST_WITHIN(300, eight_threads_of_one_client_never_meet)
{
        struct load *load = new_load(0);
        struct worker workers[THREADS];
        pawl_client *one = join(fresh_place());

        for (unsigned i = 0; i < THREADS; i++)
                workers[i] = (struct worker){load, &counting, one, .seed = i + 1, .turns = turns()};
        run_threads(workers);
        check_load(load, THREADS * turns());
        check_sums(load);
}

TEST_WITHIN(300, threads_of_several_clients_never_meet)
{
        struct load *load = new_load(0);
        struct worker workers[THREADS];
        const char *place = fresh_place();

        for (unsigned i = 0; i < THREADS; i++)
                workers[i] = (struct worker){load, &counting_apart, join(place), .seed = i + 100, .turns = turns() / 4};
        run_threads(workers);
        check_load(load, THREADS * (turns() / 4));
        check_sums(load);
}

/* A worker that is a process of its own; its exit status. */
static int work_alone(struct worker worker, const char *place)
{
        struct report *report = &worker.load->reports[worker.index];
        struct pawl_why why = {.code = 0};
        int64_t began = history_now();
        int code = pawl_open(place, PAWL_OPEN(.why = &why), &worker.client);
        if (code) {
                fail(&report->open, NULL, code, history_now() - began, why.text);
                return 1;
        }
        work(&worker);
        began = history_now();
        code = pawl_close(worker.client);
        if (code)
                fail(&report->close, NULL, code, history_now() - began, pawl_strerror(code));
        return code != PAWL_OK;
}

static void await_process(unsigned worker, pid_t pid)
{
        int status = -1;
        CHECK_INT(waitpid(pid, &status, 0), pid);
        if (WIFSIGNALED(status))
                NOTE("worker %u was killed by signal %d (%s)", worker, WTERMSIG(status), strsignal(WTERMSIG(status)));
        CHECK_INT(status, 0);
}

TEST_WITHIN(300, several_processes_never_meet)
{
        const char *place = fresh_place();
        struct load *load = new_load(0);
        pid_t pids[PROCESSES];

        for (unsigned i = 0; i < PROCESSES; i++) {
                struct worker worker = {load, &counting_apart, .index = i, .seed = i + 1000, .turns = turns() / 4};
                pids[i] = fork();
                REQUIRE_COMPARE(pids[i], >=, 0);
                if (pids[i] == 0)
                        _exit(work_alone(worker, place));
        }
        for (unsigned i = 0; i < PROCESSES; i++)
                await_process(i, pids[i]);
        check_load(load, PROCESSES * (turns() / 4));
        check_sums(load);
}

/* ---- readers and writers --------------------------------------------------------------------------------------- */

/* A pair of numbers that writers change one after the other: who finds them different has met a writer. */
static int read_or_write(struct load *load, const struct history_turn *turn, unsigned chance)
{
        int seen = load->left != load->right ? MET : 0;
        (void)chance;
        if (!turn->is_shared)
                load->left++;
        sched_yield();
        if (!turn->is_shared)
                load->right++;
        return seen;
}

TEST_WITHIN(300, readers_never_meet_a_writer)
{
        static const struct task reading = {read_or_write, 1, 1, 0, 0};
        struct load *load = new_load(0);
        struct worker workers[THREADS];
        pawl_client *one = join(fresh_place());

        NEEDS(one, PAWL_CAN_SHARE);
        for (unsigned i = 0; i < THREADS; i++)
                workers[i] = (struct worker){load, &reading, one, .seed = i + 1, .turns = 300};
        run_threads(workers);
        check_load(load, THREADS * 300);
        if (!CHECK_INT(load->left, add_up(load).exclusive_turns) || !CHECK_INT(load->right, load->left))
                note_history(load);
}

/* ---- a semaphore ----------------------------------------------------------------------------------------------- */

static int visit_room(struct load *load, const struct history_turn *turn, unsigned chance)
{
        int inside = atomic_fetch_add(&load->visitors, 1) + 1;
        int most = atomic_load(&load->most_visitors);
        (void)turn;
        (void)chance;
        while (inside > most && !atomic_compare_exchange_weak(&load->most_visitors, &most, inside))
                ;
        nap(1);
        atomic_fetch_sub(&load->visitors, 1);
        return inside > PERMITS ? MET : 0;
}

TEST_WITHIN(300, never_more_than_n_are_inside_a_limited_lock_and_all_n_places_are_used)
{
        static const struct task visiting = {visit_room, 1, 0, PERMITS, 0};
        struct load *load = new_load(PERMITS);
        struct worker workers[THREADS];
        pawl_client *one = join(fresh_place());

        NEEDS(one, PAWL_CAN_LIMIT);
        for (unsigned i = 0; i < THREADS; i++)
                workers[i] = (struct worker){load, &visiting, one, .seed = i + 1, .turns = 100};
        run_threads(workers);
        check_load(load, THREADS * 100);
        CHECK_INT(atomic_load(&load->most_visitors), PERMITS);
}
