/* row_01_local_pair.c - one uncontended acquire and release on the local engine, through the public API with token,
 * owner, lease and statistics, against flock(2). Floors: what a lock with nothing to it costs, what reading the clock
 * costs, and what the bare slot protocol costs. Also counts system calls and allocations per pair. */
#include <fcntl.h>
#include <pawl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum { BATCH = 2000, FLOCK_BATCH = 200, SAMPLES = 50, COUNTED = 100000 };

/* ---- allocations: this program's malloc stands before the C library's, for libpawl too ------------------------- */

static atomic_ulong allocations;

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *old, size_t size);

void *malloc(size_t size)
{
        atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
        return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
        atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
        return __libc_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
        atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
        return __libc_realloc(old, size);
}

/* ---- contenders: each sample is nanoseconds per pair, over one batch -------------------------------------------- */

static double robust_mutex(void *arg)
{
        pthread_mutex_t *mutex = arg;
        int64_t begin = bench_now();

        for (int i = 0; i < BATCH; i++) {
                pthread_mutex_lock(mutex);
                pthread_mutex_unlock(mutex);
        }
        return (double)(bench_now() - begin) / BATCH;
}

static double clock_read(void *arg)
{
        struct timespec now;
        int64_t begin = bench_now();

        (void)arg;
        for (int i = 0; i < BATCH; i++)
                clock_gettime(CLOCK_BOOTTIME, &now);
        return (double)(bench_now() - begin) / BATCH;
}

/* What any lock with a token and a lease must do in shared memory, and nothing else. */
struct slot {
        _Atomic uint32_t word;
        _Atomic uint32_t owner;
        _Atomic uint64_t token;
        _Atomic int64_t until;
};

static void take_slot(struct slot *slot)
{
        struct timespec now;
        uint32_t expected = 0;

        clock_gettime(CLOCK_BOOTTIME, &now);
        atomic_compare_exchange_strong(&slot->word, &expected, 1);
        atomic_store_explicit(&slot->owner, 1, memory_order_relaxed);
        atomic_fetch_add(&slot->token, 1);
        atomic_store_explicit(&slot->until, now.tv_sec + 10, memory_order_relaxed);
        atomic_exchange(&slot->word, 0);
}

static void leave_slot(struct slot *slot)
{
        uint32_t expected = 0;

        atomic_compare_exchange_strong(&slot->word, &expected, 1);
        atomic_store_explicit(&slot->owner, 0, memory_order_relaxed);
        atomic_exchange(&slot->word, 0);
}

static double bare_slot(void *arg)
{
        int64_t begin = bench_now();

        for (int i = 0; i < BATCH; i++) {
                take_slot(arg);
                leave_slot(arg);
        }
        return (double)(bench_now() - begin) / BATCH;
}

static double flock_pair(void *arg)
{
        int fd = *(int *)arg;
        int64_t begin = bench_now();

        for (int i = 0; i < FLOCK_BATCH; i++)
                if (flock(fd, LOCK_EX) != 0 || flock(fd, LOCK_UN) != 0)
                        bench_die("flock failed");
        return (double)(bench_now() - begin) / FLOCK_BATCH;
}

static void pawl_pairs(pawl_client *client, int n)
{
        uint64_t last = 0;

        for (int i = 0; i < n; i++) {
                pawl_lock *lock;
                uint64_t token;

                bench_must(pawl_acquire(client, "bench/pair", NULL, &lock), "acquire");
                token = pawl_token(lock);
                if (token <= last)
                        bench_die("a token did not grow");
                last = token;
                bench_must(pawl_release(lock), "release");
        }
}

static double pawl_pair(void *arg)
{
        int64_t begin = bench_now();

        pawl_pairs(arg, BATCH);
        return (double)(bench_now() - begin) / BATCH;
}

/* ---- preparing them --------------------------------------------------------------------------------------------- */

static void *shared_page(void)
{
        void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        if (page == MAP_FAILED)
                bench_die("mmap failed");
        return page;
}

static pthread_mutex_t *new_mutex(void)
{
        pthread_mutex_t *mutex = shared_page();
        pthread_mutexattr_t attributes;

        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(mutex, &attributes);
        return mutex;
}

