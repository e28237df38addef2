/* test_net_tls.c - TLS against a server of our own in another thread, with certificates made here for each test. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

#include "net_user.h"

/* ---- certificates ------------------------------------------------------------------------------------------------- */

struct identity {
        EVP_PKEY *key;
        X509 *certificate;
        char cert_file[300];
        char key_file[300];
};

static void extend(X509 *certificate, int what, const char *value)
{
        X509_EXTENSION *extension = X509V3_EXT_conf_nid(NULL, NULL, what, value);

        REQUIRE(extension != NULL);
        REQUIRE(X509_add_ext(certificate, extension, -1) == 1);
        X509_EXTENSION_free(extension);
}

static void write_files(struct identity *identity, const char *name)
{
        FILE *file;

        snprintf(identity->cert_file, sizeof(identity->cert_file), "%s/%s.crt", tap_directory(), name);
        snprintf(identity->key_file, sizeof(identity->key_file), "%s/%s.key", tap_directory(), name);
        file = fopen(identity->cert_file, "w");
        REQUIRE(file != NULL);
        REQUIRE(PEM_write_X509(file, identity->certificate) == 1);
        fclose(file);
        file = fopen(identity->key_file, "w");
        REQUIRE(file != NULL);
        REQUIRE(PEM_write_PrivateKey(file, identity->key, NULL, NULL, 0, NULL, NULL) == 1);
        fclose(file);
}

/* issuer NULL: signed by itself, a CA. days: until it is no longer valid. */
static void make_identity(struct identity *identity, const char *name, const char *called,
                          const struct identity *issuer, int days)
{
        X509 *certificate = X509_new();
        X509_NAME *subject = X509_NAME_new();
        static long serial = 1;

        identity->key = EVP_EC_gen("P-256");
        identity->certificate = certificate;
        REQUIRE(identity->key && certificate && subject);
        X509_set_version(certificate, X509_VERSION_3);
        ASN1_INTEGER_set(X509_get_serialNumber(certificate), serial++);
        X509_gmtime_adj(X509_getm_notBefore(certificate), -10 * 86400L);
        X509_gmtime_adj(X509_getm_notAfter(certificate), days * 86400L);
        X509_NAME_add_entry_by_txt(subject, "CN", MBSTRING_ASC, (const unsigned char *)name, -1, -1, 0);
        X509_set_subject_name(certificate, subject);
        X509_set_issuer_name(certificate, issuer ? X509_get_subject_name(issuer->certificate) : subject);
        X509_set_pubkey(certificate, identity->key);
        extend(certificate, NID_basic_constraints, issuer ? "critical,CA:FALSE" : "critical,CA:TRUE");
        if (called)
                extend(certificate, NID_subject_alt_name, called);
        REQUIRE(X509_sign(certificate, issuer ? issuer->key : identity->key, EVP_sha256()) > 0);
        X509_NAME_free(subject);
        write_files(identity, name);
}

static void free_identity(struct identity *identity)
{
        X509_free(identity->certificate);
        EVP_PKEY_free(identity->key);
}

/* ---- the server --------------------------------------------------------------------------------------------------- */

enum ending { WAITS, SAYS_GOODBYE, CUTS };

struct server {
        int listener;
        SSL_CTX *context;
        const char *greeting; /* said as soon as it may, or NULL */
        bool greeting_only;   /* then it ends: how, says ending; else it echoes until the other side ends */
        enum ending ending;
        pthread_t thread;
        bool shook, heard_goodbye;
        char asked_for[100];  /* by SNI */
        const char *protocol; /* chosen by ALPN if it is offered; NULL: it does not know ALPN */
        size_t echoed;
};

static void echo(struct server *server, SSL *ssl)
{
        char bytes[20000];
        int n;

        while ((n = SSL_read(ssl, bytes, sizeof(bytes))) > 0) {
                if (SSL_write(ssl, bytes, n) <= 0)
                        return;
                server->echoed += (size_t)n;
        }
        server->heard_goodbye = SSL_get_error(ssl, n) == SSL_ERROR_ZERO_RETURN;
}

