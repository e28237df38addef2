/* election_test.c - one leader, its epoch and its value, those who watch, and a crowd of candidates that are killed and
 * stopped. */
#include "contract.h"

#include <inttypes.h>
#include <pawl/election.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static bool leader_is(pawl_client *client, const char *name, uint64_t epoch, const char *value)
{
        struct pawl_leader leader;
        bool same;

        if (pawl_leader(client, name, NULL, &leader) != PAWL_OK)
                return false;
        same = leader.epoch == epoch && leader.value_size == strlen(value) &&
               (!*value || !memcmp(leader.value, value, leader.value_size + 1));
        pawl_leader_free(&leader);
        return same;
}

TEST(who_is_elected_leads_and_others_see_it)
{
        const char *place = fresh_place();
        pawl_client *one = join_with(place, (struct pawl_open_options){.owner = "number one"}), *two = join(place);
        pawl_election *first, *second;
        struct pawl_leader leader;

        MUST(pawl_campaign(one, "boss", PAWL_ELECTION(.note = "a note"), &first));
        CHECK_CODE(pawl_leads(first), PAWL_OK);
        CHECK_COMPARE(pawl_epoch(first), >, 0);
        CHECK_COMPARE(pawl_leads_ms(first), >, 0);
        CHECK_CODE(pawl_campaign(two, "boss", PAWL_ELECTION(.wait_ms = PAWL_NO_WAIT), &second), PAWL_BUSY);
        if (pawl_capabilities(two) & PAWL_CAN_INSPECT) {
                MUST(pawl_leader(two, "boss", NULL, &leader));
                CHECK_STR(leader.owner, "number one");
                CHECK_STR(leader.note, "a note");
                CHECK_UINT(leader.epoch, pawl_epoch(first));
                CHECK(!leader.value);
                pawl_leader_free(&leader);
        }
        uint64_t before = pawl_epoch(first);
        CHECK_CODE(pawl_resign(first), PAWL_OK);
        MUST(pawl_campaign(two, "boss", PAWL_ELECTION(.wait_ms = PATIENCE), &second));
        CHECK_COMPARE(pawl_epoch(second), >, before);
        CHECK_CODE(pawl_resign(second), PAWL_OK);
        NEEDS(two, PAWL_CAN_INSPECT);
        CHECK_CODE(pawl_leader(two, "boss", NULL, &leader), PAWL_NOT_FOUND);
}

TEST(the_value_is_the_leaders_and_goes_with_it)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_election *election;
        struct pawl_value value;

        if (!(pawl_capabilities(one) & PAWL_CAN_KEEP)) {
                CHECK_CODE(pawl_campaign(one, "boss", PAWL_ELECTION(.value = "x", .value_size = 1), &election),
                           PAWL_UNSUPPORTED);
                return;
        }
        NEEDS(one, PAWL_CAN_INSPECT);
        MUST(pawl_campaign(one, "boss", PAWL_ELECTION(.value = "here", .value_size = 4), &election));
        CHECK(leader_is(two, "boss", pawl_epoch(election), "here"));
        MUST(pawl_publish(election, "there", 5));
        CHECK(leader_is(two, "boss", pawl_epoch(election), "there"));
        MUST(pawl_publish(election, NULL, 0));
        CHECK(leader_is(two, "boss", pawl_epoch(election), ""));
        MUST(pawl_publish(election, "again", 5));
        CHECK_CODE(pawl_resign(election), PAWL_OK);
        CHECK_CODE(pawl_fetch(two, "boss", &value), PAWL_NOT_FOUND);
}

TEST(the_value_of_a_leader_that_died_is_not_the_next_ones)
{
        const char *place = fresh_place();
        pawl_client *one = join(place);
        struct peer *peer = start_peer(place);
        pawl_election *election;

        NEEDS(one, PAWL_CAN_KEEP | PAWL_CAN_INSPECT);
        REQUIRE_CODE(ask_peer(peer, "acquire boss 0 500"), PAWL_OK);
        REQUIRE_CODE(ask_peer(peer, "store late"), PAWL_OK);
        CHECK(leader_is(one, "boss", peer_token(peer), "late"));
        kill_peer(peer);
        MUST(pawl_campaign(one, "boss", PAWL_ELECTION(.wait_ms = PATIENCE), &election));
        CHECK(leader_is(one, "boss", pawl_epoch(election), ""));
        CHECK_CODE(pawl_resign(election), PAWL_OK);
}

