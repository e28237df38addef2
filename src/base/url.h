/* url.h - what a pawl URL says. scheme:[PATH], scheme://[user[:password]@]host[:port][,host[:port]...][/path], then
 * ?key=value&key=value; %XX decodes everywhere but in the scheme. passfile= is read here, so that engines see a password. */
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
/* A duration in ns, *value untouched if it is not said. */
int url_duration(const struct url *url, const char *key, int64_t *value, struct pawl_why *why);
/* True if it is said and is neither 0 nor no. */
bool url_flag(const struct url *url, const char *key);
/* One of two words, the first if it is not said. */
int url_choice(const struct url *url, const char *key, const char *first, const char *second, bool *is_second,
               struct pawl_why *why);
/* timeout=, how long a server may take to answer: 5 s if it is not said, 10 ms to an hour. */
int url_timeout(const struct url *url, int64_t *timeout, struct pawl_why *why);
/* slack=, what a store may be late: a second if it is not said, at most a minute. */
int url_slack(const struct url *url, int64_t *slack, struct pawl_why *why);
/* PAWL_INVALID, naming the first option that is not among known (a list ended by NULL). */
int url_only(const struct url *url, const char *const *known, struct pawl_why *why);

/* A server as people write it: host:port, [host]:port for an address with colons. NULL: no memory; to be freed. */
char *url_where(const char *host, uint16_t port);
/* Overwrites a secret and frees it; NULL is nothing. */
void url_wipe(char *secret);

#endif