static void *serve(void *arg)
{
        struct server *server = arg;
        int fd = accept4(server->listener, NULL, NULL, SOCK_CLOEXEC);
        SSL *ssl = SSL_new(server->context);
        const char *name;

        SSL_set_fd(ssl, fd);
        server->shook = SSL_accept(ssl) == 1;
        name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
        snprintf(server->asked_for, sizeof(server->asked_for), "%s", name ? name : "");
        if (server->shook && server->greeting)
                SSL_write(ssl, server->greeting, (int)strlen(server->greeting));
        if (server->shook && !server->greeting_only)
                echo(server, ssl);
        if (server->shook && server->ending == SAYS_GOODBYE)
                SSL_shutdown(ssl);
        SSL_free(ssl);
        close(fd);
        ERR_clear_error();
        return NULL;
}

static int choose(SSL *ssl, const unsigned char **chosen, unsigned char *length, const unsigned char *offered,
                  unsigned size, void *arg)
{
        const struct server *server = arg;

        (void)ssl;
        for (unsigned i = 0; i < size; i += offered[i] + 1U) {
                if (offered[i] != strlen(server->protocol) ||
                    memcmp(offered + i + 1, server->protocol, offered[i]) != 0)
                        continue;
                *chosen = offered + i + 1;
                *length = offered[i];
                return SSL_TLSEXT_ERR_OK;
        }
        return SSL_TLSEXT_ERR_ALERT_FATAL;
}

static void start_server(struct server *server, struct user *user, const struct identity *identity)
{
        sigset_t pipe, before;

        server->context = SSL_CTX_new(TLS_server_method());
        REQUIRE(server->context != NULL);
        REQUIRE(SSL_CTX_use_certificate(server->context, identity->certificate) == 1);
        REQUIRE(SSL_CTX_use_PrivateKey(server->context, identity->key) == 1);
        if (server->protocol)
                SSL_CTX_set_alpn_select_cb(server->context, choose, server);
        server->listener = listen_tcp(&user->target.port, 5);
        sigemptyset(&pipe);
        sigaddset(&pipe, SIGPIPE);
        pthread_sigmask(SIG_BLOCK, &pipe, &before); /* the server's own writes, not ours */
        REQUIRE_INT(pthread_create(&server->thread, NULL, serve, server), 0);
        pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void end_server(struct server *server)
{
        pthread_join(server->thread, NULL);
        close(server->listener);
        SSL_CTX_free(server->context);
}

/* ---- one connection between the two ------------------------------------------------------------------------------- */

struct scene {
        struct user user;
        struct server server;
        struct identity ca, us, them;
        struct net_tls_options options;
};

/* A server that is called so by a certificate which is valid for so many days, and a user that trusts its CA. */
static void set_scene(struct scene *scene, const char *called, int days)
{
        memset(scene, 0, sizeof(*scene));
        begin(&scene->user);
        make_identity(&scene->ca, "ca", NULL, NULL, 100);
        make_identity(&scene->them, "them", called, &scene->ca, days);
        scene->options.ca_file = scene->ca.cert_file;
}

static void open_tls(struct scene *scene)
{
        struct pawl_why why = {0};

        if (!CHECK_INT(net_tls_open(&scene->options, &scene->user.target.tls, &why), PAWL_OK))
                NOTE("%s", why.text);
        REQUIRE(scene->user.target.tls != NULL);
}

static void play(struct scene *scene)
{
        open_tls(scene);
        start_server(&scene->server, &scene->user, &scene->them);
        connect_within(&scene->user, 30 * SECOND);
        TURN_UNTIL(scene->user.ups + scene->user.downs > 0);
}

static void clear_scene(struct scene *scene)
{
        net_close(&scene->user.net);
        if (scene->server.context)
                end_server(&scene->server);
        net_tls_close(scene->user.target.tls);
        free_identity(&scene->ca);
        free_identity(&scene->us);
        free_identity(&scene->them);
        CHECK_UINT(ERR_peek_error(), 0); /* nothing of ours in the program's queue */
        end(&scene->user);
}

static void converse(struct scene *scene)
{
        size_t before = scene->user.size;

        if (scene->user.downs > 0)
                NOTE("%s", scene->user.why.text);
        REQUIRE_INT(scene->user.ups, 1);
        say(&scene->user, "hello");
        net_flush(&scene->user.net);
        TURN_UNTIL(scene->user.size == before + 5);
        CHECK_STR(scene->user.said + before, "hello");
}

static void expect_refusal(struct scene *scene, int code, const char *sentence)
{
        CHECK_INT(scene->user.ups, 0);
        CHECK_INT(scene->user.downs, 1);
        CHECK_INT(scene->user.why.code, code);
        CHECK_HAS(scene->user.why.text, sentence);
}

/* ---- who it is ---------------------------------------------------------------------------------------------------- */

TEST(a_server_with_a_good_certificate_for_its_address_is_spoken_to_and_told_goodbye)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        play(&scene);
        CHECK_INT(scene.user.ups, 1);
        converse(&scene);
        net_close(&scene.user.net);
        pthread_join(scene.server.thread, NULL);
        CHECK(scene.server.heard_goodbye);
        CHECK_STR(scene.server.asked_for, ""); /* an address is no server name */
        close(scene.server.listener);
        SSL_CTX_free(scene.server.context);
        scene.server.context = NULL;
        clear_scene(&scene);
}

