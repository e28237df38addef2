/* claim.c - waiting for a lock with an ear for signals. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include "run.h"

/* The longest lock-delay that -n waits for: that of `pawl run` itself, and some more for clocks. */
enum { brief_delay_ms = 200, answer_ms = 1000 };

struct answer {
        bool told;
        int status;
};

static void on_granted(pawl_lock *lock, int status, void *arg)
{
        struct answer *answer = arg;

        (void)lock;
        answer->told = true;
        answer->status = status;
}

int claim_signal(struct signals *signals)
{
        int signal;

        while ((signal = signals_next(signals)) != 0) {
                if (signal == SIGTSTP)
                        signals_stop(signal, false);
                else if (signal_ends(signal))
                        return signal;
        }
        return 0;
}

bool input_ends(int fd)
{
        char ignored[4096];
        ssize_t length = read(fd, ignored, sizeof(ignored));

        return length == 0 || (length < 0 && errno != EINTR && errno != EAGAIN);
}

/* The answer's status, or PAWL_CANCELLED and the signal; without one if standard input has ended. */
static int wait_for_answer(struct signals *signals, pawl_client *client, const struct answer *answer,
                           struct waiting *waiting, int *signal)
{
        struct pollfd fds[] = {{.fd = pawl_fd(client), .events = POLLIN},
                               {.fd = signals->fd, .events = POLLIN},
                               {.fd = waiting->request->leave_with_input ? STDIN_FILENO : -1, .events = POLLIN}};
        int code = pawl_dispatch(client);

        while (code == PAWL_OK && !answer->told) {
                if (poll(fds, 3, waiting_due_ms(waiting)) < 0 && errno != EINTR)
                        return PAWL_SYSTEM;
                *signal = claim_signal(signals);
                if (*signal || (fds[2].revents && input_ends(STDIN_FILENO)))
                        return PAWL_CANCELLED;
                code = pawl_dispatch(client);
                if (code == PAWL_OK && !answer->told)
                        waiting_show(waiting);
        }
        return code == PAWL_OK ? answer->status : code;
}

static int64_t wait_option(const struct claim_request *request)
{
        if (request->wait_ms < 0)
                return PAWL_FOREVER;
        return request->wait_ms == 0 ? PAWL_NO_WAIT : request->wait_ms;
}

static int64_t delay_option(const pawl_client *client, const struct claim_request *request)
{
        if (request->delay_ms >= 0)
                return request->delay_ms;
        return pawl_capabilities(client) & PAWL_CAN_DELAY ? request->own_delay_ms : 0;
}

static void print_refused(const char *name, int code, const struct holders *holders, const char *message)
{
        json_open(stdout, NULL, '{');
        json_text(stdout, "event", "refused");
        json_text(stdout, "name", name);
        json_flag(stdout, "held", false);
        json_text(stdout, "error", pawl_error_name(code));
        json_text(stdout, "message", message);
        json_holders(stdout, holders);
        json_close(stdout, '}');
        json_end(stdout);
}

static void say_refused(pawl_client *client, const struct claim_request *request, const char *name, int code,
                        struct holders *holders)
{
        const char *shown = request->shown ? request->shown : name;
        char who[256], wait[24], message[512];

        if (!holders->silent) /* it would keep us waiting once more */
                holders_look(client, name, holders);
        holders_text(holders, who, sizeof(who));
        if (code == PAWL_TIMEOUT)
                snprintf(message, sizeof(message), "'%s' was not free within %s: %s", shown,
                         duration_text(request->wait_ms, wait), who);
        else if (holders->silent)
                snprintf(message, sizeof(message), "'%s' is held by another client", shown);
        else if (holders->known && !holders->count)
                snprintf(message, sizeof(message), "'%s' was taken a moment ago: %s", shown, who);
        else
                snprintf(message, sizeof(message), "'%s' is %s", shown, who);
        announce(&(struct event){.what = "refused", .name = shown, .holders = holders}, "%s", message);
        if (settings.json)
                print_refused(shown, code, holders, message);
}

static int exit_status(struct signals *signals, pawl_client *client, const struct claim_request *request,
                       const char *name, int code, struct holders *seen, const struct pawl_why *why, int signal)
{
        if (signal)
                notify_stopping();
        if (code == PAWL_CANCELLED && signal)
                return EXIT_SIGNAL + signal;
        if (code == PAWL_CANCELLED && request->leave_with_input)
                return EXIT_DONE;
        if (code != PAWL_BUSY && code != PAWL_TIMEOUT)
                return fail(code, why);
        if ((!settings.quiet || settings.json) && !request->silent) /* flock(1) says nothing; here -q does that */
                say_refused(client, request, name, code, seen);
        signal = claim_signal(signals); /* it may have come while the store was asked */
        return signal ? EXIT_SIGNAL + signal : (int)request->conflict_status;
}

