/* philosophers_test.c - Dijkstra's dinner on every engine: who takes the left fork first starves with all the others; under
 * each policy everybody eats.
 *
 *   PAWL_TEST_PHILOSOPHERS  how many there are at the larger tables, up to 60 (20) */
#include <pawl/txn.h>

#include "contract.h"

enum {
        FEW = 5,
        SEATS_MAX = 60,
        NAME_SIZE = 24,
        THOUGHT_MS = 30,
        /* Nobody has so many times the meals of another when all have had theirs. Three are had in no time: on a busy
         * machine a neighbour eats 150 while one waits for a processor. */
        UNFAIR = 200
};

struct table {
        int seats;
        int meals; /* for each of them at least, before they get up */
        uint32_t policy;
        pthread_barrier_t seated;
        atomic_int forks[SEATS_MAX]; /* how many have it in their hand */
        atomic_int hungry;           /* how many have not had their meals */
        atomic_int grabbed;          /* forks that two had at once */
};

struct philosopher {
        struct table *table;
        pawl_client *client;
        pthread_t thread;
        int seat;
        atomic_int meals;
        int tries;
        int failed; /* the first code that was neither PAWL_OK nor the end of the dinner */
        unsigned chance;
        int64_t longest_ms; /* between two meals */
};

static struct table table;
static struct philosopher philosophers[SEATS_MAX];

static const char *fork_name(char room[NAME_SIZE], int number)
{
        snprintf(room, NAME_SIZE, "fork/%02d", number);
        return room;
}

/* ---- without a policy --------------------------------------------------------------------------------------------- */

TEST(without_a_policy_all_hold_one_fork_and_wait_for_the_other_for_ever)
{
        const char *place = fresh_place();
        pawl_lock *left[FEW], *right[FEW];
        pawl_client *clients[FEW];
        char name[NAME_SIZE];

        for (int i = 0; i < FEW; i++) {
                clients[i] = join(place);
                MUST(pawl_acquire(clients[i], fork_name(name, i), NULL, &left[i]));
        }
        for (int i = 0; i < FEW; i++)
                MUST(pawl_acquire_async(clients[i], fork_name(name, (i + 1) % FEW), NULL, NULL, NULL, &right[i]));
        for (int i = 0; i < FEW; i++)
                CHECK(queue_reaches(clients[i], fork_name(name, i), 1));
        CHECK_CODE(pawl_wait(right[0], 500), PAWL_TIMEOUT);
        for (int i = 0; i < FEW; i++)
                CHECK_INT(pawl_state(right[i]), PAWL_WAITING);
        /* One gives up, and the others eat one after the other. */
        CHECK_CODE(pawl_release(right[0]), PAWL_CANCELLED);
        CHECK_CODE(pawl_release(left[0]), PAWL_OK);
        for (int i = FEW - 1; i > 0; i--) {
                CHECK_CODE(pawl_wait(right[i], PATIENCE), PAWL_OK);
                CHECK_CODE(pawl_release(right[i]), PAWL_OK);
                CHECK_CODE(pawl_release(left[i]), PAWL_OK);
        }
}

/* ---- with one ----------------------------------------------------------------------------------------------------- */

static void pick_up(struct philosopher *self, int number)
{
        if (atomic_fetch_add(&self->table->forks[number], 1) != 0)
                atomic_fetch_add(&self->table->grabbed, 1);
}

static void put_down(struct philosopher *self, int number)
{
        atomic_fetch_sub(&self->table->forks[number], 1);
}

/* Always the left one first, unless the policy wants an order. */
static int dine(pawl_txn *txn, void *arg)
{
        struct philosopher *self = arg;
        int first = self->seat, second = (self->seat + 1) % self->table->seats;
        char name[NAME_SIZE];
        int code;

        if (self->table->policy == PAWL_ORDERED && second < first)
                first = 0, second = self->seat;
        self->tries++;
        code = pawl_txn_acquire(txn, fork_name(name, first), NULL, NULL);
        if (code == PAWL_OK) {
                nap(1); /* so that the others have theirs, too */
                code = pawl_txn_acquire(txn, fork_name(name, second), NULL, NULL);
        }
        if (code != PAWL_OK)
                return code;
        pick_up(self, first);
        pick_up(self, second);
        nap(1);
        put_down(self, second);
        put_down(self, first);
        return PAWL_OK; /* who is wounded only now has eaten all the same */
}

static void note_meal(struct philosopher *self, int64_t since)
{
        int64_t waited = now_ms() - since;

        if (waited > self->longest_ms)
                self->longest_ms = waited;
        if (atomic_fetch_add(&self->meals, 1) + 1 == self->table->meals)
                atomic_fetch_sub(&self->table->hungry, 1);
}