TEST(a_server_is_asked_for_by_its_name_and_checked_by_it)
{
        struct scene scene;

        set_scene(&scene, "DNS:localhost", 10);
        scene.user.target.host = "localhost";
        play(&scene);
        converse(&scene);
        net_close(&scene.user.net);
        end_server(&scene.server);
        scene.server.context = NULL;
        CHECK_STR(scene.server.asked_for, "localhost");
        clear_scene(&scene);
}

TEST(another_name_may_be_expected_than_the_one_that_is_connected_to)
{
        struct scene scene;

        set_scene(&scene, "DNS:db.example", 10);
        scene.options.server_name = "db.example.";
        play(&scene);
        converse(&scene);
        net_close(&scene.user.net);
        end_server(&scene.server);
        scene.server.context = NULL;
        CHECK_STR(scene.server.asked_for, "db.example");
        clear_scene(&scene);
}

TEST(a_server_that_speaks_the_protocol_that_was_asked_for_is_spoken_to)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        scene.options.protocol = "h2";
        scene.server.protocol = "h2";
        play(&scene);
        converse(&scene);
        clear_scene(&scene);
}

TEST(a_server_that_speaks_another_protocol_inside_is_not)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        scene.options.protocol = "h2";
        scene.server.protocol = "http/1.1";
        play(&scene);
        expect_refusal(&scene, PAWL_UNREACHABLE, "it speaks TLS, but not h2 inside it");
        clear_scene(&scene);
}

TEST(a_server_that_does_not_say_what_it_speaks_inside_is_not)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        scene.options.protocol = "h2";
        play(&scene);
        expect_refusal(&scene, PAWL_UNREACHABLE, "it speaks TLS, but not h2 inside it");
        clear_scene(&scene);
}

TEST(a_certificate_for_another_name_is_refused)
{
        struct scene scene;

        set_scene(&scene, "DNS:other.example", 10);
        scene.options.server_name = "db.example";
        play(&scene);
        expect_refusal(&scene, PAWL_DENIED, "the certificate of db.example is not valid: hostname mismatch");
        clear_scene(&scene);
}

TEST(a_certificate_for_another_address_is_refused)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.2,DNS:127.0.0.1", 10);
        play(&scene);
        expect_refusal(&scene, PAWL_DENIED, "the certificate of 127.0.0.1 is not valid: IP address mismatch");
        clear_scene(&scene);
}

TEST(a_certificate_of_a_CA_that_is_not_ours_is_refused)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        make_identity(&scene.us, "another", NULL, NULL, 100);
        scene.options.ca_file = scene.us.cert_file;
        play(&scene);
        expect_refusal(&scene, PAWL_DENIED, "the certificate of 127.0.0.1 is not valid: unable to get");
        clear_scene(&scene);
}

