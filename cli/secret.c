/* secret.c - where the secrets of a URL come from: a file that holds the whole URL, or passenv=. And the URLs that COMMAND
 * finds in its environment: without their passwords, as everything that is shown. A child that needs one reads it from
 * such a file, or from passfile=. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

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

static bool resolve_passenv(const char *url, char **whole)
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

/* ---- @FILE --------------------------------------------------------------------------------------------------------- */

enum { URL_MAX = 8192 };

/* What stands against trusting the file with a secret, by the rules of passfile= (src/base/secret.h); NULL: nothing. */
static const char *fault_of(int fd)
{
        struct statvfs mounted;
        struct stat info;

        if (fstat(fd, &info) != 0)
                return strerror(errno);
        if (!S_ISREG(info.st_mode))
                return "it is not a regular file";
        if (info.st_mode & (S_IWGRP | S_IWOTH))
                return "others can write it: chmod 600 it";
        if (info.st_mode & S_IROTH && !(info.st_uid == 0 && fstatvfs(fd, &mounted) == 0 && mounted.f_flag & ST_RDONLY))
                return "everybody can read it: chmod 600 it";
        return NULL;
}

/* At most room bytes. The size, or -1 and errno. */
static ssize_t read_some(int fd, char *bytes, size_t room)
{
        size_t size = 0;

        while (size < room) {
                ssize_t got = read(fd, bytes + size, room - size);

                if (got < 0 && errno == EINTR)
                        continue;
                if (got < 0)
                        return -1;
                if (got == 0)
                        break;
                size += (size_t)got;
        }
        return (ssize_t)size;
}

/* The first line of text without the blanks around it; NULL, and why there is none that will do. */
static char *first_line(char *text, size_t size, const char **fault)
{
        char *end = memchr(text, '\n', size);

        end = end ? end : text + size;
        *end = 0;
        if (strlen(text) < (size_t)(end - text))
                *fault = "there is a NUL byte in its first line";
        text += strspn(text, " \t\r");
        while (end > text && strchr(" \t\r", end[-1]))
                *--end = 0;
        if (!*fault && end - text > URL_MAX)
                *fault = "its first line is too long for a URL";
        else if (!*fault && !*text)
                *fault = "its first line is empty";
        return *fault ? NULL : text;
}

/* The URL in the file, to be freed. NULL: *fault, or there is no memory. */
static char *read_url(int fd, const char **fault)
{
        char text[2 * URL_MAX];
        ssize_t size;
        char *line;

        *fault = fault_of(fd);
        if (*fault)
                return NULL;
        size = read_some(fd, text, sizeof(text) - 1);
        if (size < 0)
                *fault = strerror(errno);
        line = *fault ? NULL : first_line(text, (size_t)size, fault);
        return line ? strdup(line) : NULL;
}

static char *url_of_file(const char *path)
{
        /* O_NONBLOCK: opening a FIFO must not wait for a writer before it can be refused. */
        int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
        const char *fault = NULL;
        char *url;

        if (fd < 0) {
                say("cannot open the URL file '%s': %s", path, strerror(errno));
                return NULL;
        }
        url = read_url(fd, &fault);
        if (!url)
                say("cannot take the URL from the file '%s': %s", path, fault ? fault : pawl_strerror(PAWL_NO_MEMORY));
        close(fd);
        return url;
}

bool resolve_url(const char *url, char **own)
{
        char *line = NULL;

        *own = NULL;
        if (*url == '@' && !(line = url_of_file(url + 1)))
                return false;
        if (!resolve_passenv(line ? line : url, own)) {
                free(line);
                return false;
        }
        if (*own)
                free(line);
        else
                *own = line;
        return true;
}

/* ---- what COMMAND finds -------------------------------------------------------------------------------------------- */

/* "@/the/whole/path": COMMAND may stand somewhere else. */
static char *whole_path(const char *url)
{
        char *here = url[1] == '/' ? strdup("") : getcwd(NULL, 0);
        char *whole = NULL;

        if (here && asprintf(&whole, "@%s%s%s", here, *here ? "/" : "", url + 1) < 0)
                whole = NULL;
        free(here);
        return whole;
}

char *url_without_secrets(const char *url)
{
        char *shown = *url == '@' ? whole_path(url) : strdup(url);

        if (shown && *shown != '@') {
                cut_options(shown);
                cut_password(shown);
        }
        return shown;
}

char *url_to_hand_on(const char *named, const char *opened)
{
        char *shown = url_without_secrets(opened);
        bool secret = shown && strcmp(shown, opened) != 0;

        free(shown);
        return *named == '@' && secret ? whole_path(named) : NULL;
}

bool hide_password(const char *variable)
{
        const char *value = getenv(variable);
        char *shown;
        bool done;

        if (!value)
                return true;
        shown = url_without_secrets(value);
        if (!shown)
                return false;
        done = !strcmp(shown, value) || setenv(variable, shown, 1) == 0;
        free(shown);
        return done;
}
