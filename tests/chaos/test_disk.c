/* test_disk.c - a full disk, and a directory that somebody deletes. In a mount namespace of our own. */
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rig.h"
#include "tap.h"

/* A small file system at DIRECTORY/disk, gone with the test; the engine's directory is inside. */
static void use_small_disk(struct rig *rig, char *disk, size_t size, const char *options)
{
        snprintf(disk, size, "%s/disk", rig->root);
        snprintf(rig->state, sizeof rig->state, "%s/state", disk);
        snprintf(rig->url, sizeof rig->url, "local:%s", rig->state);
        REQUIRE(mkdir(disk, 0700) == 0);
        if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
            mount("chaos", disk, "tmpfs", 0, options) != 0)
                SKIP("no mount namespace for us here");
}

/* Remounted, a tmpfs changes its size. */
static void resize_disk(const char *disk, const char *options)
{
        REQUIRE(mount(NULL, disk, NULL, MS_REMOUNT, options) == 0);
}

static struct visit *new_visit(struct rig *rig, uint32_t times, uint32_t names)
{
        struct visit *visit = rig_share(sizeof *visit);

        snprintf(visit->url, sizeof visit->url, "%s", rig->url);
        visit->wait_ms = 2000;
        visit->times = times;
        visit->names = names;
        return visit;
}

/* Whatever it is told, a caller gets a code and a sentence, or a lock that works. */
static void expect_clear(const struct visit *visit, const char *where)
{
        int status = visit->opened != PAWL_OK ? visit->opened : visit->status;

        NOTE("%s: %s%s%s", where, pawl_error_name(status), status == PAWL_OK ? "" : ": ",
             status == PAWL_OK ? "" : visit->why.text);
        if (status != PAWL_OK)
                CHECK(strlen(visit->why.text) > 0);
}

static bool worked(const struct visit *visit)
{
        return visit->opened == PAWL_OK && visit->status == PAWL_OK;
}

static void fill_disk(const char *disk, char *filler, size_t size)
{
        static char block[1 << 16];
        int fd;

        snprintf(filler, size, "%s/filler", disk);
        fd = open(filler, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
        REQUIRE(fd >= 0);
        for (size_t length = sizeof block; length > 0; length /= 2)
                while (write(fd, block, length) > 0)
                        ;
        close(fd);
}

TEST(a_disk_too_small_for_the_state_is_told_and_more_room_mends_it)
{
        static const char *const sizes[] = {"size=4k", "size=64k", "size=1m", "size=4m"};
        struct rig rig;
        char disk[300];
        struct visit *visit;
        unsigned refused = 0;

        rig_open(&rig);
        use_small_disk(&rig, disk, sizeof disk, "size=4k");
        visit = new_visit(&rig, 1, 0);
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                resize_disk(disk, sizes[i]);
                CHECK(rig_visit(&rig, visit));
                expect_clear(visit, sizes[i]);
                refused += !worked(visit);
        }
        CHECK(refused > 0);
        resize_disk(disk, "size=1g");
        CHECK(rig_visit(&rig, visit));
        expect_clear(visit, "size=1g");
        CHECK(worked(visit));
        CHECK_UINT(rig.crashes + rig.hangs, 0);
        rig_close(&rig);
}

TEST(a_disk_without_inodes_is_told)
{
        struct rig rig;
        char disk[300];
        struct visit *visit;

        rig_open(&rig);
        use_small_disk(&rig, disk, sizeof disk, "size=1g,nr_inodes=2");
        visit = new_visit(&rig, 1, 0);
        for (unsigned inodes = 2; inodes <= 8; inodes++) {
                char options[64];

                snprintf(options, sizeof options, "size=1g,nr_inodes=%u", inodes);
                resize_disk(disk, options);
                CHECK(rig_visit(&rig, visit));
                expect_clear(visit, options);
        }
        resize_disk(disk, "size=1g,nr_inodes=1000");
        CHECK(rig_visit(&rig, visit));
        CHECK(worked(visit));
        CHECK_UINT(rig.crashes + rig.hangs, 0);
        rig_close(&rig);
}

TEST_WITHIN(300, a_disk_that_fills_up_in_use_neither_crashes_nor_lowers_a_token)
{
        struct rig rig;
        char disk[300];
        char filler[320];
        struct visit *visit;
        uint64_t highest;

        rig_open(&rig);
        use_small_disk(&rig, disk, sizeof disk, "size=512m");
        visit = new_visit(&rig, 10, 0);
        CHECK(rig_visit(&rig, visit));
        CHECK(worked(visit));
        highest = visit->highest;
        fill_disk(disk, filler, sizeof filler);
        visit->times = 200000; /* more than two blocks of reserved tokens */
        CHECK(rig_visit(&rig, visit));
        expect_clear(visit, "200,000 grants on a full disk");
        if (visit->lowest != 0)
                CHECK(visit->lowest > highest);
        highest = visit->highest > highest ? visit->highest : highest;
        visit->times = visit->names = 20000;
        CHECK(rig_visit(&rig, visit));
        expect_clear(visit, "20,000 names on a full disk");
        if (visit->lowest != 0)
                CHECK(visit->lowest > highest);
        highest = visit->highest > highest ? visit->highest : highest;
        REQUIRE(unlink(filler) == 0);
        CHECK(rig_visit(&rig, visit));
        CHECK(worked(visit));
        CHECK(visit->lowest > highest);
        CHECK_UINT(rig.crashes + rig.hangs, 0);
        rig_close(&rig);
}

