/* cmd_top.c - `pawl top`: who holds what, again and again. On a terminal the screen is redrawn until q, and scrolls;
 * elsewhere one snapshot is printed, or --count of them. */
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
        *snapshot = (struct snapshot){0};
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

/* width: of the terminal; 0: there is none, and nothing is shortened. */
static void print_table(const struct snapshot *snapshot, size_t width, FILE *out)
{
        static const char *const heads[] = {"NAME", "WAITERS", "HELD", "LEFT", "TOKEN", "OWNER"};
        int64_t now_ms = unix_ms();
        struct table table;

        table_begin(&table, 6);
        for (size_t i = 0; i < 6; i++)
                table_cell(&table, "%s", heads[i]);
        for (size_t i = 0; i < snapshot->count; i++)
                add_table_row(&table, &snapshot->rows[i].entry, now_ms);
        if (width)
                table_fit(&table, width);
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

static int snapshot_take(pawl_client *client, struct snapshot *snapshot)
{
        int code = client ? pawl_list(client, NULL, add_entry, snapshot) : PAWL_OK;

        if (snapshot->count)
                qsort(snapshot->rows, snapshot->count, sizeof(*snapshot->rows), compare_rows);
        return code;
}

static void snapshot_print(pawl_client *client, const struct snapshot *snapshot)
{
        if (settings.json) {
                json_open(stdout, NULL, '[');
                for (size_t i = 0; i < snapshot->count; i++)
                        json_entry(stdout, &snapshot->rows[i].entry);
                json_close(stdout, ']');
                json_end(stdout);
        } else {
                print_head(client, snapshot, stdout);
                print_table(snapshot, 0, stdout);
        }
        fflush(stdout); /* a reader of a pipe wants it now; what fails here is reported at the end */
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

/* The lines above the rows: the title, an empty one, the heads of the columns. */
enum { HEAD_LINES = 3 };

struct view {
        pawl_client *client;
        struct snapshot snapshot;
        size_t first; /* the row at the top */
        size_t page;  /* rows that the screen shows at once */
};

/* The last page is full, if there are so many rows. */
static void keep_within(struct view *view)
{
        size_t last = view->snapshot.count > view->page ? view->snapshot.count - view->page : 0;

        if (view->first > last)
                view->first = last;
}

static struct winsize screen_size(void)
{
        struct winsize size = {0};

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_col || !size.ws_row)
                size = (struct winsize){.ws_row = 24, .ws_col = 80};
        return size;
}

/* One line, cut to the screen and cleared to its end. Names are escaped. Returns what follows it. */
static const char *draw_line(const char *text, size_t width)
{
        size_t column = 0, bytes, columns;

        for (; *text && *text != '\n'; text += bytes) {
                bytes = character_at(text, &columns);
                column += columns;
                if (column <= width)
                        fwrite(text, 1, bytes, stdout);
        }
        fputs("\033[K\r\n", stdout);
        return *text ? text + 1 : text;
}

/* The last line of the screen says which rows are shown if these are not all. */
static void draw_foot(const struct view *view)
{
        size_t last = view->first + view->page;

        fputs("\033[J", stdout);
        if (view->page < view->snapshot.count)
                printf("%zu-%zu of %zu: arrows, PgUp, PgDn; q ends", view->first + 1,
                       last < view->snapshot.count ? last : view->snapshot.count, view->snapshot.count);
}

static void draw_text(struct view *view, const char *text, struct winsize size)
{
        size_t lines = size.ws_row - 1u; /* the last is the foot */

        view->page = lines > HEAD_LINES ? lines - HEAD_LINES : 1;
        keep_within(view);
        fputs("\033[H", stdout);
        for (size_t line = 0; *text && lines; line++) {
                bool above = line >= HEAD_LINES && line < HEAD_LINES + view->first;

                if (above) {
                        text = strchr(text, '\n') + 1;
                } else {
                        text = draw_line(text, size.ws_col);
                        lines--;
                }
        }
        draw_foot(view);
        fflush(stdout);
}

static int draw(struct view *view)
{
        struct winsize size = screen_size();
        char *text = NULL;
        size_t length;
        FILE *out = open_memstream(&text, &length);

        if (!out)
                return PAWL_NO_MEMORY;
        print_head(view->client, &view->snapshot, out);
        print_table(&view->snapshot, size.ws_col, out);
        if (fclose(out) == 0)
                draw_text(view, text, size);
        free(text);
        return PAWL_OK;
}

/* ---- keys ------------------------------------------------------------------------------------------------------- */

enum move { MOVE_NONE, MOVE_UP, MOVE_DOWN, MOVE_PAGE_UP, MOVE_PAGE_DOWN, MOVE_TOP, MOVE_END, MOVE_QUIT };

static const struct {
        const char *bytes;
        enum move move;
} keys[] = {
        {"\033[A", MOVE_UP},   {"\033OA", MOVE_UP},   {"k", MOVE_UP},        {"\033[B", MOVE_DOWN},
        {"\033OB", MOVE_DOWN}, {"j", MOVE_DOWN},      {"\n", MOVE_DOWN},     {"\033[5~", MOVE_PAGE_UP},
        {"b", MOVE_PAGE_UP},   {" ", MOVE_PAGE_DOWN}, {"f", MOVE_PAGE_DOWN}, {"\033[6~", MOVE_PAGE_DOWN},
        {"\033[H", MOVE_TOP},  {"\033OH", MOVE_TOP},  {"\033[1~", MOVE_TOP}, {"g", MOVE_TOP},
        {"\033[F", MOVE_END},  {"\033OF", MOVE_END},  {"\033[4~", MOVE_END}, {"G", MOVE_END},
        {"q", MOVE_QUIT},      {"Q", MOVE_QUIT},
};

/* The key at *text, which moves on behind it. */
static enum move next_key(const char **text)
{
        for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++) {
                size_t length = strlen(keys[i].bytes);

                if (!strncmp(*text, keys[i].bytes, length)) {
                        *text += length;
                        return keys[i].move;
                }
        }
        ++*text;
        return MOVE_NONE;
}

