/* test_values.c - the bytes that are kept beside a lock: only its holder writes them, whoever is late does not. */
#include "contract.h"

static bool is_kept(pawl_client *client, const char *name, const char *text, uint64_t token)
{
        struct pawl_value value;
        bool same;

        if (pawl_fetch(client, name, &value) != PAWL_OK)
                return false;
        same = value.size == strlen(text) && !memcmp(value.data, text, value.size + 1) && value.token == token;
        free(value.data);
        return same;
}

static int store_text(pawl_lock *lock, const char *text, int64_t keep_ms)
{
        return pawl_store(lock, text, strlen(text), keep_ms);
}

TEST(what_a_holder_stores_others_fetch_also_after_the_release)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct pawl_value value;
        pawl_lock *lock;
        uint64_t token;

        NEEDS(one, PAWL_CAN_KEEP);
        CHECK_CODE(pawl_fetch(two, "a", &value), PAWL_NOT_FOUND);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        token = pawl_token(lock);
        CHECK_CODE(pawl_fetch(two, "a", &value), PAWL_NOT_FOUND);
        MUST(store_text(lock, "first", 0));
        CHECK(is_kept(two, "a", "first", token));
        CHECK(is_kept(one, "a", "first", token));
        MUST(store_text(lock, "second, and longer", 0));
        CHECK(is_kept(two, "a", "second, and longer", token));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(is_kept(two, "a", "second, and longer", token));
        CHECK_CODE(pawl_fetch(two, "b", &value), PAWL_NOT_FOUND);
}

TEST(size_0_keeps_nothing_any_more)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct pawl_value value;
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_KEEP);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        CHECK_CODE(pawl_store(lock, NULL, 0, 0), PAWL_OK);
        MUST(store_text(lock, "something", 0));
        CHECK_CODE(pawl_store(lock, NULL, 0, 0), PAWL_OK);
        CHECK_CODE(pawl_fetch(one, "a", &value), PAWL_NOT_FOUND);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(pawl_fetch(one, "a", &value), PAWL_NOT_FOUND);
}

TEST(any_bytes_and_as_many_as_are_allowed_are_kept_as_they_are)
{
        static unsigned char data[PAWL_VALUE_MAX + 1];
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static const size_t sizes[] = {1, 2, 255, 4096, PAWL_VALUE_MAX};
        struct pawl_value value;
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_KEEP);
        for (size_t i = 0; i < sizeof data; i++)
                data[i] = (unsigned char)(i * 7 + (i >> 8) * 13);
        MUST(pawl_acquire(one, "a b/c%d\xc3\xa9", NULL, &lock));
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
                MUST(pawl_store(lock, data, sizes[i], 0));
                MUST(pawl_fetch(two, "a b/c%d\xc3\xa9", &value));
                CHECK_UINT(value.size, sizes[i]);
                CHECK(value.size == sizes[i] && !memcmp(value.data, data, sizes[i]));
                CHECK_INT(((char *)value.data)[value.size], 0);
                free(value.data);
        }
        CHECK_CODE(pawl_store(lock, data, sizeof data, 0), PAWL_INVALID);
        CHECK_CODE(pawl_store(lock, NULL, 1, 0), PAWL_INVALID);
        CHECK_CODE(pawl_store(lock, data, 1, -1), PAWL_INVALID);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

TEST(who_was_cut_off_stores_nothing)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock, *next;
        uint64_t token;
        int code;

        NEEDS(one, PAWL_CAN_KEEP | PAWL_CAN_BREAK);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 60000), &lock));
        MUST(store_text(lock, "before", 0));
        token = pawl_token(lock);
        CHECK_CODE(break_it(two, "a"), PAWL_OK);
        code = store_text(lock, "after", 0);
        CHECK_CODE(code, PAWL_LOST);
        CHECK(is_kept(two, "a", "before", token));
        MUST(pawl_acquire(two, "a", NULL, &next));
        CHECK_CODE(store_text(lock, "later still", 0), PAWL_LOST);
        CHECK(is_kept(two, "a", "before", token));
        MUST(store_text(next, "the next one's", 0));
        CHECK_CODE(store_text(lock, "much later", 0), PAWL_LOST);
        CHECK(is_kept(one, "a", "the next one's", pawl_token(next)));
        CHECK_CODE(pawl_release(next), PAWL_OK);
        pawl_release(lock);
}

TEST(a_holder_that_slept_past_its_lease_stores_nothing)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_KEEP);
        REQUIRE_CODE(ask_peer(peer, "acquire a 0 300"), PAWL_OK);
        REQUIRE_CODE(ask_peer(peer, "store early"), PAWL_OK);
        signal_peer(peer, SIGSTOP);
        tell_peer(peer, "store late");
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PATIENCE), &lock));
        MUST(store_text(lock, "ours", 0));
        signal_peer(peer, SIGCONT);
        CHECK_CODE(hear_peer(peer), PAWL_LOST);
        CHECK(is_kept(one, "a", "ours", pawl_token(lock)));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

