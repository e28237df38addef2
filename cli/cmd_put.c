/* cmd_put.c - `pawl put`: a fenced write of what comes on standard input, or of what COMMAND prints; or one that is made
 * only if the version is still the one that was read. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "store.h"

/* What is to be written. */
struct input {
        char *data;
        size_t size;
};

/* Everything, before the guard is asked: half a resource is never written. */
static bool read_all(int fd, const char *what, struct input *input)
{
        size_t room = 0;
        ssize_t got;

        do {
                if (input->size == room) {
                        char *more = realloc(input->data, room = room ? 2 * room : 65536);

                        if (!more) {
                                say("%s is too large for the memory", what);
                                return false;
                        }
                        input->data = more;
                }
                got = read(fd, input->data + input->size, room - input->size);
                if (got > 0)
                        input->size += (size_t)got;
        } while (got > 0 || (got < 0 && errno == EINTR));
        if (got < 0)
                say("cannot read %s: %s", what, strerror(errno));
        return got == 0;
}

/* ---- COMMAND ----------------------------------------------------------------------------------------------------- */

/* Its standard output is the pipe's end, and it gets no secrets from us. An errno. */
static int start(char **argv, int output, pid_t *pid)
{
        posix_spawn_file_actions_t actions;
        int error;

        signal(SIGCHLD, SIG_DFL); /* if it is ignored, nobody learns how the command ended */
        if (!hide_password("PAWL_STORE") || !hide_password("PAWL_URL"))
                return errno;
        error = posix_spawn_file_actions_init(&actions);
        if (error)
                return error;
        error = posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
        if (!error)
                error = posix_spawnp(pid, argv[0], &actions, NULL, argv, environ);
        posix_spawn_file_actions_destroy(&actions);
        return error;
}

static int end_of(pid_t pid)
{
        int status = 0;
        pid_t ended;

        do {
                ended = waitpid(pid, &status, 0);
        } while (ended < 0 && errno == EINTR);
        if (ended < 0) {
                say("cannot learn how the command ended: %s", strerror(errno));
                return EXIT_FAILED;
        }
        return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_SIGNAL + WTERMSIG(status);
}

/* What COMMAND prints. Its status if that is not 0: then nothing is written. */
static int read_command(char **argv, const char *resource, struct input *input)
{
        int ends[2];
        pid_t pid;
        bool whole;
        int error, status;

        if (pipe2(ends, O_CLOEXEC) != 0) {
                say("cannot run '%s': %s", argv[0], strerror(errno));
                return EXIT_FAILED;
        }
        error = start(argv, ends[1], &pid);
        close(ends[1]);
        whole = error == 0 && read_all(ends[0], "what the command prints", input);
        close(ends[0]);
        if (error)
                return cannot_run(argv[0], error);
        status = end_of(pid);
        if (status != EXIT_DONE)
                warn("'%s' failed with status %d: '%s' is as it was", argv[0], status, resource);
        return status == EXIT_DONE && !whole ? EXIT_FAILED : status;
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static const char *if_version;

static const struct option options[] = {
        STORE_OPTION,
        STORE_FORCE,
        {0, "if-version", "VERSION", "in place of TOKEN: only if RESOURCE is at VERSION, as 'pawl get -V' prints it",
         option_text, &if_version},
        {0},
};

static int write_data(pawl_guard *guard, const char *resource, uint64_t number, const struct input *input)
{
        struct pawl_why why = {0};
        int code = if_version ? pawl_guard_swap(guard, resource, number, input->data, input->size, &why, NULL)
                              : pawl_guard_put(guard, resource, number, input->data, input->size, &why);

        return fail(code, &why);
}

/* argv: COMMAND, or NULL. */
static int put(pawl_guard *guard, const char *resource, uint64_t number, char **argv)
{
        struct input input = {0};
        int status = EXIT_DONE;

        if (argv)
                status = read_command(argv, resource, &input);
        else if (!read_all(STDIN_FILENO, "standard input", &input))
                status = EXIT_FAILED;
        if (status == EXIT_DONE)
                status = write_data(guard, resource, number, &input);
        free(input.data);
        return status;
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        pawl_guard *guard;
        uint64_t number;
        int status;

        if (!options_read(command, options, argc, argv, &arguments, &status))
                return status;
        if (if_version && arguments.words > 1)
                return usage_error(command, "with --if-version there is no TOKEN, '%s' is too much", arguments.word[1]);
        if (!if_version && arguments.words < 2)
                return usage_error(command, "put wants RESOURCE and TOKEN, or --if-version VERSION and RESOURCE");
        if (arguments.command && !has_command(&arguments))
                return usage_error(command, "put wants a COMMAND behind --");
        if (if_version && !store_version(if_version, &number))
                return EXIT_FAILED;
        if (!store_open(command, if_version ? NULL : arguments.word[1], &guard, &number, &status))
                return status;
        status = put(guard, arguments.word[0], number, arguments.command);
        pawl_guard_close(guard);
        return status;
}

const struct command cmd_put = {
        .name = "put",
        .arguments = "--store STORE RESOURCE TOKEN | --if-version VERSION RESOURCE [-- COMMAND [ARG...]] < DATA",
        .summary = "replace RESOURCE by standard input or COMMAND's output, unless TOKEN is stale",
        .details =
                "The check and the write are one: whole or not at all. With COMMAND, what it prints is written when it "
                "has\n"
                "ended with status 0, and else nothing. In 'COMMAND | pawl put ...' nobody sees that COMMAND failed, "
                "and half\n"
                "of its output, or nothing, is written.\n" STORE_DETAILS
                "Status: 0 written; COMMAND's if that failed; 124 the token or the version is stale and nothing has "
                "changed;\n125 pawl failed; 126, 127 COMMAND cannot be executed, was not found.",
        .flags = COMMAND_DASHES,
        .words_min = 1,
        .words_max = 2,
        .run = run,
};
