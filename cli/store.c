/* store.c - the guard named by --store or $PAWL_STORE, and tokens as people write them. */
#include "store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static const char *store;
bool store_forced;

/* docs/decisions/0183: clocks in microseconds stay below 2^53 for two centuries, etcd and ZooKeeper below 2^62 for ever. */
static const uint64_t ENGINES_END = UINT64_C(1) << 62;

const struct option store_options[] = {STORE_OPTION, {0}};
const struct option store_token_options[] = {STORE_OPTION, STORE_FORCE, {0}};

bool option_store(const struct option *option, const char *text)
{
        (void)option;
        store = text;
        return true;
}

const char *store_named(void)
{
        return store;
}

/* Decimal, up to 2^63 - 1. */
static bool read_number(const char *text, uint64_t *number)
{
        char *end;

        errno = 0;
        *number = strtoull(text, &end, 10);
        return *text >= '0' && *text <= '9' && !*end && !errno && *number <= INT64_MAX;
}

static bool read_token(const char *text, uint64_t *token)
{
        bool good = read_number(text, token) && *token > 0;

        if (good && *token >= ENGINES_END && !store_forced) {
                say("%s is no token of a lock: no engine makes 2^62 or more, and this one would be greater than all of "
                    "them "
                    "for ever; --force if you mean it",
                    text);
                return false;
        }
        if (good)
                return true;
        say("a token is a number from 1 to 2^63 - 1, such as $PAWL_TOKEN, not '%s'", text);
        return false;
}

bool store_version(const char *text, uint64_t *version)
{
        if (read_number(text, version) && *version < INT64_MAX)
                return true;
        say("a version is a number from 0 to 2^63 - 2, as 'pawl get -V' prints it, not '%s'", text);
        return false;
}

/* The STORE that is meant; NULL: none is named, and this is said. */
static const char *find_store(const struct command *command)
{
        const char *found = store ? store : getenv("PAWL_STORE");

        if (found && (store || *found))
                return found;
        usage_error(command, "%s wants --store STORE, such as --store file:DIR, or $PAWL_STORE", command->name);
        return NULL;
}

static void say_no_store(const struct command *command, const char *named)
{
        char *shown = url_without_secrets(named);

        if (shown)
                usage_error(command, "'%s' is no STORE: write file:DIR", shown);
        else
                fail(PAWL_NO_MEMORY, NULL);
        free(shown);
}

/* named: as people wrote it. */
static bool is_store(const struct command *command, const char *named, const char *url)
{
        if (!strchr(url, ':')) {
                say_no_store(command, named);
                return false;
        }
        if (!strncasecmp(url, "mem:", 4)) {
                usage_error(command, "a mem: store ends with this process and guards nothing; use file:DIR");
                return false;
        }
        return true;
}

/* Of all guards only SQLite's makes its store by itself. */
static bool makes_store(const char *url)
{
        return !strncasecmp(url, "sqlite:", 7);
}

/* look: *guard is NULL if there is no store, and none is made. */
static bool open_guard(const char *url, bool look, pawl_guard **guard, int *status)
{
        struct pawl_why why = {0};
        int code;

        code = pawl_guard_open(url, PAWL_GUARD(.why = &why), guard);
        if (look && makes_store(url) && code == PAWL_NOT_FOUND)
                return true;
        if (code != PAWL_OK)
                *status = fail(code, &why);
        return code == PAWL_OK;
}

static bool open_named(const struct command *command, bool look, pawl_guard **guard, int *status)
{
        const char *named = find_store(command), *url;
        char *own = NULL, *looking = NULL;
        bool opened;

        *guard = NULL;
        *status = EXIT_FAILED;
        if (!named || !resolve_url(named, &own))
                return false;
        url = own ? own : named;
        opened = is_store(command, named, url);
        if (opened && look && makes_store(url) && !url_says_create(url)) {
                url = looking = url_to_look(url);
                opened = looking != NULL;
                if (!opened)
                        *status = fail(PAWL_NO_MEMORY, NULL);
        }
        opened = opened && open_guard(url, look, guard, status);
        free(looking);
        free(own);
        return opened;
}

bool store_open(const struct command *command, const char *token_text, pawl_guard **guard, uint64_t *token, int *status)
{
        *status = EXIT_FAILED;
        return (!token_text || read_token(token_text, token)) && open_named(command, false, guard, status);
}

bool store_open_to_look(const struct command *command, pawl_guard **guard, int *status)
{
        return open_named(command, true, guard, status);
}
