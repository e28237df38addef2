/* test_url.c - URLs: what they say, what is refused and in which words, and that secrets stay where they are. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/duration.h"
#include "base/url.h"
#include "tap.h"

static struct url *parse(const char *text)
{
        struct pawl_why why = {0};
        struct url *url = NULL;

        if (!CHECK_INT(url_parse(text, &url, &why), PAWL_OK))
                NOTE("%s: %s", text, why.text);
        REQUIRE(url != NULL);
        return url;
}

/* Refused, with words of the sentence. */
static void check_refused(const char *text, int code, const char *words)
{
        struct pawl_why why = {0};
        struct url *url = NULL;

        if (!CHECK_INT(url_parse(text, &url, &why), code) || !CHECK_HAS(why.text, words))
                NOTE("%s: %s", text, why.text);
        CHECK_NULL(url);
        CHECK_INT(why.code, code);
        CHECK_INT(url_parse(text, &url, NULL), code);
        CHECK_NULL(url);
}

TEST(the_embedded_engine_has_a_scheme_and_perhaps_a_path)
{
        static const struct {
                const char *text;
                const char *scheme;
                const char *path;
        } rows[] = {
                {"local:", "local", ""},
                {"LOCAL:", "local", ""},
                {"local:/var/lib/pawl/state", "local", "/var/lib/pawl/state"},
                {"local:relative/path", "local", "relative/path"},
                {"local:?ttl=5s", "local", ""},
                {"local:/a%20b%3f?ttl=5s", "local", "/a b?"},
                {"trace+local:/x", "trace+local", "/x"},
                {"redis+unix:/run/redis.sock", "redis+unix", "/run/redis.sock"},
                {"local:/with@at:and:colons,commas", "local", "/with@at:and:colons,commas"},
                {"local:///three/slashes", "local", "/three/slashes"},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct url *url = parse(rows[i].text);

                CHECK_STR(url->scheme, rows[i].scheme);
                CHECK_STR(url->path, rows[i].path);
                CHECK_UINT(url->host_count, 0);
                CHECK_NULL(url->user);
                CHECK_NULL(url->password);
                CHECK_STR(url->whole, rows[i].text);
                CHECK_STR(url->shown, rows[i].text);
                url_free(url);
        }
}

TEST(hosts_ports_users_and_options_are_told_apart)
{
        struct url *url =
                parse("redlock://me%40home:p%3Aw@one:1,two,[::1]:65535,[fe80::1%25eth0]/db%2F1?ttl=3s&prefix=a%26b");

        CHECK_STR(url->scheme, "redlock");
        CHECK_STR(url->user, "me@home");
        CHECK_STR(url->password, "p:w");
        REQUIRE(url->host_count == 4);
        CHECK_STR(url->hosts[0].name, "one");
        CHECK_INT(url->hosts[0].port, 1);
        CHECK_STR(url->hosts[1].name, "two");
        CHECK_INT(url->hosts[1].port, 0);
        CHECK_STR(url->hosts[2].name, "::1");
        CHECK_INT(url->hosts[2].port, 65535);
        CHECK_STR(url->hosts[3].name, "fe80::1%eth0");
        CHECK_STR(url->path, "/db/1");
        REQUIRE(url->option_count == 2);
        CHECK_STR(url_option(url, "ttl"), "3s");
        CHECK_STR(url_option(url, "prefix"), "a&b");
        CHECK_NULL(url_option(url, "pre"));
        url_free(url);
        url = parse("postgres:///db?host=/run/postgresql&empty=");
        CHECK_UINT(url->host_count, 0);
        CHECK_STR(url->path, "/db");
        CHECK_STR(url_option(url, "host"), "/run/postgresql");
        CHECK_STR(url_option(url, "empty"), "");
        url_free(url);
        url = parse("redis://h?a=b=c");
        CHECK_STR(url->path, "");
        CHECK_STR(url_option(url, "a"), "b=c");
        url_free(url);
}

