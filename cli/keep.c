/* keep.c - while COMMAND runs: the lock is kept, signals are passed on, and COMMAND is gone before another may hold it.
 *
 *   RUNNING --lost, about to be, or held too long--> TOLD --its time is up--> KILLED
 *      |                                              |                         |
 *      +--------------- COMMAND has ended ------------+-------------------------+----> its status
 *
 * After TOLD the rest of COMMAND's group is waited for as well: it had the same signal and the same time. */
#include <errno.h>
#include <poll.h>
#include <time.h>
#include <unistd.h>

#include "run.h"

enum stage { RUNNING, TOLD, KILLED };

struct keeper {
        const struct keep_options *options;
        struct signals *signals;
        pawl_client *client;
        pawl_lock *lock;
        struct child *child;
        struct watchdog *dog;
        enum stage stage;
        bool lost;     /* or about to be, and COMMAND was told so */
        bool said;     /* that it is lost */
        bool asked;    /* by another client, and that was said */
        bool released; /* a signal has ended --hold-at-least */
        bool stop_passed_on;
        int64_t began_at;
        int64_t kill_at; /* from TOLD on */
};

enum { MS = 1000000 };
static const int64_t group_check_ns = 10 * MS; /* nothing tells us that a group is empty */
static const int64_t killed_wait_ns = 1000 * (int64_t)MS;

int64_t now_ns(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_BOOTTIME, &ts); /* MONOTONIC stands still while suspended; leases do not */
        return ts.tv_sec * (int64_t)1000000000 + ts.tv_nsec;
}

/* ---- making COMMAND end ----------------------------------------------------------------------------------------- */

static void kill_command(struct keeper *keeper, int64_t now)
{
        child_inherit();
        keeper->stage = KILLED;
        keeper->kill_at = now;
        child_signal(keeper->child, SIGKILL);
}

/* One that is stopped could not obey any other signal, and must not be continued without its lock. */
static bool is_killed_at_once(const struct keeper *keeper, int signal)
{
        return signal == SIGKILL || keeper->child->stopped_by;
}

static void tell_command(struct keeper *keeper, int signal, int64_t now, int64_t kill_at)
{
        if (is_killed_at_once(keeper, signal)) {
                kill_command(keeper, now);
                return;
        }
        child_inherit();
        keeper->stage = TOLD;
        keeper->kill_at = kill_at;
        child_signal(keeper->child, signal);
}

/* What becomes of COMMAND when the lock is lost. */
static void what_is_done(const struct keeper *keeper, char *text, size_t size)
{
        const struct keep_options *options = keeper->options;
        char after[24];

        if (keeper->child->ended)
                snprintf(text, size, "the command has ended already");
        else if (keeper->stage != RUNNING)
                snprintf(text, size, "the command is being ended already");
        else if (!options->lost_signal)
                snprintf(text, size, "the command runs on without it (--on-lost ignore)");
        else if (is_killed_at_once(keeper, options->lost_signal))
                snprintf(text, size, "the command was killed");
        else
                snprintf(text, size, "the command was sent %s, and is killed in %s if it has not ended",
                         signal_name(options->lost_signal), duration_text(options->kill_after_ms, after));
}

static void on_lost(struct keeper *keeper, int64_t now)
{
        const struct keep_options *options = keeper->options;

        char done[128];

        keeper->lost = keeper->said = true;
        what_is_done(keeper, done, sizeof(done));
        if (keeper->stage == RUNNING && !keeper->child->ended && options->lost_signal)
                tell_command(keeper, options->lost_signal, now, now + options->kill_after_ms * MS);
        notify_status("'%s' was lost: %s", pawl_name(keeper->lock), pawl_reason_text(pawl_reason(keeper->lock)));
        announce(&(struct event){.what = "lost", .name = pawl_name(keeper->lock), .token = pawl_token(keeper->lock)},
                 "the lock '%s' was lost: %s; %s", pawl_name(keeper->lock), pawl_reason_text(pawl_reason(keeper->lock)),
                 done);
}

/* What is said may have to wait for whoever reads it: COMMAND is ended first. */
static void end_command(struct keeper *keeper, int signal, int64_t now, int64_t ms, const char *because)
{
        struct event event = {.what = "ending", .name = pawl_name(keeper->lock)};
        bool killed = is_killed_at_once(keeper, signal);
        char after[24];

        tell_command(keeper, signal, now, now + ms * MS);
        if (killed)
                announce(&event, "%s: the command was killed", because);
        else
                announce(&event, "%s: the command was sent %s, and is killed in %s if it has not ended", because,
                         signal_name(signal), duration_text(ms, after));
}

