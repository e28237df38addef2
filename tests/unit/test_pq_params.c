/* test_pq_params.c - what libpq is told: what the URL says, and what it must not look for elsewhere. */
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/pq_params.h"
#include "tap.h"

static const char *const own[] = {"schema", "ttl", NULL};

static struct pq_params make(const char *text)
{
        struct pq_params params;
        struct pawl_why why = {0};
        struct url *url = NULL;

        REQUIRE_INT(url_parse(text, &url, &why), PAWL_OK);
        if (!CHECK_INT(pq_params_make(url, own, &params, &why), PAWL_OK))
                NOTE("%s: %s", text, why.text);
        url_free(url);
        return params;
}

static void check_said(const char *text, const char *keyword, const char *value)
{
        struct pq_params params = make(text);

        if (!CHECK_STR(pq_params_get(&params, keyword), value))
                NOTE("%s in %s", keyword, text);
        pq_params_free(&params);
}

static void check_refused(const char *text, const char *sentence)
{
        struct pq_params params;
        struct pawl_why why = {0};
        struct url *url = NULL;

        REQUIRE_INT(url_parse(text, &url, &why), PAWL_OK);
        if (!CHECK_INT(pq_params_make(url, own, &params, &why), PAWL_INVALID))
                NOTE("%s", text);
        CHECK_HAS(why.text, sentence);
        pq_params_free(&params);
        url_free(url);
}

TEST(what_the_url_says_is_said)
{
        const char *text = "postgres://anna:s%40cret@db.example:6543/orders?connect_timeout=3&application_name=shop";

        check_said(text, "host", "db.example");
        check_said(text, "port", "6543");
        check_said(text, "user", "anna");
        check_said(text, "password", "s@cret");
        check_said(text, "dbname", "orders");
        check_said(text, "connect_timeout", "3");
        check_said(text, "application_name", "shop");
}

TEST(the_lists_are_ended_by_null_and_each_keyword_stands_once)
{
        struct pq_params params = make("postgres://u:p@h/d?sslmode=require&options=-c%20geqo%3Doff");
        uint32_t count = 0;

        for (; params.keywords[count]; count++) {
                REQUIRE(params.values[count] != NULL);
                CHECK(*params.values[count]);
                for (uint32_t i = 0; i < count; i++)
                        CHECK(strcmp(params.keywords[i], params.keywords[count]) != 0);
        }
        CHECK_UINT(count, params.count);
        CHECK_NULL(params.values[count]);
        CHECK_STR(pq_params_get(&params, "options"), "-c geqo=off");
        pq_params_free(&params);
}

TEST(what_the_url_does_not_say_has_a_value_all_the_same)
{
        static const char *const said[] = {"user",           "password",
                                           "passfile",       "host",
                                           "port",           "dbname",
                                           "sslmode",        "sslcert",
                                           "sslcrl",         "sslrootcert",
                                           "gssencmode",     "target_session_attrs",
                                           "sslsni",         "connect_timeout",
                                           "sslcompression", "ssl_min_protocol_version",
                                           "krbsrvname",     NULL};
        struct pq_params params = make("postgres:");

        for (size_t i = 0; said[i]; i++)
                if (!CHECK(pq_params_get(&params, said[i]) != NULL))
                        NOTE("%s", said[i]);
        CHECK_NULL(pq_params_get(&params, "options"));
        CHECK(!params.has_password);
        pq_params_free(&params);
        check_said("postgres:", "client_encoding", "UTF8");
        check_said("postgres:", "application_name", "pawl");
        check_said("postgres:", "keepalives", "1");
        check_said("postgres:", "tcp_user_timeout", "10000");
        check_said("postgres:", "channel_binding", "prefer");
        check_said("postgres://h?tcp_user_timeout=77", "tcp_user_timeout", "77");
}

TEST(the_user_is_ours_and_the_database_is_the_users_if_the_url_names_none)
{
        const struct passwd *me = getpwuid(geteuid());

        if (!me)
                SKIP("we have no name");
        check_said("postgres://h", "user", me->pw_name);
        check_said("postgres://h", "dbname", me->pw_name);
        check_said("postgres://anna@h", "dbname", "anna");
        check_said("postgres://anna@h/", "dbname", "anna");
        check_said("postgres://h/d?user=bert", "user", "bert");
        check_said("postgres://bert@h?dbname=a%3Db", "dbname", "a=b");
}