TEST(a_certificate_the_system_does_not_know_is_refused)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        scene.options.ca_file = NULL;
        play(&scene);
        expect_refusal(&scene, PAWL_DENIED, "the certificate of 127.0.0.1 is not valid: unable to get");
        clear_scene(&scene);
}

TEST(an_expired_certificate_is_refused)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", -1);
        play(&scene);
        expect_refusal(&scene, PAWL_DENIED, "is not valid: certificate has expired");
        clear_scene(&scene);
}

TEST(who_asks_for_no_check_gets_none)
{
        struct scene scene;

        set_scene(&scene, "DNS:other.example", -1);
        scene.options.insecure = true;
        scene.options.ca_file = NULL;
        play(&scene);
        converse(&scene);
        clear_scene(&scene);
}

TEST(a_server_that_knows_nothing_newer_than_TLS_1_1_is_refused)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        open_tls(&scene);
        start_server(&scene.server, &scene.user, &scene.them);
        SSL_CTX_set_security_level(scene.server.context, 0);
        SSL_CTX_set_min_proto_version(scene.server.context, TLS1_VERSION);
        SSL_CTX_set_max_proto_version(scene.server.context, TLS1_1_VERSION);
        connect_within(&scene.user, 30 * SECOND);
        TURN_UNTIL(scene.user.ups + scene.user.downs > 0);
        expect_refusal(&scene, PAWL_UNREACHABLE, "TLS failed");
        clear_scene(&scene);
}

/* ---- who we are --------------------------------------------------------------------------------------------------- */

static void ask_for_certificate(struct scene *scene, int version)
{
        open_tls(scene);
        start_server(&scene->server, &scene->user, &scene->them);
        REQUIRE(SSL_CTX_load_verify_file(scene->server.context, scene->ca.cert_file) == 1);
        SSL_CTX_set_verify(scene->server.context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
        SSL_CTX_set_max_proto_version(scene->server.context, version);
        connect_within(&scene->user, 30 * SECOND);
        TURN_UNTIL(scene->user.ups + scene->user.downs > 0);
}

TEST(a_server_that_wants_our_certificate_gets_it)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        make_identity(&scene.us, "us", NULL, &scene.ca, 10);
        scene.options.cert_file = scene.us.cert_file;
        scene.options.key_file = scene.us.key_file;
        ask_for_certificate(&scene, 0);
        converse(&scene);
        clear_scene(&scene);
}

TEST(a_server_that_misses_our_certificate_says_so_in_the_handshake_of_TLS_1_2)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        ask_for_certificate(&scene, TLS1_2_VERSION);
        expect_refusal(&scene, PAWL_DENIED, "client certificate");
        clear_scene(&scene);
}

TEST(a_server_that_misses_our_certificate_says_so_after_the_handshake_of_TLS_1_3)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        ask_for_certificate(&scene, TLS1_3_VERSION);
        if (scene.user.ups == 1) {
                say(&scene.user, "hello");
                net_flush(&scene.user.net);
        }
        TURN_UNTIL(scene.user.downs == 1);
        CHECK_INT(scene.user.why.code, PAWL_DENIED);
        CHECK_HAS(scene.user.why.text, "does not accept our certificate: tlsv13 alert certificate required");
        clear_scene(&scene);
}

TEST(a_certificate_of_ours_that_the_server_does_not_know_is_refused_in_a_sentence)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        make_identity(&scene.us, "us", NULL, NULL, 10);
        scene.options.cert_file = scene.us.cert_file;
        scene.options.key_file = scene.us.key_file;
        ask_for_certificate(&scene, TLS1_3_VERSION);
        TURN_UNTIL(scene.user.downs == 1);
        CHECK_INT(scene.user.why.code, PAWL_DENIED);
        CHECK_HAS(scene.user.why.text, "does not accept our certificate");
        clear_scene(&scene);
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

static void expect_bad_files(const struct net_tls_options *options, int code, const char *file, const char *reason)
{
        struct net_tls *tls = NULL;
        struct pawl_why why = {0};

        CHECK_INT(net_tls_open(options, &tls, &why), code);
        CHECK_INT(why.code, code);
        CHECK_HAS(why.text, file);
        CHECK_HAS(why.text, reason);
        CHECK_NULL(tls);
        CHECK_UINT(ERR_peek_error(), 0);
}

