/* table.c - see table.h. Twice as large when it is full. */
#include "table.h"

#include <stdlib.h>

#include "pawl.h"

enum { FIRST_SIZE = 64 };

int table_init(struct table *table)
{
        table->rooms = calloc(FIRST_SIZE, sizeof(*table->rooms));
        table->size = table->rooms ? FIRST_SIZE : 0;
        return table->rooms ? PAWL_OK : PAWL_NO_MEMORY;
}

void table_free(struct table *table)
{
        free(table->rooms);
        *table = (struct table){0};
}

static struct link **room_of(const struct table *table, uint64_t hash)
{
        return &table->rooms[hash & (table->size - 1)];
}

/* Without memory it stays as it is, and the chains grow longer. */
static void grow(struct table *table)
{
        struct table larger = {.size = table->size * 2, .count = table->count};

        larger.rooms = calloc(larger.size, sizeof(*larger.rooms));
        if (!larger.rooms)
                return;
        for (size_t i = 0; i < table->size; i++) {
                struct link *link = table->rooms[i];

                while (link) {
                        struct link *next = link->next;
                        struct link **room = room_of(&larger, link->hash);

                        link->next = *room;
                        *room = link;
                        link = next;
                }
        }
        free(table->rooms);
        *table = larger;
}

void table_add(struct table *table, struct link *link, uint64_t hash)
{
        struct link **room;

        if (table->count >= table->size)
                grow(table);
        room = room_of(table, hash);
        link->hash = hash;
        link->next = *room;
        *room = link;
        table->count++;
}

void table_remove(struct table *table, struct link *link)
{
        for (struct link **at = room_of(table, link->hash); *at; at = &(*at)->next) {
                if (*at != link)
                        continue;
                *at = link->next;
                table->count--;
                return;
        }
}

struct link *table_first(const struct table *table, uint64_t hash)
{
        return *room_of(table, hash);
}

/* FNV-1a, with its upper half folded in: names differ at their ends. */
uint64_t table_hash(const void *bytes, size_t size)
{
        const unsigned char *at = bytes;
        uint64_t hash = UINT64_C(0xcbf29ce484222325);

        for (size_t i = 0; i < size; i++)
                hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
        return hash ^ hash >> 32;
}
