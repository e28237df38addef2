/* child.c - COMMAND: its start, its group, its end. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

struct launch {
        char **argv;
        const struct signals *signals;
        const struct watchdog *dog;
        int64_t deadline;
        pid_t parent;
        bool terminal;
        int report; /* a pipe that closes when COMMAND has begun, or brings the errno */
};

static void report(const struct launch *launch, int error)
{
        if (write(launch->report, &error, sizeof(error)) < 0)
                _exit(EXIT_FAILED);
        _exit(EXIT_NOT_FOUND);
}

/* Between vfork and exec: system calls only, and nothing of ours may be written to. pawl may be stopped at any moment, also
 * before this one, and for long: so it is COMMAND's own process that sets the watchdog on itself, and looks at the clock
 * after that. */
static void become(const struct launch *launch)
{
        setpgid(0, 0);
        /* Should we be killed, so is it. The parent may already be gone: then nobody will send that signal. */
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != launch->parent)
                _exit(EXIT_FAILED);
        if (launch->terminal)
                tcsetpgrp(STDIN_FILENO, getpid());
        if (!watchdog_guard_me(launch->dog, launch->deadline))
                report(launch, errno);
        if (now_ns() >= launch->deadline)
                report(launch, ETIME);
        signals_restore(launch->signals);
        execvp(launch->argv[0], launch->argv);
        report(launch, errno);
}

static pid_t launch_child(const struct launch *launch)
{
        pid_t pid = vfork(); /* half the cost of fork, which copies the page tables of the store */

        if (pid == 0)
                become(launch);
        return pid;
}

int child_start(struct child *child, char **argv, const struct signals *signals, struct watchdog *dog, int64_t deadline)
{
        struct launch launch = {.argv = argv,
                                .signals = signals,
                                .dog = dog,
                                .deadline = deadline,
                                .parent = getpid(),
                                .terminal = terminal_at_once()};
        int ends[2];
        int error = 0;

        if (pipe2(ends, O_CLOEXEC) != 0)
                return errno;
        launch.report = ends[1];
        *child = (struct child){.pid = launch_child(&launch), .had_terminal = launch.terminal};
        if (child->pid < 0)
                error = errno;
        close(ends[1]);
        if (child->pid > 0 && read(ends[0], &error, sizeof(error)) == sizeof(error)) {
                waitpid(child->pid, NULL, 0);
                terminal_take_back(child->pid);
        }
        close(ends[0]);
        dog->group = child->pid;
        dog->deadline = deadline;
        return error;
}

static void look_for_stops(struct child *child)
{
        siginfo_t info;

        for (;;) {
                info.si_pid = 0;
                if (waitid(P_PID, (id_t)child->pid, &info, WSTOPPED | WCONTINUED | WNOHANG) != 0 || !info.si_pid)
                        return;
                child->stopped_by = info.si_code == CLD_STOPPED ? info.si_status : 0;
        }
}

void child_look(struct child *child)
{
        siginfo_t info = {.si_pid = 0};

        if (child->ended)
                return;
        look_for_stops(child);
        if (waitid(P_PID, (id_t)child->pid, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || !info.si_pid)
                return;
        child->ended = true;
        child->how = info.si_code;
        child->status = info.si_status;
}

void child_reap(struct child *child)
{
        while (waitpid(child->pid, NULL, 0) < 0 && errno == EINTR)
                continue;
}

void child_signal(const struct child *child, int signal)
{
        kill(-child->pid, signal);
        if (!child->ended && getpgid(child->pid) != child->pid)
                kill(child->pid, signal);
}

void child_inherit(void)
{
        prctl(PR_SET_CHILD_SUBREAPER, 1);
}

/* The dead count as members until somebody has reaped them, and an init may take its time. */
bool child_group_gone(const struct child *child)
{
        while (waitpid(-child->pid, NULL, WNOHANG) > 0)
                continue;
        return kill(-child->pid, 0) != 0 && errno == ESRCH;
}

int child_exit_status(const struct child *child)
{
        return child->how == CLD_EXITED ? child->status : EXIT_SIGNAL + child->status;
}
