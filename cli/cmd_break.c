/* cmd_break.c - `pawl break`: an administrator's force. */
#include "cli.h"

static int run(const struct command *command, int argc, char **argv)
{
        pawl_client *client;
        int code, status;

        if (!options_read(command, NULL, &argc, &argv, &status) || !arguments_count(command, argc, 1, 1, &status))
                return status;
        status = client_open(PAWL_DRIVE_CALLER, &client);
        if (status != EXIT_DONE)
                return status;
        code = pawl_break(client, argv[0]);
        if (code == PAWL_NOT_FOUND) {
                warn("nobody holds '%s'", argv[0]);
                status = EXIT_CONFLICT;
        } else {
                status = fail_of_client(client, code);
        }
        pawl_close(client);
        return status;
}

const struct command cmd_break = {
        .name = "break",
        .arguments = "NAME",
        .summary = "cut the holders of NAME off; the next token is greater all the same",
        .details = "The holders are told that they lost it; until they have heard they may still act, and only their "
                   "tokens\n"
                   "stop them (see `pawl fence`). Status: 0 broken; 1 nobody held it; 125 pawl failed.",
        .flags = COMMAND_ENGINE,
        .run = run,
};