TEST(what_is_kept_for_a_while_is_gone_afterwards)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct pawl_value value;
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_KEEP);
        MUST(pawl_acquire(one, "long", NULL, &lock));
        MUST(store_text(lock, "long", 600000));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        MUST(store_text(lock, "short", 1500));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(SOON(pawl_fetch(two, "a", &value) == PAWL_NOT_FOUND || (free(value.data), false)));
        MUST(pawl_fetch(two, "long", &value));
        free(value.data);
        MUST(pawl_acquire(two, "a", NULL, &lock));
        MUST(store_text(lock, "again", 0));
        CHECK(is_kept(one, "a", "again", pawl_token(lock)));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

TEST(a_value_knows_when_it_was_stored_and_what_time_it_is)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct pawl_value first, second;
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_KEEP);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        MUST(store_text(lock, "now", 0));
        MUST(pawl_fetch(one, "a", &first));
        nap(20);
        MUST(pawl_fetch(one, "a", &second));
        CHECK_COMPARE(first.stored_us, >, INT64_C(1600000000000000));
        CHECK_COMPARE(first.now_us, >=, first.stored_us - 1000); /* ZooKeeper tells milliseconds */
        CHECK_INT(first.stored_us, second.stored_us);
        CHECK_COMPARE(second.now_us - first.now_us, >=, 10000);
        free(first.data);
        free(second.data);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

TEST(only_who_holds_a_lock_alone_may_store)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct pawl_value value;
        struct seen seen = {0};
        pawl_lock *lock, *claim;

        if (!(pawl_capabilities(one) & PAWL_CAN_KEEP)) {
                MUST(pawl_acquire(one, "a", NULL, &lock));
                CHECK_CODE(pawl_store(lock, "x", 1, 0), PAWL_UNSUPPORTED);
                CHECK_CODE(pawl_fetch(one, "a", &value), PAWL_UNSUPPORTED);
                CHECK_CODE(pawl_release(lock), PAWL_OK);
                return;
        }
        CHECK_CODE(pawl_store(NULL, "x", 1, 0), PAWL_INVALID);
        CHECK_CODE(pawl_fetch(one, "", &value), PAWL_INVALID);
        CHECK_CODE(pawl_fetch(one, "a", NULL), PAWL_INVALID);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        MUST(pawl_acquire_async(one, "a", NULL, see_granted, &seen, &claim));
        CHECK_CODE(pawl_store(claim, "x", 1, 0), PAWL_MISUSE);
        pawl_release(claim);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        NEEDS(one, PAWL_CAN_SHARE);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.mode = PAWL_SHARED), &lock));
        CHECK_CODE(pawl_store(lock, "x", 1, 0), PAWL_INVALID);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

/* Read, add, store, again and again, by two processes' worth of clients: nothing is lost, and every fetch sees what was
 * confirmed before. */
TEST(counting_under_the_lock_loses_nothing)
{
        enum { ROUNDS = 40 };
        const char *place = fresh_place();
        pawl_client *clients[2] = {join(place), join(place)};
        char text[32];

        NEEDS(clients[0], PAWL_CAN_KEEP);
        for (int i = 0; i < ROUNDS; i++) {
                pawl_client *mine = clients[i % 2], *other = clients[(i + 1) % 2];
                struct pawl_value value = {0};
                pawl_lock *lock;
                int code;

                MUST(pawl_acquire(mine, "a", NULL, &lock));
                code = pawl_fetch(mine, "a", &value);
                CHECK_CODE(code, i ? PAWL_OK : PAWL_NOT_FOUND);
                CHECK_INT(code == PAWL_OK ? atoi(value.data) : 0, i);
                free(code == PAWL_OK ? value.data : NULL);
                snprintf(text, sizeof text, "%d", i + 1);
                MUST(store_text(lock, text, 0));
                CHECK(is_kept(other, "a", text, pawl_token(lock)));
                CHECK_CODE(pawl_release(lock), PAWL_OK);
        }
}

/* A value is beside the lock: it is no holder, no waiter, and no name in the list. */
TEST(what_is_kept_does_not_stand_in_the_way)
{
        static struct view view;
        const char *place = fresh_place();
        pawl_client *one = join(place);
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_KEEP | PAWL_CAN_INSPECT);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        MUST(store_text(lock, "kept", 0));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK(nothing_is_left(one, "a"));
        MUST(list(one, NULL, &view));
        CHECK_UINT(view.holders, 0);
        CHECK(is_free(one, "a"));
}
