/* rw_test.c - readers, writers, and the reader who becomes the writer. */
#include "contract.h"

#include <pawl/rw.h>

#define NOW PAWL_LOCK(.wait_ms = PAWL_NO_WAIT)

TEST(readers_share_and_a_writer_is_alone)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_rw *first, *second, *none;

        if (!(pawl_capabilities(one) & PAWL_CAN_SHARE)) {
                CHECK_CODE(pawl_rw_acquire(one, "a", PAWL_READ, NULL, &first), PAWL_UNSUPPORTED);
                return;
        }
        MUST(pawl_rw_acquire(one, "a", PAWL_READ, NULL, &first));
        MUST(pawl_rw_acquire(two, "a", PAWL_READ, NULL, &second));
        CHECK_CODE(pawl_rw_check(first), PAWL_OK);
        CHECK_CODE(pawl_rw_acquire(two, "a", PAWL_WRITE, NOW, &none), PAWL_BUSY);
        CHECK_CODE(pawl_rw_release(first), PAWL_OK);
        CHECK_CODE(pawl_rw_release(second), PAWL_OK);
        MUST(pawl_rw_acquire(two, "a", PAWL_WRITE, PAWL_LOCK(.wait_ms = PATIENCE), &second));
        CHECK_CODE(pawl_rw_acquire(one, "a", PAWL_READ, NOW, &none), PAWL_BUSY);
        CHECK_CODE(pawl_rw_acquire(one, "a", PAWL_UPGRADABLE, NOW, &none), PAWL_BUSY);
        CHECK_INT(pawl_rw_mode(second), PAWL_WRITE);
        CHECK_CODE(pawl_rw_release(second), PAWL_OK);
        CHECK(SOON(nothing_is_left(one, "a")));
        CHECK(SOON(nothing_is_left(one, "upgrade/a")));
}

/* One that does not use these calls: NAME is in its way, and it is in ours when we come back. */
TEST(an_upgrade_that_meets_a_stranger_does_not_wait_for_ever)
{
        enum { TTL = 3000 };
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place), *three = join(place);
        pawl_rw *upgradable, *reader;
        pawl_lock *stranger;

        NEEDS(one, PAWL_CAN_SHARE | PAWL_CAN_QUEUE);
        MUST(pawl_rw_acquire(one, "a", PAWL_UPGRADABLE, PAWL_LOCK(.ttl_ms = TTL), &upgradable));
        MUST(pawl_rw_acquire(two, "a", PAWL_READ, NULL, &reader));
        MUST(pawl_acquire_async(three, "a", NULL, NULL, NULL, &stranger));
        CHECK(queue_reaches(one, "a", 1));
        CHECK_CODE(pawl_rw_upgrade(upgradable, PAWL_NO_WAIT), PAWL_LOST);
        CHECK_CODE(pawl_rw_release(upgradable), PAWL_LOST);
        CHECK_CODE(pawl_rw_release(reader), PAWL_OK);
        (void)pawl_release(stranger);
}

TEST(a_downgrade_behind_a_stranger_does_not_wait_for_ever)
{
        enum { TTL = 2000 };
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct pawl_why why;
        pawl_lock *stranger;
        pawl_rw *writer;

        NEEDS(one, PAWL_CAN_SHARE | PAWL_CAN_QUEUE);
        MUST(pawl_rw_acquire(one, "a", PAWL_WRITE, PAWL_LOCK(.ttl_ms = TTL), &writer));
        MUST(pawl_acquire_async(two, "a", NULL, NULL, NULL, &stranger));
        CHECK(queue_reaches(one, "a", 1));
        CHECK_CODE(pawl_rw_downgrade(writer, PAWL_READ), PAWL_LOST);
        CHECK_CODE(pawl_rw_why(writer, &why), PAWL_OK);
        CHECK_CODE(why.code, PAWL_LOST);
        CHECK_CODE(pawl_rw_release(writer), PAWL_LOST);
        (void)pawl_release(stranger);
}

