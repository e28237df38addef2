/* cmd_fence.c - `pawl fence`: admit a token at a guard, then become COMMAND. */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "store.h"

/* COMMAND gets no secrets from us: whoever it starts could read them. */
static int become(char **argv)
{
        if (!hide_password("PAWL_STORE") || !hide_password("PAWL_URL")) {
                say("cannot run '%s': %s", argv[0], strerror(errno));
                return EXIT_FAILED;
        }
        execvp(argv[0], argv);
        return cannot_run(argv[0], errno);
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        struct pawl_why why = {0};
        pawl_guard *guard;
        uint64_t token;
        int code, status;

        if (!options_read(command, store_token_options, argc, argv, &arguments, &status))
                return status;
        if (!has_command(&arguments))
                return usage_error(command, "fence wants RESOURCE, TOKEN and a COMMAND");
        if (!store_open(command, arguments.word[1], &guard, &token, &status))
                return status;
        code = pawl_guard_admit(guard, arguments.word[0], token, &why);
        pawl_guard_close(guard);
        return code == PAWL_OK ? become(arguments.command) : fail(code, &why);
}

const struct command cmd_fence = {
        .name = "fence",
        .arguments = "--store STORE RESOURCE TOKEN [--] COMMAND [ARG...]",
        .summary = "run COMMAND if TOKEN is not stale at RESOURCE's guard",
        .details =
                "From then on every smaller token is refused. What COMMAND does may still be overtaken by a later\n"
                "holder: where it can, use `pawl put`, which checks and writes as one.\n" STORE_DETAILS
                "Status: COMMAND's; 124 the token is stale and nothing was run; 125 pawl failed; 126, 127 as in run.",
        .flags = COMMAND_RUNS,
        .words_min = 2,
        .words_max = 2,
        .run = run,
};
