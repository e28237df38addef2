/* cmd_ask.c - `pawl ask`: asks the holders to let go, politely. */
#include "cli.h"

static int ask(pawl_client *client, const char *name)
{
        int code = client ? pawl_ask(client, name) : PAWL_NOT_FOUND;

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
        return client_look(ask, arguments.word[0]);
}

const struct command cmd_ask = {
        .name = "ask",
        .arguments = "NAME",
        .summary = "ask the holders of NAME to let go",
        .details = "`pawl run` says that it was asked, and does with COMMAND what its --on-asked says; a program's "
                   "on_asked\n"
                   "callback runs. Nobody is forced: see `pawl break`. Status: 0 asked; 1 nobody holds it; 125 pawl "
                   "failed.",
        .flags = COMMAND_ENGINE,
        .words_min = 1,
        .words_max = 1,
        .run = run,
};
