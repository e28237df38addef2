/* past.c - see past.h. */
#include "past.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "words.h"

struct past_kept {
        struct list listed;
        struct past_line line; /* its texts are below */
        char name[PAWL_NAME_MAX + 1];
        char owner[PAWL_OWNER_MAX + 1];
        char note[PAWL_NOTE_MAX + 1];
        char by[PAWL_OWNER_MAX + 1]; /* how is broken: who did it, "" if that is not known, and why */
        char reason[PAWL_BREAK_REASON_MAX + 1];
};

static void keep(struct past_kept *kept, const struct past_line *line)
{
        kept->line = *line;
        snprintf(kept->name, sizeof(kept->name), "%s", line->name);
        snprintf(kept->owner, sizeof(kept->owner), "%s", line->owner);
        snprintf(kept->note, sizeof(kept->note), "%s", line->note);
        kept->line.name = kept->name;
        kept->line.owner = kept->owner;
        kept->line.note = kept->note;
        kept->by[0] = kept->reason[0] = '\0';
}

/* ---- writing ---------------------------------------------------------------------------------------------------- */

void past_init(struct past *past)
{
        list_init(&past->lines);
        list_init(&past->spare);
        past->count = 0;
}

static void drop(struct past *past, struct past_kept *kept)
{
        list_remove(&kept->listed);
        past->count--;
        list_append(&past->spare, &kept->listed);
}

static void free_all(struct list *list)
{
        while (!list_empty(list)) {
                struct past_kept *kept = list_first(list, struct past_kept, listed);
                list_remove(&kept->listed);
                free(kept);
        }
}

void past_free(struct past *past)
{
        if (!past->lines.next) /* never begun */
                return;
        free_all(&past->lines);
        free_all(&past->spare);
        past->count = 0;
}

static struct past_kept *find(struct past *past, uint64_t token, const char *name)
{
        for (struct list *at = past->lines.prev; at != &past->lines; at = at->prev) {
                struct past_kept *kept = container_of(at, struct past_kept, listed);
                if (kept->line.token == token && strcmp(kept->name, name) == 0)
                        return kept;
        }
        return NULL;
}

static struct past_kept *new_kept(struct past *past)
{
        struct past_kept *kept;

        if (list_empty(&past->spare))
                return malloc(sizeof(*kept));
        kept = list_first(&past->spare, struct past_kept, listed);
        list_remove(&kept->listed);
        return kept;
}

void past_note(struct past *past, const struct past_line *line)
{
        struct past_kept *kept = find(past, line->token, line->name);

        if (kept) {
                if (line->how > kept->line.how)
                        keep(kept, line);
                return;
        }
        if (past->count == PAST_LINES)
                drop(past, list_first(&past->lines, struct past_kept, listed));
        kept = new_kept(past);
        if (!kept)
                return;
        keep(kept, line);
        list_append(&past->lines, &kept->listed);
        past->count++;
}

static size_t write_line(const struct past_line *line, char *out)
{
        char name[3 * PAWL_NAME_MAX + 1], owner[3 * PAWL_OWNER_MAX + 1], note[3 * PAWL_NOTE_MAX + 1];

        words_encode(line->name, PAWL_NAME_MAX, name);
        words_encode(line->owner, PAWL_OWNER_MAX, owner);
        words_encode(line->note, PAWL_NOTE_MAX, note);
        return (size_t)snprintf(out, PAST_LINE_MAX,
                                "%" PRIu64 " %" PRIu32 " %" PRId64 " %" PRId64 " %" PRIu32 " %" PRIu32 " %s %s %s\n",
                                line->token, line->how, line->since_ms > 0 ? line->since_ms : 0,
                                line->until_ms > 0 ? line->until_ms : 0, line->mode, line->limit, name, owner, note);
}

static size_t write_broken(const char *by, const char *reason, char *out)
{
        char who[3 * PAWL_OWNER_MAX + 1], why[3 * PAWL_BREAK_REASON_MAX + 1];

        words_encode(by, PAWL_OWNER_MAX, who);
        words_encode(reason, PAWL_BREAK_REASON_MAX, why);
        return (size_t)snprintf(out, PAST_LINE_MAX, "broken %s %s\n", who, why);
}

/* by: NULL if there is no such line. */
static char *write_all(struct past *past, const char *by, const char *reason, size_t *size)
{
        char *text = past->count ? malloc((past->count + 1) * PAST_LINE_MAX) : NULL, *shorter;

        *size = 0;
        if (!text)
                return NULL;
        while (!list_empty(&past->lines)) {
                struct past_kept *kept = list_first(&past->lines, struct past_kept, listed);
                *size += write_line(&kept->line, text + *size);
                drop(past, kept);
        }
        if (by)
                *size += write_broken(by, reason, text + *size);
        shorter = realloc(text, *size);
        return shorter ? shorter : text;
}

char *past_write(struct past *past, size_t *size)
{
        return write_all(past, NULL, NULL, size);
}

char *past_write_broken(struct past *past, const char *by, const char *reason, size_t *size)
{
        return write_all(past, by, reason, size);
}

/* ---- reading ---------------------------------------------------------------------------------------------------- */

