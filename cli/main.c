/* main.c - the command `pawl`: finds the command that is meant and lets it run. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static const struct command *const commands[] = {
        &cmd_run,   &cmd_acquire, &cmd_renew, &cmd_release, &cmd_ls,  &cmd_show,    &cmd_break,
        &cmd_fence, &cmd_put,     &cmd_get,   &cmd_top,     &cmd_ttl, &cmd_engines, &cmd_demo,
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *out)
{
        fputs("usage: pawl COMMAND [options] ...\n\nLocks across processes and machines, with fencing tokens.\n\n",
              out);
        for (size_t i = 0; i < COMMANDS; i++)
                fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
        fputs("\n'pawl COMMAND --help' says more; so do pawl(1) and pawl-run(1).\n", out);
}

static const struct command *find_command(const char *name)
{
        for (size_t i = 0; i < COMMANDS; i++)
                if (!strcmp(commands[i]->name, name))
                        return commands[i];
        return NULL;
}

/* A result that could not be written was not given: say so, whatever the command did. */
static int finish(int status)
{
        if (fflush(stdout) == 0 && !ferror(stdout))
                return status;
        say("cannot write to standard output: %s", strerror(errno));
        return status == EXIT_DONE ? EXIT_FAILED : status;
}

/* A store opened as descriptor 1 or 2 would be written over by the next message. COMMAND finds them closed, as we did. */
static bool standard_descriptors(void)
{
        for (int fd = 0; fd <= 2; fd++)
                if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", (fd ? O_WRONLY : O_RDONLY) | O_CLOEXEC) != fd)
                        return false;
        return true;
}

int main(int argc, char **argv)
{
        const struct command *command;

        if (!standard_descriptors())
                return EXIT_FAILED;
        if (argc < 2) {
                print_help(stderr);
                return EXIT_FAILED;
        }
        if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) {
                print_help(stdout);
                return finish(EXIT_DONE);
        }
        if (!strcmp(argv[1], "--version")) {
                printf("pawl %s\n", pawl_version());
                return finish(EXIT_DONE);
        }
        command = find_command(argv[1]);
        if (!command) {
                say("there is no command '%s'; 'pawl --help' lists them", argv[1]);
                return EXIT_FAILED;
        }
        return finish(command->run(command, argc - 2, argv + 2));
}
