/* top_draw.c - the screens of `pawl top`: the list, one lock, the help, and the lines above and below them. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "top.h"

/* ---- tables ------------------------------------------------------------------------------------------------------- */

static enum style head_style(size_t column, const void *arg)
{
        (void)column;
        (void)arg;
        return STYLE_HEAD;
}

static void table_heads(struct table *table, const struct column *columns, size_t count)
{
        table_begin(table, count);
        for (size_t i = 0; i < count; i++)
                table_cell(table, "%s", columns[i].head);
}

/* ---- above and below ---------------------------------------------------------------------------------------------- */

struct counts {
        size_t names, holders, waiters;
};

/* The rows are sorted by name. */
static struct counts count_all(const struct snapshot *list)
{
        struct counts counts = {0};

        for (size_t i = 0; i < list->count; i++) {
                const struct pawl_entry *entry = &list->rows[i].entry;

                counts.holders += entry->role == PAWL_ROLE_HOLDER;
                if (i && !strcmp(entry->name, list->rows[i - 1].entry.name))
                        continue;
                counts.names++;
                counts.waiters += entry->waiters;
        }
        return counts;
}

/* Without what client_open_to_look() adds. */
static size_t shown_length(const char *url)
{
        const char *added = strstr(url, "create=no");

        return added > url && !added[strlen("create=no")] ? (size_t)(added - url) - 1 : strlen(url);
}

static void clock_text(int64_t ms, char *text, size_t size)
{
        time_t seconds = (time_t)(ms / 1000);
        struct tm tm;

        strftime(text, size, "%H:%M:%S", localtime_r(&seconds, &tm));
}

static void draw_title(struct frame *frame, const struct view *view)
{
        struct counts counts = count_all(&view->list);
        char clock[16], rest[96], url[512];
        size_t length = 0, title = strlen("pawl top  ");

        clock_text(unix_ms(), clock, sizeof(clock));
        snprintf(rest, sizeof(rest), "  %s  %zu held, %zu waiting", clock, counts.names, counts.waiters);
        snprintf(url, sizeof(url), "%.*s", (int)shown_length(view->url), view->url);
        length = title + width_of(rest);
        set_style(frame, STYLE_HEAD);
        put(frame, "pawl top");
        set_style(frame, STYLE_PLAIN);
        if (length + 12 < frame->width) {
                put(frame, "  ");
                put_foreign(frame, url, frame->width - length);
        }
        put(frame, rest);
        next_line(frame);
}

/* Its own words come last and are the first to be cut. */
static void draw_trouble(struct frame *frame, const struct view *view)
{
        char age[24];

        set_style(frame, STYLE_WORST);
        put_format(frame, "no answer for %s: ", duration_text(unix_ms() - view->silent_since_ms, age));
        set_style(frame, STYLE_BAD);
        put_foreign(frame, view->why.text, frame->width);
        set_style(frame, STYLE_PLAIN);
}

static void draw_subject(struct frame *frame, const struct view *view)
{
        if (view->page == PAGE_LOCK) {
                put(frame, "lock ");
                put_foreign(frame, view->lock.name, frame->width);
        } else if (view->page == PAGE_LIST) {
                set_style(frame, STYLE_QUIET);
                put_format(frame, "sorted by %s%s", order_text(view->order), view->reverse ? ", reversed" : "");
                if (*view->filter || view->typing) {
                        put(frame, "; only ");
                        put_foreign(frame, view->filter, frame->width);
                }
                set_style(frame, STYLE_PLAIN);
        }
}

static void draw_head(struct frame *frame, const struct view *view)
{
        draw_title(frame, view);
        if (view->silent_since_ms)
                draw_trouble(frame, view);
        else
                draw_subject(frame, view);
        next_line(frame);
}

static const char *foot_text(const struct view *view)
{
        if (view->page == PAGE_LIST)
                return "? help  / filter  s sort  Enter details  q quit";
        return "Esc back  q quit";
}

/* The last line of the screen. */
static void draw_foot(struct frame *frame, const struct view *view, size_t height)
{
        size_t last = view->first + view->room;

        while (frame->line + 1 < height)
                next_line(frame);
        if (view->typing) {
                put(frame, "/");
                put_foreign(frame, view->filter, frame->width > 2 ? frame->width - 2 : 1);
                put(frame, "_");
        } else {
                set_style(frame, STYLE_QUIET);
                if (view->room < view->lines)
                        put_format(frame, "%zu-%zu of %zu  ", view->first + 1, last < view->lines ? last : view->lines,
                                   view->lines);
                put(frame, foot_text(view));
        }
        line_ends(frame);
}

