/* scene_naive.c - dining philosophers who take the left fork, then the right one, and wait for each as long as it
 * takes. They starve together, sooner or later: the stage must find that. With one order of forks for all they do not. */
#include <stdio.h>

#include "stage.h"

enum { MEALS = 3 };

static struct pawl_lock *take_fork(struct stage *stage, struct pawl_client *client, int fork)
{
        struct pawl_lock *lock;
        char name[32];
        int code;

        snprintf(name, sizeof(name), "fork/%d", fork);
        code = pawl_acquire(client, name, NULL, &lock);
        if (code == PAWL_OK)
                return lock;
        stage_fail(stage, "a fork could not be waited for: %s", pawl_error_name(code));
        return NULL;
}

static void eat(struct stage *stage, struct pawl_client *client, int first, int second)
{
        struct pawl_lock *one, *other;

        one = take_fork(stage, client, first);
        stage_pause(stage, 0, 20 * MS);
        other = take_fork(stage, client, second);
        stage_pause(stage, 0, 20 * MS);
        pawl_release(other);
        pawl_release(one);
}

static void play(struct stage *stage, int process)
{
        struct pawl_client *client = stage_open(stage, process);
        int left = process, right = (process + 1) % stage->scene->processes;
        bool swap = stage->direction.bug == 0 && left > right;

        for (int i = 0; i < MEALS; i++) {
                eat(stage, client, swap ? right : left, swap ? left : right);
                stage_pause(stage, 0, 30 * MS);
        }
        pawl_close(client);
}

static const char *const bugs[] = {"everybody takes the left fork first", NULL};

const struct scene scene_naive = {.name = "philosophers",
                                  .promise = "forks in one order, and everybody eats",
                                  .processes = 4,
                                  .again = true,
                                  .bound = 60 * SECOND,
                                  .play = play,
                                  .bugs = bugs};
