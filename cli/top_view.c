/* top_view.c - what the screen of `pawl top` is about, and what the keys change of that. */
#include <stdlib.h>
#include <string.h>

#include "top.h"

/* ---- the list ----------------------------------------------------------------------------------------------------- */

static const struct row *row_at(const struct view *view, size_t index)
{
        return index < view->shown_count ? view->shown[index] : NULL;
}

/* The cursor stays on its row, or on another holder of that lock, wherever they are now. */
static void find_chosen(struct view *view)
{
        size_t found = view->shown_count;

        for (size_t i = 0; *view->chosen && i < view->shown_count; i++) {
                const struct pawl_entry *entry = &view->shown[i]->entry;

                if (strcmp(entry->name, view->chosen) != 0)
                        continue;
                if (found == view->shown_count || entry->token == view->chosen_token)
                        found = i;
        }
        if (found < view->shown_count)
                view->cursor = found;
}

static void choose(struct view *view)
{
        const struct row *row = row_at(view, view->cursor);

        *view->chosen = 0;
        if (!row || !view->cursor)
                return; /* at the top it stays at the top */
        snprintf(view->chosen, sizeof(view->chosen), "%s", row->entry.name);
        view->chosen_token = row->entry.token;
}

/* The rows that pass the filter, in their order. Without memory none is shown. */
static void arrange(struct view *view)
{
        free(view->shown);
        view->shown = rows_arranged(&view->list, view->filter, view->order, view->reverse, &view->shown_count);
        find_chosen(view);
        view_clamp(view);
}

void view_clamp(struct view *view)
{
        size_t room = view->room ? view->room : 1, last;

        if (view->page == PAGE_LIST) {
                view->lines = view->shown_count;
                if (view->cursor >= view->lines)
                        view->cursor = view->lines ? view->lines - 1 : 0;
                if (view->first > view->cursor)
                        view->first = view->cursor;
                if (view->cursor >= view->first + room)
                        view->first = view->cursor + 1 - room;
        }
        last = view->lines > room ? view->lines - room : 0; /* the last screen is full */
        if (view->first > last)
                view->first = last;
}

/* ---- answers ------------------------------------------------------------------------------------------------------ */

const char *view_question(const struct view *view)
{
        bool of_one = view->page == PAGE_LOCK || (view->page == PAGE_HELP && view->page_behind == PAGE_LOCK);

        return of_one ? view->lock.name : "";
}

static void keep_list(struct view *view, struct snapshot *answer)
{
        snapshot_remember(answer, &view->list);
        snapshot_free(&view->list);
        view->list = *answer;
        arrange(view);
}

void view_answer(struct view *view, struct snapshot *answer)
{
        bool is_lock = *answer->name && !strcmp(answer->name, view->lock.name);

        if (answer->code != PAWL_OK) {
                if (!view->silent_since_ms)
                        view->silent_since_ms = answer->at_ms;
                view->why = answer->why;
                if (view->why.code != answer->code)
                        snprintf(view->why.text, sizeof(view->why.text), "%s", pawl_strerror(answer->code));
                snapshot_free(answer);
                return;
        }
        view->silent_since_ms = 0;
        if (!*answer->name) {
                keep_list(view, answer);
        } else if (is_lock) {
                snapshot_free(&view->lock);
                view->lock = *answer;
        } else {
                snapshot_free(answer); /* of a page that was left */
        }
}

void view_end(struct view *view)
{
        free(view->shown);
        snapshot_free(&view->list);
        snapshot_free(&view->lock);
}

/* ---- moving ------------------------------------------------------------------------------------------------------- */

enum move { MOVE_UP, MOVE_DOWN, MOVE_PAGE_UP, MOVE_PAGE_DOWN, MOVE_TOP, MOVE_END };

static void move_in(size_t *at, enum move move, size_t page, size_t end)
{
        size_t step = move == MOVE_PAGE_UP || move == MOVE_PAGE_DOWN ? page : 1;

        if (move == MOVE_TOP)
                *at = 0;
        else if (move == MOVE_END)
                *at = end;
        else if (move == MOVE_UP || move == MOVE_PAGE_UP)
                *at = *at > step ? *at - step : 0;
        else
                *at += step;
}

/* A page of the list takes its first line along, so that nothing is passed over. */
static void move_cursor(struct view *view, enum move move)
{
        if (move == MOVE_PAGE_UP || move == MOVE_PAGE_DOWN)
                move_in(&view->first, move, view->room, view->lines);
        move_in(&view->cursor, move, view->room, view->lines);
        view_clamp(view);
        choose(view);
}

