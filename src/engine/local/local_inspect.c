/* local_inspect.c - who holds what, who waits, who was before; and the administrator's hand. Lines are copied while the
 * bucket is ours and told when it no longer is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "local.h"

struct line {
        struct pawl_entry entry;
        char owner[PAWL_OWNER_MAX + 1];
        char note[PAWL_NOTE_MAX + 1];
        char by[PAST_OWNER];
        char reason[PAWL_BREAK_REASON_MAX + 1];
};

/* What was copied of one name. */
struct page {
        struct local *local;
        int64_t now;
        int64_t unix_offset; /* unix time less loop time, ns */
        char name[PAWL_NAME_MAX + 1];
        struct line *lines;
        size_t count;
        size_t room;
        bool short_of_memory;
};

static struct page page_new(struct local *local)
{
        struct page page = {.local = local, .now = local_now(local)};
        struct timespec ts;

        clock_gettime(CLOCK_REALTIME, &ts); /* only to show times to people */
        page.unix_offset = (int64_t)ts.tv_sec * SECOND + ts.tv_nsec - page.now;
        return page;
}

static struct line *page_line(struct page *page)
{
        struct line *line;

        if (page->count == page->room) {
                size_t room = page->room == 0 ? 16 : 2 * page->room;
                struct line *lines = realloc(page->lines, room * sizeof(*lines));

                if (lines == NULL) {
                        page->short_of_memory = true;
                        return NULL;
                }
                page->lines = lines;
                page->room = room;
        }
        line = &page->lines[page->count++];
        memset(line, 0, sizeof(*line));
        return line;
}

static int64_t unix_ms(const struct page *page, int64_t at)
{
        return (at + page->unix_offset) / MS;
}

static int64_t remaining_ms(const struct page *page, int64_t until)
{
        return until > page->now ? (until - page->now + MS - 1) / MS : 0;
}

static void copy_entry(struct page *page, const struct name *name, const struct entry *entry, enum pawl_role role)
{
        struct line *line = page_line(page);

        if (line == NULL)
                return;
        if (entry_owner(entry) == DETACHED)
                snprintf(line->owner, sizeof(line->owner), "%.*s", (int)sizeof(entry->taker) - 1, entry->taker);
        else
                process_owner(page->local, entry_owner(entry), line->owner, sizeof(line->owner));
        if ((entry_flags(entry) & NOTED) != 0)
                snprintf(line->note, sizeof(line->note), "%.*s", (int)sizeof(entry->note) - 1, entry->note);
        line->entry.role = role;
        line->entry.token = role == PAWL_ROLE_HOLDER ? entry->token : 0;
        line->entry.remaining_ms = role == PAWL_ROLE_HOLDER ? remaining_ms(page, entry->lease_until) : 0;
        line->entry.since_ms = unix_ms(page, entry->since);
        line->entry.mode = entry->mode;
        line->entry.max_holders = entry->max_holders;
        line->entry.age = entry->age;
        line->entry.waiters = name->waiters;
        line->entry.flags = (entry_flags(entry) & FIXED) != 0 ? PAWL_DETACH : 0;
}

static void copy_list(struct page *page, const struct name *name, uint32_t first, enum pawl_role role)
{
        uint32_t steps = page->local->entry_capacity;

        for (uint32_t reference = first; reference != 0 && steps-- > 0 && !page->short_of_memory;) {
                struct entry *entry = entry_at(page->local, reference);

                if (entry == NULL)
                        return;
                copy_entry(page, name, entry, role);
                reference = entry->next;
        }
}

/* Holders are linked with the latest in front; people expect the earliest. */
static void copy_holders(struct page *page, const struct name *name)
{
        size_t from = page->count;

        copy_list(page, name, name->holder_first, PAWL_ROLE_HOLDER);
        for (size_t i = from, j = page->count; i + 1 < j; i++, j--) {
                struct line swap = page->lines[i];

                page->lines[i] = page->lines[j - 1];
                page->lines[j - 1] = swap;
        }
}

