/* main.c - sim, the simulator's command: runs seeds, and shows how to see a failing one again.
 *
 *   sim [--seed N | --seeds FROM..TO] [--bug NAME] [--trace] [--list-bugs] */
#include "sim.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 100 }; /* seeds for one line of TAP */

struct request {
        uint64_t from, to;
        enum bug bug;
        bool tracing;
};

static void say_seed(int signal_number)
{
        char text[64];
        int length = snprintf(text, sizeof(text), "# the core gave up in: sim --seed %" PRIu64 "\n", running_seed);

        (void)!write(STDOUT_FILENO, text, (size_t)length);
        signal(signal_number, SIG_DFL);
        raise(signal_number);
}

static void add(struct figures *sum, const struct figures *one)
{
        sum->steps += one->steps;
        sum->messages += one->messages;
        sum->grants += one->grants;
        sum->losses += one->losses;
        sum->writes += one->writes;
        sum->stale += one->stale;
        sum->faults += one->faults;
}

static void say_failure(const struct request *request, uint64_t seed, const struct outcome *outcome)
{
        printf("# seed %" PRIu64 ": %s\n", seed, outcome->failure);
        printf("# to see it again: sim --seed %" PRIu64 "%s%s --trace\n", seed, request->bug ? " --bug " : "",
               request->bug ? bug_name(request->bug) : "");
}

/* How many of them failed. */
static unsigned run_block(const struct request *request, uint64_t from, uint64_t to, struct figures *sum)
{
        unsigned failed = 0;

        for (uint64_t seed = from; seed <= to; seed++) {
                struct outcome outcome = run_seed(seed, request->bug, request->tracing);

                add(sum, &outcome.figures);
                if (!outcome.failed)
                        continue;
                if (++failed <= 3)
                        say_failure(request, seed, &outcome);
        }
        return failed;
}

static int run(const struct request *request)
{
        uint64_t blocks = (request->to - request->from) / BLOCK + 1;
        struct figures sum = {0};
        unsigned failed = 0;

        printf("TAP version 13\n1..%" PRIu64 "\n", blocks);
        for (uint64_t i = 0; i < blocks; i++) {
                uint64_t from = request->from + i * BLOCK;
                uint64_t to = from + BLOCK - 1 < request->to ? from + BLOCK - 1 : request->to;
                unsigned wrong = run_block(request, from, to, &sum);

                printf("%sok %" PRIu64 " - seeds %" PRIu64 " to %" PRIu64 " keep every promise\n", wrong ? "not " : "",
                       i + 1, from, to);
                fflush(stdout);
                failed += wrong;
        }
        printf("# %" PRIu64 " steps, %" PRIu64 " messages, %" PRIu64 " faults, %" PRIu64 " grants, %" PRIu64
               " locks lost, %" PRIu64 " guarded writes, %" PRIu64 " stale requests refused, %u seeds failed\n",
               sum.steps, sum.messages, sum.faults, sum.grants, sum.losses, sum.writes, sum.stale, failed);
        return failed != 0;
}

static int list_bugs(void)
{
        for (int bug = BUG_NONE + 1; bug < BUGS; bug++)
                printf("%-20s %s\n", bug_name((enum bug)bug), bug_text((enum bug)bug));
        return 0;
}

static int usage(void)
{
        fprintf(stderr, "usage: sim [--seed N | --seeds FROM..TO] [--bug NAME] [--trace] [--list-bugs]\n");
        return 2;
}

int main(int argc, char **argv)
{
        struct request request = {.from = 1, .to = 100};

        for (int i = 1; i < argc; i++) {
                if (strcmp(argv[i], "--list-bugs") == 0)
                        return list_bugs();
                if (strcmp(argv[i], "--trace") == 0)
                        request.tracing = true;
                else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
                        request.from = request.to = strtoull(argv[++i], NULL, 10);
                else if (strcmp(argv[i], "--seeds") == 0 && i + 1 < argc &&
                         sscanf(argv[i + 1], "%" SCNu64 "..%" SCNu64, &request.from, &request.to) == 2)
                        i++;
                else if (strcmp(argv[i], "--bug") == 0 && i + 1 < argc && bug_find(argv[i + 1]) != BUGS)
                        request.bug = bug_find(argv[++i]);
                else
                        return usage();
        }
        if (request.to < request.from)
                return usage();
        signal(SIGABRT, say_seed);
        signal(SIGSEGV, say_seed);
        return run(&request);
}
