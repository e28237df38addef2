/* pq_params.c - from a URL to libpq's keywords and values. */
#include "pq_params.h"

#include <arpa/inet.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A URL has at most 4096 bytes, and so has a password from a file; the rest is ours. */
enum { TEXT_ROOM = 20480 };

/* A path that cannot be: libpq takes a file that is not there for none, and looks for no other. */
#define NO_FILE "/dev/null/none"

/* What libpq takes, sorted. Some only newer ones do; an older one says so itself. Not here, because they are not the
 * URL's to say: client_encoding (names are UTF-8), passfile (url.h reads it), replication, service and servicefile. */
static const char *const known[] = {
        "application_name",
        "channel_binding",
        "connect_timeout",
        "dbname",
        "fallback_application_name",
        "gssdelegation",
        "gssencmode",
        "gsslib",
        "host",
        "hostaddr",
        "keepalives",
        "keepalives_count",
        "keepalives_idle",
        "keepalives_interval",
        "krbsrvname",
        "load_balance_hosts",
        "max_protocol_version",
        "min_protocol_version",
        "options",
        "password",
        "port",
        "require_auth",
        "requirepeer",
        "ssl_max_protocol_version",
        "ssl_min_protocol_version",
        "sslcert",
        "sslcertmode",
        "sslcompression",
        "sslcrl",
        "sslcrldir",
        "sslkey",
        "sslmode",
        "sslnegotiation",
        "sslpassword",
        "sslrootcert",
        "sslsni",
        "target_session_attrs",
        "tcp_user_timeout",
        "user",
};

/* Those whose values libpq would take for something else when misspelt, or refuse only when it connects. */
enum kind { FLAG, NUMBER, WORDS };
static const struct strict {
        const char *keyword;
        enum kind kind;
        const char *words[7];
} strict[] = {
        {"channel_binding", WORDS, {"disable", "prefer", "require"}},
        {"connect_timeout", NUMBER, {0}},
        {"gssdelegation", FLAG, {0}},
        {"gssencmode", WORDS, {"disable", "prefer", "require"}},
        {"keepalives", FLAG, {0}},
        {"keepalives_count", NUMBER, {0}},
        {"keepalives_idle", NUMBER, {0}},
        {"keepalives_interval", NUMBER, {0}},
        {"load_balance_hosts", WORDS, {"disable", "random"}},
        {"sslcertmode", WORDS, {"disable", "allow", "require"}},
        {"sslcompression", FLAG, {0}},
        {"sslmode", WORDS, {"disable", "allow", "prefer", "require", "verify-ca", "verify-full"}},
        {"sslsni", FLAG, {0}},
        {"target_session_attrs", WORDS, {"any", "read-write", "read-only", "primary", "standby", "prefer-standby"}},
        {"tcp_user_timeout", NUMBER, {0}},
};

/* What is said if the URL does not. A server that vanished is missed after about ten seconds. */
static const struct {
        const char *keyword;
        const char *value;
} defaults[] = {
        {"application_name", "pawl"},
        {"channel_binding", "prefer"},
        {"client_encoding", "UTF8"},
        {"connect_timeout", "10"},
        {"gssencmode", "disable"},
        {"keepalives", "1"},
        {"keepalives_count", "3"},
        {"keepalives_idle", "4"},
        {"keepalives_interval", "2"},
        {"krbsrvname", "postgres"},
        {"passfile", NO_FILE},
        {"password", "no password was given"},
        {"ssl_min_protocol_version", "TLSv1.2"},
        {"sslcert", NO_FILE},
        {"sslcompression", "0"},
        {"sslcrl", NO_FILE},
        {"sslsni", "1"},
        {"target_session_attrs", "any"},
        {"tcp_user_timeout", "10000"},
};

/* Where distributions keep the authorities that everybody trusts. */
static const char *const bundles[] = {
        "/etc/ssl/certs/ca-certificates.crt",
        "/etc/pki/tls/certs/ca-bundle.crt",
        "/etc/ssl/ca-bundle.pem",
        "/etc/ssl/cert.pem",
};

