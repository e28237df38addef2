/* cmd_run.c - `pawl run`: hold NAME while COMMAND runs. What it says and what its exit status means; the watching is done
 * in keep.c. */
#include <string.h>

#include "run.h"

struct request {
        struct claim_request claim;
        struct hold hold;
        const char *shell_command;
        bool pass_notify;
};
static struct request request = {.claim = {CLAIM_REQUEST, .purpose = "waiting for"}, .hold = {HOLD}};

static const struct option options[] = {
        CLAIM_OPTIONS(request.claim),
        {'c', "command", "STRING", "run STRING by $SHELL", option_text, &request.shell_command},
        {0, "no-renew", NULL, "never renewed: COMMAND must end within the lease", option_flag,
         &request.hold.keep.no_renew},
        {0, "hold-at-least", "DUR", "keep the lock so long even if COMMAND ends early", option_duration,
         &request.hold.keep.at_least_ms},
        {0, "max-hold", "DUR", "end COMMAND after DUR: SIGTERM, then SIGKILL", option_some_time,
         &request.hold.keep.at_most_ms},
        {0, "pass-notify", NULL, "leave NOTIFY_SOCKET to COMMAND, which says when it is ready", option_flag,
         &request.pass_notify},
        HOLD_OPTIONS(request.hold),
        {0},
};

/* ---- what was asked --------------------------------------------------------------------------------------------- */

/* NAME COMMAND..., NAME -- COMMAND..., and as flock(1) has it NAME -c STRING. */
static int read_command(const struct command *command, const struct arguments *arguments)
{
        request.hold.name = arguments->word[0];
        if (request.shell_command && has_command(arguments))
                return usage_error(command, "-c STRING is the whole command, '%s' is too much", *arguments->command);
        if (!request.shell_command && !has_command(arguments))
                return usage_error(command, "run wants a COMMAND to run while it holds '%s'", request.hold.name);
        request.hold.argv = request.shell_command ? hold_shell(request.shell_command) : arguments->command;
        return EXIT_DONE;
}

static int check_request(const struct command *command)
{
        request.claim.flags = request.hold.keep.no_renew ? PAWL_NO_RENEW : 0;
        return hold_check(command, &request.hold, &request.claim);
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        struct signals signals;
        pawl_client *client;
        pawl_lock *lock;
        int status;

        if (argc)
                watchdog_last_word(argv[argc - 1]);
        if (!options_read(command, options, argc, argv, &arguments, &status))
                return status;
        status = read_command(command, &arguments);
        if (status == EXIT_DONE)
                status = check_request(command);
        if (status != EXIT_DONE)
                return status;
        notify_begin(request.pass_notify);
        if (!signals_begin(&signals))
                return EXIT_FAILED;
        settings.look_ms = CLAIM_LOOK_MS;
        status = client_open(PAWL_DRIVE_CALLER, &client);
        if (status != EXIT_DONE)
                return status;
        status = claim_wait(&signals, client, request.hold.name, &request.claim, &lock);
        if (lock) {
                status = hold_command(&request.hold, &signals, client, lock);
                notify_stopping();
                status = hold_release(&request.hold, lock, status);
        }
        pawl_close(client);
        hold_end(&request.hold, status);
        return status;
}

const struct command cmd_run = {
        .name = "run",
        .arguments = "NAME [--] COMMAND [ARG...]",
        .summary = "hold NAME while COMMAND runs",
        .details =
                "COMMAND finds PAWL_NAME, PAWL_TOKEN, PAWL_OWNER, PAWL_VALID_UNTIL and PAWL_URL in its environment.\n"
                "Status: COMMAND's; 128+N if signal N killed it; 1 (-E) not free; 123 the lock was lost;\n"
                "125 pawl failed; 126 COMMAND cannot be executed; 127 it was not found.",
        .flags = COMMAND_ENGINE | COMMAND_RUNS,
        .words_min = 1,
        .words_max = 1,
        .run = run,
};
