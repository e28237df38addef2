/* rig.c - children, faults and the final judgement. */
#include "rig.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tap.h"

/* The driver's records carry this op; workers count from 1. */
enum { DRIVER_OP = 0 };
/* Longer than the ttl of any detached lease of a worker. */
#define QUIESCE (5 * SECOND)

void *rig_share(size_t size)
{
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        REQUIRE(memory != MAP_FAILED);
        return memory;
}

static uint64_t choose_seed(void)
{
        const char *text = getenv("CHAOS_SEED");

        return text ? strtoull(text, NULL, 0) : (uint64_t)boottime_now();
}

int64_t rig_seconds(int64_t usual)
{
        const char *text = getenv("CHAOS_SECONDS");
        int64_t asked = text ? strtoll(text, NULL, 10) : 0;

        return asked > usual ? asked : usual;
}

int64_t rig_pace(void)
{
        const char *text = getenv("CHAOS_PACE");

        return text ? strtoll(text, NULL, 10) : 40;
}

/* PAWL_TEST_URL, where {n} is a number of this test's own; or the embedded engine in its own directory. */
static void choose_url(struct rig *rig)
{
        const char *text = getenv("PAWL_TEST_URL");
        const char *mark = text ? strstr(text, "{n}") : NULL;

        if (!text)
                snprintf(rig->url, sizeof rig->url, "local:%s", rig->state);
        else if (!mark)
                snprintf(rig->url, sizeof rig->url, "%s", text);
        else
                snprintf(rig->url, sizeof rig->url, "%.*s%d%s", (int)(mark - text), text, (int)getpid(), mark + 3);
}

void rig_open(struct rig *rig)
{
        memset(rig, 0, sizeof *rig);
        rig->random = choose_seed() | 1;
        NOTE("CHAOS_SEED=%" PRIu64, rig->random);
        snprintf(rig->root, sizeof rig->root, "%s/rig.XXXXXX", tap_directory()); /* a test may open one after another */
        REQUIRE(mkdtemp(rig->root) != NULL);
        snprintf(rig->state, sizeof rig->state, "%s/state", rig->root);
        choose_url(rig);
        snprintf(rig->histories, sizeof rig->histories, "%s/histories", rig->root);
        snprintf(rig->resource_path, sizeof rig->resource_path, "%s/resource", rig->root);
        REQUIRE(mkdir(rig->histories, 0700) == 0);
        rig->shared = rig_share(sizeof *rig->shared);
        REQUIRE(history_open(&rig->history, rig->histories, 0));
        rig->processes = 1; /* process 0 is the driver */
}

void rig_close(struct rig *rig)
{
        for (size_t i = 0; i < RIG_CHILDREN; i++) {
                if (rig->children[i].pid == 0)
                        continue;
                kill(rig->children[i].pid, SIGKILL);
                waitpid(rig->children[i].pid, NULL, 0);
        }
        history_close(&rig->history);
        munmap(rig->shared, sizeof *rig->shared);
}

uint64_t rig_chance(struct rig *rig, uint64_t below)
{
        rig->random ^= rig->random >> 12;
        rig->random ^= rig->random << 25;
        rig->random ^= rig->random >> 27;
        return (rig->random * UINT64_C(2685821657736338717) >> 11) % below;
}

struct plan rig_plan(struct rig *rig, uint32_t names, int64_t ttl_ms, uint32_t habits)
{
        return (struct plan){.url = rig->url,
                             .directory = rig->histories,
                             .resource = rig->resource_path,
                             .stop = &rig->shared->stop,
                             .ready = &rig->shared->ready,
                             .seed = rig->random,
                             .ttl_ms = ttl_ms,
                             .names = names,
                             .threads = 1,
                             .habits = habits};
}

/* ---- children --------------------------------------------------------------------------------------------------- */

static struct child *free_place(struct rig *rig)
{
        for (size_t i = 0; i < RIG_CHILDREN; i++)
                if (rig->children[i].pid == 0)
                        return &rig->children[i];
        REQUIRE(!"there is room for another child");
        return NULL;
}

static void count_alive(struct rig *rig)
{
        unsigned alive = 0;

        for (size_t i = 0; i < RIG_CHILDREN; i++)
                alive += rig->children[i].pid != 0;
        if (alive > rig->most_alive)
                rig->most_alive = alive;
}

struct child *rig_start(struct rig *rig, int (*fn)(void *), void *arg)
{
        struct child *child = free_place(rig);
        pid_t driver = getpid();
        pid_t pid = fork();

