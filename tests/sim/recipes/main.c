/* main.c - plays the scenes for many seeds, as TAP: with faults by chance, and with the death of each process at each
 * of its steps. --scene, --seed, --crash and --trace show one history. */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "stage.h"

enum { FAILURES_MAX = 3 };

struct request {
        uint64_t from, to;
        const struct scene *scene; /* NULL: all */
        struct direction one;      /* for --crash and --bug */
        uint64_t every;            /* a process dies at its first step, and so many later, ... */
};

static struct direction playing;
static const char *playing_scene = "";

static void say_where(int signal_number)
{
        char line[160];
        int size = snprintf(line, sizeof(line), "# died in scene %s, seed %" PRIu64 ", crash %d:%" PRIu64 "\n",
                            playing_scene, playing.seed, playing.crash, playing.crash_step);
        ssize_t n = write(STDOUT_FILENO, line, (size_t)size);

        (void)n;
        signal(signal_number, SIG_DFL);
        raise(signal_number);
}

static struct play_outcome play_one(const struct scene *scene, const struct direction *direction)
{
        struct play_outcome outcome;

        playing = *direction;
        playing_scene = scene->name;
        outcome = stage_run(scene, direction);
        if (outcome.failed)
                printf("# %s: %s\n# again: --scene %s --seed %" PRIu64 "%s --crash %d:%" PRIu64 " --bug %d --trace\n",
                       scene->name, outcome.failure, scene->name, direction->seed, direction->faults ? "" : " --calm",
                       direction->crash, direction->crash_step, direction->bug);
        return outcome;
}

/* ---- many -------------------------------------------------------------------------------------------------------- */

static unsigned play_seeds(const struct request *request, const struct scene *scene, bool faults)
{
        unsigned failed = 0;

        for (uint64_t seed = request->from; seed <= request->to; seed++) {
                struct direction direction = request->one;

                direction.seed = seed;
                direction.faults = faults;
                failed += play_one(scene, &direction).failed;
                if (failed == FAILURES_MAX) /* the rest would say the same */
                        break;
        }
        return failed;
}

/* For K = 1, 2, 3, ... (or so many at a time) the process dies at its K-th step, until it has fewer. */
static unsigned play_deaths(const struct request *request, const struct scene *scene, uint64_t *played)
{
        unsigned failed = 0;

        for (int process = 1; process <= scene->processes; process++)
                for (uint64_t step = 1;; step += request->every) {
                        struct direction direction = request->one;
                        struct play_outcome outcome;

                        direction.seed = request->from + step;
                        direction.faults = false;
                        direction.crash = process;
                        direction.crash_step = step;
                        outcome = play_one(scene, &direction);
                        failed += outcome.failed;
                        ++*played;
                        if (outcome.steps[process - 1] < step || failed)
                                break;
                }
        return failed;
}

static int tell(int number, unsigned failed, const struct scene *scene, const char *how, uint64_t played)
{
        printf("%sok %d - %s: %s, %s (%" PRIu64 " histories)\n", failed ? "not " : "", number, scene->name,
               scene->promise, how, played);
        fflush(stdout);
        return failed != 0;
}

static int play_all(const struct request *request)
{
        int number = 0, failed = 0, count = 0;

        for (int i = 0; scenes[i]; i++)
                count += !request->scene || request->scene == scenes[i];
        printf("TAP version 13\n1..%d\n", 3 * count);
        for (int i = 0; scenes[i]; i++) {
                const struct scene *scene = scenes[i];
                uint64_t seeds = request->to - request->from + 1, deaths = 0;
                unsigned wrong;

                if (request->scene && request->scene != scene)
                        continue;
                failed += tell(++number, play_seeds(request, scene, false), scene, "without faults", seeds);
                failed += tell(++number, play_seeds(request, scene, true), scene, "with faults", seeds);
                wrong = play_deaths(request, scene, &deaths);
                failed += tell(++number, wrong, scene, "whoever dies at whatever step", deaths);
        }
        return failed != 0;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

static const struct scene *find_scene(const char *name)
{
        for (int i = 0; scenes[i]; i++)
                if (strcmp(scenes[i]->name, name) == 0)
                        return scenes[i];
        return NULL;
}

static int list_scenes(void)
{
        for (int i = 0; scenes[i]; i++) {
                printf("%-16s %s\n", scenes[i]->name, scenes[i]->promise);
                for (int bug = 0; scenes[i]->bugs && scenes[i]->bugs[bug]; bug++)
                        printf("    --bug %-8d %s\n", bug + 1, scenes[i]->bugs[bug]);
        }
        return 0;
}

static int usage(void)
{
        fprintf(stderr, "usage: sim_recipes [--list] [--scene NAME] [--seeds FROM..TO] [--every STEPS]\n"
                        "       sim_recipes --scene NAME --seed N [--calm] [--crash PROCESS:STEP] [--bug N] "
                        "[--store-bug NAME]\n"
                        "                   [--trace]\n");
        return 2;
}

static int show_one(const struct request *request)
{
        struct direction direction = request->one;
        struct play_outcome outcome = play_one(request->scene, &direction);

        printf("# %" PRIu64 " events, %" PRIu64 " messages, %" PRIu64 " faults, %" PRIu64 " grants, hash %016" PRIx64
               "\n",
               outcome.figures.steps, outcome.figures.messages, outcome.figures.faults, outcome.figures.grants,
               outcome.hash);
        return outcome.failed;
}

int main(int argc, char **argv)
{
        struct request request = {.from = 1, .to = 100, .every = 1, .one.faults = true};
        bool one = false;

        for (int i = 1; i < argc; i++) {
                bool more = i + 1 < argc;

                if (strcmp(argv[i], "--list") == 0)
                        return list_scenes();
                if (strcmp(argv[i], "--trace") == 0)
                        request.one.tracing = true;
                else if (strcmp(argv[i], "--calm") == 0)
                        request.one.faults = false;
                else if (more && strcmp(argv[i], "--scene") == 0 && find_scene(argv[i + 1]))
                        request.scene = find_scene(argv[++i]);
                else if (more && strcmp(argv[i], "--bug") == 0)
                        request.one.bug = atoi(argv[++i]);
                else if (more && strcmp(argv[i], "--every") == 0 && atoi(argv[i + 1]) > 0)
                        request.every = strtoull(argv[++i], NULL, 10);
                else if (more && strcmp(argv[i], "--store-bug") == 0 && bug_find(argv[i + 1]) != BUGS)
                        request.one.model_bug = bug_find(argv[++i]);
                else if (more && strcmp(argv[i], "--seed") == 0 && (one = true))
                        request.one.seed = strtoull(argv[++i], NULL, 10);
                else if (more && strcmp(argv[i], "--seeds") == 0 &&
                         sscanf(argv[i + 1], "%" SCNu64 "..%" SCNu64, &request.from, &request.to) == 2)
                        i++;
                else if (more && strcmp(argv[i], "--crash") == 0 &&
                         sscanf(argv[i + 1], "%d:%" SCNu64, &request.one.crash, &request.one.crash_step) == 2)
                        i++;
                else
                        return usage();
        }
        if (request.to < request.from || (one && !request.scene))
                return usage();
        signal(SIGABRT, say_where);
        signal(SIGSEGV, say_where);
        return one ? show_one(&request) : play_all(&request);
}
