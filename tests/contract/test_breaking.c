/* test_breaking.c - pawl_break_if: one holder, by its token, and who broke it and why. */
#include "contract.h"

/* The answer may be lost; a second time it can cut off nobody else. */
static int break_if(pawl_client *client, const char *name, uint64_t token, const char *reason, struct pawl_why *why)
{
        bool in_doubt = false;
        int code;

        do {
                code = pawl_break_if(client, name, PAWL_BREAK(.token = token, .reason = reason, .why = why));
                in_doubt = in_doubt || code == PAWL_IN_DOUBT;
        } while (code == PAWL_IN_DOUBT);
        return in_doubt && (code == PAWL_NOT_FOUND || code == PAWL_BUSY) ? PAWL_OK : code;
}

TEST(break_if_cuts_off_the_holder_with_that_token)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen;
        pawl_lock *lock, *next;

        NEEDS(one, PAWL_CAN_BREAK);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 60000, .on_lost = see_lost, .arg = &seen), &lock));
        CHECK_CODE(break_if(two, "a", pawl_token(lock), NULL, NULL), PAWL_OK);
        CHECK(SOON(atomic_load(&seen.lost) == 1));
        CHECK_INT(atomic_load(&seen.reason), PAWL_REASON_BROKEN);
        CHECK_CODE(pawl_check(lock), PAWL_LOST);
        MUST(pawl_acquire(two, "a", PAWL_LOCK(.wait_ms = PATIENCE), &next));
        CHECK_COMPARE(pawl_token(next), >, pawl_token(lock));
}

TEST(break_if_leaves_a_holder_with_another_token_alone_and_names_it)
{
        const char *place = fresh_place();
        pawl_client *one = join_with(place, (struct pawl_open_options){.owner = "the one who came later"}),
                    *two = join(place);
        char number[32];
        struct pawl_why why = {0};
        pawl_lock *lock;
        uint64_t before;

        NEEDS(one, PAWL_CAN_BREAK | PAWL_CAN_INSPECT);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        before = pawl_token(lock);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.ttl_ms = 60000), &lock));
        CHECK_CODE(break_if(two, "a", before, "it hangs", &why), PAWL_BUSY);
        CHECK_INT(why.code, PAWL_BUSY);
        CHECK_HAS(why.text, "the one who came later");
        snprintf(number, sizeof number, "%llu", (unsigned long long)pawl_token(lock));
        CHECK_HAS(why.text, number);
        CHECK_CODE(break_if(two, "a", pawl_token(lock) + 1, NULL, NULL), PAWL_BUSY);
        CHECK_CODE(break_if(two, "a", UINT64_MAX, NULL, NULL), PAWL_BUSY);
        CHECK_CODE(pawl_renew(lock), PAWL_OK);
        CHECK_CODE(pawl_check(lock), PAWL_OK);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

TEST(break_if_of_a_free_lock_is_not_found)
{
        pawl_client *one = join(fresh_place());
        struct pawl_why why = {0};
        pawl_lock *lock;
        uint64_t token;

        NEEDS(one, PAWL_CAN_BREAK);
        CHECK_CODE(pawl_break_if(one, "a", PAWL_BREAK(.token = 1, .why = &why)), PAWL_NOT_FOUND);
        CHECK_INT(why.code, PAWL_NOT_FOUND);
        CHECK(*why.text);
        MUST(pawl_acquire(one, "a", NULL, &lock));
        token = pawl_token(lock);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        CHECK_CODE(pawl_break_if(one, "a", PAWL_BREAK(.token = token)), PAWL_NOT_FOUND);
        CHECK_CODE(pawl_break_if(one, "a", NULL), PAWL_NOT_FOUND);
        CHECK(is_free(one, "a"));
}

TEST(break_if_cuts_off_one_of_those_who_share_and_another_gets_its_place)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct seen seen[3], granted;
        pawl_lock *lock[3], *next;

        NEEDS(one, PAWL_CAN_BREAK | PAWL_CAN_LIMIT);
        for (int i = 0; i < 3; i++)
                MUST(pawl_acquire(one, "a",
                                  PAWL_LOCK(.mode = PAWL_SHARED, .max_holders = 3, .ttl_ms = 60000, .on_lost = see_lost,
                                            .arg = &seen[i]),
                                  &lock[i]));
        MUST(pawl_acquire_async(two, "a", PAWL_LOCK(.mode = PAWL_SHARED, .max_holders = 3), see_granted, &granted,
                                &next));
        CHECK(queue_reaches(one, "a", 1));
        CHECK_CODE(break_if(two, "a", pawl_token(lock[1]), NULL, NULL), PAWL_OK);
        CHECK(SOON(atomic_load(&seen[1].lost) == 1));
        CHECK_INT(atomic_load(&seen[1].reason), PAWL_REASON_BROKEN);
        CHECK_CODE(pawl_wait(next, PATIENCE), PAWL_OK);
        for (int i = 0; i < 3; i += 2) {
                CHECK_CODE(pawl_renew(lock[i]), PAWL_OK);
                CHECK_INT(atomic_load(&seen[i].lost), 0);
                CHECK_CODE(pawl_release(lock[i]), PAWL_OK);
        }
        CHECK_CODE(pawl_release(next), PAWL_OK);
        CHECK(is_free(one, "a"));
}

