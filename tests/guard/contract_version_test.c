/* contract_version_test.c - what every guard promises for resources that are versioned: look, swap, and the loop around
 * them. */
#include <pawl/version.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store.h"

static pawl_guard *open_versions(void)
{
        needs("versions");
        return open_store();
}

static int swap(pawl_guard *guard, const char *resource, uint64_t expected, const char *text)
{
        return pawl_guard_swap(guard, resource, expected, text, strlen(text), &why, NULL);
}

static void check_look(pawl_guard *guard, const char *resource, const char *text, uint64_t version)
{
        struct pawl_guard_data data = {0};

        if (!CHECK_INT(pawl_guard_look(guard, resource, &why, &data), PAWL_OK)) {
                NOTE("%s", why.text);
                return;
        }
        CHECK_STR(data.bytes, text);
        CHECK_UINT(data.size, strlen(text));
        CHECK_UINT(data.token, version);
        free(data.bytes);
}

/* There are no data, but a version. */
static void check_nothing(pawl_guard *guard, const char *resource, uint64_t version)
{
        struct pawl_guard_data data = {.bytes = &data, .size = 99, .token = 98};

        if (!CHECK_INT(pawl_guard_look(guard, resource, &why, &data), PAWL_NOT_FOUND))
                NOTE("%s", why.text);
        CHECK(data.bytes == NULL);
        CHECK_UINT(data.size, 0);
        CHECK_UINT(data.token, version);
}

/* ---- look and swap ---------------------------------------------------------------------------------------------- */

TEST(every_swap_raises_the_version_by_one)
{
        pawl_guard *guard = open_versions();
        uint64_t version = 0;

        check_nothing(guard, "r", 0);
        for (uint64_t i = 0; i < 12; i++) {
                char text[32];

                snprintf(text, sizeof(text), "text %u", (unsigned)i);
                if (!CHECK_INT(pawl_guard_swap(guard, "r", i, text, strlen(text), &why, &version), PAWL_OK))
                        NOTE("%s", why.text);
                CHECK_UINT(version, i + 1);
                check_look(guard, "r", text, i + 1);
        }
        pawl_guard_close(guard);
}

TEST(a_swap_of_another_version_is_refused_and_changes_nothing)
{
        pawl_guard *guard = open_versions();
        uint64_t version = 77;

        CHECK_INT(swap(guard, "r", 1, "from nothing"), PAWL_STALE);
        check_nothing(guard, "r", 0);
        CHECK_INT(swap(guard, "r", 0, "one"), PAWL_OK);
        CHECK_INT(swap(guard, "r", 1, "two"), PAWL_OK);
        CHECK_INT(pawl_guard_swap(guard, "r", 1, "late", 4, &why, &version), PAWL_STALE);
        CHECK_INT(why.code, PAWL_STALE);
        CHECK_HAS(why.text, "\"r\" is not at version 1 but at 2");
        CHECK_UINT(version, 77);
        CHECK_INT(swap(guard, "r", 0, "as if new"), PAWL_STALE);
        CHECK_INT(swap(guard, "r", 3, "too early"), PAWL_STALE);
        CHECK_INT(swap(guard, "r", INT64_MAX - 1, "never"), PAWL_STALE);
        check_look(guard, "r", "two", 2);
        CHECK_INT(swap(guard, "other", 2, "x"), PAWL_STALE);
        pawl_guard_close(guard);
}

TEST(a_look_admits_nothing_and_tells_what_was_admitted)
{
        pawl_guard *guard = open_versions();

        check_nothing(guard, "r", 0);
        check_nothing(guard, "r", 0);
        CHECK_INT(admit(guard, "r", 5), PAWL_OK);
        check_nothing(guard, "r", 5);
        CHECK_INT(put(guard, "r", 5, "five"), PAWL_OK);
        check_look(guard, "r", "five", 5);
        CHECK_INT(put(guard, "r", 5, "five again"), PAWL_OK);
        check_look(guard, "r", "five again", 5);
        pawl_guard_close(guard);
}