TEST(hosts_are_a_list_with_their_ports_and_the_one_that_may_be_written_is_meant)
{
        check_said("postgres://a,b:6000,c/d", "host", "a,b,c");
        check_said("postgres://a,b:6000,c/d", "port", "5432,6000,5432");
        check_said("postgres://a,b/d", "port", "5432");
        check_said("postgres://a,b/d?port=7000", "port", "7000");
        check_said("postgres://a,b/d", "target_session_attrs", "read-write");
        check_said("postgres://a/d", "target_session_attrs", "any");
        check_said("postgres://a,b/d?target_session_attrs=primary", "target_session_attrs", "primary");
        check_said("postgres://[::1]:5000/d", "host", "::1");
}

TEST(without_a_host_the_socket_is_meant)
{
        check_said("postgres:///d", "host", "/var/run/postgresql");
        check_said("postgres:///d?host=/tmp/sockets", "host", "/tmp/sockets");
        check_said("postgres://%2Ftmp%2Fsockets/d", "host", "/tmp/sockets");
}

TEST(addresses_are_said_twice_so_that_nothing_leads_elsewhere)
{
        struct pq_params params = make("postgres://10.0.0.1,db/d");

        CHECK_NULL(pq_params_get(&params, "hostaddr"));
        pq_params_free(&params);
        check_said("postgres://10.0.0.1,[::1]/d", "hostaddr", "10.0.0.1,::1");
        check_said("postgres://db/d?hostaddr=10.0.0.7", "hostaddr", "10.0.0.7");
}

TEST(another_machine_must_prove_who_it_is_unless_the_url_says_otherwise)
{
        static const char *const there[] = {"postgres://db.example/d",
                                            "postgres://10.0.0.1/d",
                                            "postgres://localhost,db/d",
                                            "postgres://localhost.evil/d",
                                            "postgres://127.0.0.1.evil/d",
                                            "postgres://[fe80::1]/d",
                                            "postgres:///d?host=db",
                                            "postgres://localhost/d?hostaddr=10.0.0.1",
                                            "postgres://db,localhost/d?hostaddr=,127.0.0.1",
                                            "postgres://localhost,db/d?hostaddr=127.0.0.1,",
                                            NULL};
        static const char *const here[] = {"postgres://localhost/d", "postgres://127.0.0.1/d", "postgres://127.3.2.1/d",
                                           "postgres://[::1]/d",     "postgres:///d",          NULL};

        for (size_t i = 0; there[i]; i++)
                check_said(there[i], "sslmode", "verify-full");
        for (size_t i = 0; here[i]; i++)
                check_said(here[i], "sslmode", "prefer");
        check_said("postgres://db/d?sslmode=require", "sslmode", "require");
        check_said("postgres://db/d?insecure=1", "sslmode", "prefer");
        check_said("postgres://db/d?insecure=no", "sslmode", "verify-full");
        check_said("postgres://db/d?insecure=FALSE", "sslmode", "verify-full");
        check_refused("postgres://db/d?insecure=1&sslmode=verify-full", "both insecure= and sslmode=");
        check_refused("postgres://db/d?insecure=none", "insecure=none in the URL is neither yes nor no");
}

TEST(values_that_libpq_would_take_for_something_else_are_refused)
{
        check_refused("postgres://db/d?sslmode=verify_full",
                      "sslmode=verify_full in the URL is none of disable, allow");
        check_refused("postgres://db/d?sslmode=Require", "sslmode=Require");
        check_refused("postgres://db/d?channel_binding=yes", "channel_binding=yes");
        check_refused("postgres://db/d?target_session_attrs=master", "none of any, read-write");
        check_refused("postgres://db/d?keepalives=2", "keepalives=2 in the URL is neither yes nor no");
        check_refused("postgres://db/d?sslsni=maybe", "sslsni=maybe");
        check_refused("postgres://db/d?connect_timeout=5s", "connect_timeout=5s in the URL is not a number");
        check_refused("postgres://db/d?tcp_user_timeout=-1", "tcp_user_timeout=-1");
        check_refused("postgres://db/d?keepalives_idle=4294967296", "keepalives_idle=4294967296");
        check_said("postgres://db/d?keepalives=off", "keepalives", "0");
        check_said("postgres://db/d?sslsni=yes", "sslsni", "1");
        check_said("postgres://db/d?connect_timeout=3", "connect_timeout", "3");
}

