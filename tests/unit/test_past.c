/* test_past.c - past owners: batches that read as they were written, and what is told of them. Memory may fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/session/past.h"
#include "tap.h"

/* ---- memory that fails -------------------------------------------------------------------------------------------- */

static long allocations_left = -1; /* -1: no end */

void *__real_malloc(size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *memory, size_t size);

static bool fails(void)
{
        if (allocations_left > 0)
                allocations_left--;
        return allocations_left == 0;
}

void *__wrap_malloc(size_t size)
{
        return fails() ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *memory, size_t size)
{
        return fails() ? NULL : __real_realloc(memory, size);
}

/* ---- one who asks ------------------------------------------------------------------------------------------------- */

static char told[4096];

static void on_entry(struct inquiry *inquiry, const struct pawl_entry *entry)
{
        size_t used = strlen(told);

        CHECK_UINT(entry->role, PAWL_ROLE_PAST);
        CHECK_STR(entry->name, inquiry->name);
        snprintf(told + used, sizeof(told) - used, "%llu:%u:%lld-%lld:%s:%s ", (unsigned long long)entry->token,
                 entry->how, (long long)entry->since_ms, (long long)entry->until_ms, entry->owner, entry->note);
        used = strlen(told);
        if (*entry->broken_by || *entry->reason)
                snprintf(told + used, sizeof(told) - used, "(by %s: %s) ", entry->broken_by, entry->reason);
}

static bool holds_nothing(void *arg, uint64_t token)
{
        (void)arg;
        (void)token;
        return false;
}

static bool holds_this(void *arg, uint64_t token)
{
        return *(uint64_t *)arg == token;
}

static const char *tell(struct past_view *view, bool (*holds)(void *, uint64_t), void *arg)
{
        struct inquiry inquiry = {.name = "job", .entry = on_entry};

        told[0] = '\0';
        past_tell(view, &inquiry, holds, arg, 9000);
        CHECK(view->count == 0 && !view->lines);
        return told;
}

static struct past_line line(uint64_t token, uint32_t how, int64_t since, int64_t until)
{
        return (struct past_line){.token = token,
                                  .how = how,
                                  .since_ms = since,
                                  .until_ms = until,
                                  .name = "job",
                                  .owner = "me",
                                  .note = "why"};
}

static void note(struct past *past, uint64_t token, uint32_t how, int64_t since, int64_t until)
{
        struct past_line one = line(token, how, since, until);

        past_note(past, &one);
}

static void read_text(struct past_view *view, const char *text)
{
        CHECK_INT(past_read(view, text, strlen(text), "job"), PAWL_OK);
}

static void read_back(struct past *past, struct past_view *view)
{
        size_t size;
        char *text = past_write(past, &size);

        REQUIRE(text != NULL);
        CHECK_INT(past_read(view, text, size, "job"), PAWL_OK);
        free(text);
}

/* ---- tests -------------------------------------------------------------------------------------------------------- */

TEST(a_batch_is_a_line_of_words_for_each)
{
        struct past past;
        size_t size;
        char *text;

        past_init(&past);
        note(&past, 5, 0, 1000, 0);
        note(&past, 6, PAWL_HOW_RELEASED, 2000, 3000);
        text = past_write(&past, &size);
        REQUIRE(text != NULL);
        CHECK_UINT(size, strlen("5 0 1000 0 0 0 job me why\n6 1 2000 3000 0 0 job me why\n"));
        CHECK_MEM(text, "5 0 1000 0 0 0 job me why\n6 1 2000 3000 0 0 job me why\n", size);
        free(text);
        CHECK_UINT(past.count, 0);
        CHECK_NULL(past_write(&past, &size));
        past_free(&past);
}

