/* hold.c - COMMAND under a held lock: its environment, its start and its end. What `pawl run`, `pawl elect` and `pawl
 * once` share. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

/* If we are killed, or the lease ends, COMMAND is being killed in that moment: so long nobody else gets the lock. */
enum { dying_ms = 100 };

/* ---- options ----------------------------------------------------------------------------------------------------- */

/* "term", "ignore", "signal:USR1" */
static bool read_reaction(const char *text, int *signal)
{
        if (!strcmp(text, "term"))
                *signal = SIGTERM;
        else if (!strcmp(text, "ignore"))
                *signal = 0;
        else
                return !strncmp(text, "signal:", 7) && (*signal = signal_number(text + 7)) != 0;
        return true;
}

bool hold_on_lost(const struct option *option, const char *text)
{
        int *signal = option->target;

        if (!strcmp(text, "kill"))
                *signal = SIGKILL;
        else if (!read_reaction(text, signal)) {
                say("--on-lost wants term, kill, signal:SIG (such as signal:USR1) or ignore, not '%s'", text);
                return false;
        }
        return true;
}

bool hold_on_asked(const struct option *option, const char *text)
{
        if (read_reaction(text, option->target))
                return true;
        say("--on-asked wants ignore, term or signal:SIG (such as signal:USR1), not '%s'", text);
        return false;
}

int hold_check(const struct command *command, const struct hold *hold, struct claim_request *claim)
{
        if (claim->ttl_ms && hold->kill_after_ms >= claim->ttl_ms)
                return usage_error(command, "--kill-after must be shorter than --ttl: COMMAND must be gone when "
                                            "the lease ends");
        if (!claim->note)
                claim->note = hold->argv[0];
        claim->own_delay_ms = dying_ms;
        return claim_check(command, claim);
}

char **hold_shell(const char *string)
{
        static char usual_shell[] = "/bin/sh", dash_c[] = "-c";
        static char *argv[4];
        char *shell = getenv("SHELL");

        argv[0] = shell && *shell ? shell : usual_shell;
        argv[1] = dash_c;
        argv[2] = (char *)(uintptr_t)string;
        return argv;
}

/* ---- COMMAND ----------------------------------------------------------------------------------------------------- */

/* Removed first, so that it stands last and once, whatever stood there: an inner lock's values hide the outer's. */
static bool put_variable(const char *name, const char *value)
{
        return unsetenv(name) == 0 && setenv(name, value, 1) == 0;
}

static bool put_environment(const struct hold *hold, pawl_client *client, pawl_lock *lock)
{
        struct timespec ts;
        int64_t until_ms;
        char token[24], until[32];

        clock_gettime(CLOCK_REALTIME, &ts);
        until_ms = ts.tv_sec * (int64_t)1000 + ts.tv_nsec / 1000000 + pawl_remaining_ms(lock);
        snprintf(token, sizeof(token), "%llu", (unsigned long long)pawl_token(lock));
        snprintf(until, sizeof(until), "%lld.%03d", (long long)(until_ms / 1000), (int)(until_ms % 1000));
        return put_variable("PAWL_NAME", hold->name) && put_variable("PAWL_TOKEN", token) &&
               put_variable("PAWL_OWNER", pawl_owner(client)) && put_variable("PAWL_VALID_UNTIL", until) &&
               put_variable("PAWL_URL", client_url(client)) && hide_password("PAWL_STORE");
}

static int lost_at_once(const struct hold *hold)
{
        warn("the lock '%s' was lost before '%s' was started", hold->name, hold->argv[0]);
        return EXIT_LOST;
}

static bool is_too_short(const struct hold *hold, int64_t lease_ms)
{
        return hold->kill_after_ms >= lease_ms || (hold->keep.no_renew && hold->keep.at_least_ms > lease_ms);
}

/* Can COMMAND be gone before the lease ends? If we were stopped since the grant, or the machine was busy, little is left
 * of it, which says nothing of what was asked for: once renewed it is whole. */
