/* top_screen.c - the terminal that `pawl top` draws on: taken, given back, and its size. */
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "top.h"

static struct termios cooked;
static bool taken;

/* A terminal that does not know how to move the cursor, as in an editor, would show the commands for that as text. */
bool screen_exists(void)
{
        const char *terminal = getenv("TERM");

        return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !(terminal && !strcmp(terminal, "dumb"));
}

/* One that is not our controlling terminal has no foreground. */
static bool is_in_background(void)
{
        pid_t group = tcgetpgrp(STDIN_FILENO);

        return group >= 0 && group != getpgrp();
}

/* As the kernel does with those who change a terminal from the background; SIGTTOU is blocked here. A job that no shell can
 * continue any more is not stopped by it. */
static bool await_foreground(void)
{
        enum { TRIES = 100 };

        for (int i = 0; i < TRIES && is_in_background(); i++)
                signals_stop(SIGTTOU, false);
        return !is_in_background();
}

bool screen_on(void)
{
        struct termios raw;

        if (!await_foreground() || tcgetattr(STDIN_FILENO, &cooked) != 0)
                return false;
        raw = cooked;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
        fputs("\033[?1049h\033[?25l", stdout);
        fflush(stdout);
        taken = true;
        return true;
}

void screen_off(void)
{
        if (!taken)
                return;
        taken = false;
        fputs("\033[0m\033[?25h\033[?1049l", stdout);
        fflush(stdout);
        tcsetattr(STDIN_FILENO, TCSADRAIN, &cooked);
}

bool screen_again(void)
{
        if (!await_foreground())
                return false;
        screen_off();
        return screen_on();
}

void screen_size(size_t *width, size_t *height)
{
        struct winsize size = {0};

        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || !size.ws_col || !size.ws_row)
                size = (struct winsize){.ws_row = 24, .ws_col = 80};
        *width = size.ws_col;
        *height = size.ws_row;
}