static void write_protected_key(const struct identity *identity, const char *path)
{
        FILE *file = fopen(path, "w");
        const unsigned char *secret = (const unsigned char *)"secret";

        REQUIRE(file != NULL);
        REQUIRE(PEM_write_PrivateKey(file, identity->key, EVP_aes_128_cbc(), secret, 6, NULL, NULL) == 1);
        fclose(file);
}

TEST(files_that_do_not_fit_are_named)
{
        struct identity one = {0}, other = {0};
        char locked[300];

        make_identity(&one, "one", NULL, NULL, 10);
        make_identity(&other, "other", NULL, NULL, 10);
        snprintf(locked, sizeof(locked), "%s/locked.key", tap_directory());
        write_protected_key(&one, locked);
        expect_bad_files(&(struct net_tls_options){.ca_file = "/nowhere/ca.crt"}, PAWL_INVALID, "/nowhere/ca.crt",
                         "No such file");
        expect_bad_files(&(struct net_tls_options){.ca_file = one.key_file}, PAWL_INVALID, one.key_file,
                         "no certificates");
        expect_bad_files(&(struct net_tls_options){.cert_file = one.key_file, .key_file = one.key_file}, PAWL_INVALID,
                         one.key_file, "not a certificate");
        expect_bad_files(&(struct net_tls_options){.cert_file = one.cert_file, .key_file = other.key_file},
                         PAWL_INVALID, other.key_file, "mismatch");
        expect_bad_files(&(struct net_tls_options){.cert_file = one.cert_file, .key_file = locked}, PAWL_INVALID,
                         locked, "without a passphrase");
        expect_bad_files(&(struct net_tls_options){.key_file = one.key_file}, PAWL_INVALID, one.key_file,
                         "without a certificate");
        free_identity(&one);
        free_identity(&other);
}

TEST(a_file_we_may_not_read_is_denied)
{
        struct identity one = {0};

        if (geteuid() == 0) {
                if (seteuid(65534) != 0)
                        SKIP("root may read everything");
                REQUIRE_INT(seteuid(0), 0);
        }
        make_identity(&one, "one", NULL, NULL, 10);
        REQUIRE_INT(chmod(one.key_file, 0), 0);
        if (geteuid() == 0)
                REQUIRE_INT(chmod(tap_directory(), 0755) | chmod(one.cert_file, 0644) | seteuid(65534), 0);
        if (access(one.cert_file, R_OK) == 0)
                expect_bad_files(&(struct net_tls_options){.cert_file = one.cert_file, .key_file = one.key_file},
                                 PAWL_DENIED, one.key_file, "Permission denied");
        if (getuid() == 0)
                REQUIRE_INT(seteuid(0), 0);
        free_identity(&one);
}

/* ---- bytes -------------------------------------------------------------------------------------------------------- */

TEST(what_comes_with_the_end_of_the_handshake_is_heard)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        scene.server.greeting = "welcome";
        play(&scene);
        TURN_UNTIL(scene.user.size == 7);
        CHECK_STR(scene.user.said, "welcome");
        converse(&scene);
        clear_scene(&scene);
}

TEST(what_is_written_while_it_hears_goes_out_sealed)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        scene.server.greeting = "welcome";
        scene.user.say_when_heard = "ab";
        play(&scene);
        TURN_UNTIL(scene.user.size >= 7 + 10);
        clear_scene(&scene);
}

TEST(five_megabytes_go_both_ways_and_none_is_lost)
{
        enum { PART = 50000, PARTS = 100 };
        struct scene scene;
        size_t wrong = 0;

        set_scene(&scene, "IP:127.0.0.1", 10);
        play(&scene);
        for (int i = 0; i < PARTS; i++) {
                char *room = net_room(&scene.user.net, PART);

                REQUIRE(room != NULL);
                for (int j = 0; j < PART; j++)
                        room[j] = (char)((i * PART + j) % 251);
                net_wrote(&scene.user.net, PART);
                net_flush(&scene.user.net);
        }
        TURN_UNTIL(scene.user.size == (size_t)PART * PARTS);
        for (size_t i = 0; i < scene.user.size; i++)
                wrong += (unsigned char)scene.user.said[i] != i % 251;
        CHECK_UINT(wrong, 0);
        CHECK_UINT(net_unsent(&scene.user.net), 0);
        clear_scene(&scene);
}