static int check_lease(const struct hold *hold, pawl_lock *lock)
{
        int64_t lease_ms = pawl_remaining_ms(lock);
        int code = lease_ms > 0 && is_too_short(hold, lease_ms) ? pawl_renew(lock) : PAWL_OK;

        if (code != PAWL_OK && code != PAWL_LOST)
                return fail(code, NULL);
        lease_ms = pawl_remaining_ms(lock);
        if (lease_ms > 0 && hold->kill_after_ms >= lease_ms) {
                say("--kill-after must be shorter than the lease, which ends in %lld ms: give a longer --ttl",
                    (long long)lease_ms);
                return EXIT_FAILED;
        }
        if (lease_ms > 0 && hold->keep.no_renew && hold->keep.at_least_ms > lease_ms) {
                say("--hold-at-least is longer than the lease, which ends in %lld ms and with --no-renew is not "
                    "renewed: give a longer --ttl",
                    (long long)lease_ms);
                return EXIT_FAILED;
        }
        return EXIT_DONE;
}

/* The end of ours in the history, if it was broken. */
struct breaker {
        uint64_t token;
        char text[BREAKER_MAX + 1];
};

static int find_breaker(const struct pawl_entry *entry, void *arg)
{
        struct breaker *breaker = arg;

        if (entry->role != PAWL_ROLE_PAST || entry->token != breaker->token)
                return 0;
        (void)breaker_text(entry, breaker->text);
        return 1;
}

/* Only when COMMAND has ended: the store may take its time to answer. */
static void name_breaker(const struct hold *hold, pawl_client *client, pawl_lock *lock)
{
        struct breaker breaker = {.token = pawl_token(lock)};

        if (pawl_reason(lock) == PAWL_REASON_BROKEN && pawl_capabilities(client) & PAWL_CAN_HISTORY && !settings.quiet)
                (void)pawl_show(client, hold->name, find_breaker, &breaker);
        if (*breaker.text)
                warn("the lock '%s' was broken by %s", hold->name, breaker.text);
}

int hold_command(struct hold *hold, struct signals *signals, pawl_client *client, pawl_lock *lock)
{
        int status = check_lease(hold, lock), error;
        int64_t lease_ms = pawl_remaining_ms(lock);

        if (status != EXIT_DONE)
                return status;
        hold->child = (struct child){0};
        hold->dog = (struct watchdog){0};
        hold->keep.kill_after_ms = hold->kill_after_ms >= 0 ? hold->kill_after_ms : lease_ms / 5;
        if (!put_environment(hold, client, lock) || !watchdog_start(&hold->dog)) {
                say("cannot start '%s': %s", hold->argv[0], strerror(errno));
                return EXIT_FAILED;
        }
        error = child_start(&hold->child, hold->argv, signals, &hold->dog, keep_deadline(lock, &hold->keep));
        if (error) {
                watchdog_end(&hold->dog);
                return error == ETIME ? lost_at_once(hold) : cannot_run(hold->argv[0], error);
        }
        notify_ready("'%s' is held, token %llu; %s runs", hold->name, (unsigned long long)pawl_token(lock),
                     hold->argv[0]);
        if (keep(signals, client, lock, &hold->child, &hold->dog, &hold->keep)) {
                name_breaker(hold, client, lock);
                return EXIT_LOST;
        }
        return child_exit_status(&hold->child);
}

int hold_release(struct hold *hold, pawl_lock *lock, int status)
{
        int code = pawl_release(lock);

        hold->released = code == PAWL_OK;
        if (code == PAWL_LOST && status != EXIT_LOST) {
                warn("the lock '%s' was lost while the command ran", hold->name);
                return EXIT_LOST;
        }
        if (code != PAWL_OK && code != PAWL_LOST)
                warn("'%s' may stay locked until its lease ends: %s", hold->name, pawl_strerror(code));
        return status;
}

/* ^C at the terminal went to COMMAND's group alone: the script we stand in must hear of it as well. */
static void pass_on_interrupt(const struct child *child)
{
        if (child->had_terminal && child->how != CLD_EXITED && (child->status == SIGINT || child->status == SIGQUIT))
                signals_end_job(child->status);
}

void hold_end(struct hold *hold, int status)
{
        watchdog_reap(&hold->dog);
        if (status != EXIT_LOST)
                pass_on_interrupt(&hold->child);
}
