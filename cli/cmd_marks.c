/* cmd_marks.c - `pawl marks`: the greatest token that a guard has admitted, for each of its resources. */
#include <inttypes.h>

#include "store.h"

struct listing {
        struct table table;
        bool unread; /* a mark could not be read */
};

static void print_json(const struct pawl_guard_entry *entry)
{
        json_open(stdout, NULL, '{');
        json_text(stdout, "name", entry->resource);
        if (entry->code == PAWL_OK)
                json_token(stdout, "token", entry->token);
        else
                json_text(stdout, "token", NULL);
        json_text(stdout, "error", entry->code == PAWL_OK ? NULL : pawl_error_name(entry->code));
        json_close(stdout, '}');
}

static void add_row(struct table *table, const struct pawl_guard_entry *entry)
{
        table_text(table, entry->resource);
        if (entry->code == PAWL_OK)
                table_cell(table, "%" PRIu64, entry->token);
        else
                table_cell(table, "-");
}

static int on_entry(const struct pawl_guard_entry *entry, void *arg)
{
        struct listing *listing = arg;

        if (entry->code != PAWL_OK) {
                listing->unread = true;
                warn("the mark of '%s' cannot be read: %s", entry->resource, pawl_strerror(entry->code));
        }
        if (settings.json)
                print_json(entry);
        else
                add_row(&listing->table, entry);
        return 0;
}

static int list(pawl_guard *guard, const char *prefix)
{
        struct pawl_why why = {0};
        struct listing listing = {.unread = false};
        int code, status;

        table_begin(&listing.table, 2);
        table_cell(&listing.table, "NAME");
        table_cell(&listing.table, "TOKEN");
        if (settings.json)
                json_open(stdout, NULL, '[');
        code = guard ? pawl_guard_list(guard, prefix, on_entry, &listing, &why) : PAWL_OK;
        if (settings.json) {
                json_close(stdout, ']');
                json_end(stdout);
        } else if (code == PAWL_OK && listing.table.cells > listing.table.columns) {
                table_sort(&listing.table);
                table_print(&listing.table, stdout);
        }
        table_end(&listing.table);
        status = fail(code, &why);
        return status == EXIT_DONE && listing.unread ? EXIT_CONFLICT : status;
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        pawl_guard *guard;
        int status;

        if (!options_read(command, store_options, argc, argv, &arguments, &status) ||
            !store_open_to_look(command, &guard, &status))
                return status;
        status = list(guard, arguments.words ? arguments.word[0] : NULL);
        pawl_guard_close(guard);
        return status;
}

const struct command cmd_marks = {
        .name = "marks",
        .arguments = "--store STORE [PREFIX]",
        .summary = "the resources of a guard, and the greatest token of each",
        .details = STORE_DETAILS "Status: 0; 1 some of them cannot be read; 125 pawl failed.",
        .flags = COMMAND_JSON,
        .words_max = 1,
        .run = run,
};
