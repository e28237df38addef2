/* print.c - tables for people and JSON for programs. What is printed came from others: a terminal must show it and obey
 * nothing in it. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli.h"

/* ---- text ------------------------------------------------------------------------------------------------------ */

/* The length of the UTF-8 sequence at text and its code point; 0 if it is not one. */
static size_t utf8_at(const unsigned char *text, uint32_t *point)
{
        static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
        size_t length = text[0] < 0x80       ? 1
                        : text[0] >> 5 == 6  ? 2
                        : text[0] >> 4 == 14 ? 3
                        : text[0] >> 3 == 30 ? 4
                                             : 0;

        if (length < 2) {
                *point = text[0];
                return length;
        }
        *point = text[0] & (0xffu >> (length + 1));
        for (size_t i = 1; i < length; i++) {
                if ((text[i] & 0xc0) != 0x80)
                        return 0;
                *point = *point << 6 | (text[i] & 0x3fu);
        }
        if (*point < least[length] || *point > 0x10ffff || (*point >= 0xd800 && *point < 0xe000))
                return 0;
        return length;
}

size_t character_at(const char *text, size_t *columns)
{
        uint32_t point;
        size_t length = utf8_at((const unsigned char *)text, &point);

        *columns = length ? columns_of(point) : 1;
        return length ? length : 1;
}

/* Controls, and what turns the direction of the text around (the line would lie about its order). */
static bool is_harmless(uint32_t point)
{
        if (point < 0x20 || (point >= 0x7f && point < 0xa0))
                return false;
        return !(point == 0x200e || point == 0x200f || (point >= 0x2028 && point <= 0x202e) ||
                 (point >= 0x2066 && point <= 0x2069));
}

size_t escape_for_terminal(const char *text, char *out, size_t size)
{
        const unsigned char *byte = (const unsigned char *)text;
        size_t columns = 0;

        while (*byte) {
                uint32_t point;
                size_t length = utf8_at(byte, &point);
                bool shown = length && is_harmless(point);
                size_t bytes = length ? length : 1;
                size_t need = shown ? bytes : 4 * bytes;

                if (need + 1 > size)
                        break;
                for (size_t i = 0; i < bytes; i++)
                        out += shown ? (*out = (char)byte[i], 1) : sprintf(out, "\\x%02x", byte[i]);
                columns += shown ? 1 : need;
                size -= need;
                byte += bytes;
        }
        *out = 0;
        return columns;
}

const char *role_text(uint32_t role)
{
        static const char *const texts[] = {"?", "holder", "waiter", "past", "free"};

        return role <= PAWL_ROLE_FREE ? texts[role] : texts[0];
}

const char *mode_text(const struct pawl_entry *entry, char *buffer, size_t size)
{
        if (entry->mode == PAWL_EXCLUSIVE)
                return "exclusive";
        if (!entry->max_holders)
                return "shared";
        snprintf(buffer, size, "shared, at most %u", entry->max_holders);
        return buffer;
}

/* ---- tables ---------------------------------------------------------------------------------------------------- */

void table_begin(struct table *table, size_t columns)
{
        *table = (struct table){.columns = columns};
}

/* Takes text over. Without memory the cell is empty: a listing is no place to fail. */
static void table_add(struct table *table, char *text)
{
        if (table->cells == table->room) {
                size_t room = table->room ? 2 * table->room : 64;
                char **cell = realloc(table->cell, room * sizeof(*cell));

                if (!cell) {
                        free(text);
                        return;
                }
                table->cell = cell;
                table->room = room;
        }
        table->cell[table->cells++] = text;
}

void table_cell(struct table *table, const char *format, ...)
{
        char *text;
        va_list list;

        va_start(list, format);
        if (vasprintf(&text, format, list) < 0)
                text = NULL;
        va_end(list);
        table_add(table, text);
}

void table_text(struct table *table, const char *text)
{
        size_t size = 4 * strlen(text) + 1;
        char *escaped = malloc(size);

        if (escaped)
                escape_for_terminal(text, escaped, size);
        table_add(table, escaped);
}

size_t width_of(const char *text)
{
        size_t width = 0, columns;

        for (; text && *text; width += columns)
                text += character_at(text, &columns);
        return width;
}

static size_t column_width(const struct table *table, size_t column)
{
        size_t widest = 0;

        for (size_t i = column; i < table->cells; i += table->columns) {
                size_t width = width_of(table->cell[i]);

                widest = width > widest ? width : widest;
        }
        return widest;
}

static int compare_rows(const void *a, const void *b)
{
        const char *left = *(char *const *)a, *right = *(char *const *)b;

        return strcmp(left ? left : "", right ? right : "");
}

void table_sort(struct table *table)
{
        size_t rows = table->cells / table->columns;

        if (rows > 1)
                qsort(table->cell + table->columns, rows - 1, table->columns * sizeof(*table->cell), compare_rows);
}

static bool is_empty(const struct table *table, size_t i)
{
        return i >= table->cells || !table->cell[i] || !*table->cell[i];
}

void table_print(const struct table *table, FILE *out)
{
        size_t width[16] = {0};

        for (size_t column = 0; column < table->columns && column < 16; column++)
                width[column] = column_width(table, column);
        for (size_t i = 0; i < table->cells; i++) {
                size_t column = i % table->columns;
                const char *text = table->cell[i] ? table->cell[i] : "";

                fputs(text, out);
                if (column + 1 == table->columns)
                        fputc('\n', out);
                else if (column + 2 < table->columns || !is_empty(table, i + 1))
                        fprintf(out, "%*s", (int)(width[column] - width_of(text) + 2), "");
        }
}

