/* watch.c - what has happened to a name between two polls: its holders, its queue and its history, then and now. A lock that
 * was taken and given back in between is found in the history. */
#include "watch.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Stores without a history of their own get it from the holders, within a second or two (src/engine/session/past.h). */
#define HISTORY_IS_LATE (5 * INT64_C(1000000000))
/* The least that an engine remembers of a name. */
enum { HISTORY_LEAST = 4 };

/* ---- sights ------------------------------------------------------------------------------------------------------ */

int sight_add(const struct pawl_entry *entry, void *arg)
{
        struct sight *sight = arg;

        if (sight->count == sight->room) {
                size_t room = sight->room ? 2 * sight->room : 8;
                struct pawl_entry *more = realloc(sight->entry, room * sizeof(*more));

                if (!more)
                        return sight->short_of_memory = true;
                sight->entry = more;
                sight->room = room;
        }
        if (!entry_copy(&sight->entry[sight->count], entry))
                return sight->short_of_memory = true;
        sight->count++;
        return 0;
}

void sight_clear(struct sight *sight)
{
        for (size_t i = 0; i < sight->count; i++)
                entry_free(&sight->entry[i]);
        free(sight->entry);
        *sight = (struct sight){0};
}

/* Some locks of other programs have no token: their owner has to do. */
static bool is_same_hold(const struct pawl_entry *a, const struct pawl_entry *b)
{
        return a->token == b->token && (a->token != 0 || !strcmp(a->owner, b->owner));
}

static struct pawl_entry *find(const struct sight *sight, uint32_t role, const struct pawl_entry *wanted)
{
        for (size_t i = 0; i < sight->count; i++)
                if (sight->entry[i].role == role && is_same_hold(&sight->entry[i], wanted))
                        return &sight->entry[i];
        return NULL;
}

static uint32_t count(const struct sight *sight, uint32_t role, const char *owner)
{
        uint32_t number = 0;

        for (size_t i = 0; i < sight->count; i++)
                number += sight->entry[i].role == role && (!owner || !strcmp(sight->entry[i].owner, owner));
        return number;
}

static void drop(struct sight *sight, struct pawl_entry *entry)
{
        entry_free(entry);
        *entry = sight->entry[--sight->count];
}

/* ---- names ------------------------------------------------------------------------------------------------------- */

struct watched *watched_new(const char *name)
{
        struct watched *watched = calloc(1, sizeof(*watched));

        if (!watched)
                return NULL;
        watched->busy_at = now_ns();
        watched->name = strdup(name);
        if (watched->name)
                return watched;
        free(watched);
        return NULL;
}

void watched_free(struct watched *watched)
{
        sight_clear(&watched->last);
        sight_clear(&watched->missing);
        free(watched->name);
        free(watched);
}

/* The new sight without its history. */
static void remember(struct watched *watched, struct sight *sight)
{
        for (size_t i = sight->count; i-- > 0;)
                if (sight->entry[i].role != PAWL_ROLE_HOLDER && sight->entry[i].role != PAWL_ROLE_WAITER)
                        drop(sight, &sight->entry[i]);
        sight_clear(&watched->last);
        watched->last = *sight;
        *sight = (struct sight){0};
        if (watched->last.count)
                watched->busy_at = now_ns();
}

bool watched_same_holders(const struct watched *watched, const struct sight *sight)
{
        for (size_t i = 0; i < sight->count; i++)
                if (sight->entry[i].role == PAWL_ROLE_HOLDER &&
                    !find(&watched->last, PAWL_ROLE_HOLDER, &sight->entry[i]))
                        return false;
        return count(sight, PAWL_ROLE_HOLDER, NULL) == count(&watched->last, PAWL_ROLE_HOLDER, NULL);
}

/* ---- the ends that were reported ---------------------------------------------------------------------------------- */

static bool has_ended(const struct watched *watched, uint64_t token)
{
        for (size_t i = 0; i < watched->end_count; i++)
                if (watched->ends[i] == token)
                        return true;
        return false;
}

/* Of too many the least goes: the history that shows it again would have to be older than all others. */
static void note_end(struct watched *watched, uint64_t token)
{
        size_t least = 0;

        if (!token)
                return;
        if (watched->end_count < ENDS_MAX) {
                watched->ends[watched->end_count++] = token;
                return;
        }
        for (size_t i = 1; i < ENDS_MAX; i++)
                if (watched->ends[i] < watched->ends[least])
                        least = i;
        if (watched->ends[least] > watched->settled)
                watched->settled = watched->ends[least];
        watched->ends[least] = token;
}