static bool is_busy(const struct name *name, int64_t now)
{
        return name->holders > 0 || name->waiters > 0 || name->delay_until > now;
}

static void copy_free(struct page *page, const struct name *name)
{
        struct line *line;

        if (name->holders > 0 || !is_busy(name, page->now))
                return;
        line = page_line(page);
        if (line == NULL)
                return;
        line->entry.role = PAWL_ROLE_FREE;
        line->entry.remaining_ms = remaining_ms(page, name->delay_until);
        line->entry.waiters = name->waiters;
}

/* One that is written over while it is copied counts as none. */
static bool copy_breakage(struct local *local, const struct name *name, uint64_t token, struct line *line)
{
        for (uint32_t i = 0; i < BREAKAGES; i++) {
                const struct breakage *breakage = &local->header->breakage[i];

                if (atomic_load_explicit(&breakage->token, memory_order_acquire) != token ||
                    breakage->hash != name->hash)
                        continue;
                snprintf(line->by, sizeof(line->by), "%.*s", (int)sizeof(breakage->by) - 1, breakage->by);
                snprintf(line->reason, sizeof(line->reason), "%.*s", (int)sizeof(breakage->reason) - 1,
                         breakage->reason);
                atomic_thread_fence(memory_order_acquire);
                if (atomic_load_explicit(&breakage->token, memory_order_relaxed) == token)
                        return true;
        }
        return false;
}

static void copy_past(struct page *page, const struct name *name)
{
        for (uint32_t i = 1; i <= PASTS && i <= name->pasts; i++) {
                const struct past *past = &name->past[(name->pasts - i) % PASTS];
                struct line *line = past->token != 0 ? page_line(page) : NULL;

                if (line == NULL)
                        continue;
                snprintf(line->owner, sizeof(line->owner), "%.*s", (int)sizeof(past->owner) - 1, past->owner);
                if (past->noted != 0)
                        snprintf(line->note, sizeof(line->note), "%.*s", (int)sizeof(past->note) - 1, past->note);
                line->entry.role = PAWL_ROLE_PAST;
                line->entry.token = past->token;
                line->entry.how = past->how;
                line->entry.mode = past->mode;
                line->entry.since_ms = unix_ms(page, past->since);
                line->entry.until_ms = unix_ms(page, past->until);
                line->entry.waiters = name->waiters;
                if (past->how == PAWL_HOW_BROKEN && !copy_breakage(page->local, name, past->token, line))
                        line->by[0] = line->reason[0] = '\0';
        }
}

/* Hands the lines out; no bucket is ours any more. */
static void page_tell(struct page *page, struct inquiry *inquiry)
{
        for (size_t i = 0; i < page->count; i++) {
                struct line *line = &page->lines[i];

                line->entry.name = page->name;
                line->entry.owner = line->owner;
                line->entry.note = line->note;
                line->entry.broken_by = line->by;
                line->entry.reason = line->reason;
                inquiry->entry(inquiry, &line->entry);
        }
        page->count = 0;
}

/* Ends first what has run out or died, so that the dead are not shown as holders. */
static void refresh(struct local *local, struct name *name, int64_t now)
{
        if (queue_purge(local, name, now, true))
                queue_hand_off(local, name, now);
}

/* The name of an inquiry, with its bucket taken if PAWL_OK. PAWL_NOT_FOUND, PAWL_STUCK and why. */
static int find(struct errand *errand, struct bucket **bucket, struct name **name, struct pawl_why *why)
{
        struct local *local = errand->local;
        const char *text = errand->inquiry->name;
        size_t length = strlen(text);
        uint64_t hash = bucket_hash(local, text, length);
        bool bad = false;

        *bucket = bucket_of(local, hash);
        if (!bucket_take(local, *bucket))
                return word_blame(local, local->stuck.owner, why);
        *name = bucket_find(local, *bucket, hash, text, length, &bad);
        if (bad) {
                bucket_rebuild(local, *bucket);
                *name = bucket_find(local, *bucket, hash, text, length, &bad);
        }
        if (*name != NULL)
                return PAWL_OK;
        bucket_give(local, *bucket);
        return PAWL_NOT_FOUND;
}