TEST(a_lock_delay_follows_when_one_of_those_who_share_is_broken)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_lock *delayed, *other, *more;

        NEEDS(one, PAWL_CAN_BREAK | PAWL_CAN_SHARE | PAWL_CAN_DELAY);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.mode = PAWL_SHARED, .delay_ms = 60000), &delayed));
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.mode = PAWL_SHARED, .ttl_ms = 60000), &other));
        CHECK_CODE(break_if(two, "a", pawl_token(delayed), NULL, NULL), PAWL_OK);
        CHECK_CODE(pawl_acquire(two, "a", PAWL_LOCK(.mode = PAWL_SHARED, .wait_ms = PAWL_NO_WAIT), &more), PAWL_BUSY);
        CHECK_CODE(pawl_renew(other), PAWL_OK);
        CHECK_CODE(pawl_release(other), PAWL_OK);
        CHECK(!is_free(two, "a"));
}

TEST(history_tells_who_broke_it_and_why)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join_with(place, (struct pawl_open_options){.owner = "night shift"});
        const struct line *past;
        struct view view;
        pawl_lock *lock;
        uint64_t token;

        NEEDS(one, PAWL_CAN_BREAK | PAWL_CAN_HISTORY);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.note = "a job"), &lock));
        token = pawl_token(lock);
        CHECK_CODE(break_if(two, "a", token, "host db3 is gone: \"ticket\" <17>, 100 %", NULL), PAWL_OK);
        MUST(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PATIENCE), &lock));
        CHECK_CODE(pawl_release(lock), PAWL_OK);
        REQUIRE_CODE(show(one, "a", &view), PAWL_OK);
        past = line_of(&view, PAWL_ROLE_PAST, 0);
        REQUIRE(past);
        CHECK_UINT(past->entry.how, PAWL_HOW_RELEASED);
        CHECK_STR(past->broken_by, "");
        CHECK_STR(past->reason, "");
        past = line_of(&view, PAWL_ROLE_PAST, 1);
        REQUIRE(past);
        CHECK_UINT(past->entry.how, PAWL_HOW_BROKEN);
        CHECK_UINT(past->entry.token, token);
        CHECK_STR(past->note, "a job");
        CHECK_STR(past->broken_by, "night shift");
        CHECK_STR(past->reason, "host db3 is gone: \"ticket\" <17>, 100 %");
        CHECK_COMPARE(past->entry.until_ms, >=, past->entry.since_ms);
}

/* Breaks it for that reason, and returns the one that is kept. */
static const char *reason_kept(pawl_client *client, const char *name, const char *reason)
{
        static struct view view;
        pawl_lock *lock;

        MUST(pawl_acquire(client, name, PAWL_LOCK(.wait_ms = PATIENCE), &lock));
        CHECK_CODE(break_if(client, name, pawl_token(lock), reason, NULL), PAWL_OK);
        pawl_release(lock);
        REQUIRE_CODE(show(client, name, &view), PAWL_OK);
        REQUIRE(line_of(&view, PAWL_ROLE_PAST, 0));
        return line_of(&view, PAWL_ROLE_PAST, 0)->reason;
}

TEST(a_reason_is_one_line_of_text_and_not_too_long)
{
        pawl_client *one = join(fresh_place());
        char longer[2 * PAWL_BREAK_REASON_MAX], umlauts[2 * PAWL_BREAK_REASON_MAX];

        NEEDS(one, PAWL_CAN_BREAK | PAWL_CAN_HISTORY);
        memset(longer, 'r', sizeof longer - 1);
        longer[sizeof longer - 1] = '\0';
        for (size_t i = 0; i + 2 < sizeof umlauts; i += 2)
                memcpy(umlauts + i, "ü", 3);
        CHECK_UINT(strlen(reason_kept(one, "a", longer)), PAWL_BREAK_REASON_MAX);
        CHECK_UINT(strlen(reason_kept(one, "b", umlauts)), PAWL_BREAK_REASON_MAX - 1);
        CHECK_STR(reason_kept(one, "c", "two\nlines \033[31mred\177 \302\205"), "two lines  [31mred   ");
        CHECK_STR(reason_kept(one, "d", "\377 is no text\303"), "? is no text?");
        CHECK_STR(reason_kept(one, "e", "-"), "-");
        CHECK_STR(reason_kept(one, "f", "%"), "%");
        CHECK_STR(reason_kept(one, "g", ""), "");
        CHECK_STR(reason_kept(one, "h", NULL), "");
}

