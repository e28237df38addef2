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
