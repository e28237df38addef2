/* tls.c - TLS by OpenSSL 3, through two buffers in memory: OpenSSL never sees the socket, whose writes would raise SIGPIPE.
 * Its errors are taken from the thread's queue here and none is left in it for the program around us. */
#include "tls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>

struct net_tls {
        SSL_CTX *context;
        char *server_name; /* or NULL */
        char *protocol;    /* or NULL */
        bool insecure;
};

struct net_secured {
        SSL *ssl;
        BIO *in;  /* from the socket; both belong to ssl */
        BIO *out; /* for the socket */
        const struct net_target *target;
};

/* ---- reading the files ------------------------------------------------------------------------------------------- */

/* Takes the first error of the thread's queue, which is the cause, and empties it. */
static unsigned long take_error(void)
{
        unsigned long error = ERR_get_error();

        ERR_clear_error();
        return error;
}

static const char *reason_of(unsigned long error)
{
        const char *reason = ERR_reason_error_string(error);

        return reason ? reason : "an error inside OpenSSL";
}

static bool is_no_memory(unsigned long error)
{
        return ERR_GET_REASON(error) == ERR_R_MALLOC_FAILURE;
}

/* OpenSSL would ask at the terminal. */
static int no_passphrase(char *buffer, int size, int for_writing, void *arg)
{
        (void)buffer;
        (void)size;
        (void)for_writing;
        (void)arg;
        return -1;
}

/* Says why a file cannot be read before OpenSSL tries, whose errors do not. */
static int check_file(const char *path, struct pawl_why *why)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
        int error = errno;

        if (fd >= 0) {
                close(fd);
                return PAWL_OK;
        }
        if (why_system(why, error, "cannot read %s", path) == PAWL_SYSTEM && why)
                why->code = PAWL_INVALID;
        return error == EACCES || error == EPERM ? PAWL_DENIED : error == ENOMEM ? PAWL_NO_MEMORY : PAWL_INVALID;
}

static int bad_file(const char *path, const char *what, struct pawl_why *why)
{
        unsigned long error = take_error();

        if (is_no_memory(error))
                return why_set(why, PAWL_NO_MEMORY, "no memory to read %s", path);
        return why_set(why, PAWL_INVALID, "%s: %s: %s", path, what, reason_of(error));
}

static int trust(SSL_CTX *context, const char *ca_file, struct pawl_why *why)
{
        int code;

        if (!ca_file) {
                if (SSL_CTX_set_default_verify_paths(context) != 1)
                        return bad_file("the system's certificates", "cannot be used", why);
                return PAWL_OK;
        }
        code = check_file(ca_file, why);
        if (code == PAWL_OK && SSL_CTX_load_verify_file(context, ca_file) != 1)
                code = bad_file(ca_file, "no certificates that could be trusted", why);
        return code;
}

static int use_our_own(SSL_CTX *context, const char *cert_file, const char *key_file, struct pawl_why *why)
{
        int code = check_file(cert_file, why);

        if (code == PAWL_OK)
                code = check_file(key_file, why);
        if (code != PAWL_OK)
                return code;
        if (SSL_CTX_use_certificate_chain_file(context, cert_file) != 1)
                return bad_file(cert_file, "not a certificate", why);
        if (SSL_CTX_use_PrivateKey_file(context, key_file, SSL_FILETYPE_PEM) != 1)
                return bad_file(key_file, "not a key that can be used without a passphrase", why);
        if (SSL_CTX_check_private_key(context) != 1)
                return bad_file(key_file, "not the key of the certificate", why);
        return PAWL_OK;
}

/* ALPN: a list of names, each with its length before it. */
static bool offer(struct net_tls *tls, const char *protocol)
{
        unsigned char list[256];
        size_t length = strlen(protocol);

        tls->protocol = strdup(protocol);
        if (!tls->protocol || length >= sizeof(list))
                return false;
        list[0] = (unsigned char)length;
        memcpy(list + 1, protocol, length);
        return SSL_CTX_set_alpn_protos(tls->context, list, (unsigned)length + 1) == 0;
}

