/* request.c - see request.h. What comes from outside is encoded or refused: no line can be smuggled into a request. */
#include "request.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../../base/secret.h"
#include "../../base/base64.h"
#include "../../base/name.h"

enum { SECRET_MAX = 4096 };

/* ---- the origin ------------------------------------------------------------------------------------------------ */

static bool is_letter_or_digit(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

/* Percent-encodes what a path may not hold as it is; the URL was decoded when it was read. */
static char *encode_path(const char *path)
{
        char *encoded = malloc(3 * strlen(path) + 1);
        size_t used = 0;

        if (!encoded)
                return NULL;
        for (; *path; path++) {
                if (is_letter_or_digit(*path) || strchr("/._~-!$&'()*+,;=:@", *path))
                        encoded[used++] = *path;
                else
                        used += (size_t)sprintf(encoded + used, "%%%02X", (unsigned)(unsigned char)*path);
        }
        while (used > 0 && encoded[used - 1] == '/')
                used--;
        encoded[used] = '\0';
        return encoded;
}

static int take_host(struct origin *origin, const struct url *url, struct pawl_why *why)
{
        const struct url_host *host = &url->hosts[0];
        bool is_address = strchr(host->name, ':') != NULL;
        size_t size =
                is_address ? strcspn(host->name, "%") : strlen(host->name); /* the zone is nobody else's business */
        char port[8] = "";
        int length;

        for (size_t i = 0; i < size; i++) {
                if (!is_letter_or_digit(host->name[i]) && !strchr(".-_:", host->name[i]))
                        return why_set(why, PAWL_INVALID, "%s: the host is not a name or an address", url->shown);
        }
        if (host->port)
                snprintf(port, sizeof(port), ":%u", (unsigned)host->port);
        length = asprintf(&origin->host, "%s%.*s%s%s", is_address ? "[" : "", (int)size, host->name,
                          is_address ? "]" : "", port);
        if (length >= 0)
                return PAWL_OK;
        origin->host = NULL;
        return why_set(why, PAWL_NO_MEMORY, "no memory for the guard");
}

/* The alphabet of RFC 4648, section 4, with its padding, which is not base64.h's. */
static char *basic_of(const char *user, const char *password)
{
        char *pair = NULL;
        char *text = NULL;
        size_t size;

        if (asprintf(&pair, "%s:%s", user, password) < 0)
                return NULL;
        size = strlen(pair);
        text = malloc(strlen("Basic ") + BASE64_SIZE(size) + 4);
        if (text) {
                char *at = stpcpy(text, "Basic ");

                base64_encode(pair, size, at);
                for (; *at; at++)
                        *at = *at == '-' ? '+' : *at == '_' ? '/' : *at;
                memcpy(at, "==", (3 - size % 3) % 3);
                at[(3 - size % 3) % 3] = '\0';
        }
        url_wipe(pair);
        return text;
}

static int take_password(struct origin *origin, const struct url *url, struct pawl_why *why)
{
        if (!url->user || !url->password)
                return why_set(why, PAWL_INVALID, "%s: a user needs a password (or passfile=), and a password a user",
                               url->shown);
        if (strchr(url->user, ':'))
                return why_set(why, PAWL_INVALID, "%s: HTTP knows no user with a ':' in its name", url->shown);
        origin->secret = strdup(url->password);
        origin->authorization = basic_of(url->user, url->password);
        if (!origin->secret || !origin->authorization)
                return why_set(why, PAWL_NO_MEMORY, "no memory for the guard");
        return PAWL_OK;
}

/* RFC 6750: what a bearer's token is made of. */
static bool is_bearer(const char *token)
{
        size_t size = 0;

        while (token[size] && (is_letter_or_digit(token[size]) || strchr("-._~+/", token[size])))
                size++;
        return size > 0 && token[size + strspn(token + size, "=")] == '\0';
}

/* secret holds SECRET_MAX + 1. */
static int read_token(int fd, const char *path, char *secret, struct pawl_why *why)
{
        size_t size = 0;
        ssize_t n;

        while (size < SECRET_MAX && (n = read(fd, secret + size, SECRET_MAX - size)) != 0) {
                if (n < 0 && errno != EINTR)
                        return why_system(why, errno, "cannot read the token file %s", path);
                if (n > 0)
                        size += (size_t)n;
        }
        secret[size] = '\0';
        if (size > 0 && secret[size - 1] == '\n')
                secret[size - 1] = '\0';
        if (size == SECRET_MAX || strlen(secret) + 1 < size || !is_bearer(secret))
                return why_set(why, PAWL_INVALID, "the token file %s has not one line with a bearer token", path);
        return PAWL_OK;
}

static int take_token(struct origin *origin, const char *path, struct pawl_why *why)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        int code;

        if (fd < 0)
                return why_system(why, errno, "cannot open the token file %s", path);
        origin->secret = calloc(1, SECRET_MAX + 1);
        code = origin->secret ? secret_check(fd, "token file", path, why)
                              : why_set(why, PAWL_NO_MEMORY, "no memory for the guard");
        if (code == PAWL_OK)
                code = read_token(fd, path, origin->secret, why);
        close(fd);
        if (code != PAWL_OK)
                return code;
        if (asprintf(&origin->authorization, "Bearer %s", origin->secret) >= 0)
                return PAWL_OK;
        origin->authorization = NULL;
        return why_set(why, PAWL_NO_MEMORY, "no memory for the guard");
}

