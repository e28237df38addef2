/* cmd_release.c - `pawl release`: end a lease that `pawl acquire` printed. */
#include "cli.h"

static int release(pawl_client *client, const char *word)
{
        struct pawl_why why = {0};
        pawl_lock *lock;
        int code = pawl_adopt(client, word, PAWL_LOCK(.why = &why), &lock);

        if (code != PAWL_OK)
                return fail(code, &why);
        return fail(pawl_release(lock), NULL);
}

static int run(const struct command *command, int argc, char **argv)
{
        pawl_client *client;
        int status;

        if (!options_read(command, NULL, &argc, &argv, &status) || !arguments_count(command, argc, 1, 1, &status))
                return status;
        status = client_open(PAWL_DRIVE_CALLER, &client);
        if (status != EXIT_DONE)
                return status;
        status = release(client, argv[0]);
        pawl_close(client);
        return status;
}

const struct command cmd_release = {
        .name = "release",
        .arguments = "LEASE",
        .summary = "end a lease",
        .details =
                "Status: 0 it was held until now; 123 it had been lost before; 125 pawl failed, or LEASE is not one.",
        .flags = COMMAND_ENGINE,
        .run = run,
};