static int page_end(struct page *page, struct inquiry *inquiry)
{
        snprintf(page->name, sizeof(page->name), "%s", inquiry->name);
        page_tell(page, inquiry);
        free(page->lines);
        return page->short_of_memory ? PAWL_NO_MEMORY : PAWL_OK;
}

static int try_show(struct errand *errand, struct pawl_why *why)
{
        struct page page = page_new(errand->local);
        struct bucket *bucket;
        struct name *name;
        int code = find(errand, &bucket, &name, why);

        if (code != PAWL_OK)
                return code == PAWL_NOT_FOUND ? PAWL_OK : code;
        refresh(errand->local, name, page.now);
        copy_holders(&page, name);
        copy_free(&page, name);
        copy_list(&page, name, name->queue_first, PAWL_ROLE_WAITER);
        bucket_give(errand->local, bucket);
        return page_end(&page, errand->inquiry);
}

static void show(struct engine *engine, struct inquiry *inquiry)
{
        errand_begin(local_of(engine), inquiry, try_show);
}

static int try_history(struct errand *errand, struct pawl_why *why)
{
        struct page page = page_new(errand->local);
        struct bucket *bucket;
        struct name *name;
        int code = find(errand, &bucket, &name, why);

        if (code != PAWL_OK)
                return code == PAWL_NOT_FOUND ? PAWL_OK : code;
        refresh(errand->local, name, page.now);
        copy_past(&page, name);
        bucket_give(errand->local, bucket);
        return page_end(&page, errand->inquiry);
}

static void history(struct engine *engine, struct inquiry *inquiry)
{
        errand_begin(local_of(engine), inquiry, try_history);
}

static bool starts_with(const struct name *name, const char *prefix, size_t length)
{
        return name->length >= length && name->length <= PAWL_NAME_MAX && memcmp(name->text, prefix, length) == 0;
}

/* One name of the listing: its holders, or what keeps it from being free. PAWL_STUCK: its bucket is taken. */
static int list_one(struct page *page, struct name *name, struct inquiry *inquiry, size_t length)
{
        struct local *local = page->local;
        struct bucket *bucket = bucket_of(local, name->hash);

        if (!bucket_take(local, bucket))
                return PAWL_STUCK;
        if (atomic_load(&name->used) == 1 && bucket_of(local, name->hash) == bucket &&
            starts_with(name, inquiry->name, length)) {
                refresh(local, name, page->now);
                copy_holders(page, name);
                copy_free(page, name);
                memcpy(page->name, name->text, name->length);
                page->name[name->length] = '\0';
        }
        bucket_give(local, bucket);
        page_tell(page, inquiry);
        return page->short_of_memory ? PAWL_NO_MEMORY : PAWL_OK;
}

/* Better a list without a name that nobody can look at than none: it is tried for a while, then left out. */
static bool keep_trying(struct errand *errand, int64_t now)
{
        if (errand->held != errand->at + 1) {
                errand->held = errand->at + 1;
                errand->skip_at = now + GIVE_UP;
        }
        errand->end = now + GIVE_UP;
        return now < errand->skip_at;
}

static int try_list(struct errand *errand, struct pawl_why *why)
{
        struct local *local = errand->local;
        struct page page = page_new(local);
        uint32_t ready = atomic_load_explicit(&local->header->names_ready, memory_order_acquire);
        size_t length = strlen(errand->inquiry->name);
        int code = PAWL_OK;

        for (; errand->at < ready && errand->at < local->name_capacity && code == PAWL_OK; errand->at++) {
                struct name *name = &local->names[errand->at];

                if (atomic_load(&name->used) != 1 || !is_busy(name, page.now) ||
                    !starts_with(name, errand->inquiry->name, length))
                        continue;
                code = list_one(&page, name, errand->inquiry, length);
                if (code == PAWL_STUCK && keep_trying(errand, page.now)) {
                        word_blame(local, local->stuck.owner, why);
                        break;
                }
                if (code == PAWL_STUCK)
                        code = PAWL_OK;
        }
        free(page.lines);
        return code;
}

