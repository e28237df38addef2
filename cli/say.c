/* say.c - sentences on stderr. Each is one write, so that lines of several processes do not mix, and escaped, because
 * names and owners come from others. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

enum { SENTENCE_MAX = 1024 };

static void __attribute__((format(printf, 1, 0))) say_list(const char *format, va_list list)
{
        char text[SENTENCE_MAX];
        char line[sizeof("pawl: ") + 4 * SENTENCE_MAX + 2] = "pawl: ";
        size_t length;

        vsnprintf(text, sizeof(text), format, list);
        length = strlen(line);
        escape_for_terminal(text, line + length, sizeof(line) - length - 1);
        length = strlen(line);
        line[length++] = '\n';
        if (write(STDERR_FILENO, line, length) < 0)
                return; /* nobody listens; the exit status still speaks */
}

void say(const char *format, ...)
{
        va_list list;

        va_start(list, format);
        say_list(format, list);
        va_end(list);
}

void warn(const char *format, ...)
{
        va_list list;

        if (settings.quiet)
                return;
        va_start(list, format);
        say_list(format, list);
        va_end(list);
}

void detail(const char *format, ...)
{
        va_list list;

        if (!settings.verbose)
                return;
        va_start(list, format);
        say_list(format, list);
        va_end(list);
}

int fail(int code, const struct pawl_why *why)
{
        const char *text = why && why->text[0] ? why->text : pawl_strerror(code);

        switch (code) {
        case PAWL_OK:
                return EXIT_DONE;
        case PAWL_LOST:
                warn("%s", text);
                return EXIT_LOST;
        case PAWL_STALE:
                warn("%s", text);
                return EXIT_STALE;
        default:
                say("%s", text);
                return EXIT_FAILED;
        }
}

/* Is there such a file in PATH, executable or not? */
static bool is_in_path(const char *command)
{
        const char *directory = getenv("PATH");
        char path[4096];

        while (directory && *directory) {
                size_t length = strcspn(directory, ":");

                if (snprintf(path, sizeof(path), "%.*s/%s", (int)length, directory, command) < (int)sizeof(path) &&
                    access(path, F_OK) == 0)
                        return true;
                directory += length + (directory[length] == ':');
        }
        return false;
}

/* execvp says EACCES, too, if it only met a directory of PATH that it may not read. */
int cannot_run(const char *command, int error)
{
        if (error == EACCES && !strchr(command, '/') && !is_in_path(command))
                error = ENOENT;
        say("cannot run '%s': %s", command, strerror(error));
        if (error == EMFILE || error == ENFILE || error == EAGAIN || error == ENOMEM) /* it is not COMMAND's fault */
                return EXIT_FAILED;
        return error == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
}
