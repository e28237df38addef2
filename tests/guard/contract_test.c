/* contract_test.c - what every guard promises for one resource: tokens, data, names, lists, arguments. */
#include "store.h"

/* ---- tokens ----------------------------------------------------------------------------------------------------- */

TEST(a_lower_token_is_refused_and_an_equal_one_passes)
{
        pawl_guard *guard = open_store();

        CHECK_INT(admit(guard, "r", 5), PAWL_OK);
        CHECK_INT(admit(guard, "r", 5), PAWL_OK);
        CHECK_INT(admit(guard, "r", 4), PAWL_STALE);
        CHECK_HAS(why.text, "token 4 is too old for \"r\"");
        CHECK_INT(why.code, PAWL_STALE);
        CHECK_INT(admit(guard, "r", 1), PAWL_STALE);
        CHECK_INT(admit(guard, "r", 6), PAWL_OK);
        CHECK_INT(admit(guard, "r", 5), PAWL_STALE);
        pawl_guard_close(guard);
}

/* Past 2^53, where a store that counts in doubles would take neighbours for equals. */
TEST(the_greatest_tokens_are_told_apart)
{
        static const uint64_t steps[] = {UINT64_C(9007199254740992),
                                         UINT64_C(9007199254740993),
                                         UINT64_C(999999999999999999),
                                         UINT64_C(1000000000000000000),
                                         INT64_MAX - 1,
                                         INT64_MAX};
        pawl_guard *guard = open_store();

        for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
                CHECK_INT(put(guard, "r", steps[i], "x"), PAWL_OK);
                CHECK_INT(put(guard, "r", steps[i] - 1, "y"), PAWL_STALE);
                CHECK_INT(admit(guard, "r", steps[i]), PAWL_OK);
        }
        check_get(guard, "r", INT64_MAX, "x", INT64_MAX);
        CHECK_INT(admit(guard, "r", 9), PAWL_STALE); /* which is greater as text */
        pawl_guard_close(guard);
}

TEST(what_is_not_a_token_is_invalid_and_changes_nothing)
{
        static const uint64_t wrong[] = {0, UINT64_C(1) << 63, UINT64_MAX};
        pawl_guard *guard = open_store();
        struct pawl_guard_data data;

        CHECK_INT(put(guard, "r", 3, "three"), PAWL_OK);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
                CHECK_INT(admit(guard, "r", wrong[i]), PAWL_INVALID);
                CHECK_INT(put(guard, "r", wrong[i], "x"), PAWL_INVALID);
                CHECK_INT(pawl_guard_get(guard, "r", wrong[i], &why, &data), PAWL_INVALID);
                CHECK_INT(forget(guard, "r", wrong[i]), PAWL_INVALID);
                CHECK_INT(pawl_guard_prune(guard, wrong[i], &why, NULL), PAWL_INVALID);
                CHECK_HAS(why.text, "not a token");
        }
        check_get(guard, "r", 3, "three", 3);
        pawl_guard_close(guard);
}

TEST(resources_do_not_know_each_other)
{
        pawl_guard *guard = open_store();

        CHECK_INT(put(guard, "one", 100, "1"), PAWL_OK);
        CHECK_INT(put(guard, "two", 1, "2"), PAWL_OK);
        CHECK_INT(admit(guard, "ONE", 1), PAWL_OK);
        CHECK_INT(admit(guard, "one ", 1), PAWL_OK);
        CHECK_INT(admit(guard, " one", 1), PAWL_OK);
        CHECK_INT(admit(guard, "on", 1), PAWL_OK);
        CHECK_INT(admit(guard, "one", 1), PAWL_STALE);
        check_get(guard, "one", 100, "1", 100);
        check_get(guard, "two", 1, "2", 1);
        pawl_guard_close(guard);
}

/* ---- data ------------------------------------------------------------------------------------------------------- */

TEST(a_stale_put_changes_nothing)
{
        pawl_guard *guard = open_store();

        CHECK_INT(put(guard, "r", 7, "seven"), PAWL_OK);
        CHECK_INT(put(guard, "r", 6, "six"), PAWL_STALE);
        check_get(guard, "r", 7, "seven", 7);
        CHECK_INT(put(guard, "r", 7, "seven again"), PAWL_OK);
        check_get(guard, "r", 7, "seven again", 7);
        pawl_guard_close(guard);
}

