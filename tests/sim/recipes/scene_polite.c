/* scene_polite.c - holders with much to do, who go on until somebody asks them to let go (pawl/handle.h): whoever asks
 * gets the lock, also if another one gets it first, who then has to be asked as well. */
#include <inttypes.h>
#include <pawl/handle.h>

#include "stage.h"

enum { ROUNDS = 2, BUG_NOBODY_ASKS = 1 };

struct desk {
        uint64_t highest;
        bool waits[CLIENTS_MAX]; /* is inside pawl_acquire_asking */
};

/* Is there anybody who could ask? */
static bool somebody_waits(const struct stage *stage)
{
        const struct desk *desk = stage->state;

        for (int i = 0; i < stage->scene->processes; i++)
                if (desk->waits[i] && stage->processes[i].alive)
                        return true;
        return false;
}

/* Until it is asked, or nobody is left who could. */
static void work(struct stage *stage, pawl_client *client, pawl_lock **lock)
{
        struct desk *desk = stage->state;

        while (pawl_check(*lock) == PAWL_OK) {
                if (!stage_admit(&desk->highest, pawl_token(*lock)))
                        stage_fail(stage, "one works at the desk after a later one");
                if (pawl_asked(*lock) || !somebody_waits(stage))
                        return;
                stage_pause(stage, 0, 100 * MS);
        }
        if (stage_chance(stage, 4) == 0 && pawl_yield(client, NULL, lock) != PAWL_OK)
                *lock = NULL;
}

static bool sit_down(struct stage *stage, pawl_client *client, int process)
{
        struct desk *desk = stage->state;
        pawl_lock *lock;
        int code;

        desk->waits[process] = true;
        if (stage->direction.bug == BUG_NOBODY_ASKS)
                code = pawl_acquire(client, "desk", NULL, &lock);
        else
                code = pawl_acquire_asking(client, "desk", NULL, &lock);
        desk->waits[process] = false;
        if (code != PAWL_OK)
                return stage_again(stage, code, "pawl_acquire_asking");
        work(stage, client, &lock);
        pawl_release(lock);
        return true;
}

static void play(struct stage *stage, int process)
{
        struct pawl_client *client = stage_open(stage, process);

        for (int i = 0; i < ROUNDS && sit_down(stage, client, process); i++)
                stage_pause(stage, 0, 50 * MS);
        pawl_close(client);
}

static const char *const bugs[] = {"nobody asks", NULL};

const struct scene scene_polite = {.name = "polite",
                                   .promise = "whoever asks for a lock gets it",
                                   .processes = 4,
                                   .bound = 60 * SECOND,
                                   .play = play,
                                   .size = sizeof(struct desk),
                                   .bugs = bugs};