TEST(one_upgradable_reader_stands_beside_plain_ones)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_rw *upgradable, *reader, *none;

        NEEDS(one, PAWL_CAN_SHARE);
        MUST(pawl_rw_acquire(one, "a", PAWL_UPGRADABLE, NULL, &upgradable));
        MUST(pawl_rw_acquire(two, "a", PAWL_READ, NOW, &reader));
        CHECK_CODE(pawl_rw_acquire(two, "a", PAWL_UPGRADABLE, NOW, &none), PAWL_BUSY);
        CHECK_CODE(pawl_rw_acquire(two, "a", PAWL_WRITE, NOW, &none), PAWL_BUSY);
        CHECK_CODE(pawl_rw_upgrade(upgradable, PAWL_NO_WAIT), PAWL_BUSY);
        CHECK_INT(pawl_rw_mode(upgradable), PAWL_UPGRADABLE);
        CHECK_CODE(pawl_rw_check(upgradable), PAWL_OK);
        CHECK_CODE(pawl_rw_upgrade(upgradable, 500), PAWL_TIMEOUT);
        CHECK_CODE(pawl_rw_check(upgradable), PAWL_OK);
        CHECK_CODE(pawl_rw_upgrade(reader, PAWL_NO_WAIT), PAWL_MISUSE);
        CHECK_CODE(pawl_rw_release(reader), PAWL_OK);
        uint64_t before = pawl_rw_token(upgradable);
        MUST(pawl_rw_upgrade(upgradable, PATIENCE));
        CHECK_COMPARE(pawl_rw_token(upgradable), >, before);
        CHECK_INT(pawl_rw_mode(upgradable), PAWL_WRITE);
        CHECK_CODE(pawl_rw_acquire(two, "a", PAWL_READ, NOW, &none), PAWL_BUSY);
        MUST(pawl_rw_downgrade(upgradable, PAWL_UPGRADABLE));
        MUST(pawl_rw_acquire(two, "a", PAWL_READ, PAWL_LOCK(.wait_ms = PATIENCE), &reader));
        MUST(pawl_rw_downgrade(upgradable, PAWL_READ));
        CHECK_CODE(pawl_rw_downgrade(upgradable, PAWL_READ), PAWL_MISUSE);
        CHECK_CODE(pawl_rw_release(reader), PAWL_OK);
        MUST(pawl_rw_acquire(two, "a", PAWL_UPGRADABLE, PAWL_LOCK(.wait_ms = PATIENCE), &reader));
        CHECK_CODE(pawl_rw_release(reader), PAWL_OK);
        CHECK_CODE(pawl_rw_release(upgradable), PAWL_OK);
}

/* ---- nobody writes in between ------------------------------------------------------------------------------------ */

enum { WORKERS = 4, ROUNDS = 12 };
static atomic_int value, lost_updates, readers, writers, seen_both;

static void *work(void *arg)
{
        pawl_client *client = arg;
        pawl_rw *rw;

        for (int i = 0; i < ROUNDS; i++) {
                MUST(pawl_rw_acquire(client, "a", PAWL_UPGRADABLE, NULL, &rw));
                int read = atomic_load(&value);
                MUST(pawl_rw_upgrade(rw, PAWL_FOREVER));
                if (atomic_fetch_add(&writers, 1) || atomic_load(&readers))
                        atomic_fetch_add(&seen_both, 1);
                if (atomic_exchange(&value, read + 1) != read)
                        atomic_fetch_add(&lost_updates, 1);
                atomic_fetch_sub(&writers, 1);
                CHECK_CODE(pawl_rw_release(rw), PAWL_OK);
                MUST(pawl_rw_acquire(client, "a", PAWL_READ, NULL, &rw));
                atomic_fetch_add(&readers, 1);
                if (atomic_load(&writers))
                        atomic_fetch_add(&seen_both, 1);
                atomic_fetch_sub(&readers, 1);
                CHECK_CODE(pawl_rw_release(rw), PAWL_OK);
        }
        return NULL;
}

