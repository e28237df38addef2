/* cmd_top.c - `pawl top`: locks and holders, again and again. On a terminal the screen is redrawn until q; elsewhere one
 * snapshot is printed, or --count of them. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "top.h"

enum colour { COLOUR_AUTO = 0, COLOUR_ALWAYS = 1, COLOUR_NEVER = 2 };

static struct {
        int64_t interval_ms;
        int64_t stuck_ms;
        uint32_t count;
        uint32_t colour; /* enum colour */
} request = {.interval_ms = 1000, .stuck_ms = 300000};

static bool option_colour(const struct option *option, const char *text)
{
        static const char *const words[] = {"auto", "always", "never"};

        for (uint32_t i = 0; i < 3; i++)
                if (!strcmp(text, words[i])) {
                        *(uint32_t *)option->target = i;
                        return true;
                }
        say("--%s wants auto, always or never, not '%s'", option->name, text);
        return false;
}

static const struct option options[] = {
        {'i', "interval", "DUR", "between two snapshots (1s)", option_some_time, &request.interval_ms},
        {0, "count", "N", "end after N snapshots", option_number, &request.count},
        {0, "stuck", "DUR", "wanted locks are stuck when held for DUR (5m)", option_some_time, &request.stuck_ms},
        {0, "color", "auto|always|never", "auto, the default, obeys NO_COLOR", option_colour, &request.colour},
        {0},
};

/* How long the store may take for a snapshot on a screen, and what follows an Escape. */
enum { LOOK_MS = 2000, SEQUENCE_MS = 50 };

static bool has_colours(void)
{
        const char *none = getenv("NO_COLOR");

        return request.colour == COLOUR_ALWAYS || (request.colour == COLOUR_AUTO && !(none && *none));
}

/* ---- on a screen ---------------------------------------------------------------------------------------------------- */

struct live {
        struct signals *signals;
        pawl_client **client;
        struct source *source;
        struct view view;
        struct keys keys;
        bool asking;
        int64_t ask_at;        /* now_ns() */
        int64_t sequence_ends; /* what was typed until then belongs to the Escape before it */
        uint32_t left;         /* answers until the end; 0: no end */
        int signal;            /* what ended it */
        int status;
};

static void redraw(struct live *live)
{
        size_t width, height;

        screen_size(&width, &height);
        draw(&live->view, width, height);
}

/* There was no store; there may be one by now. False: it cannot be opened. */
static bool open_client(struct live *live)
{
        struct pawl_why why = {0};
        int code = *live->client ? PAWL_OK : client_look_again(live->client, &why);

        if (code != PAWL_OK) {
                screen_off();
                live->status = fail(code, &why);
                return false;
        }
        if (!*live->client || live->source)
                return true;
        live->view.url = pawl_url(*live->client);
        live->source = source_open(*live->client);
        if (live->source)
                return true;
        screen_off();
        say("cannot start a thread: %s", strerror(errno));
        live->status = EXIT_FAILED;
        return false;
}

static bool count_answer(struct live *live)
{
        return !live->left || --live->left;
}

static bool ask_when_due(struct live *live)
{
        if (live->asking || now_ns() < live->ask_at)
                return true;
        if (!open_client(live))
                return false;
        live->ask_at = now_ns() + request.interval_ms * INT64_C(1000000);
        if (!live->source)
                return count_answer(live); /* nothing is there */
        live->asking = source_ask(live->source, view_question(&live->view));
        return true;
}

static bool take_answer(struct live *live)
{
        struct snapshot answer;

        if (!live->source || !source_take(live->source, &answer))
                return true;
        live->asking = false;
        view_answer(&live->view, &answer);
        return count_answer(live);
}

static bool take_signals(struct live *live)
{
        int signal;

        while ((signal = signals_next(live->signals)) != 0) {
                if (signal_ends(signal)) {
                        live->signal = signal;
                        return false;
                }
                if (signal == SIGTSTP) {
                        screen_off();
                        signals_stop(signal, false);
                }
                if (signal == SIGWINCH)
                        redraw(live); /* what the next key does depends on the size */
                if ((signal == SIGTSTP && !screen_on()) || (signal == SIGCONT && !screen_again()))
                        return false;
        }
        return true;
}

/* Another question is asked at once; the page of a lock must not stay empty for the interval. */
static bool take_keys(struct live *live, bool over)
{
        char before[PAWL_NAME_MAX + 1];
        int key;

        snprintf(before, sizeof(before), "%s", view_question(&live->view));
        while ((key = keys_next(&live->keys, over)) != KEY_NONE)
                if (!view_key(&live->view, key))
                        return false;
        if (strcmp(before, view_question(&live->view)) != 0)
                live->ask_at = now_ns();
        return true;
}

static int64_t ms_until(int64_t time)
{
        int64_t left_ms = (time - now_ns() + 999999) / 1000000;

        return left_ms > 0 ? left_ms : 0;
}

