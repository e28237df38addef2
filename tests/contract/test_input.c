/* test_input.c - promise 11: bad input gets a clear error and changes nothing; good but strange input works. */
#include "contract.h"

static void check_refused(pawl_client *client, const char *name)
{
        struct pawl_why why = {0};
        pawl_lock *none;
        CHECK_CODE(pawl_acquire(client, name, PAWL_LOCK(.wait_ms = PAWL_NO_WAIT, .why = &why), &none), PAWL_INVALID);
        CHECK_CODE(why.code, PAWL_INVALID);
        CHECK(why.text[0]);
        CHECK_CODE(pawl_acquire_async(client, name, NULL, see_granted, NULL, &none), PAWL_INVALID);
}

TEST(bad_names_are_refused_and_change_nothing)
{
        static const char *const names[] = {
                "",
                "\x01",
                "a\nb",
                "a\tb",
                "\r",
                "\x1b[31mred",
                "a\x7f",
                "\xc2\x80",         /* C1: U+0080 */
                "\xc2\x85",         /* C1: next line */
                "\xc2\x9f",         /* the last of C1 */
                "\xff",             /* no UTF-8 at all */
                "\x80",             /* a continuation without a start */
                "a\xc3",            /* cut short */
                "\xe2\x82",         /* cut short */
                "\xf0\x9f\x98",     /* cut short */
                "\xc0\x80",         /* NUL in two bytes */
                "\xc1\xbf",         /* overlong */
                "\xe0\x80\xaf",     /* a slash in three bytes */
                "\xf0\x80\x80\xaf", /* a slash in four bytes */
                "\xed\xa0\x80",     /* a surrogate */
                "\xed\xbf\xbf",     /* the last surrogate */
                "\xf4\x90\x80\x80", /* above U+10FFFF */
                "\xf8\x88\x80\x80\x80",
        };
        pawl_client *one = join(fresh_place());
        struct view view;

        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
                check_refused(one, names[i]);
        check_refused(one, NULL);
        if (pawl_capabilities(one) & PAWL_CAN_INSPECT) {
                CHECK_CODE(list(one, NULL, &view), PAWL_OK);
                CHECK_UINT(view.count, 0);
        }
}

TEST(a_name_has_255_bytes_at_most)
{
        pawl_client *one = join(fresh_place());
        char name[300];
        pawl_lock *lock;

        memset(name, 'x', sizeof name);
        name[256] = '\0';
        check_refused(one, name);
        name[255] = '\0';
        CHECK_CODE(pawl_acquire(one, name, NULL, &lock), PAWL_OK);
        CHECK_STR(pawl_name(lock), name);
        name[254] = '\0';
        CHECK_CODE(pawl_acquire(one, name, PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &lock), PAWL_OK);
        for (int i = 0; i < 255; i++)
                name[i] = "\xe2\x82\xac"[i % 3]; /* 85 euro signs */
        name[255] = '\0';
        CHECK_CODE(pawl_acquire(one, name, PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &lock), PAWL_OK);
}

