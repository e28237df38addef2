/* crew.c - see crew.h. The parent sleeps while the crew works: it measures, it does not take part. */
#include "crew.h"

#include <limits.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum { GROUP = 32 };
static const double SETTLE = 0.05; /* seconds before counting: the first turns are not yet in order */

void crew_sleep_ns(int64_t ns)
{
        struct timespec pause = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};

        while (nanosleep(&pause, &pause) != 0)
                ;
}

void crew_start(struct crew *crew)
{
        atomic_fetch_add(&crew->ready, 1);
        while (!atomic_load(&crew->go))
                syscall(SYS_futex, &crew->go, FUTEX_WAIT, 0, NULL, NULL, 0);
}

uint64_t crew_ask(struct crew *crew)
{
        return atomic_fetch_add(&crew->asked, 1) + 1;
}

static void count_order(struct crew *crew, uint64_t turn, uint64_t ticket)
{
        uint64_t off = turn > ticket ? turn - ticket : ticket - turn;

        if (!off)
                return;
        atomic_fetch_add_explicit(&crew->out_of_turn, 1, memory_order_relaxed);
        if (off > atomic_load_explicit(&crew->worst, memory_order_relaxed))
                atomic_store_explicit(&crew->worst, off, memory_order_relaxed);
}

bool crew_turn(struct crew *crew, uint32_t me, uint64_t ticket)
{
        uint64_t turn = atomic_load_explicit(&crew->turns, memory_order_relaxed) + 1;
        bool changed = crew->last_member != me;

        if (changed)
                atomic_store_explicit(&crew->changes, atomic_load_explicit(&crew->changes, memory_order_relaxed) + 1,
                                      memory_order_relaxed);
        crew->last_member = me;
        count_order(crew, turn, ticket);
        atomic_store_explicit(&crew->turns, turn, memory_order_relaxed);
        return changed;
}

void crew_crowd(struct crew *crew, bool changed)
{
        if (!changed)
                sched_yield();
        while (atomic_load(&crew->asked) - atomic_load(&crew->turns) < crew->size - 1 && !atomic_load(&crew->stop))
                sched_yield();
}

/* A member that ended before the start will never be ready. */
static void wait_ready(struct crew *crew, uint32_t count)
{
        while (atomic_load(&crew->ready) < count) {
                if (waitpid(0, NULL, WNOHANG) > 0)
                        bench_die("a process of the crew failed");
                crew_sleep_ns(1000000);
        }
}

/* In groups: a thousand that connect at once fill a server's backlog, and wait a second each. */
static void fork_members(struct crew *crew, const struct crew_job *job)
{
        for (uint32_t me = 0; me < job->size; me++) {
                pid_t child = fork();

                if (child < 0)
                        bench_die("fork failed");
                if (child == 0) {
                        prctl(PR_SET_PDEATHSIG, SIGKILL);
                        if (job->batch)
                                sched_setscheduler(0, SCHED_BATCH, &(struct sched_param){0});
                        job->member(crew, me, job->arg);
                        _exit(0);
                }
                wait_ready(crew, me > GROUP ? me - GROUP : 0);
        }
        wait_ready(crew, job->size);
        atomic_store(&crew->go, 1);
        syscall(SYS_futex, &crew->go, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void reap_members(const struct crew_job *job)
{
        for (uint32_t me = 0; me < job->size; me++) {
                int status;

                if (wait(&status) < 0 || status != 0)
                        bench_die("a process of the crew failed");
        }
}

static void measure(struct crew *crew, struct crew_job *job)
{
        uint64_t turns, changes, out;
        int64_t begin;
        double seconds;

        crew_sleep_ns((int64_t)((job->settle > 0 ? job->settle : SETTLE) * 1e9));
        begin = bench_now();
        turns = atomic_load(&crew->turns);
        changes = atomic_load(&crew->changes);
        out = atomic_load(&crew->out_of_turn);
        atomic_store(&crew->worst, 0);
        crew_sleep_ns((int64_t)(bench_quick() ? job->seconds * 1e8 : job->seconds * 1e9));
        turns = atomic_load(&crew->turns) - turns;
        changes = atomic_load(&crew->changes) - changes;
        seconds = (double)(bench_now() - begin) / 1e9;
        job->turn_rate = (double)turns / seconds;
        job->change_rate = (double)changes / seconds;
        job->change_share = turns ? (double)changes / (double)turns : 0;
        job->turns += turns;
        job->out_of_turn += atomic_load(&crew->out_of_turn) - out;
        if (atomic_load(&crew->worst) > job->worst)
                job->worst = atomic_load(&crew->worst);
}

double crew_run(void *arg)
{
        struct crew_job *job = arg;
        struct crew *crew = mmap(NULL, sizeof(*crew), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        if (crew == MAP_FAILED || job->size > CREW_MAX)
                bench_die("no memory for a crew");
        crew->size = job->size;
        crew->last_member = UINT32_MAX;
        fork_members(crew, job);
        measure(crew, job);
        atomic_store(&crew->stop, 1);
        reap_members(job);
        munmap(crew, sizeof(*crew));
        return job->change_rate;
}