/* ---- the list ---------------------------------------------------------------------------------------------------- */

static uint32_t place_of(const struct pq_params *params, const char *keyword)
{
        uint32_t at = 0;

        while (at < params->count && strcmp(params->keywords[at], keyword) != 0)
                at++;
        return at;
}

const char *pq_params_get(const struct pq_params *params, const char *keyword)
{
        return params->values[place_of(params, keyword)];
}

int pq_params_set(struct pq_params *params, const char *keyword, const char *value, struct pawl_why *why)
{
        uint32_t at = place_of(params, keyword);
        size_t size = strlen(value) + 1;

        if (at == PQ_PARAMS_MAX || size > TEXT_ROOM - params->used)
                return why_set(why, PAWL_INVALID, "the URL says more than libpq can be told");
        memcpy(params->text + params->used, value, size);
        params->keywords[at] = keyword;
        params->values[at] = params->text + params->used;
        params->used += size;
        if (at == params->count)
                params->count++;
        return PAWL_OK;
}

void pq_params_free(struct pq_params *params)
{
        if (params->text)
                explicit_bzero(params->text, TEXT_ROOM);
        free(params->text);
        memset(params, 0, sizeof(*params));
}

static int set_default(struct pq_params *params, const char *keyword, const char *value, struct pawl_why *why)
{
        return pq_params_get(params, keyword) ? PAWL_OK : pq_params_set(params, keyword, value, why);
}

/* ---- options ----------------------------------------------------------------------------------------------------- */

static const char *find(const char *const *names, size_t count, const char *name)
{
        for (size_t i = 0; i < count && names[i]; i++)
                if (strcmp(names[i], name) == 0)
                        return names[i];
        return NULL;
}

static const struct strict *find_strict(const char *keyword)
{
        for (size_t i = 0; i < sizeof(strict) / sizeof(*strict); i++)
                if (strcmp(strict[i].keyword, keyword) == 0)
                        return &strict[i];
        return NULL;
}

/* libpq knows 1 and 0 only. */
static int take_flag(struct pq_params *params, const struct url *url, const char *keyword, struct pawl_why *why)
{
        bool value = false;
        int code = url_flag(url, keyword, &value, why);

        return code == PAWL_OK ? pq_params_set(params, keyword, value ? "1" : "0", why) : code;
}

static int check_words(const struct strict *row, const char *value, struct pawl_why *why)
{
        char words[128] = "";

        if (find(row->words, sizeof(row->words) / sizeof(*row->words), value))
                return PAWL_OK;
        for (const char *const *word = row->words; *word; word++) {
                strcat(words, word > row->words ? ", " : "");
                strcat(words, *word);
        }
        return why_set(why, PAWL_INVALID, "%s=%.32s in the URL is none of %s", row->keyword, value, words);
}

static int take_option(struct pq_params *params, const struct url *url, const struct url_option *option,
                       struct pawl_why *why)
{
        const struct strict *row = find_strict(option->key);
        int code = PAWL_OK;
        int64_t number;
        const char *keyword = find(known, sizeof(known) / sizeof(*known), option->key);

        if (!keyword)
                return why_set(why, PAWL_INVALID, "%s: URLs do not have the option %.64s", url->scheme, option->key);
        if (!*option->value)
                return why_set(why, PAWL_INVALID, "the URL's option %s is empty: leave it out", keyword);
        if (row && row->kind == FLAG)
                return take_flag(params, url, keyword, why);
        if (row && row->kind == NUMBER)
                code = url_number(url, keyword, 0, INT_MAX, &number, why);
        if (row && row->kind == WORDS)
                code = check_words(row, option->value, why);
        return code == PAWL_OK ? pq_params_set(params, keyword, option->value, why) : code;
}

static int take_options(struct pq_params *params, const struct url *url, const char *const *own, struct pawl_why *why)
{
        int code = PAWL_OK;

        for (uint32_t i = 0; code == PAWL_OK && i < url->option_count; i++) {
                const char *key = url->options[i].key;

                if (strcmp(key, "insecure") != 0 && !find(own, SIZE_MAX, key))
                        code = take_option(params, url, &url->options[i], why);
        }
        return code;
}

