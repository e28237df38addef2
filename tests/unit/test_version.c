/* test_version.c - pawl_update where answers are lost: on a guard in memory, behind which the calls of the guard are
 * wrapped. A swap is done and said not to be, is not done, or is done later; and others come in between, some of which
 * write the same bytes. */
#include <pawl/version.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tap.h"

int __real_pawl_guard_swap_as(pawl_guard *guard, const char *resource, uint64_t expected, const void *data, size_t size,
                              const struct pawl_swap_options *options, uint64_t *version);
int __real_pawl_guard_look(pawl_guard *guard, const char *resource, struct pawl_why *why, struct pawl_guard_data *data);
int __wrap_pawl_guard_swap_as(pawl_guard *guard, const char *resource, uint64_t expected, const void *data, size_t size,
                              const struct pawl_swap_options *options, uint64_t *version);
int __wrap_pawl_guard_look(pawl_guard *guard, const char *resource, struct pawl_why *why, struct pawl_guard_data *data);

static pawl_guard *guard;
static unsigned done_and_lost; /* so many swaps are done, and their answers lost */
static unsigned lost;          /* so many requests are lost */
static unsigned late;          /* the next swap is done only when it is sent again */
static unsigned blind;         /* so many calls fail once a swap was lost */
static unsigned others;        /* so many changes of others follow a swap whose answer is lost */
static const char *their_text = "another's";
static unsigned swaps, calls;

static int fail(struct pawl_why *why, int code, const char *text)
{
        if (why) {
                why->code = code;
                snprintf(why->text, sizeof(why->text), "%s", text);
        }
        return code;
}

static int lose(struct pawl_why *why)
{
        return fail(why, PAWL_IN_DOUBT, "an answer was lost");
}

static void let_others_write(uint64_t version)
{
        for (; others > 0; others--, version++)
                CHECK_INT(pawl_guard_swap(guard, "r", version, their_text, strlen(their_text), NULL, NULL), PAWL_OK);
}

int __wrap_pawl_guard_swap_as(pawl_guard *asked, const char *resource, uint64_t expected, const void *data, size_t size,
                              const struct pawl_swap_options *options, uint64_t *version)
{
        const struct pawl_swap_options first = {.size = sizeof(first), .id = options->id};

        CHECK_UINT(options->flags, swaps == 0 || calls > 1 ? 0 : PAWL_SWAP_AGAIN);
        if (blind > 0 && swaps > 0) {
                blind--;
                return fail(options->why, PAWL_UNREACHABLE, "nobody answers");
        }
        swaps++;
        if (done_and_lost > 0) {
                done_and_lost--;
                CHECK_INT(__real_pawl_guard_swap_as(asked, resource, expected, data, size, options, NULL), PAWL_OK);
                let_others_write(expected + 1);
                return lose(options->why);
        }
        if (lost > 0) {
                lost--;
                let_others_write(expected);
                return lose(options->why);
        }
        if (late > 0 && swaps > 1) { /* what was kept back arrives before this one */
                late = 0;
                CHECK_INT(__real_pawl_guard_swap_as(asked, resource, expected, data, size, &first, NULL), PAWL_OK);
        } else if (late > 0)
                return lose(options->why);
        return __real_pawl_guard_swap_as(asked, resource, expected, data, size, options, version);
}

int __wrap_pawl_guard_look(pawl_guard *asked, const char *resource, struct pawl_why *why, struct pawl_guard_data *data)
{
        if (blind > 0 && swaps > 0) {
                blind--;
                return PAWL_UNREACHABLE;
        }
        return __real_pawl_guard_look(asked, resource, why, data);
}

/* Adds a letter for each time it is called on what stands there. */
static int add_letter(struct pawl_change *change, void *arg)
{
        char text[64];

        (void)arg;
        calls++;
        snprintf(text, sizeof(text), "%sx", change->old ? (const char *)change->old : "");
        return pawl_change_to(change, text, strlen(text));
}

static void open_memory(void)
{
        REQUIRE(pawl_guard_open("mem:", NULL, &guard) == PAWL_OK);
        REQUIRE(pawl_guard_swap(guard, "r", 0, "a", 1, NULL, NULL) == PAWL_OK);
}

static void check_end(const char *text, uint64_t version)
{
        struct pawl_guard_data data = {0};

        swaps = 0;
        REQUIRE(__real_pawl_guard_look(guard, "r", NULL, &data) == PAWL_OK);
        CHECK_STR(data.bytes, text);
        CHECK_UINT(data.token, version);
        free(data.bytes);
        pawl_guard_close(guard);
}