TEST(what_is_shown_has_no_password)
{
        static const struct {
                const char *text;
                const char *shown;
        } rows[] = {
                {"redis://u:secret@h:1/0?a=b", "redis://u@h:1/0?a=b"},
                {"redis://:secret@h", "redis://h"},
                {"redis://u@h", "redis://u@h"},
                {"redis://u:@h", "redis://u@h"},
                {"redis://u:se:cr:et@h", "redis://u@h"},
                {"redis://u:secret@secret@h", "redis://u@h"},
                {"postgres://h/db?password=secret", "postgres://h/db"},
                {"postgres://h/db?a=1&password=secret&b=2", "postgres://h/db?a=1&b=2"},
                {"postgres://h/db?SSLPassword=secret&b=2", "postgres://h/db?b=2"},
                {"postgres://h/db?passw%6frd=secret", "postgres://h/db"},
                {"postgres:///db?", "postgres:///db"},
        };

        for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
                struct url *url = parse(rows[i].text);

                CHECK_STR(url->shown, rows[i].shown);
                CHECK_STR(url->whole, rows[i].text);
                url_free(url);
        }
}

TEST(no_sentence_quotes_what_may_be_a_password)
{
        static const char *const bad[] = {
                "redis://u:sec/ret@h",
                "redis://u:12/secret@h",
                "redis://u:sec?ret@h",
                "redis://u:secret@",
                "redis://u:secret%zz@h",
                "redis://secret:secret",
                "secret@h",
                "redis://u:secret@h:secret",
                "redis://u:secret\n@h",
                "redis://u:sec#ret@h",
                "u+secret@x://h",
                "redis://u:secret%00@h",
        };

        for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
                struct pawl_why why = {0};
                struct url *url = NULL;

                if (url_parse(bad[i], &url, &why) ==
                    PAWL_OK) { /* "redis://u:secret@" has no host, which is for the engine */
                        CHECK_NULL(strstr(url->shown, "sec"));
                        url_free(url);
                        continue;
                }
                CHECK_NULL(strstr(why.text, "secret"));
                CHECK_NULL(strstr(why.text, "ret@"));
        }
}

TEST(what_is_wrong_is_said_in_a_sentence)
{
        check_refused(NULL, PAWL_INVALID, "NULL");
        check_refused("", PAWL_INVALID, "does not begin with a scheme");
        check_refused("local", PAWL_INVALID, "does not begin with a scheme");
        check_refused("/var/lib", PAWL_INVALID, "scheme");
        check_refused(":x", PAWL_INVALID, "scheme");
        check_refused("1redis://h", PAWL_INVALID, "scheme");
        check_refused("re dis://h", PAWL_INVALID, "scheme");
        check_refused("re%64is://h", PAWL_INVALID, "scheme");
        check_refused("redis://h:0", PAWL_INVALID, "port of host 1");
        check_refused("redis://a,h:65536", PAWL_INVALID, "port of host 2");
        check_refused("redis://h:", PAWL_INVALID, "port of host 1");
        check_refused("redis://h:6a", PAWL_INVALID, "port of host 1");
        check_refused("redis://h:+6", PAWL_INVALID, "port of host 1");
        check_refused("redis://h:99999999999999999999", PAWL_INVALID, "port of host 1");
        check_refused("redis://:6379", PAWL_INVALID, "host 1 in the URL is empty");
        check_refused("redis://a,,b", PAWL_INVALID, "host 2 in the URL is empty");
        check_refused("redis://a,", PAWL_INVALID, "host 2 in the URL is empty");
        check_refused("redis://::1", PAWL_INVALID, "brackets");
        check_refused("redis://[::1", PAWL_INVALID, "without its ']'");
        check_refused("redis://[::1]x", PAWL_INVALID, "after its ']'");
        check_refused("redis://[host]", PAWL_INVALID, "not an IPv6 address");
        check_refused("redis://[]", PAWL_INVALID, "not an IPv6 address");
        check_refused("redis://h?ttl", PAWL_INVALID, "option 1 in the URL is not of the form key=value");
        check_refused("redis://h?a=1&&b=2", PAWL_INVALID, "option 2");
        check_refused("redis://h?=1", PAWL_INVALID, "option 1");
        check_refused("redis://h?a=1&a=2", PAWL_INVALID, "the option a twice");
        check_refused("redis://h?a=1&%61=2", PAWL_INVALID, "the option a twice");
        check_refused("local:?passfile=/x&passfile=/y", PAWL_INVALID, "the option passfile twice");
        check_refused("local:/%4", PAWL_INVALID, "write % as %25");
        check_refused("local:/%", PAWL_INVALID, "write % as %25");
        check_refused("local:/%zz", PAWL_INVALID, "write % as %25");
        check_refused("local:/%00", PAWL_INVALID, "control character");
        check_refused("local:/%0a", PAWL_INVALID, "control character");
        check_refused("local:/%7F", PAWL_INVALID, "control character");
        check_refused("local:/a\tb", PAWL_INVALID, "control character at byte 9");
        check_refused("local:/a#b", PAWL_INVALID, "write it %23");
}