        REQUIRE(pid >= 0);
        if (pid == 0) {
                prctl(PR_SET_PDEATHSIG, SIGKILL);
                if (getppid() != driver && getppid() != 0) /* 0: we stand in a PID namespace of our own */
                        _exit(0);
                _exit(fn(arg));
        }
        *child = (struct child){.pid = pid};
        count_alive(rig);
        return child;
}

static bool enter_namespace(int flags, long offset)
{
        bool good = unshare(flags) == 0;

        if (good && (flags & CLONE_NEWTIME)) {
                int fd = open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);

                good = fd >= 0 && dprintf(fd, "boottime %ld 0\n", offset) > 0;
                close(fd);
        }
        return good;
}

/* unshare moves only later children there; setns brings the ones after that back. */
struct child *rig_start_apart(struct rig *rig, int flags, long offset, int (*fn)(void *), void *arg)
{
        int home = open(flags & CLONE_NEWPID ? "/proc/self/ns/pid" : "/proc/self/ns/time", O_RDONLY | O_CLOEXEC);
        struct child *child = NULL;

        if (home < 0)
                return NULL;
        if (enter_namespace(flags, offset)) {
                child = rig_start(rig, fn, arg);
                REQUIRE(setns(home, flags) == 0);
        }
        close(home);
        return child;
}

static int run_plan(void *arg)
{
        return worker_run(arg);
}

struct child *rig_work(struct rig *rig, const struct plan *plan)
{
        struct plan copy = *plan;
        struct child *child;

        copy.process = rig->processes++;
        child = rig_start(rig, run_plan, &copy); /* the child has its own copy of our stack */
        child->process = copy.process;
        return child;
}

struct child *rig_work_apart(struct rig *rig, const struct plan *plan)
{
        struct plan copy = *plan;
        struct child *child;

        copy.process = rig->processes++;
        child = rig_start_apart(rig, CLONE_NEWPID, 0, run_plan, &copy);
        if (child)
                child->process = copy.process;
        return child;
}

struct child *rig_any(struct rig *rig)
{
        size_t first = (size_t)rig_chance(rig, RIG_CHILDREN);

        for (size_t i = 0; i < RIG_CHILDREN; i++) {
                struct child *child = &rig->children[(first + i) % RIG_CHILDREN];

                if (child->pid != 0 && !child->doomed)
                        return child;
        }
        return NULL;
}

/* ---- faults ----------------------------------------------------------------------------------------------------- */

static void note_fault(struct rig *rig, const struct child *child, enum deed deed)
{
        history_write(&rig->history, (struct record){.at = boottime_now(),
                                                     .client = child->process * CLIENTS_PER_PROCESS,
                                                     .op = DRIVER_OP,
                                                     .deed = (uint8_t)deed,
                                                     .phase = PHASE_INVOKE});
}

void rig_kill(struct rig *rig, struct child *child)
{
        if (child->stopped)
                note_fault(rig, child, DID_CONTINUE);
        note_fault(rig, child, DID_KILL);
        child->doomed = true;
        kill(child->pid, SIGKILL);
}

void rig_stop(struct rig *rig, struct child *child)
{
        note_fault(rig, child, DID_STOP);
        kill(child->pid, SIGSTOP);
        child->stopped = true;
}

void rig_continue(struct rig *rig, struct child *child)
{
        kill(child->pid, SIGCONT);
        note_fault(rig, child, DID_CONTINUE);
        child->stopped = false;
}

/* ---- endings ---------------------------------------------------------------------------------------------------- */

static int judge_end(struct rig *rig, const struct child *child, int status)
{
        if (WIFSIGNALED(status)) {
                if (child->doomed)
                        return 0;
                rig->crashes++;
                NOTE("process %u died of signal %d", child->process, WTERMSIG(status));
                return -1;
        }
        if (WEXITSTATUS(status) >= WORKER_CANNOT_OPEN) {
                rig->surprises++;
                NOTE("process %u ended with %d", child->process, WEXITSTATUS(status));
        }
        return WEXITSTATUS(status);
}

/* Where a process that does not end is waiting, for whoever reads the failure. */
static void tell_where(pid_t pid)
{
        char path[64];
        char text[256] = "";
        int fd;

        snprintf(path, sizeof path, "/proc/%d/syscall", (int)pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd >= 0 && read(fd, text, sizeof text - 1) > 0)
                NOTE("pid %d is in system call %s", (int)pid, text);
        close(fd);
}

