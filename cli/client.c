/* client.c - which store, and opening it: -e, else $PAWL_URL, else local:, whose directory the library knows. */
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

static uint32_t log_level(void)
{
        uint32_t level = PAWL_LOG_WARNING + settings.verbose;

        return level < PAWL_LOG_TRACE ? level : PAWL_LOG_TRACE;
}

int client_open(enum pawl_drive drive, pawl_client **client)
{
        struct pawl_why why = {0};
        const char *url = settings.url ? settings.url : getenv("PAWL_URL");
        char *own_url = NULL;
        int code;

        if (!url || (!settings.url && !*url))
                url = "local:";
        if (!resolve_passenv(url, &own_url))
                return EXIT_FAILED;
        code = pawl_open(own_url ? own_url : url,
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
