/* cmd_demo.c - `pawl demo`: the main job in the terminal. Three workers, each a process, take turns at a ledger; one is
 * stopped past its lease, wakes up, and its late write is refused. The director here gives the orders, tells the viewer
 * what happens, and at the end checks that it was true. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "demo.h"
#include "run.h"

const char *const demo_names[DEMO_WORKERS] = {"anna", "bert", "cleo"};

enum { LEDGER_MAX = 4096, READING_MS = 700 };
static const int64_t PATIENCE = 15000000000;

struct director {
        struct demo_paths paths;
        struct signals signals;
        pid_t pids[DEMO_WORKERS];
        int orders[DEMO_WORKERS];
        int events;
        bool colours;
        int64_t began_at;
        uint32_t seen[EVENT_KINDS]; /* how many of each */
        uint64_t last_token;
        bool tokens_grow;
        char expected[LEDGER_MAX]; /* the ledger, if every accepted write counts and nothing else */
        int status;                /* once it is not EXIT_DONE the show is over */
};

/* ---- what the viewer sees --------------------------------------------------------------------------------------- */

static const char *colour(const struct director *director, const char *code)
{
        return director->colours ? code : "";
}

static void title(const struct director *director, const char *text)
{
        printf("\n%s%s%s\n", colour(director, "\033[1m"), text, colour(director, "\033[0m"));
        fflush(stdout);
}

static void line(const struct director *director, uint32_t worker, const char *tone, const char *format, ...)
        __attribute__((format(printf, 4, 5)));
static void line(const struct director *director, uint32_t worker, const char *tone, const char *format, ...)
{
        static const char *const tones[DEMO_WORKERS] = {"\033[36m", "\033[33m", "\033[35m"};
        va_list list;

        printf("  %5.2fs  %s%s%s  %s", (double)(now_ns() - director->began_at) / 1e9, colour(director, tones[worker]),
               demo_names[worker], colour(director, "\033[0m"), colour(director, tone));
        va_start(list, format);
        vprintf(format, list);
        va_end(list);
        printf("%s\n", colour(director, "\033[0m"));
        fflush(stdout);
}

static void remark(const char *text)
{
        printf("           %s\n", text);
        fflush(stdout);
}

static void show_event(const struct director *director, const struct demo_event *event)
{
        unsigned long long token = event->token;

        switch (event->kind) {
        case EVENT_WAITS:
                line(director, event->worker, "\033[2m", "waits for the lock");
                break;
        case EVENT_HOLDS:
                line(director, event->worker, "", "holds the lock, token %llu", token);
                break;
        case EVENT_STOPS:
                line(director, event->worker, "\033[1m", "has read the ledger and falls asleep (SIGSTOP)");
                break;
        case EVENT_WROTE:
                line(director, event->worker, "\033[32m", "wrote its line, token %llu admitted", token);
                break;
        case EVENT_REFUSED:
                line(director, event->worker, "\033[1;31m", "REFUSED by the guard: token %llu is older than %llu",
                     token, (unsigned long long)director->last_token);
                break;
        case EVENT_LOST:
                line(director, event->worker, "\033[31m", "is told by pawl_check: lost, %s",
                     pawl_reason_text(event->value));
                break;
        case EVENT_FAILED:
                line(director, event->worker, "\033[1;31m", "failed: %s", pawl_strerror(event->value));
                break;
        default:
                break;
        }
}

/* ---- the workers ------------------------------------------------------------------------------------------------ */

static bool start_worker(struct director *director, uint32_t worker, int events)
{
        pid_t director_pid = getpid();
        int ends[2];

        if (pipe2(ends, O_CLOEXEC) != 0)
                return false;
        director->orders[worker] = ends[1];
        fflush(stdout);
        director->pids[worker] = fork();
        if (director->pids[worker] == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                for (uint32_t i = 0; i <= worker; i++)
                        close(director->orders[i]);
                _exit(getppid() == director_pid ? demo_worker(&director->paths, worker, ends[0], events) : 1);
        }
        close(ends[0]);
        return director->pids[worker] > 0;
}

static void order(struct director *director, uint32_t worker, char what)
{
        if (write(director->orders[worker], &what, 1) != 1)
                director->status = EXIT_FAILED;
}

/* A worker that hears no more orders ends by itself; one that still sleeps or hangs is helped. */
static void end_workers(struct director *director)
{
        for (uint32_t i = 0; i < DEMO_WORKERS; i++)
                if (director->orders[i] >= 0)
                        close(director->orders[i]);
        for (uint32_t i = 0; i < DEMO_WORKERS; i++) {
                if (director->pids[i] <= 0)
                        continue;
                if (director->status != EXIT_DONE)
                        kill(director->pids[i], SIGKILL);
                waitpid(director->pids[i], NULL, 0);
        }
}

/* ---- following the play ----------------------------------------------------------------------------------------- */

