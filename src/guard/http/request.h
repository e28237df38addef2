/* request.h - what is asked of an HTTP server, as bytes, and what every request to it has in common. No socket here. */
#ifndef PAWL_HTTP_REQUEST_H
#define PAWL_HTTP_REQUEST_H

#include <stdbool.h>
#include <stddef.h>

#include "../../base/name.h"
#include "../../base/url.h"
#include "../guard.h"
#include "reply.h"

/* What all requests of a guard say. */
struct origin {
        char *host;          /* as the Host field has it */
        char *base;          /* the path of the guard, encoded, without a slash at its end */
        char *authorization; /* "Basic ..." or "Bearer ...", or NULL; a secret */
        char *secret;        /* the password or the token by itself, or NULL: never to be shown */
};

/* Reads tokenfile=. origin is zeroed; origin_free also undoes half of it. */
int origin_init(struct origin *origin, const struct url *url, struct pawl_why *why);
void origin_free(struct origin *origin);
/* The text holds what must not be shown. */
bool origin_is_told(const struct origin *origin, const char *text);

struct request {
        enum reply_need need;
        bool repeatable;                 /* asking twice does no more than asking once */
        char name[NAME_ENCODED_MAX + 1]; /* the resource, encoded; "": it is about them all */
        char fence[PAWL_FENCE_MAX + 1];  /* "NAME NUMBER", as request_say has sent it */
        char swap[SWAP_ID_MAX + 1];      /* the id, as request_name has sent it */
        char *head;
        size_t head_size;
        const void *body; /* borrowed */
        size_t body_size;
};

/* Makes one: about a resource, or visit NULL: about them all. query may be NULL and is sent as it is, and so is method. */
int request_init(struct request *request, const struct origin *origin, const char *method, const struct visit *visit,
                 const char *query);
/* The field by which it says a token or a version of its resource. Before request_seal. */
void request_say(struct request *request, const char *header, uint64_t number);
/* A field with a number and no resource. Before request_seal. */
void request_repeat(struct request *request, const char *header, uint64_t number);
/* The id of a swap. Before request_seal. */
void request_name(struct request *request, uint64_t id);
/* Gives it a body. Before request_seal. */
void request_carry(struct request *request, const void *body, size_t size);
/* The last line. PAWL_OK or PAWL_NO_MEMORY, which may have happened before. */
int request_seal(struct request *request);
/* The secret in it is wiped. */
void request_free(struct request *request);

#endif
