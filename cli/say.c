/* say.c - messages on stderr. Each is one write, so that lines of several processes do not mix, and escaped, because
 * names and owners come from others. With --log-format json each is an object, with the time. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"

enum { MESSAGE_MAX = 1024 };

static void write_text(const char *text)
{
        char line[sizeof("pawl: ") + 4 * MESSAGE_MAX + 2] = "pawl: ";
        size_t length = strlen(line);

        escape_for_terminal(text, line + length, sizeof(line) - length - 1);
        length = strlen(line);
        line[length++] = '\n';
        if (write(STDERR_FILENO, line, length) < 0)
                return; /* nobody listens; the exit status still speaks */
}

int64_t unix_ms(void)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

static void json_event(FILE *out, const struct event *event)
{
        json_text(out, "event", event->what);
        if (event->name)
                json_text(out, "name", event->name);
        if (event->token)
                json_token(out, "token", event->token);
        if (event->holders)
                json_holders(out, event->holders);
}

static void write_json(const char *level, const struct event *event, const char *text)
{
        char *line = NULL;
        size_t length = 0;
        FILE *out = open_memstream(&line, &length);
        bool outer;

        if (!out) {
                write_text(text);
                return;
        }
        outer = json_interrupt();
        json_open(out, NULL, '{');
        json_time(out, "time", unix_ms());
        json_text(out, "level", level);
        if (event)
                json_event(out, event);
        json_text(out, "message", text);
        json_close(out, '}');
        json_end(out);
        json_resume(outer);
        if (fclose(out) != 0 || write(STDERR_FILENO, line, length) < 0)
                length = 0; /* nobody listens */
        free(line);
}

static void __attribute__((format(printf, 3, 0)))
say_list(const char *level, const struct event *event, const char *format, va_list list)
{
        char text[MESSAGE_MAX];

        vsnprintf(text, sizeof(text), format, list);
        if (settings.log_format == LOG_JSON)
                write_json(level, event, text);
        else
                write_text(text);
}

void say(const char *format, ...)
{
        va_list list;

        va_start(list, format);
        say_list("error", NULL, format, list);
        va_end(list);
}

void say_at(int level, const char *format, ...)
{
        static const char *const levels[] = {"error", "warning", "info", "trace"};
        va_list list;

        va_start(list, format);
        say_list(levels[level >= PAWL_LOG_ERROR && level <= PAWL_LOG_TRACE ? level : PAWL_LOG_ERROR], NULL, format,
                 list);
        va_end(list);
}

void warn(const char *format, ...)
{
        va_list list;

        if (settings.quiet)
                return;
        va_start(list, format);
        say_list("warning", NULL, format, list);
        va_end(list);
}

void announce(const struct event *event, const char *format, ...)
{
        va_list list;

        if (settings.quiet)
                return;
        va_start(list, format);
        say_list("warning", event, format, list);
        va_end(list);
}

void detail(const char *format, ...)
{
        va_list list;

        if (!settings.verbose)
                return;
        va_start(list, format);
        say_list("info", NULL, format, list);
        va_end(list);
}

void announce_detail(const struct event *event, const char *format, ...)
{
        va_list list;

        if (!settings.verbose)
                return;
        va_start(list, format);
        say_list("info", event, format, list);
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
