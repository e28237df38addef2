/* redlock_place.c - the claims of this client on one name. One of them asks the nodes; the others stand in line
 * behind it, so that a crowd in one process costs the nodes no more than one claim. A client that finds the lock held is
 * queued at the nodes by that same request, and tries again when a majority of them has given it its turn: each release
 * keeps the lock for the first in the queue for a moment, and wakes nobody else but the one behind it, who tries when
 * the moment is over. Everything about queues is a hint; a client that hears nothing tries when the holder's lease may
 * be over. Who finds the votes split comes again after a pause that grows, and is never the same. */
#include <stdlib.h>
#include <string.h>

#include "redlock.h"

#define LOOK_SLOWLY (5 * SECOND)  /* should all notices be lost */
#define LOOK_FOREIGN (1 * SECOND) /* who is not one of us gives no notice */
#define TURN (25 * MS)            /* how long a node keeps the lock for whose turn it is: give_turn.lua */
#define BEHIND (10 * MS)          /* between two clients in the queue, when the holder's lease may be over */
#define ONE_NOTICE (20 * MS)      /* how long to wait for the turns of other nodes: one alone is mostly late */
#define ANNOUNCE_AFTER (100 * MS) /* shorter waits are not worth two requests to each node */
enum { TRIES_WITHOUT_WAIT = 4, PAUSES = 7, SPARE_PLACES = 256, BUCKETS_FIRST = 256 };

/* ---- finding them ------------------------------------------------------------------------------------------------ */

static uint64_t hash_of(const char *name, size_t length)
{
        uint64_t hash = UINT64_C(14695981039346656037);

        for (size_t i = 0; i < length; i++)
                hash = (hash ^ (unsigned char)name[i]) * UINT64_C(1099511628211);
        return hash ^ hash >> 32;
}

static struct list *bucket_of(struct redlock *redlock, uint64_t hash)
{
        return &redlock->buckets[hash & (redlock->bucket_count - 1)];
}

static struct list *buckets_new(size_t count)
{
        struct list *buckets = malloc(count * sizeof(*buckets));

        for (size_t i = 0; buckets && i < count; i++)
                list_init(&buckets[i]);
        return buckets;
}

int places_init(struct redlock *redlock)
{
        redlock->buckets = buckets_new(BUCKETS_FIRST);
        redlock->bucket_count = BUCKETS_FIRST;
        return redlock->buckets ? PAWL_OK : PAWL_NO_MEMORY;
}

/* Without memory the chains get longer, that is all. */
static void grow(struct redlock *redlock)
{
        struct list *old = redlock->buckets;
        size_t count = redlock->bucket_count;
        struct list *buckets = redlock->place_count > 2 * count ? buckets_new(4 * count) : NULL;

        if (!buckets)
                return;
        redlock->buckets = buckets;
        redlock->bucket_count = 4 * count;
        for (size_t i = 0; i < count; i++) {
                while (!list_empty(&old[i])) {
                        struct place *place = list_first(&old[i], struct place, hashed);

                        list_remove(&place->hashed);
                        list_append(bucket_of(redlock, place->hash), &place->hashed);
                }
        }
        free(old);
}

static struct place *find(struct redlock *redlock, const char *name, size_t length, uint64_t hash)
{
        struct list *bucket = bucket_of(redlock, hash);

        for (struct list *at = bucket->next; at != bucket; at = at->next) {
                struct place *place = container_of(at, struct place, hashed);

                if (place->hash == hash && place->length == length && memcmp(place->name, name, length) == 0)
                        return place;
        }
        return NULL;
}

struct place *place_find(struct redlock *redlock, const char *name, size_t length)
{
        return length <= PAWL_NAME_MAX ? find(redlock, name, length, hash_of(name, length)) : NULL;
}

static void place_due(struct timer *timer);

static struct place *place_new(struct redlock *redlock)
{
        struct place *place;

        if (!list_empty(&redlock->spare_places)) {
                place = list_first(&redlock->spare_places, struct place, hashed);
                list_remove(&place->hashed);
                return place;
        }
        place = calloc(1, sizeof(*place));
        if (!place)
                return NULL;
        place->redlock = redlock;
        place->timer.fire = place_due;
        list_init(&place->waiting);
        return place;
}

struct place *place_get(struct redlock *redlock, const char *name, size_t length)
{
        uint64_t hash = hash_of(name, length);
        struct place *place = find(redlock, name, length, hash);