/* One claim, from the request to the answer. */
static int claim_once(struct signals *signals, pawl_client *client, const char *name,
                      const struct claim_request *request, int64_t wait_ms, pawl_lock **lock, struct holders *seen,
                      struct pawl_why *why, int *signal)
{
        struct answer answer = {0};
        struct waiting waiting;
        int code = pawl_acquire_async(
                client, name,
                PAWL_LOCK(.flags = request->flags, .ttl_ms = request->ttl_ms,
                          .mode = request->shared || request->max_holders ? PAWL_SHARED : PAWL_EXCLUSIVE,
                          .max_holders = request->max_holders, .wait_ms = wait_ms,
                          .delay_ms = delay_option(client, request), .note = request->note, .why = why),
                on_granted, &answer, lock);

        if (code != PAWL_OK) {
                *lock = NULL;
                return code;
        }
        waiting_begin(&waiting, client, name, request, &answer.told);
        code = wait_for_answer(signals, client, &answer, &waiting, signal);
        waiting_end(&waiting);
        *seen = waiting.holders;
        if (code == PAWL_OK)
                return PAWL_OK;
        if (!*signal)
                (void)pawl_lock_why(*lock, why);
        pawl_release(*lock); /* also takes back a grant that crossed with the signal */
        *lock = NULL;
        return code;
}

/* What keeps a lock that was busy a moment ago. */
struct keeper {
        bool somebody; /* holds it, or waits */
        int64_t delay_ms;
};

static int see_keeper(const struct pawl_entry *entry, void *arg)
{
        struct keeper *keeper = arg;

        if (entry->role != PAWL_ROLE_FREE || entry->waiters > 0)
                keeper->somebody = true;
        else
                keeper->delay_ms = entry->remaining_ms;
        return 0;
}

/* Whether nothing but the lock-delay of a holder that died keeps it, or nothing any more; then how long to wait. */
static bool is_nobodys(pawl_client *client, const char *name, int64_t *wait_ms)
{
        struct keeper keeper = {0};
        int code;

        if (!(pawl_capabilities(client) & PAWL_CAN_INSPECT))
                return false;
        code = pawl_look(client, name, see_keeper, &keeper);
        /* Free: as the first try. Else the delay, and time for the answer to come. */
        *wait_ms = keeper.delay_ms > 0 ? keeper.delay_ms + answer_ms : PAWL_NO_WAIT;
        return (code == PAWL_OK || code == PAWL_NOT_FOUND) && !keeper.somebody && keeper.delay_ms <= brief_delay_ms;
}

int claim_wait(struct signals *signals, pawl_client *client, const char *name, const struct claim_request *request,
               pawl_lock **lock)
{
        struct pawl_why why = {0};
        struct holders seen = {0};
        int signal = 0;
        int64_t wait_ms;
        int code = claim_once(signals, client, name, request, wait_option(request), lock, &seen, &why, &signal);

        /* -n does not wait for a holder. Nobody holds it here: a job whose last run was killed must not be skipped. */
        if (code == PAWL_BUSY && request->wait_ms == 0 && is_nobodys(client, name, &wait_ms))
                code = claim_once(signals, client, name, request, wait_ms, lock, &seen, &why, &signal);
        if (code != PAWL_OK)
                return exit_status(signals, client, request, name, code, &seen, &why, signal);
        announce_detail(&(struct event){.what = "held", .name = name, .token = pawl_token(*lock)},
                        "'%s' is held, token %llu", name, (unsigned long long)pawl_token(*lock));
        return EXIT_DONE;
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

bool claim_no_wait(const struct option *option, const char *text)
{
        (void)text;
        *(int64_t *)option->target = 0;
        return true;
}

bool claim_exit_code(const struct option *option, const char *text)
{
        char *end;
        long number = strtol(text, &end, 10);

        if (!*text || *end || number < 0 || number > 255) {
                say("--%s wants a number from 0 to 255, not '%s'", option->name, text);
                return false;
        }
        *(uint32_t *)option->target = (uint32_t)number;
        return true;
}

int claim_check(const struct command *command, const struct claim_request *request)
{
        if (request->exclusive && (request->shared || request->max_holders))
                return usage_error(command, "-x cannot go together with -s or -N");
        return EXIT_DONE;
}
