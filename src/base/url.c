/* url.c - reads a URL, once, into one block of memory. Sentences never quote what may be part of a password. */
#include "url.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "secret.h"

enum { TEXT_MAX = 4096, PASSWORD_MAX = 4096 };

/* A piece of the text being read. */
struct piece {
        const char *at;
        size_t size;
};

/* The URL and everything it points to. Pieces are appended decoded, each with its NUL. */
struct parser {
        struct url url;
        size_t room;
        size_t used;
        struct pawl_why *why;
        const char *passfile;
        const char *passenv;
        char bytes[];
};

static struct piece piece_until(const char *text, const char *stop)
{
        return (struct piece){text, strcspn(text, stop)};
}

static const char *last_in(struct piece piece, char c)
{
        return memrchr(piece.at, c, piece.size);
}

static bool has(struct piece piece, char c)
{
        return memchr(piece.at, c, piece.size) != NULL;
}

/* ---- pieces --------------------------------------------------------------------------------------------------- */

static char *store(struct parser *parser, const char *text, size_t size)
{
        char *at = parser->bytes + parser->used;

        if (size >= parser->room - parser->used)
                return NULL;
        memcpy(at, text, size);
        at[size] = 0;
        parser->used += size + 1;
        return at;
}

static int hex_value(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        if (c >= 'a' && c <= 'f')
                return c - 'a' + 10;
        if (c >= 'A' && c <= 'F')
                return c - 'A' + 10;
        return -1;
}

/* Takes %XX out of text, in place. what names the piece in the sentence. */
static int decode(char *text, const char *what, struct pawl_why *why)
{
        char *out = text;

        for (const char *in = text; *in; in++) {
                int high, low;

                if (*in != '%') {
                        *out++ = *in;
                        continue;
                }
                high = hex_value(in[1]);
                low = high < 0 ? -1 : hex_value(in[2]);
                if (low < 0)
                        return why_set(why, PAWL_INVALID,
                                       "the URL's %s has a %% without two hexadecimal digits: write %% as %%25", what);
                if (high < 2 || (high == 7 && low == 15))
                        return why_set(why, PAWL_INVALID, "the URL's %s has an encoded control character", what);
                *out++ = (char)(high << 4 | low);
                in += 2;
        }
        *out = 0;
        return PAWL_OK;
}

static int take(struct parser *parser, struct piece piece, const char *what, const char **text)
{
        char *stored = store(parser, piece.at, piece.size);
        int code;

        if (!stored)
                return why_set(parser->why, PAWL_NO_MEMORY, "no room for the URL's %s", what);
        code = decode(stored, what, parser->why);
        if (code != PAWL_OK)
                return code;
        *text = stored;
        return PAWL_OK;
}

/* ---- hosts ---------------------------------------------------------------------------------------------------- */

static int take_port(struct parser *parser, struct piece piece, uint32_t number, uint16_t *port)
{
        uint32_t value = 0;

        for (size_t i = 0; i < piece.size && value <= 65535; i++) {
                if (piece.at[i] < '0' || piece.at[i] > '9')
                        value = 65536;
                else
                        value = value * 10 + (uint32_t)(piece.at[i] - '0');
        }
        if (value == 0 || value > 65535)
                return why_set(
                        parser->why, PAWL_INVALID,
                        "the port of host %u in the URL is not a number from 1 to 65535 (a ':', '/', '?' or '@' in a "
                        "password is written %%3A, %%2F, %%3F or %%40)",
                        number);
        *port = (uint16_t)value;
        return PAWL_OK;
}

/* fe80::1%eth0 has its zone behind the %, which inet_pton does not know. */
static bool is_ipv6(const char *name)
{
        char address[INET6_ADDRSTRLEN];
        struct in6_addr parsed;
        size_t size = strcspn(name, "%");

        if (size >= sizeof(address))
                return false;
        memcpy(address, name, size);
        address[size] = 0;
        return inet_pton(AF_INET6, address, &parsed) == 1;
}