static void on_ending(struct keeper *keeper, int64_t now, int64_t remaining_ms)
{
        char because[PAWL_NAME_MAX + 128], left[24];

        keeper->lost = true;
        snprintf(because, sizeof(because), "the lease of '%s' %s and ends in %s", pawl_name(keeper->lock),
                 keeper->options->no_renew ? "is not renewed" : "could not be renewed",
                 duration_text(remaining_ms, left));
        end_command(keeper, keeper->options->lost_signal, now, remaining_ms, because);
}

static void on_held_too_long(struct keeper *keeper, int64_t now)
{
        char because[PAWL_NAME_MAX + 64];

        snprintf(because, sizeof(because), "'%s' was held for as long as --max-hold allows", pawl_name(keeper->lock));
        end_command(keeper, SIGTERM, now, keeper->options->kill_after_ms, because);
}

/* Its time was up. */
static void kill_late_command(struct keeper *keeper, int64_t now)
{
        kill_command(keeper, now);
        warn("the command under '%s' did not end in time and was killed", pawl_name(keeper->lock));
}

/* ---- what time it is -------------------------------------------------------------------------------------------- */

static bool lease_is_ending(const struct keeper *keeper, int64_t remaining_ms)
{
        const struct keep_options *options = keeper->options;

        if (remaining_ms > options->kill_after_ms || !options->lost_signal)
                return false;
        return options->no_renew || pawl_state(keeper->lock) == PAWL_UNCERTAIN;
}

static void look_at_lock(struct keeper *keeper, int64_t now)
{
        int64_t remaining_ms = pawl_remaining_ms(keeper->lock);

        if (keeper->said)
                return;
        if (pawl_check(keeper->lock) != PAWL_OK)
                on_lost(keeper, now);
        else if (keeper->stage == RUNNING && !keeper->child->ended && lease_is_ending(keeper, remaining_ms))
                on_ending(keeper, now, remaining_ms);
}

/* COMMAND is told once; whether it ends, and when, is its own business. */
static void look_for_requests(struct keeper *keeper)
{
        int signal = keeper->options->asked_signal;

        if (keeper->asked || keeper->said || keeper->stage != RUNNING || keeper->child->ended ||
            !pawl_asked(keeper->lock))
                return;
        keeper->asked = true;
        if (signal)
                child_signal(keeper->child, signal);
        announce(&(struct event){.what = "asked", .name = pawl_name(keeper->lock)},
                 signal ? "another client asks for '%s': the command was sent %s" : "another client asks for '%s'%s",
                 pawl_name(keeper->lock), signal ? signal_name(signal) : "");
}

static void look_at_clock(struct keeper *keeper, int64_t now)
{
        const struct keep_options *options = keeper->options;

        if (keeper->stage == RUNNING && options->at_most_ms && !keeper->child->ended &&
            now >= keeper->began_at + options->at_most_ms * MS)
                on_held_too_long(keeper, now);
        if (keeper->stage == TOLD && now >= keeper->kill_at)
                kill_late_command(keeper, now);
}

/* The clock is read first: should we be stopped in between, the deadline comes out too early, not too late. */
int64_t keep_deadline(pawl_lock *lock, const struct keep_options *options)
{
        int64_t now = now_ns();

        return options->lost_signal ? now + pawl_remaining_ms(lock) * MS : INT64_MAX;
}

/* When the watchdog must act in our place. */
static void set_watchdog(struct keeper *keeper)
{
        int64_t deadline = keeper->stage == RUNNING ? keep_deadline(keeper->lock, keeper->options) : keeper->kill_at;

        watchdog_guard(keeper->dog, keeper->child->pid, deadline);
}

static int64_t earlier(int64_t a, int64_t b)
{
        return a < b ? a : b;
}

/* When something is due that no descriptor will tell. */
static int64_t next_time(const struct keeper *keeper, int64_t now)
{
        const struct keep_options *options = keeper->options;
        int64_t next = INT64_MAX;
        int64_t spare_ms;

        if (keeper->child->ended)
                return keeper->stage == RUNNING ? keeper->began_at + options->at_least_ms * MS : now + group_check_ns;
        if (keeper->stage == TOLD)
                return keeper->kill_at;
        if (keeper->stage == KILLED)
                return INT64_MAX;
        if (options->at_most_ms)
                next = keeper->began_at + options->at_most_ms * MS;
        spare_ms = pawl_remaining_ms(keeper->lock) - options->kill_after_ms;
        if (!keeper->said && options->lost_signal && spare_ms > 0)
                next = earlier(next, now + spare_ms * MS);
        return next;
}

/* ---- signals ---------------------------------------------------------------------------------------------------- */

static void continue_command(struct keeper *keeper)
{
        keeper->child->had_terminal |= terminal_give(keeper->child->pid);
        keeper->child->stopped_by = 0;
        child_signal(keeper->child, SIGCONT);
}

/* Nobody renews while we are stopped: a lock that was lost meanwhile must not have its command continued. */
static void stop_with_command(struct keeper *keeper, bool whole_job)
{
        terminal_take_back(keeper->child->pid);
        signals_stop(keeper->child->stopped_by, whole_job);
        keeper->stop_passed_on = false;
        pawl_dispatch(keeper->client);
        look_at_lock(keeper, now_ns());
        if (keeper->stage == RUNNING)
                continue_command(keeper);
}

