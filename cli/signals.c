/* signals.c - signals as something to read: blocked first, then taken from one descriptor. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "run.h"

static const int watched[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT, SIGWINCH};
enum { WATCHED = sizeof(watched) / sizeof(watched[0]) };

static bool is_ignored(int signal)
{
        struct sigaction action;

        return sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN;
}

/* A blocked signal is queued even if it is ignored: what nohup ignores for us must not be in the set at all. */
static void watched_set(sigset_t *set)
{
        sigemptyset(set);
        for (size_t i = 0; i < WATCHED; i++)
                if (!is_ignored(watched[i]))
                        sigaddset(set, watched[i]);
        sigaddset(set, SIGCHLD);
}

bool signals_begin(struct signals *signals)
{
        struct sigaction by_default = {.sa_handler = SIG_DFL};
        sigset_t set, blocked;

        watched_set(&set);
        sigaction(SIGCHLD, &by_default, &signals->original_chld); /* ignored, children vanish without a status */
        blocked = set;
        sigaddset(&blocked, SIGPIPE); /* a watchdog that is gone is an error code, not our end */
        sigaddset(&blocked, SIGTTOU); /* tcsetpgrp from the background */
        sigprocmask(SIG_BLOCK, &blocked, &signals->original_mask);
        signals->ended_by = 0;
        signals->fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
        if (signals->fd < 0)
                say("cannot watch for signals: %s", strerror(errno));
        return signals->fd >= 0;
}

int signals_next(struct signals *signals)
{
        struct signalfd_siginfo info;
        int signal = read(signals->fd, &info, sizeof(info)) == sizeof(info) ? (int)info.ssi_signo : 0;

        if (signal == SIGINT || signal == SIGTERM || signal == SIGQUIT)
                signals->ended_by = signal;
        return signal;
}

void signals_restore(const struct signals *signals)
{
        sigaction(SIGCHLD, &signals->original_chld, NULL);
        sigprocmask(SIG_SETMASK, &signals->original_mask, NULL);
}

/* By its default action, not by SIGSTOP: the kernel then does not stop a job that no shell could ever continue. */
void signals_stop(int stop_signal, bool whole_job)
{
        sigset_t set;

        kill(whole_job ? 0 : getpid(), stop_signal);
        sigemptyset(&set);
        sigaddset(&set, stop_signal);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
        sigprocmask(SIG_BLOCK, &set, NULL);
}

void signals_end_job(int signal)
{
        struct rlimit no_core = {0, 0};
        sigset_t set;

        setrlimit(RLIMIT_CORE, &no_core); /* it is COMMAND that dumped */
        kill(0, signal);
        sigemptyset(&set);
        sigaddset(&set, signal);
        sigprocmask(SIG_UNBLOCK, &set, NULL);
}

bool signal_ends(int signal)
{
        return signal != SIGCONT && signal != SIGWINCH && signal != SIGCHLD && signal != SIGTSTP;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

/* sigabbrev_np() is glibc's. */
#define NAMED(signal)                                                                                                  \
        {                                                                                                              \
                SIG##signal, #signal                                                                                   \
        }
static const struct {
        int number;
        const char *name;
} signal_names[] = {
        NAMED(HUP),  NAMED(INT),   NAMED(QUIT), NAMED(ILL),  NAMED(TRAP), NAMED(ABRT),   NAMED(BUS),  NAMED(FPE),
        NAMED(KILL), NAMED(USR1),  NAMED(SEGV), NAMED(USR2), NAMED(PIPE), NAMED(ALRM),   NAMED(TERM), NAMED(CHLD),
        NAMED(CONT), NAMED(STOP),  NAMED(TSTP), NAMED(TTIN), NAMED(TTOU), NAMED(URG),    NAMED(XCPU), NAMED(XFSZ),
        NAMED(PROF), NAMED(WINCH), NAMED(POLL), NAMED(PWR),  NAMED(SYS),  NAMED(VTALRM),
};
#undef NAMED

/* "USR1", "SIGUSR1", "10" */
int signal_number(const char *text)
{
        char *end;
        long number = strtol(text, &end, 10);

        if (*text && !*end)
                return number > 0 && number < NSIG ? (int)number : 0;
        if (!strncmp(text, "SIG", 3))
                text += 3;
        for (size_t i = 0; i < sizeof(signal_names) / sizeof(*signal_names); i++)
                if (!strcmp(signal_names[i].name, text))
                        return signal_names[i].number;
        return 0;
}

const char *signal_name(int signal)
{
        static char name[16];

        for (size_t i = 0; i < sizeof(signal_names) / sizeof(*signal_names); i++)
                if (signal_names[i].number == signal) {
                        snprintf(name, sizeof(name), "SIG%s", signal_names[i].name);
                        return name;
                }
        snprintf(name, sizeof(name), "signal %d", signal);
        return name;
}