static int take_bracketed(struct parser *parser, struct piece piece, uint32_t number, struct url_host *host)
{
        const char *close = memchr(piece.at, ']', piece.size);
        size_t rest;
        int code;

        if (!close)
                return why_set(parser->why, PAWL_INVALID, "host %u in the URL has a '[' without its ']'", number);
        code = take(parser, (struct piece){piece.at + 1, (size_t)(close - piece.at) - 1}, "host", &host->name);
        if (code != PAWL_OK)
                return code;
        if (!is_ipv6(host->name))
                return why_set(parser->why, PAWL_INVALID, "host %u in the URL has brackets but is not an IPv6 address",
                               number);
        rest = piece.size - (size_t)(close + 1 - piece.at);
        if (rest == 0)
                return PAWL_OK;
        if (close[1] != ':')
                return why_set(parser->why, PAWL_INVALID,
                               "host %u in the URL has something after its ']' that is not a port", number);
        return take_port(parser, (struct piece){close + 2, rest - 1}, number, &host->port);
}

static int take_host(struct parser *parser, struct piece piece)
{
        struct url *url = &parser->url;
        uint32_t number = url->host_count + 1;
        struct url_host *host = &url->hosts[url->host_count];
        struct piece name = piece;
        const char *colon = memchr(piece.at, ':', piece.size);
        int code;

        if (url->host_count == URL_HOSTS_MAX)
                return why_set(parser->why, PAWL_INVALID, "the URL has more than %d hosts", URL_HOSTS_MAX);
        url->host_count++;
        if (piece.size > 0 && piece.at[0] == '[')
                return take_bracketed(parser, piece, number, host);
        if (colon && last_in(piece, ':') != colon)
                return why_set(
                        parser->why, PAWL_INVALID,
                        "host %u in the URL has more than one ':': an IPv6 address is written in brackets, [::1]:6379",
                        number);
        if (colon)
                name.size = (size_t)(colon - piece.at);
        if (name.size == 0)
                return why_set(parser->why, PAWL_INVALID, "host %u in the URL is empty", number);
        code = take(parser, name, "host", &host->name);
        if (code != PAWL_OK || !colon)
                return code;
        return take_port(parser, (struct piece){colon + 1, piece.size - name.size - 1}, number, &host->port);
}

static int take_hosts(struct parser *parser, struct piece piece)
{
        const char *end = piece.at + piece.size;
        int code = PAWL_OK;

        if (piece.size == 0)
                return PAWL_OK;
        for (const char *at = piece.at; code == PAWL_OK; at++) {
                const char *comma = memchr(at, ',', (size_t)(end - at));
                const char *stop = comma ? comma : end;

                code = take_host(parser, (struct piece){at, (size_t)(stop - at)});
                if (!comma)
                        break;
                at = comma;
        }
        return code;
}

/* user, user:password or :password */
static int take_user(struct parser *parser, struct piece piece)
{
        const char *colon = memchr(piece.at, ':', piece.size);
        size_t size = colon ? (size_t)(colon - piece.at) : piece.size;
        int code = PAWL_OK;

        if (size > 0)
                code = take(parser, (struct piece){piece.at, size}, "user", &parser->url.user);
        if (code != PAWL_OK || !colon)
                return code;
        return take(parser, (struct piece){colon + 1, piece.size - size - 1}, "password", &parser->url.password);
}

static int take_authority(struct parser *parser, struct piece authority)
{
        const char *at = last_in(authority, '@');
        struct piece hosts = authority;
        int code;

        /* Where a password holds a raw '/' or '?', its end would be taken for a path, and shown. */
        if (strchr(authority.at + authority.size, '@'))
                return why_set(parser->why, PAWL_INVALID,
                               "the URL has an '@' after its hosts: write it %%40, and a '/' or '?' in a password %%2F "
                               "or %%3F");
        if (at) {
                code = take_user(parser, (struct piece){authority.at, (size_t)(at - authority.at)});
                if (code != PAWL_OK)
                        return code;
                hosts = (struct piece){at + 1, authority.size - (size_t)(at + 1 - authority.at)};
        }
        return take_hosts(parser, hosts);
}

