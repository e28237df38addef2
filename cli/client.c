/* client.c - which store, and opening it: -e, else $PAWL_URL, else the embedded engine in its default directory. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* The last few warnings that were said. A store that is away says the same every second. */
enum { SAID_MAX = 16 };
static uint64_t said[SAID_MAX];
static size_t said_count;

/* FNV-1a: two texts that are taken for one cost a warning, no more. */
static uint64_t fingerprint(const char *text)
{
        uint64_t hash = UINT64_C(0xcbf29ce484222325);

        for (; *text; text++)
                hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
        return hash;
}

static bool said_before(const char *text)
{
        uint64_t hash = fingerprint(text);

        for (size_t i = 0; i < said_count && i < SAID_MAX; i++)
                if (said[i] == hash)
                        return true;
        said[said_count++ % SAID_MAX] = hash;
        return false;
}

static void log_line(int level, const char *text, void *arg)
{
        (void)level;
        (void)arg;
        if (settings.verbose || !said_before(text))
                say("%s", text);
}

/* /var/lib/pawl for root, else under XDG_STATE_HOME, which must be absolute to count (XDG base directory spec). */
static bool default_directory(char *path, size_t size)
{
        const char *state = getenv("XDG_STATE_HOME");
        const char *home = getenv("HOME");
        int length;

        if (geteuid() == 0)
                length = snprintf(path, size, "/var/lib/pawl");
        else if (state && *state == '/')
                length = snprintf(path, size, "%s/pawl", state);
        else if (home && *home == '/')
                length = snprintf(path, size, "%s/.local/state/pawl", home);
        else
                return false;
        return length > 0 && (size_t)length < size;
}

static char *url_of_directory(const char *path, const char *options)
{
        static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-~+@";
        static const char hex[] = "0123456789ABCDEF";
        char *url = malloc(sizeof("local:") + 3 * strlen(path) + strlen(options));
        char *out = url;

        if (!url)
                return NULL;
        while (path[0] == '/' && path[1] == '/')
                path++; /* HOME may be "/", and behind "//" a URL has a host */
        out = stpcpy(out, "local:");
        for (const unsigned char *byte = (const unsigned char *)path; *byte; byte++) {
                if (strchr(plain, *byte)) {
                        *out++ = (char)*byte;
                        continue;
                }
                *out++ = '%';
                *out++ = hex[*byte >> 4];
                *out++ = hex[*byte & 15];
        }
        strcpy(out, options);
        return url;
}

static char *default_url(const char *options)
{
        char path[4096];

        if (!default_directory(path, sizeof(path))) {
                say("there is no place for the embedded engine: set HOME, or name a store with -e or $PAWL_URL");
                return NULL;
        }
        return url_of_directory(path, options);
}

/* The options of a URL that names no directory: `local:` and `local:?ttl=1m` mean the store that no URL means. Else NULL. */
static const char *options_alone(const char *url)
{
        if (!url || (!settings.url && !*url))
                return "";
        if (strncmp(url, "local:", 6) || (url[6] && url[6] != '?'))
                return NULL;
        return url + 6;
}

static uint32_t log_level(void)
{
        uint32_t level = PAWL_LOG_WARNING + settings.verbose;

        return level < PAWL_LOG_TRACE ? level : PAWL_LOG_TRACE;
}

int client_open(enum pawl_drive drive, pawl_client **client)
{
        struct pawl_why why = {0};
        const char *url = settings.url ? settings.url : getenv("PAWL_URL");
        const char *options = options_alone(url);
        char *own_url = NULL;
        int code;

        if (options) {
                url = own_url = default_url(options);
                if (!url)
                        return EXIT_FAILED;
        }
        code = pawl_open(url,
                         PAWL_OPEN(.drive = drive, .log = settings.quiet ? NULL : log_line, .why = &why,
                                   .log_level = log_level()),
                         client);
        free(own_url);
        return code == PAWL_OK ? EXIT_DONE : fail(code, &why);
}

int client_do(int (*job)(pawl_client *client, const char *argument), const char *argument)
{
        pawl_client *client;
        int status = client_open(PAWL_DRIVE_CALLER, &client);

        if (status != EXIT_DONE)
                return status;
        status = job(client, argument);
        pawl_close(client);
        return status;
}

int fail_of_client(pawl_client *client, int code)
{
        struct pawl_why why = {0};

        if (code != PAWL_OK)
                (void)pawl_explain(client, &why);
        return fail(code, why.code == code ? &why : NULL);
}