TEST(a_read_is_a_barrier_and_tells_who_was_here_before)
{
        pawl_guard *guard = open_store();
        struct pawl_guard_data data = {.size = 99};

        CHECK_INT(put(guard, "r", 1, "one"), PAWL_OK);
        check_get(guard, "r", 3, "one", 1);
        CHECK_INT(put(guard, "r", 2, "two"), PAWL_STALE);
        CHECK_INT(pawl_guard_get(guard, "r", 2, &why, &data), PAWL_STALE);
        CHECK_UINT(data.size, 99);
        check_get(guard, "r", 3, "one", 3);
        check_empty(guard, "empty", 5);
        CHECK_INT(put(guard, "empty", 4, "four"), PAWL_STALE);
        check_empty(guard, "empty", 5);
        pawl_guard_close(guard);
}

TEST(an_admission_is_a_barrier_for_reads_and_writes)
{
        pawl_guard *guard = open_store();
        struct pawl_guard_data data;

        CHECK_INT(put(guard, "r", 4, "four"), PAWL_OK);
        CHECK_INT(admit(guard, "r", 9), PAWL_OK);
        CHECK_INT(put(guard, "r", 8, "eight"), PAWL_STALE);
        CHECK_INT(pawl_guard_get(guard, "r", 8, &why, &data), PAWL_STALE);
        CHECK_INT(forget(guard, "r", 8), PAWL_STALE);
        check_get(guard, "r", 9, "four", 9);
        pawl_guard_close(guard);
}

static void check_bytes(pawl_guard *guard, const char *resource, uint64_t token, const char *bytes, size_t size)
{
        struct pawl_guard_data data = {0};

        if (!CHECK_INT(pawl_guard_put(guard, resource, token, bytes, size, &why), PAWL_OK)) {
                NOTE("%zu bytes: %s", size, why.text);
                return;
        }
        REQUIRE(pawl_guard_get(guard, resource, token, &why, &data) == PAWL_OK);
        REQUIRE(data.bytes != NULL && data.size == size);
        CHECK_MEM(data.bytes, bytes, size);
        CHECK_INT(((const char *)data.bytes)[size], 0);
        CHECK_UINT(data.token, token);
        free(data.bytes);
}

TEST(bytes_of_any_kind_and_number_are_kept)
{
        enum { MEGABYTE = 1 << 20 };
        static const char zeros[] = "\0\0\0";
        static const char not_text[] = "\xff\xfe\x80'\"\\\r\n\0\x1b;--$1%s";
        pawl_guard *guard = open_store();
        char *bytes = malloc(MEGABYTE);
        uint64_t token = 1;

        REQUIRE(bytes != NULL);
        for (int i = 0; i < MEGABYTE; i++)
                bytes[i] = (char)(i * 7 + i / 256);
        check_bytes(guard, "r", token++, bytes, 256);
        check_bytes(guard, "r", token++, bytes, MEGABYTE);
        check_bytes(guard, "r", token++, "x", 1);
        check_bytes(guard, "r", token++, zeros, 1);
        check_bytes(guard, "r", token++, zeros, 3);
        check_bytes(guard, "r", token++, not_text, sizeof(not_text));
        check_bytes(guard, "r", token++, "12", 2); /* and not the number */
        check_bytes(guard, "r", token++, "", 0);
        CHECK_INT(pawl_guard_put(guard, "null", 1, NULL, 0, &why), PAWL_OK);
        check_get(guard, "null", 1, "", 1); /* empty is not missing */
        free(bytes);
        pawl_guard_close(guard);
}

/* ---- names ------------------------------------------------------------------------------------------------------ */

static const char *const odd_names[] = {
        " ",
        "orders/42",
        "/",
        "//a//",
        "../../etc/passwd",
        ".",
        "..",
        ".hidden",
        "%",
        "%2F",
        "%00",
        "100%25",
        "_",
        "a_b",
        "a%b",
        "a*b?[c]",
        "'",
        "''",
        "\"quoted\"",
        "`back`",
        "back\\slash",
        "\\",
        "'; DROP TABLE pawl_mark; --",
        "x'); DELETE FROM pawl_mark; --",
        "$1",
        "$$",
        ":resource",
        "?1",
        "{tag}",
        "{a}b}",
        "a b\xc2\xa0z",
        "gr\xc3\xbc\xc3\x9fung",
        "\xe2\x82\xac",
        "\xf0\x9f\x94\x92",
        "-rf",
        "#fragment",
        "a?b=c&d=e",
        "a:b@c",
        "12",
        "0x10",
        "NULL",
        "pawl_floor",
        "pawl.floor",
        ".floor",
        "floor",
        "pawl",
};
enum { ODD_NAMES = sizeof(odd_names) / sizeof(odd_names[0]) };

