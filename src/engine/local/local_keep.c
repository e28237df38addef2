/* local_keep.c - store and fetch: bytes beside a lock. What makes them one step with the lock:
 *
 * Who stores prepares a file, takes the stripe's lock (a byte of alive, given back by the kernel whatever becomes of him),
 * checks in the shared memory whether his grant still stands, renames, has it on disk if it is not brief, and lets go.
 * Who fetches reads what is there while nobody is inside. So whoever takes the lock after that check fetches the new
 * value, or waits for it; a check that comes later finds the lock another's, and nothing is changed. Readers hold
 * nothing: they keep no writer out.
 *
 * A process may be stopped inside. Others try again by a timer, and not for ever. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>

#include "local.h"

#define PAUSE_FIRST (200 * 1000) /* ns until the next try; doubled each time */
#define PAUSE_MOST (10 * MS)
#define KEEP_TRYING (3 * SECOND) /* less than the caller's patience: we can say why */

enum { SWEEP_EACH = 4 }; /* so many stores sweep once; the first of a process does */

/* ---- stripes ----------------------------------------------------------------------------------------------------- */

static struct flock stripe_range(uint8_t stripe, short type)
{
        return (struct flock){.l_type = type, .l_whence = SEEK_SET, .l_start = VALUE_LOCKS + stripe, .l_len = 1};
}

/* PAWL_BUSY: somebody is inside. */
static int stripe_take(struct local *local, uint8_t stripe, struct pawl_why *why)
{
        struct flock lock = stripe_range(stripe, F_WRLCK);

        if (fcntl(local->alive_fd, F_OFD_SETLK, &lock) == 0)
                return PAWL_OK;
        if (errno == EAGAIN || errno == EACCES)
                return PAWL_BUSY;
        return why_system(why, errno, "cannot lock %s/alive", local->path);
}

static void stripe_give(struct local *local, uint8_t stripe)
{
        struct flock lock = stripe_range(stripe, F_UNLCK);

        (void)fcntl(local->alive_fd, F_OFD_SETLK, &lock);
}

static int stripe_look(struct local *local, uint8_t stripe, struct pawl_why *why)
{
        struct flock lock = stripe_range(stripe, F_RDLCK);

        if (fcntl(local->alive_fd, F_OFD_GETLK, &lock) != 0)
                return why_system(why, errno, "cannot look at the locks of %s/alive", local->path);
        return lock.l_type == F_UNLCK ? PAWL_OK : PAWL_BUSY;
}

/* ---- one try ----------------------------------------------------------------------------------------------------- */

static bool stands(const struct errand *errand, const struct entry *entry)
{
        const struct local *local = errand->local;
        uint32_t owner = entry_owner(entry);

        return (owner == local->id || owner == DETACHED) && entry_state(entry) == HELD &&
               entry->uid[0] == errand->uid[0] && entry->uid[1] == errand->uid[1] && entry->token == errand->token &&
               entry->lease_until > local_now(local);
}

/* Whether the grant still holds the lock, at this moment. What is to be told of it waits: queue_flush follows. */
static int check_grant(const struct errand *errand, struct pawl_why *why)
{
        struct local *local = errand->local;
        struct bucket *bucket = &local->buckets[errand->bucket];
        bool ours;

        if (!file_is_there(local))
                return why_set(why, PAWL_LOST, "%s", local->gone);
        if (!bucket_take(local, bucket))
                return word_blame(local, local->stuck.owner, why);
        ours = stands(errand, &local->entries[errand->entry - 1]);
        word_give(&bucket->word);
        return ours ? PAWL_OK : PAWL_LOST;
}

static int try_store(struct errand *errand, struct pawl_why *why)
{
        struct local *local = errand->local;
        int code = stripe_take(local, errand->place.stripe, why);

        if (code != PAWL_OK)
                return code;
        hook(local, 62);
        code = check_grant(errand, why);
        hook(local, 63);
        if (code == PAWL_OK) {
                code = value_put(local, &errand->place, errand->temporary, errand->brief, why);
                if (code == PAWL_OK || code == PAWL_IN_DOUBT)
                        errand->temporary[0] = '\0';
        }
        hook(local, 65);
        stripe_give(local, errand->place.stripe);
        return code;
}

/* Looks before, or what is about to be replaced would be told to who holds the lock by now; and after, or what is not
 * on disk yet would be told. */
static int try_fetch(struct errand *errand, struct pawl_why *why)
{
        struct local *local = errand->local;
        struct inquiry *inquiry = errand->inquiry;
        struct pawl_value value;
        void *bytes = NULL;
        int found = PAWL_OK;
        int code = stripe_look(local, errand->place.stripe, why);

        if (code == PAWL_OK) {
                hook(local, 67);
                found = value_load(local, &errand->place, inquiry->name, &bytes, &value, why);
                hook(local, 68);
                code = stripe_look(local, errand->place.stripe, why);
        }
        if (code == PAWL_OK && found == PAWL_OK)
                inquiry->value(inquiry, &value);
        free(bytes);
        return code == PAWL_OK ? found : code;
}

/* Bounded, and now and then: what has run out is gone for everybody long before its file is. */
static void sweep(struct local *local)
{
        struct pawl_why why;
        uint8_t stripe;

        if (local->stored++ % SWEEP_EACH != 0)
                return;
        value_sweep_temporaries(local);
        loop_random(local->engine.host->loop, &stripe, sizeof(stripe));
        if (stripe_take(local, stripe, &why) != PAWL_OK)
                return;
        value_sweep(local, stripe);
        stripe_give(local, stripe);
}

