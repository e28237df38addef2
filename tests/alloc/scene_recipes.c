/* scene_recipes.c - the scenario of the recipes, each call of each: see scene.h. */
#include "scene.h"

#include <pawl/barrier.h>
#include <pawl/election.h>
#include <pawl/flight.h>
#include <pawl/handle.h>
#include <pawl/limit.h>
#include <pawl/once.h>
#include <pawl/rw.h>
#include <pawl/txn.h>

#include "../contract/contract.h"

struct scene {
        const char *place;
        uint32_t drive;
        pawl_client *one, *two;
};

static const char *phase = "";

static int open_both(struct scene *scene)
{
        int code = pawl_open(scene->place, PAWL_OPEN(.drive = scene->drive), &scene->one);

        return code != PAWL_OK ? code : pawl_open(scene->place, PAWL_OPEN(.drive = scene->drive), &scene->two);
}

/* ---- once ------------------------------------------------------------------------------------------------------------ */

static int execute(pawl_lock *lock, struct pawl_result *result, void *arg)
{
        (void)lock;
        ++*(int *)arg;
        result->data = strdup("done");
        result->size = 4;
        result->status = 7;
        return result->data ? PAWL_OK : PAWL_NO_MEMORY;
}

/* A result that was found or made. */
static void check_result(struct pawl_result *result)
{
        CHECK_STR(result->data, "done");
        CHECK_UINT(result->size, 4);
        CHECK_INT(result->status, 7);
        free(result->data);
}

static int forget_once(pawl_client *client, const char *key)
{
        int code = pawl_once_forget(client, key, NULL);

        return code == PAWL_NOT_FOUND ? PAWL_OK : code; /* nothing was left by a scene that failed */
}

/* What one was told is done two finds. */
static int once(struct scene *scene)
{
        struct pawl_result result;
        int runs = 0, code = forget_once(scene->one, "k");

        if (code == PAWL_OK)
                code = pawl_once(scene->one, "k", NULL, execute, &runs, &result);
        if (code != PAWL_OK)
                return code;
        check_result(&result);
        code = pawl_once(scene->two, "k", NULL, execute, &runs, &result);
        if (code != PAWL_OK)
                return code;
        check_result(&result);
        CHECK_INT(runs, 1);
        code = pawl_once_look(scene->two, "k", NULL, &result);
        if (code == PAWL_OK)
                check_result(&result);
        return code;
}

static int once_in_parts(struct scene *scene)
{
        const struct pawl_result made = {.data = (char[]){"done"}, .size = 4, .status = 7};
        struct pawl_result result;
        pawl_lock *lock;
        int code = forget_once(scene->one, "parts");

        if (code == PAWL_OK)
                code = pawl_once_begin(scene->one, "parts", NULL, &result, &lock);
        if (code != PAWL_OK)
                return code;
        if (!CHECK(lock != NULL)) {
                free(result.data);
                return PAWL_MISUSE;
        }
        code = pawl_once_finish(lock, &made, 5000);
        return code == PAWL_OK ? pawl_once_forget(scene->two, "parts", NULL) : code;
}

/* ---- limit, flight --------------------------------------------------------------------------------------------------- */

static int limit(struct scene *scene)
{
        struct pawl_permit permit;
        int code = PAWL_OK;

        for (int i = 0; i < 2 && code == PAWL_OK; i++)
                code = pawl_limit(i ? scene->two : scene->one, "rate", PAWL_LIMIT(.rate = 1000), &permit);
        return code;
}

static int build(pawl_lock *lock, void **data, size_t *size, void *arg)
{
        (void)lock;
        (void)arg;
        *data = strdup("built");
        *size = 5;
        return *data ? PAWL_OK : PAWL_NO_MEMORY;
}

static int flight(struct scene *scene)
{
        struct pawl_value value;
        int code = PAWL_OK;

        for (int i = 0; i < 2 && code == PAWL_OK; i++) {
                code = pawl_flight(i ? scene->two : scene->one, "page", PAWL_FLIGHT(.stale_ms = 1000), build, NULL,
                                   &value);
                if (code == PAWL_OK) {
                        CHECK_STR(value.data, "built");
                        free(value.data);
                }
        }
        return code == PAWL_OK ? pawl_flight_forget(scene->one, "page", NULL) : code;
}

