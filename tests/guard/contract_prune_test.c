/* contract_prune_test.c - what every guard promises when its marks are pruned, and when it is closed and opened again. */
#include "store.h"

static uint64_t prune(pawl_guard *guard, uint64_t floor)
{
        uint64_t pruned = UINT64_MAX;

        if (!CHECK_INT(pawl_guard_prune(guard, floor, &why, &pruned), PAWL_OK))
                NOTE("%s", why.text);
        return pruned;
}

TEST(a_prune_forgets_the_marks_that_are_not_above_its_floor)
{
        static const char *const names[] = {"above"};
        static const uint64_t tokens[] = {11};
        pawl_guard *guard;

        needs("prune");
        guard = open_store();
        CHECK_INT(admit(guard, "below", 3), PAWL_OK);
        CHECK_INT(put(guard, "at", 10, "ten"), PAWL_OK);
        CHECK_INT(put(guard, "above", 11, "eleven"), PAWL_OK);
        CHECK_UINT(prune(guard, 10), 2);
        check_list(guard, NULL, names, tokens, 1);
        CHECK_UINT(prune(guard, 10), 0);
        CHECK_INT(pawl_guard_prune(guard, 10, NULL, NULL), PAWL_OK);
        check_get(guard, "above", 11, "eleven", 11);
        check_get(guard, "at", 10, "ten", 0); /* the data are not the guard's to forget */
        pawl_guard_close(guard);
}

TEST(a_prune_lets_nothing_pass_that_was_refused)
{
        pawl_guard *guard;

        needs("prune");
        guard = open_store();
        CHECK_INT(admit(guard, "low", 3), PAWL_OK);
        CHECK_INT(put(guard, "r", 10, "ten"), PAWL_OK);
        CHECK_INT(admit(guard, "above", 20), PAWL_OK);
        prune(guard, 10);
        CHECK_INT(put(guard, "r", 9, "nine"), PAWL_STALE);
        CHECK_HAS(why.text, "token 9 is too old for \"r\"");
        CHECK_INT(admit(guard, "low", 2), PAWL_STALE);
        CHECK_INT(admit(guard, "above", 19), PAWL_STALE);
        CHECK_INT(admit(guard, "never seen", 9), PAWL_STALE);
        CHECK_INT(forget(guard, "never seen", 9), PAWL_STALE);
        check_get(guard, "r", 10, "ten", 0);
        CHECK_INT(admit(guard, "never seen", 10), PAWL_OK);
        CHECK_INT(admit(guard, "low", 10), PAWL_OK);
        CHECK_INT(admit(guard, "low", 9), PAWL_STALE);
        pawl_guard_close(guard);
}

TEST(what_is_refused_by_the_floor_leaves_no_mark_and_no_data)
{
        pawl_guard *guard;
        struct pawl_guard_data data;

        needs("prune");
        guard = open_store();
        CHECK_UINT(prune(guard, 100), 0);
        CHECK_INT(put(guard, "r", 99, "x"), PAWL_STALE);
        CHECK_INT(admit(guard, "s", 99), PAWL_STALE);
        CHECK_INT(pawl_guard_get(guard, "t", 99, &why, &data), PAWL_STALE);
        check_list(guard, NULL, NULL, NULL, 0);
        check_empty(guard, "r", 100);
        pawl_guard_close(guard);
}

TEST(a_floor_never_goes_down)
{
        pawl_guard *guard;

        needs("prune");
        guard = open_store();
        prune(guard, 50);
        CHECK_INT(admit(guard, "r", 60), PAWL_OK);
        CHECK_UINT(prune(guard, 20), 0);
        CHECK_INT(admit(guard, "new", 49), PAWL_STALE);
        CHECK_INT(admit(guard, "r", 59), PAWL_STALE);
        CHECK_UINT(prune(guard, 70), 1);
        CHECK_INT(admit(guard, "r", 69), PAWL_STALE);
        prune(guard, INT64_MAX);
        CHECK_INT(admit(guard, "r", INT64_MAX - 1), PAWL_STALE);
        CHECK_INT(admit(guard, "r", INT64_MAX), PAWL_OK);
        pawl_guard_close(guard);
}

