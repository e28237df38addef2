/* test_damage.c - a state file that was cut, scribbled over, or left by another boot, while nobody uses it; and clocks
 * that do not agree. Allowed: a clear error, or an engine that works. Never: a crash, a hang, a lower token. */
#include <fcntl.h>
#include <ftw.h>
#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rig.h"
#include "tap.h"

static struct visit *new_visit(struct rig *rig)
{
        struct visit *visit = rig_share(sizeof *visit);

        snprintf(visit->url, sizeof visit->url, "%s", rig->url);
        visit->wait_ms = 500;
        visit->times = 20;
        visit->names = 5;
        return visit;
}

static int outcome(const struct visit *visit)
{
        return visit->opened != PAWL_OK ? visit->opened : visit->status;
}

static int remove_one(const char *path, const struct stat *status, int flag, struct FTW *where)
{
        (void)status;
        (void)flag;
        (void)where;
        remove(path);
        return 0;
}

/* ---- damage ----------------------------------------------------------------------------------------------------- */

enum { CODES = 64 };

struct damage {
        struct rig rig;
        struct visit *visit;
        unsigned outcomes[CODES];
        unsigned times;
};

/* A fresh state with some tokens spent and some detached leases in it. Returns the highest token. */
static uint64_t prepare(struct damage *damage, char *path, size_t size)
{
        struct visit *visit = damage->visit;
        uint64_t highest;

        nftw(damage->rig.state, remove_one, 16, FTW_DEPTH | FTW_PHYS);
        REQUIRE(rig_visit(&damage->rig, visit));
        REQUIRE(outcome(visit) == PAWL_OK);
        highest = visit->highest;
        visit->flags = PAWL_DETACH;
        visit->name = 100;
        visit->times = visit->names;
        REQUIRE(rig_visit(&damage->rig, visit));
        REQUIRE(outcome(visit) == PAWL_OK);
        visit->flags = 0;
        visit->name = 0;
        visit->times = 20;
        REQUIRE(find_state_file(damage->rig.state, path, size));
        return visit->highest > highest ? visit->highest : highest;
}

static void expect_sane(struct damage *damage, uint64_t highest, const char *what, uint64_t where)
{
        struct visit *visit = damage->visit;
        int code;

        visit->why.text[0] = '\0';
        CHECK(rig_visit(&damage->rig, visit));
        code = outcome(visit);
        damage->outcomes[code >= 0 && code < CODES ? code : 0]++;
        damage->times++;
        if (visit->lowest != 0 && !CHECK(visit->lowest > highest))
                NOTE("%s at %" PRIu64 ": token %" PRIu64 " after %" PRIu64, what, where, visit->lowest, highest);
        if (visit->highest > INT64_MAX)
                CHECK(!"a token fits a signed number");
        if (visit->opened != PAWL_OK && !CHECK(strlen(visit->why.text) > 0))
                NOTE("%s at %" PRIu64 ": %s without a sentence", what, where, pawl_error_name(code));
        if (damage->rig.crashes + damage->rig.hangs > 0)
                NOTE("%s at %" PRIu64 ": crash or hang", what, where);
}

static void open_damage(struct damage *damage)
{
        memset(damage, 0, sizeof *damage);
        rig_open(&damage->rig);
        damage->visit = new_visit(&damage->rig);
}

static void close_damage(struct damage *damage)
{
        for (int code = 0; code < CODES; code++)
                if (damage->outcomes[code] > 0)
                        NOTE("%u of %u: %s", damage->outcomes[code], damage->times, pawl_error_name(code));
        CHECK_UINT(damage->rig.crashes, 0);
        CHECK_UINT(damage->rig.hangs, 0);
        rig_close(&damage->rig);
}

TEST_WITHIN(300, a_truncated_state_file_is_refused_or_rebuilt)
{
        struct damage damage;
        char path[512];
        struct stat status;

        open_damage(&damage);
        for (unsigned i = 0; i < 14; i++) {
                uint64_t highest = prepare(&damage, path, sizeof path);
                uint64_t length;

                REQUIRE(stat(path, &status) == 0);
                length = i == 0   ? 0
                         : i == 1 ? 1
                         : i == 2 ? 4095
                         : i == 3 ? 4096
                         : i == 4 ? (uint64_t)status.st_size - 1
                                  : rig_chance(&damage.rig, (uint64_t)status.st_size);
                REQUIRE(truncate(path, (off_t)length) == 0);
                expect_sane(&damage, highest, "cut", length);
        }
        close_damage(&damage);
}

