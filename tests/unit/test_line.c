/* test_line.c - the rule of the line: by example, and for every line of up to six contenders in every order of arrivals,
 * grants and ends. */
#include <stdlib.h>
#include <string.h>

#include "engine/session/line.h"
#include "tap.h"

/* A line in letters: x exclusive, s shared, 1 to 9 shared and at most so many. */
static size_t stand(const char *letters, struct contender *line)
{
        size_t count = strlen(letters);

        for (size_t i = 0; i < count; i++) {
                line[i] = (struct contender){.order = i, .shared = letters[i] != 'x'};
                if (letters[i] >= '1' && letters[i] <= '9')
                        line[i].limit = (uint32_t)(letters[i] - '0');
        }
        return count;
}

/* The last letter is the claim. */
static struct verdict judge(const char *letters)
{
        struct contender line[32] = {0};
        struct verdict verdict;
        size_t count = stand(letters, line);

        line_judge(line, count - 1, &line[count - 1], &verdict);
        return verdict;
}

static void check_granted(const char *letters)
{
        struct verdict verdict = judge(letters);

        if (!CHECK(verdict.granted && verdict.next && verdict.wait_for == LINE_NOBODY))
                NOTE("%s", letters);
}

static void check_waits(const char *letters, long wait_for, bool proven)
{
        struct verdict verdict = judge(letters);

        if (!CHECK(!verdict.granted) || !CHECK_INT(verdict.wait_for, wait_for) || !CHECK_INT(verdict.proven, proven))
                NOTE("%s", letters);
}

TEST(an_exclusive_claim_holds_if_nobody_is_before_it_and_else_waits_for_the_last)
{
        check_granted("x");
        check_waits("xx", 0, true);
        check_waits("sx", 0, true);
        check_waits("xxx", 1, false);
        check_waits("ssx", 1, false);
}

TEST(a_shared_claim_waits_for_the_last_exclusive_one_before_it)
{
        check_granted("ssss");
        check_waits("xs", 0, true);
        check_waits("xsss", 0, true);
        check_waits("ssxs", 2, true);
        check_waits("xsxs", 2, false);
        check_waits("x11s", 0, false);
}

TEST(a_limited_claim_holds_if_fewer_are_before_it_and_else_waits_for_any_of_them)
{
        check_granted("1");
        check_granted("333");
        check_waits("3333", LINE_ANYBODY, true);
        check_waits("33333", LINE_ANYBODY, false);
        check_waits("x22", 0, true);
        check_waits("x222", 0, false);
}

TEST(of_different_limits_the_least_holds)
{
        check_waits("1s", LINE_ANYBODY, true);
        check_waits("2s9", LINE_ANYBODY, true);
        check_waits("ss2", LINE_ANYBODY, true);
        check_waits("sss2", LINE_ANYBODY, false);
        check_granted("9s3");
}

TEST(nobody_overtakes_who_waits)
{
        check_waits("sxs", 1, true);
        check_waits("1s1", LINE_ANYBODY, false);
        check_waits("s1s", LINE_ANYBODY, false);
        CHECK(!judge("s1s").next);
        CHECK(judge("s1").next);
}

TEST(those_who_hold_are_the_first_of_the_line)
{
        static const struct {
                const char *letters;
                size_t holding;
        } lines[] = {{"", 0}, {"x", 1}, {"xs", 1}, {"ssxs", 2}, {"222", 2}, {"s2s", 2}, {"sss", 3}, {"1x", 1}};
        struct contender line[32];

        for (size_t i = 0; i < sizeof(lines) / sizeof(*lines); i++)
                CHECK_UINT(line_holding(line, stand(lines[i].letters, line)), lines[i].holding);
}

TEST(contenders_are_sorted_by_the_order_of_the_store)
{
        struct contender line[] = {{.order = UINT64_MAX}, {.order = 5}, {.order = 0}, {.order = 5}};

        qsort(line, 4, sizeof(line[0]), line_compare);
        CHECK(line[0].order == 0 && line[1].order == 5 && line[2].order == 5 && line[3].order == UINT64_MAX);
}

/* ---- every line in every order ------------------------------------------------------------------------------------ */

/* Up to six stand in a line. Anybody may come, and anybody may go at any time. Each knows what it saw when it last
 * looked, and looks again only when what it waits for has ended. All that can come of it, however long it goes on, is
 * gone through. */
enum { MOST = 6 };
static const char kinds[] = "xs123";

enum state { NEWS, WAITS, HOLDS }; /* NEWS: it has come, or what it waited for has ended, and it has yet to look */

struct person {
        struct contender is;
        uint8_t kind;
        uint8_t state;
        bool proven;
        int8_t wait_for;
};

struct world {
        struct person line[MOST];
        size_t count;
};

/* A world in a word that is not 0: 9 bits for each, and how many there are. */
static uint64_t pack(const struct world *world)
{
        uint64_t word = world->count + 1;

        for (size_t i = 0; i < world->count; i++) {
                const struct person *person = &world->line[i];
                word = word << 9 | (uint64_t)person->kind << 6 | (uint64_t)person->state << 4;
                if (person->state == WAITS)
                        word |= (uint64_t)person->proven << 3 | (uint64_t)(person->wait_for + 2);
        }
        return word;
}

static struct person arrival(size_t kind)
{
        return (struct person){
                .kind = (uint8_t)kind,
                .is = {.shared = kinds[kind] != 'x', .limit = kinds[kind] > '9' ? 0 : (uint32_t)(kinds[kind] - '0')}};
}

