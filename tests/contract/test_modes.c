/* test_modes.c - promise 10: exclusive, shared, shared with at most N; one queue, and writers are not starved. */
#include "contract.h"

#define SHARE PAWL_LOCK(.mode = PAWL_SHARED, .wait_ms = PAWL_NO_WAIT)
#define ONE_OF(n) PAWL_LOCK(.mode = PAWL_SHARED, .max_holders = (n), .wait_ms = PAWL_NO_WAIT)
#define ALONE PAWL_LOCK(.wait_ms = PAWL_NO_WAIT)

TEST(readers_share_and_keep_a_writer_out)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *readers[2], *writer;

        NEEDS(one, PAWL_CAN_SHARE);
        MUST(pawl_acquire(one, "a", SHARE, &readers[0]));
        MUST(pawl_acquire(two, "a", SHARE, &readers[1]));
        CHECK_CODE(pawl_acquire(one, "a", ALONE, &writer), PAWL_BUSY);
        CHECK_CODE(pawl_release(readers[0]), PAWL_OK);
        CHECK_CODE(pawl_acquire(one, "a", ALONE, &writer), PAWL_BUSY);
        CHECK_CODE(pawl_release(readers[1]), PAWL_OK);
        CHECK_CODE(pawl_acquire(one, "a", ALONE, &writer), PAWL_OK);
        CHECK_CODE(pawl_acquire(two, "a", SHARE, &readers[0]), PAWL_BUSY);
}

TEST(a_reader_does_not_overtake_a_writer_in_the_queue)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen writer_seen, reader_seen;
        pawl_lock *first, *writer, *reader, *none;

        NEEDS(one, PAWL_CAN_SHARE | PAWL_CAN_QUEUE);
        MUST(pawl_acquire(one, "a", SHARE, &first));
        MUST(pawl_acquire_async(two, "a", NULL, see_granted, &writer_seen, &writer));
        REQUIRE(queue_reaches(one, "a", 1));
        CHECK_CODE(pawl_acquire(one, "a", SHARE, &none), PAWL_BUSY);
        MUST(pawl_acquire_async(one, "a", PAWL_LOCK(.mode = PAWL_SHARED), see_granted, &reader_seen, &reader));
        REQUIRE(queue_reaches(one, "a", 2));
        CHECK_CODE(pawl_release(first), PAWL_OK);
        REQUIRE(SOON(atomic_load(&writer_seen.granted) == 1));
        CHECK_INT(atomic_load(&reader_seen.granted), 0);
        CHECK_CODE(pawl_release(writer), PAWL_OK);
        REQUIRE(SOON(atomic_load(&reader_seen.granted) == 1));
        CHECK_CODE(atomic_load(&reader_seen.status), PAWL_OK);
}

TEST(readers_who_waited_together_are_let_in_together)
{
        enum { READERS = 6 };
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen[READERS];
        pawl_lock *writer, *readers[READERS];

        NEEDS(one, PAWL_CAN_SHARE);
        MUST(pawl_acquire(one, "a", NULL, &writer));
        for (int i = 0; i < READERS; i++)
                MUST(pawl_acquire_async(two, "a", PAWL_LOCK(.mode = PAWL_SHARED), see_granted, &seen[i], &readers[i]));
        REQUIRE(queue_reaches(one, "a", READERS));
        CHECK_CODE(pawl_release(writer), PAWL_OK);
        for (int i = 0; i < READERS; i++)
                CHECK(SOON(atomic_load(&seen[i].granted) == 1));
        for (int i = 0; i < READERS; i++)
                CHECK_CODE(pawl_check(readers[i]), PAWL_OK);
}

TEST(a_reader_that_leaves_the_queue_lets_no_writer_in_beside_another_reader)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen other_seen, leaver_seen, writer_seen;
        pawl_lock *first, *other, *leaver, *writer;

        NEEDS(one, PAWL_CAN_SHARE | PAWL_CAN_QUEUE);
        MUST(pawl_acquire(one, "a", NULL, &first));
        MUST(pawl_acquire_async(two, "a", PAWL_LOCK(.mode = PAWL_SHARED), see_granted, &other_seen, &other));
        REQUIRE(queue_reaches(one, "a", 1));
        MUST(pawl_acquire_async(one, "a", PAWL_LOCK(.mode = PAWL_SHARED), see_granted, &leaver_seen, &leaver));
        REQUIRE(queue_reaches(one, "a", 2));
        MUST(pawl_acquire_async(one, "a", NULL, see_granted, &writer_seen, &writer));
        REQUIRE(queue_reaches(one, "a", 3));
        CHECK_CODE(pawl_cancel(leaver), PAWL_OK);
        REQUIRE(queue_reaches(one, "a", 2));
        CHECK_CODE(pawl_release(first), PAWL_OK);
        REQUIRE(SOON(atomic_load(&other_seen.granted) == 1));
        nap(50);
        CHECK_INT(atomic_load(&writer_seen.granted), 0);
        CHECK_CODE(pawl_release(other), PAWL_OK);
        CHECK(SOON(atomic_load(&writer_seen.granted) == 1));
}