/* COMMAND was stopped. By ^Z, or for want of the terminal, which it gets if that is ours to give: then our whole job stops,
 * as its shell expects. By a signal that came through us: the others of our job have had it already. By SIGSTOP, or where
 * there is no terminal: that is somebody else's business, and the lock is kept. */
static void on_stopped(struct keeper *keeper)
{
        struct child *child = keeper->child;
        bool wants_terminal = child->stopped_by == SIGTTIN || child->stopped_by == SIGTTOU;

        if (wants_terminal && terminal_is_ours())
                continue_command(keeper);
        else if (wants_terminal || (child->stopped_by == SIGTSTP && terminal_is_of(child->pid)))
                stop_with_command(keeper, true);
        else if (child->stopped_by == SIGTSTP && keeper->stop_passed_on && terminal_exists())
                stop_with_command(keeper, false);
}

static void on_child(struct keeper *keeper)
{
        watchdog_look(keeper->dog);
        child_look(keeper->child);
        if (!keeper->child->ended && keeper->child->stopped_by && keeper->stage == RUNNING)
                on_stopped(keeper);
}

static void pass_on(struct keeper *keeper, int signal)
{
        if (signal == SIGTSTP || signal == SIGCONT)
                keeper->stop_passed_on = signal == SIGTSTP;
        child_signal(keeper->child, signal);
}

static void on_signal(struct keeper *keeper, int signal)
{
        if (signal == SIGTERM)
                notify_stopping();
        if (signal == SIGCHLD)
                on_child(keeper);
        else if (keeper->child->ended)
                keeper->released |= signal_ends(signal);
        else if (signal != SIGCONT || keeper->stage == RUNNING)
                pass_on(keeper, signal);
}

/* ---- the loop --------------------------------------------------------------------------------------------------- */

static void wait_for_news(struct keeper *keeper, int64_t until)
{
        struct pollfd fds[] = {{.fd = pawl_fd(keeper->client), .events = POLLIN},
                               {.fd = keeper->signals->fd, .events = POLLIN}};
        int64_t left = until - now_ns();
        struct timespec timeout = {left / 1000000000, left % 1000000000};
        int signal;

        if (left < 0)
                timeout = (struct timespec){0};
        if (ppoll(fds, 2, until == INT64_MAX ? NULL : &timeout, NULL) < 0)
                return;
        if (fds[0].revents)
                pawl_dispatch(keeper->client);
        while (fds[1].revents && (signal = signals_next(keeper->signals)) != 0)
                on_signal(keeper, signal);
}

static void look(struct keeper *keeper)
{
        int64_t now = now_ns();

        look_at_lock(keeper, now);
        look_for_requests(keeper);
        look_at_clock(keeper, now);
        if (keeper->child->ended)
                return;
        set_watchdog(keeper);
}

static void while_it_runs(struct keeper *keeper)
{
        for (look(keeper); !keeper->child->ended; look(keeper))
                wait_for_news(keeper, next_time(keeper, now_ns()));
}

/* It was told to end, and has; the rest of its group has the same time. */
static void while_its_group_runs(struct keeper *keeper)
{
        while (!child_group_gone(keeper->child)) {
                int64_t now = now_ns();

                if (keeper->stage == TOLD && now >= keeper->kill_at)
                        kill_late_command(keeper, now);
                else if (keeper->stage == KILLED && now >= keeper->kill_at + killed_wait_ns)
                        break; /* a process that not even SIGKILL ends hangs in the kernel; waiting changes nothing */
                wait_for_news(keeper, now + group_check_ns);
        }
}

static void while_held_at_least(struct keeper *keeper)
{
        int64_t until = keeper->began_at + keeper->options->at_least_ms * MS;

        while (!keeper->lost && !keeper->released && now_ns() < until) {
                wait_for_news(keeper, until);
                look_at_lock(keeper, now_ns());
        }
}

bool keep(struct signals *signals, pawl_client *client, pawl_lock *lock, struct child *child, struct watchdog *dog,
          const struct keep_options *options)
{
        struct keeper keeper = {.options = options,
                                .signals = signals,
                                .client = client,
                                .lock = lock,
                                .child = child,
                                .dog = dog,
                                .stage = RUNNING,
                                .began_at = now_ns()};

        while_it_runs(&keeper);
        terminal_take_back(child->pid);
        if (keeper.stage == RUNNING)
                watchdog_end(dog); /* first: the number is COMMAND's only until it is reaped */
        child_reap(child);
        if (keeper.stage != RUNNING)
                while_its_group_runs(&keeper);
        watchdog_end(dog);
        while_held_at_least(&keeper);
        return keeper.lost;
}
