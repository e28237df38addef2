/* cmd_ls.c - `pawl ls`: who holds what. */
#include "cli.h"

static void add_row(struct table *table, const struct pawl_entry *entry)
{
        char mode[40], left[24];

        table_text(table, entry->name);
        table_cell(table, "%s", entry->role == PAWL_ROLE_FREE ? "free" : mode_text(entry, mode, sizeof(mode)));
        if (entry->token)
                table_cell(table, "%llu", (unsigned long long)entry->token);
        else
                table_cell(table, "-");
        table_cell(table, "%s", duration_text(entry->remaining_ms, left));
        table_cell(table, "%u", entry->waiters);
        table_text(table, entry->owner && *entry->owner ? entry->owner : "-");
}

static int on_entry(const struct pawl_entry *entry, void *arg)
{
        if (settings.json)
                json_entry(stdout, entry);
        else
                add_row(arg, entry);
        return 0;
}

static int list(pawl_client *client, const char *prefix)
{
        static const char *const heads[] = {"NAME", "MODE", "TOKEN", "LEFT", "WAITERS", "OWNER"};
        struct table table;
        int code;

        table_begin(&table, 6);
        for (size_t i = 0; i < 6; i++)
                table_cell(&table, "%s", heads[i]);
        if (settings.json)
                json_open(stdout, NULL, '[');
        code = client ? pawl_list(client, prefix, on_entry, &table) : PAWL_OK;
        if (settings.json) {
                json_close(stdout, ']');
                json_end(stdout);
        } else if (code == PAWL_OK && table.cells > table.columns) {
                table_sort(&table);
                table_print(&table, stdout);
        }
        table_end(&table);
        return fail_of_client(client, code);
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        int status;

        if (!options_read(command, NULL, argc, argv, &arguments, &status))
                return status;
        return client_look(list, arguments.words ? arguments.word[0] : NULL);
}

const struct command cmd_ls = {
        .name = "ls",
        .arguments = "[PREFIX]",
        .summary = "names, holders, tokens, time left, waiters",
        .details = NULL,
        .flags = COMMAND_ENGINE | COMMAND_JSON,
        .words_max = 1,
        .run = run,
};