TEST(the_floor_holds_for_what_is_forgotten_too)
{
        pawl_guard *guard;

        needs("prune");
        needs("forget");
        guard = open_store();
        prune(guard, 50);
        CHECK_INT(admit(guard, "r", 60), PAWL_OK);
        CHECK_INT(forget(guard, "r", 60), PAWL_OK);
        CHECK_INT(admit(guard, "r", 49), PAWL_STALE);
        CHECK_INT(admit(guard, "r", 50), PAWL_OK);
        pawl_guard_close(guard);
}

TEST_WITHIN(300, many_marks_are_pruned_at_once)
{
        enum { COUNT = 300 };
        pawl_guard *guard;
        char name[24];

        needs("prune");
        guard = open_store();
        for (int i = 0; i < COUNT; i++) {
                snprintf(name, sizeof(name), "many/%d", i);
                REQUIRE(admit(guard, name, (uint64_t)i + 1) == PAWL_OK);
        }
        CHECK_UINT(prune(guard, COUNT - 1), COUNT - 1);
        CHECK_INT(admit(guard, "many/0", COUNT - 2), PAWL_STALE);
        CHECK_INT(admit(guard, "many/0", COUNT - 1), PAWL_OK);
        CHECK_INT(admit(guard, name, COUNT - 1), PAWL_STALE);
        pawl_guard_close(guard);
}

/* ---- closed and opened again ------------------------------------------------------------------------------------ */

TEST(tokens_and_data_outlive_the_guard_that_was_closed)
{
        pawl_guard *guard;

        needs_persistence();
        guard = open_store();
        CHECK_INT(put(guard, "r", 42, "x"), PAWL_OK);
        CHECK_INT(admit(guard, "barrier", INT64_MAX), PAWL_OK);
        pawl_guard_close(guard);
        guard = open_store();
        CHECK_INT(put(guard, "r", 41, "y"), PAWL_STALE);
        CHECK_INT(admit(guard, "barrier", INT64_MAX - 1), PAWL_STALE);
        check_get(guard, "r", 42, "x", 42);
        pawl_guard_close(guard);
}

TEST(the_floor_outlives_the_guard_that_was_closed)
{
        pawl_guard *guard;

        needs_persistence();
        needs("prune");
        guard = open_store();
        CHECK_INT(put(guard, "r", 42, "x"), PAWL_OK);
        CHECK_UINT(prune(guard, 50), 1);
        pawl_guard_close(guard);
        guard = open_store();
        CHECK_INT(admit(guard, "r", 49), PAWL_STALE);
        prune(guard, 30);
        CHECK_INT(admit(guard, "r", 49), PAWL_STALE);
        check_get(guard, "r", 50, "x", 0);
        pawl_guard_close(guard);
}

TEST(two_guards_on_one_store_are_one)
{
        pawl_guard *one, *other;

        needs_persistence();
        one = open_store();
        other = open_store();
        CHECK_INT(put(one, "r", 5, "five"), PAWL_OK);
        check_get(other, "r", 6, "five", 5);
        CHECK_INT(put(one, "r", 5, "late"), PAWL_STALE);
        CHECK_INT(put(other, "r", 6, "six"), PAWL_OK);
        check_get(one, "r", 6, "six", 6);
        pawl_guard_close(other);
        CHECK_INT(admit(one, "r", 5), PAWL_STALE);
        pawl_guard_close(one);
}

TEST(a_floor_set_by_one_holds_for_the_other)
{
        pawl_guard *one, *other;

        needs_persistence();
        needs("prune");
        one = open_store();
        other = open_store();
        CHECK_INT(admit(one, "r", 5), PAWL_OK);
        CHECK_INT(admit(other, "r", 5), PAWL_OK);
        CHECK_UINT(prune(one, 9), 1);
        CHECK_INT(admit(other, "r", 8), PAWL_STALE);
        CHECK_INT(admit(other, "new", 8), PAWL_STALE);
        CHECK_INT(admit(other, "new", 9), PAWL_OK);
        pawl_guard_close(other);
        pawl_guard_close(one);
}

TEST(a_guard_that_was_never_used_is_closed)
{
        pawl_guard_close(open_store());
        pawl_guard_close(open_store());
}