void table_end(struct table *table)
{
        for (size_t i = 0; i < table->cells; i++)
                free(table->cell[i]);
        free(table->cell);
        *table = (struct table){0};
}

/* ---- JSON ------------------------------------------------------------------------------------------------------ */

static bool json_comma; /* something stands before, at this level */

static void json_bytes_of(FILE *out, const char *text, size_t size)
{
        const unsigned char *byte = (const unsigned char *)text;
        const unsigned char *end = byte + size;

        fputc('"', out);
        while (byte < end) {
                uint32_t point = 0;
                size_t length = *byte ? utf8_at(byte, &point) : 1;

                if (!length)
                        fputs("\\ufffd", out);
                else if (point == '"' || point == '\\')
                        fprintf(out, "\\%c", (int)point);
                else if (point < 0x10000 && !is_harmless(point))
                        fprintf(out, "\\u%04x", point);
                else
                        fwrite(byte, 1, length, out);
                byte += length ? length : 1;
        }
        fputc('"', out);
}

static void json_string(FILE *out, const char *text)
{
        json_bytes_of(out, text, strlen(text));
}

static void json_key(FILE *out, const char *key)
{
        if (json_comma)
                fputc(',', out);
        json_comma = true;
        if (key) {
                json_string(out, key);
                fputc(':', out);
        }
}

void json_open(FILE *out, const char *key, char bracket)
{
        json_key(out, key);
        fputc(bracket, out);
        json_comma = false;
}

void json_close(FILE *out, char bracket)
{
        fputc(bracket, out);
        json_comma = true;
}

void json_text(FILE *out, const char *key, const char *text)
{
        json_key(out, key);
        if (text)
                json_string(out, text);
        else
                fputs("null", out);
}

void json_bytes(FILE *out, const char *key, const char *bytes, size_t size)
{
        json_key(out, key);
        json_bytes_of(out, bytes, size);
}

void json_number(FILE *out, const char *key, int64_t number)
{
        json_key(out, key);
        fprintf(out, "%lld", (long long)number);
}

/* A string: what reads numbers as doubles (jq, JavaScript) would round one above 2^53, and two holders would look alike. */
void json_token(FILE *out, const char *key, uint64_t token)
{
        json_key(out, key);
        if (token)
                fprintf(out, "\"%llu\"", (unsigned long long)token);
        else
                fputs("null", out);
}

/* "2026-11-19T04:22:07.123Z" */
void json_time(FILE *out, const char *key, int64_t unix_ms)
{
        time_t seconds = (time_t)(unix_ms / 1000);
        char text[40], whole[60];
        struct tm tm;

        if (unix_ms <= 0 || !gmtime_r(&seconds, &tm) || !strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%S", &tm)) {
                json_text(out, key, NULL);
                return;
        }
        snprintf(whole, sizeof(whole), "%s.%03dZ", text, (int)(unix_ms % 1000));
        json_text(out, key, whole);
}

void json_flag(FILE *out, const char *key, bool flag)
{
        json_key(out, key);
        fputs(flag ? "true" : "false", out);
}

void json_end(FILE *out)
{
        fputc('\n', out);
        json_comma = false;
}

bool json_interrupt(void)
{
        bool outer = json_comma;

        json_comma = false;
        return outer;
}

void json_resume(bool outer)
{
        json_comma = outer;
}

static void json_left(FILE *out, const char *key, int64_t ends)
{
        int64_t left_ms = (ends - now_ns()) / 1000000;

        if (ends)
                json_number(out, key, left_ms > 0 ? left_ms : 0);
}

void json_holders(FILE *out, const struct holders *holders)
{
        if (!holders->known)
                return;
        if (holders->count) {
                json_open(out, "holder", '{');
                json_text(out, "owner", holders->owner);
                if (holders->token)
                        json_token(out, "token", holders->token);
                json_left(out, "remaining_ms", holders->lease_ends);
                if (holders->since_ms)
                        json_time(out, "since", holders->since_ms);
                json_close(out, '}');
        }
        json_number(out, "holders", holders->count);
        json_number(out, "waiters", holders->waiters);
        if (holders->queued)
                json_number(out, "ahead", holders->ahead);
        if (!holders->count)
                json_left(out, "delay_ms", holders->delay_ends);
}

void json_entry(FILE *out, const struct pawl_entry *entry)
{
        json_open(out, NULL, '{');
        json_text(out, "name", entry->name);
        json_text(out, "role", role_text(entry->role));
        json_text(out, "mode", entry->mode == PAWL_SHARED ? "shared" : "exclusive");
        if (entry->max_holders)
                json_number(out, "max_holders", entry->max_holders);
        json_text(out, "owner", entry->owner);
        json_text(out, "note", entry->note);
        if (entry->token)
                json_token(out, "token", entry->token);
        json_number(out, "remaining_ms", entry->remaining_ms);
        json_time(out, "since", entry->since_ms);
        if (entry->role == PAWL_ROLE_PAST) {
                json_time(out, "until", entry->until_ms);
                json_text(out, "how", pawl_how_text((int)entry->how));
                if (entry->broken_by && *entry->broken_by)
                        json_text(out, "broken_by", entry->broken_by);
                if (entry->reason && *entry->reason)
                        json_text(out, "reason", entry->reason);
        }
        json_number(out, "waiters", entry->waiters);
        json_flag(out, "detached", entry->flags & PAWL_DETACH);
        json_close(out, '}');
}
