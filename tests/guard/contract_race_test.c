/* contract_race_test.c - what every guard promises to many threads and processes at once, and to children. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

#include "store.h"

/* Between threads, and between processes. */
static struct shared {
        atomic_ullong token;     /* the last one handed out */
        atomic_ullong confirmed; /* the greatest that passed */
        atomic_ullong written;   /* updates that were confirmed */
        atomic_ullong passed;
        atomic_ullong refused;
} * shared;

static void share(void)
{
        shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        REQUIRE(shared != MAP_FAILED);
}

static void confirm(unsigned long long token)
{
        unsigned long long known = atomic_load(&shared->confirmed);

        while (known < token && !atomic_compare_exchange_weak(&shared->confirmed, &known, token))
                ;
}

static void nap(unsigned *seed)
{
        usleep((useconds_t)(rand_r(seed) % 1500));
}

/* ---- no token goes back ----------------------------------------------------------------------------------------- */

enum { WORKERS = 4, VISITS = 40 };

struct worker {
        pthread_t thread;
        pawl_guard *guard;
        unsigned seed;
        bool pruned; /* meanwhile: then no token may be known */
};

/* One visit with a token that may have grown old on the way. */
static void visit(struct worker *worker, bool write)
{
        unsigned long long token = atomic_fetch_add(&shared->token, 1) + 1;
        unsigned long long before;
        struct pawl_guard_data data = {0};
        char text[32];
        int code;

        nap(&worker->seed);
        before = atomic_load(&shared->confirmed);
        snprintf(text, sizeof(text), "%llu", token);
        code = write ? pawl_guard_put(worker->guard, "r", token, text, strlen(text), NULL)
                     : pawl_guard_get(worker->guard, "r", token, NULL, &data);
        if (code == PAWL_STALE) {
                atomic_fetch_add(&shared->refused, 1);
                return;
        }
        if (!CHECK(code == PAWL_OK || (!write && code == PAWL_NOT_FOUND)))
                NOTE("%s", pawl_strerror(code));
        CHECK(token >= before); /* whatever was confirmed before we began is not greater */
        if (!write && code == PAWL_OK) {
                CHECK((data.token >= before && data.token <= token) || (worker->pruned && data.token == 0));
                CHECK(strtoull(data.bytes, NULL, 10) <= token);
                free(data.bytes);
        }
        confirm(token);
        atomic_fetch_add(&shared->passed, 1);
}

static void *run_visits(void *arg)
{
        struct worker *worker = arg;

        for (int i = 0; i < VISITS; i++)
                visit(worker, i % 2 == 0);
        return NULL;
}

TEST_WITHIN(300, threads_on_one_guard_never_see_a_token_go_back)
{
        struct worker workers[WORKERS];
        pawl_guard *guard = open_store();

        share();
        for (unsigned i = 0; i < WORKERS; i++) {
                workers[i] = (struct worker){.guard = guard, .seed = i};
                REQUIRE(pthread_create(&workers[i].thread, NULL, run_visits, &workers[i]) == 0);
        }
        for (int i = 0; i < WORKERS; i++)
                pthread_join(workers[i].thread, NULL);
        CHECK(atomic_load(&shared->passed) > 0);
        CHECK_UINT(atomic_load(&shared->passed) + atomic_load(&shared->refused), WORKERS * VISITS);
        CHECK_INT(admit(guard, "r", atomic_load(&shared->confirmed) - 1), PAWL_STALE);
        pawl_guard_close(guard);
}

/* A process, with two threads on a guard of its own. */
static int start_process(unsigned number, void *(*run)(void *))
{
        struct worker workers[2];
        int child = fork();

        if (child != 0)
                return child;
        workers[0] = (struct worker){.guard = open_store(), .seed = number};
        workers[1] = (struct worker){.guard = workers[0].guard, .seed = number + 100};
        for (int i = 0; i < 2; i++)
                REQUIRE(pthread_create(&workers[i].thread, NULL, run, &workers[i]) == 0);
        for (int i = 0; i < 2; i++)
                pthread_join(workers[i].thread, NULL);
        pawl_guard_close(workers[0].guard);
        _exit(0);
}