TEST(certificates_are_the_urls_or_the_systems_and_never_those_of_a_home_directory)
{
        struct pq_params params = make("postgres://db/d");

        CHECK_HAS(pq_params_get(&params, "sslrootcert"), "/etc/");
        CHECK_STR(pq_params_get(&params, "sslcert"), "/dev/null/none");
        CHECK_STR(pq_params_get(&params, "passfile"), "/dev/null/none");
        CHECK_NULL(pq_params_get(&params, "sslkey"));
        pq_params_free(&params);
        check_said("postgres://db/d?sslrootcert=/ca.pem", "sslrootcert", "/ca.pem");
        check_said("postgres://db/d?sslmode=require", "sslrootcert", "/dev/null/none");
        check_said("postgres://db/d?sslcert=/c.pem", "sslkey", "/c.pem");
        check_said("postgres://db/d?sslcert=/c.pem&sslkey=/k.pem", "sslkey", "/k.pem");
}

TEST(options_of_ours_do_not_reach_libpq_and_unknown_ones_are_named)
{
        struct pq_params params = make("postgresql://h/d?schema=x&ttl=3s&insecure=1");

        CHECK_NULL(pq_params_get(&params, "schema"));
        CHECK_NULL(pq_params_get(&params, "ttl"));
        CHECK_NULL(pq_params_get(&params, "insecure"));
        pq_params_free(&params);
        check_refused("postgres://h/d?sslmod=require", "postgres: URLs do not have the option sslmod");
        check_refused("postgres://h/d?client_encoding=LATIN1", "client_encoding");
        check_refused("postgres://h/d?service=x", "service");
        check_refused("postgres://h/d?replication=1", "replication");
        check_refused("postgres://h/d?sslmode=", "is empty");
}

TEST(what_is_said_twice_is_refused)
{
        check_refused("postgres://a/d?host=b", "its host twice");
        check_refused("postgres://a:1/d?port=2", "its port twice");
        check_refused("postgres://u@a/d?user=v", "its user twice");
        check_refused("postgres://a/d?dbname=e", "its dbname twice");
        check_refused("postgres://u:p@a/d?password=q", "its password twice");
}

TEST(a_host_cannot_smuggle_another_and_a_path_is_a_database)
{
        check_refused("postgres://a%2Cb/d", "comma");
        check_refused("postgres:orders", "USER@HOST/DATABASE");
        check_said("postgres://a/host%3Db%20dbname%3Dc", "dbname", "host=b dbname=c");
}

TEST(one_may_be_set_again)
{
        struct pq_params params = make("postgres://db/d");
        uint32_t count = params.count;

        CHECK_INT(pq_params_set(&params, "hostaddr", "10.0.0.1", NULL), PAWL_OK);
        CHECK_INT(pq_params_set(&params, "hostaddr", "10.0.0.2", NULL), PAWL_OK);
        CHECK_UINT(params.count, count + 1);
        CHECK_STR(pq_params_get(&params, "hostaddr"), "10.0.0.2");
        for (int i = 0; i < 20000; i++)
                if (pq_params_set(&params, "hostaddr", "10.0.0.2", NULL) != PAWL_OK)
                        break;
        CHECK_INT(pq_params_set(&params, "hostaddr", "10.0.0.2", NULL), PAWL_INVALID);
        pq_params_free(&params);
        pq_params_free(&params);
}

TEST(the_longest_url_with_the_longest_password_fits)
{
        char text[4097];
        char password[4097];
        int at = snprintf(text, sizeof(text), "postgres://h/d?passfile=%s/p&options=", tap_directory());
        char path[600];
        FILE *file;

        memset(text + at, 'x', sizeof(text) - (size_t)at - 1);
        text[sizeof(text) - 1] = 0;
        memset(password, 'p', sizeof(password) - 1);
        password[sizeof(password) - 1] = 0;
        snprintf(path, sizeof(path), "%s/p", tap_directory());
        umask(077);
        file = fopen(path, "w");
        REQUIRE(file && fputs(password, file) >= 0 && fclose(file) == 0);
        check_said(text, "password", password);
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
        struct pq_params params = make("postgres://u:secret@h/d");
        const char *password = pq_params_get(&params, "password");

        CHECK(params.has_password);
        pq_params_free(&params);
        CHECK(wiped <= password && password + 7 <= wiped + wiped_size);
}
