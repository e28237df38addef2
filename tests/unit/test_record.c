/* test_record.c - what a claim says of itself: read as it was written, and nothing else is taken for it. */
#include <stdio.h>
#include <string.h>

#include "engine/session/record.h"
#include "tap.h"

static struct claim example(void)
{
        return (struct claim){.ttl = 10 * SECOND,
                              .delay = 5 * SECOND,
                              .age = 7,
                              .mode = PAWL_SHARED,
                              .max_holders = 3,
                              .note = "nightly run"};
}

static bool reads(const char *text)
{
        struct record record;
        return record_read(text, strlen(text), &record);
}

TEST(a_record_is_one_line_of_words)
{
        struct claim claim = example();
        char text[RECORD_MAX + 1];
        size_t size = record_write(&claim, 0xabc, "host:1:cron", 1700000000123, true, text);

        CHECK_UINT(size, strlen(text));
        CHECK_STR(text, "pawl1 0000000000000abc 10000 5000 s 3 h 7 1700000000123 host%3A1%3Acron nightly%20run");
}

TEST(a_record_reads_as_it_was_written)
{
        struct claim claim = example();
        struct record record;
        char text[RECORD_MAX + 1];
        size_t size = record_write(&claim, UINT64_MAX, "who", 1700000000123, true, text);

        REQUIRE(record_read(text, size, &record));
        CHECK_UINT(record.client, UINT64_MAX);
        CHECK_INT(record.ttl_ms, 10000);
        CHECK_INT(record.delay_ms, 5000);
        CHECK_UINT(record.mode, PAWL_SHARED);
        CHECK_UINT(record.limit, 3);
        CHECK_UINT(record.age, 7);
        CHECK_INT(record.since_ms, 1700000000123);
        CHECK(record.holds && !record.detached);
        CHECK_STR(record.owner, "who");
        CHECK_STR(record.note, "nightly run");
}

TEST(every_mark_of_a_record_is_kept)
{
        for (unsigned i = 0; i < 8; i++) {
                struct claim claim = {.mode = i & 4 ? PAWL_SHARED : PAWL_EXCLUSIVE, .detached = i & 1, .note = ""};
                struct record record;
                char text[RECORD_MAX + 1];
                size_t size = record_write(&claim, 1, "", 0, i & 2, text);

                REQUIRE(record_read(text, size, &record));
                CHECK(record.detached == (bool)(i & 1) && record.holds == (bool)(i & 2));
                CHECK_UINT(record.mode, claim.mode);
                CHECK_STR(record.owner, "");
                CHECK_STR(record.note, "");
        }
}

TEST(owners_and_notes_may_be_any_bytes_and_as_long_as_they_may_be)
{
        struct claim claim = {.ttl = INT64_MAX, .delay = INT64_MAX, .age = UINT64_MAX, .max_holders = UINT32_MAX};
        char owner[PAWL_OWNER_MAX + 1], note[PAWL_NOTE_MAX + 1], text[RECORD_MAX + 1];
        struct record record;
        size_t size;

        for (size_t i = 0; i < PAWL_OWNER_MAX; i++)
                owner[i] = (char)(i + 0x81);
        for (size_t i = 0; i < PAWL_NOTE_MAX; i++)
                note[i] = (char)(i + 1);
        owner[PAWL_OWNER_MAX] = note[PAWL_NOTE_MAX] = '\0';
        claim.note = note;
        size = record_write(&claim, UINT64_MAX, owner, INT64_MAX, true, text);
        CHECK(size <= RECORD_MAX);
        REQUIRE(record_read(text, size, &record));
        CHECK_STR(record.owner, owner);
        CHECK_STR(record.note, note);
        CHECK_UINT(record.age, UINT64_MAX);
        CHECK_UINT(record.limit, UINT32_MAX);
        CHECK_INT(record.ttl_ms, INT64_MAX / MS);
}

TEST(a_clock_before_1970_does_not_make_a_record_unreadable)
{
        struct claim claim = example();
        struct record record;
        char text[RECORD_MAX + 1];
        size_t size = record_write(&claim, 1, "", -5, false, text);

        REQUIRE(record_read(text, size, &record));
        CHECK_INT(record.since_ms, 0);
}

