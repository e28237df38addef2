/* fuzz_past.c - a batch of past owners: what is read of it is told in order, each once, and could have been ours. */
#include <string.h>

#include "engine/session/past.h"
#include "fuzz.h"

static uint64_t last;
static size_t told;

static void on_entry(struct inquiry *inquiry, const struct pawl_entry *entry)
{
        MUST(strcmp(entry->name, inquiry->name) == 0);
        MUST(entry->token > 0 && entry->token <= INT64_MAX && (told == 0 || entry->token < last));
        MUST(entry->how >= PAWL_HOW_RELEASED && entry->how <= PAWL_HOW_BROKEN);
        MUST(entry->mode == PAWL_SHARED || entry->mode == PAWL_EXCLUSIVE);
        MUST(entry->since_ms >= 0 && entry->until_ms >= entry->since_ms);
        MUST(strlen(entry->owner) <= PAWL_OWNER_MAX && strlen(entry->note) <= PAWL_NOTE_MAX);
        last = entry->token;
        told++;
}

static bool holds(void *arg, uint64_t token)
{
        (void)arg;
        return token % 3 == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct past_view view = {0};
        struct inquiry inquiry = {.name = "job", .entry = on_entry};

        MUST(past_read(&view, (const char *)data, size, "job") == PAWL_OK);
        /* And once more, as two halves. */
        MUST(past_read(&view, (const char *)data, size / 2, "job") == PAWL_OK);
        MUST(past_read(&view, (const char *)data + size / 2, size - size / 2, "job") == PAWL_OK);
        MUST(view.count <= 3 * PAST_LINES);
        told = 0;
        past_tell(&view, &inquiry, holds, NULL, 1700000000000);
        return 0;
}
