/* cmd_top.c - `pawl top`: who holds what, again and again. On a terminal the screen is redrawn until q; elsewhere one
 * snapshot is printed, or --count of them. */
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

static struct {
        int64_t interval_ms;
        uint32_t count;
} request = {.interval_ms = 1000};

static const struct option options[] = {
        {'i', "interval", "DUR", "between two snapshots (1s)", option_some_time, &request.interval_ms},
        {0, "count", "N", "end after N snapshots", option_number, &request.count},
        {0},
};

/* ---- one snapshot ----------------------------------------------------------------------------------------------- */

struct row {
        struct pawl_entry entry; /* its texts are our own copies */
};

struct snapshot {
        struct row *rows;
        size_t count;
        size_t room;
};

static int add_entry(const struct pawl_entry *entry, void *arg)
{
        struct snapshot *snapshot = arg;
        struct row *row;

        if (snapshot->count == snapshot->room) {
                size_t room = snapshot->room ? 2 * snapshot->room : 64;
                struct row *rows = realloc(snapshot->rows, room * sizeof(*rows));

                if (!rows)
                        return 1;
                snapshot->rows = rows;
                snapshot->room = room;
        }
        row = &snapshot->rows[snapshot->count++];
        row->entry = *entry;
        row->entry.name = strdup(entry->name);
        row->entry.owner = strdup(entry->owner ? entry->owner : "");
        row->entry.note = strdup(entry->note ? entry->note : "");
        return row->entry.name && row->entry.owner && row->entry.note ? 0 : 1;
}

static void snapshot_free(struct snapshot *snapshot)
{
        for (size_t i = 0; i < snapshot->count; i++) {
                free((char *)(uintptr_t)snapshot->rows[i].entry.name);
                free((char *)(uintptr_t)snapshot->rows[i].entry.owner);
                free((char *)(uintptr_t)snapshot->rows[i].entry.note);
        }
        free(snapshot->rows);
}

/* The most wanted first. */
static int compare_rows(const void *a, const void *b)
{
        const struct pawl_entry *left = &((const struct row *)a)->entry;
        const struct pawl_entry *right = &((const struct row *)b)->entry;

        if (left->waiters != right->waiters)
                return left->waiters > right->waiters ? -1 : 1;
        return strcmp(left->name, right->name);
}

static int64_t unix_ms(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_REALTIME, &ts);
        return ts.tv_sec * (int64_t)1000 + ts.tv_nsec / 1000000;
}

static void add_table_row(struct table *table, const struct pawl_entry *entry, int64_t now_ms)
{
        char left[24], held[24];

        table_text(table, entry->name);
        table_cell(table, "%u", entry->waiters);
        table_cell(table, "%s", entry->role == PAWL_ROLE_FREE ? "-" : duration_text(now_ms - entry->since_ms, held));
        table_cell(table, "%s", duration_text(entry->remaining_ms, left));
        if (entry->token)
                table_cell(table, "%llu", (unsigned long long)entry->token);
        else
                table_cell(table, "-");
        table_text(table, entry->role == PAWL_ROLE_FREE ? "(nobody)" : entry->owner);
}

static void print_table(const struct snapshot *snapshot, FILE *out)
{
        static const char *const heads[] = {"NAME", "WAITERS", "HELD", "LEFT", "TOKEN", "OWNER"};
        int64_t now_ms = unix_ms();
        struct table table;

        table_begin(&table, 6);
        for (size_t i = 0; i < 6; i++)
                table_cell(&table, "%s", heads[i]);
        for (size_t i = 0; i < snapshot->count; i++)
                add_table_row(&table, &snapshot->rows[i].entry, now_ms);
        table_print(&table, out);
        table_end(&table);
}

/* Without what client_open_to_look() adds. */
static int shown_length(const char *url)
{
        const char *added = strstr(url, "create=no");

        return (int)(added > url && !added[strlen("create=no")] ? (size_t)(added - url) - 1 : strlen(url));
}

static void print_head(pawl_client *client, const struct snapshot *snapshot, FILE *out)
{
        time_t now = time(NULL);
        size_t names = 0, waiters = 0;
        struct tm tm;
        char clock[16];
        const char *url = client ? pawl_url(client) : "(no store yet)";

        for (size_t i = 0; i < snapshot->count; i++) {
                const struct pawl_entry *entry = &snapshot->rows[i].entry;

                if (i && !strcmp(entry->name, snapshot->rows[i - 1].entry.name))
                        continue;
                names++;
                waiters += entry->waiters;
        }
        strftime(clock, sizeof(clock), "%H:%M:%S", localtime_r(&now, &tm));
        fprintf(out, "pawl top  %.*s  %s  %zu held, %zu waiting\n\n", shown_length(url), url, clock, names, waiters);
}

