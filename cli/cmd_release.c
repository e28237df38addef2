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
        struct arguments arguments;
        int status;

        if (!options_read(command, NULL, argc, argv, &arguments, &status))
                return status;
        return client_do(release, arguments.word[0]);
}

const struct command cmd_release = {
        .name = "release",
        .arguments = "LEASE",
        .summary = "end a lease",
        .details =
                "Status: 0 it was held until now; 123 it had been lost before; 125 pawl failed, or LEASE is not one.",
        .flags = COMMAND_ENGINE,
        .words_min = 1,
        .words_max = 1,
        .run = run,
};
