/* test_tokens.c - promise 2: every grant has a token, and for one name a later grant has a greater one, always. */
#include "contract.h"

/* Takes name, gives it back, and returns the token; 0 (with a note) if it could not. */
static uint64_t token_of_a_turn(pawl_client *client, const char *name, uint32_t mode)
{
        struct pawl_why why = {0};
        pawl_lock *lock;
        int code = pawl_acquire(client, name, PAWL_LOCK(.wait_ms = PATIENCE, .mode = mode, .why = &why), &lock);
        if (code != PAWL_OK) {
                NOTE("pawl_acquire: %s (%s)", pawl_strerror(code), why.text);
                return 0;
        }
        uint64_t token = pawl_token(lock);
        code = pawl_release(lock);
        if (code != PAWL_OK)
                NOTE("pawl_release: %s", pawl_strerror(code));
        return code == PAWL_OK ? token : 0;
}

TEST(tokens_grow_from_grant_to_grant)
{
        const char *place = fresh_place();
        pawl_client *clients[2] = {join(place), join(place)};
        uint64_t last = 0;

        for (int i = 0; i < 200; i++) {
                uint64_t token = token_of_a_turn(clients[i % 2], "a", PAWL_EXCLUSIVE);
                REQUIRE_COMPARE(token, >, last);
                REQUIRE(token < UINT64_C(1) << 63);
                last = token;
        }
}

TEST(tokens_grow_over_close_and_open)
{
        const char *place = fresh_place();
        uint64_t last = 0;

        for (int i = 0; i < 20; i++) {
                pawl_client *client = join(place);
                uint64_t token = token_of_a_turn(client, "a", PAWL_EXCLUSIVE);
                REQUIRE_COMPARE(token, >, last);
                REQUIRE_CODE(leave(client), PAWL_OK);
                last = token;
        }
}

TEST(tokens_grow_over_the_death_of_a_process)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        uint64_t last = token_of_a_turn(one, "a", PAWL_EXCLUSIVE);

        for (int i = 0; i < 3; i++) {
                struct peer *peer = start_peer(place);
                REQUIRE_CODE(ask_peer(peer, "acquire a %d 500", PATIENCE), PAWL_OK);
                REQUIRE_COMPARE(peer_token(peer), >, last);
                last = peer_token(peer);
                kill_peer(peer);
                uint64_t token = token_of_a_turn(one, "a", PAWL_EXCLUSIVE);
                REQUIRE_COMPARE(token, >, last);
                last = token;
        }
}

TEST(tokens_grow_over_an_expired_lease)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock;

        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 200, .flags = PAWL_NO_RENEW), &lock));
        uint64_t first = pawl_token(lock);
        CHECK_COMPARE(token_of_a_turn(two, "a", PAWL_EXCLUSIVE), >, first);
        CHECK_CODE(pawl_release(lock), PAWL_LOST);
}

TEST(tokens_grow_over_a_break)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_BREAK);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        uint64_t first = pawl_token(lock);
        CHECK_CODE(break_it(two, "a"), PAWL_OK);
        CHECK_COMPARE(token_of_a_turn(two, "a", PAWL_EXCLUSIVE), >, first);
}

TEST(shared_grants_have_growing_tokens_too)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        pawl_lock *locks[5];
        uint64_t last = token_of_a_turn(one, "a", PAWL_EXCLUSIVE);

        NEEDS(one, PAWL_CAN_SHARE);
        for (int i = 0; i < 5; i++) {
                MUST(pawl_acquire(one, "a", PAWL_LOCK(.mode = PAWL_SHARED), &locks[i]));
                CHECK_COMPARE(pawl_token(locks[i]), >, last);
                last = pawl_token(locks[i]);
        }
        for (int i = 0; i < 5; i++)
                CHECK_CODE(pawl_release(locks[i]), PAWL_OK);
        CHECK_COMPARE(token_of_a_turn(one, "a", PAWL_EXCLUSIVE), >, last);
}

TEST(a_waiter_has_no_token_before_its_grant)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *held, *waiting;

        MUST(pawl_acquire(one, "a", NULL, &held));
        MUST(pawl_acquire_async(two, "a", NULL, see_granted, &seen, &waiting));
        CHECK_UINT(pawl_token(waiting), 0);
        REQUIRE(queue_reaches(one, "a", 1));
        CHECK_UINT(pawl_token(waiting), 0);
        uint64_t first = pawl_token(held);
        CHECK_CODE(pawl_release(held), PAWL_OK);
        REQUIRE(SOON(atomic_load(&seen.granted) == 1));
        CHECK_COMPARE(pawl_token(waiting), >, first);
        CHECK_CODE(pawl_release(waiting), PAWL_OK);
}

TEST(the_token_stays_readable_after_a_loss)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        pawl_lock *lock;

        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 100, .flags = PAWL_NO_RENEW), &lock));
        uint64_t token = pawl_token(lock);
        CHECK(SOON(pawl_check(lock) == PAWL_LOST));
        CHECK_UINT(pawl_token(lock), token);
        CHECK_CODE(pawl_release(lock), PAWL_LOST);
}

/* ---- many threads ---------------------------------------------------------------------------------------------- */

enum { GRANTS = 1000, THREADS = 8 };

static struct {
        pawl_client *client;
        uint64_t tokens[GRANTS];
        int count; /* changed by the holder only */
        atomic_int wrong;
} book;

static void *write_tokens(void *arg)
{
        bool more = true;
        (void)arg;
        while (more) {
                pawl_lock *lock;
                if (pawl_acquire(book.client, "a", PAWL_LOCK(.wait_ms = PATIENCE), &lock) != PAWL_OK) {
                        atomic_fetch_add(&book.wrong, 1);
                        return NULL;
                }
                more = book.count < GRANTS;
                if (more)
                        book.tokens[book.count++] = pawl_token(lock);
                if (pawl_release(lock) != PAWL_OK)
                        atomic_fetch_add(&book.wrong, 1);
        }
        return NULL;
}

TEST(a_thousand_grants_over_eight_threads_have_growing_tokens_in_their_order)
{
        pthread_t threads[THREADS];

        book.client = join(fresh_place());
        for (int i = 0; i < THREADS; i++)
                REQUIRE_INT(pthread_create(&threads[i], NULL, write_tokens, NULL), 0);
        for (int i = 0; i < THREADS; i++)
                pthread_join(threads[i], NULL);
        CHECK_INT(atomic_load(&book.wrong), 0);
        REQUIRE_INT(book.count, GRANTS);
        for (int i = 1; i < GRANTS; i++)
                REQUIRE_COMPARE(book.tokens[i], >, book.tokens[i - 1]);
}