/* Past 2^53, where a store that counts in doubles would take neighbours for equals; and where digits are carried. */
TEST(the_greatest_versions_are_told_apart)
{
        static const uint64_t steps[] = {9,
                                         99,
                                         199,
                                         1089,
                                         UINT64_C(9007199254740992),
                                         UINT64_C(9007199254740993),
                                         UINT64_C(999999999999999999),
                                         INT64_MAX - 1};
        pawl_guard *guard = open_versions();

        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
                CHECK_INT(put(guard, "r", steps[i], "x"), PAWL_OK);
                CHECK_INT(swap(guard, "r", steps[i] - 1, "too old"), PAWL_STALE);
                CHECK_INT(swap(guard, "r", steps[i] + 1, "too new"), i < 7 ? PAWL_STALE : PAWL_INVALID);
                CHECK_INT(swap(guard, "r", steps[i], "y"), PAWL_OK);
                check_look(guard, "r", "y", steps[i] + 1);
        }
        CHECK_INT(swap(guard, "r", INT64_MAX, "z"), PAWL_INVALID);
        CHECK_INT(swap(guard, "r", UINT64_MAX, "z"), PAWL_INVALID);
        check_look(guard, "r", "y", INT64_MAX);
        pawl_guard_close(guard);
}

TEST(swapped_bytes_may_be_of_any_kind)
{
        static const char bytes[] = "\0\1\r\n\xff'\"\\%s\0";
        pawl_guard *guard = open_versions();
        struct pawl_guard_data data = {0};
        uint64_t version = 0;

        REQUIRE(pawl_guard_swap(guard, "r", 0, bytes, sizeof(bytes), &why, &version) == PAWL_OK);
        REQUIRE(pawl_guard_look(guard, "r", &why, &data) == PAWL_OK);
        CHECK_UINT(data.size, sizeof(bytes));
        CHECK_MEM(data.bytes, bytes, sizeof(bytes));
        CHECK_INT(((const char *)data.bytes)[data.size], 0);
        free(data.bytes);
        REQUIRE(pawl_guard_swap(guard, "r", 1, NULL, 0, &why, &version) == PAWL_OK);
        check_look(guard, "r", "", 2);
        CHECK_INT(swap(guard, "odd %2e/\xc3\xa4'\"", 0, "odd"), PAWL_OK);
        check_look(guard, "odd %2e/\xc3\xa4'\"", "odd", 1);
        pawl_guard_close(guard);
}

TEST(wrong_arguments_of_look_and_swap_are_answered_and_change_nothing)
{
        pawl_guard *guard = open_versions();
        struct pawl_guard_data data = {.size = 99};

        CHECK_INT(swap(guard, "r", 0, "one"), PAWL_OK);
        CHECK_INT(pawl_guard_look(NULL, "r", &why, &data), PAWL_INVALID);
        CHECK_INT(pawl_guard_look(guard, NULL, &why, &data), PAWL_INVALID);
        CHECK_INT(pawl_guard_look(guard, "", &why, &data), PAWL_INVALID);
        CHECK_INT(pawl_guard_look(guard, "a\nb", &why, &data), PAWL_INVALID);
        CHECK_INT(pawl_guard_look(guard, "r", NULL, NULL), PAWL_INVALID);
        CHECK_INT(pawl_guard_swap(NULL, "r", 1, "x", 1, NULL, NULL), PAWL_INVALID);
        CHECK_INT(pawl_guard_swap(guard, NULL, 1, "x", 1, NULL, NULL), PAWL_INVALID);
        CHECK_INT(pawl_guard_swap(guard, "a\tb", 1, "x", 1, NULL, NULL), PAWL_INVALID);
        CHECK_INT(pawl_guard_swap(guard, "r", 1, NULL, 1, NULL, NULL), PAWL_INVALID);
        CHECK_INT(pawl_update(guard, "r", NULL, NULL, PAWL_UPDATE(.why = &why), NULL), PAWL_INVALID);
        CHECK_UINT(data.size, 99);
        check_look(guard, "r", "one", 1);
        pawl_guard_close(guard);
}