TEST_WITHIN(120, odd_names_are_names_like_others)
{
        pawl_guard *guard = open_store();
        uint64_t tokens[ODD_NAMES];

        for (uint64_t i = 0; i < ODD_NAMES; i++) {
                tokens[i] = 10 + i;
                if (!CHECK_INT(put(guard, odd_names[i], 10 + i, odd_names[i]), PAWL_OK))
                        NOTE("%s: %s", odd_names[i], why.text);
        }
        for (uint64_t i = 0; i < ODD_NAMES; i++) {
                CHECK_INT(put(guard, odd_names[i], 9 + i, "stale"), PAWL_STALE);
                CHECK_HAS(why.text, "is too old");
                check_get(guard, odd_names[i], 10 + i, odd_names[i], 10 + i);
        }
        if (!getenv("PAWL_TEST_WITHOUT") || !strstr(getenv("PAWL_TEST_WITHOUT"), "list"))
                check_list(guard, NULL, odd_names, tokens, ODD_NAMES);
        pawl_guard_close(guard);
}

TEST(the_longest_names_are_told_apart)
{
        pawl_guard *guard = open_store();
        size_t length = store_is("file:") ? 200 : PAWL_NAME_MAX; /* encoded, a file's has 200 bytes */
        char name[PAWL_NAME_MAX + 2] = {0};

        memset(name, 'n', length);
        CHECK_INT(put(guard, name, 20, "longest"), PAWL_OK);
        name[length - 1] = 'm';
        CHECK_INT(put(guard, name, 10, "its neighbour"), PAWL_OK);
        name[length - 1] = 'n';
        CHECK_INT(admit(guard, name, 19), PAWL_STALE);
        check_get(guard, name, 20, "longest", 20);
        name[length] = 'n';
        CHECK_INT(admit(guard, name, 30), PAWL_INVALID);
        pawl_guard_close(guard);
}

TEST(the_longest_names_may_be_of_any_letters)
{
        pawl_guard *guard;
        char name[PAWL_NAME_MAX + 1] = {0};

        if (store_is("file:"))
                SKIP("the name of a file has room for less");
        guard = open_store();
        for (int i = 0; i + 3 <= PAWL_NAME_MAX; i += 3)
                memcpy(name + i, "\xe2\x82\xac", 3);
        CHECK_INT(put(guard, name, 20, "longest"), PAWL_OK);
        CHECK_INT(admit(guard, name, 19), PAWL_STALE);
        check_get(guard, name, 20, "longest", 20);
        pawl_guard_close(guard);
}

/* ---- forgetting ------------------------------------------------------------------------------------------------- */

TEST(what_is_forgotten_passes_again_and_keeps_its_data)
{
        pawl_guard *guard;

        needs("forget");
        guard = open_store();
        CHECK_INT(forget(guard, "r", 1), PAWL_NOT_FOUND);
        CHECK_INT(put(guard, "r", 9, "nine"), PAWL_OK);
        CHECK_INT(forget(guard, "r", 8), PAWL_STALE);
        CHECK_INT(admit(guard, "r", 8), PAWL_STALE);
        CHECK_INT(forget(guard, "r", 9), PAWL_OK);
        CHECK_INT(forget(guard, "r", 9), PAWL_NOT_FOUND);
        check_get(guard, "r", 2, "nine", 0);
        CHECK_INT(admit(guard, "r", 1), PAWL_STALE);
        CHECK_INT(admit(guard, "bare", 9), PAWL_OK);
        CHECK_INT(forget(guard, "bare", 12), PAWL_OK);
        CHECK_INT(admit(guard, "bare", 1), PAWL_OK);
        check_empty(guard, "bare", 1);
        pawl_guard_close(guard);
}

