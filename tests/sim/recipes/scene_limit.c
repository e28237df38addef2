/* scene_limit.c - permits of one bucket (pawl/limit.h): in no stretch of time are there more than the burst and the
 * rate allow, by the store's clock; and nobody is let go before its permit counts. */
#include <inttypes.h>
#include <pawl/limit.h>
#include <stdlib.h>
#include <string.h>

#include "stage.h"

enum { RATE = 10, BURST = 3, WANTED = 6, PERMITS_MAX = 1024, BUG_FROM_THE_CALL = 1 };

struct permits {
        int64_t at_us[PERMITS_MAX];
        int count;
};

/* Only the waiting is left out: each permit counts from when it was asked for. */
static int take_at_once(struct stage *stage, pawl_client *client, struct pawl_permit *permit)
{
        int code = pawl_limit(client, "mails", PAWL_LIMIT(.rate = 1000 * RATE, .burst = 1000 * BURST), permit);

        permit->at_us = stage_store_us(stage);
        return code;
}

static bool take(struct stage *stage, pawl_client *client)
{
        struct permits *permits = stage->state;
        struct pawl_permit permit = {0};
        int64_t early;
        int code;

        do {
                code = stage->direction.bug == BUG_FROM_THE_CALL
                               ? take_at_once(stage, client, &permit)
                               : pawl_limit(client, "mails", PAWL_LIMIT(.rate = RATE, .burst = BURST), &permit);
        } while (code != PAWL_OK && stage_again(stage, code, "pawl_limit"));
        if (code != PAWL_OK)
                return false;
        early = permit.at_us - stage_store_us(stage);
        if (early > permit.wait_ms * 10 + 1000) /* what honest clocks may differ, and the last digit */
                stage_fail(stage, "a permit was given %" PRId64 " us before its time", early);
        if (permits->count < PERMITS_MAX)
                permits->at_us[permits->count++] = permit.at_us;
        return true;
}

static void play(struct stage *stage, int process)
{
        struct pawl_client *client = stage_open(stage, process);

        for (int i = 0; i < WANTED && take(stage, client); i++)
                stage_pause(stage, 0, stage_chance(stage, 3) ? 50 * MS : 900 * MS);
        pawl_close(client);
}

static int compare(const void *one, const void *other)
{
        int64_t first = *(const int64_t *)one, second = *(const int64_t *)other;

        return first < second ? -1 : first > second;
}

static void end(struct stage *stage)
{
        struct permits *permits = stage->state;

        qsort(permits->at_us, (size_t)permits->count, sizeof(permits->at_us[0]), compare);
        for (int from = 0; from < permits->count; from++)
                for (int to = from; to < permits->count; to++) {
                        int64_t length = permits->at_us[to] - permits->at_us[from] + 2; /* each was rounded down */

                        if ((to - from + 1 - BURST) * INT64_C(1000000) > RATE * length)
                                stage_fail(stage, "%d permits within %" PRId64 " us", to - from + 1, length);
                }
}

static const char *const bugs[] = {"permits count from the call, whatever the bucket says", NULL};

const struct scene scene_limit = {.name = "limit",
                                  .promise = "no more permits in any time than burst and rate allow",
                                  .processes = 4,
                                  .again = true,
                                  .bound = 60 * SECOND,
                                  .play = play,
                                  .end = end,
                                  .size = sizeof(struct permits),
                                  .bugs = bugs};