static atomic_int demoted, demoted_reason, elected;

static void on_demoted(pawl_election *election, int reason, void *arg)
{
        (void)election, (void)arg;
        atomic_store(&demoted_reason, reason);
        atomic_fetch_add(&demoted, 1);
}

static void on_elected(pawl_election *election, int status, void *arg)
{
        (void)election, (void)arg;
        atomic_fetch_add(&elected, status == PAWL_OK ? 1 : 1000);
}

static void *campaign(void *arg)
{
        static atomic_int code;
        pawl_election *election;
        struct pawl_why why = {0};

        atomic_store(&code, pawl_campaign(arg, "boss", PAWL_ELECTION(.why = &why), &election));
        return why.code == atomic_load(&code) ? &code : NULL;
}

TEST(a_campaign_ends_when_its_client_is_closed)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_election *election;
        pthread_t thread;
        void *code;

        if (caller_drives())
                SKIP("the client has a loop of its own");
        MUST(pawl_campaign(one, "boss", NULL, &election));
        REQUIRE_INT(pthread_create(&thread, NULL, campaign, two), 0);
        nap(200);
        CHECK_CODE(leave(two), PAWL_OK);
        REQUIRE_INT(pthread_join(thread, &code), 0);
        REQUIRE(code);
        CHECK_CODE(atomic_load((atomic_int *)code), PAWL_CANCELLED);
        CHECK_CODE(pawl_resign(election), PAWL_OK);
}

static pawl_election *candidate;
static atomic_int told_after;

static void after_the_end(pawl_election *election, int status, void *arg)
{
        (void)arg;
        CHECK(election == candidate);
        CHECK_CODE(status, PAWL_CANCELLED);
        CHECK_CODE(pawl_leads(election), PAWL_MISUSE);
        CHECK_UINT(pawl_epoch(election), 0);
        atomic_fetch_add(&told_after, 1);
}

/* Another lock's callback: here pawl_resign cannot wait for what is still to be told. */
static void resign_in_callback(pawl_lock *lock, int status, void *arg)
{
        (void)lock, (void)status;
        pawl_resign(candidate);
        atomic_fetch_add((atomic_int *)arg, 1);
}

TEST(who_has_resigned_in_a_callback_is_told_what_became_of_it)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        static atomic_int resigned;
        pawl_election *election;
        pawl_lock *other;

        MUST(pawl_campaign(one, "boss", NULL, &election));
        MUST(pawl_campaign_async(two, "boss", NULL, after_the_end, NULL, &candidate));
        MUST(pawl_acquire_async(two, "other", NULL, resign_in_callback, &resigned, &other));
        CHECK(SOON(atomic_load(&resigned) == 1));
        CHECK_CODE(pawl_resign(election), PAWL_OK);
        CHECK_CODE(pawl_release(other), PAWL_OK);
        CHECK_CODE(leave(two), PAWL_OK);
        CHECK_INT(atomic_load(&told_after), 1);
}

TEST(a_leader_that_is_deposed_hears_it_and_publishes_nothing)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_election *election, *next;

        NEEDS(one, PAWL_CAN_BREAK);
        MUST(pawl_campaign(one, "boss", PAWL_ELECTION(.on_demoted = on_demoted), &election));
        CHECK_CODE(break_it(two, "boss"), PAWL_OK);
        MUST(pawl_campaign(two, "boss", PAWL_ELECTION(.wait_ms = PATIENCE), &next));
        CHECK(SOON(atomic_load(&demoted) == 1));
        CHECK_CODE(pawl_leads(election), PAWL_LOST);
        if (pawl_capabilities(one) & PAWL_CAN_KEEP)
                CHECK_CODE(pawl_publish(election, "late", 4), PAWL_LOST);
        CHECK_COMPARE(pawl_epoch(next), >, pawl_epoch(election));
        CHECK_CODE(pawl_resign(election), PAWL_LOST);
        CHECK_CODE(pawl_resign(next), PAWL_OK);
}

