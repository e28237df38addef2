/* row_17_start.c - from nothing to a held lock and back: `pawl run x true` as a process, against `flock FILE true` and
 * a program that does nothing. */
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { SAMPLES = 60 }; /* a round; five rounds make 300 runs of each */

/* Wall time of one run, in microseconds. */
static double run(void *arg)
{
        char *const *argv = arg;
        posix_spawn_file_actions_t quiet;
        int64_t begin, end;
        int status;
        pid_t child;

        posix_spawn_file_actions_init(&quiet);
        posix_spawn_file_actions_addopen(&quiet, 2, "/dev/null", O_WRONLY, 0);
        begin = bench_now();
        if (posix_spawnp(&child, argv[0], &quiet, NULL, argv, environ) != 0 || waitpid(child, &status, 0) != child)
                bench_die("cannot run %s", argv[0]);
        end = bench_now();
        posix_spawn_file_actions_destroy(&quiet);
        if (status != 0)
                bench_die("%s ended with status %d", argv[0], WEXITSTATUS(status));
        return (double)(end - begin) / 1000;
}

static void part(int cores)
{
        char empty[512], pawl[512], file[512], url[512], what[128];
        const char *run_empty[] = {empty, NULL};
        const char *run_flock[] = {"flock", file, "true", NULL};
        const char *run_pawl[] = {pawl, "run", "-e", url, "x", "true", NULL};
        struct contender c[] = {
                {.name = "empty program", .sample = run, .arg = run_empty},
                {.name = "flock(1)", .sample = run, .arg = run_flock},
                {.name = "pawl run", .sample = run, .arg = run_pawl},
        };

        snprintf(empty, sizeof(empty), "%s/bench/empty", bench_build());
        snprintf(pawl, sizeof(pawl), "%s/pawl", bench_build());
        snprintf(file, sizeof(file), "%s/flock", bench_directory());
        snprintf(url, sizeof(url), "%s", bench_url("start"));
        bench_compare(c, 3, SAMPLES);
        snprintf(what, sizeof(what), "pawl run x true, us of wall time, %d core(s); pawl/flock(1)", cores);
        bench_line(17, what, bench_figure(&c[0]), bench_figure(&c[1]), bench_figure(&c[2]), bench_ratio(&c[2], &c[1]),
                   "<= 1.5");
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, part);
        bench_on_cores(2, part);
        return 0;
}