struct cut_list {
        char paths[8][512];
        unsigned count;
};
static struct cut_list files;

static int note_file(const char *path, const struct stat *status, int flag, struct FTW *where)
{
        (void)flag;
        (void)where;
        if (S_ISREG(status->st_mode) && files.count < 8)
                snprintf(files.paths[files.count++], sizeof files.paths[0], "%s", path);
        return 0;
}

TEST_WITHIN(300, every_file_of_the_directory_may_be_emptied_or_removed)
{
        struct damage damage;
        char path[512];

        open_damage(&damage);
        prepare(&damage, path, sizeof path);
        files.count = 0;
        nftw(damage.rig.state, note_file, 16, FTW_PHYS);
        for (unsigned i = 0; i < 2 * files.count; i++) {
                uint64_t highest = prepare(&damage, path, sizeof path);

                NOTE("%s %s", i % 2 ? "removed" : "emptied", files.paths[i / 2] + strlen(damage.rig.state));
                if (i % 2)
                        REQUIRE(unlink(files.paths[i / 2]) == 0);
                else
                        REQUIRE(truncate(files.paths[i / 2], 0) == 0);
                expect_sane(&damage, highest, "file", i);
        }
        close_damage(&damage);
}

/* Random bytes, all zeros, all ones, or one bit. */
static void scribble(struct rig *rig, int fd, uint64_t at, uint64_t length)
{
        unsigned char *bytes = malloc(length);
        uint64_t kind = rig_chance(rig, 4);

        REQUIRE(bytes != NULL);
        REQUIRE(pread(fd, bytes, length, (off_t)at) >= 0);
        if (kind == 0)
                bytes[rig_chance(rig, length)] ^= (unsigned char)(1 << rig_chance(rig, 8));
        else
                for (uint64_t i = 0; i < length; i++)
                        bytes[i] = kind == 1 ? 0 : kind == 2 ? 0xff : (unsigned char)rig_chance(rig, 256);
        REQUIRE(pwrite(fd, bytes, length, (off_t)at) == (ssize_t)length);
        free(bytes);
}

/* Half of the damage goes into the first two pages, where the heads are; the rest mostly where something is written,
 * since a file may have holes. */
static uint64_t choose_place(struct rig *rig, int fd, uint64_t size)
{
        uint64_t at = rig_chance(rig, size);
        off_t data;

        if (rig_chance(rig, 2))
                return rig_chance(rig, 8192);
        data = rig_chance(rig, 4) ? lseek(fd, (off_t)at, SEEK_DATA) : -1;
        return data < 0 ? at : (uint64_t)data + rig_chance(rig, 4096);
}

static void scribble_somewhere(struct rig *rig, const char *path, uint64_t *at)
{
        struct stat status;
        int fd = open(path, O_RDWR | O_CLOEXEC);
        uint64_t length = UINT64_C(1) << rig_chance(rig, 13);

        REQUIRE(fd >= 0 && fstat(fd, &status) == 0);
        *at = choose_place(rig, fd, (uint64_t)status.st_size);
        if (*at + length > (uint64_t)status.st_size)
                *at = (uint64_t)status.st_size - length;
        scribble(rig, fd, *at, length);
        close(fd);
}

TEST_WITHIN(600, a_scribbled_state_file_neither_crashes_nor_lowers_a_token)
{
        struct damage damage;
        char path[512];
        int64_t end;

        open_damage(&damage);
        end = boottime_now() + rig_seconds(10) * SECOND;
        while (boottime_now() < end) {
                uint64_t highest = prepare(&damage, path, sizeof path);
                uint64_t at = 0;

                for (uint64_t times = 1 + rig_chance(&damage.rig, 4); times > 0; times--)
                        scribble_somewhere(&damage.rig, path, &at);
                expect_sane(&damage, highest, "scribbled", at);
        }
        close_damage(&damage);
}

/* The last token stands somewhere in the first page: wherever it does, it is set back. */
static unsigned set_back(const char *path, uint64_t token, uint64_t lower)
{
        uint64_t words[512];
        unsigned found = 0;
        int fd = open(path, O_RDWR | O_CLOEXEC);

        REQUIRE(fd >= 0 && pread(fd, words, sizeof words, 0) == (ssize_t)sizeof words);
        for (unsigned i = 0; i < 512; i++) {
                if (words[i] != token)
                        continue;
                REQUIRE(pwrite(fd, &lower, sizeof lower, (off_t)(i * sizeof lower)) == (ssize_t)sizeof lower);
                found++;
        }
        close(fd);
        return found;
}