TEST(at_most_n_hold_a_limited_lock_and_n_do)
{
        enum { N = 4 };
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct peer *peer = start_peer(place);
        pawl_lock *locks[N], *none;

        NEEDS(one, PAWL_CAN_LIMIT);
        for (int i = 0; i < N - 1; i++)
                MUST(pawl_acquire(i % 2 ? one : two, "a", ONE_OF(N), &locks[i]));
        REQUIRE_CODE(ask_peer(peer, "acquire a -1 0 0 1 %d", N), PAWL_OK);
        CHECK_CODE(pawl_acquire(one, "a", ONE_OF(N), &none), PAWL_BUSY);
        CHECK_CODE(pawl_acquire(two, "a", ALONE, &none), PAWL_BUSY);
        CHECK_CODE(pawl_release(locks[0]), PAWL_OK);
        CHECK_CODE(pawl_acquire(two, "a", ONE_OF(N), &locks[0]), PAWL_OK);
        CHECK_CODE(pawl_acquire(one, "a", ONE_OF(N), &none), PAWL_BUSY);
        CHECK_CODE(ask_peer(peer, "release"), PAWL_OK);
        CHECK_CODE(pawl_acquire(one, "a", ONE_OF(N), &none), PAWL_OK);
}

TEST(a_freed_place_of_a_limited_lock_goes_to_the_first_in_the_queue)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen[3];
        pawl_lock *held[2], *waiting[3];

        NEEDS(one, PAWL_CAN_LIMIT | PAWL_CAN_QUEUE);
        for (int i = 0; i < 2; i++)
                MUST(pawl_acquire(one, "a", ONE_OF(2), &held[i]));
        for (unsigned i = 0; i < 3; i++) {
                MUST(pawl_acquire_async(two, "a", PAWL_LOCK(.mode = PAWL_SHARED, .max_holders = 2), see_granted,
                                        &seen[i], &waiting[i]));
                REQUIRE(queue_reaches(one, "a", i + 1));
        }
        CHECK_CODE(pawl_release(held[0]), PAWL_OK);
        REQUIRE(SOON(atomic_load(&seen[0].granted) == 1));
        nap(50);
        CHECK_INT(atomic_load(&seen[1].granted), 0);
        CHECK_CODE(pawl_release(waiting[0]), PAWL_OK);
        REQUIRE(SOON(atomic_load(&seen[1].granted) == 1));
        CHECK_INT(atomic_load(&seen[2].granted), 0);
        CHECK_CODE(pawl_release(held[1]), PAWL_OK);
        REQUIRE(SOON(atomic_load(&seen[2].granted) == 1));
}

TEST(the_place_of_a_dead_holder_of_a_limited_lock_becomes_free)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);
        pawl_lock *held, *next;

        NEEDS(one, PAWL_CAN_LIMIT);
        MUST(pawl_acquire(one, "a", ONE_OF(2), &held));
        REQUIRE_CODE(ask_peer(peer, "acquire a -1 700 0 1 2"), PAWL_OK);
        kill_peer(peer);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.mode = PAWL_SHARED, .max_holders = 2, .wait_ms = PATIENCE), &next));
        CHECK_CODE(pawl_check(held), PAWL_OK);
}

/* ---- starvation ------------------------------------------------------------------------------------------------ */

struct reader {
        pawl_client *client;
        pthread_t thread;
};
static atomic_bool enough;
static atomic_int reads;

static void *read_and_read(void *arg)
{
        struct reader *reader = arg;
        while (!atomic_load(&enough)) {
                pawl_lock *lock;
                if (pawl_acquire(reader->client, "a", PAWL_LOCK(.mode = PAWL_SHARED, .wait_ms = PATIENCE), &lock))
                        break;
                nap(2); /* longer than the gap between two reads: there is always a reader */
                atomic_fetch_add(&reads, 1);
                (void)pawl_release(lock);
        }
        return NULL;
}

TEST(writers_are_not_starved_by_readers)
{
        enum { READERS = 4 };
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct reader readers[READERS];
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_SHARE);
        for (int i = 0; i < READERS; i++) {
                readers[i].client = two;
                REQUIRE(!pthread_create(&readers[i].thread, NULL, read_and_read, &readers[i]));
        }
        CHECK(SOON(atomic_load(&reads) > 10));
        for (int i = 0; i < 5; i++) {
                CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PATIENCE), &lock), PAWL_OK);
                CHECK_CODE(pawl_release(lock), PAWL_OK);
        }
        int before = atomic_load(&reads);
        CHECK(SOON(atomic_load(&reads) > before)); /* nor are readers by writers */
        atomic_store(&enough, true);
        for (int i = 0; i < READERS; i++)
                pthread_join(readers[i].thread, NULL);
        CHECK(is_free(one, "a"));
}

/* ---- what is not claimed is refused ---------------------------------------------------------------------------- */

TEST(a_mode_the_engine_does_not_claim_is_refused_and_leaves_nothing_behind)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        uint32_t can = pawl_capabilities(one);
        pawl_lock *lock;

        if (!(can & PAWL_CAN_SHARE))
                CHECK_CODE(pawl_acquire(one, "a", SHARE, &lock), PAWL_UNSUPPORTED);
        if (!(can & PAWL_CAN_LIMIT))
                CHECK_CODE(pawl_acquire(one, "a", ONE_OF(2), &lock), PAWL_UNSUPPORTED);
        if (!(can & PAWL_CAN_DELAY))
                CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.delay_ms = 100), &lock), PAWL_UNSUPPORTED);
        if (!(can & PAWL_CAN_DETACH))
                CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.flags = PAWL_DETACH), &lock), PAWL_UNSUPPORTED);
        CHECK(nothing_is_left(one, "a"));
        CHECK(is_free(one, "a"));
}