TEST(what_was_pruned_does_not_begin_anew)
{
        pawl_guard *guard = open_versions();

        needs("prune");
        CHECK_INT(swap(guard, "r", 0, "one"), PAWL_OK);
        CHECK_INT(swap(guard, "r", 1, "two"), PAWL_OK);
        CHECK_INT(pawl_guard_prune(guard, 2, &why, NULL), PAWL_OK);
        check_look(guard, "r", "two", 2); /* who had read it then may still write */
        CHECK_INT(pawl_guard_prune(guard, 10, &why, NULL), PAWL_OK);
        check_look(guard, "r", "two", 10);
        CHECK_INT(swap(guard, "r", 0, "as if new"), PAWL_STALE);
        CHECK_INT(swap(guard, "r", 2, "as if nothing had been"), PAWL_STALE);
        CHECK_HAS(why.text, "not at version 2 but at 10");
        check_nothing(guard, "new", 10);
        CHECK_INT(swap(guard, "new", 0, "x"), PAWL_STALE);
        CHECK_INT(swap(guard, "new", 10, "x"), PAWL_OK);
        check_look(guard, "new", "x", 11);
        CHECK_INT(swap(guard, "r", 10, "three"), PAWL_OK);
        check_look(guard, "r", "three", 11);
        CHECK_INT(pawl_guard_prune(guard, 3, &why, NULL), PAWL_OK);
        check_look(guard, "r", "three", 11);
        pawl_guard_close(guard);
}

TEST(versions_outlive_the_guard_that_was_closed)
{
        pawl_guard *guard, *other;

        needs_persistence();
        guard = open_versions();
        CHECK_INT(swap(guard, "r", 0, "one"), PAWL_OK);
        pawl_guard_close(guard);
        guard = open_versions();
        other = open_versions();
        check_look(guard, "r", "one", 1);
        CHECK_INT(swap(other, "r", 1, "two"), PAWL_OK);
        CHECK_INT(swap(guard, "r", 1, "too late"), PAWL_STALE);
        check_look(guard, "r", "two", 2);
        pawl_guard_close(other);
        pawl_guard_close(guard);
}

/* ---- a swap that is sent again ----------------------------------------------------------------------------------- */

static int swap_as(pawl_guard *guard, uint64_t expected, const char *text, uint64_t id, uint32_t flags)
{
        return pawl_guard_swap_as(guard, "r", expected, text, strlen(text),
                                  PAWL_SWAP(.id = id, .flags = flags, .why = &why), NULL);
}

TEST(a_swap_that_is_sent_twice_is_made_once)
{
        pawl_guard *guard = open_versions();

        CHECK_INT(swap_as(guard, 0, "one", 11, 0), PAWL_OK);
        CHECK_INT(swap_as(guard, 0, "one", 11, PAWL_SWAP_AGAIN), PAWL_OK);
        CHECK_INT(swap_as(guard, 0, "one", 11, 0), PAWL_OK); /* as a proxy would send it */
        check_look(guard, "r", "one", 1);
        CHECK_INT(swap_as(guard, 1, "two", UINT64_MAX, PAWL_SWAP_AGAIN), PAWL_OK); /* the first was lost on its way */
        check_look(guard, "r", "two", 2);
        CHECK_INT(swap_as(guard, 1, "two", UINT64_MAX, PAWL_SWAP_AGAIN), PAWL_OK);
        check_look(guard, "r", "two", 2);
        pawl_guard_close(guard);
}