TEST(a_record_cut_off_anywhere_is_not_one)
{
        struct claim claim = example();
        struct record record;
        char text[RECORD_MAX + 1];
        size_t size = record_write(&claim, 0xabc, "who", 1700000000123, true, text);
        size_t note = size - strlen("nightly%20run");

        for (size_t cut = 0; cut <= note; cut++)
                CHECK(!record_read(text, cut, &record));
        CHECK(!record_read(text, size - 4, &record)); /* in the middle of %20 */
        CHECK(!record_read(NULL, 0, &record));
}

TEST(what_others_wrote_is_not_taken_for_a_record)
{
        static const char *const foreign[] = {
                "",
                "192.168.0.1",
                "__REVOKE__",
                "pawl2 0000000000000abc 1 0 x 0 - 0 0 % %",
                "pawl1 0000000000000abc 1 0 x 0 - 0 0 % % more",
                "pawl1 0000000000000abc 1 0 x 0 - 0 0 % % ",
                " pawl1 0000000000000abc 1 0 x 0 - 0 0 % %",
                "pawl1  0000000000000abc 1 0 x 0 - 0 0 % %",
                "pawl1 abc 1 0 x 0 - 0 0 % %",
                "pawl1 0000000000000ABC 1 0 x 0 - 0 0 % %",
                "pawl1 00000000000000abc 1 0 x 0 - 0 0 % %",
                "pawl1 0000000000000abc -1 0 x 0 - 0 0 % %",
                "pawl1 0000000000000abc 01 0 x 0 - 0 0 % %",
                "pawl1 0000000000000abc 9223372036855 0 x 0 - 0 0 % %",
                "pawl1 0000000000000abc 99999999999999999999999 0 x 0 - 0 0 % %",
                "pawl1 0000000000000abc 1 0 y 0 - 0 0 % %",
                "pawl1 0000000000000abc 1 0 xx 0 - 0 0 % %",
                "pawl1 0000000000000abc 1 0 x 4294967296 - 0 0 % %",
                "pawl1 0000000000000abc 1 0 x 0 hd 0 0 % %",
                "pawl1 0000000000000abc 1 0 x 0 dd 0 0 % %",
                "pawl1 0000000000000abc 1 0 x 0 d-h 0 0 % %",
                "pawl1 0000000000000abc 1 0 x 0 -h 0 0 % %",
                "pawl1 0000000000000abc 1 0 x 0 - 18446744073709551616 0 % %",
                "pawl1 0000000000000abc 1 0 x 0 - 0 9223372036854775808 % %",
                "pawl1 0000000000000abc 1 0 x 0 - 0 0 a%2 %",
                "pawl1 0000000000000abc 1 0 x 0 - 0 0 a%zz %",
                "pawl1 0000000000000abc 1 0 x 0 - 0 0 a%2f %",
                "pawl1 0000000000000abc 1 0 x 0 - 0 0 a%41 %",
                "pawl1 0000000000000abc 1 0 x 0 - 0 0 a%00b %",
                "pawl1 0000000000000abc 1 0 x 0 - 0 0 a/b %",
                "pawl1 0000000000000abc 1 0 x 0 - 0 0 % %\n",
        };

        CHECK(reads("pawl1 0000000000000abc 1 0 x 0 - 0 0 % %"));
        for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++)
                if (!CHECK(!reads(foreign[i])))
                        NOTE("%s", foreign[i]);
}

TEST(an_owner_or_a_note_that_is_too_long_is_not_ours)
{
        char text[1024];

        snprintf(text, sizeof(text), "pawl1 0000000000000abc 1 0 x 0 - 0 0 %0*d %%", PAWL_OWNER_MAX, 0);
        CHECK(reads(text));
        snprintf(text, sizeof(text), "pawl1 0000000000000abc 1 0 x 0 - 0 0 %0*d %%", PAWL_OWNER_MAX + 1, 0);
        CHECK(!reads(text));
        snprintf(text, sizeof(text), "pawl1 0000000000000abc 1 0 x 0 - 0 0 %% %0*d", PAWL_NOTE_MAX, 0);
        CHECK(reads(text));
        snprintf(text, sizeof(text), "pawl1 0000000000000abc 1 0 x 0 - 0 0 %% %0*d", PAWL_NOTE_MAX + 1, 0);
        CHECK(!reads(text));
}