TEST(too_much_of_anything_is_refused)
{
        char text[5000];
        struct url *url;

        memset(text, 'x', sizeof(text));
        memcpy(text, "local:/", 7);
        text[4096] = 0;
        url = parse(text);
        CHECK_UINT(strlen(url->path), 4096 - 6);
        url_free(url);
        text[4096] = 'x';
        text[4097] = 0;
        check_refused(text, PAWL_INVALID, "longer than 4096 bytes");

        strcpy(text, "redis://h");
        for (int i = 1; i < URL_HOSTS_MAX; i++)
                strcat(text, ",h");
        url = parse(text);
        CHECK_UINT(url->host_count, URL_HOSTS_MAX);
        url_free(url);
        strcat(text, ",h");
        check_refused(text, PAWL_INVALID, "more than 32 hosts");

        strcpy(text, "local:?");
        for (int i = 0; i < URL_OPTIONS_MAX; i++)
                sprintf(text + strlen(text), "k%d=&", i);
        url = parse(text);
        CHECK_UINT(url->option_count, URL_OPTIONS_MAX);
        url_free(url);
        strcat(text, "x=y");
        check_refused(text, PAWL_INVALID, "more than 32 options");
}

/* ---- passfile= -------------------------------------------------------------------------------------------------- */

static char file_path[512];

/* A URL with a password file of such content and mode. */
static const char *with_passfile(const char *content, size_t size, mode_t mode)
{
        static char text[1024];
        int fd;

        snprintf(file_path, sizeof(file_path), "%s/password", tap_directory());
        unlink(file_path);
        fd = open(file_path, O_WRONLY | O_CREAT | O_EXCL, 0600);
        REQUIRE(fd >= 0);
        REQUIRE(write(fd, content, size) == (ssize_t)size);
        REQUIRE(fchmod(fd, mode) == 0);
        close(fd);
        snprintf(text, sizeof(text), "redis://user@h?a=1&passfile=%s&b=2", file_path);
        return text;
}

TEST(a_password_may_come_from_a_file)
{
        const char *text = with_passfile("se:cr@et\n", 9, 0600);
        struct url *url = parse(text);

        CHECK_STR(url->password, "se:cr@et");
        CHECK_STR(url->user, "user");
        CHECK_NULL(url_option(url, "passfile"));
        CHECK_UINT(url->option_count, 2);
        CHECK_STR(url->shown, text);
        CHECK_NULL(strstr(url->shown, "se:cr"));
        url_free(url);
        url = parse(with_passfile("x\n\n", 3, 0400));
        CHECK_STR(url->password, "x\n");
        url_free(url);
}

