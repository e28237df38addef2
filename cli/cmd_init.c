/* cmd_init.c - `pawl init`: prepares the servers of a quorum for their first use, or again after a loss of data. */
#include "cli.h"

static bool again;

static int init(pawl_client *client, const char *nothing)
{
        int status = fail_of_client(client, pawl_init(client, again ? PAWL_INIT_AGAIN : 0));

        (void)nothing;
        if (status == EXIT_DONE)
                detail("the servers of %s are ready", pawl_url(client));
        return status;
}

static int run(const struct command *command, int argc, char **argv)
{
        static const struct option options[] = {
                {.name = "yes", .help = "also if it was done before", .set = option_flag, .target = &again},
                {0},
        };
        int status;

        if (!options_read(command, options, &argc, &argv, &status) || !arguments_count(command, argc, 0, 0, &status))
                return status;
        return client_do(init, NULL);
}

const struct command cmd_init = {
        .name = "init",
        .arguments = "[--yes]",
        .summary = "prepare the servers of a redlock: for their first use, or after a loss of data",
        .details =
                "Only redlock:// needs it: with init=manual once, and when so many servers lost their data that it "
                "refuses to\n"
                "go on. With --yes locks that were held on servers that forgot them can be given to another at once; "
                "tokens\n"
                "stay greater than before. Status: 0 ready; 125 pawl failed.",
        .flags = COMMAND_ENGINE,
        .run = run,
};