TEST(it_may_be_closed_while_it_hears)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        scene.server.greeting = "welcome";
        scene.user.close_when_heard = true;
        play(&scene);
        TURN_UNTIL(scene.user.hearings == 1);
        CHECK_INT(scene.user.downs, 0);
        clear_scene(&scene);
}

TEST(it_may_be_failed_while_it_hears)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        scene.server.greeting = "welcome";
        scene.user.fail_when_heard = true;
        play(&scene);
        TURN_UNTIL(scene.user.downs == 1);
        CHECK_HAS(scene.user.why.text, "nonsense");
        clear_scene(&scene);
}

/* ---- going down --------------------------------------------------------------------------------------------------- */

TEST(a_server_that_says_goodbye_has_closed)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        scene.server.greeting = "bye";
        scene.server.greeting_only = true;
        scene.server.ending = SAYS_GOODBYE;
        play(&scene);
        TURN_UNTIL(scene.user.downs == 1);
        CHECK_STR(scene.user.said, "bye");
        CHECK_HAS(scene.user.why.text, "closed the connection");
        clear_scene(&scene);
}

TEST(a_stream_that_ends_without_goodbye_was_cut_off)
{
        struct scene scene;

        set_scene(&scene, "IP:127.0.0.1", 10);
        scene.server.greeting = "by";
        scene.server.greeting_only = true;
        scene.server.ending = CUTS;
        play(&scene);
        TURN_UNTIL(scene.user.downs == 1);
        CHECK_STR(scene.user.said, "by");
        CHECK_HAS(scene.user.why.text, "cut off");
        clear_scene(&scene);
}

TEST(writing_to_a_server_that_is_gone_raises_no_signal)
{
        struct scene scene;

        signal(SIGPIPE, SIG_DFL);
        set_scene(&scene, "IP:127.0.0.1", 10);
        scene.server.greeting_only = true;
        scene.server.ending = CUTS;
        play(&scene);
        pthread_join(scene.server.thread, NULL);
        for (int i = 0; i < 5 && scene.user.net.state == NET_UP; i++) {
                say(&scene.user, "hello?");
                net_flush(&scene.user.net);
                usleep(2000);
        }
        TURN_UNTIL(scene.user.downs == 1);
        close(scene.server.listener);
        SSL_CTX_free(scene.server.context);
        scene.server.context = NULL;
        clear_scene(&scene);
}

/* A server in this thread that is cut off after so many bytes. */
struct short_server {
        SSL *ssl;
        BIO *in, *out;
        int fd;
        size_t left;
        bool greeted;
};

/* One step. False: it has come to its end. */
static bool step(struct short_server *server)
{
        char bytes[4096];
        ssize_t n = recv(server->fd, bytes, sizeof(bytes), MSG_DONTWAIT);

        if (n > 0)
                BIO_write(server->in, bytes, (int)n);
        if (SSL_do_handshake(server->ssl) == 1 && !server->greeted)
                server->greeted = SSL_write(server->ssl, "welcome", 7) == 7;
        ERR_clear_error();
        while (server->left > 0) {
                int size = BIO_read(server->out, bytes, (int)(server->left < 4096 ? server->left : 4096));

                if (size <= 0)
                        return true;
                REQUIRE(send(server->fd, bytes, (size_t)size, MSG_NOSIGNAL) == size);
                server->left -= (size_t)size;
        }
        return false;
}