TEST(a_change_that_was_made_is_not_made_again_when_its_answer_is_lost)
{
        uint64_t version = 0;

        open_memory();
        done_and_lost = 1;
        CHECK_INT(pawl_update(guard, "r", add_letter, NULL, NULL, &version), PAWL_OK);
        CHECK_UINT(version, 2);
        CHECK_UINT(calls, 1);
        CHECK_UINT(swaps, 2);
        check_end("ax", 2);
}

TEST(a_change_that_was_not_made_is_sent_again_as_it_was)
{
        uint64_t version = 0;

        open_memory();
        lost = 3;
        CHECK_INT(pawl_update(guard, "r", add_letter, NULL, PAWL_UPDATE(.wait_ms = 60000), &version), PAWL_OK);
        CHECK_UINT(version, 2);
        CHECK_UINT(calls, 1);
        CHECK_UINT(swaps, 4);
        check_end("ax", 2);
}

/* The first request arrives just before the second, which finds its version. */
TEST(a_change_that_arrives_late_is_known_as_ours)
{
        uint64_t version = 0;

        open_memory();
        late = 1;
        CHECK_INT(pawl_update(guard, "r", add_letter, NULL, PAWL_UPDATE(.wait_ms = 60000), &version), PAWL_OK);
        CHECK_UINT(version, 2);
        CHECK_UINT(calls, 1);
        CHECK_UINT(swaps, 2);
        check_end("ax", 2);
}

TEST(a_change_whose_place_another_took_is_made_anew)
{
        uint64_t version = 0;

        open_memory();
        lost = 1;
        others = 1;
        CHECK_INT(pawl_update(guard, "r", add_letter, NULL, PAWL_UPDATE(.wait_ms = 60000), &version), PAWL_OK);
        CHECK_UINT(version, 3);
        CHECK_UINT(calls, 2);
        check_end("another'sx", 3);
}

/* The same bytes at the same version: whose they are, only the id tells. */
TEST(equal_bytes_of_another_are_not_taken_for_ours)
{
        uint64_t version = 0;

        open_memory();
        lost = 1;
        others = 1;
        their_text = "ax";
        CHECK_INT(pawl_update(guard, "r", add_letter, NULL, PAWL_UPDATE(.wait_ms = 60000), &version), PAWL_OK);
        CHECK_UINT(version, 3);
        CHECK_UINT(calls, 2);
        check_end("axx", 3);
}

TEST(where_others_have_written_over_it_nobody_knows)
{
        struct pawl_why why = {0};
        uint64_t version = 77;

        open_memory();
        done_and_lost = 1;
        others = 1;
        CHECK_INT(pawl_update(guard, "r", add_letter, NULL, PAWL_UPDATE(.why = &why), &version), PAWL_IN_DOUBT);
        CHECK_INT(why.code, PAWL_IN_DOUBT);
        CHECK_HAS(why.text, "whether \"r\" was changed is not known: an answer was lost");
        CHECK_UINT(version, 77);
        CHECK_UINT(calls, 1);
        check_end("another's", 3);
}

TEST(a_store_that_does_not_answer_is_asked_again_after_a_lost_answer)
{
        uint64_t version = 0;

        open_memory();
        done_and_lost = 1;
        blind = 3;
        CHECK_INT(pawl_update(guard, "r", add_letter, NULL, PAWL_UPDATE(.wait_ms = 60000), &version), PAWL_OK);
        CHECK_UINT(version, 2);
        check_end("ax", 2);
}

TEST(where_nothing_can_be_asked_in_time_it_is_in_doubt)
{
        open_memory();
        done_and_lost = 1;
        blind = 1000000;
        CHECK_INT(pawl_update(guard, "r", add_letter, NULL, PAWL_UPDATE(.wait_ms = 20), NULL), PAWL_IN_DOUBT);
        CHECK_UINT(calls, 1);
        check_end("ax", 2);
}

TEST(options_of_another_size_are_understood_or_refused)
{
        struct {
                struct pawl_update_options options;
                uint64_t newer;
        } longer = {.options = {.size = sizeof(longer)}};

        open_memory();
        CHECK_INT(pawl_update(guard, "r", add_letter, NULL, &longer.options, NULL), PAWL_OK);
        longer.newer = 1;
        CHECK_INT(pawl_update(guard, "r", add_letter, NULL, &longer.options, NULL), PAWL_UNSUPPORTED);
        CHECK_INT(pawl_update(guard, "r", add_letter, NULL, PAWL_UPDATE(.flags = 1), NULL), PAWL_UNSUPPORTED);
        CHECK_INT(pawl_update(guard, "r", add_letter, NULL, &(struct pawl_update_options){.size = 2}, NULL),
                  PAWL_INVALID);
        CHECK_INT(pawl_change_to(NULL, "x", 1), PAWL_INVALID);
        CHECK_UINT(calls, 1);
        check_end("ax", 2);
}