int rig_wait(struct rig *rig, struct child *child, int64_t ns)
{
        int64_t deadline = boottime_now() + ns;
        int64_t pause = MS / 10;
        int result;
        int status;

        while (waitpid(child->pid, &status, WNOHANG) == 0) {
                if (boottime_now() > deadline) {
                        rig->hangs++;
                        NOTE("process %u did not end in time", child->process);
                        tell_where(child->pid);
                        child->doomed = true;
                        kill(child->pid, SIGKILL);
                        waitpid(child->pid, &status, 0);
                        child->pid = 0;
                        return -1;
                }
                sleep_ns(pause);
                pause = pause < 5 * MS ? pause * 2 : pause;
        }
        result = judge_end(rig, child, status);
        child->pid = 0;
        return result;
}

int rig_do(struct rig *rig, int (*fn)(void *), void *arg)
{
        return rig_wait(rig, rig_start(rig, fn, arg), 30 * SECOND);
}

void rig_finish(struct rig *rig, int64_t ns)
{
        atomic_store(&rig->shared->stop, 1);
        for (size_t i = 0; i < RIG_CHILDREN; i++) {
                struct child *child = &rig->children[i];

                if (child->pid == 0)
                        continue;
                if (child->stopped)
                        rig_continue(rig, child);
                rig_wait(rig, child, ns);
        }
        atomic_store(&rig->shared->stop, 0);
}

/* ---- what is left ----------------------------------------------------------------------------------------------- */

unsigned open_descriptors(void)
{
        unsigned count = 0;
        DIR *dir = opendir("/proc/self/fd");

        if (!dir)
                return 0;
        while (readdir(dir))
                count++;
        closedir(dir);
        return count;
}

static unsigned bells_seen;

static int count_bell(const char *path, const struct stat *status, int flag, struct FTW *where)
{
        (void)path;
        (void)flag;
        (void)where;
        bells_seen += S_ISSOCK(status->st_mode) || S_ISFIFO(status->st_mode);
        return 0;
}

unsigned leftover_bells(const char *directory)
{
        bells_seen = 0;
        nftw(directory, count_bell, 16, FTW_PHYS);
        return bells_seen;
}

static struct {
        off_t size;
        char path[512];
} largest;

static int note_largest(const char *path, const struct stat *status, int flag, struct FTW *where)
{
        (void)flag;
        (void)where;
        if (S_ISREG(status->st_mode) && status->st_size > largest.size) {
                largest.size = status->st_size;
                snprintf(largest.path, sizeof largest.path, "%s", path);
        }
        return 0;
}

bool find_state_file(const char *directory, char *path, size_t size)
{
        largest.size = 0;
        nftw(directory, note_largest, 16, FTW_PHYS);
        snprintf(path, size, "%s", largest.path);
        return largest.size > 0;
}

struct remains {
        const char *url;
        unsigned *holders;
        unsigned *descriptors;
};

static int count_holder(const struct pawl_entry *entry, void *arg)
{
        unsigned *holders = arg;

        *holders += entry->role == PAWL_ROLE_HOLDER || entry->role == PAWL_ROLE_WAITER;
        return 0;
}

static int look_at_remains(void *arg)
{
        struct remains *remains = arg;
        unsigned before = open_descriptors();
        pawl_client *client;

        if (pawl_open(remains->url, NULL, &client) != PAWL_OK)
                return WORKER_CANNOT_OPEN;
        if (pawl_list(client, NULL, count_holder, remains->holders) != PAWL_OK)
                return WORKER_SURPRISED;
        pawl_close(client);
        *remains->descriptors = open_descriptors() - before;
        return 0;
}

/* I8: when all processes are gone and detached leases have run out, so has everything of theirs; but for bells, which
 * stay for the next client in the slot: at most as many as were open at once. */
static void expect_nothing_left(struct rig *rig)
{
        unsigned *counts = rig_share(2 * sizeof *counts);
        struct remains remains = {.url = rig->url, .holders = &counts[0], .descriptors = &counts[1]};
        int64_t deadline = boottime_now() + QUIESCE;

        do {
                counts[0] = 0;
                CHECK_INT(rig_do(rig, look_at_remains, &remains), 0);
                sleep_ns(counts[0] > 0 ? 100 * MS : 0);
        } while (counts[0] > 0 && boottime_now() < deadline);
        CHECK_INT(counts[0], 0);
        CHECK_INT(counts[1], 0);
        CHECK(leftover_bells(rig->state) <= (rig->most_alive + 1) * CLIENTS_PER_PROCESS);
        munmap(counts, 2 * sizeof *counts);
}