/* What stands before the options: the URL may say it there, or as an option, not both. */
static int set_once(struct pq_params *params, const char *keyword, const char *value, struct pawl_why *why)
{
        if (!value || !*value)
                return PAWL_OK;
        if (pq_params_get(params, keyword))
                return why_set(why, PAWL_INVALID, "the URL says its %s twice: once is enough, leave out %s=", keyword,
                               keyword);
        return pq_params_set(params, keyword, value, why);
}

/* ---- hosts ------------------------------------------------------------------------------------------------------- */

bool pq_host_is_here(const char *host)
{
        struct in_addr address;
        struct in6_addr address6;

        if (*host == '/' || *host == '@' || strcmp(host, "localhost") == 0)
                return true;
        if (inet_pton(AF_INET, host, &address) == 1)
                return ntohl(address.s_addr) >> 24 == 127;
        return inet_pton(AF_INET6, host, &address6) == 1 && IN6_IS_ADDR_LOOPBACK(&address6);
}

static bool is_address(const char *host)
{
        unsigned char room[sizeof(struct in6_addr)];

        return inet_pton(AF_INET, host, room) == 1 || inet_pton(AF_INET6, host, room) == 1;
}

/* Lists for libpq, by commas: the hosts, their ports, and the addresses if all of them are. */
struct lists {
        char hosts[4200];
        char ports[URL_HOSTS_MAX * 6 + 1];
        bool ported; /* the URL says a port */
        bool addresses;
};

static int list_hosts(const struct url *url, struct lists *lists, struct pawl_why *why)
{
        size_t at = 0;
        size_t port_at = 0;

        *lists = (struct lists){.addresses = url->host_count > 0};
        for (uint32_t i = 0; i < url->host_count; i++) {
                const struct url_host *host = &url->hosts[i];

                if (strchr(host->name, ','))
                        return why_set(why, PAWL_INVALID, "host %u in the URL has a comma in it", i + 1);
                at += (size_t)snprintf(lists->hosts + at, sizeof(lists->hosts) - at, "%s%s", i ? "," : "", host->name);
                port_at += (size_t)snprintf(lists->ports + port_at, sizeof(lists->ports) - port_at, "%s%u",
                                            i ? "," : "", host->port ? host->port : 5432u);
                if (at >= sizeof(lists->hosts))
                        return why_set(why, PAWL_INVALID, "the hosts of the URL are too long");
                lists->ported = lists->ported || host->port;
                lists->addresses = lists->addresses && is_address(host->name);
        }
        return PAWL_OK;
}

static int take_hosts(struct pq_params *params, const struct url *url, struct pawl_why *why)
{
        struct lists lists;
        int code = list_hosts(url, &lists, why);

        if (code == PAWL_OK)
                code = set_once(params, "host", lists.hosts, why);
        if (code == PAWL_OK && lists.ported)
                code = set_once(params, "port", lists.ports, why);
        if (code == PAWL_OK && lists.addresses)
                code = set_default(params, "hostaddr", lists.hosts, why); /* PGHOSTADDR would lead elsewhere */
        if (code == PAWL_OK && !pq_params_get(params, "hostaddr"))
                code = set_default(params, "host", "/var/run/postgresql", why);
        return code == PAWL_OK ? set_default(params, "port", "5432", why) : code;
}

/* hostaddr decides where it is connected to, if it is said. An entry that is empty, the last one too, leaves it to host:
 * that may be anywhere. */
static bool any_remote(const struct pq_params *params)
{
        const char *at = pq_params_get(params, "hostaddr");
        bool remote = false;

        if (!at)
                at = pq_params_get(params, "host");
        while (at && !remote) {
                size_t size = strcspn(at, ",");
                char host[256];

                snprintf(host, sizeof(host), "%.*s", size < sizeof(host) ? (int)size : 0, at);
                remote = !*host || !pq_host_is_here(host);
                at = at[size] ? at + size + 1 : NULL;
        }
        return remote;
}