TEST(a_swap_that_is_sent_again_knows_whose_version_it_finds)
{
        pawl_guard *guard = open_versions();

        CHECK_INT(swap_as(guard, 0, "same", 11, 0), PAWL_OK);
        CHECK_INT(swap_as(guard, 0, "same", 12, PAWL_SWAP_AGAIN), PAWL_STALE); /* another's, with the same bytes */
        CHECK_INT(why.code, PAWL_STALE);
        CHECK_INT(swap(guard, "r", 1, "more"), PAWL_OK);
        CHECK_INT(swap_as(guard, 0, "same", 11, 0), PAWL_STALE);
        CHECK_INT(swap_as(guard, 0, "same", 11, PAWL_SWAP_AGAIN), PAWL_IN_DOUBT); /* it was; but who knows that now? */
        CHECK_INT(why.code, PAWL_IN_DOUBT);
        CHECK_INT(swap_as(guard, 0, "same", 12, PAWL_SWAP_AGAIN), PAWL_IN_DOUBT);
        check_look(guard, "r", "more", 2);
        CHECK_INT(put(guard, "r", 3, "with a token"), PAWL_OK);
        CHECK_INT(swap_as(guard, 2, "same", 11, PAWL_SWAP_AGAIN), PAWL_STALE);
        check_look(guard, "r", "with a token", 3);
        pawl_guard_close(guard);
}

TEST(the_id_of_a_swap_outlives_the_guard_and_goes_with_its_mark)
{
        pawl_guard *guard;

        needs_persistence();
        guard = open_versions();
        CHECK_INT(swap_as(guard, 0, "one", 11, 0), PAWL_OK);
        pawl_guard_close(guard);
        guard = open_versions();
        CHECK_INT(swap_as(guard, 0, "one", 11, PAWL_SWAP_AGAIN), PAWL_OK);
        check_look(guard, "r", "one", 1);
        needs("forget");
        CHECK_INT(forget(guard, "r", 1), PAWL_OK);
        CHECK_INT(swap_as(guard, 0, "anew", 12, 0), PAWL_OK);
        CHECK_INT(swap_as(guard, 0, "one", 11, PAWL_SWAP_AGAIN), PAWL_STALE);
        check_look(guard, "r", "anew", 1);
        needs("prune");
        CHECK_INT(pawl_guard_prune(guard, 5, &why, NULL), PAWL_OK);
        CHECK_INT(swap_as(guard, 5, "later", 13, 0), PAWL_OK);
        CHECK_INT(swap_as(guard, 5, "later", 13, PAWL_SWAP_AGAIN), PAWL_OK);
        check_look(guard, "r", "later", 6);
        pawl_guard_close(guard);
}

TEST(a_swap_without_an_id_or_with_unknown_flags_is_refused)
{
        pawl_guard *guard = open_versions();

        CHECK_INT(swap_as(guard, 0, "x", 0, 0), PAWL_INVALID);
        CHECK_INT(pawl_guard_swap_as(guard, "r", 0, "x", 1, NULL, NULL), PAWL_INVALID);
        CHECK_INT(swap_as(guard, 0, "x", 1, 2), PAWL_UNSUPPORTED);
        CHECK_INT(pawl_guard_swap_as(guard, "r", INT64_MAX, "x", 1, PAWL_SWAP(.id = 1), NULL), PAWL_INVALID);
        CHECK_INT(pawl_guard_swap_as(guard, "r", 0, NULL, 1, PAWL_SWAP(.id = 1), NULL), PAWL_INVALID);
        check_nothing(guard, "r", 0);
        pawl_guard_close(guard);
}

/* ---- updates ---------------------------------------------------------------------------------------------------- */

enum { OWN_CODE = -7 };

static int end_it(struct pawl_change *change, void *arg)
{
        (void)arg;
        CHECK(pawl_change_to(change, "never", 5) == PAWL_OK);
        return OWN_CODE;
}

static int let_it_be(struct pawl_change *change, void *arg)
{
        *(unsigned *)arg += change->number;
        return PAWL_OK;
}

static int write_twice(struct pawl_change *change, void *arg)
{
        (void)arg;
        CHECK(pawl_change_to(change, "first thought", 13) == PAWL_OK);
        return pawl_change_to(change, "second", 6);
}