static void note_write(struct director *director, const struct demo_event *event)
{
        size_t length = strlen(director->expected);

        snprintf(director->expected + length, LEDGER_MAX - length, "%s %llu\n", demo_names[event->worker],
                 (unsigned long long)event->token);
        director->tokens_grow &= event->token > director->last_token;
        director->last_token = event->token;
}

static void note_event(struct director *director, const struct demo_event *event)
{
        director->seen[event->kind]++;
        if (event->kind == EVENT_WROTE)
                note_write(director, event);
        else if (event->kind == EVENT_FAILED)
                director->status = EXIT_FAILED;
}

/* False: the time is up, or the show is over. */
static bool read_event(struct director *director, int64_t until, struct demo_event *event)
{
        struct pollfd fds[] = {{.fd = director->events, .events = POLLIN},
                               {.fd = director->signals.fd, .events = POLLIN}};
        int signal;

        while (director->status == EXIT_DONE) {
                int64_t left_ms = (until - now_ns()) / 1000000;

                if (left_ms <= 0 || poll(fds, 2, (int)left_ms) < 0)
                        return false;
                while ((signal = signals_next(&director->signals)) != 0)
                        if (signal_ends(signal))
                                director->status = EXIT_SIGNAL + signal;
                if (director->status == EXIT_DONE && fds[0].revents)
                        return read(director->events, event, sizeof(*event)) == sizeof(*event);
        }
        return false;
}

static void be_stuck(struct director *director)
{
        if (director->status != EXIT_DONE)
                return;
        say("the demo is stuck: no worker does anything");
        director->status = EXIT_FAILED;
}

/* Shows what happens until there were total events of that kind, from the beginning of the play. */
static void follow(struct director *director, enum demo_event_kind kind, uint32_t total)
{
        struct demo_event event;

        while (director->seen[kind] < total) {
                if (!read_event(director, now_ns() + PATIENCE, &event)) {
                        be_stuck(director);
                        return;
                }
                note_event(director, &event);
                show_event(director, &event);
        }
}

/* Goes on showing for so long: the viewer's time to read, or a worker's to get into the queue. */
static void rest(struct director *director, int64_t ms)
{
        int64_t until = now_ns() + ms * 1000000;
        struct demo_event event;

        while (now_ns() < until && read_event(director, until, &event)) {
                note_event(director, &event);
                show_event(director, &event);
        }
}

static void wait_until_stopped(struct director *director, uint32_t worker)
{
        int status;

        if (director->status == EXIT_DONE && waitpid(director->pids[worker], &status, WUNTRACED) < 0)
                director->status = EXIT_FAILED;
}

static void scene(struct director *director, const char *text)
{
        title(director, text);
        rest(director, READING_MS);
}

/* ---- the play --------------------------------------------------------------------------------------------------- */

static void first_scene(struct director *director)
{
        scene(director, "1. They take turns: first come, first served, each with a greater token.");
        for (uint32_t round = 0; round < 2; round++)
                for (uint32_t i = 0; i < DEMO_WORKERS; i++) {
                        order(director, i, ORDER_TURN);
                        if (!round)
                                rest(director, 50); /* so that they queue in this order */
                }
        follow(director, EVENT_RELEASED, 6);
}

static void second_scene(struct director *director)
{
        scene(director, "2. anna takes the lock and is stopped in the middle of its work.");
        order(director, 0, ORDER_SLEEP);
        follow(director, EVENT_STOPS, 1);
        wait_until_stopped(director, 0);
        order(director, 1, ORDER_TURN);
        follow(director, EVENT_WAITS, 8);
        line(director, 1, "", "must wait until anna's lease of %d s has run out", DEMO_TTL_MS / 1000);
        follow(director, EVENT_RELEASED, 7);
}

static void third_scene(struct director *director)
{
        scene(director, "3. anna wakes up, knows nothing of all that, and writes what it had prepared.");
        kill(director->pids[0], SIGCONT);
        line(director, 0, "\033[1m", "goes on (SIGCONT)");
        follow(director, EVENT_RELEASED, 8);
        remark("No lock can stop that write; the token can, where the data are.");
}

static void fourth_scene(struct director *director)
{
        scene(director, "4. Life goes on.");
        order(director, 2, ORDER_TURN);
        follow(director, EVENT_RELEASED, 9);
        order(director, 0, ORDER_TURN);
        follow(director, EVENT_RELEASED, 10);
}

/* ---- was it true? ----------------------------------------------------------------------------------------------- */

static bool read_text(const char *path, char *text)
{
        FILE *file = fopen(path, "r");

        if (!file)
                return false;
        text[fread(text, 1, LEDGER_MAX - 1, file)] = 0;
        fclose(file);
        return true;
}

static size_t count_lines(const char *text)
{
        size_t lines = 0;

        for (; *text; text++)
                lines += *text == '\n';
        return lines;
}