void watched_settle(struct watched *watched, const struct sight *sight, int64_t before_ms)
{
        for (size_t i = 0; i < sight->count; i++) {
                const struct pawl_entry *entry = &sight->entry[i];

                if (entry->role == PAWL_ROLE_PAST && entry->until_ms < before_ms && entry->token > watched->settled)
                        watched->settled = entry->token;
        }
}

/* ---- what has happened -------------------------------------------------------------------------------------------- */

/* One comparison. */
struct comparison {
        struct watched *watched;
        struct sight *now;
        happening_fn *report;
        uint32_t waiters;
};

/* In pawl_entry.flags of our copies: it was acquired since the last sight. */
#define JUST_GRANTED (UINT32_C(1) << 31)

static void report(const struct comparison *comparison, const char *event, const struct pawl_entry *entry,
                   int64_t at_ms, const char *message)
{
        comparison->report(&(struct happening){.event = event,
                                               .name = comparison->watched->name,
                                               .entry = entry,
                                               .at_ms = at_ms ? at_ms : unix_ms(),
                                               .waiters = comparison->waiters,
                                               .message = message});
}

static void report_acquired(const struct comparison *comparison, struct pawl_entry *entry)
{
        entry->flags |= JUST_GRANTED;
        report(comparison, "acquired", entry, entry->since_ms, NULL);
}

/* Nothing that is known of the past before this poll is in the history any more. */
static bool is_cut_off(const struct comparison *comparison)
{
        const struct watched *watched = comparison->watched;
        uint32_t pasts = 0;

        for (size_t i = 0; i < comparison->now->count; i++) {
                const struct pawl_entry *entry = &comparison->now->entry[i];

                if (entry->role != PAWL_ROLE_PAST)
                        continue;
                if (entry->token <= watched->settled || has_ended(watched, entry->token) ||
                    find(&watched->last, PAWL_ROLE_HOLDER, entry) || find(&watched->missing, PAWL_ROLE_HOLDER, entry))
                        return false;
                pasts++;
        }
        return pasts >= HISTORY_LEAST;
}

static void report_end(const struct comparison *comparison, const struct pawl_entry *past)
{
        char breaker[BREAKER_MAX + 1], text[sizeof(breaker) + 4];

        snprintf(text, sizeof(text), "by %s", breaker_text(past, breaker));
        report(comparison, pawl_how_text((int)past->how), past, past->until_ms, *breaker ? text : NULL);
}

/* The end of a hold, and its beginning if that was not seen. */
static void compare_past(const struct comparison *comparison, struct pawl_entry *past)
{
        struct watched *watched = comparison->watched;
        struct pawl_entry *missing = find(&watched->missing, PAWL_ROLE_HOLDER, past);
        bool known = missing || find(&watched->last, PAWL_ROLE_HOLDER, past);

        if (has_ended(watched, past->token) || (!known && past->token <= watched->settled))
                return;
        note_end(watched, past->token);
        if (missing)
                drop(&watched->missing, missing);
        if (!known)
                report_acquired(comparison, past);
        report_end(comparison, past);
}

/* The oldest first. */
static void compare_history(const struct comparison *comparison)
{
        if (is_cut_off(comparison))
                report(comparison, "missed", NULL, 0,
                       "the history is too short: others may have had the lock in between");
        for (size_t i = comparison->now->count; i-- > 0;)
                if (comparison->now->entry[i].role == PAWL_ROLE_PAST)
                        compare_past(comparison, &comparison->now->entry[i]);
}

/* A holder that is not there any more, and has no end yet. */
static void compare_vanished(const struct comparison *comparison)
{
        struct watched *watched = comparison->watched;

        for (size_t i = 0; i < watched->last.count; i++) {
                const struct pawl_entry *entry = &watched->last.entry[i];

                if (entry->role != PAWL_ROLE_HOLDER || has_ended(watched, entry->token) ||
                    find(comparison->now, PAWL_ROLE_HOLDER, entry))
                        continue;
                if (!watched->missing.count)
                        watched->missing_at = now_ns();
                sight_add(entry, &watched->missing);
        }
}

/* A past owner may be listed as a holder, too: the two are read one after the other. */
static void compare_holders(const struct comparison *comparison)
{
        struct watched *watched = comparison->watched;

        for (size_t i = comparison->now->count; i-- > 0;) {
                struct pawl_entry *entry = &comparison->now->entry[i];
                struct pawl_entry *missing;

                if (entry->role != PAWL_ROLE_HOLDER)
                        continue;
                missing = find(&watched->missing, PAWL_ROLE_HOLDER, entry);
                if (has_ended(watched, entry->token))
                        entry->role = PAWL_ROLE_PAST;
                else if (missing)
                        drop(&watched->missing, missing);
                else if (!find(&watched->last, PAWL_ROLE_HOLDER, entry))
                        report_acquired(comparison, entry);
        }
}