TEST(the_function_of_an_update_decides)
{
        pawl_guard *guard = open_versions();
        uint64_t version = 77;
        unsigned calls = 0;

        CHECK_INT(pawl_update(guard, "r", end_it, NULL, PAWL_UPDATE(.why = &why), &version), OWN_CODE);
        CHECK_INT(why.code, OWN_CODE);
        CHECK_UINT(version, 77);
        check_nothing(guard, "r", 0);
        CHECK_INT(pawl_update(guard, "r", write_twice, NULL, NULL, &version), PAWL_OK);
        CHECK_UINT(version, 1);
        check_look(guard, "r", "second", 1);
        CHECK_INT(pawl_update(guard, "r", let_it_be, &calls, NULL, &version), PAWL_OK);
        CHECK_UINT(version, 1);
        CHECK_UINT(calls, 1);
        check_look(guard, "r", "second", 1);
        pawl_guard_close(guard);
}

/* Another one is faster, as often as is told. */
struct rival {
        pawl_guard *guard;
        unsigned times;
        unsigned calls;
};

static int be_late(struct pawl_change *change, void *arg)
{
        struct rival *rival = arg;

        CHECK_UINT(change->number, ++rival->calls);
        if (rival->calls <= rival->times)
                CHECK_INT(swap(rival->guard, "r", change->version, "the rival's"), PAWL_OK);
        return pawl_change_to(change, "ours", 4);
}

TEST(an_update_is_tried_again_while_others_are_faster)
{
        struct rival rival = {.guard = open_versions(), .times = 3};
        uint64_t version = 0;

        CHECK_INT(pawl_update(rival.guard, "r", be_late, &rival, PAWL_UPDATE(.why = &why, .wait_ms = 60000), &version),
                  PAWL_OK);
        CHECK_UINT(rival.calls, 4);
        CHECK_UINT(version, 4);
        check_look(rival.guard, "r", "ours", 4);
        rival.calls = 0;
        CHECK_INT(pawl_update(rival.guard, "r", be_late, &rival, PAWL_UPDATE(.why = &why, .tries = 3), &version),
                  PAWL_STALE);
        CHECK_HAS(why.text, "each of 3 tries");
        CHECK_UINT(rival.calls, 3);
        check_look(rival.guard, "r", "the rival's", 7);
        rival = (struct rival){.guard = rival.guard, .times = 1000};
        CHECK_INT(pawl_update(rival.guard, "r", be_late, &rival, PAWL_UPDATE(.why = &why, .wait_ms = 1), &version),
                  PAWL_STALE);
        CHECK(rival.calls < 1000);
        pawl_guard_close(rival.guard);
}

/* ---- many at once ----------------------------------------------------------------------------------------------- */

enum { WORKERS = 4, CHANGES = 15 };

/* Between threads, and between processes. */
static struct shared {
        atomic_uint arrived; /* have read, and not yet written */
        atomic_ullong token;
        atomic_uint done;
        atomic_uint tries;
} * shared;

struct worker {
        pthread_t thread;
        pawl_guard *guard;
        unsigned all;
        unsigned seed;
        bool first;
};

static void share(void)
{
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        REQUIRE(shared != MAP_FAILED);
}

/* All have read before the first of them writes: so that they meet for sure. Later as it comes. */
static void meet(struct worker *worker)
{
        if (worker->first) {
                worker->first = false;
                atomic_fetch_add(&shared->arrived, 1);
                while (atomic_load(&shared->arrived) < worker->all)
                        usleep(500);
        }
        usleep((useconds_t)(rand_r(&worker->seed) % 1000));
}

static int add_one(struct pawl_change *change, void *arg)
{
        char text[32];
        long number = change->old ? atol(change->old) : 0;

        meet(arg);
        atomic_fetch_add(&shared->tries, 1);
        snprintf(text, sizeof(text), "%ld", number + 1);
        return pawl_change_to(change, text, strlen(text));
}

