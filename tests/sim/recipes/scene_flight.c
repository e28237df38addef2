/* scene_flight.c - a page that one builds and the others use (pawl/flight.h): nobody gets one that is older than it
 * may be, and without faults nobody builds while another does, or while it is fresh. */
#include <inttypes.h>
#include <pawl/flight.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stage.h"

enum { VIEWS = 6, FRESH_MS = 400, STALE_MS = 300, BUG_NO_LOCK = 1 };

struct site {
        int building;
        int64_t built_us; /* when the latest was, by the store's clock */
};

/* The text is the time at which its building began. */
static int build(pawl_lock *lock, void **data, size_t *size, void *arg)
{
        struct stage *stage = arg;
        struct site *site = stage->state;
        int64_t now = stage_store_us(stage);
        char text[32];

        (void)lock;
        if (!stage->direction.faults && !stage->direction.crash) {
                if (site->building)
                        stage_fail(stage, "two build at the same time");
                if (site->built_us && now - site->built_us < (FRESH_MS - 1) * 1000)
                        stage_fail(stage, "one builds what is %" PRId64 " us old", now - site->built_us);
        }
        site->building++;
        stage_pause(stage, 0, stage_chance(stage, 6) ? 100 * MS : 2 * SECOND);
        site->building--;
        snprintf(text, sizeof(text), "%" PRId64, stage_store_us(stage));
        *data = strdup(text);
        *size = strlen(text);
        return PAWL_OK;
}

static void look_at(struct stage *stage, const struct pawl_value *value, int64_t asked_us)
{
        int64_t built = strtoll(value->data, NULL, 10);
        struct site *site = stage->state;

        if (built > site->built_us)
                site->built_us = built;
        /* What it was stored with, or sent with, comes on top: with faults that may be long. */
        if (!stage->direction.faults && asked_us - built > (FRESH_MS + STALE_MS + 100) * 1000)
                stage_fail(stage, "a page is %" PRId64 " us old", asked_us - built);
}

static int build_without_lock(struct stage *stage, struct pawl_value *value)
{
        return build(NULL, &value->data, &value->size, stage);
}

static bool view(struct stage *stage, pawl_client *client)
{
        struct pawl_value value = {0};
        int64_t asked_us = stage_store_us(stage);
        int code;

        do
                code = stage->direction.bug == BUG_NO_LOCK
                               ? build_without_lock(stage, &value)
                               : pawl_flight(client, "front", PAWL_FLIGHT(.fresh_ms = FRESH_MS, .stale_ms = STALE_MS),
                                             build, stage, &value);
        while (code != PAWL_OK && stage_again(stage, code, "pawl_flight"));
        if (code != PAWL_OK)
                return false;
        look_at(stage, &value, asked_us);
        free(value.data);
        return true;
}

static void play(struct stage *stage, int process)
{
        struct pawl_client *client = stage_open(stage, process);

        for (int i = 0; i < VIEWS && view(stage, client); i++)
                stage_pause(stage, 0, 300 * MS);
        pawl_close(client);
}

static const char *const bugs[] = {"everybody builds for itself", NULL};

const struct scene scene_flight = {.name = "flight",
                                   .promise = "one builds, and nobody gets what is too old",
                                   .processes = 4,
                                   .again = true,
                                   .bound = 60 * SECOND,
                                   .play = play,
                                   .size = sizeof(struct site),
                                   .bugs = bugs};
