/* top_rows.c - what `pawl top` knows of locks: asking for it, its order, and the state that is read from it. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "top.h"

/* ---- one answer -------------------------------------------------------------------------------------------------- */

static int add_entry(const struct pawl_entry *entry, void *arg)
{
        struct snapshot *snapshot = arg;
        struct row *row;

        if (snapshot->count == snapshot->room) {
                size_t room = snapshot->room ? 2 * snapshot->room : 64;
                struct row *rows = realloc(snapshot->rows, room * sizeof(*rows));

                snapshot->short_of_memory = !rows;
                if (!rows)
                        return 1;
                snapshot->rows = rows;
                snapshot->room = room;
        }
        row = &snapshot->rows[snapshot->count];
        snapshot->short_of_memory = !entry_copy(&row->entry, entry);
        if (snapshot->short_of_memory)
                return 1;
        row->longest_ms = entry->remaining_ms;
        snapshot->count++;
        return 0;
}

void snapshot_free(struct snapshot *snapshot)
{
        for (size_t i = 0; i < snapshot->count; i++)
                entry_free(&snapshot->rows[i].entry);
        free(snapshot->rows);
        *snapshot = (struct snapshot){0};
}

static int compare_leases(const void *a, const void *b)
{
        const struct pawl_entry *left = &((const struct row *)a)->entry;
        const struct pawl_entry *right = &((const struct row *)b)->entry;
        int names = strcmp(left->name, right->name);

        return names ? names : (left->token > right->token) - (left->token < right->token);
}

static void take_value(pawl_client *client, struct snapshot *snapshot)
{
        struct pawl_value value;

        snapshot->value_code = PAWL_UNSUPPORTED;
        if (!(pawl_capabilities(client) & PAWL_CAN_KEEP))
                return;
        snapshot->value_code = pawl_fetch(client, snapshot->name, &value);
        if (snapshot->value_code != PAWL_OK)
                return;
        snapshot->value_size = value.size;
        snapshot->value_token = value.token;
        free(value.data);
}

/* A name of which nothing is known any more is an answer, too. */
static int ask(pawl_client *client, struct snapshot *snapshot)
{
        int code;

        if (!client)
                return PAWL_OK;
        if (!*snapshot->name)
                return pawl_list(client, NULL, add_entry, snapshot);
        code = pawl_show(client, snapshot->name, add_entry, snapshot);
        return code == PAWL_NOT_FOUND ? PAWL_OK : code;
}

void snapshot_take(pawl_client *client, const char *name, struct snapshot *snapshot)
{
        *snapshot = (struct snapshot){.value_code = PAWL_UNSUPPORTED};
        snprintf(snapshot->name, sizeof(snapshot->name), "%s", name);
        snapshot->code = ask(client, snapshot);
        if (snapshot->code != PAWL_OK)
                (void)pawl_explain(client, &snapshot->why);
        if (snapshot->short_of_memory)
                snapshot->code = PAWL_NO_MEMORY;
        snapshot->at_ms = unix_ms();
        if (snapshot->code == PAWL_OK && client && *name)
                take_value(client, snapshot);
        if (!*name && snapshot->count)
                qsort(snapshot->rows, snapshot->count, sizeof(*snapshot->rows), compare_leases);
}

/* Both are lists, and sorted. */
void snapshot_remember(struct snapshot *snapshot, const struct snapshot *before)
{
        size_t old = 0;

        for (size_t i = 0; i < snapshot->count; i++) {
                struct row *row = &snapshot->rows[i];
                int order = -1;

                while (old < before->count && (order = compare_leases(&before->rows[old], row)) < 0)
                        old++;
                if (old < before->count && order == 0 && before->rows[old].longest_ms > row->longest_ms)
                        row->longest_ms = before->rows[old].longest_ms;
        }
}

/* ---- order ------------------------------------------------------------------------------------------------------- */

struct sorting {
        enum order order;
        bool reverse;
};

/* Each by what one wants to see first: the most waiters, the oldest, the lease that ends next. */
static int compare_by(enum order order, const struct pawl_entry *left, const struct pawl_entry *right)
{
        switch (order) {
        case ORDER_WAITERS:
                return (left->waiters < right->waiters) - (left->waiters > right->waiters);
        case ORDER_HOLDER:
                return strcmp(left->owner, right->owner);
        case ORDER_HELD:
                return (left->since_ms > right->since_ms) - (left->since_ms < right->since_ms);
        case ORDER_LEFT:
                return (left->remaining_ms > right->remaining_ms) - (left->remaining_ms < right->remaining_ms);
        default:
                return strcmp(left->name, right->name);
        }
}

static int compare_rows(const void *a, const void *b, void *arg)
{
        const struct row *left = *(const struct row *const *)a, *right = *(const struct row *const *)b;
        const struct sorting *sorting = arg;
        int order = compare_by(sorting->order, &left->entry, &right->entry);

        if (order)
                return sorting->reverse ? -order : order;
        return compare_leases(left, right);
}

const char *order_text(enum order order)
{
        static const char *const texts[ORDERS] = {"waiters", "name", "holder", "held for", "lease left"};

        return texts[order];
}

static bool matches(const struct row *row, const char *text)
{
        return strcasestr(row->entry.name, text) || strcasestr(row->entry.owner, text) ||
               strcasestr(row->entry.note, text);
}

const struct row **rows_arranged(const struct snapshot *snapshot, const char *text, enum order order, bool reverse,
                                 size_t *count)
{
        struct sorting sorting = {.order = order, .reverse = reverse};
        const struct row **rows = calloc(snapshot->count + 1, sizeof(*rows));

        *count = 0;
        for (size_t i = 0; rows && i < snapshot->count; i++)
                if (matches(&snapshot->rows[i], text))
                        rows[(*count)++] = &snapshot->rows[i];
        if (*count)
                qsort_r((void *)rows, *count, sizeof(*rows), compare_rows, &sorting);
        return rows;
}

/* ---- state ------------------------------------------------------------------------------------------------------- */

int64_t row_left_ms(const struct row *row, const struct snapshot *snapshot)
{
        int64_t left_ms = row->entry.remaining_ms - (unix_ms() - snapshot->at_ms);

        if (!row->longest_ms)
                return -1; /* a lock of another program, or one that lasts as long as its connection */
        return left_ms > 0 ? left_ms : 0;
}

/* A lease that is renewed goes down to two thirds, no further. */
enum row_state row_state(const struct row *row, const struct snapshot *snapshot, int64_t stuck_ms)
{
        const struct pawl_entry *entry = &row->entry;
        int64_t left_ms = row_left_ms(row, snapshot);

        if (entry->role == PAWL_ROLE_FREE)
                return STATE_FREE;
        if (left_ms >= 0 && 3 * left_ms <= row->longest_ms)
                return STATE_ENDING;
        if (!entry->waiters)
                return STATE_HELD;
        return unix_ms() - entry->since_ms >= stuck_ms ? STATE_STUCK : STATE_WANTED;
}
