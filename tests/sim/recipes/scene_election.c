/* scene_election.c - candidates lead for a while, one after another (pawl/election.h). That two never believe to lead
 * at the same time is checked after every step, as for all locks; here: epochs grow, the guarded resource takes
 * nothing from an old leader, the value is the leader's own, and a demotion is told once. */
#include <inttypes.h>
#include <pawl/election.h>
#include <stdio.h>
#include <string.h>

#include "stage.h"

enum { TERMS = 3, BUG_NO_FENCE = 1 };

struct politics {
        uint64_t epoch;   /* of the latest leader */
        uint64_t highest; /* the resource's */
        uint64_t written; /* by whom, the last time */
        int terms;
        int demoted[CLIENTS_MAX]; /* in this term */
};

static void on_demoted(pawl_election *election, int reason, void *arg)
{
        int *demoted = arg;

        (void)election, (void)reason;
        ++*demoted;
}

/* One thing that leaders do: it looks, then acts, and may have been asleep in between. */
static void act(struct stage *stage, uint64_t epoch)
{
        struct politics *politics = stage->state;

        if (!stage_admit(&politics->highest, epoch) && stage->direction.bug != BUG_NO_FENCE)
                return;
        if (epoch < politics->written)
                stage_fail(stage, "the leader of epoch %" PRIu64 " acted after that of %" PRIu64, epoch,
                           politics->written);
        politics->written = epoch;
}

static void lead(struct stage *stage, pawl_election *election, int process)
{
        struct politics *politics = stage->state;
        uint64_t epoch = pawl_epoch(election);
        int things = (int)stage_chance(stage, 6);

        if (pawl_leads(election) == PAWL_OK) { /* it may have been asleep since it was told */
                stage_say(stage, "leads, epoch %" PRIu64, epoch);
                if (epoch <= politics->epoch)
                        stage_fail(stage, "epoch %" PRIu64 " came after %" PRIu64, epoch, politics->epoch);
                politics->epoch = epoch;
        }
        while (things-- > 0 && pawl_leads(election) == PAWL_OK) {
                stage_pause(stage, 0, 200 * MS);
                act(stage, epoch);
        }
        if (politics->demoted[process] > 1)
                stage_fail(stage, "process %d was told %d times that it does not lead any more", process,
                           politics->demoted[process]);
}

/* Who leads says who it is. */
static void look(struct stage *stage, pawl_client *client)
{
        struct pawl_leader leader;

        if (pawl_leader(client, "scheduler", NULL, &leader) != PAWL_OK)
                return;
        if (leader.value && strcmp(leader.value, leader.owner) != 0)
                stage_fail(stage, "%s leads, with the value of %s", leader.owner, (char *)leader.value);
        pawl_leader_free(&leader);
}

static bool serve(struct stage *stage, pawl_client *client, int process)
{
        struct politics *politics = stage->state;
        pawl_election *election;
        char value[32];
        int code;

        snprintf(value, sizeof(value), "process %d", process);
        politics->demoted[process] = 0;
        code = pawl_campaign(client, "scheduler",
                             PAWL_ELECTION(.value = value, .value_size = strlen(value), .on_demoted = on_demoted,
                                           .arg = &politics->demoted[process]),
                             &election);
        if (code != PAWL_OK)
                return stage_again(stage, code, "pawl_campaign");
        politics->terms++;
        lead(stage, election, process);
        pawl_resign(election);
        return true;
}

static void play(struct stage *stage, int process)
{
        struct pawl_client *client = stage_open(stage, process);

        for (int i = 0; i < TERMS && serve(stage, client, process); i++) {
                stage_pause(stage, 0, 300 * MS);
                look(stage, client);
        }
        pawl_close(client);
}

static void end(struct stage *stage)
{
        const struct politics *politics = stage->state;

        if (!stage->direction.faults && politics->terms < TERMS * (stage->scene->processes - 1))
                stage_fail(stage, "there were only %d terms", politics->terms);
}

static const char *const bugs[] = {"what leaders do is not fenced", NULL};

const struct scene scene_election = {.name = "election",
                                     .promise = "one leader at a time, and epochs grow",
                                     .processes = 4,
                                     .again = true,
                                     .bound = 40 * SECOND,
                                     .play = play,
                                     .end = end,
                                     .size = sizeof(struct politics),
                                     .bugs = bugs};
