/* client.c - which store, and opening it: -e, else $PAWL_URL, else local:, whose directory the library knows. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

/* What the library said of a store that is not there yet. */
static char not_there[sizeof(((struct pawl_why *)0)->text)];

/* See client_url. */
static char *handed_on;

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
        (void)arg;
        if (settings.verbose || !said_before(text))
                say_at(level, "%s", text);
}

static uint32_t log_level(void)
{
        uint32_t level = PAWL_LOG_WARNING + settings.verbose;

        return level < PAWL_LOG_TRACE ? level : PAWL_LOG_TRACE;
}

char *url_to_look(const char *url)
{
        static const char option[] = "create=no";
        char *own = malloc(strlen(url) + sizeof(option) + 1);

        if (own)
                sprintf(own, "%s%c%s", url, strchr(url, '?') ? '&' : '?', option);
        return own;
}

bool url_says_create(const char *url)
{
        for (const char *at = url + strcspn(url, "?"); *at; at += 1 + strcspn(at + 1, "&"))
                if (!strncmp(at + 1, "create=", 7))
                        return true;
        return false;
}

static int open_url(const char *url, enum pawl_drive drive, pawl_client **client, struct pawl_why *why)
{
        return pawl_open(url,
                         PAWL_OPEN(.drive = drive, .owner = settings.owner, .look_ms = settings.look_ms,
                                   .log = settings.quiet ? NULL : log_line, .why = why, .log_level = log_level()),
                         client);
}

/* look: *client is NULL if there is no store. *reported: what is wrong has been said. */
static int try_store(enum pawl_drive drive, bool look, pawl_client **client, struct pawl_why *why, bool *reported)
{
        const char *url = settings.url ? settings.url : getenv("PAWL_URL");
        char *own_url = NULL;
        int code;

        if (!url || (!settings.url && !*url))
                url = "local:";
        *client = NULL;
        *reported = !resolve_url(url, &own_url);
        if (*reported)
                return PAWL_INVALID;
        if (own_url) {
                free(handed_on);
                handed_on = url_to_hand_on(url, own_url);
                url = own_url;
        }
        if (look && !strncmp(url, "local:", 6) && !url_says_create(url)) {
                char *looking = url_to_look(url);

                free(own_url);
                url = own_url = looking;
                if (!url)
                        return PAWL_NO_MEMORY;
        }
        code = open_url(url, drive, client, why);
        free(own_url);
        snprintf(not_there, sizeof(not_there), "%s", why->text);
        return look && code == PAWL_NOT_FOUND ? PAWL_OK : code;
}

static int open_store(enum pawl_drive drive, bool look, pawl_client **client)
{
        struct pawl_why why = {0};
        bool reported;
        int code = try_store(drive, look, client, &why, &reported);

        return reported ? EXIT_FAILED : fail(code, &why);
}

int client_open(enum pawl_drive drive, pawl_client **client)
{
        return open_store(drive, false, client);
}

int client_open_to_look(pawl_client **client)
{
        return open_store(PAWL_DRIVE_CALLER, true, client);
}

const char *client_not_there(void)
{
        return not_there;
}

int client_look_again(pawl_client **client, struct pawl_why *why)
{
        bool reported;

        return try_store(PAWL_DRIVE_CALLER, true, client, why, &reported);
}

int client_look(int (*job)(pawl_client *client, const char *argument), const char *argument)
{
        pawl_client *client;
        int status = client_open_to_look(&client);

        if (status != EXIT_DONE)
                return status;
        status = job(client, argument);
        pawl_close(client);
        return status;
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

const char *client_url(const pawl_client *client)
{
        return handed_on ? handed_on : pawl_url(client);
}

int fail_of_client(pawl_client *client, int code)
{
        struct pawl_why why = {0};

        if (code != PAWL_OK)
                (void)pawl_explain(client, &why);
        return fail(code, why.code == code ? &why : NULL);
}