TEST(a_candidate_behind_our_back_is_called_and_may_withdraw)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        pawl_election *first, *second, *third;

        MUST(pawl_campaign(one, "boss", NULL, &first));
        MUST(pawl_campaign_async(two, "boss", NULL, on_elected, NULL, &second));
        CHECK_CODE(pawl_leads(second), PAWL_MISUSE);
        CHECK_UINT(pawl_epoch(second), 0);
        MUST(pawl_campaign_async(two, "boss", NULL, on_elected, NULL, &third));
        CHECK_CODE(pawl_resign(third), PAWL_CANCELLED);
        CHECK_CODE(pawl_resign(first), PAWL_OK);
        CHECK(SOON(pawl_leads(second) == PAWL_OK));
        CHECK(SOON(atomic_load(&elected) % 1000 == 1));
        CHECK_CODE(pawl_resign(second), PAWL_OK);
}

struct news {
        int told;
        uint64_t epochs[8];
};

static int note_news(const struct pawl_leader *leader, void *arg)
{
        struct news *news = arg;

        news->epochs[news->told++ % 8] = leader ? leader->epoch : 0;
        return news->told == 3;
}

static void *reign_twice(void *arg)
{
        pawl_election *election;

        for (int i = 0; i < 2; i++) {
                nap(400);
                MUST(pawl_campaign(arg, "boss", NULL, &election));
                nap(400);
                CHECK_CODE(pawl_resign(election), PAWL_OK);
        }
        return NULL;
}

TEST(who_observes_is_told_when_the_leader_changes)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two = join(place);
        struct news news = {0};
        pthread_t thread;

        NEEDS(one, PAWL_CAN_INSPECT);
        CHECK_CODE(pawl_observe(two, "boss", PAWL_OBSERVE(.wait_ms = 50, .every_ms = 10), note_news, &news),
                   PAWL_TIMEOUT);
        CHECK_INT(news.told, 1);
        CHECK_UINT(news.epochs[0], 0);
        news.told = 0;
        REQUIRE_INT(pthread_create(&thread, NULL, reign_twice, one), 0);
        MUST(pawl_observe(two, "boss", PAWL_OBSERVE(.wait_ms = PATIENCE, .every_ms = 10), note_news, &news));
        CHECK(news.epochs[0] != news.epochs[1] && news.epochs[1] != news.epochs[2]);
        pthread_join(thread, NULL);
}

/* ---- a crowd ----------------------------------------------------------------------------------------------------- */

enum { CANDIDATES = 20, TERMS_MAX = 4096 };
static int lease_ms = 1000;

/* One term of one leader, as it saw it: it led from first to last at least. */
struct term {
        uint64_t epoch;
        int64_t first_ns, last_ns;
};

struct history {
        atomic_int terms;
        atomic_int errors;
        atomic_bool over;
        struct term term[TERMS_MAX];
};

