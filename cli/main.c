/* main.c - the command `pawl`: finds the command that is meant and lets it run. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

static const struct command cmd_help, cmd_version;

static const struct command *const commands[] = {
        &cmd_run,     &cmd_elect,  &cmd_once,  &cmd_limit, &cmd_hold,   &cmd_acquire, &cmd_renew,
        &cmd_release, &cmd_ls,     &cmd_show,  &cmd_watch, &cmd_ask,    &cmd_break,   &cmd_fence,
        &cmd_put,     &cmd_get,    &cmd_marks, &cmd_prune, &cmd_forget, &cmd_top,     &cmd_ttl,
        &cmd_engines, &cmd_doctor, &cmd_init,  &cmd_demo,  &cmd_help,   &cmd_version, &cmd_completion,
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(FILE *out)
{
        fputs("usage: pawl [-e URL] COMMAND [options] ...\n\nLocks across processes and machines, with fencing "
              "tokens.\n\n",
              out);
        for (size_t i = 0; i < COMMANDS; i++)
                fprintf(out, "  %-10s %s\n", commands[i]->name, commands[i]->summary);
        fputs("\n'pawl help COMMAND' says more; so do the pages pawl(1) and pawl-COMMAND(1).\n", out);
}

const struct command *command_at(size_t index)
{
        return index < COMMANDS ? commands[index] : NULL;
}

const struct command *command_of_name(const char *name)
{
        for (size_t i = 0; i < COMMANDS; i++)
                if (!strcmp(commands[i]->name, name))
                        return commands[i];
        return NULL;
}

static const char *command_name(size_t index)
{
        return index < COMMANDS ? commands[index]->name : NULL;
}

/* There is no such command. A URL that stands there, without -e, may have a password. */
static int unknown_command(const char *word)
{
        const char *near = near_miss(word, command_name);
        char *name = strstr(word, "://") ? url_without_secrets(word) : strdup(word);

        if (!name)
                return fail(PAWL_NO_MEMORY, NULL);
        if (near)
                say("there is no command '%s'; did you mean '%s'?", name, near);
        else
                say("there is no command '%s'; 'pawl --help' lists them", name);
        free(name);
        return EXIT_FAILED;
}

/* ---- help and version -------------------------------------------------------------------------------------------- */

static int help(const struct command *self, int argc, char **argv)
{
        static char asked[] = "--help";
        char *asking[] = {asked, NULL};
        const struct command *command;
        struct arguments arguments;
        int status;

        if (!options_read(self, NULL, argc, argv, &arguments, &status))
                return status;
        if (!arguments.words) {
                print_help(stdout);
                return EXIT_DONE;
        }
        command = command_of_name(arguments.word[0]);
        return command ? command->run(command, 1, asking) : unknown_command(arguments.word[0]);
}

static const struct command cmd_help = {
        .name = "help",
        .arguments = "[COMMAND]",
        .summary = "the commands, or the options of one",
        .words_max = 1,
        .run = help,
};

static void print_version(void)
{
        printf("pawl %s\n", pawl_version());
}

static int version(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        int status;

        if (!options_read(command, NULL, argc, argv, &arguments, &status))
                return status;
        print_version();
        return EXIT_DONE;
}

static const struct command cmd_version = {
        .name = "version",
        .arguments = "",
        .summary = "the version of pawl",
        .run = version,
};

/* ---- the command line -------------------------------------------------------------------------------------------- */

/* A result that could not be written was not given: say so, whatever the command did, unless it has said why it failed. */
static int finish(int status)
{
        if ((fflush(stdout) == 0 && !ferror(stdout)) || status == EXIT_FAILED)
                return status;
        say("cannot write to standard output: %s", strerror(errno));
        return status == EXIT_DONE ? EXIT_FAILED : status;
}

/* A store opened as descriptor 1 or 2 would be written over by the next message. COMMAND finds them closed, as we did. What
 * stands in for 0 cannot be read, and for 1 cannot be written: a closed input is not an empty one, and a lease that nobody
 * can read was not handed out. */
static bool standard_descriptors(void)
{
        static const int modes[] = {O_WRONLY, O_RDONLY, O_WRONLY};

        for (int fd = 0; fd <= 2; fd++)
                if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", modes[fd] | O_CLOEXEC) != fd)
                        return false;
        return true;
}

/* `pawl -e URL run ...` is `pawl run -e URL ...`: the command comes first, and its own options say whether the others
 * belong to it. False: there are options only. */
static bool command_first(int argc, char **argv)
{
        int leading = options_leading(argc, argv);
        char *command = argv[leading + 1];

        if (!command)
                return false;
        memmove(argv + 2, argv + 1, (size_t)leading * sizeof(*argv));
        argv[1] = command;
        return true;
}

static bool has_word(char **argv, const char *word, const char *other)
{
        for (argv++; *argv; argv++)
                if (!strcmp(*argv, word) || !strcmp(*argv, other))
                        return true;
        return false;
}

/* Options only. */
static int without_command(char **argv)
{
        if (has_word(argv, "--version", "--version")) {
                print_version();
                return finish(EXIT_DONE);
        }
        if (has_word(argv, "--help", "-h")) {
                print_help(stdout);
                return finish(EXIT_DONE);
        }
        say("there is no command; 'pawl --help' lists them");
        return EXIT_FAILED;
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
        if (!command_first(argc, argv))
                return without_command(argv);
        command = command_of_name(argv[1]);
        if (!command)
                return unknown_command(argv[1]);
        return finish(command->run(command, argc - 2, argv + 2));
}
