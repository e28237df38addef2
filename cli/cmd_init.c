/* cmd_init.c - `pawl init`: prepares a store for its first use, or again after it lost data or was restored. */
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
                {.name = "yes",
                 .help = "also if it was done before: after lost or restored data",
                 .set = option_flag,
                 .target = &again},
                {0},
        };
        struct arguments arguments;
        int status;

        if (!options_read(command, options, argc, argv, &arguments, &status))
                return status;
        return client_do(init, NULL);
}

const struct command cmd_init = {
        .name = "init",
        .arguments = "[--yes]",
        .summary = "prepare a store: before its first use, or after its data were lost or restored",
        .details = "redlock:// needs it once with init=manual, when a majority of its servers lost their data (--yes), "
                   "and "
                   "to\n"
                   "replace a server (--yes). zk:// and etcd:// need it after a backup was restored (--yes): it raises "
                   "the\n"
                   "tokens above all that were given before; without --yes it makes the path of zk://. Others need no "
                   "setup.\n"
                   "With --yes a lock that the store forgot can be given to another while its holder still works.\n"
                   "Status: 0 ready; 125 pawl failed. See pawl-init(1).",
        .flags = COMMAND_ENGINE,
        .run = run,
};