TEST(strange_but_legal_names_are_all_different_locks)
{
        static const char *const names[] = {
                "a",
                "A",
                "a ",
                " a",
                " ",
                "a/b",
                "a//b",
                "/a/b",
                "a/b/",
                "/",
                "//",
                ".",
                "..",
                "...",
                "../a",
                "a/../b",
                ".hidden",
                "%",
                "%%",
                "%2F",
                "%2f",
                "a%2Fb",
                "a%2fb",
                "a%b",
                "%00",
                "a+b",
                "a b",
                "a%20b",
                "a:b",
                "a;b",
                "a'b",
                "a\"b",
                "a`b",
                "a$b",
                "$(reboot)",
                "a|b",
                "a\\b",
                "a*b",
                "a?b",
                "a[b]",
                "{a}",
                "{}",
                "<a>",
                "#a",
                "@a",
                "~",
                "-a",
                "--",
                "_a",
                "lock:a",
                "nul",
                "CON",
                "a.lock",
                "queue",
                "counter",
                "\xc3\xa9",
                "e\xcc\x81", /* two ways to write e acute */
                "\xf0\x9f\x94\x92",
                "\xf0\x9f\x94\x92\xf0\x9f\x94\x91",
                "\xe2\x80\xaexyz",
                "\xef\xbb\xbf",
                "\xc2\xa0",
                "a\xe2\x80\x8b",
                "\xef\xbf\xbd",
                "\xf4\x8f\xbf\xbf",
                "'; DROP TABLE locks; --",
                "\xd0\xb0", /* Cyrillic a */
        };
        enum { COUNT = sizeof names / sizeof *names };
        pawl_client *one = join(fresh_place());
        struct view view;
        pawl_lock *locks[COUNT];

        for (int i = 0; i < COUNT; i++) {
                if (!CHECK_CODE(pawl_acquire(one, names[i], PAWL_LOCK(.wait_ms = PAWL_NO_WAIT), &locks[i]), PAWL_OK))
                        NOTE("the name was \"%s\"", names[i]);
                CHECK_STR(pawl_name(locks[i]), names[i]);
        }
        if (pawl_capabilities(one) & PAWL_CAN_INSPECT) {
                CHECK_CODE(list(one, NULL, &view), PAWL_OK);
                CHECK_UINT(view.holders, COUNT);
                for (int i = 0; i < COUNT; i++) {
                        CHECK_CODE(show(one, names[i], &view), PAWL_OK);
                        CHECK_UINT(view.holders, 1);
                        CHECK_UINT(view.lines[0].entry.token, pawl_token(locks[i]));
                        CHECK_STR(view.lines[0].name, names[i]);
                }
        }
        for (int i = 0; i < COUNT; i++)
                CHECK_CODE(pawl_release(locks[i]), PAWL_OK);
}

/* ---- options --------------------------------------------------------------------------------------------------- */

TEST(options_without_their_size_are_invalid)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *none;
        struct pawl_why why = {0};
        struct pawl_lock_options lock_options = {.why = &why};
        struct pawl_open_options open_options = {.why = &why};
        struct pawl_stats stats = {0};
        pawl_lock *lock;

        CHECK_CODE(pawl_acquire(one, "a", &lock_options, &lock), PAWL_INVALID);
        CHECK_HAS(why.text, "sizeof(struct pawl_lock_options)");
        CHECK_CODE(pawl_open(place, &open_options, &none), PAWL_INVALID);
        CHECK_HAS(why.text, "sizeof(struct pawl_open_options)");
        lock_options.why = NULL;
        CHECK_CODE(pawl_acquire(one, "a", &lock_options, &lock), PAWL_INVALID);
        CHECK_CODE(pawl_stats(one, &stats), PAWL_INVALID);
        CHECK(is_free(one, "a"));
}

TEST(options_of_an_older_caller_work)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two;
        pawl_lock *lock;
        struct pawl_lock_options lock_options = {.size = offsetof(struct pawl_lock_options, delay_ms), .ttl_ms = 4000};
        struct pawl_open_options open_options = {.size = offsetof(struct pawl_open_options, owner), .ttl_ms = 4000};

        /* what lies behind an older caller's options is not ours to read */
        lock_options.note = (const char *)1;
        lock_options.delay_ms = -77;
        open_options.owner = (const char *)1;
        open_options.why = (struct pawl_why *)1;
        CHECK_CODE(pawl_acquire(one, "a", &lock_options, &lock), PAWL_OK);
        CHECK_COMPARE(pawl_remaining_ms(lock), <=, believable_ms(4000));
        CHECK_CODE(pawl_open(place, &open_options, &two), PAWL_OK);
        CHECK_CODE(pawl_close(two), PAWL_OK);
}

