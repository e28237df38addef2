/* test_inspection.c - what pawl_list and pawl_show tell about holders, the queue and those who had the lock before. */
#include "contract.h"

#include <time.h>
#include <unistd.h>

static int64_t unix_ms(void)
{
        struct timespec ts;
        clock_gettime(CLOCK_REALTIME, &ts);
        return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

TEST(show_tells_who_holds_with_which_token_and_for_how_long)
{
        const char *place = fresh_place();
        pawl_client *one = join_with(place, (struct pawl_open_options){.owner = "the holder"}), *two = join(place);
        struct view view;
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_INSPECT);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.note = "counting sheep", .ttl_ms = 30000), &lock));
        REQUIRE_CODE(show(two, "a", &view), PAWL_OK);
        const struct line *holder = line_of(&view, PAWL_ROLE_HOLDER, 0);
        REQUIRE(holder);
        CHECK_UINT(view.holders, 1);
        CHECK_STR(holder->name, "a");
        CHECK_STR(holder->owner, "the holder");
        CHECK_STR(holder->note, "counting sheep");
        CHECK_UINT(holder->entry.token, pawl_token(lock));
        CHECK_UINT(holder->entry.mode, PAWL_EXCLUSIVE);
        CHECK(holder->entry.remaining_ms > 0 && holder->entry.remaining_ms <= 30000);
        CHECK(holder->entry.since_ms > unix_ms() - 60000 && holder->entry.since_ms <= unix_ms() + 1000);
        CHECK_INT(holder->entry.until_ms, 0);
}

TEST(the_owner_is_host_pid_and_program_unless_said_otherwise)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join_with(place, (struct pawl_open_options){.owner = "me"});
        char pid[32];

        snprintf(pid, sizeof pid, ":%ld:", (long)getpid());
        CHECK_HAS(pawl_owner(one), pid);
        CHECK_COMPARE(strlen(pawl_owner(one)), <=, PAWL_OWNER_MAX);
        CHECK_STR(pawl_owner(two), "me");
}

TEST(show_tells_the_queue_in_its_order)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *clients[4];
        static struct seen seen;
        struct view view;
        pawl_lock *lock, *waiting;
        char owner[16];

        NEEDS(one, PAWL_CAN_INSPECT | PAWL_CAN_QUEUE);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        for (unsigned i = 0; i < 4; i++) {
                snprintf(owner, sizeof owner, "waiter %u", i);
                clients[i] = join_with(place, (struct pawl_open_options){.owner = owner});
                MUST(pawl_acquire_async(clients[i], "a", PAWL_LOCK(.note = "please"), see_granted, &seen, &waiting));
                REQUIRE(queue_reaches(one, "a", i + 1));
        }
        REQUIRE_CODE(show(one, "a", &view), PAWL_OK);
        CHECK_UINT(view.holders, 1);
        CHECK_UINT(view.waiters, 4);
        CHECK_UINT(view.lines[0].entry.role, PAWL_ROLE_HOLDER);
        CHECK_UINT(view.lines[0].entry.waiters, 4);
        for (unsigned i = 0; i < 4; i++) {
                const struct line *waiter = line_of(&view, PAWL_ROLE_WAITER, i);
                REQUIRE(waiter);
                snprintf(owner, sizeof owner, "waiter %u", i);
                CHECK_STR(waiter->owner, owner);
                CHECK_STR(waiter->note, "please");
                CHECK_UINT(waiter->entry.token, 0);
        }
}

TEST(show_tells_every_shared_holder_and_the_limit)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct view view;
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_INSPECT | PAWL_CAN_LIMIT);
        for (int i = 0; i < 3; i++)
                MUST(pawl_acquire(one, "a", PAWL_LOCK(.mode = PAWL_SHARED, .max_holders = 5), &lock));
        REQUIRE_CODE(show(one, "a", &view), PAWL_OK);
        CHECK_UINT(view.holders, 3);
        REQUIRE(line_of(&view, PAWL_ROLE_HOLDER, 2));
        CHECK_UINT(line_of(&view, PAWL_ROLE_HOLDER, 2)->entry.mode, PAWL_SHARED);
        CHECK_UINT(line_of(&view, PAWL_ROLE_HOLDER, 2)->entry.max_holders, 5);
}