        if (place)
                return place;
        place = place_new(redlock);
        if (!place)
                return NULL;
        place->hash = hash;
        place->length = length;
        place->failures = 0;
        place->turns = 0;
        place->queued = false;
        place->answered_at = 0;
        memcpy(place->name, name, length);
        place->name[length] = '\0';
        list_append(bucket_of(redlock, hash), &place->hashed);
        redlock->place_count++;
        grow(redlock);
        return place;
}

static bool in_use(const struct place *place)
{
        return place->holder || place->trying || !list_empty(&place->waiting);
}

static void give_up(struct place *place)
{
        struct redlock *redlock = place->redlock;

        if (in_use(place))
                return;
        loop_unset(redlock->engine.host->loop, &place->timer);
        list_remove(&place->hashed);
        redlock->place_count--;
        if (redlock->place_count < SPARE_PLACES)
                list_append(&redlock->spare_places, &place->hashed);
        else
                free(place);
}

static void free_list(struct redlock *redlock, struct list *list)
{
        while (!list_empty(list)) {
                struct place *place = list_first(list, struct place, hashed);

                loop_unset(redlock->engine.host->loop, &place->timer);
                list_remove(&place->hashed);
                free(place);
        }
}

void places_free(struct redlock *redlock)
{
        for (size_t i = 0; redlock->buckets && i < redlock->bucket_count; i++)
                free_list(redlock, &redlock->buckets[i]);
        free_list(redlock, &redlock->spare_places);
        free(redlock->buckets);
}

struct part *places_find(struct redlock *redlock, const uint64_t uid[2])
{
        for (size_t i = 0; i < redlock->bucket_count; i++) {
                struct list *bucket = &redlock->buckets[i];

                for (struct list *at = bucket->next; at != bucket; at = at->next) {
                        struct part *part = container_of(at, struct place, hashed)->holder;

                        if (part && part->uid[0] == uid[0] && part->uid[1] == uid[1])
                                return part;
                }
        }
        return NULL;
}

/* ---- the nodes' queues ------------------------------------------------------------------------------------------- */

/* but: these have taken us out already. */
static void leave_queues(struct place *place, nodes_t but)
{
        struct redlock *redlock = place->redlock;

        for (uint32_t i = 0; place->queued && i < redlock->count; i++) {
                struct engine *engine = redlock->nodes[i].engine;

                if (!(redlock->nodes[i].bit & but))
                        engine->ops->member->leave(engine, place->name, place->length);
        }
        place->queued = false;
}

/* In the next turn, but for the wait: a timer that is set already can always be moved. */
static void look_by(struct place *place, int64_t at)
{
        struct loop *loop = place->redlock->engine.host->loop;

        if (!place->timer.place || at < place->timer.at)
                (void)!loop_set(loop, &place->timer, at);
}

void places_turn(struct member *member, const char *name, size_t length, bool first)
{
        struct node *node = container_of(member, struct node, member);
        struct redlock *redlock = node->redlock;
        struct place *place = place_find(redlock, name, length);
        int64_t now = redlock_now(redlock);

        if (!place)
                return;
        if (first)
                place->turns |= node->bit;
        if (place->trying && how_many(place->turns) == redlock->quorum) {
                claim_has_turn(place->trying);
                place = place_find(redlock, name, length); /* it may have been given up */
                if (!place)
                        return;
        }
        if (place->trying || place->holder || list_empty(&place->waiting))
                return;
        if (how_many(place->turns) >= redlock->quorum)
                look_by(place, now);
        else
                look_by(place, now + (first ? ONE_NOTICE : TURN + ONE_NOTICE));
}

/* ---- standing in line -------------------------------------------------------------------------------------------- */

static void stand(struct part *part, bool first)
{
        struct place *place = part->place;
        struct redlock *redlock = part->redlock;

        part->state = WAITING;
        list_append(first ? place->waiting.next : &place->waiting, &part->listed);
        if (part->announced || !part->claim->wait)
                return;
        if (redlock->announce_at == NEVER) {
                redlock->announce_at = redlock_now(redlock) + ANNOUNCE_AFTER;
                redlock_tend(redlock, redlock->announce_at);
        }
}

void place_enter(struct part *part)
{
        struct place *place = part->place;

        if (place->holder && place->holder->state == HELD && !part->claim->wait)
                claim_refuse(part, PAWL_BUSY, NULL);
        else if (place->holder || place->trying || (part->claim->wait && !list_empty(&place->waiting)))
                stand(part, false);
        else
                claim_try(part);
}

