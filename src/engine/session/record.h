/* record.h - what a claim of ours says of itself in the store, for others to read: the data of its node (ZooKeeper), the
 * value of its key (etcd). One line of words:
 *
 *   pawl1 CLIENT TTL_MS DELAY_MS MODE LIMIT FLAGS AGE SINCE_MS OWNER NOTE
 *
 * CLIENT: 16 hex digits, where the claim's client gets its mail. MODE: x or s. FLAGS: - or letters, d: detached,
 * c: confirms its turn (turn.h; one more for each time it was passed over), h: holds.
 * OWNER and NOTE as name_encode writes them; an empty one is %. Anything else was not written by us. */
#ifndef PAWL_RECORD_H
#define PAWL_RECORD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../engine.h"

enum { RECORD_MAX = 160 + 3 * (PAWL_OWNER_MAX + PAWL_NOTE_MAX) };

struct record {
        uint64_t client;
        int64_t ttl_ms, delay_ms, since_ms;
        uint64_t age;
        uint32_t mode, limit;
        uint8_t confirms; /* as in struct claim */
        bool detached, holds;
        char owner[PAWL_OWNER_MAX + 1];
        char note[PAWL_NOTE_MAX + 1];
};

/* Returns the length; out holds RECORD_MAX + 1. */
size_t record_write(const struct claim *claim, uint64_t client, const char *owner, int64_t since_ms, bool holds,
                    char *out);
/* False: it is not one of ours. */
bool record_read(const char *text, size_t size, struct record *record);

#endif
