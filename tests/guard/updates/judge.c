/* judge.c - what is in the resources in the end, against what the workers were told had been accepted. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "updates.h"

int content_write(const struct content *content, char *text)
{
        return snprintf(text, CONTENT_MAX, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", content->counter, content->chain,
                        content->worker);
}

bool content_read(const char *text, struct content *content)
{
        char again[CONTENT_MAX];

        if (sscanf(text, "%" SCNu64 " %" SCNu64 " %" SCNu64, &content->counter, &content->chain, &content->worker) != 3)
                return false;
        content_write(content, again);
        return strcmp(text, again) == 0;
}

uint64_t chain_add(uint64_t chain, uint64_t stamp)
{
        chain = (chain ^ stamp) * UINT64_C(0x9e3779b97f4a7c15);
        return chain ^ chain >> 29;
}

void resource_name(const struct plan *plan, uint64_t resource, char *name)
{
        snprintf(name, RESOURCE_MAX, "%s-%" PRIu64, plan->prefix, resource);
}

static int by_place(const void *a, const void *b)
{
        const struct update *left = a, *right = b;

        if (left->resource != right->resource)
                return left->resource < right->resource ? -1 : 1;
        return left->counter < right->counter ? -1 : left->counter > right->counter;
}

/* The updates of one resource, in the order of their counters: are they 1, 2, 3, ... and do their stamps make the chain? */
static uint64_t breaks_in(const struct update *updates, uint64_t count, const struct content *content)
{
        uint64_t chain = 0, breaks = 0;

        for (uint64_t i = 0; i < count; i++) {
                chain = chain_add(chain, updates[i].stamp);
                breaks += updates[i].counter != i + 1;
        }
        return breaks + (chain != content->chain);
}

static int read_last(const struct plan *plan, pawl_guard *guard, uint64_t resource, struct content *content)
{
        struct pawl_guard_data data;
        char name[RESOURCE_MAX];
        int code;

        *content = (struct content){0};
        resource_name(plan, resource, name);
        code = pawl_guard_get(guard, name, INT64_MAX, NULL, &data);
        if (code != PAWL_OK)
                return code == PAWL_NOT_FOUND ? PAWL_OK : code;
        if (!content_read(data.bytes, content))
                code = PAWL_CORRUPT;
        free(data.bytes);
        return code;
}

int judge(const struct plan *plan, struct score *score, pawl_guard *guard, struct verdict *verdict)
{
        struct update *updates = score->accepted_updates;
        uint64_t first = 0;
        int code = PAWL_OK;

        *verdict = (struct verdict){.accepted = atomic_load(&score->accepted)};
        if (verdict->accepted > score->room)
                return PAWL_FULL;
        qsort(updates, verdict->accepted, sizeof(*updates), by_place);
        for (uint64_t resource = 0; resource < RESOURCES && code == PAWL_OK; resource++) {
                struct content content;
                uint64_t end = first;

                while (end < verdict->accepted && updates[end].resource == resource)
                        end++;
                code = read_last(plan, guard, resource, &content);
                verdict->lost += end - first - content.counter;
                verdict->broken += breaks_in(updates + first, end - first, &content);
                first = end;
        }
        return code;
}
