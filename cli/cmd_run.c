/* cmd_run.c - `pawl run`: hold NAME while COMMAND runs. What it says and what its exit status means; the watching is done
 * in keep.c. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

struct request {
        struct claim_request claim;
        struct keep_options keep;
        int64_t kill_after_ms; /* -1: ttl / 5 */
        const char *shell_command;
        const char *name;
        char **argv;
};
/* If we are killed, or the lease ends, COMMAND is being killed in that moment: so long nobody else gets the lock. */
enum { dying_ms = 100 };
static struct request request = {.claim = {CLAIM_REQUEST}, .keep = {.lost_signal = SIGTERM}, .kill_after_ms = -1};

/* "USR1", "SIGUSR1", "10" */
static int signal_number(const char *text)
{
        char *end;
        long number = strtol(text, &end, 10);

        if (*text && !*end)
                return number > 0 && number < NSIG ? (int)number : 0;
        if (!strncmp(text, "SIG", 3))
                text += 3;
        for (int signal = 1; signal < NSIG; signal++)
                if (sigabbrev_np(signal) && !strcmp(sigabbrev_np(signal), text))
                        return signal;
        return 0;
}

static bool set_on_lost(const struct option *option, const char *text)
{
        int *signal = option->target;

        if (!strcmp(text, "term"))
                *signal = SIGTERM;
        else if (!strcmp(text, "kill"))
                *signal = SIGKILL;
        else if (!strcmp(text, "ignore"))
                *signal = 0;
        else if (strncmp(text, "signal:", 7) || (*signal = signal_number(text + 7)) == 0) {
                say("--on-lost wants term, kill, signal:SIG (such as signal:USR1) or ignore, not '%s'", text);
                return false;
        }
        return true;
}

static const struct option options[] = {
        CLAIM_OPTIONS(request.claim),
        {'c', "command", "STRING", "run STRING by $SHELL", option_text, &request.shell_command},
        {0, "no-renew", NULL, "never renewed: COMMAND must end within the lease", option_flag, &request.keep.no_renew},
        {0, "hold-at-least", "DUR", "keep the lock so long even if COMMAND ends early", option_duration,
         &request.keep.at_least_ms},
        {0, "max-hold", "DUR", "end COMMAND after DUR: SIGTERM, then SIGKILL", option_some_time,
         &request.keep.at_most_ms},
        {0, "on-lost", "WHAT", "term (default), kill, signal:SIG or ignore", set_on_lost, &request.keep.lost_signal},
        {'k', "kill-after", "DUR", "from the signal to SIGKILL (ttl/5)", option_duration, &request.kill_after_ms},
        {0},
};

/* ---- what was asked --------------------------------------------------------------------------------------------- */

static char **shell_argv(const char *string)
{
        static char usual_shell[] = "/bin/sh", dash_c[] = "-c";
        static char *argv[4];
        char *shell = getenv("SHELL");

        argv[0] = shell && *shell ? shell : usual_shell;
        argv[1] = dash_c;
        argv[2] = (char *)(uintptr_t)string;
        return argv;
}

/* NAME COMMAND..., NAME -- COMMAND..., and as flock(1) has it NAME -c STRING. */
static int read_command(const struct command *command, int argc, char **argv)
{
        if (argc < 1)
                return usage_error(command, "run wants a NAME and a COMMAND");
        request.name = *argv++;
        argc--;
        if (argc == 2 && !request.shell_command && (!strcmp(*argv, "-c") || !strcmp(*argv, "--command"))) {
                request.shell_command = argv[1];
                argc = 0;
        }
        if (argc && !strcmp(*argv, "--")) {
                argv++;
                argc--;
        } else if (argc && **argv == '-') {
                return usage_error(command,
                                   "'%s' stands behind NAME: options go before it, and -- before a COMMAND "
                                   "of that name",
                                   *argv);
        }
        if (request.shell_command && argc)
                return usage_error(command, "-c STRING is the whole command, '%s' is too much", *argv);
        if (!request.shell_command && !argc)
                return usage_error(command, "run wants a COMMAND to run while it holds '%s'", request.name);
        request.argv = request.shell_command ? shell_argv(request.shell_command) : argv;
        return EXIT_DONE;
}

static int check_request(const struct command *command)
{
        if (request.claim.ttl_ms && request.kill_after_ms >= request.claim.ttl_ms)
                return usage_error(command, "--kill-after must be shorter than --ttl: COMMAND must be gone when "
                                            "the lease ends");
        request.claim.flags = request.keep.no_renew ? PAWL_NO_RENEW : 0;
        request.claim.note = request.argv[0];
        request.claim.delay_ms = dying_ms;
        return claim_check(command, &request.claim);
}

/* ---- doing it --------------------------------------------------------------------------------------------------- */