static void unpack(uint64_t word, struct world *world)
{
        size_t count = 0;

        while (word >> 9 * count >= 8)
                count++;
        world->count = count;
        for (size_t i = count; i > 0; i--, word >>= 9) {
                world->line[i - 1] = arrival(word >> 6 & 7);
                world->line[i - 1].state = word >> 4 & 3;
                world->line[i - 1].proven = word >> 3 & 1;
                world->line[i - 1].wait_for = (int8_t)((int)(word & 7) - 2);
        }
}

/* Worlds that were met; those behind done are still to be looked at. */
static struct {
        uint64_t *set, *list;
        size_t room, count, done;
} met;

static uint64_t *place_of(uint64_t word)
{
        size_t at = (size_t)(word * UINT64_C(0x9e3779b97f4a7c15) >> 20) % met.room;

        while (met.set[at] != 0 && met.set[at] != word)
                at = (at + 1) % met.room;
        return &met.set[at];
}

static void meet(const struct world *world)
{
        uint64_t word = pack(world);
        uint64_t *place = place_of(word);

        if (*place != 0)
                return;
        REQUIRE(met.count < met.room / 2);
        *place = word;
        met.list[met.count++] = word;
}

/* The rule again, told in other words: nobody, or those who share and fit in together. */
static bool may_hold(const struct world *world, size_t who)
{
        uint32_t limit = UINT32_MAX;
        bool exclusive = false;

        for (size_t i = 0; i <= who; i++) {
                const struct contender *is = &world->line[i].is;
                exclusive = exclusive || !is->shared;
                limit = is->limit && is->limit < limit ? is->limit : limit;
        }
        return who == 0 || (!exclusive && who < limit);
}

/* Who is not next in a full lock waits only for the one before it, until that holds or is gone. */
static bool patient;

static bool waits_patiently(const struct world *world, size_t who)
{
        const struct person *person = &world->line[who];

        return person->state == WAITS && person->wait_for >= 0 && person->is.shared &&
               world->line[person->wait_for].is.shared;
}

static void hold(struct world *world, size_t who)
{
        world->line[who].state = HOLDS;
        if (who + 1 < world->count && waits_patiently(world, who + 1))
                world->line[who + 1].state = NEWS;
}

static void look(struct world *world, size_t who)
{
        struct contender earlier[MOST];
        struct person *person = &world->line[who];
        struct verdict verdict;

        for (size_t i = 0; i < who; i++)
                earlier[i] = world->line[i].is;
        line_judge(earlier, who, &person->is, &verdict);
        REQUIRE(verdict.granted == may_hold(world, who));
        REQUIRE(verdict.next == (who == 0 || may_hold(world, who - 1)));
        REQUIRE(verdict.granted == (verdict.wait_for == LINE_NOBODY) && verdict.wait_for < (long)who);
        person->state = WAITS;
        person->proven = verdict.proven;
        person->wait_for = (int8_t)verdict.wait_for;
        if (patient && verdict.wait_for == LINE_ANYBODY && !verdict.next)
                person->wait_for = (int8_t)(who - 1);
        if (verdict.granted)
                hold(world, who);
}

static void leave(struct world *world, size_t who)
{
        memmove(&world->line[who], &world->line[who + 1], (--world->count - who) * sizeof(world->line[0]));
        for (size_t i = who; i < world->count; i++) {
                struct person *person = &world->line[i];
                bool ended = person->wait_for == LINE_ANYBODY || person->wait_for == (int8_t)who;
                if (person->state != WAITS)
                        continue;
                if (person->wait_for > (int8_t)who)
                        person->wait_for--;
                if (ended && person->proven)
                        hold(world, i);
                else if (ended)
                        person->state = NEWS;
        }
}

static void check(const struct world *world)
{
        size_t holders = 0;
        uint32_t limit = UINT32_MAX;
        bool exclusive = false;

        for (size_t i = 0; i < world->count; i++) {
                const struct person *person = &world->line[i];
                if (person->state == WAITS && may_hold(world, i)) /* who would tell it? */
                        REQUIRE(waits_patiently(world, i) && world->line[i - 1].state != HOLDS);
                if (person->state != HOLDS)
                        continue;
                REQUIRE(may_hold(world, i));
                holders++;
                exclusive = exclusive || !person->is.shared;
                limit = person->is.limit && person->is.limit < limit ? person->is.limit : limit;
        }
        REQUIRE(!exclusive || holders == 1);
        REQUIRE(holders <= limit);
}

/* All that can happen next. */
static void go_on(const struct world *world)
{
        struct world next;

        for (size_t kind = 0; world->count < MOST && kinds[kind]; kind++) {
                next = *world;
                next.line[next.count++] = arrival(kind);
                meet(&next);
        }
        for (size_t who = 0; who < world->count; who++) {
                next = *world;
                leave(&next, who);
                meet(&next);
                if (world->line[who].state != NEWS)
                        continue;
                next = *world;
                look(&next, who);
                meet(&next);
        }
}

static void go_through_all(void)
{
        struct world world = {.count = 0};

        met.room = 1 << 23;
        met.set = calloc(met.room, sizeof(met.set[0]));
        met.list = calloc(met.room / 2, sizeof(met.list[0]));
        REQUIRE(met.set && met.list);
        meet(&world);
        while (met.done < met.count) {
                unpack(met.list[met.done++], &world);
                check(&world);
                go_on(&world);
        }
        NOTE("%zu lines", met.count);
        free(met.set);
        free(met.list);
}

TEST_WITHIN(300, every_line_of_up_to_six_is_served_in_order_whoever_comes_and_goes)
{
        go_through_all();
}

TEST_WITHIN(300, who_is_not_next_in_a_full_lock_need_not_look_before_the_one_before_it_holds_or_is_gone)
{
        patient = true;
        go_through_all();
}