static int read_options(struct net_tls *tls, const struct net_tls_options *options, struct pawl_why *why)
{
        const char *key_file = options->key_file ? options->key_file : options->cert_file;
        int code = PAWL_OK;

        if (options->key_file && !options->cert_file)
                return why_set(why, PAWL_INVALID, "%s: a key without a certificate", options->key_file);
        if (options->server_name) {
                tls->server_name = strdup(options->server_name);
                if (!tls->server_name)
                        return why_set(why, PAWL_NO_MEMORY, "no memory for TLS");
        }
        if (options->protocol && !offer(tls, options->protocol))
                return why_set(why, PAWL_NO_MEMORY, "no memory for TLS");
        tls->insecure = options->insecure;
        SSL_CTX_set_verify(tls->context, options->insecure ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
        if (!options->insecure || options->ca_file)
                code = trust(tls->context, options->ca_file, why);
        if (code == PAWL_OK && options->cert_file)
                code = use_our_own(tls->context, options->cert_file, key_file, why);
        return code;
}

int net_tls_options(const struct url *url, const char *scheme, struct net_tls_options *options, struct pawl_why *why)
{
        *options = (struct net_tls_options){
                .ca_file = url_option(url, "ca"),
                .cert_file = url_option(url, "cert"),
                .key_file = url_option(url, "key"),
                .server_name = url_option(url, "servername"),
        };
        int code = url_flag(url, "insecure", &options->insecure, why);

        if (code != PAWL_OK)
                return code;
        if (strcmp(url->scheme, scheme) != 0 &&
            (options->ca_file || options->cert_file || options->key_file || options->server_name || options->insecure))
                return why_set(why, PAWL_INVALID, "%s: ca, cert, key, servername and insecure need %s://", url->shown,
                               scheme);
        return PAWL_OK;
}

int net_tls_open(const struct net_tls_options *options, struct net_tls **out, struct pawl_why *why)
{
        struct net_tls *tls = calloc(1, sizeof(*tls));
        int code;

        /* Without NO_ATEXIT OpenSSL would tear itself down while other threads of the program still use it. */
        if (tls && OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL) == 1)
                tls->context = SSL_CTX_new(TLS_client_method());
        if (!tls || !tls->context) {
                unsigned long error = take_error();

                net_tls_close(tls);
                if (error == 0 || is_no_memory(error))
                        return why_set(why, PAWL_NO_MEMORY, "no memory for TLS");
                return why_set(why, PAWL_INVALID, "OpenSSL does not start: %s", reason_of(error));
        }
        SSL_CTX_set_min_proto_version(tls->context, TLS1_2_VERSION);
        SSL_CTX_set_options(tls->context, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
        SSL_CTX_set_mode(tls->context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
        SSL_CTX_set_session_cache_mode(tls->context, SSL_SESS_CACHE_OFF);
        SSL_CTX_set_default_passwd_cb(tls->context, no_passphrase);
        code = read_options(tls, options, why);
        ERR_clear_error();
        if (code != PAWL_OK)
                net_tls_close(tls);
        else
                *out = tls;
        return code;
}

void net_tls_close(struct net_tls *tls)
{
        if (!tls)
                return;
        SSL_CTX_free(tls->context);
        free(tls->server_name);
        free(tls->protocol);
        free(tls);
}

/* ---- who it should be -------------------------------------------------------------------------------------------- */

/* NULL: a unix socket, and nobody said a name. */
static const char *expected(const struct net_target *target)
{
        if (target->tls->server_name)
                return target->tls->server_name;
        return target->path ? NULL : target->host;
}

static bool is_address(const char *name)
{
        unsigned char address[sizeof(struct in6_addr)];

        return inet_pton(AF_INET, name, address) == 1 || inet_pton(AF_INET6, name, address) == 1;
}

enum { NAME_MAX_LENGTH = 255 };

/* The name to be checked and told; a certificate has it without the dot at its end. False: no memory. */
static bool expect(SSL *ssl, const char *name)
{
        char plain[NAME_MAX_LENGTH + 1];
        size_t length = strlen(name);

        if (is_address(name))
                return X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name) == 1;
        if (length > 1 && name[length - 1] == '.')
                length--;
        memcpy(plain, name, length);
        plain[length] = '\0';
        SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
        return SSL_set1_host(ssl, plain) == 1 && SSL_set_tlsext_host_name(ssl, plain) == 1;
}

static bool prepare(struct net_secured *secured, const char *name)
{
        secured->ssl = SSL_new(secured->target->tls->context);
        secured->in = BIO_new(BIO_s_mem());
        secured->out = BIO_new(BIO_s_mem());
        if (!secured->ssl || !secured->in || !secured->out) {
                BIO_free(secured->in);
                BIO_free(secured->out);
                return false;
        }
        SSL_set_bio(secured->ssl, secured->in, secured->out);
        SSL_set_connect_state(secured->ssl);
        return !name || expect(secured->ssl, name);
}

int secured_open(struct net_secured **out, const struct net_target *target, struct pawl_why *why)
{
        const char *name = expected(target);
        struct net_secured *secured;
        bool prepared;

        if (!name && !target->tls->insecure)
                return why_set(why, PAWL_DENIED,
                               "%s: TLS over a unix socket needs the name the certificate should have", target->path);
        if (name && strlen(name) > NAME_MAX_LENGTH)
                return why_set(why, PAWL_DENIED, "%s is no name of a server", name);
        secured = calloc(1, sizeof(*secured));
        if (!secured)
                return why_set(why, PAWL_NO_MEMORY, "no memory for TLS");
        secured->target = target;
        ERR_clear_error();
        prepared = prepare(secured, name);
        ERR_clear_error();
        if (!prepared) {
                secured_close(secured);
                return why_set(why, PAWL_NO_MEMORY, "no memory for TLS");
        }
        *out = secured;
        return PAWL_OK;
}

void secured_close(struct net_secured *secured)
{
        if (!secured)
                return;
        SSL_free(secured->ssl);
        free(secured);
}

/* ---- bytes of the socket ----------------------------------------------------------------------------------------- */

int secured_put(struct net_secured *secured, const char *bytes, size_t size)
{
        int n;

        ERR_clear_error();
        n = BIO_write(secured->in, bytes, (int)size);
        ERR_clear_error();
        return n == (int)size ? PAWL_OK : PAWL_NO_MEMORY;
}

size_t secured_sealed(const struct net_secured *secured, const char **bytes)
{
        char *data = NULL;
        long size = BIO_get_mem_data(secured->out, &data);

        *bytes = data;
        return size > 0 ? (size_t)size : 0;
}

void secured_sent(struct net_secured *secured, size_t size)
{
        char gone[4096];

        while (size > 0) {
                int n = BIO_read(secured->out, gone, (int)(size < sizeof(gone) ? size : sizeof(gone)));

                if (n <= 0)
                        return;
                size -= (size_t)n;
        }
}

/* ---- what went wrong --------------------------------------------------------------------------------------------- */

static bool is_not_tls(int reason)
{
        return reason == SSL_R_WRONG_VERSION_NUMBER || reason == SSL_R_HTTP_REQUEST ||
               reason == SSL_R_PACKET_LENGTH_TOO_LONG || reason == SSL_R_BAD_RECORD_TYPE ||
               reason == SSL_R_RECORD_LENGTH_MISMATCH || reason == SSL_R_UNEXPECTED_RECORD;
}

/* Alerts by which a server says that it does not like who we are. */
static bool is_refusal(int reason)
{
        switch (reason) {
        case SSL_R_TLSV13_ALERT_CERTIFICATE_REQUIRED:
        case SSL_R_SSLV3_ALERT_NO_CERTIFICATE:
        case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
        case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
        case SSL_R_SSLV3_ALERT_UNSUPPORTED_CERTIFICATE:
        case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
        case SSL_R_TLSV1_ALERT_ACCESS_DENIED:
                return true;
        default:
                return false;
        }
}

static int say_no_protocol(const struct net_secured *secured, struct pawl_why *why)
{
        char where[WHERE_SIZE];

        return why_set(why, PAWL_UNREACHABLE, "%s: it speaks TLS, but not %s inside it (ALPN)",
                       net_where(secured->target, where), secured->target->tls->protocol);
}

static int say_failed(const struct net_secured *secured, struct pawl_why *why)
{
        unsigned long error = take_error();
        int reason = ERR_GET_REASON(error);
        long verified = SSL_get_verify_result(secured->ssl);
        const char *name = expected(secured->target);
        char where[WHERE_SIZE];

        net_where(secured->target, where);
        if (is_no_memory(error))
                return why_set(why, PAWL_NO_MEMORY, "%s: no memory for TLS", where);
        if (reason == SSL_R_CERTIFICATE_VERIFY_FAILED && verified != X509_V_OK)
                return why_set(why, PAWL_DENIED, "the certificate of %s is not valid: %s", name ? name : where,
                               X509_verify_cert_error_string(verified));
        if (is_refusal(reason))
                return why_set(why, PAWL_DENIED, "%s does not accept our certificate: %s", where, reason_of(error));
        if (reason == SSL_R_TLSV1_ALERT_NO_APPLICATION_PROTOCOL && secured->target->tls->protocol)
                return say_no_protocol(secured, why);
        if (is_not_tls(reason) && !SSL_is_init_finished(secured->ssl))
                return why_set(why, PAWL_UNREACHABLE, "%s: it does not speak TLS (%s)", where, reason_of(error));
        /* Until 1.2 that is all a server says if it misses our certificate. */
        if (reason == SSL_R_SSLV3_ALERT_HANDSHAKE_FAILURE)
                return why_set(why, PAWL_DENIED, "%s refuses the TLS handshake: does it want a client certificate?",
                               where);
        return why_set(why, PAWL_UNREACHABLE, "%s: TLS failed: %s", where, reason_of(error));
}

/* ---- speaking ---------------------------------------------------------------------------------------------------- */

/* A server that does not know ALPN, or none of what we offered, says nothing. */
static int check_protocol(const struct net_secured *secured, struct pawl_why *why)
{
        const char *protocol = secured->target->tls->protocol;
        const unsigned char *chosen;
        unsigned length;

        SSL_get0_alpn_selected(secured->ssl, &chosen, &length);
        if (!protocol || (length == strlen(protocol) && memcmp(chosen, protocol, length) == 0))
                return PAWL_OK;
        return say_no_protocol(secured, why);
}

int secured_shake(struct net_secured *secured, struct pawl_why *why)
{
        int n;

        ERR_clear_error();
        n = SSL_do_handshake(secured->ssl);
        if (n == 1)
                return check_protocol(secured, why);
        if (SSL_get_error(secured->ssl, n) == SSL_ERROR_WANT_READ) {
                ERR_clear_error();
                return PAWL_BUSY;
        }
        return say_failed(secured, why);
}

ssize_t secured_read(struct net_secured *secured, char *bytes, size_t size, struct pawl_why *why)
{
        char where[WHERE_SIZE];
        int n;

        ERR_clear_error();
        n = SSL_read(secured->ssl, bytes, (int)size);
        if (n > 0)
                return n;
        switch (SSL_get_error(secured->ssl, n)) {
        case SSL_ERROR_WANT_READ:
                ERR_clear_error();
                return 0;
        case SSL_ERROR_ZERO_RETURN:
                ERR_clear_error();
                why_set(why, PAWL_UNREACHABLE, "%s closed the connection", net_where(secured->target, where));
                return -1;
        default:
                say_failed(secured, why);
                return -1;
        }
}

ssize_t secured_write(struct net_secured *secured, const char *bytes, size_t size, struct pawl_why *why)
{
        int n;

        ERR_clear_error();
        n = SSL_write(secured->ssl, bytes, (int)(size < INT_MAX ? size : INT_MAX));
        if (n > 0)
                return n;
        say_failed(secured, why);
        return -1;
}

void secured_bye(struct net_secured *secured)
{
        ERR_clear_error();
        SSL_shutdown(secured->ssl);
        ERR_clear_error();
}