/* ---- options -------------------------------------------------------------------------------------------------- */

static int take_option(struct parser *parser, struct piece piece)
{
        struct url *url = &parser->url;
        struct url_option *option = &url->options[url->option_count];
        const char *equals = memchr(piece.at, '=', piece.size);
        size_t size = equals ? (size_t)(equals - piece.at) : 0;
        int code;

        if (url->option_count == URL_OPTIONS_MAX)
                return why_set(parser->why, PAWL_INVALID, "the URL has more than %d options", URL_OPTIONS_MAX);
        if (size == 0)
                return why_set(parser->why, PAWL_INVALID, "option %u in the URL is not of the form key=value",
                               url->option_count + 1);
        code = take(parser, (struct piece){piece.at, size}, "option's name", &option->key);
        if (code != PAWL_OK)
                return code;
        if (url_option(url, option->key) || (parser->passfile && strcmp(option->key, "passfile") == 0) ||
            (parser->passenv && strcmp(option->key, "passenv") == 0))
                return why_set(parser->why, PAWL_INVALID, "the URL has the option %s twice", option->key);
        code = take(parser, (struct piece){equals + 1, piece.size - size - 1}, "option's value", &option->value);
        if (code != PAWL_OK)
                return code;
        if (strcmp(option->key, "passfile") == 0)
                parser->passfile = option->value;
        else if (strcmp(option->key, "passenv") == 0)
                parser->passenv = option->value;
        else
                url->option_count++;
        return PAWL_OK;
}

static int take_options(struct parser *parser, const char *query)
{
        while (*query) {
                struct piece piece = piece_until(query, "&");
                int code = take_option(parser, piece);

                if (code != PAWL_OK)
                        return code;
                query += piece.size;
                if (*query == '&')
                        query++;
        }
        return PAWL_OK;
}

/* ---- the password file ---------------------------------------------------------------------------------------- */

/* At most room bytes. The size, or -1 and errno. */
static ssize_t read_all(int fd, char *bytes, size_t room)
{
        size_t size = 0;

        while (size < room) {
                ssize_t n = read(fd, bytes + size, room - size);

                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -1;
                if (n == 0)
                        break;
                size += (size_t)n;
        }
        return (ssize_t)size;
}

static int read_passfile(struct parser *parser, int fd)
{
        char *password = parser->bytes + parser->used;
        ssize_t size = read_all(fd, password, PASSWORD_MAX + 1);

        if (size < 0)
                return why_system(parser->why, errno, "cannot read the password file %s", parser->passfile);
        if (size > PASSWORD_MAX)
                return why_set(parser->why, PAWL_INVALID, "the password file %s is longer than %d bytes",
                               parser->passfile, PASSWORD_MAX);
        if (size > 0 && password[size - 1] == '\n')
                size--;
        if (size == 0)
                return why_set(parser->why, PAWL_INVALID, "the password file %s is empty", parser->passfile);
        if (memchr(password, 0, (size_t)size))
                return why_set(parser->why, PAWL_INVALID, "the password file %s has a NUL byte in it",
                               parser->passfile);
        password[size] = 0;
        parser->used += (size_t)size + 1;
        parser->url.password = password;
        return PAWL_OK;
}

