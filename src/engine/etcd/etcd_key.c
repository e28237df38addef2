/* etcd_key.c - how the keys are written and read: see etcd.h. */
#include <stdio.h>
#include <string.h>

#include "etcd.h"

size_t key_of_line(const struct etcd *etcd, const char *name, size_t length, char *key)
{
        size_t at = etcd->prefix_length;

        memcpy(key, etcd->prefix, at);
        at += name_encode(name, length, NULL, key + at);
        key[at++] = '/';
        return at;
}

size_t key_of_ours(const struct etcd *etcd, const char *rest, char *key)
{
        static const char ours[] = ".pawl/";
        size_t at = etcd->prefix_length, length = strlen(rest);

        memcpy(key, etcd->prefix, at);
        memcpy(key + at, ours, sizeof(ours) - 1);
        at += sizeof(ours) - 1;
        memcpy(key + at, rest, length);
        return at + length;
}

size_t key_of_markers(const struct etcd *etcd, const char *name, size_t length, char *key)
{
        size_t at = key_of_ours(etcd, "delay/", key);

        at += name_encode(name, length, NULL, key + at);
        key[at++] = '/';
        return at;
}

size_t key_of_marker(const struct etcd *etcd, const struct claim *claim, char *key)
{
        size_t at = key_of_markers(etcd, claim->name, claim->name_length, key);

        return (size_t)(uid_put(key + at, claim->uid) - key);
}

size_t key_of_value(const struct etcd *etcd, const char *name, size_t length, char *key)
{
        size_t at = key_of_ours(etcd, "value/", key);

        return at + name_encode(name, length, NULL, key + at);
}

size_t key_of_claim(const struct etcd_part *part, char *key)
{
        const struct claim *claim = part->claim;
        size_t at = key_of_line(part->etcd, claim->name, claim->name_length, key);

        at += (size_t)snprintf(key + at, 18, "%llx-", (unsigned long long)part->term->lease);
        at = (size_t)(uid_put(key + at, claim->uid) - key);
        if (claim->mode != PAWL_SHARED)
                return at;
        key[at++] = '-';
        key[at++] = 's';
        if (claim->max_holders)
                at += (size_t)snprintf(key + at, 12, "%u", (unsigned)claim->max_holders);
        return at;
}

size_t key_after_prefix(const char *prefix, size_t length, char *key)
{
        memcpy(key, prefix, length); /* no key of ours ends with 0xff */
        key[length - 1] = (char)(key[length - 1] + 1);
        return length;
}

static int hex_digit(char c)
{
        if (c >= '0' && c <= '9')
                return c - '0';
        return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static size_t read_lease(const char *text, size_t length, int64_t *lease)
{
        uint64_t number = 0;
        size_t at = 0;

        while (at < length && at < 16 && hex_digit(text[at]) >= 0)
                number = number << 4 | (uint64_t)hex_digit(text[at++]);
        *lease = number <= INT64_MAX ? (int64_t)number : 0;
        return at;
}

/* -s, -s12; what else stands there is not ours. */
static bool read_flags(const char *text, size_t length, struct contender *contender)
{
        uint64_t limit = 0;

        if (length == 0)
                return true;
        if (length < 2 || length > 12 || text[0] != '-' || text[1] != 's')
                return false;
        for (size_t i = 2; i < length; i++) {
                if (text[i] < '0' || text[i] > '9')
                        return false;
                limit = limit * 10 + (uint64_t)(text[i] - '0');
        }
        if (limit > UINT32_MAX)
                return false;
        contender->shared = true;
        contender->limit = (uint32_t)limit;
        return true;
}

void key_read(const char *rest, size_t length, struct contender *contender, int64_t *lease)
{
        enum { UID_DIGITS = 32 };
        size_t at = read_lease(rest, length, lease);

        contender->uid[0] = contender->uid[1] = 0;
        contender->shared = false;
        contender->limit = 0;
        if (length < at + 1 + UID_DIGITS || rest[at] != '-' || !uid_read(rest + at + 1, contender->uid) ||
            !read_flags(rest + at + 1 + UID_DIGITS, length - at - 1 - UID_DIGITS, contender))
                contender->uid[0] = contender->uid[1] = 0;
}

bool key_split(const struct etcd *etcd, const ProtobufCBinaryData *key, char *name, size_t *name_length,
               const char **rest, size_t *rest_length)
{
        const char *text = (const char *)key->data, *begin, *slash;

        if (key->len <= etcd->prefix_length || memcmp(text, etcd->prefix, etcd->prefix_length) != 0)
                return false;
        begin = text + etcd->prefix_length;
        slash = memchr(begin, '/', key->len - etcd->prefix_length);
        if (!slash || *begin == '.')
                return false;
        *rest = slash + 1;
        *rest_length = key->len - (size_t)(*rest - text);
        return name_decode(begin, (size_t)(slash - begin), NULL, name, name_length) == PAWL_OK;
}
