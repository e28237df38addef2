/* scene_plain.c - no recipe at all: processes take one lock through the API, and update what it guards. It shows that the
 * stage itself holds. */
#include "stage.h"

enum { ROUNDS = 4 };

struct plain {
        uint64_t highest; /* the resource: the greatest token it has seen */
        uint64_t version;
        int written;
};

/* Reads, thinks, writes: an update is lost if another one wrote meanwhile and this is admitted all the same. */
static void update(struct stage *stage, struct pawl_lock *lock)
{
        struct plain *plain = stage->state;
        uint64_t token = pawl_token(lock), version;

        if (pawl_check(lock) != PAWL_OK || !stage_admit(&plain->highest, token))
                return;
        version = plain->version;
        stage_pause(stage, 0, 300 * MS);
        if ((stage->direction.bug != 1 && pawl_check(lock) != PAWL_OK) ||
            (stage->direction.bug != 1 && !stage_admit(&plain->highest, token)))
                return;
        if (plain->version != version)
                stage_fail(stage, "an update was lost: version %llu was written over %llu",
                           (unsigned long long)version + 1, (unsigned long long)plain->version);
        plain->version = version + 1;
        plain->written++;
}

static void play(struct stage *stage, int process)
{
        struct pawl_client *client = stage_open(stage, process);

        for (int i = 0; i < ROUNDS; i++) {
                struct pawl_lock *lock;
                int code = pawl_acquire(client, "orders", NULL, &lock);

                if (code != PAWL_OK) {
                        stage_fail(stage, "who would wait for ever was told %s", pawl_error_name(code));
                        break;
                }
                update(stage, lock);
                code = pawl_release(lock);
                if (code != PAWL_OK && stage->world->calm && stage->world->plan.faults_until == 0)
                        stage_fail(stage, "without a fault a release said %s", pawl_error_name(code));
                stage_pause(stage, 0, 50 * MS);
        }
        pawl_close(client);
}

static void end(struct stage *stage)
{
        const struct plain *plain = stage->state;

        if (!stage->direction.faults && !stage->direction.crash && plain->written != ROUNDS * stage->scene->processes)
                stage_fail(stage, "%d updates were made, not %d", plain->written, ROUNDS * stage->scene->processes);
}

static const char *const bugs[] = {"a write neither checks the lock nor shows its token", NULL};

const struct scene scene_plain = {.name = "plain",
                                  .promise = "one lock, and no update is lost",
                                  .processes = 3,
                                  .again = true,
                                  .bound = 30 * SECOND,
                                  .play = play,
                                  .end = end,
                                  .size = sizeof(struct plain),
                                  .bugs = bugs};
