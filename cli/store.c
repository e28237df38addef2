/* store.c - the guard named by --store, and tokens as people write them. */
#include "store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char *store;

const struct option store_options[] = {
        {0, "store", "STORE", "where the resource is: file:DIR", option_text, &store},
        {0},
};

static bool read_token(const char *text, uint64_t *token)
{
        char *end;

        errno = 0;
        *token = strtoull(text, &end, 10);
        if (*text >= '0' && *text <= '9' && !*end && !errno && *token > 0 && *token <= INT64_MAX)
                return true;
        say("a token is a number from 1 to 2^63 - 1, such as $PAWL_TOKEN, not '%s'", text);
        return false;
}

bool store_open(const struct command *command, const char *token_text, pawl_guard **guard, uint64_t *token, int *status)
{
        struct pawl_why why = {0};
        int code;

        *status = EXIT_FAILED;
        if (!store) {
                usage_error(command, "%s wants --store STORE, such as --store file:DIR", command->name);
                return false;
        }
        if (!strchr(store, ':')) {
                usage_error(command, "'%s' is no STORE: write file:DIR", store);
                return false;
        }
        if (!strncmp(store, "mem:", 4)) {
                usage_error(command, "a mem: store ends with this process and guards nothing; use file:DIR");
                return false;
        }
        if (!read_token(token_text, token))
                return false;
        code = pawl_guard_open(store, PAWL_GUARD(.why = &why), guard);
        if (code != PAWL_OK)
                *status = fail(code, &why);
        return code == PAWL_OK;
}
