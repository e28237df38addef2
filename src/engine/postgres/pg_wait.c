/* pg_wait.c - claims that wait. A grant is told to us by whoever gives the lock back: in the answer to our own release,
 * or by NOTIFY. News can be lost, and a holder can die without a word: so the first of each queue asks again when what
 * stands in its way may be over, with its ticket, and finds itself granted or in its old place. */
#include <stdlib.h>
#include <string.h>

#include "postgres.h"

#define LOOK_LEAST (5 * MS) /* never oftener */
#define LOOK_MOST (20 * SECOND)
#define LOOK_GRACE (2 * MS) /* the server counts in milliseconds */
enum {
        LOOK_AT_ALL = 8
}; /* every so many looks of the first all of them look: what was lost of them would not be found */

/* ---- the list of one name ---------------------------------------------------------------------------------------- */

static struct waitlist *waitlist_find(struct postgres *postgres, const char *name, size_t length)
{
        uint64_t hash = table_hash(name, length);

        for (struct link *link = table_first(&postgres->waitlists, hash); link; link = link->next) {
                struct waitlist *list = container_of(link, struct waitlist, link);

                if (link->hash == hash && list->name_length == length && memcmp(list->name, name, length) == 0)
                        return list;
        }
        return NULL;
}

bool wait_is_here(struct postgres *postgres, const char *name, size_t length)
{
        return postgres->waitlists.count > 0 && waitlist_find(postgres, name, length);
}

static void look_due(struct timer *timer);

static struct waitlist *waitlist_new(struct postgres *postgres, const char *name, size_t length)
{
        struct waitlist *list = calloc(1, sizeof(*list) + length + 1);

        if (!list)
                return NULL;
        list->postgres = postgres;
        list->name_length = length;
        memcpy(list->name, name, length);
        list_init(&list->claims);
        list->timer.fire = look_due;
        if (loop_set(postgres->engine.host->loop, &list->timer, NEVER) != 0) {
                free(list);
                return NULL;
        }
        list_append(&postgres->queues, &list->listed);
        table_add(&postgres->waitlists, &list->link, table_hash(name, length));
        return list;
}

static void waitlist_free(struct waitlist *list)
{
        loop_unset(list->postgres->engine.host->loop, &list->timer);
        table_remove(&list->postgres->waitlists, &list->link);
        list_remove(&list->listed);
        free(list);
}

static void look_in(struct waitlist *list, int64_t ms)
{
        struct loop *loop = list->postgres->engine.host->loop;
        int64_t in = ms < 0 || ms > LOOK_MOST / MS ? LOOK_MOST : ms * MS + LOOK_GRACE;

        if (in < LOOK_LEAST)
                in = LOOK_LEAST;
        loop_set(loop, &list->timer, loop_now(loop) + in); /* moving: cannot fail */
}

/* In the order of their tickets; most have the last. */
static void insert(struct waitlist *list, struct part *part)
{
        struct list *after = list->claims.prev;

        if (!list_empty(&list->claims) && list_first(&list->claims, struct part, listed)->ticket > part->ticket)
                after = &list->claims;
        while (after != &list->claims && container_of(after, struct part, listed)->ticket > part->ticket)
                after = after->prev;
        list_append(after->next, &part->listed); /* before the next one */
}

int wait_begin(struct part *part, int64_t look_in_ms)
{
        const struct claim *claim = part->claim;
        struct waitlist *list = waitlist_find(part->postgres, claim->name, claim->name_length);

        if (!list)
                list = waitlist_new(part->postgres, claim->name, claim->name_length);
        if (!list)
                return PAWL_NO_MEMORY;
        part->state = WAITING;
        part->waitlist = list;
        insert(list, part);
        if (list->claims.next == &part->listed)
                look_in(list, look_in_ms);
        return PAWL_OK;
}

/* Who is first now will look: after a while, for nobody told it when. */
void wait_end(struct part *part)
{
        struct waitlist *list = part->waitlist;

        list_remove(&part->listed);
        part->waitlist = NULL;
        if (list_empty(&list->claims))
                waitlist_free(list);
}