TEST(options_of_a_newer_caller_work_if_what_is_new_is_zero)
{
        const char *place = fresh_place();
        pawl_client *one = join(place), *two;
        pawl_lock *lock;
        struct {
                struct pawl_lock_options options;
                uint64_t tail[2];
        } lock_options = {.options = {.size = sizeof lock_options}};
        struct {
                struct pawl_open_options options;
                uint64_t tail[2];
        } open_options = {.options = {.size = sizeof open_options}};

        CHECK_CODE(pawl_acquire(one, "a", &lock_options.options, &lock), PAWL_OK);
        CHECK_CODE(pawl_open(place, &open_options.options, &two), PAWL_OK);
        CHECK_CODE(pawl_close(two), PAWL_OK);
        lock_options.tail[1] = 1;
        open_options.tail[1] = 1;
        CHECK_CODE(pawl_acquire(one, "b", &lock_options.options, &lock), PAWL_UNSUPPORTED);
        CHECK_CODE(pawl_acquire_async(one, "b", &lock_options.options, see_granted, NULL, &lock), PAWL_UNSUPPORTED);
        CHECK_CODE(pawl_open(place, &open_options.options, &two), PAWL_UNSUPPORTED);
        CHECK(is_free(one, "b"));
}

TEST(statistics_for_an_older_or_newer_caller_fill_what_it_knows)
{
        pawl_client *one = join(fresh_place());
        struct {
                struct pawl_stats stats;
                uint64_t tail[4];
        } room;

        memset(&room, 0xaa, sizeof room);
        room.stats.size = offsetof(struct pawl_stats, busy);
        CHECK_CODE(pawl_stats(one, &room.stats), PAWL_OK);
        CHECK_UINT(room.stats.acquired, 0);
        CHECK_UINT(room.stats.busy, UINT64_C(0xaaaaaaaaaaaaaaaa));
        room.stats.size = sizeof room.stats;
        CHECK_CODE(pawl_stats(one, &room.stats), PAWL_OK);
        CHECK_UINT(room.tail[0], UINT64_C(0xaaaaaaaaaaaaaaaa));
}

static void check_refused_options(pawl_client *client, struct pawl_lock_options options, int expected)
{
        struct pawl_why why = {0};
        pawl_lock *none;
        options.size = sizeof options;
        options.why = &why;
        CHECK_INT(pawl_acquire(client, "a", &options, &none), expected);
        CHECK_INT(why.code, expected);
        CHECK(why.text[0]);
        CHECK(nothing_is_left(client, "a"));
}

TEST(options_that_make_no_sense_are_refused_and_change_nothing)
{
        pawl_client *one = join(fresh_place());
        int delay = pawl_capabilities(one) & PAWL_CAN_DELAY ? PAWL_INVALID : PAWL_UNSUPPORTED;

        check_refused_options(one, (struct pawl_lock_options){.ttl_ms = -1}, PAWL_INVALID);
        check_refused_options(one, (struct pawl_lock_options){.ttl_ms = INT64_MIN}, PAWL_INVALID);
        check_refused_options(one, (struct pawl_lock_options){.ttl_ms = 1}, PAWL_INVALID);
        check_refused_options(one, (struct pawl_lock_options){.ttl_ms = 49}, PAWL_INVALID);
        check_refused_options(one, (struct pawl_lock_options){.ttl_ms = INT64_MAX}, PAWL_INVALID);
        check_refused_options(one, (struct pawl_lock_options){.wait_ms = -2}, PAWL_INVALID);
        check_refused_options(one, (struct pawl_lock_options){.wait_ms = INT64_MIN}, PAWL_INVALID);
        check_refused_options(one, (struct pawl_lock_options){.wait_ms = INT64_MAX}, PAWL_INVALID);
        check_refused_options(one, (struct pawl_lock_options){.delay_ms = -1}, delay);
        check_refused_options(one, (struct pawl_lock_options){.delay_ms = INT64_MAX}, delay);
        check_refused_options(one, (struct pawl_lock_options){.mode = 7}, PAWL_INVALID);
        check_refused_options(one, (struct pawl_lock_options){.max_holders = 3}, PAWL_INVALID); /* but exclusive */
        check_refused_options(one, (struct pawl_lock_options){.flags = 1u << 30}, PAWL_UNSUPPORTED);
        CHECK(is_free(one, "a"));
}