TEST(past_owners_are_told_the_latest_first)
{
        struct past_view view = {0};
        struct past past;

        past_init(&past);
        note(&past, 5, PAWL_HOW_RELEASED, 1000, 1500);
        note(&past, 7, PAWL_HOW_BROKEN, 3000, 3500);
        note(&past, 6, PAWL_HOW_DIED, 2000, 2500);
        read_back(&past, &view);
        CHECK_STR(tell(&view, holds_nothing, NULL), "7:4:3000-3500:me:why 6:3:2000-2500:me:why 5:1:1000-1500:me:why ");
        past_free(&past);
}

TEST(a_short_hold_is_one_line)
{
        struct past_view view = {0};
        struct past past;

        past_init(&past);
        note(&past, 5, 0, 1000, 0);
        note(&past, 5, PAWL_HOW_RELEASED, 1000, 1500);
        CHECK_UINT(past.count, 1);
        read_back(&past, &view);
        CHECK_STR(tell(&view, holds_nothing, NULL), "5:1:1000-1500:me:why ");
        past_free(&past);
}

TEST(who_broke_a_lock_has_the_last_word_on_how_it_ended)
{
        struct past_view view = {0};
        struct past past;

        past_init(&past);
        note(&past, 5, PAWL_HOW_BROKEN, 1000, 1500);
        note(&past, 5, PAWL_HOW_EXPIRED, 1000, 1600);
        note(&past, 5, 0, 1000, 0);
        read_back(&past, &view);
        CHECK_STR(tell(&view, holds_nothing, NULL), "5:4:1000-1500:me:why ");
        read_text(&view, "5 2 1000 1600 0 0 job me why\n");
        read_text(&view, "5 4 1000 1500 0 0 job me why\n5 0 1000 0 0 0 job me why\n");
        CHECK_STR(tell(&view, holds_nothing, NULL), "5:4:1000-1500:me:why ");
        past_free(&past);
}

TEST(a_batch_of_broken_holds_says_behind_them_who_broke_them_and_why)
{
        static const char expected[] = "5 4 1000 1500 0 0 job me why\nbroken the%20night it%20hangs\n";
        struct past_view view = {0};
        struct past past;
        size_t size;
        char *text;

        past_init(&past);
        CHECK_NULL(past_write_broken(&past, "the night", "it hangs", &size));
        note(&past, 5, PAWL_HOW_BROKEN, 1000, 1500);
        text = past_write_broken(&past, "the night", "it hangs", &size);
        REQUIRE(text != NULL);
        CHECK_UINT(size, strlen(expected));
        CHECK_MEM(text, expected, size);
        CHECK_INT(past_read(&view, text, size, "job"), PAWL_OK);
        free(text);
        read_text(&view, "6 4 2000 2500 0 0 job me why\n");
        read_text(&view, "7 1 3000 3500 0 0 job me why\n8 4 4000 4500 0 0 job me why\nbroken % %\n");
        CHECK_STR(tell(&view, holds_nothing, NULL),
                  "8:4:4000-4500:me:why 7:1:3000-3500:me:why 6:4:2000-2500:me:why 5:4:1000-1500:me:why "
                  "(by the night: it hangs) ");
        past_free(&past);
}

TEST(a_holder_that_writes_that_it_was_broken_does_not_know_by_whom)
{
        static const char *const batches[] = {"5 4 1000 1600 0 0 job me why\n",
                                              "5 4 1000 1500 0 0 job me why\nbroken you %\n"};

        for (size_t i = 0; i < 2; i++) {
                struct past_view view = {0};

                read_text(&view, batches[i]);
                read_text(&view, batches[1 - i]);
                CHECK_STR(tell(&view, holds_nothing, NULL), "5:4:1000-1500:me:why (by you: ) ");
        }
}

TEST(what_is_no_such_line_of_ours_is_passed_over)
{
        static const char *const foreign[] = {"broken",      "broken me",    "broken me why more",
                                              "broken  why", "brake me why", "broken m,e why"};

        for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
                struct past_view view = {0};
                char text[200];

                snprintf(text, sizeof(text), "6 4 2000 2500 0 0 job me why\n%s\n", foreign[i]);
                read_text(&view, text);
                if (!CHECK_STR(tell(&view, holds_nothing, NULL), "6:4:2000-2500:me:why "))
                        NOTE("%s", foreign[i]);
        }
}

