/* tap.h - a small test harness that speaks TAP (testanything.org, version 13).
 *
 *     TEST(a_duration_without_a_unit_is_seconds)
 *     {
 *             int64_t ms;
 *
 *             REQUIRE(pawl_duration("3", &ms) == PAWL_OK);
 *             CHECK_INT(ms, 3000);
 *     }
 *
 * Tests register themselves and main is in tap.c. Each runs in a child of its own with its own time limit, so that one
 * that crashes or hangs is one failure, under its name. Checks may be made from any thread and from a test's own forked
 * children (whose failures count). A failed CHECK goes on; a failed REQUIRE, and SKIP, end the test, on the test's own
 * thread only.
 *
 *     program [--list] [--no-fork] [--timeout SECONDS] [--repeat N] [NAME | PREFIX*]...
 *
 * --no-fork for debuggers and sanitizers: everything in one process, no time limit.
 * In the environment, for tests/run: TAP_CASE is the only test to run, TAP_PATIENCE multiplies the time limits. */
#ifndef TAP_H
#define TAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tap_test {
        const char *name;
        void (*run)(void);
        int seconds; /* the time limit; 0: the default, 60 */
        struct tap_test *next;
};

void tap_register(struct tap_test *test);

#define TEST(name) TEST_WITHIN(0, name)
/* The same with a time limit of its own, in seconds. */
#define TEST_WITHIN(limit, name)                                                                                       \
        static void name(void);                                                                                        \
        __attribute__((constructor)) static void tap_add_##name(void)                                                  \
        {                                                                                                              \
                static struct tap_test test = {#name, name, limit, NULL};                                              \
                tap_register(&test);                                                                                   \
        }                                                                                                              \
        static void name(void)

/* Each gives true if the check passed: if (!CHECK(...)) return; One that failed prints what was expected and what there
 * was, so use the one that knows both. The expression is noted before it is evaluated: a test that hangs in it says so. */
#define CHECK(condition) tap_check((TAP_AT(#condition), (condition)), __FILE__, __LINE__, #condition)
#define CHECK_INT(actual, expected)                                                                                    \
        tap_check_int((TAP_AT(#actual), (intmax_t)(actual)), (intmax_t)(expected), __FILE__, __LINE__, #actual)
#define CHECK_UINT(actual, expected)                                                                                   \
        tap_check_uint((TAP_AT(#actual), (uintmax_t)(actual)), (uintmax_t)(expected), __FILE__, __LINE__, #actual)
/* CHECK_COMPARE(pawl_token(lock), >, last): of numbers that fit into an intmax_t. */
#define CHECK_COMPARE(actual, relation, expected)                                                                      \
        TAP_COMPARE(actual, relation, expected, #actual " " #relation " " #expected)
#define CHECK_STR(actual, expected) tap_check_str((TAP_AT(#actual), (actual)), (expected), __FILE__, __LINE__, #actual)
#define CHECK_MEM(actual, expected, size)                                                                              \
        tap_check_mem((TAP_AT(#actual), (actual)), (expected), (size), __FILE__, __LINE__, #actual)
#define CHECK_NULL(actual) tap_check_null((TAP_AT(#actual), (actual)), __FILE__, __LINE__, #actual)
/* haystack contains needle. */
#define CHECK_HAS(haystack, needle)                                                                                    \
        tap_check_has((TAP_AT(#haystack), (haystack)), (needle), __FILE__, __LINE__, #haystack)

/* Not made of the above: what a macro's argument is called is lost on its way through another macro. */
#define REQUIRE(condition)                                                                                             \
        (tap_check((TAP_AT(#condition), (condition)), __FILE__, __LINE__, #condition) ? (void)0 : tap_end())
#define REQUIRE_INT(actual, expected)                                                                                  \
        (tap_check_int((TAP_AT(#actual), (intmax_t)(actual)), (intmax_t)(expected), __FILE__, __LINE__, #actual)       \
                 ? (void)0                                                                                             \
                 : tap_end())
#define REQUIRE_COMPARE(actual, relation, expected)                                                                    \
        (TAP_COMPARE(actual, relation, expected, #actual " " #relation " " #expected) ? (void)0 : tap_end())
#define REQUIRE_STR(actual, expected)                                                                                  \
        (tap_check_str((TAP_AT(#actual), (actual)), (expected), __FILE__, __LINE__, #actual) ? (void)0 : tap_end())

#define TAP_AT(text) tap_begin(__FILE__, __LINE__, text)
#define TAP_COMPARE(actual, relation, expected, text)                                                                  \
        __extension__({                                                                                                \
                TAP_AT(text);                                                                                          \
                intmax_t tap_actual_ = (intmax_t)(actual);                                                             \
                intmax_t tap_expected_ = (intmax_t)(expected);                                                         \
                tap_check_compare(tap_actual_ relation tap_expected_, tap_actual_, #relation, tap_expected_, __FILE__, \
                                  __LINE__, text);                                                                     \
        })

/* Ends the test as skipped, with a reason (printf). "missing: ..." for a server or an engine that should be there. */
#define SKIP(...) tap_skip(__VA_ARGS__)
/* A diagnostic line (printf). */
#define NOTE(...) tap_note(__VA_ARGS__)

/* Notes what the test does now, for the report of one that crashes or hangs. The texts are literals. */
void tap_begin(const char *file, int line, const char *text);
bool tap_check(bool passed, const char *file, int line, const char *text);
/* For checks of other types: what was expected and what there was, in words, shown if it did not pass. */
bool tap_check_shown(bool passed, const char *expected, const char *actual, const char *file, int line,
                     const char *text);
bool tap_check_int(intmax_t actual, intmax_t expected, const char *file, int line, const char *text);
bool tap_check_compare(bool passed, intmax_t actual, const char *relation, intmax_t expected, const char *file,
                       int line, const char *text);
bool tap_check_null(const void *actual, const char *file, int line, const char *text);
bool tap_check_uint(uintmax_t actual, uintmax_t expected, const char *file, int line, const char *text);
bool tap_check_str(const char *actual, const char *expected, const char *file, int line, const char *text);
bool tap_check_mem(const void *actual, const void *expected, size_t size, const char *file, int line, const char *text);
bool tap_check_has(const char *haystack, const char *needle, const char *file, int line, const char *text);
_Noreturn void tap_end(void);
_Noreturn void tap_skip(const char *format, ...) __attribute__((format(printf, 1, 2)));
void tap_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A fresh directory for this test, removed after it (also after a crash). Valid until the test ends. */
const char *tap_directory(void);
/* The name of the running test. */
const char *tap_name(void);

#endif