int origin_init(struct origin *origin, const struct url *url, struct pawl_why *why)
{
        const char *tokenfile = url_option(url, "tokenfile");
        int code = take_host(origin, url, why);

        if (code != PAWL_OK)
                return code;
        origin->base = encode_path(url->path);
        if (!origin->base)
                return why_set(why, PAWL_NO_MEMORY, "no memory for the guard");
        if (tokenfile && (url->user || url->password))
                return why_set(why, PAWL_INVALID, "%s: a user and tokenfile=: choose one", url->shown);
        if (tokenfile)
                return take_token(origin, tokenfile, why);
        return url->user || url->password ? take_password(origin, url, why) : PAWL_OK;
}

void origin_free(struct origin *origin)
{
        free(origin->host);
        free(origin->base);
        url_wipe(origin->authorization);
        url_wipe(origin->secret);
}

bool origin_is_told(const struct origin *origin, const char *text)
{
        const char *encoded = origin->authorization ? strchr(origin->authorization, ' ') + 1 : NULL;

        return encoded && (strstr(text, encoded) || (*origin->secret && strstr(text, origin->secret)));
}

/* ---- requests -------------------------------------------------------------------------------------------------- */

/* Adds to the head; after a failure there is none any more. */
static void add(struct request *request, const char *name, const char *value)
{
        size_t size = strlen(name) + strlen(value) + 2;
        char *head = request->head ? malloc(request->head_size + size + 1) : NULL;

        if (head) {
                char *at;

                memcpy(head, request->head, request->head_size);
                at = stpcpy(stpcpy(head + request->head_size, name), value);
                memcpy(at, "\r\n", 3);
        }
        url_wipe(request->head); /* not realloc, which could leave a secret behind */
        request->head = head;
        request->head_size += size;
}

static int first_line(struct request *request, const struct origin *origin, const char *method, const char *query)
{
        int size = asprintf(&request->head, "%s %s/%s%s%s HTTP/1.1\r\n", method, origin->base, request->name,
                            query ? "?" : "", query ? query : "");

        if (size < 0) {
                request->head = NULL;
                return PAWL_NO_MEMORY;
        }
        request->head_size = (size_t)size;
        return PAWL_OK;
}

int request_init(struct request *request, const struct origin *origin, const char *method, const struct visit *visit,
                 const char *query)
{
        *request = (struct request){.need = REPLY_STATUS};
        if (visit)
                name_encode(visit->resource, visit->length, "/", request->name);
        if (first_line(request, origin, method, query) != PAWL_OK)
                return PAWL_NO_MEMORY;
        add(request, "Host: ", origin->host);
        add(request, "User-Agent: pawl/", PAWL_VERSION);
        add(request, "Cache-Control: ", "no-store");
        add(request, "Accept-Encoding: ", "identity");
        if (origin->authorization)
                add(request, "Authorization: ", origin->authorization);
        return request->head ? PAWL_OK : PAWL_NO_MEMORY;
}

void request_say(struct request *request, const char *header, uint64_t number)
{
        snprintf(request->fence, sizeof(request->fence), "%s %" PRIu64, request->name, number);
        add(request, header, request->fence);
}

void request_repeat(struct request *request, const char *header, uint64_t number)
{
        char text[24];

        snprintf(text, sizeof(text), "%" PRIu64, number);
        add(request, header, text);
}

void request_name(struct request *request, uint64_t id)
{
        snprintf(request->swap, sizeof(request->swap), "%016" PRIx64, id);
        add(request, PAWL_SWAP_HEADER ": ", request->swap);
}

void request_carry(struct request *request, const void *body, size_t size)
{
        char length[24];

        snprintf(length, sizeof(length), "%zu", size);
        add(request, "Content-Length: ", length);
        request->body = body;
        request->body_size = size;
}

int request_seal(struct request *request)
{
        add(request, "", "");
        return request->head ? PAWL_OK : PAWL_NO_MEMORY;
}

void request_free(struct request *request)
{
        url_wipe(request->head);
        request->head = NULL;
}