TEST(a_password_file_has_its_limits)
{
        char content[5000];
        struct url *url;

        memset(content, 'x', sizeof(content));
        url = parse(with_passfile(content, 4096, 0600));
        CHECK_UINT(strlen(url->password), 4096);
        url_free(url);
        check_refused(with_passfile(content, 4097, 0600), PAWL_INVALID, "longer than 4096");
        check_refused(with_passfile("", 0, 0600), PAWL_INVALID, "is empty");
        check_refused(with_passfile("\n", 1, 0600), PAWL_INVALID, "is empty");
        check_refused(with_passfile("a\0b", 3, 0600), PAWL_INVALID, "NUL");
}

/* In front of the C library's: is it mounted read-only? */
static bool mounted_read_only;

int fstatvfs(int fd, struct statvfs *info)
{
        (void)fd;
        *info = (struct statvfs){.f_flag = mounted_read_only ? ST_RDONLY : 0};
        return 0;
}

TEST(a_password_file_that_others_may_change_or_everybody_may_read_is_refused)
{
        static const mode_t refused[] = {0620, 0602, 0604, 0644, 0444, 0666};
        static const mode_t accepted[] = {0600, 0400, 0440, 0640};

        mounted_read_only = false;
        for (size_t i = 0; i < sizeof(refused) / sizeof(*refused); i++)
                check_refused(with_passfile("x", 1, refused[i]), PAWL_DENIED, "chmod 600");
        for (size_t i = 0; i < sizeof(accepted) / sizeof(*accepted); i++)
                url_free(parse(with_passfile("x", 1, accepted[i])));
}

TEST(a_secret_that_a_container_is_given_is_accepted)
{
        const char *text;

        mounted_read_only = true;
        check_refused(with_passfile("x", 1, 0664), PAWL_DENIED, "others can write");
        if (geteuid() != 0) {
                check_refused(with_passfile("x", 1, 0444), PAWL_DENIED, "everybody can read");
                SKIP("only root can make a file of root's");
        }
        url_free(parse(with_passfile("x", 1, 0444)));
        url_free(parse(with_passfile("x", 1, 0644)));
        text = with_passfile("x", 1, 0444);
        REQUIRE(chown(file_path, 1, 1) == 0);
        check_refused(text, PAWL_DENIED, "everybody can read");
}

TEST(a_password_in_a_variable_is_the_commands_to_read)
{
        struct url *url = parse("redis://u:secret@h?passenv=P&a=1");

        CHECK_STR(url->password, "secret");
        CHECK_STR(url->shown, "redis://u@h?passenv=P&a=1");
        CHECK_UINT(url->option_count, 1);
        url_free(url);
        check_refused("redis://u@h?passenv=PATH", PAWL_INVALID, "does not read the environment");
        check_refused("redis://u:p@h?passenv=A&passenv=B", PAWL_INVALID, "passenv twice");
        check_refused("redis://u:p@h?passenv=A&passfile=/x", PAWL_INVALID, "choose one");
}

TEST(a_password_file_is_a_file)
{
        char text[1024];
        const char *directory = tap_directory();

        snprintf(text, sizeof(text), "redis://h?passfile=%s/none", directory);
        check_refused(text, PAWL_SYSTEM, "No such file");
        snprintf(text, sizeof(text), "redis://h?passfile=%s", directory);
        check_refused(text, PAWL_INVALID, "not a regular file");
        snprintf(text, sizeof(text), "%s/fifo", directory);
        REQUIRE(mkfifo(text, 0600) == 0);
        snprintf(text, sizeof(text), "redis://h?passfile=%s/fifo", directory);
        check_refused(text, PAWL_INVALID, "not a regular file");
        check_refused("redis://u:p@h?passfile=/dev/null", PAWL_INVALID, "both a password and passfile=");
        check_refused("redis://h?passfile=/dev/null", PAWL_INVALID, "not a regular file");
}

/* In front of the C library's, to see what is wiped. */
static const char *wiped;
static size_t wiped_size;

void explicit_bzero(void *bytes, size_t size)
{
        wiped = bytes;
        wiped_size = size;
        memset(bytes, 0, size);
        __asm__ __volatile__("" : : "r"(bytes) : "memory");
}