static bool verdict(const struct director *director, const char *text, bool good)
{
        printf("  %s%s%s  %s\n", colour(director, good ? "\033[32m" : "\033[1;31m"), good ? "yes" : "NO ",
               colour(director, "\033[0m"), text);
        return good;
}

static void check_truth(struct director *director)
{
        char guarded[LEDGER_MAX] = "", careless[LEDGER_MAX] = "";
        char text[160];
        size_t lines = count_lines(director->expected);
        bool good;

        if (director->status != EXIT_DONE)
                return;
        title(director, "Was it so?");
        good = read_text(director->paths.ledger, guarded) && read_text(director->paths.careless, careless);
        good &= verdict(director, "the late write was refused, and no other", director->seen[EVENT_REFUSED] == 1);
        good &= verdict(director, "every grant had a greater token", director->tokens_grow);
        snprintf(text, sizeof(text), "the guarded ledger has all %zu lines, and only those", lines);
        good &= verdict(director, text, lines == 9 && !strcmp(guarded, director->expected));
        good &= verdict(director, "the careless copy, kept without a guard, lost bert's line to anna's late one",
                        strcmp(careless, director->expected) != 0);
        printf("\n");
        if (!good) {
                say("the demo did not go as it must: this build does not keep its promises here");
                director->status = EXIT_FAILED;
        }
}

/* ---- before and after ------------------------------------------------------------------------------------------- */

static bool make_place(struct director *director)
{
        struct demo_paths *paths = &director->paths;
        const char *tmp = getenv("TMPDIR");
        char store[80];

        if (!tmp || *tmp != '/' || strlen(tmp) > 40 ||
            strspn(tmp, "/abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                        "0123456789._-") != strlen(tmp))
                tmp = "/tmp"; /* what an URL, and the buffers here, take as it is */
        snprintf(paths->top, sizeof(paths->top), "%s/pawl-demo.XXXXXX", tmp);
        if (!mkdtemp(paths->top)) {
                say("cannot make a directory in %s: %s", tmp, strerror(errno));
                paths->top[0] = 0;
                return false;
        }
        snprintf(store, sizeof(store), "%s/store", paths->top);
        snprintf(paths->engine, sizeof(paths->engine), "local:%s/locks", paths->top);
        snprintf(paths->guard, sizeof(paths->guard), "file:%s", store);
        snprintf(paths->ledger, sizeof(paths->ledger), "%s/" DEMO_LOCK, store);
        snprintf(paths->careless, sizeof(paths->careless), "%s/careless", paths->top);
        return mkdir(store, 0700) == 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
        (void)st;
        (void)type;
        (void)ftw;
        return remove(path);
}

static void remove_place(const struct director *director)
{
        if (director->paths.top[0] && nftw(director->paths.top, remove_one, 16, FTW_DEPTH | FTW_PHYS) != 0)
                warn("cannot remove %s: %s", director->paths.top, strerror(errno));
}

static bool start_workers(struct director *director)
{
        int ends[2];
        bool started = pipe2(ends, O_CLOEXEC) == 0;

        if (started) {
                director->events = ends[0];
                for (uint32_t i = 0; i < DEMO_WORKERS; i++)
                        started &= start_worker(director, i, ends[1]);
                close(ends[1]);
        }
        if (!started) {
                say("cannot start the workers: %s", strerror(errno));
                director->status = EXIT_FAILED;
        }
        return started;
}

static bool wants_colours(void)
{
        const char *term = getenv("TERM");
        const char *no_colour = getenv("NO_COLOR");

        return isatty(STDOUT_FILENO) && term && strcmp(term, "dumb") != 0 && !(no_colour && *no_colour);
}

static void play(struct director *director)
{
        printf("Three workers, each a process of its own, keep one ledger. Who holds the lock '" DEMO_LOCK
               "' may add a line.\n");
        first_scene(director);
        second_scene(director);
        third_scene(director);
        fourth_scene(director);
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        struct director director = {.orders = {-1, -1, -1}, .events = -1, .tokens_grow = true, .status = EXIT_DONE};
        int status;

        if (!options_read(command, NULL, argc, argv, &arguments, &status))
                return status;
        director.colours = wants_colours();
        director.began_at = now_ns();
        if (!signals_begin(&director.signals))
                return EXIT_FAILED;
        if (!make_place(&director))
                director.status = EXIT_FAILED;
        else if (start_workers(&director))
                play(&director);
        end_workers(&director);
        check_truth(&director);
        remove_place(&director);
        return director.status;
}

const struct command cmd_demo = {
        .name = "demo",
        .arguments = "",
        .summary = "see it work: workers take turns, a late write is refused",
        .details =
                "On the embedded engine, in a directory of its own that is removed at the end. Takes about 8 seconds.\n"
                "Status: 0 if everything was as it must be; 125 if not.",
        .run = run,
};
