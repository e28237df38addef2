/* cmd_engines.c - `pawl engines`: what this build can do, and what each engine promises. */
#include "cli.h"

static void print_engine(const struct pawl_engine_info *info)
{
        printf("%s: %s\n", info->scheme, info->summary);
        if (info->missing)
                printf("    not here: %s\n", info->missing);
        else
                printf("    %s\n", info->promise);
}

static void print_json(const struct pawl_engine_info *info)
{
        json_open(stdout, NULL, '{');
        json_text(stdout, "scheme", info->scheme);
        json_flag(stdout, "available", !info->missing);
        json_text(stdout, "missing", info->missing);
        json_text(stdout, "summary", info->summary);
        json_text(stdout, "promise", info->promise);
        json_close(stdout, '}');
}

static int run(const struct command *command, int argc, char **argv)
{
        struct pawl_engine_info info;
        int status;

        if (!options_read(command, NULL, &argc, &argv, &status) || !arguments_count(command, argc, 0, 0, &status))
                return status;
        if (settings.json)
                json_open(stdout, NULL, '[');
        for (size_t i = 0; pawl_engine(i, &info) == PAWL_OK; i++)
                (settings.json ? print_json : print_engine)(&info);
        if (settings.json) {
                json_close(stdout, ']');
                json_end(stdout);
        }
        return EXIT_DONE;
}

const struct command cmd_engines = {
        .name = "engines",
        .arguments = "",
        .summary = "what this build can do and what each engine promises",
        .details = NULL,
        .flags = COMMAND_JSON,
        .run = run,
};