TEST(a_password_is_wiped_before_its_memory_is_given_back)
{
        struct url *url = parse(with_passfile("secret", 6, 0600));
        const char *password = url->password;
        const char *whole = url->whole;
        const char *shown = url->shown;

        url_free(url);
        CHECK(wiped <= password && password + 7 <= wiped + wiped_size);
        CHECK(wiped <= whole && shown < wiped + wiped_size);
        wiped = NULL;
        CHECK_INT(url_parse("redis://u:secret@h:x", &url, NULL), PAWL_INVALID);
        CHECK(wiped != NULL);
}

/* ---- options ---------------------------------------------------------------------------------------------------- */

TEST(an_option_may_be_a_duration)
{
        struct url *url = parse("local:?ttl=1.5s&bad=soon");
        struct pawl_why why;
        int64_t value = 42;

        CHECK_INT(url_duration(url, "none", &value, &why), PAWL_OK);
        CHECK_INT(value, 42);
        CHECK_INT(url_duration(url, "bad", &value, &why), PAWL_INVALID);
        CHECK_INT(value, 42);
        CHECK_HAS(why.text, "bad=soon in the URL is not a duration");
        CHECK_INT(url_duration(url, "ttl", &value, &why), PAWL_OK);
        CHECK_INT(value, 1500000000);
        url_free(url);
}

TEST(an_option_that_is_not_known_is_named)
{
        static const char *const known[] = {"ttl", "prefix", NULL};
        static const char *const none[] = {NULL};
        struct url *url = parse("local:?ttl=1s&tll=2s");
        struct pawl_why why;

        CHECK_INT(url_only(url, known, &why), PAWL_INVALID);
        CHECK_HAS(why.text, "tll");
        url_free(url);
        url = parse("local:?prefix=x");
        CHECK_INT(url_only(url, known, &why), PAWL_OK);
        CHECK_INT(url_only(url, none, &why), PAWL_INVALID);
        url_free(url);
        url_free(NULL);
}

static int read_flag(const char *text, bool *value, struct pawl_why *why)
{
        char whole[128];
        struct url *url;
        int code;

        snprintf(whole, sizeof(whole), "redis://h?insecure=%s", text);
        url = parse(whole);
        code = url_flag(url, "insecure", value, why);
        url_free(url);
        return code;
}

TEST(an_option_may_be_yes_or_no_and_is_nothing_else)
{
        static const char *const yes[] = {"yes", "true", "on", "1", "YES", "True", "oN"};
        static const char *const no[] = {"no", "false", "off", "0", "NO", "False", "oFF"};
        static const char *const neither[] = {"",       "y",      "n",        "2",      "-1",  "00",
                                              "yes%20", "%20yes", "maybe",    "o",      "tru", "of",
                                              "falsee", "enable", "disabled", "yes,no", "1.0", "n%6f%2e"};
        struct pawl_why why;

        for (size_t i = 0; i < sizeof(yes) / sizeof(*yes); i++) {
                bool value = false;

                CHECK_INT(read_flag(yes[i], &value, &why), PAWL_OK);
                CHECK(value);
                CHECK_INT(read_flag(no[i], &value, &why), PAWL_OK);
                CHECK(!value);
        }
        for (size_t i = 0; i < sizeof(neither) / sizeof(*neither); i++) {
                bool value = i % 2;

                if (!CHECK_INT(read_flag(neither[i], &value, &why), PAWL_INVALID))
                        NOTE("insecure=%s is read as %d", neither[i], value);
                CHECK_INT(value, i % 2);
                CHECK_HAS(why.text, "insecure=");
                CHECK_HAS(why.text, "neither yes nor no");
        }
}

