/* flight_test.c - one builds, the others wait or use what is old. */
#include "contract.h"

#include <pawl/flight.h>

static atomic_int built, building, most_at_once;

struct work {
        int64_t takes_ms;
        int code;
};

static int build(pawl_lock *lock, void **data, size_t *size, void *arg)
{
        const struct work *work = arg;
        int now = atomic_fetch_add(&building, 1) + 1;

        CHECK_CODE(pawl_check(lock), PAWL_OK);
        if (now > atomic_load(&most_at_once))
                atomic_store(&most_at_once, now);
        nap(work->takes_ms);
        atomic_fetch_sub(&building, 1);
        if (work->code != PAWL_OK)
                return work->code;
        *size = (size_t)asprintf((char **)data, "page %d", atomic_fetch_add(&built, 1) + 1);
        return PAWL_OK;
}

static bool page_is(struct pawl_value *value, const char *text)
{
        bool same = value->size == strlen(text) && !memcmp(value->data, text, value->size + 1);

        free(value->data);
        return same;
}

TEST(the_first_builds_and_the_others_get_it_while_it_is_fresh)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct work work = {0};
        struct pawl_value value;

        if (!(pawl_capabilities(one) & PAWL_CAN_KEEP)) {
                CHECK_CODE(pawl_flight(one, "p", NULL, build, &work, &value), PAWL_UNSUPPORTED);
                return;
        }
        MUST(pawl_flight(one, "p", NULL, build, &work, &value));
        CHECK(page_is(&value, "page 1"));
        MUST(pawl_flight(two, "p", NULL, build, &work, &value));
        CHECK(page_is(&value, "page 1"));
        CHECK_INT(atomic_load(&built), 1);
        CHECK_CODE(pawl_flight_forget(two, "p", NULL), PAWL_OK);
        MUST(pawl_flight(one, "p", NULL, build, &work, &value));
        CHECK(page_is(&value, "page 2"));
}

struct visitor {
        pawl_client *client;
        struct work work;
        const struct pawl_flight_options *options;
        int code;
        char page[32];
};

static void *visit(void *arg)
{
        struct visitor *visitor = arg;
        struct pawl_value value;

        visitor->code = pawl_flight(visitor->client, "p", visitor->options, build, &visitor->work, &value);
        if (visitor->code == PAWL_OK) {
                snprintf(visitor->page, sizeof visitor->page, "%s", (char *)value.data);
                free(value.data);
        }
        return NULL;
}

TEST(a_stampede_builds_once)
{
        enum { VISITORS = 24 };
        const char *place = fresh_place();
        pawl_client *clients[] = {join(place), join(place), join(place)};
        static struct visitor visitors[VISITORS];
        pthread_t threads[VISITORS];

        NEEDS(clients[0], PAWL_CAN_KEEP);
        for (int i = 0; i < VISITORS; i++) {
                visitors[i] = (struct visitor){.client = clients[i % 3], .work = {.takes_ms = 200}};
                REQUIRE_INT(pthread_create(&threads[i], NULL, visit, &visitors[i]), 0);
        }
        for (int i = 0; i < VISITORS; i++) {
                pthread_join(threads[i], NULL);
                CHECK_CODE(visitors[i].code, PAWL_OK);
                CHECK_STR(visitors[i].page, "page 1");
        }
        CHECK_INT(atomic_load(&built), 1);
        CHECK_INT(atomic_load(&most_at_once), 1);
}

TEST(while_one_builds_anew_the_others_get_the_old_one)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct pawl_flight_options options = *PAWL_FLIGHT(.fresh_ms = 50, .stale_ms = 600000);
        static struct visitor slow;
        struct work quick = {0};
        struct pawl_value value;
        pthread_t thread;

        NEEDS(one, PAWL_CAN_KEEP);
        MUST(pawl_flight(one, "p", &options, build, &quick, &value));
        CHECK(page_is(&value, "page 1"));
        nap(100);
        slow = (struct visitor){.client = one, .work = {.takes_ms = 1500}, .options = &options};
        REQUIRE_INT(pthread_create(&thread, NULL, visit, &slow), 0);
        REQUIRE(SOON(atomic_load(&building) == 1));
        MUST(pawl_flight(two, "p", &options, build, &quick, &value));
        bool old = page_is(&value, "page 1");
        CHECK(old || atomic_load(&building) == 0); /* on a very slow machine it may be done by now */
        pthread_join(thread, NULL);
        CHECK_STR(slow.page, "page 2");
}

