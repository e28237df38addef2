/* tap.c - runs the tests of one program and tells about them in TAP. The child runs the test; the parent keeps the
 * time, says ok or not ok, and cleans up: it must survive whatever a test does. */
#include "tap.h"

#include <errno.h>
#include <ftw.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { DEFAULT_SECONDS = 60, TEXT_MAX = 400 };

/* Shared with the children, so that the parent knows what a crashed test had found. */
struct progress {
        atomic_uint checks;
        atomic_uint failures;
        atomic_bool skipped;
        char skip_reason[TEXT_MAX];
        /* Where the test had got to, for crashes and hangs. Literals: at the same address in parent and children. */
        const char *_Atomic last_file;
        const char *_Atomic last_text;
        atomic_int last_line;
        atomic_bool is_checking; /* its expression is being evaluated */
        _Atomic int64_t last_ms; /* when it began or, if it is done, ended */
        char directory[TEXT_MAX];
};

static struct {
        struct tap_test *first;
        struct tap_test **last;
        struct tap_test *current;
        struct progress *progress;
        jmp_buf out; /* --no-fork: where tap_end goes */
        pthread_t thread;
        bool forks;
        int seconds; /* --timeout; 0: each test's own */
} tap = {.forks = true};

void tap_register(struct tap_test *test)
{
        if (!tap.last)
                tap.last = &tap.first;
        *tap.last = test;
        tap.last = &test->next;
}

const char *tap_name(void)
{
        return tap.current ? tap.current->name : "";
}

/* One write for one line, so that lines of several threads and children do not mix. */
static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void say(const char *format, ...)
{
        char line[4096];
        va_list list;
        int length;

        va_start(list, format);
        length = vsnprintf(line, sizeof(line), format, list);
        va_end(list);
        if (length >= (int)sizeof(line)) {
                length = sizeof(line) - 1;
                line[length - 1] = '\n';
        }
        for (int done = 0; done < length;) {
                ssize_t wrote = write(STDOUT_FILENO, line + done, (size_t)(length - done));

                if (wrote < 0 && errno != EINTR)
                        return;
                done += wrote > 0 ? (int)wrote : 0;
        }
}

/* Text from a test becomes one diagnostic line per line. */
static void diagnose(const char *text)
{
        while (*text) {
                size_t length = strcspn(text, "\n");

                say("# %.*s\n", (int)length, text);
                text += length + (text[length] == '\n');
        }
}

/* ---- checks ---- */

static int64_t now_ms(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return ts.tv_sec * INT64_C(1000) + ts.tv_nsec / 1000000;
}

static const char *short_file(const char *file)
{
        const char *tests = strstr(file, "tests/");

        return tests ? tests : file;
}

void tap_begin(const char *file, int line, const char *text)
{
        struct progress *progress = tap.progress;

        atomic_store_explicit(&progress->last_file, file, memory_order_relaxed);
        atomic_store_explicit(&progress->last_line, line, memory_order_relaxed);
        atomic_store_explicit(&progress->last_text, text, memory_order_relaxed);
        atomic_store_explicit(&progress->last_ms, now_ms(), memory_order_relaxed);
        atomic_store_explicit(&progress->is_checking, true, memory_order_relaxed);
}

/* One write for the whole failure, so that those of several threads do not mix. expected and actual may be NULL. */
static bool check(bool passed, const char *expected, const char *actual, const char *file, int line, const char *text)
{
        struct progress *progress = tap.progress;

        tap_begin(file, line, text); /* once more: the expression may have had checks of its own */
        atomic_store_explicit(&progress->is_checking, false, memory_order_relaxed);
        atomic_fetch_add(&progress->checks, 1);
        if (passed)
                return true;
        atomic_fetch_add(&progress->failures, 1);
        if (expected)
                say("# %s:%d: in %s: failed: %s\n#   expected: %s\n#   actual:   %s\n", short_file(file), line,
                    tap_name(), text, expected, actual);
        else
                say("# %s:%d: in %s: failed: %s\n", short_file(file), line, tap_name(), text);
        return false;
}