static void list(struct engine *engine, struct inquiry *inquiry)
{
        errand_begin(local_of(engine), inquiry, try_list);
}

/* ---- interfering ------------------------------------------------------------------------------------------------- */

/* Written before the end that it is about, so that a reader who sees that finds this. Its place is ours: the 15 others are
 * used before it is used again. */
static void remember_breakage(struct local *local, const struct name *name, uint64_t token, const char *reason)
{
        struct header *header = local->header;
        uint64_t number = atomic_fetch_add(&header->breaks, 1);
        struct breakage *breakage = &header->breakage[number % BREAKAGES];

        atomic_store(&breakage->token, 0);
        atomic_thread_fence(memory_order_release);
        breakage->hash = name->hash;
        memcpy(breakage->by, local->brief, sizeof(breakage->by));
        snprintf(breakage->reason, sizeof(breakage->reason), "%s", reason ? reason : "");
        atomic_store(&breakage->token, token);
}

static bool break_holder(const struct errand *errand, struct name *name, struct entry *entry, int64_t now)
{
        struct local *local = errand->local;

        if (errand->inquiry->token != 0 && errand->inquiry->token != entry->token)
                return false;
        if (entry_state(entry) == GRANTED) {
                entry->lease_until = now; /* it has not begun to hold: it loses its turn, see queue_purge */
        } else {
                remember_breakage(local, name, entry->token, errand->inquiry->reason);
                queue_end(local, name, entry, PAWL_HOW_BROKEN, now);
        }
        return true;
}

static bool ask_holder(const struct errand *errand, struct name *name, struct entry *entry, int64_t now)
{
        (void)name;
        (void)now;
        atomic_fetch_or(&entry->flags, ASKED);
        if (entry_state(entry) == HELD)
                queue_notify(errand->local, entry);
        return true;
}

/* PAWL_BUSY: there are holders, and act wanted none of them. */
static int for_each_holder(struct errand *errand, struct pawl_why *why,
                           bool (*act)(const struct errand *, struct name *, struct entry *, int64_t))
{
        struct local *local = errand->local;
        struct bucket *bucket;
        struct name *name;
        int code = find(errand, &bucket, &name, why);
        int64_t now = local_now(local);
        uint32_t steps = local->entry_capacity;

        if (code != PAWL_OK)
                return code;
        refresh(local, name, now);
        code = name->holders > 0 ? PAWL_BUSY : PAWL_NOT_FOUND;
        for (uint32_t reference = name->holder_first; reference != 0 && steps-- > 0;) {
                struct entry *entry = entry_at(local, reference);

                if (entry == NULL)
                        break;
                reference = entry->next;
                if (act(errand, name, entry, now))
                        code = PAWL_OK;
        }
        queue_purge(local, name, now, false);
        queue_hand_off(local, name, now);
        bucket_give(local, bucket);
        errand->refused = code == PAWL_BUSY;
        return code;
}

static int try_break(struct errand *errand, struct pawl_why *why)
{
        return for_each_holder(errand, why, break_holder);
}

static void break_lock(struct engine *engine, struct inquiry *inquiry)
{
        errand_begin(local_of(engine), inquiry, try_break);
}

static int try_ask(struct errand *errand, struct pawl_why *why)
{
        return for_each_holder(errand, why, ask_holder);
}

static void ask(struct engine *engine, struct inquiry *inquiry)
{
        errand_begin(local_of(engine), inquiry, try_ask);
}

const struct engine_inspect local_inspect = {
        .list = list,
        .show = show,
        .history = history,
        .break_ = break_lock,
        .ask = ask,
        .examine = local_examine,
        .forget = keep_forget,
};
