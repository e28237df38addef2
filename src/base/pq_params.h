/* pq_params.h - what a postgres:// URL says, as the keywords and values that libpq's PQconnectStartParams takes. For the
 * engine and the guard; libpq itself is not used here.
 *
 * libpq fills what it is not told from its environment (PGHOST, PGPASSWORD, ~/.pgpass, ~/.postgresql, ...), and a library
 * does not read the environment. So it is told: what the URL does not say is said here, as far as libpq can be told at all.
 * What cannot (docs/guards/postgres.md has the list): PGOPTIONS, PGSERVICE for what is left, PGDATESTYLE, PGTZ, PGGEQO, and
 * PGHOSTADDR for hosts that are names; who resolves names sets hostaddr. */
#ifndef PAWL_PQ_PARAMS_H
#define PAWL_PQ_PARAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "url.h"

enum { PQ_PARAMS_MAX = 80 };

struct pq_params {
        const char *keywords[PQ_PARAMS_MAX + 1]; /* ended by NULL, as values; borrowed until pq_params_free */
        const char *values[PQ_PARAMS_MAX + 1];
        uint32_t count;
        bool remote;       /* a host is not this machine */
        bool has_password; /* the URL says one; else a value that is none stands in the way of PGPASSWORD */
        char *text;        /* owns the values */
        size_t used;
};

/* own_options: keys of options that are the caller's and not libpq's, ended by NULL. An option that is neither is
 * PAWL_INVALID. To be given to libpq with expand_dbname 0. Whatever is returned, pq_params_free may follow. */
int pq_params_make(const struct url *url, const char *const *own_options, struct pq_params *params,
                   struct pawl_why *why);
/* One more, or another value for one that is there; keyword is borrowed, the value copied. */
int pq_params_set(struct pq_params *params, const char *keyword, const char *value, struct pawl_why *why);
/* The value, or NULL. */
const char *pq_params_get(const struct pq_params *params, const char *keyword);
/* Wipes the values first. One that is zeroed, or freed before, is fine. */
void pq_params_free(struct pq_params *params);

/* True for a host that is this machine: a directory of sockets, localhost, 127.0.0.0/8, ::1. */
bool pq_host_is_here(const char *host);

#endif