static bool read_line(const char *text, size_t size, struct past_kept *kept)
{
        struct words words = {.at = text, .end = text + size};
        uint64_t numbers[6];
        static const uint64_t most[6] = {INT64_MAX, PAWL_HOW_BROKEN, INT64_MAX, INT64_MAX, PAWL_SHARED, UINT32_MAX};

        for (size_t i = 0; i < 6; i++) {
                if (!words_number(&words, 10, most[i], &numbers[i]))
                        return false;
        }
        if (numbers[0] == 0 || !words_text(&words, PAWL_NAME_MAX, kept->name) ||
            !words_text(&words, PAWL_OWNER_MAX, kept->owner) || !words_text(&words, PAWL_NOTE_MAX, kept->note) ||
            !words_end(&words))
                return false;
        kept->line = (struct past_line){.token = numbers[0],
                                        .how = (uint32_t)numbers[1],
                                        .since_ms = (int64_t)numbers[2],
                                        .until_ms = (int64_t)numbers[3],
                                        .mode = (uint32_t)numbers[4],
                                        .limit = (uint32_t)numbers[5],
                                        .name = kept->name,
                                        .owner = kept->owner,
                                        .note = kept->note};
        return true;
}

static int add(struct past_view *view, const struct past_kept *kept)
{
        struct past_kept *copy;

        if (view->count == view->room) {
                size_t room = view->room ? 2 * view->room : 32;
                struct past_kept **lines = realloc(view->lines, room * sizeof(struct past_kept *));
                if (!lines)
                        return PAWL_NO_MEMORY;
                view->lines = lines;
                view->room = room;
        }
        copy = malloc(sizeof(*copy));
        if (!copy)
                return PAWL_NO_MEMORY;
        keep(copy, &kept->line);
        view->lines[view->count++] = copy;
        return PAWL_OK;
}

static bool read_broken(const char *text, size_t size, struct past_kept *kept)
{
        struct words words = {.at = text, .end = text + size};

        return words_is(&words, "broken") && words_text(&words, PAWL_OWNER_MAX, kept->by) &&
               words_text(&words, PAWL_BREAK_REASON_MAX, kept->reason) && words_end(&words);
}

/* Who broke them is said behind them. */
static void add_broken(struct past_view *view, size_t from, const struct past_kept *broken)
{
        for (size_t i = from; i < view->count; i++) {
                struct past_kept *kept = view->lines[i];

                if (kept->line.how != PAWL_HOW_BROKEN)
                        continue;
                memcpy(kept->by, broken->by, sizeof(kept->by));
                memcpy(kept->reason, broken->reason, sizeof(kept->reason));
        }
}

int past_read(struct past_view *view, const char *text, size_t size, const char *name)
{
        struct past_kept kept;
        const char *end = size ? text + size : text;
        size_t from = view->count;

        /* No batch of ours has more lines: who writes a longer one cannot make us take more memory for it. */
        for (size_t lines = 0; text < end && lines <= PAST_LINES; lines++) {
                const char *stop = memchr(text, '\n', (size_t)(end - text));
                size_t length = (size_t)((stop ? stop : end) - text);

                if (read_broken(text, length, &kept))
                        add_broken(view, from, &kept);
                else if (lines < PAST_LINES && read_line(text, length, &kept) && strcmp(kept.name, name) == 0 &&
                         add(view, &kept) != PAWL_OK)
                        return PAWL_NO_MEMORY;
                text = stop ? stop + 1 : end;
        }
        return PAWL_OK;
}

bool past_awaits_end(const struct past_view *view, bool (*holds)(void *arg, uint64_t token), void *arg)
{
        uint64_t latest = 0;
        bool ended = true;

        for (size_t i = 0; i < view->count; i++) {
                const struct past_line *line = &view->lines[i]->line;
                if (line->token > latest) {
                        latest = line->token;
                        ended = false;
                }
                ended = ended || (line->token == latest && line->how != 0);
        }
        return !ended && !holds(arg, latest);
}

/* The latest first; of one token the end before its beginning, and who broke it knows best how it ended. */
static int latest_first(const void *a, const void *b)
{
        const struct past_kept *left = *(struct past_kept *const *)a, *right = *(struct past_kept *const *)b;
        const struct past_line *one = &left->line, *other = &right->line;

        if (one->token != other->token)
                return one->token > other->token ? -1 : 1;
        if (one->how != other->how)
                return one->how > other->how ? -1 : 1;
        return (*right->by != '\0') - (*left->by != '\0');
}

static void tell(struct inquiry *inquiry, const struct past_kept *kept, int64_t until_ms)
{
        const struct past_line *line = &kept->line;
        struct pawl_entry entry = {.name = line->name,
                                   .owner = line->owner,
                                   .note = line->note,
                                   .token = line->token,
                                   .since_ms = line->since_ms,
                                   .until_ms = line->how ? line->until_ms : until_ms,
                                   .role = PAWL_ROLE_PAST,
                                   .how = line->how ? line->how : PAWL_HOW_EXPIRED,
                                   .mode = line->mode,
                                   .max_holders = line->limit,
                                   .broken_by = kept->by,
                                   .reason = kept->reason};

        if (entry.until_ms < entry.since_ms)
                entry.until_ms = entry.since_ms;
        inquiry->entry(inquiry, &entry);
}

void past_tell(struct past_view *view, struct inquiry *inquiry, bool (*holds)(void *arg, uint64_t token), void *arg,
               int64_t now_ms)
{
        uint64_t last = 0;
        int64_t next_since = now_ms; /* when the one after it began: by then it had ended */

        if (view->count)
                qsort(view->lines, view->count, sizeof(struct past_kept *), latest_first);
        for (size_t i = 0; i < view->count; i++) {
                const struct past_line *line = &view->lines[i]->line;
                if (line->token == last)
                        continue;
                last = line->token;
                if (!(line->how == 0 && holds(arg, line->token)))
                        tell(inquiry, view->lines[i], next_since);
                next_since = line->since_ms;
        }
        past_view_free(view);
}

void past_view_free(struct past_view *view)
{
        for (size_t i = 0; i < view->count; i++)
                free(view->lines[i]);
        free(view->lines);
        *view = (struct past_view){0};
}