static int until_due_ms(const struct live *live)
{
        int64_t left_ms = live->asking ? request.interval_ms : ms_until(live->ask_at); /* the clock goes on */
        int64_t over_ms = keys_wait(&live->keys) ? ms_until(live->sequence_ends) : INT32_MAX;

        if (over_ms < left_ms)
                left_ms = over_ms;
        return left_ms < INT32_MAX ? (int)left_ms : INT32_MAX;
}

/* Until something happens. False: it ends. */
static bool wait_for_events(struct live *live)
{
        struct pollfd fds[] = {{.fd = live->signals->fd, .events = POLLIN},
                               {.fd = STDIN_FILENO, .events = POLLIN},
                               {.fd = live->source ? source_fd(live->source) : -1, .events = POLLIN}};
        int ready = poll(fds, 3, until_due_ms(live));

        if (ready < 0)
                return errno == EINTR;
        if (!take_signals(live))
                return false;
        if (fds[1].revents) {
                if (!keys_read(&live->keys))
                        return false;
                live->sequence_ends = now_ns() + SEQUENCE_MS * INT64_C(1000000);
        }
        return take_keys(live, now_ns() >= live->sequence_ends) && take_answer(live);
}

static int show_live(struct signals *signals, pawl_client **client)
{
        struct live live = {.signals = signals,
                            .client = client,
                            .left = request.count,
                            .ask_at = now_ns(),
                            .view = {.url = "(no store yet)", .stuck_ms = request.stuck_ms, .colours = has_colours()}};

        if (!screen_on())
                return EXIT_FAILED;
        do
                redraw(&live);
        while (ask_when_due(&live) && wait_for_events(&live));
        if (live.status == EXIT_DONE && live.left == 0 && request.count)
                redraw(&live);
        screen_off();
        source_close(live.source);
        view_end(&live.view);
        return live.signal ? EXIT_SIGNAL + live.signal : live.status;
}

/* ---- elsewhere ------------------------------------------------------------------------------------------------------ */

static void print_snapshot(pawl_client *client, const struct snapshot *list)
{
        size_t count;
        const struct row **rows = rows_arranged(list, "", ORDER_WAITERS, false, &count);

        if (settings.json) {
                json_open(stdout, NULL, '[');
                for (size_t i = 0; i < count; i++)
                        json_entry(stdout, &rows[i]->entry);
                json_close(stdout, ']');
                json_end(stdout);
        } else {
                draw_plain(client ? pawl_url(client) : "(no store yet)", list, rows, count);
        }
        fflush(stdout); /* a reader of a pipe wants it now; what fails here is reported at the end */
        free(rows);
}

/* Until the next snapshot is due. False: *signal ends us. */
static bool pause_for(struct signals *signals, int *signal)
{
        struct pollfd fd = {.fd = signals->fd, .events = POLLIN};
        int64_t until = now_ns() + request.interval_ms * INT64_C(1000000);
        int64_t left_ms;

        while ((left_ms = (until - now_ns() + 999999) / 1000000) > 0) {
                if (poll(&fd, 1, (int)(left_ms < INT32_MAX ? left_ms : INT32_MAX)) <= 0)
                        continue;
                *signal = claim_signal(signals);
                if (*signal)
                        return false;
        }
        return true;
}

static int print_all(struct signals *signals, pawl_client **client)
{
        uint32_t left = request.count ? request.count : 1;
        struct snapshot list;
        int signal = 0, status, code;

        do {
                status = *client ? EXIT_DONE : client_open_to_look(client);
                if (status != EXIT_DONE)
                        return status;
                snapshot_take(*client, "", &list);
                code = list.code;
                if (code == PAWL_OK)
                        print_snapshot(*client, &list);
                snapshot_free(&list);
        } while (code == PAWL_OK && --left && pause_for(signals, &signal));
        return signal ? EXIT_SIGNAL + signal : fail_of_client(*client, code);
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        struct signals signals;
        pawl_client *client = NULL;
        bool live;
        int status;

        if (!options_read(command, options, argc, argv, &arguments, &status))
                return status;
        if (!signals_begin(&signals))
                return EXIT_FAILED;
        live = screen_exists() && !settings.json;
        if (live) {
                settings.look_ms = LOOK_MS;
                settings.quiet = true; /* what goes wrong is shown on the screen */
        }
        status = client_open_to_look(&client);
        if (status != EXIT_DONE)
                return status;
        status = live ? show_live(&signals, &client) : print_all(&signals, &client);
        pawl_close(client);
        return status;
}

const struct command cmd_top = {
        .name = "top",
        .arguments = "",
        .summary = "locks and their holders, live; ? shows the keys, q ends it",
        .details =
                "Without a terminal one snapshot is printed, or --count of them. On a terminal a store that does not\n"
                "answer is reported on the screen, and asked again.",
        .flags = COMMAND_ENGINE | COMMAND_JSON,
        .run = run,
};