TEST(a_hold_without_an_end_has_expired_when_the_next_began)
{
        struct past_view view = {0};

        read_text(&view, "5 0 1000 0 0 0 job me why\n6 0 2000 0 0 0 job me why\n");
        CHECK_STR(tell(&view, holds_nothing, NULL), "6:2:2000-9000:me:why 5:2:1000-2000:me:why ");
}

TEST(a_hold_that_goes_on_is_not_past)
{
        struct past_view view = {0};
        uint64_t token = 6;

        read_text(&view, "5 0 1000 0 0 0 job me why\n6 0 2000 0 0 0 job me why\n");
        CHECK_STR(tell(&view, holds_this, &token), "5:2:1000-2000:me:why ");
}

TEST(no_hold_ends_before_it_begins)
{
        struct past_view view = {0};

        read_text(&view, "5 1 1000 900 0 0 job me why\n6 0 99000 0 0 0 job me why\n");
        CHECK_STR(tell(&view, holds_nothing, NULL), "6:2:99000-99000:me:why 5:1:1000-1000:me:why ");
}

TEST(only_the_lines_of_the_name_are_taken)
{
        struct past_view view = {0};

        CHECK_INT(past_read(&view, NULL, 0, "job"), PAWL_OK);
        read_text(&view, "5 1 1000 2000 0 0 jobs me why\n6 1 2000 3000 0 0 job a%20b %\n7 1 1 2 0 0 jo % %\n");
        CHECK_STR(tell(&view, holds_nothing, NULL), "6:1:2000-3000:a b: ");
}

TEST(what_is_no_line_of_ours_is_passed_over)
{
        static const char *const foreign[] = {"",
                                              "\n",
                                              "5",
                                              "5 1 1000 1500 0 0 job me",
                                              "5 1 1000 1500 0 0 job me why more",
                                              "5 5 1000 1500 0 0 job me why",
                                              "5 9 1000 1500 0 0 job me why",
                                              "5 1 1000 1500 2 0 job me why",
                                              "5 1 1000 1500 7 0 job me why",
                                              "5 1 -1000 1500 0 0 job me why",
                                              "9223372036854775808 1 1000 1500 0 0 job me why",
                                              "5 1 1000 1500 0 4294967296 job me why",
                                              "0 1 1000 1500 0 0 job me why"};

        for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
                struct past_view view = {0};
                char text[200];

                snprintf(text, sizeof(text), "%s\n6 1 2000 2500 0 0 job me why", foreign[i]);
                read_text(&view, text);
                if (!CHECK_STR(tell(&view, holds_nothing, NULL), "6:1:2000-2500:me:why "))
                        NOTE("%s", foreign[i]);
        }
}

TEST(of_a_client_that_cannot_write_the_oldest_lines_are_forgotten)
{
        struct past_view view = {0};
        struct past past;

        past_init(&past);
        for (uint64_t token = 1; token <= PAST_LINES + 3; token++)
                note(&past, token, PAWL_HOW_RELEASED, 1, 2);
        CHECK_UINT(past.count, PAST_LINES);
        read_back(&past, &view);
        CHECK_UINT(view.count, PAST_LINES);
        tell(&view, holds_nothing, NULL);
        CHECK(strstr(told, " 4:1:") && !strstr(told, " 3:1:"));
        past_free(&past);
}

TEST(a_batch_longer_than_ours_takes_no_more_memory_than_one_of_ours)
{
        struct past_view view = {0};
        char text[PAST_LINES * 64];
        size_t size = 0;

        while (size < sizeof(text) - 64)
                size += (size_t)snprintf(text + size, 64, "%zu 1 1 2 0 0 job %% %%\n", size + 1);
        CHECK_INT(past_read(&view, text, size, "job"), PAWL_OK);
        CHECK_UINT(view.count, PAST_LINES);
        past_view_free(&view);
}