/* ---- the list ------------------------------------------------------------------------------------------------------ */

enum { NAME, STATE, WAIT, HELD, LEFT, TOKEN, OWNER, NOTE, LIST_COLUMNS };
static const struct column list_columns[LIST_COLUMNS] = {
        [NAME] = {"NAME", .least = 12, .wanted = 20},
        [STATE] = {"STATE", .leaves = 7, .steady = 6},
        [WAIT] = {"WAIT", .leaves = 4, .right = true},
        [HELD] = {"HELD", .leaves = 5, .steady = 6, .right = true},
        [LEFT] = {"LEFT", .leaves = 3, .steady = 6, .right = true},
        [TOKEN] = {"TOKEN", .leaves = 2, .right = true},
        [OWNER] = {"OWNER", .leaves = 6, .least = 10, .wanted = 20},
        [NOTE] = {"NOTE", .leaves = 1, .least = 8, .wanted = 16},
};

struct drawn_row {
        const struct row *row;
        const struct snapshot *list;
        enum row_state state;
};

static enum style state_style(enum row_state state)
{
        static const enum style styles[] = {STYLE_QUIET, STYLE_PLAIN, STYLE_WANTED, STYLE_WORST, STYLE_BAD};

        return styles[state];
}

static enum style list_style(size_t column, const void *arg)
{
        const struct drawn_row *row = arg;

        if (column == WAIT && row->row->entry.waiters)
                return row->state == STATE_STUCK ? STYLE_WORST : STYLE_WANTED;
        if (column == HELD && row->state == STATE_STUCK)
                return STYLE_WORST;
        if (column == LEFT && row->state == STATE_ENDING)
                return STYLE_BAD;
        return column == STATE ? state_style(row->state) : STYLE_PLAIN;
}

static void add_number(struct table *table, uint64_t number)
{
        if (number)
                table_cell(table, "%llu", (unsigned long long)number);
        else
                table_cell(table, "-");
}

static void add_time(struct table *table, bool known, int64_t ms)
{
        char text[24];

        table_cell(table, "%s", known ? duration_text(ms > 0 ? ms : 0, text) : "-");
}

static void add_list_row(struct table *table, const struct view *view, const struct row *row)
{
        static const char *const states[] = {"free", "held", "wanted", "stuck", "ending"};
        const struct pawl_entry *entry = &row->entry;
        bool is_held = entry->role != PAWL_ROLE_FREE;
        int64_t left_ms = row_left_ms(row, &view->list);

        table_text(table, entry->name);
        table_cell(table, "%s", states[row_state(row, &view->list, view->stuck_ms)]);
        table_cell(table, "%u", entry->waiters);
        add_time(table, is_held && entry->since_ms, unix_ms() - entry->since_ms);
        add_time(table, left_ms >= 0, left_ms);
        add_number(table, entry->token);
        table_text(table, is_held ? entry->owner : "(nobody)");
        table_text(table, entry->note);
}

static void draw_list(struct frame *frame, struct view *view)
{
        size_t widths[COLUMNS_MAX];
        struct table table;

        table_heads(&table, list_columns, LIST_COLUMNS);
        for (size_t i = 0; i < view->shown_count; i++)
                add_list_row(&table, view, view->shown[i]);
        table_layout(&table, list_columns, frame->width, widths);
        put_row(frame, &table, list_columns, widths, 0, head_style, NULL);
        next_line(frame);
        for (size_t i = view->first; i < view->shown_count && i < view->first + view->room; i++) {
                struct drawn_row row = {.row = view->shown[i], .list = &view->list};

                row.state = row_state(row.row, &view->list, view->stuck_ms);
                frame->selected = i == view->cursor;
                set_style(frame, STYLE_PLAIN);
                put_row(frame, &table, list_columns, widths, i + 1, list_style, &row);
                next_line(frame);
        }
        if (!view->shown_count && view->list.at_ms) {
                put(frame, *view->filter ? "no lock, owner or note contains that" : "nothing is held");
                next_line(frame);
        }
        table_end(&table);
}

/* ---- one lock ------------------------------------------------------------------------------------------------------ */