TEST_WITHIN(120, a_counter_that_was_set_back_is_noticed)
{
        static const uint64_t steps[] = {1, 10, 1000, 65536, 1000000};
        struct damage damage;
        char path[512];

        open_damage(&damage);
        for (size_t i = 0; i <= sizeof steps / sizeof *steps; i++) {
                uint64_t highest = prepare(&damage, path, sizeof path);
                uint64_t lower = i < sizeof steps / sizeof *steps ? highest - steps[i] : 0;

                CHECK(set_back(path, highest, lower) > 0);
                expect_sane(&damage, highest, "set back to", lower);
        }
        close_damage(&damage);
}

/* All that is written of it; a hole may stay one. */
static void overwrite(const char *path, int byte)
{
        char block[65536];
        struct stat status;
        int fd = open(path, O_RDWR | O_CLOEXEC);

        memset(block, byte, sizeof block);
        REQUIRE(fd >= 0 && fstat(fd, &status) == 0);
        for (off_t at = 0; at >= 0 && at < status.st_size; at = lseek(fd, at + (off_t)sizeof block, SEEK_DATA)) {
                size_t left = (size_t)(status.st_size - at);

                REQUIRE(pwrite(fd, block, left < sizeof block ? left : sizeof block, at) > 0);
        }
        close(fd);
}

TEST_WITHIN(120, a_state_file_of_zeros_or_ones_is_refused_or_rebuilt)
{
        struct damage damage;
        char path[512];

        open_damage(&damage);
        for (int byte = 0; byte < 256; byte += 255) {
                uint64_t highest = prepare(&damage, path, sizeof path);

                overwrite(path, byte);
                expect_sane(&damage, highest, "overwritten with", (uint64_t)byte);
        }
        close_damage(&damage);
}

/* ---- another boot ----------------------------------------------------------------------------------------------- */

/* The state is now of an earlier boot, as the kernel names it. A file mounted over the kernel's boot id would only make us a
 * container: tests/engine/local_file_test.c. */
static void pretend_reboot(struct rig *rig, unsigned number)
{
        char path[512], id[37], head[4096], other[37];
        FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
        int fd;
        char *at;

        REQUIRE(file && fscanf(file, "%36s", id) == 1);
        fclose(file);
        REQUIRE(find_state_file(rig->state, path, sizeof path));
        fd = open(path, O_RDWR | O_CLOEXEC);
        REQUIRE(fd >= 0 && pread(fd, head, sizeof head, 0) == (ssize_t)sizeof head);
        at = memmem(head, sizeof head, id, 36);
        REQUIRE(at);
        snprintf(other, sizeof other, "0f0f0f0f-1234-4321-8888-%012u", number);
        REQUIRE(pwrite(fd, other, 36, at - head) == 36);
        close(fd);
}

static void expect_leases_dropped(struct rig *rig, struct visit *visit, uint64_t *highest)
{
        visit->flags = 0;
        CHECK(rig_visit(rig, visit));
        CHECK_INT(visit->opened, PAWL_OK);
        CHECK_INT(visit->status, PAWL_OK);
        if (outcome(visit) != PAWL_OK)
                NOTE("%s", visit->why.text);
        CHECK(visit->lowest > *highest);
        *highest = visit->highest;
}

/* Leaves a lease of a minute behind; in this boot nobody else gets it. */
static void leave_lease(struct rig *rig, struct visit *visit, uint64_t *highest)
{
        visit->flags = PAWL_DETACH;
        CHECK(rig_visit(rig, visit));
        CHECK_INT(outcome(visit), PAWL_OK);
        CHECK(visit->lowest > *highest);
        *highest = visit->highest;
        visit->flags = 0;
        CHECK(rig_visit(rig, visit));
        CHECK_INT(visit->status, PAWL_BUSY);
}

static struct visit *new_lease_visit(struct rig *rig)
{
        struct visit *visit = new_visit(rig);

        visit->wait_ms = PAWL_NO_WAIT;
        visit->ttl_ms = 60000;
        visit->times = visit->names = 1;
        return visit;
}

