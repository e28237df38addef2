/* say.c - sentences on stderr. Each is one write, so that lines of several processes do not mix, and escaped, because
 * names and owners come from others. */
#include <stdarg.h>
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
        case PAWL_BUSY:
        case PAWL_TIMEOUT:
                detail("%s", text); /* flock(1) is silent here, and cron mails what is not */
                return EXIT_CONFLICT;
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