/* Whether the whole greeting was heard. */
static bool meet_short_server(struct scene *scene, SSL_CTX *context, int listener, size_t size)
{
        struct short_server server = {.ssl = SSL_new(context), .left = size};
        int downs = scene->user.downs;

        server.in = BIO_new(BIO_s_mem());
        server.out = BIO_new(BIO_s_mem());
        REQUIRE(server.ssl && server.in && server.out);
        SSL_set_bio(server.ssl, server.in, server.out);
        SSL_set_accept_state(server.ssl);
        scene->user.size = 0;
        connect_within(&scene->user, 30 * SECOND);
        server.fd = take(listener);
        while (step(&server) && scene->user.size < 7 && scene->user.downs == downs)
                loop_turn(&loop);
        close(server.fd);
        TURN_UNTIL(scene->user.downs == downs + 1);
        CHECK(scene->user.why.text[0] != '\0');
        CHECK_INT(scene->user.why.code, PAWL_UNREACHABLE);
        SSL_free(server.ssl);
        return scene->user.size == 7;
}

TEST(a_connection_cut_off_after_any_number_of_bytes_goes_down_once_with_a_sentence)
{
        struct scene scene;
        SSL_CTX *context = SSL_CTX_new(TLS_server_method());
        size_t size = 1;
        int listener;

        set_scene(&scene, "IP:127.0.0.1", 10);
        open_tls(&scene);
        REQUIRE(context != NULL);
        REQUIRE(SSL_CTX_use_certificate(context, scene.them.certificate) == 1);
        REQUIRE(SSL_CTX_use_PrivateKey(context, scene.them.key) == 1);
        listener = listen_tcp(&scene.user.target.port, 5);
        while (!meet_short_server(&scene, context, listener, size) && size < 10000)
                size += size % 64 < 6 ? 1 : 37;
        CHECK(size < 10000);
        close(listener);
        SSL_CTX_free(context);
        clear_scene(&scene);
}

/* ---- no TLS at the other side ------------------------------------------------------------------------------------- */

TEST(a_server_that_answers_in_plain_words_does_not_speak_TLS)
{
        struct scene scene;
        char bytes[2000];
        int listener, fd;

        set_scene(&scene, "IP:127.0.0.1", 10);
        open_tls(&scene);
        listener = listen_tcp(&scene.user.target.port, 5);
        connect_within(&scene.user, 30 * SECOND);
        fd = take(listener);
        turn_once();
        REQUIRE(recv(fd, bytes, sizeof(bytes), 0) > 0);
        REQUIRE(send(fd, "-ERR unknown command\r\n", 22, MSG_NOSIGNAL) == 22);
        TURN_UNTIL(scene.user.downs == 1);
        expect_refusal(&scene, PAWL_UNREACHABLE, "it does not speak TLS");
        close(fd);
        close(listener);
        clear_scene(&scene);
}

/* The server takes the first bytes, or leaves them and so resets the connection. */
static void close_at_the_first_word(bool reset)
{
        struct scene scene;
        char bytes[2000];
        int listener, fd;

        set_scene(&scene, "IP:127.0.0.1", 10);
        open_tls(&scene);
        listener = listen_tcp(&scene.user.target.port, 5);
        connect_within(&scene.user, 30 * SECOND);
        fd = take(listener);
        turn_once();
        REQUIRE(recv(fd, bytes, sizeof(bytes), reset ? MSG_PEEK : 0) > 0);
        close(fd);
        TURN_UNTIL(scene.user.downs == 1);
        expect_refusal(&scene, PAWL_UNREACHABLE, "does it speak TLS?");
        close(listener);
        clear_scene(&scene);
}

TEST(a_server_that_closes_at_the_first_word_may_not_speak_TLS)
{
        close_at_the_first_word(false);
        close_at_the_first_word(true);
}

TEST(a_server_that_says_nothing_is_given_up_at_the_time_limit)
{
        struct scene scene;
        int listener, fd;

        set_scene(&scene, "IP:127.0.0.1", 10);
        open_tls(&scene);
        listener = listen_tcp(&scene.user.target.port, 5);
        connect_within(&scene.user, 200 * MS);
        fd = take(listener);
        TURN_UNTIL(scene.user.downs == 1);
        expect_refusal(&scene, PAWL_UNREACHABLE, "TLS handshake in time");
        CHECK_INT(scene.user.why.sys_errno, ETIMEDOUT);
        close(fd);
        close(listener);
        clear_scene(&scene);
}