static void *run_updates(void *arg)
{
        struct worker *worker = arg;
        struct pawl_why own = {0};

        for (int i = 0; i < CHANGES; i++) {
                if (CHECK_INT(pawl_update(worker->guard, "counter", add_one, worker,
                                          PAWL_UPDATE(.why = &own, .wait_ms = 240000), NULL),
                              PAWL_OK))
                        atomic_fetch_add(&shared->done, 1);
                else
                        NOTE("%s", own.text);
        }
        return NULL;
}

/* The same work without the version: a write that asks for nothing but the next token. */
static void *run_careless(void *arg)
{
        struct worker *worker = arg;

        for (int i = 0; i < CHANGES; i++) {
                struct pawl_guard_data data = {0};
                int code = pawl_guard_look(worker->guard, "counter", NULL, &data);
                long number = code == PAWL_OK ? atol(data.bytes) : 0;
                char text[32];

                CHECK(code == PAWL_OK || code == PAWL_NOT_FOUND);
                free(data.bytes);
                meet(worker);
                snprintf(text, sizeof(text), "%ld", number + 1);
                do
                        code = pawl_guard_put(worker->guard, "counter", atomic_fetch_add(&shared->token, 1) + 1, text,
                                              strlen(text), NULL);
                while (code == PAWL_STALE);
                if (CHECK_INT(code, PAWL_OK))
                        atomic_fetch_add(&shared->done, 1);
        }
        return NULL;
}

static void run_threads(pawl_guard *guard, void *(*run)(void *))
{
        struct worker workers[WORKERS];

        share();
        for (unsigned i = 0; i < WORKERS; i++) {
                workers[i] = (struct worker){.guard = guard, .all = WORKERS, .seed = i, .first = true};
                REQUIRE(pthread_create(&workers[i].thread, NULL, run, &workers[i]) == 0);
        }
        for (int i = 0; i < WORKERS; i++)
                pthread_join(workers[i].thread, NULL);
}

static unsigned long counter_of(pawl_guard *guard, uint64_t *version)
{
        struct pawl_guard_data data = {0};
        unsigned long number;

        REQUIRE(pawl_guard_look(guard, "counter", &why, &data) == PAWL_OK);
        number = strtoul(data.bytes, NULL, 10);
        *version = data.token;
        free(data.bytes);
        return number;
}

static void check_counted(pawl_guard *guard)
{
        uint64_t version;

        CHECK_UINT(atomic_load(&shared->done), WORKERS * CHANGES);
        CHECK_UINT(counter_of(guard, &version), WORKERS * CHANGES);
        CHECK_UINT(version, WORKERS * CHANGES);
        CHECK(atomic_load(&shared->tries) > WORKERS * CHANGES); /* they have met */
}

TEST_WITHIN(300, changes_by_many_threads_lose_nothing)
{
        pawl_guard *guard = open_versions();

        run_threads(guard, run_updates);
        check_counted(guard);
        pawl_guard_close(guard);
}

TEST_WITHIN(300, changes_by_many_processes_lose_nothing)
{
        pawl_guard *guard;
        int children[WORKERS];

        needs("versions");
        needs_persistence();
        store_url(); /* the same for all */
        share();
        for (unsigned i = 0; i < WORKERS; i++) {
                children[i] = fork();
                if (children[i] == 0) {
                        struct worker worker = {.guard = open_versions(), .all = WORKERS, .seed = i, .first = true};

                        run_updates(&worker);
                        pawl_guard_close(worker.guard);
                        _exit(0);
                }
        }
        for (int i = 0; i < WORKERS; i++)
                check_child(children[i]);
        guard = open_versions();
        check_counted(guard);
        pawl_guard_close(guard);
}

/* Were it not for the version: this is what the two above would see. */
TEST_WITHIN(300, without_the_version_changes_are_lost)
{
        pawl_guard *guard = open_versions();
        uint64_t version;

        run_threads(guard, run_careless);
        CHECK_UINT(atomic_load(&shared->done), WORKERS * CHANGES);
        CHECK(counter_of(guard, &version) < WORKERS * CHANGES);
        pawl_guard_close(guard);
}
