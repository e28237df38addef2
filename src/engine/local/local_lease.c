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

static bool stands(const struct entry *entry, const uint64_t uid[2], int64_t now)
{
        return entry_owner(entry) == DETACHED && entry_state(entry) == HELD && same_uid(entry, uid) &&
               entry->lease_until > now;
}

/* Without the bucket, in which another process may be stopped. A name is not recycled while an entry is held: if the lease
 * stands before and after, what was read in between is its own. */
static bool read_entry(struct local *local, uint32_t reference, const uint64_t uid[2], char *text, int64_t *ttl)
{
        const struct entry *entry = entry_at(local, reference);
        const struct name *name;

        if (entry == NULL || !stands(entry, uid, local_now(local)))
                return false;
        name = name_at(local, entry->name);
        if (name == NULL || name->length > PAWL_NAME_MAX)
                return false;
        memcpy(text, name->text, PAWL_NAME_MAX);
        text[name->length] = '\0';
        *ttl = entry->ttl;
        return stands(entry, uid, local_now(local));
}

static int read_word(struct engine *engine, const char *text, char *name_text, int64_t *ttl, struct pawl_why *why)
{
        uint32_t reference;
        uint64_t uid[2];

        if (!parse(text, &reference, uid))
                return why_set(why, PAWL_INVALID, "that is not a lease of this engine");
        if (!read_entry(local_of(engine), reference, uid, name_text, ttl))
                return why_set(why, PAWL_LOST, "the lease is over: it ran out, or was released or broken");
        return PAWL_OK;
}

static void refuse(struct local *local, struct claim *claim, int code, const char *why)
{
        const struct engine_host *host = local->engine.host;

        claim_forget(local, claim);
        host->events->refused(host->core, claim, code, why);
}

/* The bucket is ours. False if the lease is over, or another's. */
static bool take_up(struct local *local, struct claim *claim, struct grant *grant)
{
        struct part *part = part_of(claim);
        struct entry *entry = &local->entries[part->entry - 1];
        struct name *name = name_at(local, entry->name);

        if (name == NULL || !stands(entry, part->uid, local_now(local)) || strcmp(name->text, claim->name) != 0)
                return false;
        part->name = entry->name;
        part->view = VIEW_HELD;
        local->known++;
        memcpy(entry->taker, local->brief, sizeof(entry->taker));
        grant->token = entry->token;
        grant->sent_at = entry->lease_until - entry->ttl;
        return true;
}

void lease_adopt(struct local *local, struct claim *claim)
{
        const struct engine_host *host = local->engine.host;
        struct part *part = part_of(claim);
        struct bucket *bucket = &local->buckets[part->bucket];
        struct pawl_why why;
        struct grant grant;
        bool taken;

        if (!bucket_take(local, bucket)) {
                if (!claim_stall(local, claim, STEP_ADOPT, local_now(local)))
                        refuse(local, claim, word_blame(local, part->stuck, &why), why.text);
                return;
        }
        part->step = STEP_NONE;
        list_remove(&part->link);
        taken = take_up(local, claim, &grant);
        bucket_give(local, bucket);
        if (taken)
                host->events->granted(host->core, claim, &grant);
        else
                refuse(local, claim, PAWL_LOST, NULL);
}

static void adopt(struct engine *engine, struct claim *claim, const char *text)
{
        struct local *local = local_of(engine);
        struct part *part = part_of(claim);
        uint64_t hash = bucket_hash(local, claim->name, claim->name_length);

        list_init(&part->link);
        part->claim = claim;
        part->bucket = (uint32_t)(bucket_of(local, hash) - local->buckets);
        if (!parse(text, &part->entry, part->uid) || entry_at(local, part->entry) == NULL) {
                part->entry = 0;
                refuse(local, claim, PAWL_LOST, NULL);
                return;
        }
        lease_adopt(local, claim);
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