TEST(an_option_that_is_not_there_leaves_what_was_set)
{
        struct url *url = parse("redis://h?other=1");
        struct pawl_why why;
        bool set = true, unset = false;
        int64_t number = 7;

        CHECK_INT(url_flag(url, "insecure", &set, &why), PAWL_OK);
        CHECK_INT(url_flag(url, "insecure", &unset, &why), PAWL_OK);
        CHECK(set && !unset);
        CHECK_INT(url_number(url, "db", 0, 5, &number, &why), PAWL_OK);
        CHECK_INT(number, 7);
        url_free(url);
}

TEST(an_option_may_be_a_number_in_its_range_and_nothing_else)
{
        static const struct {
                const char *text;
                int64_t value; /* -1: refused */
        } rows[] = {{"2", 2},
                    {"10", 10},
                    {"007", 7},
                    {"1", -1},
                    {"11", -1},
                    {"", -1},
                    {"-2", -1},
                    {"+2", -1},
                    {"2x", -1},
                    {"%202", -1},
                    {"2%20", -1},
                    {"0x2", -1},
                    {"2.", -1},
                    {"2e0", -1},
                    {"18446744073709551618", -1},
                    {"99999999999999999999999999", -1}};
        struct pawl_why why;
        int64_t most = 0;

        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                char text[128];
                int64_t value = -1;
                struct url *url;

                snprintf(text, sizeof(text), "redis://h?db=%s", rows[i].text);
                url = parse(text);
                if (!CHECK_INT(url_number(url, "db", 2, 10, &value, &why), rows[i].value < 0 ? PAWL_INVALID : PAWL_OK))
                        NOTE("%s", text);
                CHECK_INT(value, rows[i].value);
                if (rows[i].value < 0)
                        CHECK_HAS(why.text, "in the URL is not a number from 2 to 10");
                url_free(url);
        }
        CHECK(number_parse("9223372036854775807", 0, INT64_MAX, &most) && most == INT64_MAX);
        CHECK(!number_parse("9223372036854775808", 0, INT64_MAX, &most));
}

TEST(an_option_may_be_one_of_two_words)
{
        struct url *url = parse("redis://h?pooler=session&recipe=queue");
        struct pawl_why why;
        bool second = false;

        CHECK_INT(url_choice(url, "pooler", "none", "session", &second, &why), PAWL_OK);
        CHECK(second);
        CHECK_INT(url_choice(url, "unsaid", "none", "session", &second, &why), PAWL_OK);
        CHECK(!second);
        CHECK_INT(url_choice(url, "recipe", "lock", "readwrite", &second, &why), PAWL_INVALID);
        CHECK_STR(why.text, "recipe=queue in the URL is neither lock nor readwrite");
        url_free(url);
}

TEST(a_timeout_and_a_slack_have_their_limits)
{
        static const struct {
                const char *url;
                int timeout, slack;
        } rows[] = {
                {"redis://h?timeout=10ms&slack=60s", PAWL_OK, PAWL_OK},
                {"redis://h?timeout=9ms&slack=61s", PAWL_INVALID, PAWL_INVALID},
                {"redis://h?timeout=1h&slack=0s", PAWL_OK, PAWL_OK},
                {"redis://h?timeout=61m&slack=long", PAWL_INVALID, PAWL_INVALID},
        };
        struct url *url = parse("redis://h");
        struct pawl_why why;
        int64_t value;

        CHECK_INT(url_timeout(url, &value, &why), PAWL_OK);
        CHECK_INT(value, 5 * SECOND);
        CHECK_INT(url_slack(url, &value, &why), PAWL_OK);
        CHECK_INT(value, SECOND);
        url_free(url);
        for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
                url = parse(rows[i].url);
                CHECK_INT(url_timeout(url, &value, &why), rows[i].timeout);
                CHECK_INT(url_slack(url, &value, &why), rows[i].slack);
                url_free(url);
        }
}

TEST(a_server_is_written_as_people_write_it)
{
        char *name = url_where("store.example", 7), *address = url_where("::1", 65535);

        CHECK_STR(name, "store.example:7");
        CHECK_STR(address, "[::1]:65535");
        free(name);
        free(address);
}