static void run_processes(void *(*run)(void *))
{
        int children[WORKERS];

        store_url(); /* the same for all */
        share();
        for (unsigned i = 0; i < WORKERS; i++)
                children[i] = start_process(i, run);
        for (int i = 0; i < WORKERS; i++)
                check_child(children[i]);
}

TEST_WITHIN(300, processes_never_see_a_token_go_back)
{
        pawl_guard *guard;

        needs_persistence();
        run_processes(run_visits);
        CHECK(atomic_load(&shared->passed) > 0);
        CHECK_UINT(atomic_load(&shared->passed) + atomic_load(&shared->refused), 2 * WORKERS * VISITS);
        guard = open_store();
        CHECK_INT(admit(guard, "r", atomic_load(&shared->confirmed) - 1), PAWL_STALE);
        CHECK_INT(admit(guard, "r", atomic_load(&shared->token)), PAWL_OK);
        pawl_guard_close(guard);
}

/* ---- no update is lost ------------------------------------------------------------------------------------------ */

/* Read, add one, write: with a token that may have grown old on the way. */
static void update(struct worker *worker)
{
        unsigned long long token = atomic_fetch_add(&shared->token, 1) + 1;
        struct pawl_guard_data data = {0};
        long number = 0;
        char text[32];
        int code = pawl_guard_get(worker->guard, "counter", token, NULL, &data);

        if (code == PAWL_OK) {
                number = atol(data.bytes);
                free(data.bytes);
        }
        if (code == PAWL_OK || code == PAWL_NOT_FOUND) {
                nap(&worker->seed);
                snprintf(text, sizeof(text), "%ld", number + 1);
                code = pawl_guard_put(worker->guard, "counter", token, text, strlen(text), NULL);
                if (code == PAWL_OK)
                        atomic_fetch_add(&shared->written, 1);
        }
        if (!CHECK(code == PAWL_OK || code == PAWL_STALE))
                NOTE("%s", pawl_strerror(code));
}

static void *run_updates(void *arg)
{
        for (int i = 0; i < VISITS; i++)
                update(arg);
        return NULL;
}

static void check_counter(pawl_guard *guard)
{
        struct pawl_guard_data data = {0};
        uint64_t token = atomic_load(&shared->token) + 1;

        /* The last one always passes: so at least one update was written. */
        REQUIRE(atomic_load(&shared->written) > 0);
        REQUIRE(pawl_guard_get(guard, "counter", token, &why, &data) == PAWL_OK);
        CHECK_UINT(strtoull(data.bytes, NULL, 10), atomic_load(&shared->written));
        free(data.bytes);
}

TEST_WITHIN(300, updates_by_many_threads_lose_nothing)
{
        struct worker workers[WORKERS];
        pawl_guard *guard = open_store();

        share();
        for (unsigned i = 0; i < WORKERS; i++) {
                workers[i] = (struct worker){.guard = guard, .seed = i};
                REQUIRE(pthread_create(&workers[i].thread, NULL, run_updates, &workers[i]) == 0);
        }
        for (int i = 0; i < WORKERS; i++)
                pthread_join(workers[i].thread, NULL);
        check_counter(guard);
        pawl_guard_close(guard);
}

TEST_WITHIN(300, updates_by_many_processes_lose_nothing)
{
        pawl_guard *guard;

        needs_persistence();
        run_processes(run_updates);
        guard = open_store();
        check_counter(guard);
        pawl_guard_close(guard);
}

/* ---- pruned meanwhile ------------------------------------------------------------------------------------------- */