TEST(a_very_long_wait_is_a_wait)
{
        pawl_client *one = join(fresh_place());
        pawl_lock *lock, *none;

        MUST(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = INT64_C(300) * 24 * 3600 * 1000), &lock));
        CHECK_CODE(pawl_acquire(one, "a", PAWL_LOCK(.wait_ms = 500), &none), PAWL_TIMEOUT);
        CHECK_CODE(pawl_release(lock), PAWL_OK);
}

TEST(a_bad_url_is_refused_with_a_sentence)
{
        static const struct {
                const char *url;
                int code;
        } urls[] = {
                {"", PAWL_INVALID},          {":", PAWL_INVALID},
                {"nosuch:", PAWL_NO_ENGINE}, {"nosuch://h", PAWL_NO_ENGINE},
                {"://x", PAWL_INVALID},      {"no scheme", PAWL_INVALID},
                {"/tmp", PAWL_INVALID},      {"a b:c", PAWL_INVALID},
                {"local:%zz", PAWL_INVALID},
        };
        struct pawl_why why;
        pawl_client *none;

        for (size_t i = 0; i < sizeof urls / sizeof *urls; i++) {
                memset(&why, 0, sizeof why);
                if (!CHECK_INT(pawl_open(urls[i].url, PAWL_OPEN(.why = &why), &none), urls[i].code))
                        NOTE("the URL was \"%s\"", urls[i].url);
                CHECK_INT(why.code, urls[i].code);
                CHECK(why.text[0]);
        }
}

/* PAWL_OK, or what the place with one more option is refused with. */
static int open_with(const char *place, const char *option, const char *value, struct pawl_why *why)
{
        pawl_client *client = NULL;
        char url[4096];
        int code;

        snprintf(url, sizeof url, "%s%c%s=%s", place, strchr(place, '?') ? '&' : '?', option, value);
        memset(why, 0, sizeof *why);
        code = pawl_open(url, PAWL_OPEN(.why = why), &client);
        if (code == PAWL_OK)
                pawl_close(client);
        return code;
}

/* A misspelt "no" that is taken for yes would switch off the verification of TLS. */
TEST(an_option_that_is_yes_or_no_is_nothing_else)
{
        static const char *const options[] = {"insecure", "tls",    "even",           "history",      "create",
                                              "sslsni",   "pooler", "sslcompression", "gssdelegation"};
        static const char *const wrong[] = {"",   "maybe", "2",   "-1",  "00",    "no%20", "%20no",  "n",
                                            "fa", "yess",  "nul", "0.0", "none1", "01",    "disable"};
        const char *place = fresh_place();
        struct pawl_why why;

        for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
                for (size_t j = 0; j < sizeof wrong / sizeof *wrong; j++) {
                        if (!CHECK_CODE(open_with(place, options[i], wrong[j], &why), PAWL_INVALID))
                                NOTE("%s=%s was accepted", options[i], wrong[j]);
                        CHECK_HAS(why.text, options[i]);
                }
        }
}