/* ---- errands ----------------------------------------------------------------------------------------------------- */

static void errand_free(struct errand *errand)
{
        value_discard(errand->local, errand->temporary);
        if (errand->again.place != 0)
                loop_unset(errand->local->engine.host->loop, &errand->again);
        list_remove(&errand->listed);
        free(errand);
}

static void answer(struct errand *errand, int code, const struct pawl_why *why)
{
        struct inquiry *inquiry = errand->inquiry;
        struct local *local = errand->local;

        if (errand->stores && code == PAWL_OK)
                sweep(local);
        errand_free(errand);
        inquiry->answered(inquiry, code, code != PAWL_OK && why->text[0] != '\0' ? why->text : NULL);
        queue_flush(local);
}

/* Somebody is inside: again in a moment. False, and why, if that has been so for too long. */
static bool try_later(struct errand *errand, struct pawl_why *why)
{
        struct loop *loop = errand->local->engine.host->loop;
        int64_t now = loop_now(loop);

        if (now >= errand->end && why->code != PAWL_STUCK)
                why_set(why, PAWL_STUCK,
                        "a process has been storing something in %s for seconds; see whether one that uses it is "
                        "stopped",
                        errand->local->path);
        else if (now >= errand->end)
                return false;
        else if (loop_set(loop, &errand->again, now + errand->pause) != 0)
                why_set(why, PAWL_NO_MEMORY, "no memory");
        else
                return true;
        return false;
}

static void errand_run(struct errand *errand)
{
        struct pawl_why why = {0};
        int code = errand->attempt(errand, &why);

        if ((code == PAWL_BUSY && !errand->refused) || code == PAWL_STUCK) {
                if (try_later(errand, &why))
                        return;
                code = why.code;
        }
        answer(errand, code, &why);
}

static void on_again(struct timer *timer)
{
        struct errand *errand = container_of(timer, struct errand, again);

        errand->pause = errand->pause < PAUSE_MOST / 2 ? 2 * errand->pause : PAUSE_MOST;
        errand_run(errand);
}

/* NULL: answered, for want of memory. */
static struct errand *errand_new(struct local *local, struct inquiry *inquiry, errand_fn *attempt, int64_t patience)
{
        struct errand *errand = calloc(1, sizeof(*errand));

        if (errand == NULL) {
                inquiry->answered(inquiry, PAWL_NO_MEMORY, NULL);
                return NULL;
        }
        errand->inquiry = inquiry;
        errand->local = local;
        errand->again.fire = on_again;
        errand->pause = PAUSE_FIRST;
        errand->attempt = attempt;
        errand->end = local_now(local) + patience;
        list_append(&local->errands, &errand->listed);
        return errand;
}

void errand_begin(struct local *local, struct inquiry *inquiry, errand_fn *attempt)
{
        struct errand *errand = errand_new(local, inquiry, attempt, GIVE_UP);

        if (errand != NULL)
                errand_run(errand);
}

/* The clock is this machine's, and so is the store's. */
static int prepare(struct errand *errand, const char *name, struct pawl_why *why)
{
        const struct inquiry *inquiry = errand->inquiry;
        struct pawl_value value = {.size = inquiry->size, .token = errand->token, .stored_us = value_now_us()};
        int64_t until_us = inquiry->keep == 0 ? 0 : value.stored_us + (inquiry->keep + 999) / 1000;

        if (inquiry->size == 0)
                return PAWL_OK;
        errand->brief = value_is_brief(value.stored_us, until_us);
        memcpy(&value.data, &inquiry->data, sizeof(value.data)); /* only read, but the struct cannot say so */
        return value_prepare(errand->local, name, &value, until_us, errand->temporary, why);
}

static void store(struct engine *engine, const struct claim *claim, uint64_t token, struct inquiry *inquiry)
{
        struct local *local = local_of(engine);
        const struct part *part = part_of(claim);
        struct errand *errand = errand_new(local, inquiry, try_store, KEEP_TRYING);
        struct pawl_why why = {0};
        int code = PAWL_LOST;

        if (errand == NULL)
                return;
        errand->stores = true;
        value_place(claim->name, &errand->place);
        errand->entry = part->entry;
        errand->bucket = part->bucket;
        errand->uid[0] = part->uid[0];
        errand->uid[1] = part->uid[1];
        errand->token = token;
        if (part->view == VIEW_HELD)
                code = check_grant(errand, &why); /* before the disk is written to for nothing */
        if (code == PAWL_OK || code == PAWL_STUCK)
                code = prepare(errand, claim->name, &why);
        if (code == PAWL_OK)
                errand_run(errand);
        else
                answer(errand, code, &why);
}

static void fetch(struct engine *engine, struct inquiry *inquiry)
{
        struct errand *errand = errand_new(local_of(engine), inquiry, try_fetch, KEEP_TRYING);

        if (errand == NULL)
                return;
        value_place(inquiry->name, &errand->place);
        errand_run(errand);
}

void keep_forget(struct engine *engine, struct inquiry *inquiry)
{
        struct local *local = local_of(engine);

        for (struct list *at = local->errands.next; at != &local->errands; at = at->next) {
                struct errand *errand = container_of(at, struct errand, listed);

                if (errand->inquiry != inquiry)
                        continue;
                errand_free(errand);
                return;
        }
}

void keep_close(struct local *local)
{
        while (!list_empty(&local->errands))
                errand_free(list_first(&local->errands, struct errand, listed));
}

const struct engine_values local_values = {
        .store = store,
        .fetch = fetch,
};