TEST(what_is_forgotten_is_not_listed)
{
        static const char *const names[] = {"kept"};
        static const uint64_t tokens[] = {5};
        pawl_guard *guard;

        needs("forget");
        needs("list");
        guard = open_store();
        CHECK_INT(put(guard, "gone", 4, "data"), PAWL_OK);
        CHECK_INT(put(guard, "kept", 5, "data"), PAWL_OK);
        CHECK_INT(forget(guard, "gone", 4), PAWL_OK);
        check_list(guard, NULL, names, tokens, 1);
        pawl_guard_close(guard);
}

/* ---- listing ---------------------------------------------------------------------------------------------------- */

static int stop_at_once(const struct pawl_guard_entry *entry, void *arg)
{
        (void)entry;
        return ++*(int *)arg;
}

TEST(a_list_names_every_resource_with_its_token)
{
        static const char *const names[] = {"a/1", "a/2", "\xc3\xbc"};
        static const uint64_t tokens[] = {11, 12, INT64_MAX};
        pawl_guard *guard;
        int seen = 0;

        needs("list");
        guard = open_store();
        check_list(guard, NULL, NULL, NULL, 0);
        CHECK_INT(admit(guard, "a/1", 11), PAWL_OK);
        CHECK_INT(put(guard, "a/2", 3, "x"), PAWL_OK);
        CHECK_INT(put(guard, "a/2", 12, "x"), PAWL_OK);
        CHECK_INT(admit(guard, "\xc3\xbc", INT64_MAX), PAWL_OK);
        check_list(guard, NULL, names, tokens, 3);
        check_list(guard, "", names, tokens, 3);
        check_list(guard, "a/", names, tokens, 2);
        check_list(guard, "a/1", names, tokens, 1);
        check_list(guard, "A", NULL, NULL, 0);
        check_list(guard, "a/11", NULL, NULL, 0);
        CHECK_INT(pawl_guard_list(guard, "", stop_at_once, &seen, &why), PAWL_OK);
        CHECK_INT(seen, 1);
        CHECK_INT(admit(guard, "a/1", 11), PAWL_OK); /* a list is no barrier */
        pawl_guard_close(guard);
}

TEST(a_prefix_is_taken_as_it_is_written)
{
        static const char *const names[] = {"%a", "_a", "*a", "?a", "[ab]a", "\\a", "'a", "aa", "\xc3\xbcx"};
        enum { NAMES = sizeof(names) / sizeof(names[0]) };
        pawl_guard *guard;
        uint64_t token = 7;
        char prefix[8];

        needs("list");
        guard = open_store();
        for (int i = 0; i < NAMES; i++)
                CHECK_INT(admit(guard, names[i], token), PAWL_OK);
        for (int i = 0; i < NAMES; i++) {
                snprintf(prefix, sizeof(prefix), "%.*s", (int)strlen(names[i]) - 1, names[i]);
                check_list(guard, prefix, &names[i], &token, 1);
        }
        check_list(guard, "\xc3", &names[NAMES - 1], &token, 1); /* half a letter is a prefix too */
        check_list(guard, "'; DROP TABLE pawl_mark; --", NULL, NULL, 0);
        pawl_guard_close(guard);
}

enum { MANY = 1200 };

static int tick(const struct pawl_guard_entry *entry, void *arg)
{
        int *seen = arg;
        int number = atoi(entry->resource + strlen("many/"));

        if (CHECK(number >= 0 && number < MANY))
                seen[number]++;
        return 0;
}

TEST_WITHIN(300, a_long_list_is_whole)
{
        pawl_guard *guard;
        char name[24];
        int seen[MANY] = {0};

        needs("list");
        guard = open_store();
        for (int i = 0; i < MANY; i++) {
                snprintf(name, sizeof(name), "many/%d", i);
                REQUIRE(admit(guard, name, 5) == PAWL_OK);
        }
        CHECK_INT(pawl_guard_list(guard, "many/", tick, seen, &why), PAWL_OK);
        for (int i = 0; i < MANY; i++)
                CHECK_INT(seen[i], 1);
        pawl_guard_close(guard);
}

/* ---- arguments -------------------------------------------------------------------------------------------------- */

