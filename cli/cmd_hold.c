/* cmd_hold.c - `pawl hold`: a lock for any program that can start another one. It is held while our standard input is open:
 * the kernel closes that when the program ends, however it ends. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "run.h"

static struct claim_request request = {CLAIM_REQUEST, .purpose = "waiting for"};

static const struct option options[] = {
        CLAIM_OPTIONS(request),
        {0},
};

/* One line on standard output, now: the program waits for it. False: it cannot be told. */
static bool print_event(const char *event, pawl_lock *lock, const char *why)
{
        json_open(stdout, NULL, '{');
        json_text(stdout, "event", event);
        json_text(stdout, "name", pawl_name(lock));
        json_token(stdout, "token", pawl_token(lock));
        if (why)
                json_text(stdout, "reason", why);
        else
                json_number(stdout, "remaining_ms", pawl_remaining_ms(lock));
        json_close(stdout, '}');
        json_end(stdout);
        return fflush(stdout) == 0;
}

static int on_lost(pawl_lock *lock)
{
        const char *why = pawl_reason_text(pawl_reason(lock));

        announce(&(struct event){.what = "lost", .name = pawl_name(lock), .token = pawl_token(lock)},
                 "the lock '%s' was lost: %s", pawl_name(lock), why);
        (void)print_event("lost", lock, why);
        return EXIT_LOST;
}

/* A terminal that belongs to another job must not be read: we would be stopped, and the lease not renewed. */
static bool may_read_input(void)
{
        return !isatty(STDIN_FILENO) || terminal_is_ours();
}

/* Until standard input ends, a signal comes, or the lock is lost. Its exit status. */
static int watch(struct signals *signals, pawl_client *client, pawl_lock *lock)
{
        enum { LONGEST_MS = 1000 }; /* then who has the terminal is looked at again */
        int64_t left_ms;

        while (pawl_check(lock) == PAWL_OK) {
                struct pollfd fds[] = {{.fd = pawl_fd(client), .events = POLLIN},
                                       {.fd = signals->fd, .events = POLLIN},
                                       {.fd = may_read_input() ? STDIN_FILENO : -1, .events = POLLIN}};
                int signal;

                left_ms = pawl_remaining_ms(lock);
                if (poll(fds, 3, left_ms < LONGEST_MS ? (int)left_ms + 1 : LONGEST_MS) < 0 && errno != EINTR) {
                        say("cannot wait for standard input: %s", strerror(errno));
                        return EXIT_FAILED;
                }
                signal = claim_signal(signals);
                if (signal)
                        return EXIT_SIGNAL + signal;
                pawl_dispatch(client);
                if (fds[2].revents && input_ends(STDIN_FILENO))
                        return EXIT_DONE;
        }
        return on_lost(lock);
}

static int hold(struct signals *signals, pawl_client *client, pawl_lock *lock)
{
        int status, code;

        if (!print_event("held", lock, NULL)) {
                say("cannot write to standard output: %s; the lock is given back", strerror(errno));
                pawl_release(lock);
                return EXIT_FAILED;
        }
        notify_ready("'%s' is held, token %llu", pawl_name(lock), (unsigned long long)pawl_token(lock));
        status = watch(signals, client, lock);
        notify_stopping();
        if (status == EXIT_LOST) {
                pawl_release(lock);
                return status;
        }
        code = pawl_release(lock);
        if (code == PAWL_LOST) {
                warn("the lock was lost before it was given back");
                return EXIT_LOST;
        }
        if (code != PAWL_OK)
                warn("the lock may stay until its lease ends: %s", pawl_strerror(code));
        return status;
}

/* main() opens something else for a standard descriptor that was closed. */
static bool is_readable(int fd)
{
        int mode = fcntl(fd, F_GETFL);

        return mode >= 0 && (mode & O_ACCMODE) != O_WRONLY;
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        struct signals signals;
        pawl_client *client;
        pawl_lock *lock;
        int status;

        if (!options_read(command, options, argc, argv, &arguments, &status))
                return status;
        if (!is_readable(STDIN_FILENO)) {
                say("standard input is closed: the lock is held while it is open");
                return EXIT_FAILED;
        }
        settings.json = true;     /* what is printed is for a program, refusals too */
        signal(SIGPIPE, SIG_IGN); /* one that nobody reads must not keep its lock until the lease ends */
        request.leave_with_input = true;
        status = claim_check(command, &request);
        if (status != EXIT_DONE)
                return status;
        notify_begin(false);
        if (!signals_begin(&signals))
                return EXIT_FAILED;
        settings.look_ms = CLAIM_LOOK_MS;
        status = client_open(PAWL_DRIVE_CALLER, &client);
        if (status != EXIT_DONE)
                return status;
        status = claim_wait(&signals, client, arguments.word[0], &request, &lock);
        if (lock)
                status = hold(&signals, client, lock);
        pawl_close(client);
        return status;
}

const struct command cmd_hold = {
        .name = "hold",
        .arguments = "NAME",
        .summary = "hold NAME while standard input is open: a lock for any language",
        .details = "Prints one JSON line when it is held: "
                   "{\"event\":\"held\",\"name\":...,\"token\":\"...\",\"remaining_ms\":...}\n"
                   "and one more if it is lost: {\"event\":\"lost\",...,\"reason\":...}. Renews the lease meanwhile. "
                   "What is\n"
                   "written to its standard input is ignored; when that ends, the lock is released.\n"
                   "Status: 0 released; 1 (-E) not free; 123 lost; 125 pawl failed; 128+N signal N ended it.",
        .flags = COMMAND_ENGINE,
        .words_min = 1,
        .words_max = 1,
        .run = run,
};