static size_t by_longest;

static void count_longest(struct inquiry *inquiry, const struct pawl_entry *entry)
{
        (void)inquiry;
        by_longest += strlen(entry->broken_by) == PAWL_OWNER_MAX && strlen(entry->reason) == PAWL_BREAK_REASON_MAX;
}

TEST(the_longest_texts_fit_in_a_line)
{
        struct past_view view = {0};
        struct past past;
        char name[PAWL_NAME_MAX + 1], owner[PAWL_OWNER_MAX + 1], reason[PAWL_NOTE_MAX + 1];
        char breaker[PAWL_BREAK_REASON_MAX + 1];
        struct inquiry inquiry = {.name = name, .entry = count_longest};
        struct past_line longest = {.token = INT64_MAX,
                                    .how = PAWL_HOW_BROKEN,
                                    .since_ms = INT64_MAX,
                                    .until_ms = INT64_MAX,
                                    .mode = PAWL_SHARED,
                                    .limit = UINT32_MAX,
                                    .name = name,
                                    .owner = owner,
                                    .note = reason};
        size_t size;
        char *text;

        memset(name, '/', sizeof(name));
        memset(owner, '\xff', sizeof(owner));
        memset(reason, ' ', sizeof(reason));
        name[PAWL_NAME_MAX] = owner[PAWL_OWNER_MAX] = reason[PAWL_NOTE_MAX] = '\0';
        past_init(&past);
        for (uint64_t i = 0; i < PAST_LINES; i++, longest.token--)
                past_note(&past, &longest);
        memset(breaker, '\xff', sizeof(breaker));
        breaker[PAWL_BREAK_REASON_MAX] = '\0';
        text = past_write_broken(&past, owner, breaker, &size);
        REQUIRE(text != NULL);
        CHECK(size <= PAST_BATCH_MAX);
        CHECK_INT(past_read(&view, text, size, name), PAWL_OK);
        CHECK_UINT(view.count, PAST_LINES);
        past_tell(&view, &inquiry, holds_nothing, NULL, 0);
        CHECK_UINT(by_longest, PAST_LINES);
        free(text);
        past_free(&past);
}

TEST(a_past_that_was_never_begun_can_be_freed)
{
        struct past past = {0};

        past_free(&past);
        CHECK_UINT(past.count, 0);
}

TEST(without_memory_a_line_is_forgotten_and_a_batch_waits)
{
        struct past past;
        size_t size = 1;
        char *text;

        past_init(&past);
        note(&past, 5, PAWL_HOW_RELEASED, 1, 2);
        allocations_left = 0;
        note(&past, 6, PAWL_HOW_RELEASED, 1, 2);
        CHECK_UINT(past.count, 1);
        CHECK_NULL(past_write(&past, &size));
        CHECK_UINT(size, 0);
        allocations_left = -1;
        text = past_write(&past, &size);
        CHECK(text && size == strlen("5 1 1 2 0 0 job me why\n"));
        free(text);
        past_free(&past);
}

TEST(a_view_without_memory_says_so_and_can_be_freed)
{
        char text[PAST_LINES * 64];
        size_t size = 0;
        int code = PAWL_NO_MEMORY;

        for (uint32_t i = 1; i <= PAST_LINES; i++)
                size += (size_t)snprintf(text + size, 64, "%u 1 1 2 0 0 job %% %%\n", i);
        for (long attempt = 1; code == PAWL_NO_MEMORY && CHECK(attempt < 1000); attempt++) {
                struct past_view view = {0};

                allocations_left = attempt;
                code = past_read(&view, text, size, "job");
                allocations_left = -1;
                CHECK(view.count == (code == PAWL_OK ? PAST_LINES : view.count));
                past_view_free(&view);
        }
        CHECK_INT(code, PAWL_OK);
}
