/* scene_barrier.c - rounds at a barrier, and a latch that is counted down (pawl/barrier.h). Whoever goes through has a
 * token, and the gate says up to which token each round went: of no round go more than the barrier is for, and without
 * faults as many. A latch opens when all have counted, not before. */
#include <inttypes.h>
#include <pawl/barrier.h>
#include <stdio.h>
#include <string.h>

#include "stage.h"

enum { PARTIES = 3, PEOPLE = 4, ROUNDS = 2, OPENED_MAX = 64, PASSED_MAX = 256, BUG_FOR_FEWER = 1 };

struct gate {
        uint64_t opened[OPENED_MAX]; /* the last token of each round */
        int opened_count;
        uint64_t passed[PASSED_MAX];
        int passed_count;
        uint64_t counted; /* whose counts the latch has surely got */
        uint64_t tried;   /* and whose it may have got */
};

/* ---- the gate ---------------------------------------------------------------------------------------------------- */

static void watch(struct stage *stage)
{
        const struct kept *kept = &stage->world->server.names[sim_name_index("gate/lunch")].kept;
        struct gate *gate = stage->state;
        char text[64] = "";
        uint64_t through;

        if (!kept->data || kept->size >= sizeof(text))
                return;
        memcpy(text, kept->data, kept->size);
        if (sscanf(text, "pawl-barrier 1 %" SCNu64, &through) != 1)
                return;
        if (gate->opened_count && gate->opened[gate->opened_count - 1] == through)
                return;
        if (gate->opened_count && gate->opened[gate->opened_count - 1] > through)
                stage_fail(stage, "the gate was opened up to %" PRIu64 ", and now up to %" PRIu64,
                           gate->opened[gate->opened_count - 1], through);
        if (gate->opened_count < OPENED_MAX)
                gate->opened[gate->opened_count++] = through;
}

static int in_round(const struct gate *gate, int round)
{
        uint64_t after = round ? gate->opened[round - 1] : 0;
        int count = 0;

        for (int i = 0; i < gate->passed_count; i++)
                count += gate->passed[i] > after && gate->passed[i] <= gate->opened[round];
        return count;
}

static void end(struct stage *stage)
{
        const struct gate *gate = stage->state;
        bool faults = stage->direction.faults || stage->direction.crash;

        for (int round = 0; round < gate->opened_count; round++) {
                int count = in_round(gate, round);

                if (count > PARTIES || (!faults && count < PARTIES))
                        stage_fail(stage, "%d went through in round %d, which is for %d", count, round, PARTIES);
        }
}

/* ---- people ------------------------------------------------------------------------------------------------------ */

static void go_through(struct stage *stage, int process, pawl_barrier *barrier)
{
        struct gate *gate = stage->state;
        bool alive = pawl_barrier_check(barrier) == PAWL_OK;
        uint64_t token = stage_token(process, "barrier/lunch");

        stage_say(stage, "goes through with token %" PRIu64 "%s", token, alive ? "" : ", and is taken for dead");
        if (gate->passed_count < PASSED_MAX)
                gate->passed[gate->passed_count++] = token;
        stage_pause(stage, 0, 60 * MS);
}

/* Now and then shorter than a request takes: who gives up must not be counted, also not by a grant that arrives later. */
static int64_t patience(struct stage *stage)
{
        return stage_chance(stage, 3) ? 1500 : 1 + (int64_t)stage_chance(stage, 3);
}

static bool lunch(struct stage *stage, pawl_client *client, int process)
{
        uint32_t parties = stage->direction.bug == BUG_FOR_FEWER ? PARTIES - 1 : PARTIES;
        pawl_barrier *barrier;
        int code;

        code = pawl_barrier_enter(client, "lunch", parties, PAWL_BARRIER(.wait_ms = patience(stage)), &barrier);
        if (code == PAWL_TIMEOUT) /* too few are left for another round */
                return true;
        if (code != PAWL_OK)
                return stage_again(stage, code, "pawl_barrier_enter");
        go_through(stage, process, barrier);
        code = pawl_barrier_leave(barrier, PAWL_FOREVER);
        return code == PAWL_OK || stage_again(stage, code, "pawl_barrier_leave");
}

/* Counts once, however often it dies; where that is not known the latch may have got it twice. */
static bool count(struct stage *stage, pawl_client *client, int process)
{
        struct gate *gate = stage->state;
        uint64_t me = UINT64_C(1) << process;
        int code = PAWL_OK;

        while (!(gate->counted & me)) {
                gate->tried |= me;
                code = pawl_latch_down(client, "shards", PEOPLE, 1, NULL, NULL);
                if (code != PAWL_OK && !stage_again(stage, code, "pawl_latch_down"))
                        return false;
                if (code == PAWL_OK)
                        gate->counted |= me;
        }
        while ((code = pawl_latch_wait(client, "shards", NULL)) != PAWL_OK)
                if (!stage_again(stage, code, "pawl_latch_wait"))
                        return false;
        if (!stage->direction.faults && !stage->direction.crash && gate->tried != (UINT64_C(1) << PEOPLE) - 1)
                stage_fail(stage, "the latch is open, and some have not counted");
        return true;
}

static void play(struct stage *stage, int process)
{
        struct pawl_client *client = stage_open(stage, process);
        bool well = true;

        for (int i = 0; i < ROUNDS && well; i++) {
                stage_pause(stage, 0, stage_chance(stage, 2) ? 200 * MS : 5 * MS);
                well = lunch(stage, client, process);
        }
        if (well)
                count(stage, client, process);
        pawl_close(client);
}

static const char *const bugs[] = {"everybody takes the barrier for one that is for fewer", NULL};

const struct scene scene_barrier = {.name = "barrier",
                                    .promise = "of no round go more through than it is for",
                                    .processes = PEOPLE,
                                    .again = true,
                                    .bound = 60 * SECOND,
                                    .play = play,
                                    .watch = watch,
                                    .end = end,
                                    .size = sizeof(struct gate),
                                    .bugs = bugs};
