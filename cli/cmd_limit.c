/* cmd_limit.c - `pawl limit`: take a permit of a rate that all callers share, then become COMMAND. */
#include <pawl/limit.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run.h"

struct request {
        int64_t rate;
        int64_t per_ms;
        uint32_t burst;
        uint32_t permits;
        int64_t wait_ms; /* -1: for ever */
        uint32_t conflict_status;
};
static struct request request = {.wait_ms = -1, .permits = 1, .conflict_status = EXIT_CONFLICT};

/* "100/1m", "5/s" */
static bool set_rate(const struct option *option, const char *text)
{
        char duration[32], *end;
        long long number = strtoll(text, &end, 10);

        (void)option;
        if (end != text && *end == '/' && end[1] && number > 0 && number <= 1000000000 &&
            strlen(end + 1) < sizeof(duration) - 1) {
                snprintf(duration, sizeof(duration), "%s%s", end[1] >= '0' && end[1] <= '9' ? "" : "1", end + 1);
                if (pawl_duration(duration, &request.per_ms) == PAWL_OK && request.per_ms > 0) {
                        request.rate = number;
                        return true;
                }
        }
        say("--rate wants N/DUR, such as 100/1m or 5/s, not '%s'", text);
        return false;
}

static const struct option options[] = {
        {0, "rate", "N/DUR", "N permits in DUR, for all callers together", set_rate, NULL},
        {0, "burst", "N", "so many at once after a rest (the N of --rate)", option_number, &request.burst},
        {0, "permits", "N", "take N of them (1)", option_number, &request.permits},
        {'n', "nonblock", NULL, "fail at once if there is none now", claim_no_wait, &request.wait_ms},
        {'w', "wait", "DUR", "fail at once if there will be none within DUR; else wait", option_duration,
         &request.wait_ms},
        {'E', "conflict-exit-code", "N", "the status when -n or -w gives up (1)", claim_exit_code,
         &request.conflict_status},
        {0},
};

static int64_t wait_option(void)
{
        if (request.wait_ms < 0)
                return PAWL_FOREVER;
        return request.wait_ms == 0 ? PAWL_NO_WAIT : request.wait_ms;
}

static void print_permit(int code, const struct pawl_permit *permit)
{
        json_open(stdout, NULL, '{');
        json_flag(stdout, "granted", code == PAWL_OK);
        json_number(stdout, "waited_ms", code == PAWL_OK ? permit->wait_ms : 0);
        json_number(stdout, "wait_ms", code == PAWL_OK ? 0 : permit->wait_ms);
        json_close(stdout, '}');
        json_end(stdout);
}

static int take(pawl_client *client, const char *name)
{
        struct pawl_permit permit = {0};
        struct pawl_why why = {0};
        int code = pawl_limit(client, name,
                              PAWL_LIMIT(.rate = request.rate, .per_ms = request.per_ms, .burst = request.burst,
                                         .permits = request.permits, .wait_ms = wait_option(), .why = &why),
                              &permit);

        if (settings.json && (code == PAWL_OK || code == PAWL_BUSY || code == PAWL_TIMEOUT))
                print_permit(code, &permit);
        if (code == PAWL_BUSY || code == PAWL_TIMEOUT) {
                detail("'%s': there is no permit for another %lld ms", name, (long long)permit.wait_ms);
                return (int)request.conflict_status;
        }
        /* COMMAND gets the URL without its password. */
        if (code == PAWL_OK && setenv("PAWL_URL", client_url(client), 1) != 0)
                return fail(PAWL_NO_MEMORY, NULL);
        return code == PAWL_OK ? EXIT_DONE : fail(code, &why);
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        int status;

        if (!options_read(command, options, argc, argv, &arguments, &status))
                return status;
        if (!request.rate)
                return usage_error(command, "limit wants --rate N/DUR");
        if (settings.json && has_command(&arguments))
                return usage_error(command, "--json is for a permit without a COMMAND");
        status = client_do(take, arguments.word[0]);
        if (status != EXIT_DONE || !has_command(&arguments))
                return status;
        if (!hide_password("PAWL_STORE"))
                return fail(PAWL_NO_MEMORY, NULL);
        execvp(arguments.command[0], arguments.command);
        return cannot_run(arguments.command[0], errno);
}

const struct command cmd_limit = {
        .name = "limit",
        .arguments = "NAME --rate N/DUR [--] [COMMAND [ARG...]]",
        .summary = "run COMMAND when the common rate allows it",
        .details = "A token bucket for all callers of NAME, wherever they run: they must give the same --rate and "
                   "--burst.\n"
                   "Who waits is served in the order of asking. Without COMMAND it only waits for the permit.",
        .flags = COMMAND_ENGINE | COMMAND_JSON | COMMAND_RUNS,
        .words_min = 1,
        .words_max = 1,
        .run = run,
};
