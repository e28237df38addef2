/* pg_place.c - names in ?mode=advisory: the number that stands for each, and the line of those of us who wait for it. */
#include <stdlib.h>
#include <string.h>

#include "advisory.h"

/* So many names that nobody uses are remembered, with their numbers. */
enum { QUIET_MAX = 4096 };

static struct place *place_find(const struct advisory *advisory, const char *name, size_t length, uint64_t hash)
{
        for (struct link *link = table_first(&advisory->places, hash); link; link = link->next) {
                struct place *place = container_of(link, struct place, link);

                if (link->hash == hash && place->name_length == length && memcmp(place->name, name, length) == 0)
                        return place;
        }
        return NULL;
}

static void place_free(struct place *place)
{
        table_remove(&place->advisory->places, &place->link);
        list_remove(&place->quiet);
        free(place);
}

static struct place *place_new(struct advisory *advisory, const char *name, size_t length, uint64_t hash)
{
        struct place *place = calloc(1, sizeof(*place) + length + 1);

        if (!place)
                return NULL;
        place->advisory = advisory;
        place->name_length = length;
        memcpy(place->name, name, length);
        list_init(&place->quiet);
        list_init(&place->hungry);
        list_init(&place->users);
        list_init(&place->waiting);
        list_init(&place->slots);
        list_init(&place->giving);
        table_add(&advisory->places, &place->link, hash);
        return place;
}

/* Old ones go here and nowhere else, so that one whose last user just left may still be looked at. */
struct place *place_get(struct advisory *advisory, const char *name)
{
        char room[KEY_MAX + 1];
        const char *key = key_of(advisory->postgres, name, room);
        size_t length = strlen(key);
        uint64_t hash = table_hash(key, length);
        struct place *place = place_find(advisory, key, length, hash);

        if (!place) {
                if (advisory->quiets > QUIET_MAX) {
                        advisory->quiets--;
                        place_free(list_first(&advisory->quiet, struct place, quiet));
                }
                place = place_new(advisory, key, length, hash);
        }
        if (place)
                place_use(place);
        return place;
}

void place_use(struct place *place)
{
        if (!list_empty(&place->quiet)) {
                list_remove(&place->quiet);
                place->advisory->quiets--;
        }
        place->uses++;
}

void place_leave(struct place *place)
{
        if (--place->uses > 0)
                return;
        list_append(&place->advisory->quiet, &place->quiet);
        place->advisory->quiets++;
}

void places_free(struct advisory *advisory)
{
        for (size_t i = 0; i < advisory->places.size; i++)
                while (advisory->places.rooms[i])
                        place_free(container_of(advisory->places.rooms[i], struct place, link));
        table_free(&advisory->places);
}

bool place_is_taken(const struct place *place, const struct hold *hold)
{
        for (struct list *at = place->users.next; at != &place->users; at = at->next) {
                const struct hold *user = container_of(at, struct hold, user);

                if (is_held(user) && (!is_shared(user) || !is_shared(hold)))
                        return true;
        }
        return false;
}

/* ---- the line ---------------------------------------------------------------------------------------------------- */

void line_enter(struct hold *hold, bool first)
{
        struct place *place = hold->place;

        hold->state = WAITING;
        hold->lined = true;
        list_remove(&hold->listed);
        list_append(first ? place->waiting.next : &place->waiting, &hold->listed);
        place->waiters[is_shared(hold)]++;
        place_hungers(place);
}

void line_leave(struct hold *hold)
{
        struct place *place = hold->place;

        list_remove(&hold->listed);
        place->waiters[is_shared(hold)]--;
        if (place->waiters[0] <= place->standing[0] && place->waiters[1] <= place->standing[1])
                list_remove(&place->hungry);
}

struct hold *line_first(const struct place *place, uint32_t mode)
{
        for (struct list *at = place->waiting.next; at != &place->waiting; at = at->next) {
                struct hold *hold = container_of(at, struct hold, listed);

                if (hold->claim->mode == mode)
                        return hold;
        }
        return NULL;
}

struct hold *line_next(const struct place *place)
{
        uint32_t standing[2] = {place->standing[0], place->standing[1]};

        for (struct list *at = place->waiting.next; at != &place->waiting; at = at->next) {
                struct hold *hold = container_of(at, struct hold, listed);

                if (standing[is_shared(hold)] == 0)
                        return hold;
                standing[is_shared(hold)]--;
        }
        return NULL;
}

void place_hungers(struct place *place)
{
        if (list_empty(&place->hungry) &&
            (place->waiters[0] > place->standing[0] || place->waiters[1] > place->standing[1]))
                list_append(&place->advisory->hungry, &place->hungry);
}
