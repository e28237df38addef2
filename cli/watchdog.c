/* watchdog.c - a small process beside COMMAND that kills its group when pawl cannot: because it was killed, is stopped, or
 * hangs past the end of the lease. It knows one deadline and hears of a new one through a pipe. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* What pawl tells it: whom to kill (0: nobody yet), and when. */
struct order {
        int64_t group;
        int64_t deadline;
};

/* ---- the watchdog itself ---------------------------------------------------------------------------------------- */

static void bite(pid_t group)
{
        if (!group)
                return;
        kill(-group, SIGKILL);
        kill(group, SIGKILL); /* should COMMAND have left its group */
}

/* CLOCK_BOOTTIME: a lease goes on while the machine sleeps, and so poll's own time-out would not do. */
static void arm(int timer, int64_t deadline)
{
        struct itimerspec at = {.it_value = {deadline / 1000000000, deadline % 1000000000}};

        timerfd_settime(timer, TFD_TIMER_ABSTIME, &at, NULL);
}

/* The latest order in the pipe. False: pawl is gone. */
static bool hear(int pipe, struct order *order)
{
        struct order orders[32];
        ssize_t size;

        do
                size = read(pipe, orders, sizeof(orders));
        while (size < 0 && (errno == EINTR || errno == EAGAIN));
        if (size < (ssize_t)sizeof(orders[0]))
                return false;
        *order = orders[(size_t)size / sizeof(orders[0]) - 1];
        return true;
}

static void watch(int pipe, struct order order)
{
        int timer = timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC);
        struct pollfd fds[] = {{.fd = pipe, .events = POLLIN}, {.fd = timer, .events = POLLIN}};

        for (;;) {
                arm(timer, order.deadline);
                if (poll(fds, 2, -1) < 0)
                        continue;
                if (!fds[0].revents) {
                        bite((pid_t)order.group);
                        order.deadline = INT64_MAX; /* it lives on until pawl ends it, or is gone */
                } else if (!hear(pipe, &order)) {
                        bite((pid_t)order.group);
                        return;
                }
        }
}

static char *last_word;

void watchdog_last_word(char *word)
{
        last_word = word;
}

/* Not found by pkill pawl, nor by pkill -f pawl: whoever ends pawl so wants COMMAND to end, which is our work. */
#define OWN_NAME "lease-watchdog" /* 15 characters at most */

static void take_name(void)
{
        char *first = program_invocation_name; /* argv[0]; the others follow it */
        size_t room;

        prctl(PR_SET_NAME, OWN_NAME);
        if (!last_word || last_word < first)
                return;
        room = (size_t)(last_word - first) + strlen(last_word);
        memset(first, 0, room);
        strncpy(first, OWN_NAME, room);
}

/* Nothing of pawl's stays open in it: a reader of COMMAND's output must not wait for us. */
static _Noreturn void be_watchdog(int pipe, struct order order)
{
        sigset_t all;

        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, NULL);
        setsid();
        take_name();
        if (dup2(pipe, STDIN_FILENO) != STDIN_FILENO || syscall(SYS_close_range, STDIN_FILENO + 1, ~0u, 0) != 0 ||
            chdir("/") != 0)
                _exit(EXIT_FAILED);
        watch(STDIN_FILENO, order);
        _exit(EXIT_DONE);
}

/* ---- pawl's side ----------------------------------------------------------------------------------------------- */

static bool start(struct watchdog *dog)
{
        int ends[2];

        dog->fd = -1;
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
                return false;
        dog->pid = fork();
        if (dog->pid == 0)
                be_watchdog(ends[0], (struct order){dog->group, dog->deadline});
        close(ends[0]);
        if (dog->pid < 0) {
                close(ends[1]);
                return false;
        }
        dog->fd = ends[1];
        return true;
}

bool watchdog_start(struct watchdog *dog)
{
        *dog = (struct watchdog){.deadline = INT64_MAX};
        return start(dog);
}

bool watchdog_guard_me(const struct watchdog *dog, int64_t deadline)
{
        struct order order = {getpid(), deadline};

        return write(dog->fd, &order, sizeof(order)) == sizeof(order);
}

static void send_order(struct watchdog *dog, pid_t group, int64_t deadline)
{
        struct order order = {group, deadline};

        dog->group = group;
        dog->deadline = deadline;
        if (write(dog->fd, &order, sizeof(order)) != sizeof(order))
                watchdog_look(dog); /* dead: another one; full: it is stopped and has orders enough */
}

/* A lease is told in ms and so jitters by one: only a real change is worth an order. */
void watchdog_guard(struct watchdog *dog, pid_t group, int64_t deadline)
{
        const int64_t slack = 3 * 1000000;
        int64_t change = deadline > dog->deadline ? deadline - dog->deadline : dog->deadline - deadline;

        if (dog->fd >= 0 && (group != dog->group || change > slack))
                send_order(dog, group, deadline);
}

void watchdog_look(struct watchdog *dog)
{
        if (dog->fd < 0 || waitpid(dog->pid, NULL, WNOHANG) != dog->pid)
                return;
        close(dog->fd);
        if (!start(dog))
                warn("the watchdog was killed and cannot be started again: %s", strerror(errno));
}

/* By force: then it cannot bite later, not even one that somebody has stopped. */
void watchdog_end(struct watchdog *dog)
{
        if (dog->fd < 0)
                return;
        kill(dog->pid, SIGKILL);
        close(dog->fd);
        dog->fd = -1;
}

/* Not every init reaps what is left to it. */
void watchdog_reap(struct watchdog *dog)
{
        while (dog->pid > 0 && waitpid(dog->pid, NULL, 0) < 0 && errno == EINTR)
                continue;
}