bool tap_check(bool passed, const char *file, int line, const char *text)
{
        return check(passed, NULL, NULL, file, line, text);
}

bool tap_check_shown(bool passed, const char *expected, const char *actual, const char *file, int line,
                     const char *text)
{
        return check(passed, expected, actual, file, line, text);
}

bool tap_check_int(intmax_t actual, intmax_t expected, const char *file, int line, const char *text)
{
        return tap_check_compare(actual == expected, actual, "", expected, file, line, text);
}

/* relation: "" where equality is meant */
bool tap_check_compare(bool passed, intmax_t actual, const char *relation, intmax_t expected, const char *file,
                       int line, const char *text)
{
        char shown[2][64];

        if (passed)
                return tap_check(true, file, line, text);
        snprintf(shown[0], sizeof(shown[0]), "%s%s%" PRIdMAX, relation, *relation ? " " : "", expected);
        snprintf(shown[1], sizeof(shown[1]), "%" PRIdMAX, actual);
        return check(false, shown[0], shown[1], file, line, text);
}

bool tap_check_uint(uintmax_t actual, uintmax_t expected, const char *file, int line, const char *text)
{
        char shown[2][64];

        snprintf(shown[0], sizeof(shown[0]), "%" PRIuMAX, expected);
        snprintf(shown[1], sizeof(shown[1]), "%" PRIuMAX, actual);
        return check(actual == expected, shown[0], shown[1], file, line, text);
}

enum { QUOTED_MAX = 1024 };

/* In quotes, on one line. */
static const char *quote(const char *text, char *line)
{
        size_t at = 0;

        if (!text)
                return "NULL";
        line[at++] = '"';
        for (const char *c = text; *c && at < QUOTED_MAX - 6; c++) {
                if (*c >= ' ' && *c < 127)
                        line[at++] = *c;
                else
                        at += (size_t)snprintf(line + at, 5, "\\x%02x", (unsigned char)*c);
        }
        line[at++] = '"';
        line[at] = '\0';
        return line;
}

bool tap_check_str(const char *actual, const char *expected, const char *file, int line, const char *text)
{
        bool same = actual == expected || (actual && expected && strcmp(actual, expected) == 0);
        char quoted[2][QUOTED_MAX];

        if (same)
                return tap_check(true, file, line, text);
        return check(false, quote(expected, quoted[0]), quote(actual, quoted[1]), file, line, text);
}

bool tap_check_null(const void *actual, const char *file, int line, const char *text)
{
        char shown[64];

        snprintf(shown, sizeof(shown), "%p", actual);
        return check(!actual, "NULL", shown, file, line, text);
}

bool tap_check_mem(const void *actual, const void *expected, size_t size, const char *file, int line, const char *text)
{
        const unsigned char *a = actual;
        const unsigned char *e = expected;
        char shown[2][96];
        size_t at = 0;

        while (at < size && a[at] == e[at])
                at++;
        if (at == size)
                return tap_check(true, file, line, text);
        snprintf(shown[0], sizeof(shown[0]), "0x%02x as byte %zu of %zu, counted from 0", e[at], at, size);
        snprintf(shown[1], sizeof(shown[1]), "0x%02x", a[at]);
        return check(false, shown[0], shown[1], file, line, text);
}

bool tap_check_has(const char *haystack, const char *needle, const char *file, int line, const char *text)
{
        char quoted[2][QUOTED_MAX];
        char expected[QUOTED_MAX + 32];

        if (haystack && strstr(haystack, needle))
                return tap_check(true, file, line, text);
        snprintf(expected, sizeof(expected), "text that contains %s", quote(needle, quoted[0]));
        return check(false, expected, quote(haystack, quoted[1]), file, line, text);
}

_Noreturn void tap_end(void)
{
        if (tap.forks)
                _exit(0); /* what it found stands in progress; a forked child of a test ends here too */
        if (!pthread_equal(pthread_self(), tap.thread)) {
                say("# %s: ended on a thread of its own\n", tap_name());
                _exit(1);
        }
        longjmp(tap.out, 1);
}