/* ---- election -------------------------------------------------------------------------------------------------------- */

static int on_news(const struct pawl_leader *leader, void *arg)
{
        (void)arg;
        return leader != NULL;
}

static int watch(struct scene *scene, pawl_election *election)
{
        struct pawl_leader leader;
        int code = pawl_publish(election, "another", 7);

        if (code == PAWL_OK)
                code = pawl_leader(scene->two, "boss", NULL, &leader);
        if (code != PAWL_OK)
                return code;
        CHECK_UINT(leader.epoch, pawl_epoch(election));
        CHECK_STR(leader.value, "another");
        pawl_leader_free(&leader);
        code = pawl_observe(scene->two, "boss", PAWL_OBSERVE(.every_ms = 5, .wait_ms = 500), on_news, NULL);
        return code == PAWL_TIMEOUT ? PAWL_NO_MEMORY : code; /* it was asked again and again, and always in vain */
}

static int elect(struct scene *scene)
{
        pawl_election *election;
        int left, code = pawl_campaign(scene->one, "boss",
                                       PAWL_ELECTION(.value = "address", .value_size = 7, .note = "n"), &election);

        if (code != PAWL_OK)
                return code;
        code = watch(scene, election);
        left = pawl_resign(election);
        return code != PAWL_OK ? code : left;
}

static void on_elected(pawl_election *election, int status, void *arg)
{
        (void)election;
        (void)status;
        (void)arg;
}

/* A candidate who goes before it is elected. */
static int stand(struct scene *scene)
{
        pawl_election *leader, *candidate;
        int code = pawl_campaign(scene->one, "boss", NULL, &leader);

        if (code != PAWL_OK)
                return code;
        code = pawl_campaign_async(scene->two, "boss", NULL, on_elected, NULL, &candidate);
        if (code == PAWL_OK)
                (void)pawl_resign(candidate);
        (void)pawl_resign(leader);
        return code;
}

/* ---- readers and writers --------------------------------------------------------------------------------------------- */

/* Without memory for good NAME cannot be taken back. */
static int up_and_down(pawl_rw *rw)
{
        int code = pawl_rw_upgrade(rw, PAWL_FOREVER);

        if (code == PAWL_OK)
                code = pawl_rw_downgrade(rw, PAWL_UPGRADABLE);
        if (code == PAWL_LOST)
                return PAWL_NO_MEMORY;
        CHECK_INT(pawl_rw_mode(rw), PAWL_UPGRADABLE);
        CHECK_INT(pawl_rw_check(rw), PAWL_OK);
        if (code == PAWL_OK)
                code = pawl_rw_downgrade(rw, PAWL_READ);
        return code;
}

static int read_and_write(struct scene *scene)
{
        pawl_rw *rw;
        int left, code = pawl_rw_acquire(scene->one, "rw", PAWL_UPGRADABLE, NULL, &rw);

        if (code != PAWL_OK)
                return code;
        code = up_and_down(rw);
        left = pawl_rw_release(rw);
        return code != PAWL_OK ? code : left;
}

/* ---- barrier and latch ----------------------------------------------------------------------------------------------- */

static int meet(struct scene *scene)
{
        pawl_barrier *barrier;
        int left, code = pawl_barrier_enter(scene->one, "gate", 1, NULL, &barrier);

        if (code != PAWL_OK)
                return code;
        code = pawl_barrier_check(barrier);
        left = pawl_barrier_leave(barrier, PAWL_FOREVER);
        return code != PAWL_OK ? code : left;
}

static int count_down(struct scene *scene)
{
        uint32_t left;
        int code = pawl_latch_down(scene->one, "latch", 2, 2, NULL, &left);

        if (code == PAWL_OK)
                code = pawl_latch_wait(scene->two, "latch", NULL);
        return code == PAWL_OK ? pawl_latch_forget(scene->two, "latch", NULL) : code;
}

/* ---- handles --------------------------------------------------------------------------------------------------------- */