/* They stay until everybody has had his meals: those who are quick stand in the way of the slow ones to the end. Where there
 * is no line they think between meals: who let go this moment is otherwise the first to be there again, always. */
static void *philosophize(void *arg)
{
        struct philosopher *self = arg;

        (void)is_free(self->client, "napkin"); /* connected, all of them, before the first eats */
        pthread_barrier_wait(&self->table->seated);
        while (atomic_load(&self->table->hungry) > 0 && !self->failed) {
                int64_t since = now_ms();
                int code = pawl_txn_run(self->client, PAWL_TXN(.policy = self->table->policy, .wait_ms = 2 * PATIENCE),
                                        dine, self);

                if (code == PAWL_OK)
                        note_meal(self, since);
                else
                        self->failed = code;
                if (!(pawl_capabilities(self->client) & PAWL_CAN_QUEUE))
                        nap(1 + rand_r(&self->chance) % THOUGHT_MS);
        }
        return NULL;
}

static void sit_down(const char *place, int seats, uint32_t policy)
{
        REQUIRE_INT(pthread_barrier_init(&table.seated, NULL, (unsigned)seats), 0);
        table.seats = seats;
        table.meals = seats > FEW ? 3 : 8;
        table.policy = policy;
        atomic_store(&table.hungry, seats);
        atomic_store(&table.grabbed, 0);
        for (int i = 0; i < seats; i++)
                philosophers[i] =
                        (struct philosopher){.table = &table, .client = join(place), .seat = i, .chance = (unsigned)i};
}

static void report(int64_t took_ms, int most, int least)
{
        int meals = 0, tries = 0;
        int64_t longest = 0;

        for (int i = 0; i < table.seats; i++) {
                meals += atomic_load(&philosophers[i].meals);
                tries += philosophers[i].tries;
                if (philosophers[i].longest_ms > longest)
                        longest = philosophers[i].longest_ms;
        }
        NOTE("%d philosophers: %d meals in %lld ms, %d started again, between %d and %d meals each, the longest wait "
             "%lld ms",
             table.seats, meals, (long long)took_ms, tries - meals, least, most, (long long)longest);
}

static void have_dinner(uint32_t policy, int seats, bool fair)
{
        const char *place = fresh_place();
        int most = 0, least = 1 << 30;
        int64_t began;

        sit_down(place, seats, policy);
        began = now_ms();
        for (int i = 0; i < seats; i++)
                REQUIRE_INT(pthread_create(&philosophers[i].thread, NULL, philosophize, &philosophers[i]), 0);
        for (int i = 0; i < seats; i++) {
                pthread_join(philosophers[i].thread, NULL);
                int meals = atomic_load(&philosophers[i].meals);
                CHECK_INT(philosophers[i].failed, 0);
                CHECK_COMPARE(meals, >=, table.meals);
                most = meals > most ? meals : most;
                least = meals < least ? meals : least;
        }
        pthread_barrier_destroy(&table.seated);
        report(now_ms() - began, most, least);
        CHECK_INT(atomic_load(&table.grabbed), 0);
        CHECK(!fair || most <= UNFAIR * least);
}

static int many(void)
{
        const char *text = getenv("PAWL_TEST_PHILOSOPHERS");
        int seats = text ? atoi(text) : 20;

        return seats >= 2 && seats <= SEATS_MAX ? seats : 20;
}

static bool supports(uint32_t capabilities)
{
        pawl_client *client = join(fresh_place());

        return (pawl_capabilities(client) & capabilities) == capabilities;
}

static void dine_twice(uint32_t policy, uint32_t needs, bool fair)
{
        if (!supports(needs))
                SKIP("the engine cannot do what the policy needs");
        /* Without a line chance decides who is next. */
        fair = fair && supports(PAWL_CAN_QUEUE);
        have_dinner(policy, FEW, fair);
        have_dinner(policy, many(), fair);
}

TEST_WITHIN(120, in_order_everybody_eats)
{
        dine_twice(PAWL_ORDERED, 0, true);
}

TEST_WITHIN(120, backing_off_everybody_eats)
{
        dine_twice(PAWL_BACK_OFF, 0, false);
}

TEST_WITHIN(120, under_wait_die_everybody_eats)
{
        dine_twice(PAWL_WAIT_DIE, PAWL_CAN_AGE | PAWL_CAN_INSPECT, true);
}

TEST_WITHIN(120, under_wound_wait_everybody_eats)
{
        dine_twice(PAWL_WOUND_WAIT, PAWL_CAN_AGE | PAWL_CAN_INSPECT | PAWL_CAN_ASK, true);
}
