/* cmd_completion.c - `pawl completion`: the scripts by which shells complete our command lines, and what these scripts
 * call. */
#include <string.h>

#include "cli.h"

static int print_script(const struct command *command, const char *shell)
{
        static const struct {
                const char *shell, *script;
        } scripts[] = {{"bash", completion_bash}, {"zsh", completion_zsh}, {"fish", completion_fish}};

        for (size_t i = 0; i < sizeof(scripts) / sizeof(scripts[0]); i++)
                if (!strcmp(scripts[i].shell, shell)) {
                        fputs(scripts[i].script, stdout);
                        return EXIT_DONE;
                }
        return usage_error(command, "there is no completion for '%s', only for bash, zsh and fish", shell);
}

static int run(const struct command *command, int argc, char **argv)
{
        struct arguments arguments;
        int status, count = 0;

        if (!options_read(command, NULL, argc, argv, &arguments, &status))
                return status;
        if (arguments.words && arguments.command)
                return usage_error(command, "a shell or words, not both");
        if (arguments.words)
                return print_script(command, arguments.word[0]);
        if (!arguments.command)
                return usage_error(command, "completion wants a shell: bash, zsh or fish");
        while (arguments.command[count])
                count++;
        return complete(count, arguments.command);
}

const struct command cmd_completion = {
        .name = "completion",
        .arguments = "bash|zsh|fish | -- WORD...",
        .summary = "print the script by which a shell completes our command lines",
        .details = "Installed with pawl; by hand: source <(pawl completion bash), the same with zsh, and with fish\n"
                   "pawl completion fish | source. Behind -- stand the words of a command line, and what may come in "
                   "place\n"
                   "of the last one is printed: that is what the scripts call.",
        .flags = COMMAND_DASHES,
        .words_max = 1,
        .run = run,
};