static int new_file(void)
{
        char path[512];
        int fd;

        snprintf(path, sizeof(path), "%s/flock", bench_directory());
        fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        if (fd < 0)
                bench_die("cannot make %s", path);
        return fd;
}

static pawl_client *new_client(void)
{
        pawl_client *client;

        bench_must(pawl_open(bench_url("pair"), PAWL_OPEN(.owner = "bench"), &client), "open");
        return client;
}

/* ---- the row ---------------------------------------------------------------------------------------------------- */

static void compare(int cores)
{
        int fd = new_file();
        pawl_client *client = new_client();
        struct contender c[] = {
                {.name = "bare slot", .sample = bare_slot, .arg = shared_page()},
                {.name = "flock(2)", .sample = flock_pair, .arg = &fd},
                {.name = "pawl", .sample = pawl_pair, .arg = client},
                {.name = "robust mutex", .sample = robust_mutex, .arg = new_mutex()},
                {.name = "clock read", .sample = clock_read, .arg = NULL},
        };
        char what[128];

        bench_compare(c, sizeof(c) / sizeof(c[0]), SAMPLES);
        snprintf(what, sizeof(what), "local pair, ns, %d core(s); flock(2)/pawl", cores);
        bench_line(1, what, bench_figure(&c[0]), bench_figure(&c[1]), bench_figure(&c[2]), bench_ratio(&c[1], &c[2]),
                   ">= 8");
        snprintf(what, sizeof(what), "  floor: robust process-shared mutex pair, ns, %d core(s)", cores);
        bench_line(1, what, bench_figure(&c[3]), -1, -1, -1, NULL);
        snprintf(what, sizeof(what), "  floor: one clock read, ns, %d core(s)", cores);
        bench_line(1, what, bench_figure(&c[4]), -1, -1, -1, NULL);
        pawl_close(client);
}

static void count_allocations(int cores)
{
        pawl_client *client = new_client();
        unsigned long before;

        (void)cores;
        pawl_pairs(client, BATCH);
        before = atomic_load(&allocations);
        pawl_pairs(client, COUNTED);
        bench_line(1, "  allocations per pair in the steady state", -1, -1,
                   (double)(atomic_load(&allocations) - before) / COUNTED, -1, "< 0.001");
        pawl_close(client);
}

/* The traced child marks the beginning and the end of what is counted by calling getppid. */
static void traced_pairs(void)
{
        pawl_client *client = new_client();

        pawl_pairs(client, BATCH);
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
                bench_die("ptrace is not allowed here: system calls cannot be counted");
        raise(SIGSTOP);
        (void)getppid();
        pawl_pairs(client, COUNTED);
        (void)getppid();
        pawl_close(client);
        exit(0);
}

static int enters_marker(pid_t child)
{
        struct __ptrace_syscall_info info;

        if (ptrace(PTRACE_GET_SYSCALL_INFO, child, sizeof(info), &info) <= 0)
                return -1;
        if (info.op != PTRACE_SYSCALL_INFO_ENTRY)
                return -1;
        return info.entry.nr == SYS_getppid;
}

/* Every system call of the calling thread between the two markers. */
static long count_calls(pid_t child)
{
        long calls = 0;
        int markers = 0, status;

        while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
                int enters = WSTOPSIG(status) == (SIGTRAP | 0x80) ? enters_marker(child) : -1;

                markers += enters == 1;
                calls += enters == 0 && markers == 1;
                if (WSTOPSIG(status) == SIGSTOP)
                        ptrace(PTRACE_SETOPTIONS, child, NULL, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
                ptrace(PTRACE_SYSCALL, child, NULL, NULL);
        }
        return markers == 2 ? calls : -1;
}

static void count_system_calls(int cores)
{
        pid_t child;
        long calls;

        (void)cores;
        child = fork();
        if (child == 0)
                traced_pairs();
        calls = count_calls(child);
        if (calls < 0)
                bench_note("system calls could not be counted: ptrace is not allowed here");
        else
                bench_line(1, "  system calls per pair in the steady state", -1, 2, (double)calls / COUNTED, -1,
                           "< 0.001");
}

int main(int argc, char **argv)
{
        bench_begin(argc, argv);
        bench_on_cores(1, compare);
        bench_on_cores(2, compare);
        bench_on_cores(1, count_allocations);
        bench_on_cores(1, count_system_calls);
        return 0;
}