TEST(after_a_reboot_all_leases_are_dropped_and_the_tokens_go_on)
{
        struct rig rig;
        struct visit *visit;
        uint64_t highest = 0;

        rig_open(&rig);
        visit = new_lease_visit(&rig);
        for (unsigned boot = 1; boot <= 5; boot++) {
                leave_lease(&rig, visit, &highest);
                pretend_reboot(&rig, boot);
                expect_leases_dropped(&rig, visit, &highest);
        }
        CHECK_UINT(rig.crashes + rig.hangs, 0);
        rig_close(&rig);
}

/* ---- clocks ----------------------------------------------------------------------------------------------------- */

static int visit_with_other_clock(void *arg)
{
        struct visit *visit = arg;
        pawl_client *client;
        pawl_lock *lock;

        visit->opened = pawl_open(visit->url, PAWL_OPEN(.why = &visit->why), &client);
        if (visit->opened != PAWL_OK)
                return 0;
        visit->status = pawl_acquire(client, "chaos/0", PAWL_LOCK(.wait_ms = PAWL_NO_WAIT, .why = &visit->why), &lock);
        if (visit->status == PAWL_OK) {
                visit->lowest = visit->highest = pawl_token(lock);
                pawl_release(lock);
        }
        pawl_close(client);
        return 0;
}

struct holding {
        const char *url;
        atomic_int held;
        atomic_int stop;
        uint64_t token;
};

static int hold_until_told(void *arg)
{
        struct holding *holding = arg;
        pawl_client *client;
        pawl_lock *lock;

        if (pawl_open(holding->url, NULL, &client) != PAWL_OK)
                return WORKER_CANNOT_OPEN;
        if (pawl_acquire(client, "chaos/0", PAWL_LOCK(.ttl_ms = 60000), &lock) != PAWL_OK)
                return WORKER_SURPRISED;
        holding->token = pawl_token(lock);
        atomic_store(&holding->held, 1);
        while (!atomic_load(&holding->stop))
                sleep_ns(MS);
        if (pawl_check(lock) != PAWL_OK || pawl_release(lock) != PAWL_OK)
                return WORKER_SURPRISED;
        return pawl_close(client) == PAWL_OK ? 0 : WORKER_SURPRISED;
}

/* A clock that is hours ahead would see every lease as over. */
static void visit_apart(struct rig *rig, struct visit *visit, long offset)
{
        struct child *child;

        memset(&visit->why, 0, sizeof visit->why);
        visit->opened = visit->status = PAWL_OK;
        visit->lowest = visit->highest = 0;
        child = rig_start_apart(rig, CLONE_NEWTIME, offset, visit_with_other_clock, visit);
        if (!child)
                SKIP("no time namespaces for us here");
        CHECK_INT(rig_wait(rig, child, 20 * SECOND), 0);
        NOTE("boottime moved by %ld s: open %s, acquire %s %s", offset, pawl_error_name(visit->opened),
             pawl_error_name(visit->status), visit->why.text);
}

TEST(clocks_that_do_not_agree_are_refused_while_the_state_is_in_use)
{
        struct rig rig;
        struct holding *holding = rig_share(sizeof *holding);
        struct visit *visit;
        struct child *child;

        rig_open(&rig);
        visit = new_visit(&rig);
        holding->url = rig.url;
        child = rig_start(&rig, hold_until_told, holding);
        while (!atomic_load(&holding->held))
                sleep_ns(MS);
        visit_apart(&rig, visit, 100000);
        CHECK(visit->opened != PAWL_OK);
        CHECK(strlen(visit->why.text) > 0);
        CHECK(visit->highest == 0);
        atomic_store(&holding->stop, 1);
        CHECK_INT(rig_wait(&rig, child, 20 * SECOND), 0);
        visit_apart(&rig, visit, 100000);
        if (visit->highest != 0)
                CHECK(visit->highest > holding->token);
        CHECK_UINT(rig.crashes + rig.hangs, 0);
        rig_close(&rig);
}

/* The real thing: after a reboot the boot id is another and boottime has started again. */
TEST(after_a_reboot_with_a_clock_that_starts_again_leases_are_dropped_and_tokens_go_on)
{
        struct rig rig;
        struct visit *visit;
        uint64_t highest = 0;
        long uptime = (long)(boottime_now() / SECOND);

        rig_open(&rig);
        visit = new_lease_visit(&rig);
        leave_lease(&rig, visit, &highest);
        pretend_reboot(&rig, 1);
        visit_apart(&rig, visit, -(uptime - 5));
        CHECK_INT(outcome(visit), PAWL_OK);
        CHECK(visit->lowest > highest);
        CHECK_UINT(rig.crashes + rig.hangs, 0);
        rig_close(&rig);
}
