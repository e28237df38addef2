/* cmd_break.c - `pawl break`: an administrator's force. */
#include "cli.h"

static int break_it(pawl_client *client, const char *name)
{
        int code = pawl_break(client, name);

        if (code != PAWL_NOT_FOUND)
                return fail_of_client(client, code);
        warn("nobody holds '%s'", name);
        return EXIT_CONFLICT;
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        int status;

        if (!options_read(command, NULL, argc, argv, &arguments, &status))
                return status;
        return client_do(break_it, arguments.word[0]);
}

const struct command cmd_break = {
        .name = "break",
        .arguments = "NAME",
        .summary = "cut the holders of NAME off; the next token is greater all the same",
        .details = "The holders are told that they lost it; until they have heard they may still act, and only their "
                   "tokens\n"
                   "stop them (see `pawl fence`). Status: 0 broken; 1 nobody held it; 125 pawl failed.",
        .flags = COMMAND_ENGINE,
        .words_min = 1,
        .words_max = 1,
        .run = run,
};