/* For whoever looks into a violation: CHAOS_KEEP=FILE has all records of the last history. */
static void keep_history(const struct record *records, size_t count)
{
        const char *path = getenv("CHAOS_KEEP");
        FILE *file = path ? fopen(path, "w") : NULL;

        if (!file)
                return;
        for (size_t i = 0; i < count; i++)
                fprintf(file,
                        "at %" PRId64 " client %u op %u lock %u deed %u phase %u mode %u flags %u limit %u status %d "
                        "token %" PRIu64 " least %" PRId64 " most %" PRId64 "\n",
                        records[i].at, records[i].client, records[i].op, records[i].lock, records[i].deed,
                        records[i].phase, records[i].mode, records[i].flags, records[i].limit, records[i].status,
                        records[i].token, records[i].valid_least, records[i].valid_most);
        fclose(file);
}

void rig_judge(struct rig *rig, struct findings *findings)
{
        struct resource resource;
        struct record *records;
        size_t count;

        memset(findings, 0, sizeof *findings);
        REQUIRE(history_load(rig->histories, &records, &count));
        REQUIRE(check_history(records, count, findings));
        REQUIRE(resource_open(&resource, rig->resource_path));
        check_resource(&resource, findings);
        resource_close(&resource);
        findings_print(findings, stdout);
        fflush(stdout);
        keep_history(records, count);
        free(records);
        expect_nothing_left(rig);
}

void rig_expect_clean(struct rig *rig, const struct findings *findings)
{
        CHECK_UINT(findings_total(findings), 0);
        CHECK_UINT(rig->crashes, 0);
        CHECK_UINT(rig->hangs, 0);
        CHECK_UINT(rig->surprises, 0);
}

/* ---- small errands ---------------------------------------------------------------------------------------------- */

struct queue_wish {
        const char *url;
        uint32_t name;
        unsigned waiters;
};

static int count_waiter(const struct pawl_entry *entry, void *arg)
{
        *(unsigned *)arg += entry->role == PAWL_ROLE_WAITER;
        return 0;
}

static int watch_queue(void *arg)
{
        const struct queue_wish *wish = arg;
        int64_t deadline = boottime_now() + 20 * SECOND;
        pawl_client *client;
        char name[64];

        lock_name(wish->name, name, sizeof name);
        if (pawl_open(wish->url, NULL, &client) != PAWL_OK)
                return WORKER_CANNOT_OPEN;
        while (boottime_now() < deadline) {
                unsigned waiters = 0;

                pawl_show(client, name, count_waiter, &waiters);
                if (waiters == wish->waiters) {
                        pawl_close(client);
                        return 0;
                }
                sleep_ns(MS / 5);
        }
        return 1;
}

bool wait_for_queue(struct rig *rig, uint32_t name, unsigned waiters)
{
        struct queue_wish wish = {rig->url, name, waiters};

        return rig_do(rig, watch_queue, &wish) == 0;
}

static void note_token(struct visit *visit, uint64_t token)
{
        if (visit->lowest == 0 || token < visit->lowest)
                visit->lowest = token;
        if (token > visit->highest)
                visit->highest = token;
}

static int visit_once(struct visit *visit, pawl_client *client, uint32_t turn)
{
        char name[64];
        pawl_lock *lock;
        int status;

        lock_name(visit->name + (visit->names ? turn % visit->names : 0), name, sizeof name);
        status = pawl_acquire(client, name,
                              PAWL_LOCK(.wait_ms = visit->wait_ms, .ttl_ms = visit->ttl_ms, .flags = visit->flags,
                                        .why = &visit->why),
                              &lock);
        if (status != PAWL_OK)
                return status;
        note_token(visit, pawl_token(lock));
        return visit->flags & PAWL_DETACH ? pawl_forget(lock) : pawl_release(lock);
}

static int pay_visit(void *arg)
{
        struct visit *visit = arg;
        pawl_client *client;

        visit->opened = pawl_open(visit->url, PAWL_OPEN(.why = &visit->why), &client);
        if (visit->opened != PAWL_OK)
                return 0;
        for (uint32_t i = 0; i < visit->times && visit->status == PAWL_OK; i++)
                visit->status = visit_once(visit, client, i);
        pawl_close(client);
        return 0;
}

bool rig_visit(struct rig *rig, struct visit *visit)
{
        visit->opened = visit->status = PAWL_OK;
        visit->lowest = visit->highest = 0;
        return rig_do(rig, pay_visit, visit) == 0;
}