static bool move_key(struct view *view, int key)
{
        static const struct {
                int key;
                enum move move;
        } moves[] = {
                {KEY_UP, MOVE_UP},
                {'k', MOVE_UP},
                {KEY_DOWN, MOVE_DOWN},
                {'j', MOVE_DOWN},
                {KEY_HOME, MOVE_TOP},
                {'g', MOVE_TOP},
                {KEY_END, MOVE_END},
                {'G', MOVE_END},
                {'b', MOVE_PAGE_UP},
                {KEY_PAGE_UP, MOVE_PAGE_UP},
                {KEY_PAGE_DOWN, MOVE_PAGE_DOWN},
                {' ', MOVE_PAGE_DOWN},
                {'f', MOVE_PAGE_DOWN},
        };

        for (size_t i = 0; i < sizeof(moves) / sizeof(moves[0]); i++) {
                if (moves[i].key != key)
                        continue;
                if (view->page == PAGE_LIST)
                        move_cursor(view, moves[i].move);
                else
                        move_in(&view->first, moves[i].move, view->room, view->lines);
                view_clamp(view);
                return true;
        }
        return false;
}

/* ---- the filter ---------------------------------------------------------------------------------------------------- */

static bool is_first_byte(char byte)
{
        return ((unsigned char)byte & 0xc0) != 0x80;
}

static void drop_character(char *text)
{
        size_t length = strlen(text);

        while (length && !is_first_byte(text[length - 1]))
                length--;
        text[length ? length - 1 : 0] = 0;
}

static void type(struct view *view, int key)
{
        size_t length = strlen(view->filter);

        if (key == '\n' || key == '\r') {
                view->typing = false;
        } else if (key == KEY_ESCAPE) {
                view->typing = false;
                memcpy(view->filter, view->filter_before, sizeof(view->filter));
        } else if (key == 0x7f || key == '\b') {
                drop_character(view->filter);
        } else if (key == 0x15) { /* ^U */
                view->filter[0] = 0;
        } else if (key >= ' ' && key < 256 && length < FILTER_MAX) {
                view->filter[length] = (char)key;
                view->filter[length + 1] = 0;
        }
        arrange(view);
}

static void type_filter(struct view *view)
{
        view->typing = true;
        memcpy(view->filter_before, view->filter, sizeof(view->filter));
}

/* ---- keys ---------------------------------------------------------------------------------------------------------- */

static void turn_to(struct view *view, enum page page)
{
        view->page = page;
        view->first = 0;
        view_clamp(view);
}

static void open_help(struct view *view)
{
        view->page_behind = view->page;
        turn_to(view, PAGE_HELP);
}

static void open_lock(struct view *view)
{
        const struct row *row = row_at(view, view->cursor);

        if (!row)
                return;
        snapshot_free(&view->lock);
        snprintf(view->lock.name, sizeof(view->lock.name), "%s", row->entry.name);
        turn_to(view, PAGE_LOCK);
}

static void go_back(struct view *view)
{
        if (view->page == PAGE_HELP) {
                turn_to(view, view->page_behind);
        } else if (view->page == PAGE_LOCK) {
                turn_to(view, PAGE_LIST);
        } else {
                view->filter[0] = 0;
                arrange(view);
        }
}

static void sort_by(struct view *view, enum order order)
{
        view->order = order;
        view->reverse = false;
        arrange(view);
}

static void list_key(struct view *view, int key)
{
        static const char by[] = "wnotl"; /* in the order of enum order */
        const char *order = strchr(by, key);

        if (order)
                sort_by(view, (enum order)(order - by));
        else if (key == 's')
                sort_by(view, (view->order + 1) % ORDERS);
        else if (key == 'r')
                view->reverse = !view->reverse, arrange(view);
        else if (key == '/')
                type_filter(view);
        else if (key == '\n' || key == '\r')
                open_lock(view);
}

bool view_key(struct view *view, int key)
{
        if (view->typing && view->page == PAGE_LIST)
                type(view, key);
        else if (key == 'q' || key == 'Q')
                return false;
        else if (key == KEY_ESCAPE)
                go_back(view);
        else if ((key == '?' || key == 'h') && view->page != PAGE_HELP)
                open_help(view);
        else if (!move_key(view, key) && view->page == PAGE_LIST && key < 256)
                list_key(view, key);
        return true;
}