_Noreturn void tap_skip(const char *format, ...)
{
        va_list list;

        va_start(list, format);
        vsnprintf(tap.progress->skip_reason, sizeof(tap.progress->skip_reason), format, list);
        va_end(list);
        atomic_store(&tap.progress->skipped, true);
        tap_end();
}

void tap_note(const char *format, ...)
{
        char text[1024];
        va_list list;

        va_start(list, format);
        vsnprintf(text, sizeof(text), format, list);
        va_end(list);
        diagnose(text);
}

/* ---- directories ---- */

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *where)
{
        (void)status;
        (void)flag;
        (void)where;
        remove(path);
        return 0;
}

const char *tap_directory(void)
{
        char *directory = tap.progress->directory;
        const char *base = getenv("TMPDIR");

        if (*directory)
                return directory;
        snprintf(directory, sizeof(tap.progress->directory), "%s/pawl-test.XXXXXX", base && *base ? base : "/tmp");
        if (!mkdtemp(directory)) {
                say("# no directory for %s: %s\n", tap_name(), strerror(errno));
                atomic_fetch_add(&tap.progress->failures, 1);
                *directory = '\0';
                tap_end();
        }
        return directory;
}

static void remove_directory(void)
{
        if (*tap.progress->directory)
                nftw(tap.progress->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

/* ---- running one test ---- */

static void run_here(struct tap_test *test)
{
        tap.thread = pthread_self();
        if (setjmp(tap.out) == 0)
                test->run();
}

_Noreturn static void run_as_child(struct tap_test *test, pid_t parent)
{
        setpgid(0, 0); /* the parent ends what a test leaves behind, as a group */
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(1);
        tap.thread = pthread_self();
        test->run();
        exit(0); /* so that sanitizers look for leaks */
}

/* Waits without reaping, so that the group can still be killed by its number. False: the time is up. */
static bool wait_until(pid_t child, int64_t deadline)
{
        siginfo_t info = {0};
        int pidfd = (int)syscall(SYS_pidfd_open, child, 0);

        if (pidfd >= 0) {
                struct pollfd poll_fd = {.fd = pidfd, .events = POLLIN};
                int64_t left;

                while ((left = deadline - now_ms()) > 0 && poll(&poll_fd, 1, (int)left) <= 0)
                        continue;
                close(pidfd);
        }
        while (waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT | WNOHANG) == 0 && info.si_pid == 0) {
                if (now_ms() >= deadline)
                        return false;
                usleep(5000);
        }
        return true;
}

/* Limits are for what hangs. Beside many others everything takes longer: TAP_PATIENCE multiplies them. */
static int limit_of(const struct tap_test *test)
{
        const char *patience = getenv("TAP_PATIENCE");
        int times = patience ? atoi(patience) : 1;
        int seconds = test->seconds ? test->seconds : DEFAULT_SECONDS;

        return tap.seconds ? tap.seconds : seconds * (times > 0 ? times : 1);
}

/* True if it ended well; else text says how it ended. */
static bool run_in_child(struct tap_test *test, char *text, size_t size)
{
        int seconds = limit_of(test);
        pid_t parent = getpid();
        pid_t child;
        bool in_time;
        int status;

        fflush(NULL);
        child = fork();
        if (child < 0) {
                snprintf(text, size, "cannot fork: %s", strerror(errno));
                return false;
        }
        if (child == 0)
                run_as_child(test, parent);
        setpgid(child, child);
        in_time = wait_until(child, now_ms() + seconds * INT64_C(1000));
        kill(-child, SIGKILL);
        waitpid(child, &status, 0);
        if (!in_time)
                snprintf(text, size, "stopped at its time limit of %d s", seconds);
        else if (WIFSIGNALED(status))
                snprintf(text, size, "killed by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
        else if (WEXITSTATUS(status) != 0)
                snprintf(text, size, "exited with status %d", WEXITSTATUS(status));
        else
                return true;
        return false;
}

/* How a test ended that did not return, and what it was doing. */
static void say_where(const struct tap_test *test, const char *how, int64_t after_ms)
{
        struct progress *progress = tap.progress;
        int64_t ago_ms = now_ms() - atomic_load(&progress->last_ms);

        say("# %s: %s, %.1f s after it began\n", test->name, how, (double)after_ms / 1000);
        if (!progress->last_file)
                say("#   it had not begun any check\n");
        else
                say("#   %s %.1f s earlier: %s:%d: %s\n",
                    progress->is_checking ? "it was still in the check it began" : "its last check was complete",
                    (double)ago_ms / 1000, short_file(progress->last_file), progress->last_line, progress->last_text);
}

/* Returns whether it passed (or was skipped), and says so. */
static bool run_one(struct tap_test *test, unsigned number)
{
        struct progress *progress = tap.progress;
        int64_t began = now_ms();
        char text[128] = "";
        bool passed = true;

        memset(progress, 0, sizeof(*progress));
        tap.current = test;
        if (tap.forks)
                passed = run_in_child(test, text, sizeof(text));
        else
                run_here(test);
        remove_directory();
        if (*text)
                say_where(test, text, now_ms() - began);
        if (atomic_load(&progress->failures))
                passed = false;
        if (passed && atomic_load(&progress->skipped))
                say("ok %u - %s # SKIP %s\n", number, test->name, progress->skip_reason);
        else
                say("%s %u - %s\n", passed ? "ok" : "not ok", number, test->name);
        return passed;
}

/* ---- the program ---- */

/* No names: all. A name may end in '*'. TAP_CASE names the only one, however the program is started. */
static bool is_selected(const struct tap_test *test, char **names, int count)
{
        const char *only = getenv("TAP_CASE");

        if (only && *only && strcmp(only, test->name) != 0)
                return false;
        for (int i = 0; i < count; i++) {
                size_t length = strlen(names[i]);

                if (length > 0 && names[i][length - 1] == '*' && strncmp(names[i], test->name, length - 1) == 0)
                        return true;
                if (strcmp(names[i], test->name) == 0)
                        return true;
        }
        return count == 0;
}

static int run_all(char **names, int count, int repeat)
{
        unsigned planned = 0;
        unsigned number = 0;
        unsigned failed = 0;

        for (struct tap_test *test = tap.first; test; test = test->next)
                planned += is_selected(test, names, count) ? (unsigned)repeat : 0;
        say("TAP version 13\n1..%u\n", planned);
        for (int round = 0; round < repeat; round++) {
                for (struct tap_test *test = tap.first; test; test = test->next) {
                        if (is_selected(test, names, count))
                                failed += !run_one(test, ++number);
                }
        }
        if (planned == 0)
                say("Bail out! no test has that name\n");
        return failed || planned == 0;
}

static int usage(const char *program)
{
        fprintf(stderr, "usage: %s [--list] [--no-fork] [--timeout SECONDS] [--repeat N] [NAME | PREFIX*]...\n",
                program);
        return 2;
}

static int list_all(void)
{
        for (struct tap_test *test = tap.first; test; test = test->next)
                say("%s\n", test->name);
        return 0;
}

int main(int argc, char **argv)
{
        int repeat = 1;
        int at = 1;

        tap.progress = mmap(NULL, sizeof(*tap.progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        if (tap.progress == MAP_FAILED)
                return 2;
        for (; at < argc && argv[at][0] == '-'; at++) {
                if (strcmp(argv[at], "--list") == 0)
                        return list_all();
                if (strcmp(argv[at], "--no-fork") == 0)
                        tap.forks = false;
                else if (strcmp(argv[at], "--timeout") == 0 && at + 1 < argc)
                        tap.seconds = atoi(argv[++at]);
                else if (strcmp(argv[at], "--repeat") == 0 && at + 1 < argc)
                        repeat = atoi(argv[++at]);
                else
                        return usage(argv[0]);
        }
        return run_all(argv + at, argc - at, repeat);
}