TEST(history_tells_who_had_it_and_how_that_ended_the_latest_first)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct peer *peer = start_peer(place);
        struct view view;
        pawl_lock *lock;
        uint64_t tokens[4];

        NEEDS(one, PAWL_CAN_HISTORY | PAWL_CAN_BREAK);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.note = "first"), &lock));
        tokens[0] = pawl_token(lock);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        tokens[1] = pawl_token(lock);
        CHECK_CODE(break_it(two, "a"), PAWL_OK);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 150, .flags = PAWL_NO_RENEW), &lock));
        tokens[2] = pawl_token(lock);
        REQUIRE_CODE(ask_peer(peer, "acquire a %d 700", PATIENCE), PAWL_OK);
        tokens[3] = peer_token(peer);
        kill_peer(peer);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PATIENCE), &lock));

        static const uint32_t how[4] = {PAWL_HOW_RELEASED, PAWL_HOW_BROKEN, PAWL_HOW_EXPIRED, PAWL_HOW_DIED};
        REQUIRE_CODE(show(one, "a", &view), PAWL_OK);
        for (unsigned i = 0; i < 4; i++) {
                const struct line *past = line_of(&view, PAWL_ROLE_PAST, 3 - i);
                REQUIRE(past);
                CHECK_UINT(past->entry.token, tokens[i]);
                if (i == 3 && !(pawl_capabilities(one) & PAWL_SEES_DEATH))
                        CHECK_UINT(past->entry.how, PAWL_HOW_EXPIRED);
                else
                        CHECK_UINT(past->entry.how, how[i]);
                CHECK_COMPARE(past->entry.until_ms, >=, past->entry.since_ms);
        }
        CHECK_STR(line_of(&view, PAWL_ROLE_PAST, 3)->note, "first");
}

TEST(list_tells_every_holder_of_the_names_with_a_prefix)
{
        static const char *const names[] = {"apple/1", "apple/2", "apple", "banana", "app"};
        pawl_client *one = join(fresh_place());
        struct view view;
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_INSPECT);
        CHECK_CODE(list(one, NULL, &view), PAWL_OK);
        CHECK_UINT(view.count, 0);
        for (size_t i = 0; i < 5; i++)
                MUST(pawl_acquire(one, names[i], NULL, &lock));
        CHECK_CODE(list(one, NULL, &view), PAWL_OK);
        CHECK_UINT(view.holders, 5);
        CHECK_CODE(list(one, "", &view), PAWL_OK);
        CHECK_UINT(view.holders, 5);
        CHECK_CODE(list(one, "apple", &view), PAWL_OK);
        CHECK_UINT(view.holders, 3);
        CHECK_CODE(list(one, "apple/", &view), PAWL_OK);
        CHECK_UINT(view.holders, 2);
        CHECK_CODE(list(one, "cherry", &view), PAWL_OK);
        CHECK_UINT(view.count, 0);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(list(one, "app", &view), PAWL_OK);
        CHECK_UINT(view.holders, 3);
}

TEST(list_tells_holders_and_how_many_wait_but_not_who)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct view view;
        static struct seen seen;
        pawl_lock *lock, *waiting;

        NEEDS(one, PAWL_CAN_INSPECT | PAWL_CAN_QUEUE);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        for (int i = 0; i < 3; i++)
                MUST(pawl_acquire_async(one, "a", NULL, see_granted, &seen, &waiting));
        REQUIRE(queue_reaches(one, "a", 3));
        CHECK_CODE(list(one, NULL, &view), PAWL_OK);
        CHECK_UINT(view.count, 1);
        CHECK_UINT(view.lines[0].entry.role, PAWL_ROLE_HOLDER);
        CHECK_UINT(view.lines[0].entry.waiters, 3);
}

static int stop_at_once(const struct pawl_entry *entry, void *arg)
{
        int *calls = arg;
        (void)entry;
        ++*calls;
        return 1;
}

TEST(a_listing_ends_when_the_listener_has_had_enough)
{
        pawl_client *one = join(fresh_place());
        pawl_lock *lock;
        int calls = 0;

        NEEDS(one, PAWL_CAN_INSPECT);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        MUST(pawl_acquire(one, "b", NULL, &lock));
        CHECK_CODE(pawl_list(one, NULL, stop_at_once, &calls), PAWL_OK);
        CHECK_INT(calls, 1);
}

