/* cmd_show.c - `pawl show`: one name: its holders, its queue, its last owners and how they ended. */
#include <time.h>

#include "cli.h"

static const char *clock_text(int64_t ms, char *buffer, size_t size)
{
        time_t seconds = (time_t)(ms / 1000);
        struct tm tm;

        if (!ms || !localtime_r(&seconds, &tm) || !strftime(buffer, size, "%Y-%m-%d %H:%M:%S", &tm))
                return "-";
        return buffer;
}

/* "broken by host:pid:program (the reason) at TIME" behind the note. */
static void add_note(struct table *table, const struct pawl_entry *entry)
{
        const char *note = entry->note ? entry->note : "";
        char breaker[BREAKER_MAX + 1], text[PAWL_NOTE_MAX + sizeof(breaker) + 64], until[32];

        if (!*breaker_text(entry, breaker)) {
                table_text(table, note);
                return;
        }
        snprintf(text, sizeof(text), "%s%sbroken by %s at %s", note, *note ? "; " : "", breaker,
                 clock_text(entry->until_ms, until, sizeof(until)));
        table_text(table, text);
}

static void add_row(struct table *table, const struct pawl_entry *entry)
{
        char mode[40], since[32], until[32], left[24];

        table_cell(table, "%s", role_text(entry->role));
        table_cell(table, "%s", entry->role == PAWL_ROLE_FREE ? "-" : mode_text(entry, mode, sizeof(mode)));
        if (entry->token)
                table_cell(table, "%llu", (unsigned long long)entry->token);
        else
                table_cell(table, "-");
        table_cell(table, "%s", clock_text(entry->since_ms, since, sizeof(since)));
        if (entry->role == PAWL_ROLE_PAST)
                table_cell(table, "%s %s", pawl_how_text((int)entry->how),
                           clock_text(entry->until_ms, until, sizeof(until)));
        else if (entry->role == PAWL_ROLE_WAITER)
                table_cell(table, "-");
        else
                table_cell(table, "%s left", duration_text(entry->remaining_ms, left));
        table_text(table, entry->owner && *entry->owner ? entry->owner : "-");
        add_note(table, entry);
}

static int on_entry(const struct pawl_entry *entry, void *arg)
{
        if (settings.json)
                json_entry(stdout, entry);
        else
                add_row(arg, entry);
        return 0;
}

/* What nobody ever took is an empty array in JSON, and status 1 either way. */
static int show(pawl_client *client, const char *name)
{
        static const char *const heads[] = {"ROLE", "MODE", "TOKEN", "SINCE", "LEASE", "OWNER", "NOTE"};
        struct table table;
        int code;

        table_begin(&table, 7);
        for (size_t i = 0; i < 7; i++)
                table_cell(&table, "%s", heads[i]);
        if (settings.json)
                json_open(stdout, NULL, '[');
        code = client ? pawl_show(client, name, on_entry, &table) : PAWL_NOT_FOUND;
        if (settings.json) {
                json_close(stdout, ']');
                json_end(stdout);
        } else if (code == PAWL_OK) {
                table_print(&table, stdout);
        }
        table_end(&table);
        if (code != PAWL_NOT_FOUND)
                return fail_of_client(client, code);
        warn("nothing is known of '%s'", name);
        return EXIT_CONFLICT;
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        int status;

        if (!options_read(command, NULL, argc, argv, &arguments, &status))
                return status;
        return client_look(show, arguments.word[0]);
}

const struct command cmd_show = {
        .name = "show",
        .arguments = "NAME",
        .summary = "holders, queue, last owners and how they ended",
        .details = "Status: 0; 1 nothing is known of NAME; 125 pawl failed.",
        .flags = COMMAND_ENGINE | COMMAND_JSON,
        .words_min = 1,
        .words_max = 1,
        .run = run,
};