/* ---- granted ----------------------------------------------------------------------------------------------------- */

/* The grant came after we last asked, so its lease began after that: counted from there it is safe to use at once. Not
 * so if that was long ago, or if the server gave it just long enough to ask. */
void wait_granted(struct part *part, uint64_t token, int64_t lease_ms)
{
        int64_t asked_at = part->asked_at;
        int64_t ttl = part->claim->ttl;

        if (token <= part->floor) /* an old grant, told late: the server knows better by now */
                return;
        wait_end(part);
        part->token = token;
        if (lease_ms >= ttl / MS && postgres_now(part->postgres) - asked_at < ttl / 4)
                claim_told(part, token, asked_at);
        else
                claim_confirm(part);
}

void grant_told(struct postgres *postgres, const uint64_t uid[2], uint64_t token, int64_t lease_ms)
{
        struct part *part = claim_find(postgres, uid);

        if (!part) /* given up: what cleans up after it is on its way */
                return;
        if (token == 0 || token > INT64_MAX || lease_ms <= 0) /* no grant is like that */
                return;
        if (part->state == WAITING) {
                wait_granted(part, token, lease_ms);
        } else if (part->state == ASKING || part->state == CONFIRMING) { /* faster than the answer that says we wait */
                part->token = token;
                part->told_lease = (uint32_t)lease_ms;
        }
}

void wait_told(struct postgres *postgres, const char *text)
{
        const char *blank = strchr(text, ' ');
        struct part *part;
        uint64_t uid[2];
        char *end;

        if (!blank || strlen(blank + 1) < 32 || !uid_read(blank + 1, uid))
                return;
        part = claim_find(postgres, uid);
        if (strncmp(text, "granted ", 8) == 0) {
                uint64_t token = strtoull(blank + 33, &end, 10);

                grant_told(postgres, uid, token, strtoll(end, NULL, 10));
        } else if (part && strncmp(text, "broken ", 7) == 0) {
                claim_broken(part);
        } else if (part && strncmp(text, "asked ", 6) == 0) {
                claim_asked(part);
        }
}

/* ---- looking again ----------------------------------------------------------------------------------------------- */

static void look_all(struct waitlist *list)
{
        struct list claims;

        list_init(&claims);
        list_splice(&claims, &list->claims);
        while (!list_empty(&claims)) {
                struct part *part = list_first(&claims, struct part, listed);

                list_remove(&part->listed);
                part->waitlist = NULL;
                claim_confirm(part);
        }
        waitlist_free(list);
}

static void look_due(struct timer *timer)
{
        struct waitlist *list = container_of(timer, struct waitlist, timer);
        struct part *first;

        look_in(list, -1);
        if (!wire_ready(&list->postgres->wire)) /* all of them look when it is back */
                return;
        if (++list->looks % LOOK_AT_ALL == 0 || list->claims.next->next == &list->claims) {
                look_all(list);
                return;
        }
        first = list_first(&list->claims, struct part, listed);
        list_remove(&first->listed);
        first->waitlist = NULL;
        claim_confirm(first); /* granted, or back into the line with its ticket */
}

void wait_look_all(struct postgres *postgres)
{
        struct list queues;

        list_init(&queues);
        list_splice(&queues, &postgres->queues);
        while (!list_empty(&queues)) {
                struct waitlist *list = list_first(&queues, struct waitlist, listed);

                look_all(list);
        }
}

/* ---- the end ----------------------------------------------------------------------------------------------------- */

void wait_refuse_all(struct postgres *postgres, const struct pawl_why *why)
{
        while (!list_empty(&postgres->queues)) {
                struct waitlist *list = list_first(&postgres->queues, struct waitlist, listed);
                struct part *part = list_first(&list->claims, struct part, listed);

                ghost_of_part(part);
                claim_refuse(part, why->code, why->text);
        }
}

void wait_free(struct postgres *postgres)
{
        while (!list_empty(&postgres->queues))
                waitlist_free(list_first(&postgres->queues, struct waitlist, listed));
}
