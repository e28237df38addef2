/* etcd_door.c - who enters a line first. The store does requests that are under way together in any order, so claims of
 * ours on one name enter one after the other. Where one of them waits already no other can be granted at once, and many
 * that are alike enter together as a crowd: their requests are under way at the same time, and when all are answered the
 * keys are given out in the order in which the claims came. A key belongs to whoever it was given to: only its uid says
 * whose it is. A try goes behind those that wait to enter, or it might overtake them; but not while there is no connection:
 * it must be answered soon. */
#include <stdlib.h>
#include <string.h>

#include "etcd.h"

enum { DOORS = 512, CROWD_MAX = 256 };

struct etcd_crowd {
        size_t count, unanswered;
        struct etcd_part *parts[CROWD_MAX]; /* in the order in which they came; NULL: gone */
};

/* Several names may share one. */
struct etcd_door {
        struct list queued;       /* by ask.listed: what is not under way */
        struct etcd_part *inside; /* who is entering now; or */
        struct etcd_crowd *crowd;
};

static struct etcd_door *door_of(const struct etcd_part *part)
{
        return &part->etcd->doors[table_hash(part->claim->name, part->claim->name_length) % DOORS];
}

static struct etcd_part *queued_at(struct list *listed)
{
        return container_of(container_of(listed, struct etcd_ask, listed), struct etcd_part, ask);
}

/* ---- the crowd --------------------------------------------------------------------------------------------------- */

/* Nobody could tell their keys apart, but by the uid. */
static bool are_alike(const struct etcd_part *one, const struct etcd_part *other)
{
        const struct claim *a = one->claim, *b = other->claim;

        return a->wait && b->wait && one->term == other->term && a->mode == b->mode &&
               a->max_holders == b->max_holders && a->ttl == b->ttl && a->age == b->age && a->confirms == b->confirms &&
               !a->delay && !b->delay && !a->detached && !b->detached && a->name_length == b->name_length &&
               memcmp(a->name, b->name, a->name_length) == 0 && strcmp(a->note, b->note) == 0;
}

static size_t count_alike(const struct etcd_door *door)
{
        struct list *at = door->queued.next;
        const struct etcd_part *first = queued_at(at);
        size_t count = 0;

        while (at != &door->queued && count < CROWD_MAX && are_alike(first, queued_at(at))) {
                at = at->next;
                count++;
        }
        return count;
}

static bool let_crowd_in(struct etcd_door *door, size_t count)
{
        struct etcd_crowd *crowd = calloc(1, sizeof(*crowd));

        if (!crowd)
                return false;
        crowd->count = crowd->unanswered = count;
        door->crowd = crowd;
        for (size_t i = 0; i < count; i++) {
                struct etcd_part *part = queued_at(door->queued.next);

                list_remove(&part->ask.listed);
                part->crowded = true;
                crowd->parts[i] = part;
        }
        for (size_t i = 0; i < count; i++)
                claim_enter(crowd->parts[i]);
        return true;
}

/* Gives the lowest of the keys that are left to the first of the claims that are left, and so on. */
static void give_out(struct etcd_crowd *crowd)
{
        for (size_t i = 0; i < crowd->count; i++) {
                size_t lowest = i;

                for (size_t j = i + 1; crowd->parts[i] && j < crowd->count; j++) {
                        if (crowd->parts[j] && crowd->parts[j]->order < crowd->parts[lowest]->order)
                                lowest = j;
                }
                if (lowest != i)
                        claim_rename(crowd->parts[i], crowd->parts[lowest]);
        }
}

static void admit(struct etcd_door *door);

static void settle(struct etcd_door *door)
{
        struct etcd_crowd *crowd = door->crowd;

        give_out(crowd);
        for (size_t i = 0; i < crowd->count; i++) {
                struct etcd_part *part = crowd->parts[i];

                if (!part)
                        continue;
                crowd->parts[i] = NULL;
                part->crowded = false;
                etcd_wrote(part->etcd, part->order, true);
                claim_entered(part);
        }
        door->crowd = NULL;
        free(crowd);
        admit(door);
}

static void leave_crowd(struct etcd_door *door, struct etcd_part *part)
{
        struct etcd_crowd *crowd = door->crowd;
        size_t at = 0;

        while (at < crowd->count && crowd->parts[at] != part)
                at++;
        part->crowded = false;
        if (at == crowd->count)
                return;
        crowd->parts[at] = NULL;
        if (!part->order && --crowd->unanswered == 0)
                settle(door);
}

void door_entered(struct etcd_part *part)
{
        struct etcd_door *door = door_of(part);

        if (part->cancelled || part->order == 0) {
                uint64_t order = part->order;

                part->order = 0;
                leave_crowd(door, part);
                part->order = order;
                claim_entered(part);
        } else if (--door->crowd->unanswered == 0) {
                settle(door);
        }
}

/* ---- the door ---------------------------------------------------------------------------------------------------- */

/* In a crowd if there is one, and if somebody waits before it. */
static void admit(struct etcd_door *door)
{
        struct etcd_part *first;
        size_t alike;

        if (door->inside || door->crowd || list_empty(&door->queued))
                return;
        first = queued_at(door->queued.next);
        alike = wait_has_line(first) ? count_alike(door) : 1;
        if (alike > 1 && let_crowd_in(door, alike))
                return;
        list_remove(&first->ask.listed);
        door->inside = first;
        claim_enter(first);
}

bool door_pass(struct etcd_part *part)
{
        struct etcd_door *door = door_of(part);

        if (!part->claim->wait && !channel_ready(&part->etcd->channel))
                return true;
        if (door->inside != part && (door->inside || door->crowd || !list_empty(&door->queued))) {
                part->ask.tries = 0;
                list_append(&door->queued, &part->ask.listed);
                return false;
        }
        if (part->claim->wait)
                door->inside = part;
        return true;
}

void door_leave(struct etcd_part *part)
{
        struct etcd_door *door = door_of(part);

        if (part->crowded) {
                leave_crowd(door, part);
        } else if (door->inside == part) {
                door->inside = NULL;
                admit(door);
        }
}

/* Each time one is sent the queue may change. */
static struct etcd_part *find_try(const struct etcd_door *door)
{
        for (struct list *at = door->queued.next; at != &door->queued; at = at->next)
                if (!queued_at(at)->claim->wait)
                        return queued_at(at);
        return NULL;
}

void doors_hurry(struct etcd *etcd)
{
        for (size_t i = 0; i < DOORS; i++) {
                struct etcd_part *part;

                while ((part = find_try(&etcd->doors[i])) != NULL) {
                        list_remove(&part->ask.listed);
                        claim_enter(part);
                }
        }
}

int doors_init(struct etcd *etcd)
{
        etcd->doors = calloc(DOORS, sizeof(*etcd->doors));
        if (!etcd->doors)
                return PAWL_NO_MEMORY;
        for (size_t i = 0; i < DOORS; i++)
                list_init(&etcd->doors[i].queued);
        return PAWL_OK;
}

void doors_free(struct etcd *etcd)
{
        for (size_t i = 0; etcd->doors && i < DOORS; i++)
                free(etcd->doors[i].crowd);
        free(etcd->doors);
}
