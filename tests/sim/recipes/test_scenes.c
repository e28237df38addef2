/* test_scenes.c - tests the stage: one seed is one history, and each bug that a scene can switch on is found, and
 * soon. */
#include <string.h>

#include "stage.h"
#include "tap.h"

#define SEEDS 300

static const struct scene *find_scene(const char *name)
{
        for (int i = 0; scenes[i]; i++)
                if (strcmp(scenes[i]->name, name) == 0)
                        return scenes[i];
        NOTE("there is no scene %s", name);
        tap_end();
        return NULL;
}

static bool fails(const struct scene *scene, struct direction direction)
{
        for (uint64_t seed = 1; seed <= SEEDS; seed++) {
                struct play_outcome outcome;

                direction.seed = seed;
                outcome = stage_run(scene, &direction);
                if (outcome.failed) {
                        NOTE("seed %llu: %s", (unsigned long long)seed, outcome.failure);
                        return true;
                }
        }
        NOTE("nothing was found in %d seeds", SEEDS);
        return false;
}

/* A bug that the scene itself can have. */
static bool is_found(const char *name, int bug, bool faults)
{
        return fails(find_scene(name), (struct direction){.faults = faults, .bug = bug});
}

/* A bug of the store, as sim.h lists them. */
static bool store_bug_is_found(const char *name, enum bug bug)
{
        return fails(find_scene(name), (struct direction){.faults = true, .model_bug = bug});
}

TEST(one_seed_is_one_history_to_the_nanosecond)
{
        for (int i = 0; scenes[i]; i++)
                for (uint64_t seed = 1; seed <= 5; seed++) {
                        struct direction direction = {.seed = seed, .faults = true};
                        struct play_outcome one = stage_run(scenes[i], &direction);
                        struct play_outcome two = stage_run(scenes[i], &direction);

                        CHECK_UINT(one.hash, two.hash);
                        CHECK_UINT(one.figures.messages, two.figures.messages);
                }
}

TEST(another_seed_is_another_history)
{
        struct direction one = {.seed = 1}, two = {.seed = 2};

        CHECK(stage_run(scenes[0], &one).hash != stage_run(scenes[0], &two).hash);
}

TEST(a_process_dies_at_the_step_that_was_said)
{
        struct direction direction = {.seed = 1, .crash = 1, .crash_step = 5};
        struct play_outcome outcome = stage_run(find_scene("philosophers"), &direction);

        CHECK(!outcome.failed);
}

TEST(a_write_without_check_and_token_is_found)
{
        CHECK(is_found("plain", 1, true));
}

TEST(philosophers_who_all_take_the_left_fork_first_starve_and_that_is_found)
{
        CHECK(is_found("philosophers", 1, false));
}

TEST(an_execution_without_a_second_look_is_found)
{
        CHECK(is_found("once", 1, false));
}

TEST(a_leader_that_is_not_fenced_is_found)
{
        CHECK(is_found("election", 1, true));
}

TEST(permits_that_do_not_wait_are_found)
{
        CHECK(is_found("limit", 1, false));
}

TEST(a_reader_who_gives_the_lock_back_to_write_is_found)
{
        CHECK(is_found("rw", 1, false));
}

TEST(a_barrier_that_opens_for_too_few_is_found)
{
        CHECK(is_found("barrier", 1, false));
}

TEST(a_page_that_everybody_builds_is_found)
{
        CHECK(is_found("flight", 1, false));
}

TEST(bytes_kept_for_who_lost_the_lock_are_found)
{
        CHECK(store_bug_is_found("limit", BUG_STORE_UNCHECKED));
}

TEST(transactions_that_hold_on_when_they_are_to_give_way_are_found)
{
        CHECK(is_found("txn_back_off", 1, false));
        CHECK(is_found("txn_wait_die", 1, false));
        CHECK(is_found("txn_wound_wait", 1, false));
}

TEST(a_store_that_shows_no_ages_is_found)
{
        CHECK(store_bug_is_found("txn_wait_die", BUG_NO_AGE));
        CHECK(store_bug_is_found("txn_wound_wait", BUG_NO_AGE));
}

TEST(a_store_that_tells_no_holder_that_it_was_asked_is_found)
{
        CHECK(store_bug_is_found("txn_wound_wait", BUG_NO_CALL));
}

TEST(a_holder_whom_nobody_asks_is_found)
{
        CHECK(is_found("polite", 1, false));
}
