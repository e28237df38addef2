/* columns.c - a table on a screen that may be too narrow for it: first long texts are shortened in the middle, where names
 * of one kind differ least, then whole columns are left out, the least important first. */
#include "cli.h"

/* ---- how wide --------------------------------------------------------------------------------------------------- */

struct layout {
        const struct column *columns;
        size_t count;
        size_t natural[COLUMNS_MAX]; /* the widest cell */
        bool present[COLUMNS_MAX];
};

static void measure(struct layout *layout, const struct table *table)
{
        bool filled[COLUMNS_MAX] = {false};

        for (size_t i = 0; i < table->cells; i++) {
                size_t column = i % table->columns, width = width_of(table->cell[i]);

                if (width > layout->natural[column])
                        layout->natural[column] = width;
                filled[column] |= i >= table->columns && width > 0;
        }
        for (size_t column = 0; column < layout->count; column++) {
                const struct column *how = &layout->columns[column];

                layout->present[column] = filled[column] || !how->leaves;
                if (layout->natural[column] < how->steady)
                        layout->natural[column] = how->steady;
        }
}

/* What a column must have; wanted: before a less important one may stay. */
static size_t least_of(const struct layout *layout, size_t column, bool wanted)
{
        const struct column *how = &layout->columns[column];
        size_t least = wanted ? how->wanted : how->least;

        return how->least && least < layout->natural[column] ? least : layout->natural[column];
}

static size_t needed(const struct layout *layout, bool wanted)
{
        size_t sum = 0;

        for (size_t column = 0; column < layout->count; column++)
                if (layout->present[column])
                        sum += least_of(layout, column, wanted) + (sum ? COLUMN_GAP : 0);
        return sum;
}

/* The column that leaves next; layout->count: the others must stay. */
static size_t next_to_leave(const struct layout *layout)
{
        size_t next = layout->count;

        for (size_t column = 0; column < layout->count; column++) {
                const struct column *how = &layout->columns[column];

                if (!layout->present[column] || !how->leaves)
                        continue;
                if (next == layout->count || how->leaves < layout->columns[next].leaves)
                        next = column;
        }
        return next;
}

/* The first two to leave are for large screens: they must not press the others. */
static void leave_out(struct layout *layout, size_t width)
{
        for (;;) {
                size_t next = next_to_leave(layout);

                if (next == layout->count || needed(layout, layout->columns[next].leaves <= 2) <= width)
                        return;
                layout->present[next] = false;
        }
}

/* Spreads what is left over those that are too short, the first column twice as fast. */
static void widen(const struct layout *layout, size_t left, size_t *widths)
{
        bool more = true;

        while (left && more) {
                more = false;
                for (size_t i = 0; left && i <= layout->count; i++) {
                        size_t column = i == layout->count ? 0 : i;

                        if (!layout->present[column] || widths[column] >= layout->natural[column])
                                continue;
                        widths[column]++;
                        left--;
                        more = true;
                }
        }
}

void table_layout(const struct table *table, const struct column *columns, size_t width, size_t widths[COLUMNS_MAX])
{
        struct layout layout = {.columns = columns, .count = table->columns};
        size_t least;

        measure(&layout, table);
        leave_out(&layout, width);
        for (size_t column = 0; column < layout.count; column++)
                widths[column] = layout.present[column] ? least_of(&layout, column, false) : 0;
        least = needed(&layout, false);
        widen(&layout, width > least ? width - least : 0, widths);
}

/* ---- one cell --------------------------------------------------------------------------------------------------- */

/* The bytes at the beginning of text that take at most that many columns, with the marks that combine with the last. */
static size_t bytes_within(const char *text, size_t width, size_t *used)
{
        size_t at = 0, columns, bytes;

        *used = 0;
        while (text[at] && (bytes = character_at(text + at, &columns), *used + columns <= width)) {
                *used += columns;
                at += bytes;
        }
        return at;
}

/* Where the last characters begin that take at most that many columns. */
static const char *tail_within(const char *text, size_t width)
{
        size_t left = width_of(text), columns, bytes;

        while (*text) {
                bytes = character_at(text, &columns);
                if (left <= width && columns > 0)
                        break;
                left -= columns;
                text += bytes;
        }
        return text;
}

size_t put_shortened(FILE *out, const char *text, size_t width)
{
        size_t used, bytes;
        const char *tail;

        if (width_of(text) <= width || !width) {
                bytes = bytes_within(text, width, &used);
                fwrite(text, 1, bytes, out);
                return used;
        }
        bytes = bytes_within(text, width / 2, &used);
        tail = tail_within(text, (width - 1) / 2);
        fwrite(text, 1, bytes, out);
        fputs("…", out);
        fputs(tail, out);
        return used + 1 + width_of(tail);
}
