/* scene_rw.c - readers, writers, and readers who may become the writer (pawl/rw.h): while somebody reads nobody
 * writes, and what was read before an upgrade still holds after it. */
#include <inttypes.h>
#include <pawl/rw.h>

#include "stage.h"

enum { ROUNDS = 5, BUG_RELEASE_FIRST = 1 };

struct page {
        uint64_t version;
        int upgraded;
};

static void expect(struct stage *stage, uint64_t version, const char *whom)
{
        const struct page *page = stage->state;

        if (page->version != version)
                stage_fail(stage, "%s saw version %" PRIu64 " and now %" PRIu64, whom, version, page->version);
}

static void read_twice(struct stage *stage, pawl_rw *rw)
{
        struct page *page = stage->state;
        uint64_t version;

        if (pawl_rw_check(rw) != PAWL_OK)
                return;
        version = page->version;
        stage_pause(stage, 0, 200 * MS);
        if (pawl_rw_check(rw) == PAWL_OK)
                expect(stage, version, "a reader");
}

static void write_once(struct stage *stage, pawl_rw *rw)
{
        struct page *page = stage->state;
        uint64_t version;

        if (pawl_rw_check(rw) != PAWL_OK)
                return;
        version = page->version;
        stage_pause(stage, 0, 100 * MS);
        if (pawl_rw_check(rw) != PAWL_OK)
                return;
        expect(stage, version, "a writer");
        page->version++;
}

/* What somebody might write who has no upgrade. */
static int release_and_write(pawl_client *client, pawl_rw **rw)
{
        pawl_rw_release(*rw);
        *rw = NULL;
        return pawl_rw_acquire(client, "page", PAWL_WRITE, NULL, rw);
}

static void read_and_upgrade(struct stage *stage, pawl_client *client, pawl_rw **rw)
{
        struct page *page = stage->state;
        uint64_t version;
        int code;

        if (pawl_rw_check(*rw) != PAWL_OK)
                return;
        version = page->version;
        stage_pause(stage, 0, 100 * MS);
        if (stage->direction.bug == BUG_RELEASE_FIRST)
                code = release_and_write(client, rw);
        else
                code = pawl_rw_upgrade(*rw, stage_chance(stage, 3) ? PAWL_FOREVER : 50);
        if (code != PAWL_OK)
                return;
        expect(stage, version, "who became the writer"); /* at this moment: no time has passed since it was said */
        page->upgraded++;
        write_once(stage, *rw);
        if (stage->direction.bug != BUG_RELEASE_FIRST && stage_chance(stage, 2) &&
            pawl_rw_downgrade(*rw, stage_chance(stage, 2) ? PAWL_READ : PAWL_UPGRADABLE) == PAWL_OK)
                read_twice(stage, *rw);
}

static bool round_of(struct stage *stage, pawl_client *client)
{
        static const int modes[] = {PAWL_READ, PAWL_READ, PAWL_WRITE, PAWL_UPGRADABLE, PAWL_UPGRADABLE};
        int mode = modes[stage_chance(stage, sizeof(modes) / sizeof(modes[0]))];
        pawl_rw *rw;
        int code = pawl_rw_acquire(client, "page", mode, NULL, &rw);

        if (code != PAWL_OK)
                return stage_again(stage, code, "pawl_rw_acquire");
        if (mode == PAWL_READ)
                read_twice(stage, rw);
        else if (mode == PAWL_WRITE)
                write_once(stage, rw);
        else
                read_and_upgrade(stage, client, &rw);
        pawl_rw_release(rw);
        return true;
}

static void play(struct stage *stage, int process)
{
        struct pawl_client *client = stage_open(stage, process);

        for (int i = 0; i < ROUNDS && round_of(stage, client); i++)
                stage_pause(stage, 0, 100 * MS);
        pawl_close(client);
}

static const char *const bugs[] = {"a reader gives its lock back and takes another one to write", NULL};

const struct scene scene_rw = {.name = "rw",
                               .promise = "what was read holds until it is written",
                               .processes = 4,
                               .again = true,
                               .bound = 60 * SECOND,
                               .play = play,
                               .size = sizeof(struct page),
                               .bugs = bugs};
