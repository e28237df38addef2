/* local_lease.c - leases that outlive their process, as words: l1.ENTRY.UID, the uid being 128 random bits. Whoever knows
 * the word may renew and release; nobody can guess it. */
#include <stdio.h>
#include <string.h>

#include "local.h"

static int word(struct engine *engine, const struct claim *claim, char *text, size_t size)
{
        const struct part *part = part_of(claim);
        int length;

        (void)engine;
        if (part->view != VIEW_HELD || !claim->detached)
                return PAWL_MISUSE;
        length = snprintf(text, size, "l1.%x.%016llx%016llx", (unsigned)part->entry, (unsigned long long)part->uid[0],
                          (unsigned long long)part->uid[1]);
        return length > 0 && (size_t)length < size ? PAWL_OK : PAWL_INVALID;
}

static const char *read_hex(const char *text, size_t most, size_t least, uint64_t *value)
{
        size_t digits = 0;

        *value = 0;
        for (; digits < most; digits++, text++) {
                if (*text >= '0' && *text <= '9')
                        *value = *value << 4 | (uint64_t)(*text - '0');
                else if (*text >= 'a' && *text <= 'f')
                        *value = *value << 4 | (uint64_t)(*text - 'a' + 10);
                else
                        break;
        }
        return digits >= least ? text : NULL;
}

static bool parse(const char *text, uint32_t *reference, uint64_t uid[2])
{
        uint64_t value;

        if (strncmp(text, "l1.", 3) != 0)
                return false;
        text = read_hex(text + 3, 8, 1, &value);
        if (text == NULL || *text++ != '.')
                return false;
        *reference = (uint32_t)value;
        text = read_hex(text, 16, 16, &uid[0]);
        if (text != NULL)
                text = read_hex(text, 16, 16, &uid[1]);
        return text != NULL && *text == '\0';
}

/* In constant time: how long it takes says nothing about how much of a guess was right. */
static bool same_uid(const struct entry *entry, const uint64_t uid[2])
{
        return ((entry->uid[0] ^ uid[0]) | (entry->uid[1] ^ uid[1])) == 0;
}

/* The lease with its bucket taken and its name; NULL if it is over, or never was. */
static struct entry *find(struct local *local, uint32_t reference, const uint64_t uid[2], struct name **name)
{
        struct entry *entry = entry_at(local, reference);
        struct bucket *bucket;

        *name = entry != NULL && entry_owner(entry) == DETACHED ? name_at(local, entry->name) : NULL;
        if (*name == NULL)
                return NULL;
        bucket = bucket_of(local, (*name)->hash);
        if (!bucket_take(local, bucket))
                return NULL;
        if (entry_owner(entry) == DETACHED && entry_state(entry) == HELD && same_uid(entry, uid) &&
            name_at(local, entry->name) == *name && bucket_of(local, (*name)->hash) == bucket &&
            (*name)->length <= PAWL_NAME_MAX && entry->lease_until > local_now(local))
                return entry;
        bucket_give(local, bucket);
        return NULL;
}

static int read_word(struct engine *engine, const char *text, char *name_text, int64_t *ttl, struct pawl_why *why)
{
        struct local *local = local_of(engine);
        uint32_t reference;
        uint64_t uid[2];
        struct entry *entry;
        struct name *name;

        if (!parse(text, &reference, uid))
                return why_set(why, PAWL_INVALID, "that is not a lease of this engine");
        entry = find(local, reference, uid, &name);
        if (entry == NULL)
                return why_set(why, PAWL_LOST, "the lease is over: it ran out, or was released or broken");
        memcpy(name_text, name->text, name->length);
        name_text[name->length] = '\0';
        *ttl = entry->ttl;
        bucket_give(local, bucket_of(local, name->hash));
        return PAWL_OK;
}

static void adopt(struct engine *engine, struct claim *claim, const char *text)
{
        struct local *local = local_of(engine);
        const struct engine_host *host = engine->host;
        struct part *part = part_of(claim);
        struct grant grant;
        struct entry *entry = NULL;
        struct name *name;
        uint32_t reference;

        list_init(&part->link);
        if (parse(text, &reference, part->uid))
                entry = find(local, reference, part->uid, &name);
        if (entry == NULL || strcmp(name->text, claim->name) != 0) {
                if (entry != NULL)
                        bucket_give(local, bucket_of(local, name->hash));
                host->events->refused(host->core, claim, PAWL_LOST, NULL);
                return;
        }
        part->claim = claim;
        part->entry = reference;
        part->name = entry->name;
        part->bucket = (uint32_t)(bucket_of(local, name->hash) - local->buckets);
        part->view = VIEW_HELD;
        local->known++;
        memcpy(entry->taker, local->brief, sizeof(entry->taker));
        grant.token = entry->token;
        grant.sent_at = entry->lease_until - entry->ttl;
        bucket_give(local, bucket_of(local, name->hash));
        host->events->granted(host->core, claim, &grant);
}

static void forget(struct engine *engine, struct claim *claim)
{
        claim_forget(local_of(engine), claim);
}

const struct engine_leases local_leases = {
        .word = word,
        .read = read_word,
        .adopt = adopt,
        .forget = forget,
};