static int64_t now_ns(void)
{
        struct timespec ts;

        clock_gettime(CLOCK_BOOTTIME, &ts);
        return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* The clock is read on the safe side of each look: after the first, before the others. */
static void rule(pawl_election *election, struct history *history)
{
        int number = atomic_fetch_add(&history->terms, 1);
        struct term *term = &history->term[number % TERMS_MAX];

        term->epoch = pawl_epoch(election);
        if (pawl_leads(election) != PAWL_OK)
                return;
        term->first_ns = term->last_ns = now_ns();
        for (int i = 0; i < 400 && !atomic_load(&history->over); i++) {
                int64_t before = now_ns();

                if (pawl_leads(election) != PAWL_OK)
                        return;
                term->last_ns = before;
                nap(2);
        }
}

static _Noreturn void be_candidate(const char *place, struct history *history)
{
        pawl_client *client;
        pawl_election *election;

        alarm(240);
        if (pawl_open(place, NULL, &client) != PAWL_OK)
                _exit(2);
        while (!atomic_load(&history->over)) {
                int code = pawl_campaign(client, "boss", PAWL_ELECTION(.ttl_ms = lease_ms, .wait_ms = 2000), &election);

                if (code == PAWL_OK) {
                        rule(election, history);
                        pawl_resign(election);
                } else if (code != PAWL_TIMEOUT && code != PAWL_LOST && code != PAWL_UNREACHABLE &&
                           code != PAWL_NO_QUORUM) {
                        atomic_fetch_add(&history->errors, 1);
                }
        }
        pawl_close(client);
        _exit(0);
}

static pid_t start_candidate(const char *place, struct history *history)
{
        pid_t pid = fork();

        if (pid == 0)
                be_candidate(place, history);
        REQUIRE_COMPARE(pid, >, 0);
        return pid;
}

/* One at a time is killed and replaced, or stopped for up to three leases. How long this machine let us sleep too long,
 * at most. */
static int64_t make_trouble(const char *place, struct history *history, pid_t *pids, int64_t until, int *kills,
                            int *stops)
{
        int64_t late = 0;
        unsigned seed = (unsigned)getpid();

        while (now_ms() < until) {
                int64_t before = now_ms(), pause = 200 + rand_r(&seed) % 400;
                pid_t *victim = &pids[rand_r(&seed) % CANDIDATES];

                nap(pause);
                if (now_ms() - before - pause > late)
                        late = now_ms() - before - pause;
                if (rand_r(&seed) % 2) {
                        kill(*victim, SIGKILL);
                        waitpid(*victim, NULL, 0);
                        *victim = start_candidate(place, history);
                        ++*kills;
                } else {
                        kill(*victim, SIGSTOP);
                        nap(200 + rand_r(&seed) % (3 * lease_ms));
                        kill(*victim, SIGCONT);
                        ++*stops;
                }
        }
        return late;
}

static int by_epoch(const void *one, const void *other)
{
        const struct term *a = one, *b = other;

        return (a->epoch > b->epoch) - (a->epoch < b->epoch);
}

/* In the order of epochs nobody leads before the one before has ceased to. The longest time without a leader. */
static int64_t check_terms(struct term *terms, int count)
{
        int64_t ended = 0, longest = 0;

        qsort(terms, (size_t)count, sizeof *terms, by_epoch);
        for (int i = 0; i < count; i++) {
                if (i && !CHECK_COMPARE(terms[i].epoch, >, terms[i - 1].epoch))
                        break;
                if (!terms[i].first_ns) /* lost before it looked */
                        continue;
                if (!CHECK_COMPARE(terms[i].first_ns, >=, ended))
                        NOTE("epoch %" PRIu64 " began %lld us before the one before had ended", terms[i].epoch,
                             (long long)(ended - terms[i].first_ns) / 1000);
                if (ended && terms[i].first_ns - ended > longest)
                        longest = terms[i].first_ns - ended;
                if (terms[i].last_ns > ended)
                        ended = terms[i].last_ns;
        }
        return longest / 1000000;
}

TEST_WITHIN(300, twenty_candidates_are_killed_and_stopped_and_never_two_lead)
{
        const char *place = fresh_place(), *seconds = getenv("PAWL_TEST_SECONDS");
        struct history *history =
                mmap(NULL, sizeof *history, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        int kills = 0, stops = 0, count;
        int64_t late, longest;
        pid_t pids[CANDIDATES];

        REQUIRE(history != MAP_FAILED);
        if (getenv("PAWL_TEST_LEASE_MS"))
                lease_ms = atoi(getenv("PAWL_TEST_LEASE_MS"));
        for (int i = 0; i < CANDIDATES; i++)
                pids[i] = start_candidate(place, history);
        REQUIRE(SOON(atomic_load(&history->terms) > 0));
        late = make_trouble(place, history, pids, now_ms() + 1000 * (seconds ? atoi(seconds) : 8), &kills, &stops);
        atomic_store(&history->over, true);
        for (int i = 0; i < CANDIDATES; i++) {
                int status = 0;

                REQUIRE_INT(waitpid(pids[i], &status, 0), pids[i]);
                CHECK_INT(status, 0);
        }
        count = atomic_load(&history->terms);
        CHECK(count > 1 && count <= TERMS_MAX);
        longest = check_terms(history->term, count < TERMS_MAX ? count : TERMS_MAX);
        NOTE("%d terms, %d candidates killed, %d stopped; the longest time without a leader %lld ms (lease %d ms; this "
             "machine "
             "let us sleep %lld ms too long)",
             count, kills, stops, (long long)longest, lease_ms, (long long)late);
        CHECK_INT(atomic_load(&history->errors), 0);
}
