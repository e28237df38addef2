/* fence.c - a token on its way over HTTP: the header "Pawl-Fence: NAME TOKEN", and what a server answers. The same for
 * versions, which may be 0: "Pawl-Expect: NAME VERSION". */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "../base/name.h"
#include "guard.h"

/* "NAME NUMBER" */
static int write_value(const char *resource, uint64_t number, char *value, size_t size)
{
        char encoded[NAME_ENCODED_MAX + 1];
        char text[PAWL_FENCE_MAX + 1];
        size_t length;
        int code = name_check(resource, &length, NULL);

        if (code != PAWL_OK)
                return code;
        if (number > INT64_MAX || !value)
                return PAWL_INVALID;
        name_encode(resource, length, "/", encoded);
        length = (size_t)snprintf(text, sizeof(text), "%s %" PRIu64, encoded, number);
        if (length >= size)
                return PAWL_INVALID;
        memcpy(value, text, length + 1);
        return PAWL_OK;
}

int pawl_fence_write(const char *resource, uint64_t token, char *value, size_t size)
{
        return token > 0 ? write_value(resource, token, value, size) : PAWL_INVALID;
}

int pawl_expect_write(const char *resource, uint64_t version, char *value, size_t size)
{
        return write_value(resource, version, value, size);
}

static bool is_blank(char c)
{
        return c == ' ' || c == '\t';
}

static int hex_value(char c)
{
        static const char digits[] = "0123456789abcdef0123456789ABCDEF";
        const char *digit = c ? strchr(digits, c) : NULL;

        return digit ? (int)(digit - digits) & 15 : -1;
}

/* What other languages' encoders leave as it is, beside what ours does: no blank, no comma, no control character. */
static bool is_plain(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
               (c && strchr("._-/~!'()*", c));
}

/* The name that stands first; name holds PAWL_NAME_MAX + 1. Where it ends, or NULL. The name itself is not checked. */
static const char *read_name(const char *text, char *name)
{
        size_t length = 0;

        while (*text == '%' || is_plain(*text)) {
                int high = *text == '%' ? hex_value(text[1]) : 0;
                int low = *text == '%' && high >= 0 ? hex_value(text[2]) : 0;

                if (high < 0 || low < 0 || length == PAWL_NAME_MAX)
                        return NULL;
                name[length] = *text == '%' ? (char)(high << 4 | low) : *text;
                if (name[length++] == '\0')
                        return NULL;
                text += *text == '%' ? 3 : 1;
        }
        name[length] = '\0';
        return text;
}

/* Decimal, without a sign and without leading zeros, up to the end. */
static bool read_number(const char *text, uint64_t *number)
{
        bool zero = *text == '0';

        *number = 0;
        if (*text < '0' || *text > '9')
                return false;
        for (; *text >= '0' && *text <= '9'; text++) {
                if (*number > (INT64_MAX - (uint64_t)(*text - '0')) / 10)
                        return false;
                *number = 10 * *number + (uint64_t)(*text - '0');
                if (zero && text[1] >= '0' && text[1] <= '9')
                        return false;
        }
        while (is_blank(*text))
                text++;
        return *text == '\0';
}

/* name holds PAWL_NAME_MAX + 1. */
static bool read_value(const char *value, char *name, size_t *length, uint64_t *number)
{
        const char *end;

        while (value && is_blank(*value))
                value++;
        end = value ? read_name(value, name) : NULL;
        return end && *end == ' ' && read_number(end + 1, number) && name_check(name, length, NULL) == PAWL_OK;
}

int pawl_fence_read(const char *value, char *resource, uint64_t *token, struct pawl_why *why)
{
        char name[PAWL_NAME_MAX + 1];
        uint64_t number;
        size_t length;

        if (!resource || !token)
                return why_set(why, PAWL_INVALID, "there is no place for what the header says: it is NULL");
        if (!read_value(value, name, &length, &number) || number == 0)
                return why_set(why, PAWL_INVALID,
                               "the header is not \"" PAWL_FENCE_HEADER ": NAME TOKEN\", with the name percent-encoded "
                               "and a token > 0 and < 2^63");
        memcpy(resource, name, length + 1);
        *token = number;
        return PAWL_OK;
}

int pawl_expect_read(const char *value, char *resource, uint64_t *version, struct pawl_why *why)
{
        char name[PAWL_NAME_MAX + 1];
        uint64_t number;
        size_t length;

        if (!resource || !version)
                return why_set(why, PAWL_INVALID, "there is no place for what the header says: it is NULL");
        if (!read_value(value, name, &length, &number))
                return why_set(why, PAWL_INVALID,
                               "the header is not \"" PAWL_EXPECT_HEADER
                               ": NAME VERSION\", with the name percent-encoded and a version < 2^63");
        memcpy(resource, name, length + 1);
        *version = number;
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
        case PAWL_NO_MEMORY:
                return 503;
        case PAWL_FULL:
                return 507;
        case PAWL_UNSUPPORTED:
                return 501;
        default:
                return 500;
        }
}
