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

bool store_named(void)
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

/* named: as people wrote it. */
static bool is_store(const struct command *command, const char *named, const char *url)
{
        if (!strchr(url, ':')) {
                usage_error(command, "'%s' is no STORE: write file:DIR", named);
                return false;
        }
        if (!strncasecmp(url, "mem:", 4)) {
                usage_error(command, "a mem: store ends with this process and guards nothing; use file:DIR");
                return false;
        }
        return true;
}

bool store_open(const struct command *command, const char *token_text, pawl_guard **guard, uint64_t *token, int *status)
{
        struct pawl_why why = {0};
        const char *url = find_store(command);
        char *whole;
        int code;

        *status = EXIT_FAILED;
        if (!url || (token_text && !read_token(token_text, token)))
                return false;
        if (!resolve_url(url, &whole))
                return false;
        if (!is_store(command, url, whole ? whole : url)) {
                free(whole);
                return false;
        }
        code = pawl_guard_open(whole ? whole : url, PAWL_GUARD(.why = &why), guard);
        free(whole);
        if (code != PAWL_OK)
                *status = fail(code, &why);
        return code == PAWL_OK;
}