TEST(show_of_a_name_nobody_used_is_not_found)
{
        pawl_client *one = join(fresh_place());
        struct view view;

        NEEDS(one, PAWL_CAN_INSPECT);
        CHECK_CODE(show(one, "never used", &view), PAWL_NOT_FOUND);
        CHECK_UINT(view.count, 0);
        CHECK_CODE(show(one, "", &view), PAWL_INVALID);
        CHECK_CODE(pawl_show(one, "a", NULL, NULL), PAWL_INVALID);
}

TEST(a_lock_delay_is_shown_as_a_free_name_with_time_left)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct view view;
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_INSPECT | PAWL_CAN_DELAY | PAWL_CAN_BREAK);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.delay_ms = 30000), &lock));
        CHECK_CODE(break_it(two, "a"), PAWL_OK);
        REQUIRE_CODE(show(two, "a", &view), PAWL_OK);
        CHECK_UINT(view.holders, 0);
        REQUIRE(line_of(&view, PAWL_ROLE_FREE, 0));
        CHECK_COMPARE(line_of(&view, PAWL_ROLE_FREE, 0)->entry.remaining_ms, >, 0);
        CHECK_COMPARE(line_of(&view, PAWL_ROLE_FREE, 0)->entry.remaining_ms, <=, 30000);
        REQUIRE_CODE(list(two, "a", &view), PAWL_OK);
        REQUIRE(line_of(&view, PAWL_ROLE_FREE, 0));
        CHECK_STR(line_of(&view, PAWL_ROLE_FREE, 0)->name, "a");
        CHECK_COMPARE(line_of(&view, PAWL_ROLE_FREE, 0)->entry.remaining_ms, >, 0);
}

TEST(a_long_note_is_cut_to_63_bytes)
{
        pawl_client *one = join(fresh_place());
        struct view view;
        char note[200];
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_INSPECT);
        memset(note, 'n', sizeof note - 1);
        note[sizeof note - 1] = '\0';
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.note = note), &lock));
        REQUIRE_CODE(show(one, "a", &view), PAWL_OK);
        CHECK_UINT(strlen(view.lines[0].note), PAWL_NOTE_MAX);
        CHECK(!strncmp(view.lines[0].note, note, PAWL_NOTE_MAX));
}

TEST(what_cannot_be_inspected_says_so)
{
        pawl_client *one = join(fresh_place());
        struct view view;

        if (pawl_capabilities(one) & PAWL_CAN_INSPECT)
                SKIP("the engine can be inspected");
        CHECK_CODE(show(one, "a", &view), PAWL_UNSUPPORTED);
        CHECK_CODE(list(one, NULL, &view), PAWL_UNSUPPORTED);
        CHECK_UINT(view.count, 0);
}

static int count_roles(const struct pawl_entry *entry, void *arg)
{
        ((unsigned *)arg)[entry->role]++;
        return 0;
}

TEST(look_tells_holders_and_waiters_and_nobody_who_was_here_before)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        unsigned roles[PAWL_ROLE_FREE + 1] = {0};
        pawl_lock *lock, *claim;

        NEEDS(one, PAWL_CAN_INSPECT);
        CHECK_CODE(pawl_look(one, "a", count_roles, roles), PAWL_NOT_FOUND);
        CHECK_CODE(pawl_look(one, "a", NULL, NULL), PAWL_INVALID);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        MUST(pawl_acquire_async(two, "a", NULL, NULL, NULL, &claim));
        CHECK(queue_reaches(one, "a", 1));
        CHECK_CODE(pawl_look(two, "a", count_roles, roles), PAWL_OK);
        CHECK_UINT(roles[PAWL_ROLE_HOLDER], 1);
        CHECK_UINT(roles[PAWL_ROLE_WAITER], 1);
        CHECK_UINT(roles[PAWL_ROLE_PAST], 0);
        pawl_release(claim);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(SOON(pawl_look(one, "a", count_roles, roles) == PAWL_NOT_FOUND));
}