TEST(a_builder_that_fails_leaves_it_to_the_next)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct work fails = {.code = PAWL_UNREACHABLE}, works = {0};
        struct pawl_value value;

        NEEDS(one, PAWL_CAN_KEEP);
        CHECK_CODE(pawl_flight(one, "p", NULL, build, &fails, &value), PAWL_UNREACHABLE);
        MUST(pawl_flight(two, "p", PAWL_FLIGHT(.wait_ms = PATIENCE), build, &works, &value));
        CHECK(page_is(&value, "page 1"));
}

TEST(what_a_builder_says_is_what_its_caller_gets)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct work busy = {.code = PAWL_BUSY}, work = {0};
        struct pawl_value value;

        NEEDS(one, PAWL_CAN_KEEP);
        CHECK_CODE(pawl_flight(one, "p", PAWL_FLIGHT(.wait_ms = 1000), build, &busy, &value), PAWL_BUSY);
        MUST(pawl_flight(one, "p", PAWL_FLIGHT(.fresh_ms = 1, .stale_ms = 100000), build, &work, &value));
        CHECK(page_is(&value, "page 1"));
        nap(50);
        CHECK_CODE(pawl_flight(one, "p", PAWL_FLIGHT(.fresh_ms = 1, .stale_ms = 100000), build, &busy, &value),
                   PAWL_BUSY);
}

TEST(who_does_not_want_to_wait_hears_that_another_builds)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct work work = {0};
        struct pawl_value value;
        pawl_lock *lock;

        NEEDS(one, PAWL_CAN_KEEP);
        MUST(pawl_acquire(one, "flight/p", NULL, &lock));
        CHECK_CODE(pawl_flight(two, "p", PAWL_FLIGHT(.wait_ms = PAWL_NO_WAIT), build, &work, &value), PAWL_BUSY);
        CHECK_CODE(pawl_flight(two, "p", PAWL_FLIGHT(.wait_ms = 500), build, &work, &value), PAWL_TIMEOUT);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

/* The builder is dead: the next one builds, with a greater token, and nobody waits longer than the lease. */
TEST(a_builder_that_is_killed_is_followed_by_another)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);
        struct work work = {0};
        struct pawl_value value;

        NEEDS(one, PAWL_CAN_KEEP);
        REQUIRE_CODE(ask_peer(peer, "acquire flight/p 0 500"), PAWL_OK);
        uint64_t token = peer_token(peer);
        kill_peer(peer);
        MUST(pawl_flight(one, "p", PAWL_FLIGHT(.wait_ms = PATIENCE), build, &work, &value));
        CHECK_COMPARE(value.token, >, token);
        CHECK(page_is(&value, "page 1"));
}

TEST(a_builder_that_was_cut_off_stores_nothing_but_has_its_page)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static struct visitor slow;
        struct work quick = {0};
        struct pawl_value value;
        pthread_t thread;

        NEEDS(one, PAWL_CAN_KEEP | PAWL_CAN_BREAK);
        slow = (struct visitor){.client = one, .work = {.takes_ms = 800}};
        REQUIRE_INT(pthread_create(&thread, NULL, visit, &slow), 0);
        REQUIRE(SOON(atomic_load(&building) == 1));
        CHECK_CODE(break_it(two, "flight/p"), PAWL_OK);
        MUST(pawl_flight(two, "p", PAWL_FLIGHT(.wait_ms = PATIENCE), build, &quick, &value));
        bool first = page_is(&value, "page 1");
        pthread_join(thread, NULL);
        CHECK_CODE(slow.code, PAWL_OK);
        MUST(pawl_fetch(two, "flight/p", &value));
        CHECK(page_is(&value, first ? "page 1" : "page 2"));
}