static int enter_again(struct scene *scene)
{
        pawl_reentrant *reentrant;
        int left, code = pawl_reentrant_new(scene->one, "again", NULL, &reentrant);

        if (code != PAWL_OK)
                return code;
        code = pawl_reentrant_acquire(reentrant);
        if (code == PAWL_OK)
                code = pawl_reentrant_acquire(reentrant);
        if (code == PAWL_OK)
                code = pawl_reentrant_release(reentrant);
        left = pawl_reentrant_free(reentrant);
        return code != PAWL_OK ? code : left;
}

/* A lock whose word is lost outlives us for its ttl. */
static int hand_over(struct scene *scene)
{
        char word[PAWL_LEASE_MAX + 1];
        pawl_lock *lock;
        int code =
                pawl_acquire(scene->one, "handed", PAWL_LOCK(.flags = PAWL_DETACH | PAWL_RENEW, .ttl_ms = 600), &lock);

        if (code == PAWL_OK)
                code = pawl_hand_over(lock, word, sizeof(word));
        if (code == PAWL_OK)
                code = pawl_take_over(scene->two, word, NULL, &lock);
        return code == PAWL_OK ? pawl_release(lock) : code;
}

static int lend(struct scene *scene)
{
        pawl_lock *lock, *none;
        int code = pawl_acquire_asking(scene->one, "lent", NULL, &lock);

        if (code != PAWL_OK)
                return code;
        code = pawl_acquire_asking(scene->two, "lent", PAWL_LOCK(.wait_ms = 2), &none);
        if (code != PAWL_TIMEOUT && code != PAWL_UNREACHABLE &&
            code != PAWL_NO_QUORUM) /* 2 ms may be too short to hear */
                return CHECK(code != PAWL_OK) ? code : PAWL_MISUSE;
        code = pawl_yield(scene->one, NULL, &lock);
        return code == PAWL_OK ? pawl_release(lock) : code;
}

/* ---- several locks --------------------------------------------------------------------------------------------------- */

/* Once anew in the middle, as if another one had come first. */
static int transfer(pawl_txn *txn, void *arg)
{
        int *turns = arg, code = pawl_txn_acquire(txn, "from", NULL, NULL);

        if (code == PAWL_OK)
                code = pawl_txn_acquire(txn, "to", NULL, NULL);
        if (code == PAWL_OK)
                code = pawl_txn_check(txn);
        return code == PAWL_OK && ++*turns == 1 ? PAWL_WOUNDED : code;
}

static int transact(struct scene *scene)
{
        static const char *const names[] = {"to", "from", "to"};
        static const uint32_t policies[] = {PAWL_ORDERED, PAWL_BACK_OFF, PAWL_WAIT_DIE, PAWL_WOUND_WAIT};
        pawl_txn *txn;
        int turns, code = pawl_acquire_all(scene->one, names, 3, NULL, &txn);

        if (code == PAWL_OK)
                code = pawl_txn_end(txn);
        for (int i = 0; i < 4 && code == PAWL_OK; i++) {
                turns = 0;
                code = pawl_txn_run(scene->two, PAWL_TXN(.policy = policies[i]), transfer, &turns);
        }
        return code;
}

int play(const char *place, uint32_t drive)
{
        static const struct {
                const char *name;
                int (*play)(struct scene *);
        } acts[] = {{"open", open_both},
                    {"once", once},
                    {"once in parts", once_in_parts},
                    {"limit", limit},
                    {"flight", flight},
                    {"elect", elect},
                    {"stand", stand},
                    {"read and write", read_and_write},
                    {"meet", meet},
                    {"count down", count_down},
                    {"enter again", enter_again},
                    {"lend", lend},
                    {"transact", transact},
                    {"hand over", hand_over}}; /* the last one hides no failure */
        struct scene scene = {.place = place, .drive = drive};
        int code = PAWL_OK;

        for (size_t i = 0; i < sizeof(acts) / sizeof(*acts) && code == PAWL_OK; i++) {
                phase = acts[i].name;
                code = acts[i].play(&scene);
        }
        CHECK_INT(pawl_close(scene.one), PAWL_OK);
        CHECK_INT(pawl_close(scene.two), PAWL_OK);
        return code;
}

const char *played(void)
{
        return phase;
}