TEST(a_number_or_a_duration_in_the_url_is_exactly_one)
{
        static const char *const options[] = {"ttl",         "timeout",         "slack",          "db",
                                              "connections", "connect_timeout", "keepalives_idle"};
        static const char *const wrong[] = {
                "",     "soon", "-1s",  "+5s", "5%20s", "%205s", "5s%20",
                "5sec", "1e3",  "0x10", "5S",  ".5s",   "5.s",   "99999999999999999999999h"};
        const char *place = fresh_place();
        struct pawl_why why;

        for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
                for (size_t j = 0; j < sizeof wrong / sizeof *wrong; j++) {
                        if (!CHECK_CODE(open_with(place, options[i], wrong[j], &why), PAWL_INVALID))
                                NOTE("%s=%s was accepted", options[i], wrong[j]);
                        CHECK_HAS(why.text, options[i]);
                }
        }
        CHECK_CODE(open_with(place, "ttl", "5s&ttl=5s", &why), PAWL_INVALID);
        CHECK_HAS(why.text, "twice");
        CHECK_CODE(open_with(place, "ttl", "5s", &why), PAWL_OK);
}

TEST(open_refuses_what_it_does_not_know)
{
        const char *place = fresh_place();
        pawl_client *none;

        CHECK_CODE(pawl_open(place, PAWL_OPEN(.drive = 9), &none), PAWL_INVALID);
        CHECK(pawl_open(place, PAWL_OPEN(.flags = 1), &none) != PAWL_OK);
        CHECK_CODE(pawl_open(place, PAWL_OPEN(.ttl_ms = -1), &none), PAWL_INVALID);
        CHECK_CODE(pawl_open(place, PAWL_OPEN(.ttl_ms = 1), &none), PAWL_INVALID);
        CHECK_CODE(pawl_open(place, NULL, NULL), PAWL_INVALID);
}

TEST(calls_without_their_handles_are_invalid_and_do_not_crash)
{
        pawl_client *one = join(fresh_place());
        struct pawl_stats stats = {.size = sizeof stats};
        char word[PAWL_LEASE_MAX + 1];
        pawl_lock *lock;

        CHECK_CODE(pawl_acquire(NULL, "a", NULL, &lock), PAWL_INVALID);
        CHECK_CODE(pawl_acquire(one, "a", NULL, NULL), PAWL_INVALID);
        CHECK_CODE(pawl_acquire_async(one, "a", NULL, NULL, NULL, NULL), PAWL_INVALID);
        CHECK_CODE(pawl_acquire_async(NULL, "a", NULL, see_granted, NULL, &lock), PAWL_INVALID);
        CHECK_CODE(pawl_check(NULL), PAWL_INVALID);
        CHECK_CODE(pawl_cancel(NULL), PAWL_INVALID);
        CHECK_CODE(pawl_renew(NULL), PAWL_INVALID);
        CHECK_CODE(pawl_lease(NULL, word, sizeof word), PAWL_INVALID);
        CHECK_CODE(pawl_stats(NULL, &stats), PAWL_INVALID);
        CHECK_CODE(pawl_stats(one, NULL), PAWL_INVALID);
        CHECK_CODE(pawl_list(one, NULL, NULL, NULL), PAWL_INVALID);
        CHECK_CODE(pawl_dispatch(NULL), PAWL_INVALID);
        CHECK_UINT(pawl_token(NULL), 0);
        CHECK_INT(pawl_remaining_ms(NULL), 0);
        CHECK(is_free(one, "a"));
}

TEST(every_code_has_a_name_and_a_sentence)
{
#define ONE_CODE(name, number, text)                                                                                   \
        CHECK_STR(pawl_error_name(number), "PAWL_" #name);                                                             \
        CHECK_STR(pawl_strerror(number), text);
        PAWL_ERRORS(ONE_CODE)
#undef ONE_CODE
        CHECK_STR(pawl_strerror(12345), "unknown error");
        CHECK_STR(pawl_strerror(-1), "unknown error");
        CHECK(pawl_error_name(12345) && pawl_reason_text(99) && pawl_how_text(99));
        for (int i = PAWL_REASON_NONE; i <= PAWL_REASON_CLOSED; i++)
                CHECK(pawl_reason_text(i) && *pawl_reason_text(i));
        CHECK_STR(pawl_version(), PAWL_VERSION);
}