/* ---- who --------------------------------------------------------------------------------------------------------- */

static int take_user(struct pq_params *params, const struct url *url, struct pawl_why *why)
{
        char room[4096];
        struct passwd entry;
        struct passwd *found = NULL;
        int code = set_once(params, "user", url->user, why);

        if (code != PAWL_OK || pq_params_get(params, "user"))
                return code;
        if (getpwuid_r(geteuid(), &entry, room, sizeof(room), &found) != 0 || !found || !*found->pw_name)
                return why_set(why, PAWL_INVALID,
                               "the URL names no user, and ours has no name: %s://USER@HOST/DATABASE", url->scheme);
        return pq_params_set(params, "user", found->pw_name, why);
}

static int take_database(struct pq_params *params, const struct url *url, struct pawl_why *why)
{
        int code;

        if (*url->path && *url->path != '/')
                return why_set(why, PAWL_INVALID, "the URL is not of the form %s://USER@HOST/DATABASE", url->scheme);
        code = set_once(params, "dbname", *url->path ? url->path + 1 : "", why);
        return code == PAWL_OK ? set_default(params, "dbname", pq_params_get(params, "user"), why) : code;
}

/* ---- TLS --------------------------------------------------------------------------------------------------------- */

static const char *authorities(const char *sslmode)
{
        if (strncmp(sslmode, "verify", 6) != 0)
                return NO_FILE;
        for (size_t i = 0; i < sizeof(bundles) / sizeof(*bundles); i++)
                if (access(bundles[i], R_OK) == 0)
                        return bundles[i];
        return bundles[0]; /* libpq says that it is not there */
}

/* Verified, unless the server is this machine or the URL says otherwise: libpq's own default, prefer, protects nobody. */
static int take_tls(struct pq_params *params, const struct url *url, struct pawl_why *why)
{
        bool insecure = false;
        const char *certificate = pq_params_get(params, "sslcert");
        int code = url_flag(url, "insecure", &insecure, why);

        if (code != PAWL_OK)
                return code;
        if (insecure && pq_params_get(params, "sslmode"))
                return why_set(why, PAWL_INVALID, "the URL has both insecure= and sslmode=: choose one");
        code = set_default(params, "sslmode", params->remote && !insecure ? "verify-full" : "prefer", why);
        if (code == PAWL_OK)
                code = set_default(params, "sslrootcert", authorities(pq_params_get(params, "sslmode")), why);
        if (code == PAWL_OK && certificate)
                code = set_default(params, "sslkey", certificate, why); /* one file may have both */
        return code;
}

/* ---- all of it --------------------------------------------------------------------------------------------------- */

static int take_defaults(struct pq_params *params, struct pawl_why *why)
{
        const char *hosts = pq_params_get(params, "host");
        int code = PAWL_OK;

        /* Of several the primary is meant: after a failover it is another. */
        if (hosts && strchr(hosts, ','))
                code = set_default(params, "target_session_attrs", "read-write", why);
        for (size_t i = 0; code == PAWL_OK && i < sizeof(defaults) / sizeof(*defaults); i++)
                code = set_default(params, defaults[i].keyword, defaults[i].value, why);
        return code;
}

int pq_params_make(const struct url *url, const char *const *own_options, struct pq_params *params,
                   struct pawl_why *why)
{
        int code;

        memset(params, 0, sizeof(*params));
        params->text = malloc(TEXT_ROOM);
        if (!params->text)
                return why_set(why, PAWL_NO_MEMORY, "no memory for the URL");
        code = take_options(params, url, own_options, why);
        if (code == PAWL_OK)
                code = take_hosts(params, url, why);
        if (code == PAWL_OK)
                code = take_user(params, url, why);
        if (code == PAWL_OK)
                code = set_once(params, "password", url->password, why);
        if (code != PAWL_OK)
                return code;
        params->has_password = pq_params_get(params, "password") != NULL;
        params->remote = any_remote(params);
        code = take_database(params, url, why);
        if (code == PAWL_OK)
                code = take_tls(params, url, why);
        return code == PAWL_OK ? take_defaults(params, why) : code;
}
