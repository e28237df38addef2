/* fence.c - a token on its way over HTTP: the header "Pawl-Fence: NAME TOKEN", and what a server answers. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "../base/name.h"
#include "guard.h"

int pawl_fence_write(const char *resource, uint64_t token, char *value, size_t size)
{
        char encoded[NAME_ENCODED_MAX + 1];
        char text[PAWL_FENCE_MAX + 1];
        size_t length;
        int code = name_check(resource, &length, NULL);

        if (code != PAWL_OK)
                return code;
        if (token == 0 || token > INT64_MAX || !value)
                return PAWL_INVALID;
        name_encode(resource, length, "/", encoded);
        length = (size_t)snprintf(text, sizeof(text), "%s %" PRIu64, encoded, token);
        if (length >= size)
                return PAWL_INVALID;
        memcpy(value, text, length + 1);
        return PAWL_OK;
}

/* Decimal, without a sign and without leading zeros; 0 if it is not a token. */
static uint64_t read_token(const char *text)
{
        uint64_t token = 0;

        if (*text < '1' || *text > '9')
                return 0;
        for (; *text >= '0' && *text <= '9'; text++) {
                if (token > (INT64_MAX - (uint64_t)(*text - '0')) / 10)
                        return 0;
                token = 10 * token + (uint64_t)(*text - '0');
        }
        return *text == '\0' ? token : 0;
}

int pawl_fence_read(const char *value, char *resource, uint64_t *token, struct pawl_why *why)
{
        char name[PAWL_NAME_MAX + 1];
        const char *space = value ? strchr(value, ' ') : NULL;
        uint64_t number = space ? read_token(space + 1) : 0;
        size_t length;

        if (!resource || !token)
                return why_set(why, PAWL_INVALID, "there is no place for what the header says: it is NULL");
        if (number == 0 || space - value > NAME_ENCODED_MAX ||
            name_decode(value, (size_t)(space - value), "/", name, &length) != PAWL_OK)
                return why_set(why, PAWL_INVALID,
                               "the header is not \"" PAWL_FENCE_HEADER ": NAME TOKEN\", with the name percent-encoded "
                               "and a token > 0 and < 2^63");
        memcpy(resource, name, length);
        resource[length] = '\0';
        *token = number;
        return PAWL_OK;
}

int pawl_guard_check(pawl_guard *guard, const char *resource, const char *value, struct pawl_why *why)
{
        char name[PAWL_NAME_MAX + 1];
        uint64_t token = 0;
        int code;

        if (!value)
                return why_set(why, PAWL_NOT_FOUND, "the request has no " PAWL_FENCE_HEADER " header");
        code = pawl_fence_read(value, name, &token, why);
        if (code != PAWL_OK)
                return code;
        if (resource && strcmp(resource, name) != 0)
                return why_set(why, PAWL_INVALID, "the token is for \"%s\", the request is about \"%.255s\"", name,
                               resource);
        return pawl_guard_admit(guard, name, token, why);
}

int pawl_fence_status(int code)
{
        switch (code) {
        case PAWL_OK:
                return 200;
        case PAWL_STALE:
                return 412;
        case PAWL_NOT_FOUND:
                return 428;
        case PAWL_INVALID:
                return 400;
        case PAWL_DENIED:
                return 403;
        case PAWL_TIMEOUT:
        case PAWL_UNREACHABLE:
        case PAWL_IN_DOUBT:
        case PAWL_FULL:
        case PAWL_NO_MEMORY:
                return 503;
        default:
                return 500;
        }
}
