/* terminal.c - which process group is in the foreground of the terminal. SIGTTOU is blocked here, so that we may hand the
 * terminal around from the background. */
#include <fcntl.h>
#include <unistd.h>

#include "run.h"

/* The controlling terminal, on standard input or, if that is something else, by its name; -1 if there is none. */
static int terminal(void)
{
        static int fd = -2;

        if (fd == -2)
                fd = isatty(STDIN_FILENO) ? STDIN_FILENO : open("/dev/tty", O_RDWR | O_CLOEXEC | O_NOCTTY);
        return fd;
}

bool terminal_exists(void)
{
        return terminal() >= 0;
}

bool terminal_is_of(pid_t group)
{
        int fd = terminal();

        return fd >= 0 && tcgetpgrp(fd) == group;
}

bool terminal_is_ours(void)
{
        return terminal_is_of(getpgrp());
}

/* With a pipe on the output another program of the job, a pager perhaps, needs the terminal more. */
bool terminal_at_once(void)
{
        return isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && terminal_is_ours();
}

bool terminal_give(pid_t group)
{
        return terminal_is_ours() && tcsetpgrp(terminal(), group) == 0;
}

void terminal_take_back(pid_t group)
{
        if (terminal_is_of(group))
                tcsetpgrp(terminal(), getpgrp());
}
