/* fuzz_record.c - what a node says of its claim: refused, or exactly what record_write writes for what was read. */
#include <string.h>

#include "engine/session/record.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct record record;
        struct claim claim;
        char again[RECORD_MAX + 1];

        if (!record_read((const char *)data, size, &record))
                return 0;
        MUST(size <= RECORD_MAX);
        MUST(record.mode == PAWL_SHARED || record.mode == PAWL_EXCLUSIVE);
        MUST(record.ttl_ms >= 0 && record.delay_ms >= 0 && record.since_ms >= 0);
        MUST(strlen(record.owner) <= PAWL_OWNER_MAX && strlen(record.note) <= PAWL_NOTE_MAX);
        claim = (struct claim){.ttl = record.ttl_ms * MS,
                               .delay = record.delay_ms * MS,
                               .age = record.age,
                               .mode = record.mode,
                               .max_holders = record.limit,
                               .detached = record.detached,
                               .note = record.note};
        MUST(record_write(&claim, record.client, record.owner, record.since_ms, record.holds, again) == size);
        MUST(memcmp(again, data, size) == 0);
        return 0;
}