/* How many holds of that owner have begun since the last sight. */
static uint32_t grants_to(const struct comparison *comparison, const char *owner)
{
        uint32_t number = 0;

        for (size_t i = 0; i < comparison->now->count; i++)
                number += comparison->now->entry[i].flags & JUST_GRANTED &&
                          !strcmp(comparison->now->entry[i].owner, owner);
        return number;
}

/* Is it the first entry of that sight that waits for this owner? */
static bool is_first_of_owner(const struct sight *sight, const struct pawl_entry *entry)
{
        for (const struct pawl_entry *other = sight->entry; other < entry; other++)
                if (other->role == PAWL_ROLE_WAITER && !strcmp(other->owner, entry->owner))
                        return false;
        return entry->role == PAWL_ROLE_WAITER;
}

/* Waiters have no token: of each owner they are counted. */
static void compare_queue(const struct comparison *comparison)
{
        const struct sight *before = &comparison->watched->last, *now = comparison->now;

        for (size_t i = 0; i < before->count; i++) {
                const struct pawl_entry *entry = &before->entry[i];
                uint32_t then, still;

                if (!is_first_of_owner(before, entry))
                        continue;
                then = count(before, PAWL_ROLE_WAITER, entry->owner);
                still = count(now, PAWL_ROLE_WAITER, entry->owner) + grants_to(comparison, entry->owner);
                for (; still < then; still++)
                        report(comparison, "left", entry, 0, "it gave up, or died");
        }
        for (size_t i = 0; i < now->count; i++) {
                const struct pawl_entry *entry = &now->entry[i];
                uint32_t then = count(before, PAWL_ROLE_WAITER, entry->owner), place = 0;

                for (const struct pawl_entry *other = now->entry; other < entry; other++)
                        place += other->role == PAWL_ROLE_WAITER && !strcmp(other->owner, entry->owner);
                if (entry->role == PAWL_ROLE_WAITER && place >= then)
                        report(comparison, "waiting", entry, entry->since_ms, NULL);
        }
}

void watched_give_up(struct watched *watched, happening_fn *report_it)
{
        struct comparison comparison = {.watched = watched, .now = &watched->last, .report = report_it};

        comparison.waiters = count(&watched->last, PAWL_ROLE_WAITER, NULL);
        for (size_t i = 0; i < watched->missing.count; i++) {
                note_end(watched, watched->missing.entry[i].token);
                report(&comparison, "gone", &watched->missing.entry[i], 0, "how it ended is not known");
        }
        sight_clear(&watched->missing);
}

/* ---- the calls ---------------------------------------------------------------------------------------------------- */

void watched_begin(struct watched *watched, struct sight *sight, bool alone, happening_fn *report_it)
{
        struct comparison comparison = {
                .watched = watched, .now = sight, .report = report_it, .waiters = count(sight, PAWL_ROLE_WAITER, NULL)};

        for (size_t i = 0; i < sight->count; i++)
                if (sight->entry[i].role == PAWL_ROLE_HOLDER)
                        report(&comparison, "held", &sight->entry[i], sight->entry[i].since_ms, NULL);
        if (alone && !count(sight, PAWL_ROLE_HOLDER, NULL))
                report(&comparison, "free", NULL, 0, NULL);
        for (size_t i = 0; i < sight->count; i++)
                if (sight->entry[i].role == PAWL_ROLE_WAITER)
                        report(&comparison, "waiting", &sight->entry[i], sight->entry[i].since_ms, NULL);
        watched_settle(watched, sight, INT64_MAX);
        remember(watched, sight);
}

void watched_compare(struct watched *watched, struct sight *sight, bool history, happening_fn *report_it)
{
        struct comparison comparison = {
                .watched = watched, .now = sight, .report = report_it, .waiters = count(sight, PAWL_ROLE_WAITER, NULL)};

        compare_history(&comparison);
        compare_vanished(&comparison);
        if (!history)
                watched_give_up(watched, report_it);
        compare_holders(&comparison);
        compare_queue(&comparison);
        remember(watched, sight);
        if (watched->missing.count && now_ns() - watched->missing_at > HISTORY_IS_LATE)
                watched_give_up(watched, report_it);
}