TEST(nobody_writes_between_reading_and_upgrading)
{
        const char *place = fresh_place();
        pthread_t threads[WORKERS];
        pawl_client *clients[WORKERS];

        for (int i = 0; i < WORKERS; i++)
                clients[i] = join(place);
        NEEDS(clients[0], PAWL_CAN_SHARE);
        for (int i = 0; i < WORKERS; i++)
                REQUIRE_INT(pthread_create(&threads[i], NULL, work, clients[i]), 0);
        for (int i = 0; i < WORKERS; i++)
                pthread_join(threads[i], NULL);
        CHECK_INT(atomic_load(&value), WORKERS * ROUNDS);
        CHECK_INT(atomic_load(&lost_updates), 0);
        CHECK_INT(atomic_load(&seen_both), 0);
}

TEST(who_loses_the_right_to_write_hears_it)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_rw *rw, *next;

        NEEDS(one, PAWL_CAN_SHARE | PAWL_CAN_BREAK);
        MUST(pawl_rw_acquire(one, "a", PAWL_UPGRADABLE, NULL, &rw));
        CHECK_CODE(break_it(two, "upgrade/a"), PAWL_OK);
        CHECK(SOON(pawl_rw_check(rw) == PAWL_LOST));
        CHECK_CODE(pawl_rw_upgrade(rw, PAWL_FOREVER), PAWL_LOST);
        CHECK_CODE(pawl_rw_release(rw), PAWL_LOST);
        MUST(pawl_rw_acquire(two, "a", PAWL_WRITE, PAWL_LOCK(.wait_ms = PATIENCE), &next));
        CHECK_CODE(pawl_rw_release(next), PAWL_OK);
}

/* A process that holds the right, or NAME, or both, and dies: others go on after its lease. */
TEST(who_dies_with_any_of_the_locks_is_followed)
{
        static const char *const names[] = {"a", "upgrade/a"};
        const char *place = fresh_place();
        pawl_client *one = join(place);
        pawl_rw *rw;

        NEEDS(one, PAWL_CAN_SHARE);
        for (int i = 0; i < 2; i++) {
                struct peer *peer = start_peer(place);

                REQUIRE_CODE(ask_peer(peer, "acquire %s 0 500", names[i]), PAWL_OK);
                kill_peer(peer);
                MUST(pawl_rw_acquire(one, "a", PAWL_WRITE, PAWL_LOCK(.wait_ms = PATIENCE), &rw));
                CHECK_CODE(pawl_rw_release(rw), PAWL_OK);
        }
}

static int count_note(const struct pawl_entry *entry, void *arg)
{
        *(int *)arg += entry->role == PAWL_ROLE_HOLDER && entry->note && strcmp(entry->note, "the baker") == 0;
        return 0;
}

TEST(others_read_the_note_of_both_locks)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        int notes = 0;
        pawl_rw *rw;

        NEEDS(one, PAWL_CAN_SHARE | PAWL_CAN_INSPECT);
        MUST(pawl_rw_acquire(one, "a", PAWL_WRITE, PAWL_LOCK(.note = "the baker"), &rw));
        CHECK_CODE(pawl_show(two, "a", count_note, &notes), PAWL_OK);
        CHECK_CODE(pawl_show(two, "upgrade/a", count_note, &notes), PAWL_OK);
        CHECK_INT(notes, 2);
        CHECK_CODE(pawl_rw_release(rw), PAWL_OK);
}

TEST(bad_input_is_refused)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        pawl_rw *rw;
        char name[300];

        NEEDS(one, PAWL_CAN_SHARE);
        memset(name, 'n', sizeof name);
        name[255] = '\0';
        CHECK_CODE(pawl_rw_acquire(one, "a", 3, NULL, &rw), PAWL_INVALID);
        CHECK_CODE(pawl_rw_acquire(one, NULL, PAWL_READ, NULL, &rw), PAWL_INVALID);
        CHECK_CODE(pawl_rw_acquire(one, name, PAWL_WRITE, NULL, &rw), PAWL_INVALID);
        CHECK_CODE(pawl_rw_acquire(one, "a", PAWL_READ, PAWL_LOCK(.mode = PAWL_SHARED), &rw), PAWL_INVALID);
        CHECK_CODE(pawl_rw_upgrade(NULL, 0), PAWL_INVALID);
        CHECK_CODE(pawl_rw_release(NULL), PAWL_OK);
}