/* ---- no descriptors ---------------------------------------------------------------------------------------------- */

struct poverty {
        struct visit *visit;
        rlim_t descriptors;
};

static int visit_in_poverty(void *arg)
{
        struct poverty *poverty = arg;
        struct visit *visit = poverty->visit;
        struct rlimit limit = {poverty->descriptors, poverty->descriptors};
        pawl_client *client;
        pawl_lock *lock;

        setrlimit(RLIMIT_NOFILE, &limit);
        visit->opened = pawl_open(visit->url, PAWL_OPEN(.why = &visit->why), &client);
        if (visit->opened != PAWL_OK)
                return 0;
        visit->status = pawl_acquire(client, "chaos/0", PAWL_LOCK(.wait_ms = 1000, .why = &visit->why), &lock);
        if (visit->status == PAWL_OK)
                visit->status = pawl_release(lock);
        return pawl_close(client) == PAWL_OK ? 0 : WORKER_SURPRISED;
}

TEST(a_process_without_descriptors_is_told_and_harms_nobody)
{
        struct rig rig;
        struct visit *visit;
        unsigned refused = 0;

        rig_open(&rig);
        visit = new_visit(&rig, 1, 0);
        for (rlim_t descriptors = 3; descriptors < 24; descriptors++) {
                struct poverty poverty = {visit, descriptors};

                memset(&visit->why, 0, sizeof visit->why);
                visit->opened = visit->status = PAWL_OK;
                CHECK_INT(rig_do(&rig, visit_in_poverty, &poverty), 0);
                refused += !worked(visit);
                if (!worked(visit))
                        CHECK(strlen(visit->why.text) > 0);
        }
        CHECK(refused > 0);
        CHECK(worked(visit));
        CHECK_UINT(rig.crashes + rig.hangs, 0);
        rig_close(&rig);
}

/* ---- the directory goes away ------------------------------------------------------------------------------------ */

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *where)
{
        (void)status;
        (void)flag;
        (void)where;
        remove(path);
        return 0;
}

struct squatter {
        const char *url;
        atomic_int held;
        atomic_int stop;
        atomic_int status; /* of the last acquire */
        atomic_int belief; /* in the lock that is held */
        atomic_uint_fast64_t highest;
};

/* Holds one lock, and takes and gives another, all the time. */
static int squat(void *arg)
{
        struct squatter *squatter = arg;
        pawl_client *client;
        pawl_lock *lock, *other;

        if (pawl_open(squatter->url, NULL, &client) != PAWL_OK)
                return WORKER_CANNOT_OPEN;
        if (pawl_acquire(client, "chaos/0", PAWL_LOCK(.ttl_ms = 500), &lock) != PAWL_OK)
                return WORKER_SURPRISED;
        while (!atomic_load(&squatter->stop)) {
                int status = pawl_acquire(client, "chaos/1", PAWL_LOCK(.wait_ms = 100), &other);

                if (status == PAWL_OK) {
                        atomic_store(&squatter->highest, pawl_token(other));
                        pawl_release(other);
                }
                atomic_store(&squatter->status, status);
                atomic_store(&squatter->belief, pawl_check(lock));
                atomic_store(&squatter->held, 1);
                sleep_ns(MS);
        }
        pawl_release(lock);
        pawl_close(client);
        return 0;
}

static bool has_noticed(struct squatter *squatter)
{
        int64_t deadline = boottime_now() + 20 * SECOND;

        while (boottime_now() < deadline) {
                if (atomic_load(&squatter->status) != PAWL_OK && atomic_load(&squatter->belief) == PAWL_LOST)
                        return true;
                sleep_ns(10 * MS);
        }
        return false;
}

TEST(a_state_directory_deleted_in_use_is_noticed_and_the_tokens_go_on)
{
        struct rig rig;
        struct squatter *squatter = rig_share(sizeof *squatter);
        struct visit *visit;
        struct child *child;
        uint64_t before;

        rig_open(&rig);
        squatter->url = rig.url;
        child = rig_start(&rig, squat, squatter);
        while (!atomic_load(&squatter->held))
                sleep_ns(MS);
        nftw(rig.state, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        before = atomic_load(&squatter->highest);
        visit = new_visit(&rig, 100, 0);
        visit->name = 1;
        CHECK(rig_visit(&rig, visit));
        expect_clear(visit, "a new client after the deletion");
        if (visit->lowest != 0)
                CHECK(visit->lowest > before);
        CHECK(has_noticed(squatter));
        NOTE("the old client is told %s", pawl_error_name(atomic_load(&squatter->status)));
        atomic_store(&squatter->stop, 1);
        CHECK_INT(rig_wait(&rig, child, 20 * SECOND), 0);
        CHECK_UINT(rig.crashes + rig.hangs, 0);
        rig_close(&rig);
}
