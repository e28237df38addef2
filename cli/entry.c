/* entry.c - copies of what the store says of a holder, a waiter or a past owner, and who broke the lock of that one. */
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static const char *copy_text(const char *text)
{
        return strdup(text ? text : "");
}

bool entry_copy(struct pawl_entry *copy, const struct pawl_entry *entry)
{
        *copy = *entry;
        copy->name = copy_text(entry->name);
        copy->owner = copy_text(entry->owner);
        copy->note = copy_text(entry->note);
        copy->broken_by = copy_text(entry->broken_by);
        copy->reason = copy_text(entry->reason);
        if (copy->name && copy->owner && copy->note && copy->broken_by && copy->reason)
                return true;
        entry_free(copy);
        return false;
}

void entry_free(struct pawl_entry *copy)
{
        free((char *)(uintptr_t)copy->name);
        free((char *)(uintptr_t)copy->owner);
        free((char *)(uintptr_t)copy->note);
        free((char *)(uintptr_t)copy->broken_by);
        free((char *)(uintptr_t)copy->reason);
}

const char *breaker_text(const struct pawl_entry *entry, char text[BREAKER_MAX + 1])
{
        bool why = entry->reason && *entry->reason;

        *text = 0;
        if (entry->broken_by && *entry->broken_by)
                snprintf(text, BREAKER_MAX + 1, "%s%s%s%s", entry->broken_by, why ? " (" : "", why ? entry->reason : "",
                         why ? ")" : "");
        return text;
}