static void scroll(struct view *view, enum move move)
{
        size_t step = move == MOVE_PAGE_UP || move == MOVE_PAGE_DOWN ? view->page : 1;

        if (move == MOVE_UP || move == MOVE_PAGE_UP)
                view->first = view->first > step ? view->first - step : 0;
        else if (move == MOVE_DOWN || move == MOVE_PAGE_DOWN)
                view->first += step;
        else if (move == MOVE_TOP)
                view->first = 0;
        else if (move == MOVE_END)
                view->first = view->snapshot.count;
        keep_within(view);
}

/* False: q, or the terminal is gone. */
static bool read_keys(struct view *view)
{
        char typed[64];
        ssize_t got = read(STDIN_FILENO, typed, sizeof(typed) - 1);
        const char *text = typed;

        if (got <= 0)
                return false;
        typed[got] = 0;
        while (*text) {
                enum move move = next_key(&text);

                if (move == MOVE_QUIT)
                        return false;
                scroll(view, move);
        }
        return true;
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

/* False: *signal ends us. */
static bool take_signals(struct signals *signals, bool live, int *signal)
{
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

/* Until the next snapshot is due. False: it is time to go, by q or by *signal. */
static bool pause_for(struct signals *signals, struct view *view, bool live, int *signal)
{
        struct pollfd fds[] = {{.fd = signals->fd, .events = POLLIN},
                               {.fd = live ? STDIN_FILENO : -1, .events = POLLIN}};
        int64_t until = now_ns() + request.interval_ms * INT64_C(1000000);
        int64_t left_ms;

        while ((left_ms = (until - now_ns() + 999999) / 1000000) > 0) {
                if (poll(fds, 2, (int)(left_ms < INT32_MAX ? left_ms : INT32_MAX)) <= 0)
                        continue;
                if ((fds[1].revents && !read_keys(view)) || !take_signals(signals, live, signal))
                        return false;
                if (live)
                        draw(view);
        }
        return true;
}

static int show_once(struct view *view, bool live)
{
        int code;

        snapshot_free(&view->snapshot);
        code = snapshot_take(view->client, &view->snapshot);
        if (code == PAWL_OK && live)
                return draw(view);
        if (code == PAWL_OK)
                snapshot_print(view->client, &view->snapshot);
        return code;
}

/* A store that is made meanwhile is shown from the next snapshot on. */
static int watch(struct signals *signals, pawl_client **client, bool live)
{
        struct view view = {.client = *client, .page = 1};
        uint32_t left = request.count ? request.count : live ? UINT32_MAX : 1;
        int signal = 0, status = EXIT_DONE;
        int code = PAWL_OK;

        if (live)
                screen_on();
        do {
                if (!*client)
                        status = client_open_to_look(client);
                view.client = *client;
                if (status == EXIT_DONE)
                        code = show_once(&view, live);
        } while (status == EXIT_DONE && code == PAWL_OK && --left && pause_for(signals, &view, live, &signal));
        if (live)
                screen_off();
        snapshot_free(&view.snapshot);
        if (status != EXIT_DONE)
                return status;
        return signal && signal_ends(signal) ? EXIT_SIGNAL + signal : fail_of_client(*client, code);
}

/* A terminal that does not know how to move the cursor, as in an editor, would show the commands for that as text. */
static bool has_screen(void)
{
        const char *terminal = getenv("TERM");

        return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !(terminal && !strcmp(terminal, "dumb"));
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        struct signals signals;
        pawl_client *client = NULL;
        int status;

        if (!options_read(command, options, argc, argv, &arguments, &status))
                return status;
        if (!signals_begin(&signals))
                return EXIT_FAILED;
        status = client_open_to_look(&client);
        if (status != EXIT_DONE)
                return status;
        status = watch(&signals, &client, has_screen() && !settings.json);
        pawl_close(client);
        return status;
}

const struct command cmd_top = {
        .name = "top",
        .arguments = "",
        .summary = "who holds what, live; q ends it, arrows and PgUp, PgDn scroll",
        .details = "Without a terminal one snapshot is printed, or --count of them.",
        .flags = COMMAND_ENGINE | COMMAND_JSON,
        .run = run,
};
