/* top_frame.c - a screen that is being written, line by line: nothing is wider than it, and what came from others is
 * escaped. */
#include <stdarg.h>
#include <string.h>

#include "top.h"

void set_style(struct frame *frame, enum style style)
{
        static const char *const codes[] = {"", ";1", ";2", ";33", ";31", ";1;31"};
        bool is_colour = style > STYLE_HEAD;

        fprintf(frame->out, "\033[0%s%sm", frame->selected ? ";7" : "",
                is_colour && !frame->colours ? "" : codes[style]);
}

/* As much of an escaped text as there is room for. */
void put(struct frame *frame, const char *text)
{
        size_t columns, bytes;

        for (; *text; text += bytes) {
                bytes = character_at(text, &columns);
                if (frame->used + columns > frame->width)
                        return;
                frame->used += columns;
                fwrite(text, 1, bytes, frame->out);
        }
}

void put_blanks(struct frame *frame, size_t count)
{
        for (; count && frame->used < frame->width; count--, frame->used++)
                fputc(' ', frame->out);
}

/* What came from others. */
void put_foreign(struct frame *frame, const char *text, size_t width)
{
        char escaped[4 * 512 + 1];
        size_t room = frame->width - frame->used;

        escape_for_terminal(text, escaped, sizeof(escaped));
        frame->used += put_shortened(frame->out, escaped, width < room ? width : room);
}

void put_format(struct frame *frame, const char *format, ...)
{
        char text[256];
        va_list list;

        va_start(list, format);
        vsnprintf(text, sizeof(text), format, list);
        va_end(list);
        put(frame, text);
}

/* A full line is not erased to its end: the cursor is still on its last column then. */
void line_ends(struct frame *frame)
{
        fputs("\033[0m", frame->out);
        if (frame->used < frame->width)
                fputs("\033[K", frame->out);
        frame->used = 0;
        frame->selected = false;
}

void next_line(struct frame *frame)
{
        line_ends(frame);
        fputs("\r\n", frame->out);
        frame->line++;
}

/* ---- tables ------------------------------------------------------------------------------------------------------- */

static void put_cell(struct frame *frame, const char *text, size_t width, bool right)
{
        size_t natural = width_of(text), columns = natural < width ? natural : width;

        if (right)
                put_blanks(frame, width - columns);
        if (frame->used + width <= frame->width)
                columns = put_shortened(frame->out, text, width);
        else
                columns = put_shortened(frame->out, text, frame->width - frame->used);
        frame->used += columns;
        if (!right && columns < width)
                put_blanks(frame, width - columns);
}

void put_row(struct frame *frame, const struct table *table, const struct column *columns, const size_t *widths,
             size_t row, cell_style *style_of, const void *arg)
{
        bool any = false;

        for (size_t column = 0; column < table->columns; column++) {
                size_t at = row * table->columns + column;
                const char *text = at < table->cells && table->cell[at] ? table->cell[at] : "";

                if (!widths[column])
                        continue;
                if (any)
                        put_blanks(frame, COLUMN_GAP);
                any = true;
                set_style(frame, style_of(column, arg));
                put_cell(frame, text, widths[column], columns[column].right);
                set_style(frame, STYLE_PLAIN);
        }
        if (frame->selected)
                put_blanks(frame, frame->width - frame->used);
}