/* Removed first, so that it stands last and once, whatever stood there: an inner lock's values hide the outer's. */
static bool put_variable(const char *name, const char *value)
{
        return unsetenv(name) == 0 && setenv(name, value, 1) == 0;
}

static bool put_environment(pawl_client *client, pawl_lock *lock)
{
        struct timespec ts;
        int64_t until_ms;
        char token[24], until[32];

        clock_gettime(CLOCK_REALTIME, &ts);
        until_ms = ts.tv_sec * (int64_t)1000 + ts.tv_nsec / 1000000 + pawl_remaining_ms(lock);
        snprintf(token, sizeof(token), "%llu", (unsigned long long)pawl_token(lock));
        snprintf(until, sizeof(until), "%lld.%03d", (long long)(until_ms / 1000), (int)(until_ms % 1000));
        return put_variable("PAWL_NAME", request.name) && put_variable("PAWL_TOKEN", token) &&
               put_variable("PAWL_OWNER", pawl_owner(client)) && put_variable("PAWL_VALID_UNTIL", until) &&
               put_variable("PAWL_URL", pawl_url(client)) && hide_password("PAWL_STORE");
}

static int lost_at_once(void)
{
        warn("the lock '%s' was lost before '%s' was started", request.name, request.argv[0]);
        return EXIT_LOST;
}

/* COMMAND under the held lock: its exit status. */
static int run_command(struct signals *signals, pawl_client *client, pawl_lock *lock, struct child *child,
                       struct watchdog *dog)
{
        int64_t lease_ms = pawl_remaining_ms(lock);
        int error;

        if (lease_ms > 0 && request.kill_after_ms >= lease_ms) {
                say("--kill-after must be shorter than the lease, which ends in %lld ms: give a longer --ttl",
                    (long long)lease_ms);
                return EXIT_FAILED;
        }
        if (lease_ms > 0 && request.keep.no_renew && request.keep.at_least_ms > lease_ms) {
                say("--hold-at-least is longer than the lease, which ends in %lld ms and with --no-renew is not "
                    "renewed: "
                    "give a longer --ttl",
                    (long long)lease_ms);
                return EXIT_FAILED;
        }
        request.keep.kill_after_ms = request.kill_after_ms >= 0 ? request.kill_after_ms : lease_ms / 5;
        if (!put_environment(client, lock) || !watchdog_start(dog)) {
                say("cannot start '%s': %s", request.argv[0], strerror(errno));
                return EXIT_FAILED;
        }
        error = child_start(child, request.argv, signals, dog, keep_deadline(lock, &request.keep));
        if (error) {
                watchdog_end(dog);
                return error == ETIME ? lost_at_once() : cannot_run(request.argv[0], error);
        }
        if (keep(signals, client, lock, child, dog, &request.keep))
                return EXIT_LOST;
        return child_exit_status(child);
}

static int release(pawl_lock *lock, int status)
{
        char name[PAWL_NAME_MAX + 1];
        int code;

        snprintf(name, sizeof(name), "%s", request.name);
        code = pawl_release(lock);
        if (code == PAWL_LOST && status != EXIT_LOST) {
                warn("the lock '%s' was lost while the command ran", name);
                return EXIT_LOST;
        }
        if (code != PAWL_OK && code != PAWL_LOST)
                warn("'%s' may stay locked until its lease ends: %s", name, pawl_strerror(code));
        return status;
}

/* ^C at the terminal went to COMMAND's group alone: the script we stand in must hear of it as well. */
static void pass_on_interrupt(const struct child *child)
{
        if (child->had_terminal && child->how != CLD_EXITED && (child->status == SIGINT || child->status == SIGQUIT))
                signals_end_job(child->status);
}

static int run(const struct command *command, int argc, char **argv)
{
        struct signals signals;
        struct child child = {0};
        struct watchdog dog = {0};
        pawl_client *client;
        pawl_lock *lock;
        int status;

        if (argc)
                watchdog_last_word(argv[argc - 1]);
        if (!options_read(command, options, &argc, &argv, &status))
                return status;
        status = read_command(command, argc, argv);
        if (status == EXIT_DONE)
                status = check_request(command);
        if (status != EXIT_DONE)
                return status;
        if (!signals_begin(&signals))
                return EXIT_FAILED;
        status = client_open(PAWL_DRIVE_CALLER, &client);
        if (status != EXIT_DONE)
                return status;
        status = claim_wait(&signals, client, request.name, &request.claim, &lock);
        if (lock)
                status = release(lock, run_command(&signals, client, lock, &child, &dog));
        pawl_close(client);
        watchdog_reap(&dog);
        if (status != EXIT_LOST)
                pass_on_interrupt(&child);
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
        .flags = COMMAND_ENGINE,
        .run = run,
};