enum { ROLE, MODE, NUMBER, TIME, END, WHO, WHY, LOCK_COLUMNS };
static const struct column lock_columns[LOCK_COLUMNS] = {
        [ROLE] = {"ROLE", .steady = 8},
        [MODE] = {"MODE", .leaves = 2},
        [NUMBER] = {"TOKEN", .leaves = 3, .right = true},
        [TIME] = {"FOR", .leaves = 4, .steady = 6, .right = true},
        [END] = {"LEASE", .leaves = 5, .steady = 11},
        [WHO] = {"OWNER", .leaves = 6, .least = 10, .wanted = 20},
        [WHY] = {"NOTE", .leaves = 1, .least = 8, .wanted = 16},
};

static enum style lock_style(size_t column, const void *arg)
{
        const struct row *row = arg;

        if (row->entry.role == PAWL_ROLE_PAST)
                return column == END && row->entry.how != PAWL_HOW_RELEASED ? STYLE_BAD : STYLE_QUIET;
        return column == ROLE && row->entry.role == PAWL_ROLE_WAITER ? STYLE_WANTED : STYLE_PLAIN;
}

static void add_lock_end(struct table *table, const struct row *row, const struct snapshot *lock)
{
        const struct pawl_entry *entry = &row->entry;
        int64_t left_ms = row_left_ms(row, lock);
        char text[24];

        if (entry->role == PAWL_ROLE_PAST)
                table_cell(table, "%s %s ago", pawl_how_text((int)entry->how),
                           duration_text(unix_ms() - entry->until_ms, text));
        else if (entry->role == PAWL_ROLE_WAITER || left_ms < 0)
                table_cell(table, "-");
        else
                table_cell(table, "%s left", duration_text(left_ms, text));
}

/* "the note; broken by host:pid:program (the reason)" */
static void add_lock_note(struct table *table, const struct pawl_entry *entry)
{
        char breaker[BREAKER_MAX + 1], text[PAWL_NOTE_MAX + sizeof(breaker) + 16];

        if (!*breaker_text(entry, breaker)) {
                table_text(table, entry->note);
                return;
        }
        snprintf(text, sizeof(text), "%s%sbroken by %s", entry->note, *entry->note ? "; " : "", breaker);
        table_text(table, text);
}

/* place: in the queue, from 1. */
static void add_lock_row(struct table *table, const struct row *row, const struct snapshot *lock, size_t place)
{
        const struct pawl_entry *entry = &row->entry;
        int64_t until_ms = entry->role == PAWL_ROLE_PAST ? entry->until_ms : unix_ms();
        char mode[40];

        if (entry->role == PAWL_ROLE_WAITER)
                table_cell(table, "waiter %zu", place);
        else
                table_cell(table, "%s", role_text(entry->role));
        table_cell(table, "%s", entry->role == PAWL_ROLE_FREE ? "-" : mode_text(entry, mode, sizeof(mode)));
        add_number(table, entry->token);
        add_time(table, entry->since_ms > 0, until_ms - entry->since_ms);
        add_lock_end(table, row, lock);
        table_text(table, entry->owner);
        add_lock_note(table, entry);
}

static void draw_value(struct frame *frame, const struct snapshot *lock)
{
        if (!lock->at_ms)
                put(frame, "...");
        else if (lock->value_code == PAWL_OK)
                put_format(frame, "value: %zu bytes, stored under token %llu", lock->value_size,
                           (unsigned long long)lock->value_token);
        else if (lock->value_code == PAWL_NOT_FOUND)
                put(frame, "value: none");
        else if (lock->value_code == PAWL_UNSUPPORTED)
                put(frame, "value: this engine keeps none");
        else
                put_format(frame, "value: %s", pawl_strerror(lock->value_code));
}

/* Holders, the queue, past owners; the first line is about the value. */
static void draw_lock(struct frame *frame, struct view *view)
{
        const struct snapshot *lock = &view->lock;
        size_t widths[COLUMNS_MAX], place = 0;
        struct table table;

        table_heads(&table, lock_columns, LOCK_COLUMNS);
        for (size_t i = 0; i < lock->count; i++) {
                place += lock->rows[i].entry.role == PAWL_ROLE_WAITER;
                add_lock_row(&table, &lock->rows[i], lock, place);
        }
        table_layout(&table, lock_columns, frame->width, widths);
        draw_value(frame, lock);
        next_line(frame);
        put_row(frame, &table, lock_columns, widths, 0, head_style, NULL);
        for (size_t i = view->first; i < lock->count && i < view->first + view->room; i++) {
                next_line(frame);
                put_row(frame, &table, lock_columns, widths, i + 1, lock_style, &lock->rows[i]);
        }
        if (lock->at_ms && !lock->count) {
                next_line(frame);
                put(frame, "nothing is known of it");
        }
        next_line(frame);
        table_end(&table);
}

