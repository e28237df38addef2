/* row_02_local_handoff.c - a lock handed from process to process in the order they asked, against a ring of processes
 * that pass a token by one futex word each (the floor: no lock, no lease, no queue) and against flock(2).
 *
 * Everybody takes a ticket before he asks: a turn whose number is not its ticket's was out of order, or its process was
 * preempted between the ticket and the question.
 *
 * All are batch processes: else, on one core, every release would be followed by a switch to the next holder before the
 * last one can ask again, and the scheduler's choice be measured. */
#include <fcntl.h>
#include <linux/futex.h>
#include <pawl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "bench.h"
#include "crew.h"

static const double SECONDS = 0.2;

/* ---- floor ------------------------------------------------------------------------------------------------------ */

static void pass_to(struct crew *crew, uint32_t member)
{
        atomic_store(&crew->word[member][0], 1);
        syscall(SYS_futex, &crew->word[member][0], FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void ring_member(struct crew *crew, uint32_t me, void *arg)
{
        (void)arg;
        crew_start(crew);
        if (me == 0)
                pass_to(crew, 0);
        while (!atomic_load(&crew->stop)) {
                while (!atomic_exchange(&crew->word[me][0], 0))
                        syscall(SYS_futex, &crew->word[me][0], FUTEX_WAIT, 0, NULL, NULL, 0);
                crew_turn(crew, me, crew_ask(crew));
                pass_to(crew, (me + 1) % crew->size);
        }
        pass_to(crew, (me + 1) % crew->size);
}

/* ---- peer ------------------------------------------------------------------------------------------------------- */

static void flock_member(struct crew *crew, uint32_t me, void *arg)
{
        int fd = open(arg, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

        if (fd < 0)
                bench_die("cannot open %s", (const char *)arg);
        crew_start(crew);
        while (!atomic_load(&crew->stop)) {
                uint64_t ticket = crew_ask(crew);

                flock(fd, LOCK_EX);
                crew_turn(crew, me, ticket);
                flock(fd, LOCK_UN);
        }
}

/* ---- pawl ------------------------------------------------------------------------------------------------------- */

static void pawl_member(struct crew *crew, uint32_t me, void *arg)
{
        pawl_client *client;
        pawl_lock *lock;

        bench_must(pawl_open(arg, NULL, &client), "open");
        crew_start(crew);
        while (!atomic_load(&crew->stop)) {
                uint64_t ticket = crew_ask(crew);

                bench_must(pawl_acquire(client, "bench/handoff", NULL, &lock), "acquire");
                crew_crowd(crew, crew_turn(crew, me, ticket));
                bench_must(pawl_release(lock), "release");
        }
        pawl_close(client);
}

/* ---- the row ---------------------------------------------------------------------------------------------------- */

static void compare(int cores, uint32_t size)
{
        char path[512], what[128];
        struct crew_job ring = {.size = size, .member = ring_member, .seconds = SECONDS, .batch = true};
        struct crew_job flocks = {.size = size, .member = flock_member, .arg = path, .seconds = SECONDS, .batch = true};
        struct crew_job pawls = {
                .size = size, .member = pawl_member, .arg = bench_url("handoff"), .seconds = SECONDS, .batch = true};
        struct contender c[] = {
                {.name = "futex ring", .sample = crew_run, .arg = &ring},
                {.name = "flock(2)", .sample = crew_run, .arg = &flocks},
                {.name = "pawl", .sample = crew_run, .arg = &pawls},
        };

        snprintf(path, sizeof(path), "%s/flock", bench_directory());
        bench_compare(c, 3, 1);
        snprintf(what, sizeof(what), "local hand-off, %u processes, changes/s, %d core(s); pawl/futex", size, cores);
        bench_line(2, what, bench_figure(&c[0]), bench_figure(&c[1]), bench_figure(&c[2]), bench_ratio(&c[2], &c[0]),
                   cores == 1 ? ">= 0.6" : NULL);
        bench_note(
                "%u processes: %.2f %% of flock's turns change the owner, %.2f %% of pawl's; of pawl's %llu turns %llu "
                "came out of order, by at most %llu",
                size, 100 * flocks.change_share, 100 * pawls.change_share, (unsigned long long)pawls.turns,
                (unsigned long long)pawls.out_of_turn, (unsigned long long)pawls.worst);
}

static void part(int cores)
{
        compare(cores, 2);
        compare(cores, 4);
        compare(cores, 8);
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
