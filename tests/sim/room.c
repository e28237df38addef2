/* room.c - memory that is the world's own. Apart from the others, because ./recipes has a room of its own: there
 * memory belongs to processes, and goes when they die. */
#include <stdlib.h>

#include "sim.h"

void *world_room(void *old, size_t size)
{
        void *room = realloc(old, size);

        if (!room)
                abort();
        return room;
}
