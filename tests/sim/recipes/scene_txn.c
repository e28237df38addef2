/* scene_txn.c - dining philosophers again (scene_naive.c), now with transactions (pawl/txn.h), under each of the
 * policies: nobody starves, a fork is in one hand, and if some die the others go on. */
#include <inttypes.h>
#include <pawl/txn.h>
#include <stdio.h>
#include <string.h>

#include "stage.h"

enum { MEALS = 3, SEATS = 4, BUG_HOLDS_ON = 1 };

/* Nobody starves: without faults nobody waits for longer, if only one of them dies. */
#define HUNGER_MAX (5 * SECOND)

struct table {
        uint64_t forks[SEATS]; /* the greatest token that each has seen */
        int meals[SEATS];
        int64_t hungriest; /* the longest that anybody waited for a meal */
};

struct plate {
        struct stage *stage;
        int seat;
};

static int take_fork(const struct plate *plate, pawl_txn *txn, int fork, pawl_lock **lock)
{
        char name[32];
        int code;

        snprintf(name, sizeof(name), "fork/%d", fork);
        code = pawl_txn_acquire(txn, name, NULL, lock);
        while (code == PAWL_WOUNDED && plate->stage->direction.bug == BUG_HOLDS_ON) {
                stage_pause(plate->stage, 5 * MS, 10 * MS);
                code = pawl_txn_acquire(txn, name, NULL, lock);
        }
        return code;
}

/* At this moment, by the transaction's word, both forks are ours: then nobody has taken them since. */
static int bite(const struct plate *plate, pawl_txn *txn, const int *forks, pawl_lock *const *locks)
{
        struct table *table = plate->stage->state;
        int code = pawl_txn_check(txn);

        for (int i = 0; i < 2 && code == PAWL_OK; i++)
                if (!stage_admit(&table->forks[forks[i]], pawl_token(locks[i])))
                        stage_fail(plate->stage, "philosopher %d eats with fork %d, which another one has had since",
                                   plate->seat, forks[i]);
        return code;
}

static int eat(pawl_txn *txn, void *arg)
{
        const struct plate *plate = arg;
        struct stage *stage = plate->stage;
        struct table *table = stage->state;
        int forks[] = {plate->seat, (plate->seat + 1) % SEATS};
        pawl_lock *locks[2] = {NULL, NULL};
        int code = PAWL_OK;

        if (stage->scene->variant == PAWL_ORDERED && forks[0] > forks[1]) {
                forks[0] = forks[1];
                forks[1] = plate->seat;
        }
        for (int i = 0; i < 2 && code == PAWL_OK; i++) {
                code = take_fork(plate, txn, forks[i], &locks[i]);
                stage_pause(stage, 0, 20 * MS);
        }
        if (code == PAWL_OK && (code = bite(plate, txn, forks, locks)) == PAWL_OK) {
                stage_pause(stage, 0, 30 * MS);
                code = bite(plate, txn, forks, locks);
        }
        if (code == PAWL_OK)
                table->meals[plate->seat]++;
        return code;
}

static bool dine(struct stage *stage, pawl_client *client, int seat)
{
        struct table *table = stage->state;
        struct plate plate = {stage, seat};
        int64_t since = stage->world->now;
        int code;

        do
                code = pawl_txn_run(client, PAWL_TXN(.policy = (uint32_t)stage->scene->variant), eat, &plate);
        while (code != PAWL_OK && stage_again(stage, code, "pawl_txn_run"));
        if (stage->world->now - since > table->hungriest)
                table->hungriest = stage->world->now - since;
        stage_say(stage, "has eaten after %" PRId64 " ms", (stage->world->now - since) / MS);
        return code == PAWL_OK;
}

static void play(struct stage *stage, int process)
{
        struct pawl_client *client = stage_open(stage, process);

        for (int i = 0; i < MEALS && dine(stage, client, process); i++)
                stage_pause(stage, 0, 30 * MS);
        pawl_close(client);
}

static void end(struct stage *stage)
{
        const struct table *table = stage->state;

        if (!stage->direction.faults && table->hungriest > HUNGER_MAX)
                stage_fail(stage, "somebody waited %" PRId64 " ms for a meal", table->hungriest / MS);
        for (int i = 0; i < SEATS; i++)
                if (stage->processes[i].alive && table->meals[i] < MEALS)
                        stage_fail(stage, "philosopher %d has eaten %d times", i, table->meals[i]);
}

static const char *const bugs[] = {"who is to give way holds on to what it has", NULL};

#define TXN_SCENE(word, policy)                                                                                        \
        const struct scene scene_txn_##word = {.name = "txn_" #word,                                                   \
                                               .promise = "everybody eats who does not die",                           \
                                               .variant = policy,                                                      \
                                               .processes = SEATS,                                                     \
                                               .bound = 60 * SECOND,                                                   \
                                               .play = play,                                                           \
                                               .end = end,                                                             \
                                               .size = sizeof(struct table),                                           \
                                               .bugs = bugs};

TXN_SCENE(ordered, PAWL_ORDERED)
TXN_SCENE(back_off, PAWL_BACK_OFF)
TXN_SCENE(wait_die, PAWL_WAIT_DIE)
TXN_SCENE(wound_wait, PAWL_WOUND_WAIT)
