/* secret.c - the URLs that COMMAND finds in its environment: without their passwords, as everything that is shown. A child
 * that needs one reads it from passfile=. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"

static void cut(char *from, const char *to)
{
        memmove(from, to, strlen(to) + 1);
}

/* As the library has it: password=, sslpassword=; and an encoded key could be one of them. */
static bool is_secret(const char *key, size_t size)
{
        static const char end[] = "password";
        const size_t length = sizeof(end) - 1;

        return memchr(key, '%', size) || (size >= length && !strncasecmp(key + size - length, end, length));
}

static void cut_options(char *url)
{
        char *query = url + strcspn(url, "?");
        char *option = *query ? query + 1 : query;

        while (*option) {
                size_t size = strcspn(option, "&");
                char *next = option + size + (option[size] == '&');

                if (is_secret(option, strcspn(option, "=&")))
                        cut(option, next);
                else
                        option = next;
        }
        if (option > url && (option[-1] == '&' || option[-1] == '?'))
                option[-1] = 0;
}

/* user:password@host is user@host; :password@host is host. */
static void cut_password(char *url)
{
        char *user = strstr(url, "://");
        char *at = NULL, *colon;

        if (!user)
                return;
        user += 3;
        for (char *byte = user; *byte && *byte != '/' && *byte != '?'; byte++)
                if (*byte == '@')
                        at = byte;
        colon = at ? memchr(user, ':', (size_t)(at - user)) : NULL;
        if (colon)
                cut(colon, colon == user ? at + 1 : at);
}

/* ---- passenv= ------------------------------------------------------------------------------------------------------ */

/* The value of passenv= in url, or NULL. */
static const char *find_passenv(const char *url, size_t *size)
{
        const char *option = url + strcspn(url, "?");

        while (*option) {
                option++;
                *size = strcspn(option, "&");
                if (!strncmp(option, "passenv=", 8)) {
                        *size -= 8;
                        return option + 8;
                }
                option += *size;
        }
        return NULL;
}

static char *encode(char *out, const char *text)
{
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

        for (; *text; text++)
                out += sprintf(out, strchr(plain, *text) ? "%c" : "%%%02X", (unsigned char)*text);
        return out;
}

/* user@host is user:password@host; host is :password@host; a path without hosts gets them. */
static char *put_password(const char *url, const char *password)
{
        const char *colon = url + strcspn(url, ":");
        const char *authority = strncmp(colon, "://", 3) ? NULL : colon + 3;
        size_t size = authority ? strcspn(authority, "/?") : 0;
        const char *at = authority ? memrchr(authority, '@', size) : NULL;
        const char *rest = at ? at : authority ? authority : *colon ? colon + 1 : colon;
        bool has_one = at && memchr(authority, ':', (size_t)(at - authority));
        char *whole = has_one ? NULL : malloc(strlen(url) + 3 * strlen(password) + sizeof("//:@"));
        char *out = whole;

        if (!whole)
                return NULL;
        out = mempcpy(out, url, (size_t)(rest - url));
        out = stpcpy(out, authority ? ":" : "//:");
        out = encode(out, password);
        strcpy(at ? out : stpcpy(out, "@"), rest);
        return whole;
}

bool resolve_passenv(const char *url, char **whole)
{
        size_t size = 0;
        const char *name = find_passenv(url, &size);
        const char *password;
        char variable[256];

        *whole = NULL;
        if (!name)
                return true;
        snprintf(variable, sizeof(variable), "%.*s", (int)(size < sizeof(variable) ? size : 0), name);
        password = *variable ? getenv(variable) : NULL;
        if (!password || !*password) {
                say("passenv=%s in the URL: there is no such variable in the environment, or it is empty", variable);
                return false;
        }
        *whole = put_password(url, password);
        if (!*whole)
                say("the URL has both a password and passenv=, or there is no memory for it: choose one");
        return *whole != NULL;
}

bool hide_password(const char *variable)
{
        const char *value = getenv(variable);
        char *shown;
        bool done;

        if (!value)
                return true;
        shown = strdup(value);
        if (!shown)
                return false;
        cut_options(shown);
        cut_password(shown);
        done = !strcmp(shown, value) || setenv(variable, shown, 1) == 0;
        free(shown);
        return done;
}
