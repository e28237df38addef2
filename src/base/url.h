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
/* PAWL_INVALID, naming the first option that is not among known (a list ended by NULL). */
int url_only(const struct url *url, const char *const *known, struct pawl_why *why);

#endif