/* ---- the help ------------------------------------------------------------------------------------------------------ */

static const char *const help_lines[] = {
        "up down k j    one lock up, down",
        "PgUp PgDn b f  one screen",
        "Home End g G   first, last",
        "Enter          details of a lock",
        "Esc            back; all locks again",
        "/              show what contains a text",
        "               (name, owner, note)",
        "s              sort by the next column",
        "w n o t l      by waiters, name, owner,",
        "               time held, lease left",
        "r              reverse the order",
        "? h            this help",
        "q              quit",
        "",
        "STATE held     nobody waits",
        "      wanted   others wait",
        "      stuck    for long (--stuck)",
        "      ending   the lease is not renewed",
        "      free     waiters or a lock-delay",
};
enum { HELP_LINES = sizeof(help_lines) / sizeof(help_lines[0]) };

static void draw_help(struct frame *frame, const struct view *view)
{
        for (size_t i = view->first; i < HELP_LINES && i < view->first + view->room; i++) {
                put(frame, help_lines[i]);
                next_line(frame);
        }
}

/* ---- the screen ---------------------------------------------------------------------------------------------------- */

/* The lines that are not of the page: title, subject, the heads of columns, the foot. */
static size_t lines_around(enum page page)
{
        static const size_t lines[] = {[PAGE_LIST] = 4, [PAGE_LOCK] = 5, [PAGE_HELP] = 3};

        return lines[page];
}

static void draw_page(struct frame *frame, struct view *view, size_t height)
{
        size_t around = lines_around(view->page);

        view->room = height > around ? height - around : 1;
        view->lines = view->page == PAGE_LIST   ? view->shown_count
                      : view->page == PAGE_LOCK ? view->lock.count
                                                : HELP_LINES;
        view_clamp(view);
        draw_head(frame, view);
        if (view->page == PAGE_LIST)
                draw_list(frame, view);
        else if (view->page == PAGE_LOCK)
                draw_lock(frame, view);
        else
                draw_help(frame, view);
        draw_foot(frame, view, height);
}

/* A screen of fewer lines than belong around the page shows the first of them. */
static const char *end_of_line(const char *text, size_t line)
{
        for (; line; line--) {
                text = strstr(text, "\r\n");
                if (!text)
                        return NULL;
                text += 2;
        }
        return text;
}

void draw(struct view *view, size_t width, size_t height)
{
        struct frame frame = {.width = width, .colours = view->colours};
        char *text = NULL;
        const char *end;
        size_t length;

        frame.out = open_memstream(&text, &length);
        if (!frame.out)
                return; /* the last one stays */
        draw_page(&frame, view, height);
        if (fclose(frame.out) == 0) {
                end = end_of_line(text, height);
                fputs("\033[H", stdout);
                fwrite(text, 1, end ? (size_t)(end - text) - 2 : length, stdout);
                fflush(stdout);
        }
        free(text);
}

/* ---- without a screen ---------------------------------------------------------------------------------------------- */

static void add_plain_row(struct table *table, const struct pawl_entry *entry, int64_t now_ms)
{
        bool is_held = entry->role != PAWL_ROLE_FREE;

        table_text(table, entry->name);
        table_cell(table, "%u", entry->waiters);
        add_time(table, is_held, now_ms - entry->since_ms);
        add_time(table, true, entry->remaining_ms);
        add_number(table, entry->token);
        table_text(table, is_held ? entry->owner : "(nobody)");
}

void draw_plain(const char *url, const struct snapshot *list, const struct row **rows, size_t count)
{
        static const char *const heads[] = {"NAME", "WAITERS", "HELD", "LEFT", "TOKEN", "OWNER"};
        struct counts counts = count_all(list);
        struct table table;
        char clock[16];

        clock_text(list->at_ms, clock, sizeof(clock));
        printf("pawl top  %.*s  %s  %zu held, %zu waiting\n\n", (int)shown_length(url), url, clock, counts.names,
               counts.waiters);
        table_begin(&table, 6);
        for (size_t i = 0; i < 6; i++)
                table_cell(&table, "%s", heads[i]);
        for (size_t i = 0; i < count; i++)
                add_plain_row(&table, &rows[i]->entry, list->at_ms);
        table_print(&table, stdout);
        table_end(&table);
}