static void *run_prunes(void *arg)
{
        struct worker *worker = arg;

        for (int i = 0; i < VISITS / 2; i++) {
                uint64_t floor = atomic_load(&shared->confirmed);

                nap(&worker->seed);
                if (floor > 0)
                        CHECK_INT(pawl_guard_prune(worker->guard, floor, NULL, NULL), PAWL_OK);
        }
        return NULL;
}

/* Odd ones prune up to what was confirmed, which lets pass what they forget, but nothing older. */
static void *run_visits_and_prunes(void *arg)
{
        struct worker *worker = arg;

        return worker->seed % 2 == 0 ? run_visits(arg) : run_prunes(arg);
}

TEST_WITHIN(300, a_prune_in_the_middle_lets_no_token_go_back)
{
        struct worker workers[WORKERS];
        pawl_guard *guard;

        needs("prune");
        guard = open_store();
        share();
        for (unsigned i = 0; i < WORKERS; i++) {
                workers[i] = (struct worker){.guard = guard, .seed = i, .pruned = true};
                REQUIRE(pthread_create(&workers[i].thread, NULL, run_visits_and_prunes, &workers[i]) == 0);
        }
        for (int i = 0; i < WORKERS; i++)
                pthread_join(workers[i].thread, NULL);
        CHECK(atomic_load(&shared->passed) > 0);
        CHECK_INT(admit(guard, "r", atomic_load(&shared->confirmed) - 1), PAWL_STALE);
        pawl_guard_close(guard);
}

/* ---- fork ------------------------------------------------------------------------------------------------------- */

static int ignore(const struct pawl_guard_entry *entry, void *arg)
{
        (void)entry;
        (void)arg;
        return 0;
}

static int ignore_finding(const struct pawl_finding *finding, void *arg)
{
        (void)finding;
        (void)arg;
        return 0;
}

TEST(a_child_may_not_use_its_parents_guard_but_close_it)
{
        pawl_guard *guard = open_store();
        struct pawl_guard_data data;
        int child;

        CHECK_INT(put(guard, "r", 5, "five"), PAWL_OK);
        child = fork();
        if (child == 0) {
                CHECK_INT(admit(guard, "r", 9), PAWL_FORKED);
                CHECK_HAS(why.text, "fork");
                CHECK_INT(put(guard, "r", 9, "nine"), PAWL_FORKED);
                CHECK_INT(pawl_guard_get(guard, "r", 9, &why, &data), PAWL_FORKED);
                CHECK_INT(forget(guard, "r", 9), PAWL_FORKED);
                CHECK_INT(pawl_guard_list(guard, NULL, ignore, NULL, &why), PAWL_FORKED);
                CHECK_INT(pawl_guard_prune(guard, 9, &why, NULL), PAWL_FORKED);
                CHECK_INT(pawl_guard_examine(guard, ignore_finding, NULL, &why), PAWL_FORKED);
                pawl_guard_close(guard);
                _exit(0);
        }
        check_child(child);
        check_get(guard, "r", 5, "five", 5);
        CHECK_INT(put(guard, "r", 6, "six"), PAWL_OK);
        CHECK_INT(put(guard, "r", 5, "five"), PAWL_STALE);
        pawl_guard_close(guard);
}

TEST(a_child_opens_one_of_its_own)
{
        pawl_guard *guard;
        int child;

        needs_persistence();
        guard = open_store();
        CHECK_INT(put(guard, "r", 5, "five"), PAWL_OK);
        child = fork();
        if (child == 0) {
                pawl_guard *own = open_store();

                CHECK_INT(admit(own, "r", 4), PAWL_STALE);
                CHECK_INT(put(own, "r", 8, "eight"), PAWL_OK);
                pawl_guard_close(own);
                pawl_guard_close(guard);
                _exit(0);
        }
        check_child(child);
        CHECK_INT(put(guard, "r", 7, "seven"), PAWL_STALE);
        check_get(guard, "r", 8, "eight", 8);
        pawl_guard_close(guard);
}