static int64_t pause_after(struct place *place, const struct part *part, enum outcome outcome)
{
        const struct redlock *redlock = place->redlock;
        int64_t jitter = (int64_t)random_below(redlock, 5000) * (MS / 1000);
        int64_t left = part->left + jitter;

        if (outcome == OUTCOME_SPLIT || outcome == OUTCOME_SILENT) {
                uint32_t doublings = place->failures < PAUSES ? place->failures++ : PAUSES;
                uint32_t most = outcome == OUTCOME_SPLIT ? 1000u << doublings : 4000u << doublings; /* us */

                return (int64_t)(most / 4 + random_below(redlock, most)) * (MS / 1000);
        }
        place->failures = 0;
        left += part->before * (part->left > TURN ? BEHIND : TURN);
        if (part->foreign && left > LOOK_FOREIGN)
                left = LOOK_FOREIGN + jitter;
        return left < LOOK_SLOWLY ? left : LOOK_SLOWLY + 100 * jitter;
}

void place_wait(struct part *part, enum outcome outcome)
{
        struct place *place = part->place;
        struct redlock *redlock = place->redlock;
        int64_t pause = pause_after(place, part, outcome);
        uint32_t turns = how_many(place->turns);

        if (!part->claim->wait && ++part->tries >= TRIES_WITHOUT_WAIT) {
                claim_refuse(part, PAWL_BUSY, NULL);
                place_next(place);
                return;
        }
        stand(part, true);
        if (outcome == OUTCOME_HELD && (part->hasty || turns >= redlock->quorum))
                pause = 0; /* to be queued now; or it was given to us while we asked */
        else if (outcome == OUTCOME_HELD && turns && pause > ONE_NOTICE)
                pause = ONE_NOTICE;
        if (loop_set(redlock->engine.host->loop, &place->timer, redlock_now(redlock) + pause) != 0) {
                claim_refuse(part, PAWL_NO_MEMORY, NULL);
                place_next(place);
        }
}

void place_next(struct place *place)
{
        struct part *part;

        if (place->holder || place->trying)
                return;
        if (!list_empty(&place->waiting)) {
                part = list_first(&place->waiting, struct part, listed);
                list_remove(&part->listed);
                claim_try(part);
        } else {
                leave_queues(place, 0);
                give_up(place);
        }
}

static void place_due(struct timer *timer)
{
        struct place *place = container_of(timer, struct place, timer);

        place_next(place);
}

void place_taken(struct place *place, struct part *holder)
{
        struct list *next;

        place->trying = NULL;
        place->holder = holder;
        place->answered_at = redlock_now(place->redlock);
        place->failures = 0;
        leave_queues(place, holder->on); /* those that voted */
        for (struct list *at = place->waiting.next; at != &place->waiting; at = next) {
                struct part *part = container_of(at, struct part, listed);

                next = at->next;
                if (!part->claim->wait) {
                        list_remove(&part->listed);
                        claim_refuse(part, PAWL_BUSY, NULL);
                }
        }
}

/* ---- being seen -------------------------------------------------------------------------------------------------- */

static void announce(struct part *part, bool on)
{
        struct redlock *redlock = part->redlock;

        part->announced = on;
        for (uint32_t i = 0; i < redlock->count; i++) {
                struct engine *engine = redlock->nodes[i].engine;

                engine->ops->member->announce(engine, part->claim, on);
        }
}

void place_hide(struct part *part)
{
        if (part->announced)
                announce(part, false);
}

static void announce_place(struct place *place, int64_t now)
{
        struct redlock *redlock = place->redlock;

        for (struct list *at = place->waiting.next; at != &place->waiting; at = at->next) {
                struct part *part = container_of(at, struct part, listed);

                if (part->announced || !part->claim->wait)
                        continue;
                if (now - part->since >= ANNOUNCE_AFTER)
                        announce(part, true);
                else
                        redlock->announce_at = now + ANNOUNCE_AFTER;
        }
}

void places_announce(struct redlock *redlock)
{
        int64_t now = redlock_now(redlock);

        redlock->announce_at = NEVER;
        for (size_t i = 0; i < redlock->bucket_count; i++) {
                struct list *bucket = &redlock->buckets[i];

                for (struct list *at = bucket->next; at != bucket; at = at->next)
                        announce_place(container_of(at, struct place, hashed), now);
        }
}
