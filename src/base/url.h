/* url.h - what a pawl URL says. scheme:[PATH], scheme://[user[:password]@]host[:port][,host[:port]...][/path], then
 * ?key=value&key=value; %XX decodes everywhere but in the scheme. passfile= is read here, so that engines see a password;
 * passenv= is kept for those who are shown the URL, and the password must be there already (cli/secret.c). */
#ifndef PAWL_URL_H
#define PAWL_URL_H

#include <stdbool.h>
#include <stdint.h>

#include "why.h"

enum { URL_HOSTS_MAX = 32, URL_OPTIONS_MAX = 32 };

struct url_host {
        const char *name; /* without the brackets of an IPv6 address */
        uint16_t port;    /* 0: not said */
};

struct url_option {
        const char *key;
        const char *value;
};

struct url {
        char *text;         /* owns all below */
        const char *scheme; /* lower case */
        const char *user;   /* NULL if none, as for password */
        const char *password;
        const char *path;  /* "" if none; with its leading slash */
        const char *whole; /* the URL as given, for clients that read it themselves (libpq): a secret */
        const char *shown; /* the URL without its password, for people and children */
        struct url_host hosts[URL_HOSTS_MAX];
        struct url_option options[URL_OPTIONS_MAX];
        uint32_t host_count;
        uint32_t option_count;
};

int url_parse(const char *text, struct url **url, struct pawl_why *why);
void url_free(struct url *url); /* wipes the secrets first */

/* The value, or NULL. */
const char *url_option(const struct url *url, const char *key);
/* Each leaves *value untouched if the URL does not have the option, and refuses what is not exactly one: PAWL_INVALID,
 * naming the option and its value. yes, true, on, 1, no, false, off or 0, in capitals too: */
int url_flag(const struct url *url, const char *key, bool *value, struct pawl_why *why);
/* Decimal digits only: no sign, no space, no unit. */
int url_number(const struct url *url, const char *key, int64_t least, int64_t most, int64_t *value,
               struct pawl_why *why);
/* A duration in ns. */
int url_duration(const struct url *url, const char *key, int64_t *value, struct pawl_why *why);
/* One of two words, the first if it is not said. */
int url_choice(const struct url *url, const char *key, const char *first, const char *second, bool *is_second,
               struct pawl_why *why);
/* timeout=, how long a server may take to answer: 5 s if it is not said, 10 ms to an hour. */
int url_timeout(const struct url *url, int64_t *timeout, struct pawl_why *why);
/* slack=, what a store may be late: a second if it is not said, at most a minute. */
int url_slack(const struct url *url, int64_t *slack, struct pawl_why *why);
/* PAWL_INVALID, naming the first option that is not among known (a list ended by NULL). */
int url_only(const struct url *url, const char *const *known, struct pawl_why *why);

/* The same for texts from elsewhere. False, and *value untouched, for anything else. */
bool flag_parse(const char *text, bool *value);
bool number_parse(const char *text, int64_t least, int64_t most, int64_t *value); /* from 0 <= least */

/* What an examination says of a URL with insecure=yes. */
extern const struct pawl_finding url_insecure;

/* A server as people write it: host:port, [host]:port for an address with colons. NULL: no memory; to be freed. */
char *url_where(const char *host, uint16_t port);
/* A URL without hosts: scheme:/path, encoded, and query ("?..." or NULL). NULL: no memory; to be freed. */
char *url_of_path(const char *scheme, const char *path, const char *query);
/* Overwrites a secret and frees it; NULL is nothing. */
void url_wipe(char *secret);

#endif