TEST(pawl_break_tells_who_did_it_of_every_holder)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join_with(place, (struct pawl_open_options){.owner = "night shift"});
        struct view view;
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_BREAK | PAWL_CAN_HISTORY | PAWL_CAN_SHARE);
        for (int i = 0; i < 3; i++)
                MUST(pawl_acquire(one, "a", PAWL_LOCK(.mode = PAWL_SHARED), &lock));
        CHECK_CODE(break_it(two, "a"), PAWL_OK);
        REQUIRE_CODE(show(one, "a", &view), PAWL_OK);
        CHECK_UINT(view.past, 3);
        for (unsigned i = 0; i < view.past; i++) {
                CHECK_UINT(line_of(&view, PAWL_ROLE_PAST, i)->entry.how, PAWL_HOW_BROKEN);
                CHECK_STR(line_of(&view, PAWL_ROLE_PAST, i)->broken_by, "night shift");
                CHECK_STR(line_of(&view, PAWL_ROLE_PAST, i)->reason, "");
        }
}

static _Atomic uint64_t last_released;
static atomic_bool over;
static atomic_int broken, refused;

static void *break_those_before(void *arg)
{
        while (!atomic_load(&over)) {
                uint64_t token = atomic_load(&last_released);
                int code = token ? pawl_break_if(arg, "a", PAWL_BREAK(.token = token)) : PAWL_NOT_FOUND;

                if (code == PAWL_OK || code == PAWL_IN_DOUBT)
                        atomic_fetch_add(&broken, code == PAWL_OK);
                else if (code == PAWL_BUSY || code == PAWL_NOT_FOUND)
                        atomic_fetch_add(&refused, code == PAWL_BUSY);
                else
                        CHECK_CODE(code, PAWL_BUSY);
        }
        return NULL;
}

/* The lock changes hands between two who want it all the time, and somebody breaks those who had it a moment ago. */
TEST(break_if_never_cuts_off_the_next_holder)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join_with(place, (struct pawl_open_options){.drive = PAWL_DRIVE_THREAD});
        pthread_t breaker;

        NEEDS(one, PAWL_CAN_BREAK | PAWL_CAN_INSPECT);
        REQUIRE(pthread_create(&breaker, NULL, break_those_before, two) == 0);
        for (int i = 0; i < 200 || (atomic_load(&refused) == 0 && i < 20000); i++) {
                pawl_lock *lock;

                MUST(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = PATIENCE, .ttl_ms = 60000), &lock));
                uint64_t token = pawl_token(lock);
                nap(i % 4 == 0);
                CHECK_CODE(pawl_release(lock), PAWL_OK);
                atomic_store(&last_released, token);
        }
        atomic_store(&over, true);
        pthread_join(breaker, NULL);
        CHECK_INT(atomic_load(&broken), 0);
        CHECK_COMPARE(atomic_load(&refused), >, 0);
}

TEST(options_of_a_break_are_read_as_all_others)
{
        pawl_client *one = join(fresh_place());
        struct pawl_why why = {0};
        struct {
                struct pawl_break_options known;
                uint64_t newer;
        } longer = {{.size = sizeof longer, .why = &why}, 0};

        NEEDS(one, PAWL_CAN_BREAK);
        CHECK_CODE(pawl_break_if(one, "a", &(struct pawl_break_options){.why = &why}), PAWL_INVALID);
        CHECK_HAS(why.text, "PAWL_BREAK");
        CHECK_CODE(pawl_break_if(one, "", PAWL_BREAK(.why = &why)), PAWL_INVALID);
        CHECK_INT(why.code, PAWL_INVALID);
        CHECK_CODE(pawl_break_if(NULL, "a", PAWL_BREAK(.why = &why)), PAWL_INVALID);
        CHECK(*why.text);
        CHECK_CODE(pawl_break_if(one, "a", PAWL_BREAK(.flags = 1, .why = &why)), PAWL_UNSUPPORTED);
        CHECK_INT(why.code, PAWL_UNSUPPORTED);
        CHECK_CODE(pawl_break_if(one, "a", &longer.known), PAWL_NOT_FOUND);
        longer.newer = 1;
        CHECK_CODE(pawl_break_if(one, "a", &longer.known), PAWL_UNSUPPORTED);
}

TEST(what_cannot_be_broken_says_so)
{
        pawl_client *one = join(fresh_place());
        struct pawl_why why = {0};
        pawl_lock *lock;

        if (pawl_capabilities(one) & PAWL_CAN_BREAK)
                SKIP("the engine can break locks");
        MUST(pawl_acquire(one, "a", NULL, &lock));
        CHECK_CODE(pawl_break_if(one, "a", PAWL_BREAK(.token = pawl_token(lock), .why = &why)), PAWL_UNSUPPORTED);
        CHECK_INT(why.code, PAWL_UNSUPPORTED);
        CHECK_CODE(pawl_check(lock), PAWL_OK);
}