static int take_passfile(struct parser *parser)
{
        int fd;
        int code;

        if (parser->passfile && parser->passenv)
                return why_set(parser->why, PAWL_INVALID, "the URL has both passfile= and passenv=: choose one");
        if (parser->passenv && !parser->url.password)
                return why_set(
                        parser->why, PAWL_INVALID,
                        "passenv= in the URL is read by the pawl command only, because the library does not read "
                        "the environment: give the password itself, or passfile=");
        if (!parser->passfile)
                return PAWL_OK;
        if (parser->url.password)
                return why_set(parser->why, PAWL_INVALID, "the URL has both a password and passfile=: choose one");
        /* O_NONBLOCK: opening a FIFO must not wait for a writer before it can be refused. */
        fd = open(parser->passfile, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        if (fd < 0)
                return why_system(parser->why, errno, "cannot open the password file %s", parser->passfile);
        code = secret_check(fd, "password file", parser->passfile, parser->why);
        if (code == PAWL_OK)
                code = read_passfile(parser, fd);
        close(fd);
        return code;
}

/* ---- the URL without its secrets -------------------------------------------------------------------------------- */

static bool ends_with(struct piece piece, const char *end)
{
        size_t size = strlen(end);

        return piece.size >= size && strncasecmp(piece.at + piece.size - size, end, size) == 0;
}

static void append(struct parser *parser, const char *text, size_t size)
{
        memcpy(parser->bytes + parser->used, text, size);
        parser->used += size;
}

/* libpq takes password= and sslpassword= as options. An encoded key could be one of them. */
static void show_options(struct parser *parser, const char *query)
{
        char before = '?';

        while (*query) {
                struct piece option = piece_until(query, "&");
                struct piece key = piece_until(query, "=&");

                if (!ends_with(key, "password") && !has(key, '%')) {
                        append(parser, &before, 1);
                        append(parser, option.at, option.size);
                        before = '&';
                }
                query += option.size;
                if (*query == '&')
                        query++;
        }
}

/* Never longer than the text itself, for which there is room. */
static void show(struct parser *parser, const char *text)
{
        struct piece head = piece_until(text, ":");
        struct piece rest = piece_until(text + head.size + 1, "?");
        const char *query = rest.at + rest.size;

        parser->url.shown = parser->bytes + parser->used;
        append(parser, text, head.size + 1);
        if (strncmp(rest.at, "//", 2) == 0) {
                struct piece authority = piece_until(rest.at + 2, "/?");
                const char *at = last_in(authority, '@');
                struct piece user = {authority.at, at ? (size_t)(at - authority.at) : 0};
                const char *colon = memchr(user.at, ':', user.size);

                if (colon)
                        user.size = (size_t)(colon - user.at);
                append(parser, "//", 2);
                append(parser, user.at, user.size);
                if (user.size > 0)
                        append(parser, "@", 1);
                if (at)
                        rest = (struct piece){at + 1, rest.size - (size_t)(at + 1 - rest.at)};
                else
                        rest = (struct piece){authority.at, rest.size - 2};
        }
        append(parser, rest.at, rest.size);
        if (*query == '?')
                show_options(parser, query + 1);
        append(parser, "", 1);
}

/* ---- the whole ------------------------------------------------------------------------------------------------- */

static int check_text(const char *text, size_t *size, struct pawl_why *why)
{
        if (!text)
                return why_set(why, PAWL_INVALID, "there is no URL: it is NULL");
        *size = strnlen(text, TEXT_MAX + 1);
        if (*size > TEXT_MAX)
                return why_set(why, PAWL_INVALID, "the URL is longer than %d bytes", TEXT_MAX);
        for (size_t i = 0; i < *size; i++) {
                unsigned char byte = (unsigned char)text[i];

                if (byte < 0x20 || byte == 0x7f)
                        return why_set(why, PAWL_INVALID, "the URL has a control character at byte %zu", i + 1);
                if (byte == '#')
                        return why_set(why, PAWL_INVALID, "the URL has a '#' at byte %zu: write it %%23", i + 1);
        }
        return PAWL_OK;
}

static bool is_letter(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int take_scheme(struct parser *parser, const char *text)
{
        struct piece scheme = piece_until(text, ":");
        char *stored;

        if (text[scheme.size] != ':')
                return why_set(parser->why, PAWL_INVALID,
                               "the URL does not begin with a scheme and a ':', as in local: or redis://host");
        for (size_t i = 0; i < scheme.size; i++)
                if (!is_letter(text[i]) && (i == 0 || !strchr("0123456789+.-", text[i])))
                        return why_set(parser->why, PAWL_INVALID,
                                       "the URL's scheme (what stands before the first ':') is not one: letters first, "
                                       "then letters, digits, '+', '.' or '-'");
        stored = store(parser, text, scheme.size);
        if (!stored || scheme.size == 0)
                return why_set(parser->why, PAWL_INVALID,
                               "the URL has no scheme before its ':', as in local: or redis:");
        for (char *c = stored; *c; c++)
                if (*c >= 'A' && *c <= 'Z')
                        *c = (char)(*c - 'A' + 'a');
        parser->url.scheme = stored;
        return PAWL_OK;
}

static int parse(struct parser *parser, const char *text)
{
        const char *rest = strchr(text, ':');
        struct piece path;
        int code = take_scheme(parser, text);

        if (code != PAWL_OK)
                return code;
        rest++;
        if (strncmp(rest, "//", 2) == 0) {
                struct piece authority = piece_until(rest + 2, "/?");

                code = take_authority(parser, authority);
                if (code != PAWL_OK)
                        return code;
                rest = authority.at + authority.size;
        }
        path = piece_until(rest, "?");
        code = take(parser, path, "path", &parser->url.path);
        if (code != PAWL_OK)
                return code;
        if (rest[path.size] == '?')
                code = take_options(parser, rest + path.size + 1);
        return code == PAWL_OK ? take_passfile(parser) : code;
}

/* Pieces with their NULs, twice the text itself, and a password from a file. */
static size_t room_for(size_t size)
{
        return size + 4 + URL_HOSTS_MAX + 2 * (URL_OPTIONS_MAX + 1) + 2 * (size + 1) + PASSWORD_MAX + 2;
}

int url_parse(const char *text, struct url **url, struct pawl_why *why)
{
        struct parser *parser;
        size_t size = 0;
        int code = check_text(text, &size, why);

        if (code != PAWL_OK)
                return code;
        parser = calloc(1, sizeof(*parser) + room_for(size));
        if (!parser)
                return why_set(why, PAWL_NO_MEMORY, "no memory for the URL");
        parser->room = room_for(size);
        parser->why = why;
        parser->url.text = parser->bytes;
        parser->url.whole = store(parser, text, size);
        code = parse(parser, text);
        if (code != PAWL_OK) {
                url_free(&parser->url);
                return code;
        }
        show(parser, text);
        parser->why = NULL;
        *url = &parser->url;
        return PAWL_OK;
}

void url_free(struct url *url)
{
        struct parser *parser = (struct parser *)url;

        if (!url)
                return;
        explicit_bzero(parser->bytes, parser->room);
        free(parser);
}

char *url_where(const char *host, uint16_t port)
{
        char *where;

        return asprintf(&where, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host, (unsigned)port) < 0 ? NULL : where;
}

char *url_of_path(const char *scheme, const char *path, const char *query)
{
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-~+@";
        char *url = malloc(strlen(scheme) + 3 * strlen(path) + (query ? strlen(query) : 0) + sizeof(":"));
        char *out = url;

        if (!url)
                return NULL;
        out = stpcpy(stpcpy(out, scheme), ":");
        while (path[0] == '/' && path[1] == '/')
                path++; /* behind "//" a URL has a host */
        for (; *path; path++)
                out += sprintf(out, strchr(plain, *path) ? "%c" : "%%%02X", (unsigned char)*path);
        strcpy(out, query ? query : "");
        return url;
}

void url_wipe(char *secret)
{
        if (secret)
                explicit_bzero(secret, strlen(secret));
        free(secret);
}