static int snapshot_print(pawl_client *client, FILE *out)
{
        struct snapshot snapshot = {0};
        int code = client ? pawl_list(client, NULL, add_entry, &snapshot) : PAWL_OK;

        if (snapshot.count)
                qsort(snapshot.rows, snapshot.count, sizeof(*snapshot.rows), compare_rows);
        if (code == PAWL_OK && settings.json) {
                json_open(out, NULL, '[');
                for (size_t i = 0; i < snapshot.count; i++)
                        json_entry(out, &snapshot.rows[i].entry);
                json_close(out, ']');
                json_end(out);
        } else if (code == PAWL_OK) {
                print_head(client, &snapshot, out);
                print_table(&snapshot, out);
        }
        fflush(out); /* who reads this from a pipe wants it now; what fails here is said at the end */
        snapshot_free(&snapshot);
        return code;
}

/* ---- the screen ------------------------------------------------------------------------------------------------- */

static struct termios cooked;

static void screen_on(void)
{
        struct termios raw;

        tcgetattr(STDIN_FILENO, &cooked);
        raw = cooked;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
        fputs("\033[?1049h\033[?25l", stdout);
        fflush(stdout);
}

static void screen_off(void)
{
        fputs("\033[?25h\033[?1049l", stdout);
        fflush(stdout);
        tcsetattr(STDIN_FILENO, TCSADRAIN, &cooked);
}

/* text, cut to the screen, each line cleared to its end. Names are escaped. */
static void draw(const char *text)
{
        struct winsize size = {0};
        size_t column = 0, line = 0, bytes, columns;

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_col)
                size = (struct winsize){.ws_row = 24, .ws_col = 80};
        fputs("\033[H", stdout);
        for (; *text && line + 1 < size.ws_row; text += bytes) {
                bytes = character_at(text, &columns);
                if (*text == '\n') {
                        fputs("\033[K\n", stdout);
                        column = 0;
                        line++;
                        continue;
                }
                column += columns;
                if (column <= size.ws_col)
                        fwrite(text, 1, bytes, stdout);
        }
        fputs("\033[J", stdout);
        fflush(stdout);
}

static int screen_print(pawl_client *client)
{
        char *text = NULL;
        size_t size;
        FILE *out = open_memstream(&text, &size);
        int code;

        if (!out)
                return PAWL_NO_MEMORY;
        code = snapshot_print(client, out);
        fclose(out);
        if (code == PAWL_OK)
                draw(text);
        free(text);
        return code;
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

/* Until the next snapshot is due. False: it is time to go, by q or by *signal. */
static bool pause_for(struct signals *signals, bool live, int *signal)
{
        struct pollfd fds[] = {{.fd = signals->fd, .events = POLLIN},
                               {.fd = live ? STDIN_FILENO : -1, .events = POLLIN}};
        char key = 0;

        if (poll(fds, 2, (int)(request.interval_ms < INT32_MAX ? request.interval_ms : INT32_MAX)) <= 0)
                return true;
        if (fds[1].revents && (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q'))
                return false;
        while ((*signal = signals_next(signals)) != 0) {
                if (*signal == SIGTSTP) {
                        if (live)
                                screen_off();
                        signals_stop(*signal, false);
                        if (live)
                                screen_on();
                } else if (signal_ends(*signal)) {
                        return false;
                }
        }
        return true;
}

/* A store that is made meanwhile is shown from the next snapshot on. */
static int watch(struct signals *signals, pawl_client **client, bool live)
{
        uint32_t left = request.count ? request.count : live ? UINT32_MAX : 1;
        int signal = 0, status = EXIT_DONE;
        int code = PAWL_OK;

        if (live)
                screen_on();
        do {
                if (!*client)
                        status = client_open_to_look(client);
                if (status == EXIT_DONE)
                        code = live ? screen_print(*client) : snapshot_print(*client, stdout);
        } while (status == EXIT_DONE && code == PAWL_OK && --left && pause_for(signals, live, &signal));
        if (live)
                screen_off();
        if (status != EXIT_DONE)
                return status;
        return signal && signal_ends(signal) ? EXIT_SIGNAL + signal : fail(code, NULL);
}

static int run(const struct command *command, int argc, char **argv)
{
        struct signals signals;
        pawl_client *client = NULL;
        int status;

        if (!options_read(command, options, &argc, &argv, &status) || !arguments_count(command, argc, 0, 0, &status))
                return status;
        if (!signals_begin(&signals))
                return EXIT_FAILED;
        status = client_open_to_look(&client);
        if (status != EXIT_DONE)
                return status;
        status = watch(&signals, &client, isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !settings.json);
        pawl_close(client);
        return status;
}

const struct command cmd_top = {
        .name = "top",
        .arguments = "",
        .summary = "who holds what, live; q ends it",
        .details = "Without a terminal one snapshot is printed, or --count of them.",
        .flags = COMMAND_ENGINE | COMMAND_JSON,
        .run = run,
};