TEST(wrong_arguments_are_answered_and_change_nothing)
{
        pawl_guard *guard = open_store();
        struct pawl_guard_data data;
        char long_name[PAWL_NAME_MAX + 2];

        memset(long_name, 'n', sizeof(long_name) - 1);
        long_name[sizeof(long_name) - 1] = 0;
        CHECK_INT(admit(guard, "", 1), PAWL_INVALID);
        CHECK_INT(admit(guard, "a\nb", 1), PAWL_INVALID);
        CHECK_INT(admit(guard, "\xff", 1), PAWL_INVALID);
        CHECK_INT(admit(guard, long_name, 1), PAWL_INVALID);
        CHECK_INT(admit(guard, NULL, 1), PAWL_INVALID);
        CHECK_INT(pawl_guard_put(guard, "r", 1, NULL, 1, NULL), PAWL_INVALID);
        CHECK_INT(pawl_guard_get(guard, "r", 1, NULL, NULL), PAWL_INVALID);
        CHECK_INT(pawl_guard_list(guard, NULL, NULL, NULL, NULL), PAWL_INVALID);
        CHECK_INT(pawl_guard_examine(guard, NULL, NULL, NULL), PAWL_INVALID);
        check_empty(guard, "r", 1);
        CHECK_INT(admit(NULL, "r", 1), PAWL_INVALID);
        CHECK_INT(pawl_guard_get(NULL, "r", 1, NULL, &data), PAWL_INVALID);
        pawl_guard_close(NULL);
        pawl_guard_close(guard);
}

/* A misspelt "no" that is taken for yes would switch off the verification of TLS. */
TEST(options_in_the_url_are_read_strictly)
{
        static const char *const wrong[] = {"insecure=maybe", "insecure=", "insecure=2",  "create=perhaps", "create=",
                                            "timeout=-1s",    "timeout=",  "timeout=1e3", "db=0x1",         "db=-1"};
        pawl_guard *none = NULL;
        char url[1200];

        for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
                char key[16];

                snprintf(key, sizeof(key), "%.*s", (int)strcspn(wrong[i], "="), wrong[i]);
                snprintf(url, sizeof(url), "%s%c%s", store_url(), strchr(store_url(), '?') ? '&' : '?', wrong[i]);
                if (!CHECK_INT(pawl_guard_open(url, PAWL_GUARD(.why = &why), &none), PAWL_INVALID))
                        NOTE("%s was accepted", url);
                CHECK_HAS(why.text, key);
        }
}

TEST(nothing_is_told_where_no_reason_is_asked)
{
        pawl_guard *guard = open_store();

        CHECK_INT(pawl_guard_admit(guard, "r", 5, NULL), PAWL_OK);
        CHECK_INT(pawl_guard_admit(guard, "r", 4, NULL), PAWL_STALE);
        CHECK_INT(pawl_guard_put(guard, "r", 4, "x", 1, NULL), PAWL_STALE);
        CHECK_INT(pawl_guard_put(guard, "r", 6, "x", 1, NULL), PAWL_OK);
        CHECK_INT(pawl_guard_forget(guard, "r", 5, NULL), PAWL_STALE);
        pawl_guard_close(guard);
}

static int look_at_finding(const struct pawl_finding *finding, void *arg)
{
        CHECK(finding->severity <= PAWL_DANGER);
        CHECK(finding->where && *finding->where);
        CHECK(finding->what && *finding->what);
        CHECK(finding->mend != NULL);
        if (finding->severity == PAWL_FINE)
                CHECK_STR(finding->mend, "");
        ++*(int *)arg;
        return 0;
}

static int stop_at_first(const struct pawl_finding *finding, void *arg)
{
        (void)finding;
        return ++*(int *)arg;
}

TEST(an_examination_says_what_is_and_how_to_mend_it)
{
        pawl_guard *guard;
        int seen = 0;

        needs("examine");
        guard = open_store();
        CHECK_INT(admit(guard, "r", 5), PAWL_OK);
        if (!CHECK_INT(pawl_guard_examine(guard, look_at_finding, &seen, &why), PAWL_OK))
                NOTE("%s", why.text);
        CHECK(seen > 0);
        seen = 0;
        CHECK_INT(pawl_guard_examine(guard, stop_at_first, &seen, &why), PAWL_OK);
        CHECK_INT(seen, 1);
        CHECK_INT(admit(guard, "r", 5), PAWL_OK); /* nothing has changed */
        CHECK_INT(admit(guard, "r", 4), PAWL_STALE);
        pawl_guard_close(guard);
}
